//! Path back: under actor.rs, for connections of guests: their rights when they connect and when
//! these change, and the end of their visits. From share.rs and from deadlines, to session-core.
//! Knows grants and connections; the record of invitations (../guests.rs) knows what they mean.

use std::time::Duration;

use thinc_protocol::Micros;
use thinc_protocol::session::CloseCode;
use thinc_session_core::Rights;

use super::Actor;
use crate::connection::ConnectionId;
use crate::front::since_1970;
use crate::share::ViewerStatus;

/// A minute: the clock may be set while an invitation expires.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(60);

impl Actor {
    /// What the viewer of a connection may do; None if it is a guest that may not stay, which is
    /// told so.
    pub(super) fn rights_of(&mut self, id: ConnectionId) -> Option<Rights> {
        let connection = self.connections.get(id)?;
        let Some(grant) = connection.guest else {
            return Some(self.preferences.current().rights());
        };
        self.check_guests_soon();
        match self.guests.rights(grant) {
            Ok(rights) => Some(rights),
            Err(end) => {
                self.close(id, CloseCode::Unauthorized, end.reason());
                None
            }
        }
    }

    /// Ends the visits that have ended, and applies changed rights. True if any visit has ended.
    pub(super) fn check_guests(&mut self) -> bool {
        let open = self.connections.all_open();
        let guests = open.filter(|(_, connection)| connection.guest.is_some());
        let guests: Vec<ConnectionId> = guests.map(|(id, _)| id).collect();
        self.guests_check_at = None;
        self.people.set_changed();
        let mut has_ended = false;
        for id in guests {
            let Some(rights) = self.rights_of(id) else {
                has_ended = true;
                continue;
            };
            if let Some(viewer) = self.connections.get(id).and_then(|found| found.viewer) {
                self.core.set_rights(viewer, rights);
            }
        }
        has_ended
    }

    /// Guests or invitations are there: the next invitation that expires is checked in time.
    pub(super) fn check_guests_soon(&mut self) {
        let now = since_1970();
        let expiry_s = self.guests.record().next_expiry(now.as_secs());
        let wait = expiry_s.map_or(CHECK_INTERVAL_MAX, |expiry_s| {
            Duration::from_secs(expiry_s).saturating_sub(now).min(CHECK_INTERVAL_MAX)
        });
        let at = self.now() + wait.as_micros() as Micros;
        self.guests_check_at = Some(self.guests_check_at.map_or(at, |before| before.min(at)));
    }

    /// All connected viewers, the oldest first.
    pub(super) fn viewer_statuses(&self) -> Vec<ViewerStatus> {
        let record = self.guests.record();
        let now_s = since_1970().as_secs();
        self.connections
            .all_open()
            .filter_map(|(_, connection)| {
                let rights = self.core.rights(connection.viewer?)?;
                let guest = connection.guest.map(|grant| record.guest(grant, now_s));
                let guest = guest.transpose().ok()?;
                let invitation = guest.and_then(|guest| {
                    let id = guest.grant.invitation;
                    record.all().iter().find(|invitation| invitation.id == id)
                });
                Some(ViewerStatus {
                    guest: guest.map(|guest| guest.number),
                    invitation: invitation.map(|invitation| invitation.number),
                    name: guest.map(|guest| guest.name.clone()),
                    control: rights.input,
                    from: connection.label.clone(),
                    since_s: now_s.saturating_sub((self.now() - connection.opened) / 1_000_000),
                })
            })
            .collect()
    }
}
