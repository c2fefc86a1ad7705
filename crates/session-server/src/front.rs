//! The port, TCP and UDP: every connection starts here with TLS 1.3, and ALPN chooses its protocol.
//! From the supervisor's sockets, to native.rs ("thinc/1", over TLS and QUIC), webtransport.rs
//! ("h3", over QUIC) and http.rs (anything else). Knows addresses and TLS; never what the
//! connection carries.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use socket2::SockRef;
use thinc_transport::invitation::{Grant, Invitations};
use thinc_transport::path::Path;
use thinc_transport::quic::{Accepted, IncomingConnection, QuicListener};
use thinc_transport::socket::TcpPath;
use thinc_transport::token::{BrowserLogin, LoginId, SessionSecret, TokenRefusal, TokenVerifier};
use thinc_transport::web_certificate::WebCertificate;
use thinc_transport::{ALPN_NATIVE, base64url};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout_at;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

use crate::PortConfig;
use crate::connection::{ConnectionId, ConnectionIds, Events};
use crate::gate::{
    AUTH_TIMEOUT, BrowserConnections, Gate, HandshakeLimiter, Pass, WRONG_SECRET_DELAY,
};
use crate::guests::Guests;
use crate::http::Site;
use crate::pages::OpenPages;
use crate::quic_port::PortUse;
use crate::{native, webtransport};

/// 8 KiB: bytes that the kernel accepts beyond what it can send now (TCP_NOTSENT_LOWAT). More would
/// wait where nothing can replace or overtake it; with less a fast path would wait for this
/// process.
const UNSENT_BYTES_MAX: u32 = 8 * 1024;
/// Pause after a failed accept: without descriptors the next one would fail as well.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections; its state is shared by all of them.
#[derive(Clone)]
pub(crate) struct Front {
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    gate: Gate,
    limiter: Arc<Mutex<HandshakeLimiter>>,
}

/// What the protocols need.
pub(crate) struct Shared {
    pub(crate) tokens: Mutex<TokenVerifier>,
    pub(crate) guests: Arc<Guests>,
    pub(crate) events: Events,
    pub(crate) ids: ConnectionIds,
    pub(crate) site: Site,
    /// Counts logins that have ended, to wake the connections of their pages.
    pub(crate) logins_ended: watch::Sender<u64>,
    pub(crate) browsers: BrowserConnections,
    /// Pages that are connected over WebTransport.
    pub(crate) pages: Arc<OpenPages>,
    /// The certificate for pages over QUIC; none without QUIC.
    pub(crate) web_certificate: OnceLock<Arc<WebCertificate>>,
}

/// A connection, and its entry among the unauthenticated ones until it has authenticated.
pub(crate) struct NewConnection {
    pub(crate) id: ConnectionId,
    pub(crate) peer: SocketAddr,
    pub(crate) task: tokio::task::AbortHandle,
    pub(crate) pass: Pass,
    /// It has authenticated as a guest.
    pub(crate) guest: Option<Grant>,
}

/// A login of a browser, of the owner or of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) id: LoginId,
    pub(crate) grant: Option<Grant>,
}

impl Login {
    fn owner(id: LoginId) -> Login {
        Login { id, grant: None }
    }

    fn guest(grant: Grant) -> Login {
        Login { id: grant.guest, grant: Some(grant) }
    }
}

impl Front {
    pub(crate) fn new(
        config: &PortConfig,
        (tokens, invitations): (TokenVerifier, Invitations),
        tls: Arc<ServerConfig>,
        ids: ConnectionIds,
        events: Events,
    ) -> Front {
        let site = Site::new(config, tokens.secret());
        let web_certificate = OnceLock::new();
        let shared = Arc::new(Shared {
            tokens: Mutex::new(tokens),
            guests: Arc::new(Guests::new(invitations)),
            events,
            ids,
            site,
            logins_ended: watch::Sender::new(0),
            browsers: BrowserConnections::default(),
            pages: Arc::default(),
            web_certificate,
        });
        Front {
            shared,
            acceptor: TlsAcceptor::from(tls),
            gate: Gate::default(),
            limiter: Arc::default(),
        }
    }

    /// The session's invitations and guests.
    pub(crate) fn guests(&self) -> Arc<Guests> {
        self.shared.guests.clone()
    }

    /// Numbers of connections, which those over other sockets share.
    pub(crate) fn ids(&self) -> &ConnectionIds {
        &self.shared.ids
    }

    /// Names the session, and reveals no secret.
    pub(crate) fn session_id(&self) -> String {
        self.shared.tokens.lock().expect("no holder of this lock can panic").secret().session_id()
    }

    /// A guest's credential.
    pub(crate) fn new_credential(&self, grant: Grant) -> Vec<u8> {
        self.shared.new_session_credential(Some(grant))
    }

    /// The guest of a credential as base64url, while it may stay.
    pub(crate) fn guest_of_credential(&self, credential: &str) -> Option<Grant> {
        self.shared.guest_of_credential(&base64url::decode(credential)?)
    }

    /// Accepts TCP connections, without end.
    pub(crate) async fn serve(self, listener: TcpListener) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Probably out of descriptors: open connections continue, and their end frees
                    // some.
                    warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // The next ones wait in the kernel's queue, which costs this process nothing.
            self.limit_rate().await;
            let (shared, acceptor) = (self.shared.clone(), self.acceptor.clone());
            self.start(peer, |connection| {
                serve_tcp_connection(shared, acceptor, stream, connection)
            });
        }
    }

    /// The same for QUIC.
    pub(crate) async fn serve_quic(self, listener: QuicListener) {
        if let Some(certificate) = listener.certificate() {
            self.shared.web_certificate.get_or_init(|| certificate);
        }
        while let Some(incoming) = listener.accept().await {
            self.admit_quic(incoming, None).await;
        }
    }

    /// Starts to serve a connection, or demands validation of its address. `port`: the UDP port on
    /// demand that it came to.
    pub(crate) async fn admit_quic(&self, incoming: IncomingConnection, port: Option<PortUse>) {
        let address = incoming.peer().ip();
        if !incoming.is_address_validated() && self.gate.must_validate(address, &self.limiter) {
            incoming.retry();
            return;
        }
        // The next ones wait in quinn's queue, which is bounded.
        self.limit_rate().await;
        let shared = self.shared.clone();
        let is_validated = incoming.is_address_validated();
        self.start(incoming.peer(), move |connection| {
            if is_validated {
                connection.pass.set_has_sent();
            }
            serve_quic_connection(shared, incoming, connection, port)
        });
    }

    /// A token for a viewer that came through ssh, valid for a minute.
    pub(crate) fn mint_offer_token(&self) -> Vec<u8> {
        let tokens = self.shared.tokens.lock().expect("no holder of this lock can panic");
        tokens.secret().mint_offer_token(since_1970().as_secs())
    }

    async fn limit_rate(&self) {
        let wait = self
            .limiter
            .lock()
            .expect("no holder of this lock can panic")
            .delay_of_next(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Registers a connection as unauthenticated, and serves it in a task of its own.
    fn start<F: Future<Output = ()> + Send + 'static>(
        &self,
        peer: SocketAddr,
        serve: impl FnOnce(NewConnection) -> F + Send + 'static,
    ) {
        let (send, receive) = oneshot::channel();
        let task = tokio::spawn(async move {
            // The entry can only be made once there is a task that it can abort.
            let Ok(connection) = receive.await else { return };
            serve(connection).await;
        });
        let (id, task) = (self.shared.ids.next(), task.abort_handle());
        let pass = self.gate.enter(id.0, peer.ip(), task.clone());
        let _ = send.send(NewConnection { id, peer, task, pass, guest: None });
    }
}

async fn serve_quic_connection(
    shared: Arc<Shared>,
    incoming: IncomingConnection,
    connection: NewConnection,
    port: Option<PortUse>,
) {
    let deadline = tokio::time::Instant::now() + AUTH_TIMEOUT;
    match timeout_at(deadline, incoming.accept()).await {
        Err(_) => debug!("{}: no QUIC handshake within {AUTH_TIMEOUT:?}", connection.peer),
        Ok(Err(error)) => debug!("{}: {error}", connection.peer),
        Ok(Ok(Accepted::Viewer(stream))) => {
            connection.pass.set_has_sent();
            native::serve_quic(shared, *stream, connection, deadline, port).await
        }
        Ok(Ok(Accepted::Browser(browser))) => {
            connection.pass.set_has_sent();
            webtransport::serve(shared, browser, connection, deadline).await
        }
    }
}

async fn serve_tcp_connection(
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    connection: NewConnection,
) {
    let peer = connection.peer;
    if let Err(error) = prepare(&stream) {
        debug!("{peer}: {error}");
        return;
    }
    // The time-out starts here, and includes the protocol's own authentication.
    let deadline = tokio::time::Instant::now() + AUTH_TIMEOUT;
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
    connection.pass.set_has_sent();
    match timeout_at(deadline, acceptor.accept(stream)).await {
        Err(_) => debug!("{peer}: no TLS handshake within {AUTH_TIMEOUT:?}"),
        // Port scanners, plain HTTP, old TLS: rustls has sent an alert if it could.
        Ok(Err(error)) => debug!("{peer}: {error}"),
        Ok(Ok(tls)) => {
            if tls.get_ref().1.alpn_protocol() == Some(ALPN_NATIVE) {
                native::serve(shared, tls, connection, deadline).await;
            } else {
                crate::http::serve(shared, tls, connection, deadline).await;
            }
        }
    }
}

/// Shown to a person who typed http:// instead of https://; it reveals nothing.
pub const PLAIN_HTTP_ANSWER: &str = "HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 53\r\nConnection: close\r\n\r\n\
    This port speaks TLS only: use a link with https://.\n";

/// True if the first byte is that of an HTTP method; TLS begins with the byte 22. Leaves the byte
/// in the stream.
pub async fn speaks_plain_http(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok(count == 1 && first[0].is_ascii_uppercase())
}

/// Frames are sent as soon as they are written, and what cannot be sent yet stays in this process.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    // Detects a viewer whose machine is gone: 3 keepalive probes after 30 s, 10 s apart.
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// The TLS stream of a connection.
pub(crate) type Stream = TlsStream<TcpStream>;

/// The path statistics of a stream, readable while another task owns the stream.
pub(crate) fn path_of(stream: &Stream) -> Option<Path> {
    TcpPath::of(stream.get_ref().0).ok().map(Path::Tcp)
}

/// The wall clock; 0 if it is before 1970.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The answer to any invalid secret, whatever is wrong with it.
pub(crate) const UNAUTHORIZED: &str = "the link's token was used, wrong or too old: run `thinc \
    link NAME` on the server for a new one";

impl Shared {
    /// True if the token opens the session; it never will again. The answer to a wrong one is
    /// delayed.
    pub(crate) async fn redeem(&self, token: &[u8], peer: SocketAddr) -> bool {
        let now = since_1970().as_secs();
        let result =
            self.tokens.lock().expect("no holder of this lock can panic").redeem(token, now);
        match result {
            Ok(()) => {
                info!("{peer}: authenticated by a link's token");
                true
            }
            Err(refusal) => {
                match refusal {
                    TokenRefusal::StoreUnavailable => {
                        warn!("{peer}: refused a token: cannot record it as used")
                    }
                    TokenRefusal::Invalid | TokenRefusal::Expired | TokenRefusal::Used => {
                        info!("{peer}: token refused ({refusal:?})");
                    }
                }
                tokio::time::sleep(WRONG_SECRET_DELAY).await;
                false
            }
        }
    }

    /// True for session credentials that this session issued.
    pub(crate) fn is_session_credential(&self, key: &[u8]) -> bool {
        self.tokens
            .lock()
            .expect("no holder of this lock can panic")
            .secret()
            .is_session_credential(key)
    }

    /// The guest of a session credential that this session issued, while it may stay.
    pub(crate) fn guest_of_credential(&self, key: &[u8]) -> Option<Grant> {
        let grant = self
            .tokens
            .lock()
            .expect("no holder of this lock can panic")
            .secret()
            .grant_of_credential(key)?;
        self.guests.rights(grant).is_ok().then_some(grant)
    }

    /// The login of a cookie that this session issued, unless it has ended.
    pub(crate) fn login_of_cookie(&self, cookie: &[u8]) -> Option<Login> {
        self.login(|secret| {
            let owner = secret.login_of_cookie(cookie).map(Login::owner);
            owner.or_else(|| secret.grant_of_cookie(cookie).map(Login::guest))
        })
    }

    /// The login of an origin secret that this session issued, unless it has ended.
    pub(crate) fn login_of_origin_secret(&self, origin_secret: &[u8]) -> Option<Login> {
        self.login(|secret| {
            let owner = secret.login_of_origin_secret(origin_secret).map(Login::owner);
            owner.or_else(|| secret.grant_of_origin_secret(origin_secret).map(Login::guest))
        })
    }

    /// The login of an unexpired page key that this session issued, unless it has ended.
    pub(crate) fn login_of_page_key(&self, key: &[u8]) -> Option<Login> {
        let now_s = since_1970().as_secs();
        self.login(|secret| {
            let owner = secret.login_of_page_key(key, now_s).map(Login::owner);
            owner.or_else(|| secret.grant_of_page_key(key, now_s).map(Login::guest))
        })
    }

    fn login(&self, of: impl FnOnce(&SessionSecret) -> Option<Login>) -> Option<Login> {
        let login = {
            let tokens = self.tokens.lock().expect("no holder of this lock can panic");
            of(tokens.secret()).filter(|login| !tokens.has_ended(login.id))?
        };
        let may_stay = login.grant.is_none_or(|grant| self.guests.rights(grant).is_ok());
        may_stay.then_some(login)
    }

    /// Ends a login, and the connections of its pages.
    pub(crate) fn end_login(&self, login: LoginId) -> io::Result<()> {
        self.tokens.lock().expect("no holder of this lock can panic").end_login(login)?;
        self.logins_ended.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Waits until one of these logins has ended.
    pub(crate) async fn login_ended<const N: usize>(&self, logins: [LoginId; N]) {
        let mut changes = self.logins_ended.subscribe();
        loop {
            {
                let tokens = self.tokens.lock().expect("no holder of this lock can panic");
                if logins.iter().any(|login| tokens.has_ended(*login)) {
                    return;
                }
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// The two credentials of a browser that has shown a token, of the owner or of a guest.
    pub(crate) fn new_browser_login(&self, guest: Option<Grant>) -> BrowserLogin {
        let tokens = self.tokens.lock().expect("no holder of this lock can panic");
        match guest {
            Some(grant) => tokens.secret().mint_guest_login(grant),
            None => tokens.secret().mint_browser_login(),
        }
    }

    /// A key for a page of this login.
    pub(crate) fn new_page_key(&self, login: Login) -> Vec<u8> {
        let now = since_1970().as_secs();
        let tokens = self.tokens.lock().expect("no holder of this lock can panic");
        match login.grant {
            Some(grant) => tokens.secret().mint_guest_page_key(grant, now),
            None => tokens.secret().mint_page_key(login.id, now),
        }
    }

    /// A session credential for a viewer that has shown a token, of the owner or of a guest.
    pub(crate) fn new_session_credential(&self, guest: Option<Grant>) -> Vec<u8> {
        let tokens = self.tokens.lock().expect("no holder of this lock can panic");
        match guest {
            Some(grant) => tokens.secret().mint_guest_credential(grant),
            None => tokens.secret().mint_session_credential(),
        }
    }
}
