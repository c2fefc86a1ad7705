//! Path back: under actor.rs, for a viewer that comes on another connection than before.
//! Its older connection is over, and the new one hears which of its input was taken: what it says again is typed once.
//! Knows which viewers were here; never what they typed.

use std::collections::VecDeque;

use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::session::CloseCode;
use tracing::info;

use super::Actor;
use crate::connection::{ConnectionId, Ending};

/// 16: as many viewers as there may be at once. One that is forgotten says nothing again.
const LEFT_MAX: usize = 16;

/// The viewers that have gone, and the newest input that was taken of each; the last to go at the end.
#[derive(Debug, Default)]
pub(super) struct Left {
    seen: VecDeque<([u8; INSTANCE_BYTES], u32)>,
}

impl Left {
    fn push(&mut self, instance: [u8; INSTANCE_BYTES], seen: u32) {
        self.take(instance);
        if self.seen.len() == LEFT_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back((instance, seen));
    }

    fn take(&mut self, instance: [u8; INSTANCE_BYTES]) -> Option<u32> {
        let at = self.seen.iter().position(|&(of, _)| of == instance)?;
        self.seen.remove(at).map(|(_, seen)| seen)
    }
}

impl Actor {
    /// A viewer has come back: what may still come over its older connection comes too late, and what it held there it
    /// holds no more.
    pub(super) fn leave_older(&mut self, id: ConnectionId, instance: [u8; INSTANCE_BYTES]) {
        let of_it: Vec<ConnectionId> =
            self.seats.iter().filter(|(_, seat)| seat.instance == Some(instance)).map(|(&other, _)| other).collect();
        // Numbers of connections grow: bytes of one that was given up may come after those of the next.
        if of_it.iter().any(|&other| other > id) {
            return self.close(id, CloseCode::Replaced, "a newer connection of this viewer is here");
        }
        for other in of_it {
            if let Some(seat) = self.seats.get(&other) {
                info!("{}: came back on another connection", seat.label);
                seat.task.abort();
                self.gone(other, &Ending::Closed);
            }
        }
        let seen = self.left.take(instance);
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.instance = Some(instance);
            seat.viewer.into_iter().for_each(|viewer| self.core.set_seen(viewer, seen));
        }
    }

    /// A viewer's connection is over; it may come back on another.
    pub(super) fn remember_left(&mut self, instance: [u8; INSTANCE_BYTES], seen: u32) {
        self.left.push(instance, seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_viewers_that_left_the_last_sixteen_are_known() {
        let mut left = Left::default();
        (0..20).for_each(|number| left.push([number; INSTANCE_BYTES], number.into()));
        left.push([9; INSTANCE_BYTES], 900);
        assert_eq!(left.take([3; INSTANCE_BYTES]), None, "the oldest are forgotten");
        assert_eq!(left.take([4; INSTANCE_BYTES]), Some(4));
        assert_eq!(left.take([9; INSTANCE_BYTES]), Some(900), "the newest word counts");
        assert_eq!(left.take([9; INSTANCE_BYTES]), None, "it is here again");
    }
}
