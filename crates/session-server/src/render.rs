//! Path 7/13 and 8/13: one viewer's jobs, from the framebuffer's pixels to a plan against what that viewer shows.
//! From actor.rs with a job of session-core, to worker.rs or the encoder in place.
//! Knows the framebuffer, shadows and regions; never bytes of commands.

use std::time::Duration;

use thinc_pixels::{Cache, Claim, Hint, Hints, Lossy, PlanSettings, Shadow, cut, plan_with};
use thinc_protocol::Micros;
use thinc_region::Size;
use thinc_ring::{Framebuffer, Ring};
use thinc_session_core::{Job, Part, Proposal, Proposals, Session, SnapshotVerdict, ViewerId};

use crate::packing;
use crate::worker::{Encoded, Gathered, STRETCH_PIXELS, Work};

/// What one viewer shows, as far as the session knows.
#[derive(Debug)]
pub(crate) struct View {
    epoch: u32,
    shadow: Shadow,
    /// Jobs at the workers of which some stretches have come.
    gathered: Vec<Gathered>,
    /// Working memory: what a job's pixels are said to be.
    hints: Vec<Hint>,
}

impl View {
    pub(crate) fn new() -> View {
        View { epoch: 0, shadow: Shadow::new(Size { width: 0, height: 0 }), gathered: Vec::new(), hints: Vec::new() }
    }

    /// The viewer has lost track of what it shows.
    pub(crate) fn forget(&mut self) {
        self.shadow.reset();
    }

    /// Reads the job's pixels into `work` and plans them.
    pub(crate) fn render(
        &mut self,
        core: &mut Session,
        viewer: ViewerId,
        job: &Job,
        (ring, framebuffer): (&Ring, &Framebuffer),
        cache: Option<&mut Cache>,
        work: &mut Work,
    ) {
        if self.epoch != job.epoch {
            self.epoch = job.epoch;
            self.shadow = Shadow::new(core.size());
        }
        self.shadow.mark_stale(&job.forget);
        for copy in &job.copies {
            self.shadow.copy(&copy.region, copy.dx, copy.dy);
        }
        (work.viewer, work.job) = (viewer, job.id);
        let tag = loop {
            let before = ring.begin();
            work.snapshot.fill(&job.region, |rect, dst, stride| framebuffer.read_rect(rect, dst, stride));
            // Loaded after the pixels were read: whatever it counts may be in them.
            let tag = ring.begin();
            match core.handle_snapshot(viewer, job.id, Some(before), tag) {
                SnapshotVerdict::Keep => break tag,
                SnapshotVerdict::ReadAgain => {}
            }
        };
        work.planned.clear();
        self.hints.clear();
        self.hints.extend(job.parts.iter().map(hint));
        let hints = Hints { shown: &job.verify, parts: &self.hints };
        let quality = job.hints.quality;
        work.settings = packing::settings(quality);
        let lossy = if quality.lossy.is_some() { Lossy::Photographs } else { Lossy::Never };
        // Nothing of a video comes again.
        let mut cache = cache.filter(|_| !job.hints.video);
        if let Some(cache) = &mut cache {
            cache.begin(job.id.0);
        }
        let settings = PlanSettings { lossy, cache };
        let verdict = plan_with(&work.snapshot, &mut self.shadow, &hints, settings, &mut work.planned);
        cut(&mut work.planned, STRETCH_PIXELS.min(job.hints.piece_area));
        // Where X was ahead of its records, nobody was wrong.
        let (refused, late) = if tag > job.translated { (0, verdict.refused) } else { (verdict.refused, 0) };
        core.handle_proposals(viewer, Proposals { held: verdict.held, refused, late });
    }

    /// A stretch of a job has come from the workers: it may leave once all before it are here.
    pub(crate) fn gather(&mut self, core: &mut Session, encoded: Encoded) {
        let Encoded { work, index, count, commands, took } = encoded;
        let known = self.gathered.iter().position(|gathered| gathered.job == work.job);
        let at = known.unwrap_or_else(|| {
            self.gathered.push(Gathered::new(work.job, count));
            self.gathered.len() - 1
        });
        self.gathered[at].put(index, commands, took);
        while let Some(commands) = self.gathered[at].take() {
            if !self.gathered[at].is_whole() {
                core.handle_encoding(work.viewer, work.job, &commands);
                continue;
            }
            let took = self.gathered.swap_remove(at).took;
            return finish(core, &work, &commands, took);
        }
    }
}

/// Gives a job's bytes to session-core, or the last of them.
pub(crate) fn finish(core: &mut Session, work: &Work, commands: &[u8], took: Duration) {
    core.handle_encode_time(work.viewer, work.job, work.pixels(), took.as_micros() as Micros);
    core.handle_encoded(work.viewer, work.job, commands);
}

fn hint(part: &Part) -> Hint {
    let claim = match part.what {
        Proposal::Solid(color) => Claim::Solid(color),
        Proposal::Pattern => Claim::Pattern,
        Proposal::Text(_) => Claim::Text,
        Proposal::Image => Claim::Image,
        Proposal::Video(_) => Claim::Video,
    };
    Hint { rect: part.rect, claim }
}
