//! QUIC on the UDP half of the broker's port: logins, desktops, a front that is killed, and
//! strangers who flood it.

use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::{
    ConnectError, ConnectOptions, Connection, Link, TransportChoice, TransportKind, connect,
    establish,
};

use crate::broker::{Account, Broker, RIGHT, alone, is_skipped};
use crate::broker_floods::{assert_memory_is_bounded, assert_people_log_in};
use crate::harness::{Message, Session, Viewer, connect_options, wait_until};

fn link(broker: &Broker) -> Link {
    format!("https://{}/", broker.address).parse().unwrap()
}

fn over_quic(broker: &Broker) -> ConnectOptions {
    ConnectOptions {
        known_hosts: Some(broker.folder.join("known-hosts")),
        transport: TransportChoice::Quic,
        ..connect_options()
    }
}

fn log_in(broker: &Broker, account: &Account, password: &str) -> Result<Vec<u8>, ConnectError> {
    let reached = establish(&link(broker), &over_quic(broker))?;
    reached.log_in(&account.name, &mut |prompts| {
        Some(vec![password.as_bytes().to_vec(); prompts.len()])
    })
}

#[test]
fn a_viewer_logs_in_over_quic_and_reconnects_as_soon_as_the_front_was_killed() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let anna = broker.account();
    let refused = log_in(&broker, &anna, "wrong").unwrap_err();
    let ConnectError::Refused { code: CloseCode::Unauthorized, .. } = refused else {
        panic!("{refused}")
    };
    let credential = log_in(&broker, &anna, RIGHT).unwrap();
    let options = ConnectOptions { session_credential: Some(credential), ..over_quic(&broker) };
    let opened = || {
        let audit = std::fs::read_to_string(broker.folder.join("audit")).unwrap();
        audit.matches("session-opened").count()
    };
    for recorded in [2, 4] {
        let connection = connect(&link(&broker), &options).unwrap();
        assert_eq!(connection.transport, TransportKind::Quic);
        let mut viewer = Viewer::new(connection);
        assert_eq!(viewer.next(), Some(Message::Hello("desk".into())));
        viewer.wait_complete();
        let (mut reader, mut writer) = connect(&link(&broker), &options).unwrap().split();
        // A front that is killed at once has told nobody of them.
        wait_until("both are recorded", || (opened() == recorded).then_some(()));
        let front = broker.front();
        kill_process(Pid::from_raw(front as i32).unwrap(), Signal::KILL).unwrap();
        wait_until("another front", || (broker.front() != front).then_some(()));
        // The next front has the same secret, and resets what the one before had: now, or before if
        // something had to be sent again.
        let _ = writer.write_all(b"?");
        let end = std::io::copy(&mut reader, &mut std::io::sink()).unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset, "and not by a time-out");
    }
    let mut viewer = Viewer::new(connect(&link(&broker), &options).unwrap());
    viewer.wait_complete();
    // The login itself opens none.
    wait_until("the last is recorded", || (opened() == 5).then_some(()));
}

#[test]
fn without_quic_nothing_is_open_over_udp_and_viewers_use_tcp() {
    if is_skipped() {
        return;
    }
    let broker = Broker::with_config(|_| "quic = false\n".to_owned());
    let anna = broker.account();
    assert!(UdpSocket::bind(broker.address).is_ok(), "the port is free");
    let options = ConnectOptions { transport: TransportChoice::Auto, ..over_quic(&broker) };
    let reached = establish(&link(&broker), &options).unwrap();
    let answered = reached
        .log_in(&anna.name, &mut |prompts| Some(vec![RIGHT.as_bytes().to_vec(); prompts.len()]));
    let options = ConnectOptions { session_credential: Some(answered.unwrap()), ..options };
    assert_eq!(connect(&link(&broker), &options).unwrap().transport, TransportKind::Tcp);
}

/// First packets of QUIC connections (RFC 9000, 17.2.2) without a valid handshake, and noise, from
/// many addresses.
fn flood(number: usize, to: SocketAddr) {
    let source = Ipv4Addr::new(127, 12, (number % 40) as u8, 1);
    let Ok(socket) = UdpSocket::bind((source, 0)) else { return };
    let seed = number as u32;
    let mut packet: Vec<u8> =
        (0..1200_u32).map(|at| ((at ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    if !number.is_multiple_of(4) {
        // Long header, version 1, an ID of eight bytes, none, no token, the rest.
        packet[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
        packet[14..18].copy_from_slice(&[0, 0, 0x44, 0x9e]);
    }
    let _ = socket.send_to(&packet, to);
}

/// Handshakes that are complete, and then nothing.
fn hold(to: SocketAddr, options: &ConnectOptions) -> Option<impl Sized + use<>> {
    let link: Link = format!("https://{to}/").parse().unwrap();
    establish(&link, options).ok()
}

#[test]
fn a_flood_over_udp_keeps_nobody_out() {
    if is_skipped() {
        return;
    }
    let _alone = alone();
    let broker = Broker::start();
    let (anna, front) = (broker.account(), broker.front());
    log_in(&broker, &anna, RIGHT).unwrap();
    let (is_over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                flood(sent.fetch_add(1, Ordering::Relaxed), broker.address);
            }
        });
        scope.spawn(|| {
            let options = over_quic(&broker);
            let mut held = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                held.extend(hold(broker.address, &options));
                if held.len() == 40 {
                    held.drain(..20);
                }
            }
        });
        wait_until("a flood", || (sent.load(Ordering::Relaxed) >= 5000).then_some(()));
        assert_people_log_in(&broker, &anna);
        is_over.store(true, Ordering::Relaxed);
    });
    assert_memory_is_bounded(&broker, front);
}

/// Median round trip of a message to the session process and back, in microseconds.
fn round_trip(connection: Connection) -> u128 {
    let mut viewer = Viewer::new(connection);
    viewer.wait_complete();
    let mut times: Vec<_> = (0..2000)
        .map(|number| {
            let begin = Instant::now();
            viewer.send(&ViewerMessage::Ping(number));
            viewer.until(|message| *message == Message::Pong);
            begin.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// For doc/performance.md: the same message with and without the broker, in turns.
#[test]
#[ignore = "a measurement"]
fn round_trips_with_and_without_the_front() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let anna = broker.account();
    let credential = Some(log_in(&broker, &anna, RIGHT).unwrap());
    let session = Session::start(&[]);
    for _ in 0..3 {
        for transport in [TransportChoice::Tcp, TransportChoice::Quic] {
            let own = ConnectOptions { transport, ..connect_options() };
            let without = round_trip(connect(&session.link(), &own).unwrap());
            let session_credential = credential.clone();
            let through = ConnectOptions { transport, session_credential, ..over_quic(&broker) };
            let with = round_trip(connect(&link(&broker), &through).unwrap());
            println!("{transport:?}: {without} µs without, {with} µs with the front");
        }
    }
}
