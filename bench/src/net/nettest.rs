//! `thinc-bench nettest`: the performance of a connection between two machines or over an emulated
//! link, measured as NetTest did in the study of VirtualGL: round trip and throughput by message
//! size, and throughput in each direction. Knows one TCP connection; never what display systems
//! send.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use crate::Error;
use crate::net::command::{LinkOptions, self_at, signals};
use crate::net::end::as_user_namespace;
use crate::net::testbed::{Side, Testbed};
use crate::process::Running;

/// Where the server listens when no port is given.
const PORT: u16 = 5077;

/// Where the server of a [`CompetingFlow`] listens: the packets of this port are not recorded as a
/// system's traffic.
pub(crate) const FLOW_PORT: u16 = 5078;

/// Longest message: NetTest's. Sizes go from 1 byte up to it, each four times the one before.
const MESSAGE_BYTES_MAX: u32 = 4 << 20;

/// Bytes of one write or read of the bandwidth test.
const CHUNK_BYTES: usize = 64 << 10;

/// Longest bandwidth test that the server runs for a client.
const SECONDS_MAX: u32 = 600;

/// A connection that is idle for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Most concurrent connections; more are closed immediately.
const CONNECTIONS_MAX: usize = 16;

/// First bytes of every request, with the version of this protocol.
const MAGIC: [u8; 4] = *b"TNT1";

/// Options of `thinc-bench nettest`.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    half: Option<Half>,
    #[command(flatten)]
    link: LinkOptions,
    /// TCP congestion control of both ends of the emulated link; without it cubic, or this system's
    /// own if a namespace may not use cubic
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    #[command(flatten)]
    test: TestOptions,
}

/// Length of the test and format of its output.
#[derive(clap::Args, Clone, Debug)]
struct TestOptions {
    /// How long each direction's bandwidth is measured, and the longest that one message size takes
    #[arg(
        long,
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(SECONDS_MAX))
    )]
    seconds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Half {
    /// Answer clients until this program is ended
    Server {
        /// Where to listen: an address with or without a port
        #[arg(default_value = "0.0.0.0")]
        address: String,
    },
    /// Receive from a server for so long, as a download beside other traffic
    #[command(hide = true)]
    Flow {
        /// Where it listens: an address and a port
        address: String,
        /// For how long
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(SECONDS_MAX)))]
        seconds: u32,
    },
    /// Measure the way to a server
    Client {
        /// Where it listens: an address or a name, with or without a port
        address: String,
        #[command(flatten)]
        test: TestOptions,
    },
}

/// Runs one half, or both over an emulated link.
pub fn run(options: &Options) -> Result<(), Error> {
    match &options.half {
        Some(Half::Server { address }) => serve(resolve(address)?),
        Some(Half::Client { address, test }) => {
            let figures = measure(resolve(address)?, Duration::from_secs(test.seconds.into()))?;
            if test.json {
                println!("{}", serde_json::to_string_pretty(&figures)?);
            } else {
                print(&figures);
            }
            Ok(())
        }
        Some(Half::Flow { address, seconds }) => {
            let mut stream = TcpStream::connect_timeout(&resolve(address)?, IDLE_MAX)
                .map_err(|e| format!("nothing answers at {address}: {e}"))?;
            prepare(&stream)?;
            stream.write_all(&Request::Down { seconds: *seconds }.encode())?;
            let (received, took) = receive_all(&mut stream, &mut vec![0; CHUNK_BYTES])?;
            println!("{:.2} Mbit/s", received as f64 * 8e-6 / took.as_secs_f64());
            Ok(())
        }
        None => over_link(options),
    }
}

/// A TCP flow from the server's end to the client's that never rests; dropping it ends it.
pub struct CompetingFlow {
    _client: Running,
    _server: Running,
}

impl CompetingFlow {
    /// Starts it; it is one connection of the testbed's congestion control.
    pub fn start(bed: &Testbed) -> Result<CompetingFlow, Error> {
        let (server, address) = start_server(bed, FLOW_PORT)?;
        let mut client = self_at(bed, Side::Client)?;
        client.args(["nettest", "flow", &address, "--seconds", &SECONDS_MAX.to_string()]);
        client.stdin(Stdio::null()).stdout(Stdio::null());
        let client = Running::start("nettest flow", &mut client)?;
        Ok(CompetingFlow { _client: client, _server: server })
    }
}

/// A server at the server's end, and where it listens.
fn start_server(bed: &Testbed, port: u16) -> Result<(Running, String), Error> {
    let address = format!("{}:{port}", bed.address(Side::Server));
    let mut command = self_at(bed, Side::Server)?;
    command.args(["nettest", "server", &address]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = Running::start("nettest server", &mut command)?;
    let mut line = String::new();
    BufReader::new(server.take_stdout().ok_or("nettest server has no output")?)
        .read_line(&mut line)?;
    if line.is_empty() {
        return Err("nettest server did not start".into());
    }
    Ok((server, address))
}

fn over_link(options: &Options) -> Result<(), Error> {
    as_user_namespace()?;
    let bed = Testbed::start(&options.link.link(), options.congestion.as_deref())?;
    let record = bed.record();
    if !options.test.json {
        println!("link {} ({}), TCP {}", record.about, record.emulator, bed.tcp_about());
    }
    let (_server, address) = start_server(&bed, PORT)?;
    let mut client = self_at(&bed, Side::Client)?;
    client.args(["nettest", "client", &address, "--seconds", &options.test.seconds.to_string()]);
    if options.test.json {
        client.arg("--json");
    }
    let status = client.status()?;
    if status.success() { Ok(()) } else { Err(format!("nettest client: {status}").into()) }
}

fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let found = address.to_socket_addrs().or_else(|_| (address, PORT).to_socket_addrs());
    let mut found = found.map_err(|e| format!("`{address}` is no address: {e}"))?;
    Ok(found.next().ok_or_else(|| format!("`{address}` has no address"))?)
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// Send back so many messages of this size, each when it was received.
    Echo { bytes: u32, count: u32 },
    /// Send for this long.
    Down { seconds: u32 },
    /// Receive until the client ends the stream, and report the number of bytes.
    Up { seconds: u32 },
}

/// ```text
/// 0: magic TNT1   4: kind, u32   8: bytes or seconds, u32   12: count, u32      (big-endian)
/// ```
const REQUEST_BYTES: usize = 16;

impl Request {
    fn encode(self) -> [u8; REQUEST_BYTES] {
        let (kind, size, count) = match self {
            Request::Echo { bytes, count } => (0u32, bytes, count),
            Request::Down { seconds } => (1, seconds, 0),
            Request::Up { seconds } => (2, seconds, 0),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        for (place, word) in bytes[4..].chunks_exact_mut(4).zip([kind, size, count]) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// None for a request that no client of this version sends.
    fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (kind, size, count) = (word(4), word(8), word(12));
        match kind {
            _ if bytes[..4] != MAGIC => None,
            0 if (1..=MESSAGE_BYTES_MAX).contains(&size) => {
                Some(Request::Echo { bytes: size, count })
            }
            1 if (1..=SECONDS_MAX).contains(&size) => Some(Request::Down { seconds: size }),
            2 if (1..=SECONDS_MAX).contains(&size) => Some(Request::Up { seconds: size }),
            _ => None,
        }
    }
}

fn serve(address: SocketAddr) -> Result<(), Error> {
    let listener =
        TcpListener::bind(address).map_err(|e| format!("cannot listen on {address}: {e}"))?;
    println!("nettest listens on {}", listener.local_addr()?);
    let signals = signals()?;
    let connections = Arc::new(());
    loop {
        let mut ready =
            [PollFd::new(&listener, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) if ready[1].revents().is_empty() => {}
            Ok(_) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let (stream, _) = listener.accept()?;
        if Arc::strong_count(&connections) > CONNECTIONS_MAX {
            continue;
        }
        let counted = connections.clone();
        std::thread::Builder::new().name("nettest".into()).spawn(move || {
            let from = stream.peer_addr();
            if let Err(error) = answer(stream) {
                eprintln!(
                    "nettest: {}: {error}",
                    from.map_or_else(|e| e.to_string(), |from| from.to_string())
                );
            }
            drop(counted);
        })?;
    }
}

fn prepare(stream: &TcpStream) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE_MAX))?;
    stream.set_write_timeout(Some(IDLE_MAX))?;
    Ok(())
}

/// Serves one client until it disconnects.
fn answer(mut stream: TcpStream) -> Result<(), Error> {
    prepare(&stream)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let mut request = [0; REQUEST_BYTES];
        match stream.read_exact(&mut request) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        match Request::decode(&request).ok_or("no request of nettest, or one of another version")? {
            Request::Echo { bytes, count } => {
                buffer.resize(buffer.len().max(bytes as usize), 0);
                for _ in 0..count {
                    stream.read_exact(&mut buffer[..bytes as usize])?;
                    stream.write_all(&buffer[..bytes as usize])?;
                }
            }
            Request::Down { seconds } => {
                // Its last byte is 1, all before it are 0.
                send_for(&mut stream, Duration::from_secs(seconds.into()))?;
            }
            Request::Up { .. } => {
                let (received, _) = receive_all(&mut stream, &mut buffer)?;
                stream.write_all(&received.to_be_bytes())?;
            }
        }
    }
}

/// Sends zeros for this long, then a one.
fn send_for(stream: &mut TcpStream, time: Duration) -> Result<(), Error> {
    let chunk = vec![0; CHUNK_BYTES];
    let begun = Instant::now();
    while begun.elapsed() < time {
        stream.write_all(&chunk)?;
    }
    Ok(stream.write_all(&[1])?)
}

/// Receives all up to the one: the number of bytes, and the time since the first.
fn receive_all(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<(u64, Duration), Error> {
    let mut received = 0;
    let mut first = None;
    loop {
        let len = stream.read(buffer)?;
        if len == 0 {
            return Err("the other end closed the connection".into());
        }
        let first = *first.get_or_insert_with(Instant::now);
        received += len as u64;
        if buffer[len - 1] == 1 {
            return Ok((received, first.elapsed()));
        }
    }
}

/// The measured figures of a connection.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// By message size, the smallest first.
    pub messages: Vec<MessageFigures>,
    /// From the server, bits a second after TCP, the start of the connection left out.
    pub down_bps: f64,
    /// To the server.
    pub up_bps: f64,
}

/// Messages of one size, sent and returned.
#[derive(Clone, Debug, Serialize)]
pub struct MessageFigures {
    /// Bytes of one message.
    pub bytes: u32,
    /// Messages that were sent.
    pub count: usize,
    /// Shortest, median and longest round trip, ms.
    pub round_trip_ms: [f64; 3],
    /// Bits a second while one message is sent at a time: its size over half of the median.
    pub throughput_bps: f64,
}

/// Most messages of one size.
const MESSAGES_MAX: u32 = 200;

fn measure(address: SocketAddr, time: Duration) -> Result<Figures, Error> {
    let mut stream = TcpStream::connect_timeout(&address, IDLE_MAX).map_err(|e| {
        format!("nothing answers at {address}: {e}; start `thinc-bench nettest server` there")
    })?;
    prepare(&stream)?;
    let mut messages = vec![];
    let mut bytes = 1;
    while bytes <= MESSAGE_BYTES_MAX {
        messages.push(measure_messages(&mut stream, bytes, time)?);
        bytes *= 4;
    }
    let seconds = u32::try_from(time.as_secs())?.clamp(1, SECONDS_MAX);
    let mut buffer = vec![0; CHUNK_BYTES];
    stream.write_all(&Request::Down { seconds }.encode())?;
    let (received, took) = receive_all(&mut stream, &mut buffer)?;
    let down_bps = received as f64 * 8.0 / took.as_secs_f64();
    stream.write_all(&Request::Up { seconds }.encode())?;
    let begun = Instant::now();
    send_for(&mut stream, time)?;
    let mut counted = [0; 8];
    stream.read_exact(&mut counted)?;
    // The answer took one direction, and the first byte the other.
    let round_trip = Duration::from_secs_f64(messages[0].round_trip_ms[0] / 1e3);
    let took = begun.elapsed().saturating_sub(round_trip).as_secs_f64().max(1e-9);
    Ok(Figures { messages, down_bps, up_bps: u64::from_be_bytes(counted) as f64 * 8.0 / took })
}

fn measure_messages(
    stream: &mut TcpStream,
    bytes: u32,
    time: Duration,
) -> Result<MessageFigures, Error> {
    let mut message = vec![0; bytes as usize];
    let mut times = vec![];
    let begun = Instant::now();
    while times.len() < MESSAGES_MAX as usize && (times.is_empty() || begun.elapsed() < time) {
        let sent = Instant::now();
        stream.write_all(&Request::Echo { bytes, count: 1 }.encode())?;
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        times.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    Ok(MessageFigures {
        bytes,
        count: times.len(),
        round_trip_ms: [times[0], median, times[times.len() - 1]],
        throughput_bps: f64::from(bytes) * 8.0 / (median / 2e3),
    })
}

fn print(figures: &Figures) {
    println!(
        "{:>10}  {:>28}  {:>12}  {:>8}",
        "message", "there and back, ms", "Mbit/s", "messages"
    );
    println!("{:>10}  {:>9}{:>10}{:>9}", "bytes", "least", "median", "most");
    for message in &figures.messages {
        let [least, median, most] = message.round_trip_ms;
        println!(
            "{:>10}  {least:>9.3}{median:>10.3}{most:>9.3}  {:>12.3}  {:>8}",
            message.bytes,
            message.throughput_bps / 1e6,
            message.count
        );
    }
    println!(
        "from the server {:.2} Mbit/s, to the server {:.2} Mbit/s",
        figures.down_bps / 1e6,
        figures.up_bps / 1e6
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_these_bytes() {
        let request = Request::Echo { bytes: 0x0001_0203, count: 7 };
        let bytes = request.encode();
        assert_eq!(bytes, *b"TNT1\0\0\0\0\0\x01\x02\x03\0\0\0\x07");
        assert_eq!(Request::decode(&bytes), Some(request));
        for request in [Request::Down { seconds: 3 }, Request::Up { seconds: 9 }] {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        let refused = [
            Request::Echo { bytes: MESSAGE_BYTES_MAX + 1, count: 1 },
            Request::Echo { bytes: 0, count: 1 },
            Request::Down { seconds: SECONDS_MAX + 1 },
        ];
        assert!(refused.iter().all(|request| Request::decode(&request.encode()).is_none()));
        assert_eq!(Request::decode(b"GET / HTTP/1.1\r\n"), None);
    }

    fn over_loopback() -> Figures {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            answer(listener.accept().unwrap().0).map_err(|e| e.to_string())
        });
        let figures = measure(address, Duration::from_secs(1)).unwrap();
        server.join().unwrap().unwrap();
        figures
    }

    #[test]
    fn both_halves_agree_over_loopback() {
        let figures = over_loopback();
        assert_eq!(figures.messages.len(), 12, "1 B to 4 MiB by fours");
        assert!(figures.messages.iter().all(|message| {
            let [least, median, most] = message.round_trip_ms;
            0.0 < least && least <= median && median <= most && message.count > 0
        }));
        // Loopback passes gigabits; 50 Mbit/s tells a working test from one that counts nothing. A
        // busy machine may have no time for it, but not each time.
        let counts = |figures: &Figures| figures.down_bps > 50e6 && figures.up_bps > 50e6;
        assert!(counts(&figures) || (0..4).any(|_| counts(&over_loopback())), "{figures:?}");
    }
}
