//! Path back, beside the pixels: from files that a viewer has dropped on the screen, to the program
//! whose window was there. Plays the source's part of a drag (XDND, version 5, freedesktop.org):
//! the window is found when the person drops, and takes the files once they have arrived.
//! Knows XDND; never how files arrive.
//!
//! Every call blocks until the X server has answered, so the caller has a thread for it.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ClientMessageEvent, ConnectionExt as _, EventMask,
    PropMode, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent, SelectionRequestEvent, Timestamp,
    Window,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{CURRENT_TIME, NONE, atom_manager};

use crate::XError;
use crate::files;
use crate::worker::new_window;

/// Version of XDND that is spoken; of a target, the least that sends `XdndStatus` with an action.
const VERSION: u32 = 5;
const VERSION_MIN: u32 = 3;
/// 1 s: how long a window is asked whether it takes the files. Chromium says no twice before it
/// has asked its page.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(1);
/// 20 ms: between two questions.
const ASK_INTERVAL: Duration = Duration::from_millis(20);
/// 4 s: how long a program may take to read the paths.
const FINISH_TIMEOUT: Duration = Duration::from_secs(4);
/// 32: windows inside one another that are looked through.
const DEPTH_MAX: usize = 32;

atom_manager! {
    /// Atoms of XDND.
    DragAtoms:
    /// Replies that are pending.
    DragAtomsCookie {
        XdndAware,
        XdndProxy,
        XdndEnter,
        XdndPosition,
        XdndStatus,
        XdndLeave,
        XdndDrop,
        XdndFinished,
        XdndSelection,
        XdndActionList,
        XdndActionCopy,
        XdndActionMove,
        TARGETS,
        TIMESTAMP,
        URI_LIST: b"text/uri-list",
        THINC_CLOCK,
    }
}

/// A window that files were dropped on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropTarget {
    window: Window,
    /// The window that receives its messages: itself, or its proxy.
    receiver: Window,
    version: u32,
    /// The point within the window: it may be moved before the files have arrived.
    x: i16,
    y: i16,
}

/// An X client that plays drags. Windows that it has found are watched while it lives: another
/// program may get the number of a closed one.
#[derive(Debug)]
pub struct Drags {
    connection: RustConnection,
    atoms: DragAtoms,
    root: Window,
    window: Window,
    closed: Vec<Window>,
}

/// Why no drag can be played.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DragError(#[from] XError);

impl Drags {
    /// Connects to a display (`None`: the environment's).
    ///
    /// # Errors
    /// The X server cannot be reached.
    pub fn connect(display: Option<&str>) -> Result<Drags, DragError> {
        Ok(Drags::open(display)?)
    }

    fn open(display: Option<&str>) -> Result<Drags, XError> {
        let (connection, screen) = x11rb::connect(display)?;
        let root = connection.setup().roots[screen].root;
        let atoms = DragAtoms::new(&connection)?.reply()?;
        let window = new_window(&connection, root)?;
        Ok(Drags { connection, atoms, root, window, closed: Vec::new() })
    }

    /// The window at a point of the screen, in pixels, if its program takes drops.
    ///
    /// # Errors
    /// The connection to the X server is lost.
    pub fn find(&mut self, x: i16, y: i16) -> Result<Option<DropTarget>, DragError> {
        Ok(self.find_window(x, y)?)
    }

    /// Drops the files on the window. False if its program does not take them, or it is closed.
    ///
    /// # Errors
    /// The connection to the X server is lost.
    pub fn play(&mut self, target: DropTarget, paths: &[&Path]) -> Result<bool, DragError> {
        let list = files::uri_list(paths);
        // A property is set by one request.
        if list.len() + 64 > self.connection.maximum_request_bytes() {
            return Ok(false);
        }
        Ok(self.play_list(target, &list)?)
    }

    fn find_window(&mut self, x: i16, y: i16) -> Result<Option<DropTarget>, XError> {
        let (mut window, mut depth) = (self.root, 0);
        loop {
            let Ok(at) = self.connection.translate_coordinates(self.root, window, x, y)?.reply()
            else {
                // It was closed meanwhile.
                return Ok(None);
            };
            if window != self.root
                && let Some(target) = self.target(window, at.dst_x, at.dst_y)?
            {
                return Ok(Some(target));
            }
            depth += 1;
            if at.child == NONE || depth == DEPTH_MAX {
                // The desktop is behind all windows; some file managers take its drops by a proxy.
                return self.target(self.root, x, y);
            }
            window = at.child;
        }
    }

    fn target(&mut self, window: Window, x: i16, y: i16) -> Result<Option<DropTarget>, XError> {
        let Some((receiver, version)) = self.aware(window)? else { return Ok(None) };
        let aux = ChangeWindowAttributesAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
        if self.connection.change_window_attributes(window, &aux)?.check().is_err() {
            return Ok(None);
        }
        self.closed.retain(|&closed| closed != window);
        Ok(Some(DropTarget { window, receiver, version, x, y }))
    }

    /// Which window receives messages about drops on this one, and the version that is spoken.
    fn aware(&self, window: Window) -> Result<Option<(Window, u32)>, XError> {
        // A proxy names itself: the property of a program that has crashed would not.
        let proxy = self.window_property(window, self.atoms.XdndProxy)?;
        let proxy = match proxy {
            Some(proxy) => {
                self.window_property(proxy, self.atoms.XdndProxy)?.filter(|&named| named == proxy)
            }
            None => None,
        };
        let receiver = proxy.unwrap_or(window);
        let reply = self.connection.get_property(
            false,
            receiver,
            self.atoms.XdndAware,
            AtomEnum::ANY,
            0,
            1,
        );
        let version = reply?.reply().ok().and_then(|reply| reply.value32()?.next());
        Ok(version
            .filter(|&version| version >= VERSION_MIN)
            .map(|version| (receiver, version.min(VERSION))))
    }

    fn window_property(&self, window: Window, property: Atom) -> Result<Option<Window>, XError> {
        let reply =
            self.connection.get_property(false, window, property, AtomEnum::WINDOW, 0, 1)?.reply();
        Ok(reply.ok().and_then(|reply| reply.value32()?.next()))
    }

    /// The next event, if there is one before the deadline.
    fn wait(&mut self, deadline: Instant) -> Result<Option<Event>, XError> {
        loop {
            // First, so that a program that sends events without end delays nothing.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if let Some(event) = self.connection.poll_for_event()? {
                if let Event::DestroyNotify(destroyed) = &event
                    && !self.closed.contains(&destroyed.window)
                {
                    self.closed.push(destroyed.window);
                }
                return Ok(Some(event));
            }
            self.connection.flush()?;
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(self.connection.stream(), PollFlags::IN)], Some(&left)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The X server's time: an event of ours carries it.
    fn now(&mut self) -> Result<Timestamp, XError> {
        let clock = self.atoms.THINC_CLOCK;
        let mode = PropMode::REPLACE;
        self.connection.change_property8(mode, self.window, clock, AtomEnum::STRING, &[])?;
        let deadline = Instant::now() + FINISH_TIMEOUT;
        while let Some(event) = self.wait(deadline)? {
            if let Event::PropertyNotify(event) = event
                && event.atom == clock
            {
                return Ok(event.time);
            }
        }
        Ok(CURRENT_TIME)
    }

    fn send(&self, target: DropTarget, type_: Atom, data: [u32; 5]) -> Result<(), XError> {
        let event = ClientMessageEvent::new(32, target.window, type_, data);
        self.connection.send_event(false, target.receiver, EventMask::NO_EVENT, event)?;
        Ok(())
    }

    fn play_list(&mut self, target: DropTarget, list: &[u8]) -> Result<bool, XError> {
        let time = self.now()?;
        // Events that have waited since the window was found are read by now.
        if self.closed.contains(&target.window) {
            return Ok(false);
        }
        let DropTarget { window, x, y, .. } = target;
        let Ok(at) = self.connection.translate_coordinates(window, self.root, x, y)?.reply() else {
            return Ok(false);
        };
        let atoms = self.atoms;
        self.connection.set_selection_owner(self.window, atoms.XdndSelection, time)?;
        // File managers move the files to where they were dropped; others read them where they are.
        self.connection.change_property32(
            PropMode::REPLACE,
            self.window,
            atoms.XdndActionList,
            AtomEnum::ATOM,
            &[atoms.XdndActionMove, atoms.XdndActionCopy],
        )?;
        let source = self.window;
        let enter = [source, target.version << 24, atoms.URI_LIST, NONE, NONE];
        self.send(target, atoms.XdndEnter, enter)?;
        let place = u32::from(at.dst_x as u16) << 16 | u32::from(at.dst_y as u16);
        let position = [source, 0, place, time, atoms.XdndActionMove];
        let taken = self.ask(target, position, list)? && {
            self.send(target, atoms.XdndDrop, [source, 0, time, 0, 0])?;
            self.finish(target, list)?
        };
        self.connection.set_selection_owner(NONE, atoms.XdndSelection, time)?;
        self.connection.flush()?;
        Ok(taken)
    }

    /// Moves to the window until its program takes the files; leaves it if it does not.
    fn ask(&mut self, target: DropTarget, position: [u32; 5], list: &[u8]) -> Result<bool, XError> {
        let deadline = Instant::now() + ACCEPT_TIMEOUT;
        let mut ask_at = Instant::now();
        // One question at a time, as XDND wants it.
        let mut is_answered = true;
        loop {
            if is_answered && Instant::now() >= ask_at {
                self.send(target, self.atoms.XdndPosition, position)?;
                (is_answered, ask_at) = (false, Instant::now() + ASK_INTERVAL);
            }
            let until = if is_answered { ask_at.min(deadline) } else { deadline };
            match self.wait(until)? {
                Some(Event::ClientMessage(message))
                    if message.type_ == self.atoms.XdndStatus
                        && message.data.as_data32()[0] == target.window =>
                {
                    if message.data.as_data32()[1] & 1 == 1 {
                        return Ok(true);
                    }
                    is_answered = true;
                }
                // Some programs look at the paths before they answer.
                Some(Event::SelectionRequest(request)) => self.answer(&request, list)?,
                _ => {}
            }
            let is_closed = self.closed.contains(&target.window);
            if is_closed || Instant::now() >= deadline {
                if !is_closed {
                    self.send(target, self.atoms.XdndLeave, [self.window, 0, 0, 0, 0])?;
                }
                return Ok(false);
            }
        }
    }

    /// After the drop, until the program has taken the files.
    fn finish(&mut self, target: DropTarget, list: &[u8]) -> Result<bool, XError> {
        let deadline = Instant::now() + FINISH_TIMEOUT;
        let mut has_read = false;
        while let Some(event) = self.wait(deadline)? {
            match event {
                Event::ClientMessage(message)
                    if message.type_ == self.atoms.XdndFinished
                        && message.data.as_data32()[0] == target.window =>
                {
                    // Before version 5 nothing says whether it was taken.
                    return Ok(target.version < 5 || message.data.as_data32()[1] & 1 == 1);
                }
                Event::SelectionRequest(request) => {
                    has_read |= request.target == self.atoms.URI_LIST;
                    self.answer(&request, list)?;
                }
                Event::DestroyNotify(event) if event.window == target.window => break,
                _ => {}
            }
        }
        // Programs that forget to say so have read the paths.
        Ok(has_read)
    }

    /// A program wants the paths.
    fn answer(&self, request: &SelectionRequestEvent, list: &[u8]) -> Result<(), XError> {
        let &SelectionRequestEvent { requestor, selection, target, time, .. } = request;
        let property = if request.property == NONE { target } else { request.property };
        let (connection, mode, atoms) = (&self.connection, PropMode::REPLACE, &self.atoms);
        let set = if selection != atoms.XdndSelection || requestor == self.window {
            None
        } else if target == atoms.URI_LIST {
            Some(connection.change_property8(mode, requestor, property, atoms.URI_LIST, list)?)
        } else if target == atoms.TARGETS {
            let targets = [atoms.TARGETS, atoms.TIMESTAMP, atoms.URI_LIST];
            let type_ = AtomEnum::ATOM;
            Some(connection.change_property32(mode, requestor, property, type_, &targets)?)
        } else if target == atoms.TIMESTAMP {
            let type_ = AtomEnum::INTEGER;
            Some(connection.change_property32(mode, requestor, property, type_, &[time])?)
        } else {
            // Also DELETE: nothing is removed because a program says that it has moved it.
            None
        };
        // The window may be gone.
        let property = set.and_then(|set| set.check().ok()).map_or(NONE, |()| property);
        let event = SelectionNotifyEvent {
            response_type: SELECTION_NOTIFY_EVENT,
            sequence: 0,
            time,
            requestor,
            selection,
            target,
            property,
        };
        connection.send_event(false, requestor, EventMask::NO_EVENT, event)?;
        Ok(())
    }
}
