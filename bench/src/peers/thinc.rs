//! thinc itself: `thinc serve` with its default encryption and one-time link, shown by thinc-view,
//! or by Chromium or Firefox with the page that the session serves. It starts the built binaries as
//! a user would. Knows the options of thinc, thinc-view and Chromium; never their protocol.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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

/// The port of display :0, so that :100, the first that is allocated, has 8443. Each session at one
/// end of a link has its own.
const FIRST_PORT: u16 = 8343;
/// The session's command, which keeps it running; applications are started from outside, as on
/// every peer.
const IDLE_COMMAND: [&str; 2] = ["sleep", "infinity"];
/// By this variable, which each session's command has, `thinc send` finds its session.
const SHARE_SOCKET: &str = "THINC_SHARE_SOCKET";

/// Which viewer shows the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// thinc-view.
    Native,
    /// thinc-view, through ssh.
    Ssh,
    /// The page that the session serves, in Chromium.
    Browser,
    /// The same in Firefox.
    Firefox,
}

/// A setting other than the default, to measure a part of the design by its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The defaults.
    Default,
    /// Updates are sent in drawing order.
    Fifo,
    /// Offscreen drawing is tracked, with the option given explicitly.
    OffscreenOn,
    /// Offscreen drawing is not tracked.
    OffscreenOff,
    /// Sends no lossy pixels, however slow the link.
    Lossless,
    /// The viewer's person has chosen that pictures that move are exact.
    Exact,
    /// The same for other qualities.
    High,
    /// See [`Setting::High`].
    Medium,
    /// See [`Setting::High`].
    Low,
    /// The viewer connects over QUIC.
    Quic,
    /// The viewer connects over TCP.
    Tcp,
    /// The viewer stays in ssh's tunnel.
    Tunnel,
    /// Over QUIC with uncompressed video, to load the path as much as possible.
    QuicPlain,
    /// The same over TCP.
    TcpPlain,
}

impl Setting {
    /// Options of `thinc serve`.
    fn options(self) -> &'static [&'static str] {
        match self {
            Setting::Default | Setting::Quic | Setting::Tcp | Setting::Tunnel => &[],
            Setting::Exact | Setting::High | Setting::Medium | Setting::Low => &[],
            Setting::Fifo => &["--scheduler", "fifo"],
            Setting::OffscreenOn => &["--offscreen", "on"],
            Setting::OffscreenOff => &["--offscreen", "off"],
            Setting::Lossless => &["--lossy", "never"],
            Setting::QuicPlain | Setting::TcpPlain => &["--video", "plain"],
        }
    }

    /// The query of the page's address.
    fn query(self) -> &'static str {
        match self {
            Setting::Quic => "?transport=webtransport",
            Setting::Tcp => "?transport=websocket",
            _ => "",
        }
    }

    /// Options of `thinc-view`.
    fn viewer_options(self) -> &'static [&'static str] {
        match self {
            Setting::Quic | Setting::QuicPlain => &["--transport", "quic"],
            Setting::Tcp | Setting::TcpPlain => &["--transport", "tcp"],
            Setting::Tunnel => &["--transport", "tunnel"],
            Setting::Exact => &["--quality", "exact"],
            Setting::High => &["--quality", "high"],
            Setting::Medium => &["--quality", "medium"],
            Setting::Low => &["--quality", "low"],
            _ => &[],
        }
    }

    /// Why this `thinc` does not support it; None if it does.
    fn missing(self, program: &Path) -> Option<String> {
        let options = self.options();
        // Unknown options are refused before the help is printed.
        let known = options.is_empty()
            || programs::output_of(
                std::process::Command::new(program).arg("serve").args(options).arg("--help"),
            )
            .is_some();
        (!known).then(|| {
            format!("{} does not know {}: build it again", program.display(), options.join(" "))
        })
    }
}

/// thinc's session and one of its viewers.
pub struct Thinc {
    /// Which one.
    pub viewer: Viewer,
    /// How the session is started.
    pub setting: Setting,
}

impl Thinc {
    fn shows_page(&self) -> bool {
        matches!(self.viewer, Viewer::Browser | Viewer::Firefox)
    }
}

impl Peer for Thinc {
    fn name(&self) -> &'static str {
        match (self.viewer, self.setting) {
            (Viewer::Native, Setting::Default) => "thinc",
            (Viewer::Native, Setting::Fifo) => "thinc-fifo",
            (Viewer::Native, Setting::OffscreenOn) => "thinc-offscreen-on",
            (Viewer::Native, Setting::OffscreenOff) => "thinc-offscreen-off",
            (Viewer::Native, Setting::Lossless) => "thinc-lossless",
            (Viewer::Native, Setting::Exact) => "thinc-exact",
            (Viewer::Native, Setting::High) => "thinc-high",
            (Viewer::Native, Setting::Medium) => "thinc-medium",
            (Viewer::Native, Setting::Low) => "thinc-low",
            (Viewer::Native, Setting::Quic) => "thinc-quic",
            (Viewer::Native, Setting::Tcp) => "thinc-tcp",
            (Viewer::Native, Setting::QuicPlain) => "thinc-quic-plain",
            (Viewer::Native, Setting::TcpPlain) => "thinc-tcp-plain",
            (Viewer::Native, Setting::Tunnel) => unreachable!("a tunnel needs ssh"),
            (Viewer::Ssh, Setting::Quic) => "thinc-ssh-quic",
            (Viewer::Ssh, _) => "thinc-ssh",
            (Viewer::Browser, Setting::Quic) => "thinc-webtransport",
            (Viewer::Browser, Setting::Tcp) => "thinc-websocket",
            (Viewer::Browser, _) => "thinc-web",
            (Viewer::Firefox, _) => "thinc-firefox",
        }
    }

    fn record(&self) -> PeerRecord {
        let xorg = Needed { program: "Xorg", install: "xserver-xorg-core" };
        let mut record = match self.viewer {
            Viewer::Native => {
                let options =
                    [self.setting.options(), self.setting.viewer_options()].concat().join(" ");
                let title = format!("thinc {options}");
                let settings = match self.setting {
                    Setting::Default => {
                        "defaults: TLS, one-time link, viewer --fullscreen".to_owned()
                    }
                    _ => {
                        format!("{options}; else defaults: TLS, one-time link, viewer --fullscreen")
                    }
                };
                programs::record(title.trim_end(), &[xorg], &settings)
            }
            Viewer::Ssh => {
                let sshd = Needed { program: "/usr/sbin/sshd", install: "openssh-server" };
                let title = match self.setting {
                    Setting::Quic => "thinc through ssh, then QUIC",
                    _ => "thinc through ssh",
                };
                let options = self.setting.viewer_options().join(" ");
                let settings = format!("{options}; else defaults: ssh://, viewer --fullscreen");
                programs::record(title, &[xorg, sshd], &settings)
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
            Viewer::Firefox => {
                let settings = format!("defaults: TLS, one-time link; {}", kiosk::FIREFOX_SETTINGS);
                programs::record("thinc in Firefox", &[xorg, kiosk::FIREFOX], &settings)
            }
        };
        record.year = None;
        let mut own = Vec::new();
        let programs: &[&str] =
            if self.shows_page() { &["thinc"] } else { &["thinc", "thinc-view"] };
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

    fn sound(&self) -> Result<(), String> {
        Ok(())
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let display = DisplayNumber::reserve()?;
        let (server, ready) = serve(site, &display, self.setting)?;
        let text = |key: &str| {
            let found = ready[key].as_str().map(str::to_owned);
            found.ok_or_else(|| {
                programs::failure(site, &format!("the ready file of thinc serve has no `{key}`"))
            })
        };
        let mut held = Vec::new();
        let viewer = match self.viewer {
            Viewer::Ssh => {
                let (sshd, config) = super::sshd::start(site)?;
                held.push(sshd);
                let mut viewer = programs::command(site, Group::Client, binary("thinc-view")?)?;
                viewer.env("DISPLAY", site.screen.display()).env("SDL_VIDEODRIVER", "x11");
                viewer.args(["ssh://there/bench", "--fullscreen", "--timeout", "30"]);
                viewer.args(self.setting.viewer_options()).arg("--ssh");
                viewer
                    .arg(format!("ssh -F {}", config.display()))
                    .arg("--thinc")
                    .arg(binary("thinc")?);
                programs::start(site, "thinc-view", &mut viewer)?
            }
            Viewer::Native => {
                let mut viewer = programs::command(site, Group::Client, binary("thinc-view")?)?;
                viewer.env("DISPLAY", site.screen.display()).env("SDL_VIDEODRIVER", "x11");
                viewer
                    .args(["--fullscreen", "--timeout", "30"])
                    .args(self.setting.viewer_options());
                viewer.env("THINC_LINK", text("native_link")?);
                programs::start(site, "thinc-view", &mut viewer)?
            }
            // The token follows `#`; the page's query precedes it.
            Viewer::Browser => {
                let query = self.setting.query();
                kiosk::show(site, &text("link")?.replacen('#', &format!("{query}#"), 1))?
            }
            Viewer::Firefox => kiosk::show_firefox(site, &text("link")?, &identity_of(site))?,
        };
        let mut desk = Desk {
            display: text("display")?,
            xauthority: Some(text("xauthority")?.into()),
            held: [viewer].into_iter().chain(held).chain([server]).collect(),
            displays: vec![display],
            session: pid(&ready, "session"),
            x_server: pid(&ready, "xorg"),
            sound: pid(&ready, "desk"),
            ..Desk::default()
        };
        let command = pid(&ready, "command").ok_or("the ready file names no command")?;
        let sound: &[&str] = match site.ear {
            Some(_) => &["PULSE_SERVER", "ALSA_CONFIG_PATH"],
            None => &[],
        };
        desk.env = environment(command, &[&[SHARE_SOCKET], sound].concat())?;
        programs::wait_until_shown(site, &mut desk, Duration::from_secs(60))?;
        Ok(desk)
    }
}

/// Where the session keeps its certificate.
fn identity_of(site: &Site) -> PathBuf {
    let home = programs::runtime_folder(site.folder.path(), Group::Server).join("..");
    home.join(".local/state/thinc/identity.pem")
}

fn pid(ready: &serde_json::Value, name: &str) -> Option<u32> {
    ready["pids"][name].as_u64()?.try_into().ok()
}

/// These variables of the session's command; other applications are started from outside.
fn environment(command: u32, names: &[&str]) -> Result<Vec<(String, String)>, Error> {
    wait_for("the session's command has its environment", Duration::from_secs(10), || {
        let bytes = fs::read(format!("/proc/{command}/environ")).ok()?;
        let variables = String::from_utf8_lossy(&bytes);
        let pairs = variables.split('\0').filter_map(|variable| variable.split_once('='));
        let wanted = pairs.filter(|(name, _)| names.contains(name));
        let wanted: Vec<(String, String)> =
            wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        // Until it is executed, it has that of the process that starts it.
        wanted.iter().any(|(name, _)| name == SHARE_SOCKET).then_some(wanted)
    })
}

/// Starts a session on `display` and returns the content of its ready file.
fn serve(
    site: &Site,
    display: &DisplayNumber,
    setting: Setting,
) -> Result<(Running, serde_json::Value), Error> {
    let xorg = programs::find("/usr/lib/xorg/Xorg").or_else(|| programs::find("Xorg"));
    let xorg = xorg.ok_or("there is no Xorg: install xserver-xorg-core")?;
    // thinc lets Xorg choose its display, and Xorg takes the first that is free in its namespace,
    // which another run may use.
    let chosen = site.folder.path().join("xorg-on-its-display");
    fs::write(
        &chosen,
        // The last display of the arguments counts.
        format!("#!/bin/sh\nexec '{}' \"$@\" {}\n", xorg.display(), display.name()),
    )?;
    fs::set_permissions(&chosen, fs::Permissions::from_mode(0o755))?;

    let ready = site.folder.path().join("ready.json");
    let (width, height) = site.size;
    let mut server = programs::command(site, Group::Server, binary("thinc")?)?;
    server.env("THINC_XORG", &chosen).arg("serve");
    let port = FIRST_PORT + display.number();
    server.args(["--listen", &format!("{}:{port}", site.bed.address(Side::Server))]);
    server
        .args(["--size", &format!("{width}x{height}"), "--name", "bench", "--ready-json"])
        .arg(&ready);
    server.args(["--window-manager", "none"]).args(setting.options());
    if setting != Setting::Default {
        // The session then logs its statistics when its viewer disconnects.
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

/// "thinc 0.1.0 (1bb5936)", if the binary is in the tree that it was built from.
fn own_version(program: &Path) -> String {
    let output = programs::output_of(std::process::Command::new(program).arg("--version"));
    let version = output.and_then(|text| Some(text.lines().next()?.to_owned()));
    let version = version.unwrap_or_else(|| "of unknown version".to_owned());
    match built_from(program, "%h") {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    }
}

fn year_made(program: &Path) -> Option<u16> {
    built_from(program, "%cs")?.split('-').next()?.parse().ok()
}

/// A field of the newest commit older than `program`, of the tree that contains it.
fn built_from(program: &Path, field: &str) -> Option<String> {
    let built =
        fs::metadata(program).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let mut git = std::process::Command::new("git");
    git.arg("-C").arg(program.parent()?);
    programs::output_of(git.args([
        "log",
        "-1",
        &format!("--before=@{built}"),
        &format!("--format={field}"),
    ]))
}
