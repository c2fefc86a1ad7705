//! One clock for the processes of a machine, so that the harness can compare the drawing times of
//! an application with its own readings. Beside the path. Knows the kernel's monotonic clock, which
//! `Instant` is on this system; never the events at a time.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the clock that all processes share.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// The moment at which another process read `ns`.
pub fn instant_of(ns: u64) -> Instant {
    let (now, now_ns) = (Instant::now(), now_ns());
    if ns > now_ns {
        now + Duration::from_nanos(ns - now_ns)
    } else {
        now - Duration::from_nanos(now_ns - ns)
    }
}

/// Tenths of a millisecond in 32 bits, as in a bar code; they wrap after five days.
pub fn stamp_of(ns: u64) -> u32 {
    (ns / 100_000) as u32
}

/// From one stamp to a later one, ms; negative if it is earlier.
pub fn between_ms(earlier: u32, later: u32) -> f64 {
    f64::from(later.wrapping_sub(earlier).cast_signed()) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readings_of_the_clock_agree() {
        // Two readings are not one moment: a busy machine may take its time between them, but not
        // each time.
        let slack = Duration::from_millis(50);
        assert!((0..20).any(|_| {
            let (before, ns, after) = (Instant::now(), now_ns(), Instant::now());
            let read = instant_of(ns);
            read + slack >= before && read <= after + slack
        }));
        let ns = now_ns();
        assert!((0..20).any(|_| instant_of(ns + 1_000_000_000) > instant_of(ns)));
    }

    #[test]
    fn stamps_wrap() {
        let (earlier, later) = (stamp_of(429_496_729_500_000), stamp_of(429_496_729_700_000));
        assert!(later < earlier);
        assert_eq!((between_ms(earlier, later), between_ms(later, earlier)), (0.2, -0.2));
    }
}
