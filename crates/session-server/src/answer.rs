//! Answers of HTTP that all pages of thinc share: security headers, embedded files, short texts.
//! Beside the path: from http.rs, and from the broker's front, to browsers. Knows headers; never
//! who may have what.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thinc_protocol::limits::PREAUTH_MESSAGE_BYTES_MAX;
use thinc_transport::base64url;
use thinc_transport::token::PAGE_KEY_LIFE_S;
use thinc_transport::web_certificate::WebCertificate;

use crate::assets::Asset;
use crate::front::since_1970;

/// A whole answer.
pub type Answer = Response<Full<Bytes>>;

/// 16 KiB of request line and headers. More than the 4 KiB that an unauthenticated viewer may send:
/// browsers send the cookies of every other service on this host, whatever its port.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// How long a connection may be idle between two requests.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Allows only our own scripts and styles; WebAssembly may be compiled. `data:` and `blob:` are
/// cursor images, and in a frame a document that a program of the session prints (a blob of the
/// page's own; no other frames).
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
    script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; worker-src 'self'; manifest-src 'self'; frame-src blob:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Sent with every answer.
const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Adds the headers that every answer has.
pub fn secure(mut answer: Answer) -> Answer {
    for (name, value) in SECURITY_HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// A value as JSON.
pub fn json(body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).expect("texts and numbers are JSON");
    let mut answer = plain(StatusCode::OK, "");
    *answer.body_mut() = Full::new(body.into());
    with_header(answer, header::CONTENT_TYPE, "application/json")
}

/// Longest body of a login.
const LOGIN_BYTES_MAX: usize = PREAUTH_MESSAGE_BYTES_MAX;

/// The body of a request to log in; `expected` is what somebody is told who has sent another one.
pub async fn login_body<T: DeserializeOwned>(
    request: Request<Incoming>,
    expected: &'static str,
) -> Result<T, Answer> {
    // Another site's form cannot send JSON.
    let is_json = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let body = Limited::new(request.into_body(), LOGIN_BYTES_MAX)
        .collect()
        .await
        .map_err(|_| plain(StatusCode::PAYLOAD_TOO_LARGE, "a request has at most 4096 bytes"))?;
    if !is_json {
        return Err(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected JSON"));
    }
    serde_json::from_slice(&body.to_bytes()).map_err(|_| plain(StatusCode::BAD_REQUEST, expected))
}

/// What a page needs to connect with WebTransport.
#[derive(Serialize)]
struct WebTransportOffer {
    /// SHA-256 of the certificate that the page will see, as base64url.
    certificate: String,
    /// The key that authenticates it, as base64url.
    key: String,
    /// How long the key is valid.
    seconds: u64,
}

/// How to connect with WebTransport; without content if there is no certificate, and so no QUIC.
pub fn offer_webtransport(certificate: Option<&WebCertificate>, key: &[u8]) -> Answer {
    let Some(certificate) = certificate else { return plain(StatusCode::NO_CONTENT, "") };
    json(&WebTransportOffer {
        certificate: base64url::encode(&certificate.hash(since_1970())),
        key: base64url::encode(key),
        seconds: PAGE_KEY_LIFE_S,
    })
}

/// An embedded file, or that the browser has it.
pub fn serve_asset(asset: &Asset, request: &Request<Incoming>) -> Answer {
    let same = request
        .headers()
        .get(header::IF_NONE_MATCH)
        .is_some_and(|tag| tag.as_bytes() == asset.etag.as_bytes());
    let bytes = if same || request.method() == Method::HEAD {
        Bytes::new()
    } else {
        Bytes::from_static(asset.bytes)
    };
    let mut answer = Response::new(Full::new(bytes));
    if same {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let answer = with_header(answer, header::CONTENT_TYPE, asset.content_type);
    let answer = with_header(answer, header::ETAG, &asset.etag);
    // The same URL is the login page or the viewer, depending on the cookie: browsers may cache it
    // but must revalidate.
    let answer = with_header(answer, header::VARY, "cookie");
    with_header(answer, header::CACHE_CONTROL, "private, no-cache")
}

/// A short text; browsers do not store it.
pub fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    let answer = with_header(answer, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    with_header(answer, header::CACHE_CONTROL, "no-store")
}

/// The same answer with one more header.
pub fn with_header(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
    answer
}
