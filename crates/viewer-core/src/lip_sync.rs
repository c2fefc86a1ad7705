//! Path back, beside the pixels: from video.rs's frames that were presented, and what the player
//! hears, to the lag in a SOUND STATE.
//! How much later sound is heard than the picture of the same moment is seen. Both are delays after
//! their times on the session's one clock, measured by the viewer's own: half a round trip and the
//! clocks' offset cancel. Knows times; never pixels or samples.

use std::collections::VecDeque;

use thinc_protocol::Micros;

/// Newest frames and reports whose median counts: half a second of video at 60 Hz, and 5 s of
/// reports. Single ones are off by a frame, or by what an audio device pulls at once.
const PICTURES: usize = 32;
const SOUNDS: usize = 5;
/// 3 s: a video without a newer frame is not shown any more, and what was heard before such a
/// pause tells nothing of now.
const AGE_MAX: Micros = 3_000_000;
/// A lag beyond 10 s is none: one of the clocks was set.
const LAG_MAX: i64 = 10_000_000;
/// 150 ms: sound is made later by so much at most, for pictures that are seen later.
const EXTRA_MAX: i64 = 150_000;
/// An error below 15 ms is not seen.
const ERROR_MIN: i64 = 15_000;
/// Sound is stretched by 2 % until it is so much later, then it takes a while to be measured.
const STRETCH_TIMES: u64 = 50;
const MEASURE: Micros = SOUNDS as Micros * 1_000_000;

/// The newest delays, and when the last one was measured.
#[derive(Debug, Default)]
struct Delays {
    newest: VecDeque<i64>,
    at: Micros,
}

impl Delays {
    fn add(&mut self, time: Micros, now: Micros, most: usize) {
        if now.saturating_sub(self.at) > AGE_MAX {
            self.newest.clear();
        }
        self.at = now;
        if self.newest.len() == most {
            self.newest.pop_front();
        }
        self.newest.push_back(now.wrapping_sub(time) as i64);
    }

    fn median(&self, now: Micros) -> Option<i64> {
        if now.saturating_sub(self.at) > AGE_MAX {
            return None;
        }
        let mut sorted: Vec<i64> = self.newest.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

/// Measures one connection.
#[derive(Debug, Default)]
pub(crate) struct LipSync {
    pictures: Delays,
    sounds: Delays,
    /// How much later sound is made.
    extra: i64,
    /// When a change of it is heard, and measured.
    settled_at: Micros,
}

impl LipSync {
    /// A video's frame of this time is on the screen.
    pub(crate) fn handle_presented(&mut self, time: Micros, now: Micros) {
        self.pictures.add(time, now, PICTURES);
    }

    /// The sample of this time is at the ear; 0: none is. Returns by how much sound is later, in
    /// microseconds, if that is known: only while a video is shown.
    pub(crate) fn handle_heard(&mut self, heard: Micros, now: Micros) -> Option<i32> {
        if heard == 0 {
            return None;
        }
        self.sounds.add(heard, now, SOUNDS);
        let seen = self.pictures.median(now);
        let lag = seen
            .zip(self.sounds.median(now))
            .map(|(seen, heard)| heard.saturating_sub(seen))
            .filter(|lag| lag.abs() <= LAG_MAX);
        self.follow(lag, seen.is_some(), now);
        lag.map(|lag| lag as i32)
    }

    /// Sound that is heard too early is made later; never for games and clicks, which no video
    /// stream shows.
    fn follow(&mut self, lag: Option<i64>, has_video: bool, now: Micros) {
        let wanted = match lag {
            Some(lag) => (self.extra - lag).clamp(0, EXTRA_MAX),
            None if has_video => self.extra,
            None => 0,
        };
        let change = (wanted - self.extra).unsigned_abs();
        let is_seen = change >= ERROR_MIN as u64 || wanted == 0 && change > 0 && !has_video;
        if is_seen && now >= self.settled_at {
            self.extra = wanted;
            self.settled_at = now + change * STRETCH_TIMES + MEASURE;
        }
    }

    /// How much later sound is to be made.
    pub(crate) fn extra(&self) -> Micros {
        self.extra.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half an hour after the session's clock.
    const OFFSET: Micros = 1_800_000_000;

    /// A second in which pictures are seen and sound is heard so late.
    fn second(sync: &mut LipSync, second: u64, seen: u64, heard: u64) -> Option<i32> {
        let start = 1_000_000 * second;
        for frame in 0..25 {
            let time = start + frame * 40_000;
            // Every fourth waits for the display.
            let late = if frame % 4 == 0 { 16_000 } else { 0 };
            sync.handle_presented(time, time + seen + late + OFFSET);
        }
        let now = start + 1_000_000 + OFFSET;
        sync.handle_heard(now - OFFSET - heard, now)
    }

    #[test]
    fn the_offset_of_the_clocks_and_the_path_cancel() {
        for path in [1_000, 200_000] {
            let mut sync = LipSync::default();
            for n in 1..10 {
                assert_eq!(second(&mut sync, n, path + 5_000, path + 60_000), Some(55_000));
            }
            // One report that was off by a device's buffer does not count.
            assert_eq!(second(&mut sync, 10, path + 5_000, path + 90_000), Some(55_000));
            assert_eq!(sync.extra(), 0);
        }
    }

    #[test]
    fn nothing_is_known_without_a_picture_or_a_sound() {
        let mut sync = LipSync::default();
        assert_eq!(sync.handle_heard(5_000_000, 6_000_000), None);
        assert_eq!(sync.handle_heard(0, 7_000_000), None);
        assert_eq!(second(&mut sync, 10, 5_000, 60_000), Some(55_000));
        // The video has ended.
        let now = OFFSET + 20_000_000;
        assert_eq!(sync.handle_heard(now - OFFSET - 60_000, now), None);
        // A clock was set.
        let mut sync = LipSync::default();
        sync.handle_presented(1_000_000, 1_000_000);
        assert_eq!(sync.handle_heard(50_000_000, 2_000_000), None);
    }

    #[test]
    fn sound_that_is_early_is_made_later_and_only_while_a_video_is_shown() {
        let mut sync = LipSync::default();
        // 100 ms too early, and 2 % slower once that is asked for.
        let (mut applied, mut extras) = (0, Vec::new());
        for n in 1..60 {
            second(&mut sync, n, 200_000, 100_000 + applied);
            applied = (applied + 20_000).min(sync.extra());
            extras.push(sync.extra());
        }
        assert!(extras.iter().all(|&extra| extra == 100_000), "{extras:?}");
        // Two seconds more than it may be.
        let mut sync = LipSync::default();
        second(&mut sync, 1, 3_000_000, 1_000_000);
        assert_eq!(sync.extra(), 150_000);
        let (start, mut ended) = (OFFSET + 10_000_000, None);
        for n in 0..30 {
            let now = start + n * 1_000_000;
            sync.handle_heard(now - OFFSET - 1_000_000, now);
            ended = ended.or((sync.extra() == 0).then_some(n));
        }
        assert!(ended.is_some_and(|n| n < 10), "{ended:?}");
    }
}
