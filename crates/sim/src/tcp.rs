//! Inside link.rs: the congestion window of a kernel's TCP sender, on virtual time.
//! From link.rs, which says what was sent and acknowledged, to how many bytes may be in flight.
//! Models what Linux 6 does for reno and cubic (net/ipv4/tcp_cong.c, tcp_cubic.c, tcp_output.c):
//! slow start with HyStart, growth only while the window limits, and slow start after idle. Knows
//! byte counts and times; never data.

use thinc_protocol::Micros;

/// Bytes of a full segment, and of the initial window (RFC 6928).
pub(crate) const SEGMENT_BYTES: u64 = 1448;
pub(crate) const WINDOW_INITIAL_BYTES: u64 = 10 * SEGMENT_BYTES;
/// Least retransmission time-out, and what Linux adds to the round trip at least (`TCP_RTO_MIN`).
const RTO_MIN: Micros = 200_000;
/// HyStart (RFC 9406 §4.3, and Linux): the least window, the samples of a round, and the bounds of
/// the delay increase that ends slow start.
const HYSTART_WINDOW_MIN: u64 = 16 * SEGMENT_BYTES;
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_DELAY_MIN: Micros = 4_000;
const HYSTART_DELAY_MAX: Micros = 16_000;
/// CUBIC's constants (RFC 9438 §5): C in segments per cubed second, and the decrease factor.
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;
const RENO_BETA: f64 = 0.5;

/// How the sender's congestion window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// To twice the bandwidth-delay product, which it knows: BBR once it has measured the path.
    Bbr,
    /// RFC 5681.
    Reno {
        /// After a pause of a retransmission time-out the window begins again
        /// (`tcp_slow_start_after_idle`).
        restarts: bool,
    },
    /// RFC 9438, with HyStart.
    Cubic {
        /// As for [`Congestion::Reno`].
        restarts: bool,
    },
}

/// The window of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    congestion: Congestion,
    /// Bytes that may be in flight.
    pub(crate) bytes: u64,
    threshold: u64,
    /// Most bytes in flight in this round, and whether the window stopped the sender.
    in_flight_max: u64,
    limited: bool,
    round_ends_at: u64,
    sent: u64,
    acked: u64,
    round_rtt_min: Micros,
    round_samples: u32,
    rtt_min: Micros,
    rtt: Micros,
    last_sent: Micros,
    /// CUBIC: the window before the last decrease in segments, and when that was.
    before_loss: f64,
    lost_at: Option<Micros>,
    /// Losses of what was sent before this are one event.
    recovery_ends_at: u64,
}

impl Window {
    pub(crate) const fn new(congestion: Congestion) -> Window {
        Window {
            congestion,
            bytes: WINDOW_INITIAL_BYTES,
            threshold: u64::MAX,
            in_flight_max: 0,
            limited: false,
            round_ends_at: 0,
            sent: 0,
            acked: 0,
            round_rtt_min: Micros::MAX,
            round_samples: 0,
            rtt_min: Micros::MAX,
            rtt: 0,
            last_sent: 0,
            before_loss: 0.0,
            lost_at: None,
            recovery_ends_at: 0,
        }
    }

    fn restarts(&self) -> bool {
        matches!(
            self.congestion,
            Congestion::Reno { restarts: true } | Congestion::Cubic { restarts: true }
        )
    }

    fn timeout(&self) -> Micros {
        self.rtt + RTO_MIN
    }

    /// Data is about to be sent. After a pause the window halves for each time-out, down to the
    /// initial one (RFC 2861).
    pub(crate) fn before_sending(&mut self, in_flight: u64, now: Micros) {
        if in_flight > 0 || !self.restarts() || self.rtt == 0 {
            return;
        }
        let mut idle = now.saturating_sub(self.last_sent);
        if idle > self.timeout() {
            self.threshold = self.kept_threshold();
            while idle > self.timeout() && self.bytes > WINDOW_INITIAL_BYTES {
                self.bytes = (self.bytes / 2).max(WINDOW_INITIAL_BYTES);
                idle -= self.timeout();
            }
            self.lost_at = None;
        }
    }

    /// `tcp_current_ssthresh`: three quarters of the window are known to fit.
    fn kept_threshold(&self) -> u64 {
        if self.threshold == u64::MAX {
            return u64::MAX;
        }
        self.threshold.max(self.bytes / 4 * 3)
    }

    /// A segment was sent, after which so much is in flight.
    pub(crate) fn sent(&mut self, bytes: u64, in_flight: u64, now: Micros) {
        self.sent += bytes;
        self.in_flight_max = self.in_flight_max.max(in_flight);
        self.last_sent = now;
    }

    /// Data waits that the window does not allow.
    pub(crate) fn limit(&mut self) {
        self.limited = true;
    }

    /// A segment was acknowledged after `rtt`. `capacity` is the path's bandwidth-delay product.
    pub(crate) fn acked(&mut self, bytes: u64, rtt: Micros, capacity: u64, now: Micros) {
        self.acked += bytes;
        self.rtt = if self.rtt == 0 { rtt } else { (self.rtt * 7 + rtt) / 8 };
        self.rtt_min = self.rtt_min.min(rtt);
        if self.congestion == Congestion::Bbr {
            if self.limited && self.bytes < (2 * capacity).max(WINDOW_INITIAL_BYTES) {
                self.bytes += bytes;
            }
        } else if self.bytes < self.threshold {
            // In slow start half a window in flight is enough (`tcp_is_cwnd_limited`).
            if self.bytes < 2 * self.in_flight_max {
                self.bytes += bytes;
            }
            self.hystart(rtt);
        } else if self.limited && self.acked >= self.recovery_ends_at {
            self.avoid(bytes, now);
        }
        if self.acked >= self.round_ends_at {
            self.round_ends_at = self.sent;
            self.in_flight_max = self.sent - self.acked;
            self.limited = false;
            (self.round_rtt_min, self.round_samples) = (Micros::MAX, 0);
        }
    }

    fn hystart(&mut self, rtt: Micros) {
        if !matches!(self.congestion, Congestion::Cubic { .. }) || self.bytes < HYSTART_WINDOW_MIN {
            return;
        }
        self.round_rtt_min = self.round_rtt_min.min(rtt);
        self.round_samples += 1;
        let more = (self.rtt_min / 8).clamp(HYSTART_DELAY_MIN, HYSTART_DELAY_MAX);
        if self.round_samples >= HYSTART_SAMPLES && self.round_rtt_min > self.rtt_min + more {
            self.threshold = self.bytes;
        }
    }

    /// Congestion avoidance.
    fn avoid(&mut self, bytes: u64, now: Micros) {
        let reno = SEGMENT_BYTES * bytes / self.bytes;
        let Congestion::Cubic { .. } = self.congestion else {
            self.bytes += reno;
            return;
        };
        let segments = self.bytes as f64 / SEGMENT_BYTES as f64;
        let began = *self.lost_at.get_or_insert_with(|| {
            self.before_loss = segments;
            now
        });
        let k = (self.before_loss * (1.0 - CUBIC_BETA) / CUBIC_C).cbrt();
        let t = (now + self.rtt - began) as f64 / 1e6 - k;
        let target = CUBIC_C * t.powi(3) + self.before_loss;
        // At most half of the window in a round trip (RFC 9438 §4.4).
        let step = ((target - segments) / segments).clamp(0.0, 0.5) * bytes as f64;
        self.bytes += (step as u64).max(reno);
    }

    /// A segment that was sent when so many bytes had been was lost.
    pub(crate) fn lost(&mut self, sent: u64, now: Micros) {
        if self.congestion == Congestion::Bbr || sent < self.recovery_ends_at {
            return;
        }
        self.before_loss = self.bytes as f64 / SEGMENT_BYTES as f64;
        let beta = match self.congestion {
            Congestion::Cubic { .. } => CUBIC_BETA,
            _ => RENO_BETA,
        };
        self.bytes = ((self.bytes as f64 * beta) as u64).max(2 * SEGMENT_BYTES);
        self.threshold = self.bytes;
        self.lost_at = Some(now);
        self.recovery_ends_at = self.sent;
    }

    /// Bytes sent since the connection began.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent
    }
}
