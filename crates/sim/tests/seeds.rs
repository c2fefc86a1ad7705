//! The oracle, and the proof that it can fail: thousands of seeds hold, and with any one rule broken some seed does not.
//! From seeds, through the whole path, to equal framebuffers.
//! Knows the simulator's public face.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thinc_session_core::mutation::Mutation;
use thinc_sim::{Breakage, Full, Ids, run_seed};

const OPERATIONS: usize = 800;

#[test]
fn framebuffers_equal_the_screen_for_every_seed() {
    let mut barriers = 0;
    for seed in 0..3_000 {
        match catch_unwind(|| run_seed::<Ids>(seed, OPERATIONS, None)) {
            Ok(Ok(checked)) => barriers += checked,
            Ok(Err(divergence)) => panic!("seed {seed}: {}", divergence.0),
            Err(_) => panic!("seed {seed}: an invariant is broken, see above"),
        }
    }
    assert!(barriers > 3_000, "barriers were answered and checked: {barriers}");
}

#[test]
fn so_they_do_through_the_real_encoders_and_viewer_core() {
    for seed in 0..400 {
        match catch_unwind(|| run_seed::<Full>(seed, OPERATIONS, None)) {
            Ok(Ok(_)) => {}
            Ok(Err(divergence)) => panic!("seed {seed}: {}", divergence.0),
            Err(_) => panic!("seed {seed}: an invariant is broken, see above"),
        }
    }
}

/// The first seed that shows a rule broken.
fn first_to_fail(breakage: Breakage, seeds: u64) -> Option<u64> {
    // Broken invariants panic, and would fill the output with what is wanted here.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let fails = |seed: &u64| {
        !matches!(catch_unwind(AssertUnwindSafe(|| run_seed::<Ids>(*seed, OPERATIONS, Some(breakage)))), Ok(Ok(_)))
    };
    let found = (0..seeds).find(fails);
    std::panic::set_hook(hook);
    found
}

#[test]
fn every_rule_is_missed_by_some_seed() {
    let breakages = [
        Breakage::Core(Mutation::DrawingsOverlap),
        Breakage::Core(Mutation::CopyIgnoresPending),
        Breakage::Core(Mutation::CopiesLeaveAfterPixels),
        Breakage::Core(Mutation::CopyIsClipped),
        Breakage::Core(Mutation::CopyIsSplit),
        Breakage::Core(Mutation::CopiesPastTheBoundAreForgotten),
        Breakage::Core(Mutation::TagsAreIgnored),
        Breakage::Core(Mutation::TagsAreForgottenEarly),
        Breakage::Core(Mutation::CopyIgnoresCommitted),
        Breakage::Core(Mutation::OverlappingUpdatesOvertake),
        Breakage::Core(Mutation::StaleDoesNotFollowCopies),
        Breakage::Core(Mutation::EpochsAreIgnored),
        Breakage::Core(Mutation::OverflowIsIgnored),
        Breakage::Core(Mutation::OverflowHasNoTag),
        Breakage::TagIsLoadedFirst,
        Breakage::PixelsAreReadTwice,
        Breakage::ShadowIgnoresCopies,
        Breakage::ShadowIgnoresLoss,
    ];
    let mut missed = Vec::new();
    for breakage in breakages {
        match first_to_fail(breakage, 3_000) {
            Some(seed) => println!("{breakage:?}: seed {seed}"),
            None => missed.push(breakage),
        }
    }
    assert!(missed.is_empty(), "no seed misses {missed:?}: the simulator is blind there");
}
