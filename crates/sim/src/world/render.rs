//! Under world.rs: one job's pixels, read while X draws, and planned and encoded by a pipeline.
//! From world.rs through session-core's order of a job's steps, to pipeline.rs. Knows the X server
//! and one viewer; never the session.

use thinc_pixels::HintStats;
use thinc_protocol::commands::Commands;
use thinc_region::{Region, Size};
use thinc_session_core::{
    Capture, CopyCommand, Job, Plan, Render, Unavailable, VideoFrame, VideoOrigin,
};

use super::scaled::{self, Plane};
use crate::breakage::Breakage;
use crate::op::{Op, draw};
use crate::pipeline::Pipeline;
use crate::random::Random;
use crate::surface::pixels;
use crate::x_server::XServer;

/// Reads of one job: the second is kept, torn or not.
const READS_MAX: u32 = 2;

/// The pixels that were read for a job.
#[derive(Default)]
pub(super) struct Pixels {
    /// At their positions on the screen.
    screen: Vec<u32>,
    /// At their positions in a viewer's view.
    resampled: Vec<u32>,
}

/// One job being rendered.
pub(super) struct Turn<'a, P> {
    pub(super) x: &'a mut XServer,
    pub(super) random: &'a mut Random,
    pub(super) pipeline: &'a mut P,
    pub(super) pixels: &'a mut Pixels,
    pub(super) breakage: Option<Breakage>,
    /// Generation of the framebuffer that the session has mapped, and its size.
    pub(super) generation: u32,
    pub(super) size: Size,
    pub(super) reading: Reading<'a>,
    pub(super) rendered: Rendered,
}

/// What happens while a job's pixels are read.
#[derive(Clone, Copy)]
pub(super) enum Reading<'a> {
    /// X draws so many pixels in each read, and carries out an operation in the middle of the
    /// first.
    While { steps: usize, meanwhile: Option<&'a Op> },
    /// They are unavailable.
    Fails,
}

/// What came of a job.
#[derive(Default)]
pub(super) struct Rendered {
    reads: u32,
    /// The tag of the last read; 0 if nothing was to be read.
    pub(super) tag: u64,
    /// The samples of a video frame.
    samples: Option<Vec<u32>>,
    /// What the plan found, and its commands.
    pub(super) verdict: HintStats,
    pub(super) commands: Commands,
}

impl<P: Pipeline> Render for Turn<'_, P> {
    fn reset(&mut self, size: Size) {
        self.pipeline.reset_shadow(size);
    }

    fn forget(&mut self, region: &Region) {
        if self.breakage != Some(Breakage::ShadowIgnoresLoss) {
            self.pipeline.mark_stale(region);
        }
    }

    fn copy(&mut self, copy: &CopyCommand) {
        if self.breakage != Some(Breakage::ShadowIgnoresCopies) {
            self.pipeline.copy_shadow(copy);
        }
    }

    fn read(&mut self, job: &Job) -> Result<Capture, Unavailable> {
        let Reading::While { steps, meanwhile } = self.reading else { return Err(Unavailable) };
        let picture = job.view.map_or(self.size, |by| by.size());
        self.pixels.screen.resize(self.size.area() as usize, 0);
        self.pixels.resampled.resize(picture.area() as usize, 0);
        if job.region.is_empty() {
            return Ok(Capture { begin_before: None, tag: 0 });
        }
        self.rendered.reads += 1;
        let before = self.x.begin();
        let in_first = meanwhile.filter(|_| self.rendered.reads == 1);
        self.read_pixels(job, steps / 2, in_first);
        self.rendered.samples = job.video.and_then(|frame| self.samples(job, &frame));
        // After the last pixel was read, and before `begin` is loaded: pixels that X writes here
        // are not in the copy but count as if they were, which is safe. The opposite is not.
        self.x.step(steps - steps / 2);
        let loads_first = self.breakage == Some(Breakage::TagIsLoadedFirst);
        let tag = if loads_first { before } else { self.x.begin() };
        self.rendered.tag = tag;
        let is_last = self.rendered.reads == READS_MAX;
        Ok(Capture { begin_before: (!is_last).then_some(before), tag })
    }

    fn plan(&mut self, job: &Job) -> Plan<'_> {
        let read = if job.view.is_some() { &self.pixels.resampled } else { &self.pixels.screen };
        let Rendered { samples, verdict, commands, .. } = &mut self.rendered;
        let pipeline = &mut *self.pipeline;
        let mut plan = Plan::default();
        match (&job.video, samples) {
            (None, _) => {
                *verdict = pipeline.encode(job, read, commands);
                plan.retained = pipeline.take_retained();
            }
            (Some(frame), Some(samples)) => {
                pipeline.encode_frame(job, frame, samples, read, commands)
            }
            // The port has another frame by now, or none.
            (Some(_), None) => plan.frame_lost = true,
        }
        Plan { confirmed: verdict.confirmed, refuted: verdict.refuted, ..plan }
    }
}

impl<P> Turn<'_, P> {
    /// Copies the pixels of the job's region out. In the middle of a rectangle X draws; if no
    /// operation is given, perhaps not at all.
    fn read_pixels(&mut self, job: &Job, steps: usize, meanwhile: Option<&Op>) {
        let (rects, size) = (job.region.rects(), self.size);
        let last = rects.len() as u64 + u64::from(meanwhile.is_none());
        let half = self.random.below(last) as usize;
        for (i, rect) in rects.iter().enumerate() {
            let source = job.view.map_or(*rect, |by| by.source(rect));
            for y in source.y1..source.y2 {
                if i == half && y == (source.y1 + source.y2) / 2 {
                    if let Some(op) = meanwhile {
                        draw(self.x, op);
                    }
                    self.x.step(steps);
                }
                for x in source.x1..source.x2 {
                    let place = y as usize * size.width as usize + x as usize;
                    self.pixels.screen[place] = self.x.pixel(self.generation, place);
                }
            }
            if let Some(by) = &job.view {
                let screen = Plane { pixels: &self.pixels.screen, width: size.width as usize };
                scaled::resample(by, screen, *rect, &mut self.pixels.resampled);
            }
        }
    }

    /// The samples of a job's frame, if they are available.
    fn samples(&self, job: &Job, frame: &VideoFrame) -> Option<Vec<u32>> {
        match frame.origin {
            VideoOrigin::Port(port) => {
                let (size, is_whole) = (frame.source.size, job.view.is_none_or(|by| by.is_whole()));
                let fits = |of: Size| {
                    size == of || !is_whole && size.width <= of.width && size.height <= of.height
                };
                let slot = self.x.slot(port).filter(|slot| fits(slot.source))?;
                // If the place has changed since, these pixels are not what the place will show.
                let all = slot.picture.iter().copied().cycle();
                Some(all.take(frame.place.area() as usize).collect())
            }
            VideoOrigin::RightEye(_) => None,
            VideoOrigin::Area => {
                let (read, width) = match &job.view {
                    None => (&self.pixels.screen, self.size.width),
                    Some(by) => (&self.pixels.resampled, by.size().width),
                };
                let at = |(x, y): (i32, i32)| read[y as usize * width as usize + x as usize];
                Some(pixels(&frame.place).map(at).collect())
            }
        }
    }
}
