//! The print server that programs would have found without the session's: the system's, or the one
//! that the user's environment names. Under printing.rs, which passes on what is not about the
//! session's printer. Knows addresses, HTTP connections and CUPS' configuration; no printers.

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::handshake;
use hyper::header;
use hyper::http::request::Parts;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tracing::debug;

/// CUPS' own socket.
const SYSTEM_SOCKET: &str = "/run/cups/cups.sock";
/// For all users.
const SYSTEM_CONFIG: &str = "/etc/cups/client.conf";
/// Longest configuration that is read.
const CONFIG_BYTES_MAX: usize = 64 << 10;
const DEFAULT_PORT: &str = "631";
/// A server in the network that does not answer must not delay a print dialog for long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SystemPrinters {
    Socket(PathBuf),
    Address(String),
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

    async fn connect(&self) -> Option<Box<dyn Stream>> {
        let connect = async {
            Ok::<Box<dyn Stream>, std::io::Error>(match self {
                SystemPrinters::Socket(path) => Box::new(UnixStream::connect(path).await?),
                SystemPrinters::Address(address) => Box::new(TcpStream::connect(address).await?),
            })
        };
        match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                debug!("no print server at {self:?}: {error}");
                None
            }
            Err(_) => {
                debug!("no print server at {self:?} within {CONNECT_TIMEOUT:?}");
                None
            }
        }
    }

    /// Passes on a request of which `first` was read already; None if there is no server.
    pub(crate) async fn forward(
        &self,
        parts: Parts,
        first: Vec<u8>,
        rest: Incoming,
    ) -> Option<Response<Incoming>> {
        let stream = self.connect().await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                debug!("the system's print server: {error}");
            }
        });
        let first = (!first.is_empty()).then(|| Bytes::from(first));
        let mut request = Request::from_parts(parts, Passed { first, rest });
        // These are about the connection; the body's length stays, where there is one.
        for name in [header::CONNECTION, header::EXPECT, header::TRANSFER_ENCODING] {
            request.headers_mut().remove(name);
        }
        sender.send_request(request).await.ok()
    }
}

/// A body whose first bytes were read already.
struct Passed {
    first: Option<Bytes>,
    rest: Incoming,
}

impl Body for Passed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
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
    use super::*;

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
