//! Path back, and 10/13 beside the pixels: under actor.rs, what the session's owner prefers, which
//! holds for all of their viewers: the clipboard's directions, the keyboard's layout and the scale.
//! From the file, from a viewer's menu and from the owner's other sessions, to session-core and the
//! desktop's settings. Knows choices; preferences.rs knows the file.

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::viewer::{KeyboardLayout, ViewerMessage};
use thinc_session_core::ViewerId;

use super::Actor;
use crate::connection::ConnectionId;
use crate::preferences::Preferences;
use crate::preferences::keeper::{Keeper, Reading};
use crate::xsettings::XSettings;

/// Told to the owner's viewers while the clipboard's directions are not known.
const UNKNOWN: &str = "Your preferences cannot be read, so nothing is copied or pasted. The \
                       session's log says why; what you choose in the menu replaces them.";

/// What the owner prefers, as it was read last.
#[derive(Debug)]
pub(super) struct PreferencesState {
    current: Preferences,
    /// The reading that they are from; 0: none has succeeded yet.
    reading: u64,
    keeper: Keeper,
}

impl PreferencesState {
    pub(super) fn new(keeper: Keeper) -> PreferencesState {
        PreferencesState { current: Preferences::unknown(), reading: 0, keeper }
    }

    pub(super) fn current(&self) -> &Preferences {
        &self.current
    }

    /// Takes what was read, unless it is older than what is known, or could not be read. What was
    /// known before, if that was something else.
    fn take(&mut self, reading: Reading) -> Option<Preferences> {
        let preferences = reading.preferences.filter(|_| reading.number > self.reading)?;
        self.reading = reading.number;
        let before = std::mem::replace(&mut self.current, preferences);
        (before != self.current).then_some(before)
    }

    /// What a viewer says of its keyboard, with the layout that its owner prefers.
    pub(super) fn layout_for(&self, reported: &KeyboardLayout) -> KeyboardLayout {
        match self.current.keyboard_layout() {
            Some(KeyboardLayout { layout, variant, .. }) => {
                KeyboardLayout { layout, variant, ..reported.clone() }
            }
            None => reported.clone(),
        }
    }
}

/// The scale at which programs draw: the owner's, or the one that viewers ask for.
#[derive(Debug)]
pub(super) struct DesktopScale {
    xsettings: XSettings,
    /// In percent; 0 before any viewer has asked.
    viewers: u16,
}

impl DesktopScale {
    pub(super) fn new(xsettings: XSettings) -> DesktopScale {
        DesktopScale { xsettings, viewers: 0 }
    }

    /// Viewers ask for this one; the owner may prefer another.
    pub(super) fn set_viewers(&mut self, percent: u16, preferred: Option<u16>) {
        self.viewers = percent;
        self.set_preferred(preferred);
    }

    /// The owner prefers this one, or none.
    fn set_preferred(&mut self, preferred: Option<u16>) {
        self.xsettings.set_scale(preferred.unwrap_or(self.viewers));
    }
}

impl Actor {
    /// A connection has begun, and the file was read for it.
    pub(super) fn handle_reading_of_connection(&mut self, reading: Reading) {
        if reading.number == 0 {
            self.preferences.keeper.read_again();
        }
        self.take_reading(reading);
    }

    /// The file was read after a change, or after a choice that may not have been kept.
    pub(super) fn handle_preferences_read(&mut self, reading: Reading) {
        self.take_reading(reading);
        let directions = self.preferences.current.clip_directions();
        for viewer in self.viewers_of_owner() {
            self.core.tell_clip_policy(viewer, directions);
        }
    }

    /// Another process of the owner's has changed the file.
    pub(super) fn handle_preferences_changed(&self) {
        self.preferences.keeper.read_again();
    }

    fn take_reading(&mut self, reading: Reading) {
        let Some(before) = self.preferences.take(reading) else { return };
        let preferences = self.preferences.current.clone();
        for viewer in self.viewers_of_owner() {
            self.core.set_rights(viewer, preferences.rights());
            self.core.tell_clip_policy(viewer, preferences.clip_directions());
        }
        if preferences.layout != before.layout {
            self.apply_layout();
        }
        self.scale.set_preferred(preferences.scale);
    }

    /// A viewer of the owner's has come.
    pub(super) fn apply_preferences_to(&mut self, id: ConnectionId, viewer: ViewerId) {
        if self.connections.get(id).is_none_or(|open| open.guest.is_some()) {
            return;
        }
        let preferences = &self.preferences.current;
        self.core.tell_clip_policy(viewer, preferences.clip_directions());
        if let Some(layout) = preferences.keyboard_layout() {
            self.set_layout(viewer, layout);
        }
        if self.preferences.reading == 0 {
            self.core.notify(viewer, UNKNOWN);
        }
    }

    fn viewers_of_owner(&self) -> Vec<ViewerId> {
        self.connections.owners().filter_map(|open| open.viewer).collect()
    }

    /// The layout was changed: each viewer has the owner's, or the one that it has reported, or
    /// none.
    fn apply_layout(&mut self) {
        let owners = self.connections.owners();
        let layouts: Vec<(ViewerId, KeyboardLayout)> = owners
            .filter_map(|open| {
                let reported = open.reported_layout.clone().unwrap_or_default();
                Some((open.viewer?, self.preferences.layout_for(&reported)))
            })
            .collect();
        layouts.into_iter().for_each(|(viewer, layout)| self.set_layout(viewer, layout));
    }

    fn set_layout(&mut self, viewer: ViewerId, layout: KeyboardLayout) {
        let message = ViewerMessage::KeyboardLayout(layout);
        // Of one message more than the viewer sends, none is too many.
        let _ = self.core.handle_message(viewer, &message, self.now());
    }

    /// A viewer of the owner's has chosen; the answer comes once it is kept.
    pub(super) fn handle_clip_policy(&mut self, id: ConnectionId, directions: ClipDirections) {
        if self.connections.get(id).is_some_and(|connection| connection.guest.is_none()) {
            self.preferences.keeper.keep_clipboard(directions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preferences::ClipChoice;

    #[tokio::test]
    async fn the_newest_reading_counts_and_one_that_failed_changes_nothing() {
        let (events, _inbox) = crate::connection::channel();
        let mut state = PreferencesState::new(Keeper::start(events));
        let reading = |number, preferences| Reading { number, preferences };
        let choice = |clipboard| Preferences { clipboard: Some(clipboard), ..Default::default() };
        // Nothing is known.
        assert_eq!(state.take(reading(0, None)), None);
        assert_eq!(state.take(reading(1, None)), None);
        assert!(!state.current().rights().clipboard_to_viewer);
        let before = state.take(reading(2, Some(Preferences::default())));
        assert_eq!(before, Some(Preferences::unknown()));
        assert!(state.current().rights().clipboard_to_viewer);

        let off = choice(ClipChoice::Off);
        assert_eq!(state.take(reading(5, Some(off.clone()))), Some(Preferences::default()));
        // A connection that began earlier, and one that waited in vain.
        assert_eq!(state.take(reading(4, Some(choice(ClipChoice::Both)))), None);
        assert_eq!(state.take(reading(6, None)), None);
        assert_eq!(state.take(reading(7, Some(off.clone()))), None, "nothing has changed");
        assert_eq!(state.current(), &off);
    }

    #[tokio::test]
    async fn an_owners_layout_keeps_the_model_and_the_options_of_each_keyboard() {
        let (events, _inbox) = crate::connection::channel();
        let mut state = PreferencesState::new(Keeper::start(events));
        let reported = KeyboardLayout {
            layout: "us".into(),
            variant: "intl".into(),
            model: "pc105".into(),
            options: "compose:caps".into(),
        };
        assert_eq!(state.layout_for(&reported), reported);
        let preferences = Preferences { layout: Some("de".into()), ..Preferences::default() };
        state.take(Reading { number: 1, preferences: Some(preferences) });
        let expected =
            KeyboardLayout { layout: "de".into(), variant: String::new(), ..reported.clone() };
        assert_eq!(state.layout_for(&reported), expected);
        state.take(Reading { number: 2, preferences: Some(Preferences::default()) });
        assert_eq!(state.layout_for(&reported), reported);
    }
}
