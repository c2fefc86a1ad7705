//! The sockets of the desk, passed by the supervisor, which keeps them: programs and the session
//! process that connect while the desk restarts wait in their backlog. From supervisor.rs, as one
//! message on the desk's standard input, to process.rs. Knows descriptors; never connections.
//!
//! ```text
//! one byte, marks: 1 sound, 2 printing     its descriptors: those for programs and for the session
//!                                          process, of sound, then of printing
//! ```

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

const SOUND: u8 = 1;
const PRINTING: u8 = 2;

/// The listening sockets of one service.
#[derive(Debug)]
pub struct ServiceSockets {
    /// For programs of the session.
    pub programs: UnixListener,
    /// For the session process.
    pub link: UnixListener,
}

/// The listening sockets of a desk; None: the session has no such service.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Programs speak PulseAudio's protocol.
    pub sound: Option<ServiceSockets>,
    /// Programs speak IPP.
    pub printing: Option<ServiceSockets>,
}

impl Sockets {
    /// Copies of the sockets, ready to be a desk's standard input.
    pub fn to_stdin(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let services = [&self.sound, &self.printing].into_iter().flatten();
        let sockets: Vec<BorrowedFd<'_>> =
            services.flat_map(|service| [service.programs.as_fd(), service.link.as_fd()]).collect();
        let marks =
            u8::from(self.sound.is_some()) * SOUND + u8::from(self.printing.is_some()) * PRINTING;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let has_room = ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
        assert!(has_room, "there is room for four");
        // The message stays in the socket until it is read, even if this end is closed.
        sendmsg(&near, &[io::IoSlice::new(&[marks])], &mut ancillary, SendFlags::empty())?;
        Ok(far)
    }

    /// Receives them from such a standard input.
    pub(crate) fn take(input: BorrowedFd<'_>) -> io::Result<Sockets> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut marks = [0];
        let mut bytes = [io::IoSliceMut::new(&mut marks)];
        recvmsg(input, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let sockets = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        });
        let mut sockets = sockets.into_iter().flatten();
        let missing =
            || io::Error::new(io::ErrorKind::InvalidData, "standard input brings no sockets");
        let mut service = |mark| -> io::Result<Option<ServiceSockets>> {
            if marks[0] & mark == 0 {
                return Ok(None);
            }
            let mut next = || sockets.next().map(UnixListener::from).ok_or_else(missing);
            Ok(Some(ServiceSockets { programs: next()?, link: next()? }))
        };
        let sockets = Sockets { sound: service(SOUND)?, printing: service(PRINTING)? };
        match sockets {
            Sockets { sound: None, printing: None } => Err(missing()),
            sockets => Ok(sockets),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn programs_that_connect_before_the_desk_starts_wait_for_it() {
        let path = std::env::temp_dir().join(format!("thinc-desk-{}", std::process::id()));
        let paths = ["pulse", "sound", "ipp", "print"].map(|name| path.with_extension(name));
        let service = |at: usize| ServiceSockets {
            programs: UnixListener::bind(&paths[at]).unwrap(),
            link: UnixListener::bind(&paths[at + 1]).unwrap(),
        };
        let owned = Sockets { sound: Some(service(0)), printing: Some(service(2)) };
        let mut early = UnixStream::connect(&paths[2]).unwrap();
        early.write_all(b"a").unwrap();
        let input = owned.to_stdin().unwrap();
        drop(owned);
        let taken = Sockets::take(input.as_fd()).unwrap();
        let mut byte = [0];
        let (sound, printing) = (taken.sound.unwrap(), taken.printing.unwrap());
        printing.programs.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"a");
        let _session = UnixStream::connect(&paths[1]).unwrap();
        assert!(sound.link.accept().is_ok());
        let only = Sockets { sound: None, printing: Some(printing) };
        let taken = Sockets::take(only.to_stdin().unwrap().as_fd()).unwrap();
        assert!(taken.sound.is_none() && taken.printing.is_some());
        paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        assert!(Sockets::take(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
        assert!(Sockets::take(Sockets::default().to_stdin().unwrap().as_fd()).is_err());
    }
}
