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
