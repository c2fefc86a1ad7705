//! From a program's write to the ear: delay and drift by bursts, gaps by a tone, and what it costs
//! while it plays and when it does not.

use std::time::Duration;

use super::{Player, bursts, wait_heard};
use crate::Error;
use crate::apps::sound::{Pattern, TONE_HZ};
use crate::net::testbed::Direction;
use crate::observe::account::Group;
use crate::observe::ear::DELAY_NS;
use crate::observe::heard::Tone;
use crate::process::pss_mb;
use crate::questions::{Claim, Found, pause};
use crate::results::{Form, Measure};
use crate::stage::Stage;
use crate::stats::{median, quantile};
use crate::workloads::{Effort, Workload};

pub(super) struct Delay;

const DELAY: &str = "sound_delay_ms";
const LOST: &str = "sound_lost";
const EXTRA: &str = "sound_extra";
const WRONG: &str = "sound_wrong_ms_per_minute";
const PACKETS: &str = "packets_per_s";
const BEFORE: &str = "silence before";
const AFTER: &str = "silence after";
const PLAYING: &str = "playing";
/// Longest delay in the median beyond half a round trip, ms: native, in Chromium, in Firefox.
const NATIVE_MS_MAX: f64 = 45.0;
const CHROMIUM_MS_MAX: f64 = 80.0;
const FIREFOX_MS_MAX: f64 = 100.0;
/// Most of the tone that may be wrong: half a percent.
const WRONG_MS_MAX: f64 = 300.0;
/// Packets that keep a connection alive while nothing happens, a second, in both directions.
const KEEPALIVE_PER_S_MAX: f64 = 1.0;
/// What follows the last sound: acknowledgements, and reports of what was heard.
const REST: Duration = Duration::from_secs(2);

/// Seconds of bursts, of the tone, and of silence.
fn seconds(effort: Effort) -> (f64, f64, f64) {
    match effort {
        Effort::Smoke => (4.0, 3.0, 1.0),
        Effort::Quick => (15.0, 15.0, 4.0),
        Effort::Full => (60.0, 60.0, 20.0),
    }
}

/// What a stretch of time has cost, a second.
fn spend(
    stage: &Stage,
    part: &str,
    act: impl FnOnce() -> Result<(), Error>,
) -> Result<Vec<Measure>, Error> {
    let wakeups = || stage.site.accounts.wakeups(Group::Server);
    let (meter, before) = (stage.meter()?, wakeups()?);
    act()?;
    let (spent, after) = (meter.read(stage)?, wakeups()?);
    let per_s = |value: f64| value / spent.seconds;
    let lower = |name: &str, unit: &str, value: f64| Measure::lower(name, part, unit, [value]);
    let traffic = &spent.traffic;
    let packets = traffic.packets(Direction::Down) + traffic.packets(Direction::Up);
    Ok(vec![
        lower("cpu_server_percent", "%", per_s(spent.cpu_server_ms) / 10.0),
        lower("cpu_viewer_percent", "%", per_s(spent.cpu_client_ms) / 10.0),
        lower("wakeups_server_per_s", "1/s", per_s(after.saturating_sub(before) as f64)),
        lower(PACKETS, "1/s", per_s(packets as f64)),
        lower("kbit_s_down", "kbit/s", per_s(traffic.bytes(Direction::Down) as f64 * 8e-3)),
    ])
}

impl Workload for Delay {
    fn name(&self) -> &str {
        "sound delay"
    }

    fn about(&self) -> &'static str {
        "bursts and a tone from a program to the viewer's sound card"
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        let (bursts, tone, silence) = seconds(effort);
        bursts + tone + 2.0 * silence + 12.0
    }

    fn listens(&self) -> bool {
        true
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (burst_s, tone_s, silence_s) = seconds(effort);
        let silence = Duration::from_secs_f64(silence_s);
        stage.settle()?;
        let mut measures = spend(stage, BEFORE, || pause(silence))?;
        let bursts = bursts(stage, burst_s)?;

        let ear = stage.site.ear()?;
        ear.clear();
        measures.extend(spend(stage, PLAYING, || {
            Player::start(stage, Pattern::Tone, tone_s)?.finish(tone_s).map(drop)
        })?);
        wait_heard(stage)?;
        let heard = ear.heard();
        let late = quantile(&heard.late_ms, 0.99);
        let tone = Tone::new(&heard.pieces, TONE_HZ);
        if tone.heard_ms == 0.0 {
            return Err("the tone was not heard".into());
        }

        pause(REST)?;
        measures.extend(spend(stage, AFTER, || pause(silence))?);
        let pss = stage.desk.sound.map(pss_mb).transpose()?;
        let written = bursts.late_ms.len() + bursts.lost;
        let per_minute = |value: f64| value * 60_000.0 / tone.heard_ms;
        let lower = |name: &str, unit: &str, value| Measure::lower(name, "", unit, value);
        let count = |value: usize| Some(value as f64);
        let of_sound = vec![
            Measure::lower(DELAY, "", "ms", bursts.late_ms.iter().copied()),
            Measure::fact("sound_written", "", "bursts", written as f64),
            lower(LOST, "bursts", count(bursts.lost)),
            lower(EXTRA, "bursts", count(bursts.extra)),
            lower("sound_drift_ms", "ms", bursts.drift_ms()),
            lower(WRONG, "ms", Some(per_minute(tone.wrong_ms))),
            lower("sound_silent_ms_per_minute", "ms", Some(per_minute(tone.silent_ms))),
            lower("sound_jumps_per_minute", "jumps", Some(per_minute(tone.jumps as f64))),
            lower("ear_underruns", "periods", Some(heard.underruns as f64)),
            lower("ear_late_ms", "ms", late),
            Measure::fact("ear_delay_ms", "", "ms", DELAY_NS as f64 / 1e6),
            lower("pss_sound_server_mb", "MB", pss),
        ];
        Ok(of_sound.into_iter().chain(measures).collect())
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        if !peer.starts_with("thinc") {
            return Vec::new();
        }
        let own = match peer {
            "thinc-web" | "thinc-websocket" | "thinc-webtransport" => CHROMIUM_MS_MAX,
            "thinc-firefox" => FIREFOX_MS_MAX,
            _ => NATIVE_MS_MAX,
        };
        let limit = own + found.rtt_ms() / 2.0;
        let one = |name: &str, part: &str| found.samples(peer, name, part).first().copied();
        let delay = median(found.samples(peer, DELAY, ""));
        let mut claims = vec![
            Claim::at_most("write to ear, median", delay, limit, "ms"),
            Claim::at_most("wrong sound a minute", one(WRONG, ""), WRONG_MS_MAX, "ms"),
            Claim::at_most("bursts heard twice", one(EXTRA, ""), 0.0, ""),
            Claim::at_most(
                "packets in silence",
                one(PACKETS, AFTER),
                KEEPALIVE_PER_S_MAX,
                "a second",
            ),
        ];
        if found.link.loss == 0.0 {
            claims.push(Claim::at_most("bursts lost", one(LOST, ""), 0.0, ""));
        }
        claims
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    fn measures(delay: f64, lost: f64) -> Vec<Measure> {
        vec![
            Measure::lower(DELAY, "", "ms", [delay; 5]),
            Measure::lower(LOST, "", "bursts", [lost]),
            Measure::lower(EXTRA, "", "bursts", [0.0]),
            Measure::lower(WRONG, "", "ms", [300.0]),
            Measure::lower(PACKETS, AFTER, "1/s", [1.1]),
        ]
    }

    #[test]
    fn limits_are_those_of_the_viewer_and_the_path() {
        let all = |peer: &str, link: &str, delay, lost| {
            holds(&Delay, link, vec![(peer, measures(delay, lost))], peer)
        };
        assert_eq!(all("thinc-quic", "rtt=20ms", 55.0, 0.0), [true, true, true, false, true]);
        assert!(!all("thinc-quic", "rtt=20ms", 55.1, 0.0)[0]);
        assert!(all("thinc-web", "rtt=20ms", 90.0, 0.0)[0]);
        assert!(all("thinc-firefox", "rtt=20ms", 110.0, 0.0)[0]);
        assert!(!all("thinc-tcp", "rtt=20ms", 1.0, 1.0)[4]);
        assert_eq!(all("thinc-tcp", "rtt=20ms,loss=1%", 1.0, 1.0).len(), 4);
        assert!(all("xpra", "lan", 1.0, 0.0).is_empty());
    }
}
