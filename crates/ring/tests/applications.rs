//! The driver with real applications: while they are started, typed into, scrolled and moved, every
//! changed pixel is covered by a record, COPY records are literally true, and the recorded area is
//! little more than miext/damage's. Whenever X pauses, it is stopped (SIGSTOP) and compared, so
//! that no state of an application is missed.

mod coverage;
mod xserver;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use thinc_ring::{DrawHint, DrawRecord, InputMessage, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::render::{self, ConnectionExt as _, PictOp};
use x11rb::protocol::xproto::*;
use x11rb::wrapper::ConnectionExt as _;

use coverage::{Reader, Shadow, TIMEOUT, brief};
use xserver::{Options, XServer, wait_readable};

const WIDTH: u32 = 1024;
const HEIGHT: u32 = 768;
/// 250 ms: shorter than half the period of any blinking caret, longer than the pauses in one
/// repaint.
const QUIET: Duration = Duration::from_millis(250);
/// 5 s without the expected change, after which input is repeated: an application may have lost it.
const REPEAT_AFTER: Duration = Duration::from_secs(5);
/// 100: consecutive pauses that leave an op half drawn, before the test fails.
const TORN_MAX: u32 = 100;
/// The contract: recorded area per area reported by miext/damage.
const RATIO_MAX: f64 = 1.2;

/// Prefix of the shell command: a window manager that starts the application once it manages
/// windows. If both started together, a window could be mapped before the manager was ready and
/// never be shown.
const MANAGED: &str = "exec openbox --startup \"sh -c";

/// An application and its child processes: one process group, killed when the value is dropped.
struct Application {
    child: Child,
    home: PathBuf,
}

static HOMES: AtomicU32 = AtomicU32::new(0);

impl Application {
    /// Runs a shell command with a fresh home directory, so that no state is left from the last
    /// run.
    fn start(server: &XServer, home: PathBuf, command: &str) -> Application {
        use std::os::unix::process::CommandExt;
        let child = Command::new("sh")
            .args(["-c", command])
            .env("DISPLAY", format!(":{}", server.display))
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_RUNTIME_DIR", &home)
            // Toolkits wait for a D-Bus session bus; this tells them that there is none.
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .env("NO_AT_BRIDGE", "1")
            .env_remove("WAYLAND_DISPLAY")
            .stdin(Stdio::null())
            .stdout(fs::File::create(home.join("output")).unwrap())
            .stderr(fs::File::create(home.join("errors")).unwrap())
            .process_group(0)
            .spawn()
            .expect("a shell runs");
        Application { child, home }
    }

    fn ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["output", "errors"] {
                let text = fs::read_to_string(self.home.join(name)).unwrap_or_default();
                let tail: Vec<&str> = text.lines().rev().take(20).collect();
                eprintln!("---- its {name}, newest first ----\n{}", tail.join("\n"));
            }
        }
        // It may have ended already.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn fresh_home() -> PathBuf {
    let name =
        format!("thinc-home-{}-{}", std::process::id(), HOMES.fetch_add(1, Ordering::Relaxed));
    let home = std::env::temp_dir().join(name);
    fs::create_dir(&home).unwrap();
    home
}

/// An X server that is stopped while the value lives.
struct Stopped(Pid);

impl Stopped {
    fn new(server: &XServer) -> Stopped {
        let pid = Pid::from_raw(server.pid().cast_signed()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        // NOWAIT leaves its exit status to the owner of the server; the stop is not reported again
        // after SIGCONT.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), options).unwrap();
        assert!(status.is_some_and(|status| status.stopped()), "the X server is stopped");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Counters of one application.
#[derive(Debug, Default)]
struct Figures {
    ops: u64,
    records: u64,
    video: u64,
    /// Comparisons of the screen with the records.
    moments: u64,
    /// Pauses of X in the middle of an op; the next one is compared.
    torn: u64,
    /// Pixels that differed between two comparisons.
    changed: u64,
    recorded: u64,
    reported: u64,
    recorded_union: u64,
    reported_union: u64,
}

/// A session without a viewer that compares whenever X pauses.
struct Watch<'a> {
    name: &'static str,
    server: &'a XServer,
    reader: Reader,
    shadow: Shadow,
    /// The screen at the last comparison.
    seen: Vec<u32>,
    /// The newest op whose records were read.
    last_op: u64,
    figures: Figures,
}

impl<'a> Watch<'a> {
    fn new(name: &'static str, server: &'a XServer) -> Watch<'a> {
        let mut reader = Reader::new(server.attach());
        reader.attachment.ring.set_want_offscreen(true);
        reader.drain();
        let shadow = Shadow::new(&reader);
        let (seen, last_op) = (shadow.screen.pixels.clone(), reader.attachment.ring.begin());
        Watch { name, server, reader, shadow, seen, last_op, figures: Figures::default() }
    }

    fn apply(&mut self, records: &[DrawRecord]) {
        for record in records {
            assert!(record.kind != RecordKind::Overflow, "{}: the ring overflowed", self.name);
            assert!(
                !matches!(record.kind, RecordKind::Geometry { .. }),
                "{}: the screen changed its size",
                self.name
            );
            let (RecordKind::Draw { .. } | RecordKind::Copy { .. }) = record.kind else { continue };
            self.figures.ops += u64::from(record.op != self.last_op);
            self.figures.records += 1;
            self.last_op = record.op;
            let video =
                matches!(record.kind, RecordKind::Draw { hint: DrawHint::Video { .. }, .. });
            self.figures.video += u64::from(video);
        }
        self.shadow.apply(records);
    }

    /// Stops X, reads all records, and compares unless an op is half drawn. True if something was
    /// recorded.
    fn moment(&mut self) -> bool {
        let before = self.figures.records;
        let stopped = Stopped::new(self.server);
        let mut records = Vec::new();
        while let Some(record) = self.reader.attachment.ring.poll() {
            records.push(record.expect("records parse"));
        }
        self.apply(&records);
        let drew = self.figures.records != before;
        if self.reader.attachment.ring.begin() != self.last_op {
            self.figures.torn += 1;
            return true;
        }
        let now = self.reader.pixels();
        drop(stopped);
        self.figures.moments += 1;
        self.figures.changed +=
            self.seen.iter().zip(&now).filter(|(was, is)| was != is).count() as u64;
        if let Err(words) = self.shadow.settle(&now) {
            panic!("{}: {words}\nrecords, newest first: {}", self.name, brief(&records));
        }
        self.seen.copy_from_slice(&now);
        drew
    }

    /// Waits for X's next pause, at most `timeout`, and compares. True if something was recorded.
    fn wait(&mut self, timeout: Duration) -> bool {
        if self.reader.attachment.ring.prepare_sleep() {
            let woken = wait_readable(self.reader.attachment.ring.wake_fd(), timeout);
            self.reader.attachment.ring.clear_wake();
            if !woken {
                return false;
            }
        }
        self.moment()
    }

    /// Watches until `done`; the application may take as long as it goes on drawing.
    fn until(&mut self, what: &str, mut done: impl FnMut(&Watch<'a>) -> bool) {
        let mut deadline = Instant::now() + TIMEOUT;
        while !done(self) {
            assert!(
                Instant::now() < deadline,
                "{}: {what} does not happen; {:?}",
                self.name,
                self.figures
            );
            if self.wait(QUIET) {
                deadline = Instant::now() + TIMEOUT;
            }
        }
    }

    /// Watches until nothing is drawn for a while.
    fn quiet(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        while self.wait(QUIET) {
            assert!(
                Instant::now() < deadline,
                "{}: it never stops drawing; {:?}",
                self.name,
                self.figures
            );
        }
    }

    /// Waits until X has executed all requests, compares, and adds up the areas.
    fn check(&mut self) {
        let mut torn = 0;
        loop {
            let records = self.reader.drain();
            self.apply(&records);
            // The oracle's areas end at the barrier, so ours do too.
            let stats = self.reader.attachment.ring.stats();
            self.figures.recorded += std::mem::take(&mut self.shadow.drawn_area);
            self.figures.recorded_union += self.shadow.screen.take_covered();
            self.figures.reported += stats.oracle_area;
            self.figures.reported_union += stats.oracle_union;
            let before = self.figures.moments;
            self.moment();
            if self.figures.moments != before {
                return;
            }
            torn += 1;
            assert!(torn < TORN_MAX, "{}: X is always in the middle of an op", self.name);
        }
    }

    fn send(&mut self, message: InputMessage) {
        self.reader.attachment.input.send(message).expect("the input socket has room");
    }

    fn move_to(&mut self, x: i32, y: i32) {
        self.send(InputMessage::PointerMove { seq: 1, x, y });
    }

    fn click(&mut self, button: u8) {
        for down in [true, false] {
            self.send(InputMessage::Button { seq: 2, button, down });
        }
    }

    fn scroll(&mut self, dy: i32) {
        self.send(InputMessage::Scroll { seq: 3, dx: 0, dy });
    }

    fn key(&mut self, keycode: u8) {
        for down in [true, false] {
            self.send(InputMessage::Key { seq: 4, keycode, down });
        }
    }

    fn chord(&mut self, modifier: u8, keycode: u8) {
        self.send(InputMessage::Key { seq: 5, keycode: modifier, down: true });
        self.key(keycode);
        self.send(InputMessage::Key { seq: 6, keycode: modifier, down: false });
    }

    fn type_text(&mut self, text: &str) {
        for character in text.chars() {
            self.key(keycode(character));
        }
    }

    /// Runs `act`, watches until so many pixels have changed and drawing has ended, and compares.
    fn step(&mut self, what: &str, pixels: u64, act: impl FnOnce(&mut Watch<'a>)) {
        let wanted = self.figures.changed + pixels;
        act(self);
        self.until(what, |watch| watch.figures.changed >= wanted);
        self.quiet();
        self.check();
    }

    /// The same for input that an application may lose, and that does no harm if it arrives twice:
    /// `act` is repeated until so many pixels have changed. A key before the window has the focus
    /// goes elsewhere, one before a menu has grabbed the keyboard does not close it, and the first
    /// turn of a wheel after the pointer has entered a window only sets the axis's base value.
    fn repeat(&mut self, what: &str, pixels: u64, mut act: impl FnMut(&mut Watch<'a>)) {
        let wanted = self.figures.changed + pixels;
        let deadline = Instant::now() + TIMEOUT;
        while self.figures.changed < wanted {
            assert!(
                Instant::now() < deadline,
                "{}: {what} does not happen; {:?}",
                self.name,
                self.figures
            );
            act(self);
            let again_at = Instant::now() + REPEAT_AFTER;
            while self.figures.changed < wanted && Instant::now() < again_at {
                self.wait(QUIET);
            }
        }
        self.quiet();
        self.check();
    }

    /// Drags from one point to another in steps that are compared one by one; the key `held` is
    /// down meanwhile.
    fn drag(&mut self, held: u8, from: (i32, i32), to: (i32, i32)) {
        self.move_to(from.0, from.1);
        self.send(InputMessage::Key { seq: 7, keycode: held, down: true });
        self.send(InputMessage::Button { seq: 8, button: 1, down: true });
        for step in 1..=8 {
            self.move_to(from.0 + (to.0 - from.0) * step / 8, from.1 + (to.1 - from.1) * step / 8);
            self.quiet();
        }
        self.send(InputMessage::Button { seq: 9, button: 1, down: false });
        self.send(InputMessage::Key { seq: 10, keycode: held, down: false });
    }

    fn colors(&self) -> usize {
        self.seen.iter().collect::<HashSet<_>>().len()
    }

    /// Prints the counters, and checks the areas against the contract.
    fn finish(mut self) -> Figures {
        self.check();
        let figures = self.figures;
        let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
        let sum = ratio(figures.recorded, figures.reported);
        let union = ratio(figures.recorded_union, figures.reported_union);
        println!(
            "{}: {} ops, {} records, {} comparisons ({} torn), {} pixels changed, 0 uncovered, \
             {} copied from known pixels of the screen and {} of pixmaps; \
             recorded / reported area: sum {sum:.3}, union {union:.3}",
            self.name,
            figures.ops,
            figures.records,
            figures.moments,
            figures.torn,
            figures.changed,
            self.shadow.literal_copies - self.shadow.literal_shows,
            self.shadow.literal_shows,
        );
        assert!(figures.reported > 0, "{}: the oracle reports", self.name);
        assert!(sum <= RATIO_MAX && union <= RATIO_MAX, "{}: {figures:?}", self.name);
        figures
    }
}

const KEY_RETURN: u8 = 36;
const KEY_CONTROL: u8 = 37;
const KEY_ALT: u8 = 64;
const KEY_ESCAPE: u8 = 9;
const KEY_NEXT: u8 = 117;

/// Keycodes of the default keyboard: evdev codes plus 8, US layout.
fn keycode(character: char) -> u8 {
    const ROWS: [(u8, &str); 4] =
        [(10, "1234567890-="), (24, "qwertyuiop[]"), (38, "asdfghjkl;'"), (52, "zxcvbnm,./")];
    if character == ' ' {
        return 65;
    }
    let found = ROWS.iter().find_map(|(first, row)| row.find(character).map(|at| first + at as u8));
    found.unwrap_or_else(|| panic!("there is no single key for {character:?}"))
}

fn server() -> XServer {
    XServer::start(Options { width: WIDTH, height: HEIGHT, ..Options::default() })
}

fn text_file(home: &Path) -> String {
    let file = home.join("text.txt");
    fs::write(
        &file,
        "A line of text that is long enough to be looked at, and then some more.\n".repeat(400),
    )
    .unwrap();
    file.display().to_string()
}

// ---- the applications ---------------------------------------------------------------------------

#[test]
fn x11perf_is_covered() {
    let server = server();
    let mut watch = Watch::new("x11perf", &server);
    let tests = "-dot -rect10 -rect100 -rect500 -srect10 -srect100 -osrect100 -tilerect100 \
                 -oddtilerect100 -line100 -dline100 -wline100 -seg100 -seg100c1 -circle10 \
                 -circle100 -fcircle100 -ellipse100 -complex10 -triangle10 -triangle100 -trap100 \
                 -aatrap100 -aatrap2x100 -ftext -f24text16 -f24itext16 -aa10text -rgb10text \
                 -rgb24text -scroll100 -scroll500 -copywinwin100 -copypixwin100 -compwinwin100 \
                 -magpixwin100 -copyplane100 -putimage100 -putimagexy100 -shmput100 -shmputxy10 \
                 -ucreate -move -umove -resize -circulate -popup";
    // One at a time, so that no test hides behind another's area.
    for test in tests.split_whitespace() {
        let before = (watch.figures.recorded, watch.figures.reported);
        let words = format!("exec x11perf -repeat 1 -reps 20 {test}");
        let mut application = Application::start(&server, fresh_home(), &words);
        watch.until("the end of x11perf", |_| application.ended());
        assert!(application.child.wait().unwrap().success(), "x11perf knows {test}");
        watch.check();
        let (recorded, reported) =
            (watch.figures.recorded - before.0, watch.figures.reported - before.1);
        assert!(
            recorded as f64 <= RATIO_MAX * reported as f64,
            "{test}: recorded {recorded}, reported {reported}"
        );
        assert!(reported > 0, "{test} draws");
    }
    let figures = watch.finish();
    assert!(
        figures.moments > 100 && figures.changed > 10_000_000,
        "too little was compared: {figures:?}"
    );
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn xterm_is_covered() {
    let server = server();
    let mut watch = Watch::new("xterm", &server);
    watch.move_to(300, 300);
    let application =
        Application::start(&server, fresh_home(), "exec xterm -geometry 110x40+10+10 -e sh");
    watch.until("the prompt", |watch| watch.colors() > 1 && watch.figures.changed > 100_000);
    watch.quiet();
    for (line, pixels) in [("seq 1 500", 2000), ("ls -l /usr/bin", 20_000), ("clear", 20_000)] {
        watch.step(line, pixels, |watch| {
            watch.type_text(line);
            watch.key(KEY_RETURN);
        });
    }
    watch.type_text("find /usr /lib /proc");
    watch.key(KEY_RETURN);
    for flood in 1..=10 {
        let wanted = watch.figures.moments + 10;
        watch.until("output of find", |watch| watch.figures.moments >= wanted);
        watch.check();
        assert!(
            flood < 3 || watch.figures.changed > 100_000,
            "too little text: {:?}",
            watch.figures
        );
    }
    watch.chord(KEY_CONTROL, keycode('c'));
    watch.finish();
    drop(application);
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn mousepad_gtk3_is_covered() {
    let server = server();
    let mut watch = Watch::new("mousepad", &server);
    let home = fresh_home();
    let words = format!("{MANAGED} 'exec mousepad --disable-server {}'\"", text_file(&home));
    let application = Application::start(&server, home, &words);
    use_editor(&mut watch);
    watch.finish();
    drop(application);
    assert!(server.stop(), "X exits cleanly");
}

/// Its back buffer lives as long as the window, is redrawn for every scroll and shown by a blend.
#[test]
fn libreoffice_is_covered() {
    let server = server();
    let mut watch = Watch::new("LibreOffice", &server);
    let home = fresh_home();
    let words = format!(
        "{MANAGED} 'exec env SAL_USE_VCLPLUGIN=gtk3 soffice --norestore --nologo \
            --nofirststartwizard --writer {}'\"",
        text_file(&home)
    );
    let application = Application::start(&server, home, &words);
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    // Its first window is a splash screen with a progress bar.
    watch.until("the document's window", |_| shows_window(&conn, root, b"libreoffice-writer"));
    watch.until("the document", |watch| watch.colors() > 100);
    watch.quiet();
    watch.check();
    watch.move_to(400, 400);
    watch.click(1);
    for _ in 0..4 {
        watch.repeat("a page down", 2000, |watch| watch.key(KEY_NEXT));
    }
    watch.repeat("the wheel", 2000, |watch| {
        // As in a browser: the first event after the pointer has entered only sets the base value
        // of the axis.
        watch.scroll(-180);
        watch.scroll(-180);
    });
    watch.step("typing", 100, |watch| watch.type_text("typed by a user"));
    assert!(watch.shadow.literal_shows > 100_000, "its screen follows from its pixmaps");
    watch.finish();
    drop(application);
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn featherpad_qt5_is_covered() {
    let server = server();
    let mut watch = Watch::new("featherpad", &server);
    let home = fresh_home();
    let words = format!("{MANAGED} 'exec featherpad --standalone {}'\"", text_file(&home));
    let application = Application::start(&server, home, &words);
    use_editor(&mut watch);
    watch.finish();
    drop(application);
    assert!(server.stop(), "X exits cleanly");
}

/// The same with a compositor: every window is redirected, GTK's have depth 32 and shadows, and
/// only the compositor draws on the screen.
#[test]
fn windows_under_a_compositor_are_covered() {
    let server = server();
    let mut watch = Watch::new("mousepad and xterm under picom", &server);
    let home = fresh_home();
    let conf = home.join("picom.conf");
    fs::write(
        &conf,
        "backend = \"xrender\"; shadow = true; fading = true; fade-delta = 4; inactive-opacity = \
            0.8; use-damage = true;",
    )
    .unwrap();
    let words = format!(
        "{MANAGED} 'picom --config {} & xterm -geometry 60x20+500+400 & exec mousepad \
            --disable-server {}'\"",
        conf.display(),
        text_file(&home)
    );
    let application = Application::start(&server, home, &words);
    let (conn, screen) = server.connect();
    let selection = conn
        .intern_atom(false, format!("_NET_WM_CM_S{screen}").as_bytes())
        .unwrap()
        .reply()
        .unwrap()
        .atom;
    watch.until("the compositor", |_| {
        conn.get_selection_owner(selection).unwrap().reply().unwrap().owner != x11rb::NONE
    });
    // Shadows and a terminal have many colours too: wait until the editor's window is shown.
    let root = conn.setup().roots[screen].root;
    watch.until("the editor's window", |_| shows_window(&conn, root, b"mousepad"));
    use_editor(&mut watch);
    watch.finish();
    drop(application);
    assert!(server.stop(), "X exits cleanly");
}

/// True if a window of this class is on the screen, at any depth below `parent`.
fn shows_window(conn: &impl Connection, parent: Window, class: &[u8]) -> bool {
    // Windows may be destroyed while the tree is walked: such a window is not shown.
    let Ok(tree) = conn.query_tree(parent).unwrap().reply() else { return false };
    tree.children.into_iter().any(|window| {
        let named = conn
            .get_property(false, window, AtomEnum::WM_CLASS, AtomEnum::STRING, 0, 64)
            .unwrap()
            .reply();
        let is_it =
            named.is_ok_and(|name| name.value.windows(class.len()).any(|part| part == class));
        let attributes = conn.get_window_attributes(window).unwrap().reply();
        let viewable =
            attributes.is_ok_and(|attributes| attributes.map_state == MapState::VIEWABLE);
        (is_it && viewable) || shows_window(conn, window, class)
    })
}

/// Scrolls, types, opens a menu and moves the window of an editor that fills part of the screen.
fn use_editor(watch: &mut Watch<'_>) {
    watch.until("the editor", |watch| watch.colors() > 20);
    watch.quiet();
    watch.check();
    watch.move_to(300, 250);
    watch.click(1);
    for _ in 0..4 {
        watch.repeat("a page down", 500, |watch| watch.key(KEY_NEXT));
    }
    watch.repeat("the wheel", 500, |watch| watch.scroll(-360));
    watch.step("typing", 100, |watch| watch.type_text("typed by a user that does not rest"));
    watch.step("a menu", 2000, |watch| watch.click(3));
    watch.repeat("the end of the menu", 2000, |watch| watch.key(KEY_ESCAPE));
    watch.step("a move of the window", 20_000, |watch| watch.drag(KEY_ALT, (300, 250), (380, 310)));
}

#[test]
fn chromium_is_covered() {
    let server = server();
    let mut watch = Watch::new("chromium", &server);
    let home = fresh_home();
    let page = home.join("page.html");
    let row = "<p style='margin:1em'>Text on a \
        <b style='background:linear-gradient(90deg,#f80,#08f)'>gradient</b>, \
        and <a href=x>links</a>.</p>";
    let rows = row.repeat(200);
    fs::write(&page, format!("<!doctype html><meta charset=utf-8>{rows}")).unwrap();
    // A browser accepts keys only in an active window, and only a window manager activates one.
    let words = format!(
        "{MANAGED} 'exec chromium --no-sandbox --disable-gpu --no-first-run \
         --disable-background-networking --disable-component-update --disable-sync \
         --window-size=800,600 --window-position=40,40 --user-data-dir={} --app=file://{}'\"",
        home.join("profile").display(),
        page.display()
    );
    let application = Application::start(&server, home, &words);
    watch.until("the page", |watch| watch.colors() > 100);
    watch.quiet();
    watch.check();
    watch.move_to(400, 300);
    watch.click(1);
    for _ in 0..4 {
        watch.repeat("a page down", 5000, |watch| watch.key(KEY_NEXT));
    }
    for dy in [360, -360, 120, 120] {
        watch.repeat("a smooth scroll", 5000, |watch| {
            // The first event after the pointer has entered only sets the base value of the axis.
            watch.scroll(dy / 2);
            watch.scroll(dy / 2);
        });
    }
    watch.step("a menu", 5000, |watch| watch.click(3));
    watch.repeat("the end of the menu", 5000, |watch| watch.key(KEY_ESCAPE));
    watch.step("a move of the window", 20_000, |watch| watch.drag(KEY_ALT, (300, 250), (380, 310)));
    watch.finish();
    drop(application);
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn mpv_xvideo_is_covered() {
    let figures = play("mpv --vo=xv");
    assert!(figures.video > 30, "frames are recorded as video: {figures:?}");
}

#[test]
fn mpv_x11_is_covered() {
    let figures = play("mpv --vo=x11");
    assert_eq!(figures.video, 0, "this output does not use XVideo");
}

/// Plays a generated clip, with the player's controls over it at times.
fn play(player: &'static str) -> Figures {
    let server = server();
    let mut watch = Watch::new(player, &server);
    let home = fresh_home();
    let clip = home.join("clip.mkv").display().to_string();
    let source = ["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=352x240:rate=24:duration=30"];
    let made = Command::new("ffmpeg")
        .args(source)
        .args(["-c:v", "mpeg4", "-q:v", "4", "-y", &clip])
        .status()
        .unwrap();
    assert!(made.success(), "ffmpeg could not make a clip");
    let words = format!(
        "{MANAGED} 'exec {player} --no-audio --no-config --loop --geometry=640x440+20+20 {clip}'\""
    );
    let application = Application::start(&server, home, &words);
    watch.until("the clip", |watch| watch.colors() > 300);
    for i in 0..6 {
        // mpv shows its controls while the pointer moves.
        watch.move_to(200 + 10 * i, 300);
        let wanted = (watch.figures.moments + 10, watch.figures.changed + 100_000);
        watch.until("frames", |watch| {
            watch.figures.moments >= wanted.0 && watch.figures.changed >= wanted.1
        });
        watch.check();
    }
    let figures = watch.finish();
    drop(application);
    assert!(server.stop(), "X exits cleanly");
    figures
}

/// Without a compositor X itself redirects windows of depth 32: drawing in them reaches the screen
/// as a copy by X.
#[test]
fn alpha_windows_without_a_compositor_are_covered() {
    let server = server();
    let mut watch = Watch::new("windows of depth 32", &server);
    let application =
        Application::start(&server, fresh_home(), "exec xterm -geometry 110x40+10+10 -e sh");
    watch.until("the terminal below", |watch| watch.figures.changed > 100_000);
    watch.quiet();
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let depth = conn.setup().roots[screen]
        .allowed_depths
        .iter()
        .find(|depth| depth.depth == 32)
        .expect("depth 32");
    let visual = depth.visuals[0].visual_id;
    let (colormap, window, gc) =
        (conn.generate_id().unwrap(), conn.generate_id().unwrap(), conn.generate_id().unwrap());
    conn.create_colormap(ColormapAlloc::NONE, colormap, root, visual).unwrap();
    let aux =
        CreateWindowAux::new().background_pixel(0x8040_2010).border_pixel(0).colormap(colormap);
    let aux = aux.override_redirect(1);
    conn.create_window(
        32,
        window,
        root,
        100,
        100,
        300,
        200,
        2,
        WindowClass::INPUT_OUTPUT,
        visual,
        &aux,
    )
    .unwrap();
    conn.map_window(window).unwrap();
    conn.create_gc(gc, window, &CreateGCAux::new()).unwrap();
    let formats = conn.render_query_pict_formats().unwrap().reply().unwrap();
    let argb = formats
        .formats
        .iter()
        .find(|f| f.depth == 32 && f.direct.alpha_mask == 0xff)
        .expect("ARGB32")
        .id;
    let picture = conn.generate_id().unwrap();
    conn.render_create_picture(picture, window, argb, &render::CreatePictureAux::new()).unwrap();
    for i in 0..40u16 {
        let at = i16::try_from(i).unwrap();
        let wanted = watch.figures.changed + 50;
        let aux = ChangeGCAux::new().foreground(0xff00_0000 | (u32::from(i) * 0x06_0b03 + 0x10));
        conn.change_gc(gc, &aux).unwrap();
        conn.poly_fill_rectangle(
            window,
            gc,
            &[Rectangle { x: 5 * at, y: 3 * at, width: 40, height: 30 }],
        )
        .unwrap();
        let color = render::Color { red: 0x100 * i, green: 0x4000, blue: 0x2000, alpha: 0x8000 };
        let rect = Rectangle { x: 200 - 4 * at, y: 4 * at, width: 30, height: 20 };
        conn.render_fill_rectangles(PictOp::OVER, picture, color, &[rect]).unwrap();
        if i % 4 == 3 {
            let aux = ConfigureWindowAux::new().x(100 + i32::from(i) * 7).y(100 + i32::from(i) * 5);
            conn.configure_window(window, &aux).unwrap();
        }
        if i % 10 == 9 {
            conn.configure_window(window, &ConfigureWindowAux::new().width(300 + u32::from(i) * 4))
                .unwrap();
        }
        conn.sync().unwrap();
        watch.until("a drawing in the window", |watch| watch.figures.changed >= wanted);
        watch.check();
    }
    watch.finish();
    drop((conn, application));
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn all_tests_pass_with_sanitizers() {
    xserver::rerun_with_sanitizers();
}
