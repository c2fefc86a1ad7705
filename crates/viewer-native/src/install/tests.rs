//! What is decided for which host, and the script itself, run by this machine's sh.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::files::tests::files;
use super::*;

fn debian() -> HostReport {
    HostReport {
        system: "Linux".into(),
        machine: "x86_64".into(),
        libc: "glibc 2.36".into(),
        os: "debian".into(),
        os_name: "Debian GNU/Linux 12".into(),
        other: None,
        folder: "/home/me/.local/share/thinc/0.1.0".into(),
        free_kib: Some(1_000_000),
        xorg: Some("1.21.1.7".into()),
        removed: Vec::new(),
    }
}

fn here() -> ServerFiles {
    files("x86_64", "2.34", &[24, 25])
}

#[test]
fn the_driver_is_the_one_for_the_hosts_xorg() {
    let mut two = here();
    two.drivers[0].1.bytes = b"for 24".to_vec();
    two.drivers[1].1.bytes = b"for 25".to_vec();
    for (server, bytes) in [("1.21.1.7", b"for 25"), ("1.20.11", b"for 24")] {
        let report = HostReport { xorg: Some(server.into()), ..debian() };
        let plan = plan(&report, two.clone()).unwrap();
        assert_eq!(plan.files.each_ref().map(|file| file.name), ["thinc_drv.so", "thinc"]);
        assert_eq!(plan.files[0].bytes, bytes);
    }
}

#[test]
fn a_host_where_the_files_would_not_work_is_refused_with_what_helps() {
    let debian = debian();
    let changed = |change: fn(&mut HostReport)| {
        let mut report = debian.clone();
        change(&mut report);
        report
    };
    for (report, expected) in [
        (changed(|report| report.system = "FreeBSD".into()), &["FreeBSD", "needs Linux"][..]),
        (changed(|report| report.machine = "aarch64".into()), &["aarch64", "for x86_64"]),
        (changed(|report| report.libc = "glibc 2.31".into()), &["glibc 2.31", "glibc 2.34"]),
        (
            changed(|report| report.libc = "ldd (Ubuntu GLIBC 2.31-0ubuntu9) 2.31".into()),
            &["glibc 2.31", "glibc 2.34"],
        ),
        (changed(|report| report.libc = "musl libc (x86_64)".into()), &["musl", "glibc 2.34"]),
        (changed(|report| report.libc = String::new()), &["no glibc", "glibc 2.34"]),
        (changed(|report| report.xorg = None), &["no Xorg", "apt install xserver-xorg-core"]),
        (changed(|report| report.xorg = Some("1.19.6".into())), &["1.19.6", "ABI 23", "24, 25"]),
        (changed(|report| report.xorg = Some("9.9".into())), &["does not know", "9.9"]),
        (changed(|report| report.free_kib = Some(100)), &["100 KiB are free", "2978 KiB"]),
    ] {
        let error = plan(&report, here()).unwrap_err();
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    }
    for libc in ["glibc 2.34", "glibc 2.100", "ldd (GNU libc) 2.36"] {
        let report = HostReport { libc: libc.into(), free_kib: None, ..debian.clone() };
        assert!(plan(&report, here()).is_ok(), "{libc}");
    }
}

#[test]
fn the_xorg_of_each_distribution_has_its_package() {
    for (os, package) in [
        ("debian", "apt install xserver-xorg-core"),
        ("linuxmint ubuntu debian", "apt install xserver-xorg-core"),
        ("fedora", "dnf install xorg-x11-server-Xorg"),
        ("rocky rhel centos fedora", "dnf install xorg-x11-server-Xorg"),
        ("arch", "pacman -S xorg-server"),
        ("manjaro arch", "pacman -S xorg-server"),
        ("opensuse-tumbleweed opensuse suse", "zypper install xorg-x11-server"),
        ("", "the package with Xorg"),
    ] {
        assert!(xorg_package(os).contains(package), "{os}");
    }
}

#[test]
fn nothing_is_copied_unless_it_may_be_and_another_version_is_better_than_none() {
    use InstallMode::{Always, Ask, Never};
    let good = || plan(&debian(), here());
    let bad = || Err("why".to_owned());
    assert!(matches!(decide(Never, true, good), Decision::Use));
    assert!(matches!(decide(Never, false, good), Decision::Refuse(None)));
    for has_other in [false, true] {
        assert!(matches!(decide(Ask, has_other, good), Decision::Ask(_)));
        assert!(matches!(decide(Always, has_other, good), Decision::Copy(_)));
    }
    for mode in [Ask, Always] {
        assert!(matches!(decide(mode, true, bad), Decision::Use));
        assert!(matches!(decide(mode, false, bad), Decision::Refuse(Some(_))));
    }
}

#[test]
fn the_question_names_host_version_bytes_folder_and_what_no_means() {
    let plan = plan(&debian(), here()).unwrap();
    let question = plan.explanation("server");
    for part in ["server has no thinc", VERSION, "2.0 MB", "/home/me/.local/share", "--uninstall"] {
        assert!(question.contains(part), "{part} in {question}");
    }
    let other = Plan { other: Some("thinc 0.0.9".into()), ..plan };
    assert!(other.explanation("server").contains("answer n, thinc 0.0.9 is used"));
}

#[test]
fn an_answer_without_a_terminal_copies_nothing_and_says_what_to_do() {
    // No folder has the files: the message says that too.
    let options = InstallOptions { mode: InstallMode::Never, from: Some("/nowhere".into()) };
    let error = answer("server", &options, false, &debian()).unwrap_err().to_string();
    assert!(error.starts_with("thinc is not installed on server: install the package"), "{error}");
    assert!(error.contains("/nowhere"), "{error}");
    let other = HostReport { other: Some("thinc 0.0.9".into()), ..debian() };
    assert!(matches!(answer("server", &options, false, &other), Ok(None)));
    let options = InstallOptions { mode: InstallMode::Always, ..options };
    let error = answer("server", &options, false, &debian()).unwrap_err();
    assert!(matches!(error, SshError::CannotInstall { .. }), "{error}");
    let error = answer("server", &options, true, &debian()).unwrap_err();
    assert!(matches!(error, SshError::NotInstalled { .. }), "while reconnecting: {error}");
}

#[test]
fn the_command_line_is_one_word_of_sh_in_every_login_shell() {
    let line = command_line(Task::Session, &["session".into(), "a+20b".into()]);
    let word = line.strip_prefix("sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
    assert!(word.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"'!".contains(&byte)));
    let encoded = word.strip_prefix("eval \"$(printf %b \"").unwrap();
    let encoded = encoded.strip_suffix("\")\"").unwrap();
    assert!(!encoded.contains(['"', '$', '`']));
    // A backslash that a shell could take for itself would be followed by none of these.
    assert!(encoded.split('\\').skip(1).all(|rest| rest.starts_with('0')));
    // Old shells take no longer word.
    assert!(line.len() < 8000, "{}", line.len());
}

/// All programs that the script uses.
const PROGRAMS: [&str; 17] = [
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
    "cat",
];

/// A home of its own for the script, with no other program in PATH.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Home {
        let path = std::env::temp_dir().join(format!("thinc-home-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("bin")).unwrap();
        for name in PROGRAMS {
            let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            let found = found.iter().find(|path| path.exists()).unwrap();
            std::os::unix::fs::symlink(found, path.join("bin").join(name)).unwrap();
        }
        Home(path)
    }

    fn folder(&self) -> PathBuf {
        self.0.join("it's data/thinc").join(VERSION)
    }

    /// Puts a script of this name into PATH.
    fn program(&self, name: &str, text: &str) {
        let path = self.0.join("bin").join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, task: Task, arguments: &[&str]) -> Host {
        self.run_after("", task, arguments)
    }

    /// The same after commands of a login shell, in the same process.
    fn run_after(&self, before: &str, task: Task, arguments: &[&str]) -> Host {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{before}exec {}", command_line(task, &arguments)));
        command.env("PATH", self.0.join("bin")).env("XDG_DATA_HOME", self.0.join("it's data"));
        command.env_remove("THINC_XORG");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Host { child, output }
    }

    /// Files anywhere in the data folder.
    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.join("it's data")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path => found.push(path.file_name().unwrap().to_str().unwrap().to_owned()),
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The script, running.
struct Host {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Host {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn report(&mut self) -> HostReport {
        let mut bytes = Vec::new();
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the report ends: {}", String::from_utf8_lossy(&bytes));
            bytes.extend(line.bytes().chain(*b"\n"));
            if let Some(report) = HostReport::find(&bytes).unwrap() {
                return report;
            }
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        // A script that has ended reads nothing more.
        let _ = self.child.stdin.as_ref().unwrap().write_all(bytes);
    }

    /// Sends the plan, whose files may have been changed on the way.
    fn send(&mut self, plan: &Plan, damage: impl Fn(&[u8]) -> Vec<u8>) -> Result<(), SshError> {
        let failed = || SshError::NoSession("it failed".into());
        let input = self.child.stdin.take().unwrap();
        let result = plan.send(
            Damaging { to: &input, damage },
            |_| if self.line() == "next" { Ok(()) } else { Err(failed()) },
            |_| failed(),
        );
        self.child.stdin = Some(input);
        result
    }

    /// Ends its input; returns what it printed last on both outputs.
    fn end(mut self) -> (String, String) {
        drop(self.child.stdin.take());
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        let mut words = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        self.child.wait().unwrap();
        (output, words)
    }
}

/// Changes files, and not the lines between them.
struct Damaging<W, F> {
    to: W,
    damage: F,
}

impl<W: Write, F: Fn(&[u8]) -> Vec<u8>> Write for Damaging<W, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_line = bytes.starts_with(b"put ") || bytes == b"run\n";
        let sent = if is_line { bytes.to_vec() } else { (self.damage)(bytes) };
        self.to.write_all(&sent)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A "thinc" that repeats its arguments and what it is sent.
fn echo() -> Plan {
    let mut plan = plan(&debian(), here()).unwrap();
    plan.files[0].bytes = (0..=255).cycle().take(300_001).collect();
    plan.files[1].bytes = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo thinc {VERSION}; exit; fi\n\
         printf '\\036thinc stdio 1\\n'; echo \"$0 $*\"; exec cat\n"
    )
    .into_bytes();
    plan
}

#[test]
fn a_copy_is_used_at_once_and_the_next_time_and_loses_no_byte_that_follows() {
    let home = Home::new("copy");
    // Like some systems' head: it reads as much as there is.
    home.program("head", "exec /usr/bin/perl -e 'read STDIN, $b, $ARGV[1]; print $b' -- \"$@\"");
    let mut host = home.run(Task::Session, &["session", "--stdio", "--name", "a+20b"]);
    let report = host.report();
    assert_eq!(report.folder, home.folder().to_str().unwrap());
    assert_eq!(report.machine, std::env::consts::ARCH);
    assert_eq!((report.system.as_str(), report.other), ("Linux", None));
    assert!(report.libc.contains("glibc") && report.free_kib > Some(0), "{}", report.libc);
    let places = ["lib/xorg", "libexec", "lib64/xorg", "lib"];
    let has_xorg = places.iter().any(|at| Path::new("/usr").join(at).join("Xorg").exists());
    assert_eq!(report.xorg.is_some(), has_xorg);
    host.send(&echo(), <[u8]>::to_vec).unwrap();
    let ran = format!("{}/thinc session --stdio --name a+20b", home.folder().display());
    assert_eq!([host.line(), host.line()], ["\x1ethinc stdio 1".to_owned(), ran.clone()]);
    let bytes: Vec<u8> = (0..100_u8).cycle().take(50_000).map(|byte| byte % 90 + 33).collect();
    host.say(&bytes);
    assert_eq!(host.end(), (String::from_utf8(bytes).unwrap(), String::new()));
    assert_eq!(home.files(), ["thinc", "thinc_drv.so"]);
    assert_eq!(fs::read(home.folder().join("thinc_drv.so")).unwrap(), echo().files[0].bytes);

    let mut again = home.run(Task::Session, &["session", "--stdio", "--name", "a+20b"]);
    assert_eq!([again.line(), again.line()], ["\x1ethinc stdio 1".to_owned(), ran]);
    again.say(b"typed");
    assert_eq!(again.end().0, "typed");
}

#[test]
fn a_damaged_or_incomplete_copy_leaves_nothing() {
    let home = Home::new("damage");
    let damaged = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[0] ^= 1;
        bytes
    };
    let mut host = home.run(Task::Session, &[]);
    host.report();
    assert!(host.send(&echo(), damaged).is_err());
    let (_, words) = host.end();
    assert!(words.contains("thinc: the copy of thinc_drv.so is damaged: its SHA-256"), "{words}");
    assert_eq!(home.files(), [""; 0]);

    let mut host = home.run(Task::Session, &[]);
    host.report();
    host.say(format!("put thinc 1000 {} 755\n", "0".repeat(64)).as_bytes());
    assert_eq!(host.line(), "next");
    host.say(&[0; 999]);
    let (_, words) = host.end();
    assert!(words.contains("the copy of thinc is incomplete: 999 of 1000 bytes"), "{words}");
    assert_eq!(home.files(), [""; 0]);

    // As on a full disk.
    home.program("head", "exec /usr/bin/head \"$@\" >/dev/full");
    let mut host = home.run(Task::Session, &[]);
    host.report();
    let _ = host.send(&echo(), <[u8]>::to_vec);
    let (_, words) = host.end();
    assert!(
        words.contains("thinc: cannot write") && words.contains("No space left on device"),
        "{words}"
    );
    assert_eq!(home.files(), [""; 0]);
}

#[test]
fn a_copy_that_does_not_run_is_not_kept() {
    let home = Home::new("wrong");
    for (program, expected) in [
        ("#!/bin/sh\necho thinc 0.0.1\n", "the copied program is thinc 0.0.1, not thinc"),
        ("#!/bin/sh\necho no libstdc++ >&2; exit 127\n", "does not run here: no libstdc++"),
    ] {
        let mut plan = echo();
        plan.files[1].bytes = program.into();
        let mut host = home.run(Task::Session, &[]);
        host.report();
        host.send(&plan, <[u8]>::to_vec).unwrap();
        let (_, words) = host.end();
        assert!(words.contains(expected), "{words}");
        assert_eq!(home.files(), [""; 0]);
    }
}

#[test]
fn a_matching_version_in_path_is_used_and_another_one_if_the_viewer_says_so() {
    let home = Home::new("path");
    let thinc = |version: &str| {
        format!("if [ \"$1\" = --version ]; then echo thinc {version}; else echo ran $*; fi")
    };
    home.program("thinc", &thinc(VERSION));
    let (output, words) = home.run(Task::Session, &["session"]).end();
    assert_eq!((output.as_str(), words.as_str()), ("ran session\n", ""));
    home.program("thinc", &thinc("0.0.9"));
    let mut host = home.run(Task::Session, &["session"]);
    assert_eq!(host.report().other.as_deref(), Some("thinc 0.0.9"));
    host.say(b"use\n");
    assert_eq!(host.line(), "ran session");
    host.end();
    // What is copied beside it leaves it as it is.
    let mut host = home.run(Task::Session, &["session"]);
    host.report();
    host.send(&echo(), <[u8]>::to_vec).unwrap();
    assert_eq!(host.line(), "\x1ethinc stdio 1");
    host.end();
    assert!(home.0.join("bin/thinc").exists());
}

#[test]
fn all_may_read_what_was_copied_and_thinc_runs_with_the_umask_of_the_user() {
    let home = Home::new("umask");
    let mut plan = echo();
    plan.files[1].bytes = format!(
        "#!/bin/sh\necho a warning of the loader >&2\n\
         if [ \"$1\" = --version ]; then echo thinc {VERSION}; else umask; fi\n"
    )
    .into_bytes();
    for mask in ["0077", "0002"] {
        let mut host = home.run_after(&format!("umask {mask}; "), Task::Session, &[]);
        host.report();
        host.send(&plan, <[u8]>::to_vec).unwrap();
        assert_eq!(host.line(), mask);
        assert_eq!(host.end().1, "a warning of the loader\n");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let base = home.folder().parent().unwrap().to_owned();
        assert_eq!([mode(&base), mode(&home.folder())], [0o755; 2], "umask {mask}");
        fs::remove_dir_all(base).unwrap();
    }
}

#[test]
fn a_folder_that_a_crash_left_does_not_prevent_a_copy() {
    let home = Home::new("stale");
    let base = home.folder().parent().unwrap().to_owned();
    let stale = |name: &str| format!("mkdir -p '{}'/.new-{VERSION}-$${name}; ", base.display());
    let before = (stale("") + &stale("-1")).replace("it's", "it'\\''s");
    let mut host = home.run_after(&before, Task::Session, &[]);
    host.report();
    host.send(&echo(), <[u8]>::to_vec).unwrap();
    assert_eq!(host.line(), "\x1ethinc stdio 1");
    host.end();
    assert_eq!(home.files(), ["thinc", "thinc_drv.so"]);
}

#[test]
fn a_host_that_reads_nothing_is_not_waited_for_without_limit() {
    let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
    near.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut plan = echo();
    // More than a socket holds.
    plan.files[0].bytes = vec![0; 16 << 20];
    let lost = |error: io::Error| SshError::NoSession(format!("{:?}", error.kind()));
    let error = plan.send(&near, |_| Ok(()), lost).unwrap_err();
    assert!(matches!(error, SshError::NoSession(kind) if kind == "WouldBlock"));
}

#[test]
fn viewers_that_copy_at_once_do_each_other_no_harm() {
    let home = Home::new("twice");
    let mut hosts = [home.run(Task::Session, &["a"]), home.run(Task::Session, &["b"])];
    for host in &mut hosts {
        host.report();
    }
    let [first, second] = &mut hosts;
    first.say(format!("put thinc 1000 {} 755\n", "0".repeat(64)).as_bytes());
    assert_eq!(first.line(), "next");
    second.send(&echo(), <[u8]>::to_vec).unwrap();
    assert_eq!(second.line(), "\x1ethinc stdio 1");
    let [first, second] = hosts;
    assert!(first.end().1.contains("incomplete"));
    assert_eq!(home.files(), ["thinc", "thinc_drv.so"]);
    second.end();
}

#[test]
fn what_was_copied_is_removed_and_nothing_else() {
    let home = Home::new("remove");
    let mut host = home.run(Task::Session, &[]);
    host.report();
    host.send(&echo(), <[u8]>::to_vec).unwrap();
    assert_eq!(host.line(), "\x1ethinc stdio 1");
    host.end();
    let base = home.folder().parent().unwrap().to_owned();
    let crashed = format!(".new-{VERSION}-1");
    let theirs = [("mine", "notes"), ("built", "thinc"), ("../elsewhere", "thinc")];
    for (folder, file) in [("0.0.9", "thinc"), (&crashed, "thinc")].into_iter().chain(theirs) {
        fs::create_dir(base.join(folder)).unwrap();
        fs::write(base.join(folder).join(file), "").unwrap();
    }
    std::os::unix::fs::symlink("../elsewhere", base.join("0.0.8")).unwrap();
    let report = home.run(Task::Remove, &[]).report();
    let folders =
        ["0.0.9", VERSION, &crashed].map(|name| base.join(name).to_str().unwrap().to_owned());
    assert_eq!(report.removed, folders);
    fs::remove_file(base.join("0.0.8")).unwrap();
    assert_eq!(home.files(), ["notes", "thinc", "thinc"]);
    assert_eq!(home.run(Task::Remove, &[]).report().removed, [""; 0]);
}
