//! Path 10/13, the viewer's end over TCP: TLS 1.3 in two halves for two threads, neither of which waits for the other.
//! From client.rs, to the session's socket. Knows bytes; never what they say.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::{ConnectError, Opening, Trust, remaining};
use crate::ALPN_NATIVE;
use crate::pin::SpkiPin;

/// 32 KiB: two TLS records, the most that is taken from the socket at once.
const SOCKET_READ_BYTES: usize = 32 * 1024;

/// 10 s: a network that answers nothing for so long is taken for gone. Longer than a change from one network to another
/// or the worst pause of a mobile one, and about as long as a person waits before doing something about it.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Shaken hands, and not yet let in.
#[derive(Debug)]
pub(super) struct Handshaken {
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
    /// Held while TLS bytes go out, so that two writers cannot swap their records. Taken before `tls`.
    order: Mutex<()>,
}

/// The half that reads; blocks until bytes come.
#[derive(Debug)]
pub(super) struct Reader {
    shared: Arc<Shared>,
    raw: Box<[u8; SOCKET_READ_BYTES]>,
    /// Where in `raw` the bytes lie that rustls has not taken yet.
    raw_rest: std::ops::Range<usize>,
}

/// The half that writes; blocks while the session's socket is full.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
}

/// Tries each address of the name in turn; each gets an equal part of the time that is left.
pub(super) fn open(addresses: &[SocketAddr], authority: &str, deadline: Instant) -> Result<TcpStream, ConnectError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (tried, address) in addresses.iter().enumerate() {
        let share = remaining(deadline) / (addresses.len() - tried) as u32;
        match TcpStream::connect_timeout(address, share.max(Duration::from_millis(1))) {
            Ok(tcp) => {
                tcp.set_nodelay(true)
                    .and_then(|()| notice_silence(&tcp))
                    .map_err(|error| ConnectError::Connect(authority.to_owned(), error))?;
                return Ok(tcp);
            }
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect(authority.to_owned(), last))
}

/// Lets the kernel end a connection whose network has gone away without a word, so that the viewer can look for another
/// way to its session; the session still takes the newest connection if this one was given up too early.
fn notice_silence(tcp: &TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_tcp_user_timeout(tcp, SILENCE_MAX.as_millis() as u32)?;
    rustix::net::sockopt::set_socket_keepalive(tcp, true)?;
    rustix::net::sockopt::set_tcp_keepidle(tcp, SILENCE_MAX / 2)?;
    rustix::net::sockopt::set_tcp_keepintvl(tcp, SILENCE_MAX / 10)?;
    rustix::net::sockopt::set_tcp_keepcnt(tcp, 5)?;
    Ok(())
}

/// Shakes hands over a connection; the key that the session must show is checked before anything is said.
pub(super) fn shake_hands(mut tcp: TcpStream, trust: &Trust, deadline: Instant) -> Result<Handshaken, ConnectError> {
    let (config, verifier) = trust.tls();
    let name = ServerName::try_from(trust.host.clone())
        .unwrap_or_else(|_| ServerName::try_from(super::NO_NAME).expect("a valid name"));
    let mut tls = ClientConnection::new(Arc::new(config), name)
        .map_err(|error| ConnectError::Tls(trust.authority.clone(), error))?;
    let refused = |error: io::Error| {
        let seen = verifier.seen();
        match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
            Some(tls) => trust.refusal(seen, tls.clone()),
            None => ConnectError::Broken(trust.authority.clone(), error),
        }
    };
    while tls.is_handshaking() {
        arm(&tcp, deadline).and_then(|()| tls.complete_io(&mut tcp)).map_err(refused)?;
    }
    if tls.alpn_protocol() != Some(ALPN_NATIVE) {
        return Err(ConnectError::NotThinc(trust.authority.clone()));
    }
    let pin = verifier.seen().expect("the handshake shows a certificate");
    let peer = tcp.peer_addr().map_err(|error| ConnectError::Broken(trust.authority.clone(), error))?;
    Ok(Handshaken { tcp, tls, pin, peer })
}

/// Lets the next system call wait until the deadline and no longer.
fn arm(tcp: &TcpStream, deadline: Instant) -> io::Result<()> {
    let left = remaining(deadline);
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
    }
    tcp.set_read_timeout(Some(left))?;
    tcp.set_write_timeout(Some(left))
}

impl Opening for Handshaken {
    fn pin(&self) -> SpkiPin {
        self.pin
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn takes_datagrams(&self) -> bool {
        false
    }

    fn say(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        self.tls.writer().write_all(bytes)?;
        while self.tls.wants_write() {
            arm(&self.tcp, deadline)?;
            self.tls.write_tls(&mut self.tcp)?;
        }
        Ok(())
    }

    fn hear(&mut self, into: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
        loop {
            arm(&self.tcp, deadline)?;
            let more = self.tls.read_tls(&mut self.tcp)?;
            let state = self.tls.process_new_packets().map_err(as_io)?;
            let (at, count) = (into.len(), state.plaintext_bytes_to_read());
            into.resize(at + count, 0);
            self.tls.reader().read_exact(&mut into[at..])?;
            if count > 0 || more == 0 {
                return Ok(count);
            }
        }
    }

    fn split(self: Box<Self>) -> io::Result<(super::ReadHalf, super::WriteHalf)> {
        self.tcp.set_read_timeout(None)?;
        self.tcp.set_write_timeout(None)?;
        let shared = Arc::new(Shared { tcp: self.tcp, tls: Mutex::new(self.tls), order: Mutex::new(()) });
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
    /// Bytes of the session; 0 when it ended the connection in order, `UnexpectedEof` when it just broke.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let mut ended = false;
        loop {
            // A key update that rustls wants answered leaves with the next write: this half never writes, so that it
            // can never be held up by a session that does not read.
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
                // rustls keeps about one record of plain bytes and takes no more before they are read.
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
        // One piece at a time, so that the TLS layer never holds more than that.
        let piece = &bytes[..bytes.len().min(SOCKET_READ_BYTES)];
        let _order = self.shared.order.lock().expect("no holder of this lock can panic");
        let mut sealed = Vec::with_capacity(piece.len() + 128);
        {
            let mut tls = self.shared.tls();
            tls.writer().write_all(piece)?;
            while tls.wants_write() {
                tls.write_tls(&mut sealed)?;
            }
        }
        (&self.shared.tcp).write_all(&sealed)?;
        Ok(piece.len())
    }

    /// Nothing is held back; there is nothing to flush.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    /// Ends the connection both ways and drops what has been written and not arrived, as far as this machine holds it.
    pub(super) fn abort(&mut self) {
        // Takes effect when the last half has gone, which this makes both do.
        let _ = rustix::net::sockopt::set_socket_linger(&self.shared.tcp, Some(Duration::ZERO));
        let _ = self.shared.tcp.shutdown(Shutdown::Both);
    }

    /// Ends the connection both ways; a `read` that waits in another thread returns.
    pub(super) fn close(&mut self) {
        let mut sealed = Vec::new();
        if let Ok(_order) = self.shared.order.try_lock() {
            let mut tls = self.shared.tls();
            tls.send_close_notify();
            while tls.wants_write() && tls.write_tls(&mut sealed).is_ok() {}
            drop(tls);
            // A courtesy that may not block: where the socket is full, the end of TCP has to do.
            let _ = self.shared.tcp.set_nonblocking(true);
            let _ = (&self.shared.tcp).write(&sealed);
        }
        let _ = self.shared.tcp.shutdown(Shutdown::Both);
    }
}
