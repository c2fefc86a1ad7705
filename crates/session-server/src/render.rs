//! Path 7/13 and 8/13: one viewer's jobs, from the framebuffer's pixels to a plan against that
//! viewer's shadow. From actor.rs with a job of session-core, to worker.rs or the encoder on the
//! same thread. Knows the framebuffer, shadows and regions; never bytes of commands.

use std::time::{Duration, Instant};

use thinc_pixels::{
    Cache, Claim, Hint, Hints, Lossy, PlanSettings, Planned, Resampler, Shadow, confirm_retained,
    plan_with, split_pieces,
};
use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Framebuffer, Ring};
use thinc_session_core::{
    Capture, CopyCommand, EncodeTime, Job, JobResult, Part, Plan, PlannedJob, Proposal, Render,
    RetainedHashes, Session, Unavailable, VideoFrame, VideoOrigin,
};
use tracing::{debug, warn};

use crate::packing;
use crate::video::{FrameReplaced, VideoEncoders, VideoStreams};
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
    shadow: Shadow,
    /// For viewers that show a scaled view.
    resampler: Resampler,
    /// Jobs at the workers, and their slices that have returned.
    encoding: Vec<(PlannedJob, OrderedSlices)>,
    /// Working memory: the drawing hints of a job.
    hints: Vec<Hint>,
    streams: VideoStreams,
    /// How long to wait for X next time.
    draw_wait: Duration,
    /// All video areas, as the last plan left them, and those that it reported.
    video_areas: Vec<Rect>,
    reported_areas: Vec<Rect>,
}

impl Renderer {
    /// `encoders`: of its videos.
    pub(crate) fn new(encoders: VideoEncoders) -> Renderer {
        Renderer {
            shadow: Shadow::new(Size { width: 0, height: 0 }),
            resampler: Resampler::new(),
            encoding: Vec::new(),
            hints: Vec::new(),
            draw_wait: DRAW_WAIT_MAX,
            streams: VideoStreams::new(encoders),
            video_areas: Vec::new(),
            reported_areas: Vec::new(),
        }
    }

    /// The viewer does not know what it shows.
    pub(crate) fn invalidate(&mut self) {
        self.shadow.reset();
    }

    /// Reads the job's pixels or its video frame into `encode_job`, and plans them. None: the job
    /// is cancelled, and its pixels are sent by a later one.
    pub(crate) fn render(
        &mut self,
        core: &mut Session,
        job: Job,
        (ring, framebuffer): (&Ring, &Framebuffer),
        cache: Option<&mut Cache>,
        encode_job: &mut EncodeJob,
        now: Micros,
    ) -> Option<PlannedJob> {
        self.streams.retain(|stream| core.has_video(job.viewer, stream));
        (encode_job.viewer, encode_job.id) = (job.viewer, job.id);
        encode_job.planned.clear();
        encode_job.plain.clear();
        encode_job.frame = None;
        core.render(
            job,
            &mut Turn {
                renderer: self,
                ring,
                framebuffer,
                cache,
                encode_job,
                now,
                wait_until: None,
                has_read_frame: false,
            },
        )
    }

    /// The job is at the workers, in so many slices.
    pub(crate) fn submitted(&mut self, planned: PlannedJob, slices: usize) {
        self.encoding.push((planned, OrderedSlices::new(slices)));
    }

    /// A slice of a job has returned from the workers: it may be sent once all before it have.
    pub(crate) fn handle_encoded(&mut self, core: &mut Session, encoded: Encoded) {
        let Encoded { job: encode_job, index, commands, took, frame, failed } = encoded;
        let of_job = |(planned, _): &(PlannedJob, _)| planned.job().id == encode_job.id;
        let at = self.encoding.iter().position(of_job).expect("only submitted jobs are encoded");
        let (planned, ordered) = &mut self.encoding[at];
        if let Some(frame) = frame {
            ordered.samples = frame.area();
            if let Some(error) = failed {
                warn!("a video is sent as pixels from here on: {error}");
                ordered.failed = true;
                self.streams.remove(frame.stream());
            }
            self.streams.give_back(frame);
        }
        ordered.put(index, commands, took);
        while let Some(commands) = ordered.take() {
            if !ordered.is_complete() {
                core.handle_part(planned, &commands);
                continue;
            }
            let (planned, ordered) = self.encoding.swap_remove(at);
            if ordered.failed {
                return core.complete(planned, JobResult::VideoFailed);
            }
            return finish(core, planned, &encode_job, ordered.samples, &commands, ordered.took);
        }
    }
}

/// One job being rendered.
struct Turn<'a> {
    renderer: &'a mut Renderer,
    ring: &'a Ring,
    framebuffer: &'a Framebuffer,
    cache: Option<&'a mut Cache>,
    encode_job: &'a mut EncodeJob,
    now: Micros,
    /// Until when its reads may wait for X, once the first has begun.
    wait_until: Option<Instant>,
    has_read_frame: bool,
}

impl Render for Turn<'_> {
    fn reset(&mut self, size: Size) {
        self.renderer.shadow = Shadow::new(size);
        self.renderer.streams.clear();
    }

    fn forget(&mut self, region: &Region) {
        self.renderer.shadow.mark_stale(region);
    }

    fn copy(&mut self, copy: &CopyCommand) {
        self.renderer.shadow.copy(&copy.region, copy.dx, copy.dy);
    }

    fn read(&mut self, job: &Job) -> Result<Capture, Unavailable> {
        if let Some(frame) = port_frame(job) {
            return self.read_video_frame(job, &frame);
        }
        let Renderer { draw_wait, resampler, .. } = &mut *self.renderer;
        // A read that is too short to be torn does not wait.
        let waits = job.region.area() >= TORN_READ_AREA_MIN;
        let wait = if waits { *draw_wait } else { Duration::ZERO };
        let until = *self.wait_until.get_or_insert_with(|| Instant::now() + wait);
        let drawn = wait_for_drawing(self.ring, until);
        if waits {
            *draw_wait =
                if drawn.is_some() { DRAW_WAIT_MAX } else { (*draw_wait / 2).max(DRAW_WAIT_MIN) };
        }
        let before = drawn.unwrap_or_else(|| self.ring.begin());
        let framebuffer = self.framebuffer;
        self.encode_job.snapshot.fill(&job.region, |rect, dst, stride| match &job.view {
            None => framebuffer.read_rect(rect, dst, stride),
            Some(view) => {
                resampler.resample((&view.x, &view.y), rect, dst, stride, |rect, dst, stride| {
                    framebuffer.read_rect(rect, dst, stride);
                })
            }
        });
        // Loaded after the pixels were read: they may contain all operations that it counts.
        Ok(Capture { begin_before: Some(before), tag: self.ring.begin() })
    }

    fn plan(&mut self, job: &Job) -> Plan<'_> {
        if port_frame(job).is_some() {
            return Plan::default();
        }
        let Turn { renderer, cache, encode_job, now, .. } = self;
        let Renderer { shadow, hints, streams, video_areas, reported_areas, .. } = &mut **renderer;
        let mut retained = 0;
        if let Some(RetainedHashes { key, tiles }) = &job.retained {
            let region = confirm_retained(&encode_job.snapshot, shadow, key, tiles);
            if !region.is_empty() {
                retained = region.area();
                encode_job.planned.push(Planned::Shift { region, dx: 0, dy: 0 });
            }
        }
        hints.clear();
        hints.extend(job.parts.iter().map(hint));
        let hints = Hints { shown: &job.verify, parts: hints };
        let quality = job.hints.quality;
        encode_job.settings = packing::settings(quality, job.hints.frames);
        // Unchanged lossy pixels of a video are left until it rests, as with photographs.
        let lossy_frames = job.hints.frames.is_some();
        let may_be_lossy = quality.lossy.is_some() || job.video.is_some();
        let lossy = if may_be_lossy { Lossy::Photographs } else { Lossy::Never };
        // Pixels of a video do not recur: they are not cached.
        let mut cache = cache.as_deref_mut().filter(|_| !job.hints.video);
        if let Some(cache) = &mut cache {
            cache.begin(job.id.0);
        }
        let mut video_mask = job.video.as_ref().and_then(|frame| streams.video_mask(frame));
        if let (Some(mask), Some(frame)) = (&mut video_mask, &job.video) {
            mask.set_takes_text(frame.takes_text);
        }
        let settings = PlanSettings {
            lossy,
            cache,
            now: *now,
            video: video_mask,
            frames: &job.frames,
            lossy_frames,
        };
        let EncodeJob { snapshot, planned, .. } = &mut **encode_job;
        let verdict = plan_with(snapshot, shadow, &hints, settings, planned);
        split_pieces(planned, snapshot, SLICE_PIXELS.min(job.hints.piece_area));
        let areas = shadow.video_areas();
        if video_areas != areas {
            debug!("video areas: {areas:?}");
            video_areas.clear();
            video_areas.extend_from_slice(areas);
        }
        // Each report is a frame of the areas that the job's region overlaps.
        reported_areas.clear();
        reported_areas.extend(areas.iter().filter(|area| job.region.overlaps_rect(area)));
        let mut plan = Plan {
            retained,
            confirmed: verdict.confirmed,
            refuted: verdict.refuted,
            video_areas: Some(reported_areas),
            fully_changed: shadow.fully_changed(),
            moving: (!job.frames.is_empty()).then(|| shadow.moving()),
            moving_text: None,
            frame_lost: false,
        };
        if let Some(frame) = &job.video {
            plan.moving_text = streams.video_mask(frame).map(|mask| mask.moving_text());
            match streams.take_area(frame, shadow) {
                Ok(frame) => encode_job.frame = frame,
                Err(FrameReplaced) => plan.frame_lost = true,
            }
        }
        plan
    }
}

impl Turn<'_> {
    /// Reads the newest XVideo frame instead of pixels.
    fn read_video_frame(&mut self, job: &Job, frame: &VideoFrame) -> Result<Capture, Unavailable> {
        let Renderer { shadow, streams, resampler, .. } = &mut *self.renderer;
        if let Some(shown) = &job.right_eye {
            let plain = &mut self.encode_job.plain;
            self.encode_job.frame = streams
                .read_right_eye((frame, shown), (job.view.as_ref(), resampler), self.ring, plain)
                .map_err(|FrameReplaced| Unavailable)?;
            return Ok(Capture { begin_before: None, tag: self.ring.begin() });
        }
        // It is unknown which frame the framebuffer holds by now: the next drawing there is sent.
        shadow.mark_stale(&job.region);
        // An unscaled view of a part shows everything translated; of a scaled one only the crop is
        // checked.
        let place = match &job.view {
            None => Some(frame.place),
            Some(view) => {
                view.is_whole().then(|| frame.place.translate(view.part().x1, view.part().y1))
            }
        };
        // The next frame replaces a torn one: it is read again only once.
        let is_first = !std::mem::replace(&mut self.has_read_frame, true);
        let begin_before = is_first.then(|| self.ring.begin());
        if let Some(torn) = self.encode_job.frame.take() {
            streams.give_back(torn);
        }
        let plain = &mut self.encode_job.plain;
        plain.clear();
        self.encode_job.frame = streams
            .read_frame(frame, &job.region, self.ring, place, plain)
            .map_err(|FrameReplaced| Unavailable)?;
        Ok(Capture { begin_before, tag: self.ring.begin() })
    }
}

/// The frame of XVideo that the job shows, if its samples are read instead of pixels.
fn port_frame(job: &Job) -> Option<VideoFrame> {
    job.video.filter(|frame| frame.origin != VideoOrigin::Area)
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
    planned: PlannedJob,
    encode_job: &EncodeJob,
    samples: u64,
    commands: &Commands,
    took: Duration,
) {
    let (pixels, took) = (encode_job.pixels() + samples, took.as_micros() as Micros);
    let time = Some(EncodeTime { pixels, took });
    core.complete(planned, JobResult::Encoded { commands, time });
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
