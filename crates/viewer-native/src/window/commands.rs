//! Path back, beside keyboard.rs: what the window's shortcuts and its menu's choices do.
//! From mod.rs and menu.rs, to the window and client.rs. Knows who carries a command out; never the
//! keys that stand for it.

use std::time::Instant;

use super::App;
use super::menu::Menu;
use super::people::PeoplePage;
use super::shortcuts::Command;

impl App<'_> {
    pub(super) fn handle_command(&mut self, command: Command) {
        match command {
            Command::Quit => self.quit = true,
            Command::Fullscreen => {
                let on =
                    self.front().window().fullscreen_state() == sdl3::video::FullscreenType::Off;
                if let Err(error) = self.front().presenter.window_mut().set_fullscreen(on) {
                    crate::error::report(format_args!("no fullscreen: {error}"));
                }
            }
            Command::Statistics => {
                self.statistics = !self.statistics;
                self.statistics_at = Instant::now();
                self.redraw = true;
            }
            Command::LossyAreas => {
                self.marks_lossy = !self.marks_lossy;
                self.redraw = true;
            }
            Command::Grab => {
                let on = !self.keyboard.is_grabbed();
                self.keyboard.set_grab(self.panes[self.front].presenter.window_mut(), on);
            }
            Command::ModifiedButtons => {
                let words = self.modified_buttons.toggle();
                self.show_notice(words.to_owned());
            }
            Command::Menu => {
                let menu = self.menu.is_none().then(Menu::default);
                self.open_menu(menu, None);
            }
            Command::People => {
                self.open_menu(Some(Menu::default()), Some(PeoplePage::default()));
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
            Command::Capture => self.toggle_capture(),
            Command::Files(command) => self.handle_files(command),
            Command::Microphone => {
                let words = self.client.lock().toggle_microphone();
                self.show_notice(words.to_owned());
                self.has_microphone_news = true;
            }
            Command::Copying => {
                let words = self.client.lock().choose_copying();
                self.show_notice(words.to_owned());
            }
            Command::Zoom(_) | Command::Pan(..) if self.has_displays() => {
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

    /// Opens the menu, with a page of it, or closes it.
    fn open_menu(&mut self, menu: Option<Menu>, page: Option<PeoplePage>) {
        self.menu = menu;
        self.people_page = page;
        self.redraw = true;
        // The session must not keep Ctrl and Alt, which opened the menu, pressed.
        self.release_all();
        self.sync_locks();
    }
}
