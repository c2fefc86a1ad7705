//! The cursor block in a real Xorg: image, colours, position and visibility as applications set
//! them, each change published once. The cursor's image is in the block and never in the
//! framebuffer. Knows X's requests and the block; never what a session sends of it.

mod coverage;
mod xserver;

use std::time::Instant;

use thinc_ring::{CursorImage, CursorPixel, CursorState, InputMessage, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::render::{Animcursorelt, ConnectionExt as _, CreatePictureAux};
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::*;
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, TIMEOUT};
use xserver::{Options, XServer};

use CursorPixel::{Back, Fore, Outside};

/// Red, green, blue as in the core protocol.
type Color = (u16, u16, u16);
const RED: Color = (0xffff, 0, 0);
const BLUE: Color = (0, 0, 0xffff);

/// An application that sets cursors of the root window, and the session that reads the records.
struct Stage {
    reader: Reader,
    conn: RustConnection,
    root: Window,
    _server: XServer,
}

impl Stage {
    fn new() -> Stage {
        let server = XServer::start(Options::default());
        let (conn, screen) = server.connect();
        let root = conn.setup().roots[screen].root;
        conn.xfixes_query_version(5, 0).unwrap().reply().unwrap();
        conn.render_query_version(0, 11).unwrap().reply().unwrap();
        let mut stage = Stage { reader: Reader::new(server.attach()), conn, root, _server: server };
        stage.recorded_change();
        stage
    }

    /// The user moves the pointer. Nothing else is under it, so there is nothing to record.
    fn user_moves(&mut self, x: i32, y: i32) {
        let input = &self.reader.attachment.input;
        input.send(InputMessage::PointerMove { seq: 1, x, y }).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            assert!(!self.recorded_change(), "a move by the user is not recorded");
            let at = self.conn.query_pointer(self.root).unwrap().reply().unwrap();
            if (at.root_x, at.root_y) == (x as i16, y as i16) {
                break;
            }
            assert!(Instant::now() < deadline, "the user's move does not arrive");
        }
    }

    fn warp(&self, x: i16, y: i16) {
        self.conn.warp_pointer(x11rb::NONE, self.root, 0, 0, 0, 0, x, y).unwrap();
    }

    /// What xdotool and pyautogui do: an event of the XTEST device. `detail` 1 is relative motion.
    fn fake(&self, kind: u8, detail: u8, x: i16, y: i16) {
        let root = if detail == 0 { self.root } else { x11rb::NONE };
        self.conn.xtest_fake_input(kind, detail, x11rb::CURRENT_TIME, root, x, y, 0).unwrap();
    }

    /// The position and the number of positions that programs have set.
    fn place(&self) -> (i32, i32, u32) {
        let state = self.state();
        (state.x, state.y, state.warps)
    }

    /// Whether X has recorded a change of the cursor since the last call.
    fn recorded_change(&mut self) -> bool {
        self.conn.get_input_focus().unwrap().reply().unwrap();
        self.reader.drain().iter().any(|record| record.kind == RecordKind::Cursor)
    }

    fn state(&self) -> CursorState {
        self.reader.attachment.ring.cursor().expect("there is a cursor")
    }

    /// A pixmap of depth 1 with a bit for every pixel.
    fn bits(&self, width: u16, height: u16, bit: impl Fn(u16, u16) -> bool) -> Pixmap {
        let stride = usize::from(width).div_ceil(32) * 4;
        let mut data = vec![0u8; stride * usize::from(height)];
        for y in 0..height {
            for x in (0..width).filter(|&x| bit(x, y)) {
                data[usize::from(y) * stride + usize::from(x / 8)] |= 1 << (x % 8);
            }
        }
        let (pixmap, gc) = (self.conn.generate_id().unwrap(), self.conn.generate_id().unwrap());
        self.conn.create_pixmap(1, pixmap, self.root, width, height).unwrap();
        self.conn.create_gc(gc, pixmap, &CreateGCAux::new().foreground(1).background(0)).unwrap();
        self.conn
            .put_image(ImageFormat::XY_PIXMAP, pixmap, gc, width, height, 0, 0, 0, 1, &data)
            .unwrap();
        pixmap
    }

    fn core_cursor(
        &self,
        source: Pixmap,
        mask: Pixmap,
        colors: (Color, Color),
        hot: (u16, u16),
    ) -> Cursor {
        let cursor = self.conn.generate_id().unwrap();
        let (fore, back) = colors;
        self.conn
            .create_cursor(
                cursor, source, mask, fore.0, fore.1, fore.2, back.0, back.1, back.2, hot.0, hot.1,
            )
            .unwrap();
        cursor
    }

    fn argb_cursor(&self, width: u16, pixels: &[u32], hot: (u16, u16)) -> Cursor {
        let height = (pixels.len() / usize::from(width)) as u16;
        let formats = self.conn.render_query_pict_formats().unwrap().reply().unwrap().formats;
        let argb = formats
            .iter()
            .find(|f| f.depth == 32 && f.direct.alpha_mask == 0xff && f.direct.red_shift == 16);
        let ids: Vec<u32> = (0..4).map(|_| self.conn.generate_id().unwrap()).collect();
        let [pixmap, gc, picture, cursor] = ids[..] else { unreachable!() };
        self.conn.create_pixmap(32, pixmap, self.root, width, height).unwrap();
        self.conn.create_gc(gc, pixmap, &CreateGCAux::new()).unwrap();
        // A request holds at most 256 KiB: rows are sent in parts.
        for (y, rows) in pixels.chunks(usize::from(width) * 64).enumerate() {
            let data: Vec<u8> = rows.iter().flat_map(|pixel| pixel.to_ne_bytes()).collect();
            let lines = (rows.len() / usize::from(width)) as u16;
            self.conn
                .put_image(
                    ImageFormat::Z_PIXMAP,
                    pixmap,
                    gc,
                    width,
                    lines,
                    0,
                    y as i16 * 64,
                    0,
                    32,
                    &data,
                )
                .unwrap();
        }
        self.conn
            .render_create_picture(picture, pixmap, argb.unwrap().id, &CreatePictureAux::new())
            .unwrap();
        self.conn.render_create_cursor(cursor, picture, hot.0, hot.1).unwrap();
        cursor
    }

    /// Sets any image: X shows none until an application sets one.
    fn set_any(&mut self) {
        self.set(self.argb_cursor(1, &[0x8080_8080], (0, 0)));
        assert!(self.recorded_change());
    }

    fn set(&self, cursor: Cursor) {
        self.conn
            .change_window_attributes(self.root, &ChangeWindowAttributesAux::new().cursor(cursor))
            .unwrap();
    }
}

#[test]
fn a_core_cursor_has_two_planes_and_two_colours() {
    let mut stage = Stage::new();
    let source = stage.bits(8, 2, |x, _| x < 4);
    let mask = stage.bits(8, 2, |x, _| x < 7);
    let cursor = stage.core_cursor(source, mask, (RED, BLUE), (3, 1));
    stage.set(cursor);
    assert!(stage.recorded_change());
    let state = stage.state();
    assert!(state.visible);
    assert_eq!((state.width, state.height, state.hot_x, state.hot_y), (8, 2, 3, 1));
    let CursorImage::TwoColors { fore: 0xff_0000, back: 0x00_00ff, pixels } = state.image else {
        panic!("{:?}", state.image)
    };
    assert_eq!(pixels[8..], [Fore, Fore, Fore, Fore, Back, Back, Back, Outside]);

    // Other colours, even two equal ones, do not change the image.
    for (green, blue) in [(0xffff, 0xffff), (0, 0), (0xffff, 0)] {
        stage.conn.recolor_cursor(cursor, 0, green, 0, 0, 0, blue).unwrap();
        assert!(stage.recorded_change());
        let now = stage.state();
        let (fore, back) = (u32::from(green) & 0xff00, u32::from(blue) & 0xff);
        let image = CursorImage::TwoColors { fore, back, pixels: pixels.clone() };
        assert_eq!((now.serial, now.image), (state.serial, image));
    }
    // Another cursor that looks the same is no change, nor are the present colours.
    stage.set(stage.core_cursor(source, mask, ((0, 0xffff, 0), (0, 0, 0)), (3, 1)));
    stage.conn.recolor_cursor(cursor, 0, 0xffff, 0, 0, 0, 0).unwrap();
    assert!(!stage.recorded_change());
    // A cursor that is not shown is recorded only once it is shown.
    stage.conn.recolor_cursor(cursor, 0xffff, 0, 0, 0, 0, 0).unwrap();
    assert!(!stage.recorded_change());
    stage.set(cursor);
    assert!(stage.recorded_change());
    assert!(matches!(stage.state().image, CursorImage::TwoColors { fore: 0xff_0000, .. }));
}

#[test]
fn the_next_session_finds_the_pixels_of_an_argb_cursor() {
    let mut stage = Stage::new();
    let pixels = [0x8040_2010u32, 0xffff_ffff, 0, 0x0100_0001];
    stage.set(stage.argb_cursor(2, &pixels, (1, 1)));
    assert!(stage.recorded_change());
    let state = stage.state();
    assert_eq!((state.width, state.height, state.hot_x, state.hot_y), (2, 2, 1, 1));
    assert_eq!(state.image, CursorImage::Argb(pixels.to_vec()));
    // The next session finds all of it in the block.
    stage.reader = Reader::new(stage._server.attach());
    assert_eq!(stage.state().image, CursorImage::Argb(pixels.to_vec()));
}

#[test]
fn every_image_of_an_animated_cursor_is_published() {
    let mut stage = Stage::new();
    // Not opaque: X turns images of two opaque colours into core cursors.
    let frames = [[0x8000_0001u32; 4], [0x8000_0002; 4], [0x8000_0003; 4]];
    let elements: Vec<Animcursorelt> = frames
        .iter()
        .map(|frame| Animcursorelt { cursor: stage.argb_cursor(2, frame, (0, 0)), delay: 10 })
        .collect();
    let cursor = stage.conn.generate_id().unwrap();
    stage.conn.render_create_anim_cursor(cursor, &elements).unwrap();
    stage.set(cursor);
    stage.conn.flush().unwrap();
    let mut seen = Vec::new();
    while frames.iter().any(|frame| !seen.contains(&CursorImage::Argb(frame.to_vec()))) {
        assert!(seen.len() < 1000, "not all images were shown");
        stage.reader.read_until(|record| record.kind == RecordKind::Cursor);
        seen.push(stage.state().image);
    }
}

#[test]
fn a_large_cursor_is_cropped_around_its_hot_spot() {
    let mut stage = Stage::new();
    let pixel = |x: u32, y: u32| 0xff00_0000 | x << 12 | y;
    let pixels: Vec<u32> = (0..300 * 400).map(|i| pixel(i % 300, i / 300)).collect();
    for (hot, first, kept) in [
        ((10, 20), (0, 0), (10, 20)),
        ((150, 200), (22, 72), (128, 128)),
        ((299, 399), (44, 144), (255, 255)),
    ] {
        stage.set(stage.argb_cursor(300, &pixels, hot));
        assert!(stage.recorded_change());
        let state = stage.state();
        assert_eq!((state.width, state.height, (state.hot_x, state.hot_y)), (256, 256, kept));
        let CursorImage::Argb(image) = state.image else { panic!("{:?}", state.image) };
        assert_eq!((image[0], image[256]), (pixel(first.0, first.1), pixel(first.0, first.1 + 1)));
    }
}

#[test]
fn a_warp_is_recorded_and_a_move_by_the_user_is_not() {
    let mut stage = Stage::new();
    stage.set_any();
    let warps = stage.state().warps;
    stage.warp(123, 45);
    assert!(stage.recorded_change());
    assert_eq!(stage.place(), (123, 45, warps + 1));
    // The user moves on from there.
    stage.user_moves(300, 200);
    // A warp to the user's own position: no viewer has to follow.
    stage.warp(300, 200);
    assert!(!stage.recorded_change());
    // A warp to the earlier position, as programs do that keep the pointer in their middle.
    stage.warp(123, 45);
    assert!(stage.recorded_change());
    assert_eq!(stage.place(), (123, 45, warps + 2));
}

#[test]
fn a_move_by_xtest_is_recorded_as_a_warp_is() {
    let mut stage = Stage::new();
    // Whether or not X shows a cursor.
    for shown in [false, true] {
        if shown {
            stage.set_any();
        }
        let warps = stage.state().warps;
        stage.fake(MOTION_NOTIFY_EVENT, 0, 300, 300);
        assert!(stage.recorded_change());
        assert_eq!(stage.place(), (300, 300, warps + 1));
        stage.fake(MOTION_NOTIFY_EVENT, 1, -10, 20);
        assert!(stage.recorded_change());
        assert_eq!(stage.place(), (290, 320, warps + 2));
        // Its buttons move nothing.
        for kind in [BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT] {
            stage.fake(kind, 1, 0, 0);
        }
        assert!(!stage.recorded_change());
        // To the same position as before: the user has moved the pointer since.
        stage.user_moves(100, 100);
        stage.fake(MOTION_NOTIFY_EVENT, 0, 290, 320);
        assert!(stage.recorded_change());
        assert_eq!(stage.place(), (290, 320, warps + 3));
        // A warp is an event of the device that was used last: it counts once.
        stage.warp(10, 20);
        assert!(stage.recorded_change());
        assert!(!stage.recorded_change());
        assert_eq!(stage.place(), (10, 20, warps + 4));
        stage.user_moves(20, 20);
    }
}

#[test]
fn a_warp_before_the_first_cursor_is_recorded_and_the_centring_is_not() {
    let mut stage = Stage::new();
    let state = stage.state();
    assert_eq!((state.serial, state.warps), (0, 0));
    stage.warp(123, 45);
    assert!(stage.recorded_change());
    let state = stage.state();
    assert_eq!((state.serial, state.x, state.y, state.warps), (0, 123, 45, 1));
}

#[test]
fn xfixes_and_an_empty_image_hide_the_cursor() {
    let mut stage = Stage::new();
    stage.set_any();
    for visible in [false, true] {
        if visible {
            stage.conn.xfixes_show_cursor(stage.root).unwrap();
        } else {
            stage.conn.xfixes_hide_cursor(stage.root).unwrap();
        }
        assert!(stage.recorded_change());
        assert_eq!(stage.state().visible, visible);
    }
    // X itself treats an empty cursor as invisible.
    let nothing = stage.bits(1, 1, |_, _| false);
    stage.set(stage.core_cursor(nothing, nothing, (RED, BLUE), (0, 0)));
    assert!(stage.recorded_change());
    assert!(!stage.state().visible);
}

#[test]
fn the_framebuffer_never_contains_the_cursor() {
    let mut stage = Stage::new();
    let before = stage.reader.pixels();
    stage.set(stage.argb_cursor(64, &[0xffff_ffff; 64 * 64], (0, 0)));
    let mut drawn = 0;
    for step in 0..40 {
        stage.conn.warp_pointer(x11rb::NONE, stage.root, 0, 0, 0, 0, step * 10, step * 8).unwrap();
        stage.conn.get_input_focus().unwrap().reply().unwrap();
        let records = stage.reader.drain();
        drawn += records
            .iter()
            .filter(|r| matches!(r.kind, RecordKind::Draw { .. } | RecordKind::Copy { .. }))
            .count();
        assert!(stage.reader.pixels() == before, "step {step}");
        // Applications that read the screen do not see it either.
        let seen = stage
            .conn
            .get_image(ImageFormat::Z_PIXMAP, stage.root, 0, 0, 400, 400, !0)
            .unwrap()
            .reply()
            .unwrap();
        assert!(seen.data.iter().all(|&byte| byte != 0xff), "step {step}");
    }
    assert_eq!(drawn, 0);
}
