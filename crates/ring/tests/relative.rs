//! Relative motion in a real Xorg: what X clients that read raw events get (SDL 2 and 3, GLFW,
//! Wine), and those that put the pointer back into the middle of their window after every move.
//! What the driver says of X clients that hide, grab and confine the pointer. Knows X's requests
//! and the input socket; never what a session concludes.

mod coverage;
mod xserver;

use std::time::Instant;

use thinc_ring::{InputMessage, PointerUse, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xinput::{self, ConnectionExt as _, DeviceClassData, ValuatorMode};
use x11rb::protocol::xproto::*;
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, TIMEOUT};
use xserver::{Options, XServer};

/// XIAllMasterDevices, which SDL selects raw motion of.
const ALL_MASTERS: u16 = 1;
/// XIAllDevices.
const ALL_DEVICES: u16 = 0;

/// An X client, and the session that moves the pointer.
struct Game {
    reader: Reader,
    conn: RustConnection,
    root: Window,
    window: Window,
    /// The device whose axes were asked for, and whether they are relative: SDL asks once.
    axes: Option<(u16, bool)>,
    _server: XServer,
}

impl Game {
    /// A window of 400 x 300 at (100, 100).
    fn new() -> Game {
        let server = XServer::start(Options::default());
        let (conn, screen) = server.connect();
        let root = conn.setup().roots[screen].root;
        conn.xinput_xi_query_version(2, 2).unwrap().reply().unwrap();
        conn.xfixes_query_version(5, 0).unwrap().reply().unwrap();
        let window = conn.generate_id().unwrap();
        let aux = CreateWindowAux::new()
            .override_redirect(1)
            .event_mask(EventMask::POINTER_MOTION | EventMask::EXPOSURE);
        conn.create_window(
            x11rb::COPY_DEPTH_FROM_PARENT,
            window,
            root,
            100,
            100,
            400,
            300,
            0,
            WindowClass::INPUT_OUTPUT,
            x11rb::COPY_FROM_PARENT,
            &aux,
        )
        .unwrap();
        conn.map_window(window).unwrap();
        let reader = Reader::new(server.attach());
        let mut game = Game { reader, conn, root, window, axes: None, _server: server };
        game.wait(|event| matches!(event, Event::Expose(_)).then_some(()));
        game
    }

    fn select_raw_motion(&self) {
        let mask = xinput::EventMask {
            deviceid: ALL_MASTERS,
            mask: vec![xinput::XIEventMask::RAW_MOTION],
        };
        self.conn.xinput_xi_select_events(self.root, &[mask]).unwrap().check().unwrap();
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
            // A request makes X write what it has.
            self.sync();
        }
    }

    fn sync(&self) {
        self.conn.get_input_focus().unwrap().reply().unwrap();
    }

    fn send(&self, message: InputMessage) {
        self.reader.attachment.input.send(message).unwrap();
    }

    fn moves_by(&self, dx: i32, dy: i32) {
        self.send(InputMessage::PointerMoveBy { seq: 1, dx, dy });
    }

    /// The user moves the pointer to a position, which it reaches if nothing holds it.
    fn moves_to(&self, x: i32, y: i32) {
        self.send(InputMessage::PointerMove { seq: 1, x, y });
    }

    fn pointer(&self) -> (i16, i16) {
        let at = self.conn.query_pointer(self.root).unwrap().reply().unwrap();
        (at.root_x, at.root_y)
    }

    fn wait_pointer(&self, x: i16, y: i16) {
        let deadline = Instant::now() + TIMEOUT;
        while self.pointer() != (x, y) {
            assert!(Instant::now() < deadline, "the pointer is at {:?}", self.pointer());
        }
    }

    /// The next raw motion as SDL 2.26 reads it: an axis is relative or not as the device of the
    /// first event said, and a position counts as the previous one less this one.
    /// Those of no distance stand between equal ones, and move nothing.
    fn raw_motion(&mut self) -> (f64, f64) {
        let event = self.wait(|event| match event {
            Event::XinputRawMotion(raw)
                if raw
                    .axisvalues_raw
                    .iter()
                    .any(|value| (value.integral, value.frac) != (0, 0)) =>
            {
                Some(raw.clone())
            }
            _ => None,
        });
        let conn = &self.conn;
        let (_, relative) = *self.axes.get_or_insert_with(|| {
            let device = event.deviceid;
            let reply = conn.xinput_xi_query_device(device).unwrap().reply().unwrap();
            let relative = reply.infos[0].classes.iter().all(|class| match &class.data {
                DeviceClassData::Valuator(axis) => axis.mode == ValuatorMode::RELATIVE,
                _ => true,
            });
            (device, relative)
        });
        assert!(relative, "device {} has absolute axes", event.deviceid);
        let mut axes = [0.0; 2];
        let mut values = event.axisvalues_raw.iter();
        for (number, axis) in axes.iter_mut().enumerate() {
            if event.valuator_mask[0] & 1 << number != 0 {
                let value = values.next().expect("an axis in the mask has a value");
                *axis = f64::from(value.integral) + f64::from(value.frac) / 4_294_967_296.0;
            }
        }
        (axes[0], axes[1])
    }

    /// An image of one transparent pixel, as toolkits hide the cursor.
    fn blank_cursor(&self) -> Cursor {
        let (pixmap, cursor) = (self.conn.generate_id().unwrap(), self.conn.generate_id().unwrap());
        let gc = self.conn.generate_id().unwrap();
        self.conn.create_pixmap(1, pixmap, self.root, 1, 1).unwrap();
        self.conn.create_gc(gc, pixmap, &CreateGCAux::new().foreground(0)).unwrap();
        let all = Rectangle { x: 0, y: 0, width: 1, height: 1 };
        self.conn.poly_fill_rectangle(pixmap, gc, &[all]).unwrap();
        self.conn.create_cursor(cursor, pixmap, pixmap, 0, 0, 0, 0, 0, 0, 0, 0).unwrap();
        cursor
    }

    fn set_cursor(&self, cursor: Cursor) {
        let aux = ChangeWindowAttributesAux::new().cursor(cursor);
        self.conn.change_window_attributes(self.window, &aux).unwrap().check().unwrap();
    }

    /// As SDL does. (With owner events, X would deliver raw events of the grab twice.)
    fn grab(&self, confine_to: Window) {
        let grab = self
            .conn
            .grab_pointer(
                false,
                self.window,
                EventMask::POINTER_MOTION,
                GrabMode::ASYNC,
                GrabMode::ASYNC,
                confine_to,
                x11rb::NONE,
                x11rb::CURRENT_TIME,
            )
            .unwrap();
        assert_eq!(grab.reply().unwrap().status, GrabStatus::SUCCESS);
    }

    /// What the driver has published, once X has done what was requested: it publishes before X
    /// sleeps, and so before it reads the second request.
    fn pointer_use(&mut self) -> PointerUse {
        self.sync();
        self.sync();
        self.reader.attachment.ring.cursor().expect("there is a cursor").pointer_use
    }

    /// Waits until the driver has published this, with a record.
    fn wait_use(&mut self, wanted: PointerUse) {
        let deadline = Instant::now() + TIMEOUT;
        let mut recorded = false;
        loop {
            recorded |= self.reader.drain().iter().any(|record| record.kind == RecordKind::Cursor);
            let now = self.reader.attachment.ring.cursor().map(|cursor| cursor.pointer_use);
            if recorded && now == Some(wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "{now:?} was published, recorded: {recorded}");
            self.sync();
        }
    }
}

#[test]
fn raw_motion_is_what_the_user_moved_also_beyond_the_edges() {
    let mut game = Game::new();
    game.select_raw_motion();
    game.moves_to(300, 200);
    game.raw_motion();
    for (dx, dy) in [(10, 0), (-7, 3), (0, -1)] {
        game.moves_by(dx, dy);
        assert_eq!(game.raw_motion(), (dx.into(), dy.into()));
    }
    game.wait_pointer(303, 202);
    // The screen ends at 0, raw motion does not.
    for _ in 0..100 {
        game.moves_by(-50, 0);
        assert_eq!(game.raw_motion(), (-50.0, 0.0));
    }
    game.wait_pointer(0, 202);
}

#[test]
fn raw_motion_of_positions_is_the_distance_between_them() {
    let mut game = Game::new();
    game.select_raw_motion();
    game.moves_to(300, 200);
    game.raw_motion();
    game.moves_to(310, 200);
    assert_eq!(game.raw_motion(), (10.0, 0.0));
    // A program warps the pointer, and the viewer follows: it moved by 3 from there.
    game.conn.warp_pointer(x11rb::NONE, game.root, 0, 0, 0, 0, 150, 150).unwrap();
    game.wait_pointer(150, 150);
    game.moves_to(153, 150);
    assert_eq!(game.raw_motion(), (3.0, 0.0));
    // A page cannot follow.
    game.conn.warp_pointer(x11rb::NONE, game.root, 0, 0, 0, 0, 450, 350).unwrap();
    game.wait_pointer(450, 350);
    game.moves_to(154, 152);
    assert_eq!(game.raw_motion(), (1.0, 2.0));
    game.wait_pointer(154, 152);
    // Outside of what a grab confines it to, the pointer stays at the edge.
    game.grab(game.window);
    for x in [90, 80, 70] {
        game.moves_to(x, 152);
        let from = if x == 90 { 154.0 } else { f64::from(x) + 10.0 };
        assert_eq!(game.raw_motion(), (f64::from(x) - from, 0.0), "to {x}");
    }
    game.wait_pointer(100, 152);
    // Nothing moved: there is no event. The next is that of the next move.
    game.moves_to(70, 152);
    game.moves_by(5, 5);
    assert_eq!(game.raw_motion(), (5.0, 5.0));
}

#[test]
fn programs_that_put_the_pointer_back_get_what_was_moved() {
    let mut game = Game::new();
    const CENTRE: (i16, i16) = (200, 150);
    game.conn.warp_pointer(x11rb::NONE, game.window, 0, 0, 0, 0, CENTRE.0, CENTRE.1).unwrap();
    game.sync();
    let mut got = (0, 0);
    for (dx, dy) in [(10, 0), (10, 0), (-4, 7), (150, -120), (1, 1)] {
        game.moves_by(dx, dy);
        let centre_seen = |event: &Event| match event {
            Event::MotionNotify(at) if (at.event_x, at.event_y) != CENTRE => {
                Some((at.event_x - CENTRE.0, at.event_y - CENTRE.1))
            }
            _ => None,
        };
        let moved = game.wait(centre_seen);
        assert_eq!((i32::from(moved.0), i32::from(moved.1)), (dx, dy));
        got = (got.0 + moved.0, got.1 + moved.1);
        game.conn.warp_pointer(x11rb::NONE, game.window, 0, 0, 0, 0, CENTRE.0, CENTRE.1).unwrap();
        game.sync();
    }
    assert_eq!(got, (167, -112));
}

/// SDL 2.26 takes a raw event for a repetition if time and distance are those of the one before it.
#[test]
fn equal_distances_in_one_millisecond_are_no_repetitions() {
    for (dx, dy) in [(10, 0), (0, -1), (-1, 0), (3, -1), (0, 7)] {
        let mut game = Game::new();
        game.select_raw_motion();
        game.moves_to(300, 200);
        game.raw_motion();
        for _ in 0..50 {
            game.moves_by(dx, dy);
        }
        game.wait_pointer(
            (300 + 50 * dx).clamp(0, 639) as i16,
            (200 + 50 * dy).clamp(0, 479) as i16,
        );
        let (mut sum, mut before) = ((0, 0), None);
        while sum != (50 * dx, 50 * dy) {
            let event = game.wait(|event| match event {
                Event::XinputRawMotion(raw) => Some(raw.clone()),
                _ => None,
            });
            let moved = (event.axisvalues_raw[0].integral, event.axisvalues_raw[1].integral);
            let now = Some((event.time, moved));
            if before != now {
                sum = (sum.0 + moved.0, sum.1 + moved.1);
            }
            before = now;
        }
    }
}

#[test]
fn nothing_accelerates_relative_motion() {
    let mut game = Game::new();
    game.select_raw_motion();
    let faster = game.conn.change_pointer_control(10, 1, 1, true, true).unwrap();
    faster.check().unwrap();
    game.moves_to(200, 200);
    game.raw_motion();
    game.moves_by(40, 0);
    assert_eq!(game.raw_motion(), (40.0, 0.0));
    game.wait_pointer(240, 200);
}

#[test]
fn the_session_learns_what_x_clients_do_with_the_pointer() {
    let mut game = Game::new();
    game.moves_to(200, 200);
    game.wait_pointer(200, 200);
    let shown = PointerUse { hidden: false, ..PointerUse::default() };
    let hidden = PointerUse { hidden: true, ..shown };
    let arrow = game.conn.generate_id().unwrap();
    let font = game.conn.generate_id().unwrap();
    game.conn.open_font(font, b"cursor").unwrap();
    game.conn.create_glyph_cursor(arrow, font, font, 2, 3, 0, 0, 0, !0, !0, !0).unwrap();
    game.set_cursor(arrow);
    game.wait_use(shown);
    // While typing.
    game.set_cursor(game.blank_cursor());
    game.wait_use(hidden);
    game.set_cursor(arrow);
    game.wait_use(shown);
    game.conn.xfixes_hide_cursor(game.window).unwrap();
    game.wait_use(hidden);
    game.conn.xfixes_show_cursor(game.window).unwrap();
    game.wait_use(shown);
    // A menu.
    game.grab(x11rb::NONE);
    game.wait_use(PointerUse { grabbed: true, ..shown });
    game.grab(game.root);
    assert_eq!(game.pointer_use(), PointerUse { grabbed: true, ..shown }, "the root is no limit");
    game.grab(game.window);
    game.wait_use(PointerUse { grabbed: true, confined: true, ..shown });
    game.conn.ungrab_pointer(x11rb::CURRENT_TIME).unwrap();
    game.wait_use(shown);
    // A game.
    game.select_raw_motion();
    game.set_cursor(game.blank_cursor());
    game.wait_use(hidden);
    game.grab(x11rb::NONE);
    game.wait_use(PointerUse { grabbed: true, raw: true, ..hidden });
    let nothing = xinput::EventMask { deviceid: ALL_MASTERS, mask: vec![0u32.into()] };
    game.conn.xinput_xi_select_events(game.root, &[nothing]).unwrap();
    game.wait_use(PointerUse { grabbed: true, ..hidden });
    let every =
        xinput::EventMask { deviceid: ALL_DEVICES, mask: vec![xinput::XIEventMask::RAW_MOTION] };
    game.conn.xinput_xi_select_events(game.root, &[every]).unwrap();
    game.wait_use(PointerUse { grabbed: true, raw: true, ..hidden });
    game.conn.ungrab_pointer(x11rb::CURRENT_TIME).unwrap();
    game.wait_use(hidden);
    // A pressed button grabs by itself, and that is nothing.
    let down = |down| InputMessage::Button { seq: 2, button: 1, down };
    let select = ChangeWindowAttributesAux::new()
        .event_mask(EventMask::BUTTON_PRESS | EventMask::BUTTON_RELEASE);
    game.conn.change_window_attributes(game.window, &select).unwrap();
    game.sync();
    game.send(down(true));
    game.wait(|event| matches!(event, Event::ButtonPress(_)).then_some(()));
    assert_eq!(game.pointer_use(), hidden);
    game.send(down(false));
    game.wait(|event| matches!(event, Event::ButtonRelease(_)).then_some(()));
}
