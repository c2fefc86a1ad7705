//! Question: what share of the link has a large file in each direction, and does a key's echo wait
//! for it? The session sends the file with `thinc send`; the viewer's user drops it on the window.
//! Knows the question that thinc-view asks, and where files arrive; never how they are sent.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use thinc_x_selection::Drags;

use super::{Claim, Found, Question, pause};
use crate::Error;
use crate::observe::account::Group;
use crate::peers;
use crate::process::{Running, binary, wait_for};
use crate::results::{Form, Measure, quantity};
use crate::stage::Stage;
use crate::stats::{median, quantile};
use crate::workloads::typing::Terminal;
use crate::workloads::{Effort, Workload};

/// The question.
#[derive(Args, Clone)]
pub struct Files {
    /// Size of the file, MB; else 32, 250 or 1000 by --effort
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(1..=64_000))]
    megabytes: Option<u32>,
}

impl Files {
    /// With a file of this size, MB.
    pub fn of(megabytes: u32) -> Files {
        Files { megabytes: Some(megabytes) }
    }
}

impl Question for Files {
    const NAME: &'static str = "files";
    const PEERS: &'static str = "thinc-quic,thinc-tcp";
    const LINKS: &'static [&'static str] = &["lan", "wan"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        Ok(vec![Box::new(BesideFile { megabytes: self.megabytes })])
    }
}

struct BesideFile {
    megabytes: Option<u32>,
}

const QUIET: &str = "without a file";
const TO_VIEWER: &str = "to the viewer";
const TO_SESSION: &str = "to the session";
const RATE: &str = "file_mbit_s";
const NAME: &str = "large.bin";
/// Not a multiple of anything periodic in sending, so that keys meet every moment of it.
const KEY_PERIOD: Duration = Duration::from_millis(53);
/// thinc-view takes no answer that is sooner than 500 ms after it has asked.
const BEFORE_ANSWER: Duration = Duration::from_millis(600);
/// From the answer until keys are typed: the transfer has its rate by then.
const BEFORE_KEYS: Duration = Duration::from_secs(1);
/// Beyond what the link takes for twice as much.
const LIMIT: Duration = Duration::from_secs(120);
/// Rate of a link that has none of its own, for the limit: less than what two cores seal.
const UNLIMITED_BPS: u64 = 200_000_000;
const SHARE_MIN: f64 = 0.85;
/// How much later an echo may be, ms, in the median and its 95th of 100: as beside photographs.
const LATER_MS_MAX: (f64, f64) = (10.0, 30.0);

/// Keys of each turn.
fn keys(effort: Effort) -> usize {
    match effort {
        Effort::Smoke => 20,
        Effort::Quick => 100,
        Effort::Full => 300,
    }
}

impl BesideFile {
    fn bytes(&self, effort: Effort) -> u64 {
        let by_effort = match effort {
            Effort::Smoke => 32,
            Effort::Quick => 250,
            Effort::Full => 1000,
        };
        u64::from(self.megabytes.unwrap_or(by_effort)) * 1_000_000
    }
}

impl Workload for BesideFile {
    fn name(&self) -> &str {
        "a large file"
    }

    fn about(&self) -> &'static str {
        "keys into xterm while a file of noise goes to the viewer, then to the session"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["xterm", "stty"]
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        let transfers = 2.0 * self.bytes(effort) as f64 / 10e6;
        20.0 + keys(effort) as f64 * KEY_PERIOD.as_secs_f64() + transfers
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (keys, bytes) = (keys(effort), self.bytes(effort));
        let file = stage.site.folder.path().join(NAME);
        write_noise(&file, bytes)?;
        let terminal = Terminal::open(stage)?;
        assert!(3 * keys <= terminal.room(), "the keys fit into the terminal");
        let quiet = terminal.type_keys(stage, 1, keys, KEY_PERIOD, || true)?;
        let mut found = vec![
            Measure::lower(quantity::PHOTON_MS, QUIET, "ms", quiet.latency_ms.clone()),
            Measure::lower("lost_keys", QUIET, "keys", [quiet.lost() as f64]),
        ];
        let mut place = 1 + keys;
        for (part, group) in [(TO_VIEWER, Group::Client), (TO_SESSION, Group::Server)] {
            let arrived = downloads(stage, group).join(NAME);
            // `thinc send` waits until it has arrived.
            let (began, _sending) = match part {
                TO_VIEWER => send_to_viewer(stage, &file).map(|(at, sends)| (at, Some(sends)))?,
                _ => (drop_on_viewer(stage, &file)?, None),
            };
            pause(BEFORE_KEYS)?;
            let echoes =
                terminal.type_keys(stage, place, keys, KEY_PERIOD, || !arrived.exists())?;
            if echoes.latency_ms.is_empty() && echoes.lost() == 0 {
                let words = "the file had arrived before a key was typed: take a larger one";
                return Err(format!("{part}: {words}, by --megabytes").into());
            }
            place += keys;
            let rate = stage.site.bed.link().rate_bps.unwrap_or(UNLIMITED_BPS);
            let limit = LIMIT + Duration::from_secs_f64(16.0 * bytes as f64 / rate as f64);
            wait_for(&format!("the file {part}"), limit, || arrived.exists().then_some(()))?;
            let seconds = began.elapsed().as_secs_f64();
            let length = arrived.metadata()?.len();
            if length != bytes {
                return Err(format!("{length} of {bytes} bytes arrived {part}").into());
            }
            std::fs::remove_file(&arrived)?;
            let rate_mbit = bytes as f64 * 8e-6 / seconds;
            found.push(Measure::higher(RATE, part, "Mbit/s", [rate_mbit]));
            found.push(Measure::lower("lost_keys", part, "keys", [echoes.lost() as f64]));
            found.push(Measure::lower(quantity::PHOTON_MS, part, "ms", echoes.latency_ms));
        }
        Ok(found)
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        let of = |part| found.samples(peer, quantity::PHOTON_MS, part);
        let later = |part, q: Option<f64>| {
            let at = |samples| q.map_or_else(|| median(samples), |q| quantile(samples, q));
            at(of(part)).zip(at(of(QUIET))).map(|(beside, quiet)| beside - quiet)
        };
        let share = |part| {
            let mbit = found.samples(peer, RATE, part).first()?;
            Some(mbit * 1e6 / found.link.rate_bps? as f64)
        };
        let (median_max, p95_max) = LATER_MS_MAX;
        let later_ms = "ms later";
        let mut claims = vec![
            Claim::at_most(
                "echo, file to the viewer, median",
                later(TO_VIEWER, None),
                median_max,
                later_ms,
            ),
            Claim::at_most(
                "echo, file to the viewer, p95",
                later(TO_VIEWER, Some(0.95)),
                p95_max,
                later_ms,
            ),
            Claim::at_most(
                "echo, file to the session, median",
                later(TO_SESSION, None),
                median_max,
                later_ms,
            ),
            Claim::at_most(
                "echo, file to the session, p95",
                later(TO_SESSION, Some(0.95)),
                p95_max,
                later_ms,
            ),
        ];
        if found.link.rate_bps.is_some() {
            let of_link = "of the link";
            claims.push(Claim::at_least(
                "file to the viewer",
                share(TO_VIEWER),
                SHARE_MIN,
                of_link,
            ));
            claims.push(Claim::at_least(
                "file to the session",
                share(TO_SESSION),
                SHARE_MIN,
                of_link,
            ));
        }
        claims
    }
}

/// Bytes that no coding makes smaller.
fn write_noise(path: &Path, bytes: u64) -> Result<(), Error> {
    let mut noise = File::open("/dev/urandom")?.take(bytes);
    std::io::copy(&mut noise, &mut File::create_new(path)?)?;
    Ok(())
}

/// Where files arrive at this end.
fn downloads(stage: &Stage, group: Group) -> PathBuf {
    let runtime = peers::runtime_folder(stage.site.folder.path(), group);
    runtime.with_file_name("Downloads")
}

/// Sends it from the session, and answers the viewer's question. Returns when it was answered, and
/// the program that sends.
fn send_to_viewer(stage: &Stage, file: &Path) -> Result<(Instant, Running), Error> {
    let watch = stage.site.screen.watch()?;
    let mut command = stage.command(binary("thinc")?);
    command.arg("send").arg(file);
    let sending = stage.application("thinc-send", command)?;
    stage.wait_shown("the question about the file", watch)?;
    pause(BEFORE_ANSWER)?;
    Ok((stage.input.key("Control_L+Alt_L+y")?, sending))
}

/// Drops it on the middle of the viewer's window. Returns when it was dropped.
fn drop_on_viewer(stage: &Stage, file: &Path) -> Result<Instant, Error> {
    let mut drags = Drags::connect(Some(stage.site.screen.display()))?;
    let view = stage.view;
    let (x, y) = (view.x + view.width as i32 / 2, view.y + view.height as i32 / 2);
    let target = drags.find(x as i16, y as i16)?.ok_or("the viewer's window takes no drops")?;
    let began = Instant::now();
    match drags.play(target, &[file])? {
        true => Ok(began),
        false => Err("the viewer did not take what was dropped on it".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    #[test]
    fn echo_and_rate_are_held_against_the_link() {
        let all = |beside: f64, mbit: f64| {
            let mut measures = vec![Measure::lower(quantity::PHOTON_MS, QUIET, "ms", [40.0; 5])];
            for part in [TO_VIEWER, TO_SESSION] {
                measures.push(Measure::lower(quantity::PHOTON_MS, part, "ms", [beside; 5]));
                measures.push(Measure::higher(RATE, part, "Mbit/s", [mbit]));
            }
            holds(&BesideFile { megabytes: None }, "lan", vec![("thinc", measures)], "thinc")
        };
        assert_eq!(all(50.0, 85.0), [true; 6]);
        assert_eq!(all(51.0, 85.0), [false, true, false, true, true, true]);
        assert_eq!(all(71.0, 84.0), [false; 6]);
    }

    #[test]
    fn noise_has_the_length_that_was_asked_for() {
        let folder = crate::process::Folder::new("noise").unwrap();
        let path = folder.path().join("noise");
        write_noise(&path, (1 << 20) + 5).unwrap();
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len(), (1 << 20) + 5);
        assert_ne!(bytes[..8], bytes[8..16]);
    }
}
