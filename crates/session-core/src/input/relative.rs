//! Path back: beside session/input.rs, from what X clients do with the pointer and from motions, to
//! `RelativeWanted`.
//! Decides whether an application wants to know how far the user moves the pointer, and not where
//! it is. Knows the driver's facts, distances and times; never viewers or windows.
//!
//! A hidden cursor alone means nothing: programs hide it while the user types. It counts together
//! with what a program does that reads distances: its grab confines the pointer to its window (SDL,
//! GLFW, Wine) or it has selected raw motion; or it puts the pointer back whenever the user has
//! moved it (older games, browsers; with a grab: Blender, QEMU), which keeps it off the screen's
//! edges.

use thinc_protocol::Micros;
use thinc_region::Size;
use thinc_ring::PointerUse;

/// 3: so often a program that does not grab the pointer puts it back before that is a habit.
/// Programs also move it once or twice for other reasons.
const WARPS_MIN: u32 = 3;
/// 1 s: longest time between two of them. A program of this kind puts the pointer back once a
/// frame.
const WARP_INTERVAL_MAX: Micros = 1_000_000;

/// The evidence.
#[derive(Debug, Default)]
pub(crate) struct RelativeWish {
    used: PointerUse,
    /// How often in a row a program put the pointer back after the user had moved it.
    warps: u32,
    warped_at: Micros,
    /// How far the user has moved the pointer since a program last did, in pixels.
    moved: u64,
}

impl RelativeWish {
    pub(crate) fn is_wanted(&self) -> bool {
        let PointerUse { hidden, grabbed, confined, raw } = self.used;
        let min = if grabbed { 1 } else { WARPS_MIN };
        hidden && (grabbed && (confined || raw) || self.warps >= min)
    }

    /// What X clients do now.
    pub(crate) fn handle_use(&mut self, used: PointerUse) {
        if !used.hidden || used.grabbed != self.used.grabbed {
            self.warps = 0;
        }
        self.used = used;
    }

    /// A program has moved the pointer.
    pub(crate) fn handle_warp(&mut self, now: Micros) {
        if std::mem::take(&mut self.moved) == 0 || !self.used.hidden {
            return;
        }
        // A user who pauses changes nothing.
        let goes_on = self.is_wanted() || now <= self.warped_at + WARP_INTERVAL_MAX;
        self.warps = if goes_on { self.warps.saturating_add(1) } else { 1 };
        self.warped_at = now;
    }

    /// The user has moved the pointer so far. From edge to edge and back, and the program left it
    /// there: it does not put it back any more.
    pub(crate) fn handle_motion(&mut self, pixels: u64, screen: Size) {
        self.moved = self.moved.saturating_add(pixels);
        if self.moved > 2 * (u64::from(screen.width) + u64::from(screen.height)) {
            self.warps = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Size = Size { width: 800, height: 600 };
    const SHOWN: PointerUse =
        PointerUse { hidden: false, grabbed: false, confined: false, raw: false };
    const HIDDEN: PointerUse = PointerUse { hidden: true, ..SHOWN };
    const GRABBED: PointerUse = PointerUse { grabbed: true, ..HIDDEN };

    fn after(used: PointerUse) -> RelativeWish {
        let mut wish = RelativeWish::default();
        wish.handle_use(used);
        wish
    }

    #[test]
    fn a_hidden_cursor_a_menu_and_a_dialog_want_nothing() {
        assert!(!after(HIDDEN).is_wanted(), "it is hidden while typing");
        assert!(!after(GRABBED).is_wanted(), "a screen locker");
        let menu = PointerUse { hidden: false, grabbed: true, confined: true, raw: true };
        assert!(!after(menu).is_wanted(), "the cursor is shown");
        let mut dialog = after(HIDDEN);
        // A dialog moves the pointer to its button, and a program does so without the user.
        dialog.handle_motion(5, SCREEN);
        for warp in 0..9 {
            dialog.handle_warp(warp * 10_000);
        }
        assert!(!dialog.is_wanted());
    }

    #[test]
    fn a_game_that_confines_the_pointer_or_reads_raw_motion_wants_it_as_long_as_it_does() {
        for used in [PointerUse { confined: true, ..GRABBED }, PointerUse { raw: true, ..GRABBED }]
        {
            let mut wish = after(used);
            assert!(wish.is_wanted(), "{used:?}");
            wish.handle_motion(1_000_000, SCREEN);
            assert!(wish.is_wanted(), "it need not put the pointer back: {used:?}");
            wish.handle_use(SHOWN);
            assert!(!wish.is_wanted());
        }
    }

    #[test]
    fn a_program_that_puts_the_pointer_back_after_each_motion_wants_it() {
        let mut wish = after(HIDDEN);
        for frame in 1..=3 {
            assert!(!wish.is_wanted(), "frame {frame}");
            wish.handle_motion(7, SCREEN);
            wish.handle_warp(frame * 16_000);
        }
        assert!(wish.is_wanted());
        wish.handle_motion(7, SCREEN);
        wish.handle_warp(60_000_000);
        assert!(wish.is_wanted(), "the user paused for a minute");
        // It shows a menu, in which it draws a cursor of its own.
        wish.handle_motion(2_800, SCREEN);
        assert!(wish.is_wanted());
        wish.handle_motion(1, SCREEN);
        assert!(!wish.is_wanted());
    }

    #[test]
    fn warps_long_after_one_another_are_no_habit_unless_the_program_grabs_the_pointer() {
        let often = |used| {
            let mut wish = after(used);
            for second in 1..=5 {
                wish.handle_motion(7, SCREEN);
                wish.handle_warp(second * 1_500_000);
            }
            wish
        };
        assert!(!often(HIDDEN).is_wanted());
        // Blender puts it back when it leaves the window.
        let mut dragging = often(GRABBED);
        assert!(dragging.is_wanted());
        dragging.handle_use(HIDDEN);
        assert!(!dragging.is_wanted(), "the drag is over");
    }
}
