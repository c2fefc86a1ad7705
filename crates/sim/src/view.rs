//! The viewer of ids.rs: what a viewer has to do, said the plain way, for a stream and for updates in any order.
//! From a link, to what the viewer shows and says.
//! Knows the protocol; never how real pixels are encoded, nor what the session believes.

use std::collections::{BTreeMap, BTreeSet};

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::frame::{Deframer, Frame};
use thinc_protocol::limits::SESSION_FRAME_BYTES_MAX;
use thinc_protocol::session::{SessionMessage, Update};
use thinc_protocol::video::{Picture, Readiness, VideoCommand, VideoState};
use thinc_protocol::viewer::{Ack, ViewerMessage};
use thinc_region::{Rect, Region, Size};

use crate::breakage::Breakage;
use crate::datagrams::WAIT_MAX;
use crate::ids::{link_of, nearly};
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
    streams: BTreeMap<u16, Stream>,
    breakage: Option<Breakage>,
}

/// A video, and the decoder that is to show it.
#[derive(Debug)]
struct Stream {
    place: Rect,
    /// It has said that it is ready.
    ready: bool,
    /// The newest coded picture, on which the next leans.
    newest: u64,
    lost: bool,
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

/// What a picture makes of a clip.
enum Shown<'a> {
    /// These samples, which stand for its place.
    Samples(&'a [u8]),
    /// Something like the pixels.
    Nearly(u32),
    /// What was there.
    Nothing,
}

impl Stream {
    /// A coded picture: it must lean on the one that came before it, unless that is lost.
    fn decode(&mut self, id: u16, key: bool, data: &[u8]) -> Result<Shown<'static>, String> {
        let number = |at: usize| data.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (Some(leans_on), Some(picture)) = (number(0), number(8)) else { return Err("a short picture".into()) };
        if key != (leans_on == 0) {
            return Err(format!("picture {picture} of stream {id} leans on {leans_on}, and says otherwise"));
        }
        self.lost &= !key;
        if self.lost {
            return Ok(Shown::Nothing);
        }
        if !key && leans_on != self.newest {
            return Err(format!("picture {picture} of stream {id} leans on {leans_on}, not on {}", self.newest));
        }
        self.newest = picture;
        Ok(Shown::Nearly(nearly(picture as u32)))
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
            streams: BTreeMap::new(),
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
                self.streams.clear();
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
            | SessionMessage::Displays(_)
            | SessionMessage::Clip(_)
            | SessionMessage::Cursor(_)
            | SessionMessage::CursorBits(_)
            | SessionMessage::CursorColor(_)
            | SessionMessage::CursorMove { .. }
            | SessionMessage::CursorShow(_)
            | SessionMessage::Pong(_)
            | SessionMessage::Seen(_) => {}
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
                Command::Video(command) => self.show(command)?,
                other => return Err(format!("the ids pipeline never sends {other:?}")),
            }
        }
        Ok(())
    }

    fn show(&mut self, command: VideoCommand<'_>) -> Result<(), String> {
        let id = command.id();
        if let VideoCommand::Init { place, .. } = command {
            let stream = Stream { place, ready: false, newest: 0, lost: false };
            let taken = self.streams.insert(id, stream).is_some();
            return if taken { Err(format!("stream {id} begins and has not ended")) } else { Ok(()) };
        }
        let stream = self.streams.get_mut(&id).ok_or_else(|| format!("no stream {id} for {command:?}"))?;
        let Stream { place, ready, .. } = stream;
        match command {
            VideoCommand::Init { .. } | VideoCommand::SourceSize { .. } => {}
            VideoCommand::Move { x, y, .. } => *place = Rect::at(x, y, place.width(), place.height()),
            VideoCommand::PlaceSize { size, .. } => {
                *place = Rect::at(place.x1, place.y1, size.width as i32, size.height as i32);
            }
            VideoCommand::End { .. } => {
                self.streams.remove(&id);
            }
            VideoCommand::Next { .. } if !*ready => {
                return Err(format!("a picture of stream {id} before the viewer is ready"));
            }
            VideoCommand::Next { clip, picture, .. } => {
                let place = *place;
                if !place.contains(&clip.extents()) {
                    return Err(format!("{clip:?} of stream {id}, which is shown in {place:?}"));
                }
                let shown = match picture {
                    Picture::Plain { data, .. } if data.len() as u64 != 3 * place.area() => {
                        return Err(format!("{} bytes of stream {id} are shown in {place:?}", data.len()));
                    }
                    Picture::Plain { data, .. } => Shown::Samples(data),
                    Picture::Coded { key, data } => stream.decode(id, key, data)?,
                };
                self.show_picture(&clip, place, &shown);
            }
        }
        Ok(())
    }

    fn show_picture(&mut self, clip: &Region, place: Rect, shown: &Shown<'_>) {
        for (x, y) in clip.rects().iter().flat_map(pixels) {
            let at = y as usize * self.size.width as usize + x as usize;
            let sample = 3 * ((y - place.y1) * place.width() + x - place.x1) as usize;
            self.inexact[at] = !matches!(shown, Shown::Samples(_));
            match shown {
                Shown::Samples(data) => {
                    self.pixels[at] = u32::from_le_bytes([data[sample], data[sample + 1], data[sample + 2], 0]);
                }
                Shown::Nearly(pixel) => self.pixels[at] = *pixel,
                Shown::Nothing => {}
            }
        }
    }

    /// Says that decoders are ready which were not.
    pub(crate) fn answer(&mut self) {
        for (&id, stream) in self.streams.iter_mut().filter(|(_, stream)| !stream.ready) {
            stream.ready = true;
            ViewerMessage::Video(VideoState { id, readiness: Readiness::Ready }).encode(&mut self.out);
        }
    }

    /// Something happens to the newest stream's decoder; which stream that is.
    pub(crate) fn say(&mut self, readiness: Readiness) -> Option<u16> {
        let (&id, stream) = self.streams.iter_mut().next_back()?;
        stream.lost |= readiness == Readiness::Lost;
        Some(id)
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
                Command::Video(VideoCommand::Next { clip, .. }) => writes.add(&clip),
                Command::Video(_) => {}
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
