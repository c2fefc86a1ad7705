//! Path 6/13: beside scheduler.rs, which asks how many bytes may go.
//! One viewer's path: what is under way, how fast it drains, and how much more keeps it busy without filling queues.
//! Knows byte counts and times; never what the bytes are.
//!
//! The viewer acknowledges an update when it has applied it, so "delivered" covers network and viewer both, and a slow
//! viewer is a slow path. A transport that knows more says so ([`PathFigures`]): which bytes have arrived, to the byte, and
//! how many it would send now. The estimate is BBR's (rate = delivered bytes over the time they took, the largest of the
//! last rounds; delay = the smallest round trip of the last seconds). What may be under way is the delay's worth of bytes
//! and [`QUEUE_TIME`]'s worth more, and that is how long an answer to a hand stands behind them in queues we do not see.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use thinc_protocol::Micros;

use crate::quality::Rate;

/// Budget before anything is known, where only acknowledgements tell: a first screen of text goes out at once, and it
/// costs 1 Mbit/s half a second, once.
pub const BUDGET_INITIAL_BYTES: u64 = 64 * 1024;
/// Least budget: 33 ms of 1 Mbit/s, and two updates under way on any path.
pub const BUDGET_MIN_BYTES: u64 = 2 * UPDATE_BYTES_MIN;
/// Most that may be under way; a loopback's rate times a frame time can be more, and gains nothing by it.
pub const BUDGET_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// A third of a frame of a 60 Hz screen: how long bytes may stand in queues for the sake of never running dry. Twice
/// [`UPDATE_TIME`], since what is under way is lower by an update when the next acknowledgement comes, and this machine
/// and the viewer take their time as well. With 8 ms a key at 10 Mbit/s was answered 3 ms later, the path no fuller.
pub const QUEUE_TIME: Micros = 6_000;
/// How long one update may take to pass, so that acknowledgements come often and whatever overtakes waits for no more.
const UPDATE_TIME: Micros = QUEUE_TIME / 2;
/// Least bytes of an update: below it heads and small dictionaries cost more than the time is worth; 16 ms of 1 Mbit/s.
const UPDATE_BYTES_MIN: u64 = 2 * 1024;
/// Bytes of an update before a rate is known; one is committed at a time then, and leaves by itself: what a new TCP connection may send
/// at once, and so the first that is shown.
const UPDATE_BYTES_INITIAL: u64 = 8 * 1024;
/// Updates' worth of bytes that may be committed and wait for room or for their encoders: enough for every worker to have
/// one.
const AHEAD_UPDATES: u64 = 4;
/// A third of a frame: what to read, plan and encode a screen takes, twice over, and so how long before the path would run dry the
/// next is committed. All of it is age of what is shown.
const AHEAD_TIME: Micros = 5_000;
/// One frame of a 60 Hz screen: how much a viewer may take to apply what has reached it, and be no slow viewer.
const FRAME_TIME: Micros = 16_667;
/// What the real-time lane may send beyond the budget in one round trip, so that a hand never waits for a photograph.
pub const REAL_TIME_RESERVE_BYTES: u64 = 16 * 1024;
/// Least bytes handed to the transport in one chunk, and how much of the path's time larger ones may hold: what has left
/// can be overtaken no more.
const CHUNK_BYTES_MIN: u64 = 8 * 1024;
const CHUNK_TIME: Micros = QUEUE_TIME / 4;
/// How much faster than the path's rate a pause is filled up.
const PACE_GAIN: f64 = 1.25;
/// Most updates without acknowledgement: bounds what is remembered about them.
pub const UPDATES_IN_FLIGHT_MAX: usize = 512;
/// Rounds over which the best rate is remembered (BBR: 10).
const RATE_ROUNDS: u64 = 10;
/// The same while a queue stands on the path: it has become slower.
const RATE_ROUNDS_FULL: u64 = 2;
/// Age at which the smallest round trip is measured anew, with no more under way than half the path holds, so that its
/// queue runs dry (BBR: 10 s; BBRv2: half).
const DELAY_AGE_MAX: Micros = 10_000_000;
/// An acknowledgement so late tells of a viewer that stood still, and nothing of the path.
const STANDSTILL: Micros = 1_000_000;
/// Growth in one round below which the path counts as full (BBR: 1.25), and how many rounds in a row (BBR: 3).
const STARTUP_GROWTH: f64 = 1.25;
const STARTUP_ROUNDS: u32 = 3;
/// By how much more than the smallest round trip a path's queue shows that it is full: an eighth of it within these
/// bounds (HyStart, RFC 9406 §4.2).
const FULL_QUEUE_MIN: Micros = 4_000;
const FULL_QUEUE_MAX: Micros = 16_000;
/// One round in this many sends a quarter more, to find what a long path has gained. A short one, whose delay is no
/// more than this many times [`QUEUE_TIME`], finds it by that alone.
const PROBE_EVERY: u64 = 8;
/// A round trip before one was measured: between continents; only the real-time cap and the first probe use it.
const RTT_UNKNOWN: Micros = 100_000;
/// Control messages (cursor images) that may go before an update must follow to have them acknowledged. Less than the
/// least budget, or they could leave no room for the update that gives it back.
pub const UNACCOUNTED_MAX: u64 = UPDATE_BYTES_MIN;

/// What a transport knows of its path, the kernel's TCP and QUIC alike. It may speak of the first hop alone, as before a
/// proxy: [`Flow`] believes it only where its round trip agrees with the acknowledgements'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFigures {
    /// Bytes handed over that the other end has not confirmed: under way, or not yet sent.
    pub in_flight: u64,
    /// Bytes the other end has confirmed since the connection began.
    pub delivered: u64,
    /// Bytes the transport's own congestion control would have under way now; what is handed over beyond them stands
    /// where nothing can replace it.
    pub window: u64,
    /// Bytes a second that the path was measured to carry, where the transport counts its packets and its window is bounded by it;
    /// 0 otherwise.
    pub rate: u64,
    /// Round trip lately, in microseconds.
    pub rtt: Micros,
    /// Smallest round trip lately.
    pub rtt_min: Micros,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    bytes: u64,
    at: Micros,
    /// `delivered` and when, as it was when this was sent.
    delivered: u64,
    delivered_at: Micros,
    /// The path's `delivered` when this was sent, where it was known.
    path_delivered: Option<u64>,
    /// The path had room left and nothing to carry: its rate says what we had, not what it can.
    app_limited: bool,
    /// Nothing was under way: its round trip is the path's own.
    alone: bool,
}

/// Figures, and what was handed over since they were read.
#[derive(Clone, Copy, Debug)]
struct Path {
    figures: PathFigures,
    handed: u64,
}

impl Path {
    fn in_flight(&self) -> u64 {
        self.figures.in_flight + self.handed
    }

    /// Its queue shows in its round trip.
    fn is_full(&self) -> bool {
        let PathFigures { rtt, rtt_min, .. } = self.figures;
        rtt > rtt_min + (rtt_min / 8).clamp(FULL_QUEUE_MIN, FULL_QUEUE_MAX)
    }
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
    path: Option<Path>,
    /// (round, bytes per microsecond), falling from front to back: the front is the best of the last rounds.
    rates: VecDeque<(u64, f64)>,
    rtt_min: Micros,
    rtt_min_at: Micros,
    rtt_smooth: Micros,
    /// The newest measurement, without the time its own bytes took.
    rtt_newest: Micros,
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
    /// When all that was sent has left, at the path's rate.
    leaves_at: Micros,
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
            path: None,
            rates: VecDeque::new(),
            rtt_min: Micros::MAX,
            rtt_min_at: now,
            rtt_smooth: RTT_UNKNOWN,
            rtt_newest: 0,
            round: 0,
            round_ends_at_delivered: 0,
            startup: true,
            startup_best: 0.0,
            startup_flat: 0,
            draining: None,
            app_limited_until: 0,
            leaves_at: now,
            real_time_bytes: 0,
            real_time_since: now,
        }
    }

    /// Bytes sent and not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Since when nothing has come back of what is under way; None where nothing is.
    pub(crate) fn waits_since(&self) -> Option<Micros> {
        (self.in_flight > 0).then_some(self.delivered_at)
    }

    /// When the last left of what is under way.
    pub(crate) fn last_sent(&self) -> Micros {
        self.sent.back().map_or(0, |sent| sent.at)
    }

    /// Smoothed round trip, the viewer's work included.
    pub fn rtt(&self) -> Micros {
        self.rtt_smooth
    }

    /// Best rate of the last rounds, in bytes a second; 0 before one was measured.
    pub fn rate(&self) -> u64 {
        (self.best_rate() * 1e6) as u64
    }

    /// The rate, and whether the path was ever full.
    pub(crate) fn measured_rate(&self) -> Rate {
        match self.rate() {
            0 => Rate::Unknown,
            rate if self.startup => Rate::AtLeast(rate),
            rate => Rate::Measured(rate),
        }
    }

    fn best_rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |&(_, rate)| rate)
    }

    /// What the transport says now, where it says anything; everything that [`Flow::sent`] was told of counts in it.
    pub fn handle_path(&mut self, figures: Option<PathFigures>) {
        self.path = figures.map(|figures| Path { figures, handed: 0 });
    }

    /// The transport's figures, where they speak of the whole path.
    fn path(&self) -> Option<&Path> {
        let path = self.path.as_ref()?;
        let further = FRAME_TIME.max(path.figures.rtt_min / 4);
        (self.rtt_min == Micros::MAX || self.rtt_min <= path.figures.rtt_min + further).then_some(path)
    }

    /// Bytes a microsecond that the path carries: what its transport counts, or more where the viewer has applied more.
    fn path_rate(&self) -> f64 {
        let counted = self.path().map_or(0.0, |path| path.figures.rate as f64 / 1e6);
        counted.max(self.best_rate())
    }

    /// What is lost counts as under way until it is missed, and what came behind it is not applied before it is there again: neither
    /// says that the path is full. Who counts packets knows, and bounds its window by that.
    fn is_counted(&self) -> bool {
        self.path().is_some_and(|path| path.figures.rate > 0)
    }

    /// The path's own round trip.
    fn delay(&self) -> Micros {
        match self.path() {
            Some(path) => path.figures.rtt_min,
            None if self.rtt_min == Micros::MAX => RTT_UNKNOWN,
            None => self.rtt_min,
        }
    }

    /// How long what is sent may stand in queues: on slow paths the time that two updates take.
    fn queue_time(&self) -> Micros {
        QUEUE_TIME.max((BUDGET_MIN_BYTES as f64 / self.path_rate().max(1e-3)) as Micros)
    }

    /// Bytes that may be on the path, its queues included.
    pub fn budget(&self) -> u64 {
        let rate = self.path_rate();
        let delay = self.delay();
        if self.draining.is_some() {
            return ((rate * delay as f64) as u64 / 2).clamp(BUDGET_MIN_BYTES, BUDGET_MAX_BYTES);
        }
        let full = rate * (delay + self.queue_time()) as f64;
        let probes = self.round.is_multiple_of(PROBE_EVERY) && delay > PROBE_EVERY * QUEUE_TIME;
        let bytes = match (self.startup, self.path()) {
            // As fast as the transport's own search for the rate.
            (true, Some(_)) => u64::MAX,
            (true, None) => ((full * 2.0) as u64).max(BUDGET_INITIAL_BYTES),
            (false, _) if self.is_counted() => u64::MAX,
            (false, _) => (full * if probes { 1.25 } else { 1.0 }) as u64,
        };
        // An update more than what would leave at once, so that there is something to send when the next byte may go.
        let window = self.path().map_or(BUDGET_MAX_BYTES, |path| path.figures.window + self.update_bytes());
        bytes.min(window).clamp(BUDGET_MIN_BYTES, BUDGET_MAX_BYTES)
    }

    /// Bytes that may be sent and not acknowledged. Where the path itself says what is on it, what has arrived and is
    /// still to be applied may be a frame's time more, and only a slow viewer gets to feel this bound.
    fn unacknowledged_max(&self) -> u64 {
        let budget = self.budget();
        if self.path().is_none() || self.draining.is_some() {
            return budget;
        }
        let applying = (self.best_rate() * FRAME_TIME as f64) as u64;
        // What has come behind a lost packet waits for that, which is found missing a round trip after it left.
        let held_up = if self.is_counted() { budget } else { budget / 4 };
        let most = (budget + held_up + applying.max(BUDGET_MIN_BYTES)).min(BUDGET_MAX_BYTES);
        if !self.startup || applying == 0 {
            return most;
        }
        // The search doubles what is under way in a round, and so may the viewer. One that has stopped reading is found
        // by this alone: its transport goes on taking what it is sent.
        let doubled = (2.0 * self.best_rate() * (self.delay() + FRAME_TIME) as f64) as u64;
        most.min(doubled.max(BUDGET_INITIAL_BYTES))
    }

    /// Bytes of one update, where it can be cut, so that several are under way and each tells of the path.
    pub fn update_bytes(&self) -> u64 {
        let rate = self.best_rate();
        if rate == 0.0 {
            return UPDATE_BYTES_INITIAL;
        }
        ((rate * UPDATE_TIME as f64) as u64).clamp(UPDATE_BYTES_MIN, BUDGET_MAX_BYTES / 4)
    }

    /// Bytes that may be handed to the transport at once: it gets the next when these have left, and what is more urgent
    /// goes between.
    pub fn chunk_bytes(&self) -> usize {
        let rate = self.path_rate();
        let least = if rate == 0.0 { UPDATE_BYTES_MIN } else { CHUNK_BYTES_MIN };
        ((rate * CHUNK_TIME as f64) as u64).max(least) as usize
    }

    /// Bytes that may still go now.
    pub fn room(&self, now: Micros) -> u64 {
        // What is under way may all stand in one queue: after a pause the path is filled no faster than it empties.
        let gap = (now + self.queue_time()).saturating_sub(self.leaves_at(now));
        let pace = self.pace().map_or(u64::MAX, |pace| (pace * gap as f64) as u64);
        self.room_within(0).min(pace)
    }

    /// When all that was sent has left. Nothing is still to leave once all has come, whatever a rate that was too low said.
    fn leaves_at(&self, now: Micros) -> Micros {
        if self.in_flight == 0 { self.leaves_at.min(now) } else { self.leaves_at }
    }

    /// Bytes a microsecond at which a pause is filled up; a little more than the path carries, or it would find nothing
    /// that it has gained. None while the rate is being found.
    fn pace(&self) -> Option<f64> {
        // A path that is full from the start ends the search before the first measurement.
        (!self.startup && self.path_rate() > 0.0).then(|| self.path_rate() * PACE_GAIN)
    }

    /// Bytes a microsecond that leave now: the path's, or fewer where the transport's window is small. None where nothing is known.
    fn drains(&self) -> Option<f64> {
        let window = self.path().map(|path| path.figures.window as f64 / self.delay().max(1) as f64);
        let rate = Some(self.path_rate()).filter(|&rate| rate > 0.0);
        match window {
            // What a path carried that was never full is what it was given.
            Some(window) if self.startup => Some(window),
            Some(window) => Some(rate.map_or(window, |rate| rate.min(window))),
            None => rate,
        }
    }

    /// Bytes a second that the transport's window lets through as it is now, where it says.
    pub(crate) fn window_rate(&self) -> u64 {
        let window = self.path().map(|path| path.figures.window as f64 * 1e6 / self.delay().max(1) as f64);
        window.map_or(u64::MAX, |rate| rate as u64)
    }

    /// How long what is sent behind `bytes` that have not left will stand in queues, the transport's among them.
    pub(crate) fn stands(&self, bytes: u64) -> Micros {
        let Some(rate) = self.drains() else { return 0 };
        let under_way = self.path().map_or(self.in_flight, Path::in_flight) + bytes;
        ((under_way as f64 / rate.max(1e-6)) as Micros).saturating_sub(self.delay())
    }

    /// When there is room for the next update although nothing is acknowledged; None where only that helps.
    pub fn room_at(&self, now: Micros) -> Option<Micros> {
        let pace = self.pace()?;
        let update = self.update_bytes();
        let waits = self.room(now) < update && self.room_within(0) >= update;
        waits.then(|| {
            (self.leaves_at(now) + (update as f64 / pace) as Micros).saturating_sub(self.queue_time()).max(now)
        })
    }

    fn room_within(&self, reserve: u64) -> u64 {
        if self.sent.len() >= UPDATES_IN_FLIGHT_MAX {
            return 0;
        }
        let left = (self.unacknowledged_max() + reserve).saturating_sub(self.in_flight + self.unaccounted);
        match self.path() {
            Some(path) => left.min((self.budget() + reserve).saturating_sub(path.in_flight())),
            None => left,
        }
    }

    /// True when an update of so many bytes may go. One that turned out larger than they should be need not fit whole,
    /// or it would let the path run dry.
    pub fn may_send(&self, bytes: u64, now: Micros) -> bool {
        let room = self.room(now);
        room > 0 && (room >= bytes.min(self.update_bytes()) || self.in_flight == 0)
    }

    /// Bytes that may be committed and not yet sent: what there is room for, and some ahead, so that it is encoded when its
    /// turn comes.
    pub fn commit_room(&self, now: Micros) -> u64 {
        let (rate, update) = (self.best_rate(), self.update_bytes());
        let ahead = update.max((rate * AHEAD_TIME as f64) as u64);
        (self.room(now) + ahead).min(if rate == 0.0 { update } else { update * AHEAD_UPDATES })
    }

    /// True while the real-time lane and cursors may go, which may use a reserve above the budget. The reserve is not
    /// widened by time, or a viewer that never acknowledges would be sent to for ever.
    pub fn may_send_real_time(&self) -> bool {
        self.room_within(REAL_TIME_RESERVE_BYTES) > 0
    }

    /// Bytes that the real-time lane may commit now: what is left of its cap for this round trip.
    pub fn real_time_room(&mut self, now: Micros) -> u64 {
        if now.saturating_sub(self.real_time_since) >= self.delay() {
            self.real_time_since = now;
            self.real_time_bytes = 0;
        }
        let above = self.room_within(REAL_TIME_RESERVE_BYTES);
        above.min(REAL_TIME_RESERVE_BYTES.saturating_sub(self.real_time_bytes))
    }

    /// The real-time lane used some of its cap.
    pub fn spend_real_time(&mut self, bytes: u64) {
        self.real_time_bytes += bytes;
    }

    /// A message that no update carries went out.
    pub fn control_sent(&mut self, bytes: u64) {
        self.unaccounted += bytes;
        self.hand_over(bytes);
    }

    fn hand_over(&mut self, bytes: u64) {
        if let Some(path) = &mut self.path {
            path.handed += bytes;
        }
    }

    /// True when so much went out beside updates that an update must follow, for its acknowledgement.
    /// It goes whatever the budget says: without it nobody would ever acknowledge them.
    pub fn wants_marker(&self) -> bool {
        self.unaccounted > UNACCOUNTED_MAX && self.sent.len() < UPDATES_IN_FLIGHT_MAX
    }

    /// An update went out. `more`: something else waits for room.
    pub fn sent(&mut self, seq: u64, bytes: u64, more: bool, now: Micros) {
        let alone = self.in_flight == 0;
        if alone {
            // The path was idle: the time before now says nothing about its rate, nor does what is delivered until the
            // first of this comes back.
            self.delivered_at = now;
            self.app_limited_until = self.app_limited_until.max(self.delivered + 1);
        }
        self.hand_over(bytes);
        let pace = self.pace().unwrap_or(f64::INFINITY);
        self.leaves_at = self.leaves_at(now).max(now) + (bytes as f64 / pace) as Micros;
        let bytes = bytes + std::mem::take(&mut self.unaccounted);
        let app_limited = self.app_limited_until > self.delivered;
        self.in_flight += bytes;
        self.sent.push_back(Sent {
            seq,
            bytes,
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            path_delivered: self.path().map(|path| path.figures.delivered),
            app_limited,
            alone,
        });
        if !more && self.room_within(0) > 0 {
            self.app_limited_until = self.delivered + self.in_flight;
        }
    }

    /// Everything up to update `seq` was applied.
    pub fn acked(&mut self, seq: u64, now: Micros) {
        self.applied(&(0..=seq), now);
    }

    /// These were applied, in whatever order.
    pub fn applied(&mut self, seqs: &RangeInclusive<u64>, now: Micros) {
        let from = self.sent.partition_point(|sent| sent.seq < *seqs.start());
        let to = self.sent.partition_point(|sent| sent.seq <= *seqs.end());
        let mut newest = None;
        for sent in self.sent.drain(from.min(to)..to) {
            self.in_flight -= sent.bytes;
            self.delivered += sent.bytes;
            newest = Some(sent);
        }
        let Some(newest) = newest else { return };
        self.delivered_at = now;
        self.measure_delay(&newest, now);
        if newest.delivered >= self.round_ends_at_delivered {
            self.round += 1;
            self.round_ends_at_delivered = self.delivered;
            self.end_round(now);
        }
        // Over the time from one acknowledgement to another: the first of them may have come late, and with others.
        let took = now.saturating_sub(newest.delivered_at).max(1);
        let mut rate = (self.delivered - newest.delivered) as f64 / took as f64;
        if let (Some(path), Some(before)) = (self.path(), newest.path_delivered) {
            // To the byte; but a proxy close by, or the viewer's own buffers, can take more than the viewer does.
            let took = now.saturating_sub(newest.at).max(1);
            rate = rate.min(path.figures.delivered.saturating_sub(before) as f64 / took as f64);
        }
        if !newest.app_limited || rate >= self.best_rate() {
            self.add_rate(rate);
        }
    }

    /// Update `seq` is no longer under way: lost, or applied at a moment that nobody told.
    pub fn gone(&mut self, seq: u64) {
        if let Ok(at) = self.sent.binary_search_by_key(&seq, |sent| sent.seq)
            && let Some(sent) = self.sent.remove(at)
        {
            self.in_flight -= sent.bytes;
        }
    }

    fn measure_delay(&mut self, newest: &Sent, now: Micros) {
        let elapsed = now.saturating_sub(newest.at).max(1);
        self.rtt_smooth = if self.rtt_min == Micros::MAX { elapsed } else { (self.rtt_smooth * 7 + elapsed) / 8 };
        // Without the time its own bytes took to pass. Half of it at most: the rate may be too low as yet, and a delay
        // taken for too short is not found out, while one taken for too long halves with every update.
        let own = (newest.bytes as f64 / self.best_rate().max(1e-6)) as Micros;
        let rtt = elapsed - own.min(elapsed / 2);
        self.rtt_newest = rtt;
        let old = now.saturating_sub(self.rtt_min_at) > DELAY_AGE_MAX;
        // What was sent before the drain stood in the queue that is to be drained.
        let drained = self.draining.is_some_and(|since| newest.at > since);
        // Where the transport measures the delay, this one only has to agree.
        let measured = newest.alone && elapsed < STANDSTILL || self.path().is_some();
        if rtt <= self.rtt_min || drained || old && measured {
            self.rtt_min = rtt;
            self.rtt_min_at = now;
            self.draining = None;
        } else if elapsed > self.rtt_min + STANDSTILL {
            // What waits now has waited long enough: the delay is measured a while later.
            self.rtt_min_at = self.rtt_min_at.max(now - DELAY_AGE_MAX.min(now) + STANDSTILL);
        } else if old && !self.startup && self.draining.is_none() {
            self.draining = Some(now);
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
        // A queue that stands longer than we allow shows that the best is too good.
        let rounds = if !self.is_counted() && self.rtt_newest > self.rtt_min + self.rtt_min / 4 + 2 * self.queue_time()
        {
            RATE_ROUNDS_FULL
        } else {
            RATE_ROUNDS
        };
        while self.rates.len() > 1 && self.rates[0].0 + rounds < self.round {
            self.rates.pop_front();
        }
    }

    fn end_round(&mut self, now: Micros) {
        if !self.startup || self.app_limited_until >= self.delivered {
            return;
        }
        let best = self.best_rate();
        if best >= self.startup_best * STARTUP_GROWTH {
            self.startup_best = best;
            self.startup_flat = 0;
        } else {
            self.startup_flat += 1;
        }
        if self.startup_flat == STARTUP_ROUNDS || self.path().is_some_and(Path::is_full) {
            self.startup = false;
            if self.path().is_none() {
                // Finding the rate has filled the queue, and the first delays were measured without knowing it.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Mbit/s and 40 ms.
    const RATE: u64 = 1_250_000;
    const RTT: Micros = 40_000;

    /// A path that carries what it is given at its rate, and acknowledges an update when all of it is there.
    struct Carrier {
        flow: Flow,
        now: Micros,
        seq: u64,
        free_at: Micros,
        /// (when it is acknowledged, number, bytes)
        under_way: VecDeque<(Micros, u64, u64)>,
        delivered: u64,
        tells: bool,
    }

    impl Carrier {
        fn new(tells: bool) -> Carrier {
            let under_way = VecDeque::new();
            Carrier { flow: Flow::new(0), now: 0, seq: 0, free_at: 0, under_way, delivered: 0, tells }
        }

        fn tell(&mut self) {
            let in_flight = self.under_way.iter().map(|&(_, _, bytes)| bytes).sum();
            let rtt = RTT + self.free_at.saturating_sub(self.now);
            let figures =
                PathFigures { in_flight, delivered: self.delivered, window: 200_000, rate: 0, rtt, rtt_min: RTT };
            self.flow.handle_path(self.tells.then_some(figures));
        }

        fn send(&mut self, bytes: u64, more: bool) {
            self.seq += 1;
            self.flow.sent(self.seq, bytes, more, self.now);
            self.free_at = self.free_at.max(self.now) + bytes * 1_000_000 / RATE;
            self.under_way.push_back((self.free_at + RTT, self.seq, bytes));
        }

        /// Time passes until `end`; whenever there is room, an update goes out.
        fn saturate(&mut self, end: Micros) {
            while self.now < end {
                self.tell();
                while self.flow.may_send(self.flow.update_bytes(), self.now) {
                    self.send(self.flow.update_bytes(), true);
                }
                self.now += 100;
                self.arrive();
            }
        }

        fn arrive(&mut self) {
            while let Some((at, seq, bytes)) = self.under_way.pop_front_if(|&mut (at, ..)| at <= self.now) {
                self.delivered += bytes;
                self.now = at.max(self.now);
                self.tell();
                self.flow.acked(seq, self.now);
                self.flow.check_invariants();
            }
        }

        /// Until all of it is acknowledged.
        fn rest(&mut self) {
            while !self.under_way.is_empty() {
                self.now += 100;
                self.arrive();
            }
        }
    }

    #[test]
    fn a_full_path_has_its_delay_and_a_short_queue_under_way() {
        for tells in [true, false] {
            let mut carrier = Carrier::new(tells);
            carrier.saturate(2_000_000);
            let rate = carrier.flow.rate();
            assert!(rate.abs_diff(RATE) < RATE / 10, "{rate} B/s, told {tells}");
            let most = rate * (RTT + 2 * QUEUE_TIME) / 1_000_000;
            assert!(carrier.flow.budget() <= most, "{} bytes under way, told {tells}", carrier.flow.budget());
            let queue = carrier.free_at - carrier.now;
            assert!(queue <= QUEUE_TIME * 2, "a queue of {queue} us, told {tells}");
        }
    }

    #[test]
    fn keys_do_not_make_a_path_look_slow() {
        let mut carrier = Carrier::new(true);
        carrier.saturate(2_000_000);
        carrier.rest();
        for _ in 0..40 {
            carrier.tell();
            carrier.send(300, false);
            carrier.rest();
        }
        let rate = carrier.flow.rate();
        assert!(rate > RATE * 9 / 10, "after 40 keys the path seems to carry {rate} B/s");
    }

    #[test]
    fn after_a_pause_the_path_is_filled_no_faster_than_it_empties() {
        let mut carrier = Carrier::new(true);
        carrier.saturate(2_000_000);
        carrier.rest();
        carrier.now += 1_000_000;
        carrier.tell();
        let mut burst = 0;
        while carrier.flow.may_send(carrier.flow.update_bytes(), carrier.now) {
            burst += carrier.flow.update_bytes();
            carrier.send(carrier.flow.update_bytes(), true);
        }
        assert!(burst > 0 && burst <= 2 * RATE * QUEUE_TIME / 1_000_000, "{burst} bytes at once");
        let next = carrier.flow.room_at(carrier.now).expect("the next goes before anything is acknowledged");
        assert!(next > carrier.now && next <= carrier.now + QUEUE_TIME, "{} us later", next - carrier.now);
        assert!(carrier.flow.room(next + 1) >= carrier.flow.update_bytes(), "and then there is room for it");
    }

    #[test]
    fn a_new_path_is_handed_what_its_transport_would_send_at_once() {
        let mut flow = Flow::new(0);
        let figures =
            PathFigures { in_flight: 0, delivered: 5_000, window: 600_000, rate: 0, rtt: 66_000, rtt_min: 66_000 };
        flow.handle_path(Some(figures));
        assert!(flow.room(0) >= 600_000);
        flow.handle_path(Some(PathFigures { in_flight: 590_000, ..figures }));
        assert!(flow.room(0) <= 10_000 + UPDATE_BYTES_INITIAL);
    }

    #[test]
    fn where_packets_are_counted_what_waits_behind_a_lost_one_does_not_make_the_path_slow() {
        for counted in [true, false] {
            let mut carrier = Carrier::new(true);
            carrier.saturate(2_000_000);
            let now = carrier.now;
            let rate = if counted { RATE } else { 0 };
            // Ten round trips in which one update a round is applied, late, and as much again is acknowledged packet by packet.
            for round in 1..=10 {
                let at = now + round * 3 * RTT;
                let in_flight = 10_000;
                let figures = PathFigures {
                    in_flight,
                    delivered: carrier.delivered,
                    window: 60_000,
                    rate,
                    rtt: RTT,
                    rtt_min: RTT,
                };
                carrier.flow.handle_path(Some(figures));
                carrier.seq += 1;
                carrier.flow.sent(carrier.seq, 10_000, true, at);
                carrier.delivered += 10_000;
                carrier.flow.handle_path(Some(PathFigures { delivered: carrier.delivered, ..figures }));
                carrier.flow.acked(carrier.seq, at + 3 * RTT);
            }
            let room = carrier.flow.budget();
            assert_eq!(room >= 60_000, counted, "{room} bytes may be under way, counted {counted}");
        }
    }

    #[test]
    fn a_proxy_close_by_is_not_believed() {
        let mut carrier = Carrier::new(false);
        carrier.saturate(2_000_000);
        let budget = carrier.flow.budget();
        let proxy = PathFigures { in_flight: 0, delivered: 1 << 40, window: 10_000_000, rate: 0, rtt: 60, rtt_min: 40 };
        carrier.flow.handle_path(Some(proxy));
        assert_eq!(carrier.flow.budget(), budget);
    }

    #[test]
    fn a_viewer_that_never_acknowledges_fills_its_budget_once() {
        for (tells, rate, window) in [(true, 0, 200_000), (true, RATE, 60_000), (false, 0, 0)] {
            let mut carrier = Carrier::new(tells);
            carrier.saturate(2_000_000);
            let mut sent = 0;
            // The kernel at its end takes everything, and it says nothing.
            for step in 0..100_000 {
                let now = carrier.now + step * 100;
                let delivered = carrier.delivered + sent;
                let told = PathFigures { in_flight: 0, delivered, window, rate, rtt: RTT, rtt_min: RTT };
                carrier.flow.handle_path(tells.then_some(told));
                while carrier.flow.may_send(2_000, now) {
                    carrier.seq += 1;
                    carrier.flow.sent(carrier.seq, 2_000, true, now);
                    sent += 2_000;
                }
            }
            let in_flight = carrier.flow.in_flight();
            assert!(in_flight < 3 * RATE * (RTT + QUEUE_TIME) / 1_000_000, "told {tells}, counted {rate}");
            // A round trip's worth may wait for what was lost of the one before.
            assert!(rate == 0 || in_flight >= 2 * window, "{in_flight} bytes");
        }
    }
}
