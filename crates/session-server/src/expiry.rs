//! When a session ends because nobody uses it. Beside the path: from actor.rs, which knows input
//! and viewers, to the supervisor. Knows times, which are arguments, and what people are told
//! before.

use std::time::Duration;

use thinc_protocol::Micros;

/// 5 min and 1 min before the end, those who are there read it.
const WARNINGS: [Duration; 2] = [Duration::from_secs(300), Duration::from_secs(60)];

/// What has to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Tell people this.
    Warning(String),
    /// The session ends; why, for the log.
    End(String),
}

/// The two times after which an unused session ends.
#[derive(Debug)]
pub(crate) struct Expiry {
    idle: Option<Micros>,
    disconnected: Option<Micros>,
    /// When the newest input arrived, or the session began.
    input_at: Micros,
    /// Since when there is no viewer.
    alone_since: Option<Micros>,
    /// Warnings that were given since the newest input.
    warned: usize,
}

fn micros(time: Duration) -> Micros {
    time.as_micros() as Micros
}

impl Expiry {
    /// Without input for `idle`, or without a viewer for `disconnected`, the session ends.
    pub(crate) fn new(
        idle: Option<Duration>,
        disconnected: Option<Duration>,
        now: Micros,
    ) -> Expiry {
        Expiry {
            idle: idle.map(micros),
            disconnected: disconnected.map(micros),
            input_at: now,
            alone_since: Some(now),
            warned: 0,
        }
    }

    /// A person has done something. True if a warning is out of date.
    pub(crate) fn handle_input(&mut self, now: Micros) -> bool {
        self.input_at = now;
        std::mem::take(&mut self.warned) > 0
    }

    /// Whether any viewer is connected.
    pub(crate) fn set_viewed(&mut self, is_viewed: bool, now: Micros) {
        self.alone_since = match (is_viewed, self.alone_since) {
            (true, _) => None,
            (false, since) => since.or(Some(now)),
        };
    }

    /// The next warning, as a time before the end.
    fn next_warning(&self, idle: Micros) -> Option<Micros> {
        // One that would come at once, because the whole time is shorter, tells nothing.
        WARNINGS.into_iter().map(micros).filter(|&before| before < idle).nth(self.warned)
    }

    /// When something has to be done next.
    pub(crate) fn deadline(&self) -> Option<Micros> {
        let idle = self
            .idle
            .map(|idle| self.input_at + idle - self.next_warning(idle).unwrap_or_default());
        let disconnected =
            self.disconnected.zip(self.alone_since).map(|(time, since)| since + time);
        idle.into_iter().chain(disconnected).min()
    }

    /// What is due now.
    pub(crate) fn poll(&mut self, now: Micros) -> Option<Due> {
        if let Some((time, since)) = self.disconnected.zip(self.alone_since)
            && now >= since + time
        {
            let time = words(time);
            return Some(Due::End(format!("no viewer was connected for {time}")));
        }
        let idle = self.idle?;
        let end = self.input_at + idle;
        if now >= end {
            return Some(Due::End(format!("nobody has used it for {}", words(idle))));
        }
        let before = self.next_warning(idle).filter(|&before| now + before >= end)?;
        self.warned += 1;
        Some(Due::Warning(format!(
            "This desktop ends in {}, because nobody has used it for {}. Press a key, or move the \
             pointer, to keep it.",
            words(before),
            words(idle - before)
        )))
    }
}

/// A time in its largest unit that fits.
fn words(time: Micros) -> String {
    let (number, unit) = match time / 1_000_000 {
        seconds if seconds >= 86_400 && seconds % 86_400 == 0 => (seconds / 86_400, "day"),
        seconds if seconds >= 3600 && seconds % 3600 == 0 => (seconds / 3600, "hour"),
        seconds if seconds >= 60 => (seconds / 60, "minute"),
        seconds => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    fn idle(seconds: u64) -> Expiry {
        Expiry::new(Some(Duration::from_secs(seconds)), None, 0)
    }

    #[test]
    fn people_are_warned_twice_and_any_input_keeps_the_session() {
        let mut expiry = idle(1200);
        assert_eq!(expiry.deadline(), Some(900 * SECOND));
        assert_eq!(expiry.poll(899 * SECOND), None);
        let Some(Due::Warning(text)) = expiry.poll(900 * SECOND) else { panic!() };
        assert!(text.contains("ends in 5 minutes") && text.contains("for 15 minutes"), "{text}");
        assert_eq!((expiry.poll(901 * SECOND), expiry.deadline()), (None, Some(1140 * SECOND)));
        assert!(expiry.handle_input(1000 * SECOND));
        assert!(!expiry.handle_input(1000 * SECOND));
        assert_eq!(expiry.deadline(), Some(1900 * SECOND));
        assert!(matches!(expiry.poll(1900 * SECOND), Some(Due::Warning(_))));
        let Some(Due::Warning(text)) = expiry.poll(2140 * SECOND) else { panic!() };
        assert!(text.contains("ends in 1 minute,"), "{text}");
        assert_eq!((expiry.poll(2199 * SECOND), expiry.deadline()), (None, Some(2200 * SECOND)));
        let Some(Due::End(why)) = expiry.poll(2200 * SECOND) else { panic!() };
        assert_eq!(why, "nobody has used it for 20 minutes");
    }

    #[test]
    fn a_short_time_has_no_warning_that_comes_at_once() {
        let mut expiry = idle(200);
        assert_eq!(expiry.deadline(), Some(140 * SECOND));
        let mut shorter = idle(30);
        assert_eq!((shorter.poll(29 * SECOND), shorter.deadline()), (None, Some(30 * SECOND)));
        // A machine that slept gives one warning, and then ends it.
        assert!(matches!(expiry.poll(199 * SECOND), Some(Due::Warning(_))));
        assert!(matches!(expiry.poll(500 * SECOND), Some(Due::End(_))));
    }

    #[test]
    fn without_viewers_for_long_it_ends() {
        let mut expiry = Expiry::new(None, Some(Duration::from_secs(86_400)), 0);
        expiry.set_viewed(true, 5 * SECOND);
        assert_eq!((expiry.deadline(), expiry.poll(u64::MAX / 2)), (None, None));
        expiry.set_viewed(false, 10 * SECOND);
        expiry.set_viewed(false, 20 * SECOND);
        assert_eq!(expiry.deadline(), Some(86_410 * SECOND));
        let Some(Due::End(why)) = expiry.poll(86_410 * SECOND) else { panic!() };
        assert_eq!(why, "no viewer was connected for 1 day");
        let never = Expiry::new(None, None, 0);
        assert_eq!(never.deadline(), None);
    }
}
