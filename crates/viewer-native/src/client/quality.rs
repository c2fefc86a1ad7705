//! Path back: under client.rs, from the window's menu and keys or a script, to viewer-core.
//! How good pictures are that move: the user's choice, which holds for later connections too, and
//! their wish for an exact frame. Knows choices and words; never pixels.

use thinc_protocol::picture_quality::PictureQuality;

use super::State;

/// The choice's name, as the command line and the menu have it.
pub fn name_of(quality: PictureQuality) -> &'static str {
    match quality {
        PictureQuality::Auto => "auto",
        PictureQuality::Exact => "exact",
        PictureQuality::High => "high",
        PictureQuality::Medium => "medium",
        PictureQuality::Low => "low",
    }
}

/// It sends nothing lossy, or is of an earlier version.
#[cfg(feature = "window")]
const NO_CHOICE: &str = "This session takes no choice of quality";

impl State {
    /// How good pictures that move are.
    #[cfg(feature = "window")]
    pub(crate) fn quality(&self) -> PictureQuality {
        self.hello.quality()
    }

    /// The user has chosen this.
    pub(crate) fn choose_quality(&mut self, quality: PictureQuality) {
        self.hello.set_quality(quality);
        self.active().choose_quality(quality);
        #[cfg(feature = "h264")]
        self.wake_decoding();
        self.flush();
    }

    /// Takes the choice that follows in the menu; returns it in words.
    #[cfg(feature = "window")]
    pub(crate) fn choose_next_quality(&mut self) -> String {
        if self.is_connected() && !self.viewer().takes_quality() {
            return NO_CHOICE.to_owned();
        }
        let all = PictureQuality::ALL;
        let next = all[(usize::from(self.quality().byte()) + 1) % all.len()];
        self.choose_quality(next);
        format!("Quality: {}", name_of(next))
    }

    /// Asks for an exact frame; returns what becomes of it in words.
    #[cfg(feature = "window")]
    pub(crate) fn show_exactly(&mut self) -> &'static str {
        match (self.is_connected(), self.request_exact_frame()) {
            (false, _) => "Not connected",
            (true, true) => "For a moment everything is exact",
            (true, false) => NO_CHOICE,
        }
    }

    /// Asks for what is shown now lossless, also while it moves; false if the session takes no such
    /// wish, or there is no connection.
    pub(crate) fn request_exact_frame(&mut self) -> bool {
        let is_asked = self.is_connected() && self.active().request_exact_frame();
        self.flush();
        is_asked
    }
}
