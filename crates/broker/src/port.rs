//! The sockets that the broker listens on, TCP and UDP. Beside the path: from options.rs, to the
//! front, which helper.rs passes them to. Knows addresses; never who connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::BrokerError;

/// Most addresses to listen on.
pub const LISTEN_MAX: usize = 16;
/// How long a port may be in use when the broker starts, and how often it is tried: the kernel
/// tells nobody when it is free.
const PORT_TIMEOUT: Duration = Duration::from_secs(2);
const PORT_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Connections that wait while the front is restarted.
const BACKLOG: i32 = 1024;
/// Without an address.
const PORT: u16 = 443;

/// Listens on these addresses; on none, on port 443 of every address, or without IPv6, of every
/// IPv4 address.
pub(crate) fn listen(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, BrokerError> {
    let until = Instant::now() + PORT_TIMEOUT;
    let bind = |address: SocketAddr| {
        when_free(until, || bind(address, is_only_v6(address, addresses)))
            .map_err(|error| BrokerError::Listen(address, error))
    };
    if !addresses.is_empty() {
        return addresses.iter().copied().map(bind).collect();
    }
    match bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT))) {
        Err(BrokerError::Listen(_, error))
            if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) =>
        {
            bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))
        }
        result => result,
    }
    .map(|listener| vec![listener])
}

/// Listens on this address alone.
pub(crate) fn listen_one(address: SocketAddr) -> Result<TcpListener, BrokerError> {
    when_free(Instant::now() + PORT_TIMEOUT, || bind(address, false))
        .map_err(|error| BrokerError::Listen(address, error))
}

/// The front of a broker that was just killed has a port for a moment, and ends by itself.
fn when_free<T>(until: Instant, mut bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                std::thread::sleep(PORT_POLL_INTERVAL);
            }
            result => return result,
        }
    }
}

/// The same addresses and ports over UDP, for QUIC.
pub(crate) fn listen_udp(listeners: &[TcpListener]) -> Result<Vec<UdpSocket>, BrokerError> {
    let failed = |error| BrokerError::System("read a port's address", error);
    let addresses: Vec<SocketAddr> =
        listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>().map_err(failed)?;
    let until = Instant::now() + PORT_TIMEOUT;
    let bind = |&address: &SocketAddr| {
        when_free(until, || bind_udp(address, is_only_v6(address, &addresses)))
            .map_err(|error| BrokerError::ListenUdp(address, error))
    };
    addresses.iter().map(bind).collect()
}

/// [::] means every address, those of IPv4 too, whatever `net.ipv6.bindv6only` says; but not beside
/// an IPv4 address with the same port, which would be in use then.
fn is_only_v6(address: SocketAddr, addresses: &[SocketAddr]) -> bool {
    let is_beside = |other: &SocketAddr| other.is_ipv4() && other.port() == address.port();
    address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        && address.port() != 0
        && addresses.iter().any(is_beside)
}

fn bind_udp(address: SocketAddr, is_only_v6: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(is_only_v6)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn bind(address: SocketAddr, is_only_v6: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of the broker before do not keep the port in use.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(is_only_v6)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn both_families_share_a_port_by_one_socket_or_by_two() {
        let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let reaches = |address: IpAddr, port: u16| TcpStream::connect((address, port)).is_ok();
        let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));

        let both = listen(&[all]).unwrap();
        let number = port(&both[0]);
        assert!(reaches(v4, number) && reaches(v6, number));
        drop(both);

        let first = listen(&[SocketAddr::new(v4, 0)]).unwrap();
        let number = port(&first[0]);
        drop(first);
        let other = SocketAddr::from((Ipv6Addr::UNSPECIFIED, number));
        let two = listen(&[SocketAddr::new(v4, number), other]).unwrap();
        assert!(reaches(v4, number) && reaches(v6, number));
        assert_eq!(two.len(), 2);
        let udp = listen_udp(&two).unwrap();
        assert!(udp.iter().all(|socket| socket.local_addr().unwrap().port() == number));
        let in_use = listen_udp(&two).unwrap_err().to_string();
        assert!(in_use.contains(&format!("UDP 127.0.0.1:{number}: ")), "{in_use}");
        let in_use = listen(&[SocketAddr::new(v4, number)]).unwrap_err().to_string();
        assert!(in_use.starts_with(&format!("cannot listen on 127.0.0.1:{number}: ")), "{in_use}");
    }
}
