//! Path beside the pixels: from the X server's events and the owner's wishes, to fetch.rs and paste.rs.
//! The client's one loop, who owns each selection, and taking them over.
//! Knows owners and formats; contents are the others' business.

use std::os::fd::AsFd as _;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thinc_protocol::clip::{ClipFormat, ClipFormats, Selection};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{ConnectionExt as _, SelectionEvent, SelectionEventMask, SelectionNotifyEvent};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, Property, PropertyNotifyEvent, Timestamp,
    Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT, CURRENT_TIME, NONE};

use crate::atoms::Atoms;
use crate::copies::{Copies, Suspicion};
use crate::fetch::Fetches;
use crate::paste::Pastes;
use crate::{Command, Inbox, XError, XSelectionEvent};

/// 100 ms: least time between two looks at what a selection has become. A mouse that marks text makes a new owner with
/// every motion, and nobody pastes that fast.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// What a selection has that is ours, for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ours {
    pub(crate) formats: ClipFormats,
    /// Since when, as the X server counts.
    pub(crate) time: Timestamp,
    /// Which of our takings it was.
    pub(crate) taking: u32,
}

/// One selection.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) atom: Atom,
    /// The X server's word, `NONE` for nobody.
    pub(crate) owner: Window,
    /// The names the owner gives its content in, where it said.
    pub(crate) targets: Vec<Atom>,
    pub(crate) ours: Option<Ours>,
    /// To be taken over with these as soon as the X server says what time it is.
    wish: Option<ClipFormats>,
    /// Calls of [`crate::XSelections::own`] that were carried out, or overtaken by one that was.
    owned: u32,
    /// A new owner is to be asked what it has, at this moment.
    look_at: Option<Instant>,
    looked: Option<Instant>,
    pub(crate) copies: Copies,
}

impl Watched {
    fn new(atom: Atom) -> Watched {
        Watched {
            atom,
            owner: NONE,
            targets: Vec::new(),
            ours: None,
            wish: None,
            owned: 0,
            look_at: None,
            looked: None,
            copies: Copies::default(),
        }
    }
}

pub(crate) struct Worker<'a> {
    pub(crate) connection: &'a RustConnection,
    pub(crate) atoms: Atoms,
    root: Window,
    /// Owns what is ours.
    pub(crate) window: Window,
    pub(crate) bytes_max: usize,
    pub(crate) selections: [Watched; 2],
    takings: u32,
    pub(crate) fetches: Fetches,
    pub(crate) pastes: Pastes,
    on_event: Box<dyn FnMut(XSelectionEvent) + Send>,
}

/// The thread.
pub(crate) fn run(
    display: Option<&str>,
    bytes_max: usize,
    inbox: &Inbox,
    mut on_event: Box<dyn FnMut(XSelectionEvent) + Send>,
) {
    // Reads XAUTHORITY from the environment, as every X client does.
    let (connection, screen) = match x11rb::connect(display) {
        Ok(connected) => connected,
        Err(error) => return on_event(XSelectionEvent::Ended(XError::from(error).to_string())),
    };
    let root = connection.setup().roots[screen].root;
    let (atoms, window) = match prepare(&connection, root) {
        Ok(prepared) => prepared,
        Err(error) => return on_event(XSelectionEvent::Ended(error.to_string())),
    };
    let mut worker = Worker {
        connection: &connection,
        atoms,
        root,
        window,
        bytes_max,
        selections: Selection::ALL.map(|selection| Watched::new(atoms.selection(selection))),
        takings: 0,
        fetches: Fetches::default(),
        pastes: Pastes::default(),
        on_event,
    };
    if let Err(error) = worker.attend(inbox) {
        worker.emit(XSelectionEvent::Ended(error.to_string()));
    }
}

fn prepare(connection: &RustConnection, root: Window) -> Result<(Atoms, Window), XError> {
    let atoms = Atoms::new(connection)?.reply()?;
    // A version must be agreed on before anything else; selections came with the first.
    connection.xfixes_query_version(1, 0)?.reply()?;
    Ok((atoms, new_window(connection, root)?))
}

impl Worker<'_> {
    pub(crate) fn emit(&mut self, event: XSelectionEvent) {
        (self.on_event)(event);
    }

    pub(crate) fn new_window(&self) -> Result<Window, XError> {
        new_window(self.connection, self.root)
    }

    fn attend(&mut self, inbox: &Inbox) -> Result<(), XError> {
        for selection in Selection::ALL {
            let mask = SelectionEventMask::SET_SELECTION_OWNER
                | SelectionEventMask::SELECTION_WINDOW_DESTROY
                | SelectionEventMask::SELECTION_CLIENT_CLOSE;
            let atom = self.selections[selection as usize].atom;
            self.connection.xfixes_select_selection_input(self.window, atom, mask)?;
            // Asked after watching began, so that no owner is missed.
            let owner = self.connection.get_selection_owner(atom)?.reply()?.owner;
            self.owner_is(selection, owner)?;
        }
        loop {
            let mut quiet = true;
            loop {
                match inbox.commands.try_recv() {
                    Ok(command) => self.carry_out(command, inbox)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            self.handle_deadlines(Instant::now())?;
            self.connection.flush()?;
            // Replies bring events along: none may be left behind when the thread goes to sleep.
            while let Some(event) = self.connection.poll_for_event()? {
                quiet = false;
                self.handle(&event)?;
            }
            if quiet {
                self.wait(inbox)?;
            }
        }
    }

    /// Until the X server says something, somebody wishes for something, or patience ends.
    fn wait(&self, inbox: &Inbox) -> Result<(), XError> {
        let looks = self.selections.iter().filter_map(|watched| watched.look_at);
        let next = looks.chain(self.fetches.deadline()).chain(self.pastes.deadline()).min();
        let timeout = next.map(|at| {
            // Rounded up, or the last fraction would be waited for in a circle.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
        let stream = self.connection.stream().as_fd();
        let mut fds = [PollFd::from_borrowed_fd(stream, PollFlags::IN), PollFd::new(&inbox.woken, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // What was written there is read before the wishes are looked at, so that none is overlooked.
        let _ = rustix::io::read(&inbox.woken, &mut [0; 8]);
        Ok(())
    }

    fn carry_out(&mut self, command: Command, inbox: &Inbox) -> Result<(), XError> {
        match command {
            Command::Own(selection) => match inbox.wishes.take(selection) {
                Some((formats, calls)) => self.own(selection, formats, calls),
                None => Ok(()),
            },
            Command::Provide(ticket, content) => self.provide(ticket, content),
            Command::Fetch(id, selection, format) => self.fetch(id, selection, format),
            Command::Cancel(id) => self.cancel(id),
        }
    }

    fn handle(&mut self, event: &Event) -> Result<(), XError> {
        match event {
            Event::XfixesSelectionNotify(notify) => self.owner_changed(notify)?,
            Event::SelectionRequest(request) => self.requested(request)?,
            Event::SelectionNotify(notify) => self.converted(notify)?,
            Event::PropertyNotify(notify) if notify.window == self.window => self.clock(notify)?,
            Event::PropertyNotify(notify) if notify.state == Property::NEW_VALUE => self.next_chunk(notify)?,
            Event::PropertyNotify(notify) => self.chunk_taken(notify)?,
            Event::DestroyNotify(notify) => self.requestor_gone(notify.window),
            // Windows of other programs vanish while something is written to them: what waits for them has a deadline.
            Event::Error(_) => {}
            // SelectionClear among them: XFIXES has said who owns it now.
            _ => {}
        }
        Ok(())
    }

    fn handle_deadlines(&mut self, now: Instant) -> Result<(), XError> {
        for selection in Selection::ALL {
            let watched = &mut self.selections[selection as usize];
            if watched.look_at.take_if(|at| *at <= now).is_some() {
                watched.looked = Some(now);
                self.look(selection)?;
            }
        }
        self.fetch_deadlines(now)?;
        self.paste_deadlines(now)
    }

    // ---- owners ----------------------------------------------------------------------------------------------------

    fn owner_changed(&mut self, notify: &SelectionNotifyEvent) -> Result<(), XError> {
        let Some(selection) = self.atoms.which(notify.selection) else { return Ok(()) };
        if notify.subtype != SelectionEvent::SET_SELECTION_OWNER {
            self.owner_gone(self.selections[selection as usize].owner);
        }
        self.owner_is(selection, notify.owner)
    }

    fn owner_is(&mut self, selection: Selection, owner: Window) -> Result<(), XError> {
        let window = self.window;
        let watched = &mut self.selections[selection as usize];
        watched.owner = owner;
        watched.look_at = None;
        if owner == window {
            return Ok(());
        }
        watched.targets.clear();
        let kept = watched.copies.kept.take();
        watched.copies.lent = watched.ours.take().map(|ours| ours.formats).or(kept);
        self.forget_look(selection);
        let watched = &mut self.selections[selection as usize];
        if owner != NONE {
            let now = Instant::now();
            watched.look_at = Some(watched.looked.map_or(now, |looked| now.max(looked + LOOK_PAUSE)));
        } else if let Some(formats) = kept {
            // Whoever kept a copy of it has gone; it can still be had from where it came from.
            return self.take_over(selection, formats);
        } else {
            self.tell(selection, ClipFormats::NONE);
        }
        Ok(())
    }

    /// The owner has said in which forms its content can be had.
    pub(crate) fn looked(&mut self, selection: Selection, targets: Vec<Atom>) -> Result<(), XError> {
        let formats = self.atoms.formats(&targets);
        let client = self.client(self.selections[selection as usize].owner);
        let watched = &mut self.selections[selection as usize];
        watched.targets = targets;
        match watched.copies.suspect(client, formats, Instant::now()) {
            Suspicion::None => self.tell(selection, formats),
            Suspicion::Compare(format) => self.compare(selection, format)?,
            Suspicion::Echo => self.keep(selection),
        }
        Ok(())
    }

    /// The new owner was given this by us, and has this now; `None` where it would not say.
    pub(crate) fn compared(&mut self, selection: Selection, format: ClipFormat, content: Option<&[u8]>) {
        let client = self.client(self.selections[selection as usize].owner);
        let watched = &self.selections[selection as usize];
        if content.is_some_and(|content| watched.copies.was_given(client, format, content)) {
            self.keep(selection);
        } else {
            let formats = self.atoms.formats(&watched.targets);
            self.tell(selection, formats);
        }
    }

    /// The owner holds what was ours, and so nothing new: a clipboard manager. To tell of it would send it back to where
    /// it came from, and to a manager there, without end.
    fn keep(&mut self, selection: Selection) {
        let copies = &mut self.selections[selection as usize].copies;
        copies.kept = copies.lent;
    }

    /// The program that a window belongs to.
    pub(crate) fn client(&self, window: Window) -> u32 {
        window & !self.connection.setup().resource_id_mask
    }

    fn tell(&mut self, selection: Selection, formats: ClipFormats) {
        let watched = &mut self.selections[selection as usize];
        watched.copies.begin();
        let after = watched.owned;
        self.emit(XSelectionEvent::Owned { selection, formats, after });
    }

    // ---- taking over -----------------------------------------------------------------------------------------------

    /// The newest of so many calls.
    fn own(&mut self, selection: Selection, formats: ClipFormats, calls: u32) -> Result<(), XError> {
        let window = self.window;
        let watched = &mut self.selections[selection as usize];
        watched.owned = calls;
        if !formats.is_empty() {
            return self.take_over(selection, formats);
        }
        watched.wish = None;
        if let Some(ours) = watched.ours.take() {
            self.connection.set_selection_owner(NONE, watched.atom, ours.time)?;
        } else if watched.owner != NONE && watched.owner != window {
            // What a manager kept of it is all there is now, and so news. So is another program's, of which was told when
            // it was still to be taken over, and which was taken for stale.
            if watched.copies.kept.take().is_some() {
                watched.copies.begin();
            }
            watched.look_at = Some(Instant::now());
        }
        Ok(())
    }

    fn take_over(&mut self, selection: Selection, formats: ClipFormats) -> Result<(), XError> {
        let watched = &mut self.selections[selection as usize];
        // What the owner until now has is of no interest any more.
        watched.look_at = None;
        watched.wish = Some(formats);
        self.forget_look(selection);
        // ICCCM §2.1: ownership begins at a time of the server's, which a property's change tells.
        // Replaced, since appending fails where a program has given it another type.
        let clock = self.atoms.THINC_CLOCK;
        self.connection.change_property32(PropMode::REPLACE, self.window, clock, AtomEnum::INTEGER, &[])?;
        Ok(())
    }

    fn clock(&mut self, notify: &PropertyNotifyEvent) -> Result<(), XError> {
        if notify.atom != self.atoms.THINC_CLOCK {
            return Ok(());
        }
        for watched in &mut self.selections {
            let Some(formats) = watched.wish.take() else { continue };
            self.connection.set_selection_owner(self.window, watched.atom, notify.time)?;
            // Refused where somebody was later: that one was told of already.
            if self.connection.get_selection_owner(watched.atom)?.reply()?.owner == self.window {
                self.takings = self.takings.wrapping_add(1);
                watched.owner = self.window;
                watched.targets.clear();
                watched.copies.begin();
                watched.ours = Some(Ours { formats, time: notify.time, taking: self.takings });
            }
        }
        Ok(())
    }
}

/// A window that is never seen: it owns, or has contents put on it.
fn new_window(connection: &RustConnection, root: Window) -> Result<Window, XError> {
    let window = connection.generate_id()?;
    let aux = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
    let (depth, class, visual) = (COPY_DEPTH_FROM_PARENT, WindowClass::INPUT_OUTPUT, COPY_FROM_PARENT);
    connection.create_window(depth, window, root, -1, -1, 1, 1, 0, class, visual, &aux)?;
    Ok(window)
}

impl Worker<'_> {
    /// Bytes of one property that is written at once: well within the longest request of any X server.
    pub(crate) fn chunk_bytes(&self) -> usize {
        (self.connection.maximum_request_bytes() / 2).min(128 * 1024)
    }

    /// Asks the owner to put its content, in the form `target`, on a window of ours.
    pub(crate) fn convert(&self, window: Window, selection: Atom, target: Atom) -> Result<(), XError> {
        self.connection.convert_selection(window, selection, target, self.atoms.THINC_CONTENT, CURRENT_TIME)?;
        Ok(())
    }
}
