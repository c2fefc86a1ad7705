//! Path 10/13: under client.rs; what this viewer says of itself and of its user when a connection
//! is opened.
//! It is the same on each connection, but for what happens to other viewers, which only the first
//! one says. Knows the values; never the hello's bytes.

use thinc_protocol::limits::INSTANCE_BYTES;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::viewer::KeyboardLayout;

use super::Opening;
use crate::gamma::GammaChoice;

/// What a connection's hello, and the messages directly behind it, say of this viewer.
#[derive(Debug)]
pub(super) struct HelloOptions {
    /// Instance number of this viewer, the same on each connection.
    instance: [u8; INSTANCE_BYTES],
    /// Layout of the local keyboard, if known.
    layout: Option<KeyboardLayout>,
    /// How good pictures that move are.
    quality: PictureQuality,
    gamma: GammaChoice,
    /// What the next connection does where the session is shown elsewhere; none once it was opened:
    /// then the viewer only reconnects.
    opening: Option<Opening>,
}

impl HelloOptions {
    pub(super) fn new(
        instance: [u8; INSTANCE_BYTES],
        opening: Opening,
        quality: PictureQuality,
        gamma: GammaChoice,
    ) -> HelloOptions {
        HelloOptions { instance, layout: None, quality, gamma, opening: Some(opening) }
    }

    pub(super) fn instance(&self) -> [u8; INSTANCE_BYTES] {
        self.instance
    }

    pub(super) fn layout(&self) -> Option<&KeyboardLayout> {
        self.layout.as_ref()
    }

    /// The keyboard has this layout now; false if it has it already.
    pub(super) fn set_layout(&mut self, layout: KeyboardLayout) -> bool {
        let changes = self.layout.as_ref() != Some(&layout);
        self.layout = Some(layout);
        changes
    }

    pub(super) fn quality(&self) -> PictureQuality {
        self.quality
    }

    /// The user has chosen how good pictures that move are.
    pub(super) fn set_quality(&mut self, quality: PictureQuality) {
        self.quality = quality;
    }

    /// Capabilities that say what happens to other viewers, and what the user wants shown.
    pub(super) fn caps(&self) -> u32 {
        self.opening.map_or(0, Opening::caps) | self.gamma.caps()
    }

    /// The user has chosen what happens to other viewers.
    pub(super) fn set_opening(&mut self, opening: Opening) {
        self.opening = Some(opening);
    }

    /// The session was opened: later connections close no viewers.
    pub(super) fn handle_opened(&mut self) {
        self.opening = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thinc_protocol::viewer::ViewerCaps;

    fn options(opening: Opening) -> HelloOptions {
        HelloOptions::new([1; INSTANCE_BYTES], opening, PictureQuality::Auto, GammaChoice::Off)
    }

    #[test]
    fn only_the_first_connection_takes_a_session_over_unless_the_user_wants_it_back() {
        let mut options = options(Opening::TakeOver);
        let takes_over = ViewerCaps::OPENS | ViewerCaps::TAKES_OVER;
        assert_eq!(options.caps(), takes_over);
        options.handle_opened();
        assert_eq!(options.caps(), 0);
        options.set_opening(Opening::TakeOver);
        assert_eq!(options.caps(), takes_over);
        assert_eq!(options.instance(), [1; INSTANCE_BYTES]);
    }

    #[test]
    fn each_connection_says_whether_colours_are_shown_as_the_session_wants() {
        for (gamma, caps) in [(GammaChoice::Session, ViewerCaps::GAMMA), (GammaChoice::Off, 0)] {
            let quality = PictureQuality::Auto;
            let mut options =
                HelloOptions::new([1; INSTANCE_BYTES], Opening::Default, quality, gamma);
            options.handle_opened();
            assert_eq!(options.caps(), caps);
        }
    }

    #[test]
    fn a_layout_is_told_when_it_changes() {
        let mut options = options(Opening::Default);
        let layout = |name: &str| crate::script::parse_layout(name).expect("a layout");
        assert!(options.set_layout(layout("us")) && !options.set_layout(layout("us")));
        assert!(options.set_layout(layout("de")));
        assert_eq!(options.layout(), Some(&layout("de")));
    }
}
