//! Path beside the pixels: between clipboard/ and the desktop of the window.
//! On X both selections, through an X client of their own: in every form, and nothing before it is pasted. Elsewhere SDL's
//! clipboard, which takes and gives texts only at once: what is copied in the session is fetched when it is copied.
//! Knows which desktop this is; who owns what is clipboard/'s.

use std::fmt;
use std::sync::{Arc, Mutex};

use sdl3::clipboard::ClipboardUtil;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::limits::CLIP_TRANSFERS_MAX;
use thinc_viewer_core::ClipboardPolicy;
use thinc_x_selection::{XSelectionEvent, XSelections};

use crate::client::Client;
use crate::clipboard::{Desktop, DesktopEvent};

/// The clipboard of the desktop that the window is on.
pub(super) enum WindowClipboard {
    /// It has threads of its own, or there is none.
    Elsewhere,
    /// SDL's, which only the window's thread may touch.
    Sdl(SdlClipboard),
}

impl WindowClipboard {
    /// Joins the desktop's clipboard to the session's, as far as the policy goes.
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
                // Held until the client knows its desktop, whose first word is what it has.
                let mut state = client.lock();
                let bytes_max = usize::try_from(policy.bytes_max).unwrap_or(usize::MAX);
                match XSelections::start(None, bytes_max, move |event| tell(desktop_event(event))) {
                    Ok(selections) => state.set_desktop(Box::new(XDesktop(selections))),
                    Err(error) => eprintln!("thinc-view: no clipboard: {error}"),
                }
                WindowClipboard::Elsewhere
            }
            _ => WindowClipboard::Sdl(SdlClipboard::join(client, sdl, wake)),
        }
    }

    /// The desktop says that its clipboard is another one.
    pub(super) fn handle_update(&mut self, client: &Client) {
        if let WindowClipboard::Sdl(clipboard) = self {
            clipboard.handle_update(client);
        }
    }

    /// What the client wants of the desktop.
    pub(super) fn handle_wishes(&mut self, client: &Client) {
        if let WindowClipboard::Sdl(clipboard) = self {
            clipboard.handle_wishes(client);
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

    fn fetch(&mut self, id: u32, selection: Selection, format: ClipFormat) -> Option<Result<Vec<u8>, ClipEnd>> {
        self.0.fetch(id, selection, format);
        None
    }

    fn cancel(&mut self, id: u32) {
        self.0.cancel(id);
    }
}

fn desktop_event(event: XSelectionEvent) -> DesktopEvent {
    match event {
        XSelectionEvent::Owned { selection, formats, after } => DesktopEvent::Owned { selection, formats, after },
        XSelectionEvent::Wanted { ticket, selection, format } => DesktopEvent::Wanted { ticket, selection, format },
        XSelectionEvent::Unwanted { ticket } => DesktopEvent::Unwanted { ticket },
        XSelectionEvent::Content { id, content } => DesktopEvent::Content { id, content },
        XSelectionEvent::Ended(why) => DesktopEvent::Ended(why),
    }
}

/// What the client's threads want of SDL, which the window's thread does at its next turn. Where that is long in coming, the newest
/// owner of each selection counts, and no more texts wait than the clipboard's channel carries at a time.
#[derive(Debug, Default)]
struct Wishes {
    /// What is to be owned, and calls of [`Desktop::own`] since the last turn.
    owned: [(Option<ClipFormats>, u32); 2],
    /// Texts that came, by ticket.
    texts: Vec<(u32, Vec<u8>)>,
    /// Texts that are wanted, by the client's number.
    fetches: Vec<(u32, Selection)>,
}

/// SDL's clipboard: texts only, and both selections.
pub(super) struct SdlClipboard {
    sdl: ClipboardUtil,
    wishes: Arc<Mutex<Wishes>>,
    owns: [u32; 2],
    /// Texts of the session's that were asked for: ticket and selection, the newest of each.
    asked: [Option<u32>; 2],
    last_ticket: u32,
    /// What this viewer put there itself: SDL tells of that too.
    put: [Option<String>; 2],
}

struct SdlDesktop {
    wishes: Arc<Mutex<Wishes>>,
    /// Gives the window's thread a turn.
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for SdlDesktop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SdlDesktop").finish_non_exhaustive()
    }
}

impl SdlDesktop {
    fn wish(&self, change: impl FnOnce(&mut Wishes)) {
        change(&mut self.wishes.lock().expect("no holder of this lock can panic"));
        (self.wake)();
    }
}

impl Desktop for SdlDesktop {
    fn own(&mut self, selection: Selection, formats: ClipFormats) {
        self.wish(|wishes| {
            let (newest, calls) = &mut wishes.owned[selection as usize];
            (*newest, *calls) = (Some(formats), *calls + 1);
        });
    }

    fn provide(&mut self, ticket: u32, content: Result<Vec<u8>, ClipEnd>) {
        let Ok(content) = content else { return };
        self.wish(|wishes| {
            // Only the newest ticket of a selection is waited for.
            if wishes.texts.len() == CLIP_TRANSFERS_MAX {
                wishes.texts.remove(0);
            }
            wishes.texts.push((ticket, content));
        });
    }

    fn fetch(&mut self, id: u32, selection: Selection, format: ClipFormat) -> Option<Result<Vec<u8>, ClipEnd>> {
        let mut room = format == ClipFormat::Text;
        self.wish(|wishes| {
            room &= wishes.fetches.len() < CLIP_TRANSFERS_MAX;
            if room {
                wishes.fetches.push((id, selection));
            }
        });
        if room { None } else { Some(Err(ClipEnd::Gone)) }
    }

    fn cancel(&mut self, id: u32) {
        self.wish(|wishes| wishes.fetches.retain(|(wanted, _)| *wanted != id));
    }
}

impl SdlClipboard {
    fn join(client: &Client, sdl: ClipboardUtil, wake: Arc<dyn Fn() + Send + Sync>) -> SdlClipboard {
        let wishes = Arc::<Mutex<Wishes>>::default();
        client.lock().set_desktop(Box::new(SdlDesktop { wishes: wishes.clone(), wake }));
        let mut clipboard =
            SdlClipboard { sdl, wishes, owns: [0; 2], asked: [None; 2], last_ticket: 0, put: [None, None] };
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
        let formats =
            if self.has_text(selection) { ClipFormats::NONE.with(ClipFormat::Text) } else { ClipFormats::NONE };
        let after = self.owns[selection as usize];
        client.lock().desktop_event(DesktopEvent::Owned { selection, formats, after });
    }

    fn handle_update(&mut self, client: &Client) {
        for selection in Selection::ALL {
            // SDL does not say which of the two it is, nor that it was this viewer.
            let text = self.text(selection);
            if text != self.put[selection as usize] {
                self.put[selection as usize] = text;
                self.tell(client, selection);
            }
        }
    }

    fn handle_wishes(&mut self, client: &Client) {
        let wishes = std::mem::take(&mut *self.wishes.lock().expect("no holder of this lock can panic"));
        for selection in Selection::ALL {
            let (Some(formats), calls) = wishes.owned[selection as usize] else { continue };
            self.owns[selection as usize] += calls;
            self.asked[selection as usize] = None;
            if formats.has(ClipFormat::Text) {
                self.last_ticket += 1;
                let ticket = self.last_ticket;
                self.asked[selection as usize] = Some(ticket);
                client.lock().desktop_event(DesktopEvent::Wanted { ticket, selection, format: ClipFormat::Text });
            }
        }
        for (ticket, content) in wishes.texts {
            let asked = Selection::ALL.into_iter().find(|&asked| self.asked[asked as usize] == Some(ticket));
            let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
            if let (Some(selection), Some(text)) = (asked, text) {
                self.put(selection, text);
            }
        }
        for (id, selection) in wishes.fetches {
            let text = self.text(selection).map(|text| text.replace("\r\n", "\n").into_bytes());
            client.lock().desktop_event(DesktopEvent::Content { id, content: text.ok_or(ClipEnd::Gone) });
        }
    }

    fn put(&mut self, selection: Selection, text: String) {
        let done = match selection {
            Selection::Clipboard => self.sdl.set_clipboard_text(&text),
            Selection::Primary => self.sdl.set_primary_selection_text(&text),
        };
        match done {
            Ok(()) => self.put[selection as usize] = Some(text),
            Err(error) => eprintln!("thinc-view: the desktop does not take what was copied in the session: {error}"),
        }
    }
}
