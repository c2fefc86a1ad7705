//! Path 10/13, and path back: statistics of a connection's path, over any transport.
//! From the kernel's TCP (socket.rs), from QUIC (quic.rs) or through the broker (relay.rs), for
//! session-core/delivery/flow.rs, which limits the bytes in flight. Knows numbers; never bytes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::congestion::Meter;
use crate::quic::QuicPath;
use crate::relay::RelayedPath;
use crate::socket::{self, TcpPath};

/// Statistics of the path to the peer, in bytes and microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// Bytes written and not acknowledged: in flight or not yet sent.
    pub unacknowledged: u64,
    /// Bytes that the peer has acknowledged.
    pub delivered: u64,
    /// Congestion window.
    pub window: u64,
    /// Delivery rate in bytes a second if the window is its product with the round trip plus a
    /// short queue; 0 if the window is what fills the queue (the kernel's congestion control).
    pub rate: u64,
    /// Smoothed round trip.
    pub rtt: u64,
    /// Smallest round trip of the last seconds or minutes.
    pub rtt_min: u64,
    /// Bytes a second that the broker's front lets the connection send now; `None` if it sets no
    /// limit.
    pub share: Option<u64>,
}

/// Reads the statistics of a connection whose stream another task owns.
#[derive(Debug)]
pub enum Path {
    /// Asks the kernel.
    Tcp(TcpPath),
    /// Asks quinn.
    Quic(QuicPath),
    /// Reads what the broker's front publishes.
    Relayed(Arc<RelayedPath>),
}

impl Path {
    /// The statistics now; `None` if the transport has none, or nothing was measured yet.
    pub fn info(&self) -> Option<PathInfo> {
        match self {
            Path::Tcp(path) => path.info(),
            Path::Quic(path) => path.info(),
            Path::Relayed(path) => path.info(),
        }
    }
}

/// Where the broker's front tells a session in another process how much it may send.
#[derive(Debug)]
pub enum ShareTeller {
    /// Beside the statistics of a TCP connection, which the kernel keeps.
    Tcp(OwnedFd),
    /// Beside those of a QUIC connection, which the front publishes.
    Quic(QuicShare),
}

/// See [`ShareTeller`].
#[derive(Debug)]
pub struct QuicShare(pub(crate) Arc<Meter>);

impl ShareTeller {
    /// Bytes a second from now on.
    ///
    /// # Errors
    /// The connection has ended, or the kernel cannot keep it. A session that is not told sends too
    /// much, and waits for the front.
    pub fn tell(&self, share: u64) -> io::Result<()> {
        match self {
            ShareTeller::Tcp(connection) => socket::set_share(connection, share)?,
            ShareTeller::Quic(QuicShare(meter)) => {
                if let Some(publication) = meter.publication() {
                    publication.set_share(share);
                    meter.publish();
                }
            }
        }
        Ok(())
    }
}
