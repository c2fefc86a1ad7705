//! Path 12/13: beside framebuffer.rs, to a store of the shell's; and from there to the first picture of a viewer that begins anew.
//! Which tiles of the picture are worth being kept by now, and which are kept as they are.
//! Knows tiles and when they changed; never where they are kept, nor how they are sealed.

use thinc_protocol::Micros;
use thinc_protocol::limits::{SCREEN_AREA_MAX, SCREEN_EDGE_MAX};
use thinc_region::{Rect, Size};
use xxhash_rust::xxh3::xxh3_64;

use crate::framebuffer::Framebuffer;
use crate::viewer::Viewer;

/// 128 pixels: 48 KiB, and less once packed. A letter costs no more than its tile, and a browser's store has what is longer than
/// 64 KiB in a file of its own.
const EDGE: i32 = 128;
/// Bytes of a pixel: blue, green, red.
const PIXEL_BYTES: usize = 3;
/// 1 s: a tile that has rested for so long is kept, …
const REST: Micros = 1_000_000;
/// … and one that does not rest after so long, …
const AGE_MAX: Micros = 5_000_000;
/// … doubled so often while it does not: a cursor that blinks, or a film that is not known to be one, costs next to nothing in the end.
const DOUBLED_MAX: u8 = 6;

/// Which tiles are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Those that have rested, or were not kept for long.
    Rested,
    /// All that can be: there may be no later.
    Last,
}

/// What of a viewer's picture a shell keeps for a viewer that begins anew: tiles that are exact and no video.
#[derive(Debug)]
pub struct Kept {
    size: Size,
    part: Rect,
    /// Row by row.
    tiles: Vec<Tile>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tile {
    /// When it changed first and last since it was kept.
    changed: Option<(Micros, Micros)>,
    /// How often it was kept without having rested.
    restless: u8,
    /// Of its bytes as they are kept.
    hash: Option<u64>,
}

impl Tile {
    fn due(&self) -> Option<Micros> {
        self.changed.map(|(first, last)| (last + REST).min(first + (AGE_MAX << self.restless)))
    }
}

impl Kept {
    /// Of no picture.
    pub const NOTHING: Kept =
        Kept { size: Size { width: 0, height: 0 }, part: Rect::new(0, 0, 0, 0), tiles: Vec::new() };

    /// A picture that was kept, of this size, which showed this part of the screen: the viewer that has it, and no connection. The
    /// first connection's viewer lies over it. None where no screen is like that.
    pub fn restore(size: Size, part: Rect) -> Option<(Kept, Viewer)> {
        let edge = SCREEN_EDGE_MAX as i32;
        let is_screen = |size: Size| {
            size.area() > 0 && size.area() <= SCREEN_AREA_MAX && size.width.max(size.height) <= SCREEN_EDGE_MAX
        };
        let is_part = !part.is_empty() && Rect::new(0, 0, edge, edge).contains(&part);
        (is_screen(size) && is_part)
            .then(|| (Kept::new(size, part), Viewer::of_picture(Framebuffer::blank(size, part))))
    }

    fn new(size: Size, part: Rect) -> Kept {
        let count = |edge: u32| (edge as usize).div_ceil(EDGE as usize);
        Kept { size, part, tiles: vec![Tile::default(); count(size.width) * count(size.height)] }
    }

    /// One of its tiles, as [`Kept::poll`] gave it. False: it is none.
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

    /// The viewer's picture has changed here.
    pub fn handle_damage(&mut self, viewer: &Viewer, damage: impl Iterator<Item = Rect>, now: Micros) {
        if viewer.framebuffer().size().area() == 0 {
            return; // what comes may be the picture that is kept
        }
        if !self.is_of(viewer) {
            *self = Kept::new(viewer.framebuffer().size(), viewer.framebuffer().part());
        }
        let columns = self.columns();
        for rect in damage.map(|rect| rect.intersect(&self.size.rect())).filter(|rect| !rect.is_empty()) {
            for row in rect.y1 / EDGE..=(rect.y2 - 1) / EDGE {
                for column in rect.x1 / EDGE..=(rect.x2 - 1) / EDGE {
                    let changed = &mut self.tiles[row as usize * columns + column as usize].changed;
                    *changed = Some((changed.map_or(now, |(first, _)| first), now));
                }
            }
        }
    }

    /// When [`Kept::poll`] is to be called.
    pub fn deadline(&self, viewer: &Viewer) -> Option<Micros> {
        self.tiles.iter().filter_map(Tile::due).min().filter(|_| self.is_of(viewer))
    }

    /// The next tile to keep: its place; `out` becomes its pixels, blue, green and red of each. It is then taken to be kept.
    pub fn poll(&mut self, viewer: &Viewer, urgency: Urgency, now: Micros, out: &mut Vec<u8>) -> Option<Rect> {
        if !self.is_of(viewer) {
            return None;
        }
        for at in 0..self.tiles.len() {
            let Some(due) = self.tiles[at].due() else { continue };
            let (rect, tile) = (self.rect(at), &self.tiles[at]);
            let is_last = urgency == Urgency::Last && tile.changed.is_some_and(|(_, last)| last <= now);
            if due > now && !is_last {
                continue;
            }
            // It would be of no use: of what is shown nearly nothing is said, and a video goes on.
            if viewer.inexact().overlaps(&rect) || viewer.plays_in(&rect) {
                self.tiles[at].changed = Some((now, now + AGE_MAX - REST));
                continue;
            }
            pack(viewer.framebuffer(), &rect, out);
            let hash = Some(xxh3_64(out));
            let rested = tile.changed.is_none_or(|(_, last)| last + REST <= now);
            let restless = if rested { 0 } else { DOUBLED_MAX.min(tile.restless + 1) };
            let known = std::mem::replace(&mut self.tiles[at], Tile { changed: None, restless, hash }).hash;
            if known != hash {
                return Some(rect);
            }
        }
        None
    }

    /// Nothing is kept any more.
    pub fn forget(&mut self) {
        *self = Kept::NOTHING;
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
