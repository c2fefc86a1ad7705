//! Both ends of a QUIC connection on the loopback: the viewer's as it is, the session's as far as
//! front.rs.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::PREAUTH_MESSAGE_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;

use super::{Accepted, Datagrams, IncomingConnection, QuicListener};
use crate::client::TransportChoice;
use crate::identity::Identity;
use crate::path::Path;
use crate::relay::RelayedStream;
use crate::token::SessionSecret;
use crate::{
    ConnectError, ConnectOptions, Connection, Link, Received, Scheme, SpkiPin, TransportKind,
    connect, establish,
};

const SECRET: [u8; 32] = [7; 32];
/// Longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("thinc-quic-{}", std::process::id()));
        let identity = Identity::load_or_create(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        identity
    })
}

/// A session process, reduced to its listener.
struct TestSession {
    at: SocketAddr,
    /// The supervisor's copy.
    socket: UdpSocket,
    /// Viewers whose credential was read.
    credentials: Arc<AtomicUsize>,
    /// First packets that were answered with a Retry.
    retries: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a [`TestSession`] does beside echoing.
#[derive(Clone, Copy, Default)]
struct Behaviour {
    validates_addresses: bool,
    /// The session is behind a broker's front.
    is_relayed: bool,
}

impl TestSession {
    fn start() -> TestSession {
        TestSession::with(Behaviour::default())
    }

    fn with(behaviour: Behaviour) -> TestSession {
        TestSession::on_socket(UdpSocket::bind("127.0.0.1:0").unwrap(), behaviour)
    }

    fn on_socket(socket: UdpSocket, behaviour: Behaviour) -> TestSession {
        let (stop, stopped) = oneshot::channel();
        let (credentials, retries) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let thread = std::thread::spawn({
            let (socket, credentials, retries) =
                (socket.try_clone().unwrap(), credentials.clone(), retries.clone());
            move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let listener = QuicListener::new(
                        socket,
                        identity(),
                        &SessionSecret(SECRET),
                        Duration::ZERO,
                    )
                    .unwrap();
                    let serve = async {
                        while let Some(incoming) = listener.accept().await {
                            let must_validate = behaviour.validates_addresses;
                            if must_validate && !incoming.is_address_validated() {
                                retries.fetch_add(1, Ordering::Relaxed);
                                incoming.retry();
                            } else {
                                let credentials = credentials.clone();
                                tokio::spawn(serve(incoming, credentials, behaviour.is_relayed));
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
        TestSession {
            at: socket.local_addr().unwrap(),
            socket,
            credentials,
            retries,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn link(&self, pin: SpkiPin) -> Link {
        Link {
            scheme: Scheme::Thinc,
            host: self.at.ip().to_string(),
            port: self.at.port(),
            base_path: "/".into(),
            token: Some(vec![1; 24]),
            pin: Some(pin),
            guest: None,
        }
    }

    fn connect(&self) -> Connection {
        connect(&self.link(identity().pin()), &over_quic()).unwrap()
    }

    /// Ends like a killed process: without closing its connections.
    fn kill(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for TestSession {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

fn over_quic() -> ConnectOptions {
    ConnectOptions {
        transport: TransportChoice::Quic,
        timeout: TIMEOUT,
        answer_timeout: TIMEOUT,
        ..ConnectOptions::default()
    }
}

/// Accepts any credential, then echoes everything, and closes when the viewer has.
async fn serve(incoming: IncomingConnection, credentials: Arc<AtomicUsize>, is_relayed: bool) {
    let Ok(Accepted::Viewer(mut stream)) = incoming.accept().await else { return };
    let mut frames = Deframer::new(PREAUTH_MESSAGE_BYTES_MAX);
    let mut buffer = vec![0; 16 * 1024];
    let mut received_bytes = Vec::new();
    let credential_bytes = loop {
        let Ok(count @ 1..) = stream.read(&mut buffer).await else { return };
        received_bytes.extend_from_slice(&buffer[..count]);
        frames.push(&buffer[..count]);
        let Some(frame) = frames.next().unwrap() else { continue };
        let mut whole = Vec::new();
        Auth::decode(&frame).unwrap().encode(&mut whole);
        credentials.fetch_add(1, Ordering::Relaxed);
        break whole.len();
    };
    stream.set_authenticated();
    let mut answer = Vec::new();
    AuthOk { session_credential: &[9; 48] }.encode(&mut answer);
    answer.extend_from_slice(&received_bytes[credential_bytes..]);
    stream.write_all(&answer).await.unwrap();
    if !is_relayed {
        let (path, datagrams) = (Path::Quic(stream.path()), stream.datagrams());
        return echo(stream, path, datagrams).await;
    }
    let (relay, descriptors) = stream.relay().unwrap();
    let (mut near, far) = tokio::net::UnixStream::pair().unwrap();
    let (far, path, datagrams) = RelayedStream::new(far, descriptors).unwrap();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut stream, &mut near) => {}
        _ = relay.run(|_| true) => {}
        () = echo(far, path, datagrams) => {}
    }
}

/// The session's end: echoes the stream and the datagrams, and looks at the path's statistics.
async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: Path, datagrams: Datagrams) {
    assert!(datagrams.are_supported());
    tokio::spawn(async move {
        while let Ok(datagram) = datagrams.receive().await {
            if datagram.len() <= datagrams.max_len() {
                datagrams.send(&datagram);
            }
        }
    });
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        let info = path.info().expect("a handshake measures the path");
        assert!(info.unacknowledged > 0 && info.rtt >= info.rtt_min && info.window > 0, "{info:?}");
    }
    let _ = stream.shutdown().await;
}

#[test]
fn bytes_arrive_in_order_in_both_directions_and_so_does_the_end() {
    check_bytes(&TestSession::start());
}

#[test]
fn bytes_arrive_through_a_broker_too() {
    check_bytes(&TestSession::with(Behaviour { is_relayed: true, ..Behaviour::default() }));
}

fn check_bytes(session: &TestSession) {
    let connection = session.connect();
    assert_eq!(
        (connection.transport, connection.peer, connection.pin),
        (TransportKind::Quic, session.at, identity().pin())
    );
    assert_eq!(connection.session_credential, [9; 48]);
    let (mut reader, mut writer) = connection.split();
    let sent: Vec<u8> =
        (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let writing = std::thread::spawn({
        let (mut writer, sent) = (writer.clone(), sent.clone());
        move || writer.write_all(&sent).unwrap()
    });
    let mut received = vec![0; sent.len()];
    reader.read_exact(&mut received).unwrap();
    assert!(received == sent, "bytes were changed in transit");
    writing.join().unwrap();
    // After the close writes fail, and nothing blocks.
    writer.write_all(b"last words").unwrap();
    writer.close();
    assert!(writer.write_all(b"more").is_err());
    received.clear();
    let _ = reader.read_to_end(&mut received);
    assert!(b"last words".starts_with(&received), "nothing else was received_bytes");
}

/// A viewer that replaces a connection establishes the next one and may wait before it uses it.
#[test]
fn authentication_has_its_own_time_whenever_the_connection_was_established() {
    let session = TestSession::start();
    let link = session.link(identity().pin());
    // As short as the machine allows, since its end is waited for.
    let (established, end) = (0..7)
        .find_map(|doubled| {
            let options =
                ConnectOptions { timeout: Duration::from_secs(1 << doubled), ..over_quic() };
            let end = Instant::now() + options.timeout;
            establish(&link, &options).ok().zip(Some(end))
        })
        .unwrap();
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    assert!(established.authenticate(b"first ", TIMEOUT).is_ok());
}

#[test]
fn datagrams_travel_in_both_directions_beside_the_stream() {
    check_datagrams(&TestSession::start());
}

#[test]
fn datagrams_travel_through_a_broker_too() {
    check_datagrams(&TestSession::with(Behaviour { is_relayed: true, ..Behaviour::default() }));
}

fn check_datagrams(session: &TestSession) {
    let established = establish(&session.link(identity().pin()), &over_quic()).unwrap();
    assert!(established.supports_datagrams());
    let (mut reader, mut writer) = established.authenticate(b"first ", TIMEOUT).unwrap().split();
    let mut buffer = [0; 100];
    // A datagram may be lost even here, if a socket has no room for it.
    let mut unread = b"first ".len();
    let datagram = loop {
        writer.send_datagram(b"datagram");
        writer.write_all(b"in order").unwrap();
        unread += b"in order".len();
        match reader.receive(&mut buffer).unwrap() {
            Received::Datagram(bytes) => break bytes,
            Received::Bytes(count) => unread -= count,
        }
    };
    assert_eq!(datagram, b"datagram");
    while unread > 0 {
        if let Received::Bytes(count) = reader.receive(&mut buffer).unwrap() {
            unread -= count;
        }
    }
    writer.close();
    let end = std::iter::repeat_with(|| reader.receive(&mut buffer))
        .find(|came| !matches!(came, Ok(Received::Datagram(_))));
    assert!(matches!(end, Some(Ok(Received::Bytes(0)) | Err(_))), "{end:?}");
}

#[test]
fn a_wrong_key_ends_the_attempt_before_the_credential_is_sent() {
    let session = TestSession::start();
    let error = connect(&session.link(SpkiPin([3; 32])), &over_quic()).unwrap_err();
    assert!(matches!(error, ConnectError::WrongKey { .. }), "{error}");
    assert_eq!(session.credentials.load(Ordering::Relaxed), 0);
}

#[test]
fn an_attempt_without_an_answer_ends_at_its_time_out() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let session = TestSession::start();
    let link = Link { port: nobody.local_addr().unwrap().port(), ..session.link(identity().pin()) };
    let options = ConnectOptions { timeout: Duration::from_millis(200), ..over_quic() };
    // A busy machine may add time, but not each time; QUIC's own time-out of 30 s would.
    assert!((0..5).any(|_| {
        let started = Instant::now();
        assert!(matches!(connect(&link, &options), Err(ConnectError::Connect(..))));
        started.elapsed() < Duration::from_secs(5)
    }));
}

#[test]
fn an_address_is_proved_where_the_door_asks_for_it() {
    let session =
        TestSession::with(Behaviour { validates_addresses: true, ..Behaviour::default() });
    let connection = session.connect();
    assert_eq!(connection.transport, TransportKind::Quic);
    assert!(session.retries.load(Ordering::Relaxed) > 0);
    assert_eq!(session.credentials.load(Ordering::Relaxed), 1);
}

#[test]
fn garbage_on_the_port_is_ignored() {
    let session = TestSession::start();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut noise = 0x5EED_u64;
    for length in (0..1400).step_by(7) {
        let mut packet: Vec<u8> = Vec::new();
        while packet.len() < length {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            packet.push((noise >> 56) as u8);
        }
        // Headers of Initial packets too: long form, QUIC's version, then lengths of all kinds.
        if length > 8 && length % 2 == 0 {
            packet[..5].copy_from_slice(&[0xc3, 0, 0, 0, 1]);
        }
        stranger.send_to(&packet, session.at).unwrap();
    }
    let (mut reader, mut writer) = session.connect().split();
    writer.write_all(b"still here").unwrap();
    let mut answer = [0; 10];
    reader.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"still here");
}

#[test]
fn a_restarted_session_process_resets_the_connections_of_the_one_before_it() {
    let mut session = TestSession::start();
    let (mut reader, mut writer) = session.connect().split();
    writer.write_all(b"?").unwrap();
    reader.read_exact(&mut [0]).unwrap();
    session.kill();
    let next = TestSession::on_socket(session.socket.try_clone().unwrap(), Behaviour::default());
    writer.write_all(b"are you still the one?").unwrap();
    let error = reader.read(&mut [0]).expect_err("the connection of a dead process ends");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "and not by a time-out");
    assert_eq!(next.connect().transport, TransportKind::Quic);
}

#[test]
fn a_viewer_whose_address_changes_keeps_its_connection() {
    let session = TestSession::start();
    let (mut reader, mut writer) = session.connect().split();
    let mut answer = [0; 6];
    for _ in 0..3 {
        writer.rebind();
        writer.write_all(b"hello!").unwrap();
        reader.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello!");
    }
    assert_eq!(session.credentials.load(Ordering::Relaxed), 1);
}
