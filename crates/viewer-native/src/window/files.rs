//! Path back, beside the pixels: files that are dropped on the window, and the question about those
//! that the session sends. From SDL's events and the viewer's commands, to client.rs. Knows paths
//! and words; never what is in a file.

use super::App;

impl App<'_> {
    /// All files of a drop are known.
    pub(super) fn send_drops(&mut self) {
        let paths = std::mem::take(&mut self.drops);
        if !paths.is_empty() {
            self.client.lock().send_files(paths);
        }
    }

    /// The user wants the files that the session sends.
    pub(super) fn take_files(&mut self) {
        if self.question.is_some() {
            self.client.lock().answer_files(true);
        } else {
            self.show_notice("The session sends no files".to_owned());
        }
    }

    /// The user does not want them, or no transfer any more.
    pub(super) fn stop_files(&mut self) {
        let mut state = self.client.lock();
        if self.question.is_some() { state.answer_files(false) } else { state.cancel_files() }
    }

    pub(super) fn show_files(&mut self) {
        let progress = self.client.lock().files_progress();
        self.show_notice(progress.unwrap_or_else(|| "No files are being sent".to_owned()));
    }
}
