//! Path 10/13, and path back: between one viewer's connection, over any transport, and the
//! session's one actor.
//! Between native.rs or websocket.rs and actor.rs: events in one direction, whole chunks of
//! messages in the other, one at a time. Knows bytes and numbers; never their meaning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thinc_protocol::video::FrameCodec;
use thinc_transport::invitation::Grant;
use thinc_transport::path::Path;
use thinc_transport::quic::Datagrams;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::preferences::keeper::Reading;
use crate::share::ViewerStatus;

/// Identifies a connection; never used twice in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// Allocates the IDs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionIds(Arc<AtomicU64>);

impl ConnectionIds {
    /// The next ID, larger than all before.
    pub(crate) fn next(&self) -> ConnectionId {
        ConnectionId(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// 16 KiB, a TLS record: the most that is read at once.
pub(crate) const READ_BYTES: usize = 16 * 1024;
/// Events that wait for the actor. Past the limit connections wait, and with them the viewers that
/// send; the actor never waits for a connection.
const EVENTS_MAX: usize = 256;
/// A viewer that does not read a chunk within this time is disconnected.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// An event for the actor.
#[derive(Debug)]
pub(crate) enum Event {
    /// A connection was authenticated.
    Opened(Opened),
    /// Bytes of the viewer's stream.
    Bytes(ConnectionId, Vec<u8>),
    /// A datagram from the viewer.
    Datagram(ConnectionId, Vec<u8>),
    /// The chunk was sent; this is its memory.
    ChunkSent(ConnectionId, Vec<u8>),
    /// The connection has ended.
    Closed(ConnectionId, EndReason),
    /// A worker has encoded a slice of a job.
    Encoded(crate::worker::Encoded),
    /// A selection of the X server changed, or a transfer of it.
    Selection(thinc_x_selection::XSelectionEvent),
    /// The X server's keymap, at the start and after each change.
    Keymap(thinc_session_core::Keymap),
    /// A change of the X keyboard was carried out, or has failed.
    KeyboardChanged,
    /// What guests may do has changed, or who may stay; the sender waits until it has taken effect.
    GuestsChanged(oneshot::Sender<()>),
    /// A viewer's request to share has this answer.
    ShareAnswered(ConnectionId, thinc_protocol::people::Shared),
    /// Who is connected was asked for.
    ListViewers(oneshot::Sender<Vec<ViewerStatus>>),
    /// A small picture of the screen was asked for.
    Thumbnail(oneshot::Sender<crate::actor::thumbnail::Thumbnail>),
    /// The session's person calls it this now.
    Renamed(String),
    /// The supervisor has found out what draws 3D programs.
    Graphics(String),
    /// What encodes videos of this codec on a GPU, for people; nothing, or no longer, if None.
    VideoEncoder(FrameCodec, Option<String>),
    /// Another process of the session's person has changed what they prefer.
    PreferencesChanged,
    /// What they prefer was read after a change.
    PreferencesRead(Reading),
    /// Figures for monitoring were asked for.
    Figures(crate::figures::FiguresAnswer),
    /// What the people at all viewers should read; the answer is how many viewers show it now.
    Notice(String, oneshot::Sender<usize>),
    /// About files that are sent.
    Files(crate::files::FilesEvent),
    /// Programs of the session play this.
    Sound(crate::sound::SoundFrame),
    /// A program of the session records the microphone, or none does any more.
    Recorded(bool),
    /// These programs of the session play now.
    Players(Vec<String>),
    /// A trace was requested, to be written to this stream.
    Trace(std::os::unix::net::UnixStream),
}

/// Why a connection ended, for the log.
#[derive(Debug)]
pub(crate) enum EndReason {
    /// The viewer closed it, or the session did.
    Closed,
    /// The viewer did not read for [`STALL_TIMEOUT`].
    Stalled,
    /// It broke.
    Broken(std::io::Error),
}

/// An authenticated connection.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) id: ConnectionId,
    /// For logs: address and kind.
    pub(crate) label: String,
    /// The viewer is a guest's; none for the owner's.
    pub(crate) guest: Option<Grant>,
    /// Accepts one chunk; the next only after `ChunkSent`. Dropping it ends the connection once the
    /// chunk was sent.
    pub(crate) outgoing: mpsc::Sender<Vec<u8>>,
    /// Statistics of the path to the viewer, or to a proxy in front of it.
    pub(crate) path: Option<Path>,
    /// The connection's datagrams, if its transport has them.
    pub(crate) datagrams: Option<Datagrams>,
    /// Aborts the connection.
    pub(crate) task: AbortHandle,
    /// What the session's person prefers.
    pub(crate) reading: Reading,
}

/// Sends events to the actor.
pub(crate) type Events = mpsc::Sender<Event>;

/// The actor's event channel.
pub(crate) fn channel() -> (Events, mpsc::Receiver<Event>) {
    mpsc::channel(EVENTS_MAX)
}

/// Both ends of the channel for a connection's outgoing chunks.
pub(crate) fn chunk_channel() -> (mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>) {
    mpsc::channel(1)
}
