//! thinc itself: `thinc serve` with its usual encryption and one-time link, seen with thinc-view, or with Chromium that
//! shows the browser viewer which the session serves. Finished binaries, as a person would start them.
//! Knows the options of thinc, thinc-view and Chromium; never what they send.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::programs::{self, Needed};
use super::{Desk, Peer, kiosk};
use crate::Error;
use crate::display::DisplayNumber;
use crate::net::testbed::Side;
use crate::observe::account::Group;
use crate::process::{Running, binary, wait_for};
use crate::results::PeerRecord;
use crate::stage::Site;

/// Of display :0, so that :100, the first that is given out, has 8443. Each session at one end of a link has its own.
const FIRST_PORT: u16 = 8343;
/// What the session runs, so that it does not end; applications are started from outside, as on every peer.
const IDLE_COMMAND: [&str; 2] = ["sleep", "infinity"];

/// Which viewer shows the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// thinc-view.
    Native,
    /// thinc-view, through ssh.
    Ssh,
    /// The page that the session serves, in Chromium.
    Browser,
}

/// What a session does otherwise than by itself, so that a part of its design can be measured by its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Nothing.
    Default,
    /// Updates leave in the order in which they were drawn.
    Fifo,
    /// Follows what is drawn offscreen, said aloud.
    OffscreenOn,
    /// Does not follow what is drawn offscreen.
    OffscreenOff,
    /// Sends nothing lossy, however slow the link.
    Lossless,
    /// The viewer comes by QUIC, whatever the path.
    Quic,
    /// The viewer comes by TCP, whatever the path.
    Tcp,
    /// By QUIC, and videos are not coded: as many bytes as a path can be given.
    QuicPlain,
    /// The same by TCP.
    TcpPlain,
}

impl Setting {
    /// Options of `thinc serve`.
    fn options(self) -> &'static [&'static str] {
        match self {
            Setting::Default | Setting::Quic | Setting::Tcp => &[],
            Setting::Fifo => &["--scheduler", "fifo"],
            Setting::OffscreenOn => &["--offscreen", "on"],
            Setting::OffscreenOff => &["--offscreen", "off"],
            Setting::Lossless => &["--lossy", "never"],
            Setting::QuicPlain | Setting::TcpPlain => &["--video", "plain"],
        }
    }

    /// What stands behind the address of the page.
    fn query(self) -> &'static str {
        if self == Setting::Quic { "?transport=webtransport" } else { "" }
    }

    /// Options of `thinc-view`.
    fn viewer_options(self) -> &'static [&'static str] {
        match self {
            Setting::Quic | Setting::QuicPlain => &["--transport", "quic"],
            Setting::Tcp | Setting::TcpPlain => &["--transport", "tcp"],
            _ => &[],
        }
    }

    /// Why this `thinc` cannot be asked for it; nothing where it can.
    fn missing(self, program: &Path) -> Option<String> {
        let options = self.options();
        // Words that it does not know are refused before the help is given.
        let known = options.is_empty()
            || programs::said(std::process::Command::new(program).arg("serve").args(options).arg("--help")).is_some();
        (!known).then(|| format!("{} does not know {}: build it anew", program.display(), options.join(" ")))
    }
}

/// thinc's session and one of its viewers.
pub struct Thinc {
    /// Which one.
    pub viewer: Viewer,
    /// How the session is started.
    pub setting: Setting,
}

impl Peer for Thinc {
    fn name(&self) -> &'static str {
        match (self.viewer, self.setting) {
            (Viewer::Native, Setting::Default) => "thinc",
            (Viewer::Native, Setting::Fifo) => "thinc-fifo",
            (Viewer::Native, Setting::OffscreenOn) => "thinc-offscreen-on",
            (Viewer::Native, Setting::OffscreenOff) => "thinc-offscreen-off",
            (Viewer::Native, Setting::Lossless) => "thinc-lossless",
            (Viewer::Native, Setting::Quic) => "thinc-quic",
            (Viewer::Native, Setting::Tcp) => "thinc-tcp",
            (Viewer::Native, Setting::QuicPlain) => "thinc-quic-plain",
            (Viewer::Native, Setting::TcpPlain) => "thinc-tcp-plain",
            (Viewer::Ssh, _) => "thinc-ssh",
            (Viewer::Browser, Setting::Quic) => "thinc-webtransport",
            (Viewer::Browser, _) => "thinc-web",
        }
    }

    fn record(&self) -> PeerRecord {
        let xorg = Needed { program: "Xorg", install: "xserver-xorg-core" };
        let mut record = match self.viewer {
            Viewer::Native => {
                let options = [self.setting.options(), self.setting.viewer_options()].concat().join(" ");
                let title = format!("thinc {options}");
                let settings = match self.setting {
                    Setting::Default => "defaults: TLS, one-time link, viewer --fullscreen".to_owned(),
                    _ => format!("{options}; else defaults: TLS, one-time link, viewer --fullscreen"),
                };
                programs::record(title.trim_end(), &[xorg], &settings)
            }
            Viewer::Ssh => {
                let sshd = Needed { program: "/usr/sbin/sshd", install: "openssh-server" };
                programs::record("thinc through ssh", &[xorg, sshd], "defaults: ssh://, viewer --fullscreen")
            }
            Viewer::Browser => {
                let query = self.setting.query();
                let settings = match query {
                    "" => format!("defaults: TLS, one-time link; {}", kiosk::SETTINGS),
                    _ => format!("{query}; else defaults: one-time link; {}", kiosk::SETTINGS),
                };
                let title = format!("thinc in Chromium {query}");
                programs::record(title.trim_end(), &[xorg, kiosk::NEEDED], &settings)
            }
        };
        record.year = None;
        let mut own = Vec::new();
        let programs: &[&str] = if self.viewer == Viewer::Browser { &["thinc"] } else { &["thinc", "thinc-view"] };
        for name in programs {
            match binary(name) {
                Ok(path) => own.push(own_version(&path)),
                Err(error) => record.missing = Some(error.to_string()),
            }
        }
        if let Ok(program) = binary("thinc") {
            record.missing = record.missing.or_else(|| self.setting.missing(&program));
        }
        if record.missing.is_some() {
            record.version = String::new();
        } else {
            record.version = format!("{}, {}", own.join(", "), record.version);
            record.year = binary("thinc").ok().and_then(|path| year_made(&path));
        }
        record
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let display = DisplayNumber::reserve()?;
        let (server, ready) = serve(site, &display, self.setting)?;
        let text = |key: &str| {
            let found = ready[key].as_str().map(str::to_owned);
            found.ok_or_else(|| programs::failure(site, &format!("the ready file of thinc serve has no `{key}`")))
        };
        let mut held = Vec::new();
        let viewer = match self.viewer {
            Viewer::Ssh => {
                let (sshd, config) = super::sshd::start(site)?;
                held.push(sshd);
                let mut viewer = programs::command(site, Group::Client, binary("thinc-view")?)?;
                viewer.env("DISPLAY", site.screen.display()).env("SDL_VIDEODRIVER", "x11");
                viewer.args(["ssh://there/bench", "--fullscreen", "--timeout", "30", "--ssh"]);
                viewer.arg(format!("ssh -F {}", config.display())).arg("--thinc").arg(binary("thinc")?);
                programs::start(site, "thinc-view", &mut viewer)?
            }
            Viewer::Native => {
                let mut viewer = programs::command(site, Group::Client, binary("thinc-view")?)?;
                viewer.env("DISPLAY", site.screen.display()).env("SDL_VIDEODRIVER", "x11");
                viewer.args(["--fullscreen", "--timeout", "30"]).args(self.setting.viewer_options());
                viewer.arg(text("native_link")?);
                programs::start(site, "thinc-view", &mut viewer)?
            }
            // The token stands behind `#`, and the page's own words before it.
            Viewer::Browser => {
                let query = self.setting.query();
                kiosk::show(site, &text("link")?.replacen('#', &format!("{query}#"), 1))?
            }
        };
        let mut desk = Desk {
            display: text("display")?,
            xauthority: Some(text("xauthority")?.into()),
            held: [viewer].into_iter().chain(held).chain([server]).collect(),
            displays: vec![display],
            session: ready["pids"]["session"].as_u64().and_then(|pid| pid.try_into().ok()),
            ..Desk::default()
        };
        programs::wait_until_shown(site, &mut desk, Duration::from_secs(60))?;
        Ok(desk)
    }
}

/// Starts a session on `display` and gives what its ready file says.
fn serve(site: &Site, display: &DisplayNumber, setting: Setting) -> Result<(Running, serde_json::Value), Error> {
    let xorg = programs::find("/usr/lib/xorg/Xorg").or_else(|| programs::find("Xorg"));
    let xorg = xorg.ok_or("there is no Xorg: install xserver-xorg-core")?;
    // thinc lets Xorg choose its display, and Xorg takes the first that the namespace does not have: another's.
    let chosen = site.folder.path().join("xorg-on-its-display");
    fs::write(&chosen, format!("#!/bin/sh\nexec '{}' {} \"$@\"\n", xorg.display(), display.name()))?;
    fs::set_permissions(&chosen, fs::Permissions::from_mode(0o755))?;

    let ready = site.folder.path().join("ready.json");
    let (width, height) = site.size;
    let mut server = programs::command(site, Group::Server, binary("thinc")?)?;
    server.env("THINC_XORG", &chosen).arg("serve");
    let port = FIRST_PORT + display.number();
    server.args(["--listen", &format!("{}:{port}", site.bed.address(Side::Server))]);
    server.args(["--size", &format!("{width}x{height}"), "--name", "bench", "--ready-json"]).arg(&ready);
    server.args(setting.options());
    if setting != Setting::Default {
        // Then the session says what it has sent when its viewer leaves.
        server.env("THINC_LOG", "debug");
    }
    server.arg("--").args(IDLE_COMMAND);
    let mut server = programs::start(site, "thinc-serve", &mut server)?;
    let json = wait_for("thinc serve is ready", Duration::from_secs(40), || {
        if server.check().is_err() {
            return Some(None);
        }
        Some(Some(serde_json::from_str(&fs::read_to_string(&ready).ok()?).ok()?))
    });
    match json {
        Ok(Some(json)) => Ok((server, json)),
        Ok(None) => Err(programs::failure(site, "thinc serve ended before it was ready")),
        Err(error) => Err(programs::failure(site, &error.to_string())),
    }
}

/// "thinc 0.1.0 (1bb5936)", where the binary lies in the tree that it was built from.
fn own_version(program: &Path) -> String {
    let said = programs::said(std::process::Command::new(program).arg("--version"));
    let version = said.and_then(|text| Some(text.lines().next()?.to_owned()));
    let version = version.unwrap_or_else(|| "of unknown version".to_owned());
    match built_from(program, "%h") {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    }
}

fn year_made(program: &Path) -> Option<u16> {
    built_from(program, "%cs")?.split('-').next()?.parse().ok()
}

/// A field of the newest commit that was there when `program` was built, of the tree in which it lies.
fn built_from(program: &Path, field: &str) -> Option<String> {
    let built = fs::metadata(program).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let mut git = std::process::Command::new("git");
    git.arg("-C").arg(program.parent()?);
    programs::said(git.args(["log", "-1", &format!("--before=@{built}"), &format!("--format={field}")]))
}
