//! Path 11/13, beside the pixels: under page.rs, from viewer-core's messages of sound, to
//! web/engine/sound.ts. Passes bytes and numbers on; the player is another module, on the audio
//! thread.

use thinc_protocol::session::SessionMessage;
use thinc_protocol::sound::{SoundCodec, SoundState, SoundWant};
use thinc_protocol::viewer::ViewerCaps;
use thinc_viewer_core::{SoundEvent, Viewer};

use super::Page;

impl Page {
    /// The browser can play sound, from the next connection on; nobody hears it while `muted`.
    pub(crate) fn want_sound(&mut self, muted: bool) {
        let want =
            SoundWant { codecs: SoundCodec::Opus.bit(), frame_min: 0, bitrate_max: 0, muted };
        self.sound_want = Some(want);
        if let Some(viewer) = &mut self.viewer {
            viewer.want_sound(want);
        }
    }

    /// The capability of a new connection.
    pub(super) fn sound_caps(&self) -> u32 {
        if self.sound_want.is_some() { ViewerCaps::SOUND } else { 0 }
    }

    /// Tells a new connection what is wanted.
    pub(super) fn begin_sound(&self, viewer: &mut Viewer) {
        self.sound_want.into_iter().for_each(|want| viewer.want_sound(want));
    }

    /// True if the session has sound.
    pub(crate) fn has_sound(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::has_sound)
    }

    /// The next message for the player; empty: there is none.
    pub(crate) fn next_sound(&mut self) -> &[u8] {
        self.sound.clear();
        match self.viewer.as_mut().and_then(Viewer::poll_sound) {
            Some(SoundEvent::Format(format)) => {
                SessionMessage::SoundFormat(format).encode(&mut self.sound);
            }
            Some(SoundEvent::Packet { message, .. }) => self.sound = message,
            None => {}
        }
        &self.sound
    }

    /// What `next_sound` returned.
    pub(crate) fn sound(&self) -> &[u8] {
        &self.sound
    }

    /// What is played at `now`, in the order of the player's report; returns how much later the
    /// player is to make sound.
    pub(crate) fn report_sound(&mut self, heard: u64, numbers: [u32; 5], now: u64) -> u64 {
        let [delay_us, received, lost, concealed, runs] = numbers;
        let state = SoundState { heard, delay_us, received, lost, concealed, runs, lag_us: None };
        self.viewer.as_mut().map_or(0, |viewer| viewer.report_sound(state, now))
    }
}
