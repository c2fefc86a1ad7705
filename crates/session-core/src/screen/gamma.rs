//! Path 10/13, beside the pixels: from the shell, which reads the driver's gamma block, through
//! session.rs, to each viewer's messages.
//! What the screen's colours are shown as, and for one viewer whether it knows. Of changes that
//! come while the path is full only the newest is sent. Knows tables; never pixels.

use thinc_protocol::gamma::{GammaArea, WHOLE_SCREEN};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::ViewerCaps;

/// The session's tables now.
#[derive(Debug, Default)]
pub(crate) struct ScreenGamma {
    /// As they are sent; empty if no colour changes.
    areas: Vec<GammaArea>,
    /// How often they have changed.
    changes: u64,
}

impl ScreenGamma {
    /// X has these tables, one for each monitor, or none if no monitor changes a colour.
    pub(crate) fn set(&mut self, monitors: Vec<GammaArea>) {
        let areas = simplified(monitors);
        if areas != self.areas {
            self.areas = areas;
            self.changes += 1;
        }
    }
}

/// One table for all of the screen if the monitors have the same, as night colours do: then its
/// bytes are sent once, and a new size of the screen changes nothing.
fn simplified(mut monitors: Vec<GammaArea>) -> Vec<GammaArea> {
    let is_same = monitors.windows(2).all(|pair| pair[0].table == pair[1].table);
    if is_same {
        monitors.truncate(1);
        monitors.iter_mut().for_each(|monitor| monitor.rect = WHOLE_SCREEN);
    }
    // One that changes nothing hides those behind it, where monitors show the same pixels.
    while monitors.last().is_some_and(|last| last.table.is_identity()) {
        monitors.pop();
    }
    monitors
}

/// What one viewer has been told, if it accepts it.
#[derive(Debug)]
pub(crate) struct GammaNews {
    accepts: bool,
    /// `ScreenGamma::changes` at that time.
    told: u64,
    /// It shows every colour as it is.
    shows_plain: bool,
}

impl GammaNews {
    /// Of a viewer with these capabilities, which was told nothing.
    pub(crate) fn new(caps: u32) -> GammaNews {
        GammaNews { accepts: caps & ViewerCaps::GAMMA != 0, told: 0, shows_plain: true }
    }

    /// Appends the tables if they are news.
    pub(crate) fn transmit(&mut self, gamma: &ScreenGamma, out: &mut Vec<u8>) {
        if !self.accepts || self.told == gamma.changes {
            return;
        }
        self.told = gamma.changes;
        let is_plain = gamma.areas.is_empty();
        if !(is_plain && self.shows_plain) {
            SessionMessage::Gamma(gamma.areas.clone()).encode(out);
        }
        self.shows_plain = is_plain;
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::gamma::GammaTable;
    use thinc_region::Rect;

    use super::*;

    fn monitor(x: i32, level: u8) -> GammaArea {
        let table = match level {
            255 => GammaTable::default(),
            level => GammaTable { channels: [[level; 256]; 3] },
        };
        GammaArea { rect: Rect::at(x, 0, 100, 80), table }
    }

    #[test]
    fn one_table_of_all_monitors_is_the_screens_whatever_its_size() {
        assert_eq!(simplified(Vec::new()), []);
        assert_eq!(simplified(vec![monitor(0, 255), monitor(100, 255)]), []);
        let whole = GammaArea { rect: WHOLE_SCREEN, ..monitor(0, 7) };
        assert_eq!(simplified(vec![monitor(0, 7), monitor(100, 7)]), [whole]);
    }

    #[test]
    fn monitors_with_tables_of_their_own_keep_their_places() {
        assert_eq!(simplified(vec![monitor(0, 7), monitor(100, 255)]), [monitor(0, 7)]);
        let both = [monitor(0, 255), monitor(50, 7)];
        assert_eq!(simplified(both.to_vec()), both, "the first is in front");
    }

    #[test]
    fn a_change_that_changes_nothing_is_no_news() {
        let mut gamma = ScreenGamma::default();
        let mut news = GammaNews::new(ViewerCaps::GAMMA);
        let mut told = |gamma: &ScreenGamma| {
            let mut out = Vec::new();
            news.transmit(gamma, &mut out);
            !out.is_empty()
        };
        assert!(!told(&gamma));
        gamma.set(vec![monitor(0, 7)]);
        gamma.set(Vec::new());
        assert!(!told(&gamma), "nothing had been sent in between");
        gamma.set(vec![monitor(0, 7)]);
        assert!(told(&gamma) && !told(&gamma));
        gamma.set(vec![monitor(9, 7)]);
        assert!(!told(&gamma), "a monitor that moves with the screen's only table");
        gamma.set(vec![monitor(0, 255)]);
        assert!(told(&gamma) && !told(&gamma));
    }
}
