//! What must not cost a person anything: a killed session process, a flood that overruns the ring, windows that are
//! redirected, screens of other sizes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use thinc_bench::Error;
use thinc_bench::process::{Headless, wait_for};
use thinc_e2e::Desktop;

type Outcome = Result<(), Error>;

#[test]
fn a_killed_session_process_comes_back_and_the_screen_is_whole() -> Outcome {
    let mut desktop = Desktop::start("killed", "800x600", &["xterm", "-e", "sh"])?;
    desktop.settle()?;
    desktop.viewer.say("move 100 100")?;
    desktop.after_change(|desktop| {
        desktop.viewer.say("type echo before")?;
        desktop.viewer.say("key Return").map(drop)
    })?;
    let (xorg, command) = (desktop.session.pid("xorg")?, desktop.session.pid("command")?);
    Command::new("kill").args(["-KILL", &desktop.session.pid("session")?.to_string()]).status()?;
    let killed = Instant::now();
    // A new viewer with a new link: the old viewer's way back is its own test in the viewer.
    let name = desktop.session.name.clone();
    let link = wait_for("`thinc link` answers", Duration::from_secs(5), || {
        let output = Command::new(thinc_bench::process::binary("thinc").ok()?).args(["link", &name]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.split_whitespace().find(|word| word.contains("#t=")).map(str::to_owned)
    })?;
    desktop.viewer = wait_for("a viewer connects again", Duration::from_secs(10), || Headless::start(&link).ok())?;
    desktop.viewer.say("barrier")?;
    assert!(killed.elapsed() < Duration::from_secs(10), "it took {:?}", killed.elapsed());
    for pid in [xorg, command] {
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} lives on");
    }
    desktop.assert_identical("after the session process came back")?;
    desktop.viewer.say("move 100 100")?;
    desktop.after_change(|desktop| desktop.viewer.say("type echo after").map(drop))?;
    desktop.assert_identical("and it goes on")
}

#[test]
fn a_flood_that_overruns_the_ring_leaves_the_screen_whole() -> Outcome {
    let mut desktop = Desktop::start("overflow", "800x600", &["sleep", "infinity"])?;
    let session = desktop.session.pid("session")?.to_string();
    // A viewer that has yet to come in would give up before a slow machine has drawn all of it.
    desktop.viewer.say("wait-quiet")?;
    // The reader of the ring stands still while more records are made than the ring holds.
    Command::new("kill").args(["-STOP", &session]).status()?;
    let drawn = desktop
        .client("x11perf")
        .args(["-repeat", "1", "-reps", "60000", "-copywinwin10", "-rect10"])
        .stdout(Stdio::null())
        .status()?;
    let left = desktop.client("xsetroot").args(["-mod", "5", "7", "-fg", "#204060", "-bg", "#a0c0e0"]).status()?;
    Command::new("kill").args(["-CONT", &session]).status()?;
    assert!(drawn.success() && left.success(), "the flood was drawn");
    assert!(desktop.ring_overflows()? > 0, "the flood was more than the ring holds");
    desktop.assert_identical("after the ring was overrun")?;
    assert!(desktop.view()?.colors() >= 2, "the root's pattern is there");
    Ok(())
}

#[test]
fn screens_of_other_sizes_are_whole() -> Outcome {
    let mut desktop = Desktop::start("sizes", "801x603", &["xterm", "-geometry", "80x24+30+30", "-e", "cat"])?;
    desktop.settle()?;
    desktop.assert_identical("at 801x603")?;
    for (width, height) in [(1366, 768), (640, 480), (3840, 2160), (333, 777), (1024, 768)] {
        desktop.viewer.say(&format!("resize {width}x{height}"))?;
        wait_for("the session resizes", Duration::from_secs(10), || {
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
    desktop.settle()?;
    let output = Command::new(thinc_bench::process::binary("thinc")?).args(["link", &desktop.session.name]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let link = text.split_whitespace().find(|word| word.contains("#t=")).ok_or("`thinc link` gives no link")?;
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
