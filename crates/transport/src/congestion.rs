//! Path 10/13: beside quic.rs; the congestion controller of a QUIC connection. From quinn, packet
//! by packet, and back to it; what it learns about the path reaches session-core/delivery/flow.rs
//! through [`Meter`]. Knows sizes and times of packets; never their contents.
//!
//! A display needs a short queue, and a packet loss must not halve its rate. Wireless paths lose
//! packets all the time, so loss does not tell how full a path is: the delivery rate does. The
//! model is BBR's (Cardwell et al. 2016): the best delivery rate of the last rounds, the smallest
//! round trip of the last seconds, and no more in flight than their product (the bandwidth-delay
//! product) plus a short queue and the path's jitter. A path that becomes longer is noticed by
//! packets that waited for nothing of ours, and its window is found as on a new connection. Losses
//! count only if they are many, and then only if a smaller window reduces them.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory};
use thinc_path_model::{PROBE_GAIN, Rounds};

mod bandwidth;
mod bursts;
mod delay;
mod deliveries;
mod jitter;
mod losses;
mod meter;
mod round_trip;
#[cfg(test)]
mod tests;

pub(crate) use meter::Meter;

use bandwidth::Bandwidth;
use bursts::Bursts;
use delay::{Delay, QUEUEING_DELAY_MAX, RTT_AGE_MAX};
use deliveries::{Deliveries, Delivery};
use jitter::Jitter;
use losses::Losses;
use round_trip::RoundTrip;

/// Initial window. RFC 9002 allows ten packets; the measurements of RFC 6928 found no harm up to
/// here. A first screen of text is sent at once.
const INITIAL_PACKETS: u64 = 32;
/// quinn does not pace a larger window.
const WINDOW_WITHOUT_PACING: u64 = u32::MAX as u64 + 1;
/// Minimum window: loss is detected by the packet threshold (three later packets) and not by a
/// timer.
const WINDOW_PACKETS_MIN: u64 = 4;
/// Added to the bandwidth-delay product: every second packet is acknowledged, and an
/// acknowledgement may be late by one.
const SLACK_PACKETS: u64 = 2;
/// The window's growth per round during start-up (BBR: 2.89; slow start: 2).
const STARTUP_GAIN: f64 = 2.0;
/// 64 MiB: largest window; no supported path needs more.
const WINDOW_MAX: u64 = 64 << 20;

/// Makes the controllers of one connection: a new one for each network path it uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryControl {
    pub(crate) meter: Arc<Meter>,
}

impl ControllerFactory for DeliveryControl {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(DeliveryController::new(now, current_mtu, self.meter.clone()))
    }
}

/// The window of one path. Its parts own what was measured; what follows from it for the window is
/// decided here.
#[derive(Clone, Debug)]
struct DeliveryController {
    mtu: u64,
    meter: Arc<Meter>,
    deliveries: Deliveries,
    bandwidth: Bandwidth,
    round_trip: RoundTrip,
    delay: Delay,
    jitter: Jitter,
    losses: Losses,
    /// After an outage: limit of the window, which grows from the initial one as in slow start.
    restart_window: Option<u64>,
    window: u64,
    bursts: Bursts,
}

impl DeliveryController {
    fn new(now: Instant, mtu: u16, meter: Arc<Meter>) -> DeliveryController {
        let mtu = u64::from(mtu);
        let controller = DeliveryController {
            mtu,
            meter,
            deliveries: Deliveries::new(now),
            bandwidth: Bandwidth::default(),
            round_trip: RoundTrip::new(),
            delay: Delay::new(now),
            jitter: Jitter::default(),
            losses: Losses::new(now),
            restart_window: None,
            window: INITIAL_PACKETS * mtu,
            bursts: Bursts::new(INITIAL_PACKETS * mtu, now),
        };
        controller.meter.set_in_flight(0);
        controller.meter.set_window(controller.window);
        controller
    }

    fn rate(&self) -> f64 {
        self.bandwidth.rate()
    }

    /// Bytes that may go at once if nothing is in flight: no more than the path drains in the
    /// target time, once its rate is known.
    fn idle_burst(&self) -> u64 {
        if self.bandwidth.is_searched() {
            return self.bursts.limit();
        }
        let drained = self.rate() * self.delay.target_queueing_delay().as_secs_f64();
        self.bursts.limit().min(drained as u64)
    }

    /// The queue has been longer for a whole round than this connection's window accounts for.
    fn has_standing_queue(&self) -> bool {
        self.delay.has_standing_queue(self.allowance())
    }

    /// Delay that no queue of ours beyond its target has to explain.
    fn allowance(&self) -> Duration {
        self.slack_delay() + self.jitter.mean()
    }

    /// Queueing delay that the slack causes on a path without other traffic: at 6 Mbit/s it exceeds
    /// the target.
    fn slack_delay(&self) -> Duration {
        let seconds = (SLACK_PACKETS * self.mtu) as f64 / self.rate().max(1.0);
        Duration::from_secs_f64(seconds).min(QUEUEING_DELAY_MAX)
    }

    /// Sets the window to what is known of the path; without a measurement it stays.
    fn set_window(&mut self) {
        let window_min = WINDOW_PACKETS_MIN * self.mtu;
        let Some(rtt_min) = self.delay.min().filter(|_| self.rate() > 0.0) else { return };
        let (rate, slack) = (self.rate(), SLACK_PACKETS * self.mtu);
        let bdp = rate * rtt_min.as_secs_f64();
        // A window without the jitter would be smaller than what the path holds, the rate measured
        // with it smaller again, and so on.
        let full =
            bdp + rate * (self.delay.target_queueing_delay() + self.jitter.mean()).as_secs_f64();
        let window = if self.delay.drains() {
            window_min
        } else if self.delay.is_probed() {
            (bdp / 2.0) as u64
        } else if self.bandwidth.is_searched() {
            // Grows with what is delivered, as in slow start: a first measurement that is too low
            // does not stop it.
            ((full * STARTUP_GAIN) as u64 + slack).max(self.window)
        } else {
            let us = |time: Duration| time.as_micros() as u64;
            let probes =
                Rounds::probes(self.bandwidth.round(), us(rtt_min), us(QUEUEING_DELAY_MAX));
            match self.losses.window(bdp, full) {
                Some(window) => window + slack,
                None if probes && !self.has_standing_queue() => (full * PROBE_GAIN) as u64 + slack,
                None => full as u64 + slack,
            }
        };
        let window = self.restart_window.map_or(window, |limit| window.min(limit));
        self.window = window.clamp(window_min, WINDOW_MAX);
        self.meter.set_window(self.window);
        self.meter.set_rate(rate as u64);
    }

    fn add_rtt_sample(&mut self, rtt: Duration, now: Instant) {
        self.round_trip.add(rtt);
        if self.delay.is_of_shorter_path(rtt) {
            self.losses.handle_shorter_path(now);
        }
        self.delay.add(rtt, self.round_trip.smooth(), self.allowance(), now);
        self.meter.set_rtt(self.round_trip.smooth(), self.delay.min().unwrap_or(rtt));
    }

    /// A packet that waited for little of ours, or for nothing, was acknowledged. If that takes
    /// much longer than the smallest round trip, twice in a row, the path is another one: a cable
    /// was left, a VPN came up. Its window is found as that of a new connection. A window for the
    /// shorter path is a fraction of what the longer one holds, and the rates measured with it are
    /// the window's and not the path's.
    fn detect_longer_path(&mut self, delivery: &Delivery, now: Instant) {
        let drained = self.delay.drained_at(delivery.sent);
        let waits_for = if drained { WINDOW_PACKETS_MIN * self.mtu } else { 0 };
        if delivery.in_flight_before > waits_for {
            return;
        }
        if self.delay.add_without_queue(now.duration_since(delivery.sent), now) {
            self.bandwidth.search_again();
            self.restart_window = Some(INITIAL_PACKETS * self.mtu);
            self.window = self.window.max(INITIAL_PACKETS * self.mtu);
        }
    }

    fn add_jitter_sample(&mut self, delivery: &Delivery, now: Instant) {
        let Some(rtt_min) = self.delay.min().filter(|_| self.rate() > 0.0) else { return };
        let seconds = delivery.in_flight_before as f64 / self.rate();
        let ours = Duration::from_secs_f64(seconds.min(RTT_AGE_MAX.as_secs_f64()));
        let excess = now
            .duration_since(delivery.sent)
            .saturating_sub(rtt_min.max(ours) + self.slack_delay());
        self.jitter.add(excess);
    }

    /// How long a full window takes at the path's rate.
    fn window_time(&self) -> Duration {
        let seconds = (self.window as f64 / self.rate().max(1.0)).min(RTT_AGE_MAX.as_secs_f64());
        Duration::from_secs_f64(seconds)
    }

    fn end_round(&mut self, now: Instant) {
        self.delay.end_round(self.window_time(), now);
        self.jitter.end_round();
        let (round, has_queue) = (self.bandwidth.round(), self.has_standing_queue());
        self.bandwidth.end_round(self.restart_window.is_some(), has_queue);
        if self.losses.end_round(now, round, self.mtu, has_queue) {
            self.bandwidth.end_search();
        }
        if let Some(limit) = self.restart_window {
            // As slow start does, until the model's window is smaller.
            self.restart_window = (self.window >= limit).then_some(limit * 2);
        }
    }
}

impl Controller for DeliveryController {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        if self.deliveries.in_flight() == 0 {
            self.bursts.begin(now, self.idle_burst());
        }
        let in_burst = self.bursts.handle_sent(now, bytes);
        self.deliveries.handle_sent(now, bytes, in_burst);
        self.meter.handle_sent(bytes, self.mtu);
        self.meter.set_in_flight(self.deliveries.in_flight());
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &quinn_proto::RttEstimator,
    ) {
        self.handle_acked(now, sent, bytes, app_limited);
        self.round_trip.set_pacers(rtt.get(), now.duration_since(sent));
    }

    fn on_end_acks(
        &mut self,
        _now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest: Option<u64>,
    ) {
        self.deliveries.set_in_flight(in_flight);
        self.round_trip.end_batch();
        self.meter.set_in_flight(in_flight);
        if app_limited {
            self.meter.clear_unsent();
            self.deliveries.set_app_limited();
            self.bandwidth.set_limited();
        }
        self.set_window();
        self.meter.changed();
    }

    fn on_congestion_event(
        &mut self,
        _now: Instant,
        sent: Instant,
        is_persistent: bool,
        lost_bytes: u64,
    ) {
        self.losses.handle_lost(sent, lost_bytes);
        self.bursts.handle_lost(sent, lost_bytes, self.mtu);
        self.deliveries.handle_lost(lost_bytes);
        // It will be retransmitted.
        self.meter.add_unsent(lost_bytes);
        self.meter.set_in_flight(self.deliveries.in_flight());
        if is_persistent {
            // Persistent congestion: nothing was acknowledged for several probe timeouts. The path
            // had an outage or is another one now, and the window starts again.
            self.restart_window = Some(INITIAL_PACKETS * self.mtu);
            self.set_window();
        }
        self.meter.changed();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = u64::from(new_mtu);
        self.window = self.window.max(WINDOW_PACKETS_MIN * self.mtu);
        self.set_window();
    }

    fn window(&self) -> u64 {
        let in_flight = self.deliveries.in_flight();
        // In an outage the window fills up with packets that are lost; only an acknowledgement
        // would empty it.
        if self.meter.allows_probe() {
            return self.window.max(in_flight + 2 * self.mtu);
        }
        // quinn's pacer sends one window per round trip, by its own smoothed round trip. While
        // there is room for more than a packet, the window reported to it is corrected for that.
        if in_flight + 2 * self.mtu < self.window {
            let burst = if in_flight == 0 { self.idle_burst() } else { self.bursts.left() };
            if burst >= self.mtu {
                return WINDOW_WITHOUT_PACING;
            }
            let paced = self.rate() * self.round_trip.pacers().as_secs_f64();
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
    /// A packet was acknowledged.
    fn handle_acked(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool) {
        self.losses.handle_acked(bytes);
        self.meter.add_delivered(bytes);
        if app_limited {
            self.bandwidth.set_limited();
        }
        self.add_rtt_sample(now.duration_since(sent), now);
        let age_max = 2 * self.round_trip.smooth() + RTT_AGE_MAX;
        let Some(delivery) = self.deliveries.handle_acked(now, sent, bytes, age_max) else {
            return;
        };
        if self.bandwidth.handle_acked(delivery.delivered_before, delivery.delivered) {
            self.end_round(now);
        }
        self.detect_longer_path(&delivery, now);
        self.add_jitter_sample(&delivery, now);
        // Below a round trip the sample is invalid: the rate of a burst is that of whatever delays
        // acknowledgements.
        let is_valid = self.delay.min().is_some_and(|rtt_min| delivery.took >= rtt_min);
        if is_valid && (!delivery.app_limited || delivery.rate > self.rate()) {
            self.bandwidth.add(delivery.rate, self.has_standing_queue());
        }
    }
}
