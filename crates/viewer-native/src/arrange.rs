//! Path back: from the viewer's windows or monitors, to monitors of the session in the same layout
//! (`DISPLAYS`).
//! Knows sizes and places; never SDL or the connection.

use thinc_protocol::viewer::Display;
use thinc_region::{Rect, Size};

/// Windows as monitors side by side, from left to right; windows without a size (minimised) are
/// left out.
pub(crate) fn in_a_row(windows: &[Size]) -> Vec<Display> {
    let mut x = 0;
    let sized = windows.iter().filter(|window| window.area() > 0);
    sized
        .map(|window| {
            let rect = window.rect().translate(x, 0);
            x = rect.x2;
            display(rect)
        })
        .collect()
}

/// The local monitors, the primary one first: for each its rectangle on the desktop, whose units
/// may be larger than pixels, and its window's size in pixels.
///
/// If both agree, the session's monitors have the same positions. Otherwise each is as close to the
/// origin as the monitors to its left and above it permit.
pub(crate) fn as_monitors(monitors: &[(Rect, Size)]) -> Vec<Display> {
    let sized = |(bounds, pixels): &(Rect, Size)| !bounds.is_empty() && pixels.area() > 0;
    let monitors: Vec<(Rect, Size)> = monitors.iter().copied().filter(sized).collect();
    let edges = |size: &Size| (size.width as i32, size.height as i32);
    let agree =
        monitors.iter().all(|(bounds, pixels)| (bounds.width(), bounds.height()) == edges(pixels));
    if agree {
        let least = |edge: fn(&Rect) -> i32| {
            monitors.iter().map(|(bounds, _)| edge(bounds)).min().unwrap_or(0)
        };
        let (x, y) = (least(|bounds| bounds.x1), least(|bounds| bounds.y1));
        return monitors.iter().map(|(bounds, _)| display(bounds.translate(-x, -y))).collect();
    }
    let spans =
        |low: fn(&Rect) -> i32, high: fn(&Rect) -> i32, length: fn(&Size) -> i32| -> Vec<i32> {
            starts(
                &monitors
                    .iter()
                    .map(|(bounds, pixels)| (low(bounds), high(bounds), length(pixels)))
                    .collect::<Vec<_>>(),
            )
        };
    let across = spans(|bounds| bounds.x1, |bounds| bounds.x2, |pixels| pixels.width as i32);
    let down = spans(|bounds| bounds.y1, |bounds| bounds.y2, |pixels| pixels.height as i32);
    let places = across.into_iter().zip(down);
    monitors
        .iter()
        .zip(places)
        .map(|((_, pixels), (x, y))| display(pixels.rect().translate(x, y)))
        .collect()
}

/// Start positions of spans with new lengths on one axis: each starts behind all spans that ended
/// before it started.
fn starts(spans: &[(i32, i32, i32)]) -> Vec<i32> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&index| spans[index].0);
    let mut starts = vec![0; spans.len()];
    for (done, &index) in order.iter().enumerate() {
        let before = order[..done].iter().filter(|&&other| spans[other].1 <= spans[index].0);
        starts[index] = before.map(|&other| starts[other] + spans[other].2).max().unwrap_or(0);
    }
    starts
}

fn display(rect: Rect) -> Display {
    Display { rect, millimetres: Size::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    fn rects(displays: &[Display]) -> Vec<Rect> {
        displays.iter().map(|display| display.rect).collect()
    }

    #[test]
    fn windows_are_side_by_side() {
        let row = in_a_row(&[size(800, 600), size(0, 0), size(500, 700), size(10, 10)]);
        assert_eq!(
            rects(&row),
            [Rect::at(0, 0, 800, 600), Rect::at(800, 0, 500, 700), Rect::at(1300, 0, 10, 10)]
        );
        assert!(in_a_row(&[]).is_empty());
    }

    #[test]
    fn monitors_keep_their_places() {
        // The primary one has one at its left, which reaches higher.
        let (primary, left) = (Rect::at(0, 0, 1920, 1080), Rect::at(-1200, -400, 1200, 1920));
        let displays = as_monitors(&[(primary, size(1920, 1080)), (left, size(1200, 1920))]);
        assert_eq!(rects(&displays), [Rect::at(1200, 400, 1920, 1080), Rect::at(0, 0, 1200, 1920)]);
        assert_eq!(as_monitors(&[(primary, size(0, 0))]), []);
    }

    #[test]
    fn monitors_at_other_scales_neither_overlap_nor_leave_gaps() {
        // At 200 % and 100 %, one above the other and one at their right.
        let monitors = [
            (Rect::at(0, 0, 1280, 720), size(2560, 1440)),
            (Rect::at(0, 720, 1920, 1080), size(1920, 1080)),
            (Rect::at(1920, 0, 1000, 500), size(1000, 500)),
        ];
        let wanted = [
            Rect::at(0, 0, 2560, 1440),
            Rect::at(0, 1440, 1920, 1080),
            Rect::at(2560, 0, 1000, 500),
        ];
        assert_eq!(rects(&as_monitors(&monitors)), wanted);
    }
}
