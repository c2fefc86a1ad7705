//! Path back, beside the screen: from a viewer's displays, to the outputs that the driver is asked
//! for.
//! Any displays of a viewer become a screen that X, its applications and all viewers can have.
//! Knows rectangles and densities; never who controls the size, nor when it may change.

use thinc_protocol::limits::{SCREEN_AREA_MAX, SCREEN_EDGE_MAX, SCREEN_EDGE_MIN};
use thinc_protocol::viewer::{Display, Displays};
use thinc_region::{Rect, Size};

const EDGE_MIN: i32 = SCREEN_EDGE_MIN as i32;
const EDGE_MAX: i32 = SCREEN_EDGE_MAX as i32;
/// Scales that desktops can draw in; 100 is 96 dots an inch.
const SCALES: std::ops::RangeInclusive<u16> = 50..=500;
/// 100 metres: the limit of the driver, and larger than any display.
const MILLIMETRES_MAX: u32 = 100_000;

/// The outputs of a screen. There is at least one, all lie in the screen, no two overlap, and the
/// screen is no larger than they need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    scale_percent: u16,
    displays: Vec<Display>,
}

impl Arrangement {
    /// One output of this size, as near as possible; None for 0 × 0, which asks for nothing.
    pub fn one(size: Size) -> Option<Arrangement> {
        let edge = |edge: u32| i32::try_from(edge).unwrap_or(i32::MAX);
        let rect = Rect::new(0, 0, edge(size.width), edge(size.height));
        (!rect.is_empty())
            .then(|| Arrangement::fit(0, vec![Display { rect, millimetres: Size::default() }]))
    }

    /// The nearest possible screen for a viewer's displays; None if it has none, which asks for
    /// nothing.
    pub fn of(displays: &Displays) -> Option<Arrangement> {
        let scale = match displays.scale_percent {
            0 => 0,
            percent => percent.clamp(*SCALES.start(), *SCALES.end()),
        };
        (!displays.displays.is_empty()).then(|| Arrangement::fit(scale, displays.displays.clone()))
    }

    fn fit(scale_percent: u16, wanted: Vec<Display>) -> Arrangement {
        let mut displays: Vec<Display> = Vec::with_capacity(wanted.len());
        for mut display in wanted {
            let (width, height) = (edge(display.rect.width()), edge(display.rect.height()));
            let (x, y) = (
                display.rect.x1.clamp(0, EDGE_MAX - width),
                display.rect.y1.clamp(0, EDGE_MAX - height),
            );
            display.rect = Rect::at(x, y, width, height);
            // Mirrored displays are one to the session.
            if displays.iter().all(|other| other.rect != display.rect) {
                displays.push(display);
            }
        }
        loop {
            let mut tried = displays.clone();
            if let [only] = &mut tried[..] {
                let width = only.rect.width();
                let height = only.rect.height().min((SCREEN_AREA_MAX / width as u64) as i32);
                only.rect = Rect::at(0, 0, width, height);
            } else {
                settle(&mut tried);
            }
            if fits(&tried) {
                tried
                    .iter_mut()
                    .for_each(|display| display.millimetres = millimetres(display, scale_percent));
                return Arrangement { scale_percent, displays: tried };
            }
            // The least important one has no room. A single one always fits.
            displays.pop();
        }
    }

    /// The current outputs, without sizes in millimetres.
    pub(crate) fn found(outputs: &[Rect], size: Size, scale_percent: u16) -> Arrangement {
        let rects = if outputs.is_empty() { vec![size.rect()] } else { outputs.to_vec() };
        let display = |rect| Display { rect, millimetres: Size::default() };
        Arrangement { scale_percent, displays: rects.into_iter().map(display).collect() }
    }

    /// Size of the screen that contains them all.
    pub fn size(&self) -> Size {
        bound(&self.displays)
    }

    /// The primary one first; millimetres 0 × 0 mean 96 dots an inch.
    pub fn displays(&self) -> &[Display] {
        &self.displays
    }

    /// Their rectangles.
    pub fn rects(&self) -> impl Iterator<Item = Rect> {
        self.displays.iter().map(|display| display.rect)
    }

    /// Scale of the desktop, in percent of 96 dots an inch; 0 if unknown.
    pub fn scale_percent(&self) -> u16 {
        self.scale_percent
    }
}

fn edge(edge: i32) -> i32 {
    edge.clamp(EDGE_MIN, EDGE_MAX)
}

fn bound(displays: &[Display]) -> Size {
    let edge = |of: fn(&Rect) -> i32| {
        displays.iter().map(|display| of(&display.rect)).max().unwrap_or(0).cast_unsigned()
    };
    Size { width: edge(|rect| rect.x2), height: edge(|rect| rect.y2) }
}

fn fits(displays: &[Display]) -> bool {
    let size = bound(displays);
    size.width <= SCREEN_EDGE_MAX
        && size.height <= SCREEN_EDGE_MAX
        && size.area() <= SCREEN_AREA_MAX
}

/// The size that determines the scale: the chosen scale goes before a physical size, which may be a
/// projector's wall.
fn millimetres(display: &Display, scale_percent: u16) -> Size {
    if scale_percent == 0 {
        let known = display.millimetres.width > 0 && display.millimetres.height > 0;
        let edge = |edge: u32| if known { edge.min(MILLIMETRES_MAX) } else { 0 };
        return Size {
            width: edge(display.millimetres.width),
            height: edge(display.millimetres.height),
        };
    }
    // 25.4 mm an inch, 96 dots an inch at 100 %.
    let edge = |pixels: i32| {
        let (tenths, dots) = (pixels as u64 * 254 * 100, 960 * u64::from(scale_percent));
        ((tenths + dots / 2) / dots).max(1) as u32
    };
    Size { width: edge(display.rect.width()), height: edge(display.rect.height()) }
}

/// Moves displays so that none overlap and no row or column between them is without one: no window
/// is lost there.
fn settle(displays: &mut [Display]) {
    let overlaps =
        |at: usize| displays[..at].iter().any(|other| other.rect.overlaps(&displays[at].rect));
    if (1..displays.len()).any(overlaps) {
        let mut order: Vec<usize> = (0..displays.len()).collect();
        order.sort_by_key(|&at| (displays[at].rect.x1, displays[at].rect.y1));
        let mut x = 0;
        for at in order {
            let rect = &mut displays[at].rect;
            *rect = Rect::at(x, 0, rect.width(), rect.height());
            x = rect.x2;
        }
        return;
    }
    let across: Vec<(i32, i32)> =
        displays.iter().map(|display| (display.rect.x1, display.rect.x2)).collect();
    let down: Vec<(i32, i32)> =
        displays.iter().map(|display| (display.rect.y1, display.rect.y2)).collect();
    for display in displays {
        let (x, y) = (uncovered(&across, display.rect.x1), uncovered(&down, display.rect.y1));
        display.rect = display.rect.translate(-x, -y);
    }
}

/// How much of 0 to `end` no span covers.
fn uncovered(spans: &[(i32, i32)], end: i32) -> i32 {
    let mut spans: Vec<(i32, i32)> =
        spans.iter().copied().filter(|&(from, _)| from < end).collect();
    spans.sort_unstable();
    let (mut missing, mut reached) = (0, 0);
    for (from, to) in spans {
        missing += (from - reached).max(0);
        reached = reached.max(to);
    }
    missing + (end - reached).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn displays(scale_percent: u16, rects: &[Rect]) -> Displays {
        let display = |&rect| Display { rect, millimetres: Size::default() };
        Displays { scale_percent, displays: rects.iter().map(display).collect() }
    }

    fn rects(of: &[Rect]) -> Vec<Rect> {
        Arrangement::of(&displays(0, of)).expect("the list is not empty").rects().collect()
    }

    #[test]
    fn usual_displays_stay_as_they_are() {
        let (left, right) = (Rect::at(0, 120, 1920, 1080), Rect::at(1920, 0, 2560, 1440));
        assert_eq!(rects(&[right, left]), [right, left], "the primary one first");
        let below = Rect::at(400, 1200, 800, 600);
        assert_eq!(
            rects(&[left, below]),
            [Rect::at(0, 0, 1920, 1080), Rect::at(400, 1080, 800, 600)]
        );
        assert_eq!(Arrangement::of(&displays(150, &[])), None);
        assert_eq!(Arrangement::one(Size::default()), None);
    }

    #[test]
    fn impossible_displays_become_possible_ones() {
        let far = [Rect::at(9000, 50, 640, 480), Rect::at(0, 0, 640, 480)];
        assert_eq!(
            rects(&far),
            [Rect::at(640, 50, 640, 480), Rect::at(0, 0, 640, 480)],
            "gaps close"
        );
        let same = Rect::at(0, 0, 1024, 768);
        assert_eq!(rects(&[same, same, same]), [same], "mirrors are one");
        let half = Rect::at(512, 0, 1024, 768);
        assert_eq!(
            rects(&[half, same]),
            [Rect::at(1024, 0, 1024, 768), same],
            "overlapping displays are placed in a row"
        );
        assert_eq!(rects(&[Rect::at(0, 0, 1, 1)]), [Rect::at(0, 0, 64, 64)]);
        assert_eq!(rects(&[Rect::at(0, 0, 16384, 16384)]), [Rect::at(0, 0, 16384, 4096)]);
        let wide = Rect::at(0, 0, 16384, 4096);
        assert_eq!(
            rects(&[wide, Rect::at(0, 4096, 64, 64)]),
            [wide],
            "the least important one is dropped"
        );
        assert_eq!(
            rects(&[Rect::new(0, 0, i32::MAX, i32::MAX), Rect::new(i32::MAX - 1, 5, i32::MAX, 9)])
                .len(),
            1
        );
    }

    #[test]
    fn the_scale_determines_the_size_in_millimetres() {
        let mut two = displays(200, &[Rect::at(0, 0, 3840, 2160)]);
        let mm = |displays: &Displays| Arrangement::of(displays).unwrap().displays()[0].millimetres;
        assert_eq!(mm(&two), Size { width: 508, height: 286 }, "192 dots an inch");
        two.displays[0].millimetres = Size { width: 600, height: u32::MAX };
        assert_eq!(mm(&two), Size { width: 508, height: 286 });
        two.scale_percent = 0;
        assert_eq!(mm(&two), Size { width: 600, height: MILLIMETRES_MAX });
        two.displays[0].millimetres.width = 0;
        assert_eq!(mm(&two), Size::default());
        let scale = |percent| {
            Arrangement::of(&displays(percent, &[Rect::at(0, 0, 9, 9)])).unwrap().scale_percent()
        };
        assert_eq!([scale(0), scale(1), scale(150), scale(u16::MAX)], [0, 50, 150, 500]);
    }

    /// Any displays of a viewer become a screen that X can have.
    #[test]
    fn any_displays_become_a_screen() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: i32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % limit as u64) as i32
        };
        for round in 0..20_000 {
            let reach = [300, 5_000, 20_000, i32::MAX / 2][round % 4];
            let count = 1 + below(16);
            let rects: Vec<Rect> = (0..count)
                .map(|_| Rect::at(below(reach), below(reach), 1 + below(reach), 1 + below(reach)))
                .collect();
            let arrangement = Arrangement::of(&displays(below(700) as u16, &rects)).unwrap();
            let placed: Vec<Rect> = arrangement.rects().collect();
            let size = arrangement.size();
            assert!(fits(arrangement.displays()) && !placed.is_empty(), "{rects:?} {placed:?}");
            let axis = |of: fn(&Rect) -> (i32, i32)| placed.iter().map(of).collect::<Vec<_>>();
            assert_eq!(uncovered(&axis(|r| (r.x1, r.x2)), size.width as i32), 0, "{placed:?}");
            assert_eq!(uncovered(&axis(|r| (r.y1, r.y2)), size.height as i32), 0, "{placed:?}");
            for (at, rect) in placed.iter().enumerate() {
                assert!(
                    rect.width() >= EDGE_MIN
                        && rect.height() >= EDGE_MIN
                        && rect.x1 >= 0
                        && rect.y1 >= 0
                );
                assert!(placed[..at].iter().all(|other| !other.overlaps(rect)), "{placed:?}");
            }
        }
    }
}
