//! Pages: the login and the list of a person's desktops at `/`, and each desktop's viewer at
//! `/desk/NAME/`, with its WebSocket. Beside the path: from mod.rs, to logins.rs and relay.rs;
//! HTTP/1.1 only, so that a WebSocket is an ordinary upgrade. Tells pages how to connect with
//! WebTransport (webtransport.rs). The pages themselves are for everybody; what they ask for needs
//! the cookie and the secret of the origin. Knows requests and headers; never what a WebSocket
//! carries.

use std::convert::Infallible;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use thinc_session_server::answer::{
    self, Answer, HEADER_BYTES_MAX, IDLE_TIMEOUT, plain, serve_asset, with_header,
};
use thinc_session_server::assets::{self, Asset};
use thinc_session_server::gate::{AUTH_TIMEOUT, BrowserConnections, BrowserPass, Gate, Pass};
use thinc_session_server::pages::{LEFT, LeftBody, OpenPages, PageId};
use thinc_session_server::websocket;
use thinc_transport::base64url;
use thinc_transport::identity::Identity;
use thinc_transport::web_certificate::WebCertificate;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

use super::guests::{Guests, JOIN};
use super::logins::{Login, Logins};
use super::proxied::Peer;
use super::viewers::Showing;
use super::webtransport::PageKeys;
use super::{desktops, devices, guests, login, relay, webtransport};
use crate::agent::{AgentAnswer, AgentRequest, is_session_name};
use crate::message::{Deed, Secret, Start};
use crate::monitor::TransportKind;
use crate::proxy::{ForwardedError, TrustedProxies};

/// The login's cookie. `__Host-`: only this host can set it, over https, for all paths.
pub(super) const COOKIE: &str = "__Host-thinc-broker";
/// Carries the origin secret, as for `thinc serve`: cookies are sent to every port of a host, and
/// another user may listen on one.
pub(super) const ORIGIN_SECRET: HeaderName = HeaderName::from_static("thinc-origin-secret");
/// As reverse proxies write it that do not know RFC 7239.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Where desktops are.
pub(super) const DESKS: &str = "/desk/";
/// What a page reads of a desktop, and of its person, with their login.
const OF_DESKTOP: [&str; 3] = [webtransport::FILE, "login", "thumbnail"];
const OF_PERSON: [&str; 4] = ["sessions", "preferences", "devices", "choices"];
/// Asked by load balancers, which have no login.
const HEALTH: &str = "/health";
/// What everybody reads before a login, for the page.
const BANNER: &str = "banner";
/// The page at `/`.
const PAGE: &str = "account.html";

/// Connections of trusted proxies that are no viewers. Such a proxy limits its clients itself, and
/// keeps some connections for later requests.
const PROXIED_MAX: usize = 1024;

/// What all connections share.
pub(super) struct Shared {
    pub(super) logins: Arc<Logins>,
    pub(super) trusted_proxies: TrustedProxies,
    /// What everybody reads before a login; it may be empty.
    pub(super) banner: String,
    /// Who has not shown a login yet.
    pub(super) gate: Gate,
    /// A permit for each connection of a trusted proxy.
    pub(super) proxied: Arc<Semaphore>,
    /// What pages are shown over QUIC; none without QUIC.
    pub(super) web_certificate: Option<Arc<WebCertificate>>,
    pub(super) page_keys: PageKeys,
    /// Pages that are connected over WebTransport.
    pub(super) pages: Arc<OpenPages>,
    pub(super) guests: Guests,
    /// How long devices are remembered, in seconds; 0: none is.
    remember_s: u32,
    /// Guests' connections that are not viewers.
    guest_browsers: BrowserConnections,
    /// What everybody is shown.
    pub(super) identity: Identity,
    assets: Vec<Asset>,
    /// Of the last connection, or request through a proxy.
    number: AtomicU64,
}

impl Shared {
    pub(super) fn new(
        logins: Arc<Logins>,
        told: Start,
        web_certificate: Option<Arc<WebCertificate>>,
        guests: Guests,
        identity: Identity,
    ) -> Shared {
        Shared {
            logins,
            trusted_proxies: told.trusted_proxies,
            banner: told.banner,
            gate: Gate::default(),
            proxied: Arc::new(Semaphore::new(PROXIED_MAX)),
            web_certificate,
            page_keys: PageKeys::new(),
            pages: Arc::default(),
            guests,
            remember_s: told.remember_s,
            guest_browsers: BrowserConnections::default(),
            identity,
            assets: assets::all(),
            number: AtomicU64::new(0),
        }
    }

    /// An embedded file of this name.
    pub(super) fn asset(&self, name: &str) -> Option<&Asset> {
        self.assets.iter().find(|asset| asset.name == name)
    }

    pub(super) fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A connection, and its entry among those that have not shown a login yet; a connection of a
/// trusted proxy, whose requests may be of anybody, has none.
pub(super) struct NewConnection {
    pub(super) number: u64,
    pub(super) peer: Peer,
    pub(super) task: AbortHandle,
    pub(super) pass: Option<Pass>,
}

impl NewConnection {
    /// A trusted proxy has said whose it is.
    pub(super) fn set_peer(&mut self, shared: &Shared, peer: Peer) {
        self.peer = peer;
        if !shared.trusted_proxies.contains(peer.address) {
            self.ensure_pass(shared);
        }
    }

    /// It is its peer's own.
    pub(super) fn ensure_pass(&mut self, shared: &Shared) {
        let enter = || shared.gate.enter(self.number, self.peer.address, self.task.clone());
        self.pass.get_or_insert_with(enter);
    }
}

/// A browser's connection, or its request through a trusted proxy.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
    pub(super) peer: Peer,
    task: AbortHandle,
    /// Each of its requests may be of somebody else.
    is_proxied: bool,
    /// Until it has shown a login.
    pass: Mutex<Option<Pass>>,
    /// Among the connections of its login.
    browser: Mutex<Option<BrowserPass>>,
    /// Until when it has to show one; none while it logs in, or has.
    pub(super) deadline: Arc<watch::Sender<Option<Instant>>>,
    /// For the one WebSocket that it can become.
    tcp: Arc<Mutex<Option<OwnedFd>>>,
}

impl Connection {
    /// As the one whom this request is of.
    fn of_request(
        self: &Arc<Connection>,
        headers: &HeaderMap,
    ) -> Result<Arc<Connection>, ForwardedError> {
        if !self.is_proxied {
            return Ok(self.clone());
        }
        let values = |name: HeaderName| -> Vec<&[u8]> {
            headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
        };
        let (forwarded, x_forwarded_for) = (values(header::FORWARDED), values(X_FORWARDED_FOR));
        let address = self.peer.address;
        let client = self.shared.trusted_proxies.client(address, &forwarded, &x_forwarded_for)?;
        let peer = if client == address { self.peer } else { Peer::without_port(client) };
        let number = self.shared.next_number();
        let pass = self.shared.gate.enter(number, client, self.task.clone());
        pass.set_has_sent();
        self.deadline.send_replace(Some(Instant::now() + AUTH_TIMEOUT));
        Ok(Arc::new(Connection {
            shared: self.shared.clone(),
            number,
            peer,
            task: self.task.clone(),
            is_proxied: true,
            pass: Mutex::new(Some(pass)),
            browser: Mutex::default(),
            deadline: self.deadline.clone(),
            tcp: self.tcp.clone(),
        }))
    }

    /// It belongs to a person: the limits for strangers end.
    pub(super) fn set_authenticated(&self, login: &Login) {
        drop(self.pass.lock().expect("no holder of this lock can panic").take());
        let mut browser = self.browser.lock().expect("no holder of this lock can panic");
        browser
            .get_or_insert_with(|| login.browsers.pass(self.number, self.task.clone()))
            .set_used();
        self.deadline.send_replace(None);
    }

    /// It belongs to a guest that a session has let in.
    pub(super) fn set_guest(&self) {
        drop(self.pass.lock().expect("no holder of this lock can panic").take());
        let mut browser = self.browser.lock().expect("no holder of this lock can panic");
        let guests = &self.shared.guest_browsers;
        browser.get_or_insert_with(|| guests.pass(self.number, self.task.clone())).set_used();
        self.deadline.send_replace(None);
    }

    /// How its page connects over QUIC, with this key.
    pub(super) fn offer_webtransport(&self, key: &[u8]) -> Answer {
        // A reverse proxy forwards no UDP.
        let certificate = self.shared.web_certificate.as_deref().filter(|_| !self.is_proxied);
        answer::offer_webtransport(certificate, key)
    }

    /// For the one WebSocket that it can become.
    pub(super) fn take_tcp(&self) -> Option<OwnedFd> {
        self.tcp.lock().expect("no holder of this lock can panic").take()
    }

    /// For the audit log.
    pub(super) async fn note(&self, login: &Login, deed: Deed, session: &str) {
        let source = self.peer.address;
        self.shared.logins.note(login, source, self.number, deed, session).await;
    }

    /// Its WebSocket shows a desktop, until what this returns is dropped.
    pub(super) async fn show(&self, login: &Login, deed: Deed, session: &str) -> Showing {
        let (logins, source, transport) =
            (&self.shared.logins, self.peer.address, TransportKind::WebSocket);
        logins.show(login, source, self.number, deed, session, transport).await
    }

    pub(super) fn is_stranger(&self) -> bool {
        self.pass.lock().expect("no holder of this lock can panic").is_some()
    }
}

/// Serves a connection until it ends; a WebSocket is served in a task of its own.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TlsStream<TcpStream>,
    connection: NewConnection,
) {
    let NewConnection { number, peer, task, pass } = connection;
    let is_proxied = pass.is_none();
    // A proxy keeps connections for requests to come.
    let deadline = (!is_proxied).then(|| Instant::now() + AUTH_TIMEOUT);
    let tcp = stream.get_ref().0.as_fd().try_clone_to_owned().ok();
    let connection = Arc::new(Connection {
        shared,
        number,
        peer,
        task,
        is_proxied,
        pass: Mutex::new(pass),
        browser: Mutex::default(),
        deadline: Arc::new(watch::Sender::new(deadline)),
        tcp: Arc::new(Mutex::new(tcp)),
    });
    let mut deadline = connection.deadline.subscribe();
    let service = service_fn(move |request| {
        let connection = connection.clone();
        async move {
            let answer = match connection.of_request(request.headers()) {
                Ok(of_request) => route(&of_request, request).await,
                Err(error) => {
                    warn!("{peer}: {error}");
                    with_text(StatusCode::BAD_REQUEST, error.to_string())
                }
            };
            if connection.is_proxied {
                connection.deadline.send_replace(None);
            }
            Ok::<_, Infallible>(answer::secure(answer))
        }
    });
    let http = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let too_late = async {
        loop {
            let until = *deadline.borrow_and_update();
            tokio::select! {
                () = sleep_until(until) => return,
                changed = deadline.changed() => if changed.is_err() {
                    // The connection has ended.
                    return std::future::pending().await;
                },
            }
        }
    };
    tokio::select! {
        result = http => {
            if let Err(error) = result {
                debug!("{peer}: {error}");
            }
        }
        () = too_late => debug!("{peer}: no login within {AUTH_TIMEOUT:?}"),
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn route(connection: &Arc<Connection>, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    if path == "/login" && request.method() == Method::POST {
        return login::log_in(connection, request).await;
    }
    if path == HEALTH && [Method::GET, Method::HEAD].contains(request.method()) {
        return health(&connection.shared.logins);
    }
    if let Some(rest) = path.strip_prefix(JOIN) {
        let Some((id, file)) = rest.split_once('/') else {
            return plain(StatusCode::NOT_FOUND, "there is no such page");
        };
        return match guests::parse_id(id) {
            Some(id) => guests::route(connection, id, file, request).await,
            None => plain(StatusCode::NOT_FOUND, "there is no such page"),
        };
    }
    // A cookie that this front does not know may still be valid: see `login_of`.
    if let Some(login) = known_login(connection, request.headers()) {
        connection.set_authenticated(&login);
    }
    let (desk, file) = match path.strip_prefix(DESKS) {
        // CONNECT and OPTIONS may have none.
        None => (None, path.strip_prefix('/').unwrap_or_default()),
        Some(rest) => match rest.split_once('/') {
            Some((name, file)) if is_session_name(name) => (Some(name), file),
            // "/desk/a" means "/desk/a/"; relative URLs of the page need the slash.
            None if is_session_name(rest) => {
                let moved = plain(StatusCode::PERMANENT_REDIRECT, "");
                return with_header(moved, header::LOCATION, &format!("{DESKS}{rest}/"));
            }
            _ => return plain(StatusCode::NOT_FOUND, "there is no such desktop"),
        },
    };
    match (request.method(), desk, file) {
        (&Method::GET, Some(name), "ws") => open(connection, name, request).await,
        (&Method::GET, Some(_), file) if OF_DESKTOP.contains(&file) => {
            read(connection, desk, file, request.headers()).await
        }
        (&Method::GET, None, file) if OF_PERSON.contains(&file) => {
            read(connection, desk, file, request.headers()).await
        }
        (&Method::GET, None, BANNER) => banner(&connection.shared),
        (&Method::GET | &Method::HEAD, desk, file) => {
            let file = match (desk, file) {
                (None, "") => PAGE,
                (Some(_), "") => "desk.html",
                // It belongs to links, which the broker has none of.
                (_, "login.html") => return moved_home(),
                (_, other) => other,
            };
            match connection.shared.asset(file) {
                Some(asset) => serve_asset(asset, &request),
                None => plain(StatusCode::NOT_FOUND, "there is no such page"),
            }
        }
        (&Method::POST, _, _) => post(connection, desk, file, request).await,
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD and POST only"),
    }
}

/// Without a helper this front would have ended, so new people can be sent here unless it drains.
fn health(logins: &Logins) -> Answer {
    if logins.is_draining() {
        plain(StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else {
        plain(StatusCode::OK, "ok")
    }
}

/// With it: whether a device can be remembered.
fn banner(shared: &Shared) -> Answer {
    let mut answer = plain(StatusCode::OK, "");
    *answer.body_mut() = shared.banner.clone().into();
    match shared.remember_s {
        0 => answer,
        seconds => with_header(answer, devices::REMEMBERS, &seconds.to_string()),
    }
}

fn moved_home() -> Answer {
    with_header(plain(StatusCode::SEE_OTHER, ""), header::LOCATION, "/")
}

pub(super) fn unauthorized() -> Answer {
    plain(StatusCode::UNAUTHORIZED, "log in first")
}

/// What a page that has logged in reads: see [`OF_DESKTOP`] and [`OF_PERSON`].
async fn read(
    connection: &Arc<Connection>,
    desk: Option<&str>,
    file: &str,
    headers: &HeaderMap,
) -> Answer {
    let Some(login) = login_of(connection, headers).await else {
        return unauthorized();
    };
    match (desk, file) {
        (Some(_), webtransport::FILE) => {
            connection.offer_webtransport(&connection.shared.page_keys.mint(&login))
        }
        (Some(name), "login") => desktops::is_running(&login, name).await,
        (Some(name), "thumbnail") => desktops::thumbnail(&login, name).await,
        (None, "sessions") => desktops::list(&connection.shared.logins, &login).await,
        (None, "preferences") => desktops::preferences(connection, &login).await,
        (None, "devices") => devices::list(connection, &login).await,
        (None, "choices") => desktops::choices(connection, &login).await,
        _ => plain(StatusCode::NOT_FOUND, "there is no such page"),
    }
}

/// Requests of a page that has logged in, which change something.
async fn post(
    connection: &Arc<Connection>,
    desk: Option<&str>,
    file: &str,
    request: Request<Incoming>,
) -> Answer {
    if let Err(reason) = check_origin(request.headers()) {
        return plain(StatusCode::FORBIDDEN, reason);
    }
    let Some(login) = login_of(connection, request.headers()).await else {
        return unauthorized();
    };
    match (desk, file) {
        (_, "logout") => {
            if !connection.shared.logins.end(&login, connection.peer.address).await {
                return plain(StatusCode::BAD_GATEWAY, "the login may not have ended: try again");
            }
            let (number, user) = (connection.number, login.user.as_str());
            info!(connection = number, user, "{}: {user} logged out", connection.peer);
            let gone = format!("{COOKIE}=; Secure; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
            with_header(plain(StatusCode::NO_CONTENT, ""), header::SET_COOKIE, &gone)
        }
        (None, "devices") => devices::remember(connection, &login, request).await,
        (None, "devices/forget") => devices::forget(connection, &login, request).await,
        (None, "start") => desktops::start(connection, &login, request).await,
        (Some(_), LEFT) => left(&connection.shared, &login.number(), request).await,
        (None, "preferences") => desktops::prefer(connection, &login, request).await,
        (Some(name), "rename") => desktops::rename(connection, &login, name, request).await,
        (Some(name), "end") => match login.ask(&AgentRequest::End(name.to_owned())).await {
            Ok((AgentAnswer::Ended, _)) => {
                connection.note(&login, Deed::Ended, name).await;
                plain(StatusCode::NO_CONTENT, "")
            }
            other => desktops::agent_failed(connection, other.map(|(answer, _)| answer)),
        },
        _ => plain(StatusCode::NOT_FOUND, "there is no such request"),
    }
}

/// A page was left: its connections over WebTransport end now, and not by a time-out. `owner`: what
/// its login is known by.
pub(super) async fn left(shared: &Shared, owner: &[u8], request: Request<Incoming>) -> Answer {
    match answer::login_body(request, "expected {\"page\": \"…\"}").await {
        Err(answer) => answer,
        Ok(LeftBody { page }) => {
            PageId::parse(&page).into_iter().for_each(|page| shared.pages.leave(owner, page));
            plain(StatusCode::NO_CONTENT, "")
        }
    }
}

pub(super) fn with_text(status: StatusCode, text: String) -> Answer {
    let mut answer = plain(status, "");
    *answer.body_mut() = text.into_bytes().into();
    answer
}

/// Opens a desktop: from here on its viewer's bytes go to the session process and back.
async fn open(connection: &Arc<Connection>, name: &str, mut request: Request<Incoming>) -> Answer {
    let peer = connection.peer;
    if let Err(reason) = check_origin(request.headers()) {
        info!("{peer}: WebSocket refused: {reason}");
        return plain(StatusCode::FORBIDDEN, reason);
    }
    let cookie = cookie_of(request.headers());
    let secret = websocket::offered_secret(request.headers()).and_then(|s| s.try_into().ok());
    let Some(login) = login_of_secrets(connection, cookie, secret).await else {
        return unauthorized();
    };
    let session = match relay::open(&login, name).await {
        Ok(session) => session,
        Err(reason) => return with_text(StatusCode::CONFLICT, reason),
    };
    let Some(tcp) = connection.take_tcp() else {
        return plain(StatusCode::CONFLICT, "this connection is a WebSocket already");
    };
    let (upgraded, answer) = websocket::accept(&mut request);
    let Some(upgraded) = upgraded else { return answer };
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    guests::offer(&connection.shared, &login, name, host.map(str::to_owned)).await;
    let (number, user) = (connection.number, login.user.as_str());
    info!(connection = number, user, session = name, "{peer}: {user} opens {name}");
    let (connection, name) = (connection.clone(), name.to_owned());
    tokio::spawn(async move {
        let showing = connection.show(&login, Deed::Opened, &name).await;
        let socket = match upgraded.await {
            Ok(upgraded) => websocket::over(upgraded).await,
            Err(error) => return debug!("{peer}: {error}"),
        };
        tokio::select! {
            result = relay::run(socket, session, tcp, showing.place()) => {
                if let Err(error) = result {
                    debug!("{peer}: {error}");
                }
            }
            () = login.has_ended() => {}
        }
        let user = login.user.as_str();
        info!(connection = number, user, session = name, "{peer}: {user} has left");
    });
    answer
}

/// The Origin header names the page that sends a request, and only our own may (RFC 6455 §10.2).
/// Browsers send it with every POST and with every WebSocket.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), &'static str> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else {
        return Err("this request needs exactly one Origin header");
    };
    let origin = origin.to_str().ok().and_then(|origin| origin.strip_prefix("https://"));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match (origin, host) {
        (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err("another site may not use this one"),
    }
}

/// Any cookie of our name may be the right one; browsers send one, as its name allows one only.
fn cookie_of(headers: &HeaderMap) -> Option<Secret> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == COOKIE)
        .find_map(|(_, value)| base64url::decode(value)?.try_into().ok())
}

/// The login of a cookie alone, which opens nothing: it only ends the limits for strangers.
fn known_login(connection: &Connection, headers: &HeaderMap) -> Option<Arc<Login>> {
    connection.shared.logins.of_cookie(&cookie_of(headers)?)
}

/// The login of a request, by cookie and origin secret.
async fn login_of(connection: &Connection, headers: &HeaderMap) -> Option<Arc<Login>> {
    let secret = headers.get(ORIGIN_SECRET).and_then(|value| value.to_str().ok());
    let secret = secret.and_then(base64url::decode).and_then(|secret| secret.try_into().ok());
    login_of_secrets(connection, cookie_of(headers), secret).await
}

async fn login_of_secrets(
    connection: &Connection,
    cookie: Option<Secret>,
    origin_secret: Option<Secret>,
) -> Option<Arc<Login>> {
    let source = connection.peer.address;
    let logins = &connection.shared.logins;
    let login = logins.of_secrets(&cookie?, &origin_secret?, source).await?;
    connection.set_authenticated(&login);
    Some(login)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_pages_of_this_host_and_port_are_served() {
        let check = |origin: &str, host: &str| {
            check_origin(&headers(&[(header::ORIGIN, origin), (header::HOST, host)]))
        };
        assert_eq!(check("https://desk.example", "desk.example"), Ok(()));
        assert_eq!(check("https://desk.example:8443", "DESK.example:8443"), Ok(()));
        for origin in ["https://desk.example:8443", "http://desk.example", "https://evil", "null"] {
            assert!(check(origin, "desk.example").is_err(), "{origin}");
        }
        assert!(check_origin(&headers(&[(header::HOST, "desk.example")])).is_err());
    }

    #[test]
    fn a_cookie_is_found_among_those_of_others() {
        let text = base64url::encode(&[7; 32]);
        let cookies = format!("a=b; {COOKIE}=short; {COOKIE}={text}");
        assert_eq!(cookie_of(&headers(&[(header::COOKIE, &cookies)])), Some([7; 32]));
        let other = format!("__Host-thinc-abc={text}");
        assert_eq!(cookie_of(&headers(&[(header::COOKIE, &other)])), None);
    }
}
