//! Several viewers of one session over TLS, each with its own queue and speed: none affects the
//! others. An application draws incompressible noise, so that every path is busy and every queue
//! full.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use thinc_bench::Error;
use thinc_bench::process::{Headless, pss_mb, wait_for};
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, Gcontext, ImageFormat, Window};
use x11rb::rust_connection::RustConnection;

type Outcome = Result<(), Error>;

const WIDTH: u16 = 640;
const HEIGHT: u16 = 480;
const SIZE: &str = "640x480";
/// A request of the core protocol holds 256 KiB.
const ROWS_PER_REQUEST: u16 = 48;
/// Bytes of one screen of noise on the wire, at least: three of each pixel's four bytes are shown.
const SCREEN_BYTES: u64 = WIDTH as u64 * HEIGHT as u64 * 3;
/// An application that fills the screen with new noise each time.
struct Noise {
    conn: RustConnection,
    root: Window,
    gc: Gcontext,
    state: u64,
}

impl Noise {
    fn new(desktop: &Desktop) -> Result<Noise, Error> {
        let conn = desktop.connect_x()?;
        let (root, gc) = (conn.setup().roots[0].root, conn.generate_id()?);
        conn.create_gc(gc, root, &CreateGCAux::new())?;
        Ok(Noise { conn, root, gc, state: 1 })
    }

    /// Draws a screen of noise; X has drawn it when this returns.
    fn draw(&mut self) -> Outcome {
        let mut data = Vec::with_capacity(usize::from(WIDTH) * usize::from(ROWS_PER_REQUEST) * 4);
        for y in (0..HEIGHT).step_by(ROWS_PER_REQUEST.into()) {
            data.clear();
            while data.len() < data.capacity() {
                // Marsaglia's xorshift: no two rows are alike.
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                data.extend_from_slice(&self.state.to_le_bytes());
            }
            let (format, rows) = (ImageFormat::Z_PIXMAP, ROWS_PER_REQUEST);
            self.conn.put_image(
                format,
                self.root,
                self.gc,
                WIDTH,
                rows,
                0,
                y.cast_signed(),
                0,
                24,
                &data,
            )?;
        }
        self.conn.get_input_focus()?.reply()?;
        Ok(())
    }
}

/// A viewer whose process is stopped while this lives.
struct Stopped(u32);

impl Stopped {
    fn new(viewer: &Headless) -> Result<Stopped, Error> {
        signal("-STOP", viewer.pid())?;
        Ok(Stopped(viewer.pid()))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", self.0).expect("a stopped viewer goes on");
    }
}

fn signal(name: &str, pid: u32) -> Outcome {
    let status = Command::new("kill").args([name, "--", &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill {name} {pid}: {status}").into()) }
}

fn bytes_in(desktop: &mut Desktop) -> Result<u64, Error> {
    desktop.stats()?["bytes_in"].as_u64().ok_or_else(|| "stats have no bytes_in".into())
}

#[test]
fn a_stopped_viewer_delays_nobody_costs_no_memory_and_is_complete_when_it_continues() -> Outcome {
    // Lossless, so that the noise is a load: a busy machine looks like a slow path.
    let mut desktop = Desktop::start_with(
        "viewers-stopped",
        SIZE,
        &["--lossy", "never"],
        &["sleep", "infinity"],
    )?;
    let mut slow = desktop.another_viewer()?;
    let mut noise = Noise::new(&desktop)?;
    desktop.with_viewer(&mut slow, |desktop| desktop.assert_identical("before it is stopped"))?;
    let session = desktop.session.pid("session")?;
    let stopped = Stopped::new(&slow)?;
    // Each complete screen arrives while the other viewer reads nothing: the answer to a barrier
    // follows all of it.
    let mut pictures = Vec::new();
    let mut memory = Vec::new();
    for _ in 0..120 {
        noise.draw()?;
        desktop.viewer.say("barrier")?;
        pictures.push(desktop.viewer.say("hash")?);
        memory.push(pss_mb(session)?);
    }
    let fast_bytes = bytes_in(&mut desktop)?;
    desktop.assert_identical("while another is stopped")?;
    drop(stopped);
    pictures.dedup();
    assert_eq!(pictures.len(), 120, "every picture was seen");
    assert!(fast_bytes > 110 * SCREEN_BYTES, "{fast_bytes} bytes: the noise is no load");
    // A leak for each screen would add up: the second half would hold 50 screens more on average.
    // An allocator's noise is a few.
    let median = |part: &[f64]| {
        let mut part = part.to_vec();
        part.sort_by(f64::total_cmp);
        part[part.len() / 2]
    };
    let (early, late) = (median(&memory[20..70]), median(&memory[70..]));
    let screens = (late - early) * 1e6 / SCREEN_BYTES as f64;
    assert!(
        screens < 10.0,
        "the session grew from {early} to {late} MB, by {screens:.1} screens, while a viewer was \
            stopped"
    );
    let slow_bytes = desktop.with_viewer(&mut slow, |desktop| {
        desktop.assert_identical("after it went on")?;
        bytes_in(desktop)
    })?;
    // The bytes in the kernel when it was stopped, and the newest screen: none of the screens in
    // between.
    assert!(
        slow_bytes < fast_bytes / 4,
        "{slow_bytes} of {fast_bytes} bytes: what was over was sent all the same"
    );
    Ok(())
}

#[test]
fn viewers_that_connect_and_disconnect_under_load_do_not_affect_the_others() -> Outcome {
    let mut desktop = Desktop::start("viewers-guests", SIZE, &["sleep", "infinity"])?;
    let mut noise = Noise::new(&desktop)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| -> Outcome {
        let drawing = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                noise.draw().expect("X draws");
            }
        });
        let outcome = (|| -> Outcome {
            for round in 0..6 {
                let mut guests =
                    (0..2).map(|_| desktop.another_viewer()).collect::<Result<Vec<_>, _>>()?;
                for guest in &mut guests {
                    guest.say("barrier")?;
                }
                // Kill half of them while jobs are at the workers and bytes are in flight.
                if round % 2 == 0 {
                    guests.iter().try_for_each(|guest| signal("-KILL", guest.pid()))?;
                }
                desktop.after_update("barrier")?;
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        drawing.join().expect("the application ends well");
        outcome
    })?;
    desktop.assert_identical("after all guests have gone")?;
    let mut last = desktop.another_viewer()?;
    desktop.with_viewer(&mut last, |desktop| desktop.assert_identical("for the last guest"))
}

#[test]
fn keys_of_a_disconnected_viewer_are_released_and_those_of_others_stay_down() -> Outcome {
    let mut desktop = Desktop::start("viewers-input", SIZE, &["sleep", "infinity"])?;
    let mut guest = desktop.another_viewer()?;
    let x = desktop.connect_x()?;
    let root = x.setup().roots[0].root;
    let down = || -> Option<Vec<u8>> {
        let keys = x.query_keymap().ok()?.reply().ok()?.keys;
        Some(
            (8..=255u8).filter(|code| keys[usize::from(code / 8)] & 1 << (code % 8) != 0).collect(),
        )
    };
    let buttons = || {
        x.query_pointer(root)
            .ok()
            .and_then(|cookie| cookie.reply().ok())
            .map(|pointer| pointer.mask)
    };
    let (a, shift, left) = (38, 50, x11rb::protocol::xproto::KeyButMask::BUTTON1);
    desktop.viewer.say("keydown Shift_L")?;
    guest.say("keydown a")?;
    guest.say("buttondown 1")?;
    wait_for("both keys and the button are down", EVENT_TIMEOUT, || {
        (down()? == [a, shift] && buttons()?.contains(left)).then_some(())
    })?;
    signal("-KILL", guest.pid())?;
    wait_for("the guest's keys are released", EVENT_TIMEOUT, || {
        (down()? == [shift] && !buttons()?.contains(left)).then_some(())
    })?;
    desktop.viewer.say("keyup Shift_L")?;
    wait_for("nothing is held", EVENT_TIMEOUT, || down()?.is_empty().then_some(()))
}

#[test]
fn the_newest_viewer_controls_the_size_and_gives_it_back() -> Outcome {
    let mut desktop = Desktop::start("viewers-size", SIZE, &["sleep", "infinity"])?;
    desktop.viewer.say("resize 700x500")?;
    let mut guest = desktop.another_viewer()?;
    guest.say("resize 800x600")?;
    let seen = |viewer: &mut Headless, wanted: &str| {
        wait_for(&format!("the screen is {wanted}"), EVENT_TIMEOUT, || {
            viewer.say("barrier").ok()?;
            (viewer.say("size").ok()? == wanted).then_some(())
        })
    };
    seen(&mut desktop.viewer, "800x600")?;
    desktop.assert_identical("at the guest's size")?;
    guest.say("quit")?;
    seen(&mut desktop.viewer, "700x500")?;
    desktop.assert_identical("at its own size again")
}
