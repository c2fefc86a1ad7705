//! Path beside the pixels: the desktop of a headless viewer, for scripts and tests.
//! Holds what a script copied, provides it to the session, and keeps what the session sent until
//! the script takes it. Knows contents by selection and format; never files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};

use super::{Desktop, DesktopEvent};

/// A script's clipboard; one handle is the client's desktop, the other the script's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    copied: HashMap<(Selection, ClipFormat), Vec<u8>>,
    /// Calls of `own` for each selection.
    owns: [u32; 2],
    pasted: HashMap<u32, Result<Vec<u8>, ClipEnd>>,
    last_ticket: u32,
}

impl Board {
    /// Copies a content: it replaces the selection, or adds a format if `more`. Returns the event
    /// for the client.
    pub(crate) fn copy(
        &self,
        selection: Selection,
        format: ClipFormat,
        content: Vec<u8>,
        more: bool,
    ) -> DesktopEvent {
        let mut inner = self.inner();
        if !more {
            inner.copied.retain(|(other, _), _| *other != selection);
        }
        inner.copied.insert((selection, format), content);
        inner.owned(selection)
    }

    /// The event that a desktop reports first.
    pub(crate) fn owned(&self, selection: Selection) -> DesktopEvent {
        self.inner().owned(selection)
    }

    /// Starts to paste: returns the ticket and the event for the client.
    pub(crate) fn paste(&self, selection: Selection, format: ClipFormat) -> (u32, DesktopEvent) {
        let mut inner = self.inner();
        inner.last_ticket += 1;
        let ticket = inner.last_ticket;
        (ticket, DesktopEvent::Wanted { ticket, selection, format })
    }

    /// The content received for this ticket.
    pub(crate) fn pasted(&self, ticket: u32) -> Option<Result<Vec<u8>, ClipEnd>> {
        self.inner().pasted.remove(&ticket)
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock can panic")
    }
}

impl Inner {
    fn owned(&self, selection: Selection) -> DesktopEvent {
        let formats = self
            .copied
            .keys()
            .filter(|(copied, _)| *copied == selection)
            .map(|(_, format)| *format);
        let after = self.owns[selection as usize];
        DesktopEvent::Owned { selection, formats: formats.collect::<ClipFormats>(), after }
    }
}

impl Desktop for Board {
    fn own(&mut self, selection: Selection, _: ClipFormats) {
        let mut inner = self.inner();
        inner.owns[selection as usize] += 1;
        inner.copied.retain(|(copied, _), _| *copied != selection);
    }

    fn provide(&mut self, ticket: u32, content: Result<Vec<u8>, ClipEnd>) {
        self.inner().pasted.insert(ticket, content);
    }

    fn fetch(
        &mut self,
        _: u32,
        selection: Selection,
        format: ClipFormat,
    ) -> Option<Result<Vec<u8>, ClipEnd>> {
        Some(self.inner().copied.get(&(selection, format)).cloned().ok_or(ClipEnd::Unavailable))
    }

    fn cancel(&mut self, _: u32) {}

    fn is_a_persons(&self) -> bool {
        false
    }
}
