//! Path beside the pixels, in both directions: between the X server's selections, which
//! thinc-x-selection serves on a thread of its own, and session-core's clipboard, through actor.rs.
//! Knows the destination of each event and request; session-core decides who owns a selection and
//! who may have it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thinc_files_disk::Folders;
use thinc_protocol::Micros;
use thinc_protocol::clip::ClipEnd;
use thinc_session_core::{ClipRequest, ClipboardPolicy, Session};
use thinc_x_selection::{XSelectionEvent, XSelections};
use tracing::{info, warn};

use crate::connection::{Event, Events};
use crate::files::FilesConfig;

/// How long the first viewers of a session process wait until the owners of the selections are
/// known: an X client may hold the server grabbed.
const SELECTIONS_TIMEOUT: Duration = Duration::from_millis(300);

/// What the session shares of the clipboard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClipboardConfig {
    /// Viewers may have what is copied in the session.
    pub to_viewers: bool,
    /// Programs of the session may have what is copied at viewers.
    pub to_session: bool,
    /// Longest content in either direction, in bytes.
    pub bytes_max: u64,
}

/// The X client, if there is one.
#[derive(Debug)]
pub(crate) struct Clipboard {
    selections: Option<XSelections>,
    /// For each selection: its first owner has not been reported yet.
    owner_is_unknown: [bool; 2],
    /// Until then viewers wait for the owners.
    owners_deadline: Option<Micros>,
}

/// Starts the X client, and tells session-core what it may share.
pub(crate) fn start(
    config: &ClipboardConfig,
    files: &FilesConfig,
    display: &str,
    core: &mut Session,
    events: Events,
) -> Clipboard {
    let ClipboardConfig { to_viewers, to_session, bytes_max } = *config;
    if !to_viewers && !to_session {
        return Clipboard::new(None);
    }
    core.set_clipboard(ClipboardPolicy {
        take: to_session,
        give: to_viewers,
        take_files: files.to_session,
        give_files: files.to_viewers,
        bytes_max,
    });
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let folders = Folders::from_environment().ok();
    let started = XSelections::start(Some(display), limit, folders, move |event| {
        // Fails only once the session ends.
        let _ = events.blocking_send(Event::Selection(event));
    });
    let selections =
        started.inspect_err(|error| warn!("the clipboard is unavailable: {error}")).ok();
    Clipboard::new(selections)
}

impl Clipboard {
    fn new(selections: Option<XSelections>) -> Clipboard {
        Clipboard {
            owner_is_unknown: [selections.is_some(); 2],
            selections,
            owners_deadline: Some(SELECTIONS_TIMEOUT.as_micros() as Micros),
        }
    }

    /// Viewers wait: the owners of the selections at the start have not been reported yet. A later
    /// announcement would count as a new copy, and replace the clipboard of the viewer's desktop.
    pub(crate) fn is_awaited(&self) -> bool {
        self.owners_deadline.is_some()
    }

    /// Until when they wait.
    pub(crate) fn deadline(&self) -> Option<Micros> {
        self.owners_deadline
    }

    /// True once: viewers need not wait any more.
    pub(crate) fn ends_wait(&mut self, now: Micros) -> bool {
        let ends =
            self.owners_deadline.is_some_and(|by| self.owner_is_unknown == [false; 2] || now >= by);
        if ends {
            self.owners_deadline = None;
        }
        ends
    }

    /// Passes an event of the X server's selections to session-core.
    pub(crate) fn handle(&mut self, event: XSelectionEvent, core: &mut Session, now: Micros) {
        match &event {
            XSelectionEvent::Owned { selection, .. } => {
                self.owner_is_unknown[*selection as usize] = false
            }
            XSelectionEvent::Ended(_) => self.owner_is_unknown = [false; 2],
            _ => {}
        }
        if self.selections.as_ref().is_none_or(|selections| selections.is_stale(&event)) {
            return;
        }
        match event {
            XSelectionEvent::Owned { selection, formats, .. } => {
                core.handle_clip_owned(selection, formats)
            }
            XSelectionEvent::Wanted { ticket, selection, format } => {
                core.handle_clip_wanted(ticket, selection, format, now);
            }
            XSelectionEvent::Unwanted { ticket } => core.handle_clip_unwanted(ticket),
            XSelectionEvent::Content { id, content } => {
                if let Err(ClipEnd::TooLarge { bytes, limit }) = &content {
                    info!(
                        "a viewer requested a copy of {} bytes; {limit} is the limit",
                        length(*bytes)
                    );
                }
                core.handle_clip_content(id, content, now);
            }
            XSelectionEvent::Ended(error) => {
                warn!("the clipboard has ended: {error}");
                self.selections = None;
            }
        }
    }

    /// Carries out session-core's requests to the X server.
    pub(crate) fn execute_requests(&mut self, core: &mut Session, now: Micros) {
        while let Some(request) = core.poll_clip(now) {
            match (&self.selections, request) {
                (Some(selections), ClipRequest::Own { selection, formats }) => {
                    selections.own(selection, formats)
                }
                (Some(selections), ClipRequest::Fetch { id, selection, format }) => {
                    selections.fetch(id, selection, format);
                }
                (Some(selections), ClipRequest::CancelFetch { id }) => selections.cancel(id),
                (Some(selections), ClipRequest::Provide { ticket, content }) => {
                    if let Err(ClipEnd::TooLarge { bytes, limit }) = &content {
                        info!(
                            "a program requested {} bytes of a viewer's clipboard; {limit} is the \
                                limit",
                            length(*bytes)
                        );
                    }
                    selections.provide(ticket, content);
                }
                (None, ClipRequest::Fetch { id, .. }) => {
                    core.handle_clip_content(id, Err(ClipEnd::Unavailable), now)
                }
                (None, _) => {}
            }
        }
    }
}

/// For log lines: 0 means that the length is unknown.
fn length(bytes: u64) -> String {
    if bytes == 0 { "too many".to_owned() } else { bytes.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_wait_once_until_the_owners_are_known_or_the_time_is_over() {
        let mut clipboard = Clipboard::new(None);
        assert!(clipboard.is_awaited());
        assert!(clipboard.ends_wait(0), "without an X client there is nothing to wait for");
        assert!(!clipboard.ends_wait(0) && !clipboard.is_awaited());
        let mut clipboard = Clipboard { owner_is_unknown: [false, true], ..Clipboard::new(None) };
        let deadline = clipboard.deadline().expect("viewers wait");
        assert!(!clipboard.ends_wait(deadline - 1));
        assert!(clipboard.ends_wait(deadline));
        assert_eq!(clipboard.deadline(), None);
    }
}
