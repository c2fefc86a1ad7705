//! Question: how old is what the viewer shows of a screen that is redrawn 200 times a second, and
//! what does that cost in memory? Each picture holds about 20 KB of new content and the time of its
//! drawing, which is read from the viewer's pixels. Then the viewer does not read for a while: how
//! long after it reads again does it show a complete picture that was drawn since?

use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Claim, Found, Question, ms_since, pause};
use crate::Error;
use crate::apps::overwrite::{KEY_ONE, KEY_START, STRIPES, codes};
use crate::net::testbed::Direction;
use crate::observe::account::Group;
use crate::observe::clock;
use crate::observe::picture::Rect;
use crate::observe::stamps::StampWatch;
use crate::process::{pss_mb, wait_for};
use crate::results::{Form, Measure, quantity};
use crate::stage::Stage;
use crate::stats::{median, quantile};
use crate::workloads::{Effort, Workload, own};

/// The question.
#[derive(Args, Clone)]
pub struct Overwrite {
    /// How long the age is watched, seconds; by default as the effort says: 5, 60 or 300.
    #[arg(long)]
    seconds: Option<u64>,
    /// How long the viewer does not read, seconds; by default as the effort says: 3, 10 or 10.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=25))]
    stall: Option<u64>,
}

/// Bytes of one picture, and the share by which they may differ: easier content would prove less.
const PICTURE_BYTES: f64 = 20_000.0;
const PICTURE_SLACK: f64 = 0.25;
/// How much memory may grow, MB: a tenth of what 10 s of these pictures would take, encoded.
const GROWTH_MB_MAX: f64 = 4.0;
/// From the first pictures at full speed until age and memory count.
const WARMING: Duration = Duration::from_secs(3);
/// Time between two readings of the memory.
const READING_EVERY: Duration = Duration::from_secs(1);
/// Longest until a complete picture is shown after the viewer reads again.
const COMPLETE_LIMIT: Duration = Duration::from_secs(60);
const SINGLE: &str = "one picture";
const MOMENTS: &str = "median, p95, p99, longest";
const PARTS: &str = "longest of each part, from the top";
const RUNNING: &str = "each second";
const STALLED: &str = "growth in each stall";

struct Plan {
    /// Pictures drawn one by one.
    single: usize,
    watched: Duration,
    stalls: usize,
    stall: Duration,
}

impl Overwrite {
    fn plan(&self, effort: Effort) -> Plan {
        let (single, seconds, stalls, stall) = match effort {
            Effort::Smoke => (2, 5, 1, 3),
            Effort::Quick => (5, 60, 2, 10),
            Effort::Full => (20, 300, 5, 10),
        };
        let watched = Duration::from_secs(self.seconds.unwrap_or(seconds));
        Plan { single, watched, stalls, stall: Duration::from_secs(self.stall.unwrap_or(stall)) }
    }
}

impl Question for Overwrite {
    const NAME: &'static str = "overwrite";
    const PEERS: &'static str = "thinc,thinc-fifo,tigervnc";
    const LINKS: &'static [&'static str] = &["rate=5mbit,rtt=40ms"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        Ok(vec![Box::new(self.clone())])
    }
}

/// Memory of the session process and of all processes of the server, PSS in MB.
#[derive(Clone, Copy, Debug)]
struct Memory {
    session: Option<f64>,
    server: f64,
}

impl Workload for Overwrite {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn about(&self) -> &'static str {
        "the screen redrawn 200 times a second, then a viewer that does not read"
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        let Plan { single, watched, stalls, stall } = self.plan(effort);
        10.0 + single as f64 + watched.as_secs_f64() + stalls as f64 * (5.0 + stall.as_secs_f64())
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let plan = self.plan(effort);
        let (width, height) = stage.site.size;
        let words = ["overwrite", "--width", &width.to_string(), "--height", &height.to_string()];
        let mut application = own::show(stage, "overwrite", &words)?;
        let (mut single_bytes, mut single_ms) = (Vec::new(), Vec::new());
        for _ in 0..plan.single {
            let one = stage.operation(|input| input.key(KEY_ONE))?;
            single_bytes.push(one.spent.traffic.bytes(Direction::Down) as f64);
            // Includes the key's path to the application.
            single_ms.extend(one.exact_ms);
        }

        let on_screen =
            |code: &Rect| Rect { x: code.x + stage.view.x, y: code.y + stage.view.y, ..*code };
        let parts: Vec<Rect> = codes(width, height).iter().map(on_screen).collect();
        let stamps = StampWatch::start(&stage.site.screen, parts)?;
        stage.input.key(KEY_START)?;
        pause(WARMING)?;
        let meter = stage.meter()?;
        let (begin, end) = (Instant::now(), Instant::now() + plan.watched);
        let memory = read_memory_until(stage, end)?;
        let spent = meter.read(stage)?;
        own::check(stage, "overwrite", &mut application)?;

        let (mut grown, mut again_ms) = ([vec![], vec![]], vec![]);
        for _ in 0..plan.stalls {
            let before = read_memory(stage)?;
            let stopped = Stopped::begin(stage)?;
            let during = read_memory_until(stage, Instant::now() + plan.stall)?;
            for (grown, of) in grown.iter_mut().zip([session_or_server, |m: &Memory| m.server]) {
                let growth = during.iter().map(|reading| of(reading) - of(&before));
                grown.push(growth.fold(0.0, f64::max));
            }
            let reads = clock::now_ns();
            drop(stopped);
            let since = clock::stamp_of(reads);
            let complete = wait_for("a complete picture after the stall", COMPLETE_LIMIT, || {
                stamps.whole_since(since)
            });
            own::check(stage, "overwrite", &mut application)?;
            match complete {
                Ok(at) => again_ms.push(ms_since(at, clock::instant_of(reads))),
                Err(error) => {
                    eprintln!("{error}");
                    again_ms.clear();
                    break;
                }
            }
            pause(WARMING)?;
        }
        let stamps = stamps.finish()?;
        let (now, now_ns) = (Instant::now(), clock::now_ns());
        let stamp_of =
            |at: Instant| clock::stamp_of(now_ns - now.duration_since(at).as_nanos() as u64);
        let part_max_ms = (0..STRIPES as usize)
            .map(|part| Ok(stamps.ages_of(part..part + 1, begin, end, stamp_of)?.max_ms))
            .collect::<Result<Vec<f64>, Error>>()?;
        let ages = stamps.ages(begin, end, stamp_of)?;
        let shares = [0.5, 0.95, 0.99];
        let moments = shares.iter().filter_map(|&share| quantile(&ages.moments_ms, share));
        let rate = stamps.whole_pictures(begin, end) as f64 / plan.watched.as_secs_f64();
        let mbit_s = spent.traffic.bytes(Direction::Down) as f64 * 8.0 / 1e6 / spent.seconds;
        let [session_grown, server_grown] = grown;
        let session = memory.iter().filter_map(|reading| reading.session);
        let server = memory.iter().map(|reading| reading.server);
        let mb = |name: &str, part: &str, samples| Measure::lower(name, part, "MB", samples);
        Ok(vec![
            Measure::lower(quantity::BYTES_DOWN, SINGLE, "bytes", single_bytes),
            Measure::lower(quantity::EXACT_MS, SINGLE, "ms", single_ms),
            Measure::lower("age_ms", MOMENTS, "ms", moments.chain([ages.max_ms])),
            Measure::lower("age_ms", PARTS, "ms", part_max_ms),
            Measure::higher(quantity::FRAME_RATE, "", "fps", [rate]),
            Measure::fact("mbit_s", "", "Mbit/s", mbit_s),
            mb("memory_session_mb", RUNNING, session.collect::<Vec<f64>>()),
            mb("memory_server_mb", RUNNING, server.collect()),
            mb("memory_session_mb", STALLED, session_grown),
            mb("memory_server_mb", STALLED, server_grown),
            Measure::lower("complete_again_ms", "", "ms", again_ms),
        ])
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        let of = |name: &str, part: &str| found.samples(peer, name, part);
        let most = |name: &str, part: &str| of(name, part).iter().copied().reduce(f64::max);
        let bytes = median(of(quantity::BYTES_DOWN, SINGLE));
        let off = bytes.map(|bytes| (bytes / PICTURE_BYTES - 1.0).abs() * 100.0);
        let (sending, rtt) = (found.sending_ms(bytes.unwrap_or(0.0)), found.rtt_ms());
        let grown = |name: &str| grown(of(name, RUNNING)).or(Some(0.0));
        let stalled = |name: &str| most(name, STALLED).or(Some(0.0));
        let age = of("age_ms", MOMENTS).last().copied();
        let again = most("complete_again_ms", "");
        let [session, server] = ["memory_session_mb", "memory_server_mb"];
        let mb = |name, value| Claim::at_most(name, value, GROWTH_MB_MAX, "MB");
        vec![
            Claim::at_most("one picture's distance from 20 KB", off, PICTURE_SLACK * 100.0, "%"),
            Claim::at_most("age at any moment", age, rtt + 2.0 * sending, "ms"),
            mb("growth of the session, last third over first", grown(session)),
            mb("growth of the server, last third over first", grown(server)),
            mb("growth of the session in a stall", stalled(session)),
            mb("growth of the server in a stall", stalled(server)),
            Claim::at_most("complete after the stall", again, rtt + sending, "ms"),
        ]
    }
}

/// Median of the last third over that of the first.
fn grown(readings: &[f64]) -> Option<f64> {
    let third = readings.len().div_ceil(3);
    Some(median(&readings[readings.len() - third..])? - median(&readings[..third])?)
}

/// The session process alone where the peer names it.
fn session_or_server(memory: &Memory) -> f64 {
    memory.session.unwrap_or(memory.server)
}

fn read_memory_until(stage: &Stage, end: Instant) -> Result<Vec<Memory>, Error> {
    let mut readings = Vec::new();
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        pause(left.min(READING_EVERY))?;
        readings.push(read_memory(stage)?);
    }
    Ok(readings)
}

fn read_memory(stage: &Stage) -> Result<Memory, Error> {
    let pids = stage.site.accounts.pids(Group::Server)?;
    // A process that has just ended uses no memory any more.
    let server = pids.iter().filter_map(|&pid| pss_mb(pid).ok()).sum();
    Ok(Memory { session: stage.desk.session.map(pss_mb).transpose()?, server })
}

/// The stopped viewer; it continues on every path out.
struct Stopped(Pid);

impl Stopped {
    fn begin(stage: &Stage) -> Result<Stopped, Error> {
        let viewer = stage.desk.held.first().ok_or("the peer has no viewer")?;
        let group = i32::try_from(viewer.pid()).ok().and_then(Pid::from_raw);
        let group = group.ok_or("the viewer has no process")?;
        kill_process_group(group, Signal::STOP)?;
        Ok(Stopped(group))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // An error means that the viewer has ended; the wait for its pixels reports that.
        let _ = kill_process_group(self.0, Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    #[test]
    fn age_and_memory_are_held_against_the_link_and_the_beginning() {
        let measures = |age_ms: f64, last_mb: f64, again_ms: &[f64]| {
            vec![
                Measure::lower(quantity::BYTES_DOWN, SINGLE, "bytes", [20_000.0, 21_000.0]),
                Measure::lower("age_ms", MOMENTS, "ms", [50.0, 60.0, 70.0, age_ms]),
                Measure::lower("memory_server_mb", RUNNING, "MB", [30.0, 50.0, last_mb]),
                Measure::lower("memory_server_mb", STALLED, "MB", [4.5, 1.0]),
                Measure::lower("complete_again_ms", "", "ms", again_ms.to_vec()),
            ]
        };
        let question = Overwrite { seconds: None, stall: None };
        let holds =
            |measures| holds(&question, "rate=5mbit,rtt=40ms", vec![("thinc", measures)], "thinc");
        // 20.5 KB take 32.8 ms: an age of 105.6 ms and 72.8 ms after a stall.
        let good = holds(measures(105.0, 34.0, &[60.0, 72.0]));
        assert_eq!(good, [true, true, true, true, true, false, true]);
        let bad = holds(measures(106.0, 34.1, &[]));
        assert_eq!(bad, [true, false, true, false, true, false, false]);
    }
}
