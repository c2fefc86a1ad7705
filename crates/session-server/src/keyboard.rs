//! Path back, beside input: the X server's keymap, active group and locks, read and changed by an
//! ordinary X client on a thread of its own.
//! From the X server, to session-core's input.rs through actor.rs. Changes the keymap if a keysym
//! has no key, or a viewer's keyboard has another layout (keyboard/setup.rs). Knows keycodes,
//! keysyms and layouts; never which viewer needs them.

mod map;
mod rules;
mod setup;
mod text;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use thinc_protocol::viewer::KeyboardLayout;
use thinc_session_core::{Binding, Keymap};
use tracing::{info, warn};
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event as XEvent;
use x11rb::protocol::xkb::{
    ConnectionExt as _, EventType, Group, ID, KeySymMap, MapPart, NKNDetail, SelectEventsAux,
    SelectEventsAuxNewKeyboardNotify, SelectEventsAuxStateNotify, SetMapAux, StatePart, VMod,
};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ConnectionExt as _, Mapping, ModMask, PropMode, Window,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use map::Map;
use setup::{Setup, SetupError};

use crate::connection::{Event, Events};

/// The actor waits up to half a second for each change: these are half a minute of an X server that
/// an X client has grabbed. Further changes are dropped with a warning.
const CHANGES_QUEUED_MAX: usize = 64;
const NUM_LOCK: u32 = 0xff7f;

/// A change of the X keyboard.
#[derive(Debug)]
pub(crate) enum Change {
    /// The keysyms of spare keycodes.
    Bind {
        /// That of the request.
        number: u64,
        /// The keysyms.
        bindings: Vec<Binding>,
    },
    /// A viewer's layout; None is the session's own.
    Layout(Option<KeyboardLayout>),
    /// The locks.
    Locks {
        /// Caps Lock is on.
        caps: bool,
        /// Num Lock is on.
        num: bool,
    },
}

/// Requests changes.
#[derive(Debug)]
pub(crate) struct KeyboardHandle {
    changes: SyncSender<Change>,
}

impl KeyboardHandle {
    /// Changes are sent to the thread that has the X connection.
    pub(crate) fn new(changes: SyncSender<Change>) -> KeyboardHandle {
        KeyboardHandle { changes }
    }

    /// Requests a change of the X keyboard. `Event::KeyboardChanged` answers, after the new keymap
    /// if that differs. False: there is no X connection, or it has not answered for long.
    pub(crate) fn change(&self, change: Change) -> bool {
        static WARNED: OnceLock<()> = OnceLock::new();
        let sent = self.changes.try_send(change);
        if matches!(sent, Err(TrySendError::Full(_))) {
            WARNED.get_or_init(|| {
                warn!("the X server does not answer: dropping changes of its keyboard")
            });
        }
        sent.is_ok()
    }
}

/// The X connection, which both threads use.
struct Keyboard {
    x: Arc<RustConnection>,
    root: Window,
    /// Where `bound` is stored, so that the next session process finds it.
    stored: Atom,
    events: Events,
    /// Locked while a keymap is read and published, so that an older one never follows a newer one,
    /// and while this process changes it, so that what else changes is somebody else's.
    state: Mutex<State>,
}

struct State {
    setup: Setup,
    map: Map,
    group: u8,
    /// What session-core was told last.
    published: Option<Keymap>,
    /// The number of the last bindings that were carried out.
    bindings: u64,
    /// Spare keycodes that were bound and may still be.
    bound: BTreeMap<u8, Binding>,
}

/// Starts the threads, which do not delay the end of the process.
pub(crate) fn start(display: &str, events: Events) -> KeyboardHandle {
    let (changes, requests) = sync_channel(CHANGES_QUEUED_MAX);
    let name = display.to_owned();
    // One thread waits for X events, the other for the actor's requests; the X connection serves
    // both.
    thread::spawn(move || {
        let keyboard = match Keyboard::connect(&name, events) {
            Ok(keyboard) => Arc::new(keyboard),
            Err(error) => {
                warn!("cannot read the keymap of the X server {name}: {error}");
                return;
            }
        };
        let changed = keyboard.clone();
        thread::spawn(move || changed.apply_changes(&requests));
        if let Err(error) = keyboard.publish_changes() {
            info!("changes of the X server's keymap are no longer tracked: {error}");
        }
    });
    KeyboardHandle::new(changes)
}

impl Keyboard {
    /// Connects, selects events, and undoes what a session process that has ended left behind.
    fn connect(name: &str, events: Events) -> Result<Keyboard, Box<dyn std::error::Error>> {
        // Reads XAUTHORITY from the environment, where the supervisor put it.
        let (x, screen) = x11rb::connect(Some(name))?;
        let x = Arc::new(x);
        if !x.xkb_use_extension(1, 0)?.reply()?.supported {
            return Err("it has no XKB".into());
        }
        // An X client that has said so gets no MappingNotify any more, but XKB's own events.
        let (state, keys) = (StatePart::GROUP_STATE, NKNDetail::KEYCODES);
        let details = SelectEventsAux {
            state_notify: Some(SelectEventsAuxStateNotify {
                affect_state: state,
                state_details: state,
            }),
            new_keyboard_notify: Some(SelectEventsAuxNewKeyboardNotify {
                affect_new_keyboard: keys,
                new_keyboard_details: keys,
            }),
            ..SelectEventsAux::default()
        };
        let (keyboard, none) = (u16::from(ID::USE_CORE_KBD), EventType::default());
        let parts = keymap_parts();
        x.xkb_select_events(keyboard, none, EventType::MAP_NOTIFY, parts, parts, &details)?
            .check()?;
        let root = x.setup().roots[screen].root;
        let stored = x.intern_atom(false, b"_THINC_BOUND_KEYS")?.reply()?.atom;
        let state = State {
            setup: Setup::new(name, x.clone(), screen)?,
            map: Map::default(),
            group: 0,
            published: None,
            bindings: 0,
            bound: BTreeMap::new(),
        };
        let keyboard = Keyboard { x, root, stored, events, state: Mutex::new(state) };
        let mut state = keyboard.state();
        keyboard.read(&mut state)?;
        keyboard.unbind_stored(&mut state)?;
        keyboard.restore(&mut state)?;
        drop(state);
        Ok(keyboard)
    }

    /// The state; a thread that panicked while it held the lock leaves it usable, since the next
    /// reading replaces it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the keymap and the active group.
    fn read(&self, state: &mut State) -> Result<(), ReplyError> {
        let keyboard = ID::USE_CORE_KBD.into();
        let (parts, none, vmods) = (keymap_parts(), MapPart::default(), VMod::default());
        let map = self
            .x
            .xkb_get_map(keyboard, parts, none, 0, 0, 0, 0, 0, 0, 0, 0, vmods, 0, 0, 0, 0, 0, 0)?;
        let group = self.x.xkb_get_state(keyboard)?;
        state.map = Map::new(map.reply()?);
        state.group = group.reply()?.group.into();
        let map = &state.map;
        state.bound.retain(|_, binding| map.is_bound(binding));
        Ok(())
    }

    /// Publishes the keymap if it is another than before; false once the actor has ended.
    fn publish(&self, state: &mut State) -> bool {
        let keymap = state.map.keymap(state.group, state.bindings);
        if state.published.as_ref() == Some(&keymap) {
            return true;
        }
        state.published = Some(keymap.clone());
        self.events.blocking_send(Event::Keymap(keymap)).is_ok()
    }

    /// Publishes the keymap now and whenever it or the active group changes.
    fn publish_changes(&self) -> Result<(), Box<dyn std::error::Error>> {
        while self.read_and_publish()? {
            while !is_change(&self.x.wait_for_event()?) {}
            // A change has several events.
            while self.x.poll_for_event()?.is_some() {}
        }
        Ok(())
    }

    fn read_and_publish(&self) -> Result<bool, ReplyError> {
        let mut state = self.state();
        let before = std::mem::take(&mut state.map);
        let bound_before = state.bound.clone();
        self.read(&mut state)?;
        if !state.map.has_same_keys(&before, |keycode| bound_before.contains_key(&keycode)) {
            state.setup.note_change();
        }
        Ok(self.publish(&mut state))
    }

    fn apply_changes(&self, requests: &Receiver<Change>) {
        static WARNED: OnceLock<()> = OnceLock::new();
        while let Ok(change) = requests.recv() {
            let result = match &change {
                Change::Bind { number, bindings } => self.bind(*number, bindings),
                Change::Layout(layout) => self.set_layout(layout.as_ref()),
                Change::Locks { caps, num } => self.lock(*caps, *num),
            };
            if let Err(error) = result {
                // Without the keysyms, which reveal what somebody types.
                WARNED.get_or_init(|| warn!("cannot change the X keyboard: {error}"));
            }
            if self.events.blocking_send(Event::KeyboardChanged).is_err() {
                return;
            }
        }
    }

    /// Binds these keysyms to keycodes.
    fn bind(&self, number: u64, bindings: &[Binding]) -> Result<(), ReplyError> {
        let mut state = self.state();
        let keys = bindings
            .iter()
            .map(|binding| (binding.keycode, state.map.key_of(binding.keysyms)))
            .collect();
        // Whether or not it succeeds: session-core sees in the keymap what is bound.
        let result = self.set_keys(keys);
        state.bindings = number;
        state.bound.extend(bindings.iter().map(|&binding| (binding.keycode, binding)));
        self.read(&mut state)?;
        self.store_bound(&state)?;
        self.publish(&mut state);
        result
    }

    /// Sets keys to keysyms.
    fn set_keys(&self, mut keys: Vec<(u8, KeySymMap)>) -> Result<(), ReplyError> {
        keys.sort_by_key(|(keycode, _)| *keycode);
        // One request for adjacent keycodes: each request makes every application read the keymap
        // again.
        for run in keys.chunk_by(|(one, _), (next, _)| u16::from(*one) + 1 == u16::from(*next)) {
            let keys: Vec<KeySymMap> = run.iter().map(|(_, key)| key.clone()).collect();
            let (first, count) = (run[0].0, run.len() as u8);
            let total = keys.iter().map(|key| key.syms.len() as u16).sum();
            let values = SetMapAux { syms: Some(keys), ..SetMapAux::default() };
            let (flags, min, max) =
                (0u16.into(), self.x.setup().min_keycode, self.x.setup().max_keycode);
            let (keyboard, vmods) = (ID::USE_CORE_KBD.into(), VMod::default());
            let change = self.x.xkb_set_map(
                keyboard, flags, min, max, 0, 0, first, count, total, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0, vmods, &values,
            )?;
            // The answer follows the change: a key that is pressed from now on has the new keysyms.
            change.check()?;
        }
        Ok(())
    }

    fn store_bound(&self, state: &State) -> Result<(), ReplyError> {
        let value: Vec<u32> = state
            .bound
            .values()
            .flat_map(|binding| [u32::from(binding.keycode)].into_iter().chain(binding.keysyms))
            .collect();
        let (atom, cardinal) = (self.stored, AtomEnum::CARDINAL);
        self.x.change_property32(PropMode::REPLACE, self.root, atom, cardinal, &value)?.check()
    }

    /// Makes the keycodes spare again that a session process that has ended bound.
    fn unbind_stored(&self, state: &mut State) -> Result<(), ReplyError> {
        const WORDS: usize = 5;
        let (atom, cardinal, max) = (self.stored, AtomEnum::CARDINAL, 256 * WORDS as u32);
        let reply = self.x.get_property(true, self.root, atom, cardinal, 0, max)?.reply()?;
        let words: Vec<u32> = reply.value32().map(Iterator::collect).unwrap_or_default();
        let bound = words.chunks_exact(WORDS).filter_map(|words| {
            let keycode = u8::try_from(words[0]).ok()?;
            Some(Binding { keycode, keysyms: [words[1], words[2], words[3], words[4]] })
        });
        let keys: BTreeMap<u8, KeySymMap> = bound
            .filter(|binding| state.map.is_bound(binding))
            .map(|binding| (binding.keycode, map::empty_key()))
            .collect();
        self.set_keys(keys.into_iter().collect())?;
        self.read(state)
    }

    /// Sets a viewer's layout, or the session's own again.
    fn set_layout(&self, layout: Option<&KeyboardLayout>) -> Result<(), ReplyError> {
        let mut state = self.state();
        if let Some(layout) = layout {
            let State { setup, bound, .. } = &mut *state;
            let is_bound = |keycode: u8| bound.contains_key(&keycode);
            match setup.bring(layout, &is_bound) {
                Ok(()) => {}
                Err(SetupError::X(error)) => return Err(error),
                Err(error) => setup::warn_of(&error, Some(layout)),
            }
            self.read(&mut state)?;
        } else {
            self.restore(&mut state)?;
        }
        self.store_bound(&state)?;
        self.publish(&mut state);
        Ok(())
    }

    fn restore(&self, state: &mut State) -> Result<(), ReplyError> {
        let State { setup, bound, .. } = state;
        match setup.restore(&|keycode| bound.contains_key(&keycode)) {
            Ok(()) => {}
            Err(SetupError::X(error)) => return Err(error),
            Err(error) => setup::warn_of(&error, None),
        }
        self.read(state)
    }

    /// Sets the locks (XKB protocol, section 6.2). Pressing the lock key would toggle a lock that
    /// another X client has changed, and some layouts have no such key.
    fn lock(&self, caps: bool, num: bool) -> Result<(), ReplyError> {
        let num_mask = self.num_lock_mask()?;
        let affect = ModMask::LOCK | num_mask;
        let locks = if caps { ModMask::LOCK } else { ModMask::default() }
            | if num { num_mask } else { ModMask::default() };
        let keyboard = u16::from(ID::USE_CORE_KBD);
        self.x
            .xkb_latch_lock_state(
                keyboard,
                affect,
                locks,
                false,
                Group::M1,
                ModMask::default(),
                false,
                0,
            )?
            .check()
    }

    /// The modifier of Num Lock; none in some layouts.
    fn num_lock_mask(&self) -> Result<ModMask, ReplyError> {
        let (first, count) = (
            self.x.setup().min_keycode,
            self.x.setup().max_keycode - self.x.setup().min_keycode + 1,
        );
        let modifiers = self.x.get_modifier_mapping()?;
        let keymap = self.x.get_keyboard_mapping(first, count)?.reply()?;
        let modifiers = modifiers.reply()?;
        let per_modifier = usize::from(modifiers.keycodes_per_modifier()).max(1);
        let is_num_lock = |keycode: &u8| {
            let row = usize::from(keycode.saturating_sub(first))
                * usize::from(keymap.keysyms_per_keycode);
            *keycode >= first && keymap.keysyms.get(row) == Some(&NUM_LOCK)
        };
        let at = modifiers
            .keycodes
            .chunks(per_modifier)
            .position(|keycodes| keycodes.iter().any(is_num_lock));
        Ok(at.map_or(ModMask::default(), |at| ModMask::from(1u16 << at)))
    }
}

/// What a keymap is made of, as far as it matters here.
fn keymap_parts() -> MapPart {
    MapPart::KEY_TYPES | MapPart::KEY_SYMS | MapPart::KEY_ACTIONS | MapPart::MODIFIER_MAP
}

fn is_change(event: &XEvent) -> bool {
    match event {
        XEvent::XkbNewKeyboardNotify(_) | XEvent::XkbMapNotify(_) | XEvent::XkbStateNotify(_) => {
            true
        }
        XEvent::MappingNotify(notify) => notify.request != Mapping::POINTER,
        _ => false,
    }
}
