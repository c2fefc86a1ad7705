//! KasmVNC: its Xvnc, which also serves a web page, shown in Chromium. Written from its
//! documentation and not yet run, which the record's settings say: check the client's screen at the
//! first measurement. Knows the options of Xvnc; never its protocol.

use std::time::Duration;

use super::programs::{self, Needed};
use super::{Desk, Peer, kiosk};
use crate::Error;
use crate::display::DisplayNumber;
use crate::net::testbed::Side;
use crate::observe::account::Group;
use crate::results::PeerRecord;
use crate::stage::Site;

/// The name of its Xvnc if another Xvnc is installed.
const SERVER: &str = "Xkasmvnc";
/// Its page.
const PAGE: &str = "/usr/share/kasmvnc/www";
/// Of display :0; each session at one end of a link has its own.
const FIRST_PORT: u16 = 6800;

/// KasmVNC's server, shown in a browser.
pub struct KasmVnc;

impl Peer for KasmVnc {
    fn name(&self) -> &'static str {
        "kasmvnc"
    }

    fn record(&self) -> PeerRecord {
        let install = "the package kasmvncserver of https://kasmweb.com/kasmvnc";
        let settings = format!(
            "defaults of Xvnc; no TLS, no password; {}; this adapter was written from the \
                documentation and never run by \
             its authors",
            kiosk::SETTINGS
        );
        programs::record(
            "KasmVNC",
            &[Needed { program: SERVER, install }, kiosk::NEEDED],
            &settings,
        )
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
            "-SecurityTypes",
            "None",
        ]);
        server.args([
            "-disableBasicAuth",
            "-httpd",
            PAGE,
            "-websocketPort",
            &port.to_string(),
            "-ac",
            "-noreset",
        ]);
        let server = programs::start_x_server(site, "kasmvnc-server", &display, server)?;

        let viewer =
            kiosk::show(site, &format!("http://{}:{port}/", site.bed.address(Side::Server)))?;
        let mut desk = Desk {
            display: display.name(),
            held: vec![viewer, server],
            displays: vec![display],
            ..Desk::default()
        };
        programs::wait_until_shown(site, &mut desk, Duration::from_secs(60))?;
        Ok(desk)
    }
}
