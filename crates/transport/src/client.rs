//! Path 10/13, the viewer's end: from the session's socket, to viewer-core's `handle_bytes`, and back.
//! Connects, checks the pinned key, authenticates; then two halves for two threads, neither of which waits for the other.
//! Knows bytes and the authenticating frames; everything after `AuthOk` passes through unread.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::PREAUTH_FRAME_BYTES_MAX;
use thinc_protocol::session::{CloseCode, SessionMessage};
use thiserror::Error;

use crate::link::Link;
use crate::pin::{KnownHosts, PinVerifier, SpkiPin};
use crate::{ALPN_NATIVE, base64url};

/// 32 KiB: two TLS records, the most that is taken from the socket at once.
const SOCKET_READ_BYTES: usize = 32 * 1024;

/// 10 s: a network that answers nothing for so long is taken for gone. Longer than a change from one network to another
/// or the worst pause of a mobile one, and about as long as a person waits before doing something about it.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What opens a session.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// From a link; good once.
    Token(Vec<u8>),
    /// From an earlier connection; good until the session ends.
    SessionKey(Vec<u8>),
}

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Longest time for all of it: name, TCP, TLS and authentication.
    pub timeout: Duration,
    /// Where keys of links without a pin are remembered; `None`: such links are refused.
    pub known_hosts: Option<PathBuf>,
    /// Instead of the link's token, to come back.
    pub session_key: Option<Vec<u8>>,
}

impl Default for ConnectOptions {
    /// 10 s, which is also the time a session waits for a viewer to say who it is; no remembered keys.
    fn default() -> ConnectOptions {
        ConnectOptions { timeout: Duration::from_secs(10), known_hosts: None, session_key: None }
    }
}

/// Why there is no connection, in words a person can act on.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("the name {0} has no address: {1}")]
    Resolve(String, io::Error),
    /// Nothing answers there.
    #[error("{0} does not answer: {1}; is the session running, and is its port reachable from here?")]
    Connect(String, io::Error),
    /// The key is another one than the link says.
    #[error(
        "{authority} shows the key {seen}, but the link says {expected}: \
         this is another server, or someone stands in between; nothing was sent"
    )]
    WrongKey {
        /// Where.
        authority: String,
        /// What it showed.
        seen: SpkiPin,
        /// What the link pins.
        expected: SpkiPin,
    },
    /// The key is another one than the first time.
    #[error(
        "{authority} shows the key {seen}, but showed {expected} before: this is another server, or someone stands \
         in between; nothing was sent. If the key was changed on purpose, remove its line from {store}"
    )]
    ChangedKey {
        /// Where.
        authority: String,
        /// What it showed.
        seen: SpkiPin,
        /// What was remembered.
        expected: SpkiPin,
        /// The file of known hosts.
        store: String,
    },
    /// Neither the link nor a file of known hosts can say which key is right.
    #[error("the link names no key (\"k=\"), and there is no file to remember one in: was the link copied whole?")]
    NoPin,
    /// The file of known hosts cannot be used.
    #[error("cannot use {0}: {1}")]
    KnownHosts(String, io::Error),
    /// TLS failed otherwise.
    #[error("{0} does not speak TLS 1.3 as a thinc session does: {1}")]
    Tls(String, rustls::Error),
    /// TLS is there, but not thinc.
    #[error("{0} is no thinc session (it does not offer \"thinc/1\")")]
    NotThinc(String),
    /// The link has no token.
    #[error("the link has no token (\"t=\"): run `thinc link NAME` on the server for a whole one")]
    NoToken,
    /// The session refused, in its own words.
    #[error("{reason}")]
    Refused {
        /// For programs.
        code: CloseCode,
        /// For people.
        reason: String,
    },
    /// The session said something that is no answer.
    #[error("{0} answered with something that is not thinc's protocol: {1}")]
    Protocol(String, String),
    /// The connection broke on the way.
    #[error("the connection to {0} broke before it was ready: {1}")]
    Broken(String, io::Error),
}

/// A connection that has authenticated; both ways now carry frames of the protocol.
#[derive(Debug)]
pub struct Connection {
    /// Opens the session again after the connection broke, until the session ends.
    pub session_key: Vec<u8>,
    /// Where the session is.
    pub peer: SocketAddr,
    /// The key it showed.
    pub pin: SpkiPin,
    shared: Arc<Shared>,
    /// Plain bytes that came with the last authenticating frame.
    early: Vec<u8>,
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
pub struct Reader {
    shared: Arc<Shared>,
    early: Vec<u8>,
    early_at: usize,
    raw: Box<[u8; SOCKET_READ_BYTES]>,
    /// Where in `raw` the bytes lie that rustls has not taken yet.
    raw_rest: std::ops::Range<usize>,
}

/// The half that writes; blocks while the session's socket is full.
#[derive(Clone, Debug)]
pub struct Writer {
    shared: Arc<Shared>,
}

/// Connects to the session the link names and authenticates; blocks for at most `options.timeout`.
pub fn connect(link: &Link, options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let authority = link.authority();
    let deadline = Instant::now() + options.timeout;
    let credential = match (&options.session_key, &link.token) {
        (Some(key), _) => Credential::SessionKey(key.clone()),
        (None, Some(token)) => Credential::Token(token.clone()),
        (None, None) => return Err(ConnectError::NoToken),
    };
    let known_hosts = options.known_hosts.as_ref().map(KnownHosts::new);
    let store_error = |error| {
        let path = options.known_hosts.as_ref().map(|path| path.display().to_string());
        ConnectError::KnownHosts(path.unwrap_or_default(), error)
    };
    let remembered = match (&link.pin, &known_hosts) {
        (Some(_), _) => None,
        (None, Some(store)) => store.pin_of(&authority).map_err(store_error)?,
        (None, None) => return Err(ConnectError::NoPin),
    };
    let expected = link.pin.or(remembered);

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(PinVerifier::new(expected, provider.clone()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has the suites of TLS 1.3")
        .dangerous() // the word is rustls's: the verifier takes one public key, which is stricter than any chain
        .with_custom_certificate_verifier(verifier.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN_NATIVE.to_vec()];
    // A ticket would let a second connection skip the proof that the server holds the pinned key.
    config.resumption = rustls::client::Resumption::disabled();

    let mut tcp = open(link, &authority, deadline)?;
    let name = ServerName::try_from(link.host.clone())
        .unwrap_or_else(|_| ServerName::try_from("thinc.invalid").expect("a valid name"));
    let mut tls =
        ClientConnection::new(Arc::new(config), name).map_err(|error| ConnectError::Tls(authority.clone(), error))?;

    let refused = |error: io::Error| match (error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()), expected) {
        (Some(rustls::Error::InvalidCertificate(_)), Some(expected))
            if verifier.seen().is_some_and(|s| s != expected) =>
        {
            let seen = verifier.seen().expect("just seen");
            match &known_hosts {
                Some(store) if link.pin.is_none() => ConnectError::ChangedKey {
                    authority: authority.clone(),
                    seen,
                    expected,
                    store: store.path().display().to_string(),
                },
                _ => ConnectError::WrongKey { authority: authority.clone(), seen, expected },
            }
        }
        (Some(rustls::Error::NoApplicationProtocol), _) => ConnectError::NotThinc(authority.clone()),
        (Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)), _) => {
            ConnectError::NotThinc(authority.clone())
        }
        (Some(tls), _) => ConnectError::Tls(authority.clone(), tls.clone()),
        (None, _) => ConnectError::Broken(authority.clone(), error),
    };
    while tls.is_handshaking() {
        arm(&tcp, deadline).and_then(|()| tls.complete_io(&mut tcp)).map_err(refused)?;
    }
    if tls.alpn_protocol() != Some(ALPN_NATIVE) {
        return Err(ConnectError::NotThinc(authority));
    }
    let pin = verifier.seen().expect("the handshake shows a certificate");

    let broken = |error| ConnectError::Broken(authority.clone(), error);
    let mut hello = Vec::new();
    match &credential {
        Credential::Token(bytes) => Auth::Token(bytes).encode(&mut hello),
        Credential::SessionKey(bytes) => Auth::SessionKey(bytes).encode(&mut hello),
    }
    tls.writer().write_all(&hello).map_err(broken)?;
    while tls.wants_write() {
        arm(&tcp, deadline).and_then(|()| tls.write_tls(&mut tcp).map(drop)).map_err(broken)?;
    }
    let (session_key, early) = await_answer(&mut tls, &mut tcp, &authority, deadline)?;
    tcp.set_read_timeout(None).and_then(|()| tcp.set_write_timeout(None)).map_err(broken)?;
    if let (None, None, Some(store)) = (link.pin, remembered, &known_hosts) {
        store.remember(&authority, pin).map_err(store_error)?;
    }
    let peer = tcp.peer_addr().map_err(broken)?;
    let shared = Arc::new(Shared { tcp, tls: Mutex::new(tls), order: Mutex::new(()) });
    Ok(Connection { session_key, peer, pin, shared, early })
}

/// The credential itself never reaches a log.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credential::Token(_) => "Token(secret)",
            Credential::SessionKey(_) => "SessionKey(secret)",
        })
    }
}

/// Tries each address of the name in turn; each gets an equal part of the time that is left.
fn open(link: &Link, authority: &str, deadline: Instant) -> Result<TcpStream, ConnectError> {
    let addresses: Vec<SocketAddr> = (link.host.as_str(), link.port)
        .to_socket_addrs()
        .map_err(|error| ConnectError::Resolve(link.host.clone(), error))?
        .collect();
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

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
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

/// Reads until the session took the credential or refused it; also returns what came after `AuthOk`.
fn await_answer(
    tls: &mut ClientConnection,
    tcp: &mut TcpStream,
    authority: &str,
    deadline: Instant,
) -> Result<(Vec<u8>, Vec<u8>), ConnectError> {
    let broken = |error| ConnectError::Broken(authority.to_owned(), error);
    let strange = |what: String| ConnectError::Protocol(authority.to_owned(), what);
    let mut frames = Deframer::new(PREAUTH_FRAME_BYTES_MAX);
    let mut plain = Vec::new();
    loop {
        arm(tcp, deadline).map_err(broken)?;
        let more = tls.read_tls(tcp).map_err(broken)?;
        let state = tls.process_new_packets().map_err(|error| ConnectError::Tls(authority.to_owned(), error))?;
        let at = plain.len();
        plain.resize(at + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut plain[at..]).map_err(broken)?;
        frames.push(&plain[at..]);
        if let Some(frame) = frames.next().map_err(|error| strange(error.to_string()))? {
            if let Ok(answer) = AuthOk::decode(&frame) {
                let mut whole = Vec::new();
                answer.encode(&mut whole);
                return Ok((answer.session_key.to_vec(), plain.split_off(whole.len())));
            }
            return Err(match SessionMessage::decode(&frame) {
                Ok(SessionMessage::Close(close)) => {
                    ConnectError::Refused { code: close.code, reason: close.reason.to_owned() }
                }
                Ok(_) => strange("a message before authentication".to_owned()),
                Err(error) => strange(error.to_string()),
            });
        }
        if more == 0 {
            return Err(broken(io::Error::new(io::ErrorKind::UnexpectedEof, "the session closed it without a word")));
        }
    }
}

impl Connection {
    /// One half for a thread that reads, one for a thread that writes.
    pub fn split(self) -> (Reader, Writer) {
        let raw = Box::new([0; SOCKET_READ_BYTES]);
        let reader = Reader { shared: self.shared.clone(), early: self.early, early_at: 0, raw, raw_rest: 0..0 };
        (reader, Writer { shared: self.shared })
    }

    /// The session key as text, for a person's notes or a file.
    pub fn session_key_text(&self) -> String {
        base64url::encode(&self.session_key)
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
        if self.early_at < self.early.len() {
            let count = into.len().min(self.early.len() - self.early_at);
            into[..count].copy_from_slice(&self.early[self.early_at..self.early_at + count]);
            self.early_at += count;
            if self.early_at == self.early.len() {
                self.early = Vec::new();
                self.early_at = 0;
            }
            return Ok(count);
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
    /// Ends the connection both ways; a `read` that waits in another thread returns.
    pub fn close(&mut self) {
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
