//! Night colours and gamma, in a real window against a fake session: the window and the cursor have
//! the tables' colours, whatever puts pixels there, and keep them until the session says otherwise.
//! Skipped, with a message, without Xvfb.
#![cfg(feature = "window")]

mod desk;
mod fake;

use desk::{Desk, size, until};
use thinc_protocol::gamma::{GammaArea, GammaTable, WHOLE_SCREEN};
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Size};
use x11rb::protocol::xfixes::ConnectionExt as _;

const SCREEN: Size = Size { width: 300, height: 200 };

fn table(of: impl Fn(usize, usize) -> u8) -> GammaTable {
    GammaTable {
        channels: std::array::from_fn(|channel| std::array::from_fn(|value| of(channel, value))),
    }
}

fn inverted() -> GammaTable {
    table(|_, value| 255 - value as u8)
}

impl Desk {
    fn gamma(&self, areas: Vec<GammaArea>) {
        self.fake.send(&SessionMessage::Gamma(areas));
    }

    /// Waits until each pixel of the window is the session's, shown by the table at its place.
    fn wait_shown(&self, what: &str, table_at: impl Fn(i32, i32) -> GammaTable) {
        let place = |at: usize| (at as i32 % SCREEN.width as i32, at as i32 / SCREEN.width as i32);
        let screen = self.fake.screen();
        let shown = |(at, pixel): (usize, &u32)| {
            let (x, y) = place(at);
            table_at(x, y).apply(*pixel) & 0xff_ffff
        };
        let wanted: Vec<u32> = screen.iter().enumerate().map(shown).collect();
        until(what, || (self.pixels(SCREEN.rect()) == wanted).then_some(()));
    }

    fn cursor(&self) -> Vec<u32> {
        self.x.xfixes_get_cursor_image().unwrap().reply().unwrap().cursor_image
    }
}

fn shows_tables(present: &str) {
    let Some(mut desk) = Desk::start(SCREEN, &["--present", present]) else { return };
    desk.wait_exact();
    desk.point(50, 60);
    // Half-transparent white next to solid red.
    let pixels: Vec<u32> =
        (0..16 * 16).map(|i| if i % 2 == 0 { 0x8080_8080 } else { 0xffff_0000 }).collect();
    desk.fake.set_cursor(size(16, 16), (5, 7), &pixels);
    until("the session's cursor", || (desk.cursor() == pixels).then_some(()));
    desk.gamma(vec![GammaArea { rect: WHOLE_SCREEN, table: inverted() }]);
    desk.wait_shown("inverted colours", |_, _| inverted());
    let black_and_cyan = [0x8000_0000, 0xff00_ffff].repeat(128);
    until("an inverted cursor", || (desk.cursor() == black_and_cyan).then_some(()));
    // What is drawn now, and an image that is set now.
    desk.fake.fill(Rect::at(20, 30, 100, 40), 0x12_3456, None);
    desk.wait_shown("what is drawn later", |_, _| inverted());
    desk.fake.set_cursor(size(16, 16), (5, 7), &[0xff00_0000; 256]);
    until("another cursor", || (desk.cursor() == [0xffff_ffff; 256]).then_some(()));
    // One monitor after the other gets the next table; what is on none.
    let night = table(|channel, value| (value * [255, 196, 140][channel] / 255) as u8);
    let left = Rect::at(0, 0, 120, 200);
    desk.gamma(vec![
        GammaArea { rect: left, table: night.clone() },
        GammaArea { rect: Rect::at(100, 0, 200, 150), table: inverted() },
    ]);
    desk.wait_shown("each monitor by its own table", |x, y| match (x, y) {
        (..120, _) => night.clone(),
        (_, ..150) => inverted(),
        _ => GammaTable::default(),
    });
    // The window sets the cursor before it draws.
    assert_eq!(desk.cursor(), [0xffff_ffff; 256], "a cursor that keeps its table meanwhile");
    desk.gamma(vec![GammaArea { rect: WHOLE_SCREEN, table: table(|_, _| 0) }]);
    desk.wait_shown("black", |_, _| table(|_, _| 0));
    until("a black cursor", || (desk.cursor() == [0xff00_0000; 256]).then_some(()));
    desk.gamma(Vec::new());
    desk.wait_exact();
    desk.close();
    let (code, stderr) = desk.end();
    assert_eq!(code, Some(0), "{stderr}");
    if !stderr.is_empty() {
        // Then these were the pixels that are copied.
        assert!(present == "gpu" && std::env::var_os("CI").is_none(), "{stderr}");
        eprintln!("skipped: {stderr}");
    }
}

#[test]
fn pixels_that_are_copied_have_the_tables_colours() {
    shows_tables("surface");
}

#[test]
fn pixels_of_a_gpu_have_the_tables_colours() {
    shows_tables("gpu");
}

#[test]
fn a_user_may_want_none() {
    for (arguments, wants) in [(&["--gamma", "off"][..], false), (&["--gamma", "session"], true)] {
        let Some(desk) = Desk::start(SCREEN, arguments) else { return };
        let caps = desk.fake.wait_for("the hello", |message| match message {
            ViewerMessage::Hello(hello) => Some(hello.caps),
            _ => None,
        });
        assert_eq!(caps & ViewerCaps::GAMMA != 0, wants, "{arguments:?}");
    }
}

/// A connection that has no tables takes back those of the last one, and not before its screen.
#[test]
fn a_new_connection_begins_with_its_own_tables() {
    let Some(desk) = Desk::start(SCREEN, &[]) else { return };
    desk.gamma(vec![GammaArea { rect: WHOLE_SCREEN, table: inverted() }]);
    desk.fake.fill(SCREEN.rect(), 0x80_40c0, None);
    desk.wait_shown("inverted colours", |_, _| inverted());
    desk.fake.shared.state.lock().unwrap().hold_picture = true;
    desk.fake.close(CloseCode::Restart, "a new version");
    // What the new connection says about its screen is shown, and none of its pixels.
    desk.fake.wait_for("the second hello", |message| {
        matches!(message, ViewerMessage::Hello(_))
            .then(|| desk.fake.shared.state.lock().unwrap().connections)
            .filter(|connections| *connections == 2)
    });
    desk.point(50, 60);
    desk.fake.set_cursor(size(16, 16), (5, 7), &[0xff00_0000; 256]);
    until("the new connection's cursor, in the colours of the last one", || {
        (desk.cursor() == [0xffff_ffff; 256]).then_some(())
    });
    until("the last connection's screen, dimmed, without a message", || {
        let dimmed = inverted().apply(0x80_40c0) >> 1 & 0x7f_7f7f;
        desk.pixels(SCREEN.rect()).iter().all(|pixel| *pixel == dimmed).then_some(())
    });
    desk.fake.set_size(SCREEN);
    desk.wait_exact();
    until("a plain cursor", || (desk.cursor() == [0xff00_0000; 256]).then_some(()));
}
