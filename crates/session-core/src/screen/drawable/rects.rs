//! Path 4/13: under map.rs.
//! Short lists of rectangles and their differences, for code in which a region is too expensive
//! because it allocates. Knows rectangles; the user of a bounded list says what is lost past the
//! bound.

use thinc_region::Rect;

/// `rect` without `cut`: above, left, right, below; empty ones too.
fn pieces(rect: &Rect, cut: &Rect) -> [Rect; 4] {
    let cut = rect.intersect(cut);
    [
        Rect { y2: cut.y1, ..*rect },
        Rect { y1: cut.y1, y2: cut.y2, x2: cut.x1, ..*rect },
        Rect { y1: cut.y1, y2: cut.y2, x1: cut.x2, ..*rect },
        Rect { y1: cut.y2, ..*rect },
    ]
}

/// Calls `keep` with each rectangle of `rect` without `cut`.
pub(super) fn for_each_piece(rect: &Rect, cut: &Rect, mut keep: impl FnMut(Rect)) {
    if !rect.overlaps(cut) {
        return keep(*rect);
    }
    pieces(rect, cut).into_iter().filter(|piece| !piece.is_empty()).for_each(&mut keep);
}

/// Removes `cut` from disjoint rectangles.
pub(super) fn subtract(rects: &mut Vec<Rect>, cut: &Rect) {
    let mut i = 0;
    let mut unseen = rects.len();
    while i < unseen {
        let rect = rects[i];
        if !rect.overlaps(cut) {
            i += 1;
            continue;
        }
        // The last unvisited one takes its place, and the pieces go behind the unvisited ones.
        unseen -= 1;
        rects.swap(i, unseen);
        rects.swap_remove(unseen);
        rects.extend(pieces(&rect, cut).into_iter().filter(|piece| !piece.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Region;

    use super::*;

    #[test]
    fn a_difference_equals_that_of_regions() {
        let rect = Rect::new(4, 4, 12, 12);
        for cut in [
            Rect::new(6, 6, 8, 8),
            Rect::new(0, 0, 20, 6),
            Rect::new(0, 0, 6, 20),
            Rect::new(0, 0, 20, 20),
            Rect::new(12, 4, 14, 12),
            Rect::new(10, 10, 30, 30),
        ] {
            let mut rects = vec![rect, Rect::new(20, 4, 24, 12)];
            let mut region: Region = rects.iter().copied().collect();
            subtract(&mut rects, &cut);
            region.subtract_rect(&cut);
            assert_eq!(rects.iter().map(Rect::area).sum::<u64>(), region.area(), "{cut:?}");
            assert_eq!(rects.into_iter().collect::<Region>(), region, "{cut:?}");
        }
    }
}
