//! The port, TCP and UDP: every connection comes in here, shows nothing but TLS 1.3, and is told apart by ALPN.
//! From the supervisor's sockets, to native.rs ("thinc/1", by TLS and by QUIC), webtransport.rs ("h3", by QUIC) and http.rs (anything else).
//! Knows addresses and TLS; never what is said inside.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use socket2::SockRef;
use thinc_transport::ALPN_NATIVE;
use thinc_transport::path::Path;
use thinc_transport::quic::{Door, Knock, Visit};
use thinc_transport::socket::TcpPath;
use thinc_transport::token::{TokenGate, TokenRefusal};
use thinc_transport::web_certificate::WebCertificate;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

use crate::PortConfig;
use crate::connection::{ConnectionId, Events, Ids};
use crate::gate::{Gate, LOGIN_GRACE, PENALTY, Pace, Pass};
use crate::http::Site;
use crate::{native, webtransport};

/// 8 KiB: bytes the kernel takes beyond what it can send now. More would wait where nothing can replace or overtake it;
/// with less a fast path would wait for us.
const NOT_SENT_BYTES: u32 = 8 * 1024;
/// After an accept that failed for lack of descriptors: the next would fail as well.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection shares.
#[derive(Clone)]
pub(crate) struct Front {
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    gate: Gate,
    pace: Arc<Mutex<Pace>>,
}

/// What the protocols behind the door need.
pub(crate) struct Shared {
    pub(crate) tokens: Mutex<TokenGate>,
    pub(crate) events: Events,
    pub(crate) ids: Ids,
    pub(crate) site: Site,
    /// What pages that come by QUIC are shown; none where nobody can.
    pub(crate) web_certificate: OnceLock<Arc<WebCertificate>>,
}

/// A connection behind TLS, and its place among the strangers until it has authenticated.
pub(crate) struct Visitor {
    pub(crate) id: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) task: tokio::task::AbortHandle,
    pub(crate) pass: Pass,
}

impl Front {
    pub(crate) fn new(
        config: &PortConfig,
        tokens: TokenGate,
        tls: Arc<ServerConfig>,
        ids: Ids,
        events: Events,
    ) -> Front {
        let site = Site::new(config, tokens.secret());
        let web_certificate = OnceLock::new();
        let shared = Arc::new(Shared { tokens: Mutex::new(tokens), events, ids, site, web_certificate });
        Front { shared, acceptor: TlsAcceptor::from(tls), gate: Gate::default(), pace: Arc::default() }
    }

    /// Accepts connections for ever.
    pub(crate) async fn serve(self, listener: TcpListener) {
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
            self.keep_pace().await;
            let (shared, acceptor) = (self.shared.clone(), self.acceptor.clone());
            self.enter(peer, |visitor| welcome(shared, acceptor, stream, visitor));
        }
    }

    /// The same for those who come by UDP.
    pub(crate) async fn serve_quic(self, door: Door) {
        self.shared.web_certificate.get_or_init(|| door.certificate());
        while let Some(knock) = door.next().await {
            // Anybody can write any address on a packet. One alone may cost a handshake; where there are many, or some from
            // there already, it is asked to answer from there first, and nobody can push out another in his name.
            let is_quiet = !self.gate.is_crowded(knock.peer().ip())
                && !self.pace.lock().expect("no holder of this lock can panic").is_busy(Instant::now());
            if !knock.has_proved_address() && !is_quiet {
                knock.ask_for_proof();
                continue;
            }
            // The others wait in a queue that has an end.
            self.keep_pace().await;
            let shared = self.shared.clone();
            self.enter(knock.peer(), |visitor| welcome_quic(shared, knock, visitor));
        }
    }

    async fn keep_pace(&self) {
        let wait = self.pace.lock().expect("no holder of this lock can panic").enter(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Gives a connection its number and its place among the strangers, and lets it go on in a task of its own.
    fn enter<F: Future<Output = ()> + Send + 'static>(
        &self,
        peer: SocketAddr,
        serve: impl FnOnce(Visitor) -> F + Send + 'static,
    ) {
        let (send, receive) = oneshot::channel();
        let task = tokio::spawn(async move {
            // The place among the strangers comes right after the task it can abort.
            let Ok(visitor) = receive.await else { return };
            serve(visitor).await;
        });
        let (id, task) = (self.shared.ids.next(), task.abort_handle());
        let pass = self.gate.enter(id.0, peer.ip(), task.clone());
        let _ = send.send(Visitor { id, peer, task, pass });
    }
}

async fn welcome_quic(shared: Arc<Shared>, knock: Knock, visitor: Visitor) {
    let deadline = tokio::time::Instant::now() + LOGIN_GRACE;
    match timeout_at(deadline, knock.accept()).await {
        Err(_) => debug!("{}: no QUIC handshake within {LOGIN_GRACE:?}", visitor.peer),
        Ok(Err(error)) => debug!("{}: {error}", visitor.peer),
        Ok(Ok(Visit::Viewer(stream))) => native::serve_quic(shared, stream, visitor, deadline).await,
        Ok(Ok(Visit::Browser(browser))) => webtransport::serve(shared, browser, visitor, deadline).await,
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
pub(crate) fn path_of(stream: &Stream) -> Option<Path> {
    TcpPath::of(stream.get_ref().0).ok().map(Path::Tcp)
}

/// The wall clock; 0 where it stands before that.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// What everybody is told who shows no good token, whatever was wrong with it.
pub(crate) const UNAUTHORIZED: &str =
    "the link's token was used, wrong or too old: run `thinc link NAME` on the server for a new one";

impl Shared {
    /// True when the token opens the session; it never will again. A wrong one costs its bearer some time.
    pub(crate) async fn redeem(&self, token: &[u8], peer: SocketAddr) -> bool {
        let now = since_1970().as_secs();
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

    /// True for keys that this session gave to pages, not too long ago.
    pub(crate) fn is_page_key(&self, key: &[u8]) -> bool {
        let now = since_1970().as_secs();
        self.tokens.lock().expect("no holder of this lock can panic").secret().is_page_key(key, now)
    }

    /// A key for a page that has shown its cookie.
    pub(crate) fn new_page_key(&self) -> Vec<u8> {
        let now = since_1970().as_secs();
        self.tokens.lock().expect("no holder of this lock can panic").secret().mint_page_key(now)
    }

    /// A key for whoever has shown a token.
    pub(crate) fn new_session_key(&self) -> Vec<u8> {
        self.tokens.lock().expect("no holder of this lock can panic").secret().mint_session_key()
    }
}
