//! Beside the path: the rules that the shell and the viewers keep, to be broken one at a time.
//! From tests/seeds.rs, to whoever keeps the rule; those of session-core have names there.
//! Knows names only.

use thinc_session_core::mutation::Mutation;

/// A rule that does not hold in a run, to show that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// One of the queue's.
    Core(Mutation),
    /// Rule 3: `begin` is loaded before the pixels are read.
    TagIsLoadedFirst,
    /// Rule 6: pixels are compared when read, and read again to be encoded.
    PixelsAreReadTwice,
    /// Rule 7: the shadow does not follow COPYs.
    ShadowIgnoresCopies,
    /// Rule 7: the shadow is not told what the viewer lost.
    ShadowIgnoresLoss,
    /// Lossy: the shadow takes for exact what a COPY moved.
    ShadowMovesExactPixels,
    /// Lossy: the viewer takes for exact what a COPY moved.
    ViewerMovesExactPixels,
    /// Packed: something is packed, and sent as it was.
    PackedIsNotSent,
    /// Cache: what a job keeps is shown again before anybody knows whether the viewer has it.
    KeptAtOnce,
    /// Cache: what a job that was given up should have kept is taken for kept.
    VoidIsApplied,
    /// Cache: a viewer that comes back is believed to hold all that it was ever sent.
    ReturnedHoldsAll,
    /// Unordered: the viewer applies an update over a newer one.
    LateUpdatesAreApplied,
    /// Unordered: what the viewer discarded is taken for applied.
    DiscardedIsNotLost,
}
