//! The pen in a real Xorg: what X clients get that read XInput 2 events (GTK 3 and 4, Qt, SDL), and
//! what they see of its devices. Knows X's requests and the input socket; never viewers.

mod coverage;
mod xserver;

use std::io::ErrorKind;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use thinc_ring::{InputMessage, PEN_FRACTION, PenSample, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xinput::{
    self, ButtonPressEvent, ConnectionExt as _, DeviceClassData, DeviceType, Fp3232,
    RawMotionEvent, ValuatorMode, XIDeviceInfo, XIEventMask,
};
use x11rb::protocol::xproto::*;
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, TIMEOUT};
use xserver::{Build, Options, XServer};

/// XIAllDevices and XIAllMasterDevices.
const ALL_DEVICES: u16 = 0;
const ALL_MASTERS: u16 = 1;
const SCREEN: (u32, u32) = (640, 480);
/// Where the window is.
const WINDOW: (i16, i16) = (100, 100);

struct Drawing {
    reader: Reader,
    conn: RustConnection,
    root: Window,
    pen: u16,
    eraser: u16,
    serial_ids: Atom,
    server: XServer,
}

/// An event of a pen as a toolkit reads it.
#[derive(Debug, PartialEq)]
struct Seen {
    kind: u16,
    device: u16,
    button: u32,
    /// In the window.
    at: (f64, f64),
    pressure: f64,
    tilt: (f64, f64),
}

fn real(value: &Fp3232) -> f64 {
    f64::from(value.integral) + f64::from(value.frac) / 4_294_967_296.0
}

impl Drawing {
    /// A window of 400 x 300, whose client reads all of the pen's events through the master
    /// pointer, as toolkits do.
    fn new(build: Build) -> Drawing {
        let server = XServer::start(Options { build, ..Options::default() });
        let (conn, screen) = server.connect();
        let root = conn.setup().roots[screen].root;
        conn.xinput_xi_query_version(2, 2).unwrap().reply().unwrap();
        let window = conn.generate_id().unwrap();
        let aux = CreateWindowAux::new().override_redirect(1).event_mask(EventMask::EXPOSURE);
        let (copy, class) = (x11rb::COPY_FROM_PARENT, WindowClass::INPUT_OUTPUT);
        let (x, y) = WINDOW;
        conn.create_window(0, window, root, x, y, 400, 300, 0, class, copy, &aux).unwrap();
        let events = XIEventMask::MOTION
            | XIEventMask::BUTTON_PRESS
            | XIEventMask::BUTTON_RELEASE
            | XIEventMask::PROPERTY;
        let select = |deviceid, mask| xinput::EventMask { deviceid, mask: vec![mask] };
        let masks = [select(ALL_MASTERS, events), select(ALL_DEVICES, XIEventMask::PROPERTY)];
        conn.xinput_xi_select_events(window, &masks).unwrap().check().unwrap();
        conn.map_window(window).unwrap();
        let reader = Reader::new(server.attach());
        let serial_ids = conn.intern_atom(false, b"Wacom Serial IDs").unwrap().reply().unwrap();
        let [pen, eraser] = ["thinc pen", "thinc eraser"].map(|name| {
            let deadline = Instant::now() + TIMEOUT;
            loop {
                if let Some(info) = device(&conn, name) {
                    return info.deviceid;
                }
                assert!(Instant::now() < deadline, "there is no {name}");
            }
        });
        let serial_ids = serial_ids.atom;
        let mut drawing = Drawing { reader, conn, root, pen, eraser, serial_ids, server };
        drawing.wait(|event| matches!(event, Event::Expose(_)).then_some(()));
        drawing
    }

    fn wait<T>(&mut self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            while let Some(event) = self.conn.poll_for_event().unwrap() {
                if let Some(found) = wanted(&event) {
                    return found;
                }
            }
            assert!(Instant::now() < deadline, "the event does not arrive");
            self.sync();
        }
    }

    fn sync(&self) {
        self.conn.get_input_focus().unwrap().reply().unwrap();
    }

    fn send(&self, seq: u32, sample: PenSample) {
        // X's input thread reads at its own pace.
        let input = &self.reader.attachment.input;
        while let Err(error) = input.send(InputMessage::Pen { seq, sample }) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            let mut fds = [PollFd::from_borrowed_fd(input.fd(), PollFlags::OUT)];
            poll(&mut fds, None).unwrap();
        }
    }

    /// The next motion or button of a pen; other devices have none.
    fn seen(&mut self) -> Seen {
        self.wait(|event| match event {
            Event::XinputMotion(event)
            | Event::XinputButtonPress(event)
            | Event::XinputButtonRelease(event) => Some(seen(event)),
            _ => None,
        })
    }

    /// The tool that X clients are told is near: serial number and ID.
    fn near(&self, device: u16) -> [u32; 2] {
        let ids = self
            .conn
            .xinput_xi_get_property(device, false, self.serial_ids, 0, 0, 5)
            .unwrap()
            .reply()
            .unwrap();
        let ids = ids.items.as_data32().expect("integers").clone();
        assert_eq!(ids.len(), 5, "as wacom's");
        [ids[3], ids[4]]
    }

    fn wait_near(&self, device: u16, near: [u32; 2]) {
        let deadline = Instant::now() + TIMEOUT;
        while self.near(device) != near {
            assert!(Instant::now() < deadline, "{:?} is near", self.near(device));
        }
    }
}

fn device(conn: &RustConnection, name: &str) -> Option<XIDeviceInfo> {
    let infos = conn.xinput_xi_query_device(ALL_DEVICES).unwrap().reply().unwrap().infos;
    infos.into_iter().find(|info| info.name == name.as_bytes())
}

fn seen(event: &ButtonPressEvent) -> Seen {
    // All axes, in every event: SDL takes one that is missing for 0.
    assert_eq!(event.valuator_mask[0], 31);
    let axes: Vec<f64> = event.axisvalues.iter().map(real).collect();
    let pixel = |value: i32| f64::from(value) / 65536.0;
    Seen {
        kind: event.event_type,
        device: event.sourceid,
        button: event.detail,
        at: (pixel(event.event_x), pixel(event.event_y)),
        pressure: axes[2],
        tilt: (axes[3], axes[4]),
    }
}

/// Half of a pixel of the window.
fn at(x: u32, y: u32) -> PenSample {
    let place = |at: u32, window: i16| (at + window as u32) * PEN_FRACTION + PEN_FRACTION / 2;
    PenSample { x: place(x, WINDOW.0), y: place(y, WINDOW.1), near: true, ..PenSample::default() }
}

fn expected(kind: u16, device: u16, button: u32, sample: PenSample) -> Seen {
    let place = |at: u32, window: i16| f64::from(at) / f64::from(PEN_FRACTION) - f64::from(window);
    Seen {
        kind,
        device,
        button,
        at: (place(sample.x, WINDOW.0), place(sample.y, WINDOW.1)),
        pressure: sample.pressure.into(),
        tilt: (sample.tilt_x.into(), sample.tilt_y.into()),
    }
}

#[test]
fn the_devices_are_what_toolkits_take_for_a_pen_and_its_eraser() {
    let drawing = Drawing::new(Build::Plain);
    let atom_name = |atom| {
        let reply = drawing.conn.get_atom_name(atom).unwrap().reply().unwrap();
        String::from_utf8(reply.name).unwrap()
    };
    for (name, tool) in [("thinc pen", "STYLUS"), ("thinc eraser", "ERASER")] {
        let info = device(&drawing.conn, name).unwrap();
        assert_eq!(info.type_, DeviceType::SLAVE_POINTER);
        let mut axes = Vec::new();
        for class in &info.classes {
            match &class.data {
                DeviceClassData::Valuator(axis) => {
                    assert_eq!(axis.mode, ValuatorMode::ABSOLUTE);
                    axes.push((atom_name(axis.label), axis.min.integral, axis.max.integral));
                }
                DeviceClassData::Button(buttons) => assert_eq!(buttons.labels.len(), 3),
                other => panic!("{other:?}"),
            }
        }
        let axis = |name: &str, min, max| (name.to_owned(), min, max);
        assert_eq!(
            axes,
            [
                axis("Abs X", 0, (16384 * PEN_FRACTION - 1) as i32),
                axis("Abs Y", 0, (16384 * PEN_FRACTION - 1) as i32),
                axis("Abs Pressure", 0, 65535),
                axis("Abs Tilt X", -64, 63),
                axis("Abs Tilt Y", -64, 63),
            ]
        );
        let conn = &drawing.conn;
        let property = conn.intern_atom(false, b"Wacom Tool Type").unwrap().reply().unwrap().atom;
        let kind = conn.xinput_xi_get_property(info.deviceid, false, property, 0, 0, 1).unwrap();
        let kind = kind.reply().unwrap();
        assert_eq!(atom_name(kind.items.as_data32().unwrap()[0]), tool);
        assert_eq!(drawing.near(info.deviceid), [0, 0]);
    }
}

/// Also under sanitizers: the samples pass through all of the driver.
#[test]
fn an_x_client_gets_every_sample_of_a_stroke_in_order() {
    let mut drawing = Drawing::new(Build::Sanitized);
    let pen = drawing.pen;
    drawing.send(1, PenSample { tilt_x: -64, tilt_y: 63, ..at(10, 20) });
    assert_eq!(
        drawing.seen(),
        expected(xinput::MOTION_EVENT, pen, 0, PenSample { tilt_x: -64, tilt_y: 63, ..at(10, 20) }),
        "it hovers"
    );
    assert_ne!(drawing.near(pen), [0, 0]);
    assert_eq!(drawing.near(drawing.eraser), [0, 0]);
    // 300 samples at once: more than X's input thread reads in a call.
    let samples: Vec<PenSample> = (0..300)
        .map(|step| PenSample {
            pressure: (step * 200 + 1) as u16,
            tilt_x: (step % 60) as i8 - 30,
            tilt_y: -((step % 50) as i8),
            buttons: 1,
            ..at(20 + step, 30 + step / 2)
        })
        .collect();
    for (seq, sample) in samples.iter().enumerate() {
        drawing.send(2 + seq as u32, *sample);
    }
    for (number, sample) in samples.iter().enumerate() {
        assert_eq!(drawing.seen(), expected(xinput::MOTION_EVENT, pen, 0, *sample), "{number}");
        if number == 0 {
            let press = expected(xinput::BUTTON_PRESS_EVENT, pen, 1, *sample);
            assert_eq!(drawing.seen(), press);
        }
    }
    let records = drawing.reader.drain();
    let delivered = records.iter().find_map(|record| match record.kind {
        RecordKind::InputDelivered { seq, .. } => Some(seq),
        _ => None,
    });
    assert_eq!(delivered, Some(2), "the press of the tip has an echo");
    // The pointer follows.
    let pointer = drawing.conn.query_pointer(drawing.root).unwrap().reply().unwrap();
    assert_eq!((pointer.root_x, pointer.root_y), (100 + 319, 100 + 179));

    let last = samples[299];
    let lifted = PenSample { buttons: 0, pressure: 0, ..last };
    drawing.send(400, lifted);
    assert_eq!(drawing.seen(), expected(xinput::MOTION_EVENT, pen, 0, lifted));
    assert_eq!(drawing.seen(), expected(xinput::BUTTON_RELEASE_EVENT, pen, 1, lifted));
    // The buttons of the barrel, while it hovers.
    let barrel = PenSample { buttons: 6, ..lifted };
    drawing.send(401, barrel);
    assert_eq!(drawing.seen().kind, xinput::MOTION_EVENT);
    for button in [2, 3] {
        let press = expected(xinput::BUTTON_PRESS_EVENT, pen, button, barrel);
        assert_eq!(drawing.seen(), press);
    }
    drawing.send(402, PenSample::default());
    assert_eq!(drawing.seen().kind, xinput::MOTION_EVENT);
    for button in [2, 3] {
        let release = expected(xinput::BUTTON_RELEASE_EVENT, pen, button, lifted);
        assert_eq!(drawing.seen(), release);
    }
    drawing.wait_near(pen, [0, 0]);
}

#[test]
fn the_eraser_takes_the_place_of_the_pen_and_is_near_before_it_touches() {
    let mut drawing = Drawing::new(Build::Plain);
    let (pen, eraser) = (drawing.pen, drawing.eraser);
    let touch = PenSample { buttons: 1, pressure: 500, ..at(50, 50) };
    drawing.send(1, touch);
    // Which tool is near is said before its first event.
    let mut order = Vec::new();
    for _ in 0..2 {
        order.push(drawing.wait(|event| match event {
            Event::XinputProperty(property) => Some((property.event_type, property.deviceid)),
            Event::XinputMotion(motion) => Some((motion.event_type, motion.sourceid)),
            _ => None,
        }));
    }
    assert_eq!(order, [(xinput::PROPERTY_EVENT, pen), (xinput::MOTION_EVENT, pen)]);
    assert_eq!(drawing.seen().kind, xinput::BUTTON_PRESS_EVENT);
    let [serial, pen_id] = drawing.near(pen);
    // A browser says that it is the eraser when it touches.
    let erases = PenSample { eraser: true, pressure: 900, ..touch };
    drawing.send(2, erases);
    let left = PenSample { pressure: 0, ..touch };
    assert_eq!(drawing.seen(), expected(xinput::MOTION_EVENT, pen, 0, left));
    assert_eq!(drawing.seen(), expected(xinput::BUTTON_RELEASE_EVENT, pen, 1, left));
    assert_eq!(drawing.seen(), expected(xinput::MOTION_EVENT, eraser, 0, erases));
    assert_eq!(drawing.seen(), expected(xinput::BUTTON_PRESS_EVENT, eraser, 1, erases));
    assert_eq!(drawing.near(pen), [0, 0]);
    let [same_serial, eraser_id] = drawing.near(eraser);
    assert_eq!(serial, same_serial, "two ends of one pen");
    assert_ne!(pen_id, eraser_id);
    // The session ends: the tip is lifted, and the pen leaves.
    drawing.reader = Reader::new(drawing.server.attach());
    assert_eq!(drawing.seen().kind, xinput::MOTION_EVENT);
    let released = drawing.seen();
    assert_eq!((released.kind, released.button), (xinput::BUTTON_RELEASE_EVENT, 1));
    drawing.wait_near(drawing.eraser, [0, 0]);
}

#[test]
fn a_pen_is_near_only_when_it_does_something() {
    let mut drawing = Drawing::new(Build::Plain);
    let (mut is_near, mut motions, mut before) = (false, 0, 0);
    // The input thread may be ahead of the events that X has processed, and is so now and then.
    for round in 1..=300 {
        for sample in [at(round, 1), PenSample { near: false, ..at(round, 1) }] {
            drawing.send(1, sample);
            while motions < round || is_near != sample.near {
                let is_property = drawing.wait(|event| match event {
                    Event::XinputProperty(_) => Some(true),
                    Event::XinputMotion(_) => Some(false),
                    _ => None,
                });
                if is_property {
                    is_near = !is_near;
                    assert!(is_near || motions > before, "it came for nothing, in round {round}");
                    before = motions;
                } else {
                    assert!(is_near, "clients hear of it first");
                    motions += 1;
                }
            }
        }
    }
    assert_eq!(drawing.near(drawing.pen), [0, 0]);
}

#[test]
fn each_pixel_is_the_pixel_that_the_pen_is_over() {
    let mut drawing = Drawing::new(Build::Plain);
    for step in 0..300 {
        let place = |at: u32| (at + 100) * PEN_FRACTION;
        let sample =
            PenSample { x: place(step), y: place(step), near: true, ..PenSample::default() };
        drawing.send(1, sample);
        assert_eq!(drawing.seen().at, (f64::from(step), f64::from(step)));
        let pointer = drawing.conn.query_pointer(drawing.root).unwrap().reply().unwrap();
        assert_eq!((pointer.root_x, pointer.root_y), (100 + step as i16, 100 + step as i16));
    }
}

#[test]
fn raw_events_have_the_positions_of_the_tablet() {
    let mut drawing = Drawing::new(Build::Plain);
    let mask = xinput::EventMask { deviceid: ALL_MASTERS, mask: vec![XIEventMask::RAW_MOTION] };
    drawing.conn.xinput_xi_select_events(drawing.root, &[mask]).unwrap().check().unwrap();
    let sample = PenSample { pressure: 1234, tilt_x: 5, tilt_y: -6, buttons: 1, ..at(60, 70) };
    drawing.send(1, sample);
    let raw: RawMotionEvent = drawing.wait(|event| match event {
        Event::XinputRawMotion(raw) => Some(raw.clone()),
        _ => None,
    });
    let place = |at: u32, edge: u32| f64::from(at) * 16384.0 / f64::from(edge);
    let axes: Vec<f64> = raw.axisvalues_raw.iter().map(real).collect();
    let wanted = [place(sample.x, SCREEN.0), place(sample.y, SCREEN.1), 1234.0, 5.0, -6.0];
    for (axis, wanted) in axes.iter().zip(wanted) {
        assert!((axis - wanted).abs() < 0.01, "{axes:?} is not {wanted:?}");
    }
    assert_eq!(axes.len(), 5);
}
