//! Path 10/13 through the broker, and path back: between a page's WebSocket, or a viewer's stream,
//! and the session process of its person. From http.rs and native.rs, to the session's local.rs
//! over a Unix socket, which learns the path's statistics from the TCP connection itself, or from
//! what a QUIC connection publishes: that comes along with the first byte. What goes to viewers
//! asks uplink.rs first. Knows chunks; never their meaning.

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use futures_util::{SinkExt as _, StreamExt as _};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use thinc_session_server::websocket::Socket;
use thinc_transport::path::ShareTeller;
use thinc_transport::quic::QuicStream;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use super::logins::Login;
use super::uplink::Place;
use crate::agent::{AgentAnswer, AgentRequest};
use crate::monitor::TransportKind;

/// Most descriptors that go to a session with a viewer's first bytes.
const DESCRIPTORS_MAX: usize = 2;
/// 16 KiB, a TLS record: the most that is forwarded at once.
const READ_BYTES: usize = 16 * 1024;

/// Forwards until one of both ends closes. The session process decides what waits and how long:
/// what it has written is here or in the kernel, in order.
pub(super) async fn run(
    socket: Socket,
    session: UnixStream,
    tcp: OwnedFd,
    place: Option<&Place>,
) -> io::Result<()> {
    let end = ShutDown(tcp);
    if let Some(place) = place {
        place.set_teller(ShareTeller::Tcp(end.0.try_clone()?));
    }
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
                    .async_io(Interest::WRITABLE, || {
                        send_with(to_session.as_ref(), rest, std::slice::from_ref(&end.0))
                    })
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
            let mut chunk = vec![0; read_bytes(place)];
            let count = from_session.read(&mut chunk).await?;
            if count == 0 {
                return to_page.close().await.map_err(as_io);
            }
            admit(place, count).await;
            chunk.truncate(count);
            to_page.send(Message::Binary(Bytes::from(chunk))).await.map_err(as_io)?;
        }
    };
    tokio::select! {
        result = upwards => result,
        result = downwards => result,
    }
}

/// Most bytes that are taken from a session at once.
fn read_bytes(place: Option<&Place>) -> usize {
    place.map_or(READ_BYTES, |place| place.read_bytes().min(READ_BYTES))
}

/// Waits until the uplink has room for so many bytes.
async fn admit(place: Option<&Place>, bytes: usize) {
    if let Some(place) = place {
        place.admit(bytes).await;
    }
}

/// Connects with a desktop of this person; the error is for people.
pub(super) async fn open(login: &Login, name: &str) -> Result<UnixStream, String> {
    match login.ask(&AgentRequest::Open(name.to_owned())).await {
        Ok((AgentAnswer::Opened, Some(session))) => connected(session),
        other => Err(reason_of(other.map(|(answer, _)| answer))),
    }
}

/// A connection that an agent has opened.
pub(super) fn connected(session: OwnedFd) -> Result<UnixStream, String> {
    let stream = std::os::unix::net::UnixStream::from(session);
    let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
    stream.map_err(|error| reason_of(Err(error)))
}

/// The agent is the user's own, and so is its text.
pub(super) fn reason_of(answer: io::Result<AgentAnswer>) -> String {
    match answer {
        Ok(AgentAnswer::Error(text)) => text,
        Ok(AgentAnswer::Waiting(waiting)) => format!("{waiting} Open it again in a moment."),
        Ok(_) => "an answer of another version of thinc".to_owned(),
        Err(error) => format!("your part of the broker does not answer: {error}"),
    }
}

/// What a viewer's bytes come over.
pub(super) trait ViewerTransport: AsyncRead + AsyncWrite + Unpin + Send + Sized {
    /// For the log.
    const NAME: &str;
    /// For figures.
    const TRANSPORT: TransportKind;

    /// It belongs to a person: the limits for strangers end.
    fn set_authenticated(&self);

    /// The host that it was opened to, as the viewer has named it, or the address.
    fn host(&self) -> Option<String>;

    /// Forwards until one of both ends closes; `first` was read already. `place`: at the uplink, if
    /// that has a limit.
    fn relay_to(
        &mut self,
        session: UnixStream,
        first: Vec<u8>,
        place: Option<&Place>,
    ) -> impl Future<Output = io::Result<()>> + Send;
}

impl ViewerTransport for TlsStream<TcpStream> {
    const NAME: &str = "TCP";
    const TRANSPORT: TransportKind = TransportKind::Tcp;

    fn set_authenticated(&self) {}

    fn host(&self) -> Option<String> {
        let (tcp, tls) = self.get_ref();
        let name = tls.server_name().map(str::to_owned);
        name.or_else(|| Some(written(tcp.local_addr().ok()?.ip())))
    }

    async fn relay_to(
        &mut self,
        session: UnixStream,
        first: Vec<u8>,
        place: Option<&Place>,
    ) -> io::Result<()> {
        let tcp = self.get_ref().0.as_fd().try_clone_to_owned()?;
        let shown = tcp.try_clone()?;
        if let Some(place) = place {
            place.set_teller(ShareTeller::Tcp(tcp.try_clone()?));
        }
        let _end = ShutDown(tcp);
        run_stream(self, session, first, vec![shown], place).await
    }
}

/// As a URL has it.
fn written(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

/// Ends a TCP connection of which the session process has a duplicate.
struct ShutDown(OwnedFd);

impl Drop for ShutDown {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

impl ViewerTransport for QuicStream {
    const NAME: &str = "QUIC";
    const TRANSPORT: TransportKind = TransportKind::Quic;

    fn set_authenticated(&self) {
        QuicStream::set_authenticated(self);
    }

    fn host(&self) -> Option<String> {
        self.server_name().or_else(|| Some(written(self.local_address()?)))
    }

    async fn relay_to(
        &mut self,
        session: UnixStream,
        first: Vec<u8>,
        place: Option<&Place>,
    ) -> io::Result<()> {
        let (relay, descriptors) = self.relay()?;
        if let Some(place) = place {
            place.set_teller(relay.share_teller());
        }
        let admits = |bytes| place.is_none_or(|place| place.admits_datagram(bytes));
        let datagrams = async {
            match relay.run(admits).await {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
                // The session process has closed its end, whose last bytes may still be on the way;
                // or the connection has ended, which the stream reports.
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            result = run_stream(self, session, first, descriptors.into(), place) => result,
            result = datagrams => result,
        }
    }
}

/// Forwards a viewer's own stream, of which `first` was read already. The session process gets the
/// descriptors.
async fn run_stream(
    viewer: impl AsyncRead + AsyncWrite,
    session: UnixStream,
    mut first: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    place: Option<&Place>,
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
            let descriptors = descriptors;
            sent = to_session
                .as_ref()
                .async_io(Interest::WRITABLE, || {
                    send_with(to_session.as_ref(), &first, &descriptors)
                })
                .await?;
        }
        to_session.write_all(&first[sent..]).await?;
        tokio::io::copy(&mut from_viewer, &mut to_session).await.map(drop)
    };
    let downwards = async {
        let mut chunk = vec![0; read_bytes(place)];
        loop {
            let count = from_session.read(&mut chunk).await?;
            if count == 0 {
                return to_viewer.shutdown().await;
            }
            admit(place, count).await;
            to_viewer.write_all(&chunk[..count]).await?;
            to_viewer.flush().await?;
        }
    };
    tokio::select! {
        result = upwards => result,
        result = downwards => result,
    }
}

/// Sends the first bytes, and what tells the session process of the path: a duplicate of a TCP
/// connection, or what a QUIC connection publishes. Who gets it can disturb this one connection,
/// which is their own; its bytes are encrypted.
fn send_with(session: &UnixStream, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<usize> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fits = ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    assert!(fits, "there is room for {DESCRIPTORS_MAX}");
    let bytes = [io::IoSlice::new(bytes)];
    Ok(sendmsg(session, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?)
}

fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
