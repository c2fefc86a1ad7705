//! Path 4/13: under grid.rs.
//! What 16 x 16 pixels of a drawable were drawn as, in 32 bits.
//! Knows kinds and one colour; never pixels. Whatever it does not say is unknown, and joining two never says more.

use std::ops::BitOr;

use thinc_ring::{Alpha, Drawn};

use super::Proposal;
use crate::command_queue::Kinds;

/// Edge of a tile in pixels: a line of text is one tile high or two, and a screen of 4 K costs 128 KiB.
pub(crate) const TILE: i32 = 16;
/// `x >> TILE_SHIFT` is the tile of pixel x.
pub(super) const TILE_SHIFT: u32 = TILE.trailing_zeros();

/// What a tile's pixels are: a set of kinds, and under `SOLID` a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile(u32);

impl Tile {
    /// A fill of `rgb` lies under all of it. Alone: every pixel is that.
    pub(crate) const SOLID: Tile = Tile(1 << 24);
    /// Other fills, in parts.
    pub(crate) const FILLS: Tile = Tile(Tile::SOLID.0 << 1);
    /// A tile or stipple.
    pub(crate) const PATTERN: Tile = Tile(1 << 26);
    /// Text.
    pub(crate) const GLYPHS: Tile = Tile(1 << 27);
    /// A client's pixels.
    pub(crate) const IMAGE: Tile = Tile(1 << 28);
    /// XVideo.
    pub(crate) const VIDEO: Tile = Tile(1 << 29);
    /// Anything else; alone, all that is known of what nobody told.
    pub(crate) const OTHER: Tile = Tile(1 << 30);
    /// Nothing at all; joined with another it is the other.
    pub(crate) const NOTHING: Tile = Tile(0);

    const RGB: u32 = 0x00ff_ffff;

    /// Every pixel is this 0xRRGGBB.
    pub(crate) const fn solid(rgb: u32) -> Tile {
        Tile(Tile::SOLID.0 | rgb & Tile::RGB)
    }

    /// True when some of the kinds are in it.
    pub(crate) const fn has(self, kinds: Tile) -> bool {
        self.0 & kinds.0 != 0
    }

    /// Without some kinds.
    pub(crate) const fn without(self, kinds: Tile) -> Tile {
        Tile(self.0 & !kinds.0)
    }

    /// Pixels of both are in it. A common ground stays one; two grounds are fills in parts. In which order tiles are joined,
    /// and how often one of them, is all the same.
    #[inline]
    pub(crate) const fn join(self, other: Tile) -> Tile {
        let both = Tile(self.0 | other.0);
        // Both ways are computed, so that rows of tiles are joined by vector instructions.
        let parts = both.parts();
        if (self.0 ^ other.0) & (Tile::SOLID.0 | Tile::RGB) == 0 { both } else { parts }
    }

    /// Nothing where both are the same.
    #[inline]
    pub(super) const fn difference(self, other: Tile) -> Tile {
        Tile(self.0 ^ other.0)
    }

    /// As a part of a tile: its ground is a fill among others.
    #[inline]
    pub(crate) const fn parts(self) -> Tile {
        // Without a ground there are no bits of its colour.
        Tile(self.0 & !(Tile::SOLID.0 | Tile::RGB) | (self.0 & Tile::SOLID.0) << 1)
    }

    /// As the scheduler counts it.
    pub(crate) fn estimate(self) -> Kinds {
        let all = [
            (Tile::SOLID | Tile::FILLS, Kinds::SOLID),
            (Tile::PATTERN, Kinds::PATTERN),
            (Tile::GLYPHS, Kinds::GLYPHS),
            (Tile::IMAGE, Kinds::IMAGE),
            (Tile::VIDEO, Kinds::VIDEO),
            (Tile::OTHER, Kinds::OTHER),
        ];
        let held = all.into_iter().filter(|&(tile, _)| self.has(tile));
        held.fold(Kinds::default(), |kinds, (_, kind)| kinds.with(kind))
    }

    /// What it proposes. Video is proposed by its exact rectangle.
    pub(crate) fn proposal(self) -> Option<Proposal> {
        let kinds = self.without(Tile(Tile::RGB));
        if kinds == Tile::SOLID {
            return Some(Proposal::Solid(self.0 & Tile::RGB));
        }
        if kinds.has(Tile::GLYPHS) {
            let alone = kinds == Tile::SOLID | Tile::GLYPHS;
            return Some(Proposal::Text(alone.then_some(self.0 & Tile::RGB)));
        }
        if kinds == Tile::PATTERN {
            return Some(Proposal::Pattern);
        }
        (kinds == Tile::IMAGE).then_some(Proposal::Image)
    }
}

impl BitOr for Tile {
    type Output = Tile;

    fn bitor(self, other: Tile) -> Tile {
        Tile(self.0 | other.0)
    }
}

/// What a drawing does to the tiles it touches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brush {
    /// Kinds that are in them now, with the ground's colour.
    ink: Tile,
    /// It leaves nothing of what was there.
    covers: bool,
}

impl Brush {
    pub(super) fn new(what: Drawn, alpha: Alpha) -> Brush {
        let (ink, covers) = match what {
            Drawn::Solid(rgb) => (Tile::solid(rgb), true),
            Drawn::Image => (Tile::IMAGE, true),
            Drawn::Video { .. } => (Tile::VIDEO, true),
            // A stipple leaves pixels between its own as they were; a tile that does not has made them opaque.
            Drawn::Pattern => (Tile::PATTERN, alpha == Alpha::Opaque),
            Drawn::Glyphs => (Tile::GLYPHS, false),
            // It may be a line, or a picture that covers: what was there may show through either.
            Drawn::Composite | Drawn::Other => (Tile::OTHER, false),
        };
        Brush { ink, covers }
    }

    /// Pixels that were something, blended over what was there.
    pub(super) fn blend(of: Tile) -> Brush {
        Brush { ink: of.parts() | Tile::OTHER, covers: false }
    }

    /// What every tile inside of the drawing is now, where that does not depend on what it was.
    pub(super) fn replaces(self) -> Option<Tile> {
        self.covers.then_some(self.ink)
    }

    /// A tile that a drawing touches which leaves some of what was there.
    #[inline]
    pub(super) fn over(self, before: Tile) -> Tile {
        // Glyphs leave the ground what it was, and so does a fill of the ground's own colour.
        if self.ink.has(Tile::SOLID) { before.join(self.ink) } else { before | self.ink }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ground_stays_while_all_that_is_joined_shares_it() {
        let white = Tile::solid(0xff_ffff);
        assert_eq!(white.join(white | Tile::GLYPHS), white | Tile::GLYPHS);
        assert_eq!(white.join(Tile::solid(0)), Tile::FILLS);
        assert_eq!(white.join(Tile::GLYPHS), Tile::FILLS | Tile::GLYPHS);
        assert_eq!(Tile::NOTHING.join(Tile::IMAGE), Tile::IMAGE);
        // Black has the colour's bits of a tile that has no ground.
        assert_eq!(Tile::solid(0).join(Tile::OTHER), Tile::FILLS | Tile::OTHER);
    }

    #[test]
    fn what_is_proposed_is_all_there_is() {
        let white = Tile::solid(0xff_ffff);
        assert_eq!(white.proposal(), Some(Proposal::Solid(0xff_ffff)));
        assert_eq!((white | Tile::GLYPHS).proposal(), Some(Proposal::Text(Some(0xff_ffff))));
        assert_eq!((white | Tile::GLYPHS | Tile::IMAGE).proposal(), Some(Proposal::Text(None)));
        assert_eq!((white | Tile::IMAGE).proposal(), None);
        assert_eq!(Tile::IMAGE.proposal(), Some(Proposal::Image));
        assert_eq!((Tile::IMAGE | Tile::OTHER).proposal(), None);
        assert_eq!(Tile::OTHER.proposal(), None);
    }

    #[test]
    fn a_stipple_leaves_what_was_there_and_a_tile_does_not() {
        assert_eq!(Brush::new(Drawn::Pattern, Alpha::Kept).replaces(), None);
        assert_eq!(Brush::new(Drawn::Pattern, Alpha::Opaque).replaces(), Some(Tile::PATTERN));
    }

    #[test]
    fn a_fill_of_the_grounds_colour_leaves_the_ground() {
        let white = Tile::solid(0xff_ffff);
        let fill = |rgb| Brush::new(Drawn::Solid(rgb), Alpha::Opaque);
        assert_eq!(fill(0xff_ffff).over(white | Tile::GLYPHS), white | Tile::GLYPHS);
        assert_eq!(fill(0).over(white), Tile::FILLS);
        assert_eq!(Brush::blend(white).over(white), white | Tile::FILLS | Tile::OTHER);
    }
}
