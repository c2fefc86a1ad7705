//! Every target on its seeds, on seeded mutations of them, and on every input that once broke it.
//! Beside the path. A failure prints the target and the seed; the input is added to
//! fuzz/regressions and stays there. Knows no format: the targets check the promises.

use thinc_fuzz::mutate::{Random, mutate};
use thinc_fuzz::{Target, targets};

/// Mutated inputs per target: a second or two each on one core.
const ROUNDS: u64 = 200_000;
/// Of targets whose input is played: 5 ms each, for the decoder and the resampler.
const ROUNDS_PLAYED: u64 = 2_000;

fn survive(target: &Target) {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    for seed in &seeds {
        (target.run)(seed);
    }
    let rounds = if target.name == "sound" { ROUNDS_PLAYED } else { ROUNDS };
    for round in 0..rounds {
        let mut random = Random::new(round);
        let mut input = seeds[random.below(seeds.len())].clone();
        mutate(&mut input, &seeds, &mut random);
        let outcome = std::panic::catch_unwind(|| (target.run)(&input));
        assert!(outcome.is_ok(), "target {}, round {round}, breaks on {input:02x?}", target.name);
    }
}

#[test]
fn targets_survive_seeds_and_their_mutations() {
    targets().for_each(survive);
}

#[test]
fn targets_survive_inputs_that_once_broke_them() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    for target in targets() {
        // A target that never broke has no folder.
        for entry in std::fs::read_dir(folder.join(target.name)).into_iter().flatten() {
            let path = entry.expect("the folder of regressions can be read").path();
            (target.run)(&std::fs::read(&path).expect("a regression can be read"));
        }
    }
}

#[test]
#[should_panic(expected = "round")]
fn a_target_that_breaks_is_found() {
    fn breaks(input: &[u8]) {
        assert!(input.len() != 7, "seven bytes");
    }
    survive(&Target { name: "breaks", run: breaks, seeds: || vec![vec![0; 6]] });
}
