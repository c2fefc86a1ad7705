//! Path 6/13: beside scheduler.rs, which asks how many bytes may be sent. ledger.rs keeps what was
//! sent, and returns it with its fate.
//! One viewer's path: the bytes in flight, the rate, and how many more bytes keep it busy without
//! filling queues. Knows byte counts and times; never what the bytes mean.
//!
//! The viewer acknowledges an update once it has applied it, so "delivered" covers network and
//! viewer, and a slow viewer is a slow path. A transport that knows more reports it
//! ([`PathStats`]): the bytes that have arrived, exactly, and how many it would send now. The
//! estimate is BBR's: rate = delivered bytes over the time they took, the maximum of the last
//! rounds; delay = the minimum round trip of the last seconds. The bytes in flight are limited to
//! the rate times the delay plus [`QUEUE_TIME`], which is also how long an input response waits
//! behind them in queues outside the session.
//!
//! The kernel's TCP has a window of its own, which grows only while it is full, and begins again
//! after a pause. So a round that this window limited says nothing about the path: it never lowers
//! the rate, and while the delivered bytes still grow from round to round, the kernel decides. If
//! only acknowledgements tell, rounds that grow after a pause are taken for such ones.
//!
//! What the session or its host may send at most (rate_limit.rs) bounds how much may be sent now,
//! like a slower path. It never counts as one: when it rises, the path's rate is searched again.

use thinc_path_model::{BestRate, PROBE_GAIN, RATE_ROUNDS, Rounds, STARTUP_GROWTH, Startup};
use thinc_protocol::Micros;

use super::rate_limit::RateLimit;
use crate::figures::Histogram;
use crate::quality::RateEstimate;

/// Budget before a rate is known, if only acknowledgements tell: a first screen of text is sent at
/// once. It takes half a second at 1 Mbit/s, once.
pub(crate) const BUDGET_INITIAL_BYTES: u64 = 64 * 1024;
/// Least budget: 33 ms of 1 Mbit/s, and two updates in flight on any path.
pub(crate) const BUDGET_MIN_BYTES: u64 = 2 * UPDATE_BYTES_MIN;
/// Most bytes in flight. A loopback's rate times a frame time can be more, without a benefit.
pub(crate) const BUDGET_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// A third of a frame of a 60 Hz screen: how long bytes may wait in queues so that the path never
/// runs dry. Twice [`UPDATE_TIME`], since the bytes in flight fall by an update before the next
/// acknowledgement, and both ends take time. 8 ms would delay a keystroke's echo by 3 ms at 10
/// Mbit/s without a higher rate.
pub(crate) const QUEUE_TIME: Micros = 6_000;
/// Transfer time of one update, so that acknowledgements are frequent and an overtaking update
/// waits no longer than that.
const UPDATE_TIME: Micros = QUEUE_TIME / 2;
/// Least bytes of an update: below it headers and small dictionaries cost more than the time is
/// worth. 16 ms of 1 Mbit/s.
const UPDATE_BYTES_MIN: u64 = 2 * 1024;
/// Bytes of an update before a rate is known; then one is committed at a time and sent by itself.
/// What a new TCP connection may send at once.
const UPDATE_BYTES_INITIAL: u64 = 8 * 1024;
/// Updates' worth of bytes that may be committed and wait for room or for their encoders: one for
/// each worker.
const AHEAD_UPDATES: u64 = 4;
/// A third of a frame, twice the time to read, plan and encode a screen: how long before the path
/// would run dry the next update is committed. It adds to the age of the pixels.
const AHEAD_TIME: Micros = 5_000;
/// One frame of a 60 Hz screen: the longest a viewer may take to apply an update without counting
/// as slow.
const FRAME_TIME: Micros = 16_667;
/// Bytes that the real-time lane may send beyond the budget in one round trip, so that input never
/// waits for a photograph.
pub(crate) const REAL_TIME_RESERVE_BYTES: u64 = 16 * 1024;
/// Least bytes handed to the transport in one chunk, and the transfer time of larger ones: nothing
/// can overtake a chunk.
const CHUNK_BYTES_MIN: u64 = 8 * 1024;
const CHUNK_TIME: Micros = QUEUE_TIME / 4;
/// How much faster than the path's rate it is filled after a pause.
const PACE_GAIN: f64 = 1.25;
/// Most unacknowledged updates, which bounds the memory for them.
pub(crate) const UPDATES_IN_FLIGHT_MAX: usize = 512;
/// Rounds over which the best rate is remembered while the path has a queue: it has become slower.
const RATE_ROUNDS_FULL: u64 = 2;
/// Age at which the minimum round trip is measured again, with at most half the path's capacity in
/// flight, so that its queue drains (BBR: 10 s; BBRv2: half).
const DELAY_AGE_MAX: Micros = 10_000_000;
/// The path's own delay counts as grown if so many updates in a row that found the path idle take
/// longer than the minimum round trip and a queue, or if all updates do for so long.
const IDLE_SAMPLES: u8 = 2;
const DELAY_GROWN_AFTER: Micros = 500_000;
/// After a pause of this length the kernel's window may have begun again: its least retransmission
/// time-out (`tcp_slow_start_after_idle`).
const RESTART_AFTER: Micros = 200_000;
/// A later acknowledgement comes from a viewer that stalled, and tells nothing about the path.
const VIEWER_STALL_TIME: Micros = 1_000_000;
/// By how much the round trip exceeds its minimum when the path is full: an eighth of it within
/// these bounds (HyStart, RFC 9406 §4.2).
const FULL_QUEUE_MIN: Micros = 4_000;
const FULL_QUEUE_MAX: Micros = 16_000;
/// Round trip before one was measured: between continents. Only the real-time cap and the first
/// probe use it.
const RTT_UNKNOWN: Micros = 100_000;
/// Bytes of control messages (cursor images) before an update must follow to have them
/// acknowledged. Less than the least budget, or they could leave no room for that update.
pub(crate) const UNACCOUNTED_MAX: u64 = UPDATE_BYTES_MIN;

/// What a transport knows about its path, the kernel's TCP and QUIC alike. It may describe the
/// first hop only, as in front of a proxy: [`Flow`] uses it only if its round trip agrees with the
/// acknowledgements'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStats {
    /// Bytes handed to the transport that the other end has not acknowledged: in flight, or not yet
    /// sent.
    pub unacknowledged: u64,
    /// Bytes that the other end has acknowledged since the connection began.
    pub delivered: u64,
    /// The congestion window in bytes. Bytes handed over beyond it wait where they cannot be
    /// replaced.
    pub window: u64,
    /// Measured rate of the path in bytes a second, if the transport counts its packets and limits
    /// its window by the rate; 0 otherwise.
    pub rate: u64,
    /// Recent round trip, in microseconds.
    pub rtt: Micros,
    /// Recent minimum of the round trip.
    pub rtt_min: Micros,
    /// Bytes a second that the host lets this connection send now, headers included; `None` without
    /// a limit.
    pub share: Option<u64>,
}

/// An update's bytes in flight, and the path as it was when they were sent. Made by
/// [`Flow::sent`] and returned once its fate is known, so that the bytes in flight are those that
/// the ledger holds: never copied or dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Transmission {
    /// With the control messages before it.
    bytes: u64,
    pub(super) sent_at: Micros,
    /// `delivered` and its time, as they were when this was sent.
    delivered: u64,
    delivered_at: Micros,
    /// The transport's `delivered` when this was sent, if known.
    path_delivered: Option<u64>,
    /// The path had room and nothing to send: its rate is that of the application, not of the path.
    app_limited: bool,
    /// The kernel's window was full: the rate may be that of the window.
    window_limited: bool,
    /// Nothing was in flight: the round trip is the path's own.
    was_idle: bool,
}

/// The transport's statistics, and the bytes handed over since.
#[derive(Clone, Copy, Debug)]
struct PathState {
    stats: PathStats,
    handed: u64,
}

impl PathState {
    fn unacknowledged(&self) -> u64 {
        self.stats.unacknowledged + self.handed
    }

    /// The kernel's window limits what is sent: it counts no packets, and is full.
    fn is_window_full(&self) -> bool {
        self.stats.rate == 0 && self.unacknowledged() >= self.stats.window
    }
}

/// A round trip that shows a queue.
fn shows_queue(rtt: Micros, rtt_min: Micros) -> bool {
    rtt > rtt_min.saturating_add((rtt_min / 8).clamp(FULL_QUEUE_MIN, FULL_QUEUE_MAX))
}

/// One viewer's path.
#[derive(Debug)]
pub(crate) struct Flow {
    updates_in_flight: usize,
    in_flight: u64,
    /// Bytes of messages outside updates: they count with the next update.
    unaccounted: u64,
    delivered: u64,
    delivered_at: Micros,
    path: Option<PathState>,
    /// What the viewer has applied in the last rounds, in bytes a microsecond.
    rates: BestRate,
    /// The same in the last rounds that could have shown a higher rate: what bounds the bytes in
    /// flight.
    capacity: BestRate,
    /// Rounds that could have shown a higher rate, if the path had one.
    full_rounds: u64,
    /// The best rate of this round and of the one before, since the path was idle.
    round_rate: f64,
    round_rate_before: f64,
    /// A pause was long enough for the kernel's slow start to begin again, and since then each
    /// round has delivered more than the one before.
    restarted: bool,
    rtt_min: Micros,
    rtt_min_at: Micros,
    /// Updates in a row that found the path idle and took longer, and the least that they took.
    idle_late: u8,
    idle_rtt_min: Micros,
    /// Since when every round trip shows a queue longer than allowed.
    late_since: Option<Micros>,
    /// The transport's minimum round trip since the delay has grown.
    rtt_since_growth: Micros,
    rtt_smooth: Micros,
    /// Every round trip.
    round_trips: Histogram,
    /// The newest measurement, without the transfer time of its own bytes.
    rtt_newest: Micros,
    rounds: Rounds,
    startup: Startup,
    /// Since when the queue is drained, to measure the path's own delay.
    draining: Option<Micros>,
    /// Until this many bytes are delivered, the application limited the rate.
    app_limited_until: u64,
    /// When everything sent has drained, at the path's rate.
    drained_at: Micros,
    real_time_bytes: u64,
    real_time_since: Micros,
    limit: RateLimit,
}

impl Flow {
    /// A path of which nothing is known.
    pub(crate) fn new(now: Micros) -> Flow {
        Flow {
            updates_in_flight: 0,
            in_flight: 0,
            unaccounted: 0,
            delivered: 0,
            delivered_at: now,
            path: None,
            rates: BestRate::default(),
            capacity: BestRate::default(),
            full_rounds: 0,
            round_rate: 0.0,
            round_rate_before: 0.0,
            restarted: false,
            rtt_min: Micros::MAX,
            rtt_min_at: now,
            idle_late: 0,
            idle_rtt_min: Micros::MAX,
            late_since: None,
            rtt_since_growth: Micros::MAX,
            rtt_smooth: RTT_UNKNOWN,
            round_trips: Histogram::default(),
            rtt_newest: 0,
            rounds: Rounds::default(),
            startup: Startup::default(),
            draining: None,
            app_limited_until: 0,
            drained_at: now,
            real_time_bytes: 0,
            real_time_since: now,
            limit: RateLimit::new(),
        }
    }

    /// Bytes sent and not acknowledged.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Since when nothing in flight was acknowledged; None if nothing is in flight.
    pub(crate) fn unacked_since(&self) -> Option<Micros> {
        (self.in_flight > 0).then_some(self.delivered_at)
    }

    /// Smoothed round trip, including the viewer's work.
    pub(crate) fn rtt(&self) -> Micros {
        self.rtt_smooth
    }

    /// Round trips of all updates that were acknowledged first, including the viewer's work.
    pub(crate) fn round_trips(&self) -> &Histogram {
        &self.round_trips
    }

    /// Best rate of the last rounds in bytes a second; 0 before one was measured.
    pub(crate) fn rate(&self) -> u64 {
        (self.best_rate() * 1e6) as u64
    }

    /// The rate, and whether the path was ever full.
    pub(crate) fn measured_rate(&self) -> RateEstimate {
        match self.rate() {
            0 => RateEstimate::Unknown,
            rate if self.startup.is_open() && !self.reaches_limit(rate) => {
                RateEstimate::AtLeast(rate)
            }
            rate => RateEstimate::Measured(rate),
        }
    }

    /// Nothing faster could be measured under the limit, which counts headers too.
    fn reaches_limit(&self, rate: u64) -> bool {
        self.limit.rate().is_some_and(|limit| rate >= limit / 4 * 3)
    }

    /// The best rate that was measured, or less if no more may be sent.
    fn best_rate(&self) -> f64 {
        self.within_limit(self.rates.best())
    }

    /// Bytes a microsecond, at most those of the limit.
    fn within_limit(&self, rate: f64) -> f64 {
        self.limit.rate().map_or(rate, |limit| rate.min(limit as f64 / 1e6))
    }

    /// The session gives this viewer so many bytes a second; `None`: without a limit.
    pub(crate) fn set_session_share(&mut self, share: Option<u64>) {
        self.change_limit(|limit| limit.set_by_session(share));
    }

    fn change_limit(&mut self, change: impl FnOnce(&mut RateLimit)) {
        let before = self.limit.rate();
        let was_reached = self.reaches_limit((self.rates.best() * 1e6) as u64);
        change(&mut self.limit);
        let rises = match (before, self.limit.rate()) {
            (Some(before), Some(after)) => after as f64 > before as f64 * STARTUP_GROWTH,
            (before, None) => before.is_some(),
            (None, Some(_)) => false,
        };
        // A path that is slower than the old limit is not faster for the new one.
        if rises && was_reached && !self.startup.is_open() {
            self.startup.begin(self.rates.best());
        }
    }

    /// Bytes of packets that were sent since the last call, if there is a limit.
    pub(crate) fn take_spent(&mut self) -> u64 {
        self.limit.take_spent()
    }

    /// The transport's current statistics, if it has any, with everything counted that was passed
    /// to [`Flow::sent`].
    pub(crate) fn handle_path(&mut self, stats: Option<PathStats>) {
        self.path = stats.map(|stats| PathState { stats, handed: 0 });
        if let Some(PathStats { share, .. }) = stats {
            self.change_limit(|limit| limit.set_by_host(share));
        }
    }

    /// The transport's statistics, if they describe the whole path.
    fn path(&self) -> Option<&PathState> {
        self.path.as_ref().filter(|path| self.path_rtt_min(path).is_some())
    }

    /// The minimum round trip that the transport reports; the recent one if the delay has grown
    /// since, which a kernel notices after minutes. None if the acknowledgements take longer than
    /// both: the transport ends at a proxy.
    fn path_rtt_min(&self, path: &PathState) -> Option<Micros> {
        let PathStats { rtt, rtt_min, .. } = path.stats;
        let agrees = |rtt: Micros| self.rtt_min <= rtt + FRAME_TIME.max(rtt / 4);
        if self.rtt_min == Micros::MAX || agrees(rtt_min) {
            return Some(rtt_min);
        }
        agrees(rtt).then(|| rtt.min(self.rtt_since_growth))
    }

    /// The path's queue is longer than the path needs to be full.
    fn shows_queue(&self) -> bool {
        match &self.path {
            Some(path) if self.path().is_some() => shows_queue(path.stats.rtt, self.delay()),
            _ => shows_queue(self.rtt_newest, self.rtt_min),
        }
    }

    /// The path's rate in bytes a microsecond: the transport's, or more if the viewer has applied
    /// more.
    fn path_rate(&self) -> f64 {
        let counted = self.path().map_or(0.0, |path| path.stats.rate as f64 / 1e6);
        self.within_limit(counted).max(self.best_rate())
    }

    /// What bounds the bytes in flight, in bytes a microsecond. If only acknowledgements tell, a
    /// window cannot be told from the path.
    fn carried_rate(&self) -> f64 {
        match self.path() {
            Some(_) => self.path_rate().max(self.within_limit(self.capacity.best())),
            None => self.path_rate(),
        }
    }

    /// A lost packet counts as in flight until the loss is detected, and bytes behind it are
    /// applied only after the retransmission: neither means that the path is full. A transport that
    /// counts packets knows, and limits its window by the rate.
    fn has_packet_counts(&self) -> bool {
        self.path().is_some_and(|path| path.stats.rate > 0)
    }

    /// The path's own round trip.
    fn delay(&self) -> Micros {
        match self.path.as_ref().and_then(|path| self.path_rtt_min(path)) {
            Some(rtt_min) => rtt_min,
            None if self.rtt_min == Micros::MAX => RTT_UNKNOWN,
            None => self.rtt_min,
        }
    }

    /// Longest time that bytes may wait in queues: on slow paths the transfer time of two updates.
    fn queue_time(&self) -> Micros {
        QUEUE_TIME.max((BUDGET_MIN_BYTES as f64 / self.path_rate().max(1e-3)) as Micros)
    }

    /// Most bytes in flight, including the path's queues.
    pub(crate) fn budget(&self) -> u64 {
        let rate = self.carried_rate();
        let delay = self.delay();
        if self.draining.is_some() {
            return ((rate * delay as f64) as u64 / 2).clamp(BUDGET_MIN_BYTES, BUDGET_MAX_BYTES);
        }
        let full = rate * (delay + self.queue_time()) as f64;
        let probes = self.probes_in(self.rounds.number());
        let bytes = match (self.startup.is_open(), self.path()) {
            // As fast as the transport's own slow start.
            (true, Some(_)) => u64::MAX,
            (true, None) => ((full * 2.0) as u64).max(BUDGET_INITIAL_BYTES),
            (false, _) if self.has_packet_counts() => u64::MAX,
            (false, _) => (full * if probes { PROBE_GAIN } else { 1.0 }) as u64,
        };
        // One update more than the window, so that there is data when the next byte may be sent.
        let window =
            self.path().map_or(BUDGET_MAX_BYTES, |path| path.stats.window + self.update_bytes());
        bytes.min(window).clamp(BUDGET_MIN_BYTES, BUDGET_MAX_BYTES)
    }

    /// True if a round sends more than the path is known to carry.
    fn probes_in(&self, round: u64) -> bool {
        Rounds::probes(round, self.delay(), QUEUE_TIME)
    }

    /// Most bytes sent and not acknowledged. If the transport reports its bytes in flight, bytes
    /// that have arrived and are still to be applied may be a frame's time more, and only a slow
    /// viewer meets this bound.
    fn unacknowledged_max(&self) -> u64 {
        let budget = self.budget();
        if self.path().is_none() || self.draining.is_some() {
            return budget;
        }
        let applying = (self.best_rate() * FRAME_TIME as f64) as u64;
        // Bytes behind a lost packet wait for the retransmission, a round trip after it was sent.
        let behind_loss = if self.has_packet_counts() { budget } else { budget / 4 };
        let most = (budget + behind_loss + applying.max(BUDGET_MIN_BYTES)).min(BUDGET_MAX_BYTES);
        if !self.startup.is_open() || applying == 0 {
            return most;
        }
        // Slow start doubles the bytes in flight each round, and so may the viewer. Only this bound
        // detects a viewer that has stopped reading: its transport still takes data.
        let doubled = (2.0 * self.best_rate() * (self.delay() + FRAME_TIME) as f64) as u64;
        most.min(doubled.max(BUDGET_INITIAL_BYTES))
    }

    /// Bytes of one update, if it can be cut, so that several are in flight and each measures the
    /// path.
    pub(crate) fn update_bytes(&self) -> u64 {
        let rate = self.best_rate();
        if rate == 0.0 {
            let limited =
                self.limit.rate().map_or(u64::MAX, |limit| limit * UPDATE_TIME / 1_000_000);
            return limited.clamp(UPDATE_BYTES_MIN, UPDATE_BYTES_INITIAL);
        }
        ((rate * UPDATE_TIME as f64) as u64).clamp(UPDATE_BYTES_MIN, BUDGET_MAX_BYTES / 4)
    }

    /// Bytes that may be handed to the transport at once. It gets the next chunk once they were
    /// sent, and urgent updates go in between.
    pub(crate) fn chunk_bytes(&self) -> usize {
        let rate = self.path_rate();
        let least = if rate == 0.0 { UPDATE_BYTES_MIN } else { CHUNK_BYTES_MIN };
        ((rate * CHUNK_TIME as f64) as u64).max(least) as usize
    }

    /// Bytes that may be sent now.
    pub(crate) fn room(&self, now: Micros) -> u64 {
        // All bytes in flight may wait in one queue: after a pause the path is filled no faster
        // than it drains.
        let gap = (now + self.queue_time()).saturating_sub(self.drained_at(now));
        let pace = self.pace().map_or(u64::MAX, |pace| (pace * gap as f64) as u64);
        self.room_within(0).min(pace).min(self.limit.room(now))
    }

    /// When everything sent has drained. If everything was acknowledged it has, even if the
    /// estimated rate was too low.
    fn drained_at(&self, now: Micros) -> Micros {
        if self.in_flight == 0 { self.drained_at.min(now) } else { self.drained_at }
    }

    /// Bytes a microsecond at which the path is filled after a pause: a little more than its rate,
    /// or new capacity would not be found. None during slow start.
    fn pace(&self) -> Option<f64> {
        // A path that is full from the start ends slow start before the first measurement.
        let rate = self.carried_rate();
        (!self.startup.is_open() && rate > 0.0).then_some(rate * PACE_GAIN)
    }

    /// Bytes a microsecond that are sent now: the path's rate, or less if the transport's window is
    /// small. None if nothing is known.
    fn drain_rate(&self) -> Option<f64> {
        let window = self.path().map(|path| path.stats.window as f64 / self.delay().max(1) as f64);
        let rate = Some(self.path_rate()).filter(|&rate| rate > 0.0);
        match window {
            // Before the path was full, its rate is what the application sent.
            Some(window) if self.startup.is_open() => Some(window),
            Some(window) => Some(rate.map_or(window, |rate| rate.min(window))),
            None => rate,
        }
    }

    /// Bytes a second that the transport's window and the limit allow now, if there are any.
    pub(crate) fn window_rate(&self) -> u64 {
        let window =
            self.path().map(|path| path.stats.window as f64 * 1e6 / self.delay().max(1) as f64);
        let window = window.map_or(u64::MAX, |rate| rate as u64);
        window.min(self.limit.rate().unwrap_or(u64::MAX))
    }

    /// How long data sent behind `bytes` unsent bytes will wait in queues, the transport's
    /// included, or for the limit.
    pub(crate) fn queueing_delay(&self, bytes: u64, now: Micros) -> Micros {
        let limited = self.limit.delay(bytes, now);
        let Some(rate) = self.drain_rate() else { return limited };
        let waiting = self.path().map_or(self.in_flight, PathState::unacknowledged) + bytes;
        ((waiting as f64 / rate.max(1e-6)) as Micros).saturating_sub(self.delay()).max(limited)
    }

    /// When there is room for the next update without an acknowledgement; None if only that helps.
    pub(crate) fn room_at(&self, now: Micros) -> Option<Micros> {
        let update = self.update_bytes();
        if self.room(now) >= update || self.room_within(0) < update {
            return None;
        }
        let paced = self.pace().map(|pace| {
            (self.drained_at(now) + (update as f64 / pace) as Micros)
                .saturating_sub(self.queue_time())
        });
        let limited = self.limit.room_at(update);
        paced.into_iter().chain(limited).max().map(|at| at.max(now))
    }

    fn room_within(&self, reserve: u64) -> u64 {
        if self.updates_in_flight >= UPDATES_IN_FLIGHT_MAX {
            return 0;
        }
        let left =
            (self.unacknowledged_max() + reserve).saturating_sub(self.in_flight + self.unaccounted);
        match self.path() {
            Some(path) => left.min((self.budget() + reserve).saturating_sub(path.unacknowledged())),
            None => left,
        }
    }

    /// True if an update of so many bytes may be sent. One that is larger than planned need not fit
    /// whole, or the path would run dry.
    pub(crate) fn may_send(&self, bytes: u64, now: Micros) -> bool {
        let room = self.room(now);
        room > 0 && (room >= bytes.min(self.update_bytes()) || self.in_flight == 0)
    }

    /// Bytes that may be committed and not yet sent: the room, and some ahead, so that they are
    /// encoded in time.
    pub(crate) fn commit_room(&self, now: Micros) -> u64 {
        let (rate, update) = (self.best_rate(), self.update_bytes());
        let ahead = update.max((rate * AHEAD_TIME as f64) as u64);
        (self.room(now) + ahead).min(if rate == 0.0 { update } else { update * AHEAD_UPDATES })
    }

    /// True while the real-time lane and cursors may be sent, which may use a reserve above the
    /// budget. Time does not widen the reserve, or data for a viewer that never acknowledges would
    /// grow without limit.
    pub(crate) fn may_send_real_time(&self, now: Micros) -> bool {
        self.room_within(REAL_TIME_RESERVE_BYTES) > 0 && self.limit.allows_real_time(now)
    }

    /// Bytes that the real-time lane may commit now: the rest of its cap for this round trip.
    pub(crate) fn real_time_room(&mut self, now: Micros) -> u64 {
        if now.saturating_sub(self.real_time_since) >= self.delay() {
            self.real_time_since = now;
            self.real_time_bytes = 0;
        }
        if !self.limit.allows_real_time(now) {
            return 0;
        }
        let above = self.room_within(REAL_TIME_RESERVE_BYTES);
        above.min(REAL_TIME_RESERVE_BYTES.saturating_sub(self.real_time_bytes))
    }

    /// The real-time lane used some of its cap.
    pub(crate) fn spend_real_time(&mut self, bytes: u64) {
        self.real_time_bytes += bytes;
    }

    /// Of what was sent, so many bytes are of the real-time lane, or sound.
    pub(crate) fn sent_in_real_time(&mut self, bytes: u64, now: Micros) {
        self.limit.sent_in_real_time(bytes, now);
    }

    /// A message outside updates was sent.
    pub(crate) fn control_sent(&mut self, bytes: u64, now: Micros) {
        self.unaccounted += bytes;
        self.hand_over(bytes);
        self.limit.sent(bytes, now);
    }

    fn hand_over(&mut self, bytes: u64) {
        if let Some(path) = &mut self.path {
            path.handed += bytes;
        }
    }

    /// True if so many bytes were sent outside updates that an update must follow, for its
    /// acknowledgement. It is sent whatever the budget, since nothing else would acknowledge them.
    pub(crate) fn wants_marker(&self) -> bool {
        self.unaccounted > UNACCOUNTED_MAX && self.updates_in_flight < UPDATES_IN_FLIGHT_MAX
    }

    /// An update was sent. `more`: something else waits for room.
    pub(super) fn sent(&mut self, bytes: u64, more: bool, now: Micros) -> Transmission {
        let was_idle = self.in_flight == 0;
        if was_idle {
            // The path was idle: the time before now tells nothing about its rate, nor do bytes
            // delivered before this update is acknowledged.
            if now.saturating_sub(self.delivered_at) > RESTART_AFTER {
                (self.round_rate, self.round_rate_before) = (0.0, 0.0);
                self.restarted = true;
            }
            self.delivered_at = now;
            self.app_limited_until = self.app_limited_until.max(self.delivered + 1);
        }
        self.hand_over(bytes);
        self.limit.sent(bytes, now);
        let pace = self.pace().unwrap_or(f64::INFINITY);
        self.drained_at = self.drained_at(now).max(now) + (bytes as f64 / pace) as Micros;
        let bytes = bytes + std::mem::take(&mut self.unaccounted);
        let app_limited = self.app_limited_until > self.delivered;
        let window_limited = self.path().is_some_and(PathState::is_window_full);
        self.in_flight += bytes;
        self.updates_in_flight += 1;
        let transmission = Transmission {
            bytes,
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            path_delivered: self.path().map(|path| path.stats.delivered),
            app_limited,
            window_limited,
            was_idle,
        };
        if !more && self.room_within(0) > 0 {
            self.app_limited_until = self.delivered + self.in_flight;
        }
        transmission
    }

    /// These were applied, in any order; the newest is the last.
    pub(super) fn applied(
        &mut self,
        transmissions: impl Iterator<Item = Transmission>,
        now: Micros,
    ) {
        let mut newest = None;
        for transmission in transmissions {
            self.updates_in_flight -= 1;
            self.in_flight -= transmission.bytes;
            self.delivered += transmission.bytes;
            newest = Some(transmission);
        }
        let Some(newest) = newest else { return };
        self.delivered_at = now;
        self.measure_delay(&newest, now);
        if self.rounds.acknowledged(newest.delivered, self.delivered) {
            self.end_round(&newest, now);
        }
        // Over the time between two acknowledgements: the first may have been late and cumulative.
        let took = now.saturating_sub(newest.delivered_at).max(1);
        let mut rate = (self.delivered - newest.delivered) as f64 / took as f64;
        if let (Some(path), Some(before)) = (self.path(), newest.path_delivered) {
            // Exact; but a nearby proxy, or the viewer's own buffers, can take more than the viewer
            // applies.
            let took = now.saturating_sub(newest.sent_at).max(1);
            rate = rate.min(path.stats.delivered.saturating_sub(before) as f64 / took as f64);
        }
        self.round_rate = self.round_rate.max(rate);
        // A queue longer than allowed shows that the best rate is too high; but after a pause bytes
        // wait for the kernel's window, which grows to what it was.
        let late = !self.has_packet_counts() && self.is_late(self.rtt_newest) && !self.restarts();
        let rounds = if late { RATE_ROUNDS_FULL } else { RATE_ROUNDS };
        if !newest.app_limited || rate >= self.rates.best() {
            self.rates.add(rate, self.rounds.number(), rounds);
        }
        if !self.was_limited(&newest) || rate >= self.capacity.best() {
            self.capacity.add(rate, self.full_rounds, rounds);
        }
    }

    /// It is no longer in flight: lost, or applied at an unknown time.
    pub(super) fn remove(&mut self, transmission: Transmission) {
        self.updates_in_flight -= 1;
        self.in_flight -= transmission.bytes;
    }

    fn measure_delay(&mut self, newest: &Transmission, now: Micros) {
        let elapsed = now.saturating_sub(newest.sent_at).max(1);
        self.round_trips.observe(elapsed);
        self.rtt_smooth =
            if self.rtt_min == Micros::MAX { elapsed } else { (self.rtt_smooth * 7 + elapsed) / 8 };
        // Without the transfer time of its own bytes, half of it at most: the rate may still be too
        // low, and a delay that is too short is never corrected, while one that is too long halves
        // with every update.
        // A limit is no transfer time.
        let transfer_time = (newest.bytes as f64 / self.rates.best().max(1e-6)) as Micros;
        let rtt = elapsed - transfer_time.min(elapsed / 2);
        self.rtt_newest = rtt;
        if let Some(path) = &self.path {
            self.rtt_since_growth = self.rtt_since_growth.min(path.stats.rtt);
        }
        if elapsed < VIEWER_STALL_TIME {
            self.delay_grown(newest.was_idle, rtt, now);
        }
        let late = self.late_since.is_some_and(|since| now - since > DELAY_GROWN_AFTER);
        let old = late || now.saturating_sub(self.rtt_min_at) > DELAY_AGE_MAX;
        // Data sent before the drain waited in the queue that is being drained.
        let drained = self.draining.is_some_and(|since| newest.sent_at > since);
        // If the transport measures the delay, this one only has to agree.
        let measured = newest.was_idle && elapsed < VIEWER_STALL_TIME || self.path().is_some();
        if rtt <= self.rtt_min || drained || old && measured {
            self.set_rtt_min(rtt, now);
            if late {
                self.begin_again();
            }
        } else if elapsed > self.rtt_min + VIEWER_STALL_TIME {
            // The current stall was long enough: the delay is measured a while later.
            self.rtt_min_at = self.rtt_min_at.max(now - DELAY_AGE_MAX.min(now) + VIEWER_STALL_TIME);
        } else if old && !self.startup.is_open() && self.draining.is_none() {
            self.draining = Some(now);
        }
    }

    fn set_rtt_min(&mut self, rtt: Micros, now: Micros) {
        (self.rtt_min, self.rtt_min_at) = (rtt, now);
        (self.idle_late, self.idle_rtt_min, self.late_since) = (0, Micros::MAX, None);
        self.draining = None;
    }

    /// A longer path shows in round trips that had no queue of this viewer's: several in a row make
    /// their minimum the delay. Without such ones, all of half a second must be longer; then the
    /// queue is drained and the delay measured. A slow viewer and a lost packet delay
    /// acknowledgements too, but not the transport's round trips.
    fn delay_grown(&mut self, was_idle: bool, rtt: Micros, now: Micros) {
        // The transport's is smoothed, and follows over several acknowledgements.
        let reported = self.path().map_or(rtt, |path| path.stats.rtt);
        let (seen, known) = (rtt.min(reported), self.rtt_known());
        if seen <= 2 * (known.min(seen) + 2 * self.queue_time()) {
            self.late_since = None;
        } else if self.late_since.is_none() {
            self.late_since = Some(now);
        }
        if !shows_queue(seen, known) {
            (self.idle_late, self.idle_rtt_min) = (0, Micros::MAX);
        } else if was_idle {
            self.idle_late += 1;
            self.idle_rtt_min = self.idle_rtt_min.min(rtt).min(reported + FRAME_TIME);
            if self.idle_late == IDLE_SAMPLES {
                self.set_rtt_min(self.idle_rtt_min, now);
                self.begin_again();
            }
        }
    }

    /// The minimum round trip: an estimate from acknowledgements may be too short.
    fn rtt_known(&self) -> Micros {
        self.path().map_or(self.rtt_min, |_| self.rtt_min.max(self.delay()))
    }

    /// Until the delay was found to have grown, a long path looked like a full one.
    fn begin_again(&mut self) {
        if let Some(rtt) = self.path().map(|path| path.stats.rtt) {
            self.rtt_since_growth = rtt;
            self.startup.begin(0.0);
        }
    }

    /// The queue of this round trip is longer than allowed.
    fn is_late(&self, rtt: Micros) -> bool {
        let least = self.rtt_known();
        rtt > least.saturating_add(least / 4 + 2 * self.queue_time())
    }

    /// Not the path limited its rate: the application did, or the kernel's window, which fills no
    /// queue or still grows.
    fn was_limited(&self, sent: &Transmission) -> bool {
        sent.app_limited || sent.window_limited && (!self.shows_queue() || self.grows())
    }

    /// The kernel's window may still grow after a pause, and no statistics tell.
    fn restarts(&self) -> bool {
        self.restarted && self.path().is_none()
    }

    /// More was delivered in this round than in the one before.
    fn grows(&self) -> bool {
        self.round_rate >= self.round_rate_before * STARTUP_GROWTH
    }

    /// `newest` ended the round.
    fn end_round(&mut self, newest: &Transmission, now: Micros) {
        let (limited, growing) = (self.was_limited(newest), self.grows());
        self.restarted &= growing;
        self.round_rate_before = std::mem::take(&mut self.round_rate);
        if !limited && !growing || self.is_late(self.rtt_newest) {
            self.full_rounds += 1;
        }
        if self.app_limited_until >= self.delivered {
            return;
        }
        let best = self.rates.best();
        if !self.startup.is_open() {
            // What was sent in a probing round was acknowledged in the round that has ended.
            let probed =
                self.path().is_some() && self.probes_in(self.rounds.number().wrapping_sub(2));
            if probed && !limited && !self.shows_queue() {
                self.startup.begin(best);
            }
            return;
        }
        self.startup.round_ended(best);
        if self.path().is_some() && !growing && self.shows_queue() {
            self.startup.end();
        }
        if !self.startup.is_open() && self.path().is_none() {
            // Slow start has filled the queue, and the first delays were measured without a rate.
            self.draining = Some(now);
        }
    }

    /// Checks the invariants of this file, with all that is in flight; for tests.
    ///
    /// # Panics
    /// If an invariant does not hold; the message states it.
    pub(super) fn check_invariants<'a>(
        &self,
        in_flight: impl Iterator<Item = &'a Transmission> + Clone,
    ) {
        assert_eq!(
            self.in_flight,
            in_flight.clone().map(|transmission| transmission.bytes).sum::<u64>(),
            "the bytes in flight are counted"
        );
        assert_eq!(self.updates_in_flight, in_flight.count(), "and the updates");
        assert!(
            self.updates_in_flight <= UPDATES_IN_FLIGHT_MAX,
            "at most {UPDATES_IN_FLIGHT_MAX} updates are in flight"
        );
        assert!(self.rates.is_falling() && self.capacity.is_falling(), "the best rate is in front");
    }
}

#[cfg(test)]
mod tests;
