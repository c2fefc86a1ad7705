//! Path beside the pixels: between clipboard/ and the window's desktop.
//! On X both selections, through a separate X client: every format, transferred only when pasted.
//! Elsewhere SDL's clipboard, which takes and returns only texts and at once: what is copied in the
//! session is fetched when it is copied. Knows the desktop; clipboard/ knows who owns a selection.

use std::fmt;
use std::sync::{Arc, Mutex};

use sdl3::clipboard::ClipboardUtil;
use thinc_files_disk::Folders;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::limits::CLIP_TRANSFERS_MAX;
use thinc_viewer_core::ClipboardPolicy;
use thinc_x_selection::{XSelectionEvent, XSelections};

use crate::client::Client;
use crate::clipboard::{Desktop, DesktopEvent};

/// The clipboard of the window's desktop.
pub(super) enum WindowClipboard {
    /// Served by its own threads, or not shared.
    Elsewhere,
    /// SDL's, which only the window's thread may use.
    Sdl(SdlClipboard),
}

impl WindowClipboard {
    /// Connects the desktop's clipboard with the session's, as far as the policy permits.
    pub(super) fn join(
        client: &Client,
        policy: ClipboardPolicy,
        driver: &str,
        sdl: ClipboardUtil,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> WindowClipboard {
        match driver {
            _ if !policy.give && !policy.take => WindowClipboard::Elsewhere,
            "x11" => {
                let tell = client.desktop_events();
                // Locked until the client has its desktop, whose first event reports its
                // selections.
                let mut state = client.lock();
                let bytes_max = usize::try_from(policy.bytes_max).unwrap_or(usize::MAX);
                let folders = Folders::from_environment().ok();
                let report = move |event| tell(desktop_event(event));
                match XSelections::start(None, bytes_max, folders, report) {
                    Ok(selections) => state.set_desktop(Box::new(XDesktop(selections))),
                    Err(error) => eprintln!("thinc-view: no clipboard: {error}"),
                }
                WindowClipboard::Elsewhere
            }
            _ => WindowClipboard::Sdl(SdlClipboard::join(client, sdl, wake)),
        }
    }

    /// The desktop's clipboard has changed.
    pub(super) fn handle_update(&mut self, client: &Client) {
        if let WindowClipboard::Sdl(clipboard) = self {
            clipboard.handle_update(client);
        }
    }

    /// Handles the client's requests to the desktop.
    pub(super) fn handle_requests(&mut self, client: &Client) {
        if let WindowClipboard::Sdl(clipboard) = self {
            clipboard.handle_requests(client);
        }
    }
}

/// An X server's selections.
#[derive(Debug)]
struct XDesktop(XSelections);

impl Desktop for XDesktop {
    fn own(&mut self, selection: Selection, formats: ClipFormats) {
        self.0.own(selection, formats);
    }

    fn provide(&mut self, ticket: u32, content: Result<Vec<u8>, ClipEnd>) {
        self.0.provide(ticket, content);
    }

    fn fetch(
        &mut self,
        id: u32,
        selection: Selection,
        format: ClipFormat,
    ) -> Option<Result<Vec<u8>, ClipEnd>> {
        self.0.fetch(id, selection, format);
        None
    }

    fn cancel(&mut self, id: u32) {
        self.0.cancel(id);
    }

    fn is_a_persons(&self) -> bool {
        true
    }
}

fn desktop_event(event: XSelectionEvent) -> DesktopEvent {
    match event {
        XSelectionEvent::Owned { selection, formats, after } => {
            DesktopEvent::Owned { selection, formats, after }
        }
        XSelectionEvent::Wanted { ticket, selection, format } => {
            DesktopEvent::Wanted { ticket, selection, format }
        }
        XSelectionEvent::Unwanted { ticket } => DesktopEvent::Unwanted { ticket },
        XSelectionEvent::Content { id, content } => DesktopEvent::Content { id, content },
        XSelectionEvent::Ended(why) => DesktopEvent::Ended(why),
    }
}

/// Requests of the client's threads to SDL, which the window's thread handles at its next turn. If
/// that is long in coming, only the newest owner of each selection counts, and queued texts are
/// bounded by the channel's transfers.
#[derive(Debug, Default)]
struct Requests {
    /// Formats to own, and calls of [`Desktop::own`] since the last turn.
    owned: [(Option<ClipFormats>, u32); 2],
    /// Received texts, by ticket.
    texts: Vec<(u32, Vec<u8>)>,
    /// Requested texts, by the client's number.
    fetches: Vec<(u32, Selection)>,
}

/// SDL's clipboard: texts only, both selections.
pub(super) struct SdlClipboard {
    sdl: ClipboardUtil,
    requests: Arc<Mutex<Requests>>,
    owns: [u32; 2],
    /// Newest ticket of a text requested from the session, per selection.
    requested: [Option<u32>; 2],
    last_ticket: u32,
    /// Text that this viewer set itself: SDL reports that too.
    put: [Option<String>; 2],
}

struct SdlDesktop {
    requests: Arc<Mutex<Requests>>,
    /// Wakes the window's thread.
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for SdlDesktop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SdlDesktop").finish_non_exhaustive()
    }
}

impl SdlDesktop {
    fn request(&self, change: impl FnOnce(&mut Requests)) {
        change(&mut self.requests.lock().expect("no holder of this lock can panic"));
        (self.wake)();
    }
}

impl Desktop for SdlDesktop {
    fn own(&mut self, selection: Selection, formats: ClipFormats) {
        self.request(|requests| {
            let (newest, calls) = &mut requests.owned[selection as usize];
            (*newest, *calls) = (Some(formats), *calls + 1);
        });
    }

    fn provide(&mut self, ticket: u32, content: Result<Vec<u8>, ClipEnd>) {
        let Ok(content) = content else { return };
        self.request(|requests| {
            // Only the newest ticket of a selection is needed.
            if requests.texts.len() == CLIP_TRANSFERS_MAX {
                requests.texts.remove(0);
            }
            requests.texts.push((ticket, content));
        });
    }

    fn fetch(
        &mut self,
        id: u32,
        selection: Selection,
        format: ClipFormat,
    ) -> Option<Result<Vec<u8>, ClipEnd>> {
        let mut room = format == ClipFormat::Text;
        self.request(|requests| {
            room &= requests.fetches.len() < CLIP_TRANSFERS_MAX;
            if room {
                requests.fetches.push((id, selection));
            }
        });
        if room { None } else { Some(Err(ClipEnd::Unavailable)) }
    }

    fn cancel(&mut self, id: u32) {
        self.request(|requests| requests.fetches.retain(|(wanted, _)| *wanted != id));
    }

    fn is_a_persons(&self) -> bool {
        true
    }
}

impl SdlClipboard {
    fn join(
        client: &Client,
        sdl: ClipboardUtil,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> SdlClipboard {
        let requests = Arc::<Mutex<Requests>>::default();
        client.lock().set_desktop(Box::new(SdlDesktop { requests: requests.clone(), wake }));
        let mut clipboard = SdlClipboard {
            sdl,
            requests,
            owns: [0; 2],
            requested: [None; 2],
            last_ticket: 0,
            put: [None, None],
        };
        for selection in Selection::ALL {
            clipboard.tell(client, selection);
        }
        clipboard
    }

    fn has_text(&self, selection: Selection) -> bool {
        match selection {
            Selection::Clipboard => self.sdl.has_clipboard_text(),
            Selection::Primary => self.sdl.has_primary_selection_text(),
        }
    }

    fn text(&self, selection: Selection) -> Option<String> {
        match selection {
            Selection::Clipboard => self.sdl.clipboard_text(),
            Selection::Primary => self.sdl.primary_selection_text(),
        }
        .ok()
        .filter(|text| !text.is_empty())
    }

    fn tell(&mut self, client: &Client, selection: Selection) {
        let formats = if self.has_text(selection) {
            ClipFormats::NONE.with(ClipFormat::Text)
        } else {
            ClipFormats::NONE
        };
        let after = self.owns[selection as usize];
        client.lock().desktop_event(DesktopEvent::Owned { selection, formats, after });
    }

    fn handle_update(&mut self, client: &Client) {
        for selection in Selection::ALL {
            // SDL does not report which of the two it is, nor that this viewer set it.
            let text = self.text(selection);
            if text != self.put[selection as usize] {
                self.put[selection as usize] = text;
                self.tell(client, selection);
            }
        }
    }

    fn handle_requests(&mut self, client: &Client) {
        let requests =
            std::mem::take(&mut *self.requests.lock().expect("no holder of this lock can panic"));
        for selection in Selection::ALL {
            let (Some(formats), calls) = requests.owned[selection as usize] else { continue };
            self.owns[selection as usize] += calls;
            self.requested[selection as usize] = None;
            if formats.has(ClipFormat::Text) {
                self.last_ticket += 1;
                let ticket = self.last_ticket;
                self.requested[selection as usize] = Some(ticket);
                client.lock().desktop_event(DesktopEvent::Wanted {
                    ticket,
                    selection,
                    format: ClipFormat::Text,
                });
            }
        }
        for (ticket, content) in requests.texts {
            let requested = Selection::ALL
                .into_iter()
                .find(|&requested| self.requested[requested as usize] == Some(ticket));
            let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
            if let (Some(selection), Some(text)) = (requested, text) {
                self.put(selection, text);
            }
        }
        for (id, selection) in requests.fetches {
            let text = self.text(selection).map(|text| text.replace("\r\n", "\n").into_bytes());
            client.lock().desktop_event(DesktopEvent::Content {
                id,
                content: text.ok_or(ClipEnd::Unavailable),
            });
        }
    }

    fn put(&mut self, selection: Selection, text: String) {
        let done = match selection {
            Selection::Clipboard => self.sdl.set_clipboard_text(&text),
            Selection::Primary => self.sdl.set_primary_selection_text(&text),
        };
        match done {
            Ok(()) => self.put[selection as usize] = Some(text),
            Err(error) => eprintln!(
                "thinc-view: cannot copy the session's selection to the local clipboard: {error}"
            ),
        }
    }
}
