//! Path back, beside keyboard.rs: what the window's shortcuts and its menu's choices do.
//! From mod.rs and menu.rs, to the window and client.rs. Knows who carries a command out; never the
//! keys that stand for it.

use std::time::Instant;

use super::App;
use super::people::PeoplePage;
use super::shortcuts::Command;

impl App<'_> {
    pub(super) fn handle_command(&mut self, command: Command) {
        match command {
            Command::Quit => self.quit = true,
            Command::Fullscreen => {
                let on = self.windows.front().window().fullscreen_state()
                    == sdl3::video::FullscreenType::Off;
                if let Err(error) = self.windows.front().presenter.window_mut().set_fullscreen(on) {
                    crate::error::report(format_args!("no fullscreen: {error}"));
                }
            }
            Command::Statistics => {
                self.statistics.toggle(Instant::now());
                self.drawing.redraw();
            }
            Command::LossyAreas => {
                self.drawing.toggle_lossy_marks();
            }
            Command::Grab => {
                let on = !self.typing.keyboard.is_grabbed();
                self.typing.keyboard.set_grab(self.windows.front().presenter.window_mut(), on);
            }
            Command::ModifiedButtons => {
                let words = self.pointing.toggle_modified_buttons();
                self.show_notice(words.to_owned());
            }
            Command::Menu => {
                if self.menus.is_open() {
                    self.menus.close();
                } else {
                    self.menus.open(None);
                }
                self.handle_menu_change();
            }
            Command::People => {
                self.menus.open(Some(PeoplePage::default()));
                self.handle_menu_change();
            }
            Command::Retry => self.client.retry_now(),
            Command::Mute => {
                let words = self.client.lock().toggle_mute();
                self.show_notice(words.to_owned());
            }
            Command::Volume(steps) => {
                let words = self.client.lock().change_volume(steps);
                self.show_notice(words);
            }
            Command::Capture => {
                let told = self.pointing.toggle_capture(&self.windows);
                self.tell_of_capture(told);
            }
            Command::Files(command) => self.handle_files(command),
            Command::Microphone => {
                let words = self.client.lock().toggle_microphone();
                self.show_notice(words.to_owned());
                self.channels.microphone.handle_news(true);
            }
            Command::Copying => {
                let words = self.client.lock().choose_copying();
                self.show_notice(words.to_owned());
            }
            Command::Quality => {
                let words = self.client.lock().choose_next_quality();
                self.show_notice(words);
            }
            Command::Stereo => {
                let words = self.client.lock().choose_next_stereo();
                self.show_notice(words);
            }
            Command::ExactFrame => {
                let words = self.client.lock().show_exactly();
                self.show_notice(words.to_owned());
            }
            Command::Zoom(_) | Command::Pan(..) if self.windows.has_displays() => {
                self.show_notice("Zoom needs a single window".to_owned());
            }
            Command::Zoom(step) => self.zoom(|zoom, seen, at| {
                if !zoom.is_in() {
                    zoom.set_centre(seen);
                }
                zoom.step(step, at)
            }),
            Command::Pan(x, y) => self.zoom(|zoom, seen, _| {
                zoom.pan((x, y), seen);
                true
            }),
        }
    }

    /// The menu was opened or closed by a shortcut.
    fn handle_menu_change(&mut self) {
        self.drawing.redraw();
        // The session must not keep Ctrl and Alt, which opened the menu, pressed.
        self.release_all();
        self.sync_locks();
    }
}
