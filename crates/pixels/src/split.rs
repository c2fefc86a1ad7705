//! Path 8/13: after plan.rs, before codec-enc.
//! Splits planned rectangles into pieces, so that more urgent commands can be sent between two, and
//! several threads can encode.
//! Knows rectangles, and the gaps between lines of text; never encoded bytes.

use thinc_region::Rect;

use crate::changes::uniform;
use crate::{Content, Planned, RGB, Snapshot};

/// 16 pixels: widths and heights of pieces are multiples of JPEG's largest block (4:2:0).
const STEP: i32 = 16;
/// 64 pixels: narrower pieces give prediction too few neighbours.
const WIDTH_MIN: i32 = 4 * STEP;

/// 40 rows: least height of a text piece, which limits its width; a line of text that is split
/// vertically is encoded in two pieces.
const LINES_HEIGHT_MIN: i32 = 40;

/// Text pieces may have 4 times as many pixels: packed they take at most a quarter of the bytes,
/// and each piece repeats its palette. But at most 128 Ki, a worker's share.
const LINES_TIMES: u64 = 4;
const LINES_AREA_MAX: u64 = 1 << 17;

/// Splits the rectangles of everything that is encoded pixel by pixel into pieces of about `area`
/// pixels, at least 64 x 16, in the order of rows; possible text is split between its lines.
/// Patterns, solids, shifts, KEEPs and RECALLs stay whole: they take few bytes at any size. Behind
/// each piece of a program's frame are the exact pixels of that piece.
pub fn split_pieces(planned: &mut Vec<Planned>, snapshot: &Snapshot, area: u64) {
    let is_large = |rect: &Rect| rect.area() > area.saturating_add(area / 2);
    if !planned.iter().any(|planned| rect_of(planned).is_some_and(is_large)) {
        return;
    }
    let mut whole = std::mem::take(planned).into_iter().peekable();
    let mut exact = Vec::new();
    while let Some(one) = whole.next() {
        match rect_of(&one).copied().filter(is_large) {
            Some(rect)
                if matches!(
                    one,
                    Planned::Pixels { content: Content::Unknown | Content::Text, .. }
                ) =>
            {
                planned.extend(lines(rect, snapshot, area).map(|piece| with_rect(&one, piece)));
            }
            Some(frame) if matches!(one, Planned::Frame { .. }) => {
                let over = |next: &Planned| match *next {
                    Planned::Pixels { rect, .. } if frame.contains(&rect) => Some(rect),
                    _ => None,
                };
                exact.clear();
                while let Some(next) = whole.next_if(|next| over(next).is_some()) {
                    exact.extend(over(&next).map(|rect| (rect, next)));
                }
                for piece in pieces(frame, area) {
                    planned.push(Planned::Frame { rect: piece });
                    // They are in the order of rows.
                    let first = exact.partition_point(|(rect, _)| rect.y2 <= piece.y1);
                    let near = exact[first..].iter().take_while(|(rect, _)| rect.y1 < piece.y2);
                    let parts = near.map(|(rect, over)| (rect.intersect(&piece), over));
                    let parts = parts.filter(|(rect, _)| !rect.is_empty());
                    planned.extend(parts.map(|(rect, over)| with_rect(over, rect)));
                }
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
        | Planned::Photo { rect }
        | Planned::Frame { rect } => Some(rect),
        _ => None,
    }
}

fn with_rect(planned: &Planned, rect: Rect) -> Planned {
    match *planned {
        Planned::TwoColor { fg, bg, .. } => Planned::TwoColor { rect, fg, bg },
        Planned::Coverage { fg, bg, .. } => Planned::Coverage { rect, fg, bg },
        Planned::Pixels { content, .. } => Planned::Pixels { rect, content },
        Planned::Photo { .. } => Planned::Photo { rect },
        Planned::Frame { .. } => Planned::Frame { rect },
        _ => unreachable!("only planned items with one rectangle are split"),
    }
}

/// Pieces of a rectangle, nearly square, so that most neighbours of a pixel are in its own piece.
fn pieces(rect: Rect, area: u64) -> impl Iterator<Item = Rect> {
    let steps = |length: u64| (length.min(1 << 14) as i32 / STEP).max(1) * STEP;
    let width = steps(area.isqrt()).max(WIDTH_MIN).min(rect.width());
    let height = steps(area / width as u64);
    let tops = (rect.y1..rect.y2).step_by(height as usize);
    tops.flat_map(move |y1| {
        let lefts = (rect.x1..rect.x2).step_by(width as usize);
        lefts.map(move |x1| Rect {
            x1,
            y1,
            x2: rect.x2.min(x1 + width),
            y2: rect.y2.min(y1 + height),
        })
    })
}

/// Pieces of possible text: full width if that leaves a few lines, split at a gap if one is near.
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

/// The row nearest to `y`, and at most `reach` away, that has one colour or equals the row above;
/// otherwise `y`.
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
        let snapshot =
            snapshot_of(rect, |x, y| if x < 9 || is_gap(y) { 0x123456 } else { ink(x, y) });
        for area in [8_000, 15_000, 100_000] {
            let mut planned = vec![Planned::Pixels { rect, content: Content::Unknown }];
            split_pieces(&mut planned, &snapshot, area);
            let rects: Vec<Rect> = planned.iter().filter_map(rect_of).copied().collect();
            assert!(
                rects.len() as u64 >= rect.area() / (area * 2 * LINES_TIMES),
                "{} pieces of {area}",
                rects.len()
            );
            assert!(rects.iter().all(|piece| piece.y1 == rect.y1 || is_gap(piece.y1)), "{rects:?}");
            assert!(rects.iter().all(|piece| piece.width() > 600), "{rects:?}");
            assert_eq!(rects.into_iter().collect::<Region>(), Region::from(rect));
        }
    }

    #[test]
    fn small_rectangles_and_cheap_kinds_stay_whole() {
        let rect = Rect::new(3, 5, 403, 305);
        let whole = vec![
            Planned::Solid { region: Region::from(rect), color: 7 },
            Planned::Pattern { rect, tile_width: 8, tile_height: 8 },
            Planned::Photo { rect: Rect::new(0, 0, 60, 40) },
            Planned::Keep { rect, slot: 3 },
        ];
        let mut planned = whole.clone();
        split_pieces(&mut planned, &Snapshot::new(), 2000);
        assert_eq!(planned, whole);
    }

    #[test]
    fn pieces_replace_their_rectangle_in_order() {
        let (rect, small) = (Rect::new(0, 0, 128, 32), Rect::new(200, 0, 210, 10));
        let mut planned = vec![
            Planned::TwoColor { rect, fg: 1, bg: 2 },
            Planned::Pixels { rect: small, content: Content::Image },
        ];
        split_pieces(&mut planned, &Snapshot::new(), 1024);
        let piece = |x, y| Planned::TwoColor { rect: Rect::at(x, y, 64, 16), fg: 1, bg: 2 };
        let last = Planned::Pixels { rect: small, content: Content::Image };
        assert_eq!(planned, [piece(0, 0), piece(64, 0), piece(0, 16), piece(64, 16), last]);
    }

    #[test]
    fn what_is_exact_in_a_frame_is_behind_its_piece() {
        let content = Content::Video;
        let pixels = |rect| Planned::Pixels { rect, content };
        let frame = |rect| Planned::Frame { rect };
        let beside = Rect::at(200, 0, 16, 16);
        let mut planned = vec![
            frame(Rect::at(0, 0, 128, 32)),
            pixels(Rect::at(48, 0, 32, 16)),
            pixels(Rect::at(112, 16, 16, 16)),
            frame(beside),
            pixels(beside),
        ];
        split_pieces(&mut planned, &Snapshot::new(), 1024);
        let wanted = [
            frame(Rect::at(0, 0, 64, 16)),
            pixels(Rect::at(48, 0, 16, 16)),
            frame(Rect::at(64, 0, 64, 16)),
            pixels(Rect::at(64, 0, 16, 16)),
            frame(Rect::at(0, 16, 64, 16)),
            frame(Rect::at(64, 16, 64, 16)),
            pixels(Rect::at(112, 16, 16, 16)),
            frame(beside),
            pixels(beside),
        ];
        assert_eq!(planned, wanted);
    }

    proptest! {
        #[test]
        fn pieces_cover_the_rectangle_once_and_are_bounded(
            (x, y, width, height) in (0..50_i32, 0..50_i32, 1..2000_i32, 1..900_i32),
            area in 1..3_000_000_u64,
            is_photo in any::<bool>(),
            rows in 1..60_i32,
        ) {
            let rect = Rect::at(x, y, width, height);
            let text = Planned::Pixels { rect, content: Content::Text };
            let mut planned = vec![if is_photo { Planned::Photo { rect } } else { text }];
            // Gaps as between lines of text.
            let pixel =
                |x: i32, y: i32| if y % rows == 0 { 7 } else { (x * 31 + y * 17) as u32 };
            let snapshot = snapshot_of(rect, pixel);
            split_pieces(&mut planned, &snapshot, area);
            let mut all = Region::new();
            let mut sum = 0;
            for planned in &planned {
                let piece = rect_of(planned).unwrap();
                prop_assert!(!piece.is_empty());
                // Gaps move a split by up to half a piece, also that of the smallest piece.
                let most = if is_photo { area } else { area * LINES_TIMES };
                let most = most.max(64 * 16);
                prop_assert!(piece.area() <= most + most / 2, "{:?} of {} pixels", piece, area);
                // JPEG's blocks begin at each piece's corner: only those at the right and bottom of
                // the rectangle are partial.
                prop_assert!(!is_photo || (piece.x1 - x) % STEP == 0 && (piece.y1 - y) % STEP == 0);
                sum += piece.area();
                all.add_rect(*piece);
            }
            prop_assert_eq!(all, Region::from(rect));
            prop_assert_eq!(sum, rect.area());
        }
    }
}
