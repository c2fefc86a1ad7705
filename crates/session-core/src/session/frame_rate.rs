//! Path 4/13, and path back: under session.rs, from records of images, to the driver's clock.
//! Which drawings are frames, and how many frames a second the session's viewers take. Knows
//! records and viewers' rates; never pixels.

use thinc_protocol::Micros;
use thinc_region::Rect;
use thinc_ring::{DrawHint, DrawRecord, DrawableId, FRAME_RATE_MAX, RecordKind};

use super::Session;

/// Fewest pixels of an image that is a frame, as in `driver/src/pace.c`.
const FRAME_AREA_MIN: u64 = 64 * 1024;

/// The image of which records are read: an op has one for each visible part.
#[derive(Debug, Default)]
pub(super) struct FrameRecords {
    op: u64,
    area: u64,
    extents: Rect,
}

impl FrameRecords {
    /// Takes a record. At the last one of a frame, where that is; `whole` if it is in a pixmap,
    /// which may be shown anywhere.
    fn take(&mut self, record: &DrawRecord, whole: Rect) -> Option<Rect> {
        let RecordKind::Draw { dst, rect, hint: DrawHint::Image, .. } = record.kind else {
            return None;
        };
        let place = if dst == DrawableId::SCREEN { rect } else { whole };
        if self.op != record.op {
            // The rest of another one was lost with other records.
            *self = FrameRecords { op: record.op, ..FrameRecords::default() };
        }
        self.area += rect.area();
        self.extents = if self.extents.is_empty() { place } else { self.extents.bound(&place) };
        if record.more {
            return None;
        }
        let FrameRecords { area, extents, .. } = std::mem::take(self);
        (area >= FRAME_AREA_MIN).then_some(extents)
    }
}

impl Session {
    /// Tells the viewers of a frame, if this record ends one.
    #[inline]
    pub(super) fn count_frame(&mut self, record: &DrawRecord, now: Micros) {
        if let Some(rect) = self.frame_records.take(record, self.screen.size.rect()) {
            let shown = matches!(record.kind, RecordKind::Draw { dst: DrawableId::SCREEN, .. });
            self.viewers.iter_mut().for_each(|viewer| viewer.frame_drawn(&rect, shown, now));
        }
    }

    /// Frames a second that the fastest viewer takes, for the driver. With no viewer the most:
    /// nothing is encoded then, and a recorder or a simulation in the session goes on as on a
    /// monitor.
    pub fn frame_rate(&self) -> u32 {
        let rates = self.viewers.iter().map(|viewer| viewer.frame_rate.rate());
        rates.max().unwrap_or(FRAME_RATE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use thinc_ring::Alpha;

    use super::*;

    const SCREEN: Rect = Rect { x1: 0, y1: 0, x2: 1000, y2: 800 };

    fn image(rect: Rect, more: bool) -> DrawRecord {
        let (dst, hint) = (DrawableId::SCREEN, DrawHint::Image);
        let kind = RecordKind::Draw { dst, rect, hint, alpha: Alpha::Opaque };
        DrawRecord { op: 1, more, window: 3, kind }
    }

    #[test]
    fn all_visible_parts_of_an_image_are_one_frame() {
        let mut records = FrameRecords::default();
        assert_eq!(records.take(&image(Rect::at(0, 0, 200, 200), false), SCREEN), None, "an icon");
        assert_eq!(records.take(&image(Rect::at(0, 0, 200, 200), true), SCREEN), None);
        let rest = image(Rect::at(300, 0, 200, 200), false);
        assert_eq!(records.take(&rest, SCREEN), Some(Rect::at(0, 0, 500, 200)));
        assert_eq!(records.take(&rest, SCREEN), None, "that was another op");
        assert_eq!(records.take(&image(Rect::at(0, 0, 250, 250), true), SCREEN), None);
        let next = DrawRecord { op: 2, ..rest };
        assert_eq!(records.take(&next, SCREEN), None, "the rest of the other one was lost");
    }

    #[test]
    fn only_images_are_frames() {
        let mut records = FrameRecords::default();
        let mut fill = image(SCREEN, false);
        if let RecordKind::Draw { hint, .. } = &mut fill.kind {
            *hint = DrawHint::Solid(0);
        }
        assert_eq!(records.take(&fill, SCREEN), None);
        assert_eq!(records.take(&image(SCREEN, false), SCREEN), Some(SCREEN));
    }
}
