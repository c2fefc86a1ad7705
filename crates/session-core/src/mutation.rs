//! Fault injection for tests: switches off one rule of the core, so that a test proves that the
//! rule is needed. Beside command_queue.rs.
//! Only the simulator turns on the feature `mutations`; its tests have for each rule a seed or a
//! scenario that fails without it. Knows the rules' names. Without the feature there is no enum, no
//! field and no branch: [`mutated!`] is `false`.

/// `mutated!(self.mutation, CopyIgnoresPending)`: true if this rule is broken.
#[cfg(feature = "mutations")]
macro_rules! mutated {
    ($active:expr, $rule:ident) => {
        $active == Some($crate::mutation::Mutation::$rule)
    };
}

/// No rule is broken.
#[cfg(not(feature = "mutations"))]
macro_rules! mutated {
    ($active:expr, $rule:ident) => {
        false
    };
}

pub(crate) use mutated;

/// A rule that is broken.
#[cfg(feature = "mutations")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Rule 1: a new drawing does not replace pending pixels.
    DrawingsOverlap,
    /// Rule 2: a COPY moves pixels that the viewer does not have.
    CopyIgnoresPending,
    /// Rule 2: queued COPYs are not committed with the pixels that follow them.
    CopiesSentAfterPixels,
    /// Rule 2: a drawing over a COPY's destination is clipped out of the COPY.
    CopyIsClipped,
    /// Rule 2: each rectangle of a COPY becomes a COPY of its own.
    CopyIsSplit,
    /// Rule 2: COPYs by one vector merge although the second reads what the first wrote.
    MergeIgnoresOverlap,
    /// Rule 2: two chained COPYs merge although what the first wrote is still needed.
    ChainForgetsItsMiddle,
    /// Rule 2: COPYs past the bound are dropped.
    CopiesPastTheBoundAreForgotten,
    /// Rule 3: the tag of a read is ignored.
    TagsAreIgnored,
    /// Rule 3: a tag is forgotten with the next op instead of when translation has passed it.
    TagsAreForgottenEarly,
    /// Rule 4: a COPY's source may be committed and not yet read.
    CopyIgnoresCommitted,
    /// Rule 4: the update that is encoded first is sent first.
    OverlappingUpdatesOvertake,
    /// Rule 4: an update does not name the update that must be applied before it.
    AfterIsNotSent,
    /// Rule 4: a datagram does not wait for overlapping updates in flight on the stream.
    DatagramDoesNotWait,
    /// Rule 5: stale pixels are sent where they were, not where COPYs moved them.
    StaleDoesNotFollowCopies,
    /// Rule 9: updates of an earlier geometry are sent in the new one.
    EpochsAreIgnored,
    /// Rule 9: the tiles of an overflow do not become pending.
    OverflowIsIgnored,
    /// Rule 9: the tiles of an overflow are taken for those of the ops before it.
    OverflowHasNoTag,
    /// Refresh: lossy areas are not remembered.
    RefreshIsForgotten,
    /// Refresh: lossy pixels are refreshed where they were, not where COPYs moved them.
    RefreshIgnoresCopies,
    /// Drawable maps: a changed area keeps its equalities with other drawables.
    EqualityIgnoresChangesHere,
    /// Drawable maps: other drawables keep their equalities with a changed area.
    EqualityIgnoresChangesThere,
    /// Drawable maps: pixels moved within a pixmap keep the equalities of their old place.
    EqualityDoesNotMove,
    /// Drawable maps: a COPY of an op reads what an earlier COPY of the same op wrote.
    CopiesOfOneOpChain,
    /// Drawable maps: an Over blend from a translucent source counts as a copy.
    OverOfTranslucentIsCopy,
    /// Drawable maps: a solid tile stays solid under text, lines and images.
    SolidSurvivesDrawing,
    /// Drawable maps: the maps survive missing records.
    OverflowKeepsMaps,
    /// Views: a drawing changes only the view pixels that it lies over, rounded to the nearest.
    ViewIgnoresSupport,
    /// Views: a COPY by any vector is a COPY in the view, rounded to the nearest pixel.
    ViewIgnoresPhase,
    /// Views: pixels that only touch a COPY's destination are moved along.
    ViewCopiesEdges,
    /// Views: the pixels at a COPY's edges are not redrawn.
    ViewIgnoresCopyEdges,
    /// Videos: a drawing beside a frame joins it.
    FramesJoin,
    /// Videos: covered pixels of a frame are shown by the next frame.
    OldFramesAreShown,
    /// Videos: a pending frame stays a frame where a COPY moves it.
    FramesFollowCopies,
    /// Videos: a frame counts as the one whose clip it is shown in, though a later one was read.
    LateFramesAreAccepted,
    /// Videos: frames are sent before the viewer's decoder is ready.
    FramesDoNotWaitForDecoder,
    /// Videos: streams survive a new geometry.
    GeometryKeepsStreams,
    /// Videos: commands of one stream are sent in any order.
    StreamsHaveNoOrder,
    /// Videos: late frames are withdrawn like pixels.
    FramesAreWithdrawn,
    /// Videos: the next frame refers to a cancelled one.
    FrameRefersToCancelledFrame,
    /// Videos: a viewer that asks for a keyframe gets none.
    KeyframeRequestIsIgnored,
    /// Videos: the plain frame that refreshes a video also marks pixels drawn over it as lossless.
    RefreshFrameIncludesCovered,
    /// Videos: coded frames count as lossless.
    CodedIsLossless,
    /// Videos in scaled views: a frame is shown on pixels of which it covers only a part.
    ScaledFrameExceedsClip,
    /// Videos in scaled views: the pixels at a frame's edges are not redrawn.
    ScaledFrameIgnoresEdges,
    /// Videos in scaled views: a shrunk frame may be plain.
    ScaledFrameIsPlain,
    /// Rule 4: after a long stall the rest of a withdrawn area still goes first.
    WithdrawnStaysFirst,
    /// Rule 10: retained tiles stay valid after something was written over them.
    RetainedTilesOutliveWrites,
    /// Rule 10: retained tiles of one geometry are used for another.
    RetainedTilesOutliveGeometry,
}
