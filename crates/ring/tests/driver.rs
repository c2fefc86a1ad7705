//! The driver in a real Xorg, observed through the ring: every changed pixel is covered by a
//! record, COPY records are literally true, the recorded area is little more than miext/damage's,
//! and nothing that a session does can harm X. `THINC_TEST_SANITIZED=1` runs all of it against the
//! sanitized build, `THINC_TEST_SEED=n` runs one seed.

mod coverage;
mod xdraw;
mod xserver;

use std::time::{Duration, Instant};

use thinc_region::Rect;
use thinc_ring::{
    Alpha, ControlEvent, DrawHint, DrawRecord, DrawableId, InputMessage, OutputRequest, RecordKind,
    TouchPhase, attach,
};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::randr::ConnectionExt as _;
use x11rb::protocol::xinput::{self, ConnectionExt as _};
use x11rb::protocol::xproto::*;

use coverage::{Reader, Shadow, TIMEOUT, brief};
use xdraw::{Drawer, Kinds, Random};
use xserver::{Options, XServer, wait_readable};

fn output(x: i32, y: i32, width: u32, height: u32) -> OutputRequest {
    OutputRequest { x, y, width, height, mm_width: 0, mm_height: 0 }
}

fn seeds(default: &[u64]) -> Vec<u64> {
    match std::env::var("THINC_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("THINC_TEST_SEED is a number")],
        Err(_) => default.to_vec(),
    }
}

/// Totals of one seed.
#[derive(Debug, Default)]
struct Areas {
    recorded: u64,
    reported: u64,
    recorded_union: u64,
    reported_union: u64,
    literal_copies: u64,
}

fn draw_and_compare(server: &XServer, seed: u64, batches: usize, steps: i64) -> Areas {
    let (conn, screen) = server.connect();
    let mut reader = Reader::new(server.attach());
    let mut drawer = Drawer::new(conn, screen, seed, Kinds::All).expect("the generator starts");
    drawer.sync().unwrap();
    reader.drain();
    let mut shadow = Shadow::new(&reader);
    let mut areas = Areas::default();
    let mut sizes = Random::new(seed ^ 0x5eed);
    for batch in 0..batches {
        if batch % 40 == 39 {
            let (width, height) = (sizes.within(200, 900) as u32, sizes.within(200, 700) as u32);
            reader.set_outputs(&[output(0, 0, width, height)]).expect("the size is applied");
            drawer.resized(i64::from(width), i64::from(height));
            drawer.sync().unwrap();
            reader.drain();
            assert_eq!(reader.attachment.framebuffer.size(), (width, height));
            shadow = Shadow::new(&reader);
        }
        // Single ops test whether a COPY is literally true; in long batches copies meet pending
        // pixels.
        let count = if batch % 3 == 0 { 1 } else { sizes.within(1, steps) };
        for _ in 0..count {
            drawer.step().expect("a request can be sent");
        }
        drawer.sync().unwrap();
        let records = reader.drain();
        assert!(!records.iter().any(|r| r.kind == RecordKind::Overflow), "a batch fits the ring");
        shadow.apply(&records);
        let stats = reader.attachment.ring.stats();
        let settled = shadow.settle(&reader.pixels());
        if let Err(words) = settled {
            let log: Vec<&String> = drawer.log.iter().rev().take(count as usize).collect();
            panic!(
                "seed {seed}, batch {batch}: {words}\nlast ops, newest first: {log:?}\nrecords: {}",
                brief(&records)
            );
        }
        areas.recorded += std::mem::take(&mut shadow.drawn_area);
        areas.literal_copies += std::mem::take(&mut shadow.literal_copies);
        areas.reported += stats.oracle_area;
        areas.recorded_union += shadow.screen.take_covered();
        areas.reported_union += stats.oracle_union;
    }
    areas
}

#[test]
fn every_changed_pixel_is_covered_and_copies_are_true() {
    let server = XServer::start(Options::default());
    let mut all = Areas::default();
    for seed in seeds(&[1, 2, 3, 4]) {
        let areas = draw_and_compare(&server, seed, 160, 12);
        println!("seed {seed}: {areas:?}");
        all.recorded += areas.recorded;
        all.reported += areas.reported;
        all.recorded_union += areas.recorded_union;
        all.reported_union += areas.reported_union;
        all.literal_copies += areas.literal_copies;
    }
    let ratio = |a: u64, b: u64| a as f64 / b as f64;
    println!(
        "recorded / reported area: sum {:.3}, union {:.3}",
        ratio(all.recorded, all.reported),
        ratio(all.recorded_union, all.reported_union)
    );
    assert!(all.literal_copies > 10_000, "too few COPY records were tested: {all:?}");
    assert!(ratio(all.recorded, all.reported) <= 1.2, "{all:?}");
    assert!(ratio(all.recorded_union, all.reported_union) <= 1.2, "{all:?}");
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn every_request_draws_the_same_pixels_as_in_xvfb() {
    for (seed, kinds) in
        seeds(&[11, 12]).into_iter().flat_map(|seed| [(seed, Kinds::Render), (seed, Kinds::Plain)])
    {
        let ours = XServer::start(Options::default());
        let plain = XServer::start_xvfb(640, 480);
        let ((our_conn, our_screen), (plain_conn, plain_screen)) =
            (ours.connect(), plain.connect());
        let mut reader = Reader::new(ours.attach());
        let mut a = Drawer::new(our_conn, our_screen, seed, kinds).unwrap();
        let mut b = Drawer::new(plain_conn, plain_screen, seed, kinds).unwrap();
        a.sync().unwrap();
        b.sync().unwrap();
        let mut colors = 0usize;
        for batch in 0..30 {
            for _ in 0..20 {
                a.step().unwrap();
                b.step().unwrap();
                a.sync().unwrap();
                b.sync().unwrap();
            }
            reader.drain();
            let (mine, theirs) = (a.screenshot().unwrap(), b.screenshot().unwrap());
            let wrong = mine.iter().zip(&theirs).filter(|(a, b)| a != b).count();
            assert_eq!(
                wrong, 0,
                "seed {seed}, {kinds:?}, batch {batch}: {wrong} pixels differ from Xvfb's; ops \
                    {:?}",
                a.log
            );
            colors = colors.max(mine.iter().collect::<std::collections::HashSet<_>>().len());
        }
        assert!(colors > 200, "too little was drawn: {colors} colours");
        assert!(ours.stop(), "X exits cleanly");
    }
}

#[test]
fn records_past_a_full_ring_become_dirty_tiles() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let mut reader = Reader::new(server.attach());
    reader.drain();
    let mut shadow = Shadow::new(&reader);
    let gc = conn.generate_id().unwrap();
    conn.create_gc(gc, root, &CreateGCAux::new()).unwrap();
    // More records than the ring holds, without reading any. Only the last ones lie in the right
    // half.
    let mut random = Random::new(7);
    for i in 0..40_000u32 {
        let x = if i < 34_000 { random.within(0, 300) } else { random.within(320, 600) };
        let rect = Rectangle { x: x as i16, y: random.within(0, 440) as i16, width: 7, height: 5 };
        conn.change_gc(gc, &ChangeGCAux::new().foreground(i)).unwrap();
        conn.poly_fill_rectangle(root, gc, &[rect]).unwrap();
    }
    conn.get_input_focus().unwrap().reply().unwrap();
    assert!(reader.attachment.ring.stats().overflows > 0, "the ring overflowed");
    let records = reader.drain();
    let overflow =
        records.iter().position(|r| r.kind == RecordKind::Overflow).expect("OVERFLOW is published");
    assert!(overflow > 32_700, "records that fitted come before OVERFLOW: {overflow}");
    let mut tiles = 0;
    let mut outside = Vec::new();
    reader.attachment.ring.take_dirty_tiles(|rect| {
        tiles += 1;
        outside.push(rect);
    });
    assert!(tiles > 0 && outside.iter().any(|r| r.x2 > 384), "the dropped records are dirty tiles");
    shadow.apply(&records);
    for rect in outside {
        let rect = shadow.screen.clip(rect);
        for y in rect.y1..rect.y2 {
            let row = y as usize * shadow.screen.width;
            shadow.screen.pending[row + rect.x1 as usize..row + rect.x2 as usize].fill(true);
        }
    }
    shadow.settle(&reader.pixels()).unwrap();
    // Afterwards records are published again.
    conn.poly_fill_rectangle(root, gc, &[Rectangle { x: 1, y: 2, width: 3, height: 4 }]).unwrap();
    conn.get_input_focus().unwrap().reply().unwrap();
    let records = reader.drain();
    assert!(records.iter().any(|r| matches!(
        r.kind,
        RecordKind::Draw {
            rect: Rect { x1: 1, y1: 2, x2: 4, y2: 6 },
            hint: DrawHint::Solid(39_999),
            ..
        }
    )));
}

#[test]
fn offscreen_drawing_is_recorded_on_request() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let mut reader = Reader::new(server.attach());
    reader.drain();
    // Like a toolkit: draws into its own pixmap, scrolls in it, shows it, and frees it.
    let show = || {
        let (pixmap, gc) = (conn.generate_id().unwrap(), conn.generate_id().unwrap());
        conn.create_pixmap(24, pixmap, root, 50, 40).unwrap();
        conn.create_gc(gc, pixmap, &CreateGCAux::new().foreground(0x00_ff00).graphics_exposures(0))
            .unwrap();
        conn.poly_fill_rectangle(pixmap, gc, &[Rectangle { x: 0, y: 0, width: 50, height: 40 }])
            .unwrap();
        conn.copy_area(pixmap, pixmap, gc, 0, 10, 0, 0, 50, 30).unwrap();
        conn.copy_area(pixmap, root, gc, 5, 6, 100, 200, 20, 10).unwrap();
        conn.free_gc(gc).unwrap();
        conn.free_pixmap(pixmap).unwrap();
        conn.get_input_focus().unwrap().reply().unwrap();
    };
    let kinds = |records: Vec<DrawRecord>| -> Vec<RecordKind> {
        let marks = |kind: &RecordKind| !matches!(kind, RecordKind::Idle | RecordKind::Yield);
        records.into_iter().map(|record| record.kind).filter(marks).collect()
    };
    show();
    let shown = Rect::at(100, 200, 20, 10);
    let seen = kinds(reader.drain());
    let [RecordKind::Copy { src: first, dst: DrawableId::SCREEN, rect, dx: 95, dy: 194, .. }] =
        seen[..]
    else {
        panic!("expected one copy to the screen, got {seen:?}")
    };
    assert!(first != DrawableId::SCREEN && rect == shown);

    reader.attachment.ring.set_want_offscreen(true);
    show();
    let seen = kinds(reader.drain());
    let RecordKind::PixmapCreate { id, width: 50, height: 40, .. } = seen[0] else {
        panic!("{seen:?}")
    };
    assert!(id != first, "a serial is never reused");
    assert_eq!(
        seen[1..],
        [
            RecordKind::Draw {
                dst: id,
                rect: Rect::at(0, 0, 50, 40),
                hint: DrawHint::Solid(0x00_ff00),
                alpha: Alpha::Opaque
            },
            RecordKind::Copy {
                src: id,
                dst: id,
                rect: Rect::at(0, 0, 50, 30),
                dx: 0,
                dy: -10,
                over: false
            },
            RecordKind::Copy {
                src: id,
                dst: DrawableId::SCREEN,
                rect: shown,
                dx: 95,
                dy: 194,
                over: false
            },
            RecordKind::PixmapDestroy { id },
        ]
    );
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn sessions_attach_and_detach_in_turn() {
    let mut server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let gc = conn.generate_id().unwrap();
    conn.create_gc(gc, root, &CreateGCAux::new().foreground(0x12_3456)).unwrap();
    let draw = || {
        conn.poly_fill_rectangle(root, gc, &[Rectangle { x: 5, y: 6, width: 7, height: 8 }])
            .unwrap();
        conn.get_input_focus().unwrap().reply().unwrap();
    };
    draw();
    let mut first = Reader::new(server.attach());
    assert_eq!(first.pixels()[6 * 640 + 5], 0x12_3456, "the framebuffer holds earlier drawing");
    draw();
    assert!(!first.drain().is_empty());

    // A second session takes over; the first one's socket ends.
    let mut second = Reader::new(server.attach());
    assert!(wait_readable(first.attachment.control.fd(), TIMEOUT));
    assert!(first.attachment.control.poll_event().is_err(), "the first session's socket ends");
    draw();
    assert!(!second.drain().is_empty());
    drop(first);
    draw();
    assert!(!second.drain().is_empty(), "the first session's end does not affect the second");

    // A session that dies does not affect X, and the next one finds a complete screen.
    drop(second);
    draw();
    for _ in 0..20 {
        let mut again = Reader::new(server.attach());
        draw();
        assert!(!again.drain().is_empty());
        assert_eq!(again.pixels()[6 * 640 + 5], 0x12_3456);
    }
    assert!(server.is_running());
    assert!(server.stop(), "X exits cleanly");
}

/// Sends one message to the driver's socket, unchecked; its answer, empty if it closed the socket.
fn exchange(path: &std::path::Path, bytes: &[u8]) -> Vec<u8> {
    use rustix::net::*;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    send(&socket, bytes, SendFlags::NOSIGNAL).unwrap();
    let mut answer = vec![0; 512];
    assert!(wait_readable(std::os::fd::AsFd::as_fd(&socket), TIMEOUT));
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).unwrap();
    answer.truncate(length);
    answer
}

#[test]
fn invalid_messages_on_the_socket_are_refused_with_an_error() {
    use rustix::net::*;
    let mut server = XServer::start(Options::default());
    let exchange = |bytes: &[u8]| exchange(&server.socket(), bytes);
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    // Another version: the error names it.
    let answer = exchange(&words(&[1, 0x434e_4854, 999, 2_375_680]));
    let text = String::from_utf8_lossy(&answer[8..]).into_owned();
    assert!(text.contains("version") && text.contains("999"), "{text}");
    // No ATTACH, too short, too long.
    assert!(String::from_utf8_lossy(&exchange(&words(&[7, 7, 7, 7]))).contains("ATTACH"));
    assert!(exchange(&[1, 2, 3]).is_empty(), "closed");
    assert!(!exchange(&vec![0x55; 4000]).is_empty());
    // An attached session that sends an invalid message is detached, and X goes on.
    let mut reader = Reader::new(server.attach());
    reader.drain();
    assert!(reader.set_outputs(&[output(0, 0, 20_000, 10)]).unwrap_err().contains("16384"));
    assert!(reader.set_outputs(&[output(-1, 0, 200, 10)]).unwrap_err().contains("outside"));
    reader.drain();
    send(reader.attachment.control.fd(), &[9; 12], SendFlags::NOSIGNAL).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let ended = loop {
        assert!(
            wait_readable(reader.attachment.control.fd(), TIMEOUT) && Instant::now() < deadline
        );
        match reader.attachment.control.poll_event() {
            Ok(Some(ControlEvent::Error(words))) => assert!(words.contains("known"), "{words}"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(ended.kind(), std::io::ErrorKind::UnexpectedEof);
    assert!(server.is_running());
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn the_framebuffer_cannot_be_written_through_its_descriptor() {
    use std::os::unix::fs::FileExt as _;
    let server = XServer::start(Options::default());
    let mut reader = Reader::new(server.attach());
    reader.set_outputs(&[output(0, 0, 800, 600)]).unwrap();
    // X's own descriptor of the memory, which was sent to the session.
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let framebuffer = descriptors
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("framebuffer"))
        })
        .expect("X keeps it");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(framebuffer).unwrap();
    let written = file.write_at(&[1; 4], 0).expect_err("the framebuffer was written");
    assert_eq!(written.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn every_size_and_several_monitors_can_be_set() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let mut reader = Reader::new(server.attach());
    for (width, height) in [(801, 603), (1366, 768), (3840, 2160), (1, 1), (16384, 16), (333, 777)]
    {
        reader.set_outputs(&[output(0, 0, width, height)]).unwrap();
        reader.drain();
        let geometry = reader.attachment.ring.geometry();
        assert_eq!((geometry.width, geometry.height), (width, height));
        assert_eq!(geometry.generation, reader.attachment.framebuffer.generation());
        assert_eq!(reader.attachment.framebuffer.size(), (width, height));
        assert_eq!(geometry.outputs.len(), 1);
        assert_eq!((geometry.outputs[0].width, geometry.outputs[0].height), (width, height));
        let root_size = conn.get_geometry(root).unwrap().reply().unwrap();
        assert_eq!((u32::from(root_size.width), u32::from(root_size.height)), (width, height));
    }
    reader.set_outputs(&[output(0, 0, 1280, 1024), output(1280, 24, 1920, 1080)]).unwrap();
    reader.drain();
    let geometry = reader.attachment.ring.geometry();
    assert_eq!((geometry.width, geometry.height), (3200, 1104));
    let second = geometry.outputs[1];
    assert_eq!((second.x, second.y, second.width, second.height), (1280, 24, 1920, 1080));
    let monitors = conn.randr_get_monitors(root, true).unwrap().reply().unwrap().monitors;
    assert_eq!(monitors.len(), 2, "X clients see two monitors");
    assert!(monitors[0].primary && !monitors[1].primary, "the first is the primary one");

    // One beside and below a gap, in portrait: the screen is the box round both.
    reader.set_outputs(&[output(0, 0, 800, 600), output(1000, 700, 600, 1200)]).unwrap();
    reader.drain();
    let geometry = reader.attachment.ring.geometry();
    assert_eq!((geometry.width, geometry.height), (1600, 1900));
    let monitors = conn.randr_get_monitors(root, true).unwrap().reply().unwrap().monitors;
    let place = |at: usize| {
        let monitor = &monitors[at];
        (monitor.x, monitor.y, monitor.width, monitor.height)
    };
    assert_eq!((place(0), place(1)), ((0, 0, 800, 600), (1000, 700, 600, 1200)));

    // The screen has the monitors' dots per inch.
    let dense =
        |x| OutputRequest { x, y: 0, width: 1920, height: 1080, mm_width: 254, mm_height: 143 };
    reader.set_outputs(&[dense(0), dense(1920)]).unwrap();
    reader.drain();
    let monitors = conn.randr_get_monitors(root, true).unwrap().reply().unwrap().monitors;
    assert_eq!((monitors[1].width_in_millimeters, monitors[1].height_in_millimeters), (254, 143));
    let newcomer = server.connect().0;
    let root_now = &newcomer.setup().roots[screen];
    assert_eq!(
        (root_now.width_in_pixels, root_now.width_in_millimeters),
        (3840, 508),
        "192 dots per inch"
    );
    reader.set_outputs(&[output(0, 0, 1280, 1024), output(1280, 24, 1920, 1080)]).unwrap();

    // Pixels stay where old and new size overlap, and an output that is removed is not destroyed.
    let gc = conn.generate_id().unwrap();
    conn.create_gc(gc, root, &CreateGCAux::new().foreground(0xab_cdef)).unwrap();
    reader.set_outputs(&[output(0, 0, 1000, 900)]).unwrap();
    reader.drain();
    let resources = conn.randr_get_screen_resources_current(root).unwrap().reply().unwrap();
    assert_eq!(resources.outputs.len(), 16);

    // An X client sets a mode, and the session receives it.
    let crtc = resources.crtcs[0];
    let info = conn.randr_get_output_info(resources.outputs[0], 0).unwrap().reply().unwrap();
    let mode = *info
        .modes
        .iter()
        .find(|&&id| {
            resources.modes.iter().any(|m| m.id == id && m.width == 800 && m.height == 600)
        })
        .unwrap();
    conn.randr_set_crtc_config(
        crtc,
        0,
        resources.config_timestamp,
        0,
        0,
        mode,
        x11rb::protocol::randr::Rotation::ROTATE0,
        &[resources.outputs[0]],
    )
    .unwrap()
    .reply()
    .unwrap();
    conn.randr_set_screen_size(root, 800, 600, 211, 158).unwrap().check().unwrap();
    conn.get_input_focus().unwrap().reply().unwrap();
    reader.drain();
    let geometry = reader.attachment.ring.geometry();
    assert_eq!((geometry.width, geometry.height, geometry.outputs.len()), (800, 600, 1));
    assert_eq!((geometry.outputs[0].width, geometry.outputs[0].height), (800, 600));
    assert_eq!(reader.attachment.framebuffer.size(), (800, 600));
    assert!(server.stop(), "X exits cleanly");
}

/// The next event for which `pick` returns a value.
fn next<T>(conn: &impl Connection, mut pick: impl FnMut(&Event) -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < deadline, "the event does not arrive");
        let event = conn.wait_for_event().expect("the X server is running");
        if let Some(found) = pick(&event) {
            return found;
        }
    }
}

/// GTK and Qt request events of XInput 2 only.
#[test]
fn presses_delivered_as_xinput_2_events_are_recorded() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    conn.xinput_xi_query_version(2, 2).unwrap().reply().unwrap();
    let mut reader = Reader::new(server.attach());
    let window = conn.generate_id().unwrap();
    let aux = CreateWindowAux::new().override_redirect(1);
    let class = WindowClass::INPUT_OUTPUT;
    conn.create_window(
        24,
        window,
        root,
        100,
        100,
        200,
        200,
        0,
        class,
        x11rb::COPY_FROM_PARENT,
        &aux,
    )
    .unwrap();
    conn.map_window(window).unwrap();
    conn.set_input_focus(InputFocus::POINTER_ROOT, window, x11rb::CURRENT_TIME).unwrap();
    let mask = xinput::EventMask {
        deviceid: xinput::Device::ALL_MASTER.into(),
        mask: vec![xinput::XIEventMask::KEY_PRESS | xinput::XIEventMask::BUTTON_PRESS],
    };
    conn.xinput_xi_select_events(window, &[mask]).unwrap().check().unwrap();

    let send = |message| reader.attachment.input.send(message).unwrap();
    send(InputMessage::PointerMove { seq: 1, x: 150, y: 160 });
    send(InputMessage::Key { seq: 2, keycode: 38, down: true });
    send(InputMessage::Key { seq: 3, keycode: 38, down: false });
    send(InputMessage::Button { seq: 4, button: 1, down: true });
    send(InputMessage::Button { seq: 5, button: 1, down: false });
    let key = next(&conn, |e| if let Event::XinputKeyPress(e) = e { Some(e.detail) } else { None });
    let button =
        next(&conn, |e| if let Event::XinputButtonPress(e) = e { Some(e.detail) } else { None });
    assert_eq!((key, button), (38, 1));
    let named: Vec<(u32, u32)> = reader
        .drain()
        .iter()
        .filter_map(|r| {
            if let RecordKind::InputDelivered { seq, window } = r.kind {
                Some((seq, window))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(named, [(2, window), (4, window)]);
}

#[test]
fn input_is_delivered_in_order_and_presses_are_recorded() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    conn.xinput_xi_query_version(2, 2).unwrap().reply().unwrap();
    let mut reader = Reader::new(server.attach());
    let window = conn.generate_id().unwrap();
    let mask = EventMask::KEY_PRESS
        | EventMask::KEY_RELEASE
        | EventMask::BUTTON_PRESS
        | EventMask::BUTTON_RELEASE
        | EventMask::POINTER_MOTION;
    let aux = CreateWindowAux::new().override_redirect(1).event_mask(mask);
    conn.create_window(
        24,
        window,
        root,
        100,
        100,
        200,
        200,
        0,
        WindowClass::INPUT_OUTPUT,
        x11rb::COPY_FROM_PARENT,
        &aux,
    )
    .unwrap();
    conn.map_window(window).unwrap();
    conn.set_input_focus(InputFocus::POINTER_ROOT, window, x11rb::CURRENT_TIME).unwrap();
    conn.get_input_focus().unwrap().reply().unwrap();

    let send = |message| reader.attachment.input.send(message).unwrap();
    send(InputMessage::PointerMove { seq: 1, x: 150, y: 160 });
    let at =
        next(
            &conn,
            |e| if let Event::MotionNotify(m) = e { Some((m.root_x, m.root_y)) } else { None },
        );
    assert_eq!(at, (150, 160), "the position is absolute, in pixels");
    // A key, a click and a key, in this order, through two devices and one socket. 38 is the A of a
    // US keyboard.
    for (seq, down) in [(2, true), (3, false)] {
        send(InputMessage::Key { seq, keycode: 38, down });
    }
    send(InputMessage::Button { seq: 4, button: 1, down: true });
    send(InputMessage::Button { seq: 5, button: 1, down: false });
    send(InputMessage::Key { seq: 6, keycode: 39, down: true });
    send(InputMessage::Key { seq: 7, keycode: 39, down: false });
    let mut seen = Vec::new();
    while seen.len() < 6 {
        seen.push(next(&conn, |event| match event {
            Event::KeyPress(e) => Some(('k', e.detail, true)),
            Event::KeyRelease(e) => Some(('k', e.detail, false)),
            Event::ButtonPress(e) => Some(('b', e.detail, true)),
            Event::ButtonRelease(e) => Some(('b', e.detail, false)),
            _ => None,
        }));
    }
    assert_eq!(
        seen,
        [
            ('k', 38, true),
            ('k', 38, false),
            ('b', 1, true),
            ('b', 1, false),
            ('k', 39, true),
            ('k', 39, false)
        ]
    );
    // Records name the presses and the window that received them.
    let records = reader.drain();
    let named: Vec<(u32, u32)> = records
        .iter()
        .filter_map(|r| {
            if let RecordKind::InputDelivered { seq, window } = r.kind {
                Some((seq, window))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(named, [(2, window), (4, window), (6, window)]);

    // The keymap is evdev's: keycode 38 is `a`.
    let keys = conn.get_keyboard_mapping(38, 1).unwrap().reply().unwrap();
    assert_eq!(keys.keysyms[0], 0x61);

    // A held key repeats while the session says that it is held, whenever X asks; the first repeat
    // is due after 660 ms. It stops when the session detaches.
    let send = |message| reader.attachment.input.send(message).unwrap();
    send(InputMessage::Key { seq: 8, keycode: 40, down: true });
    let presses = |until: &mut dyn FnMut(usize) -> bool| {
        let mut count = 0;
        while !until(count) {
            match conn.poll_for_event().unwrap() {
                Some(Event::KeyPress(key)) if key.detail == 40 => count += 1,
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        count
    };
    let end = Instant::now() + Duration::from_millis(1500);
    assert_eq!(presses(&mut |_| Instant::now() >= end), 1, "nobody says that it is held");
    presses(&mut |count| {
        send(InputMessage::StillHeld { keycode: 40 });
        assert!(Instant::now() < end + TIMEOUT, "it does not repeat");
        count >= 3
    });
    // A key that is up stays up.
    send(InputMessage::StillHeld { keycode: 41 });

    // Smooth scrolling and touch, as received by XInput 2 clients.
    let xi_mask = xinput::EventMask {
        deviceid: xinput::Device::ALL_MASTER.into(),
        mask: vec![
            xinput::XIEventMask::MOTION
                | xinput::XIEventMask::TOUCH_BEGIN
                | xinput::XIEventMask::TOUCH_UPDATE
                | xinput::XIEventMask::TOUCH_END,
        ],
    };
    conn.xinput_xi_select_events(window, &[xi_mask]).unwrap().check().unwrap();
    let scroll = |conn: &x11rb::rust_connection::RustConnection| {
        next(conn, |e| {
            if let Event::XinputMotion(m) = e {
                // The mask has a bit for each valuator present; then come their values in order.
                let vertical = (m.valuator_mask[0] & 4 != 0).then(|| {
                    let before = (m.valuator_mask[0] & 3).count_ones() as usize;
                    m.axisvalues[before].integral
                })?;
                return Some(vertical);
            }
            None
        })
    };
    // The first event only sets the base value of the axis.
    reader.attachment.input.send(InputMessage::Scroll { seq: 9, dx: 0, dy: 60 }).unwrap();
    let first = scroll(&conn);
    reader.attachment.input.send(InputMessage::Scroll { seq: 10, dx: 0, dy: 30 }).unwrap();
    assert_eq!(scroll(&conn) - first, 30, "a quarter of a notch");
    for (phase, x) in [(TouchPhase::Begin, 120), (TouchPhase::Update, 130), (TouchPhase::End, 130)]
    {
        reader
            .attachment
            .input
            .send(InputMessage::Touch { seq: 11, id: 5, phase, x, y: 140 })
            .unwrap();
        let at = next(&conn, |event| match (event, phase) {
            (Event::XinputTouchBegin(t), TouchPhase::Begin)
            | (Event::XinputTouchUpdate(t), TouchPhase::Update)
            | (Event::XinputTouchEnd(t), TouchPhase::End) => Some((t.root_x >> 16, t.root_y >> 16)),
            _ => None,
        });
        assert_eq!(at, (x, 140));
    }
    reader.attachment.input.send(InputMessage::Button { seq: 12, button: 3, down: true }).unwrap();
    next(
        &conn,
        |e| if let Event::ButtonPress(b) = e { (b.detail == 3).then_some(()) } else { None },
    );
    drop(reader);
    let mut released = [false; 2];
    while released != [true; 2] {
        next(&conn, |event| match event {
            Event::KeyRelease(e) if e.detail == 40 => {
                released[0] = true;
                Some(())
            }
            Event::ButtonRelease(e) if e.detail == 3 => {
                released[1] = true;
                Some(())
            }
            _ => None,
        });
    }
    assert!(server.stop(), "X exits cleanly");
}

// ---- environments

#[test]
fn the_driver_survives_a_regeneration_of_the_server() {
    let mut server = XServer::start(Options { reset: true, ..Options::default() });
    let mut reader = Reader::new(server.attach());
    for _ in 0..3 {
        let generation = reader.attachment.framebuffer.generation();
        let (conn, screen) = server.connect();
        let root = conn.setup().roots[screen].root;
        let gc = conn.generate_id().unwrap();
        conn.create_gc(gc, root, &CreateGCAux::new().foreground(0x77_8899)).unwrap();
        conn.poly_fill_rectangle(root, gc, &[Rectangle { x: 0, y: 0, width: 9, height: 9 }])
            .unwrap();
        conn.get_input_focus().unwrap().reply().unwrap();
        reader.drain();
        assert_eq!(reader.pixels()[0], 0x77_8899);
        // The last X client disconnects: the server starts its next generation, in the same process
        // and with the same session.
        drop(conn);
        reader.read_until(
            |r| matches!(r.kind, RecordKind::Geometry { generation: new } if new != generation),
        );
        reader.control_events();
        reader.attachment.framebuffer =
            reader.announced.pop().expect("a new framebuffer was announced");
        assert!(reader.attachment.framebuffer.generation() > generation);
        // Input works in the new generation too.
        let (conn, screen) = server.connect();
        let root = conn.setup().roots[screen].root;
        conn.change_window_attributes(
            root,
            &ChangeWindowAttributesAux::new().event_mask(EventMask::POINTER_MOTION),
        )
        .unwrap();
        conn.get_input_focus().unwrap().reply().unwrap();
        reader.attachment.input.send(InputMessage::PointerMove { seq: 1, x: 31, y: 41 }).unwrap();
        let at = next(&conn, |e| {
            if let Event::MotionNotify(m) = e { Some((m.root_x, m.root_y)) } else { None }
        });
        assert_eq!(at, (31, 41));
        reader.drain();
        let generation = reader.attachment.framebuffer.generation();
        drop(conn);
        reader.read_until(
            |r| matches!(r.kind, RecordKind::Geometry { generation: new } if new != generation),
        );
        reader.control_events();
        reader.attachment.framebuffer =
            reader.announced.pop().expect("a new framebuffer was announced");
    }
    assert!(server.is_running());
    // SIGHUP neither terminates nor regenerates the server.
    let generation = reader.attachment.framebuffer.generation();
    let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    reader.drain();
    assert!(server.is_running());
    assert_eq!(reader.attachment.ring.geometry().generation, generation);
    // No clean exit is required here: after a regeneration Xorg 21.1 has a double free at exit,
    // with any driver.
}

#[test]
fn all_tests_pass_with_sanitizers() {
    xserver::rerun_with_sanitizers();
}

/// Run as another user by the test below; otherwise it does nothing.
#[test]
fn attach_helper() {
    let Some(socket) = std::env::var_os("THINC_TEST_ATTACH") else { return };
    let mut reader = Reader::new(attach(socket.as_ref()).expect("the same user may attach"));
    reader.drain();
    reader.set_outputs(&[output(0, 0, 801, 603)]).unwrap();
    println!("attached");
}

#[test]
fn x_runs_as_an_ordinary_user_and_only_that_user_may_attach() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        // All other tests of this file have shown it already.
        return;
    }
    let server = XServer::start(Options { ordinary_user: true, ..Options::default() });
    let refused = attach(&server.socket()).expect_err("it is another user's X server");
    assert!(refused.to_string().contains("another user (ID 65534)"), "{refused}");
    // Who tries all the same is refused by the driver.
    let answer = exchange(&server.socket(), &[7; 16]);
    assert!(String::from_utf8_lossy(&answer).contains("only the user"), "{answer:?}");
    // A copy, because other users may not be able to read the build folder.
    let copy = server.socket().with_file_name("helper");
    // By a process of its own: a descriptor that writes the file here could be in a child of
    // another test when the file is to be run (ETXTBSY).
    let own = std::env::current_exe().unwrap();
    assert!(std::process::Command::new("cp").args([&own, &copy]).status().unwrap().success());
    let helper = std::process::Command::new(&copy)
        .args(["--exact", "attach_helper", "--nocapture"])
        .env("THINC_TEST_ATTACH", server.socket())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&helper.stdout);
    assert!(
        helper.status.success() && output.contains("attached"),
        "{output}{}",
        String::from_utf8_lossy(&helper.stderr)
    );
    assert!(server.stop(), "X exits cleanly");
}
