//! Path 5/13 to 7/13: under viewer.rs, between video.rs, which decides, and the queue whose items its streams tag.
//! Takes frames and what a viewer says of its streams; hands a stream's turn and its frame to commit.rs.
//! Knows one viewer; never samples, pixels or sockets.

use thinc_protocol::Micros;
use thinc_protocol::video::VideoState;
use thinc_region::{Rect, Region};

use super::{BarrierState, Viewer};
use crate::command_queue::{Kinds, Lane, Newer, Origin};
use crate::flow::QUEUE_TIME;
use crate::mutation::Mutation;
use crate::scheduler::Rank;
use crate::update::{Before, JobId};
use crate::video::{CODED_MAX, Carries, PortFrame, Turn};

/// A frame is coded when it would stand in queues for no longer: less than two frames of a film, so that a picture that came out
/// large makes those after it late, and not missed. What overtakes them does not wait for that.
const AHEAD: Micros = 60_000;
/// How often the path is looked at for that, at most.
const LOOK_MIN: Micros = 1_000;

impl Viewer {
    /// Takes a frame of XVideo that is seen in `region` of the screen.
    pub(crate) fn frame(&mut self, frame: &PortFrame, region: &Region, origin: Origin) {
        let Some(by) = self.picture.transform else { return self.own_frame(frame, region, region, origin) };
        let own = frame.scaled(&by, self.videos.known_size(frame), self.broken);
        let touched = by.touched(region);
        let mut clip = by.covered(region);
        if self.broken.is(Mutation::ScaledReachesOver) {
            clip.clone_from(&touched);
            clip.intersect_rect(&own.place);
        }
        self.own_frame(&own, &clip, &touched, origin);
    }

    /// Takes a frame as it is in its picture: all of the pixels in `clip`, and some of each in `touched`. The rest of those may be of text, and they
    /// are pixels.
    fn own_frame(&mut self, frame: &PortFrame, clip: &Region, touched: &Region, origin: Origin) {
        let since = origin.since;
        let early = self.videos.shown_early(frame, clip);
        self.stale_early(&early, since);
        let Some(stream) = self.videos.frame(frame, clip, &mut self.queue, since) else {
            return self.draw_own(touched, origin, false);
        };
        self.videos.drawn_over(clip, stream);
        self.queue.draw_frame(clip, origin, stream, Newer::Replaces);
        if clip != touched && !self.broken.is(Mutation::ScaledForgetsEdges) {
            self.draw_own(&touched.difference(clip), origin, false);
        }
    }

    /// These pixels of the viewer may be of another frame than is seen there: a barrier that waits waits for them.
    pub(super) fn stale_early(&mut self, early: &Region, now: Micros) {
        if early.is_empty() {
            return;
        }
        self.queue.stale_video(early, now);
        for barrier in &mut self.barriers {
            if let BarrierState::Draining { region, .. } = &mut barrier.state {
                region.add(early);
            }
        }
    }

    /// Queues a drawing; what of it lies in an area that is a video is of its next picture, unless it answers a hand.
    pub(super) fn draw_beside_videos(&mut self, region: &Region, origin: Origin) {
        self.videos.drawn(region);
        let area = match origin.lane {
            Lane::Normal => self.videos.area(region, origin.since),
            Lane::RealTime => None,
        };
        let Some((stream, place)) = area else {
            // What scrolls in a scaled picture is not known for it.
            if origin.kinds.dearest() == Kinds::IMAGE.dearest() && self.transform().is_none() {
                self.videos.redrawn(region, &mut self.queue, self.flow.rate(), origin.since);
            }
            return self.queue.draw(region, origin);
        };
        let mut inside = region.clone();
        inside.intersect_rect(&place);
        let outside = region.difference(&inside);
        self.queue.draw_frame(&inside, origin, stream, Newer::Adds);
        if !outside.is_empty() {
            self.draw_beside_videos(&outside, Origin { echo: None, ..origin });
        }
    }

    /// These areas of its picture change like a video.
    pub(crate) fn moving(&mut self, areas: &[Rect], now: Micros) {
        let screen = self.queue.size().rect();
        // A frame is read in one go: of the screen, no more than a plain viewer's largest.
        let read_in_time = self.transform().map_or(u64::MAX, |by| by.picture_area(CODED_MAX.area()));
        let areas = areas.iter().filter(|area| area.area() <= read_in_time);
        self.videos.moving(areas, screen, &mut self.queue, self.flow.rate(), now);
    }

    /// Nearly all of this part of its picture was new when it was looked at.
    pub(crate) fn new_at_once(&mut self, rect: &Rect, now: Micros) {
        let readable = self.transform().map_or(u64::MAX, |by| by.picture_area(CODED_MAX.area()));
        if rect.area() <= readable {
            self.videos.new_at_once(rect, &mut self.queue, self.flow.rate(), now);
        }
    }

    /// Nothing is shown at this port any more.
    pub(crate) fn video_stopped(&mut self, port: u16) {
        self.videos.stopped(port, &mut self.queue);
    }

    /// How its decoder stands.
    pub(crate) fn video_said(&mut self, state: VideoState, now: Micros) {
        self.videos.said(state, &mut self.queue, now);
    }

    /// The shell cannot go on with a stream: what its newest frame was to show is pixels.
    pub(crate) fn video_failed(&mut self, stream: u16, now: Micros) {
        if let Some((job, region)) = self.videos.stream_failed(stream, &mut self.queue, now) {
            let lacking = self.updates.follow_job(&region, job);
            self.lacks(&lacking.unwrap_or_else(|| self.queue.size().rect().into()), now);
        }
    }

    /// What its path carries.
    pub(super) fn carries(&self) -> Carries {
        Carries { rate: self.flow.rate(), window: self.flow.window_rate() }
    }

    /// Whether a stream's frame may go now.
    pub(super) fn turn(&self, stream: u16, now: Micros) -> Turn {
        let turn = self.videos.turn(stream, |job| self.updates.before(job), self.carries(), now);
        match turn {
            Turn::Ahead(bytes) if self.stands_before(bytes, now) > AHEAD => Turn::NotNow,
            turn => turn,
        }
    }

    /// How long a frame of so many bytes would stand behind what is under way and what leaves before it.
    fn stands_before(&self, bytes: u64, now: Micros) -> Micros {
        self.flow.stands(self.updates.bytes_before(Rank::new(Lane::Normal, bytes, now, now), now))
    }

    /// When the path is looked at again for a frame that waits for it. A long picture is acknowledged when all of it was shown: the
    /// transport knows before that there is room for the next.
    pub(super) fn frames_due(&self, now: Micros) -> Option<Micros> {
        let encoded = self.updates.unsent().any(|update| update.video);
        let waits = self.queue.items().iter().any(|item| item.stream.is_some());
        let sending = encoded.then(|| self.flow.stands(0).saturating_sub(QUEUE_TIME / 2));
        let committing = waits.then(|| self.flow.stands(self.updates.bytes_left()).saturating_sub(AHEAD));
        let stands = sending.into_iter().chain(committing).filter(|&stands| stands > 0).min()?;
        Some(now + stands.max(LOOK_MIN))
    }

    /// Frames that could go but for the path, or for one before them that waits for it.
    pub(super) fn hold_frames(&mut self, now: Micros) {
        let Viewer { queue, videos, updates, flow, .. } = self;
        let full = !flow.may_send(u64::MAX, now) || flow.stands(updates.bytes_left()) > AHEAD;
        for stream in queue.items().iter().filter_map(|item| item.stream) {
            let waits = |job: JobId| updates.before(job) == Before::Encoded;
            if videos.waits_for_path(stream, waits, full) {
                videos.held(stream, now);
            }
        }
    }
}
