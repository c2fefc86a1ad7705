//! Memory of X server, session process and viewer while everything is done again and again: random
//! drawing of all kinds by X clients that come and go, input, copies of the clipboard, sizes, and
//! viewers that connect and leave. What is kept is bounded, so after the first rounds nothing
//! grows. `THINC_MEMORY_OPERATIONS=10000000` draws as much as a week of work (`./dev test --long`).

use std::fs;
use std::path::Path;

use thinc_bench::Error;
use thinc_bench::process::{Folder, wait_for};
use thinc_e2e::{Desktop, EVENT_TIMEOUT};

#[path = "../../crates/ring/tests/xdraw/mod.rs"]
mod xdraw;

use xdraw::{Drawer, Kinds};

/// Drawing operations of the short form, in its first rounds.
const OPERATIONS: usize = 120_000;
/// Each does the same kinds of things as the others. Caches, directories of viewers that have left,
/// and the allocator's arenas fill in the first half of them.
const ROUNDS: usize = 12;
/// The last ones of these are judged.
const JUDGED_ROUNDS: usize = 6;
/// The arenas fill by chance: each thread's grows when more is in use in it at once than ever
/// before. What is bounded has come to its bound some day, what leaks grows in every window.
const ROUNDS_MAX: usize = 36;
/// 4: viewers that come and go in a round; after two rounds the session has forgotten the first
/// (it remembers eight).
const VISITORS: usize = 4;
/// A cache that random drawing fills in a round.
const CACHE: [&str; 2] = ["--cache", "4M"];
const PARTS: [&str; 3] = ["X server", "session process", "viewer"];
/// Megabytes that the later of the judged rounds may need more than the earlier: what is kept
/// varies from round to round by as much (pixels that wait, the allocator's free lists).
const GROWTH_MAX_MB: f64 = 3.0;

#[test]
fn memory_does_not_grow() -> Result<(), Error> {
    let operations = match std::env::var("THINC_MEMORY_OPERATIONS") {
        Ok(text) => text.parse()?,
        Err(_) => OPERATIONS,
    };
    let mut desktop = Desktop::start("memory", "700x500", &["sleep", "infinity"])?;
    let mut viewer = desktop.another_viewer_with(&CACHE)?;
    std::mem::swap(&mut desktop.viewer, &mut viewer);
    viewer.finish()?;
    let processes =
        [desktop.session.pid("xorg")?, desktop.session.pid("session")?, desktop.viewer.pid()];
    let folder = Folder::new("memory")?;
    let copied = folder.path().join("copied.txt");
    fs::write(&copied, "What is copied in each round.\n".repeat(2_000))?;
    let mut rounds = Vec::new();
    loop {
        let round = rounds.len();
        all_of_it(&mut desktop, &copied, round, operations / ROUNDS)
            .map_err(|error| format!("round {round}: {error}"))?;
        let mut now = [0.0; PARTS.len()];
        for (now, process) in now.iter_mut().zip(processes) {
            *now = own_mb(process)?;
        }
        eprintln!("round {round}: {now:.1?} MB of {PARTS:?}");
        rounds.push(now);
        if rounds.len() < ROUNDS {
            continue;
        }
        let judged = &rounds[rounds.len() - JUDGED_ROUNDS..];
        let Some((name, grown)) = growth(judged) else { return Ok(()) };
        let words = format!("the {name} has grown by {grown:.1} MB within {JUDGED_ROUNDS} rounds");
        assert!(rounds.len() < ROUNDS_MAX, "{words}, after {ROUNDS_MAX} too: {rounds:.1?}");
        eprintln!("{words}");
    }
}

/// Which part needs more in the second half of these rounds than in the first, and how much.
fn growth(rounds: &[[f64; PARTS.len()]]) -> Option<(&'static str, f64)> {
    let (earlier, later) = rounds.split_at(rounds.len() / 2);
    PARTS.iter().enumerate().find_map(|(part, name)| {
        // The least of several rounds: what is needed, without what was just in use.
        let least = |rounds: &[[f64; PARTS.len()]]| {
            rounds.iter().map(|round| round[part]).fold(f64::INFINITY, f64::min)
        };
        let grown = least(later) - least(earlier);
        (grown > GROWTH_MAX_MB).then_some((*name, grown))
    })
}

#[test]
fn what_grows_in_each_round_is_found_and_what_came_to_its_bound_is_not() {
    let sessions = |mb: [f64; 6]| mb.map(|mb| [20.0, mb, 20.0]);
    let leaks = growth(&sessions([20.0, 21.2, 22.4, 23.6, 24.8, 26.0])).unwrap();
    assert_eq!(leaks.0, "session process");
    assert_eq!(growth(&sessions([20.0, 30.0, 30.0, 31.0, 22.9, 30.0])), None);
}

/// Megabytes of a process: its own, and its share of shared memory. Not those of mapped files,
/// whose shares change when other processes map the same ones.
fn own_mb(pid: u32) -> Result<f64, Error> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let mut kib = 0.0;
    for part in ["Pss_Anon:", "Pss_Shmem:"] {
        let line = text.lines().find_map(|line| line.strip_prefix(part));
        let value = line.and_then(|line| line.split_whitespace().next());
        kib += value.ok_or_else(|| format!("smaps_rollup has no {part}"))?.parse::<f64>()?;
    }
    Ok(kib * 1024.0 / 1e6)
}

/// One round of everything.
fn all_of_it(
    desktop: &mut Desktop,
    copied: &Path,
    round: usize,
    operations: usize,
) -> Result<(), Error> {
    const PIECES: usize = 4;
    for piece in 0..PIECES {
        // An X client that comes, draws, and leaves everything to the server to free.
        let seed = (round * PIECES + piece) as u64;
        let mut drawer = Drawer::new(desktop.connect_x()?, 0, seed, Kinds::All)?;
        let (width, height) = if piece % 2 == 0 { (900, 640) } else { (640, 400) };
        desktop.viewer.say(&format!("resize {width}x{height}"))?;
        wait_for("the session resizes", EVENT_TIMEOUT, || {
            (desktop.screen_size().ok()? == (width, height)).then_some(())
        })?;
        drawer.resized(width as i64, height as i64);
        for _ in 0..operations / PIECES {
            drawer.step()?;
        }
        drawer.sync()?;
        for line in [
            "move 30 30",
            "click 1",
            "scroll 0 -120",
            "text some words, also Ünicode\\n",
            "key ctrl+shift+a",
            "touch 1 begin 40 40",
            "touch 1 end 40 40",
            "release",
            "barrier",
        ] {
            desktop.viewer.say(line)?;
        }
        desktop.viewer.say(&format!("clip-copy clipboard text {}", copied.display()))?;
        let pasted = desktop.client("xclip").args(["-o", "-selection", "clipboard"]).output()?;
        assert!(pasted.stdout == fs::read(copied)?, "what is pasted: {pasted:?}");
        desktop.assert_identical(&format!("round {round}, seed {seed}"))?;
    }
    for _ in 0..VISITORS {
        let mut visitor = desktop.another_viewer_with(&CACHE)?;
        visitor.say("wait-quiet")?;
        visitor.finish()?;
    }
    desktop.viewer.say("wait-quiet")?;
    Ok(())
}
