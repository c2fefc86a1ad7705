//! The testbed against tools that know nothing of it: ping, iperf3, tcpdump and the kernel's own
//! files. Needs root, or a kernel that lets users make namespaces; a tool that is missing fails its
//! test with the package's name. One testbed at a time: times are compared, and a machine of two
//! cores has none to spare.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thinc_bench::net::link::Link;
use thinc_bench::net::schedule::Schedule;
use thinc_bench::net::testbed::{Direction, Side, Testbed};
use thinc_bench::process::{Folder, on_path, wait_for};

static ALONE: Mutex<()> = Mutex::new(());

/// Nobody else's packets meanwhile; and, for an ordinary user, all tests start again in a user
/// namespace.
fn alone() -> MutexGuard<'static, ()> {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    thinc_bench::net::as_user_namespace().unwrap();
    guard
}

fn link(text: &str) -> Link {
    text.parse().unwrap()
}

/// How long an event may take on a machine that has other work. No test waits for it to pass.
const EVENT_TIMEOUT: Duration = Duration::from_secs(120);

fn need(program: &str, package: &str) {
    assert!(on_path(program), "this test needs {program}: install the Debian package {package}");
}

/// What came of some pings from the client to the server.
struct Pings {
    sent: usize,
    /// Sequence number, from 1, and time in ms.
    answers: Vec<(usize, f64)>,
}

impl Pings {
    /// The shortest: what the link adds. A busy machine adds to the others.
    fn least_ms(&self) -> f64 {
        let times = self.answers.iter().map(|(_, ms)| *ms);
        times.min_by(f64::total_cmp).unwrap_or_else(|| panic!("none of {} was answered", self.sent))
    }

    fn lost(&self) -> Vec<usize> {
        let answered: BTreeSet<usize> = self.answers.iter().map(|(seq, _)| *seq).collect();
        (1..=self.sent).filter(|seq| !answered.contains(seq)).collect()
    }
}

fn ping(bed: &Testbed, count: usize, gap_s: &str, wait_s: &str) -> Pings {
    need("ping", "iputils-ping");
    let mut command = bed.command(Side::Client, "ping");
    command.args([
        "-n",
        "-c",
        &count.to_string(),
        "-i",
        gap_s,
        "-W",
        wait_s,
        &bed.address(Side::Server).to_string(),
    ]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("packets transmitted"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let field = |line: &str, name: &str| {
        line.split_once(name)
            .map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default().to_owned())
    };
    let answer = |line: &str| {
        Some((field(line, "icmp_seq=")?.parse().unwrap(), field(line, "time=")?.parse().unwrap()))
    };
    Pings { sent: count, answers: text.lines().filter_map(answer).collect() }
}

#[test]
fn a_ping_takes_the_round_trip() {
    let _alone = alone();
    for (name, ms) in [("wan", 66.0), ("lan", 0.2)] {
        let bed = Testbed::start(&link(name), None).unwrap();
        let pings = ping(&bed, 25, "0.05", "10");
        assert_eq!(pings.answers.len(), 25, "{name} loses nothing");
        let least = pings.least_ms();
        assert!(
            (ms..ms + 2.0).contains(&least),
            "{name}: at least {least} ms, not {ms} to {}",
            ms + 2.0
        );
    }
}

#[test]
fn as_many_pings_are_lost_as_asked_and_all_are_counted() {
    let _alone = alone();
    let bed = Testbed::start(&link("unlimited,loss=10%,seed=7"), None).unwrap();
    let mark = bed.mark();
    let pings = ping(&bed, 800, "0.003", "10");
    let lost = pings.lost().len();
    // There and back: 19 % of 800 are 152 with a standard deviation of 11; five of them each way.
    assert!(lost.abs_diff(152) < 56, "{lost} of 800 pings lost at 10 % each way");
    let traffic = bed.since(&mark);
    assert_eq!(traffic.dropped as usize, lost, "each lost ping is one dropped packet");
    assert_eq!(traffic.packets(Direction::Down), 800 - lost);
    assert_eq!(traffic.bytes(Direction::Down), 84 * (800 - lost) as u64, "56 bytes, ICMP and IP");
}

/// Bits a second after TCP as iperf3's receiver counts them, and its bytes.
fn iperf3(bed: &Testbed, words: &[&str]) -> (f64, f64) {
    need("iperf3", "iperf3");
    let mut command = bed.command(Side::Server, "iperf3");
    command.args(["--server", "--one-off", "--forceflush"]).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "iperf3 --server ended");
    }
    let mut command = bed.command(Side::Client, "iperf3");
    command.args(["--json", "--client", &bed.address(Side::Server).to_string()]).args(words);
    let output = command.output().unwrap();
    server.wait().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let received = &json["end"]["sum_received"];
    let figure = |key: &str| received[key].as_f64().unwrap_or_else(|| panic!("iperf3: {json}"));
    (figure("bits_per_second"), figure("bytes"))
}

#[test]
fn iperf3_gets_the_rate_and_no_more() {
    let _alone = alone();
    // Reno keeps the queue filled, and the link busy; bbr empties it now and then, to see how long
    // the way is.
    let bed = Testbed::start(&link("80211g"), Some("reno")).unwrap();
    // A busy machine may keep iperf3 from filling the link, but not in each quarter of a second of
    // each try.
    let mut rates = (0..4).map(|_| rates_of_24_mbit(&bed));
    assert!(
        rates.any(|(after_tcp, on_link)| after_tcp < 24e6 && on_link >= 23.6e6),
        "iperf3 never got the rate of a link of 24 Mbit/s"
    );
}

/// Bits a second after TCP in all, and of IP packets in the best quarter of a second; checks that
/// the link's packets never exceeded its rate.
fn rates_of_24_mbit(bed: &Testbed) -> (f64, f64) {
    let mark = bed.mark();
    // From the server to the client, without the first second.
    let (bps, bytes) = iperf3(bed, &["--reverse", "--time", "4", "--omit", "1"]);
    let traffic = bed.since(&mark);
    let down: Vec<_> =
        traffic.packets.iter().filter(|packet| packet.direction == Direction::Down).collect();
    let payload: u64 = down.iter().map(|packet| u64::from(packet.payload)).sum();
    assert!(
        payload as f64 >= bytes,
        "the trace has {payload} bytes of payload, iperf3 got {bytes}"
    );
    // No second has more than 24 Mbit/s of IP packets, and 2 %. A thread that woke up late and
    // caught up puts more into the second after a late packet, so in each second the least counts:
    // of those that begin with one of 280 packets.
    const SECOND: Duration = Duration::from_secs(1);
    let last = down[down.len() - 1].at;
    let whole = down.iter().take_while(|packet| last - packet.at >= SECOND).count();
    let bits_within = |first: usize, time: Duration| -> u64 {
        let from = down[first].at;
        let within = down[first..].iter().take_while(|packet| packet.at - from < time);
        within.map(|packet| u64::from(packet.bytes) * 8).sum()
    };
    let bits_from: Vec<u64> =
        (0..whole).step_by(7).map(|first| bits_within(first, SECOND)).collect();
    assert!(bits_from.len() > 280, "{} packets", down.len());
    for bits in bits_from.chunks(280) {
        let least = bits.iter().min().expect("a chunk is not empty");
        assert!(*least <= 24_480_000, "{least} bits in one second");
    }
    let quarters = (0..whole).step_by(7).map(|first| bits_within(first, SECOND / 4));
    let best = quarters.max().expect("there are packets") as f64 * 4.0;
    println!("{:.2} Mbit/s after TCP on a link of 24, at best {:.2}", bps / 1e6, best / 1e6);
    (bps, best)
}

#[test]
fn iperf3_is_not_limited_by_a_link_without_a_rate() {
    let _alone = alone();
    let bed = Testbed::start(&Link::unlimited(), None).unwrap();
    // More than the fastest preset, 100 Mbit/s: what a processor carries depends on its other work.
    let mut tries = (0..4).map(|_| iperf3(&bed, &["--time", "3"]).0);
    assert!(tries.any(|bps| bps >= 150e6), "less than 150 Mbit/s each time");
}

/// One packet of a capture.
#[derive(Clone)]
struct Captured {
    at: Duration,
    packet: Vec<u8>,
}

impl Captured {
    fn from(&self, address: Ipv4Addr) -> bool {
        self.packet[12..16] == address.octets()
    }
}

fn read_pcap(path: &Path) -> Vec<Captured> {
    let bytes = fs::read(path).unwrap();
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_3c4d, "{}: nanoseconds, this machine's byte order", path.display());
    assert_eq!(word(20), 101, "{}: packets begin with IP", path.display());
    let mut packets = vec![];
    let mut at = 24;
    while at < bytes.len() {
        let (kept, whole) = (word(at + 8) as usize, word(at + 12) as usize);
        assert_eq!(kept, whole, "whole packets");
        let time = Duration::new(word(at).into(), word(at + 4));
        packets.push(Captured { at: time, packet: bytes[at + 16..at + 16 + kept].to_vec() });
        at += 16 + kept;
    }
    packets
}

/// Starts tcpdump at one end and returns when it captures.
fn tcpdump(bed: &Testbed, side: Side, file: &Path) -> Child {
    need("tcpdump", "tcpdump");
    let mut command = bed.command(side, "tcpdump");
    // Its own user could not write into our folder.
    command
        .args([
            "-i",
            "thinc0",
            "-n",
            "--nano",
            "--immediate-mode",
            // Longer than a packet, and room for all of a test's, as a busy machine may not let it
            // read for a while: 64 MiB.
            "-s",
            "2048",
            "-B",
            "65536",
            "-U",
            "-Z",
            "root",
            "-w",
        ])
        .arg(file);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "tcpdump ended");
    }
    // Whatever it says at its end must find a reader.
    std::thread::spawn(move || said.read_to_string(&mut String::new()));
    child
}

fn end(mut child: Child) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
}

#[test]
fn our_captures_hold_what_tcpdump_sees_at_both_ends() {
    let _alone = alone();
    let bed = Testbed::start(&link("rtt=20ms,rate=20mbit,loss=2%,seed=3"), None).unwrap();
    let folder = Folder::new("net-capture").unwrap();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    fs::create_dir(&theirs).unwrap();
    let dumps = [(Side::Server, "server"), (Side::Client, "client")].map(|(side, name)| {
        let file = theirs.join(format!("{name}.pcap"));
        tcpdump(&bed, side, &file)
    });
    bed.start_capture(&ours).unwrap();
    ping(&bed, 5, "0.05", "10");
    iperf3(&bed, &["--time", "1"]);
    wait_for("the link is empty", EVENT_TIMEOUT, || (bed.in_flight() == 0).then_some(())).unwrap();
    let captured = bed.stop_capture().unwrap().unwrap();
    assert_eq!(captured.missed, 0);
    let names = ["server.pcap", "client.pcap"];
    // Told to end, tcpdump drops what it has not read yet. Files of the same packets have the same
    // length.
    let length = |folder: &Path, name: &str| fs::metadata(folder.join(name)).unwrap().len();
    wait_for("tcpdump has read it all", EVENT_TIMEOUT, || {
        names.iter().all(|name| length(&theirs, name) >= length(&ours, name)).then_some(())
    })
    .unwrap();
    dumps.into_iter().for_each(end);
    for name in names {
        let (ours, theirs) = (read_pcap(&ours.join(name)), read_pcap(&theirs.join(name)));
        assert!(ours.len() > 500, "{name}: {} packets of a second at 20 Mbit/s", ours.len());
        for side in [Side::Server, Side::Client] {
            let from = |all: &[Captured]| -> Vec<Captured> {
                all.iter().filter(|packet| packet.from(bed.address(side))).cloned().collect()
            };
            let (ours, theirs) = (from(&ours), from(&theirs));
            assert_eq!(ours.len(), theirs.len(), "{name}: packets from {side:?}");
            let mut apart = vec![];
            for (n, (our, their)) in ours.iter().zip(&theirs).enumerate() {
                assert!(our.packet == their.packet, "{name}: packet {n} from {side:?} differs");
                apart.push(our.at.abs_diff(their.at));
            }
            // On a busy machine our thread stamps many packets late, and some at once. The other
            // end's times would be 10 ms away from all of them.
            let least = apart.into_iter().min().unwrap();
            assert!(
                least < Duration::from_millis(2),
                "{name}: times from {side:?} are {least:?} apart, or more"
            );
        }
    }
    let sent = read_pcap(&ours.join("client.pcap"))
        .iter()
        .filter(|p| p.from(bed.address(Side::Client)))
        .count();
    let arrived = read_pcap(&ours.join("server.pcap"))
        .iter()
        .filter(|p| p.from(bed.address(Side::Client)))
        .count();
    assert!(arrived < sent, "2 % of {sent} were lost on the way, {arrived} arrived");
}

#[test]
fn nothing_passes_in_an_outage_or_while_cut() {
    let _alone = alone();
    let bed = Testbed::start(&link("rtt=20ms"), None).unwrap();
    // ping sends fewer than 20 a second on a busy machine, and never more; it may send none in the
    // outage, but not each time.
    let mut tries = (0..5).map(|_| {
        bed.set_link(&link("rtt=20ms,outage=1s+600ms"));
        ping(&bed, 50, "0.05", "10").lost()
    });
    let lost = tries.find(|lost| lost.len() >= 4).expect("pings are lost in an outage");
    assert!(lost.len() <= 14, "600 ms at 20 pings a second: lost are {lost:?}");
    assert_eq!(lost[lost.len() - 1] - lost[0] + 1, lost.len(), "in one piece: {lost:?}");
    bed.cut(true);
    assert_eq!(ping(&bed, 3, "0.05", "0.3").answers.len(), 0);
    bed.cut(false);
    assert_eq!(ping(&bed, 3, "0.05", "10").answers.len(), 3);
}

#[test]
fn the_link_changes_while_programs_run() {
    let _alone = alone();
    let bed = Testbed::start(&link("rtt=4ms"), None).unwrap();
    let before = ping(&bed, 25, "0.05", "10").least_ms();
    bed.set_link(&link("wan,rtt=40ms"));
    let after = ping(&bed, 25, "0.05", "10").least_ms();
    assert!(
        (4.0..8.0).contains(&before) && (40.0..44.0).contains(&after),
        "{before} ms, then {after} ms"
    );
    assert_eq!((bed.link().name.as_str(), bed.record().rtt_ms), ("wan,rtt=40ms", 40.0));
}

#[test]
fn the_link_follows_a_schedule_and_the_client_gets_another_address() {
    let _alone = alone();
    let bed = Testbed::start(&link("rtt=4ms"), None).unwrap();
    let steps =
        vec![(Duration::ZERO, link("rtt=80ms")), (Duration::from_secs(2), link("rtt=40ms"))];
    bed.play(&Schedule::new(steps).unwrap());
    assert_eq!(bed.link().name, "rtt=40ms", "what it will be");
    let pings = ping(&bed, 60, "0.05", "10");
    let (first, last) = (pings.answers[0].1, pings.answers[59].1);
    assert!(first >= 80.0 && (40.0..80.0).contains(&last), "{first} ms, then {last} ms");
    let old = bed.address(Side::Client);
    bed.change_client_address().unwrap();
    assert_ne!(bed.address(Side::Client), old);
    assert_eq!(ping(&bed, 3, "0.05", "10").answers.len(), 3, "packets pass from the new address");
    let output = bed.command(Side::Client, "ip").args(["-4", "address"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&bed.address(Side::Client).to_string()), "{text}");
    assert!(!text.contains(&old.to_string()), "the old one is gone: {text}");
}

#[test]
fn congestion_control_is_what_was_asked_for_or_an_error() {
    let _alone = alone();
    let read = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
    let allowed = read("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    for name in allowed.split_whitespace() {
        let bed = Testbed::start(&link("lan"), Some(name)).unwrap();
        assert_eq!((bed.congestion(), bed.record().congestion.as_str()), (name, name));
        assert!(bed.tcp_about().starts_with(&format!("{name}, ")), "{}", bed.tcp_about());
        for side in [Side::Server, Side::Client] {
            let output = bed
                .command(side, "cat")
                .arg("/proc/sys/net/ipv4/tcp_congestion_control")
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), name, "{side:?}");
        }
    }
    let bed = Testbed::start(&link("lan"), None).unwrap();
    let own = read("/proc/sys/net/ipv4/tcp_congestion_control");
    assert!([own.as_str(), "cubic"].contains(&bed.congestion()), "{}", bed.congestion());
    drop(bed);
    // The kernel has more than namespaces may use: given for a moment where we may, or refused with
    // the line to run.
    let available = read("/proc/sys/net/ipv4/tcp_available_congestion_control");
    for name in available
        .split_whitespace()
        .filter(|name| !allowed.split_whitespace().any(|word| word == *name))
    {
        match Testbed::start(&link("lan"), Some(name)) {
            Ok(bed) => assert_eq!(bed.congestion(), name),
            Err(error) => assert!(error.to_string().contains("sysctl -w"), "{error}"),
        }
    }
    assert_eq!(read("/proc/sys/net/ipv4/tcp_allowed_congestion_control"), allowed, "put back");
    let error = Testbed::start(&link("lan"), Some("pigeon")).err().unwrap().to_string();
    assert!(error.contains("`pigeon` was refused"), "{error}");
    assert!(error.contains(&available), "it names what the kernel has: {error}");
}

/// Process ids whose network namespace is this one.
fn inside(namespace: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let processes = processes.filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    processes
        .filter(|pid| {
            fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|found| found == namespace)
        })
        .collect()
}

fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
}

#[test]
fn nothing_is_left_of_it() {
    let _alone = alone();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let bed = Testbed::start(&link("wan"), None).unwrap();
    let namespaces =
        [Side::Server, Side::Client].map(|side| fs::read_link(bed.namespace(side)).unwrap());
    assert_ne!(namespaces[0], namespaces[1]);
    assert!(
        namespaces.iter().all(|namespace| inside(namespace).len() == 1),
        "one process holds each"
    );
    assert_eq!(threads().iter().filter(|name| name.starts_with("link ")).count(), 2);
    assert_eq!(ping(&bed, 2, "0.01", "10").answers.len(), 2);
    drop(bed);
    for namespace in &namespaces {
        assert_eq!(inside(namespace), Vec::<String>::new());
    }
    assert_eq!(threads().iter().filter(|name| name.starts_with("link ")).count(), 0);
    assert_eq!(descriptors(), before);
    assert!(!fs::read_to_string("/proc/net/dev").unwrap().contains("thinc0"));
}

#[test]
fn an_end_that_is_lost_is_reported() {
    let _alone = alone();
    let mut bed = Testbed::start(&link("lan"), None).unwrap();
    bed.check().unwrap();
    let namespace = bed.namespace(Side::Client).display().to_string();
    let pid = namespace.split('/').nth(2).unwrap().to_owned();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let error =
        wait_for("the end is missed", EVENT_TIMEOUT, || bed.check().err()).unwrap().to_string();
    assert!(error.contains("namespace"), "{error}");
    assert!(!bed.command(Side::Client, "true").status().unwrap().success());
}

fn thinc_bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_thinc-bench"))
}

#[test]
fn the_ends_go_when_the_testbed_is_killed() {
    let _alone = alone();
    let mut child =
        thinc_bench().args(["net", "--preset", "dsl1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let (mut text, mut namespaces) = (String::new(), vec![]);
    while namespaces.len() < 2 {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "ended after: {text}");
        if let Some((_, rest)) = line.split_once("--net=") {
            namespaces.push(PathBuf::from(rest.split_whitespace().next().unwrap()));
        }
        text.push_str(&line);
    }
    assert!(
        text.contains("1 Mbit/s, 50 ms round trip, no loss") && text.contains("10.77.0.2"),
        "{text}"
    );
    assert!(namespaces.iter().all(|namespace| namespace.exists()), "{namespaces:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let gone =
        || namespaces.iter().all(|namespace| fs::read_link(namespace).is_err()).then_some(());
    wait_for("both ends are gone", EVENT_TIMEOUT, gone).unwrap();
}

#[test]
fn a_command_runs_at_the_end_asked_for_and_its_failure_is_ours() {
    let _alone = alone();
    let at = |side: &str| {
        let words = [
            "net", "--rtt", "2ms", "--rate", "1gbit", "--in", side, "--", "ip", "-o", "-4",
            "address",
        ];
        let output = thinc_bench().args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(at("server").contains("10.77.0.1/24"));
    assert!(at("client").contains("10.77.0.2/24"));
    let script = "test -e $THINC_BENCH_SERVER_NS && test -e $THINC_BENCH_CLIENT_NS && \
                  echo $THINC_BENCH_SERVER_ADDRESS $THINC_BENCH_CLIENT_ADDRESS; exit 3";
    let output = thinc_bench().args(["net", "--", "sh", "-c", script]).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "10.77.0.1 10.77.0.2");
    assert!(String::from_utf8(output.stderr).unwrap().contains("sh: exit status: 3"));
}

#[test]
fn nettest_measures_the_link_that_was_asked_for() {
    let _alone = alone();
    let words = ["nettest", "--rtt", "4ms", "--rate", "20mbit", "--seconds", "1", "--json"];
    let mut best = [0.0_f64; 2];
    // A machine that has other things to do may fill it less in one second, and never more.
    for _ in 0..5 {
        let output = thinc_bench().args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let least = figures["messages"][0]["round_trip_ms"][0].as_f64().unwrap();
        assert!((4.0..6.0).contains(&least), "one byte there and back: {least} ms");
        let largest = figures["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(largest["bytes"], 4 << 20);
        for (way, best) in ["down_bps", "up_bps"].into_iter().zip(&mut best) {
            *best = best.max(figures[way].as_f64().unwrap() / 1e6);
            assert!(*best < 20.0, "{way}: {best} Mbit/s");
        }
        if best.iter().all(|&mbit| mbit >= 16.0) {
            return;
        }
    }
    panic!("down and up at most {best:?} Mbit/s");
}
