//! A terminal that is drawn without end, in a session that may send a fraction of that: the view
//! still becomes the X screen. A real X server and a headless viewer.

use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::process::wait_for;
use thinc_e2e::Desktop;

/// Random text, which fills the terminal again and again.
const SCRIPT: &str = "while :; do head -c 6000 /dev/urandom | base64 -w 140; done";

#[test]
fn under_a_low_rate_the_view_becomes_the_screen() -> Result<(), Error> {
    let terminal = ["xterm", "-geometry", "150x50+0+0", "-e", "sh", "-c", SCRIPT];
    let options = ["--max-rate", "1M"];
    let mut desktop = Desktop::start_with("max-rate", "1024x768", &options, &terminal)?;
    let updates = |desktop: &mut Desktop| desktop.stats().ok()?["updates"].as_u64();
    for round in 1..=3 {
        // Not by a barrier: at this rate not all that was drawn before one has ever arrived while
        // more is drawn.
        let before = updates(&mut desktop).ok_or("stats have no updates")?;
        wait_for("updates come", Duration::from_secs(60), || {
            (updates(&mut desktop)? >= before + 20).then_some(())
        })?;
        desktop.assert_identical(&format!("round {round}"))?;
    }
    Ok(())
}
