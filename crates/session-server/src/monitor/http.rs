//! The port for figures: HTTP/1.1 without TLS, as it never leaves the machine. Beside the path:
//! from mod.rs, to Prometheus and browsers. Answers requests that read, and only those that name
//! this machine: a page of another site, whose name was made to point here (DNS rebinding), is
//! refused, and no answer allows one to read it. Knows paths; never what a figure means.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{Snapshot, text};
use crate::answer::{self, Answer, HEADER_BYTES_MAX, plain, serve_asset, with_header};
use crate::assets::{self, Asset};
use crate::front::ACCEPT_PAUSE;
use crate::gate::{Gate, Pass};

/// How long a connection may last, which is for one request: figures take 7 s at most.
const LIFE: Duration = Duration::from_secs(15);

/// The page draws by its own script and reads its own port; `data:` is its icon, which is none.
/// Nothing else is loaded, sent or framed.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The page and what it needs, by path.
const FILES: [(&str, &str); 3] =
    [("/", "monitor.html"), ("/monitor.js", "monitor.js"), ("/monitor.css", "monitor.css")];

/// Where figures come from.
pub trait Source: Send + Sync + 'static {
    /// Those of now; none if they cannot be had.
    fn snapshot(&self) -> impl Future<Output = Option<Arc<Snapshot>>> + Send;
}

/// Serves figures, without end. Nobody here is known: as with strangers elsewhere, past a limit one
/// connection makes room for the newest, and first one that has asked for nothing.
pub async fn serve(listener: TcpListener, source: Arc<impl Source>) {
    let gate = Gate::default();
    let assets = Arc::new(assets::monitor());
    for number in 0.. {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!("cannot accept a connection for figures: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (source, assets) = (source.clone(), assets.clone());
        let (send, receive) = oneshot::channel();
        let task = tokio::spawn(async move {
            // The entry can only be made once there is a task that it can abort.
            let Ok(pass) = receive.await else { return };
            let served = connection(stream, Arc::new(pass), source, assets);
            if let Ok(Err(error)) = timeout(LIFE, served).await {
                debug!("a connection for figures: {error}");
            }
        });
        let _ = send.send(gate.enter(number, peer.ip(), task.abort_handle()));
    }
}

async fn connection(
    stream: TcpStream,
    pass: Arc<Pass>,
    source: Arc<impl Source>,
    assets: Arc<Vec<Asset>>,
) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        pass.set_has_sent();
        let (source, assets) = (source.clone(), assets.clone());
        async move {
            let answer = route(&request, &*source, &assets).await;
            let answer = answer::secure(answer);
            let policy = CONTENT_SECURITY_POLICY;
            Ok::<_, Infallible>(with_header(answer, header::CONTENT_SECURITY_POLICY, policy))
        }
    });
    hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .header_read_timeout(None)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn route(request: &Request<Incoming>, source: &impl Source, assets: &[Asset]) -> Answer {
    if !names_this_machine(request.headers()) {
        return plain(
            StatusCode::MISDIRECTED_REQUEST,
            "open this port as 127.0.0.1, [::1] or localhost, through an ssh tunnel from elsewhere",
        );
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "figures can only be read");
    }
    let path = request.uri().path();
    if let Some((_, name)) = FILES.iter().find(|(served, _)| *served == path) {
        let Some(asset) = assets.iter().find(|asset| asset.name == *name) else {
            return plain(StatusCode::NOT_FOUND, "this build of thinc has no page for figures");
        };
        return serve_asset(asset, request);
    }
    if !["/metrics", "/figures.json"].contains(&path) {
        return plain(StatusCode::NOT_FOUND, "there are /, /metrics and /figures.json");
    }
    let Some(snapshot) = source.snapshot().await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "no figures at this moment");
    };
    if path == "/figures.json" {
        return with_header(answer::json(&*snapshot), header::CACHE_CONTROL, "no-store");
    }
    let Ok(text) = text::text(snapshot) else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "the figures cannot be written");
    };
    let mut answer = plain(StatusCode::OK, "");
    *answer.body_mut() = text.into_bytes().into();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    with_header(answer, header::CONTENT_TYPE, kind)
}

/// True if the one `Host` is this machine under a name that nobody else can point elsewhere, with
/// any port, as a tunnel has another one: `localhost`, or an address, for which no name service is
/// asked. Every address that [`super::parse_address`] takes is one of them.
pub(super) fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
                return false;
            }
            name
        }
        _ => host,
    };
    let address = match name.strip_prefix('[') {
        // RFC 3986, section 3.2.2: brackets are for IPv6.
        Some(rest) => rest.strip_suffix(']').and_then(|text| text.parse().ok()).map(IpAddr::V6),
        None => name.parse().ok().map(IpAddr::V4),
    };
    name.eq_ignore_ascii_case("localhost")
        || address.is_some_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn hosts(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (header::HOST, HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn only_names_that_cannot_be_pointed_elsewhere_are_answered() {
        for good in [
            "127.0.0.1",
            "127.0.0.1:9187",
            "127.8.9.1:9187",
            "[::1]",
            "[::1]:1",
            "[::ffff:127.0.0.1]:9187",
            "[::ffff:7f00:1]",
            "localhost",
            "LOCALHOST:8",
        ] {
            assert!(names_this_machine(&hosts(&[good])), "{good}");
        }
        let bad = [
            "attacker.example",
            "attacker.example:9187",
            "127.0.0.1.attacker.example",
            "",
            ":1",
            "127.0.0.1:",
            "127.0.0.1:x",
            "[::2]:1",
            "[127.0.0.1]:1",
            "::1",
            "::ffff:127.0.0.1",
            "[::1",
            "::1]:1",
            "[::ffff:192.0.2.1]:9187",
            "127.1",
            "192.0.2.1:9187",
            "localhost.",
            "localhost:1:2",
            "[::1]x",
        ];
        for bad in bad {
            assert!(!names_this_machine(&hosts(&[bad])), "{bad}");
        }
        assert!(!names_this_machine(&hosts(&[])));
        assert!(!names_this_machine(&hosts(&["127.0.0.1", "127.0.0.1"])));
    }

    struct Fixed(Option<Arc<Snapshot>>);

    impl Source for Fixed {
        async fn snapshot(&self) -> Option<Arc<Snapshot>> {
            self.0.clone()
        }
    }

    async fn ask(source: Fixed, request: &str) -> String {
        ask_beside(0, source, request).await
    }

    /// The same while so many others are connected and ask nothing.
    async fn ask_beside(others: usize, source: Fixed, request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(source)));
        let mut idle = Vec::new();
        for _ in 0..others {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        server.abort();
        answer
    }

    #[tokio::test]
    async fn who_is_connected_and_asks_nothing_keeps_nobody_out() {
        let get = "GET /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n";
        let answer = ask_beside(100, Fixed(Some(Arc::default())), get).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        // One request for each connection.
        assert!(answer.contains("connection: close\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn figures_are_read_by_who_names_this_machine_and_by_nobody_else() {
        let fixed = || Fixed(Some(Arc::default()));
        let get = |path: &str, host: &str| {
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        };
        let answer = ask(fixed(), &get("/metrics", "127.0.0.1:9187")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
        assert!(answer.contains(kind) && answer.ends_with("# EOF\n"), "{answer}");
        assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
        assert!(!answer.contains("set-cookie") && !answer.contains("access-control"), "{answer}");
        let answer = ask(fixed(), &get("/figures.json", "localhost")).await;
        assert!(answer.contains("\"sessions\":0"), "{answer}");

        let answer = ask(fixed(), &get("/metrics", "attacker.example:9187")).await;
        assert!(answer.starts_with("HTTP/1.1 421 ") && !answer.contains("thinc_"), "{answer}");
        let post = "POST /metrics HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 0\r\n\r\n";
        assert!(ask(fixed(), post).await.starts_with("HTTP/1.1 405 "));
        let answer = ask(fixed(), &get("/../etc/passwd", "[::1]")).await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        let answer = ask(Fixed(None), &get("/metrics", "[::1]")).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
}
