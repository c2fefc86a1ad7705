//! Path 4/13: from thinc-ring's record.rs, to command_queue.rs.
//! Collects the records of one op and determines what that op did to the screen, with what
//! drawable/ knows of pixmaps. Knows records of the screen and of pixmaps; never pixels, viewers or
//! time.

use std::collections::VecDeque;

use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};

#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::command_queue::Kinds;
use crate::queue::copies::{CopyCommand, Proof};
use crate::screen::drawable::{CopyOp, Drawables, ScreenEffect};

/// Most rectangles of one op; past it they become coarser, and a COPY becomes a drawing.
const OP_RECTS_MAX: usize = 1024;

/// What an op did to the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// Pixels changed.
    Draw { rect: Rect, kinds: Kinds },
    /// Op `op` moved pixels, all read before any was written.
    Copy { op: u64, copy: CopyCommand, proof: Proof },
    /// Pixels were redrawn unchanged, if the drawable maps are right.
    Unchanged(Rect),
    /// More rectangles than one of those has.
    Many(Region),
}

/// A copy whose records are arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CollectedCopy {
    op: u64,
    window: u32,
    copy: CopyOp,
}

/// The state of the record stream.
#[derive(Debug)]
pub(crate) struct Translator {
    drawables: Drawables,
    /// Follow pixmaps.
    offscreen: bool,
    collected: Option<CollectedCopy>,
    /// The rectangles of the collected copy.
    rects: Vec<Rect>,
    /// It has too many rectangles: it becomes a drawing.
    coarse: bool,
    effect: ScreenEffect,
    /// Drawings not taken yet, each with its top-level window.
    out: VecDeque<(Drawing, u32)>,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl Translator {
    pub(crate) fn new(screen: Size, offscreen: bool) -> Translator {
        Translator {
            drawables: Drawables::new(screen),
            offscreen,
            collected: None,
            rects: Vec::new(),
            coarse: false,
            effect: ScreenEffect::default(),
            out: VecDeque::new(),
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
        self.drawables.set_mutation(mutation);
    }

    /// What is known of the screen and of pixmaps.
    pub(crate) fn drawables(&self) -> &Drawables {
        &self.drawables
    }

    /// The next change of the screen, in order, with its top-level window.
    #[inline]
    pub(crate) fn poll_drawing(&mut self) -> Option<(Drawing, u32)> {
        self.out.pop_front()
    }

    /// Takes a record. Its effect on the screen comes from `poll_drawing` once all records of its
    /// op have arrived; but a drawing of one rectangle, by far the usual case, is returned at once,
    /// and comes after all of those.
    pub(crate) fn record(&mut self, record: &DrawRecord) -> Option<(Rect, Kinds)> {
        match record.kind {
            RecordKind::Draw { dst, rect, hint: what, alpha } => {
                self.end();
                self.drawables.draw(dst, &rect, what, alpha);
                return (dst == DrawableId::SCREEN).then(|| (rect, kinds(what)));
            }
            RecordKind::Copy { src, dst, rect, dx, dy, over } => {
                let next = CollectedCopy {
                    op: record.op,
                    window: record.window,
                    copy: CopyOp { src, dst, dx, dy, over },
                };
                if self.collected != Some(next) {
                    self.end();
                    self.collected = Some(next);
                }
                self.rects.push(rect);
                if self.rects.len() > OP_RECTS_MAX {
                    let region: Region = self.rects.drain(..).collect();
                    self.rects.extend_from_slice(region.simplified(OP_RECTS_MAX / 4).rects());
                    self.coarse = true;
                }
                if !record.more {
                    self.end();
                }
            }
            RecordKind::PixmapCreate { id, width, height, opaque } => {
                self.end();
                if self.offscreen {
                    self.drawables.create(id, Size { width, height }, opaque);
                }
            }
            RecordKind::PixmapDestroy { id } => {
                self.end();
                self.drawables.destroy(id);
            }
            RecordKind::Overflow => self.overflow(),
            _ => self.end(),
        }
        None
    }

    /// Records are missing: a part of a COPY becomes pixels, and anything may have been drawn
    /// meanwhile.
    pub(crate) fn overflow(&mut self) {
        if let Some(CollectedCopy { copy, window, .. }) = self.collected.take()
            && copy.dst == DrawableId::SCREEN
        {
            self.out.push_back((Drawing::Many(self.rects.iter().copied().collect()), window));
        }
        self.rects.clear();
        self.coarse = false;
        if !mutated!(self.mutation, OverflowKeepsMaps) {
            self.drawables.forget();
        }
    }

    /// A new screen, or the same again.
    pub(crate) fn reset(&mut self, screen: Size) {
        self.collected = None;
        self.rects.clear();
        self.coarse = false;
        self.out.clear();
        self.drawables.reset(screen);
    }

    /// The collected copy is complete.
    #[inline]
    fn end(&mut self) {
        if let Some(collected) = self.collected.take() {
            self.copied(collected);
        }
    }

    fn copied(&mut self, collected: CollectedCopy) {
        let CollectedCopy { op, window, copy } = collected;
        let on_screen = copy.dst == DrawableId::SCREEN;
        if std::mem::take(&mut self.coarse) {
            for rect in &self.rects {
                self.drawables.draw(copy.dst, rect, DrawHint::Other, Alpha::Unknown);
            }
            if on_screen {
                self.out.push_back((Drawing::Many(self.rects.iter().copied().collect()), window));
            }
            return self.rects.clear();
        }
        self.drawables.copy(copy, &self.rects, &mut self.effect);
        if on_screen && copy.src == DrawableId::SCREEN {
            let region: Region = self.rects.iter().copied().collect();
            let (dx, dy) = (copy.dx, copy.dy);
            let drawing = if (dx, dy) == (0, 0) {
                Drawing::Many(region)
            } else {
                Drawing::Copy { op, copy: CopyCommand { region, dx, dy }, proof: Proof::Recorded }
            };
            self.out.push_back((drawing, window));
        } else if on_screen {
            let ScreenEffect { moves, unchanged, drawn, kinds } = &mut self.effect;
            for moved in moves.drain(..) {
                self.out
                    .push_back((Drawing::Copy { op, copy: moved, proof: Proof::Derived }, window));
            }
            self.out.extend(unchanged.iter().map(|&rect| (Drawing::Unchanged(rect), window)));
            self.out
                .extend(drawn.iter().map(|&rect| (Drawing::Draw { rect, kinds: *kinds }, window)));
        }
        self.rects.clear();
    }
}

fn kinds(what: DrawHint) -> Kinds {
    match what {
        DrawHint::Solid(_) => Kinds::SOLID,
        DrawHint::Pattern => Kinds::PATTERN,
        DrawHint::Glyphs => Kinds::GLYPHS,
        DrawHint::Image | DrawHint::Stereo { .. } => Kinds::IMAGE,
        DrawHint::Composite => Kinds::COMPOSITE,
        DrawHint::Video { .. } => Kinds::VIDEO,
        DrawHint::Other => Kinds::OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: DrawableId = DrawableId::SCREEN;
    const PIXMAP: DrawableId = DrawableId(3);

    fn translator() -> Translator {
        Translator::new(Size { width: 64, height: 64 }, true)
    }

    fn copy(op: u64, more: bool, rect: Rect, dx: i32, dy: i32) -> DrawRecord {
        let kind = RecordKind::Copy { src: SCREEN, dst: SCREEN, rect, dx, dy, over: false };
        DrawRecord { op, more, window: 1, kind }
    }

    fn all(translator: &mut Translator) -> Vec<Drawing> {
        std::iter::from_fn(|| translator.poll_drawing()).map(|(drawing, _)| drawing).collect()
    }

    #[test]
    fn records_of_one_op_are_one_region() {
        let mut translator = translator();
        translator.record(&copy(1, true, Rect::new(0, 5, 10, 15), 0, 5));
        assert_eq!(all(&mut translator), []);
        translator.record(&copy(1, false, Rect::new(0, 15, 20, 25), 0, 5));
        let region: Region =
            [Rect::new(0, 5, 10, 15), Rect::new(0, 15, 20, 25)].into_iter().collect();
        let copy = CopyCommand { region, dx: 0, dy: 5 };
        assert_eq!(all(&mut translator), [Drawing::Copy { op: 1, copy, proof: Proof::Recorded }]);
    }

    #[test]
    fn another_op_or_vector_is_another_copy() {
        let mut translator = translator();
        translator.record(&copy(1, true, Rect::new(0, 5, 10, 15), 0, 5));
        translator.record(&copy(2, false, Rect::new(0, 25, 10, 35), 0, 5));
        let drawings = all(&mut translator);
        assert!(
            matches!(&drawings[..], [Drawing::Copy { op: 1, .. }, Drawing::Copy { op: 2, .. }]),
            "{drawings:?}"
        );
    }

    #[test]
    fn a_copy_cut_by_an_overflow_is_pixels() {
        let mut translator = translator();
        translator.record(&copy(1, true, Rect::new(0, 5, 10, 15), 0, 5));
        translator.record(&DrawRecord {
            op: 9,
            more: false,
            window: 0,
            kind: RecordKind::Overflow,
        });
        assert_eq!(all(&mut translator), [Drawing::Many(Rect::new(0, 5, 10, 15).into())]);
    }

    #[test]
    fn a_copy_of_too_many_rectangles_is_pixels() {
        let mut translator = translator();
        for i in 0..1100 {
            let rect = Rect::at(i % 32 * 2, i / 32 + 5, 1, 1);
            translator.record(&copy(1, i < 1099, rect, 0, 5));
        }
        let drawings = all(&mut translator);
        let [Drawing::Many(region)] = &drawings[..] else { panic!("{drawings:?}") };
        assert!((0..1100).all(|i| region.contains_point(i % 32 * 2, i / 32 + 5)));
    }

    #[test]
    fn changes_off_the_screen_are_not_reported() {
        let mut translator = translator();
        let rect = Rect::new(0, 0, 5, 5);
        let draw =
            RecordKind::Draw { dst: PIXMAP, rect, hint: DrawHint::Image, alpha: Alpha::Opaque };
        let off = RecordKind::Copy { src: SCREEN, dst: PIXMAP, rect, dx: 0, dy: 0, over: false };
        let on = RecordKind::Copy { src: PIXMAP, dst: SCREEN, rect, dx: 0, dy: 0, over: false };
        let record = |kind| DrawRecord { op: 1, more: false, window: 1, kind };
        translator.record(&record(draw));
        translator.record(&record(off));
        assert_eq!(all(&mut translator), []);
        translator.record(&record(on));
        assert_eq!(
            all(&mut translator),
            [Drawing::Draw { rect, kinds: Kinds::IMAGE }],
            "the pixmap is not known"
        );
    }

    #[test]
    fn a_drawing_keeps_its_window() {
        let mut translator = translator();
        translator
            .record(&DrawRecord { window: 7, ..copy(1, true, Rect::new(0, 5, 10, 15), 0, 5) });
        translator.record(&DrawRecord { op: 2, more: false, window: 8, kind: RecordKind::Idle });
        assert!(matches!(translator.poll_drawing(), Some((Drawing::Copy { .. }, 7))));
    }
}
