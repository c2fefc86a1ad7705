//! Path 12/13, beside the pixels: whether a user wants the session's night colours and gamma, and
//! what they make of a colour.
//! From the command line, to the hello; and for the headless viewer, which shows nothing. Knows
//! tables; never windows.

use thinc_protocol::gamma::GammaArea;
use thinc_protocol::viewer::ViewerCaps;

/// Whether night colours and gamma of the session are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GammaChoice {
    /// As the session wants it.
    #[default]
    Session,
    /// The user's own screen does it: twice would be too much.
    Off,
}

impl GammaChoice {
    /// As the hello says it: a session sends tables only to a viewer that shows them.
    pub(crate) fn caps(self) -> u32 {
        match self {
            GammaChoice::Session => ViewerCaps::GAMMA,
            GammaChoice::Off => 0,
        }
    }
}

/// What this colour, 0xRRGGBB, is shown as at a pixel of the session's screen.
pub(crate) fn shown_as(areas: &[GammaArea], (x, y): (i32, i32), color: u32) -> u32 {
    let area = areas.iter().find(|area| area.rect.contains_point(x, y));
    area.map_or(color, |area| area.table.apply(color))
}

#[cfg(test)]
mod tests {
    use thinc_protocol::gamma::GammaTable;
    use thinc_region::Rect;

    use super::*;

    #[test]
    fn the_first_table_at_a_place_counts_and_without_one_colours_are_as_they_are() {
        let area =
            |rect, level| GammaArea { rect, table: GammaTable { channels: [[level; 256]; 3] } };
        let areas = [area(Rect::at(0, 0, 150, 200), 1), area(Rect::at(100, 0, 300, 200), 2)];
        let of = |x, y| shown_as(&areas, (x, y), 0x12_3456);
        assert_eq!((of(149, 199), of(150, 0)), (0x01_0101, 0x02_0202));
        assert_eq!(of(0, 250), 0x12_3456);
    }
}
