//! Path beside the pixels: between an X server's selections and whoever carries them elsewhere.
//! CLIPBOARD and PRIMARY as one X client on a thread of its own: who owns them, what they hold, and owning them for others.
//! Knows X; never where contents come from or go to.
//!
//! Nothing is fetched before somebody asks, but the list of forms that each new owner has. What is owned for others is asked
//! for when a program pastes ([`XSelectionEvent::Wanted`]). Every wait has a deadline and every list a bound, since programs
//! hang, die in the middle, and paste without end.
#![forbid(unsafe_code)]

mod atoms;
mod copies;
mod fetch;
mod paste;
mod text;
mod worker;

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

/// What happened to the selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XSelectionEvent {
    /// A program owns the selection now, and has it in these formats; none: nobody does, or in no form known here.
    Owned {
        /// Which.
        selection: Selection,
        /// What [`XSelections::fetch`] may ask for.
        formats: ClipFormats,
        /// Calls of [`XSelections::own`] that came before it; see [`XSelections::is_stale`].
        after: u32,
    },
    /// A program pastes what [`XSelections::own`] said there is; [`XSelections::provide`] answers.
    Wanted {
        /// For the answer; never used twice.
        ticket: u32,
        /// Of which selection.
        selection: Selection,
        /// In which form.
        format: ClipFormat,
    },
    /// Whoever wanted it has gone.
    Unwanted {
        /// Of `Wanted`.
        ticket: u32,
    },
    /// What was fetched, or why it could not be.
    Content {
        /// Of [`XSelections::fetch`].
        id: u32,
        /// Text is UTF-8 with lines that end in LF, HTML is UTF-8.
        content: Result<Vec<u8>, ClipEnd>,
    },
    /// There is no connection to the X server any more, and why; nothing follows.
    Ended(String),
}

/// Why there is no X client, or no longer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XError {
    #[error("cannot connect to the X server: {0}")]
    Connect(#[from] ConnectError),
    #[error("the X server has gone: {0}")]
    Connection(#[from] ConnectionError),
    #[error("the X server refuses: {0}")]
    Reply(#[from] ReplyError),
    #[error("the X server refuses: {0}")]
    ReplyOrId(#[from] ReplyOrIdError),
    #[error("cannot wait for the X server: {0}")]
    Wait(#[from] rustix::io::Errno),
}

#[derive(Debug)]
pub(crate) enum Command {
    /// There is a wish, among [`Wishes`].
    Own(Selection),
    Provide(u32, Result<Vec<u8>, ClipEnd>),
    Fetch(u32, Selection, ClipFormat),
    Cancel(u32),
}

/// What reaches the client's thread.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) commands: Receiver<Command>,
    pub(crate) wishes: Arc<Wishes>,
    /// Readable where there is something new among them.
    pub(crate) woken: Arc<OwnedFd>,
}

/// Calls of [`XSelections::own`] for one selection.
#[derive(Debug, Default)]
struct Wish {
    calls: u32,
    /// Of the newest, until the client's thread takes it.
    formats: Option<ClipFormats>,
}

/// What is to be owned: of many wishes the newest counts, so that whoever makes them without end fills nothing.
#[derive(Debug, Default)]
pub(crate) struct Wishes([Mutex<Wish>; 2]);

impl Wishes {
    fn of(&self, selection: Selection) -> MutexGuard<'_, Wish> {
        self.0[selection as usize].lock().expect("no holder of this lock can panic")
    }

    /// True where none waits already.
    fn put(&self, selection: Selection, formats: ClipFormats) -> bool {
        let mut wish = self.of(selection);
        wish.calls = wish.calls.wrapping_add(1);
        wish.formats.replace(formats).is_none()
    }

    /// The newest, and how many calls there were.
    pub(crate) fn take(&self, selection: Selection) -> Option<(ClipFormats, u32)> {
        let mut wish = self.of(selection);
        Some((wish.formats.take()?, wish.calls))
    }
}

/// The X client. Dropping it ends its connection, and with it what it owned.
#[derive(Debug)]
pub struct XSelections {
    /// `None` only while it is dropped.
    commands: Option<Sender<Command>>,
    wake: Arc<OwnedFd>,
    wishes: Arc<Wishes>,
}

impl XSelections {
    /// Connects to a display (`None`: the environment's), and tells of what is owned there. Contents longer than
    /// `bytes_max` are not fetched. Events come on the client's own thread, which waits for the callback's end.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn start(
        display: Option<&str>,
        bytes_max: usize,
        on_event: impl FnMut(XSelectionEvent) + Send + 'static,
    ) -> std::io::Result<XSelections> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, commands) = channel();
        let wishes = Arc::new(Wishes::default());
        let inbox = Inbox { commands, wishes: wishes.clone(), woken: wake.clone() };
        let display = display.map(str::to_owned);
        thread::Builder::new().name("selections".to_owned()).spawn(move || {
            // Connected here: an X server that another client has grabbed answers when that lets go.
            worker::run(display.as_deref(), bytes_max, &inbox, Box::new(on_event));
        })?;
        Ok(XSelections { commands: Some(sender), wake, wishes })
    }

    /// Takes the selection over, with these formats to be had; none: gives it up, if it is owned here. Always tells other
    /// programs, even where the formats are as they were: there is something new to paste. Of calls that
    /// come faster than the X server answers the newest counts.
    pub fn own(&self, selection: Selection, formats: ClipFormats) {
        if self.wishes.put(selection, formats) {
            self.send(Command::Own(selection));
        }
    }

    /// `Owned` tells of a program from which the selection has been taken over since, by [`XSelections::own`].
    pub fn is_stale(&self, event: &XSelectionEvent) -> bool {
        matches!(event, XSelectionEvent::Owned { selection, after, .. }
            if *after != self.wishes.of(*selection).calls)
    }

    /// Answers `Wanted`. Whoever pastes is refused where there is no content.
    pub fn provide(&self, ticket: u32, content: Result<Vec<u8>, ClipEnd>) {
        self.send(Command::Provide(ticket, content));
    }

    /// Asks the selection's owner for its content; `Content` answers to `id`.
    pub fn fetch(&self, id: u32, selection: Selection, format: ClipFormat) {
        self.send(Command::Fetch(id, selection, format));
    }

    /// The content is no longer wanted; no `Content` answers, unless it is on its way.
    pub fn cancel(&self, id: u32) {
        self.send(Command::Cancel(id));
    }

    fn send(&self, command: Command) {
        // A thread that has ended said so by `Ended`.
        let _ = self.commands.as_ref().map(|commands| commands.send(command));
        self.wake();
    }

    fn wake(&self) {
        // Full is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
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
    fn of_wishes_without_end_the_newest_counts_and_one_command_waits() {
        let wishes = Wishes::default();
        let html = ClipFormats::NONE.with(ClipFormat::Html);
        let commands = (0..1000).filter(|_| wishes.put(Selection::Clipboard, ClipFormats::NONE)).count();
        assert!(!wishes.put(Selection::Clipboard, html));
        assert_eq!(commands, 1);
        assert_eq!(wishes.take(Selection::Primary), None);
        assert_eq!(wishes.take(Selection::Clipboard), Some((html, 1001)));
        assert_eq!(wishes.take(Selection::Clipboard), None);
        assert!(wishes.put(Selection::Clipboard, html), "the next one is told of");
    }
}
