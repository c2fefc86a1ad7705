//! Path 4/13: beside translate.rs, which reports every op.
//! What each part of the screen and of every pixmap was drawn as, and where the same pixels are
//! shown already. Knows drawings and rectangles; never pixels, so everything it claims is to be
//! verified against them.

mod changes;
mod derive;
mod equal;
mod grid;
mod map;
mod parts;
mod rects;
mod tile;
mod translucency;
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
use thinc_ring::{Alpha, DrawHint, DrawableId};

use self::changes::Stamp;
use self::equal::Equality;
use self::grid::TilePool;
use self::map::DrawableMap;
use self::tile::{Brush, Tile};
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::command_queue::Kinds;
use crate::queue::copies::CopyCommand;

/// Most parts of one job's region.
pub const PARTS_MAX: usize = 64;
/// Most known pixmaps, each about 1 KiB beside its tiles; past it one that was not used lately is
/// forgotten.
const PIXMAPS_MAX: usize = 1024;
/// Most rectangles into which an Over blend is divided; past it the rest is a drawing, not a copy.
const OPAQUE_RECTS_MAX: usize = 64;
/// Most pixmaps between a toolkit's cache and the screen: the cache, a frame's buffer, a window's
/// pixmap and a compositor's pixmap.
const LEVELS_MAX: u32 = 4;
/// Most steps of one walk along equalities.
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
    /// Only a tile or stipple.
    Pattern,
    /// It contains text, over this 0xRRGGBB if there is nothing else: never to be sent lossy.
    Text(Option<u32>),
    /// Only an application's pixels.
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
pub(crate) struct ScreenEffect {
    /// None reads what another has written before it.
    pub(crate) moves: Vec<CopyCommand>,
    /// The screen already had these pixels.
    pub(crate) unchanged: Vec<Rect>,
    /// The rest.
    pub(crate) drawn: Vec<Rect>,
    /// What the rest was drawn as.
    pub(crate) kinds: Kinds,
}

impl ScreenEffect {
    pub(crate) fn clear(&mut self) {
        self.moves.clear();
        self.unchanged.clear();
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

/// Lists that every copy reuses, so that none allocates.
#[derive(Debug, Default)]
struct Scratch {
    /// In the destination: pixels copied from the source.
    copied: Vec<Rect>,
    /// In the destination: pixels blended from both.
    blended: Vec<Rect>,
    on_screen: Vec<Equality<()>>,
    in_pixmaps: Vec<Equality<DrawableId>>,
    unchanged_rects: Vec<Rect>,
    left: Vec<Rect>,
    pieces: Vec<Rect>,
    tiles: Vec<Tile>,
    walk: Vec<(usize, Equality<()>, u32)>,
}

/// The screen, and every pixmap that the driver reported.
#[derive(Debug)]
pub(crate) struct Drawables {
    /// The screen is the first, and always there.
    maps: Vec<DrawableMap>,
    places: Places,
    /// Maps of destroyed pixmaps, to be reused.
    free: Vec<usize>,
    /// Where the search for a map to forget continues.
    clock_hand: usize,
    pool: TilePool,
    now: Stamp,
    scratch: Scratch,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

/// Index of the screen's map.
const SCREEN: usize = 0;

impl Drawables {
    pub(crate) fn new(size: Size) -> Drawables {
        Drawables {
            maps: vec![DrawableMap::new(DrawableId::SCREEN, size, true, 1)],
            places: Places::with_capacity_and_hasher(
                2 * PIXMAPS_MAX,
                BuildHasherDefault::default(),
            ),
            free: Vec::new(),
            clock_hand: 1,
            pool: TilePool::default(),
            now: 1,
            scratch: Scratch::default(),
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    #[cfg(feature = "mutations")]
    pub(crate) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
        self.maps.iter_mut().for_each(|map| map.mutation = mutation);
    }

    /// Forgets everything, even that pixmaps exist, until the driver reports them again.
    pub(crate) fn forget(&mut self) {
        let Rect { x2, y2, .. } = self.maps[SCREEN].bounds();
        self.reset(Size { width: x2.cast_unsigned(), height: y2.cast_unsigned() });
    }

    /// Forgets everything; the screen has this size.
    pub(crate) fn reset(&mut self, screen: Size) {
        self.now += 1;
        self.maps[SCREEN].reuse(DrawableId::SCREEN, screen, true, self.now, &mut self.pool);
        for at in 1..self.maps.len() {
            self.release(at);
        }
        self.places.clear();
        self.free.clear();
        self.free.extend(1..self.maps.len());
    }

    /// Frees the content of a map; no equality refers to it any more.
    fn release(&mut self, at: usize) {
        let (screen, size) = (DrawableId::SCREEN, Size::default());
        self.maps[at].reuse(screen, size, true, self.now, &mut self.pool);
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
        self.maps[at].reuse(id, size, opaque, self.now, &mut self.pool);
    }

    /// An index for one more pixmap.
    fn room(&mut self) -> usize {
        if self.maps.len() <= PIXMAPS_MAX {
            self.maps.push(DrawableMap::new(DrawableId::SCREEN, Size::default(), true, self.now));
            let at = self.maps.len() - 1;
            #[cfg(feature = "mutations")]
            {
                self.maps[at].mutation = self.mutation;
            }
            return at;
        }
        // The clock algorithm: forgets a map that was not used since the last round; a round of
        // used ones marks all unused.
        loop {
            self.clock_hand =
                if self.clock_hand + 1 < self.maps.len() { self.clock_hand + 1 } else { 1 };
            if !std::mem::take(&mut self.maps[self.clock_hand].used) {
                break;
            }
        }
        self.places.remove(&self.maps[self.clock_hand].id);
        self.clock_hand
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
    pub(crate) fn draw(&mut self, id: DrawableId, rect: &Rect, what: DrawHint, alpha: Alpha) {
        let Some(at) = self.place(id) else { return };
        self.now += 1;
        let map = &mut self.maps[at];
        map.used = true;
        let rect = rect.intersect(&map.bounds());
        if !rect.is_empty() {
            map.draw(&rect, what, alpha, self.now, &mut self.pool);
        }
    }

    /// Pixels were copied: `rects`, all read before any was written. If they went from a pixmap to
    /// the screen, `effect` returns what that did to the screen.
    pub(crate) fn copy(&mut self, op: CopyOp, rects: &[Rect], effect: &mut ScreenEffect) {
        effect.clear();
        self.now += 1;
        let Some(dst) = self.place(op.dst) else { return };
        let Some(src) = self.place(op.src) else {
            return self.copy_unknown(dst, op, rects, effect);
        };
        self.maps[src].used = true;
        self.maps[dst].used = true;
        self.split_rects(src, dst, op, rects);
        let mut scratch = std::mem::take(&mut self.scratch);

        // The state before the op comes first: the equalities of the source, and the content of the
        // screen.
        if dst == SCREEN && src != SCREEN {
            self.derive(src, op, &mut scratch, effect);
        } else {
            self.inherit(src, dst, op, &mut scratch);
        }
        self.change(src, dst, op, &mut scratch, effect);
        if src != dst {
            for at in 0..scratch.copied.len() {
                self.record_equality(
                    src,
                    dst,
                    scratch.copied[at],
                    op,
                    &mut scratch.walk,
                    &mut scratch.unchanged_rects,
                );
            }
        }
        for equality in scratch.on_screen.drain(..) {
            self.maps[dst].on_screen.add(equality);
        }
        for equality in scratch.in_pixmaps.drain(..) {
            self.add_pixmap_equality(dst, equality);
        }
        self.scratch = scratch;
    }

    /// A copy from an unknown drawable.
    fn copy_unknown(&mut self, dst: usize, op: CopyOp, rects: &[Rect], effect: &mut ScreenEffect) {
        let map = &mut self.maps[dst];
        let alpha = if op.over { Alpha::Kept } else { Alpha::Unknown };
        for rect in rects {
            let rect = rect.intersect(&map.bounds());
            if rect.is_empty() {
                continue;
            }
            map.draw(&rect, DrawHint::Other, alpha, self.now, &mut self.pool);
            if dst == SCREEN {
                effect.drawn.push(rect);
                effect.kinds = Kinds::IMAGE;
            }
        }
    }

    /// Sorts an op's rectangles into copied and blended ones. An Over blend of an opaque source is
    /// a copy.
    fn split_rects(&mut self, src: usize, dst: usize, op: CopyOp, rects: &[Rect]) {
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
            if !op.over || mutated!(self.mutation, OverOfTranslucentIsCopy) {
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
        // Too many blended pixels are only more expensive.
        while blended.len() > OPAQUE_RECTS_MAX
            && let (Some(a), Some(b)) = (blended.pop(), blended.last_mut())
        {
            *b = b.bound(&a);
        }
    }

    /// Collects the equalities of the source that still hold, as the destination will have them.
    fn inherit(&mut self, src: usize, dst: usize, op: CopyOp, scratch: &mut Scratch) {
        let Scratch { copied, on_screen, in_pixmaps, unchanged_rects, .. } = scratch;
        on_screen.clear();
        in_pixmaps.clear();
        if dst == SCREEN {
            return;
        }
        let source = &self.maps[src];
        for rect in copied.iter() {
            let from = rect.translate(-op.dx, -op.dy);
            for equality in source.on_screen.iter().map(|equality| equality.within(&from)) {
                self.maps[SCREEN].changes.unchanged_since(
                    &equality.there(),
                    equality.at,
                    unchanged_rects,
                );
                for there in unchanged_rects.iter() {
                    let here = there.translate(-equality.dx, -equality.dy);
                    let moved = Equality { rect: here, ..equality }.moved(op.dx, op.dy);
                    #[cfg(feature = "mutations")]
                    let moved = if src == dst && mutated!(self.mutation, EqualityDoesNotMove) {
                        Equality { dx: equality.dx, dy: equality.dy, ..moved }
                    } else {
                        moved
                    };
                    on_screen.push(moved);
                }
            }
            for equality in source.in_pixmaps.iter().map(|equality| equality.within(&from)) {
                let Some(other) = self.place(equality.other).filter(|&other| other != dst) else {
                    continue;
                };
                self.maps[other].changes.unchanged_since(
                    &equality.there(),
                    equality.at,
                    unchanged_rects,
                );
                for there in unchanged_rects.iter() {
                    let here = there.translate(-equality.dx, -equality.dy);
                    in_pixmaps.push(Equality { rect: here, ..equality }.moved(op.dx, op.dy));
                }
            }
        }
    }

    /// Updates the destination's tiles, videos and equalities.
    fn change(
        &mut self,
        src: usize,
        dst: usize,
        op: CopyOp,
        scratch: &mut Scratch,
        effect: &mut ScreenEffect,
    ) {
        let Scratch { copied, blended, tiles, left, pieces, .. } = scratch;
        if copied.is_empty() && blended.is_empty() {
            // No part of it lies in both drawables: only a faulty driver reports that.
            return;
        }
        let (dx, dy) = (op.dx, op.dy);
        pieces.clear();
        pieces.extend_from_slice(self.maps[src].translucent.rects());
        for rect in copied.iter().chain(blended.iter()) {
            self.maps[dst].invalidate_own_copies(rect);
        }
        let mut videos: [Option<(Rect, u16)>; 4] = [None; 4];
        for (kept, video) in videos.iter_mut().zip(self.maps[src].videos.iter()) {
            *kept = Some(video);
        }
        let Drawables { maps, pool, now, .. } = self;
        let (map, source) = if src == dst {
            let map = &mut maps[dst];
            let all = copied
                .iter()
                .chain(blended.iter())
                .fold(Rect::default(), |all, rect| all.bound(rect));
            let source = map.grid.before(&all.translate(-dx, -dy), tiles);
            (map, source)
        } else {
            let Ok([map, source]) = maps.get_disjoint_mut([dst, src]) else { return };
            (map, source.grid.source())
        };
        for rect in copied.iter() {
            map.grid.copy(rect, &source, dx, dy, pool);
            map.translucent.remove(rect);
            pieces
                .iter()
                .for_each(|piece| map.translucent.add(&piece.translate(dx, dy).intersect(rect)));
            map.videos.cut(rect);
            for (video, port) in videos.iter().flatten() {
                let video = video.translate(dx, dy).intersect(rect);
                if !video.is_empty() {
                    map.videos.add(&video, *port);
                }
            }
            // Pixels that the screen already had did not change.
            left.clear();
            left.push(*rect);
            effect.unchanged.iter().for_each(|same| rects::subtract(left, same));
            left.iter().for_each(|rect| map.record_change(rect, *now));
        }
        let brought = |rect: &Rect| source.all(&rect.translate(-dx, -dy));
        for rect in effect.drawn.iter() {
            effect.kinds = effect.kinds.with(brought(rect).estimate());
        }
        for rect in blended.iter() {
            let brought = brought(rect);
            map.grid.draw(rect, Brush::blend(brought), pool);
            map.videos.cut(rect);
            map.record_change(rect, *now);
            if dst == SCREEN {
                effect.drawn.push(*rect);
                effect.kinds = effect.kinds.with(brought.estimate()).with(Kinds::COMPOSITE);
            }
        }
    }

    /// The destination's copied pixels equal the source's from now on; every drawable equal to the
    /// source learns where on the screen that is.
    fn record_equality(
        &mut self,
        src: usize,
        dst: usize,
        rect: Rect,
        op: CopyOp,
        walk: &mut Vec<(usize, Equality<()>, u32)>,
        unchanged_rects: &mut Vec<Rect>,
    ) {
        let at = self.now;
        if src == SCREEN {
            self.maps[SCREEN].changes.reference(at);
            return self.maps[dst].on_screen.add(Equality {
                rect,
                other: (),
                dx: -op.dx,
                dy: -op.dy,
                at,
            });
        }
        if dst != SCREEN {
            self.maps[src].changes.reference(at);
            return self.add_pixmap_equality(
                dst,
                Equality { rect, other: op.src, dx: -op.dx, dy: -op.dy, at },
            );
        }
        self.maps[SCREEN].changes.reference(at);
        walk.clear();
        let here = rect.translate(-op.dx, -op.dy);
        walk.push((src, Equality { rect: here, other: (), dx: op.dx, dy: op.dy, at }, 1));
        let mut steps = 0;
        while let Some((at, equality, level)) = walk.pop() {
            steps += 1;
            self.maps[at].on_screen.add(equality);
            if level == LEVELS_MAX || steps == STEPS_MAX {
                continue;
            }
            for twin in self.maps[at].in_pixmaps.iter().map(|twin| twin.within(&equality.rect)) {
                let Some(other) = self.place(twin.other) else { continue };
                self.maps[other].changes.unchanged_since(&twin.there(), twin.at, unchanged_rects);
                for &there in unchanged_rects.iter() {
                    let (dx, dy) = (equality.dx - twin.dx, equality.dy - twin.dy);
                    walk.push((other, Equality { rect: there, dx, dy, ..equality }, level + 1));
                }
            }
        }
    }

    fn add_pixmap_equality(&mut self, at: usize, equality: Equality<DrawableId>) {
        if self.maps[at].in_pixmaps.is_full() {
            // First forgets equalities with destroyed pixmaps.
            let Drawables { maps, places, .. } = self;
            maps[at].in_pixmaps.retain(|other| places.contains_key(&other));
        }
        self.maps[at].in_pixmaps.add(equality);
    }

    /// Puts what the screen's pixels inside of `within` were drawn as into `parts`.
    pub(crate) fn parts(&self, within: &Rect, parts: &mut Vec<Part>) {
        let screen = &self.maps[SCREEN];
        parts::parts(&screen.grid, &screen.videos, within, parts);
    }

    /// # Panics
    /// If an invariant of the maps does not hold; the message states it.
    pub(crate) fn check_invariants(&self) {
        assert!(self.maps.len() <= PIXMAPS_MAX + 1, "at most {PIXMAPS_MAX} pixmaps are known");
        assert_eq!(
            self.places.len() + self.free.len() + 1,
            self.maps.len(),
            "a map is in use or free"
        );
        self.maps.iter().for_each(DrawableMap::check_invariants);
    }
}
