//! Path 10/13: between one viewer's connection, native or WebSocket, and the one actor of the session.
//! From native.rs and websocket.rs, to actor.rs, and back: events in, whole chunks of frames out, one at a time.
//! Knows bytes and numbers; never what they say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thinc_transport::path::Path;
use thinc_transport::quic::Datagrams;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Names a connection; never used twice in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// Gives out the names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids(Arc<AtomicU64>);

impl Ids {
    /// Larger than all before.
    pub(crate) fn next(&self) -> ConnectionId {
        ConnectionId(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// 16 KiB, a TLS record: what is read at once.
pub(crate) const READ_BYTES: usize = 16 * 1024;
/// Events that wait for the actor. Past it connections wait, and with them the viewers that send; the actor waits for nobody.
const EVENTS_MAX: usize = 256;
/// A chunk that does not leave within this time has a viewer behind it that does not read.
pub(crate) const STALL_TIME: Duration = Duration::from_secs(30);

/// What reaches the actor.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection has authenticated.
    Opened(Opened),
    /// Bytes from its viewer.
    Bytes(ConnectionId, Vec<u8>),
    /// Something that its viewer said beside its stream.
    Datagram(ConnectionId, Vec<u8>),
    /// The chunk handed over has left; here is its memory.
    Drained(ConnectionId, Vec<u8>),
    /// The connection has ended.
    Gone(ConnectionId, Ending),
    /// Pixels that a worker has encoded, a stretch of a job.
    Encoded(crate::worker::Encoded),
    /// Something happened to a selection of the X server's.
    Selection(thinc_x_selection::XSelectionEvent),
    /// The X server's keymap, at the start and after each change.
    Keymap(thinc_session_core::Keymap),
    /// What was asked of the X keyboard has been done, or cannot be.
    KeyboardChanged,
    /// Somebody wants a trace, down this stream.
    Trace(std::os::unix::net::UnixStream),
}

/// Why a connection ended, for the log.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The viewer closed it, or the session did.
    Closed,
    /// The viewer did not read for [`STALL_TIME`].
    Stalled,
    /// It broke.
    Broken(std::io::Error),
}

/// A connection that has authenticated.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) id: ConnectionId,
    /// For logs: address and kind.
    pub(crate) label: String,
    /// Takes one chunk; the next only after `Drained`. Dropping it ends the connection once the chunk has left.
    pub(crate) outgoing: mpsc::Sender<Vec<u8>>,
    /// What is known of the way to the viewer, or to a proxy before it.
    pub(crate) path: Option<Path>,
    /// A way beside the stream.
    pub(crate) datagrams: Option<Datagrams>,
    /// Ends it at once.
    pub(crate) task: AbortHandle,
}

/// Sends to the actor.
pub(crate) type Events = mpsc::Sender<Event>;

/// The actor's inbox.
pub(crate) fn channel() -> (Events, mpsc::Receiver<Event>) {
    mpsc::channel(EVENTS_MAX)
}

/// Both ends of a connection's way out.
pub(crate) fn outgoing() -> (mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>) {
    mpsc::channel(1)
}
