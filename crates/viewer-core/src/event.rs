//! Path 12/13: from decode.rs, to the shell around viewer-core.
//! What a shell must know besides pixels, in a queue that cannot grow: of most kinds only the newest counts.
//! Knows owned values only, so that an event outlives the bytes it came from.

use std::collections::VecDeque;

use thinc_protocol::session::CloseCode;
use thinc_region::Size;

/// Something the shell acts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewerEvent {
    /// The session has answered and this is its name.
    Connected {
        /// At most 64 bytes.
        name: String,
    },
    /// The screen has this size now; the framebuffer is black until updates fill it.
    Geometry(Size),
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

/// Events not yet polled. Bounded: an event replaces an older one of its kind, but barriers (as many as were asked for)
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
