//! Sound from a program in a session to the viewer's sound card, really run: every burst is heard,
//! in order and once. Says nothing of time. Needs the binaries of `./dev build`; THINC_BIN_DIR
//! names another folder of them.

use std::sync::Arc;

use thinc_bench::Error;
use thinc_bench::net::testbed::Testbed;
use thinc_bench::observe::account::Accounts;
use thinc_bench::peers::thinc::{Setting, Thinc, Viewer};
use thinc_bench::questions::sound;
use thinc_bench::stage::Stage;

/// A machine with other work may run a process too late for a frame of 10 ms; what is wrong in the
/// programs happens each time.
const TRIES: usize = 3;
const SECONDS: f64 = 3.0;

#[test]
fn bursts_are_heard_in_order_and_once_and_none_is_lost() -> Result<(), Error> {
    thinc_bench::net::as_user_namespace()?;
    let peer = Thinc { viewer: Viewer::Native, setting: Setting::Default };
    let bed = Arc::new(Testbed::start(&"lan".parse()?, None)?);
    let accounts = Arc::new(Accounts::new("test-sound")?);
    let stage = Stage::start_hearing(&peer, &bed, &accounts, (640, 480))?;
    let mut lost = Vec::new();
    while lost.len() < TRIES && lost.last() != Some(&0) {
        let bursts = sound::bursts(&stage, SECONDS)?;
        let heard = bursts.late_ms.len();
        assert!(heard + bursts.lost >= 8, "three seconds have eight bursts or more: {bursts:?}");
        assert_eq!(bursts.extra, 0, "{bursts:?}");
        lost.push(bursts.lost);
    }
    assert_eq!(lost.last(), Some(&0), "bursts that were not heard, in each try");
    Ok(())
}
