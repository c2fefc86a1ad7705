//! Path 12/13: from decode.rs, to the shell around viewer-core.
//! Events that the shell acts on, in a bounded queue; of most kinds only the newest is kept. Knows
//! owned values only, so that an event outlives the bytes it was decoded from.

use std::collections::VecDeque;

use thinc_clipboard::ClipEvent;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::gamma::GammaArea;
use thinc_protocol::microphone::MicrophoneWant;
use thinc_protocol::people::{OpenInvitation, People, PersonPointer, Shared};
use thinc_protocol::session::{CloseCode, ScreenPart};
use thinc_region::{Rect, Size};

/// An event that the shell acts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerEvent {
    /// The session's hello has arrived.
    Connected {
        /// The session's name, at most 64 bytes.
        name: String,
    },
    /// The framebuffer has a new geometry. Until updates fill it, it shows the old pixels of the
    /// same part of the screen.
    Geometry {
        /// Size of the framebuffer in pixels.
        size: Size,
        /// The part of the screen that the framebuffer shows, if it is not the whole screen at its
        /// own size. Input coordinates are in the screen's pixels.
        shown: Option<ScreenPart>,
    },
    /// Positions of the session's monitors in its screen, the primary one first.
    Displays(Vec<Rect>),
    /// The cursor's new image or colours; 0 × 0 hides it.
    Cursor(CursorPixels),
    /// An application moved the pointer.
    CursorMove {
        /// Pixels from the left edge.
        x: u16,
        /// Pixels from the top edge.
        y: u16,
    },
    /// Whether the cursor is shown.
    CursorShow(bool),
    /// Whether an application wants to know how far the user moves the pointer
    /// (`InputEvent::MotionBy`), and not where it is. At the start of a connection none does.
    RelativeWanted(bool),
    /// What the screen's colours are shown as from now on; the framebuffer keeps the session's.
    /// With a connection's first frame a viewer MUST show its colours by that connection's tables:
    /// none, if it got none.
    Gamma(Vec<GammaArea>),
    /// Everything drawn before this barrier was requested has been applied.
    Barrier(u32),
    /// The effect of this input has been applied.
    Echo {
        /// The number that `handle_input` returned.
        seq: u32,
        /// Microseconds from `handle_input`.
        latency_us: u64,
    },
    /// All updates of one drawing burst are applied: a good moment to present.
    FrameEnd,
    /// The session owns this selection in these formats; with no format, it has lost it. No content
    /// has been transferred yet.
    ClipOffer {
        /// Which.
        selection: Selection,
        /// Formats that [`Viewer::request_clipboard`](crate::Viewer::request_clipboard) may ask
        /// for.
        formats: ClipFormats,
    },
    /// An application in the session pastes what this viewer offered;
    /// [`Viewer::provide_clipboard`](crate::Viewer::provide_clipboard) answers.
    ClipWanted {
        /// Number for the answer.
        id: u32,
        /// The selection that is pasted.
        selection: Selection,
        /// The format that the application wants.
        format: ClipFormat,
    },
    /// A requested content has arrived.
    ClipReceived {
        /// The number that `request_clipboard` returned.
        id: u32,
        /// The whole content.
        content: Vec<u8>,
    },
    /// A transfer in either direction ended early; the shell tells the user.
    ClipEnded {
        /// The number that `request_clipboard` returned, or that of `ClipWanted`.
        id: u32,
        /// The reason.
        why: ClipEnd,
    },
    /// Who shows the session now.
    People(People),
    /// Answers a [`Viewer::share`](crate::Viewer::share).
    Shared(Shared),
    /// Another person's pointer is there now.
    PersonPointer(PersonPointer),
    /// The invitations that this viewer's user can revoke, the oldest first.
    Invitations(Vec<OpenInvitation>),
    /// The user should read this.
    Notice(String),
    /// The user may like to know this, for a few seconds.
    BriefNotice(String),
    /// The session's name has changed to this.
    Renamed(String),
    /// What draws the session's 3D programs, for people.
    Graphics(String),
    /// In which directions the clipboard is shared with the user's viewers of this session.
    ClipPolicy(ClipDirections),
    /// Names of the programs that play now.
    Players(Vec<String>),
    /// A program of the session records, and wants the microphone like this; None: none does, and
    /// it has to be closed. [`Viewer::give_microphone`](crate::Viewer::give_microphone) answers.
    MicrophoneWanted(Option<MicrophoneWant>),
    /// The session ended the connection.
    Closed {
        /// The reason as a code.
        code: CloseCode,
        /// The reason as text for the user.
        reason: String,
    },
}

/// A cursor's image, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorPixels {
    /// Size in pixels.
    pub size: Size,
    /// Hotspot: the image's column at the pointer's position.
    pub hot_x: u16,
    /// Hotspot: the image's row at the pointer's position.
    pub hot_y: u16,
    /// Premultiplied 0xAARRGGBB, rows without gaps.
    pub pixels: Vec<u32>,
}

impl From<ClipEvent> for ViewerEvent {
    fn from(event: ClipEvent) -> ViewerEvent {
        match event {
            ClipEvent::Offered { selection, formats } => {
                ViewerEvent::ClipOffer { selection, formats }
            }
            ClipEvent::Wanted { id, selection, format } => {
                ViewerEvent::ClipWanted { id, selection, format }
            }
            ClipEvent::Received { id, content } => ViewerEvent::ClipReceived { id, content },
            ClipEvent::Ended { id, why } => ViewerEvent::ClipEnded { id, why },
        }
    }
}

/// Events not yet polled, except those of the clipboard, which wait in their own bounded queue. An
/// event replaces an older one of its kind, except barriers and answers to requests (bounded by the
/// number of requests), echoes (bounded by the number of remembered inputs), and pointers of
/// different people (bounded by the newest list). Notices become one, up to [`NOTICES_BYTES_MAX`].
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    queue: VecDeque<ViewerEvent>,
}

impl EventQueue {
    pub(crate) fn push(&mut self, event: ViewerEvent) {
        let mut event = event;
        if let ViewerEvent::Notice(text) = &mut event {
            let at = self.queue.iter().position(|old| matches!(old, ViewerEvent::Notice(_)));
            if let Some(ViewerEvent::Notice(old)) = at.and_then(|at| self.queue.remove(at))
                && old.len() + text.len() < NOTICES_BYTES_MAX
            {
                text.insert_str(0, &(old + "\n"));
            }
        } else if let ViewerEvent::PersonPointer(pointer) = event {
            self.queue.retain(|old| {
                !matches!(old, ViewerEvent::PersonPointer(old) if old.number == pointer.number)
            });
        } else if !matches!(
            event,
            ViewerEvent::Barrier(_) | ViewerEvent::Shared(_) | ViewerEvent::Echo { .. }
        ) {
            let kind = std::mem::discriminant(&event);
            self.queue.retain(|old| std::mem::discriminant(old) != kind);
        } else if self.queue.len() >= QUEUE_LEN_MAX {
            // If the shell does not poll, only the oldest measurements are lost.
            let oldest = self.queue.iter().position(|old| matches!(old, ViewerEvent::Echo { .. }));
            oldest.and_then(|at| self.queue.remove(at));
        }
        self.queue.push_back(event);
    }

    pub(crate) fn poll(&mut self) -> Option<ViewerEvent> {
        self.queue.pop_front()
    }
}

/// 1024 events: more than accumulate between two reads if the shell polls after each read.
const QUEUE_LEN_MAX: usize = 1024;
/// 4000 bytes of notices that no shell has read yet; past it the oldest are lost.
const NOTICES_BYTES_MAX: usize = 4000;
