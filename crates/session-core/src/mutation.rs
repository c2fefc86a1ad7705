//! Beside command_queue.rs: the queue's rules, to be broken one at a time.
//! Only the simulator turns this on, to show that each rule has a seed and a scenario that fails without it.
//! Knows the rules' names; a build without the feature `mutations` holds nothing of this but `false`.

/// A rule that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Rule 1: a new drawing does not take pending pixels over.
    DrawingsOverlap,
    /// Rule 2: a COPY moves what the viewer has not got.
    CopyIgnoresPending,
    /// Rule 2: COPYs stay behind when pending pixels leave.
    CopiesLeaveAfterPixels,
    /// Rule 2: what is drawn over a COPY's destination is clipped out of it.
    CopyIsClipped,
    /// Rule 2: a COPY's rectangles are COPYs of their own.
    CopyIsSplit,
    /// Rule 2: COPYs by one vector merge although the second reads what the first wrote.
    MergeIgnoresOverlap,
    /// Rule 2: a COPY and the one that reads it merge although what the first wrote is wanted.
    ChainForgetsItsMiddle,
    /// Rule 2: COPYs past the bound are forgotten.
    CopiesPastTheBoundAreForgotten,
    /// Rule 3: a read's tag is not looked at.
    TagsAreIgnored,
    /// Rule 3: a tag is forgotten with the next op, not when translation has passed it.
    TagsAreForgottenEarly,
    /// Rule 4: a COPY's source may be committed and not yet read.
    CopyIgnoresCommitted,
    /// Rule 4: whatever is encoded first is sent first.
    OverlappingUpdatesOvertake,
    /// Rule 4: an update does not say what must have been applied before it.
    AfterIsNotTold,
    /// Rule 4: what goes alone does not wait for what it overlaps and comes in order.
    AloneDoesNotWait,
    /// Rule 5: what is lacking is sent where it was, not where COPYs took it.
    StaleDoesNotFollowCopies,
    /// Rule 9: updates of the geometry before are sent in the new one.
    EpochsAreIgnored,
    /// Rule 9: an overflow's tiles are not made pending.
    OverflowIsIgnored,
    /// Rule 9: an overflow's tiles are believed to be of the ops before it.
    OverflowHasNoTag,
    /// Refresh: what is sent lossy is not remembered.
    RefreshIsForgotten,
    /// Refresh: what was sent lossy is made exact where it was, not where COPYs took it.
    RefreshIgnoresCopies,
    /// Drawable maps: what was drawn on is still equal to what it was equal to.
    EqualityIgnoresChangesHere,
    /// Drawable maps: what is equal to a drawable that is drawn on is still equal to it.
    EqualityIgnoresChangesThere,
    /// Drawable maps: what is moved within a pixmap is still equal to what lies where it lay.
    EqualityDoesNotMove,
    /// Drawable maps: a COPY of an op reads what an earlier one of the op wrote.
    CopiesOfOneOpChain,
    /// Drawable maps: an Over blend of what is not opaque is a copy.
    OverOfTranslucentIsCopy,
    /// Drawable maps: what lies under text, lines and pictures is all there is.
    SolidSurvivesDrawing,
    /// Drawable maps: they outlive records that are missing.
    OverflowKeepsMaps,
    /// Views: a drawing changes no pixel but those it lies over, rounded to the nearest.
    ViewForgetsSupport,
    /// Views: a COPY is one whatever its vector, rounded to the nearest.
    ViewIgnoresPhase,
    /// Views: what only touches a COPY's destination is moved along.
    ViewCopiesEdges,
    /// Views: what lies over a COPY's edges is not drawn anew.
    ViewForgetsCopyEdges,
    /// Videos: what is drawn beside a frame joins it.
    FramesJoin,
    /// Videos: what is not seen of a frame any more is shown by the next one.
    OldFramesAreShown,
    /// Videos: a frame that waits is one where a COPY takes it.
    FramesAreCarriedAlong,
    /// Videos: a picture is believed to be the frame whose clip it is shown in.
    LateFramesAreBelieved,
    /// Videos: pictures are sent before the viewer is ready.
    PicturesDoNotWait,
    /// Videos: streams outlive the geometry.
    GeometryKeepsStreams,
    /// Videos: what is said of streams is sent in any order.
    StreamsHaveNoOrder,
    /// Videos: a picture that is late is taken back like pixels.
    PicturesAreTakenBack,
    /// Videos: the next picture leans on one that was given up.
    NextLeansOnWhatWasGivenUp,
    /// Videos: a viewer that is lost gets no picture that leans on none.
    LostIsNotHeard,
    /// Videos: the one picture that makes a video exact makes exact what was drawn over it.
    MendedIsWhatWasCovered,
    /// Videos: what is coded is not made exact.
    CodedIsExact,
    /// Videos in scaled pictures: a frame is shown where only a part of a pixel is its own.
    ScaledReachesOver,
    /// Videos in scaled pictures: what lies over a frame's edges is not drawn anew.
    ScaledForgetsEdges,
    /// Videos in scaled pictures: a smaller frame may be plain.
    ScaledIsPlain,
    /// Rule 4: after a long stand the rest of an old picture still goes first.
    PathNeverMoves,
    /// Rule 10: what a viewer said it showed is believed after something was written there.
    HeldOutlivesWrites,
    /// Rule 10: what a viewer said it showed is believed of another picture, and after another picture.
    HeldOutlivesGeometry,
}

/// Which rule is broken, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken(#[cfg(feature = "mutations")] Option<Mutation>);

impl Broken {
    /// Breaks a rule.
    #[cfg(feature = "mutations")]
    pub const fn rule(mutation: Option<Mutation>) -> Broken {
        Broken(mutation)
    }

    /// True when that one is broken.
    #[cfg(feature = "mutations")]
    #[inline]
    pub fn is(self, mutation: Mutation) -> bool {
        self.0 == Some(mutation)
    }

    /// Nothing is.
    #[cfg(not(feature = "mutations"))]
    #[inline]
    pub const fn is(self, _: Mutation) -> bool {
        false
    }
}
