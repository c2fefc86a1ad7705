//! Path 5/13 to 7/13: beside command_queue.rs, whose items it tags, and viewer.rs, which asks what
//! may be sent.
//! Which videos one viewer gets as video streams (THINC §2.5), and how each frame is to be coded.
//! Knows rectangles, sizes, times, rates and what the viewer decodes; never samples or pixels.

mod areas;
mod bitrate;
mod codecs;
mod frames;
mod right_eye;
mod scaled;
mod stream;

use thinc_protocol::Micros;
use thinc_protocol::command::Command;
use thinc_protocol::commands::Commands;
use thinc_protocol::limits::VIDEO_STREAMS_MAX;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::video::{
    Codec, DecoderState, Eye, FrameData, Source, VideoCommand, VideoStatus,
};
use thinc_protocol::viewer::ViewerCaps;
use thinc_region::{Rect, Region, Size};

use crate::delivery::effects::DeliveryOrder;
use crate::delivery::ledger::{JobId, JobProgress};
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::quality::{JpegProfile, RateEstimate, VideoPolicy};
use crate::queue::command_queue::CommandQueue;

use areas::{CANDIDATES_MAX, REDRAWN_MAX, RedrawnArea, VideoCandidate};
use bitrate::BitrateControl;
use codecs::ViewerCodecs;
use frames::{FRAME_AREAS_MAX, FrameArea};
pub(crate) use right_eye::PickedRightEye;
pub use right_eye::RightEyeFrame;
pub(crate) use stream::{CODED_MAX, INTERVAL_INITIAL, PortFrame, next_interval};
use stream::{
    CommittedFrame, OP_UNKNOWN, RetryBackoff, StreamNumber, StreamState, VideoStream, is_codable,
};

/// A frame of a stream, from which the shell makes the NEXT command. Its clip is as much of the
/// job's region as it shows as video; the shell may add other commands for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoFrame {
    /// The stream's number on the wire.
    pub stream: u16,
    /// Where its frames come from.
    pub origin: VideoOrigin,
    /// The source that the viewer was told: a picture of another size cannot be this frame.
    pub source: Source,
    /// Where the whole crop would be visible.
    pub place: Rect,
    /// When it was drawn.
    pub time: Micros,
    /// How it is to be coded.
    pub coding: Coding,
    /// Text that moves in a video area is in its frames, because the path does not carry it.
    pub takes_text: bool,
    /// Codecs beside H.264 that it may have: bits of `FrameCodec`. With that of 4:4:4 it is to have
    /// chroma of full resolution.
    pub codecs: u32,
}

/// Where a stream's frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoOrigin {
    /// The newest frame of this port of XVideo.
    Port(u16),
    /// The screen's own pixels in the frame's place.
    Area,
    /// The right eye's picture of this port's newest stereo frame, which is never pixels of the
    /// viewer's framebuffer.
    RightEye(u16),
}

/// How a frame is to be coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Its samples as they are: lossless. Never for an area, whose samples are made of pixels. For
    /// the right eye: its pixels.
    Plain,
    /// H.264, or another codec that the shell has and the viewer takes.
    H264 {
        /// Bits a second for the stream.
        bits_per_second: u64,
        /// Approximate frames a second.
        frames_per_second: u32,
        /// It refers to no earlier frame.
        keyframe: bool,
    },
}

/// Most streams of a viewer at a time.
const STREAMS_MAX: usize = VIDEO_STREAMS_MAX as usize;
/// Most rectangles of a frame's clip; with more, the frame is sent as pixels.
pub(crate) const CLIP_RECTS_MAX: usize = 64;
/// Shortest interval between keyframes: a viewer may ask for them without limit.
const KEYFRAME_INTERVAL_MIN: Micros = 200_000;
/// A stream switches to plain frames if the path carries so many times their bytes, and back below
/// the second factor.
const PLAIN_FROM: f64 = 2.0;
const PLAIN_UNTIL: f64 = 1.6;
/// Without a codec, plain frames are sent if the path carries so many times their bytes, and pixels
/// below.
const PLAIN_ONLY_FROM: f64 = 1.2;
/// Share of its interval that a frame may wait for the path before the bitrate falls; and a frame
/// of so many times the usual bytes explains a delay.
const LATE: f64 = 0.75;
const LARGE: f64 = 2.0;
/// Longest transfer time of the one plain frame that refreshes a port: nothing overtakes it.
const PLAIN_REFRESH_TIME_MAX: Micros = 100_000;

/// Statistics of videos, since the viewer connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoStats {
    /// Streams that began.
    pub begun: u64,
    /// Streams that ended before their geometry did.
    pub ended: u64,
    /// Frames sent to the encoders as plain samples.
    pub plain: u64,
    /// Frames to be coded.
    pub coded: u64,
    /// Keyframes among them.
    pub keyframes: u64,
    /// Frames that the next one replaced before they were sent.
    pub dropped: u64,
    /// Current bits a second for all streams.
    pub bits_per_second: u64,
}

/// Whether and how a pending frame may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameDecision {
    /// It is sent as pixels.
    Pixels,
    /// It may be sent plain, in about so many bytes.
    Plain(u64),
    /// It may be coded, if the queueing delay of so many bytes is short.
    Coded(u64),
    /// Not yet: an earlier one is in progress.
    NotYet,
}

/// Rates of a viewer's path, in bytes a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathRates {
    /// The best recent rate.
    pub(crate) rate: u64,
    /// The rate that the transport's window allows now.
    pub(crate) window: u64,
    /// What may be assumed for one large frame.
    pub(crate) large: u64,
}

/// One viewer's videos.
#[derive(Debug)]
pub(crate) struct Videos {
    policy: VideoPolicy,
    /// What the person at the viewer has chosen.
    quality: PictureQuality,
    /// The viewer takes streams, and coded ones; and these are sent for now.
    takes: bool,
    may_take_coded: bool,
    takes_coded: bool,
    codecs: ViewerCodecs,
    /// Most bytes of a frame.
    frame_bytes_max: u64,
    streams: Vec<VideoStream>,
    numbers: [StreamNumber; STREAMS_MAX],
    /// Streams whose END is still to be sent.
    ending: Vec<u16>,
    candidates: Vec<VideoCandidate>,
    redrawn: Vec<RedrawnArea>,
    /// Frames of programs, and the profile of what moves in them, if it may be lossy pictures.
    frames: Vec<FrameArea>,
    pictures: Option<JpegProfile>,
    port_backoff: [RetryBackoff; STREAMS_MAX],
    area_backoff: RetryBackoff,
    /// The viewer wants the right eye's pictures.
    wants_right_eyes: bool,
    right_eye_backoff: RetryBackoff,
    /// When the next of them may be due that has no stream yet.
    right_eye_begins_at: Option<Micros>,
    bitrate: BitrateControl,
    stats: VideoStats,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl Videos {
    pub(crate) fn new(caps: u32, policy: VideoPolicy, frame_bytes_max: u64) -> Videos {
        let takes = caps & ViewerCaps::VIDEO != 0 && policy != VideoPolicy::Off;
        let takes_coded = takes && caps & ViewerCaps::H264 != 0 && policy != VideoPolicy::Plain;
        Videos {
            policy,
            quality: PictureQuality::Auto,
            takes,
            may_take_coded: takes_coded,
            takes_coded,
            codecs: ViewerCodecs::default(),
            frame_bytes_max,
            streams: Vec::new(),
            numbers: [StreamNumber::Free; STREAMS_MAX],
            ending: Vec::new(),
            candidates: Vec::new(),
            redrawn: Vec::new(),
            frames: Vec::new(),
            pictures: None,
            port_backoff: [RetryBackoff::default(); STREAMS_MAX],
            area_backoff: RetryBackoff::default(),
            wants_right_eyes: false,
            right_eye_backoff: RetryBackoff::default(),
            right_eye_begins_at: None,
            bitrate: BitrateControl::default(),
            stats: VideoStats::default(),
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
    }

    /// Frames cannot refer to lost or late ones.
    pub(crate) fn set_delivery_order(&mut self, arrival: DeliveryOrder) {
        if arrival == DeliveryOrder::Unordered {
            self.takes = false;
            (self.may_take_coded, self.takes_coded) = (false, false);
        }
    }

    /// The person has chosen this, and what moves in known frames may be lossy pictures of this
    /// profile.
    pub(crate) fn set_quality(
        &mut self,
        quality: PictureQuality,
        pictures: Option<JpegProfile>,
        queue: &mut CommandQueue,
    ) {
        self.pictures = pictures.filter(|_| self.policy == VideoPolicy::Auto);
        let was_exact = self.quality == PictureQuality::Exact;
        self.quality = quality;
        let is_exact = quality == PictureQuality::Exact;
        if is_exact != was_exact {
            self.takes_coded = self.may_take_coded && !is_exact;
            // A stream's codec is announced when it begins. Others follow, of ports at once.
            while !self.streams.is_empty() {
                self.end(0, queue);
            }
        }
    }

    /// How videos are sent, by the session's policy and the person's choice.
    fn coding_policy(&self) -> VideoPolicy {
        match (self.policy, self.quality) {
            (VideoPolicy::Off, _) => VideoPolicy::Off,
            (VideoPolicy::Auto, PictureQuality::Medium | PictureQuality::Low) => VideoPolicy::H264,
            (policy, _) => policy,
        }
    }

    /// Bits a second that a stream is worth.
    fn bits_wanted(&self, stream: &VideoStream) -> f64 {
        stream.bits_wanted() * bitrate::share_of(self.quality)
    }

    pub(crate) fn stats(&self) -> VideoStats {
        VideoStats { bits_per_second: self.bitrate.bits(), ..self.stats }
    }

    /// Rule 9. A new geometry ends all streams, once the viewer has received it; `newest_seq` was
    /// sent before.
    pub(crate) fn reset(&mut self, newest_seq: u64) {
        if mutated!(self.mutation, GeometryKeepsStreams) {
            return;
        }
        for stream in self.streams.drain(..) {
            let announced = stream.state != StreamState::New;
            self.numbers[usize::from(stream.id)] = if announced {
                StreamNumber::FreeAfter(newest_seq + 1)
            } else {
                StreamNumber::Free
            };
        }
        for id in self.ending.drain(..) {
            self.numbers[usize::from(id)] = StreamNumber::FreeAfter(newest_seq + 1);
        }
        for number in &mut self.numbers {
            if *number == StreamNumber::Ending {
                *number = StreamNumber::FreeAfter(newest_seq + 1);
            }
        }
        self.candidates.clear();
        self.redrawn.clear();
        self.frames.clear();
    }

    fn position(&self, id: u16) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// Begins a stream; None if no number is free.
    fn begin(
        &mut self,
        origin: VideoOrigin,
        source: Source,
        place: Rect,
        now: Micros,
    ) -> Option<&mut VideoStream> {
        let id = self.numbers.iter().position(|&number| number == StreamNumber::Free)?;
        self.numbers[id] = StreamNumber::Taken;
        self.streams.push(VideoStream::new(id as u16, origin, source, place, now));
        self.streams.last_mut()
    }

    /// Ends the stream at `at`; its pending frame is sent as pixels.
    fn end(&mut self, at: usize, queue: &mut CommandQueue) {
        let stream = self.streams.swap_remove(at);
        queue.end_stream(stream.id);
        // Pixels that may show another frame are read as pixels: no later frame will replace them.
        queue.stale_video(&stream.uncertain, stream.drawn_at);
        if stream.state == StreamState::New {
            self.numbers[usize::from(stream.id)] = StreamNumber::Free;
            return;
        }
        self.stats.ended += 1;
        self.numbers[usize::from(stream.id)] = StreamNumber::Ending;
        self.ending.push(stream.id);
    }

    /// A frame was drawn, and is visible in `region`. Returns the stream that shows it, if one is
    /// ready.
    pub(crate) fn frame(
        &mut self,
        frame: &PortFrame,
        region: &Region,
        queue: &mut CommandQueue,
        now: Micros,
    ) -> Option<u16> {
        if !self.takes || usize::from(frame.port) >= STREAMS_MAX {
            return None;
        }
        let origin = VideoOrigin::Port(frame.port);
        let at = self.streams.iter().position(|stream| stream.origin == origin);
        let inside = frame.place.contains(&region.extents());
        let coded = self.takes_coded && is_codable(frame.source.size);
        // A shrunk frame has no plain samples.
        let fits = coded || (1..=self.frame_bytes_max).contains(&frame.bytes);
        if !frame.is_representable() || !fits || !inside || region.rect_count() > CLIP_RECTS_MAX {
            // Sent as pixels; the stream stays for the next frame.
            if let Some(stream) = at.map(|at| &mut self.streams[at]) {
                stream.shown.clear();
                stream.op = frame.op;
                queue.end_stream(stream.id);
            }
            return None;
        }
        let at = match at {
            Some(at) => at,
            None if region.is_empty() || now < self.port_backoff[usize::from(frame.port)].until => {
                return None;
            }
            None => {
                self.begin(origin, frame.source, frame.place, now)?;
                self.streams.len() - 1
            }
        };
        let stream = &mut self.streams[at];
        stream.drawn(now);
        if queue.waits(stream.id) {
            self.stats.dropped += 1;
            if stream.delayed_since.is_some() {
                self.bitrate.delayed(now);
            }
        }
        // As SRCSIZE requires, also for a part of a frame.
        stream.keyframe_wanted |= stream.source != frame.source;
        (stream.source, stream.place) = (frame.source, frame.place);
        stream.plain_bytes = frame.bytes;
        stream.op = frame.op;
        stream.shown.clone_from(region);
        let ready = stream.state == StreamState::Ready
            || mutated!(self.mutation, FramesDoNotWaitForDecoder);
        ready.then_some(stream.id)
    }

    /// Pixels that may show this frame although it is not visible there: it was drawn before the
    /// previous one was read.
    pub(crate) fn uncertain_outside(&self, frame: &PortFrame, region: &Region) -> Region {
        let origin = VideoOrigin::Port(frame.port);
        let stream = self
            .streams
            .iter()
            .find(|stream| stream.origin == origin && frame.op <= stream.uncertain_tag);
        let stream = stream.filter(|_| !mutated!(self.mutation, LateFramesAreAccepted));
        stream.map_or_else(Region::new, |stream| stream.uncertain.difference(region))
    }

    /// Some pixels may show a frame whose record has not arrived.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.streams.iter().any(|stream| !stream.uncertain.is_empty())
    }

    /// Rule 9. Records are missing, perhaps of frames: nobody knows which frame is pending, nor
    /// which one was read. Returns the pixels read of an unknown frame.
    pub(crate) fn overflowed(&mut self, queue: &mut CommandQueue) -> Region {
        let mut uncertain = Region::new();
        for stream in self.streams.iter_mut().filter(|stream| !stream.is_area()) {
            uncertain.add(&stream.uncertain.take());
            stream.shown.clear();
            stream.op = OP_UNKNOWN;
            queue.end_stream(stream.id);
        }
        uncertain
    }

    /// The records of ops up to this one have arrived: reads without a later op show the frame of
    /// their clip.
    pub(crate) fn passed(&mut self, op: u64) {
        for stream in &mut self.streams {
            if stream.uncertain_tag <= op {
                stream.uncertain.clear();
            }
        }
    }

    /// This port shows nothing any more.
    pub(crate) fn stopped(&mut self, port: u16, queue: &mut CommandQueue) {
        if let Some(at) =
            self.streams.iter().position(|stream| stream.origin == VideoOrigin::Port(port))
        {
            self.end(at, queue);
        }
    }

    /// Something else was drawn there.
    #[inline]
    pub(crate) fn drawn(&mut self, region: &Region) {
        if mutated!(self.mutation, RefreshFrameIncludesCovered) {
            return;
        }
        for stream in &mut self.streams {
            if !stream.shown.is_empty() {
                stream.shown.subtract(region);
            }
        }
    }

    /// A stream's own frame was drawn there.
    pub(crate) fn drawn_over(&mut self, region: &Region, by: u16) {
        for stream in
            self.streams.iter_mut().filter(|stream| stream.id != by && !stream.shown.is_empty())
        {
            stream.shown.subtract(region);
        }
    }

    /// Time alone ends idle areas, and changes the bitrate.
    pub(crate) fn update(&mut self, rate: RateEstimate, queue: &mut CommandQueue, now: Micros) {
        if self.streams.is_empty() {
            return;
        }
        while let Some(at) =
            self.streams.iter().position(|stream| stream.is_area() && now >= stream.rests_at())
        {
            self.end(at, queue);
        }
        self.end_for_pictures(rate, queue, now);
        let wanted = |stream: &VideoStream| {
            if now < stream.rests_at() { self.bits_wanted(stream) } else { 0.0 }
        };
        let wanted = self.streams.iter().map(wanted).sum();
        self.bitrate.update(rate, wanted, now);
        self.decide_text(rate);
    }

    /// The viewer's report about a stream. A stream that does not exist is no error.
    pub(crate) fn handle_status(
        &mut self,
        state: VideoStatus,
        queue: &mut CommandQueue,
        now: Micros,
    ) {
        let Some(at) = self.position(state.id) else { return };
        let stream = &mut self.streams[at];
        match state.decoder {
            // Nothing was offered yet.
            _ if stream.state == StreamState::New => {}
            DecoderState::Ready => stream.state = StreamState::Ready,
            DecoderState::Refused => self.failed(at, queue, now),
            DecoderState::NeedsKeyframe => {
                if !mutated!(self.mutation, KeyframeRequestIsIgnored) {
                    stream.keyframe_wanted = true;
                    stream.right_eye.lost();
                }
            }
        }
    }

    fn failed(&mut self, at: usize, queue: &mut CommandQueue, now: Micros) {
        let stream = &self.streams[at];
        let backoff = match stream.origin {
            VideoOrigin::Port(port) => &mut self.port_backoff[usize::from(port)],
            VideoOrigin::Area => &mut self.area_backoff,
            VideoOrigin::RightEye(_) => &mut self.right_eye_backoff,
        };
        backoff.failed(stream, now);
        self.end(at, queue);
    }

    /// The shell cannot continue a stream. Returns its newest job and region, which may lack a
    /// frame.
    pub(crate) fn stream_failed(
        &mut self,
        id: u16,
        queue: &mut CommandQueue,
        now: Micros,
    ) -> Option<(JobId, Region)> {
        let at = self.position(id)?;
        let newest = self.streams[at].committed.take().map(|frame| (frame.job, frame.region));
        self.failed(at, queue, now);
        newest
    }

    /// The stream exists.
    pub(crate) fn has(&self, id: u16) -> bool {
        self.position(id).is_some()
    }

    /// INITs and ENDs wait to be sent.
    pub(crate) fn has_pending_commands(&self) -> bool {
        !self.ending.is_empty()
            || self.streams.iter().any(|stream| stream.state == StreamState::New)
    }

    /// Appends the commands to send before a job, which may contain a frame of stream `frame`;
    /// returns the streams that they concern, a bit each.
    pub(crate) fn write_commands(&mut self, frame: Option<u16>, out: &mut Commands) -> u16 {
        let mut about = 0;
        let mut put = |command: VideoCommand<'_>| {
            about |= 1 << command.id();
            Command::Video(command).append_to(out);
        };
        for id in self.ending.drain(..) {
            put(VideoCommand::End { id });
        }
        for stream in &mut self.streams {
            let id = stream.id;
            if stream.state == StreamState::New {
                stream.codable = self.takes_coded && stream.is_codable();
                let codec = if stream.codable { Codec::H264 } else { Codec::None };
                let eye = if stream.paints() { Eye::Left } else { Eye::Right };
                let (source, place) = (stream.source, stream.place);
                put(VideoCommand::Init { id, codec, eye, source, place });
                stream.state = StreamState::Offered;
                stream.announced = (stream.source, stream.place);
                self.stats.begun += 1;
            } else if frame == Some(id) {
                let (source, place) =
                    std::mem::replace(&mut stream.announced, (stream.source, stream.place));
                if source != stream.source {
                    put(VideoCommand::SourceSize { id, source: stream.source });
                    stream.keyframe_wanted = true;
                }
                let Rect { x1: x, y1: y, .. } = stream.place;
                if (place.x1, place.y1) != (x, y) {
                    put(VideoCommand::Move { id, x, y });
                }
                let size =
                    |rect: Rect| Size { width: rect.width() as u32, height: rect.height() as u32 };
                if size(place) != size(stream.place) {
                    put(VideoCommand::PlaceSize { id, size: size(stream.place) });
                }
            }
        }
        about | frame.map_or(0, |id| 1 << id)
    }

    /// Whether a frame of this stream may be committed. A coded one may wait for the path behind
    /// another.
    pub(crate) fn frame_decision(
        &self,
        id: u16,
        progress: impl Fn(JobId) -> JobProgress,
        path: PathRates,
        now: Micros,
    ) -> FrameDecision {
        let Some(at) = self.position(id) else { return FrameDecision::Pixels };
        let stream = &self.streams[at];
        let newest =
            stream.committed.as_ref().map_or(JobProgress::Done, |frame| progress(frame.job));
        let waits = newest != JobProgress::Done;
        if newest == JobProgress::Encoding
            || waits && stream.previous_job.is_some_and(|job| progress(job) != JobProgress::Done)
        {
            return FrameDecision::NotYet;
        }
        match self.coding(stream, path) {
            None if waits => FrameDecision::NotYet,
            None => FrameDecision::Pixels,
            Some(Coding::Plain) if waits => FrameDecision::NotYet,
            Some(Coding::Plain) => FrameDecision::Plain(stream.plain_bytes),
            Some(Coding::H264 { .. }) if stream.keyframe_wanted && now < stream.keyframe_from => {
                FrameDecision::NotYet
            }
            Some(Coding::H264 { bits_per_second, .. }) => {
                FrameDecision::Coded((bits_per_second as f64 / 8.0 / stream.rate()) as u64)
            }
        }
    }

    /// Its frames may be coded.
    fn is_coded(&self, stream: &VideoStream) -> bool {
        self.takes_coded && stream.codable && stream.is_codable()
    }

    /// How the next frame is coded; None if it is better sent as pixels.
    fn coding(&self, stream: &VideoStream, path: PathRates) -> Option<Coding> {
        let fits = stream.plain_bytes > 0 && stream.plain_bytes <= self.frame_bytes_max;
        let carried = path.rate as f64 / stream.plain_rate().max(1.0);
        let enough = if stream.is_plain { PLAIN_UNTIL } else { PLAIN_FROM };
        let coded = self.is_coded(stream);
        let plain = match self.coding_policy() {
            VideoPolicy::H264 => !coded && fits && carried >= PLAIN_ONLY_FROM,
            // Of what the right eye sees, an old picture is worse than none.
            VideoPolicy::Plain if stream.paints() => fits,
            _ if !coded => fits && carried >= PLAIN_ONLY_FROM,
            _ => fits && carried >= enough,
        };
        if plain {
            return Some(Coding::Plain);
        }
        coded.then(|| Coding::H264 {
            bits_per_second: self.bitrate.share(
                self.bits_wanted(stream),
                path.window,
                stream.keyframe_wanted,
            ),
            frames_per_second: (stream.rate().round() as u32).max(1),
            keyframe: stream.keyframe_wanted,
        })
    }

    /// A frame of the stream is committed as this job, with this queueing delay; `lossless` if it
    /// is to be plain on any path.
    pub(crate) fn commit(
        &mut self,
        id: u16,
        (job, region): (JobId, &Region),
        lossless: bool,
        path: PathRates,
        queueing_delay: Micros,
        now: Micros,
    ) -> Option<VideoFrame> {
        let at = self.position(id)?;
        let coding = if lossless { Coding::Plain } else { self.coding(&self.streams[at], path)? };
        let codecs = self.codecs.of(self.streams[at].origin, now);
        let stream = &mut self.streams[at];
        if !lossless {
            stream.is_plain = coding == Coding::Plain;
        }
        let delay = stream.delayed_since.take().map_or(0, |since| now.saturating_sub(since))
            + queueing_delay;
        let late = delay as f64 > stream.interval * LATE;
        match coding {
            Coding::Plain => self.stats.plain += 1,
            Coding::H264 { keyframe: key, .. } => {
                self.stats.coded += 1;
                self.stats.keyframes += u64::from(key);
                if key {
                    stream.keyframe_wanted = false;
                    stream.keyframe_from = now + KEYFRAME_INTERVAL_MIN;
                    self.bitrate.large_frame(now);
                }
            }
        }
        self.bitrate.frame_sent();
        if late && !lossless {
            self.bitrate.delayed(now);
        }
        stream.previous_job = stream.committed.as_ref().map(|frame| frame.job);
        stream.planned(now);
        stream.committed = Some(CommittedFrame {
            job,
            coding,
            region: region.clone(),
            op: stream.op,
            has_coded: false,
            codecs,
        });
        let &mut VideoStream { origin, source, place, drawn_at: time, takes_text, .. } = stream;
        Some(VideoFrame { stream: id, origin, source, place, time, coding, takes_text, codecs })
    }

    /// Only the path delays a frame: it is full, or the frame before is waiting for it (`waits`).
    pub(crate) fn waits_for_path(
        &self,
        id: u16,
        waits: impl Fn(JobId) -> bool,
        full: bool,
    ) -> bool {
        let Some(at) = self.position(id) else { return false };
        match &self.streams[at].committed {
            Some(frame) if waits(frame.job) => true,
            _ => full,
        }
    }

    /// It is delayed.
    pub(crate) fn delayed(&mut self, id: u16, now: Micros) {
        if let Some(at) = self.position(id) {
            self.streams[at].delayed_since.get_or_insert(now);
        }
    }

    fn of_job(&mut self, job: JobId) -> Option<&mut VideoStream> {
        self.streams
            .iter_mut()
            .find(|stream| stream.committed.as_ref().is_some_and(|frame| frame.job == job))
    }

    /// The samples of a job, visible in `region`, were read when ops up to `tag` may have been in
    /// them; records up to `passed` have arrived. Returns the pixels that show a later frame than
    /// the one visible there, since one was drawn after the commit.
    pub(crate) fn read(&mut self, job: JobId, region: &Region, tag: u64, passed: u64) -> Region {
        if mutated!(self.mutation, LateFramesAreAccepted) {
            return Region::new();
        }
        let of_port = |stream: &&mut VideoStream| matches!(stream.origin, VideoOrigin::Port(_));
        let Some(stream) = self.of_job(job).filter(of_port) else {
            return Region::new();
        };
        if tag > passed {
            stream.uncertain.add(region);
            if stream.uncertain.rect_count() > CLIP_RECTS_MAX {
                stream.uncertain = stream.uncertain.extents().into();
            }
            stream.uncertain_tag = stream.uncertain_tag.max(tag);
        }
        let newer = stream.committed.as_ref().is_some_and(|frame| frame.op != stream.op);
        if newer { region.difference(&stream.shown) } else { Region::new() }
    }

    /// Commands of this job arrived from the encoder.
    pub(crate) fn frame_encoded(&mut self, job: JobId, commands: &Commands, now: Micros) {
        let Some(stream) = self.of_job(job) else { return };
        let interval = stream.interval;
        let Some(frame) = &mut stream.committed else { return };
        let Coding::H264 { bits_per_second, .. } = frame.coding else { return };
        let coded = |(command, _): (Command<'_>, usize)| match command {
            Command::Video(VideoCommand::Next {
                frame: FrameData::Coded { keyframe, data },
                ..
            }) => Some((keyframe, data.len())),
            _ => None,
        };
        let Some((keyframe, bytes)) = commands.iter().find_map(coded) else { return };
        frame.has_coded = true;
        let may_have = frame.codecs;
        if let Some(codec) = keyframe {
            self.codecs.keyframe_encoded(may_have, codec, now);
        }
        if bytes as f64 * 8e6 > bits_per_second as f64 * interval * LARGE {
            self.bitrate.large_frame(now);
        }
    }

    /// All of its commands have arrived. If they lack the expected keyframe, it is still wanted.
    pub(crate) fn encoded(&mut self, job: JobId) {
        if let Some(stream) = self.of_job(job)
            && let Some(CommittedFrame {
                coding: Coding::H264 { keyframe: true, .. },
                has_coded: false,
                ..
            }) = stream.committed
        {
            stream.keyframe_wanted = true;
        }
    }

    /// A frame of this job is longer than the viewer takes: the next would be too.
    pub(crate) fn too_long(&mut self, job: JobId, queue: &mut CommandQueue, now: Micros) {
        if let Some(id) = self.of_job(job).map(|stream| stream.id)
            && let Some(at) = self.position(id)
        {
            self.failed(at, queue, now);
        }
    }

    /// When a pending frame may be sent as a keyframe.
    pub(crate) fn keyframe_due(&self, queue: &CommandQueue, now: Micros) -> Option<Micros> {
        let waits = |stream: &&VideoStream| {
            stream.keyframe_wanted
                && stream.keyframe_from > now
                && (queue.waits(stream.id) || stream.right_eye.is_pending())
        };
        self.streams.iter().filter(waits).map(|stream| stream.keyframe_from).min()
    }

    /// The job was cancelled: the encoder's reference is unknown.
    pub(crate) fn cancelled(&mut self, job: JobId) {
        if mutated!(self.mutation, FrameRefersToCancelledFrame) {
            return;
        }
        let Some(stream) = self.of_job(job) else { return };
        stream.right_eye.cancelled();
        if let Some(CommittedFrame { coding: Coding::H264 { .. }, .. }) = stream.committed {
            stream.keyframe_wanted = true;
            stream.keyframe_from = 0;
        }
    }

    /// ENDs were sent with this update, a bit for each stream.
    pub(crate) fn ended(&mut self, ends: u16, seq: u64) {
        for (id, number) in self.numbers.iter_mut().enumerate() {
            if ends & 1 << id != 0 && *number == StreamNumber::Ending {
                *number = StreamNumber::FreeAfter(seq);
            }
        }
    }

    /// The viewer has applied everything up to this update.
    pub(crate) fn acked(&mut self, seq: u64) {
        for number in &mut self.numbers {
            if matches!(number, StreamNumber::FreeAfter(last) if *last <= seq) {
                *number = StreamNumber::Free;
            }
        }
    }

    /// Places of active streams, without text that may be in their frames: their lossy pixels are
    /// not refreshed yet.
    pub(crate) fn active(&self, now: Micros) -> Region {
        let mut active = Region::new();
        for stream in self
            .streams
            .iter()
            .filter(|stream| stream.paints())
            .filter(|stream| stream.state == StreamState::Ready && now < stream.rests_at())
        {
            active.add_rect(stream.place);
            active.subtract(&stream.text);
        }
        active
    }

    /// When the first of them will be at rest.
    pub(crate) fn rests_at(&self, now: Micros) -> Option<Micros> {
        let painted = self.streams.iter().filter(|stream| stream.paints());
        painted.map(VideoStream::rests_at).filter(|&at| at > now).min()
    }

    /// One plain frame that refreshes some of `lossy` in fewer bytes than its pixels take; with the
    /// region and bytes.
    pub(crate) fn pick_plain_frame(
        &self,
        lossy: &Region,
        bytes_per_pixel: f64,
        rate: u64,
        progress: impl Fn(JobId) -> JobProgress,
        now: Micros,
    ) -> Option<(u16, Region, u64)> {
        let at_once = rate * PLAIN_REFRESH_TIME_MAX / 1_000_000;
        self.streams.iter().find_map(|stream| {
            let plain = stream.plain_bytes;
            let left = stream
                .committed
                .as_ref()
                .is_none_or(|frame| progress(frame.job) == JobProgress::Done);
            let may = left
                && self.policy != VideoPolicy::H264
                && plain > 0
                && plain <= self.frame_bytes_max.min(at_once);
            let known = stream.state == StreamState::Ready
                && now >= stream.rests_at()
                && !stream.shown.is_empty();
            let region =
                if may && known { lossy.intersection(&stream.shown) } else { Region::new() };
            let fewer = (plain as f64) < region.area() as f64 * bytes_per_pixel;
            let clip = !region.is_empty() && region.rect_count() <= CLIP_RECTS_MAX;
            (fewer && clip).then_some((stream.id, region, plain))
        })
    }

    /// # Panics
    /// If an invariant of this file does not hold; the message states it.
    pub(crate) fn check_invariants(&self, queue: &CommandQueue) {
        assert!(self.streams.len() <= STREAMS_MAX, "at most {STREAMS_MAX} streams");
        assert!(
            self.candidates.len() <= CANDIDATES_MAX,
            "at most {CANDIDATES_MAX} areas may become streams"
        );
        assert!(
            self.redrawn.len() <= REDRAWN_MAX,
            "at most {REDRAWN_MAX} redrawn areas are tracked"
        );
        assert!(
            self.frames.len() <= FRAME_AREAS_MAX,
            "at most {FRAME_AREAS_MAX} areas of frames are tracked"
        );
        assert!(self.ending.len() <= STREAMS_MAX, "each END is queued once");
        for (i, stream) in self.streams.iter().enumerate() {
            let taken = self.numbers[usize::from(stream.id)];
            assert!(taken == StreamNumber::Taken, "the number of a stream is taken");
            let same = |other: &VideoStream| other.id == stream.id;
            assert!(!self.streams[i + 1..].iter().any(same), "no two streams have the same number");
            assert!(
                stream.shown.is_empty() || stream.place.contains(&stream.shown.extents()),
                "a frame lies in its place"
            );
        }
        for item in queue.items() {
            let Some(id) = item.stream else { continue };
            assert!(self.position(id).is_some(), "the stream of a pending frame exists");
        }
    }
}
