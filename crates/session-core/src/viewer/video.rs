//! Path 5/13 to 7/13: under viewer.rs, between video.rs, which decides, and the queue whose items
//! its streams tag.
//! Takes frames and the viewer's reports about its streams; tells commit.rs whether a stream's
//! frame may be committed. Knows one viewer; never samples, pixels or sockets.

use thinc_protocol::Micros;
use thinc_protocol::video::VideoStatus;
use thinc_region::{Rect, Region};

use super::Viewer;
use crate::delivery::Delivery;
use crate::delivery::flow::QUEUE_TIME;
use crate::delivery::ledger::{JobId, JobProgress};
use crate::mutation::mutated;
use crate::queue::command_queue::{FrameMerge, Kinds, Lane, Origin};
use crate::queue::scheduler::Rank;
use crate::video::{CODED_MAX, FrameDecision, PathRates, PortFrame};

/// Longest queueing delay at which a frame is encoded. It is less than two frames of a video, so
/// that after a large frame the next ones are late instead of dropped. Overtaking updates do not
/// wait for them.
const QUEUED_FRAMES_TIME_MAX: Micros = 60_000;
/// Shortest interval between checks of that delay.
const RECHECK_INTERVAL_MIN: Micros = 1_000;

impl Viewer {
    /// Takes a frame of XVideo that is visible in `region` of the screen.
    pub(crate) fn frame(&mut self, frame: &PortFrame, region: &Region, origin: Origin) {
        let Some(by) = self.view.transform else {
            return self.frame_in_view(frame, region, region, origin);
        };
        let own = frame.scaled(&by, self.videos.stream_size(frame));
        let touched = by.touched(region);
        let mut clip = by.covered(region);
        if mutated!(self.mutation, ScaledFrameExceedsClip) {
            clip.clone_from(&touched);
            clip.intersect_rect(&own.place);
        }
        self.frame_in_view(&own, &clip, &touched, origin);
    }

    /// Takes a frame in view coordinates: all of the pixels in `clip`, and a part of each in
    /// `touched`. The rest of those may be text, so they are sent as pixels.
    fn frame_in_view(
        &mut self,
        frame: &PortFrame,
        clip: &Region,
        touched: &Region,
        origin: Origin,
    ) {
        let since = origin.since;
        let uncertain = self.videos.uncertain_outside(frame, clip);
        self.mark_uncertain_stale(&uncertain, since);
        let Some(stream) = self.videos.frame(frame, clip, &mut self.queue, since) else {
            return self.draw_in_view(touched, origin, false);
        };
        self.videos.drawn_over(clip, stream);
        self.queue.draw_frame(clip, origin, stream, FrameMerge::Replace);
        if clip != touched && !mutated!(self.mutation, ScaledFrameIgnoresEdges) {
            self.draw_in_view(&touched.difference(clip), origin, false);
        }
    }

    /// These pixels may show another frame than the one that is visible there; barriers wait for
    /// them.
    pub(super) fn mark_uncertain_stale(&mut self, uncertain: &Region, now: Micros) {
        if uncertain.is_empty() {
            return;
        }
        self.queue.stale_video(uncertain, now);
        self.barriers.wait_for(uncertain);
    }

    /// Queues a drawing. Inside a video area it belongs to the next frame, unless it is an input
    /// response.
    pub(super) fn queue_drawing(&mut self, region: &Region, origin: Origin) {
        self.videos.drawn(region);
        let area = match origin.lane {
            Lane::Normal => self.videos.area(region, origin.since),
            Lane::RealTime => None,
        };
        let Some((stream, place)) = area else {
            // Scrolling is not detected inside a scaled view, so redrawn areas are not tracked
            // there.
            if origin.kinds.most_expensive() == Kinds::IMAGE.most_expensive()
                && self.transform().is_none()
            {
                self.videos.redrawn(
                    region,
                    &mut self.queue,
                    self.delivery.flow.rate(),
                    origin.since,
                );
            }
            return self.queue.draw(region, origin);
        };
        let mut inside = region.clone();
        inside.intersect_rect(&place);
        let outside = region.difference(&inside);
        self.queue.draw_frame(&inside, origin, stream, FrameMerge::Extend);
        if !outside.is_empty() {
            self.queue_drawing(&outside, Origin { echo: None, ..origin });
        }
    }

    /// These areas of the view change like a video.
    pub(crate) fn report_video_areas(&mut self, areas: &[Rect], now: Micros) {
        let screen = self.queue.size().rect();
        let readable_area_max = self.readable_area_max();
        let areas = areas.iter().filter(|area| area.area() <= readable_area_max);
        self.videos.report_areas(areas, screen, &mut self.queue, self.delivery.flow.rate(), now);
    }

    /// Largest area of the view that may become a video. A frame is read at once, so it covers no
    /// more of the screen than the largest frame of an unscaled viewer.
    fn readable_area_max(&self) -> u64 {
        self.transform().map_or(u64::MAX, |by| by.view_area(CODED_MAX.area()))
    }

    /// Nearly all pixels of this part of the view were new when they were planned.
    pub(crate) fn fully_changed(&mut self, rect: &Rect, now: Micros) {
        if rect.area() <= self.readable_area_max() {
            self.videos.fully_changed(rect, &mut self.queue, self.delivery.flow.rate(), now);
        }
    }

    /// This XVideo port has stopped.
    pub(crate) fn video_stopped(&mut self, port: u16) {
        self.videos.stopped(port, &mut self.queue);
    }

    /// Handles a report of the viewer about its decoder of one stream.
    pub(crate) fn video_status(&mut self, state: VideoStatus, now: Micros) {
        self.videos.handle_status(state, &mut self.queue, now);
    }

    /// The shell cannot continue a stream: its newest frame is sent as pixels.
    pub(crate) fn video_failed(&mut self, stream: u16, now: Micros) {
        if let Some((job, region)) = self.videos.stream_failed(stream, &mut self.queue, now) {
            let stale = self.delivery.ledger.follow_job(&region, job);
            self.mark_stale(&stale.unwrap_or_else(|| self.queue.size().rect().into()), now);
        }
    }

    /// The rates of the viewer's path.
    pub(super) fn path_rates(&self) -> PathRates {
        PathRates { rate: self.delivery.flow.rate(), window: self.delivery.flow.window_rate() }
    }

    /// Whether a stream's frame may be committed now.
    pub(super) fn frame_decision(&self, stream: u16, now: Micros) -> FrameDecision {
        let decision = self.videos.frame_decision(
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

    /// Queueing delay of a frame of so many bytes, behind the bytes in flight and the updates that
    /// go before it.
    fn queueing_delay_behind(&self, bytes: u64, now: Micros) -> Micros {
        self.delivery.flow.queueing_delay(
            self.delivery.ledger.bytes_before(Rank::new(Lane::Normal, bytes, now, now), now),
        )
    }

    /// When a frame that waits for the path is to be checked again. A long frame is acknowledged
    /// only after it was shown, but the transport knows earlier that there is room for the next.
    pub(super) fn frames_due(&self, now: Micros) -> Option<Micros> {
        let encoded = self.delivery.ledger.unsent().any(|update| update.video);
        let waits = self.queue.items().iter().any(|item| item.stream.is_some());
        let sending =
            encoded.then(|| self.delivery.flow.queueing_delay(0).saturating_sub(QUEUE_TIME / 2));
        let committing = waits.then(|| {
            self.delivery
                .flow
                .queueing_delay(self.delivery.ledger.bytes_left())
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
        let Viewer { queue, videos, delivery: Delivery { ledger, flow, .. }, .. } = self;
        let full = !flow.may_send(u64::MAX, now)
            || flow.queueing_delay(ledger.bytes_left()) > QUEUED_FRAMES_TIME_MAX;
        for stream in queue.items().iter().filter_map(|item| item.stream) {
            let waits = |job: JobId| ledger.progress(job) == JobProgress::Encoded;
            if videos.waits_for_path(stream, waits, full) {
                videos.delayed(stream, now);
            }
        }
    }
}
