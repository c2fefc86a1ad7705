//! Path 10/13, and path back: the kernel's statistics of a TCP connection's path, and the share of
//! the uplink that stands beside them.
//! From session-server, for session-core/delivery/flow.rs, which limits the bytes in flight; and
//! from the viewer, for viewer-core/path_watch.rs. The share comes from the broker's front. Knows
//! sockets and numbers; never bytes.

use std::io;
use std::mem::MaybeUninit;
#[cfg(feature = "server")]
use std::os::fd::OwnedFd;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

#[cfg(feature = "server")]
use crate::path::PathInfo;

/// A connection's share of the uplink is its pacing rate (SO_MAX_PACING_RATE) divided by this: the
/// session process reads that with the statistics of its duplicate. Four times, so that the kernel
/// spreads a burst and never holds back what the session has decided to send.
#[cfg(feature = "server")]
const PACING_GAIN: u64 = 4;

#[cfg(feature = "server")]
/// Reads the statistics of a connection whose stream another task owns.
#[derive(Debug)]
pub struct TcpPath {
    /// A duplicate: the connection closes only once this is dropped too.
    socket: OwnedFd,
}

#[cfg(feature = "server")]
impl TcpPath {
    /// Duplicates the connection's descriptor.
    pub fn of(socket: impl AsFd) -> io::Result<TcpPath> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        Ok(TcpPath { socket })
    }

    /// Reads those of this socket; if it is no TCP connection, there are none.
    pub fn new(socket: OwnedFd) -> TcpPath {
        TcpPath { socket }
    }

    /// The statistics now; `None` if this kernel has none, or the connection has ended.
    pub fn info(&self) -> Option<PathInfo> {
        path_info_of(&tcp_info(self.socket.as_fd()).ok()?)
    }
}

/// Segments that this end has retransmitted, less those that the peer says it had received; 0 from
/// a kernel that does not tell. Segments that the peer lost are not known here: those that arrive
/// out of order (`tcpi_rcv_ooopack`) may only have been reordered.
pub(crate) fn lost_segments(socket: impl AsFd) -> u64 {
    tcp_info(socket.as_fd()).map_or(0, |info| lost_segments_of(&info))
}

fn lost_segments_of(info: &libc::tcp_info) -> u64 {
    u64::from(info.tcpi_total_retrans.saturating_sub(info.tcpi_dsack_dups))
}

#[cfg(feature = "server")]
fn path_info_of(info: &libc::tcp_info) -> Option<PathInfo> {
    // 0 from a kernel before 4.18, which did not count them: nothing else gives bytes in flight
    // rather than segments.
    let sent =
        info.tcpi_bytes_sent.checked_sub(info.tcpi_bytes_retrans).filter(|&sent| sent > 0)?;
    Some(PathInfo {
        unacknowledged: u64::from(info.tcpi_notsent_bytes)
            + sent.saturating_sub(info.tcpi_bytes_acked),
        delivered: info.tcpi_bytes_acked,
        window: u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
        rate: 0,
        rtt: u64::from(info.tcpi_rtt),
        rtt_min: u64::from(info.tcpi_min_rtt.min(info.tcpi_rtt)),
        // u64::MAX: no limit. 0 from a kernel before 3.15, which did not tell.
        share: Some(info.tcpi_max_pacing_rate)
            .filter(|&rate| rate > 0 && rate != u64::MAX)
            .map(|rate| rate / PACING_GAIN),
    })
}

#[expect(unsafe_code, reason = "no maintained crate has a safe wrapper for TCP_INFO")]
fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed. The kernel writes at most `len` bytes to
    // `info`, which is that long; an older kernel writes fewer and leaves the rest zero. Every
    // field is an integer, so any bytes are a value.
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

/// Tells who has a duplicate of this TCP connection how many bytes a second it may send. They can
/// change it: it is advice, on which the broker's front does not rely.
#[cfg(feature = "server")]
#[expect(unsafe_code, reason = "no maintained crate has a safe wrapper for SO_MAX_PACING_RATE")]
pub(crate) fn set_share(socket: impl AsFd, share: u64) -> io::Result<()> {
    // The kernel takes an unsigned long; all its bits set mean that there is no limit.
    let rate = share.saturating_mul(PACING_GAIN).clamp(PACING_GAIN, u64::MAX - 1);
    let rate = libc::c_ulong::try_from(rate).unwrap_or(libc::c_ulong::MAX - 1);
    // SAFETY: the descriptor is open while it is borrowed. The kernel reads as many bytes as an
    // unsigned long has, from one that lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of::<libc::c_ulong>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ends of a loopback connection: the accepted one, which is measured, and the client's,
    /// which would count its SYN as a byte.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    #[test]
    fn written_bytes_are_unacknowledged_until_the_peer_acknowledges_them() {
        let (mut accepted, mut client) = connection();
        accepted.set_nonblocking(true).unwrap();
        let path = TcpPath::of(&accepted).unwrap();
        let mut written = 0;
        // The client does not read: its receive buffer fills, then the send buffer here.
        while let Ok(count) = accepted.write(&[7; 4096]) {
            written += count as u64;
        }
        let full = path.info().unwrap();
        assert_eq!(full.delivered + full.unacknowledged, written, "{full:?}");
        assert!(full.unacknowledged > 0 && full.delivered < written, "{full:?}");
        assert!(full.window > 0 && full.rtt >= full.rtt_min, "{full:?}");

        let mut bytes = vec![0; written as usize];
        client.read_exact(&mut bytes).unwrap();
        // This byte carries the acknowledgement of all bytes read before it.
        client.write_all(b"!").unwrap();
        accepted.set_nonblocking(false).unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        let empty = path.info().unwrap();
        assert_eq!((empty.delivered, empty.unacknowledged), (written, 0), "{empty:?}");
    }

    #[test]
    fn a_retransmission_of_what_had_arrived_is_no_loss() {
        let (accepted, _client) = connection();
        assert_eq!(lost_segments(&accepted), 0);
        let mut info = tcp_info(accepted.as_fd()).unwrap();
        (info.tcpi_total_retrans, info.tcpi_dsack_dups) = (5, 2);
        assert_eq!(lost_segments_of(&info), 3);
        // A retransmission by the network is reported as well.
        info.tcpi_dsack_dups = 6;
        assert_eq!(lost_segments_of(&info), 0);
    }

    #[test]
    fn who_has_a_duplicate_reads_the_share_that_was_set() {
        let (mut accepted, _client) = connection();
        accepted.write_all(b"counted").unwrap();
        let duplicate = TcpPath::of(&accepted).unwrap();
        assert_eq!(duplicate.info().unwrap().share, None);
        for share in [62_500, 2_500_000, 12_500_000_000] {
            set_share(&accepted, share).unwrap();
            assert_eq!(duplicate.info().unwrap().share, Some(share));
        }
        set_share(&accepted, 0).unwrap();
        assert_eq!(duplicate.info().unwrap().share, Some(1));
    }

    #[test]
    fn a_connection_that_has_sent_nothing_has_no_path_info() {
        let (accepted, _client) = connection();
        assert_eq!(TcpPath::of(&accepted).unwrap().info(), None);
    }
}
