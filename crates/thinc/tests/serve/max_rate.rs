//! A session, and a host with many of them, send no more than they may, while programs draw without
//! end. Counts what viewers receive: whatever the machine does beside it, that is never more.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::{ConnectOptions, Link, TransportChoice, TransportKind, connect, establish};

use crate::broker::{Account, Broker, RIGHT, is_skipped, logged_in};
use crate::broker_desktops::{start_chosen, started};
use crate::harness::{Message, Session, TestEnvironment, Viewer, connect_options};

/// Random text that fills a terminal of 150 × 50 again and again, until this file is there: on this
/// machine's own network, many times what is allowed here.
fn painter(stop: &Path) -> String {
    format!(
        "while [ ! -e {} ]; do head -c 6000 /dev/urandom | base64 -w 140; done; sleep 1000",
        stop.display()
    )
}

/// Reads until so many bytes of updates have come.
fn read_updates(viewer: &mut Viewer, bytes: usize) {
    let mut read = 0;
    while read < bytes {
        if let Message::Update { bytes, .. } = viewer.next().expect("the connection ended first") {
            read += bytes;
        }
    }
}

/// The least time in which so many bytes may be received at this rate, of which half a second's
/// worth may come at once: the newest update is sent whole.
fn least_time(bytes: usize, rate: f64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / rate - 0.5)
}

const TERMINAL: [&str; 6] = ["xterm", "-geometry", "150x50+0+0", "-e", "sh", "-c"];

#[test]
fn a_session_sends_no_more_than_its_rate_and_all_of_the_screen_in_the_end() {
    let environment = TestEnvironment::new();
    let stop = environment.folder.join("stop");
    let script = painter(&stop);
    let command = [&TERMINAL[..], &[&script]].concat();
    let session = Session::start_with(environment, &["--max-rate", "1M"], &command);
    let began = Instant::now();
    let mut viewer = session.viewer();
    read_updates(&mut viewer, 400_000);
    let took = began.elapsed();
    assert!(took >= least_time(400_000, 125_000.0), "{took:?} for 400 kB at 125 kB/s");
    fs::write(stop, "").unwrap();
    // Whose viewer takes nothing lossy is sent exact pixels, and the answer follows all of them.
    viewer.send(&ViewerMessage::Barrier(1));
    viewer.until(|message| *message == Message::Barrier(1));
}

#[test]
fn several_viewers_share_the_rate_of_their_session() {
    let environment = TestEnvironment::new();
    let script = painter(&environment.folder.join("never"));
    let command = [&TERMINAL[..], &[&script]].concat();
    let session = Session::start_with(environment, &["--max-rate", "1M"], &command);
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| read_updates(&mut session.viewer(), 200_000));
        }
    });
    let took = began.elapsed();
    assert!(took >= least_time(400_000, 125_000.0), "{took:?} for twice 200 kB at 125 kB/s");
}

#[test]
fn a_rate_is_wrong_in_plain_words() {
    let environment = TestEnvironment::new();
    for wrong in ["20", "1k", "499K", "101G", "fast"] {
        let words = environment.fails(&["serve", "--max-rate", wrong]);
        assert!(words.contains("from 500K to 100G, such as 20M"), "{words}");
    }
}

/// A viewer of the account's only desktop.
fn viewer_over(broker: &Broker, account: &Account, transport: TransportChoice) -> Viewer {
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let options = ConnectOptions {
        known_hosts: Some(broker.folder.join(format!("known-{}", account.name))),
        transport,
        ..connect_options()
    };
    let reached = establish(&link, &options).unwrap();
    let credential =
        reached.log_in(&account.name, &mut |_| Some(vec![RIGHT.as_bytes().to_vec()])).unwrap();
    let options = ConnectOptions { session_credential: Some(credential), ..options };
    let connection = connect(&link, &options).unwrap();
    let is_quic = connection.transport == TransportKind::Quic;
    assert_eq!(is_quic, transport == TransportChoice::Quic);
    Viewer::new(connection)
}

/// Starts a desktop that draws without end for each of two people, with this configuration, and
/// returns how long it takes until each has received so many bytes, one of them over QUIC.
fn time_of_two(configuration: &str, bytes: usize) -> Duration {
    let broker = Broker::with_config(|_| configuration.to_owned());
    let accounts = [broker.account(), broker.account()];
    for account in &accounts {
        let script = painter(Path::new("/nonexistent/stop"));
        let line = format!("xterm -geometry 150x50+0+0 -e sh -c '{script}'");
        let body = json!({ "what": { "program": line }, "name": "paint" });
        assert_eq!(started(&start_chosen(&logged_in(&broker, account), &body)), "paint");
    }
    let began = Instant::now();
    thread::scope(|scope| {
        for (account, transport) in
            accounts.iter().zip([TransportChoice::Tcp, TransportChoice::Quic])
        {
            let broker = &broker;
            scope.spawn(move || read_updates(&mut viewer_over(broker, account, transport), bytes));
        }
    });
    began.elapsed()
}

#[test]
fn desktops_of_a_host_are_together_sent_no_more_than_its_uplink() {
    if is_skipped() {
        return;
    }
    let took = time_of_two("uplink = '2M'\n", 400_000);
    assert!(took >= least_time(800_000, 250_000.0), "{took:?} for twice 400 kB at 250 kB/s");
}

#[test]
fn a_desktop_of_a_host_is_sent_no_more_than_each_may_be() {
    if is_skipped() {
        return;
    }
    let took = time_of_two("session-rate = '1M'\n", 300_000);
    assert!(took >= least_time(300_000, 125_000.0), "{took:?} for 300 kB at 125 kB/s");
}
