//! Path beside the pixels: from the X server's events and the caller's commands, to fetch.rs and
//! paste.rs.
//! The client's event loop; who owns each selection, and acquiring ownership. Knows owners and
//! formats; fetch.rs and paste.rs handle contents.

use std::os::fd::AsFd as _;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thinc_files_disk::Folders;
use thinc_protocol::clip::{ClipFormat, ClipFormats, Selection};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::{
    ConnectionExt as _, SelectionEvent, SelectionEventMask, SelectionNotifyEvent,
};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, CreateWindowAux, EventMask, PropMode, Property,
    PropertyNotifyEvent, Timestamp, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT, CURRENT_TIME, NONE};

use crate::atoms::Atoms;
use crate::conversions::Conversions;
use crate::copies::{Copies, Suspicion};
use crate::fetch::Fetches;
use crate::paste::Pastes;
use crate::{Command, Inbox, XError, XSelectionEvent};

/// 100 ms: least time between two requests for a selection's targets. Selecting text with the mouse
/// makes a new owner with every motion, and nobody pastes that fast.
const TARGETS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Our ownership of a selection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ours {
    pub(crate) formats: ClipFormats,
    /// Start of the ownership, in server time.
    pub(crate) time: Timestamp,
    /// Count of our acquisitions, to tell this one from others.
    pub(crate) acquisition: u32,
}

/// One selection.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) atom: Atom,
    /// The owner as the X server reports it; `NONE` for nobody.
    pub(crate) owner: Window,
    /// The owner's targets, once known.
    pub(crate) targets: Vec<Atom>,
    pub(crate) ours: Option<Ours>,
    /// Formats to acquire the selection with, once the server's time is known.
    pending: Option<ClipFormats>,
    /// Calls of [`crate::XSelections::own`] that were handled, or replaced by a newer one.
    owned: u32,
    /// When to request a new owner's targets.
    targets_at: Option<Instant>,
    targets_requested: Option<Instant>,
    pub(crate) copies: Copies,
}

impl Watched {
    fn new(atom: Atom) -> Watched {
        Watched {
            atom,
            owner: NONE,
            targets: Vec::new(),
            ours: None,
            pending: None,
            owned: 0,
            targets_at: None,
            targets_requested: None,
            copies: Copies::default(),
        }
    }
}

pub(crate) struct Worker<'a> {
    pub(crate) connection: &'a RustConnection,
    pub(crate) atoms: Atoms,
    root: Window,
    /// The window that owns our selections.
    pub(crate) window: Window,
    pub(crate) bytes_max: usize,
    pub(crate) selections: [Watched; 2],
    acquisitions: u32,
    pub(crate) fetches: Fetches,
    pub(crate) conversions: Conversions,
    pub(crate) pastes: Pastes,
    on_event: Box<dyn FnMut(XSelectionEvent) + Send>,
}

/// Main function of the thread.
pub(crate) fn run(
    display: Option<&str>,
    bytes_max: usize,
    folders: Option<Folders>,
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
        acquisitions: 0,
        fetches: Fetches::default(),
        conversions: Conversions::new(folders, inbox.woken.clone()),
        pastes: Pastes::default(),
        on_event,
    };
    if let Err(error) = worker.serve(inbox) {
        worker.emit(XSelectionEvent::Ended(error.to_string()));
    }
}

fn prepare(connection: &RustConnection, root: Window) -> Result<(Atoms, Window), XError> {
    let atoms = Atoms::new(connection)?.reply()?;
    // The version must be negotiated first; selection events exist since the first.
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

    fn serve(&mut self, inbox: &Inbox) -> Result<(), XError> {
        for selection in Selection::ALL {
            let mask = SelectionEventMask::SET_SELECTION_OWNER
                | SelectionEventMask::SELECTION_WINDOW_DESTROY
                | SelectionEventMask::SELECTION_CLIENT_CLOSE;
            let atom = self.selections[selection as usize].atom;
            self.connection.xfixes_select_selection_input(self.window, atom, mask)?;
            // Queried after selecting the events, so that no owner is missed.
            let owner = self.connection.get_selection_owner(atom)?.reply()?.owner;
            self.set_owner(selection, owner)?;
        }
        loop {
            let mut idle = true;
            loop {
                match inbox.commands.try_recv() {
                    Ok(command) => self.execute(command, inbox)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            while let Some((number, result)) = self.conversions.poll() {
                self.converted(number, result)?;
            }
            self.handle_deadlines(Instant::now())?;
            self.connection.flush()?;
            // Reading replies may queue events: handle all before the thread sleeps.
            while let Some(event) = self.connection.poll_for_event()? {
                idle = false;
                self.handle(&event)?;
            }
            if idle {
                self.wait(inbox)?;
            }
        }
    }

    /// Sleeps until an X event, a command or a deadline.
    fn wait(&self, inbox: &Inbox) -> Result<(), XError> {
        let inspections = self.selections.iter().filter_map(|watched| watched.targets_at);
        let next = inspections.chain(self.fetches.deadline()).chain(self.pastes.deadline()).min();
        let timeout = next.map(|at| {
            // Rounded up; otherwise the last fraction would be a busy loop.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
        let stream = self.connection.stream().as_fd();
        let mut fds = [
            PollFd::from_borrowed_fd(stream, PollFlags::IN),
            PollFd::new(&inbox.woken, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Read before the commands are, so that none is missed.
        let _ = rustix::io::read(&inbox.woken, &mut [0; 8]);
        Ok(())
    }

    fn execute(&mut self, command: Command, inbox: &Inbox) -> Result<(), XError> {
        match command {
            Command::Own(selection) => match inbox.own_requests.take(selection) {
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
            Event::SelectionRequest(request) => self.handle_request(request)?,
            Event::SelectionNotify(notify) => self.handle_notify(notify)?,
            Event::PropertyNotify(notify) if notify.window == self.window => {
                self.handle_server_time(notify)?
            }
            Event::PropertyNotify(notify) if notify.state == Property::NEW_VALUE => {
                self.next_chunk(notify)?
            }
            Event::PropertyNotify(notify) => self.chunk_taken(notify)?,
            Event::DestroyNotify(notify) => self.requestor_gone(notify.window),
            // Windows of other applications vanish while they are written to: their transfers have
            // deadlines.
            Event::Error(_) => {}
            // Including SelectionClear: XFIXES has reported the new owner.
            _ => {}
        }
        Ok(())
    }

    fn handle_deadlines(&mut self, now: Instant) -> Result<(), XError> {
        for selection in Selection::ALL {
            let watched = &mut self.selections[selection as usize];
            if watched.targets_at.take_if(|at| *at <= now).is_some() {
                watched.targets_requested = Some(now);
                self.fetch_targets(selection)?;
            }
        }
        self.fetch_deadlines(now)?;
        self.paste_deadlines(now)
    }

    // Owners of the selections.
    fn owner_changed(&mut self, notify: &SelectionNotifyEvent) -> Result<(), XError> {
        let Some(selection) = self.atoms.which(notify.selection) else { return Ok(()) };
        if notify.subtype != SelectionEvent::SET_SELECTION_OWNER {
            self.owner_gone(self.selections[selection as usize].owner);
        }
        self.set_owner(selection, notify.owner)
    }

    fn set_owner(&mut self, selection: Selection, owner: Window) -> Result<(), XError> {
        let window = self.window;
        let watched = &mut self.selections[selection as usize];
        watched.owner = owner;
        watched.targets_at = None;
        if owner == window {
            return Ok(());
        }
        watched.targets.clear();
        let kept = watched.copies.kept.take();
        watched.copies.lent = watched.ours.take().map(|ours| ours.formats).or(kept);
        self.cancel_inspection(selection);
        let watched = &mut self.selections[selection as usize];
        if owner != NONE {
            let now = Instant::now();
            watched.targets_at = Some(watched.targets_requested.map_or(now, |targets_requested| {
                now.max(targets_requested + TARGETS_INTERVAL_MIN)
            }));
        } else if let Some(formats) = kept {
            // The clipboard manager that kept a copy has gone; the original is still available.
            return self.acquire(selection, formats);
        } else {
            self.report_owner(selection, ClipFormats::NONE);
        }
        Ok(())
    }

    /// The owner has reported its targets.
    pub(crate) fn handle_targets(
        &mut self,
        selection: Selection,
        targets: Vec<Atom>,
    ) -> Result<(), XError> {
        let formats = self.atoms.formats(&targets);
        let mut available = self.atoms.available(&targets);
        if !self.conversions.has_files() {
            available = available.without(ClipFormat::Files);
        }
        let client = self.client(self.selections[selection as usize].owner);
        let watched = &mut self.selections[selection as usize];
        watched.targets = targets;
        match watched.copies.suspect(client, formats, Instant::now()) {
            Suspicion::None => self.report_owner(selection, available),
            Suspicion::Compare(format) => self.compare(selection, format)?,
            Suspicion::Echo => self.ignore_copy(selection),
        }
        Ok(())
    }

    /// The new owner had pasted our content: compares it with what it holds now; `None` if it did
    /// not answer.
    pub(crate) fn handle_comparison(
        &mut self,
        selection: Selection,
        format: ClipFormat,
        content: Option<&[u8]>,
    ) {
        let client = self.client(self.selections[selection as usize].owner);
        let watched = &self.selections[selection as usize];
        if content.is_some_and(|content| watched.copies.was_given(client, format, content)) {
            self.ignore_copy(selection);
        } else {
            let available = self.atoms.available(&watched.targets);
            self.report_owner(selection, available);
        }
    }

    /// The owner holds a copy of our content: a clipboard manager. Reporting it would send it back
    /// to its origin, and to a manager there, in an endless loop.
    fn ignore_copy(&mut self, selection: Selection) {
        let copies = &mut self.selections[selection as usize].copies;
        copies.kept = copies.lent;
    }

    /// The X client that a window belongs to.
    pub(crate) fn client(&self, window: Window) -> u32 {
        window & !self.connection.setup().resource_id_mask
    }

    fn report_owner(&mut self, selection: Selection, formats: ClipFormats) {
        let watched = &mut self.selections[selection as usize];
        watched.copies.reset();
        let after = watched.owned;
        self.emit(XSelectionEvent::Owned { selection, formats, after });
    }

    // Acquiring ownership.

    /// Handles the newest of `calls` calls.
    fn own(
        &mut self,
        selection: Selection,
        formats: ClipFormats,
        calls: u32,
    ) -> Result<(), XError> {
        let window = self.window;
        let watched = &mut self.selections[selection as usize];
        watched.owned = calls;
        if !formats.is_empty() {
            return self.acquire(selection, formats);
        }
        watched.pending = None;
        if let Some(ours) = watched.ours.take() {
            self.connection.set_selection_owner(NONE, watched.atom, ours.time)?;
        } else if watched.owner != NONE && watched.owner != window {
            // A copy kept by a manager is now the only content, and so is reported; likewise
            // another application's, whose event was taken for stale while we were about to
            // acquire.
            if watched.copies.kept.take().is_some() {
                watched.copies.reset();
            }
            watched.targets_at = Some(Instant::now());
        }
        Ok(())
    }

    fn acquire(&mut self, selection: Selection, formats: ClipFormats) -> Result<(), XError> {
        let watched = &mut self.selections[selection as usize];
        // The previous owner's targets do not matter any more.
        watched.targets_at = None;
        watched.pending = Some(formats);
        self.cancel_inspection(selection);
        // ICCCM §2.1: ownership starts at a server time, which a property change yields.
        // PropMode::REPLACE, since appending fails if an application has changed the type.
        let property = self.atoms.THINC_CLOCK;
        self.connection.change_property32(
            PropMode::REPLACE,
            self.window,
            property,
            AtomEnum::INTEGER,
            &[],
        )?;
        Ok(())
    }

    fn handle_server_time(&mut self, notify: &PropertyNotifyEvent) -> Result<(), XError> {
        if notify.atom != self.atoms.THINC_CLOCK {
            return Ok(());
        }
        for watched in &mut self.selections {
            let Some(formats) = watched.pending.take() else { continue };
            self.connection.set_selection_owner(self.window, watched.atom, notify.time)?;
            // The server refuses if a later owner exists, which was reported already.
            if self.connection.get_selection_owner(watched.atom)?.reply()?.owner == self.window {
                self.acquisitions = self.acquisitions.wrapping_add(1);
                watched.owner = self.window;
                watched.targets.clear();
                watched.copies.reset();
                watched.ours =
                    Some(Ours { formats, time: notify.time, acquisition: self.acquisitions });
            }
        }
        Ok(())
    }
}

/// An unmapped window, to own selections or receive contents.
pub(crate) fn new_window(connection: &RustConnection, root: Window) -> Result<Window, XError> {
    let window = connection.generate_id()?;
    let aux = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
    let (depth, class, visual) =
        (COPY_DEPTH_FROM_PARENT, WindowClass::INPUT_OUTPUT, COPY_FROM_PARENT);
    connection.create_window(depth, window, root, -1, -1, 1, 1, 0, class, visual, &aux)?;
    Ok(window)
}

impl Worker<'_> {
    /// Bytes written to a property at once: well within the maximum request of any X server.
    pub(crate) fn chunk_bytes(&self) -> usize {
        (self.connection.maximum_request_bytes() / 2).min(128 * 1024)
    }

    /// Requests the owner's content as `target` on a window of ours.
    pub(crate) fn convert(
        &self,
        window: Window,
        selection: Atom,
        target: Atom,
    ) -> Result<(), XError> {
        self.connection.convert_selection(
            window,
            selection,
            target,
            self.atoms.THINC_CONTENT,
            CURRENT_TIME,
        )?;
        Ok(())
    }
}
