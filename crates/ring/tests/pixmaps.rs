//! The driver's records of pixmaps, compared with their pixels as returned by X: every change of an
//! announced pixmap is covered by a record, COPY records and solid colours are true, and opaque
//! pixels are opaque. `THINC_TEST_SANITIZED=1` runs all of it against the sanitized build,
//! `THINC_TEST_SEED=n` runs one seed.

mod coverage;
mod xdraw;
mod xserver;

use std::collections::HashMap;

use thinc_region::Rect;
use thinc_ring::{Alpha, DrawHint, DrawableId, OutputRequest, RecordKind};
use x11rb::connection::Connection;
use x11rb::protocol::render::{self, ConnectionExt as _, PictOp};
use x11rb::protocol::xproto::*;
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, Shadow, Verified, brief};
use xdraw::{Drawer, Kinds, Random};
use xserver::{Options, XServer};

/// Pixmaps of so few pixels are not announced.
const UNANNOUNCED_AREA_MAX: u32 = 64;

/// Finds the driver's serial of a pixmap of X, by drawing a point in a unique colour.
struct Names {
    marks: u32,
    of: HashMap<Pixmap, DrawableId>,
}

impl Names {
    fn find(
        &mut self,
        conn: &RustConnection,
        pixmap: Pixmap,
        reader: &mut Reader,
        shadow: &mut Shadow,
    ) -> DrawableId {
        if let Some(&id) = self.of.get(&pixmap) {
            return id;
        }
        self.marks += 1;
        let color = 0x00c0_ffee ^ self.marks;
        let gc = conn.generate_id().unwrap();
        conn.create_gc(gc, pixmap, &CreateGCAux::new().foreground(0xff00_0000 | color)).unwrap();
        conn.poly_fill_rectangle(pixmap, gc, &[Rectangle { x: 0, y: 0, width: 1, height: 1 }])
            .unwrap();
        conn.free_gc(gc).unwrap();
        conn.get_input_focus().unwrap().reply().unwrap();
        let records = reader.drain();
        shadow.apply(&records);
        let id = records.iter().find_map(|record| match record.kind {
            RecordKind::Draw { dst, hint: DrawHint::Solid(rgb), .. } if rgb == color => Some(dst),
            _ => None,
        });
        id.expect("a point in a pixmap is recorded")
    }
}

fn draw_and_compare(server: &XServer, seed: u64, batches: usize) -> Verified {
    let (conn, screen) = server.connect();
    let (ask, _) = server.connect();
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_offscreen(true);
    let mut drawer =
        Drawer::new(conn, screen, seed, Kinds::Offscreen).expect("the generator starts");
    drawer.sync().unwrap();
    let mut shadow = Shadow::new(&reader);
    let mut names = Names { marks: 0, of: HashMap::new() };
    let mut counts = Random::new(seed ^ 0x5eed);
    let mut verified = Verified::default();
    for batch in 0..batches {
        let count = if batch % 3 == 0 { 1 } else { counts.within(1, 12) };
        for _ in 0..count {
            drawer.step().expect("a request can be sent");
        }
        drawer.sync().unwrap();
        let records = reader.drain();
        assert!(!records.iter().any(|r| r.kind == RecordKind::Overflow), "a batch fits the ring");
        shadow.apply(&records);
        let fail = |what: &str, words: &str| -> ! {
            let log: Vec<&String> = drawer.log.iter().rev().take(count as usize).collect();
            panic!(
                "seed {seed}, batch {batch}, {what}: {words}\nnewest first: {log:?}\nrecords: {}",
                brief(&records)
            )
        };
        if let Err(words) = shadow.settle(&reader.pixels()) {
            fail("screen", &words);
        }
        let (kept, of_windows) = drawer.pixmaps().unwrap();
        drawer.sync().unwrap();
        // First find all serials: what X composes after the point is then recorded before any
        // comparison.
        let mut known = Vec::new();
        for &pixmap in kept.iter().chain(&of_windows) {
            let size = ask.get_geometry(pixmap).unwrap().reply().unwrap();
            if u32::from(size.width) * u32::from(size.height) > UNANNOUNCED_AREA_MAX {
                known.push((pixmap, size, names.find(&ask, pixmap, &mut reader, &mut shadow)));
            }
        }
        shadow.apply(&reader.drain());
        names.of = known
            .iter()
            .filter(|(pixmap, ..)| kept.contains(pixmap))
            .map(|&(xid, _, id)| (xid, id))
            .collect();
        for (pixmap, size, id) in known {
            let image = ask
                .get_image(ImageFormat::Z_PIXMAP, pixmap, 0, 0, size.width, size.height, u32::MAX)
                .unwrap();
            let data = image.reply().unwrap().data;
            let pixels: Vec<u32> =
                data.as_chunks::<4>().0.iter().map(|pixel| u32::from_ne_bytes(*pixel)).collect();
            match shadow.settle_pixmap(id, &pixels) {
                Ok(more) => {
                    verified.colours += more.colours;
                    verified.alphas += more.alphas;
                }
                Err(words) => fail(&format!("{id:?} of depth {}", size.depth), &words),
            }
        }
        for pixmap in of_windows {
            ask.free_pixmap(pixmap).unwrap();
        }
    }
    verified
}

#[test]
fn records_of_pixmaps_are_true() {
    let server = XServer::start(Options::default());
    let seeds = match std::env::var("THINC_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("THINC_TEST_SEED is a number")],
        Err(_) => vec![21, 22, 23, 24],
    };
    for seed in seeds {
        let verified = draw_and_compare(&server, seed, 160);
        println!("seed {seed}: {verified:?}");
        assert!(
            verified.colours > 50_000 && verified.alphas > 10_000,
            "too little was verified: {verified:?}"
        );
    }
    assert!(server.stop(), "X exits cleanly");
}

/// Records of requests, without marks and without those of the attach.
fn seen(reader: &mut Reader, conn: &RustConnection) -> Vec<RecordKind> {
    conn.get_input_focus().unwrap().reply().unwrap();
    let marks = |kind: &RecordKind| {
        !matches!(kind, RecordKind::Idle | RecordKind::Yield | RecordKind::Geometry { .. })
    };
    reader.drain().into_iter().map(|record| record.kind).filter(marks).collect()
}

/// A pixmap with the GC and picture to draw in it.
struct Canvas<'a> {
    conn: &'a RustConnection,
    pixmap: Pixmap,
    gc: Gcontext,
    picture: render::Picture,
}

impl<'a> Canvas<'a> {
    fn new(
        conn: &'a RustConnection,
        root: Window,
        depth: u8,
        width: u16,
        height: u16,
    ) -> Canvas<'a> {
        let formats = conn.render_query_pict_formats().unwrap().reply().unwrap().formats;
        let alpha = if depth == 32 { 0xff } else { 0 };
        let fits = |f: &&render::Pictforminfo| {
            f.depth == depth && f.direct.alpha_mask == alpha && f.direct.red_shift == 16
        };
        let format = formats.iter().find(fits).expect("X has the standard picture formats").id;
        let [pixmap, gc, picture] = [(); 3].map(|()| conn.generate_id().unwrap());
        conn.create_pixmap(depth, pixmap, root, width, height).unwrap();
        conn.create_gc(gc, pixmap, &CreateGCAux::new().graphics_exposures(0)).unwrap();
        conn.render_create_picture(picture, pixmap, format, &render::CreatePictureAux::new())
            .unwrap();
        Canvas { conn, pixmap, gc, picture }
    }

    fn fill(&self, color: u32) {
        self.conn.change_gc(self.gc, &ChangeGCAux::new().foreground(color)).unwrap();
        let all = Rectangle { x: 0, y: 0, width: u16::MAX, height: u16::MAX };
        self.conn.poly_fill_rectangle(self.pixmap, self.gc, &[all]).unwrap();
    }

    /// Without a mask, 20 x 10 pixels to (30, 20).
    fn compose(&self, op: PictOp, from: &Canvas<'_>, (x, y): (i16, i16)) {
        self.conn
            .render_composite(
                op,
                from.picture,
                x11rb::NONE,
                self.picture,
                x,
                y,
                0,
                0,
                30,
                20,
                20,
                10,
            )
            .unwrap();
    }
}

/// The serial in the last record.
fn drawn_on(records: &[RecordKind]) -> DrawableId {
    match records.last() {
        Some(&(RecordKind::Draw { dst, .. } | RecordKind::Copy { dst, .. })) => dst,
        other => panic!("something was drawn: {other:?}"),
    }
}

const TO: Rect = Rect { x1: 30, y1: 20, x2: 50, y2: 30 };

#[test]
fn a_blend_that_copies_is_recorded_as_a_copy() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_offscreen(true);
    let [argb, rgb, onto, onto_rgb] = [32, 24, 32, 24].map(|depth| {
        let canvas = Canvas::new(&conn, root, depth, 100, 80);
        canvas.fill(0xff10_2030);
        let records = seen(&mut reader, &conn);
        let id = drawn_on(&records);
        let whole = Rect::new(0, 0, 100, 80);
        assert_eq!(
            records,
            [
                RecordKind::PixmapCreate { id, width: 100, height: 80, opaque: depth == 24 },
                RecordKind::Draw {
                    dst: id,
                    rect: whole,
                    hint: DrawHint::Solid(0x10_2030),
                    alpha: Alpha::Opaque
                },
            ]
        );
        (canvas, id)
    });
    let copy = |src, dst, dx, dy, rect, over| RecordKind::Copy { src, dst, rect, dx, dy, over };
    let shown = |reader: &mut Reader,
                 from: &(Canvas<'_>, DrawableId),
                 to: &(Canvas<'_>, DrawableId),
                 op,
                 at| {
        to.0.compose(op, &from.0, at);
        seen(reader, &conn)
    };
    // By operator, source and destination.
    for (op, from, to, over) in [
        (PictOp::SRC, &argb, &onto, false),
        (PictOp::OVER, &argb, &onto, true),
        (PictOp::OVER, &argb, &onto_rgb, true),
        (PictOp::SRC, &argb, &onto_rgb, false),
        (PictOp::OVER, &rgb, &onto_rgb, false),
        (PictOp::OVER, &rgb, &onto, false),
        (PictOp::SRC, &rgb, &onto, false),
    ] {
        assert_eq!(
            shown(&mut reader, from, to, op, (5, 6)),
            [copy(from.1, to.1, 25, 14, TO, over)],
            "{op:?}"
        );
    }
    // Partly outside the source: Over leaves the rest unchanged, Src clears it.
    let inside = Rect { x1: 35, ..TO };
    assert_eq!(
        shown(&mut reader, &argb, &onto, PictOp::OVER, (-5, 6)),
        [copy(argb.1, onto.1, 35, 14, inside, true)]
    );
    let rest = Rect { x2: 35, ..TO };
    assert_eq!(
        shown(&mut reader, &argb, &onto, PictOp::SRC, (-5, 6)),
        [
            copy(argb.1, onto.1, 35, 14, inside, false),
            RecordKind::Draw {
                dst: onto.1,
                rect: rest,
                hint: DrawHint::Solid(0),
                alpha: Alpha::Unknown
            },
        ]
    );
    // A repeat that is not reached makes no difference, nor does the source's clip, nor a shift by
    // whole pixels.
    let repeat = render::ChangePictureAux::new().repeat(render::Repeat::NORMAL);
    conn.render_change_picture(argb.0.picture, &repeat).unwrap();
    let clip = Rectangle { x: 0, y: 0, width: 9, height: 9 };
    conn.render_set_picture_clip_rectangles(argb.0.picture, 0, 0, &[clip]).unwrap();
    let one = 0x1_0000;
    let shift = render::Transform {
        matrix11: one,
        matrix22: one,
        matrix33: one,
        matrix13: 7 * one,
        matrix23: one,
        ..render::Transform::default()
    };
    conn.render_set_picture_transform(argb.0.picture, shift).unwrap();
    assert_eq!(
        shown(&mut reader, &argb, &onto, PictOp::OVER, (5, 6)),
        [copy(argb.1, onto.1, 18, 13, TO, true)]
    );
    // A repeat that is reached is a drawing.
    let reached = shown(&mut reader, &argb, &onto, PictOp::OVER, (-15, 6));
    assert_eq!(
        reached,
        [RecordKind::Draw { dst: onto.1, rect: TO, hint: DrawHint::Composite, alpha: Alpha::Kept }]
    );
    // Within one pixmap it is a copy only if source and destination do not overlap.
    assert_eq!(
        shown(&mut reader, &onto, &onto, PictOp::SRC, (5, 0)),
        [copy(onto.1, onto.1, 25, 20, TO, false)]
    );
    let meets = shown(&mut reader, &onto, &onto, PictOp::SRC, (25, 16));
    assert_eq!(
        meets,
        [RecordKind::Draw {
            dst: onto.1,
            rect: TO,
            hint: DrawHint::Composite,
            alpha: Alpha::Unknown
        }]
    );
    // A mask that hides nothing does not matter.
    let solid = conn.generate_id().unwrap();
    let white = render::Color { red: 0xffff, green: 0xffff, blue: 0xffff, alpha: 0xffff };
    conn.render_create_solid_fill(solid, white).unwrap();
    conn.render_composite(
        PictOp::OVER,
        rgb.0.picture,
        solid,
        onto.0.picture,
        5,
        6,
        0,
        0,
        30,
        20,
        20,
        10,
    )
    .unwrap();
    assert_eq!(seen(&mut reader, &conn), [copy(rgb.1, onto.1, 25, 14, TO, false)]);
    // The screen is a source like any other.
    conn.copy_area(root, onto_rgb.0.pixmap, onto_rgb.0.gc, 5, 6, 30, 20, 20, 10).unwrap();
    assert_eq!(seen(&mut reader, &conn), [copy(DrawableId::SCREEN, onto_rgb.1, 25, 14, TO, false)]);
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn records_name_the_effect_on_alpha() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_offscreen(true);
    let canvas = Canvas::new(&conn, root, 32, 100, 80);
    let mut alpha_of = |what: &str| match seen(&mut reader, &conn).last() {
        Some(&RecordKind::Draw { alpha, .. }) => alpha,
        other => panic!("{what} is a drawing: {other:?}"),
    };
    for (function, planes, color, alpha) in [
        (GX::COPY, u32::MAX, 0xff12_3456, Alpha::Opaque),
        (GX::COPY, u32::MAX, 0x0012_3456, Alpha::Unknown),
        (GX::COPY, 0x00ff_ffff, 0x0012_3456, Alpha::Kept),
        (GX::COPY, 0x0fff_ffff, 0xff12_3456, Alpha::Kept),
        (GX::OR, u32::MAX, 0x0012_3456, Alpha::Kept),
        (GX::OR, u32::MAX, 0xff12_3456, Alpha::Opaque),
        (GX::XOR, u32::MAX, 0x00ff_ffff, Alpha::Kept),
        (GX::XOR, u32::MAX, 0xffff_ffff, Alpha::Unknown),
        (GX::AND, u32::MAX, 0xff00_0000, Alpha::Kept),
        (GX::SET, u32::MAX, 0, Alpha::Opaque),
        (GX::CLEAR, u32::MAX, 0, Alpha::Unknown),
        (GX::COPY_INVERTED, u32::MAX, 0x0012_3456, Alpha::Opaque),
    ] {
        conn.change_gc(canvas.gc, &ChangeGCAux::new().function(function).plane_mask(planes))
            .unwrap();
        canvas.fill(color);
        assert_eq!(alpha_of("a fill"), alpha, "{function:?} {planes:x} {color:x}");
    }
    let plain = ChangeGCAux::new().function(GX::COPY).plane_mask(u32::MAX).foreground(0xff00_0000);
    conn.change_gc(canvas.gc, &plain).unwrap();
    conn.poly_text8(canvas.pixmap, canvas.gc, 20, 20, b"\x05\x00words").unwrap();
    assert_eq!(alpha_of("text"), Alpha::Kept);
    conn.put_image(ImageFormat::Z_PIXMAP, canvas.pixmap, canvas.gc, 1, 1, 0, 0, 0, 32, &[0xff; 4])
        .unwrap();
    assert_eq!(alpha_of("an image"), Alpha::Unknown);
    let full = render::Color { red: 0x1000, green: 0x2000, blue: 0x3000, alpha: 0xffff };
    let half = render::Color { alpha: 0x8000, ..full };
    let rect = Rectangle { x: 3, y: 4, width: 50, height: 40 };
    for (op, color, alpha) in [
        (PictOp::SRC, full, Alpha::Opaque),
        (PictOp::SRC, half, Alpha::Unknown),
        (PictOp::OVER, full, Alpha::Opaque),
        (PictOp::OVER, half, Alpha::Kept),
        (PictOp::OVER_REVERSE, half, Alpha::Kept),
        (PictOp::ATOP, half, Alpha::Kept),
        (PictOp::ADD, half, Alpha::Kept),
        (PictOp::CLEAR, half, Alpha::Unknown),
        (PictOp::OUT_REVERSE, half, Alpha::Unknown),
        (PictOp::XOR, half, Alpha::Unknown),
    ] {
        conn.render_fill_rectangles(op, canvas.picture, color, &[rect]).unwrap();
        assert_eq!(alpha_of("a fill of RENDER"), alpha, "{op:?} {color:?}");
    }
    assert!(server.stop(), "X exits cleanly");
}

/// Pixmaps that existed before a session attached, before records were lost or before the screen
/// was resized are announced again when they are used again.
#[test]
fn earlier_pixmaps_are_announced_at_their_next_use() {
    let server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let canvas = Canvas::new(&conn, root, 24, 100, 80);
    let tiny = Canvas::new(&conn, root, 32, 8, 8);
    canvas.fill(1);
    conn.get_input_focus().unwrap().reply().unwrap();
    let mut reader = Reader::new(server.attach());
    reader.attachment.ring.set_want_offscreen(true);
    let show = || conn.copy_area(canvas.pixmap, root, canvas.gc, 0, 0, 0, 0, 100, 80).unwrap();
    let told_then_shown = |records: &[RecordKind]| {
        let [
            RecordKind::PixmapCreate { id, width: 100, height: 80, opaque: true },
            RecordKind::Copy { src, .. },
        ] = records
        else {
            panic!("{records:?}")
        };
        assert_eq!(id, src);
    };
    show();
    told_then_shown(&seen(&mut reader, &conn));
    show();
    assert!(
        matches!(seen(&mut reader, &conn)[..], [RecordKind::Copy { .. }]),
        "the pixmap is announced once"
    );
    // Too small to be announced, but a copy from it is recorded.
    tiny.fill(2);
    assert_eq!(seen(&mut reader, &conn), []);
    // Records are lost.
    for i in 0..40_000 {
        conn.change_gc(canvas.gc, &ChangeGCAux::new().foreground(i)).unwrap();
        conn.poly_fill_rectangle(
            canvas.pixmap,
            canvas.gc,
            &[Rectangle { x: 9, y: 9, width: 9, height: 9 }],
        )
        .unwrap();
    }
    assert!(seen(&mut reader, &conn).contains(&RecordKind::Overflow));
    show();
    told_then_shown(&seen(&mut reader, &conn));
    // The screen has another size.
    let size = OutputRequest { x: 0, y: 0, width: 800, height: 600, mm_width: 0, mm_height: 0 };
    reader.set_outputs(&[size]).expect("the size is applied");
    // X paints the part that the screen gained.
    seen(&mut reader, &conn);
    show();
    told_then_shown(&seen(&mut reader, &conn));
    // If a session stops recording pixmaps for a while, those drawn on meanwhile are announced
    // again.
    reader.attachment.ring.set_want_offscreen(false);
    canvas.fill(3);
    assert_eq!(seen(&mut reader, &conn), []);
    reader.attachment.ring.set_want_offscreen(true);
    show();
    told_then_shown(&seen(&mut reader, &conn));
    // Nothing announced to this session is known to the next.
    let mut next = Reader::new(server.attach());
    next.attachment.ring.set_want_offscreen(true);
    show();
    told_then_shown(&seen(&mut next, &conn));
    let RecordKind::Copy { src, .. } = ({
        show();
        seen(&mut next, &conn)
    })[0] else {
        panic!("a copy")
    };
    conn.free_pixmap(canvas.pixmap).unwrap();
    conn.render_free_picture(canvas.picture).unwrap();
    conn.free_gc(canvas.gc).unwrap();
    assert_eq!(seen(&mut next, &conn), [RecordKind::PixmapDestroy { id: src }]);
    assert!(server.stop(), "X exits cleanly");
}

#[test]
fn all_tests_pass_with_sanitizers() {
    xserver::rerun_with_sanitizers();
}
