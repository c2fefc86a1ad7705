//! Only photographs are planned as lossy, never text; the shadow knows what is lossy, and it
//! becomes lossless.

use proptest::prelude::*;
use thinc_pixels::{
    Claim, Hint, Hints, Lossy, PlanSettings, Planned, RGB, Shadow, Snapshot, plan_with,
};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 320, height: 240 };

fn noise(seed: u32, x: i32, y: i32) -> u32 {
    let mut n = seed ^ (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca6b);
    n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
    n ^ (n >> 12)
}

/// Smooth gradients with a sensor's noise.
fn photograph(seed: u32, x: i32, y: i32) -> u32 {
    let phase = (seed % 100) as f32;
    let (fx, fy) = (x as f32 / 37.0 + phase, y as f32 / 29.0 - phase);
    let light = |a: f32, b: f32| 120.0 + 60.0 * (fx * a).sin() + 50.0 * (fy * b + fx).cos();
    let grain = noise(seed, x, y);
    let channel = |light: f32, shift: u32| (light as u32 + (grain >> shift & 7)).min(255);
    channel(light(1.0, 0.7), 3) << 16
        | channel(light(0.8, 1.1), 9) << 8
        | channel(light(1.3, 0.5), 15)
}

#[derive(Clone)]
struct Screen(Vec<u32>);

impl Screen {
    fn new(color: u32) -> Screen {
        Screen(vec![color; SIZE.area() as usize])
    }

    fn draw(&mut self, rect: &Rect, mut pixel: impl FnMut(i32, i32) -> u32) {
        for (y, row) in
            (rect.y1..rect.y2).zip(self.0.chunks_mut(SIZE.width as usize).skip(rect.y1 as usize))
        {
            (rect.x1..rect.x2).for_each(|x| row[x as usize] = pixel(x, y));
        }
    }

    fn at(&self, x: i32, y: i32) -> u32 {
        self.0[(y * SIZE.width as i32 + x) as usize]
    }

    /// Writes antialiased text in one colour, glyphs of five by seven dots, enlarged; marks touched
    /// pixels.
    fn write(&mut self, at: (i32, i32), scale: i32, color: u32, touched: &mut [bool]) {
        const GLYPHS: [[u8; 7]; 5] = [
            [0b01110, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b10001],
            [0b11111, 0b10000, 0b11110, 0b10000, 0b10000, 0b10000, 0b11111],
            [0b00100, 0b00000, 0b01100, 0b00100, 0b00100, 0b00100, 0b01110],
            [0b00000, 0b00000, 0b01111, 0b10001, 0b10001, 0b10011, 0b01101],
            [0b10001, 0b01010, 0b00100, 0b00100, 0b01010, 0b10001, 0b00000],
        ];
        let inked = |x: i32, y: i32| {
            let (column, row) = (x.div_euclid(scale), y.div_euclid(scale));
            let (glyph, bit) = (column.div_euclid(6), column.rem_euclid(6));
            (0..7).contains(&row)
                && (0..5).contains(&glyph)
                && GLYPHS[glyph as usize][row as usize] >> bit & 1 == 1
        };
        let area =
            Rect::at(at.0 - 1, at.1 - 1, 30 * scale + 2, 7 * scale + 2).intersect(&SIZE.rect());
        for y in area.y1..area.y2 {
            for x in area.x1..area.x2 {
                // Three samples in each direction, half a pixel apart, as antialiasing.
                let near = [(0, 0), (1, 0), (0, 1), (1, 1)];
                let hits =
                    near.iter().filter(|(dx, dy)| inked(x - at.0 + dx, y - at.1 + dy)).count()
                        as u32;
                if hits == 0 {
                    continue;
                }
                let i = (y * SIZE.width as i32 + x) as usize;
                let (ink, paper) = (color.to_le_bytes(), self.0[i].to_le_bytes());
                let mixed = [0, 1, 2]
                    .map(|c| (u32::from(ink[c]) * hits + u32::from(paper[c]) * (4 - hits)) / 4);
                self.0[i] = mixed[2] << 16 | mixed[1] << 8 | mixed[0];
                touched[i] = true;
            }
        }
    }

    fn snapshot(&self, region: &Region) -> Snapshot {
        let mut snapshot = Snapshot::new();
        snapshot.fill(region, |rect, dst, stride| {
            for (y, row) in (rect.y1..rect.y2).zip(dst.chunks_mut(stride)) {
                let start = (y * SIZE.width as i32 + rect.x1) as usize;
                row[..rect.width() as usize]
                    .copy_from_slice(&self.0[start..][..rect.width() as usize]);
            }
        });
        snapshot
    }
}

fn planned(
    screen: &Screen,
    region: &Region,
    hints: &Hints<'_>,
    lossy: Lossy,
    shadow: &mut Shadow,
) -> Vec<Planned> {
    let mut out = Vec::new();
    let settings = PlanSettings { lossy, ..PlanSettings::default() };
    plan_with(&screen.snapshot(region), shadow, hints, settings, &mut out);
    out
}

/// The photographs of a whole screen.
fn photos(screen: &Screen, hints: &Hints<'_>) -> Region {
    let planned =
        planned(screen, &SIZE.rect().into(), hints, Lossy::Photographs, &mut Shadow::new(SIZE));
    let photo =
        |planned: &Planned| if let Planned::Photo { rect } = planned { Some(*rect) } else { None };
    planned.iter().filter_map(photo).collect()
}

#[test]
fn a_photograph_is_detected_at_any_position() {
    for inside in [SIZE.rect(), Rect::at(40, 30, 200, 150), Rect::at(37, 51, 181, 133)] {
        let mut screen = Screen::new(0x00ff_ffff);
        screen.draw(&inside, |x, y| photograph(5, x, y));
        let photos = photos(&screen, &Hints::NONE);
        assert!(
            Region::from(inside).contains_rect(&photos.extents()),
            "nothing beside it is a photograph"
        );
        assert!(
            photos.area() * 10 >= inside.area() * 7,
            "{} of {} pixels",
            photos.area(),
            inside.area()
        );
    }
}

#[test]
fn other_content_is_no_photograph() {
    let mut screen = Screen::new(0);
    let mut check = |name: &str, pixel: &dyn Fn(i32, i32) -> u32| {
        screen.draw(&SIZE.rect(), pixel);
        assert_eq!(photos(&screen, &Hints::NONE).area(), 0, "{name}");
    };
    check("one colour", &|_, _| 0x0012_3456);
    check("lines of text", &|x, y| {
        if y % 14 > 3 && noise(1, x / 2, y) & 3 == 0 { 0x0011_1111 } else { 0x00ff_ffff }
    });
    check("a dialog's grey", &|x, y| {
        0x00d0_d0d0 + 0x0001_0101 * ((y / 20) as u32 & 7) + u32::from(x % 90 == 0)
    });
    check("noise of two colours", &|x, y| {
        [0x0020_2020, 0x00e0_e0e0][(noise(2, x, y) & 1) as usize]
    });
    check("noise of all colours", &|x, y| noise(3, x, y) & RGB);
    check("a photograph repeated in small", &|x, y| photograph(4, x % 40, y % 30));
}

#[test]
fn there_is_no_photograph_where_a_hint_claims_text() {
    let mut screen = Screen::new(0);
    screen.draw(&SIZE.rect(), |x, y| photograph(5, x, y));
    let text = Rect::at(101, 77, 90, 20);
    let above = Rect { y2: text.y1, ..SIZE.rect() };
    let parts =
        [Hint { rect: above, claim: Claim::Image }, Hint { rect: text, claim: Claim::Text }];
    let photos = photos(&screen, &Hints { shown: &Region::new(), parts: &parts });
    assert!(!photos.overlaps_rect(&text) && photos.area() * 2 > SIZE.area(), "{photos:?}");
}

#[test]
fn nothing_is_lossy_unless_it_is_allowed() {
    let mut screen = Screen::new(0);
    screen.draw(&SIZE.rect(), |x, y| photograph(5, x, y));
    let planned =
        planned(&screen, &SIZE.rect().into(), &Hints::NONE, Lossy::Never, &mut Shadow::new(SIZE));
    assert!(!planned.iter().any(|planned| matches!(planned, Planned::Photo { .. })));
}

/// Applies a plan to the viewer: photographs with errors, everything else lossless.
fn show(planned: &[Planned], screen: &Screen, viewer: &mut Screen, seed: u32) {
    for planned in planned {
        match planned {
            Planned::Shift { region, dx, dy } => {
                let before = viewer.clone();
                region
                    .rects()
                    .iter()
                    .for_each(|rect| viewer.draw(rect, |x, y| before.at(x - dx, y - dy)));
            }
            Planned::Photo { rect } | Planned::Frame { rect } => {
                viewer.draw(rect, |x, y| screen.at(x, y) & RGB ^ noise(seed, x, y) & 0x0003_0303)
            }
            Planned::Solid { region, color } => {
                region.rects().iter().for_each(|rect| viewer.draw(rect, |_, _| *color))
            }
            Planned::Pattern { rect, tile_width, tile_height } => viewer.draw(rect, |x, y| {
                let (x, y) = (
                    (x - rect.x1) % i32::from(*tile_width),
                    (y - rect.y1) % i32::from(*tile_height),
                );
                screen.at(rect.x1 + x, rect.y1 + y) & RGB
            }),
            Planned::TwoColor { rect, .. }
            | Planned::Coverage { rect, .. }
            | Planned::Pixels { rect, .. } => {
                viewer.draw(rect, |x, y| screen.at(x, y) & RGB);
            }
            Planned::Recall { .. } | Planned::Keep { .. } => unreachable!("no cache was given"),
        }
    }
}

/// Checks that the shadow describes the viewer.
fn check(screen: &Screen, viewer: &Screen, shadow: &Shadow) {
    let width = SIZE.width as i32;
    for (y, x) in (0..SIZE.height as i32).flat_map(|y| (0..width).map(move |x| (y, x))) {
        if !shadow.known().contains_point(x, y) {
            continue;
        }
        assert_eq!(
            shadow.pixels()[(y * width + x) as usize],
            screen.at(x, y) & RGB,
            "the shadow must have ({x}, {y})"
        );
        let exact = viewer.at(x, y) == screen.at(x, y) & RGB;
        assert!(
            exact || shadow.lossy().contains_point(x, y),
            "({x}, {y}) is lossy and must be known to be"
        );
    }
}

#[test]
fn unchanged_lossy_pixels_wait_for_a_refresh() {
    let (mut screen, mut shadow, mut viewer) = (Screen::new(0), Shadow::new(SIZE), Screen::new(1));
    let all = Region::from(SIZE.rect());
    screen.draw(&SIZE.rect(), |x, y| photograph(5, x, y));
    show(
        &planned(&screen, &all, &Hints::NONE, Lossy::Photographs, &mut shadow),
        &screen,
        &mut viewer,
        1,
    );
    let lossy_region = shadow.lossy().clone();
    assert!(lossy_region.area() * 10 >= SIZE.area() * 7);
    assert_eq!(
        planned(&screen, &all, &Hints::NONE, Lossy::Photographs, &mut shadow),
        [],
        "nothing has changed"
    );
    assert_eq!(*shadow.lossy(), lossy_region);
    // The half is refreshed without a change.
    let half = Region::from(Rect { y2: 128, ..SIZE.rect() });
    let sent = planned(&screen, &half, &Hints::NONE, Lossy::Never, &mut shadow);
    show(&sent, &screen, &mut viewer, 2);
    check(&screen, &viewer, &shadow);
    assert_eq!(*shadow.lossy(), lossy_region.difference(&half));
}

fn rect() -> impl Strategy<Value = Rect> {
    (0i32..320, 0i32..240, 1i32..200, 1i32..160)
        .prop_map(|(x, y, w, h)| Rect::at(x, y, w, h).intersect(&SIZE.rect()))
}

#[derive(Clone, Debug)]
enum Op {
    Photo(Rect, u32),
    Fill(Rect, u32),
    Write(i32, i32, i32, u32),
    /// A COPY moves pixels of the screen and of the viewer.
    Copy(Rect, i32, i32),
    Send(Vec<Rect>, bool),
    Stale(Rect),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Photo(rect, seed)),
        2 => (rect(), any::<u32>()).prop_map(|(rect, color)| Op::Fill(rect, color)),
        2 => (0i32..300, 0i32..220, 1i32..5, any::<u32>())
            .prop_map(|(x, y, scale, color)| Op::Write(x, y, scale, color)),
        2 => (rect(), -40i32..40, -40i32..40).prop_map(|(rect, dx, dy)| Op::Copy(rect, dx, dy)),
        6 => (proptest::collection::vec(rect(), 1..4), any::<bool>())
            .prop_map(|(rects, lossy)| Op::Send(rects, lossy)),
        1 => rect().prop_map(Op::Stale),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lossy_pixels_are_known_and_become_lossless(
        ops in proptest::collection::vec(op(), 1..16),
    ) {
        let (mut screen, mut shadow) = (Screen::new(0x0044_5566), Shadow::new(SIZE));
        let mut viewer = Screen::new(7);
        let mut touched = vec![false; SIZE.area() as usize];
        // Sent and not drawn since.
        let mut current = Region::new();
        for (i, op) in (1..).zip(ops) {
            match op {
                Op::Photo(rect, seed) => {
                    screen.draw(&rect, |x, y| photograph(seed, x, y));
                    current.subtract_rect(&rect);
                }
                Op::Fill(rect, color) => {
                    screen.draw(&rect, |_, _| color & RGB);
                    current.subtract_rect(&rect);
                }
                Op::Write(x, y, scale, color) => {
                    screen.write((x, y), scale, color & RGB, &mut touched);
                    current.subtract_rect(&Rect::at(x - 1, y - 1, 30 * scale + 2, 7 * scale + 2));
                }
                Op::Copy(rect, dx, dy) => {
                    let mut region = Region::from(rect);
                    region.intersect_rect(&SIZE.rect().translate(dx, dy));
                    shadow.copy(&region, dx, dy);
                    for moved in [&mut viewer, &mut screen] {
                        let before = moved.clone();
                        for rect in region.rects() {
                            moved.draw(rect, |x, y| before.at(x - dx, y - dy));
                        }
                    }
                    let mut carried = region.translated(-dx, -dy).intersection(&current);
                    carried.translate(dx, dy);
                    current.subtract(&region);
                    current.add(&carried);
                }
                Op::Send(rects, lossy) => {
                    let region: Region = rects.into_iter().collect();
                    let lossy = if lossy { Lossy::Photographs } else { Lossy::Never };
                    let sent = planned(&screen, &region, &Hints::NONE, lossy, &mut shadow);
                    show(&sent, &screen, &mut viewer, i);
                    current.add(&region);
                    prop_assert!(lossy == Lossy::Photographs || !shadow.lossy().overlaps(&region));
                }
                Op::Stale(rect) => {
                    shadow.mark_stale(&rect.into());
                    current.subtract_rect(&rect);
                    viewer.draw(&rect, |x, y| noise(9, x, y) & RGB);
                }
            }
            let width = SIZE.width as i32;
            for (y, x) in (0..SIZE.height as i32).flat_map(|y| (0..width).map(move |x| (y, x))) {
                if current.contains_point(x, y) && !shadow.lossy().contains_point(x, y) {
                    prop_assert_eq!(viewer.at(x, y), screen.at(x, y) & RGB, "({}, {}) is said to \
                        be exact", x, y);
                }
            }
        }
        let all = planned(&screen, &SIZE.rect().into(), &Hints::NONE, Lossy::Never, &mut shadow);
        show(&all, &screen, &mut viewer, 99);
        prop_assert!(shadow.lossy().is_empty());
        check(&screen, &viewer, &shadow);
        prop_assert!(viewer.0.iter().zip(&screen.0).all(|(a, b)| *a == *b & RGB));
    }

    #[test]
    fn no_text_is_lossy(
        seed in any::<u32>(),
        texts in proptest::collection::vec((0i32..300, 0i32..220, 1i32..6, 0usize..6), 1..12),
    ) {
        let mut screen = Screen::new(0x00ff_ffff);
        screen.draw(&Rect::at(10, 12, 290, 200), |x, y| photograph(seed, x, y));
        let bare = screen.clone();
        let mut touched = vec![false; SIZE.area() as usize];
        for (x, y, scale, color) in texts {
            // Usual colours of text, none of which is in our photograph.
            let color = [0x00ff_ffff, 0, 0x00ff_ff00, 0x0000_0080, 0x00ff_0000, 0x0000_ff00][color];
            screen.write((x, y), scale, color, &mut touched);
        }
        let photos = photos(&screen, &Hints::NONE);
        for (i, _) in touched.iter().enumerate().filter(|(_, touched)| **touched) {
            let (x, y) = (i as i32 % SIZE.width as i32, i as i32 / SIZE.width as i32);
            // Antialiased glyphs have two steps: a contrast below twice the least edge is not
            // always detected.
            let (ink, paper) = (screen.0[i].to_le_bytes(), bare.0[i].to_le_bytes());
            if ink.iter().zip(paper).all(|(ink, paper)| ink.abs_diff(paper) < 48) {
                continue;
            }
            prop_assert!(!photos.contains_point(x, y), "a pixel of text at ({x}, {y}) would be \
                lossy");
        }
    }
}
