//! Path 10/13 and back: what the kernel knows of a TCP connection's path, and how much it takes before it can send.
//! From session-server, for session-core/flow.rs, which decides how much may be under way.
//! Knows sockets and figures; never bytes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use crate::path::Figures;

/// A view of a connection whose stream is in other hands.
#[derive(Debug)]
pub struct TcpPath {
    /// A copy: the connection is closed when this has gone too.
    socket: OwnedFd,
}

impl TcpPath {
    /// Looks at a connection.
    pub fn of(socket: impl AsFd) -> io::Result<TcpPath> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        Ok(TcpPath { socket })
    }

    /// How things stand now; `None` where this kernel does not say, or the connection has ended.
    pub fn figures(&self) -> Option<Figures> {
        figures_of(&tcp_info(&self.socket).ok()?)
    }
}

fn figures_of(info: &libc::tcp_info) -> Option<Figures> {
    // 0 from a kernel before 4.18, which did not count them: nothing else tells bytes under way from segments.
    let sent = info.tcpi_bytes_sent.checked_sub(info.tcpi_bytes_retrans).filter(|&sent| sent > 0)?;
    Some(Figures {
        in_flight: u64::from(info.tcpi_notsent_bytes) + sent.saturating_sub(info.tcpi_bytes_acked),
        delivered: info.tcpi_bytes_acked,
        window: u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
        rate: 0,
        rtt: u64::from(info.tcpi_rtt),
        rtt_min: u64::from(info.tcpi_min_rtt.min(info.tcpi_rtt)),
    })
}

#[expect(unsafe_code, reason = "no crate that is kept well has a safe form of TCP_INFO")]
fn tcp_info(socket: &OwnedFd) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed. The kernel writes at most `len` bytes to `info`, which is that
    // long; an older kernel writes fewer and leaves the rest zero. Every field is an integer, so any bytes are a value.
    let info = unsafe {
        let result = libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        );
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        info.assume_init()
    };
    Ok(info)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of a connection on the loopback, the one that was accepted first: the other counts its SYN as a byte.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, far)
    }

    #[test]
    fn what_was_written_is_under_way_until_the_other_end_has_it() {
        let (mut near, mut far) = connection();
        near.set_nonblocking(true).unwrap();
        let path = TcpPath::of(&near).unwrap();
        let mut written = 0;
        // Nobody reads: the other end's buffer fills, then this one's.
        while let Ok(count) = near.write(&[7; 4096]) {
            written += count as u64;
        }
        let full = path.figures().unwrap();
        assert_eq!(full.delivered + full.in_flight, written, "{full:?}");
        assert!(full.in_flight > 0 && full.delivered < written, "{full:?}");
        assert!(full.window > 0 && full.rtt >= full.rtt_min, "{full:?}");

        let mut bytes = vec![0; written as usize];
        far.read_exact(&mut bytes).unwrap();
        // An answer carries the acknowledgement of what came before it.
        far.write_all(b"!").unwrap();
        near.set_nonblocking(false).unwrap();
        near.read_exact(&mut [0]).unwrap();
        let empty = path.figures().unwrap();
        assert_eq!((empty.delivered, empty.in_flight), (written, 0), "{empty:?}");
    }

    #[test]
    fn a_connection_that_has_said_nothing_knows_no_path() {
        let (near, _far) = connection();
        assert_eq!(TcpPath::of(&near).unwrap().figures(), None);
    }
}
