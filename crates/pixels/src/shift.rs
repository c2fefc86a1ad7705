//! Path 8/13: from plan.rs and back.
//! A vertical scroll found by looking: where rows of a snapshot are rows the viewer shows a little higher or lower.
//! Knows rows of pixels; a wrong guess costs bytes, never pixels: after the copy everything is compared again.

use thinc_region::Rect;

use crate::changes::{differ, uniform};
use crate::{RGB, Shadow, Snapshot};

/// A change this large, at least, is worth the search: about a fifth of what encoding it costs.
const HEIGHT_MIN: i32 = 64;
const AREA_MIN: u64 = 128 * 96;
/// 64 pixels: width of the strips that are compared one by one, since a scroll bar beside the text moves otherwise.
const STRIP: i32 = 64;
/// Strips whose rows are hashed, and rows of each that are looked up: enough to find a scroll that most rows share.
const VOTERS: usize = 4;
const BALLOTS: usize = 64;
/// A row seen more often than this, as blank ones are, says nothing about where it came from.
const REPEATS_MAX: usize = 2;
/// Votes that a vector needs.
const VOTES_MIN: u32 = 12;
/// What a row of more than one colour weighs against one of one colour.
const WEIGHT: i8 = 4;
/// What must be won: 64 rows of more than one colour and of 64 pixels, the price of about one line of text.
const GAIN_MIN: i32 = 64 * WEIGHT as i32;

/// Finds scrolls; its working memory is kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Shifts {
    /// Rows that the viewer shows, by hash.
    rows: Vec<(u32, i32)>,
    votes: Vec<u32>,
    /// What copying a row of a strip wins, or loses where it is negative; strip by strip.
    gains: Vec<i8>,
    sums: Vec<i32>,
}

impl Shifts {
    /// Where within `changed` the snapshot shows what the viewer shows `dy` rows further up, and `dy`.
    ///
    /// Source and destination lie in `changed`, and so in the snapshot: the update that carries the copy overlaps every
    /// update that it could depend on.
    pub(crate) fn find(&mut self, changed: &Rect, snapshot: &Snapshot, shadow: &Shadow) -> Option<(Rect, i32)> {
        if changed.height() < HEIGHT_MIN || changed.area() < AREA_MIN {
            return None;
        }
        if !shadow.known.contains_rect(changed) || shadow.inexact.overlaps_rect(changed) {
            return None;
        }
        let dy = self.elect(changed, snapshot, shadow)?;
        self.weigh(changed, dy, snapshot, shadow)
    }

    /// The vector most sampled rows agree on.
    fn elect(&mut self, changed: &Rect, snapshot: &Snapshot, shadow: &Shadow) -> Option<i32> {
        let height = changed.height();
        self.votes.clear();
        self.votes.resize(height as usize * 2, 0);
        let strips = strips(changed);
        let every = strips.clone().count().div_ceil(VOTERS);
        for (x1, x2) in strips.skip(every / 2).step_by(every) {
            self.rows.clear();
            self.rows.extend((changed.y1..changed.y2).filter_map(|y| Some((hash(shadow.row(x1, x2, y))?, y))));
            self.rows.sort_unstable();
            let every = (height as usize).div_ceil(BALLOTS);
            for y in (changed.y1..changed.y2).step_by(every) {
                let Some(new) = hash(snapshot.row(x1, x2, y)) else { continue };
                let first = self.rows.partition_point(|&(old, _)| old < new);
                let same = self.rows[first..].iter().take(REPEATS_MAX + 1).take_while(|&&(old, _)| old == new);
                if same.clone().count() <= REPEATS_MAX {
                    same.for_each(|&(_, old_y)| self.votes[(y - old_y + height) as usize] += 1);
                }
            }
        }
        let (index, &votes) = self.votes.iter().enumerate().max_by_key(|&(_, votes)| votes)?;
        let dy = index as i32 - height;
        (votes >= VOTES_MIN && dy != 0).then_some(dy)
    }

    /// The strips and rows in which the vector wins most.
    fn weigh(&mut self, changed: &Rect, dy: i32, snapshot: &Snapshot, shadow: &Shadow) -> Option<(Rect, i32)> {
        let (y1, y2) = (changed.y1.max(changed.y1 + dy), changed.y2.min(changed.y2 + dy));
        let height = (y2 - y1) as usize;
        self.gains.clear();
        for (x1, x2) in strips(changed) {
            self.gains.extend((y1..y2).map(|y| {
                let new = snapshot.row(x1, x2, y);
                let moved = !differ(new, shadow.row(x1, x2, y - dy));
                let stayed = !differ(new, shadow.row(x1, x2, y));
                match i8::from(moved) - i8::from(stayed) {
                    0 => 0,
                    // A row of one colour is cheap to send again where a copy spoils it.
                    gain if uniform(new, new[0]) => gain,
                    gain => gain * WEIGHT,
                }
            }));
        }
        self.sums.clear();
        self.sums.extend(
            self.gains.chunks_exact(height).map(|strip| strip.iter().map(|&gain| i32::from(gain)).sum::<i32>()),
        );
        let (left, right, _) = best_span(&self.sums);
        self.sums.clear();
        self.sums.extend(
            (0..height).map(|row| (left..right).map(|strip| i32::from(self.gains[strip * height + row])).sum::<i32>()),
        );
        let (top, bottom, gain) = best_span(&self.sums);
        if gain < GAIN_MIN {
            return None;
        }
        let x1 = changed.x1 + left as i32 * STRIP;
        let x2 = changed.x2.min(changed.x1 + right as i32 * STRIP);
        Some((Rect::new(x1, y1 + top as i32, x2, y1 + bottom as i32), dy))
    }
}

/// The stretch with the largest sum, and that sum.
fn best_span(values: &[i32]) -> (usize, usize, i32) {
    let (mut best, mut start, mut sum) = ((0, 0, 0), 0, 0);
    for (i, value) in values.iter().enumerate() {
        if sum <= 0 {
            (start, sum) = (i, 0);
        }
        sum += value;
        if sum > best.2 {
            best = (start, i + 1, sum);
        }
    }
    best
}

fn strips(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + Clone + use<> {
    let (x1, x2) = (rect.x1, rect.x2);
    (x1..x2).step_by(STRIP as usize).map(move |x| (x, x2.min(x + STRIP)))
}

/// A sum of products, so that it runs over several pixels at once; none for a row of one colour, which is everywhere.
fn hash(row: &[u32]) -> Option<u32> {
    if uniform(row, row[0]) {
        return None;
    }
    let factor = |i: usize| (i as u32 * 2 + 1).wrapping_mul(0x9e37_79b1);
    Some(row.iter().enumerate().fold(0u32, |sum, (i, p)| sum.wrapping_add((p & RGB).wrapping_mul(factor(i) | 1))))
}
