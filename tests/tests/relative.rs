//! Relative motion, from a viewer to an application in a real X server: one that reads raw motion
//! as SDL 2 does, one that puts the pointer back into the middle of its window, and SDL 2 itself.
//! Each gets exactly what the user moved, and viewers learn that it wants that.

use thinc_bench::Error;
use thinc_bench::process::{Folder, wait_for};
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask, GrabMode, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

/// XIAllMasterDevices.
const ALL_MASTERS: u16 = 1;
const CENTRE: (i16, i16) = (150, 100);

struct Game {
    x: RustConnection,
    root: Window,
    window: Window,
}

impl Game {
    /// A window of 300 x 200 at (100, 100), over which the cursor is an image without a visible
    /// pixel.
    fn new(desktop: &Desktop) -> Result<Game, Error> {
        let x = desktop.connect_x()?;
        let root = x.setup().roots[0].root;
        x.xinput_xi_query_version(2, 2)?.reply()?;
        let (window, pixmap) = (x.generate_id()?, x.generate_id()?);
        let (cursor, gc) = (x.generate_id()?, x.generate_id()?);
        x.create_pixmap(1, pixmap, root, 1, 1)?;
        x.create_gc(gc, pixmap, &CreateGCAux::new().foreground(0))?;
        let dot = x11rb::protocol::xproto::Rectangle { x: 0, y: 0, width: 1, height: 1 };
        x.poly_fill_rectangle(pixmap, gc, &[dot])?;
        x.create_cursor(cursor, pixmap, pixmap, 0, 0, 0, 0, 0, 0, 0, 0)?;
        let aux = CreateWindowAux::new()
            .override_redirect(1)
            .cursor(cursor)
            .event_mask(EventMask::POINTER_MOTION | EventMask::EXPOSURE);
        let (copy, class) = (x11rb::COPY_FROM_PARENT, WindowClass::INPUT_OUTPUT);
        x.create_window(0, window, root, 100, 100, 300, 200, 0, class, copy, &aux)?;
        x.map_window(window)?;
        let game = Game { x, root, window };
        game.warp()?;
        game.wait("the window is shown", |event| matches!(event, Event::Expose(_)).then_some(()))?;
        Ok(game)
    }

    fn wait<T>(&self, what: &str, mut wanted: impl FnMut(&Event) -> Option<T>) -> Result<T, Error> {
        wait_for(what, EVENT_TIMEOUT, || {
            while let Some(event) = self.x.poll_for_event().ok()? {
                if let Some(found) = wanted(&event) {
                    return Some(found);
                }
            }
            None
        })
    }

    fn warp(&self) -> Outcome {
        let (x, y) = CENTRE;
        self.x.warp_pointer(x11rb::NONE, self.window, 0, 0, 0, 0, x, y)?;
        self.x.get_input_focus()?.reply()?;
        Ok(())
    }

    /// As SDL 2 begins its relative mode.
    fn capture(&self) -> Outcome {
        let mask = xinput::EventMask {
            deviceid: ALL_MASTERS,
            mask: vec![xinput::XIEventMask::RAW_MOTION],
        };
        self.x.xinput_xi_select_events(self.root, &[mask])?.check()?;
        let (now, none) = (x11rb::CURRENT_TIME, x11rb::NONE);
        let (mask, mode) = (EventMask::POINTER_MOTION, GrabMode::ASYNC);
        self.x
            .grab_pointer(false, self.window, mask, mode, mode, self.window, none, now)?
            .reply()?;
        Ok(())
    }

    /// The sum of raw motions, once this many pixels to the right or left were moved in all.
    fn raw_moves(&self, pixels: i32) -> Result<(i32, i32), Error> {
        let (mut sum, mut all) = ((0, 0), 0);
        self.wait("raw motion", |event| {
            if let Event::XinputRawMotion(raw) = event {
                let axis = |at: usize| raw.axisvalues_raw.get(at).map_or(0, |v| v.integral);
                sum = (sum.0 + axis(0), sum.1 + axis(1));
                all += axis(0).abs();
            }
            (all >= pixels).then_some(())
        })?;
        assert_eq!(all, pixels);
        Ok(sum)
    }

    fn pointer(&self) -> Result<(i16, i16), Error> {
        let at = self.x.query_pointer(self.root)?.reply()?;
        Ok((at.root_x, at.root_y))
    }
}

#[test]
fn a_game_that_reads_raw_motion_gets_what_was_moved_beyond_all_edges() -> Outcome {
    let mut desktop = Desktop::start("raw", "640x480", &["sleep", "infinity"])?;
    let game = Game::new(&desktop)?;
    desktop.viewer.say("barrier")?;
    assert_eq!(desktop.viewer.say("relative-wanted")?, "no", "only the cursor is hidden");
    game.capture()?;
    desktop.viewer.say("wait-relative yes")?;
    desktop.viewer.say("move-by 10 0")?;
    assert_eq!(game.raw_moves(10)?, (10, 0));
    // Ten times the width of the screen, and back.
    for _ in 0..64 {
        desktop.viewer.say("move-by 100 -1")?;
    }
    assert_eq!(game.raw_moves(6_400)?, (6_400, -64));
    for _ in 0..64 {
        desktop.viewer.say("move-by -100 1")?;
    }
    assert_eq!(game.raw_moves(6_400)?, (-6_400, 64));
    // A viewer that has not captured its pointer sends positions.
    desktop.viewer.say("move 250 200")?;
    wait_for("the pointer is there", EVENT_TIMEOUT, || {
        (game.pointer().ok()? == (250, 200)).then_some(())
    })?;
    while game.x.poll_for_event()?.is_some() {}
    desktop.viewer.say("move 260 200")?;
    assert_eq!(game.raw_moves(10)?, (10, 0));
    desktop.viewer.say("move-by 5 0")?;
    game.raw_moves(5)?;
    // The game ends, and the viewer's pointer goes on where it is.
    game.x.ungrab_pointer(x11rb::CURRENT_TIME)?.check()?;
    desktop.viewer.say("wait-relative no")?;
    desktop.viewer.say("barrier")?;
    let (x, y) = game.pointer()?;
    assert_eq!(desktop.viewer.say("warped")?, format!("{x} {y}"));
    Ok(())
}

#[test]
fn a_game_that_puts_the_pointer_back_gets_what_was_moved() -> Outcome {
    let mut desktop = Desktop::start("centre", "640x480", &["sleep", "infinity"])?;
    let game = Game::new(&desktop)?;
    let turn = |desktop: &mut Desktop, (dx, dy): (i16, i16)| -> Outcome {
        desktop.viewer.say(&format!("move-by {dx} {dy}"))?;
        let at = game.wait("a motion", |event| match event {
            Event::MotionNotify(at) if (at.event_x, at.event_y) != CENTRE => {
                Some((at.event_x - CENTRE.0, at.event_y - CENTRE.1))
            }
            _ => None,
        })?;
        assert_eq!(at, (dx, dy));
        game.warp()?;
        // A position set by a program counts if the pointer was moved before it, so the session has
        // to know of it before the next motion comes.
        desktop.viewer.say("barrier").map(drop)
    };
    for moved in [(10, 0), (10, 0), (-4, 7), (0, -90), (120, 1), (1, 1)] {
        turn(&mut desktop, moved)?;
    }
    // Positions more than a second apart, as on a busy machine, are counted from 1 again.
    wait_for("a wish for relative motion", EVENT_TIMEOUT, || {
        let answer = desktop.viewer.say("relative-wanted").ok()?;
        (answer == "yes" || turn(&mut desktop, (1, 0)).is_err()).then_some(())
    })?;
    assert_eq!(desktop.viewer.say("relative-wanted")?, "yes");
    Ok(())
}

#[test]
fn programs_that_only_hide_the_cursor_or_only_grab_the_pointer_are_offered_nothing() -> Outcome {
    let mut desktop = Desktop::start("typing", "640x480", &["sleep", "infinity"])?;
    let game = Game::new(&desktop)?;
    for line in ["move 200 200", "type some words", "move 210 200", "move-by 3 0", "click 1"] {
        desktop.viewer.say(line)?;
    }
    // A menu, or a dialog that moves the pointer to its button.
    let (now, none) = (x11rb::CURRENT_TIME, x11rb::NONE);
    let (mask, mode) = (EventMask::POINTER_MOTION, GrabMode::ASYNC);
    game.x.grab_pointer(true, game.window, mask, mode, mode, none, none, now)?.reply()?;
    game.x.ungrab_pointer(now)?.check()?;
    game.warp()?;
    for _ in 0..2 {
        game.x.get_input_focus()?.reply()?;
        desktop.viewer.say("barrier")?;
    }
    assert_eq!(desktop.viewer.say("relative-wanted")?, "no");
    Ok(())
}

/// A program of SDL's: it writes each event into the file that it is told, a line each. The key R
/// switches the relative mode.
const SDL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sdl_game.py");

/// What the program of SDL's has written since the last look.
struct Told {
    file: std::path::PathBuf,
    read: usize,
}

impl Told {
    /// Waits for this line; returns the sum of the motions before it.
    fn line(&mut self, wanted: &str) -> Result<(i32, i32), Error> {
        self.until(wanted, |line, _| line == wanted)
    }

    /// Waits until this many pixels to the right or left were moved in all; returns the sum.
    fn moves(&mut self, pixels: i32) -> Result<(i32, i32), Error> {
        let mut all = 0;
        let sum = self.until(&format!("{pixels} pixels"), |_, dx| {
            all += dx.abs();
            all >= pixels
        })?;
        assert_eq!(all, pixels);
        Ok(sum)
    }

    fn until(
        &mut self,
        what: &str,
        mut last: impl FnMut(&str, i32) -> bool,
    ) -> Result<(i32, i32), Error> {
        let mut sum = (0, 0);
        wait_for(what, EVENT_TIMEOUT, || {
            let text = std::fs::read_to_string(&self.file).ok()?;
            while let Some(length) = text[self.read..].find('\n') {
                let line = &text[self.read..self.read + length];
                self.read += length + 1;
                let mut moved =
                    line.strip_prefix("moved ").into_iter().flat_map(str::split_whitespace);
                let mut axis = || moved.next().and_then(|by| by.parse().ok()).unwrap_or(0);
                let (dx, dy) = (axis(), axis());
                sum = (sum.0 + dx, sum.1 + dy);
                if last(line, dx) {
                    return Some(());
                }
            }
            None
        })?;
        Ok(sum)
    }
}

#[test]
fn a_program_in_sdls_relative_mode_gets_what_was_moved_beyond_all_edges() -> Outcome {
    let python = "/usr/bin/python3";
    let folder = Folder::new("sdl")?;
    let mut told = Told { file: folder.path().join("told"), read: 0 };
    let file = told.file.display().to_string();
    // With the session's own window manager, which gives the window the focus.
    let with = ["--window-manager", "auto"];
    let mut desktop = Desktop::start_with("sdl", "640x480", &with, &[python, SDL, &file])?;
    told.line("focused")?;
    desktop.viewer.say("move 320 240")?;
    desktop.viewer.say("click 1")?;
    told.line("released 1")?;
    assert_eq!(desktop.viewer.say("relative-wanted")?, "no");
    desktop.viewer.say("type r")?;
    told.line("relative")?;
    desktop.viewer.say("wait-relative yes")?;
    // Ten times the width of the screen, and back.
    for (by, wanted) in [("100 -1", (6_400_i32, -64)), ("-100 1", (-6_400, 64)), ("1 0", (64, 0))] {
        for _ in 0..64 {
            desktop.viewer.say(&format!("move-by {by}"))?;
        }
        assert_eq!(told.moves(wanted.0.abs())?, wanted);
    }
    desktop.viewer.say("click 3")?;
    told.line("pressed 3")?;
    // A viewer that has not captured its pointer: the first position is one of the pointer's own.
    desktop.viewer.say("move 300 200")?;
    desktop.viewer.say("barrier")?;
    desktop.viewer.say("type r")?;
    told.line("absolute")?;
    desktop.viewer.say("wait-relative no")?;
    // X merges motions that it has not delivered yet; so each is awaited.
    let x = desktop.connect_x()?;
    let root = x.setup().roots[0].root;
    for x_wanted in [310, 320] {
        desktop.viewer.say(&format!("move {x_wanted} 240"))?;
        wait_for("the pointer is there", EVENT_TIMEOUT, || {
            let at = x.query_pointer(root).ok()?.reply().ok()?;
            ((at.root_x, at.root_y) == (x_wanted, 240)).then_some(())
        })?;
    }
    told.line("moved 10 0").map(drop)
}
