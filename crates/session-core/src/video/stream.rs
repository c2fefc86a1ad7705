//! Path 5/13: under video.rs.
//! One video stream, its number, and a frame that is drawn for it.
//! Knows rectangles, sizes and times; never which stream is sent next.

use thinc_protocol::Micros;
use thinc_protocol::limits::VIDEO_EDGE_MAX;
use thinc_protocol::video::Source;
use thinc_region::{Rect, Region, Size};
use thinc_ring::DrawHint;

use super::right_eye::RightEyeState;
use super::{Coding, VideoOrigin, bitrate};
use crate::delivery::ledger::JobId;

/// Longest edge and farthest position of a place, as in the protocol.
const PLACE_MAX: i32 = 32768;
/// A port is at rest, and is refreshed, after so many missing frames, within these bounds: the
/// shortest spares a video of four frames a second, the longest is what a person takes for a pause.
const REST_FRAMES: u64 = 3;
const REST_MIN: Micros = 250_000;
const REST_MAX: Micros = 1_000_000;
/// After a failure nothing of the kind is begun for so long, doubled each time and at most so
/// often.
const RETRY_AFTER: Micros = 2_000_000;
const RETRY_DOUBLINGS_MAX: u32 = 5;
/// A stream that lasted for so long resets the backoff.
const STABLE_TIME: Micros = 30_000_000;
/// An area ends after so long without a drawing, or after its frames were planned for so long
/// without a report of motion. If the path allows no plans, motion is unknown.
const AREA_IDLE_MAX: Micros = 500_000;
/// Interval of frames before two were drawn, and bounds of a measured one.
pub(crate) const INTERVAL_INITIAL: f64 = 33_333.0;
pub(super) const INTERVAL_MIN: f64 = 8_000.0;
pub(super) const INTERVAL_MAX: f64 = 500_000.0;
/// Weight of a new interval.
const INTERVAL_WEIGHT: f64 = 0.125;
/// Drawings closer together than this belong to one frame of an area.
pub(super) const FRAME_APART: Micros = 5_000;
/// The newest frame of a port is one whose record is missing.
pub(super) const OP_UNKNOWN: u64 = u64::MAX;

/// Shortest edge of a frame that is coded, if it has to be: smaller ones are small as pixels.
const CODED_EDGE_MIN: u32 = 16;
/// Largest frame that is coded, upright or not: the limit of OpenH264.
pub(crate) const CODED_MAX: Size = Size { width: 3840, height: 2160 };

/// An encoder takes frames of this size.
pub(super) fn is_codable(size: Size) -> bool {
    let (long, short) = (size.width.max(size.height), size.width.min(size.height));
    long <= CODED_MAX.width && short <= CODED_MAX.height
}

/// An encoder takes the right eye's pictures of this size.
pub(super) fn is_codable_right_eye(size: Size) -> bool {
    is_codable(size) && size.width.min(size.height) >= CODED_EDGE_MIN
}

/// The average interval of frames, after one that was drawn so long after the one before.
pub(crate) fn next_interval(interval: f64, apart: Micros) -> f64 {
    if apart >= INTERVAL_MAX as Micros {
        // A pause.
        return interval;
    }
    interval + ((apart as f64).max(INTERVAL_MIN) - interval) * INTERVAL_WEIGHT
}

/// A frame of XVideo on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortFrame {
    pub(super) port: u16,
    /// The op that drew it.
    pub(super) op: u64,
    pub(super) source: Source,
    pub(crate) place: Rect,
    /// Bytes of its samples.
    pub(super) bytes: u64,
}

impl PortFrame {
    /// None if the drawing is no frame of a video.
    pub(crate) fn of(what: DrawHint, op: u64) -> Option<PortFrame> {
        let DrawHint::Video { port, layout, size, crop, place } = what else { return None };
        Some(PortFrame {
            port,
            op,
            source: Source { size, crop },
            place,
            bytes: layout.bytes(size) as u64,
        })
    }

    /// The protocol can express it as a frame of a stream.
    pub(super) fn is_representable(&self) -> bool {
        let Size { width, height } = self.source.size;
        let near = |edge: i32| (-PLACE_MAX..=PLACE_MAX).contains(&edge);
        let long = |edge: i32| (1..=PLACE_MAX).contains(&edge);
        width.max(height) <= VIDEO_EDGE_MAX
            && !self.source.crop.is_empty()
            && self.source.size.rect().contains(&self.source.crop)
            && near(self.place.x1)
            && near(self.place.y1)
            && long(self.place.width())
            && long(self.place.height())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    /// Its INIT is still to be sent.
    New,
    /// The viewer prepares its decoder.
    Offered,
    Ready,
}

/// A frame that was committed.
#[derive(Debug)]
pub(super) struct CommittedFrame {
    pub(super) job: JobId,
    pub(super) coding: Coding,
    /// The region to show, and the op that drew the frame of its clip.
    pub(super) region: Region,
    pub(super) op: u64,
    /// The encoder has returned a coded frame.
    pub(super) has_coded: bool,
    /// Codecs beside H.264 that it may have.
    pub(super) codecs: u32,
}

#[derive(Debug)]
pub(super) struct VideoStream {
    pub(super) id: u16,
    pub(super) origin: VideoOrigin,
    pub(super) state: StreamState,
    pub(super) source: Source,
    pub(super) place: Rect,
    /// The source and place that the viewer was told.
    pub(super) announced: (Source, Rect),
    /// Its INIT announced coded frames.
    pub(super) codable: bool,
    /// Bytes of plain samples or pixels; 0 for an area, which is never plain.
    pub(super) plain_bytes: u64,
    /// Its frames are plain for now.
    pub(super) is_plain: bool,
    /// Where the newest frame of the port is visible, and the op that drew it.
    pub(super) shown: Region,
    pub(super) op: u64,
    pub(super) begun_at: Micros,
    /// When the newest frame was drawn, and the average interval.
    pub(super) drawn_at: Micros,
    pub(super) interval: f64,
    /// For an area: when the first frame was planned since the last report of motion.
    unconfirmed_since: Option<Micros>,
    /// The next coded frame is a keyframe, and may be sent from then on.
    pub(super) keyframe_wanted: bool,
    pub(super) keyframe_from: Micros,
    /// The newest frame that was committed; it may have been sent.
    pub(super) committed: Option<CommittedFrame>,
    /// The job of the frame before it.
    pub(super) previous_job: Option<JobId>,
    /// Since when a frame waits for nothing but the path.
    pub(super) delayed_since: Option<Micros>,
    /// Pixels that may show a later frame than that of their clip, and the newest op that may have
    /// drawn it.
    pub(super) uncertain: Region,
    pub(super) uncertain_tag: u64,
    /// Of an area: text that moved while it was in the frames, and may be lossy; pixels of moving
    /// text in a plan, on average; and whether it is in the frames now.
    pub(super) text: Region,
    pub(super) text_pixels: f64,
    pub(super) takes_text: bool,
    /// Of the right eye: what it shows.
    pub(super) right_eye: RightEyeState,
}

impl VideoStream {
    pub(super) fn new(
        id: u16,
        origin: VideoOrigin,
        source: Source,
        place: Rect,
        now: Micros,
    ) -> VideoStream {
        VideoStream {
            id,
            origin,
            state: StreamState::New,
            source,
            place,
            announced: (source, place),
            codable: false,
            plain_bytes: 0,
            is_plain: false,
            shown: Region::new(),
            op: 0,
            begun_at: now,
            drawn_at: now,
            interval: INTERVAL_INITIAL,
            unconfirmed_since: None,
            keyframe_wanted: true,
            keyframe_from: now,
            committed: None,
            previous_job: None,
            delayed_since: None,
            uncertain: Region::new(),
            uncertain_tag: 0,
            text: Region::new(),
            text_pixels: 0.0,
            takes_text: false,
            right_eye: RightEyeState::default(),
        }
    }

    pub(super) fn is_area(&self) -> bool {
        self.origin == VideoOrigin::Area
    }

    /// Its frames are pixels of the framebuffer, and not what the right eye sees.
    pub(super) fn paints(&self) -> bool {
        !matches!(self.origin, VideoOrigin::RightEye(_))
    }

    /// An encoder takes its frames.
    pub(super) fn is_codable(&self) -> bool {
        let size = self.source.size;
        if self.paints() { is_codable(size) } else { is_codable_right_eye(size) }
    }

    /// Frames a second.
    pub(super) fn rate(&self) -> f64 {
        1e6 / self.interval
    }

    pub(super) fn drawn(&mut self, now: Micros) {
        let apart = now.saturating_sub(self.drawn_at);
        if self.is_area() && apart < FRAME_APART {
            return;
        }
        self.drawn_at = now;
        self.interval = next_interval(self.interval, apart);
    }

    /// A frame of it is planned.
    pub(super) fn planned(&mut self, now: Micros) {
        self.unconfirmed_since.get_or_insert(now);
    }

    /// The shell reports its motion.
    pub(super) fn confirm_motion(&mut self) {
        self.unconfirmed_since = None;
    }

    /// When it will be at rest without further frames.
    pub(super) fn rests_at(&self) -> Micros {
        match self.origin {
            VideoOrigin::Port(_) | VideoOrigin::RightEye(_) => {
                self.drawn_at + (self.interval as Micros * REST_FRAMES).clamp(REST_MIN, REST_MAX)
            }
            VideoOrigin::Area => {
                self.unconfirmed_since.map_or(self.drawn_at, |since| since.min(self.drawn_at))
                    + AREA_IDLE_MAX
            }
        }
    }

    /// Bytes a second of plain frames.
    pub(super) fn plain_rate(&self) -> f64 {
        self.plain_bytes as f64 * self.rate()
    }

    pub(super) fn bits_wanted(&self) -> f64 {
        bitrate::bits_wanted(self.source.crop.area(), self.rate())
    }
}

/// Whether a number can identify a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamNumber {
    Free,
    Taken,
    /// Its END is still to be sent.
    Ending,
    /// Once the viewer has applied this update, it can no longer report about the stream with this
    /// number.
    FreeAfter(u64),
}

/// Until when streams of a kind are not begun, and how often they failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RetryBackoff {
    pub(super) until: Micros,
    pub(super) times: u32,
}

impl RetryBackoff {
    /// A stream failed.
    pub(super) fn failed(&mut self, stream: &VideoStream, now: Micros) {
        if stream.state == StreamState::Ready && now >= stream.begun_at + STABLE_TIME {
            self.times = 0;
        }
        self.until = now + (RETRY_AFTER << self.times.min(RETRY_DOUBLINGS_MAX));
        self.times += 1;
    }
}
