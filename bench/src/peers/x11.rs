//! Plain X: applications on the server draw over TCP on the client's own X server. There is neither
//! server nor viewer to start, so the server's display system costs nothing. Knows the address of
//! the client's screen; never the X traffic.

use std::time::Duration;

use super::programs::{self, Needed};
use super::{Desk, Peer};
use crate::Error;
use crate::observe::screen::Listen;
use crate::results::PeerRecord;
use crate::stage::Site;

/// The X protocol itself, over the link.
pub struct X11;

impl Peer for X11 {
    fn name(&self) -> &'static str {
        "x11"
    }

    fn record(&self) -> PeerRecord {
        let needed = [Needed { program: "Xvfb", install: "xvfb" }];
        programs::record(
            "X over TCP",
            &needed,
            "DISPLAY=client:N, no SSH, no compression, no access control",
        )
    }

    fn listen(&self) -> Listen {
        Listen::Tcp
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let display = site.screen.address();
        let mut desk = Desk { display, ..Desk::default() };
        programs::wait_until_shown(site, &mut desk, Duration::from_secs(30))?;
        Ok(desk)
    }
}
