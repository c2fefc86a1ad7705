//! `thinc trace` with real sessions: what is recorded can be replayed, and no recording harms a session.
//! Uses harness.rs; X is drawn on with an X client of the system.
//! Knows files and exit codes; what is in a trace, crates/trace tests.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Place, Session, failed};

/// Draws for as long as it lives: windows, text, a menu bar's worth of lines.
const DRAWS: &[&str] = &["xterm", "-geometry", "80x24+0+0", "-e", "sh", "-c", "while :; do ls -l /usr/lib; done"];

fn text(output: &std::process::Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A recording that has begun.
fn recording(session: &Session, arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = session.place.thinc(&[&["trace", "record", "t"], arguments].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("Recording the session t into "), "{line}");
    (child, said)
}

#[test]
fn what_is_recorded_is_replayed_exactly_and_redacted() {
    let session = Session::start_with(Place::new(), &["--size", "640x400"], DRAWS);
    let folder = session.place.folder.clone();
    let (whole, plain) = (folder.join("a.trace"), folder.join("b.trace"));
    let (whole, plain) = (whole.to_str().unwrap(), plain.to_str().unwrap());
    let output = session.place.run(&["trace", "record", whole, "--for", "1.5"]);
    assert!(text(&output).contains("Ctrl-C ends it"));
    let info = text(&session.place.run(&["trace", "info", whole]));
    assert!(
        info.contains("not redacted") && info.contains("640 × 400") && info.contains("when it was enough"),
        "{info}"
    );

    let replay = |file: &str| text(&session.place.run(&["trace", "replay", file, "--verify", "--link", "10mbit,40ms"]));
    let first = replay(whole);
    assert!(first.contains("byte for byte") && first.contains(" 0 refused"), "{first}");
    assert_eq!(first, replay(whole), "the same file and options print the same");

    text(&session.place.run(&["trace", "redact", whole, plain]));
    assert!(
        text(&session.place.run(&["trace", "info", plain])).contains("redacted: nothing of what was on the screen")
    );
    assert!(replay(plain).contains("byte for byte"));
    assert!(session.place.fails(&["trace", "redact", whole, plain]).contains("exists"), "nothing is written over");
    assert!(session.place.fails(&["trace", "record", whole]).contains("exists"), "nor by a recording");

    // Cut anywhere, all looks before are replayed, and none of which pixels are missing.
    let bytes = fs::read(whole).unwrap();
    for (at, tenths) in (1..10).enumerate() {
        let cut = folder.join(format!("cut{at}.trace"));
        fs::write(&cut, &bytes[..bytes.len() * tenths / 10]).unwrap();
        let output = session.place.run(&["trace", "replay", cut.to_str().unwrap(), "--verify"]);
        assert!(failed(&output).contains("everything before was used"));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(" 0 refused"), "cut after {tenths} tenths: {printed}{}", failed(&output));
    }
    let stub = folder.join("stub.trace");
    fs::write(&stub, &bytes[..100]).unwrap();
    assert!(session.place.fails(&["trace", "replay", stub.to_str().unwrap()]).contains("nothing to replay"));
}

#[test]
fn a_recording_of_a_session_process_that_is_killed_says_that_it_is_cut() {
    let session = Session::start_with(Place::new(), &[], DRAWS);
    let file = session.place.folder.join("a.trace");
    let (mut recorder, mut said) = recording(&session, &[file.to_str().unwrap()]);
    let process = i32::try_from(session.pid("session")).unwrap();
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("the session process broke off"), "{line}");
    assert!(!recorder.wait().unwrap().success());
    assert!(session.place.fails(&["trace", "info", file.to_str().unwrap()]).contains("at byte "));
}

#[test]
fn a_recording_from_the_first_record_on_ends_with_the_session() {
    let place = Place::new();
    let file = place.folder.join("a.trace");
    let file = file.to_str().unwrap();
    let mut session = Session::start_with(place, &["--trace", file], DRAWS);
    session.viewer().whole();
    text(&session.place.run(&["stop", "t"]));
    session.end_code();
    let info = text(&session.place.run(&["trace", "info", file]));
    assert!(info.contains("with the session"), "{info}");
    assert!(text(&session.place.run(&["trace", "replay", file, "--verify"])).contains("byte for byte"));
    let words = failed(&session.place.run(&["serve", "--trace", file, "--", "true"]));
    assert!(words.contains("there is such a file already"), "{words}");
}

#[test]
fn a_recorder_that_is_killed_or_stands_still_harms_nothing() {
    let session = Session::start_with(Place::new(), &[], DRAWS);
    let path = |name: &str| session.place.folder.join(name).to_str().unwrap().to_owned();
    let before = session.pid("session");

    let (mut killed, _said) = recording(&session, &[&path("a.trace")]);
    let words = session.place.fails(&["trace", "record", "t", &path("b.trace")]);
    assert!(words.contains("the session is being traced already"), "{words}");
    assert!(!session.place.folder.join("b.trace").exists(), "no file is left for nothing");
    killed.kill().unwrap();
    killed.wait().unwrap();

    // The next one may come before the session has noticed that the last has gone.
    let (mut still, _said) = loop {
        let output = session.place.run(&["trace", "record", "t", &path("c.trace"), "--for", "0.1"]);
        if output.status.success() {
            fs::remove_file(path("c.trace")).unwrap();
            break recording(&session, &[&path("c.trace")]);
        }
    };
    kill_process(Pid::from_child(&still), Signal::STOP).unwrap();
    // Served all the same, and to the end.
    session.viewer().whole();
    kill_process(Pid::from_child(&still), Signal::CONT).unwrap();
    kill_process(Pid::from_child(&still), Signal::INT).unwrap();
    assert!(still.wait().unwrap().success());
    let replay = text(&session.place.run(&["trace", "replay", &path("c.trace"), "--verify"]));
    assert!(replay.contains("byte for byte"), "{replay}");
    assert_eq!(session.status()["pids"]["session"], before, "the session process is the same");
    assert_eq!(session.status()["restarts"], 0);
}

#[test]
fn a_full_disk_ends_the_recording_and_says_so() {
    let session = Session::start_with(Place::new(), &["--size", "640x400"], DRAWS);
    let file = session.place.folder.join("a.trace");
    // As a disk of 64 KiB would: the limit is on the program that records, not on the session.
    let record = session.place.thinc(&["trace", "record", "t", file.to_str().unwrap()]);
    let mut shell = session.place.thinc(&[]);
    shell = {
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh"]).arg(record.get_program());
        limited.args(record.get_args());
        for (name, value) in shell.get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        limited
    };
    let words = failed(&shell.stdin(Stdio::null()).output().unwrap());
    assert!(words.contains("the trace ends here") && words.contains("the session goes on"), "{words}");
    session.viewer().whole();
    assert_eq!(session.status()["restarts"], 0);
    let cut = session.place.run(&["trace", "replay", file.to_str().unwrap()]);
    let words = failed(&cut);
    assert!(words.contains("everything before was used"), "{words}");
    assert!(String::from_utf8_lossy(&cut.stdout).contains("records "), "and it was");
}
