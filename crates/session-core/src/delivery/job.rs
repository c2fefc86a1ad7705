//! Path 7/13: from viewer/commit.rs, to the shell, which reads, plans and encodes.
//! What the shell shall do for one update.
//! Knows regions, numbers and hints; never pixels or bytes of commands.

use thinc_protocol::Micros;
use thinc_protocol::limits::RETAINED_KEY_BYTES;
use thinc_region::{Rect, Region};

use crate::quality::{JpegProfile, Quality};
use crate::queue::copies::CopyCommand;
use crate::screen::drawable::Part;
use crate::screen::view::Transform;
use crate::video::{RightEyeFrame, VideoFrame};
use crate::viewer::ViewerId;

/// Identifies a job; grows by one with every commit for a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// What the shell shall do for one update: pass it to `Session::render`, encode the plan, and pass
/// the commands to `Session::complete`.
///
/// Shadows are planned in the order of jobs; encoding may end in any order.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a job holds back what overlaps it until it is completed"]
pub struct Job {
    /// The viewer.
    pub viewer: ViewerId,
    /// Identifies it.
    pub id: JobId,
    /// Its geometry.
    pub epoch: u32,
    /// Planned pixels that the viewer will not show: withdrawn, cancelled, lost, or reported stale.
    pub forget: Region,
    /// The transform from the screen to the viewer's view, in whose pixels all that follows is;
    /// None if the view is the screen.
    pub view: Option<Transform>,
    /// COPYs to apply to the shadow first, in order.
    pub copies: Vec<CopyCommand>,
    /// Pixels to read; may be empty.
    pub region: Region,
    /// The part of `region` that the viewer shows already after `copies`, according to the drawable
    /// maps: it is read to be sure. Pixels that differ are sent, and counted as refuted.
    pub verify: Region,
    /// Tiles inside `region` that the viewer may show already, from an earlier connection.
    pub retained: Option<RetainedHashes>,
    /// What `region` was drawn as, as far as known: disjoint parts inside its extents, at most
    /// [`PARTS_MAX`].
    pub parts: Vec<Part>,
    /// The region is a frame of this stream, or a part of one.
    pub video: Option<VideoFrame>,
    /// If `video` is for the right eye: what it shows. The region is empty then.
    pub right_eye: Option<RightEyeFrame>,
    /// Areas that a program puts whole frames into and that the region overlaps, at most four and
    /// disjoint: what changes in them probably moves.
    pub frames: Vec<Rect>,
    /// Newest op that `verify` and `parts` include. If the snapshot's tag is later, a proposal may
    /// be wrong without being a fault.
    pub translated: u64,
    /// Estimate of its bytes.
    pub bytes_estimate: u64,
    /// Hints.
    pub hints: JobHints,
}

/// The tiles that a reconnected viewer reports; their pixels may have changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedHashes {
    /// Key of the hashes.
    pub key: [u8; RETAINED_KEY_BYTES],
    /// Tiles, and the hashes of their pixels.
    pub tiles: Vec<(Rect, u64)>,
}

/// Hints about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobHints {
    /// An input response, or small: encode it at once, without a worker thread.
    pub inline: bool,
    /// The area changes like a video: speed before size.
    pub video: bool,
    /// The path's rate in bytes a second, 0 if unknown: how much work a byte is worth.
    pub path_bytes_per_second: u64,
    /// Pixels that take about as many bytes as should be sent at once: between commands of this
    /// size others can be sent.
    pub piece_area: u64,
    /// Where its bytes are packed, and the quality of its photographs.
    pub quality: Quality,
    /// The quality of what moves in its frames; `None`: lossless, like all else.
    pub frames: Option<JpegProfile>,
}

/// Longest age of a record before it is flushed although X is not asleep.
///
/// 3 ms: a fifth of a 60 Hz frame; normally IDLE comes first.
pub const RECORD_AGE_MAX: Micros = 3_000;
