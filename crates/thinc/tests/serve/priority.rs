//! What answers the person who types is given the processor before what computes, and `thinc top`
//! says so. Control groups take a login: broker_limits.rs.

use std::fs;

use thinc_protocol::viewer::{Input, InputEvent, ViewerMessage};

use crate::harness::{Session, Viewer, wait_until};
use crate::sharing::send_all;

/// A job of three shells that compute, in a session of processes of its own, until the supervisor
/// has ended, killed by a test that fails too; and the program that is typed into, whose window is
/// mapped first. Three, so that no processor is idle: the job uses 80 % of one, or waits.
const COMMAND: &str = "setsid sh -c 'for one in 1 2 3; do while kill -0 $1; do :; done 2>&- &
     done; wait' hog $PPID & exec xterm -e cat";

fn session(options: &[&str]) -> Session {
    let command = ["--", "sh", "-c", COMMAND];
    Session::start(&[&["--window-manager", "none"], options, &command].concat())
}

fn top(session: &Session) -> serde_json::Value {
    let output = session.environment.run(&["top", "t", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A key, with the pointer over the terminal: without a window manager that is where keys go. Reads
/// what the session sends meanwhile.
pub(crate) fn press(viewer: &mut Viewer, seq: u32) {
    let key = |down| InputEvent::Key { code: 30, keysym: 0x61, down };
    let events = [InputEvent::Motion { x: 50, y: 50 }, key(true), key(false)];
    let input = |(seq, event)| ViewerMessage::Input(Input { seq, event });
    let messages: Vec<ViewerMessage> = (seq..).zip(events).map(input).collect();
    send_all(viewer, &messages);
}

/// Of the first process of this name that is in this group: its number.
fn placed(top: &serde_json::Value, name: &str, group: &str) -> Option<u32> {
    let processes = top["processes"].as_array().unwrap();
    let found = processes.iter().find(|one| one["name"] == name && one["group"] == group)?;
    Some(found["pid"].as_u64().unwrap() as u32)
}

/// The kernel's nice value of a process.
fn nice(pid: u32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().parse().unwrap()
}

#[test]
fn what_is_typed_into_answers_and_what_computes_is_nice() {
    let session = session(&[]);
    let mut viewer = session.viewer();
    viewer.wait_complete();
    let before = top(&session);
    assert_eq!(before["is_on"], true);
    let mut seq = 1;
    // Until the terminal has its window, and the shells have computed for five seconds, or were
    // ready to run for thirty because other tests compute too.
    let (typed, hog) = wait_until("both have their place", || {
        press(&mut viewer, seq);
        seq += 3;
        let top = top(&session);
        let typed = placed(&top, "xterm", "answers").filter(|&pid| top["typed"] == pid)?;
        Some((typed, placed(&top, "sh", "computes")?))
    });
    let shown = top(&session);
    for server in ["xorg", "session", "supervisor"] {
        let pid = session.pid(server);
        let is_it = |one: &&serde_json::Value| one["pid"] == pid;
        let found = shown["processes"].as_array().unwrap().iter().find(is_it).unwrap();
        assert_eq!(found["group"], "answers", "{server}: {found}");
    }
    assert_eq!(nice(typed), nice(std::process::id()));
    // On a crowded machine it may get little for a moment, and then much again.
    wait_until("it is nice", || (nice(hog) == 19).then_some(()));
    let moved = shown["moved"].as_array().unwrap();
    let of_hog = moved.iter().find(|one| one["pid"] == hog && one["to"] == "computes").unwrap();
    let reason = of_hog["reason"].as_str().unwrap();
    let words = ["of a processor for 5 s", "was ready to run for 30 s"];
    assert!(words.iter().any(|words| reason.contains(words)), "{of_hog}");
    assert!(of_hog["error"].is_null());
    let text = session.environment.run(&["top", "t"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("its window is typed into") && text.contains("made nice"), "{text}");
}

#[test]
fn nothing_is_moved_with_priority_off() {
    let session = session(&["--priority", "off"]);
    let mut viewer = session.viewer();
    viewer.wait_complete();
    press(&mut viewer, 1);
    let shown = top(&session);
    assert_eq!((&shown["is_on"], shown["processes"].as_array().unwrap().len()), (&false.into(), 0));
    let text = session.environment.run(&["top", "t", "--once"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert_eq!(text, "The session t runs with --priority off: nothing is moved.\n");
}
