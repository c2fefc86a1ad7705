//! Path 12/13: from client.rs, to the window and the headless viewer.
//! How things stand with the session, and what has happened since one of them last looked.
//! Knows viewer-core's values; never who looks, or when.

use thinc_region::Size;
use thinc_viewer_core::CursorPixels;

use crate::error::ViewError;

/// How things stand with the session.
#[derive(Debug)]
pub enum Status {
    /// First attempt under way.
    Connecting,
    /// The picture is the session's.
    Connected,
    /// The connection was lost; the picture is old.
    Lost {
        /// Why, in words.
        why: String,
        /// Attempts since.
        attempts: u32,
    },
    /// Over; nothing will change any more.
    Ended(ViewError),
}

/// What happened since the owner last looked. Everything but barriers is "newest wins", so it cannot grow.
#[derive(Debug, Default)]
pub struct News {
    /// The status is another one.
    pub status: bool,
    /// The screen has a new size.
    pub geometry: Option<Size>,
    /// The session's displays lie elsewhere.
    pub displays: bool,
    /// The cursor has a new image.
    pub cursor: Option<CursorPixels>,
    /// An application moved the pointer.
    pub cursor_move: Option<(u16, u16)>,
    /// The cursor is shown or hidden.
    pub cursor_show: Option<bool>,
    /// An update completed what was drawn at its time: present now.
    pub frame_end: bool,
    /// Answered barriers.
    pub barriers: Vec<u32>,
    /// The session's clipboard is another one, or something of it came or will not.
    pub clipboard: bool,
    /// Something a person should know and need not answer.
    pub notice: Option<String>,
}

impl News {
    /// Whoever looks should look now.
    pub(crate) fn is_worth_waking(&self) -> bool {
        self.status
            || self.frame_end
            || self.geometry.is_some()
            || self.displays
            || self.cursor.is_some()
            || self.cursor_move.is_some()
            || self.cursor_show.is_some()
            || !self.barriers.is_empty()
            || self.clipboard
            || self.notice.is_some()
    }
}
