//! Path 10/13 through the broker, and path back: between a page's WebSocket, or a viewer's stream,
//! and the session process of its person. From http.rs and native.rs, to the session's local.rs
//! over a Unix socket, which learns the path's statistics from the TCP connection itself: it comes
//! along with the first byte. Knows chunks; never their meaning.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use futures_util::{SinkExt as _, StreamExt as _};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use thinc_session_server::websocket::Socket;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

/// 16 KiB, a TLS record: the most that is forwarded at once.
const READ_BYTES: usize = 16 * 1024;

/// Forwards until one of both ends closes. The session process decides what waits and how long:
/// what it has written is here or in the kernel, in order.
pub(super) async fn run(socket: Socket, session: UnixStream, tcp: &OwnedFd) -> io::Result<()> {
    let (mut to_page, mut from_page) = socket.split();
    let (from_session, mut to_session) = session.into_split();
    let upwards = async {
        let mut is_first = true;
        while let Some(message) = from_page.next().await {
            let bytes: Vec<u8> = match message {
                Ok(Message::Binary(bytes)) => bytes.into(),
                // A text message violates the protocol, which the session reports.
                Ok(Message::Text(text)) => text.as_bytes().to_vec(),
                Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => {
                    return Ok(());
                }
                Ok(_) => continue,
                Err(error) => return Err(as_io(error)),
            };
            let mut rest = bytes.as_slice();
            if std::mem::take(&mut is_first) && !rest.is_empty() {
                let sent = to_session
                    .as_ref()
                    .async_io(Interest::WRITABLE, || send_with(to_session.as_ref(), rest, tcp))
                    .await?;
                rest = &rest[sent..];
            }
            to_session.write_all(rest).await?;
        }
        Ok(())
    };
    let downwards = async {
        let mut from_session: OwnedReadHalf = from_session;
        loop {
            let mut chunk = vec![0; READ_BYTES];
            let count = from_session.read(&mut chunk).await?;
            if count == 0 {
                return to_page.close().await.map_err(as_io);
            }
            chunk.truncate(count);
            to_page.send(Message::Binary(Bytes::from(chunk))).await.map_err(as_io)?;
        }
    };
    tokio::select! {
        result = upwards => result,
        result = downwards => result,
    }
}

/// The same for a viewer's own stream, of which `first` was read already.
pub(super) async fn run_stream(
    viewer: impl AsyncRead + AsyncWrite,
    session: UnixStream,
    mut first: Vec<u8>,
    tcp: &OwnedFd,
) -> io::Result<()> {
    let (mut from_viewer, mut to_viewer) = tokio::io::split(viewer);
    let (mut from_session, mut to_session) = session.into_split();
    if first.is_empty() {
        first = vec![0; READ_BYTES];
        let count = from_viewer.read(&mut first).await?;
        first.truncate(count);
    }
    let upwards = async {
        let mut sent = 0;
        if !first.is_empty() {
            sent = to_session
                .as_ref()
                .async_io(Interest::WRITABLE, || send_with(to_session.as_ref(), &first, tcp))
                .await?;
        }
        to_session.write_all(&first[sent..]).await?;
        tokio::io::copy(&mut from_viewer, &mut to_session).await.map(drop)
    };
    let downwards = async {
        let mut chunk = vec![0; READ_BYTES];
        loop {
            let count = from_session.read(&mut chunk).await?;
            if count == 0 {
                return to_viewer.shutdown().await;
            }
            to_viewer.write_all(&chunk[..count]).await?;
            to_viewer.flush().await?;
        }
    };
    tokio::select! {
        result = upwards => result,
        result = downwards => result,
    }
}

/// Sends the first bytes, and a duplicate of the TCP connection. Who gets it can disturb this one
/// connection, which is their own; its bytes are encrypted.
fn send_with(session: &UnixStream, bytes: &[u8], tcp: &OwnedFd) -> io::Result<usize> {
    let sockets = [tcp.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&sockets)), "there is room for one");
    let bytes = [io::IoSlice::new(bytes)];
    Ok(sendmsg(session, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?)
}

fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
