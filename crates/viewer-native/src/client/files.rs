//! Path beside the pixels, in both directions: under client.rs, between the window or the headless
//! viewer, viewer-core and ../files.rs. Knows the lock and whom to wake; never a path's content.
//! Transfers are those of `State::viewer`: a connection that is not established yet has none.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thinc_files_disk::{Disk, DiskAnswer, Folders};
use thinc_protocol::file::FilePurpose;

use super::{Shared, State};
use crate::printing::{self, Document, PrintChoice};

/// Messages about files that a script has not asked for.
const TOLD_MAX: usize = 16;

impl State {
    /// The user wants these files in the session.
    pub(crate) fn send_files(&mut self, paths: Vec<PathBuf>, purpose: FilePurpose) {
        let notice = self.files.send(paths, purpose);
        self.tell_of_files(notice);
    }

    /// What the user is asked of files.
    pub(crate) fn files_question(&self) -> Option<String> {
        self.files.question()
    }

    /// The user's answer to this question, if it is still asked.
    pub(crate) fn answer_files(&mut self, takes: bool, question: &str) {
        let now = self.clock.now();
        let notice = self.files.answer(takes, question, &mut self.viewers.shown, now);
        self.tell_of_files(notice);
    }

    /// The user wants no transfer of files any more.
    pub(crate) fn cancel_files(&mut self) {
        let now = self.clock.now();
        let notice = self.files.cancel(&mut self.viewers.shown, now);
        self.tell_of_files(notice);
    }

    /// How far transfers are, for the user.
    pub(crate) fn files_progress(&mut self) -> Option<String> {
        let now = self.clock.now();
        self.files.progress(&mut self.viewers.shown, now)
    }

    /// For the menu: whether this viewer's option switches off what goes to the session, and the
    /// transfers in progress.
    #[cfg(feature = "window")]
    pub(crate) fn files_side(&self) -> (bool, usize) {
        self.files.side()
    }

    /// What is done with what programs of the session print.
    #[cfg(feature = "window")]
    pub(crate) fn prints(&self) -> &PrintChoice {
        self.files.prints()
    }

    /// The session's hello has arrived.
    pub(super) fn begin_files(&mut self) {
        let now = self.clock.now();
        let notice = self.files.begin(&mut self.viewers.shown, now);
        self.tell_of_files(notice);
    }

    /// Carries out what viewer-core wants of the disk.
    pub(super) fn take_file_events(&mut self) {
        let now = self.clock.now();
        while let Some(event) = self.viewers.shown.poll_file_event() {
            let notice = self.files.handle(event, &mut self.viewers.shown, now);
            self.tell_of_files(notice);
        }
    }

    fn handle_disk(&mut self, answer: DiskAnswer) {
        let now = self.clock.now();
        let notice = self.files.handle_disk(answer, &mut self.viewers.shown, now);
        self.take_file_events();
        self.tell_of_files(notice);
    }

    /// The oldest message about files that was not taken, for scripts.
    pub(crate) fn take_told_of_files(&mut self) -> Option<String> {
        self.files.told.pop_front()
    }

    fn tell_of_files(&mut self, notice: Option<String>) {
        // Pieces of files are many, and the window draws nothing of them.
        self.news.files |= self.files.has_other_question();
        if let Some(text) = &notice {
            if self.files.told.len() == TOLD_MAX {
                self.files.told.pop_front();
            }
            self.files.told.push_back(text.clone());
        }
        self.news.tell(notice);
        self.flush();
    }
}

impl Shared {
    /// Starts the thread that reads and writes files.
    pub(super) fn start_disk(self: &Arc<Shared>) -> io::Result<()> {
        let shared = Arc::downgrade(self);
        let disk = Disk::start(Folders::from_environment()?, move |answer| {
            let Some(shared) = shared.upgrade() else { return false };
            let mut state = shared.lock();
            state.handle_disk(answer);
            let printed = state.files.take_printed();
            let wake = state.news.is_worth_waking();
            drop(state);
            if wake {
                shared.announce();
            }
            printed.into_iter().for_each(|(choice, document)| shared.print(choice, document));
            true
        })?;
        self.lock().files.set_disk(disk);
        Ok(())
    }

    /// Starts a thread that prints a document, and tells how that went.
    fn print(self: &Arc<Shared>, choice: PrintChoice, document: Document) {
        let shared = Arc::downgrade(self);
        let print = move || {
            let words = printing::carry_out(&choice, &document);
            let (Some(words), Some(shared)) = (words, shared.upgrade()) else { return };
            shared.lock().tell_of_files(Some(words));
            shared.announce();
        };
        let started = std::thread::Builder::new().name("print".to_owned()).spawn(print);
        if let Err(error) = started {
            self.lock().tell_of_files(Some(format!("Not printed: {error}")));
            self.announce();
        }
    }
}
