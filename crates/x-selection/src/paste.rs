//! Path beside the pixels: under worker.rs, to programs that paste what is ours.
//! Requests for what we own: answered at once where only names are wanted, else when the content has come from afar.
//! Knows requestors that vanish, stop reading and ask without end; a content that several wait for is asked for once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, PropMode, PropertyNotifyEvent,
    SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent, Timestamp, Window,
};
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{CURRENT_TIME, NONE};

use crate::text;
use crate::worker::{Ours, Worker};
use crate::{XError, XSelectionEvent};

/// Programs that paste at a time, or parts of what they ask for; more are refused.
const PASTES_MAX: usize = 32;
/// 20 s: how long a program may leave a chunk where it is.
const PATIENCE: Duration = Duration::from_secs(20);
/// Forms that a program may ask for at once.
const MULTIPLE_MAX: usize = 32;

/// A form of a content that a program wants on a property of a window of its own.
#[derive(Debug)]
struct Paste {
    requestor: Window,
    property: Atom,
    target: Atom,
    selection: Selection,
    time: Timestamp,
    /// The MULTIPLE that it is part of, and its place there.
    multiple: Option<(u32, usize)>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// For the content of this ticket. It comes, or the answer that it does not: that is the promise of who was asked.
    Waits(u32),
    /// The content goes in chunks; the one before is on the property.
    Chunks { content: Arc<Vec<u8>>, type_: Atom, sent: usize, ended: bool, deadline: Instant },
}

/// A content that was asked for.
#[derive(Debug)]
struct Ticket {
    number: u32,
    selection: Selection,
    format: ClipFormat,
    /// Of which of our takings.
    taking: u32,
}

/// A request for several forms at once; answered when all are.
#[derive(Debug)]
struct Multiple {
    number: u32,
    requestor: Window,
    property: Atom,
    selection: Selection,
    time: Timestamp,
    /// Target and property; a property of 0 says that it was refused.
    pairs: Vec<[Atom; 2]>,
    left: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Pastes {
    pastes: Vec<Paste>,
    tickets: Vec<Ticket>,
    multiples: Vec<Multiple>,
    last_number: u32,
}

impl Pastes {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.pastes
            .iter()
            .filter_map(|paste| match paste.state {
                State::Waits(_) => None,
                State::Chunks { deadline, .. } => Some(deadline),
            })
            .min()
    }

    fn next_number(&mut self) -> u32 {
        self.last_number = self.last_number.wrapping_add(1);
        self.last_number
    }

    fn waits_for(&self, ticket: u32) -> impl Fn(&Paste) -> bool + use<> {
        move |paste| matches!(paste.state, State::Waits(number) if number == ticket)
    }
}

/// What became of one wanted form.
enum Outcome {
    /// It is on the property, or its first chunk is announced there.
    Given,
    Refused,
    /// The content must come first.
    Later,
}

impl Worker<'_> {
    /// A program pastes.
    pub(crate) fn requested(&mut self, request: &SelectionRequestEvent) -> Result<(), XError> {
        let &SelectionRequestEvent { requestor, selection, target, property, time, .. } = request;
        // Nobody pastes into windows of ours: a program that names one would have us set what we hear of there to nothing,
        // and never own anything again.
        if self.client(requestor) == self.client(self.window) {
            return self.notify(requestor, selection, target, NONE, time);
        }
        // ICCCM §2.2: programs from before it name no property.
        let property = if property == NONE { target } else { property };
        let ours = self.atoms.which(selection).and_then(|which| Some((which, self.selections[which as usize].ours?)));
        // Clocks of X servers come round after 49 days.
        let ours = ours.filter(|(_, ours)| time == CURRENT_TIME || time.wrapping_sub(ours.time).cast_signed() >= 0);
        let Some((selection, ours)) = ours else {
            return self.notify(request.requestor, request.selection, target, NONE, time);
        };
        let wanted = Paste { requestor, property, target, selection, time, multiple: None, state: State::Waits(0) };
        if target == self.atoms.MULTIPLE {
            return self.requested_several(wanted, ours);
        }
        match self.give(wanted, ours)? {
            Outcome::Given => self.notify(requestor, request.selection, target, property, time),
            Outcome::Refused => self.notify(requestor, request.selection, target, NONE, time),
            Outcome::Later => Ok(()),
        }
    }

    fn requested_several(&mut self, wanted: Paste, ours: Ours) -> Result<(), XError> {
        let Paste { requestor, property, selection, time, .. } = wanted;
        let atom = self.selections[selection as usize].atom;
        let length = 2 * MULTIPLE_MAX as u32;
        let list = self.connection.get_property(false, requestor, property, AtomEnum::ANY, 0, length)?.reply();
        // The window may be gone by now.
        let list: Vec<Atom> = list.ok().and_then(|list| Some(list.value32()?.collect())).unwrap_or_default();
        let pairs = list.as_chunks::<2>().0.to_vec();
        let room = PASTES_MAX - self.pastes.pastes.len().min(PASTES_MAX);
        if pairs.is_empty() || pairs.len() > room {
            return self.notify(requestor, atom, self.atoms.MULTIPLE, NONE, time);
        }
        let (number, left) = (self.pastes.next_number(), pairs.len());
        self.pastes.multiples.push(Multiple {
            number,
            requestor,
            property,
            selection,
            time,
            pairs: pairs.clone(),
            left,
        });
        for (place, [target, property]) in pairs.into_iter().enumerate() {
            let multiple = Some((number, place));
            let part = Paste { requestor, property, target, selection, time, multiple, state: State::Waits(0) };
            let outcome = if property == NONE || target == self.atoms.MULTIPLE {
                Outcome::Refused
            } else {
                self.give(part, ours)?
            };
            match outcome {
                Outcome::Given => self.settle(number, place, true)?,
                Outcome::Refused => self.settle(number, place, false)?,
                Outcome::Later => {}
            }
        }
        Ok(())
    }

    /// One part of several has been given, or never will be.
    fn settle(&mut self, number: u32, place: usize, given: bool) -> Result<(), XError> {
        let Some(at) = self.pastes.multiples.iter().position(|multiple| multiple.number == number) else {
            return Ok(());
        };
        let multiple = &mut self.pastes.multiples[at];
        if !given {
            multiple.pairs[place][1] = NONE;
        }
        multiple.left -= 1;
        if multiple.left > 0 {
            return Ok(());
        }
        let Multiple { requestor, property, selection, time, pairs, .. } = self.pastes.multiples.swap_remove(at);
        let pair = self.atoms.ATOM_PAIR;
        self.connection.change_property32(PropMode::REPLACE, requestor, property, pair, pairs.as_flattened())?;
        self.notify(requestor, self.selections[selection as usize].atom, self.atoms.MULTIPLE, property, time)
    }

    /// Answers one form, or asks for its content.
    fn give(&mut self, mut wanted: Paste, ours: Ours) -> Result<Outcome, XError> {
        let Paste { requestor, property, target, selection, .. } = wanted;
        let connection = self.connection;
        if target == self.atoms.TARGETS {
            let targets = self.our_targets(ours.formats);
            connection.change_property32(PropMode::REPLACE, requestor, property, AtomEnum::ATOM, &targets)?;
            return Ok(Outcome::Given);
        }
        if target == self.atoms.TIMESTAMP {
            connection.change_property32(PropMode::REPLACE, requestor, property, AtomEnum::INTEGER, &[ours.time])?;
            return Ok(Outcome::Given);
        }
        let Some(format) = self.atoms.format(target).filter(|&format| ours.formats.has(format)) else {
            return Ok(Outcome::Refused);
        };
        // Whoever asks for the same again has given the first up.
        self.drop_pastes(|paste| paste.requestor == requestor && paste.property == property)?;
        if self.pastes.pastes.len() >= PASTES_MAX {
            return Ok(Outcome::Refused);
        }
        let same =
            |ticket: &&Ticket| ticket.selection == selection && ticket.format == format && ticket.taking == ours.taking;
        let known = self.pastes.tickets.iter().find(same).map(|ticket| ticket.number);
        let number = known.unwrap_or_else(|| self.pastes.next_number());
        wanted.state = State::Waits(number);
        self.pastes.pastes.push(wanted);
        // So that we hear when it goes, and when it has taken a chunk.
        self.watch(requestor, EventMask::STRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE)?;
        if known.is_none() {
            self.pastes.tickets.push(Ticket { number, selection, format, taking: ours.taking });
            self.emit(XSelectionEvent::Wanted { ticket: number, selection, format });
        }
        Ok(Outcome::Later)
    }

    /// The names under which these formats are had, and what every owner has.
    fn our_targets(&self, formats: ClipFormats) -> Vec<Atom> {
        let mut targets = vec![self.atoms.TARGETS, self.atoms.TIMESTAMP, self.atoms.MULTIPLE];
        formats.iter().for_each(|format| targets.extend(self.atoms.targets(format)));
        targets
    }

    /// The content has come, or will not.
    pub(crate) fn provide(&mut self, ticket: u32, content: Result<Vec<u8>, ClipEnd>) -> Result<(), XError> {
        let Some(at) = self.pastes.tickets.iter().position(|known| known.number == ticket) else { return Ok(()) };
        let Ticket { selection, format, taking, .. } = self.pastes.tickets.swap_remove(at);
        let is_ours = self.selections[selection as usize].ours.is_some_and(|ours| ours.taking == taking);
        let content = content.ok().map(Arc::new);
        // The same for all of them where it is the same.
        let (mut latin1, mut html) = (None, None);
        while let Some(at) = self.pastes.pastes.iter().position(self.pastes.waits_for(ticket)) {
            let mut paste = self.pastes.pastes.swap_remove(at);
            let Some(content) = &content else {
                self.answer(&paste, false)?;
                self.unwatch(paste.requestor)?;
                continue;
            };
            if is_ours {
                let client = self.client(paste.requestor);
                self.selections[selection as usize].copies.give(client, format, content, Instant::now());
            }
            let target = paste.target;
            let (type_, content) = if target == u32::from(AtomEnum::STRING) {
                (target, latin1.get_or_insert_with(|| Arc::new(text::latin1(content))).clone())
            } else if target == self.atoms.TEXT {
                (self.atoms.UTF8_STRING, content.clone())
            } else if target == self.atoms.HTML {
                let say = || text::html_for_x(content).map_or_else(|| content.clone(), Arc::new);
                (target, html.get_or_insert_with(say).clone())
            } else {
                (target, content.clone())
            };
            if content.len() <= self.chunk_bytes() {
                let (window, property) = (paste.requestor, paste.property);
                self.connection.change_property8(PropMode::REPLACE, window, property, type_, &content)?;
                self.answer(&paste, true)?;
                self.unwatch(paste.requestor)?;
            } else {
                // At least so many bytes; its disappearance asks for the first of them.
                let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
                let (window, property, incr) = (paste.requestor, paste.property, self.atoms.INCR);
                self.connection.change_property32(PropMode::REPLACE, window, property, incr, &[length])?;
                self.answer(&paste, true)?;
                let deadline = Instant::now() + PATIENCE;
                paste.state = State::Chunks { content, type_, sent: 0, ended: false, deadline };
                self.pastes.pastes.push(paste);
            }
        }
        Ok(())
    }

    fn answer(&mut self, paste: &Paste, given: bool) -> Result<(), XError> {
        if let Some((number, place)) = paste.multiple {
            return self.settle(number, place, given);
        }
        let selection = self.selections[paste.selection as usize].atom;
        let property = if given { paste.property } else { NONE };
        self.notify(paste.requestor, selection, paste.target, property, paste.time)
    }

    fn notify(
        &self,
        requestor: Window,
        selection: Atom,
        target: Atom,
        property: Atom,
        time: Timestamp,
    ) -> Result<(), XError> {
        let event = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time,
            requestor,
            selection,
            target,
            property,
        };
        self.connection.send_event(false, requestor, EventMask::NO_EVENT, event)?;
        Ok(())
    }

    /// A program has taken a chunk: the next, and after the last an empty one.
    pub(crate) fn chunk_taken(&mut self, notify: &PropertyNotifyEvent) -> Result<(), XError> {
        let chunk_bytes = self.chunk_bytes();
        let goes = |paste: &Paste| {
            paste.requestor == notify.window
                && paste.property == notify.atom
                && matches!(paste.state, State::Chunks { .. })
        };
        let Some(at) = self.pastes.pastes.iter().position(goes) else { return Ok(()) };
        let paste = &mut self.pastes.pastes[at];
        let (requestor, property) = (paste.requestor, paste.property);
        let State::Chunks { content, type_, sent, ended, deadline } = &mut paste.state else { return Ok(()) };
        if *ended {
            self.pastes.pastes.swap_remove(at);
            return self.unwatch(requestor);
        }
        let rest = &content[*sent..];
        let chunk = &rest[..rest.len().min(chunk_bytes)];
        self.connection.change_property8(PropMode::REPLACE, requestor, property, *type_, chunk)?;
        *sent += chunk.len();
        *ended = chunk.is_empty();
        *deadline = Instant::now() + PATIENCE;
        Ok(())
    }

    /// A program's window is gone, and with it whatever it wanted.
    pub(crate) fn requestor_gone(&mut self, window: Window) {
        self.pastes.multiples.retain(|multiple| multiple.requestor != window);
        self.pastes.pastes.retain(|paste| paste.requestor != window);
        self.unwanted();
    }

    pub(crate) fn paste_deadlines(&mut self, now: Instant) -> Result<(), XError> {
        self.drop_pastes(|paste| matches!(paste.state, State::Chunks { deadline, .. } if deadline <= now))
    }

    fn drop_pastes(&mut self, which: impl Fn(&Paste) -> bool) -> Result<(), XError> {
        while let Some(at) = self.pastes.pastes.iter().position(&which) {
            let paste = self.pastes.pastes.swap_remove(at);
            if let (Some((number, place)), State::Waits(_)) = (paste.multiple, &paste.state) {
                self.settle(number, place, false)?;
            }
            self.unwatch(paste.requestor)?;
        }
        self.unwanted();
        Ok(())
    }

    /// Tickets for which nobody waits any more.
    fn unwanted(&mut self) {
        let pastes = &self.pastes.pastes;
        let waited = |ticket: u32| pastes.iter().any(|paste| matches!(paste.state, State::Waits(of) if of == ticket));
        let gone: Vec<u32> =
            self.pastes.tickets.iter().map(|ticket| ticket.number).filter(|&ticket| !waited(ticket)).collect();
        self.pastes.tickets.retain(|ticket| !gone.contains(&ticket.number));
        gone.into_iter().for_each(|ticket| self.emit(XSelectionEvent::Unwanted { ticket }));
    }

    fn watch(&self, window: Window, events: EventMask) -> Result<(), XError> {
        let aux = ChangeWindowAttributesAux::new().event_mask(events);
        self.connection.change_window_attributes(window, &aux)?;
        Ok(())
    }

    /// Nothing more is to be heard of a window that wants nothing more.
    fn unwatch(&self, window: Window) -> Result<(), XError> {
        let busy = self.pastes.pastes.iter().any(|paste| paste.requestor == window);
        if busy { Ok(()) } else { self.watch(window, EventMask::NO_EVENT) }
    }
}
