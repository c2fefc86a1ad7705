//! Ending: who is asked to end takes everything with it; who is killed takes nothing that should live.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::{ConnectError, ConnectOptions, connect};

use crate::harness::{Place, Said, Session, Viewer, lives, timed, wait_for_end};

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn stop_ends_all_of_it_and_tells_the_viewers() {
    let mut session = Session::start_with(Place::new(), &[], &["sh", "-c", "sleep 1000 & setsid sleep 20; wait"]);
    let mut viewer = session.viewer();
    viewer.whole();
    let output = session.place.run(&["stop", "t"]);
    assert!(output.status.success());
    assert_eq!(viewer.closed(), (CloseCode::SessionEnded, "the session ended".to_owned()));
    assert_eq!(session.end_code(), Some(0));
    for part in ["xorg", "session", "command"] {
        assert!(!lives(session.pid(part)), "{part} outlived the session");
    }
    assert_eq!(std::fs::read_dir(session.place.folder.join("run/thinc")).unwrap().count(), 0, "nothing is left");
    let words = session.place.fails(&["stop", "t"]);
    assert!(words.contains("no session called t is running"), "{words}");
    let list = session.place.run(&["list"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains("No session is running"));
}

#[test]
fn the_session_ends_with_its_command_and_as_it_did() {
    let place = Place::new();
    let output = place.run(&["serve", "--listen", "127.0.0.1:0", "--", "sh", "-c", "echo the last words >&2; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the last words"));
}

#[test]
fn a_hang_up_ends_nothing_and_an_interrupt_ends_everything() {
    let mut session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.whole();
    session.signal_job(Signal::HUP);
    // The answer comes from the same loop: the hang-up has been dealt with.
    assert_eq!(session.status()["pids"]["session"], session.pid("session"));
    viewer.say(&ViewerMessage::Barrier(2));
    viewer.until(|said| *said == Said::Barrier(2));
    session.signal_job(Signal::INT);
    assert_eq!(viewer.closed(), (CloseCode::SessionEnded, "the session ended".to_owned()), "viewers are told");
    assert_eq!(session.end_code(), Some(0));
    assert!(!lives(session.pid("xorg")) && !lives(session.pid("command")));
}

#[test]
fn a_killed_session_process_is_back_within_a_second() {
    let session = Session::start(&[]);
    let link = session.link();
    let mut viewer = Viewer::new(connect(&link, &ConnectOptions::default()).unwrap());
    viewer.whole();
    let key = ConnectOptions { session_key: Some(viewer.session_key.clone()), ..ConnectOptions::default() };
    let (size, took) = timed(|| {
        kill(session.pid("session"), Signal::KILL);
        while viewer.next().is_some() {}
        Viewer::new(connect(&link, &key).unwrap()).whole()
    });
    assert_eq!((size.width, size.height), (1280, 800));
    assert!(took < Duration::from_secs(1), "it took {took:?} to see the whole screen again");
    assert!(lives(session.pid("xorg")) && lives(session.pid("command")), "the applications live on");
    let status = session.status();
    assert_ne!(status["pids"]["session"], session.pid("session"));
    assert_eq!(status["restarts"], 1);
    // The token was used before the crash: the new process must know.
    let refused = connect(&link, &ConnectOptions::default()).unwrap_err();
    assert!(matches!(refused, ConnectError::Refused { code: CloseCode::Unauthorized, .. }), "{refused}");
}

#[test]
fn a_session_process_that_keeps_dying_is_started_again_all_the_same() {
    let session = Session::start(&[]);
    let mut pid = session.pid("session");
    for deaths in 1..=3u64 {
        kill(pid, Signal::KILL);
        wait_for_end(pid);
        // Whoever connects waits in the socket until there is a session process again.
        session.viewer().whole();
        let status = session.status();
        assert_eq!(status["restarts"], deaths);
        pid = u32::try_from(status["pids"]["session"].as_u64().unwrap()).unwrap();
    }
    assert!(lives(session.pid("xorg")));
}

#[test]
fn an_x_server_that_dies_ends_the_session_with_the_reason() {
    let mut session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.whole();
    kill(session.pid("xorg"), Signal::KILL);
    assert_eq!(viewer.closed(), (CloseCode::SessionEnded, "the session ended".to_owned()), "nobody waits for it");
    assert_eq!(session.end_code(), Some(1));
    assert!(!lives(session.pid("session")) && !lives(session.pid("command")));
}

#[test]
fn a_killed_supervisor_leaves_nothing_that_nobody_could_stop() {
    let mut session = Session::start(&[]);
    session.signal(Signal::KILL);
    session.child.wait().unwrap();
    for part in ["xorg", "session", "command"] {
        wait_for_end(session.pid(part));
    }
    // Its folder is there, but no lock is held on it: the name is free.
    assert!(session.place.folder.join("run/thinc/t").exists());
    let output = session.place.run(&["serve", "--listen", "127.0.0.1:0", "--name", "t", "--", "sh", "-c", "exit 0"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn detached_it_goes_on_when_the_one_who_started_it_has_gone() {
    let place = Place::new();
    let output = place.run(&["serve", "--detach", "--listen", "127.0.0.1:0", "--name", "d", "--", "sleep", "1000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let link = said.split_whitespace().find(|word| word.starts_with("https://")).unwrap().parse().unwrap();
    Viewer::new(connect(&link, &ConnectOptions::default()).unwrap()).whole();
    let status: serde_json::Value = serde_json::from_slice(&place.run(&["list", "--json"]).stdout).unwrap();
    let supervisor = status[0]["pids"]["supervisor"].as_u64().unwrap();
    assert!(place.run(&["stop", "d"]).status.success());
    wait_for_end(u32::try_from(supervisor).unwrap());
}

#[test]
fn detached_what_goes_wrong_is_said_to_the_one_who_waits() {
    let session = Session::start(&[]);
    let address = session.address().to_string();
    let words = session.place.fails(&["serve", "--detach", "--listen", &address, "--name", "d", "--", "sleep", "1000"]);
    assert!(words.contains("in use"), "{words}");
}
