//! A screen, a viewer, and the invariants of plans, for the tests of plans. It implements the
//! meaning of each planned kind independently and plainly.
//! Uses the crate's public interface; never how a plan is made.

use thinc_pixels::coverage::Line;
use thinc_pixels::{HintStats, Hints, PlanSettings, Planned, RGB, Shadow, Snapshot, plan_with};
use thinc_region::{Rect, Region, Size};

/// A screen to draw on.
#[derive(Clone)]
pub(crate) struct Screen {
    pub(crate) size: Size,
    /// 0x00RRGGBB, rows without padding.
    pub(crate) pixels: Vec<u32>,
}

impl Screen {
    pub(crate) fn new(size: Size, color: u32) -> Screen {
        Screen { size, pixels: vec![color; size.area() as usize] }
    }

    /// The whole screen.
    pub(crate) fn region(&self) -> Region {
        self.size.rect().into()
    }

    pub(crate) fn draw(&mut self, rect: &Rect, mut pixel: impl FnMut(i32, i32) -> u32) {
        for y in rect.y1..rect.y2 {
            for x in rect.x1..rect.x2 {
                self.pixels[(y * self.size.width as i32 + x) as usize] =
                    pixel(x - rect.x1, y - rect.y1);
            }
        }
    }

    pub(crate) fn at(&self, x: i32, y: i32) -> u32 {
        self.pixels[(y * self.size.width as i32 + x) as usize]
    }

    pub(crate) fn snapshot(&self, region: &Region) -> Snapshot {
        let mut snapshot = Snapshot::new();
        snapshot.fill(region, |rect, dst, stride| {
            for (i, row) in dst.chunks_mut(stride).take(rect.height() as usize).enumerate() {
                let start = (rect.y1 as usize + i) * self.size.width as usize + rect.x1 as usize;
                row[..rect.width() as usize]
                    .copy_from_slice(&self.pixels[start..][..rect.width() as usize]);
            }
        });
        snapshot
    }
}

pub(crate) fn rect_of(planned: &Planned) -> Rect {
    match planned {
        Planned::Shift { region, .. } | Planned::Solid { region, .. } => region.extents(),
        Planned::Pattern { rect, .. }
        | Planned::TwoColor { rect, .. }
        | Planned::Coverage { rect, .. }
        | Planned::Pixels { rect, .. }
        | Planned::Recall { rect, .. }
        | Planned::Keep { rect, .. }
        | Planned::Photo { rect }
        | Planned::Frame { rect } => *rect,
    }
}

/// Applies a planned item to the viewer, by the meaning of its kind.
pub(crate) fn apply(planned: &Planned, snapshot: &Snapshot, viewer: &mut Screen) {
    let pixel = |x: i32, y: i32| snapshot.row(x, x + 1, y)[0] & RGB;
    let rect = rect_of(planned);
    match planned {
        Planned::Shift { region, dx, dy } => {
            let before = viewer.clone();
            for rect in region.rects() {
                viewer.draw(rect, |x, y| before.at(rect.x1 + x - dx, rect.y1 + y - dy));
            }
        }
        Planned::Solid { region, color } => {
            region.rects().iter().for_each(|rect| viewer.draw(rect, |_, _| *color))
        }
        Planned::Pattern { tile_width, tile_height, .. } => {
            let (w, h) = (i32::from(*tile_width), i32::from(*tile_height));
            viewer.draw(&rect, |x, y| pixel(rect.x1 + x % w, rect.y1 + y % h));
        }
        Planned::TwoColor { fg, bg, .. } => {
            viewer
                .draw(&rect, |x, y| if pixel(rect.x1 + x, rect.y1 + y) == *fg { *fg } else { *bg });
        }
        Planned::Coverage { fg, bg, .. } => {
            let line = Line::new(*fg, *bg);
            viewer.draw(&rect, |x, y| {
                line.pixel(
                    line.coverage(pixel(rect.x1 + x, rect.y1 + y))
                        .expect("every pixel must have a coverage"),
                )
            });
        }
        Planned::Pixels { .. } | Planned::Photo { .. } | Planned::Frame { .. } => {
            viewer.draw(&rect, |x, y| pixel(rect.x1 + x, rect.y1 + y))
        }
        Planned::Recall { .. } | Planned::Keep { .. } => panic!("no cache was offered"),
    }
}

/// Plans, applies the plan, and checks its invariants.
pub(crate) fn step(
    screen: &Screen,
    region: &Region,
    shadow: &mut Shadow,
    viewer: &mut Screen,
) -> Vec<Planned> {
    hinted(screen, region, &Hints::NONE, shadow, viewer).0
}

/// The same with hints, which may be wrong.
pub(crate) fn hinted(
    screen: &Screen,
    region: &Region,
    hints: &Hints<'_>,
    shadow: &mut Shadow,
    viewer: &mut Screen,
) -> (Vec<Planned>, HintStats) {
    let snapshot = screen.snapshot(region);
    let sure = shadow.known().difference(shadow.lossy());
    let before = viewer.clone();
    let mut planned = Vec::new();
    let verdict = plan_with(&snapshot, shadow, hints, PlanSettings::default(), &mut planned);
    let mut sent = Region::new();
    for planned in &planned {
        match planned {
            Planned::Shift { region: moved, dx, dy } => {
                assert!(
                    moved.translated(-dx, -dy).difference(&sure).is_empty(),
                    "only known pixels may be moved"
                );
                assert!(
                    moved.translated(-dx, -dy).difference(region).is_empty(),
                    "a shift must read only the snapshot"
                );
                sent.add(moved);
            }
            Planned::Solid { region, .. } => sent.add(region),
            other => sent.add_rect(rect_of(other)),
        }
        apply(planned, &snapshot, viewer);
    }
    assert!(sent.difference(region).is_empty(), "only the snapshot may be sent");
    assert!(region.difference(&sure).difference(&sent).is_empty(), "unknown pixels must be sent");
    assert!(region.difference(shadow.known()).is_empty());
    assert!(!shadow.lossy().overlaps(region));
    for y in 0..screen.size.height as i32 {
        for x in 0..screen.size.width as i32 {
            if region.contains_point(x, y) {
                assert_eq!(
                    viewer.at(x, y) & RGB,
                    screen.at(x, y) & RGB,
                    "the viewer must show ({x}, {y})"
                );
            } else {
                assert_eq!(viewer.at(x, y), before.at(x, y), "({x}, {y}) must not change");
            }
            if shadow.known().contains_point(x, y) && !shadow.lossy().contains_point(x, y) {
                let known = shadow.pixels()[(y * screen.size.width as i32 + x) as usize];
                assert_eq!(known, viewer.at(x, y) & RGB, "the shadow must have ({x}, {y})");
            }
        }
    }
    (planned, verdict)
}

/// A screen of one colour, its shadow, and a viewer that shows it.
pub(crate) fn known_screen(size: Size, color: u32) -> (Screen, Shadow, Screen) {
    let screen = Screen::new(size, color);
    let mut shadow = Shadow::new(size);
    let mut viewer = Screen::new(size, 0x0012_3456);
    let planned = step(&screen, &screen.region(), &mut shadow, &mut viewer);
    assert_eq!(planned, [Planned::Solid { region: screen.region(), color }]);
    (screen, shadow, viewer)
}

pub(crate) fn noise(seed: u32, x: i32, y: i32) -> u32 {
    let mut n = seed ^ (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca6b);
    n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
    n ^ (n >> 12)
}
