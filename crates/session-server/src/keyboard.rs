//! Path back, beside input: the X server's keymap and locks, read and changed as an ordinary X client on a thread of its own.
//! From the X server, to session-core's input.rs through actor.rs; and back where a keysym has no key, or a viewer's keyboard
//! is laid out otherwise. Knows keycodes, keysyms and layouts; never which viewer wants them.

use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use thinc_protocol::viewer::Layout;
use thinc_session_core::{Binding, Keymap};
use tracing::{info, warn};
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::Event as XEvent;
use x11rb::protocol::xkb::{ConnectionExt as _, Group, ID, KTMapEntry, KeySymMap, KeyType, MapPart, SetMapAux, VMod};
use x11rb::protocol::xproto::{ConnectionExt as _, Mapping, ModMask};
use x11rb::rust_connection::RustConnection;

use crate::connection::{Event, Events};

/// The actor waits for each change, but half a second at most: these are half a minute of an X server that a client has
/// grabbed. What comes after them is lost, and said.
const CHANGES_MAX: usize = 64;
const NUM_LOCK: u32 = 0xff7f;

/// What is to be changed of the X keyboard.
#[derive(Debug)]
pub(crate) enum Change {
    /// What spare keycodes give.
    Bind(Vec<Binding>),
    /// The layout.
    Layout(Layout),
    /// The locks.
    Locks {
        /// Caps Lock is on.
        caps: bool,
        /// Num Lock is on.
        num: bool,
    },
}

/// Asks for changes.
#[derive(Debug)]
pub(crate) struct KeyboardHandle {
    changes: SyncSender<Change>,
}

impl KeyboardHandle {
    /// Changes the X keyboard; `Event::KeyboardChanged` answers, behind the keymap where that is another. False: there is
    /// no X connection to do it, or it has not answered for long.
    pub(crate) fn change(&self, change: Change) -> bool {
        static SAID: OnceLock<()> = OnceLock::new();
        let sent = self.changes.try_send(change);
        if matches!(sent, Err(TrySendError::Full(_))) {
            SAID.get_or_init(|| warn!("the X server does not answer: changes of its keyboard are lost"));
        }
        sent.is_ok()
    }
}

/// The connection that both threads use.
struct Keyboard {
    name: String,
    x: RustConnection,
    events: Events,
    /// Held from the reading of a keymap until it is told, so that none is told after a newer one.
    reading: Mutex<()>,
}

/// Starts the threads. Neither holds the process up when it ends.
pub(crate) fn start(display: &str, events: Events) -> KeyboardHandle {
    let (changes, requests) = sync_channel(CHANGES_MAX);
    let name = display.to_owned();
    // One thread waits for the X server's events, the other for the actor's wishes; the connection serves both.
    thread::spawn(move || {
        // Reads XAUTHORITY from the environment, where the supervisor put it.
        let x = match x11rb::connect(Some(&name)) {
            Ok((x, _)) => x,
            Err(error) => {
                warn!("no keymap: cannot connect to the X server {name}: {error}");
                return;
            }
        };
        let keyboard = Arc::new(Keyboard { name, x, events, reading: Mutex::new(()) });
        let changed = keyboard.clone();
        thread::spawn(move || changed.carry_out(&requests));
        if let Err(error) = keyboard.watch() {
            info!("the X server's keymap is no longer watched: {error}");
        }
    });
    KeyboardHandle { changes }
}

impl Keyboard {
    /// Reads the keymap and tells it; false where nobody listens any more.
    fn tell(&self) -> Result<bool, ReplyError> {
        // A thread that panicked left nothing half done: there is nothing in it.
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let setup = self.x.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let reply = self.x.get_keyboard_mapping(first, last - first + 1)?.reply()?;
        let keymap = Keymap::from_core(first, usize::from(reply.keysyms_per_keycode), &reply.keysyms);
        Ok(self.events.blocking_send(Event::Keymap(keymap)).is_ok())
    }

    /// Tells the keymap now and whenever it changes; MappingNotify comes to every client unasked.
    fn watch(&self) -> Result<(), Box<dyn std::error::Error>> {
        while self.tell()? {
            loop {
                match self.x.wait_for_event()? {
                    XEvent::MappingNotify(notify) if notify.request == Mapping::KEYBOARD => break,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn carry_out(&self, requests: &Receiver<Change>) {
        static SAID: OnceLock<()> = OnceLock::new();
        // Once for the connection; where it fails, each change says so.
        let _ = self.x.xkb_use_extension(1, 0).map(|asked| asked.reply());
        while let Ok(change) = requests.recv() {
            let done = match &change {
                Change::Bind(bindings) => self.bind(bindings),
                Change::Layout(layout) => self.lay_out(layout),
                Change::Locks { caps, num } => self.lock(*caps, *num),
            };
            if let Err(error) = done {
                // Without the keysyms: they are what somebody types.
                SAID.get_or_init(|| warn!("the X keyboard cannot be changed: {error}"));
            }
            if self.events.blocking_send(Event::KeyboardChanged).is_err() {
                return;
            }
        }
    }

    /// Makes keycodes give these keysyms, all of them in the one group that every group falls back to.
    fn bind(&self, bindings: &[Binding]) -> Result<(), ReplyError> {
        let four_level = self.four_level()?;
        let mut bindings = bindings.to_vec();
        bindings.sort_by_key(|binding| binding.keycode);
        // One request for those that lie together: each makes every application read the keymap again.
        for run in bindings.chunk_by(|one, next| one.keycode + 1 == next.keycode) {
            let keys: Vec<KeySymMap> = run.iter().map(|binding| key(binding.keysyms, four_level)).collect();
            let (first, count) = (run[0].keycode, run.len() as u8);
            let total = keys.iter().map(|key| key.syms.len() as u16).sum();
            let values = SetMapAux { syms: Some(keys), ..SetMapAux::default() };
            let (flags, min, max) = (0u16.into(), self.x.setup().min_keycode, self.x.setup().max_keycode);
            let (keyboard, vmods) = (ID::USE_CORE_KBD.into(), VMod::default());
            let change = self.x.xkb_set_map(
                keyboard, flags, min, max, 0, 0, first, count, total, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                vmods, &values,
            )?;
            // The answer comes after the change: a key pressed from now on means what it should.
            change.check()?;
        }
        Ok(())
    }

    /// The keymap's type of keys with plain, Shift, Level3 and both, whatever its number is.
    fn four_level(&self) -> Result<Option<u8>, ReplyError> {
        let (types, none, vmods) = (MapPart::KEY_TYPES, MapPart::default(), VMod::default());
        let keyboard = ID::USE_CORE_KBD.into();
        let map =
            self.x.xkb_get_map(keyboard, types, none, 0, 0, 0, 0, 0, 0, 0, 0, vmods, 0, 0, 0, 0, 0, 0)?.reply()?;
        let is_four_level = |of: &KeyType| {
            let entries: Vec<&KTMapEntry> = of.map.iter().filter(|entry| entry.active).collect();
            let level = |level| entries.iter().find(|entry| entry.level == level).map(|entry| entry.mods_mask);
            of.num_levels == 4 && entries.len() == 3 && level(1) == Some(ModMask::SHIFT) && level(2).is_some()
        };
        let types = map.map.types_rtrn.unwrap_or_default();
        Ok(types.iter().position(is_four_level).and_then(|at| u8::try_from(at).ok()))
    }

    /// Lays the keyboard out as `setxkbmap` does. It is run, because what a layout is made of stands in rules that it can
    /// read and the X server cannot; it comes with every X server, which itself runs its sister xkbcomp.
    fn lay_out(&self, layout: &Layout) -> Result<(), ReplyError> {
        let Layout { model, layout: name, variant, options } = layout;
        let mut command = Command::new("setxkbmap");
        command.args(["-display", &self.name]);
        for (option, value) in [("-model", model), ("-layout", name), ("-variant", variant)] {
            // The protocol lets nothing in that could be a path or a word of a shell; an option it could be.
            if !value.is_empty() && !value.starts_with('-') {
                command.args([option, value]);
            }
        }
        // The empty one takes away what was there before.
        command.args(["-option", ""]);
        for option in options.split(',').filter(|option| is_harmless(option)) {
            command.args(["-option", option]);
        }
        let said = match command.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => {
                info!("the keyboard is laid out as {name}({variant}) now");
                return self.tell().map(drop);
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
            Err(error) => error.to_string(),
        };
        warn!("the layout {name}({variant}) of a viewer is not to be had, the old one stays: setxkbmap: {said}");
        Ok(())
    }

    /// Locks and unlocks what differs (XKB protocol, section 6.2): exact where to press the lock key would turn it round,
    /// and possible where the layout has no such key.
    fn lock(&self, caps: bool, num: bool) -> Result<(), ReplyError> {
        let num_mask = self.num_lock_mask()?;
        let affect = ModMask::LOCK | num_mask;
        let locks =
            if caps { ModMask::LOCK } else { ModMask::default() } | if num { num_mask } else { ModMask::default() };
        let keyboard = u16::from(ID::USE_CORE_KBD);
        self.x.xkb_latch_lock_state(keyboard, affect, locks, false, Group::M1, ModMask::default(), false, 0)?.check()
    }

    /// The modifier that Num Lock is; none in some layouts.
    fn num_lock_mask(&self) -> Result<ModMask, ReplyError> {
        let (first, count) = (self.x.setup().min_keycode, self.x.setup().max_keycode - self.x.setup().min_keycode + 1);
        let modifiers = self.x.get_modifier_mapping()?;
        let keymap = self.x.get_keyboard_mapping(first, count)?.reply()?;
        let modifiers = modifiers.reply()?;
        let per_modifier = usize::from(modifiers.keycodes_per_modifier()).max(1);
        let is_num_lock = |keycode: &u8| {
            let row = usize::from(keycode.saturating_sub(first)) * usize::from(keymap.keysyms_per_keycode);
            *keycode >= first && keymap.keysyms.get(row) == Some(&NUM_LOCK)
        };
        let at = modifiers.keycodes.chunks(per_modifier).position(|keycodes| keycodes.iter().any(is_num_lock));
        Ok(at.map_or(ModMask::default(), |at| ModMask::from(1u16 << at)))
    }
}

/// A key that gives these keysyms: of one level where all are the same, a letter and its capital, or of four. The first
/// types of every keymap are the same (XKB protocol, section 7.2.1).
fn key(keysyms: [u32; 4], four_level: Option<u8>) -> KeySymMap {
    const ONE_LEVEL: u8 = 0;
    const TWO_LEVEL: u8 = 1;
    const ALPHABETIC: u8 = 2;
    let [plain, shifted, third, fourth] = keysyms;
    let (of, levels) = match four_level {
        _ if keysyms == [plain; 4] => (ONE_LEVEL, 1),
        _ if (plain, shifted) == (third, fourth) => (ALPHABETIC, 2),
        Some(four_level) => (four_level, 4),
        None => (TWO_LEVEL, 2),
    };
    KeySymMap { kt_index: [of, 0, 0, 0], group_info: 1, width: levels, syms: keysyms[..usize::from(levels)].to_vec() }
}

/// Options that change what keys write. Not those that switch between layouts, which the viewer does itself and tells; nor
/// those that end the X server.
fn is_harmless(option: &str) -> bool {
    !option.is_empty() && !["-", "grp:", "terminate:", "srvrkeys:"].iter().any(|word| option.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::{is_harmless, key};

    #[test]
    fn a_key_has_the_levels_it_needs_and_no_more() {
        let of = |keysyms| {
            let key = key(keysyms, Some(9));
            (key.kt_index[0], key.syms)
        };
        assert_eq!(of([7; 4]), (0, vec![7]));
        assert_eq!(of([0x61, 0x41, 0x61, 0x41]), (2, vec![0x61, 0x41]));
        assert_eq!(of([1, 2, 3, 3]), (9, vec![1, 2, 3, 3]));
    }

    #[test]
    fn options_that_would_end_the_session_are_left_out() {
        assert!(["compose:caps", "ctrl:nocaps", "lv3:ralt_switch", "eurosign:e"].into_iter().all(is_harmless));
        assert!(!["", "-help", "terminate:ctrl_alt_bksp", "grp:alt_shift_toggle"].into_iter().any(is_harmless));
    }
}
