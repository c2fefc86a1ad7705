//! Path beside the pixels: between viewer-core's end of the clipboard's channel and the desktop that the viewer runs on.
//! Who owns each selection, what each side has asked of the other, and what a person is told where it does not come.
//! Knows numbers and formats; X and SDL are behind [`Desktop`], contents pass through unread.
//!
//! Nothing travels before somebody pastes. What is asked for when the connection is lost is asked for again once the session
//! is back and still has it; whoever wants it here waits as long as the desktop lets it.

pub(crate) mod board;

use std::collections::HashMap;
use std::fmt::Debug;

use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_viewer_core::{Viewer, ViewerEvent};

/// 64: programs of the desktop that wait for a content; more are refused. viewer-core asks for eight at a time.
const PASTES_MAX: usize = 64;

/// The desktop's selections. Called by the client's threads under their lock: nothing here may wait.
pub trait Desktop: Debug + Send {
    /// Owns the selection for the session, in these formats; none: gives it up.
    fn own(&mut self, selection: Selection, formats: ClipFormats);
    /// Answers [`DesktopEvent::Wanted`].
    fn provide(&mut self, ticket: u32, content: Result<Vec<u8>, ClipEnd>);
    /// Asks the selection's owner. What is at hand is given at once, else [`DesktopEvent::Content`] answers.
    fn fetch(&mut self, id: u32, selection: Selection, format: ClipFormat) -> Option<Result<Vec<u8>, ClipEnd>>;
    /// What was to be fetched is no longer wanted.
    fn cancel(&mut self, id: u32);
}

/// What happened to the desktop's selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesktopEvent {
    /// A program owns the selection; said once for each at the beginning, with no formats where nobody does.
    Owned {
        /// Which.
        selection: Selection,
        /// What there is to have.
        formats: ClipFormats,
        /// Calls of [`Desktop::own`] for this selection that came before: one that the desktop had not seen yet is the newer.
        after: u32,
    },
    /// A program pastes what the session owns.
    Wanted {
        /// For the answer.
        ticket: u32,
        /// Of which selection.
        selection: Selection,
        /// In which form.
        format: ClipFormat,
    },
    /// It has gone, or waits no longer.
    Unwanted {
        /// Of `Wanted`.
        ticket: u32,
    },
    /// Answers [`Desktop::fetch`].
    Content {
        /// Its number.
        id: u32,
        /// What was copied, or why it cannot be had.
        content: Result<Vec<u8>, ClipEnd>,
    },
    /// The desktop has gone.
    Ended(String),
}

/// One selection: of the two sides at most one owns it.
#[derive(Clone, Copy, Debug, Default)]
struct Ownership {
    /// What the session offers.
    session: ClipFormats,
    /// What the desktop has of its own; `None` while that is not known.
    desktop: Option<ClipFormats>,
    /// Calls of [`Desktop::own`].
    owns: u32,
}

/// A program of the desktop that waits for what the session owns.
#[derive(Clone, Copy, Debug)]
struct Paste {
    ticket: u32,
    selection: Selection,
    format: ClipFormat,
    /// viewer-core's number, once it was asked for.
    request: Option<u32>,
}

/// What joins the two sides.
#[derive(Debug, Default)]
pub(crate) struct Clipboard {
    desktop: Option<Box<dyn Desktop>>,
    selections: [Ownership; 2],
    pastes: Vec<Paste>,
    /// What the desktop was asked for: its number → viewer-core's.
    fetches: HashMap<u32, u32>,
    last_fetch: u32,
}

impl Clipboard {
    /// There is a desktop; it says first what its selections hold.
    pub(crate) fn attach(&mut self, desktop: Box<dyn Desktop>) {
        self.desktop = Some(desktop);
        for ownership in &mut self.selections {
            (ownership.desktop, ownership.owns) = (None, 0);
        }
    }

    /// A connection begins: what the desktop has is offered. What the session has it says itself.
    pub(crate) fn begin(&mut self, viewer: &mut Viewer) {
        self.fetches.clear();
        for paste in &mut self.pastes {
            paste.request = None;
        }
        for selection in Selection::ALL {
            let ownership = &mut self.selections[selection as usize];
            ownership.session = ClipFormats::NONE;
            if let Some(formats) = ownership.desktop.filter(|formats| !formats.is_empty()) {
                viewer.offer_clipboard(selection, formats);
            }
        }
    }

    /// One of viewer-core's events about clipboards; gives what a person is to be told.
    pub(crate) fn handle(&mut self, event: ViewerEvent, viewer: &mut Viewer, now: Micros) -> Option<String> {
        let mut notice = None;
        match event {
            ViewerEvent::ClipOffer { selection, formats } => {
                let ownership = &mut self.selections[selection as usize];
                ownership.session = formats;
                // Where it is not known yet what the desktop has of its own, that decides when it is.
                if ownership.desktop.is_some() {
                    self.own(selection);
                }
                // Those who waited over a loss of the connection, for what the session does not have any more.
                let lacks = |paste: &Paste| {
                    paste.selection == selection && paste.request.is_none() && !formats.has(paste.format)
                };
                for paste in self.pastes.extract_if(.., |paste| lacks(paste)) {
                    if let Some(desktop) = &mut self.desktop {
                        desktop.provide(paste.ticket, Err(ClipEnd::Gone));
                    }
                }
            }
            ViewerEvent::ClipWanted { id, selection, format } => match &mut self.desktop {
                Some(desktop) => {
                    self.last_fetch = self.last_fetch.wrapping_add(1);
                    match desktop.fetch(self.last_fetch, selection, format) {
                        Some(content) => viewer.provide_clipboard(id, content, now),
                        None => drop(self.fetches.insert(self.last_fetch, id)),
                    }
                }
                None => viewer.provide_clipboard(id, Err(ClipEnd::Gone), now),
            },
            ViewerEvent::ClipReceived { id, content } => self.answer(id, Ok(content)),
            ViewerEvent::ClipEnded { id, why } if self.pastes.iter().any(|paste| paste.request == Some(id)) => {
                notice = reason(why).map(|words| format!("Not pasted: {words}"));
                self.answer(id, Err(why));
            }
            ViewerEvent::ClipEnded { id, why } => {
                notice = reason(why).map(|words| format!("Not pasted into the session: {words}"));
                let fetch = self.fetches.iter().find(|&(_, wanted)| *wanted == id).map(|(&fetch, _)| fetch);
                if let (Some(fetch), Some(desktop)) = (fetch, &mut self.desktop) {
                    self.fetches.remove(&fetch);
                    desktop.cancel(fetch);
                }
            }
            other => unreachable!("{other:?} is no event of a clipboard"),
        }
        self.ask(viewer, now);
        notice
    }

    /// Something happened on the desktop. `connected`: there is a session to ask.
    pub(crate) fn handle_desktop(
        &mut self,
        event: DesktopEvent,
        viewer: &mut Viewer,
        connected: bool,
        now: Micros,
    ) -> Option<String> {
        match event {
            DesktopEvent::Owned { selection, formats, after } => {
                let ownership = &mut self.selections[selection as usize];
                if after != ownership.owns {
                    return None;
                }
                let first = ownership.desktop.replace(formats).is_none();
                if !formats.is_empty() {
                    ownership.session = ClipFormats::NONE;
                    viewer.offer_clipboard(selection, formats);
                } else if first {
                    self.own(selection);
                } else {
                    viewer.offer_clipboard(selection, formats);
                }
            }
            DesktopEvent::Wanted { ticket, selection, format } => {
                let offered = self.selections[selection as usize].session.has(format);
                // Without a connection it may be back before whoever pastes has lost patience.
                if (connected && !offered) || self.pastes.len() >= PASTES_MAX {
                    if let Some(desktop) = &mut self.desktop {
                        desktop.provide(ticket, Err(ClipEnd::Gone));
                    }
                    return None;
                }
                self.pastes.push(Paste { ticket, selection, format, request: None });
                self.ask(viewer, now);
            }
            DesktopEvent::Unwanted { ticket } => {
                let gone = self.pastes.extract_if(.., |paste| paste.ticket == ticket);
                gone.filter_map(|paste| paste.request).for_each(|request| viewer.cancel_clipboard(request));
            }
            DesktopEvent::Content { id, content } => {
                let id = self.fetches.remove(&id)?;
                let notice = match &content {
                    Err(why) => reason(*why).map(|words| format!("Not pasted into the session: {words}")),
                    Ok(_) => None,
                };
                viewer.provide_clipboard(id, content, now);
                return notice;
            }
            DesktopEvent::Ended(_) => {
                self.desktop = None;
                self.pastes.clear();
                for id in std::mem::take(&mut self.fetches).into_values() {
                    viewer.provide_clipboard(id, Err(ClipEnd::Gone), now);
                }
                for selection in Selection::ALL {
                    self.selections[selection as usize].desktop = None;
                    viewer.offer_clipboard(selection, ClipFormats::NONE);
                }
            }
        }
        None
    }

    /// What the session offers.
    pub(crate) fn offered(&self, selection: Selection) -> ClipFormats {
        self.selections[selection as usize].session
    }

    /// The desktop's programs see what the session offers, or no longer.
    fn own(&mut self, selection: Selection) {
        let (ownership, Some(desktop)) = (&mut self.selections[selection as usize], &mut self.desktop) else { return };
        if !ownership.session.is_empty() {
            ownership.desktop = Some(ClipFormats::NONE);
        } else if ownership.desktop != Some(ClipFormats::NONE) || ownership.owns == 0 {
            // It is the desktop's, or nobody's: there is nothing to give up.
            return;
        }
        ownership.owns += 1;
        desktop.own(selection, ownership.session);
    }

    /// Asks the session for what is waited for and was not asked for yet.
    fn ask(&mut self, viewer: &mut Viewer, now: Micros) {
        for paste in self.pastes.iter_mut().filter(|paste| paste.request.is_none()) {
            if self.selections[paste.selection as usize].session.has(paste.format) {
                paste.request = viewer.request_clipboard(paste.selection, paste.format, now);
            }
        }
    }

    fn answer(&mut self, request: u32, content: Result<Vec<u8>, ClipEnd>) {
        let Some(at) = self.pastes.iter().position(|paste| paste.request == Some(request)) else { return };
        let paste = self.pastes.swap_remove(at);
        if let Some(desktop) = &mut self.desktop {
            desktop.provide(paste.ticket, content);
        }
    }
}

/// Why a content did not come, for a person; none where nobody need know.
pub(crate) fn reason(why: ClipEnd) -> Option<String> {
    match why {
        ClipEnd::Cancelled | ClipEnd::Gone => None,
        ClipEnd::TooLarge { bytes: 0, limit } => Some(format!("it is longer than the limit of {}", size(limit))),
        ClipEnd::TooLarge { bytes, limit } => Some(format!("it has {}, and {} is the limit", size(bytes), size(limit))),
        ClipEnd::Failed => Some("the program that copied it did not give it".to_owned()),
    }
}

/// In the unit that `--clipboard-max` takes, rounded up.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => {
            let tenths = (bytes * 10).div_ceil(1 << 20);
            if tenths.is_multiple_of(10) {
                format!("{} MiB", tenths / 10)
            } else {
                format!("{}.{} MiB", tenths / 10, tenths % 10)
            }
        }
    }
}
