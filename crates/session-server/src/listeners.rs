//! What a session process listens on, handed over by the supervisor, which goes on owning it: viewers wait in these
//! sockets while one session process has died and the next has not begun.
//! From supervisor.rs, as one message on the session process's standard input, to front.rs and local.rs.

use std::io;
use std::mem::MaybeUninit;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The doors of a session, open already.
#[derive(Debug)]
pub struct Listeners {
    /// For viewers of the same user on this machine, such as `thinc session --stdio` behind ssh.
    pub local: UnixListener,
    /// For TLS; none where the session has no port.
    pub tcp: Option<TcpListener>,
    /// For QUIC, the same port; only beside `tcp`.
    pub udp: Option<UdpSocket>,
}

impl Listeners {
    /// Copies of the sockets, ready to be a session process's standard input.
    pub fn hand_over(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let (tcp, udp) = (self.tcp.as_ref().map(|tcp| tcp.as_fd()), self.udp.as_ref().map(|udp| udp.as_fd()));
        assert!(udp.is_none() || tcp.is_some(), "UDP is the port's second half");
        let sockets: Vec<BorrowedFd<'_>> = [Some(self.local.as_fd()), tcp, udp].into_iter().flatten().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&sockets)), "there is room for three");
        // It stays in the socket until it is read, whatever becomes of this end.
        sendmsg(&near, &[io::IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
        Ok(far)
    }

    /// Takes them out of such an input.
    pub(crate) fn take(input: BorrowedFd<'_>) -> io::Result<Listeners> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(input, &mut [io::IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut sockets = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        });
        let mut sockets = sockets.next().into_iter().flatten();
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "standard input holds no sockets");
        let local = UnixListener::from(sockets.next().ok_or_else(missing)?);
        let tcp = sockets.next().map(TcpListener::from);
        Ok(Listeners { local, tcp, udp: sockets.next().map(UdpSocket::from) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_came_before_the_session_process_waits_for_it() {
        let path = std::env::temp_dir().join(format!("thinc-listeners-{}", std::process::id()));
        let local = UnixListener::bind(&path).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(port).unwrap();
        let owned = Listeners { local, tcp: Some(tcp), udp: Some(udp) };
        let mut early = UnixStream::connect(&path).unwrap();
        early.write_all(b"a").unwrap();
        let input = owned.hand_over().unwrap();
        let taken = Listeners::take(input.as_fd()).unwrap();
        let mut byte = [0];
        taken.local.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"a");
        let _client = TcpStream::connect(port).unwrap();
        assert!(taken.tcp.expect("it was handed over").accept().is_ok());

        assert_eq!(taken.udp.expect("it was handed over").local_addr().unwrap(), port);

        let without = Listeners { udp: None, ..owned };
        let taken = Listeners::take(without.hand_over().unwrap().as_fd()).unwrap();
        assert!(taken.tcp.is_some() && taken.udp.is_none());
        let alone = Listeners { tcp: None, ..without };
        assert!(Listeners::take(alone.hand_over().unwrap().as_fd()).unwrap().tcp.is_none());
        std::fs::remove_file(&path).unwrap();
        let nothing = std::fs::File::open("/dev/null").unwrap();
        assert!(Listeners::take(nothing.as_fd()).is_err());
    }
}
