//! Path 10/13 over TLS: one native viewer, from its first frame on.
//! From front.rs, to actor.rs; a token or a session key first, then bytes both ways.
//! Knows the authenticating frames; everything after them passes through unread.

use std::sync::Arc;

use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::PREAUTH_FRAME_BYTES_MAX;
use thinc_protocol::session::{Close, CloseCode, SessionMessage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info};

use crate::connection::{self, ConnectionId, Ending, Event, Events, Opened, READ_BYTES, STALL_TIME};
use crate::front::{Shared, Stream, UNAUTHORIZED, Visitor};

/// Serves a connection until it ends.
pub(crate) async fn serve(shared: Arc<Shared>, mut stream: Stream, visitor: Visitor, deadline: Instant) {
    let Visitor { id, peer, task, pass } = visitor;
    let early = match timeout_at(deadline, authenticate(&shared, &mut stream, peer)).await {
        Ok(Ok(Some(early))) => early,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => {
            debug!("{peer}: {error}");
            return;
        }
        Err(_) => {
            info!("{peer}: said nothing that opens the session within the login grace");
            return;
        }
    };
    drop(pass);
    let (outgoing, receive) = connection::outgoing();
    let label = format!("{peer} (native)");
    let path = crate::front::path_of(&stream);
    if shared.events.send(Event::Opened(Opened { id, label, outgoing, path, task })).await.is_err() {
        return;
    }
    let (read, write) = tokio::io::split(stream);
    let ending = tokio::select! {
        ending = read_all(id, read, early, &shared.events) => ending,
        ending = write_all(id, write, receive, &shared.events) => ending,
    };
    let _ = shared.events.send(Event::Gone(id, ending)).await;
}

/// What came after the credential, when it was good; `None` when it was not, and the other side has been told.
async fn authenticate(
    shared: &Shared,
    stream: &mut Stream,
    peer: std::net::SocketAddr,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut frames = Deframer::new(PREAUTH_FRAME_BYTES_MAX);
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
        let good = match auth {
            Auth::Token(token) => shared.redeem(token, peer).await,
            Auth::SessionKey(key) if shared.is_session_key(key) => true,
            Auth::SessionKey(_) => {
                tokio::time::sleep(crate::gate::PENALTY).await;
                false
            }
        };
        if !good {
            break (CloseCode::Unauthorized, UNAUTHORIZED.to_owned());
        }
        let mut whole = Vec::new();
        auth.encode(&mut whole);
        let mut answer = Vec::new();
        AuthOk { session_key: &shared.new_session_key() }.encode(&mut answer);
        stream.write_all(&answer).await?;
        stream.flush().await?;
        return Ok(Some(bytes.split_off(whole.len().min(bytes.len()))));
    };
    let (code, reason) = refusal;
    info!("{peer}: refused: {reason}");
    let mut answer = Vec::new();
    SessionMessage::Close(Close { code, reason: &reason }).encode(&mut answer);
    stream.write_all(&answer).await?;
    // The reason must arrive before the end does; whoever does not take it, the caller's deadline stops.
    stream.shutdown().await?;
    Ok(None)
}

async fn read_all(id: ConnectionId, mut from: tokio::io::ReadHalf<Stream>, early: Vec<u8>, events: &Events) -> Ending {
    if !early.is_empty() && events.send(Event::Bytes(id, early)).await.is_err() {
        return Ending::Closed;
    }
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) => return Ending::Closed,
            Ok(count) => {
                if events.send(Event::Bytes(id, buffer[..count].to_vec())).await.is_err() {
                    return Ending::Closed;
                }
            }
            // A viewer that is killed sends no close_notify: an end like any other.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ending::Closed,
            Err(error) => return Ending::Broken(error),
        }
    }
}

async fn write_all(
    id: ConnectionId,
    mut to: tokio::io::WriteHalf<Stream>,
    mut chunks: mpsc::Receiver<Vec<u8>>,
    events: &Events,
) -> Ending {
    while let Some(mut chunk) = chunks.recv().await {
        let sent = async {
            to.write_all(&chunk).await?;
            to.flush().await
        };
        match timeout(STALL_TIME, sent).await {
            Err(_) => return Ending::Stalled,
            Ok(Err(error)) => return Ending::Broken(error),
            Ok(Ok(())) => {}
        }
        chunk.clear();
        if events.send(Event::Drained(id, chunk)).await.is_err() {
            break;
        }
    }
    let _ = timeout(STALL_TIME, to.shutdown()).await;
    Ending::Closed
}
