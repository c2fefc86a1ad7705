//! Page-downs through a long document in Chromium: the cost of reading, and the gain of a display
//! system that sends copies. Slow-motion: a key, then an idle screen. Normal: the key held down, as
//! it repeats on a PC. Knows one page and one key; never which peer shows it.

use std::time::{Duration, Instant};

use super::browser::Browser;
use super::content::pages::{LONG, LONG_NUMBER, Pages};
use super::{Effort, Workload};
use crate::Error;
use crate::results::{Form, Measure, quantity};
use crate::stage::{Stage, cost_measures, measures};

/// The workload.
pub struct Scroll;

/// 100 ms: a person who looks for a heading presses about ten times a second; a held key repeats
/// faster.
const PACE: Duration = Duration::from_millis(100);

/// Longest until everything has arrived: plain X over 1 Mbit/s needs 25 s for each screen.
const REST_LIMIT: Duration = Duration::from_secs(600);

/// Longest wait after a page-down until the screen is idle, refinement included.
const OPERATION_LIMIT: Duration = Duration::from_secs(90);

fn pages(effort: Effort) -> u32 {
    match effort {
        Effort::Smoke => 3,
        Effort::Quick => 20,
        Effort::Full => 40,
    }
}

impl Workload for Scroll {
    fn name(&self) -> &str {
        "scroll"
    }

    fn about(&self) -> &'static str {
        "page-downs through a long text in Chromium"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["chromium"]
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        let page = match form {
            Form::SlowMotion => 0.7,
            Form::Normal => PACE.as_secs_f64(),
        };
        7.0 + f64::from(pages(effort)) * page
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let folder = stage.site.folder.path().join("pages");
        Pages::all()?.write(&folder)?;
        let _browser = Browser::Chromium.show(stage, &folder, LONG, LONG_NUMBER)?;
        let count = pages(effort);
        // The first page-down moves the strip away and is smaller than the others: it does not
        // count.
        stage.operation(|input| input.key("Next"))?;
        if form == Form::SlowMotion {
            let operations: Vec<_> = (1..=count)
                .map(|page| {
                    stage
                        .operation_within(OPERATION_LIMIT, |input| input.key("Next"))
                        .map_err(|error| format!("page-down {page}: {error}"))
                })
                .collect::<Result<_, _>>()?;
            return Ok(measures("", &operations));
        }
        let watch = stage.site.screen.watch()?;
        let meter = stage.meter()?;
        let began = Instant::now();
        let mut last = began;
        for page in 0..count {
            std::thread::sleep((began + PACE * page).saturating_duration_since(Instant::now()));
            last = stage.input.key("Next")?;
        }
        stage.wait_quiet(&watch, &stage.site.bed.mark(), REST_LIMIT)?;
        let spent = meter.read(stage)?;
        let changes = watch.finish()?.within(stage.view);
        let visible =
            changes.visible().map(|at| at.saturating_duration_since(last).as_secs_f64() * 1e3);
        let mut found = vec![
            Measure::lower(quantity::VISIBLE_MS, "last page", "ms", visible),
            Measure::fact("page_downs", "", "count", f64::from(count)),
        ];
        found.extend(cost_measures("", &[spent]));
        Ok(found)
    }
}
