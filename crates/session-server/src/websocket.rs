//! Path 10/13 over a WebSocket: one browser's viewer; each binary message is the next chunk of the same byte stream.
//! From http.rs, which has checked cookie and origin, to actor.rs.
//! Knows messages of WebSocket; never what their bytes say.

use std::io;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use thinc_protocol::limits::VIEWER_FRAME_BYTES_MAX;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tracing::debug;

use crate::connection::{self, ConnectionId, Ending, Event, Events, Opened, STALL_TIME};
use crate::http::{Browser, plain, with_header};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Answers the upgrade; what follows goes on in a task of its own.
pub(crate) fn upgrade(browser: Arc<Browser>, mut request: Request<Incoming>) -> Response<Full<hyper::body::Bytes>> {
    let headers = request.headers();
    let is_upgrade = has_token(headers, &header::CONNECTION, "upgrade")
        && has_token(headers, &header::UPGRADE, "websocket")
        && headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let (true, Some(key)) = (is_upgrade, key) else {
        let answer = plain(StatusCode::UPGRADE_REQUIRED, "this address is a WebSocket, version 13");
        return with_header(answer, header::UPGRADE, "websocket");
    };
    let accept = derive_accept_key(key);
    // Its number is that of this request: a proxy may have opened the connection before one that it used earlier.
    let id = browser.shared.ids.next();
    let upgraded = hyper::upgrade::on(&mut request);
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let Ok(task) = receiver.await else { return };
        match upgraded.await {
            Ok(upgraded) => serve(&browser, id, upgraded, task).await,
            Err(error) => debug!("{}: {error}", browser.peer),
        }
    });
    let _ = sender.send(task.abort_handle());

    let answer = plain(StatusCode::SWITCHING_PROTOCOLS, "");
    let answer = with_header(answer, header::CONNECTION, "upgrade");
    let answer = with_header(answer, header::UPGRADE, "websocket");
    with_header(answer, header::SEC_WEBSOCKET_ACCEPT, &accept)
}

fn has_token(headers: &HeaderMap, name: &header::HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

async fn serve(browser: &Browser, id: ConnectionId, upgraded: Upgraded, task: AbortHandle) {
    // A viewer's frames are small; what it sends at once is a handful of them.
    let config = WebSocketConfig::default()
        .max_message_size(Some(VIEWER_FRAME_BYTES_MAX))
        .max_frame_size(Some(VIEWER_FRAME_BYTES_MAX))
        // Each message goes to TLS at once: what waits shall wait in the session's queue.
        .write_buffer_size(0);
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await;
    let events = &browser.shared.events;
    let (outgoing, receive) = connection::outgoing();
    let label = format!("{} (browser)", browser.peer);
    let path = browser.path.lock().expect("no holder of this lock can panic").take();
    if events.send(Event::Opened(Opened { id, label, outgoing, path, datagrams: None, task })).await.is_err() {
        return;
    }
    let ending = carry(id, socket, receive, events).await;
    let _ = events.send(Event::Gone(id, ending)).await;
}

async fn carry(id: ConnectionId, socket: Socket, mut chunks: mpsc::Receiver<Vec<u8>>, events: &Events) -> Ending {
    let (mut to, mut from) = socket.split();
    let read = async {
        while let Some(message) = from.next().await {
            match message {
                Ok(Message::Binary(bytes)) => {
                    if events.send(Event::Bytes(id, bytes.into())).await.is_err() {
                        return Ending::Closed;
                    }
                }
                // Pings are answered below us; a text is none of ours, and the deframer of the actor will say so.
                Ok(Message::Text(text)) => {
                    let _ = events.send(Event::Bytes(id, text.as_bytes().to_vec())).await;
                }
                Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ending::Closed,
                Ok(_) => {}
                Err(error) => return Ending::Broken(as_io(error)),
            }
        }
        Ending::Closed
    };
    let write = async {
        while let Some(chunk) = chunks.recv().await {
            // One message takes the chunk's memory along; the actor gets an empty one back.
            match timeout(STALL_TIME, to.send(Message::Binary(Bytes::from(chunk)))).await {
                Err(_) => return Ending::Stalled,
                Ok(Err(error)) => return Ending::Broken(as_io(error)),
                Ok(Ok(())) => {}
            }
            if events.send(Event::Drained(id, Vec::new())).await.is_err() {
                break;
            }
        }
        let _ = timeout(STALL_TIME, to.close()).await;
        Ending::Closed
    };
    tokio::select! {
        ending = read => ending,
        ending = write => ending,
    }
}

fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
