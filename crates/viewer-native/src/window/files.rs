//! Path back, beside the pixels: files that are dropped on the window, and the questions about
//! those that the session sends, and about the microphone. From SDL's events and the viewer's
//! commands, to client.rs. Knows paths and words; never what is in a file.

use std::time::Instant;

use sdl3::keyboard::{Keycode, Mod};
use thinc_protocol::file::FilePurpose;

use super::shortcuts::{FilesCommand, answers_question};
use super::{App, drop_place};
use crate::client::State;

impl App<'_> {
    /// All files of a drop on this window are known.
    pub(super) fn send_drops(&mut self, window_id: u32) {
        let paths = self.channels.take_dropped();
        if paths.is_empty() {
            return;
        }
        let (x, y) = drop_place::newest();
        let purpose = match self.windows.screen_at(window_id, x, y) {
            Some((x, y)) => FilePurpose::Dropped { x, y },
            None => FilePurpose::Sent,
        };
        self.client.lock().send_files(paths, purpose);
    }

    /// What these keys answer, while something is asked.
    pub(super) fn answer_to_question(
        &self,
        keycode: Option<Keycode>,
        keymod: Mod,
    ) -> Option<FilesCommand> {
        self.questions.asked().and_then(|_| answers_question(keycode, keymod))
    }

    /// What the user is asked now.
    pub(super) fn ask(&mut self, state: &State) {
        let open = [state.microphone_question(), state.files_question()];
        self.drawing.redraw_if(self.questions.set(open, Instant::now()));
    }

    pub(super) fn handle_files(&mut self, command: FilesCommand) {
        let mut state = self.client.lock();
        if command != FilesCommand::Show && self.questions.asked().is_some() {
            let takes = command == FilesCommand::Take;
            // Otherwise the keys were for something else.
            if let Some(question) = self.questions.answered(Instant::now()) {
                if state.microphone_question().as_deref() == Some(question) {
                    state.answer_microphone(takes);
                } else {
                    state.answer_files(takes, question);
                }
            }
            return;
        }
        let words = match command {
            FilesCommand::Take => "The session sends no files".to_owned(),
            FilesCommand::Stop => {
                state.cancel_files();
                return;
            }
            FilesCommand::Show => {
                state.files_progress().unwrap_or_else(|| "No files are being sent".to_owned())
            }
        };
        drop(state);
        self.show_notice(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_chord_answers_a_question() {
        let chord = Mod::LCTRLMOD | Mod::LALTMOD;
        assert_eq!(answers_question(Some(Keycode::Y), chord), Some(FilesCommand::Take));
        assert_eq!(answers_question(Some(Keycode::X), chord), Some(FilesCommand::Stop));
        for keymod in [Mod::NOMOD, Mod::LCTRLMOD, Mod::LALTMOD, Mod::LSHIFTMOD] {
            assert_eq!(answers_question(Some(Keycode::Y), keymod), None);
        }
        assert_eq!(answers_question(Some(Keycode::Return), chord), None);
    }
}
