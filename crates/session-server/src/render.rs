//! Path 7/13 and 8/13: one viewer's jobs, from the framebuffer's pixels to a plan against that
//! viewer's shadow. From actor.rs with a job of session-core, to worker.rs or the encoder on the
//! same thread. Knows the framebuffer, shadows and regions; never bytes of commands.

use std::time::{Duration, Instant};

use thinc_h264::Library;
use thinc_pixels::{
    Cache, Claim, Hint, Hints, Lossy, PlanSettings, Planned, Resampler, Shadow, VIDEO_AREAS_MAX,
    confirm_retained, plan_with, split_pieces,
};
use thinc_protocol::Micros;
use thinc_region::{Rect, Size};
use thinc_ring::{Framebuffer, Ring};
use thinc_session_core::{
    Job, Part, Proposal, ProposalStats, RetainedHashes, Session, SnapshotVerdict, VideoFrame,
    VideoOrigin, ViewerId,
};
use tracing::{debug, warn};

use crate::packing;
use crate::video::{FrameReplaced, VideoStreams};
use crate::worker::{EncodeJob, Encoded, OrderedSlices, SLICE_PIXELS};

/// 64 Ki pixels: reading so many takes long enough for X to draw into them meanwhile.
const TORN_READ_AREA_MIN: u64 = 1 << 16;
/// 2 ms: longest wait, for each job, until X has finished the operation that it is drawing; then
/// the pixels are read all the same. X needs a quarter of that to copy a screen; the rest is for an
/// X server that was just preempted. Each time that the wait was in vain, the next job waits half
/// as long, down to an eighth: an X server that draws for longer is not waited for.
const DRAW_WAIT_MAX: Duration = Duration::from_millis(2);
const DRAW_WAIT_MIN: Duration = Duration::from_micros(250);

/// Reads and plans the jobs of one viewer, against the shadow of what it shows.
#[derive(Debug)]
pub(crate) struct Renderer {
    epoch: u32,
    shadow: Shadow,
    /// For viewers that show a scaled view.
    resampler: Resampler,
    /// Jobs at the workers of which some slices have arrived.
    ordered: Vec<OrderedSlices>,
    /// Working memory: the drawing hints of a job.
    hints: Vec<Hint>,
    streams: VideoStreams,
    /// How long to wait for X next time.
    draw_wait: Duration,
    /// Video areas as they were reported last.
    video_areas: Vec<Rect>,
}

impl Renderer {
    /// `library`: encodes its videos.
    pub(crate) fn new(library: Library) -> Renderer {
        Renderer {
            epoch: 0,
            shadow: Shadow::new(Size { width: 0, height: 0 }),
            resampler: Resampler::new(),
            ordered: Vec::new(),
            hints: Vec::new(),
            draw_wait: DRAW_WAIT_MAX,
            streams: VideoStreams::new(library),
            video_areas: Vec::new(),
        }
    }

    /// The viewer does not know what it shows.
    pub(crate) fn invalidate(&mut self) {
        self.shadow.reset();
    }

    /// Reads the job's pixels or its video frame into `encode_job`, and plans them. On an error the
    /// job is cancelled, and its pixels are sent by a later one.
    pub(crate) fn render(
        &mut self,
        core: &mut Session,
        viewer: ViewerId,
        job: &Job,
        (ring, framebuffer): (&Ring, &Framebuffer),
        cache: Option<&mut Cache>,
        encode_job: &mut EncodeJob,
        now: Micros,
    ) -> Result<(), FrameReplaced> {
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
        (encode_job.viewer, encode_job.id) = (viewer, job.id);
        encode_job.planned.clear();
        encode_job.plain.clear();
        encode_job.frame = None;
        if let Some(frame) = job.video.filter(|frame| frame.origin != VideoOrigin::Area) {
            return self.read_video_frame(core, viewer, job, &frame, ring, encode_job);
        }
        // A read that is too short to be torn does not wait.
        let waits = job.region.area() >= TORN_READ_AREA_MIN;
        let until = Instant::now() + if waits { self.draw_wait } else { Duration::ZERO };
        let tag = loop {
            let drawn = wait_for_drawing(ring, until);
            if waits {
                self.draw_wait = if drawn.is_some() {
                    DRAW_WAIT_MAX
                } else {
                    (self.draw_wait / 2).max(DRAW_WAIT_MIN)
                };
            }
            let before = drawn.unwrap_or_else(|| ring.begin());
            encode_job.snapshot.fill(&job.region, |rect, dst, stride| match &job.view {
                None => framebuffer.read_rect(rect, dst, stride),
                Some(view) => self.resampler.resample(
                    (&view.x, &view.y),
                    rect,
                    dst,
                    stride,
                    |rect, dst, stride| {
                        framebuffer.read_rect(rect, dst, stride);
                    },
                ),
            });
            // Loaded after the pixels were read: they may contain all operations that it counts.
            let tag = ring.begin();
            match core.handle_snapshot(viewer, job.id, Some(before), tag) {
                SnapshotVerdict::Keep => break tag,
                SnapshotVerdict::ReadAgain => {}
            }
        };
        if let Some(RetainedHashes { key, tiles }) = &job.retained {
            let region = confirm_retained(&encode_job.snapshot, &mut self.shadow, key, tiles);
            if !region.is_empty() {
                core.handle_retained(viewer, job.id, region.area());
                encode_job.planned.push(Planned::Shift { region, dx: 0, dy: 0 });
            }
        }
        self.hints.clear();
        self.hints.extend(job.parts.iter().map(hint));
        let hints = Hints { shown: &job.verify, parts: &self.hints };
        let quality = job.hints.quality;
        encode_job.settings = packing::settings(quality);
        // Unchanged lossy pixels of a video are left until it rests, as with photographs.
        let may_be_lossy = quality.lossy.is_some() || job.video.is_some();
        let lossy = if may_be_lossy { Lossy::Photographs } else { Lossy::Never };
        // Pixels of a video do not recur: they are not cached.
        let mut cache = cache.filter(|_| !job.hints.video);
        if let Some(cache) = &mut cache {
            cache.begin(job.id.0);
        }
        let mut video_mask = job.video.as_ref().and_then(|frame| self.streams.video_mask(frame));
        if let (Some(mask), Some(frame)) = (&mut video_mask, &job.video) {
            mask.set_takes_text(frame.takes_text);
        }
        let settings = PlanSettings { lossy, cache, now, video: video_mask };
        let verdict = plan_with(
            &encode_job.snapshot,
            &mut self.shadow,
            &hints,
            settings,
            &mut encode_job.planned,
        );
        split_pieces(
            &mut encode_job.planned,
            &encode_job.snapshot,
            SLICE_PIXELS.min(job.hints.piece_area),
        );
        // If X was ahead of its records, refuted hints are late and not wrong.
        let (refused, late) =
            if tag > job.translated { (0, verdict.refuted) } else { (verdict.refuted, 0) };
        core.handle_proposals(
            viewer,
            ProposalStats { confirmed: verdict.confirmed, refuted: refused, late },
        );
        self.report_video_areas(core, viewer, job, now);
        if let Some(frame) = &job.video {
            if let Some(mask) = self.streams.video_mask(frame) {
                core.handle_moving_text(viewer, frame.stream, &mask.moving_text());
            }
            let frame = self.streams.take_area(frame, &self.shadow);
            encode_job.frame = frame.inspect_err(|_| core.handle_cancelled(viewer, job.id))?;
        }
        Ok(())
    }

    /// Reads the newest XVideo frame instead of pixels.
    fn read_video_frame(
        &mut self,
        core: &mut Session,
        viewer: ViewerId,
        job: &Job,
        frame: &VideoFrame,
        ring: &Ring,
        encode_job: &mut EncodeJob,
    ) -> Result<(), FrameReplaced> {
        // It is unknown which frame the framebuffer holds by now: the next drawing there is sent.
        self.shadow.mark_stale(&job.region);
        // An unscaled view of a part shows everything translated; of a scaled one only the crop is
        // checked.
        let place = match &job.view {
            None => Some(frame.place),
            Some(view) => {
                view.is_whole().then(|| frame.place.translate(view.part().x1, view.part().y1))
            }
        };
        // The next frame replaces a torn one: it is read again only once.
        let mut before = Some(ring.begin());
        loop {
            encode_job.plain.clear();
            let result =
                self.streams.read_frame(frame, &job.region, ring, place, &mut encode_job.plain);
            let frame = result.inspect_err(|_| core.handle_cancelled(viewer, job.id))?;
            match core.handle_snapshot(viewer, job.id, before.take(), ring.begin()) {
                SnapshotVerdict::Keep => {
                    encode_job.frame = frame;
                    return Ok(());
                }
                SnapshotVerdict::ReadAgain => {
                    frame.into_iter().for_each(|frame| self.streams.give_back(frame))
                }
            }
        }
    }

    /// Reports the video areas that the job's region overlaps: each report is a frame of theirs.
    fn report_video_areas(&mut self, core: &mut Session, viewer: ViewerId, job: &Job, now: Micros) {
        let video_areas = self.shadow.video_areas();
        if self.video_areas != video_areas {
            debug!("video areas: {video_areas:?}");
            self.video_areas.clear();
            self.video_areas.extend_from_slice(video_areas);
        }
        let mut reported = [Rect::default(); VIDEO_AREAS_MAX];
        let mut count = 0;
        for area in video_areas.iter().filter(|area| job.region.overlaps_rect(area)) {
            reported[count] = *area;
            count += 1;
        }
        core.handle_video_areas(viewer, &reported[..count], now);
        if let Some(new) = self.shadow.fully_changed() {
            core.handle_fully_changed(viewer, &new, now);
        }
    }

    /// A slice of a job has returned from the workers: it may be sent once all before it have.
    pub(crate) fn handle_encoded(&mut self, core: &mut Session, encoded: Encoded) {
        let Encoded { job: encode_job, index, count, commands, took, frame, failed } = encoded;
        let known = self.ordered.iter().position(|ordered| ordered.job == encode_job.id);
        let at = known.unwrap_or_else(|| {
            self.ordered.push(OrderedSlices::new(encode_job.id, count));
            self.ordered.len() - 1
        });
        if let Some(frame) = frame {
            self.ordered[at].samples = frame.area();
            if let Some(error) = failed {
                warn!("a video is sent as pixels from here on: {error}");
                self.ordered[at].failed = Some(frame.stream());
                self.streams.remove(frame.stream());
            }
            self.streams.give_back(frame);
        }
        self.ordered[at].put(index, commands, took);
        while let Some(commands) = self.ordered[at].take() {
            if !self.ordered[at].is_complete() {
                core.handle_encoding(encode_job.viewer, encode_job.id, &commands);
                continue;
            }
            let OrderedSlices { took, failed, samples, .. } = self.ordered.swap_remove(at);
            if let Some(stream) = failed {
                core.handle_cancelled(encode_job.viewer, encode_job.id);
                return core.handle_video_failed(encode_job.viewer, stream);
            }
            return finish(core, &encode_job, samples, &commands, took);
        }
    }
}

/// Waits until X has finished the operation that it is drawing: pixels read in the middle of one
/// would be a torn capture, whose second half is sent again a moment later, and which neither
/// recurs nor compresses well. Returns the newest operation that is completely drawn; `None` if X
/// was not done by `until`, or does not publish it: then the read may be torn, and reading again
/// during the same operation would not repair it.
fn wait_for_drawing(ring: &Ring, until: Instant) -> Option<u64> {
    loop {
        let drawn = ring.published_op()?;
        if drawn >= ring.begin() {
            return Some(drawn);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Passes a job's bytes, or those of its last slice, to session-core.
pub(crate) fn finish(
    core: &mut Session,
    encode_job: &EncodeJob,
    samples: u64,
    commands: &[u8],
    took: Duration,
) {
    core.handle_encode_time(
        encode_job.viewer,
        encode_job.id,
        encode_job.pixels() + samples,
        took.as_micros() as Micros,
    );
    core.handle_encoded(encode_job.viewer, encode_job.id, commands);
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
