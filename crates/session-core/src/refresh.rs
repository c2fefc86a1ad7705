//! Path 10/13 back to 7/13: from viewer.rs with what leaves, to viewer.rs as the next job.
//! What a viewer shows only nearly, so that it becomes exact as soon as it rests and nothing more urgent waits.
//! Knows the rectangles of commands, bytes and times; never their pixels.
//!
//! The commands that leave are followed as the viewer will apply them: a lossy one adds its rectangle, a COPY carries on
//! what its source has, any other mends what it writes. So what is lost, cancelled or drawn anew needs no word here: its
//! pixels are sent again by the queue, and what is sent is what counts. Where this says more than is true, an exact job finds
//! the pixels exact and sends nothing; it never says less.

use std::collections::VecDeque;

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::video::VideoCommand;
use thinc_region::{Rect, Region, Size};

use crate::copies::CopyCommand;
use crate::mutation::{Broken, Mutation};
use crate::update::JobId;

/// How long nothing lossy may have come to a place before it is made exact: six frames of a 60 Hz screen, so that a video
/// of 10 frames a second is none that rests.
const REST: Micros = 100_000;
/// Times of rest are told apart to this, or a photograph that leaves in a hundred parts would be as many sets.
const REST_STEP: Micros = 10_000;
/// Most rectangles of one set; past it a coarser one, which costs pixels that are compared and found exact.
const RECTS_MAX: usize = 256;
/// Exact jobs committed and not sent: one to be encoded while another leaves.
const JOBS_MAX: usize = 2;
/// Bytes an exact pixel of a photograph takes before the first was measured, and a measurement's weight.
const BYTES_PER_PIXEL_INITIAL: f64 = 1.5;
const BYTES_PER_PIXEL_WEIGHT: f64 = 0.25;
/// Fewest pixels of a job: what lies above a pixel is half of what foretells it, so no thin rows.
const AREA_MIN: u64 = 32 * 32;
/// After so long what rests need not wait until nothing else does: it gets a share of the path, one part in
/// [`SHARE`]. Small changes elsewhere would leave it time anyway; this is for a video.
const PATIENCE: Micros = 250_000;
const SHARE: u64 = 10;

/// An exact job that has not left.
#[derive(Debug)]
struct Exact {
    job: JobId,
    area: u64,
    /// What is exact once all of it has left: where its pixels were read, less where later jobs went lossy before it was done.
    region: Region,
}

/// One viewer's inexact areas.
#[derive(Debug)]
pub(crate) struct Refresh {
    /// Nothing lossy came here lately.
    rested: Region,
    /// Where it did, and when, oldest first; no pixel is in two sets.
    fresh: VecDeque<(Micros, Region)>,
    jobs: Vec<Exact>,
    /// The newest job that may be lossy: what follows it is not even read while all is exact.
    lossy_job: Option<JobId>,
    bytes_per_pixel: f64,
    /// From when it may go before what waits in the queue.
    turn_at: Micros,
    broken: Broken,
}

impl Refresh {
    pub(crate) fn new(broken: Broken) -> Refresh {
        Refresh {
            rested: Region::new(),
            fresh: VecDeque::new(),
            jobs: Vec::new(),
            lossy_job: None,
            bytes_per_pixel: BYTES_PER_PIXEL_INITIAL,
            turn_at: 0,
            broken,
        }
    }

    /// Everything the viewer shows is exact, or will be when all that left has been applied.
    pub(crate) fn is_empty(&self) -> bool {
        self.rested.is_empty() && self.fresh.is_empty()
    }

    /// Another geometry: the viewer begins with nothing.
    pub(crate) fn reset(&mut self) {
        self.rested.clear();
        self.fresh.clear();
        self.jobs.clear();
    }

    /// This job's photographs may be sent lossy.
    pub(crate) fn lossy_committed(&mut self, job: JobId) {
        self.lossy_job = Some(job);
    }

    /// These commands leave, all of an update or a part of it, as they were before any packing.
    pub(crate) fn sent(&mut self, job: JobId, commands: &[u8], screen: Size, now: Micros) {
        self.ripen(now);
        if self.is_empty() && self.lossy_job.is_none_or(|lossy| lossy < job) {
            return;
        }
        for command in CommandReader::new(commands, screen) {
            match command {
                Ok(Command::Copy { region, dx, dy }) => self.moved(job, &CopyCommand { region, dx, dy }, now),
                Ok(Command::Raw { rect, encoding: Encoding::Jpeg, .. }) => self.came(job, &Region::from(rect), now),
                Ok(Command::Sfill { region, .. }) => self.mended(&region),
                Ok(
                    Command::Raw { rect, .. }
                    | Command::Pfill { rect, .. }
                    | Command::Bitmap { rect, .. }
                    | Command::Recall { rect, .. },
                ) => self.mended(&Region::from(rect)),
                Ok(Command::Video(VideoCommand::Next { clip, picture, .. })) => {
                    if picture.is_exact() || self.broken.is(Mutation::CodedIsExact) {
                        self.mended(&clip);
                    } else {
                        self.came(job, &clip, now);
                    }
                }
                Ok(Command::Keep { .. } | Command::Video(_)) => {}
                // The viewer reads no further either, and goes.
                Err(_) => return,
            }
        }
        self.fresh.retain(|(_, region)| !region.is_empty());
    }

    fn sets(&mut self) -> impl Iterator<Item = &mut Region> {
        self.fresh.iter_mut().map(|(_, region)| region).chain([&mut self.rested])
    }

    fn mended(&mut self, region: &Region) {
        self.sets().for_each(|set| set.subtract(region));
    }

    /// Lossy pixels of this job are here now.
    fn came(&mut self, job: JobId, region: &Region, now: Micros) {
        self.mended(region);
        // Later jobs may write where an exact one has left already, or found nothing to send, before the rest of it leaves.
        // What earlier jobs left inexact it mends itself: it was planned after them.
        for exact in self.jobs.iter_mut().filter(|exact| exact.job < job) {
            exact.region.subtract(region);
            if exact.region.rect_count() > RECTS_MAX {
                // Too fine to remember: it is compared once more.
                exact.region.clear();
            }
        }
        if self.broken.is(Mutation::RefreshIsForgotten) {
            return;
        }
        match self.fresh.back_mut() {
            Some((since, newest)) if now < *since + REST_STEP => {
                newest.add(region);
                bound(newest);
            }
            _ => self.fresh.push_back((now, region.clone())),
        }
    }

    /// What moves does not rest.
    fn moved(&mut self, job: JobId, copy: &CopyCommand, now: Micros) {
        let source = copy.source();
        let mut moved = Region::new();
        for set in self.sets() {
            if set.overlaps(&source) {
                moved.add(&set.intersection(&source));
            }
        }
        self.mended(&copy.region);
        if !moved.is_empty() && !self.broken.is(Mutation::RefreshIgnoresCopies) {
            moved.translate(copy.dx, copy.dy);
            self.came(job, &moved, now);
        }
    }

    /// What has rested by now.
    fn ripen(&mut self, now: Micros) {
        while let Some((_, region)) = self.fresh.pop_front_if(|(since, _)| now >= *since + REST) {
            if self.rested.is_empty() {
                self.turn_at = self.turn_at.max(now + PATIENCE);
            }
            self.rested.add(&region);
            bound(&mut self.rested);
        }
    }

    /// When something will have rested; a moment that has passed where something has.
    pub(crate) fn due(&self) -> Option<Micros> {
        let rested = (!self.rested.is_empty()).then_some(0);
        rested.or_else(|| self.fresh.front().map(|(since, _)| since + REST))
    }

    /// It has waited long enough for its share of a path that is never free.
    pub(crate) fn is_overdue(&mut self, now: Micros) -> bool {
        self.ripen(now);
        !self.rested.is_empty() && now >= self.turn_at
    }

    /// All that is to be made exact, if anything may be now. `settle` takes pixels from where they are once everything sent was
    /// applied to where they will be with the next commit, less those that are read in any case; `unsent` tells which jobs have
    /// not left.
    pub(crate) fn wanted(
        &mut self,
        settle: impl FnOnce(&mut Region),
        unsent: impl Fn(JobId) -> bool,
        now: Micros,
    ) -> Option<Region> {
        self.ripen(now);
        // One that is gone and not sent was given up: its pixels wait in the queue.
        self.jobs.retain(|exact| unsent(exact.job));
        if self.rested.is_empty() || self.jobs.len() >= JOBS_MAX {
            return None;
        }
        let mut wanted = self.rested.clone();
        settle(&mut wanted);
        (!wanted.is_empty()).then_some(wanted)
    }

    /// What of that goes next, of about so many bytes, and their number.
    pub(crate) fn pick(&self, wanted: &Region, bytes: u64, area_max: u64) -> (Region, u64) {
        let area = (bytes as f64 / self.bytes_per_pixel) as u64;
        let region = block(wanted, area.max(AREA_MIN).min(area_max));
        let bytes = (region.area() as f64 * self.bytes_per_pixel) as u64;
        (region, bytes)
    }

    /// Bytes that an exact pixel takes.
    pub(crate) fn bytes_per_pixel(&self) -> f64 {
        self.bytes_per_pixel
    }

    /// What was picked is committed; the path takes so long for it.
    pub(crate) fn committed(&mut self, job: JobId, region: &Region, takes: Micros, now: Micros) {
        self.jobs.push(Exact { job, area: region.area(), region: region.clone() });
        self.turn_at = now + takes * SHARE;
    }

    /// A job was encoded to so many bytes.
    pub(crate) fn encoded(&mut self, job: JobId, bytes: u64) {
        if let Some(exact) = self.jobs.iter().find(|exact| exact.job == job)
            && bytes > 0
        {
            let seen = (bytes as f64 / exact.area as f64).clamp(0.01, 4.0);
            self.bytes_per_pixel += (seen - self.bytes_per_pixel) * BYTES_PER_PIXEL_WEIGHT;
        }
    }

    /// All of a job has left, or it had nothing to say: its pixels are exact, those too that were taken in for being coarse,
    /// but for what a later job sent lossy meanwhile.
    pub(crate) fn done(&mut self, job: JobId) {
        if let Some(at) = self.jobs.iter().position(|exact| exact.job == job) {
            let exact = self.jobs.swap_remove(at);
            self.mended(&exact.region);
            self.fresh.retain(|(_, region)| !region.is_empty());
        }
    }

    /// # Panics
    /// When a promise of this file is broken, with the promise in words.
    pub(crate) fn check_invariants(&self) {
        assert!(self.jobs.len() <= JOBS_MAX, "at most {JOBS_MAX} exact jobs wait");
        assert!(self.fresh.len() as u64 <= REST / REST_STEP + 1, "a set for each step, and what is just coming");
        let ages = self.fresh.iter().map(|&(since, _)| since);
        assert!(ages.is_sorted(), "what came first rests first");
        let mut all = Region::new();
        let sets = self.fresh.iter().map(|(_, region)| region).chain([&self.rested]);
        let mut area = 0;
        for set in sets {
            area += set.area();
            all.add(set);
            assert!(set.rect_count() <= RECTS_MAX, "at most {RECTS_MAX} rectangles of a set are told apart");
        }
        let exact = self.fresh.iter().all(|(_, region)| !region.is_empty());
        assert!(exact, "a set has pixels");
        assert!(area >= all.area(), "sets cover what they cover");
    }
}

fn bound(region: &mut Region) {
    if region.rect_count() > RECTS_MAX {
        *region = region.simplified(RECTS_MAX / 4);
    }
}

/// About `area` pixels of the region's first rows, as near to a square as they can be: a pixel is foretold by those above and
/// left of it.
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
        block.intersect_rect(&Rect { x2: bounds.x2.min(bounds.x1 + (area / height as u64) as i32), ..bounds });
        return block;
    }
    // Narrow: as many more rows as there is room for, where they are no wider.
    let higher = rows((area * height as u64 / first.area().max(1)).min(1 << 14) as i32);
    if higher.area() <= area { higher } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Size = Size { width: 1024, height: 768 };

    fn raw(rect: Rect, encoding: Encoding) -> Vec<u8> {
        let mut out = Vec::new();
        Command::Raw { rect, encoding, data: &[0; 9] }.encode(&mut out);
        out
    }

    fn pick(refresh: &mut Refresh, now: Micros) -> Option<Region> {
        let wanted = refresh.wanted(|_| (), |_| true, now)?;
        Some(refresh.pick(&wanted, 1 << 20, 1 << 20).0)
    }

    #[test]
    fn what_is_told_coarsely_ends_all_the_same() {
        let mut refresh = Refresh::new(Broken::default());
        refresh.lossy_committed(JobId(1));
        // 1600 squares, as a chessboard: far more than are told apart.
        for i in 0..3200 {
            let (x, y) = (i % 64, i / 64);
            if (x + y) % 2 == 0 {
                refresh.sent(JobId(1), &raw(Rect::at(x * 16, y * 15, 16, 15), Encoding::Jpeg), SCREEN, 0);
                refresh.check_invariants();
            }
        }
        let mut jobs = 1;
        while let Some(region) = pick(&mut refresh, REST) {
            jobs += 1;
            refresh.committed(JobId(jobs), &region, 0, REST);
            // The squares that were exact already are not sent: they need not be known to have been.
            refresh.done(JobId(jobs));
            refresh.check_invariants();
        }
        assert!(refresh.is_empty() && jobs > 1);
    }

    #[test]
    fn a_job_that_was_given_up_is_asked_for_again() {
        let mut refresh = Refresh::new(Broken::default());
        refresh.lossy_committed(JobId(1));
        refresh.sent(JobId(1), &raw(Rect::at(0, 0, 64, 64), Encoding::Jpeg), SCREEN, 0);
        assert_eq!(pick(&mut refresh, REST - 1), None, "it does not rest yet");
        assert_eq!(refresh.due(), Some(REST));
        let region = pick(&mut refresh, REST).unwrap();
        refresh.committed(JobId(2), &region, 0, REST);
        assert_eq!(refresh.wanted(|_| (), |job| job != JobId(2), REST), Some(region));
    }

    /// Seed 8130 of the simulator: half of an exact job had left, and a photograph over that half went before the rest.
    #[test]
    fn what_goes_lossy_over_a_job_that_is_half_sent_is_not_done_with_it() {
        let mut refresh = Refresh::new(Broken::default());
        let (above, below) = (Rect::at(0, 0, 64, 32), Rect::at(0, 32, 64, 32));
        refresh.lossy_committed(JobId(1));
        refresh.sent(JobId(1), &raw(Rect::at(0, 0, 64, 64), Encoding::Jpeg), SCREEN, 0);
        let region = pick(&mut refresh, REST).unwrap();
        assert_eq!(region, Region::from(Rect::at(0, 0, 64, 64)));
        refresh.committed(JobId(2), &region, 0, REST);
        refresh.sent(JobId(2), &raw(above, Encoding::Predicted), SCREEN, REST);
        refresh.lossy_committed(JobId(3));
        refresh.sent(JobId(3), &raw(above, Encoding::Jpeg), SCREEN, REST);
        refresh.sent(JobId(2), &raw(below, Encoding::Predicted), SCREEN, REST);
        refresh.done(JobId(2));
        assert_eq!(refresh.due(), Some(2 * REST), "it rests anew");
        let again = pick(&mut refresh, 2 * REST).expect("it is still to be made exact");
        assert_eq!(again, Region::from(above));
        refresh.committed(JobId(4), &again, 0, 2 * REST);
        refresh.done(JobId(4));
        assert!(refresh.is_empty(), "nothing came meanwhile");
    }

    /// What a COPY of a later job carries there counts as well; an earlier one's was known when the job was planned.
    #[test]
    fn what_a_later_job_moves_there_is_not_done_with_it() {
        for (mover, is_empty) in [(JobId(1), true), (JobId(3), false)] {
            let mut refresh = Refresh::new(Broken::default());
            let (from, to) = (Rect::at(200, 0, 64, 32), Rect::at(0, 0, 64, 32));
            refresh.lossy_committed(JobId(4));
            refresh.sent(JobId(0), &raw(from, Encoding::Jpeg), SCREEN, 0);
            refresh.committed(JobId(2), &Region::from(to), 0, REST);
            let mut copy = Vec::new();
            Command::Copy { region: to.into(), dx: -200, dy: 0 }.encode(&mut copy);
            refresh.sent(mover, &copy, SCREEN, REST);
            refresh.sent(mover, &raw(from, Encoding::Predicted), SCREEN, REST);
            refresh.done(JobId(2));
            assert_eq!(refresh.is_empty(), is_empty, "{mover:?}");
        }
    }

    #[test]
    fn a_block_is_nearly_square_and_no_larger_than_asked() {
        let photo = Region::from(Rect::new(10, 20, 910, 620));
        for area in [1024, 5_000, 100_000] {
            let block = block(&photo, area);
            let bounds = block.extents();
            assert!(block.area() <= area && block.area() * 5 > area * 4, "{bounds:?} of {area} pixels");
            assert!(bounds.width() < 2 * bounds.height() && bounds.height() < 2 * bounds.width(), "{bounds:?}");
        }
        let narrow = Region::from(Rect::new(0, 0, 8, 700));
        assert_eq!(block(&narrow, 1024), Region::from(Rect::new(0, 0, 8, 128)), "or as high as it is narrow");
    }
}
