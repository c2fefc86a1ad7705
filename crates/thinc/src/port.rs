//! A session's port: its address, its links, and the secrets that open it. From `thinc serve`'s
//! options, to the session process, which gets a copy of the sockets, and to links. Knows addresses
//! and keys; never who connects.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thinc_session_server::PortConfig;
use thinc_transport::identity::Identity;
use thinc_transport::renewal::IdentityFiles;
use thinc_transport::token::SessionSecret;
use thinc_transport::{DEFAULT_PORT, Link, Scheme, SpkiPin};

use crate::cli::{Listen, Quic, Serve};
use crate::runtime_dir::RuntimeDir;
use crate::serve_error::ServeError;
use crate::supervisor::absolute;
use crate::terminal::print_error;

/// Ports that are tried, from the default one on, if no address was given.
const DEFAULT_PORT_COUNT: u16 = 100;
/// Connections that wait to be accepted: the session process accepts 250 a second in a flood, and
/// a viewer waits for 10 s.
const BACKLOG: i32 = 1024;
/// Key and self-signed certificate.
const IDENTITY: &str = "identity.pem";
/// Files in the session's folder.
const USED_TOKENS: &str = "used-tokens";
const INVITATIONS: &str = "invitations";
const UDP_PORTS: &str = "udp-ports";
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT);

/// An open port.
pub(crate) struct Port {
    pub(crate) listener: TcpListener,
    pub(crate) listen: SocketAddr,
    /// For QUIC: the same port, if enabled and free.
    pub(crate) udp: Option<UdpSocket>,
    /// `--quic on`.
    quic: bool,
    public: Link,
    identity: Identity,
    identity_paths: (PathBuf, PathBuf),
    identity_files: RefCell<IdentityFiles>,
    /// The certificate is self-signed, and browsers warn of it.
    self_signed: bool,
    /// Replaced when what it opened is revoked.
    secret: RefCell<SessionSecret>,
}

impl Port {
    /// Opens the requested port; `state` holds key and certificate.
    pub(crate) fn open(options: &Serve, state: &Path) -> Result<Option<Port>, ServeError> {
        let requested = match options.listen {
            Some(Listen::None) => return Ok(None),
            Some(Listen::At(address)) => Some(address),
            None => None,
        };
        let (identity_paths, self_signed) = match (&options.tls_cert, &options.tls_key) {
            (Some(cert), Some(key)) => ((absolute(cert)?, absolute(key)?), false),
            _ => {
                Identity::load_or_create(state)?;
                ((state.join(IDENTITY), state.join(IDENTITY)), true)
            }
        };
        let mut identity_files = IdentityFiles::new(&identity_paths.0, &identity_paths.1);
        let identity = identity_files.load()?.identity;
        let listener = listen(requested)?;
        let listen = listener
            .local_addr()
            .map_err(|error| ServeError::Listen(requested.unwrap_or(DEFAULT), error))?;
        let quic = options.quic == Quic::On;
        let udp = if quic { listen_udp(listen) } else { None };
        let public = public_link(options, listen, &identity)?;
        Ok(Some(Port {
            listener,
            listen,
            udp,
            quic,
            public,
            identity,
            identity_paths,
            identity_files: RefCell::new(identity_files),
            self_signed,
            secret: RefCell::new(SessionSecret::generate()),
        }))
    }

    /// A new link with a token of its own.
    pub(crate) fn link(&self, scheme: Scheme) -> String {
        let token = self.secret.borrow().mint_token(now_s());
        Link { scheme, token: Some(token), ..self.public() }.to_string()
    }

    /// The session's link, without a token; with the pin of a certificate that was renewed.
    fn public(&self) -> Link {
        // A pair that does not fit is not shown either: the session process says so in its log.
        if let Some(Ok(new)) = self.identity_files.borrow_mut().load_if_changed() {
            self.identity.replace(&new.identity);
        }
        Link { pin: Some(self.identity.pin()), ..self.public.clone() }
    }

    /// Makes every link, login and session credential of the old secret, which is returned, invalid
    /// for a session process that gets the configuration after this.
    pub(crate) fn replace_secret(&self, new: SessionSecret) -> SessionSecret {
        self.secret.replace(new)
    }

    /// The session process's configuration; files in the session's `folder` outlive it.
    pub(crate) fn config(&self, folder: &RuntimeDir) -> PortConfig {
        PortConfig {
            secret: thinc_transport::base64url::encode(&self.secret.borrow().0),
            used_tokens: folder.join(USED_TOKENS),
            invitations: folder.join(INVITATIONS),
            link: Some(self.public().to_string()),
            udp_ports: self.quic.then(|| folder.join(UDP_PORTS)),
            tls_cert: self.identity_paths.0.clone(),
            tls_key: self.identity_paths.1.clone(),
            is_renewed: !self.self_signed,
            base_path: self.public.base_path.clone(),
            authority: self.public.authority(),
        }
    }

    /// The key that a browser warns of.
    pub(crate) fn self_signed_key(&self) -> Option<SpkiPin> {
        self.self_signed.then(|| self.identity.pin())
    }
}

/// The configuration of a session without a port. Its UDP ports on demand show a key that is as old
/// as the session: viewers learn it through ssh, and no other place has to know it.
pub(crate) fn portless_config(
    options: &Serve,
    folder: &RuntimeDir,
) -> Result<PortConfig, ServeError> {
    Identity::load_or_create(&folder.join(""))?;
    let identity = folder.join(IDENTITY);
    Ok(PortConfig {
        secret: thinc_transport::base64url::encode(&SessionSecret::generate().0),
        used_tokens: folder.join(USED_TOKENS),
        invitations: folder.join(INVITATIONS),
        link: None,
        udp_ports: (options.quic == Quic::On).then(|| folder.join(UDP_PORTS)),
        tls_cert: identity.clone(),
        tls_key: identity,
        is_renewed: false,
        base_path: "/".to_owned(),
        authority: String::new(),
    })
}

pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// The requested address, or the first free one of the default ports.
fn listen(requested: Option<SocketAddr>) -> Result<TcpListener, ServeError> {
    let bind = |address: SocketAddr| -> io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        // The standard library sets 128.
        rustix::net::listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    if let Some(address) = requested {
        return bind(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ServeError::PortInUse(address),
            _ => ServeError::Listen(address, error),
        });
    }
    for port in DEFAULT_PORT..DEFAULT_PORT + DEFAULT_PORT_COUNT {
        let address = SocketAddr::new(DEFAULT.ip(), port);
        match bind(address) {
            Ok(listener) => {
                if port != DEFAULT_PORT {
                    print_error(&format!(
                        "thinc: port {DEFAULT_PORT} is in use; listening on {address} instead"
                    ));
                }
                return Ok(listener);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(ServeError::Listen(address, error)),
        }
    }
    Err(ServeError::PortsInUse(DEFAULT_PORT, DEFAULT_PORT + DEFAULT_PORT_COUNT - 1))
}

/// The same port for QUIC; without it viewers connect over TCP.
fn listen_udp(address: SocketAddr) -> Option<UdpSocket> {
    let socket =
        UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    socket
        .map_err(|error| {
            print_error(&format!(
                "thinc: cannot listen on UDP {address}: {error}; viewers connect over TCP only"
            ))
        })
        .ok()
}

/// The session's link, without a token.
fn public_link(
    options: &Serve,
    listen: SocketAddr,
    identity: &Identity,
) -> Result<Link, ServeError> {
    let mut link = Link {
        scheme: Scheme::Https,
        host: if listen.ip().is_unspecified() {
            own_address(listen)
        } else {
            listen.ip().to_string()
        },
        port: listen.port(),
        base_path: options.base_path.clone(),
        token: None,
        pin: Some(identity.pin()),
        guest: None,
    };
    if let Some(public) = &options.public {
        let parsed: Link = format!("https://{public}/")
            .parse()
            .map_err(|error| ServeError::Public(public.clone(), error))?;
        link.host = parsed.host;
        // The default port is the one listened on; 443 must be given explicitly.
        let has_port = public
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        link.port = if has_port { parsed.port } else { listen.port() };
    }
    Ok(link)
}

/// The address this machine would use to reach others; connecting a UDP socket sends nothing.
fn own_address(listen: SocketAddr) -> String {
    let (any, far) =
        if listen.is_ipv6() { ("[::]:0", "[2001:db8::1]:9") } else { ("0.0.0.0:0", "192.0.2.1:9") };
    let address = UdpSocket::bind(any)
        .and_then(|socket| socket.connect(far).and_then(|()| socket.local_addr()));
    match address {
        Ok(address) => address.ip().to_string(),
        Err(_) => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_error_names_a_port_in_use() {
        let first = listen(Some("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = first.local_addr().unwrap();
        let error = listen(Some(address)).unwrap_err().to_string();
        assert!(error.starts_with(&address.to_string()), "{error}");
    }

    #[test]
    fn hundreds_of_connections_wait_to_be_accepted() {
        let listener = listen(Some("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = listener.local_addr().unwrap();
        // The kernel answers no further ones. It may be set up to keep fewer for any program.
        let most: i32 = std::fs::read_to_string("/proc/sys/net/core/somaxconn")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let waiting: Vec<_> = (0..BACKLOG.min(most).min(500))
            .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(900)).unwrap())
            .collect();
        drop(waiting);
    }

    #[test]
    fn a_port_in_use_for_udp_only_disables_quic() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        assert!(listen_udp(address).is_none());
        drop(taken);
        assert_eq!(listen_udp(address).unwrap().local_addr().unwrap(), address);
    }
}
