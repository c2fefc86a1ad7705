//! The viewer of ids.rs: a plain model of a viewer, for an ordered stream and for updates in any
//! order. From a hash, to the shown pixels and the messages back. Knows the protocol; never how
//! real pixels are encoded, nor what the session believes.

use std::collections::{BTreeMap, BTreeSet};

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::limits::SESSION_MESSAGE_BYTES_MAX;
use thinc_protocol::session::{SessionMessage, Update};
use thinc_protocol::video::{DecoderState, FrameData, VideoCommand, VideoStatus};
use thinc_protocol::viewer::{Ack, ViewerMessage};
use thinc_region::{Rect, Region, Size};

use crate::breakage::Breakage;
use crate::datagrams::WAIT_MAX;
use crate::ids::{chain_hash, lossy_value};
use crate::pipeline::{Fate, Notice};
use crate::surface::pixels;

#[derive(Debug)]
pub(crate) struct ModelViewer {
    deframer: Deframer,
    pub(crate) size: Size,
    epoch: u32,
    pub(crate) pixels: Vec<u32>,
    /// True for lossy pixels.
    pub(crate) lossy: Vec<bool>,
    pub(crate) newest: u64,
    acked: u64,
    pub(crate) out: Vec<u8>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) inputs: u32,
    pub(crate) barriers: u32,
    pub(crate) barriers_waiting: u32,
    /// Hash of all packed commands so far.
    hash: u64,
    order: UnorderedState,
    streams: BTreeMap<u16, Stream>,
    breakage: Option<Breakage>,
}

/// A video stream and its decoder.
#[derive(Debug)]
struct Stream {
    place: Rect,
    /// It has reported that it is ready.
    ready: bool,
    /// The newest coded frame, which the next one refers to.
    newest: u64,
    lost: bool,
}

/// State to apply updates in any order.
#[derive(Debug, Default)]
struct UnorderedState {
    /// Messages that may have to wait for others, and since when.
    waiting: Vec<(Micros, Vec<u8>)>,
    /// Updates that no other has to wait for any more.
    done: BTreeSet<u64>,
    /// The newest update that wrote each pixel, and the newest whose COPY read it.
    written: Vec<u64>,
    read: Vec<u64>,
}

pub(crate) fn copy_pixels<T: Copy>(pixels_of: &mut [T], width: usize, copy: (&Region, i32, i32)) {
    let (region, dx, dy) = copy;
    // All pixels are read before any is written.
    let at = |x: i32, y: i32| y as usize * width + x as usize;
    let read: Vec<(usize, T)> = region
        .rects()
        .iter()
        .flat_map(pixels)
        .map(|(x, y)| (at(x, y), pixels_of[at(x - dx, y - dy)]))
        .collect();
    for (at, pixel) in read {
        pixels_of[at] = pixel;
    }
}

/// Indices of the pixels that an update writes and reads.
struct Touched {
    written: Vec<usize>,
    read: Vec<usize>,
}

impl UnorderedState {
    /// The newest update over which this one must not be applied.
    fn newest_conflict(&self, touched: &Touched) -> u64 {
        let written = touched.written.iter().map(|&at| self.written[at].max(self.read[at]));
        let read = touched.read.iter().map(|&at| self.written[at]);
        written.chain(read).max().unwrap_or(0)
    }

    fn note(&mut self, touched: &Touched, seq: u64) {
        touched.written.iter().for_each(|&at| self.written[at] = self.written[at].max(seq));
        touched.read.iter().for_each(|&at| self.read[at] = self.read[at].max(seq));
    }
}

/// Decodes the update in a datagram.
fn with_update<R>(bytes: &[u8], take: impl FnOnce(&Update<'_>) -> R) -> R {
    let mut deframer = Deframer::new(SESSION_MESSAGE_BYTES_MAX);
    deframer.push(bytes);
    let frame =
        deframer.next().expect("it was a frame when it was sent").expect("a datagram is complete");
    match SessionMessage::decode(&frame) {
        Ok(SessionMessage::Update(update)) => take(&update),
        other => panic!("only updates are datagrams: {other:?}"),
    }
}

/// What a video frame shows in its clip.
enum Shown<'a> {
    /// These samples, one for each pixel of its place.
    Samples(&'a [u8]),
    /// Lossy pixels.
    Lossy(u32),
    /// Nothing new.
    Nothing,
}

impl Stream {
    /// A coded frame must refer to the one before it, unless the decoder needs a keyframe.
    fn decode(&mut self, id: u16, key: bool, data: &[u8]) -> Result<Shown<'static>, String> {
        let number = |at: usize| data.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let (Some(reference), Some(picture)) = (number(0), number(8)) else {
            return Err("a frame is too short".into());
        };
        if key != (reference == 0) {
            return Err(format!(
                "frame {picture} of stream {id} refers to {reference} and has a wrong keyframe flag"
            ));
        }
        self.lost &= !key;
        if self.lost {
            return Ok(Shown::Nothing);
        }
        if !key && reference != self.newest {
            return Err(format!(
                "frame {picture} of stream {id} refers to {reference}, not to {}",
                self.newest
            ));
        }
        self.newest = picture;
        Ok(Shown::Lossy(lossy_value(picture as u32)))
    }
}

impl ModelViewer {
    pub(crate) fn new(breakage: Option<Breakage>) -> ModelViewer {
        ModelViewer {
            deframer: Deframer::new(SESSION_MESSAGE_BYTES_MAX),
            size: Size::default(),
            epoch: 0,
            pixels: Vec::new(),
            lossy: Vec::new(),
            newest: 0,
            acked: 0,
            out: Vec::new(),
            notices: Vec::new(),
            inputs: 0,
            barriers: 0,
            barriers_waiting: 0,
            hash: 0,
            order: UnorderedState::default(),
            streams: BTreeMap::new(),
            breakage,
        }
    }

    pub(crate) fn handle_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut deframer =
            std::mem::replace(&mut self.deframer, Deframer::new(SESSION_MESSAGE_BYTES_MAX));
        deframer.push(bytes);
        while let Some(frame) = deframer.next().map_err(|error| error.to_string())? {
            self.handle_frame(&frame)?;
        }
        self.deframer = deframer;
        Ok(())
    }

    fn handle_frame(&mut self, frame: &MessageFrame<'_>) -> Result<(), String> {
        match SessionMessage::decode(frame).map_err(|error| error.to_string())? {
            SessionMessage::Geometry(geometry) => {
                if geometry.epoch <= self.epoch {
                    return Err(format!("epoch {} after {}", geometry.epoch, self.epoch));
                }
                self.notices.push(Notice::Geometry);
                self.epoch = geometry.epoch;
                self.size = geometry.size;
                let area = geometry.size.area() as usize;
                self.pixels = vec![0; area];
                self.lossy = vec![false; area];
                self.streams.clear();
                self.order.written = vec![0; area];
                self.order.read = vec![0; area];
            }
            SessionMessage::Update(mut update) => {
                update.commands = self.unpack(&update)?;
                if update.seq != self.newest + 1 || update.after >= update.seq {
                    return Err(format!(
                        "update {} after {} ({})",
                        update.seq, self.newest, update.after
                    ));
                }
                self.newest = update.seq;
                self.notices.push(Notice::Update { end_of_frame: update.end_of_frame });
                if update.epoch == self.epoch {
                    let touched = self.touched(&update)?;
                    let newest = self.order.newest_conflict(&touched);
                    if update.after < newest && newest > self.acked {
                        return Err(format!(
                            "update {} names {} as its predecessor, but overlaps {newest}",
                            update.seq, update.after
                        ));
                    }
                    self.order.note(&touched, update.seq);
                }
                self.apply(&update)?;
            }
            SessionMessage::Barrier(number) => {
                self.barriers_waiting -= 1;
                self.notices.push(Notice::Barrier(number));
            }
            SessionMessage::Close(close) => return Err(format!("closed: {}", close.reason)),
            SessionMessage::Hello(_)
            | SessionMessage::Cache(_)
            | SessionMessage::Displays(_)
            | SessionMessage::Clip(_)
            | SessionMessage::File(_)
            | SessionMessage::Cursor(_)
            | SessionMessage::CursorBits(_)
            | SessionMessage::CursorColor(_)
            | SessionMessage::CursorMove { .. }
            | SessionMessage::CursorShow(_)
            | SessionMessage::Gamma(_)
            | SessionMessage::RelativeWanted(_)
            | SessionMessage::People(_)
            | SessionMessage::Shared(_)
            | SessionMessage::Invitations(_)
            | SessionMessage::PersonPointer(_)
            | SessionMessage::Notice(_)
            | SessionMessage::BriefNotice(_)
            | SessionMessage::Name(_)
            | SessionMessage::Graphics(_)
            | SessionMessage::ClipPolicy(_)
            | SessionMessage::SoundFormat(_)
            | SessionMessage::Sound(_)
            | SessionMessage::SoundPlayers(_)
            | SessionMessage::MicrophoneWant(_)
            | SessionMessage::Pong(_)
            | SessionMessage::InputReceived(_) => {}
        }
        Ok(())
    }

    /// The commands of a packed update, which must be the next one of the chain.
    fn unpack<'u>(&mut self, update: &Update<'u>) -> Result<&'u [u8], String> {
        let Some(packed) = update.packed else { return Ok(update.commands) };
        let (before, commands) =
            update.commands.split_first_chunk().ok_or("a packed update without a number")?;
        let expected = if packed.reset { 0 } else { self.hash };
        if u64::from_le_bytes(*before) != expected || commands.len() != packed.len as usize {
            return Err(format!("packed update {} is not the next of its stream", update.seq));
        }
        self.hash = chain_hash(expected, commands);
        Ok(commands)
    }

    fn apply(&mut self, update: &Update<'_>) -> Result<(), String> {
        if let Some(echo) = update.echo {
            if echo == 0 || echo > self.inputs {
                return Err(format!("echo of input {echo}, which was not sent"));
            }
            self.notices.push(Notice::Echo(echo));
        }
        if update.epoch != self.epoch {
            return Ok(());
        }
        let width = self.size.width as usize;
        for command in CommandReader::new(update.commands, self.size) {
            match command.map_err(|error| error.to_string())? {
                Command::Copy { region, dx, dy } => {
                    copy_pixels(&mut self.pixels, width, (&region, dx, dy));
                    if self.breakage != Some(Breakage::ViewerCopyIsLossless) {
                        copy_pixels(&mut self.lossy, width, (&region, dx, dy));
                    }
                }
                Command::Raw {
                    rect,
                    encoding: encoding @ (Encoding::Plain | Encoding::Jpeg),
                    data,
                } => {
                    let mut data = data.chunks_exact(3);
                    for (x, y) in pixels(&rect) {
                        let Some(&[b, g, r]) = data.next() else { return Err("short RAW".into()) };
                        let at = y as usize * width + x as usize;
                        self.pixels[at] = u32::from_le_bytes([b, g, r, 0]);
                        self.lossy[at] = encoding == Encoding::Jpeg;
                    }
                }
                Command::Video(command) => self.execute_video(command)?,
                other => return Err(format!("the ids pipeline never encodes {other:?}")),
            }
        }
        Ok(())
    }

    fn execute_video(&mut self, command: VideoCommand<'_>) -> Result<(), String> {
        let id = command.id();
        if let VideoCommand::Init { place, .. } = command {
            let stream = Stream { place, ready: false, newest: 0, lost: false };
            let taken = self.streams.insert(id, stream).is_some();
            return if taken {
                Err(format!("stream {id} begins again before its end"))
            } else {
                Ok(())
            };
        }
        let stream =
            self.streams.get_mut(&id).ok_or_else(|| format!("no stream {id} for {command:?}"))?;
        let Stream { place, ready, .. } = stream;
        match command {
            VideoCommand::Init { .. } | VideoCommand::SourceSize { .. } => {}
            VideoCommand::Move { x, y, .. } => {
                *place = Rect::at(x, y, place.width(), place.height())
            }
            VideoCommand::PlaceSize { size, .. } => {
                *place = Rect::at(place.x1, place.y1, size.width as i32, size.height as i32);
            }
            VideoCommand::End { .. } => {
                self.streams.remove(&id);
            }
            VideoCommand::Next { .. } if !*ready => {
                return Err(format!("a frame of stream {id} comes before the viewer is ready"));
            }
            VideoCommand::Next { clip, frame, time, .. } => {
                let place = *place;
                if !place.contains(&clip.extents()) {
                    return Err(format!(
                        "the clip {clip:?} of stream {id} exceeds its place {place:?}"
                    ));
                }
                let shown = match frame {
                    FrameData::Plain { data, .. } if data.len() as u64 != 3 * place.area() => {
                        return Err(format!(
                            "a frame of stream {id} has {} bytes for the place {place:?}",
                            data.len()
                        ));
                    }
                    FrameData::Plain { data, .. } => Shown::Samples(data),
                    FrameData::Pixels { .. } => {
                        return Err(format!("stream {id} is for no right eye, but has pixels"));
                    }
                    FrameData::Coded { keyframe, data } => {
                        stream.decode(id, keyframe.is_some(), data)?
                    }
                };
                self.show_frame(&clip, place, &shown);
                if !matches!(shown, Shown::Nothing) {
                    self.notices.push(Notice::Frame(time));
                }
            }
        }
        Ok(())
    }

    fn show_frame(&mut self, clip: &Region, place: Rect, shown: &Shown<'_>) {
        for (x, y) in clip.rects().iter().flat_map(pixels) {
            let at = y as usize * self.size.width as usize + x as usize;
            let sample = 3 * ((y - place.y1) * place.width() + x - place.x1) as usize;
            self.lossy[at] = !matches!(shown, Shown::Samples(_));
            match shown {
                Shown::Samples(data) => {
                    self.pixels[at] =
                        u32::from_le_bytes([data[sample], data[sample + 1], data[sample + 2], 0]);
                }
                Shown::Lossy(pixel) => self.pixels[at] = *pixel,
                Shown::Nothing => {}
            }
        }
    }

    /// Reports that new decoders are ready.
    pub(crate) fn report_decoders(&mut self) {
        for (&id, stream) in self.streams.iter_mut().filter(|(_, stream)| !stream.ready) {
            stream.ready = true;
            ViewerMessage::Video(VideoStatus { id, decoder: DecoderState::Ready })
                .encode(&mut self.out);
        }
    }

    /// Changes the decoder state of the newest stream; returns that stream.
    pub(crate) fn set_decoder_state(&mut self, decoder: DecoderState) -> Option<u16> {
        let (&id, stream) = self.streams.iter_mut().next_back()?;
        stream.lost |= decoder == DecoderState::NeedsKeyframe;
        Some(id)
    }

    /// Acknowledges the last applied update of the ordered stream.
    pub(crate) fn acknowledge(&mut self) {
        if self.acked != self.newest {
            self.acked = self.newest;
            ViewerMessage::Ack(Ack { update: self.newest, presented: None }).encode(&mut self.out);
        }
    }

    /// An update arrived as a datagram.
    pub(crate) fn handle_datagram(&mut self, bytes: &[u8], now: Micros) {
        self.order.waiting.push((now, bytes.to_vec()));
    }

    /// Applies updates that need not wait, or have waited long enough; discards those over which
    /// something newer was applied.
    pub(crate) fn poll_fates(
        &mut self,
        now: Micros,
        apply_late: bool,
    ) -> Result<Vec<(u64, Fate)>, String> {
        let mut fates = Vec::new();
        let mut waiting = std::mem::take(&mut self.order.waiting);
        waiting.sort_by_key(|(_, bytes)| with_update(bytes, |update| update.seq));
        // An applied update may be the one that the next waits for: sequence numbers increase.
        for (since, bytes) in waiting {
            let fate = with_update(&bytes, |update| {
                let ready = update.after == 0
                    || self.order.done.contains(&update.after)
                    || now > since + WAIT_MAX;
                if update.epoch > self.epoch || update.epoch == self.epoch && !ready {
                    return Ok(None);
                }
                self.order.done.insert(update.seq);
                let fate = if update.epoch == self.epoch {
                    self.apply_or_discard(update, apply_late)?
                } else {
                    Fate::Applied
                };
                Ok::<_, String>(Some((update.seq, fate)))
            })?;
            match fate {
                Some(fate) => fates.push(fate),
                None => self.order.waiting.push((since, bytes)),
            }
        }
        Ok(fates)
    }

    fn apply_or_discard(&mut self, update: &Update<'_>, apply_late: bool) -> Result<Fate, String> {
        let touched = self.touched(update)?;
        if self.order.newest_conflict(&touched) > update.seq && !apply_late {
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
                other => return Err(format!("the ids pipeline never encodes {other:?}")),
            }
        }
        let width = self.size.width as usize;
        let places = |region: &Region| {
            let places = region
                .rects()
                .iter()
                .flat_map(pixels)
                .map(|(x, y)| y as usize * width + x as usize);
            places.collect()
        };
        Ok(Touched { written: places(&writes), read: places(&reads) })
    }
}
