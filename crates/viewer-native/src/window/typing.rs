//! Path back, over keyboard.rs: the keys of the windows, with what SDL knows of the keyboard and
//! the text that input methods compose. Knows windows; never the session.

use sdl3::keyboard::{KeyboardUtil, Mod, TextInputUtil};
use sdl3::video::Window;

use super::keyboard::{Keyboard, TextInput};

/// The keyboard, and where its text goes.
pub(super) struct Typing {
    pub(super) keyboard: Keyboard,
    util: KeyboardUtil,
    text: TextInputUtil,
    /// SDL sends the text of keys after them.
    text_follows: bool,
}

impl Typing {
    /// `modifiers`: XMODIFIERS of the environment.
    pub(super) fn new(
        driver: &str,
        modifiers: Option<&str>,
        util: KeyboardUtil,
        text: TextInputUtil,
    ) -> Typing {
        let text_follows = text_follows_keys(driver, modifiers);
        Typing { keyboard: Keyboard::new(driver), util, text, text_follows }
    }

    /// Starts text input in this window, if text follows keys.
    pub(super) fn start(&mut self, window: &Window) {
        if self.text_follows {
            self.text.start(window);
            self.keyboard.set_texts(TextInput::Follow);
        }
    }

    /// The list of candidates opens at this point of the window.
    pub(super) fn compose_at(&self, window: &Window, x: f32, y: f32) {
        self.text.set_rect(window, sdl3::rect::Rect::new(x as i32, y as i32, 1, 20), 0);
    }

    /// The modifiers and locks that are on.
    pub(super) fn modifiers(&self) -> Mod {
        self.util.mod_state()
    }

    /// The number of the window that has the focus, if it is one of this program's.
    pub(super) fn focused_window(&self) -> Option<u32> {
        self.util.focused_window_id()
    }
}

/// Whether text follows keys: from the Wayland compositor, or from a configured X input method.
/// Without one, Xlib would compose dead keys itself, as the session's applications do.
fn text_follows_keys(driver: &str, xmodifiers: Option<&str>) -> bool {
    let method =
        xmodifiers.and_then(|words| words.split('@').find_map(|word| word.strip_prefix("im=")));
    driver == "wayland" || method.is_some_and(|method| !["", "none", "local"].contains(&method))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_follows_keys_where_something_composes_it() {
        assert!(text_follows_keys("wayland", None));
        assert!(text_follows_keys("x11", Some("@im=ibus")));
        for none in [None, Some(""), Some("@im="), Some("@im=none"), Some("@im=local")] {
            assert!(!text_follows_keys("x11", none), "{none:?}");
        }
    }
}
