//! Path 5/13: under viewer.rs, from a viewer's request, to its queue.
//! When a viewer that lacks pixels and does not name them is sent the whole screen. Knows times;
//! never pixels.

use thinc_protocol::Micros;

/// Shortest interval between two full screens that a viewer requests: one that asks without limit
/// would keep a core busy and the others waiting. It doubles with each that is requested within
/// twice the interval after the last, up to the other limit.
const INTERVAL_MIN: Micros = 100_000;
const INTERVAL_MAX: Micros = 1_000_000;

/// The requests of one viewer.
#[derive(Debug)]
pub(super) struct Resync {
    is_pending: bool,
    /// When the next may be granted.
    from: Micros,
    interval: Micros,
}

impl Resync {
    pub(super) fn new(now: Micros) -> Resync {
        Resync { is_pending: false, from: now, interval: INTERVAL_MIN }
    }

    /// Repeating this costs nothing.
    pub(super) fn request(&mut self) {
        self.is_pending = true;
    }

    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// When the one that waits is granted.
    pub(super) fn due(&self) -> Option<Micros> {
        self.is_pending.then_some(self.from)
    }

    /// True once the screen is to be sent.
    pub(super) fn take(&mut self, now: Micros) -> bool {
        if !self.is_pending || now < self.from {
            return false;
        }
        self.is_pending = false;
        let is_repeated = now < self.from + self.interval;
        self.interval =
            if is_repeated { (2 * self.interval).min(INTERVAL_MAX) } else { INTERVAL_MIN };
        self.from = now + self.interval;
        true
    }

    /// A new geometry: all of it is sent anyway.
    pub(super) fn cancel(&mut self) {
        self.is_pending = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_asks_without_limit_gets_a_screen_a_second() {
        let mut resync = Resync::new(0);
        let mut granted = Vec::new();
        for now in (0..10_000_000).step_by(1_000) {
            resync.request();
            if resync.take(now) {
                granted.push(now);
            }
        }
        let intervals: Vec<Micros> = granted.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(granted[0], 0);
        assert_eq!(intervals[..4], [200_000, 400_000, 800_000, 1_000_000]);
        assert!(intervals[4..].iter().all(|&interval| interval == INTERVAL_MAX));
    }

    #[test]
    fn a_request_after_a_while_is_granted_at_once() {
        let mut resync = Resync::new(0);
        assert!(!resync.take(0), "nobody has asked");
        resync.request();
        assert!(resync.take(0));
        resync.request();
        assert_eq!(resync.due(), Some(200_000));
        resync.cancel();
        assert_eq!((resync.due(), resync.take(9_000_000)), (None, false));
        resync.request();
        assert!(resync.take(9_000_000));
        resync.request();
        assert_eq!(resync.due(), Some(9_000_000 + INTERVAL_MIN));
    }
}
