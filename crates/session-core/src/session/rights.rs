//! Path back: under session.rs, when the rights of a viewer change while it is connected.
//! From the shell, to input, clipboard and size. Knows what a viewer holds; ../rights.rs says what
//! a viewer may do.

use thinc_protocol::viewer::{InputEvent, ViewerMessage};

use super::Session;
use crate::input::keyboard::Locks;
use crate::rights::Rights;
use crate::viewer::{InputState, ViewerId};

impl Session {
    /// What this viewer may do; None if there is no such viewer.
    pub fn rights(&self, id: ViewerId) -> Option<Rights> {
        self.viewer(id).map(|viewer| viewer.rights)
    }

    /// From now on the viewer may do this. What it holds and may hold no more is released, what it
    /// has typed and X has not received is dropped, and what it copied is given up.
    pub fn set_rights(&mut self, id: ViewerId, rights: Rights) {
        let Some(at) = self.viewers.position(id) else { return };
        let before = self.viewers[at].rights;
        if before == rights {
            return;
        }
        let controller = self.controller();
        self.viewers[at].rights = rights;
        if before.input && !rights.input {
            self.requests.drop_typed(id);
            self.release_all(at);
            self.requests.push_forget_keyboard(id);
        } else if rights.input && !before.input {
            // A viewer reports its keyboard when it connects and when it changes, not again now.
            let InputState { layout, locks, .. } = &self.viewers[at].input;
            self.requests.push_keyboard(id, layout.clone(), *locks);
        }
        let policy = rights.clipboard(self.clipboard.policy);
        if policy != before.clipboard(self.clipboard.policy) {
            self.clipboard.remove_viewer(id, self.viewers.all_mut(), self.now);
            let end = &mut self.viewers[at].channels.clipboard;
            end.set_policy(policy);
            self.clipboard.add_viewer(end);
        }
        if rights.files != before.files {
            let viewer = &mut self.viewers[at];
            let policy = rights.files(self.files, viewer.channels.background.caps());
            viewer.channels.background.files.set_policy(policy);
        }
        if self.controller() != controller {
            self.request_size();
        }
    }

    /// Keeps what a viewer reports of its keyboard, also while it may not type.
    pub(super) fn remember_keyboard(&mut self, at: usize, message: &ViewerMessage) {
        let viewer = &mut self.viewers[at];
        match message {
            ViewerMessage::KeyboardLayout(layout) => viewer.input.layout = Some(layout.clone()),
            ViewerMessage::Input(input) => {
                if let InputEvent::Locks { caps, num } = input.event {
                    viewer.input.locks = Some(Locks { caps, num });
                }
            }
            _ => {}
        }
    }

    /// True if the viewer has no right to what this message asks for: it is counted, and has no
    /// effect. Acknowledgements, views and barriers concern the viewer alone.
    pub(super) fn is_forbidden(&self, at: usize, message: &ViewerMessage) -> bool {
        let rights = &self.viewers[at].rights;
        match message {
            ViewerMessage::Input(_) | ViewerMessage::KeyboardLayout(_) => !rights.input,
            // Without the right its ends of these channels take and give nothing.
            ViewerMessage::Clip(_) | ViewerMessage::File(_) => false,
            // Its wishes are kept; `controller` decides whose count.
            ViewerMessage::Resize(_) | ViewerMessage::Displays(_) => false,
            ViewerMessage::Hello(_)
            | ViewerMessage::Early(_)
            | ViewerMessage::Ack(_)
            | ViewerMessage::Arrived(_)
            | ViewerMessage::Ping(_)
            | ViewerMessage::Barrier(_)
            | ViewerMessage::Resync
            | ViewerMessage::PictureQuality(_)
            | ViewerMessage::ExactFrame
            | ViewerMessage::Stereo(_)
            | ViewerMessage::VideoCodecs(_)
            | ViewerMessage::Cache(_)
            | ViewerMessage::Instance(_)
            | ViewerMessage::View(_)
            | ViewerMessage::Video(_)
            | ViewerMessage::RetainedTiles(_)
            | ViewerMessage::SoundWant(_)
            | ViewerMessage::SoundState(_)
            // Without the right it has no lane, and is told so.
            | ViewerMessage::Microphone(_)
            | ViewerMessage::MicrophoneState(_)
            // The shell knows whose viewer it is.
            | ViewerMessage::Share(_)
            | ViewerMessage::ClipPolicy(_)
            | ViewerMessage::Close(_) => false,
        }
    }
}
