//! Path 10/13, and path back: under actor.rs, the datagrams of a viewer.
//! From connection.rs's datagrams, to session-core and to the viewer's cache. Knows which messages
//! may be datagrams; decides nothing that session-core could decide.

use thinc_protocol::framing::MessageFrame;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::{Early, ViewerMessage};
use thinc_session_core::ViewerId;

use super::Actor;
use crate::connection::ConnectionId;

impl Actor {
    /// Handles a viewer's datagram: an acknowledgement, a packet of its microphone, or early bytes
    /// of its stream.
    pub(super) fn handle_datagram(&mut self, id: ConnectionId, bytes: &[u8]) {
        let now = self.now();
        let Some(connection) = self.connections.open_mut(id) else { return };
        let Some(viewer) = connection.viewer else { return };
        let violation = match MessageFrame::from_datagram(bytes)
            .and_then(|frame| ViewerMessage::decode(&frame))
        {
            Ok(ViewerMessage::Arrived(arrived)) => {
                connection.update_path(&mut self.core, viewer);
                match self.core.handle_arrived(viewer, &arrived, now) {
                    Ok(()) => {
                        return self.handle_acknowledged(
                            id,
                            viewer,
                            self.core.acked_in_order(viewer),
                        );
                    }
                    Err(violation) => violation.to_string(),
                }
            }
            Ok(ViewerMessage::Microphone(packet)) => {
                match self.handle_microphone(viewer, &packet) {
                    Ok(()) => return,
                    Err(violation) => violation.to_string(),
                }
            }
            Ok(ViewerMessage::Early(Early { offset, bytes })) => {
                let new_bytes = connection.upstream.from_datagram(offset, &bytes);
                if !new_bytes.is_empty() {
                    self.handle_stream(id, new_bytes);
                }
                return;
            }
            Ok(_) => "a message that must not be a datagram".to_owned(),
            Err(error) => error.to_string(),
        };
        self.close(id, CloseCode::Protocol, &violation);
    }

    /// The viewer has applied the ordered updates up to this one.
    fn handle_acknowledged(&mut self, id: ConnectionId, viewer: ViewerId, update: u64) {
        let now = self.now();
        self.caches.acked(id, viewer, update, &mut self.core);
        let more = self.core.stats(viewer).is_some_and(|stats| stats.in_flight > 0);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.handle_acknowledged(more, now);
        }
    }
}
