//! The port of a session that has one: its address, what links to it say, and the secrets that open it.
//! From `thinc serve`'s options, to the session process, which gets a copy of the socket, and to links.
//! Knows addresses and keys; never who connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thinc_session_server::PortConfig;
use thinc_transport::identity::Identity;
use thinc_transport::token::SessionSecret;
use thinc_transport::{DEFAULT_PORT, Link, Scheme, SpkiPin};

use crate::cli::{Listen, Quic, Serve};
use crate::supervisor::{ServeError, absolute};
use crate::terminal::complain;

/// Ports tried from the default one when no address was given.
const DEFAULT_PORTS: u16 = 100;
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT);

/// An open port.
pub(crate) struct Port {
    pub(crate) listener: TcpListener,
    pub(crate) listen: SocketAddr,
    /// For QUIC: the same port, where it was wanted and free.
    pub(crate) udp: Option<UdpSocket>,
    public: Link,
    identity_files: (PathBuf, PathBuf),
    /// The certificate is our own, and browsers will say so.
    self_signed: bool,
    secret: SessionSecret,
}

impl Port {
    /// Opens what was asked for; `state` holds key and certificate.
    pub(crate) fn open(options: &Serve, state: &Path) -> Result<Option<Port>, ServeError> {
        let asked = match options.listen {
            Some(Listen::None) => return Ok(None),
            Some(Listen::At(address)) => Some(address),
            None => None,
        };
        let (identity_files, self_signed) = match (&options.tls_cert, &options.tls_key) {
            (Some(cert), Some(key)) => ((absolute(cert)?, absolute(key)?), false),
            _ => {
                Identity::load_or_make(state)?;
                ((state.join("identity.pem"), state.join("identity.pem")), true)
            }
        };
        let identity = Identity::load(&identity_files.0, &identity_files.1)?;
        let listener = listen(asked)?;
        let listen = listener.local_addr().map_err(|error| ServeError::Listen(asked.unwrap_or(DEFAULT), error))?;
        let udp = if options.quic == Quic::On { listen_udp(listen) } else { None };
        let public = public_place(options, listen, &identity)?;
        let secret = SessionSecret::generate();
        Ok(Some(Port { listener, listen, udp, public, identity_files, self_signed, secret }))
    }

    /// A new link with a token of its own.
    pub(crate) fn link(&self, scheme: Scheme) -> String {
        Link { scheme, token: Some(self.secret.mint_token(now_s())), ..self.public.clone() }.to_string()
    }

    /// What the session process has to know; `used_tokens` outlives it.
    pub(crate) fn config(&self, used_tokens: PathBuf) -> PortConfig {
        PortConfig {
            secret: thinc_transport::base64url::encode(&self.secret.0),
            used_tokens,
            tls_cert: self.identity_files.0.clone(),
            tls_key: self.identity_files.1.clone(),
            base_path: self.public.base_path.clone(),
            authority: self.public.authority(),
        }
    }

    /// The key that a browser warns of.
    pub(crate) fn unknown_key(&self) -> Option<SpkiPin> {
        self.public.pin.filter(|_| self.self_signed)
    }
}

pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// The address asked for, or the first free one of the default ports.
fn listen(asked: Option<SocketAddr>) -> Result<TcpListener, ServeError> {
    let bind = |address: SocketAddr| {
        TcpListener::bind(address).and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
    };
    if let Some(address) = asked {
        return bind(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ServeError::PortInUse(address),
            _ => ServeError::Listen(address, error),
        });
    }
    for port in DEFAULT_PORT..DEFAULT_PORT + DEFAULT_PORTS {
        let address = SocketAddr::new(DEFAULT.ip(), port);
        match bind(address) {
            Ok(listener) => {
                if port != DEFAULT_PORT {
                    complain(&format!("thinc: port {DEFAULT_PORT} is in use; listening on {address} instead"));
                }
                return Ok(listener);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(ServeError::Listen(address, error)),
        }
    }
    Err(ServeError::PortsInUse(DEFAULT_PORT, DEFAULT_PORT + DEFAULT_PORTS - 1))
}

/// The same port for QUIC. A session without is one: viewers then come by TCP.
fn listen_udp(address: SocketAddr) -> Option<UdpSocket> {
    let socket = UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    socket
        .map_err(|error| complain(&format!("thinc: no QUIC, viewers come by TCP alone: UDP port {address}: {error}")))
        .ok()
}

/// What links say, without a token.
fn public_place(options: &Serve, listen: SocketAddr, identity: &Identity) -> Result<Link, ServeError> {
    let mut link = Link {
        scheme: Scheme::Https,
        host: if listen.ip().is_unspecified() { own_address(listen) } else { listen.ip().to_string() },
        port: listen.port(),
        base_path: options.base_path.clone(),
        token: None,
        pin: Some(identity.pin),
    };
    if let Some(public) = &options.public {
        let parsed: Link =
            format!("https://{public}/").parse().map_err(|error| ServeError::Public(public.clone(), error))?;
        link.host = parsed.host;
        // A port that is not said is the one listened on; 443 must be said.
        let said = public.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        link.port = if said { parsed.port } else { listen.port() };
    }
    Ok(link)
}

/// The address this machine would use to reach others; connecting a UDP socket sends nothing.
fn own_address(listen: SocketAddr) -> String {
    let (any, far) = if listen.is_ipv6() { ("[::]:0", "[2001:db8::1]:9") } else { ("0.0.0.0:0", "192.0.2.1:9") };
    let address = UdpSocket::bind(any).and_then(|socket| socket.connect(far).and_then(|()| socket.local_addr()));
    match address {
        Ok(address) => address.ip().to_string(),
        Err(_) => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named() {
        let first = listen(Some("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = first.local_addr().unwrap();
        let error = listen(Some(address)).unwrap_err().to_string();
        assert!(error.starts_with(&address.to_string()), "{error}");
    }

    #[test]
    fn a_port_taken_for_udp_alone_is_no_hindrance() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        assert!(listen_udp(address).is_none());
        drop(taken);
        assert_eq!(listen_udp(address).unwrap().local_addr().unwrap(), address);
    }
}
