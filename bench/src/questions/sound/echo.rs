//! The echo of a key without sound and with music: sound goes before pixels, and must not make a
//! key wait.

use std::time::Duration;

use super::{Player, open_ears};
use crate::Error;
use crate::apps::sound::Pattern;
use crate::questions::{Claim, Found, pause};
use crate::results::{Form, Measure, quantity};
use crate::stage::Stage;
use crate::stats::{median, quantile};
use crate::workloads::typing::Terminal;
use crate::workloads::{Effort, Workload};

pub(super) struct Echo;

/// Not a multiple of the frames of a codec, so that keys meet every moment between two of them.
const KEY_PERIOD: Duration = Duration::from_millis(53);
/// Turns with and without, one after the other: other load of the machine meets both.
const ROUNDS: usize = 3;
const QUIET: &str = "without sound";
const MUSIC: &str = "with music";
/// How much later an echo may be, ms.
const LATER_MS_MAX: f64 = 1.0;

/// Keys of one turn.
fn keys(effort: Effort) -> usize {
    match effort {
        Effort::Smoke => 20,
        Effort::Quick => 100,
        Effort::Full => 300,
    }
}

impl Workload for Echo {
    fn name(&self) -> &str {
        "echo beside sound"
    }

    fn about(&self) -> &'static str {
        "keys into xterm, in turns without sound and with music"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["xterm", "stty"]
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        16.0 + (2 * ROUNDS * keys(effort)) as f64 * KEY_PERIOD.as_secs_f64()
    }

    fn listens(&self) -> bool {
        true
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let keys = keys(effort);
        open_ears(stage)?;
        let terminal = Terminal::open(stage)?;
        assert!(2 * ROUNDS * keys <= terminal.room(), "the keys fit into the terminal");
        let (mut quiet, mut music, mut lost, mut place) = (Vec::new(), Vec::new(), 0, 1);
        // Longer than its turn; the turn ends it.
        let seconds = 30.0 + 2.0 * keys as f64 * KEY_PERIOD.as_secs_f64();
        for turn in 0..2 * ROUNDS {
            let player = match turn % 2 {
                0 => None,
                _ => Some(Player::start(stage, Pattern::Music, seconds)?),
            };
            // Until the sound's path is in its steady state; the same without sound.
            pause(Duration::from_secs(1))?;
            let echoes = terminal.type_keys(stage, place, keys, KEY_PERIOD, || true)?;
            drop(player);
            place += keys;
            lost += echoes.lost();
            if turn % 2 == 0 { &mut quiet } else { &mut music }.extend(echoes.latency_ms);
        }
        Ok(vec![
            Measure::lower(quantity::PHOTON_MS, QUIET, "ms", quiet),
            Measure::lower(quantity::PHOTON_MS, MUSIC, "ms", music),
            Measure::lower("lost_keys", "", "keys", [lost as f64]),
        ])
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        if !peer.starts_with("thinc") {
            return Vec::new();
        }
        let samples = |part| found.samples(peer, quantity::PHOTON_MS, part);
        let later = median(samples(MUSIC)).zip(median(samples(QUIET))).map(|(a, b)| a - b);
        let p95 = quantile(samples(MUSIC), 0.95).zip(quantile(samples(QUIET), 0.95));
        let p95 = p95.map(|(a, b)| a - b);
        vec![
            Claim::at_most("echo with music, median", later, LATER_MS_MAX, "ms later"),
            Claim::at_most("echo with music, p95", p95, 3.0 * LATER_MS_MAX, "ms later"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    #[test]
    fn the_echo_is_held_against_that_without_sound() {
        let all = |music: f64| {
            let measures = vec![
                Measure::lower(quantity::PHOTON_MS, QUIET, "ms", [40.0; 5]),
                Measure::lower(quantity::PHOTON_MS, MUSIC, "ms", [music; 5]),
            ];
            holds(&Echo, "lan", vec![("thinc", measures)], "thinc")
        };
        assert_eq!(all(41.0), [true, true]);
        assert_eq!(all(42.0), [false, true]);
        assert_eq!(all(43.5), [false, false]);
        assert_eq!(holds(&Echo, "lan", vec![("thinc", vec![])], "thinc"), [false, false]);
    }
}
