//! X clients that put whole images of a window in a row, in a real Xorg: they are held to the clock
//! of frames, and nobody else waits. Present's clients wait for the ticks of the same clock. Counts
//! ticks, images and answers; knows X's requests and the word in the ring, never a viewer.

mod coverage;
mod xserver;

use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use thinc_region::Rect;
use thinc_ring::{FRAME_RATE_MAX, FRAME_RATE_MIN, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::present::{self, CompleteMode, ConnectionExt as _};
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

/// An X client with a window, and images of its own memory.
struct Program {
    conn: RustConnection,
    root: Window,
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
        Program { conn, root, window, gc, segment, image: vec![7; FRAME_BYTES], serial: 0 }
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
        let (msc, ust, _) = self.completed();
        (msc, ust)
    }

    fn completed(&self) -> (u64, u64, CompleteMode) {
        self.conn.flush().unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.conn.poll_for_event().unwrap() {
                Some(Event::PresentCompleteNotify(done)) if done.serial == self.serial => {
                    return (done.msc, done.ust, done.mode);
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

    /// Puts images until X reads no further request of this client.
    fn until_held(&self, other: &Program, reader: &Reader) {
        let before = reader.attachment.ring.stats().holds;
        for _ in 0..=FREE {
            self.put(FRAME);
        }
        let deadline = Instant::now() + TIMEOUT;
        while reader.attachment.ring.stats().holds == before {
            other.sync();
            assert!(Instant::now() < deadline, "the program is not held");
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

/// Puts `frames` by `put`, after those that pass, and checks them against the ticks meanwhile.
fn frames_take_ticks(server: &XServer, reader: &mut Reader, put: impl Fn(&Program)) {
    const FRAMES: u64 = 12;
    // The newer window is above the other.
    let (mut clock, mut program) = (Program::new(server), Program::new(server));
    let before = holds(reader);
    for _ in 0..FREE {
        put(&program);
        program.sync();
    }
    reader.drain();
    let (first, _) = clock.tick(0);
    for _ in 0..FRAMES {
        put(&program);
        program.sync();
    }
    let (last, _) = clock.tick(0);
    // Half a tick early, and between two ticks at both ends.
    let ticks = last - first;
    assert!(ticks + 2 >= FRAMES, "{FRAMES} frames within {ticks} ticks");
    let held = holds(reader) - before;
    assert!((FRAMES - 2..=FRAMES + 1).contains(&held), "{FRAMES} frames were held {held} times");
    let drawn = |record: &thinc_ring::DrawRecord| matches!(record.kind, RecordKind::Draw { .. });
    let drawn = reader.drain().into_iter().filter(drawn).count() as u64;
    assert_eq!(drawn, FRAMES, "each of them was drawn");
    // Its own requests to Present are answered as ever.
    program.tick(0);
}

#[test]
fn whole_images_in_a_row_are_held_to_the_clock() {
    let (server, mut reader) = start(FRAME_RATE_MIN);
    frames_take_ticks(&server, &mut reader, |program| program.put(FRAME));
    // X draws a whole image in shared memory like any other, and copies from a part of one.
    frames_take_ticks(&server, &mut reader, |program| program.shm_put(320));
    frames_take_ticks(&server, &mut reader, |program| program.shm_put(310));
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
    assert!(holds(&reader) >= 8, "the program was held");
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
    program.until_held(&other, &reader);
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
        program.until_held(&other, &reader);
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
                retained.until_held(&other, &reader);
                drop(retained);
            }
        }
        // Past the tick at which it would have gone on.
        let (msc, _) = other.tick(0);
        other.tick(msc + 3);
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
        let before = holds(&reader);
        let generation = reader.attachment.framebuffer.generation();
        let mut program = Program::new(&server);
        let (msc, _) = program.tick(0);
        // Present waits for this tick when the server regenerates.
        program.conn.present_notify_msc(program.window, 1_000, msc + 1_000, 0, 0).unwrap();
        for _ in 0..=FREE {
            program.put(FRAME);
        }
        let deadline = Instant::now() + TIMEOUT;
        while holds(&reader) == before {
            std::thread::yield_now();
            assert!(Instant::now() < deadline, "the program is not held");
        }
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
    let mut program = Program::new(&server);
    for _ in 0..60 {
        program.frame();
    }
    assert_eq!(holds(&reader), 0);
    // Present has X's own clock.
    let (msc, _) = program.tick(0);
    assert!(program.tick(msc + 2).0 >= msc + 2);
}

// ---- Present

#[test]
fn the_clock_follows_the_word_within_its_bounds_and_never_goes_back() {
    let (server, reader) = start(0);
    let mut program = Program::new(&server);
    let mut newest = (0, 0);
    for (word, rate) in [
        (0, FRAME_RATE_MAX),
        (1, FRAME_RATE_MIN),
        (u32::MAX, FRAME_RATE_MAX),
        (FRAME_RATE_MIN, FRAME_RATE_MIN),
        (FRAME_RATE_MAX + 1, FRAME_RATE_MAX),
        (25, 25),
        (FRAME_RATE_MIN - 1, FRAME_RATE_MIN),
        (FRAME_RATE_MAX, FRAME_RATE_MAX),
    ] {
        reader.attachment.ring.set_frame_rate(word);
        // The tick that the new rate counts from.
        let from = program.tick(0);
        assert!(from.0 >= newest.0 && from.1 >= newest.1, "{from:?} after {newest:?}");
        let first = program.tick(from.0 + 1);
        assert!(first.0 > from.0);
        let second = program.tick(first.0 + 3);
        assert!(second.0 >= first.0 + 3);
        let took = second.1 - first.1;
        assert_eq!(
            took,
            (second.0 - first.0) * u64::from(1_000_000 / rate),
            "a tick at the rate {word}"
        );
        newest = second;
    }
}

#[test]
fn pixmaps_are_presented_at_the_ticks_that_were_asked_for() {
    let (server, mut reader) = start(30);
    let mut program = Program::new(&server);
    let (pixmap, gc) = (program.conn.generate_id().unwrap(), program.conn.generate_id().unwrap());
    program.conn.create_pixmap(24, pixmap, program.window, 300, 300).unwrap();
    program.conn.create_gc(gc, pixmap, &CreateGCAux::new()).unwrap();
    let all = Rectangle { x: 0, y: 0, width: 300, height: 300 };
    let (mut msc, _) = program.tick(0);
    for frame in 1..=12_u32 {
        program.conn.change_gc(gc, &ChangeGCAux::new().foreground(frame)).unwrap();
        program.conn.poly_fill_rectangle(pixmap, gc, &[all]).unwrap();
        program.serial += 1;
        let target = msc + u64::from(frame % 3) + 1;
        program
            .conn
            .present_pixmap(
                program.window,
                pixmap,
                program.serial,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                target,
                0,
                0,
                &[],
            )
            .unwrap();
        let (done, _, mode) = program.completed();
        assert!(done >= target, "presented at tick {done}, asked for {target}");
        assert_eq!(mode, CompleteMode::COPY);
        msc = done;
        reader.drain();
        assert_eq!(reader.pixels()[0], frame, "it is in the window by then");
        if frame == 6 {
            reader.attachment.ring.set_frame_rate(FRAME_RATE_MAX);
        }
    }
    // A program that ends with its pixmap still waiting.
    let far = msc + 1_000_000;
    program
        .conn
        .present_pixmap(program.window, pixmap, 9_999, 0, 0, 0, 0, 0, 0, 0, 0, far, 0, 0, &[])
        .unwrap();
    program.sync();
    let root = program.root;
    drop(program);
    let other = Program::new(&server);
    assert_eq!(other.root, root);
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn all_tests_pass_with_sanitizers() {
    xserver::rerun_with_sanitizers();
}
