//! Path 10/13, the session's end of QUIC: beside front.rs of session-server, which lets in and turns away.
//! From the supervisor's UDP socket, to one stream for each viewer; browsers go by web.rs. Knows addresses and packets; never who may come in.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hmac::Mac as _;
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::{
    Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, StoppedError, TokioRuntime, VarInt,
};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::web::{Browser, Session};
use super::{End, SESSION_ROOM_BYTES, as_io, transport};
use crate::congestion::{Delivery, Meter};
use crate::identity::Identity;
use crate::path::Figures;
use crate::token::SessionSecret;
use crate::web_certificate::WebCertificate;
use crate::{ALPN_HTTP3, ALPN_NATIVE};

/// 8 KiB: bytes taken beyond what can be sent now. More would wait where nothing can replace or overtake it.
const NOT_SENT_BYTES: u64 = 8 * 1024;
/// Windows of bytes that have arrived behind a packet that is missed, and are kept until it is there: it is found missing a round trip
/// after it left, and may be lost again. Whoever writes counts packets (`QuicPath`), and so hands over no more for it.
const HELD_UP_WINDOWS: u64 = 3;
/// Handshakes that wait to be looked at, and bytes kept of one and of all of them. Past it they are refused in a packet.
const WAITING_MAX: usize = 256;
const WAITING_BYTES: u64 = 4 * 1024;
const WAITING_BYTES_ALL: u64 = 256 * 1024;
/// 1 MiB: what the kernel keeps of packets until this thread gets to them; it may give less.
const SOCKET_BYTES: usize = 1024 * 1024;

/// Bytes of a stream that are kept, of which the other end has not acknowledged all that went before.
fn send_window(window: u64) -> u64 {
    (1 + HELD_UP_WINDOWS) * window + NOT_SENT_BYTES
}

/// The UDP half of a session's port.
#[derive(Debug)]
pub struct Door {
    endpoint: Endpoint,
    config: ServerConfig,
    certificate: Arc<WebCertificate>,
}

/// Somebody's first packet; nothing was answered and next to nothing is kept.
#[derive(Debug)]
pub struct Knock {
    incoming: Incoming,
    config: ServerConfig,
}

/// Who has shaken hands.
#[derive(Debug)]
pub enum Visit {
    /// A native viewer, with its stream.
    Viewer(QuicStream),
    /// A browser, which may ask for WebTransport.
    Browser(Browser),
}

/// Viewers know the session by its lasting key; browsers want a certificate of days, of which a page told them the hash.
#[derive(Debug)]
struct Shown {
    lasting: Arc<dyn ResolvesServerCert>,
    web: Arc<WebCertificate>,
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_viewer = hello.alpn().is_some_and(|mut names| names.any(|name| name == ALPN_NATIVE));
        if is_viewer { self.lasting.resolve(hello) } else { Some(self.web.shown()) }
    }
}

/// Keeps these apart from what else is signed with the session's secret.
const RESET: &[u8] = b"thinc-quic-reset";

/// What viewers know a dead session process by: the next one says at once that it knows nothing of their connections.
struct ResetKey([u8; 32]);

impl quinn::crypto::HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.copy_from_slice(&SessionSecret(self.0).mac(RESET, data).finalize().into_bytes());
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), quinn::crypto::CryptoError> {
        SessionSecret(self.0).mac(RESET, data).verify_slice(signature).map_err(|_| quinn::crypto::CryptoError)
    }
}

impl Door {
    /// Opens it; needs the event loop that is to serve it. `now`: since 1970.
    pub fn open(socket: UdpSocket, identity: &Identity, secret: &SessionSecret, now: Duration) -> io::Result<Door> {
        let certificate = Arc::new(WebCertificate::make(now).map_err(io::Error::other)?);
        let mut tls = identity.server_config().map_err(io::Error::other)?.as_ref().clone();
        tls.alpn_protocols = vec![ALPN_NATIVE.to_vec(), ALPN_HTTP3.to_vec()];
        tls.cert_resolver = Arc::new(Shown { lasting: tls.cert_resolver.clone(), web: certificate.clone() });
        let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config
            .max_incoming(WAITING_MAX)
            .incoming_buffer_size(WAITING_BYTES)
            .incoming_buffer_size_total(WAITING_BYTES_ALL);
        let mut ends = EndpointConfig::new(Arc::new(ResetKey(secret.0)));
        // What the last session process called its connections must be known as ours, or no packet of theirs is answered.
        ends.cid_generator(|| Box::new(quinn_proto::RandomConnectionIdGenerator::default()));
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES)?;
        let endpoint = Endpoint::new(ends, Some(config.clone()), socket, Arc::new(TokioRuntime))?;
        Ok(Door { endpoint, config, certificate })
    }

    /// What browsers are shown.
    pub fn certificate(&self) -> Arc<WebCertificate> {
        self.certificate.clone()
    }

    /// Waits for the next one; `None` when the door is shut.
    pub async fn next(&self) -> Option<Knock> {
        let incoming = self.endpoint.accept().await?;
        Some(Knock { incoming, config: self.config.clone() })
    }
}

impl Knock {
    /// Where it says it comes from.
    pub fn peer(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    /// True when it has shown that it does.
    pub fn has_proved_address(&self) -> bool {
        self.incoming.remote_address_validated() || !self.incoming.may_retry()
    }

    /// Asks it to, in one packet; nothing is kept.
    pub fn ask_for_proof(self) {
        // May fail only where it has proved it.
        let _ = self.incoming.retry();
    }

    /// Shakes hands, and waits for the stream of a native viewer.
    pub async fn accept(mut self) -> io::Result<Visit> {
        let delivery = Delivery::default();
        let meter = delivery.meter.clone();
        self.config.transport_config(transport(End::Session, delivery));
        let mut connecting = self.incoming.accept_with(Arc::new(self.config)).map_err(as_io)?;
        let said = connecting.handshake_data().await.map_err(as_io)?;
        let protocol = said.downcast::<HandshakeData>().ok().and_then(|said| said.protocol);
        if protocol.as_deref() == Some(ALPN_HTTP3) {
            // What the session says first holds no secret, and spares a round trip where it does not wait for the browser's part.
            let connection = match connecting.into_0rtt() {
                Ok((connection, _)) => connection,
                Err(connecting) => connecting.await.map_err(as_io)?,
            };
            return Ok(Visit::Browser(Browser { connection, meter }));
        }
        let connection = connecting.await.map_err(as_io)?;
        let (send, receive) = connection.accept_bi().await.map_err(as_io)?;
        Ok(Visit::Viewer(QuicStream::new(connection, send, receive, meter, None)))
    }
}

/// `Ok(None)`: the other end has all of a stream.
type Arrived = Result<Option<VarInt>, StoppedError>;

/// A viewer's stream. Dropping it ends the connection, whatever is still under way; shutting it down waits until all has arrived.
pub struct QuicStream {
    connection: quinn::Connection,
    send: SendStream,
    receive: RecvStream,
    meter: Arc<Meter>,
    /// Shut down: ready when the other end has everything, or will not.
    arriving: Option<Pin<Box<dyn Future<Output = Arrived> + Send + Sync>>>,
    /// Of a page.
    web: Option<Session>,
}

impl QuicStream {
    pub(super) fn new(
        connection: quinn::Connection,
        send: SendStream,
        receive: RecvStream,
        meter: Arc<Meter>,
        web: Option<Session>,
    ) -> QuicStream {
        QuicStream { connection, send, receive, meter, arriving: None, web }
    }

    /// Whoever is there may come in: it gets the room that a viewer has.
    pub fn trust(&self) {
        self.connection.set_receive_window(VarInt::from_u32(SESSION_ROOM_BYTES));
    }

    /// What goes beside it.
    pub fn datagrams(&self) -> super::Datagrams {
        let datagrams = super::Datagrams::of(&self.connection, Some(self.meter.clone()));
        match &self.web {
            None => datagrams,
            Some(session) => datagrams.of_session(session.number()),
        }
    }

    /// A view of its path.
    pub fn path(&self) -> QuicPath {
        QuicPath { meter: self.meter.clone() }
    }
}

impl std::fmt::Debug for QuicStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicStream").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl AsyncRead for QuicStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        match ready!(Pin::new(&mut stream.receive).poll_read(context, into)) {
            // A page that closes its session has no other word for it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && stream.web.is_some() => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}

impl AsyncWrite for QuicStream {
    /// Takes what can be sent now and a little more, as a socket does whose unsent bytes are bounded.
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        stream.connection.set_send_window(send_window(stream.meter.window()));
        let count = ready!(Pin::new(&mut stream.send).poll_write(context, bytes))?;
        stream.meter.written(count as u64);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if stream.arriving.is_none() {
            // Fails only where the other end has stopped it already.
            let _ = stream.send.finish();
        }
        let arriving = stream.arriving.get_or_insert_with(|| Box::pin(stream.send.stopped()));
        // Arrived, refused or broken: there is nothing more to do for it.
        let _ = ready!(arriving.as_mut().poll(context));
        Poll::Ready(Ok(()))
    }
}

/// What a QUIC connection knows of its path.
#[derive(Debug)]
pub struct QuicPath {
    meter: Arc<Meter>,
}

impl QuicPath {
    /// How things stand now; `None` before a round trip was measured. Delivered bytes are those of packets, heads included.
    pub fn figures(&self) -> Option<Figures> {
        let (rtt, rtt_min) = self.meter.rtt();
        if rtt == 0 {
            return None;
        }
        let (in_flight, window) = (self.meter.in_flight(), self.meter.window());
        // No more than the stream takes ahead of its packets.
        let unsent = self.meter.unsent().min(send_window(window).saturating_sub(in_flight));
        Some(Figures {
            in_flight: in_flight + unsent,
            delivered: self.meter.delivered(),
            window,
            rate: self.meter.rate(),
            rtt,
            rtt_min,
        })
    }
}
