//! Path beside the pixels, in both directions: under actor.rs, between its events and files.rs.
//! Knows whose viewers are connected, and that what people are to be told of files is a notice.

use thinc_protocol::Micros;

use super::Actor;
use crate::connection::ConnectionId;
use crate::files::{FileViewer, FilesEvent};

impl Actor {
    pub(super) fn handle_files(&mut self, event: FilesEvent) {
        let (now, viewers) = (self.now(), self.file_viewers());
        match event {
            FilesEvent::Send(paths, notify, outcome) => {
                self.files.send(paths, notify, outcome, now);
            }
            FilesEvent::Print(event) => self.files.handle_print(event, &mut self.core, now),
            FilesEvent::GivenUp => self.files.enforce(&mut self.core, now),
            FilesEvent::Dropped(dropped) => self.files.handle_dropped(&dropped),
            FilesEvent::Disk(answer) => {
                self.files.handle_disk(answer, &mut self.core, &viewers, now);
            }
        }
    }

    /// Carries out what session-core wants of the disk, and tells people what has arrived.
    pub(super) fn serve_files(&mut self) {
        let now = self.now();
        if self.files.deadline().is_some_and(|at| at <= now) {
            self.files.enforce(&mut self.core, now);
        }
        // Most turns are not about files.
        if let Some((viewer, event)) = self.core.poll_file_event(now) {
            let viewers = self.file_viewers();
            self.files.handle_event(&mut self.core, &viewers, viewer, event, now);
            self.files.handle_events(&mut self.core, &viewers, now);
        }
        if self.files.has_waiting_prints() {
            let viewers = self.file_viewers();
            self.files.offer_prints(&mut self.core, &viewers, now);
        }
        while let Some(notice) = self.files.poll_notice() {
            // Names of a person's files are nothing for guests.
            for viewer in self.file_viewers().iter().filter(|viewer| viewer.is_owners) {
                self.core.notify_briefly(viewer.id, &notice);
            }
        }
    }

    /// The instance of a viewer is known.
    pub(super) fn files_viewer_came(&mut self, id: ConnectionId) {
        let now = self.now();
        if let Some(viewer) = self.file_viewer(id) {
            self.files.viewer_came(&mut self.core, viewer, now);
        }
    }

    pub(super) fn files_deadline(&self) -> Option<Micros> {
        self.files.deadline()
    }

    /// The viewers that are not being closed, the oldest first.
    fn file_viewers(&self) -> Vec<FileViewer> {
        self.connections.all_open().filter_map(|(id, _)| self.file_viewer(id)).collect()
    }

    fn file_viewer(&self, id: ConnectionId) -> Option<FileViewer> {
        let connection = self.connections.open(id)?;
        let id = connection.viewer?;
        Some(FileViewer {
            id,
            is_owners: connection.guest.is_none(),
            prints: self.core.prints(id),
            instance: connection.instance,
        })
    }
}
