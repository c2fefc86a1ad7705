//! The list of a person's desktops behind `thinc broker`, with real accounts: what can be started,
//! and under which name. Needs root as broker.rs does. Knows HTTP and processes.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use crate::broker::{Broker, is_skipped, logged_in, open, sessions, start};
use crate::harness::{Answer, Browser};

/// A request to start what the body says.
pub(crate) fn start_chosen(browser: &Browser, body: &Value) -> Answer {
    let (origin, secret) = (format!("https://{}", browser.address), browser.secret.clone());
    let headers =
        [("Origin", origin.as_str()), ("Thinc-Origin-Secret", secret.as_deref().unwrap())];
    browser.open("POST", "/start", &headers, &body.to_string()).0
}

/// The name of what was started.
pub(crate) fn started(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let started: Value = serde_json::from_slice(&answer.body).unwrap();
    started["name"].as_str().unwrap().to_owned()
}

#[test]
fn a_person_chooses_a_desktop_or_a_program_and_names_it() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let share = broker.folder.join("share");
    fs::create_dir_all(share.join("xsessions")).unwrap();
    let entry = |id: &str, text: &str| {
        let text = format!("[Desktop Entry]\nType=Application\n{text}\n");
        fs::write(share.join(format!("xsessions/{id}.desktop")), text).unwrap();
    };
    entry("garden", "Name=The Garden\nExec=desk --green");
    entry("gone", "Name=Gone\nExec=there-is-no-such-program");
    let environment = broker.folder.join("environment");
    let mut variables = fs::read_to_string(&environment).unwrap();
    writeln!(variables, "XDG_DATA_DIRS={}", share.display()).unwrap();
    fs::write(&environment, variables).unwrap();

    let anna = broker.account();
    let browser = logged_in(&broker, &anna);
    let choices = browser.get_as_page("/choices");
    assert_eq!(choices.status, 200, "{}", choices.text());
    let choices: Value = serde_json::from_slice(&choices.body).unwrap();
    assert_eq!(choices, json!({ "desktops": [{ "id": "garden", "name": "The Garden" }] }));

    // The usual one, the same a second time, a desktop of the list, and a program.
    assert_eq!(start(&browser), "desk");
    let second = json!({ "what": "default", "name": "second" });
    assert_eq!(started(&start_chosen(&browser, &second)), "second");
    let garden = json!({ "what": { "desktop": "garden" } });
    assert_eq!(started(&start_chosen(&browser, &garden)), "garden");
    let program = json!({ "what": { "program": "sleep '1000'" }, "name": null });
    assert_eq!(started(&start_chosen(&browser, &program)), "sleep");
    let mut all = sessions(&browser);
    all.sort();
    assert_eq!(all, ["desk", "garden", "second", "sleep"]);
    assert!(anna.can("pgrep --full -U $(id -u) '^/bin/sh .*/desk --green|^sleep 100000$'"));
    assert!(anna.can("pgrep --full -U $(id -u) 'sleep 1000$'"));
    drop(open(&browser, "second").unwrap());

    // A name that runs already is not opened instead, and nothing is started that is not there.
    let refusals = [
        (second, 409, "second is running already"),
        (json!({ "what": { "desktop": "gone" } }), 409, "gone"),
        (json!({ "what": { "program": "there-is-no-such-program" } }), 409, "there-is-no-such"),
        (json!({ "what": { "program": "sleep 'a" } }), 409, "quote"),
        (json!({ "what": { "program": " " } }), 409, "no program"),
        (json!({ "what": "default", "name": "../x" }), 400, "A-Z"),
        (json!({ "what": { "program": "x".repeat(1025) } }), 400, "1024"),
        (json!({ "what": { "program": "x".repeat(5000) } }), 413, "4096"),
        (json!({ "else": 1 }), 400, "expected"),
    ];
    for (body, status, text) in refusals {
        let answer = start_chosen(&browser, &body);
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        assert!(answer.text().contains(text), "{body}: {}", answer.text());
    }
    let stranger = broker.browser();
    assert_eq!(stranger.get_as_page("/choices").status, 401);
    assert_eq!(sessions(&browser).len(), 4);
}
