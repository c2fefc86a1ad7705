//! Path beside the pixels: between viewer-core's end of the clipboard channel and the viewer's
//! desktop.
//! Who owns each selection, what each side has requested of the other, and which failures the user
//! is told. Knows numbers and formats; X and SDL are behind [`Desktop`], contents pass through
//! unread.
//!
//! Nothing is transferred before somebody pastes. What a person copied here leaves only within a
//! moment after that person pressed something in the viewer: a session can ask at any time, and no
//! viewer can see whether somebody pastes there. A request made while the connection is lost is
//! sent once the session has reconnected and still offers the content; the pasting application
//! waits as long as the desktop permits.

pub(crate) mod board;

use std::collections::HashMap;
use std::fmt::Debug;

use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_viewer_core::{Viewer, ViewerEvent};

/// 64: pastes of local applications that wait for a content; more are refused. viewer-core requests
/// eight at a time.
const PASTES_MAX: usize = 64;

/// 5 s: how long after a press a session may request what is copied here: the press travels there
/// (a satellite's round trip is 0.7 s), and a busy application takes its time. Any press counts,
/// for one pastes with keys, the middle button, a menu or a finger.
const PASTE_AFTER_PRESS_MAX: Micros = 5_000_000;

/// The desktop's selections. The client's threads call it under their lock: it must not block.
pub(crate) trait Desktop: Debug + Send {
    /// Owns the selection for the session in these formats; with no format, gives it up.
    fn own(&mut self, selection: Selection, formats: ClipFormats);
    /// Answers [`DesktopEvent::Wanted`].
    fn provide(&mut self, ticket: u32, content: Result<Vec<u8>, ClipEnd>);
    /// Fetches the content from the selection's owner: returned at once if available, otherwise
    /// [`DesktopEvent::Content`] answers.
    fn fetch(
        &mut self,
        id: u32,
        selection: Selection,
        format: ClipFormat,
    ) -> Option<Result<Vec<u8>, ClipEnd>>;
    /// Cancels a fetch.
    fn cancel(&mut self, id: u32);
    /// Whether a person copies there, for other programs too; else what is copied is for the
    /// session.
    fn is_a_persons(&self) -> bool;
}

/// An event of the desktop's selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DesktopEvent {
    /// An application owns the selection; reported once for each at the start, with no format if
    /// unowned.
    Owned {
        /// The selection.
        selection: Selection,
        /// The formats offered.
        formats: ClipFormats,
        /// Calls of [`Desktop::own`] for this selection before the event; if there was another
        /// since, that is newer.
        after: u32,
    },
    /// An application pastes the session's selection.
    Wanted {
        /// Number for the answer.
        ticket: u32,
        /// The selection that is pasted.
        selection: Selection,
        /// The format that the application wants.
        format: ClipFormat,
    },
    /// The application has gone or waits no longer.
    Unwanted {
        /// The number of `Wanted`.
        ticket: u32,
    },
    /// Answers [`Desktop::fetch`].
    Content {
        /// The fetch's number.
        id: u32,
        /// The content, or why it is unavailable.
        content: Result<Vec<u8>, ClipEnd>,
    },
    /// The connection to the desktop has ended.
    Ended(String),
}

/// One selection: at most one of the two sides owns it.
#[derive(Clone, Copy, Debug, Default)]
struct Ownership {
    /// What the session offers.
    session: ClipFormats,
    /// Formats of a local application; `None` while unknown.
    desktop: Option<ClipFormats>,
    /// Count of calls of [`Desktop::own`].
    owns: u32,
}

/// A paste of a local application that waits for the session's content.
#[derive(Clone, Copy, Debug)]
struct Paste {
    ticket: u32,
    selection: Selection,
    format: ClipFormat,
    /// viewer-core's number, once requested.
    request: Option<u32>,
}

/// Connects the desktop's selections with the session's.
#[derive(Debug, Default)]
pub(crate) struct Clipboard {
    desktop: Option<Box<dyn Desktop>>,
    selections: [Ownership; 2],
    pastes: Vec<Paste>,
    /// Fetches from the desktop: our number → viewer-core's.
    fetches: HashMap<u32, u32>,
    last_fetch: u32,
    /// When a key, button or finger was last pressed for the session, or a text written.
    pressed: Option<Micros>,
}

impl Clipboard {
    /// Attaches a desktop, which first reports its selections.
    pub(crate) fn attach(&mut self, desktop: Box<dyn Desktop>) {
        self.desktop = Some(desktop);
        for ownership in &mut self.selections {
            (ownership.desktop, ownership.owns) = (None, 0);
        }
    }

    /// A key, button or finger is pressed for the session, or a text is written.
    pub(crate) fn pressed(&mut self, now: Micros) {
        self.pressed = Some(now);
    }

    /// Whether a request of the session may be a paste by the person at this viewer.
    fn may_be_a_paste(&self, now: Micros) -> bool {
        self.pressed.is_some_and(|at| now.saturating_sub(at) <= PASTE_AFTER_PRESS_MAX)
    }

    /// A connection starts: offers the desktop's selections. The session sends its own offers.
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

    /// Handles a clipboard event of viewer-core; returns a message for the user.
    pub(crate) fn handle(
        &mut self,
        event: ViewerEvent,
        viewer: &mut Viewer,
        now: Micros,
    ) -> Option<String> {
        let mut notice = None;
        let may_be_a_paste = self.may_be_a_paste(now);
        match event {
            ViewerEvent::ClipOffer { selection, formats } => {
                let ownership = &mut self.selections[selection as usize];
                ownership.session = formats;
                // While the desktop's own formats are unknown, its first report decides.
                if ownership.desktop.is_some() {
                    self.own(selection);
                }
                // Pastes that waited through a loss of the connection for a format that the session
                // no longer offers.
                let is_unavailable = |paste: &Paste| {
                    paste.selection == selection
                        && paste.request.is_none()
                        && !formats.has(paste.format)
                };
                for paste in self.pastes.extract_if(.., |paste| is_unavailable(paste)) {
                    if let Some(desktop) = &mut self.desktop {
                        desktop.provide(paste.ticket, Err(ClipEnd::Unavailable));
                    }
                }
            }
            ViewerEvent::ClipWanted { id, selection, format } => match &mut self.desktop {
                Some(desktop) if desktop.is_a_persons() && !may_be_a_paste => {
                    viewer.provide_clipboard(id, Err(ClipEnd::Unavailable), now);
                }
                Some(desktop) => {
                    self.last_fetch = self.last_fetch.wrapping_add(1);
                    match desktop.fetch(self.last_fetch, selection, format) {
                        Some(content) => viewer.provide_clipboard(id, content, now),
                        None => drop(self.fetches.insert(self.last_fetch, id)),
                    }
                }
                None => viewer.provide_clipboard(id, Err(ClipEnd::Unavailable), now),
            },
            ViewerEvent::ClipReceived { id, content } => self.answer(id, Ok(content)),
            ViewerEvent::ClipEnded { id, why }
                if self.pastes.iter().any(|paste| paste.request == Some(id)) =>
            {
                notice = reason(why).map(|words| format!("Not pasted: {words}"));
                self.answer(id, Err(why));
            }
            ViewerEvent::ClipEnded { id, why } => {
                notice = reason(why).map(|words| format!("Not pasted into the session: {words}"));
                let fetch =
                    self.fetches.iter().find(|&(_, wanted)| *wanted == id).map(|(&fetch, _)| fetch);
                if let (Some(fetch), Some(desktop)) = (fetch, &mut self.desktop) {
                    self.fetches.remove(&fetch);
                    desktop.cancel(fetch);
                }
            }
            other => unreachable!("{other:?} is not a clipboard event"),
        }
        self.send_requests(viewer, now);
        notice
    }

    /// Handles an event of the desktop; returns a message for the user. `connected`: there is a
    /// session to request from.
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
                // Without a connection, the viewer may reconnect before the pasting application
                // times out.
                if (connected && !offered) || self.pastes.len() >= PASTES_MAX {
                    if let Some(desktop) = &mut self.desktop {
                        desktop.provide(ticket, Err(ClipEnd::Unavailable));
                    }
                    return None;
                }
                self.pastes.push(Paste { ticket, selection, format, request: None });
                self.send_requests(viewer, now);
            }
            DesktopEvent::Unwanted { ticket } => {
                let gone = self.pastes.extract_if(.., |paste| paste.ticket == ticket);
                gone.filter_map(|paste| paste.request)
                    .for_each(|request| viewer.cancel_clipboard(request));
            }
            DesktopEvent::Content { id, content } => {
                let id = self.fetches.remove(&id)?;
                let notice = match &content {
                    Err(why) => {
                        reason(*why).map(|words| format!("Not pasted into the session: {words}"))
                    }
                    Ok(_) => None,
                };
                viewer.provide_clipboard(id, content, now);
                return notice;
            }
            DesktopEvent::Ended(_) => {
                self.desktop = None;
                self.pastes.clear();
                for id in std::mem::take(&mut self.fetches).into_values() {
                    viewer.provide_clipboard(id, Err(ClipEnd::Unavailable), now);
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

    /// Owns the selection for the session, or gives it up.
    fn own(&mut self, selection: Selection) {
        let (ownership, Some(desktop)) =
            (&mut self.selections[selection as usize], &mut self.desktop)
        else {
            return;
        };
        if !ownership.session.is_empty() {
            ownership.desktop = Some(ClipFormats::NONE);
        } else if ownership.desktop != Some(ClipFormats::NONE) || ownership.owns == 0 {
            // A local application owns it, or nobody: there is nothing to give up.
            return;
        }
        ownership.owns += 1;
        desktop.own(selection, ownership.session);
    }

    /// Sends the requests of pastes that have none yet.
    fn send_requests(&mut self, viewer: &mut Viewer, now: Micros) {
        for paste in self.pastes.iter_mut().filter(|paste| paste.request.is_none()) {
            if self.selections[paste.selection as usize].session.has(paste.format) {
                paste.request = viewer.request_clipboard(paste.selection, paste.format, now);
            }
        }
    }

    fn answer(&mut self, request: u32, content: Result<Vec<u8>, ClipEnd>) {
        let Some(at) = self.pastes.iter().position(|paste| paste.request == Some(request)) else {
            return;
        };
        let paste = self.pastes.swap_remove(at);
        if let Some(desktop) = &mut self.desktop {
            desktop.provide(paste.ticket, content);
        }
    }
}

/// Why a transfer failed, for the user; None if there is no need to know.
pub(crate) fn reason(why: ClipEnd) -> Option<String> {
    match why {
        ClipEnd::Cancelled | ClipEnd::Unavailable => None,
        ClipEnd::TooLarge { bytes: 0, limit } => {
            Some(format!("it is longer than the limit of {}", size(limit)))
        }
        ClipEnd::TooLarge { bytes, limit } => {
            Some(format!("it has {}, and {} is the limit", size(bytes), size(limit)))
        }
        ClipEnd::Failed => Some("its application did not provide it".to_owned()),
    }
}

/// In the units of `--clipboard-max`, rounded up.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_be_a_paste_for_a_moment_after_a_press() {
        let mut clipboard = Clipboard::default();
        assert!(!clipboard.may_be_a_paste(0), "nothing was ever pressed");
        for pressed in [1_000_000, 20_000_000] {
            clipboard.pressed(pressed);
            assert!(clipboard.may_be_a_paste(pressed));
            assert!(clipboard.may_be_a_paste(pressed + PASTE_AFTER_PRESS_MAX));
            assert!(!clipboard.may_be_a_paste(pressed + PASTE_AFTER_PRESS_MAX + 1));
        }
    }
}
