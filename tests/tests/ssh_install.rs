//! A host behind a real sshd that has no thinc, or another version: `thinc-view` copies its own
//! there, uses it again, and removes it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use thinc_bench::Error;
use thinc_bench::process::{Headless, binary, wait_for};
use thinc_e2e::sshd::Sshd;
use thinc_e2e::{EVENT_TIMEOUT, Image};

type Outcome = Result<(), Error>;

/// What the script on the host and a session need.
const PROGRAMS: [&str; 21] = [
    "sh",
    "uname",
    "getconf",
    "ldd",
    "head",
    "dirname",
    "df",
    "sed",
    "find",
    "mkdir",
    "rm",
    "rmdir",
    "mv",
    "wc",
    "sha256sum",
    "chmod",
    "tr",
    "sleep",
    "xterm",
    "xkbcomp",
    "setxkbmap",
];

/// A host whose account has a home and programs of its own, and no thinc.
struct Host {
    sshd: Sshd,
}

impl Host {
    fn start(name: &str, prelude: &str) -> Result<Host, Error> {
        // Nothing of the tests' environment tells a session where the driver is.
        let prelude = format!(
            "here=${{XDG_RUNTIME_DIR%/run}}; export HOME=$here/home PATH=$here/bin; \
             unset THINC_DRIVER_DIR XDG_DATA_HOME; {prelude}"
        );
        let sshd = Sshd::start(name, prelude.trim_end_matches([';', ' ']))?;
        let at = sshd.folder();
        for part in ["home", "bin", "files"] {
            fs::create_dir(at.join(part))?;
        }
        for name in PROGRAMS {
            let mut found = ["/usr/bin", "/bin"].map(|at| Path::new(at).join(name)).into_iter();
            if let Some(found) = found.find(|path| path.exists()) {
                symlink(found, at.join("bin").join(name))?;
            }
        }
        // What the viewer's machine has: both files in one folder.
        let thinc = binary("thinc")?;
        let driver = match std::env::var_os("THINC_DRIVER_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => thinc.with_file_name("../../driver/build"),
        };
        let driver = driver.join("thinc_drv.so");
        let driver = driver.canonicalize().map_err(|e| format!("{}: {e}", driver.display()))?;
        symlink(driver, at.join("files/thinc_drv.so"))?;
        symlink(&thinc, at.join("files/thinc"))?;
        Ok(Host { sshd })
    }

    fn path(&self, part: &str) -> PathBuf {
        self.sshd.folder().join(part)
    }

    /// Where copies of all versions are.
    fn base(&self) -> PathBuf {
        self.path("home/.local/share/thinc")
    }

    /// The folders there, and the files in them.
    fn copies(&self) -> Vec<String> {
        let mut found = Vec::new();
        for folder in fs::read_dir(self.base()).into_iter().flatten().flatten() {
            found.push(folder.file_name().to_string_lossy().into_owned());
            for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                found.push(file.file_name().to_string_lossy().into_owned());
            }
        }
        found.sort();
        found
    }

    /// The copied program.
    fn thinc(&self) -> Result<PathBuf, Error> {
        let version = Command::new(binary("thinc")?).arg("--version").output()?.stdout;
        let version = String::from_utf8(version)?;
        let version = version.trim().strip_prefix("thinc ").ok_or("thinc says its version")?;
        Ok(self.base().join(version).join("thinc"))
    }

    fn options(&self, install: &str) -> Vec<String> {
        let from = self.path("files").display().to_string();
        let mut options: Vec<String> = self.sshd.program().into();
        options.extend(["--install", install, "--install-from", &from].map(str::to_owned));
        options.extend(self.sshd.viewer_options.iter().cloned());
        options
    }

    fn viewer(&self, install: &str, place: &str, command: &[&str]) -> Result<Headless, Error> {
        let options = self.options(install);
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        if !command.is_empty() {
            options.push("--");
            options.extend(command);
        }
        Headless::start_with(&format!("ssh://there{place}"), &options)
    }

    /// Runs `thinc-view` until it ends.
    fn view(&self, install: &str, more: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new(binary("thinc-view")?);
        command.arg("ssh://there").args(self.options(install)).args(more);
        Ok(command.stdin(Stdio::null()).output()?)
    }

    /// Runs it where it must fail; returns its only line.
    fn refused(&self, install: &str) -> Result<String, Error> {
        let output = self.view(install, &["--headless", "--", "xterm"])?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{words}");
        let lines: Vec<&str> =
            words.lines().filter(|line| !line.starts_with("thinc-view: copying")).collect();
        assert_eq!(lines.len(), 1, "{words}");
        Ok(lines[0].to_owned())
    }
}

/// The program that a session's supervisor runs.
fn program(session: &serde_json::Value) -> Result<PathBuf, Error> {
    let pid = session["pids"]["supervisor"].as_u64().ok_or("a session has a supervisor")?;
    Ok(fs::read_link(format!("/proc/{pid}/exe"))?)
}

#[test]
fn a_host_without_thinc_is_given_one_once_and_rid_of_it() -> Outcome {
    let host = Host::start("install", "")?;
    for install in ["never", "ask"] {
        let words = host.refused(install)?;
        assert!(words.contains("thinc is not installed on there: install the package"), "{words}");
        assert!(words.contains("--install always") && words.contains(".local/share"), "{words}");
    }
    assert!(host.copies().is_empty(), "nobody was asked");

    let mut viewer = host.viewer("always", "", &["xterm"])?;
    viewer.say("wait-quiet")?;
    assert_eq!(viewer.say("size")?, "1280x800");
    let file = host.path("view.png");
    wait_for("a terminal is shown", EVENT_TIMEOUT, || {
        viewer.say(&format!("screenshot {}", file.display())).ok()?;
        (Image::read_png(&file).ok()?.colors() >= 2).then_some(())
    })?;
    assert_eq!(host.sshd.connections(), 3, "one login each");
    let session = host.sshd.sessions()?[0].clone();
    let thinc = host.thinc()?;
    assert_eq!(program(&session)?, thinc);
    let version = thinc.parent().and_then(Path::file_name).ok_or("a folder")?.to_string_lossy();
    assert_eq!(host.copies(), [&version, "thinc", "thinc_drv.so"]);
    let file =
        |path: &Path| Ok::<_, Error>((path.metadata()?.ino(), path.metadata()?.mtime_nsec()));
    let before = file(&thinc)?;

    // The second viewer copies nothing, whatever it is told.
    for install in ["always", "never"] {
        let mut second = host.viewer(install, "/xterm", &[])?;
        viewer.say("wait-quiet")?;
        second.say("wait-quiet")?;
        assert_eq!(second.say("hash")?, viewer.say("hash")?);
        second.finish()?;
    }
    assert_eq!(file(&thinc)?, before);

    let folder = thinc.parent().ok_or("a folder")?;
    let output = host.view("ask", &["--uninstall"])?;
    let words = String::from_utf8(output.stdout)?;
    assert_eq!(words, format!("removed {} on there\n", folder.display()));
    assert!(output.status.success() && !host.base().exists());
    // A running session goes on, and has a new session process if it needs one.
    viewer.say("barrier")?;
    let process = |session: &serde_json::Value| session["pids"]["session"].as_u64().unwrap_or(0);
    let old = process(&session);
    assert_ne!(old, 0, "a session has a session process");
    assert!(Command::new("kill").args(["-KILL", &old.to_string()]).status()?.success());
    wait_for("a new session process", EVENT_TIMEOUT, || {
        let new = process(host.sshd.sessions().ok()?.first()?);
        (new != 0 && new != old).then_some(())
    })?;
    let again = host.view("ask", &["--uninstall"])?;
    assert_eq!(String::from_utf8(again.stdout)?, "thinc-view has copied nothing to there\n");
    Ok(())
}

#[test]
fn a_copy_that_is_damaged_cut_short_or_finds_no_room_leaves_nothing() -> Outcome {
    let host = Host::start("damaged", "")?;
    let head = host.path("bin/head");
    for (script, expected) in [
        ("exec /usr/bin/head \"$@\" | tr E F", "there: the copy of thinc_drv.so is damaged"),
        ("exec /usr/bin/head -c 1000", "incomplete: 1000 of"),
        ("exec /usr/bin/head \"$@\" >/dev/full", "No space left on device"),
    ] {
        fs::remove_file(&head)?;
        host.sshd.script("bin/head", script)?;
        let words = host.refused("always")?;
        assert!(words.contains(expected), "{words}");
        assert!(host.copies().is_empty(), "{:?}", host.copies());
    }
    fs::remove_file(&head)?;
    symlink("/usr/bin/head", &head)?;
    let mut viewer = host.viewer("always", "", &["sleep", "infinity"])?;
    viewer.say("wait-quiet")?;
    Ok(())
}

#[test]
fn nothing_stays_of_a_copy_whose_viewer_has_gone() -> Outcome {
    let host = Host::start("gone", "")?;
    let head = host.path("bin/head");
    fs::remove_file(&head)?;
    // It keeps the first file whole, and reads on until the viewer has gone.
    host.sshd.script("bin/head", "/usr/bin/head \"$@\"; : >\"$HOME/begun\"; exec /bin/cat")?;
    let mut command = Command::new(binary("thinc-view")?);
    command.arg("ssh://there").args(host.options("always")).args(["--headless", "--", "xterm"]);
    let mut viewer = command.stdin(Stdio::null()).spawn()?;
    wait_for("the copy has begun", EVENT_TIMEOUT, || host.path("home/begun").metadata().ok())?;
    assert!(host.copies().iter().any(|name| name == "thinc_drv.so"), "{:?}", host.copies());
    viewer.kill()?;
    viewer.wait()?;
    wait_for("nothing is left", EVENT_TIMEOUT, || host.copies().is_empty().then_some(()))?;
    Ok(())
}

#[test]
fn a_host_cannot_ask_for_a_copy_where_the_user_has_named_its_thinc() -> Outcome {
    let host = Host::start("named", "")?;
    let report = "printf '\\036thinc host 1\\nsystem Linux\\nend\\n'; read -r answer; \
        echo \"thinc: answered $answer\" >&2; exit 1";
    let thinc = host.sshd.script("named", report)?;
    let thinc = thinc.display().to_string();
    let output = host.view("always", &["--thinc", &thinc, "--headless"])?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{words}");
    assert!(words.contains("without being asked"), "{words}");
    Ok(())
}

#[test]
fn a_host_without_xorg_is_told_the_package_that_has_it() -> Outcome {
    let host = Host::start("no-xorg", "export THINC_XORG=/nowhere/Xorg")?;
    let words = host.refused("always")?;
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let package = if release.contains("debian") { "apt install xserver-xorg-core" } else { "xorg" };
    assert!(words.contains("has no Xorg") && words.contains(package), "{words}");
    assert!(!host.base().exists());
    Ok(())
}

#[test]
fn another_version_is_used_or_left_as_it_is() -> Outcome {
    let host = Host::start("other", "")?;
    let thinc = binary("thinc")?;
    // The session that it starts is this build's: only what it says of itself is old.
    host.sshd.script(
        "bin/thinc",
        &format!(
            "if [ \"$1\" = --version ]; then echo thinc 0.0.1; exit; fi\n\
             THINC_DRIVER_DIR={} exec {} \"$@\"",
            host.path("files").display(),
            thinc.display()
        ),
    )?;
    let mut old = host.viewer("never", "/old", &["sleep", "infinity"])?;
    old.say("wait-quiet")?;
    assert_eq!(program(&host.sshd.sessions()?[0])?, thinc);
    assert!(!host.base().exists());
    // A session of the old one is joined by the new one.
    let mut joined = host.viewer("always", "/old", &[])?;
    joined.say("wait-quiet")?;
    assert_eq!(joined.say("hash")?, old.say("hash")?);
    let mut new = host.viewer("always", "/new", &["sleep", "infinity"])?;
    new.say("wait-quiet")?;
    let sessions = host.sshd.sessions()?;
    let mut programs = sessions.iter().map(program).collect::<Result<Vec<_>, _>>()?;
    programs.sort();
    let mut expected = vec![thinc, host.thinc()?];
    expected.sort();
    assert_eq!(programs, expected);
    assert!(host.path("bin/thinc").exists());
    Ok(())
}
