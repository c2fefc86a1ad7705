//! The papers' web benchmark: 54 pages of text and pictures, as i-Bench's Web Text Page Load test
//! had them. Slow-motion: a key requests each page, and the screen becomes idle. Normal: each page
//! loads the next once it is painted. Knows pages and browsers; never which peer shows them.

use std::time::Duration;

use super::browser::{self, Browser, Titles};
use super::content::pages::{PAGES, Pages, START, page_number, run_until};
use super::{Effort, Workload};
use crate::Error;
use crate::observe::frames::FrameWatch;
use crate::results::{Form, Measure};
use crate::stage::{Stage, cost_measures, measures};

/// The workload, in one browser.
pub struct Web(pub Browser);

/// Longest time of one page if pages follow each other: plain X over 1 Mbit/s needs 25 s for a
/// screen.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// Longest wait after a page until the screen is idle: some systems refine pixels for seconds,
/// which a lossy link under TCP delays.
const OPERATION_LIMIT: Duration = Duration::from_secs(90);

/// Number of requested pages.
fn pages(effort: Effort) -> usize {
    match effort {
        Effort::Smoke => 3,
        Effort::Quick | Effort::Full => PAGES,
    }
}

impl Workload for Web {
    fn name(&self) -> &str {
        match self.0 {
            Browser::Chromium => "web",
            Browser::Firefox => "web-firefox",
        }
    }

    fn about(&self) -> &'static str {
        match self.0 {
            Browser::Chromium => {
                "54 pages of text and pictures in Chromium (THINC 2004; Lai and Nieh 2002; i-Bench)"
            }
            Browser::Firefox => {
                "54 pages of text and pictures in Firefox (THINC 2004; Lai and Nieh 2002; i-Bench)"
            }
        }
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn needs(&self) -> &'static [&'static str] {
        match self.0 {
            Browser::Chromium => &["chromium"],
            Browser::Firefox => &["firefox-esr"],
        }
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        let page = match form {
            Form::SlowMotion => 0.8,
            Form::Normal => 0.4,
        };
        6.0 + pages(effort) as f64 * page
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let folder = stage.site.folder.path().join("pages");
        Pages::all()?.write(&folder)?;
        let last = pages(effort);
        match form {
            Form::SlowMotion => {
                let _browser = self.0.show(stage, &folder, START, 0)?;
                let titles = Titles::new(stage)?;
                let mut operations = Vec::with_capacity(last);
                for page in 1..=last {
                    let asked = stage.operation_within(OPERATION_LIMIT, |input| {
                        let asked = input.key("Return")?;
                        titles.wait_for(page, PAGE_LIMIT)?;
                        Ok(asked)
                    });
                    operations.push(asked.map_err(|error| format!("page {page}: {error}"))?);
                    // Two pages for one key would still be a picture.
                    titles.wait_for(page, Duration::ZERO)?;
                }
                Ok(measures("", &operations))
            }
            Form::Normal => {
                let mut browser =
                    self.0.show(stage, &folder, &format!("{START}{}", run_until(last)), 0)?;
                let strips = FrameWatch::start(&stage.site.screen, browser::strip_on(stage))?;
                let meter = stage.meter()?;
                let asked = stage.input.key("Return")?;
                let limit = PAGE_LIMIT * u32::try_from(last)?;
                let seen = browser::wait_for_page(&strips, last, limit, || browser.check())?;
                stage.settle()?;
                let spent = meter.read(stage)?;
                let numbers: std::collections::HashSet<u32> =
                    strips.finish()?.seen.into_iter().map(|(_, number)| number).collect();
                let shown = (1..=last).filter(|&page| numbers.contains(&page_number(page))).count();
                let mut found = vec![
                    Measure::lower("run_s", "", "s", [seen.duration_since(asked).as_secs_f64()]),
                    // Share of the pages that were shown; newer pages replaced the rest.
                    Measure::higher("pages_shown", "", "share", [shown as f64 / last as f64]),
                ];
                found.extend(cost_measures("", &[spent]));
                Ok(found)
            }
        }
    }
}
