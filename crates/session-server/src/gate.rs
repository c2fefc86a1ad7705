//! Strangers at the door: how many may be there before they have shown a token, for how long, and how fast they come in.
//! From front.rs, which lets every connection in here first, to native.rs and http.rs, which say when one has shown it.
//! Knows addresses and counts; never tokens.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// Connections that have not authenticated, in all and from one source. Past it the oldest is dropped: whoever has a
/// token needs milliseconds, so a flood delays nobody for long, and no stranger can hold the door shut.
const STRANGERS_MAX: usize = 64;
const STRANGERS_PER_SOURCE_MAX: usize = 12;
/// How long a connection may take to authenticate.
pub(crate) const LOGIN_GRACE: Duration = Duration::from_secs(10);
/// What a wrong token costs before it is answered; tokens have 256 bits, so this only keeps the log short.
pub(crate) const PENALTY: Duration = Duration::from_secs(1);

/// Connections let in: this many at once, and one in this time when they keep coming. A handshake takes a third of a
/// millisecond of the thread that also serves the viewers, so a flood of them takes no more than a tenth of it.
const ENTRIES_AT_ONCE: u32 = 64;
const ENTRY_TIME: Duration = Duration::from_millis(4);

/// How fast connections may come in, whoever makes them.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When everybody let in so far would be through at one per [`ENTRY_TIME`].
    through: Option<Instant>,
}

impl Pace {
    /// How long the connection that came now waits in front of the door; nobody does while there is no flood.
    pub(crate) fn enter(&mut self, now: Instant) -> Duration {
        let through = self.through.map_or(now, |through| through.max(now)) + ENTRY_TIME;
        self.through = Some(through);
        (through - now).saturating_sub(ENTRY_TIME * ENTRIES_AT_ONCE)
    }

    /// True while half of those have come in who may at once.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        self.through.is_some_and(|through| through.saturating_duration_since(now) > ENTRY_TIME * (ENTRIES_AT_ONCE / 2))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    strangers: Arc<Mutex<Vec<Stranger>>>,
}

#[derive(Debug)]
struct Stranger {
    number: u64,
    source: IpAddr,
    task: AbortHandle,
}

/// A place among the strangers; given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Gate,
    number: u64,
}

/// Whom an address stands for: an IPv6 subscriber has a whole /64.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

impl Gate {
    /// True where whoever comes from this address has to show that it does.
    pub(crate) fn is_crowded(&self, address: IpAddr) -> bool {
        let source = source(address);
        let strangers = self.strangers.lock().expect("no holder of this lock can panic");
        let from_there = strangers.iter().filter(|stranger| stranger.source == source).count();
        from_there >= STRANGERS_PER_SOURCE_MAX / 4 || strangers.len() >= STRANGERS_MAX / 4
    }

    /// A place for connection `number` (numbers grow), whose task is aborted if it has to go.
    pub(crate) fn enter(&self, number: u64, address: IpAddr, task: AbortHandle) -> Pass {
        let source = source(address);
        let mut strangers = self.strangers.lock().expect("no holder of this lock can panic");
        let from_there = strangers.iter().filter(|stranger| stranger.source == source).count();
        let oldest = if from_there >= STRANGERS_PER_SOURCE_MAX {
            strangers.iter().position(|stranger| stranger.source == source)
        } else if strangers.len() >= STRANGERS_MAX {
            Some(0)
        } else {
            None
        };
        if let Some(at) = oldest {
            strangers.remove(at).task.abort();
        }
        strangers.push(Stranger { number, source, task });
        Pass { gate: self.clone(), number }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut strangers = self.gate.strangers.lock().expect("no holder of this lock can panic");
        strangers.retain(|stranger| stranger.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> tokio::task::JoinHandle<()> {
        tokio::spawn(std::future::pending())
    }

    #[tokio::test]
    async fn the_oldest_of_a_source_goes_first_and_others_stay() {
        let gate = Gate::default();
        let honest = task();
        let _pass = gate.enter(0, "10.0.0.1".parse().unwrap(), honest.abort_handle());
        let mut flood: Vec<_> = (1..=24u64)
            .map(|number| {
                let task = task();
                (gate.enter(number, "10.0.0.2".parse().unwrap(), task.abort_handle()), task)
            })
            .collect();
        let newest: Vec<_> = flood.split_off(12);
        for (_, task) in flood {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert!(newest.iter().all(|(_, task)| !task.is_finished()) && !honest.is_finished());
        assert_eq!(gate.strangers.lock().unwrap().len(), 1 + STRANGERS_PER_SOURCE_MAX);
        let crowded = |address: &str| gate.is_crowded(address.parse().unwrap());
        assert!(crowded("10.0.0.2") && !crowded("10.0.0.1"));
        drop(newest);
        assert_eq!(gate.strangers.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_flood_comes_in_at_its_pace_and_nobody_else_waits() {
        let mut pace = Pace::default();
        let start = Instant::now();
        let mut now = start;
        let mut flood = 0;
        while now < start + Duration::from_secs(2) {
            // As front.rs does: the next is accepted when this one is in.
            now += pace.enter(now) + Duration::from_micros(10);
            flood += 1;
        }
        assert!((500..=600).contains(&flood), "{flood} handshakes in two seconds");
        assert!(pace.is_busy(now));
        // Half a second later a browser comes with its six connections.
        now += Duration::from_millis(500);
        assert!((0..6).all(|_| pace.enter(now) == Duration::ZERO) && !pace.is_busy(now));
    }

    #[test]
    fn a_64_of_ipv6_is_one_source_and_mapped_v4_is_v4() {
        let same = |a: &str, b: &str| source(a.parse().unwrap()) == source(b.parse().unwrap());
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
    }
}
