//! Path 8/13: after plan.rs, before codec-enc.
//! Cuts what was planned so that no command is long: what is more urgent can go between two, and several threads can encode.
//! Knows rectangles, and where between lines of text nothing is; never bytes.

use thinc_region::Rect;

use crate::changes::uniform;
use crate::{Content, Planned, RGB, Snapshot};

/// 16 pixels: pieces are as many times as wide and high, which is what JPEG codes at once.
const STEP: i32 = 16;
/// 64 pixels: narrower pieces foretell little from what lies left of a pixel and above.
const WIDTH_MIN: i32 = 4 * STEP;

/// 40 rows: pieces of what may be text are as wide as this allows, since a line that is cut is said twice.
const LINES_HEIGHT_MIN: i32 = 40;

/// 4 times as many pixels of what may be text: packed, it takes a quarter or less of the bytes that it is planned for, and each piece
/// has to name its colours anew. But no more than a worker should have at once, 128 Ki.
const LINES_TIMES: u64 = 4;
const LINES_AREA_MAX: u64 = 1 << 17;

/// Cuts the rectangles of everything that is encoded pixel by pixel to about `area` pixels each, 64 x 16 at least, in the
/// order of rows; what may be text between its lines. Patterns, colours, moves and what is kept stay whole: they take few bytes
/// whatever their size.
pub fn cut(planned: &mut Vec<Planned>, snapshot: &Snapshot, area: u64) {
    let is_large = |rect: &Rect| rect.area() > area.saturating_add(area / 2);
    if !planned.iter().any(|planned| rect_of(planned).is_some_and(is_large)) {
        return;
    }
    let whole = std::mem::take(planned);
    for one in whole {
        match rect_of(&one).copied().filter(is_large) {
            Some(rect) if matches!(one, Planned::Pixels { content: Content::Unknown | Content::Text, .. }) => {
                planned.extend(lines(rect, snapshot, area).map(|piece| with_rect(&one, piece)));
            }
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

/// Of the whole width where that leaves a few lines, and cut where nothing is, if that is near.
fn lines(rect: Rect, snapshot: &Snapshot, area: u64) -> impl Iterator<Item = Rect> + '_ {
    let area = area.saturating_mul(LINES_TIMES).min(LINES_AREA_MAX.max(area));
    let most = (area / LINES_HEIGHT_MIN as u64).min(1 << 14) as i32;
    let columns = (rect.width() + most.max(WIDTH_MIN) - 1) / most.max(WIDTH_MIN);
    let width = (rect.width() + columns - 1) / columns;
    let lefts = (rect.x1..rect.x2).step_by(width as usize);
    lefts.flat_map(move |x1| {
        let column = Rect { x1, x2: rect.x2.min(x1 + width), ..rect };
        let height = (area / column.width() as u64).clamp(STEP as u64, 1 << 14) as i32;
        let mut y1 = column.y1;
        std::iter::from_fn(move || {
            let top = y1;
            if top == column.y2 {
                return None;
            }
            y1 = if column.y2 - top <= height + height / 2 {
                column.y2
            } else {
                gap(&column, snapshot, top + height, height / 2)
            };
            Some(Rect { y1: top, y2: y1, ..column })
        })
    })
}

/// The row nearest to `y`, and at most `reach` away, that is of one colour or like the one above; or `y`.
fn gap(column: &Rect, snapshot: &Snapshot, y: i32, reach: i32) -> i32 {
    let row = |y| snapshot.row(column.x1, column.x2, y);
    let is_empty = |&y: &i32| uniform(row(y), row(y)[0] & RGB) || row(y) == row(y - 1);
    let near = (0..reach).flat_map(|far| [y - far, y + far]);
    near.filter(|&y| y > column.y1 && y < column.y2).find(is_empty).unwrap_or(y)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thinc_region::Region;

    use super::*;

    fn snapshot_of(rect: Rect, pixel: impl Fn(i32, i32) -> u32) -> Snapshot {
        let mut snapshot = Snapshot::new();
        snapshot.fill(&Region::from(rect), |part, dst, stride| {
            for (row, y) in dst.chunks_mut(stride).zip(part.y1..part.y2) {
                row.iter_mut().zip(part.x1..part.x2).for_each(|(dst, x)| *dst = pixel(x, y));
            }
        });
        snapshot
    }

    #[test]
    fn lines_of_text_stay_whole() {
        // Lines of 13 rows and gaps of 6, beside a border.
        let is_gap = |y: i32| y % 19 >= 13;
        let ink = |x: i32, y: i32| (x * 7 + y * 31) as u32 % 200 * 0x01_0101;
        let rect = Rect::new(3, 5, 703, 605);
        let snapshot = snapshot_of(rect, |x, y| if x < 9 || is_gap(y) { 0x123456 } else { ink(x, y) });
        for area in [8_000, 15_000, 100_000] {
            let mut planned = vec![Planned::Pixels { rect, content: Content::Unknown }];
            cut(&mut planned, &snapshot, area);
            let rects: Vec<Rect> = planned.iter().filter_map(rect_of).copied().collect();
            assert!(rects.len() as u64 >= rect.area() / (area * 2 * LINES_TIMES), "{} pieces of {area}", rects.len());
            assert!(rects.iter().all(|piece| piece.y1 == rect.y1 || is_gap(piece.y1)), "{rects:?}");
            assert!(rects.iter().all(|piece| piece.width() > 600), "{rects:?}");
            assert_eq!(rects.into_iter().collect::<Region>(), Region::from(rect));
        }
    }

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
        cut(&mut planned, &Snapshot::new(), 2000);
        assert_eq!(planned, whole);
    }

    #[test]
    fn pieces_take_the_place_of_what_they_were() {
        let (rect, small) = (Rect::new(0, 0, 128, 32), Rect::new(200, 0, 210, 10));
        let mut planned =
            vec![Planned::TwoColor { rect, fg: 1, bg: 2 }, Planned::Pixels { rect: small, content: Content::Image }];
        cut(&mut planned, &Snapshot::new(), 1024);
        let piece = |x, y| Planned::TwoColor { rect: Rect::at(x, y, 64, 16), fg: 1, bg: 2 };
        let last = Planned::Pixels { rect: small, content: Content::Image };
        assert_eq!(planned, [piece(0, 0), piece(64, 0), piece(0, 16), piece(64, 16), last]);
    }

    proptest! {
        #[test]
        fn pieces_are_all_of_it_once_and_not_long(
            (x, y, width, height) in (0..50_i32, 0..50_i32, 1..2000_i32, 1..900_i32),
            area in 1..3_000_000_u64,
            is_photo in any::<bool>(),
            rows in 1..60_i32,
        ) {
            let rect = Rect::at(x, y, width, height);
            let mut planned = vec![if is_photo { Planned::Photo { rect } } else { Planned::Pixels { rect, content: Content::Text } }];
            // Something like text, or nothing that could be cut between.
            let snapshot = snapshot_of(rect, |x, y| if y % rows == 0 { 7 } else { (x * 31 + y * 17) as u32 });
            cut(&mut planned, &snapshot, area);
            let mut all = Region::new();
            let mut sum = 0;
            for planned in &planned {
                let piece = rect_of(planned).unwrap();
                prop_assert!(!piece.is_empty());
                // Lines are cut up to half a piece away from where they would be, the least of them too.
                let most = if is_photo { area } else { area * LINES_TIMES };
                let most = most.max(64 * 16);
                prop_assert!(piece.area() <= most + most / 2, "{:?} of {} pixels", piece, area);
                // JPEG's blocks begin at each piece's corner: only the last of a row and column are not whole.
                prop_assert!(!is_photo || (piece.x1 - x) % STEP == 0 && (piece.y1 - y) % STEP == 0);
                sum += piece.area();
                all.add_rect(*piece);
            }
            prop_assert_eq!(all, Region::from(rect));
            prop_assert_eq!(sum, rect.area());
        }
    }
}
