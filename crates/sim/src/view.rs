//! The viewer of ids.rs: what a viewer has to do, said the plain way, for a stream and for updates in any order.
//! From a link, to what the viewer shows and says.
//! Knows the protocol; never how real pixels are encoded, nor what the session believes.

use std::collections::BTreeSet;

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::frame::{Deframer, Frame};
use thinc_protocol::limits::SESSION_FRAME_BYTES_MAX;
use thinc_protocol::session::{SessionMessage, Update};
use thinc_protocol::viewer::{Ack, ViewerMessage};
use thinc_region::{Region, Size};

use crate::breakage::Breakage;
use crate::datagrams::WAIT_MAX;
use crate::ids::link_of;
use crate::pipeline::{Fate, Heard};
use crate::surface::pixels;

#[derive(Debug)]
pub(crate) struct View {
    deframer: Deframer,
    pub(crate) size: Size,
    epoch: u32,
    pub(crate) pixels: Vec<u32>,
    /// Which of them came lossy.
    pub(crate) inexact: Vec<bool>,
    pub(crate) newest: u64,
    acked: u64,
    pub(crate) out: Vec<u8>,
    pub(crate) heard: Vec<Heard>,
    pub(crate) inputs: u32,
    pub(crate) barriers: u32,
    pub(crate) barriers_waiting: u32,
    /// What all packed commands so far give.
    link: u64,
    order: AnyOrder,
    breakage: Option<Breakage>,
}

/// What it takes to apply updates that come in any order.
#[derive(Debug, Default)]
struct AnyOrder {
    /// Frames that may have to wait for others, and since when.
    held: Vec<(Micros, Vec<u8>)>,
    /// Updates that nobody has to wait for any more.
    done: BTreeSet<u64>,
    /// The newest update that wrote each pixel, and the newest whose COPY read it.
    written: Vec<u64>,
    read: Vec<u64>,
}

pub(crate) fn copy_pixels<T: Copy>(pixels_of: &mut [T], width: usize, copy: (&Region, i32, i32)) {
    let (region, dx, dy) = copy;
    // All read before any is written, said the plain way.
    let at = |x: i32, y: i32| y as usize * width + x as usize;
    let read: Vec<(usize, T)> =
        region.rects().iter().flat_map(pixels).map(|(x, y)| (at(x, y), pixels_of[at(x - dx, y - dy)])).collect();
    for (at, pixel) in read {
        pixels_of[at] = pixel;
    }
}

/// Places of pixels, by what an update does with them.
struct Touched {
    written: Vec<usize>,
    read: Vec<usize>,
}

impl AnyOrder {
    /// The newest update that must not come after one that does this.
    fn newest_under(&self, touched: &Touched) -> u64 {
        let written = touched.written.iter().map(|&at| self.written[at].max(self.read[at]));
        let read = touched.read.iter().map(|&at| self.written[at]);
        written.chain(read).max().unwrap_or(0)
    }

    fn note(&mut self, touched: &Touched, seq: u64) {
        touched.written.iter().for_each(|&at| self.written[at] = self.written[at].max(seq));
        touched.read.iter().for_each(|&at| self.read[at] = self.read[at].max(seq));
    }
}

/// The update in a frame of its own.
fn with_update<R>(bytes: &[u8], take: impl FnOnce(&Update<'_>) -> R) -> R {
    let mut deframer = Deframer::new(SESSION_FRAME_BYTES_MAX);
    deframer.push(bytes);
    let frame = deframer.next().expect("it was a frame when it was sent").expect("a datagram is whole");
    match SessionMessage::decode(&frame) {
        Ok(SessionMessage::Update(update)) => take(&update),
        other => panic!("only updates are datagrams: {other:?}"),
    }
}

impl View {
    pub(crate) fn new(breakage: Option<Breakage>) -> View {
        View {
            deframer: Deframer::new(SESSION_FRAME_BYTES_MAX),
            size: Size::default(),
            epoch: 0,
            pixels: Vec::new(),
            inexact: Vec::new(),
            newest: 0,
            acked: 0,
            out: Vec::new(),
            heard: Vec::new(),
            inputs: 0,
            barriers: 0,
            barriers_waiting: 0,
            link: 0,
            order: AnyOrder::default(),
            breakage,
        }
    }

    pub(crate) fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut deframer = std::mem::replace(&mut self.deframer, Deframer::new(SESSION_FRAME_BYTES_MAX));
        deframer.push(bytes);
        while let Some(frame) = deframer.next().map_err(|error| error.to_string())? {
            self.handle_frame(&frame)?;
        }
        self.deframer = deframer;
        Ok(())
    }

    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<(), String> {
        match SessionMessage::decode(frame).map_err(|error| error.to_string())? {
            SessionMessage::Geometry(geometry) => {
                if geometry.epoch <= self.epoch {
                    return Err(format!("epoch {} after {}", geometry.epoch, self.epoch));
                }
                self.heard.push(Heard::Geometry);
                self.epoch = geometry.epoch;
                self.size = geometry.size;
                let area = geometry.size.area() as usize;
                self.pixels = vec![0; area];
                self.inexact = vec![false; area];
                self.order.written = vec![0; area];
                self.order.read = vec![0; area];
            }
            SessionMessage::Update(mut update) => {
                update.commands = self.unpack(&update)?;
                if update.seq != self.newest + 1 || update.after >= update.seq {
                    return Err(format!("update {} after {} ({})", update.seq, self.newest, update.after));
                }
                self.newest = update.seq;
                self.heard.push(Heard::Update { end_of_frame: update.end_of_frame });
                if update.epoch == self.epoch {
                    let touched = self.touched(&update)?;
                    let newest = self.order.newest_under(&touched);
                    if update.after < newest && newest > self.acked {
                        return Err(format!("update {} is after {}, and lies over {newest}", update.seq, update.after));
                    }
                    self.order.note(&touched, update.seq);
                }
                self.apply(&update)?;
            }
            SessionMessage::Barrier(number) => {
                self.barriers_waiting -= 1;
                self.heard.push(Heard::Barrier(number));
            }
            SessionMessage::Close(close) => return Err(format!("closed: {}", close.reason)),
            SessionMessage::Hello(_)
            | SessionMessage::Cache(_)
            | SessionMessage::Cursor(_)
            | SessionMessage::CursorBits(_)
            | SessionMessage::CursorColor(_)
            | SessionMessage::CursorMove { .. }
            | SessionMessage::CursorShow(_)
            | SessionMessage::Pong(_) => {}
        }
        Ok(())
    }

    /// The commands of a packed update, which must be the next of the chain.
    fn unpack<'u>(&mut self, update: &Update<'u>) -> Result<&'u [u8], String> {
        let Some(packed) = update.packed else { return Ok(update.commands) };
        let (before, commands) = update.commands.split_first_chunk().ok_or("a packed update without a number")?;
        let expected = if packed.anew { 0 } else { self.link };
        if u64::from_le_bytes(*before) != expected || commands.len() != packed.len as usize {
            return Err(format!("packed update {} is not the next of its stream", update.seq));
        }
        self.link = link_of(expected, commands);
        Ok(commands)
    }

    fn apply(&mut self, update: &Update<'_>) -> Result<(), String> {
        if let Some(echo) = update.echo {
            if echo == 0 || echo > self.inputs {
                return Err(format!("echo of input {echo}, which was not sent"));
            }
            self.heard.push(Heard::Echo(echo));
        }
        if update.epoch != self.epoch {
            return Ok(());
        }
        let width = self.size.width as usize;
        for command in CommandReader::new(update.commands, self.size) {
            match command.map_err(|error| error.to_string())? {
                Command::Copy { region, dx, dy } => {
                    copy_pixels(&mut self.pixels, width, (&region, dx, dy));
                    if self.breakage != Some(Breakage::ViewerMovesExactPixels) {
                        copy_pixels(&mut self.inexact, width, (&region, dx, dy));
                    }
                }
                Command::Raw { rect, encoding: encoding @ (Encoding::Plain | Encoding::Jpeg), data } => {
                    let mut data = data.chunks_exact(3);
                    for (x, y) in pixels(&rect) {
                        let Some(&[b, g, r]) = data.next() else { return Err("short RAW".into()) };
                        let at = y as usize * width + x as usize;
                        self.pixels[at] = u32::from_le_bytes([b, g, r, 0]);
                        self.inexact[at] = encoding == Encoding::Jpeg;
                    }
                }
                other => return Err(format!("the ids pipeline never sends {other:?}")),
            }
        }
        Ok(())
    }

    /// Says which update was applied last, where they come in order.
    pub(crate) fn acknowledge(&mut self) {
        if self.acked != self.newest {
            self.acked = self.newest;
            ViewerMessage::Ack(Ack { update: self.newest, presented: None }).encode(&mut self.out);
        }
    }

    /// An update came by itself.
    pub(crate) fn hold(&mut self, bytes: &[u8], now: Micros) {
        self.order.held.push((now, bytes.to_vec()));
    }

    /// Applies what needs not wait, or has waited long enough; discards what came after something newer was applied over it.
    pub(crate) fn settle(&mut self, now: Micros, late_are_applied: bool) -> Result<Vec<(u64, Fate)>, String> {
        let mut fates = Vec::new();
        let mut held = std::mem::take(&mut self.order.held);
        held.sort_by_key(|(_, bytes)| with_update(bytes, |update| update.seq));
        // One that is applied may be what the next waits for: their numbers grow.
        for (since, bytes) in held {
            let fate = with_update(&bytes, |update| {
                let ready = update.after == 0 || self.order.done.contains(&update.after) || now > since + WAIT_MAX;
                if update.epoch > self.epoch || update.epoch == self.epoch && !ready {
                    return Ok(None);
                }
                self.order.done.insert(update.seq);
                let fate =
                    if update.epoch == self.epoch { self.settle_one(update, late_are_applied)? } else { Fate::Applied };
                Ok::<_, String>(Some((update.seq, fate)))
            })?;
            match fate {
                Some(fate) => fates.push(fate),
                None => self.order.held.push((since, bytes)),
            }
        }
        Ok(fates)
    }

    fn settle_one(&mut self, update: &Update<'_>, late_are_applied: bool) -> Result<Fate, String> {
        let touched = self.touched(update)?;
        if self.order.newest_under(&touched) > update.seq && !late_are_applied {
            return Ok(Fate::Discarded);
        }
        self.order.note(&touched, update.seq);
        self.apply(update)?;
        Ok(Fate::Applied)
    }

    fn touched(&self, update: &Update<'_>) -> Result<Touched, String> {
        let (mut writes, mut reads) = (Region::new(), Region::new());
        for command in CommandReader::new(update.commands, self.size) {
            match command.map_err(|error| error.to_string())? {
                Command::Copy { region, dx, dy } => {
                    reads.add(&region.translated(-dx, -dy));
                    writes.add(&region);
                }
                Command::Raw { rect, .. } => writes.add_rect(rect),
                other => return Err(format!("the ids pipeline never sends {other:?}")),
            }
        }
        let width = self.size.width as usize;
        let places = |region: &Region| {
            let places = region.rects().iter().flat_map(pixels).map(|(x, y)| y as usize * width + x as usize);
            places.collect()
        };
        Ok(Touched { written: places(&writes), read: places(&reads) })
    }
}
