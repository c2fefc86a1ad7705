//! Path 10/13, the session's end of WebTransport: as much of HTTP/3 as one CONNECT needs, then the
//! session's one stream and its datagrams.
//! From listener.rs, which tells browsers from viewers by ALPN, for webtransport.rs of
//! session-server, which authenticates. Knows frames of HTTP/3; never who may open the session, nor
//! what the stream carries.

use std::io;
use std::sync::Arc;

use quinn::{Connection, RecvStream, SendStream};
use quinn_proto::StreamId;
use tokio::io::AsyncRead;
use web_transport_proto::http::{StatusCode, header};
use web_transport_proto::{ConnectRequest, ConnectResponse, Frame, Settings, VarInt};

use super::as_io;
use super::listener::QuicStream;
use crate::congestion::Meter;

/// A browser that speaks HTTP/3 and has requested nothing yet.
#[derive(Debug)]
pub struct Browser {
    pub(super) connection: Connection,
    pub(super) meter: Arc<Meter>,
}

/// A page's request for a WebTransport session.
pub struct PageRequest {
    browser: Browser,
    connect: Connect,
    session: Session,
}

/// The streams whose end would end an HTTP/3 connection or a WebTransport session; nothing more is
/// sent on them.
#[derive(Debug)]
pub(super) struct Session {
    _control: SendStream,
    send: SendStream,
    _receive: RecvStream,
}

impl Session {
    /// The session ID: that of the stream on which the browser requested it.
    pub(super) fn id(&self) -> StreamId {
        self.send.id()
    }
}

impl Browser {
    /// Exchanges HTTP/3 settings and waits for the first request, which must be for WebTransport.
    /// The browser's own control stream is left unread: its request shows that it supports
    /// WebTransport.
    pub async fn request(self) -> io::Result<PageRequest> {
        let mut control = self.connection.open_uni().await.map_err(as_io)?;
        let mut settings = Settings::default();
        settings.enable_webtransport(1);
        settings.write(&mut control).await.map_err(invalid)?;
        let (send, mut receive) = self.connection.accept_bi().await.map_err(as_io)?;
        let connect = Connect::read(&mut receive).await?;
        Ok(PageRequest {
            browser: self,
            connect,
            session: Session { _control: control, send, _receive: receive },
        })
    }
}

/// The parts of a page's request that authentication needs.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// Host and port as a URL writes them: without the default port of https.
    pub authority: &'a str,
    /// Path of the URL.
    pub path: &'a str,
    /// What follows `?` in the URL.
    pub query: Option<&'a str>,
    /// Origin of the page, if the browser sends it.
    pub origin: Option<&'a str>,
}

/// An unauthenticated request, as it was received.
#[derive(Debug)]
pub struct Connect(ConnectRequest);

impl Connect {
    /// Reads one of at most 16 KiB.
    ///
    /// # Errors
    /// It is no CONNECT for WebTransport, or the stream ended.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Connect> {
        ConnectRequest::read(stream).await.map(Connect).map_err(invalid)
    }

    /// Its parts.
    pub fn head(&self) -> RequestHead<'_> {
        let ConnectRequest { url, headers, .. } = &self.0;
        let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        RequestHead { authority: url.authority(), path: url.path(), query: url.query(), origin }
    }
}

impl PageRequest {
    /// Its parts, for authentication.
    pub fn head(&self) -> RequestHead<'_> {
        self.connect.head()
    }

    /// Answers with this error status, and waits until the answer was delivered.
    pub async fn refuse(self, status: u16) -> io::Result<()> {
        let status = StatusCode::from_u16(status).map_err(invalid)?;
        let mut send = self.session.send;
        ConnectResponse::new(status).write(&mut send).await.map_err(invalid)?;
        // Fails only if the peer has stopped the stream already.
        let _ = send.finish();
        let _ = send.stopped().await;
        Ok(())
    }

    /// Accepts the session and waits for its stream.
    pub async fn accept(mut self) -> io::Result<QuicStream> {
        ConnectResponse::OK.write(&mut self.session.send).await.map_err(invalid)?;
        let Browser { connection, meter } = self.browser;
        let (send, mut receive) = connection.accept_bi().await.map_err(as_io)?;
        let kind = VarInt::read(&mut receive).await.map_err(invalid)?;
        let session = VarInt::read(&mut receive).await.map_err(invalid)?;
        if Frame(kind) != Frame::WEBTRANSPORT
            || session.into_inner() != u64::from(self.session.id())
        {
            return Err(invalid("not a stream of this session"));
        }
        Ok(QuicStream::new(connection, send, receive, meter, Some(self.session)))
    }
}

#[cfg(test)]
mod tests;

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
