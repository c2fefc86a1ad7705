//! Path back: under actor.rs, for connections of guests: their rights when they connect and when
//! these change, and the end of their visits. From share.rs and from deadlines, to session-core.
//! Knows grants and connections; the record of invitations (../guests.rs) knows what they mean.

use thinc_protocol::session::CloseCode;
use thinc_session_core::Rights;

use super::Actor;
use crate::connection::ConnectionId;
use crate::front::since_1970;
use crate::share::ViewerStatus;

impl Actor {
    /// What the viewer of a connection may do; None if it is a guest that may not stay, which is
    /// told so.
    pub(super) fn rights_of(&mut self, id: ConnectionId) -> Option<Rights> {
        let connection = self.connections.get(id)?;
        let Some(grant) = connection.guest else {
            return Some(self.preferences.current().rights());
        };
        let now = self.now();
        self.people.check_soon(now);
        match self.people.guests().rights(grant) {
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
        self.people.begin_check();
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

    /// All connected viewers, the oldest first.
    pub(super) fn viewer_statuses(&self) -> Vec<ViewerStatus> {
        let record = self.people.guests().record();
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
