//! The oracle, and the proof that it can fail: thousands of seeds hold, and with any one rule broken some seed does not.
//! From seeds, through the whole path, to equal framebuffers.
//! Knows the simulator's public face.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use thinc_session_core::mutation::Mutation;
use thinc_sim::{Breakage, Full, Ids, Pipeline, Tally, run_seed, run_seeds};

const OPERATIONS: usize = 800;
/// As many as hold without the breakage: one that takes longer to find may be missed.
const SEEDS_TO_FIND_A_BREAKAGE: u64 = 10_000;

fn hold<P: Pipeline>(seeds: u64) -> Tally {
    let (tally, failed) = run_seeds::<P>(0..seeds, OPERATIONS);
    println!("{seeds} seeds: {tally:?}");
    assert!(failed.is_empty(), "{} of {seeds} seeds fail: {:?}", failed.len(), &failed[..failed.len().min(5)]);
    tally
}

#[test]
fn framebuffers_equal_the_screen_for_every_seed() {
    let tally = hold::<Ids>(10_000);
    assert!(tally.barriers > 10_000, "barriers were answered and checked: {tally:?}");
    assert!(tally.copies > 100_000 && tally.derived_copies > 5_000, "COPYs were sent, found ones too: {tally:?}");
    assert!(tally.lost > 5_000, "updates were lost and made up for: {tally:?}");
    assert!(tally.inexact > 1_000_000, "photographs were shown before they were exact: {tally:?}");
    assert!(tally.proposals.held > 50_000, "what viewers should have was looked up: {tally:?}");
    let parts = &tally.parts;
    let least = [parts.solid, parts.pattern, parts.image, parts.video].into_iter().min();
    assert!(least > Some(50_000), "every kind of part was held against pixels: {tally:?}");
    assert!(parts.text > tally.text_drawn / 2, "most text is known to be text: {tally:?}");
}

#[test]
fn so_they_do_through_the_real_encoders_and_viewer_core() {
    let tally = hold::<Full>(1_000);
    assert!(tally.inexact > 50_000, "photographs were shown before they were exact: {tally:?}");
    assert!(tally.held > 200_000, "viewers that came back showed some of it: {tally:?}");
    assert!(tally.recalled > 500, "pictures were shown again from what viewers keep: {tally:?}");
}

thread_local! {
    /// A panic on this thread is what is wanted here, and would fill the output.
    static PANICS_ARE_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// The first seed that shows a rule broken.
fn first_to_fail<P: Pipeline>(breakage: Breakage, seeds: u64) -> Option<u64> {
    PANICS_ARE_WANTED.set(true);
    let holds = |seed, breakage| {
        let run = AssertUnwindSafe(|| run_seed::<P>(seed, OPERATIONS, breakage));
        matches!(catch_unwind(run), Ok(Ok(_)))
    };
    // What fails anyway shows nothing.
    let fails = |&seed: &u64| !holds(seed, Some(breakage)) && holds(seed, None);
    (0..seeds).find(fails)
}

/// All of `Mutation`: one that is not named here does not compile.
macro_rules! every_mutation {
    ($($name:ident),* $(,)?; $($shown_elsewhere:ident),* $(,)?) => {{
        let named = |mutation: Mutation| match mutation {
            $(Mutation::$name => Breakage::Core(mutation),)*
            $(Mutation::$shown_elsewhere => unreachable!("a scenario shows it, and pixels seldom or never do"),)*
        };
        vec![$(named(Mutation::$name)),*]
    }};
}

#[test]
fn every_rule_is_missed_by_some_seed() {
    let mut breakages = every_mutation!(
        DrawingsOverlap,
        CopyIgnoresPending,
        CopiesLeaveAfterPixels,
        CopyIsClipped,
        CopyIsSplit,
        MergeIgnoresOverlap,
        ChainForgetsItsMiddle,
        CopiesPastTheBoundAreForgotten,
        TagsAreIgnored,
        TagsAreForgottenEarly,
        CopyIgnoresCommitted,
        OverlappingUpdatesOvertake,
        AfterIsNotTold,
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
        ViewForgetsSupport,
        ViewIgnoresPhase,
        ViewCopiesEdges,
        ViewForgetsCopyEdges,
        FramesJoin,
        OldFramesAreShown,
        FramesAreCarriedAlong,
        LateFramesAreBelieved,
        PicturesDoNotWait,
        GeometryKeepsStreams,
        StreamsHaveNoOrder,
        PicturesAreTakenBack,
        NextLeansOnWhatWasGivenUp,
        LostIsNotHeard,
        CodedIsExact,
        ScaledReachesOver,
        ScaledForgetsEdges,
        ScaledIsPlain;
        MendedIsWhatWasCovered,
        PathNeverMoves,
        HeldOutlivesWrites,
        HeldOutlivesGeometry,
        AloneDoesNotWait,
    );
    breakages.extend([
        Breakage::TagIsLoadedFirst,
        Breakage::PixelsAreReadTwice,
        Breakage::ShadowIgnoresCopies,
        Breakage::ShadowIgnoresLoss,
        Breakage::PackedIsNotSent,
        Breakage::ShadowMovesExactPixels,
        Breakage::ViewerMovesExactPixels,
        Breakage::LateUpdatesAreApplied,
        Breakage::DiscardedIsNotLost,
    ]);
    none_is_missed::<Ids>(&breakages);
}

#[test]
fn every_rule_of_the_cache_and_of_what_goes_alone_is_missed_by_some_seed() {
    let alone = Breakage::Core(Mutation::AloneDoesNotWait);
    none_is_missed::<Full>(&[Breakage::KeptAtOnce, Breakage::VoidIsApplied, Breakage::ReturnedHoldsAll, alone]);
}

fn none_is_missed<P: Pipeline>(breakages: &[Breakage]) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !PANICS_ARE_WANTED.get() {
                loud(panic);
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
    assert!(missed.is_empty(), "no seed misses {missed:?}: the simulator is blind there");
}
