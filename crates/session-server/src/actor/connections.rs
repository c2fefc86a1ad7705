//! Path 10/13, and path back: under actor.rs, the authenticated connections, who of them is served
//! next, and when one has to end. Knows time-outs and numbers; never messages.

use std::collections::BTreeMap;

use thinc_protocol::Micros;
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::{INSTANCE_BYTES, VIEWER_MESSAGE_BYTES_MAX};
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::KeyboardLayout;
use thinc_session_core::{PathStats, Session, Upstream, ViewerId};
use thinc_transport::invitation::Grant;
use thinc_transport::path::{Path, PathInfo};
use tokio::sync::mpsc;

use crate::connection::{ConnectionId, Opened, STALL_TIMEOUT};
use crate::gate::AUTH_TIMEOUT;
use crate::memory::emptied;
use crate::packing::ConnectionPacker;
use crate::render::Renderer;

const STALL: Micros = STALL_TIMEOUT.as_micros() as Micros;
const HELLO: Micros = AUTH_TIMEOUT.as_micros() as Micros;

/// An authenticated connection, and its viewer once that has sent its hello.
pub(super) struct ViewerConnection {
    pub(super) label: String,
    /// It is a guest's.
    pub(super) guest: Option<Grant>,
    pub(super) outgoing: Option<mpsc::Sender<Vec<u8>>>,
    pub(super) path: Option<Path>,
    /// Buffer for the next chunk; `None` while a chunk is being sent.
    pub(super) chunk: Option<Vec<u8>>,
    /// Length of the chunk that is being sent.
    pub(super) chunk_bytes: u64,
    pub(super) task: tokio::task::AbortHandle,
    pub(super) frames: Deframer,
    /// Which bytes of the viewer's stream `frames` has received, on the stream or as datagrams.
    pub(super) upstream: Upstream,
    pub(super) viewer: Option<ViewerId>,
    /// The viewer's instance number, if it sends one.
    pub(super) instance: Option<[u8; INSTANCE_BYTES]>,
    /// Its person has opened the session with it; it does not only reconnect.
    pub(super) opens: bool,
    /// What it has said of its keyboard, if it is the owner's.
    pub(super) reported_layout: Option<KeyboardLayout>,
    /// Its requests to share that are not answered yet.
    pub(super) share_requests: usize,
    /// It accepts video streams.
    pub(super) takes_video: bool,
    pub(super) renderer: Renderer,
    pub(super) packer: ConnectionPacker,
    pub(super) opened: Micros,
    /// Since when sent bytes wait for an acknowledgement without any arriving.
    pub(super) unacknowledged: Option<Micros>,
    /// When the connection is aborted, whether the viewer has read the reason or not.
    pub(super) abort_at: Option<Micros>,
}

/// What a connection's time-outs require.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TimedOut {
    /// It is closed, with this reason.
    Close(CloseCode, String),
    /// Its viewer had time to read the reason.
    Abort,
}

impl ViewerConnection {
    /// A connection whose viewer has said nothing yet.
    pub(super) fn new(opened: Opened, renderer: Renderer, now: Micros) -> ViewerConnection {
        let Opened { label, guest, outgoing, path, datagrams, task, id: _, reading: _ } = opened;
        ViewerConnection {
            label,
            guest,
            outgoing: Some(outgoing),
            path,
            chunk: Some(Vec::new()),
            chunk_bytes: 0,
            task,
            frames: Deframer::new(VIEWER_MESSAGE_BYTES_MAX),
            upstream: Upstream::default(),
            viewer: None,
            instance: None,
            opens: false,
            reported_layout: None,
            share_requests: 0,
            takes_video: false,
            renderer,
            packer: ConnectionPacker::new(datagrams),
            opened: now,
            unacknowledged: None,
            abort_at: None,
        }
    }

    /// It is not being closed.
    pub(super) fn is_open(&self) -> bool {
        self.abort_at.is_none()
    }

    /// Passes the statistics of the path to session-core if it needs them.
    pub(super) fn update_path(&self, core: &mut Session, viewer: ViewerId) {
        if core.is_busy(viewer) {
            let info = self.path.as_ref().and_then(Path::info);
            core.handle_path(viewer, info.map(|info| path_stats(info, self.chunk_bytes)));
        }
    }

    /// The chunk was sent; this is its memory.
    pub(super) fn handle_chunk_sent(&mut self, chunk: Vec<u8>) {
        self.chunk = Some(emptied(chunk));
        self.chunk_bytes = 0;
    }

    /// The viewer has acknowledged something; it still has to, if `more` is in flight.
    pub(super) fn handle_acknowledged(&mut self, more: bool, now: Micros) {
        self.unacknowledged = more.then_some(now);
    }

    /// The earliest of its time-outs.
    pub(super) fn deadline(&self) -> Option<Micros> {
        let hello = self.viewer.is_none().then_some(self.opened + HELLO);
        let stalled = self.unacknowledged.map(|since| since + STALL);
        [hello, stalled, self.abort_at].into_iter().flatten().min()
    }

    /// What has to happen now.
    pub(super) fn timed_out(&self, now: Micros) -> Option<TimedOut> {
        if let Some(at) = self.abort_at {
            // Before, the reason is being sent.
            return (at <= now).then_some(TimedOut::Abort);
        }
        let (code, reason) = if self.viewer.is_none() && now >= self.opened + HELLO {
            (CloseCode::Protocol, format!("no hello within {AUTH_TIMEOUT:?}"))
        } else if self.unacknowledged.is_some_and(|since| now >= since + STALL) {
            (CloseCode::TooSlow, format!("no update was acknowledged for {STALL_TIMEOUT:?}"))
        } else {
            return None;
        };
        Some(TimedOut::Close(code, reason))
    }
}

/// The path's statistics plus the chunk that is being written: part of it may count twice for a
/// moment.
fn path_stats(info: PathInfo, chunk_bytes: u64) -> PathStats {
    let PathInfo { unacknowledged, delivered, window, rate, rtt, rtt_min, share } = info;
    PathStats {
        unacknowledged: unacknowledged + chunk_bytes,
        delivered,
        window,
        rate,
        rtt,
        rtt_min,
        share,
    }
}

/// All connections, the oldest first, and whose turn it is.
pub(super) struct Connections<C = ViewerConnection> {
    by_id: BTreeMap<ConnectionId, C>,
    /// The connection, or the next after it, that is served first in the next turn.
    next_served: ConnectionId,
}

impl<C> Connections<C> {
    pub(super) fn new() -> Connections<C> {
        Connections { by_id: BTreeMap::new(), next_served: ConnectionId(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn insert(&mut self, id: ConnectionId, connection: C) {
        self.by_id.insert(id, connection);
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<C> {
        self.by_id.remove(&id)
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&C> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut C> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &C)> {
        self.by_id.iter().map(|(&id, connection)| (id, connection))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &C> {
        self.by_id.values()
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.by_id.keys().copied().collect()
    }

    /// The order in which all are served, from where the last turn stopped.
    pub(super) fn turn(&self) -> Vec<ConnectionId> {
        let after = self.by_id.range(self.next_served..);
        after.chain(self.by_id.range(..self.next_served)).map(|(&id, _)| id).collect()
    }

    /// The turn has stopped before this connection.
    pub(super) fn stop_turn(&mut self, before: ConnectionId) {
        self.next_served = before;
    }
}

impl Connections {
    /// One that is not being closed.
    pub(super) fn open(&self, id: ConnectionId) -> Option<&ViewerConnection> {
        self.get(id).filter(|connection| connection.is_open())
    }

    /// The same, to change it.
    pub(super) fn open_mut(&mut self, id: ConnectionId) -> Option<&mut ViewerConnection> {
        self.get_mut(id).filter(|connection| connection.is_open())
    }

    /// All that are not being closed.
    pub(super) fn all_open(&self) -> impl Iterator<Item = (ConnectionId, &ViewerConnection)> {
        self.iter().filter(|(_, connection)| connection.is_open())
    }

    /// Those of the session's owner.
    pub(super) fn owners(&self) -> impl Iterator<Item = &ViewerConnection> {
        self.values().filter(|connection| connection.guest.is_none())
    }

    /// The connection of a viewer.
    pub(super) fn of_viewer(&mut self, viewer: ViewerId) -> Option<&mut ViewerConnection> {
        self.by_id.values_mut().find(|connection| connection.viewer == Some(viewer))
    }

    /// Any viewer accepts video streams.
    pub(super) fn take_videos(&self) -> bool {
        self.values().any(|connection| connection.takes_video)
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::connection::chunk_channel;
    use crate::preferences::keeper::Reading;

    #[test]
    fn a_turn_begins_where_the_last_one_stopped() {
        let ids = |numbers: [u64; 3]| numbers.map(ConnectionId).to_vec();
        let mut connections = Connections::new();
        [3, 7, 9].into_iter().for_each(|id| connections.insert(ConnectionId(id), ()));
        assert_eq!(connections.turn(), ids([3, 7, 9]));
        connections.stop_turn(ConnectionId(7));
        assert_eq!(connections.turn(), ids([7, 9, 3]));
        assert_eq!(connections.turn(), ids([7, 9, 3]), "a whole turn changes nothing");
        // The viewer whose turn it was has left, and another has come.
        connections.remove(ConnectionId(7));
        connections.insert(ConnectionId(11), ());
        assert_eq!(connections.turn(), ids([9, 11, 3]));
        connections.remove(ConnectionId(9));
        connections.remove(ConnectionId(11));
        assert_eq!(connections.turn(), [ConnectionId(3)]);
    }

    fn connection(now: Micros) -> ViewerConnection {
        let (outgoing, _chunks) = chunk_channel();
        let opened = Opened {
            id: ConnectionId(1),
            label: "a test".to_owned(),
            guest: None,
            outgoing,
            path: None,
            datagrams: None,
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
            reading: Reading { number: 0, preferences: None },
        };
        ViewerConnection::new(opened, Renderer::new(crate::video::VideoEncoders::default()), now)
    }

    fn code(timed_out: Option<TimedOut>) -> Option<CloseCode> {
        match timed_out {
            Some(TimedOut::Close(code, _)) => Some(code),
            _ => None,
        }
    }

    #[tokio::test]
    async fn a_viewer_has_to_greet_and_to_acknowledge() {
        let mut connection = connection(1_000);
        let hello = connection.deadline().expect("it has to greet");
        assert_eq!(hello, 1_000 + HELLO);
        assert_eq!(connection.timed_out(hello - 1), None);
        assert_eq!(code(connection.timed_out(hello)), Some(CloseCode::Protocol));
        connection.viewer = Some(ViewerId(1));
        assert_eq!((connection.deadline(), connection.timed_out(hello)), (None, None));
        connection.handle_acknowledged(true, 5_000);
        assert_eq!(connection.deadline(), Some(5_000 + STALL));
        assert_eq!(connection.timed_out(5_000 + STALL - 1), None);
        assert_eq!(code(connection.timed_out(5_000 + STALL)), Some(CloseCode::TooSlow));
        connection.handle_acknowledged(false, 6_000);
        assert_eq!(connection.deadline(), None);
    }

    #[tokio::test]
    async fn a_closing_connection_is_only_aborted() {
        let mut connection = connection(0);
        connection.abort_at = Some(7_000);
        assert!(!connection.is_open());
        assert_eq!(connection.timed_out(6_999), None);
        assert_eq!(connection.timed_out(HELLO), Some(TimedOut::Abort));
        assert_eq!(connection.timed_out(7_000), Some(TimedOut::Abort));
    }
}
