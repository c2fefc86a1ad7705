//! Several viewers of one session over TLS, each with its own queue and speed: what one does is no matter to another.
//! An application draws noise, which nothing makes small, so that every path is busy and every queue full.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::process::{Headless, pss_mb, wait_for};
use thinc_e2e::Desktop;
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
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An application that fills the screen with noise, another each time.
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

    /// One screen of it, which X has drawn when this returns.
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
            self.conn.put_image(format, self.root, self.gc, WIDTH, rows, 0, y.cast_signed(), 0, 24, &data)?;
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
fn a_stopped_viewer_slows_nobody_costs_no_memory_and_is_whole_when_it_goes_on() -> Outcome {
    // What is lossy is no load: a machine that has much else to do is taken for a slow path.
    let mut desktop = Desktop::start_with("viewers-stopped", SIZE, &["--lossy", "never"], &["sleep", "infinity"])?;
    let mut slow = desktop.another_viewer()?;
    let mut noise = Noise::new(&desktop)?;
    desktop.as_seen_by(&mut slow, |desktop| desktop.assert_identical("before it is stopped"))?;
    let session = desktop.session.pid("session")?;
    let stopped = Stopped::new(&slow)?;
    // Each whole screen arrives while the other reads nothing: the answer to a barrier comes after all of it.
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
    let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
    let (early, late) = (most(&memory[20..60]), most(&memory[60..]));
    assert!(late < early + 4.0, "the session grew from {early} to {late} MB while a viewer was stopped");
    let slow_bytes = desktop.as_seen_by(&mut slow, |desktop| {
        desktop.assert_identical("after it went on")?;
        bytes_in(desktop)
    })?;
    // What lay in the kernel when it was stopped, and the newest screen: nothing of what was drawn between them.
    assert!(slow_bytes < fast_bytes / 4, "{slow_bytes} of {fast_bytes} bytes: what was over was sent all the same");
    Ok(())
}

#[test]
fn viewers_that_come_and_go_under_load_leave_the_others_as_they_were() -> Outcome {
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
                let mut guests = (0..2).map(|_| desktop.another_viewer()).collect::<Result<Vec<_>, _>>()?;
                for guest in &mut guests {
                    guest.say("barrier")?;
                }
                // Half of them in the middle of everything, with jobs at the workers and bytes on the way.
                if round % 2 == 0 {
                    guests.iter().try_for_each(|guest| signal("-KILL", guest.pid()))?;
                }
                desktop.after_change_any("barrier")?;
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        drawing.join().expect("the application ends well");
        outcome
    })?;
    desktop.assert_identical("after all guests have gone")?;
    let mut last = desktop.another_viewer()?;
    desktop.as_seen_by(&mut last, |desktop| desktop.assert_identical("for the last guest"))
}

#[test]
fn what_a_viewer_holds_is_let_go_with_it_and_what_another_holds_stays() -> Outcome {
    let mut desktop = Desktop::start("viewers-input", SIZE, &["sleep", "infinity"])?;
    let mut guest = desktop.another_viewer()?;
    let x = desktop.connect_x()?;
    let root = x.setup().roots[0].root;
    let down = || -> Option<Vec<u8>> {
        let keys = x.query_keymap().ok()?.reply().ok()?.keys;
        Some((8..=255u8).filter(|code| keys[usize::from(code / 8)] & 1 << (code % 8) != 0).collect())
    };
    let buttons = || x.query_pointer(root).ok().and_then(|cookie| cookie.reply().ok()).map(|pointer| pointer.mask);
    let (a, shift, left) = (38, 50, x11rb::protocol::xproto::KeyButMask::BUTTON1);
    desktop.viewer.say("keydown Shift_L")?;
    guest.say("keydown a")?;
    guest.say("buttondown 1")?;
    wait_for("both keys and the button are down", PATIENCE, || {
        (down()? == [a, shift] && buttons()?.contains(left)).then_some(())
    })?;
    signal("-KILL", guest.pid())?;
    wait_for("the guest's hand is off", PATIENCE, || (down()? == [shift] && !buttons()?.contains(left)).then_some(()))?;
    desktop.viewer.say("keyup Shift_L")?;
    wait_for("nothing is held", PATIENCE, || down()?.is_empty().then_some(()))
}

#[test]
fn the_newest_viewer_controls_the_size_and_hands_it_back() -> Outcome {
    let mut desktop = Desktop::start("viewers-size", SIZE, &["sleep", "infinity"])?;
    desktop.viewer.say("resize 700x500")?;
    let mut guest = desktop.another_viewer()?;
    guest.say("resize 800x600")?;
    let seen = |viewer: &mut Headless, wanted: &str| {
        wait_for(&format!("the screen is {wanted}"), PATIENCE, || {
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
