//! What `thinc broker` and the desktops behind it log: lines that a program reads, with the session
//! that each is of, and no secret. Needs root as broker.rs does. Knows HTTP, files and JSON.

use std::fs;

use serde_json::Value;

use crate::broker::{Broker, RIGHT, is_skipped, log_in, logged_in, open, start};
use crate::harness::wait_until;

/// Every line is an object.
fn lines(text: &str) -> Vec<Value> {
    let read = |line: &str| -> Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    text.lines().map(read).collect()
}

#[test]
fn every_line_of_the_log_is_an_object_that_names_process_person_and_session() {
    if is_skipped() {
        return;
    }
    let broker = Broker::with_config(|_| "log-format = 'json'\n".to_owned());
    let anna = broker.account();
    assert_eq!(log_in(&mut broker.browser(), "my secret 7", "x").status, 401);
    assert_eq!(log_in(&mut broker.browser(), &anna.name, "wrong secret").status, 401);
    let browser = logged_in(&broker, &anna);
    let name = start(&browser);
    drop(open(&browser, &name).unwrap());
    let of = |found: &[Value], part: &str, words: &str| {
        let is_it = |line: &&Value| {
            line["part"] == part && line["message"].as_str().is_some_and(|m| m.contains(words))
        };
        found.iter().find(is_it).cloned()
    };
    let left = wait_until("her viewer's end", || of(&lines(&broker.log()), "front", "has left"));
    assert_eq!((&left["user"], &left["session"]), (&anna.name.as_str().into(), &"desk".into()));
    let connection = &left["connection"];
    assert!(connection.is_u64(), "{left}");
    let all = lines(&broker.log());
    let opened = of(&all, "front", "opens desk").unwrap();
    assert_eq!(opened["connection"], *connection);
    let refused = of(&all, "login", "login of an unknown account").unwrap();
    assert_eq!((&refused["level"], &refused["from"]), (&"INFO".into(), &"127.0.0.1".into()));
    assert_eq!(of(&all, "login", "logged in from").unwrap()["user"], anna.name.as_str());
    for line in &all {
        let is_audit = line.get("event").is_some();
        assert!(is_audit || line["pid"].is_u64() && line["level"].is_string(), "{line}");
    }
    // The audit log's lines are what they are in its file.
    let audit = fs::read_to_string(broker.folder.join("audit")).unwrap();
    let journal = broker.log();
    assert!(audit.lines().all(|line| journal.lines().any(|other| other == line)), "{journal}");

    // The desktop's own log, by the person.
    let path = broker.folder.join("home").join(&anna.name);
    let path = path.join(".local/state/thinc/log/desk/session.log");
    let session = fs::read_to_string(&path).unwrap();
    let connected = of(&lines(&session), "session", ": connected").unwrap();
    assert_eq!(connected["user"], anna.name.as_str(), "{connected}");
    assert_eq!(connected["session"], "desk", "{connected}");
    assert!(connected["connection"].is_u64(), "{connected}");

    let cookie = browser.cookie.as_deref().unwrap().split('=').nth(1).unwrap();
    for secret in [RIGHT, "secret", cookie, browser.secret.as_deref().unwrap()] {
        assert!(!journal.contains(secret) && !session.contains(secret), "{secret} is logged");
    }
}
