//! Two network namespaces, a server's and a client's, joined by one link: programs run at either
//! end, the link can change while they run, and every packet is recorded with its time. Beside the
//! path. Knows packets and their sizes; never their content, nor which system sends them.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::Error;
use crate::net::capture::{Capture, Captured, Writer};
use crate::net::end::{AllowedCongestion, End};
use crate::net::link::Link;
use crate::net::schedule::Schedule;
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

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Server to client.
    Down,
    /// Client to server.
    Up,
}

/// One packet that reached its destination, or will certainly do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it was seen at the client's end: delivered there (down), sent there (up).
    pub at: Instant,
    /// Its direction.
    pub direction: Direction,
    /// Length of the IP packet.
    pub bytes: u32,
    /// Bytes after the TCP or UDP header.
    pub payload: u32,
}

/// The traffic since a [`Mark`].
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// In the order of [`Packet::at`].
    pub packets: Vec<Packet>,
    /// Packets that were lost in both directions: at random, in outages, and at a full queue.
    pub dropped: u64,
    /// Whether the trace, which is bounded, no longer held all of it.
    pub forgotten: bool,
}

impl Traffic {
    /// IP bytes in this direction.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.going(direction).map(|packet| u64::from(packet.bytes)).sum()
    }

    /// Packets in this direction.
    pub fn packets(&self, direction: Direction) -> usize {
        self.going(direction).count()
    }

    fn going(&self, direction: Direction) -> impl Iterator<Item = &Packet> {
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

/// A running link with a namespace at each end; dropping it ends both.
pub struct Testbed {
    link: Mutex<Link>,
    congestion: String,
    slow_start_after_idle: bool,
    client_address: Mutex<Ipv4Addr>,
    capture: Mutex<Option<(Arc<Capture>, Writer)>>,
    // Dropped before the ends: its threads hold the devices and stop before the namespaces end.
    wire: Wire,
    server: End,
    client: End,
}

/// What nearly every Linux host uses; hosts with bbr hide how other systems behave under it.
const CONGESTION_DEFAULT: &str = "cubic";

/// Addresses of the two ends. Every testbed has the same: no packet leaves its two namespaces.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const CLIENT_OTHER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Testbed {
    /// Makes both ends and joins them; `congestion` is the TCP congestion control to use. Without
    /// one it is cubic, or the system's own where a namespace may not use cubic, which is said on
    /// standard error. Call [`crate::net::as_user_namespace`] once before, at the start of
    /// the program.
    pub fn start(link: &Link, congestion: Option<&str>) -> Result<Testbed, Error> {
        // Only while the namespaces start: they keep the setting.
        let (congestion, allowed) = match congestion {
            Some(_) => (congestion, Some(AllowedCongestion::congestion(congestion)?)),
            None => match AllowedCongestion::congestion(Some(CONGESTION_DEFAULT)) {
                Ok(allowed) => (Some(CONGESTION_DEFAULT), Some(allowed)),
                Err(error) => {
                    eprintln!("thinc-bench: uses this system's TCP congestion control: {error}");
                    (None, None)
                }
            },
        };
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
        let slow_start_after_idle = server.slow_start_after_idle();
        if slow_start_after_idle != client.slow_start_after_idle() {
            return Err("the ends differ in net.ipv4.tcp_slow_start_after_idle".into());
        }
        let wire = Wire::start(server_device, client_device, link)?;
        Ok(Testbed {
            link: Mutex::new(link.clone()),
            congestion: server.congestion().to_owned(),
            slow_start_after_idle,
            client_address: Mutex::new(CLIENT),
            capture: Mutex::default(),
            wire,
            server,
            client,
        })
    }

    fn end(&self, side: Side) -> &End {
        match side {
            Side::Server => &self.server,
            Side::Client => &self.client,
        }
    }

    /// A command that runs inside the namespace of `side`. It becomes the program: its process id
    /// is the program's.
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
            Side::Client => *lock(&self.client_address),
        }
    }

    /// Gives the client's end another address, as a laptop gets one that changes its network: the
    /// old one is gone, and connections from it with it, unless their protocol can move.
    pub fn change_client_address(&self) -> Result<(), Error> {
        let mut address = lock(&self.client_address);
        let next = if *address == CLIENT { CLIENT_OTHER } else { CLIENT };
        self.client.change_address(*address, next)?;
        *address = next;
        Ok(())
    }

    /// The TCP congestion control, read back from both ends.
    pub fn congestion(&self) -> &str {
        &self.congestion
    }

    /// Whether TCP begins slow start again after a pause (net.ipv4.tcp_slow_start_after_idle), read
    /// back from both ends.
    pub fn slow_start_after_idle(&self) -> bool {
        self.slow_start_after_idle
    }

    /// TCP's settings in words: "cubic, slow start after idle".
    pub fn tcp_about(&self) -> String {
        self.record().tcp_about()
    }

    /// The link as it is recorded in results, with the settings in force.
    pub fn record(&self) -> LinkRecord {
        let link = self.link();
        LinkRecord {
            about: link.about(),
            rtt_ms: link.rtt.as_secs_f64() * 1e3,
            jitter_ms: link.jitter.as_secs_f64() * 1e3,
            rate_bps: link.rate_bps,
            queue_bytes: link.queue_bytes,
            loss: link.loss,
            congestion: self.congestion.clone(),
            slow_start_after_idle: Some(self.slow_start_after_idle),
            emulator: "tun".into(),
        }
    }

    /// Whether the link's threads have real-time priority; if not, a busy machine may slow the
    /// link.
    pub fn real_time(&self) -> bool {
        self.wire.real_time()
    }

    /// The link as it is now, or as it will be when the running schedule has ended.
    pub fn link(&self) -> Link {
        lock(&self.link).clone()
    }

    /// Changes the link while programs run, and returns when the change is in force; packets in
    /// flight arrive as before.
    pub fn set_link(&self, link: &Link) {
        self.wire.set_link(link);
        *lock(&self.link) = link.clone();
    }

    /// Lets the link change from now on, while programs run, and returns when that has begun.
    pub fn play(&self, schedule: &Schedule) {
        self.wire.play(schedule);
        *lock(&self.link) = schedule.last().clone();
    }

    /// Nothing passes from `cut(true)` to `cut(false)`. Packets that wait for the bottleneck are
    /// lost; those that have passed it arrive.
    pub fn cut(&self, cut: bool) {
        self.wire.cut(cut);
    }

    /// The current end of the trace.
    pub fn mark(&self) -> Mark {
        Mark { at: Instant::now() }
    }

    /// The traffic at the client's end since then; the last millisecond may still be missing.
    pub fn since(&self, mark: &Mark) -> Traffic {
        let mut traffic = self.wire.trace().since(mark.at);
        traffic.packets.sort_by_key(|packet| packet.at);
        traffic
    }

    /// Packets that were sent and have not arrived yet, in both directions.
    pub fn in_flight(&self) -> usize {
        self.wire.in_flight()
    }

    /// An error when an end or a direction of the link has stopped.
    pub fn check(&mut self) -> Result<(), Error> {
        self.server.check()?;
        self.client.check()?;
        self.wire.check()
    }

    /// Writes `server.pcap` and `client.pcap` into a folder: what each end sends and receives from
    /// now on, with the times.
    pub fn start_capture(&self, folder: &Path) -> Result<(), Error> {
        self.stop_capture()?;
        let (capture, writer) = Capture::start(folder)?;
        let capture = Arc::new(capture);
        self.wire.set_capture(Some(capture.clone()));
        *lock(&self.capture) = Some((capture, writer));
        Ok(())
    }

    /// Ends the capture; both files are complete when this returns. None if no capture ran.
    pub fn stop_capture(&self) -> Result<Option<Captured>, Error> {
        let running = lock(&self.capture).take();
        let Some((capture, writer)) = running else { return Ok(None) };
        self.wire.set_capture(None);
        let missed = capture.missed();
        drop(capture);
        let packets =
            writer.join().map_err(|_| "the thread that writes the capture panicked")??;
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
