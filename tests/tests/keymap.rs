//! The session's keymap changes while people type, and has an owner: what a person set in the
//! session stays, what a viewer brings goes with it. Read back by `cat` in xterm; keymaps are set
//! with the programs that people use.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use thinc_bench::Error;
use thinc_bench::process::{Folder, Headless, wait_for};
use thinc_e2e::{AWAIT_TERMINAL, Desktop, EVENT_TIMEOUT};
use x11rb::protocol::xkb::{ConnectionExt as _, Group, ID};
use x11rb::protocol::xproto::{ConnectionExt as _, KeyButMask, ModMask};
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

/// A terminal that writes what it reads into a file, and a viewer without a layout of its own.
struct Desk {
    desktop: Desktop,
    x: RustConnection,
    out: PathBuf,
    _folder: Folder,
}

impl Desk {
    fn start(name: &str) -> Result<Desk, Error> {
        let folder = Folder::new(&format!("e2e-{name}"))?;
        let out = folder.path().join("out");
        let cat = format!("{AWAIT_TERMINAL} stty -echo; cat -u > '{}'", out.display());
        let xterm = ["xterm", "-u8", "-b", "0", "-geometry", "80x24+0+0", "-e", "sh", "-c", &cat];
        let mut desktop = Desktop::start(name, "600x400", &xterm)?;
        wait_for("the terminal reads keys", EVENT_TIMEOUT, || out.exists().then_some(()))?;
        desktop.viewer.say("move 100 100")?;
        let x = desktop.connect_x()?;
        x.xkb_use_extension(1, 0)?.reply()?;
        let mut desk = Desk { desktop, x, out, _folder: folder };
        desk.types("ready")?;
        Ok(desk)
    }

    /// Runs a program in the session.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        let output = self.desktop.client(program).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("{program} {arguments:?}: {}", output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Sets this keymap in the session.
    fn load(&self, keymap: &str) -> Outcome {
        let mut xkbcomp = self.desktop.client("xkbcomp");
        xkbcomp.args(["-w0", "-", &self.desktop.session.display]).stdin(Stdio::piped());
        let mut xkbcomp = xkbcomp.spawn()?;
        xkbcomp.stdin.take().ok_or("it has an input")?.write_all(keymap.as_bytes())?;
        let status = xkbcomp.wait()?;
        if status.success() { Ok(()) } else { Err(format!("xkbcomp: {status}").into()) }
    }

    fn types(&mut self, text: &str) -> Outcome {
        types_from(&mut self.desktop.viewer, &self.out, text)
    }

    /// Layout, variant and options of the session.
    fn names(&self) -> Result<[String; 3], Error> {
        let said = self.run("setxkbmap", &["-query"])?;
        Ok(["layout:", "variant:", "options:"].map(|name| {
            let line = said.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        }))
    }

    /// The first keysym of a keycode.
    fn keysym(&self, keycode: u8) -> Result<u32, Error> {
        let reply = self.x.get_keyboard_mapping(keycode, 1)?.reply()?;
        Ok(reply.keysyms.first().copied().unwrap_or(0))
    }

    fn keycodes_of(&self, keysym: u32) -> Result<usize, Error> {
        let reply = self.x.get_keyboard_mapping(8, 248)?.reply()?;
        let keys = reply.keysyms.chunks(usize::from(reply.keysyms_per_keycode));
        Ok(keys.filter(|keysyms| keysyms.contains(&keysym)).count())
    }

    fn group(&self) -> Result<u8, Error> {
        Ok(self.x.xkb_get_state(ID::USE_CORE_KBD.into())?.reply()?.locked_group.into())
    }

    fn lock_group(&self, group: Group) -> Outcome {
        let (keyboard, none) = (ID::USE_CORE_KBD.into(), ModMask::default());
        self.x.xkb_latch_lock_state(keyboard, none, none, true, group, none, false, 0)?.check()?;
        Ok(())
    }

    fn wait_for_names(&self, wanted: [&str; 3]) -> Outcome {
        wait_for("the session's names", EVENT_TIMEOUT, || {
            (self.names().ok()? == wanted).then_some(())
        })
        .map_err(|error| format!("{error}: {:?}, not {wanted:?}", self.names()).into())
    }
}

/// Types a line until it arrives as it is: the session reads a keymap shortly after it was set.
fn types_from(viewer: &mut Headless, out: &PathBuf, text: &str) -> Outcome {
    let read = || fs::read_to_string(out).unwrap_or_default();
    let mut last = String::new();
    wait_for("the line arrives", EVENT_TIMEOUT, || {
        let before = read();
        viewer.say(&format!("text {text}\\n")).ok()?;
        let line = wait_for("a line", EVENT_TIMEOUT, || {
            read().strip_prefix(&before)?.strip_suffix('\n').map(str::to_owned)
        });
        last = line.ok()?;
        (last == text).then_some(())
    })
    .map_err(|error| format!("{error}: {last:?} and not {text:?}").into())
}

const PRIOR: u32 = 0xff55;

#[test]
fn what_is_typed_is_right_on_every_keymap_that_the_session_gets() -> Outcome {
    const TEXT: &str = "zy@[]~€ßø aKb/";
    let mut desk = Desk::start("keymap-set")?;
    for layout in [&["de"][..], &["fr"], &["ru"], &["de", "neo"], &["us,ru"]] {
        desk.run("setxkbmap", layout)?;
        desk.types(TEXT)?;
    }
    desk.run("xmodmap", &["-e", "keycode 38 = b B", "-e", "keycode 56 = a A"])?;
    desk.types(TEXT)?;
    let mut another = Headless::start(&desk.desktop.session.another_link()?)?;
    another.say("move 100 100")?;
    types_from(&mut another, &desk.out, TEXT)
}

#[test]
fn what_is_typed_is_right_whatever_group_is_active() -> Outcome {
    let mut desk = Desk::start("keymap-group")?;
    desk.run("setxkbmap", &["us,ru,gr"])?;
    for group in [Group::M2, Group::M3, Group::M1, Group::M2] {
        desk.lock_group(group)?;
        desk.types("abc, ЖЯф. σ")?;
        assert_eq!(desk.group()?, u8::from(group), "the group is the session's");
    }
    // The viewer's own layout is the active group while it types.
    desk.desktop.viewer.say("layout gr")?;
    desk.types("σδφ")?;
    assert_eq!((desk.group()?, desk.names()?[0].as_str()), (2, "us,ru,gr"));
    desk.desktop.viewer.say("layout us")?;
    desk.types("abc")?;
    assert_eq!((desk.group()?, desk.names()?[0].as_str()), (0, "us,ru,gr"));
    let Desk { desktop, x, .. } = desk;
    desktop.viewer.finish()?;
    wait_for("the group is the session's again", EVENT_TIMEOUT, || {
        let state = x.xkb_get_state(ID::USE_CORE_KBD.into()).ok()?.reply().ok()?;
        (state.locked_group == Group::M2).then_some(())
    })
}

#[test]
fn what_a_person_set_stays_and_what_a_viewer_brings_goes_with_it() -> Outcome {
    let mut desk = Desk::start("keymap-own")?;
    let (layouts, options) = ("us,ru", "grp:alt_shift_toggle,ctrl:swapcaps");
    let own = [layouts, "", options];
    desk.run(
        "setxkbmap",
        &[layouts, "-option", "grp:alt_shift_toggle", "-option", "ctrl:swapcaps"],
    )?;
    desk.run("xmodmap", &["-e", "keycode 117 = Prior"])?;
    // The viewer's layout is one of the session's.
    desk.desktop.viewer.say("layout us")?;
    desk.types("abc")?;
    assert_eq!((desk.names()?, desk.keysym(117)?), (own.map(str::to_owned), PRIOR));
    // It is another, with an option of its own.
    let mut another = Headless::start(&desk.desktop.session.another_link()?)?;
    another.say("layout de")?;
    another.say("move 100 100")?;
    types_from(&mut another, &desk.out, "zyä")?;
    desk.wait_for_names(["de", "", options])?;
    assert_eq!((desk.keysym(117)?, desk.keysym(29)?), (PRIOR, u32::from('z')));
    assert_eq!((desk.keysym(66)?, desk.keysym(37)?), (0xffe3, 0xffe5), "Control and Caps Lock");
    // A person changes a key meanwhile.
    desk.run("xmodmap", &["-e", "keycode 118 = Prior"])?;
    // The viewers take turns.
    desk.types("zya")?;
    desk.wait_for_names(own)?;
    types_from(&mut another, &desk.out, "äyz")?;
    desk.wait_for_names(["de", "", options])?;
    assert_eq!([desk.keysym(117)?, desk.keysym(118)?], [PRIOR; 2]);
    // It goes without a word.
    Command::new("kill").args(["-KILL", &another.pid().to_string()]).status()?;
    desk.wait_for_names(own)?;
    desk.types("zya")?;
    assert_eq!([desk.keysym(117)?, desk.keysym(118)?, desk.keysym(29)?], [PRIOR, PRIOR, 0x79]);
    Ok(())
}

#[test]
fn a_keymap_set_after_a_viewers_stays_when_the_viewer_goes() -> Outcome {
    let mut desk = Desk::start("keymap-later")?;
    let mut another = Headless::start(&desk.desktop.session.another_link()?)?;
    another.say("layout de")?;
    another.say("move 100 100")?;
    types_from(&mut another, &desk.out, "zyä")?;
    desk.wait_for_names(["de", "", ""])?;
    desk.run("setxkbmap", &["fr"])?;
    types_from(&mut another, &desk.out, "zyä")?;
    desk.wait_for_names(["fr", "", ""])?;
    another.finish()?;
    // The next viewer that brings one finds it.
    desk.desktop.viewer.say("layout us")?;
    desk.types("qwa")?;
    desk.wait_for_names(["us", "", ""])?;
    // One that the X server does not know is as none.
    desk.desktop.viewer.say("layout nosuch")?;
    desk.types("wqa")?;
    desk.wait_for_names(["fr", "", ""])
}

#[test]
fn keys_held_while_the_keymap_changes_are_released() -> Outcome {
    let mut desk = Desk::start("keymap-held")?;
    let mask = |desk: &Desk| -> Result<KeyButMask, Error> {
        let root = x11rb::connection::Connection::setup(&desk.x).roots[0].root;
        Ok(desk.x.query_pointer(root)?.reply()?.mask)
    };
    let has = |desk: &Desk, wanted: KeyButMask| {
        wait_for("the modifiers are these", EVENT_TIMEOUT, || {
            let modifiers = u16::from(mask(desk).ok()?) & 0xff;
            (modifiers == u16::from(wanted)).then_some(())
        })
        .map_err(|error| -> Error { format!("{error}: {:?}", mask(desk)).into() })
    };
    desk.desktop.viewer.say("keydown Shift_L")?;
    desk.desktop.viewer.say("keydown ISO_Level3_Shift")?;
    has(&desk, KeyButMask::SHIFT | KeyButMask::MOD5)?;
    // That key is Control from here on.
    const CHANGED: &str = "replace key <LFSH> { [ Control_L ] }; modifier_map Control { <LFSH> };";
    let keymap = desk.run("setxkbmap", &["de", "-print"])?;
    let (before, after) = keymap.split_once("};\n\txkb_geometry").ok_or("it prints a keymap")?;
    // xmodmap cannot do it while a modifier is held.
    desk.load(&format!("{before}{CHANGED}}};\n\txkb_geometry{after}"))?;
    desk.types("{a}")?;
    // Pressed again it would be Control.
    has(&desk, KeyButMask::MOD5)?;
    desk.desktop.viewer.say("keyup Shift_L")?;
    desk.types("a{b")?;
    desk.desktop.viewer.say("keyup ISO_Level3_Shift")?;
    has(&desk, KeyButMask::default())?;
    desk.types("abc")
}

#[test]
fn a_restarted_session_process_leaves_nothing_of_a_viewer_behind() -> Outcome {
    let mut desk = Desk::start("keymap-restart")?;
    desk.run("setxkbmap", &["us,ru"])?;
    desk.run("xmodmap", &["-e", "keycode 117 = Prior"])?;
    let mut another = Headless::start(&desk.desktop.session.another_link()?)?;
    another.say("layout de")?;
    another.say("move 100 100")?;
    types_from(&mut another, &desk.out, "zyä☃")?;
    desk.wait_for_names(["de", "", ""])?;
    const SNOWMAN: u32 = 0x0100_2603;
    assert_eq!(desk.keycodes_of(SNOWMAN)?, 1);
    // It cannot bring its layout again.
    Command::new("kill").args(["-STOP", &another.pid().to_string()]).status()?;
    let session = desk.desktop.session.pid("session")?.to_string();
    Command::new("kill").args(["-KILL", &session]).status()?;
    desk.wait_for_names(["us,ru", "", ""])?;
    assert_eq!((desk.keysym(117)?, desk.keycodes_of(SNOWMAN)?), (PRIOR, 0));
    // The new process gets nothing of what was typed before the viewer has connected to it.
    desk.desktop.viewer.say("wait-connection 2")?;
    desk.types("zy☃")
}
