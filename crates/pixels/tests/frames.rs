//! What moves in the frames of programs that draw whole windows, and what is text there: frames as
//! OpenGL programs and toolkits draw them, plan by plan. What moves may be lossy, text never is.

use thinc_pixels::{Claim, Hint, Hints, PlanSettings, Planned, RGB, Shadow, Snapshot, plan_with};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 640, height: 480 };
const WINDOW: Rect = Rect::new(21, 13, 620, 470);
const GROUND: u32 = 0x30_3438;
const MENU_GROUND: u32 = 0x18_1818;
/// 60 frames a second.
const FRAME: u64 = 16_667;
const TEXT: Rect = Rect::at(100, 96, 160, 64);

/// A screen with one window, and a viewer's shadow.
struct Screen {
    pixels: Vec<u32>,
    shadow: Shadow,
    planned: Vec<Planned>,
    now: u64,
}

impl Screen {
    fn new() -> Screen {
        let pixels = vec![GROUND; SIZE.area() as usize];
        let mut screen =
            Screen { pixels, shadow: Shadow::new(SIZE), planned: Vec::new(), now: FRAME };
        screen.plan(&SIZE.rect().into(), &[], false, &[]);
        screen
    }

    fn paint(&mut self, rect: Rect, pixel: impl Fn(i32, i32) -> Option<u32>) {
        let rect = rect.intersect(&WINDOW);
        for y in rect.y1..rect.y2 {
            for x in rect.x1..rect.x2 {
                let at = (y * SIZE.width as i32 + x) as usize;
                self.pixels[at] = pixel(x, y).unwrap_or(self.pixels[at]);
            }
        }
    }

    fn clear(&mut self) {
        self.paint(WINDOW, |_, _| Some(GROUND));
    }

    /// A lit ball, which turns: its surface is another one in each frame.
    fn ball(&mut self, (x, y): (i32, i32), radius: i32, turned: i32) {
        self.paint(Rect::at(x - radius, y - radius, 2 * radius, 2 * radius), |px, py| {
            let (dx, dy) = (px - x, py - y);
            let inside = radius * radius - dx * dx - dy * dy;
            let light = (f64::from(inside.max(0)).sqrt() - f64::from(dx + dy) * 0.4) as i32;
            let grain = (px * 3 + py * 5 + turned * 7) % 11;
            let level = (60 + light * 130 / radius + grain).clamp(20, 250) as u32;
            (inside > 0).then_some(level << 16 | (level * 3 / 4) << 8 | (level / 3))
        });
    }

    /// The study's scene in small: balls on plain ground, which go round.
    fn balls(&mut self, number: i32) {
        self.clear();
        for ball in 0..6 {
            let angle = f64::from(number) * 0.06 + f64::from(ball);
            let far = f64::from(120 + ball * 15);
            let at = (320.0 + far * angle.cos(), 240.0 + far * angle.sin() * 0.9);
            self.ball((at.0 as i32, at.1 as i32), 30 + ball * 3, number);
        }
    }

    /// Glyphs with soft edges on a ground of one colour.
    fn text(&mut self, rect: Rect, seed: u32, ground: Option<u32>) {
        self.paint(rect, |x, y| match coverage(x, y, seed) {
            0 => ground,
            level => Some((0xf0 * level + 0x20 * (3 - level)) / 3 * 0x01_0101),
        });
    }

    /// Blender's: half of the neighbours in its glyphs differ by less than an edge. A line between
    /// two entries has no edge.
    fn menu(&mut self, menu: Rect, entries: Rect) {
        self.paint(menu, |_, y| Some(if y % 48 == 0 { 0x2c_2c2c } else { MENU_GROUND }));
        self.paint(entries, |x, y| match (-1..=1).map(|dx| coverage(x + dx, y, 7)).sum::<u32>() {
            0 => None,
            level => Some(MENU_GROUND + level * 20 * 0x01_0101),
        });
    }

    fn plan(&mut self, region: &Region, frames: &[Rect], lossy_frames: bool, parts: &[Hint]) {
        let mut snapshot = Snapshot::new();
        let (pixels, width) = (&self.pixels, SIZE.width as usize);
        snapshot.fill(region, |rect, to, stride| {
            for (row, y) in (rect.y1..rect.y2).enumerate() {
                let from = y as usize * width + rect.x1 as usize;
                to[row * stride..][..rect.width() as usize]
                    .copy_from_slice(&pixels[from..][..rect.width() as usize]);
            }
        });
        self.planned.clear();
        let settings =
            PlanSettings { now: self.now, frames, lossy_frames, ..PlanSettings::default() };
        let none = Region::new();
        let hints = Hints { shown: &none, parts };
        plan_with(&snapshot, &mut self.shadow, &hints, settings, &mut self.planned);
    }

    /// A frame is shown. Returns what of it is lossy.
    fn show(&mut self) -> Region {
        self.show_with(&[])
    }

    fn show_with(&mut self, parts: &[Hint]) -> Region {
        self.now += FRAME;
        self.plan(&WINDOW.into(), &[WINDOW], true, parts);
        let lossy = self.lossy();
        // The shadow has the screen's pixels, and knows which of them the viewer shows lossy.
        assert!(lossy.difference(self.shadow.lossy()).is_empty());
        let shown = self.shadow.pixels().iter().zip(&self.pixels);
        assert_eq!(shown.filter(|(shown, pixel)| (*shown ^ *pixel) & RGB != 0).count(), 0);
        lossy
    }

    fn lossy(&self) -> Region {
        let mut region = Region::new();
        let mut frame = Rect::default();
        for planned in &self.planned {
            match planned {
                Planned::Frame { rect } => {
                    assert!(!region.overlaps_rect(rect), "none twice");
                    region.add_rect(*rect);
                    frame = *rect;
                }
                Planned::Pixels { rect, .. } => {
                    let over = region.overlaps_rect(rect);
                    assert!(!over || frame.contains(rect), "what is exact in one follows it");
                    region.subtract_rect(rect);
                }
                _ => {}
            }
        }
        region
    }
}

/// How much of a pixel a glyph covers, of 3.
fn coverage(x: i32, y: i32, seed: u32) -> u32 {
    let (column, row) = ((x / 9) as u32, (y / 16) as u32);
    let glyph = (column.wrapping_mul(0x9e37_79b9) ^ row.wrapping_mul(0x85eb_ca6b) ^ seed)
        .wrapping_mul(0xc2b2_ae35)
        >> 8;
    let (dx, dy) = (x % 9, y % 16);
    if !(1..8).contains(&dx) || !(3..13).contains(&dy) {
        return 0;
    }
    // Stems and bars, each a pixel and a soft one beside it.
    match glyph % 4 {
        0 if dx == 2 => 3,
        0 if dx == 3 => 1,
        1 if dx == 5 || dy == 7 => 3,
        1 if dx == 6 => 2,
        2 if dy == 4 || dy == 11 => 3,
        3 if dx == dy / 2 + 1 => 3,
        _ => 0,
    }
}

#[test]
fn lit_things_that_move_over_plain_ground_are_lossy_from_the_fourth_frame_on() {
    let mut screen = Screen::new();
    for number in 0..40 {
        screen.balls(number);
        let before = screen.shadow.pixels().to_vec();
        let lossy = screen.show();
        if number < 3 {
            assert!(lossy.is_empty(), "frame {number}: it may be the only one");
            continue;
        }
        let differs = |at: usize| (before[at] ^ screen.pixels[at]) & RGB != 0;
        // A ball that looks the same where it is now was moved, not drawn.
        let moved = |planned: &Planned| match planned {
            Planned::Shift { region, .. } => Some(region.extents()),
            _ => None,
        };
        let moved: Region = screen.planned.iter().filter_map(moved).collect();
        let (mut changed, mut exact) = (0, 0);
        for at in (0..screen.pixels.len()).filter(|&at| differs(at)) {
            let (x, y) = (at as i32 % SIZE.width as i32, at as i32 / SIZE.width as i32);
            if !moved.contains_point(x, y) {
                changed += 1;
                exact += u32::from(!lossy.contains_point(x, y));
            }
        }
        assert!(changed > 10_000, "{changed}");
        if number >= 8 {
            assert!(exact * 4 < changed, "frame {number}: {exact} of {changed} pixels are exact");
            let rects = screen.planned.len();
            assert!(rects < 160, "frame {number}: {rects} rectangles");
        }
    }
}

#[test]
fn text_that_rests_in_front_of_what_moves_is_exact() {
    let mut screen = Screen::new();
    for number in 0..60 {
        screen.balls(number);
        for y in (32..400).step_by(60) {
            screen.text(Rect::at(30, y, 560, 16), y as u32, None);
        }
        let lossy = screen.show();
        if number >= 8 {
            let mut glyphs = 0;
            for (at, &pixel) in screen.pixels.iter().enumerate() {
                let (x, y) = (at as i32 % SIZE.width as i32, at as i32 / SIZE.width as i32);
                if pixel & RGB == 0xf0_f0f0 && lossy.contains_point(x, y) {
                    glyphs += 1;
                }
            }
            assert!(glyphs < 40, "frame {number}: {glyphs} pixels of glyphs are lossy");
        }
    }
}

#[test]
fn a_menu_over_what_moves_is_exact_from_its_first_frame_on() {
    let mut screen = Screen::new();
    for number in 0..60 {
        screen.balls(number);
        let menu = Rect::at(250, 130, 200, 240);
        if number >= 20 {
            screen.paint(menu, |_, _| Some(0x20_2020));
            screen.text(menu, 7, None);
        }
        let lossy = screen.show();
        if number >= 20 {
            // Whole cells of the menu: at its edge what moves has its own.
            let inside = Rect::new(256, 144, 448, 368);
            assert!(!lossy.overlaps_rect(&inside), "frame {number}: {lossy:?}");
        }
    }
}

#[test]
fn a_menu_of_blurred_text_over_what_moves_is_exact_from_its_first_frame_on() {
    let mut lossy_beside = 0;
    for opened in 20..36 {
        let mut screen = Screen::new();
        for number in 0..opened + 12 {
            screen.balls(number);
            let menu = Rect::at(250 + opened, 130, 200, 240);
            let entries = Rect::at(258 + opened, 138, 184, 224);
            if number >= opened {
                screen.menu(menu, entries);
            }
            let lossy = screen.show();
            if number < opened {
                continue;
            }
            for at in 0..screen.pixels.len() {
                let (x, y) = (at as i32 % SIZE.width as i32, at as i32 / SIZE.width as i32);
                let is_lossy = lossy.contains_point(x, y);
                lossy_beside += u32::from(is_lossy && !menu.contains_point(x, y));
                let is_text = (screen.pixels[at] & 0xff) >= (MENU_GROUND & 0xff) + 24;
                assert!(
                    !is_lossy || !is_text || !entries.contains_point(x, y),
                    "({x}, {y}), frame {number} of {opened}"
                );
            }
        }
    }
    assert!(lossy_beside > 10_000, "{lossy_beside}");
}

#[test]
fn what_did_not_move_is_exact_when_the_shadow_had_forgotten_it() {
    let mut screen = Screen::new();
    for number in 0..30 {
        screen.balls(number);
        screen.show();
    }
    let menu = Rect::at(200, 130, 300, 240);
    screen.balls(30);
    screen.menu(menu, menu);
    // It answers a click, so it is planned by itself; but it is not sent.
    screen.plan(&WINDOW.into(), &[], false, &[]);
    screen.shadow.mark_stale(&menu.into());
    screen.balls(31);
    screen.menu(menu, menu);
    let lossy = screen.show();
    let inside = Rect::new(208, 144, 496, 368);
    assert!(!lossy.is_empty() && !lossy.overlaps_rect(&inside), "{lossy:?}");
}

#[test]
fn text_that_is_another_one_in_each_frame_is_exact() {
    let mut screen = Screen::new();
    for number in 0..40 {
        screen.balls(number);
        screen.paint(TEXT, |_, _| Some(0x20_2020));
        screen.text(TEXT, number as u32, None);
        let lossy = screen.show();
        // Whole cells of it: at its edge what moves has its own.
        let inside = Rect::new(112, 96, 256, 160);
        assert!(!lossy.overlaps_rect(&inside), "frame {number}: {lossy:?}");
    }
}

#[test]
fn what_an_x_client_draws_as_text_is_exact() {
    let mut screen = Screen::new();
    let claim = [Hint { rect: WINDOW, claim: Claim::Text }];
    for number in 0..20 {
        screen.balls(number);
        assert!(screen.show_with(&claim).is_empty(), "frame {number}");
    }
}

#[test]
fn what_stands_still_is_exact_when_it_changes_again() {
    let mut screen = Screen::new();
    for number in 0..20 {
        screen.balls(number);
        screen.show();
    }
    assert!(!screen.lossy().is_empty());
    // A pause: the program waits for its user, then puts frames again.
    screen.now += 1_000_000;
    for number in 21..24 {
        screen.balls(number);
        assert!(screen.show().is_empty(), "frame {number}");
    }
    screen.balls(24);
    assert!(!screen.show().is_empty());
}

#[test]
fn nothing_is_lossy_beside_what_scrolls() {
    let mut screen = Screen::new();
    let page = |x: i32, y: i32| coverage(x, y, 3) * 0x40_4040 + 0x10_1010 + (y as u32 & 0x1f);
    for number in 0..30 {
        // A text view that a toolkit draws by OpenGL.
        screen.paint(WINDOW, |x, y| Some(page(x, y + 5 * number)));
        assert!(screen.show().is_empty(), "frame {number}");
    }
}

#[test]
fn nothing_is_lossy_after_a_copy_until_it_moves_again() {
    let mut screen = Screen::new();
    for number in 0..20 {
        screen.balls(number);
        screen.show();
    }
    assert!(!screen.lossy().is_empty());
    let region = Region::from(Rect::new(30, 60, 600, 430));
    screen.shadow.copy(&region, 0, -30);
    let before = screen.pixels.clone();
    screen
        .paint(region.extents(), |x, y| Some(before[((y + 30) * SIZE.width as i32 + x) as usize]));
    for number in 20..23 {
        screen.balls(number);
        assert!(screen.show().is_empty(), "frame {number}");
    }
}

#[test]
fn frames_that_may_not_be_lossy_say_what_moves() {
    let mut screen = Screen::new();
    for number in 0..20 {
        screen.balls(number);
        screen.now += FRAME;
        screen.plan(&WINDOW.into(), &[WINDOW], false, &[]);
        assert!(screen.lossy().is_empty() && screen.shadow.lossy().is_empty());
    }
    let (pixels, bounds) = screen.shadow.moving();
    assert!(pixels > 5_000 && WINDOW.contains(&bounds), "{pixels} in {bounds:?}");
    screen.now += FRAME;
    screen.plan(&WINDOW.into(), &[], false, &[]);
    assert_eq!(screen.shadow.moving().0, 0, "another plan");
}

#[test]
fn rectangles_of_what_is_strewn_are_bounded() {
    let size = Size { width: 2048, height: 1536 };
    let (mut shadow, mut planned, mut lossy) = (Shadow::new(size), Vec::new(), 0);
    for number in 0..12u32 {
        // A chessboard of cells with shades that change.
        let mut snapshot = Snapshot::new();
        snapshot.fill(&size.rect().into(), |rect, to, stride| {
            for (row, y) in (rect.y1..rect.y2).enumerate() {
                for (x, pixel) in (rect.x1..rect.x2).zip(&mut to[row * stride..]) {
                    let moves = (x / 16 + y / 16) % 2 == 0;
                    let shade = (x as u32 * 3 + y as u32 * 5 + number * 7) % 11 + 90;
                    let still = (x as u32 + y as u32) % 2 * 0x80_8080;
                    *pixel = if moves { shade * 0x01_0101 } else { still };
                }
            }
        });
        planned.clear();
        let frames = [size.rect()];
        let now = u64::from(number) * FRAME;
        let settings =
            PlanSettings { now, frames: &frames, lossy_frames: true, ..PlanSettings::default() };
        plan_with(&snapshot, &mut shadow, &Hints::NONE, settings, &mut planned);
        let is_frame = |planned: &&Planned| matches!(planned, Planned::Frame { .. });
        lossy = planned.iter().filter(is_frame).count();
        assert!(lossy <= 1024, "{lossy} rectangles");
    }
    assert_eq!(lossy, 1024);
}

#[test]
fn parts_of_a_window_are_looked_at_by_themselves() {
    let mut screen = Screen::new();
    let upper = Rect { y2: 240, ..WINDOW };
    for number in 0..20 {
        screen.balls(number);
        screen.now += FRAME;
        for part in [upper, Rect { y1: 240, ..WINDOW }] {
            screen.plan(&part.into(), &[WINDOW], true, &[]);
            let outside = screen.lossy().difference(&part.into());
            assert!(outside.is_empty(), "{outside:?}");
            assert!(number < 8 || !screen.lossy().is_empty());
        }
    }
}
