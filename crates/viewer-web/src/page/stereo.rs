//! Path back, beside page.rs: how stereo programs are shown, from web/engine/decoder.ts to
//! viewer-core. Knows numbers of modes; never pixels.

use thinc_viewer_core::{StereoMode, Viewer};

use super::Page;

impl Page {
    /// The number of a `StereoMode`, for this connection and later ones.
    pub(crate) fn choose_stereo(&mut self, number: u32) {
        // A browser has no buffer for each eye.
        let mode = StereoMode::of_number(number).filter(|&mode| mode != StereoMode::Quad);
        let Some(mode) = mode else { return };
        self.stereo = mode;
        if let Some(viewer) = &mut self.viewer {
            viewer.choose_stereo(mode);
        }
    }

    /// Whether the session takes the choice.
    pub(crate) fn takes_stereo(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::takes_stereo)
    }

    /// Whether a stereo program was shown in this connection.
    pub(crate) fn has_seen_stereo(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::has_seen_stereo)
    }
}
