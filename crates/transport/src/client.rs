//! Path 10/13, and path back, at the viewer's end: between the session's socket and viewer-core.
//! Connects over QUIC or TCP (race.rs), checks the pinned key, authenticates, and splits into two
//! halves for two threads. Knows bytes and the authenticating messages; everything after `AuthOk`
//! passes through unread.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use thinc_protocol::auth::{Auth, AuthAnswers, AuthOk, AuthPrompt, AuthPrompts};
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::limits::PREAUTH_MESSAGE_BYTES_MAX;
use thinc_protocol::session::{CloseCode, SessionMessage};
use thiserror::Error;

use crate::ALPN_NATIVE;
use crate::link::{GuestLogin, Link};
use crate::pin::{KnownHosts, PinVerifier, SpkiPin};

mod device;
pub mod https;
mod quic;
mod race;
mod tcp;

/// TLS server name for a host that TLS cannot name; the session is known by its key.
const PLACEHOLDER_NAME: &str = "thinc.invalid";

/// 3: tries to measure whether a session is near.
const NEAR_TRIES: u32 = 3;
/// 2: a session that TCP was kept for is near up to twice the first limit.
const NEAR_HYSTERESIS: u32 = 2;

/// What opens a session.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Credential {
    /// From a link; valid once.
    Token(Vec<u8>),
    /// From an earlier connection; valid until the session ends.
    Session(Vec<u8>),
    /// None: a person has to log in.
    None,
    /// From an invitation's link, and what a person has answered.
    Invitation(Vec<u8>, GuestLogin),
}

/// Which transport to connect over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportChoice {
    /// Both at once; race.rs chooses.
    #[default]
    Auto,
    /// QUIC, over UDP.
    Quic,
    /// TLS over TCP.
    Tcp,
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// QUIC, over UDP.
    Quic,
    /// TLS over TCP.
    Tcp,
}

impl TransportKind {
    /// For people and scripts.
    pub fn name(self) -> &'static str {
        match self {
            TransportKind::Quic => "quic",
            TransportKind::Tcp => "tcp",
        }
    }
}

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Time-out of the whole attempt: name resolution, TCP or QUIC, TLS and authentication.
    pub timeout: Duration,
    /// Time-out of TCP's first answer; QUIC's whole handshake may take four times as long.
    pub answer_timeout: Duration,
    /// Address of an earlier connection: used instead of resolving the name, which takes long
    /// without a network.
    pub address: Option<SocketAddr>,
    /// Another address where the same session may be; tried at the same time.
    pub also: Option<SocketAddr>,
    /// File that remembers the keys of links without a pin; `None`: such links are refused.
    pub known_hosts: Option<PathBuf>,
    /// Used instead of the link's token, to reconnect.
    pub session_credential: Option<Vec<u8>>,
    /// Which transport to use.
    pub transport: TransportChoice,
}

impl Default for ConnectOptions {
    /// 10 s, which is also the time that a session gives a viewer to authenticate; no remembered
    /// keys; any transport.
    fn default() -> ConnectOptions {
        let timeout = Duration::from_secs(10);
        let transport = TransportChoice::Auto;
        ConnectOptions {
            timeout,
            answer_timeout: timeout,
            address: None,
            also: None,
            known_hosts: None,
            session_credential: None,
            transport,
        }
    }
}

/// Why there is no connection; the text tells a person what to do.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("the name {0} has no address: {1}")]
    Resolve(String, io::Error),
    /// Nothing answers at the address.
    #[error(
        "{0} does not answer: {1}; is the session running, and is its port reachable from here?"
    )]
    Connect(String, io::Error),
    /// The key differs from the link's.
    #[error(
        "{authority} shows the key {seen}, but the link says {expected}: \
         this is another server, or someone intercepts the connection; nothing was sent"
    )]
    WrongKey {
        /// Where.
        authority: String,
        /// What it showed.
        seen: SpkiPin,
        /// What the link pins.
        expected: SpkiPin,
    },
    /// The key differs from the one that was remembered.
    #[error(
        "{authority} shows the key {seen}, but showed {expected} before: \
         this is another server, or someone intercepts the connection; nothing was sent. \
         If the key was changed on purpose, remove the line of {authority} from {store}"
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
    /// Neither the link nor a file of known hosts names the key.
    #[error(
        "the link names no key (\"k=\"), and there is no file to remember one in: was the whole \
         link copied?"
    )]
    NoPin,
    /// A person has not confirmed the session's key.
    #[error("the key of {0} was not confirmed: nothing was sent")]
    NotConfirmed(String),
    /// The file of known hosts cannot be used.
    #[error("cannot use {0}: {1}")]
    KnownHosts(String, io::Error),
    /// TLS failed otherwise.
    #[error("the TLS 1.3 handshake with {0} failed: {1}; is it a thinc session?")]
    Tls(String, rustls::Error),
    /// A TLS server, but no session.
    #[error("{0} is not a thinc session (it does not offer the ALPN protocol \"thinc/1\")")]
    NotThinc(String),
    /// The link has no token.
    #[error(
        "the link has no token (\"t=\"): run `thinc link NAME` on the server for a new link; or, \
            to log in to a server with `thinc broker`, start thinc-view in a terminal"
    )]
    NoToken,
    /// The person has not answered.
    #[error("nobody has logged in at {0}")]
    NotLoggedIn(String),
    /// The session refused; the reason is its own text.
    #[error("{reason}")]
    Refused {
        /// For programs.
        code: CloseCode,
        /// For people.
        reason: String,
    },
    /// The session sent something that is not an answer.
    #[error("the answer of {0} violates thinc's protocol: {1}")]
    Protocol(String, String),
    /// The connection broke before authentication.
    #[error("the connection to {0} broke before authentication was complete: {1}")]
    Broken(String, io::Error),
}

/// A secure connection with a session that has proved its key; nothing was sent on it yet.
#[derive(Debug)]
pub struct Established {
    authority: String,
    credential: Credential,
    /// Remembers the session's key after authentication.
    store: Option<KnownHosts>,
    kind: TransportKind,
    transport: Box<dyn SecureTransport>,
}

/// An authenticated connection; both directions carry frames of the protocol.
#[derive(Debug)]
pub struct Connection {
    /// Authenticates the next connection, until the session ends.
    pub session_credential: Vec<u8>,
    /// Where the session is.
    pub peer: SocketAddr,
    /// The session's key.
    pub pin: SpkiPin,
    /// The transport.
    pub transport: TransportKind,
    read: ReadHalf,
    write: WriteHalf,
    /// Bytes that arrived together with the last authenticating frame.
    leftover: Vec<u8>,
}

#[derive(Debug)]
enum ReadHalf {
    Tcp(tcp::Reader),
    Quic(quic::Reader),
}

#[derive(Clone, Debug)]
enum WriteHalf {
    Tcp(tcp::Writer),
    Quic(quic::Writer),
}

/// The half that reads; blocks until bytes come.
#[derive(Debug)]
pub struct Reader {
    half: ReadHalf,
    leftover: io::Cursor<Vec<u8>>,
}

/// What was received from a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes of the stream; 0 at its end.
    Bytes(usize),
    /// A datagram, if the transport has them.
    Datagram(Vec<u8>),
}

/// The half that writes; blocks while the transport is full.
#[derive(Clone, Debug)]
pub struct Writer {
    half: WriteHalf,
}

/// A transport whose TLS handshake is complete and whose key was checked, before authentication.
trait SecureTransport: Send + std::fmt::Debug {
    fn pin(&self) -> SpkiPin;
    fn peer(&self) -> SocketAddr;
    /// Both ends support datagrams.
    fn supports_datagrams(&self) -> bool;
    /// Sends all of `bytes`.
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()>;
    /// Waits for bytes; 0: the session has closed it.
    fn receive(&mut self, into: &mut Vec<u8>, deadline: Instant) -> io::Result<usize>;
    /// Both halves; of the bytes that were received, the last `leftover` follow the answer to the
    /// credential.
    fn split(self: Box<Self>, leftover: u64) -> io::Result<(ReadHalf, WriteHalf)>;
}

/// Deadlines of an attempt.
#[derive(Clone, Copy, Debug)]
struct Deadlines {
    all: Instant,
    /// TCP's connection is established.
    tcp_connect: Instant,
    /// QUIC's handshake is complete.
    quic_handshake: Instant,
}

/// Which key to accept, over any transport.
#[derive(Clone, Debug)]
struct Trust {
    host: String,
    authority: String,
    /// The only key that is accepted; `None`: any (a first visit).
    expected: Option<SpkiPin>,
    /// The file that `expected` comes from, if it is not from the link.
    store: Option<String>,
}

impl Trust {
    /// TLS settings for one connection, and the verifier that will have seen its key.
    fn tls(&self) -> (ClientConfig, Arc<PinVerifier>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(PinVerifier::new(self.expected, provider.clone()));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has the suites of TLS 1.3")
            // rustls's name for any custom verifier: this one accepts one public key, which is
            // stricter than any chain
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN_NATIVE.to_vec()];
        // A resumed session would skip the proof that the server holds the pinned key.
        config.resumption = rustls::client::Resumption::disabled();
        (config, verifier)
    }

    /// The error for a key that is not the expected one.
    fn wrong_key(&self, seen: Option<SpkiPin>) -> Option<ConnectError> {
        let (seen, expected) = (seen?, self.expected?);
        let authority = self.authority.clone();
        (seen != expected).then(|| match &self.store {
            Some(store) => {
                ConnectError::ChangedKey { authority, seen, expected, store: store.clone() }
            }
            None => ConnectError::WrongKey { authority, seen, expected },
        })
    }

    /// Why the handshake failed.
    fn handshake_error(&self, seen: Option<SpkiPin>, error: rustls::Error) -> ConnectError {
        use rustls::AlertDescription::NoApplicationProtocol;
        match error {
            rustls::Error::NoApplicationProtocol
            | rustls::Error::AlertReceived(NoApplicationProtocol) => {
                ConnectError::NotThinc(self.authority.clone())
            }
            rustls::Error::InvalidCertificate(_) if self.wrong_key(seen).is_some() => {
                self.wrong_key(seen).expect("checked by the guard")
            }
            error => ConnectError::Tls(self.authority.clone(), error),
        }
    }
}

/// Connects to the session the link names and authenticates; blocks for at most `options.timeout`
/// for each of both.
///
/// # Errors
/// As for [`establish`] and [`Established::authenticate`].
pub fn connect(link: &Link, options: &ConnectOptions) -> Result<Connection, ConnectError> {
    establish(link, options)?.authenticate(&[], options.timeout)
}

/// Connects to the session that the link names and checks its key; blocks for at most
/// `options.timeout`.
///
/// # Errors
/// Nothing answers, the key is wrong, or the link is unusable.
pub fn establish(link: &Link, options: &ConnectOptions) -> Result<Established, ConnectError> {
    let authority = link.authority();
    let started = Instant::now();
    let deadline = started + options.timeout;
    let credential = match (&options.session_credential, &link.token) {
        (Some(key), _) => Credential::Session(key.clone()),
        (None, Some(token)) if link.invitation().is_some() => {
            Credential::Invitation(token.clone(), link.guest.clone().unwrap_or_default())
        }
        (None, Some(token)) => Credential::Token(token.clone()),
        (None, None) => Credential::None,
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
    let store = known_hosts
        .as_ref()
        .filter(|_| link.pin.is_none())
        .map(|store| store.path().display().to_string());
    let trust = Trust {
        host: link.host.clone(),
        authority: authority.clone(),
        expected: link.pin.or(remembered),
        store,
    };
    let addresses = addresses(link, options)?;
    let deadlines = Deadlines {
        all: deadline,
        tcp_connect: deadline.min(started + options.answer_timeout),
        quic_handshake: deadline.min(started + 4 * options.answer_timeout),
    };
    let (kind, transport) = race::run(addresses, trust, options.transport, deadlines)?;
    let store = known_hosts.filter(|_| link.pin.is_none() && remembered.is_none());
    Ok(Established { authority, credential, store, kind, transport })
}

/// True if the session is near: on this machine or on a wired network, where TCP is the better
/// transport. Measured as when a transport is chosen at first, by the kernel at the other end,
/// whose answer does not wait for the session; a busy machine may delay it, so there are several
/// tries. Blocks for at most `limit`.
///
/// # Errors
/// The name has no address, or nothing answers over TCP.
pub fn is_near(
    link: &Link,
    options: &ConnectOptions,
    limit: Duration,
) -> Result<bool, ConnectError> {
    let (addresses, deadline) = (addresses(link, options)?, Instant::now() + limit);
    for _ in 0..NEAR_TRIES {
        let started = Instant::now();
        let tcp = tcp::open(&addresses, &link.authority(), deadline)?;
        if tcp::is_on_this_machine(&tcp) || started.elapsed() < NEAR_HYSTERESIS * race::NEAR_RTT_MAX
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The addresses to try.
fn addresses(link: &Link, options: &ConnectOptions) -> Result<Vec<SocketAddr>, ConnectError> {
    let mut addresses: Vec<SocketAddr> = match options.address {
        Some(address) => vec![address],
        None => match ((link.host.as_str(), link.port).to_socket_addrs(), options.also) {
            (Ok(addresses), _) => addresses.collect(),
            // A name that only ssh's configuration knows.
            (Err(_), Some(_)) => Vec::new(),
            (Err(error), None) => return Err(ConnectError::Resolve(link.host.clone(), error)),
        },
    };
    if let Some(also) = options.also.filter(|also| !addresses.contains(also)) {
        // First: of several addresses only some are tried.
        addresses.insert(0, also);
    }
    Ok(addresses)
}

impl Established {
    /// The session's key.
    pub fn pin(&self) -> SpkiPin {
        self.transport.pin()
    }

    /// Where the session is.
    pub fn peer(&self) -> SocketAddr {
        self.transport.peer()
    }

    /// True if neither the link nor the file of known hosts names the session's key.
    pub fn has_new_key(&self) -> bool {
        self.store.is_some()
    }

    /// Remembers the session's key, if it is new, and closes the connection.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember_key(self) -> Result<(), ConnectError> {
        let Some(store) = self.store else { return Ok(()) };
        store
            .remember(&self.authority, self.transport.pin())
            .map_err(|error| ConnectError::KnownHosts(store.path().display().to_string(), error))
    }

    /// Both ends support datagrams.
    pub fn supports_datagrams(&self) -> bool {
        self.transport.supports_datagrams()
    }

    /// The transport.
    pub fn kind(&self) -> TransportKind {
        self.kind
    }

    /// Authenticates and sends `first`, the beginning of what follows, together with the
    /// credential: a session that accepts it answers both after one round trip. Blocks for at most
    /// `limit` from now on: the transport may have waited for its turn since it was established.
    ///
    /// # Errors
    /// The session refuses, violates the protocol or does not answer, or its key cannot be
    /// remembered.
    pub fn authenticate(self, first: &[u8], limit: Duration) -> Result<Connection, ConnectError> {
        let Established { authority, credential, store, kind, mut transport } = self;
        let deadline = Instant::now() + limit;
        let broken = |error| ConnectError::Broken(authority.clone(), error);
        let mut hello = Vec::new();
        match &credential {
            Credential::Token(bytes) => Auth::Token(bytes).encode(&mut hello),
            Credential::Session(bytes) => Auth::SessionCredential(bytes).encode(&mut hello),
            Credential::None => return Err(ConnectError::NoToken),
            Credential::Invitation(token, GuestLogin { name, password }) => {
                Auth::Guest { token, name, password }.encode(&mut hello)
            }
        }
        hello.extend_from_slice(first);
        transport.send(&hello, deadline).map_err(broken)?;
        let (session_credential, leftover) =
            await_answer(transport.as_mut(), &authority, deadline)?;
        let (pin, peer) = (transport.pin(), transport.peer());
        if let Some(store) = store {
            let path = store.path().display().to_string();
            store
                .remember(&authority, pin)
                .map_err(|error| ConnectError::KnownHosts(path, error))?;
        }
        let (read, write) = transport.split(leftover.len() as u64).map_err(broken)?;
        Ok(Connection { session_credential, peer, pin, transport: kind, read, write, leftover })
    }
}

/// The most that a person takes to answer, and the server to check it.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(150);

/// Shows texts and questions to a person; returns an answer for each question, or `None` to give
/// up.
pub type Answer<'a> = dyn FnMut(&[AuthPrompt<'_>]) -> Option<Vec<Vec<u8>>> + 'a;

impl Established {
    /// True if a person has to log in before the session can be opened.
    pub fn needs_login(&self) -> bool {
        self.credential == Credential::None
    }

    /// Logs in to an account. Returns a session credential for another connection.
    ///
    /// # Errors
    /// The server refuses, is no `thinc broker`, or the person has given up.
    pub fn log_in(self, account: &str, answer: &mut Answer<'_>) -> Result<Vec<u8>, ConnectError> {
        let Established { authority, store, mut transport, .. } = self;
        let broken = |error| ConnectError::Broken(authority.clone(), error);
        let mut message = Vec::new();
        Auth::Account(account.as_bytes()).encode(&mut message);
        loop {
            let deadline = Instant::now() + LOGIN_TIME_MAX;
            transport.send(&message, deadline).map_err(broken)?;
            let mut read = |frame: &MessageFrame<'_>| {
                if let Ok(ok) = AuthOk::decode(frame) {
                    return Some(Ok(ok.session_credential.to_vec()));
                }
                let prompts = AuthPrompts::decode(frame).ok()?;
                Some(Err(answer(&prompts.0)))
            };
            match await_message(transport.as_mut(), &authority, deadline, &mut read)?.0 {
                Ok(credential) => {
                    // The next connection gets the credential, and has to show this key.
                    if let Some(store) = store {
                        let path = store.path().display().to_string();
                        store
                            .remember(&authority, transport.pin())
                            .map_err(|error| ConnectError::KnownHosts(path, error))?;
                    }
                    return Ok(credential);
                }
                Err(None) => return Err(ConnectError::NotLoggedIn(authority)),
                Err(Some(answers)) => {
                    message.clear();
                    let answers = answers.iter().map(Vec::as_slice).collect();
                    AuthAnswers(answers).encode(&mut message);
                }
            }
        }
    }
}

/// The credential itself never reaches a log.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Credential::Token(_) => "Token(secret)",
            Credential::Session(_) => "Session(secret)",
            Credential::None => "None",
            Credential::Invitation(..) => "Invitation(secret)",
        })
    }
}

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Reads until the session has accepted or refused the credential; also returns the bytes after
/// `AuthOk`.
fn await_answer(
    transport: &mut dyn SecureTransport,
    authority: &str,
    deadline: Instant,
) -> Result<(Vec<u8>, Vec<u8>), ConnectError> {
    let (answer, rest) = await_message(transport, authority, deadline, &mut |frame| {
        let answer = AuthOk::decode(frame).ok()?;
        let mut whole = Vec::new();
        answer.encode(&mut whole);
        Some((answer.session_credential.to_vec(), whole.len()))
    })?;
    let (credential, length) = answer;
    Ok((credential, rest[length..].to_vec()))
}

/// Reads until there is a message that `read` accepts, or the session's refusal; also returns all
/// bytes that came.
fn await_message<T>(
    transport: &mut dyn SecureTransport,
    authority: &str,
    deadline: Instant,
    read: &mut dyn FnMut(&MessageFrame<'_>) -> Option<T>,
) -> Result<(T, Vec<u8>), ConnectError> {
    let broken = |error| ConnectError::Broken(authority.to_owned(), error);
    let violation = |what: String| ConnectError::Protocol(authority.to_owned(), what);
    let mut frames = Deframer::new(PREAUTH_MESSAGE_BYTES_MAX);
    let mut plain = Vec::new();
    loop {
        let at = plain.len();
        let more = transport.receive(&mut plain, deadline).map_err(broken)?;
        frames.push(&plain[at..]);
        if let Some(frame) = frames.next().map_err(|error| violation(error.to_string()))? {
            if let Some(found) = read(&frame) {
                return Ok((found, plain));
            }
            return Err(match SessionMessage::decode(&frame) {
                Ok(SessionMessage::Close(close)) => {
                    ConnectError::Refused { code: close.code, reason: close.reason.to_owned() }
                }
                Ok(_) => violation("a message before authentication".to_owned()),
                Err(error) => violation(error.to_string()),
            });
        }
        if more == 0 {
            return Err(broken(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the session closed it without a message",
            )));
        }
    }
}

impl Connection {
    /// One half for a thread that reads, one for a thread that writes.
    pub fn split(self) -> (Reader, Writer) {
        (
            Reader { half: self.read, leftover: io::Cursor::new(self.leftover) },
            Writer { half: self.write },
        )
    }
}

impl Read for Reader {
    /// Bytes from the session; 0 if it closed the connection in order, `UnexpectedEof` if the
    /// connection broke.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.leftover.read(into)?;
        if count > 0 {
            return Ok(count);
        }
        match &mut self.half {
            ReadHalf::Tcp(reader) => reader.read(into),
            ReadHalf::Quic(reader) => loop {
                if let Received::Bytes(count) = reader.receive(into)? {
                    return Ok(count);
                }
            },
        }
    }
}

impl Reader {
    /// As `read`, but also receives datagrams; blocks until either arrives.
    ///
    /// # Errors
    /// As for `read`.
    pub fn receive(&mut self, into: &mut [u8]) -> io::Result<Received> {
        let count = self.leftover.read(into)?;
        match &mut self.half {
            ReadHalf::Quic(reader) if count == 0 => reader.receive(into),
            _ if count > 0 => Ok(Received::Bytes(count)),
            _ => self.read(into).map(Received::Bytes),
        }
    }
}

impl Reader {
    /// Bytes lost on the path since the last call that parities have made up for, so that nothing
    /// waited for their retransmission.
    pub fn take_repaired(&mut self) -> u64 {
        match &mut self.half {
            ReadHalf::Tcp(_) => 0,
            ReadHalf::Quic(reader) => reader.take_repaired(),
        }
    }
}

impl Write for Writer {
    /// Takes all of `bytes`, encrypts and sends it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.half {
            WriteHalf::Tcp(writer) => writer.write(bytes),
            WriteHalf::Quic(writer) => writer.write(bytes),
        }
    }

    /// Nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    /// Continues from another address, as when the network changes.
    #[cfg(test)]
    pub(crate) fn rebind(&mut self) {
        match &self.half {
            WriteHalf::Tcp(_) => unreachable!("TCP cannot"),
            WriteHalf::Quic(writer) => writer.rebind(),
        }
    }

    /// Over TCP: the address of this end, without which the connection is lost. QUIC moves to
    /// another one.
    pub fn local_address(&self) -> Option<IpAddr> {
        match &self.half {
            WriteHalf::Tcp(writer) => writer.local_address(),
            WriteHalf::Quic(_) => None,
        }
    }

    /// Over TCP: segments of this end that the path has lost since the connection began.
    pub fn lost_segments(&self) -> Option<u64> {
        match &self.half {
            WriteHalf::Tcp(writer) => Some(writer.lost_segments()),
            WriteHalf::Quic(_) => None,
        }
    }

    /// Sends a datagram, if the transport has them and the send buffer has room; it may be lost.
    pub fn send_datagram(&self, bytes: &[u8]) {
        if let WriteHalf::Quic(writer) = &self.half {
            writer.send_datagram(bytes);
        }
    }

    /// Closes both directions and drops written bytes that this machine still holds.
    pub fn abort(&mut self) {
        match &mut self.half {
            WriteHalf::Tcp(writer) => writer.abort(),
            WriteHalf::Quic(writer) => writer.abort(),
        }
    }

    /// Closes both directions; a `read` that waits in another thread returns.
    pub fn close(&mut self) {
        match &mut self.half {
            WriteHalf::Tcp(writer) => writer.close(),
            WriteHalf::Quic(writer) => writer.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn is_near_to(address: SocketAddr) -> Result<bool, ConnectError> {
        let link = format!("thinc://{address}/#t=AAAA").parse().expect("a link");
        is_near(&link, &ConnectOptions::default(), Duration::from_secs(10))
    }

    #[test]
    fn this_machine_is_near_and_a_closed_port_answers_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(is_near_to(address).unwrap());
        drop(listener);
        assert!(matches!(is_near_to(address), Err(ConnectError::Connect(..))));
    }
}
