//! Path 11/13: from decode.rs, to framebuffer.rs; coded pictures on the way go through the shell's decoders.
//! Streams of video: a plain picture is painted in its turn; a coded one when it is decoded, only where nothing was written since.
//! Knows streams, places and what of a picture is still to be seen; never what is coded in it, nor who decodes.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::limits::{RECTS_MAX, VIDEO_STREAMS_MAX};
use thinc_protocol::video::{Codec, Picture, Readiness, Source, VideoCommand, VideoState};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, PlanesRef};

use crate::framebuffer::Framebuffer;
use crate::layers::{LAYER_RECTS_MAX, Layers, Samples, VideoLayer};
use crate::stats::VideoStats;

/// 4: pictures of a stream that wait to be decoded, an eighth of a second at 30 a second. A decoder that is further behind would
/// stay behind: pictures are dropped until one comes that leans on none of them.
const WAITING_OF_STREAM_MAX: usize = 4;
/// 64: pictures that wait in all, those of streams that have ended too.
const WAITING_MAX: usize = 64;
/// 32 MiB: bytes of pictures that wait, or the one picture that is longer than any other may be.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// 5 s: a picture that waits longer will not be decoded any more; its stream is refused, and comes as pixels.
const STALL_US: Micros = 5_000_000;
/// 3: pictures one after the other that lean on nothing and cannot be decoded all the same; then the stream is refused.
const KEYS_FAILED_MAX: u32 = 3;
/// Buffers kept for the next pictures, and how long one may be that is kept.
const SPARE_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 1024 * 1024;

/// What a session did wrong with a video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VideoError {
    /// The hello promised nothing of the kind.
    #[error("stream {0} is a video that this viewer has not said it takes")]
    NotTaken(u16),
    /// An INIT.
    #[error("stream {0} begins, and has not ended")]
    Begun(u16),
    /// Any other command.
    #[error("stream {0} was not begun")]
    NotBegun(u16),
    /// A clip.
    #[error("a picture of stream {0} is seen outside of its place")]
    OutsidePlace(u16),
    /// A plain picture.
    #[error("a plain picture of stream {id} has {len} bytes, and takes {needed}")]
    Length {
        /// Which stream.
        id: u16,
        /// What came.
        len: usize,
        /// What its size takes.
        needed: u64,
    },
    /// A coded picture.
    #[error("stream {0} was begun for plain pictures, and a coded one came")]
    NotCoded(u16),
}

/// What a shell's decoders are to do, in this order. Streams and pictures have numbers that a connection gives once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VideoEvent {
    /// Coded pictures are to be decoded: [`Viewer::handle_video_ready`](crate::Viewer::handle_video_ready) when they can be.
    Began {
        /// The stream.
        stream: u64,
        /// What its pictures are.
        codec: Codec,
        /// How large they are, both edges even. Later ones may be of another size, each of which says its own.
        size: Size,
    },
    /// The stream's next picture; [`Viewer::handle_video_picture`](crate::Viewer::handle_video_picture) gives it back decoded.
    Picture {
        /// Of which stream.
        stream: u64,
        /// This picture.
        serial: u64,
        /// It leans on none before it.
        key: bool,
        /// How large it is, both edges even.
        size: Size,
        /// One access unit; its memory can be given back with
        /// [`Viewer::reuse_video_buffer`](crate::Viewer::reuse_video_buffer).
        data: Vec<u8>,
    },
    /// Nothing more comes, and the decoder can go. Pictures before this are still shown.
    Ended {
        /// The stream.
        stream: u64,
    },
}

/// A stream between INIT and END.
#[derive(Debug)]
struct Stream {
    number: u64,
    codec: Codec,
    source: Source,
    place: Rect,
    /// The shell cannot show its coded pictures; plain ones are shown all the same.
    refused: bool,
    track: Track,
    /// Since one could last be decoded.
    keys_failed: u32,
}

/// Which coded pictures can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Track {
    /// The next one, whatever it is.
    Kept,
    /// One that leans on none before it, as the session knows; it was also told so by us.
    Key { told: bool },
    /// The same, of which the session is told as soon as the decoder has nothing left to do.
    Behind,
}

/// A coded picture that came and was not given back.
#[derive(Debug)]
struct Waiting {
    serial: u64,
    stream: u64,
    key: bool,
    source: Source,
    place: Rect,
    /// What of its clip nothing was written to since.
    unwritten: Region,
    received: Micros,
    len: usize,
    /// Until the shell takes it.
    data: Option<Vec<u8>>,
}

/// What the shell has not taken yet. At most a beginning, an end and the waiting pictures of each number a stream can have: a stream
/// whose beginning nobody took leaves nothing behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Begin(u64),
    Picture { serial: u64, stream: u64 },
    End(u64),
}

/// All streams of a connection.
///
/// **Order.** A picture stands among the updates' commands; decoded later, it may show only what would still be seen of it had it been
/// painted at once. So every later write is taken from what is left of each waiting picture, and what a picture paints from what is left
/// of those before it. What reads pixels meanwhile is safe because NEXT marks its clip inexact at once, whether or not anything
/// is ever decoded:
///
/// - a COPY *from* there takes old pixels along, and that they are inexact; the session makes exact what it has copied as what it copied
///   from, and until then the copy shows an older picture;
/// - a COPY *to* there is a write like any other;
/// - a KEEP keeps pixels that are known not to be exact, which no session recalls;
/// - MOVE, DSTSIZE, SRCSIZE and END behind a picture do not concern it: it keeps the source and the place it came with;
/// - GEOMETRY ends all streams, and what waits is for a screen that is no more.
#[derive(Debug, Default)]
pub(crate) struct Videos {
    caps: u32,
    streams: [Option<Stream>; VIDEO_STREAMS_MAX as usize],
    /// What is to be said of each, newest only: "ready" comes before any picture, and "lost" and "refused" after it.
    answers: [Option<Readiness>; VIDEO_STREAMS_MAX as usize],
    /// In the order they came, so by serial.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    tasks: VecDeque<Task>,
    /// Barriers that were answered, and the newest picture that came before each.
    barriers: VecDeque<(u32, u64)>,
    /// The newest number given to a stream or picture.
    last_number: u64,
    painter: Painter,
    /// Where the shell paints pictures itself.
    layers: Option<Layers>,
    spare: Vec<Vec<u8>>,
    pub(crate) stats: VideoStats,
}

impl Videos {
    pub(crate) fn new(caps: u32) -> Videos {
        Videos { caps, ..Videos::default() }
    }

    /// Applies one command; gives the pixels it wrote.
    pub(crate) fn apply(
        &mut self,
        command: &VideoCommand<'_>,
        framebuffer: &mut Framebuffer,
        now: Micros,
    ) -> Result<u64, VideoError> {
        match *command {
            VideoCommand::Init { id, codec, source, place } => self.begin(id, codec, source, place)?,
            VideoCommand::Next { id, ref clip, picture, .. } => {
                let stream = self.stream(id)?;
                if !stream.place.contains(&clip.extents()) {
                    return Err(VideoError::OutsidePlace(id));
                }
                match picture {
                    Picture::Plain { layout, data } => {
                        let (number, source, place) = (stream.number, stream.source, stream.place);
                        let planes = PlanesRef::packed(source.size, layout, data).ok_or(VideoError::Length {
                            id,
                            len: data.len(),
                            needed: layout.bytes(source.size),
                        })?;
                        self.written(clip);
                        self.show(number, (source, place), clip, Samples::Lent(&planes), framebuffer);
                        framebuffer.handle_painted(clip, Exactness::Exact);
                        self.stats.plain += 1;
                        self.stats.shown += 1;
                        return Ok(clip.area());
                    }
                    Picture::Coded { .. } if stream.codec == Codec::None => return Err(VideoError::NotCoded(id)),
                    Picture::Coded { key, data } => {
                        framebuffer.add_inexact(clip);
                        self.coded(id, clip, key, data, now);
                    }
                }
            }
            VideoCommand::Move { id, x, y } => {
                let place = &mut self.stream(id)?.place;
                *place = Rect::at(x, y, place.width(), place.height());
            }
            VideoCommand::SourceSize { id, source } => {
                let stream = self.stream(id)?;
                stream.source = source;
                stream.track = Track::Key { told: false };
            }
            VideoCommand::PlaceSize { id, size } => {
                let place = &mut self.stream(id)?.place;
                *place = Rect::at(place.x1, place.y1, size.width as i32, size.height as i32);
            }
            VideoCommand::End { id } => {
                let number = self.stream(id)?.number;
                self.paint_stream(number, framebuffer);
                self.end(id);
            }
        }
        Ok(0)
    }

    /// From here on the shell paints pictures itself, or does not any more.
    pub(crate) fn set_layers(&mut self, on: bool, framebuffer: &mut Framebuffer) {
        self.paint_all(framebuffer);
        self.layers = on.then(Layers::default);
    }

    /// Pictures that are seen and not painted.
    pub(crate) fn layers(&self) -> impl Iterator<Item = &VideoLayer> {
        self.layers.iter().flat_map(Layers::iter)
    }

    /// A picture is seen in this region: painted, or kept for whoever paints. What streams of the past still show is painted.
    fn show(
        &mut self,
        stream: u64,
        (source, place): (Source, Rect),
        region: &Region,
        samples: Samples<'_>,
        framebuffer: &mut Framebuffer,
    ) {
        let lives = self.find(stream).is_some();
        match &mut self.layers {
            Some(layers) if lives && region.rect_count() <= LAYER_RECTS_MAX => {
                let older = layers.keep(stream, (source, place), region, samples);
                self.paint(older, framebuffer);
            }
            _ => {
                self.uncover(region);
                framebuffer.paint(&mut self.painter, &samples.as_ref(), &source, place, region);
            }
        }
    }

    /// Layers are not seen here any more; one that is left in too many pieces waits for `paint_shattered`.
    fn uncover(&mut self, region: &Region) {
        if let Some(layers) = &mut self.layers {
            layers.written(region);
        }
    }

    fn paint(&mut self, layer: Option<VideoLayer>, framebuffer: &mut Framebuffer) {
        if let (Some(layer), Some(layers)) = (layer, &mut self.layers) {
            let painter = &mut self.painter;
            framebuffer.paint(painter, &layer.planes(), layer.source(), layer.place(), layer.region());
            layers.reuse(layer);
        }
    }

    fn paint_stream(&mut self, stream: u64, framebuffer: &mut Framebuffer) {
        let layer = self.layers.as_mut().and_then(|layers| layers.take(stream));
        self.paint(layer, framebuffer);
    }

    /// Makes pixels of all that is kept.
    pub(crate) fn paint_all(&mut self, framebuffer: &mut Framebuffer) {
        while let Some(layer) = self.layers.as_mut().and_then(Layers::take_any) {
            self.paint(Some(layer), framebuffer);
        }
    }

    /// Makes pixels of what is kept in more pieces than a shell should paint.
    pub(crate) fn paint_shattered(&mut self, framebuffer: &mut Framebuffer) {
        while let Some(layer) = self.layers.as_mut().and_then(Layers::take_shattered) {
            self.paint(Some(layer), framebuffer);
        }
    }

    /// These pixels are about to be read: what is kept of them is painted, and kept all the same.
    pub(crate) fn before_read(&mut self, region: &Region, framebuffer: &mut Framebuffer) {
        let Videos { layers, painter, .. } = self;
        for layer in layers.iter().flat_map(Layers::iter).filter(|layer| layer.region().overlaps(region)) {
            let read = layer.region().intersection(region);
            framebuffer.paint(painter, &layer.planes(), layer.source(), layer.place(), &read);
        }
    }

    fn stream(&mut self, id: u16) -> Result<&mut Stream, VideoError> {
        self.streams.get_mut(usize::from(id)).and_then(Option::as_mut).ok_or(VideoError::NotBegun(id))
    }

    fn begin(&mut self, id: u16, codec: Codec, source: Source, place: Rect) -> Result<(), VideoError> {
        let needed = match codec {
            Codec::None => ViewerCaps::VIDEO,
            Codec::H264 => ViewerCaps::VIDEO | ViewerCaps::H264,
        };
        if self.caps & needed != needed {
            return Err(VideoError::NotTaken(id));
        }
        if self.stream(id).is_ok() {
            return Err(VideoError::Begun(id));
        }
        let number = self.next_number();
        let track = Track::Key { told: false };
        let stream = Stream { number, codec, source, place, refused: false, track, keys_failed: 0 };
        self.streams[usize::from(id)] = Some(stream);
        // What was to be said of the stream before it is void.
        self.answers[usize::from(id)] = match codec {
            Codec::None => Some(Readiness::Ready),
            Codec::H264 => {
                self.tasks.push_back(Task::Begin(number));
                None
            }
        };
        self.stats.streams += 1;
        Ok(())
    }

    fn end(&mut self, id: u16) {
        let Some(stream) = self.streams[usize::from(id)].take() else { return };
        self.answers[usize::from(id)] = None;
        if stream.codec == Codec::None {
            return;
        }
        if self.tasks.contains(&Task::Begin(stream.number)) {
            self.tasks.retain(|task| *task != Task::Begin(stream.number));
            self.drop_waiting(|waiting| waiting.stream == stream.number);
        } else {
            self.tasks.push_back(Task::End(stream.number));
        }
    }

    /// Another screen: all streams end with the one before, and their pictures.
    pub(crate) fn reset(&mut self) {
        (0..VIDEO_STREAMS_MAX).for_each(|id| self.end(id));
        self.drop_waiting(|_| true);
    }

    /// A coded picture came: it waits to be decoded, unless it cannot be.
    fn coded(&mut self, id: u16, clip: &Region, key: bool, data: &[u8], now: Micros) {
        self.stats.coded += 1;
        self.stats.keys += u64::from(key);
        let serial = self.next_number();
        let is_full = self.waiting.len() >= WAITING_MAX || self.waiting_bytes + data.len() > WAITING_BYTES_MAX;
        let Videos { streams, waiting, answers, .. } = self;
        let stream = streams[usize::from(id)].as_mut().expect("who calls this has seen it");
        let number = stream.number;
        let is_full = is_full || waiting.iter().filter(|w| w.stream == number).count() >= WAITING_OF_STREAM_MAX;
        let can_follow = key || stream.track == Track::Kept;
        if stream.refused || !can_follow || is_full {
            self.stats.dropped += 1;
            if stream.refused {
                return;
            }
            if can_follow || stream.track == Track::Behind {
                stream.track = Track::Behind;
            } else if stream.track == (Track::Key { told: false }) {
                stream.track = Track::Key { told: true };
                answers[usize::from(id)] = Some(Readiness::Lost);
                self.stats.lost += 1;
            }
            self.settle();
            return;
        }
        stream.track = Track::Kept;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(data);
        self.waiting_bytes += data.len();
        self.waiting.push_back(Waiting {
            serial,
            stream: number,
            key,
            source: stream.source,
            place: stream.place,
            unwritten: clip.clone(),
            received: now,
            len: data.len(),
            data: Some(copy),
        });
        self.tasks.push_back(Task::Picture { serial, stream: number });
    }

    /// These pixels were written by something that came after every picture that waits or is kept.
    pub(crate) fn written(&mut self, region: &Region) {
        take_from(self.waiting.iter_mut(), region);
        self.uncover(region);
    }

    /// The same of a rectangle.
    pub(crate) fn written_rect(&mut self, rect: &Rect) {
        for waiting in &mut self.waiting {
            if waiting.unwritten.overlaps_rect(rect) {
                waiting.unwritten.subtract_rect(rect);
                bound(&mut waiting.unwritten);
            }
        }
        if let Some(layers) = &mut self.layers {
            layers.written_rect(rect);
        }
    }

    /// The decoder stands ready; numbers that are over are ignored, here and below.
    pub(crate) fn handle_ready(&mut self, stream: u64) {
        if let Some((id, stream)) = self.find(stream)
            && !stream.refused
        {
            // "Lost" implies it, and counts more.
            self.answers[id].get_or_insert(Readiness::Ready);
        }
    }

    /// The shell cannot show the stream, now or any more.
    pub(crate) fn handle_refused(&mut self, stream: u64) {
        if let Some((id, of)) = self.find(stream)
            && !of.refused
        {
            of.refused = true;
            self.answers[id] = Some(Readiness::Refused);
            self.stats.refused += 1;
        }
        self.drop_waiting(|waiting| waiting.stream == stream);
    }

    /// A picture could not be decoded: what leans on it cannot be either.
    pub(crate) fn handle_failed(&mut self, serial: u64) {
        let Some(failed) = self.waiting.iter().find(|waiting| waiting.serial == serial) else { return };
        let (stream, key) = (failed.stream, failed.key);
        if key && let Some((_, of)) = self.find(stream) {
            of.keys_failed += 1;
            if of.keys_failed == KEYS_FAILED_MAX {
                return self.handle_refused(stream);
            }
        }
        let next_key = self.waiting.iter().find(|w| w.stream == stream && w.serial > serial && w.key).map(|w| w.serial);
        let lost = serial..next_key.unwrap_or(u64::MAX);
        if next_key.is_none()
            && let Some((id, of)) = self.find(stream)
            && of.track == Track::Kept
        {
            of.track = Track::Key { told: true };
            self.answers[id] = Some(Readiness::Lost);
            self.stats.lost += 1;
        }
        self.drop_waiting(|waiting| waiting.stream == stream && lost.contains(&waiting.serial));
    }

    /// Some of this picture would still be seen.
    pub(crate) fn is_wanted(&self, serial: u64) -> bool {
        self.waiting.iter().any(|waiting| waiting.serial == serial && !waiting.unwritten.is_empty())
    }

    /// A picture was decoded, and nothing of it is seen any more.
    pub(crate) fn handle_skipped(&mut self, serial: u64) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.serial == serial) {
            let skipped = self.remove(at);
            self.decoded(skipped.stream);
            self.stats.late += 1;
            self.settle();
        }
    }

    /// A picture was decoded: it is painted where it is still seen. Gives when it came, where there was something to paint.
    pub(crate) fn handle_picture(
        &mut self,
        serial: u64,
        samples: Samples<'_>,
        framebuffer: &mut Framebuffer,
        now: Micros,
    ) -> Option<(Micros, u64)> {
        let at = self.waiting.iter().position(|waiting| waiting.serial == serial)?;
        let (source, has) = (self.waiting[at].source, samples.as_ref().size());
        if has.width < source.size.width || has.height < source.size.height {
            self.handle_failed(serial);
            return None;
        }
        let picture = self.remove(at);
        self.decoded(picture.stream);
        let pixels = picture.unwritten.area();
        if pixels == 0 {
            self.stats.late += 1;
        } else {
            let clip = &picture.unwritten;
            self.show(picture.stream, (source, picture.place), clip, samples, framebuffer);
            framebuffer.handle_painted(clip, Exactness::Inexact);
            // Those before it, should they still come, show nothing over it.
            take_from(self.waiting.iter_mut().take_while(|older| older.serial < serial), clip);
            let delay_us = now.saturating_sub(picture.received);
            self.stats.shown += 1;
            self.stats.delay_us = Some(delay_us);
            self.stats.delay_max_us = self.stats.delay_max_us.max(Some(delay_us));
        }
        self.settle();
        (pixels > 0).then_some((picture.received, pixels))
    }

    fn decoded(&mut self, stream: u64) {
        if let Some((_, stream)) = self.find(stream) {
            stream.keys_failed = 0;
        }
    }

    /// Pictures that came and were not given back.
    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Streams that have begun and not ended.
    pub(crate) fn active_len(&self) -> usize {
        self.streams.iter().flatten().count()
    }

    /// One that has not ended has its place here.
    pub(crate) fn plays_in(&self, rect: &Rect) -> bool {
        self.streams.iter().flatten().any(|stream| stream.place.overlaps(rect))
    }

    /// The next thing for the shell's decoders.
    pub(crate) fn poll(&mut self) -> Option<VideoEvent> {
        Some(match self.tasks.pop_front()? {
            Task::Begin(number) => {
                let (_, stream) = self.find(number).expect("an end takes its beginning out of the queue");
                let (codec, size) = (stream.codec, even(stream.source.size));
                VideoEvent::Began { stream: number, codec, size }
            }
            Task::Picture { serial, stream } => {
                let waiting = self.waiting.iter_mut().find(|waiting| waiting.serial == serial);
                let waiting = waiting.expect("what does not wait any more is taken out of the queue");
                let data = waiting.data.take().expect("a picture is taken once");
                VideoEvent::Picture { stream, serial, key: waiting.key, size: even(waiting.source.size), data }
            }
            Task::End(stream) => VideoEvent::Ended { stream },
        })
    }

    pub(crate) fn has_task(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// A picture's bytes are not needed any more.
    pub(crate) fn reuse(&mut self, mut data: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && data.capacity() <= SPARE_BYTES_MAX {
            data.clear();
            self.spare.push(data);
        }
    }

    /// Appends what is to be said of the streams; false when there is nothing.
    pub(crate) fn poll_answers(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        for (id, answer) in (0..).zip(&mut self.answers) {
            if let Some(readiness) = answer.take() {
                ViewerMessage::Video(VideoState { id, readiness }).encode(out);
            }
        }
        out.len() > before
    }

    /// The session has answered a barrier, which is passed on when every picture before it is done.
    pub(crate) fn hold_barrier(&mut self, barrier: u32) {
        self.barriers.push_back((barrier, self.last_number));
    }

    /// The next barrier that is passed.
    pub(crate) fn poll_barrier(&mut self) -> Option<u32> {
        let &(barrier, newest) = self.barriers.front()?;
        let oldest = self.waiting.front().map_or(u64::MAX, |waiting| waiting.serial);
        (oldest > newest).then(|| self.barriers.pop_front())?;
        Some(barrier)
    }

    pub(crate) fn barriers_len(&self) -> usize {
        self.barriers.len()
    }

    /// When a decoder has taken too long.
    pub(crate) fn deadline(&self) -> Option<Micros> {
        self.waiting.iter().map(|waiting| waiting.received + STALL_US).min()
    }

    pub(crate) fn timeout(&mut self, now: Micros) {
        while let Some(stalled) = self.waiting.iter().find(|waiting| waiting.received + STALL_US <= now) {
            let stream = stalled.stream;
            self.handle_refused(stream);
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn find(&mut self, number: u64) -> Option<(usize, &mut Stream)> {
        let mut streams = self.streams.iter_mut().enumerate();
        streams.find_map(|(id, stream)| Some((id, stream.as_mut().filter(|stream| stream.number == number)?)))
    }

    fn remove(&mut self, at: usize) -> Waiting {
        let picture = self.waiting.remove(at).expect("it was found there");
        self.waiting_bytes -= picture.len;
        if picture.data.is_some() {
            self.tasks.retain(|task| !matches!(task, Task::Picture { serial, .. } if *serial == picture.serial));
        }
        picture
    }

    fn drop_waiting(&mut self, dropped: impl Fn(&Waiting) -> bool) {
        while let Some(at) = self.waiting.iter().position(&dropped) {
            self.remove(at).data.into_iter().for_each(|data| self.reuse(data));
            self.stats.dropped += 1;
        }
        self.settle();
    }

    /// Streams that fell behind are told to begin again once nothing of them waits.
    fn settle(&mut self) {
        // With room for more than one: a picture that is asked for should find some.
        let is_full = self.waiting.len() >= WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX / 2;
        for (stream, answer) in self.streams.iter_mut().zip(&mut self.answers) {
            if let Some(stream) = stream
                && stream.track == Track::Behind
                && !is_full
                && !self.waiting.iter().any(|waiting| waiting.stream == stream.number)
            {
                stream.track = Track::Key { told: true };
                *answer = Some(Readiness::Lost);
                self.stats.lost += 1;
            }
        }
    }
}

/// Whether a picture shows what the session's screen does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exactness {
    Exact,
    Inexact,
}

/// As large as coded pictures are.
const fn even(size: Size) -> Size {
    Size { width: size.width.next_multiple_of(2), height: size.height.next_multiple_of(2) }
}

/// These pixels are not for the pictures to show any more.
fn take_from<'a>(pictures: impl Iterator<Item = &'a mut Waiting>, region: &Region) {
    for waiting in pictures {
        if waiting.unwritten.overlaps(region) {
            waiting.unwritten.subtract(region);
            bound(&mut waiting.unwritten);
        }
    }
}

/// A picture cut to more pieces than a clip may have shows nothing: the session mends it when it rests.
fn bound(unwritten: &mut Region) {
    if unwritten.rect_count() > RECTS_MAX {
        unwritten.clear();
    }
}
