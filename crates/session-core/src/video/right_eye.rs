//! Path 5/13 to 7/13: under video.rs, from screen/stereo.rs to viewer/commit.rs.
//! What the right eye of one viewer's person sees of stereo programs, as streams: which there are,
//! and which frame is due. A picture is coded while it moves, and sent as it is once it rests, or
//! while the path carries that. A stream that can be sent in neither way ends: the viewer would
//! keep an old picture, where the left eye's is better. Knows rectangles, sizes and times; never
//! pixels.

use thinc_protocol::Micros;
use thinc_protocol::video::{Source, pixel_bytes};
use thinc_region::{Rect, Region, Size};

use super::stream::{CommittedFrame, StreamState, VideoStream, is_codable_right_eye};
use super::{CLIP_RECTS_MAX, Coding, FrameDecision, PLAIN_FROM, PathRates, VideoOrigin, Videos};
use crate::delivery::ledger::{JobId, JobProgress};
use crate::queue::command_queue::CommandQueue;
use crate::screen::stereo::{RightEye, RightEyes};
use crate::screen::view::Transform;

/// A picture rests after so long without a change.
const REST: Micros = 100_000;
/// Longest transfer time of the picture as it is, since other updates wait behind it; and what
/// packing leaves of it, at most: most renderings are smooth.
const PIXELS_TIME_MAX: Micros = 250_000;
const PACKED_SHARE: u64 = 4;

/// Which picture a job shows to the right eye, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RightEyeFrame {
    /// The op that drew it.
    pub op: u64,
    /// Where all of it would be visible on the screen.
    pub screen_place: Rect,
    /// Where it is visible in the view.
    pub clip: Region,
}

/// The newest picture of a stream for the right eye, and what was committed of it.
#[derive(Debug, Default)]
pub(super) struct RightEyeState {
    frame: RightEyeFrame,
    revision: u64,
    changed_at: Micros,
    /// The revision that was committed last, and whether as pixels.
    committed: Option<(u64, bool)>,
    /// The picture of this revision could not be had: the next one is awaited.
    gone: Option<u64>,
    /// One was committed: the viewer may show it, or will.
    is_shown: bool,
}

impl RightEyeState {
    /// The viewer lacks what was committed last.
    pub(super) fn lost(&mut self) {
        self.committed = None;
    }

    /// What was committed last is not to be had any more: a newer one has taken its place, and its
    /// record is on the way.
    pub(super) fn cancelled(&mut self) {
        self.gone = self.committed.take().map(|(revision, _)| revision);
    }

    /// A change waits to be committed.
    pub(super) fn is_pending(&self) -> bool {
        self.revision != 0
            && self.gone != Some(self.revision)
            && self.committed.is_none_or(|(revision, _)| revision != self.revision)
    }

    fn rests(&self, now: Micros) -> bool {
        now >= self.changed_at + REST
    }

    /// All of it was committed, but not as pixels.
    fn is_coded(&self) -> bool {
        self.committed == Some((self.revision, false))
    }
}

/// What is committed next for the right eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PickedRightEye {
    pub(crate) stream: u16,
    pub(crate) bytes: u64,
    /// It is at rest: its pixels are sent as they are.
    pub(crate) is_exact: bool,
}

/// A clip that a frame can have.
fn is_possible(clip: &Region) -> bool {
    !clip.is_empty() && clip.rect_count() <= CLIP_RECTS_MAX
}

fn size_of(rect: &Rect) -> Size {
    Size { width: rect.width().max(0) as u32, height: rect.height().max(0) as u32 }
}

/// The part of a picture's place that a view shows, in the view's coordinates, and what is visible
/// there.
fn in_view(eye: &RightEye, by: Option<&Transform>, view: Size) -> (Rect, Region) {
    let (place, mut clip) = match by {
        None => (eye.place, eye.visible.clone()),
        Some(by) => (by.place(&eye.place), by.covered(&eye.visible)),
    };
    let place = place.intersect(&view.rect());
    clip.intersect_rect(&place);
    (place, clip)
}

impl Videos {
    /// The viewer wants the right eye's pictures, or no longer. It has dropped them then, so their
    /// streams end at once, even if it wants them again before anything is sent.
    pub(crate) fn want_right_eyes(&mut self, wanted: bool, queue: &mut CommandQueue) {
        self.wants_right_eyes = wanted;
        let is_over = |stream: &VideoStream| !wanted && !stream.paints();
        while let Some(at) = self.streams.iter().position(is_over) {
            self.end(at, queue);
        }
    }

    /// Takes what the screen shows to right eyes, in this view.
    pub(crate) fn update_right_eyes(
        &mut self,
        eyes: &RightEyes,
        view: (Option<&Transform>, Size),
        queue: &mut CommandQueue,
        path: PathRates,
        now: Micros,
    ) {
        self.right_eye_begins_at = None;
        let takes = self.wants_right_eyes && self.takes;
        if takes {
            eyes.iter().for_each(|eye| self.update_right_eye(eye, view));
        }
        let is_over = |videos: &Videos, stream: &VideoStream| {
            let VideoOrigin::RightEye(port) = stream.origin else { return false };
            stream.right_eye.frame.clip.is_empty()
                || !eyes.iter().any(|eye| eye.port == port)
                || videos.is_outdated(stream, path, now)
                || videos.became_codable(stream)
        };
        while let Some(at) = self.streams.iter().position(|stream| is_over(self, stream)) {
            self.end(at, queue);
        }
        if takes {
            eyes.iter().for_each(|eye| self.begin_right_eye(eye, view, path, now));
        }
    }

    fn right_eye_at(&self, port: u16) -> Option<usize> {
        self.streams.iter().position(|stream| stream.origin == VideoOrigin::RightEye(port))
    }

    fn update_right_eye(&mut self, eye: &RightEye, (by, view): (Option<&Transform>, Size)) {
        let Some(at) = self.right_eye_at(eye.port) else { return };
        if self.streams[at].right_eye.revision != eye.revision {
            let (place, clip) = in_view(eye, by, view);
            self.show_right_eye(at, eye, place, clip);
        }
    }

    /// Begins a stream for it if it has none, and its pictures can be sent.
    fn begin_right_eye(
        &mut self,
        eye: &RightEye,
        (by, view): (Option<&Transform>, Size),
        path: PathRates,
        now: Micros,
    ) {
        if self.right_eye_at(eye.port).is_some() {
            return;
        }
        let (place, clip) = in_view(eye, by, view);
        let size = size_of(&place);
        let from = self.right_eye_from(eye, size, path).filter(|_| is_possible(&clip));
        let Some(from) = from.map(|from| from.max(self.right_eye_backoff.until)) else { return };
        if now < from {
            let first = self.right_eye_begins_at.map_or(from, |other| other.min(from));
            self.right_eye_begins_at = Some(first);
            return;
        }
        let source = Source { size, crop: size.rect() };
        if self.begin(VideoOrigin::RightEye(eye.port), source, place, now).is_some() {
            self.show_right_eye(self.streams.len() - 1, eye, place, clip);
        }
    }

    /// From when on a stream of it shows more than its first picture, or one that rests; None if
    /// never. While it outpaces the path, only one that rests is sent without a codec, and its
    /// stream ends with the next change: so it begins once for each rest, not for each frame.
    fn right_eye_from(&self, eye: &RightEye, size: Size, path: PathRates) -> Option<Micros> {
        if self.takes_coded && is_codable_right_eye(size) {
            return Some(0);
        }
        let bytes = pixel_bytes(size);
        let fits = (1..=self.frame_bytes_max).contains(&bytes);
        let carried = path.rate as f64 >= bytes as f64 * 1e6 / eye.interval * PLAIN_FROM;
        if fits && carried {
            return Some(0);
        }
        self.carries_pixels(bytes, path).then_some(eye.changed_at + REST)
    }

    fn show_right_eye(&mut self, at: usize, eye: &RightEye, place: Rect, clip: Region) {
        let stream = &mut self.streams[at];
        (stream.drawn_at, stream.interval) = (eye.drawn_at, eye.interval);
        // A clip that no frame can have is as good as none.
        let shown = is_possible(&clip);
        if shown {
            let size = size_of(&place);
            let source = Source { size, crop: size.rect() };
            stream.keyframe_wanted |= stream.source != source;
            (stream.source, stream.place) = (source, place);
            stream.plain_bytes = pixel_bytes(size);
        }
        let (op, screen_place) = (eye.op, eye.place);
        let clip = if shown { clip } else { Region::new() };
        stream.right_eye = RightEyeState {
            frame: RightEyeFrame { op, screen_place, clip },
            revision: eye.revision,
            changed_at: eye.changed_at,
            ..std::mem::take(&mut stream.right_eye)
        };
    }

    /// The viewer shows an earlier picture, or where it was, and this one can be sent in no way: it
    /// outpaces the path, or is too large. END hides the earlier one.
    fn is_outdated(&self, stream: &VideoStream, path: PathRates, now: Micros) -> bool {
        let right_eye = &stream.right_eye;
        stream.state == StreamState::Ready
            && right_eye.is_shown
            && right_eye.is_pending()
            && self.coding(stream, path).is_none()
            && !(right_eye.rests(now) && self.sends_pixels(stream, path))
    }

    /// It was too large for a codec when it was announced, and no longer is.
    fn became_codable(&self, stream: &VideoStream) -> bool {
        let was_announced = stream.state != StreamState::New;
        was_announced && !stream.codable && self.takes_coded && stream.is_codable()
    }

    /// The picture is sent as it is once it rests.
    fn sends_pixels(&self, stream: &VideoStream, path: PathRates) -> bool {
        self.carries_pixels(stream.plain_bytes, path)
    }

    fn carries_pixels(&self, bytes: u64, path: PathRates) -> bool {
        let carried = path.large.saturating_mul(PIXELS_TIME_MAX) / 1_000_000;
        bytes > 0 && bytes <= self.frame_bytes_max && bytes / PACKED_SHARE <= carried
    }

    fn is_in_progress(stream: &VideoStream, progress: &impl Fn(JobId) -> JobProgress) -> bool {
        let committed = |frame: &CommittedFrame| progress(frame.job) != JobProgress::Done;
        stream.committed.as_ref().is_some_and(committed)
    }

    /// The frame to commit next for the right eye, if one is due. `decide` says whether a frame of
    /// a stream may be committed.
    pub(crate) fn pick_right_eye(
        &self,
        progress: impl Fn(JobId) -> JobProgress,
        decide: impl Fn(u16) -> FrameDecision,
        path: PathRates,
        now: Micros,
    ) -> Option<PickedRightEye> {
        let ready = |stream: &&VideoStream| !stream.paints() && stream.state == StreamState::Ready;
        self.streams.iter().filter(ready).find_map(|stream| {
            let (id, right_eye) = (stream.id, &stream.right_eye);
            // Without a codec nothing else is sent of a picture that outpaces the path.
            let is_due = right_eye.is_coded() || right_eye.is_pending() && !self.is_coded(stream);
            if right_eye.rests(now)
                && is_due
                && self.sends_pixels(stream, path)
                && !Self::is_in_progress(stream, &progress)
            {
                return Some(PickedRightEye {
                    stream: id,
                    bytes: stream.plain_bytes / PACKED_SHARE,
                    is_exact: true,
                });
            }
            if !right_eye.is_pending() {
                return None;
            }
            match decide(id) {
                FrameDecision::Plain(bytes) | FrameDecision::Coded(bytes) => {
                    Some(PickedRightEye { stream: id, bytes, is_exact: false })
                }
                FrameDecision::Pixels | FrameDecision::NotYet => None,
            }
        })
    }

    /// This stream's newest picture is committed.
    pub(crate) fn commit_right_eye(&mut self, id: u16, coding: Coding) -> Option<RightEyeFrame> {
        let at = self.position(id)?;
        let right_eye = &mut self.streams[at].right_eye;
        right_eye.committed = Some((right_eye.revision, coding == Coding::Plain));
        right_eye.is_shown = true;
        Some(right_eye.frame.clone())
    }

    /// A picture for the right eye waits for the path or for the frame before.
    pub(crate) fn right_eye_waits(&self) -> bool {
        let waits = |stream: &VideoStream| {
            stream.state == StreamState::Ready && stream.right_eye.is_pending()
        };
        self.streams.iter().any(waits)
    }

    /// Streams for the right eye that wait like [`Videos::right_eye_waits`].
    pub(crate) fn waiting_right_eyes(&self) -> impl Iterator<Item = u16> {
        let waits = |stream: &&VideoStream| {
            stream.state == StreamState::Ready && stream.right_eye.is_pending()
        };
        self.streams.iter().filter(waits).map(|stream| stream.id)
    }

    /// When a picture for the right eye will rest that was not sent, or sent coded, and when a
    /// stream may begin.
    pub(crate) fn right_eyes_due(&self, path: PathRates, now: Micros) -> Option<Micros> {
        let waits = |stream: &&VideoStream| {
            let right_eye = &stream.right_eye;
            stream.state == StreamState::Ready
                && (right_eye.is_coded() || right_eye.is_pending() && !self.is_coded(stream))
                && self.sends_pixels(stream, path)
        };
        let rests_at = |stream: &VideoStream| stream.right_eye.changed_at + REST;
        let rest = self.streams.iter().filter(waits).map(rests_at);
        rest.chain(self.right_eye_begins_at).filter(|&at| at > now).min()
    }
}
