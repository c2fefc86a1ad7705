//! What the questions share that measure thinc without an emulated link: a browser in a session,
//! and a headless viewer that is asked for its statistics. Knows both programs; never what is
//! measured.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::Error;
use crate::process::{Headless, wait_for};

/// A browser's first start on a busy machine.
pub(super) const START_LIMIT: Duration = Duration::from_secs(60);
/// The screen counts as painted once its hash has stayed the same in so many readings.
const STILL_READINGS: u32 = 20;
const READING_EVERY: Duration = Duration::from_millis(100);

/// A shell's words for Chromium in kiosk mode. Keys go to an active window, and a window manager is
/// what makes one active: openbox starts the browser once it manages windows.
pub(super) fn browser(program: &str, folder: &Path, url: &str) -> String {
    let profile = folder.join("profile");
    format!(
        "exec openbox --startup \"sh -c 'exec {program} --no-sandbox --test-type --disable-gpu \
         --no-first-run --disable-background-networking --disable-component-update \
         --disable-sync --disable-smooth-scrolling --kiosk --window-size=1024,768 \
         --window-position=0,0 --user-data-dir={} {url}'\"",
        profile.display()
    )
}

/// The viewer's statistics.
pub(super) fn statistics(viewer: &mut Headless, folder: &Path) -> Result<Value, Error> {
    let file = folder.join("stats.json");
    viewer.say(&format!("stats {}", file.display()))?;
    Ok(serde_json::from_str(&std::fs::read_to_string(&file)?)?)
}

/// Bytes that the viewer has received.
pub(crate) fn bytes_in(viewer: &mut Headless, folder: &Path) -> Result<f64, Error> {
    Ok(statistics(viewer, folder)?["bytes_in"].as_f64().ok_or("stats have no bytes_in")?)
}

/// Waits until the viewer's picture has stayed the same for a while.
pub(super) fn wait_painted(viewer: &mut Headless) -> Result<(), Error> {
    let (mut last, mut still) = (String::new(), 0);
    wait_for("the browser has painted its page", START_LIMIT, || {
        viewer.say("wait-quiet").ok()?;
        let now = viewer.say("hash").ok()?;
        still = if now == last { still + 1 } else { 0 };
        last = now;
        std::thread::sleep(READING_EVERY);
        (still > STILL_READINGS).then_some(())
    })
}

/// Waits until the viewer shows something else than the picture of hash `before`, and rests.
pub(super) fn wait_changed(
    viewer: &mut Headless,
    before: &str,
    limit: Duration,
) -> Result<(), Error> {
    wait_for("the viewer shows something new", limit, || {
        viewer.say("wait-quiet").ok()?;
        (viewer.say("hash").ok()? != before).then_some(())
    })
}
