//! Starting a session: errors name what is missing or in use, and nothing is left behind.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::harness::{Session, TestEnvironment, failed};

#[test]
fn a_port_in_use_is_named_and_the_other_session_continues() {
    let session = Session::start(&[]);
    let address = session.address().to_string();
    let words = session
        .environment
        .fails(&["serve", "--listen", &address, "--name", "second", "--", "sleep", "1000"]);
    assert!(words.contains(&address) && words.contains("in use"), "{words}");
    assert!(
        !session.environment.folder.join("run/thinc/second").exists(),
        "the second left its folder behind"
    );
    session.viewer().wait_complete();
}

#[test]
fn a_name_in_use_is_named() {
    let session = Session::start(&[]);
    let words = session.environment.fails(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--name",
        "t",
        "--",
        "sleep",
        "1000",
    ]);
    assert!(words.contains("called t is running already"), "{words}");
    session.viewer().wait_complete();
}

#[test]
fn the_next_free_port_is_used_if_the_default_one_is_taken() {
    // If 8443 is free on this machine, it is taken here: the next free port is used and reported.
    let taken = TcpListener::bind("127.0.0.1:8443");
    let environment = TestEnvironment::new();
    let mut command = environment.thinc(&["serve", "--name", "d", "--", "sh", "-c", "exit 0"]);
    let output = command.output().unwrap();
    let (words, said) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{words}");
    assert!(words.contains("port 8443 is in use; listening on 127.0.0.1:84"), "{words}");
    assert!(said.contains("https://127.0.0.1:84"), "{said}");
    drop(taken);
}

#[test]
fn a_missing_x_server_or_command_is_reported_before_anything_is_created() {
    let environment = TestEnvironment::new();
    let output = environment
        .thinc(&["serve", "--", "sleep", "1"])
        .env("THINC_XORG", "/nonexistent/Xorg")
        .output()
        .unwrap();
    let words = failed(&output);
    assert!(words.contains("/nonexistent/Xorg") && words.contains("THINC_XORG"), "{words}");
    let words = environment.fails(&["serve", "--", "no-such-program"]);
    assert!(words.contains("there is no command no-such-program"), "{words}");
    let output = environment
        .thinc(&["serve", "--", "sleep", "1"])
        .env("THINC_DRIVER_DIR", "/nonexistent")
        .output()
        .unwrap();
    assert!(failed(&output).contains("/nonexistent"), "the error names the searched folder");
    assert_eq!(fs::read_dir(environment.folder.join("run")).unwrap().count(), 0);
}

#[test]
fn an_x_server_that_does_not_start_is_reported_with_the_reason() {
    let environment = TestEnvironment::new();
    let output = environment
        .thinc(&["serve", "--listen", "127.0.0.1:0", "--", "sleep", "1"])
        .env("THINC_XORG", "/bin/false")
        .output()
        .unwrap();
    let words = failed(&output);
    assert!(
        words.contains("X server did not start") && words.contains("exit status: 1"),
        "{words}"
    );
    assert!(!environment.folder.join("run/thinc/sleep").exists(), "the runtime folder was removed");
}

#[test]
fn a_runtime_folder_that_cannot_be_used_is_named() {
    let environment = TestEnvironment::new();
    let serve = |folder: &str| {
        let mut command =
            environment.thinc(&["serve", "--listen", "127.0.0.1:0", "--", "sleep", "1"]);
        failed(&command.env("XDG_RUNTIME_DIR", folder).output().unwrap())
    };
    // Nobody can write to /proc, not even root.
    let words = serve("/proc");
    assert!(words.contains("/proc/thinc") && words.contains("XDG_RUNTIME_DIR"), "{words}");
    let open = environment.folder.join("open");
    fs::create_dir_all(open.join("thinc")).unwrap();
    fs::set_permissions(open.join("thinc"), fs::Permissions::from_mode(0o777)).unwrap();
    let words = serve(open.to_str().unwrap());
    assert!(words.contains("must be yours alone") && words.contains("777"), "{words}");
    let link = environment.folder.join("link");
    fs::create_dir_all(&link).unwrap();
    std::os::unix::fs::symlink(environment.folder.join("run"), link.join("thinc")).unwrap();
    assert!(
        serve(link.to_str().unwrap()).contains("must be yours alone"),
        "a link is not followed"
    );
}

#[test]
fn the_ready_file_is_complete_and_private() {
    let session = Session::start(&["--size", "800x600"]);
    let path = session.environment.folder.join("ready.json");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600,
        "it contains a secret"
    );
    for key in ["link", "native_link", "display", "xauthority", "listen"] {
        assert!(session.ready[key].as_str().is_some_and(|value| !value.is_empty()), "{key}");
    }
    for part in ["supervisor", "xorg", "session", "command"] {
        assert!(crate::harness::is_running(session.pid(part)), "{part}");
    }
    let cookie = fs::metadata(session.ready["xauthority"].as_str().unwrap()).unwrap();
    assert_eq!(cookie.permissions().mode() & 0o777, 0o600);
    assert_eq!(session.viewer().wait_complete(), thinc_region::Size { width: 800, height: 600 });
    assert!(session.output.iter().any(|line| line.trim().starts_with("https://")));
    // Arguments of a program can be read by every user: `echo` is the shell's own.
    let lines: Vec<_> = session.output.iter().filter(|line| line.contains("thinc://")).collect();
    assert!(
        matches!(lines[..], [line] if line.trim().starts_with("echo 'thinc://")
            && line.trim().ends_with("thinc-view -")),
        "{lines:?}"
    );
}

#[test]
fn the_x_cookie_is_found_under_the_hosts_name_even_after_that_changes() {
    let environment = TestEnvironment::new();
    let script = "grep -q \"$(uname -n)\" \"$XAUTHORITY\" && hostname thinc-renamed \
                  && until grep -q thinc-renamed \"$XAUTHORITY\"; do sleep 0.02; done";
    let serve = environment.thinc(&[
        "serve", "--listen", "none", "--name", "h", "--", "timeout", "100", "sh", "-c", script,
    ]);
    // In a namespace whose host name it may change.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--uts"]);
    command.arg(serve.get_program()).args(serve.get_args()).stdin(Stdio::null());
    for (name, value) in serve.get_envs() {
        command.env(name, value.expect("thinc() removes no variable"));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A display manager that starts later expects to get :0.
#[test]
fn sessions_that_start_at_once_have_displays_of_their_own_and_leave_the_first_ones_free() {
    let starts = [(); 4].map(|()| std::thread::spawn(|| Session::start(&[])));
    let sessions = starts.map(|start| start.join().unwrap());
    let mut displays = sessions.each_ref().map(|session| {
        let display = session.ready["display"].as_str().unwrap();
        display.strip_prefix(':').and_then(|number| number.parse::<u32>().ok()).unwrap()
    });
    displays.sort_unstable();
    assert!(displays[0] >= 200, "{displays:?}");
    assert!(displays.windows(2).all(|pair| pair[0] < pair[1]), "{displays:?}");
    for session in &sessions {
        session.viewer().wait_complete();
    }
}

/// A program that is not a desktop's, which says what it was started as.
const SAYS: &str = "#!/bin/sh\necho \"run $* as $XDG_CURRENT_DESKTOP $DESKTOP_SESSION\" \
                    > \"${0%/*}/said\"\n";

/// A folder of programs with the system's own in addition, and `toy.desktop`, which runs one.
fn toy_desktop(environment: &TestEnvironment) -> String {
    let (bin, listed) =
        (environment.folder.join("bin"), environment.folder.join("share/xsessions"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&listed).unwrap();
    fs::write(bin.join("toydesk"), SAYS).unwrap();
    fs::set_permissions(bin.join("toydesk"), fs::Permissions::from_mode(0o755)).unwrap();
    let toy = "[Desktop Entry]\nName=Toy Desktop\nExec=toydesk\nDesktopNames=TOY;GNOME\n";
    fs::write(listed.join("toy.desktop"), toy).unwrap();
    let other = "[Desktop Entry]\nName=Other\nExec=toydesk \"of another\" %U\n";
    fs::write(listed.join("other.desktop"), other).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// Serves with these options until the program has ended; returns the session's name and what the
/// program said.
fn serve_toy(environment: &TestEnvironment, path: &str, options: &[&str]) -> (String, String) {
    let (logs, said) =
        (environment.folder.join("state/thinc/log"), environment.folder.join("bin/said"));
    let _ = fs::remove_dir_all(&logs);
    let mut serve = environment.thinc(&["serve", "--listen", "none"]);
    serve.args(options).env("PATH", path).env("XDG_DATA_DIRS", environment.folder.join("share"));
    let output = serve.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let name = fs::read_dir(logs).unwrap().next().expect("a session has logs").unwrap();
    let words = fs::read_to_string(&said).unwrap();
    fs::remove_file(said).unwrap();
    (name.file_name().into_string().unwrap(), words)
}

#[test]
fn a_desktop_is_started_by_its_name_and_a_wrong_name_lists_those_there_are() {
    let environment = TestEnvironment::new();
    let path = toy_desktop(&environment);
    let toy = ("toy".to_owned(), "run  as TOY:GNOME toy\n".to_owned());
    for name in ["toy", "Toy Desktop", "gnome"] {
        assert_eq!(serve_toy(&environment, &path, &["--desktop", name]), toy, "{name}");
    }
    let other = ("other".to_owned(), "run of another as  other\n".to_owned());
    assert_eq!(serve_toy(&environment, &path, &["--desktop", "other"]), other);
    let mut serve = environment.thinc(&["serve", "--desktop", "no-such-desktop"]);
    serve.env("PATH", path).env("XDG_DATA_DIRS", environment.folder.join("share"));
    let words = failed(&serve.output().unwrap());
    assert!(words.contains("no-such-desktop is installed; these are: other, toy"), "{words}");
}

#[test]
fn the_default_desktop_is_the_systems_choice_else_one_that_is_listed() {
    let environment = TestEnvironment::new();
    let path = toy_desktop(&environment);
    // Nothing but these programs, and what they need.
    let bin = environment.folder.join("bin");
    for program in ["sh", "setxkbmap", "xkbcomp"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{program}"), bin.join(program)).unwrap();
    }
    let only = bin.to_str().unwrap();
    let toy = ("toy".to_owned(), "run  as TOY:GNOME toy\n".to_owned());
    assert_eq!(serve_toy(&environment, only, &[]), toy, "a complete desktop of those listed");
    fs::write(bin.join("chosen"), SAYS).unwrap();
    fs::set_permissions(bin.join("chosen"), fs::Permissions::from_mode(0o755)).unwrap();
    let choice = bin.join("x-session-manager");
    std::os::unix::fs::symlink(bin.join("chosen"), &choice).unwrap();
    let chosen = ("chosen".to_owned(), "run  as  \n".to_owned());
    assert_eq!(serve_toy(&environment, &path, &[]), chosen);
    fs::remove_file(&choice).unwrap();
    std::os::unix::fs::symlink(bin.join("toydesk"), &choice).unwrap();
    assert_eq!(serve_toy(&environment, &path, &[]), toy, "one that is listed");
}

#[test]
fn an_application_without_a_window_manager_runs_and_the_user_is_told() {
    let environment = TestEnvironment::new();
    toy_desktop(&environment);
    let bin = environment.folder.join("bin");
    for program in ["sh", "setxkbmap", "xkbcomp"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{program}"), bin.join(program)).unwrap();
    }
    for (when, told) in [("auto", true), ("none", false)] {
        let arguments =
            ["serve", "--listen", "none", "--window-manager", when, "--", "toydesk", "alone"];
        let output = environment.thinc(&arguments).env("PATH", &bin).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}");
        assert_eq!(words.contains("openbox is not installed"), told, "{words}");
        assert!(fs::read_to_string(bin.join("said")).unwrap().starts_with("run alone"));
    }
}
