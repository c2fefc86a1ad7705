//! Path back: from the viewer's menu, to outbox.rs.
//! How good pictures that move are to be on one connection. Knows the choice and whether the
//! session takes it; never pixels.

use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::session::SessionCaps;
use thinc_protocol::viewer::ViewerMessage;

use crate::outbox::Outbox;
use crate::viewer::Viewer;

/// The choice of one connection.
#[derive(Debug, Default)]
pub(crate) struct QualityChoice {
    /// The session sends lossy pictures, and takes choices.
    is_on: bool,
    chosen: PictureQuality,
}

impl QualityChoice {
    /// The session's hello has these capabilities.
    pub(crate) fn handle_hello(&mut self, caps: u32, outbox: &mut Outbox) {
        self.is_on = caps & SessionCaps::QUALITY != 0;
        if self.chosen != PictureQuality::default() {
            self.tell(outbox);
        }
    }

    fn tell(&self, outbox: &mut Outbox) {
        if self.is_on {
            outbox.push(&ViewerMessage::PictureQuality(self.chosen));
        }
    }
}

impl Viewer {
    /// How good pictures that move are from now on. It is sent once the session has said that it
    /// takes choices.
    pub fn choose_quality(&mut self, quality: PictureQuality) {
        let state = &mut self.state;
        if state.quality.chosen != quality && !state.closed {
            state.quality.chosen = quality;
            state.quality.tell(&mut state.outbox);
        }
    }

    /// Requests what is shown now lossless, also while it moves. False if the session sends nothing
    /// lossy, or does not take the wish.
    pub fn request_exact_frame(&mut self) -> bool {
        let state = &mut self.state;
        let may = state.quality.is_on && !state.closed;
        if may {
            state.outbox.push(&ViewerMessage::ExactFrame);
        }
        may
    }

    /// True if the session would send videos with chroma of full resolution to a viewer that
    /// decodes it: it takes codecs beside H.264, and the person has chosen the high quality.
    pub fn wants_full_colour(&self) -> bool {
        let chosen = self.state.quality.chosen == PictureQuality::High;
        chosen && self.takes_quality() && self.takes_video_codecs()
    }

    /// True if the session takes choices of quality; else it sends nothing lossy, or is of an
    /// earlier version.
    pub fn takes_quality(&self) -> bool {
        self.state.quality.is_on
    }
}
