//! Path beside the pixels: under session.rs, from the shell's X client, to clipboard.rs.
//! What the shell reports about the X server's selections, and what it shall do with them. Knows
//! when to call the `ClipboardHub` of ../clipboard.rs, which knows the owners.

use thinc_clipboard::ClipboardPolicy;
use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};

use super::Session;
use crate::clipboard::{ClipRequest, ClipboardHub};
use crate::viewer::Violation;

impl Session {
    /// How the session takes part in the clipboard: `take` what viewers offer, `give` what its
    /// programs offer. Without this call, not at all.
    ///
    /// # Panics
    /// If there are viewers already: their hello depends on it.
    pub fn set_clipboard(&mut self, policy: ClipboardPolicy) {
        assert!(
            self.viewers.is_empty(),
            "the clipboard's policy is set before the first viewer connects"
        );
        self.clipboard = ClipboardHub::new(policy);
    }

    /// A program owns the selection, in these formats; without formats, nobody does.
    pub fn handle_clip_owned(&mut self, selection: Selection, formats: ClipFormats) {
        self.clipboard.owned(selection, formats, self.viewers.all_mut());
    }

    /// A program pastes what the session owns for a viewer; [`ClipRequest::Provide`] answers.
    pub fn handle_clip_wanted(
        &mut self,
        ticket: u32,
        selection: Selection,
        format: ClipFormat,
        now: Micros,
    ) {
        self.clipboard.wanted(ticket, selection, format, self.viewers.all_mut(), now);
    }

    /// The program that wanted it is gone.
    pub fn handle_clip_unwanted(&mut self, ticket: u32) {
        self.clipboard.unwanted(ticket, self.viewers.all_mut());
    }

    /// Answers [`ClipRequest::Fetch`].
    pub fn handle_clip_content(&mut self, id: u32, content: Result<Vec<u8>, ClipEnd>, now: Micros) {
        self.clipboard.content(id, content, self.viewers.all_mut(), now);
        self.clipboard.handle_events(self.viewers.all_mut(), now);
    }

    /// What the shell shall do next with the X server's selections; to be polled after viewers'
    /// messages and at deadlines.
    pub fn poll_clip(&mut self, now: Micros) -> Option<ClipRequest> {
        if self
            .viewers
            .iter()
            .any(|viewer| viewer.channels.clipboard.poll_deadline().is_some_and(|at| at <= now))
        {
            self.viewers
                .iter_mut()
                .for_each(|viewer| viewer.channels.clipboard.handle_timeout(now));
            self.clipboard.handle_events(self.viewers.all_mut(), now);
        }
        self.clipboard.poll()
    }

    pub(super) fn handle_clip(
        &mut self,
        at: usize,
        message: &ClipMessage,
        now: Micros,
    ) -> Result<(), Violation> {
        let taken = self.viewers[at].channels.clipboard.handle(message, now);
        self.clipboard.handle_events(self.viewers.all_mut(), now);
        Ok(taken?)
    }
}
