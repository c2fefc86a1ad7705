//! Several users of OpenGL at once, each with a session, a viewer and a screen of their own, all
//! drawing as fast as they can: the frame rate of each, and what they need together (VirtualGL
//! study, section 5.20). Knows the program and the number of users; never which peer shows them.

use std::time::Duration;

use super::{Shown, figures, label};
use crate::Error;
use crate::apps::gl::{KEY_START, Mode, Options, Scene};
use crate::observe::frames::FrameWatch;
use crate::results::{Better, Form, Measure, quantity};
use crate::stage::{Spent, Stage};
use crate::workloads::frame_figures::Run;
use crate::workloads::threed::{run_seconds, wait_for_end, window};
use crate::workloads::{Effort, Workload};

/// The workload.
pub struct Users;

impl Workload for Users {
    fn name(&self) -> &str {
        "3d-users"
    }

    fn about(&self) -> &'static str {
        "several sessions at once, each with GLXSpheres' scene (VirtualGL study 2008, 5.20)"
    }

    fn seconds(&self, _form: Form, effort: Effort) -> f64 {
        let users = counts(effort).iter().map(|&users| users as f64);
        // Eight seconds to start a session, three to start the program in each.
        users.map(|users| run_seconds(effort) as f64 + 3.0 * users + 3.0).sum::<f64>()
            + counts(effort).last().map_or(0.0, |&most| most as f64 * 8.0)
    }

    fn run(&self, stage: &mut Stage, _form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let size = window(self.name(), stage)?;
        let mut others: Vec<Stage> = vec![];
        let mut measures = vec![];
        for &count in counts(effort) {
            while others.len() + 1 < count {
                let next = others.len() + 2;
                others.push(
                    stage
                        .another()
                        .map_err(|error| format!("session {next} of {count}: {error}"))?,
                );
            }
            let stages: Vec<&Stage> = std::iter::once(&*stage).chain(&others).collect();
            measures.extend(together(&stages, size, run_seconds(effort))?);
        }
        Ok(measures)
    }
}

fn counts(effort: Effort) -> &'static [usize] {
    match effort {
        Effort::Smoke => &[2],
        Effort::Quick => &[1, 2],
        Effort::Full => &[1, 2, 3, 4],
    }
}

fn together(stages: &[&Stage], size: (u32, u32), seconds: u64) -> Result<Vec<Measure>, Error> {
    let (width, height) = size;
    let options = Options {
        scene: Scene::Spheres,
        mode: Mode::Free,
        rate: None,
        width,
        height,
        seconds: Some(seconds),
    };
    let mut shown =
        stages.iter().map(|stage| Shown::start(stage, &options)).collect::<Result<Vec<_>, _>>()?;
    let watches = stages
        .iter()
        .zip(&shown)
        .map(|(stage, shown)| FrameWatch::start(&stage.site.screen, shown.area))
        .collect::<Result<Vec<_>, _>>()?;
    // The link and the accounts are shared: one meter counts what all sessions cost.
    let meter = stages[0].meter()?;
    let began =
        stages.iter().map(|stage| stage.input.key(KEY_START)).collect::<Result<Vec<_>, _>>()?;
    let length = Duration::from_secs(seconds);
    let drawn = stages
        .iter()
        .zip(&mut shown)
        .map(|(stage, shown)| shown.wait_drawn(stage, length))
        .collect::<Result<Vec<_>, _>>()?;
    let rested = std::time::Instant::now();
    for (stage, watch) in stages.iter().zip(&watches) {
        wait_for_end(stage, watch, rested)?;
    }
    let spent = meter.read(stages[0])?;
    let users = stages.len();
    let name = if users == 1 { "1 user".to_owned() } else { format!("{users} users") };
    let part = label(&name, size);
    let mut each = Vec::new();
    for (index, watch) in watches.into_iter().enumerate() {
        let seen = watch.finish()?;
        let run = Run {
            began: began[index],
            drawn: drawn[index],
            spent: &spent,
            x_ms: None,
            session_ms: None,
        };
        each.push(figures(stages[index], &part, &seen, &run)?);
    }
    let cores = std::thread::available_parallelism()?.get();
    Ok(summed(&part, &each, &spent, length, cores))
}

/// The rates of every user, and what all of them need together.
fn summed(
    part: &str,
    each: &[Vec<Measure>],
    spent: &Spent,
    length: Duration,
    cores: usize,
) -> Vec<Measure> {
    let of = |name: &str| -> Vec<f64> {
        let all = each.iter().flatten().filter(|measure| measure.quantity == name);
        all.flat_map(|measure| measure.samples.clone()).collect()
    };
    let down = spent.traffic.bytes(crate::net::testbed::Direction::Down) as f64;
    let seconds = length.as_secs_f64();
    let used = (spent.cpu_server_ms + spent.cpu_apps_ms) / 1e3 / (seconds * cores as f64);
    vec![
        Measure::higher(quantity::FRAME_RATE, part, "fps", of(quantity::FRAME_RATE)),
        Measure::lower("spoiled_share", part, "share", of("spoiled_share")),
        Measure::new("mbit_s", part, "Mbit/s", Better::Neither, [down * 8.0 / seconds / 1e6]),
        Measure::new("server_cpu_share", part, "share", Better::Neither, [used]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_counts_and_the_link_is_shared() {
        let of = |rate: f64, spoiled: f64| {
            vec![
                Measure::higher(quantity::FRAME_RATE, "2 users", "fps", [rate]),
                Measure::lower("spoiled_share", "2 users", "share", [spoiled]),
            ]
        };
        // 12.5 MB in 10 s are 10 Mbit/s; 1001 ms of CPU in 10 s of two processors are a twentieth.
        let spent = crate::stage::tests::spent(12_500_000, 1000.0);
        let found =
            summed("2 users", &[of(20.0, 0.5), of(24.0, 0.4)], &spent, Duration::from_secs(10), 2);
        let samples: Vec<&[f64]> = found.iter().map(|measure| &*measure.samples).collect();
        assert_eq!(samples[0], [20.0, 24.0]);
        assert_eq!(samples[1], [0.5, 0.4]);
        assert!((samples[2][0] - 10.0).abs() < 1e-9);
        assert!((samples[3][0] - 0.05005).abs() < 1e-9);
    }
}
