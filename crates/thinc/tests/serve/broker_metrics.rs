//! The figures of `thinc broker` for monitoring, read as Prometheus and as a page read them, while
//! people log in, fail to, and work. Needs root as broker.rs does. Knows HTTP, OpenMetrics and
//! processes.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use thinc_transport::Link;

use crate::broker::{Broker, is_skipped, log_in, logged_in, origin, replaced, start};
use crate::broker_guests::{invite, owner};
use crate::harness::{Session, Tls, hello, next_websocket_message, wait_until, websocket_message};

/// A broker with figures on a port of this machine.
fn with_figures() -> (Broker, SocketAddr) {
    let mut broker = Broker::with_config(|_| "metrics = '127.0.0.1:0'\n".to_owned());
    let address = broker.figures();
    (broker, address)
}

/// Status line, headers and body of an answer.
fn get(address: SocketAddr, path: &str, host: &str) -> (String, String) {
    let mut stream = wait_until("the port for figures", || TcpStream::connect(address).ok());
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head.to_owned(), body.to_owned())
}

/// Every sample, by its name with labels, of an OpenMetrics text that breaks no rule.
fn samples(text: &str) -> HashMap<String, f64> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.starts_with("thinc_")
    };
    let (mut samples, mut families) = (HashMap::new(), HashSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    for line in text.lines().take_while(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# ") {
            let [what, name, value] = rest.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            assert!(is_name(name), "{line}");
            if name != family {
                // All that belongs to a family stands together.
                assert!(families.insert(name.to_owned()), "{name} comes twice");
                (family, kind) = (name.to_owned(), String::new());
            }
            match what {
                "TYPE" => kind = value.to_owned(),
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                "HELP" => assert!(value.ends_with('.') && !value.contains('\\'), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (key, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (name, labels) = match key.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
            None => (key, ""),
        };
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (name, value) = label.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
            let value = value.strip_suffix('"').unwrap();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-_".contains(&byte);
            assert!(value.bytes().all(is_plain), "{line}");
        }
        let suffix = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{line}"));
        let allowed: &[&str] = match kind.as_str() {
            "gauge" => &[""],
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => panic!("{line} is of the type {kind:?}"),
        };
        assert!(allowed.contains(&suffix), "{line}");
        let value: f64 = value.parse().unwrap();
        assert!(value >= 0.0 && samples.insert(key.to_owned(), value).is_none(), "{line}");
    }
    for family in families {
        let Some(&all) = samples.get(&format!("{family}_count")) else { continue };
        let mut buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|(key, &value)| {
                let bound = key.strip_prefix(&format!("{family}_bucket{{le=\""))?;
                Some((bound.strip_suffix("\"}")?.parse().unwrap(), value))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{family}: {buckets:?}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, all)), "{family}");
    }
    samples
}

/// The parser of Prometheus's own library for Python, where that is installed.
fn parsed_by_prometheus(text: &str) {
    let program = "import sys\n\
                   try: from prometheus_client.openmetrics import parser\n\
                   except ImportError: sys.exit(77)\n\
                   print(len(list(parser.text_string_to_metric_families(sys.stdin.read()))))";
    let mut python = Command::new("python3");
    python.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut python) = python.stderr(Stdio::piped()).spawn() else {
        return eprintln!("there is no python3: only this test's own parser has read the text");
    };
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    if output.status.code() == Some(77) {
        return eprintln!("there is no prometheus_client: only this test's own parser has read it");
    }
    assert!(output.status.success(), "{output:?}\n{text}");
}

/// The figures of now, by their names with labels.
pub(crate) fn read(address: SocketAddr) -> HashMap<String, f64> {
    let (head, body) = get(address, "/metrics", &address.to_string());
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    samples(&body)
}

/// The page of a guest with this invitation, once the session has answered it.
fn guest(broker: &Broker, invitation: &Link) -> BufReader<Tls> {
    let mut browser = broker.browser();
    assert_eq!(browser.login_as(invitation, "Ada", "").status, 200);
    let (path, origin) = (format!("{}ws", invitation.base_path), origin(&browser));
    let (answer, mut page) = browser.websocket_at(&path, browser.connect(), Some(&origin));
    assert_eq!(answer.status, 101, "{}", answer.text());
    let mut bytes = Vec::new();
    hello().encode(&mut bytes);
    page.get_mut().write_all(&websocket_message(&bytes)).unwrap();
    assert!(next_websocket_message(&mut page).is_some());
    page
}

#[test]
fn figures_follow_what_people_do_and_name_nobody() {
    if is_skipped() {
        return;
    }
    let (broker, address) = with_figures();
    let anna = broker.account();
    let before = read(address);
    for name in ["thinc_logins_total", "thinc_refusals_total{reason=\"refused\"}"] {
        assert_eq!(before[name], 0.0, "{name}");
    }
    assert!(before["thinc_memory_bytes{part=\"helper\"}"] > 1e5, "{before:?}");
    assert!(before["thinc_memory_bytes{part=\"front\"}"] > 1e5, "{before:?}");

    assert_eq!(log_in(&mut broker.browser(), &anna.name, "wrong").status, 401);
    let browser = logged_in(&broker, &anna);
    let name = start(&browser);
    let (mut viewer, _) = owner(&broker, &anna);
    let guests_page = guest(&broker, &invite(&mut viewer, 1, 1, "").unwrap());
    let connected = |figures: &HashMap<String, f64>| {
        ["tcp", "quic", "websocket", "webtransport"]
            .map(|name| figures[&format!("thinc_viewers{{transport=\"{name}\"}}")])
    };
    let figures = wait_until("figures that have all of it", || {
        let figures = read(address);
        let [tcp, quic, websocket, _] = connected(&figures);
        let is_there = (tcp + quic, websocket) == (1.0, 1.0)
            && figures["thinc_round_trip_seconds_count"] > 0.0;
        is_there.then_some(figures)
    });
    assert_eq!(figures["thinc_refusals_total{reason=\"refused\"}"], 1.0);
    // The page's and the viewer's.
    assert_eq!((figures["thinc_logins_total"], figures["thinc_open_logins"]), (2.0, 2.0));
    assert_eq!(figures["thinc_viewed_sessions"], 1.0);
    assert!(figures["thinc_sessions"] >= 1.0);
    assert!(figures["thinc_sent_bytes_total"] > 0.0 && figures["thinc_updates_total"] > 0.0);
    assert!(figures["thinc_encode_seconds_count"] > 0.0);
    let by_command: f64 = figures
        .iter()
        .filter(|(name, _)| name.starts_with("thinc_command_bytes_total{"))
        .map(|(_, value)| value)
        .sum();
    assert!(by_command > 0.0);
    assert!(figures["thinc_memory_bytes{part=\"sessions\"}"] > 1e6);
    assert_eq!(figures["thinc_implausible_figures_total"], 0.0);
    let names: HashSet<&String> = figures.keys().collect();
    assert_eq!(names, before.keys().collect(), "people add no series");

    let (head, text) = get(address, "/metrics", "localhost:9187");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(kind) && !head.contains("set-cookie"), "{head}");
    assert!(!text.contains(&anna.name) && !text.contains("\"desk\""), "{text}");
    parsed_by_prometheus(&text);

    // The page's table has the names.
    let (_, json) = get(address, "/figures.json", "127.0.0.1");
    let json: Value = serde_json::from_str(&json).unwrap();
    let [row] = &json["rows"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!((&row["user"], &row["name"]), (&anna.name.as_str().into(), &name.into()));
    assert_eq!((&row["viewers"], &row["guests"]), (&1.into(), &1.into()), "{row}");
    assert!(row["round_trip_us"].is_u64() && row["screen"][0].is_u64(), "{row}");

    // The page is there, and nowhere else.
    for path in ["/", "/monitor.js", "/monitor.css"] {
        let (head, body) = get(address, path, "localhost");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !body.is_empty(), "{path}: {head}");
        let policy = "content-security-policy: default-src 'none'; script-src 'self'";
        assert!(head.contains(policy), "{path}: {head}");
    }
    for file in ["monitor.html", "monitor.js", "monitor.css"] {
        assert_eq!(browser.get_as_page(&format!("/{file}")).status, 404, "{file}");
    }

    // By a name that somebody else's DNS may point here, nothing is told.
    let (head, body) = get(address, "/figures.json", "attacker.example:9187");
    assert!(head.starts_with("HTTP/1.1 421 ") && !body.contains(&anna.name), "{head}\n{body}");

    drop((viewer, guests_page));
    wait_until("the viewers' end", || {
        let figures = read(address);
        let has_left = connected(&figures) == [0.0; 4];
        (has_left && figures["thinc_viewed_sessions"] == 0.0).then_some(())
    });
}

#[test]
fn one_session_has_figures_of_its_own() {
    let session = Session::start(&["--metrics", "127.0.0.1:0"]);
    // One that leaves at once may take its acknowledgements with it.
    let mut viewer = session.viewer();
    viewer.wait_complete();
    let told = "figures for monitoring: http://";
    let address: SocketAddr = wait_until("the port for figures", || {
        let log = session.environment.log(&session.name, "session.log");
        let (_, rest) = log.split_once(told)?;
        Some(rest.split_once('/')?.0.parse().unwrap())
    });
    let text = address.to_string();
    let figures = wait_until("figures", || {
        let figures = read(address);
        (figures["thinc_round_trip_seconds_count"] > 0.0).then_some(figures)
    });
    assert_eq!(figures["thinc_sessions"], 1.0);
    assert!(figures["thinc_memory_bytes{part=\"session\"}"] > 1e5, "{figures:?}");
    assert!(!figures.keys().any(|name| name.starts_with("thinc_logins")), "{figures:?}");
    let words = session.environment.fails(&["serve", "--metrics", &text, "--", "sleep", "1"]);
    assert!(words.contains(&text), "{words}");
    let words =
        session.environment.fails(&["serve", "--metrics", "0.0.0.0:9187", "--", "sleep", "1"]);
    assert!(words.contains("this machine alone"), "{words}");
}

#[test]
fn who_serves_figures_has_no_privileges_and_waits_for_no_agent() {
    if is_skipped() {
        return;
    }
    let (mut broker, address) = with_figures();
    let (anna, otto) = (broker.account(), broker.account());
    let (hers, his) = (logged_in(&broker, &anna), logged_in(&broker, &otto));
    start(&hers);
    start(&his);
    let monitor = || -> u32 {
        let parent = broker.process.id().to_string();
        let mut pgrep = Command::new("pgrep");
        pgrep.args(["-U", "nobody", "-P", &parent, "--full", "broker-part monitor"]);
        wait_until("the process for figures", || {
            String::from_utf8(pgrep.output().unwrap().stdout).unwrap().trim().parse().ok()
        })
    };
    read(address);
    let status = fs::read_to_string(format!("/proc/{}/status", monitor())).unwrap();
    for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    assert!(status.contains("Seccomp:\t2") && status.contains("Groups:\t \n"), "{status}");

    // An agent that its person has stopped keeps nobody waiting, however often figures are read.
    let mut pgrep = Command::new("pgrep");
    pgrep.args(["-U", &anna.name, "--full", "broker-part agent"]);
    let agent = String::from_utf8(pgrep.output().unwrap().stdout).unwrap();
    let agent = Pid::from_raw(agent.trim().parse().unwrap()).unwrap();
    kill_process(agent, Signal::STOP).unwrap();
    let users = || -> Vec<String> {
        let begin = Instant::now();
        let (_, json) = get(address, "/figures.json", "127.0.0.1");
        assert!(begin.elapsed() < Duration::from_secs(8));
        let json: Value = serde_json::from_str(&json).unwrap();
        let rows = json["rows"].as_array().unwrap().iter();
        rows.map(|row| row["user"].as_str().unwrap().to_owned()).collect()
    };
    let only_his = std::slice::from_ref(&otto.name);
    wait_until("figures without hers", || (users() == only_his).then_some(()));
    assert_eq!(users(), only_his);
    kill_process(agent, Signal::CONT).unwrap();
    let mut both = vec![anna.name.clone(), otto.name.clone()];
    both.sort();
    wait_until("hers again", || (users() == both).then_some(()));

    // A broker that is started again has the port again.
    let config = broker.folder.join("broker.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, replaced(&text, "127.0.0.1:0", &address.to_string())).unwrap();
    broker.restart(Signal::KILL);
    wait_until("figures of the next broker", || {
        let stream = TcpStream::connect(address).ok()?;
        drop(stream);
        (read(address)["thinc_open_logins"] == 2.0).then_some(())
    });
}
