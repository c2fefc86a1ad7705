//! Path 10/13 on this machine: viewers of the same user, over a Unix socket, without TLS and
//! without a token. From `thinc session --stdio`, which ssh starts, or from the broker's front, to
//! actor.rs; the kernel tells the peer's user (SO_PEERCRED). Knows users; every byte passes through
//! unread.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use socket2::SockRef;
use thinc_transport::invitation::Grant;
use thinc_transport::path::Path;
use thinc_transport::quic::Datagrams;
use thinc_transport::relay::{RelayedParts, RelayedStream};
use thinc_transport::socket::TcpPath;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::connection::{self, ConnectionIds, Events, Opened, READ_BYTES, STALL_TIMEOUT};
use crate::front::ACCEPT_PAUSE;
use crate::native;
use crate::preferences::keeper;

/// 32 KiB, which the kernel doubles: bytes that wait for `thinc session --stdio`. More would wait
/// where nothing can replace or overtake it.
const SEND_BUFFER_BYTES: usize = 32 * 1024;

/// Most descriptors that come with the first byte.
const DESCRIPTORS_MAX: usize = 2;

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
        serve_viewer(stream, label, None, &ids, events.clone());
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

/// Serves a viewer in a task of its own: the owner's, or a guest's that share.rs has let in.
pub(crate) fn serve_viewer(
    stream: UnixStream,
    label: String,
    guest: Option<Grant>,
    ids: &ConnectionIds,
    events: Events,
) {
    if let Err(error) = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES) {
        warn!("{label}: {error}");
    }
    let id = ids.next();
    let (send, receive) = oneshot::channel();
    let task = tokio::spawn(async move {
        let Ok(task) = receive.await else { return };
        let (bytes, descriptors) = match timeout(STALL_TIMEOUT, first_bytes(&stream)).await {
            Ok(Ok((bytes, _))) if bytes.is_empty() => return,
            Ok(Ok(first)) => first,
            Ok(Err(error)) => return debug!("{label}: {error}"),
            Err(_) => return debug!("{label}: no byte within {STALL_TIMEOUT:?}"),
        };
        let (outgoing, chunks) = connection::chunk_channel();
        let reading = keeper::read_in_time().await;
        let opened =
            |path, datagrams| Opened { id, label, guest, outgoing, path, datagrams, task, reading };
        let never = std::future::pending();
        match Forwarded::new(stream, descriptors) {
            Err(error) => warn!("a connection of the broker's front: {error}"),
            Ok(Forwarded::Plain(stream)) => {
                native::forward(opened(None, None), stream, bytes, chunks, &events, never).await;
            }
            Ok(Forwarded::Tcp(stream, path)) => {
                let opened = opened(Some(path), None);
                native::forward(opened, stream, bytes, chunks, &events, never).await;
            }
            Ok(Forwarded::Quic((stream, path, datagrams))) => {
                let datagrams = Some(datagrams).filter(Datagrams::are_supported);
                let opened = opened(Some(path), datagrams);
                native::forward(opened, stream, bytes, chunks, &events, never).await;
            }
        }
    });
    let _ = send.send(task.abort_handle());
}

/// What the viewer sends first, and the descriptors that come with it if the broker's front
/// forwards a viewer.
async fn first_bytes(stream: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; READ_BYTES];
    let (count, descriptors) = stream
        .async_io(Interest::READABLE, || {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut into = [io::IoSliceMut::new(&mut bytes)];
            let received = recvmsg(stream, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
            let descriptors = ancillary.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            });
            Ok((received.bytes, descriptors.flatten().collect()))
        })
        .await?;
    bytes.truncate(count);
    Ok((bytes, descriptors))
}

/// A viewer's stream, by how the statistics of its path are read.
enum Forwarded {
    /// `thinc session --stdio`: only the viewer's acknowledgements tell.
    Plain(UnixStream),
    /// The kernel's, of the TCP connection that came along.
    Tcp(UnixStream, Path),
    /// The front's, of a QUIC connection, which has datagrams too.
    Quic(RelayedParts),
}

impl Forwarded {
    fn new(stream: UnixStream, descriptors: Vec<OwnedFd>) -> io::Result<Forwarded> {
        let mut descriptors = descriptors.into_iter();
        Ok(match (descriptors.next(), descriptors.next()) {
            (None, _) => Forwarded::Plain(stream),
            (Some(tcp), None) => Forwarded::Tcp(stream, Path::Tcp(TcpPath::new(tcp))),
            (Some(figures), Some(datagrams)) => {
                Forwarded::Quic(RelayedStream::new(stream, [figures, datagrams])?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    #[tokio::test]
    async fn a_viewer_may_bring_the_connection_that_its_path_is_measured_on() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut tcp = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        tcp.write_all(b"counted").unwrap();
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let near = UnixStream::from_std(near).unwrap();

        let sockets = [tcp.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&sockets)));
        let hello = [io::IoSlice::new(b"hello")];
        sendmsg(&far, &hello, &mut ancillary, SendFlags::empty()).unwrap();
        let (bytes, descriptors) = first_bytes(&near).await.unwrap();
        assert_eq!(bytes, b"hello");
        let Ok(Forwarded::Tcp(near, path)) = Forwarded::new(near, descriptors) else {
            panic!("it came along");
        };
        let info = path.info().unwrap();
        assert_eq!(info.delivered + info.unacknowledged, b"counted".len() as u64 + 1);

        (&far).write_all(b"later").unwrap();
        let (bytes, descriptors) = first_bytes(&near).await.unwrap();
        assert!(bytes == b"later" && descriptors.is_empty());
    }
}
