//! Path 5/13: under video.rs.
//! One stream of pictures, what names it, and a frame that is drawn for it.
//! Knows rectangles, sizes and times; never which stream goes next.

use thinc_protocol::Micros;
use thinc_protocol::limits::VIDEO_EDGE_MAX;
use thinc_protocol::video::Source;
use thinc_region::{Rect, Region, Size};
use thinc_ring::Drawn;

use super::{Coding, VideoOrigin, pace};
use crate::update::JobId;

/// Longest edge of a place, and how far it may lie, as the protocol has it.
const PLACE_MAX: i32 = 32768;
/// A port has rested, and what it shows is made exact, when so many of its frames have not come, within these bounds: the shortest
/// spares a video of four frames a second, the longest is what a person takes for a pause.
const REST_FRAMES: u64 = 3;
const REST_MIN: Micros = 250_000;
const REST_MAX: Micros = 1_000_000;
/// After a refusal or a failure nothing of the kind is begun for so long, doubled each time and at most so often.
const REFUSAL_PAUSE: Micros = 2_000_000;
const REFUSALS_DOUBLED_MAX: u32 = 5;
/// A stream that lasted for so long says that what was refused before is forgotten.
const LIVED_WELL: Micros = 30_000_000;
/// An area ends when nothing was drawn in it for so long, or when its pictures were looked at for so long and it was not told to move. Where
/// the path lets nobody look, nobody knows that it does not.
const AREA_ENDS: Micros = 500_000;
/// A frame's interval before two were seen, and within which bounds it is believed.
const INTERVAL_INITIAL: f64 = 33_333.0;
pub(super) const INTERVAL_MIN: f64 = 8_000.0;
pub(super) const INTERVAL_MAX: f64 = 500_000.0;
/// Weight of a new interval.
const INTERVAL_WEIGHT: f64 = 0.125;
/// Drawings closer than this are of one frame of an area.
pub(super) const FRAME_APART: Micros = 5_000;
/// The newest frame of a port is one that no record told of.
pub(super) const OP_UNKNOWN: u64 = u64::MAX;

/// Largest picture that is coded, upright or lying: what OpenH264 takes.
pub(crate) const CODED_MAX: Size = Size { width: 3840, height: 2160 };

/// An encoder takes pictures of this size.
pub(super) fn is_codable(size: Size) -> bool {
    let (long, short) = (size.width.max(size.height), size.width.min(size.height));
    long <= CODED_MAX.width && short <= CODED_MAX.height
}

/// A frame of XVideo on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortFrame {
    pub(super) port: u16,
    /// The drawing it is.
    pub(super) op: u64,
    pub(super) source: Source,
    pub(crate) place: Rect,
    /// Of its samples.
    pub(super) bytes: u64,
}

impl PortFrame {
    /// None where that is no frame of a video.
    pub(crate) fn of(what: Drawn, op: u64) -> Option<PortFrame> {
        let Drawn::Video { port, layout, size, crop, place } = what else { return None };
        Some(PortFrame { port, op, source: Source { size, crop }, place, bytes: layout.bytes(size) as u64 })
    }

    /// A stream can be said to show it.
    pub(super) fn is_sayable(&self) -> bool {
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
pub(super) enum State {
    /// Its INIT is still to be said.
    New,
    /// The viewer makes its decoder ready.
    Offered,
    Ready,
}

/// A frame that was committed.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) job: JobId,
    pub(super) coding: Coding,
    /// What was to be shown, and the drawing that its clip is of.
    pub(super) region: Region,
    pub(super) op: u64,
    /// A coded picture of it has come from the encoder.
    pub(super) came: bool,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u16,
    pub(super) origin: VideoOrigin,
    pub(super) state: State,
    pub(super) source: Source,
    pub(super) place: Rect,
    /// What the viewer takes them to be.
    pub(super) told: (Source, Rect),
    /// Its INIT said that coded pictures may come.
    pub(super) codable: bool,
    /// Of its samples; of an area 0, for it is never plain.
    pub(super) plain_bytes: u64,
    /// Its pictures are plain for now.
    pub(super) is_plain: bool,
    /// Where the newest frame of the port is seen, and the drawing it was.
    pub(super) shown: Region,
    pub(super) op: u64,
    pub(super) begun_at: Micros,
    /// When the newest frame was drawn, and how long after the one before.
    pub(super) drawn_at: Micros,
    pub(super) interval: f64,
    /// An area: when the first of its pictures went to be looked at of which nobody has told that it moves.
    unmoved_since: Option<Micros>,
    /// The next coded picture leans on none, and goes from then on.
    pub(super) key_wanted: bool,
    pub(super) key_from: Micros,
    /// The newest frame that was committed; it may have left.
    pub(super) committed: Option<Committed>,
    /// The one before it.
    pub(super) behind: Option<JobId>,
    /// Since when a frame waits for the path and nothing else.
    pub(super) held_since: Option<Micros>,
    /// Read when a later frame may have been in the samples than the clip is of, and which op that may be.
    pub(super) late: Region,
    pub(super) late_tag: u64,
}

impl Stream {
    pub(super) fn new(id: u16, origin: VideoOrigin, source: Source, place: Rect, now: Micros) -> Stream {
        Stream {
            id,
            origin,
            state: State::New,
            source,
            place,
            told: (source, place),
            codable: false,
            plain_bytes: 0,
            is_plain: false,
            shown: Region::new(),
            op: 0,
            begun_at: now,
            drawn_at: now,
            interval: INTERVAL_INITIAL,
            unmoved_since: None,
            key_wanted: true,
            key_from: now,
            committed: None,
            behind: None,
            held_since: None,
            late: Region::new(),
            late_tag: 0,
        }
    }

    pub(super) fn is_area(&self) -> bool {
        self.origin == VideoOrigin::Area
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
        if apart < INTERVAL_MAX as Micros {
            let seen = (apart as f64).max(INTERVAL_MIN);
            self.interval += (seen - self.interval) * INTERVAL_WEIGHT;
        }
    }

    /// A picture of it is looked at.
    pub(super) fn looked_at(&mut self, now: Micros) {
        self.unmoved_since.get_or_insert(now);
    }

    /// It moves, as was seen.
    pub(super) fn moved(&mut self) {
        self.unmoved_since = None;
    }

    /// When it will have rested, if nothing more comes.
    pub(super) fn rests_at(&self) -> Micros {
        match self.origin {
            VideoOrigin::Port(_) => self.drawn_at + (self.interval as Micros * REST_FRAMES).clamp(REST_MIN, REST_MAX),
            VideoOrigin::Area => self.unmoved_since.map_or(self.drawn_at, |since| since.min(self.drawn_at)) + AREA_ENDS,
        }
    }

    /// Bytes a second that its plain pictures take.
    pub(super) fn plain_rate(&self) -> f64 {
        self.plain_bytes as f64 * self.rate()
    }

    pub(super) fn bits_wanted(&self) -> f64 {
        pace::bits_wanted(self.source.crop.area(), self.rate())
    }
}

/// Whether a number can name a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Free,
    Taken,
    /// Its END is still to leave.
    Ending,
    /// Once the viewer has applied this update, nothing it says is about the stream that had it.
    FreeAfter(u64),
}

/// Until when streams of a kind are not begun, and how often that was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    pub(super) until: Micros,
    pub(super) times: u32,
}

impl Refusal {
    /// This stream came to its end before its time.
    pub(super) fn again(&mut self, stream: &Stream, now: Micros) {
        if stream.state == State::Ready && now >= stream.begun_at + LIVED_WELL {
            self.times = 0;
        }
        self.until = now + (REFUSAL_PAUSE << self.times.min(REFUSALS_DOUBLED_MAX));
        self.times += 1;
    }
}
