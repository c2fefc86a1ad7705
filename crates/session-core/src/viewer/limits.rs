//! Path back: under viewer.rs, for each message of a viewer and each input in one.
//! How much a viewer may send. Knows numbers and times; never what was sent.

use thinc_protocol::Micros;
use thinc_protocol::limits::{INPUT_EVENTS_PER_SECOND_MAX, MESSAGES_PER_SECOND_MAX};

use super::Violation;

/// 50 µs: [`MESSAGES_PER_SECOND_MAX`].
const MESSAGE_INTERVAL: Micros = 1_000_000 / MESSAGES_PER_SECOND_MAX as Micros;
/// Six seconds of them at once: 120,000, those of a person who has typed and moved at the highest
/// rate for 30 s.
const MESSAGE_BURST: Micros = 6_000_000;

/// What one viewer has sent.
#[derive(Debug)]
pub(super) struct Limits {
    /// When all its messages so far would be over at one each [`MESSAGE_INTERVAL`].
    messages_until: Micros,
    input_second: Micros,
    input_count: u32,
}

impl Limits {
    pub(super) fn new(now: Micros) -> Limits {
        Limits { messages_until: now, input_second: now, input_count: 0 }
    }

    /// Counts a message, whose handling costs about a microsecond. A viewer whose path was blocked
    /// may send those of half a minute at once.
    pub(super) fn count_message(&mut self, now: Micros) -> Result<(), Violation> {
        self.messages_until = self.messages_until.max(now) + MESSAGE_INTERVAL;
        if self.messages_until - now > MESSAGE_BURST {
            return Err(Violation::MessageFlood(MESSAGES_PER_SECOND_MAX));
        }
        Ok(())
    }

    /// Counts an input event.
    pub(super) fn count_input(&mut self, now: Micros) -> Result<(), Violation> {
        if now.saturating_sub(self.input_second) >= 1_000_000 {
            self.input_second = now;
            self.input_count = 0;
        }
        self.input_count += 1;
        if self.input_count > INPUT_EVENTS_PER_SECOND_MAX {
            return Err(Violation::InputFlood(INPUT_EVENTS_PER_SECOND_MAX));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_half_a_minute_is_taken_and_a_flood_is_not() {
        let mut limits = Limits::new(0);
        let burst = MESSAGE_BURST / MESSAGE_INTERVAL;
        (0..burst).for_each(|_| limits.count_message(0).unwrap());
        assert_eq!(limits.count_message(0), Err(Violation::MessageFlood(MESSAGES_PER_SECOND_MAX)));
        let mut limits = Limits::new(0);
        for now in (0..20_000_000).step_by(MESSAGE_INTERVAL as usize) {
            limits.count_message(now).expect("that is the rate that is allowed");
        }
    }

    #[test]
    fn input_is_counted_a_second_at_a_time() {
        let mut limits = Limits::new(0);
        for now in [0, 1_000_000] {
            for _ in 0..INPUT_EVENTS_PER_SECOND_MAX {
                limits.count_input(now).unwrap();
            }
        }
        let flood = Err(Violation::InputFlood(INPUT_EVENTS_PER_SECOND_MAX));
        assert_eq!(limits.count_input(1_999_999), flood);
    }
}
