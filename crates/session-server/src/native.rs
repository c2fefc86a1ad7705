//! Path 10/13: one native viewer, over TLS or QUIC from its first frame on, or from the hello on where local.rs let it in.
//! From front.rs, to actor.rs; a token or a session key first, then bytes both ways.
//! Knows the authenticating frames; everything after them passes through unread.

use std::sync::Arc;
use std::time::Duration;

use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::PREAUTH_FRAME_BYTES_MAX;
use thinc_protocol::session::{Close, CloseCode, SessionMessage};
use thinc_transport::path::Path;
use thinc_transport::quic::{Datagrams, QuicStream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, info};

use crate::connection::{self, ConnectionId, Ending, Event, Events, Opened, READ_BYTES, STALL_TIME};
use crate::front::{Shared, Stream, UNAUTHORIZED, Visitor};

/// 250 ms: longest that an end which the viewer's machine has heard of waits for the viewer's own.
const HEARD_TIME: Duration = Duration::from_millis(250);
/// 64 KiB: bytes of one that is not let in that are read before the connection is dropped; more than a hello of any screen.
const UNWANTED_BYTES_MAX: usize = 64 * 1024;

/// Serves a connection over TLS until it ends.
pub(crate) async fn serve(shared: Arc<Shared>, mut stream: Stream, visitor: Visitor, deadline: Instant) {
    let Some(early) = admit(&shared, &mut stream, visitor.peer, deadline).await else { return };
    let path = crate::front::path_of(&stream);
    let label = format!("{} (native)", visitor.peer);
    carry(&shared, stream, visitor, label, (path, None), early).await;
}

/// Serves one over QUIC until it ends.
pub(crate) async fn serve_quic(shared: Arc<Shared>, mut stream: QuicStream, visitor: Visitor, deadline: Instant) {
    let Some(early) = admit(&shared, &mut stream, visitor.peer, deadline).await else { return };
    stream.trust();
    let path = Some(Path::Quic(stream.path()));
    let datagrams = Some(stream.datagrams()).filter(Datagrams::are_taken);
    let label = format!("{} (native, QUIC)", visitor.peer);
    carry(&shared, stream, visitor, label, (path, datagrams), early).await;
}

/// What came after the credential; `None` where nobody is let in.
async fn admit<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &Shared,
    stream: &mut S,
    peer: std::net::SocketAddr,
    deadline: Instant,
) -> Option<Vec<u8>> {
    match timeout_at(deadline, authenticate(shared, stream, peer)).await {
        Ok(Ok(early)) => early,
        Ok(Err(error)) => {
            debug!("{peer}: {error}");
            None
        }
        Err(_) => {
            info!("{peer}: said nothing that opens the session within the login grace");
            None
        }
    }
}

/// Goes on with one that was let in.
pub(crate) async fn carry(
    shared: &Shared,
    stream: impl AsyncRead + AsyncWrite,
    visitor: Visitor,
    label: String,
    (path, datagrams): (Option<Path>, Option<Datagrams>),
    early: Vec<u8>,
) {
    let Visitor { id, peer: _, task, pass } = visitor;
    drop(pass);
    let (outgoing, chunks) = connection::outgoing();
    pump(Opened { id, label, outgoing, path, datagrams, task }, stream, early, chunks, &shared.events).await;
}

/// Moves bytes both ways until the connection ends; `early` came before.
pub(crate) async fn pump(
    opened: Opened,
    stream: impl AsyncRead + AsyncWrite,
    early: Vec<u8>,
    chunks: mpsc::Receiver<Vec<u8>>,
    events: &Events,
) {
    let (id, datagrams) = (opened.id, opened.datagrams.clone());
    if events.send(Event::Opened(opened)).await.is_err() {
        return;
    }
    let (read, write) = tokio::io::split(stream);
    let ending = tokio::select! {
        ending = read_all(id, read, early, events) => ending,
        ending = write_all(id, write, chunks, events) => ending,
        ending = receive_all(id, datagrams, events) => ending,
    };
    let _ = events.send(Event::Gone(id, ending)).await;
}

/// What came after the credential, when it was good; `None` when it was not, and the other side has been told.
async fn authenticate<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &Shared,
    stream: &mut S,
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
    // The reason must arrive before the end does, which what is left unread would cut short; the caller's deadline stops whoever does
    // not take it.
    stream.shutdown().await?;
    for _ in 0..UNWANTED_BYTES_MAX / buffer.len() {
        if stream.read(&mut buffer).await? == 0 {
            break;
        }
    }
    Ok(None)
}

async fn read_all(id: ConnectionId, mut from: impl AsyncRead + Unpin, early: Vec<u8>, events: &Events) -> Ending {
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

/// What comes beside the stream, until that ends, which says how; but for a datagram that ends both.
async fn receive_all(id: ConnectionId, datagrams: Option<Datagrams>, events: &Events) -> Ending {
    let Some(datagrams) = datagrams else { return std::future::pending().await };
    loop {
        match datagrams.receive().await {
            Ok(datagram) => {
                if events.send(Event::Datagram(id, datagram)).await.is_err() {
                    return Ending::Closed;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Ending::Broken(error),
            Err(_) => return std::future::pending().await,
        }
    }
}

async fn write_all(
    id: ConnectionId,
    mut to: impl AsyncWrite + Unpin,
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
    // It has arrived, and perhaps nobody has read it: a browser drops what a page has not when the connection ends. Whoever reads why it
    // ends, ends it from there, which read_all hears.
    sleep(HEARD_TIME).await;
    Ending::Closed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_ends_when_its_last_words_were_read_and_not_when_they_have_arrived() {
        let (events, mut inbox) = connection::channel();
        let (outgoing, chunks) = connection::outgoing();
        let (stream, mut viewer) = tokio::io::duplex(1024);
        let ids = connection::Ids::default();
        let task = tokio::spawn(async {}).abort_handle();
        outgoing.send(b"the session ended".to_vec()).await.unwrap();
        let (later, _) = connection::outgoing();
        let opened =
            Opened { id: ids.next(), label: String::new(), outgoing: later, path: None, datagrams: None, task };
        drop(outgoing);
        let mut pump = Box::pin(pump(opened, stream, Vec::new(), chunks, &events));
        let mut words = Vec::new();
        tokio::select! {
            biased;
            () = &mut pump => panic!("it is over before the viewer has read why"),
            read = viewer.read_to_end(&mut words) => assert_eq!(read.unwrap(), words.len()),
        }
        assert_eq!(words, b"the session ended");
        drop(viewer);
        pump.await;
        let mut gone = false;
        while let Ok(event) = inbox.try_recv() {
            gone |= matches!(event, Event::Gone(_, Ending::Closed));
        }
        assert!(gone, "the viewer has ended it");
    }
}
