//! Path 7/13 and 8/13: one viewer's jobs, from the framebuffer's pixels to a plan against what that viewer shows.
//! From actor.rs with a job of session-core, to worker.rs or the encoder in place.
//! Knows the framebuffer, shadows and regions; never bytes of commands.

use std::time::{Duration, Instant};

use thinc_h264::Library;
use thinc_pixels::{
    AREAS_MAX, Cache, Claim, Hint, Hints, Lossy, PlanSettings, Planned, Resampler, Shadow, cut, plan_with,
    shown_already,
};
use thinc_protocol::Micros;
use thinc_region::{Rect, Size};
use thinc_ring::{Framebuffer, Ring};
use thinc_session_core::{
    Job, Part, Proposal, Proposals, Session, Shown, SnapshotVerdict, VideoFrame, VideoOrigin, ViewerId,
};
use tracing::{debug, warn};

use crate::packing;
use crate::video::{OtherFrame, Streams};
use crate::worker::{Encoded, Gathered, STRETCH_PIXELS, Work};

/// 64 Ki pixels: what is read of so many takes long enough for X to draw into it.
const TORN_AREA: u64 = 1 << 16;
/// 2 ms: how long X may go on, for each job, with what it is drawing before pixels are read all the same. A screen that is copied to takes it a
/// quarter of that, and the rest is for an X that was just put aside for another process. Each time that it was in vain, the next job waits
/// half as long, down to an eighth: an X that draws for longer than that is not waited for.
const DRAWN_MAX: Duration = Duration::from_millis(2);
const DRAWN_MIN: Duration = Duration::from_micros(250);

/// What one viewer shows, as far as the session knows.
#[derive(Debug)]
pub(crate) struct View {
    epoch: u32,
    shadow: Shadow,
    /// For a picture that is not the screen.
    resampler: Resampler,
    /// Jobs at the workers of which some stretches have come.
    gathered: Vec<Gathered>,
    /// Working memory: what a job's pixels are said to be.
    hints: Vec<Hint>,
    streams: Streams,
    /// How long X is waited for next time.
    patience: Duration,
    /// Areas that change like videos, as they were told last.
    moving: Vec<Rect>,
}

impl View {
    /// Its videos will be coded by this library.
    pub(crate) fn new(library: Library) -> View {
        View {
            epoch: 0,
            shadow: Shadow::new(Size { width: 0, height: 0 }),
            resampler: Resampler::new(),
            gathered: Vec::new(),
            hints: Vec::new(),
            patience: DRAWN_MAX,
            streams: Streams::new(library),
            moving: Vec::new(),
        }
    }

    /// The viewer has lost track of what it shows.
    pub(crate) fn forget(&mut self) {
        self.shadow.reset();
    }

    /// Reads the job's pixels or its video's frame into `work`, and plans them. An error: it was given up, and comes anew.
    pub(crate) fn render(
        &mut self,
        core: &mut Session,
        viewer: ViewerId,
        job: &Job,
        (ring, framebuffer): (&Ring, &Framebuffer),
        cache: Option<&mut Cache>,
        work: &mut Work,
        now: Micros,
    ) -> Result<(), OtherFrame> {
        if self.epoch != job.epoch {
            self.epoch = job.epoch;
            self.shadow = Shadow::new(job.view.map_or(core.size(), |view| view.size()));
            self.streams.clear();
        }
        self.streams.retain(|stream| core.has_video(viewer, stream));
        self.shadow.mark_stale(&job.forget);
        for copy in &job.copies {
            self.shadow.copy(&copy.region, copy.dx, copy.dy);
        }
        (work.viewer, work.job) = (viewer, job.id);
        work.planned.clear();
        work.plain.clear();
        work.picture = None;
        if let Some(frame) = job.video.filter(|frame| frame.origin != VideoOrigin::Area) {
            return self.take_frame(core, viewer, job, &frame, ring, work);
        }
        // Nothing is waited for where a read is too short to be torn.
        let waits = job.region.area() >= TORN_AREA;
        let until = Instant::now() + if waits { self.patience } else { Duration::ZERO };
        let tag = loop {
            let drawn = wait_until_drawn(ring, until);
            if waits {
                self.patience = if drawn.is_some() { DRAWN_MAX } else { (self.patience / 2).max(DRAWN_MIN) };
            }
            let before = drawn.unwrap_or_else(|| ring.begin());
            work.snapshot.fill(&job.region, |rect, dst, stride| match &job.view {
                None => framebuffer.read_rect(rect, dst, stride),
                Some(view) => self.resampler.resample((&view.x, &view.y), rect, dst, stride, |rect, dst, stride| {
                    framebuffer.read_rect(rect, dst, stride);
                }),
            });
            // Loaded after the pixels were read: whatever it counts may be in them.
            let tag = ring.begin();
            match core.handle_snapshot(viewer, job.id, Some(before), tag) {
                SnapshotVerdict::Keep => break tag,
                SnapshotVerdict::ReadAgain => {}
            }
        };
        if let Some(Shown { key, tiles }) = &job.shown {
            let region = shown_already(&work.snapshot, &mut self.shadow, key, tiles);
            if !region.is_empty() {
                core.handle_shown(viewer, job.id, region.area());
                work.planned.push(Planned::Shift { region, dx: 0, dy: 0 });
            }
        }
        self.hints.clear();
        self.hints.extend(job.parts.iter().map(hint));
        let hints = Hints { shown: &job.verify, parts: &self.hints };
        let quality = job.hints.quality;
        work.settings = packing::settings(quality);
        // What of a video is shown nearly and did not change is left until it rests, as with photographs.
        let nearly = quality.lossy.is_some() || job.video.is_some();
        let lossy = if nearly { Lossy::Photographs } else { Lossy::Never };
        // Nothing of a video comes again.
        let mut cache = cache.filter(|_| !job.hints.video);
        if let Some(cache) = &mut cache {
            cache.begin(job.id.0);
        }
        let film = job.video.as_ref().and_then(|frame| self.streams.film(frame));
        let settings = PlanSettings { lossy, cache, now, film };
        let verdict = plan_with(&work.snapshot, &mut self.shadow, &hints, settings, &mut work.planned);
        cut(&mut work.planned, &work.snapshot, STRETCH_PIXELS.min(job.hints.piece_area));
        // Where X was ahead of its records, nobody was wrong.
        let (refused, late) = if tag > job.translated { (0, verdict.refused) } else { (verdict.refused, 0) };
        core.handle_proposals(viewer, Proposals { held: verdict.held, refused, late });
        self.tell_moving(core, viewer, job, now);
        if let Some(frame) = &job.video {
            let picture = self.streams.take_area(frame, &self.shadow);
            work.picture = picture.inspect_err(|_| core.handle_cancelled(viewer, job.id))?;
        }
        Ok(())
    }

    /// Reads the newest frame of XVideo in place of pixels.
    fn take_frame(
        &mut self,
        core: &mut Session,
        viewer: ViewerId,
        job: &Job,
        frame: &VideoFrame,
        ring: &Ring,
        work: &mut Work,
    ) -> Result<(), OtherFrame> {
        // Which picture the framebuffer has there by now is not known: what is drawn next is sent.
        self.shadow.mark_stale(&job.region);
        // A part of the screen at its own size has all of it elsewhere; of what is scaled, only the crop is looked at.
        let place = match &job.view {
            None => Some(frame.place),
            Some(view) => view.is_whole().then(|| frame.place.translate(view.part().x1, view.part().y1)),
        };
        // The next frame mends what is of two: it is read again once.
        let mut before = Some(ring.begin());
        loop {
            work.plain.clear();
            let taken = self.streams.take_frame(frame, &job.region, ring, place, &mut work.plain);
            let picture = taken.inspect_err(|_| core.handle_cancelled(viewer, job.id))?;
            match core.handle_snapshot(viewer, job.id, before.take(), ring.begin()) {
                SnapshotVerdict::Keep => {
                    work.picture = picture;
                    return Ok(());
                }
                SnapshotVerdict::ReadAgain => picture.into_iter().for_each(|picture| self.streams.give_back(picture)),
            }
        }
    }

    /// Tells which of the job's pixels are of areas that change like videos: each time is a frame of theirs.
    fn tell_moving(&mut self, core: &mut Session, viewer: ViewerId, job: &Job, now: Micros) {
        let moving = self.shadow.moving();
        if self.moving != moving {
            debug!("areas that change like videos: {moving:?}");
            self.moving.clear();
            self.moving.extend_from_slice(moving);
        }
        let mut told = [Rect::default(); AREAS_MAX];
        let mut count = 0;
        for area in moving.iter().filter(|area| job.region.overlaps_rect(area)) {
            told[count] = *area;
            count += 1;
        }
        core.handle_moving(viewer, &told[..count], now);
        if let Some(new) = self.shadow.new_at_once() {
            core.handle_new_at_once(viewer, &new, now);
        }
    }

    /// A stretch of a job has come from the workers: it may leave once all before it are here.
    pub(crate) fn gather(&mut self, core: &mut Session, encoded: Encoded) {
        let Encoded { work, index, count, commands, took, picture, failed } = encoded;
        let known = self.gathered.iter().position(|gathered| gathered.job == work.job);
        let at = known.unwrap_or_else(|| {
            self.gathered.push(Gathered::new(work.job, count));
            self.gathered.len() - 1
        });
        if let Some(picture) = picture {
            self.gathered[at].samples = picture.area();
            if let Some(error) = failed {
                warn!("a video goes on as pixels: {error}");
                self.gathered[at].failed = Some(picture.stream());
                self.streams.end(picture.stream());
            }
            self.streams.give_back(picture);
        }
        self.gathered[at].put(index, commands, took);
        while let Some(commands) = self.gathered[at].take() {
            if !self.gathered[at].is_whole() {
                core.handle_encoding(work.viewer, work.job, &commands);
                continue;
            }
            let Gathered { took, failed, samples, .. } = self.gathered.swap_remove(at);
            if let Some(stream) = failed {
                core.handle_cancelled(work.viewer, work.job);
                return core.handle_video_failed(work.viewer, stream);
            }
            return finish(core, &work, samples, &commands, took);
        }
    }
}

/// X is in the middle of an op, and pixels read now would be of two pictures: those of the second are drawn a moment later, and what is of two
/// neither repeats nor packs as either does. The newest op, all of which is drawn; None where X was not done by then, or does not tell: what is
/// read then may be torn, and to read it again in the same op would not mend it.
fn wait_until_drawn(ring: &Ring, until: Instant) -> Option<u64> {
    loop {
        let drawn = ring.drawn()?;
        if drawn >= ring.begin() {
            return Some(drawn);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Gives a job's bytes to session-core, or the last of them.
pub(crate) fn finish(core: &mut Session, work: &Work, samples: u64, commands: &[u8], took: Duration) {
    core.handle_encode_time(work.viewer, work.job, work.pixels() + samples, took.as_micros() as Micros);
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
