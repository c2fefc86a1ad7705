//! The sockets of the sound server, passed by the supervisor, which keeps them: programs and the
//! session process that connect while the sound server restarts wait in their backlog. From
//! supervisor.rs, as one message on the sound server's standard input, to process.rs. Knows
//! descriptors; never connections.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The listening sockets of a sound server.
#[derive(Debug)]
pub struct Sockets {
    /// For programs that speak PulseAudio's protocol.
    pub pulse: UnixListener,
    /// For the session process.
    pub link: UnixListener,
}

impl Sockets {
    /// Copies of the sockets, ready to be a sound server's standard input.
    pub fn to_stdin(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let sockets = [self.pulse.as_fd(), self.link.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let has_room = ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
        assert!(has_room, "there is room for two");
        // The message stays in the socket until it is read, even if this end is closed.
        sendmsg(&near, &[io::IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
        Ok(far)
    }

    /// Receives them from such a standard input.
    pub(crate) fn take(input: BorrowedFd<'_>) -> io::Result<Sockets> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut bytes = [io::IoSliceMut::new(&mut byte)];
        recvmsg(input, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let sockets = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        });
        let mut sockets = sockets.into_iter().flatten();
        let missing =
            || io::Error::new(io::ErrorKind::InvalidData, "standard input brings no sockets");
        let pulse = UnixListener::from(sockets.next().ok_or_else(missing)?);
        let link = UnixListener::from(sockets.next().ok_or_else(missing)?);
        Ok(Sockets { pulse, link })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn programs_that_connect_before_the_sound_server_starts_wait_for_it() {
        let path = std::env::temp_dir().join(format!("thinc-desk-{}", std::process::id()));
        let link_path = path.with_extension("link");
        let owned = Sockets {
            pulse: UnixListener::bind(&path).unwrap(),
            link: UnixListener::bind(&link_path).unwrap(),
        };
        let mut early = UnixStream::connect(&path).unwrap();
        early.write_all(b"a").unwrap();
        let input = owned.to_stdin().unwrap();
        drop(owned);
        let taken = Sockets::take(input.as_fd()).unwrap();
        let mut byte = [0];
        taken.pulse.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"a");
        let _session = UnixStream::connect(&link_path).unwrap();
        assert!(taken.link.accept().is_ok());
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&link_path).unwrap();
        assert!(Sockets::take(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }
}
