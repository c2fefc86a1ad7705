//! Simulated people: what each of them does, and when, from a seed. Before seat.rs, which does it
//! at a viewer. Pure: knows kinds of work and times; never keys, programs or servers.

use std::time::Duration;

use crate::apps::photo::mix;

/// What a person works at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Types a text, with pauses to think.
    Typing,
    /// Reads pages of a document.
    Pages,
    /// Watches a video, and stops it now and then.
    Video,
    /// Does nothing.
    Nothing,
}

/// Of ten people six type, three read and one watches.
const SHARES: [(Work, u32); 3] = [(Work::Typing, 6), (Work::Pages, 3), (Work::Video, 1)];

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// So many keys, one each period.
    Type { keys: usize, period: Duration },
    /// The next page.
    Page,
    /// Stops the video, or lets it go on.
    Pause,
}

/// The work of each of `count` people: for any count, each share is that of [`SHARES`] to one
/// person, and those who join change nobody's work.
pub(super) fn works(count: u32) -> Vec<Work> {
    let whole: u32 = SHARES.iter().map(|(_, weight)| weight).sum();
    let mut given = [0; SHARES.len()];
    let mut works = Vec::new();
    for person in 1..=count {
        // Who lacks the most; the first of equals.
        let lacks =
            |place: usize| i64::from(SHARES[place].1 * person) - i64::from(given[place] * whole);
        let place = (0..SHARES.len()).rev().max_by_key(|&place| lacks(place)).unwrap_or(0);
        given[place] += 1;
        works.push(SHARES[place].0);
    }
    works
}

/// What one person does: endless, and the same for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Script {
    work: Work,
    seed: u64,
    drawn: u64,
}

impl Script {
    pub(super) fn new(work: Work, seed: u64) -> Script {
        Script { work, seed: mix(seed), drawn: 0 }
    }

    /// A time from `least` to `most`, each as likely as another.
    fn time_ms(&mut self, least: u64, most: u64) -> Duration {
        self.drawn += 1;
        Duration::from_millis(least + mix(self.seed ^ self.drawn) % (most - least + 1))
    }
}

/// How long a person thinks after the act before, and the act.
impl Iterator for Script {
    type Item = (Duration, Act);

    fn next(&mut self) -> Option<(Duration, Act)> {
        match self.work {
            Work::Typing => {
                let thinks = self.time_ms(500, 3000);
                // Five to eight keys a second, in words and sentences.
                let period = self.time_ms(120, 200);
                let keys = self.time_ms(5, 40).as_millis() as usize;
                Some((thinks, Act::Type { keys, period }))
            }
            Work::Pages => Some((self.time_ms(3000, 12_000), Act::Page)),
            Work::Video => {
                // Odd acts stop it, for a moment; even ones let it go on.
                self.drawn += 1;
                let plays = self.drawn % 4 == 1;
                let time = if plays { (10_000, 30_000) } else { (1000, 3000) };
                Some((self.time_ms(time.0, time.1), Act::Pause))
            }
            Work::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(works: &[Work], wanted: Work) -> f64 {
        works.iter().filter(|&&work| work == wanted).count() as f64
    }

    #[test]
    fn any_number_of_people_has_the_shares_to_one_person() {
        for number in 1..=200 {
            let works = works(number);
            assert_eq!(works.len() as u32, number);
            for (work, weight) in SHARES {
                let wanted = f64::from(number * weight) / 10.0;
                let found = count(&works, work);
                assert!((found - wanted).abs() <= 1.0, "{number}: {found} of {work:?}");
            }
            assert!(works.starts_with(&super::works(number - 1)), "nobody changes their work");
        }
        assert_eq!(works(1), [Work::Typing]);
        let ten = works(10);
        let each = [Work::Typing, Work::Pages, Work::Video].map(|work| count(&ten, work));
        assert_eq!(each, [6.0, 3.0, 1.0]);
    }

    #[test]
    fn a_script_is_its_seeds() {
        for work in [Work::Typing, Work::Pages, Work::Video] {
            let first: Vec<_> = Script::new(work, 7).take(50).collect();
            assert_eq!(first, Script::new(work, 7).take(50).collect::<Vec<_>>());
            assert_ne!(first, Script::new(work, 8).take(50).collect::<Vec<_>>());
        }
        assert_eq!(Script::new(Work::Nothing, 7).next(), None);
    }

    #[test]
    fn people_type_as_people_do() {
        let acts: Vec<_> = Script::new(Work::Typing, 1).take(500).collect();
        let mut rates = Vec::new();
        for (thinks, act) in acts {
            let Act::Type { keys, period } = act else { panic!("a typist types") };
            assert!((5..=40).contains(&keys) && (500..=3000).contains(&thinks.as_millis()));
            rates.push(1.0 / period.as_secs_f64());
        }
        assert!(rates.iter().all(|rate| (5.0..8.4).contains(rate)), "{rates:?}");
    }

    #[test]
    fn a_video_plays_long_and_rests_shortly() {
        let times: Vec<u128> =
            Script::new(Work::Video, 3).take(20).map(|(time, _)| time.as_millis()).collect();
        for (place, time) in times.into_iter().enumerate() {
            let is_playing = place % 2 == 0;
            assert!(if is_playing { time >= 10_000 } else { time <= 3000 }, "{place}: {time}");
        }
    }
}
