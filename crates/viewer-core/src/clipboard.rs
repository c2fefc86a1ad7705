//! Path beside the pixels, in both directions: from decode.rs and the shell, to outbox.rs.
//! The viewer's end of the clipboard channel and its share of the connection: clipboard contents
//! are sent behind everything else. Knows messages and when its messages are sent; their meaning is
//! thinc-clipboard's.

use std::sync::Arc;

use thinc_clipboard::{ClipError, ClipboardPolicy, Endpoint, Side};
use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipMessage};
use thinc_protocol::limits::CLIP_DATA_BYTES_MAX;
use thinc_protocol::session::{SessionCaps, SessionHello};
use thinc_protocol::viewer::ViewerMessage;

use crate::outbox::Outbox;
use crate::stats::ViewerStats;

#[derive(Debug)]
pub(crate) struct Clipboard {
    pub(crate) end: Endpoint,
    /// The newest time passed in: chunks are sent right after the event that made room for them.
    now: Micros,
}

impl Clipboard {
    pub(crate) fn new(policy: ClipboardPolicy) -> Clipboard {
        Clipboard { end: Endpoint::new(Side::Viewer, policy), now: 0 }
    }

    pub(crate) fn handle_hello(&mut self, hello: &SessionHello) {
        self.end.set_offers_wanted(hello.caps & SessionCaps::CLIPBOARD != 0);
    }

    pub(crate) fn handle(
        &mut self,
        message: &ClipMessage,
        stats: &mut ViewerStats,
        now: Micros,
    ) -> Result<(), ClipError> {
        self.now = self.now.max(now);
        match message {
            ClipMessage::Offer { .. } => stats.clip_offers_in += 1,
            ClipMessage::Data { bytes, .. } => stats.clip_bytes_in += bytes.len() as u64,
            _ => {}
        }
        self.end.handle(message, now)
    }

    pub(crate) fn provide(&mut self, id: u32, content: Result<Vec<u8>, ClipEnd>, now: Micros) {
        self.now = self.now.max(now);
        self.end.provide(id, content.map(Arc::new), now);
    }

    pub(crate) fn timeout(&mut self, now: Micros) {
        self.now = self.now.max(now);
        self.end.handle_timeout(now);
    }

    /// Queues every message but contents, in order with input.
    pub(crate) fn poll_control(&mut self, outbox: &mut Outbox, stats: &mut ViewerStats) {
        while let Some(message) = self.end.poll_control() {
            stats.clip_offers_out += u64::from(matches!(message, ClipMessage::Offer { .. }));
            outbox.push(&ViewerMessage::Clip(message));
        }
    }

    /// Appends the chunks of contents that may be sent; true if there were any. They are only as
    /// many as keep the path busy, so that user input queues behind few bytes.
    pub(crate) fn poll_pieces(&mut self, out: &mut Vec<u8>, stats: &mut ViewerStats) -> bool {
        let before = out.len();
        while let Some(message) = self.end.poll_piece(CLIP_DATA_BYTES_MAX, self.now) {
            if let ClipMessage::Data { bytes, .. } = &message {
                stats.clip_bytes_out += bytes.len() as u64;
            }
            ViewerMessage::Clip(message).encode(out);
        }
        out.len() > before
    }
}
