//! Relative motion, from a viewer to an application in a real X server: one that reads raw motion
//! as SDL 2 does, and one that puts the pointer back into the middle of its window. Each gets
//! exactly what the user moved, and viewers learn that it wants that.

use thinc_bench::Error;
use thinc_bench::process::wait_for;
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
