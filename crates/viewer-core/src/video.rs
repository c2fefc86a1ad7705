//! Path 11/13: from decode.rs, to framebuffer.rs; compressed frames pass through the shell's
//! decoders in between.
//! Video streams: an uncompressed frame is painted in order with other commands; a compressed frame
//! is painted when it is decoded, only where nothing was drawn since. Knows streams, video areas
//! and the visible region of each frame; never a frame's encoding, nor who decodes it.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::command::Command;
use thinc_protocol::limits::{RECTS_MAX, VIDEO_STREAMS_MAX};
use thinc_protocol::video::{
    Codec, DecoderState, Eye, FrameCodec, FrameData, Source, VideoCommand, VideoStatus, pixel_bytes,
};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, PlanesRef};

use crate::framebuffer::Framebuffer;
use crate::layers::{LAYER_RECTS_MAX, Layers, Samples, VideoLayer};
use crate::right_eye::RightEye;
use crate::stats::VideoStats;

/// 4: frames of one stream that wait for the decoder, an eighth of a second at 30 Hz. A decoder
/// that is further behind would stay behind: frames are dropped until the next keyframe.
const WAITING_OF_STREAM_MAX: usize = 4;
/// 64: frames that wait in all streams, including those that have ended.
const WAITING_MAX: usize = 64;
/// 32 MiB: bytes of waiting frames.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// 5 s: if a frame waits longer, its stream is refused; the session then sends the area as pixels.
const STALL_US: Micros = 5_000_000;
/// 3: keyframes in a row that fail to decode; then the stream is refused.
const KEYS_FAILED_MAX: u32 = 3;
/// Buffers kept for later frames, and the largest capacity of a kept buffer.
const SPARE_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 1024 * 1024;

/// A violation of the video protocol by the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VideoError {
    /// The viewer's hello does not announce this kind of video.
    #[error("video stream {0} needs a capability that this viewer has not announced")]
    NotSupported(u16),
    /// INIT of a stream that has not ended.
    #[error("video stream {0} starts, but it has not ended")]
    AlreadyStarted(u16),
    /// Any other command for a stream without INIT.
    #[error("video stream {0} was not started")]
    NotStarted(u16),
    /// A clip that reaches outside the video area.
    #[error("a frame of video stream {0} is clipped to more than its video area")]
    OutsidePlace(u16),
    /// An uncompressed frame of the wrong length.
    #[error("an uncompressed frame of video stream {id} has {len} bytes instead of {needed}")]
    Length {
        /// The stream.
        id: u16,
        /// Bytes received.
        len: usize,
        /// Bytes that the frame's size needs.
        needed: u64,
    },
    /// A compressed frame in a stream for uncompressed ones.
    #[error(
        "a compressed frame arrived in video stream {0}, which was started for uncompressed frames"
    )]
    NotCoded(u16),
    /// A frame of pixels in a stream that is not for the right eye.
    #[error("a frame of pixels arrived in video stream {0}, which is not for the right eye")]
    NotRightEye(u16),
    /// A stream of the right eye that this viewer has never asked for.
    #[error("video stream {0} is for the right eye, which this viewer has not asked for")]
    NotAsked(u16),
}

/// Work for the shell's decoders, in this order. Numbers of streams and frames are unique within a
/// connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VideoEvent {
    /// A stream of compressed frames has started:
    /// [`Viewer::handle_video_ready`](crate::Viewer::handle_video_ready) when they can be decoded.
    Started {
        /// The stream.
        stream: u64,
        /// The codec of its first frames.
        codec: Codec,
        /// Size of the frames, both edges even. Later frames may have another size; each event has
        /// its own.
        size: Size,
    },
    /// The stream's next frame; [`Viewer::handle_video_frame`](crate::Viewer::handle_video_frame)
    /// returns it decoded.
    Frame {
        /// The frame's stream.
        stream: u64,
        /// The frame's number.
        serial: u64,
        /// The frame is a keyframe.
        keyframe: bool,
        /// Its codec; only a keyframe's differs from that of the frame before.
        codec: FrameCodec,
        /// The frame's size, both edges even.
        size: Size,
        /// One access unit; [`Viewer::reuse_video_buffer`](crate::Viewer::reuse_video_buffer) takes
        /// its memory back.
        data: Vec<u8>,
    },
    /// No more frames follow; the decoder may be freed. Frames before this event are still shown.
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
    eye: Eye,
    source: Source,
    place: Rect,
    /// The shell cannot decode its compressed frames; uncompressed ones are shown all the same.
    refused: bool,
    tracking: Tracking,
    /// The codec of its newest keyframe.
    frame_codec: FrameCodec,
    /// Keyframes that failed since the last decoded frame.
    keys_failed: u32,
}

/// Which compressed frames can be decoded next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracking {
    /// The next frame, keyframe or not.
    InSync,
    /// Only a keyframe. `requested`: the viewer asked the session for it.
    NeedsKeyframe { requested: bool },
    /// Only a keyframe, which is requested as soon as the decoder has no frame left.
    Behind,
}

/// A compressed frame that the shell has not returned yet.
#[derive(Debug)]
struct Waiting {
    serial: u64,
    stream: u64,
    eye: Eye,
    keyframe: bool,
    codec: FrameCodec,
    source: Source,
    place: Rect,
    /// The part of its clip that nothing was drawn over since; for the right eye, that no newer
    /// frame of that eye has replaced. A right-eye frame's place and clip move with its stream's.
    unwritten: Region,
    /// When it was drawn, on the session's clock.
    time: Micros,
    received: Micros,
    len: usize,
    /// The access unit, until the shell takes it.
    data: Option<Vec<u8>>,
}

/// Work that the shell has not taken yet. Per stream number at most one start, one end and the
/// waiting frames: a stream whose start was not taken leaves nothing behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Start(u64),
    Frame { serial: u64, stream: u64 },
    End(u64),
}

/// All video streams of a connection.
///
/// **Order.** A frame has a place among the updates' commands; decoded later, it may paint only
/// what would still be visible had it been painted at once. So every later write is subtracted from
/// each waiting frame, and what a frame paints is subtracted from the frames before it. Reading
/// pixels meanwhile is safe because NEXT marks its clip lossy at once, whether or not the frame is
/// ever decoded:
///
/// - a COPY *from* there takes old pixels along, and their lossy bits; the session refreshes the
///   copy as it refreshes the source, and until then the copy shows an older frame;
/// - a COPY *to* there is a write like any other;
/// - a KEEP stores pixels that are known to be lossy, which no session recalls;
/// - MOVE, DSTSIZE, SRCSIZE and END after a frame do not affect it: it keeps the source and the
///   video area it arrived with;
/// - GEOMETRY ends all streams and drops the waiting frames.
///
/// A frame of the right eye paints beside the framebuffer: no write covers it, it marks nothing
/// lossy, and it paints only inside its stream's newest clip.
#[derive(Debug, Default)]
pub(crate) struct Videos {
    caps: u32,
    /// Bits of the codecs that are decoded beside those of the hello; and of all that were, in this
    /// connection.
    decoded: u32,
    announced: u32,
    streams: [Option<Stream>; VIDEO_STREAMS_MAX as usize],
    /// Decoder state to report for each stream, newest only: "ready" precedes any frame, "needs
    /// keyframe" and "refused" follow one.
    answers: [Option<DecoderState>; VIDEO_STREAMS_MAX as usize],
    /// In order of arrival, and so of serial.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    tasks: VecDeque<Task>,
    /// Answered barriers, each with the newest frame before it.
    barriers: VecDeque<(u32, u64)>,
    /// The newest number given to a stream or frame.
    last_number: u64,
    painter: Painter,
    /// Present if the shell paints frames itself.
    layers: Option<Layers>,
    /// What streams of the right eye show.
    right: RightEye,
    /// It was asked for in this connection, and there was a stream.
    asked_right: bool,
    seen_right: bool,
    spare: Vec<Vec<u8>>,
    /// The newest time of a frame that was painted, until it is presented.
    painted: Option<Micros>,
    pub(crate) stats: VideoStats,
}

impl Videos {
    pub(crate) fn new(caps: u32) -> Videos {
        Videos { caps, ..Videos::default() }
    }

    /// How many pixels a command writes, or what takes as long, whatever its bytes are: also those
    /// of the right eye that a MOVE copies, and those that are allocated for its first frame.
    pub(crate) fn work_of(&self, command: &VideoCommand<'_>) -> u64 {
        match *command {
            VideoCommand::Next { id, ref clip, frame, .. } => {
                // A coded frame is painted later, and there are few that wait.
                let is_painted =
                    !matches!(frame, FrameData::Coded { .. }) && self.right_stream(id).is_some();
                clip.area() + if is_painted { self.right.allocation(clip) } else { 0 }
            }
            VideoCommand::Move { id, .. } => {
                let stream = self.right_stream(id);
                stream.map_or(0, |stream| self.right.move_work(stream.number))
            }
            VideoCommand::PlaceSize { id, .. } => {
                let stream = self.right_stream(id);
                stream.map_or(0, |stream| self.right.resize_work(stream.number))
            }
            VideoCommand::Init { .. }
            | VideoCommand::SourceSize { .. }
            | VideoCommand::End { .. } => 0,
        }
    }

    /// Applies one command; returns the count of pixels written.
    pub(crate) fn apply(
        &mut self,
        command: &VideoCommand<'_>,
        framebuffer: &mut Framebuffer,
        now: Micros,
    ) -> Result<u64, VideoError> {
        match *command {
            VideoCommand::Init { id, codec, eye, source, place } => {
                let number = self.start(id, codec, eye, (source, place))?;
                if eye == Eye::Right {
                    self.seen_right = true;
                    self.right.begin(number, place, framebuffer.size());
                }
            }
            VideoCommand::Next { id, time, ref clip, frame } => {
                let stream = self.stream(id)?;
                if !stream.place.contains(&clip.extents()) {
                    return Err(VideoError::OutsidePlace(id));
                }
                let (number, eye) = (stream.number, stream.eye);
                let (source, place) = (stream.source, stream.place);
                let wrong_length =
                    |needed| VideoError::Length { id, len: frame.data().len(), needed };
                match frame {
                    FrameData::Plain { layout, data } => {
                        let planes = PlanesRef::packed(source.size, layout, data)
                            .ok_or(wrong_length(layout.bytes(source.size)))?;
                        let samples = Samples::Borrowed(&planes);
                        match eye {
                            Eye::Left => {
                                self.written(clip);
                                self.show(number, (source, place), clip, samples, framebuffer);
                                framebuffer.handle_painted(clip, Fidelity::Lossless);
                            }
                            Eye::Right => {
                                self.clip_right(number, clip, framebuffer);
                                subtract_from(self.waiting.iter_mut(), Eye::Right, clip);
                                let frame = (&planes, &source, place);
                                self.show_right(number, frame, clip, framebuffer);
                            }
                        }
                    }
                    FrameData::Pixels { .. } if eye == Eye::Left => {
                        return Err(VideoError::NotRightEye(id));
                    }
                    FrameData::Pixels { data } => {
                        if data.len() as u64 != pixel_bytes(source.size) {
                            return Err(wrong_length(pixel_bytes(source.size)));
                        }
                        self.clip_right(number, clip, framebuffer);
                        subtract_from(self.waiting.iter_mut(), Eye::Right, clip);
                        let region = self.right.visible(number, clip);
                        if !region.is_empty() {
                            self.right.paint_pixels(number, (data, &source, place), &region);
                            framebuffer.add_damage(&region);
                        }
                    }
                    FrameData::Coded { .. } if stream.codec == Codec::None => {
                        return Err(VideoError::NotCoded(id));
                    }
                    FrameData::Coded { keyframe: Some(codec), .. } if !self.takes(codec) => {
                        return Err(VideoError::NotSupported(id));
                    }
                    FrameData::Coded { keyframe, data } => {
                        match eye {
                            Eye::Left => framebuffer.add_lossy(clip),
                            Eye::Right => self.clip_right(number, clip, framebuffer),
                        }
                        self.enqueue(id, clip, (keyframe, time), data, now);
                        return Ok(0);
                    }
                }
                self.stats.plain += 1;
                self.stats.shown += 1;
                self.painted = self.painted.max(Some(time));
                return Ok(clip.area());
            }
            VideoCommand::Move { id, x, y } => {
                let stream = self.stream(id)?;
                let before = stream.place;
                stream.place = Rect::at(x, y, before.width(), before.height());
                if stream.eye == Eye::Right {
                    let (number, vector) = (stream.number, (x - before.x1, y - before.y1));
                    self.move_right(number, (x, y), vector, framebuffer);
                }
            }
            VideoCommand::SourceSize { id, source } => {
                let stream = self.stream(id)?;
                stream.source = source;
                stream.tracking = Tracking::NeedsKeyframe { requested: false };
            }
            VideoCommand::PlaceSize { id, size } => {
                let stream = self.stream(id)?;
                let Rect { x1, y1, .. } = stream.place;
                stream.place = Rect::at(x1, y1, size.width as i32, size.height as i32);
                let number = stream.number;
                framebuffer.add_damage(&self.right.resize(number, size));
            }
            VideoCommand::End { id } => {
                let number = self.stream(id)?.number;
                self.paint_stream(number, framebuffer);
                self.end(id);
                framebuffer.add_damage(&self.right.end(number));
            }
        }
        Ok(0)
    }

    /// What the right eye sees over the framebuffer.
    pub(crate) fn right_eye(&self) -> &RightEye {
        &self.right
    }

    /// There was a stream of the right eye.
    pub(crate) fn has_seen_right_eye(&self) -> bool {
        self.seen_right
    }

    /// The session is asked for the right eye's pictures, or for no more of them.
    pub(crate) fn want_right_eye(&mut self, is_wanted: bool, framebuffer: &mut Framebuffer) {
        self.asked_right |= is_wanted;
        framebuffer.add_damage(&self.right.set_wanted(is_wanted));
    }

    /// True if this command is one of a stream of the right eye, which writes no pixel that others
    /// write.
    pub(crate) fn is_beside_framebuffer(&self, command: &Command<'_>) -> bool {
        let Command::Video(VideoCommand::Next { id, .. }) = command else { return false };
        self.right_stream(*id).is_some()
    }

    /// The stream, if it is one of the right eye.
    fn right_stream(&self, id: u16) -> Option<&Stream> {
        let stream = self.streams.get(usize::from(id)).and_then(Option::as_ref);
        stream.filter(|stream| stream.eye == Eye::Right)
    }

    /// A frame of a right-eye stream has arrived, visible in `clip`.
    fn clip_right(&mut self, stream: u64, clip: &Region, framebuffer: &mut Framebuffer) {
        framebuffer.add_damage(&self.right.clip_to(stream, clip));
    }

    /// Such a frame is painted where it is visible; returns the pixels painted.
    fn show_right(
        &mut self,
        stream: u64,
        frame: (&PlanesRef<'_>, &Source, Rect),
        region: &Region,
        framebuffer: &mut Framebuffer,
    ) -> u64 {
        let region = self.right.visible(stream, region);
        if !region.is_empty() {
            self.right.paint(stream, &mut self.painter, frame, &region);
            framebuffer.add_damage(&region);
        }
        region.area()
    }

    /// Such a stream moves: its pixels, and those of its frames that are not decoded yet.
    fn move_right(
        &mut self,
        stream: u64,
        to: (i32, i32),
        (dx, dy): (i32, i32),
        framebuffer: &mut Framebuffer,
    ) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.stream == stream) {
            waiting.place = waiting.place.translate(dx, dy);
            waiting.unwritten.translate(dx, dy);
            // A frame may wait for long, and coordinates have a limit.
            waiting.unwritten.intersect_rect(&framebuffer.size().rect());
        }
        framebuffer.add_damage(&self.right.move_to(stream, to));
    }

    /// Sets whether the shell paints frames itself.
    pub(crate) fn set_layers(&mut self, on: bool, framebuffer: &mut Framebuffer) {
        self.paint_all(framebuffer);
        self.layers = on.then(Layers::default);
    }

    /// Frames that are visible and not painted.
    pub(crate) fn layers(&self) -> impl Iterator<Item = &VideoLayer> {
        self.layers.iter().flat_map(Layers::iter)
    }

    /// A frame becomes visible in `region`: it is painted, or kept for the shell. What streams that
    /// have ended still show is painted.
    fn show(
        &mut self,
        stream: u64,
        (source, place): (Source, Rect),
        region: &Region,
        samples: Samples<'_>,
        framebuffer: &mut Framebuffer,
    ) {
        let is_active = self.find(stream).is_some();
        match &mut self.layers {
            Some(layers) if is_active && region.rect_count() <= LAYER_RECTS_MAX => {
                let older = layers.keep(stream, (source, place), region, samples);
                self.paint(older, framebuffer);
            }
            _ => {
                self.uncover(region);
                framebuffer.paint(&mut self.painter, &samples.as_ref(), &source, place, region);
            }
        }
    }

    /// Subtracts the region from all layers; one with too many rectangles is left for
    /// `paint_shattered`.
    fn uncover(&mut self, region: &Region) {
        if let Some(layers) = &mut self.layers {
            layers.written(region);
        }
    }

    fn paint(&mut self, layer: Option<VideoLayer>, framebuffer: &mut Framebuffer) {
        if let (Some(layer), Some(layers)) = (layer, &mut self.layers) {
            let painter = &mut self.painter;
            framebuffer.paint(
                painter,
                &layer.planes(),
                layer.source(),
                layer.place(),
                layer.region(),
            );
            layers.reuse(layer);
        }
    }

    fn paint_stream(&mut self, stream: u64, framebuffer: &mut Framebuffer) {
        let layer = self.layers.as_mut().and_then(|layers| layers.take(stream));
        self.paint(layer, framebuffer);
    }

    /// Paints all layers into the framebuffer.
    pub(crate) fn paint_all(&mut self, framebuffer: &mut Framebuffer) {
        while let Some(layer) = self.layers.as_mut().and_then(Layers::take_any) {
            self.paint(Some(layer), framebuffer);
        }
    }

    /// Paints layers with more rectangles than a shell should paint.
    pub(crate) fn paint_shattered(&mut self, framebuffer: &mut Framebuffer) {
        while let Some(layer) = self.layers.as_mut().and_then(Layers::take_shattered) {
            self.paint(Some(layer), framebuffer);
        }
    }

    /// The region is about to be read: layers there are painted, and kept all the same.
    pub(crate) fn before_read(&mut self, region: &Region, framebuffer: &mut Framebuffer) {
        let Videos { layers, painter, .. } = self;
        for layer in
            layers.iter().flat_map(Layers::iter).filter(|layer| layer.region().overlaps(region))
        {
            let read = layer.region().intersection(region);
            framebuffer.paint(painter, &layer.planes(), layer.source(), layer.place(), &read);
        }
    }

    fn stream(&mut self, id: u16) -> Result<&mut Stream, VideoError> {
        self.streams
            .get_mut(usize::from(id))
            .and_then(Option::as_mut)
            .ok_or(VideoError::NotStarted(id))
    }

    /// The session may send keyframes of this codec. What was announced may still come after it
    /// was taken back: its frames fail.
    fn takes(&self, codec: FrameCodec) -> bool {
        codec == FrameCodec::H264 || self.announced & codec.bit() != 0
    }

    /// The session is told that these codecs are decoded from now on.
    pub(crate) fn announce(&mut self, codecs: u32) {
        self.decoded = codecs;
        self.announced |= codecs;
    }

    fn start(
        &mut self,
        id: u16,
        codec: Codec,
        eye: Eye,
        (source, place): (Source, Rect),
    ) -> Result<u64, VideoError> {
        let needed = match codec {
            Codec::None => ViewerCaps::VIDEO,
            Codec::H264 => ViewerCaps::VIDEO | ViewerCaps::H264,
        };
        if self.caps & needed != needed {
            return Err(VideoError::NotSupported(id));
        }
        if eye == Eye::Right && !self.asked_right {
            return Err(VideoError::NotAsked(id));
        }
        if self.stream(id).is_ok() {
            return Err(VideoError::AlreadyStarted(id));
        }
        let number = self.next_number();
        let tracking = Tracking::NeedsKeyframe { requested: false };
        let stream = Stream {
            number,
            codec,
            eye,
            source,
            place,
            refused: false,
            tracking,
            frame_codec: FrameCodec::H264,
            keys_failed: 0,
        };
        self.streams[usize::from(id)] = Some(stream);
        // A report about the previous stream of this number is stale.
        self.answers[usize::from(id)] = match codec {
            Codec::None => Some(DecoderState::Ready),
            Codec::H264 => {
                self.tasks.push_back(Task::Start(number));
                None
            }
        };
        self.stats.streams += 1;
        Ok(number)
    }

    fn end(&mut self, id: u16) {
        let Some(stream) = self.streams[usize::from(id)].take() else { return };
        self.answers[usize::from(id)] = None;
        if stream.codec == Codec::None {
            return;
        }
        if self.tasks.contains(&Task::Start(stream.number)) {
            self.tasks.retain(|task| *task != Task::Start(stream.number));
            self.drop_waiting(|waiting| waiting.stream == stream.number);
        } else {
            self.tasks.push_back(Task::End(stream.number));
        }
    }

    /// A new geometry: all streams end, and waiting frames are dropped.
    pub(crate) fn reset(&mut self) {
        (0..VIDEO_STREAMS_MAX).for_each(|id| self.end(id));
        self.drop_waiting(|_| true);
        self.right.reset();
    }

    /// A compressed frame arrived: it waits for the decoder, unless it cannot be decoded.
    fn enqueue(
        &mut self,
        id: u16,
        clip: &Region,
        (key_codec, time): (Option<FrameCodec>, Micros),
        data: &[u8],
        now: Micros,
    ) {
        let keyframe = key_codec.is_some();
        self.stats.coded += 1;
        self.stats.keyframes += u64::from(keyframe);
        let serial = self.next_number();
        let is_full = self.waiting.len() >= WAITING_MAX
            || self.waiting_bytes + data.len() > WAITING_BYTES_MAX;
        let Videos { streams, waiting, answers, .. } = self;
        let stream =
            streams[usize::from(id)].as_mut().expect("the caller has looked the stream up");
        let number = stream.number;
        stream.frame_codec = key_codec.unwrap_or(stream.frame_codec);
        let is_full = is_full
            || waiting.iter().filter(|w| w.stream == number).count() >= WAITING_OF_STREAM_MAX;
        let is_decodable = keyframe || stream.tracking == Tracking::InSync;
        if stream.refused || !is_decodable || is_full {
            self.stats.dropped += 1;
            if stream.refused {
                return;
            }
            if is_decodable || stream.tracking == Tracking::Behind {
                stream.tracking = Tracking::Behind;
            } else if stream.tracking == (Tracking::NeedsKeyframe { requested: false }) {
                stream.tracking = Tracking::NeedsKeyframe { requested: true };
                answers[usize::from(id)] = Some(DecoderState::NeedsKeyframe);
                self.stats.keyframe_requests += 1;
            }
            self.settle();
            return;
        }
        stream.tracking = Tracking::InSync;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(data);
        self.waiting_bytes += data.len();
        self.waiting.push_back(Waiting {
            serial,
            stream: number,
            eye: stream.eye,
            keyframe,
            codec: stream.frame_codec,
            source: stream.source,
            place: stream.place,
            unwritten: clip.clone(),
            time,
            received: now,
            len: data.len(),
            data: Some(copy),
        });
        self.tasks.push_back(Task::Frame { serial, stream: number });
    }

    /// The region was written after every waiting or kept frame.
    pub(crate) fn written(&mut self, region: &Region) {
        subtract_from(self.waiting.iter_mut(), Eye::Left, region);
        self.uncover(region);
    }

    /// As [`Videos::written`], for a rectangle.
    pub(crate) fn written_rect(&mut self, rect: &Rect) {
        for waiting in &mut self.waiting {
            if waiting.eye == Eye::Left && waiting.unwritten.overlaps_rect(rect) {
                waiting.unwritten.subtract_rect(rect);
                bound(&mut waiting.unwritten);
            }
        }
        if let Some(layers) = &mut self.layers {
            layers.written_rect(rect);
        }
    }

    /// The decoder is ready. Unknown stream and frame numbers are ignored, here and below.
    pub(crate) fn handle_ready(&mut self, stream: u64) {
        if let Some((id, stream)) = self.find(stream)
            && !stream.refused
        {
            // "Needs keyframe" implies it and has priority.
            self.answers[id].get_or_insert(DecoderState::Ready);
        }
    }

    /// The shell cannot decode the stream, now or later.
    pub(crate) fn handle_refused(&mut self, stream: u64) {
        if let Some((id, of)) = self.find(stream)
            && !of.refused
        {
            of.refused = true;
            self.answers[id] = Some(DecoderState::Refused);
            self.stats.refused += 1;
        }
        self.drop_waiting(|waiting| waiting.stream == stream);
    }

    /// A frame failed to decode: frames that refer to it cannot be decoded either.
    pub(crate) fn handle_failed(&mut self, serial: u64) {
        let Some(failed) = self.waiting.iter().find(|waiting| waiting.serial == serial) else {
            return;
        };
        let (stream, keyframe) = (failed.stream, failed.keyframe);
        // The next keyframe is of a codec that is decoded.
        let is_taken_back =
            failed.codec != FrameCodec::H264 && self.decoded & failed.codec.bit() == 0;
        if keyframe
            && !is_taken_back
            && let Some((_, of)) = self.find(stream)
        {
            of.keys_failed += 1;
            if of.keys_failed == KEYS_FAILED_MAX {
                return self.handle_refused(stream);
            }
        }
        let next_keyframe = self
            .waiting
            .iter()
            .find(|w| w.stream == stream && w.serial > serial && w.keyframe)
            .map(|w| w.serial);
        let lost = serial..next_keyframe.unwrap_or(u64::MAX);
        if next_keyframe.is_none()
            && let Some((id, of)) = self.find(stream)
            && of.tracking == Tracking::InSync
        {
            of.tracking = Tracking::NeedsKeyframe { requested: true };
            self.answers[id] = Some(DecoderState::NeedsKeyframe);
            self.stats.keyframe_requests += 1;
        }
        self.drop_waiting(|waiting| waiting.stream == stream && lost.contains(&waiting.serial));
    }

    /// True if some of this frame is still visible.
    pub(crate) fn is_visible(&self, serial: u64) -> bool {
        let waiting = self.waiting.iter().find(|waiting| waiting.serial == serial);
        waiting.is_some_and(|waiting| match waiting.eye {
            Eye::Left => !waiting.unwritten.is_empty(),
            Eye::Right => !self.right.visible(waiting.stream, &waiting.unwritten).is_empty(),
        })
    }

    /// A frame was decoded that is no longer visible.
    pub(crate) fn handle_skipped(&mut self, serial: u64) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.serial == serial) {
            let skipped = self.remove(at);
            self.decoded(skipped.stream);
            self.stats.late += 1;
            self.settle();
        }
    }

    /// A frame was decoded: it is painted where it is still visible. Returns its time of receipt
    /// and the pixels painted, if any.
    pub(crate) fn handle_frame(
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
        let frame = self.remove(at);
        self.decoded(frame.stream);
        let clip = &frame.unwritten;
        let pixels = match frame.eye {
            Eye::Left => clip.area(),
            Eye::Right => {
                let planes = samples.as_ref();
                self.show_right(frame.stream, (&planes, &source, frame.place), clip, framebuffer)
            }
        };
        if pixels == 0 {
            self.stats.late += 1;
        } else {
            if frame.eye == Eye::Left {
                self.show(frame.stream, (source, frame.place), clip, samples, framebuffer);
                framebuffer.handle_painted(clip, Fidelity::Lossy);
            }
            // Older frames that are decoded later must not paint over it.
            let older = self.waiting.iter_mut().take_while(|older| older.serial < serial);
            subtract_from(older, frame.eye, clip);
            let delay_us = now.saturating_sub(frame.received);
            self.painted = self.painted.max(Some(frame.time));
            self.stats.shown += 1;
            self.stats.delay_us = Some(delay_us);
            self.stats.delay_max_us = self.stats.delay_max_us.max(Some(delay_us));
        }
        self.settle();
        (pixels > 0).then_some((frame.received, pixels))
    }

    /// The time of the newest frame that was painted since this was asked last: it is presented
    /// now.
    pub(crate) fn take_painted(&mut self) -> Option<Micros> {
        self.painted.take()
    }

    fn decoded(&mut self, stream: u64) {
        if let Some((_, stream)) = self.find(stream) {
            stream.keys_failed = 0;
        }
    }

    /// Count of frames that the shell has not returned.
    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Count of active streams.
    pub(crate) fn active_len(&self) -> usize {
        self.streams.iter().flatten().count()
    }

    /// True if an active stream's video area overlaps `rect` of the framebuffer.
    pub(crate) fn has_video_in(&self, rect: &Rect) -> bool {
        let mut left = self.streams.iter().flatten().filter(|stream| stream.eye == Eye::Left);
        left.any(|stream| stream.place.overlaps(rect))
    }

    /// The next work for the shell's decoders.
    pub(crate) fn poll(&mut self) -> Option<VideoEvent> {
        Some(match self.tasks.pop_front()? {
            Task::Start(number) => {
                let (_, stream) =
                    self.find(number).expect("ending a stream removes its start from the queue");
                let (codec, size) = (stream.codec, even(stream.source.size));
                VideoEvent::Started { stream: number, codec, size }
            }
            Task::Frame { serial, stream } => {
                let waiting = self.waiting.iter_mut().find(|waiting| waiting.serial == serial);
                let waiting = waiting.expect("removing a waiting frame removes its task");
                let data = waiting.data.take().expect("a frame's data is taken once");
                VideoEvent::Frame {
                    stream,
                    serial,
                    keyframe: waiting.keyframe,
                    codec: waiting.codec,
                    size: even(waiting.source.size),
                    data,
                }
            }
            Task::End(stream) => VideoEvent::Ended { stream },
        })
    }

    pub(crate) fn has_task(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Takes a frame's buffer back for reuse.
    pub(crate) fn reuse(&mut self, mut data: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && data.capacity() <= SPARE_BYTES_MAX {
            data.clear();
            self.spare.push(data);
        }
    }

    /// Appends the decoder states to report; false if there are none.
    pub(crate) fn poll_answers(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        for (id, answer) in (0..).zip(&mut self.answers) {
            if let Some(decoder) = answer.take() {
                ViewerMessage::Video(VideoStatus { id, decoder }).encode(out);
            }
        }
        out.len() > before
    }

    /// The session has answered a barrier; it is passed on when every frame before it is done.
    pub(crate) fn hold_barrier(&mut self, barrier: u32) {
        self.barriers.push_back((barrier, self.last_number));
    }

    /// The next barrier whose frames are all done.
    pub(crate) fn poll_barrier(&mut self) -> Option<u32> {
        let &(barrier, newest) = self.barriers.front()?;
        let oldest = self.waiting.front().map_or(u64::MAX, |waiting| waiting.serial);
        (oldest > newest).then(|| self.barriers.pop_front())?;
        Some(barrier)
    }

    pub(crate) fn barriers_len(&self) -> usize {
        self.barriers.len()
    }

    /// When the oldest waiting frame exceeds [`STALL_US`].
    pub(crate) fn deadline(&self) -> Option<Micros> {
        self.waiting.iter().map(|waiting| waiting.received + STALL_US).min()
    }

    pub(crate) fn timeout(&mut self, now: Micros) {
        while let Some(stalled) =
            self.waiting.iter().find(|waiting| waiting.received + STALL_US <= now)
        {
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
        streams.find_map(|(id, stream)| {
            Some((id, stream.as_mut().filter(|stream| stream.number == number)?))
        })
    }

    fn remove(&mut self, at: usize) -> Waiting {
        let frame = self.waiting.remove(at).expect("it was found there");
        self.waiting_bytes -= frame.len;
        if frame.data.is_some() {
            self.tasks.retain(
                |task| !matches!(task, Task::Frame { serial, .. } if *serial == frame.serial),
            );
        }
        frame
    }

    fn drop_waiting(&mut self, dropped: impl Fn(&Waiting) -> bool) {
        while let Some(at) = self.waiting.iter().position(&dropped) {
            self.remove(at).data.into_iter().for_each(|data| self.reuse(data));
            self.stats.dropped += 1;
        }
        self.settle();
    }

    /// Requests a keyframe for streams that fell behind, once none of their frames waits.
    fn settle(&mut self) {
        // Half the bound, so that the requested keyframe finds room.
        let is_full =
            self.waiting.len() >= WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX / 2;
        for (stream, answer) in self.streams.iter_mut().zip(&mut self.answers) {
            if let Some(stream) = stream
                && stream.tracking == Tracking::Behind
                && !is_full
                && !self.waiting.iter().any(|waiting| waiting.stream == stream.number)
            {
                stream.tracking = Tracking::NeedsKeyframe { requested: true };
                *answer = Some(DecoderState::NeedsKeyframe);
                self.stats.keyframe_requests += 1;
            }
        }
    }
}

/// Whether a frame is exactly what the session's screen shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fidelity {
    Lossless,
    Lossy,
}

/// The size of compressed frames: even edges.
const fn even(size: Size) -> Size {
    Size { width: size.width.next_multiple_of(2), height: size.height.next_multiple_of(2) }
}

/// Subtracts the region from frames of this eye that wait.
fn subtract_from<'a>(frames: impl Iterator<Item = &'a mut Waiting>, eye: Eye, region: &Region) {
    for waiting in frames {
        if waiting.eye == eye && waiting.unwritten.overlaps(region) {
            waiting.unwritten.subtract(region);
            bound(&mut waiting.unwritten);
        }
    }
}

/// A frame whose visible region exceeds a clip's bound shows nothing; the session refreshes the
/// area when it is at rest.
fn bound(unwritten: &mut Region) {
    if unwritten.rect_count() > RECTS_MAX {
        unwritten.clear();
    }
}
