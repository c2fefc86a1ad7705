//! Path back: under session.rs, from the shell, which knows who a viewer is, to input, size,
//! clipboard and files.
//! What a viewer may do to the session. Knows rights; never names, credentials or messages.

use thinc_clipboard::ClipboardPolicy;
use thinc_files::{FilesPolicy, Printing};
use thinc_protocol::session::SessionCaps;
use thinc_protocol::viewer::ViewerCaps;

/// What a viewer may do to the session, and hear of it; all viewers see the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Its keys, text, lock keys, layout, pointer, touch and pen take effect.
    pub input: bool,
    /// Its window or displays may determine the size of the screen.
    pub size: bool,
    /// The session takes what it copies.
    pub clipboard_to_session: bool,
    /// It is offered what is copied in the session, or by other viewers.
    pub clipboard_to_viewer: bool,
    /// It hears what programs play; decided when it connects.
    pub sound: bool,
    /// Programs may hear its microphone; decided when it connects.
    pub microphone: bool,
    /// It may send files to the session, and is offered files, and what programs print.
    pub files: bool,
}

impl Rights {
    /// The owner of the session.
    pub const ALL: Rights = Rights {
        input: true,
        size: true,
        clipboard_to_session: true,
        clipboard_to_viewer: true,
        sound: true,
        microphone: true,
        files: true,
    };
    /// A viewer that only sees the screen, and hears.
    pub const VIEW: Rights = Rights {
        input: false,
        size: false,
        clipboard_to_session: false,
        clipboard_to_viewer: false,
        sound: true,
        microphone: false,
        files: false,
    };

    /// The session's clipboard policy for a viewer with these rights.
    pub(crate) fn clipboard(&self, session: ClipboardPolicy) -> ClipboardPolicy {
        ClipboardPolicy {
            take: session.take && self.clipboard_to_session,
            give: session.give && self.clipboard_to_viewer,
            take_files: session.take_files && self.files,
            give_files: session.give_files && self.files,
            ..session
        }
    }

    /// The session's policy of files for a viewer with these rights and capabilities.
    pub(crate) fn files(&self, session: FilesPolicy, caps: u32) -> FilesPolicy {
        FilesPolicy {
            take: session.take && self.files,
            give: session.give && self.files && caps & ViewerCaps::FILES != 0,
            printing: match caps & ViewerCaps::PRINTS {
                0 => Printing::Off,
                _ if !self.files => Printing::Off,
                _ => session.printing,
            },
            ..session
        }
    }

    /// What its hello says of that.
    pub(crate) fn files_caps(&self, session: FilesPolicy, caps: u32) -> u32 {
        let FilesPolicy { take, printing, .. } = self.files(session, caps);
        let files = if take { SessionCaps::FILES } else { 0 };
        let prints = if printing == Printing::Sends { SessionCaps::PRINTS } else { 0 };
        files | prints
    }
}
