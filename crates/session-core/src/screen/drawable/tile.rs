//! Path 4/13: under grid.rs.
//! What 16 x 16 pixels of a drawable were drawn as, in 32 bits.
//! Knows kinds and one colour; never pixels. Whatever is not claimed is unknown, and joining two
//! never claims more.

use std::ops::BitOr;

use thinc_ring::{Alpha, DrawHint};

use super::Proposal;
use crate::queue::command_queue::Kinds;

/// Edge of a tile in pixels: a line of text is one or two tiles high, and a screen of 4 K takes 128
/// KiB.
pub(crate) const TILE: i32 = 16;
/// `x >> TILE_SHIFT` is the tile of pixel x.
pub(super) const TILE_SHIFT: u32 = TILE.trailing_zeros();

/// What a tile's pixels are: a set of kinds, and with `SOLID` a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile(u32);

impl Tile {
    /// A fill of `rgb` under all of it, the ground. Alone: every pixel has that colour.
    pub(crate) const SOLID: Tile = Tile(1 << 24);
    /// Other fills, in parts.
    pub(crate) const FILLS: Tile = Tile(Tile::SOLID.0 << 1);
    /// A tile or stipple.
    pub(crate) const PATTERN: Tile = Tile(1 << 26);
    /// Text.
    pub(crate) const GLYPHS: Tile = Tile(1 << 27);
    /// An application's pixels.
    pub(crate) const IMAGE: Tile = Tile(1 << 28);
    /// XVideo.
    pub(crate) const VIDEO: Tile = Tile(1 << 29);
    /// Anything else; alone for unreported content.
    pub(crate) const OTHER: Tile = Tile(1 << 30);
    /// Nothing at all; joined with another it is the other.
    pub(crate) const NOTHING: Tile = Tile(0);

    const RGB: u32 = 0x00ff_ffff;

    /// Every pixel is this 0xRRGGBB.
    pub(crate) const fn solid(rgb: u32) -> Tile {
        Tile(Tile::SOLID.0 | rgb & Tile::RGB)
    }

    /// True if it contains some of the kinds.
    pub(crate) const fn has(self, kinds: Tile) -> bool {
        self.0 & kinds.0 != 0
    }

    /// Without some kinds.
    pub(crate) const fn without(self, kinds: Tile) -> Tile {
        Tile(self.0 & !kinds.0)
    }

    /// It contains pixels of both. A common ground stays one; two grounds are fills in parts.
    /// Joining is commutative, associative and idempotent.
    #[inline]
    pub(crate) const fn join(self, other: Tile) -> Tile {
        let both = Tile(self.0 | other.0);
        // Both results are computed, so that rows of tiles are joined by vector instructions.
        let parts = both.parts();
        if (self.0 ^ other.0) & (Tile::SOLID.0 | Tile::RGB) == 0 { both } else { parts }
    }

    /// Nothing if both are the same.
    #[inline]
    pub(super) const fn difference(self, other: Tile) -> Tile {
        Tile(self.0 ^ other.0)
    }

    /// As a part of a tile: its ground is a fill among others.
    #[inline]
    pub(crate) const fn parts(self) -> Tile {
        // Without a ground the colour's bits are 0.
        Tile(self.0 & !(Tile::SOLID.0 | Tile::RGB) | (self.0 & Tile::SOLID.0) << 1)
    }

    /// The scheduler's kinds.
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

    /// Its proposal. Video is proposed by its exact rectangle.
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
    /// Kinds that it adds, with the ground's colour.
    ink: Tile,
    /// It replaces everything.
    covers: bool,
}

impl Brush {
    pub(super) fn new(what: DrawHint, alpha: Alpha) -> Brush {
        let (ink, covers) = match what {
            DrawHint::Solid(rgb) => (Tile::solid(rgb), true),
            DrawHint::Image | DrawHint::Stereo { .. } => (Tile::IMAGE, true),
            DrawHint::Video { .. } => (Tile::VIDEO, true),
            // A stipple leaves pixels between its own; a tile covers them, and reports them as
            // opaque.
            DrawHint::Pattern => (Tile::PATTERN, alpha == Alpha::Opaque),
            DrawHint::Glyphs => (Tile::GLYPHS, false),
            // It may be a line, or an image that covers: the earlier content may show through
            // either.
            DrawHint::Composite | DrawHint::Other => (Tile::OTHER, false),
        };
        Brush { ink, covers }
    }

    /// Known pixels, blended over the earlier content.
    pub(super) fn blend(of: Tile) -> Brush {
        Brush { ink: of.parts() | Tile::OTHER, covers: false }
    }

    /// The new value of every tile inside of the drawing, if it does not depend on the old one.
    pub(super) fn replaces(self) -> Option<Tile> {
        self.covers.then_some(self.ink)
    }

    /// The new value of a tile that keeps some of its content.
    #[inline]
    pub(super) fn over(self, before: Tile) -> Tile {
        // Glyphs leave the ground as it is, and so does a fill of the ground's own colour.
        if self.ink.has(Tile::SOLID) { before.join(self.ink) } else { before | self.ink }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ground_stays_while_all_joined_tiles_share_it() {
        let white = Tile::solid(0xff_ffff);
        assert_eq!(white.join(white | Tile::GLYPHS), white | Tile::GLYPHS);
        assert_eq!(white.join(Tile::solid(0)), Tile::FILLS);
        assert_eq!(white.join(Tile::GLYPHS), Tile::FILLS | Tile::GLYPHS);
        assert_eq!(Tile::NOTHING.join(Tile::IMAGE), Tile::IMAGE);
        // A tile without a ground has the same colour bits as black.
        assert_eq!(Tile::solid(0).join(Tile::OTHER), Tile::FILLS | Tile::OTHER);
    }

    #[test]
    fn a_proposal_covers_everything_in_the_tile() {
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
    fn a_stipple_keeps_the_earlier_content_and_a_tile_does_not() {
        assert_eq!(Brush::new(DrawHint::Pattern, Alpha::Kept).replaces(), None);
        assert_eq!(Brush::new(DrawHint::Pattern, Alpha::Opaque).replaces(), Some(Tile::PATTERN));
    }

    #[test]
    fn a_fill_of_the_grounds_colour_keeps_the_ground() {
        let white = Tile::solid(0xff_ffff);
        let fill = |rgb| Brush::new(DrawHint::Solid(rgb), Alpha::Opaque);
        assert_eq!(fill(0xff_ffff).over(white | Tile::GLYPHS), white | Tile::GLYPHS);
        assert_eq!(fill(0).over(white), Tile::FILLS);
        assert_eq!(Brush::blend(white).over(white), white | Tile::FILLS | Tile::OTHER);
    }
}
