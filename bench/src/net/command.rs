//! `thinc-bench net`: a link for any two programs, with its figures on the command line. Beside the
//! path, above testbed.rs. Knows options and texts; never how a link is made.

use std::ffi::{OsStr, OsString};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Error;
use crate::net::end::{self, as_user_namespace, in_user_namespace};
use crate::net::link::{self, Link, Outage};
use crate::net::testbed::{Direction, Side, Testbed, Traffic};

/// A link on the command line: a preset, figures, or both.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct LinkOptions {
    /// A link by its name, with changes if wanted: wan, 80211b:loss=10%
    #[arg(long, value_name = "LINK", value_parser = |text: &str| text.parse::<Link>())]
    preset: Option<Link>,
    /// Round-trip propagation delay, half in each direction: 66ms
    #[arg(long, value_name = "TIME", value_parser = link::parse_time)]
    rtt: Option<Duration>,
    /// Standard deviation of the one-way delay; packets keep their order: 2ms
    #[arg(long, value_name = "TIME", value_parser = link::parse_time)]
    jitter: Option<Duration>,
    /// Bits of IP packets a second in each direction: 100mbit, or none
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,
    /// Queue before the bottleneck: 64KiB. If not given, the bandwidth-delay product, at least 64
    /// KiB
    #[arg(long, value_name = "SIZE", value_parser = link::parse_size)]
    queue: Option<u64>,
    /// Share of packets lost at random, in each direction: 1%
    #[arg(long, value_name = "SHARE", value_parser = link::parse_share)]
    loss: Option<f64>,
    /// The same seed loses the same packets
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Outage from a time after the start, for a length, as 5s+250ms; may be given more than once
    #[arg(long, value_name = "FROM+LENGTH", value_parser = link::parse_outage)]
    outage: Vec<Outage>,
}

/// None is no limit. A type of its own, because clap takes `Option<Option<_>>` for an optional
/// value.
#[derive(Clone, Copy, Debug)]
struct Rate(Option<u64>);

fn parse_rate(text: &str) -> Result<Rate, Error> {
    link::parse_rate(text).map(Rate)
}

impl LinkOptions {
    /// The link that they describe.
    pub fn link(&self) -> Link {
        let mut link = self.preset.clone().unwrap_or_else(Link::unlimited);
        if let Some(rtt) = self.rtt {
            link.rtt = rtt;
        }
        if let Some(Rate(rate)) = self.rate {
            link.rate_bps = rate;
        }
        if self.rtt.is_some() || self.rate.is_some() {
            link.queue_bytes = link.queue_default();
        }
        if let Some(queue) = self.queue {
            link.queue_bytes = queue;
        }
        link.jitter = self.jitter.unwrap_or(link.jitter);
        link.loss = self.loss.unwrap_or(link.loss);
        link.seed = self.seed.unwrap_or(link.seed);
        link.outages.extend(&self.outage);
        link
    }
}

/// Options of `thinc-bench net`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = presets())]
pub struct Options {
    #[command(flatten)]
    link: LinkOptions,
    /// TCP congestion control of both ends: bbr, reno, or another that the kernel offers; without
    /// it cubic, which Linux has by default, or this system's own if a namespace may not use cubic
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Capture what each end sent and received into server.pcap and client.pcap in this folder
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,
    /// Run COMMAND at this end; otherwise outside, with both namespaces named in its environment
    #[arg(long = "in", value_name = "SIDE", value_enum, requires = "command")]
    side: Option<Side>,
    /// Interval of reports of traffic and loss while no COMMAND runs, seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    every: u64,
    /// Ends the link when it ends. THINC_BENCH_SERVER_NS, THINC_BENCH_CLIENT_NS,
    /// THINC_BENCH_SERVER_ADDRESS and THINC_BENCH_CLIENT_ADDRESS tell it where the ends are
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// The presets with the sources of their figures, at the end of the help.
fn presets() -> String {
    format!("Links that have a name (for --preset):\n  {}", Link::presets_about().join("\n  "))
}

/// Makes the link and keeps it until the command or this program is ended.
pub fn run(options: &Options) -> Result<(), Error> {
    as_user_namespace()?;
    let link = options.link.link();
    let mut bed = Testbed::start(&link, options.congestion.as_deref())?;
    if let Some(folder) = &options.pcap {
        bed.start_capture(folder)?;
    }
    let result = match options.command.split_first() {
        Some((program, words)) => run_command(&bed, options.side, program, words),
        None => {
            print_ends(&bed);
            stay(&mut bed, Duration::from_secs(options.every))
        }
    };
    if let (Some(folder), Some(captured)) = (&options.pcap, bed.stop_capture()?) {
        eprintln!(
            "thinc-bench: {} packets are in {}/{{server,client}}.pcap",
            captured.packets,
            folder.display()
        );
        if captured.missed > 0 {
            eprintln!(
                "thinc-bench: {} packets are missing there: the disk was too slow",
                captured.missed
            );
        }
    }
    result
}

fn run_command(
    bed: &Testbed,
    side: Option<Side>,
    program: &OsStr,
    words: &[OsString],
) -> Result<(), Error> {
    let mut command = match side {
        Some(side) => bed.command(side, program),
        None => Command::new(program),
    };
    for (side, name) in [(Side::Server, "SERVER"), (Side::Client, "CLIENT")] {
        command.env(format!("THINC_BENCH_{name}_NS"), bed.namespace(side));
        command.env(format!("THINC_BENCH_{name}_ADDRESS"), bed.address(side).to_string());
    }
    let mark = bed.mark();
    let status = command
        .args(words)
        .status()
        .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
    eprintln!("thinc-bench: {}", traffic_words(&bed.since(&mark), mark.at().elapsed()));
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", program.display()).into()) }
}

fn print_ends(bed: &Testbed) {
    let record = bed.record();
    println!("link    {} ({})", record.about, record.emulator);
    if !bed.real_time() {
        println!(
            "        its threads may not run before others: other load on this machine may slow it"
        );
    }
    println!("TCP     {} (read back from both ends)", bed.tcp_about());
    for (side, name) in [(Side::Server, "server"), (Side::Client, "client")] {
        let namespace = bed.namespace(side);
        let namespace = namespace.display().to_string();
        let user = if in_user_namespace() {
            format!(" --preserve-credentials --user={}", namespace.replace("/ns/net", "/ns/user"))
        } else {
            String::new()
        };
        println!("{name}  {}  nsenter{user} --net={namespace} -- COMMAND", bed.address(side));
    }
    println!("Ctrl-C ends it.");
}

/// Reports the traffic periodically until this program is ended.
fn stay(bed: &mut Testbed, every: Duration) -> Result<(), Error> {
    let signals = signals()?;
    let timeout = Timespec { tv_sec: every.as_secs() as i64, tv_nsec: 0 };
    loop {
        let mark = bed.mark();
        match poll(&mut [PollFd::new(&signals, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => {}
            Ok(_) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        bed.check()?;
        let traffic = bed.since(&mark);
        if !traffic.packets.is_empty() || traffic.dropped > 0 {
            println!("{}", traffic_words(&traffic, mark.at().elapsed()));
        }
    }
}

/// Becomes readable when this program is to end.
pub(crate) fn signals() -> Result<UnixStream, Error> {
    let (woken, waker) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    Ok(woken)
}

/// "down 12.3 Mbit/s in 4031 packets, up 0.4 Mbit/s in 2210 packets, 17 lost (0.27 %)".
fn traffic_words(traffic: &Traffic, time: Duration) -> String {
    let way = |name: &str, direction| {
        let mbit = traffic.bytes(direction) as f64 * 8.0 / 1e6 / time.as_secs_f64().max(1e-3);
        format!("{name} {mbit:.2} Mbit/s in {} packets", traffic.packets(direction))
    };
    let sent = traffic.packets.len() as u64 + traffic.dropped;
    format!(
        "{}, {}, {} lost ({:.2} %){}",
        way("down", Direction::Down),
        way("up", Direction::Up),
        traffic.dropped,
        traffic.dropped as f64 * 100.0 / sent.max(1) as f64,
        if traffic.forgotten { "; the trace no longer holds all" } else { "" }
    )
}

/// thinc-bench itself, at one end.
pub(crate) fn self_at(bed: &Testbed, side: Side) -> Result<Command, Error> {
    Ok(bed.command(side, end::program()?))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(words: &[&str]) -> Result<Options, clap::Error> {
        Line::try_parse_from([&["net"], words].concat()).map(|line| line.options)
    }

    #[test]
    fn a_link_is_a_preset_with_figures() {
        let link = |words: &[&str]| parse(words).unwrap().link.link();
        let asked = link(&["--rtt", "66ms", "--rate", "100mbit", "--loss", "1%"]);
        let wan = Link::preset("wan").unwrap();
        assert_eq!(
            (asked.rtt, asked.rate_bps, asked.queue_bytes),
            (wan.rtt, wan.rate_bps, wan.queue_bytes)
        );
        assert_eq!(asked.loss, 0.01);
        let changed = link(&[
            "--preset",
            "80211b:loss=10%",
            "--rtt",
            "20ms",
            "--queue",
            "9kb",
            "--outage",
            "1s+2s",
        ]);
        assert_eq!(
            (changed.loss, changed.rate_bps, changed.queue_bytes),
            (0.1, Some(6_000_000), 9000)
        );
        assert_eq!((changed.rtt, changed.outages.len()), (Duration::from_millis(20), 1));
        assert_eq!(link(&["--preset", "wan", "--rate", "none"]).rate_bps, None);
        assert_eq!(link(&[]), Link::unlimited());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (words, said) in [
            (["--rate", "fast"], "does not begin with a number"),
            (["--preset", "modem"], "80211g"),
            (["--in", "server"], "COMMAND"),
        ] {
            let error = parse(&words).expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn traffic_is_said_in_words() {
        let at = Instant::now();
        let packet =
            |direction, bytes| crate::net::testbed::Packet { at, direction, bytes, payload: 0 };
        let traffic = Traffic {
            packets: vec![
                packet(Direction::Down, 1500),
                packet(Direction::Down, 1000),
                packet(Direction::Up, 40),
            ],
            dropped: 1,
            forgotten: false,
        };
        let said = traffic_words(&traffic, Duration::from_millis(10));
        assert_eq!(
            said,
            "down 2.00 Mbit/s in 2 packets, up 0.03 Mbit/s in 1 packets, 1 lost (25.00 %)"
        );
    }
}
