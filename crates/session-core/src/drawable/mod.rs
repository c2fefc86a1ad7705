//! Path 4/13: beside translate.rs, which tells it of every op.
//! What each part of the screen and of every pixmap was drawn as, and where the same pixels are shown already.
//! Knows drawings and rectangles; never pixels, so everything it says is to be verified against them.

mod changes;
mod equal;
mod grid;
mod map;
mod opacity;
mod parts;
mod rects;
mod shown;
mod tile;
mod video;

#[cfg(test)]
mod model;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawableId, Drawn};

use self::changes::Stamp;
use self::equal::Equality;
use self::grid::Pool;
use self::map::Map;
use self::tile::{Brush, Tile};
use crate::command_queue::Kinds;
use crate::copies::CopyCommand;
use crate::mutation::{Broken, Mutation};

/// Most parts of one job's region that are told apart.
pub const PARTS_MAX: usize = 64;
/// Most pixmaps known at once, each about 1 KiB beside its tiles; past it one that was not used lately is forgotten.
const PIXMAPS_MAX: usize = 1024;
/// Most rectangles that an Over blend is taken apart into; past it the rest of it is a drawing, not a copy.
const OPAQUE_RECTS_MAX: usize = 64;
/// Most pixmaps between what a toolkit keeps and the screen: its cache, a frame's buffer, a window's pixmap and a
/// compositor's picture.
const LEVELS_MAX: u32 = 4;
/// Most steps of one walk through what equals what.
const STEPS_MAX: usize = 32;

/// What a part of the screen was drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// On the screen.
    pub rect: Rect,
    /// What it was drawn as.
    pub what: Proposal,
}

/// A proposal of how to send pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Every pixel is this 0xRRGGBB.
    Solid(u32),
    /// A tile or stipple, and nothing else.
    Pattern,
    /// Text is in it, over this 0xRRGGBB where that is all: never to be sent lossy.
    Text(Option<u32>),
    /// A client's pixels, and nothing else.
    Image,
    /// A frame of XVideo, from this port.
    Video(u16),
}

/// One op's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyOp {
    pub(crate) src: DrawableId,
    pub(crate) dst: DrawableId,
    pub(crate) dx: i32,
    pub(crate) dy: i32,
    pub(crate) over: bool,
}

/// What a copy from a pixmap did to the screen: the moves in their order, then the rest.
#[derive(Debug, Default)]
pub(crate) struct Effect {
    /// None reads what another has written before it.
    pub(crate) moves: Vec<CopyCommand>,
    /// The screen held these pixels already.
    pub(crate) same: Vec<Rect>,
    /// The rest.
    pub(crate) drawn: Vec<Rect>,
    /// What the rest was drawn as.
    pub(crate) kinds: Kinds,
}

impl Effect {
    pub(crate) fn clear(&mut self) {
        self.moves.clear();
        self.same.clear();
        self.drawn.clear();
        self.kinds = Kinds::default();
    }
}

/// Serials are counted, so a multiplication spreads them well.
#[derive(Default)]
struct SerialHasher(u64);

impl Hasher for SerialHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, serial: u32) {
        self.0 = (self.0 ^ u64::from(serial)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Places = HashMap<DrawableId, usize, BuildHasherDefault<SerialHasher>>;

/// Lists that every copy uses anew, so that none allocates.
#[derive(Debug, Default)]
struct Scratch {
    /// Of the destination, less the vector: pixels it has from the source.
    copied: Vec<Rect>,
    /// Of the destination: pixels that it and the source made together.
    blended: Vec<Rect>,
    shown: Vec<Equality<()>>,
    twins: Vec<Equality<DrawableId>>,
    still: Vec<Rect>,
    left: Vec<Rect>,
    pieces: Vec<Rect>,
    tiles: Vec<Tile>,
    walk: Vec<(usize, Equality<()>, u32)>,
}

/// The screen, and every pixmap that the driver told of.
#[derive(Debug)]
pub(crate) struct Drawables {
    /// The screen is the first, and always there.
    maps: Vec<Map>,
    places: Places,
    /// Maps of pixmaps that are gone, to be used again.
    free: Vec<usize>,
    /// Where the next one to forget is looked for.
    hand: usize,
    pool: Pool,
    now: Stamp,
    scratch: Scratch,
    broken: Broken,
}

/// The screen's place.
const SCREEN: usize = 0;

impl Drawables {
    pub(crate) fn new(size: Size, broken: Broken) -> Drawables {
        Drawables {
            maps: vec![Map::new(DrawableId::SCREEN, size, true, 1)],
            places: Places::with_capacity_and_hasher(2 * PIXMAPS_MAX, BuildHasherDefault::default()),
            free: Vec::new(),
            hand: 1,
            pool: Pool::default(),
            now: 1,
            scratch: Scratch::default(),
            broken,
        }
    }

    /// Nothing is known any more: of pixmaps not even that they exist, until the driver tells of them again.
    pub(crate) fn forget(&mut self) {
        let Rect { x2, y2, .. } = self.maps[SCREEN].bounds();
        self.reset(Size { width: x2.cast_unsigned(), height: y2.cast_unsigned() });
    }

    /// Nothing is known any more, and the screen has this size.
    pub(crate) fn reset(&mut self, screen: Size) {
        self.now += 1;
        self.maps[SCREEN].renew(DrawableId::SCREEN, screen, true, self.now, &mut self.pool);
        for at in 1..self.maps.len() {
            self.release(at);
        }
        self.places.clear();
        self.free.clear();
        self.free.extend(1..self.maps.len());
    }

    /// Gives back what the pixmap at this place held; no equality names it any more.
    fn release(&mut self, at: usize) {
        let (screen, size) = (DrawableId::SCREEN, Size::default());
        self.maps[at].renew(screen, size, true, self.now, &mut self.pool);
    }

    /// A pixmap exists; its pixels may be anything.
    pub(crate) fn create(&mut self, id: DrawableId, size: Size, opaque: bool) {
        if id == DrawableId::SCREEN {
            return;
        }
        self.now += 1;
        let at = match self.places.get(&id) {
            Some(&at) => at,
            None => self.free.pop().unwrap_or_else(|| self.room()),
        };
        self.places.insert(id, at);
        self.maps[at].renew(id, size, opaque, self.now, &mut self.pool);
    }

    /// A place for one more pixmap.
    fn room(&mut self) -> usize {
        if self.maps.len() <= PIXMAPS_MAX {
            self.maps.push(Map::new(DrawableId::SCREEN, Size::default(), true, self.now));
            return self.maps.len() - 1;
        }
        // One that was not used since the hand came by last; a round of used ones leaves all unused.
        loop {
            self.hand = if self.hand + 1 < self.maps.len() { self.hand + 1 } else { 1 };
            if !std::mem::take(&mut self.maps[self.hand].used) {
                break;
            }
        }
        self.places.remove(&self.maps[self.hand].id);
        self.hand
    }

    /// A pixmap is gone.
    pub(crate) fn destroy(&mut self, id: DrawableId) {
        if let Some(at) = self.places.remove(&id) {
            self.release(at);
            self.free.push(at);
        }
    }

    fn place(&self, id: DrawableId) -> Option<usize> {
        if id == DrawableId::SCREEN { Some(SCREEN) } else { self.places.get(&id).copied() }
    }

    /// Something was drawn.
    pub(crate) fn draw(&mut self, id: DrawableId, rect: &Rect, what: Drawn, alpha: Alpha) {
        let Some(at) = self.place(id) else { return };
        self.now += 1;
        let map = &mut self.maps[at];
        map.used = true;
        let rect = rect.intersect(&map.bounds());
        if !rect.is_empty() {
            map.draw(&rect, what, alpha, self.now, &mut self.pool, self.broken);
        }
    }

    /// Pixels were copied: `rects`, all read before any was written. Where the screen got them from a pixmap, `effect`
    /// says what that did to the screen.
    pub(crate) fn copy(&mut self, op: CopyOp, rects: &[Rect], effect: &mut Effect) {
        effect.clear();
        self.now += 1;
        let Some(dst) = self.place(op.dst) else { return };
        let Some(src) = self.place(op.src) else { return self.copy_unknown(dst, op, rects, effect) };
        self.maps[src].used = true;
        self.maps[dst].used = true;
        self.take_apart(src, dst, op, rects);
        let mut scratch = std::mem::take(&mut self.scratch);

        // What was true before the op comes first: where the source's pixels are as well, and what the screen held.
        if dst == SCREEN && src != SCREEN {
            self.derive(src, op, &mut scratch, effect);
        } else {
            self.inherit(src, dst, op, &mut scratch);
        }
        self.change(src, dst, op, &mut scratch, effect);
        if src != dst {
            for at in 0..scratch.copied.len() {
                self.learn(src, dst, scratch.copied[at], op, &mut scratch.walk, &mut scratch.still);
            }
        }
        for equality in scratch.shown.drain(..) {
            self.maps[dst].shown.add(equality);
        }
        for equality in scratch.twins.drain(..) {
            self.add_twin(dst, equality);
        }
        self.scratch = scratch;
    }

    /// From a drawable of which nothing is known.
    fn copy_unknown(&mut self, dst: usize, op: CopyOp, rects: &[Rect], effect: &mut Effect) {
        let map = &mut self.maps[dst];
        let alpha = if op.over { Alpha::Kept } else { Alpha::Unknown };
        for rect in rects {
            let rect = rect.intersect(&map.bounds());
            if rect.is_empty() {
                continue;
            }
            map.draw(&rect, Drawn::Other, alpha, self.now, &mut self.pool, self.broken);
            if dst == SCREEN {
                effect.drawn.push(rect);
                effect.kinds = Kinds::IMAGE;
            }
        }
    }

    /// Sorts an op's rectangles into copied and blended ones. An Over blend of what is opaque is a copy.
    fn take_apart(&mut self, src: usize, dst: usize, op: CopyOp, rects: &[Rect]) {
        let Scratch { copied, blended, pieces, .. } = &mut self.scratch;
        copied.clear();
        blended.clear();
        let source = &self.maps[src];
        let within = self.maps[dst].bounds().intersect(&source.bounds().translate(op.dx, op.dy));
        for rect in rects {
            let rect = rect.intersect(&within);
            if rect.is_empty() {
                continue;
            }
            if !op.over || self.broken.is(Mutation::OverOfTranslucentIsCopy) {
                copied.push(rect);
                continue;
            }
            let first = blended.len();
            source.translucent.split(&rect.translate(-op.dx, -op.dy), pieces, blended);
            blended[first..].iter_mut().for_each(|piece| *piece = piece.translate(op.dx, op.dy));
            copied.extend(pieces.iter().map(|piece| piece.translate(op.dx, op.dy)));
        }
        while copied.len() > OPAQUE_RECTS_MAX {
            blended.extend(copied.pop());
        }
        // Blended too much is only dearer.
        while blended.len() > OPAQUE_RECTS_MAX
            && let (Some(a), Some(b)) = (blended.pop(), blended.last_mut())
        {
            *b = b.bound(&a);
        }
    }

    /// Collects what the source's pixels are equal to, as the destination will be; what still holds of it.
    fn inherit(&mut self, src: usize, dst: usize, op: CopyOp, scratch: &mut Scratch) {
        let Scratch { copied, shown, twins, still, .. } = scratch;
        shown.clear();
        twins.clear();
        if dst == SCREEN {
            return;
        }
        let stays = src == dst && self.broken.is(Mutation::EqualityDoesNotMove);
        let source = &self.maps[src];
        for rect in copied.iter() {
            let from = rect.translate(-op.dx, -op.dy);
            for equality in source.shown.iter().map(|equality| equality.within(&from)) {
                self.maps[SCREEN].changes.still(&equality.there(), equality.at, still);
                for there in still.iter() {
                    let here = there.translate(-equality.dx, -equality.dy);
                    let moved = Equality { rect: here, ..equality }.moved(op.dx, op.dy);
                    shown.push(if stays { Equality { dx: equality.dx, dy: equality.dy, ..moved } } else { moved });
                }
            }
            for equality in source.twins.iter().map(|equality| equality.within(&from)) {
                let Some(other) = self.place(equality.other).filter(|&other| other != dst) else { continue };
                self.maps[other].changes.still(&equality.there(), equality.at, still);
                for there in still.iter() {
                    let here = there.translate(-equality.dx, -equality.dy);
                    twins.push(Equality { rect: here, ..equality }.moved(op.dx, op.dy));
                }
            }
        }
    }

    /// The destination's tiles, videos and equalities change.
    fn change(&mut self, src: usize, dst: usize, op: CopyOp, scratch: &mut Scratch, effect: &mut Effect) {
        let Scratch { copied, blended, tiles, left, pieces, .. } = scratch;
        if copied.is_empty() && blended.is_empty() {
            // No part of it lies in both drawables: only a broken driver says so.
            return;
        }
        let (dx, dy) = (op.dx, op.dy);
        pieces.clear();
        pieces.extend_from_slice(self.maps[src].translucent.rects());
        for rect in copied.iter().chain(blended.iter()) {
            self.maps[dst].changed_here(rect, self.broken);
        }
        let mut videos: [Option<(Rect, u16)>; 4] = [None; 4];
        for (kept, video) in videos.iter_mut().zip(self.maps[src].videos.iter()) {
            *kept = Some(video);
        }
        let Drawables { maps, pool, now, broken, .. } = self;
        let (map, source) = if src == dst {
            let map = &mut maps[dst];
            let all = copied.iter().chain(blended.iter()).fold(Rect::default(), |all, rect| all.bound(rect));
            let source = map.grid.before(&all.translate(-dx, -dy), tiles);
            (map, source)
        } else {
            let Ok([map, source]) = maps.get_disjoint_mut([dst, src]) else { return };
            (map, source.grid.source())
        };
        for rect in copied.iter() {
            map.grid.copy(rect, &source, dx, dy, pool);
            map.translucent.remove(rect);
            pieces.iter().for_each(|piece| map.translucent.add(&piece.translate(dx, dy).intersect(rect)));
            map.videos.cut(rect);
            for (video, port) in videos.iter().flatten() {
                let video = video.translate(dx, dy).intersect(rect);
                if !video.is_empty() {
                    map.videos.add(&video, *port);
                }
            }
            // What the screen held already did not change.
            left.clear();
            left.push(*rect);
            effect.same.iter().for_each(|same| rects::subtract(left, same));
            left.iter().for_each(|rect| map.changed_there(rect, *now, *broken));
        }
        let brought = |rect: &Rect| source.all(&rect.translate(-dx, -dy));
        for rect in effect.drawn.iter() {
            effect.kinds = effect.kinds.with(brought(rect).estimate());
        }
        for rect in blended.iter() {
            let brought = brought(rect);
            map.grid.draw(rect, Brush::blend(brought), pool);
            map.videos.cut(rect);
            map.changed_there(rect, *now, *broken);
            if dst == SCREEN {
                effect.drawn.push(*rect);
                effect.kinds = effect.kinds.with(brought.estimate()).with(Kinds::COMPOSITE);
            }
        }
    }

    /// The destination's copied pixels are the source's from here on; whatever the source is equal to learns where on the
    /// screen that is.
    fn learn(
        &mut self,
        src: usize,
        dst: usize,
        rect: Rect,
        op: CopyOp,
        walk: &mut Vec<(usize, Equality<()>, u32)>,
        still: &mut Vec<Rect>,
    ) {
        let at = self.now;
        if src == SCREEN {
            self.maps[SCREEN].changes.tell(at);
            return self.maps[dst].shown.add(Equality { rect, other: (), dx: -op.dx, dy: -op.dy, at });
        }
        if dst != SCREEN {
            self.maps[src].changes.tell(at);
            return self.add_twin(dst, Equality { rect, other: op.src, dx: -op.dx, dy: -op.dy, at });
        }
        self.maps[SCREEN].changes.tell(at);
        walk.clear();
        let here = rect.translate(-op.dx, -op.dy);
        walk.push((src, Equality { rect: here, other: (), dx: op.dx, dy: op.dy, at }, 1));
        let mut steps = 0;
        while let Some((at, equality, level)) = walk.pop() {
            steps += 1;
            self.maps[at].shown.add(equality);
            if level == LEVELS_MAX || steps == STEPS_MAX {
                continue;
            }
            for twin in self.maps[at].twins.iter().map(|twin| twin.within(&equality.rect)) {
                let Some(other) = self.place(twin.other) else { continue };
                self.maps[other].changes.still(&twin.there(), twin.at, still);
                for &there in still.iter() {
                    let (dx, dy) = (equality.dx - twin.dx, equality.dy - twin.dy);
                    walk.push((other, Equality { rect: there, dx, dy, ..equality }, level + 1));
                }
            }
        }
    }

    fn add_twin(&mut self, at: usize, equality: Equality<DrawableId>) {
        if self.maps[at].twins.is_full() {
            // Pixmaps that are gone make room first.
            let Drawables { maps, places, .. } = self;
            maps[at].twins.retain(|other| places.contains_key(&other));
        }
        self.maps[at].twins.add(equality);
    }

    /// Puts what the screen's pixels inside of `within` were drawn as into `parts`.
    pub(crate) fn parts(&self, within: &Rect, parts: &mut Vec<Part>) {
        let screen = &self.maps[SCREEN];
        parts::parts(&screen.grid, &screen.videos, within, parts);
    }

    /// # Panics
    /// When a promise of the maps is broken, with the promise in words.
    pub(crate) fn check_invariants(&self) {
        assert!(self.maps.len() <= PIXMAPS_MAX + 1, "at most {PIXMAPS_MAX} pixmaps are known");
        assert_eq!(self.places.len() + self.free.len() + 1, self.maps.len(), "a map is in use or free");
        self.maps.iter().for_each(Map::check_invariants);
    }
}
