//! Failures that the user must not notice: a killed session process, a flood that overflows the
//! ring, redirected windows, screens of other sizes.

use std::process::{Command, Stdio};

use thinc_bench::Error;
use thinc_bench::process::{Headless, wait_for};
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;

type Outcome = Result<(), Error>;

#[test]
fn a_killed_session_process_is_restarted_and_the_screen_is_complete() -> Outcome {
    let mut desktop = Desktop::start("killed", "800x600", &["xterm", "-e", "sh"])?;
    desktop.settle_once_drawn()?;
    desktop.viewer.say("move 100 100")?;
    desktop.after_change(|desktop| {
        desktop.viewer.say("type echo before")?;
        desktop.viewer.say("key Return").map(drop)
    })?;
    let (xorg, command) = (desktop.session.pid("xorg")?, desktop.session.pid("command")?);
    Command::new("kill").args(["-KILL", &desktop.session.pid("session")?.to_string()]).status()?;
    // A new viewer with a new link: viewer-native's tests cover reconnecting.
    let name = desktop.session.name.clone();
    let link = wait_for("`thinc link` answers", EVENT_TIMEOUT, || {
        let output = Command::new(thinc_bench::process::binary("thinc").ok()?)
            .args(["link", &name])
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.split_whitespace().find(|word| word.contains("#t=")).map(str::to_owned)
    })?;
    desktop.viewer =
        wait_for("a viewer connects again", EVENT_TIMEOUT, || Headless::start(&link).ok())?;
    desktop.viewer.say("barrier")?;
    for pid in [xorg, command] {
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} lives on");
    }
    desktop.assert_identical("after the session process came back")?;
    desktop.viewer.say("move 100 100")?;
    desktop.after_change(|desktop| desktop.viewer.say("type echo after").map(drop))?;
    desktop.assert_identical("and it goes on")
}

#[test]
fn a_flood_that_overflows_the_ring_leaves_the_screen_complete() -> Outcome {
    let mut desktop = Desktop::start("overflow", "800x600", &["sleep", "infinity"])?;
    let session = desktop.session.pid("session")?.to_string();
    // A viewer that still had to connect would time out before a slow machine has drawn everything.
    desktop.viewer.say("wait-quiet")?;
    // The reader of the ring is stopped while more records are written than the ring holds.
    Command::new("kill").args(["-STOP", &session]).status()?;
    let drawn = desktop
        .client("x11perf")
        .args(["-repeat", "1", "-reps", "60000", "-copywinwin10", "-rect10"])
        .stdout(Stdio::null())
        .status()?;
    let left = desktop
        .client("xsetroot")
        .args(["-mod", "5", "7", "-fg", "#204060", "-bg", "#a0c0e0"])
        .status()?;
    // Nothing has said that there is room again: their records are missing as well.
    let darker = ["--output", "THINC-0", "--mode", "640x480", "--brightness", "0.5"];
    let changed = desktop.client("xrandr").args(darker).status()?;
    Command::new("kill").args(["-CONT", &session]).status()?;
    assert!(drawn.success() && left.success() && changed.success(), "the flood was drawn");
    assert!(desktop.ring_overflows()? > 0, "the flood was more than the ring holds");
    desktop.assert_identical("after the ring was overrun")?;
    let view = desktop.view()?;
    assert!(view.colors() >= 2, "the root's pattern is there");
    assert_eq!((view.width, view.height), (640, 480));
    desktop.viewer.say("wait-gamma 0 0 ffffff 7f7f7f").map(drop)
}

#[test]
fn screens_of_other_sizes_are_complete() -> Outcome {
    let mut desktop =
        Desktop::start("sizes", "801x603", &["xterm", "-geometry", "80x24+30+30", "-e", "cat"])?;
    desktop.settle_once_drawn()?;
    desktop.assert_identical("at 801x603")?;
    for (width, height) in [(1366, 768), (640, 480), (3840, 2160), (333, 777), (1024, 768)] {
        desktop.viewer.say(&format!("resize {width}x{height}"))?;
        wait_for("the session resizes", EVENT_TIMEOUT, || {
            (desktop.screen_size().ok()? == (width, height)).then_some(())
        })?;
        desktop.client("xsetroot").args(["-mod", "9", "11"]).status()?;
        desktop.assert_identical(&format!("at {width}x{height}"))?;
    }
    Ok(())
}

#[test]
fn two_viewers_see_the_same() -> Outcome {
    let mut desktop = Desktop::start("two", "800x600", &["xterm", "-e", "sh"])?;
    desktop.settle_once_drawn()?;
    let output = Command::new(thinc_bench::process::binary("thinc")?)
        .args(["link", &desktop.session.name])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let link = text
        .split_whitespace()
        .find(|word| word.contains("#t="))
        .ok_or("`thinc link` gives no link")?;
    let mut second = Headless::start(link)?;
    desktop.viewer.say("move 100 100")?;
    desktop.after_change(|desktop| {
        desktop.viewer.say("type seq 1 200")?;
        desktop.viewer.say("key Return").map(drop)
    })?;
    desktop.assert_identical("for the first viewer")?;
    second.say("wait-quiet")?;
    std::mem::swap(&mut desktop.viewer, &mut second);
    desktop.assert_identical("for the second viewer")
}
