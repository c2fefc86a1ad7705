//! X clients that put whole images of a window in a row, in a real Xorg: they are held to the clock
//! of frames, and nobody else waits. Counts ticks of Present's clock, which is X's own, images and
//! answers; knows X's requests and the word in the ring, never a viewer.

mod coverage;
mod xserver;

use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use thinc_region::Rect;
use thinc_ring::{FRAME_RATE_MAX, FRAME_RATE_MIN, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::present::{self, ConnectionExt as _};
use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xproto::*;
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, TIMEOUT};
use xserver::{Options, XServer};

/// More than the 64 Ki pixels that a whole frame has at least.
const FRAME: Rect = Rect { x1: 0, y1: 0, x2: 320, y2: 240 };
const FRAME_BYTES: usize = 4 * 320 * 240;
/// Images that pass before a client is held.
const FREE: u64 = 8;
/// Ticks a second of Present's clock.
const TICKS: u64 = 60;
/// A machine that stops for 0.1 s ends a row of images: then they are put again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Beside other work images come more slowly than the clock, which holds none then: of so many rows
/// of 0.2 s one must have the machine.
const ATTEMPTS: usize = 50;

/// An X client with a window, and images of its own memory.
struct Program {
    conn: RustConnection,
    window: Window,
    gc: Gcontext,
    segment: u32,
    image: Vec<u8>,
    serial: u32,
}

impl Program {
    fn new(server: &XServer) -> Program {
        let (conn, screen) = server.connect();
        let root = conn.setup().roots[screen].root;
        let [window, gc, events, segment] = [(); 4].map(|()| conn.generate_id().unwrap());
        let aux = CreateWindowAux::new().override_redirect(1);
        let (class, none) = (WindowClass::INPUT_OUTPUT, x11rb::COPY_FROM_PARENT);
        conn.create_window(24, window, root, 0, 0, 400, 300, 0, class, none, &aux).unwrap();
        conn.map_window(window).unwrap();
        conn.create_gc(gc, window, &CreateGCAux::new()).unwrap();
        conn.present_query_version(1, 0).unwrap().reply().unwrap();
        let mask = present::EventMask::COMPLETE_NOTIFY;
        conn.present_select_input(events, window, mask).unwrap().check().unwrap();
        let memory = memfd_create("image", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, FRAME_BYTES as u64).unwrap();
        conn.shm_attach_fd(segment, memory, true).unwrap().check().unwrap();
        Program { conn, window, gc, segment, image: vec![7; FRAME_BYTES], serial: 0 }
    }

    /// Puts an image of this rectangle into the window, and does not wait.
    fn put(&self, at: Rect) {
        let (width, height) = (at.width() as u16, at.height() as u16);
        let bytes = &self.image[..4 * usize::from(width) * usize::from(height)];
        let (format, x, y) = (ImageFormat::Z_PIXMAP, at.x1 as i16, at.y1 as i16);
        self.conn
            .put_image(format, self.window, self.gc, width, height, x, y, 0, 24, bytes)
            .unwrap();
        self.conn.flush().unwrap();
    }

    /// The same from shared memory: the left part of an image of 320 x 240.
    fn shm_put(&self, width: u16) {
        let (of, height, format) = (320, 240, ImageFormat::Z_PIXMAP.into());
        let (window, gc, segment) = (self.window, self.gc, self.segment);
        self.conn
            .shm_put_image(
                window, gc, of, height, 0, 0, width, height, 0, 0, 24, format, false, segment, 0,
            )
            .unwrap();
    }

    /// As Mesa's software GL: it waits for X after each frame.
    fn sync(&self) {
        self.conn.get_input_focus().unwrap().reply().unwrap();
    }

    fn frame(&self) {
        self.put(FRAME);
        self.sync();
    }

    /// The tick at which this one, or a later one, was reported, and its time.
    fn tick(&mut self, target: u64) -> (u64, u64) {
        self.serial += 1;
        self.conn.present_notify_msc(self.window, self.serial, target, 0, 0).unwrap();
        self.conn.flush().unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.conn.poll_for_event().unwrap() {
                Some(Event::PresentCompleteNotify(done)) if done.serial == self.serial => {
                    return (done.msc, done.ust);
                }
                Some(_) => {}
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    assert!(left > Duration::ZERO, "event {} of Present is lost", self.serial);
                    xserver::wait_readable(std::os::fd::AsFd::as_fd(self.conn.stream()), left);
                }
            }
        }
    }

    /// Puts images until X reads no further request of this client; `meanwhile` waits a little.
    fn until_held(&self, reader: &Reader, meanwhile: impl Fn()) {
        let before = holds(reader);
        let deadline = Instant::now() + TIMEOUT;
        while holds(reader) == before {
            assert!(Instant::now() < deadline, "the program is not held");
            for _ in 0..=FREE {
                self.put(FRAME);
            }
            let again = Instant::now() + AGAIN_AFTER;
            while holds(reader) == before && Instant::now() < again {
                meanwhile();
            }
        }
    }
}

fn start(rate: u32) -> (XServer, Reader) {
    let server = XServer::start(Options::default());
    let reader = Reader::new(server.attach());
    reader.attachment.ring.set_frame_rate(rate);
    (server, reader)
}

fn holds(reader: &Reader) -> u64 {
    reader.attachment.ring.stats().holds
}

/// Puts images by `put`, after those that pass: they take as long as they are held at this rate.
fn frames_take_ticks(server: &XServer, reader: &mut Reader, rate: u32, put: impl Fn(&Program)) {
    let mut wrong = String::new();
    for _ in 0..ATTEMPTS {
        match try_frames(server, reader, u64::from(rate), &put) {
            Ok(()) => return,
            Err(why) => wrong = why,
        }
    }
    panic!("at {rate} a second: {wrong}");
}

fn try_frames(
    server: &XServer,
    reader: &mut Reader,
    rate: u64,
    put: &impl Fn(&Program),
) -> Result<(), String> {
    const FRAMES: u64 = 12;
    // The newer window is above the other.
    let (mut clock, mut program) = (Program::new(server), Program::new(server));
    for _ in 0..FREE {
        put(&program);
        program.sync();
    }
    reader.drain();
    let before = holds(reader);
    let (first, _) = clock.tick(0);
    for _ in 0..FRAMES {
        put(&program);
        program.sync();
    }
    let (last, _) = clock.tick(0);
    let held = holds(reader) - before;
    let drawn = |record: &thinc_ring::DrawRecord| matches!(record.kind, RecordKind::Draw { .. });
    let drawn = reader.drain().into_iter().filter(drawn).count() as u64;
    assert_eq!(drawn, FRAMES, "each of them was drawn");
    // Its own requests to Present are answered as ever.
    program.tick(0);
    // Half a frame early, and between two ticks at both ends.
    let (ticks, wanted) = (last - first, FRAMES * TICKS / rate);
    let slack = 2 * TICKS / rate + 2;
    if ticks + slack < wanted || ticks > wanted + wanted / 2 + slack {
        return Err(format!("{FRAMES} images within {ticks} ticks, and not {wanted}"));
    }
    // The last one before them may have been held already.
    if !(FRAMES - 2..=FRAMES + 1).contains(&held) {
        return Err(format!("{FRAMES} images were held {held} times"));
    }
    Ok(())
}

#[test]
fn whole_images_in_a_row_are_held_to_the_clock() {
    let (server, mut reader) = start(FRAME_RATE_MIN);
    frames_take_ticks(&server, &mut reader, FRAME_RATE_MIN, |program| program.put(FRAME));
    // X draws a whole image in shared memory like any other, and copies from a part of one.
    frames_take_ticks(&server, &mut reader, FRAME_RATE_MIN, |program| program.shm_put(320));
    frames_take_ticks(&server, &mut reader, FRAME_RATE_MIN, |program| program.shm_put(310));
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn the_clock_follows_the_word_within_its_bounds_and_presents_does_not() {
    let (server, mut reader) = start(0);
    for (word, rate) in [
        (0, FRAME_RATE_MAX),
        (1, FRAME_RATE_MIN),
        (u32::MAX, FRAME_RATE_MAX),
        (25, 25),
        (FRAME_RATE_MAX + 1, FRAME_RATE_MAX),
        (FRAME_RATE_MIN - 1, FRAME_RATE_MIN),
    ] {
        reader.attachment.ring.set_frame_rate(word);
        frames_take_ticks(&server, &mut reader, rate, |program| program.put(FRAME));
    }
    // The word is still the least.
    let mut other = Program::new(&server);
    let first = other.tick(0);
    let last = other.tick(first.0 + 30);
    let (ticks, us) = (last.0 - first.0, last.1 - first.1);
    assert!(us.abs_diff(ticks * 1_000_000 / TICKS) < 17_000, "{ticks} ticks in {us} µs");
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn nobody_else_waits_while_a_program_is_held() {
    let (server, reader) = start(FRAME_RATE_MIN);
    let (program, other) = (Program::new(&server), Program::new(&server));
    for _ in 0..FREE {
        program.frame();
    }
    let mut most = 0;
    for _ in 0..10 {
        program.put(FRAME);
        let message = ClientMessageEvent::new(8, program.window, AtomEnum::STRING, [0_u8; 20]);
        program.conn.send_event(false, program.window, EventMask::NO_EVENT, message).unwrap();
        program.conn.flush().unwrap();
        let mut answers = 0;
        while !matches!(program.conn.poll_for_event().unwrap(), Some(Event::ClientMessage(_))) {
            other.sync();
            answers += 1;
        }
        most = most.max(answers);
    }
    assert!(holds(&reader) > 0, "the program was held");
    assert!(most >= 10, "in the best tick X answered {most} requests of another program");
}

#[test]
fn what_is_no_whole_frame_in_a_row_is_never_held() {
    let (server, reader) = start(FRAME_RATE_MIN);
    let program = Program::new(&server);
    for _ in 0..20 {
        // Parts of one frame, an icon, an image of another place, and a pixmap.
        program.put(Rect::at(0, 0, 320, 205));
        program.put(Rect::at(0, 205, 320, 205));
        program.put(Rect::at(0, 0, 100, 100));
        program.sync();
    }
    for at in 0..20 {
        program.put(FRAME.translate(at, 0));
        program.sync();
    }
    assert_eq!(holds(&reader), 0);
}

#[test]
fn a_program_that_keeps_to_the_clock_is_never_held() {
    let (server, reader) = start(FRAME_RATE_MAX);
    let mut program = Program::new(&server);
    let mut images = 0;
    while images < 40 {
        program.frame();
        images += 1;
        // The second tick from now: at least a whole one after the image.
        let (msc, _) = program.tick(0);
        program.tick(msc + 2);
    }
    assert_eq!(holds(&reader), 0);
}

#[test]
fn a_program_that_has_grabbed_the_server_is_never_held() {
    let (server, reader) = start(FRAME_RATE_MIN);
    let (program, other) = (Program::new(&server), Program::new(&server));
    program.conn.grab_server().unwrap();
    for _ in 0..40 {
        program.frame();
    }
    assert_eq!(holds(&reader), 0);
    program.conn.ungrab_server().unwrap();
    program.until_held(&reader, || other.sync());
    // Another one's grab while it is held: it goes on after that.
    other.conn.grab_server().unwrap();
    other.sync();
    other.conn.ungrab_server().unwrap();
    other.sync();
    program.sync();
}

#[test]
fn a_program_may_end_while_it_is_held() {
    let (mut server, reader) = start(FRAME_RATE_MIN);
    let mut other = Program::new(&server);
    for round in 0..6 {
        let program = Program::new(&server);
        program.until_held(&reader, || other.sync());
        match round % 3 {
            0 => drop(program),
            1 => {
                other.conn.kill_client(program.window).unwrap().check().unwrap();
            }
            _ => {
                // Its resources stay, and it is gone all the same.
                let retained = Program::new(&server);
                retained.conn.set_close_down_mode(CloseDown::RETAIN_TEMPORARY).unwrap();
                retained.sync();
                retained.until_held(&reader, || other.sync());
                drop(retained);
            }
        }
        // Past the tick at which it would have gone on.
        let (msc, _) = other.tick(0);
        other.tick(msc + 2 * TICKS / u64::from(FRAME_RATE_MIN));
    }
    other.conn.kill_client(0_u32).unwrap().check().unwrap();
    other.sync();
    assert!(server.is_running());
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn a_held_program_may_be_the_last_of_a_generation() {
    let mut server = XServer::start(Options { reset: true, ..Options::default() });
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_frame_rate(FRAME_RATE_MIN);
    for _ in 0..3 {
        let generation = reader.attachment.framebuffer.generation();
        let mut program = Program::new(&server);
        let (msc, _) = program.tick(0);
        // Present waits for this tick when the server regenerates.
        program.conn.present_notify_msc(program.window, 1_000, msc + 1_000, 0, 0).unwrap();
        program.until_held(&reader, std::thread::yield_now);
        drop(program);
        reader.read_until(
            |r| matches!(r.kind, RecordKind::Geometry { generation: new } if new != generation),
        );
        reader.control_events();
        reader.attachment.framebuffer =
            reader.announced.pop().expect("a new framebuffer was announced");
    }
    assert!(server.is_running());
}

#[test]
fn with_pacing_off_nobody_is_held() {
    let server = XServer::start(Options { pace: false, ..Options::default() });
    let reader = Reader::new(server.attach());
    reader.attachment.ring.set_frame_rate(FRAME_RATE_MIN);
    let program = Program::new(&server);
    for _ in 0..60 {
        program.frame();
    }
    assert_eq!(holds(&reader), 0);
}

#[test]
fn all_tests_pass_with_sanitizers() {
    xserver::rerun_with_sanitizers();
}
