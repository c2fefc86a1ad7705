//! Path beside the pixels, in both directions: between a connection and who reads and writes files.
//! One end of the files channel. The side that offers numbers its transfers; the other answers each
//! with a place to begin, takes exactly what was offered, in order, and checks hashes. Knows
//! messages and limits; never where a file comes from or goes to.
//!
//! Everything is bounded: eight transfers are offered in each direction, a ninth is answered as
//! busy; what is not taken is limited in both directions; if the other side does not read its
//! answers, the connection ends. Every transfer has a deadline. A lost connection ends none of its
//! transfers for their owners: they are offered again, and go on where they stopped.

use std::collections::VecDeque;
use std::sync::Arc;

use thinc_clipboard::Window;
use thinc_protocol::Micros;
use thinc_protocol::file::{
    FILE_HASH_BYTES, FileAnswer, FileEnd, FileKind, FileMessage, FileOffer, FilePurpose,
};
use thinc_protocol::limits::{
    FILE_DATA_BYTES_MAX, FILE_OVERHEAD_BYTES, FILE_TRANSFERS_MAX, FILE_UNTAKEN_BYTES_MAX,
};

use crate::FilesPolicy;
use crate::incoming::{Chunk, Collecting, Incoming, IncomingState, Receiving, Start};
use crate::offer::{Offer, OfferError};
use crate::outgoing::{Outgoing, OutgoingState, Sending};

/// 60 s: a transfer without progress is ended, on either side. A disk that wakes up, or a display
/// that is busy, delays one by seconds.
const TRANSFER_TIMEOUT: Micros = 60_000_000;
/// 10 min: a person who is asked may be away from their desk.
const QUESTION_TIMEOUT: Micros = 600_000_000;
/// 20 bytes per microsecond: how fast a side reads, at the least, what the other has already, to
/// hash it. A disk reads 100 MB/s, and SHA-256 in a browser takes as long.
const HASHED_PER_MICRO: u64 = 20;
/// 64: queued answers; a side that offers and never reads exceeds it.
const ANSWERS_MAX: usize = 64;

/// An event for the owner of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEvent {
    /// The other side offers files; [`Endpoint::answer`] answers.
    Offered {
        /// This end's number for it.
        id: u32,
        /// What it offers.
        offer: Arc<Offer>,
    },
    /// The next bytes of a file that this side receives, in order; [`Endpoint::stored`] confirms
    /// them.
    Data {
        /// The transfer.
        id: u32,
        /// The number of the entry.
        entry: u32,
        /// Position of the first byte in the file.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// The file is complete, and its hash is right.
        last: bool,
    },
    /// A transfer that the other side offered has ended, other than by this side.
    Stopped {
        /// The transfer.
        id: u32,
        /// The reason.
        why: FileEnd,
    },
    /// The other side has answered an offer of this side. After `Yes` it is read; after `Asking`
    /// another answer follows; any other answer ends it.
    Answered {
        /// Number of the offer.
        id: u32,
        /// The answer.
        answer: FileAnswer,
    },
    /// These bytes of a file are needed; [`Endpoint::supply`] or [`Endpoint::withdraw`] answers.
    /// With the last byte of a file, its owner checks that the file did not change. An empty file
    /// is asked for too.
    Wanted {
        /// The transfer.
        id: u32,
        /// The number of the entry.
        entry: u32,
        /// Position of the first byte.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A transfer that this side offers has ended, other than by this side; `Done` if the other
    /// side has stored all of it.
    Ended {
        /// The transfer.
        id: u32,
        /// The reason.
        why: FileEnd,
    },
}

/// How far a transfer is, in bytes of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Stored at the receiver.
    pub done: u64,
    /// All of it.
    pub total: u64,
}

/// A violation of the protocol by the other side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// More offers than can be told apart.
    #[error("{} offers of files on one connection", u32::MAX)]
    Offers,
    /// Two offers with the same number.
    #[error("files are offered twice as transfer {0}")]
    Twice(u32),
    /// A message that does not continue its offer.
    #[error("a message does not continue the offer of files {0}")]
    Continuation(u32),
    /// The entries are no offer.
    #[error("an offer of files: {0}")]
    Offer(#[from] OfferError),
    /// The sizes do not add up to the total.
    #[error("files of {sum} bytes are offered as {announced} bytes")]
    Total {
        /// The offer's total.
        announced: u64,
        /// The sum of the sizes.
        sum: u64,
    },
    /// Content that nobody has accepted.
    #[error("content of the files {0}, which were not accepted")]
    Unaccepted(u32),
    /// Content after all of it.
    #[error("more content of the files {0} than was offered")]
    Surplus(u32),
    /// Content that does not follow what came before, or exceeds its file.
    #[error("{bytes} bytes at {offset} of entry {entry} do not continue the files {id}")]
    Position {
        /// The transfer.
        id: u32,
        /// The entry.
        entry: u32,
        /// The position.
        offset: u64,
        /// The chunk's length.
        bytes: usize,
    },
    /// More content than may be sent before it is taken.
    #[error(
        "{untaken} bytes of the files {id} sent and not taken; at most {FILE_UNTAKEN_BYTES_MAX}"
    )]
    Untaken {
        /// The transfer.
        id: u32,
        /// What would be untaken.
        untaken: u64,
    },
    /// An answer to what was answered, or a place to begin that does not exist.
    #[error("the answer {answer:?} to the files {id} is not possible")]
    Answer {
        /// The transfer.
        id: u32,
        /// The answer.
        answer: FileAnswer,
    },
    /// Confirmation of what was not sent.
    #[error("{taken} bytes of the files {id} confirmed, but only {sent} were sent")]
    TakenAhead {
        /// The transfer.
        id: u32,
        /// Confirmed.
        taken: u64,
        /// Sent.
        sent: u64,
    },
    /// "Done" by the side that sends, or before everything was sent.
    #[error("the files {0} are said to be stored and cannot be")]
    Done(u32),
    /// The other side sends offers and does not read the answers.
    #[error("{ANSWERS_MAX} answers about files are queued and not read")]
    Unread,
}

/// One end of a connection's files channel.
///
/// `handle` takes messages of the other side; `poll_control`, `poll_piece` and `poll_event` give
/// what is to be sent and done. This side numbers its transfers, in `Answered`, `Wanted` and
/// `Ended`, and also those of the other side, in `Offered`, `Data` and `Stopped`: the other side
/// may use a number again, while its owner here is still busy with the transfer that had it. No
/// number is given twice.
#[derive(Debug)]
pub struct Endpoint {
    policy: FilesPolicy,
    last_id: u32,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    /// The number of the newest incoming transfer.
    last_key: u32,
    window: Window,
    answers: VecDeque<FileMessage>,
    /// Incoming transfers with bytes that were taken and are not confirmed yet.
    taken: Vec<u32>,
    events: VecDeque<FileEvent>,
}

impl Endpoint {
    /// An endpoint without transfers.
    pub fn new(policy: FilesPolicy) -> Endpoint {
        Endpoint {
            policy,
            last_id: 0,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            last_key: 0,
            window: Window::new(),
            answers: VecDeque::new(),
            taken: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Replaces the policy while connected. Transfers that it no longer allows end, at both sides.
    pub fn set_policy(&mut self, policy: FilesPolicy) {
        let refused = |outgoing: &&Outgoing| !policy.gives(outgoing.offer.purpose());
        while let Some(outgoing) = self.outgoing.iter().find(refused) {
            let id = outgoing.id;
            self.withdraw(id, FileEnd::Policy);
            self.events.push_back(FileEvent::Ended { id, why: FileEnd::Policy });
        }
        let refused = |incoming: &&Incoming| !policy.takes(incoming.purpose());
        while let Some(incoming) = self.incoming.iter().find(refused) {
            let id = incoming.key;
            self.stop(id, FileEnd::Policy);
            self.events.push_back(FileEvent::Stopped { id, why: FileEnd::Policy });
        }
        self.policy = policy;
    }

    // ---- what this side offers

    /// Offers files; `Answered` follows, or `Ended`.
    ///
    /// # Errors
    /// The policy does not allow it, or too many transfers are in progress.
    pub fn offer(&mut self, offer: Offer, now: Micros) -> Result<u32, OfferError> {
        if !self.policy.gives(offer.purpose()) {
            return Err(OfferError::Policy);
        }
        let (bytes, limit) = (offer.total(), self.policy.bytes_max(offer.purpose()));
        if bytes > limit {
            return Err(OfferError::Bytes { bytes, limit });
        }
        if self.outgoing.len() >= FILE_TRANSFERS_MAX {
            return Err(OfferError::Busy(self.outgoing.len()));
        }
        self.last_id = self.last_id.wrapping_add(1);
        let id = self.last_id;
        self.outgoing.push(Outgoing {
            id,
            offer,
            state: OutgoingState::Offering(0),
            sent: 0,
            taken: 0,
            pieces: VecDeque::new(),
            done: 0,
            deadline: now + TRANSFER_TIMEOUT,
        });
        Ok(id)
    }

    /// Answers `Wanted`; bytes from elsewhere were wanted by an earlier connection. More or fewer
    /// than were wanted mean that the file has changed.
    pub fn supply(&mut self, id: u32, entry: u32, offset: u64, bytes: &[u8], now: Micros) {
        let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| outgoing.id == id) else {
            return;
        };
        let OutgoingState::Sending(sending) = &mut outgoing.state else { return };
        if !sending.awaits(entry as usize, offset) {
            return;
        }
        outgoing.deadline = now + TRANSFER_TIMEOUT;
        if !sending.supply(&outgoing.offer, offset, bytes) {
            self.withdraw(id, FileEnd::Changed);
            self.events.push_back(FileEvent::Ended { id, why: FileEnd::Changed });
        }
    }

    /// Ends a transfer that this side offers; no event follows.
    pub fn withdraw(&mut self, id: u32, why: FileEnd) {
        let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) else { return };
        let outgoing = self.remove_outgoing(at);
        if !outgoing.is_new() {
            self.answers.push_back(FileMessage::End { id, by_receiver: false, why });
        }
    }

    /// How far a transfer that this side offers is.
    pub fn sending(&self, id: u32) -> Option<Progress> {
        let outgoing = self.outgoing.iter().find(|outgoing| outgoing.id == id)?;
        Some(Progress { done: outgoing.done, total: outgoing.offer.total() })
    }

    // ---- what the other side offers

    /// Answers an offer: after `Some(Start)` its content follows in `Data`; `None` refuses it.
    ///
    /// # Panics
    /// If `start` is not a position of the offer.
    pub fn answer(&mut self, id: u32, start: Option<Start>, now: Micros) {
        let Some(incoming) = self.incoming.iter_mut().find(|incoming| incoming.key == id) else {
            return;
        };
        let IncomingState::Offered(offer) = &incoming.state else { return };
        let Some(start) = start else {
            self.refuse(id, FileAnswer::No);
            return;
        };
        let Start { entry, offset, .. } = start;
        assert!(is_position(offer, entry, offset), "a transfer begins within its offer");
        incoming.deadline = now + TRANSFER_TIMEOUT + offset / HASHED_PER_MICRO;
        incoming.state = IncomingState::Receiving(Receiving::new(offer.clone(), start));
        let answer = FileAnswer::Yes { entry, offset };
        self.answers.push_back(FileMessage::Answer { id: incoming.id, answer });
    }

    /// Tells the other side that a person is asked, or that what is there already is read first; it
    /// then waits longer.
    pub fn ask(&mut self, id: u32, now: Micros) {
        let Some(incoming) = self.incoming.iter_mut().find(|incoming| incoming.key == id) else {
            return;
        };
        if matches!(incoming.state, IncomingState::Offered(_)) {
            incoming.deadline = now + QUESTION_TIMEOUT;
            let answer = FileAnswer::Asking;
            self.answers.push_back(FileMessage::Answer { id: incoming.id, answer });
        }
    }

    /// Refuses an offer, with the reason.
    pub fn refuse(&mut self, id: u32, answer: FileAnswer) {
        let offered = |incoming: &Incoming| {
            incoming.key == id && matches!(incoming.state, IncomingState::Offered(_))
        };
        if let Some(at) = self.incoming.iter().position(offered) {
            let Incoming { id, .. } = self.remove_incoming(at);
            self.answers.push_back(FileMessage::Answer { id, answer });
        }
    }

    /// The bytes of one `Data` are stored, or lie where they bind no memory of this process; this
    /// makes room for more.
    pub fn stored(&mut self, id: u32, bytes: usize) {
        let Some(incoming) = self.incoming.iter_mut().find(|incoming| incoming.key == id) else {
            return;
        };
        let IncomingState::Receiving(receiving) = &mut incoming.state else { return };
        receiving.stored += bytes as u64;
        incoming.taken += bytes as u64 + FILE_OVERHEAD_BYTES;
        assert!(incoming.taken <= incoming.received, "only what has arrived is stored");
        self.confirm(id);
    }

    /// All of it is stored under its names.
    ///
    /// # Panics
    /// If not all of it has arrived.
    pub fn finish(&mut self, id: u32) {
        let Some(at) = self.incoming.iter().position(|incoming| incoming.key == id) else { return };
        let IncomingState::Receiving(receiving) = &self.incoming[at].state else { return };
        assert!(receiving.is_complete(), "only what is stored is finished");
        let Incoming { id, .. } = self.remove_incoming(at);
        self.answers.push_back(FileMessage::End { id, by_receiver: true, why: FileEnd::Done });
    }

    /// Ends a transfer that the other side offers, or refuses the offer; no event follows.
    pub fn stop(&mut self, id: u32, why: FileEnd) {
        let Some(at) = self.incoming.iter().position(|incoming| incoming.key == id) else { return };
        let Incoming { id, .. } = self.remove_incoming(at);
        self.answers.push_back(FileMessage::End { id, by_receiver: true, why });
    }

    /// How far a transfer that the other side offers is, once it was accepted.
    pub fn receiving(&self, id: u32) -> Option<Progress> {
        let incoming = self.incoming.iter().find(|incoming| incoming.key == id)?;
        let IncomingState::Receiving(receiving) = &incoming.state else { return None };
        Some(Progress { done: receiving.stored, total: receiving.offer.total() })
    }

    /// What has arrived of each transfer that is not finished, by the identity of its offer. For an
    /// owner that stores all `Data` that it has polled: there it goes on over another connection.
    pub fn unfinished(&self) -> impl Iterator<Item = ([u8; FILE_HASH_BYTES], Start)> {
        self.incoming.iter().filter_map(|incoming| match &incoming.state {
            IncomingState::Receiving(receiving) => {
                Some((receiving.offer.identity(), receiving.position()))
            }
            IncomingState::Collecting(_) | IncomingState::Offered(_) => None,
        })
    }

    // ---- messages of the other side

    /// Handles a message from the other side.
    ///
    /// # Errors
    /// A violation of the protocol or of a limit, which ends the connection.
    pub fn handle(&mut self, message: &FileMessage, now: Micros) -> Result<(), FileError> {
        match *message {
            FileMessage::Offer(ref offer) => self.handle_offer(offer, now),
            FileMessage::Answer { id, answer } => self.handle_answer(id, answer, now),
            FileMessage::Data { id, entry, offset, hash, ref bytes } => {
                let Some(at) = self.incoming.iter().position(|incoming| incoming.id == id) else {
                    // It has crossed this side's END.
                    return Ok(());
                };
                let incoming = &mut self.incoming[at];
                let key = incoming.key;
                let IncomingState::Receiving(receiving) = &mut incoming.state else {
                    return Err(FileError::Unaccepted(id));
                };
                incoming.received += bytes.len() as u64 + FILE_OVERHEAD_BYTES;
                let untaken = incoming.received - incoming.taken;
                if untaken > FILE_UNTAKEN_BYTES_MAX {
                    return Err(FileError::Untaken { id, untaken });
                }
                incoming.deadline = now + TRANSFER_TIMEOUT;
                match receiving.accept(id, entry, offset, hash, bytes)? {
                    Chunk::Mismatch => {
                        self.stop(key, FileEnd::Mismatch);
                        let why = FileEnd::Mismatch;
                        self.events.push_back(FileEvent::Stopped { id: key, why });
                    }
                    chunk => {
                        let (id, last) = (key, matches!(chunk, Chunk::Last));
                        let bytes = bytes.clone();
                        self.events.push_back(FileEvent::Data { id, entry, offset, bytes, last });
                    }
                }
                Ok(())
            }
            FileMessage::Taken { id, bytes } => self.handle_taken(id, bytes, now),
            FileMessage::End { id, by_receiver: true, why } => {
                if let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) {
                    if why == FileEnd::Done && !self.outgoing[at].is_sent() {
                        return Err(FileError::Done(id));
                    }
                    self.remove_outgoing(at);
                    self.events.push_back(FileEvent::Ended { id, why });
                }
                Ok(())
            }
            FileMessage::End { id, by_receiver: false, why } => {
                if why == FileEnd::Done {
                    return Err(FileError::Done(id));
                }
                if let Some(at) = self.incoming.iter().position(|incoming| incoming.id == id) {
                    let incoming = self.remove_incoming(at);
                    if !matches!(incoming.state, IncomingState::Collecting(_)) {
                        self.events.push_back(FileEvent::Stopped { id: incoming.key, why });
                    }
                }
                Ok(())
            }
        }
    }

    fn handle_offer(&mut self, message: &FileOffer, now: Micros) -> Result<(), FileError> {
        let id = message.id;
        let known = self.incoming.iter().position(|incoming| incoming.id == id);
        let at = match (known, message.first) {
            (Some(_), 0) => return Err(FileError::Twice(id)),
            (Some(at), _) => at,
            (None, 0) => {
                // Each offer has an answer sooner or later.
                if self.answers.len() >= ANSWERS_MAX {
                    return Err(FileError::Unread);
                }
                if let Some(answer) = self.refusal(&message.purpose, message.total) {
                    self.answers.push_back(FileMessage::Answer { id, answer });
                    return Ok(());
                }
                self.last_key = self.last_key.checked_add(1).ok_or(FileError::Offers)?;
                self.incoming.push(Incoming {
                    id,
                    key: self.last_key,
                    state: IncomingState::Collecting(Collecting::new(message)),
                    received: 0,
                    taken: 0,
                    deadline: 0,
                });
                self.incoming.len() - 1
            }
            // The rest of an offer that was refused.
            (None, _) => return Ok(()),
        };
        let incoming = &mut self.incoming[at];
        let key = incoming.key;
        let IncomingState::Collecting(collecting) = &mut incoming.state else {
            return Err(FileError::Continuation(id));
        };
        collecting.add(message)?;
        let count = message.entries.iter();
        let count = count.map(|entry| FILE_OVERHEAD_BYTES + entry.path.len() as u64).sum::<u64>();
        incoming.received += count;
        incoming.taken += count;
        incoming.deadline = now + TRANSFER_TIMEOUT;
        if let Some(offer) = collecting.complete()? {
            let offer = Arc::new(offer);
            incoming.state = IncomingState::Offered(offer.clone());
            incoming.deadline = now + QUESTION_TIMEOUT;
            self.events.push_back(FileEvent::Offered { id: key, offer });
        }
        self.confirm(key);
        Ok(())
    }

    /// Why an offer of so many bytes is refused without asking this side's owner.
    fn refusal(&self, purpose: &FilePurpose, total: u64) -> Option<FileAnswer> {
        let limit = self.policy.bytes_max(purpose);
        if !self.policy.takes(purpose) {
            Some(FileAnswer::Policy)
        } else if total > limit {
            Some(FileAnswer::TooLarge { limit })
        } else if self.incoming.len() >= FILE_TRANSFERS_MAX {
            Some(FileAnswer::Busy)
        } else {
            None
        }
    }

    fn handle_answer(&mut self, id: u32, answer: FileAnswer, now: Micros) -> Result<(), FileError> {
        let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) else {
            return Ok(());
        };
        let outgoing = &mut self.outgoing[at];
        let complete = matches!(outgoing.state, OutgoingState::Offered);
        let possible = match answer {
            FileAnswer::Asking => complete,
            FileAnswer::Yes { entry, offset } => {
                complete && is_position(&outgoing.offer, entry, offset)
            }
            // A refusal may come before the whole offer has arrived, but not before any of it.
            _ => complete || matches!(outgoing.state, OutgoingState::Offering(1..)),
        };
        if !possible {
            return Err(FileError::Answer { id, answer });
        }
        match answer {
            FileAnswer::Asking => outgoing.deadline = now + QUESTION_TIMEOUT,
            FileAnswer::Yes { entry, offset } => {
                let entry = entry as usize;
                outgoing.state =
                    OutgoingState::Sending(Sending::new(&outgoing.offer, entry, offset));
                outgoing.done = outgoing.offer.bytes_before(entry, offset);
                outgoing.deadline = now + TRANSFER_TIMEOUT;
            }
            _ => {
                self.remove_outgoing(at);
            }
        }
        self.events.push_back(FileEvent::Answered { id, answer });
        Ok(())
    }

    fn handle_taken(&mut self, id: u32, taken: u64, now: Micros) -> Result<(), FileError> {
        let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| outgoing.id == id) else {
            return Ok(());
        };
        if taken > outgoing.sent {
            return Err(FileError::TakenAhead { id, taken, sent: outgoing.sent });
        }
        outgoing.taken = outgoing.taken.max(taken);
        while let Some(&(_, done, piece)) = outgoing.pieces.front().filter(|(to, ..)| *to <= taken)
        {
            self.window.confirmed(piece, now);
            outgoing.done = outgoing.done.max(done);
            outgoing.pieces.pop_front();
            if matches!(outgoing.state, OutgoingState::Sending(_)) {
                outgoing.deadline = now + TRANSFER_TIMEOUT;
            }
        }
        Ok(())
    }

    fn confirm(&mut self, key: u32) {
        if !self.taken.contains(&key) {
            self.taken.push(key);
        }
    }

    fn remove_outgoing(&mut self, at: usize) -> Outgoing {
        let outgoing = self.outgoing.swap_remove(at);
        outgoing.pieces.iter().for_each(|(_, _, piece)| self.window.forget(*piece));
        outgoing
    }

    fn remove_incoming(&mut self, at: usize) -> Incoming {
        let incoming = self.incoming.swap_remove(at);
        self.taken.retain(|&key| key != incoming.key);
        // Content that arrived before the end is not stored any more.
        self.events
            .retain(|event| !matches!(event, FileEvent::Data { id, .. } if *id == incoming.key));
        incoming
    }

    // ---- what is to be sent and done

    /// The next message other than an offer or content; a few bytes each.
    pub fn poll_control(&mut self) -> Option<FileMessage> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        let key = self.taken.pop()?;
        let incoming = self.incoming.iter().find(|incoming| incoming.key == key)?;
        Some(FileMessage::Taken { id: incoming.id, bytes: incoming.taken })
    }

    /// Bytes of the next piece, about; 0 if none may be sent: none waits, or enough is in flight.
    /// The caller decides when [`Endpoint::poll_piece`] may send it.
    pub fn piece_bytes(&self, now: Micros) -> usize {
        let Some(left) = self.sendable().map(|(_, left)| left).min() else { return 0 };
        let most = FILE_DATA_BYTES_MAX as u64 + FILE_OVERHEAD_BYTES;
        let left = if left == 0 { most } else { left.saturating_add(FILE_OVERHEAD_BYTES) };
        self.window.room(now).min(most).min(left) as usize
    }

    /// Transfers that could send a piece, and how much each has left.
    fn sendable(&self) -> impl Iterator<Item = (usize, u64)> {
        let each = self.outgoing.iter().enumerate();
        each.filter_map(|(at, outgoing)| {
            let unsent = outgoing.unsent()?;
            // The receiver bounds each transfer.
            let untaken = outgoing.sent - outgoing.taken;
            let most = FILE_DATA_BYTES_MAX as u64 + FILE_OVERHEAD_BYTES;
            (untaken + most <= FILE_UNTAKEN_BYTES_MAX).then_some((at, unsent))
        })
    }

    /// The next piece: entries of an offer, or content of the transfer with the fewest bytes left,
    /// so that a small file does not wait for a large one.
    pub fn poll_piece(&mut self, bytes_max: usize, now: Micros) -> Option<FileMessage> {
        let bytes_max = self.piece_bytes(now).min(bytes_max) as u64;
        if bytes_max == 0 {
            return None;
        }
        let (at, _) = self.sendable().min_by_key(|&(_, left)| left)?;
        let outgoing = &mut self.outgoing[at];
        let (message, count) = outgoing.poll_piece(bytes_max);
        outgoing.sent += count;
        outgoing.deadline = outgoing.deadline.max(now + TRANSFER_TIMEOUT);
        let done = outgoing.content_sent();
        outgoing.pieces.push_back((outgoing.sent, done, self.window.sent(count, now)));
        Some(message)
    }

    /// The next event for our owner.
    pub fn poll_event(&mut self) -> Option<FileEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        self.outgoing.iter_mut().find_map(|outgoing| {
            let OutgoingState::Sending(sending) = &mut outgoing.state else { return None };
            let (offset, bytes) = sending.poll_read(&outgoing.offer)?;
            let (id, entry) = (outgoing.id, sending.entry as u32);
            Some(FileEvent::Wanted { id, entry, offset, bytes })
        })
    }

    /// When the first transfer times out.
    pub fn poll_deadline(&self) -> Option<Micros> {
        let outgoing = self.outgoing.iter().map(|outgoing| outgoing.deadline);
        outgoing.chain(self.incoming.iter().map(|incoming| incoming.deadline)).min()
    }

    /// Ends transfers without progress.
    pub fn handle_timeout(&mut self, now: Micros) {
        while let Some(late) = self.outgoing.iter().find(|outgoing| outgoing.deadline <= now) {
            let id = late.id;
            self.withdraw(id, FileEnd::Failed);
            self.events.push_back(FileEvent::Ended { id, why: FileEnd::Failed });
        }
        while let Some(late) = self.incoming.iter().find(|incoming| incoming.deadline <= now) {
            let id = late.key;
            let is_known = !matches!(late.state, IncomingState::Collecting(_));
            self.stop(id, FileEnd::Failed);
            if is_known {
                self.events.push_back(FileEvent::Stopped { id, why: FileEnd::Failed });
            }
        }
    }

    /// Checks the invariants; for tests.
    ///
    /// # Panics
    /// If one is violated, with the invariant in words.
    pub fn check_invariants(&self) {
        let pieces = self.outgoing.iter().flat_map(|outgoing| &outgoing.pieces);
        self.window.check_invariants(pieces.map(|(_, _, piece)| piece.bytes));
        assert!(self.outgoing.len() <= FILE_TRANSFERS_MAX, "outgoing transfers are limited");
        assert!(self.incoming.len() <= FILE_TRANSFERS_MAX, "incoming transfers are limited");
        assert!(self.taken.len() <= FILE_TRANSFERS_MAX, "each transfer is confirmed once");
        for outgoing in &self.outgoing {
            assert!(outgoing.taken <= outgoing.sent, "only what was sent is taken");
            assert!(outgoing.done <= outgoing.offer.total(), "progress has an end");
        }
        for incoming in &self.incoming {
            let untaken = incoming.received - incoming.taken;
            assert!(untaken <= FILE_UNTAKEN_BYTES_MAX, "what is not taken is limited");
        }
    }
}

/// True if a transfer may go on there: at the beginning of an entry, within a file, or at the end.
fn is_position(offer: &Offer, entry: u32, offset: u64) -> bool {
    match offer.entries().get(entry as usize) {
        Some(at) => offset == 0 || (at.kind == FileKind::File && offset <= at.size),
        None => entry as usize == offer.entries().len() && offset == 0,
    }
}
