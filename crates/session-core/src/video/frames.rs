//! Path 5/13 and 6/13: under video.rs, from drawings of whole frames, to each job.
//! Which parts of the screen are frames of a program: images of one place that come one soon after
//! the other, as OpenGL programs and toolkits draw. The shell finds what moves in them; this file
//! decides whether that is sent as lossy pictures, which cost the server least and need a fast
//! path, or becomes a video stream. Knows rectangles, rates and times; never pixels.

use thinc_protocol::Micros;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_region::{Rect, Region};

use super::Videos;
use super::stream::{INTERVAL_MAX, INTERVAL_MIN, VideoStream};
use crate::quality::{JpegProfile, RateEstimate};
use crate::queue::command_queue::CommandQueue;

/// Most areas of frames, as many as the shell's plans take.
pub(super) const FRAME_AREAS_MAX: usize = 4;
/// After so many frames in a row it is known that others follow. What answers the user's input is
/// seldom so many.
const FRAMES_MIN: u32 = 8;
/// Longest time between two frames of a row: two and a half ticks of the slowest clock that
/// programs are held to.
const FRAME_GAP: Micros = 250_000;
/// Weight of a new interval or of a new plan in their averages.
const WEIGHT: f64 = 0.125;
/// Bytes of a moving pixel until they are known: lit spheres on plain ground have 0.3 as JPEG of
/// 4:4:4 at quality 95.
const PICTURE_BYTES: f64 = 0.3;
/// Pictures have to pass 30 times a second. How often the program draws says nothing: it is held
/// to what passes.
const PICTURES_A_SECOND: f64 = 30.0;
/// Share of the path's rate that pictures may take until their area becomes a stream, and from
/// which they come back.
const SHARE_MAX: f64 = 0.9;
const SHARE_AGAIN: f64 = 0.6;
/// Pixels that move in a frame, at least, so that pictures are of use: as many as of a stream.
const MOVING_MIN: f64 = 96.0 * 96.0;
/// A stream is not ended for pictures before.
const STREAM_MIN: Micros = 2_000_000;
/// Share of a frame that moves from which it is a video, for which a stream takes a tenth of the
/// bytes; and below which it is none any more.
const VIDEO_FROM: f64 = 0.7;
const VIDEO_UNTIL: f64 = 0.5;
/// For so long they must take more: a measured rate is half of the path's at times.
const OUTPACES_MIN: Micros = 1_000_000;

/// Frames of one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameArea {
    rect: Rect,
    last: Micros,
    frames: u32,
    /// Average interval; moving pixels of a frame that was planned, and bytes of its pictures.
    interval: f64,
    moving: f64,
    bytes: f64,
    /// The same of the newest frame, which may be planned in parts; None before it is.
    newest: Option<(u64, u64)>,
    /// Nearly all of it moves.
    is_video: bool,
    /// Its pictures take more than the path carries, and since when they seem to.
    outpaces: bool,
    outpaces_since: Option<Micros>,
}

impl FrameArea {
    fn first(rect: Rect, now: Micros) -> FrameArea {
        FrameArea {
            rect,
            last: now,
            frames: 1,
            interval: 0.0,
            moving: 0.0,
            bytes: 0.0,
            newest: None,
            is_video: false,
            outpaces: false,
            outpaces_since: None,
        }
    }

    fn continues(&self, now: Micros) -> bool {
        now.saturating_sub(self.last) <= FRAME_GAP
    }

    fn is_known(&self, now: Micros) -> bool {
        self.frames >= FRAMES_MIN && self.continues(now)
    }

    /// Bytes a second that its pictures need.
    fn takes(&self) -> f64 {
        let bytes = if self.bytes > 0.0 { self.bytes } else { self.moving * PICTURE_BYTES };
        bytes * PICTURES_A_SECOND
    }

    /// Takes what is known of the frame before the next one.
    fn next(&mut self) {
        let Some((moving, bytes)) = self.newest.take() else { return };
        // No bytes are of pictures while all is exact, or a stream.
        let bytes = (bytes > 0).then_some((&mut self.bytes, bytes));
        for (average, sample) in [(&mut self.moving, moving)].into_iter().chain(bytes) {
            *average = match *average {
                0.0 => sample as f64,
                _ => *average + (sample as f64 - *average) * WEIGHT,
            };
        }
        let share = if self.is_video { VIDEO_UNTIL } else { VIDEO_FROM };
        self.is_video = self.moving >= self.rect.area() as f64 * share;
    }
}

impl Videos {
    /// A program drew a whole frame here.
    pub(crate) fn frame_drawn(&mut self, rect: &Rect, now: Micros) {
        let Some(at) = self.frames.iter().position(|area| area.rect == *rect) else {
            self.frames.retain(|area| area.continues(now) && !area.rect.overlaps(rect));
            if self.frames.len() >= FRAME_AREAS_MAX {
                self.frames.remove(0);
            }
            self.frames.push(FrameArea::first(*rect, now));
            return;
        };
        let area = &mut self.frames[at];
        if !area.continues(now) {
            *area = FrameArea::first(*rect, now);
            return;
        }
        let interval = ((now - area.last) as f64).clamp(INTERVAL_MIN, INTERVAL_MAX);
        area.interval = match area.frames {
            1 => interval,
            _ => area.interval + (interval - area.interval) * WEIGHT,
        };
        area.next();
        area.last = now;
        area.frames = area.frames.saturating_add(1);
    }

    /// Areas of known frames that this region overlaps, outside of video streams.
    pub(crate) fn known_frames(&self, region: &Region, now: Micros) -> Vec<Rect> {
        let over = |rect: &Rect| {
            let meets = |stream: &VideoStream| stream.paints() && stream.place.overlaps(rect);
            self.streams.iter().any(meets)
        };
        self.frames
            .iter()
            .filter(|area| area.is_known(now) && region.overlaps_rect(&area.rect))
            .map(|area| area.rect)
            .filter(|rect| !over(rect))
            .collect()
    }

    /// The profile of what moves in these areas, if it is sent as lossy pictures.
    pub(crate) fn pictures_of(&self, areas: &[Rect]) -> Option<JpegProfile> {
        let is_stream = |area: &FrameArea| self.is_stream(area) && areas.contains(&area.rect);
        let pictures = self.pictures.filter(|_| !areas.is_empty());
        pictures.filter(|_| !self.frames.iter().any(is_stream))
    }

    /// A stream is better than pictures. Its colours have half of the resolution, which those who
    /// choose the high quality do not want, also for more frames; where a GPU encodes all of their
    /// resolution, pictures still lose less on a path that carries them.
    fn is_stream(&self, area: &FrameArea) -> bool {
        let is_better = match self.quality {
            PictureQuality::High => self.codecs.streams_full_colour && area.outpaces,
            _ => area.is_video || area.outpaces,
        };
        self.takes_coded && is_better
    }

    /// Most of this is frames of which something is sent as pictures, so it becomes no stream.
    pub(super) fn is_pictures(&self, rect: &Rect, now: Micros) -> bool {
        self.pictures.is_some()
            && self.frames.iter().any(|area| {
                let shared = area.rect.intersect(rect);
                area.is_known(now)
                    && area.moving >= MOVING_MIN
                    && !self.is_stream(area)
                    && !shared.is_empty()
                    && shared.area() * 2 >= rect.area()
            })
    }

    /// Streams of frames end once these may be pictures: the path has become faster, or was at
    /// first taken for a slow one.
    pub(super) fn end_for_pictures(
        &mut self,
        rate: RateEstimate,
        queue: &mut CommandQueue,
        now: Micros,
    ) {
        if let RateEstimate::Measured(rate) | RateEstimate::AtLeast(rate) = rate {
            for area in self.frames.iter_mut().filter(|area| area.outpaces) {
                if area.takes() <= rate as f64 * SHARE_AGAIN {
                    (area.outpaces, area.outpaces_since) = (false, None);
                }
            }
        }
        let is_over = |videos: &Videos, stream: &VideoStream| {
            stream.is_area()
                && now.saturating_sub(stream.begun_at) >= STREAM_MIN
                && videos.is_pictures(&stream.place, now)
        };
        while let Some(at) = self.streams.iter().position(|stream| is_over(self, stream)) {
            self.end(at, queue);
        }
    }

    /// So many bytes of pictures were encoded for these areas.
    pub(crate) fn frames_encoded(&mut self, areas: &[Rect], bytes: u64) {
        for area in self.frames.iter_mut().filter(|area| areas.contains(&area.rect)) {
            area.newest.get_or_insert_default().1 += bytes;
        }
    }

    /// A plan of these areas found so many moving pixels in them, within these bounds.
    pub(crate) fn frames_moved(
        &mut self,
        areas: &[Rect],
        (pixels, bounds): (u64, Rect),
        rate: RateEstimate,
        queue: &mut CommandQueue,
        now: Micros,
    ) {
        for area in self.frames.iter_mut().filter(|area| areas.contains(&area.rect)) {
            area.newest.get_or_insert_default().0 += pixels;
            if let RateEstimate::Measured(rate) = rate {
                let share = if area.outpaces { SHARE_AGAIN } else { SHARE_MAX };
                if area.takes() > rate as f64 * share {
                    let since = *area.outpaces_since.get_or_insert(now);
                    area.outpaces |= now.saturating_sub(since) >= OUTPACES_MIN;
                } else {
                    (area.outpaces, area.outpaces_since) = (false, None);
                }
            }
        }
        let known = self.frames.iter().find(|area| areas == [area.rect]);
        if let Some(FrameArea { rect, interval, .. }) = known.copied()
            && self.pictures_of(areas).is_none()
            && pixels * 2 >= bounds.area()
        {
            // All of the frame, if most of it moves: what moves next is seldom the same.
            let place = if bounds.area() * 2 >= rect.area() { rect } else { bounds };
            self.begin_frames(&place, interval, queue, rate, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::video::FrameCodec;
    use thinc_protocol::viewer::ViewerCaps;
    use thinc_region::Size;

    use super::super::VideoOrigin;
    use super::super::codecs::HALF_COLOUR_PAUSE;
    use super::*;
    use crate::quality::VideoPolicy;

    const SIZE: Size = Size { width: 1280, height: 1024 };
    const WINDOW: Rect = Rect::at(10, 10, 1240, 900);
    const TICK: Micros = 16_667;
    const MBIT: u64 = 125_000;
    /// A fifth of the window moves.
    const MOVING: (u64, Rect) = (220_000, Rect::at(100, 100, 600, 500));

    struct Bed {
        videos: Videos,
        queue: CommandQueue,
        now: Micros,
        /// Of a frame's pictures.
        bytes: u64,
        moving: (u64, Rect),
    }

    impl Bed {
        fn new(policy: VideoPolicy) -> Bed {
            Bed::with_caps(policy, ViewerCaps::VIDEO | ViewerCaps::H264)
        }

        fn with_caps(policy: VideoPolicy, caps: u32) -> Bed {
            let mut videos = Videos::new(caps, policy, 1 << 24);
            let mut queue = CommandQueue::new(SIZE, 4096);
            videos.set_quality(PictureQuality::Auto, Some(JpegProfile::High), &mut queue);
            queue.commit(1, &Region::from(SIZE.rect()), &Region::new());
            Bed { videos, queue, now: 1_000, bytes: 0, moving: MOVING }
        }

        /// Frames are drawn, and planned once they are known. Returns whether the last one was
        /// sent as pictures; None if it was not known.
        fn draw(&mut self, times: u32, rate: RateEstimate) -> Option<bool> {
            let mut pictures = None;
            for _ in 0..times {
                self.now += TICK;
                self.videos.frame_drawn(&WINDOW, self.now);
                self.videos.area(&Region::from(WINDOW), self.now);
                let areas = self.videos.known_frames(&Region::from(WINDOW), self.now);
                pictures = (!areas.is_empty()).then(|| self.videos.pictures_of(&areas).is_some());
                if pictures.is_some() {
                    self.videos.frames_encoded(&areas, self.bytes);
                    let (queue, now) = (&mut self.queue, self.now);
                    self.videos.frames_moved(&areas, self.moving, rate, queue, now);
                }
                self.videos.check_invariants(&self.queue);
            }
            pictures
        }

        fn choose(&mut self, quality: PictureQuality, pictures: bool) {
            let pictures = pictures.then_some(JpegProfile::High);
            self.videos.set_quality(quality, pictures, &mut self.queue);
        }

        /// The keyframe of a frame that was to be 4:4:4.
        fn keyframe(&mut self, codec: FrameCodec, now: Micros) {
            self.videos.codecs.keyframe_encoded(FrameCodec::H264Yuv444.bit(), codec, now);
        }

        fn streams(&self) -> usize {
            self.videos.streams.len()
        }
    }

    const FAST: RateEstimate = RateEstimate::Measured(500 * MBIT);

    #[test]
    fn frames_are_known_after_eight_in_a_row_and_forgotten_after_a_pause() {
        let mut bed = Bed::new(VideoPolicy::Auto);
        assert_eq!(bed.draw(7, FAST), None);
        assert_eq!(bed.draw(1, FAST), Some(true));
        bed.now += FRAME_GAP + 1;
        assert!(bed.videos.known_frames(&Region::from(WINDOW), bed.now).is_empty());
        assert_eq!(bed.draw(7, FAST), None);
        assert_eq!(bed.draw(1, FAST), Some(true));
        let elsewhere = Region::from(Rect::at(1260, 950, 20, 20));
        assert!(bed.videos.known_frames(&elsewhere, bed.now).is_empty());
    }

    #[test]
    fn frames_of_another_place_take_the_older_ones_over() {
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.draw(20, FAST);
        // The window was moved.
        let moved = WINDOW.translate(5, 5);
        for _ in 0..20 {
            bed.now += TICK;
            bed.videos.frame_drawn(&moved, bed.now);
        }
        assert_eq!(bed.videos.known_frames(&Region::from(SIZE.rect()), bed.now), [moved]);
        for at in 0..20 {
            bed.videos.frame_drawn(&Rect::at(at * 30, 0, 25, 25), bed.now);
            bed.videos.check_invariants(&bed.queue);
        }
    }

    #[test]
    fn pictures_need_a_path_and_a_policy_for_them() {
        for policy in [VideoPolicy::Off, VideoPolicy::Plain, VideoPolicy::H264] {
            let mut bed = Bed::new(policy);
            bed.choose(PictureQuality::Auto, true);
            assert_eq!(bed.draw(30, RateEstimate::Unknown), Some(false), "{policy:?}");
        }
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.choose(PictureQuality::Auto, false);
        assert_eq!(bed.draw(30, RateEstimate::Unknown), Some(false));
    }

    /// 220 000 pixels a frame, 30 times a second, 0.3 bytes each: 16 Mbit/s.
    #[test]
    fn what_the_path_does_not_carry_as_pictures_becomes_a_stream_at_once() {
        let mut bed = Bed::new(VideoPolicy::Auto);
        assert_eq!(bed.draw(60, RateEstimate::Measured(60 * MBIT)), Some(true));
        assert_eq!(bed.streams(), 0);
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.bytes = 250_000;
        bed.draw(60, RateEstimate::Measured(60 * MBIT));
        assert_eq!(bed.streams(), 0, "the rate may be a moment's");
        bed.draw(30, RateEstimate::Measured(60 * MBIT));
        assert_eq!(bed.streams(), 1, "the path is fast enough, but not for so many bytes");
        bed.draw(130, RateEstimate::Measured(60 * MBIT));
        bed.videos.update(RateEstimate::Measured(60 * MBIT), &mut bed.queue, bed.now);
        assert_eq!(bed.streams(), 1);
        bed.videos.update(RateEstimate::Measured(200 * MBIT), &mut bed.queue, bed.now);
        assert_eq!(bed.streams(), 0, "it was a moment's, or has become faster");
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.choose(PictureQuality::Auto, false);
        bed.draw(9, RateEstimate::Measured(20 * MBIT));
        assert_eq!(bed.streams(), 1, "a slow path");
        assert_eq!(bed.videos.streams[0].place, MOVING.1);
        let rest = bed.videos.known_frames(&Region::from(WINDOW), bed.now);
        assert!(rest.is_empty(), "they are the stream's: {rest:?}");
    }

    /// A program that once moved does not keep what covers it from being a stream.
    #[test]
    fn what_no_longer_moves_is_no_pictures() {
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.draw(20, FAST);
        assert!(bed.videos.is_pictures(&WINDOW, bed.now));
        bed.moving = (0, Rect::default());
        bed.draw(60, FAST);
        assert!(!bed.videos.is_pictures(&WINDOW, bed.now));
    }

    #[test]
    fn frames_that_move_all_over_become_a_stream_on_any_path() {
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.moving = (WINDOW.area() * 9 / 10, WINDOW);
        bed.draw(30, FAST);
        assert_eq!(bed.streams(), 1);
        assert_eq!(bed.videos.streams[0].place, WINDOW);
        let mut bed = Bed::with_caps(VideoPolicy::Auto, ViewerCaps::VIDEO);
        bed.moving = (WINDOW.area() * 9 / 10, WINDOW);
        assert_eq!(bed.draw(30, FAST), Some(true), "the viewer cannot decode a stream");
        assert_eq!(bed.streams(), 0);
    }

    #[test]
    fn what_is_sent_as_pictures_becomes_no_stream_by_its_motion() {
        let mut bed = Bed::new(VideoPolicy::Auto);
        let rate = RateEstimate::Measured(100 * MBIT);
        for _ in 0..120 {
            bed.draw(1, rate);
            let (queue, now) = (&mut bed.queue, bed.now);
            let areas = [MOVING.1];
            bed.videos.report_areas(areas.iter(), SIZE.rect(), queue, 100 * MBIT, now);
        }
        assert_eq!(bed.streams(), 0);
        bed.choose(PictureQuality::Auto, false);
        for _ in 0..120 {
            bed.draw(1, rate);
        }
        assert_eq!(bed.streams(), 1, "the path has become slow");
        bed.choose(PictureQuality::Auto, true);
        bed.draw(10, rate);
        bed.videos.update(rate, &mut bed.queue, bed.now);
        assert_eq!(bed.streams(), 0, "and fast again");
        assert_eq!(bed.draw(1, rate), Some(true));
    }

    #[test]
    fn the_high_quality_never_becomes_a_stream_and_the_exact_one_is_neither() {
        let slow = RateEstimate::Measured(5 * MBIT);
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.choose(PictureQuality::High, true);
        assert_eq!(bed.draw(200, slow), Some(true));
        assert_eq!(bed.streams(), 0);
        bed.choose(PictureQuality::Auto, true);
        bed.draw(100, slow);
        assert_eq!(bed.streams(), 1);
        bed.choose(PictureQuality::Exact, false);
        assert_eq!(bed.streams(), 0, "what is coded is not exact");
        assert_eq!(bed.draw(200, slow), Some(false));
        assert_eq!(bed.streams(), 0);
        bed.choose(PictureQuality::Auto, false);
        bed.draw(9, slow);
        assert_eq!(bed.streams(), 1);
    }

    #[test]
    fn the_high_quality_is_a_stream_where_that_is_4_4_4() {
        let slow = RateEstimate::Measured(5 * MBIT);
        let full_colour = FrameCodec::H264Yuv444.bit();
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.choose(PictureQuality::Auto, true);
        bed.videos.set_codecs(full_colour | FrameCodec::Av1.bit(), bed.now);
        assert!(!bed.videos.wants_full_colour());
        bed.choose(PictureQuality::High, true);
        assert!(bed.videos.wants_full_colour());
        assert_eq!(bed.draw(200, slow), Some(true), "nothing encodes it");
        bed.videos.set_full_colour(true, bed.now);
        bed.draw(100, FAST);
        assert_eq!(bed.streams(), 0, "the path carries pictures, which lose less");
        bed.moving = (WINDOW.area() * 9 / 10, WINDOW);
        bed.draw(100, FAST);
        assert_eq!(bed.streams(), 0, "also where all of it moves");
        bed.draw(100, slow);
        assert_eq!(bed.streams(), 1);
        let codecs = |bed: &Bed, origin| bed.videos.codecs.of(origin, bed.now);
        let both = full_colour | FrameCodec::Av1.bit();
        assert_eq!(codecs(&bed, VideoOrigin::Area), both);
        assert_eq!(codecs(&bed, VideoOrigin::RightEye(0)), both);
        assert_eq!(codecs(&bed, VideoOrigin::Port(0)), FrameCodec::Av1.bit(), "it is 4:2:0");
        for what in ["the encoder fails", "the viewer fails", "the person takes it back"] {
            match what {
                "the encoder fails" => bed.videos.set_full_colour(false, bed.now),
                "the viewer fails" => bed.videos.set_codecs(0, bed.now),
                _ => bed.choose(PictureQuality::Auto, true),
            }
            bed.videos.set_full_colour(what != "the encoder fails", bed.now);
            assert_eq!(codecs(&bed, VideoOrigin::Area) & full_colour, 0, "{what}");
            bed.draw(130, slow);
            bed.videos.update(slow, &mut bed.queue, bed.now);
            let pictures = what != "the person takes it back";
            assert_eq!(bed.streams(), usize::from(!pictures), "{what}");
            if pictures {
                bed.videos.set_codecs(full_colour, bed.now);
                bed.videos.set_full_colour(true, bed.now);
                bed.draw(200, slow);
                assert_eq!(bed.streams(), 1, "and again after {what}");
            }
        }
    }

    /// No encoder is free, or none takes frames of this size.
    #[test]
    fn a_stream_that_is_4_2_0_gives_way_to_pictures() {
        let slow = RateEstimate::Measured(5 * MBIT);
        let mut bed = Bed::new(VideoPolicy::Auto);
        bed.choose(PictureQuality::High, true);
        bed.videos.set_codecs(FrameCodec::H264Yuv444.bit(), bed.now);
        let mut pause = HALF_COLOUR_PAUSE;
        for times in 0..3 {
            bed.videos.set_full_colour(true, bed.now);
            bed.draw(200, slow);
            assert_eq!(bed.streams(), 1, "{times}");
            let began = bed.now;
            bed.keyframe(FrameCodec::H264, bed.now);
            // A keyframe later, for another reason.
            bed.keyframe(FrameCodec::H264, bed.now + 1);
            bed.videos.set_full_colour(true, bed.now);
            bed.draw(200, slow);
            bed.videos.update(slow, &mut bed.queue, bed.now);
            assert_eq!(bed.streams(), 0, "{times}");
            for (after, expected) in [(pause - 1, 0), (pause, 1)] {
                bed.videos.set_full_colour(true, began + after);
                bed.draw(9, slow);
                assert_eq!(bed.streams(), expected, "{times}: after {after}");
            }
            // The program rests, and its stream ends.
            bed.now = began + pause;
            bed.videos.update(slow, &mut bed.queue, bed.now);
            assert_eq!(bed.streams(), 0);
            pause *= 2;
        }
        // It is 4:4:4 after a moment.
        bed.videos.set_full_colour(true, bed.now);
        bed.draw(200, slow);
        bed.keyframe(FrameCodec::H264, bed.now);
        bed.keyframe(FrameCodec::H264Yuv444, bed.now);
        bed.videos.set_full_colour(true, bed.now);
        bed.draw(200, slow);
        bed.videos.update(slow, &mut bed.queue, bed.now);
        assert_eq!(bed.streams(), 1);
    }
}
