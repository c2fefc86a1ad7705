//! Path back: under actor.rs, for a viewer whose person opens the session while it is shown
//! elsewhere: the new one takes it over, or joins, or its person is asked. Viewers that were taken
//! over do not come back by themselves. Knows viewers' hellos and the policy; never what is shown.

use std::collections::VecDeque;

use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerCaps;
use tracing::info;

use super::{Actor, VIEWERS_MAX};
use crate::connection::ConnectionId;
use crate::opening::Opening;

/// Viewers that may not come back by themselves, the last one at the end: those that were connected
/// and those that had left, of several times. Past it the oldest may come back, and joins.
const TAKEN_OVER_MAX: usize = 4 * VIEWERS_MAX;

/// Told to a viewer whose person has opened the session elsewhere.
const TAKEN_OVER: &str = "the session was opened at another viewer of its owner";
/// Told to one whose person has to choose.
pub(super) const ELSEWHERE: &str =
    "the session is shown elsewhere: take it over, or see it in both places";

/// What is known of earlier openings.
#[derive(Debug)]
pub(super) struct OpeningState {
    /// Unless the person or the broker's administrator has chosen.
    default: Opening,
    taken_over: VecDeque<[u8; INSTANCE_BYTES]>,
}

impl OpeningState {
    pub(super) fn new(default: Opening) -> OpeningState {
        OpeningState { default, taken_over: VecDeque::new() }
    }

    fn forget(&mut self, instance: [u8; INSTANCE_BYTES]) {
        self.taken_over.retain(|other| *other != instance);
    }

    fn insert(&mut self, instance: [u8; INSTANCE_BYTES]) {
        self.forget(instance);
        if self.taken_over.len() == TAKEN_OVER_MAX {
            self.taken_over.pop_front();
        }
        self.taken_over.push_back(instance);
    }
}

/// What the hello of an owner's viewer asks for; `None` if it only reconnects.
fn wanted(caps: u32, policy: Opening) -> Option<Opening> {
    let has = |bit: u32| caps & bit != 0;
    if !has(ViewerCaps::OPENS) {
        None
    } else if has(ViewerCaps::TAKES_OVER) {
        Some(Opening::TakeOver)
    } else if has(ViewerCaps::JOINS) {
        Some(Opening::Join)
    } else {
        Some(policy)
    }
}

impl Actor {
    /// What happens as this viewer says hello; `None` if it only reconnects, or is a guest's.
    pub(super) fn opening_of(&self, id: ConnectionId, caps: u32) -> Option<Opening> {
        self.connections.get(id).filter(|open| open.guest.is_none())?;
        let chosen = self.preferences.current().opening.or(self.people.sharing().opening());
        wanted(caps, chosen.unwrap_or(self.opening.default))
    }

    /// The session is shown at another viewer of its owner's.
    pub(super) fn is_shown_elsewhere(&self, id: ConnectionId) -> bool {
        self.owners_but(id).next().is_some()
    }

    fn owners_but(&self, id: ConnectionId) -> impl Iterator<Item = ConnectionId> {
        let owners = self.connections.all_open().filter(move |(other, connection)| {
            *other != id && connection.guest.is_none() && connection.viewer.is_some()
        });
        owners.map(|(other, _)| other)
    }

    /// The person has opened the session here: it is shown at no other viewer of theirs any more,
    /// nor at one that comes back after an outage.
    pub(super) fn take_over(&mut self, id: ConnectionId) {
        let others: Vec<ConnectionId> = self.owners_but(id).collect();
        self.departed.instances().for_each(|instance| self.opening.insert(instance));
        for other in others {
            if let Some(connection) = self.connections.get(other) {
                info!("{}: taken over", connection.label);
                connection.instance.into_iter().for_each(|it| self.opening.insert(it));
            }
            self.close(other, CloseCode::Replaced, TAKEN_OVER);
        }
    }

    /// A viewer has said which one it is. True if it was taken over, and has come back by itself:
    /// it is told so.
    pub(super) fn refuse_taken_over(
        &mut self,
        id: ConnectionId,
        instance: [u8; INSTANCE_BYTES],
    ) -> bool {
        let Some(connection) = self.connections.get(id) else { return false };
        if connection.guest.is_some() || !self.opening.taken_over.contains(&instance) {
            return false;
        }
        if connection.opens {
            self.opening.forget(instance);
            return false;
        }
        self.close(id, CloseCode::Replaced, TAKEN_OVER);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_person_goes_before_the_policy_and_who_reconnects_opens_nothing() {
        let opens = ViewerCaps::OPENS;
        for policy in [Opening::TakeOver, Opening::Join, Opening::Ask] {
            assert_eq!(wanted(0, policy), None);
            assert_eq!(wanted(ViewerCaps::TAKES_OVER | ViewerCaps::JOINS, policy), None);
            assert_eq!(wanted(opens, policy), Some(policy));
            assert_eq!(wanted(opens | ViewerCaps::TAKES_OVER, policy), Some(Opening::TakeOver));
            assert_eq!(wanted(opens | ViewerCaps::JOINS, policy), Some(Opening::Join));
        }
    }

    #[test]
    fn the_last_that_were_taken_over_are_remembered() {
        let mut state = OpeningState::new(Opening::Join);
        (0..=TAKEN_OVER_MAX as u8).for_each(|number| state.insert([number; INSTANCE_BYTES]));
        assert!(!state.taken_over.contains(&[0; INSTANCE_BYTES]), "the oldest may come back");
        assert!(state.taken_over.contains(&[1; INSTANCE_BYTES]));
        state.insert([5; INSTANCE_BYTES]);
        assert_eq!(state.taken_over.len(), TAKEN_OVER_MAX);
        state.forget([5; INSTANCE_BYTES]);
        assert!(!state.taken_over.contains(&[5; INSTANCE_BYTES]));
    }
}
