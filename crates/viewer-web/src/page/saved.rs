//! Path 12/13: under page.rs, from viewer-core's picture to the page's store (web/store/tiles.ts);
//! and back, before the first connection.
//! What a reloaded page shows until it is connected, and need not receive again.
//! Knows tiles and their layout in the buffer; never the store.

use thinc_protocol::Micros;
use thinc_region::{Rect, Size};
use thinc_viewer_core::{SavedTiles, Urgency};

use super::{Page, numbers_of};

impl Page {
    /// Restores the picture of an earlier page of this tab. False if it is invalid, or too late.
    pub(crate) fn restore(&mut self, size: Size, part: Rect) -> bool {
        if self.viewer.is_some() {
            return false;
        }
        let Some((saved_tiles, viewer)) = SavedTiles::restore(size, part) else { return false };
        (self.saved_tiles, self.viewer) = (saved_tiles, Some(viewer));
        // Input is buffered for the first connection, as for any next one.
        self.disconnected = true;
        true
    }

    /// Restores one of its tiles from the buffer; false if it is invalid. Before the first
    /// connection.
    pub(crate) fn restore_tile(&mut self, x: u32, y: u32, bytes: usize) -> bool {
        let Some(viewer) = self.viewer.as_mut().filter(|viewer| viewer.is_closed()) else {
            return false;
        };
        self.saved_tiles.restore_tile(viewer, (x, y), self.buffer.get(..bytes).unwrap_or_default())
    }

    /// The damage that was taken last is presented.
    pub(super) fn track_damage(&mut self, now: Micros) {
        if let Some(viewer) = &self.viewer {
            let rects =
                self.damage.iter().map(|&[x, y, width, height]| Rect::at(x, y, width, height));
            self.saved_tiles.handle_damage(viewer, rects, now);
        }
    }

    /// When the next tile is to be saved, 0 for never.
    pub(crate) fn tile_due(&self) -> Micros {
        self.viewer.as_ref().and_then(|viewer| self.saved_tiles.deadline(viewer)).unwrap_or(0)
    }

    /// The next tile to save; its rectangle is in the event's numbers. Empty if there is none.
    pub(crate) fn next_tile(&mut self, urgency: Urgency, now: Micros) -> &[u8] {
        let viewer = self.viewer.as_ref();
        match viewer.and_then(|viewer| self.saved_tiles.poll(viewer, urgency, now, &mut self.tile))
        {
            Some(rect) => self.event[..4].copy_from_slice(&numbers_of(&rect).map(f64::from)),
            None => self.tile.clear(),
        }
        &self.tile
    }

    pub(crate) fn tile(&self) -> &[u8] {
        &self.tile
    }

    /// The page's store is empty.
    pub(crate) fn forget_tiles(&mut self) {
        self.saved_tiles.forget();
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::framing::Deframer;
    use thinc_protocol::limits::VIEWER_MESSAGE_BYTES_MAX;
    use thinc_protocol::retained::RetainedTiles;
    use thinc_protocol::viewer::{InputEvent, ViewerMessage};

    use super::*;

    const SIZE: Size = Size { width: 200, height: 130 };

    fn put(page: &mut Page, bytes: &[u8]) -> usize {
        page.buffer(bytes.len());
        page.buffer[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    }

    fn tile(page: &mut Page, (x, y): (u32, u32), (width, height): (usize, usize)) -> bool {
        let bytes = put(page, &[0x11, 0x22, 0x33].repeat(width * height));
        page.restore_tile(x, y, bytes)
    }

    #[test]
    fn a_restored_picture_is_shown_and_reported_by_the_first_connection() {
        let mut page = Page::new();
        assert!(page.restore(SIZE, SIZE.rect()));
        assert!(tile(&mut page, (0, 0), (128, 128)));
        assert!(tile(&mut page, (128, 128), (72, 2)));
        assert_eq!(page.size(), SIZE);
        assert_eq!(page.rgba(Rect::at(127, 0, 2, 1)), [0xff11_2233, 0xff00_0000]);
        assert!(page.is_damaged());
        assert_ne!(page.input(InputEvent::Char('a'), 0), 0, "input is buffered");
        assert_eq!(page.input(InputEvent::Motion { x: 1, y: 1 }, 0), 0);
        put(&mut page, &[5; 32]);
        page.open(0, Size::default());
        assert!(!tile(&mut page, (0, 0), (128, 128)), "too late");
        let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
        frames.push(page.collect_output());
        let mut retained = None;
        while let Some(frame) = frames.next().unwrap() {
            if let ViewerMessage::RetainedTiles(tiles) = ViewerMessage::decode(&frame).unwrap() {
                retained = Some(tiles);
            }
        }
        let retained = retained.expect("the retained tiles");
        assert_eq!((retained.size, retained.part), (SIZE, SIZE.rect()));
        let known = |place: Rect| {
            Rect::new(0, 0, 128, 128).contains(&place)
                || Rect::new(128, 128, 200, 130).contains(&place)
        };
        for (place, &hash) in RetainedTiles::rects(SIZE, retained.edge_log).zip(&retained.tiles) {
            assert_eq!(hash != 0, known(place), "{place:?}");
        }
    }

    #[test]
    fn invalid_entries_in_the_store_restore_nothing() {
        let mut page = Page::new();
        for (width, height) in [(0, 10), (10, 0), (16385, 10), (16384, 16384), (u32::MAX, u32::MAX)]
        {
            assert!(
                !page.restore(Size { width, height }, Rect::at(0, 0, 10, 10)),
                "{width} × {height}"
            );
        }
        for part in [
            Rect::default(),
            Rect::new(-1, 0, 10, 10),
            Rect::new(0, 0, 16385, 10),
            Rect::new(5, 5, 5, 9),
        ] {
            assert!(!page.restore(SIZE, part), "{part:?}");
        }
        assert!(!tile(&mut page, (0, 0), (128, 128)), "there is no picture yet");
        assert!(page.restore(SIZE, SIZE.rect()));
        for (place, size) in [
            ((0, 0), (128, 127)),
            ((0, 0), (129, 128)),
            ((1, 0), (128, 128)),
            ((128, 0), (128, 128)),
            ((256, 0), (128, 128)),
            ((0, 256), (128, 2)),
            ((u32::MAX, u32::MAX), (128, 128)),
            ((0, 0), (0, 0)),
        ] {
            assert!(!tile(&mut page, place, size), "{place:?}, {size:?}");
        }
        assert!(!page.restore_tile(0, 0, usize::MAX), "more than the buffer has");
        assert!(!page.restore(SIZE, SIZE.rect()), "once");
        page.buffer(32);
        page.open(0, Size::default());
        assert!(!page.restore(SIZE, SIZE.rect()), "too late");
    }
}
