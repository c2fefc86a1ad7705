//! Devices that `thinc broker` remembers: they sign their person in without a password, and nobody
//! else, and only as long as the person, the administrator and PAM want it. With real accounts, so
//! as root; without, each test says so and passes. Knows HTTP, keys and files.

use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::SESSION_MESSAGE_BYTES_MAX;
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::device::{DeviceId, DeviceKey, PLACE_BYTES_MAX, sign_in_message};
use thinc_transport::{ConnectError, ConnectOptions, Link, base64url, connect, establish};

use crate::broker::{
    Account, Broker, RIGHT, alone, is_skipped, log_in, logged_in, open, origin, post, post_login,
    sessions, start,
};
use crate::broker_admin::audited;
use crate::harness::{
    Answer, Browser, Message, Tls, Viewer, connect_options, hello, next_websocket_message,
    wait_until, websocket_message,
};

/// A request of a page that has logged in, with JSON.
fn send(browser: &Browser, path: &str, body: &Value) -> Answer {
    let (origin, secret) = (origin(browser), browser.secret.clone().unwrap());
    let headers = [
        ("Origin", origin.as_str()),
        ("Thinc-Origin-Secret", &secret),
        ("Content-Type", "application/json"),
    ];
    browser.open("POST", path, &headers, &body.to_string()).0
}

fn ask_to_remember(browser: &Browser, key: &DeviceKey, name: &str) -> Answer {
    let key = base64url::encode(&key.public());
    send(browser, "/devices", &json!({ "key": key, "name": name }))
}

/// Has the device of this browser remembered.
fn remember(browser: &Browser, name: &str) -> DeviceKey {
    let key = DeviceKey::generate().unwrap();
    let answer = ask_to_remember(browser, &key, name);
    assert_eq!(answer.status, 200, "{}", answer.text());
    key
}

/// The person's devices, as the page lists them: names, and whether it is this one.
fn listed(browser: &Browser) -> Vec<(String, bool)> {
    let answer = browser.get_as_page("/devices");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let list: Value = serde_json::from_slice(&answer.body).unwrap();
    let devices = list["devices"].as_array().unwrap().iter();
    devices.map(|one| (one["name"].as_str().unwrap().to_owned(), one["is_own"] == true)).collect()
}

/// Begins to sign in: the attempt and the challenge.
fn challenge(browser: &mut Browser, id: &str) -> (String, [u8; 32]) {
    let connection = browser.connect();
    let answer = post_login(browser, connection, &json!({ "device": id }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked: Value = serde_json::from_slice(&answer.body).unwrap();
    let challenge = base64url::decode(asked["challenge"].as_str().unwrap()).unwrap();
    (asked["attempt"].as_str().unwrap().to_owned(), challenge.try_into().unwrap())
}

fn show(browser: &mut Browser, attempt: &str, signature: &[u8]) -> Answer {
    let connection = browser.connect();
    let signature = base64url::encode(signature);
    post_login(browser, connection, &json!({ "attempt": attempt, "signature": signature }))
}

/// Signs in as the page does; the browser then has the login.
fn sign_in(browser: &mut Browser, key: &DeviceKey) -> Answer {
    let (attempt, challenge) = challenge(browser, &key.id().to_string());
    let message = sign_in_message(&origin(browser), key.id(), &challenge);
    show(browser, &attempt, &key.sign(&message).unwrap())
}

/// A browser without cookies in which this device has signed in.
fn signed_in(broker: &Broker, key: &DeviceKey) -> Browser {
    let mut browser = broker.browser();
    let answer = sign_in(&mut browser, key);
    assert_eq!(answer.status, 200, "{}", answer.text());
    browser
}

/// The file of an account's devices.
fn file(broker: &Broker, account: &Account) -> PathBuf {
    broker.folder.join("state/devices").join(account.uid.to_string())
}

fn admin(broker: &Broker, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thinc"));
    command.arg("admin").args(words).arg("--state").arg(broker.folder.join("state"));
    command.output().unwrap()
}

#[test]
fn a_remembered_device_comes_back_without_a_password() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let anna = broker.account();
    let banner = broker.browser().get("/banner");
    assert_eq!(banner.headers["thinc-remembers"], (30 * 86_400).to_string());
    let browser = logged_in(&broker, &anna);
    let name = start(&browser);
    let bad = DeviceKey::generate().unwrap();
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert_eq!(ask_to_remember(&browser, &bad, name).status, 400, "{name:?}");
    }
    let key = remember(&browser, "Firefox, Linux");
    assert_eq!(ask_to_remember(&browser, &bad, "another").status, 409, "once for a login");
    assert_eq!(listed(&browser), [("Firefox, Linux".to_owned(), true)]);

    // The same desktop, in a browser that has lost its cookie.
    let back = signed_in(&broker, &key);
    assert_ne!(back.cookie, browser.cookie);
    assert_eq!(sessions(&back), [name.as_str()]);
    drop(open(&back, &name).unwrap());
    assert_eq!(listed(&back), [("Firefox, Linux".to_owned(), true)]);
    // A login without a password makes no other device.
    assert_eq!(ask_to_remember(&back, &bad, "another").status, 409);
    let events = audited(&broker, 5);
    let of = |event: &str| {
        let found = events.iter().filter(|one| one["event"] == event);
        found.map(|one| (one["user"].clone(), one["how"].clone())).collect::<Vec<_>>()
    };
    let user = Value::from(anna.name.as_str());
    let remembered = (user.clone(), Value::from("remembered"));
    assert_eq!(of("login"), [(user.clone(), Value::Null), remembered]);
    assert_eq!(of("remembered"), [(user, Value::Null)]);

    // What is kept is for root, and outlives helpers; a session is opened as for a password.
    let path = file(&broker, &anna);
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.parent().unwrap().to_owned()), 0o700);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(&base64url::encode(key.pkcs8())), "only the public half");
    assert!(!anna.can(&format!("cat {}", path.display())), "not even to its person");
    for signal in [Signal::KILL, Signal::TERM] {
        broker.restart(signal);
        let again = signed_in(&broker, &key);
        assert_eq!(sessions(&again), [name.as_str()]);
        drop(open(&again, &name).unwrap());
    }
    assert_eq!(post(&back, &format!("/desk/{name}/end")).status, 204);
}

/// What a device is answered that must not sign in, without what differs each time, and how long
/// that took.
fn refusal(browser: &mut Browser, act: impl FnOnce(&mut Browser) -> Answer) -> (String, Duration) {
    let begin = Instant::now();
    let answer = act(browser);
    let time = begin.elapsed();
    assert!(browser.cookie.is_none());
    let mut headers: Vec<_> = answer.headers.iter().filter(|(name, _)| *name != "date").collect();
    headers.sort();
    (format!("{} {} {headers:?}", answer.status, answer.text()), time)
}

#[test]
fn every_device_that_must_not_sign_in_gets_one_answer_after_one_time() {
    if is_skipped() {
        return;
    }
    let _alone = alone();
    let mut broker = Broker::start();
    // Each from an address of its own: a source with failures waits longer.
    let count = std::cell::Cell::new(0);
    let stranger = |broker: &Broker| {
        count.set(count.get() + 1);
        Browser { source: Some(Ipv4Addr::new(127, 21, 0, count.get())), ..broker.browser() }
    };
    let (anna, otto) = (broker.account(), broker.account());
    let anna_key = remember(&logged_in(&broker, &anna), "hers");
    let otto_key = remember(&logged_in(&broker, &otto), "his");
    let mut results: Vec<(&str, (String, Duration))> = Vec::new();
    let wrong = refusal(&mut stranger(&broker), |browser| log_in(browser, &otto.name, "wrong"));
    assert!(wrong.0.starts_with("401 "), "{}", wrong.0);
    results.push(("a wrong password", wrong));

    let with = |signature: &dyn Fn(&Browser, &[u8; 32]) -> [u8; 64], id: &DeviceKey| {
        let mut browser = stranger(&broker);
        let (attempt, challenge) = challenge(&mut browser, &id.id().to_string());
        let signature = signature(&browser, &challenge);
        refusal(&mut browser, |browser| show(browser, &attempt, &signature))
    };
    let signed = |key: &DeviceKey, of: &DeviceKey, place: &str, challenge: &[u8; 32]| {
        key.sign(&sign_in_message(place, of.id(), challenge)).unwrap()
    };
    let other = DeviceKey::generate().unwrap();
    results.push((
        "a device that nobody knows",
        with(&|browser, challenge| signed(&other, &other, &origin(browser), challenge), &other),
    ));
    results.push(("the ID alone", with(&|_, _| [0; 64], &anna_key)));
    results.push((
        "another key",
        with(
            &|browser, challenge| signed(&other, &anna_key, &origin(browser), challenge),
            &anna_key,
        ),
    ));
    results.push((
        "another person's key",
        with(
            &|browser, challenge| signed(&otto_key, &anna_key, &origin(browser), challenge),
            &anna_key,
        ),
    ));
    results.push((
        "a challenge that another server has passed on",
        with(
            &|_, challenge| signed(&anna_key, &anna_key, "https://evil.example", challenge),
            &anna_key,
        ),
    ));
    // A signature is good once, for its own attempt.
    let mut first = stranger(&broker);
    let (attempt, asked) = challenge(&mut first, &anna_key.id().to_string());
    let signature = signed(&anna_key, &anna_key, &origin(&first), &asked);
    results.push(("a signature of another attempt", with(&|_, _| signature, &anna_key)));
    assert_eq!(show(&mut first, &attempt, &signature).status, 200);
    let mut again = stranger(&broker);
    again.source = first.source;
    assert_eq!(show(&mut again, &attempt, &signature).status, 401, "it was used");
    // Nor from elsewhere.
    let mut second = stranger(&broker);
    let (attempt, asked) = challenge(&mut second, &anna_key.id().to_string());
    let signature = signed(&anna_key, &anna_key, &origin(&second), &asked);
    assert_eq!(show(&mut stranger(&broker), &attempt, &signature).status, 401);

    // What an administrator does to accounts. Each is a new one: some are forgotten for it.
    let refused = |results: &mut Vec<_>, what: &'static str, key: &DeviceKey, broker: &Broker| {
        let mut browser = stranger(broker);
        let (attempt, challenge) = challenge(&mut browser, &key.id().to_string());
        let signature = signed(key, key, &origin(&browser), &challenge);
        results.push((what, refusal(&mut browser, |browser| show(browser, &attempt, &signature))));
    };
    let nologin = broker.folder.join("nologin");
    fs::write(&nologin, "The machine is being repaired.\n").unwrap();
    refused(&mut results, "nologin", &anna_key, &broker);
    fs::remove_file(&nologin).unwrap();
    let access = broker.folder.join("access");
    fs::write(&access, format!("-:{}:ALL\n", anna.name)).unwrap();
    refused(&mut results, "refused by pam_access", &anna_key, &broker);
    fs::write(&access, "").unwrap();
    let anna = anna.change("chage", &["-E", "0"]);
    refused(&mut results, "an expired account", &anna_key, &broker);
    let anna = anna.change("chage", &["-E", "-1"]);
    let anna = anna.change("usermod", &["-s", "/usr/sbin/nologin"]);
    refused(&mut results, "an account without a shell", &anna_key, &broker);
    let anna = anna.change("usermod", &["-s", "/bin/sh"]);
    let anna = anna.change("chage", &["-d", "0"]);
    refused(&mut results, "an expired password", &anna_key, &broker);
    let anna = anna.change("chage", &["-d", "-1"]);
    // None of these lasts.
    signed_in(&broker, &anna_key);
    let anna = anna.change("passwd", &["-q", "-l"]);
    refused(&mut results, "a locked account", &anna_key, &broker);
    let anna = anna.change("passwd", &["-q", "-u"]);
    refused(&mut results, "an account that was locked", &anna_key, &broker);
    drop(logged_in(&broker, &anna));
    // The device forgets nothing of its own, and its number may be given again.
    let mut chpasswd = Command::new("chpasswd");
    chpasswd.stdin(std::process::Stdio::piped());
    let mut child = chpasswd.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{}:another horse 9", otto.name).unwrap();
    assert!(child.wait().unwrap().success());
    refused(&mut results, "a new password", &otto_key, &broker);
    let emma = broker.account();
    let emma_key = remember(&logged_in(&broker, &emma), "hers");
    let path = file(&broker, &emma);
    broker.end(Signal::TERM);
    let text = fs::read_to_string(&path).unwrap();
    let at = text.find("\"until\": ").unwrap() + "\"until\": ".len();
    let end = at + text[at..].find(',').unwrap();
    fs::write(&path, format!("{}1{}", &text[..at], &text[end..])).unwrap();
    broker.start_again();
    refused(&mut results, "an expired device", &emma_key, &broker);

    let (_, (first, _)) = &results[0];
    for (what, (answer, _)) in &results {
        assert_eq!(answer, first, "{what}");
    }
    // None before the second that all of them wait for; on a busy machine it may be the next one.
    for (what, (_, time)) in &results {
        assert!(*time >= Duration::from_secs(1), "{what}: {time:?}");
    }
    let log = broker.log();
    for reason in [
        "its device is not remembered",
        "its device has not signed what it was asked to",
        "its device was remembered for another user ID or password",
    ] {
        assert!(log.contains(reason), "no {reason:?} in {log}");
    }
    let events = fs::read_to_string(broker.folder.join("audit")).unwrap();
    assert!(events.contains(r#""reason":"the account has changed""#), "{events}");
    assert!(events.contains(r#""reason":"a remembered device was refused""#), "{events}");
    assert!(events.contains(r#""reason":"expired""#), "{events}");
}

#[test]
fn a_device_that_was_forgotten_is_out_at_once_and_stays_out() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let laptop = logged_in(&broker, &anna);
    let laptop_key = remember(&laptop, "laptop");
    let name = start(&laptop);
    let home = logged_in(&broker, &anna);
    let home_key = remember(&home, "home");
    // It signs in again, and works.
    let laptop = signed_in(&broker, &laptop_key);
    let viewer = open(&laptop, &name).unwrap();
    let mut names: Vec<String> = listed(&home).into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["home", "laptop"]);

    // Otto knows its ID, which is no secret.
    let his = logged_in(&broker, &otto);
    let laptop_id = json!({ "device": laptop_key.id().to_string() });
    assert_eq!(send(&his, "/devices/forget", &laptop_id).status, 404);
    assert!(listed(&his).is_empty());
    assert_eq!(home.get("/devices").status, 401, "the cookie alone");

    // Lost: its person has it forgotten from home. Its viewer and its logins end.
    assert_eq!(send(&home, "/devices/forget", &laptop_id).status, 204);
    let mut rest = Vec::new();
    let _ = { viewer }.read_to_end(&mut rest);
    assert_eq!(laptop.get_as_page("/sessions").status, 401);
    assert_eq!(sign_in(&mut broker.browser(), &laptop_key).status, 401);
    assert_eq!(listed(&home), [("home".to_owned(), true)]);
    assert_eq!(sessions(&home), [name.as_str()], "the desktop goes on");
    broker.restart(Signal::KILL);
    assert_eq!(sign_in(&mut broker.browser(), &laptop_key).status, 401);

    // Who logs out is not signed in again, also if the helper was restarted in between.
    let back = signed_in(&broker, &home_key);
    broker.restart(Signal::TERM);
    assert_eq!(post(&back, "/logout").status, 204);
    assert_eq!(sign_in(&mut broker.browser(), &home_key).status, 401);
    assert_eq!(home.get_as_page("/sessions").status, 401, "each login of the device has ended");
    assert!(!file(&broker, &anna).exists(), "she has none any more");

    // The administrator's turn.
    let (one, two) = (logged_in(&broker, &anna), logged_in(&broker, &anna));
    let (one_key, two_key) = (remember(&one, "one"), remember(&two, "two"));
    let his_key = remember(&logged_in(&broker, &otto), "his");
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let list = text(&admin(&broker, &["devices"]));
    assert!(list.contains("one") && list.contains("two") && list.contains("his"), "{list}");
    let list = admin(&broker, &["devices", &anna.name, "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2, "{list}");
    let id = one_key.id().to_string();
    assert!(list.to_string().contains(&id), "{list}");
    let output = admin(&broker, &["forget", &anna.name, &id]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sign_in(&mut broker.browser(), &one_key).status, 401);
    assert_eq!(one.get_as_page("/sessions").status, 401);
    assert_eq!(sessions(&two), [name.as_str()]);
    let output = admin(&broker, &["forget", &anna.name, &id]);
    assert!(!output.status.success(), "{output:?}");
    assert!(admin(&broker, &["forget", &anna.name]).status.success());
    assert_eq!(sign_in(&mut broker.browser(), &two_key).status, 401);
    signed_in(&broker, &his_key);
    let events = fs::read_to_string(broker.folder.join("audit")).unwrap();
    for reason in ["by the person", "logged out", "by the administrator"] {
        let line = events
            .lines()
            .find(|line| line.contains(r#""event":"forgotten""#) && line.contains(reason));
        assert!(line.is_some(), "{reason}: {events}");
    }
}

#[test]
fn a_damaged_file_signs_nobody_in_and_its_people_log_in_with_their_passwords() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let key = remember(&logged_in(&broker, &anna), "hers");
    let his_key = remember(&logged_in(&broker, &otto), "his");
    let path = file(&broker, &anna);
    for damage in ["half", "garbage", "other"] {
        broker.end(Signal::TERM);
        let whole = fs::read(&path).unwrap();
        match damage {
            "half" => fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
            "garbage" => fs::write(&path, [0xff; 40_000]).unwrap(),
            _ => {
                let text = String::from_utf8(fs::read(file(&broker, &otto)).unwrap()).unwrap();
                fs::write(&path, text).unwrap();
            }
        }
        broker.start_again();
        let told = format!("{}: it ", path.display());
        wait_until("the log", || broker.log().contains(&told).then_some(()));
        assert_eq!(sign_in(&mut broker.browser(), &key).status, 401, "{damage}");
        signed_in(&broker, &his_key);
        // From now on there is a new one.
        let browser = logged_in(&broker, &anna);
        let new = remember(&browser, "again");
        signed_in(&broker, &new);
        broker.restart(Signal::KILL);
        signed_in(&broker, &new);
    }
}

/// A page's connection with a desktop, which is asked for an answer.
struct Page {
    stream: BufReader<Tls>,
    frames: Deframer,
}

impl Page {
    fn open(browser: &Browser, name: &str) -> Page {
        let (path, origin) = (format!("/desk/{name}/ws"), origin(browser));
        let (answer, stream) = browser.websocket_at(&path, browser.connect(), Some(&origin));
        assert_eq!(answer.status, 101, "{}", answer.text());
        let mut page = Page { stream, frames: Deframer::new(SESSION_MESSAGE_BYTES_MAX) };
        page.send(&hello());
        page
    }

    fn send(&mut self, message: &ViewerMessage) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.stream.get_mut().write_all(&websocket_message(&bytes)).unwrap();
    }

    fn is_answered(&mut self, ping: u32) {
        self.send(&ViewerMessage::Ping(ping));
        loop {
            while let Some(frame) = self.frames.next().unwrap() {
                let message = SessionMessage::decode(&frame).unwrap();
                if matches!(message, SessionMessage::Pong(number) if number == ping) {
                    return;
                }
            }
            self.frames.push(&next_websocket_message(&mut self.stream).expect("it goes on"));
        }
    }
}

#[test]
fn what_the_helper_does_not_take_from_a_stranger_ends_nobody_elses_connection() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let anna = broker.account();
    let browser = logged_in(&broker, &anna);
    let mut page = Page::open(&browser, &start(&browser));
    page.is_answered(1);
    let front = broker.front();
    // No device can sign for such an address.
    let device = json!({ "device": DeviceId([0; 16]).to_string() });
    for host in ["a b", "a\tb", &"a".repeat(PLACE_BYTES_MAX)] {
        let mut stranger = Browser { public: Some(host.to_owned()), ..broker.browser() };
        let answer = post_login(&mut stranger, broker.browser().connect(), &device);
        assert_eq!(answer.status, 403, "{host:?}: {}", answer.text());
    }
    // Longer than any password that PAM takes.
    for bytes in [511, 512] {
        let link: Link = format!("https://{}/", broker.address).parse().unwrap();
        let known_hosts = Some(broker.folder.join("known-hosts"));
        let reached = establish(&link, &ConnectOptions { known_hosts, ..connect_options() });
        let password = vec![b'x'; bytes];
        reached.unwrap().log_in(&anna.name, &mut |_| Some(vec![password.clone()])).unwrap_err();
    }
    page.is_answered(2);
    assert_eq!(broker.front(), front);
}

#[test]
fn an_administrator_may_want_no_device_to_be_remembered() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let anna = broker.account();
    let key = remember(&logged_in(&broker, &anna), "hers");
    let config = broker.folder.join("broker.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}remember = \"0\"\n")).unwrap();
    broker.restart(Signal::TERM);
    let banner = broker.browser().get("/banner");
    assert!(!banner.headers.contains_key("thinc-remembers"));
    assert_eq!(sign_in(&mut broker.browser(), &key).status, 401);
    let browser = logged_in(&broker, &anna);
    let new = DeviceKey::generate().unwrap();
    assert_eq!(ask_to_remember(&browser, &new, "hers").status, 409);
    assert!(!file(&broker, &anna).exists());
    // A shorter time counts for devices that were remembered before.
    fs::write(&config, format!("{text}remember = \"1s\"\n")).unwrap();
    broker.restart(Signal::TERM);
    let short = remember(&logged_in(&broker, &anna), "short");
    wait_until("the end of a second", || {
        (sign_in(&mut broker.browser(), &short).status == 401).then_some(())
    });
}

#[test]
fn a_viewer_in_a_window_is_remembered_and_signs_in() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let anna = broker.account();
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let known_hosts = Some(broker.folder.join("known-hosts"));
    let options = ConnectOptions { known_hosts, ..connect_options() };
    let with = |credential: &[u8]| ConnectOptions {
        session_credential: Some(credential.to_vec()),
        ..options.clone()
    };
    let credential = establish(&link, &options)
        .unwrap()
        .log_in(&anna.name, &mut |_| Some(vec![RIGHT.as_bytes().to_vec()]))
        .unwrap();
    let key = DeviceKey::generate().unwrap();
    let remember = |credential: &[u8]| {
        establish(&link, &with(credential)).unwrap().remember_device(&key, "thinc-view, laptop")
    };
    let mut wrong = credential.clone();
    wrong[40] ^= 1;
    assert!(matches!(remember(&wrong), Err(ConnectError::Refused { .. })));
    remember(&credential).unwrap();
    let error = remember(&credential).unwrap_err().to_string();
    assert!(error.contains("remembers no devices, or you have not just logged in"), "{error}");

    // The login has ended; the desktop that was open in it is opened again.
    let browser = logged_in(&broker, &anna);
    assert_eq!(start(&browser), "desk");
    let second = json!({ "what": { "program": "sleep 100000" }, "name": "second" });
    assert_eq!(send(&browser, "/start", &second).status, 200);
    broker.restart(Signal::KILL);
    for name in ["desk", "second"] {
        let earlier = [&credential[..64], name.as_bytes()].concat();
        let signed = establish(&link, &options).unwrap().sign_in(&key, Some(&earlier)).unwrap();
        let mut viewer = Viewer::new(connect(&link, &with(&signed)).unwrap());
        assert_eq!(viewer.next(), Some(Message::Hello(name.into())));
        viewer.wait_complete();
    }
    let refused = |key: &DeviceKey| {
        let error = establish(&link, &options).unwrap().sign_in(key, None).unwrap_err();
        assert!(
            matches!(&error, ConnectError::Refused { code: CloseCode::Unauthorized, .. }),
            "{error}"
        );
        error.to_string()
    };
    let unknown = refused(&DeviceKey::generate().unwrap());
    let output = admin(&broker, &["forget", &anna.name]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(refused(&key), unknown);
}
