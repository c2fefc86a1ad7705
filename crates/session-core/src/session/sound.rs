//! Path 10/13, beside the pixels: under session.rs, from the shell's encoders, to the viewers'
//! lanes of sound. Knows which viewer plays what; never samples or codecs.

use thinc_protocol::Micros;
use thinc_protocol::viewer::ViewerMessage;
use thinc_sound::Quality;
use thinc_sound::sender::CodedFrame;

use super::Session;
use crate::packer::Packer;
use crate::viewer::{ViewerId, Violation};

impl Session {
    /// Whether the session has sound; for viewers that connect from now on.
    pub fn set_sound(&mut self, has_sound: bool) {
        self.has_sound = has_sound;
    }

    /// Whether any viewer wants to hear sound.
    pub fn is_heard(&self) -> bool {
        self.viewers.iter().any(|viewer| viewer.wants_sound())
    }

    /// How a viewer's sound is to be coded now; None: it plays none.
    pub fn sound_quality(&mut self, id: ViewerId, now: Micros) -> Option<Quality> {
        self.viewer_mut(id)?.sound_quality(now)
    }

    /// A frame for a viewer, coded as it is to be. It goes before pixels; if the path takes none,
    /// the oldest is dropped.
    pub fn handle_sound(&mut self, id: ViewerId, frame: CodedFrame, now: Micros) {
        self.now = self.now.max(now);
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.push_sound(frame, now);
        }
    }

    /// Sends a viewer's sound as datagrams, also while a chunk of its stream is being sent; true if
    /// there was any. On streams, and if its format changes, `poll_transmit` sends it.
    pub fn poll_sound(&mut self, id: ViewerId, now: Micros, packer: &mut dyn Packer) -> bool {
        self.now = self.now.max(now);
        self.viewer_mut(id).is_some_and(|viewer| viewer.transmit_sound_datagrams(packer, now))
    }

    pub(super) fn handle_sound_message(
        &mut self,
        at: usize,
        message: &ViewerMessage,
        now: Micros,
    ) -> Result<(), Violation> {
        let viewer = &mut self.viewers[at];
        match message {
            ViewerMessage::SoundWant(want) => viewer.want_sound(want),
            ViewerMessage::SoundState(state) => viewer.sound_state(state, now),
            _ => Ok(()),
        }
    }
}
