//! Night colours, gamma and brightness that programs set in a real X server: viewers learn what
//! colours are shown as, and their pixels stay those of the X screen.

use std::process::Command;

use thinc_bench::Error;
use thinc_bench::process::{Headless, wait_for};
use thinc_e2e::Desktop;
use thinc_e2e::EVENT_TIMEOUT;
use x11rb::connection::Connection as _;
use x11rb::protocol::randr::ConnectionExt as _;

type Outcome = Result<(), Error>;

fn xrandr(desktop: &Desktop, arguments: &str) -> Outcome {
    let done = desktop.client("xrandr").args(arguments.split_whitespace()).status()?;
    if done.success() { Ok(()) } else { Err(format!("xrandr {arguments}: {done}").into()) }
}

/// What X shows a grey of this level as, by the ramps of its first monitor.
fn of_x(desktop: &Desktop, level: usize) -> Result<String, Error> {
    let x = desktop.connect_x()?;
    let resources = x.randr_get_screen_resources_current(x.setup().roots[0].root)?.reply()?;
    let gamma = x.randr_get_crtc_gamma(resources.crtcs[0])?.reply()?;
    let ramps = [gamma.red, gamma.green, gamma.blue];
    Ok(ramps.map(|ramp| format!("{:02x}", ramp[level] >> 8)).concat())
}

/// The viewer shows these levels of grey as X says, once it knows.
fn assert_as_x(desktop: &Desktop, viewer: &mut Headless, when: &str) -> Outcome {
    for level in [255, 0, 1, 64, 128, 200, 254] {
        let (color, shown) = (format!("{level:02x}").repeat(3), of_x(desktop, level)?);
        let told = viewer.say(&format!("wait-gamma 5 7 {color} {shown}"));
        told.map_err(|error| format!("{when}: {color} as {shown}: {error}"))?;
    }
    Ok(())
}

#[test]
fn viewers_show_the_colours_that_programs_set_and_keep_the_screens() -> Outcome {
    let mut desktop = Desktop::start("gamma", "640x480", &["xterm", "-e", "sh"])?;
    desktop.settle_once_drawn()?;
    let mut plain = desktop.another_viewer_with(&["--gamma", "off"])?;
    assert_eq!(desktop.viewer.say("gamma 5 7 808080")?, "808080");
    xrandr(&desktop, "--output THINC-0 --gamma 1:0.7:0.4 --brightness 0.9")?;
    let mut second = desktop.another_viewer()?;
    for (settings, when) in [
        ("--gamma 1:0.7:0.4 --brightness 0.9", "night colours"),
        ("--brightness 0", "a black monitor"),
        ("--brightness 1 --gamma 0.5", "gamma"),
    ] {
        xrandr(&desktop, &format!("--output THINC-0 {settings}"))?;
        assert_ne!(of_x(&desktop, 128)?, "808080", "{when}");
        desktop.with_viewer(&mut second, |desktop| {
            let mut viewer = desktop.another_viewer()?;
            assert_as_x(desktop, &mut viewer, &format!("{when}, of who connects now"))
        })?;
        assert_as_x(&desktop, &mut second, &format!("{when}, of the second"))?;
        desktop.assert_identical(when)?;
    }
    desktop.with_viewer(&mut second, |desktop| desktop.assert_identical("for the second"))?;
    // A new size has the same colours.
    xrandr(&desktop, "--output THINC-0 --mode 800x600")?;
    assert_as_x(&desktop, &mut second, "after a resize")?;
    desktop.assert_identical("after a resize")?;
    // Who does not want them is told of none.
    plain.say("wait-quiet")?;
    assert_eq!(plain.say("gamma 5 7 808080")?, "808080");
    // XF86VidMode, and back to plain colours.
    let done = desktop.client("xgamma").args(["-quiet", "-gamma", "2"]).status()?;
    assert!(done.success(), "xgamma");
    xrandr(&desktop, "--output THINC-0 --gamma 1 --brightness 1")?;
    second.say("wait-gamma 5 7 808080 b5b5b5")?;
    let done = desktop.client("xgamma").args(["-quiet", "-gamma", "1"]).status()?;
    assert!(done.success(), "xgamma");
    second.say("wait-gamma 5 7 808080 808080").map(drop)
}

#[test]
fn another_session_process_knows_the_colours_and_a_viewer_that_reconnects_keeps_them() -> Outcome {
    let mut desktop = Desktop::start("gamma-again", "640x480", &["xterm", "-e", "sh"])?;
    desktop.settle_once_drawn()?;
    xrandr(&desktop, "--output THINC-0 --brightness 0.5")?;
    desktop.viewer.say("wait-gamma 0 0 ffffff 7f7f7f")?;
    let mut kept = desktop.another_viewer()?;
    kept.say("wait-gamma 0 0 ffffff 7f7f7f")?;
    Command::new("kill").args(["-KILL", &desktop.session.pid("session")?.to_string()]).status()?;
    let mut late =
        wait_for("a viewer connects again", EVENT_TIMEOUT, || desktop.another_viewer().ok())?;
    late.say("wait-gamma 0 0 ffffff 7f7f7f")?;
    kept.say("wait-connection 2")?;
    kept.say("wait-quiet")?;
    assert_eq!(kept.say("gamma 0 0 ffffff")?, "7f7f7f");
    xrandr(&desktop, "--output THINC-0 --brightness 1")?;
    kept.say("wait-gamma 0 0 ffffff ffffff").map(drop)
}
