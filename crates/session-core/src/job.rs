//! Path 7/13: from viewer/commit.rs, to the shell, which reads, plans and encodes.
//! What one update asks of the shell.
//! Knows regions, numbers and hints; never pixels or bytes of commands.

use thinc_protocol::Micros;
use thinc_protocol::limits::HELD_KEY_BYTES;
use thinc_region::{Rect, Region};

use crate::copies::CopyCommand;
use crate::drawable::Part;
use crate::quality::Quality;
use crate::video::VideoFrame;
use crate::view::Transform;

/// Names a job; grows by one with every commit of a session's viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// What the shell shall do for one update: forget what the viewer's shadow says of `forget`, apply `copies` to it in order,
/// read the pixels of `region`, say so with `handle_snapshot`, enter into it what the viewer has `shown` before, plan and encode
/// the rest, and give the bytes back with `handle_encoded`.
///
/// Shadows are planned in the order of jobs; encoding may end in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Names it.
    pub id: JobId,
    /// Geometry it is for; where it differs from the job before, the shadow is void.
    pub epoch: u32,
    /// What the viewer will not show although it was planned: taken back, given up, lost, or said to be lacking.
    pub forget: Region,
    /// All that follows is in pixels of the viewer's picture, which this makes of the screen; None where it is the screen.
    pub view: Option<Transform>,
    /// COPYs that go first; session-core encodes them itself.
    pub copies: Vec<CopyCommand>,
    /// Pixels to read; may be empty.
    pub region: Region,
    /// The part of `region` that the viewer shows already, once `copies` are applied, as far as the drawable maps know:
    /// read to be sure. Pixels that differ are sent, and counted with `handle_proposals`.
    pub verify: Region,
    /// Tiles inside `region` that the viewer may show already, from an earlier connection.
    pub shown: Option<Shown>,
    /// What `region` was drawn as, where that is known: disjoint, inside its extents, at most [`PARTS_MAX`].
    pub parts: Vec<Part>,
    /// The region is a frame of this stream, or a part of one.
    pub video: Option<VideoFrame>,
    /// Newest op that `verify` and `parts` know of. Where the snapshot's tag is later, a proposal may be wrong without
    /// being a fault.
    pub translated: u64,
    /// Estimate of its bytes.
    pub bytes_estimate: u64,
    /// Hints.
    pub hints: JobHints,
}

/// What a viewer that has come back says it shows; its pixels may have changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Of the hashes.
    pub key: [u8; HELD_KEY_BYTES],
    /// Tiles, and their pixels' hashes.
    pub tiles: Vec<(Rect, u64)>,
}

/// Hints about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobHints {
    /// An answer to a hand, or small: encode it at once, where it is.
    pub inline: bool,
    /// The area changes like video: speed before size.
    pub video: bool,
    /// Bytes a second the path carries, 0 when unknown: how much work bytes are worth.
    pub path_bytes_per_second: u64,
    /// Pixels that take about as many bytes as should leave at once: where commands are no larger, others can go between.
    pub piece_area: u64,
    /// Where its bytes are packed, and how nearly its photographs may be sent.
    pub quality: Quality,
}

/// Whether the shell shall read the pixels once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotVerdict {
    /// Go on with them.
    Keep,
    /// Something was drawn meanwhile: they may be torn. Read them again.
    ReadAgain,
}

/// How often one job may be read again: X may draw each time, and the fourth is of two pictures in one of thousands. More is
/// time that nobody gets.
const REREADS_MAX: u8 = 3;

/// The job whose pixels were asked for again last, and how often.
#[derive(Debug, Default)]
pub(crate) struct Rereads {
    job: Option<JobId>,
    times: u8,
}

impl Rereads {
    /// True where they shall be read once more.
    pub(crate) fn again(&mut self, job: JobId) -> bool {
        if self.job.replace(job) != Some(job) {
            self.times = 0;
        }
        self.times += 1;
        self.times <= REREADS_MAX
    }
}

/// How old a record may get before it is flushed although X has not gone to sleep.
///
/// 3 ms: a fifth of a 60 Hz frame; normally IDLE comes first.
pub const RECORD_AGE_MAX: Micros = 3_000;
