//! Path 10/13 back to 7/13: from viewer.rs with the commands that are sent, to viewer.rs as the
//! next job.
//! Which pixels a viewer shows lossy, to refresh them once they are at rest and nothing more urgent
//! waits. Knows the rectangles of commands, bytes and times; never their pixels.
//!
//! Follows the sent commands as the viewer will apply them: a lossy one adds its rectangle, a COPY
//! moves the lossy pixels of its source along, any other command makes its pixels lossless. Lost,
//! cancelled or redrawn pixels need no special case: the queue sends them again, and what is sent
//! counts. If a set is too large, a lossless job finds its pixels lossless and sends nothing; a set
//! is never too small.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_region::{Rect, Region};

use crate::delivery::ledger::JobId;
use crate::delivery::parts::{Fidelity, Painted};
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::copies::CopyCommand;

/// How long no lossy pixels were sent to a place before it is refreshed: six frames of a 60 Hz
/// screen, so that a video of 10 frames a second is not at rest.
const REST_TIME: Micros = 100_000;
/// Resolution of these times, or a photograph that is sent in a hundred parts would be as many
/// sets.
const REST_STEP: Micros = 10_000;
/// Most rectangles of one set; past it the set becomes coarser, so that pixels are compared and
/// found lossless.
const RECTS_MAX: usize = 256;
/// Most lossless jobs committed and not sent: one is encoded while another is sent.
const JOBS_MAX: usize = 2;
/// Bytes of a lossless pixel of a photograph before the first measurement, and the weight of a
/// measurement.
const BYTES_PER_PIXEL_INITIAL: f64 = 1.5;
const BYTES_PER_PIXEL_WEIGHT: f64 = 0.25;
/// Fewest pixels of a job: half of a pixel's prediction comes from the one above it, so thin rows
/// compress badly.
const AREA_MIN: u64 = 32 * 32;
/// After so long a refresh no longer waits for an idle path, but gets a share of it, one part in
/// [`PATH_SHARE`]. Small changes elsewhere would leave it time anyway; this is for a video.
const OVERDUE_AFTER: Micros = 250_000;
const PATH_SHARE: u64 = 10;

/// A lossless job that was not completely sent.
#[derive(Debug)]
struct LosslessJob {
    job: JobId,
    area: u64,
    /// What is lossless once all of it was sent: the pixels it read, except those that later jobs
    /// send lossy before that.
    region: Region,
}

/// The lossy areas of one viewer.
#[derive(Debug)]
pub(crate) struct Refresh {
    /// No lossy pixels were sent here lately.
    rested: Region,
    /// Recent lossy areas and their times, oldest first; no pixel is in two sets.
    recent: VecDeque<(Micros, Region)>,
    jobs: Vec<LosslessJob>,
    /// The newest job that may be lossy: while everything is lossless, later commands are not even
    /// read.
    lossy_job: Option<JobId>,
    bytes_per_pixel: f64,
    /// When it may go before the queue.
    turn_at: Micros,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl Default for Refresh {
    fn default() -> Refresh {
        Refresh {
            rested: Region::new(),
            recent: VecDeque::new(),
            jobs: Vec::new(),
            lossy_job: None,
            bytes_per_pixel: BYTES_PER_PIXEL_INITIAL,
            turn_at: 0,
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }
}

impl Refresh {
    #[cfg(feature = "mutations")]
    pub(crate) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
    }

    /// Everything the viewer shows is lossless, or will be once everything sent was applied.
    pub(crate) fn is_empty(&self) -> bool {
        self.rested.is_empty() && self.recent.is_empty()
    }

    /// All that is lossy, moving or at rest.
    pub(crate) fn lossy(&self) -> Region {
        let mut lossy = self.rested.clone();
        self.recent.iter().for_each(|(_, region)| lossy.add(region));
        lossy
    }

    /// A new geometry: the viewer begins with nothing.
    pub(crate) fn reset(&mut self) {
        self.rested.clear();
        self.recent.clear();
        self.jobs.clear();
    }

    /// This job's photographs may be sent lossy.
    pub(crate) fn lossy_committed(&mut self, job: JobId) {
        self.lossy_job = Some(job);
    }

    /// This is painted by commands that are sent: of an update or of a part of it.
    pub(crate) fn sent(&mut self, job: JobId, painted: impl Iterator<Item = Painted>, now: Micros) {
        self.collect_rested(now);
        if self.is_empty() && self.lossy_job.is_none_or(|lossy| lossy < job) {
            return;
        }
        for painted in painted {
            match painted {
                Painted::Copied(copy) => self.copied(job, &copy, now),
                Painted::Written(region, Fidelity::Lossless) => self.mark_lossless(&region),
                Painted::Written(region, Fidelity::Coded)
                    if mutated!(self.mutation, CodedIsLossless) =>
                {
                    self.mark_lossless(&region);
                }
                Painted::Written(region, Fidelity::Lossy | Fidelity::Coded) => {
                    self.mark_lossy(job, &region, now);
                }
            }
        }
        self.recent.retain(|(_, region)| !region.is_empty());
    }

    fn sets(&mut self) -> impl Iterator<Item = &mut Region> {
        self.recent.iter_mut().map(|(_, region)| region).chain([&mut self.rested])
    }

    fn mark_lossless(&mut self, region: &Region) {
        self.sets().for_each(|set| set.subtract(region));
    }

    /// Lossy pixels of this job are sent now.
    fn mark_lossy(&mut self, job: JobId, region: &Region, now: Micros) {
        self.mark_lossless(region);
        // A later job may write over a part of a lossless job that was sent already, or had nothing
        // to send, before the rest of it is sent. The lossy pixels of earlier jobs it refreshes
        // itself: it was planned after them.
        for lossless in self.jobs.iter_mut().filter(|lossless| lossless.job < job) {
            lossless.region.subtract(region);
            if lossless.region.rect_count() > RECTS_MAX {
                // Too fine to remember: it is compared once more.
                lossless.region.clear();
            }
        }
        if mutated!(self.mutation, RefreshIsForgotten) {
            return;
        }
        match self.recent.back_mut() {
            Some((since, newest)) if now < *since + REST_STEP => {
                newest.add(region);
                bound(newest);
            }
            _ => self.recent.push_back((now, region.clone())),
        }
    }

    /// Moved pixels are not at rest.
    fn copied(&mut self, job: JobId, copy: &CopyCommand, now: Micros) {
        let source = copy.source();
        let mut moved = Region::new();
        for set in self.sets() {
            if set.overlaps(&source) {
                moved.add(&set.intersection(&source));
            }
        }
        self.mark_lossless(&copy.region);
        if !moved.is_empty() && !mutated!(self.mutation, RefreshIgnoresCopies) {
            moved.translate(copy.dx, copy.dy);
            self.mark_lossy(job, &moved, now);
        }
    }

    /// Moves areas that are at rest by now to `rested`.
    fn collect_rested(&mut self, now: Micros) {
        while let Some((_, region)) =
            self.recent.pop_front_if(|(since, _)| now >= *since + REST_TIME)
        {
            if self.rested.is_empty() {
                self.turn_at = self.turn_at.max(now + OVERDUE_AFTER);
            }
            self.rested.add(&region);
            bound(&mut self.rested);
        }
    }

    /// When something will be at rest; a time in the past if something is.
    pub(crate) fn due(&self) -> Option<Micros> {
        let rested = (!self.rested.is_empty()).then_some(0);
        rested.or_else(|| self.recent.front().map(|(since, _)| since + REST_TIME))
    }

    /// It has waited long enough for its share of a busy path.
    pub(crate) fn is_overdue(&mut self, now: Micros) -> bool {
        self.collect_rested(now);
        !self.rested.is_empty() && now >= self.turn_at
    }

    /// Everything to refresh, if anything may be now. `settle` moves pixels from where they are
    /// once everything sent was applied to where they will be with the next commit, without those
    /// that are read in any case; `unsent` tells which jobs were not completely sent.
    pub(crate) fn wanted(
        &mut self,
        settle: impl FnOnce(&mut Region),
        unsent: impl Fn(JobId) -> bool,
        now: Micros,
    ) -> Option<Region> {
        self.collect_rested(now);
        // A job that is neither there nor done was cancelled: its pixels are pending.
        self.jobs.retain(|lossless| unsent(lossless.job));
        if self.rested.is_empty() || self.jobs.len() >= JOBS_MAX {
            return None;
        }
        let mut wanted = self.rested.clone();
        settle(&mut wanted);
        (!wanted.is_empty()).then_some(wanted)
    }

    /// The part of `wanted` for the next job, in about so many bytes, and its bytes.
    pub(crate) fn pick(&self, wanted: &Region, bytes: u64, area_max: u64) -> (Region, u64) {
        let area = (bytes as f64 / self.bytes_per_pixel) as u64;
        let region = block(wanted, area.max(AREA_MIN).min(area_max));
        let bytes = (region.area() as f64 * self.bytes_per_pixel) as u64;
        (region, bytes)
    }

    /// Bytes of a lossless pixel.
    pub(crate) fn bytes_per_pixel(&self) -> f64 {
        self.bytes_per_pixel
    }

    /// The picked region is committed; its transfer takes so long.
    pub(crate) fn committed(&mut self, job: JobId, region: &Region, takes: Micros, now: Micros) {
        self.jobs.push(LosslessJob { job, area: region.area(), region: region.clone() });
        self.turn_at = now + takes * PATH_SHARE;
    }

    /// A job was encoded into so many bytes.
    pub(crate) fn encoded(&mut self, job: JobId, bytes: u64) {
        if let Some(lossless) = self.jobs.iter().find(|lossless| lossless.job == job)
            && bytes > 0
        {
            let sample = (bytes as f64 / lossless.area as f64).clamp(0.01, 4.0);
            self.bytes_per_pixel += (sample - self.bytes_per_pixel) * BYTES_PER_PIXEL_WEIGHT;
        }
    }

    /// All of a job was sent, or it had nothing to send: its pixels are lossless, including those
    /// that were only in a coarse set, except those that a later job sent lossy meanwhile.
    pub(crate) fn done(&mut self, job: JobId) {
        if let Some(at) = self.jobs.iter().position(|lossless| lossless.job == job) {
            let lossless = self.jobs.swap_remove(at);
            self.mark_lossless(&lossless.region);
            self.recent.retain(|(_, region)| !region.is_empty());
        }
    }

    /// # Panics
    /// If an invariant of this file does not hold; the message states it.
    pub(crate) fn check_invariants(&self) {
        assert!(self.jobs.len() <= JOBS_MAX, "at most {JOBS_MAX} lossless jobs wait");
        assert!(
            self.recent.len() as u64 <= REST_TIME / REST_STEP + 1,
            "a set for each step, and the current one"
        );
        let ages = self.recent.iter().map(|&(since, _)| since);
        assert!(ages.is_sorted(), "sets are ordered by age");
        let mut all = Region::new();
        let sets = self.recent.iter().map(|(_, region)| region).chain([&self.rested]);
        let mut area = 0;
        for set in sets {
            area += set.area();
            all.add(set);
            assert!(set.rect_count() <= RECTS_MAX, "a set has at most {RECTS_MAX} rectangles");
        }
        let not_empty = self.recent.iter().all(|(_, region)| !region.is_empty());
        assert!(not_empty, "a set has pixels");
        assert!(area >= all.area(), "no set is counted twice");
    }
}

fn bound(region: &mut Region) {
    if region.rect_count() > RECTS_MAX {
        *region = region.simplified(RECTS_MAX / 4);
    }
}

/// About `area` pixels of the region's first rows, as square as possible: a pixel is predicted from
/// those above and left of it.
fn block(region: &Region, area: u64) -> Region {
    let extents = region.extents();
    let rows = |height: i32| {
        let mut rows = region.clone();
        rows.intersect_rect(&Rect { y2: extents.y2.min(extents.y1 + height), ..extents });
        rows
    };
    let height = area.isqrt().max(1) as i32;
    let first = rows(height);
    if first.area() > area {
        let bounds = first.extents();
        let mut block = first;
        block.intersect_rect(&Rect {
            x2: bounds.x2.min(bounds.x1 + (area / height as u64) as i32),
            ..bounds
        });
        return block;
    }
    // A narrow region: as many more rows as there is room for, if they are no wider.
    let higher = rows((area * height as u64 / first.area().max(1)).min(1 << 14) as i32);
    if higher.area() <= area { higher } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lossy(rect: Rect) -> impl Iterator<Item = Painted> {
        [Painted::Written(rect.into(), Fidelity::Lossy)].into_iter()
    }

    fn lossless(rect: Rect) -> impl Iterator<Item = Painted> {
        [Painted::Written(rect.into(), Fidelity::Lossless)].into_iter()
    }

    fn pick(refresh: &mut Refresh, now: Micros) -> Option<Region> {
        let wanted = refresh.wanted(|_| (), |_| true, now)?;
        Some(refresh.pick(&wanted, 1 << 20, 1 << 20).0)
    }

    #[test]
    fn a_coarse_set_is_refreshed_completely() {
        let mut refresh = Refresh::default();
        refresh.lossy_committed(JobId(1));
        // 1600 squares, as a chessboard: far more than a set holds.
        for i in 0..3200 {
            let (x, y) = (i % 64, i / 64);
            if (x + y) % 2 == 0 {
                refresh.sent(JobId(1), lossy(Rect::at(x * 16, y * 15, 16, 15)), 0);
                refresh.check_invariants();
            }
        }
        let mut jobs = 1;
        while let Some(region) = pick(&mut refresh, REST_TIME) {
            jobs += 1;
            refresh.committed(JobId(jobs), &region, 0, REST_TIME);
            // Squares that were lossless already are not sent, and the job need not know them.
            refresh.done(JobId(jobs));
            refresh.check_invariants();
        }
        assert!(refresh.is_empty() && jobs > 1);
    }

    #[test]
    fn a_cancelled_refresh_is_picked_again() {
        let mut refresh = Refresh::default();
        refresh.lossy_committed(JobId(1));
        refresh.sent(JobId(1), lossy(Rect::at(0, 0, 64, 64)), 0);
        assert_eq!(pick(&mut refresh, REST_TIME - 1), None, "it is not at rest yet");
        assert_eq!(refresh.due(), Some(REST_TIME));
        let region = pick(&mut refresh, REST_TIME).unwrap();
        refresh.committed(JobId(2), &region, 0, REST_TIME);
        assert_eq!(refresh.wanted(|_| (), |job| job != JobId(2), REST_TIME), Some(region));
    }

    /// Seed 8130 of the simulator: half of a lossless job was sent, and a lossy photograph over
    /// that half before the rest.
    #[test]
    fn lossy_pixels_over_a_half_sent_refresh_stay_lossy() {
        let mut refresh = Refresh::default();
        let (above, below) = (Rect::at(0, 0, 64, 32), Rect::at(0, 32, 64, 32));
        refresh.lossy_committed(JobId(1));
        refresh.sent(JobId(1), lossy(Rect::at(0, 0, 64, 64)), 0);
        let region = pick(&mut refresh, REST_TIME).unwrap();
        assert_eq!(region, Region::from(Rect::at(0, 0, 64, 64)));
        refresh.committed(JobId(2), &region, 0, REST_TIME);
        refresh.sent(JobId(2), lossless(above), REST_TIME);
        refresh.lossy_committed(JobId(3));
        refresh.sent(JobId(3), lossy(above), REST_TIME);
        refresh.sent(JobId(2), lossless(below), REST_TIME);
        refresh.done(JobId(2));
        assert_eq!(refresh.due(), Some(2 * REST_TIME), "its rest begins again");
        let again = pick(&mut refresh, 2 * REST_TIME).expect("it is still to be refreshed");
        assert_eq!(again, Region::from(above));
        refresh.committed(JobId(4), &again, 0, 2 * REST_TIME);
        refresh.done(JobId(4));
        assert!(refresh.is_empty(), "nothing lossy was sent meanwhile");
    }

    /// Pixels that a COPY of a later job moves there count as well; those of an earlier job were
    /// known when the job was planned.
    #[test]
    fn lossy_pixels_that_a_later_job_moves_there_stay_lossy() {
        for (mover, is_empty) in [(JobId(1), true), (JobId(3), false)] {
            let mut refresh = Refresh::default();
            let (from, to) = (Rect::at(200, 0, 64, 32), Rect::at(0, 0, 64, 32));
            refresh.lossy_committed(JobId(4));
            refresh.sent(JobId(0), lossy(from), 0);
            refresh.committed(JobId(2), &Region::from(to), 0, REST_TIME);
            let copy = CopyCommand { region: to.into(), dx: -200, dy: 0 };
            refresh.sent(mover, [Painted::Copied(copy)].into_iter(), REST_TIME);
            refresh.sent(mover, lossless(from), REST_TIME);
            refresh.done(JobId(2));
            assert_eq!(refresh.is_empty(), is_empty, "{mover:?}");
        }
    }

    #[test]
    fn a_block_is_nearly_square_and_within_the_requested_area() {
        let photo = Region::from(Rect::new(10, 20, 910, 620));
        for area in [1024, 5_000, 100_000] {
            let block = block(&photo, area);
            let bounds = block.extents();
            assert!(
                block.area() <= area && block.area() * 5 > area * 4,
                "{bounds:?} of {area} pixels"
            );
            assert!(
                bounds.width() < 2 * bounds.height() && bounds.height() < 2 * bounds.width(),
                "{bounds:?}"
            );
        }
        let narrow = Region::from(Rect::new(0, 0, 8, 700));
        assert_eq!(
            block(&narrow, 1024),
            Region::from(Rect::new(0, 0, 8, 128)),
            "or as high as its width allows"
        );
    }
}
