//! Path 12/13: beside framebuffer.rs, to the shell's passive store; and from there to the first
//! framebuffer of a reloaded page.
//! Which tiles of the framebuffer are worth saving now, and which are saved already. Knows tiles
//! and when they changed; never where they are stored, nor how they are encrypted.

use thinc_protocol::Micros;
use thinc_protocol::limits::{SCREEN_AREA_MAX, SCREEN_EDGE_MAX};
use thinc_region::{Rect, Size};
use xxhash_rust::xxh3::xxh3_64;

use crate::framebuffer::Framebuffer;
use crate::viewer::Viewer;

/// 128 pixels: 48 KiB a tile, less when compressed. A changed glyph rewrites one tile, and browsers
/// store values longer than 64 KiB in a separate file.
const EDGE: i32 = 128;
/// Bytes of a saved pixel: blue, green, red.
const PIXEL_BYTES: usize = 3;
/// 1 s: a tile that has not changed for this long is saved.
const REST: Micros = 1_000_000;
/// 5 s: a tile that keeps changing is saved after this long.
const AGE_MAX: Micros = 5_000_000;
/// 6: most doublings of AGE_MAX for a tile that keeps changing, so that a blinking cursor or an
/// undetected video costs little.
const DOUBLED_MAX: u8 = 6;

/// Which changed tiles are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Tiles at rest, and those that were not saved for long.
    AtRest,
    /// All lossless tiles: there may be no later occasion.
    Final,
}

/// The tiles of a viewer's framebuffer that the shell saves for a reloaded page: lossless ones
/// outside video areas.
#[derive(Debug)]
pub struct SavedTiles {
    size: Size,
    part: Rect,
    /// In row order.
    tiles: Vec<Tile>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tile {
    /// Times of the first and the last change since it was saved.
    changed: Option<(Micros, Micros)>,
    /// Times it was saved in a row while it kept changing; doubles AGE_MAX.
    doublings: u8,
    /// Hash of its saved bytes.
    hash: Option<u64>,
}

impl Tile {
    fn due(&self) -> Option<Micros> {
        self.changed.map(|(first, last)| (last + REST).min(first + (AGE_MAX << self.doublings)))
    }
}

impl SavedTiles {
    /// No saved screen.
    pub const NONE: SavedTiles = SavedTiles {
        size: Size { width: 0, height: 0 },
        part: Rect::new(0, 0, 0, 0),
        tiles: Vec::new(),
    };

    /// Restores a saved screen of this size, which showed this part of the session's screen: a
    /// viewer with its framebuffer and no connection. The first connection's viewer continues from
    /// it. None if a screen cannot have that geometry.
    pub fn restore(size: Size, part: Rect) -> Option<(SavedTiles, Viewer)> {
        let edge = SCREEN_EDGE_MAX as i32;
        let is_screen = |size: Size| {
            size.area() > 0
                && size.area() <= SCREEN_AREA_MAX
                && size.width.max(size.height) <= SCREEN_EDGE_MAX
        };
        let is_part = !part.is_empty() && Rect::new(0, 0, edge, edge).contains(&part);
        (is_screen(size) && is_part).then(|| {
            (
                SavedTiles::new(size, part),
                Viewer::without_connection(Framebuffer::blank(size, part)),
            )
        })
    }

    fn new(size: Size, part: Rect) -> SavedTiles {
        let count = |edge: u32| (edge as usize).div_ceil(EDGE as usize);
        SavedTiles {
            size,
            part,
            tiles: vec![Tile::default(); count(size.width) * count(size.height)],
        }
    }

    /// Restores one tile, as [`SavedTiles::poll`] returned it. False if it is not a tile of this
    /// screen.
    pub fn restore_tile(&mut self, viewer: &mut Viewer, (x, y): (u32, u32), bytes: &[u8]) -> bool {
        let edge = EDGE as u32;
        if x >= self.size.width || y >= self.size.height || x % edge != 0 || y % edge != 0 {
            return false;
        }
        let at = y as usize / EDGE as usize * self.columns() + x as usize / EDGE as usize;
        let rect = self.rect(at);
        if !self.is_of(viewer) || bytes.len() as u64 != rect.area() * PIXEL_BYTES as u64 {
            return false;
        }
        viewer.restore(&rect, bytes.as_chunks().0);
        self.tiles[at] = Tile { hash: Some(xxh3_64(bytes)), ..Tile::default() };
        true
    }

    /// The viewer's framebuffer has changed in `damage`.
    pub fn handle_damage(
        &mut self,
        viewer: &Viewer,
        damage: impl Iterator<Item = Rect>,
        now: Micros,
    ) {
        if viewer.framebuffer().size().area() == 0 {
            return; // before the first geometry, which may be that of the saved screen
        }
        if !self.is_of(viewer) {
            *self = SavedTiles::new(viewer.framebuffer().size(), viewer.framebuffer().part());
        }
        let columns = self.columns();
        for rect in
            damage.map(|rect| rect.intersect(&self.size.rect())).filter(|rect| !rect.is_empty())
        {
            for row in rect.y1 / EDGE..=(rect.y2 - 1) / EDGE {
                for column in rect.x1 / EDGE..=(rect.x2 - 1) / EDGE {
                    let changed = &mut self.tiles[row as usize * columns + column as usize].changed;
                    *changed = Some((changed.map_or(now, |(first, _)| first), now));
                }
            }
        }
    }

    /// When [`SavedTiles::poll`] is due.
    pub fn deadline(&self, viewer: &Viewer) -> Option<Micros> {
        self.tiles.iter().filter_map(Tile::due).min().filter(|_| self.is_of(viewer))
    }

    /// The next tile to save: returns its rectangle and writes its pixels to `out`, blue, green and
    /// red each. The tile then counts as saved.
    pub fn poll(
        &mut self,
        viewer: &Viewer,
        urgency: Urgency,
        now: Micros,
        out: &mut Vec<u8>,
    ) -> Option<Rect> {
        if !self.is_of(viewer) {
            return None;
        }
        for at in 0..self.tiles.len() {
            let Some(due) = self.tiles[at].due() else { continue };
            let (rect, tile) = (self.rect(at), &self.tiles[at]);
            let is_last =
                urgency == Urgency::Final && tile.changed.is_some_and(|(_, last)| last <= now);
            if due > now && !is_last {
                continue;
            }
            // Saving it would be useless: a lossy tile is not offered to the session, and a video
            // changes on.
            if viewer.lossy().overlaps(&rect) || viewer.has_video_in(&rect) {
                self.tiles[at].changed = Some((now, now + AGE_MAX - REST));
                continue;
            }
            pack(viewer.framebuffer(), &rect, out);
            let hash = Some(xxh3_64(out));
            let rested = tile.changed.is_none_or(|(_, last)| last + REST <= now);
            let doublings = if rested { 0 } else { DOUBLED_MAX.min(tile.doublings + 1) };
            let known =
                std::mem::replace(&mut self.tiles[at], Tile { changed: None, doublings, hash })
                    .hash;
            if known != hash {
                return Some(rect);
            }
        }
        None
    }

    /// The store was cleared: no tile is saved any more.
    pub fn forget(&mut self) {
        *self = SavedTiles::NONE;
    }

    fn is_of(&self, viewer: &Viewer) -> bool {
        (self.size, self.part) == (viewer.framebuffer().size(), viewer.framebuffer().part())
    }

    fn columns(&self) -> usize {
        (self.size.width as usize).div_ceil(EDGE as usize)
    }

    fn rect(&self, at: usize) -> Rect {
        let (x, y) = ((at % self.columns()) as i32 * EDGE, (at / self.columns()) as i32 * EDGE);
        Rect::at(x, y, EDGE, EDGE).intersect(&self.size.rect())
    }
}

fn pack(framebuffer: &Framebuffer, rect: &Rect, out: &mut Vec<u8>) {
    out.clear();
    for y in rect.y1..rect.y2 {
        let row = &framebuffer.row(y as usize)[rect.x1 as usize..rect.x2 as usize];
        out.extend(row.iter().flat_map(|pixel| pixel.to_le_bytes().into_iter().take(PIXEL_BYTES)));
    }
}
