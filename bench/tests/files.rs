//! A large file in each direction between a session and thinc-view, really sent: all of it arrives,
//! and keys that are typed meanwhile are echoed. Says nothing of time. Needs the binaries of
//! `./dev build`; THINC_BIN_DIR names another folder of them.

use std::sync::Arc;

use thinc_bench::Error;
use thinc_bench::net::testbed::Testbed;
use thinc_bench::observe::account::Accounts;
use thinc_bench::peers::thinc::{Setting, Thinc, Viewer};
use thinc_bench::questions::Question as _;
use thinc_bench::questions::files::Files;
use thinc_bench::results::{Form, quantity};
use thinc_bench::stage::Stage;
use thinc_bench::workloads::Effort;

/// 3 s of the link: longer than the keys.
const MEGABYTES: u32 = 4;
const LINK: &str = "rate=10mbit,rtt=20ms";

#[test]
fn a_file_arrives_in_each_direction_and_keys_are_echoed_meanwhile() -> Result<(), Error> {
    thinc_bench::net::as_user_namespace()?;
    let peer = Thinc { viewer: Viewer::Native, setting: Setting::Default };
    let bed = Arc::new(Testbed::start(&LINK.parse()?, None)?);
    let accounts = Arc::new(Accounts::new("test-files")?);
    let mut stage = Stage::start(&peer, &bed, &accounts, (640, 480))?;
    let workloads = Files::of(MEGABYTES).workloads()?;
    let found = workloads[0].run(&mut stage, Form::Normal, Effort::Smoke)?;
    let of = |name: &'static str| found.iter().filter(move |measure| measure.quantity == name);
    assert_eq!(of(quantity::PHOTON_MS).count(), 3);
    assert!(of(quantity::PHOTON_MS).all(|echoes| !echoes.samples.is_empty()), "{found:?}");
    assert!(of("lost_keys").all(|lost| lost.samples == [0.0]), "{found:?}");
    assert_eq!(of("file_mbit_s").count(), 2);
    Ok(())
}
