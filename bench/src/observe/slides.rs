//! Which of a series of pictures each block of a screen shows, recognised by its pixels, so that
//! the pictures need no marks. From the framebuffer file of an Xvfb to the times at which blocks
//! changed from one picture to another. Knows some pixels of each picture; never which system shows
//! them, or why.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::damage::{Damage, DamageThread, lock};
use super::picture::{Rect, channels};
use super::screen::{ClientScreen, Framebuffer, pixels_of};
use crate::Error;

/// Edge of a block, pixels: the block of JPEG with halved colour.
pub const BLOCK: u32 = 16;
/// Pixels of a block that are compared, as offsets in it: in one row, since systems that send a
/// screen in bands split it between rows, and a block across such a split would show two pictures.
const POINTS: [(u32, u32); 8] = [(1, 8), (3, 8), (5, 8), (7, 8), (8, 8), (10, 8), (12, 8), (14, 8)];
/// Largest mean difference in levels of a block that shows a picture: more than lossy encodings
/// cause in a photograph, and a third of the difference of two photographs.
const LEVELS_MAX: u32 = 12;
/// Most changes: 300 pictures on a screen of 1024x768; beyond it the watch ends with an error.
const CHANGES_MAX: usize = 1 << 20;

/// A series of pictures, by their pixels at the points of each block.
pub struct Series {
    area: Rect,
    across: u32,
    blocks: usize,
    points: Vec<Vec<[u8; 3]>>,
}

impl Series {
    /// A series of pictures over `area` of the screen; `pixel(number, x, y)` is a pixel of picture
    /// `number`, with its place in the picture.
    pub fn new(area: Rect, count: u32, pixel: impl Fn(u32, u32, u32) -> u32) -> Series {
        let (across, down) = (area.width / BLOCK, area.height / BLOCK);
        let places = || {
            (0..down)
                .flat_map(move |row| (0..across).map(move |column| (column * BLOCK, row * BLOCK)))
        };
        let of = |number: u32| {
            let points = places()
                .flat_map(|(x, y)| POINTS.map(|(dx, dy)| channels(pixel(number, x + dx, y + dy))));
            points.collect()
        };
        Series {
            area,
            across,
            blocks: (across * down) as usize,
            points: (0..count).map(of).collect(),
        }
    }

    /// Position of a block on the screen.
    fn rect(&self, block: usize) -> Rect {
        let (column, row) = (block as u32 % self.across, block as u32 / self.across);
        Rect::new(
            self.area.x + (column * BLOCK) as i32,
            self.area.y + (row * BLOCK) as i32,
            BLOCK,
            BLOCK,
        )
    }

    /// The picture that these pixels of a block belong to, `from` or later; None if they belong to
    /// none, or to two.
    fn find(&self, block: usize, shown: &[[u8; 3]; POINTS.len()], from: usize) -> Option<usize> {
        let difference = |number: &usize| -> u32 {
            let wanted = &self.points[*number][block * POINTS.len()..][..POINTS.len()];
            let of = |(a, b): (&[u8; 3], &[u8; 3])| {
                (0..3).map(|i| u32::from(a[i].abs_diff(b[i]))).sum::<u32>()
            };
            shown.iter().zip(wanted).map(of).sum()
        };
        let best = (from..self.points.len()).min_by_key(difference)?;
        (difference(&best) <= LEVELS_MAX * 3 * POINTS.len() as u32).then_some(best)
    }
}

/// A block that changed from one picture to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When it was seen.
    pub at: Instant,
    /// The picture before.
    pub from: usize,
    /// The picture after.
    pub to: usize,
}

/// The result of a [`SlideWatch`].
#[derive(Debug, Default)]
pub struct Transitions {
    /// In the order of time.
    pub transitions: Vec<Transition>,
    /// What each block shows at the end; `usize::MAX` if it is unknown.
    pub shown: Vec<usize>,
}

/// A running watch; dropping it ends it.
pub struct SlideWatch {
    damage_thread: DamageThread,
    shared: Arc<Mutex<Transitions>>,
}

impl SlideWatch {
    /// Begins to watch `area`, which shows the first picture of the series; ignores blocks that
    /// touch `hidden`.
    pub fn start(
        screen: &ClientScreen,
        series: Arc<Series>,
        hidden: Rect,
    ) -> Result<SlideWatch, Error> {
        let framebuffer = screen.framebuffer()?;
        let damage = Damage::listen(screen.connect()?)?;
        let blocks: Vec<usize> = (0..series.blocks)
            .filter(|&block| series.rect(block).intersect(&hidden).is_none())
            .collect();
        let shared = Arc::new(Mutex::new(Transitions {
            transitions: Vec::new(),
            shown: vec![0; blocks.len()],
        }));
        let mut watcher =
            Watcher { framebuffer, series, blocks, shared: Arc::clone(&shared), rows: Vec::new() };
        watcher.check_first()?;
        let damage_thread = DamageThread::start("slides", damage, move |drawn| {
            watcher.handle_damage(&drawn.rects)?;
            if drawn.is_last { watcher.forget_unknown() } else { Ok(()) }
        })?;
        Ok(SlideWatch { damage_thread, shared })
    }

    /// Number of blocks that show picture `number` or a later one, and number of all blocks.
    pub fn arrived(&self, number: usize) -> (usize, usize) {
        let shared = lock(&self.shared);
        (shared.shown.iter().filter(|&&shown| shown >= number).count(), shared.shown.len())
    }

    /// Ends it, after everything that the X server has drawn until now is looked at.
    pub fn finish(mut self) -> Result<Transitions, Error> {
        self.damage_thread.end()?;
        Ok(std::mem::take(&mut *lock(&self.shared)))
    }
}

/// The thread's side.
struct Watcher {
    framebuffer: Framebuffer,
    series: Arc<Series>,
    /// The watched blocks, from the top.
    blocks: Vec<usize>,
    shared: Arc<Mutex<Transitions>>,
    rows: Vec<u8>,
}

impl Watcher {
    /// An error if blocks do not show the first picture: then no later one would be found either.
    fn check_first(&mut self) -> Result<(), Error> {
        self.framebuffer.read_rows(0, self.framebuffer.height, &mut self.rows)?;
        let first =
            |&&block: &&usize| self.series.find(block, &self.points(block, 0), 0) == Some(0);
        let found = self.blocks.iter().filter(first).count();
        let all = self.blocks.len();
        // One block in a hundred may be too dark or smooth to be recognised after lossy encoding.
        if all == 0 || found * 100 < all * 99 {
            return Err(format!(
                "the first picture is in {found} of {all} blocks of the client's screen"
            )
            .into());
        }
        Ok(())
    }

    /// At the end, a block that matches no picture, as lossy encodings may leave it, is marked as
    /// unknown: it has changed at an unknown time.
    fn forget_unknown(&mut self) -> Result<(), Error> {
        self.framebuffer.read_rows(0, self.framebuffer.height, &mut self.rows)?;
        let mut shared = lock(&self.shared);
        for (index, &block) in self.blocks.iter().enumerate() {
            let shown = shared.shown[index];
            if self.series.find(block, &self.points(block, 0), shown) != Some(shown) {
                shared.shown[index] = usize::MAX;
            }
        }
        Ok(())
    }

    /// The compared pixels of a block, where `rows` begin at row `top` of the screen.
    fn points(&self, block: usize, top: i32) -> [[u8; 3]; POINTS.len()] {
        let rect = self.series.rect(block);
        POINTS.map(|(dx, dy)| {
            let at = (rect.y - top) as usize * self.framebuffer.line_bytes() + rect.x as usize * 4;
            let at = at + dy as usize * self.framebuffer.line_bytes() + dx as usize * 4;
            channels(pixels_of(&self.rows[at..at + 4]).next().unwrap_or_default())
        })
    }

    /// Reads the damaged blocks. A block that is half one picture and half another keeps its
    /// picture.
    fn handle_damage(&mut self, damage: &[Rect]) -> Result<(), Error> {
        let Some(top) = damage.iter().map(|rect| rect.y).min() else { return Ok(()) };
        let bottom = damage.iter().map(Rect::bottom).max().unwrap_or(top);
        // Whole blocks.
        let top =
            self.series.area.y + (top - self.series.area.y).max(0) / BLOCK as i32 * BLOCK as i32;
        let to = (bottom + BLOCK as i32).clamp(0, self.framebuffer.height as i32);
        if top >= to {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.rows);
        self.framebuffer.read_rows(top as usize, to as usize, &mut rows)?;
        self.rows = rows;
        // The time after the reading, so that no change is dated too early.
        let at = Instant::now();
        let mut shared = lock(&self.shared);
        for (index, &block) in self.blocks.iter().enumerate() {
            let rect = self.series.rect(block);
            if rect.y < top
                || rect.bottom() > to
                || !damage.iter().any(|drawn| drawn.intersect(&rect).is_some())
            {
                continue;
            }
            let from = shared.shown[index];
            if let Some(to) =
                self.series.find(block, &self.points(block, top), from).filter(|&to| to > from)
            {
                shared.shown[index] = to;
                shared.transitions.push(Transition { at, from, to });
            }
        }
        if shared.transitions.len() > CHANGES_MAX {
            return Err(format!(
                "more than {CHANGES_MAX} changes of blocks: watch shorter stretches"
            )
            .into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::photo::photo;

    #[test]
    fn a_block_is_recognised_by_its_pixels_after_lossy_encoding() {
        let pictures: Vec<Vec<u32>> = (0..4).map(|seed| photo(seed, 64, 48)).collect();
        let pixel = |number: u32, x: u32, y: u32| pictures[number as usize][(y * 64 + x) as usize];
        let series = Series::new(Rect::new(10, 20, 64, 48), 4, pixel);
        assert_eq!((series.blocks, series.rect(5)), (12, Rect::new(26, 36, 16, 16)));
        for block in 0..series.blocks {
            let rect = series.rect(block);
            let shown = |number: u32, off: u32| {
                POINTS.map(|(dx, dy)| {
                    let pixel = pixel(number, rect.x as u32 - 10 + dx, rect.y as u32 - 20 + dy);
                    // Wrong by up to seven levels, by its place.
                    channels(pixel).map(|level| {
                        level.saturating_add(((dx * dy + off) % 8) as u8 * u8::from(off > 0))
                    })
                })
            };
            assert_eq!(series.find(block, &shown(2, 0), 0), Some(2));
            assert_eq!(series.find(block, &shown(3, 5), 1), Some(3));
            assert_ne!(
                series.find(block, &shown(1, 0), 2),
                Some(1),
                "earlier pictures are not found again"
            );
            assert_eq!(series.find(block, &[[255, 0, 255]; 8], 0), None);
        }
    }
}
