//! Path 10/13, the viewer's end: from the session's socket, to viewer-core's `handle_bytes`, and back.
//! Reaches a session by QUIC or TCP, whichever is there first, and checks the pinned key; authenticates; then two halves for two threads.
//! Knows bytes and the authenticating frames; everything after `AuthOk` passes through unread.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::PREAUTH_FRAME_BYTES_MAX;
use thinc_protocol::session::{CloseCode, SessionMessage};
use thiserror::Error;

use crate::link::Link;
use crate::pin::{KnownHosts, PinVerifier, SpkiPin};
use crate::{ALPN_NATIVE, base64url};

mod quic;
mod race;
mod tcp;

/// What a server is asked for whose host is no name that TLS could carry; it is known by its key.
const NO_NAME: &str = "thinc.invalid";

/// What opens a session.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// From a link; good once.
    Token(Vec<u8>),
    /// From an earlier connection; good until the session ends.
    SessionKey(Vec<u8>),
}

/// By which way to connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportChoice {
    /// Both at once; race.rs says which is kept.
    #[default]
    Auto,
    /// QUIC, over UDP.
    Quic,
    /// TLS over TCP.
    Tcp,
}

/// The way a connection took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// QUIC, over UDP.
    Quic,
    /// TLS over TCP.
    Tcp,
}

impl Via {
    /// For people and scripts.
    pub fn name(self) -> &'static str {
        match self {
            Via::Quic => "quic",
            Via::Tcp => "tcp",
        }
    }
}

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Longest time for all of it: name, TCP or QUIC, TLS and authentication.
    pub timeout: Duration,
    /// Longest time until anything answers there at all; by QUIC, until hands are shaken, four times that.
    pub reach: Duration,
    /// Where the session was found before: its name is not asked for again, which without a network takes its time.
    pub address: Option<SocketAddr>,
    /// Where keys of links without a pin are remembered; `None`: such links are refused.
    pub known_hosts: Option<PathBuf>,
    /// Instead of the link's token, to come back.
    pub session_key: Option<Vec<u8>>,
    /// By which way.
    pub transport: TransportChoice,
}

impl Default for ConnectOptions {
    /// 10 s, which is also the time a session waits for a viewer to say who it is; no remembered keys; any way.
    fn default() -> ConnectOptions {
        let timeout = Duration::from_secs(10);
        let transport = TransportChoice::Auto;
        ConnectOptions { timeout, reach: timeout, address: None, known_hosts: None, session_key: None, transport }
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

/// A session that was reached and has shown its key, and was told nothing yet.
#[derive(Debug)]
pub struct Reached {
    authority: String,
    credential: Credential,
    deadline: Instant,
    /// Where the key it showed is to be remembered, once it has let the viewer in.
    store: Option<KnownHosts>,
    via: Via,
    opening: Box<dyn Opening>,
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
    /// The way that was taken.
    pub via: Via,
    read: ReadHalf,
    write: WriteHalf,
    /// Plain bytes that came with the last authenticating frame.
    early: Vec<u8>,
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
    early: io::Cursor<Vec<u8>>,
}

/// What has come of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// So many bytes of the stream; 0 at its end.
    Bytes(usize),
    /// Something by itself, where the way has datagrams.
    Datagram(Vec<u8>),
}

/// The half that writes; blocks while the way to the session is full.
#[derive(Clone, Debug)]
pub struct Writer {
    half: WriteHalf,
}

/// A way that has shaken hands with the key that was asked for, and was not yet let in.
trait Opening: Send + std::fmt::Debug {
    fn pin(&self) -> SpkiPin;
    fn peer(&self) -> SocketAddr;
    /// Both ends take datagrams beside the stream.
    fn takes_datagrams(&self) -> bool;
    /// Sends all of it.
    fn say(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()>;
    /// Waits for bytes; 0: the session has ended it.
    fn hear(&mut self, into: &mut Vec<u8>, deadline: Instant) -> io::Result<usize>;
    fn split(self: Box<Self>) -> io::Result<(ReadHalf, WriteHalf)>;
}

/// When an attempt is given up.
#[derive(Clone, Copy, Debug)]
struct Deadlines {
    all: Instant,
    /// TCP's first packet is answered.
    tcp_answers: Instant,
    /// QUIC has shaken hands.
    quic_shakes: Instant,
}

/// Whom to believe, on any way.
#[derive(Clone, Debug)]
struct Trust {
    host: String,
    authority: String,
    /// The one key that will do; `None`: any (a first visit).
    expected: Option<SpkiPin>,
    /// The file that `expected` comes from, where it is not from the link.
    store: Option<String>,
}

impl Trust {
    /// For one connection, and what will have seen its key.
    fn tls(&self) -> (ClientConfig, Arc<PinVerifier>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(PinVerifier::new(self.expected, provider.clone()));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has the suites of TLS 1.3")
            .dangerous() // the word is rustls's: the verifier takes one public key, which is stricter than any chain
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN_NATIVE.to_vec()];
        // A ticket would let a second connection skip the proof that the server holds the pinned key.
        config.resumption = rustls::client::Resumption::disabled();
        (config, verifier)
    }

    /// The key that was shown is not the one that was asked for.
    fn wrong_key(&self, seen: Option<SpkiPin>) -> Option<ConnectError> {
        let (seen, expected) = (seen?, self.expected?);
        let authority = self.authority.clone();
        (seen != expected).then(|| match &self.store {
            Some(store) => ConnectError::ChangedKey { authority, seen, expected, store: store.clone() },
            None => ConnectError::WrongKey { authority, seen, expected },
        })
    }

    /// Why hands were not shaken.
    fn refusal(&self, seen: Option<SpkiPin>, error: rustls::Error) -> ConnectError {
        use rustls::AlertDescription::NoApplicationProtocol;
        match error {
            rustls::Error::NoApplicationProtocol | rustls::Error::AlertReceived(NoApplicationProtocol) => {
                ConnectError::NotThinc(self.authority.clone())
            }
            rustls::Error::InvalidCertificate(_) if self.wrong_key(seen).is_some() => {
                self.wrong_key(seen).expect("just looked at")
            }
            error => ConnectError::Tls(self.authority.clone(), error),
        }
    }
}

/// Connects to the session the link names and authenticates; blocks for at most `options.timeout`.
///
/// # Errors
/// As for [`reach`] and [`Reached::enter`].
pub fn connect(link: &Link, options: &ConnectOptions) -> Result<Connection, ConnectError> {
    reach(link, options)?.enter(&[], options.timeout)
}

/// Connects to the session the link names and checks that it has the key that was asked for; blocks for at most `options.timeout`, which
/// is the limit for [`Reached::enter`] too.
///
/// # Errors
/// Where nothing answers, where it is not the session, and where the link is no use.
pub fn reach(link: &Link, options: &ConnectOptions) -> Result<Reached, ConnectError> {
    let authority = link.authority();
    let begun = Instant::now();
    let deadline = begun + options.timeout;
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
    let store = known_hosts.as_ref().filter(|_| link.pin.is_none()).map(|store| store.path().display().to_string());
    let trust =
        Trust { host: link.host.clone(), authority: authority.clone(), expected: link.pin.or(remembered), store };
    let addresses: Vec<SocketAddr> = match options.address {
        Some(address) => vec![address],
        None => (link.host.as_str(), link.port)
            .to_socket_addrs()
            .map_err(|error| ConnectError::Resolve(link.host.clone(), error))?
            .collect(),
    };
    let deadlines = Deadlines {
        all: deadline,
        tcp_answers: deadline.min(begun + options.reach),
        quic_shakes: deadline.min(begun + 4 * options.reach),
    };
    let (via, opening) = race::run(addresses, trust, options.transport, deadlines)?;
    let store = known_hosts.filter(|_| link.pin.is_none() && remembered.is_none());
    Ok(Reached { authority, credential, deadline, store, via, opening })
}

impl Reached {
    /// The key it showed.
    pub fn pin(&self) -> SpkiPin {
        self.opening.pin()
    }

    /// Both ends send and take datagrams beside the stream.
    pub fn takes_datagrams(&self) -> bool {
        self.opening.takes_datagrams()
    }

    /// Authenticates, and says `first` in the same breath, the beginning of what follows: a session that lets the viewer in answers both
    /// after one round trip. Blocks for at most `limit`, and no longer than the attempt may take as a whole.
    ///
    /// # Errors
    /// Where the session refuses, says something else or nothing, and where its key cannot be remembered.
    pub fn enter(self, first: &[u8], limit: Duration) -> Result<Connection, ConnectError> {
        let Reached { authority, credential, deadline, store, via, mut opening } = self;
        let deadline = deadline.min(Instant::now() + limit);
        let broken = |error| ConnectError::Broken(authority.clone(), error);
        let mut hello = Vec::new();
        match &credential {
            Credential::Token(bytes) => Auth::Token(bytes).encode(&mut hello),
            Credential::SessionKey(bytes) => Auth::SessionKey(bytes).encode(&mut hello),
        }
        hello.extend_from_slice(first);
        opening.say(&hello, deadline).map_err(broken)?;
        let (session_key, early) = await_answer(opening.as_mut(), &authority, deadline)?;
        let (pin, peer) = (opening.pin(), opening.peer());
        if let Some(store) = store {
            let path = store.path().display().to_string();
            store.remember(&authority, pin).map_err(|error| ConnectError::KnownHosts(path, error))?;
        }
        let (read, write) = opening.split().map_err(broken)?;
        Ok(Connection { session_key, peer, pin, via, read, write, early })
    }
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

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Reads until the session took the credential or refused it; also returns what came after `AuthOk`.
fn await_answer(
    opening: &mut dyn Opening,
    authority: &str,
    deadline: Instant,
) -> Result<(Vec<u8>, Vec<u8>), ConnectError> {
    let broken = |error| ConnectError::Broken(authority.to_owned(), error);
    let strange = |what: String| ConnectError::Protocol(authority.to_owned(), what);
    let mut frames = Deframer::new(PREAUTH_FRAME_BYTES_MAX);
    let mut plain = Vec::new();
    loop {
        let at = plain.len();
        let more = opening.hear(&mut plain, deadline).map_err(broken)?;
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
        (Reader { half: self.read, early: io::Cursor::new(self.early) }, Writer { half: self.write })
    }

    /// The session key as text, for a person's notes or a file.
    pub fn session_key_text(&self) -> String {
        base64url::encode(&self.session_key)
    }
}

impl Read for Reader {
    /// Bytes of the session; 0 when it ended the connection in order, `UnexpectedEof` when it just broke.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.early.read(into)?;
        if count > 0 {
            return Ok(count);
        }
        match &mut self.half {
            ReadHalf::Tcp(reader) => reader.read(into),
            ReadHalf::Quic(reader) => reader.read(into),
        }
    }
}

impl Reader {
    /// As `read`, but for what comes beside the stream; blocks until either has something.
    ///
    /// # Errors
    /// As for `read`.
    pub fn next(&mut self, into: &mut [u8]) -> io::Result<Came> {
        let count = self.early.read(into)?;
        match &mut self.half {
            ReadHalf::Quic(reader) if count == 0 => reader.next(into),
            _ if count > 0 => Ok(Came::Bytes(count)),
            _ => self.read(into).map(Came::Bytes),
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

    /// Nothing is held back; there is nothing to flush.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    /// Goes on from another address, as when the network changes.
    #[cfg(test)]
    pub(crate) fn rebind(&mut self) {
        match &self.half {
            WriteHalf::Tcp(_) => unreachable!("TCP cannot"),
            WriteHalf::Quic(writer) => writer.rebind(),
        }
    }

    /// Sends something beside the stream, where the way has that and room for it; it may be lost.
    pub fn send_datagram(&self, bytes: &[u8]) {
        if let WriteHalf::Quic(writer) = &self.half {
            writer.send_datagram(bytes);
        }
    }

    /// Ends the connection both ways and drops what has been written and not arrived, as far as this machine holds it.
    pub fn abort(&mut self) {
        match &mut self.half {
            WriteHalf::Tcp(writer) => writer.abort(),
            WriteHalf::Quic(writer) => writer.abort(),
        }
    }

    /// Ends the connection both ways; a `read` that waits in another thread returns.
    pub fn close(&mut self) {
        match &mut self.half {
            WriteHalf::Tcp(writer) => writer.close(),
            WriteHalf::Quic(writer) => writer.close(),
        }
    }
}
