//! Path 10/13 and back: under actor.rs, for what a viewer says beside its stream.
//! From connection.rs's datagrams, to session-core, and what follows from that for what the viewer keeps.
//! Knows which message may come so; decides nothing that session-core could decide.

use thinc_protocol::frame::Frame;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::{Early, ViewerMessage};
use thinc_session_core::ViewerId;

use super::Actor;
use crate::connection::ConnectionId;

impl Actor {
    /// What a viewer says beside its stream: what has arrived, and once more what the stream brings.
    pub(super) fn take_datagram(&mut self, id: ConnectionId, bytes: &[u8]) {
        let now = self.now();
        let Some(seat) = self.seats.get_mut(&id).filter(|seat| seat.cut_at.is_none()) else { return };
        let Some(viewer) = seat.viewer else { return };
        let wrong = match Frame::whole(bytes).and_then(|frame| ViewerMessage::decode(&frame)) {
            Ok(ViewerMessage::Arrived(arrived)) => {
                seat.tell_path(&mut self.core, viewer);
                match self.core.handle_arrived(viewer, &arrived, now) {
                    Ok(()) => return self.acknowledged(id, viewer, self.core.acked_in_order(viewer)),
                    Err(violation) => violation.to_string(),
                }
            }
            Ok(ViewerMessage::Early(Early { offset, bytes })) => {
                let fresh = seat.upstream.beside(offset, &bytes);
                if !fresh.is_empty() {
                    self.take_frames(id, fresh);
                }
                return;
            }
            Ok(_) => "a message that does not come alone".to_owned(),
            Err(error) => error.to_string(),
        };
        self.close(id, CloseCode::Protocol, &wrong);
    }

    /// A viewer has applied the updates that come in order up to this one.
    fn acknowledged(&mut self, id: ConnectionId, viewer: ViewerId, update: u64) {
        let now = self.now();
        self.caches.acked(id, viewer, update, &mut self.core);
        let more = self.core.stats(viewer).is_some_and(|stats| stats.in_flight > 0);
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.unacknowledged = more.then_some(now);
        }
    }
}
