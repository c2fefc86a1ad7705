//! Path 12/13: from decode.rs, to the shell around viewer-core.
//! What a shell must know besides pixels, in a queue that cannot grow: of most kinds only the newest counts.
//! Knows owned values only, so that an event outlives the bytes it came from.

use std::collections::VecDeque;

use thinc_clipboard::ClipEvent;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::session::{CloseCode, Shows};
use thinc_region::{Rect, Size};

/// Something the shell acts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerEvent {
    /// The session has answered and this is its name.
    Connected {
        /// At most 64 bytes.
        name: String,
    },
    /// The picture has this size now; until updates fill it, it holds what it showed of the same part of the screen before.
    Geometry {
        /// Pixels of the framebuffer.
        size: Size,
        /// Which part of which screen it shows, where that is not all of it pixel by pixel: input is said in the screen's pixels.
        shows: Option<Shows>,
    },
    /// Where the session's displays lie in its screen, the primary one first.
    Displays(Vec<Rect>),
    /// The cursor has this image, or the same in other colours, now; 0 × 0 hides it.
    Cursor(CursorPixels),
    /// An application moved the pointer.
    CursorMove {
        /// Pixels from the left.
        x: u16,
        /// Pixels from the top.
        y: u16,
    },
    /// The cursor is shown or hidden.
    CursorShow(bool),
    /// Everything drawn before this barrier was asked for has been applied.
    Barrier(u32),
    /// The effect of this input has been applied.
    Echo {
        /// Number that `handle_input` gave.
        seq: u32,
        /// Microseconds from `handle_input`.
        latency_us: u64,
    },
    /// What was drawn together is complete: a good moment to present.
    FrameEnd,
    /// The session owns this selection now, in these formats; none: it no longer does. Nothing of it has come yet.
    ClipOffer {
        /// Which.
        selection: Selection,
        /// What [`Viewer::request_clipboard`](crate::Viewer::request_clipboard) may ask for.
        formats: ClipFormats,
    },
    /// Somebody in the session pastes what was offered from here;
    /// [`Viewer::provide_clipboard`](crate::Viewer::provide_clipboard) answers.
    ClipWanted {
        /// For the answer.
        id: u32,
        /// Of which selection.
        selection: Selection,
        /// In which form.
        format: ClipFormat,
    },
    /// A content that was asked for.
    ClipReceived {
        /// Number that `request_clipboard` gave.
        id: u32,
        /// All of it.
        content: Vec<u8>,
    },
    /// A request, or a content that was wanted from here, ended early; for people to be told.
    ClipEnded {
        /// Number that `request_clipboard` gave, or of `ClipWanted`.
        id: u32,
        /// Why.
        why: ClipEnd,
    },
    /// The session ended the connection.
    Closed {
        /// For programs.
        code: CloseCode,
        /// For people.
        reason: String,
    },
}

/// A cursor's image, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CursorPixels {
    /// Pixels.
    pub size: Size,
    /// Pixel of the image that is the pointer's position.
    pub hot_x: u16,
    /// Pixel of the image that is the pointer's position.
    pub hot_y: u16,
    /// Premultiplied 0xAARRGGBB, rows without gaps.
    pub pixels: Vec<u32>,
}

impl From<ClipEvent> for ViewerEvent {
    fn from(event: ClipEvent) -> ViewerEvent {
        match event {
            ClipEvent::Offered { selection, formats } => ViewerEvent::ClipOffer { selection, formats },
            ClipEvent::Wanted { id, selection, format } => ViewerEvent::ClipWanted { id, selection, format },
            ClipEvent::Received { id, content } => ViewerEvent::ClipReceived { id, content },
            ClipEvent::Ended { id, why } => ViewerEvent::ClipEnded { id, why },
        }
    }
}

/// Events not yet polled, but those of the clipboard, which wait in their own bounded queue. Bounded: an event replaces an older one of its kind, but barriers (as many as were asked for)
/// and echoes (as many as inputs are remembered).
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<ViewerEvent>,
}

impl Events {
    pub(crate) fn push(&mut self, event: ViewerEvent) {
        if !matches!(event, ViewerEvent::Barrier(_) | ViewerEvent::Echo { .. }) {
            let kind = std::mem::discriminant(&event);
            self.queue.retain(|old| std::mem::discriminant(old) != kind);
        } else if self.queue.len() >= QUEUE_LEN_MAX {
            // A shell that does not poll loses the oldest measurements, nothing else.
            let oldest = self.queue.iter().position(|old| matches!(old, ViewerEvent::Echo { .. }));
            oldest.and_then(|at| self.queue.remove(at));
        }
        self.queue.push_back(event);
    }

    pub(crate) fn poll(&mut self) -> Option<ViewerEvent> {
        self.queue.pop_front()
    }
}

/// 1024: more than a shell that polls after each read can ever leave.
const QUEUE_LEN_MAX: usize = 1024;
