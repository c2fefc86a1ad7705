//! Chromium or Firefox over the whole screen of the client, the viewer of peers with a web page: a
//! fresh profile, no traffic but the session's, and no user interface of its own. Knows options of
//! browsers and their windows; never the page.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, ConfigureWindowAux, ConnectionExt as _, EventMask, MapState, Window,
};
use x11rb::rust_connection::RustConnection;

use super::programs::{self, Needed};
use crate::Error;
use crate::observe::account::Group;
use crate::process::Running;
use crate::stage::Site;
use crate::workloads::browser;

const BROWSER: &str = "chromium";
/// Chromium with a fresh profile takes 2 s on two idle cores.
const WINDOW_MAX: Duration = Duration::from_secs(30);

/// The program that it needs.
pub(super) const NEEDED: Needed = Needed { program: BROWSER, install: "chromium" };
/// Its settings, for a peer's record.
pub(super) const SETTINGS: &str =
    "Chromium as a kiosk with a fresh profile, any certificate accepted, no sandbox";

/// Shows `url`; returns when the browser's window covers the screen.
pub(super) fn show(site: &Site, url: &str) -> Result<Running, Error> {
    let (width, height) = site.size;
    let mut browser = programs::command(site, Group::Client, BROWSER)?;
    browser.env("DISPLAY", site.screen.display());
    // Not the profile of a Chromium in the session, to which this one would pass its page.
    browser.arg(format!("--user-data-dir={}", site.folder.path().join("kiosk").display()));
    browser.args([format!("--window-size={width},{height}"), format!("--app={url}")]);
    browser.args([
        "--kiosk",
        "--window-position=0,0",
        "--force-device-scale-factor=1",
        "--ozone-platform=x11",
        // The testbed's user may be root, for whom Chromium has no sandbox.
        "--no-sandbox",
        "--ignore-certificate-errors",
        // Without it a bar warns about the two above and covers the session.
        "--test-type",
        "--no-first-run",
        "--noerrdialogs",
        "--disable-session-crashed-bubble",
        "--disable-features=Translate",
        "--password-store=basic",
        // No traffic on the link but the session's.
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    cover_screen(site, BROWSER, &mut browser)
}

/// Its name in PATH.
const FIREFOX_PROGRAM: &str = "firefox-esr";
/// The program that it needs.
pub(super) const FIREFOX: Needed = Needed { program: FIREFOX_PROGRAM, install: "firefox-esr" };
/// Its settings, for a peer's record.
pub(super) const FIREFOX_SETTINGS: &str =
    "Firefox as a kiosk with a fresh profile that holds an exception for the session's certificate";
/// `user.js` beyond that of a browser in the session: no words over the page.
const FIREFOX_PREFERENCES: &str = "user_pref(\"full-screen-api.warning.timeout\", 0);\n";

/// Shows `url`, whose certificate is in `identity`, in Firefox; returns when its window covers the
/// screen.
pub(super) fn show_firefox(site: &Site, url: &str, identity: &Path) -> Result<Running, Error> {
    let profile = site.folder.path().join("kiosk-firefox");
    fs::create_dir_all(&profile)?;
    let preferences = [browser::FIREFOX_PREFERENCES, FIREFOX_PREFERENCES].concat();
    fs::write(profile.join("user.js"), preferences)?;
    let exception = exception(url, &fingerprint(identity)?)?;
    fs::write(profile.join("cert_override.txt"), exception)?;
    let (width, height) = site.size;
    let mut browser = programs::command(site, Group::Client, FIREFOX_PROGRAM)?;
    browser
        .env("DISPLAY", site.screen.display())
        .env("MOZ_CRASHREPORTER_DISABLE", "1")
        .env("NO_AT_BRIDGE", "1");
    browser.arg("--profile").arg(&profile).args(["--no-remote", "--kiosk"]);
    browser.args(["--width", &width.to_string(), "--height", &height.to_string()]).arg(url);
    cover_screen(site, FIREFOX_PROGRAM, &mut browser)
}

/// A line of Firefox's cert_override.txt: this certificate is accepted of this server.
fn exception(url: &str, fingerprint: &str) -> Result<String, Error> {
    let place = url.strip_prefix("https://").and_then(|rest| rest.split('/').next());
    let place = place.ok_or_else(|| format!("{url} is no page with a certificate"))?;
    // The object identifier is that of SHA-256.
    Ok(format!("{place}:\tOID.2.16.840.1.101.3.4.2.1\t{fingerprint}\t\n"))
}

/// SHA-256 of a certificate: "AB:CD:…".
fn fingerprint(identity: &Path) -> Result<String, Error> {
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(identity);
    let said = programs::output_of(&mut openssl);
    let found = said.as_deref().and_then(|said| said.split_once('=')).map(|(_, found)| found);
    found
        .map(|found| found.trim().to_owned())
        .ok_or_else(|| format!("openssl reads no certificate in {}", identity.display()).into())
}

/// Starts a browser; returns when its window covers the screen.
fn cover_screen(site: &Site, name: &'static str, command: &mut Command) -> Result<Running, Error> {
    let (width, height) = site.size;
    let screen = site.screen.connect()?;
    let root = screen.setup().roots.first().ok_or("the client's X server has no screen")?.root;
    let mask = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
    screen.change_window_attributes(root, &mask)?.check()?;

    let mut browser = programs::start(site, name, command)?;
    let begin = Instant::now();
    let window = loop {
        while screen.poll_for_event()?.is_some() {}
        if let Some(window) = find_window(&screen, root, site.size)? {
            break window;
        }
        browser.check().map_err(|error| programs::failure(site, &error.to_string()))?;
        if begin.elapsed() > WINDOW_MAX {
            let words = format!("{name} shows no window after {} s", WINDOW_MAX.as_secs());
            return Err(programs::failure(site, &words));
        }
        let slice = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let _ = poll(&mut [PollFd::new(screen.stream(), PollFlags::IN)], Some(&slice));
    };
    // Chromium makes a window of the screen's size one pixel smaller, so that no window manager
    // treats it as fullscreen. There is no window manager, so this resizes it to cover the screen.
    screen
        .configure_window(window, &ConfigureWindowAux::new().x(0).y(0).width(width).height(height))?
        .check()?;
    Ok(browser)
}

/// The window that shows the page: the one that covers most of the screen.
fn find_window(
    screen: &RustConnection,
    root: Window,
    (width, height): (u32, u32),
) -> Result<Option<Window>, Error> {
    for window in screen.query_tree(root)?.reply()?.children {
        // A window may be destroyed between the requests.
        let Ok(geometry) = screen.get_geometry(window)?.reply() else { continue };
        let Ok(attributes) = screen.get_window_attributes(window)?.reply() else { continue };
        let large = u32::from(geometry.width) * 10 > width * 9
            && u32::from(geometry.height) * 10 > height * 9;
        if large && attributes.map_state == MapState::VIEWABLE {
            return Ok(Some(window));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_names_the_server_and_not_the_token() {
        let line = exception("https://10.77.0.1:8443/#t=secret", "AB:CD").unwrap();
        assert_eq!(line, "10.77.0.1:8443:\tOID.2.16.840.1.101.3.4.2.1\tAB:CD\t\n");
        assert!(exception("http://10.77.0.1/", "AB").is_err());
    }
}
