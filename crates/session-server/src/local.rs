//! Path 10/13 on this machine: viewers of the same user, over a Unix socket, without TLS and without a token.
//! From `thinc session --stdio`, which stands behind ssh, to actor.rs; the kernel says who is there (SO_PEERCRED).
//! Knows users; every byte passes through unread.

use std::os::unix::net::UnixListener;

use socket2::SockRef;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tracing::warn;

use crate::connection::{self, Events, Ids, Opened};
use crate::front::ACCEPT_PAUSE;
use crate::native;

/// 32 KiB, which the kernel doubles: bytes that stand between us and whoever carries them on. More would wait where nothing
/// can replace or overtake it.
const SEND_BUFFER_BYTES: usize = 32 * 1024;

/// Accepts viewers for ever.
pub(crate) async fn serve(listener: UnixListener, ids: Ids, events: Events) {
    let listener = listener.set_nonblocking(true).and_then(|()| tokio::net::UnixListener::from_std(listener));
    let listener = match listener {
        Ok(listener) => listener,
        Err(error) => {
            warn!("no viewer can come in from this machine: {error}");
            return;
        }
    };
    let own = rustix::process::geteuid().as_raw();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Not the fault of one connection: those that are there go on, and their end frees descriptors.
                warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let peer = match stream.peer_cred() {
            Ok(peer) if peer.uid() == own || peer.uid() == 0 => peer,
            // The folder keeps them out; who comes here all the same is told nothing.
            Ok(peer) => {
                warn!("a process of user {} was turned away", peer.uid());
                continue;
            }
            Err(error) => {
                warn!("nobody knows whose connection this is: {error}");
                continue;
            }
        };
        let label = format!("this machine (process {})", peer.pid().unwrap_or(0));
        welcome(stream, label, &ids, events.clone());
    }
}

fn welcome(stream: UnixStream, label: String, ids: &Ids, events: Events) {
    if let Err(error) = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES) {
        warn!("{label}: {error}");
    }
    let id = ids.next();
    let (send, receive) = oneshot::channel();
    let task = tokio::spawn(async move {
        let Ok(task) = receive.await else { return };
        let (outgoing, chunks) = connection::outgoing();
        native::pump(
            Opened { id, label, outgoing, path: None, datagrams: None, task },
            stream,
            Vec::new(),
            chunks,
            &events,
        )
        .await;
    });
    let _ = send.send(task.abort_handle());
}
