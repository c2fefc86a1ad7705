//! The same port for browsers: a login page without a cookie, the web viewer and its WebSocket with
//! one. From front.rs, to websocket.rs; HTTP/1.1 only, so that a WebSocket is an ordinary upgrade.
//! Tells pages how to connect with WebTransport. A user who listens on another port of the host may
//! know the cookie, so it opens nothing without the secret of the page's origin. Knows requests,
//! cookies and headers; never what the WebSocket carries.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use thinc_transport::base64url;
use thinc_transport::invitation::is_invitation;
use thinc_transport::path::Path;
use thinc_transport::token::{BrowserLogin, SessionSecret};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::PortConfig;
use crate::answer::{
    self, Answer, HEADER_BYTES_MAX, IDLE_TIMEOUT, plain, serve_asset, with_header,
};
use crate::assets::{self, Asset};
use crate::front::{self, Login, NewConnection, Shared, Stream, UNAUTHORIZED};
use crate::gate::{AUTH_TIMEOUT, BrowserPass, Pass};
use crate::guests::NOT_INVITED;
use crate::pages::{LEFT, LeftBody, PageId};
use crate::{websocket, webtransport};

/// Carries the origin secret, as base64url, in the page's requests. Not an address, which is logged
/// and goes to others as a Referer.
const ORIGIN_SECRET: HeaderName = HeaderName::from_static("thinc-origin-secret");

/// The served files, and the names of the session.
pub(crate) struct Site {
    pub(crate) base_path: String,
    authority: String,
    /// Cookies are shared by all ports of a host, so each session has its own name.
    cookie: String,
    assets: Vec<Asset>,
}

impl Site {
    pub(crate) fn new(config: &PortConfig, secret: &SessionSecret) -> Site {
        Site {
            base_path: config.base_path.clone(),
            authority: config.authority.clone(),
            cookie: format!("__Host-thinc-{}", secret.session_id()),
            assets: assets::all(),
        }
    }
}

/// A browser's connection, and whether it has shown a cookie yet.
pub(crate) struct HttpConnection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pass: Mutex<Option<Pass>>,
    pub(crate) peer: std::net::SocketAddr,
    /// For the one WebSocket that this connection can become.
    pub(crate) path: Mutex<Option<Path>>,
    authenticated: AtomicBool,
    /// Cancels the authentication time-out.
    was_authenticated: Notify,
}

impl HttpConnection {
    /// Ends the limits for unauthenticated connections.
    fn set_authenticated(&self) {
        if !self.authenticated.swap(true, Ordering::Relaxed) {
            drop(self.pass.lock().expect("no holder of this lock can panic").take());
            self.was_authenticated.notify_one();
        }
    }
}

/// Serves a connection until it ends; a WebSocket is served in a task of its own.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: Stream,
    connection: NewConnection,
    deadline: Instant,
) {
    let NewConnection { id, peer, task, pass, guest: _ } = connection;
    // Dropped when this connection ends, or becomes a WebSocket.
    let browser_pass = Arc::new(shared.browsers.pass(id.0, task));
    let connection = Arc::new(HttpConnection {
        shared,
        pass: Mutex::new(Some(pass)),
        peer,
        path: Mutex::new(front::path_of(&stream)),
        authenticated: AtomicBool::new(false),
        was_authenticated: Notify::new(),
    });
    let service = {
        let connection = connection.clone();
        service_fn(move |request| {
            let (connection, browser_pass) = (connection.clone(), browser_pass.clone());
            async move { Ok::<_, Infallible>(answer(connection, &browser_pass, request).await) }
        })
    };
    let http = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let auth_time_out = async {
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => {}
            () = connection.was_authenticated.notified() => std::future::pending().await,
        }
    };
    tokio::select! {
        result = http => {
            if let Err(error) = result {
                debug!("{peer}: {error}");
            }
        }
        () = auth_time_out => debug!("{peer}: no cookie within {AUTH_TIMEOUT:?}"),
    }
}

/// Answers one request.
async fn answer(
    connection: Arc<HttpConnection>,
    browser_pass: &BrowserPass,
    request: Request<Incoming>,
) -> Answer {
    answer::secure(route(connection, browser_pass, request).await)
}

async fn route(
    connection: Arc<HttpConnection>,
    browser_pass: &BrowserPass,
    request: Request<Incoming>,
) -> Answer {
    let shared = connection.shared.clone();
    let site = &shared.site;
    let cookie_login = login_of_cookie(&shared, request.headers());
    let authenticated = cookie_login.is_some();
    if authenticated {
        connection.set_authenticated();
        browser_pass.set_used();
    }
    let path = request.uri().path().to_owned();
    let Some(file) = path.strip_prefix(site.base_path.as_str()) else {
        // "/desk" means "/desk/"; relative URLs of the page need the slash.
        if format!("{path}/") == site.base_path {
            return with_header(
                plain(StatusCode::PERMANENT_REDIRECT, ""),
                header::LOCATION,
                &site.base_path,
            );
        }
        return if authenticated {
            plain(StatusCode::NOT_FOUND, "there is no such page")
        } else {
            unauthenticated_answer()
        };
    };
    match (request.method(), file, cookie_login) {
        (&Method::POST, "login", _) => login(&connection, request).await,
        (&Method::POST, "logout", Some(cookie)) => logout(&connection, cookie, request.headers()),
        (&Method::POST, LEFT, Some(_)) => left(&connection, request).await,
        (&Method::GET, "ws", Some(cookie)) => {
            if let Err(reason) = check_headers(site, request.headers()) {
                info!("{}: WebSocket refused: {reason}", connection.peer);
                return plain(StatusCode::FORBIDDEN, reason);
            }
            let secret = websocket::offered_secret(request.headers());
            let Some(secret) = secret.and_then(|secret| shared.login_of_origin_secret(&secret))
            else {
                info!("{}: WebSocket refused: a cookie without its secret", connection.peer);
                return unauthenticated_answer();
            };
            websocket::upgrade(connection, request, [cookie, secret])
        }
        (&Method::GET, "login" | webtransport::FILE, cookie) => {
            match (cookie, login_of_origin_secret(&shared, request.headers())) {
                (Some(_), Some(_)) if file == "login" => plain(StatusCode::NO_CONTENT, ""),
                (Some(cookie), Some(secret)) => {
                    let certificate = shared.web_certificate.get().map(Arc::as_ref);
                    let key = shared.new_page_key(page_login(cookie, secret));
                    answer::offer_webtransport(certificate, &key)
                }
                _ => unauthenticated_answer(),
            }
        }
        (&Method::GET | &Method::HEAD, file, _) => {
            let file = match (file, authenticated) {
                ("", true) => "index.html",
                ("", false) => "login.html",
                (other, _) => other,
            };
            let asset = site.assets.iter().find(|asset| asset.name == file);
            match asset.filter(|asset| authenticated || asset.is_public()) {
                Some(asset) => serve_asset(asset, &request),
                // Without a cookie nobody learns which files exist.
                None if !authenticated => unauthenticated_answer(),
                None => plain(StatusCode::NOT_FOUND, "there is no such file"),
            }
        }
        _ if !authenticated => unauthenticated_answer(),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only"),
    }
}

fn unauthenticated_answer() -> Answer {
    plain(StatusCode::UNAUTHORIZED, "open the session's link first; `thinc link NAME` prints one")
}

/// Any cookie of our name may be the right one: another page on this host may have set a second.
fn login_of_cookie(shared: &Shared, headers: &HeaderMap) -> Option<Login> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == shared.site.cookie)
        .filter_map(|(_, value)| base64url::decode(value))
        .take(4)
        .find_map(|cookie| shared.login_of_cookie(&cookie))
}

fn login_of_origin_secret(shared: &Shared, headers: &HeaderMap) -> Option<Login> {
    let secret = base64url::decode(headers.get(ORIGIN_SECRET)?.to_str().ok()?)?;
    shared.login_of_origin_secret(&secret)
}

/// The Origin header names the page that opens a WebSocket; only our own may (RFC 6455 §10.2).
fn check_headers(site: &Site, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else {
        return Err("a WebSocket needs exactly one Origin header");
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    check_origin(site, origin.to_str().unwrap_or_default(), host)
}

/// Checks whether a page of this origin may open the session; `host`: the requested host.
pub(crate) fn check_origin(
    site: &Site,
    origin: &str,
    host: Option<&str>,
) -> Result<(), &'static str> {
    let Some(origin) = origin.strip_prefix("https://") else {
        return Err("this page may not open the session: it is not https");
    };
    // Browsers omit the default port.
    let same = |ours: &str| {
        ours.eq_ignore_ascii_case(origin)
            || ours.strip_suffix(":443").is_some_and(|ours| ours.eq_ignore_ascii_case(origin))
    };
    if host.is_some_and(same) || same(&site.authority) {
        Ok(())
    } else {
        Err("another site may not open the session")
    }
}

/// The body of a login; a guest gives a name, and a password if its invitation has one.
#[derive(Deserialize)]
struct LoginRequest {
    token: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    password: String,
}

async fn login(connection: &HttpConnection, request: Request<Incoming>) -> Answer {
    let shared = &connection.shared;
    // Browsers send an Origin with every POST; other sites may not log in.
    if request.headers().contains_key(header::ORIGIN)
        && let Err(reason) = check_headers(&shared.site, request.headers())
    {
        return plain(StatusCode::FORBIDDEN, reason);
    }
    let LoginRequest { token, name, password } =
        match answer::login_body(request, "expected {\"token\": \"…\"}").await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
    let token = base64url::decode(&token).unwrap_or_default();
    let guest = if is_invitation(&token) {
        let Some(grant) = shared.guests.admit(&token, &name, &password, connection.peer).await
        else {
            return plain(StatusCode::UNAUTHORIZED, NOT_INVITED);
        };
        Some(grant)
    } else if shared.redeem(&token, connection.peer).await {
        None
    } else {
        return plain(StatusCode::UNAUTHORIZED, UNAUTHORIZED);
    };
    connection.set_authenticated();
    let BrowserLogin { cookie, origin_secret } = shared.new_browser_login(guest);
    let cookie = format!(
        "{}={}; Secure; HttpOnly; SameSite=Strict; Path=/",
        shared.site.cookie,
        base64url::encode(&cookie)
    );
    let answer = answer::json(&LoggedIn { origin_secret: base64url::encode(&origin_secret) });
    with_header(answer, header::SET_COOKIE, &cookie)
}

/// Ends the logins of the cookie and of the secret; the connections of their pages end with them.
fn logout(connection: &HttpConnection, cookie: Login, headers: &HeaderMap) -> Answer {
    let HttpConnection { shared, peer, .. } = connection;
    if let Err(reason) = check_headers(&shared.site, headers) {
        return plain(StatusCode::FORBIDDEN, reason);
    }
    // Who has only the cookie may be on another port.
    let Some(secret) = login_of_origin_secret(shared, headers) else {
        return unauthenticated_answer();
    };
    if let Err(error) = shared.end_login(cookie.id).and_then(|()| shared.end_login(secret.id)) {
        warn!("{peer}: cannot record the end of a login: {error}");
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the end of the login cannot be recorded");
    }
    info!("{peer}: logged out");
    let gone =
        format!("{}=; Secure; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", shared.site.cookie);
    with_header(plain(StatusCode::NO_CONTENT, ""), header::SET_COOKIE, &gone)
}

/// A page was left: its connections over WebTransport end now, and not by a time-out.
async fn left(connection: &HttpConnection, request: Request<Incoming>) -> Answer {
    let shared = &connection.shared;
    if let Err(reason) = check_headers(&shared.site, request.headers()) {
        return plain(StatusCode::FORBIDDEN, reason);
    }
    let cookie = login_of_cookie(shared, request.headers());
    let secret = login_of_origin_secret(shared, request.headers());
    let (Some(cookie), Some(secret)) = (cookie, secret) else { return unauthenticated_answer() };
    match answer::login_body(request, "expected {\"page\": \"…\"}").await {
        Err(answer) => answer,
        Ok(LeftBody { page }) => {
            if let Some(page) = PageId::parse(&page) {
                shared.pages.leave(&page_login(cookie, secret).id.0, page);
            }
            plain(StatusCode::NO_CONTENT, "")
        }
    }
}

/// Whose a page is that shows both. Who has a guest's cookie gets no key of the owner: see
/// websocket.rs.
fn page_login(cookie: Login, secret: Login) -> Login {
    if secret.grant.is_some() || cookie.grant.is_none() { secret } else { cookie }
}

/// The answer to a login, beside the cookie.
#[derive(Serialize)]
struct LoggedIn {
    /// As base64url, for the page to keep in the storage of its origin.
    #[serde(rename = "originSecret")]
    origin_secret: String,
}
