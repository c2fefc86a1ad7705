//! Path 4/13, and path back: under session.rs, from records of images, to the driver's clock.
//! Which drawings are frames, and how many frames a second the session's viewers take. Knows
//! records and viewers' rates; never pixels.

use thinc_protocol::Micros;
use thinc_region::Rect;
use thinc_ring::{DrawHint, DrawRecord, DrawableId, FRAME_RATE_MAX, RecordKind};

use super::Session;

/// Fewest pixels of an image that is a frame, as in `driver/src/pace.c`.
const FRAME_AREA_MIN: u64 = 64 * 1024;

/// Frames in pixmaps that are remembered until they are copied to the screen: a compositor copies
/// them there through a buffer of its own. Past that the oldest is forgotten.
const PIXMAP_FRAMES_MAX: usize = 4;

/// A frame, at the end of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// A program drew it here on the screen.
    Drawn(Rect),
    /// A program drew it in a pixmap, which may be shown anywhere.
    Hidden,
}

/// The image of which records are read: an op has one for each visible part.
#[derive(Debug, Default)]
struct ImageParts {
    op: u64,
    area: u64,
    extents: Rect,
}

/// A frame in a pixmap, and how much of it the op of which records are read has copied, and where.
#[derive(Clone, Copy, Debug)]
struct PixmapFrame {
    pixmap: DrawableId,
    rect: Rect,
    area: u64,
    copied: Rect,
}

/// Frames that are being read, and those that nobody has copied yet.
#[derive(Debug, Default)]
pub(super) struct FrameRecords {
    image: ImageParts,
    /// The newest last.
    pixmaps: Vec<PixmapFrame>,
    /// The op of which copies of such a frame were read, and where they go. Its last record may be
    /// a drawing, of what its source does not have.
    copying: Option<(u64, DrawableId)>,
}

impl FrameRecords {
    /// Takes a record of an image; returns a frame at its last one.
    fn take_image(&mut self, record: &DrawRecord, dst: DrawableId, rect: &Rect) -> Option<Frame> {
        let image = &mut self.image;
        if image.op != record.op {
            // The rest of another one was lost with other records.
            *image = ImageParts { op: record.op, ..ImageParts::default() };
        }
        image.area += rect.area();
        image.extents = if image.extents.is_empty() { *rect } else { image.extents.bound(rect) };
        if record.more {
            return None;
        }
        let ImageParts { area, extents, .. } = std::mem::take(image);
        if area < FRAME_AREA_MIN {
            return None;
        }
        if dst == DrawableId::SCREEN {
            return Some(Frame::Drawn(extents));
        }
        self.remember(dst, extents);
        Some(Frame::Hidden)
    }

    /// The newest frame of this place in a pixmap.
    fn remember(&mut self, pixmap: DrawableId, rect: Rect) {
        self.pixmaps.retain(|frame| frame.pixmap != pixmap || !frame.rect.overlaps(&rect));
        if self.pixmaps.len() >= PIXMAP_FRAMES_MAX {
            self.pixmaps.remove(0);
        }
        self.pixmaps.push(PixmapFrame { pixmap, rect, area: 0, copied: Rect::default() });
    }

    /// Takes a record of a copy by this vector.
    fn take_copy(
        &mut self,
        op: u64,
        src: DrawableId,
        dst: DrawableId,
        rect: &Rect,
        by: (i32, i32),
    ) {
        for frame in self.pixmaps.iter_mut().filter(|frame| frame.pixmap == src) {
            let part = frame.rect.translate(by.0, by.1).intersect(rect);
            if part.is_empty() {
                continue;
            }
            frame.area += part.area();
            frame.copied = if frame.copied.is_empty() { part } else { frame.copied.bound(&part) };
            self.copying = Some((op, dst));
        }
    }

    /// Before any record: what was read of an op whose end was lost is no copy.
    fn begin(&mut self, op: u64) {
        if self.copying.is_some_and(|(copying, _)| copying != op) {
            self.copying = None;
            for frame in &mut self.pixmaps {
                (frame.area, frame.copied) = (0, Rect::default());
            }
        }
    }

    /// After the last record of an op: calls `shown` with each frame that it has copied to the
    /// screen. Elsewhere a frame is in its new place.
    fn end(&mut self, mut shown: impl FnMut(&Rect)) {
        let Some((_, dst)) = self.copying.take() else { return };
        let mut moved = [Rect::default(); PIXMAP_FRAMES_MAX];
        let mut places = moved.iter_mut();
        self.pixmaps.retain_mut(|frame| {
            let area = std::mem::take(&mut frame.area);
            let copied = std::mem::take(&mut frame.copied);
            if area < FRAME_AREA_MIN {
                return true;
            }
            if dst == DrawableId::SCREEN {
                shown(&copied);
            } else if let Some(place) = places.next() {
                *place = copied;
            }
            false
        });
        for rect in moved.iter().filter(|rect| !rect.is_empty()) {
            self.remember(dst, *rect);
        }
    }
}

impl Session {
    /// Tells the viewers of a frame, if this record ends one.
    #[inline]
    pub(super) fn count_frame(&mut self, record: &DrawRecord, now: Micros) {
        let frames = &self.frame_records;
        let is_part = match record.kind {
            RecordKind::Draw { hint: DrawHint::Image | DrawHint::Stereo { .. }, .. } => true,
            RecordKind::Copy { .. } => !frames.pixmaps.is_empty(),
            _ => frames.copying.is_some(),
        };
        if is_part {
            self.count_frame_part(record, now);
        }
    }

    /// The same for what may be part of a frame; few records are.
    #[inline(never)]
    fn count_frame_part(&mut self, record: &DrawRecord, now: Micros) {
        let Session { frame_records: frames, viewers, .. } = self;
        frames.begin(record.op);
        match record.kind {
            RecordKind::Draw {
                dst, rect, hint: DrawHint::Image | DrawHint::Stereo { .. }, ..
            } => {
                let screen = self.screen.size.rect();
                if let Some(frame) = frames.take_image(record, dst, &rect) {
                    viewers.iter_mut().for_each(|viewer| match frame {
                        Frame::Drawn(rect) => {
                            viewer.frame_drawn(&rect, now);
                            viewer.frame_shown(&rect, now);
                        }
                        Frame::Hidden => viewer.frame_hidden(&screen, now),
                    });
                }
            }
            RecordKind::Copy { src, dst, rect, dx, dy, .. } => {
                frames.take_copy(record.op, src, dst, &rect, (dx, dy));
            }
            _ => {}
        }
        if !record.more {
            frames.end(|rect| viewers.iter_mut().for_each(|viewer| viewer.frame_shown(rect, now)));
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
    const WINDOW: DrawableId = DrawableId(7);
    const BUFFER: DrawableId = DrawableId(8);

    fn image(dst: DrawableId, rect: Rect, more: bool) -> DrawRecord {
        let kind = RecordKind::Draw { dst, rect, hint: DrawHint::Image, alpha: Alpha::Opaque };
        DrawRecord { op: 1, more, window: 3, kind }
    }

    fn take(records: &mut FrameRecords, record: &DrawRecord) -> Option<Frame> {
        let RecordKind::Draw { dst, rect, .. } = record.kind else { unreachable!() };
        records.take_image(record, dst, &rect)
    }

    /// Copies these parts by a vector; the frames that are shown then.
    fn copy(
        records: &mut FrameRecords,
        (src, dst): (DrawableId, DrawableId),
        parts: &[Rect],
        by: (i32, i32),
    ) -> Vec<Rect> {
        begin_copy(records, (src, dst), parts, by);
        end(records)
    }

    fn begin_copy(
        records: &mut FrameRecords,
        (src, dst): (DrawableId, DrawableId),
        parts: &[Rect],
        by: (i32, i32),
    ) {
        for part in parts {
            records.begin(2);
            records.take_copy(2, src, dst, part, by);
        }
    }

    fn end(records: &mut FrameRecords) -> Vec<Rect> {
        let mut shown = Vec::new();
        records.end(|rect| shown.push(*rect));
        shown
    }

    #[test]
    fn all_visible_parts_of_an_image_are_one_frame() {
        let mut records = FrameRecords::default();
        let (icon, screen) = (Rect::at(0, 0, 200, 200), DrawableId::SCREEN);
        assert_eq!(take(&mut records, &image(screen, icon, false)), None, "an icon");
        assert_eq!(take(&mut records, &image(screen, icon, true)), None);
        let rest = image(screen, Rect::at(300, 0, 200, 200), false);
        assert_eq!(take(&mut records, &rest), Some(Frame::Drawn(Rect::at(0, 0, 500, 200))));
        assert_eq!(take(&mut records, &rest), None, "that was another op");
        assert_eq!(take(&mut records, &image(screen, Rect::at(0, 0, 250, 250), true)), None);
        let next = DrawRecord { op: 2, ..rest };
        assert_eq!(take(&mut records, &next), None, "the rest of the other one was lost");
    }

    #[test]
    fn a_frame_in_a_pixmap_is_shown_where_a_compositor_copies_it() {
        let mut records = FrameRecords::default();
        let content = Rect::at(4, 20, 400, 300);
        for _ in 0..2 {
            assert_eq!(take(&mut records, &image(WINDOW, content, false)), Some(Frame::Hidden));
            // All of the window with its frame into the buffer, and the damage to the screen.
            let whole = Rect::at(100, 50, 408, 324);
            assert_eq!(copy(&mut records, (WINDOW, BUFFER), &[whole], (100, 50)), []);
            let place = content.translate(100, 50);
            let shown = copy(&mut records, (BUFFER, DrawableId::SCREEN), &[SCREEN], (0, 0));
            assert_eq!(shown, [place]);
            let again = copy(&mut records, (BUFFER, DrawableId::SCREEN), &[SCREEN], (0, 0));
            assert_eq!(again, [], "it was shown");
        }
    }

    #[test]
    fn a_frame_behind_another_window_is_shown_in_parts() {
        let mut records = FrameRecords::default();
        take(&mut records, &image(WINDOW, Rect::at(0, 0, 400, 300), false));
        let corner = [Rect::at(10, 10, 100, 100)];
        let screen = (WINDOW, DrawableId::SCREEN);
        assert_eq!(copy(&mut records, screen, &corner, (10, 10)), [], "a part that is no frame");
        assert_eq!(copy(&mut records, (BUFFER, DrawableId::SCREEN), &[SCREEN], (10, 10)), []);
        let parts = [Rect::at(10, 10, 400, 100), Rect::at(10, 110, 200, 200)];
        assert_eq!(copy(&mut records, screen, &parts, (10, 10)), [Rect::at(10, 10, 400, 300)]);
    }

    #[test]
    fn a_copy_whose_end_was_lost_is_none() {
        let mut records = FrameRecords::default();
        take(&mut records, &image(WINDOW, Rect::at(0, 0, 400, 300), false));
        let (screen, top) = ((WINDOW, DrawableId::SCREEN), [Rect::at(10, 10, 400, 120)]);
        begin_copy(&mut records, screen, &top, (10, 10));
        records.begin(3);
        assert_eq!(end(&mut records), []);
        let bottom = [Rect::at(50, 150, 400, 160)];
        records.take_copy(3, WINDOW, DrawableId::SCREEN, &bottom[0], (50, 10));
        assert_eq!(end(&mut records), [], "that half alone is none");
        // The last record of an op may be a drawing.
        begin_copy(&mut records, screen, &[SCREEN], (10, 10));
        records.begin(2);
        let rest = image(DrawableId::SCREEN, Rect::at(0, 0, 10, 10), false);
        assert_eq!(take(&mut records, &DrawRecord { op: 2, ..rest }), None);
        assert_eq!(end(&mut records), [Rect::at(10, 10, 400, 300)]);
    }

    #[test]
    fn frames_of_two_windows_meet_in_one_buffer() {
        let mut records = FrameRecords::default();
        let (size, other) = (Rect::at(0, 0, 300, 300), DrawableId(9));
        for _ in 0..3 {
            take(&mut records, &image(WINDOW, size, false));
            take(&mut records, &image(other, size, false));
            let places = [Rect::at(10, 10, 300, 300), Rect::at(500, 10, 300, 300)];
            assert_eq!(copy(&mut records, (WINDOW, BUFFER), &places[..1], (10, 10)), []);
            assert_eq!(copy(&mut records, (other, BUFFER), &places[1..], (500, 10)), []);
            let shown = copy(&mut records, (BUFFER, DrawableId::SCREEN), &[SCREEN], (0, 0));
            assert_eq!(shown, places);
        }
    }

    #[test]
    fn few_frames_in_pixmaps_are_remembered() {
        let mut records = FrameRecords::default();
        let frame = Rect::at(0, 0, 300, 300);
        for number in 1..=9 {
            take(&mut records, &image(DrawableId(number), frame, false));
            take(&mut records, &image(DrawableId(number), frame, false));
        }
        assert_eq!(records.pixmaps.len(), PIXMAP_FRAMES_MAX);
        let mut shown = |number| {
            copy(&mut records, (DrawableId(number), DrawableId::SCREEN), &[SCREEN], (0, 0)).len()
        };
        assert_eq!([5, 6, 9].map(&mut shown), [0, 1, 1]);
    }
}
