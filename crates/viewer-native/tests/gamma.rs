//! Night colours and gamma, in a real window against a fake session: the window and the cursor have
//! the tables' colours, whatever puts pixels there, and keep them until the session says otherwise.
//! Skipped, with a message, without Xvfb.
#![cfg(feature = "window")]

mod desk;
mod fake;

use desk::{Desk, size, until};
use thinc_protocol::gamma::{GammaArea, GammaTable, WHOLE_SCREEN};
use thinc_protocol::session::SessionMessage;
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
    // Two monitors, and what is on none.
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
    until("a cursor as it is", || (desk.cursor() == [0xff00_0000; 256]).then_some(()));
    desk.gamma(vec![GammaArea { rect: WHOLE_SCREEN, table: table(|_, _| 0) }]);
    desk.wait_shown("black", |_, _| table(|_, _| 0));
    desk.gamma(Vec::new());
    desk.wait_exact();
    desk.close();
    assert_eq!(desk.end().0, Some(0), "the viewer ends well");
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
    desk.wait_shown("inverted colours", |_, _| inverted());
    desk.fake.cut();
    desk.wait_exact();
}
