//! A GLXSpheres-like image workload (VirtualGL study 2008): many moving pixels at 1240x900.
//! Slow-motion: frame by frame, each after an idle screen. Normal: as fast as the session's X
//! server takes frames. Knows the keys and bar codes of `thinc-bench app spheres`; never which peer
//! shows it.

use std::time::{Duration, Instant};

use super::frame_figures::{self, Run};
use super::{Effort, Skip, Workload, own};
use crate::Error;
use crate::apps::spheres::{KEY_NEXT, KEY_START};
use crate::observe::barcode;
use crate::observe::frames::FrameWatch;
use crate::observe::picture::Rect;
use crate::process::{Running, interrupted};
use crate::results::{Form, Measure};
use crate::stage::{Stage, cost_measures, measures};

/// The workload.
pub struct ThreeD;

/// The study's window, pixels.
pub(super) const WINDOW: (u32, u32) = (1240, 900);
/// Smallest window of this workload: a quarter of the study's pixels.
pub(super) const WINDOW_MIN: (u32, u32) = (620, 450);
/// Longest from the end of the run to the last frame on the client's screen.
const REST_LIMIT: Duration = Duration::from_secs(60);

impl Workload for ThreeD {
    fn name(&self) -> &str {
        "3d"
    }

    fn about(&self) -> &'static str {
        "moving shaded spheres at 1240x900, as GLXSpheres draws them (VirtualGL study 2008)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        match form {
            Form::SlowMotion => 3.0 + frames(effort) as f64 * 0.8,
            Form::Normal => 4.0 + run_seconds(effort) as f64,
        }
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (width, height) = window(self.name(), stage)?;
        let seconds = run_seconds(effort);
        let (w, h, s) = (width.to_string(), height.to_string(), seconds.to_string());
        let mut spheres = own::show(
            stage,
            "spheres",
            &["spheres", "--width", &w, "--height", &h, "--seconds", &s],
        )?;
        // The size of the window, so that a smaller one is not mistaken for the study's.
        let part = format!("{width}x{height}");
        match form {
            Form::SlowMotion => {
                let mut found = vec![];
                for number in 0..=frames(effort) {
                    let done = stage.operation(|input| input.key(KEY_NEXT))?;
                    // The first frame is not counted: buffers grow in it.
                    if number > 0 {
                        found.push(done);
                    }
                }
                Ok(measures(&part, &found))
            }
            Form::Normal => {
                let area = Rect { x: stage.view.x, y: stage.view.y, width, height };
                run_at_speed(stage, &mut spheres, &part, area, Duration::from_secs(seconds))
            }
        }
    }
}

/// The study's window, or a smaller one on a smaller screen.
pub(super) fn window(name: &str, stage: &Stage) -> Result<(u32, u32), Error> {
    let (width, height) = (WINDOW.0.min(stage.view.width), WINDOW.1.min(stage.view.height));
    if width < WINDOW_MIN.0 || height < WINDOW_MIN.1 {
        let ((w, h), (least_w, least_h)) = (WINDOW, WINDOW_MIN);
        let wanted = format!("wants {w}x{h} or at least {least_w}x{least_h}");
        return Err(
            Skip(format!("{name} {wanted}; {width}x{height} is seen of the session")).into()
        );
    }
    Ok((width, height))
}

pub(super) fn frames(effort: Effort) -> usize {
    match effort {
        Effort::Smoke => 2,
        Effort::Quick => 10,
        Effort::Full => 40,
    }
}

/// The study measured for twice 30 s.
pub(super) fn run_seconds(effort: Effort) -> u64 {
    match effort {
        Effort::Smoke => 3,
        Effort::Quick => 10,
        Effort::Full => 30,
    }
}

fn run_at_speed(
    stage: &mut Stage,
    spheres: &mut Running,
    part: &str,
    area: Rect,
    length: Duration,
) -> Result<Vec<Measure>, Error> {
    let first = shown_number(stage, area)?;
    let watch = FrameWatch::start(&stage.site.screen, area)?;
    let meter = stage.meter()?;
    let began = stage.input.key(KEY_START)?;
    wait_for_end(stage, &watch, began + length)?;
    let spent = meter.read(stage)?;
    let seen = watch.finish()?;
    own::check(stage, "spheres", spheres)?;
    let drawn = shown_number(stage, area)?.wrapping_sub(first);
    let cores = std::thread::available_parallelism()?.get();
    let rate_bps = stage.site.bed.link().rate_bps;
    let run = Run { began, drawn, spent: &spent, x_ms: None, session_ms: None };
    let mut measures = frame_figures::measures(part, &seen, &run, cores, rate_bps)?;
    measures.extend(cost_measures(part, &[spent]));
    Ok(measures)
}

/// The number of the frame that the session shows.
pub(super) fn shown_number(stage: &Stage, area: Rect) -> Result<u32, Error> {
    let picture = stage.server_picture()?;
    let top = Rect { x: 0, y: 0, width: area.width, height: barcode::HEIGHT };
    barcode::read(&picture, top).ok_or_else(|| "the session shows no frame with a bar code".into())
}

/// Waits until the application has stopped drawing and its last frame has had time to arrive.
pub(super) fn wait_for_end(stage: &Stage, watch: &FrameWatch, end: Instant) -> Result<(), Error> {
    loop {
        if interrupted() {
            return Err("interrupted".into());
        }
        let now = Instant::now();
        let last = watch.last().map_or(end, |(at, _)| at.max(end));
        if now >= last + stage.quiet_gap() {
            return Ok(());
        }
        if now > end + REST_LIMIT {
            return Err(format!(
                "frames still come {} s after the last was drawn",
                REST_LIMIT.as_secs()
            )
            .into());
        }
        std::thread::sleep((last + stage.quiet_gap()).saturating_duration_since(now));
    }
}
