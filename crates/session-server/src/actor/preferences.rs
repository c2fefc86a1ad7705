//! Path back, and 10/13 beside the pixels: under actor.rs, what the session's owner prefers, which
//! holds for all of their viewers: the clipboard's directions, the keyboard's layout and the scale.
//! From the file, from a viewer's menu and from the owner's other sessions, to session-core and the
//! desktop's settings. Knows choices; preferences.rs knows the file.

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::viewer::{KeyboardLayout, ViewerMessage};
use thinc_session_core::ViewerId;
use tokio::sync::Semaphore;
use tracing::warn;

use super::Actor;
use crate::connection::{ConnectionId, Event};
use crate::preferences::{self, ClipChoice, Preferences};

/// Changes that are written at the same time.
static CHANGES: Semaphore = Semaphore::const_new(4);

impl Actor {
    /// A viewer of the owner's has come, with what is in the file now.
    pub(super) fn apply_preferences_to(&mut self, id: ConnectionId, viewer: ViewerId) {
        let Some(connection) = self.connections.get(&id) else { return };
        if connection.guest.is_some() {
            return;
        }
        let preferences = connection.preferences.clone();
        self.core.tell_clip_policy(viewer, preferences.clip_directions());
        self.apply_layout(viewer, &preferences);
        self.set_preferred_scale(preferences.scale);
    }

    /// The file has changed: for all viewers of the owner's.
    pub(super) fn handle_preferences(&mut self, preferences: &Preferences) {
        let owners = self.connections.values_mut().filter(|open| open.guest.is_none());
        let mut viewers = Vec::new();
        for connection in owners {
            connection.preferences = preferences.clone();
            viewers.extend(connection.viewer);
        }
        for viewer in viewers {
            self.core.set_rights(viewer, preferences.rights());
            self.core.tell_clip_policy(viewer, preferences.clip_directions());
            self.apply_layout(viewer, preferences);
        }
        self.set_preferred_scale(preferences.scale);
    }

    fn apply_layout(&mut self, viewer: ViewerId, preferences: &Preferences) {
        if let Some(layout) = preferences.keyboard_layout() {
            let message = ViewerMessage::KeyboardLayout(layout);
            // Of one message more than the viewer sends, none is too many.
            let _ = self.core.handle_message(viewer, &message, self.now());
        }
    }

    /// What a viewer says of its keyboard, as its owner prefers it.
    pub(super) fn preferred_layout(
        preferences: &Preferences,
        reported: &KeyboardLayout,
    ) -> Option<KeyboardLayout> {
        let KeyboardLayout { layout, variant, .. } = preferences.keyboard_layout()?;
        Some(KeyboardLayout { layout, variant, ..reported.clone() })
    }

    fn set_preferred_scale(&mut self, scale: Option<u16>) {
        self.preferred_scale = scale;
        self.xsettings.set_scale(scale.unwrap_or(self.viewers_scale));
    }

    /// A viewer of the owner's has chosen; the answer comes once it is kept.
    pub(super) fn handle_clip_policy(&mut self, id: ConnectionId, directions: ClipDirections) {
        if self.connections.get(&id).is_none_or(|connection| connection.guest.is_some()) {
            return;
        }
        let change =
            Preferences { clipboard: Some(ClipChoice::of(directions)), ..Preferences::default() };
        // Who clicks faster than files are written has the last of these choices.
        let Ok(turn) = CHANGES.try_acquire() else { return };
        let events = self.sharing.events.clone();
        tokio::spawn(async move {
            let _turn = turn;
            let changed = tokio::task::spawn_blocking(move || {
                Preferences::change(&preferences::path()?, &change)
            });
            match changed.await {
                Ok(Ok(preferences)) => {
                    let _ = events.send(Event::Preferences(preferences)).await;
                }
                Ok(Err(error)) => {
                    warn!("a preference is not kept: {error}");
                    let (answer, _) = tokio::sync::oneshot::channel();
                    let text = format!("Your choice could not be kept: {error}");
                    let _ = events.send(Event::Notice(text, answer)).await;
                }
                Err(error) => warn!("a preference is not kept: {error}"),
            }
        });
    }
}
