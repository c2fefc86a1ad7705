//! Limits unauthenticated connections: how many there may be, for how long, and how fast new ones
//! are accepted. From front.rs, which registers every connection here first, to native.rs and
//! http.rs, which remove one that has authenticated. Knows addresses and counts; never tokens.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use thinc_transport::token::random;
use tokio::task::AbortHandle;

/// Unauthenticated connections, in all and from one source, which may be a whole network behind
/// one address. Past the limit one is dropped for the newest: the oldest that has sent nothing, as
/// viewers speak first and at once; if all have sent something, one at random, as sshd does past
/// its `MaxStartups`. So no attacker can block the port by holding connections, and of a flood of
/// 150 a second that sends something too, a viewer 60 ms away survives nine: three times of four.
const UNAUTHENTICATED_MAX: usize = 128;
const UNAUTHENTICATED_PER_SOURCE_MAX: usize = 32;
/// With this many, in all or from one source, the addresses of UDP have to be validated.
const CROWD: usize = 16;
const CROWD_FROM_SOURCE: usize = 3;
/// How long a connection may take to authenticate.
pub const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay of the answer to a wrong secret. Tokens have 256 bits, so guessing is hopeless anyway: the
/// delay only keeps the log short.
pub const WRONG_SECRET_DELAY: Duration = Duration::from_secs(1);

/// Handshakes: this many at once, and then one in each interval. A handshake takes a third of a
/// millisecond of the thread that also serves the viewers, so a flood takes no more than a tenth of
/// it.
const HANDSHAKES_AT_ONCE: u32 = 64;
const HANDSHAKE_INTERVAL: Duration = Duration::from_millis(4);

/// Limits the rate of handshakes, from all sources together.
#[derive(Debug, Default)]
pub struct HandshakeLimiter {
    /// When all handshakes so far would be done at one per [`HANDSHAKE_INTERVAL`].
    free_at: Option<Instant>,
}

impl HandshakeLimiter {
    /// How long to wait before the handshake of a connection that arrives now; zero while there is
    /// no flood.
    pub fn delay_of_next(&mut self, now: Instant) -> Duration {
        let free_at = self.free_at.map_or(now, |free_at| free_at.max(now)) + HANDSHAKE_INTERVAL;
        self.free_at = Some(free_at);
        (free_at - now).saturating_sub(HANDSHAKE_INTERVAL * HANDSHAKES_AT_ONCE)
    }

    /// True while more than half of the handshakes allowed at once are outstanding.
    fn is_busy(&self, now: Instant) -> bool {
        self.free_at.is_some_and(|free_at| {
            free_at.saturating_duration_since(now) > HANDSHAKE_INTERVAL * (HANDSHAKES_AT_ONCE / 2)
        })
    }
}

/// The unauthenticated connections of a port.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    unauthenticated: Arc<Mutex<Vec<Unauthenticated>>>,
}

#[derive(Debug)]
struct Unauthenticated {
    number: u64,
    source: IpAddr,
    task: AbortHandle,
    /// Something has come from there, and not only its address, which may be forged over UDP.
    has_sent: bool,
}

/// An entry among the unauthenticated connections; removed when it is dropped.
#[derive(Debug)]
pub struct Pass {
    gate: Gate,
    number: u64,
}

/// The source that an address belongs to: an IPv6 subscriber has a whole /64.
pub fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

impl Gate {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.unauthenticated.lock().expect("no holder of this lock can panic").len()
    }

    /// True if a peer from this address has to validate it first.
    fn is_crowded(&self, address: IpAddr) -> bool {
        let source = source(address);
        let unauthenticated =
            self.unauthenticated.lock().expect("no holder of this lock can panic");
        let from_there = unauthenticated.iter().filter(|entry| entry.source == source).count();
        from_there >= CROWD_FROM_SOURCE || unauthenticated.len() >= CROWD
    }

    /// True if a QUIC connection from this address, which is not validated, has to validate it.
    /// Source addresses of UDP can be forged. A single packet may cost a handshake; under load, or
    /// with several handshakes from that address, it is validated first, so that a forged address
    /// cannot displace the connections of its owner.
    pub fn must_validate(&self, address: IpAddr, limiter: &Mutex<HandshakeLimiter>) -> bool {
        let limiter = limiter.lock().expect("no holder of this lock can panic");
        limiter.is_busy(Instant::now()) || self.is_crowded(address)
    }

    /// Registers connection `number` (numbers grow); its task is aborted if it has to make room.
    pub fn enter(&self, number: u64, address: IpAddr, task: AbortHandle) -> Pass {
        let source = source(address);
        let mut unauthenticated =
            self.unauthenticated.lock().expect("no holder of this lock can panic");
        let from_there = unauthenticated.iter().filter(|entry| entry.source == source).count();
        if from_there >= UNAUTHENTICATED_PER_SOURCE_MAX {
            drop_one(&mut unauthenticated, |entry| entry.source == source);
        } else if unauthenticated.len() >= UNAUTHENTICATED_MAX {
            drop_one(&mut unauthenticated, |_| true);
        }
        unauthenticated.push(Unauthenticated { number, source, task, has_sent: false });
        Pass { gate: self.clone(), number }
    }
}

/// Drops one of these connections, of which there is at least one.
fn drop_one(unauthenticated: &mut Vec<Unauthenticated>, among: impl Fn(&Unauthenticated) -> bool) {
    let silent = unauthenticated.iter().position(|entry| among(entry) && !entry.has_sent);
    let dropped = silent.unwrap_or_else(|| {
        let candidates: Vec<usize> =
            (0..unauthenticated.len()).filter(|&at| among(&unauthenticated[at])).collect();
        candidates[u64::from_ne_bytes(random()) as usize % candidates.len()]
    });
    unauthenticated.remove(dropped).task.abort();
}

impl Pass {
    /// Something has come over this connection.
    pub fn set_has_sent(&self) {
        let mut unauthenticated =
            self.gate.unauthenticated.lock().expect("no holder of this lock can panic");
        // It may have been dropped already.
        if let Some(entry) = unauthenticated.iter_mut().find(|entry| entry.number == self.number) {
            entry.has_sent = true;
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut unauthenticated =
            self.gate.unauthenticated.lock().expect("no holder of this lock can panic");
        unauthenticated.retain(|entry| entry.number != self.number);
    }
}

/// Connections of browsers that have shown a cookie and became no viewer: the six of a browser, for
/// each of 16 viewers. Past the limit the one that was used least recently is dropped; its browser
/// opens another when it needs one.
const BROWSER_CONNECTIONS_MAX: usize = 96;

/// Limits the connections of browsers that have authenticated; their viewers have another limit.
#[derive(Clone, Debug, Default)]
pub struct BrowserConnections {
    /// The least recently used first.
    open: Arc<Mutex<VecDeque<(u64, AbortHandle)>>>,
}

/// A browser's connection; it no longer counts when this is dropped.
#[derive(Debug)]
pub struct BrowserPass {
    all: BrowserConnections,
    number: u64,
    task: AbortHandle,
}

impl BrowserConnections {
    /// A connection that has not authenticated yet. Its task is aborted if it has to make room.
    pub fn pass(&self, number: u64, task: AbortHandle) -> BrowserPass {
        BrowserPass { all: self.clone(), number, task }
    }
}

impl BrowserPass {
    /// A request with a valid cookie has come over it.
    pub fn set_used(&self) {
        let mut open = self.all.open.lock().expect("no holder of this lock can panic");
        open.retain(|&(number, _)| number != self.number);
        if open.len() >= BROWSER_CONNECTIONS_MAX
            && let Some((_, oldest)) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back((self.number, self.task.clone()));
    }
}

impl Drop for BrowserPass {
    fn drop(&mut self) {
        let mut open = self.all.open.lock().expect("no holder of this lock can panic");
        open.retain(|&(number, _)| number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use tokio::task::JoinHandle;

    use super::*;

    fn task() -> JoinHandle<()> {
        tokio::spawn(std::future::pending())
    }

    const MAX: usize = UNAUTHENTICATED_PER_SOURCE_MAX;

    /// Connections of one source, and whether each sends something.
    fn connect(gate: &Gate, numbers: Range<u64>, sends: bool) -> Vec<(Pass, JoinHandle<()>)> {
        numbers
            .map(|number| {
                let task = task();
                let address = "10.0.0.2".parse().unwrap();
                let pass = gate.enter(number, address, task.abort_handle());
                if sends {
                    pass.set_has_sent();
                }
                (pass, task)
            })
            .collect()
    }

    /// How many of them were not dropped.
    fn open(gate: &Gate, numbers: Range<u64>) -> usize {
        let unauthenticated = gate.unauthenticated.lock().unwrap();
        unauthenticated.iter().filter(|entry| numbers.contains(&entry.number)).count()
    }

    #[tokio::test]
    async fn a_flooding_source_drops_its_own_oldest_connections() {
        let gate = Gate::default();
        let other = task();
        let _pass = gate.enter(0, "10.0.0.1".parse().unwrap(), other.abort_handle());
        let mut flood = connect(&gate, 1..1 + 2 * MAX as u64, false);
        let newest = flood.split_off(MAX);
        for (_, task) in flood {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert!(newest.iter().all(|(_, task)| !task.is_finished()) && !other.is_finished());
        assert_eq!(gate.unauthenticated.lock().unwrap().len(), 1 + MAX);
        let crowded = |address: &str| gate.is_crowded(address.parse().unwrap());
        assert!(crowded("10.0.0.2"));
        drop(newest);
        assert_eq!(gate.unauthenticated.lock().unwrap().len(), 1);
        assert!(!crowded("10.0.0.2") && !crowded("10.0.0.1"));
    }

    #[tokio::test]
    async fn who_has_sent_nothing_is_dropped_first() {
        let gate = Gate::default();
        let _viewer = connect(&gate, 0..1, true);
        let _flood = connect(&gate, 1..1000, false);
        assert_eq!((open(&gate, 0..1), open(&gate, 1..1000)), (1, MAX - 1));
    }

    #[tokio::test]
    async fn if_all_have_sent_something_one_is_dropped_at_random() {
        let (mut survived, tries) = (0, 200);
        for _ in 0..tries {
            let gate = Gate::default();
            let _earlier = connect(&gate, 0..MAX as u64, true);
            let _viewer = connect(&gate, 100..101, true);
            let _flood = connect(&gate, 200..200 + MAX as u64, true);
            survived += open(&gate, 100..101);
        }
        // (1 - 1/32)^32 of them: 36 %. The oldest first would drop it each time, the newest never.
        assert!((20..140).contains(&survived), "{survived} of {tries}");
    }

    #[test]
    fn a_flood_is_limited_and_later_connections_do_not_wait() {
        let mut limiter = HandshakeLimiter::default();
        let start = Instant::now();
        let mut now = start;
        let mut flood = 0;
        while now < start + Duration::from_secs(2) {
            // As front.rs does: the next is accepted when this one has been.
            now += limiter.delay_of_next(now) + Duration::from_micros(10);
            flood += 1;
        }
        assert!((500..=600).contains(&flood), "{flood} handshakes in two seconds");
        assert!(limiter.is_busy(now));
        // Half a second later a browser opens its six connections.
        now += Duration::from_millis(500);
        assert!(
            (0..6).all(|_| limiter.delay_of_next(now) == Duration::ZERO) && !limiter.is_busy(now)
        );
    }

    #[test]
    fn an_ipv6_prefix_of_64_bits_is_one_source_and_mapped_v4_is_v4() {
        let same = |a: &str, b: &str| source(a.parse().unwrap()) == source(b.parse().unwrap());
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
    }
}
