//! The same port for browsers: a login page for strangers, the web viewer and its WebSocket for those with a cookie.
//! From front.rs, to websocket.rs; HTTP/1.1 only, so that a WebSocket is an ordinary upgrade. Tells pages how to come by WebTransport.
//! Knows requests, cookies and headers; never what the WebSocket carries.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use thinc_protocol::limits::PREAUTH_FRAME_BYTES_MAX;
use thinc_transport::base64url;
use thinc_transport::path::Path;
use thinc_transport::token::{PAGE_KEY_LIFE_S, SessionSecret};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::PortConfig;
use crate::assets::{self, Asset};
use crate::front::{self, Shared, Stream, UNAUTHORIZED, Visitor};
use crate::gate::{LOGIN_GRACE, Pass};
use crate::{websocket, webtransport};

/// 16 KiB of request line and headers. More than the 4 KiB a stranger may send of our own protocol: browsers send along
/// the cookies of every other service on this host, whatever its port.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Requests a page makes at once are few; between them a connection may rest this long.
const REST_TIME: Duration = Duration::from_secs(60);

/// No script, style or frame but our own files; WebAssembly may be compiled. `data:` and `blob:` are cursors' images.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Sent with every answer.
const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// What is served, and under which name.
pub(crate) struct Site {
    pub(crate) base_path: String,
    authority: String,
    /// Cookies are shared by all ports of a host, so each session has a name of its own.
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

/// One connection of a browser: who it is, and whether it has shown a cookie yet.
pub(crate) struct Browser {
    pub(crate) shared: Arc<Shared>,
    pub(crate) visitor: Mutex<Option<Pass>>,
    pub(crate) peer: std::net::SocketAddr,
    /// For the one WebSocket that this connection can become.
    pub(crate) path: Mutex<Option<Path>>,
    known: AtomicBool,
    /// Wakes the one who would close it for being a stranger too long.
    became_known: Notify,
}

impl Browser {
    /// No stranger any more: the login grace no longer counts.
    fn recognise(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            drop(self.visitor.lock().expect("no holder of this lock can panic").take());
            self.became_known.notify_one();
        }
    }
}

/// Serves a connection until it ends; a WebSocket goes on in a task of its own.
pub(crate) async fn serve(shared: Arc<Shared>, stream: Stream, visitor: Visitor, deadline: Instant) {
    let Visitor { id: _, peer, task: _, pass } = visitor;
    let browser = Arc::new(Browser {
        shared,
        visitor: Mutex::new(Some(pass)),
        peer,
        path: Mutex::new(front::path_of(&stream)),
        known: AtomicBool::new(false),
        became_known: Notify::new(),
    });
    let service = {
        let browser = browser.clone();
        service_fn(move |request| {
            let browser = browser.clone();
            async move { Ok::<_, Infallible>(answer(browser, request).await) }
        })
    };
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REST_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let stranger_too_long = async {
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => {}
            () = browser.became_known.notified() => std::future::pending().await,
        }
    };
    tokio::select! {
        result = connection => {
            if let Err(error) = result {
                debug!("{peer}: {error}");
            }
        }
        () = stranger_too_long => debug!("{peer}: no cookie within {LOGIN_GRACE:?}"),
    }
}

type Answer = Response<Full<Bytes>>;

/// One request to one answer.
async fn answer(browser: Arc<Browser>, request: Request<Incoming>) -> Answer {
    let mut answer = route(browser, request).await;
    let headers = answer.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn route(browser: Arc<Browser>, request: Request<Incoming>) -> Answer {
    let shared = browser.shared.clone();
    let site = &shared.site;
    let known = has_cookie(&shared, request.headers());
    if known {
        browser.recognise();
    }
    let path = request.uri().path().to_owned();
    let Some(file) = path.strip_prefix(site.base_path.as_str()) else {
        // "/desk" means "/desk/"; relative addresses of the page need the slash.
        if format!("{path}/") == site.base_path {
            return with_header(plain(StatusCode::PERMANENT_REDIRECT, ""), header::LOCATION, &site.base_path);
        }
        return if known { plain(StatusCode::NOT_FOUND, "no such page") } else { stranger_answer() };
    };
    match (request.method(), file) {
        (&Method::POST, "login") => login(&browser, request).await,
        (&Method::GET, "ws") if known => {
            if let Err(reason) = check_headers(site, request.headers()) {
                info!("{}: WebSocket refused: {reason}", browser.peer);
                return plain(StatusCode::FORBIDDEN, reason);
            }
            websocket::upgrade(browser, request)
        }
        (&Method::GET, webtransport::FILE) if known => invite(&shared),
        (&Method::GET | &Method::HEAD, file) => {
            let file = match (file, known) {
                ("", true) => "index.html",
                ("", false) => "login.html",
                (other, _) => other,
            };
            let asset = site.assets.iter().find(|asset| asset.name == file);
            match asset.filter(|asset| known || asset.is_for_strangers()) {
                Some(asset) => serve_asset(asset, &request),
                // A stranger does not learn which files there are.
                None if !known => stranger_answer(),
                None => plain(StatusCode::NOT_FOUND, "no such file"),
            }
        }
        _ if !known => stranger_answer(),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only"),
    }
}

fn stranger_answer() -> Answer {
    plain(StatusCode::UNAUTHORIZED, "open the session's link first; `thinc link NAME` prints one")
}

/// Any of the cookies of our name may be the right one: another page on this host may have set a second.
fn has_cookie(shared: &Shared, headers: &HeaderMap) -> bool {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == shared.site.cookie)
        .filter_map(|(_, value)| base64url::decode(value))
        .take(4)
        .any(|key| shared.is_session_key(&key))
}

/// A browser says which page opens a WebSocket; only our own may (RFC 6455 §10.2).
fn check_headers(site: &Site, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else {
        return Err("a WebSocket needs exactly one Origin header");
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    check_origin(site, origin.to_str().unwrap_or_default(), host)
}

/// Whether the page that a browser names may open the session; `host`: whom the browser asks.
pub(crate) fn check_origin(site: &Site, origin: &str, host: Option<&str>) -> Result<(), &'static str> {
    let Some(origin) = origin.strip_prefix("https://") else {
        return Err("this page may not open the session: it is not https");
    };
    // Browsers leave the default port out.
    let same = |ours: &str| {
        ours.eq_ignore_ascii_case(origin)
            || ours.strip_suffix(":443").is_some_and(|ours| ours.eq_ignore_ascii_case(origin))
    };
    if host.is_some_and(same) || same(&site.authority) { Ok(()) } else { Err("another site may not open the session") }
}

/// What the login page sends.
#[derive(Deserialize)]
struct Login {
    token: String,
}

async fn login(browser: &Browser, request: Request<Incoming>) -> Answer {
    let shared = &browser.shared;
    // Browsers send an Origin with every POST; a foreign page's has no business here.
    if request.headers().contains_key(header::ORIGIN)
        && let Err(reason) = check_headers(&shared.site, request.headers())
    {
        return plain(StatusCode::FORBIDDEN, reason);
    }
    // JSON cannot be sent by a foreign form.
    let json = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let body = Limited::new(request.into_body(), PREAUTH_FRAME_BYTES_MAX).collect().await;
    let body = match body {
        Ok(body) if json => body.to_bytes(),
        Ok(_) => return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected JSON"),
        Err(_) => return plain(StatusCode::PAYLOAD_TOO_LARGE, "a login has at most 4096 bytes"),
    };
    let Ok(Login { token }) = serde_json::from_slice(&body) else {
        return plain(StatusCode::BAD_REQUEST, "expected {\"token\": \"…\"}");
    };
    let token = base64url::decode(&token).unwrap_or_default();
    if !shared.redeem(&token, browser.peer).await {
        return plain(StatusCode::UNAUTHORIZED, UNAUTHORIZED);
    }
    browser.recognise();
    let key = base64url::encode(&shared.new_session_key());
    let cookie = format!("{}={key}; Secure; HttpOnly; SameSite=Strict; Path=/", shared.site.cookie);
    with_header(plain(StatusCode::NO_CONTENT, ""), header::SET_COOKIE, &cookie)
}

/// How a page comes by WebTransport.
#[derive(Serialize)]
struct Invitation {
    /// SHA-256 of the certificate that it will be shown, as base64url.
    certificate: String,
    /// What it says at the door, as base64url.
    key: String,
    /// For so long.
    seconds: u64,
}

/// Nothing where this session takes nobody by QUIC.
fn invite(shared: &Shared) -> Answer {
    let Some(certificate) = shared.web_certificate.get() else { return plain(StatusCode::NO_CONTENT, "") };
    let invitation = Invitation {
        certificate: base64url::encode(&certificate.hash(front::since_1970())),
        key: base64url::encode(&shared.new_page_key()),
        seconds: PAGE_KEY_LIFE_S,
    };
    let body = serde_json::to_vec(&invitation).expect("texts and a number are JSON");
    let mut answer = plain(StatusCode::OK, "");
    *answer.body_mut() = Full::new(body.into());
    with_header(answer, header::CONTENT_TYPE, "application/json")
}

fn serve_asset(asset: &Asset, request: &Request<Incoming>) -> Answer {
    let same = request.headers().get(header::IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == asset.etag.as_bytes());
    let bytes = if same || request.method() == Method::HEAD { Bytes::new() } else { Bytes::from_static(asset.bytes) };
    let mut answer = Response::new(Full::new(bytes));
    if same {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let answer = with_header(answer, header::CONTENT_TYPE, asset.content_type);
    let answer = with_header(answer, header::ETAG, &asset.etag);
    // The same address is the login page or the viewer, by cookie: it is kept, but asked about each time.
    let answer = with_header(answer, header::VARY, "cookie");
    with_header(answer, header::CACHE_CONTROL, "private, no-cache")
}

pub(crate) fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    let answer = with_header(answer, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    with_header(answer, header::CACHE_CONTROL, "no-store")
}

pub(crate) fn with_header(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
    answer
}
