//! TigerVNC: Xvnc, an X server and VNC server in one, and its own viewer, both with default
//! settings. A second entry disables JPEG, so that it is lossless. Knows the options of Xtigervnc
//! and xtigervncviewer; never their protocol.

use std::time::Duration;

use super::programs::{self, Needed};
use super::{Desk, Peer};
use crate::Error;
use crate::display::DisplayNumber;
use crate::net::testbed::Side;
use crate::observe::account::Group;
use crate::process::Running;
use crate::results::PeerRecord;
use crate::stage::Site;

const SERVER: &str = "Xtigervnc";
const VIEWER: &str = "xtigervncviewer";
/// Of display :0, as VNC has it; no X server at this end listens on TCP, so that ports above 6000
/// are free.
const FIRST_PORT: u16 = 5900;

/// TigerVNC's server and viewer.
pub struct TigerVnc {
    /// Whether JPEG is disabled.
    pub lossless: bool,
}

impl Peer for TigerVnc {
    fn name(&self) -> &'static str {
        if self.lossless { "tigervnc-lossless" } else { "tigervnc" }
    }

    fn record(&self) -> PeerRecord {
        let needed = [
            Needed { program: SERVER, install: "tigervnc-standalone-server" },
            Needed { program: VIEWER, install: "tigervnc-viewer" },
        ];
        if self.lossless {
            programs::record(
                "TigerVNC lossless",
                &needed,
                "defaults with NoJPEG; SecurityTypes=None, viewer fullscreen",
            )
        } else {
            let settings = "defaults (Tight with JPEG, automatic choice); SecurityTypes=None, \
                viewer fullscreen";
            programs::record("TigerVNC", &needed, settings)
        }
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let (server, display) = start_server(site)?;
        let viewer = self.view(site, &display)?;
        let session = Some(server.pid());
        let held = vec![viewer, server];
        let mut desk = Desk {
            display: display.name(),
            held,
            displays: vec![display],
            session,
            ..Desk::default()
        };
        programs::wait_until_shown(site, &mut desk, Duration::from_secs(40))?;
        Ok(desk)
    }
}

impl TigerVnc {
    /// Starts the viewer of a display.
    pub(crate) fn view(&self, site: &Site, display: &DisplayNumber) -> Result<Running, Error> {
        let mut viewer = programs::command(site, Group::Client, VIEWER)?;
        viewer.env("DISPLAY", site.screen.display()).args([
            "-FullScreen",
            "-SecurityTypes",
            "None",
        ]);
        // An error ends the viewer with a message in its log, instead of a dialog that waits for a
        // person.
        viewer.args(["-AlertOnFatalError=0", "-ReconnectOnError=0"]);
        if self.lossless {
            viewer.arg("-NoJPEG");
        }
        viewer.arg(format!("{}::{}", site.bed.address(Side::Server), port(display)));
        programs::start(site, VIEWER, &mut viewer)
    }
}

/// Where the server of a display listens.
pub(crate) fn port(display: &DisplayNumber) -> u16 {
    FIRST_PORT + display.number()
}

/// Starts a server of the site's size on a free display; returns when it takes connections.
pub(crate) fn start_server(site: &Site) -> Result<(Running, DisplayNumber), Error> {
    let display = DisplayNumber::reserve()?;
    let (width, height) = site.size;
    let mut server = programs::command(site, Group::Server, SERVER)?;
    server.args([
        "-geometry",
        &format!("{width}x{height}"),
        "-depth",
        "24",
        "-SecurityTypes",
        "None",
    ]);
    let port = port(&display).to_string();
    server.args(["-localhost=0", "-rfbport", &port, "-ac", "-noreset"]);
    let server = programs::start_x_server(site, SERVER, &display, server)?;
    Ok((server, display))
}
