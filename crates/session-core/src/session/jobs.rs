//! Path 7/13 to 10/13: under session.rs, from viewer/commit.rs through the shell to ledger.rs.
//! The protocol of a job, in one place for every shell. Knows the order of its steps and what they
//! report; never pixels.
//!
//! The types permit no other order. [`Session::render`] takes the [`Job`] and calls the shell's
//! [`Render`], step by step. It returns a [`PlannedJob`], whose commands may be passed on in parts,
//! and which [`Session::complete`] takes.

use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_region::{Rect, Region, Size};

use super::Session;
use crate::delivery::job::Job;
use crate::queue::copies::CopyCommand;
use crate::viewer::{ProposalStats, Viewer};

/// How often one job may be read again. If X draws all the time, a fourth capture is torn once in
/// thousands of times. More would cost time without a benefit.
const REREADS_MAX: u8 = 3;

/// A shell's part in a job: it has the viewer's shadow, and reads and plans pixels.
/// [`Session::render`] calls these methods in the order in which they stand here.
pub trait Render {
    /// The geometry has changed since the job before: the shadow has this size, and what the viewer
    /// shows is unknown.
    fn reset(&mut self, size: Size);
    /// The viewer will not show these planned pixels: they were withdrawn, cancelled or lost, or
    /// are stale.
    fn forget(&mut self, region: &Region);
    /// Applies a COPY to the shadow; session-core encodes it.
    fn copy(&mut self, copy: &CopyCommand);
    /// Copies the pixels of the job's region out, or the samples of its frame. Called again if
    /// something was drawn meanwhile.
    ///
    /// # Errors
    /// They are unavailable: the job is cancelled.
    fn read(&mut self, job: &Job) -> Result<Capture, Unavailable>;
    /// Enters the `retained` tiles that match into the shadow, and plans the rest of the pixels
    /// that were read last against it.
    fn plan(&mut self, job: &Job) -> Plan<'_>;
}

/// What was drawn when a job's pixels were copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The newest op drawn before the copy, or `begin` as it was then; None if the shell cannot
    /// read again.
    pub begin_before: Option<u64>,
    /// `begin`, loaded *after* the copy.
    pub tag: u64,
}

/// A job's pixels cannot be had: they will be committed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

/// What a plan found, beside the commands to encode.
#[derive(Clone, Debug, Default)]
pub struct Plan<'a> {
    /// Pixels that match the job's `retained` tiles.
    pub retained: u64,
    /// Pixels of the job's `verify` and `parts` for which these were right.
    pub confirmed: u64,
    /// Pixels for which they were wrong.
    pub refuted: u64,
    /// Parts of the job's region, at most four and disjoint, that change like a video; None if
    /// the plan did not look for any.
    pub video_areas: Option<&'a [Rect]>,
    /// Nearly all pixels of this part of the view were new to the viewer.
    pub fully_changed: Option<Rect>,
    /// Of the job's `frames`: how many pixels move, and their bounds.
    pub moving: Option<(u64, Rect)>,
    /// Of a video area's frame: text that moves, in the frame or not.
    pub moving_text: Option<Region>,
    /// The frame cannot be encoded now: the job is cancelled.
    pub frame_lost: bool,
}

/// A job whose pixels were read and planned. Its commands are awaited.
#[derive(Debug)]
#[must_use = "a job holds back what overlaps it until it is completed"]
pub struct PlannedJob(Job);

impl PlannedJob {
    /// The job.
    pub fn job(&self) -> &Job {
        &self.0
    }
}

/// How a job ends.
#[derive(Clone, Copy, Debug)]
pub enum JobResult<'a> {
    /// All of it is encoded.
    Encoded {
        /// Its commands after those that [`Session::handle_part`] has taken; none at all if every
        /// pixel is equal to what the viewer shows.
        commands: &'a Commands,
        /// What encoding took, if that was measured.
        time: Option<EncodeTime>,
    },
    /// It cannot be encoded: its pixels will be committed again.
    Cancelled,
    /// The encoder of its video stream failed. The stream ends and is not started again for a
    /// while, and the pixels will be committed again.
    VideoFailed,
}

impl<'a> JobResult<'a> {
    /// All of it is encoded, and nobody measured how long that took.
    pub fn encoded(commands: &'a Commands) -> JobResult<'a> {
        JobResult::Encoded { commands, time: None }
    }
}

/// What encoding a job took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeTime {
    /// Pixels that were neither of one colour nor equal.
    pub pixels: u64,
    /// Of all threads together.
    pub took: Micros,
}

/// What was rendered for one viewer.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// The epoch of the last job, 0 for none.
    epoch: u32,
    /// The number after the last job's.
    next: u64,
}

impl Rendered {
    /// Notes the next job. True if the shadow is of another geometry.
    fn begin(&mut self, job: &Job) -> bool {
        assert!(
            job.id.0 >= self.next,
            "a viewer's jobs are rendered in the order of their commits"
        );
        self.next = job.id.0 + 1;
        std::mem::replace(&mut self.epoch, job.epoch) != job.epoch
    }
}

impl Session {
    /// Has the job's pixels read and planned. None: the job is over. It was of an earlier geometry
    /// or of a viewer that is gone, or its pixels are unavailable and will be committed again.
    ///
    /// # Panics
    /// If a later job of this viewer was rendered before: shadows are planned in the order of jobs.
    pub fn render(&mut self, job: Job, with: &mut impl Render) -> Option<PlannedJob> {
        let (size, now) = (self.screen.size, self.now);
        let viewer =
            self.viewer_mut(job.viewer).filter(|viewer| viewer.pending.epoch() == job.epoch)?;
        if viewer.rendered.begin(&job) {
            with.reset(job.view.map_or(size, |view| view.size()));
        }
        with.forget(&job.forget);
        job.copies.iter().for_each(|copy| with.copy(copy));
        let Some(tag) = read(viewer, &job, with, now) else {
            viewer.cancelled(job.id, now);
            return None;
        };
        let plan = with.plan(&job);
        viewer.planned(&job, tag, &plan, now);
        if plan.frame_lost {
            viewer.cancelled(job.id, now);
            return None;
        }
        Some(PlannedJob(job))
    }

    /// The next of the job's commands, encoded: they may be sent before the rest is. False: one of
    /// them is longer than the viewer takes. The job is cancelled, its pixels will be committed
    /// again in smaller jobs, and what follows of it is ignored.
    pub fn handle_part(&mut self, planned: &PlannedJob, commands: &Commands) -> bool {
        let (PlannedJob(job), now) = (planned, self.now);
        self.viewer_mut(job.viewer).is_none_or(|viewer| {
            viewer.frames_encoded(job, commands);
            viewer.encoding(job.id, commands, now)
        })
    }

    /// Ends a job. Jobs of an earlier geometry or of a viewer that is gone are ignored. A command
    /// that is longer than the viewer takes cancels it, as in [`Session::handle_part`].
    pub fn complete(&mut self, planned: PlannedJob, result: JobResult<'_>) {
        let (PlannedJob(job), now) = (planned, self.now);
        let Some(viewer) = self.viewer_mut(job.viewer) else { return };
        match result {
            JobResult::Encoded { commands, time } => {
                if let Some(EncodeTime { pixels, took }) = time {
                    viewer.encode_took(job.id, pixels, took);
                }
                viewer.frames_encoded(&job, commands);
                viewer.encoded(job.id, commands, now);
            }
            JobResult::Cancelled => viewer.cancelled(job.id, now),
            JobResult::VideoFailed => {
                viewer.cancelled(job.id, now);
                if let Some(frame) = job.video {
                    viewer.video_failed(frame.stream, now);
                }
            }
        }
    }
}

/// Reads until the pixels are of one moment, or may be torn and are kept all the same. Returns
/// their tag.
fn read(viewer: &mut Viewer, job: &Job, with: &mut impl Render, now: Micros) -> Option<u64> {
    let mut rereads = 0;
    loop {
        let Capture { begin_before, tag } = with.read(job).ok()?;
        // Torn pixels are not wrong for long: the op that tore them is still to be translated.
        let is_torn = begin_before.is_some_and(|before| before != tag) && !job.region.is_empty();
        if !is_torn || rereads == REREADS_MAX {
            // A snapshot that is read again has no tag yet.
            viewer.snapshot(job.id, tag, now);
            return Some(tag);
        }
        rereads += 1;
    }
}

impl Viewer {
    /// Takes what the plan of pixels with this tag found.
    fn planned(&mut self, job: &Job, tag: u64, plan: &Plan<'_>, now: Micros) {
        self.found_retained(job.id, plan.retained);
        // If X was ahead of its records, refuted hints are late and not wrong.
        let (refuted, late) =
            if tag > job.translated { (0, plan.refuted) } else { (plan.refuted, 0) };
        self.proposals(ProposalStats { confirmed: plan.confirmed, refuted, late });
        if let Some(areas) = plan.video_areas {
            self.pending.report_video_areas(areas, self.delivery.flow.rate(), now);
        }
        if let Some(new) = &plan.fully_changed {
            self.pending.fully_changed(new, self.delivery.flow.rate(), now);
        }
        if let Some(moving) = plan.moving {
            self.frames_moved(&job.frames, moving, now);
        }
        if let (Some(frame), Some(region)) = (&job.video, &plan.moving_text) {
            self.pending.moving_text(frame.stream, region);
        }
    }
}

/// The part of a shell that has no pixels: what was drawn up to `tag` counts as read, and nothing
/// is planned.
#[derive(Clone, Copy, Debug)]
pub struct NoPixels {
    /// The newest op that may have been drawn.
    pub tag: u64,
}

impl Render for NoPixels {
    fn reset(&mut self, _size: Size) {}
    fn forget(&mut self, _region: &Region) {}
    fn copy(&mut self, _copy: &CopyCommand) {}
    fn read(&mut self, _job: &Job) -> Result<Capture, Unavailable> {
        Ok(Capture { begin_before: None, tag: self.tag })
    }
    fn plan(&mut self, _job: &Job) -> Plan<'_> {
        Plan::default()
    }
}
