//! Path back: under client.rs, from the window's menu and keys or a script, to viewer-core.
//! How stereo programs are shown: the user's choice, which holds for later connections too. Knows
//! choices and words; never pixels.

use thinc_viewer_core::StereoMode;

use super::State;

/// It is of an earlier version, or has no stereo.
#[cfg(feature = "window")]
const NO_STEREO: &str = "This session has no stereo";

/// The choice, and what the windows can show.
#[derive(Debug)]
pub(crate) struct StereoChoice {
    mode: StereoMode,
    /// Every window has a buffer for each eye.
    #[cfg(feature = "window")]
    has_quad: bool,
}

impl StereoChoice {
    pub(super) fn new(mode: StereoMode) -> StereoChoice {
        StereoChoice {
            mode,
            #[cfg(feature = "window")]
            has_quad: false,
        }
    }

    pub(super) fn mode(&self) -> StereoMode {
        self.mode
    }

    /// The choice that follows in the menu.
    #[cfg(feature = "window")]
    fn next(&self) -> StereoMode {
        let later = StereoMode::ALL.into_iter().skip(self.mode as usize + 1);
        let mut offered = later.filter(|&mode| mode != StereoMode::Quad || self.has_quad);
        offered.next().unwrap_or_default()
    }
}

impl State {
    /// The user has chosen this.
    pub(crate) fn choose_stereo(&mut self, mode: StereoMode) {
        self.stereo.mode = mode;
        self.viewers.choose_stereo(mode);
        self.flush();
    }

    /// How stereo programs are shown.
    #[cfg(feature = "window")]
    pub(crate) fn stereo(&self) -> StereoMode {
        self.stereo.mode
    }

    /// Sets whether every window has a buffer for each eye. If not, and the user wants that, one
    /// picture is shown; returns why, once.
    #[cfg(feature = "window")]
    pub(crate) fn set_quad(&mut self, has_quad: bool) -> Option<&'static str> {
        self.stereo.has_quad = has_quad;
        if has_quad || self.stereo.mode != StereoMode::Quad {
            return None;
        }
        self.choose_stereo(StereoMode::Off);
        Some("This display has no picture for each eye (quad-buffered stereo)")
    }

    /// Whether the menu offers the choice: stereo programs are rare.
    #[cfg(feature = "window")]
    pub(crate) fn offers_stereo(&self) -> bool {
        let viewer = self.viewer();
        self.stereo.mode.is_on() || viewer.takes_stereo() && viewer.has_seen_stereo()
    }

    /// Takes the choice that follows in the menu; returns it in words.
    #[cfg(feature = "window")]
    pub(crate) fn choose_next_stereo(&mut self) -> String {
        if self.is_connected() && !self.viewer().takes_stereo() {
            return NO_STEREO.to_owned();
        }
        let next = self.stereo.next();
        self.choose_stereo(next);
        format!("Stereo: {}", next.name())
    }
}

#[cfg(all(test, feature = "window"))]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_display_has_follow_each_other() {
        for (has_quad, expected) in [
            (false, &["anaglyph", "side-by-side", "interleaved", "off", "anaglyph"][..]),
            (true, &["anaglyph", "side-by-side", "interleaved", "quad", "off", "anaglyph"]),
        ] {
            let mut choice = StereoChoice { mode: StereoMode::Off, has_quad };
            for name in expected {
                choice.mode = choice.next();
                assert_eq!(choice.mode.name(), *name);
            }
        }
        // A window that has lost its buffers.
        let choice = StereoChoice { mode: StereoMode::Quad, has_quad: false };
        assert!(choice.next() != StereoMode::Quad);
    }
}
