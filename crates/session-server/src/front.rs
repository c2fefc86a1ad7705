//! The listening socket: every connection comes in here, shows nothing but TLS 1.3, and is told apart by ALPN.
//! From the supervisor's socket, to native.rs ("thinc/1") and http.rs (anything else).
//! Knows addresses and TLS; never what is said inside.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use socket2::SockRef;
use thinc_transport::ALPN_NATIVE;
use thinc_transport::socket::TcpPath;
use thinc_transport::token::{TokenGate, TokenRefusal};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

use crate::SessionConfig;
use crate::connection::{ConnectionId, Events};
use crate::gate::{Gate, LOGIN_GRACE, PENALTY, Pace, Pass};
use crate::http::Site;
use crate::native;

/// 8 KiB: bytes the kernel takes beyond what it can send now. More would wait where nothing can replace or overtake it;
/// with less a fast path would wait for us.
const NOT_SENT_BYTES: u32 = 8 * 1024;
/// After an accept that failed for lack of descriptors: the next would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection shares.
pub(crate) struct Front {
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    gate: Gate,
}

/// What the protocols behind the door need.
pub(crate) struct Shared {
    pub(crate) tokens: Mutex<TokenGate>,
    pub(crate) events: Events,
    pub(crate) site: Site,
}

/// A connection behind TLS, and its place among the strangers until it has authenticated.
pub(crate) struct Visitor {
    pub(crate) id: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) task: tokio::task::AbortHandle,
    pub(crate) pass: Pass,
}

impl Front {
    pub(crate) fn new(config: &SessionConfig, tokens: TokenGate, tls: Arc<ServerConfig>, events: Events) -> Front {
        let site = Site::new(config, tokens.secret());
        let shared = Arc::new(Shared { tokens: Mutex::new(tokens), events, site });
        Front { shared, acceptor: TlsAcceptor::from(tls), gate: Gate::default() }
    }

    /// Accepts connections for ever.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let mut number = 0u64;
        let mut pace = Pace::default();
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Not the fault of one connection: those that are there go on, and their end frees descriptors.
                    warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // The others wait in the kernel's queue, which costs this process nothing.
            let wait = pace.enter(Instant::now());
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            number += 1;
            let (shared, acceptor) = (self.shared.clone(), self.acceptor.clone());
            let (send, receive) = oneshot::channel();
            let task = tokio::spawn(async move {
                // The place among the strangers comes right after the task it can abort.
                let Ok(visitor) = receive.await else { return };
                welcome(shared, acceptor, stream, visitor).await;
            });
            let (id, task) = (ConnectionId(number), task.abort_handle());
            let pass = self.gate.enter(number, peer.ip(), task.clone());
            let _ = send.send(Visitor { id, peer, task, pass });
        }
    }
}

async fn welcome(shared: Arc<Shared>, acceptor: TlsAcceptor, stream: TcpStream, visitor: Visitor) {
    let peer = visitor.peer;
    if let Err(error) = prepare(&stream) {
        debug!("{peer}: {error}");
        return;
    }
    // Grace counts from here; what follows gets what is left of it.
    let deadline = tokio::time::Instant::now() + LOGIN_GRACE;
    match timeout_at(deadline, speaks_plain_http(&stream)).await {
        Ok(Ok(false)) => {}
        Ok(Ok(true)) => {
            let mut stream = stream;
            let _ = timeout_at(deadline, stream.write_all(PLAIN_HTTP_ANSWER.as_bytes())).await;
            let _ = timeout_at(deadline, stream.shutdown()).await;
            return;
        }
        Ok(Err(_)) | Err(_) => return,
    }
    match timeout_at(deadline, acceptor.accept(stream)).await {
        Err(_) => debug!("{peer}: no TLS handshake within {LOGIN_GRACE:?}"),
        // Port scanners, plain HTTP, old TLS: rustls has told the other side where it can.
        Ok(Err(error)) => debug!("{peer}: {error}"),
        Ok(Ok(tls)) => {
            if tls.get_ref().1.alpn_protocol() == Some(ALPN_NATIVE) {
                native::serve(shared, tls, visitor, deadline).await;
            } else {
                crate::http::serve(shared, tls, visitor, deadline).await;
            }
        }
    }
}

/// What a browser shows whose person typed http:// instead of https://; no stranger learns anything from it.
const PLAIN_HTTP_ANSWER: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 53\r\nConnection: close\r\n\r\nThis port speaks TLS only: use a link with https://.\n";

/// A request's first letter, where TLS would begin with the byte 22. Nothing is taken from the stream.
async fn speaks_plain_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok(count == 1 && first[0].is_ascii_uppercase())
}

/// Frames leave when they are written, and what cannot leave yet stays with us.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_notsent_lowat(NOT_SENT_BYTES)?;
    // A viewer whose machine is gone says nothing: 3 probes after 30 s, 10 s apart.
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// The TLS stream of a connection.
pub(crate) type Stream = TlsStream<TcpStream>;

/// What the kernel knows of the way to whoever is behind a stream; it may be asked while the stream is in other hands.
pub(crate) fn path_of(stream: &Stream) -> Option<TcpPath> {
    TcpPath::of(stream.get_ref().0).ok()
}

/// What everybody is told who shows no good token, whatever was wrong with it.
pub(crate) const UNAUTHORIZED: &str =
    "the link's token was used, wrong or too old: run `thinc link NAME` on the server for a new one";

impl Shared {
    /// True when the token opens the session; it never will again. A wrong one costs its bearer some time.
    pub(crate) async fn redeem(&self, token: &[u8], peer: SocketAddr) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let result = self.tokens.lock().expect("no holder of this lock can panic").redeem(token, now);
        match result {
            Ok(()) => {
                info!("{peer}: opened by a link");
                true
            }
            Err(refusal) => {
                match refusal {
                    TokenRefusal::Record => warn!("{peer}: a token could not be recorded as used"),
                    TokenRefusal::Wrong | TokenRefusal::Expired | TokenRefusal::Used => {
                        info!("{peer}: token refused ({refusal:?})");
                    }
                }
                tokio::time::sleep(PENALTY).await;
                false
            }
        }
    }

    /// True for keys that this session gave out.
    pub(crate) fn is_session_key(&self, key: &[u8]) -> bool {
        self.tokens.lock().expect("no holder of this lock can panic").secret().is_session_key(key)
    }

    /// A key for whoever has shown a token.
    pub(crate) fn new_session_key(&self) -> Vec<u8> {
        self.tokens.lock().expect("no holder of this lock can panic").secret().mint_session_key()
    }
}
