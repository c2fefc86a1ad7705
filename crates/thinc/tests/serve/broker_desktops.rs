//! The list of a person's desktops behind `thinc broker`, with real accounts: what can be started,
//! and under which name. Needs root as broker.rs does. Knows HTTP and processes.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use crate::broker::{Broker, is_skipped, logged_in, open, open_called, sessions, start};
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

/// A request about one desktop.
fn post(browser: &Browser, path: &str, body: &Value) -> Answer {
    let (origin, secret) = (format!("https://{}", browser.address), browser.secret.clone());
    let headers = [
        ("Origin", origin.as_str()),
        ("Thinc-Origin-Secret", secret.as_deref().unwrap()),
        ("Content-Type", "application/json"),
    ];
    browser.open("POST", path, &headers, &body.to_string()).0
}

#[test]
fn a_name_for_people_is_kept_by_the_session_and_is_no_other_sessions() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let browser = logged_in(&broker, &anna);
    assert_eq!(start(&browser), "desk");
    let second = json!({ "what": "default", "name": "second" });
    assert_eq!(started(&start_chosen(&browser, &second)), "second");

    let rename = |name: &str, title: &str| {
        post(&browser, &format!("/desk/{name}/rename"), &json!({ "title": title }))
    };
    let titles = || -> Vec<(String, Option<String>)> {
        let listed: Value = serde_json::from_slice(&browser.get_as_page("/sessions").body).unwrap();
        let all = listed["sessions"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        all.map(|one| (text(&one["name"]).unwrap(), text(&one["title"]))).collect()
    };
    let both = |first: Option<&str>, second: Option<&str>| {
        let title = |title: Option<&str>| title.map(str::to_owned);
        vec![("desk".to_owned(), title(first)), ("second".to_owned(), title(second))]
    };
    assert_eq!(titles(), both(None, None));
    assert_eq!(rename("desk", " Straße  am Meer ").status, 204);
    assert_eq!(titles(), both(Some("Straße am Meer"), None));

    let refusals = [
        ("second", "straße am meer", 409, "desk is called"),
        ("second", "DESK", 409, "desk is called"),
        ("second", "", 400, "1 to 64"),
        ("second", "a\nb", 400, "1 to 64"),
        ("second", "\u{202e}x", 400, "1 to 64"),
        ("third", "x", 409, "no session called third"),
    ];
    for (name, title, status, text) in refusals {
        let answer = rename(name, title);
        assert_eq!(answer.status, status, "{name} {title}: {}", answer.text());
        assert!(answer.text().contains(text), "{name} {title}: {}", answer.text());
    }
    let long = "x".repeat(65);
    assert_eq!(rename("second", &long).status, 400);
    assert_eq!(rename("second", &"x".repeat(5000)).status, 413);
    // Nor has a new one the name that another is called by.
    assert_eq!(rename("second", "Third").status, 204);
    let third = json!({ "what": "default", "name": "third" });
    assert_eq!(start_chosen(&browser, &third).status, 409);

    // The supervisor keeps it, whatever becomes of the session process; a stranger learns nothing.
    let session = "pgrep --full -U $(id -u) '[t]hinc session --config .*/desk/'";
    assert!(anna.can(&format!("kill -KILL $({session})")));
    assert_eq!(titles(), both(Some("Straße am Meer"), Some("Third")));
    drop(open_called(&browser, "desk", "Straße am Meer").unwrap());
    let other = logged_in(&broker, &otto);
    assert_eq!(post(&other, "/desk/desk/rename", &json!({ "title": "mine" })).status, 409);
    assert_eq!(titles(), both(Some("Straße am Meer"), Some("Third")));
    // By its own name it is called nothing else.
    assert_eq!(rename("desk", "desk").status, 204);
    assert_eq!(titles(), both(None, Some("Third")));
}
