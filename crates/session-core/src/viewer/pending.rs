//! Path 5/13: under viewer.rs, from session/screen.rs with what happened on the screen, to the
//! queue, through view.rs if the viewer's view is not the whole screen.
//! What a viewer is still to be sent, with what depends on it: the videos whose frames its items
//! are, the barriers and echoes that wait for them, the frames they belong to. Knows one viewer's
//! regions; never what was sent, pixels or sockets.

use thinc_protocol::Micros;
use thinc_protocol::video::VideoStatus;
use thinc_protocol::viewer::ViewerHello;
use thinc_region::{Rect, Region, Size};

use super::SessionContext;
use super::barriers::{BARRIERS_MAX, Barriers};
use super::echoes::Echoes;
use super::frames::Frames;
use super::resync::Resync;
use super::sizes::Sizes;
use super::view::ViewState;
use crate::delivery::ledger::JobId;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::mutation::mutated;
use crate::queue::command_queue::{CommandQueue, Echo, FrameMerge, Kinds, Lane, Origin};
use crate::queue::copies::{CopyCommand, Proof};
use crate::queue::scheduler::{REAL_TIME_BYTES_MAX, SizeEstimate};
use crate::screen::stereo::RightEyes;
use crate::screen::view::Transform;
use crate::video::{CODED_MAX, PathRates, PortFrame, Videos};

/// Most rectangles that the shadow is to forget. Past it they become coarser, which sends some
/// equal pixels.
const FORGET_RECTS_MAX: usize = 128;

/// One viewer's pending pixels. `rate` is its path's, in bytes a second; 0 while it is unknown.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(super) queue: CommandQueue,
    pub(super) videos: Videos,
    pub(super) view: ViewState,
    pub(super) barriers: Barriers,
    pub(super) echoes: Echoes,
    pub(super) frames: Frames,
    pub(super) resync: Resync,
    pub(super) estimate: SizeEstimate,
    /// What the shadow must forget before the next job: planned pixels that the viewer will not
    /// show.
    pub(super) forget: Region,
    #[cfg(feature = "mutations")]
    mutation: Option<Mutation>,
}

impl Pending {
    /// Of a viewer that has said this: the whole screen.
    pub(super) fn new(
        hello: &ViewerHello,
        screen: &SessionContext<'_>,
        sizes: &Sizes,
        now: Micros,
    ) -> Pending {
        let mut queue = CommandQueue::new(screen.size, sizes.copies_rects_max());
        queue.reset(screen.size, now);
        Pending {
            queue,
            videos: Videos::new(hello.caps, screen.video, sizes.frame_bytes_max()),
            view: ViewState::new(),
            barriers: Barriers::default(),
            echoes: Echoes::default(),
            frames: Frames::default(),
            resync: Resync::new(now),
            estimate: SizeEstimate::default(),
            forget: Region::new(),
            #[cfg(feature = "mutations")]
            mutation: None,
        }
    }

    #[cfg(feature = "mutations")]
    pub(super) fn set_mutation(&mut self, mutation: Option<Mutation>) {
        self.mutation = mutation;
        self.queue.set_mutation(mutation);
        self.videos.set_mutation(mutation);
        self.view.set_mutation(mutation);
    }

    /// Rule 9. A new geometry, or the same again, of a screen of this size. `newest_seq`: the
    /// newest update that was sent; `next_job`: the first job of the new geometry.
    pub(super) fn reset(&mut self, screen: Size, newest_seq: u64, next_job: JobId, now: Micros) {
        let size = self.view.next_epoch(screen);
        self.videos.reset(newest_seq);
        self.queue.reset(size, now);
        self.frames.reset();
        self.forget.clear();
        self.resync.cancel();
        self.barriers.reset(&size.rect().into(), next_job);
    }

    /// Every record of this op, and of those before it, has been taken; `draws`: it was an op that
    /// draws.
    pub(crate) fn passed(&mut self, op: u64, draws: bool) {
        self.videos.passed(op);
        if draws {
            // The queue keeps the newest number only, so this is cheap.
            self.queue.passed(op);
        }
    }

    /// True while this video stream exists.
    pub(crate) fn has_video(&self, stream: u16) -> bool {
        self.videos.has(stream)
    }

    /// Everything is stale: the viewer lacks pixels and does not name them.
    pub(super) fn resync(&mut self, now: Micros) {
        let screen = Region::from(self.queue.size().rect());
        // COPYs within the whole screen leave it the whole screen.
        self.queue.stale(&screen, now);
        self.forget.add(&screen);
        self.barriers.wait_for(&screen);
    }

    /// Barriers wait, and nothing but their pixels and updates keeps them.
    pub(super) fn may_finish_barriers(&self) -> bool {
        !self.barriers.is_empty()
            && !self.videos.is_uncertain()
            && !self.resync.is_pending()
            && !self.view.is_change_pending()
    }

    /// The driver's records up to this barrier have arrived: what is pending now must be sent
    /// first. `next_job`: the first job that is not planned yet.
    pub(crate) fn driver_barrier(&mut self, driver_number: u32, next_job: JobId) {
        let mut waiting = self.queue.pending();
        // Pixels in doubt are certain once they were compared.
        waiting.add(self.queue.in_doubt());
        for copy in self.queue.copies() {
            // If the COPYs are given up, their destinations are pixels to wait for.
            waiting.add(&copy.region);
        }
        let copies = self.queue.copies().next().is_some();
        self.barriers.reached(driver_number, &waiting, copies, next_job);
    }

    /// Nothing is pending, in doubt or requested.
    pub(super) fn is_drained(&self) -> bool {
        self.queue.is_empty()
            && self.queue.in_doubt().is_empty()
            && !self.resync.is_pending()
            && !self.videos.has_pending_commands()
            && !self.view.is_change_pending()
    }

    /// As if everything pending had been committed.
    #[cfg(test)]
    pub(crate) fn commit_all(&mut self) {
        let screen = Region::from(self.queue.size().rect());
        self.queue.commit(1, &screen, &Region::new());
        self.forget.clear();
        assert!(self.queue.is_empty());
    }

    /// # Panics
    /// If an invariant of these files does not hold; the message states it.
    pub(super) fn check_invariants(&self) {
        self.queue.check_invariants();
        self.videos.check_invariants(&self.queue);
        assert!(self.barriers.len() <= BARRIERS_MAX, "at most {BARRIERS_MAX} barriers wait");
        self.echoes.check_invariants();
    }

    /// Takes a drawing on the screen; `is_response` if it looks like an input response.
    pub(crate) fn draw(&mut self, region: &Region, origin: Origin, is_response: bool, rate: u64) {
        match self.view.transform() {
            None => self.draw_in_view(region, origin, is_response, rate),
            Some(by) => {
                let touched = by.touched(region);
                self.draw_in_view(&touched, origin, is_response, rate);
            }
        }
    }

    /// Takes a drawing in view coordinates. An empty one consumes no echo.
    fn draw_in_view(&mut self, region: &Region, mut origin: Origin, is_response: bool, rate: u64) {
        if region.is_empty() {
            return;
        }
        if is_response && self.estimate.bytes(origin.kinds, region.area()) <= REAL_TIME_BYTES_MAX {
            origin.lane = Lane::RealTime;
        }
        origin.echo = self.echoes.take(origin.window, origin.since);
        self.frames.drawn(region);
        self.queue_drawing(region, origin, rate);
    }

    /// Takes a COPY on the screen.
    pub(crate) fn copy(
        &mut self,
        copy: &CopyCommand,
        op: u64,
        proof: Proof,
        mut origin: Origin,
        rate: u64,
    ) {
        let Some(by) = self.view.transform() else {
            origin.echo = self.echoes.take(origin.window, origin.since);
            self.videos.copied(copy, self.queue.size().rect());
            return self.queue.copy(copy.clone(), op, proof, origin);
        };
        let (moved, rest) = by.moved(copy);
        // A COPY that moves by a fraction of a view pixel is redrawn, but counts as scrolling all
        // the same.
        let (dx, dy) = moved.as_ref().map_or((0, 0), |moved| (moved.dx, moved.dy));
        self.videos.copied(
            &CopyCommand { region: by.touched(&copy.region), dx, dy },
            self.queue.size().rect(),
        );
        if let Some(moved) = moved {
            origin.echo = self.echoes.take(origin.window, origin.since);
            self.queue.copy(moved, op, proof, origin);
        }
        self.draw_in_view(&rest, origin, false, rate);
    }

    /// These pixels of the screen were redrawn unchanged, if the drawable maps are right.
    pub(crate) fn doubt(&mut self, region: &Region, now: Micros) {
        match self.view.transform() {
            None => self.queue.doubt(region, now),
            Some(by) => self.queue.doubt(&by.touched(region), now),
        }
    }

    /// Rule 9. Records are missing, and this part of the screen changed meanwhile.
    pub(crate) fn overflow(&mut self, dirty: &Region, now: Micros) {
        match self.view.transform() {
            None => self.queue.overflow(dirty, now),
            Some(by) => self.queue.overflow(&by.touched(dirty), now),
        }
        let uncertain = self.videos.overflowed(&mut self.queue);
        self.mark_uncertain_stale(&uncertain, now);
    }

    /// Identifies its view.
    pub(crate) fn epoch(&self) -> u32 {
        self.view.epoch()
    }

    /// The transform from the screen to its view; None if the view is the screen.
    pub(crate) fn transform(&self) -> Option<&Transform> {
        self.view.transform()
    }

    /// It shows a view that it chose, so its window does not have the screen's size.
    pub(crate) fn chooses_view(&self) -> bool {
        self.view.is_chosen()
    }

    /// Takes a frame of XVideo that is visible in `region` of the screen.
    pub(crate) fn frame(&mut self, frame: &PortFrame, region: &Region, origin: Origin, rate: u64) {
        let Some(by) = self.view.transform() else {
            return self.frame_in_view(frame, region, region, origin, rate);
        };
        let own = frame.scaled(by, self.videos.stream_size(frame));
        let touched = by.touched(region);
        let mut clip = by.covered(region);
        if mutated!(self.mutation, ScaledFrameExceedsClip) {
            clip.clone_from(&touched);
            clip.intersect_rect(&own.place);
        }
        self.frame_in_view(&own, &clip, &touched, origin, rate);
    }

    /// Takes a frame in view coordinates: all of the pixels in `clip`, and a part of each in
    /// `touched`. The rest of those may be text, so they are sent as pixels.
    fn frame_in_view(
        &mut self,
        frame: &PortFrame,
        clip: &Region,
        touched: &Region,
        origin: Origin,
        rate: u64,
    ) {
        let since = origin.since;
        let uncertain = self.videos.uncertain_outside(frame, clip);
        self.mark_uncertain_stale(&uncertain, since);
        let Some(stream) = self.videos.frame(frame, clip, &mut self.queue, since) else {
            return self.draw_in_view(touched, origin, false, rate);
        };
        self.videos.drawn_over(clip, stream);
        self.queue.draw_frame(clip, origin, stream, FrameMerge::Replace);
        if clip != touched && !mutated!(self.mutation, ScaledFrameIgnoresEdges) {
            self.draw_in_view(&touched.difference(clip), origin, false, rate);
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
    fn queue_drawing(&mut self, region: &Region, origin: Origin, rate: u64) {
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
                self.videos.redrawn(region, &mut self.queue, rate, origin.since);
            }
            return self.queue.draw(region, origin);
        };
        let mut inside = region.clone();
        inside.intersect_rect(&place);
        let outside = region.difference(&inside);
        self.queue.draw_frame(&inside, origin, stream, FrameMerge::Extend);
        if !outside.is_empty() {
            self.queue_drawing(&outside, Origin { echo: None, ..origin }, rate);
        }
    }

    /// These areas of the view change like a video.
    pub(crate) fn report_video_areas(&mut self, areas: &[Rect], rate: u64, now: Micros) {
        let screen = self.queue.size().rect();
        let readable_area_max = self.readable_area_max();
        let areas = areas.iter().filter(|area| area.area() <= readable_area_max);
        self.videos.report_areas(areas, screen, &mut self.queue, rate, now);
    }

    /// Largest area of the view that may become a video. A frame is read at once, so it covers no
    /// more of the screen than the largest frame of an unscaled viewer.
    fn readable_area_max(&self) -> u64 {
        self.transform().map_or(u64::MAX, |by| by.view_area(CODED_MAX.area()))
    }

    /// Nearly all pixels of this part of the view were new when they were planned.
    pub(crate) fn fully_changed(&mut self, rect: &Rect, rate: u64, now: Micros) {
        if rect.area() <= self.readable_area_max() {
            self.videos.fully_changed(rect, &mut self.queue, rate, now);
        }
    }

    /// Text moves over this part of a stream's frames.
    pub(crate) fn moving_text(&mut self, stream: u16, region: &Region) {
        self.videos.moving_text(stream, region);
    }

    /// Its person wants to see with both eyes, or no longer.
    pub(crate) fn want_right_eyes(&mut self, wanted: bool) {
        self.videos.want_right_eyes(wanted, &mut self.queue);
    }

    /// It decodes these codecs from now on beside H.264.
    pub(crate) fn set_video_codecs(&mut self, codecs: u32, now: Micros) {
        self.videos.set_codecs(codecs, now);
    }

    /// Its videos would have chroma of full resolution if a GPU encoded it.
    pub(crate) fn wants_full_colour(&self) -> bool {
        self.videos.wants_full_colour()
    }

    /// Takes what the screen shows to right eyes.
    pub(super) fn update_right_eyes(&mut self, eyes: &RightEyes, path: PathRates, now: Micros) {
        let view = (self.view.transform(), self.queue.size());
        self.videos.update_right_eyes(eyes, view, &mut self.queue, path, now);
    }

    /// This XVideo port has stopped.
    pub(crate) fn video_stopped(&mut self, port: u16) {
        self.videos.stopped(port, &mut self.queue);
    }

    /// Handles a report of the viewer about its decoder of one stream.
    pub(crate) fn video_status(&mut self, state: VideoStatus, now: Micros) {
        self.videos.handle_status(state, &mut self.queue, now);
    }

    /// An input of this viewer reached a window: the first change in it is its echo.
    pub(crate) fn await_echo(&mut self, echo: Echo) {
        self.echoes.await_echo(echo);
    }

    /// The viewer lacks these pixels of what it would show after everything committed.
    pub(super) fn mark_stale(&mut self, stale: &Region, now: Micros) {
        self.forget.add(stale);
        if self.forget.rect_count() > FORGET_RECTS_MAX {
            self.forget = self.forget.simplified(FORGET_RECTS_MAX / 4);
        }
        self.queue.stale_before_copies(stale, now);
        if self.barriers.is_empty() {
            return;
        }
        self.barriers.sent_again(&self.queue.pending());
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::viewer::View;

    use super::super::tests::{SCREEN, hello, with_context};
    use super::*;

    /// Nothing is pending.
    fn pending() -> Pending {
        let sizes = Sizes::new(1 << 20);
        let mut pending = with_context(|screen| Pending::new(&hello(0), screen, &sizes, 0));
        pending.commit_all();
        pending
    }

    fn origin(window: u32) -> Origin {
        Origin { window, kinds: Kinds::OTHER, since: 0, lane: Lane::Normal, echo: None }
    }

    #[test]
    fn a_small_response_goes_first_with_its_echo_and_a_large_one_does_not() {
        let mut pending = pending();
        let echo = Echo { seq: 3, window: 7, delivered: 0 };
        pending.await_echo(echo);
        pending.draw(&Rect::at(0, 0, 8, 8).into(), origin(7), true, 0);
        pending.draw(&Rect::at(0, 100, 640, 300).into(), origin(7), true, 0);
        let items: Vec<_> =
            pending.queue.items().iter().map(|item| (item.origin.lane, item.origin.echo)).collect();
        assert_eq!(items, [(Lane::RealTime, Some(echo)), (Lane::Normal, None)]);
        pending.check_invariants();
    }

    #[test]
    fn a_scaled_view_has_all_pixels_that_a_drawing_touches() {
        let mut pending = pending();
        pending.view = ViewState::new();
        pending.view.request(View { part: SCREEN.rect(), size: Size { width: 320, height: 240 } });
        assert!(pending.view.take(0));
        pending.reset(SCREEN, 0, JobId(2), 0);
        pending.commit_all();
        pending.draw(&Rect::at(101, 101, 1, 1).into(), origin(7), false, 0);
        let drawn = pending.queue.pending();
        assert!(drawn.contains_point(50, 50), "{drawn:?}");
        assert!(drawn.extents().width() <= 5 && drawn.extents().height() <= 5, "{drawn:?}");
        assert_eq!(pending.epoch(), 2);
    }

    #[test]
    fn a_viewer_that_lacks_everything_is_sent_everything_and_barriers_wait() {
        let mut pending = pending();
        pending.barriers.push(5, 1).unwrap();
        pending.driver_barrier(1, JobId(2));
        assert!(pending.may_finish_barriers());
        pending.resync(0);
        assert_eq!(pending.queue.pending(), Region::from(SCREEN.rect()));
        assert_eq!(pending.forget, Region::from(SCREEN.rect()));
        assert!(!pending.is_drained());
    }

    #[test]
    fn what_the_shadow_forgets_has_a_bound() {
        let mut pending = pending();
        for at in 0..2 * FORGET_RECTS_MAX as i32 {
            pending.mark_stale(&Rect::at(at % 16 * 40, at / 16 * 30, 3, 3).into(), 0);
        }
        assert!(pending.forget.rect_count() <= FORGET_RECTS_MAX);
        let left = pending.queue.pending().difference(&pending.forget);
        assert!(left.is_empty(), "every stale pixel is forgotten: {left:?}");
    }
}
