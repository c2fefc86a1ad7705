//! Two network namespaces, a server's and a client's, joined by one link: programs run at either end, the link changes
//! while they run, and every packet is known with its time.
//! Beside the path. Knows packets and their sizes; never what is in them, nor which system sends them.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::Error;
use crate::net::capture::{Capture, Captured, Writer};
use crate::net::end::{Allowed, End};
use crate::net::link::Link;
use crate::net::netem;
use crate::net::wire::Wire;
use crate::results::LinkRecord;

/// One end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Side {
    /// Where the display system's server and the applications run.
    Server,
    /// Where the viewer runs.
    Client,
}

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Server to client.
    Down,
    /// Client to server.
    Up,
}

/// One packet that reached its destination, or is sure to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was seen at the client's end: delivered there (down), sent there (up).
    pub at: Instant,
    /// Which way it went.
    pub direction: Direction,
    /// Length of the IP packet.
    pub bytes: u32,
    /// Bytes after the TCP or UDP header.
    pub payload: u32,
}

/// What passed since a [`Mark`].
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// In the order of [`Packet::at`].
    pub packets: Vec<Packet>,
    /// Packets that were lost on the way, in both directions: at random, in outages, and before a full queue. Those that
    /// netem lost are not known.
    pub dropped: u64,
    /// Whether the trace, which is bounded, no longer held all of it.
    pub forgotten: bool,
}

impl Traffic {
    /// IP bytes that went this way.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.going(direction).map(|packet| u64::from(packet.bytes)).sum()
    }

    /// Packets that went this way.
    pub fn packets(&self, direction: Direction) -> usize {
        self.going(direction).count()
    }

    /// The first packet that went this way.
    pub fn first(&self, direction: Direction) -> Option<Packet> {
        self.going(direction).next().copied()
    }

    /// The last packet that went this way.
    pub fn last(&self, direction: Direction) -> Option<Packet> {
        self.going(direction).next_back().copied()
    }

    fn going(&self, direction: Direction) -> impl DoubleEndedIterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.direction == direction)
    }
}

/// A point in the trace.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    at: Instant,
}

impl Mark {
    /// When it was made.
    pub fn at(&self) -> Instant {
        self.at
    }
}

/// Who makes the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Maker {
    /// Our model on the TUN devices: bytes are counted in its queue, losses are known and the same for the same seed.
    #[default]
    Tun,
    /// The kernel's netem.
    Netem,
    /// netem where the kernel has it, else our model.
    Auto,
}

/// A running link with a namespace at each end; both go with it.
pub struct Testbed {
    link: Link,
    congestion: String,
    /// Whether netem makes the link, and if it was wanted and does not, why.
    netem: bool,
    no_netem: Option<String>,
    capture: Mutex<Option<(Arc<Capture>, Writer)>>,
    // Before the ends: its threads hold the devices, and stop before the namespaces do.
    wire: Wire,
    server: End,
    client: End,
}

/// Addresses of the two ends. Every testbed has the same: no packet leaves its two namespaces.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

impl Testbed {
    /// Makes both ends and joins them by our own model; `congestion` is the TCP congestion control to use, or else the
    /// system's own. Call [`crate::net::as_user_namespace`] once before, at the begin of the program.
    pub fn start(link: &Link, congestion: Option<&str>) -> Result<Testbed, Error> {
        Testbed::start_made_by(Maker::Tun, link, congestion)
    }

    /// As [`Testbed::start`], with the link made as asked.
    pub fn start_made_by(maker: Maker, link: &Link, congestion: Option<&str>) -> Result<Testbed, Error> {
        // Only while the namespaces start: they keep what they have been given.
        let allowed = Allowed::congestion(congestion)?;
        let (server, server_device) = End::start(SERVER, congestion)?;
        let (client, client_device) = End::start(CLIENT, congestion)?;
        drop(allowed);
        if server.congestion() != client.congestion() {
            return Err(format!(
                "the ends use different TCP congestion control: {} and {}",
                server.congestion(),
                client.congestion()
            )
            .into());
        }
        let (netem, no_netem) = match maker {
            Maker::Tun => (false, None),
            Maker::Netem | Maker::Auto => match netem::start(&server, link) {
                Ok(()) => (true, None),
                Err(error) => (false, Some(error.to_string())),
            },
        };
        let wire = Wire::start(server_device, client_device, &wire_part(link, netem))?;
        let mut bed = Testbed {
            link: link.clone(),
            congestion: server.congestion().to_owned(),
            netem,
            no_netem,
            capture: Mutex::default(),
            wire,
            server,
            client,
        };
        if bed.netem
            && let Err(error) = netem::check(&bed.client, SERVER)
        {
            (bed.netem, bed.no_netem) = (false, Some(error.to_string()));
        }
        match (maker, &bed.no_netem) {
            (Maker::Netem, Some(error)) => return Err(format!("netem cannot make this link: {error}").into()),
            (_, Some(_)) => {
                netem::stop(&bed.server);
                bed.wire.set_link(link);
            }
            (_, None) => {}
        }
        Ok(bed)
    }

    fn end(&self, side: Side) -> &End {
        match side {
            Side::Server => &self.server,
            Side::Client => &self.client,
        }
    }

    /// A command that runs inside the namespace of `side`. It becomes the program: its process id is the program's.
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        self.end(side).command(program.as_ref())
    }

    /// The namespace of `side`, as `nsenter --net=…` takes it.
    pub fn namespace(&self, side: Side) -> PathBuf {
        self.end(side).namespace()
    }

    /// The IP address of `side`.
    pub fn address(&self, side: Side) -> Ipv4Addr {
        match side {
            Side::Server => SERVER,
            Side::Client => CLIENT,
        }
    }

    /// The TCP congestion control, read back from both ends.
    pub fn congestion(&self) -> &str {
        &self.congestion
    }

    /// For the results, with what is in force.
    pub fn record(&self) -> LinkRecord {
        LinkRecord {
            about: self.link.about(),
            rtt_ms: self.link.rtt.as_secs_f64() * 1e3,
            jitter_ms: self.link.jitter.as_secs_f64() * 1e3,
            rate_bps: self.link.rate_bps,
            queue_bytes: self.link.queue_bytes,
            loss: self.link.loss,
            congestion: self.congestion.clone(),
            emulator: if self.netem { "netem" } else { "tun" }.into(),
        }
    }

    /// Why our model makes the link although netem was wanted.
    pub fn no_netem(&self) -> Option<&str> {
        self.no_netem.as_deref()
    }

    /// Whether the link's threads run before every ordinary process; if not, a busy machine may slow the link.
    pub fn real_time(&self) -> bool {
        self.wire.real_time()
    }

    /// The link as it is now.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Makes it another link while programs run, and returns when it is in force; what is under way arrives as it would have.
    pub fn set_link(&mut self, link: &Link) -> Result<(), Error> {
        if self.netem {
            netem::set_link(&self.server, link)?;
        }
        self.wire.set_link(&wire_part(link, self.netem));
        self.link = link.clone();
        Ok(())
    }

    /// Nothing passes from `cut(true)` to `cut(false)`; what waits for the bottleneck is lost, what has passed it arrives.
    pub fn cut(&self, cut: bool) {
        self.wire.cut(cut);
    }

    /// Where the trace stands now.
    pub fn mark(&self) -> Mark {
        Mark { at: Instant::now() }
    }

    /// What passed at the client's end since: the last millisecond may still be missing.
    pub fn since(&self, mark: &Mark) -> Traffic {
        let mut traffic = self.wire.trace().since(mark.at);
        traffic.packets.sort_by_key(|packet| packet.at);
        traffic
    }

    /// When a packet was last seen at the client's end, in either direction: quiet is a gap after it, with nothing under way.
    pub fn last_packet(&self) -> Option<Instant> {
        self.wire.trace().last()
    }

    /// Packets that were sent and have not arrived yet, in both directions; those that netem holds are not known.
    pub fn under_way(&self) -> usize {
        self.wire.under_way()
    }

    /// An error when an end or a direction of the link has stopped.
    pub fn check(&mut self) -> Result<(), Error> {
        self.server.check()?;
        self.client.check()?;
        self.wire.check()
    }

    /// Writes `server.pcap` and `client.pcap` into a folder: what each end sent and received, at the time it did, from now
    /// on. With netem both hold what the client's end saw.
    pub fn start_capture(&self, folder: &Path) -> Result<(), Error> {
        self.stop_capture()?;
        let (capture, writer) = Capture::start(folder)?;
        let capture = Arc::new(capture);
        self.wire.set_capture(Some(capture.clone()));
        *self.capture.lock().unwrap_or_else(PoisonError::into_inner) = Some((capture, writer));
        Ok(())
    }

    /// Ends the capture; both files are complete when it returns. Nothing when none ran.
    pub fn stop_capture(&self) -> Result<Option<Captured>, Error> {
        let running = self.capture.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((capture, writer)) = running else { return Ok(None) };
        self.wire.set_capture(None);
        let missed = capture.missed();
        drop(capture);
        let packets = writer.join().map_err(|_| "the thread that writes the capture panicked")??;
        Ok(Some(Captured { packets, missed }))
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if let Err(error) = self.stop_capture() {
            eprintln!("thinc-bench: the capture is not complete: {error}");
        }
    }
}

/// What the wire makes of the link: everything, or only the outages where netem makes the rest.
fn wire_part(link: &Link, netem: bool) -> Link {
    let Link { outages, blocks_udp, .. } = link.clone();
    if netem { Link { outages, blocks_udp, ..Link::unlimited() } } else { link.clone() }
}
