//! Beside hardware.rs: whether a stream's frames may come from the graphics processor, by those
//! that both decoders have decoded. Knows times; frames are compared before.

use std::time::Duration;

/// 8: frames in a row that both have decoded to the same bits. Any that differs ends the trial.
pub(super) const FRAMES: usize = 8;

/// The trial of one stream.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Of the graphics processor, and of the processor, for the same frames.
    times: [[Duration; FRAMES]; 2],
    compared: usize,
}

/// What the frames until now say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Too few.
    Open,
    /// They may.
    Passed,
    /// The graphics processor takes as long, or longer: the medians of both.
    Slower { hardware: Duration, software: Duration },
}

impl Trial {
    /// Another frame was the same in both; `by_time`: it also counts who was faster.
    pub(super) fn handle_equal(
        &mut self,
        hardware: Duration,
        software: Duration,
        by_time: bool,
    ) -> Verdict {
        if self.compared < FRAMES {
            for (times, time) in self.times.iter_mut().zip([hardware, software]) {
                times[self.compared] = time;
            }
            self.compared += 1;
        }
        if self.compared < FRAMES {
            return Verdict::Open;
        }
        let [hardware, software] = self.times.map(median);
        if by_time && hardware >= software {
            return Verdict::Slower { hardware, software };
        }
        Verdict::Passed
    }
}

/// The first frame of a stream, which takes longest, does not count much.
fn median(mut times: [Duration; FRAMES]) -> Duration {
    times.sort_unstable();
    times[FRAMES / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The verdicts on frames that took so long.
    fn verdicts(times: &[(u64, u64)], by_time: bool) -> Vec<Verdict> {
        let mut trial = Trial::default();
        let frames = times.iter();
        frames.map(|&(hw, sw)| trial.handle_equal(ms(hw), ms(sw), by_time)).collect()
    }

    #[test]
    fn eight_equal_frames_pass_if_most_were_faster() {
        let mut times = [(2, 5); FRAMES];
        times[0] = (300, 5);
        let expected = [[Verdict::Open].repeat(FRAMES - 1), vec![Verdict::Passed]].concat();
        assert_eq!(verdicts(&times, true), expected);
        assert_eq!(verdicts(&[(2, 5); FRAMES + 3], true)[FRAMES..], [Verdict::Passed; 3]);
    }

    #[test]
    fn as_fast_is_not_faster_and_times_count_only_if_they_are_asked_for() {
        for (hardware, software) in [(5, 5), (9, 5)] {
            let times = [(hardware, software); FRAMES];
            let slower = Verdict::Slower { hardware: ms(hardware), software: ms(software) };
            assert_eq!(verdicts(&times, true).last(), Some(&slower));
            assert_eq!(verdicts(&times, false).last(), Some(&Verdict::Passed));
            assert!(!verdicts(&times[1..], true).contains(&slower), "seven frames say nothing");
        }
    }
}
