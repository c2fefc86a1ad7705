//! thinc as a server where people log in: `thinc broker` with accounts of its own in a mount
//! namespace, and viewers that log in on a terminal, as a person does. Knows options of both
//! programs and what they ask; never their protocol.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::accounts::Accounts;
use super::{PRIVATE, listening, programs};
use crate::Error;
use crate::net::testbed::Side;
use crate::observe::account::Group;
use crate::process::{Headless, Running, binary};
use crate::stage::Site;

const PORT: u16 = 8443;
/// The rules for PAM, as broker.sh names them.
const PAM_SERVICE: &str = "thinc-bench";
/// Until the viewer has asked for everything; a crowded machine takes its time.
const QUESTIONS_MAX: Duration = Duration::from_secs(60);

/// Starts the broker; returns once it listens. Whose desktop starts runs the shell script
/// `session`.
pub(crate) fn start_server(
    site: &Site,
    session: &str,
    accounts: &Accounts,
) -> Result<Running, Error> {
    start_configured(site, session, accounts, "")
}

/// The same with these lines in the broker's configuration.
pub(crate) fn start_configured(
    site: &Site,
    session: &str,
    accounts: &Accounts,
    config: &str,
) -> Result<Running, Error> {
    let folder = site.folder.path().join("broker");
    write_files(&folder, session, accounts)?;
    fs::write(folder.join("broker.toml"), config)?;
    let mut server = programs::command(site, Group::Server, "unshare")?;
    server.args(["--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "--", "/bin/sh"]);
    server.arg(folder.join("broker.sh")).arg(site.folder.path()).arg(address(site).to_string());
    let mut server = programs::start(site, "broker", &mut server)?;
    listening::wait(site, "thinc broker", &mut server, PORT)?;
    Ok(server)
}

fn address(site: &Site) -> SocketAddr {
    SocketAddr::from((site.bed.address(Side::Server), PORT))
}

fn write_files(folder: &Path, session: &str, accounts: &Accounts) -> Result<(), Error> {
    let made = ["bin", "run", "state", "pam.d"].map(|name| folder.join(name));
    for made in &made {
        fs::create_dir_all(made)
            .map_err(|error| format!("cannot make {}: {error}", made.display()))?;
    }
    let [bin, _, state, rules] = made;
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700))?;
    // Other users cannot look into the folder of a build.
    let driver = driver()?;
    let mut copy = Command::new("cp");
    copy.arg(binary("thinc")?).arg(binary("thinc-bench")?).arg(driver).arg(&bin);
    let copied = copy.output()?;
    if !copied.status.success() {
        let words = String::from_utf8_lossy(&copied.stderr).trim().to_owned();
        return Err(format!("cannot copy thinc for other users: {words}").into());
    }
    programs::write_script(&folder.join("private.sh"), PRIVATE)?;
    programs::write_script(&folder.join("broker.sh"), include_str!("broker.sh"))?;
    programs::write_script(&bin.join("x-session-manager"), session)?;
    accounts.write(folder)?;
    let variables = folder.join("environment");
    // Memory and processes of the desktops are read from outside.
    fs::write(&variables, format!("PATH={}:/usr/bin:/bin\nTHINC_CORE_DUMPS=1\n", bin.display()))?;
    let session = format!("session required pam_env.so envfile={}\n", variables.display());
    fs::write(rules.join(PAM_SERVICE), accounts.pam() + &session)?;
    Ok(())
}

/// The driver as `thinc` looks for it: in its folder, or in the tree where it was built.
fn driver() -> Result<PathBuf, Error> {
    let name = "thinc_drv.so";
    let program = binary("thinc")?;
    let beside = program.parent().map(Path::to_owned).unwrap_or_default();
    let named = std::env::var_os("THINC_DRIVER_DIR").map(PathBuf::from);
    let folders = [named, Some(beside.clone()), Some(beside.join("../../driver/build"))];
    let found = folders.into_iter().flatten().map(|folder| folder.join(name));
    let found = found.into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        format!("no {name}: build it (./dev build driver), or name its folder in THINC_DRIVER_DIR")
            .into()
    })
}

/// Starts the viewer in a window over the whole screen, which logs in. Returns once its questions
/// are answered.
pub(crate) fn view(site: &Site, user: &str, password: &str) -> Result<Running, Error> {
    let mut viewer = viewer(site, user)?;
    viewer.env("DISPLAY", site.screen.display()).env("SDL_VIDEODRIVER", "x11");
    viewer.args(["--fullscreen", "--timeout", "60"]).stdout(Stdio::null());
    log_in(&mut viewer, programs::log_file(site, "thinc-view")?, user, password)
}

/// Starts a viewer without a window, which logs in, and is driven by a pipe: its terminal is for
/// the questions.
pub(crate) fn view_headless(
    site: &Site,
    user: &str,
    password: &str,
    options: &[&str],
) -> Result<Headless, Error> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let script = format!("script-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let script = site.folder.path().join(script);
    mkfifoat(CWD, &script, Mode::RUSR | Mode::WUSR)?;
    let mut viewer = viewer(site, user)?;
    viewer.args(["--headless", "--timeout", "60"]).args(options).arg("--script").arg(&script);
    let log = programs::log_file(site, "thinc-view")?;
    let mut running = log_in(viewer.stdout(Stdio::piped()), log, user, password)?;
    let answers = running.take_stdout().ok_or("thinc-view has no output")?;
    // Not before the viewer reads it: opening waits for that.
    let commands = fs::OpenOptions::new().write(true).open(&script)?;
    Ok(Headless::driven(running, commands, answers))
}

/// `setsid` gives the viewer a terminal of its own, on which it asks.
fn viewer(site: &Site, user: &str) -> Result<Command, Error> {
    let mut viewer = programs::command(site, Group::Client, "setsid")?;
    viewer.args(["--ctty", "--wait"]).arg(binary("thinc-view")?);
    // Each person's remembered keys are their own.
    viewer.arg("--pin-store").arg(site.folder.path().join(format!("known-hosts-{user}")));
    // Nor is the device remembered: each login is to ask.
    viewer.arg("--remember=no").arg(format!("https://{}/", address(site)));
    Ok(viewer)
}

/// What the viewer asks, and the answer. The key is asked about on the first contact only.
fn answers<'a>(user: &'a str, password: &'a str) -> [(&'static str, &'a str); 3] {
    [("Is it the same?", "yes"), ("User name", user), ("assword", password)]
}

/// Writes what appears on the terminal into `log` until the returned file is dropped; then the
/// terminal hangs up, and with it the viewer.
fn keep_log(terminal: fs::File, log: fs::File) -> Result<fs::File, Error> {
    let (ends, until) = std::io::pipe()?;
    let (mut terminal, mut log) = (terminal, log);
    std::thread::spawn(move || {
        let mut bytes = [0; 1024];
        loop {
            let mut ready =
                [PollFd::new(&terminal, PollFlags::IN), PollFd::new(&ends, PollFlags::IN)];
            if poll(&mut ready, None).is_err() || !ready[1].revents().is_empty() {
                return;
            }
            // An error: the viewer has ended.
            let Ok(count) = terminal.read(&mut bytes) else { return };
            if log.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
    });
    Ok(OwnedFd::from(until).into())
}

fn log_in(
    viewer: &mut Command,
    mut log: fs::File,
    user: &str,
    password: &str,
) -> Result<Running, Error> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let theirs = ptsname(&terminal, Vec::new())?.into_string()?;
    let theirs = fs::OpenOptions::new().read(true).write(true).open(theirs)?;
    viewer.stdin(theirs.try_clone()?).stderr(theirs);
    let mut running = Running::start("thinc-view", viewer)?;
    let mut terminal = fs::File::from(terminal);
    let mut text = String::new();
    let begun = Instant::now();
    loop {
        let slice = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if poll(&mut [PollFd::new(&terminal, PollFlags::IN)], Some(&slice))? > 0 {
            let mut bytes = [0; 1024];
            let count = terminal.read(&mut bytes)?;
            text += &String::from_utf8_lossy(&bytes[..count]);
            log.write_all(&bytes[..count])?;
        }
        for (index, (question, answer)) in answers(user, password).into_iter().enumerate() {
            let Some((_, rest)) = text.split_once(question) else { continue };
            // With the answer's echo, no question is found twice.
            text = rest.to_owned();
            terminal.write_all(format!("{answer}\n").as_bytes())?;
            if index + 1 == answers(user, password).len() {
                let until = keep_log(terminal, log)?;
                return Ok(running.holding(until));
            }
        }
        let ended = running.check().err().map(|error| error.to_string());
        let late = (begun.elapsed() > QUESTIONS_MAX).then(|| "it did not ask".to_owned());
        if let Some(why) = ended.or(late) {
            return Err(format!("logging in with thinc-view: {why}\n{text}").into());
        }
    }
}
