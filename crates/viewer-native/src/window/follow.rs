//! Path back, beside keyboard.rs: from the X server's rules and active group, or from the system's
//! settings, to the session through client.rs.
//! The local keyboard's layout and its changes. Runs on its own thread, because the desktop may be
//! slow to answer. Knows names of layouts and no keys.

use std::process::{Command, Stdio};
use std::thread;

use thinc_protocol::limits::LAYOUT_NAME_BYTES_MAX;
use thinc_protocol::viewer::KeyboardLayout;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xkb::{
    ConnectionExt as _, EventType, ID, SelectEventsAux, SelectEventsAuxStateNotify, StatePart,
};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, Window,
};
use x11rb::rust_connection::RustConnection;

/// Longest `_XKB_RULES_NAMES` read, in units of four bytes: five names.
const NAMES_WORDS_MAX: u32 = (5 * (LAYOUT_NAME_BYTES_MAX as u32 + 1)).div_ceil(4);

/// Reports the layout, if it can be determined, now and whenever it changes.
pub(super) fn follow(driver: &str, report: impl Fn(KeyboardLayout) + Send + 'static) {
    let x11 = driver == "x11";
    // Without the thread the session keeps its own layout, and keysyms are honoured all the same.
    let _ = thread::Builder::new().name("thinc-layout".into()).spawn(move || {
        if !x11 {
            system_layout().into_iter().for_each(report);
        } else if let Err(error) = follow_x(report) {
            // The X server has ended, or has no XKB: nothing more is reported.
            let _ = error;
        }
    });
}

/// Follows the X server's layout until it is gone.
fn follow_x(report: impl Fn(KeyboardLayout)) -> Result<(), Box<dyn std::error::Error>> {
    let (x, screen) = x11rb::connect(None)?;
    let root = x.setup().roots[screen].root;
    // Xwayland's keymap comes from the Wayland desktop; its rules names do not describe it.
    if x.query_extension(b"XWAYLAND")?.reply()?.present {
        system_layout().into_iter().for_each(report);
        return Ok(());
    }
    let names = x.intern_atom(false, b"_XKB_RULES_NAMES")?.reply()?.atom;
    x.xkb_use_extension(1, 0)?.reply()?;
    let groups = StatePart::GROUP_STATE;
    let state = SelectEventsAuxStateNotify { affect_state: groups, state_details: groups };
    let (keyboard, none) = (u16::from(ID::USE_CORE_KBD), EventType::default());
    let details = SelectEventsAux { state_notify: Some(state), ..SelectEventsAux::default() };
    x.xkb_select_events(keyboard, none, none, 0u16.into(), 0u16.into(), &details)?;
    let mask = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
    x.change_window_attributes(root, &mask)?;
    let mut last = None;
    loop {
        let now = read(&x, root, names)?;
        // setxkbmap deletes the property before it sets the new layout.
        if now.is_some() && now != last {
            last.clone_from(&now);
            now.into_iter().for_each(&report);
        }
        loop {
            match x.wait_for_event()? {
                Event::PropertyNotify(notify) if notify.atom == names => break,
                Event::XkbStateNotify(_) => break,
                _ => {}
            }
        }
    }
}

fn read(
    x: &RustConnection,
    root: Window,
    names: u32,
) -> Result<Option<KeyboardLayout>, x11rb::errors::ReplyError> {
    let property =
        x.get_property(false, root, names, AtomEnum::STRING, 0, NAMES_WORDS_MAX)?.reply()?;
    let state = x.xkb_get_state(ID::USE_CORE_KBD.into())?.reply()?;
    Ok(of_rules(&property.value, usize::from(u8::from(state.group))))
}

/// The layout of one group, from the property that `setxkbmap` sets on the root window: rules,
/// model, layouts, variants and options, each ended by a zero byte. Only the active group is
/// reported, so that the session has a single group that cannot get out of step.
fn of_rules(names: &[u8], group: usize) -> Option<KeyboardLayout> {
    let text = std::str::from_utf8(names).ok()?;
    let mut names = text.split('\0').skip(1);
    let mut name = || names.next().unwrap_or_default();
    let (model, layouts, variants, options) = (name(), name(), name(), name());
    let at = |list: &str, group: usize| list.split(',').nth(group).map(str::to_owned);
    let found = if layouts.split(',').count() > group { group } else { 0 };
    let layout = at(layouts, found).filter(|layout| !layout.is_empty())?;
    let options: Vec<&str> =
        options.split(',').filter(|option| !option.starts_with("grp:")).collect();
    checked(KeyboardLayout {
        model: model.to_owned(),
        layout,
        variant: at(variants, found).unwrap_or_default(),
        options: options.join(","),
    })
}

/// The layout, if the protocol can carry its names.
fn checked(layout: KeyboardLayout) -> Option<KeyboardLayout> {
    let fits = |name: &String| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_-,:()+".contains(&byte);
        name.len() <= LAYOUT_NAME_BYTES_MAX && name.bytes().all(is_valid)
    };
    let all_fit =
        [&layout.model, &layout.layout, &layout.variant, &layout.options].into_iter().all(fits);
    all_fit.then_some(layout)
}

/// Without an X server: the variables that libxkbcommon reads, otherwise the system's setting. A
/// Wayland compositor sends its clients a keymap without the names of its layout.
fn system_layout() -> Option<KeyboardLayout> {
    let of_environment =
        |name: &str| std::env::var(format!("XKB_DEFAULT_{name}")).unwrap_or_default();
    let first = |list: &str| list.split(',').next().unwrap_or_default().to_owned();
    let layout = first(&of_environment("LAYOUT"));
    if !layout.is_empty() {
        let (model, variant) = (of_environment("MODEL"), first(&of_environment("VARIANT")));
        return checked(KeyboardLayout {
            model,
            layout,
            variant,
            options: of_environment("OPTIONS"),
        });
    }
    let output = Command::new("localectl")
        .arg("status")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    of_localectl(&String::from_utf8_lossy(&output.stdout))
}

/// Parses the lines of `localectl status`.
fn of_localectl(status: &str) -> Option<KeyboardLayout> {
    let value_of = |what: &str| {
        let line =
            status.lines().find_map(|line| line.trim().strip_prefix(what)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned()).unwrap_or_default()
    };
    let first = |list: String| list.split(',').next().unwrap_or_default().to_owned();
    let layout = first(value_of("X11 Layout"));
    // "(unset)", or missing.
    if layout.is_empty() || layout.starts_with('(') {
        return None;
    }
    let options: Vec<String> = value_of("X11 Options")
        .split(',')
        .filter(|option| !option.starts_with("grp:"))
        .map(str::to_owned)
        .collect();
    checked(KeyboardLayout {
        model: value_of("X11 Model"),
        layout,
        variant: first(value_of("X11 Variant")),
        options: options.join(","),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(layout: Option<KeyboardLayout>) -> Option<[String; 4]> {
        layout.map(|layout| [layout.model, layout.layout, layout.variant, layout.options])
    }

    #[test]
    fn only_the_active_group_is_reported() {
        let rules = b"evdev\0pc105\0us,de,ru\0,nodeadkeys\0grp:alt_shift_toggle,compose:caps\0";
        let layout = |group| names(of_rules(rules, group));
        let wanted = |layout: &str, variant: &str| {
            Some(["pc105", layout, variant, "compose:caps"].map(str::to_owned))
        };
        assert_eq!(layout(0), wanted("us", ""));
        assert_eq!(layout(1), wanted("de", "nodeadkeys"));
        assert_eq!(layout(2), wanted("ru", ""), "there are fewer variants than layouts");
        assert_eq!(layout(3), wanted("us", ""), "a group that has no layout");
        for wrong in
            [&b""[..], b"evdev\0pc105\0\0\0\0", b"evdev\0pc105\0/etc/passwd\0\0\0", b"\xff\0\0us\0"]
        {
            assert_eq!(names(of_rules(wrong, 0)), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_systems_setting_is_parsed() {
        let status = concat!(
            "System Locale: LANG=de_DE.UTF-8\n",
            "    VC Keymap: de\n",
            "   X11 Layout: de,us\n",
            "    X11 Model: pc105\n",
            "  X11 Variant: nodeadkeys,\n",
            "  X11 Options: terminate:ctrl_alt_bksp,grp:alt_shift_toggle\n",
        );
        let wanted = ["pc105", "de", "nodeadkeys", "terminate:ctrl_alt_bksp"].map(str::to_owned);
        assert_eq!(names(of_localectl(status)), Some(wanted));
        assert_eq!(names(of_localectl("   VC Keymap: (unset)\n  X11 Layout: (unset)\n")), None);
        assert_eq!(names(of_localectl("")), None);
    }
}
