//! What a desktop costs in which nothing happens (Wong and Seltzer 2000, "compulsory load"):
//! processor time, wake-ups and memory with a viewer that rests and without one, the bytes until
//! the first whole screen, and those of an idle hour. thinc, xrdp and TigerVNC. Knows processes,
//! packets and one desktop; never protocols.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::census::{Census, Memory, of_server};
use super::columns::{self, Common};
use super::servers::Host;
use super::session::Session;
use super::{SHOWN_MAX, SIZE, link};
use crate::Error;
use crate::net::testbed::{Direction, Testbed, Traffic};
use crate::observe::account::{Accounts as CpuAccounts, Kind};
use crate::observe::screen::Listen;
use crate::observe::watch::Watch;
use crate::peers::accounts::Accounts;
use crate::peers::{Desk, failure};
use crate::process::wait_for;
use crate::questions::pause;
use crate::results::Measure;
use crate::stage::Site;

/// Options of `hosting compulsory`.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Seconds for which an idle desktop is watched, with a viewer and then without one.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// How often all of it is repeated, each time with a new server.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    tries: u32,
    /// The link to the viewer.
    #[arg(long, default_value = "lan")]
    link: String,
    /// What the desktop runs, as a shell takes it; thinc-bench is there. Default: a picture.
    #[arg(long, default_value = "exec thinc-bench app desktop")]
    session: String,
}

/// The first screen is whole when nothing has changed for so long: more than a lossless refresh
/// takes on a link that rests.
const RESTS: Duration = Duration::from_secs(3);
/// Between the first whole screen, or the viewer's end, and the idle time: what follows either by a
/// timer, such as a refresh or the end of a connection, is not idling.
const SETTLES: Duration = Duration::from_secs(10);
const HOUR_S: f64 = 3600.0;

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let bed = Arc::new(Testbed::start(&link(&options.link)?, None)?);
    let (tries, seconds) =
        if options.common.smoke { (1, 5) } else { (options.tries, options.seconds) };
    let idle = Duration::from_secs(seconds);
    let columns = columns::of_each(options.common.subjects()?, 1, |host| {
        let mut found = Vec::new();
        for _ in 0..tries {
            found.push(measure(host, &bed, idle, &options.session)?);
        }
        Ok(measures(&found))
    })?;
    let title = format!("an idle desktop, watched for {seconds} s; hours are extrapolated from it");
    columns::finish(&options.common, "compulsory", &title, &bed, columns)
}

/// One server with one desktop.
struct Found {
    setup: Bytes,
    /// Of the server before anybody has logged in.
    before: Memory,
    viewed: Idle,
    alone: Idle,
}

/// A desktop at rest for a while.
struct Idle {
    per_minute: f64,
    voluntary_s: f64,
    involuntary_s: f64,
    memory: Memory,
    hour: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bytes {
    down: f64,
    up: f64,
}

impl Bytes {
    /// Of the packets until `end`, times a factor.
    fn of(traffic: &Traffic, end: Instant, factor: f64) -> Result<Bytes, Error> {
        if traffic.forgotten {
            return Err("more packets crossed the link than are remembered: watch shorter".into());
        }
        let in_time = traffic.packets.iter().filter(|packet| packet.at <= end);
        let sum = |wanted: Direction| {
            let those = in_time.clone().filter(|packet| packet.direction == wanted);
            those.map(|packet| u64::from(packet.bytes)).sum::<u64>() as f64 * factor
        };
        Ok(Bytes { down: sum(Direction::Down), up: sum(Direction::Up) })
    }
}

fn measure(host: &Host, bed: &Arc<Testbed>, idle: Duration, program: &str) -> Result<Found, Error> {
    host.on_client()?;
    let cpu = Arc::new(CpuAccounts::of_kind("compulsory", Kind::Proc)?);
    let site = Site::start("compulsory", bed, &cpu, SIZE, Listen::Unix)?;
    let home = site.folder.path();
    let server = host.start_server(&site)?;
    let before = Memory::of(&of_server(&cpu)?);
    // Lines wait in the pipe until the session reads them.
    let session = Session::at(home, &Accounts::name(0));
    let _pipe = session.hold()?;
    session.run(program)?;
    let (watch, mark) = (site.screen.watch()?, bed.mark());
    let mut desk = host.view(&site, home, 0, server)?;
    let shown = wait_whole(&site, &watch, &mut desk)?;
    let setup = Bytes::of(&bed.since(&mark), shown, 1.0)?;
    drop(watch);
    pause(SETTLES)?;
    let viewed = Idle::watch(&cpu, bed, idle)?;
    // The viewer is the first that ends; the server and its desktop go on.
    drop(desk.held.remove(0));
    pause(SETTLES)?;
    let alone = Idle::watch(&cpu, bed, idle)?;
    Ok(Found { setup, before, viewed, alone })
}

/// When the last pixel of the first whole screen was drawn.
fn wait_whole(site: &Site, watch: &Watch, desk: &mut Desk) -> Result<Instant, Error> {
    let whole = wait_for("the first whole screen is shown", SHOWN_MAX, || {
        if let Err(error) = desk.held.iter_mut().try_for_each(|running| running.check()) {
            return Some(Err(error));
        }
        let last = watch.last_change()?;
        (last.elapsed() > RESTS).then_some(Ok(last))
    });
    whole.and_then(|end| end).map_err(|error| failure(site, &error.to_string()))
}

impl Idle {
    fn watch(cpu: &CpuAccounts, bed: &Testbed, time: Duration) -> Result<Idle, Error> {
        let (mark, census) = (bed.mark(), Census::of(&of_server(cpu)?));
        let begun = Instant::now();
        pause(time)?;
        let pids = of_server(cpu)?;
        let (used, seconds) = (Census::of(&pids).since(&census), begun.elapsed().as_secs_f64());
        let hour = Bytes::of(&bed.since(&mark), Instant::now(), HOUR_S / seconds)?;
        Ok(Idle {
            per_minute: used.cpu_ms * 60.0 / seconds,
            voluntary_s: used.voluntary / seconds,
            involuntary_s: used.involuntary / seconds,
            memory: Memory::of(&pids),
            hour,
        })
    }
}

fn measures(found: &[Found]) -> Vec<Measure> {
    let mut all = Vec::new();
    let mut lower = |name: &str, part: &str, unit: &str, value: &dyn Fn(&Found) -> f64| {
        all.push(Measure::lower(name, part, unit, found.iter().map(value)));
    };
    lower("setup_bytes", "to the viewer, until the first whole screen", "bytes", &|f| f.setup.down);
    lower("setup_bytes", "from the viewer", "bytes", &|f| f.setup.up);
    type Of = fn(&Found) -> &Idle;
    let states: [(&str, Of); 2] =
        [("with a viewer", |found| &found.viewed), ("without one", |found| &found.alone)];
    for (state, idle) in states {
        lower("idle_cpu", state, "ms/min", &|f| idle(f).per_minute);
        lower("wake_ups", state, "1/s", &|f| idle(f).voluntary_s);
        lower("involuntary_switches", state, "1/s", &|f| idle(f).involuntary_s);
        lower("memory_pss", state, "MB", &|f| idle(f).memory.above(&f.before).pss_mb);
        lower("memory_anonymous", state, "MB", &|f| idle(f).memory.above(&f.before).anon_mb);
    }
    lower("memory_pss", "the server before any login", "MB", &|f| f.before.pss_mb);
    lower("memory_anonymous", "the server before any login", "MB", &|f| f.before.anon_mb);
    lower("bytes_an_hour", "to the viewer", "bytes", &|f| f.viewed.hour.down);
    lower("bytes_an_hour", "from the viewer", "bytes", &|f| f.viewed.hour.up);
    lower("bytes_an_hour", "without a viewer", "bytes", &|f| f.alone.hour.down + f.alone.hour.up);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::testbed::Packet;

    #[test]
    fn bytes_count_by_direction_until_the_end() {
        let at = Instant::now();
        let packet = |ms: u64, direction, bytes| Packet {
            at: at + Duration::from_millis(ms),
            direction,
            bytes,
            payload: bytes,
        };
        let packets = vec![
            packet(0, Direction::Up, 60),
            packet(5, Direction::Down, 1500),
            packet(9, Direction::Down, 700),
            packet(20, Direction::Down, 40),
        ];
        let traffic = Traffic { packets, dropped: 0, forgotten: false };
        let found = Bytes::of(&traffic, at + Duration::from_millis(9), 2.0).unwrap();
        assert_eq!(found, Bytes { down: 4400.0, up: 120.0 });
        assert!(Bytes::of(&Traffic { forgotten: true, ..traffic }, at, 1.0).is_err());
    }
}
