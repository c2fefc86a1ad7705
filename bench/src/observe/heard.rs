//! What samples that were heard say of a sound that is known: when its bursts were heard, and where
//! its tone was not whole. From ear.rs, to questions. Knows samples and times; never who plays.

use super::ear::Piece;
use crate::stats;

/// Amplitude of the sounds that apps/sound.rs plays.
pub const AMPLITUDE: f32 = 0.5;
/// A burst begins with the first sample beyond this: half of what it has after a lossy codec.
const ONSET: f32 = 0.12;
/// Bursts are 250 ms apart at least; what is loud again within this is the same burst.
const SAME_BURST_NS: u64 = 80_000_000;
/// Two bursts that follow each other are late by about the same: more than half of their distance
/// would be the next one's.
const CHANGE_NS_MAX: u64 = 120_000_000;
/// Later than this a burst counts as lost.
const LATE_NS_MAX: u64 = 20_000_000_000;
/// Of how many of the first written bursts the first that was heard may be.
const FIRST_LOST_MAX: usize = 5;
/// x(n) - 2 cos w x(n-1) + x(n-2) is 0 for a sine of w at full scale 0.5; more than this is a
/// discontinuity.
const ROUGH: f32 = 0.01;
/// Samples below are silent; a sine passes through them in less than a sample's time.
const SILENT: f32 = 0.001;
/// Shortest silence that counts, ms: a sine of 440 Hz has none.
const SILENCE_MS_MIN: f64 = 1.0;
/// A window is whole if its power is within this of the tone's.
const POWER: std::ops::RangeInclusive<f64> = 0.7..=1.4;
/// Of the tone, in which what is wrong is counted.
const WINDOW_MS: f64 = 5.0;
/// A tone fades in and out where a player or a codec begins and ends.
const EDGE_MS: f64 = 100.0;

/// When bursts began to be heard.
pub fn onsets_ns(pieces: &[Piece]) -> Vec<u64> {
    let mut onsets: Vec<u64> = Vec::new();
    let mut loud_ns: Option<u64> = None;
    for piece in pieces {
        for (index, _) in piece.samples.iter().enumerate().filter(|(_, s)| s.abs() > ONSET) {
            let at = piece.time_ns(index);
            if loud_ns.is_none_or(|last| at > last + SAME_BURST_NS) {
                onsets.push(at);
            }
            loud_ns = Some(loud_ns.map_or(at, |last| last.max(at)));
        }
    }
    onsets
}

/// Bursts that were written, and what was heard of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bursts {
    /// From write to ear of each that was heard, ms, in the order in which they were written.
    pub late_ms: Vec<f64>,
    /// Written and not heard.
    pub lost: usize,
    /// Heard and not written: twice, or broken in two.
    pub extra: usize,
}

impl Bursts {
    /// Assigns what was heard to what was written, both in order. The distances between bursts are
    /// irregular, so that one assignment fits best however late all of them are.
    pub fn new(written_ns: &[u64], heard_ns: &[u64]) -> Bursts {
        let firsts = written_ns.iter().take(FIRST_LOST_MAX).flat_map(|&written| {
            heard_ns.iter().filter_map(move |&heard| heard.checked_sub(written))
        });
        let walks =
            firsts.filter(|&late| late <= LATE_NS_MAX).map(|late| walk(written_ns, heard_ns, late));
        // The most that fit; among those, the ones whose delay changes least.
        let best = walks.max_by_key(|late| {
            let changes = late.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum::<u64>();
            (late.len(), std::cmp::Reverse(changes))
        });
        let late_ms: Vec<f64> =
            best.unwrap_or_default().into_iter().map(|late| late as f64 / 1e6).collect();
        let heard = late_ms.len();
        Bursts { late_ms, lost: written_ns.len() - heard, extra: heard_ns.len() - heard }
    }

    /// How the delay has changed from the first third of the run to the last, ms.
    pub fn drift_ms(&self) -> Option<f64> {
        let third = self.late_ms.len() / 3;
        let first = stats::median(self.late_ms.get(..third)?)?;
        Some(stats::median(&self.late_ms[self.late_ms.len() - third..])? - first)
    }
}

/// How late each burst is that fits a delay which begins with `late` and changes slowly.
fn walk(written_ns: &[u64], heard_ns: &[u64], mut late: u64) -> Vec<u64> {
    let (mut found, mut rest) = (Vec::new(), heard_ns);
    for &written in written_ns {
        let due = written + late;
        let near = rest.iter().position(|&heard| heard + CHANGE_NS_MAX >= due);
        let Some(place) = near.filter(|&place| rest[place] <= due + CHANGE_NS_MAX) else {
            continue;
        };
        if rest[place] >= written {
            late = rest[place] - written;
            found.push(late);
            rest = &rest[place + 1..];
        }
    }
    found
}

/// A tone of known frequency, as it was heard from its first sample to its last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tone {
    /// From the first sample that counts to the last, ms.
    pub heard_ms: f64,
    /// Silence in it, ms: of the card, or in what was played.
    pub silent_ms: f64,
    /// What was wrong in any way, silence included, ms: another amplitude, or discontinuities.
    pub wrong_ms: f64,
    /// Places where it jumped.
    pub jumps: usize,
}

impl Tone {
    /// A sine of `hz` with [`AMPLITUDE`].
    pub fn new(pieces: &[Piece], hz: f64) -> Tone {
        let loud = |piece: &Piece| {
            let first = piece.samples.iter().position(|s| s.abs() > ONSET)?;
            let last = piece.samples.iter().rposition(|s| s.abs() > ONSET)?;
            Some((first, last))
        };
        let sounding: Vec<(&Piece, (usize, usize))> =
            pieces.iter().filter_map(|piece| Some((piece, loud(piece)?))).collect();
        let (Some(&(head, (first, _))), Some(&(tail, (_, last)))) =
            (sounding.first(), sounding.last())
        else {
            return Tone::default();
        };
        let edge_ns = (EDGE_MS * 1e6) as u64;
        let (start_ns, end_ns) =
            (head.time_ns(first) + edge_ns, tail.time_ns(last).saturating_sub(edge_ns));
        let mut tone = Tone::default();
        let mut heard_until = start_ns;
        let mut gaps_ms = 0.0;
        for (piece, _) in sounding {
            let within = |at: u64| at >= start_ns && at < end_ns;
            let samples: Vec<usize> =
                (0..piece.samples.len()).filter(|&index| within(piece.time_ns(index))).collect();
            let (Some(&from), Some(&to)) = (samples.first(), samples.last()) else { continue };
            gaps_ms += piece.time_ns(from).saturating_sub(heard_until) as f64 / 1e6;
            heard_until = piece.time_ns(to + 1);
            tone.add(&piece.samples[from..=to], f64::from(piece.rate), hz);
        }
        tone.heard_ms = end_ns.saturating_sub(start_ns) as f64 / 1e6;
        tone.silent_ms += gaps_ms;
        tone.wrong_ms += gaps_ms;
        tone
    }

    fn add(&mut self, samples: &[f32], rate: f64, hz: f64) {
        let factor = 2.0 * (std::f64::consts::TAU * hz / rate).cos() as f32;
        let window = (WINDOW_MS * rate / 1e3) as usize;
        let rough: Vec<bool> = (0..samples.len())
            .map(|n| {
                n >= 2 && (samples[n] - factor * samples[n - 1] + samples[n - 2]).abs() > ROUGH
            })
            .collect();
        // A jump is rough for some samples; one jump in a window is enough to be heard as one.
        let mut last_rough = None;
        for (n, _) in rough.iter().enumerate().filter(|(_, rough)| **rough) {
            if last_rough.is_none_or(|last| n - last > window) {
                self.jumps += 1;
            }
            last_rough = Some(n);
        }
        let expected = f64::from(AMPLITUDE).powi(2) / 2.0;
        for (samples, rough) in samples.chunks(window).zip(rough.chunks(window)) {
            let power = samples.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>();
            let is_whole =
                samples.len() < window || POWER.contains(&(power / window as f64 / expected));
            if !is_whole || rough.contains(&true) {
                self.wrong_ms += samples.len() as f64 * 1e3 / rate;
            }
        }
        let runs = samples.chunk_by(|a, b| (a.abs() < SILENT) == (b.abs() < SILENT));
        let silent = runs.filter(|run| run[0].abs() < SILENT);
        let ms = silent.map(|run| run.len() as f64 * 1e3 / rate);
        self.silent_ms += ms.filter(|&ms| ms >= SILENCE_MS_MIN).sum::<f64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sine(samples: std::ops::Range<usize>, rate: u32) -> Vec<f32> {
        let phase = |n: usize| std::f64::consts::TAU * 440.0 * n as f64 / f64::from(rate);
        samples.map(|n| (phase(n).sin() * f64::from(AMPLITUDE)) as f32).collect()
    }

    fn piece(start_ms: u64, rate: u32, samples: Vec<f32>) -> Piece {
        Piece { start_ns: start_ms * MS, rate, samples }
    }

    /// Irregular, 250 to 350 ms apart.
    fn written(count: u64) -> Vec<u64> {
        let mut at = 1000 * MS;
        let gap = |n: u64| (250 + (n * 7919 + n * n * 31) % 100) * MS;
        (0..count)
            .map(|n| {
                at += gap(n);
                at
            })
            .collect()
    }

    #[test]
    fn a_burst_is_heard_once_when_it_begins() {
        let mut samples = vec![0.0; 48_000];
        for (at, level) in [(4800, 0.4), (4900, -0.2), (24_000, -0.3)] {
            samples[at] = level;
        }
        samples[30_000] = 0.05;
        let onsets = onsets_ns(&[piece(10, 48_000, samples)]);
        assert_eq!(onsets, [110 * MS, 510 * MS]);
        assert!(onsets_ns(&[]).is_empty());
    }

    #[test]
    fn bursts_are_assigned_however_late_they_are_and_lost_ones_are_counted() {
        let written = written(60);
        for late in [30 * MS, 1400 * MS, 9000 * MS] {
            let mut heard: Vec<u64> = written.iter().map(|at| at + late).collect();
            let all = Bursts::new(&written, &heard);
            assert_eq!((all.late_ms.len(), all.lost, all.extra), (60, 0, 0));
            assert!(all.late_ms.iter().all(|&ms| ms == late as f64 / 1e6));
            assert_eq!(all.drift_ms(), Some(0.0));
            heard.remove(30);
            heard.remove(0);
            heard.insert(10, heard[9] + 130 * MS);
            let some = Bursts::new(&written, &heard);
            assert_eq!((some.late_ms.len(), some.lost, some.extra), (58, 2, 1), "late by {late}");
        }
        let none = Bursts::new(&written, &[]);
        assert_eq!((none.late_ms.len(), none.lost, none.extra), (0, 60, 0));
        assert_eq!(Bursts::default().drift_ms(), None);
    }

    #[test]
    fn a_delay_that_grows_is_followed() {
        let written = written(60);
        let heard: Vec<u64> =
            written.iter().enumerate().map(|(n, at)| at + 1400 * MS + n as u64 * 30 * MS).collect();
        let found = Bursts::new(&written, &heard);
        assert_eq!((found.lost, found.extra), (0, 0));
        assert_eq!(found.drift_ms(), Some(1200.0));
    }

    #[test]
    fn a_whole_tone_has_nothing_wrong_at_any_rate() {
        for rate in [44_100, 48_000, 96_000] {
            // Padded, as a codec's end is.
            let samples =
                [vec![0.0; 999], sine(0..rate as usize * 2, rate), vec![0.0; 999]].concat();
            let tone = Tone::new(&[piece(0, rate, samples)], 440.0);
            assert_eq!((tone.silent_ms, tone.wrong_ms, tone.jumps), (0.0, 0.0, 0), "{rate}");
            assert!((tone.heard_ms - 1800.0).abs() < 5.0, "{tone:?}");
        }
        assert_eq!(Tone::new(&[], 440.0), Tone::default());
    }

    #[test]
    fn gaps_of_the_card_zeros_jumps_and_fades_are_found() {
        let whole = sine(0..96_000, 48_000);
        // 20 ms of the card's time without a sample.
        let (a, b) = whole.split_at(48_000);
        let gap =
            Tone::new(&[piece(0, 48_000, a.to_vec()), piece(1020, 48_000, b.to_vec())], 440.0);
        assert!((gap.silent_ms - 20.0).abs() < 0.1 && gap.wrong_ms >= gap.silent_ms, "{gap:?}");
        // 10 ms of zeros in what was played, hard at both ends.
        let mut zeros = whole.clone();
        zeros[50_010..50_490].fill(0.0);
        let found = Tone::new(&[piece(0, 48_000, zeros)], 440.0);
        assert!((found.silent_ms - 10.0).abs() < 0.1, "{found:?}");
        assert!((10.0..=20.0).contains(&found.wrong_ms) && found.jumps >= 1, "{found:?}");
        // A quarter of a period is missing: nothing is silent.
        let jump = [&whole[..50_000], &whole[50_027..]].concat();
        let found = Tone::new(&[piece(0, 48_000, jump)], 440.0);
        assert_eq!((found.silent_ms, found.jumps), (0.0, 1));
        assert!((5.0..=10.0).contains(&found.wrong_ms), "{found:?}");
        // What conceals a lost frame fades: no jump, but not the tone either.
        let mut faded = whole;
        for (n, sample) in faded[50_000..52_400].iter_mut().enumerate() {
            *sample *= 1.0 - (n as f32 / 2400.0 * std::f32::consts::PI).sin() * 0.6;
        }
        let found = Tone::new(&[piece(0, 48_000, faded)], 440.0);
        assert!(found.wrong_ms >= 25.0 && found.silent_ms == 0.0, "{found:?}");
    }
}
