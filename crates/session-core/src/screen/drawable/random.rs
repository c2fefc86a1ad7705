//! Tests of the drawable maps: random ops, with every claim checked against pixels after each. The
//! ops are those of toolkits and compositors, so that equalities occur at all.

use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawableId, VideoLayout};

use super::model::{ChangeTotals, DrawableModel, SCREEN};

const SIZE: Size = Size { width: 96, height: 72 };
/// Ops of a seed.
const OPS: usize = 120;
const PIXMAPS_MAX: usize = 6;

/// xorshift64*: the tests' own numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i32) -> i32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n.max(1) as u64) as i32
    }

    fn one_in(&mut self, n: i32) -> bool {
        self.below(n) == 0
    }

    /// A rectangle inside of `within`: all of it, on tile edges, or any.
    fn rect(&mut self, within: Rect) -> Rect {
        if self.one_in(4) {
            return within;
        }
        let grain = if self.one_in(3) { 16 } else { 1 };
        let mut edges = |low: i32, high: i32| {
            let a = low + self.below((high - low) / grain + 1) * grain;
            let b = low + self.below((high - low) / grain + 1) * grain;
            (a.min(b), a.max(b))
        };
        let ((x1, x2), (y1, y2)) = (edges(within.x1, within.x2), edges(within.y1, within.y2));
        let rect = Rect::new(x1, y1, x2, y2);
        if rect.is_empty() { within } else { rect }
    }

    /// One to three disjoint rectangles.
    fn rects(&mut self, within: Rect) -> Vec<Rect> {
        let mut rects = vec![self.rect(within)];
        for _ in 0..self.below(3) {
            let next = self.rect(within);
            if rects.iter().all(|rect| !rect.overlaps(&next)) {
                rects.push(next);
            }
        }
        rects
    }
}

struct Run {
    model: DrawableModel,
    random: Random,
}

impl Run {
    fn any(&mut self) -> DrawableId {
        let ids: Vec<DrawableId> = self.model.drawables.keys().copied().collect();
        ids[self.random.below(ids.len() as i32) as usize]
    }

    fn pixmap(&mut self) -> DrawableId {
        if self.model.drawables.len() <= 1
            || self.model.drawables.len() < PIXMAPS_MAX && self.random.one_in(6)
        {
            return self.create();
        }
        loop {
            let id = self.any();
            if id != SCREEN {
                return id;
            }
        }
    }

    fn create(&mut self) -> DrawableId {
        let (width, height) = (16 + self.random.below(100), 16 + self.random.below(70));
        let opaque = self.random.one_in(2);
        self.model.create(width as u32, height as u32, opaque)
    }

    fn what(&mut self) -> (DrawHint, Alpha) {
        let color = [0xff_ffff, 0, 0x12_3456][self.random.below(3) as usize];
        match self.random.below(12) {
            0..4 => {
                let alpha = if self.random.one_in(4) { Alpha::Unknown } else { Alpha::Opaque };
                (DrawHint::Solid(color), alpha)
            }
            4 => (DrawHint::Pattern, Alpha::Opaque),
            5 => (DrawHint::Pattern, Alpha::Kept),
            6 | 7 => (DrawHint::Glyphs, Alpha::Kept),
            8 => (
                DrawHint::Image,
                if self.random.one_in(2) { Alpha::Unknown } else { Alpha::Opaque },
            ),
            9 => (
                DrawHint::Composite,
                if self.random.one_in(3) { Alpha::Unknown } else { Alpha::Kept },
            ),
            10 => {
                let port = self.random.below(2) as u16;
                let size = Size { width: 8, height: 8 };
                let (crop, place) = (size.rect(), size.rect());
                (
                    DrawHint::Video { port, layout: VideoLayout::Yuv420, size, crop, place },
                    Alpha::Opaque,
                )
            }
            _ => (
                DrawHint::Other,
                [Alpha::Kept, Alpha::Unknown, Alpha::Opaque][self.random.below(3) as usize],
            ),
        }
    }

    fn draw(&mut self) {
        let id = if self.random.one_in(3) { SCREEN } else { self.pixmap() };
        let rects = self.random.rects(self.model.canvas(id).size.rect());
        let (what, alpha) = self.what();
        self.model.draw(id, &rects, what, alpha);
    }

    /// A copy of everything, or of some of it.
    fn copy(
        &mut self,
        src: DrawableId,
        dst: DrawableId,
        by: (i32, i32),
        whole: bool,
    ) -> ChangeTotals {
        let source = self.model.canvas(src).size.rect().translate(by.0, by.1);
        let within = source.intersect(&self.model.canvas(dst).size.rect());
        if within.is_empty() {
            return ChangeTotals::default();
        }
        let rects = if whole { vec![within] } else { self.random.rects(within) };
        let over = src != dst && self.random.one_in(3);
        self.model.copy(src, dst, &rects, by, over)
    }

    fn by(&mut self) -> (i32, i32) {
        match self.random.below(4) {
            0 => (0, 0),
            1 => (0, self.random.below(40) - 20),
            2 => (16 * (self.random.below(5) - 2), 16 * (self.random.below(5) - 2)),
            _ => (self.random.below(60) - 30, self.random.below(60) - 30),
        }
    }

    /// A toolkit's frame: from a persistent cache through a temporary buffer to the screen.
    fn frame(&mut self) {
        let cache = self.pixmap();
        let frame = self.create();
        if self.random.one_in(2) {
            let rect = self.model.canvas(frame).size.rect();
            self.model.draw(frame, &[rect], DrawHint::Solid(0xff_ffff), Alpha::Opaque);
        }
        let by = self.by();
        self.copy(cache, frame, by, true);
        if self.random.one_in(3) {
            let rects = self.random.rects(self.model.canvas(frame).size.rect());
            self.model.draw(frame, &rects, DrawHint::Glyphs, Alpha::Kept);
        }
        let by = self.by();
        let whole = self.random.one_in(2);
        self.copy(frame, SCREEN, by, whole);
        self.model.destroy(frame);
    }

    /// A compositor's frame: the window's pixmap into its own, and that to the screen.
    fn compose(&mut self) {
        let (window, composed) = (self.pixmap(), self.pixmap());
        let by = self.by();
        if window != composed {
            self.copy(window, composed, by, true);
        }
        self.copy(composed, SCREEN, (0, 0), true);
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0..12 => self.draw(),
            12..18 => self.frame(),
            18..23 => self.compose(),
            23..26 => {
                let (id, by) = (self.pixmap(), self.by());
                self.copy(id, id, by, false);
            }
            26..29 => {
                let by = self.by();
                self.copy(SCREEN, SCREEN, by, false);
            }
            29..31 => {
                // What a menu covers is saved and restored.
                let id = self.pixmap();
                let by = self.by();
                self.copy(SCREEN, id, by, false);
                if self.random.one_in(2) {
                    self.draw();
                }
                self.copy(id, SCREEN, (-by.0, -by.1), false);
            }
            31..36 => {
                let (src, dst, by) = (self.any(), self.any(), self.by());
                self.copy(src, dst, by, false);
            }
            36 | 37 => {
                let id = self.pixmap();
                self.model.destroy(id);
                if self.random.one_in(4) {
                    self.model.reuse(id, 40, 40, false);
                }
            }
            38 => {
                let id = if self.random.one_in(2) { SCREEN } else { self.pixmap() };
                let rects = self.random.rects(self.model.canvas(id).size.rect());
                self.model
                    .overflow(|model| model.paint(id, &rects, DrawHint::Image, Alpha::Opaque));
            }
            _ => {
                if self.random.one_in(4) {
                    let (width, height) = (64 + self.random.below(64), 48 + self.random.below(48));
                    self.model.resize(Size { width: width as u32, height: height as u32 });
                }
            }
        }
    }
}

/// Runs a seed to its end.
fn run(seed: u64) -> ChangeTotals {
    run_model(seed, DrawableModel::new(SIZE))
}

fn run_model(seed: u64, model: DrawableModel) -> ChangeTotals {
    let mut run = Run { model, random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) };
    (0..OPS).for_each(|_| run.step());
    run.model.all
}

#[test]
fn every_claim_of_the_maps_holds_after_random_ops() {
    let mut all = ChangeTotals::default();
    for seed in 1..=400 {
        let totals = std::panic::catch_unwind(|| run(seed));
        let totals = totals.unwrap_or_else(|_| panic!("seed {seed}"));
        all.moved += totals.moved;
        all.unchanged += totals.unchanged;
        all.drawn += totals.drawn;
    }
    // A map without knowledge makes no claim.
    assert!(
        all.moved * 100 > all.drawn && all.unchanged * 100 > all.drawn,
        "equalities are found: {all:?}"
    );
}

/// Each rule of the maps has a seed that fails without it.
#[cfg(feature = "mutations")]
#[test]
fn every_rule_is_needed() {
    use crate::mutation::Mutation;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<Mutation> = [
        Mutation::EqualityIgnoresChangesHere,
        Mutation::EqualityIgnoresChangesThere,
        Mutation::EqualityDoesNotMove,
        Mutation::CopiesOfOneOpChain,
        Mutation::OverOfTranslucentIsCopy,
        Mutation::SolidSurvivesDrawing,
        Mutation::OverflowKeepsMaps,
    ]
    .into_iter()
    .filter(|&rule| {
        let run = |seed| {
            let mut model = DrawableModel::new(SIZE);
            model.translator.set_mutation(Some(rule));
            run_model(seed, model)
        };
        let fails = |seed| std::panic::catch_unwind(|| run(seed)).is_err();
        !(1..=200).any(fails)
    })
    .collect();
    std::panic::set_hook(hook);
    assert!(missed.is_empty(), "no seed fails without {missed:?}");
}
