//! The loop that defeats a bitmap cache (Wong and Seltzer 2000, figures 6 and 7): animations of 25
//! to 100 frames. The first round must be sent; the cost of later rounds shows whether a cache
//! holds the loop. An LRU cache that is too small by one frame never hits. Knows `thinc-bench app
//! animation`; never which peer shows it.

use std::time::{Duration, Instant};

use super::{Effort, Skip, Workload, own};
use crate::Error;
use crate::apps::animation::KEY_PLAY;
use crate::net::testbed::Direction;
use crate::observe::barcode;
use crate::observe::frames::FrameWatch;
use crate::observe::picture::Rect;
use crate::process::interrupted;
use crate::results::{Form, Measure, quantity};
use crate::stage::{Spent, Stage};

/// The workload.
pub struct Animation;

/// The paper's banner, pixels.
const BANNER: (u32, u32) = (468, 60);
/// The paper's 20 frames a second.
const PERIOD: Duration = Duration::from_millis(50);
/// Slow enough that no system drops a frame.
const PERIOD_SLOW: Duration = Duration::from_millis(250);
/// Longest wait for the last frame of a loop.
const REST_LIMIT: Duration = Duration::from_secs(60);

impl Workload for Animation {
    fn name(&self) -> &str {
        "animation"
    }

    fn about(&self) -> &'static str {
        "loops of 25 to 100 distinct pictures: does a cache hold them? (Wong and Seltzer 2000)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        let Plan { loops, rounds, period } = Plan::new(form, effort);
        loops
            .iter()
            .map(|&frames| {
                2.5 + f64::from(rounds) * (f64::from(frames) * period.as_secs_f64() + 0.9)
            })
            .sum()
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (width, height) = (BANNER.0, BANNER.1 + 2 * barcode::HEIGHT);
        if stage.view.width < width || stage.view.height < height {
            return Err(Skip(format!("{width}x{height} of the session must be seen")).into());
        }
        let area = Rect { x: stage.view.x, y: stage.view.y, width, height };
        let Plan { loops, rounds, period } = Plan::new(form, effort);
        let mut measures = vec![];
        for &frames in loops {
            let (count, milliseconds) = (frames.to_string(), period.as_millis().to_string());
            let words = ["animation", "--frames", &count, "--period-ms", &milliseconds];
            let _animation = own::show(stage, "animation", &words)?;
            let mut played = vec![];
            for _ in 0..rounds {
                played.push(play(stage, area, frames, period)?);
            }
            measures.extend(figures(frames, &played)?);
        }
        Ok(measures)
    }
}

/// The loops, and how often and how fast they are played.
struct Plan {
    loops: &'static [u32],
    rounds: u32,
    period: Duration,
}

impl Plan {
    fn new(form: Form, effort: Effort) -> Plan {
        let all: &[u32] = &[25, 50, 75, 100];
        match (form, effort) {
            (Form::SlowMotion, Effort::Smoke | Effort::Quick) => {
                Plan { loops: &[25], rounds: 2, period: PERIOD_SLOW }
            }
            (Form::SlowMotion, Effort::Full) => Plan { loops: all, rounds: 2, period: PERIOD_SLOW },
            (Form::Normal, Effort::Smoke) => Plan { loops: &[25], rounds: 2, period: PERIOD },
            (Form::Normal, Effort::Quick) => Plan { loops: all, rounds: 3, period: PERIOD },
            (Form::Normal, Effort::Full) => Plan { loops: all, rounds: 10, period: PERIOD },
        }
    }
}

/// One round of a loop.
pub(crate) struct Round {
    pub(crate) spent: Spent,
    /// Frames that the client's screen showed whole.
    pub(crate) seen: usize,
    /// Time from the key to the last of them.
    pub(crate) seconds: f64,
}

/// Plays a loop of `thinc-bench app animation` once, and watches it in `area` until its last
/// picture is shown.
pub(crate) fn play(
    stage: &mut Stage,
    area: Rect,
    frames: u32,
    period: Duration,
) -> Result<Round, Error> {
    stage.settle()?;
    let watch = FrameWatch::start(&stage.site.screen, area)?;
    let meter = stage.meter()?;
    let began = stage.input.key(KEY_PLAY)?;
    let end = began + period * (frames - 1);
    loop {
        if interrupted() {
            return Err("interrupted".into());
        }
        let now = Instant::now();
        // The last picture stays, so it arrives even if others were dropped.
        let last = watch.last().filter(|&(at, number)| number == frames && at > began);
        if last.is_some_and(|(at, _)| now >= at + stage.quiet_gap()) {
            break;
        }
        if now > end + REST_LIMIT {
            let seconds = REST_LIMIT.as_secs();
            return Err(format!(
                "picture {frames} of {frames} is not on the client's screen after {seconds} s"
            )
            .into());
        }
        let next =
            last.map_or(end.max(now + Duration::from_millis(20)), |(at, _)| at + stage.quiet_gap());
        std::thread::sleep(next.saturating_duration_since(now));
    }
    let spent = meter.read(stage)?;
    let found = watch.finish()?;
    let seen: Vec<Instant> =
        found.seen.iter().map(|&(at, _)| at).filter(|&at| at > began).collect();
    let last = seen.last().copied().unwrap_or(began);
    Ok(Round { spent, seen: seen.len(), seconds: last.duration_since(began).as_secs_f64() })
}

/// The measures of one loop: the first round separate from the later ones.
fn figures(frames: u32, rounds: &[Round]) -> Result<Vec<Measure>, Error> {
    let (first, later) = rounds
        .split_first()
        .filter(|(_, later)| !later.is_empty())
        .ok_or("a loop needs two rounds")?;
    let bytes =
        |round: &Round| round.spent.traffic.bytes(Direction::Down) as f64 / f64::from(frames);
    let part = format!("{frames} frames");
    let share = |round: &Round| round.seen as f64 / f64::from(frames);
    let rate = |round: &Round| round.seen as f64 / round.seconds.max(1e-3);
    let server = later.iter().map(|round| round.spent.cpu_server_ms);
    let client = later.iter().map(|round| round.spent.cpu_client_ms);
    let (once, again) = (bytes(first), later.iter().map(bytes).collect::<Vec<f64>>());
    // 1 if nothing was cached, near 0 if everything was; empty if nothing was sent.
    let ratios: Vec<f64> = again.iter().filter(|_| once > 0.0).map(|bytes| bytes / once).collect();
    let mut measures = vec![
        Measure::lower("frame_bytes_first", &part, "bytes", [once]),
        Measure::lower("frame_bytes_later", &part, "bytes", again),
        Measure::higher("frames_seen_share", &part, "share", rounds.iter().map(share)),
        Measure::higher(quantity::FRAME_RATE, &part, "fps", rounds.iter().map(rate)),
        Measure::lower(quantity::CPU_SERVER_MS, &part, "ms", server),
        Measure::lower(quantity::CPU_CLIENT_MS, &part, "ms", client),
    ];
    if !ratios.is_empty() {
        measures.push(Measure::lower("later_to_first", &part, "share", ratios));
    }
    Ok(measures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::tests::spent;

    fn round(bytes: u32, seen: usize) -> Round {
        Round { spent: spent(bytes, 5.0), seen, seconds: 1.25 }
    }

    #[test]
    fn the_first_round_is_told_from_the_later_ones() -> Result<(), Error> {
        let found = figures(25, &[round(50_000, 25), round(500, 25), round(1000, 20)])?;
        let of = |name: &str| {
            found.iter().find(|m| m.quantity == name).map(|m| m.samples.clone()).unwrap_or_default()
        };
        assert_eq!(of("frame_bytes_first"), [2000.0]);
        assert_eq!(of("frame_bytes_later"), [20.0, 40.0]);
        assert_eq!(of("later_to_first"), [0.01, 0.02]);
        assert_eq!(of("frames_seen_share"), [1.0, 1.0, 0.8]);
        assert_eq!(of("frame_rate"), [20.0, 20.0, 16.0]);
        assert!(figures(25, &[round(1, 25)]).is_err(), "one round says nothing about caches");
        Ok(())
    }
}
