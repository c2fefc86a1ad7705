//! Path 4/13: under mod.rs, for copies to the screen.
//! What a copy from a pixmap to the screen changes there: nothing, a move of pixels that the screen
//! shows already, or new pixels. Knows where on the screen the pixmap's pixels are; never pixels.

use thinc_region::{Rect, Region};

use super::rects;
use super::{CopyOp, Drawables, SCREEN, Scratch, ScreenEffect};
use crate::mutation::mutated;
use crate::queue::copies::CopyCommand;

/// Most vectors of one op: more panes that scroll differently are drawn.
const MOVES_MAX: usize = 4;
/// Fewest pixels for which a COPY saves more than it costs; a few words of text or an icon are sent
/// again.
const MOVE_AREA_MIN: u64 = 1024;
/// On a small screen a sixty-fourth of it.
const MOVE_SCREEN_SHARE: u64 = 64;

impl Drawables {
    /// Sorts what `scratch.copied` brings to the screen into pixels that are there already, pixels
    /// that were elsewhere on it before the op, and the rest.
    pub(super) fn derive(
        &mut self,
        src: usize,
        op: CopyOp,
        scratch: &mut Scratch,
        effect: &mut ScreenEffect,
    ) {
        scratch.on_screen.clear();
        scratch.in_pixmaps.clear();
        let screen = self.maps[SCREEN].bounds();
        let worth = MOVE_AREA_MIN.min(screen.area() / MOVE_SCREEN_SHARE);
        let Scratch { copied, unchanged_rects, left, pieces, .. } = scratch;
        for rect in copied.iter() {
            left.clear();
            left.push(*rect);
            let from = rect.translate(-op.dx, -op.dy);
            // Pixels in place first: they need no COPY.
            for in_place in [true, false] {
                let mut at = 0;
                while let Some(equality) = self.maps[src].on_screen.get(at) {
                    at += 1;
                    if ((equality.dx, equality.dy) == (op.dx, op.dy)) != in_place {
                        continue;
                    }
                    let (dx, dy) = (op.dx - equality.dx, op.dy - equality.dy);
                    self.maps[SCREEN].changes.unchanged_since(
                        &equality.within(&from).there(),
                        equality.at,
                        unchanged_rects,
                    );
                    for there in unchanged_rects.iter() {
                        let to = there.translate(dx, dy);
                        pieces.clear();
                        pieces.extend(
                            left.iter()
                                .map(|left| left.intersect(&to))
                                .filter(|piece| !piece.is_empty()),
                        );
                        if in_place {
                            effect.unchanged.extend_from_slice(pieces);
                        } else {
                            let at = effect.move_index(dx, dy);
                            if !mutated!(self.mutation, CopiesOfOneOpChain) {
                                effect.remove_chained(at, pieces, dx, dy);
                            }
                            effect.add_move(at, pieces, dx, dy);
                        }
                        pieces.iter().for_each(|piece| rects::subtract(left, piece));
                    }
                }
            }
            effect.drawn.extend_from_slice(left);
        }
        effect.drop_small_moves(worth);
    }
}

impl ScreenEffect {
    /// Index of the move by this vector, which may be a new one.
    fn move_index(&self, dx: i32, dy: i32) -> usize {
        let known = self.moves.iter().position(|known| (known.dx, known.dy) == (dx, dy));
        known.unwrap_or(self.moves.len())
    }

    /// Removes from `pieces` what the move at `at` may not contain: all moves of an op read the
    /// pixels before the op, but a viewer executes them one after the other.
    fn remove_chained(&self, at: usize, pieces: &mut Vec<Rect>, dx: i32, dy: i32) {
        for earlier in &self.moves[..at] {
            for rect in earlier.region.rects() {
                rects::subtract(pieces, &rect.translate(dx, dy));
            }
        }
        for later in self.moves.iter().skip(at + 1) {
            for rect in later.region.rects() {
                rects::subtract(pieces, &rect.translate(-later.dx, -later.dy));
            }
        }
    }

    /// Adds `pieces` to the move at `at`, or clears them if there are too many moves.
    fn add_move(&mut self, at: usize, pieces: &mut Vec<Rect>, dx: i32, dy: i32) {
        if at == MOVES_MAX {
            return pieces.clear();
        }
        if pieces.is_empty() {
            return;
        }
        if at == self.moves.len() {
            self.moves.push(CopyCommand { region: Region::new(), dx, dy });
        }
        pieces.iter().for_each(|&piece| self.moves[at].region.add_rect(piece));
    }

    /// Moves that are not worth a COPY are drawn.
    fn drop_small_moves(&mut self, worth: u64) {
        let ScreenEffect { moves, drawn, .. } = self;
        moves.retain(|small| {
            let keep = small.region.area() >= worth;
            if !keep {
                drawn.extend_from_slice(small.region.rects());
            }
            keep
        });
    }
}
