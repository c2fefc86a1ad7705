//! Path 4/13: under mod.rs, the part that looks at the screen.
//! What a copy from a pixmap to the screen changes there: nothing, a move of what the screen shows already, or new pixels.
//! Knows where on the screen the pixmap's pixels are; never pixels.

use thinc_region::{Rect, Region};

use super::rects;
use super::{CopyOp, Drawables, Effect, SCREEN, Scratch};
use crate::copies::CopyCommand;
use crate::mutation::Mutation;

/// Most vectors one op is taken apart into: panes that scrolled by different ways are drawn.
const MOVES_MAX: usize = 4;
/// A COPY saves less than it costs below this many pixels, which a few words' text has too: an icon is sent again.
const MOVE_AREA_MIN: u64 = 1024;
/// On a small screen less: a sixty-fourth of it.
const MOVE_SCREEN_SHARE: u64 = 64;

impl Drawables {
    /// Sorts what `scratch.copied` brings to the screen into what is there already, what was elsewhere on it before the
    /// op, and the rest.
    pub(super) fn derive(&mut self, src: usize, op: CopyOp, scratch: &mut Scratch, effect: &mut Effect) {
        scratch.shown.clear();
        scratch.twins.clear();
        let screen = self.maps[SCREEN].bounds();
        let worth = MOVE_AREA_MIN.min(screen.area() / MOVE_SCREEN_SHARE);
        let Scratch { copied, still, left, pieces, .. } = scratch;
        for rect in copied.iter() {
            left.clear();
            left.push(*rect);
            let from = rect.translate(-op.dx, -op.dy);
            // In place first: what does not move needs no COPY.
            for in_place in [true, false] {
                let mut at = 0;
                while let Some(equality) = self.maps[src].shown.get(at) {
                    at += 1;
                    if ((equality.dx, equality.dy) == (op.dx, op.dy)) != in_place {
                        continue;
                    }
                    let (dx, dy) = (op.dx - equality.dx, op.dy - equality.dy);
                    self.maps[SCREEN].changes.still(&equality.within(&from).there(), equality.at, still);
                    for there in still.iter() {
                        let to = there.translate(dx, dy);
                        pieces.clear();
                        pieces.extend(left.iter().map(|left| left.intersect(&to)).filter(|piece| !piece.is_empty()));
                        if in_place {
                            effect.same.extend_from_slice(pieces);
                        } else {
                            effect.add_move(pieces, dx, dy, self.broken.is(Mutation::CopiesOfOneOpChain));
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

impl Effect {
    /// Adds what it can of `pieces` to the moves by one vector, and leaves in `pieces` what it added.
    fn add_move(&mut self, pieces: &mut Vec<Rect>, dx: i32, dy: i32, chains: bool) {
        let known = self.moves.iter().position(|known| (known.dx, known.dy) == (dx, dy));
        let at = known.unwrap_or(self.moves.len());
        if at == MOVES_MAX {
            return pieces.clear();
        }
        if !chains {
            // All of an op's moves read what was before the op, and a viewer makes them one after the other.
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
        if pieces.is_empty() {
            return;
        }
        if known.is_none() {
            self.moves.push(CopyCommand { region: Region::new(), dx, dy });
        }
        pieces.iter().for_each(|&piece| self.moves[at].region.add_rect(piece));
    }

    /// Moves that are not worth a COPY are drawn.
    fn drop_small_moves(&mut self, worth: u64) {
        let Effect { moves, drawn, .. } = self;
        moves.retain(|small| {
            let keep = small.region.area() >= worth;
            if !keep {
                drawn.extend_from_slice(small.region.rects());
            }
            keep
        });
    }
}
