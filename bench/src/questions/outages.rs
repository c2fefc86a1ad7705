//! Question: what does a person see of an outage, and how long after it is the screen current
//! again? The link carries nothing for a while; a photograph is drawn meanwhile, and keys are
//! pressed. Everything is read from the viewer's pixels: when it reports the outage, when the first
//! block of the photograph is shown after the link has recovered, and when all of it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::{Claim, Found, Question, ms_since, pause};
use crate::Error;
use crate::apps::slides::Slides;
use crate::observe::picture::Rect;
use crate::observe::slides::{Series, SlideWatch};
use crate::process::wait_for;
use crate::results::{Form, Measure};
use crate::stage::Stage;
use crate::workloads::slide_show::{SlideShow, complete, wait_for_photograph};
use crate::workloads::{Effort, Workload};

/// The question.
#[derive(Args, Clone)]
pub struct Outages {
    /// Lengths of the outages in seconds, one after the other
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,4,30",
        value_parser = clap::value_parser!(u32).range(1..=600)
    )]
    seconds: Vec<u32>,
}

/// From the cut to the first key: the path is idle by then, and the key causes every later change.
const FIRST_KEY_DELAY: Duration = Duration::from_millis(100);
/// Interval of the keys after that, as of a person who tries again.
const KEY_INTERVAL: Duration = Duration::from_millis(400);
/// Longest wait until a viewer has recovered; a person has given up by then.
const LIMIT: Duration = Duration::from_secs(180);
/// Longest time that a notice of the viewer covers the screen.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time from the recovery of the link to the first block, beyond a round trip, ms.
const RECOVERY_MS_MAX: f64 = 300.0;
/// Longest time to the notice of an unresponsive session, beyond two round trips, ms.
const NOTICE_MS_MAX: f64 = 200.0;

impl Question for Outages {
    const NAME: &'static str = "outages";
    const PEERS: &'static str = "thinc-tcp,thinc-quic,tigervnc";
    const LINKS: &'static [&'static str] = &["80211b"];
    const SIZE: &'static str = "640x480";

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        Ok(vec![Box::new(self.clone())])
    }
}

impl Workload for Outages {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn about(&self) -> &'static str {
        "the link is cut while a photograph is drawn and keys are pressed"
    }

    fn seconds(&self, _: Form, _: Effort) -> f64 {
        5.0 + self.seconds.iter().map(|&seconds| f64::from(seconds) + 5.0).sum::<f64>()
    }

    fn run(&self, stage: &mut Stage, _: Form, _: Effort) -> Result<Vec<Measure>, Error> {
        let slides = Slides::new(stage.site.size.0, stage.site.size.1);
        let mut show = SlideShow::start(stage)?;
        let view = stage.view;
        let mut measures = Vec::new();
        for (number, &seconds) in (1..).zip(&self.seconds) {
            stage.settle()?;
            let pair = |of: u32, x, y| slides.pixel(number - 1 + of, x, y);
            let series = Arc::new(Series::new(view, 2, pair));
            // A viewer may cover the screen with a notice for a while after it has started.
            let blocks = wait_for("the photograph before the outage", NOTICE_TIMEOUT, || {
                SlideWatch::start(&stage.site.screen, series.clone(), Rect::default()).ok()
            })?;
            let watch = stage.site.screen.watch()?;
            let cut = Instant::now();
            stage.site.bed.cut(true);
            pause(FIRST_KEY_DELAY)?;
            let pressed = stage.input.key("x")?;
            show.begin(number, 1, 0)?;
            show.drawn()?;
            let until = cut + Duration::from_secs(seconds.into());
            while Instant::now() + KEY_INTERVAL < until {
                pause(KEY_INTERVAL)?;
                stage.input.key("x")?;
            }
            pause(until.saturating_duration_since(Instant::now()))?;
            let changes = watch.finish()?.within(view).times();
            let notice = changes.into_iter().find(|&at| at >= pressed);
            let returned = Instant::now();
            stage.site.bed.cut(false);
            wait_for_photograph(&blocks, 1, LIMIT)?;
            let transitions = blocks.finish()?;
            // A notice that appears or disappears may look like the other photograph.
            let first = transitions.transitions.iter().find(|transition| transition.at >= returned);
            let first = first.ok_or("no block changed after the link recovered")?.at;
            let last = complete(&transitions).ok_or("the photograph was never complete")?;
            let part = format!("{seconds} s");
            let lower = |name: &str, ms: Option<f64>| Measure::lower(name, &part, "ms", ms);
            measures.extend([
                lower("notice_ms", notice.map(|at| ms_since(at, pressed))),
                lower("recovery_ms", Some(ms_since(first, returned))),
                lower("complete_ms", Some(ms_since(last, returned))),
            ]);
        }
        Ok(measures)
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        // The longest of all outages; nothing if one of them has none.
        let longest = |name: &str| {
            let each = self
                .seconds
                .iter()
                .map(|seconds| found.samples(peer, name, &format!("{seconds} s")).first().copied());
            each.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
        };
        let (notice, recovery) = (longest("notice_ms"), longest("recovery_ms"));
        let (rtt, limit) = (found.rtt_ms(), NOTICE_MS_MAX);
        vec![
            Claim::at_most("notice of the outage", notice, 2.0 * rtt + limit, "ms"),
            Claim::at_most("recovery after it", recovery, rtt + RECOVERY_MS_MAX, "ms"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    #[test]
    fn the_worst_outage_counts_and_one_without_a_notice_fails() {
        let question = Outages { seconds: vec![1, 4] };
        let holds = |notice: Option<f64>, recovery: f64| {
            let of = |part: &str, notice: Option<f64>, recovery: f64| {
                vec![
                    Measure::lower("notice_ms", part, "ms", notice),
                    Measure::lower("recovery_ms", part, "ms", [recovery]),
                ]
            };
            let measures = [of("1 s", Some(10.0), 10.0), of("4 s", notice, recovery)].concat();
            holds(&question, "rtt=20ms", vec![("thinc", measures)], "thinc")
        };
        assert_eq!(holds(Some(240.0), 320.0), [true, true]);
        assert_eq!(holds(Some(241.0), 321.0), [false, false]);
        assert_eq!(holds(None, 0.0), [false, true]);
    }
}
