//! TurboVNC: its Xvnc and its viewer. Written from its documentation and not yet run, which the
//! record's settings say: check the client's screen at the first measurement. Knows the options of
//! both; never their protocol.

use std::time::Duration;

use super::programs::{self, Needed};
use super::{Desk, Peer};
use crate::Error;
use crate::display::DisplayNumber;
use crate::net::testbed::Side;
use crate::observe::account::Group;
use crate::results::PeerRecord;
use crate::stage::Site;

/// Its packages install everything there, beside another VNC.
const SERVER: &str = "/opt/TurboVNC/bin/Xvnc";
const VIEWER: &str = "/opt/TurboVNC/bin/vncviewer";
/// Of display :0, as VNC has it; no X server at this end listens on TCP, so that ports above 6000
/// are free.
const FIRST_PORT: u16 = 5900;

/// TurboVNC's server and viewer.
pub struct TurboVnc;

impl Peer for TurboVnc {
    fn name(&self) -> &'static str {
        "turbovnc"
    }

    fn record(&self) -> PeerRecord {
        let install = "the package turbovnc of https://turbovnc.org";
        let needed = [Needed { program: SERVER, install }, Needed { program: VIEWER, install }];
        let settings = "defaults (Tight with JPEG, no automatic lossless refresh); security type \
            None, viewer \
                        fullscreen; this adapter was written from the documentation and never run \
                        by its authors";
        programs::record("TurboVNC", &needed, settings)
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let display = DisplayNumber::reserve()?;
        let port = FIRST_PORT + display.number();
        let (width, height) = site.size;
        let mut server = programs::command(site, Group::Server, SERVER)?;
        server.args([
            "-geometry",
            &format!("{width}x{height}"),
            "-depth",
            "24",
            "-securitytypes",
            "None",
        ]);
        server.args(["-rfbport", &port.to_string(), "-ac", "-noreset"]);
        let server = programs::start_x_server(site, "turbovnc-server", &display, server)?;

        let mut viewer = programs::command(site, Group::Client, VIEWER)?;
        viewer.env("DISPLAY", site.screen.display());
        viewer.args(["FullScreen=1", "Toolbar=0", "DesktopSize=Server", "SecurityTypes=None"]);
        viewer.arg(format!("{}::{port}", site.bed.address(Side::Server)));
        let viewer = programs::start(site, "turbovnc-viewer", &mut viewer)?;

        let mut desk = Desk {
            display: display.name(),
            session: Some(server.pid()),
            held: vec![viewer, server],
            displays: vec![display],
            ..Desk::default()
        };
        programs::wait_until_shown(site, &mut desk, Duration::from_secs(60))?;
        Ok(desk)
    }
}
