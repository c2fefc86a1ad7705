//! Path beside the pixels: under session.rs, between the viewers' ends of the files channel and the
//! shell, which reads and writes the files. Knows whose end it is, and what the policy and a
//! viewer's rights allow; never a path or a disk.

use thinc_files::{Endpoint, FileEvent, FilesPolicy, Printing};
use thinc_protocol::Micros;
use thinc_protocol::file::FileMessage;

use super::Session;
use crate::viewer::{Viewer, ViewerId, Violation};

impl Session {
    /// How the session takes part in the transfer of files: `take` what viewers send, `give` what
    /// its programs send. Without this call, not at all.
    ///
    /// # Panics
    /// If there are viewers already: their hello depends on it.
    pub fn set_files(&mut self, policy: FilesPolicy) {
        assert!(
            self.viewers.is_empty(),
            "the policy of files is set before the first viewer connects"
        );
        self.files = policy;
    }

    /// A viewer's end of the files channel, for offers, answers and content; what it says is sent
    /// by `poll_transmit`. None if there is no such viewer.
    pub fn files(&mut self, id: ViewerId) -> Option<&mut Endpoint> {
        self.viewer_mut(id).map(|viewer| &mut viewer.channels.background.files)
    }

    /// True if this viewer is offered what programs print.
    pub fn prints(&self, id: ViewerId) -> bool {
        self.viewer(id).is_some_and(|viewer| {
            let policy = viewer.rights.files(self.files, viewer.channels.background.caps());
            policy.printing == Printing::Sends
        })
    }

    /// The viewer that typed last, if it is still connected.
    pub fn typed_last(&self) -> Option<ViewerId> {
        self.requests.keyboard.typed_last()
    }

    /// The number of the newest input of this viewer: it changes while somebody is there.
    pub fn newest_input(&self, id: ViewerId) -> Option<u32> {
        self.viewer(id).map(Viewer::input_received)
    }

    /// What the shell shall do next with files; to be polled after viewers' messages and at
    /// deadlines.
    pub fn poll_file_event(&mut self, now: Micros) -> Option<(ViewerId, FileEvent)> {
        self.now = self.now.max(now);
        for viewer in self.viewers.iter_mut() {
            let files = &mut viewer.channels.background.files;
            if files.poll_deadline().is_some_and(|at| at <= now) {
                files.handle_timeout(now);
            }
            if let Some(event) = files.poll_event() {
                return Some((viewer.id, event));
            }
        }
        None
    }

    pub(super) fn handle_file(
        &mut self,
        at: usize,
        message: &FileMessage,
        now: Micros,
    ) -> Result<(), Violation> {
        Ok(self.viewers[at].channels.background.files.handle(message, now)?)
    }
}
