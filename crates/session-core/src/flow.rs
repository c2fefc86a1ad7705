//! Path 6/13: beside scheduler.rs, which asks how many bytes may go.
//! One viewer's path: what is under way, how fast it drains, and how much more keeps it busy without filling queues.
//! Knows byte counts and times; never what the bytes are.
//!
//! The viewer acknowledges an update when it has applied it, so "delivered" covers network and viewer both, and a slow
//! viewer is a slow path. The estimate is BBR's (rate = delivered bytes over the time they took, the largest of the last
//! rounds; delay = the smallest round trip of the last seconds); the budget is the delay's worth of bytes plus about one
//! frame time's, so that one screen frame of pixels at most stands in queues we do not see.

use std::collections::VecDeque;

use thinc_protocol::Micros;

/// Budget before anything is known: a first screen of text goes out at once, and it costs 1 Mbit/s half a second, once.
pub const BUDGET_INITIAL_BYTES: u64 = 64 * 1024;
/// Least budget: 65 ms of 1 Mbit/s, and a few small updates under way on any path.
pub const BUDGET_MIN_BYTES: u64 = 8 * 1024;
/// Least share of the budget for one update: 32 ms of 1 Mbit/s.
const UPDATE_BYTES_MIN: u64 = 4 * 1024;
/// Most that may be under way; a loopback's rate times a frame time can be more, and gains nothing by it.
pub const BUDGET_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// One frame of a 60 Hz screen: how long bytes may stand in queues for the sake of never running dry.
pub const FRAME_TIME: Micros = 16_667;
/// What the real-time lane may send beyond the budget in one round trip, so that a hand never waits for a photograph.
pub const REAL_TIME_RESERVE_BYTES: u64 = 16 * 1024;
/// Most updates without acknowledgement: bounds what is remembered about them.
pub const UPDATES_IN_FLIGHT_MAX: usize = 512;
/// Rounds over which the best rate is remembered (BBR: 10).
const RATE_ROUNDS: u64 = 10;
/// Age at which the smallest round trip is measured anew, with the queue let dry (BBR: 10 s).
const DELAY_AGE_MAX: Micros = 10_000_000;
/// Growth in one round below which the path counts as full (BBR: 1.25), and how many rounds in a row (BBR: 3).
const STARTUP_GROWTH: f64 = 1.25;
const STARTUP_ROUNDS: u32 = 3;
/// One round in this many sends a quarter more, to find what the path has gained.
const PROBE_EVERY: u64 = 8;
/// A round trip before one was measured: between continents; only the real-time cap and the first probe use it.
const RTT_UNKNOWN: Micros = 100_000;
/// Control messages (cursor images) that may go before an update must follow to have them acknowledged. Less than the
/// least budget, or they could leave no room for the update that gives it back.
pub const UNACCOUNTED_MAX: u64 = UPDATE_BYTES_MIN / 2;

#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    bytes: u64,
    at: Micros,
    /// `delivered` and when, as it was when this was sent.
    delivered: u64,
    delivered_at: Micros,
    /// The path had room left and nothing to carry: its rate says what we had, not what it can.
    idle_before: bool,
}

/// One viewer's path.
#[derive(Debug)]
pub struct Flow {
    sent: VecDeque<Sent>,
    in_flight: u64,
    /// Bytes of messages that no update carries: they count with the next one.
    unaccounted: u64,
    delivered: u64,
    delivered_at: Micros,
    /// (round, bytes per microsecond), falling from front to back: the front is the best of the last rounds.
    rates: VecDeque<(u64, f64)>,
    rtt_min: Micros,
    rtt_min_at: Micros,
    rtt_smooth: Micros,
    /// Rounds: one ends when what was sent after its beginning is acknowledged.
    round: u64,
    round_ends_at_delivered: u64,
    startup: bool,
    startup_best: f64,
    startup_flat: u32,
    /// Since when the queue is let run dry, to see the path's own delay.
    draining: Option<Micros>,
    /// Until this many bytes are delivered, everything sent was all there was to send.
    app_limited_until: u64,
    real_time_bytes: u64,
    real_time_since: Micros,
}

impl Flow {
    /// A path nothing is known of.
    pub fn new(now: Micros) -> Flow {
        Flow {
            sent: VecDeque::new(),
            in_flight: 0,
            unaccounted: 0,
            delivered: 0,
            delivered_at: now,
            rates: VecDeque::new(),
            rtt_min: Micros::MAX,
            rtt_min_at: now,
            rtt_smooth: RTT_UNKNOWN,
            round: 0,
            round_ends_at_delivered: 0,
            startup: true,
            startup_best: 0.0,
            startup_flat: 0,
            draining: None,
            app_limited_until: 0,
            real_time_bytes: 0,
            real_time_since: now,
        }
    }

    /// Bytes sent and not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Smoothed round trip, the viewer's work included.
    pub fn rtt(&self) -> Micros {
        self.rtt_smooth
    }

    /// Best rate of the last rounds, in bytes a second; 0 before one was measured.
    pub fn rate(&self) -> u64 {
        (self.best_rate() * 1e6) as u64
    }

    fn best_rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |&(_, rate)| rate)
    }

    /// Bytes that may be under way.
    pub fn budget(&self) -> u64 {
        let rate = self.best_rate();
        if rate == 0.0 {
            return BUDGET_INITIAL_BYTES;
        }
        if self.draining.is_some() {
            return UPDATE_BYTES_MIN;
        }
        // And a quarter more: an update is acknowledged when all of it is there, so up to one, a quarter of the budget, is
        // through in part and still counts in whole.
        let full = rate * (self.rtt_min.min(DELAY_AGE_MAX) + FRAME_TIME) as f64 * 1.25;
        let gain = if self.startup {
            2.0
        } else if self.round.is_multiple_of(PROBE_EVERY) {
            1.25
        } else {
            1.0
        };
        let budget = (full * gain) as u64;
        let least = if self.startup { BUDGET_INITIAL_BYTES } else { BUDGET_MIN_BYTES };
        budget.clamp(least, BUDGET_MAX_BYTES)
    }

    /// Most bytes of one update, so that several are under way and each tells of the path.
    pub fn update_bytes(&self) -> u64 {
        (self.budget() / 4).max(UPDATE_BYTES_MIN)
    }

    /// Bytes that may still go now.
    pub fn room(&self) -> u64 {
        if self.sent.len() >= UPDATES_IN_FLIGHT_MAX {
            return 0;
        }
        self.budget().saturating_sub(self.in_flight + self.unaccounted)
    }

    /// True while the real-time lane and cursors may go, which may use a reserve above the budget. The reserve is not
    /// widened by time, or a viewer that never acknowledges would be sent to for ever.
    pub fn may_send_real_time(&self) -> bool {
        self.sent.len() < UPDATES_IN_FLIGHT_MAX
            && self.in_flight + self.unaccounted < self.budget() + REAL_TIME_RESERVE_BYTES
    }

    /// Bytes that the real-time lane may commit now: what is left of its cap for this round trip.
    pub fn real_time_room(&mut self, now: Micros) -> u64 {
        if now.saturating_sub(self.real_time_since) >= self.rtt_smooth {
            self.real_time_since = now;
            self.real_time_bytes = 0;
        }
        if self.sent.len() >= UPDATES_IN_FLIGHT_MAX {
            return 0;
        }
        let above = (self.budget() + REAL_TIME_RESERVE_BYTES).saturating_sub(self.in_flight + self.unaccounted);
        above.min(REAL_TIME_RESERVE_BYTES.saturating_sub(self.real_time_bytes))
    }

    /// The real-time lane used some of its cap.
    pub fn spend_real_time(&mut self, bytes: u64) {
        self.real_time_bytes += bytes;
    }

    /// A message that no update carries went out.
    pub fn control_sent(&mut self, bytes: u64) {
        self.unaccounted += bytes;
    }

    /// True when so much went out beside updates that an update must follow, for its acknowledgement.
    /// It goes whatever the budget says: without it nobody would ever acknowledge them.
    pub fn wants_marker(&self) -> bool {
        self.unaccounted > UNACCOUNTED_MAX && self.sent.len() < UPDATES_IN_FLIGHT_MAX
    }

    /// An update went out. `more`: something else waits for room.
    pub fn sent(&mut self, seq: u64, bytes: u64, more: bool, now: Micros) {
        if self.in_flight == 0 {
            // The path was idle: the time before now says nothing about its rate.
            self.delivered_at = now;
        }
        let bytes = bytes + std::mem::take(&mut self.unaccounted);
        let idle_before = self.app_limited_until > self.delivered;
        self.in_flight += bytes;
        self.sent.push_back(Sent {
            seq,
            bytes,
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            idle_before,
        });
        if !more && self.room() > 0 {
            self.app_limited_until = self.delivered + self.in_flight;
        }
    }

    /// Everything up to update `seq` was applied.
    pub fn acked(&mut self, seq: u64, now: Micros) {
        let mut newest = None;
        while let Some(&sent) = self.sent.front() {
            if sent.seq > seq {
                break;
            }
            self.sent.pop_front();
            self.in_flight -= sent.bytes;
            self.delivered += sent.bytes;
            newest = Some(sent);
        }
        let Some(newest) = newest else { return };
        self.delivered_at = now;

        let elapsed = now.saturating_sub(newest.at).max(1);
        self.rtt_smooth = if self.rtt_min == Micros::MAX { elapsed } else { (self.rtt_smooth * 7 + elapsed) / 8 };
        // Without the time its own bytes took to pass. Half of it at most: the rate may be too low as yet, and a delay
        // taken for too short is not found out, while one taken for too long halves with every update.
        let own = (newest.bytes as f64 / self.best_rate().max(1e-6)) as Micros;
        let rtt = elapsed - own.min(elapsed / 2);
        let old = now.saturating_sub(self.rtt_min_at) > DELAY_AGE_MAX;
        // What was sent before the drain stood in the queue that is to be drained.
        let drained = self.draining.is_some_and(|since| newest.at > since);
        if rtt <= self.rtt_min || drained {
            self.rtt_min = rtt;
            self.rtt_min_at = now;
            self.draining = None;
        } else if old && !self.startup && self.draining.is_none() {
            self.draining = Some(now);
        }

        if newest.delivered >= self.round_ends_at_delivered {
            self.round += 1;
            self.round_ends_at_delivered = self.delivered;
            self.end_round(now);
        }
        // Over the longer of sending and acknowledging: acks that arrive in a bunch make no rate.
        let took = now.saturating_sub(newest.delivered_at).max(1);
        let rate = (self.delivered - newest.delivered) as f64 / took as f64;
        if !newest.idle_before || rate >= self.best_rate() {
            self.add_rate(rate);
        }
    }

    fn add_rate(&mut self, rate: f64) {
        while self.rates.back().is_some_and(|&(_, worse)| worse <= rate) {
            self.rates.pop_back();
        }
        // A worse one of the same round would never become the best: so there is one entry a round at most.
        if self.rates.back().is_none_or(|&(round, _)| round != self.round) {
            self.rates.push_back((self.round, rate));
        }
        while self.rates.len() > 1 && self.rates[0].0 + RATE_ROUNDS < self.round {
            self.rates.pop_front();
        }
    }

    fn end_round(&mut self, now: Micros) {
        if !self.startup {
            return;
        }
        let best = self.best_rate();
        if best >= self.startup_best * STARTUP_GROWTH {
            self.startup_best = best;
            self.startup_flat = 0;
        } else if self.app_limited_until <= self.delivered {
            self.startup_flat += 1;
            if self.startup_flat == STARTUP_ROUNDS {
                self.startup = false;
                // Finding the rate has filled the queue.
                self.draining = Some(now);
            }
        }
    }

    /// Checks what this file promises; for tests.
    ///
    /// # Panics
    /// When a promise is broken, with the promise in words.
    pub fn check_invariants(&self) {
        assert_eq!(self.in_flight, self.sent.iter().map(|sent| sent.bytes).sum::<u64>(), "what is under way is known");
        assert!(self.sent.len() <= UPDATES_IN_FLIGHT_MAX, "at most {UPDATES_IN_FLIGHT_MAX} updates are under way");
        assert!(self.rates.iter().zip(self.rates.iter().skip(1)).all(|(a, b)| a.1 > b.1), "the best rate is in front");
    }
}
