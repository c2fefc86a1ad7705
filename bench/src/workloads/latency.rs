//! Lai and Nieh's latency benchmark (2002, section 2.3.1): a letter, a scroll, a fill, a red bitmap
//! and an image. Slow-motion: each alone. Normal: one after the other at the pace of a person's
//! keys, each recognised by its own area. Knows the keys of `thinc-bench app latency`; never which
//! peer shows it.

use std::time::{Duration, Instant};

use super::{Effort, Workload, own};
use crate::Error;
use crate::apps::latency::{AREA, Operation};
use crate::observe::picture::Rect;
use crate::results::{Form, Measure, quantity};
use crate::stage::{Stage, cost_measures, measures};

/// The workload.
pub struct Latency;

/// 200 ms: the key interval of a person who types 60 words a minute.
const PACE: Duration = Duration::from_millis(200);
/// Longest until the five are drawn: an image on the slowest of the papers' links, with loss.
const REST_LIMIT: Duration = Duration::from_secs(60);

impl Workload for Latency {
    fn name(&self) -> &str {
        "latency"
    }

    fn about(&self) -> &'static str {
        "letter, scroll, fill, red bitmap and image, each by a key (Lai and Nieh 2002)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
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
    // The kinds alternate, so that a disturbance does not affect one kind only; the first round, in
    // which every glyph and buffer is new, does not count.
    for round in 0..=repetitions {
        for (operation, found) in Operation::ALL.iter().zip(&mut found) {
            let done = stage.operation(|input| input.key(operation.key()));
            let done = done.map_err(|error| format!("{} {round}: {error}", operation.name()))?;
            if round > 0 {
                found.push(done);
            }
        }
    }
    Ok(Operation::ALL
        .iter()
        .zip(&found)
        .flat_map(|(operation, found)| measures(operation.name(), found))
        .collect())
}

/// Position of an operation on the client's screen.
fn area(stage: &Stage, operation: Operation) -> Rect {
    let (x, y) = operation.place();
    let (x, y) = (stage.view.x + i32::from(x), stage.view.y + i32::from(y));
    Rect { x, y, width: AREA.0.into(), height: AREA.1.into() }
}

fn run_at_pace(stage: &mut Stage, repetitions: usize) -> Result<Vec<Measure>, Error> {
    let (mut photon, mut visible) =
        (Operation::ALL.map(|_| vec![]), Operation::ALL.map(|_| vec![]));
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
            let first = seen
                .first_from(key)
                .ok_or_else(|| format!("{} {round}: nothing changed", operation.name()))?;
            photon[at].push(ms(first));
            visible[at].extend(seen.visible().map(ms));
        }
    }
    let mut measures = vec![];
    for ((operation, photon), visible) in Operation::ALL.iter().zip(photon).zip(visible) {
        measures.push(Measure::lower(quantity::PHOTON_MS, operation.name(), "ms", photon));
        measures.push(Measure::lower(quantity::VISIBLE_MS, operation.name(), "ms", visible));
    }
    measures.extend(cost_measures("all five", &costs));
    Ok(measures)
}
