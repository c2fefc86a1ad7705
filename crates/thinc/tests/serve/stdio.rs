//! `thinc session --stdio`, as ssh starts it: finds or starts a session, and forwards the protocol
//! over two pipes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::SESSION_MESSAGE_BYTES_MAX;
use thinc_protocol::session::SessionMessage;
use thinc_transport::stdio::{EXIT_NO_SESSION, GREETING};

use crate::harness::{TestEnvironment, hello, wait_for_end, wait_until};

/// A running `thinc session --stdio`.
struct Pipes {
    child: Child,
    frames: Deframer,
}

impl Pipes {
    fn open(environment: &TestEnvironment, options: &[&str]) -> Pipes {
        let mut command = environment.thinc(&["session", "--stdio"]);
        let child =
            command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Pipes { child, frames: Deframer::new(SESSION_MESSAGE_BYTES_MAX) }
    }

    /// Reads the greeting, sends a hello, and returns the session's name.
    fn read_greeting(&mut self) -> String {
        let mut greeting = [0; GREETING.len()];
        self.child.stdout.as_mut().unwrap().read_exact(&mut greeting).unwrap();
        assert_eq!(greeting, GREETING, "nothing comes before the greeting");
        let mut bytes = Vec::new();
        hello().encode(&mut bytes);
        self.child.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                let SessionMessage::Hello(hello) = SessionMessage::decode(&frame).unwrap() else {
                    panic!("the session's first message is a hello");
                };
                return hello.name.clone();
            }
            let mut buffer = [0; 4096];
            let count = self.child.stdout.as_mut().unwrap().read(&mut buffer).unwrap();
            assert!(count > 0, "the connection ended first");
            self.frames.push(&buffer[..count]);
        }
    }

    /// Disconnects like ssh: closes both pipes. Returns the exit code.
    fn disconnect(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        let mut rest = Vec::new();
        self.child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

fn sessions(environment: &TestEnvironment) -> Vec<serde_json::Value> {
    serde_json::from_slice(&environment.run(&["list", "--json"]).stdout).unwrap()
}

fn pid(session: &serde_json::Value, part: &str) -> u32 {
    u32::try_from(session["pids"][part].as_u64().unwrap()).unwrap()
}

/// Ends all sessions of a test, even if it fails.
struct Stopped(TestEnvironment);

impl Drop for Stopped {
    fn drop(&mut self) {
        for session in sessions(&self.0) {
            self.0.run(&["stop", session["name"].as_str().unwrap()]);
        }
    }
}

#[test]
fn a_session_is_started_left_and_found_again() {
    let environment = Stopped(TestEnvironment::new());
    let mut first = Pipes::open(
        &environment.0,
        &["--name", "work", "--size", "640x480", "--", "sleep", "1000"],
    );
    assert_eq!(first.read_greeting(), "work");
    assert_eq!(first.disconnect(), Some(0));

    let found = sessions(&environment.0);
    assert_eq!(found.len(), 1);
    let supervisor = pid(&found[0], "supervisor");
    assert!(found[0]["listen"].is_null(), "it has no port: {}", found[0]);
    let socket = environment.0.folder.join("run/thinc/work/viewer.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(
        !environment.0.folder.join("state/thinc/identity.pem").exists(),
        "without a port no key is generated"
    );
    let words = environment.0.fails(&["link", "work"]);
    assert!(words.contains("thinc-view ssh://HOST/work"), "{words}");

    // Another command does not matter: the session of that name runs.
    let mut second =
        Pipes::open(&environment.0, &["--attach", "--name", "work", "--", "no-such-program"]);
    assert_eq!(second.read_greeting(), "work");
    assert_eq!(pid(&sessions(&environment.0)[0], "supervisor"), supervisor);
    environment.0.run(&["stop", "work"]);
    assert_eq!(second.disconnect(), Some(0));
    wait_for_end(supervisor);
    assert!(!socket.exists());
}

#[test]
fn viewers_that_connect_at_once_get_the_same_session() {
    let environment = Stopped(TestEnvironment::new());
    let mut all: Vec<Pipes> =
        (0..4).map(|_| Pipes::open(&environment.0, &["--", "sleep", "1000"])).collect();
    for pipes in &mut all {
        assert_eq!(pipes.read_greeting(), "sleep", "the default name is that of the command");
    }
    assert_eq!(sessions(&environment.0).len(), 1);
}

#[test]
fn a_session_with_a_port_is_found_too() {
    let environment = TestEnvironment::new();
    let session = crate::harness::Session::start_with(environment, &[], &["sleep", "1000"]);
    let mut pipes = Pipes::open(&session.environment, &["--name", "t"]);
    assert_eq!(pipes.read_greeting(), "t");
    // The connection ends with the session process; viewers that connect meanwhile wait for the
    // next one.
    let old = session.pid("session");
    kill_process(Pid::from_raw(i32::try_from(old).unwrap()).unwrap(), Signal::KILL).unwrap();
    wait_for_end(old);
    let mut next = Pipes::open(&session.environment, &["--name", "t", "--attach"]);
    assert_eq!(pipes.disconnect(), Some(0));
    assert_eq!(next.read_greeting(), "t");
}

#[test]
fn errors_are_one_line_on_standard_error() {
    let environment = TestEnvironment::new();
    let output = environment.run(&["session", "--stdio", "--attach", "--name", "work"]);
    assert_eq!(output.status.code(), Some(i32::from(EXIT_NO_SESSION)));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "thinc: no session called work is running (any more)\n"
    );
    assert!(output.stdout.is_empty());

    let mut command = environment.thinc(&["session", "--stdio", "--", "no-such-program"]);
    let output = command.output().unwrap();
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "thinc: there is no command no-such-program: it is not in PATH\n"
    );
    assert!(output.stdout.is_empty() && output.status.code() == Some(1));

    let mut command = environment.thinc(&["session", "--stdio", "--", "sleep", "1000"]);
    let output = command.env("THINC_XORG", "/nowhere").output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(words, "thinc: THINC_XORG is /nowhere, which is not an executable file\n");
    assert!(sessions(&environment).is_empty());
}

#[test]
fn words_of_a_command_may_contain_any_characters() {
    let environment = Stopped(TestEnvironment::new());
    let out = environment.0.folder.join("out");
    let script = format!("printf %s \"$1\" > {}; exec sleep 1000", out.display());
    let odd = "it's $HOME; `x` \\ ! \" * é";
    let words =
        ["sh", "-c", &script, "sh", odd].map(|word| thinc_transport::stdio::escape(word.as_ref()));
    let mut options = vec!["--escaped", "--name", "odd", "--"];
    options.extend(words.iter().map(String::as_str));
    let mut pipes = Pipes::open(&environment.0, &options);
    assert_eq!(pipes.read_greeting(), "odd");
    wait_until(odd, || (fs::read_to_string(&out).unwrap_or_default() == odd).then_some(()));
}

/// Without XDG_RUNTIME_DIR the sessions' folder is in /tmp, and another user may have created it
/// first.
#[test]
fn the_socket_of_another_user_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "this test needs root to act as another user");
        eprintln!("skipped: this test needs root to act as another user");
        return;
    }
    let environment = TestEnvironment::new();
    let folder = environment.folder.join("run/thinc/work");
    fs::create_dir_all(&folder).unwrap();
    let everybody = |path: &std::path::Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap()
    };
    folder.ancestors().take(4).for_each(everybody);
    const LISTENER: &str = "import socket, sys
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen()
    globals()[path] = s
print('ready', flush=True)
sys.stdin.read()";
    let paths = ["viewer.sock", "control.sock"].map(|name| folder.join(name));
    let mut somebody = std::process::Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
            LISTENER,
        ])
        .args(&paths)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 5];
    somebody.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();

    let output = environment.run(&["session", "--stdio", "--attach", "--name", "work"]);
    assert_eq!(output.status.code(), Some(i32::from(EXIT_NO_SESSION)), "{output:?}");
    assert!(output.stdout.is_empty(), "nothing is sent to another user's session");
    let output = environment.run(&["link", "work"]);
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("no session called work is running"), "{words}");

    drop(somebody.stdin.take());
    somebody.wait().unwrap();
}
