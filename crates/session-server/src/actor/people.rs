//! Path 10/13, and path back, beside the pixels: under actor.rs, who shows the session, whose
//! pointer is where, and what the owner's viewers ask for to share it.
//! From connections and the record of guests, to session-core, and to share.rs for requests. Knows
//! who a connection is of; share.rs decides what a request does.

use std::sync::Arc;
use std::time::Duration;

use thinc_protocol::Micros;
use thinc_protocol::limits::INVITATIONS_TOLD_MAX;
use thinc_protocol::people::{
    Invite, InviteRights, OpenInvitation, People, Person, PersonPointer, Share, ShareAction, Shared,
};
use thinc_protocol::viewer::InputEvent;
use thinc_session_core::{Session, ViewerId};
use thinc_transport::invitation::{Invitation, InvitationRefusal, Invitations};

use super::Actor;
use crate::connection::{ConnectionId, Event};
use crate::front::since_1970;
use crate::guests::Guests;
use crate::share::{ShareAnswer, ShareRequest, Sharing, UNNAMED};

/// Requests of one viewer that are not answered yet; past it they are refused. Each may hash a
/// password, one after the other.
const REQUESTS_MAX: usize = 4;
const NOT_OWNER: &str = "only the owner of the session can share it, or change what guests may do";

/// A minute: the clock may be set while an invitation expires.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Who may come, what viewers are told of each other, and when that may change by itself.
pub(super) struct PeopleState {
    sharing: Arc<Sharing>,
    /// While there are guests or invitations: when one may have expired.
    check_at: Option<Micros>,
    /// Whose input moved or used the session's pointer last.
    pointer_of: Option<ViewerId>,
    /// Guests are connected: everybody sees the others' pointers.
    has_guests: bool,
    /// The list has changed since viewers were told.
    changed: bool,
}

impl PeopleState {
    pub(super) fn new(sharing: Arc<Sharing>) -> PeopleState {
        PeopleState { sharing, check_at: None, pointer_of: None, has_guests: false, changed: false }
    }

    /// Who answers requests to share.
    pub(super) fn sharing(&self) -> &Arc<Sharing> {
        &self.sharing
    }

    /// The record of who was invited.
    pub(super) fn guests(&self) -> &Guests {
        &self.sharing.guests
    }

    /// Guests or invitations are there: the next invitation that expires is checked in time.
    pub(super) fn check_soon(&mut self, now: Micros) {
        let since_1970 = since_1970();
        let expiry_s = self.guests().record().next_expiry(since_1970.as_secs());
        self.check_within(wait_until(expiry_s, since_1970), now);
    }

    fn check_within(&mut self, wait: Duration, now: Micros) {
        let at = now + wait.as_micros() as Micros;
        self.check_at = Some(self.check_at.map_or(at, |before| before.min(at)));
    }

    /// When visits and invitations are checked.
    pub(super) fn deadline(&self) -> Option<Micros> {
        self.check_at
    }

    /// They are checked now: viewers are told of what has expired.
    pub(super) fn begin_check(&mut self) {
        self.check_at = None;
        self.changed = true;
    }

    /// Somebody came or left, or may do something else than before.
    pub(super) fn set_changed(&mut self) {
        self.changed = true;
    }

    /// A viewer's input, whether it takes effect or not.
    pub(super) fn handle_input(&mut self, core: &mut Session, viewer: ViewerId, event: InputEvent) {
        let at = match event {
            InputEvent::Motion { x, y } | InputEvent::Touch { x, y, .. } => Some((x, y)),
            InputEvent::Pen(sample) => Some(sample.pixel()),
            InputEvent::MotionBy { .. } | InputEvent::Button { .. } | InputEvent::Scroll { .. } => {
                None
            }
            InputEvent::Key { .. }
            | InputEvent::Char(_)
            | InputEvent::Locks { .. }
            | InputEvent::ReleaseAll => return,
        };
        if self.pointer_of != Some(viewer) && core.rights(viewer).is_some_and(|rights| rights.input)
        {
            self.pointer_of = Some(viewer);
            self.changed = true;
        }
        if let Some((x, y)) = at.filter(|_| self.has_guests) {
            core.show_pointer(PersonPointer { number: viewer.0, x, y });
        }
    }
}

impl Actor {
    /// Tells all viewers who is there, if that has changed.
    pub(super) fn tell_people(&mut self) {
        if !std::mem::take(&mut self.people.changed) {
            return;
        }
        let mut people = Vec::new();
        let record = self.people.guests().record();
        let now_s = since_1970().as_secs();
        for (_, connection) in self.connections.all_open() {
            let Some(viewer) = connection.viewer else { continue };
            let Some(rights) = self.core.rights(viewer) else { continue };
            let guest = match connection.guest.map(|grant| record.guest(grant, now_s)) {
                None => None,
                Some(Ok(guest)) => Some(guest),
                // Its visit is about to end.
                Some(Err(_)) => continue,
            };
            people.push(Person {
                number: viewer.0,
                guest: guest.map_or(0, |guest| guest.number),
                name: guest.map_or(String::new(), |guest| guest.name.clone()),
                has_control: rights.input,
                has_pointer: self.people.pointer_of == Some(viewer),
            });
        }
        let invitations = open_invitations(&record, now_s);
        drop(record);
        self.people.has_guests = people.iter().any(|person| person.guest != 0);
        for viewer in self.connections.values().filter_map(|connection| connection.viewer) {
            self.core.set_people(viewer, People { own: viewer.0, people: people.clone() });
        }
        for viewer in self.connections.owners().filter_map(|connection| connection.viewer) {
            self.core.set_invitations(viewer, &invitations);
        }
        // Their list loses an invitation when that expires.
        if !invitations.is_empty() {
            let now = self.now();
            self.people.check_soon(now);
        }
    }

    /// A viewer asks to share the session; the answer is sent when it is known.
    pub(super) fn handle_share(&mut self, id: ConnectionId, viewer: ViewerId, share: Share) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Share { request, action } = share;
        let refused = if connection.guest.is_some() {
            Some(NOT_OWNER.to_owned())
        } else if connection.share_requests >= REQUESTS_MAX {
            Some(format!("{REQUESTS_MAX} requests wait for their answers: try again after those"))
        } else {
            None
        };
        if let Some(reason) = refused {
            return self.core.answer_share(viewer, Shared { request, result: Err(reason) });
        }
        connection.share_requests += 1;
        let (sharing, what) = (self.people.sharing().clone(), request_of(action));
        tokio::spawn(async move {
            let result = match sharing.answer(what).await {
                Ok(ShareAnswer::Invited { link, .. }) => Ok(link),
                Ok(ShareAnswer::Error(error)) | Err(error) => Err(error),
                Ok(_) => Ok(String::new()),
            };
            let answer = Shared { request, result };
            let _ = sharing.events.send(Event::ShareAnswered(id, answer)).await;
        });
    }

    /// Sends the answer to a viewer's request.
    pub(super) fn handle_share_answered(&mut self, id: ConnectionId, answer: Shared) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.share_requests = connection.share_requests.saturating_sub(1);
        if let Some(viewer) = connection.viewer {
            self.core.answer_share(viewer, answer);
        }
    }
}

/// How long until the next check, if the next invitation expires at that second.
fn wait_until(expiry_s: Option<u64>, since_1970: Duration) -> Duration {
    expiry_s.map_or(CHECK_INTERVAL_MAX, |expiry_s| {
        Duration::from_secs(expiry_s).saturating_sub(since_1970).min(CHECK_INTERVAL_MAX)
    })
}

fn request_of(action: ShareAction) -> ShareRequest {
    match action {
        ShareAction::Invite(Invite { rights, native, life_s, uses, name, password }) => {
            ShareRequest::Invite {
                name,
                control: rights.control,
                clipboard_to_session: rights.clipboard_to_session,
                clipboard_to_guest: rights.clipboard_to_guest,
                without_sound: rights.without_sound,
                life_s: life_s.into(),
                uses,
                password: Some(password).filter(|password| !password.is_empty()),
                native,
            }
        }
        ShareAction::GiveControl(guest) => ShareRequest::Control { guest, control: true },
        ShareAction::TakeControl(guest) => ShareRequest::Control { guest, control: false },
        ShareAction::EndVisit(guest) => ShareRequest::ThrowOut(guest),
        ShareAction::Revoke(invitation) => ShareRequest::Revoke(invitation),
    }
}

/// What the owner can revoke: used-up ones too, whose guests may still be there.
fn open_invitations(record: &Invitations, now_s: u64) -> Vec<OpenInvitation> {
    let told = |invitation: &Invitation| {
        let Invitation { number, terms, used, revoked, .. } = invitation;
        let is_over = *revoked || now_s >= terms.expiry_s;
        let rights = terms.rights;
        (!is_over).then(|| OpenInvitation {
            number: *number,
            rights: InviteRights {
                control: rights.control,
                clipboard_to_session: rights.clipboard_to_session,
                clipboard_to_guest: rights.clipboard_to_guest,
                without_sound: rights.without_sound,
            },
            has_password: terms.password.is_some(),
            is_locked: record.state(invitation, now_s) == Err(InvitationRefusal::Locked),
            used: *used,
            uses: terms.uses,
            expiry_s: terms.expiry_s,
            name: if terms.name == UNNAMED { String::new() } else { terms.name.clone() },
        })
    };
    let newest = record.all().iter().rev().filter_map(told).take(INVITATIONS_TOLD_MAX);
    let mut invitations: Vec<OpenInvitation> = newest.collect();
    invitations.reverse();
    invitations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_that_expires_is_checked_in_time_and_each_minute() {
        let now = Duration::from_millis(1_000_500);
        assert_eq!(wait_until(Some(1_001), now), Duration::from_millis(500));
        assert_eq!(wait_until(Some(1_000), now), Duration::ZERO);
        assert_eq!(wait_until(Some(9_999), now), CHECK_INTERVAL_MAX, "the clock may be set");
        assert_eq!(wait_until(None, now), CHECK_INTERVAL_MAX);
    }
}
