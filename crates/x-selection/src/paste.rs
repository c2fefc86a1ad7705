//! Path beside the pixels: under worker.rs, to applications that paste our selections.
//! Requests for what we own: targets are answered at once, contents when they have arrived. Knows
//! requestors that vanish, stop reading and paste in loops; a content that several wait for is
//! requested once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, PropMode,
    PropertyNotifyEvent, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent,
    Timestamp, Window,
};
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{CURRENT_TIME, NONE};

use crate::files;
use crate::text;
use crate::worker::{Ours, Worker};
use crate::{XError, XSelectionEvent};

/// 32: pastes at a time, counting each target of a MULTIPLE; more are refused.
const PASTES_MAX: usize = 32;
/// 20 s: how long an application may leave a chunk unread.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(20);
/// 32: targets of one MULTIPLE request.
const MULTIPLE_MAX: usize = 32;

/// A target that an application wants on a property of its window.
#[derive(Debug)]
struct Paste {
    requestor: Window,
    property: Atom,
    target: Atom,
    selection: Selection,
    time: Timestamp,
    /// The MULTIPLE request that it is part of, and its index there.
    multiple: Option<(u32, usize)>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Waits for the content of this ticket; the owner of this client promises an answer.
    Waits(u32),
    /// Sends the content by INCR; the last chunk is on the property.
    Chunks { content: Arc<Vec<u8>>, type_: Atom, sent: usize, ended: bool, deadline: Instant },
}

/// A content requested from our caller.
#[derive(Debug)]
struct Ticket {
    number: u32,
    selection: Selection,
    format: ClipFormat,
    /// The acquisition of the selection that it belongs to.
    acquisition: u32,
    /// Its files are being written; the number of that.
    unpacking: Option<u64>,
}

/// A MULTIPLE request; answered when all its targets are.
#[derive(Debug)]
struct Multiple {
    number: u32,
    requestor: Window,
    property: Atom,
    selection: Selection,
    time: Timestamp,
    /// Target and property; property 0 means that it was refused.
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

/// Result of requesting one target.
enum Outcome {
    /// It is on the property.
    Given,
    Refused,
    /// The content has to arrive first.
    Later,
}

impl Worker<'_> {
    /// An application pastes.
    pub(crate) fn handle_request(&mut self, request: &SelectionRequestEvent) -> Result<(), XError> {
        let &SelectionRequestEvent { requestor, selection, target, property, time, .. } = request;
        // No application pastes into our windows: one that names such a window would make us change
        // its event mask, and we could never acquire a selection again.
        if self.client(requestor) == self.client(self.window) {
            return self.notify(requestor, selection, target, NONE, time);
        }
        // ICCCM §2.2: obsolete clients name no property.
        let property = if property == NONE { target } else { property };
        let ours = self
            .atoms
            .which(selection)
            .and_then(|which| Some((which, self.selections[which as usize].ours?)));
        // Server time wraps around after 49 days.
        let ours = ours.filter(|(_, ours)| {
            time == CURRENT_TIME || time.wrapping_sub(ours.time).cast_signed() >= 0
        });
        let Some((selection, ours)) = ours else {
            return self.notify(request.requestor, request.selection, target, NONE, time);
        };
        let wanted = Paste {
            requestor,
            property,
            target,
            selection,
            time,
            multiple: None,
            state: State::Waits(0),
        };
        if target == self.atoms.MULTIPLE {
            return self.handle_multiple(wanted, ours);
        }
        match self.give(wanted, ours)? {
            Outcome::Given => self.notify(requestor, request.selection, target, property, time),
            Outcome::Refused => self.notify(requestor, request.selection, target, NONE, time),
            Outcome::Later => Ok(()),
        }
    }

    fn handle_multiple(&mut self, wanted: Paste, ours: Ours) -> Result<(), XError> {
        let Paste { requestor, property, selection, time, .. } = wanted;
        let atom = self.selections[selection as usize].atom;
        let length = 2 * MULTIPLE_MAX as u32;
        let list = self
            .connection
            .get_property(false, requestor, property, AtomEnum::ANY, 0, length)?
            .reply();
        // The window may be gone.
        let list: Vec<Atom> =
            list.ok().and_then(|list| Some(list.value32()?.collect())).unwrap_or_default();
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
            let part = Paste {
                requestor,
                property,
                target,
                selection,
                time,
                multiple,
                state: State::Waits(0),
            };
            let outcome = if property == NONE || target == self.atoms.MULTIPLE {
                Outcome::Refused
            } else {
                self.give(part, ours)?
            };
            match outcome {
                Outcome::Given => self.finish_part(number, place, true)?,
                Outcome::Refused => self.finish_part(number, place, false)?,
                Outcome::Later => {}
            }
        }
        Ok(())
    }

    /// One target of a MULTIPLE is done.
    fn finish_part(&mut self, number: u32, place: usize, given: bool) -> Result<(), XError> {
        let Some(at) = self.pastes.multiples.iter().position(|multiple| multiple.number == number)
        else {
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
        let Multiple { requestor, property, selection, time, pairs, .. } =
            self.pastes.multiples.swap_remove(at);
        let pair = self.atoms.ATOM_PAIR;
        self.connection.change_property32(
            PropMode::REPLACE,
            requestor,
            property,
            pair,
            pairs.as_flattened(),
        )?;
        self.notify(
            requestor,
            self.selections[selection as usize].atom,
            self.atoms.MULTIPLE,
            property,
            time,
        )
    }

    /// Answers one target, or requests its content.
    fn give(&mut self, mut wanted: Paste, ours: Ours) -> Result<Outcome, XError> {
        let Paste { requestor, property, target, selection, .. } = wanted;
        let connection = self.connection;
        if target == self.atoms.TARGETS {
            let targets = self.our_targets(ours.formats);
            connection.change_property32(
                PropMode::REPLACE,
                requestor,
                property,
                AtomEnum::ATOM,
                &targets,
            )?;
            return Ok(Outcome::Given);
        }
        if target == self.atoms.TIMESTAMP {
            connection.change_property32(
                PropMode::REPLACE,
                requestor,
                property,
                AtomEnum::INTEGER,
                &[ours.time],
            )?;
            return Ok(Outcome::Given);
        }
        let Some(format) = self.atoms.format(target).filter(|&format| ours.formats.has(format))
        else {
            return Ok(Outcome::Refused);
        };
        // A requestor that requests the same property again has given up the first request.
        self.drop_pastes(|paste| paste.requestor == requestor && paste.property == property)?;
        if self.pastes.pastes.len() >= PASTES_MAX {
            return Ok(Outcome::Refused);
        }
        let same = |ticket: &&Ticket| {
            ticket.selection == selection
                && ticket.format == format
                && ticket.acquisition == ours.acquisition
        };
        let existing = self.pastes.tickets.iter().find(same).map(|ticket| ticket.number);
        let number = existing.unwrap_or_else(|| self.pastes.next_number());
        wanted.state = State::Waits(number);
        self.pastes.pastes.push(wanted);
        // To be notified when the window is destroyed, and when a chunk is read.
        self.watch(requestor, EventMask::STRUCTURE_NOTIFY | EventMask::PROPERTY_CHANGE)?;
        if existing.is_none() {
            self.pastes.tickets.push(Ticket {
                number,
                selection,
                format,
                acquisition: ours.acquisition,
                unpacking: None,
            });
            self.emit(XSelectionEvent::Wanted { ticket: number, selection, format });
        }
        Ok(Outcome::Later)
    }

    /// Our targets: those of the formats, and those that every owner supports.
    fn our_targets(&self, formats: ClipFormats) -> Vec<Atom> {
        let mut targets = vec![self.atoms.TARGETS, self.atoms.TIMESTAMP, self.atoms.MULTIPLE];
        formats.iter().for_each(|format| targets.extend(self.atoms.targets(format)));
        targets
    }

    /// The content has arrived, or is unavailable.
    pub(crate) fn provide(
        &mut self,
        ticket: u32,
        content: Result<Vec<u8>, ClipEnd>,
    ) -> Result<(), XError> {
        let Some(known) = self.pastes.tickets.iter_mut().find(|known| known.number == ticket)
        else {
            return Ok(());
        };
        match content {
            Ok(bundle) if known.format == ClipFormat::Files => {
                match self.conversions.unpack(bundle) {
                    Ok(number) => {
                        known.unpacking = Some(number);
                        Ok(())
                    }
                    Err(why) => self.give_out(ticket, Err(why)),
                }
            }
            content => self.give_out(ticket, content),
        }
    }

    /// Files have been written, or could not be.
    pub(crate) fn unpacked(
        &mut self,
        number: u64,
        uri_list: Result<Vec<u8>, ClipEnd>,
    ) -> Result<(), XError> {
        let is_for = |ticket: &&Ticket| ticket.unpacking == Some(number);
        match self.pastes.tickets.iter().find(is_for).map(|ticket| ticket.number) {
            Some(ticket) => self.give_out(ticket, uri_list),
            None => Ok(()),
        }
    }

    /// The content goes to all who wait for it.
    fn give_out(&mut self, ticket: u32, content: Result<Vec<u8>, ClipEnd>) -> Result<(), XError> {
        let Some(at) = self.pastes.tickets.iter().position(|known| known.number == ticket) else {
            return Ok(());
        };
        let Ticket { selection, format, acquisition, .. } = self.pastes.tickets.swap_remove(at);
        let is_ours = self.selections[selection as usize]
            .ours
            .is_some_and(|ours| ours.acquisition == acquisition);
        let content = content.ok().map(Arc::new);
        // Each conversion is done once.
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
                self.selections[selection as usize].copies.give(
                    client,
                    format,
                    content,
                    Instant::now(),
                );
            }
            let target = paste.target;
            let (type_, content) = if target == u32::from(AtomEnum::STRING) {
                (target, latin1.get_or_insert_with(|| Arc::new(text::latin1(content))).clone())
            } else if target == self.atoms.TEXT {
                (self.atoms.UTF8_STRING, content.clone())
            } else if target == self.atoms.GNOME_FILES {
                (target, Arc::new(files::gnome_list(content)))
            } else if target == self.atoms.HTML {
                let convert =
                    || text::html_for_x(content).map_or_else(|| content.clone(), Arc::new);
                (target, html.get_or_insert_with(convert).clone())
            } else {
                (target, content.clone())
            };
            if content.len() <= self.chunk_bytes() {
                let (window, property) = (paste.requestor, paste.property);
                self.connection.change_property8(
                    PropMode::REPLACE,
                    window,
                    property,
                    type_,
                    &content,
                )?;
                self.answer(&paste, true)?;
                self.unwatch(paste.requestor)?;
            } else {
                // A lower bound of the length; deleting the property requests the first chunk.
                let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
                let (window, property, incr) = (paste.requestor, paste.property, self.atoms.INCR);
                self.connection.change_property32(
                    PropMode::REPLACE,
                    window,
                    property,
                    incr,
                    &[length],
                )?;
                self.answer(&paste, true)?;
                let deadline = Instant::now() + CHUNK_TIMEOUT;
                paste.state = State::Chunks { content, type_, sent: 0, ended: false, deadline };
                self.pastes.pastes.push(paste);
            }
        }
        Ok(())
    }

    fn answer(&mut self, paste: &Paste, given: bool) -> Result<(), XError> {
        if let Some((number, place)) = paste.multiple {
            return self.finish_part(number, place, given);
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

    /// An application has read a chunk: sends the next, and an empty one after the last.
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
        let State::Chunks { content, type_, sent, ended, deadline } = &mut paste.state else {
            return Ok(());
        };
        if *ended {
            self.pastes.pastes.swap_remove(at);
            return self.unwatch(requestor);
        }
        let rest = &content[*sent..];
        let chunk = &rest[..rest.len().min(chunk_bytes)];
        self.connection.change_property8(PropMode::REPLACE, requestor, property, *type_, chunk)?;
        *sent += chunk.len();
        *ended = chunk.is_empty();
        *deadline = Instant::now() + CHUNK_TIMEOUT;
        Ok(())
    }

    /// An application's window is gone, and with it its requests.
    pub(crate) fn requestor_gone(&mut self, window: Window) {
        self.pastes.multiples.retain(|multiple| multiple.requestor != window);
        self.pastes.pastes.retain(|paste| paste.requestor != window);
        self.drop_unwanted_tickets();
    }

    pub(crate) fn paste_deadlines(&mut self, now: Instant) -> Result<(), XError> {
        self.drop_pastes(
            |paste| matches!(paste.state, State::Chunks { deadline, .. } if deadline <= now),
        )
    }

    fn drop_pastes(&mut self, which: impl Fn(&Paste) -> bool) -> Result<(), XError> {
        while let Some(at) = self.pastes.pastes.iter().position(&which) {
            let paste = self.pastes.pastes.swap_remove(at);
            if let (Some((number, place)), State::Waits(_)) = (paste.multiple, &paste.state) {
                self.finish_part(number, place, false)?;
            }
            self.unwatch(paste.requestor)?;
        }
        self.drop_unwanted_tickets();
        Ok(())
    }

    /// Drops tickets that nobody waits for.
    fn drop_unwanted_tickets(&mut self) {
        let pastes = &self.pastes.pastes;
        let waited = |ticket: u32| {
            pastes.iter().any(|paste| matches!(paste.state, State::Waits(of) if of == ticket))
        };
        let gone: Vec<u32> = self
            .pastes
            .tickets
            .iter()
            .map(|ticket| ticket.number)
            .filter(|&ticket| !waited(ticket))
            .collect();
        self.pastes.tickets.retain(|ticket| !gone.contains(&ticket.number));
        gone.into_iter().for_each(|ticket| self.emit(XSelectionEvent::Unwanted { ticket }));
    }

    fn watch(&self, window: Window, events: EventMask) -> Result<(), XError> {
        let aux = ChangeWindowAttributesAux::new().event_mask(events);
        self.connection.change_window_attributes(window, &aux)?;
        Ok(())
    }

    /// Clears the event mask of a window without further requests.
    fn unwatch(&self, window: Window) -> Result<(), XError> {
        let busy = self.pastes.pastes.iter().any(|paste| paste.requestor == window);
        if busy { Ok(()) } else { self.watch(window, EventMask::NO_EVENT) }
    }
}
