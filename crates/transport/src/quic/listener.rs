//! Path 10/13, the session's end of QUIC: beside front.rs of session-server, which authenticates.
//! From the supervisor's UDP socket, to one stream for each viewer; web.rs serves browsers. Knows
//! addresses and packets; never who may open the session.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hmac::Mac as _;
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::{
    Endpoint, EndpointConfig, Incoming, RecvStream, SendStream, ServerConfig, StoppedError,
    TokioRuntime, VarInt,
};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::web::{Browser, Session};
use super::{Datagrams, End, SESSION_RECEIVE_WINDOW, as_io, transport_config};
use crate::congestion::{DeliveryControl, Meter};
use crate::identity::Identity;
use crate::path::PathInfo;
use crate::relay::Relay;
use crate::token::SessionSecret;
use crate::web_certificate::WebCertificate;
use crate::{ALPN_HTTP3, ALPN_NATIVE};

/// 8 KiB: bytes accepted beyond what can be sent now. More would wait where nothing can replace or
/// overtake it.
const UNSENT_BYTES_MAX: u64 = 8 * 1024;
/// Congestion windows of bytes that are kept behind a missing packet (head-of-line blocking): its
/// loss is detected a round trip after it was sent, and it may be lost again. The writer counts
/// packets (`QuicPath`) and so writes no more because of this limit.
const BLOCKED_WINDOWS: u64 = 3;
/// Handshakes that wait to be accepted, and bytes kept for one and for all of them. Past the limits
/// they are refused with one packet.
const HANDSHAKES_WAITING_MAX: usize = 256;
const HANDSHAKE_BYTES_MAX: u64 = 4 * 1024;
const HANDSHAKE_BYTES_TOTAL_MAX: u64 = 256 * 1024;
/// 1 MiB: the kernel's buffer for packets that this thread has not read yet; it may give less.
const SOCKET_BYTES: usize = 1024 * 1024;

/// quinn's send window: bytes of a stream that are kept because the peer has not acknowledged
/// everything before them.
fn send_window(window: u64) -> u64 {
    (1 + BLOCKED_WINDOWS) * window + UNSENT_BYTES_MAX
}

/// A UDP socket that serves QUIC: that of a session's port, or one for a viewer that came through
/// ssh.
#[derive(Debug)]
pub struct QuicListener {
    endpoint: Endpoint,
    config: ServerConfig,
    /// For browsers, if they are served.
    certificate: Option<Arc<WebCertificate>>,
}

/// A peer's first packet; nothing was answered and almost nothing is kept for it.
#[derive(Debug)]
pub struct IncomingConnection {
    incoming: Incoming,
    config: ServerConfig,
}

/// A peer whose handshake is complete.
#[derive(Debug)]
pub enum Accepted {
    /// A native viewer, with its stream.
    Viewer(Box<QuicStream>),
    /// A browser, which may request WebTransport.
    Browser(Browser),
}

/// Chooses the certificate by ALPN: native viewers know the session by its permanent key; browsers
/// want a certificate that is valid for days, whose hash a page has told them.
#[derive(Debug)]
struct CertificateChooser {
    identity: Arc<dyn ResolvesServerCert>,
    web: Arc<WebCertificate>,
}

impl ResolvesServerCert for CertificateChooser {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_viewer = hello.alpn().is_some_and(|mut names| names.any(|name| name == ALPN_NATIVE));
        if is_viewer { self.identity.resolve(hello) } else { Some(self.web.current()) }
    }
}

/// Domain of stateless reset tokens, which keeps them apart from other uses of the session's
/// secret.
const RESET_DOMAIN: &[u8] = b"thinc-quic-reset";

/// The key of stateless reset tokens (RFC 9000, 10.3). A restarted session process has the same
/// key, so that it can end the connections of the one before it at once.
struct ResetKey([u8; 32]);

impl quinn::crypto::HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.copy_from_slice(
            &SessionSecret(self.0).mac(RESET_DOMAIN, data).finalize().into_bytes(),
        );
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), quinn::crypto::CryptoError> {
        SessionSecret(self.0)
            .mac(RESET_DOMAIN, data)
            .verify_slice(signature)
            .map_err(|_| quinn::crypto::CryptoError)
    }
}

impl QuicListener {
    /// Starts to listen for native viewers and browsers; needs a running event loop. `now`: since
    /// 1970.
    pub fn new(
        socket: UdpSocket,
        identity: &Identity,
        secret: &SessionSecret,
        now: Duration,
    ) -> io::Result<QuicListener> {
        let certificate = Arc::new(WebCertificate::make(now).map_err(io::Error::other)?);
        QuicListener::with_certificate(socket, identity, secret, certificate)
    }

    /// The same with a certificate for browsers that other listeners show too.
    pub fn with_certificate(
        socket: UdpSocket,
        identity: &Identity,
        secret: &SessionSecret,
        certificate: Arc<WebCertificate>,
    ) -> io::Result<QuicListener> {
        QuicListener::start(socket, identity, secret, Some(certificate))
    }

    /// Starts to listen for native viewers only; needs a running event loop.
    pub fn native(
        socket: UdpSocket,
        identity: &Identity,
        secret: &SessionSecret,
    ) -> io::Result<QuicListener> {
        QuicListener::start(socket, identity, secret, None)
    }

    fn start(
        socket: UdpSocket,
        identity: &Identity,
        secret: &SessionSecret,
        certificate: Option<Arc<WebCertificate>>,
    ) -> io::Result<QuicListener> {
        let mut tls = identity.server_config().map_err(io::Error::other)?.as_ref().clone();
        tls.alpn_protocols = vec![ALPN_NATIVE.to_vec()];
        if let Some(web) = &certificate {
            tls.alpn_protocols.push(ALPN_HTTP3.to_vec());
            tls.cert_resolver = Arc::new(CertificateChooser {
                identity: tls.cert_resolver.clone(),
                web: web.clone(),
            });
        }
        let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config
            .max_incoming(HANDSHAKES_WAITING_MAX)
            .incoming_buffer_size(HANDSHAKE_BYTES_MAX)
            .incoming_buffer_size_total(HANDSHAKE_BYTES_TOTAL_MAX);
        let mut endpoint_config = EndpointConfig::new(Arc::new(ResetKey(secret.0)));
        // Connection IDs of the last session process must be accepted as ours, or its packets would
        // not be answered with a reset.
        endpoint_config
            .cid_generator(|| Box::new(quinn_proto::RandomConnectionIdGenerator::default()));
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES)?;
        let endpoint =
            Endpoint::new(endpoint_config, Some(config.clone()), socket, Arc::new(TokioRuntime))?;
        Ok(QuicListener { endpoint, config, certificate })
    }

    /// The certificate for browsers; none if only native viewers are served.
    pub fn certificate(&self) -> Option<Arc<WebCertificate>> {
        self.certificate.clone()
    }

    /// Ends all connections; the socket is closed as soon as the event loop has run.
    pub fn close(self) {
        self.endpoint.close(VarInt::from_u32(0), b"");
    }

    /// Waits for the next connection; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<IncomingConnection> {
        let incoming = self.endpoint.accept().await?;
        Some(IncomingConnection { incoming, config: self.config.clone() })
    }
}

impl IncomingConnection {
    /// The source address of its packet, which anyone can forge before it is validated.
    pub fn peer(&self) -> SocketAddr {
        self.incoming.remote_address()
    }

    /// True if the peer has shown that it receives packets at that address (RFC 9000, 8.1).
    pub fn is_address_validated(&self) -> bool {
        self.incoming.remote_address_validated() || !self.incoming.may_retry()
    }

    /// Demands address validation with one Retry packet; keeps nothing.
    pub fn retry(self) {
        // Fails only if the address is validated already.
        let _ = self.incoming.retry();
    }

    /// Completes the handshake, and waits for the stream of a native viewer.
    pub async fn accept(mut self) -> io::Result<Accepted> {
        let control = DeliveryControl::default();
        let meter = control.meter.clone();
        self.config.transport_config(transport_config(End::Session, control));
        let mut connecting = self.incoming.accept_with(Arc::new(self.config)).map_err(as_io)?;
        let handshake = connecting.handshake_data().await.map_err(as_io)?;
        let protocol =
            handshake.downcast::<HandshakeData>().ok().and_then(|handshake| handshake.protocol);
        if protocol.as_deref() == Some(ALPN_HTTP3) {
            // 0.5-RTT data: what the session sends first (HTTP/3 settings) holds no secret, and
            // sending it before the browser's part of the handshake saves a round trip.
            let connection = match connecting.into_0rtt() {
                Ok((connection, _)) => connection,
                Err(connecting) => connecting.await.map_err(as_io)?,
            };
            return Ok(Accepted::Browser(Browser { connection, meter }));
        }
        let connection = connecting.await.map_err(as_io)?;
        let (send, receive) = connection.accept_bi().await.map_err(as_io)?;
        let stream = QuicStream::new(connection, send, receive, meter, None);
        Ok(Accepted::Viewer(Box::new(stream)))
    }
}

/// `Ok(None)`: the peer has received the whole stream.
type Arrived = Result<Option<VarInt>, StoppedError>;

/// A viewer's stream. Dropping it ends the connection, whatever is still in flight; shutting it
/// down waits until everything was delivered.
pub struct QuicStream {
    connection: quinn::Connection,
    send: SendStream,
    receive: RecvStream,
    meter: Arc<Meter>,
    datagrams: Datagrams,
    /// Since shutdown: ready when the peer has received everything, or will not.
    delivered: Option<Pin<Box<dyn Future<Output = Arrived> + Send + Sync>>>,
    /// The WebTransport session, for a page.
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
        let datagrams = match &web {
            None => Datagrams::of(&connection, Some(meter.clone())),
            Some(session) => Datagrams::of_session(&connection, meter.clone(), session.id()),
        };
        QuicStream { connection, send, receive, meter, datagrams, delivered: None, web }
    }

    /// Raises the receive window to that of an authenticated viewer.
    pub fn set_authenticated(&self) {
        self.connection.set_receive_window(VarInt::from_u32(SESSION_RECEIVE_WINDOW));
    }

    /// The connection's datagrams.
    pub fn datagrams(&self) -> Datagrams {
        self.datagrams.clone()
    }

    /// The name of the host that the peer has asked for, if it is no address.
    pub fn server_name(&self) -> Option<String> {
        let handshake = self.connection.handshake_data()?.downcast::<HandshakeData>().ok()?;
        handshake.server_name
    }

    /// The address of this host that the peer sends to, if the system tells.
    pub fn local_address(&self) -> Option<IpAddr> {
        self.connection.local_ip()
    }

    /// Its session is in another process, which gets these descriptors with the first bytes. What
    /// is written from here on are that process's bytes. Call it once.
    pub fn relay(&self) -> io::Result<(Relay, [OwnedFd; 2])> {
        Relay::new(self.datagrams(), self.meter.clone())
    }

    /// Reads the statistics of its path.
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
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        match ready!(Pin::new(&mut stream.receive).poll_read(context, into)) {
            // A page that closes its session resets the stream: that is an orderly end.
            Err(error)
                if error.kind() == io::ErrorKind::ConnectionReset && stream.web.is_some() =>
            {
                Poll::Ready(Ok(()))
            }
            result => Poll::Ready(result),
        }
    }
}

impl AsyncWrite for QuicStream {
    /// Accepts what can be sent now and a little more, like a socket with a low-water mark for
    /// unsent bytes (TCP_NOTSENT_LOWAT).
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        stream.connection.set_send_window(send_window(stream.meter.window()));
        let count = ready!(Pin::new(&mut stream.send).poll_write(context, bytes))?;
        stream.meter.add_unsent(count as u64);
        if let Some(publication) = stream.meter.publication() {
            publication.add_taken(count as u64);
            publication.update(&stream.datagrams);
            stream.meter.publish();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if stream.delivered.is_none() {
            // Fails only if the peer has stopped the stream already.
            let _ = stream.send.finish();
        }
        let delivered = stream.delivered.get_or_insert_with(|| Box::pin(stream.send.stopped()));
        // Delivered, refused or broken: nothing more can be done for it.
        let _ = ready!(delivered.as_mut().poll(context));
        Poll::Ready(Ok(()))
    }
}

/// Reads the statistics of a QUIC connection's path.
#[derive(Debug)]
pub struct QuicPath {
    meter: Arc<Meter>,
}

impl QuicPath {
    /// The statistics now; `None` before a round trip was measured. Delivered bytes are those of
    /// packets, headers included.
    pub fn info(&self) -> Option<PathInfo> {
        path_info(&self.meter)
    }
}

/// The statistics of a connection of this process.
pub(crate) fn path_info(meter: &Meter) -> Option<PathInfo> {
    let (rtt, rtt_min) = meter.rtt();
    if rtt == 0 {
        return None;
    }
    let (in_flight, window) = (meter.in_flight(), meter.window());
    // The stream accepts no more than this ahead of its packets.
    let unsent = meter.unsent().min(send_window(window).saturating_sub(in_flight));
    Some(PathInfo {
        unacknowledged: in_flight + unsent,
        delivered: meter.delivered(),
        window,
        rate: meter.rate(),
        rtt,
        rtt_min,
        share: None,
    })
}
