//! Finds the X server's binary, the driver, and the programs of a session. From the environment and
//! the file system, to supervisor.rs. Knows lists of paths; an error names all of them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Never /usr/bin/Xorg: with xserver-xorg-legacy that is a wrapper which becomes root, and which
/// admits only users at the console.
/// viewer-native's install/bootstrap.sh has the same list. The last is Arch's.
const XORG_PLACES: [&str; 4] =
    ["/usr/lib/xorg/Xorg", "/usr/libexec/Xorg", "/usr/lib64/xorg/Xorg", "/usr/lib/Xorg"];
const MODULE_PLACES: [&str; 4] = [
    "/usr/lib/xorg/modules",
    "/usr/lib64/xorg/modules",
    "/usr/libexec/xorg/modules",
    "/usr/local/lib/xorg/modules",
];
const DRIVER: &str = "thinc_drv.so";
const VIRTUALGL_PLUGIN: &str = "libvgltrans_thinc.so";
/// Names the transport that VirtualGL loads.
const VIRTUALGL_TRANSPORT: &str = "VGL_TRANSPORT";

/// What is missing, and where it was searched.
#[derive(Debug, Error)]
pub(crate) enum SearchError {
    /// No X server.
    #[error(
        "there is no X server: searched for {}. Install it (Debian: xserver-xorg-core), or set \
            THINC_XORG to its path",
        .0.join(", ")
    )]
    Xorg(Vec<String>),
    /// `THINC_XORG` names something else.
    #[error("THINC_XORG is {}, which is not an executable file", .0.display())]
    XorgNamed(PathBuf),
    /// No driver.
    #[error(
        "there is no {DRIVER}: searched in {}. Build it (./dev build), or set THINC_DRIVER_DIR \
            to its folder",
        .0.join(", ")
    )]
    Driver(Vec<String>),
    /// No such command.
    #[error("there is no command {0}: it is not in PATH")]
    Command(String),
    /// No such desktop.
    #[error("no desktop called {wanted} is installed; {}", list(.installed, .folders))]
    Desktop {
        /// As it was given.
        wanted: String,
        /// IDs of those there are.
        installed: Vec<String>,
        /// Where they are listed.
        folders: Vec<String>,
    },
    /// A command line that a person typed.
    #[error("{0} has a quote that is not closed: write a second one, or none")]
    Quote(String),
    /// A command line without a program.
    #[error("no program is named: type its name, and its arguments after it")]
    NoProgram,
    /// No default program.
    #[error(
        "no desktop is installed, nor openbox or xterm: name a program (thinc serve -- PROGRAM)"
    )]
    NothingToRun,
}

fn list(installed: &[String], folders: &[String]) -> String {
    match installed {
        [] => format!("none is listed in {}", folders.join(", ")),
        ids => format!("these are: {}", ids.join(", ")),
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The X server's own binary.
pub(crate) fn xorg() -> Result<PathBuf, SearchError> {
    if let Some(named) = env::var_os("THINC_XORG").map(PathBuf::from) {
        return if is_program(&named) { Ok(named) } else { Err(SearchError::XorgNamed(named)) };
    }
    let found = XORG_PLACES.iter().map(PathBuf::from).find(|path| is_program(path));
    found.ok_or_else(|| SearchError::Xorg(XORG_PLACES.map(str::to_owned).to_vec()))
}

/// The value of Xorg's -modulepath: the driver's folder first, then the distribution's.
pub(crate) fn module_path() -> Result<OsString, SearchError> {
    let mut places = Vec::new();
    if let Some(named) = env::var_os("THINC_DRIVER_DIR") {
        places.push(PathBuf::from(named));
    } else if let Some(folder) =
        env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned))
    {
        places.push(folder.join("../lib/thinc"));
        // Where thinc-view has copied both (~/.local/share/thinc/VERSION).
        places.push(folder.clone());
        // target/release/thinc (or target/release/deps/… for tests) in the source tree.
        places.extend(["../../driver/build", "../../../driver/build"].map(|up| folder.join(up)));
    }
    let found = places
        .iter()
        .find(|place| place.join(DRIVER).is_file())
        .and_then(|place| place.canonicalize().ok());
    let driver = found.ok_or_else(|| {
        SearchError::Driver(places.iter().map(|p| p.display().to_string()).collect())
    })?;
    let mut path = driver.into_os_string();
    for place in MODULE_PLACES.iter().filter(|place| Path::new(place).is_dir()) {
        path.push(",");
        path.push(place);
    }
    Ok(path)
}

/// A variable that makes VirtualGL use thinc's transport, where that is installed and nobody has
/// chosen another one.
pub(crate) fn virtualgl_transport() -> Option<(&'static str, &'static str)> {
    let is_chosen = env::var_os(VIRTUALGL_TRANSPORT).is_some();
    (!is_chosen && has_virtualgl_plugin()).then_some((VIRTUALGL_TRANSPORT, "thinc"))
}

/// Programs that `vglrun` starts in a session find thinc's transport plugin: the dynamic linker
/// does, which VirtualGL asks for it by its name.
fn has_virtualgl_plugin() -> bool {
    let named = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = env::split_paths(&named).filter(|folder| !folder.as_os_str().is_empty());
    let system = [format!("/usr/lib/{}-linux-gnu", env::consts::ARCH)]
        .into_iter()
        .chain(["/usr/lib64", "/usr/lib", "/lib64", "/lib"].map(str::to_owned))
        .map(PathBuf::from);
    let is_cached = || std::fs::read("/etc/ld.so.cache").is_ok_and(|cache| names_plugin(&cache));
    folders.chain(system).any(|folder| folder.join(VIRTUALGL_PLUGIN).is_file()) || is_cached()
}

/// The linker's cache, whatever the rest of its format, has the names of its libraries.
fn names_plugin(cache: &[u8]) -> bool {
    let name = [VIRTUALGL_PLUGIN.as_bytes(), b"\0"].concat();
    cache.windows(name.len()).any(|bytes| bytes == name)
}

/// The program of this name in PATH, or at this path.
pub(crate) fn program(name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

/// This program for a new session: the file that an upgrade has put in its place, where there is
/// one, so that a process from before the upgrade starts what is installed now.
pub(crate) fn installed_program() -> PathBuf {
    installed(env::current_exe().unwrap_or_default())
}

fn installed(running: PathBuf) -> PathBuf {
    /// What the kernel appends to the path of a program whose file was replaced or removed.
    const REPLACED: &[u8] = b" (deleted)";
    let now = running.as_os_str().as_bytes().strip_suffix(REPLACED).map(OsStr::from_bytes);
    let path = now.map_or(running.clone(), PathBuf::from);
    if path.is_file() { path } else { "/proc/self/exe".into() }
}

/// What a user types to start the native viewer: its name if it is in PATH, else its path next to
/// this program.
pub(crate) fn viewer_command() -> PathBuf {
    const VIEWER: &str = "thinc-view";
    let next_to_us = || {
        env::current_exe()
            .ok()
            .map(|exe| exe.with_file_name(VIEWER))
            .filter(|path| is_program(path))
    };
    let Some(path) = program(VIEWER.as_ref()).is_none().then(next_to_us).flatten() else {
        return VIEWER.into();
    };
    // In the root of the source tree target/release/thinc-view is enough to type.
    let from_here =
        env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    from_here.filter(|path| path.components().count() > 1).unwrap_or(path)
}

/// COMMAND, which is not empty, with the path of its program.
pub(crate) fn command(given: &[OsString]) -> Result<Vec<OsString>, SearchError> {
    let found = program(&given[0])
        .ok_or_else(|| SearchError::Command(given[0].to_string_lossy().into_owned()))?;
    Ok([found.into_os_string()].into_iter().chain(given[1..].iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_starts_the_one_that_is_in_its_place() {
        assert_eq!(installed("/bin/sh".into()), Path::new("/bin/sh"));
        assert_eq!(installed("/bin/sh (deleted)".into()), Path::new("/bin/sh"));
        assert_eq!(installed("/bin/no-such (deleted)".into()), Path::new("/proc/self/exe"));
    }

    #[test]
    fn the_linkers_cache_names_the_plugin_or_not() {
        assert!(names_plugin(b"libz.so.1\0libvgltrans_thinc.so\0/usr/local/lib/x\0"));
        assert!(!names_plugin(b"libz.so.1\0libvgltrans_thinc.so.old\0"));
        assert!(!names_plugin(b""));
    }

    #[test]
    fn a_command_is_found_or_named_in_the_error() {
        assert_eq!(command(&["sh".into(), "-c".into()]).unwrap()[1], "-c");
        assert!(command(&["sh".into()]).unwrap()[0].to_string_lossy().ends_with("/sh"));
        let error = command(&["no-such-program-here".into()]).unwrap_err().to_string();
        assert_eq!(error, "there is no command no-such-program-here: it is not in PATH");
        assert!(
            matches!(command(&["/etc/passwd".into()]), Err(SearchError::Command(_))),
            "not a program"
        );
    }
}
