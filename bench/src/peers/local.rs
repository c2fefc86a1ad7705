//! No remoting at all: applications draw on the client's own X server through its Unix socket or
//! shared memory. It measures the cost of the application and the harness alone. Knows the client's
//! screen; never a network.

use std::time::Duration;

use super::programs::{self, Needed};
use super::{Desk, Peer};
use crate::Error;
use crate::results::PeerRecord;
use crate::stage::Site;

/// Applications on the client's own screen.
pub struct Local;

impl Peer for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn record(&self) -> PeerRecord {
        let needed = [Needed { program: "Xvfb", install: "xvfb" }];
        programs::record(
            "local, no remoting",
            &needed,
            "Unix socket and shared memory; no packet passes the link",
        )
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let mut desk = Desk { display: site.screen.display().to_owned(), ..Desk::default() };
        programs::wait_until_shown(site, &mut desk, Duration::from_secs(10))?;
        Ok(desk)
    }
}
