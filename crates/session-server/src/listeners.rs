//! The sockets that a session process listens on, passed by the supervisor, which keeps them: new
//! connections wait in their backlog while one session process has died and the next has not
//! started. From supervisor.rs, as one message on the session process's standard input, to
//! front.rs, local.rs and quic_port.rs. Knows descriptors; never connections.

use std::io;
use std::mem::MaybeUninit;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The listening sockets of a session.
#[derive(Debug)]
pub struct Listeners {
    /// For viewers of the same user on this machine, such as `thinc session --stdio` behind ssh.
    pub local: UnixListener,
    /// For requests for a UDP port on demand; from the same processes.
    pub port_requests: UnixListener,
    /// For TLS; none if the session has no port.
    pub tcp: Option<TcpListener>,
    /// For QUIC, on the same port; only together with `tcp`.
    pub udp: Option<UdpSocket>,
}

impl Listeners {
    /// Copies of the sockets, ready to be a session process's standard input.
    pub fn to_stdin(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let (tcp, udp) =
            (self.tcp.as_ref().map(|tcp| tcp.as_fd()), self.udp.as_ref().map(|udp| udp.as_fd()));
        assert!(udp.is_none() || tcp.is_some(), "UDP shares the port of TCP");
        let sockets: Vec<BorrowedFd<'_>> =
            [Some(self.local.as_fd()), Some(self.port_requests.as_fd()), tcp, udp]
                .into_iter()
                .flatten()
                .collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(
            ancillary.push(SendAncillaryMessage::ScmRights(&sockets)),
            "there is room for four"
        );
        // The message stays in the socket until it is read, even if this end is closed.
        sendmsg(&near, &[io::IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
        Ok(far)
    }

    /// Receives them from such a standard input.
    pub(crate) fn take(input: BorrowedFd<'_>) -> io::Result<Listeners> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(
            input,
            &mut [io::IoSliceMut::new(&mut byte)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let mut sockets = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        });
        let mut sockets = sockets.next().into_iter().flatten();
        let missing =
            || io::Error::new(io::ErrorKind::InvalidData, "standard input brings no sockets");
        let local = UnixListener::from(sockets.next().ok_or_else(missing)?);
        let port_requests = UnixListener::from(sockets.next().ok_or_else(missing)?);
        let tcp = sockets.next().map(TcpListener::from);
        Ok(Listeners { local, port_requests, tcp, udp: sockets.next().map(UdpSocket::from) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn viewers_that_connect_before_the_session_process_starts_wait_for_it() {
        let path = std::env::temp_dir().join(format!("thinc-listeners-{}", std::process::id()));
        let local = UnixListener::bind(&path).unwrap();
        let requests_path = path.with_extension("requests");
        let port_requests = UnixListener::bind(&requests_path).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(port).unwrap();
        let owned = Listeners { local, port_requests, tcp: Some(tcp), udp: Some(udp) };
        let mut early = UnixStream::connect(&path).unwrap();
        early.write_all(b"a").unwrap();
        let input = owned.to_stdin().unwrap();
        let taken = Listeners::take(input.as_fd()).unwrap();
        let mut byte = [0];
        taken.local.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"a");
        let _request = UnixStream::connect(&requests_path).unwrap();
        assert!(taken.port_requests.accept().is_ok());
        let _client = TcpStream::connect(port).unwrap();
        assert!(taken.tcp.expect("it was handed over").accept().is_ok());

        assert_eq!(taken.udp.expect("it was handed over").local_addr().unwrap(), port);

        let without = Listeners { udp: None, ..owned };
        let taken = Listeners::take(without.to_stdin().unwrap().as_fd()).unwrap();
        assert!(taken.tcp.is_some() && taken.udp.is_none());
        let local_only = Listeners { tcp: None, ..without };
        assert!(Listeners::take(local_only.to_stdin().unwrap().as_fd()).unwrap().tcp.is_none());
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&requests_path).unwrap();
        let nothing = std::fs::File::open("/dev/null").unwrap();
        assert!(Listeners::take(nothing.as_fd()).is_err());
    }
}
