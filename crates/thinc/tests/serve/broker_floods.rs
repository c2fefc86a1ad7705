//! `thinc broker` while strangers flood it: half-open connections, slow and random requests, logins
//! that are begun and held. Memory stays bounded, and a person logs in within two seconds. Needs
//! root, as broker.rs does. Knows HTTP and processes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thinc_protocol::auth::Auth;
use thinc_protocol::session::CloseCode;
use thinc_transport::{ConnectError, Link, TransportChoice, establish};

use crate::broker::{Account, Broker, RIGHT, alone, is_skipped, status};
use crate::harness::{Tls, client_config, connect_options, dial, tls_over, wait_until};

/// Limit of a login beside a flood.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(2);
/// Resident memory of front or helper, KB: the 128 strangers that are let in have a TLS connection
/// of 60 KB each, and the helper 48 attempts.
const RESIDENT_KB_MAX: u64 = 64 * 1024;

/// A TLS connection from this address of this machine, with the protocol of viewers in windows or
/// of browsers; an error if the front has dropped it.
fn tls_from(source: Ipv4Addr, to: SocketAddr, alpn: &[u8]) -> std::io::Result<Tls> {
    let config = client_config(&[&rustls::version::TLS13], Some(alpn));
    tls_over(dial(source, to)?, config)
}

/// How long a person needs, who tries again at once when the connection is dropped, as viewers do.
fn time_of_login(broker: &Broker, account: &Account) -> Duration {
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let mut options = connect_options();
    options.known_hosts = Some(broker.folder.join(format!("known-{}", account.name)));
    options.transport = TransportChoice::Tcp;
    let begin = Instant::now();
    loop {
        let reached = match establish(&link, &options) {
            Ok(reached) => reached,
            Err(ConnectError::Refused { code, reason }) => panic!("{code:?}: {reason}"),
            Err(_) => continue,
        };
        let answered = reached.log_in(&account.name, &mut |prompts| {
            Some(vec![RIGHT.as_bytes().to_vec(); prompts.len()])
        });
        match answered {
            Ok(_) => return begin.elapsed(),
            // The crowd was so large that this attempt had to make room.
            Err(ConnectError::Refused {
                code: CloseCode::Unauthorized | CloseCode::Restart,
                ..
            })
            | Err(ConnectError::Broken(..)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Several people in turn, so that one unlucky draw decides nothing; the median has to be in time.
pub(crate) fn assert_people_log_in(broker: &Broker, account: &Account) {
    let mut times: Vec<_> = (0..5).map(|_| time_of_login(broker, account)).collect();
    times.sort();
    assert!(times[2] < LOGIN_TIME_MAX, "{times:?}");
}

/// The most memory that a process ever had resident, KB.
fn most_resident(pid: u32) -> u64 {
    status(pid, "VmHWM").trim_end_matches(" kB").parse().unwrap()
}

pub(crate) fn assert_memory_is_bounded(broker: &Broker, front: u32) {
    assert_eq!(broker.front(), front, "the front was restarted");
    for (what, pid) in [("front", front), ("helper", broker.process.id())] {
        let resident = most_resident(pid);
        assert!(resident < RESIDENT_KB_MAX, "{what}: {resident} KB");
    }
}

/// Both ends of a flood are on this machine, and this process has one of each connection.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// One connection of a flood, of a kind of its own by `number`; what is dropped may fail.
fn half_open(number: usize, to: SocketAddr) -> std::io::Result<Box<dyn Send>> {
    let source = Ipv4Addr::new(127, 11, (number % 40) as u8, 1);
    let noise = |length: u32| -> Vec<u8> {
        let seed = number as u32;
        (0..length).map(|at| ((at ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    };
    match number % 6 {
        // Silent.
        0 => Ok(Box::new(dial(source, to)?)),
        // The beginning of a TLS handshake.
        1 => {
            let mut tcp: TcpStream = dial(source, to)?;
            tcp.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")?;
            Ok(Box::new(tcp))
        }
        // A request whose head never ends.
        2 => {
            let mut tls = tls_from(source, to, b"http/1.1")?;
            tls.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")?;
            Ok(Box::new(tls))
        }
        // A login whose body never ends.
        3 => {
            let mut tls = tls_from(source, to, b"http/1.1")?;
            let head = format!(
                "POST /login HTTP/1.1\r\nHost: {to}\r\nOrigin: https://{to}\r\n\
                 Content-Type: application/json\r\nContent-Length: 4000\r\n\r\n{{"
            );
            tls.write_all(head.as_bytes())?;
            Ok(Box::new(tls))
        }
        // A message of a viewer that is announced to be as long as can be said.
        4 => {
            let mut tls = tls_from(source, to, b"thinc/1")?;
            tls.write_all(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f])?;
            tls.write_all(&noise(16 * 1024))?;
            Ok(Box::new(tls))
        }
        // Random bytes, and a head of a request that is too large.
        _ => {
            let mut tls = tls_from(source, to, b"http/1.1")?;
            if number % 12 == 5 {
                tls.write_all(&noise(16 * 1024))?;
            } else {
                let head = format!("GET /{} HTTP/1.1\r\n", "x".repeat(200 * 1024));
                tls.write_all(head.as_bytes())?;
            }
            Ok(Box::new(tls))
        }
    }
}

#[test]
fn a_thousand_half_open_connections_and_random_messages_keep_nobody_out() {
    if is_skipped() {
        return;
    }
    let _alone = alone();
    raise_descriptor_limit();
    let broker = Arc::new(Broker::start());
    let (anna, front) = (broker.account(), broker.front());
    let (is_over, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut open = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let number = opened.fetch_add(1, Ordering::Relaxed);
                    open.extend(half_open(number, broker.address));
                    if open.len() == 250 {
                        open.drain(..125);
                    }
                }
            });
        }
        wait_until("a thousand connections", || {
            (opened.load(Ordering::Relaxed) >= 1000).then_some(())
        });
        assert_people_log_in(&broker, &anna);
        is_over.store(true, Ordering::Relaxed);
    });
    assert_memory_is_bounded(&broker, front);
}

#[test]
fn attempts_that_are_begun_and_held_keep_nobody_out() {
    if is_skipped() {
        return;
    }
    let _alone = alone();
    let broker = Broker::start();
    let (anna, front) = (broker.account(), broker.front());
    let begin = |number: u8| -> std::io::Result<Tls> {
        let source = Ipv4Addr::new(127, 12, number % 50, 1);
        let mut tls = tls_from(source, broker.address, b"thinc/1")?;
        let mut bytes = Vec::new();
        Auth::Account(anna.name.as_bytes()).encode(&mut bytes);
        tls.write_all(&bytes)?;
        // PAM's question, or the end.
        let mut first = [0];
        tls.read_exact(&mut first)?;
        Ok(tls)
    };
    let held: Vec<_> = (0..200).map(begin).collect();
    let processes = || {
        let parent = broker.process.id().to_string();
        let mut pgrep = Command::new("pgrep");
        let output = pgrep.args(["-c", "-P", &parent, "-f", "broker-part login"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse::<usize>().unwrap()
    };
    // The limit of attempts in crates/broker/src/throttle.rs; those of refused ones may be ending.
    wait_until("few processes", || (processes() <= 48).then_some(()));
    assert!(processes() > 40, "most of those that fit are held: {}", processes());
    assert_people_log_in(&broker, &anna);
    drop(held);
    assert_memory_is_bounded(&broker, front);
}
