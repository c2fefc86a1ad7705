//! Path beside the pixels: under viewer.rs, from the viewer's ends of the clipboard and files
//! channels, to its messages.
//! When their content is sent: after everything of the display, in chunks as large as an update; a
//! paste, for which somebody waits, before files. Knows that chunks wait and their size;
//! thinc-clipboard and thinc-files know what they contain.

use thinc_files::FilesPolicy;
use thinc_protocol::Micros;
use thinc_protocol::session::SessionMessage;

use super::Viewer;
use crate::queue::command_queue::Lane;

/// A quarter of a second: how long a busy display may delay a piece of content. 2 KiB each time are
/// 6 % of 1 Mbit/s, so that a paste completes.
const WAIT_MAX: Micros = 250_000;
const LATE_BYTES: usize = 2 * 1024;

/// What of a viewer is sent behind its display, other than the clipboard.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) files: thinc_files::Endpoint,
    /// What the viewer has announced.
    caps: u32,
    /// Since when a piece of content waits to be sent, of a file or of the clipboard.
    waits_since: Option<Micros>,
}

impl Background {
    pub(super) fn new(files: FilesPolicy, caps: u32) -> Background {
        Background { files: thinc_files::Endpoint::new(files), caps, waits_since: None }
    }

    /// The capabilities that the viewer has announced.
    pub(crate) fn caps(&self) -> u32 {
        self.caps
    }

    pub(super) fn waits(&self) -> bool {
        self.waits_since.is_some()
    }
}

impl Viewer {
    /// Something of the display waits to be sent.
    fn shows(&self) -> bool {
        !self.pending.queue.is_empty() || self.delivery.ledger.unsent_len() > 0
    }

    /// Offers of the clipboard, requests and answers: a few bytes each.
    pub(super) fn transmit_background_control(&mut self, out: &mut Vec<u8>) {
        while let Some(message) = self.channels.clipboard.poll_control() {
            SessionMessage::Clip(message).encode(out);
        }
        while let Some(message) = self.channels.background.files.poll_control() {
            SessionMessage::File(message).encode(out);
        }
    }

    /// Bytes of the next piece that waits; 0 if none does.
    fn piece_bytes(&self, now: Micros) -> usize {
        match self.channels.clipboard.piece_bytes(now) {
            0 => self.channels.background.files.piece_bytes(now),
            bytes => bytes,
        }
    }

    /// Sends one piece that the display has delayed for too long, unless an input response is next.
    pub(super) fn transmit_late_piece(&mut self, now: Micros, out: &mut Vec<u8>) {
        let late =
            self.channels.background.waits_since.is_some_and(|since| now >= since + WAIT_MAX);
        let is_input_response = || {
            self.delivery
                .ledger
                .next(now)
                .is_some_and(|at| self.delivery.ledger.next_bytes(at).0 == Lane::RealTime)
        };
        if late && !is_input_response() {
            self.transmit_piece(LATE_BYTES, now, out);
        }
    }

    /// Sends pieces while nothing of the display waits. They share no chunk with an update, which
    /// would be shown only after them.
    pub(super) fn transmit_pieces(&mut self, now: Micros, start: usize, out: &mut Vec<u8>) {
        if self.piece_bytes(now) == 0 {
            self.channels.background.waits_since = None;
            return;
        }
        self.channels.background.waits_since.get_or_insert(now);
        if self.shows() || out.len() > start {
            return;
        }
        let most = self.delivery.flow.update_bytes() as usize;
        while out.len() - start < self.delivery.flow.chunk_bytes()
            && self.transmit_piece(most, now, out)
        {}
    }

    fn transmit_piece(&mut self, bytes_max: usize, now: Micros, out: &mut Vec<u8>) -> bool {
        let bytes = self.piece_bytes(now).min(bytes_max);
        if bytes == 0 || !self.delivery.flow.may_send(bytes as u64, now) {
            return false;
        }
        let clip = self.channels.clipboard.poll_piece(bytes, now).map(SessionMessage::Clip);
        let file =
            || self.channels.background.files.poll_piece(bytes, now).map(SessionMessage::File);
        let Some(piece) = clip.or_else(file) else { return false };
        let before = out.len();
        piece.encode(out);
        self.delivery.flow.control_sent((out.len() - before) as u64, now);
        self.channels.background.waits_since = None;
        true
    }

    /// When a piece may be sent without an event; None if only an acknowledgement or an idle
    /// display helps.
    pub(super) fn background_deadline(&self, now: Micros) -> Option<Micros> {
        let since = self.channels.background.waits_since.filter(|_| self.piece_bytes(now) > 0);
        let leaves = since.and_then(|since| {
            if self.shows() {
                Some(since + WAIT_MAX).filter(|&at| at > now)
            } else {
                self.delivery.flow.room_at(now)
            }
        });
        let timeouts = [
            self.channels.clipboard.poll_deadline(),
            self.channels.background.files.poll_deadline(),
        ];
        leaves.into_iter().chain(timeouts.into_iter().flatten()).min()
    }
}
