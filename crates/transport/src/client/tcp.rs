//! Path 10/13, the viewer's end over TCP: TLS 1.3 in two halves for two threads, neither of which
//! waits for the other.
//! From client.rs, to the session's socket. Knows bytes; never what they mean.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::{ConnectError, SecureTransport, Trust, remaining};
use crate::pin::SpkiPin;
use crate::socket;

/// 32 KiB: two TLS records, the most that is taken from the socket at once.
const SOCKET_READ_BYTES: usize = 32 * 1024;

/// 10 s: a network that answers nothing for so long counts as gone. That is longer than a change of
/// networks or the worst pause of a mobile one, and about as long as a person waits before doing
/// something about it.
const UNRESPONSIVE_MAX: Duration = Duration::from_secs(10);

/// A connection whose TLS handshake is complete, before authentication.
#[derive(Debug)]
pub(super) struct SecureStream {
    tcp: TcpStream,
    tls: ClientConnection,
    pin: SpkiPin,
    peer: SocketAddr,
}

#[derive(Debug)]
struct Shared {
    tcp: TcpStream,
    /// Held for moments only, never during a system call.
    tls: Mutex<ClientConnection>,
    /// Held while TLS records are written, so that two writers cannot swap theirs. Locked before
    /// `tls`.
    write_order: Mutex<()>,
}

/// The half that reads; blocks until bytes come.
#[derive(Debug)]
pub(super) struct Reader {
    shared: Arc<Shared>,
    raw: Box<[u8; SOCKET_READ_BYTES]>,
    /// The bytes in `raw` that rustls has not taken yet.
    raw_rest: std::ops::Range<usize>,
}

/// The half that writes; blocks while the session's socket is full.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
}

/// Tries each address of the name in turn; each gets an equal part of the remaining time.
pub(super) fn open(
    addresses: &[SocketAddr],
    authority: &str,
    deadline: Instant,
) -> Result<TcpStream, ConnectError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (tried, address) in addresses.iter().enumerate() {
        let time = remaining(deadline) / (addresses.len() - tried) as u32;
        match TcpStream::connect_timeout(address, time.max(Duration::from_millis(1))) {
            Ok(tcp) => {
                tcp.set_nodelay(true)
                    .and_then(|()| enable_liveness_detection(&tcp))
                    .map_err(|error| ConnectError::Connect(authority.to_owned(), error))?;
                return Ok(tcp);
            }
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect(authority.to_owned(), last))
}

/// True if the other end is on this machine: nothing is lost on the way, however busy it is.
pub(super) fn is_on_this_machine(tcp: &TcpStream) -> bool {
    let ends = (tcp.local_addr(), tcp.peer_addr());
    let (Ok(local), Ok(peer)) = ends else { return false };
    peer.ip().to_canonical().is_loopback() || local.ip() == peer.ip()
}

/// Makes the kernel end a connection whose network has silently gone away, so that the viewer
/// reconnects. If that is too early, the session still accepts the newest connection.
fn enable_liveness_detection(tcp: &TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_tcp_user_timeout(tcp, UNRESPONSIVE_MAX.as_millis() as u32)?;
    rustix::net::sockopt::set_socket_keepalive(tcp, true)?;
    rustix::net::sockopt::set_tcp_keepidle(tcp, UNRESPONSIVE_MAX / 2)?;
    rustix::net::sockopt::set_tcp_keepintvl(tcp, UNRESPONSIVE_MAX / 10)?;
    rustix::net::sockopt::set_tcp_keepcnt(tcp, 5)?;
    Ok(())
}

/// Completes the TLS handshake for this protocol; the server's key is checked before anything is
/// sent.
pub(super) fn handshake(
    tcp: TcpStream,
    trust: &Trust,
    protocol: &[u8],
    deadline: Instant,
) -> Result<SecureStream, ConnectError> {
    let (mut config, verifier) = trust.tls();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from(trust.host.clone())
        .unwrap_or_else(|_| ServerName::try_from(super::PLACEHOLDER_NAME).expect("a valid name"));
    let mut tls = ClientConnection::new(Arc::new(config), name)
        .map_err(|error| ConnectError::Tls(trust.authority.clone(), error))?;
    let refused = |error: io::Error| {
        let seen = verifier.seen();
        match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
            Some(tls) => trust.handshake_error(seen, tls.clone()),
            None => ConnectError::Broken(trust.authority.clone(), error),
        }
    };
    while tls.is_handshaking() {
        until_done(&tcp, deadline, |tcp| tls.complete_io(&mut &*tcp)).map_err(refused)?;
    }
    if tls.alpn_protocol() != Some(protocol) {
        return Err(ConnectError::NotThinc(trust.authority.clone()));
    }
    let pin = verifier.seen().expect("the handshake shows a certificate");
    let peer =
        tcp.peer_addr().map_err(|error| ConnectError::Broken(trust.authority.clone(), error))?;
    Ok(SecureStream { tcp, tls, pin, peer })
}

/// Repeats a call that a signal has interrupted: with a time-out of the socket's, the kernel does
/// not do so itself, whatever the handler asks for (signal(7)).
fn until_done<T>(
    tcp: &TcpStream,
    deadline: Instant,
    mut call: impl FnMut(&TcpStream) -> io::Result<T>,
) -> io::Result<T> {
    loop {
        set_deadline(tcp, deadline)?;
        match call(tcp) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Limits the next system calls to the time until the deadline.
fn set_deadline(tcp: &TcpStream, deadline: Instant) -> io::Result<()> {
    let left = remaining(deadline);
    if left.is_zero() {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the time-out of the attempt has passed",
        ));
    }
    tcp.set_read_timeout(Some(left))?;
    tcp.set_write_timeout(Some(left))
}

impl SecureTransport for SecureStream {
    fn pin(&self) -> SpkiPin {
        self.pin
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn supports_datagrams(&self) -> bool {
        false
    }

    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        self.tls.writer().write_all(bytes)?;
        while self.tls.wants_write() {
            until_done(&self.tcp, deadline, |tcp| self.tls.write_tls(&mut &*tcp))?;
        }
        Ok(())
    }

    fn receive(&mut self, into: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
        loop {
            let more = until_done(&self.tcp, deadline, |tcp| self.tls.read_tls(&mut &*tcp))?;
            let state = self.tls.process_new_packets().map_err(as_io)?;
            let (at, count) = (into.len(), state.plaintext_bytes_to_read());
            into.resize(at + count, 0);
            self.tls.reader().read_exact(&mut into[at..])?;
            if count > 0 || more == 0 {
                return Ok(count);
            }
        }
    }

    fn split(self: Box<Self>, _leftover: u64) -> io::Result<(super::ReadHalf, super::WriteHalf)> {
        self.tcp.set_read_timeout(None)?;
        self.tcp.set_write_timeout(None)?;
        let shared = Arc::new(Shared {
            tcp: self.tcp,
            tls: Mutex::new(self.tls),
            write_order: Mutex::new(()),
        });
        let raw = Box::new([0; SOCKET_READ_BYTES]);
        let reader = Reader { shared: shared.clone(), raw, raw_rest: 0..0 };
        Ok((super::ReadHalf::Tcp(reader), super::WriteHalf::Tcp(Writer { shared })))
    }
}

impl Shared {
    fn tls(&self) -> MutexGuard<'_, ClientConnection> {
        self.tls.lock().expect("no holder of this lock can panic")
    }
}

fn as_io(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Read for Reader {
    /// Bytes from the session; 0 if it closed the connection in order, `UnexpectedEof` if the
    /// connection broke.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let mut ended = false;
        loop {
            // The answer to a key update is sent with the next write: this half never writes, so
            // that a session that does not read cannot block it.
            match self.shared.tls().reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !ended => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                other => return other,
            }
            if self.raw_rest.is_empty() {
                let count = match (&self.shared.tcp).read(&mut self.raw[..]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    other => other?,
                };
                ended = count == 0;
                self.raw_rest = 0..count;
            }
            let mut rest = &self.raw[self.raw_rest.clone()];
            let mut tls = self.shared.tls();
            loop {
                tls.read_tls(&mut rest)?;
                let state = tls.process_new_packets().map_err(as_io)?;
                // rustls buffers about one decrypted record and accepts no more before that is
                // read.
                if rest.is_empty() || state.plaintext_bytes_to_read() > 0 {
                    break;
                }
            }
            self.raw_rest.start = self.raw_rest.end - rest.len();
        }
    }
}

impl Write for Writer {
    /// Takes all of `bytes`, encrypts and sends it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // One piece at a time: the TLS layer never buffers more than that.
        let piece = &bytes[..bytes.len().min(SOCKET_READ_BYTES)];
        let _write_order =
            self.shared.write_order.lock().expect("no holder of this lock can panic");
        let mut records = Vec::with_capacity(piece.len() + 128);
        {
            let mut tls = self.shared.tls();
            tls.writer().write_all(piece)?;
            while tls.wants_write() {
                tls.write_tls(&mut records)?;
            }
        }
        (&self.shared.tcp).write_all(&records)?;
        Ok(piece.len())
    }

    /// Nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    /// The address of this end.
    pub(super) fn local_address(&self) -> Option<IpAddr> {
        self.shared.tcp.local_addr().ok().map(|address| address.ip())
    }

    /// Segments of this end that the path has lost.
    pub(super) fn lost_segments(&self) -> u64 {
        socket::lost_segments(&self.shared.tcp)
    }

    /// Closes both directions and drops written bytes that this machine still holds.
    pub(super) fn abort(&mut self) {
        // Takes effect when both halves are dropped, which the shutdown makes both threads do.
        let _ = rustix::net::sockopt::set_socket_linger(&self.shared.tcp, Some(Duration::ZERO));
        let _ = self.shared.tcp.shutdown(Shutdown::Both);
    }

    /// Closes both directions; a `read` that waits in another thread returns.
    pub(super) fn close(&mut self) {
        let mut records = Vec::new();
        if let Ok(_write_order) = self.shared.write_order.try_lock() {
            let mut tls = self.shared.tls();
            tls.send_close_notify();
            while tls.wants_write() && tls.write_tls(&mut records).is_ok() {}
            drop(tls);
            // The close_notify alert must not block: if the socket is full, TCP's own end has to
            // suffice.
            let _ = self.shared.tcp.set_nonblocking(true);
            let _ = (&self.shared.tcp).write(&records);
        }
        let _ = self.shared.tcp.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_signal_ends_no_handshake_and_a_deadline_does() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let soon = Instant::now() + Duration::from_secs(60);
        let mut signals = 2;
        let result = until_done(&tcp, soon, |_| {
            if signals == 0 {
                return Ok(7);
            }
            signals -= 1;
            Err(io::ErrorKind::Interrupted.into())
        });
        assert_eq!(result.unwrap(), 7);
        assert!(tcp.read_timeout().unwrap().is_some_and(|left| left <= Duration::from_secs(60)));
        let interrupted = |_: &TcpStream| Err::<(), _>(io::ErrorKind::Interrupted.into());
        let error = until_done(&tcp, Instant::now(), interrupted).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
