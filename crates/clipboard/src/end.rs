//! Path beside the pixels, both ways: from the wire and from whoever owns a clipboard, to both.
//! One end of the channel: what each side offers, what was asked for, and contents on their way in pieces.
//! Knows two sides and eight contents each way; never what a content means, nor who pastes it.
//!
//! Everything is bounded: of offers the newest counts, transfers are eight each way, a content is no longer than the policy
//! says, and answers that the other side does not read end the connection. Whoever waits, waits to a deadline.

use std::collections::VecDeque;
use std::sync::Arc;

use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, ClipMessage, Selection};
use thinc_protocol::limits::{CLIP_DATA_BYTES_MAX, CLIP_TRANSFERS_MAX};

use crate::ClipboardPolicy;
use crate::content::is_content;
use crate::window::{Sent, Window};

/// 30 s: how long a transfer may stand still, on either side. A browser may have to ask its user before it gives anything;
/// programs that paste give up sooner.
const STANDSTILL: Micros = 30_000_000;
/// 64: answers that wait for the path. Twice as many as eight requests and their ends make; a side that asks and never reads
/// comes here.
const ANSWERS_MAX: usize = 64;
/// 256 KiB: memory that is set aside for a content before it comes, since its length is not said.
const CONTENT_BYTES_FIRST: usize = 256 * 1024;

/// Which side of the connection an end is; where offers cross, the viewer's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The session's.
    Session,
    /// The viewer's.
    Viewer,
}

/// What the owner of an end acts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClipEvent {
    /// The other side owns this selection now, in these formats; none: it does not.
    Offered {
        /// Which.
        selection: Selection,
        /// What there is to have.
        formats: ClipFormats,
    },
    /// The other side wants what is owned here; [`End::provide`] answers.
    Wanted {
        /// For the answer.
        id: u32,
        /// Of which selection.
        selection: Selection,
        /// In which form.
        format: ClipFormat,
    },
    /// What [`End::request`] asked for.
    Received {
        /// Its number.
        id: u32,
        /// All of it.
        content: Vec<u8>,
    },
    /// A request, or a content that was wanted here, has ended before its time.
    Ended {
        /// Its number.
        id: u32,
        /// Why.
        why: ClipEnd,
    },
}

/// The other side broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClipError {
    /// Too many requests.
    #[error("more than {CLIP_TRANSFERS_MAX} contents of the clipboard are asked for at a time")]
    Transfers,
    /// The same number for two requests.
    #[error("transfer {0} of the clipboard is asked for twice")]
    Twice(u32),
    /// Offers whose numbers do not grow.
    #[error("offer {serial} of the clipboard comes after offer {newest}")]
    Serial {
        /// This one.
        serial: u32,
        /// The one before.
        newest: u32,
    },
    /// What was not sent has arrived.
    #[error("{taken} bytes of transfer {id} have arrived, but {sent} were sent")]
    TakenAhead {
        /// Which.
        id: u32,
        /// What they say.
        taken: u64,
        /// What was sent.
        sent: u64,
    },
    /// It asks and does not read.
    #[error("{ANSWERS_MAX} answers about the clipboard wait to be read")]
    Unread,
}

/// An offer of either side; serial 0 where there was none.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    serial: u32,
    formats: ClipFormats,
    /// Still to be said: over the wire where it is ours, to our owner where it is theirs.
    news: bool,
    /// Of ours the newest that offered something, taken back since or not; 0 once theirs has replaced it.
    standing: u32,
}

/// A content that the other side asked for.
#[derive(Debug)]
struct Outgoing {
    /// What our owner knows it by.
    ticket: u32,
    /// What the other side named it.
    id: u32,
    selection: Selection,
    format: ClipFormat,
    content: Supply,
    deadline: Micros,
}

#[derive(Debug)]
enum Supply {
    /// Our owner is still to be told.
    New,
    /// Our owner was asked.
    Asked,
    /// It is on its way.
    Here { content: Arc<Vec<u8>>, sent: usize, pieces: VecDeque<(u64, Sent)>, last_sent: bool },
}

impl Outgoing {
    /// Bytes that are still to leave; none where nothing is.
    fn left(&self) -> Option<usize> {
        match &self.content {
            Supply::Here { content, sent, last_sent: false, .. } => Some(content.len() - sent),
            _ => None,
        }
    }

    /// All of it has left, so that the other side need not count it any more.
    fn is_sent(&self) -> bool {
        matches!(self.content, Supply::Here { last_sent: true, .. })
    }
}

/// A content that was asked for here.
#[derive(Debug)]
struct Incoming {
    id: u32,
    format: ClipFormat,
    content: Vec<u8>,
    deadline: Micros,
}

/// One end of a connection's clipboard.
///
/// `handle` takes what the other side says; `poll_control`, `poll_piece` and `poll_event` give what is to be done.
#[derive(Debug)]
pub struct End {
    side: Side,
    policy: ClipboardPolicy,
    /// The other side wants our offers; not known before its hello.
    wanted: bool,
    last_serial: u32,
    last_id: u32,
    ours: [Offer; 2],
    theirs: [Offer; 2],
    /// Their newest offer of either selection.
    seen: u32,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    window: Window,
    answers: VecDeque<ClipMessage>,
    /// What has arrived and is still to be said, one for each transfer.
    taken: Vec<(u32, u64)>,
    events: VecDeque<ClipEvent>,
}

impl End {
    /// An end that knows of no offers, at a side that wants none yet.
    pub fn new(side: Side, policy: ClipboardPolicy) -> End {
        End {
            side,
            policy,
            wanted: false,
            last_serial: 0,
            last_id: 0,
            ours: [Offer::default(); 2],
            theirs: [Offer::default(); 2],
            seen: 0,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            window: Window::new(),
            answers: VecDeque::new(),
            taken: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// What the other side's hello says: it wants our offers.
    pub fn set_wanted(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Something on this side owns the selection now; formats none: nothing does.
    pub fn offer(&mut self, selection: Selection, formats: ClipFormats) {
        if !self.policy.give {
            return;
        }
        let (ours, theirs) = (&mut self.ours[selection as usize], &mut self.theirs[selection as usize]);
        if formats.is_empty() && ours.formats.is_empty() {
            // Nothing that was never offered, or is gone already, need be taken back; it may even be theirs now.
            return;
        }
        self.last_serial += 1;
        let standing = if formats.is_empty() { ours.standing } else { self.last_serial };
        *ours = Offer { serial: self.last_serial, formats, news: true, standing };
        if !formats.is_empty() {
            *theirs = Offer { news: false, formats: ClipFormats::NONE, ..*theirs };
        }
        // Whoever owned it before was not asked yet, and is not there to be asked.
        let old = |outgoing: &Outgoing| outgoing.selection == selection && matches!(outgoing.content, Supply::New);
        for outgoing in self.outgoing.extract_if(.., |outgoing| old(outgoing)) {
            self.answers.push_back(ClipMessage::End { id: outgoing.id, asker: false, why: ClipEnd::Gone });
        }
    }

    /// At the beginning of a connection, behind what is offered: of all else this side has nothing, and says so. On the other side somebody may
    /// wait since an earlier connection.
    pub fn begin(&mut self) {
        for ours in self.ours.iter_mut().filter(|ours| self.policy.give && ours.serial == 0) {
            self.last_serial += 1;
            *ours = Offer { serial: self.last_serial, news: true, ..Offer::default() };
        }
    }

    /// What the other side has of this selection.
    pub fn offered(&self, selection: Selection) -> ClipFormats {
        if self.policy.take { self.theirs[selection as usize].formats } else { ClipFormats::NONE }
    }

    /// Asks for the other side's; `Received` or `Ended` answers. None: there is no such thing to have, or eight are under way.
    pub fn request(&mut self, selection: Selection, format: ClipFormat, now: Micros) -> Option<u32> {
        if !self.offered(selection).has(format) || self.incoming.len() >= CLIP_TRANSFERS_MAX {
            return None;
        }
        let id = self.next_id();
        self.incoming.push(Incoming { id, format, content: Vec::new(), deadline: now + STANDSTILL });
        let serial = self.theirs[selection as usize].serial;
        self.answers.push_back(ClipMessage::Request { id, selection, serial, format });
        Some(id)
    }

    /// Nobody wants it any more.
    pub fn cancel(&mut self, id: u32) {
        if let Some(at) = self.incoming.iter().position(|incoming| incoming.id == id) {
            self.incoming.swap_remove(at);
            // Of a request that was never said nothing need be taken back, or whoever asks and gives up without end fills
            // this list.
            let request = |answer: &ClipMessage| matches!(*answer, ClipMessage::Request { id: of, .. } if of == id);
            if let Some(unsaid) = self.answers.iter().position(request) {
                self.answers.remove(unsaid);
                return;
            }
            self.answers.push_back(ClipMessage::End { id, asker: true, why: ClipEnd::Cancelled });
        }
    }

    /// Answers `Wanted`. What is longer than this side gives, or is not what was asked for, is not sent; `Ended` says so.
    pub fn provide(&mut self, id: u32, content: Result<Arc<Vec<u8>>, ClipEnd>, now: Micros) {
        let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.ticket == id) else { return };
        let outgoing = &mut self.outgoing[at];
        if !matches!(outgoing.content, Supply::Asked) {
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
                outgoing.content = Supply::Here { content, sent: 0, pieces: VecDeque::new(), last_sent: false };
                outgoing.deadline = now + STANDSTILL;
                return;
            }
        };
        let id = self.outgoing.swap_remove(at).id;
        self.answers.push_back(ClipMessage::End { id, asker: false, why });
    }

    /// A message of the other side's.
    ///
    /// # Errors
    /// It breaks the protocol or a limit, which ends the connection.
    pub fn handle(&mut self, message: &ClipMessage, now: Micros) -> Result<(), ClipError> {
        match *message {
            ClipMessage::Offer { selection, serial, seen, formats } => {
                self.offered_by_them(selection, serial, seen, formats)
            }
            ClipMessage::Request { id, selection, serial, format } => {
                self.requested(id, selection, serial, format, now)
            }
            ClipMessage::Data { id, last, ref bytes } => {
                self.arrived(id, last, bytes, now);
                Ok(())
            }
            ClipMessage::Taken { id, bytes } => self.confirmed(id, bytes, now),
            ClipMessage::End { id, asker: true, why } => {
                if let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) {
                    let outgoing = self.remove_outgoing(at);
                    if !matches!(outgoing.content, Supply::New) {
                        self.events.push_back(ClipEvent::Ended { id: outgoing.ticket, why });
                    }
                }
                Ok(())
            }
            ClipMessage::End { id, asker: false, why } => {
                if let Some(at) = self.incoming.iter().position(|incoming| incoming.id == id) {
                    self.incoming.swap_remove(at);
                    self.events.push_back(ClipEvent::Ended { id, why });
                }
                Ok(())
            }
        }
    }

    fn offered_by_them(
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
        let (ours, theirs) = (&mut self.ours[selection as usize], &mut self.theirs[selection as usize]);
        // They had not seen what we offered when they made theirs.
        let crossed = seen < ours.standing;
        let viewers_counts = match self.side {
            Side::Viewer => true,
            Side::Session => formats.is_empty(),
        };
        if crossed && viewers_counts {
            return Ok(());
        }
        if !formats.is_empty() {
            *ours = Offer { formats: ClipFormats::NONE, news: false, standing: 0, ..*ours };
        }
        *theirs = Offer { serial, formats, news: true, standing: 0 };
        Ok(())
    }

    fn requested(
        &mut self,
        id: u32,
        selection: Selection,
        serial: u32,
        format: ClipFormat,
        now: Micros,
    ) -> Result<(), ClipError> {
        // One that has been sent is over for who asked, and its number free.
        if let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) {
            if !self.outgoing[at].is_sent() {
                return Err(ClipError::Twice(id));
            }
            self.remove_outgoing(at);
        }
        if self.outgoing.iter().filter(|outgoing| !outgoing.is_sent()).count() >= CLIP_TRANSFERS_MAX {
            return Err(ClipError::Transfers);
        }
        // Each comes to an answer sooner or later.
        if self.answers.len() >= ANSWERS_MAX {
            return Err(ClipError::Unread);
        }
        let ours = self.ours[selection as usize];
        if ours.serial != serial || !ours.formats.has(format) {
            self.answers.push_back(ClipMessage::End { id, asker: false, why: ClipEnd::Gone });
            return Ok(());
        }
        let ticket = self.next_id();
        let deadline = now + STANDSTILL;
        self.outgoing.push(Outgoing { ticket, id, selection, format, content: Supply::New, deadline });
        Ok(())
    }

    fn arrived(&mut self, id: u32, last: bool, bytes: &[u8], now: Micros) {
        let Some(at) = self.incoming.iter().position(|incoming| incoming.id == id) else { return };
        let limit = self.policy.bytes_max();
        let incoming = &mut self.incoming[at];
        if incoming.content.len() + bytes.len() > limit {
            let why = ClipEnd::TooLarge { bytes: 0, limit: limit as u64 };
            self.incoming.swap_remove(at);
            self.answers.push_back(ClipMessage::End { id, asker: true, why });
            self.events.push_back(ClipEvent::Ended { id, why });
            return;
        }
        if incoming.content.is_empty() && !last {
            incoming.content.reserve(CONTENT_BYTES_FIRST.min(limit));
        }
        incoming.content.extend_from_slice(bytes);
        incoming.deadline = now + STANDSTILL;
        let taken = incoming.content.len() as u64;
        match self.taken.iter_mut().find(|(transfer, _)| *transfer == id) {
            Some((_, bytes)) => *bytes = taken,
            None => self.taken.push((id, taken)),
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

    fn confirmed(&mut self, id: u32, bytes: u64, now: Micros) -> Result<(), ClipError> {
        let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) else { return Ok(()) };
        let outgoing = &mut self.outgoing[at];
        let Supply::Here { sent, pieces, last_sent, .. } = &mut outgoing.content else {
            // Nothing was sent: it speaks of an earlier transfer of this number.
            return Ok(());
        };
        if bytes > *sent as u64 {
            return Err(ClipError::TakenAhead { id, taken: bytes, sent: *sent as u64 });
        }
        while let Some(&(to, piece)) = pieces.front().filter(|&&(to, _)| to <= bytes) {
            debug_assert!(to <= *sent as u64, "a piece ends where sending has come to");
            self.window.confirmed(piece, now);
            pieces.pop_front();
            outgoing.deadline = now + STANDSTILL;
        }
        if *last_sent && pieces.is_empty() {
            self.outgoing.swap_remove(at);
        }
        Ok(())
    }

    fn remove_outgoing(&mut self, at: usize) -> Outgoing {
        let outgoing = self.outgoing.swap_remove(at);
        if let Supply::Here { pieces, .. } = &outgoing.content {
            pieces.iter().for_each(|&(_, piece)| self.window.forget(piece));
        }
        outgoing
    }

    fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    /// The next of all messages but contents: a few bytes each, to go with whatever goes.
    pub fn poll_control(&mut self) -> Option<ClipMessage> {
        if self.wanted {
            // In the order of their numbers, which grow.
            let news = Selection::ALL.into_iter().filter(|&of| self.ours[of as usize].news);
            if let Some(selection) = news.min_by_key(|&of| self.ours[of as usize].serial) {
                let ours = &mut self.ours[selection as usize];
                ours.news = false;
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
        let (id, bytes) = self.taken.pop()?;
        Some(ClipMessage::Taken { id, bytes })
    }

    /// Bytes of the next piece of a content; 0 where none may leave: none waits, or enough is under way. It is for whoever
    /// sends everything else to say when [`End::poll_piece`] may give it.
    pub fn piece_bytes(&self, now: Micros) -> usize {
        let Some(left) = self.outgoing.iter().filter_map(Outgoing::left).min() else { return 0 };
        // An empty content is a piece all the same.
        (self.window.room(now) as usize).min(CLIP_DATA_BYTES_MAX).min(left.max(1))
    }

    /// The next piece, of the content that has least left: a line of text does not wait for a photograph.
    pub fn poll_piece(&mut self, bytes_max: usize, now: Micros) -> Option<ClipMessage> {
        let most = self.piece_bytes(now).min(bytes_max);
        if most == 0 {
            return None;
        }
        let outgoing = self.outgoing.iter_mut().filter(|outgoing| outgoing.left().is_some());
        let outgoing = outgoing.min_by_key(|outgoing| outgoing.left())?;
        let Supply::Here { content, sent, pieces, last_sent } = &mut outgoing.content else { return None };
        let rest = &content[*sent..];
        let bytes = rest[..rest.len().min(most)].to_vec();
        let last = bytes.len() == rest.len();
        *sent += bytes.len();
        *last_sent = last;
        if last {
            // What is unconfirmed is counted in `pieces`; the bytes are wanted by nobody.
            *content = Arc::default();
        }
        outgoing.deadline = now + STANDSTILL;
        pieces.push_back((*sent as u64, self.window.sent(bytes.len() as u64, now)));
        Some(ClipMessage::Data { id: outgoing.id, last, bytes })
    }

    /// The next thing our owner must know.
    pub fn poll_event(&mut self) -> Option<ClipEvent> {
        for selection in Selection::ALL {
            let theirs = &mut self.theirs[selection as usize];
            if std::mem::take(&mut theirs.news) {
                return Some(ClipEvent::Offered { selection, formats: theirs.formats });
            }
        }
        if let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| matches!(outgoing.content, Supply::New)) {
            outgoing.content = Supply::Asked;
            let Outgoing { ticket: id, selection, format, .. } = *outgoing;
            return Some(ClipEvent::Wanted { id, selection, format });
        }
        self.events.pop_front()
    }

    /// When patience with a transfer ends, if nothing happens.
    pub fn poll_deadline(&self) -> Option<Micros> {
        let outgoing = self.outgoing.iter().map(|outgoing| outgoing.deadline);
        outgoing.chain(self.incoming.iter().map(|incoming| incoming.deadline)).min()
    }

    /// Ends what has stood still for too long.
    pub fn handle_timeout(&mut self, now: Micros) {
        while let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.deadline <= now) {
            let outgoing = self.remove_outgoing(at);
            if outgoing.is_sent() {
                // It has all left; that nobody says it arrived is nobody's business but the window's.
                continue;
            }
            self.answers.push_back(ClipMessage::End { id: outgoing.id, asker: false, why: ClipEnd::Failed });
            self.events.push_back(ClipEvent::Ended { id: outgoing.ticket, why: ClipEnd::Failed });
        }
        while let Some(at) = self.incoming.iter().position(|incoming| incoming.deadline <= now) {
            let id = self.incoming.swap_remove(at).id;
            self.answers.push_back(ClipMessage::End { id, asker: true, why: ClipEnd::Failed });
            self.events.push_back(ClipEvent::Ended { id, why: ClipEnd::Failed });
        }
    }

    /// Checks what this end promises; for tests.
    ///
    /// # Panics
    /// When a promise is broken, with the promise in words.
    pub fn check_invariants(&self) {
        let pieces = self.outgoing.iter().filter_map(|outgoing| match &outgoing.content {
            Supply::Here { pieces, .. } => Some(pieces),
            _ => None,
        });
        self.window.check_invariants(pieces.flatten().map(|(_, piece)| piece.bytes));
        let unsent = self.outgoing.iter().filter(|outgoing| !outgoing.is_sent()).count();
        assert!(unsent <= CLIP_TRANSFERS_MAX, "they have asked for at most {CLIP_TRANSFERS_MAX}");
        assert!(self.incoming.len() <= CLIP_TRANSFERS_MAX, "we have asked for at most {CLIP_TRANSFERS_MAX}");
        for selection in Selection::ALL {
            let both = [self.ours[selection as usize], self.theirs[selection as usize]];
            assert!(both.iter().any(|offer| offer.formats.is_empty()), "one side owns a selection");
        }
        let limit = self.policy.bytes_max();
        assert!(self.incoming.iter().all(|incoming| incoming.content.len() <= limit), "a content is within its limit");
    }
}
