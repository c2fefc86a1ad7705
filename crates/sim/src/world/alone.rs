//! Beside the path: what comes alone, which may be late, lost, or come twice.
//! Under world.rs, between a link that loses some of it and both ends.
//! Knows when it arrives; never what it says.

use thinc_protocol::frame::Frame;
use thinc_protocol::viewer::ViewerMessage;
use thinc_session_core::Arrival;

use super::{Connection, Divergence, World};
use crate::breakage::Breakage;
use crate::pipeline::{Fate, Pipeline};

impl<P: Pipeline> World<P> {
    /// What came by itself, and what is known by now of what was sent so.
    pub(super) fn deliver_datagrams(&mut self, at: usize) -> Result<(), Divergence> {
        let Connection { id, pipeline, lossy: Some(lossy), stalled, acked, upstream, deframer, .. } =
            &mut self.connections[at]
        else {
            return Ok(());
        };
        while !*stalled && let Some(update) = lossy.down.receive(self.now) {
            pipeline.handle_datagram(&update, self.now).map_err(Divergence)?;
        }
        if lossy.arrival == Arrival::Mixed {
            let mut said = Vec::new();
            if !*stalled {
                pipeline.handle_time(self.now);
                while pipeline.poll_datagram(&mut said) {
                    lossy.up.send(std::mem::take(&mut said), self.now, &mut self.random);
                }
            }
            while let Some(said) = lossy.up.receive(self.now) {
                let frame = Frame::whole(&said).map_err(|error| Divergence(error.to_string()))?;
                let message = ViewerMessage::decode(&frame).map_err(|error| Divergence(error.to_string()))?;
                if let ViewerMessage::Early(early) = &message {
                    deframer.push(upstream.beside(early.offset, &early.bytes));
                    continue;
                }
                let ViewerMessage::Arrived(arrived) = &message else {
                    return Err(Divergence(format!("viewer {at} says {message:?} beside its stream")));
                };
                let handled = self.session.handle_arrived(*id, arrived, self.now);
                handled.map_err(|violation| Divergence(format!("viewer {at} at {}: {violation}", self.now)))?;
                *acked = self.session.acked_in_order(*id);
            }
            return Ok(());
        }
        if !*stalled {
            let late_are_applied = self.breakage == Some(Breakage::LateUpdatesAreApplied);
            let fates = pipeline.settle(self.now, late_are_applied).map_err(Divergence)?;
            let known = self.now + lossy.delay;
            lossy.reports.extend(fates.into_iter().map(|(seq, fate)| (known, seq, fate)));
        }
        let now = self.now;
        let mut known: Vec<_> = lossy.reports.extract_if(.., |(at, ..)| *at <= now).collect();
        known.sort_unstable_by_key(|&(at, seq, _)| (at, seq));
        for (_, seq, fate) in known {
            if fate == Fate::Applied || self.breakage == Some(Breakage::DiscardedIsNotLost) {
                let applied = self.session.handle_applied(*id, seq..=seq, now);
                applied.map_err(|violation| Divergence(format!("viewer {at} at {now}: {violation}")))?;
                continue;
            }
            self.session.handle_lost(*id, seq, now);
            self.tally.lost += 1;
        }
        Ok(())
    }
}
