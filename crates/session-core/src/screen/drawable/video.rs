//! Path 4/13: beside grid.rs.
//! Where frames of XVideo are in one drawable, by exact rectangles, so that a frame behind a
//! compositor is found. Knows rectangles and ports; past its bound the smallest is forgotten, and
//! is pixels like any other.

use thinc_region::Rect;

use super::rects;

/// Most rectangles of video in a drawable: one plays, and controls over it divide it in two.
const VIDEOS_MAX: usize = 4;

/// The videos of one drawable.
#[derive(Debug)]
pub(super) struct VideoRects {
    list: Vec<(Rect, u16)>,
}

impl VideoRects {
    pub(super) const fn new() -> VideoRects {
        VideoRects { list: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Rect, u16)> {
        self.list.iter().copied()
    }

    /// Something else was drawn.
    #[inline]
    pub(super) fn cut(&mut self, rect: &Rect) {
        if !self.list.is_empty() {
            self.cut_some(rect);
        }
    }

    fn cut_some(&mut self, rect: &Rect) {
        let mut i = 0;
        while i < self.list.len() {
            let (video, port) = self.list[i];
            if !video.overlaps(rect) {
                i += 1;
                continue;
            }
            self.list.swap_remove(i);
            rects::for_each_piece(&video, rect, |piece| self.insert(piece, port));
        }
    }

    /// All of `rect` is this port's frame.
    pub(super) fn add(&mut self, rect: &Rect, port: u16) {
        self.cut(rect);
        self.insert(*rect, port);
    }

    fn insert(&mut self, rect: Rect, port: u16) {
        if self.list.len() < VIDEOS_MAX {
            return self.list.push((rect, port));
        }
        let smallest = self.list.iter_mut().min_by_key(|(video, _)| video.area());
        if let Some(smallest) = smallest.filter(|(video, _)| video.area() <= rect.area()) {
            *smallest = (rect, port);
        }
    }
}
