//! UDP ports on demand: a viewer that came through ssh is offered one, over which it connects again
//! by QUIC. From `thinc session --stdio`, which asks on a private Unix socket, to front.rs, which
//! serves the connections as those of the session's own port. Knows how long a port is needed;
//! never what its connections carry.
//!
//! The session process owns these sockets, not the supervisor: each is opened for one viewer. A
//! restarted session process opens them again (a list of their addresses is in the session's
//! folder), so that its stateless resets make the viewers reconnect at once.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thinc_transport::identity::Identity;
use thinc_transport::offer::{LINE_BYTES_MAX, Offer, OfferRequest, UdpPorts, answer_line};
use thinc_transport::quic::QuicListener;
use thinc_transport::token::{SessionSecret, random};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use crate::front::{ACCEPT_PAUSE, Front};
use crate::gate::AUTH_TIMEOUT;
use crate::local;
use crate::native::ConnectionEnd;

/// 16: as many ports at once as there may be viewers.
const PORTS_OPEN_MAX: usize = 16;
/// 2 s: from a request's connection to its last byte.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// 30 s: how long a port waits for its viewer. The viewer uses it at once, and gives up after 10 s.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// After the viewer has closed its connection: it may be about to open another one, such as a
/// replacement for a connection that it gave up.
const CLOSED_TIMEOUT: Duration = Duration::from_secs(5);
/// 10 min: how long a port waits for a viewer whose path carried nothing any more: a tunnel, a
/// lift, a laptop that was closed for a moment. After that the viewer uses ssh again.
const LOST_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Opens ports.
pub(crate) struct PortOpener {
    front: Front,
    identity: Identity,
    secret: SessionSecret,
    open: Mutex<OpenPorts>,
}

/// The open ports, and the file that lists them for the next session process.
struct OpenPorts {
    addresses: HashSet<SocketAddr>,
    /// None: this session opens no ports.
    file: Option<PathBuf>,
}

/// What happened on a port.
#[derive(Debug)]
enum PortEvent {
    /// A connection was authenticated.
    Entered,
    /// It has ended.
    Left(ConnectionEnd),
}

/// A port on demand, for a connection that comes to it.
pub(crate) struct PortUse(mpsc::UnboundedSender<PortEvent>);

/// An authenticated connection of a port; dropping it frees the port.
pub(crate) struct InUse {
    events: mpsc::UnboundedSender<PortEvent>,
    end: ConnectionEnd,
}

impl PortUse {
    /// The connection was authenticated.
    pub(crate) fn enter(self) -> InUse {
        let _ = self.0.send(PortEvent::Entered);
        // If its task is aborted, the session has closed it.
        InUse { events: self.0, end: ConnectionEnd::Closed }
    }
}

impl InUse {
    /// How the connection has ended.
    pub(crate) fn set_end(&mut self, end: ConnectionEnd) {
        self.end = end;
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let _ = self.events.send(PortEvent::Left(self.end));
    }
}

/// How long a port stays open; times are arguments.
#[derive(Debug)]
struct Lease {
    /// Authenticated connections.
    in_use: usize,
    /// When the port is closed, if it is not in use.
    ends_at: Instant,
    /// A viewer has used it.
    was_used: bool,
}

impl Lease {
    /// Of a new port.
    fn offered(now: Instant) -> Lease {
        Lease { in_use: 0, ends_at: now + ATTEMPT_TIMEOUT, was_used: false }
    }

    /// Of a port that an earlier session process had open.
    fn resumed(now: Instant) -> Lease {
        Lease { in_use: 0, ends_at: now + LOST_TIMEOUT, was_used: true }
    }

    fn handle(&mut self, event: &PortEvent, now: Instant) {
        match event {
            PortEvent::Entered => {
                self.in_use += 1;
                self.was_used = true;
            }
            PortEvent::Left(end) => {
                self.in_use -= 1;
                self.ends_at = now
                    + match end {
                        ConnectionEnd::Closed => CLOSED_TIMEOUT,
                        ConnectionEnd::Lost => LOST_TIMEOUT,
                    };
            }
        }
    }

    /// The tunnel over which the port was offered has ended. Its viewer may just be authenticating
    /// here; one that has not begun never will.
    fn handle_tunnel_end(&mut self, now: Instant) {
        if !self.was_used {
            self.ends_at = self.ends_at.min(now + AUTH_TIMEOUT);
        }
    }

    /// When the port is closed; `None` while it is in use.
    fn ends_at(&self) -> Option<Instant> {
        (self.in_use == 0).then_some(self.ends_at)
    }
}

impl OpenPorts {
    /// Writes the list; it is complete at any moment.
    fn write(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let lines: String = self.addresses.iter().map(|address| format!("{address}\n")).collect();
        let new = file.with_extension("new");
        std::fs::write(&new, lines)?;
        std::fs::rename(&new, file)
    }
}

impl PortOpener {
    /// `file`: the list of open ports, of this session process and the next; none: no ports.
    pub(crate) fn new(
        front: Front,
        identity: Identity,
        secret: SessionSecret,
        file: Option<PathBuf>,
    ) -> PortOpener {
        let open = OpenPorts { addresses: HashSet::new(), file };
        PortOpener { front, identity, secret, open: Mutex::new(open) }
    }

    fn open(&self) -> MutexGuard<'_, OpenPorts> {
        self.open.lock().expect("no holder of this lock can panic")
    }

    /// Opens the ports of an earlier session process, and serves requests without end.
    pub(crate) async fn serve(self, requests: UnixListener) {
        let requests = requests
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixListener::from_std(requests));
        let requests = match requests {
            Ok(requests) => requests,
            Err(error) => {
                warn!("cannot listen for requests for UDP ports: {error}");
                return;
            }
        };
        let opener = Arc::new(self);
        opener.resume();
        loop {
            match requests.accept().await {
                Ok((stream, _)) => {
                    if local::trusted_peer(&stream).is_some() {
                        tokio::spawn(opener.clone().serve_request(stream));
                    }
                }
                Err(error) => {
                    warn!("cannot accept a request for a UDP port: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn resume(self: &Arc<Self>) {
        let Some(file) = self.open().file.clone() else { return };
        // The first session process finds no file.
        let Ok(text) = std::fs::read_to_string(file) else { return };
        let addresses = text.lines().filter_map(|line| line.parse().ok());
        for address in addresses.take(PORTS_OPEN_MAX) {
            match bind(address).and_then(|socket| self.listen(socket)) {
                Ok((listener, address)) => {
                    info!("UDP {address} is open again");
                    let port = self.clone().serve_port(listener, address, Lease::resumed, None);
                    tokio::spawn(port);
                }
                // Its viewers use ssh again.
                Err(error) => warn!("cannot open UDP {address} again: {error}"),
            }
        }
    }

    /// Answers a request; the port is open at least as long as the tunnel needs it.
    async fn serve_request(self: Arc<Self>, mut stream: UnixStream) {
        let line = match timeout(REQUEST_TIMEOUT, read_line(&mut stream)).await {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => return warn!("a request for a UDP port: {error}"),
            Err(_) => return warn!("a request for a UDP port was not complete in time"),
        };
        let opened = match OfferRequest::parse(&line) {
            Ok(request) => self.open_port(request).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let answer = match &opened {
            Ok((_, address)) => {
                let (pin, token) = (self.identity.pin(), self.front.mint_offer_token());
                Ok(Offer { address: *address, pin, token })
            }
            Err(reason) => Err(reason.clone()),
        };
        if let Err(reason) = &answer {
            info!("no UDP port for a viewer: {reason}");
        }
        // One that asked and has left does not come by QUIC either: its port ends like others.
        let _ = stream.write_all(answer_line(&answer).as_bytes()).await;
        if let Ok((listener, address)) = opened {
            info!("UDP {address} is open for a viewer");
            self.serve_port(listener, address, Lease::offered, Some(stream)).await;
        }
    }

    /// Opens the first free port of the range; they are tried from a random one on, so that a
    /// packet which is meant for an earlier viewer of another session does not come to this one.
    fn open_port(&self, request: OfferRequest) -> io::Result<(QuicListener, SocketAddr)> {
        if self.open().file.is_none() {
            return Err(io::Error::other("the session was started with --quic off"));
        }
        if self.open().addresses.len() >= PORTS_OPEN_MAX {
            return Err(io::Error::other(format!(
                "{PORTS_OPEN_MAX} UDP ports are open for other viewers of this session"
            )));
        }
        let socket = bind_one_of(request.address, request.ports, u64::from_ne_bytes(random()))?;
        self.listen(socket)
    }

    fn listen(&self, socket: UdpSocket) -> io::Result<(QuicListener, SocketAddr)> {
        let address = socket.local_addr()?;
        Ok((QuicListener::native(socket, &self.identity, &self.secret)?, address))
    }

    /// Serves a port until nobody needs it. `tunnel`: its end is that of the tunnel over which the
    /// port was offered.
    async fn serve_port(
        self: Arc<Self>,
        listener: QuicListener,
        address: SocketAddr,
        lease: fn(Instant) -> Lease,
        mut tunnel: Option<UnixStream>,
    ) {
        self.set_open(address, true);
        let mut lease = lease(Instant::now());
        let (send, mut events) = mpsc::unbounded_channel();
        loop {
            let ends_at = lease.ends_at();
            tokio::select! {
                incoming = listener.accept() => {
                    let Some(incoming) = incoming else { break };
                    self.front.admit_quic(incoming, Some(PortUse(send.clone()))).await;
                }
                Some(event) = events.recv() => lease.handle(&event, Instant::now()),
                () = ended(&mut tunnel) => {
                    tunnel = None;
                    lease.handle_tunnel_end(Instant::now());
                }
                () = until(ends_at) => break,
            }
        }
        listener.close();
        self.set_open(address, false);
        info!("UDP {address} is closed");
    }

    fn set_open(&self, address: SocketAddr, is_open: bool) {
        let mut open = self.open();
        if is_open {
            open.addresses.insert(address);
        } else {
            open.addresses.remove(&address);
        }
        if let Err(error) = open.write() {
            // Viewers of this port use ssh again if this process dies.
            warn!("cannot write the list of UDP ports: {error}");
        }
    }
}

/// Waits for an instant; forever without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits until the other end of the tunnel's request has closed it; forever without one.
async fn ended(tunnel: &mut Option<UnixStream>) {
    let Some(stream) = tunnel else { return std::future::pending().await };
    let mut surplus = [0; 64];
    while stream.read(&mut surplus).await.is_ok_and(|count| count > 0) {}
}

/// Reads up to the line break, which is included.
async fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let byte = stream.read_u8().await?;
        line.push(byte);
        if byte == b'\n' {
            return Ok(line);
        }
        if line.len() == LINE_BYTES_MAX {
            let words = format!("it has no line break within {LINE_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A socket on the first free port of the range, from one that `seed` chooses on.
fn bind_one_of(address: IpAddr, ports: UdpPorts, seed: u64) -> io::Result<UdpSocket> {
    let ports_in_order: Vec<u16> = ports.iter().collect();
    let from = (seed % ports_in_order.len() as u64) as usize;
    let (before, first) = ports_in_order.split_at(from);
    for &port in first.iter().chain(before) {
        match bind(SocketAddr::new(address, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => {
                let words = format!("cannot open UDP port {port} on {address}: {error}");
                return Err(io::Error::new(error.kind(), words));
            }
            Ok(socket) => return Ok(socket),
        }
    }
    let words = format!("the UDP ports {ports} on {address} are all in use (others: --udp-ports)");
    Err(io::Error::new(io::ErrorKind::AddrInUse, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn any_free_port_of_the_range_is_found_and_a_full_range_is_named() {
        let taken = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let only: UdpPorts = port.to_string().parse().unwrap();
        let words = bind_one_of(LOOPBACK, only, 7).unwrap_err().to_string();
        assert!(
            words.contains(&format!("{port}-{port}")) && words.contains("all in use"),
            "{words}"
        );
        let range: UdpPorts = format!("{}-{}", port - 1, port).parse().unwrap();
        for seed in 0..2 {
            // The other port may be another program's: then the range is full.
            if let Ok(socket) = bind_one_of(LOOPBACK, range, seed) {
                assert_eq!(socket.local_addr().unwrap().port(), port - 1);
            }
        }
        drop(taken);
        let found = bind_one_of(LOOPBACK, only, u64::MAX).unwrap();
        assert_eq!(found.local_addr().unwrap(), SocketAddr::new(LOOPBACK, port));
        let elsewhere = bind_one_of("192.0.2.1".parse().unwrap(), only, 0).unwrap_err();
        assert!(elsewhere.to_string().contains("192.0.2.1"), "{elsewhere}");
    }

    #[test]
    fn a_port_is_open_for_the_attempt_the_use_and_an_outage() {
        let now = Instant::now();
        let mut lease = Lease::offered(now);
        assert_eq!(lease.ends_at(), Some(now + ATTEMPT_TIMEOUT));
        lease.handle_tunnel_end(now);
        assert_eq!(lease.ends_at(), Some(now + AUTH_TIMEOUT), "it may be authenticating");
        lease.handle(&PortEvent::Entered, now);
        assert_eq!(lease.ends_at(), None);
        lease.handle(&PortEvent::Entered, now);
        lease.handle(&PortEvent::Left(ConnectionEnd::Lost), now);
        assert_eq!(lease.ends_at(), None, "a second connection has replaced the first");
        lease.handle(&PortEvent::Left(ConnectionEnd::Lost), now);
        assert_eq!(lease.ends_at(), Some(now + LOST_TIMEOUT));
        lease.handle(&PortEvent::Entered, now);
        lease.handle(&PortEvent::Left(ConnectionEnd::Closed), now);
        assert_eq!(lease.ends_at(), Some(now + CLOSED_TIMEOUT));
        lease.handle_tunnel_end(now);
        assert_eq!(
            lease.ends_at(),
            Some(now + CLOSED_TIMEOUT),
            "the tunnel does not count any more"
        );
        assert_eq!(Lease::resumed(now).ends_at(), Some(now + LOST_TIMEOUT));
    }

    #[tokio::test]
    async fn a_request_without_an_end_is_refused() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        far.write_all(&[b'x'; LINE_BYTES_MAX]).await.unwrap();
        assert!(read_line(&mut near).await.is_err());
        let (mut near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"offer\nmore").await.unwrap();
        assert_eq!(read_line(&mut near).await.unwrap(), b"offer\n");
    }
}
