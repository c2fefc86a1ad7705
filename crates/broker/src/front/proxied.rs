//! Connections of reverse proxies that the administrator trusts: what the PROXY protocol says
//! before TLS, and the address that counts. Beside the path: used by mod.rs and http.rs, with
//! proxy.rs, which reads bytes. Knows sockets and addresses; never people.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::proxy::{PROXY_HEAD_BYTES, PROXY_SIGNATURE, proxy_body_length, proxy_client};

/// Who is at the other end: a person's machine, even where a reverse proxy is between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// In the form that IPv4 has of its own.
    pub(super) address: IpAddr,
    /// Header fields seldom tell it.
    port: Option<u16>,
}

impl From<SocketAddr> for Peer {
    fn from(at: SocketAddr) -> Peer {
        Peer { address: at.ip().to_canonical(), port: Some(at.port()) }
    }
}

impl Peer {
    /// For a session's log and lists; port 0 if it is not known.
    pub(super) fn socket_address(self) -> SocketAddr {
        SocketAddr::new(self.address, self.port.unwrap_or(0))
    }

    pub(super) fn without_port(address: IpAddr) -> Peer {
        Peer { address: address.to_canonical(), port: None }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

/// Whose connection a trusted proxy says that this is, if it begins with the PROXY protocol.
pub(super) async fn read_header(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let invalid = |error: &dyn fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("the reverse proxy: {error}"))
    };
    let mut first = [0; 6];
    let count = stream.peek(&mut first).await?;
    if first[..count] == *b"PROXY " {
        return Err(invalid(&"this is version 1 of the PROXY protocol; version 2 is needed"));
    }
    if count == 0 || first[0] != PROXY_SIGNATURE[0] {
        return Ok(None);
    }
    let mut head = [0; PROXY_HEAD_BYTES];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; proxy_body_length(&head).map_err(|error| invalid(&error))?];
    stream.read_exact(&mut body).await?;
    proxy_client(&head, &body).map_err(|error| invalid(&error))
}
