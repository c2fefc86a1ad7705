//! In the session, beside sender.rs: how a viewer's sound is coded, by the rate of its path.
//! Knows rates; never why they changed.

use thinc_protocol::Micros;
use thinc_protocol::sound::{SoundCodec, SoundWant};

/// How sound is coded. Viewers of the same quality share an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Quality {
    /// Plain samples instead of Opus.
    pub plain: bool,
    /// Samples of a frame for each channel.
    pub frame: u16,
    /// Bits a second; 0 for plain samples.
    pub bitrate: u32,
    /// 1 or 2.
    pub channels: u8,
}

impl Quality {
    /// Its codec.
    pub fn codec(&self) -> SoundCodec {
        if self.plain { SoundCodec::S16 } else { SoundCodec::Opus }
    }
}

/// What is known of a path's rate, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRate {
    /// Nothing.
    Unknown,
    /// It was never full.
    AtLeast(u64),
    /// This.
    Measured(u64),
}

/// How the path carries sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// In datagrams: a lost one delays nothing, and a repeat restores it.
    Datagrams,
    /// On the stream: few packets, since each costs as much as its head.
    Stream,
}

/// 25 kB a second are 200 kbit/s.
const fn mbit(tenths: u64) -> u64 {
    tenths * 12_500
}

/// Least rate for each quality, the best first: with its repeat and the heads of QUIC and IP it
/// takes 1.6 % of 20 Mbit/s, 8 % of 3, and 16 % of 1 (9 % without repeat); beneath, speech is
/// understood at any rate that shows a desktop.
const LADDER: [(u64, u16, u32, u8); 5] = [
    (mbit(200), 480, 128_000, 2),
    (mbit(30), 480, 96_000, 2),
    (mbit(10), 960, 64_000, 2),
    (mbit(3), 960, 32_000, 2),
    (0, 960, 24_000, 1),
];
/// The step before anything is known of a path.
const UNKNOWN: usize = 1;
/// Plain samples of 5 ms take 1.6 Mbit/s: an eighth of the path at most.
const PLAIN_RATE_MIN: u64 = mbit(200);
/// A better step needs so much more than its rate, or a path at an edge would change all the time.
const UP_PERCENT: u64 = 125;
/// Least time between two steps upwards, in microseconds.
const UP_INTERVAL: Micros = 5_000_000;

/// Chooses the quality of one viewer's sound.
#[derive(Debug)]
pub struct QualityChoice {
    step: usize,
    changed_at: Option<Micros>,
}

impl Default for QualityChoice {
    fn default() -> QualityChoice {
        QualityChoice { step: UNKNOWN, changed_at: None }
    }
}

impl QualityChoice {
    /// The quality now; None if the viewer wants none that there is.
    pub fn choose(
        &mut self,
        want: &SoundWant,
        rate: PathRate,
        carriage: Carriage,
        now: Micros,
    ) -> Option<Quality> {
        self.follow(rate, now);
        let (has_opus, has_plain) =
            (want.codecs & SoundCodec::Opus.bit() != 0, want.codecs & SoundCodec::S16.bit() != 0);
        if want.muted || !has_opus && !has_plain {
            return None;
        }
        // Who takes plain samples gets them, unless the path is too slow for them.
        let fits = !matches!(rate, PathRate::Measured(rate) if rate < PLAIN_RATE_MIN);
        if has_plain && fits {
            return Some(Quality { plain: true, frame: 240, bitrate: 0, channels: 2 });
        }
        if !has_opus {
            return None;
        }
        let (_, frame, bitrate, channels) = LADDER[self.step];
        let frame = match carriage {
            Carriage::Datagrams => frame,
            Carriage::Stream => 960,
        };
        let most = match want.bitrate_max {
            0 => 192_000,
            wanted => wanted.clamp(16_000, 192_000),
        };
        // More than the first step only if it is asked for.
        let bitrate = if self.step == 0 && want.bitrate_max > bitrate { most } else { bitrate };
        let frame = frame.max(want.frame_min.min(960));
        let frame = if frame <= 480 { 480 } else { 960 };
        Some(Quality { plain: false, frame, bitrate: bitrate.min(most), channels })
    }

    fn follow(&mut self, rate: PathRate, now: Micros) {
        let (rate, is_known) = match rate {
            PathRate::Unknown => return,
            PathRate::AtLeast(rate) => (rate, false),
            PathRate::Measured(rate) => (rate, true),
        };
        let step = |percent: u64| {
            let fits = |&(least, ..): &(u64, u16, u32, u8)| rate >= least * percent / 100;
            LADDER.iter().position(fits).unwrap_or(LADDER.len() - 1)
        };
        let (up, down) = (step(UP_PERCENT), step(100));
        if down > self.step && is_known {
            (self.step, self.changed_at) = (down, Some(now));
        } else if up < self.step && self.changed_at.is_none_or(|at| now >= at + UP_INTERVAL) {
            (self.step, self.changed_at) = (up, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANT: SoundWant = SoundWant { codecs: 2, frame_min: 0, bitrate_max: 0, muted: false };

    fn choose(choice: &mut QualityChoice, mbits: u64, now: Micros) -> (u16, u32, u8) {
        let rate = PathRate::Measured(mbits * 125_000);
        let quality = choice.choose(&WANT, rate, Carriage::Datagrams, now).unwrap();
        (quality.frame, quality.bitrate, quality.channels)
    }

    #[test]
    fn a_slower_path_gets_less_at_once_and_a_faster_one_more_later() {
        let mut choice = QualityChoice::default();
        assert_eq!(choose(&mut choice, 100, 0), (480, 128_000, 2));
        assert_eq!(choose(&mut choice, 2, 1), (960, 64_000, 2));
        assert_eq!(choose(&mut choice, 100, 2), (960, 64_000, 2));
        assert_eq!(choose(&mut choice, 100, UP_INTERVAL + 1), (480, 128_000, 2));
        assert_eq!(choose(&mut choice, 0, UP_INTERVAL + 2), (960, 24_000, 1));
    }

    #[test]
    fn a_rate_at_an_edge_does_not_alternate() {
        let mut choice = QualityChoice::default();
        let mut changes = 0;
        let mut last = choose(&mut choice, 3, 0);
        for n in 1..200 {
            let next = choose(&mut choice, 2 + n % 2, n * 1_000_000);
            changes += u32::from(next != last);
            last = next;
        }
        assert_eq!(changes, 1);
    }

    #[test]
    fn a_path_that_was_never_full_is_not_called_slow() {
        let mut choice = QualityChoice::default();
        let rate = PathRate::AtLeast(1000);
        let quality = choice.choose(&WANT, rate, Carriage::Datagrams, 0).unwrap();
        assert_eq!((quality.frame, quality.bitrate), (480, 96_000));
        let quality = choice.choose(&WANT, rate, Carriage::Stream, 0).unwrap();
        assert_eq!(quality.frame, 960);
    }

    #[test]
    fn plain_samples_are_for_fast_paths() {
        let mut choice = QualityChoice::default();
        let mut choose = |codecs: u32, mbits: u64| {
            let rate = PathRate::Measured(mbits * 125_000);
            let want = SoundWant { codecs, ..WANT };
            choice.choose(&want, rate, Carriage::Datagrams, 0).map(|quality| quality.plain)
        };
        assert_eq!(choose(3, 100), Some(true));
        assert_eq!(choose(3, 10), Some(false));
        assert_eq!(choose(1, 10), None);
        assert_eq!(choose(2, 100), Some(false));
    }

    #[test]
    fn nothing_is_sent_that_is_not_wanted() {
        let mut choice = QualityChoice::default();
        let mut choose =
            |want: SoundWant| choice.choose(&want, PathRate::Unknown, Carriage::Datagrams, 0);
        assert_eq!(choose(SoundWant { muted: true, ..WANT }), None);
        assert_eq!(choose(SoundWant { codecs: 4, ..WANT }), None);
        let plain = choose(SoundWant { codecs: 1, ..WANT });
        assert_eq!(plain.map(|quality| quality.plain), Some(true));
        let low = choose(SoundWant { bitrate_max: 40_000, ..WANT }).unwrap();
        assert_eq!(low.bitrate, 40_000);
    }
}
