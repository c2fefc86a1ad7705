//! Path 10/13 on this machine: viewers of the same user, over a Unix socket, without TLS and
//! without a token. From `thinc session --stdio`, which ssh starts, to actor.rs; the kernel tells
//! the peer's user (SO_PEERCRED). Knows users; every byte passes through unread.

use std::os::unix::net::UnixListener;

use socket2::SockRef;
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tokio::sync::oneshot;
use tracing::warn;

use crate::connection::{self, ConnectionIds, Events, Opened};
use crate::front::ACCEPT_PAUSE;
use crate::native;

/// 32 KiB, which the kernel doubles: bytes that wait for `thinc session --stdio`. More would wait
/// where nothing can replace or overtake it.
const SEND_BUFFER_BYTES: usize = 32 * 1024;

/// Accepts viewers, without end.
pub(crate) async fn serve(listener: UnixListener, ids: ConnectionIds, events: Events) {
    let listener =
        listener.set_nonblocking(true).and_then(|()| tokio::net::UnixListener::from_std(listener));
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => {
            warn!("cannot listen for viewers on this machine: {error}");
            return;
        }
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Probably out of descriptors: open connections continue, and their end frees some.
                warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(peer) = trusted_peer(&stream) else { continue };
        let label = format!("this machine (process {})", peer.pid().unwrap_or(0));
        serve_viewer(stream, label, &ids, events.clone());
    }
}

/// The process at the other end, if it belongs to our user or to root. The folder's mode keeps
/// others out; one that gets here all the same is told nothing.
pub(crate) fn trusted_peer(stream: &UnixStream) -> Option<UCred> {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own || peer.uid() == 0 => Some(peer),
        Ok(peer) => {
            warn!("refused a process of user {}", peer.uid());
            None
        }
        Err(error) => {
            warn!("refused a connection of an unknown user: {error}");
            None
        }
    }
}

fn serve_viewer(stream: UnixStream, label: String, ids: &ConnectionIds, events: Events) {
    if let Err(error) = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES) {
        warn!("{label}: {error}");
    }
    let id = ids.next();
    let (send, receive) = oneshot::channel();
    let task = tokio::spawn(async move {
        let Ok(task) = receive.await else { return };
        let (outgoing, chunks) = connection::chunk_channel();
        native::forward(
            Opened { id, label, outgoing, path: None, datagrams: None, task },
            stream,
            Vec::new(),
            chunks,
            &events,
            std::future::pending(),
        )
        .await;
    });
    let _ = send.send(task.abort_handle());
}
