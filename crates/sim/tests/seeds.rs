//! The main test, and the proof that it can fail: thousands of seeds pass, and with any single rule
//! broken some seed fails. From seeds, through the whole path, to equal framebuffers. Knows the
//! simulator's public interface.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use thinc_session_core::mutation::Mutation;
use thinc_sim::{Breakage, Full, Ids, Pipeline, Tally, run_seed, run_seeds};

const OPERATIONS: usize = 800;
/// As many as pass without a breakage: one that takes more seeds may be missed.
const SEEDS_TO_FIND_A_BREAKAGE: u64 = 10_000;

fn hold<P: Pipeline>(seeds: u64) -> Tally {
    let (tally, failed) = run_seeds::<P>(0..seeds, OPERATIONS);
    println!("{seeds} seeds: {tally:?}");
    assert!(
        failed.is_empty(),
        "{} of {seeds} seeds fail: {:?}",
        failed.len(),
        &failed[..failed.len().min(5)]
    );
    tally
}

#[test]
fn framebuffers_equal_the_screen_for_every_seed() {
    let tally = hold::<Ids>(10_000);
    assert!(tally.barriers > 10_000, "too few barriers were checked: {tally:?}");
    assert!(
        tally.copies > 100_000 && tally.derived_copies > 5_000,
        "too few COPYs, requested or derived: {tally:?}"
    );
    assert!(tally.lost > 5_000, "too few updates were lost: {tally:?}");
    assert!(tally.lossy > 1_000_000, "too few lossy pixels: {tally:?}");
    assert!(tally.proposals.confirmed > 50_000, "too few hints were verified: {tally:?}");
    let parts = &tally.parts;
    let least = [parts.solid, parts.pattern, parts.image, parts.video].into_iter().min();
    assert!(
        least > Some(50_000),
        "too few parts of some kind were compared with pixels: {tally:?}"
    );
    assert!(parts.text > tally.text_drawn / 2, "most text must be claimed as text: {tally:?}");
}

#[test]
fn framebuffers_equal_the_screen_with_the_real_encoders_and_viewer_core() {
    let tally = hold::<Full>(1_000);
    assert!(tally.lossy > 50_000, "too few lossy pixels: {tally:?}");
    assert!(tally.retained > 200_000, "reconnected viewers kept too little: {tally:?}");
    assert!(tally.recalled > 500, "too little was recalled from viewers' caches: {tally:?}");
}

thread_local! {
    /// Panics on this thread are expected and would fill the output.
    static PANICS_ARE_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// The first seed that fails with a rule broken.
fn first_to_fail<P: Pipeline>(breakage: Breakage, seeds: u64) -> Option<u64> {
    PANICS_ARE_EXPECTED.set(true);
    let holds = |seed, breakage| {
        let run = AssertUnwindSafe(|| run_seed::<P>(seed, OPERATIONS, breakage));
        matches!(catch_unwind(run), Ok(Ok(_)))
    };
    // A seed that fails anyway shows nothing.
    let fails = |&seed: &u64| !holds(seed, Some(breakage)) && holds(seed, None);
    (0..seeds).find(fails)
}

/// All of `Mutation`: a missing one is a compile error.
macro_rules! every_mutation {
    ($($name:ident),* $(,)?; $($shown_elsewhere:ident),* $(,)?) => {{
        let named = |mutation: Mutation| match mutation {
            $(Mutation::$name => Breakage::Core(mutation),)*
            $(Mutation::$shown_elsewhere => unreachable!("a scenario shows it, and pixels seldom \
                or never do"),)*
        };
        vec![$(named(Mutation::$name)),*]
    }};
}

#[test]
fn every_broken_rule_makes_some_seed_fail() {
    let mut breakages = every_mutation!(
        DrawingsOverlap,
        CopyIgnoresPending,
        CopiesSentAfterPixels,
        CopyIsClipped,
        CopyIsSplit,
        MergeIgnoresOverlap,
        ChainForgetsItsMiddle,
        CopiesPastTheBoundAreForgotten,
        TagsAreIgnored,
        TagsAreForgottenEarly,
        CopyIgnoresCommitted,
        OverlappingUpdatesOvertake,
        AfterIsNotSent,
        StaleDoesNotFollowCopies,
        EpochsAreIgnored,
        OverflowIsIgnored,
        OverflowHasNoTag,
        RefreshIsForgotten,
        RefreshIgnoresCopies,
        EqualityIgnoresChangesHere,
        EqualityIgnoresChangesThere,
        EqualityDoesNotMove,
        CopiesOfOneOpChain,
        OverOfTranslucentIsCopy,
        SolidSurvivesDrawing,
        OverflowKeepsMaps,
        ViewIgnoresSupport,
        ViewIgnoresPhase,
        ViewCopiesEdges,
        ViewIgnoresCopyEdges,
        FramesJoin,
        OldFramesAreShown,
        FramesFollowCopies,
        LateFramesAreAccepted,
        FramesDoNotWaitForDecoder,
        GeometryKeepsStreams,
        StreamsHaveNoOrder,
        FramesAreWithdrawn,
        FrameRefersToCancelledFrame,
        KeyframeRequestIsIgnored,
        CodedIsLossless,
        ScaledFrameExceedsClip,
        ScaledFrameIgnoresEdges,
        ScaledFrameIsPlain;
        RefreshFrameIncludesCovered,
        WithdrawnStaysFirst,
        RetainedTilesOutliveWrites,
        RetainedTilesOutliveGeometry,
        DatagramDoesNotWait,
    );
    breakages.extend([
        Breakage::TagIsLoadedFirst,
        Breakage::PixelsAreReadTwice,
        Breakage::ShadowIgnoresCopies,
        Breakage::ShadowIgnoresLoss,
        Breakage::PackedIsNotSent,
        Breakage::ShadowCopyIsLossless,
        Breakage::ViewerCopyIsLossless,
        Breakage::LateUpdatesAreApplied,
        Breakage::DiscardedIsNotLost,
    ]);
    all_are_detected::<Ids>(&breakages);
}

#[test]
fn every_broken_rule_of_caches_and_datagrams_makes_some_seed_fail() {
    let datagram = Breakage::Core(Mutation::DatagramDoesNotWait);
    all_are_detected::<Full>(&[
        Breakage::KeepIsUsedAtOnce,
        Breakage::DiscardedJobIsApplied,
        Breakage::ReconnectedHoldsAll,
        datagram,
    ]);
}

fn all_are_detected<P: Pipeline>(breakages: &[Breakage]) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !PANICS_ARE_EXPECTED.get() {
                default_hook(panic);
            }
        }));
    });
    let missed: Vec<Breakage> = std::thread::scope(|scope| {
        let halves = breakages.chunks(breakages.len().div_ceil(2)).map(|breakages| {
            scope.spawn(|| {
                let missed = breakages.iter().copied().filter(|&breakage| {
                    let seed = first_to_fail::<P>(breakage, SEEDS_TO_FIND_A_BREAKAGE);
                    println!("{breakage:?}: seed {seed:?}");
                    seed.is_none()
                });
                missed.collect::<Vec<_>>()
            })
        });
        let halves: Vec<_> = halves.collect();
        halves.into_iter().flat_map(|half| half.join().expect("panics are caught")).collect()
    });
    assert!(missed.is_empty(), "no seed detects {missed:?}");
}
