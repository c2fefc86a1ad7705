//! The port for figures: HTTP/1.1 without TLS, as it never leaves the machine. Beside the path:
//! from mod.rs, to Prometheus and browsers. Answers requests that read, and only those that name
//! this machine: a page of another site, whose name was made to point here (DNS rebinding), is
//! refused, and no answer allows one to read it. Knows paths; never what a figure means.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{Snapshot, text};
use crate::answer::{self, Answer, HEADER_BYTES_MAX, plain, serve_asset, with_header};
use crate::assets::{self, Asset};
use crate::front::ACCEPT_PAUSE;

/// Connections at a time; more wait in the kernel.
const CONNECTIONS_MAX: usize = 16;
/// How long a connection may take for a request, or be idle.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection may last: browsers and Prometheus open another one.
const LIFE: Duration = Duration::from_secs(600);

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

/// Serves figures, without end.
pub async fn serve(listener: TcpListener, source: Arc<impl Source>) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let assets = Arc::new(assets::all());
    while let Ok(permit) = free.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!("cannot accept a connection for figures: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (source, assets) = (source.clone(), assets.clone());
        tokio::spawn(async move {
            if let Ok(Err(error)) = timeout(LIFE, connection(stream, source, assets)).await {
                debug!("a connection for figures: {error}");
            }
            drop(permit);
        });
    }
}

async fn connection(
    stream: TcpStream,
    source: Arc<impl Source>,
    assets: Arc<Vec<Asset>>,
) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let (source, assets) = (source.clone(), assets.clone());
        async move {
            let answer = route(&request, &*source, &assets).await;
            let answer = answer::secure(answer);
            let policy = CONTENT_SECURITY_POLICY;
            Ok::<_, Infallible>(with_header(answer, header::CONTENT_SECURITY_POLICY, policy))
        }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
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
/// any port: a tunnel has another one.
fn names_this_machine(headers: &HeaderMap) -> bool {
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
    name.eq_ignore_ascii_case("localhost") || ["127.0.0.1", "[::1]"].contains(&name)
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
        for good in ["127.0.0.1", "127.0.0.1:9187", "[::1]", "[::1]:1", "localhost", "LOCALHOST:8"]
        {
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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(source)));
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        server.abort();
        answer
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
