//! Path 10/13, and path back: one native viewer, over TLS or QUIC from its first message on, or
//! already admitted by local.rs.
//! From front.rs, to actor.rs; first a token or a session credential, then bytes in both
//! directions. Knows the authenticating messages; everything after them passes through unread.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::PREAUTH_MESSAGE_BYTES_MAX;
use thinc_protocol::session::{Close, CloseCode, SessionMessage};
use thinc_transport::invitation::{Grant, is_invitation};
use thinc_transport::path::Path;
use thinc_transport::quic::{Datagrams, QuicStream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, info};

use crate::connection::{
    self, ConnectionId, EndReason, Event, Events, Opened, READ_BYTES, STALL_TIMEOUT,
};
use crate::front::{NewConnection, Shared, Stream, UNAUTHORIZED};
use crate::guests::NOT_INVITED;
use crate::preferences::keeper;
use crate::quic_port::PortUse;

/// 250 ms: longest wait for the viewer to close, once its machine has acknowledged the end of our
/// stream.
const CLOSE_LINGER: Duration = Duration::from_millis(250);
/// 64 KiB: bytes read from a refused viewer before the connection is dropped; more than the hello
/// of any viewer.
const REFUSED_BYTES_MAX: usize = 64 * 1024;

/// Serves a connection over TLS until it ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    mut stream: Stream,
    mut connection: NewConnection,
    deadline: Instant,
) {
    let Some((leftover, guest)) = admit(&shared, &mut stream, connection.peer, deadline).await
    else {
        return;
    };
    connection.guest = guest;
    let path = crate::front::path_of(&stream);
    let label = format!("{} (native)", connection.peer);
    let paths = (path, None);
    serve_authenticated(&shared, stream, connection, label, paths, leftover, pending()).await;
}

/// Serves a connection over QUIC until it ends.
pub(crate) async fn serve_quic(
    shared: Arc<Shared>,
    mut stream: QuicStream,
    mut connection: NewConnection,
    deadline: Instant,
    port: Option<PortUse>,
) {
    let Some((leftover, guest)) = admit(&shared, &mut stream, connection.peer, deadline).await
    else {
        return;
    };
    connection.guest = guest;
    stream.set_authenticated();
    // Keeps a port on demand open until the connection has ended, however that happens.
    let mut in_use = port.map(PortUse::enter);
    let path = Some(Path::Quic(stream.path()));
    let datagrams = Some(stream.datagrams()).filter(Datagrams::are_supported);
    let label = format!("{} (native, QUIC)", connection.peer);
    let paths = (path, datagrams);
    let end =
        serve_authenticated(&shared, stream, connection, label, paths, leftover, pending()).await;
    if let Some(in_use) = &mut in_use {
        in_use.set_end(end);
    }
}

/// What follows a valid credential: the bytes after it, and the guest that it is of.
type Admitted = (Vec<u8>, Option<Grant>);

/// `None` if the viewer was refused.
async fn admit<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &Shared,
    stream: &mut S,
    peer: std::net::SocketAddr,
    deadline: Instant,
) -> Option<Admitted> {
    match timeout_at(deadline, authenticate(shared, stream, peer)).await {
        Ok(Ok(admitted)) => admitted,
        Ok(Err(error)) => {
            debug!("{peer}: {error}");
            None
        }
        Err(_) => {
            info!("{peer}: did not authenticate in time");
            None
        }
    }
}

/// Serves an authenticated connection until it ends, or until what opened it has been revoked.
pub(crate) async fn serve_authenticated(
    shared: &Shared,
    stream: impl AsyncRead + AsyncWrite,
    connection: NewConnection,
    label: String,
    (path, datagrams): (Option<Path>, Option<Datagrams>),
    leftover: Vec<u8>,
    revoked: impl Future<Output = ()>,
) -> ConnectionEnd {
    let NewConnection { id, peer: _, task, pass, guest } = connection;
    drop(pass);
    let (outgoing, chunks) = connection::chunk_channel();
    let reading = keeper::read_in_time().await;
    forward(
        Opened { id, label, guest, outgoing, path, datagrams, task, reading },
        stream,
        leftover,
        chunks,
        &shared.events,
        revoked,
    )
    .await
}

/// How a connection ended, for the port that it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// One of both ends closed it.
    Closed,
    /// The path carried nothing any more: the viewer may reconnect.
    Lost,
}

/// Forwards bytes in both directions until the connection ends; `leftover` was read already.
pub(crate) async fn forward(
    opened: Opened,
    stream: impl AsyncRead + AsyncWrite,
    leftover: Vec<u8>,
    chunks: mpsc::Receiver<Vec<u8>>,
    events: &Events,
    revoked: impl Future<Output = ()>,
) -> ConnectionEnd {
    let (id, datagrams) = (opened.id, opened.datagrams.clone());
    if events.send(Event::Opened(opened)).await.is_err() {
        return ConnectionEnd::Closed;
    }
    let (read, write) = tokio::io::split(stream);
    let reason = tokio::select! {
        reason = read_all(id, read, leftover, events) => reason,
        reason = write_all(id, write, chunks, events) => reason,
        reason = receive_all(id, datagrams, events) => reason,
        () = revoked => EndReason::Closed,
    };
    let end = match reason {
        EndReason::Closed => ConnectionEnd::Closed,
        EndReason::Stalled | EndReason::Broken(_) => ConnectionEnd::Lost,
    };
    let _ = events.send(Event::Closed(id, reason)).await;
    end
}

/// `None` if the credential was invalid, and the viewer has been told.
async fn authenticate<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &Shared,
    stream: &mut S,
    peer: std::net::SocketAddr,
) -> std::io::Result<Option<Admitted>> {
    let mut frames = Deframer::new(PREAUTH_MESSAGE_BYTES_MAX);
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    let refusal = loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&buffer[..count]);
        frames.push(&buffer[..count]);
        let frame = match frames.next() {
            Ok(None) => continue,
            Ok(Some(frame)) => frame,
            Err(error) => break (CloseCode::Protocol, error.to_string()),
        };
        let auth = match Auth::decode(&frame) {
            Ok(auth) => auth,
            Err(error) => break (CloseCode::Protocol, error.to_string()),
        };
        let invited = match auth {
            Auth::Guest { token, name, password } => Some((token, name, password)),
            // A viewer that knows of no invitations.
            Auth::Token(token) if is_invitation(token) => Some((token, "", "")),
            Auth::Token(_) | Auth::SessionCredential(_) | Auth::Account(_) => None,
        };
        // None: the credential is invalid; otherwise the guest that it is of, if any.
        let admitted = match (invited, auth) {
            (Some((token, name, password)), _) => {
                shared.guests.admit(token, name, password, peer).await.map(Some)
            }
            (None, Auth::SessionCredential(key)) => match shared.guest_of_credential(key) {
                Some(grant) => Some(Some(grant)),
                None if shared.is_session_credential(key) => Some(None),
                None => {
                    tokio::time::sleep(crate::gate::WRONG_SECRET_DELAY).await;
                    None
                }
            },
            // A session knows no accounts: people log in to a broker.
            (None, Auth::Account(_)) => {
                tokio::time::sleep(crate::gate::WRONG_SECRET_DELAY).await;
                None
            }
            (None, Auth::Token(token) | Auth::Guest { token, .. }) => {
                shared.redeem(token, peer).await.then_some(None)
            }
        };
        let Some(guest) = admitted else {
            let reason = if invited.is_some() { NOT_INVITED } else { UNAUTHORIZED };
            break (CloseCode::Unauthorized, reason.to_owned());
        };
        let mut whole = Vec::new();
        auth.encode(&mut whole);
        let mut answer = Vec::new();
        AuthOk { session_credential: &shared.new_session_credential(guest) }.encode(&mut answer);
        stream.write_all(&answer).await?;
        stream.flush().await?;
        return Ok(Some((bytes.split_off(whole.len().min(bytes.len())), guest)));
    };
    let (code, reason) = refusal;
    info!("{peer}: refused: {reason}");
    let mut answer = Vec::new();
    SessionMessage::Close(Close { code, reason: &reason }).encode(&mut answer);
    stream.write_all(&answer).await?;
    // Reads what the viewer still sends: closing with unread bytes would reset the connection
    // before the reason arrives. The caller's deadline limits this.
    stream.shutdown().await?;
    for _ in 0..REFUSED_BYTES_MAX / buffer.len() {
        if stream.read(&mut buffer).await? == 0 {
            break;
        }
    }
    Ok(None)
}

async fn read_all(
    id: ConnectionId,
    mut from: impl AsyncRead + Unpin,
    leftover: Vec<u8>,
    events: &Events,
) -> EndReason {
    if !leftover.is_empty() && events.send(Event::Bytes(id, leftover)).await.is_err() {
        return EndReason::Closed;
    }
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) => return EndReason::Closed,
            Ok(count) => {
                if events.send(Event::Bytes(id, buffer[..count].to_vec())).await.is_err() {
                    return EndReason::Closed;
                }
            }
            // A killed viewer sends no close_notify: that is an end like any other.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return EndReason::Closed;
            }
            Err(error) => return EndReason::Broken(error),
        }
    }
}

/// Forwards datagrams. When they end, the stream reports the reason; only an invalid datagram ends
/// the connection here.
async fn receive_all(id: ConnectionId, datagrams: Option<Datagrams>, events: &Events) -> EndReason {
    let Some(datagrams) = datagrams else { return std::future::pending().await };
    loop {
        match datagrams.receive().await {
            Ok(datagram) => {
                if events.send(Event::Datagram(id, datagram)).await.is_err() {
                    return EndReason::Closed;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return EndReason::Broken(error);
            }
            Err(_) => return std::future::pending().await,
        }
    }
}

async fn write_all(
    id: ConnectionId,
    mut to: impl AsyncWrite + Unpin,
    mut chunks: mpsc::Receiver<Vec<u8>>,
    events: &Events,
) -> EndReason {
    while let Some(mut chunk) = chunks.recv().await {
        let sent = async {
            to.write_all(&chunk).await?;
            to.flush().await
        };
        match timeout(STALL_TIMEOUT, sent).await {
            Err(_) => return EndReason::Stalled,
            Ok(Err(error)) => return EndReason::Broken(error),
            Ok(Ok(())) => {}
        }
        chunk.clear();
        if events.send(Event::ChunkSent(id, chunk)).await.is_err() {
            break;
        }
    }
    let _ = timeout(STALL_TIMEOUT, to.shutdown()).await;
    // The bytes have arrived but may be unread, and a browser discards what its page has not read
    // when the connection ends. So wait for the viewer to close, which read_all detects.
    sleep(CLOSE_LINGER).await;
    EndReason::Closed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_ends_when_the_viewer_has_read_the_last_bytes_and_not_when_they_arrive() {
        let (events, mut inbox) = connection::channel();
        let (outgoing, chunks) = connection::chunk_channel();
        let (stream, mut viewer) = tokio::io::duplex(1024);
        let ids = connection::ConnectionIds::default();
        let task = tokio::spawn(async {}).abort_handle();
        outgoing.send(b"the session ended".to_vec()).await.unwrap();
        let (later, _) = connection::chunk_channel();
        let opened = Opened {
            id: ids.next(),
            label: String::new(),
            guest: None,
            outgoing: later,
            path: None,
            datagrams: None,
            task,
            reading: keeper::Reading { number: 0, preferences: None },
        };
        drop(outgoing);
        let forward = forward(opened, stream, Vec::new(), chunks, &events, pending());
        let mut forward = Box::pin(forward);
        let mut received = Vec::new();
        tokio::select! {
            biased;
            _ = &mut forward => panic!("it ended before the viewer has read the reason"),
            read = viewer.read_to_end(&mut received) => assert_eq!(read.unwrap(), received.len()),
        }
        assert_eq!(received, b"the session ended");
        drop(viewer);
        forward.await;
        let mut gone = false;
        while let Ok(event) = inbox.try_recv() {
            gone |= matches!(event, Event::Closed(_, EndReason::Closed));
        }
        assert!(gone, "the viewer's close is reported");
    }
}
