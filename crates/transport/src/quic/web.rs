//! Path 10/13, the session's end of WebTransport: as much of HTTP/3 as one CONNECT wants, and behind it the one stream and its datagrams.
//! From door.rs, which tells browsers from viewers by ALPN, for webtransport.rs of session-server, which decides who may come in.
//! Knows frames of HTTP/3; never who may come in, nor what the stream carries.

use std::io;
use std::sync::Arc;

use quinn::{Connection, RecvStream, SendStream};
use quinn_proto::StreamId;
use tokio::io::AsyncRead;
use web_transport_proto::http::{StatusCode, header};
use web_transport_proto::{ConnectRequest, ConnectResponse, Frame, Settings, VarInt};

use super::as_io;
use super::door::QuicStream;
use crate::congestion::Meter;

/// A browser that speaks HTTP/3 and has asked for nothing yet.
#[derive(Debug)]
pub struct Browser {
    pub(super) connection: Connection,
    pub(super) meter: Arc<Meter>,
}

/// A page asks for a session of WebTransport.
pub struct PageRequest {
    browser: Browser,
    connect: Connect,
    session: Session,
}

/// The streams that an HTTP/3 connection or a session of WebTransport ends with; nothing more is said on them.
#[derive(Debug)]
pub(super) struct Session {
    _control: SendStream,
    send: SendStream,
    _receive: RecvStream,
}

impl Session {
    /// By which the browser calls it: that of the stream which asked for it.
    pub(super) fn number(&self) -> StreamId {
        self.send.id()
    }
}

impl Browser {
    /// Shakes hands as HTTP/3 does and waits for the first request, which must be this one. What the browser says on its own control
    /// stream is left unread: that it knows WebTransport it says by asking.
    pub async fn request(self) -> io::Result<PageRequest> {
        let mut control = self.connection.open_uni().await.map_err(as_io)?;
        let mut settings = Settings::default();
        settings.enable_webtransport(1);
        settings.write(&mut control).await.map_err(invalid)?;
        let (send, mut receive) = self.connection.accept_bi().await.map_err(as_io)?;
        let connect = Connect::read(&mut receive).await?;
        Ok(PageRequest { browser: self, connect, session: Session { _control: control, send, _receive: receive } })
    }
}

/// What a page asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Host and port that are asked, as a URL writes them: without the port of https.
    pub authority: &'a str,
    /// Path that is asked for.
    pub path: &'a str,
    /// What stands behind `?`.
    pub query: Option<&'a str>,
    /// The page that asks, where the browser says it.
    pub origin: Option<&'a str>,
}

/// A stranger's request, as it came.
#[derive(Debug)]
pub struct Connect(ConnectRequest);

impl Connect {
    /// Reads one, which may have no more than 16 KiB.
    ///
    /// # Errors
    /// It is no CONNECT for WebTransport, or the stream ended.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Connect> {
        ConnectRequest::read(stream).await.map(Connect).map_err(invalid)
    }

    /// What it asks for.
    pub fn asked(&self) -> Asked<'_> {
        let ConnectRequest { url, headers, .. } = &self.0;
        let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        Asked { authority: url.authority(), path: url.path(), query: url.query(), origin }
    }
}

impl PageRequest {
    /// For whoever decides.
    pub fn asked(&self) -> Asked<'_> {
        self.connect.asked()
    }

    /// Answers with this status, an error's, and waits until it has arrived.
    pub async fn refuse(self, status: u16) -> io::Result<()> {
        let status = StatusCode::from_u16(status).map_err(invalid)?;
        let mut send = self.session.send;
        ConnectResponse::new(status).write(&mut send).await.map_err(invalid)?;
        // Fails only where the other end has stopped it already.
        let _ = send.finish();
        let _ = send.stopped().await;
        Ok(())
    }

    /// Lets the page in and waits for its stream.
    pub async fn accept(mut self) -> io::Result<QuicStream> {
        ConnectResponse::OK.write(&mut self.session.send).await.map_err(invalid)?;
        let Browser { connection, meter } = self.browser;
        let (send, mut receive) = connection.accept_bi().await.map_err(as_io)?;
        let kind = VarInt::read(&mut receive).await.map_err(invalid)?;
        let session = VarInt::read(&mut receive).await.map_err(invalid)?;
        if Frame(kind) != Frame::WEBTRANSPORT || session.into_inner() != u64::from(self.session.number()) {
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
