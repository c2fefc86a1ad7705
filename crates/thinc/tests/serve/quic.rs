//! QUIC, on the UDP half of a session's port: the same door with the same keys, beside TCP.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::{ConnectError, ConnectOptions, TransportChoice, Via, connect};

use crate::harness::{LONG, Said, Session, Viewer};

fn by_quic() -> ConnectOptions {
    ConnectOptions { transport: TransportChoice::Quic, timeout: LONG, ..ConnectOptions::default() }
}

#[test]
fn viewers_by_quic_and_by_tcp_see_the_same_session() {
    let session = Session::start(&[]);
    let connections = [by_quic(), ConnectOptions { transport: TransportChoice::Tcp, ..by_quic() }, by_quic()]
        .map(|options| connect(&session.link(), &options).unwrap());
    assert_eq!(connections.each_ref().map(|connection| connection.via), [Via::Quic, Via::Tcp, Via::Quic]);
    let mut viewers = connections.map(Viewer::new);
    let sizes = viewers.each_mut().map(Viewer::whole);
    assert!(sizes.iter().all(|size| *size == sizes[0] && size.area() > 0), "{sizes:?}");
    // Whoever leaves leaves the others.
    let [first, mut second, mut third] = viewers;
    drop(first);
    for viewer in [&mut second, &mut third] {
        viewer.say(&ViewerMessage::Barrier(2));
        viewer.until(|said| *said == Said::Barrier(2));
    }
}

#[test]
fn by_quic_too_a_token_is_good_once_and_a_session_key_for_good() {
    let session = Session::start(&[]);
    let link = session.link();
    let connection = connect(&link, &by_quic()).unwrap();
    let key = connection.session_key.clone();
    drop(connection);
    let mut wrong = session.link();
    wrong.token.as_mut().unwrap()[20] ^= 1;
    for link in [&link, &wrong] {
        let error = connect(link, &by_quic()).unwrap_err();
        let ConnectError::Refused { code, reason } = error else { panic!("{error}") };
        assert_eq!(code, CloseCode::Unauthorized);
        assert!(reason.starts_with("the link's token was used, wrong or too old"), "{reason}");
    }
    let again = ConnectOptions { session_key: Some(key), ..by_quic() };
    Viewer::new(connect(&link, &again).unwrap()).whole();
}

#[test]
fn where_quic_is_off_a_viewer_comes_by_tcp() {
    let session = Session::start(&["--quic", "off"]);
    let connection = connect(&session.link(), &ConnectOptions::default()).unwrap();
    assert_eq!(connection.via, Via::Tcp);
    let alone = ConnectOptions { timeout: Duration::from_millis(300), ..by_quic() };
    assert!(matches!(connect(&session.link(), &alone), Err(ConnectError::Connect(..))));
    Viewer::new(connection).whole();
}

#[test]
fn a_viewer_by_quic_hears_of_a_killed_session_process_and_comes_back() {
    let session = Session::start(&[]);
    let link = session.link();
    let mut viewer = Viewer::new(connect(&link, &by_quic()).unwrap());
    viewer.whole();
    let key = ConnectOptions { session_key: Some(viewer.session_key.clone()), ..by_quic() };
    let process = i32::try_from(session.pid("session")).unwrap();
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    while viewer.next().is_some() {}
    Viewer::new(connect(&link, &key).unwrap()).whole();
    assert_eq!(session.status()["restarts"], 1);
}
