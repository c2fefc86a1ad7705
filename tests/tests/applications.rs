//! Pixel identity with real applications: the viewer shows the X screen while they are used. The
//! viewer types, clicks and scrolls like a user; each test compares several times, at different
//! moments.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::process::{Folder, wait_for};
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;

type Outcome = Result<(), Error>;

#[test]
fn x11perf_draws_and_the_viewer_shows_it() -> Outcome {
    let mut desktop = Desktop::start("x11perf", "900x700", &["sleep", "infinity"])?;
    let tests = [
        "-dot",
        "-rect10",
        "-rect500",
        "-srect100",
        "-osrect100",
        "-tilerect100",
        "-oddtilerect100",
        "-line100",
        "-dline100",
        "-wline100",
        "-seg100c1",
        "-circle100",
        "-fcircle100",
        "-ellipse100",
        "-complex10",
        "-triangle100",
        "-trap100",
        "-ftext",
        "-f24itext16",
        "-aa10text",
        "-rgb24text",
        "-scroll500",
        "-copywinwin100",
        "-copypixwin100",
        "-copyplane100",
        "-putimage100",
        "-putimagexy100",
        "-shmput100",
        "-getimage100",
        "-ucreate",
        "-move",
        "-resize",
        "-circulate",
        "-popup",
    ];
    for group in tests.chunks(7) {
        let output =
            desktop.client("x11perf").args(["-repeat", "1", "-reps", "20"]).args(group).output()?;
        assert!(
            output.status.success(),
            "x11perf {group:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        desktop.assert_identical(&format!("after x11perf {group:?}"))?;
    }
    // x11perf leaves an empty screen behind: compare while it draws as well.
    for test in ["-scroll500", "-aa10text", "-copywinwin100", "-rect100"] {
        let mut running = desktop
            .client("x11perf")
            .args(["-repeat", "1", "-reps", "100000000", test])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let before = desktop.stats()?["updates"].as_u64().ok_or("stats have no updates")?;
        let drawn = wait_for(&format!("x11perf {test} draws"), EVENT_TIMEOUT, || {
            desktop.viewer.say("barrier").ok()?;
            (desktop.stats().ok()?["updates"].as_u64()? > before + 3).then_some(())
        });
        Command::new("kill").args(["-STOP", &running.id().to_string()]).status()?;
        let compared =
            drawn.and_then(|()| desktop.assert_identical(&format!("while x11perf {test} runs")));
        running.kill()?;
        running.wait()?;
        compared?;
    }
    Ok(())
}

#[test]
fn xterm_scrolls_and_the_viewer_shows_it() -> Outcome {
    let mut desktop =
        Desktop::start("xterm", "800x600", &["xterm", "-geometry", "110x40+10+10", "-e", "sh"])?;
    desktop.settle_once_drawn()?;
    desktop.assert_identical("at the start")?;
    assert!(desktop.view()?.colors() > 1, "an xterm shows more than one colour");
    desktop.viewer.say("move 200 200")?;
    for line in [
        "seq 1 500",
        "ls -la /usr/bin | head -200",
        "tput setaf 1; tput setab 2; echo red on green; tput sgr0",
        "clear",
    ] {
        desktop.after_change(|desktop| {
            desktop.viewer.say(&format!("type {line}"))?;
            desktop.viewer.say("key Return")?;
            Ok(())
        })?;
        desktop.assert_identical(&format!("after `{line}`"))?;
    }
    // In the middle of a flood the applications are stopped wherever they are.
    desktop.viewer.say("type while :; do date; ls -l /usr/lib; done")?;
    desktop.after_update("key Return")?;
    for i in 0..5 {
        desktop.wait_updates(10)?;
        desktop.assert_identical(&format!("in a flood, comparison {i}"))?;
    }
    Ok(())
}

#[test]
fn a_keystroke_in_xterm_costs_little() -> Outcome {
    /// Bytes above TLS that a keystroke's echo may cost, all its frames together.
    const ECHO_BYTES_MAX: u64 = 60;
    let mut desktop = Desktop::start("echo", "800x600", &["xterm", "-e", "cat"])?;
    desktop.settle_once_drawn()?;
    desktop.viewer.say("move 200 200")?;
    // Told once, two seconds after the session's start.
    wait_for("it is known what draws 3D programs", EVENT_TIMEOUT, || {
        desktop.stats().ok()?["graphics"].is_string().then_some(())
    })?;
    desktop.settle()?;
    // All bytes received, including the answers to the barriers of the waits.
    let received = |desktop: &mut Desktop| -> Result<u64, Error> {
        desktop.stats()?["bytes_in"].as_u64().ok_or_else(|| "stats have no bytes_in".into())
    };
    for character in ["a", "m", "W", "0", "@", "x", "Q", "i"] {
        let before = received(&mut desktop)?;
        desktop
            .after_change(|desktop| desktop.viewer.say(&format!("type {character}")).map(drop))?;
        let cost = received(&mut desktop)? - before;
        assert!(
            cost > 0 && cost <= ECHO_BYTES_MAX,
            "the echo of `{character}` cost {cost} bytes, the limit is {ECHO_BYTES_MAX}"
        );
    }
    Ok(())
}

#[test]
fn mousepad_gtk3_is_shown_exactly() -> Outcome {
    let folder = Folder::new("mousepad")?;
    let file = folder.path().join("text.txt");
    fs::write(
        &file,
        "A line of text that is long enough to be looked at, and then some more.\n".repeat(400),
    )?;
    let command =
        in_fresh_home(&folder, &format!("exec mousepad --disable-server {}", file.display()));
    let mut desktop = Desktop::start("mousepad", "1024x768", &["sh", "-c", &command])?;
    use_editor(&mut desktop)
}

#[test]
fn featherpad_qt5_is_shown_exactly() -> Outcome {
    let folder = Folder::new("featherpad")?;
    let file = folder.path().join("text.txt");
    fs::write(
        &file,
        "A line of text that is long enough to be looked at, and then some more.\n".repeat(400),
    )?;
    let command =
        in_fresh_home(&folder, &format!("exec featherpad --standalone {}", file.display()));
    let mut desktop = Desktop::start("featherpad", "1024x768", &["sh", "-c", &command])?;
    use_editor(&mut desktop)
}

/// A shell command: a window manager that starts the program once it manages windows. If both start
/// at the same time, a window that asks to be mapped during the manager's start is never shown.
fn managed(program: &str) -> String {
    format!("exec openbox --startup \"sh -c '{program}'\"")
}

/// A shell command: the program with a window manager and an empty home folder.
fn in_fresh_home(folder: &Folder, program: &str) -> String {
    let home = folder.path().display();
    format!(
        "export HOME={home} XDG_CONFIG_HOME={home}/config XDG_DATA_HOME={home}/data; {}",
        managed(program)
    )
}

/// Scrolls, types and opens a menu in an editor that fills some of the screen.
fn use_editor(desktop: &mut Desktop) -> Outcome {
    wait_for("the editor appears", EVENT_TIMEOUT, || {
        (desktop.view().ok()?.colors() > 20).then_some(())
    })?;
    desktop.settle()?;
    desktop.assert_identical("at the start")?;
    desktop.viewer.say("move 500 400")?;
    desktop.viewer.say("click 1")?;
    for page in 0..4 {
        desktop.after_change(|desktop| desktop.viewer.say("key Next").map(drop))?;
        desktop.assert_identical(&format!("after page down {page}"))?;
    }
    desktop.after_change(|desktop| desktop.viewer.say("scroll 0 -360").map(drop))?;
    desktop.assert_identical("after the wheel")?;
    desktop
        .after_change(|desktop| desktop.viewer.say("type typed through the viewer").map(drop))?;
    desktop.assert_identical("after typing")?;
    desktop.after_change(|desktop| desktop.viewer.say("click 3").map(drop))?;
    desktop.assert_identical("with a menu open")
}

#[test]
fn chromium_is_shown_exactly() -> Outcome {
    let folder = Folder::new("chromium")?;
    let page = folder.path().join("page.html");
    let rows = "<p style='margin:1em'>Text on a <b \
        style='background:linear-gradient(90deg,#f80,#08f)'>gradient</b>, \
        and <a href=x>links</a>.</p>"
        .repeat(200);
    fs::write(&page, format!("<!doctype html><meta charset=utf-8>{rows}"))?;
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let url = format!("--app=file://{}", page.display());
    // A browser accepts keys only in an active window, which needs a window manager.
    let browser = format!(
        "exec chromium --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
         --disable-component-update --disable-sync --window-size=1024,768 --window-position=0,0 \
         {profile} {url}"
    );
    let mut desktop = Desktop::start("chromium", "1024x768", &["sh", "-c", &managed(&browser)])?;
    wait_for("the page appears", Duration::from_secs(90), || {
        (desktop.view().ok()?.colors() > 100).then_some(())
    })?;
    desktop.settle()?;
    desktop.assert_identical("at the start")?;
    desktop.viewer.say("move 500 400")?;
    desktop.viewer.say("click 1")?;
    for _ in 0..4 {
        desktop.after_change(|desktop| desktop.viewer.say("key Next").map(drop))?;
        desktop.assert_identical("after a page down")?;
    }
    for i in 0..6 {
        desktop.after_update("scroll 0 -360")?;
        desktop.assert_identical(&format!("in a smooth scroll, comparison {i}"))?;
    }
    Ok(())
}

#[test]
fn mpv_xvideo_is_shown_exactly() -> Outcome {
    play("mpv-xv", "--vo=xv")
}

#[test]
fn mpv_x11_is_shown_exactly() -> Outcome {
    play("mpv-x11", "--vo=x11")
}

/// Plays a generated clip, and compares at moments when the player is stopped; resizes the screen
/// meanwhile.
fn play(name: &str, output: &str) -> Outcome {
    let folder = Folder::new(name)?;
    let clip = folder.path().join("clip.mkv").to_string_lossy().into_owned();
    let made = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=352x240:rate=24:duration=60",
            "-c:v",
            "mpeg4",
            "-q:v",
            "4",
            "-y",
            &clip,
        ])
        .status()?;
    assert!(made.success(), "ffmpeg could not make a clip");
    let mut desktop = Desktop::start(
        name,
        "800x600",
        &["mpv", output, "--no-audio", "--no-config", "--loop", "--geometry=640x440+20+20", &clip],
    )?;
    wait_for("the clip is shown", EVENT_TIMEOUT, || {
        (desktop.view().ok()?.colors() > 300).then_some(())
    })?;
    for i in 0..4 {
        desktop.wait_updates(12)?;
        desktop.assert_identical(&format!("in the clip, comparison {i}"))?;
    }
    desktop.viewer.say("resize 1000x700")?;
    wait_for("the session resizes", EVENT_TIMEOUT, || {
        (desktop.screen_size().ok()? == (1000, 700)).then_some(())
    })?;
    desktop.wait_updates(12)?;
    desktop.assert_identical("after a resize while the clip plays")
}
