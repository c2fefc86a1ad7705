//! xpra in its desktop mode: a whole X display, an Xvfb of the session's size, shown in one window
//! of xpra's own client. Its other features (printers, clipboard, notifications, and sound unless
//! somebody listens) are off, and so is the shared memory through which both halves would exchange
//! pixels on one machine. Knows options of xpra; never its protocol.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::programs::{self, Needed};
use super::{Desk, Peer, listening};
use crate::Error;
use crate::display::DisplayNumber;
use crate::net::testbed::Side;
use crate::observe::account::Group;
use crate::process::wait_for;
use crate::results::PeerRecord;
use crate::stage::Site;

const PROGRAM: &str = "xpra";
const X_SERVER: &str = "Xvfb";
/// The port in xpra's documentation.
const PORT: u16 = 10000;
/// Where xpra's package keeps its settings.
const SETTINGS: &str = "/etc/xpra";
/// Both halves are Python programs that probe OpenGL in another process before they start.
const SHOWN_MAX: Duration = Duration::from_secs(60);
/// Where nobody listens. Pictures would wait 150 ms for the disabled sound.
const SILENT: [&str; 3] = ["--speaker=disabled", "--av-sync=no", "--pulseaudio=no"];
/// Where somebody does: xpra's defaults, with a PulseAudio of the session's own.
const LOUD_SERVER: [&str; 2] = ["--speaker=on", "--pulseaudio=yes"];
const LOUD_CLIENT: [&str; 2] = ["--speaker=on", "--pulseaudio=no"];
/// A PulseAudio with its modules, and the process that encodes.
const SOUND_MAX: Duration = Duration::from_secs(30);
/// Options of both halves: only the display, and no shared memory.
const ONLY_THE_DISPLAY: [&str; 12] = [
    "--mmap=no",
    "--microphone=disabled",
    "--printing=no",
    "--webcam=no",
    "--notifications=no",
    "--clipboard=no",
    "--system-tray=no",
    "--mdns=no",
    "--file-transfer=no",
    "--open-url=no",
    "--html=off",
    "--dbus-control=no",
];
/// The first version with a splash screen, which it would show in front of the session.
const SPLASH_SINCE: u32 = 4;

/// xpra's server and its client.
pub struct Xpra;

impl Peer for Xpra {
    fn name(&self) -> &'static str {
        "xpra"
    }

    fn record(&self) -> PeerRecord {
        let needed = [
            Needed { program: PROGRAM, install: "xpra" },
            Needed { program: X_SERVER, install: "xvfb" },
        ];
        let settings = "start-desktop on an Xvfb, tcp without encryption, encodings automatic \
            (defaults); --mmap=no; no \
                        sound (so --av-sync=no, and XPRA_XSHM=0 as changes are lost without one \
                        of them), printers, \
                        clipboard, notifications; client --desktop-fullscreen \
                        --desktop-scaling=off";
        let mut record = programs::record("xpra", &needed, settings);
        if record.missing.is_none() && programs::find(PROGRAM).is_some_and(|path| !can_draw(&path))
        {
            record.missing =
                Some("xpra cannot draw: install python3-gi-cairo and python3-pil".to_owned());
            record.version = String::new();
        }
        record
    }

    fn sound(&self) -> Result<(), String> {
        let missing: Vec<&str> = ["pulseaudio", "gst-inspect-1.0"]
            .into_iter()
            .filter(|program| programs::find(program).is_none())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!(
            "xpra's sound needs {}: install pulseaudio, gstreamer1.0-pulseaudio, \
             gstreamer1.0-plugins-good, gstreamer1.0-tools and python3-gst-1.0",
            missing.join(" and ")
        ))
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let settings = copy_settings(site)?;
        let display = DisplayNumber::reserve()?;
        let (width, height) = site.size;
        let mut x_server = programs::command(site, Group::Server, X_SERVER)?;
        x_server.args([
            "-screen",
            "0",
            &format!("{width}x{height}x24"),
            "-noreset",
            "-ac",
            "-nolisten",
            "tcp",
        ]);
        // As xpra starts it.
        x_server.args(["+extension", "GLX", "+extension", "Composite", "-dpi", "96"]);
        let x_server = programs::start_x_server(site, "xpra-Xvfb", &display, x_server)?;

        let address = site.bed.address(Side::Server);
        let splash = if major_version() >= Some(SPLASH_SINCE) { &["--splash=no"][..] } else { &[] };
        let mut server = command(site, Group::Server, &settings)?;
        // Reading the screen through shared memory, xpra 3.1.3 lost a change for good in 4 of 10
        // runs over 66 ms, and in none without; only the delay for sound hides that, as it copies
        // each picture.
        server.env("XPRA_XSHM", "0");
        server
            .arg("start-desktop")
            .arg(display.name())
            .args(["--use-display=yes", "--resize-display=no"]);
        // By default its socket is in /run, and xpra would accept clients there too.
        server.args([
            &format!("--bind-tcp={address}:{PORT}"),
            "--bind=none",
            "--daemon=no",
            "--systemd-run=no",
        ]);
        server.args(["--attach=no", "--dbus-launch=", "--dbus-proxy=no"]);
        let (server_sound, client_sound) = match &site.ear {
            Some(_) => (&LOUD_SERVER[..], &LOUD_CLIENT[..]),
            None => (&SILENT[..], &SILENT[..]),
        };
        if site.ear.is_some() {
            // Its PulseAudio's folder is in a folder that it makes only for sockets of its own.
            let runtime = programs::runtime_folder(site.folder.path(), Group::Server);
            fs::create_dir_all(runtime.join("xpra"))?;
        }
        server.args(server_sound);
        let mut server =
            programs::start(site, "xpra-server", server.args(splash).args(ONLY_THE_DISPLAY))?;
        listening::wait(site, "xpra", &mut server, PORT)?;

        let mut viewer = command(site, Group::Client, &settings)?;
        viewer
            .env("DISPLAY", site.screen.display())
            .args(["attach", &format!("tcp://{address}:{PORT}/")]);
        viewer.args(["--desktop-fullscreen=yes", "--desktop-scaling=off", "--tray=no"]);
        viewer.args(client_sound);
        let viewer =
            programs::start(site, "xpra-client", viewer.args(splash).args(ONLY_THE_DISPLAY))?;

        let mut env = Vec::new();
        if site.ear.is_some() {
            let runtime = programs::runtime_folder(site.folder.path(), Group::Server);
            let socket = wait_for("xpra's PulseAudio", SOUND_MAX, || pulse_socket(&runtime, 3));
            let socket = socket.map_err(|error| programs::failure(site, &error.to_string()))?;
            env.push(("PULSE_SERVER".to_owned(), format!("unix:{}", socket.display())));
        }
        let mut desk = Desk {
            display: display.name(),
            env,
            held: vec![viewer, server, x_server],
            displays: vec![display],
            ..Desk::default()
        };
        programs::wait_until_shown(site, &mut desk, SHOWN_MAX)?;
        Ok(desk)
    }
}

/// xpra with settings and sockets in the site's folder, and without a message bus: GTK would start
/// one that outlives it.
fn command(site: &Site, group: Group, settings: &Path) -> Result<Command, Error> {
    let mut command = programs::command(site, group, PROGRAM)?;
    command
        .env("XPRA_SYSTEM_CONF_DIRS", settings)
        .env("GSETTINGS_BACKEND", "memory")
        .env("NO_AT_BRIDGE", "1");
    command.env("DBUS_SESSION_BUS_ADDRESS", "disabled:").env("XPRA_SOCKET_DIR", site.folder.path());
    // For sound xpra runs itself by the first python3 in PATH, which may lack its modules.
    let python = programs::find(PROGRAM).and_then(|xpra| python_of(&xpra)?.into_iter().next());
    if let Some(folder) = python.as_deref().and_then(|python| Path::new(python).parent()) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders)?);
    }
    Ok(command)
}

/// A socket of PulseAudio at most so many folders below this one.
fn pulse_socket(folder: &Path, depth: usize) -> Option<PathBuf> {
    let own = folder.join("pulse/native");
    if own.exists() {
        return Some(own);
    }
    let below = depth.checked_sub(1)?;
    let entries = fs::read_dir(folder).ok()?.flatten();
    entries
        .filter(|entry| entry.path().is_dir())
        .find_map(|entry| pulse_socket(&entry.path(), below))
}

/// The settings of the package, without the commands that it would run in each session: every peer
/// runs the same programs.
fn copy_settings(site: &Site) -> Result<PathBuf, Error> {
    let to = site.folder.path().join("xpra-settings");
    fs::create_dir_all(to.join("conf.d"))?;
    for part in ["", "conf.d"] {
        let Ok(entries) = fs::read_dir(Path::new(SETTINGS).join(part)) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let (Some(name), true) =
                (path.file_name(), path.extension().is_some_and(|end| end == "conf"))
            else {
                continue;
            };
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            fs::write(to.join(part).join(name), without_commands(&text))?;
        }
    }
    Ok(to)
}

fn without_commands(settings: &str) -> String {
    let is_command =
        |line: &&str| line.split('=').next().is_some_and(|name| name.trim() == "start");
    settings.lines().filter(|line| !is_command(line)).map(|line| format!("{line}\n")).collect()
}

/// "xpra v3.1.3" is 3.
fn major_version() -> Option<u32> {
    let text = programs::output_of(Command::new(PROGRAM).arg("--version"))?;
    text.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty())?.parse().ok()
}

/// The Python that runs `xpra`, and its arguments; None if it is not a Python script.
fn python_of(xpra: &Path) -> Option<Vec<String>> {
    let script = fs::read(xpra).ok()?;
    let first = String::from_utf8_lossy(&script).lines().next()?.to_owned();
    let python = first.strip_prefix("#!").filter(|program| program.contains("python"))?;
    Some(python.split_whitespace().map(str::to_owned).collect())
}

/// Whether the Python that runs `xpra` has gi's cairo module and PIL. Debian's package does not
/// depend on them; without the first the client's window stays black, without the second no client
/// is accepted. True if xpra is not a Python script.
fn can_draw(xpra: &Path) -> bool {
    let Some(words) = python_of(xpra) else { return true };
    let Some((program, words)) = words.split_first() else { return true };
    let mut test = Command::new(program);
    test.args(words)
        .args(["-c", "import gi._gi_cairo, PIL"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    test.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_are_left_out_of_the_settings() {
        let text = "# start = this\nstart-env = A=b\nstart = /etc/X11/Xsession \
            true\nstart-new-commands = yes\n";
        assert_eq!(
            without_commands(text),
            "# start = this\nstart-env = A=b\nstart-new-commands = yes\n"
        );
    }
}
