//! Tests of the drawable maps: what each kind of program does, op by op, and the result. model.rs
//! checks every claim against pixels as well; these tests say what should be found, not only that
//! nothing is false.

use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawableId, RecordKind, VideoLayout};

use super::model::{ChangeTotals, DrawableModel, SCREEN};
use super::{Drawables, PARTS_MAX, Part, Proposal, ScreenEffect};
use crate::queue::command_queue::Kinds;

const SIZE: Size = Size { width: 128, height: 96 };
const WHITE: u32 = 0xff_ffff;

fn model() -> DrawableModel {
    DrawableModel::new(SIZE)
}

/// A pixmap of distinct pixels.
fn image_pixmap(model: &mut DrawableModel, width: u32, height: u32) -> DrawableId {
    let id = model.create(width, height, false);
    let rect = model.canvas(id).size.rect();
    model.draw(id, &[rect], DrawHint::Image, Alpha::Opaque);
    id
}

fn parts(model: &DrawableModel) -> Vec<Part> {
    let mut parts = Vec::new();
    model.translator.drawables().parts(&model.canvas(SCREEN).size.rect(), &mut parts);
    parts
}

const fn moved(pixels: u64) -> ChangeTotals {
    ChangeTotals { moved: pixels, unchanged: 0, drawn: 0 }
}

const fn unchanged(pixels: u64) -> ChangeTotals {
    ChangeTotals { moved: 0, unchanged: pixels, drawn: 0 }
}

const fn drawn(pixels: u64) -> ChangeTotals {
    ChangeTotals { moved: 0, unchanged: 0, drawn: pixels }
}

/// GTK 3: a persistent cache, a buffer for one frame, the screen.
#[test]
fn a_view_scrolled_through_a_frames_buffer_is_a_copy() {
    let mut model = model();
    let cache = image_pixmap(&mut model, 80, 160);
    let view = Rect::new(0, 0, 80, 60);
    let frame = |model: &mut DrawableModel, scrolled: i32| {
        let buffer = model.create(80, 60, false);
        model.draw(buffer, &[view], DrawHint::Solid(0), Alpha::Unknown);
        model.draw(buffer, &[view], DrawHint::Solid(WHITE), Alpha::Opaque);
        model.copy(cache, buffer, &[view], (0, -scrolled), true);
        let totals = model.copy(buffer, SCREEN, &[view.translate(10, 20)], (10, 20), false);
        model.destroy(buffer);
        totals
    };
    assert_eq!(frame(&mut model, 0), drawn(80 * 60));
    assert_eq!(frame(&mut model, 0), unchanged(80 * 60), "the same again");
    assert_eq!(
        frame(&mut model, 17),
        ChangeTotals { moved: 80 * 43, unchanged: 0, drawn: 80 * 17 }
    );
    assert_eq!(
        frame(&mut model, 7),
        ChangeTotals { moved: 80 * 50, unchanged: 0, drawn: 80 * 10 },
        "and back"
    );
}

/// A compositor: the application scrolls in its window's pixmap, and a pixmap of all windows goes
/// to the screen.
#[test]
fn a_scroll_in_a_redirected_window_is_a_copy_through_four_levels() {
    let mut model = model();
    let (cache, window) = (image_pixmap(&mut model, 60, 120), model.create(70, 60, false));
    let (wallpaper, composed) = (image_pixmap(&mut model, 128, 96), model.create(128, 96, true));
    let view = Rect::new(0, 0, 60, 50);
    let frame = |model: &mut DrawableModel, scrolled: i32| {
        let buffer = model.create(60, 50, false);
        model.copy(cache, buffer, &[view], (0, -scrolled), false);
        model.copy(buffer, window, &[view.translate(5, 5)], (5, 5), false);
        model.destroy(buffer);
        let shown = view.translate(25, 35);
        model.copy(wallpaper, composed, &[shown], (0, 0), false);
        model.copy(window, composed, &[shown], (20, 30), true);
        model.copy(composed, SCREEN, &[shown], (0, 0), false)
    };
    assert_eq!(frame(&mut model, 0), drawn(60 * 50));
    assert_eq!(
        frame(&mut model, 20),
        ChangeTotals { moved: 60 * 30, unchanged: 0, drawn: 60 * 20 }
    );
}

#[test]
fn a_window_that_a_compositor_moves_is_a_copy() {
    let mut model = model();
    let (window, composed) = (image_pixmap(&mut model, 40, 40), model.create(128, 96, true));
    let show = |model: &mut DrawableModel, x: i32| {
        let all = SIZE.rect();
        model.draw(composed, &[all], DrawHint::Solid(0x40_4040), Alpha::Opaque);
        model.copy(window, composed, &[Rect::at(x, 10, 40, 40)], (x, 10), true);
        model.copy(composed, SCREEN, &[all], (0, 0), false)
    };
    assert_eq!(show(&mut model, 10).moved, 0);
    assert_eq!(show(&mut model, 60).moved, 40 * 40);
    assert_eq!(show(&mut model, 70).moved, 40 * 40, "also where it overlaps itself");
}

#[test]
fn a_scroll_within_a_back_buffer_is_a_copy() {
    let mut model = model();
    let buffer = image_pixmap(&mut model, 80, 60);
    let all = Rect::new(0, 0, 80, 60);
    model.copy(buffer, SCREEN, &[all], (0, 0), false);
    // TileSource and destination overlap.
    model.copy(buffer, buffer, &[Rect::new(0, 0, 80, 48)], (0, -12), false);
    model.draw(buffer, &[Rect::new(0, 48, 80, 60)], DrawHint::Solid(WHITE), Alpha::Opaque);
    let totals = model.copy(buffer, SCREEN, &[all], (0, 0), false);
    assert_eq!(totals, ChangeTotals { moved: 80 * 48, unchanged: 0, drawn: 80 * 12 });
}

#[test]
fn content_saved_below_a_menu_is_drawn_where_the_screen_changed() {
    let mut model = model();
    let image = Rect::new(0, 0, 128, 96);
    model.draw(SCREEN, &[image], DrawHint::Image, Alpha::Opaque);
    let below = model.create(60, 60, true);
    let menu = Rect::new(30, 30, 90, 90);
    model.copy(SCREEN, below, &[menu.translate(-30, -30)], (-30, -30), false);
    model.draw(SCREEN, &[Rect::new(30, 30, 90, 60)], DrawHint::Solid(WHITE), Alpha::Opaque);
    // The lower half was never covered.
    let totals = model.copy(below, SCREEN, &[menu], (30, 30), false);
    assert_eq!(totals, ChangeTotals { moved: 0, unchanged: 60 * 30, drawn: 60 * 30 });
}

#[test]
fn only_pixels_still_on_the_screen_are_moved() {
    let mut model = model();
    let buffer = image_pixmap(&mut model, 60, 60);
    let all = Rect::new(0, 0, 60, 60);
    model.copy(buffer, SCREEN, &[all], (0, 0), false);
    model.draw(SCREEN, &[Rect::new(0, 0, 60, 20)], DrawHint::Solid(WHITE), Alpha::Opaque);
    let totals = model.copy(buffer, SCREEN, &[all.translate(64, 0)], (64, 0), false);
    assert_eq!(totals, ChangeTotals { moved: 60 * 40, unchanged: 0, drawn: 60 * 20 });
}

#[test]
fn a_buffer_drawn_on_since_is_not_equal_there() {
    let mut model = model();
    let (one, two) = (image_pixmap(&mut model, 60, 60), model.create(60, 60, false));
    let all = Rect::new(0, 0, 60, 60);
    model.copy(one, SCREEN, &[all], (0, 0), false);
    model.copy(one, two, &[all], (0, 0), false);
    model.draw(one, &[Rect::new(0, 0, 60, 10)], DrawHint::Image, Alpha::Opaque);
    // The copy was made before: it has what the screen shows.
    assert_eq!(model.copy(two, SCREEN, &[all], (0, 0), false), unchanged(60 * 60));
    assert_eq!(
        model.copy(one, SCREEN, &[all], (0, 0), false),
        ChangeTotals { moved: 0, unchanged: 60 * 50, drawn: 60 * 10 },
        "the first learned where the second is shown, except where it was drawn on since"
    );
}

#[test]
fn moves_of_one_op_read_the_state_before_it() {
    let mut model = model();
    let (left, right, both) = (
        image_pixmap(&mut model, 40, 60),
        image_pixmap(&mut model, 40, 60),
        model.create(80, 60, true),
    );
    let half = Rect::new(0, 0, 40, 60);
    model.copy(left, SCREEN, &[half], (0, 0), false);
    model.copy(right, SCREEN, &[half.translate(40, 0)], (40, 0), false);
    // Both change places: one of them can be moved, and what that covers is drawn.
    model.copy(right, both, &[half], (0, 0), false);
    model.copy(left, both, &[half.translate(40, 0)], (40, 0), false);
    let totals = model.copy(both, SCREEN, &[Rect::new(0, 0, 80, 60)], (0, 0), false);
    assert_eq!(totals, ChangeTotals { moved: 40 * 60, unchanged: 0, drawn: 40 * 60 });
}

#[test]
fn several_rectangles_of_one_op_are_one_move() {
    let mut model = model();
    let buffer = image_pixmap(&mut model, 80, 60);
    model.copy(buffer, SCREEN, &[Rect::new(0, 0, 80, 60)], (0, 0), false);
    let rects = [Rect::new(20, 10, 60, 30), Rect::new(20, 30, 100, 70)];
    assert_eq!(model.copy(buffer, SCREEN, &rects, (20, 10), false), moved(40 * 20 + 80 * 40));
}

#[test]
fn an_over_blend_is_a_copy_if_the_source_is_opaque() {
    let mut model = model();
    // A window with a shadow around it.
    let window = model.create(64, 64, false);
    model.draw(window, &[Rect::new(0, 0, 64, 64)], DrawHint::Image, Alpha::Unknown);
    model.draw(window, &[Rect::new(16, 16, 48, 48)], DrawHint::Image, Alpha::Opaque);
    let at = |x: i32| Rect::at(x, 0, 64, 64);
    assert_eq!(model.copy(window, SCREEN, &[at(0)], (0, 0), true), drawn(64 * 64));
    let totals = model.copy(window, SCREEN, &[at(60)], (60, 0), true);
    assert_eq!(totals, ChangeTotals { moved: 32 * 32, unchanged: 0, drawn: 64 * 64 - 32 * 32 });
}

#[test]
fn opaque_fills_make_a_page_opaque_and_text_keeps_it_so() {
    let mut model = model();
    let page = model.create(64, 64, false);
    let all = Rect::new(0, 0, 64, 64);
    model.draw(page, &[all], DrawHint::Solid(0), Alpha::Unknown);
    model.draw(page, &[all], DrawHint::Solid(WHITE), Alpha::Opaque);
    model.draw(page, &[Rect::new(3, 5, 60, 20)], DrawHint::Glyphs, Alpha::Kept);
    model.copy(page, SCREEN, &[all], (0, 0), true);
    assert_eq!(model.copy(page, SCREEN, &[all], (0, 0), true), unchanged(64 * 64));
}

#[test]
fn an_overflow_forgets_the_content_of_pixmaps() {
    let mut model = model();
    let buffer = image_pixmap(&mut model, 60, 60);
    let all = Rect::new(0, 0, 60, 60);
    model.copy(buffer, SCREEN, &[all], (0, 0), false);
    model.overflow(|model| model.paint(buffer, &[all], DrawHint::Image, Alpha::Opaque));
    assert_eq!(model.copy(buffer, SCREEN, &[all], (0, 0), false), drawn(60 * 60));
    assert_eq!(
        model.copy(buffer, SCREEN, &[all], (0, 0), false),
        unchanged(60 * 60),
        "it is known again"
    );
}

#[test]
fn a_geometry_forgets_the_content_of_the_screen() {
    let mut model = model();
    let buffer = image_pixmap(&mut model, 60, 60);
    let all = Rect::new(0, 0, 60, 60);
    model.copy(buffer, SCREEN, &[all], (0, 0), false);
    model.resize(Size { width: 100, height: 90 });
    assert_eq!(model.copy(buffer, SCREEN, &[all], (0, 0), false), drawn(60 * 60));
}

#[test]
fn a_serial_used_again_is_another_pixmap() {
    let mut model = model();
    let (one, two) = (image_pixmap(&mut model, 60, 60), model.create(60, 60, true));
    let all = Rect::new(0, 0, 60, 60);
    model.copy(one, SCREEN, &[all], (0, 0), false);
    model.copy(one, two, &[all], (0, 0), false);
    model.destroy(one);
    model.reuse(one, 60, 60, false);
    model.draw(one, &[all], DrawHint::Image, Alpha::Opaque);
    assert_eq!(model.copy(one, SCREEN, &[all.translate(20, 20)], (20, 20), false), drawn(60 * 60));
    assert_eq!(
        model.copy(two, SCREEN, &[all.translate(60, 0)], (60, 0), false).drawn,
        40 * 40,
        "what is still on the screen moves"
    );
}

#[test]
fn text_over_one_colour_is_known_through_pixmaps() {
    let mut model = model();
    let page = model.create(128, 96, true);
    model.draw(page, &[SIZE.rect()], DrawHint::Solid(WHITE), Alpha::Opaque);
    model.draw(page, &[Rect::new(32, 32, 64, 48)], DrawHint::Glyphs, Alpha::Kept);
    model.copy(page, SCREEN, &[SIZE.rect()], (0, 0), false);
    let parts = parts(&model);
    assert!(
        parts
            .contains(&Part { rect: Rect::new(32, 32, 64, 48), what: Proposal::Text(Some(WHITE)) }),
        "{parts:?}"
    );
    let solid = parts
        .iter()
        .filter(|part| part.what == Proposal::Solid(WHITE))
        .map(|part| part.rect.area());
    assert_eq!(solid.sum::<u64>(), 128 * 96 - 32 * 16);
}

#[test]
fn a_copy_off_the_grid_keeps_the_ground_and_spreads_the_text() {
    let mut model = model();
    let page = model.create(128, 96, true);
    model.draw(page, &[SIZE.rect()], DrawHint::Solid(WHITE), Alpha::Opaque);
    model.draw(page, &[Rect::new(32, 32, 64, 48)], DrawHint::Glyphs, Alpha::Kept);
    model.draw(SCREEN, &[SIZE.rect()], DrawHint::Solid(WHITE), Alpha::Opaque);
    model.copy(page, SCREEN, &[Rect::new(5, 7, 128, 96)], (5, 7), false);
    let text = parts(&model).into_iter().find(|part| part.what == Proposal::Text(Some(WHITE)));
    assert_eq!(text.map(|part| part.rect), Some(Rect::new(32, 32, 80, 64)));
}

#[test]
fn video_behind_a_compositor_is_found() {
    let mut model = model();
    let (window, composed) = (image_pixmap(&mut model, 70, 60), model.create(128, 96, true));
    let (size, place) = (Size { width: 32, height: 20 }, Rect::new(10, 10, 50, 40));
    let video =
        DrawHint::Video { port: 3, layout: VideoLayout::Yuv420, size, crop: size.rect(), place };
    model.draw(window, &[Rect::new(10, 10, 50, 40)], video, Alpha::Opaque);
    model.copy(window, composed, &[Rect::new(20, 20, 90, 80)], (20, 20), true);
    model.copy(composed, SCREEN, &[SIZE.rect()], (0, 0), false);
    assert!(
        parts(&model).contains(&Part { rect: Rect::new(30, 30, 70, 60), what: Proposal::Video(3) })
    );
    // Controls over its lower edge.
    model.draw(SCREEN, &[Rect::new(30, 50, 70, 60)], DrawHint::Solid(WHITE), Alpha::Opaque);
    assert!(
        parts(&model).contains(&Part { rect: Rect::new(30, 30, 70, 50), what: Proposal::Video(3) })
    );
}

#[test]
fn the_content_of_pixmaps_determines_the_estimated_kinds() {
    let mut drawables = Drawables::new(SIZE);
    let mut effect = ScreenEffect::default();
    let id = DrawableId(1);
    drawables.create(id, SIZE, true);
    drawables.draw(id, &SIZE.rect(), DrawHint::Solid(WHITE), Alpha::Opaque);
    drawables.draw(id, &Rect::new(0, 0, 64, 16), DrawHint::Glyphs, Alpha::Kept);
    drawables.draw(id, &Rect::new(0, 48, 64, 96), DrawHint::Image, Alpha::Opaque);
    let copy = super::CopyOp { src: id, dst: SCREEN, dx: 0, dy: 0, over: false };
    drawables.copy(copy, &[Rect::new(0, 0, 64, 20)], &mut effect);
    assert_eq!(effect.kinds, Kinds::GLYPHS.with(Kinds::SOLID));
    drawables.copy(copy, &[Rect::new(0, 48, 64, 96)], &mut effect);
    assert_eq!(effect.kinds, Kinds::IMAGE);
}

/// thinc-ring checks a driver's records against X's limits, not against the drawable's size.
#[test]
fn records_past_a_drawables_edge_are_clipped() {
    let mut model = model();
    let buffer = image_pixmap(&mut model, 20, 20);
    let far = Rect::new(0, 0, 3000, 3000);
    let record = |kind| thinc_ring::DrawRecord { op: 9_000, more: false, window: 0, kind };
    for (src, dst) in [(buffer, SCREEN), (SCREEN, buffer), (buffer, buffer), (SCREEN, SCREEN)] {
        for over in [false, true] {
            model.translator.record(&record(RecordKind::Copy {
                src,
                dst,
                rect: far,
                dx: -7,
                dy: -5,
                over,
            }));
            model.translator.record(&record(RecordKind::Copy {
                src,
                dst,
                rect: far.translate(9, 9),
                dx: 9,
                dy: 9,
                over,
            }));
        }
        let draw =
            RecordKind::Draw { dst, rect: far, hint: DrawHint::Glyphs, alpha: Alpha::Unknown };
        model.translator.record(&record(draw));
        let draw = RecordKind::Draw {
            dst,
            rect: far.translate(2500, 0),
            hint: DrawHint::Image,
            alpha: Alpha::Unknown,
        };
        model.translator.record(&record(draw));
        model.translator.drawables().check_invariants();
    }
}

#[test]
fn pixmaps_past_the_bound_are_forgotten_and_take_no_memory() {
    let mut drawables = Drawables::new(SIZE);
    let size = Size { width: 1000, height: 1000 };
    for id in 1..5_000 {
        drawables.create(DrawableId(id), size, true);
        drawables.draw(DrawableId(id), &Rect::new(1, 1, 500, 500), DrawHint::Image, Alpha::Opaque);
        if id % 7 == 0 {
            drawables.destroy(DrawableId(id - 3));
        }
    }
    drawables.check_invariants();
    assert!(drawables.pool.tiles_held() * 4 <= 8 << 20, "tiles have a bound");
}

#[test]
fn parts_have_a_bound_and_the_largest_are_returned() {
    let mut model = model();
    model.draw(SCREEN, &[SIZE.rect()], DrawHint::Other, Alpha::Opaque);
    for i in 0..48 {
        let rect = Rect::at(i % 8 * 16, i / 8 * 16, 16, 16);
        model.draw(SCREEN, &[rect], DrawHint::Solid(i.cast_unsigned()), Alpha::Opaque);
    }
    model.resize(Size { width: 400, height: 400 });
    for i in 0..400 {
        let rect = Rect::at(i % 20 * 16, i / 20 * 16, 16, if i < 20 { 32 } else { 16 });
        model.draw(SCREEN, &[rect], DrawHint::Solid(i.cast_unsigned()), Alpha::Opaque);
    }
    assert_eq!(parts(&model).len(), PARTS_MAX);
}
