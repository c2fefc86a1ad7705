//! A matrix of layouts, typed by a person's keyboard into the window of the native viewer, and read
//! back in the session. The viewer has an X server of its own, whose keyboard XTEST plays; the
//! session's program is `cat` in xterm. Japanese is typed with ibus and anthy, where they are
//! installed; elsewhere that is skipped, and said so.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_bench::observe::screen::ClientScreen;
use thinc_bench::process::{Folder, Headless, Running, Session, binary, wait_for};
use thinc_e2e::{AWAIT_TERMINAL, EVENT_TIMEOUT};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{
    ConnectionExt as _, InputFocus, KEY_PRESS_EVENT, KEY_RELEASE_EVENT, MapState, Window,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

const SHIFT: u8 = 42;
const ALTGR: u8 = 100;
/// ISO_Level3_Shift on a keycode that no keyboard has, in the keymap of every layout.
const VIRTUAL_LEVEL3: u8 = 84;
const CAPS: u8 = 58;
const CTRL: u8 = 29;
const ENTER: u8 = 28;
const SPACE: u8 = 57;

/// A session whose program writes what it reads into a file, and a viewer's window on an X server
/// of its own.
struct Desk {
    x: RustConnection,
    out: PathBuf,
    _viewer: Running,
    _bus: Option<Bus>,
    _screen: ClientScreen,
    session: Session,
    _folder: Folder,
}

/// An input method, on a bus of its own.
struct Bus {
    address: String,
    daemon: Option<Running>,
    _bus: Running,
}

impl Bus {
    fn start(display: &str, folder: &Folder) -> Result<Bus, Error> {
        let mut bus = Command::new("dbus-daemon");
        bus.args(["--session", "--nofork", "--print-address=1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut bus = Running::start("dbus-daemon", &mut bus)?;
        let mut address = String::new();
        BufReader::new(bus.take_stdout().ok_or("the bus says its address")?)
            .read_line(&mut address)?;
        let mut started = Bus { address: address.trim().to_owned(), daemon: None, _bus: bus };
        let mut daemon = started.command("ibus-daemon", display, folder);
        daemon.args(["--xim", "--panel", "disable", "--cache", "none"]);
        let daemon = daemon.stdout(Stdio::null()).stderr(Stdio::null());
        started.daemon = Some(Running::start("ibus-daemon", daemon)?);
        wait_for("the input method is there", EVENT_TIMEOUT, || {
            // It may say that it failed where only a part of it did, such as a portal that nobody
            // needs here.
            let ibus = |arguments: &[&str]| {
                started.command("ibus", display, folder).args(arguments).output().ok()
            };
            ibus(&["engine", "anthy"])?;
            ibus(&["engine"])?.stdout.starts_with(b"anthy").then_some(())
        })?;
        Ok(started)
    }

    fn command(&self, program: &str, display: &str, folder: &Folder) -> Command {
        let mut command = Command::new(program);
        command
            .env("DISPLAY", display)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .env("HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path().join("config"))
            .env("XDG_CACHE_HOME", folder.path().join("cache"))
            .env("LC_ALL", "C.UTF-8")
            .env("XDG_RUNTIME_DIR", folder.path())
            // Nothing of the person's own settings, and nothing left of the test's.
            .env("GSETTINGS_BACKEND", "memory")
            .env("XMODIFIERS", "@im=ibus")
            // Its engine is a program of the system's Python.
            .env("PATH", "/usr/bin:/bin")
            .env_remove("WAYLAND_DISPLAY");
        command
    }
}

/// Whether the viewer's side has an input method.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    None,
    Anthy,
}

impl Desk {
    fn start(name: &str, layout: &[&str], method: Method) -> Result<Desk, Error> {
        let folder = Folder::new(&format!("keys-{name}"))?;
        let out = folder.path().join("out");
        // Raw, so that every character is read as it comes.
        let cat = format!("{AWAIT_TERMINAL} stty raw -echo; cat -u > '{}'", out.display());
        let xterm = ["xterm", "-u8", "-b", "0", "-geometry", "80x24+0+0", "-e", "sh", "-c", &cat];
        let session = Session::start(&format!("keys-{name}"), "600x400", &xterm)?;
        let screen = ClientScreen::alone(&format!("keys-{name}"), (800, 600))?;
        let display = screen.display();
        setxkbmap(display, None, layout)?;
        let bus = if method == Method::Anthy { Some(Bus::start(display, &folder)?) } else { None };
        let viewer = binary("thinc-view")?;
        let viewer = viewer.to_str().ok_or("the viewer's path is text")?;
        let mut command = match &bus {
            Some(bus) => bus.command(viewer, display, &folder),
            None => Command::new(viewer),
        };
        let pins = folder.path().join("pins");
        command.arg(&session.link).args(["--clipboard", "off"]).arg("--pin-store").arg(pins);
        command
            .env("DISPLAY", display)
            .env("SDL_VIDEO_DRIVER", "x11")
            .env_remove("WAYLAND_DISPLAY");
        let viewer = Running::start("thinc-view", &mut command)?;
        let (x, number) = x11rb::connect(Some(display))?;
        let root = x.setup().roots[number].root;
        let window = wait_for("the viewer's window", EVENT_TIMEOUT, || large_window(&x, root))?;
        wait_for("the session's program is there", EVENT_TIMEOUT, || out.exists().then_some(()))?;
        // Without a window manager nobody else gives a window the keyboard.
        x.set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME)?;
        x.flush()?;
        Ok(Desk { x, out, _viewer: viewer, _bus: bus, _screen: screen, session, _folder: folder })
    }

    fn key(&self, evdev: u8, down: bool) -> Outcome {
        let kind = if down { KEY_PRESS_EVENT } else { KEY_RELEASE_EVENT };
        self.x.xtest_fake_input(kind, evdev + 8, x11rb::CURRENT_TIME, x11rb::NONE, 0, 0, 0)?;
        self.x.flush()?;
        Ok(())
    }

    /// Presses and releases keys: a number alone, or with Shift or AltGr held round it.
    fn keys(&self, keys: &[Key]) -> Outcome {
        for &key in keys {
            let (around, code) = match key {
                Key::Plain(code) => (None, code),
                Key::Shift(code) => (Some(SHIFT), code),
                Key::AltGr(code) => (Some(ALTGR), code),
                Key::Virtual(code) => (Some(VIRTUAL_LEVEL3), code),
            };
            around.map_or(Ok(()), |around| self.key(around, true))?;
            self.key(code, true)?;
            self.key(code, false)?;
            around.map_or(Ok(()), |around| self.key(around, false))?;
        }
        Ok(())
    }

    /// The line that the program in the session read, once it has.
    fn line(&self) -> Result<String, Error> {
        wait_for("the program reads the line", EVENT_TIMEOUT, || {
            let text = fs::read_to_string(&self.out).ok()?;
            text.strip_suffix('\r').map(str::to_owned)
        })
        .map_err(|error| format!("{error}; it has read {:?}", fs::read_to_string(&self.out)).into())
    }

    /// Waits until the program has read this and no more.
    fn seen(&self, wanted: &str) -> Outcome {
        self.seen_one_of(&[wanted]).map(|_| ())
    }

    /// What was read, once it is one of these texts.
    fn seen_one_of(&self, wanted: &[&str]) -> Result<String, Error> {
        let read = || fs::read_to_string(&self.out).unwrap_or_default();
        wait_for("the program reads it", EVENT_TIMEOUT, || {
            Some(read()).filter(|text| wanted.contains(&text.as_str()))
        })
        .map_err(|error| format!("{error}; it has read {:?} and not {wanted:?}", read()).into())
    }

    /// Opens the session in another viewer.
    fn another_link(&self) -> Result<String, Error> {
        self.session.another_link()
    }

    /// The layout of the session's X server.
    fn session_layout(&self) -> Result<String, Error> {
        Ok(session_names(&self.session)?[1].clone())
    }
}

fn setxkbmap(display: &str, xauthority: Option<&str>, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("setxkbmap");
    command.args(["-display", display]).args(arguments);
    xauthority.map(|file| command.env("XAUTHORITY", file));
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("setxkbmap {arguments:?}: {status}").into()) }
}

/// Model, layout, variant and options of the session's X server.
fn session_names(session: &Session) -> Result<[String; 4], Error> {
    let output = Command::new("setxkbmap")
        .args(["-display", &session.display, "-query"])
        .env("XAUTHORITY", &session.xauthority)
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    Ok(["model:", "layout:", "variant:", "options:"].map(|name| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    }))
}

/// The only window of some size.
fn large_window(x: &RustConnection, root: Window) -> Option<Window> {
    let tree = x.query_tree(root).ok()?.reply().ok()?;
    tree.children.into_iter().find(|&window| {
        let attributes =
            x.get_window_attributes(window).ok().and_then(|cookie| cookie.reply().ok());
        let geometry = x.get_geometry(window).ok().and_then(|cookie| cookie.reply().ok());
        attributes.is_some_and(|attributes| attributes.map_state == MapState::VIEWABLE)
            && geometry.is_some_and(|geometry| geometry.width > 100)
    })
}

#[derive(Clone, Copy)]
enum Key {
    Plain(u8),
    Shift(u8),
    AltGr(u8),
    /// As programs type it.
    Virtual(u8),
}

use Key::{AltGr, Plain, Shift, Virtual};

/// Types on a layout, and says what arrived and what the session's keyboard is by then.
fn typed(name: &str, layouts: &[&str], keys: &[Key]) -> Result<(String, String), Error> {
    let desk = Desk::start(name, layouts, Method::None)?;
    desk.keys(keys)?;
    desk.keys(&[Plain(ENTER)])?;
    let line = desk.line()?;
    // A viewer says its layout when it has looked for it, which keys need not wait for.
    let layout = wait_for("the session has the layout", EVENT_TIMEOUT, || {
        desk.session_layout().ok().filter(|layout| layouts.contains(&layout.as_str()))
    });
    Ok((line, layout.or_else(|_| desk.session_layout())?))
}

#[test]
fn us() -> Outcome {
    let keys = [Plain(30), Shift(30), Shift(3), Shift(26), Plain(43), Shift(41), Plain(2)];
    assert_eq!(typed("us", &["us"], &keys)?, ("aA@{\\~1".into(), "us".into()));
    Ok(())
}

#[test]
fn german_with_altgr_and_dead_keys() -> Outcome {
    let keys = [
        // z y ü Ä ß @ € { }
        Plain(21),
        Plain(44),
        Plain(26),
        Shift(40),
        Plain(12),
        AltGr(16),
        AltGr(18),
        AltGr(8),
        AltGr(11),
        // ^ e, ´ and Shift+E, ^ and a blank, <
        Plain(41),
        Plain(18),
        Plain(13),
        Shift(18),
        Plain(41),
        Plain(SPACE),
        Plain(86),
    ];
    assert_eq!(typed("de", &["de"], &keys)?, ("zyüÄß@€{}êÉ^<".into(), "de".into()));
    Ok(())
}

#[test]
fn french_with_altgr_dead_keys_and_compose() -> Outcome {
    let keys = [
        // a q z é 2 à @ €
        Plain(16),
        Plain(30),
        Plain(17),
        Plain(3),
        Shift(3),
        Plain(11),
        AltGr(11),
        AltGr(18),
        // ^ e, Menu (which is Compose here) o e, Menu < "
        Plain(26),
        Plain(18),
        Plain(127),
        Plain(24),
        Plain(18),
        Plain(127),
        Plain(86),
        Plain(4),
    ];
    assert_eq!(
        typed("fr", &["-layout", "fr", "-option", "compose:menu"], &keys)?,
        ("aqzé2à@€êœ“".into(), "fr".into())
    );
    Ok(())
}

#[test]
fn programs_that_type_with_virtual_modifiers() -> Outcome {
    // "|" is on the third level of the key beside Shift, and right Alt is Alt.
    let keys = [Plain(30), Virtual(86), Plain(30)];
    assert_eq!(typed("jp-plain", &["jp"], &keys)?, ("a|a".into(), "jp".into()));
    // Right Alt selects the fifth level here.
    let keys = [Plain(32), Virtual(32), Virtual(46), Plain(32)];
    assert_eq!(typed("neo", &["de", "neo"], &keys)?, ("a{|a".into(), "de".into()));
    Ok(())
}

#[test]
fn locks_are_the_viewers_whatever_the_session_had() -> Outcome {
    let desk = Desk::start("locks", &["us"], Method::None)?;
    // Somebody left the session's Caps Lock on.
    let mut another = Headless::start(&desk.another_link()?)?;
    another.say("key Caps_Lock")?;
    // Keys and barriers take different ways to the X server.
    let caps_lock = || {
        let mut xset = Command::new("xset");
        xset.args(["-display", &desk.session.display, "q"])
            .env("XAUTHORITY", &desk.session.xauthority);
        String::from_utf8_lossy(&xset.output().ok()?.stdout)
            .contains("Caps Lock:   on")
            .then_some(())
    };
    wait_for("Caps Lock is on in the session", EVENT_TIMEOUT, caps_lock)?;
    another.say("barrier")?;
    desk.keys(&[
        Plain(30),
        Plain(CAPS),
        Plain(30),
        Shift(30),
        Plain(CAPS),
        Plain(30),
        Plain(ENTER),
    ])?;
    assert_eq!(desk.line()?, "aAaa");
    // Somebody does it again, while the viewer's window keeps the focus.
    another.say("key Caps_Lock")?;
    wait_for("Caps Lock is on in the session", EVENT_TIMEOUT, caps_lock)?;
    desk.keys(&[Plain(30), Plain(ENTER)])?;
    desk.seen("aAaa\ra\r")
}

#[test]
fn japanese_with_an_input_method() -> Outcome {
    let installed = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !installed("ibus-daemon")
        || !installed("dbus-daemon")
        || !PathBuf::from("/usr/share/ibus/component/anthy.xml").exists()
    {
        assert!(std::env::var_os("CI").is_none(), "this test needs ibus, anthy and dbus-daemon");
        eprintln!("skipped: no ibus with anthy");
        return Ok(());
    }
    let desk = Desk::start("jp", &["jp"], Method::Anthy)?;
    // "nihongo", Space to convert, Enter to take it, "desu" and Enter, and Enter for the line.
    let word = |text: &str| -> Vec<Key> {
        let place = |character| match character {
            'n' => 49,
            'i' => 23,
            'h' => 35,
            'o' => 24,
            'g' => 34,
            'd' => 32,
            'e' => 18,
            's' => 31,
            'u' => 22,
            other => unreachable!("{other} is not typed here"),
        };
        text.chars().map(|character| Plain(place(character))).collect()
    };
    // At a user's speed: the input method is two more programs, which lose keys that arrive all at
    // once, and nothing tells when they have handled one.
    let slowly = |keys: &[Key]| {
        keys.iter().try_for_each(|&key| {
            std::thread::sleep(Duration::from_millis(100));
            desk.keys(&[key])
        })
    };
    // It starts with Latin input and Ctrl+J switches, once it has the keyboard focus: until then
    // the session reads a newline.
    let mut before = String::new();
    let deadline = Instant::now() + EVENT_TIMEOUT;
    loop {
        if Instant::now() > deadline {
            return Err(format!("the input method takes no key; read: {before:?}").into());
        }
        desk.key(CTRL, true)?;
        slowly(&[Plain(36)])?;
        desk.key(CTRL, false)?;
        // Nothing tells that the input method took it, only that no newline follows.
        std::thread::sleep(Duration::from_secs(3));
        let read = fs::read_to_string(&desk.out).unwrap_or_default();
        if read == before {
            break;
        }
        before = read;
    }
    slowly(&word("nihongo"))?;
    slowly(&[Plain(SPACE), Plain(ENTER)])?;
    // Anthy remembers, in the home folder of the account, what was taken before.
    let candidates = ["日本語", "ニホンゴ"].map(|candidate| format!("{before}{candidate}"));
    let read = desk.seen_one_of(&candidates.each_ref().map(String::as_str))?;
    slowly(&word("desu"))?;
    slowly(&[Plain(ENTER)])?;
    desk.seen(&format!("{read}です"))?;
    desk.keys(&[Plain(ENTER)])?;
    assert_eq!(desk.line()?, format!("{read}です"));
    assert_eq!(desk.session_layout()?, "jp");
    Ok(())
}
