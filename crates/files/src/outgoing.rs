//! Path beside the pixels, in both directions: under endpoint.rs, one transfer that this side
//! offers. Which entries are offered already, which bytes shall be read, hashed and sent next, and
//! what is unconfirmed. Knows one transfer; the window and the others are endpoint.rs's.

use std::collections::VecDeque;

use thinc_clipboard::Sent;
use thinc_protocol::Micros;
use thinc_protocol::file::{FileMessage, FileOffer};
use thinc_protocol::limits::{FILE_DATA_BYTES_MAX, FILE_OVERHEAD_BYTES};

use crate::offer::{EntryHash, Offer};

/// 256 KiB: read at once; a disk or a browser's file then costs little per byte.
pub(crate) const READ_BYTES: u64 = 256 * 1024;
/// 512 KiB: read ahead of what is sent, so that reading and sending overlap.
const READ_AHEAD: u64 = 512 * 1024;

/// A transfer that this side offers.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) id: u32,
    pub(crate) offer: Offer,
    pub(crate) state: OutgoingState,
    /// What was sent, as TAKEN counts it.
    pub(crate) sent: u64,
    /// What of it was taken.
    pub(crate) taken: u64,
    /// Unconfirmed pieces, each with the count at its end and the bytes of content up to there.
    pub(crate) pieces: VecDeque<(u64, u64, Sent)>,
    /// Bytes of content that were taken, on this connection or an earlier one.
    pub(crate) done: u64,
    pub(crate) deadline: Micros,
}

#[derive(Debug)]
pub(crate) enum OutgoingState {
    /// This many entries are offered.
    Offering(usize),
    /// All are offered; there is no answer yet.
    Offered,
    Sending(Sending),
}

/// A transfer that was accepted.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The file to send from; the number of entries once all are sent.
    pub(crate) entry: usize,
    /// The next byte of it to send.
    pub(crate) offset: u64,
    /// Bytes of it that were supplied: hashed, or waiting in `buffer`.
    supplied: u64,
    /// All of it was supplied, so its owner has checked that it did not change.
    whole: bool,
    /// A read was asked for and not answered.
    reading: bool,
    hash: EntryHash,
    /// Supplied bytes that are to be sent; they begin at `offset`.
    buffer: VecDeque<u8>,
}

impl Sending {
    pub(crate) fn new(offer: &Offer, entry: usize, offset: u64) -> Sending {
        let entry = if offset == 0 { offer.file_from(entry) } else { entry };
        Sending {
            entry,
            offset,
            supplied: 0,
            whole: false,
            reading: false,
            hash: EntryHash::default(),
            buffer: VecDeque::new(),
        }
    }

    /// The next read: position and bytes.
    pub(crate) fn poll_read(&mut self, offer: &Offer) -> Option<(u64, u64)> {
        let size = offer.entries().get(self.entry)?.size;
        if self.whole || self.reading || self.supplied.saturating_sub(self.offset) >= READ_AHEAD {
            return None;
        }
        self.reading = true;
        Some((self.supplied, READ_BYTES.min(size - self.supplied)))
    }

    /// The answer to a read; false if it is not what was asked for.
    pub(crate) fn supply(&mut self, offer: &Offer, offset: u64, bytes: &[u8]) -> bool {
        let Some(entry) = offer.entries().get(self.entry) else { return false };
        let expected = READ_BYTES.min(entry.size - self.supplied);
        if !self.reading || offset != self.supplied || bytes.len() as u64 != expected {
            return false;
        }
        self.reading = false;
        self.supplied += expected;
        self.whole = self.supplied == entry.size;
        // What the other side has already is hashed only.
        let there = self.offset.saturating_sub(offset).min(expected) as usize;
        self.hash.update(&bytes[..there]);
        self.buffer.extend(&bytes[there..]);
        true
    }

    /// True if a read there was asked for and is not answered.
    pub(crate) fn awaits(&self, entry: usize, offset: u64) -> bool {
        self.reading && self.entry == entry && self.supplied == offset
    }

    pub(crate) fn is_ready(&self, offer: &Offer) -> bool {
        let Some(entry) = offer.entries().get(self.entry) else { return false };
        !self.buffer.is_empty() || (self.whole && self.offset == entry.size)
    }

    fn poll_data(&mut self, id: u32, offer: &Offer, bytes_max: usize) -> (FileMessage, u64) {
        let size = offer.entries()[self.entry].size;
        let (entry, offset) = (self.entry as u32, self.offset);
        let count = self.buffer.len().min(bytes_max).min(FILE_DATA_BYTES_MAX);
        let bytes: Vec<u8> = self.buffer.drain(..count).collect();
        self.hash.update(&bytes);
        self.offset += count as u64;
        let hash = (self.offset == size).then(|| self.hash.take());
        if hash.is_some() {
            *self = Sending::new(offer, self.entry + 1, 0);
        }
        (FileMessage::Data { id, entry, offset, hash, bytes }, count as u64)
    }
}

impl Outgoing {
    /// What is left to send, to choose the shortest first; None if nothing can be sent now.
    pub(crate) fn unsent(&self) -> Option<u64> {
        match &self.state {
            OutgoingState::Offering(_) => Some(0),
            OutgoingState::Offered => None,
            OutgoingState::Sending(sending) => sending.is_ready(&self.offer).then(|| {
                self.offer.total() - self.offer.bytes_before(sending.entry, sending.offset)
            }),
        }
    }

    /// Everything is sent, and only the receiver's word is missing.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(&self.state, OutgoingState::Sending(sending)
            if sending.entry == self.offer.entries().len())
    }

    /// True before anything of it was sent.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.state, OutgoingState::Offering(0))
    }

    /// The next piece and what it counts, of at most `bytes_max` if that is possible: an entry is
    /// never divided.
    pub(crate) fn poll_piece(&mut self, bytes_max: u64) -> (FileMessage, u64) {
        match &mut self.state {
            OutgoingState::Offering(first) => {
                let all = self.offer.entries();
                let (mut end, mut count) = (*first, 0);
                while let Some(entry) = all.get(end) {
                    let more = FILE_OVERHEAD_BYTES + entry.path.len() as u64;
                    if end > *first && count + more > bytes_max {
                        break;
                    }
                    count += more;
                    end += 1;
                }
                let message = FileMessage::Offer(FileOffer {
                    id: self.id,
                    first: *first as u32,
                    count: all.len() as u32,
                    total: self.offer.total(),
                    purpose: self.offer.purpose().clone(),
                    entries: all[*first..end].to_vec(),
                });
                self.state = if end == all.len() {
                    OutgoingState::Offered
                } else {
                    OutgoingState::Offering(end)
                };
                (message, count)
            }
            OutgoingState::Sending(sending) => {
                let bytes = bytes_max.saturating_sub(FILE_OVERHEAD_BYTES).max(1) as usize;
                let (message, bytes) = sending.poll_data(self.id, &self.offer, bytes);
                (message, bytes + FILE_OVERHEAD_BYTES)
            }
            OutgoingState::Offered => unreachable!("only what can be sent is polled"),
        }
    }

    /// Bytes of content that were sent, or were there before.
    pub(crate) fn content_sent(&self) -> u64 {
        match &self.state {
            OutgoingState::Offering(_) | OutgoingState::Offered => 0,
            OutgoingState::Sending(sending) => {
                self.offer.bytes_before(sending.entry, sending.offset)
            }
        }
    }
}
