//! Path 12/13: from client.rs, to the window and the headless viewer.
//! The state of the connection, and what has happened since it was last read. Knows viewer-core's
//! values; never who reads them, or when.

use thinc_protocol::people::{PersonPointer, Shared};
use thinc_region::Size;
use thinc_viewer_core::CursorPixels;

use crate::error::ViewError;

/// State of the connection.
#[derive(Debug)]
pub enum Status {
    /// The first attempt is in progress.
    Connecting,
    /// Connected; the framebuffer is current.
    Connected,
    /// The connection was lost; the framebuffer is stale.
    Lost {
        /// The reason, for the user.
        why: String,
        /// Attempts to reconnect since.
        attempts: u32,
    },
    /// Ended for good.
    Ended(ViewError),
}

/// What has happened since the news were last taken. Of everything but barriers only the newest is
/// kept, or a bounded number, so it cannot grow.
#[derive(Debug, Default)]
pub struct News {
    /// The status has changed.
    pub status: bool,
    /// The screen has a new size.
    pub geometry: Option<Size>,
    /// The session's monitors have moved.
    pub displays: bool,
    /// The cursor has a new image.
    pub cursor: Option<CursorPixels>,
    /// An application moved the pointer.
    pub cursor_move: Option<(u16, u16)>,
    /// The cursor is shown or hidden.
    pub cursor_show: Option<bool>,
    /// An application wants the pointer's relative motion, or no longer.
    pub relative_wanted: Option<bool>,
    /// A drawing burst is complete: present now.
    pub frame_end: bool,
    /// Answered barriers.
    pub barriers: Vec<u32>,
    /// The session's clipboard has changed, or a transfer has ended.
    pub clipboard: bool,
    /// Somebody came or left, or may do something else.
    pub people: bool,
    /// Answers to requests to share; there are few at one time.
    pub shared: Vec<Shared>,
    /// The others' pointers that have moved, one for each person.
    pub pointers: Vec<PersonPointer>,
    /// A message for the user that needs no answer.
    pub notice: Option<String>,
}

impl News {
    /// True if there is anything worth waking the reader for.
    pub(crate) fn is_worth_waking(&self) -> bool {
        self.status
            || self.frame_end
            || self.geometry.is_some()
            || self.displays
            || self.cursor.is_some()
            || self.cursor_move.is_some()
            || self.cursor_show.is_some()
            || self.relative_wanted.is_some()
            || !self.barriers.is_empty()
            || self.clipboard
            || self.people
            || !self.shared.is_empty()
            || !self.pointers.is_empty()
            || self.notice.is_some()
    }
}
