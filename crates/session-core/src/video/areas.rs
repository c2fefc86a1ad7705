//! Path 5/13: under video.rs.
//! Which parts of the screen that change like videos become streams of one viewer: those that the
//! shell detects in the pixels, and, on a slow path, those whose records show repeated drawing
//! before enough plans exist. Knows rectangles and times; never pixels.

use thinc_protocol::Micros;
use thinc_protocol::video::Source;
use thinc_region::{Rect, Region, Size};

use super::stream::{
    FRAME_APART, INTERVAL_MAX, INTERVAL_MIN, StreamState, VideoStream, is_codable,
};
use super::{PLAIN_FROM, VideoOrigin, Videos, bitrate};
use crate::quality::{RateEstimate, VideoPolicy};
use crate::queue::command_queue::CommandQueue;
use crate::queue::copies::CopyCommand;

/// Fewest pixels of an area, and its shortest edge: a smaller one costs less as pixels than a
/// decoder does.
const AREA_MIN: u64 = 96 * 96;
const AREA_EDGE_MIN: i32 = 48;
/// An area becomes a stream after so many reports of motion over so long, without a longer pause
/// than this. The shell reports after most of a second of motion: scrolling pages, typed lines and
/// blinking cursors end before, pause longer, or are moved by COPYs.
const AREA_REPORTS: u32 = 5;
const AREA_TIME_MIN: Micros = 300_000;
const AREA_PAUSE: Micros = 200_000;
/// Most areas that may become streams.
pub(super) const CANDIDATES_MAX: usize = 8;
/// Most areas that are streams, and that are reported at once.
const AREAS_MAX: usize = 4;
/// Weight of a plan in the average of moving text: a third of a second at 24 frames a second.
const TEXT_WEIGHT: f64 = 0.125;
/// Most rectangles of text that may be lossy in frames; past it the set becomes coarser, and pixels
/// of the video that rest are refreshed while the rest moves.
const TEXT_RECTS_MAX: usize = 256;
/// Bytes of a lossless pixel of moving content.
const PIXEL_BYTES: f64 = 1.5;

/// Longest pause between drawings of a redrawn area.
const REDRAWN_PAUSE: Micros = 150_000;
/// Most redrawn areas that are tracked.
pub(super) const REDRAWN_MAX: usize = 4;
/// After so many drawings the path is known not to keep up: frames are sent at lower quality.
const OUTPACED_DRAWINGS_MIN: u32 = 3;
/// An area that was redrawn so often and for so long, and was all new each time it was planned,
/// becomes a stream before the shell reports it: if the path carries less than two lossless frames
/// in the time between drawings, or, with the shorter time, less than a quarter of one. There a
/// person sees almost no frame before noticing that the video does not move.
const REDRAWN_TIMES: u32 = 6;
const REDRAWN_TIME_MIN: Micros = 500_000;
const REDRAWN_TIME_MIN_SLOW: Micros = 200_000;
const SLOW: f64 = 4.0;
/// Plans that must find it new, and their least share: an opened window is new once, a scrolled
/// page now and then.
const NEW_PLANS_MIN: u32 = 2;
const NEW_SHARE: (u32, u32) = (1, 2);
/// Plans after which half of them are forgotten.
const PLANS_MAX: u32 = 16;
/// Share by which two rectangles are the same: three quarters. And the least share of a rectangle
/// that represents it: an eighth.
const SAME_SHARE: (u64, u64) = (3, 4);
const PART_MIN: u64 = 8;

/// A part of the screen with drawings that cover each other, one soon after the other: a video, or
/// a page that scrolls. Drawings show this even if the path allows few plans.
#[derive(Clone, Copy, Debug)]
pub(super) struct RedrawnArea {
    rect: Rect,
    since: Micros,
    last: Micros,
    times: u32,
    /// Plans of it or of parts of it, and those that found nearly all pixels new.
    plans: u32,
    new: u32,
    /// The part of it that is being planned.
    planned_rect: Rect,
}

impl RedrawnArea {
    fn first(rect: Rect, now: Micros) -> RedrawnArea {
        RedrawnArea { rect, since: now, last: now, times: 1, plans: 0, new: 0, planned_rect: rect }
    }

    /// Each plan finds other pixels.
    fn is_new(&self) -> bool {
        self.new > 0 && self.new * NEW_SHARE.1 >= self.plans * NEW_SHARE.0
    }

    fn is_alike(&self, rect: &Rect) -> bool {
        shares(&self.rect, rect, self.rect.area().max(rect.area()))
    }

    /// The rectangle lies in this area and is enough of it: late updates are withdrawn and sent
    /// again in parts.
    fn has_part(&self, rect: &Rect) -> bool {
        shares(&self.rect, rect, rect.area()) && rect.area() * PART_MIN >= self.rect.area()
    }

    fn continues(&self, now: Micros) -> bool {
        now.saturating_sub(self.last) <= REDRAWN_PAUSE
    }

    /// The interval between two drawings.
    fn interval(&self) -> f64 {
        let apart = (self.last - self.since) as f64 / f64::from(self.times.max(2) - 1);
        apart.clamp(INTERVAL_MIN, INTERVAL_MAX)
    }
}

/// A part of the screen that may become a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct VideoCandidate {
    rect: Rect,
    since: Micros,
    last: Micros,
    reports: u32,
}

impl Videos {
    /// The video area to whose frame a drawing in `region` belongs.
    pub(crate) fn area(&mut self, region: &Region, now: Micros) -> Option<(u16, Rect)> {
        let meets =
            |stream: &&mut VideoStream| stream.is_area() && region.overlaps_rect(&stream.place);
        let stream = self.streams.iter_mut().find(meets)?;
        stream.drawn(now);
        (stream.state == StreamState::Ready).then_some((stream.id, stream.place))
    }

    /// Images were drawn in `region`; `rate` is the path's, in bytes a second.
    pub(crate) fn redrawn(
        &mut self,
        region: &Region,
        queue: &mut CommandQueue,
        rate: u64,
        now: Micros,
    ) {
        let rect = region.extents();
        if !self.takes_coded || rect.is_empty() || !is_large(&rect) {
            return;
        }
        let Some(at) = self.redrawn.iter().position(|redrawn| redrawn.is_alike(&rect)) else {
            self.redrawn.retain(|redrawn| redrawn.continues(now));
            if self.redrawn.len() >= REDRAWN_MAX {
                self.redrawn.remove(0);
            }
            self.redrawn.push(RedrawnArea::first(rect, now));
            return;
        };
        let redrawn = &mut self.redrawn[at];
        if !redrawn.continues(now) {
            *redrawn = RedrawnArea::first(rect, now);
        } else if now.saturating_sub(redrawn.last) >= FRAME_APART {
            redrawn.last = now;
            redrawn.times += 1;
            self.begin_redrawn(at, queue, rate, now);
        }
    }

    /// These pixels are planned next.
    pub(crate) fn planned(&mut self, region: &Region) {
        let rect = region.extents();
        if let Some(redrawn) = self.redrawn.iter_mut().find(|redrawn| redrawn.has_part(&rect)) {
            if redrawn.plans >= PLANS_MAX {
                (redrawn.plans, redrawn.new) = (redrawn.plans / 2, redrawn.new / 2);
            }
            redrawn.plans += 1;
            redrawn.planned_rect = rect;
        }
    }

    /// A plan found nearly all of this new.
    pub(crate) fn fully_changed(
        &mut self,
        rect: &Rect,
        queue: &mut CommandQueue,
        rate: u64,
        now: Micros,
    ) {
        if !self.takes_coded || !self.is_new_area(rect) {
            return;
        }
        let looked_at = |redrawn: &RedrawnArea| {
            shares(&redrawn.planned_rect, rect, redrawn.planned_rect.area().max(rect.area()))
        };
        if let Some(at) = self.redrawn.iter().position(looked_at) {
            self.redrawn[at].new += 1;
            self.begin_redrawn(at, queue, rate, now);
        }
    }

    /// A redrawn area becomes a stream, if it is a video and the path requires it.
    fn begin_redrawn(&mut self, at: usize, queue: &mut CommandQueue, rate: u64, now: Micros) {
        let redrawn = self.redrawn[at];
        let lasted = redrawn.last - redrawn.since;
        if redrawn.new < NEW_PLANS_MIN
            || !redrawn.is_new()
            || rate == 0
            || lasted < REDRAWN_TIME_MIN_SLOW
            || redrawn.times < REDRAWN_TIMES
        {
            return;
        }
        let takes = redrawn.rect.area() as f64 * PIXEL_BYTES * 1e6 / redrawn.interval();
        let slow = takes / rate as f64;
        let lasts = if slow > SLOW { REDRAWN_TIME_MIN_SLOW } else { REDRAWN_TIME_MIN };
        let known = self
            .streams
            .iter()
            .any(|stream| stream.paints() && stream.place.overlaps(&redrawn.rect))
            || self.is_pictures(&redrawn.rect, now);
        if !known && lasted >= lasts && slow * PLAIN_FROM > 1.0 && now >= self.area_backoff.until {
            self.begin_area(redrawn.rect, redrawn.interval(), queue, now);
        }
    }

    /// Most of this is redrawn with new content faster than the path carries it.
    pub(crate) fn outpaces_path(&self, region: &Region, now: Micros) -> bool {
        self.redrawn.iter().any(|redrawn| {
            redrawn.times >= OUTPACED_DRAWINGS_MIN
                && redrawn.continues(now)
                && redrawn.is_new()
                && redrawn.has_part(&region.extents())
        })
    }

    /// Pixels were moved: what scrolls is no video, and an area that is moved with its surroundings
    /// continues elsewhere.
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
            if stream.is_area()
                && screen.contains(&moved)
                && Region::from(moved).difference(&copy.region).is_empty()
            {
                stream.place = moved;
                stream.text.translate(copy.dx, copy.dy);
            }
        }
    }

    /// These parts of the screen change like a video; `rate` is the path's, in bytes a second.
    pub(crate) fn report_areas<'a>(
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
            if area.is_empty()
                || !is_large(&area)
                || !self.is_new_area(&area)
                || self.is_pictures(&area, now)
            {
                continue;
            }
            let candidate = self.candidate(area, now);
            let lasted = now.saturating_sub(candidate.since);
            if candidate.reports < AREA_REPORTS
                || lasted < AREA_TIME_MIN
                || now < self.area_backoff.until
            {
                continue;
            }
            let interval = (lasted as f64 / f64::from(candidate.reports - 1))
                .clamp(INTERVAL_MIN, INTERVAL_MAX);
            let takes = candidate.rect.area() as f64 * PIXEL_BYTES * 1e6 / interval;
            let carried =
                rate as f64 >= takes * PLAIN_FROM && self.coding_policy() != VideoPolicy::H264;
            if !carried {
                self.begin_area(candidate.rect, interval, queue, now);
            }
        }
    }

    /// Moving text is in an area's frames from when it and the video are more than a full path
    /// carried, until the path carries both.
    pub(super) fn decide_text(&mut self, rate: RateEstimate) {
        let share = bitrate::share_of(self.quality);
        for stream in self.streams.iter_mut().filter(|stream| stream.is_area()) {
            let text = stream.text_pixels * PIXEL_BYTES * stream.rate();
            let takes = text + stream.bits_wanted() * share / 8.0;
            match rate {
                RateEstimate::Measured(rate) => stream.takes_text = takes > rate as f64,
                RateEstimate::AtLeast(rate) if takes <= rate as f64 => stream.takes_text = false,
                RateEstimate::AtLeast(_) | RateEstimate::Unknown => {}
            }
        }
    }

    /// A plan of an area found this moving text, which was in the frame if frames take it.
    pub(crate) fn moving_text(&mut self, id: u16, region: &Region) {
        let of_area = |stream: &&mut VideoStream| stream.id == id && stream.is_area();
        let Some(stream) = self.streams.iter_mut().find(of_area) else { return };
        stream.text_pixels += (region.area() as f64 - stream.text_pixels) * TEXT_WEIGHT;
        if stream.takes_text && !region.is_empty() {
            stream.text.add(region);
            if stream.text.rect_count() > TEXT_RECTS_MAX {
                stream.text = stream.text.simplified(TEXT_RECTS_MAX / 2);
            }
        }
    }

    /// What moves here is frames of a program, which become a stream at once if the path does not
    /// carry twice their pixels.
    pub(super) fn begin_frames(
        &mut self,
        place: &Rect,
        interval: f64,
        queue: &mut CommandQueue,
        rate: RateEstimate,
        now: Micros,
    ) {
        let rate = match rate {
            RateEstimate::Unknown => return,
            RateEstimate::AtLeast(rate) | RateEstimate::Measured(rate) => rate as f64,
        };
        let takes = place.area() as f64 * PIXEL_BYTES * 1e6 / interval.max(INTERVAL_MIN);
        let carried = rate >= takes * PLAIN_FROM && self.coding_policy() != VideoPolicy::H264;
        if self.takes_coded
            && !carried
            && is_large(place)
            && now >= self.area_backoff.until
            && self.is_new_area(place)
        {
            self.begin_area(*place, interval.clamp(INTERVAL_MIN, INTERVAL_MAX), queue, now);
        }
    }

    /// True if most of it belongs to no stream.
    fn is_new_area(&mut self, area: &Rect) -> bool {
        for stream in self.streams.iter_mut().filter(|stream| stream.paints()) {
            let shared = stream.place.intersect(area);
            let shared = if shared.is_empty() { 0 } else { shared.area() };
            if shared * 2 < area.area() {
                continue;
            }
            stream.confirm_motion();
            // An area that reaches far beyond a stream has grown, or is another.
            return stream.is_area() && (area.area() - shared) * 4 > stream.place.area();
        }
        true
    }

    fn candidate(&mut self, area: Rect, now: Micros) -> VideoCandidate {
        let alike = |candidate: &&mut VideoCandidate| {
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
        let candidate = VideoCandidate { rect: area, since: now, last: now, reports: 1 };
        self.candidates.push(candidate);
        candidate
    }

    fn begin_area(&mut self, place: Rect, interval: f64, queue: &mut CommandQueue, now: Micros) {
        self.candidates.retain(|candidate| !candidate.rect.overlaps(&place));
        while let Some(at) =
            self.streams.iter().position(|stream| stream.is_area() && stream.place.overlaps(&place))
        {
            self.end(at, queue);
        }
        let areas = self.streams.iter().filter(|stream| stream.is_area()).count();
        let meets = |stream: &VideoStream| stream.paints() && stream.place.overlaps(&place);
        if areas >= AREAS_MAX || self.streams.iter().any(meets) {
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

/// Large enough for a stream.
fn is_large(rect: &Rect) -> bool {
    rect.area() >= AREA_MIN && rect.width().min(rect.height()) >= AREA_EDGE_MIN
}

/// Two rectangles share nearly all of an area.
fn shares(one: &Rect, other: &Rect, of: u64) -> bool {
    let shared = one.intersect(other);
    !shared.is_empty() && shared.area() * SAME_SHARE.1 >= of * SAME_SHARE.0
}
