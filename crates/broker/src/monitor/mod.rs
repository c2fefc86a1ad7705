//! Figures for monitoring: a process without privileges, in the front's sandbox, that serves them
//! on a port of this machine (see thinc-session-server's monitor). Beside the path: from the
//! helper, which asks the front and every person's agent for their figures, but reads none of the
//! answers: each comes over a socket that the helper passes on. So no parser of theirs runs as
//! root, and whose figures they are is the helper's word. Knows figures; never a secret.
//!
//! ```text
//! to this process:    START (with one descriptor: the listening socket)
//! from this process:  COLLECT round u32
//! to this process:    round u32 | FIGURES u8 | JSON, see `HelperFigures`
//!                     then for each source:
//!                     round u32 | FRONT u8
//!                     round u32 | AGENT u8 | user
//!                     (with one descriptor: where its answer comes; none from one that has still
//!                     to answer an earlier round)
//! ```

mod process;
mod totals;

use serde::{Deserialize, Serialize};

pub use process::desktops;
pub(crate) use process::main;

/// The first packet.
pub(crate) const START: &[u8] = b"thinc monitor 1";
/// First byte of a packet to the helper.
pub(crate) const COLLECT: u8 = 1;
/// What a packet of the helper is.
pub(crate) const FIGURES: u8 = 0;
/// See [`FIGURES`].
pub(crate) const FRONT: u8 = 1;
/// See [`FIGURES`].
pub(crate) const AGENT: u8 = 2;

/// Longest packet of the helper.
pub(crate) const PACKET_BYTES_MAX: usize = 4096;
/// Longest answer of the front.
pub(crate) const FRONT_BYTES_MAX: usize = 1024;
/// Most people who are asked: as many as there may be logins.
pub(crate) const AGENTS_MAX: usize = 512;

/// Why attempts were refused: by PAM or after its time; before PAM asked for anything; because the
/// person had gone or had to make room; while the broker takes no logins.
pub(crate) const REASONS: [&str; 4] = ["refused", "not-asked", "busy", "draining"];

/// How a viewer is connected with the front; the place in [`TRANSPORTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportKind {
    Tcp,
    Quic,
    WebSocket,
    WebTransport,
}

/// The names of [`TransportKind`].
pub(crate) const TRANSPORTS: [&str; 4] = ["tcp", "quic", "websocket", "webtransport"];

/// What the helper knows itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HelperFigures {
    pub(crate) open_logins: u64,
    pub(crate) logins: u64,
    /// As in [`REASONS`].
    pub(crate) refusals: [u64; REASONS.len()],
    /// Desktops that a viewer shows through the broker.
    pub(crate) viewed: u64,
    pub(crate) is_draining: bool,
    pub(crate) memory: Memory,
    pub(crate) admission: AdmissionFigures,
    /// How many packets follow.
    pub(crate) sources: usize,
}

/// Bytes that processes have for themselves alone, by what they are; as the kernel says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) helper: u64,
    pub(crate) front: u64,
    /// Of all other processes of the broker that are not people's.
    pub(crate) parts: u64,
    /// Of all desktops.
    pub(crate) sessions: u64,
    /// How many desktops there are.
    pub(crate) session_count: u64,
}

/// The names of [`AdmissionFigures::pressure_percent`].
pub(crate) const RESOURCES: [&str; 3] = ["processors", "memory", "disks"];

/// Of further desktops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdmissionFigures {
    /// People who wait for one.
    pub(crate) waiting: u64,
    /// Starts that were refused because of pressure.
    pub(crate) refused: u64,
    /// Desktops that started after a wait.
    pub(crate) waited: u64,
    /// Part of the last 10 s in which some process waited, as in [`RESOURCES`].
    pub(crate) pressure_percent: [u64; RESOURCES.len()],
}

/// What the front counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FrontFigures {
    /// As in [`TRANSPORTS`].
    pub(crate) viewers: [u64; TRANSPORTS.len()],
    pub(crate) unauthenticated: u64,
}
