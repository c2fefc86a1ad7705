//! User interfaces that are drawn by OpenGL, with real toolkits: their windows are frames, in which
//! something moves without end and is lossy, and all text beside it and in front of it is exact at
//! every moment; new text, menus that open, and text that is typed, too. The programs are GTK 4's
//! (gtk4_frames.py) and Blender (blender_frames.py); both say where their text is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_bench::process::{Folder, wait_for};
use thinc_e2e::{Desktop, EVENT_TIMEOUT, Part};
use x11rb::protocol::xproto::{ConnectionExt as _, Window};
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

const GTK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/gtk4_frames.py");
/// Debian's Python, whatever else is called python3 here.
const PYTHON: &str = "/usr/bin/python3";
/// Of the text in front of the scene, without a ground of its own.
const CAPTION: u32 = 0xff_ffff;
/// Times that all text is compared while something moves.
const ROUNDS: usize = 8;

/// The lines that a program writes.
struct Told {
    file: PathBuf,
    read: usize,
}

impl Told {
    fn new(folder: &Folder) -> Told {
        Told { file: folder.path().join("told"), read: 0 }
    }

    /// The rest of the next line that begins with this word, if it has been written.
    fn seen(&mut self, word: &str) -> Option<String> {
        let text = fs::read_to_string(&self.file).ok()?;
        while let Some(length) = text[self.read..].find('\n') {
            let line = &text[self.read..self.read + length];
            self.read += length + 1;
            if let Some(rest) = line.strip_prefix(word) {
                return Some(rest.trim().to_owned());
            }
        }
        None
    }

    fn wait(&mut self, word: &str) -> Result<String, Error> {
        wait_for(&format!("the program says `{word}`"), EVENT_TIMEOUT, || self.seen(word))
    }

    /// The parts of text that a program names before it says `shown`.
    fn parts(&mut self, (left, top): (usize, usize)) -> Result<Vec<Part>, Error> {
        let read = self.read;
        self.wait("shown")?;
        let text = fs::read_to_string(&self.file)?;
        let lines = text[read..self.read].lines().filter_map(|line| line.strip_prefix("text "));
        lines.map(|line| part(line, (left, top))).collect()
    }
}

/// `name x y width height`, of a window at this place.
fn part(line: &str, (left, top): (usize, usize)) -> Result<Part, Error> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, x, y, width, height] = words[..] else { return Err(line.into()) };
    let color = (name == "caption").then_some(CAPTION);
    let (x, y) = (left + x.parse::<usize>()?, top + y.parse::<usize>()?);
    let (width, height) = (width.parse()?, height.parse()?);
    Ok(Part { name: name.to_owned(), x, y, width, height, color })
}

/// Where a window is on the screen.
fn corner(conn: &RustConnection, window: &str) -> Result<(usize, usize), Error> {
    let window: Window = window.parse()?;
    let root = conn.get_geometry(window)?.reply()?.root;
    let at = conn.translate_coordinates(window, root, 0, 0)?.reply()?;
    Ok((usize::try_from(at.dst_x)?, usize::try_from(at.dst_y)?))
}

fn find<'a>(parts: &'a [Part], name: &str) -> Result<&'a Part, Error> {
    let part = parts.iter().find(|part| part.name == name);
    part.ok_or_else(|| format!("the program names no {name}").into())
}

/// Script words for the middle of a part.
fn move_to(part: &Part) -> String {
    format!("move {} {}", part.x + part.width / 2, part.y + part.height / 2)
}

/// Something that moves is lossy.
fn await_lossy(desktop: &mut Desktop) -> Outcome {
    wait_for("what moves is lossy", EVENT_TIMEOUT, || {
        (desktop.stats().ok()?["lossy_pixels"] != 0).then_some(())
    })
}

/// Compares these parts at several moments at which something is lossy.
fn assert_exact_while_moving(desktop: &mut Desktop, parts: &[Part], when: &str) -> Outcome {
    for round in 0..ROUNDS {
        desktop.wait_updates(1)?;
        await_lossy(desktop)?;
        desktop.assert_text_exact(parts, &format!("{when}, round {round}"))?;
    }
    Ok(())
}

/// Each part shows text: what is compared is not empty.
fn assert_text(desktop: &Desktop, parts: &[Part]) -> Outcome {
    let screen = desktop.screen()?;
    for part in parts {
        let pixels = screen.text(part)?.len();
        assert!(pixels > 100, "{part:?} shows {pixels} pixels of text");
    }
    Ok(())
}

/// Waits until all has been refreshed, and compares the whole screen.
fn assert_exact_at_rest(desktop: &mut Desktop) -> Outcome {
    wait_for("the viewer's screen is exact", EVENT_TIMEOUT, || {
        desktop.viewer.say("wait-quiet").ok()?;
        (desktop.stats().ok()?["lossy_pixels"] == 0).then_some(())
    })?;
    desktop.assert_identical("at rest")
}

fn has_gtk4() -> bool {
    let import = "import gi; gi.require_version('Gtk', '4.0'); from gi.repository import Gtk";
    let status = Command::new(PYTHON).args(["-c", import]).stderr(Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "this test needs python3-gi and gir1.2-gtk-4.0");
    eprintln!("skipped: no python3-gi with GTK 4");
    false
}

/// A program of GTK 4 in a session that was started with these options.
struct Gtk {
    desktop: Desktop,
    told: Told,
    conn: RustConnection,
    parts: Vec<Part>,
    _folder: Folder,
}

impl Gtk {
    fn start(name: &str, options: &[&str]) -> Result<Gtk, Error> {
        let folder = Folder::new(&format!("gl-{name}"))?;
        let mut told = Told::new(&folder);
        let file = path(&told.file)?.to_owned();
        let command = [PYTHON, GTK, &file];
        let desktop = Desktop::start_with(name, "640x480", options, &command)?;
        let renderer = told.wait("renderer")?;
        assert!(renderer.contains("GL") || renderer.contains("Ngl"), "drawn by {renderer}");
        let conn = desktop.connect_x()?;
        let at = corner(&conn, &told.wait("window")?)?;
        let parts = told.parts(at)?;
        Ok(Gtk { desktop, told, conn, parts, _folder: folder })
    }

    /// Types words, whose pixels are compared from the moment on at which the entry has them.
    fn type_words(&mut self, when: &str) -> Outcome {
        let [field, note] = ["field", "note"].map(|name| find(&self.parts, name).cloned());
        let parts = [field?, note?];
        self.desktop.viewer.say(&move_to(&parts[0]))?;
        self.desktop.viewer.say("click 1")?;
        self.desktop.viewer.say("key Control_L+a")?;
        let mut typed = String::new();
        for word in ["gamma", " 0.25", " illi", " mW"] {
            let before = self.desktop.screen()?;
            self.desktop.viewer.say(&format!("type {word}"))?;
            typed.push_str(word);
            // Nothing is waited for: every moment counts while it appears.
            let begun = Instant::now();
            while self.told.seen(&format!("typed {typed}")).is_none() {
                self.desktop.assert_text_exact(&parts, &format!("{when}, typing `{typed}`"))?;
                assert!(begun.elapsed() < EVENT_TIMEOUT, "`{typed}` is not typed");
            }
            for part in &parts {
                let earlier = before.text(part)?;
                wait_for("X has drawn what was typed", EVENT_TIMEOUT, || {
                    (self.desktop.screen().ok()?.text(part).ok()? != earlier).then_some(())
                })?;
            }
            let when = format!("{when}, `{typed}` is typed");
            assert_exact_while_moving(&mut self.desktop, &parts, &when)?;
        }
        Ok(())
    }

    /// Opens the menu and closes it.
    fn use_menu(&mut self, when: &str) -> Outcome {
        let title = find(&self.parts, "title")?.clone();
        self.desktop.viewer.say(&move_to(&title))?;
        self.desktop.viewer.say("click 1")?;
        let line = self.told.wait("menu")?;
        let (window, items) = line.split_once(' ').ok_or("a window and a place")?;
        let menu = [part(items, corner(&self.conn, window)?)?];
        assert_exact_while_moving(&mut self.desktop, &menu, &format!("{when}, the menu is open"))?;
        assert_text(&self.desktop, &menu)?;
        self.desktop.viewer.say("key Escape")?;
        self.told.wait("closed")?;
        Ok(())
    }
}

fn path(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| "its path is text".into())
}

/// With these options, and this choice of quality.
fn assert_gtk(name: &str, options: &[&str], qualities: &[&str]) -> Outcome {
    if !has_gtk4() {
        return Ok(());
    }
    let mut gtk = Gtk::start(name, options)?;
    await_lossy(&mut gtk.desktop)?;
    let is_filled = |part: &&Part| part.name != "field" && part.name != "note";
    let text: Vec<Part> = gtk.parts.iter().filter(is_filled).cloned().collect();
    assert_text(&gtk.desktop, &text)?;
    for quality in qualities {
        gtk.desktop.viewer.say(&format!("quality {quality}"))?;
        let parts = gtk.parts.clone();
        assert_exact_while_moving(&mut gtk.desktop, &parts, quality)?;
        gtk.type_words(quality)?;
        gtk.use_menu(quality)?;
        gtk.desktop.assert_identical(&format!("{quality}, stopped in a frame"))?;
    }
    gtk.desktop.viewer.say("key F6")?;
    gtk.told.wait("rests")?;
    assert_exact_at_rest(&mut gtk.desktop)?;
    gtk.desktop.viewer.say("key F6")?;
    gtk.told.wait("moves")?;
    let parts = gtk.parts.clone();
    assert_exact_while_moving(&mut gtk.desktop, &parts, "it moves again")
}

#[test]
fn text_of_gtk_4_is_exact_while_its_window_moves() -> Outcome {
    assert_gtk("gtk4", &[], &["auto", "low"])
}

/// Where Debian has it.
const BLENDER: &str = "/usr/bin/blender";
const BLENDER_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/blender_frames.py");
/// The ground of Blender's menus, in its default theme.
const MENU_GROUND: u32 = 0x18_1818;

/// Where an open menu is in the scene: bounds of its ground.
fn menu_bounds(desktop: &Desktop, scene: &Part) -> Result<Option<Part>, Error> {
    let screen = desktop.screen()?;
    let counts = |x: usize, y: usize| screen.pixels[y * screen.width + x] == MENU_GROUND;
    let columns = scene.x..scene.x + scene.width;
    let rows = scene.y..scene.y + scene.height;
    // A tenth of the scene: less is none.
    let is_row = |y: &usize| columns.clone().filter(|&x| counts(x, *y)).count() > scene.width / 10;
    let ys: Vec<usize> = rows.clone().filter(is_row).collect();
    let (Some(&top), Some(&bottom)) = (ys.first(), ys.last()) else { return Ok(None) };
    let is_column =
        |x: &usize| (top..bottom).filter(|&y| counts(*x, y)).count() > (bottom - top) / 2;
    let xs: Vec<usize> = columns.clone().filter(is_column).collect();
    let (Some(&left), Some(&right)) = (xs.first(), xs.last()) else { return Ok(None) };
    let (width, height) = (right + 1 - left, bottom + 1 - top);
    Ok(Some(Part { name: "menu".to_owned(), x: left, y: top, width, height, color: None }))
}

/// Clicks on a menu of the scene's header, which has 26 rows, until one is open.
fn open_menu(desktop: &mut Desktop, scene: &Part) -> Result<Part, Error> {
    const MENU: (usize, usize) = (266, 13);
    const OPENS_WITHIN: Duration = Duration::from_secs(5);
    let (x, y) = (scene.x + MENU.0, scene.y - MENU.1);
    let begun = Instant::now();
    loop {
        // It has to see the pointer move before a click counts.
        for line in [format!("move {} {y}", x - 4), format!("move {x} {y}"), "click 1".into()] {
            desktop.wait_updates(1)?;
            desktop.viewer.say(&line)?;
        }
        let clicked = Instant::now();
        while clicked.elapsed() < OPENS_WITHIN {
            desktop.wait_updates(1)?;
            if let Some(menu) = menu_bounds(desktop, scene)? {
                return Ok(menu);
            }
        }
        assert!(begun.elapsed() < EVENT_TIMEOUT, "no menu opens");
        desktop.viewer.say("key Escape")?;
    }
}

/// 600 MB of packages: where Blender is not installed, that is said. With a lower quality its view
/// may become a stream of H.264, in which a menu's dense text that is new may be lossy.
#[test]
fn text_of_blender_is_exact_while_its_view_turns() -> Outcome {
    if !Path::new(BLENDER).is_file() {
        eprintln!("skipped: no blender");
        return Ok(());
    }
    let folder = Folder::new("gl-blender")?;
    let mut told = Told::new(&folder);
    let (home, file) = (path(folder.path())?, path(&told.file)?.to_owned());
    let command = format!(
        "export HOME={home} XDG_CONFIG_HOME={home}/config; exec {BLENDER} --factory-startup \
         --window-geometry 0 0 800 600 --python {BLENDER_SCRIPT} -- {file}"
    );
    let options = ["--window-manager", "on"];
    let mut desktop = Desktop::start_with("blender", "800x600", &options, &["sh", "-c", &command])?;
    let pid = told.wait("pid")?;
    let scene = part(&told.wait("scene")?, (0, 0))?;
    let parts = told.parts((0, 0))?;
    await_lossy(&mut desktop)?;
    assert_text(&desktop, &parts)?;
    for quality in ["auto", "high"] {
        desktop.viewer.say(&format!("quality {quality}"))?;
        assert_exact_while_moving(&mut desktop, &parts, quality)?;
        let menu = [open_menu(&mut desktop, &scene)?];
        assert_text(&desktop, &menu)?;
        let when = format!("{quality}, the menu is open");
        assert_exact_while_moving(&mut desktop, &menu, &when)?;
        assert_exact_while_moving(&mut desktop, &parts, &when)?;
        desktop.viewer.say("key Escape")?;
        let video = desktop.stats()?["video"].clone();
        assert_eq!(video["coded"], 0, "{quality}: they are pictures, and no stream: {video}");
        desktop.assert_identical(&format!("{quality}, stopped in a frame"))?;
    }
    Command::new("kill").args(["-USR1", &pid]).status()?;
    told.wait("rests")?;
    assert_exact_at_rest(&mut desktop)
}
