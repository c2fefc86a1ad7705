//! Path 10/13 and back: what is known of a connection's way to the other end, whatever carries it.
//! From the kernel's TCP (socket.rs) or QUIC (quic.rs), for session-core/flow.rs, which decides how much may be under way.
//! Knows figures; never bytes.

use crate::quic::QuicPath;
use crate::socket::TcpPath;

/// What is known of a connection's way out, in bytes and microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Bytes written that the other end has not acknowledged: under way, or not yet sent.
    pub in_flight: u64,
    /// Bytes the other end has acknowledged.
    pub delivered: u64,
    /// Congestion window: bytes that congestion control would have under way.
    pub window: u64,
    /// Bytes a second that packets were counted at, whose product with the round trip and a short queue the window is; 0 where it is
    /// what makes a queue overflow.
    pub rate: u64,
    /// Smoothed round trip.
    pub rtt: u64,
    /// Smallest round trip of the last seconds or minutes.
    pub rtt_min: u64,
}

/// A view of a connection whose stream is in other hands.
#[derive(Debug)]
pub enum Path {
    /// The kernel knows.
    Tcp(TcpPath),
    /// This process does.
    Quic(QuicPath),
}

impl Path {
    /// How things stand now; `None` where nobody says, or nothing was measured yet.
    pub fn figures(&self) -> Option<Figures> {
        match self {
            Path::Tcp(path) => path.figures(),
            Path::Quic(path) => path.figures(),
        }
    }
}
