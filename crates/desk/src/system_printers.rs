//! The print server that programs would have found without the session's: the system's, or the one
//! that the user's environment names. Under printing.rs, which passes on what is not about the
//! session's printer. Knows addresses, HTTP connections and CUPS' configuration; no printers.

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::handshake;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

/// CUPS' own socket.
const SYSTEM_SOCKET: &str = "/run/cups/cups.sock";
/// For all users.
const SYSTEM_CONFIG: &str = "/etc/cups/client.conf";
/// Longest configuration that is read.
const CONFIG_BYTES_MAX: usize = 64 << 10;
const DEFAULT_PORT: &str = "631";
/// A server in the network that cannot be reached must not delay a print dialog for long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A server that neither reads nor answers for so long has failed.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SystemPrinters {
    Socket(PathBuf),
    Address(String),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// This machine has no print server.
    Absent,
    /// The server fails so, for people.
    Failed(String),
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl SystemPrinters {
    /// As libcups finds it: by `CUPS_SERVER`, by the user's or the system's configuration, else the
    /// system's socket.
    pub(crate) fn find() -> SystemPrinters {
        let by_environment = std::env::var("CUPS_SERVER").ok().filter(|name| !name.is_empty());
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cups/client.conf"));
        let configs = home.into_iter().chain([PathBuf::from(SYSTEM_CONFIG)]);
        let by_config = || configs.filter_map(|path| server_name(&fs::read(path).ok()?)).next();
        let name = by_environment.or_else(by_config);
        name.map_or_else(|| SystemPrinters::Socket(SYSTEM_SOCKET.into()), |name| of_name(&name))
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, NoAnswer> {
        let connect = async {
            Ok::<Box<dyn Stream>, std::io::Error>(match self {
                SystemPrinters::Socket(path) => Box::new(UnixStream::connect(path).await?),
                SystemPrinters::Address(address) => Box::new(TcpStream::connect(address).await?),
            })
        };
        match (timeout(CONNECT_TIMEOUT, connect).await, self) {
            (Ok(Ok(stream)), _) => Ok(stream),
            (Ok(Err(error)), SystemPrinters::Socket(path)) => {
                debug!("no print server at {}: {error}", path.display());
                Err(NoAnswer::Absent)
            }
            (Ok(Err(error)), _) => Err(self.failed(&format!("cannot be reached: {error}"))),
            (Err(_), _) => {
                Err(self
                    .failed(&format!("cannot be reached within {} s", CONNECT_TIMEOUT.as_secs())))
            }
        }
    }

    fn failed(&self, why: &str) -> NoAnswer {
        let words = match self {
            SystemPrinters::Socket(path) => format!("The print server {} {why}", path.display()),
            SystemPrinters::Address(address) => format!("The print server {address} {why}"),
        };
        warn!("{words}");
        NoAnswer::Failed(words)
    }

    /// Passes on a request of which `first` was read already.
    pub(crate) async fn forward(
        &self,
        parts: Parts,
        first: Vec<u8>,
        rest: Incoming,
    ) -> Result<Response<Incoming>, NoAnswer> {
        self.forward_within(SILENCE_TIMEOUT, parts, first, rest).await
    }

    async fn forward_within<B>(
        &self,
        silence: Duration,
        parts: Parts,
        first: Vec<u8>,
        rest: B,
    ) -> Result<Response<Incoming>, NoAnswer>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // A server in the network refuses requests for another host's name.
        let host = match self {
            SystemPrinters::Socket(_) => "localhost",
            SystemPrinters::Address(address) => address,
        };
        let host = HeaderValue::from_str(host).map_err(|_| self.failed("has no valid name"))?;
        let stream = self.connect().await?;
        let broken = |error: hyper::Error| self.failed(&format!("broke off: {error}"));
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let connection = tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!("the system's print server: {error}");
            }
        });
        let first = (!first.is_empty()).then(|| Bytes::from(first));
        let taken = Arc::new(Notify::new());
        let mut request = Request::from_parts(parts, Passed { first, rest, taken: taken.clone() });
        request.headers_mut().insert(header::HOST, host);
        // These are about the connection; the body's length stays, where there is one.
        for name in [header::CONNECTION, header::EXPECT, header::TRANSFER_ENCODING] {
            request.headers_mut().remove(name);
        }
        let mut answer = pin!(sender.send_request(request));
        loop {
            tokio::select! {
                answered = &mut answer => return answered.map_err(broken),
                () = taken.notified() => {}
                () = sleep(silence) => {
                    connection.abort();
                    let seconds = silence.as_secs();
                    return Err(self.failed(&format!("has not answered for {seconds} s")));
                }
            }
        }
    }
}

/// A body whose first bytes were read already.
struct Passed<B> {
    first: Option<Bytes>,
    rest: B,
    /// Told when the server takes some of it.
    taken: Arc<Notify>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Passed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        };
        if frame.is_ready() {
            self.taken.notify_one();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().map_or(0, |first| first.len() as u64);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + first);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + first);
        }
        hint
    }
}

/// The server that a configuration of libcups names.
fn server_name(config: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&config[..config.len().min(CONFIG_BYTES_MAX)]);
    let mut named = text.lines().filter_map(|line| {
        let (key, value) = line.trim().split_once(char::is_whitespace)?;
        key.eq_ignore_ascii_case("ServerName").then(|| value.trim().to_owned())
    });
    named.rfind(|name| !name.is_empty())
}

/// A path, or a host with or without a port; `/version=1.1` may follow a host.
fn of_name(name: &str) -> SystemPrinters {
    if name.starts_with('/') {
        return SystemPrinters::Socket(name.into());
    }
    let host = name.split('/').next().unwrap_or(name);
    let has_port = host.rsplit_once(':').is_some_and(|(start, port)| {
        // Not a part of an IPv6 address.
        port.parse::<u16>().is_ok() && (!start.contains(':') || start.ends_with(']'))
    });
    let address = if has_port { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") };
    SystemPrinters::Address(address)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// What passing on a request results in, and what the server of this address got of it.
    async fn pass_on(
        server: &SystemPrinters,
        silence: Duration,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let request = Request::post("/printers/office").header("Host", "localhost:631");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let rest = Full::new(Bytes::from_static(b"rest"));
        server.forward_within(silence, parts, b"first ".to_vec(), rest).await
    }

    async fn listen() -> (TcpListener, String, SystemPrinters) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, address.clone(), of_name(&address))
    }

    #[tokio::test]
    async fn a_server_in_the_network_is_called_by_its_own_name() {
        let (listener, address, server) = listen().await;
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = Vec::new();
            while !got.ends_with(b"rest") {
                assert!(stream.read_buf(&mut got).await.unwrap() > 0);
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            String::from_utf8(got).unwrap().to_ascii_lowercase()
        };
        let (got, answer) = tokio::join!(serve, pass_on(&server, SILENCE_TIMEOUT));
        assert_eq!(answer.unwrap().status(), 200);
        assert!(got.contains(&format!("\r\nhost: {address}\r\n")), "{got}");
        assert_eq!(got.matches("host:").count(), 1, "{got}");
        assert!(got.ends_with("first rest"), "{got}");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_named_and_why() {
        let (listener, address, server) = listen().await;
        let failed = |passed: Result<Response<Incoming>, NoAnswer>| match passed {
            Err(NoAnswer::Failed(why)) => why,
            other => panic!("{other:?}"),
        };
        // It accepts, and says nothing.
        let words = failed(pass_on(&server, Duration::from_millis(1)).await);
        assert_eq!(words, format!("The print server {address} has not answered for 0 s"));
        drop(listener);
        let words = failed(pass_on(&server, SILENCE_TIMEOUT).await);
        let start = format!("The print server {address} cannot be reached: ");
        assert!(words.starts_with(&start), "{words}");
        let none = SystemPrinters::Socket("/none/cups.sock".into());
        let passed = pass_on(&none, SILENCE_TIMEOUT).await;
        assert!(matches!(passed, Err(NoAnswer::Absent)), "{passed:?}");
    }

    #[test]
    fn servers_are_named_as_for_libcups() {
        let address = |text: &str| SystemPrinters::Address(text.to_owned());
        assert_eq!(of_name("/run/x.sock"), SystemPrinters::Socket("/run/x.sock".into()));
        assert_eq!(of_name("print.example.org"), address("print.example.org:631"));
        assert_eq!(of_name("print:8631/version=1.1"), address("print:8631"));
        assert_eq!(of_name("[fe80::1]:80"), address("[fe80::1]:80"));
        assert_eq!(of_name("[fe80::1]"), address("[fe80::1]:631"));
        let config = b"# ServerName no\nEncryption IfRequested\n servername  print.example.org \n";
        assert_eq!(server_name(config).as_deref(), Some("print.example.org"));
        assert_eq!(server_name(b"ServerName"), None);
    }
}
