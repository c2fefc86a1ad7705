//! Beside the path: the checks after all queues have drained, and when a barrier is answered.
//! Called by world.rs; returns a divergence or nothing. Knows what X has drawn and what viewers
//! show; never how it got there.

use thinc_region::Rect;
use thinc_ring::RecordKind;

use super::scaled::expected;
use super::{BarrierRequest, Connection, Divergence, World};
use crate::datagrams::DatagramPath;
use crate::op::Op;
use crate::pipeline::Pipeline;
use crate::surface::{RGB, pixels};

impl<P: Pipeline> World<P> {
    /// Every pixel that was drawn before the barrier, and not since, must be shown, if it can still
    /// be `seen`.
    pub(super) fn check_barrier(
        &mut self,
        at: usize,
        number: u32,
        seen: bool,
    ) -> Result<(), Divergence> {
        let id = self.connections[at].id;
        let found = self
            .barriers
            .iter()
            .find(|(_, request)| request.viewer == id && request.number == number);
        let Some((&key, &BarrierRequest { answer, epoch, .. })) = found else {
            return Err(Divergence(format!(
                "viewer {at} got an answer to barrier {number}, which it did not request"
            )));
        };
        let Some((op, generation)) = answer else {
            return Err(Divergence(format!(
                "viewer {at}'s barrier {number} was answered before the driver answered it"
            )));
        };
        self.barriers.remove(&key);
        let (size, shown) = self.connections[at].pipeline.shown();
        if !seen
            || self.connections[at].lost
            || generation != self.x_generation()
            || epoch != self.session.epoch(id)
        {
            return Ok(());
        }
        let by = self.session.view(id);
        let screen = self.x.framebuffer();
        let (wanted_size, wanted) = expected(by.as_ref(), screen.size, &screen.pixels);
        if size != wanted_size {
            return Ok(());
        }
        // The newest op in any of the screen's pixels that contribute to this one.
        let changed = |(x, y): (usize, usize)| {
            let at = Rect::at(x as i32, y as i32, 1, 1);
            let of = by.map_or(at, |by| by.source(&at));
            pixels(&of).map(|(x, y)| self.x.changed()[screen.at(x, y)]).max().unwrap_or(0)
        };
        for (i, (shown, wanted)) in
            shown.iter().zip(&wanted).enumerate().filter(|(_, (a, b))| (*a ^ *b) & RGB != 0)
        {
            let place = (i % size.width as usize, i / size.width as usize);
            // A barrier covers that everything was sent, but not that it was lossless.
            let exact = !self.connections[at].pipeline.is_lossy(place);
            let changed = changed(place);
            if changed <= op && exact {
                return Err(Divergence(format!(
                    "barrier {number} of viewer {at} was answered before {place:?} was sent, \
                     drawn by op {changed} of {op}: {shown:06x}, not {wanted:06x}"
                )));
            }
        }
        self.tally.barriers += 1;
        Ok(())
    }

    /// Drains all queues, and compares.
    ///
    /// # Errors A viewer whose framebuffer differs from the X screen, or queues that do not drain.
    pub fn drain(&mut self) -> Result<(), Divergence> {
        self.x.finish();
        for connection in &mut self.connections {
            connection.stalled = false;
        }
        for _ in 0..60_000 {
            if self.x.unread() == 0 {
                self.x.publish_reliably(RecordKind::Idle);
            }
            self.apply(&Op::Shell)?;
            self.deliver()?;
            self.apply(&Op::Shell)?;
            let next = |c: &Connection<P>| {
                [
                    c.down.next_at(),
                    c.up.next_at(),
                    c.datagrams.as_ref().and_then(DatagramPath::next_at),
                ]
            };
            let next = self.connections.iter().flat_map(next).flatten().min();
            match next {
                Some(at) => self.now = self.now.max(at),
                None if self.is_drained() => {
                    let views = self
                        .connections
                        .iter()
                        .filter(|c| self.session.view(c.id).is_some())
                        .count();
                    self.tally.views += views as u64;
                    self.connections.iter_mut().for_each(|connection| connection.lost = false);
                    return self.compare();
                }
                None => self.now += 1_000,
            }
        }
        Err(Divergence(format!("the queues do not drain: {}", self.viewer_stats())))
    }

    fn is_drained(&self) -> bool {
        self.x.unread() == 0
            && self.connections.iter().all(|c| {
                let stats = self.session.stats(c.id).unwrap_or_default();
                c.jobs.is_empty()
                    && c.encodings.is_empty()
                    && c.inbox.is_empty()
                    && stats.in_flight == 0
            })
            && self.session.is_drained()
    }

    fn viewer_stats(&self) -> String {
        let viewers = self.connections.iter().map(|c| format!("{:?}", self.session.stats(c.id)));
        viewers.collect::<Vec<_>>().join("; ")
    }

    fn compare(&self) -> Result<(), Divergence> {
        let screen = self.x.framebuffer();
        for (at, connection) in self.connections.iter().enumerate() {
            let (size, shown) = connection.pipeline.shown();
            let view = self.session.view(connection.id);
            let (wanted_size, wanted) = expected(view.as_ref(), screen.size, &screen.pixels);
            if size != wanted_size {
                return Err(Divergence(format!(
                    "viewer {at} shows {size:?} instead of {wanted_size:?}"
                )));
            }
            let wrong = |(a, b): (&u32, &u32)| (a ^ b) & RGB != 0;
            let count = shown.iter().zip(&wanted).filter(|&pair| wrong(pair)).count();
            if let Some(i) = shown.iter().zip(&wanted).position(wrong) {
                let (x, y) = (i as u32 % size.width, i as u32 / size.width);
                return Err(Divergence(format!(
                    "viewer {at} differs from {} in {count} pixels, first ({x}, {y}): {:06x}, \
                     expected {:06x}",
                    view.map_or("the screen".to_owned(), |view| format!(
                        "the screen seen through {view:?}"
                    )),
                    shown[i] & RGB,
                    wanted[i] & RGB
                )));
            }
            let lossy = connection.pipeline.lossy_pixels();
            if lossy > 0 {
                return Err(Divergence(format!("viewer {at} still has {lossy} lossy pixels")));
            }
            if !connection.last_ends_frame && connection.datagrams.is_none()
                || connection.pipeline.is_in_frame()
            {
                return Err(Divergence(format!(
                    "viewer {at} still waits for the end of a displayed frame"
                )));
            }
        }
        Ok(())
    }
}
