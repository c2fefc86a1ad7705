//! Path 13/13: from the session's gamma tables, to the parts of a window and the cursor that are
//! shown by them.
//! What a presenter looks up for each pixel that it puts on the window; the framebuffer,
//! screenshots and whatever compares pixels never see it. Knows tables and places; never SDL.

use thinc_protocol::gamma::{GammaArea, GammaTable, WHOLE_SCREEN};
use thinc_region::{Rect, Region};

use crate::place::Placement;

/// A part of a window, and what its colours are shown as.
pub(crate) type ShownBy<'a> = (Rect, &'a GammaTable);

/// The parts of a window that shows the screen like this, disjoint; its other pixels are shown as
/// they are.
pub(crate) fn in_window<'a>(areas: &'a [GammaArea], placement: &Placement) -> Vec<ShownBy<'a>> {
    // Most sessions have none, and this is asked for each window that is drawn.
    if areas.is_empty() {
        return Vec::new();
    }
    let mut left = Region::from(placement.visible);
    let mut found = Vec::new();
    for area in areas {
        let rect = placement.cover(&in_framebuffer(&area.rect, placement));
        let parts = left.rects().iter().map(|part| part.intersect(&rect));
        found.extend(parts.filter(|part| !part.is_empty()).map(|part| (part, &area.table)));
        left.subtract_rect(&rect);
    }
    found
}

/// The framebuffer's pixels of this part of the session's screen.
fn in_framebuffer(rect: &Rect, placement: &Placement) -> Rect {
    let (part, picture) = (placement.part, placement.screen);
    let rect = rect.intersect(&part);
    if rect.is_empty() {
        return Rect::default();
    }
    let scaled = |at: i32, length: i32, pixels: u32| {
        (i64::from(at) * i64::from(pixels) / i64::from(length)) as i32
    };
    Rect {
        x1: scaled(rect.x1 - part.x1, part.width(), picture.width),
        y1: scaled(rect.y1 - part.y1, part.height(), picture.height),
        x2: scaled(rect.x2 - part.x1, part.width(), picture.width),
        y2: scaled(rect.y2 - part.y1, part.height(), picture.height),
    }
}

/// What the cursor's colours are shown as from now on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CursorColors<'a> {
    /// As they are.
    Plain,
    /// By this table.
    By(&'a GammaTable),
    /// As before: monitors differ, if only while a program sets one after the other.
    Kept,
}

/// The desktop draws the cursor, on whichever monitor it is, so only a table of all applies.
pub(crate) fn of_cursor(areas: &[GammaArea]) -> CursorColors<'_> {
    match areas.first() {
        None => CursorColors::Plain,
        Some(area) if area.rect == WHOLE_SCREEN => CursorColors::By(&area.table),
        Some(_) => CursorColors::Kept,
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Size;

    use super::*;

    fn area(rect: Rect, level: u8) -> GammaArea {
        GammaArea { rect, table: GammaTable { channels: [[level; 256]; 3] } }
    }

    /// The pixels of each table that has any.
    fn levels(areas: &[GammaArea], placement: &Placement) -> Vec<(Region, u8)> {
        let found = in_window(areas, placement);
        let all: u64 = found.iter().map(|(rect, _)| rect.area()).sum();
        let mut levels: Vec<(Region, u8)> = Vec::new();
        for (rect, table) in found {
            let level = table.channels[0][0];
            match levels.iter_mut().find(|(_, known)| *known == level) {
                Some((region, _)) => region.add_rect(rect),
                None => levels.push((rect.into(), level)),
            }
        }
        assert_eq!(levels.iter().map(|(region, _)| region.area()).sum::<u64>(), all, "disjoint");
        levels
    }

    const SCREEN: Size = Size { width: 400, height: 300 };

    #[test]
    fn a_table_of_the_whole_screen_is_that_of_all_that_is_visible_of_it() {
        let areas = [area(WHOLE_SCREEN, 7)];
        let larger = Placement::new(SCREEN, Size { width: 500, height: 400 });
        assert_eq!(levels(&areas, &larger), [(Rect::at(50, 50, 400, 300).into(), 7)]);
        let smaller = Placement::new(SCREEN, Size { width: 200, height: 170 });
        assert_eq!(levels(&areas, &smaller), [(Rect::at(0, 10, 200, 150).into(), 7)]);
        let second = Rect::at(150, 0, 250, 300);
        let display = Placement::of_display(SCREEN, second, Size { width: 250, height: 300 });
        assert_eq!(levels(&areas, &display), [(Rect::at(0, 0, 250, 300).into(), 7)]);
        assert_eq!(levels(&[], &larger), []);
        assert_eq!(of_cursor(&areas), CursorColors::By(&areas[0].table));
        assert_eq!(of_cursor(&[]), CursorColors::Plain);
    }

    #[test]
    fn each_monitor_has_its_own_table_and_the_first_one_counts() {
        let (left, right) = (Rect::at(0, 0, 150, 200), Rect::at(150, 0, 250, 300));
        let areas = [area(left, 1), area(right, 2)];
        let whole = Placement::new(SCREEN, SCREEN);
        assert_eq!(levels(&areas, &whole), [(left.into(), 1), (right.into(), 2)]);
        // A part of the screen, scaled to half.
        let part = Rect::at(100, 0, 200, 300);
        let half = Size { width: 100, height: 150 };
        let zoomed = Placement::new(half, half).showing(part);
        let expected = [(Rect::at(0, 0, 25, 100).into(), 1), (Rect::at(25, 0, 75, 150).into(), 2)];
        assert_eq!(levels(&areas, &zoomed), expected);
        // Two monitors that show the same pixels.
        let mirrored = [area(left, 1), area(SCREEN.rect(), 2)];
        let mut rest = Region::from(SCREEN.rect());
        rest.subtract_rect(&left);
        assert_eq!(levels(&mirrored, &whole), [(left.into(), 1), (rest, 2)]);
        assert_eq!(of_cursor(&mirrored), CursorColors::Kept, "it is on one or the other");
    }
}
