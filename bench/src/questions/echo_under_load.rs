//! Question: does the echo of a key stay immediate while photographs fill a narrow link, and does
//! the link stay full? Keys at 20 Hz into an xterm that lies over a photograph: first in quiet,
//! then while another photograph is drawn every 500 ms. Everything is read from the viewer's
//! pixels: cells of the terminal, and which photograph each block of the screen shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::{Claim, Found, Question, ms_since, pause};
use crate::Error;
use crate::apps::slides::{SLIDES, Slides, VARIANT_STRIDE};
use crate::net::testbed::Direction;
use crate::observe::slides::{Series, SlideWatch, Transitions};
use crate::results::{Form, Measure, quantity};
use crate::stage::Stage;
use crate::stats::quantile;
use crate::workloads::slide_show::{SlideShow, wait_for_photograph};
use crate::workloads::typing::{Echoes, Terminal, wait_for_echoes};
use crate::workloads::{Effort, Workload};

/// The question.
#[derive(Args, Clone)]
pub struct EchoUnderLoad {
    /// Time from one photograph to the next, ms.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(50..=10_000))]
    period_ms: u32,
}

/// 20 keys a second.
const KEY_PERIOD: Duration = Duration::from_millis(50);
const KEY: &str = "x";
/// Between the terminal's cells and the photograph: two blocks of JPEG.
const MARGIN: u32 = 16;
/// What the echo may lose under load, ms: median and 95th percentile.
const MEDIAN_LOSS_MAX: f64 = 10.0;
const P95_LOSS_MAX: f64 = 30.0;
/// Share of the link that must be in use.
const USE_MIN: f64 = 0.85;
/// Longest that a changed block may show an old photograph, ms.
const STALE_MS_MAX: f64 = 3000.0;
/// The link fills in this time, which does not count for its use.
const FILLING: Duration = Duration::from_secs(1);
/// Longest until the last photograph is shown: seconds of it may wait in every queue.
const COMPLETE_LIMIT: Duration = Duration::from_secs(60);
const QUIET: &str = "in quiet";
const LOADED: &str = "under load";
const AFTER: &str = "after load";
const SINGLE: &str = "a photograph in quiet";
const STALE: &str = "median, p95, p99, longest";

/// Keys in quiet, and keys under load.
fn keys(effort: Effort) -> (usize, usize) {
    match effort {
        Effort::Smoke => (40, 100),
        Effort::Quick => (200, 400),
        // 80 photographs: less than there are.
        Effort::Full => (400, 800),
    }
}

impl Question for EchoUnderLoad {
    const NAME: &'static str = "echo-under-load";
    const PEERS: &'static str = "thinc,thinc-fifo,tigervnc,tigervnc-lossless";
    const LINKS: &'static [&'static str] = &["rate=10mbit,rtt=40ms"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        Ok(vec![Box::new(self.clone())])
    }
}

impl Workload for EchoUnderLoad {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn about(&self) -> &'static str {
        "keys at 20 Hz into xterm over a photograph, in quiet and while photographs fill the link"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["xterm", "stty"]
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        let (quiet, loaded) = keys(effort);
        12.0 + (quiet + loaded) as f64 * KEY_PERIOD.as_secs_f64()
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (quiet_keys, loaded_keys) = keys(effort);
        let period_ms = self.period_ms as usize;
        let count = (KEY_PERIOD.as_millis() as usize * loaded_keys).div_ceil(period_ms) as u32;
        // The one that is shown in quiet at the end must be new as well.
        if count + VARIANT_STRIDE >= SLIDES {
            return Err(format!("{count} photographs are more than there are: {SLIDES}").into());
        }
        let slides = Slides::new(stage.site.size.0, stage.site.size.1);
        let mut show = SlideShow::start(stage)?;
        let terminal = Terminal::open_with_margin(stage, MARGIN)?;
        assert!(quiet_keys + loaded_keys <= terminal.room(), "the keys fit into the terminal");
        let quiet = type_keys(stage, &terminal, 1, quiet_keys)?;
        stage.settle()?;

        let view = stage.view;
        let series = Series::new(view, count + 1, |number, x, y| slides.pixel(number, x, y));
        let blocks = SlideWatch::start(&stage.site.screen, Arc::new(series), terminal.area())?;
        let meter = stage.meter()?;
        let load_began = Instant::now();
        show.begin(1, count, self.period_ms)?;
        // A thread of its own types: the last photograph is watched from its drawing on, and echoes
        // may arrive later.
        let (loaded, drawn, last) = std::thread::scope(|scope| -> Result<_, Error> {
            let stage = &*stage;
            let typist = scope.spawn(|| type_keys(stage, &terminal, 1 + quiet_keys, loaded_keys));
            let drawn = show.drawn()?;
            let watch = stage.site.screen.watch()?;
            let complete = wait_for_photograph(&blocks, count as usize, COMPLETE_LIMIT);
            let loaded = typist.join().map_err(|_| "the thread that types panicked")??;
            complete?;
            stage.wait_quiet(&watch, &stage.site.bed.mark(), COMPLETE_LIMIT)?;
            Ok((loaded, drawn, watch.finish()?.within(view)))
        })?;
        let traffic = meter.read(stage)?.traffic;
        let ended = *drawn.last().ok_or("no photograph was drawn")?;
        let filled = load_began + FILLING;
        let counted = traffic.packets.iter().filter(|packet| {
            packet.direction == Direction::Down && (filled..ended).contains(&packet.at)
        });
        let carried: u64 = counted.map(|packet| u64::from(packet.bytes)).sum();
        let rate = stage.site.bed.link().rate_bps.map_or(f64::INFINITY, |rate| rate as f64);
        let seconds = ended.saturating_duration_since(filled).as_secs_f64();
        let link_use = carried as f64 * 8.0 / rate / seconds;

        let reference = stage.server_picture()?;
        let exact = last.exact(&reference, (view.x, view.y)).map(|at| ms_since(at, ended));
        let visible = last.visible().map(|at| ms_since(at, ended));
        let stale_ms = stale_ms(&blocks.finish()?, &drawn, Instant::now());
        let single = stage.operation(|_| {
            show.begin(count + VARIANT_STRIDE, 1, 0)?;
            Ok(*show.drawn()?.last().ok_or("no photograph was drawn")?)
        })?;
        let lost = quiet.lost() + loaded.lost();
        let shares = [0.5, 0.95, 0.99, 1.0];
        let stale = shares.iter().filter_map(|&share| quantile(&stale_ms, share));
        let bytes = single.spent.traffic.bytes(Direction::Down) as f64;
        Ok(vec![
            Measure::lower(quantity::PHOTON_MS, QUIET, "ms", quiet.latency_ms),
            Measure::lower(quantity::PHOTON_MS, LOADED, "ms", loaded.latency_ms),
            Measure::lower("lost_keys", "", "keys", [lost as f64]),
            Measure::higher("link_use", "", "share", [link_use]),
            Measure::lower("stale_ms", STALE, "ms", stale),
            Measure::lower(quantity::EXACT_MS, AFTER, "ms", exact),
            Measure::lower(quantity::VISIBLE_MS, AFTER, "ms", visible),
            Measure::lower(quantity::EXACT_MS, SINGLE, "ms", single.exact_ms),
            Measure::lower(quantity::BYTES_DOWN, SINGLE, "bytes", [bytes]),
        ])
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        let echo = |part: &str, share: f64| {
            quantile(found.samples(peer, quantity::PHOTON_MS, part), share)
        };
        let loss = |share: f64| Some(echo(LOADED, share)? - echo(QUIET, share)?);
        let one = |name: &str, part: &str| found.samples(peer, name, part).last().copied();
        // Without a rate a photograph has no sending time to be held against.
        let bytes = one(quantity::BYTES_DOWN, SINGLE).filter(|_| found.link.rate_bps.is_some());
        let limit = bytes.map_or(0.0, |bytes| found.sending_ms(bytes) + found.rtt_ms());
        let unit = "ms more than in quiet";
        vec![
            Claim::at_most("median of the echo", loss(0.5), MEDIAN_LOSS_MAX, unit),
            Claim::at_most("p95 of the echo", loss(0.95), P95_LOSS_MAX, unit),
            Claim::at_least("use of the link", one("link_use", ""), USE_MIN, "of it"),
            Claim::at_most(
                "longest time that a changed block is stale",
                one("stale_ms", STALE).or(Some(0.0)),
                STALE_MS_MAX,
                "ms",
            ),
            Claim::at_most("complete after load", one(quantity::EXACT_MS, AFTER), limit, "ms"),
        ]
    }
}

/// Types `count` keys into the terminal after `place` earlier ones, and waits for their echoes.
fn type_keys(
    stage: &Stage,
    terminal: &Terminal,
    place: usize,
    count: usize,
) -> Result<Echoes, Error> {
    let watch = terminal.watch_from(stage, place)?;
    let began = Instant::now();
    let mut pressed = Vec::with_capacity(count);
    for i in 0..count {
        // By the clock and not by pauses, so that a late key does not make all others late.
        pause((began + KEY_PERIOD * i as u32).saturating_duration_since(Instant::now()))?;
        pressed.push(stage.input.key(KEY)?);
    }
    wait_for_echoes(stage, &watch, count)?;
    Ok(Echoes::new(&pressed, &watch.finish()?))
}

/// For each block that turned to a later photograph, how long the photograph after the one that it
/// showed had been drawn, ms; and the same for blocks that have not turned by `end`. Photograph 0
/// is shown first, `drawn` begins with photograph 1.
fn stale_ms(transitions: &Transitions, drawn: &[Instant], end: Instant) -> Vec<f64> {
    let stale_since = |shown: usize| drawn.get(shown).copied();
    let turned = transitions
        .transitions
        .iter()
        .filter_map(|transition| Some((stale_since(transition.from)?, transition.at)));
    let left = transitions.shown.iter().filter_map(|&shown| Some((stale_since(shown)?, end)));
    turned.chain(left).map(|(since, until)| ms_since(until, since)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::slides::Transition;
    use crate::questions::tests::holds;

    #[test]
    fn a_block_is_stale_from_the_first_drawing_that_it_does_not_show() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let drawn = [at(0), at(500), at(1000)];
        let transitions = [
            Transition { at: at(120), from: 0, to: 1 },
            Transition { at: at(1300), from: 1, to: 3 },
        ];
        let transitions = Transitions { transitions: transitions.to_vec(), shown: vec![3, 2] };
        // The second block has lacked the third photograph since 1000 ms.
        assert_eq!(stale_ms(&transitions, &drawn, at(2500)), [120.0, 800.0, 1500.0]);
    }

    #[test]
    fn keys_and_photographs_fit() {
        for effort in [Effort::Smoke, Effort::Quick, Effort::Full] {
            let (quiet, loaded) = keys(effort);
            assert!(quiet + loaded < 80 * 24);
            assert!(loaded as u32 * 50 / 500 + VARIANT_STRIDE < SLIDES);
        }
    }

    #[test]
    fn claims_are_held_against_the_quiet_echo_and_the_rate_of_the_link() {
        let measures = |exact_ms: f64| {
            vec![
                Measure::lower(quantity::PHOTON_MS, QUIET, "ms", [40.0, 41.0, 42.0]),
                Measure::lower(quantity::PHOTON_MS, LOADED, "ms", [45.0, 50.0, 90.0]),
                Measure::higher("link_use", "", "share", [0.9]),
                Measure::lower("stale_ms", STALE, "ms", [100.0, 200.0, 300.0, 3500.0]),
                Measure::lower(quantity::EXACT_MS, AFTER, "ms", [exact_ms]),
                Measure::lower(quantity::BYTES_DOWN, SINGLE, "bytes", [1e6]),
            ]
        };
        let question = EchoUnderLoad { period_ms: 500 };
        // 1 MB takes 800 ms at 10 Mbit/s, and a round trip 40.
        let all =
            |exact_ms, link| holds(&question, link, vec![("thinc", measures(exact_ms))], "thinc");
        assert_eq!(all(839.0, "rate=10mbit,rtt=40ms"), [true, false, true, false, true]);
        assert!(!all(841.0, "rate=10mbit,rtt=40ms")[4] && !all(1.0, "rtt=40ms")[4]);
    }
}
