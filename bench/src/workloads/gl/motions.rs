//! Motions of the pointer and the frames that answer them. A frame's number holds the column of the
//! motion that it was drawn for, so that each is matched, also where viewers drop motions and
//! programs answer several by one frame. Pure; knows columns and times, never a screen.

use std::time::Instant;

use crate::apps::gl::motion_of;

/// Columns before one comes again: at 60 motions a second, an answer may be three seconds late.
pub(super) const COLUMNS: u32 = 200;
/// Free on both sides of the window, pixels: viewers have menus at edges.
const MARGIN: u32 = 40;

/// The column of the motion of this index in a window of this width; no two of [`COLUMNS`] that
/// follow each other are alike.
pub(super) fn column(index: u32, width: u32) -> u32 {
    let step = (width.saturating_sub(2 * MARGIN) / COLUMNS).max(1);
    MARGIN + index % COLUMNS * step
}

/// How late each motion was seen.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answers {
    /// From each motion to the first frame that was drawn for it or for a later one, ms, in the
    /// order of motions.
    pub(super) late_ms: Vec<f64>,
    /// Motions after the last that was answered.
    pub(super) lost: usize,
}

/// Matches motions (when, and to which column) with frames (when seen, and their number), both in
/// the order of time.
pub(super) fn answers(motions: &[(Instant, u32)], seen: &[(Instant, u32)]) -> Answers {
    let mut late_ms = Vec::new();
    for &(at, number) in seen {
        let (_, column) = motion_of(number);
        // Only motions before the frame; of several to one column the newest.
        let before = motions.partition_point(|motion| motion.0 <= at);
        let open = late_ms.len();
        let Some(index) = (open..before).rev().find(|&index| motions[index].1 == column) else {
            continue;
        };
        late_ms.extend(
            motions[open..=index]
                .iter()
                .map(|motion| at.duration_since(motion.0).as_secs_f64() * 1e3),
        );
    }
    Answers { lost: motions.len() - late_ms.len(), late_ms }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::apps::gl::motion_number;

    /// Motions each 16 ms to the columns of a window of the study, and frames at these
    /// milliseconds, each for the motion of this index.
    fn matched(motions: u32, frames: &[(u64, u32)]) -> Answers {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let motions: Vec<(Instant, u32)> =
            (0..motions).map(|i| (at(u64::from(i) * 16), column(i, 1240))).collect();
        let seen: Vec<(Instant, u32)> = (1..)
            .zip(frames)
            .map(|(number, &(ms, index))| (at(ms), motion_number(number, column(index, 1240))))
            .collect();
        answers(&motions, &seen)
    }

    #[test]
    fn each_motion_is_answered_by_its_frame() {
        let found = matched(3, &[(10, 0), (30, 1), (52, 2)]);
        assert_eq!(found, Answers { late_ms: vec![10.0, 14.0, 20.0], lost: 0 });
    }

    #[test]
    fn a_frame_for_a_later_motion_answers_those_that_were_skipped() {
        // Motions at 0, 16, 32 and 48; the frame for the third is the first that is seen.
        let found = matched(4, &[(40, 2)]);
        assert_eq!(found, Answers { late_ms: vec![40.0, 24.0, 8.0], lost: 1 });
    }

    #[test]
    fn frames_that_are_late_torn_or_older_answer_nothing_twice() {
        // The first frame is of an earlier motion of the same program, the third comes again.
        let found = matched(2, &[(1, 150), (12, 0), (14, 0), (20, 1), (40, 0)]);
        assert_eq!(found, Answers { late_ms: vec![12.0, 4.0], lost: 0 });
        assert_eq!(matched(3, &[]), Answers { late_ms: vec![], lost: 3 });
        // A frame cannot answer what has not happened.
        assert_eq!(matched(2, &[(5, 1)]), Answers { late_ms: vec![], lost: 2 });
    }

    #[test]
    fn a_column_that_comes_again_answers_the_newest_motion() {
        // Motion 0 and motion COLUMNS go to one column; the second is seen 12 ms later.
        let second = u64::from(COLUMNS) * 16;
        let found = matched(COLUMNS + 1, &[(8, 0), (second - 8, COLUMNS - 1), (second + 12, 0)]);
        assert_eq!(found.lost, 0);
        assert_eq!(found.late_ms.first(), Some(&8.0));
        assert_eq!(found.late_ms.last(), Some(&12.0));
    }

    #[test]
    fn columns_are_distinct_and_within_every_window() {
        for width in [620, 1024, 1240] {
            let mut all: Vec<u32> = (0..COLUMNS).map(|index| column(index, width)).collect();
            assert_eq!(column(0, width), column(COLUMNS, width));
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), COLUMNS as usize);
            assert!(all[0] >= MARGIN && all[all.len() - 1] + MARGIN <= width, "{width}");
        }
    }
}
