//! Question: how soon is a photograph complete on a narrow link, and how soon lossless, with lossy
//! encoding and without? A slide show shows one photograph after another over the whole screen,
//! each when the one before it no longer changes. Everything is read from the viewer's pixels:
//! which photograph each block shows, within the error of lossy encoding, and when the screen
//! equals the server's bit for bit.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::{Claim, Found, Question, ms_since};
use crate::Error;
use crate::apps::slides::{SLIDES, Slides};
use crate::net::testbed::Direction;
use crate::observe::picture::Rect;
use crate::observe::slides::{Series, SlideWatch};
use crate::results::{Form, Measure, quantity};
use crate::stage::Stage;
use crate::workloads::slide_show::{SlideShow, complete, wait_for_photograph};
use crate::workloads::{Effort, Workload};

/// The question.
#[derive(Args, Clone)]
pub struct Photographs {}

/// Longest until a photograph is shown.
const LIMIT: Duration = Duration::from_secs(120);
/// Longest time to a lossless screen beyond a round trip and the transmission time of its bytes,
/// ms.
const REFRESH_MS_MAX: f64 = 200.0;
/// Photographs before the measured ones, from which a session measures the rate of its link.
const WARM_UP_COUNT: u32 = 2;

fn count(effort: Effort) -> u32 {
    match effort {
        Effort::Smoke => 3,
        Effort::Quick => 10,
        Effort::Full => 40,
    }
}

impl Question for Photographs {
    const NAME: &'static str = "photographs";
    const PEERS: &'static str = "thinc,thinc-lossless";
    const LINKS: &'static [&'static str] = &["rate=5mbit,rtt=40ms"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        Ok(vec![Box::new(self.clone())])
    }
}

impl Workload for Photographs {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn about(&self) -> &'static str {
        "photographs over the whole screen, each when the one before no longer changes"
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        5.0 + f64::from(WARM_UP_COUNT + count(effort)) * 4.0
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let last = WARM_UP_COUNT + count(effort);
        assert!(last < SLIDES, "enough photographs for the warm-up and the run");
        let slides = Slides::new(stage.site.size.0, stage.site.size.1);
        let mut show = SlideShow::start(stage)?;
        let view = stage.view;
        let (mut complete_ms, mut exact_ms, mut beyond_transmission_ms) = (vec![], vec![], vec![]);
        let (mut bytes, mut cpu, mut never_exact) = (vec![], [vec![], vec![]], 0_u32);
        for number in 1..=last {
            stage.settle()?;
            let pair = |of: u32, x, y| slides.pixel(number - 1 + of, x, y);
            let series = Arc::new(Series::new(view, 2, pair));
            let blocks = SlideWatch::start(&stage.site.screen, series, Rect::default())?;
            let watch = stage.site.screen.watch()?;
            let (meter, mark) = (stage.meter()?, stage.site.bed.mark());
            show.begin(number, 1, 0)?;
            let drawn = *show.drawn()?.last().ok_or("no photograph was drawn")?;
            wait_for_photograph(&blocks, 1, LIMIT)?;
            stage.wait_quiet(&watch, &mark, LIMIT)?;
            let spent = meter.read(stage)?;
            let reference = stage.server_picture()?;
            let exact = watch.finish()?.within(view).exact(&reference, (view.x, view.y));
            let transitions = blocks.finish()?;
            if number <= WARM_UP_COUNT {
                continue;
            }
            complete_ms.extend(complete(&transitions).map(|at| ms_since(at, drawn)));
            match exact {
                Some(at) => {
                    // All bytes that crossed the link, lossy ones included.
                    let sent = spent.traffic.bytes(Direction::Down) as f64;
                    let rate = stage.site.bed.link().rate_bps.map_or(f64::INFINITY, |r| r as f64);
                    exact_ms.push(ms_since(at, drawn));
                    beyond_transmission_ms.push(ms_since(at, drawn) - sent * 8e3 / rate);
                    bytes.push(sent);
                }
                None => never_exact += 1,
            }
            cpu[0].push(spent.cpu_server_ms);
            cpu[1].push(spent.cpu_client_ms);
        }
        let [server, client] = cpu;
        Ok(vec![
            Measure::lower("complete_ms", "", "ms", complete_ms),
            Measure::lower(quantity::EXACT_MS, "", "ms", exact_ms),
            Measure::lower(
                quantity::EXACT_MS,
                "beyond transmission time",
                "ms",
                beyond_transmission_ms,
            ),
            Measure::lower("never_exact", "", "photographs", [f64::from(never_exact)]),
            Measure::lower(quantity::BYTES_DOWN, "", "bytes", bytes),
            Measure::lower(quantity::CPU_SERVER_MS, "", "ms", server),
            Measure::lower(quantity::CPU_CLIENT_MS, "", "ms", client),
        ])
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        let most = |name: &str, part: &str| {
            found.samples(peer, name, part).iter().copied().reduce(f64::max)
        };
        vec![
            Claim::at_most("photographs never lossless", most("never_exact", ""), 0.0, ""),
            Claim::at_most(
                "exact, beyond transmission time",
                most(quantity::EXACT_MS, "beyond transmission time"),
                REFRESH_MS_MAX + found.rtt_ms(),
                "ms",
            ),
        ]
    }
}
