//! Which parts of a screen are detected as videos, and which are not: screens as applications draw
//! them, plan by plan, with the time between.

use proptest::prelude::*;
use thinc_pixels::{
    Claim, Hint, Hints, Lossy, PlanSettings, Planned, RGB, Shadow, Snapshot, VideoMask, plan_with,
};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 1024, height: 768 };
/// 24 frames per second.
const FRAME: u64 = 41_667;

/// Reproducible random numbers.
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

/// A screen and a viewer's shadow.
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

    /// A camera frame: smooth, with noise, different for each number.
    fn camera_frame(&mut self, rect: Rect, number: i32) {
        self.paint(rect, |x, y| camera(x, y, number));
    }

    /// Text: ink in two fifths of the cells, hard edges, a background of one colour.
    fn text(&mut self, rect: Rect, seed: u64) {
        self.paint(rect, |x, y| text_pixel(x, y, seed));
    }

    fn copy(&mut self, rect: Rect, dx: i32, dy: i32) {
        let before = self.pixels.clone();
        self.paint(rect, |x, y| before[((y - dy) * SIZE.width as i32 + x - dx) as usize]);
    }

    /// Plans what was drawn, so many microseconds later.
    fn show(&mut self, after: u64) -> Vec<Rect> {
        self.show_with(after, None, &[])
    }

    fn show_with(&mut self, after: u64, mask: Option<&mut VideoMask>, parts: &[Hint]) -> Vec<Rect> {
        self.now += after;
        let (pixels, width) = (&self.pixels, SIZE.width as usize);
        self.snapshot.fill(&self.drawn, |rect, to, stride| {
            for (row, y) in (rect.y1..rect.y2).enumerate() {
                let from = y as usize * width + rect.x1 as usize;
                to[row * stride..][..rect.width() as usize]
                    .copy_from_slice(&pixels[from..][..rect.width() as usize]);
            }
        });
        self.drawn.clear();
        self.planned.clear();
        let settings = PlanSettings {
            lossy: Lossy::Photographs,
            now: self.now,
            video: mask,
            ..PlanSettings::default()
        };
        let none = Region::new();
        let hints = Hints { shown: &none, parts };
        plan_with(&self.snapshot, &mut self.shadow, &hints, settings, &mut self.planned);
        self.shadow.video_areas().to_vec()
    }
}

fn camera(x: i32, y: i32, number: i32) -> u32 {
    let wave = |period: f32, speed: f32| {
        ((x as f32 / period + number as f32 * speed).sin() + (y as f32 / period).cos()) * 40.0
    };
    let mut noise = Random((x as u64) << 40 | (y as u64) << 20 | (number as u64 + 1));
    noise.next();
    let mut channel = |value: f32| (value + noise.below(7) as f32).clamp(0.0, 255.0) as u32;
    channel(128.0 + wave(31.0, 0.3)) << 16
        | channel(120.0 + wave(43.0, 0.2)) << 8
        | channel(110.0 + wave(37.0, 0.4))
}

/// Bits as `thinc-bench overwrite` draws them: another pair of colours for each number, and every
/// pixel changes.
fn bits(x: i32, y: i32, number: i32) -> u32 {
    let mut bit = Random((x as u64) << 40 | (y as u64) << 20 | (number as u64 + 1));
    bit.next();
    if bit.below(2) == 0 { 0x10_1010 } else { 0xb0_b0b0 + (number as u32 & 0x3f) }
}

fn text_pixel(x: i32, y: i32, seed: u64) -> u32 {
    let (column, row) = (x / 8, y / 16);
    let mut glyph = Random(seed ^ (column as u64) << 32 ^ (row as u64) << 8 | 1);
    glyph.next();
    let strokes = u64::from(glyph.next()) << 32 | u64::from(glyph.next());
    // A glyph's strokes lie in the middle of its cell, and a third of it is ink.
    let (dx, dy) = (x % 8, y % 16);
    let inside =
        (1..7).contains(&dx) && (3..13).contains(&dy) && strokes >> ((dx * 10 + dy) % 61) & 3 == 0;
    if inside { 0x10_1010 } else { 0xff_ffff }
}

const PLAYER: Rect = Rect::new(133, 101, 773, 461);

#[test]
fn a_player_is_located_exactly_and_stays_constant() {
    let mut screen = Screen::new();
    let mut found = Vec::new();
    for frame in 0..200 {
        screen.camera_frame(PLAYER, frame);
        found.push(screen.show(FRAME));
    }
    let first = found.iter().position(|areas| !areas.is_empty()).expect("it is found");
    assert!((12..36).contains(&first), "after {first} frames");
    assert!(
        found[first..].iter().all(|areas| areas == &[PLAYER]),
        "{:?}",
        found[first..].iter().find(|a| *a != &[PLAYER])
    );
    // It pauses, and text changes elsewhere.
    for key in 0..10 {
        screen.text(Rect::at(8 * key, 700, 8, 16), 7);
        found.push(screen.show(200_000));
    }
    assert!(found.last().is_some_and(Vec::is_empty), "it rests");
}

#[test]
fn a_head_before_a_static_background_is_one_area() {
    let mut screen = Screen::new();
    let head = Rect::new(300, 140, 500, 461);
    screen.camera_frame(PLAYER, 0);
    screen.show(FRAME);
    let mut shapes = Vec::new();
    for frame in 0..240 {
        screen.camera_frame(head, frame);
        // Blocks of the background that the camera's codec refreshed.
        for block in 0..6 {
            let at = (frame * 7 + block * 13) % 220;
            screen.camera_frame(
                Rect::at(PLAYER.x1 + at % 40 * 16, PLAYER.y1 + at / 40 * 16, 16, 16),
                frame,
            );
        }
        screen.drawn.add_rect(PLAYER);
        shapes.push(screen.show(FRAME));
    }
    shapes.dedup();
    assert!(shapes.len() <= 4, "each shape costs a new video stream: {shapes:?}");
    assert!(
        shapes.last().is_some_and(|areas| areas.len() == 1 && areas[0].contains(&head)),
        "{shapes:?}"
    );
}

#[test]
fn two_players_are_two_areas() {
    let mut screen = Screen::new();
    let other = Rect::new(800, 530, 1000, 730);
    let mut areas = Vec::new();
    for frame in 0..100 {
        screen.camera_frame(PLAYER, frame);
        if frame % 2 == 0 {
            screen.camera_frame(other, frame);
        }
        areas = screen.show(FRAME);
    }
    assert_eq!(areas, [PLAYER, other]);
}

#[test]
fn typing_a_caret_and_a_clock_are_no_videos() {
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
fn text_that_changes_in_every_plan_is_no_video() {
    let mut screen = Screen::new();
    for page in 0..200 {
        screen.text(PLAYER, page);
        assert!(screen.show(FRAME).is_empty(), "page {page}");
    }
}

#[test]
fn a_scrolling_page_is_no_video() {
    // A page of text with a large photograph, scrolled down and up at several speeds.
    for step in [3, 16, 60, 200] {
        let mut screen = Screen::new();
        let page =
            |x: i32, y: i32| if (y / 500) % 2 == 0 { camera(x, y, 0) } else { text_pixel(x, y, 3) };
        for frame in 0..240 {
            let top = if frame < 120 { frame * step } else { (240 - frame) * step };
            screen.paint(PLAYER, |x, y| page(x, y + top));
            assert!(screen.show(16_667).is_empty(), "by {step}, frame {frame}");
        }
    }
}

#[test]
fn a_dragged_window_is_no_video() {
    let mut screen = Screen::new();
    screen.camera_frame(SIZE.rect(), 0);
    screen.show(FRAME);
    for step in 0..200 {
        let before = Rect::at(100 + (step * 3 % 400), 100 + step, 300, 200);
        let after = Rect::at(100 + ((step + 1) * 3 % 400), 101 + step, 300, 200);
        screen.camera_frame(before, 0);
        screen.text(after, 9);
        assert!(screen.show(16_667).is_empty(), "step {step}");
    }
}

#[test]
fn a_slideshow_is_no_video() {
    let mut screen = Screen::new();
    for slide in 0..60 {
        screen.camera_frame(PLAYER, slide);
        assert!(screen.show(500_000).is_empty(), "slide {slide}");
    }
    // Each slide fades into the next in half a second.
    for slide in 0..20 {
        for step in 0..12 {
            screen.camera_frame(PLAYER, slide * 100 + step);
            assert!(screen.show(FRAME).is_empty(), "slide {slide}, step {step}");
        }
        screen.now += 2_000_000;
    }
}

#[test]
fn two_colours_are_no_video_even_if_all_pixels_change() {
    let mut screen = Screen::new();
    for number in 0..100 {
        screen.paint(PLAYER, |x, y| bits(x, y, number));
        assert!(screen.show(FRAME).is_empty(), "frame {number}");
        assert_eq!(screen.shadow.fully_changed(), None, "frame {number}");
    }
}

#[test]
fn full_changes_are_reported_and_text_and_scrolling_are_not() {
    let mut screen = Screen::new();
    for frame in 0..5 {
        screen.camera_frame(PLAYER, frame);
        screen.show(FRAME);
        // Tiles at its edges may have too few examined pixels.
        let new = screen.shadow.fully_changed().expect("it is fully changed");
        assert!(
            PLAYER.contains(&new) && new.area() * 10 >= PLAYER.area() * 9,
            "frame {frame}: {new:?}"
        );
        screen.drawn.add_rect(PLAYER);
        screen.show(FRAME);
        assert_eq!(screen.shadow.fully_changed(), None, "it did not change");
    }
    // Two distant changes do not make the area between them fully changed.
    screen.camera_frame(Rect::at(0, 0, 64, 64), 9);
    screen.camera_frame(Rect::at(800, 600, 64, 64), 9);
    screen.show(FRAME);
    assert_eq!(screen.shadow.fully_changed(), None);
    screen.text(PLAYER, 0);
    screen.show(FRAME);
    for page in 1..20 {
        screen.text(PLAYER, page);
        screen.show(FRAME);
        assert_eq!(screen.shadow.fully_changed(), None, "page {page}");
    }
    for top in (0..400).step_by(40) {
        screen.paint(PLAYER, |x, y| camera(x, y + top, 0));
        screen.show(FRAME);
        assert!(top == 0 || screen.shadow.fully_changed().is_none(), "scrolled to {top}");
    }
}

#[test]
fn a_video_with_rare_plans_stays_an_area() {
    let mut screen = Screen::new();
    let mut mask = VideoMask::new(PLAYER);
    for frame in 0..40 {
        screen.camera_frame(PLAYER, frame);
        screen.show_with(FRAME, Some(&mut mask), &[]);
    }
    for frame in 40..60 {
        screen.camera_frame(PLAYER, frame);
        let areas = screen.show_with(900_000, Some(&mut mask), &[]);
        assert_eq!(areas, [PLAYER], "frame {frame}");
    }
}

fn lossless_area(planned: &[Planned]) -> u64 {
    let area = |planned: &Planned| match planned {
        Planned::Pixels { rect, .. }
        | Planned::TwoColor { rect, .. }
        | Planned::Coverage { rect, .. } => rect.area(),
        Planned::Solid { region, .. } => region.area(),
        _ => 0,
    };
    planned.iter().map(area).sum()
}

#[test]
fn almost_all_of_a_camera_frame_is_in_the_clip() {
    let mut screen = Screen::new();
    let mut mask = VideoMask::new(PLAYER);
    for frame in 0..20 {
        screen.camera_frame(PLAYER, frame);
        screen.show_with(FRAME, Some(&mut mask), &[]);
    }
    let share = mask.clip().area() as f64 / PLAYER.area() as f64;
    assert!(share > 0.99, "{share}");
    assert!(screen.shadow.lossy().contains_rect(&Rect::new(200, 200, 300, 300)));
    // An unchanged frame.
    screen.drawn.add_rect(PLAYER);
    screen.show_with(FRAME, Some(&mut mask), &[]);
    assert!(mask.clip().is_empty() && screen.planned.is_empty());
}

#[test]
fn a_clip_has_a_bounded_number_of_rectangles() {
    let mut screen = Screen::new();
    let mut mask = VideoMask::new(SIZE.rect());
    screen.camera_frame(SIZE.rect(), 0);
    screen.show_with(FRAME, Some(&mut mask), &[]);
    // Every other cell; once completely, once except its edge.
    for (number, inset) in [(1, 0), (2, 1)] {
        let mut changed = 0;
        for y in (0..SIZE.height as i32).step_by(16) {
            for x in (y / 16 % 2 * 16..SIZE.width as i32).step_by(32) {
                let cell = Rect::new(x + inset, y + inset, x + 16 - inset, y + 16 - inset)
                    .intersect(&SIZE.rect());
                screen.paint(cell, |x, y| camera(x, y, 0) ^ (0x04_0404 * number));
                changed += cell.area();
            }
        }
        screen.show_with(FRAME, Some(&mut mask), &[]);
        let clip = mask.clip();
        assert!((1..=1024).contains(&clip.rect_count()), "{} rectangles", clip.rect_count());
        assert!(
            lossless_area(&screen.planned) + clip.area() >= changed,
            "pixels outside the clip must be planned"
        );
    }
}

#[test]
fn what_lies_before_a_video_is_never_in_its_clip() {
    let mut screen = Screen::new();
    let mut mask = VideoMask::new(PLAYER);
    let menu = Rect::new(301, 203, 470, 377);
    let subtitle = Rect::new(250, 410, 650, 442);
    let is_ink =
        |x: i32, y: i32| subtitle.contains_point(x, y) && text_pixel(x, y, 5) & RGB != 0xff_ffff;
    for frame in 0..60 {
        screen.camera_frame(PLAYER, frame);
        screen.paint(subtitle, |x, y| if is_ink(x, y) { 0xff_ffff } else { camera(x, y, frame) });
        if frame >= 30 {
            screen.text(menu, 4);
        }
        screen.show_with(FRAME, Some(&mut mask), &[]);
        let clip = mask.clip();
        // When it opens none of its text is in the clip, and soon nothing of it.
        let inside = menu.grow(if frame < 34 { -8 } else { 0 });
        assert!(
            frame < 30 || !clip.overlaps_rect(&inside),
            "frame {frame}: {:?}",
            clip.intersection(&menu.into())
        );
        // Text without a background of its own is recognized after it has not changed for four
        // frames.
        if frame > 4 {
            let spoilt = (subtitle.y1..subtitle.y2)
                .flat_map(|y| (subtitle.x1..subtitle.x2).map(move |x| (x, y)));
            let spoilt = spoilt.filter(|&(x, y)| is_ink(x, y) && clip.contains_point(x, y)).count();
            assert_eq!(spoilt, 0, "text of the subtitle in frame {frame}");
        }
    }
    assert!(mask.clip().area() > (PLAYER.area() - menu.area() - subtitle.area()) * 9 / 10);
}

/// A few columns of a glyph are in the next cell: by themselves they look like a video. Programs
/// draw all again, or only what is new.
#[test]
fn glyphs_that_are_typed_in_front_of_a_video_are_never_in_its_clip() {
    let note = Rect::new(296, 200, 500, 260);
    let around = Region::from(PLAYER).difference(&note.into());
    let glyph = |number: i32| Rect::at(333 + number * 7, 227, 6, 7);
    let ink = |x: i32, y: i32| 0x30_302a + (x * 37 + y * 59) as u32 % 4 * 0x38_3834;
    for draws_all in [true, false] {
        let mut screen = Screen::new();
        let mut mask = VideoMask::new(PLAYER);
        for frame in 0..60 {
            for part in around.rects() {
                screen.camera_frame(*part, frame);
            }
            if draws_all || frame == 0 {
                screen.paint(note, |_, _| 0xfd_f6d8);
            }
            let typed = (frame - 30).max(0) / 2;
            let from = if draws_all { 0 } else { (typed - 1).max(0) };
            (from..typed).for_each(|number| screen.paint(glyph(number), ink));
            screen.show_with(FRAME, Some(&mut mask), &[]);
            let spoilt = (0..typed).map(glyph).find(|glyph| mask.clip().overlaps_rect(glyph));
            assert_eq!(spoilt, None, "frame {frame}, all is drawn again: {draws_all}");
        }
        assert!(mask.clip().area() > (PLAYER.area() - note.area()) * 9 / 10);
    }
}

/// Text that runs through a video belongs to it once its cells had moving text in four plans, if
/// the mask takes it; text that rests, in front of the video or of that text, never does.
#[test]
fn only_text_that_moves_is_taken_into_a_clip() {
    let running = Rect::new(133, 400, 773, 448);
    let (resting, menu) = (Rect::new(200, 150, 600, 182), Rect::new(301, 203, 470, 440));
    // Its background changes a little with each frame, as decoders leave it.
    let run = |x: i32, y: i32, frame: i32| {
        let ink = text_pixel(x + frame * 6, y + frame, 9) & RGB == 0x10_1010;
        if ink { 0x18_1818 } else { 0xe0_e0e0 + (frame % 7) as u32 }
    };
    for takes in [false, true] {
        let mut screen = Screen::new();
        let mut mask = VideoMask::new(PLAYER);
        mask.set_takes_text(takes);
        let (mut clips, mut moving) = (Vec::new(), Vec::new());
        for frame in 0..60 {
            screen.camera_frame(PLAYER, frame);
            screen.paint(running, |x, y| run(x, y, frame));
            screen.text(resting, 3);
            if frame >= 40 {
                screen.text(menu, 4);
            }
            screen.show_with(FRAME, Some(&mut mask), &[]);
            clips.push(mask.clip().intersection(&running.into()).area());
            moving.push(mask.moving_text().area());
            let inside = resting.grow(if frame < 4 { -8 } else { 0 });
            assert!(!mask.clip().overlaps_rect(&inside), "frame {frame}: it rests");
            assert!(!mask.moving_text().overlaps_rect(&inside), "frame {frame}: it rests");
            // What opens over text that runs is new there once.
            let inside = Rect { y2: running.y1 - 16, ..menu.grow(-16) };
            assert!(frame < 40 || !mask.clip().overlaps_rect(&inside), "frame {frame}: a menu");
            let inside = menu.intersect(&running).grow(-8);
            assert!(frame < 41 || !mask.clip().overlaps_rect(&inside), "frame {frame}: a menu");
        }
        assert!(moving[..3].iter().all(|&area| area == 0), "{moving:?}");
        let most = running.area() * 3 / 4;
        assert!(moving[10..40].iter().all(|&area| area > most), "{moving:?}");
        let taken = clips[10..40].iter().filter(|&&area| area > most).count();
        assert_eq!(taken, if takes { 30 } else { 0 }, "{clips:?}");
    }
}

#[test]
fn what_was_drawn_as_text_stays_lossless() {
    let mut screen = Screen::new();
    let mut mask = VideoMask::new(PLAYER);
    let text = Rect::new(200, 200, 296, 216);
    let hint = Hint { rect: text, claim: Claim::Text };
    for frame in 0..20 {
        screen.camera_frame(PLAYER, frame);
        screen.show_with(FRAME, Some(&mut mask), &[hint]);
        assert!(!mask.clip().overlaps_rect(&text));
        assert!(lossless_area(&screen.planned) >= text.area());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any drawing and any area: clip and plan together cover the changes, the clip lies in the
    /// area and in the region, and the shadow equals the screen.
    #[test]
    fn clip_and_plan_cover_the_changes(
        seed in 1u64..,
        x in 0i32..900,
        y in 0i32..600,
        width in 2i32..400,
        height in 2i32..400,
    ) {
        let mut random = Random(seed);
        let place = Rect::at(x, y, width, height).intersect(&SIZE.rect());
        let mut screen = Screen::new();
        let mut mask = VideoMask::new(place);
        for frame in 0..12 {
            for _ in 0..random.below(5) {
                let mut below = |end| random.below(end) as i32;
                let rect = Rect::at(below(1000), below(740), below(400), below(300))
                    .intersect(&SIZE.rect());
                match random.below(3) {
                    0 => screen.camera_frame(rect, frame),
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
            screen.show_with(FRAME, Some(&mut mask), &[]);
            prop_assert!(mask.clip().difference(&drawn).is_empty());
            prop_assert!(mask.clip().difference(&Region::from(place)).is_empty());
            let mut covered = mask.clip().clone();
            for planned in &screen.planned {
                match planned {
                    Planned::Shift { region, .. } | Planned::Solid { region, .. } => {
                        covered.add(region)
                    }
                    Planned::Pattern { rect, .. }
                    | Planned::TwoColor { rect, .. }
                    | Planned::Coverage { rect, .. }
                    | Planned::Pixels { rect, .. }
                    | Planned::Photo { rect }
                    | Planned::Frame { rect } => {
                        prop_assert!(!mask.clip().overlaps_rect(rect), "sent twice");
                        covered.add_rect(*rect);
                    }
                    Planned::Recall { .. } | Planned::Keep { .. } => {
                        prop_assert!(false, "no cache")
                    }
                }
            }
            let width = SIZE.width as usize;
            let changed = (0..before.len()).filter(|&at| before[at] != screen.pixels[at] & RGB);
            for at in changed {
                prop_assert!(covered.contains_point((at % width) as i32, (at / width) as i32));
            }
            let mut pairs = screen.shadow.pixels().iter().zip(&screen.pixels);
            prop_assert!(pairs.all(|(a, b)| *a == b & RGB));
        }
    }
}
