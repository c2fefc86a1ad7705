//! Beside the path: the rules of the shell and the viewers, to be broken one at a time. From
//! tests/seeds.rs, to the code that implements the rule; session-core's rules have names there.
//! Knows names only.

use thinc_session_core::mutation::Mutation;

/// A rule that is broken in a run, to show that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// A rule of session-core.
    Core(Mutation),
    /// Rule 3: `begin` is loaded before the pixels are read.
    TagIsLoadedFirst,
    /// Rule 6: pixels are compared when read, and read again to be encoded.
    PixelsAreReadTwice,
    /// Rule 7: the shadow does not follow COPYs.
    ShadowIgnoresCopies,
    /// Rule 7: stale pixels are not marked in the shadow.
    ShadowIgnoresLoss,
    /// Lossy: the shadow treats the destination of a COPY as lossless.
    ShadowCopyIsLossless,
    /// Lossy: the viewer treats the destination of a COPY as lossless.
    ViewerCopyIsLossless,
    /// Packed: the packer packs an update, and the plain bytes are sent.
    PackedIsNotSent,
    /// Cache: content that a job keeps is recalled before the viewer is known to have it.
    KeepIsUsedAtOnce,
    /// Cache: content of a cancelled job counts as kept.
    DiscardedJobIsApplied,
    /// Cache: a viewer that reconnects is believed to have everything it was ever sent.
    ReconnectedHoldsAll,
    /// Unordered: the viewer applies an update over a newer one.
    LateUpdatesAreApplied,
    /// Unordered: an update discarded by the viewer counts as applied.
    DiscardedIsNotLost,
}
