//! Path beside the pixels, in both directions: between an X server's selections and the owner of
//! the clipboard channel.
//! CLIPBOARD and PRIMARY, as one X client on its own thread: who owns them, what they hold, and
//! owning them for others. Knows X; never where contents come from or go to.
//!
//! A drop on a window of the display is another client (drag.rs).
//!
//! Only the list of targets of a new owner is fetched unasked. What is owned for others is
//! requested when an application pastes ([`XSelectionEvent::Wanted`]). An owner that has text only
//! as HTML, or an image only as JPEG, BMP or TIFF, is reported with text or PNG; the content is
//! converted when it is fetched. Every wait has a deadline and every list a bound, because
//! applications hang, die during a transfer, and paste in loops.
#![forbid(unsafe_code)]

mod atoms;
mod conversions;
mod copies;
mod drag;
mod fetch;
mod files;
mod paste;
mod text;
mod worker;

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use thinc_files_disk::Folders;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

pub use drag::{DragError, Drags, DropTarget};

/// An event of the selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XSelectionEvent {
    /// An application owns the selection in these formats; with no format, nobody owns it, or only
    /// in formats unknown here.
    Owned {
        /// The selection.
        selection: Selection,
        /// Formats that [`XSelections::fetch`] may request.
        formats: ClipFormats,
        /// Calls of [`XSelections::own`] before the event; see [`XSelections::is_stale`].
        after: u32,
    },
    /// An application pastes what [`XSelections::own`] offered; [`XSelections::provide`] answers.
    Wanted {
        /// Number for the answer; never reused.
        ticket: u32,
        /// The selection that is pasted.
        selection: Selection,
        /// The format that the application wants.
        format: ClipFormat,
    },
    /// The application that wanted it has gone.
    Unwanted {
        /// The number of `Wanted`.
        ticket: u32,
    },
    /// The result of a fetch.
    Content {
        /// The number given to [`XSelections::fetch`].
        id: u32,
        /// Text is UTF-8 with lines that end in LF, HTML is UTF-8.
        content: Result<Vec<u8>, ClipEnd>,
    },
    /// The connection to the X server has ended, and why; no event follows.
    Ended(String),
}

/// Why the X client could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XError {
    #[error("cannot connect to the X server: {0}")]
    Connect(#[from] ConnectError),
    #[error("lost the connection to the X server: {0}")]
    Connection(#[from] ConnectionError),
    #[error("the X server refused a request: {0}")]
    Reply(#[from] ReplyError),
    #[error("the X server refused a request: {0}")]
    ReplyOrId(#[from] ReplyOrIdError),
    #[error("cannot wait for the X server: {0}")]
    Wait(#[from] rustix::io::Errno),
}

#[derive(Debug)]
pub(crate) enum Command {
    /// There is a request in [`OwnRequests`].
    Own(Selection),
    Provide(u32, Result<Vec<u8>, ClipEnd>),
    Fetch(u32, Selection, ClipFormat),
    Cancel(u32),
}

/// Input of the client's thread.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) commands: Receiver<Command>,
    pub(crate) own_requests: Arc<OwnRequests>,
    /// Readable if there is something new in them.
    pub(crate) woken: Arc<OwnedFd>,
}

/// Calls of [`XSelections::own`] for one selection.
#[derive(Debug, Default)]
struct OwnRequest {
    calls: u32,
    /// Formats of the newest call, until the client's thread takes them.
    formats: Option<ClipFormats>,
}

/// Requested ownership: only the newest call per selection is kept, so that a caller in a loop
/// fills nothing.
#[derive(Debug, Default)]
pub(crate) struct OwnRequests([Mutex<OwnRequest>; 2]);

impl OwnRequests {
    fn of(&self, selection: Selection) -> MutexGuard<'_, OwnRequest> {
        self.0[selection as usize].lock().expect("no holder of this lock can panic")
    }

    /// True if no request was pending.
    fn put(&self, selection: Selection, formats: ClipFormats) -> bool {
        let mut request = self.of(selection);
        request.calls = request.calls.wrapping_add(1);
        request.formats.replace(formats).is_none()
    }

    /// The newest request, and the count of calls.
    pub(crate) fn take(&self, selection: Selection) -> Option<(ClipFormats, u32)> {
        let mut request = self.of(selection);
        Some((request.formats.take()?, request.calls))
    }
}

/// The X client. Dropping it closes its connection, which gives up its selections.
#[derive(Debug)]
pub struct XSelections {
    /// `None` only while it is dropped.
    commands: Option<Sender<Command>>,
    wake: Arc<OwnedFd>,
    own_requests: Arc<OwnRequests>,
}

impl XSelections {
    /// Connects to a display (`None`: the environment's) and reports who owns the selections.
    /// Contents longer than `bytes_max` are not fetched. Files that are pasted are written into a
    /// folder of `folders`; without it files are not exchanged. The callback runs on the client's
    /// thread, which waits for it to return.
    ///
    /// # Errors
    /// The system has no more file descriptors or threads.
    pub fn start(
        display: Option<&str>,
        bytes_max: usize,
        folders: Option<Folders>,
        on_event: impl FnMut(XSelectionEvent) + Send + 'static,
    ) -> std::io::Result<XSelections> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, commands) = channel();
        let own_requests = Arc::new(OwnRequests::default());
        let inbox = Inbox { commands, own_requests: own_requests.clone(), woken: wake.clone() };
        let display = display.map(str::to_owned);
        thread::Builder::new().name("selections".to_owned()).spawn(move || {
            // Connects on this thread: an X server that another X client has grabbed answers
            // only when the grab ends.
            worker::run(display.as_deref(), bytes_max, folders, &inbox, Box::new(on_event));
        })?;
        Ok(XSelections { commands: Some(sender), wake, own_requests })
    }

    /// Owns the selection in these formats; with no format, gives it up if it is owned here. Other
    /// applications are always notified, even if the formats have not changed, because the content
    /// has. Of calls faster than the X server answers only the newest counts.
    pub fn own(&self, selection: Selection, formats: ClipFormats) {
        if self.own_requests.put(selection, formats) {
            self.send(Command::Own(selection));
        }
    }

    /// True if `Owned` reports an application whose ownership a later [`XSelections::own`] has
    /// replaced.
    pub fn is_stale(&self, event: &XSelectionEvent) -> bool {
        matches!(event, XSelectionEvent::Owned { selection, after, .. }
            if *after != self.own_requests.of(*selection).calls)
    }

    /// Answers `Wanted`. Without a content, the pasting application is refused.
    pub fn provide(&self, ticket: u32, content: Result<Vec<u8>, ClipEnd>) {
        self.send(Command::Provide(ticket, content));
    }

    /// Fetches the content from the selection's owner; `Content` answers to `id`.
    pub fn fetch(&self, id: u32, selection: Selection, format: ClipFormat) {
        self.send(Command::Fetch(id, selection, format));
    }

    /// Cancels a fetch; no `Content` answers, unless it is already queued.
    pub fn cancel(&self, id: u32) {
        self.send(Command::Cancel(id));
    }

    fn send(&self, command: Command) {
        // A thread that has ended has reported `Ended`.
        let _ = self.commands.as_ref().map(|commands| commands.send(command));
        self.wake();
    }

    fn wake(&self) {
        wake(&self.wake);
    }
}

/// Wakes the client's thread.
pub(crate) fn wake(thread: &OwnedFd) {
    // If the counter is full, the thread is awake anyway.
    let _ = rustix::io::write(thread, &1u64.to_ne_bytes());
}

impl Drop for XSelections {
    fn drop(&mut self) {
        self.commands = None;
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_requests_the_newest_is_kept_and_one_command_is_queued() {
        let own_requests = OwnRequests::default();
        let html = ClipFormats::NONE.with(ClipFormat::Html);
        let commands =
            (0..1000).filter(|_| own_requests.put(Selection::Clipboard, ClipFormats::NONE)).count();
        assert!(!own_requests.put(Selection::Clipboard, html));
        assert_eq!(commands, 1);
        assert_eq!(own_requests.take(Selection::Primary), None);
        assert_eq!(own_requests.take(Selection::Clipboard), Some((html, 1001)));
        assert_eq!(own_requests.take(Selection::Clipboard), None);
        assert!(own_requests.put(Selection::Clipboard, html), "the next one is a new request");
    }
}
