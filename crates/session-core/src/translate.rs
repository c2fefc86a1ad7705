//! Path 4/13: from thinc-ring's record.rs, to command_queue.rs.
//! Collects the records of one op into one drawing of the screen: a region that changed, or a region and a vector.
//! Knows records of the screen and of pixmaps; never pixels, viewers or time.

use thinc_region::{Rect, Region};
use thinc_ring::{DrawRecord, DrawableId, Drawn, RecordKind};

use crate::command_queue::{CopyCommand, Kinds};

/// Most rectangles of one op; past it they become coarser, and a COPY becomes a drawing.
const OP_RECTS_MAX: usize = 1024;

/// A drawing on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// Pixels changed.
    Draw {
        /// One record's, by far the usual case.
        rect: Rect,
        kinds: Kinds,
    },
    /// Op `op` moved pixels, all read before any was written.
    Copy { op: u64, copy: CopyCommand },
    /// More than can be told as one of those.
    Many(Region),
}

/// Where one op's COPY has come to.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    /// The COPY whose records are coming, and its op.
    copy: Option<(u64, CopyCommand)>,
    /// It has too many rectangles: it will be a drawing.
    coarse: bool,
}

impl Translator {
    /// Takes a record; gives what it tells about the screen, once all its op's records are here, and what came to an end
    /// before it.
    pub(crate) fn record(&mut self, record: &DrawRecord) -> (Option<Drawing>, Option<Drawing>) {
        match record.kind {
            RecordKind::Draw { dst: DrawableId::SCREEN, rect, what, .. } => {
                (self.end(), Some(Drawing::Draw { rect, kinds: kinds(what) }))
            }
            RecordKind::Copy { src: DrawableId::SCREEN, dst: DrawableId::SCREEN, rect, dx, dy, .. } => {
                let belongs =
                    self.copy.as_ref().is_some_and(|(op, copy)| *op == record.op && (copy.dx, copy.dy) == (dx, dy));
                let before = if belongs { None } else { self.end() };
                let (_, copy) =
                    self.copy.get_or_insert_with(|| (record.op, CopyCommand { region: Region::new(), dx, dy }));
                copy.region.add_rect(rect);
                if copy.region.rect_count() > OP_RECTS_MAX {
                    copy.region = copy.region.simplified(OP_RECTS_MAX / 4);
                    self.coarse = true;
                }
                let whole = if record.more { None } else { self.end() };
                (before, whole)
            }
            // From a pixmap: what is now on the screen is pixels like any other.
            RecordKind::Copy { dst: DrawableId::SCREEN, rect, .. } => {
                (self.end(), Some(Drawing::Draw { rect, kinds: Kinds::IMAGE }))
            }
            RecordKind::Overflow => (self.abandon(), None),
            _ => (self.end(), None),
        }
    }

    /// The COPY that was being collected, whole.
    fn end(&mut self) -> Option<Drawing> {
        let (op, copy) = self.copy.take()?;
        if std::mem::take(&mut self.coarse) || (copy.dx, copy.dy) == (0, 0) {
            return Some(Drawing::Many(copy.region));
        }
        Some(Drawing::Copy { op, copy })
    }

    /// Records of the op are missing: a part of a COPY is pixels.
    pub(crate) fn abandon(&mut self) -> Option<Drawing> {
        self.coarse = false;
        self.copy.take().map(|(_, copy)| Drawing::Many(copy.region))
    }
}

fn kinds(what: Drawn) -> Kinds {
    match what {
        Drawn::Solid(_) => Kinds::SOLID,
        Drawn::Pattern => Kinds::PATTERN,
        Drawn::Glyphs => Kinds::GLYPHS,
        Drawn::Image => Kinds::IMAGE,
        Drawn::Composite => Kinds::COMPOSITE,
        Drawn::Video { .. } => Kinds::VIDEO,
        Drawn::Other => Kinds::OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(op: u64, more: bool, rect: Rect, dx: i32, dy: i32) -> DrawRecord {
        let kind = RecordKind::Copy { src: DrawableId::SCREEN, dst: DrawableId::SCREEN, rect, dx, dy, over: false };
        DrawRecord { op, more, window: 1, kind }
    }

    #[test]
    fn records_of_one_op_are_one_region() {
        let mut translator = Translator::default();
        assert_eq!(translator.record(&copy(1, true, Rect::new(0, 0, 10, 10), 0, 5)), (None, None));
        let (before, whole) = translator.record(&copy(1, false, Rect::new(0, 10, 20, 20), 0, 5));
        let region: Region = [Rect::new(0, 0, 10, 10), Rect::new(0, 10, 20, 20)].into_iter().collect();
        assert_eq!(before, None);
        assert_eq!(whole, Some(Drawing::Copy { op: 1, copy: CopyCommand { region, dx: 0, dy: 5 } }));
    }

    #[test]
    fn another_op_or_vector_is_another_copy() {
        let mut translator = Translator::default();
        translator.record(&copy(1, true, Rect::new(0, 0, 10, 10), 0, 5));
        let (before, whole) = translator.record(&copy(2, false, Rect::new(0, 20, 10, 30), 0, 5));
        assert!(
            matches!(before, Some(Drawing::Copy { op: 1, .. })) && matches!(whole, Some(Drawing::Copy { op: 2, .. }))
        );
    }

    #[test]
    fn a_copy_cut_by_an_overflow_is_pixels() {
        let mut translator = Translator::default();
        translator.record(&copy(1, true, Rect::new(0, 0, 10, 10), 0, 5));
        let overflow = DrawRecord { op: 9, more: false, window: 0, kind: RecordKind::Overflow };
        let region = Region::from(Rect::new(0, 0, 10, 10));
        assert_eq!(translator.record(&overflow), (Some(Drawing::Many(region)), None));
    }

    #[test]
    fn what_happens_off_the_screen_is_not_seen() {
        let mut translator = Translator::default();
        let pixmap = DrawableId(3);
        let rect = Rect::new(0, 0, 5, 5);
        let draw = RecordKind::Draw { dst: pixmap, rect, what: Drawn::Image, alpha: thinc_ring::Alpha::Opaque };
        let off = RecordKind::Copy { src: DrawableId::SCREEN, dst: pixmap, rect, dx: 0, dy: 0, over: false };
        let on = RecordKind::Copy { src: pixmap, dst: DrawableId::SCREEN, rect, dx: 0, dy: 0, over: false };
        let record = |kind| DrawRecord { op: 1, more: false, window: 1, kind };
        assert_eq!(translator.record(&record(draw)), (None, None));
        assert_eq!(translator.record(&record(off)), (None, None));
        assert_eq!(translator.record(&record(on)), (None, Some(Drawing::Draw { rect, kinds: Kinds::IMAGE })));
    }
}
