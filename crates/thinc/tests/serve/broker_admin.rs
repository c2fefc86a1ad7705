//! What an administrator has of `thinc broker`. Beside the path: the program is driven from
//! outside, as root where accounts are needed; without, such a test says so and passes. Knows
//! files and processes.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use thinc_protocol::auth::{AuthPrompt, PromptStyle};
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerCaps;
use thinc_transport::{ConnectError, ConnectOptions, Link, connect, establish};

use crate::broker::{Account, Broker, RIGHT, is_skipped, log_in, logged_in, open, post, start};
use crate::harness::{Message, Viewer, connect_options, wait_until};

/// `thinc broker --check` with this configuration.
fn check(file: &Path, text: &str, more: &[&str]) -> (Output, String) {
    fs::write(file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_thinc"));
    command.args(["broker", "--check", "--config"]).arg(file).args(more);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn a_configuration_is_checked_without_starting_anything() {
    let file = std::env::temp_dir().join(format!("thinc-check-{}.toml", std::process::id()));
    // PAM's rules of some service, and an account, that every system has.
    let rules = fs::read_dir("/etc/pam.d").unwrap().next().unwrap().unwrap().file_name();
    let right = format!("front-user = 'nobody'\npam-service = {rules:?}\n");
    let (output, said) = check(&file, &right, &[]);
    assert!(output.status.success() && said.is_empty(), "{said}");

    let (output, said) = check(&file, &format!("{right}listen = 443\n"), &[]);
    assert!(!output.status.success());
    let place = format!("{}:3: listen = 443: it has to be an address", file.display());
    assert!(said.contains(&place), "{said}");

    let (_, said) = check(&file, &right.replace("nobody", "no-such-account"), &[]);
    assert!(said.contains("no account no-such-account"), "{said}");
    let (_, said) = check(&file, &right, &["--front-user", "root"]);
    assert!(said.contains("this account is root"), "the command line takes precedence: {said}");
    let banner = file.with_extension("banner");
    fs::write(&banner, "Welcome.\n\x1b[2J").unwrap();
    let (_, said) = check(&file, &format!("{right}banner = {banner:?}\n"), &[]);
    let place = format!("banner: {}: line 2 of the banner contains", banner.display());
    assert!(said.contains(&place), "{said}");
    fs::remove_file(&banner).unwrap();
    let keys = "tls-cert = '/no/such.pem'\ntls-key = '/no/such.pem'\n";
    let (_, said) = check(&file, &format!("{right}{keys}"), &[]);
    assert!(said.contains("/no/such.pem"), "{said}");
    let (_, said) = check(&file, &format!("{right}metrics = '0.0.0.0:9187'\n"), &[]);
    let place =
        format!("{}:3: metrics = \"0.0.0.0:9187\": it has to be an address", file.display());
    assert!(said.contains(&place) && said.contains("this machine alone"), "{said}");
    let (output, said) = check(&file, &format!("{right}metrics = '[::1]:9187'\n"), &[]);
    assert!(output.status.success(), "{said}");
    fs::remove_file(&file).unwrap();
}

/// The events of the audit log, once there are as many.
pub(crate) fn audited(broker: &Broker, count: usize) -> Vec<Value> {
    let path = broker.folder.join("audit");
    wait_until("the audit log", || {
        let text = fs::read_to_string(&path).unwrap();
        let events: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (events.len() >= count).then_some(events)
    })
}

#[test]
fn the_audit_log_says_who_did_what_from_where_and_no_secret() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let anna = broker.account();
    // A password in the field of the name is in no line.
    assert_eq!(log_in(&mut broker.browser(), "my secret 7", "x").status, 401);
    assert_eq!(log_in(&mut broker.browser(), &anna.name, "wrong secret").status, 401);
    let browser = logged_in(&broker, &anna);
    let name = start(&browser);
    start(&browser);
    drop(open(&browser, &name).unwrap());
    audited(&broker, 6);
    let viewer = open(&browser, &name).unwrap();
    audited(&broker, 7);
    let front = broker.front();
    kill_process(Pid::from_raw(front as i32).unwrap(), Signal::KILL).unwrap();
    audited(&broker, 8);
    drop(viewer);
    assert_eq!(post(&browser, &format!("/desk/{name}/end")).status, 204);
    assert_eq!(post(&browser, "/logout").status, 204);
    let events = audited(&broker, 11);

    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let expected = [
        "refusal",
        "refusal",
        "login",
        "session-started",
        "session-opened",
        "session-left",
        "session-opened",
        "session-left",
        "session-ended",
        "logout",
        "processes-ended",
    ];
    assert_eq!(names[..9], expected[..9], "{events:?}");
    // The login process and the front report to the helper by themselves.
    assert!(expected[9..].iter().all(|name| names[9..].contains(name)), "{names:?}");
    assert!(events[0].get("user").is_none(), "no account has this name: {}", events[0]);
    for event in &events[1..] {
        assert_eq!(event["user"], anna.name.as_str(), "{event}");
        let ago = humantime::parse_rfc3339(event["time"].as_str().unwrap()).unwrap().elapsed();
        assert!(ago.unwrap().as_secs() < 600, "{event}");
    }
    for event in &events[2..] {
        assert_eq!(event["login"], 1, "{event}");
    }
    for event in &events[..9] {
        assert_eq!(event["from"], "127.0.0.1", "{event}");
    }
    for event in &events[3..9] {
        assert_eq!(event["session"], name.as_str(), "{event}");
    }
    assert_eq!(events[7]["reason"], "the front has ended");
    for event in &events {
        let lasts = ["session-left", "logout", "processes-ended"];
        let has = event.get("seconds").is_some_and(Value::is_u64);
        assert_eq!(has, lasts.contains(&event["event"].as_str().unwrap()), "{event}");
    }

    let path = broker.folder.join("audit");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    let cookie = browser.cookie.as_deref().unwrap().split('=').nth(1).unwrap();
    for secret in [RIGHT, "secret", cookie, browser.secret.as_deref().unwrap()] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    // The journal has the same lines.
    let journal = broker.log();
    assert!(text.lines().all(|line| journal.contains(&format!("thinc: audit: {line}"))));
}

/// `thinc admin` as root.
fn admin(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thinc")).arg("admin").args(arguments).output().unwrap()
}

/// The desktops of this user, of all that `thinc admin` lists.
fn desktops_of(user: &str) -> Vec<Value> {
    listed(user, &[])
}

/// The same, of a broker with a folder of its own.
fn listed(user: &str, broker: &[&str]) -> Vec<Value> {
    let output = admin(&[&["sessions", "--json"], broker].concat());
    assert!(output.status.success(), "{output:?}");
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    all.into_iter().filter(|desktop| desktop["user"] == user).collect()
}

#[test]
fn an_administrator_lists_and_ends_the_desktops_of_everybody() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let (hers, his) = (logged_in(&broker, &anna), logged_in(&broker, &otto));
    let name = start(&hers);
    assert_eq!(start(&his), name);
    let [desktop] = &desktops_of(&anna.name)[..] else { panic!("she has one") };
    assert_eq!(desktop["name"], name.as_str());
    assert!(desktop["age_s"].as_u64().unwrap() < 600, "{desktop}");
    // The supervisor, its X server, the session process and the command.
    assert!(desktop["processes"].as_u64().unwrap() >= 4, "{desktop}");
    assert!(desktop["memory_bytes"].as_u64().unwrap() > 8 << 20, "{desktop}");
    let table = String::from_utf8(admin(&["sessions"]).stdout).unwrap();
    // How wide a column is depends on the others' names.
    let is_hers = |line: &str| line.split_whitespace().take(2).eq([anna.name.as_str(), &name]);
    assert!(table.lines().any(is_hers), "{table}");

    // Not by somebody without privileges, and not one that is not there.
    assert!(!anna.can(&format!("{}/bin/thinc admin sessions", broker.folder.display())));
    let wrong = admin(&["end", &anna.name, "other"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(!wrong.status.success() && said.contains("there is desk"), "{said}");

    // Who shows it and since when; the broker knows the address.
    assert_eq!(desktop["viewers"], Value::Array(Vec::new()));
    let viewer = open(&hers, &name).unwrap();
    let state = broker.folder.join("state");
    let state = state.to_str().unwrap();
    let told = wait_until("her viewer", || {
        let [desktop] = &listed(&anna.name, &["--state", state])[..] else { panic!("one") };
        let [viewer] = &desktop["viewers"].as_array().unwrap()[..] else { return None };
        Some(viewer.clone())
    });
    assert_eq!(told["from"], "127.0.0.1 (through the broker)", "{told}");
    assert!(told["age_s"].as_u64().unwrap() < 600 && told["guest"].is_null(), "{told}");
    let line = |arguments: &[&str]| {
        let table = String::from_utf8(admin(arguments).stdout).unwrap();
        table.lines().find(|line| is_hers(line)).unwrap().to_owned()
    };
    let shown = line(&["sessions", "--state", state]);
    assert!(shown.contains("  1: 127.0.0.1 (through the broker) ("), "{shown}");
    // Without the broker the desktop's word stays.
    let none = broker.folder.join("home");
    let shown = line(&["sessions", "--state", none.to_str().unwrap()]);
    assert!(shown.contains("  1: this machine (process "), "{shown}");
    drop(viewer);

    // The audit log has what the administrator does.
    let words = ["message", "Good evening.", "--user", &anna.name, "--state", state];
    assert!(admin(&words).status.success());
    let ended = admin(&["end", &anna.name, &name, "--state", state]);
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    let text = fs::read_to_string(broker.folder.join("audit")).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in ["message", "session-ended"] {
        let found: Vec<_> = events.iter().filter(|entry| entry["event"] == event).collect();
        let [entry] = found[..] else { panic!("{event}: {text}") };
        assert_eq!(entry["user"], anna.name.as_str(), "{entry}");
        assert_eq!(entry["session"], name.as_str(), "{entry}");
        assert_eq!(entry["reason"], "by the administrator", "{entry}");
    }
    assert!(!text.contains("Good evening"), "{text}");
    assert!(desktops_of(&anna.name).is_empty());
    assert_eq!(desktops_of(&otto.name).len(), 1, "his goes on");
    let again = admin(&["end", &anna.name, &name]);
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(!again.status.success() && said.contains("has no desktop"), "{said}");
}

#[test]
fn an_administrator_drains_the_broker_and_desktops_go_on() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let (hers, his) = (logged_in(&broker, &anna), logged_in(&broker, &otto));
    let name = start(&hers);
    let viewer = open(&hers, &name).unwrap();
    let state = broker.folder.join("state");
    let drain = |more: &[&str]| {
        let state = state.to_str().unwrap();
        let output = admin(&[&["drain", "--state", state], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let refused = || {
        let answer = log_in(&mut broker.browser(), &anna.name, RIGHT);
        assert_eq!(answer.status, 503, "{}", answer.text());
        let answer = post(&his, "/start");
        assert_eq!(answer.status, 409);
        assert!(answer.text().contains("no new desktops"), "{}", answer.text());
        assert_eq!(start(&hers), name, "she has one");
        // The login was answered after the front had been told.
        assert_eq!(broker.browser().get("/health").status, 503);
    };
    assert_eq!(broker.browser().get("/health").text(), "ok");
    let said = drain(&[]);
    assert!(said.contains("takes no new logins. It has 2 logins and 1 viewers."), "{said}");
    refused();
    // A viewer in a window learns that it may come back later: its login is not wrong.
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let known_hosts = Some(broker.folder.join("known-hosts"));
    let options = ConnectOptions { known_hosts, ..connect_options() };
    let answer =
        &mut |prompts: &[AuthPrompt<'_>]| Some(vec![RIGHT.as_bytes().to_vec(); prompts.len()]);
    let error = establish(&link, &options).unwrap().log_in(&anna.name, answer).unwrap_err();
    let ConnectError::Refused { code: CloseCode::Restart, reason } = error else {
        panic!("{error:?}")
    };
    assert!(reason.contains("maintenance"), "{reason}");
    // The next front knows it too.
    kill_process(Pid::from_raw(broker.front() as i32).unwrap(), Signal::KILL).unwrap();
    let mut rest = Vec::new();
    let _ = { viewer }.read_to_end(&mut rest);
    drop(open(&hers, &name).unwrap());
    refused();

    let socket = state.join("admin.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let program = broker.folder.join("bin/thinc");
    assert!(!anna.can(&format!(
        "{} admin drain --off --state {}",
        program.display(),
        state.display()
    )));
    let said = drain(&["--off"]);
    assert!(said.contains("takes logins. It has 2 logins"), "{said}");
    // A login first: it is answered after the front has been told.
    assert_eq!(log_in(&mut broker.browser(), &anna.name, RIGHT).status, 200);
    assert_eq!(broker.browser().get("/health").status, 200);
    start(&his);
}

#[test]
fn a_desktop_that_nobody_shows_ends_when_the_administrator_wants_it() {
    if is_skipped() {
        return;
    }
    let broker = Broker::with_config(|_| "end-disconnected = '1s'\n".to_owned());
    let anna = broker.account();
    let browser = logged_in(&broker, &anna);
    assert_eq!(start(&browser), "desk");
    wait_until("the desktop's end", || desktops_of(&anna.name).is_empty().then_some(()));
    // She gets a new one.
    assert_eq!(start(&browser), "desk");
}

/// A viewer in a window that has logged in, and can show messages.
pub(crate) fn viewer_of(broker: &Broker, account: &Account) -> Viewer {
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let options = ConnectOptions {
        known_hosts: Some(broker.folder.join(format!("known-{}", account.name))),
        ..connect_options()
    };
    let reached = establish(&link, &options).unwrap();
    let credential =
        reached.log_in(&account.name, &mut |_| Some(vec![RIGHT.as_bytes().to_vec()])).unwrap();
    let options = ConnectOptions { session_credential: Some(credential), ..options };
    Viewer::with_caps(connect(&link, &options).unwrap(), ViewerCaps::NOTICE)
}

#[test]
fn a_message_of_the_administrator_is_shown_at_once_or_to_the_next_viewer() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    for account in [&anna, &otto] {
        start(&logged_in(&broker, account));
    }
    let said = |arguments: &[&str]| {
        let output = admin(&[&["message"], arguments].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let to = |account: &Account, text: &str| said(&["--user", &account.name, text]);
    let answer = to(&anna, "This server restarts at six.");
    assert_eq!(
        answer,
        format!("desk of {}: nobody is there; it is shown at the next connection\n", anna.name)
    );
    let notice =
        |viewer: &mut Viewer| match viewer.until(|message| matches!(message, Message::Notice(_))) {
            Message::Notice(text) => text,
            other => panic!("{other:?}"),
        };
    let mut hers = viewer_of(&broker, &anna);
    assert_eq!(notice(&mut hers), "This server restarts at six.");
    // Once: the next viewer is told the next message first.
    let (mut again, mut his) = (viewer_of(&broker, &anna), viewer_of(&broker, &otto));
    again.wait_complete();
    let answer = said(&["--user", &anna.name, "--session", "desk", "Only for you."]);
    assert_eq!(answer, format!("desk of {}: shown at 2 viewers\n", anna.name));
    assert_eq!(
        (notice(&mut hers), notice(&mut again)),
        ("Only for you.".into(), "Only for you.".into())
    );
    his.wait_complete();
    to(&otto, "And this for you.");
    assert_eq!(notice(&mut his), "And this for you.");

    let wrong = |arguments: &[&str], what: &str| {
        let output = admin(&[&["message"], arguments].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(what), "{said}");
    };
    wrong(&["--user", &anna.name, "--session", "other", "x"], "has no desktop called other");
    wrong(&["--user", "nobody", "x"], "nobody has no desktop");
    wrong(&["a\nb"], "it contains line breaks");
    wrong(&[&"x".repeat(1001)], "it has 1001 bytes; 1 to 1000 are allowed");
    let program = broker.folder.join("bin/thinc");
    assert!(!anna.can(&format!("{} admin message --user {} x", program.display(), otto.name)));
}

#[test]
fn everybody_reads_the_banner_before_a_login() {
    if is_skipped() {
        return;
    }
    let lines: Vec<String> = (1..=9).map(|number| format!("Rule {number}: be kind.")).collect();
    let text = lines.join("\n");
    let broker = Broker::with_config(|folder| {
        let file = folder.join("banner");
        fs::write(&file, format!("{text}\n")).unwrap();
        format!("banner = {file:?}\n")
    });
    let answer = broker.browser().open("GET", "/banner", &[], "").0;
    assert_eq!((answer.status, answer.text()), (200, text.clone()));

    // A native viewer shows it before it asks for the password, more of it than one message holds.
    let anna = broker.account();
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let known_hosts = Some(broker.folder.join("known_hosts"));
    let options = ConnectOptions { known_hosts, ..connect_options() };
    let mut read = Vec::new();
    let result = establish(&link, &options).unwrap().log_in(&anna.name, &mut |prompts| {
        let questions = prompts.iter().filter(|prompt| prompt.style != PromptStyle::Text);
        let answers = questions.map(|_| RIGHT.as_bytes().to_vec()).collect();
        read.extend(prompts.iter().map(|prompt| prompt.text.to_owned()));
        Some(answers)
    });
    assert!(result.is_ok());
    assert_eq!(read[..9], lines[..]);
    assert!(read[9].contains("Password"), "{read:?}");

    let without = Broker::start();
    let answer = without.browser().open("GET", "/banner", &[], "").0;
    assert_eq!((answer.status, answer.text()), (200, String::new()));
}
