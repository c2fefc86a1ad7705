//! Path 5/13: under video.rs.
//! Which parts of the screen that change like videos become streams of one viewer.
//! Knows rectangles and times; never pixels, nor how it was found that they move.

use thinc_protocol::Micros;
use thinc_protocol::video::Source;
use thinc_region::{Rect, Region, Size};

use super::stream::{FRAME_APART, INTERVAL_MAX, INTERVAL_MIN, State, Stream, is_codable};
use super::{PLAIN_FROM, VideoOrigin, Videos};
use crate::command_queue::CommandQueue;
use crate::copies::CopyCommand;
use crate::quality::VideoPolicy;

/// Fewest pixels of an area, and its shortest edge: what is smaller costs less as pixels than a decoder does.
const AREA_MIN: u64 = 96 * 96;
const AREA_EDGE_MIN: i32 = 48;
/// An area becomes a stream when it was told to move so often, for so long, with no longer pause than this. The shell tells of it when
/// it has done so for most of a second: a page that is scrolled, a line that is typed and a cursor that blinks end before, pause
/// longer, or are moved.
const AREA_REPORTS: u32 = 5;
const AREA_LASTS: Micros = 300_000;
const AREA_PAUSE: Micros = 200_000;
/// Areas that may become streams, at most.
pub(super) const CANDIDATES_MAX: usize = 8;
/// Areas that are streams, and that are told at once, at most.
const AREAS_MAX: usize = 4;
/// Bytes that an exact pixel of a picture that moves takes.
const PIXEL_BYTES: f64 = 1.5;

/// What is drawn again and again, with no longer pause than this.
const REDRAWN_PAUSE: Micros = 150_000;
/// So many of them are followed, at most.
pub(super) const REDRAWN_MAX: usize = 4;
/// After so many drawings the path is known not to keep up with them where frames wait: they are sent less sharp.
const HURRIES_FROM: u32 = 3;
/// What was drawn over and over for so long, and was all new each time it was looked at, becomes a stream before that was often: where
/// the path carries no two exact ones in the time between two drawings, and where it carries less than a quarter of one. There hardly
/// two are seen before a person has noticed that the film does not move.
const REDRAWN_TIMES: u32 = 6;
const REDRAWN_LASTS: Micros = 500_000;
const REDRAWN_LASTS_SLOW: Micros = 200_000;
const SLOW: f64 = 4.0;
/// Plans that have to find it new, and of how many: what opens is new once, and a page that scrolls now and then.
const NEW_MIN: u32 = 2;
const NEW: (u32, u32) = (1, 2);
/// Plans after which half of them are forgotten.
const LOOKED_MAX: u32 = 16;
/// Share of two rectangles by which they are one: three quarters. And of a rectangle a part that tells of it: an eighth.
const ALIKE: (u64, u64) = (3, 4);
const PART: u64 = 8;

/// A part of the screen whose drawings cover each other, one soon after the other: a film, or a page that scrolls. Drawings tell of it
/// however seldom the path lets anybody look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redrawn {
    rect: Rect,
    since: Micros,
    last: Micros,
    times: u32,
    /// Plans of it or of parts, and those that found nearly all of that new.
    looked: u32,
    new: u32,
    /// What of it is looked at now.
    looking: Rect,
}

impl Redrawn {
    fn first(rect: Rect, now: Micros) -> Redrawn {
        Redrawn { rect, since: now, last: now, times: 1, looked: 0, new: 0, looking: rect }
    }

    /// Each time it is another picture.
    fn is_new(&self) -> bool {
        self.new > 0 && self.new * NEW.1 >= self.looked * NEW.0
    }

    fn is_alike(&self, rect: &Rect) -> bool {
        shares(&self.rect, rect, self.rect.area().max(rect.area()))
    }

    /// It lies in this, and is enough of it: what is late is taken back and sent again in parts.
    fn has_part(&self, rect: &Rect) -> bool {
        shares(&self.rect, rect, rect.area()) && rect.area() * PART >= self.rect.area()
    }

    fn goes_on(&self, now: Micros) -> bool {
        now.saturating_sub(self.last) <= REDRAWN_PAUSE
    }

    /// Between two drawings.
    fn interval(&self) -> f64 {
        let apart = (self.last - self.since) as f64 / f64::from(self.times.max(2) - 1);
        apart.clamp(INTERVAL_MIN, INTERVAL_MAX)
    }
}

/// A part of the screen that may become a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    rect: Rect,
    since: Micros,
    last: Micros,
    reports: u32,
}

impl Videos {
    /// The area that a drawing in `region` is a frame of, in part.
    pub(crate) fn area(&mut self, region: &Region, now: Micros) -> Option<(u16, Rect)> {
        let meets = |stream: &&mut Stream| stream.is_area() && region.overlaps_rect(&stream.place);
        let stream = self.streams.iter_mut().find(meets)?;
        stream.drawn(now);
        (stream.state == State::Ready).then_some((stream.id, stream.place))
    }

    /// Pictures were drawn in `region`; `rate` is what the path carries, in bytes a second.
    pub(crate) fn redrawn(&mut self, region: &Region, queue: &mut CommandQueue, rate: u64, now: Micros) {
        let rect = region.extents();
        if !self.takes_coded || rect.is_empty() || !is_large(&rect) {
            return;
        }
        let Some(at) = self.redrawn.iter().position(|redrawn| redrawn.is_alike(&rect)) else {
            self.redrawn.retain(|redrawn| redrawn.goes_on(now));
            if self.redrawn.len() >= REDRAWN_MAX {
                self.redrawn.remove(0);
            }
            self.redrawn.push(Redrawn::first(rect, now));
            return;
        };
        let redrawn = &mut self.redrawn[at];
        if !redrawn.goes_on(now) {
            *redrawn = Redrawn::first(rect, now);
        } else if now.saturating_sub(redrawn.last) >= FRAME_APART {
            redrawn.last = now;
            redrawn.times += 1;
            self.begin_redrawn(at, queue, rate, now);
        }
    }

    /// These pixels are looked at next.
    pub(crate) fn looked_at(&mut self, region: &Region) {
        let rect = region.extents();
        if let Some(redrawn) = self.redrawn.iter_mut().find(|redrawn| redrawn.has_part(&rect)) {
            if redrawn.looked >= LOOKED_MAX {
                (redrawn.looked, redrawn.new) = (redrawn.looked / 2, redrawn.new / 2);
            }
            redrawn.looked += 1;
            redrawn.looking = rect;
        }
    }

    /// A plan found nearly all of this new.
    pub(crate) fn new_at_once(&mut self, rect: &Rect, queue: &mut CommandQueue, rate: u64, now: Micros) {
        if !self.takes_coded || !self.is_news(rect) {
            return;
        }
        let looked_at = |redrawn: &Redrawn| shares(&redrawn.looking, rect, redrawn.looking.area().max(rect.area()));
        if let Some(at) = self.redrawn.iter().position(looked_at) {
            self.redrawn[at].new += 1;
            self.begin_redrawn(at, queue, rate, now);
        }
    }

    /// What is drawn over and over becomes a stream, where it is one and the path needs it.
    fn begin_redrawn(&mut self, at: usize, queue: &mut CommandQueue, rate: u64, now: Micros) {
        let redrawn = self.redrawn[at];
        let lasted = redrawn.last - redrawn.since;
        if redrawn.new < NEW_MIN
            || !redrawn.is_new()
            || rate == 0
            || lasted < REDRAWN_LASTS_SLOW
            || redrawn.times < REDRAWN_TIMES
        {
            return;
        }
        let takes = redrawn.rect.area() as f64 * PIXEL_BYTES * 1e6 / redrawn.interval();
        let slow = takes / rate as f64;
        let lasts = if slow > SLOW { REDRAWN_LASTS_SLOW } else { REDRAWN_LASTS };
        let known = self.streams.iter().any(|stream| stream.place.overlaps(&redrawn.rect));
        if !known && lasted >= lasts && slow * PLAIN_FROM > 1.0 && now >= self.area_refusal.until {
            self.begin_area(redrawn.rect, redrawn.interval(), queue, now);
        }
    }

    /// Most of this is drawn faster than the path carries it, each time anew.
    pub(crate) fn hurries(&self, region: &Region, now: Micros) -> bool {
        self.redrawn.iter().any(|redrawn| {
            redrawn.times >= HURRIES_FROM
                && redrawn.goes_on(now)
                && redrawn.is_new()
                && redrawn.has_part(&region.extents())
        })
    }

    /// Pixels were moved: what scrolls is no video, and what is carried along with all around it is one elsewhere.
    pub(crate) fn copied(&mut self, copy: &CopyCommand, screen: Rect) {
        if self.streams.is_empty() && self.candidates.is_empty() && self.redrawn.is_empty() {
            return;
        }
        self.candidates.retain(|candidate| !copy.region.overlaps_rect(&candidate.rect));
        self.redrawn.retain(|redrawn| !copy.region.overlaps_rect(&redrawn.rect));
        for stream in &mut self.streams {
            if !stream.shown.is_empty() {
                stream.shown.subtract(&copy.region);
            }
            let moved = stream.place.translate(copy.dx, copy.dy);
            if stream.is_area() && screen.contains(&moved) && Region::from(moved).difference(&copy.region).is_empty() {
                stream.place = moved;
            }
        }
    }

    /// These parts of the screen change like a video; `rate` is what the path carries, in bytes a second.
    pub(crate) fn moving<'a>(
        &mut self,
        areas: impl Iterator<Item = &'a Rect>,
        screen: Rect,
        queue: &mut CommandQueue,
        rate: u64,
        now: Micros,
    ) {
        if !self.takes_coded {
            return;
        }
        self.candidates.retain(|candidate| now.saturating_sub(candidate.last) <= AREA_PAUSE);
        for area in areas.take(AREAS_MAX) {
            let area = area.intersect(&screen);
            if area.is_empty() || !is_large(&area) || !self.is_news(&area) {
                continue;
            }
            let candidate = self.candidate(area, now);
            let lasted = now.saturating_sub(candidate.since);
            if candidate.reports < AREA_REPORTS || lasted < AREA_LASTS || now < self.area_refusal.until {
                continue;
            }
            let interval = (lasted as f64 / f64::from(candidate.reports - 1)).clamp(INTERVAL_MIN, INTERVAL_MAX);
            let takes = candidate.rect.area() as f64 * PIXEL_BYTES * 1e6 / interval;
            let carried = rate as f64 >= takes * PLAIN_FROM && self.policy != VideoPolicy::H264;
            if !carried {
                self.begin_area(candidate.rect, interval, queue, now);
            }
        }
    }

    /// True where it is not, for the most part, of a stream.
    fn is_news(&mut self, area: &Rect) -> bool {
        for stream in &mut self.streams {
            let shared = stream.place.intersect(area);
            let shared = if shared.is_empty() { 0 } else { shared.area() };
            if shared * 2 < area.area() {
                continue;
            }
            stream.moved();
            // One that reaches far beyond has become larger, or another.
            return stream.is_area() && (area.area() - shared) * 4 > stream.place.area();
        }
        true
    }

    fn candidate(&mut self, area: Rect, now: Micros) -> Candidate {
        let alike = |candidate: &&mut Candidate| {
            let shared = candidate.rect.intersect(&area);
            !shared.is_empty() && shared.area() * 2 >= candidate.rect.area().max(area.area())
        };
        if let Some(candidate) = self.candidates.iter_mut().find(alike) {
            candidate.rect = candidate.rect.bound(&area);
            candidate.last = now;
            candidate.reports += 1;
            return *candidate;
        }
        if self.candidates.len() >= CANDIDATES_MAX {
            self.candidates.remove(0);
        }
        let candidate = Candidate { rect: area, since: now, last: now, reports: 1 };
        self.candidates.push(candidate);
        candidate
    }

    fn begin_area(&mut self, place: Rect, interval: f64, queue: &mut CommandQueue, now: Micros) {
        self.candidates.retain(|candidate| !candidate.rect.overlaps(&place));
        while let Some(at) = self.streams.iter().position(|stream| stream.is_area() && stream.place.overlaps(&place)) {
            self.end(at, queue);
        }
        let areas = self.streams.iter().filter(|stream| stream.is_area()).count();
        if areas >= AREAS_MAX || self.streams.iter().any(|stream| stream.place.overlaps(&place)) {
            return;
        }
        let even = |edge: i32| (edge as u32).next_multiple_of(2);
        let size = Size { width: even(place.width()), height: even(place.height()) };
        if !is_codable(size) {
            return;
        }
        let source = Source { size, crop: Rect::at(0, 0, place.width(), place.height()) };
        if let Some(stream) = self.begin(VideoOrigin::Area, source, place, now) {
            stream.interval = interval;
        }
    }
}

/// Enough for a stream.
fn is_large(rect: &Rect) -> bool {
    rect.area() >= AREA_MIN && rect.width().min(rect.height()) >= AREA_EDGE_MIN
}

/// Two rectangles share nearly all of an area.
fn shares(one: &Rect, other: &Rect, of: u64) -> bool {
    let shared = one.intersect(other);
    !shared.is_empty() && shared.area() * ALIKE.1 >= of * ALIKE.0
}
