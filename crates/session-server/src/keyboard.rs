//! Path back, beside input: the X server's keymap, read and changed as an ordinary X client on a thread of its own.
//! From the X server, to session-core's input.rs through actor.rs; and back where a keysym has no key.
//! Knows keycodes and keysyms; never which viewer wants them.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use thinc_session_core::Keymap;
use tracing::{info, warn};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event as XEvent;
use x11rb::protocol::xproto::{ConnectionExt as _, Mapping};
use x11rb::rust_connection::RustConnection;

use crate::connection::{Event, Events};

/// The actor waits for each binding before it asks for the next, so one place is enough.
const BINDINGS_MAX: usize = 1;
/// Keysyms a bound keycode gets: group 1 and 2 with and without Shift, and the same with Level3.
const LEVELS: usize = 8;

/// Asks for bindings.
#[derive(Debug)]
pub(crate) struct KeyboardHandle {
    bindings: SyncSender<(u8, u32)>,
}

impl KeyboardHandle {
    /// Makes the keycode give the keysym; `Event::Bound` answers. False: there is no X connection to do it.
    pub(crate) fn bind(&self, keycode: u8, keysym: u32) -> bool {
        self.bindings.try_send((keycode, keysym)).is_ok()
    }
}

/// Starts the threads. Neither holds the process up when it ends.
pub(crate) fn start(display: &str, events: Events) -> KeyboardHandle {
    let (bindings, requests) = sync_channel(BINDINGS_MAX);
    let name = display.to_owned();
    // One thread waits for the X server's events, the other for the actor's wishes; the connection serves both.
    thread::spawn(move || {
        // Reads XAUTHORITY from the environment, where the supervisor put it.
        let connection = match x11rb::connect(Some(&name)) {
            Ok((connection, _)) => Arc::new(connection),
            Err(error) => {
                warn!("no keymap: cannot connect to the X server {name}: {error}");
                return;
            }
        };
        let (writer, wishes) = (connection.clone(), events.clone());
        thread::spawn(move || carry_out(&writer, &requests, &wishes));
        if let Err(error) = watch(&connection, &events) {
            info!("the X server's keymap is no longer watched: {error}");
        }
    });
    KeyboardHandle { bindings }
}

fn read(connection: &RustConnection) -> Result<Keymap, x11rb::errors::ReplyError> {
    let setup = connection.setup();
    let (first, last) = (setup.min_keycode, setup.max_keycode);
    let reply = connection.get_keyboard_mapping(first, last - first + 1)?.reply()?;
    Ok(Keymap::from_core(first, usize::from(reply.keysyms_per_keycode), &reply.keysyms))
}

/// Sends the keymap now and whenever it changes; MappingNotify comes to every client unasked.
fn watch(connection: &RustConnection, events: &Events) -> Result<(), Box<dyn std::error::Error>> {
    loop {
        if events.blocking_send(Event::Keymap(read(connection)?)).is_err() {
            return Ok(());
        }
        loop {
            match connection.wait_for_event()? {
                XEvent::MappingNotify(notify) if notify.request == Mapping::KEYBOARD => break,
                _ => {}
            }
        }
    }
}

fn carry_out(connection: &RustConnection, requests: &Receiver<(u8, u32)>, events: &Events) {
    static SAID: OnceLock<()> = OnceLock::new();
    while let Ok((keycode, keysym)) = requests.recv() {
        let done = connection
            .change_keyboard_mapping(1, keycode, LEVELS as u8, &[keysym; LEVELS])
            .map_err(x11rb::errors::ReplyError::from)
            // The answer comes after the change: a key pressed from now on means what it should.
            .and_then(|cookie| cookie.check());
        if let Err(error) = done {
            SAID.get_or_init(|| warn!("cannot bind keysym {keysym:#x} to keycode {keycode}: {error}"));
        }
        if events.blocking_send(Event::Bound).is_err() {
            return;
        }
    }
}
