//! Path 5/13 to 7/13: under viewer.rs, between video.rs, which decides, and the queue whose items
//! its streams tag.
//! Takes frames and the viewer's reports about its streams; tells commit.rs whether a stream's
//! frame may be committed. Knows one viewer; never samples, pixels or sockets.

use thinc_protocol::Micros;

use super::Viewer;
use super::pending::Pending;
use crate::delivery::Delivery;
use crate::delivery::flow::QUEUE_TIME;
use crate::delivery::ledger::{JobId, JobProgress};
use crate::quality::RateEstimate;
use crate::queue::command_queue::Lane;
use crate::queue::scheduler::Rank;
use crate::video::{FrameDecision, PathRates, PickedRightEye};

/// Longest queueing delay at which a frame is encoded. It is less than two frames of a video, so
/// that after a large frame the next ones are late instead of dropped. Overtaking updates do not
/// wait for them.
const QUEUED_FRAMES_TIME_MAX: Micros = 60_000;
/// Bytes a second that a path is taken to carry that was never full, at least, and how many times
/// what it has carried: 10 Mbit/s, which most paths do, and what nothing is known of.
const UNTRIED_RATE: u64 = 1_250_000;
const UNTRIED_FACTOR: u64 = 4;
/// Shortest interval between checks of that delay.
const RECHECK_INTERVAL_MIN: Micros = 1_000;

impl Viewer {
    /// The shell cannot continue a stream: its newest frame is sent as pixels.
    pub(crate) fn video_failed(&mut self, stream: u16, now: Micros) {
        if let Some((job, region)) =
            self.pending.videos.stream_failed(stream, &mut self.pending.queue, now)
        {
            let stale = self.delivery.ledger.follow_job(&region, job);
            self.pending
                .mark_stale(&stale.unwrap_or_else(|| self.pending.queue.size().rect().into()), now);
        }
    }

    /// The rates of the viewer's path.
    pub(super) fn path_rates(&self) -> PathRates {
        let flow = &self.delivery.flow;
        let large = match flow.measured_rate() {
            RateEstimate::Measured(rate) => rate,
            // Nobody has tried.
            RateEstimate::AtLeast(rate) => (rate * UNTRIED_FACTOR).max(UNTRIED_RATE),
            RateEstimate::Unknown => UNTRIED_RATE,
        };
        PathRates { rate: flow.rate(), window: flow.window_rate(), large }
    }

    /// Whether a stream's frame may be committed now.
    pub(super) fn frame_decision(&self, stream: u16, now: Micros) -> FrameDecision {
        let decision = self.pending.videos.frame_decision(
            stream,
            |job| self.delivery.ledger.progress(job),
            self.path_rates(),
            now,
        );
        match decision {
            FrameDecision::Coded(bytes)
                if self.queueing_delay_behind(bytes, now) > QUEUED_FRAMES_TIME_MAX =>
            {
                FrameDecision::NotYet
            }
            decision => decision,
        }
    }

    /// What is committed next for the right eye.
    pub(super) fn pick_right_eye(&self, now: Micros) -> Option<PickedRightEye> {
        self.pending.videos.pick_right_eye(
            |job| self.delivery.ledger.progress(job),
            |stream| self.frame_decision(stream, now),
            self.path_rates(),
            now,
        )
    }

    /// Queueing delay of a frame of so many bytes, behind the bytes in flight and the updates that
    /// go before it.
    fn queueing_delay_behind(&self, bytes: u64, now: Micros) -> Micros {
        self.delivery.flow.queueing_delay(
            self.delivery.ledger.bytes_before(Rank::new(Lane::Normal, bytes, now, now), now),
            now,
        )
    }

    /// When a frame that waits for the path is to be checked again. A long frame is acknowledged
    /// only after it was shown, but the transport knows earlier that there is room for the next.
    pub(super) fn frames_due(&self, now: Micros) -> Option<Micros> {
        let encoded = self.delivery.ledger.unsent().any(|update| update.video);
        let waits = self.pending.queue.items().iter().any(|item| item.stream.is_some())
            || self.pending.videos.right_eye_waits();
        let sending = encoded
            .then(|| self.delivery.flow.queueing_delay(0, now).saturating_sub(QUEUE_TIME / 2));
        let committing = waits.then(|| {
            self.delivery
                .flow
                .queueing_delay(self.delivery.ledger.bytes_left(), now)
                .saturating_sub(QUEUED_FRAMES_TIME_MAX)
        });
        let queueing_delay = sending
            .into_iter()
            .chain(committing)
            .filter(|&queueing_delay| queueing_delay > 0)
            .min()?;
        Some(now + queueing_delay.max(RECHECK_INTERVAL_MIN))
    }

    /// Counts frames that only the path, or an earlier frame waiting for it, delays.
    pub(super) fn delay_frames(&mut self, now: Micros) {
        let Viewer { pending, delivery: Delivery { ledger, flow, .. }, .. } = self;
        let Pending { queue, videos, .. } = pending;
        let full = !flow.may_send(u64::MAX, now)
            || flow.queueing_delay(ledger.bytes_left(), now) > QUEUED_FRAMES_TIME_MAX;
        let right_eyes: Vec<u16> = videos.waiting_right_eyes().collect();
        let pixels = queue.items().iter().filter_map(|item| item.stream);
        for stream in pixels.chain(right_eyes) {
            let waits = |job: JobId| ledger.progress(job) == JobProgress::Encoded;
            if videos.waits_for_path(stream, waits, full) {
                videos.delayed(stream, now);
            }
        }
    }
}
