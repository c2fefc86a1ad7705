//! Path back: under session.rs, from the shell, which knows who a viewer is, to input, size and
//! clipboard.
//! What a viewer may do to the session. Knows rights; never names, credentials or messages.

use thinc_clipboard::ClipboardPolicy;

/// What a viewer may do to the session, and hear of it; all viewers see the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Its keys, text, lock keys, layout, pointer and touch take effect.
    pub input: bool,
    /// Its window or displays may determine the size of the screen.
    pub size: bool,
    /// The session takes what it copies.
    pub clipboard_to_session: bool,
    /// It is offered what is copied in the session, or by other viewers.
    pub clipboard_to_viewer: bool,
    /// It hears what programs play; decided when it connects.
    pub sound: bool,
}

impl Rights {
    /// The owner of the session.
    pub const ALL: Rights = Rights {
        input: true,
        size: true,
        clipboard_to_session: true,
        clipboard_to_viewer: true,
        sound: true,
    };
    /// A viewer that only sees the screen, and hears.
    pub const VIEW: Rights = Rights {
        input: false,
        size: false,
        clipboard_to_session: false,
        clipboard_to_viewer: false,
        sound: true,
    };

    /// The session's clipboard policy for a viewer with these rights.
    pub(crate) fn clipboard(&self, session: ClipboardPolicy) -> ClipboardPolicy {
        ClipboardPolicy {
            take: session.take && self.clipboard_to_session,
            give: session.give && self.clipboard_to_viewer,
            ..session
        }
    }
}
