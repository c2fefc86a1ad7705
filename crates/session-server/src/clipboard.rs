//! Beside the path: between the X server's selections, which thinc-x-selection serves on a thread of its own, and session-core.
//! From the X client's events to session-core's clipboard through actor.rs, and back.
//! Knows whom to hand what; who owns a selection and who may have it, session-core decides.

use serde::{Deserialize, Serialize};
use thinc_protocol::Micros;
use thinc_protocol::clip::ClipEnd;
use thinc_session_core::{ClipRequest, ClipboardPolicy, Session};
use thinc_x_selection::{XSelectionEvent, XSelections};
use tracing::{info, warn};

use crate::connection::{Event, Events};

/// How the session takes part in the clipboard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClipboardConfig {
    /// Viewers may have what is copied in the session.
    pub to_viewers: bool,
    /// Programs of the session may have what is copied at viewers.
    pub to_session: bool,
    /// Longest content either way, in bytes.
    pub bytes_max: u64,
}

/// The X client, where there is one.
#[derive(Debug)]
pub(crate) struct Clipboard {
    selections: Option<XSelections>,
    /// Of these it has not been told yet who owns them.
    untold: [bool; 2],
}

/// Starts it, and tells session-core what it may do.
pub(crate) fn start(config: &ClipboardConfig, display: &str, core: &mut Session, events: Events) -> Clipboard {
    let ClipboardConfig { to_viewers, to_session, bytes_max } = *config;
    if !to_viewers && !to_session {
        return Clipboard { selections: None, untold: [false; 2] };
    }
    core.set_clipboard(ClipboardPolicy { take: to_session, give: to_viewers, bytes_max });
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let started = XSelections::start(Some(display), limit, move |event| {
        // A session that ends listens no more.
        let _ = events.blocking_send(Event::Selection(event));
    });
    let selections = started.inspect_err(|error| warn!("no clipboard: {error}")).ok();
    Clipboard { untold: [selections.is_some(); 2], selections }
}

impl Clipboard {
    /// What the selections held at the beginning has been told, or never will be.
    pub(crate) fn is_known(&self) -> bool {
        self.untold == [false; 2]
    }

    /// Something happened to a selection of the X server's.
    pub(crate) fn handle(&mut self, event: XSelectionEvent, core: &mut Session, now: Micros) {
        match &event {
            XSelectionEvent::Owned { selection, .. } => self.untold[*selection as usize] = false,
            XSelectionEvent::Ended(_) => self.untold = [false; 2],
            _ => {}
        }
        if self.selections.as_ref().is_none_or(|selections| selections.is_stale(&event)) {
            return;
        }
        match event {
            XSelectionEvent::Owned { selection, formats, .. } => core.handle_clip_owned(selection, formats),
            XSelectionEvent::Wanted { ticket, selection, format } => {
                core.handle_clip_wanted(ticket, selection, format, now);
            }
            XSelectionEvent::Unwanted { ticket } => core.handle_clip_unwanted(ticket),
            XSelectionEvent::Content { id, content } => {
                if let Err(ClipEnd::TooLarge { bytes, limit }) = &content {
                    info!("a viewer wants a copy of {} bytes; {limit} is the most", length(*bytes));
                }
                core.handle_clip_content(id, content, now);
            }
            XSelectionEvent::Ended(error) => {
                warn!("no clipboard any more: {error}");
                self.selections = None;
            }
        }
    }

    /// Carries out what session-core wants of the X server.
    pub(crate) fn serve(&mut self, core: &mut Session, now: Micros) {
        while let Some(request) = core.poll_clip(now) {
            match (&self.selections, request) {
                (Some(selections), ClipRequest::Own { selection, formats }) => selections.own(selection, formats),
                (Some(selections), ClipRequest::Fetch { id, selection, format }) => {
                    selections.fetch(id, selection, format);
                }
                (Some(selections), ClipRequest::CancelFetch { id }) => selections.cancel(id),
                (Some(selections), ClipRequest::Provide { ticket, content }) => {
                    if let Err(ClipEnd::TooLarge { bytes, limit }) = &content {
                        info!("a program pastes {} bytes of a viewer's; {limit} is the most", length(*bytes));
                    }
                    selections.provide(ticket, content);
                }
                (None, ClipRequest::Fetch { id, .. }) => core.handle_clip_content(id, Err(ClipEnd::Gone), now),
                (None, _) => {}
            }
        }
    }
}

/// For people: 0 says that nobody knows.
fn length(bytes: u64) -> String {
    if bytes == 0 { "too many".to_owned() } else { bytes.to_string() }
}
