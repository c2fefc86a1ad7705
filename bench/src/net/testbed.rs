//! Two network namespaces, a server's and a client's, joined by one link: programs run at either end, the link changes
//! while they run, and every packet is known with its time.
//! Beside the path. Knows packets and their sizes; never what is in them, nor which system sends them.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Error;
use crate::net::link::Link;
use crate::results::LinkRecord;

/// One end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// One packet that reached its destination.
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
    /// Packets that were lost on the way, in both directions: at random, in outages, and before a full queue.
    pub dropped: u64,
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
        self.going(direction).last().copied()
    }

    fn going(&self, direction: Direction) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(move |packet| packet.direction == direction)
    }
}

/// A point in the trace.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    _packets: u64,
}

/// A running link with a namespace at each end; both go with it.
pub struct Testbed {
    link: Link,
    congestion: String,
}

impl Testbed {
    /// Makes both ends and joins them; `congestion` is the TCP congestion control to use, or else the system's own.
    pub fn start(link: &Link, congestion: Option<&str>) -> Result<Testbed, Error> {
        Err(format!("no testbed yet for {} with {congestion:?}", link.name).into())
    }

    /// A command that runs inside the namespace of `side`.
    pub fn command(&self, _side: Side, program: impl AsRef<OsStr>) -> Command {
        Command::new(program)
    }

    /// The IP address of `side`.
    pub fn address(&self, side: Side) -> Ipv4Addr {
        match side {
            Side::Server => Ipv4Addr::new(10, 77, 0, 1),
            Side::Client => Ipv4Addr::new(10, 77, 0, 2),
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
            emulator: "tun".into(),
        }
    }

    /// The link as it is now.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Makes it another link while programs run; what is under way arrives as it would have.
    pub fn set_link(&mut self, link: &Link) -> Result<(), Error> {
        self.link = link.clone();
        Ok(())
    }

    /// Nothing passes from `cut(true)` to `cut(false)`.
    pub fn cut(&self, _cut: bool) {}

    /// Where the trace stands now.
    pub fn mark(&self) -> Mark {
        Mark { _packets: 0 }
    }

    /// What reached its destination since.
    pub fn since(&self, _mark: &Mark) -> Traffic {
        Traffic::default()
    }

    /// Writes `server.pcap` and `client.pcap` into a folder: what each end sent and received, from now on.
    pub fn start_capture(&self, folder: &Path) -> Result<(), Error> {
        Err(format!("no capture into {}", folder.display()).into())
    }
}
