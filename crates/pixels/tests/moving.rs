//! What of a screen is found to be a video, and what is not: screens as applications draw them, plan by plan, and the time between.

use proptest::prelude::*;
use thinc_pixels::{Claim, Film, Hint, Hints, Lossy, PlanSettings, Planned, RGB, Shadow, Snapshot, plan_with};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 1024, height: 768 };
/// 24 frames a second.
const FRAME: u64 = 41_667;

/// Random numbers, the same every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) as u32
    }

    fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }
}

/// A screen and a viewer of it.
struct Screen {
    pixels: Vec<u32>,
    shadow: Shadow,
    snapshot: Snapshot,
    planned: Vec<Planned>,
    drawn: Region,
    now: u64,
}

impl Screen {
    fn new() -> Screen {
        let mut screen = Screen {
            pixels: vec![0x30_5070; SIZE.area() as usize],
            shadow: Shadow::new(SIZE),
            snapshot: Snapshot::new(),
            planned: Vec::new(),
            drawn: SIZE.rect().into(),
            now: 0,
        };
        screen.show(FRAME);
        screen
    }

    fn paint(&mut self, rect: Rect, pixel: impl Fn(i32, i32) -> u32) {
        for y in rect.y1..rect.y2 {
            for x in rect.x1..rect.x2 {
                self.pixels[(y * SIZE.width as i32 + x) as usize] = pixel(x, y);
            }
        }
        self.drawn.add_rect(rect);
    }

    /// A picture from a camera: soft, with noise, another for each number.
    fn picture(&mut self, rect: Rect, number: i32) {
        self.paint(rect, |x, y| camera(x, y, number));
    }

    /// Letters: two fifths of their cells, hard edges, a ground of one colour.
    fn text(&mut self, rect: Rect, seed: u64) {
        self.paint(rect, |x, y| letters(x, y, seed));
    }

    fn copy(&mut self, rect: Rect, dx: i32, dy: i32) {
        let before = self.pixels.clone();
        self.paint(rect, |x, y| before[((y - dy) * SIZE.width as i32 + x - dx) as usize]);
    }

    /// A plan of what was drawn, after a time.
    fn show(&mut self, after: u64) -> Vec<Rect> {
        self.show_with(after, None, &[])
    }

    fn show_with(&mut self, after: u64, film: Option<&mut Film>, parts: &[Hint]) -> Vec<Rect> {
        self.now += after;
        let (pixels, width) = (&self.pixels, SIZE.width as usize);
        self.snapshot.fill(&self.drawn, |rect, to, stride| {
            for (row, y) in (rect.y1..rect.y2).enumerate() {
                let from = y as usize * width + rect.x1 as usize;
                to[row * stride..][..rect.width() as usize].copy_from_slice(&pixels[from..][..rect.width() as usize]);
            }
        });
        self.drawn.clear();
        self.planned.clear();
        let settings = PlanSettings { lossy: Lossy::Photographs, now: self.now, film, ..PlanSettings::default() };
        let none = Region::new();
        let hints = Hints { shown: &none, parts };
        plan_with(&self.snapshot, &mut self.shadow, &hints, settings, &mut self.planned);
        self.shadow.moving().to_vec()
    }
}

fn camera(x: i32, y: i32, number: i32) -> u32 {
    let wave = |period: f32, speed: f32| {
        ((x as f32 / period + number as f32 * speed).sin() + (y as f32 / period).cos()) * 40.0
    };
    let mut noise = Random((x as u64) << 40 | (y as u64) << 20 | (number as u64 + 1));
    noise.next();
    let mut channel = |value: f32| (value + noise.below(7) as f32).clamp(0.0, 255.0) as u32;
    channel(128.0 + wave(31.0, 0.3)) << 16 | channel(120.0 + wave(43.0, 0.2)) << 8 | channel(110.0 + wave(37.0, 0.4))
}

/// Bits, as `thinc-bench overwrite` draws them: another pair of colours for each number, and nothing stays as it was.
fn bits(x: i32, y: i32, number: i32) -> u32 {
    let mut bit = Random((x as u64) << 40 | (y as u64) << 20 | (number as u64 + 1));
    bit.next();
    if bit.below(2) == 0 { 0x10_1010 } else { 0xb0_b0b0 + (number as u32 & 0x3f) }
}

fn letters(x: i32, y: i32, seed: u64) -> u32 {
    let (column, row) = (x / 8, y / 16);
    let mut letter = Random(seed ^ (column as u64) << 32 ^ (row as u64) << 8 | 1);
    letter.next();
    let strokes = u64::from(letter.next()) << 32 | u64::from(letter.next());
    // Strokes of a letter lie in the middle of its cell, and a third of it is ink.
    let (dx, dy) = (x % 8, y % 16);
    let inside = (1..7).contains(&dx) && (3..13).contains(&dy) && strokes >> ((dx * 10 + dy) % 61) & 3 == 0;
    if inside { 0x10_1010 } else { 0xff_ffff }
}

const PLAYER: Rect = Rect::new(133, 101, 773, 461);

#[test]
fn a_player_is_found_at_the_pixel_and_stays_as_it_is() {
    let mut screen = Screen::new();
    let mut found = Vec::new();
    for frame in 0..200 {
        screen.picture(PLAYER, frame);
        found.push(screen.show(FRAME));
    }
    let first = found.iter().position(|areas| !areas.is_empty()).expect("it is found");
    assert!((12..36).contains(&first), "after {first} frames");
    assert!(
        found[first..].iter().all(|areas| areas == &[PLAYER]),
        "{:?}",
        found[first..].iter().find(|a| *a != &[PLAYER])
    );
    // It is paused, and somebody types elsewhere.
    for key in 0..10 {
        screen.text(Rect::at(8 * key, 700, 8, 16), 7);
        found.push(screen.show(200_000));
    }
    assert!(found.last().is_some_and(Vec::is_empty), "it rests");
}

#[test]
fn a_head_before_a_ground_that_stands_is_one_area() {
    let mut screen = Screen::new();
    let head = Rect::new(300, 140, 500, 461);
    screen.picture(PLAYER, 0);
    screen.show(FRAME);
    let mut shapes = Vec::new();
    for frame in 0..240 {
        screen.picture(head, frame);
        // Of the ground, blocks that were coded anew.
        for block in 0..6 {
            let at = (frame * 7 + block * 13) % 220;
            screen.picture(Rect::at(PLAYER.x1 + at % 40 * 16, PLAYER.y1 + at / 40 * 16, 16, 16), frame);
        }
        screen.drawn.add_rect(PLAYER);
        shapes.push(screen.show(FRAME));
    }
    shapes.dedup();
    assert!(shapes.len() <= 4, "an encoder is begun anew for each shape: {shapes:?}");
    assert!(shapes.last().is_some_and(|areas| areas.len() == 1 && areas[0].contains(&head)), "{shapes:?}");
}

#[test]
fn two_players_are_two_areas() {
    let mut screen = Screen::new();
    let other = Rect::new(800, 530, 1000, 730);
    let mut areas = Vec::new();
    for frame in 0..100 {
        screen.picture(PLAYER, frame);
        if frame % 2 == 0 {
            screen.picture(other, frame);
        }
        areas = screen.show(FRAME);
    }
    assert_eq!(areas, [PLAYER, other]);
}

#[test]
fn typing_a_caret_and_a_clock_are_none() {
    let mut screen = Screen::new();
    screen.text(PLAYER, 1);
    screen.show(FRAME);
    for step in 0..400 {
        let (column, row) = (step % 70, step / 70);
        screen.text(Rect::at(136 + column * 8, 112 + row * 16, 8, 16), step as u64);
        let caret = Rect::at(144 + column * 8, 112 + row * 16, 2, 16);
        screen.paint(caret, |_, _| if step % 2 == 0 { 0 } else { 0xff_ffff });
        screen.text(Rect::at(900, 0, 120, 16), step as u64);
        assert!(screen.show(30_000).is_empty(), "step {step}");
    }
}

#[test]
fn text_that_is_new_in_every_plan_is_none() {
    let mut screen = Screen::new();
    for page in 0..200 {
        screen.text(PLAYER, page);
        assert!(screen.show(FRAME).is_empty(), "page {page}");
    }
}

#[test]
fn a_page_that_scrolls_is_none() {
    // A page of text with a large photograph in it, at several speeds, down and up.
    for step in [3, 16, 60, 200] {
        let mut screen = Screen::new();
        let page = |x: i32, y: i32| if (y / 500) % 2 == 0 { camera(x, y, 0) } else { letters(x, y, 3) };
        for frame in 0..240 {
            let top = if frame < 120 { frame * step } else { (240 - frame) * step };
            screen.paint(PLAYER, |x, y| page(x, y + top));
            assert!(screen.show(16_667).is_empty(), "by {step}, frame {frame}");
        }
    }
}

#[test]
fn a_window_that_is_dragged_is_none() {
    let mut screen = Screen::new();
    screen.picture(SIZE.rect(), 0);
    screen.show(FRAME);
    for step in 0..200 {
        let before = Rect::at(100 + (step * 3 % 400), 100 + step, 300, 200);
        let after = Rect::at(100 + ((step + 1) * 3 % 400), 101 + step, 300, 200);
        screen.picture(before, 0);
        screen.text(after, 9);
        assert!(screen.show(16_667).is_empty(), "step {step}");
    }
}

#[test]
fn pictures_that_follow_each_other_slowly_are_none() {
    let mut screen = Screen::new();
    for slide in 0..60 {
        screen.picture(PLAYER, slide);
        assert!(screen.show(500_000).is_empty(), "slide {slide}");
    }
    // Each blends into the next in half a second.
    for slide in 0..20 {
        for step in 0..12 {
            screen.picture(PLAYER, slide * 100 + step);
            assert!(screen.show(FRAME).is_empty(), "slide {slide}, step {step}");
        }
        screen.now += 2_000_000;
    }
}

#[test]
fn two_colours_are_none_however_often_all_of_them_are_new() {
    let mut screen = Screen::new();
    for number in 0..100 {
        screen.paint(PLAYER, |x, y| bits(x, y, number));
        assert!(screen.show(FRAME).is_empty(), "picture {number}");
        assert_eq!(screen.shadow.new_at_once(), None, "picture {number}");
    }
}

#[test]
fn what_is_all_new_at_once_is_told_and_neither_text_nor_what_scrolls_is() {
    let mut screen = Screen::new();
    for frame in 0..5 {
        screen.picture(PLAYER, frame);
        screen.show(FRAME);
        // At its edge may be less of a tile than tells anything.
        let new = screen.shadow.new_at_once().expect("all of it is new");
        assert!(PLAYER.contains(&new) && new.area() * 10 >= PLAYER.area() * 9, "frame {frame}: {new:?}");
        screen.drawn.add_rect(PLAYER);
        screen.show(FRAME);
        assert_eq!(screen.shadow.new_at_once(), None, "it was drawn as it was");
    }
    // Two far apart are not all of what lies between them.
    screen.picture(Rect::at(0, 0, 64, 64), 9);
    screen.picture(Rect::at(800, 600, 64, 64), 9);
    screen.show(FRAME);
    assert_eq!(screen.shadow.new_at_once(), None);
    screen.text(PLAYER, 0);
    screen.show(FRAME);
    for page in 1..20 {
        screen.text(PLAYER, page);
        screen.show(FRAME);
        assert_eq!(screen.shadow.new_at_once(), None, "page {page}");
    }
    for top in (0..400).step_by(40) {
        screen.paint(PLAYER, |x, y| camera(x, y + top, 0));
        screen.show(FRAME);
        assert!(top == 0 || screen.shadow.new_at_once().is_none(), "scrolled to {top}");
    }
}

#[test]
fn a_film_that_is_seldom_looked_at_stays_an_area() {
    let mut screen = Screen::new();
    let mut film = Film::new(PLAYER);
    for frame in 0..40 {
        screen.picture(PLAYER, frame);
        screen.show_with(FRAME, Some(&mut film), &[]);
    }
    for frame in 40..60 {
        screen.picture(PLAYER, frame);
        let areas = screen.show_with(900_000, Some(&mut film), &[]);
        assert_eq!(areas, [PLAYER], "frame {frame}");
    }
}

fn exact_area(planned: &[Planned]) -> u64 {
    let area = |planned: &Planned| match planned {
        Planned::Pixels { rect, .. } | Planned::TwoColor { rect, .. } | Planned::Coverage { rect, .. } => rect.area(),
        Planned::Solid { region, .. } => region.area(),
        _ => 0,
    };
    planned.iter().map(area).sum()
}

#[test]
fn nearly_all_of_a_cameras_frame_is_the_videos() {
    let mut screen = Screen::new();
    let mut film = Film::new(PLAYER);
    for frame in 0..20 {
        screen.picture(PLAYER, frame);
        screen.show_with(FRAME, Some(&mut film), &[]);
    }
    let share = film.clip().area() as f64 / PLAYER.area() as f64;
    assert!(share > 0.99, "{share}");
    assert!(screen.shadow.inexact().contains_rect(&Rect::new(200, 200, 300, 300)));
    // A frame in which nothing changed.
    screen.drawn.add_rect(PLAYER);
    screen.show_with(FRAME, Some(&mut film), &[]);
    assert!(film.clip().is_empty() && screen.planned.is_empty());
}

#[test]
fn a_clip_is_bounded_whatever_moves() {
    let mut screen = Screen::new();
    let mut film = Film::new(SIZE.rect());
    screen.picture(SIZE.rect(), 0);
    screen.show_with(FRAME, Some(&mut film), &[]);
    // Every other cell, and once all of it but its edge.
    for (number, inset) in [(1, 0), (2, 1)] {
        let mut changed = 0;
        for y in (0..SIZE.height as i32).step_by(16) {
            for x in (y / 16 % 2 * 16..SIZE.width as i32).step_by(32) {
                let cell = Rect::new(x + inset, y + inset, x + 16 - inset, y + 16 - inset).intersect(&SIZE.rect());
                screen.paint(cell, |x, y| camera(x, y, 0) ^ (0x04_0404 * number));
                changed += cell.area();
            }
        }
        screen.show_with(FRAME, Some(&mut film), &[]);
        let clip = film.clip();
        assert!((1..=1024).contains(&clip.rect_count()), "{} rectangles", clip.rect_count());
        assert!(exact_area(&screen.planned) + clip.area() >= changed, "what is not the video's is planned");
    }
}

#[test]
fn what_lies_before_a_video_is_never_in_its_picture() {
    let mut screen = Screen::new();
    let mut film = Film::new(PLAYER);
    let menu = Rect::new(301, 203, 470, 377);
    let subtitle = Rect::new(250, 410, 650, 442);
    let is_ink = |x: i32, y: i32| subtitle.contains_point(x, y) && letters(x, y, 5) & RGB != 0xff_ffff;
    for frame in 0..60 {
        screen.picture(PLAYER, frame);
        screen.paint(subtitle, |x, y| if is_ink(x, y) { 0xff_ffff } else { camera(x, y, frame) });
        if frame >= 30 {
            screen.text(menu, 4);
        }
        screen.show_with(FRAME, Some(&mut film), &[]);
        let clip = film.clip();
        // As it opens no letter of it is in the picture, and soon nothing at all.
        let inside = menu.grow(if frame < 34 { -8 } else { 0 });
        assert!(frame < 30 || !clip.overlaps_rect(&inside), "frame {frame}: {:?}", clip.intersection(&menu.into()));
        // What appears without a ground of its own is known for text once it has stood for four frames.
        if frame > 4 {
            let spoilt = (subtitle.y1..subtitle.y2).flat_map(|y| (subtitle.x1..subtitle.x2).map(move |x| (x, y)));
            let spoilt = spoilt.filter(|&(x, y)| is_ink(x, y) && clip.contains_point(x, y)).count();
            assert_eq!(spoilt, 0, "letters of the subtitle in frame {frame}");
        }
    }
    assert!(film.clip().area() > (PLAYER.area() - menu.area() - subtitle.area()) * 9 / 10);
}

#[test]
fn what_was_drawn_as_text_stays_exact() {
    let mut screen = Screen::new();
    let mut film = Film::new(PLAYER);
    let text = Rect::new(200, 200, 296, 216);
    let hint = Hint { rect: text, claim: Claim::Text };
    for frame in 0..20 {
        screen.picture(PLAYER, frame);
        screen.show_with(FRAME, Some(&mut film), &[hint]);
        assert!(!film.clip().overlaps_rect(&text));
        assert!(exact_area(&screen.planned) >= text.area());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is drawn and wherever the place is: clip and plan together are all that changed, the clip lies in the place and in
    /// the region, and the shadow shows the screen.
    #[test]
    fn clip_and_plan_are_all_that_changed(seed in 1u64.., x in 0i32..900, y in 0i32..600, width in 2i32..400, height in 2i32..400) {
        let mut random = Random(seed);
        let place = Rect::at(x, y, width, height).intersect(&SIZE.rect());
        let mut screen = Screen::new();
        let mut film = Film::new(place);
        for frame in 0..12 {
            for _ in 0..random.below(5) {
                let rect = Rect::at(random.below(1000) as i32, random.below(740) as i32, random.below(400) as i32, random.below(300) as i32)
                    .intersect(&SIZE.rect());
                match random.below(3) {
                    0 => screen.picture(rect, frame),
                    1 => screen.text(rect, u64::from(random.next())),
                    _ => {
                        let (dx, dy) = (random.below(40) as i32, random.below(40) as i32);
                        let rect = rect.intersect(&Rect::new(dx, dy, 1024, 768));
                        screen.copy(rect, dx, dy);
                    }
                }
            }
            let drawn = screen.drawn.clone();
            let before = screen.shadow.pixels().to_vec();
            screen.show_with(FRAME, Some(&mut film), &[]);
            prop_assert!(film.clip().difference(&drawn).is_empty());
            prop_assert!(film.clip().difference(&Region::from(place)).is_empty());
            let mut said = film.clip().clone();
            for planned in &screen.planned {
                match planned {
                    Planned::Shift { region, .. } | Planned::Solid { region, .. } => said.add(region),
                    Planned::Pattern { rect, .. } | Planned::TwoColor { rect, .. } | Planned::Coverage { rect, .. }
                    | Planned::Pixels { rect, .. } | Planned::Photo { rect } => {
                        prop_assert!(!film.clip().overlaps_rect(rect), "sent twice");
                        said.add_rect(*rect);
                    }
                    Planned::Recall { .. } | Planned::Keep { .. } => prop_assert!(false, "no cache"),
                }
            }
            let width = SIZE.width as usize;
            let changed = (0..before.len()).filter(|&at| before[at] != screen.pixels[at] & RGB);
            for at in changed {
                prop_assert!(said.contains_point((at % width) as i32, (at / width) as i32));
            }
            prop_assert!(screen.shadow.pixels().iter().zip(&screen.pixels).all(|(a, b)| *a == b & RGB));
        }
    }
}
