//! A program that draws frames without end is held to what the fastest viewer takes, and
//! `thinc top` says so. Counts frames and times that it was held; driver and clock alone have their
//! tests in crates/ring/tests/pace.rs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use thinc_protocol::viewer::ViewerMessage;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::*;
use x11rb::rust_connection::RustConnection;

use crate::files::x_client;
use crate::harness::{Session, TestEnvironment, wait_until};

/// Rates of the driver's clock, and what `thinc top` says of it.
const RATE_MIN: u64 = 10;
const RATE_MAX: u64 = 60;

/// Pixels of a frame: more than the 64 Ki that one has at least.
const SIZE: (u16, u16) = (400, 300);

/// A program that draws noise, as software OpenGL does: it waits for X after each frame.
struct Program {
    conn: RustConnection,
    window: Window,
    gc: Gcontext,
    frame: Vec<u8>,
    seed: u64,
}

impl Program {
    fn new(session: &Session) -> Program {
        let conn = x_client(session);
        let root = conn.setup().roots[0].root;
        let [window, gc] = [(); 2].map(|()| conn.generate_id().unwrap());
        let (aux, class) = (CreateWindowAux::new().override_redirect(1), WindowClass::INPUT_OUTPUT);
        let (width, height) = SIZE;
        conn.create_window(24, window, root, 0, 0, width, height, 0, class, 0, &aux).unwrap();
        conn.map_window(window).unwrap();
        conn.create_gc(gc, window, &CreateGCAux::new()).unwrap();
        let frame = vec![0; 4 * usize::from(width) * usize::from(height)];
        Program { conn, window, gc, frame, seed: 1 }
    }

    /// Of another picture than all before.
    fn draw(&mut self) {
        for pixel in self.frame.as_chunks_mut::<4>().0 {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            *pixel = (self.seed as u32).to_ne_bytes();
        }
        let ((width, height), format) = (SIZE, ImageFormat::Z_PIXMAP);
        let (window, gc) = (self.window, self.gc);
        self.conn.put_image(format, window, gc, width, height, 0, 0, 0, 24, &self.frame).unwrap();
        self.conn.get_input_focus().unwrap().reply().unwrap();
    }
}

/// Frames a second that programs are held to, and how often they were.
fn clock(session: &Session) -> (u64, u64) {
    let output = session.environment.run(&["top", "t", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let top: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    (top["frames"]["rate"].as_u64().unwrap(), top["frames"]["holds"].as_u64().unwrap())
}

/// Ends the threads of a test, also of one that fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_program_is_held_to_what_the_fastest_viewer_takes() {
    let session = Session::start(&[]);
    let (done, drawn) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _ends = Ends(&done);
        scope.spawn(|| {
            let mut program = Program::new(&session);
            while !done.load(Ordering::Relaxed) {
                program.draw();
                drawn.fetch_add(1, Ordering::Relaxed);
            }
        });
        // With nobody there as on a monitor.
        let rate = wait_until("the program is held", || {
            let (rate, holds) = clock(&session);
            (holds > 5).then_some(rate)
        });
        assert_eq!(rate, RATE_MAX);
        // A viewer that reads and acknowledges nothing takes nothing.
        let slow = session.viewer();
        wait_until("the rate falls", || (clock(&session).0 == RATE_MIN).then_some(()));
        let text = session.environment.run(&["top", "t"]).stdout;
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("without end are held to 10 a second"), "{text}");
        // A faster one decides.
        scope.spawn(|| {
            let mut fast = session.viewer();
            while !done.load(Ordering::Relaxed) {
                fast.next().expect("the connection ended first");
            }
        });
        let before = drawn.load(Ordering::Relaxed);
        wait_until("frames for a faster viewer", || {
            let drawn = drawn.load(Ordering::Relaxed);
            (drawn > before + 100 && clock(&session).0 > RATE_MIN).then_some(())
        });
        drop(slow);
    });
}

#[test]
fn with_pacing_off_no_program_is_held() {
    let mut by_environment = TestEnvironment::new();
    by_environment.variables.push(("THINC_PACE".into(), "off".into()));
    for session in [
        Session::start(&["--pace", "off"]),
        Session::start_with(by_environment, &[], &["sleep", "1000"]),
    ] {
        let mut viewer = session.viewer();
        viewer.wait_complete();
        let mut program = Program::new(&session);
        (0..40).for_each(|_| program.draw());
        assert_eq!(clock(&session).1, 0);
        viewer.send(&ViewerMessage::Barrier(2));
        let text = session.environment.run(&["top", "t"]).stdout;
        assert!(!String::from_utf8(text).unwrap().contains("without end"));
    }
}
