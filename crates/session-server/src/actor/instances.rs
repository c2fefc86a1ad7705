//! Path back: under actor.rs, for a viewer that reconnects: its older connection is closed, and the
//! new one learns which of its input was received, so that input which the viewer repeats is
//! applied once. Knows which viewers were connected; never what they typed.

use std::collections::VecDeque;

use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::session::CloseCode;
use tracing::info;

use super::Actor;
use crate::connection::{ConnectionId, EndReason};

/// 16: as many viewers as there may be at once. One that is forgotten does not repeat its input.
const DEPARTED_MAX: usize = 16;

/// Disconnected viewers and the newest input that was received from each; the last to leave is at
/// the end.
#[derive(Debug, Default)]
pub(super) struct DepartedViewers {
    received: VecDeque<([u8; INSTANCE_BYTES], u32)>,
}

impl DepartedViewers {
    fn push(&mut self, instance: [u8; INSTANCE_BYTES], received: u32) {
        self.take(instance);
        if self.received.len() == DEPARTED_MAX {
            self.received.pop_front();
        }
        self.received.push_back((instance, received));
    }

    /// All of them, the last to leave at the end.
    pub(super) fn instances(&self) -> impl Iterator<Item = [u8; INSTANCE_BYTES]> {
        self.received.iter().map(|&(instance, _)| instance)
    }

    fn take(&mut self, instance: [u8; INSTANCE_BYTES]) -> Option<u32> {
        let at = self.received.iter().position(|&(of, _)| of == instance)?;
        self.received.remove(at).map(|(_, received)| received)
    }
}

impl Actor {
    /// A viewer has reconnected: closes its older connections, so that input which still arrives
    /// there is ignored and its keys are released.
    pub(super) fn close_older_connections(
        &mut self,
        id: ConnectionId,
        instance: [u8; INSTANCE_BYTES],
    ) {
        let guest = self.connections.get(id).and_then(|connection| connection.guest);
        let older: Vec<ConnectionId> = self
            .connections
            .iter()
            // Nobody closes another person's connection, even if it has learned the number.
            .filter(|(_, connection)| {
                connection.instance == Some(instance) && connection.guest == guest
            })
            .map(|(other, _)| other)
            .collect();
        // Connection IDs grow: bytes of a connection that was given up may arrive after those of
        // the next.
        if older.iter().any(|&other| other > id) {
            return self.close(
                id,
                CloseCode::Replaced,
                "a newer connection of this viewer is here",
            );
        }
        for other in older {
            if let Some(connection) = self.connections.get(other) {
                info!("{}: reconnected", connection.label);
                connection.task.abort();
                self.handle_closed(other, &EndReason::Closed);
            }
        }
        let received = self.departed.take(instance);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.instance = Some(instance);
            connection
                .viewer
                .into_iter()
                .for_each(|viewer| self.core.set_input_received(viewer, received));
        }
        self.files_viewer_came(id);
    }

    /// A viewer has disconnected, and may reconnect.
    pub(super) fn remember_departed(&mut self, instance: [u8; INSTANCE_BYTES], received: u32) {
        self.departed.push(instance, received);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sixteen_departed_viewers_are_remembered() {
        let mut departed = DepartedViewers::default();
        (0..20).for_each(|number| departed.push([number; INSTANCE_BYTES], number.into()));
        departed.push([9; INSTANCE_BYTES], 900);
        assert_eq!(departed.take([3; INSTANCE_BYTES]), None, "the oldest are forgotten");
        assert_eq!(departed.take([4; INSTANCE_BYTES]), Some(4));
        assert_eq!(departed.take([9; INSTANCE_BYTES]), Some(900), "the newest value counts");
        assert_eq!(departed.take([9; INSTANCE_BYTES]), None, "it is connected again");
    }
}
