//! Path beside the pixels, in both directions: between a connection and the owner of a clipboard.
//! One end of the clipboard channel: each side's offers, requests, and contents transferred in
//! chunks. Knows two sides and eight transfers in each direction; never what a content means, nor
//! which application pastes it.
//!
//! Everything is bounded: only the newest offer of a selection counts, eight transfers run in each
//! direction, a content is limited by the policy, and if the other side does not read its answers,
//! the connection ends. Every transfer has a deadline.

use std::collections::VecDeque;
use std::sync::Arc;

use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::limits::{CLIP_DATA_BYTES_MAX, CLIP_TRANSFERS_MAX};

use crate::ClipboardPolicy;
use crate::content::is_content;
use crate::window::{Sent, Window};

/// 30 s: a transfer without progress is ended, on either side. A browser may have to ask its user
/// before it provides a content; pasting applications give up sooner.
const TRANSFER_TIMEOUT: Micros = 30_000_000;
/// 64: queued answers, twice as many as eight requests and their ends make; a side that requests
/// and never reads exceeds it.
const ANSWERS_MAX: usize = 64;
/// 256 KiB: memory reserved for a content when it starts, since its length is not known.
const CONTENT_BYTES_FIRST: usize = 256 * 1024;

/// The side of the connection that an endpoint is on; if offers cross, the viewer's wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The session.
    Session,
    /// The viewer.
    Viewer,
}

/// An event for the owner of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClipEvent {
    /// The other side owns this selection in these formats; with no format, it has lost it.
    Offered {
        /// Which.
        selection: Selection,
        /// The formats offered.
        formats: ClipFormats,
    },
    /// The other side requests the content of a selection owned here; [`Endpoint::provide`]
    /// answers.
    Wanted {
        /// Number for the answer.
        id: u32,
        /// The selection.
        selection: Selection,
        /// The format.
        format: ClipFormat,
    },
    /// The content that [`Endpoint::request`] asked for.
    Received {
        /// The transfer's number.
        id: u32,
        /// The whole content.
        content: Vec<u8>,
    },
    /// A transfer in either direction ended early.
    Ended {
        /// The transfer's number.
        id: u32,
        /// The reason.
        why: ClipEnd,
    },
}

/// A violation of the clipboard protocol by the other side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClipError {
    /// Too many requests at a time.
    #[error("more than {CLIP_TRANSFERS_MAX} clipboard contents requested at a time")]
    Transfers,
    /// Two requests with the same number.
    #[error("clipboard transfer {0} requested twice")]
    Twice(u32),
    /// An offer whose serial does not increase.
    #[error("clipboard offer {serial} after offer {newest}")]
    Serial {
        /// The offer's serial.
        serial: u32,
        /// The serial of the newest offer before it.
        newest: u32,
    },
    /// Confirmation of bytes that were not sent.
    #[error("{received} bytes of clipboard transfer {id} confirmed, but only {sent} were sent")]
    ConfirmedAhead {
        /// Which.
        id: u32,
        /// Bytes confirmed.
        received: u64,
        /// Bytes sent.
        sent: u64,
    },
    /// The other side sends requests and does not read the answers.
    #[error("{ANSWERS_MAX} clipboard answers are queued and not read")]
    Unread,
}

/// The newest offer of one side; serial 0 before the first.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    serial: u32,
    formats: ClipFormats,
    /// Still to be reported: to the other side if it is ours, to our owner if it is theirs.
    unreported: bool,
    /// Serial of our newest offer with formats, withdrawn since or not; 0 once theirs has replaced
    /// it. Unused in their offers.
    last_nonempty: u32,
}

/// A content that the other side requested.
#[derive(Debug)]
struct Outgoing {
    /// Number by which our owner knows it.
    ticket: u32,
    /// The other side's number for it.
    id: u32,
    selection: Selection,
    format: ClipFormat,
    content: Supply,
    deadline: Micros,
}

#[derive(Debug)]
enum Supply {
    /// Our owner has not been asked yet.
    New,
    /// Our owner was asked and has not answered.
    Requested,
    /// It is being sent; `pieces` are the unconfirmed ones, each with the offset of its end.
    Sending { content: Arc<Vec<u8>>, sent: usize, pieces: VecDeque<(u64, Sent)>, last_sent: bool },
}

impl Outgoing {
    /// Bytes still to send; None if there is nothing to send.
    fn unsent(&self) -> Option<usize> {
        match &self.content {
            Supply::Sending { content, sent, last_sent: false, .. } => Some(content.len() - sent),
            _ => None,
        }
    }

    /// All of it is sent, so it no longer counts against the other side's limit.
    fn is_sent(&self) -> bool {
        matches!(self.content, Supply::Sending { last_sent: true, .. })
    }
}

/// A content that this side requested.
#[derive(Debug)]
struct Incoming {
    id: u32,
    format: ClipFormat,
    content: Vec<u8>,
    deadline: Micros,
}

/// One end of a connection's clipboard channel.
///
/// `handle` takes messages of the other side; `poll_control`, `poll_piece` and `poll_event` give
/// what is to be sent and done.
#[derive(Debug)]
pub struct Endpoint {
    side: Side,
    policy: ClipboardPolicy,
    /// The other side wants our offers; false until its hello.
    offers_wanted: bool,
    last_serial: u32,
    last_id: u32,
    ours: [Offer; 2],
    theirs: [Offer; 2],
    /// Serial of their newest offer of either selection.
    seen: u32,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    window: Window,
    answers: VecDeque<ClipMessage>,
    /// Bytes received and not confirmed yet, one entry per transfer.
    received: Vec<(u32, u64)>,
    events: VecDeque<ClipEvent>,
}

impl Endpoint {
    /// An endpoint without offers, whose other side wants none yet.
    pub fn new(side: Side, policy: ClipboardPolicy) -> Endpoint {
        Endpoint {
            side,
            policy,
            offers_wanted: false,
            last_serial: 0,
            last_id: 0,
            ours: [Offer::default(); 2],
            theirs: [Offer::default(); 2],
            seen: 0,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            window: Window::new(),
            answers: VecDeque::new(),
            received: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Sets whether the other side's hello asks for our offers.
    pub fn set_offers_wanted(&mut self, offers_wanted: bool) {
        self.offers_wanted = offers_wanted;
    }

    /// Replaces the policy while connected. What it no longer allows ends: transfers without a
    /// report to the owner, who has given them up, and offers of this side by a withdrawal.
    pub fn set_policy(&mut self, policy: ClipboardPolicy) {
        if !policy.give {
            for selection in Selection::ALL {
                self.offer(selection, ClipFormats::NONE);
            }
            while !self.outgoing.is_empty() {
                let outgoing = self.remove_outgoing(0);
                if !outgoing.is_sent() {
                    let (id, why) = (outgoing.id, ClipEnd::Unavailable);
                    self.answers.push_back(ClipMessage::End { id, by_requester: false, why });
                }
            }
        }
        if !policy.take {
            while let Some(incoming) = self.incoming.first() {
                self.cancel(incoming.id);
            }
            for theirs in &mut self.theirs {
                *theirs = Offer { formats: ClipFormats::NONE, unreported: false, ..*theirs };
            }
        }
        self.policy = policy;
        for selection in Selection::ALL {
            let offered = self.ours[selection as usize].formats;
            if policy.given(offered) != offered {
                self.offer(selection, offered);
            }
            let theirs = &mut self.theirs[selection as usize];
            theirs.formats = policy.taken(theirs.formats);
        }
    }

    /// An application on this side owns the selection in these formats; with no format, none does.
    pub fn offer(&mut self, selection: Selection, formats: ClipFormats) {
        if !self.policy.give {
            return;
        }
        let formats = self.policy.given(formats);
        let (ours, theirs) =
            (&mut self.ours[selection as usize], &mut self.theirs[selection as usize]);
        if formats.is_empty() && ours.formats.is_empty() {
            // Nothing was offered, or it is withdrawn already; the other side may even own the
            // selection now.
            return;
        }
        self.last_serial += 1;
        let last_nonempty = if formats.is_empty() { ours.last_nonempty } else { self.last_serial };
        *ours = Offer { serial: self.last_serial, formats, unreported: true, last_nonempty };
        if !formats.is_empty() {
            *theirs = Offer { unreported: false, formats: ClipFormats::NONE, ..*theirs };
        }
        // The previous owner was not asked yet and cannot be asked any more.
        let is_outdated = |outgoing: &Outgoing| {
            outgoing.selection == selection && matches!(outgoing.content, Supply::New)
        };
        for outgoing in self.outgoing.extract_if(.., |outgoing| is_outdated(outgoing)) {
            self.answers.push_back(ClipMessage::End {
                id: outgoing.id,
                by_requester: false,
                why: ClipEnd::Unavailable,
            });
        }
    }

    /// At the start of a connection, after the present offers: withdraws all other selections. The
    /// other side may still hold offers of an earlier connection.
    pub fn withdraw_unoffered(&mut self) {
        for ours in self.ours.iter_mut().filter(|ours| self.policy.give && ours.serial == 0) {
            self.last_serial += 1;
            *ours = Offer { serial: self.last_serial, unreported: true, ..Offer::default() };
        }
    }

    /// Formats in which the other side offers this selection.
    pub fn offered(&self, selection: Selection) -> ClipFormats {
        if self.policy.take { self.theirs[selection as usize].formats } else { ClipFormats::NONE }
    }

    /// Requests the content of the other side's selection; `Received` or `Ended` answers. None: the
    /// format is not offered, or eight transfers are in progress.
    pub fn request(
        &mut self,
        selection: Selection,
        format: ClipFormat,
        now: Micros,
    ) -> Option<u32> {
        if !self.offered(selection).has(format) || self.incoming.len() >= CLIP_TRANSFERS_MAX {
            return None;
        }
        let id = self.next_id();
        self.incoming.push(Incoming {
            id,
            format,
            content: Vec::new(),
            deadline: now + TRANSFER_TIMEOUT,
        });
        let serial = self.theirs[selection as usize].serial;
        self.answers.push_back(ClipMessage::Request { id, selection, serial, format });
        Some(id)
    }

    /// Cancels a request.
    pub fn cancel(&mut self, id: u32) {
        if let Some(at) = self.incoming.iter().position(|incoming| incoming.id == id) {
            self.incoming.swap_remove(at);
            // A request that was not sent is removed; otherwise an application that requests and
            // cancels in a loop would fill the queue.
            let request = |answer: &ClipMessage| {
                let ClipMessage::Request { id: of, .. } = *answer else { return false };
                of == id
            };
            if let Some(unsent) = self.answers.iter().position(request) {
                self.answers.remove(unsent);
                return;
            }
            self.answers.push_back(ClipMessage::End {
                id,
                by_requester: true,
                why: ClipEnd::Cancelled,
            });
        }
    }

    /// Answers `Wanted`. A content that is longer than the policy allows, or of another format, is
    /// not sent; `Ended` reports it.
    pub fn provide(&mut self, id: u32, content: Result<Arc<Vec<u8>>, ClipEnd>, now: Micros) {
        let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.ticket == id) else {
            return;
        };
        let outgoing = &mut self.outgoing[at];
        if !matches!(outgoing.content, Supply::Requested) {
            return;
        }
        let why = match content {
            Err(why) => why,
            Ok(content) if content.len() > self.policy.bytes_max() => {
                let limit = self.policy.bytes_max() as u64;
                let why = ClipEnd::TooLarge { bytes: content.len() as u64, limit };
                self.events.push_back(ClipEvent::Ended { id, why });
                why
            }
            Ok(content) if !is_content(outgoing.format, &content) => {
                self.events.push_back(ClipEvent::Ended { id, why: ClipEnd::Failed });
                ClipEnd::Failed
            }
            Ok(content) => {
                outgoing.content =
                    Supply::Sending { content, sent: 0, pieces: VecDeque::new(), last_sent: false };
                outgoing.deadline = now + TRANSFER_TIMEOUT;
                return;
            }
        };
        let id = self.outgoing.swap_remove(at).id;
        self.answers.push_back(ClipMessage::End { id, by_requester: false, why });
    }

    /// Handles a message from the other side.
    ///
    /// # Errors
    /// A violation of the protocol or of a limit, which ends the connection.
    pub fn handle(&mut self, message: &ClipMessage, now: Micros) -> Result<(), ClipError> {
        match *message {
            ClipMessage::Offer { selection, serial, seen, formats } => {
                self.handle_offer(selection, serial, seen, formats)
            }
            ClipMessage::Request { id, selection, serial, format } => {
                self.handle_request(id, selection, serial, format, now)
            }
            ClipMessage::Data { id, last, ref bytes } => {
                self.handle_data(id, last, bytes, now);
                Ok(())
            }
            ClipMessage::Received { id, bytes } => self.handle_confirmation(id, bytes, now),
            ClipMessage::End { id, by_requester: true, why } => {
                if let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) {
                    let outgoing = self.remove_outgoing(at);
                    if !matches!(outgoing.content, Supply::New) {
                        self.events.push_back(ClipEvent::Ended { id: outgoing.ticket, why });
                    }
                }
                Ok(())
            }
            ClipMessage::End { id, by_requester: false, why } => {
                if let Some(at) = self.incoming.iter().position(|incoming| incoming.id == id) {
                    self.incoming.swap_remove(at);
                    self.events.push_back(ClipEvent::Ended { id, why });
                }
                Ok(())
            }
        }
    }

    fn handle_offer(
        &mut self,
        selection: Selection,
        serial: u32,
        seen: u32,
        formats: ClipFormats,
    ) -> Result<(), ClipError> {
        if serial <= self.seen {
            return Err(ClipError::Serial { serial, newest: self.seen });
        }
        self.seen = serial;
        if !self.policy.take {
            return Ok(());
        }
        let formats = self.policy.taken(formats);
        let (ours, theirs) =
            (&mut self.ours[selection as usize], &mut self.theirs[selection as usize]);
        // The other side had not seen our offer when it made its own.
        let crossed = seen < ours.last_nonempty;
        let ours_wins = match self.side {
            Side::Viewer => true,
            Side::Session => formats.is_empty(),
        };
        if crossed && ours_wins {
            return Ok(());
        }
        if !formats.is_empty() {
            *ours =
                Offer { formats: ClipFormats::NONE, unreported: false, last_nonempty: 0, ..*ours };
        }
        *theirs = Offer { serial, formats, unreported: true, last_nonempty: 0 };
        Ok(())
    }

    fn handle_request(
        &mut self,
        id: u32,
        selection: Selection,
        serial: u32,
        format: ClipFormat,
        now: Micros,
    ) -> Result<(), ClipError> {
        // A transfer that is completely sent may be over for the requester, and its number free.
        if let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) {
            if !self.outgoing[at].is_sent() {
                return Err(ClipError::Twice(id));
            }
            self.remove_outgoing(at);
        }
        if self.outgoing.iter().filter(|outgoing| !outgoing.is_sent()).count() >= CLIP_TRANSFERS_MAX
        {
            return Err(ClipError::Transfers);
        }
        // Each request results in an answer sooner or later.
        if self.answers.len() >= ANSWERS_MAX {
            return Err(ClipError::Unread);
        }
        let ours = self.ours[selection as usize];
        if ours.serial != serial || !ours.formats.has(format) {
            self.answers.push_back(ClipMessage::End {
                id,
                by_requester: false,
                why: ClipEnd::Unavailable,
            });
            return Ok(());
        }
        let ticket = self.next_id();
        let deadline = now + TRANSFER_TIMEOUT;
        self.outgoing.push(Outgoing {
            ticket,
            id,
            selection,
            format,
            content: Supply::New,
            deadline,
        });
        Ok(())
    }

    fn handle_data(&mut self, id: u32, last: bool, bytes: &[u8], now: Micros) {
        let Some(at) = self.incoming.iter().position(|incoming| incoming.id == id) else { return };
        let limit = self.policy.bytes_max();
        let incoming = &mut self.incoming[at];
        if incoming.content.len() + bytes.len() > limit {
            let why = ClipEnd::TooLarge { bytes: 0, limit: limit as u64 };
            self.incoming.swap_remove(at);
            self.answers.push_back(ClipMessage::End { id, by_requester: true, why });
            self.events.push_back(ClipEvent::Ended { id, why });
            return;
        }
        if incoming.content.is_empty() && !last {
            incoming.content.reserve(CONTENT_BYTES_FIRST.min(limit));
        }
        incoming.content.extend_from_slice(bytes);
        incoming.deadline = now + TRANSFER_TIMEOUT;
        let received = incoming.content.len() as u64;
        match self.received.iter_mut().find(|(transfer, _)| *transfer == id) {
            Some((_, bytes)) => *bytes = received,
            None => self.received.push((id, received)),
        }
        if last {
            let Incoming { format, content, .. } = self.incoming.swap_remove(at);
            let event = if is_content(format, &content) {
                ClipEvent::Received { id, content }
            } else {
                ClipEvent::Ended { id, why: ClipEnd::Failed }
            };
            self.events.push_back(event);
        }
    }

    fn handle_confirmation(&mut self, id: u32, bytes: u64, now: Micros) -> Result<(), ClipError> {
        let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) else {
            return Ok(());
        };
        let outgoing = &mut self.outgoing[at];
        let Supply::Sending { sent, pieces, last_sent, .. } = &mut outgoing.content else {
            // Nothing was sent: the message refers to an earlier transfer with this number.
            return Ok(());
        };
        if bytes > *sent as u64 {
            return Err(ClipError::ConfirmedAhead { id, received: bytes, sent: *sent as u64 });
        }
        while let Some(&(to, piece)) = pieces.front().filter(|&&(to, _)| to <= bytes) {
            debug_assert!(to <= *sent as u64, "a piece ends within the bytes sent");
            self.window.confirmed(piece, now);
            pieces.pop_front();
            outgoing.deadline = now + TRANSFER_TIMEOUT;
        }
        if *last_sent && pieces.is_empty() {
            self.outgoing.swap_remove(at);
        }
        Ok(())
    }

    fn remove_outgoing(&mut self, at: usize) -> Outgoing {
        let outgoing = self.outgoing.swap_remove(at);
        if let Supply::Sending { pieces, .. } = &outgoing.content {
            pieces.iter().for_each(|&(_, piece)| self.window.forget(piece));
        }
        outgoing
    }

    fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    /// The next message other than a content; a few bytes each.
    pub fn poll_control(&mut self) -> Option<ClipMessage> {
        if self.offers_wanted {
            // In order of their serials, which must increase.
            let unreported =
                Selection::ALL.into_iter().filter(|&of| self.ours[of as usize].unreported);
            if let Some(selection) = unreported.min_by_key(|&of| self.ours[of as usize].serial) {
                let ours = &mut self.ours[selection as usize];
                ours.unreported = false;
                return Some(ClipMessage::Offer {
                    selection,
                    serial: ours.serial,
                    seen: self.seen,
                    formats: ours.formats,
                });
            }
        }
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        let (id, bytes) = self.received.pop()?;
        Some(ClipMessage::Received { id, bytes })
    }

    /// Bytes of the next piece of a content; 0 if none may be sent: none waits, or enough is in
    /// flight. The caller decides when [`Endpoint::poll_piece`] may send it.
    pub fn piece_bytes(&self, now: Micros) -> usize {
        let Some(left) = self.outgoing.iter().filter_map(Outgoing::unsent).min() else { return 0 };
        // An empty content is sent as an empty piece.
        (self.window.room(now) as usize).min(CLIP_DATA_BYTES_MAX).min(left.max(1))
    }

    /// The next piece, of the content with the fewest bytes left, so that a line of text does not
    /// wait for an image.
    pub fn poll_piece(&mut self, bytes_max: usize, now: Micros) -> Option<ClipMessage> {
        let bytes_max = self.piece_bytes(now).min(bytes_max);
        if bytes_max == 0 {
            return None;
        }
        let outgoing = self.outgoing.iter_mut().filter(|outgoing| outgoing.unsent().is_some());
        let outgoing = outgoing.min_by_key(|outgoing| outgoing.unsent())?;
        let Supply::Sending { content, sent, pieces, last_sent } = &mut outgoing.content else {
            return None;
        };
        let rest = &content[*sent..];
        let bytes = rest[..rest.len().min(bytes_max)].to_vec();
        let last = bytes.len() == rest.len();
        *sent += bytes.len();
        *last_sent = last;
        if last {
            // `pieces` count what is unconfirmed; the bytes are not needed any more.
            *content = Arc::default();
        }
        outgoing.deadline = now + TRANSFER_TIMEOUT;
        pieces.push_back((*sent as u64, self.window.sent(bytes.len() as u64, now)));
        Some(ClipMessage::Data { id: outgoing.id, last, bytes })
    }

    /// The next event for our owner.
    pub fn poll_event(&mut self) -> Option<ClipEvent> {
        for selection in Selection::ALL {
            let theirs = &mut self.theirs[selection as usize];
            if std::mem::take(&mut theirs.unreported) {
                return Some(ClipEvent::Offered { selection, formats: theirs.formats });
            }
        }
        if let Some(outgoing) =
            self.outgoing.iter_mut().find(|outgoing| matches!(outgoing.content, Supply::New))
        {
            outgoing.content = Supply::Requested;
            let Outgoing { ticket: id, selection, format, .. } = *outgoing;
            return Some(ClipEvent::Wanted { id, selection, format });
        }
        self.events.pop_front()
    }

    /// When the first transfer times out.
    pub fn poll_deadline(&self) -> Option<Micros> {
        let outgoing = self.outgoing.iter().map(|outgoing| outgoing.deadline);
        outgoing.chain(self.incoming.iter().map(|incoming| incoming.deadline)).min()
    }

    /// Ends transfers without progress.
    pub fn handle_timeout(&mut self, now: Micros) {
        while let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.deadline <= now) {
            let outgoing = self.remove_outgoing(at);
            if outgoing.is_sent() {
                // It is completely sent; a missing confirmation matters only to the window.
                continue;
            }
            self.answers.push_back(ClipMessage::End {
                id: outgoing.id,
                by_requester: false,
                why: ClipEnd::Failed,
            });
            self.events.push_back(ClipEvent::Ended { id: outgoing.ticket, why: ClipEnd::Failed });
        }
        while let Some(at) = self.incoming.iter().position(|incoming| incoming.deadline <= now) {
            let id = self.incoming.swap_remove(at).id;
            self.answers.push_back(ClipMessage::End {
                id,
                by_requester: true,
                why: ClipEnd::Failed,
            });
            self.events.push_back(ClipEvent::Ended { id, why: ClipEnd::Failed });
        }
    }

    /// Checks the invariants; for tests.
    ///
    /// # Panics
    /// If one is violated, with the invariant in words.
    pub fn check_invariants(&self) {
        let pieces = self.outgoing.iter().filter_map(|outgoing| match &outgoing.content {
            Supply::Sending { pieces, .. } => Some(pieces),
            _ => None,
        });
        self.window.check_invariants(pieces.flatten().map(|(_, piece)| piece.bytes));
        let unsent = self.outgoing.iter().filter(|outgoing| !outgoing.is_sent()).count();
        assert!(
            unsent <= CLIP_TRANSFERS_MAX,
            "at most {CLIP_TRANSFERS_MAX} transfers are outgoing"
        );
        assert!(
            self.incoming.len() <= CLIP_TRANSFERS_MAX,
            "at most {CLIP_TRANSFERS_MAX} transfers are incoming"
        );
        for selection in Selection::ALL {
            let both = [self.ours[selection as usize], self.theirs[selection as usize]];
            assert!(
                both.iter().any(|offer| offer.formats.is_empty()),
                "only one side owns a selection"
            );
        }
        let limit = self.policy.bytes_max();
        assert!(
            self.incoming.iter().all(|incoming| incoming.content.len() <= limit),
            "a content is within its limit"
        );
    }
}
