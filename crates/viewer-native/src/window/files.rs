//! Path back, beside the pixels: files that are dropped on the window, and the questions about
//! those that the session sends, and about the microphone. From SDL's events and the viewer's
//! commands, to client.rs. Knows paths and words; never what is in a file.

use std::time::{Duration, Instant};

use sdl3::keyboard::{Keycode, Mod};
use thinc_protocol::file::FilePurpose;
use thinc_region::Size;

use super::shortcuts::{FilesCommand, answers_question};
use super::{App, drop_place};
use crate::client::State;
use crate::overlay::Panel;

/// Half a second: nobody reads a question and answers it sooner.
const ANSWER_TIME_MIN: Duration = Duration::from_millis(500);

impl App<'_> {
    /// All files of a drop on this window are known.
    pub(super) fn send_drops(&mut self, window_id: u32) {
        let paths = std::mem::take(&mut self.drops);
        if paths.is_empty() {
            return;
        }
        let (x, y) = drop_place::newest();
        let purpose = match self.screen_at(window_id, x, y) {
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
        self.question.as_ref().and_then(|_| answers_question(keycode, keymod))
    }

    /// What the user is asked now. A question that is shown stays until it is answered, so that
    /// nobody answers another one.
    pub(super) fn ask(&mut self, state: &State) {
        let questions = [state.microphone_question(), state.files_question()];
        let is_shown = |question: &&Option<String>| **question == self.question;
        let shown = questions.iter().find(is_shown).cloned().flatten();
        let question = shown.or_else(|| questions.into_iter().flatten().next());
        if question != self.question {
            (self.question, self.asked_at) = (question, Instant::now());
            self.redraw = true;
        }
    }

    pub(super) fn handle_files(&mut self, command: FilesCommand) {
        let mut state = self.client.lock();
        if let Some(question) = self.question.as_ref().filter(|_| command != FilesCommand::Show) {
            let takes = command == FilesCommand::Take;
            if self.asked_at.elapsed() < ANSWER_TIME_MIN {
                // The keys were for something else.
            } else if self.question == state.microphone_question() {
                state.answer_microphone(takes);
            } else {
                state.answer_files(takes, question);
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

    /// The question, where it hides the least of what the user does.
    pub(super) fn draw_question(&mut self, window: Size, dot: u32) {
        let Some(question) = self.question.as_ref().filter(|_| self.message.is_none()) else {
            return;
        };
        let panel = Panel::draw_within(question, dot * 2, window.width);
        let x = (window.width as i32 - panel.size.width as i32).max(0) / 2;
        let y = (window.height as i32 - panel.size.height as i32).max(0) / 4;
        self.panels.push((panel, x, y));
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
