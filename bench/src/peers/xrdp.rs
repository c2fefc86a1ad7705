//! xrdp with its Xorg modules and its session manager, shown by FreeRDP: a login over the network
//! with TLS. xrdp reads files at fixed paths and uses PAM for logins; both are private copies in a
//! mount namespace, with the accounts and rules of accounts.rs, so that the machine is not changed.
//! Knows files and options of both; never their protocol.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::accounts::{Accounts, USER};
use super::programs::{self, Needed};
use super::{Desk, PRIVATE, Peer, listening};
use crate::Error;
use crate::display::DisplayNumber;
use crate::net::testbed::Side;
use crate::observe::account::Group;
use crate::process::{Running, wait_for};
use crate::results::PeerRecord;
use crate::stage::Site;

const SERVER: &str = "/usr/sbin/xrdp";
const XORG: &str = "/usr/lib/xorg/Xorg";
/// The configuration that loads xrdp's modules into an Xorg.
const XORG_CONFIG: &str = "/etc/X11/xrdp/xorg.conf";
const VIEWER: &str = "xfreerdp";
const PORT: u16 = 3389;
/// Between xrdp and its session manager, on the namespace's loopback.
const SESMAN_PORT: u16 = 3350;
/// Login, session manager, X server and first picture: a second on an idle machine and a fast link.
const SHOWN_MAX: Duration = Duration::from_secs(60);

/// xrdp and FreeRDP.
pub struct Xrdp {
    /// Whether the viewer requests RemoteFX, a lossy codec. By default FreeRDP does not, and then
    /// xrdp 0.9 sends lossless bitmaps; with network type "auto" it always sends bitmaps.
    pub remotefx: bool,
}

impl Peer for Xrdp {
    fn name(&self) -> &'static str {
        if self.remotefx { "xrdp-remotefx" } else { "xrdp" }
    }

    fn record(&self) -> PeerRecord {
        let needed = [
            Needed { program: SERVER, install: "xrdp" },
            Needed { program: "/usr/sbin/xrdp-sesman", install: "xrdp" },
            Needed { program: XORG, install: "xserver-xorg-core" },
            Needed { program: XORG_CONFIG, install: "xorgxrdp" },
            Needed { program: VIEWER, install: "freerdp2-x11" },
        ];
        let (title, code) = if self.remotefx {
            ("xrdp with RemoteFX", "/rfx (lossy)")
        } else {
            ("xrdp", "/network:auto (bitmaps)")
        };
        let settings = format!(
            "defaults with TLS; login by private PAM files; no clipboard, sound and drives; \
                xfreerdp /f /bpp:32 {code}"
        );
        let mut record = programs::record(title, &needed, &settings);
        record.missing = record.missing.or_else(obstacle);
        if record.missing.is_some() {
            record.version = String::new();
        }
        record
    }

    fn sound(&self) -> Result<(), String> {
        Err(format!(
            "{} has sound only through a module that is built for each PulseAudio or PipeWire, and \
             Debian 12 has no package of it",
            self.name()
        ))
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let display = DisplayNumber::reserve()?;
        let folder = site.folder.path().join("xrdp");
        // Renamed when complete. The session is only its X server; applications are started from
        // outside.
        let ready = folder.join("ready");
        let session = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$DISPLAY\" > '{ready}.new'\nmv '{ready}.new' '{ready}'\n\
                exec sleep infinity\n",
            ready = ready.display()
        );
        let mut server =
            start_server(site, std::slice::from_ref(&display), &session, &Accounts::anybody())?;
        let mut viewer = self.view(site, USER, "any")?;
        let begun = wait_for("xrdp's session begins", SHOWN_MAX, || {
            let end = server.check().and_then(|()| viewer.check());
            if let Err(error) = end {
                return Some(Err(error));
            }
            fs::read_to_string(&ready).ok().map(Ok)
        });
        let name = begun
            .and_then(|end| end)
            .map_err(|error| programs::failure(site, &error.to_string()))?;
        // The display is written as ":77.0".
        let name = name.trim().split('.').next().unwrap_or_default().to_owned();
        if name != display.name() {
            let words =
                format!("xrdp's session is on display {name} and not on {}", display.name());
            return Err(programs::failure(site, &words));
        }
        let mut desk = Desk {
            display: name,
            xauthority: Some(folder.join(format!("home-{USER}/.Xauthority"))),
            held: vec![viewer, server],
            displays: vec![display],
            ..Desk::default()
        };
        programs::wait_until_shown(site, &mut desk, SHOWN_MAX)?;
        Ok(desk)
    }
}

impl Xrdp {
    /// Starts the viewer, which logs in.
    pub(crate) fn view(&self, site: &Site, user: &str, password: &str) -> Result<Running, Error> {
        let (width, height) = site.size;
        let mut viewer = programs::command(site, Group::Client, VIEWER)?;
        viewer.env("DISPLAY", site.screen.display());
        viewer.arg(format!("/v:{}:{PORT}", site.bed.address(Side::Server)));
        viewer.args([
            &format!("/u:{user}"),
            &format!("/p:{password}"),
            "/cert:ignore",
            "/f",
            &format!("/size:{width}x{height}"),
        ]);
        viewer.args([
            "/bpp:32",
            "-clipboard",
            if self.remotefx { "/rfx" } else { "/network:auto" },
        ]);
        programs::start(site, VIEWER, &mut viewer)
    }
}

/// Starts xrdp and its session manager; returns once they listen. Each person's login gets a
/// session of the shell script `session` on one of the `displays`.
pub(crate) fn start_server(
    site: &Site,
    displays: &[DisplayNumber],
    session: &str,
    accounts: &Accounts,
) -> Result<Running, Error> {
    let folder = site.folder.path().join("xrdp");
    write_files(site, &folder, displays, session, accounts)?;
    let mut server = programs::command(site, Group::Server, "unshare")?;
    server.args(["--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "--", "/bin/sh"]);
    server.arg(folder.join("xrdp.sh")).arg(site.folder.path());
    let mut server = programs::start(site, "xrdp", &mut server)?;
    listening::wait(site, "xrdp-sesman", &mut server, SESMAN_PORT)?;
    listening::wait(site, "xrdp", &mut server, PORT)?;
    Ok(server)
}

/// Why private copies of /etc/passwd and of xrdp's files cannot be mounted over the machine's.
fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        // Also in a user namespace: xrdp-sesman sets the groups of each session's user, which needs
        // real root.
        return Some("xrdp gives sessions to users, which only root may: run as root".to_owned());
    }
    let refused = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--mount-proc", "true"])
        .output();
    match refused {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Some(format!(
                "no mount namespace can be made, in which xrdp's login would be private: {words}"
            ))
        }
        Err(error) => Some(format!("cannot run unshare: {error}: install util-linux")),
    }
}

/// The files that xrdp.sh mounts over the machine's, and the session's script.
fn write_files(
    site: &Site,
    folder: &Path,
    displays: &[DisplayNumber],
    session: &str,
    accounts: &Accounts,
) -> Result<(), Error> {
    let etc = folder.join("etc");
    for made in [&etc, &folder.join("run")] {
        fs::create_dir_all(made)
            .map_err(|error| format!("cannot make {}: {error}", made.display()))?;
    }
    // The keys and keymaps of the package; its two main files are replaced.
    let copied = Command::new("cp").args(["-a", "/etc/xrdp/."]).arg(&etc).output()?;
    if !copied.status.success() {
        return Err(format!(
            "cannot copy /etc/xrdp: {}",
            String::from_utf8_lossy(&copied.stderr).trim()
        )
        .into());
    }
    programs::write_script(&folder.join("private.sh"), PRIVATE)?;
    programs::write_script(&folder.join("xrdp.sh"), include_str!("xrdp.sh"))?;
    programs::write_script(&folder.join("session.sh"), session)?;
    accounts.write(folder)?;
    fs::write(folder.join("pam"), accounts.pam())?;

    let log = |name: &str| site.folder.path().join(format!("{name}.log")).display().to_string();
    fs::write(
        etc.join("xrdp.ini"),
        xrdp_ini(&site.bed.address(Side::Server).to_string(), &log("xrdp-own")),
    )?;
    let session = folder.join("session.sh").display().to_string();
    let numbers = displays.iter().map(DisplayNumber::number);
    let (first, last) = numbers.clone().min().zip(numbers.max()).ok_or("xrdp has no display")?;
    let sesman = sesman_ini(first..=last, &session, &log("xrdp-sesman"));
    fs::write(etc.join("sesman.ini"), sesman)?;
    Ok(())
}

/// As in the package, without the channels that a display does not need, and with automatic login.
fn xrdp_ini(address: &str, log: &str) -> String {
    format!(
        "[Globals]\nini_version=1\nfork=true\nport=tcp://{address}:{PORT}\ntcp_nodelay=true\ntcp_keepalive=true\n\
         security_layer=negotiate\ncrypt_level=high\ncertificate=\nkey_file=\nssl_protocols=TLSv1.2, TLSv1.3\n\
         autorun=Xorg\nallow_channels=true\nallow_multimon=true\nbitmap_cache=true\nbitmap_compression=true\n\
         bulk_compression=true\nmax_bpp=32\nnew_cursors=true\nuse_fastpath=both\n\
         [Logging]\nLogFile={log}\nLogLevel=INFO\nEnableSyslog=false\n\
         [Channels]\nrdpdr=false\nrdpsnd=false\ndrdynvc=true\ncliprdr=false\nrail=false\nxrdpvr=false\ntcutils=false\n\
         [Xorg]\nname=Xorg\nlib=libxup.so\nusername=ask\npassword=ask\nip=127.0.0.1\nport=-1\ncode=20\n"
    )
}

/// As in the package, with a session that only waits, the chosen displays and logs, and no mounts.
/// sesman takes the first of the displays on which no X server listens. Xorg writes its log into
/// the home folder of the session's user.
fn sesman_ini(displays: RangeInclusive<u16>, session: &str, log: &str) -> String {
    let (first, sessions) = (displays.start(), displays.len());
    format!(
        "[Globals]\nListenAddress=127.0.0.1\nListenPort={SESMAN_PORT}\nEnableUserWindowManager=false\n\
         UserWindowManager=startwm.sh\nDefaultWindowManager={session}\nReconnectScript=/bin/true\n\
         [Security]\nAllowRootLogin=true\nMaxLoginRetry=4\nAlwaysGroupCheck=false\n\
         [Sessions]\nX11DisplayOffset={first}\nMaxSessions={sessions}\nKillDisconnected=false\nDisconnectedTimeLimit=0\n\
         IdleTimeLimit=0\nPolicy=Default\n\
         [Logging]\nLogFile={log}\nLogLevel=INFO\nEnableSyslog=false\n\
         [Xorg]\nparam={XORG}\nparam=-config\nparam=xrdp/xorg.conf\nparam=-noreset\nparam=-nolisten\nparam=tcp\n\
         param=-logfile\nparam=.xorgxrdp.%s.log\n\
         [Chansrv]\nEnableFuseMount=false\n\
         [ChansrvLogging]\nLogLevel=INFO\nEnableSyslog=false\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_name_the_display_and_nothing_of_the_machine() {
        let sesman = sesman_ini(177..=179, "/f/session.sh", "/f/a.log");
        assert!(sesman.contains("X11DisplayOffset=177\nMaxSessions=3\n"), "{sesman}");
        let xrdp = xrdp_ini("10.77.0.1", "/f/c.log");
        assert!(xrdp.contains("port=tcp://10.77.0.1:3389\n"), "{xrdp}");
        for text in [sesman, xrdp] {
            assert!(!text.contains("/var/log") && text.contains("EnableSyslog=false"), "{text}");
        }
    }
}
