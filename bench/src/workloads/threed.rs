//! A GLXSpheres-like image workload (VirtualGL study 2008): many moving pixels at 1240x900.
//! Slow-motion: frame by frame, each after an idle screen. Normal: as fast as the session's X
//! server takes frames. Knows the keys and bar codes of `thinc-bench app spheres`; never which peer
//! shows it.

use std::time::{Duration, Instant};

use super::{Effort, Skip, Workload, own};
use crate::Error;
use crate::apps::spheres::{KEY_NEXT, KEY_START};
use crate::net::testbed::Direction;
use crate::observe::barcode;
use crate::observe::frames::{FrameWatch, Frames};
use crate::observe::picture::Rect;
use crate::process::{Running, interrupted};
use crate::results::{Better, Form, Measure, quantity};
use crate::stage::{Spent, Stage, cost_measures, measures};

/// The workload.
pub struct ThreeD;

/// The study's window, pixels.
const WINDOW: (u32, u32) = (1240, 900);
/// Smallest window of this workload: a quarter of the study's pixels.
const WINDOW_MIN: (u32, u32) = (620, 450);
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
        let (width, height) = (WINDOW.0.min(stage.view.width), WINDOW.1.min(stage.view.height));
        if width < WINDOW_MIN.0 || height < WINDOW_MIN.1 {
            let wanted = format!(
                "wants {}x{} or at least {}x{}",
                WINDOW.0, WINDOW.1, WINDOW_MIN.0, WINDOW_MIN.1
            );
            return Err(
                Skip(format!("3d {wanted}; {width}x{height} is seen of the session")).into()
            );
        }
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

fn frames(effort: Effort) -> usize {
    match effort {
        Effort::Smoke => 2,
        Effort::Quick => 10,
        Effort::Full => 40,
    }
}

/// The study measured for twice 30 s.
fn run_seconds(effort: Effort) -> u64 {
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
    let Figures { quantities } = Figures::new(&seen, began, drawn, &spent, cores, rate_bps)?;
    let mut measures: Vec<Measure> = quantities
        .into_iter()
        .map(|(name, unit, better, value)| Measure::new(name, part, unit, better, [value]))
        .collect();
    measures.extend(cost_measures(part, &[spent]));
    Ok(measures)
}

/// The number of the frame that the session shows.
fn shown_number(stage: &Stage, area: Rect) -> Result<u32, Error> {
    let picture = stage.server_picture()?;
    let top = Rect { x: 0, y: 0, width: area.width, height: barcode::HEIGHT };
    barcode::read(&picture, top).ok_or_else(|| "the session shows no frame with a bar code".into())
}

/// Waits until the application has stopped drawing and its last frame has had time to arrive.
fn wait_for_end(stage: &Stage, watch: &FrameWatch, end: Instant) -> Result<(), Error> {
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

type Figure = (&'static str, &'static str, Better, f64);

/// The study's figures (section 4 of it) of one run.
struct Figures {
    quantities: Vec<Figure>,
}

impl Figures {
    /// `drawn` frames were drawn; `spent` is what it cost until the last was shown.
    ///
    /// - frame rate: whole frames that the client's screen showed, a second, from the first to the
    ///   last of them;
    /// - drawn_rate: frames that the session's X server took, over the same time;
    /// - spoiled_share: of the drawn frames, those that the user never saw whole;
    /// - frame_bytes: bytes to the viewer for each frame seen ("frame size");
    /// - network_limited_rate: rate of the link over the frame size; nothing on a link without
    ///   limit;
    /// - cpu_limited_rate: frame rate over the share of this machine's processors that the server's
    ///   side (display system and application) used, as the study defines it; the viewer runs on
    ///   the same machine and is not counted;
    /// - cpu_frame_ms: CPU of the display system for each frame seen ("encoding time").
    fn new(
        seen: &Frames,
        began: Instant,
        drawn: u32,
        spent: &Spent,
        cores: usize,
        rate_bps: Option<u64>,
    ) -> Result<Figures, Error> {
        let whole: Vec<Instant> =
            seen.seen.iter().map(|&(at, _)| at).filter(|&at| at >= began).collect();
        let (Some(&first), Some(&last)) = (whole.first(), whole.last()) else {
            return Err(format!("{drawn} frames were drawn and none was seen whole").into());
        };
        if whole.len() < 2 || drawn == 0 {
            return Err(format!(
                "{drawn} frames were drawn and {} seen: too few for a rate",
                whole.len()
            )
            .into());
        }
        let count = whole.len() as f64;
        let seconds = last.duration_since(first).as_secs_f64();
        let rate = (count - 1.0) / seconds;
        let frame_bytes = spent.traffic.bytes(Direction::Down) as f64 / count;
        let used = (spent.cpu_server_ms + spent.cpu_apps_ms) / 1e3 / (seconds * cores as f64);
        let mut quantities = vec![
            (quantity::FRAME_RATE, "fps", Better::Higher, rate),
            ("drawn_rate", "fps", Better::Neither, f64::from(drawn) / seconds),
            ("spoiled_share", "share", Better::Lower, 1.0 - (count / f64::from(drawn)).min(1.0)),
            ("torn_share", "share", Better::Lower, seen.torn as f64 / f64::from(drawn)),
            ("frame_bytes", "bytes", Better::Lower, frame_bytes),
            ("cpu_frame_ms", "ms", Better::Lower, spent.cpu_server_ms / count),
        ];
        if used > 0.0 {
            quantities.push(("cpu_limited_rate", "fps", Better::Higher, rate / used));
        }
        if let Some(bps) = rate_bps.filter(|_| frame_bytes > 0.0) {
            quantities.push((
                "network_limited_rate",
                "fps",
                Better::Higher,
                bps as f64 / 8.0 / frame_bytes,
            ));
        }
        Ok(Figures { quantities })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::testbed::{Packet, Traffic};

    fn spent(bytes: u32, server_ms: f64) -> Spent {
        let packet =
            Packet { at: Instant::now(), direction: Direction::Down, bytes, payload: bytes };
        let traffic = Traffic { packets: vec![packet], ..Traffic::default() };
        Spent {
            seconds: 1.0,
            traffic,
            cpu_server_ms: server_ms,
            cpu_apps_ms: 500.0,
            cpu_client_ms: 100.0,
        }
    }

    #[test]
    fn figures_are_the_studys() -> Result<(), Error> {
        let began = Instant::now();
        // 21 frames in 1 s, of 42 drawn; one of an earlier run is not counted.
        let mut seen = vec![(began - Duration::from_secs(1), 0)];
        seen.extend(
            (0..21).map(|i| (began + Duration::from_millis(100 + 50 * u64::from(i)), i * 2 + 1)),
        );
        let frames = Frames { seen, torn: 2, ..Frames::default() };
        let figures =
            Figures::new(&frames, began, 42, &spent(2_100_000, 1500.0), 4, Some(100_000_000))?;
        let of = |name: &str| {
            figures.quantities.iter().find(|figure| figure.0 == name).map(|figure| figure.3)
        };
        let near = |name: &str, value: f64| {
            let found = of(name).unwrap_or(f64::NAN);
            assert!(
                (found - value).abs() < 1e-6 * value.abs().max(1.0),
                "{name}: {found}, not {value}"
            );
        };
        near("frame_rate", 20.0);
        near("drawn_rate", 42.0);
        near("spoiled_share", 0.5);
        near("torn_share", 2.0 / 42.0);
        near("frame_bytes", 100_000.0);
        near("network_limited_rate", 125.0);
        // 2 s of CPU in 1 s on four processors is one half.
        near("cpu_limited_rate", 40.0);
        near("cpu_frame_ms", 1500.0 / 21.0);
        Ok(())
    }

    #[test]
    fn nothing_seen_is_an_error_and_no_rate() {
        let none = Frames::default();
        assert!(Figures::new(&none, Instant::now(), 10, &spent(1, 1.0), 2, None).is_err());
    }
}
