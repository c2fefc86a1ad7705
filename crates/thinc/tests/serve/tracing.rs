//! `thinc trace` with real sessions: a recorded trace can be replayed, and no recording harms a
//! session. Uses harness.rs; an X client of the system draws. Knows files and exit codes;
//! crates/trace tests the content of traces.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Session, TestEnvironment, failed};

/// Draws as long as it runs: a window with scrolling text.
const DRAWS: &[&str] =
    &["xterm", "-geometry", "80x24+0+0", "-e", "sh", "-c", "while :; do ls -l /usr/lib; done"];

fn text(output: &std::process::Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A recording that has started.
fn recording(
    session: &Session,
    arguments: &[&str],
) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = session.environment.thinc(&[&["trace", "record", "t"], arguments].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("Recording the session t into "), "{line}");
    (child, said)
}

#[test]
fn a_recording_is_replayed_exactly_and_redacted() {
    let session = Session::start_with(TestEnvironment::new(), &["--size", "640x400"], DRAWS);
    let folder = session.environment.folder.clone();
    let (whole, plain) = (folder.join("a.trace"), folder.join("b.trace"));
    let (whole, plain) = (whole.to_str().unwrap(), plain.to_str().unwrap());
    let output = session.environment.run(&["trace", "record", whole, "--for", "1.5"]);
    assert!(text(&output).contains("Ctrl-C ends it"));
    let info = text(&session.environment.run(&["trace", "info", whole]));
    assert!(
        info.contains("not redacted")
            && info.contains("640 × 400")
            && info.contains("the recording was stopped"),
        "{info}"
    );

    let replay = |file: &str| {
        text(&session.environment.run(&[
            "trace",
            "replay",
            file,
            "--verify",
            "--link",
            "10mbit,40ms",
        ]))
    };
    let first = replay(whole);
    assert!(first.contains("byte for byte") && first.contains(" 0 refuted"), "{first}");
    assert_eq!(first, replay(whole), "the same file and options print the same");

    text(&session.environment.run(&["trace", "redact", whole, plain]));
    assert!(
        text(&session.environment.run(&["trace", "info", plain]))
            .contains("redacted: it does not show what was on the screen")
    );
    assert!(replay(plain).contains("byte for byte"));
    assert!(
        session.environment.fails(&["trace", "redact", whole, plain]).contains("exists"),
        "nothing is overwritten"
    );
    assert!(
        session.environment.fails(&["trace", "record", whole]).contains("exists"),
        "nor by a recording"
    );

    // In a trace that is cut anywhere, all complete turns are replayed, with all their pixels.
    let bytes = fs::read(whole).unwrap();
    for (at, tenths) in (1..10).enumerate() {
        let cut = folder.join(format!("cut{at}.trace"));
        fs::write(&cut, &bytes[..bytes.len() * tenths / 10]).unwrap();
        let output =
            session.environment.run(&["trace", "replay", cut.to_str().unwrap(), "--verify"]);
        assert!(failed(&output).contains("everything before was used"));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            printed.contains(" 0 refuted"),
            "cut after {tenths} tenths: {printed}{}",
            failed(&output)
        );
    }
    let stub = folder.join("stub.trace");
    fs::write(&stub, &bytes[..100]).unwrap();
    assert!(
        session
            .environment
            .fails(&["trace", "replay", stub.to_str().unwrap()])
            .contains("nothing to replay")
    );
}

#[test]
fn a_recording_of_a_killed_session_process_is_reported_as_cut() {
    let session = Session::start_with(TestEnvironment::new(), &[], DRAWS);
    let file = session.environment.folder.join("a.trace");
    let (mut recorder, mut said) = recording(&session, &[file.to_str().unwrap()]);
    let process = i32::try_from(session.pid("session")).unwrap();
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("the session process was killed"), "{line}");
    assert!(!recorder.wait().unwrap().success());
    assert!(
        session.environment.fails(&["trace", "info", file.to_str().unwrap()]).contains("at byte ")
    );
}

#[test]
fn a_recording_from_the_first_record_on_ends_with_the_session() {
    let environment = TestEnvironment::new();
    let file = environment.folder.join("a.trace");
    let file = file.to_str().unwrap();
    let mut session = Session::start_with(environment, &["--trace", file], DRAWS);
    session.viewer().wait_complete();
    text(&session.environment.run(&["stop", "t"]));
    session.end_code();
    let info = text(&session.environment.run(&["trace", "info", file]));
    assert!(info.contains("the session ended"), "{info}");
    assert!(
        text(&session.environment.run(&["trace", "replay", file, "--verify"]))
            .contains("byte for byte")
    );
    let words = failed(&session.environment.run(&["serve", "--trace", file, "--", "true"]));
    assert!(words.contains("the file exists already"), "{words}");
}

#[test]
fn a_killed_or_stopped_recorder_does_not_harm_the_session() {
    let session = Session::start_with(TestEnvironment::new(), &[], DRAWS);
    let path = |name: &str| session.environment.folder.join(name).to_str().unwrap().to_owned();
    let before = session.pid("session");

    let (mut killed, _said) = recording(&session, &[&path("a.trace")]);
    let words = session.environment.fails(&["trace", "record", "t", &path("b.trace")]);
    assert!(words.contains("the session is being traced already"), "{words}");
    assert!(!session.environment.folder.join("b.trace").exists(), "no empty file is left");
    killed.kill().unwrap();
    killed.wait().unwrap();

    // The next recording may start before the session has noticed the end of the last one.
    let (mut still, _said) = loop {
        let output =
            session.environment.run(&["trace", "record", "t", &path("c.trace"), "--for", "0.1"]);
        if output.status.success() {
            fs::remove_file(path("c.trace")).unwrap();
            break recording(&session, &[&path("c.trace")]);
        }
    };
    kill_process(Pid::from_child(&still), Signal::STOP).unwrap();
    // A viewer is still served.
    session.viewer().wait_complete();
    kill_process(Pid::from_child(&still), Signal::CONT).unwrap();
    kill_process(Pid::from_child(&still), Signal::INT).unwrap();
    assert!(still.wait().unwrap().success());
    let replay = text(&session.environment.run(&["trace", "replay", &path("c.trace"), "--verify"]));
    assert!(replay.contains("byte for byte"), "{replay}");
    assert_eq!(session.status()["pids"]["session"], before, "the session process is the same");
    assert_eq!(session.status()["restarts"], 0);
}

#[test]
fn a_full_disk_ends_the_recording_with_an_error() {
    let session = Session::start_with(TestEnvironment::new(), &["--size", "640x400"], DRAWS);
    let file = session.environment.folder.join("a.trace");
    // Like a disk of 64 KiB: the limit applies to the recording program, not to the session.
    let record = session.environment.thinc(&["trace", "record", "t", file.to_str().unwrap()]);
    let mut shell = session.environment.thinc(&[]);
    shell = {
        let mut limited = std::process::Command::new("sh");
        limited
            .args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh"])
            .arg(record.get_program());
        limited.args(record.get_args());
        for (name, value) in shell.get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        limited
    };
    let words = failed(&shell.stdin(Stdio::null()).output().unwrap());
    assert!(
        words.contains("the trace ends here") && words.contains("the session continues"),
        "{words}"
    );
    session.viewer().wait_complete();
    assert_eq!(session.status()["restarts"], 0);
    let cut = session.environment.run(&["trace", "replay", file.to_str().unwrap()]);
    let words = failed(&cut);
    assert!(words.contains("everything before was used"), "{words}");
    assert!(
        String::from_utf8_lossy(&cut.stdout).contains("records "),
        "the beginning was replayed"
    );
}
