//! A plan sends exactly the differences, lossless and in tight rectangles.

mod model;

use model::{Screen, hinted, noise, rect_of, step};
use proptest::prelude::*;
use thinc_pixels::coverage::Line;
use thinc_pixels::{
    Claim, Content, Hint, HintStats, Hints, PlanSettings, Planned, RGB, Shadow, Snapshot, plan,
    plan_with,
};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 200, height: 150 };

fn known_screen(color: u32) -> (Screen, Shadow, Screen) {
    model::known_screen(SIZE, color)
}

#[test]
fn equal_pixels_are_not_sent_and_the_top_byte_is_ignored() {
    let (mut screen, mut shadow, mut viewer) = known_screen(0x00ff_ffff);
    screen.pixels.iter_mut().for_each(|p| *p |= 0xab00_0000);
    assert_eq!(step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer), []);
}

#[test]
fn one_changed_pixel_is_one_planned_pixel() {
    let (mut screen, mut shadow, mut viewer) = known_screen(0);
    let dot = Rect::at(77, 91, 1, 1);
    screen.draw(&dot, |_, _| 0x00ab_cdef);
    let planned = step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    assert_eq!(planned, [Planned::Solid { region: dot.into(), color: 0x00ab_cdef }]);
}

#[test]
fn a_glyph_and_a_cursor_are_two_small_rectangles() {
    let (mut screen, mut shadow, mut viewer) = known_screen(0x00ff_ffff);
    // The glyph overlaps four cells of the grid; its pixels fill its box.
    screen.draw(&Rect::at(90, 57, 6, 13), |x, y| {
        if x == y / 3 || x == 5 || y == 12 || x + y == 0 { 0 } else { 0x00ff_ffff }
    });
    screen.draw(&Rect::at(96, 57, 6, 13), |_, _| 0);
    let planned = step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    assert_eq!(
        planned,
        [Planned::TwoColor { rect: Rect::at(90, 57, 12, 13), fg: 0x00ff_ffff, bg: 0 }]
    );
}

#[test]
fn kinds_are_distinguished() {
    let (mut screen, mut shadow, mut viewer) = known_screen(0x00ff_ffff);
    let weave = Rect::at(3, 5, 70, 40);
    screen.draw(&weave, |x, y| if (x + y) % 2 == 0 { 0 } else { 0x0080_8080 });
    assert_eq!(
        step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer),
        [Planned::Pattern { rect: weave, tile_width: 2, tile_height: 2 }]
    );
    let tiles = Rect::at(3, 50, 90, 45);
    screen.draw(&tiles, |x, y| noise(1, x % 7, y % 5) & RGB);
    assert_eq!(
        step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer),
        [Planned::Pattern { rect: tiles, tile_width: 7, tile_height: 5 }]
    );
    let text = Rect::at(100, 5, 50, 14);
    let line = Line::new(0x0020_2020, 0x00ff_ffff);
    screen.draw(&text, |x, y| {
        let corner = (x, y) == (0, 0) || (x, y) == (49, 13);
        line.pixel(if corner { 255 } else { noise(2, x, y) as u8 & 0xf0 | 8 })
    });
    let planned = step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    assert!(
        matches!(planned.as_slice(), [Planned::Coverage { rect, fg, bg }]
            if *rect == text && [*fg, *bg].contains(&0x0020_2020)),
        "{planned:?}"
    );
    let photo = Rect::at(100, 40, 60, 60);
    screen.draw(&photo, |x, y| noise(3, x, y) & RGB & !0x00ff_0000 | 0x0010_0000);
    let planned = step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    assert_eq!(planned, [Planned::Pixels { rect: photo, content: Content::Unknown }]);
}

#[test]
fn claimed_solids_are_sent_as_solids_and_text_is_marked() {
    let (mut screen, mut shadow, mut viewer) = known_screen(0);
    let (photo, panel, text) =
        (Rect::at(0, 0, 200, 150), Rect::at(20, 20, 100, 110), Rect::at(30, 30, 50, 8));
    screen.draw(&photo, |x, y| noise(3, x, y) & RGB);
    screen.draw(&panel, |_, _| 0x00ee_eeee);
    let parts = [
        Hint { rect: panel, claim: Claim::Solid(0x00ee_eeee) },
        Hint { rect: Rect::at(0, 0, 200, 20), claim: Claim::Image },
    ];
    let hints = Hints { shown: &Region::new(), parts: &parts };
    let (planned, stats) = hinted(&screen, &SIZE.rect().into(), &hints, &mut shadow, &mut viewer);
    assert_eq!(stats, HintStats { confirmed: panel.area(), refuted: 0 });
    assert!(
        planned.contains(&Planned::Solid { region: panel.into(), color: 0x00ee_eeee }),
        "{planned:?}"
    );
    let top = Planned::Pixels { rect: Rect::at(0, 0, 200, 20), content: Content::Image };
    assert!(planned.contains(&top), "{planned:?}");
    screen.draw(&text, |x, y| noise(4, x, y) & RGB);
    let parts = [Hint { rect: text, claim: Claim::Text }];
    let hints = Hints { shown: &Region::new(), parts: &parts };
    let (planned, _) = hinted(&screen, &SIZE.rect().into(), &hints, &mut shadow, &mut viewer);
    assert_eq!(planned, [Planned::Pixels { rect: text, content: Content::Text }]);
}

#[test]
fn a_large_tile_is_searched_for_if_a_pattern_is_claimed() {
    let (mut screen, mut shadow, mut viewer) = known_screen(0);
    let wall = Rect::at(0, 0, 200, 140);
    screen.draw(&wall, |x, y| noise(7, x % 20, y % 70) & RGB);
    let parts = [Hint { rect: wall, claim: Claim::Pattern }];
    let hints = Hints { shown: &Region::new(), parts: &parts };
    let (planned, _) = hinted(&screen, &SIZE.rect().into(), &hints, &mut shadow, &mut viewer);
    assert_eq!(planned, [Planned::Pattern { rect: wall, tile_width: 20, tile_height: 70 }]);
}

#[test]
fn refuted_hints_are_counted_and_the_actual_pixels_are_sent() {
    let (mut screen, mut shadow, mut viewer) = known_screen(0);
    let panel = Rect::at(20, 20, 100, 110);
    screen.draw(&panel, |_, _| 0x00ee_eeee);
    screen.draw(&Rect::at(60, 60, 3, 2), |_, _| 0x0012_3456);
    screen.draw(&Rect::at(70, 60, 1, 1), |_, _| 0x0065_4321);
    let parts = [Hint { rect: panel, claim: Claim::Solid(0x00ee_eeee) }];
    let shown = Region::from(Rect::at(0, 0, 21, 21));
    let (_, stats) = hinted(
        &screen,
        &SIZE.rect().into(),
        &Hints { shown: &shown, parts: &parts },
        &mut shadow,
        &mut viewer,
    );
    let right = panel.area() - 7 + shown.area() - 1;
    assert_eq!(
        stats,
        HintStats { confirmed: right, refuted: 8 },
        "seven pixels of the panel, and one that was not shown"
    );
}

#[test]
fn margins_are_split_off() {
    let mut screen = Screen::new(SIZE, 0x0033_6699);
    let window = Rect::at(50, 40, 100, 70);
    screen.draw(&window, |_, _| 0x00ff_ffff);
    let photo = Rect::at(90, 80, 40, 20);
    screen.draw(&photo, |x, y| noise(4, x, y) & RGB);
    let (mut shadow, mut viewer) = (Shadow::new(SIZE), Screen::new(SIZE, 0));
    let planned = step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    let pixels: u64 = planned
        .iter()
        .map(|p| if let Planned::Pixels { rect, .. } = p { rect.area() } else { 0 })
        .sum();
    assert!(pixels <= 60 * 30, "{planned:?}");
    let solids = planned.iter().filter(|p| matches!(p, Planned::Solid { .. })).count();
    assert_eq!(solids, 2, "one region per colour: {planned:?}");
}

#[test]
fn copies_carry_the_known_and_the_lossy_region() {
    let (mut screen, mut shadow, mut viewer) = known_screen(0);
    screen.draw(&Rect::at(10, 10, 20, 20), |x, y| noise(5, x, y));
    step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    shadow.mark_lossy(&Rect::at(10, 10, 5, 5).into());
    shadow.mark_stale(&Rect::at(25, 25, 5, 5).into());
    let target = Region::from(Rect::at(40, 30, 20, 20));
    shadow.copy(&target, 30, 20);
    assert!(shadow.lossy().contains_rect(&Rect::at(40, 30, 5, 5)));
    assert!(!shadow.known().overlaps_rect(&Rect::at(55, 45, 5, 5)));
    assert!(shadow.known().contains_rect(&Rect::at(45, 35, 10, 10)));
    // The same on the screen: only the lossy and the unknown part is sent.
    let before = screen.clone();
    screen.draw(&Rect::at(40, 30, 20, 20), |x, y| before.at(x + 10, y + 10));
    viewer.draw(&Rect::at(40, 30, 20, 20), |x, y| before.at(x + 10, y + 10) & RGB);
    let planned = step(&screen, &target, &mut shadow, &mut viewer);
    let area: u64 = planned.iter().map(|p| rect_of(p).area()).sum();
    assert!((50..=16 * 16 * 8).contains(&area), "{planned:?}");
}

/// A page: lines of text, all different, on white.
fn page(screen: &mut Screen, view: &Rect, scroll: i32) {
    screen.draw(view, |x, y| {
        let y = y + scroll;
        let ink = y % 14 > 3 && noise(77, x / 2, y) & 3 == 0;
        if ink { noise(78, x / 30, y / 14) & 0x003f_3f3f } else { 0x00ff_ffff }
    });
}

#[test]
fn a_scroll_is_found_without_a_hint() {
    let view = Rect::at(8, 10, 160, 130);
    for (scroll, bar) in [(17, false), (-40, false), (30, true)] {
        let (mut screen, mut shadow, mut viewer) = known_screen(0x00ff_ffff);
        page(&mut screen, &view, 100);
        step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
        page(&mut screen, &view, 100 + scroll);
        if bar {
            // A scroll bar at the right edge moves in the other direction.
            screen.draw(&Rect::at(160, 10, 8, 130), |x, y| noise(5, x, y / 9) & RGB);
        }
        let planned = step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
        assert!(
            matches!(planned.first(), Some(Planned::Shift { dy, .. }) if *dy == -scroll),
            "{scroll}: {planned:?}"
        );
        let rest: u64 = planned[1..].iter().map(|p| rect_of(p).area()).sum();
        let most = view.width() as u64 * (scroll.unsigned_abs() as u64 + 8)
            + if bar { 48 * 130 } else { 0 };
        assert!(rest <= most, "{rest} pixels are sent, at most {most} allowed: {planned:?}");
    }
}

#[test]
fn unscrolled_content_is_not_moved() {
    let view = Rect::at(8, 10, 160, 130);
    let (mut screen, mut shadow, mut viewer) = known_screen(0x00ff_ffff);
    page(&mut screen, &view, 0);
    step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    page(&mut screen, &view, 5000);
    let planned = step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    assert!(!planned.iter().any(|p| matches!(p, Planned::Shift { .. })), "{planned:?}");
    // A scroll, but the viewer is not known to show the page.
    page(&mut screen, &view, 5017);
    shadow.mark_lossy(&view.into());
    let planned = step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    assert!(!planned.iter().any(|p| matches!(p, Planned::Shift { .. })), "{planned:?}");
}

#[test]
fn changes_in_every_other_cell_become_few_rectangles() {
    // More changes than a plan may have: 128 x 64 cells, each with a dot, too far apart to be
    // joined.
    let size = Size { width: 4096, height: 2048 };
    let mut shadow = Shadow::new(size);
    let mut snapshot = Snapshot::new();
    let mut planned = Vec::new();
    snapshot.fill(&size.rect().into(), |_, dst, _| dst.fill(0));
    plan(&snapshot, &mut shadow, &mut planned);
    snapshot.fill(&size.rect().into(), |_, dst, stride| {
        dst.fill(0);
        let row = |y| (0..4096).step_by(32).map(move |x| (x, y));
        for (x, y) in (0..2048).step_by(32).flat_map(row) {
            dst[(y + 5) * stride + x + 5] = (x * y + 1) as u32 & RGB;
        }
    });
    planned.clear();
    plan(&snapshot, &mut shadow, &mut planned);
    assert!(planned.len() <= 1100, "{} commands", planned.len());
    assert!(shadow.pixels().iter().eq(snapshot.rows(&size.rect()).flatten()));
}

#[test]
fn constant_change_becomes_a_video_which_is_not_searched_for_patterns() {
    let (mut screen, mut shadow, _) = known_screen(0);
    let player = Rect::at(64, 0, 128, 128);
    let mut contents = Vec::new();
    for frame in 0..32 {
        screen.draw(&player, |x, y| noise(frame, x % 16, y % 16) & RGB);
        let snapshot = screen.snapshot(&player.into());
        let settings = PlanSettings { now: u64::from(frame) * 42_000, ..PlanSettings::default() };
        let mut planned = Vec::new();
        plan_with(&snapshot, &mut shadow, &Hints::NONE, settings, &mut planned);
        contents.push(match planned.as_slice() {
            [Planned::Pixels { rect, content }] if *rect == player => Some(*content),
            [Planned::Pattern { rect, .. }] if *rect == player => None,
            other => panic!("frame {frame}: {other:?}"),
        });
    }
    let from = contents.iter().position(Option::is_some).expect("it becomes a video");
    assert!((12..24).contains(&from), "it starts as a pattern: {contents:?}");
    assert!(contents[from..].iter().all(|content| *content == Some(Content::Video)));
}

fn rect() -> impl Strategy<Value = Rect> {
    (0i32..200, 0i32..150, 1i32..90, 1i32..70)
        .prop_map(|(x, y, w, h)| Rect::at(x, y, w, h).intersect(&SIZE.rect()))
}

#[derive(Clone, Debug)]
enum Op {
    Fill(Rect, u32),
    Bits(Rect, u32),
    Gray(Rect, u32),
    Tiles(Rect, u32, i32, i32),
    Photo(Rect, u32),
    /// Scrolls a page.
    Page(i32),
    /// Commits a COPY, with or (wrongly) without a move on the screen.
    Copy(Rect, i32, i32, bool),
    Send(Vec<Rect>),
    /// The same, with hints that may be wrong.
    Said(Vec<Rect>, Vec<(Rect, u8)>),
    Stale(Rect),
    Lossy(Rect),
    Reset,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (rect(), any::<u32>()).prop_map(|(r, c)| Op::Fill(r, c)),
        2 => (rect(), any::<u32>()).prop_map(|(r, c)| Op::Bits(r, c)),
        2 => (rect(), any::<u32>()).prop_map(|(r, c)| Op::Gray(r, c)),
        2 => (rect(), any::<u32>(), 1i32..20, 1i32..20)
            .prop_map(|(r, c, w, h)| Op::Tiles(r, c, w, h)),
        1 => (rect(), any::<u32>()).prop_map(|(r, c)| Op::Photo(r, c)),
        3 => (-60i32..60).prop_map(Op::Page),
        3 => (rect(), -30i32..30, -30i32..30, any::<bool>())
            .prop_map(|(r, dx, dy, truly)| Op::Copy(r, dx, dy, truly)),
        6 => proptest::collection::vec(rect(), 1..6).prop_map(Op::Send),
        3 => (
            proptest::collection::vec(rect(), 1..6),
            proptest::collection::vec((rect(), any::<u8>()), 0..6),
        ).prop_map(|(rects, said)| Op::Said(rects, said)),
        2 => rect().prop_map(Op::Stale),
        1 => rect().prop_map(Op::Lossy),
        1 => Just(Op::Reset),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_viewer_shows_any_drawing(
        seed in any::<u32>(),
        ops in proptest::collection::vec(op(), 1..14),
    ) {
        let mut screen = Screen::new(SIZE, 0x0044_5566);
        let (mut shadow, mut viewer) = (Shadow::new(SIZE), Screen::new(SIZE, 0));
        // Mostly a screen that the viewer shows, sometimes an unknown one.
        if seed % 4 != 0 {
            screen.draw(&SIZE.rect(), |x, y| noise(seed, x / 9, y / 7));
            step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
        }
        for op in ops {
            match op {
                Op::Fill(r, c) => screen.draw(&r, |_, _| c),
                Op::Bits(r, c) => {
                    screen.draw(&r, |x, y| if noise(c, x, y) & 1 == 1 { c } else { !c })
                }
                Op::Gray(r, c) => {
                    let line = Line::new(c, !c);
                    screen.draw(&r, |x, y| line.pixel(noise(c, x, y) as u8));
                }
                Op::Tiles(r, c, w, h) => screen.draw(&r, |x, y| noise(c, x % w, y % h)),
                Op::Page(scroll) => page(&mut screen, &Rect::at(11, 9, 150, 120), 500 + scroll),
                Op::Photo(r, c) => screen.draw(&r, |x, y| noise(c, x, y)),
                Op::Copy(r, dx, dy, truly) => {
                    // The viewer applies it to its pixels, the shadow to the known ones.
                    let mut region = Region::from(r);
                    region.intersect_rect(&SIZE.rect().translate(dx, dy));
                    shadow.copy(&region, dx, dy);
                    let moved = [Some(&mut viewer), truly.then_some(&mut screen)];
                    for moved in moved.into_iter().flatten() {
                        let before = moved.clone();
                        for rect in region.rects() {
                            moved.draw(rect, |x, y| before.at(rect.x1 + x - dx, rect.y1 + y - dy));
                        }
                    }
                }
                Op::Send(rects) => {
                    step(&screen, &rects.into_iter().collect(), &mut shadow, &mut viewer);
                }
                Op::Said(rects, said) => {
                    let claim = |&(rect, what): &(Rect, u8)| {
                        let color = screen.at(rect.x1, rect.y1) & RGB;
                        let claim = match what % 5 {
                            0 => Claim::Text,
                            1 => Claim::Image,
                            2 => Claim::Pattern,
                            3 => Claim::Solid(color),
                            _ => Claim::Solid(!color & RGB),
                        };
                        Hint { rect, claim }
                    };
                    let parts: Vec<Hint> = said.iter().map(claim).collect();
                    let region: Region = rects.iter().copied().collect();
                    let shown = region.intersection(&said.iter().map(|&(rect, _)| rect).collect());
                    let hints = Hints { shown: &shown, parts: &parts };
                    hinted(&screen, &region, &hints, &mut shadow, &mut viewer);
                }
                Op::Stale(r) => {
                    shadow.mark_stale(&r.into());
                    viewer.draw(&r, |x, y| noise(9, x, y) & RGB);
                }
                Op::Lossy(r) => {
                    shadow.mark_lossy(&r.into());
                    viewer.draw(&r, |x, y| noise(8, x, y) & RGB);
                }
                Op::Reset => shadow.reset(),
            }
        }
        step(&screen, &SIZE.rect().into(), &mut shadow, &mut viewer);
    }
}
