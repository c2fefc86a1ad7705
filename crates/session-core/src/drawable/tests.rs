//! Tests of the drawable maps: what each kind of program does, op by op, and what comes of it.
//! Every op is held against pixels by model.rs as well; here stands what should be found, not only that nothing is false.

use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawableId, Drawn, RecordKind, VideoLayout};

use super::model::{Model, SCREEN, Told};
use super::{Drawables, Effect, PARTS_MAX, Part, Proposal};
use crate::command_queue::Kinds;
use crate::mutation::Broken;

const SIZE: Size = Size { width: 128, height: 96 };
const WHITE: u32 = 0xff_ffff;

fn model() -> Model {
    Model::new(SIZE, Broken::default())
}

/// A pixmap of distinct pixels.
fn picture(model: &mut Model, width: u32, height: u32) -> DrawableId {
    let id = model.create(width, height, false);
    let rect = model.canvas(id).size.rect();
    model.draw(id, &[rect], Drawn::Image, Alpha::Opaque);
    id
}

fn parts(model: &Model) -> Vec<Part> {
    let mut parts = Vec::new();
    model.translator.drawables().parts(&model.canvas(SCREEN).size.rect(), &mut parts);
    parts
}

const fn moved(pixels: u64) -> Told {
    Told { moved: pixels, same: 0, drawn: 0 }
}

const fn same(pixels: u64) -> Told {
    Told { moved: 0, same: pixels, drawn: 0 }
}

const fn drawn(pixels: u64) -> Told {
    Told { moved: 0, same: 0, drawn: pixels }
}

/// GTK 3: a cache that stays, a buffer of one frame, the screen.
#[test]
fn a_view_scrolled_through_a_frames_buffer_is_a_copy() {
    let mut model = model();
    let cache = picture(&mut model, 80, 160);
    let view = Rect::new(0, 0, 80, 60);
    let frame = |model: &mut Model, scrolled: i32| {
        let buffer = model.create(80, 60, false);
        model.draw(buffer, &[view], Drawn::Solid(0), Alpha::Unknown);
        model.draw(buffer, &[view], Drawn::Solid(WHITE), Alpha::Opaque);
        model.copy(cache, buffer, &[view], (0, -scrolled), true);
        let told = model.copy(buffer, SCREEN, &[view.translate(10, 20)], (10, 20), false);
        model.destroy(buffer);
        told
    };
    assert_eq!(frame(&mut model, 0), drawn(80 * 60));
    assert_eq!(frame(&mut model, 0), same(80 * 60), "the same again");
    assert_eq!(frame(&mut model, 17), Told { moved: 80 * 43, same: 0, drawn: 80 * 17 });
    assert_eq!(frame(&mut model, 7), Told { moved: 80 * 50, same: 0, drawn: 80 * 10 }, "and back");
}

/// A compositor: the application scrolls in its window's pixmap, a picture of all windows goes to the screen.
#[test]
fn a_scroll_in_a_redirected_window_is_a_copy_through_four_levels() {
    let mut model = model();
    let (cache, window) = (picture(&mut model, 60, 120), model.create(70, 60, false));
    let (wallpaper, composed) = (picture(&mut model, 128, 96), model.create(128, 96, true));
    let view = Rect::new(0, 0, 60, 50);
    let frame = |model: &mut Model, scrolled: i32| {
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
    assert_eq!(frame(&mut model, 20), Told { moved: 60 * 30, same: 0, drawn: 60 * 20 });
}

#[test]
fn a_window_that_a_compositor_moves_is_a_copy() {
    let mut model = model();
    let (window, composed) = (picture(&mut model, 40, 40), model.create(128, 96, true));
    let show = |model: &mut Model, x: i32| {
        let all = SIZE.rect();
        model.draw(composed, &[all], Drawn::Solid(0x40_4040), Alpha::Opaque);
        model.copy(window, composed, &[Rect::at(x, 10, 40, 40)], (x, 10), true);
        model.copy(composed, SCREEN, &[all], (0, 0), false)
    };
    assert_eq!(show(&mut model, 10).moved, 0);
    assert_eq!(show(&mut model, 60).moved, 40 * 40);
    assert_eq!(show(&mut model, 70).moved, 40 * 40, "where it overlaps itself as well");
}

#[test]
fn a_scroll_within_a_back_buffer_is_a_copy() {
    let mut model = model();
    let buffer = picture(&mut model, 80, 60);
    let all = Rect::new(0, 0, 80, 60);
    model.copy(buffer, SCREEN, &[all], (0, 0), false);
    // Source and destination overlap.
    model.copy(buffer, buffer, &[Rect::new(0, 0, 80, 48)], (0, -12), false);
    model.draw(buffer, &[Rect::new(0, 48, 80, 60)], Drawn::Solid(WHITE), Alpha::Opaque);
    let told = model.copy(buffer, SCREEN, &[all], (0, 0), false);
    assert_eq!(told, Told { moved: 80 * 48, same: 0, drawn: 80 * 12 });
}

#[test]
fn what_was_kept_below_a_menu_is_drawn_where_the_screen_changed() {
    let mut model = model();
    let image = Rect::new(0, 0, 128, 96);
    model.draw(SCREEN, &[image], Drawn::Image, Alpha::Opaque);
    let below = model.create(60, 60, true);
    let menu = Rect::new(30, 30, 90, 90);
    model.copy(SCREEN, below, &[menu.translate(-30, -30)], (-30, -30), false);
    model.draw(SCREEN, &[Rect::new(30, 30, 90, 60)], Drawn::Solid(WHITE), Alpha::Opaque);
    // The lower half was never covered.
    let told = model.copy(below, SCREEN, &[menu], (30, 30), false);
    assert_eq!(told, Told { moved: 0, same: 60 * 30, drawn: 60 * 30 });
}

#[test]
fn only_what_still_stands_on_the_screen_is_moved() {
    let mut model = model();
    let buffer = picture(&mut model, 60, 60);
    let all = Rect::new(0, 0, 60, 60);
    model.copy(buffer, SCREEN, &[all], (0, 0), false);
    model.draw(SCREEN, &[Rect::new(0, 0, 60, 20)], Drawn::Solid(WHITE), Alpha::Opaque);
    let told = model.copy(buffer, SCREEN, &[all.translate(64, 0)], (64, 0), false);
    assert_eq!(told, Told { moved: 60 * 40, same: 0, drawn: 60 * 20 });
}

#[test]
fn a_buffer_drawn_on_since_is_not_equal_there() {
    let mut model = model();
    let (one, two) = (picture(&mut model, 60, 60), model.create(60, 60, false));
    let all = Rect::new(0, 0, 60, 60);
    model.copy(one, SCREEN, &[all], (0, 0), false);
    model.copy(one, two, &[all], (0, 0), false);
    model.draw(one, &[Rect::new(0, 0, 60, 10)], Drawn::Image, Alpha::Opaque);
    // The copy was made before: it shows what the screen shows.
    assert_eq!(model.copy(two, SCREEN, &[all], (0, 0), false), same(60 * 60));
    assert_eq!(
        model.copy(one, SCREEN, &[all], (0, 0), false),
        Told { moved: 0, same: 60 * 50, drawn: 60 * 10 },
        "the first learned where the second is shown, less what it was drawn on since"
    );
}

#[test]
fn moves_of_one_op_read_what_was_before_it() {
    let mut model = model();
    let (left, right, both) = (picture(&mut model, 40, 60), picture(&mut model, 40, 60), model.create(80, 60, true));
    let half = Rect::new(0, 0, 40, 60);
    model.copy(left, SCREEN, &[half], (0, 0), false);
    model.copy(right, SCREEN, &[half.translate(40, 0)], (40, 0), false);
    // Both at once change places: one of them can be moved, and what that covers is drawn.
    model.copy(right, both, &[half], (0, 0), false);
    model.copy(left, both, &[half.translate(40, 0)], (40, 0), false);
    let told = model.copy(both, SCREEN, &[Rect::new(0, 0, 80, 60)], (0, 0), false);
    assert_eq!(told, Told { moved: 40 * 60, same: 0, drawn: 40 * 60 });
}

#[test]
fn several_rectangles_of_one_op_are_one_move() {
    let mut model = model();
    let buffer = picture(&mut model, 80, 60);
    model.copy(buffer, SCREEN, &[Rect::new(0, 0, 80, 60)], (0, 0), false);
    let rects = [Rect::new(20, 10, 60, 30), Rect::new(20, 30, 100, 70)];
    assert_eq!(model.copy(buffer, SCREEN, &rects, (20, 10), false), moved(40 * 20 + 80 * 40));
}

#[test]
fn an_over_blend_is_a_copy_where_the_source_is_opaque() {
    let mut model = model();
    // A window with a shadow around it.
    let window = model.create(64, 64, false);
    model.draw(window, &[Rect::new(0, 0, 64, 64)], Drawn::Image, Alpha::Unknown);
    model.draw(window, &[Rect::new(16, 16, 48, 48)], Drawn::Image, Alpha::Opaque);
    let at = |x: i32| Rect::at(x, 0, 64, 64);
    assert_eq!(model.copy(window, SCREEN, &[at(0)], (0, 0), true), drawn(64 * 64));
    let told = model.copy(window, SCREEN, &[at(60)], (60, 0), true);
    assert_eq!(told, Told { moved: 32 * 32, same: 0, drawn: 64 * 64 - 32 * 32 });
}

#[test]
fn opacity_is_won_by_opaque_fills_and_kept_by_text() {
    let mut model = model();
    let page = model.create(64, 64, false);
    let all = Rect::new(0, 0, 64, 64);
    model.draw(page, &[all], Drawn::Solid(0), Alpha::Unknown);
    model.draw(page, &[all], Drawn::Solid(WHITE), Alpha::Opaque);
    model.draw(page, &[Rect::new(3, 5, 60, 20)], Drawn::Glyphs, Alpha::Kept);
    model.copy(page, SCREEN, &[all], (0, 0), true);
    assert_eq!(model.copy(page, SCREEN, &[all], (0, 0), true), same(64 * 64));
}

#[test]
fn an_overflow_forgets_what_pixmaps_hold() {
    let mut model = model();
    let buffer = picture(&mut model, 60, 60);
    let all = Rect::new(0, 0, 60, 60);
    model.copy(buffer, SCREEN, &[all], (0, 0), false);
    model.overflow(|model| model.paint(buffer, &[all], Drawn::Image, Alpha::Opaque));
    assert_eq!(model.copy(buffer, SCREEN, &[all], (0, 0), false), drawn(60 * 60));
    assert_eq!(model.copy(buffer, SCREEN, &[all], (0, 0), false), same(60 * 60), "it is known again");
}

#[test]
fn a_geometry_forgets_what_the_screen_shows() {
    let mut model = model();
    let buffer = picture(&mut model, 60, 60);
    let all = Rect::new(0, 0, 60, 60);
    model.copy(buffer, SCREEN, &[all], (0, 0), false);
    model.resize(Size { width: 100, height: 90 });
    assert_eq!(model.copy(buffer, SCREEN, &[all], (0, 0), false), drawn(60 * 60));
}

#[test]
fn a_serial_used_again_is_another_pixmap() {
    let mut model = model();
    let (one, two) = (picture(&mut model, 60, 60), model.create(60, 60, true));
    let all = Rect::new(0, 0, 60, 60);
    model.copy(one, SCREEN, &[all], (0, 0), false);
    model.copy(one, two, &[all], (0, 0), false);
    model.destroy(one);
    model.reuse(one, 60, 60, false);
    model.draw(one, &[all], Drawn::Image, Alpha::Opaque);
    assert_eq!(model.copy(one, SCREEN, &[all.translate(20, 20)], (20, 20), false), drawn(60 * 60));
    assert_eq!(
        model.copy(two, SCREEN, &[all.translate(60, 0)], (60, 0), false).drawn,
        40 * 40,
        "what still stands moves"
    );
}

#[test]
fn text_over_one_colour_is_told_through_pixmaps() {
    let mut model = model();
    let page = model.create(128, 96, true);
    model.draw(page, &[SIZE.rect()], Drawn::Solid(WHITE), Alpha::Opaque);
    model.draw(page, &[Rect::new(32, 32, 64, 48)], Drawn::Glyphs, Alpha::Kept);
    model.copy(page, SCREEN, &[SIZE.rect()], (0, 0), false);
    let parts = parts(&model);
    assert!(parts.contains(&Part { rect: Rect::new(32, 32, 64, 48), what: Proposal::Text(Some(WHITE)) }), "{parts:?}");
    let solid = parts.iter().filter(|part| part.what == Proposal::Solid(WHITE)).map(|part| part.rect.area());
    assert_eq!(solid.sum::<u64>(), 128 * 96 - 32 * 16);
}

#[test]
fn a_copy_off_the_grid_keeps_the_ground_and_spreads_the_text() {
    let mut model = model();
    let page = model.create(128, 96, true);
    model.draw(page, &[SIZE.rect()], Drawn::Solid(WHITE), Alpha::Opaque);
    model.draw(page, &[Rect::new(32, 32, 64, 48)], Drawn::Glyphs, Alpha::Kept);
    model.draw(SCREEN, &[SIZE.rect()], Drawn::Solid(WHITE), Alpha::Opaque);
    model.copy(page, SCREEN, &[Rect::new(5, 7, 128, 96)], (5, 7), false);
    let text = parts(&model).into_iter().find(|part| part.what == Proposal::Text(Some(WHITE)));
    assert_eq!(text.map(|part| part.rect), Some(Rect::new(32, 32, 80, 64)));
}

#[test]
fn video_behind_a_compositor_is_found() {
    let mut model = model();
    let (window, composed) = (picture(&mut model, 70, 60), model.create(128, 96, true));
    let (size, place) = (Size { width: 32, height: 20 }, Rect::new(10, 10, 50, 40));
    let video = Drawn::Video { port: 3, layout: VideoLayout::Yuv420, size, crop: size.rect(), place };
    model.draw(window, &[Rect::new(10, 10, 50, 40)], video, Alpha::Opaque);
    model.copy(window, composed, &[Rect::new(20, 20, 90, 80)], (20, 20), true);
    model.copy(composed, SCREEN, &[SIZE.rect()], (0, 0), false);
    assert!(parts(&model).contains(&Part { rect: Rect::new(30, 30, 70, 60), what: Proposal::Video(3) }));
    // Controls over its lower edge.
    model.draw(SCREEN, &[Rect::new(30, 50, 70, 60)], Drawn::Solid(WHITE), Alpha::Opaque);
    assert!(parts(&model).contains(&Part { rect: Rect::new(30, 30, 70, 50), what: Proposal::Video(3) }));
}

#[test]
fn what_pixmaps_hold_tells_what_the_pixels_will_cost() {
    let mut drawables = Drawables::new(SIZE, Broken::default());
    let mut effect = Effect::default();
    let id = DrawableId(1);
    drawables.create(id, SIZE, true);
    drawables.draw(id, &SIZE.rect(), Drawn::Solid(WHITE), Alpha::Opaque);
    drawables.draw(id, &Rect::new(0, 0, 64, 16), Drawn::Glyphs, Alpha::Kept);
    drawables.draw(id, &Rect::new(0, 48, 64, 96), Drawn::Image, Alpha::Opaque);
    let copy = super::CopyOp { src: id, dst: SCREEN, dx: 0, dy: 0, over: false };
    drawables.copy(copy, &[Rect::new(0, 0, 64, 20)], &mut effect);
    assert_eq!(effect.kinds, Kinds::GLYPHS.with(Kinds::SOLID));
    drawables.copy(copy, &[Rect::new(0, 48, 64, 96)], &mut effect);
    assert_eq!(effect.kinds, Kinds::IMAGE);
}

/// What a driver sends is checked by thinc-ring against X's limits, not against the drawable's size.
#[test]
fn records_past_a_drawables_edge_are_clipped() {
    let mut model = model();
    let buffer = picture(&mut model, 20, 20);
    let far = Rect::new(0, 0, 3000, 3000);
    let record = |kind| thinc_ring::DrawRecord { op: 9_000, more: false, window: 0, kind };
    for (src, dst) in [(buffer, SCREEN), (SCREEN, buffer), (buffer, buffer), (SCREEN, SCREEN)] {
        for over in [false, true] {
            model.translator.record(&record(RecordKind::Copy { src, dst, rect: far, dx: -7, dy: -5, over }));
            model.translator.record(&record(RecordKind::Copy {
                src,
                dst,
                rect: far.translate(9, 9),
                dx: 9,
                dy: 9,
                over,
            }));
        }
        let draw = RecordKind::Draw { dst, rect: far, what: Drawn::Glyphs, alpha: Alpha::Unknown };
        model.translator.record(&record(draw));
        let draw = RecordKind::Draw { dst, rect: far.translate(2500, 0), what: Drawn::Image, alpha: Alpha::Unknown };
        model.translator.record(&record(draw));
        model.translator.drawables().check_invariants();
    }
}

#[test]
fn more_pixmaps_than_are_remembered_are_unknown_and_not_more_memory() {
    let mut drawables = Drawables::new(SIZE, Broken::default());
    let size = Size { width: 1000, height: 1000 };
    for id in 1..5_000 {
        drawables.create(DrawableId(id), size, true);
        drawables.draw(DrawableId(id), &Rect::new(1, 1, 500, 500), Drawn::Image, Alpha::Opaque);
        if id % 7 == 0 {
            drawables.destroy(DrawableId(id - 3));
        }
    }
    drawables.check_invariants();
    assert!(drawables.pool.tiles_held() * 4 <= 8 << 20, "tiles have a bound");
}

#[test]
fn parts_have_a_bound_and_the_largest_are_told() {
    let mut model = model();
    model.draw(SCREEN, &[SIZE.rect()], Drawn::Other, Alpha::Opaque);
    for i in 0..48 {
        let rect = Rect::at(i % 8 * 16, i / 8 * 16, 16, 16);
        model.draw(SCREEN, &[rect], Drawn::Solid(i.cast_unsigned()), Alpha::Opaque);
    }
    model.resize(Size { width: 400, height: 400 });
    for i in 0..400 {
        let rect = Rect::at(i % 20 * 16, i / 20 * 16, 16, if i < 20 { 32 } else { 16 });
        model.draw(SCREEN, &[rect], Drawn::Solid(i.cast_unsigned()), Alpha::Opaque);
    }
    assert_eq!(parts(&model).len(), PARTS_MAX);
}
