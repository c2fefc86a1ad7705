//! The common parts of all adapters: find programs and their versions, start them with a home
//! folder of their own and a log, and wait until the client's screen shows the desktop. Knows
//! processes, packages and pixels; never which system they belong to.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::Connection;
use x11rb::protocol::damage::{ConnectionExt as _, ReportLevel};
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat};

use crate::Error;
use crate::display::DisplayNumber;
use crate::observe::account::Group;
use crate::peers::Desk;
use crate::process::Running;
use crate::results::PeerRecord;
use crate::stage::Site;

/// 20 s: an X server with its fonts and keymap takes a tenth of it on a loaded machine.
const X_START_MAX: Duration = Duration::from_secs(20);
/// Interval of checks that the programs still run during another wait.
const ALIVE_CHECK: Duration = Duration::from_millis(100);
/// The initial colour of the desktop, the same on every peer: no program uses it.
const DESKTOP: [u8; 3] = [0x30, 0x50, 0x70];
/// Largest difference of a channel from that colour: lossy encodings and 16-bit colour stay within
/// it.
const COLOUR_SLACK: u8 = 16;
/// Last lines of a log that an error contains.
const TAIL_LINES: usize = 15;

/// A program that a peer needs, and its package.
pub(super) struct Needed {
    /// Name in PATH, or a whole path.
    pub(super) program: &'static str,
    /// The package to install if it is missing.
    pub(super) install: &'static str,
}

/// The program of this name in PATH and in the folders of system programs, or the file at this
/// path: some peers also need a driver or a configuration that is no program.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.starts_with('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // An ordinary user's PATH lacks the folders of daemons.
    let more = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(program)).find(runs)
}

/// A package as the system's package manager knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    /// Its name.
    pub(super) name: String,
    /// Its whole version.
    pub(super) version: String,
    /// Year in which this upstream version was first packaged.
    pub(super) year: Option<u16>,
}

/// The package of a program, on systems with dpkg or rpm.
pub(super) fn package_of(program: &Path) -> Option<Package> {
    debian_package(program).or_else(|| rpm_package(program))
}

fn debian_package(program: &Path) -> Option<Package> {
    let real = program.canonicalize().ok();
    // Packages made before /bin moved into /usr name the file without it.
    let short = program.strip_prefix("/usr").ok().map(|rest| Path::new("/").join(rest));
    let name = [Some(program.to_owned()), real, short].into_iter().flatten().find_map(|path| {
        let answer = output_of(Command::new("dpkg-query").arg("-S").arg(path))?;
        let line = answer.lines().find(|line| !line.starts_with("diversion"))?;
        Some(line.split([':', ',']).next()?.to_owned())
    })?;
    let version = output_of(Command::new("dpkg-query").args(["-W", "-f", "${Version}", &name]))?;
    let year = ["changelog.Debian.gz", "changelog.gz"].iter().find_map(|file| {
        let text = output_of(
            Command::new("zcat").arg(Path::new("/usr/share/doc").join(&name).join(file)),
        )?;
        year_of_changelog(&text, &version)
    });
    Some(Package { name, version, year })
}

fn rpm_package(program: &Path) -> Option<Package> {
    let answer = output_of(
        Command::new("rpm")
            .args(["-q", "-f", "--qf", "%{NAME} %{VERSION}-%{RELEASE} %{BUILDTIME:date}\n"])
            .arg(program),
    )?;
    let mut words = answer.lines().next()?.split_whitespace();
    let (name, version) = (words.next()?.to_owned(), words.next()?.to_owned());
    let year = words.filter_map(|word| word.parse().ok()).find(|year| (1990..2100).contains(year));
    Some(Package { name, version, year })
}

/// The year of the first package of a version: that of the oldest entry with the same upstream
/// version, because later entries only revise it. Entries begin `name (1:2.3-4) where; …` and end `
/// -- Name <mail> Fri, 06 Jan 2023 17:01:22 +0100`.
fn year_of_changelog(text: &str, version: &str) -> Option<u16> {
    let upstream = |version: &str| {
        let version = version.split_once(':').map_or(version, |(_epoch, rest)| rest);
        version.rsplit_once('-').map_or(version, |(upstream, _revision)| upstream).to_owned()
    };
    let wanted = upstream(version);
    let (mut same, mut year) = (false, None);
    for line in text.lines() {
        if let Some(date) =
            line.strip_prefix(" -- ").filter(|_| same).and_then(|line| line.rsplit("  ").next())
        {
            year = date.split_whitespace().nth(3).and_then(|year| year.parse().ok()).or(year);
        } else if !line.starts_with(' ')
            && let Some((_, rest)) = line.split_once(" (")
            && let Some((entry, _)) = rest.split_once(')')
        {
            same = upstream(entry) == wanted;
        }
    }
    year
}

/// The standard output of a program that succeeded; None otherwise.
pub(super) fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The record of a peer whose programs come in packages. The year is that of the first program's
/// package.
pub(super) fn record(title: &str, needed: &[Needed], settings: &str) -> PeerRecord {
    let mut record = PeerRecord {
        title: title.to_owned(),
        version: String::new(),
        year: None,
        settings: settings.to_owned(),
        missing: None,
    };
    let mut versions: Vec<String> = Vec::new();
    let mut absent: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (index, Needed { program, install }) in needed.iter().enumerate() {
        let Some(path) = find(program) else {
            absent.entry(install).or_default().push(program);
            continue;
        };
        let version = match package_of(&path) {
            Some(package) => {
                if index == 0 {
                    record.year = package.year;
                }
                format!("{} {}", package.name, package.version)
            }
            None => format!("{program} of unknown version"),
        };
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    if absent.is_empty() {
        record.version = versions.join(", ");
    } else {
        let words = |(install, programs): (&str, Vec<&str>)| {
            format!("no {}: install {install}", programs.join(", "))
        };
        record.missing = Some(absent.into_iter().map(words).collect::<Vec<_>>().join("; "));
    }
    record
}

/// The runtime folder (XDG_RUNTIME_DIR) of this side's programs, in their home folder.
pub(crate) fn runtime_folder(site: &Path, group: Group) -> PathBuf {
    let home = match group {
        Group::Server | Group::Apps => "server-home",
        Group::Client => "client-home",
    };
    site.join(home).join("run")
}

/// A command of this site with a home folder of its own: it neither reads nor changes the user's
/// settings, and server and client share nothing. The caller sets its display.
pub(super) fn command(
    site: &Site,
    group: Group,
    program: impl AsRef<std::ffi::OsStr>,
) -> Result<Command, Error> {
    let runtime = runtime_folder(site.folder.path(), group);
    let home = runtime.parent().ok_or("a runtime folder lies in a home folder")?.to_owned();
    fs::create_dir_all(&runtime)?;
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700))?;
    let mut command = site.command(group, program);
    command
        .current_dir(&home)
        .env("HOME", &home)
        .env("XDG_RUNTIME_DIR", &runtime)
        // thinc's processes let their memory be read, and with it measured.
        .env("THINC_CORE_DUMPS", "1")
        .env("LANG", "C.UTF-8");
    for name in [
        "DISPLAY",
        "XAUTHORITY",
        "WAYLAND_DISPLAY",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_SESSION_TYPE",
        "DBUS_SESSION_BUS_ADDRESS",
        "LC_ALL",
        // Sound is found in the runtime folder, or not at all.
        "PULSE_SERVER",
        "PULSE_RUNTIME_PATH",
        "PULSE_COOKIE",
        "PIPEWIRE_REMOTE",
        "ALSA_CONFIG_PATH",
        "SDL_AUDIODRIVER",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    Ok(command)
}

/// Starts a program whose output goes to `NAME.log` in the site's folder.
pub(super) fn start(
    site: &Site,
    name: &'static str,
    command: &mut Command,
) -> Result<Running, Error> {
    let log = log_file(site, name)?;
    command.stdout(log.try_clone()?).stderr(log);
    Running::start(name, command)
}

pub(super) fn log_file(site: &Site, name: &str) -> Result<fs::File, Error> {
    Ok(fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(site.folder.path().join(format!("{name}.log")))?)
}

/// Starts an X server that knows `-displayfd`, on `display`, and waits until it takes connections.
/// The command holds every other option.
pub(super) fn start_x_server(
    site: &Site,
    name: &'static str,
    display: &DisplayNumber,
    mut command: Command,
) -> Result<Running, Error> {
    let (reader, writer) = std::io::pipe()?;
    command
        .arg(display.name())
        .args(["-displayfd", "1"])
        .stdout(writer)
        .stderr(log_file(site, name)?);
    let running = Running::start(name, &mut command)?;
    // Drops our copy of the writing end, so that the pipe closes when the server ends.
    drop(command);
    let late =
        || failure(site, &format!("{name} took no connections within {} s", X_START_MAX.as_secs()));
    let limit = Timespec { tv_sec: X_START_MAX.as_secs() as i64, tv_nsec: 0 };
    if poll(&mut [PollFd::new(&reader, PollFlags::IN)], Some(&limit))? == 0 {
        return Err(late());
    }
    let mut line = String::new();
    BufReader::new(reader.take(16)).read_line(&mut line)?;
    if line.trim().is_empty() {
        return Err(failure(site, &format!("{name} ended before it took connections")));
    }
    Ok(running)
}

/// Writes a program of `/bin/sh` that everybody may run.
pub(super) fn write_script(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// An error with the last lines of the logs of this site's programs.
pub(crate) fn failure(site: &Site, words: &str) -> Error {
    let mut text = words.to_owned();
    let mut logs: Vec<PathBuf> = fs::read_dir(site.folder.path())
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    for path in logs {
        let bytes = fs::read(&path).unwrap_or_default();
        let lines = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = lines.lines().filter(|line| !line.trim().is_empty()).collect();
        if !lines.is_empty() {
            let end = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n  ");
            text += &format!(
                "\nend of {}:\n  {end}",
                path.file_name().unwrap_or_default().to_string_lossy()
            );
        }
    }
    text.into()
}

/// Paints the desktop in one colour and waits until the client's screen shows it. An error when one
/// of the desk's programs ends meanwhile, or after `limit`, with the ends of the logs.
pub(super) fn wait_until_shown(site: &Site, desk: &mut Desk, limit: Duration) -> Result<(), Error> {
    let [red, green, blue] = DESKTOP;
    let mut paint = command(site, Group::Apps, "xsetroot")?;
    paint
        .args(["-solid", &format!("#{red:02x}{green:02x}{blue:02x}")])
        .env("DISPLAY", &desk.display);
    paint.envs(desk.env.iter().map(|(name, value)| (name, value)));
    if let Some(file) = &desk.xauthority {
        paint.env("XAUTHORITY", file);
    }
    paint.stdout(Stdio::null()).stderr(log_file(site, "xsetroot")?);
    let painted = paint
        .status()
        .map_err(|e| format!("cannot start xsetroot (package x11-xserver-utils): {e}"))?;
    if !painted.success() {
        return Err(failure(
            site,
            &format!("xsetroot cannot paint display {}: {painted}", desk.display),
        ));
    }

    let connection = site.screen.connect()?;
    let root = connection.setup().roots.first().ok_or("the client's X server has no screen")?.root;
    connection.damage_query_version(1, 1)?.reply()?;
    let damage = connection.generate_id()?;
    connection.damage_create(damage, root, ReportLevel::NON_EMPTY)?.check()?;
    let begin = Instant::now();
    loop {
        while connection.poll_for_event()?.is_some() {}
        connection.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?.check()?;
        if shows_desktop(&connection, root, site.size)? && has_size(desk, site.size)? {
            return Ok(());
        }
        for running in &mut desk.held {
            running.check().map_err(|error| failure(site, &error.to_string()))?;
        }
        if begin.elapsed() > limit {
            let (width, height) = site.size;
            let seconds = limit.as_secs();
            let words = format!(
                "the client's screen does not show a desktop of {width}x{height} after {seconds} s"
            );
            return Err(failure(site, &words));
        }
        connection.flush()?;
        let slice = Timespec { tv_sec: 0, tv_nsec: i64::from(ALIVE_CHECK.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(connection.stream(), PollFlags::IN)], Some(&slice));
    }
}

/// Whether the session has this size, which the viewer may have requested.
fn has_size(desk: &Desk, size: (u32, u32)) -> Result<bool, Error> {
    if !desk.display.starts_with(':') {
        return Ok(true);
    }
    let session = crate::observe::connect(&desk.display, desk.xauthority.as_deref())?;
    let root = session.setup().roots.first().ok_or("the session's X server has no screen")?;
    Ok((u32::from(root.width_in_pixels), u32::from(root.height_in_pixels)) == size)
}

/// Whether the desktop's colour fills the client's screen: at 5 by 5 points inside of the edges.
fn shows_desktop(
    connection: &impl Connection,
    root: u32,
    (width, height): (u32, u32),
) -> Result<bool, Error> {
    for row in 0..5 {
        for column in 0..5 {
            let at = |index: u32, length: u32| i16::try_from((length * (2 * index + 1)) / 10);
            let (x, y) = (at(column, width)?, at(row, height)?);
            let image =
                connection.get_image(ImageFormat::Z_PIXMAP, root, x, y, 1, 1, !0)?.reply()?;
            let &[blue, green, red, ..] = image.data.as_slice() else {
                return Err("the client's screen has no 32-bit pixels".into());
            };
            if [red, green, blue]
                .iter()
                .zip(DESKTOP)
                .any(|(&seen, want)| seen.abs_diff(want) > COLOUR_SLACK)
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changelog_has_the_year_of_a_version() {
        let entry = |version: &str, year: u16| {
            format!(
                "xrdp ({version}) stable; urgency=high\n\n  * Words  with -- dashes (9.9-9).\n\n \
                    -- A B <a@b.c>  Fri, 06 Jan {year} 17:01:22 +0100\n\n"
            )
        };
        let text =
            entry("1:0.9-1+deb12u3", 2026) + &entry("1:0.9-1", 2023) + &entry("1:0.8-2", 2021);
        assert_eq!(
            year_of_changelog(&text, "1:0.9-1+deb12u3"),
            Some(2023),
            "security updates make no new version"
        );
        assert_eq!(year_of_changelog(&text, "1:0.8-2"), Some(2021));
        assert_eq!(year_of_changelog(&text, "1:0.7-1"), None);
        assert_eq!(year_of_changelog("no entry", "1"), None);
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_install() {
        let needed = [
            Needed { program: "sh", install: "dash" },
            Needed { program: "no-such-program", install: "nothing" },
        ];
        let found = record("Example", &needed, "defaults");
        assert_eq!(found.missing.as_deref(), Some("no no-such-program: install nothing"));
        assert_eq!(found.version, "");
        assert_eq!(record("Example", &needed[..1], "defaults").missing, None);
        assert_ne!(record("Example", &needed[..1], "defaults").version, "");
    }
}
