//! Whether `thinc broker` starts one more desktop while the machine is under pressure, with real
//! accounts and with files of pressure that the test writes. Needs root as broker.rs does. Knows
//! HTTP and these files.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use thinc_protocol::auth::AuthPrompt;
use thinc_transport::{ConnectOptions, Link, connect, establish};

use crate::broker::{Broker, RIGHT, is_skipped, logged_in, open, post, sessions, start};
use crate::broker_metrics::read;
use crate::harness::{Answer, Browser, Message, Viewer, connect_options, wait_until};

/// Writes a file at once: a reader finds the old text or the new one.
fn set(folder: &Path, name: &str, text: &str) {
    let new = folder.join("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, folder.join(name)).unwrap();
}

/// For so much of the time somebody waited for memory.
fn set_memory(broker: &Broker, percent: &str) {
    set(&broker.folder.join("pressure"), "memory", &pressure(percent));
}

fn pressure(percent: &str) -> String {
    let line = |kind| format!("{kind} avg10={percent} avg60=0.00 avg300=0.00 total=1\n");
    line("some") + &line("full")
}

/// A broker on a machine that has plenty of everything, until the test says otherwise.
fn with_admission(policy: &str) -> Broker {
    Broker::with_config(|folder| {
        let pressures = folder.join("pressure");
        fs::create_dir(&pressures).unwrap();
        for name in ["cpu", "memory", "io"] {
            set(&pressures, name, &pressure("0.00"));
        }
        let memory = "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n";
        set(&pressures, "meminfo", memory);
        format!("admission = '{policy}'\nmetrics = '127.0.0.1:0'\n")
    })
}

/// How many wait before who got this answer.
fn ahead(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 202, "{}", answer.text());
    let waiting: Value = serde_json::from_slice(&answer.body).unwrap();
    waiting["ahead"].as_u64().unwrap()
}

/// As a page does, from this place on; until the desktop has started.
fn wait_for_start(browser: &Browser, mut place: u64) -> String {
    wait_until("a desktop", || {
        let answer = post(browser, &format!("/start?waits={place}"));
        if answer.status == 202 {
            place = ahead(&answer);
            return None;
        }
        assert_eq!(answer.status, 200, "{}", answer.text());
        let started: Value = serde_json::from_slice(&answer.body).unwrap();
        Some(started["name"].as_str().unwrap().to_owned())
    })
}

#[test]
fn under_pressure_a_new_desktop_is_refused_and_one_that_runs_is_opened() {
    if is_skipped() {
        return;
    }
    let broker = with_admission("refuse");
    let (anna, otto) = (broker.account(), broker.account());
    let (annas, ottos) = (logged_in(&broker, &anna), logged_in(&broker, &otto));
    assert_eq!(start(&annas), "desk");
    set_memory(&broker, "40.00");
    let refused = post(&ottos, "/start");
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("This server is short of memory, and"), "{refused:?}");
    assert!(broker.log().contains("starts no desktop: This server is short of memory"));
    assert!(otto.can("! pgrep -U $(id -u) sleep"));
    // Hers runs: neither another start of it, nor who opens it, is hindered.
    assert_eq!(start(&annas), "desk");
    assert_eq!(start(&logged_in(&broker, &anna)), "desk");
    drop(open(&annas, "desk").unwrap());
    // Not low yet, and then it is.
    set_memory(&broker, "15.00");
    assert_eq!(post(&ottos, "/start").status, 409);
    set_memory(&broker, "1.00");
    assert_eq!(start(&ottos), "desk");
}

#[test]
fn who_waits_starts_by_themselves_in_turn_as_soon_as_pressure_falls() {
    if is_skipped() {
        return;
    }
    let mut broker = with_admission("queue");
    let figures = broker.figures();
    let [anna, otto, vera] = [(); 3].map(|()| broker.account());
    let [annas, ottos, veras] = [&anna, &otto, &vera].map(|account| logged_in(&broker, account));
    set_memory(&broker, "40.00");
    assert_eq!(ahead(&post(&annas, "/start?waits")), 0);
    assert_eq!(ahead(&post(&ottos, "/start?waits")), 1);
    // A page of an earlier version can show no place.
    let earlier = post(&annas, "/start");
    assert_eq!(earlier.status, 409);
    assert!(earlier.text().contains("short of memory, and yours is the next"), "{earlier:?}");
    assert_eq!(ahead(&post(&veras, "/start?waits=7")), 2, "what is new is told at once");
    let waiting = read(figures);
    assert_eq!(waiting["thinc_waiting"], 3.0);
    assert_eq!(waiting["thinc_pressure_percent{resource=\"memory\"}"], 40.0);
    assert!(sessions(&annas).is_empty());
    // Those who know their place are answered when there is something new: their desktop.
    let file = broker.folder.join("state/waiting");
    let has_asked_again = {
        let before = fs::read_to_string(&file).unwrap();
        move || (fs::read_to_string(&file).unwrap() != before).then_some(())
    };
    std::thread::scope(|scope| {
        let waits = [(&annas, 0), (&ottos, 1)]
            .map(|(browser, place)| scope.spawn(move || wait_for_start(browser, place)));
        wait_until("a second question", has_asked_again);
        set_memory(&broker, "0.50");
        assert_eq!(waits.map(|thread| thread.join().unwrap()), ["desk", "desk"]);
    });
    let log = broker.log();
    let started = |uid| log.find(&format!("user {uid} has waited, and starts a desktop")).unwrap();
    assert!(started(anna.uid) < started(otto.uid), "who came first starts first: {log}");
    assert!(log.contains(&format!("user {} waits for a desktop, behind 2 others", vera.uid)));
    // Vera has closed her page.
    let after = wait_until("an empty line", || {
        Some(read(figures)).filter(|figures| figures["thinc_waiting"] == 0.0)
    });
    assert_eq!(after["thinc_waited_starts_total"], 2.0);
    assert_eq!(after["thinc_refused_starts_total"], 0.0);
    assert!(vera.can("! pgrep -U $(id -u) sleep"), "nothing was started for who has gone");
}

#[test]
fn a_viewer_that_can_show_no_place_is_told_in_words() {
    if is_skipped() {
        return;
    }
    let broker = with_admission("queue");
    let anna = broker.account();
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let known_hosts = Some(broker.folder.join("known-hosts"));
    let options = ConnectOptions { known_hosts, ..connect_options() };
    let password = RIGHT.as_bytes().to_vec();
    let mut answer = |_: &[AuthPrompt<'_>]| Some(vec![password.clone()]);
    let credential = establish(&link, &options).unwrap().log_in(&anna.name, &mut answer).unwrap();
    let options = ConnectOptions { session_credential: Some(credential), ..options };
    set_memory(&broker, "40.00");
    // It names no desktop, and so wants the usual one.
    let error = connect(&link, &options).unwrap_err().to_string();
    assert!(error.contains("This server is short of memory, and yours is the next"), "{error}");
    set_memory(&broker, "0.00");
    let mut viewer = Viewer::new(connect(&link, &options).unwrap());
    assert_eq!(viewer.next(), Some(Message::Hello("desk".into())));
}

#[test]
fn the_check_says_what_does_not_count_on_this_kernel() {
    if is_skipped() {
        return;
    }
    let broker = with_admission("refuse");
    let check = |lines: &str| {
        let file = broker.folder.join("check.toml");
        fs::write(&file, lines).unwrap();
        let mut check = Command::new(broker.folder.join("bin/thinc"));
        check.args(["broker", "--check", "--front-user", "nobody", "--pam-service"]);
        check.arg(broker.service()).arg("--config").arg(&file);
        check.env("THINC_PRESSURE_DIR", broker.folder.join("pressure"));
        let output = check.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(check("admission = 'refuse'\n"), "");
    fs::remove_file(broker.folder.join("pressure/memory")).unwrap();
    let said = check("admission = 'refuse'\n");
    assert!(said.starts_with("admission: this kernel does not say what it is short of"), "{said}");
    assert!(said.contains("CONFIG_PSI=y"), "{said}");
    assert_eq!(check(""), "", "nobody wants to know");
    // What is left holds.
    let little = "MemTotal:       16000000 kB\nMemAvailable:     400000 kB\n";
    set(&broker.folder.join("pressure"), "meminfo", little);
    let anna = broker.account();
    let browser = logged_in(&broker, &anna);
    assert_eq!(post(&browser, "/start").status, 409);
}
