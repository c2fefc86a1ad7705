//! Path back, under keyboard.rs: the session's own keyboard setup, and the layout that a viewer
//! brings for as long as it types.
//! What a person set in the session (layouts, options, keys changed by `xmodmap`) stays while a
//! viewer's layout is in use, or is set again after it. A keymap that rules and changed keys do not
//! describe is left alone. Knows names, keymaps as text and the programs that set them; never which
//! viewer types.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use thinc_protocol::viewer::KeyboardLayout;
use tracing::{info, warn};
use x11rb::connection::Connection as _;
use x11rb::errors::ReplyError;
use x11rb::protocol::xkb::{ConnectionExt as _, Group, ID};
use x11rb::protocol::xproto::{Atom, AtomEnum, ConnectionExt as _, ModMask, PropMode, Window};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use super::rules::{NAMES_WORDS_MAX, Names};
use super::text::{ChangedKeys, Described, NotOfRules};

/// 256 KiB, in units of four bytes: longest description of changed keys that is read back.
const STORED_WORDS_MAX: u32 = 1 << 16;

/// Why a layout was not set.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error(transparent)]
    X(#[from] ReplyError),
    #[error("{0}: {1}")]
    Program(&'static str, String),
    #[error("the session's keymap is left alone: {0}")]
    Own(#[from] NotOfRules),
}

impl From<x11rb::errors::ConnectionError> for SetupError {
    fn from(error: x11rb::errors::ConnectionError) -> SetupError {
        SetupError::X(error.into())
    }
}

/// What a person set in the session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    names: Names,
    /// The group that was locked.
    group: u8,
    /// None: they were not looked for, since no other keymap was set.
    changed: Option<ChangedKeys>,
}

/// What is set for a viewer, and what was before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Brought {
    own: Own,
    names: Names,
    group: u8,
}

/// The keyboard setup of the X server.
pub(super) struct Setup {
    display: String,
    x: Arc<RustConnection>,
    root: Window,
    /// `_XKB_RULES_NAMES`, where `setxkbmap` leaves the names, and where others read them.
    names: Atom,
    /// Where `brought` is stored, so that the next session process finds it.
    stored: Atom,
    brought: Option<Brought>,
    /// Somebody has changed keys since `brought` was set.
    is_changed: bool,
}

impl Setup {
    pub(super) fn new(
        display: &str,
        x: Arc<RustConnection>,
        screen: usize,
    ) -> Result<Setup, ReplyError> {
        let root = x.setup().roots[screen].root;
        let names = x.intern_atom(false, b"_XKB_RULES_NAMES")?.reply()?.atom;
        let stored = x.intern_atom(false, b"_THINC_OWN_KEYBOARD")?.reply()?.atom;
        let display = display.to_owned();
        let mut setup = Setup { display, x, root, names, stored, brought: None, is_changed: false };
        // Left by a session process that has ended: its viewers are gone. Keys may have been
        // changed since.
        setup.brought = Brought::from_stored(&setup.property(stored, STORED_WORDS_MAX)?);
        setup.is_changed = setup.brought.is_some();
        Ok(setup)
    }

    /// Somebody else has changed keys.
    pub(super) fn note_change(&mut self) {
        self.is_changed = true;
    }

    /// Sets a viewer's layout, beside what the session has or in its place. `is_bound` says which
    /// keycodes are bound to a viewer's keysyms and are not the session's.
    pub(super) fn bring(
        &mut self,
        layout: &KeyboardLayout,
        is_bound: &dyn Fn(u8) -> bool,
    ) -> Result<(), SetupError> {
        let Some(current) = self.current_names()? else {
            info!("the session's keymap has no rules' names: it is left alone");
            return Ok(());
        };
        let mut own = match self.take_own(&current, is_bound)? {
            Some(own) => own,
            None => Own { names: current.clone(), group: self.locked_group()?, changed: None },
        };
        let (names, group) = own.names.with(layout);
        let mut result = Ok(());
        if names != current {
            if own.changed.is_none() {
                own.changed = Some(self.changed_keys(&own.names, is_bound)?);
            }
            result = self.install(&names, own.changed.as_ref());
            if result.is_err() {
                // As if it had not come.
                if current != own.names {
                    self.install(&own.names, own.changed.as_ref())?;
                }
                self.lock_group(own.group)?;
                self.store(None)?;
                return result;
            }
            info!("the keyboard layout is now {names}");
        }
        self.lock_group(group)?;
        // As the program wrote them, to recognise other ones by.
        let names = self.current_names()?.unwrap_or(names);
        let is_own = names == own.names && group == own.group;
        self.store((!is_own).then_some(Brought { own, names, group }))?;
        result
    }

    /// Sets again what a person set in the session, if a viewer's layout is in use.
    pub(super) fn restore(&mut self, is_bound: &dyn Fn(u8) -> bool) -> Result<(), SetupError> {
        let Some(Brought { group, .. }) = self.brought else { return Ok(()) };
        if let Some(current) = self.current_names()?
            && let Some(own) = self.take_own(&current, is_bound)?
        {
            if own.names != current {
                self.install(&own.names, own.changed.as_ref())?;
                info!("the keyboard layout is again {}", own.names);
                self.lock_group(own.group)?;
            } else if self.locked_group()? == group {
                self.lock_group(own.group)?;
            }
        }
        Ok(self.store(None)?)
    }

    /// What a person set before a viewer's layout came, and since. None: no viewer's layout is in
    /// use, because none came, or because a person has set other names since, which stay.
    fn take_own(
        &mut self,
        current: &Names,
        is_bound: &dyn Fn(u8) -> bool,
    ) -> Result<Option<Own>, SetupError> {
        let Some(Brought { mut own, names, .. }) = self.brought.take() else { return Ok(None) };
        if names != *current {
            return Ok(None);
        }
        if std::mem::take(&mut self.is_changed)
            && let Some(changed) = &mut own.changed
        {
            match self.changed_keys(current, is_bound) {
                Ok(newer) => changed.update(newer),
                Err(SetupError::Own(reason)) => {
                    // A person has loaded a keymap of another kind: it is the session's now.
                    info!("the session's keymap is left alone: {reason}");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(own))
    }

    /// The keys of the X server that are not what these names say.
    fn changed_keys(
        &self,
        names: &Names,
        is_bound: &dyn Fn(u8) -> bool,
    ) -> Result<ChangedKeys, SetupError> {
        let now = run("xkbcomp", &["-w0", "-xkb", &self.display, "-"], "")?;
        let by_rules = run("xkbcomp", &["-w0", "-xkb", "-", "-"], &self.keymap_of(names)?)?;
        let (by_rules, now) = (Described::parse(&by_rules), Described::parse(&now));
        Ok(ChangedKeys::between(&by_rules, &now, is_bound)?)
    }

    /// The keymap of these names, which `setxkbmap` reads from the rules: the X server cannot.
    fn keymap_of(&self, names: &Names) -> Result<String, SetupError> {
        let mut arguments = vec!["-display", &self.display];
        arguments.extend(names.arguments());
        arguments.push("-print");
        run("setxkbmap", &arguments, "")
    }

    /// Sets the keymap of these names with these keys changed. Every X server's packages include
    /// `setxkbmap` together with `xkbcomp`, which the server itself runs.
    fn install(&self, names: &Names, changed: Option<&ChangedKeys>) -> Result<(), SetupError> {
        let Some(changed) = changed.filter(|changed| !changed.is_empty()) else {
            let mut arguments = vec!["-display", &self.display];
            arguments.extend(names.arguments());
            return run("setxkbmap", &arguments, "").map(drop);
        };
        let no_keymap = || SetupError::Program("setxkbmap", "it printed no keymap".into());
        let keymap = changed.added_to(&self.keymap_of(names)?).ok_or_else(no_keymap)?;
        run("xkbcomp", &["-w0", "-", &self.display], &keymap)?;
        let (atom, value) = (self.names, names.to_property());
        self.x
            .change_property8(PropMode::REPLACE, self.root, atom, AtomEnum::STRING, &value)?
            .check()?;
        Ok(())
    }

    fn current_names(&self) -> Result<Option<Names>, ReplyError> {
        Ok(Names::from_property(&self.property(self.names, NAMES_WORDS_MAX)?))
    }

    fn property(&self, atom: Atom, words_max: u32) -> Result<Vec<u8>, ReplyError> {
        let string = AtomEnum::STRING;
        let reply = self.x.get_property(false, self.root, atom, string, 0, words_max)?.reply()?;
        Ok(if reply.bytes_after == 0 && reply.format == 8 { reply.value } else { Vec::new() })
    }

    fn locked_group(&self) -> Result<u8, ReplyError> {
        Ok(self.x.xkb_get_state(ID::USE_CORE_KBD.into())?.reply()?.locked_group.into())
    }

    fn lock_group(&self, group: u8) -> Result<(), ReplyError> {
        if self.locked_group()? == group {
            return Ok(());
        }
        let (keyboard, none) = (ID::USE_CORE_KBD.into(), ModMask::default());
        let group = Group::from(group);
        self.x.xkb_latch_lock_state(keyboard, none, none, true, group, none, false, 0)?.check()
    }

    fn store(&mut self, brought: Option<Brought>) -> Result<(), ReplyError> {
        match &brought {
            Some(brought) => {
                let value = brought.to_stored();
                let (atom, string) = (self.stored, AtomEnum::STRING);
                self.x
                    .change_property8(PropMode::REPLACE, self.root, atom, string, &value)?
                    .check()?;
            }
            None => self.x.delete_property(self.root, self.stored)?.check()?,
        }
        self.brought = brought;
        self.is_changed = false;
        Ok(())
    }
}

impl Brought {
    /// Fields with zero bytes between them: the session's own names and group, the viewer's, and,
    /// if they were looked for, the changed keys after an empty field.
    fn to_stored(&self) -> Vec<u8> {
        let (own_group, group) = (self.own.group.to_string(), self.group.to_string());
        let mut fields: Vec<&str> = self.own.names.fields().to_vec();
        fields.push(&own_group);
        fields.extend(self.names.fields());
        fields.push(&group);
        if let Some(changed) = &self.own.changed {
            fields.push("");
            fields.extend(changed.fields());
        }
        fields.join("\0").into_bytes()
    }

    fn from_stored(value: &[u8]) -> Option<Brought> {
        let fields: Vec<&str> = std::str::from_utf8(value).ok()?.split('\0').collect();
        let group = |at: usize| fields.get(at)?.parse().ok().filter(|group: &u8| *group < 4);
        let names = Names::from_fields(fields.get(6..)?)?;
        let changed = fields.get(13..).map(ChangedKeys::from_fields);
        let own = Own { names: Names::from_fields(&fields)?, group: group(5)?, changed };
        Some(Brought { own, names, group: group(11)? })
    }
}

/// Runs a program with this input, and returns its output.
fn run(program: &'static str, arguments: &[&str], input: &str) -> Result<String, SetupError> {
    let failed = |reason: String| SetupError::Program(program, reason);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    // Both programs read all of their input before they write. One that has ended does not read it,
    // and its status says so.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        return Err(failed(reason));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}

/// Says why a layout was not set.
pub(super) fn warn_of(error: &SetupError, layout: Option<&KeyboardLayout>) {
    match layout {
        Some(KeyboardLayout { layout, variant, .. }) => {
            warn!("cannot set a viewer's keyboard layout {layout}({variant}): {error}");
        }
        None => warn!("cannot set the session's own keyboard layout again: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(layout: &str) -> Names {
        Names::from_property(format!("evdev\0pc105\0{layout}\0\0ctrl:swapcaps\0").as_bytes())
            .unwrap()
    }

    #[test]
    fn what_is_stored_is_read_back_by_the_next_session_process() {
        let keys = ChangedKeys::from_fields(&["key PGDN", "replace key <PGDN> { [ Prior ] };"]);
        for changed in [None, Some(ChangedKeys::default()), Some(keys)] {
            let own = Own { names: names("us,ru"), group: 1, changed };
            let brought = Brought { own, names: names("de"), group: 0 };
            assert_eq!(Brought::from_stored(&brought.to_stored()), Some(brought));
        }
    }

    #[test]
    fn nothing_else_is_taken_for_it() {
        let own = Own { names: names("us"), group: 0, changed: Some(ChangedKeys::default()) };
        let stored = Brought { own, names: names("de"), group: 0 }.to_stored();
        for end in 0..stored.len() {
            let _ = Brought::from_stored(&stored[..end]);
        }
        assert_eq!(Brought::from_stored(b""), None);
        let other = String::from_utf8(stored).unwrap().replace("\0de\0", "\0$(id)\0");
        assert_eq!(Brought::from_stored(other.as_bytes()), None);
    }
}
