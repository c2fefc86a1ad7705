//! The same port over UDP: QUIC connections of viewers in windows, and of pages over WebTransport.
//! Beside the path: from the sockets, which the helper passes, to native.rs and webtransport.rs.
//! Knows addresses and handshakes; never what a connection carries.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use thinc_session_server::gate::{AUTH_TIMEOUT, HandshakeLimiter, Pass};
use thinc_transport::quic::{Accepted, IncomingConnection, QuicListener};
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tracing::debug;

use super::http::{NewConnection, Shared};
use super::proxied::Peer;
use super::{native, webtransport};

/// Accepts connections until the socket is closed.
pub(super) async fn accept(
    shared: &Arc<Shared>,
    listener: QuicListener,
    limiter: &Mutex<HandshakeLimiter>,
) {
    while let Some(incoming) = listener.accept().await {
        let peer = Peer::from(incoming.peer());
        let is_validated = incoming.is_address_validated();
        if !is_validated && shared.gate.must_validate(peer.address, limiter) {
            incoming.retry();
            continue;
        }
        // The next ones wait in quinn's queue, which is bounded.
        let wait =
            limiter.lock().expect("no holder of this lock can panic").delay_of_next(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let (send, receive) = oneshot::channel();
        let number = shared.next_number();
        let for_task = shared.clone();
        let task = tokio::spawn(async move {
            // The entry can only be made once there is a task that it can abort.
            let Ok(connection) = receive.await else { return };
            serve(for_task, incoming, connection).await;
        });
        let task = task.abort_handle();
        let pass = shared.gate.enter(number, peer.address, task.clone());
        if is_validated {
            pass.set_has_sent();
        }
        let _ = send.send(NewConnection { number, peer, task, pass: Some(pass) });
    }
}

async fn serve(shared: Arc<Shared>, incoming: IncomingConnection, connection: NewConnection) {
    let peer = connection.peer;
    let deadline = tokio::time::Instant::now() + AUTH_TIMEOUT;
    let accepted = match timeout_at(deadline, incoming.accept()).await {
        Err(_) => return debug!("{peer}: no QUIC handshake within {AUTH_TIMEOUT:?}"),
        Ok(Err(error)) => return debug!("{peer}: {error}"),
        Ok(Ok(accepted)) => accepted,
    };
    connection.pass.iter().for_each(Pass::set_has_sent);
    match accepted {
        Accepted::Viewer(stream) => native::serve(shared, *stream, connection).await,
        Accepted::Browser(browser) => {
            webtransport::serve(shared, browser, connection, deadline).await;
        }
    }
}
