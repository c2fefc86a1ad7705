//! Lai and Nieh's latency benchmark (2002, section 2.3.1): a letter, a scroll, a fill, a red bitmap and an image.
//! Slow-motion: each alone. Normal: one after the other at the pace of a person's keys, each told by its own area.
//! Knows the keys of `thinc-bench app latency`; never which peer shows it.

use std::time::{Duration, Instant};

use super::{Effort, Workload, own};
use crate::Error;
use crate::apps::latency::{AREA, Operation};
use crate::observe::picture::Rect;
use crate::results::{Better, Form, Measure, quantity};
use crate::stage::{Spent, Stage, measures};

/// The workload.
pub struct Latency;

/// 200 ms: from a key to the next of a person who types 60 words a minute.
const PACE: Duration = Duration::from_millis(200);
/// Longest until the five are drawn: an image on the slowest of the papers' links, with loss.
const REST_LIMIT: Duration = Duration::from_secs(60);

impl Workload for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn about(&self) -> &'static str {
        "letter, scroll, fill, red bitmap and image, each by a key (Lai and Nieh 2002)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn needs(&self) -> &'static [&'static str] {
        &[]
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        let operations = (repetitions(effort) + 1) * Operation::ALL.len();
        match form {
            Form::SlowMotion => 2.0 + operations as f64 * 0.7,
            Form::Normal => 2.0 + operations as f64 * 0.35,
        }
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let _application = own::show(stage, "latency", &["latency"])?;
        match form {
            Form::SlowMotion => run_slowly(stage, repetitions(effort)),
            Form::Normal => run_at_pace(stage, repetitions(effort)),
        }
    }
}

fn repetitions(effort: Effort) -> usize {
    match effort {
        Effort::Smoke => 2,
        Effort::Quick => 10,
        Effort::Full => 40,
    }
}

fn run_slowly(stage: &mut Stage, repetitions: usize) -> Result<Vec<Measure>, Error> {
    let mut found = Operation::ALL.map(|_| Vec::new());
    // In turns, so that a disturbance does not fall on one kind alone; the first round, in which every glyph and
    // buffer is new, does not count.
    for round in 0..=repetitions {
        for (operation, found) in Operation::ALL.iter().zip(&mut found) {
            let done = stage.operation(|input| input.key(operation.key()));
            let done = done.map_err(|error| format!("{} {round}: {error}", operation.name()))?;
            if round > 0 {
                found.push(done);
            }
        }
    }
    Ok(Operation::ALL.iter().zip(&found).flat_map(|(operation, found)| measures(operation.name(), found)).collect())
}

/// Where an operation shows on the client's screen.
fn area(stage: &Stage, operation: Operation) -> Rect {
    let (x, y) = operation.place();
    let (x, y) = (stage.view.x + i32::from(x), stage.view.y + i32::from(y));
    Rect { x, y, width: AREA.0.into(), height: AREA.1.into() }
}

fn run_at_pace(stage: &mut Stage, repetitions: usize) -> Result<Vec<Measure>, Error> {
    let (mut photon, mut visible) = (Operation::ALL.map(|_| vec![]), Operation::ALL.map(|_| vec![]));
    let mut costs = vec![];
    for round in 0..=repetitions {
        stage.settle()?;
        let watch = stage.site.screen.watch()?;
        let meter = stage.meter()?;
        let began = Instant::now();
        let mut keys = vec![];
        for (i, operation) in (0..).zip(Operation::ALL) {
            std::thread::sleep((began + PACE * i).saturating_duration_since(Instant::now()));
            keys.push((operation, stage.input.key(operation.key())?));
        }
        stage.wait_quiet(&watch, &stage.site.bed.mark(), REST_LIMIT)?;
        let spent = meter.read(stage)?;
        let changes = watch.finish()?;
        if round == 0 {
            continue;
        }
        costs.push(spent);
        for (at, (operation, key)) in keys.into_iter().enumerate() {
            let seen = changes.within(area(stage, operation));
            let ms = |at: Instant| at.saturating_duration_since(key).as_secs_f64() * 1e3;
            let first = seen.first().ok_or_else(|| format!("{} {round}: nothing changed", operation.name()))?;
            photon[at].push(ms(first));
            visible[at].extend(seen.visible().map(ms));
        }
    }
    let mut measures = vec![];
    for (at, operation) in Operation::ALL.iter().enumerate() {
        for (quantity, samples) in [(quantity::PHOTON_MS, &photon[at]), (quantity::VISIBLE_MS, &visible[at])] {
            measures.push(Measure {
                quantity: quantity.into(),
                part: operation.name().into(),
                unit: "ms".into(),
                better: Better::Lower,
                samples: samples.clone(),
            });
        }
    }
    measures.extend(cost_measures("all five", &costs));
    Ok(measures)
}

/// Bytes, packets and CPU of stretches of time, under one part's name.
pub(super) fn cost_measures(part: &str, costs: &[Spent]) -> Vec<Measure> {
    use crate::net::testbed::Direction::{Down, Up};
    let measure = |quantity: &str, unit: &str, value: &dyn Fn(&Spent) -> f64| Measure {
        quantity: quantity.into(),
        part: part.into(),
        unit: unit.into(),
        better: Better::Lower,
        samples: costs.iter().map(value).collect(),
    };
    vec![
        measure(quantity::BYTES_DOWN, "bytes", &|spent| spent.traffic.bytes(Down) as f64),
        measure(quantity::BYTES_UP, "bytes", &|spent| spent.traffic.bytes(Up) as f64),
        measure(quantity::PACKETS_DOWN, "packets", &|spent| spent.traffic.packets(Down) as f64),
        measure(quantity::PACKETS_UP, "packets", &|spent| spent.traffic.packets(Up) as f64),
        measure(quantity::CPU_SERVER_MS, "ms", &|spent| spent.cpu_server_ms),
        measure(quantity::CPU_APPS_MS, "ms", &|spent| spent.cpu_apps_ms),
        measure(quantity::CPU_CLIENT_MS, "ms", &|spent| spent.cpu_client_ms),
    ]
}
