//! Both ends of a QUIC connection on the loopback: the viewer's as it is, the session's as far as front.rs goes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::PREAUTH_FRAME_BYTES_MAX;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

use super::{Door, Knock, Visit};
use crate::client::TransportChoice;
use crate::identity::Identity;
use crate::token::SessionSecret;
use crate::{Came, ConnectError, ConnectOptions, Connection, Link, Scheme, SpkiPin, Via, connect, reach};

const SECRET: [u8; 32] = [7; 32];

pub(super) fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("thinc-quic-{}", std::process::id()));
        let identity = Identity::load_or_make(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        identity
    })
}

/// A session process, as far as its door goes.
struct Host {
    at: SocketAddr,
    /// As the supervisor keeps it.
    socket: UdpSocket,
    /// Viewers whose credential was read.
    credentials: Arc<AtomicUsize>,
    /// First packets that had to prove where they come from.
    asked: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    fn start() -> Host {
        Host::on(UdpSocket::bind("127.0.0.1:0").unwrap(), false)
    }

    fn on(socket: UdpSocket, wants_proof: bool) -> Host {
        let (stop, stopped) = oneshot::channel();
        let (credentials, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let thread = std::thread::spawn({
            let (socket, credentials, asked) = (socket.try_clone().unwrap(), credentials.clone(), asked.clone());
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let door = Door::open(socket, identity(), &SessionSecret(SECRET), Duration::ZERO).unwrap();
                    let serve = async {
                        while let Some(knock) = door.next().await {
                            if wants_proof && !knock.has_proved_address() {
                                asked.fetch_add(1, Ordering::Relaxed);
                                knock.ask_for_proof();
                            } else {
                                tokio::spawn(echo(knock, credentials.clone()));
                            }
                        }
                    };
                    tokio::select! {
                        () = serve => {}
                        _ = stopped => {}
                    }
                });
            }
        });
        Host { at: socket.local_addr().unwrap(), socket, credentials, asked, stop: Some(stop), thread: Some(thread) }
    }

    fn link(&self, pin: SpkiPin) -> Link {
        Link {
            scheme: Scheme::Thinc,
            host: self.at.ip().to_string(),
            port: self.at.port(),
            base_path: "/".into(),
            token: Some(vec![1; 24]),
            pin: Some(pin),
        }
    }

    fn connect(&self) -> Connection {
        connect(&self.link(identity().pin), &by_quic()).unwrap()
    }

    /// Ends as a process does that is killed: nobody is told.
    fn kill(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

fn by_quic() -> ConnectOptions {
    ConnectOptions { transport: TransportChoice::Quic, ..ConnectOptions::default() }
}

/// Takes any credential, then says everything back, and the end when the viewer has said it.
async fn echo(knock: Knock, credentials: Arc<AtomicUsize>) {
    let Ok(Visit::Viewer(mut stream)) = knock.accept().await else { return };
    let mut frames = Deframer::new(PREAUTH_FRAME_BYTES_MAX);
    let mut buffer = vec![0; 16 * 1024];
    let mut said = Vec::new();
    let credential_bytes = loop {
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return };
        said.extend_from_slice(&buffer[..count]);
        frames.push(&buffer[..count]);
        let Some(frame) = frames.next().unwrap() else { continue };
        let mut whole = Vec::new();
        Auth::decode(&frame).unwrap().encode(&mut whole);
        credentials.fetch_add(1, Ordering::Relaxed);
        break whole.len();
    };
    stream.trust();
    let mut answer = Vec::new();
    AuthOk { session_key: &[9; 48] }.encode(&mut answer);
    answer.extend_from_slice(&said[credential_bytes..]);
    stream.write_all(&answer).await.unwrap();
    let datagrams = stream.datagrams();
    tokio::spawn(async move {
        while let Ok(datagram) = datagrams.receive().await {
            if datagram.len() <= datagrams.room() {
                datagrams.send(&datagram);
            }
        }
    });
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        let figures = stream.path().figures().expect("a handshake measures the path");
        assert!(figures.in_flight > 0 && figures.rtt >= figures.rtt_min && figures.window > 0, "{figures:?}");
    }
    let _ = stream.shutdown().await;
}

#[test]
fn bytes_arrive_in_order_both_ways_and_so_does_the_end() {
    let host = Host::start();
    let connection = host.connect();
    assert_eq!((connection.via, connection.peer, connection.pin), (Via::Quic, host.at, identity().pin));
    assert_eq!(connection.session_key, [9; 48]);
    let (mut reader, mut writer) = connection.split();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let writing = std::thread::spawn({
        let (mut writer, sent) = (writer.clone(), sent.clone());
        move || writer.write_all(&sent).unwrap()
    });
    let mut received = vec![0; sent.len()];
    reader.read_exact(&mut received).unwrap();
    assert!(received == sent, "bytes were changed on the way");
    writing.join().unwrap();
    // After the end nothing can be said, and nobody waits.
    writer.write_all(b"last words").unwrap();
    writer.close();
    assert!(writer.write_all(b"more").is_err());
    received.clear();
    let _ = reader.read_to_end(&mut received);
    assert!(b"last words".starts_with(&received), "nothing else was said");
}

#[test]
fn datagrams_go_both_ways_beside_the_stream() {
    let host = Host::start();
    let reached = reach(&host.link(identity().pin), &by_quic()).unwrap();
    assert!(reached.takes_datagrams());
    let (mut reader, mut writer) = reached.enter(b"first ", Duration::from_secs(10)).unwrap().split();
    let mut buffer = [0; 100];
    // One may be lost even here, where a socket has no room for it.
    let mut left = b"first ".len();
    let datagram = loop {
        writer.send_datagram(b"alone");
        writer.write_all(b"in order").unwrap();
        left += b"in order".len();
        match reader.next(&mut buffer).unwrap() {
            Came::Datagram(bytes) => break bytes,
            Came::Bytes(count) => left -= count,
        }
    };
    assert_eq!(datagram, b"alone");
    while left > 0 {
        if let Came::Bytes(count) = reader.next(&mut buffer).unwrap() {
            left -= count;
        }
    }
    writer.close();
    let end = std::iter::repeat_with(|| reader.next(&mut buffer)).find(|came| !matches!(came, Ok(Came::Datagram(_))));
    assert!(matches!(end, Some(Ok(Came::Bytes(0)) | Err(_))), "{end:?}");
}

#[test]
fn another_key_is_a_hard_stop_before_anything_is_said() {
    let host = Host::start();
    let error = connect(&host.link(SpkiPin([3; 32])), &by_quic()).unwrap_err();
    assert!(matches!(error, ConnectError::WrongKey { .. }), "{error}");
    assert_eq!(host.credentials.load(Ordering::Relaxed), 0);
}

#[test]
fn where_nobody_is_it_takes_no_longer_than_was_allowed() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let host = Host::start();
    let link = Link { port: nobody.local_addr().unwrap().port(), ..host.link(identity().pin) };
    let begun = Instant::now();
    let options = ConnectOptions { timeout: Duration::from_millis(200), ..by_quic() };
    assert!(matches!(connect(&link, &options), Err(ConnectError::Connect(..))));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn an_address_is_proved_where_the_door_asks_for_it() {
    let host = Host::on(UdpSocket::bind("127.0.0.1:0").unwrap(), true);
    let connection = host.connect();
    assert_eq!(connection.via, Via::Quic);
    assert!(host.asked.load(Ordering::Relaxed) > 0);
    assert_eq!(host.credentials.load(Ordering::Relaxed), 1);
}

#[test]
fn garbage_on_the_port_changes_nothing() {
    let host = Host::start();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut noise = 0x5EED_u64;
    for length in (0..1400).step_by(7) {
        let mut packet: Vec<u8> = Vec::new();
        while packet.len() < length {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            packet.push((noise >> 56) as u8);
        }
        // Heads of first packets too: long form, QUIC's version, lengths of all kinds behind it.
        if length > 8 && length % 2 == 0 {
            packet[..5].copy_from_slice(&[0xc3, 0, 0, 0, 1]);
        }
        stranger.send_to(&packet, host.at).unwrap();
    }
    let (mut reader, mut writer) = host.connect().split();
    writer.write_all(b"still here").unwrap();
    let mut answer = [0; 10];
    reader.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"still here");
}

#[test]
fn a_session_process_that_dies_is_missed_at_once_by_its_successors_word() {
    let mut host = Host::start();
    let (mut reader, mut writer) = host.connect().split();
    writer.write_all(b"?").unwrap();
    reader.read_exact(&mut [0]).unwrap();
    host.kill();
    let next = Host::on(host.socket.try_clone().unwrap(), false);
    writer.write_all(b"are you still the one?").unwrap();
    let begun = Instant::now();
    assert!(reader.read(&mut [0]).is_err(), "nobody answers for a connection of a dead process");
    assert!(begun.elapsed() < Duration::from_secs(10), "and not by its silence");
    assert_eq!(next.connect().via, Via::Quic);
}

#[test]
fn a_viewer_whose_address_changes_keeps_its_connection() {
    let host = Host::start();
    let (mut reader, mut writer) = host.connect().split();
    let mut answer = [0; 6];
    for _ in 0..3 {
        writer.rebind();
        writer.write_all(b"hello!").unwrap();
        reader.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello!");
    }
    assert_eq!(host.credentials.load(Ordering::Relaxed), 1);
}
