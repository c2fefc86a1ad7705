//! Path beside the pixels: under viewer.rs, from the viewer's end of the clipboard channel, to its
//! messages.
//! When clipboard content is sent: after everything of the display, in chunks as large as an
//! update. Knows that chunks wait and their size; thinc-clipboard knows what they contain.

use thinc_protocol::Micros;
use thinc_protocol::session::SessionMessage;

use super::Viewer;
use crate::command_queue::Lane;

/// A quarter of a second: how long a busy display may delay a piece of content. 2 KiB each time are
/// 6 % of 1 Mbit/s, so that a paste completes.
const WAIT_MAX: Micros = 250_000;
const LATE_BYTES: usize = 2 * 1024;

impl Viewer {
    /// Something of the display waits to be sent.
    fn shows(&self) -> bool {
        !self.queue.is_empty() || self.updates.unsent_len() > 0
    }

    /// Offers, requests and answers: a few bytes each.
    pub(super) fn transmit_clip_control(&mut self, out: &mut Vec<u8>) {
        while let Some(message) = self.clipboard.poll_control() {
            SessionMessage::Clip(message).encode(out);
        }
    }

    /// Sends one piece that the display has delayed for too long, unless an input response is next.
    pub(super) fn transmit_late_clip(&mut self, now: Micros, out: &mut Vec<u8>) {
        let late = self.clip_waits_since.is_some_and(|since| now >= since + WAIT_MAX);
        let is_input_response = || {
            self.updates.next(now).is_some_and(|at| self.updates.next_bytes(at).0 == Lane::RealTime)
        };
        if late && !is_input_response() {
            self.transmit_clip(LATE_BYTES, now, out);
        }
    }

    /// Sends pieces while nothing of the display waits. They share no chunk with an update, which
    /// would be shown only after them.
    pub(super) fn transmit_clips(&mut self, now: Micros, start: usize, out: &mut Vec<u8>) {
        if self.clipboard.piece_bytes(now) == 0 {
            self.clip_waits_since = None;
            return;
        }
        self.clip_waits_since.get_or_insert(now);
        if self.shows() || out.len() > start {
            return;
        }
        let most = self.flow.update_bytes() as usize;
        while out.len() - start < self.flow.chunk_bytes() && self.transmit_clip(most, now, out) {}
    }

    fn transmit_clip(&mut self, bytes_max: usize, now: Micros, out: &mut Vec<u8>) -> bool {
        let bytes = self.clipboard.piece_bytes(now).min(bytes_max);
        if bytes == 0 || !self.flow.may_send(bytes as u64, now) {
            return false;
        }
        let Some(piece) = self.clipboard.poll_piece(bytes, now) else { return false };
        let before = out.len();
        SessionMessage::Clip(piece).encode(out);
        self.flow.control_sent((out.len() - before) as u64);
        self.clip_waits_since = None;
        true
    }

    /// When a piece may be sent without an event; None if only an acknowledgement or an idle
    /// display helps.
    pub(super) fn clip_deadline(&self, now: Micros) -> Option<Micros> {
        let since = self.clip_waits_since.filter(|_| self.clipboard.piece_bytes(now) > 0);
        let leaves = since.and_then(|since| {
            if self.shows() {
                Some(since + WAIT_MAX).filter(|&at| at > now)
            } else {
                self.flow.room_at(now)
            }
        });
        leaves.into_iter().chain(self.clipboard.poll_deadline()).min()
    }
}
