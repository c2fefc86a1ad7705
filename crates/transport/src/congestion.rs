//! Path 10/13: beside quic.rs; how many bytes a QUIC connection keeps under way.
//! From quinn, packet by packet, and back to it; what it learns of the path goes through [`Meter`] to session-core/flow.rs.
//! Knows sizes and times of packets; never what is in them.
//!
//! A display wants two things of its path: that little stands in its queue, and that a packet which is lost does not cost
//! half of the rate. Loss is what a wireless path does all day, so it is not asked how full the path is: delivery is. The
//! model is BBR's (Cardwell et al. 2016): the best rate of the last rounds, the smallest round trip of the last seconds,
//! and no more under way than their product and a short queue. Loss counts when much is lost, and then only where less
//! under way would lose less: a short queue that overflows does, a bad radio does not.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory};

#[cfg(test)]
mod tests;

/// Under way before anything is known: RFC 9002 allows ten packets, RFC 6928's measurements found no harm up to here. A first
/// screen of text goes out at once.
const INITIAL_PACKETS: u64 = 32;
/// Under way at least, so that loss is noticed by what comes after it (three packets) and not by a timer.
const MIN_PACKETS: u64 = 4;
/// Beside the product of rate and round trip: acknowledgements come for every second packet and may be late by one.
const SLACK_PACKETS: u64 = 2;
/// How long bytes may stand in the path's queue for the sake of never running dry: an eighth of the round trip, but no
/// less than two machines' schedulers take to turn round, and no more than a person could notice.
const QUEUE_SHARE: u32 = 8;
const QUEUE_MIN: Duration = Duration::from_millis(4);
const QUEUE_MAX: Duration = Duration::from_millis(12);
/// Rounds over which the best rate is remembered (BBR: 10).
const RATE_ROUNDS: u64 = 10;
/// The same while a queue stands: the path has become slower, or is shared.
const RATE_ROUNDS_FULL: u64 = 3;
/// Age at which the smallest round trip no longer counts, and is looked for with half of the path filled (BBRv2: 5 s and 10 s). Not
/// where no queue stands: a path that has become longer by less is full all the same, and half of it would be missed.
const RTT_AGE_MAX: Duration = Duration::from_secs(10);
/// The same when a queue so many times as long as ours has stood for so many rounds: what still stands when we leave half of the
/// path empty is another's, whose delay is the path's for us, or nothing would be left to us.
const FOREIGN_QUEUE: u32 = 3;
const STANDING_ROUNDS: u32 = 16;
/// While the rate is being found: by how much each round may send more (BBR: 2.89; slow start: 2), the growth below which the
/// path counts as full, and how many rounds in a row.
const STARTUP_GAIN: f64 = 2.0;
const STARTUP_GROWTH: f64 = 1.25;
const STARTUP_ROUNDS: u32 = 3;
/// Every so many rounds a quarter more is sent, to find what a long path has gained. One whose queue may be this part of its round
/// trip finds it by that alone.
const PROBE_ROUNDS: u64 = 8;
const PROBE_GAIN: f64 = 1.25;
/// Share of packets lost above which it is asked why. Wi-Fi at its edge loses less, an overflowing queue soon more.
const LOSS_MAX: f64 = 0.15;
/// The same while a queue stands: then it is known why.
const LOSS_WITH_QUEUE: f64 = 0.01;
/// Packets of which a share can be said.
const LOSS_SAMPLE_PACKETS: u64 = 40;
/// How long an answer to that question counts.
const VERDICT_TIME: Duration = Duration::from_secs(5);
/// Loss that is answered by sending more; past it half of what is sent would be lost, and a third of the path has to do.
const MADE_UP_MAX: f64 = 0.35;
const OVERFLOW_MADE_UP_MAX: f64 = 0.05;
/// By how many times the round trip may grow with each acknowledgement: a viewer that stood still says nothing of its path.
const RTT_GROWTH: u32 = 2;
/// Sent packets remembered: more than any window here holds, in the batches in which they leave.
const HISTORY_MAX: usize = 16 * 1024;
/// 64 MiB: bytes under way that no path here needs.
const WINDOW_MAX: u64 = 64 << 20;
/// What a full packet holds beside the stream's bytes: its head, a frame's head, the seal.
const PACKET_HEAD_BYTES: u64 = 36;

/// What the controller knows of a connection's path, for whoever decides how much it is handed.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    in_flight: AtomicU64,
    /// Written and not yet sent; an estimate that is right whenever everything has left.
    unsent: AtomicU64,
    delivered: AtomicU64,
    window: AtomicU64,
    rate: AtomicU64,
    rtt_us: AtomicU64,
    rtt_min_us: AtomicU64,
    /// The next packet asks whether the path carries, and leaves though the window is full.
    asks: AtomicBool,
}

impl Meter {
    /// The next packet may leave though the window is full, as one does that a timer of QUIC's sends.
    pub(crate) fn ask(&self) {
        self.asks.store(true, Ordering::Relaxed);
    }

    /// Bytes written that have not left, as far as can be told.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// So many bytes of a stream were handed over.
    pub(crate) fn written(&self, bytes: u64) {
        self.unsent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of packets left, and so much of what was written with them.
    fn left(&self, bytes: u64, mtu: u64) {
        let heads = PACKET_HEAD_BYTES * bytes.div_ceil(mtu.max(1));
        let rest = self.unsent().saturating_sub(bytes.saturating_sub(heads));
        self.unsent.store(rest, Ordering::Relaxed);
    }
}

#[cfg(feature = "server")]
impl Meter {
    /// Bytes under way.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Bytes that the other end has acknowledged.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Bytes that may be under way.
    pub(crate) fn window(&self) -> u64 {
        self.window.load(Ordering::Relaxed)
    }

    /// Bytes a second that the path carries; 0 before it was measured.
    pub(crate) fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Round trip lately and the smallest one, in microseconds; 0 before one was measured.
    pub(crate) fn rtt(&self) -> (u64, u64) {
        (self.rtt_us.load(Ordering::Relaxed), self.rtt_min_us.load(Ordering::Relaxed))
    }
}

/// Makes the controllers of one connection, a new one for each network it comes through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    pub(crate) meter: Arc<Meter>,
}

impl ControllerFactory for Delivery {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(DeliveryController::new(now, current_mtu, self.meter.clone()))
    }
}

/// A batch of packets that left together.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// `delivered` when it left, since when, and when the packet left that was acknowledged last.
    delivered: u64,
    delivered_at: Instant,
    before_at: Instant,
    /// There was nothing more to send: its rate says what we had, not what the path can.
    app_limited: bool,
}

/// Why many packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Not many are.
    None,
    /// A queue overflows: no more than the path holds.
    Overflow,
    /// It makes no difference how much is sent: what is lost is made up for.
    Radio,
}

/// Packets of one stretch of time and what became of them.
#[derive(Clone, Copy, Debug, Default)]
struct Toll {
    acked: u64,
    lost: u64,
}

impl Toll {
    fn share(self) -> f64 {
        self.lost as f64 / (self.acked + self.lost).max(1) as f64
    }
}

#[derive(Clone, Debug)]
struct DeliveryController {
    mtu: u64,
    meter: Arc<Meter>,
    history: VecDeque<Sent>,
    in_flight: u64,
    delivered: u64,
    delivered_at: Instant,
    /// When the packet left that was acknowledged last.
    acked_sent_at: Instant,
    /// (round, bytes a second), falling from front to back: the front is the best of the last rounds.
    rates: VecDeque<(u64, f64)>,
    rtt: Duration,
    /// The longest that is believed until the next acknowledgement.
    rtt_most: Duration,
    /// What quinn smooths of the round trip and paces by. One packet that was acknowledged after a stop of 10 s is in it for
    /// thirty acknowledgements, and until then would go what leaves at a thirtieth of the path's rate.
    pacer_rtt: Duration,
    rtt_min: Option<Duration>,
    rtt_min_at: Instant,
    /// Smallest of this round and of the last one: what stands in the queue, without a burst's own.
    rtt_round: Duration,
    rtt_last_round: Duration,
    /// For how many rounds there has been a queue that can hardly be ours.
    standing_rounds: u32,
    round: u64,
    round_ends_at_delivered: u64,
    round_was_limited: bool,
    startup: bool,
    startup_best: f64,
    startup_flat: u32,
    /// Since when half of the path is left empty, to see its own delay.
    draining: Option<Instant>,
    /// Everything sent until so much is delivered was all there was.
    app_limited_until: u64,
    toll: Toll,
    toll_round: u64,
    verdict: Verdict,
    verdict_until: Instant,
    /// Share that was lost when it was begun to send less, to see whether that helps.
    asking: Option<f64>,
    /// After an outage the window grows again from the least.
    reopening: Option<u64>,
    window: u64,
}

impl DeliveryController {
    fn new(now: Instant, mtu: u16, meter: Arc<Meter>) -> DeliveryController {
        let mtu = u64::from(mtu);
        let controller = DeliveryController {
            mtu,
            meter,
            history: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            delivered_at: now,
            acked_sent_at: now,
            rates: VecDeque::new(),
            rtt: Duration::ZERO,
            rtt_most: Duration::MAX,
            pacer_rtt: Duration::ZERO,
            rtt_min: None,
            rtt_min_at: now,
            rtt_round: Duration::MAX,
            rtt_last_round: Duration::MAX,
            standing_rounds: 0,
            round: 0,
            round_ends_at_delivered: 0,
            round_was_limited: false,
            startup: true,
            startup_best: 0.0,
            startup_flat: 0,
            draining: None,
            app_limited_until: 0,
            toll: Toll::default(),
            toll_round: 0,
            verdict: Verdict::None,
            verdict_until: now,
            asking: None,
            reopening: None,
            window: INITIAL_PACKETS * mtu,
        };
        controller.meter.in_flight.store(0, Ordering::Relaxed);
        controller.meter.window.store(controller.window, Ordering::Relaxed);
        controller
    }

    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |&(_, rate)| rate)
    }

    /// How long bytes may stand in the path's queue.
    fn queue_time(&self) -> Duration {
        let rtt_min = self.rtt_min.unwrap_or_default();
        (rtt_min / QUEUE_SHARE).clamp(QUEUE_MIN, QUEUE_MAX)
    }

    /// The queue is longer than what we have under way makes it, and not for a moment.
    fn queue_stands(&self) -> bool {
        self.stands_longer_than(self.queue_time() + self.slack_time())
    }

    /// How long the slack stands in the queue of a path with nothing else in it: at 6 Mbit/s longer than what we would have there.
    fn slack_time(&self) -> Duration {
        let seconds = (SLACK_PACKETS * self.mtu) as f64 / self.rate().max(1.0);
        Duration::from_secs_f64(seconds).min(QUEUE_MAX)
    }

    fn stands_longer_than(&self, time: Duration) -> bool {
        let standing = self.rtt_last_round;
        self.rtt_min.is_some_and(|least| standing != Duration::MAX && standing > least + time)
    }

    fn set_window(&mut self) {
        let least = MIN_PACKETS * self.mtu;
        let Some(rtt_min) = self.rtt_min.filter(|_| self.rate() > 0.0) else { return };
        let (rate, slack) = (self.rate(), SLACK_PACKETS * self.mtu);
        let path = rate * rtt_min.as_secs_f64();
        let full = path + rate * self.queue_time().as_secs_f64();
        let window = if self.draining.is_some() {
            (path / 2.0) as u64
        } else if self.startup {
            // Grows with what is delivered, as slow start does, so that a first measurement that was too low stops nothing.
            ((full * STARTUP_GAIN) as u64 + slack).max(self.window)
        } else {
            let probes = self.round.is_multiple_of(PROBE_ROUNDS) && rtt_min > PROBE_ROUNDS as u32 * QUEUE_MAX;
            match self.verdict {
                _ if self.asking.is_some() => path as u64 + slack,
                Verdict::Overflow => (path / (1.0 - self.toll.share().min(OVERFLOW_MADE_UP_MAX))) as u64 + slack,
                Verdict::Radio => {
                    let lost = self.toll.share().clamp(LOSS_MAX, MADE_UP_MAX);
                    (full / (1.0 - lost)) as u64 + slack
                }
                Verdict::None if probes && !self.queue_stands() => (full * PROBE_GAIN) as u64 + slack,
                Verdict::None => full as u64 + slack,
            }
        };
        let window = self.reopening.map_or(window, |most| window.min(most));
        self.window = window.clamp(least, WINDOW_MAX);
        self.meter.window.store(self.window, Ordering::Relaxed);
        self.meter.rate.store(rate as u64, Ordering::Relaxed);
    }

    fn add_rate(&mut self, rate: f64) {
        while self.rates.back().is_some_and(|&(_, worse)| worse <= rate) {
            self.rates.pop_back();
        }
        // A worse one of the same round would never become the best: so there is one entry a round at most.
        if self.rates.back().is_none_or(|&(round, _)| round != self.round) {
            self.rates.push_back((self.round, rate));
        }
        let rounds = if self.queue_stands() { RATE_ROUNDS_FULL } else { RATE_ROUNDS };
        while self.rates.len() > 1 && self.rates[0].0 + rounds < self.round {
            self.rates.pop_front();
        }
    }

    fn measure_delay(&mut self, rtt: Duration, now: Instant) {
        self.rtt = if self.rtt.is_zero() { rtt } else { (self.rtt * 7 + rtt.min(self.rtt_most)) / 8 };
        self.rtt_round = self.rtt_round.min(rtt);
        let old = now.duration_since(self.rtt_min_at) > RTT_AGE_MAX;
        let drained = self.draining.is_some_and(|since| now.duration_since(since) > rtt + self.rtt);
        if self.rtt_min.is_none_or(|least| rtt <= least) || drained {
            self.rtt_min = Some(rtt);
            self.rtt_min_at = now;
            self.draining = None;
            self.standing_rounds = 0;
        } else if old && !self.queue_stands() {
            self.rtt_min_at = now;
        } else if (old || self.standing_rounds > STANDING_ROUNDS) && self.draining.is_none() {
            self.draining = Some(now);
        }
        self.meter.rtt_us.store(self.rtt.as_micros() as u64, Ordering::Relaxed);
        self.meter.rtt_min_us.store(self.rtt_min.unwrap_or(rtt).as_micros() as u64, Ordering::Relaxed);
    }

    fn end_round(&mut self, now: Instant) {
        self.round += 1;
        self.round_ends_at_delivered = self.delivered;
        self.rtt_last_round = std::mem::replace(&mut self.rtt_round, Duration::MAX);
        let foreign = self.stands_longer_than(FOREIGN_QUEUE * self.queue_time());
        self.standing_rounds = if foreign { self.standing_rounds + 1 } else { 0 };
        let limited = std::mem::take(&mut self.round_was_limited);
        if self.startup && !limited {
            let rate = self.rate();
            if rate >= self.startup_best * STARTUP_GROWTH {
                self.startup_best = rate;
                self.startup_flat = 0;
            } else {
                self.startup_flat += 1;
            }
            self.startup = self.startup_flat < STARTUP_ROUNDS && !self.queue_stands();
        }
        self.judge(now);
        if let Some(most) = self.reopening {
            // As slow start does, until what is known of the path binds again.
            self.reopening = (self.window >= most).then_some(most * 2);
        }
    }

    /// Asks why packets are lost, once enough were sent to say how many.
    fn judge(&mut self, now: Instant) {
        let packets = (self.toll.acked + self.toll.lost) / self.mtu.max(1);
        if now >= self.verdict_until && self.asking.is_none() {
            self.verdict = Verdict::None;
        }
        // What is lost in the first round was sent before it began to be counted.
        if self.round == self.toll_round + 1 && self.verdict != Verdict::Radio {
            self.toll = Toll::default();
            return;
        }
        if packets < LOSS_SAMPLE_PACKETS || self.round < self.toll_round + 3 {
            return;
        }
        let lost = self.toll.share();
        let answer = match self.asking.take() {
            Some(before) if lost < before / 2.0 => Some(Verdict::Overflow),
            Some(_) if lost > LOSS_MAX => Some(Verdict::Radio),
            Some(_) => Some(Verdict::None),
            None if lost > LOSS_WITH_QUEUE && self.queue_stands() => Some(Verdict::Overflow),
            None if lost <= LOSS_MAX => None,
            None if self.verdict == Verdict::None => {
                self.startup = false;
                self.asking = Some(lost);
                None
            }
            // Little is sent, and as much is lost.
            None if self.verdict == Verdict::Overflow => Some(Verdict::Radio),
            None => None,
        };
        if let Some(answer) = answer {
            self.startup = false;
            self.verdict = answer;
            self.verdict_until = now + VERDICT_TIME;
        }
        if answer != Some(Verdict::Radio) && self.verdict != Verdict::Radio {
            self.toll = Toll::default();
        } else {
            // What is made up for follows slowly.
            self.toll = Toll { acked: self.toll.acked / 2, lost: self.toll.lost / 2 };
        }
        self.toll_round = self.round;
    }
}

impl Controller for DeliveryController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        if self.in_flight == 0 {
            // The path was idle: the time before now says nothing about its rate.
            self.delivered_at = now;
            self.acked_sent_at = now;
        }
        self.in_flight += bytes;
        self.meter.asks.store(false, Ordering::Relaxed);
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(Sent {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            before_at: self.acked_sent_at,
            app_limited: self.app_limited_until > self.delivered,
        });
        self.meter.left(bytes, self.mtu);
        self.meter.in_flight.store(self.in_flight, Ordering::Relaxed);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &quinn_proto::RttEstimator) {
        self.acked(now, sent, bytes, app_limited);
        self.smoothed(rtt.get(), now.duration_since(sent));
    }

    fn on_end_acks(&mut self, _now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        self.in_flight = in_flight;
        self.rtt_most = RTT_GROWTH * self.rtt;
        self.meter.in_flight.store(in_flight, Ordering::Relaxed);
        if app_limited {
            self.meter.unsent.store(0, Ordering::Relaxed);
            self.app_limited_until = self.delivered + in_flight.max(1);
            self.round_was_limited = true;
        }
        self.set_window();
    }

    fn on_congestion_event(&mut self, _now: Instant, _sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.toll.lost += lost_bytes;
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        // It will be sent again.
        self.meter.written(lost_bytes);
        self.meter.in_flight.store(self.in_flight, Ordering::Relaxed);
        if is_persistent {
            // Nothing came through for several timers: the path was gone for a while, or is another one now, and is begun anew.
            self.reopening = Some(INITIAL_PACKETS * self.mtu);
            self.set_window();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = u64::from(new_mtu);
        self.window = self.window.max(MIN_PACKETS * self.mtu);
        self.set_window();
    }

    fn window(&self) -> u64 {
        // In an outage the window fills up with what is lost, and is found empty only by what is acknowledged.
        if self.meter.asks.load(Ordering::Relaxed) {
            return self.window.max(self.in_flight + 2 * self.mtu);
        }
        // The pacer lets a window go in a round trip; while more than a packet has room, it may be told of another window.
        if self.in_flight + 2 * self.mtu < self.window {
            let paced = self.rate() * self.pacer_rtt.as_secs_f64();
            return (paced as u64).clamp(self.window, WINDOW_MAX.max(self.window));
        }
        self.window
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        INITIAL_PACKETS * self.mtu
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl DeliveryController {
    /// quinn has smoothed the round trip so far, and takes the newest packet in once all that came with it were said here.
    fn smoothed(&mut self, smooth: Duration, newest: Duration) {
        self.pacer_rtt = (smooth * 7 + newest) / 8;
    }

    /// A packet has come through.
    fn acked(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.delivered += bytes;
        self.toll.acked += bytes;
        self.meter.delivered.fetch_add(bytes, Ordering::Relaxed);
        self.delivered_at = now;
        if app_limited {
            self.round_was_limited = true;
        }
        self.measure_delay(now.duration_since(sent), now);
        let at = self.history.partition_point(|batch| batch.at < sent);
        let Some(&batch) = self.history.get(at).filter(|batch| batch.at == sent) else { return };
        self.acked_sent_at = self.acked_sent_at.max(sent);
        // What left well before this was acknowledged, or was lost.
        while self.history.front().is_some_and(|batch| batch.at + 2 * self.rtt + RTT_AGE_MAX < now) {
            self.history.pop_front();
        }
        // The slower of leaving and arriving: acknowledgements may have been held up and come all at once.
        let took = (now - batch.delivered_at).max(sent.saturating_duration_since(batch.before_at));
        let rate = (self.delivered - batch.delivered) as f64 / took.as_secs_f64().max(1e-6);
        if batch.delivered >= self.round_ends_at_delivered {
            self.end_round(now);
        }
        // Over less than a round trip nothing can be said: a burst's rate is that of whoever holds acknowledgements up.
        let whole = self.rtt_min.is_some_and(|least| took >= least);
        if whole && (!batch.app_limited || rate > self.rate()) {
            self.add_rate(rate);
        }
    }
}
