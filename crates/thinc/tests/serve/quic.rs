//! QUIC on the UDP half of a session's port: the same credentials as over TCP.

use std::net::UdpSocket;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::{ConnectError, ConnectOptions, TransportChoice, TransportKind, connect};

use crate::harness::{Message, Session, Viewer, connect_options};

fn over_quic() -> ConnectOptions {
    ConnectOptions { transport: TransportChoice::Quic, ..connect_options() }
}

#[test]
fn viewers_over_quic_and_over_tcp_see_the_same_session() {
    let session = Session::start(&[]);
    let connections = [
        over_quic(),
        ConnectOptions { transport: TransportChoice::Tcp, ..over_quic() },
        over_quic(),
    ]
    .map(|options| connect(&session.link(), &options).unwrap());
    assert_eq!(
        connections.each_ref().map(|connection| connection.transport),
        [TransportKind::Quic, TransportKind::Tcp, TransportKind::Quic]
    );
    let mut viewers = connections.map(Viewer::new);
    let sizes = viewers.each_mut().map(Viewer::wait_complete);
    assert!(sizes.iter().all(|size| *size == sizes[0] && size.area() > 0), "{sizes:?}");
    // A viewer that disconnects does not affect the others.
    let [first, mut second, mut third] = viewers;
    drop(first);
    for viewer in [&mut second, &mut third] {
        viewer.send(&ViewerMessage::Barrier(2));
        viewer.until(|message| *message == Message::Barrier(2));
    }
}

#[test]
fn over_quic_a_token_is_valid_once_and_a_session_credential_repeatedly() {
    let session = Session::start(&[]);
    let link = session.link();
    let connection = connect(&link, &over_quic()).unwrap();
    let key = connection.session_credential.clone();
    drop(connection);
    let mut wrong = session.link();
    wrong.token.as_mut().unwrap()[20] ^= 1;
    for link in [&link, &wrong] {
        let error = connect(link, &over_quic()).unwrap_err();
        let ConnectError::Refused { code, reason } = error else { panic!("{error}") };
        assert_eq!(code, CloseCode::Unauthorized);
        assert!(reason.starts_with("the link's token was used, wrong or too old"), "{reason}");
    }
    let again = ConnectOptions { session_credential: Some(key), ..over_quic() };
    Viewer::new(connect(&link, &again).unwrap()).wait_complete();
}

#[test]
fn without_quic_a_viewer_connects_over_tcp() {
    let session = Session::start(&["--quic", "off"]);
    let connection = connect(&session.link(), &connect_options()).unwrap();
    assert_eq!(connection.transport, TransportKind::Tcp);
    // Nobody listens there, so no time-out is long enough.
    drop(UdpSocket::bind(session.address()).expect("the UDP half of the port is free"));
    let quic_only = ConnectOptions { timeout: Duration::from_millis(300), ..over_quic() };
    assert!(matches!(connect(&session.link(), &quic_only), Err(ConnectError::Connect(..))));
    Viewer::new(connection).wait_complete();
}

#[test]
fn a_viewer_over_quic_detects_a_killed_session_process_and_reconnects() {
    let session = Session::start(&[]);
    let link = session.link();
    let mut viewer = Viewer::new(connect(&link, &over_quic()).unwrap());
    viewer.wait_complete();
    let key = ConnectOptions {
        session_credential: Some(viewer.session_credential.clone()),
        ..over_quic()
    };
    let process = i32::try_from(session.pid("session")).unwrap();
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    while viewer.next().is_some() {}
    Viewer::new(connect(&link, &key).unwrap()).wait_complete();
    assert_eq!(session.status()["restarts"], 1);
}
