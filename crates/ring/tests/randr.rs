//! What X clients do to the monitors with RandR, in a real Xorg with the driver: a change is made
//! whole or not at all. xrandr runs as it does for a user; other clients stop in the middle of a
//! change.

mod coverage;
mod xserver;

use std::process::Command;
use std::time::Instant;

use thinc_ring::{OutputRequest, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::randr::{ConnectionExt as _, NotifyMask, Rotation};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, TIMEOUT};
use xserver::{Options, XServer};

fn output(x: i32, y: i32, width: u32, height: u32) -> OutputRequest {
    OutputRequest { x, y, width, height, mm_width: 0, mm_height: 0 }
}

/// Size of the screen, and place and size of each monitor.
type Layout = ((u32, u32), Vec<(i32, i32, u32, u32)>);

/// What X says, once the driver tells the session the same: X may be undoing a change meanwhile.
fn layout(conn: &RustConnection, reader: &mut Reader) -> Layout {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let (told, published) = layouts(conn, reader);
        if told == published {
            return told;
        }
        assert!(Instant::now() < deadline, "X says {told:?}, the driver {published:?}");
    }
}

/// What X says, and what the driver says.
fn layouts(conn: &RustConnection, reader: &mut Reader) -> (Layout, Layout) {
    let root = conn.setup().roots[0].root;
    let size = conn.get_geometry(root).unwrap().reply().unwrap();
    let resources = conn.randr_get_screen_resources_current(root).unwrap().reply().unwrap();
    let crtcs = resources.crtcs.iter().map(|&crtc| {
        conn.randr_get_crtc_info(crtc, resources.config_timestamp).unwrap().reply().unwrap()
    });
    let monitors = crtcs
        .filter(|crtc| crtc.mode != 0)
        .map(|crtc| (crtc.x.into(), crtc.y.into(), crtc.width.into(), crtc.height.into()))
        .collect();
    let told = ((u32::from(size.width), u32::from(size.height)), monitors);
    reader.drain();
    let geometry = reader.attachment.ring.geometry();
    let outputs = geometry.outputs.iter().map(|o| (o.x, o.y, o.width, o.height)).collect();
    let published = ((geometry.width, geometry.height), outputs);
    (told, published)
}

/// X notices the end of a client by itself.
fn await_layout(conn: &RustConnection, reader: &mut Reader, wanted: &Layout, after: &str) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let found = layout(conn, reader);
        if found == *wanted {
            return;
        }
        assert!(Instant::now() < deadline, "after {after}: {found:?} instead of {wanted:?}");
    }
}

fn xrandr(server: &XServer, arguments: &str) -> bool {
    let mut command = Command::new("xrandr");
    command.args(["--display", &format!(":{}", server.display)]);
    let done = command.args(arguments.split_whitespace()).output().expect("xrandr is installed");
    done.status.success()
}

#[test]
fn what_xrandr_cannot_do_leaves_the_screen_as_it_was() {
    let server = XServer::start(Options::default());
    let (conn, _) = server.connect();
    let mut reader = Reader::new(server.attach());
    let two = [output(0, 0, 800, 600), output(800, 0, 1024, 768)];
    for monitors in [&two[..1], &two[..]] {
        reader.set_outputs(monitors).unwrap();
        let before = layout(&conn, &mut reader);
        assert_eq!(before.1.len(), monitors.len());
        let off = "--output THINC-0 --off --output THINC-1 --off";
        // The first of two is switched off before X refuses the size.
        let far = "--output THINC-0 --mode 1x1 --output THINC-1 --mode 640x480 --pos 12000x12000";
        for arguments in [
            "--output THINC-0 --scale 2x2",
            "--output THINC-0 --scale 0.5x0.5",
            "--output THINC-0 --transform 1,0.2,0,0,1,0,0,0,1",
            "--output THINC-0 --rotate left",
            "--output THINC-0 --reflect x",
            "--output THINC-0 --mode 1x1",
            "--fb 10x10",
            "--fb 799x599",
            "--fb 16384x16384",
            far,
            off,
        ] {
            assert!(!xrandr(&server, arguments), "xrandr {arguments} is refused");
            await_layout(&conn, &mut reader, &before, arguments);
        }
        // These report no error, and would leave no monitor.
        for options in ["--fb 700x500", "--nograb --fb 700x500"] {
            let arguments = format!("{options} {off}");
            assert!(xrandr(&server, &arguments), "xrandr {arguments}");
            await_layout(&conn, &mut reader, &before, &arguments);
        }
    }
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn what_xrandr_can_do_stays() {
    let server = XServer::start(Options::default());
    let (conn, _) = server.connect();
    let mut reader = Reader::new(server.attach());
    reader.set_outputs(&[output(0, 0, 1280, 800), output(1280, 0, 1280, 800)]).unwrap();
    let left = (0, 0, 640, 480);
    for (arguments, wanted) in [
        // The monitor is switched off meanwhile: it does not fit the new screen.
        ("--output THINC-0 --mode 640x480", ((2560, 800), vec![left, (1280, 0, 1280, 800)])),
        ("--output THINC-1 --off", ((640, 480), vec![left])),
        ("--nograb --output THINC-0 --mode 800x600", ((800, 600), vec![(0, 0, 800, 600)])),
        ("--newmode odd 40.0 1001 1009 1017 1025 701 703 705 709", ((800, 600), vec![])),
        ("--addmode THINC-0 odd", ((800, 600), vec![])),
        ("--output THINC-0 --mode odd", ((1001, 701), vec![(0, 0, 1001, 701)])),
        ("--fb 1300x900", ((1300, 900), vec![(0, 0, 1001, 701)])),
        (
            "--output THINC-1 --auto --below THINC-0",
            ((1280, 1501), vec![(0, 0, 1001, 701), (0, 701, 1280, 800)]),
        ),
        ("--output THINC-1 --off --output THINC-0 --panning 2000x1500", ((2000, 1500), vec![])),
    ] {
        assert!(xrandr(&server, arguments), "xrandr {arguments}");
        // A change that would be undone is undone once X has noticed that its client has ended.
        drop(server.connect());
        let found = layout(&conn, &mut reader);
        assert_eq!(found.0, wanted.0, "after {arguments}");
        assert!(wanted.1.is_empty() || found.1 == wanted.1, "after {arguments}: {found:?}");
    }
    // What the session asks for replaces all of it.
    reader.set_outputs(&[output(0, 0, 900, 700)]).unwrap();
    assert_eq!(layout(&conn, &mut reader), ((900, 700), vec![(0, 0, 900, 700)]));
    assert!(server.stop(), "X exits cleanly");
}

/// Grabs the server and switches the first monitor off, on the way to a smaller one.
fn begin_a_change(server: &XServer) -> RustConnection {
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    conn.grab_server().unwrap();
    let resources = conn.randr_get_screen_resources_current(root).unwrap().reply().unwrap();
    let time = resources.config_timestamp;
    conn.randr_set_crtc_config(resources.crtcs[0], 0, time, 0, 0, 0, Rotation::ROTATE0, &[])
        .unwrap()
        .reply()
        .unwrap();
    conn.randr_set_screen_size(root, 300, 200, 80, 53).unwrap().check().unwrap();
    conn
}

#[test]
fn a_change_whose_client_ends_is_undone_unless_the_session_has_replaced_it() {
    let server = XServer::start(Options::default());
    let (conn, _) = server.connect();
    let mut reader = Reader::new(server.attach());
    let before = layout(&conn, &mut reader);
    assert_eq!(before, ((640, 480), vec![(0, 0, 640, 480)]));
    drop(begin_a_change(&server));
    await_layout(&conn, &mut reader, &before, "the end of the client");

    let client = begin_a_change(&server);
    reader.set_outputs(&[output(0, 0, 1111, 777)]).unwrap();
    drop(client);
    let asked = ((1111, 777), vec![(0, 0, 1111, 777)]);
    drop(server.connect());
    assert_eq!(layout(&conn, &mut reader), asked);

    // A client that only grabbed changes nothing.
    let (idle, _) = server.connect();
    idle.grab_server().unwrap().check().unwrap();
    drop(idle);
    drop(server.connect());
    assert_eq!(layout(&conn, &mut reader), asked);
    assert!(server.stop(), "X exits cleanly");
}

/// Properties of an output that GNOME's window manager reads: whether its preferred mode is the
/// wanted one, where it belongs; and its preferred size.
fn suggestion(conn: &RustConnection, output: u32) -> (i32, (i32, i32), (u32, u32)) {
    let property = |name: &str| {
        let atom = conn.intern_atom(false, name.as_bytes()).unwrap().reply().unwrap().atom;
        let reply = conn.randr_get_output_property(output, atom, AtomEnum::ANY, 0, 2, false, false);
        let reply = reply.unwrap().reply().unwrap();
        assert_eq!((reply.type_, reply.format), (AtomEnum::INTEGER.into(), 32), "{name}");
        i32::from_ne_bytes(reply.data.try_into().expect("one value of four bytes"))
    };
    let root = conn.setup().roots[0].root;
    let resources = conn.randr_get_screen_resources_current(root).unwrap().reply().unwrap();
    let info = conn.randr_get_output_info(output, 0).unwrap().reply().unwrap();
    assert!(info.num_preferred == 1, "the first mode is preferred");
    let mode = resources.modes.iter().find(|mode| mode.id == info.modes[0]).unwrap();
    (
        property("hotplug_mode_update"),
        (property("suggested X"), property("suggested Y")),
        (mode.width.into(), mode.height.into()),
    )
}

/// mutter takes another size for another monitor, and would apply an old configuration again.
#[test]
fn outputs_say_where_and_how_large_the_session_wants_them() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let outputs = conn.randr_get_screen_resources_current(root).unwrap().reply().unwrap().outputs;
    // Before any session has attached: mutter looks when it starts.
    assert_eq!(suggestion(&conn, outputs[0]), (1, (0, 0), (640, 480)));
    let mut reader = Reader::new(server.attach());
    conn.randr_select_input(root, NotifyMask::OUTPUT_PROPERTY).unwrap().check().unwrap();
    for monitors in [
        &[output(0, 0, 801, 603)][..],
        &[output(0, 0, 801, 603), output(801, 57, 1024, 768), output(100, 825, 900, 700)][..],
        &[output(1024, 0, 801, 603), output(0, 0, 1024, 768)][..],
        &[output(0, 0, 333, 777)][..],
    ] {
        reader.set_outputs(monitors).unwrap();
        for (&id, wanted) in outputs.iter().zip(monitors) {
            let expected = (1, (wanted.x, wanted.y), (wanted.width, wanted.height));
            assert_eq!(suggestion(&conn, id), expected, "{monitors:?}");
        }
    }
    let mut events = std::iter::from_fn(|| conn.poll_for_event().unwrap());
    let told = events.any(
        |event| matches!(event, Event::RandrNotify(event) if event.u.as_op().output == outputs[1]),
    );
    assert!(told, "X clients are told of a new place");
    assert!(server.stop(), "X exits cleanly");
}

/// X forgets callbacks when it regenerates.
#[test]
fn a_change_is_undone_after_a_regeneration_too() {
    let server = XServer::start(Options { reset: true, ..Options::default() });
    let mut reader = Reader::new(server.attach());
    let first = reader.attachment.framebuffer.generation();
    drop(server.connect());
    reader.read_until(
        |record| matches!(record.kind, RecordKind::Geometry { generation } if generation != first),
    );
    reader.control_events();
    reader.attachment.framebuffer = reader.announced.pop().expect("a new framebuffer");
    let (conn, _) = server.connect();
    let before = layout(&conn, &mut reader);
    drop(begin_a_change(&server));
    // No clean exit is required here: after a regeneration Xorg 21.1 has a double free at exit,
    // with any driver.
    await_layout(&conn, &mut reader, &before, "the end of the client");
}

#[test]
fn all_tests_pass_with_sanitizers() {
    xserver::rerun_with_sanitizers();
}
