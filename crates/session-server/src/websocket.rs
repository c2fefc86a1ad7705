//! Path 10/13 over a WebSocket: one browser's viewer; each binary message is the next chunk of the
//! same byte stream. From http.rs, which has checked cookie, secret and origin, to actor.rs. Knows
//! WebSocket messages; never what their bytes mean.

use std::io;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use thinc_protocol::limits::VIEWER_MESSAGE_BYTES_MAX;
use thinc_transport::base64url;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tracing::debug;

use crate::answer::{Answer, plain, with_header};
use crate::connection::{self, ConnectionId, EndReason, Event, Events, Opened, STALL_TIMEOUT};
use crate::front::Login;
use crate::http::HttpConnection;
use crate::preferences::keeper;

/// A WebSocket of a page.
pub type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The subprotocol that is agreed on. Beside it a page offers one whose name is this prefix and its
/// origin secret: a browser's WebSocket has no other header that a page can set.
const SUBPROTOCOL: &str = "thinc";
const SECRET_PREFIX: &str = "thinc.origin-secret.";

/// The origin secret in the offered subprotocols.
pub fn offered_secret(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut offered = tokens_of(headers, &header::SEC_WEBSOCKET_PROTOCOL);
    base64url::decode(offered.find_map(|name| name.strip_prefix(SECRET_PREFIX))?)
}

/// Answers the upgrade; the WebSocket is served in a task of its own, until one of the logins ends
/// that opened it.
pub(crate) fn upgrade(
    connection: Arc<HttpConnection>,
    mut request: Request<Incoming>,
    logins: [Login; 2],
) -> Answer {
    let (upgraded, answer) = accept(&mut request);
    let Some(upgraded) = upgraded else { return answer };
    // The ID is allocated for this request: a proxy may have opened the connection before one that
    // it used earlier.
    let id = connection.shared.ids.next();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let Ok(task) = receiver.await else { return };
        match upgraded.await {
            Ok(upgraded) => serve(&connection, id, upgraded, task, logins).await,
            Err(error) => debug!("{}: {error}", connection.peer),
        }
    });
    let _ = sender.send(task.abort_handle());
    answer
}

/// The WebSocket that this request becomes, if it asks for one, and the answer.
pub fn accept(request: &mut Request<Incoming>) -> (Option<OnUpgrade>, Answer) {
    let headers = request.headers();
    let is_upgrade = has_token(headers, &header::CONNECTION, "upgrade")
        && has_token(headers, &header::UPGRADE, "websocket")
        && has_token(headers, &header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL)
        && headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let (true, Some(key)) = (is_upgrade, key) else {
        let answer =
            plain(StatusCode::UPGRADE_REQUIRED, "this address is a WebSocket of version 13");
        return (None, with_header(answer, header::UPGRADE, "websocket"));
    };
    let accept = derive_accept_key(key);
    let answer = plain(StatusCode::SWITCHING_PROTOCOLS, "");
    let answer = with_header(answer, header::CONNECTION, "upgrade");
    let answer = with_header(answer, header::UPGRADE, "websocket");
    let answer = with_header(answer, header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
    let answer = with_header(answer, header::SEC_WEBSOCKET_ACCEPT, &accept);
    (Some(hyper::upgrade::on(request)), answer)
}

fn has_token(headers: &HeaderMap, name: &header::HeaderName, token: &str) -> bool {
    tokens_of(headers, name).any(|part| part.eq_ignore_ascii_case(token))
}

/// The elements of a header that is a list.
fn tokens_of<'a>(
    headers: &'a HeaderMap,
    name: &header::HeaderName,
) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The server's end of a WebSocket, with the limits of a viewer.
pub async fn over(upgraded: Upgraded) -> Socket {
    // A viewer's frames are small, and it sends few of them at once.
    let config = WebSocketConfig::default()
        .max_message_size(Some(VIEWER_MESSAGE_BYTES_MAX))
        .max_frame_size(Some(VIEWER_MESSAGE_BYTES_MAX))
        // Each message goes to TLS at once: updates shall wait in the session's queue only.
        .write_buffer_size(0);
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await
}

async fn serve(
    connection: &HttpConnection,
    id: ConnectionId,
    upgraded: Upgraded,
    task: AbortHandle,
    logins: [Login; 2],
) {
    let socket = over(upgraded).await;
    let events = &connection.shared.events;
    let (outgoing, receive) = connection::chunk_channel();
    let label = format!("{} (browser)", connection.peer);
    // The cookie goes to every port of the host, and a tab may remember an older secret: a
    // connection is the owner's only if both are, and the guest's of the tab if it has one.
    let [cookie, secret] = logins;
    let guest = secret.grant.or(cookie.grant);
    let path = connection.path.lock().expect("no holder of this lock can panic").take();
    let reading = keeper::read_in_time().await;
    let opened = Opened { id, label, guest, outgoing, path, datagrams: None, task, reading };
    if events.send(Event::Opened(opened)).await.is_err() {
        return;
    }
    let reason = tokio::select! {
        reason = forward(id, socket, receive, events) => reason,
        () = connection.shared.login_ended([cookie.id, secret.id]) => EndReason::Closed,
    };
    let _ = events.send(Event::Closed(id, reason)).await;
}

async fn forward(
    id: ConnectionId,
    socket: Socket,
    mut chunks: mpsc::Receiver<Vec<u8>>,
    events: &Events,
) -> EndReason {
    let (mut to, mut from) = socket.split();
    let read = async {
        while let Some(message) = from.next().await {
            match message {
                Ok(Message::Binary(bytes)) => {
                    if events.send(Event::Bytes(id, bytes.into())).await.is_err() {
                        return EndReason::Closed;
                    }
                }
                // tungstenite answers pings; a text message violates the protocol, which the
                // actor's deframer reports.
                Ok(Message::Text(text)) => {
                    let _ = events.send(Event::Bytes(id, text.as_bytes().to_vec())).await;
                }
                Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => {
                    return EndReason::Closed;
                }
                Ok(_) => {}
                Err(error) => return EndReason::Broken(as_io(error)),
            }
        }
        EndReason::Closed
    };
    let write = async {
        while let Some(chunk) = chunks.recv().await {
            // The message consumes the chunk's memory; the actor gets an empty buffer back.
            match timeout(STALL_TIMEOUT, to.send(Message::Binary(Bytes::from(chunk)))).await {
                Err(_) => return EndReason::Stalled,
                Ok(Err(error)) => return EndReason::Broken(as_io(error)),
                Ok(Ok(())) => {}
            }
            if events.send(Event::ChunkSent(id, Vec::new())).await.is_err() {
                break;
            }
        }
        let _ = timeout(STALL_TIMEOUT, to.close()).await;
        EndReason::Closed
    };
    tokio::select! {
        reason = read => reason,
        reason = write => reason,
    }
}

fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
