//! Path 8/13: after plan.rs, before codec-enc.
//! Cuts what was planned so that no command is long: what is more urgent can go between two, and several threads can encode.
//! Knows rectangles; never pixels or bytes.

use thinc_region::Rect;

use crate::Planned;

/// 16 pixels: pieces are as many times as wide and high, which is what JPEG codes at once.
const STEP: i32 = 16;
/// 64 pixels: narrower pieces foretell little from what lies left of a pixel and above.
const WIDTH_MIN: i32 = 4 * STEP;

/// Cuts the rectangles of everything that is encoded pixel by pixel to about `area` pixels each, 64 x 16 at least, in the
/// order of rows. Patterns, colours, moves and what is kept stay whole: they take few bytes whatever their size.
pub fn cut(planned: &mut Vec<Planned>, area: u64) {
    let is_large = |rect: &Rect| rect.area() > area.saturating_add(area / 2);
    if !planned.iter().any(|planned| rect_of(planned).is_some_and(is_large)) {
        return;
    }
    let whole = std::mem::take(planned);
    for one in whole {
        match rect_of(&one).copied().filter(is_large) {
            Some(rect) => planned.extend(pieces(rect, area).map(|piece| with_rect(&one, piece))),
            None => planned.push(one),
        }
    }
}

fn rect_of(planned: &Planned) -> Option<&Rect> {
    match planned {
        Planned::TwoColor { rect, .. }
        | Planned::Coverage { rect, .. }
        | Planned::Pixels { rect, .. }
        | Planned::Photo { rect } => Some(rect),
        _ => None,
    }
}

fn with_rect(planned: &Planned, rect: Rect) -> Planned {
    match *planned {
        Planned::TwoColor { fg, bg, .. } => Planned::TwoColor { rect, fg, bg },
        Planned::Coverage { fg, bg, .. } => Planned::Coverage { rect, fg, bg },
        Planned::Pixels { content, .. } => Planned::Pixels { rect, content },
        Planned::Photo { .. } => Planned::Photo { rect },
        _ => unreachable!("only what has one rectangle is cut"),
    }
}

/// Nearly square: as much as may be of what foretells a pixel is in its own piece.
fn pieces(rect: Rect, area: u64) -> impl Iterator<Item = Rect> {
    let steps = |length: u64| (length.min(1 << 14) as i32 / STEP).max(1) * STEP;
    let width = steps(area.isqrt()).max(WIDTH_MIN).min(rect.width());
    let height = steps(area / width as u64);
    let tops = (rect.y1..rect.y2).step_by(height as usize);
    tops.flat_map(move |y1| {
        let lefts = (rect.x1..rect.x2).step_by(width as usize);
        lefts.map(move |x1| Rect { x1, y1, x2: rect.x2.min(x1 + width), y2: rect.y2.min(y1 + height) })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thinc_region::Region;

    use super::*;
    use crate::Content;

    #[test]
    fn what_is_small_or_takes_few_bytes_stays_whole() {
        let rect = Rect::new(3, 5, 403, 305);
        let whole = vec![
            Planned::Solid { region: Region::from(rect), color: 7 },
            Planned::Pattern { rect, tile_width: 8, tile_height: 8 },
            Planned::Photo { rect: Rect::new(0, 0, 60, 40) },
            Planned::Keep { rect, slot: 3 },
        ];
        let mut planned = whole.clone();
        cut(&mut planned, 2000);
        assert_eq!(planned, whole);
    }

    #[test]
    fn pieces_take_the_place_of_what_they_were() {
        let (rect, small) = (Rect::new(0, 0, 128, 32), Rect::new(200, 0, 210, 10));
        let mut planned =
            vec![Planned::TwoColor { rect, fg: 1, bg: 2 }, Planned::Pixels { rect: small, content: Content::Image }];
        cut(&mut planned, 1024);
        let piece = |x, y| Planned::TwoColor { rect: Rect::at(x, y, 64, 16), fg: 1, bg: 2 };
        let last = Planned::Pixels { rect: small, content: Content::Image };
        assert_eq!(planned, [piece(0, 0), piece(64, 0), piece(0, 16), piece(64, 16), last]);
    }

    proptest! {
        #[test]
        fn pieces_are_all_of_it_once_and_not_long(
            (x, y, width, height) in (0..50_i32, 0..50_i32, 1..2000_i32, 1..900_i32),
            area in 1..3_000_000_u64,
        ) {
            let rect = Rect::at(x, y, width, height);
            let mut planned = vec![Planned::Photo { rect }];
            cut(&mut planned, area);
            let mut all = Region::new();
            let mut sum = 0;
            for planned in &planned {
                let piece = rect_of(planned).unwrap();
                prop_assert!(!piece.is_empty());
                prop_assert!(piece.area() <= (area + area / 2).max(64 * 16), "{:?} of {} pixels", piece, area);
                // JPEG's blocks begin at each piece's corner: only the last of a row and column are not whole.
                prop_assert!((piece.x1 - x) % STEP == 0 && (piece.y1 - y) % STEP == 0);
                sum += piece.area();
                all.add_rect(*piece);
            }
            prop_assert_eq!(all, Region::from(rect));
            prop_assert_eq!(sum, rect.area());
        }
    }
}
