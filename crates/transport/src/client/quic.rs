//! Path 10/13, the viewer's end over QUIC: the connection lives on a thread of its own, the two
//! halves of its stream on two others.
//! From client.rs, to the session's UDP socket. Knows bytes; never what they mean.

use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Buf as _;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, EndpointConfig, RecvStream, SendStream, TokioRuntime, VarInt};
use rustls::pki_types::ServerName;
use thinc_protocol::framing::MessageFrame;
use thinc_protocol::parity::{self, Parity};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use super::{ConnectError, Received, SecureTransport, Trust};
use crate::congestion::DeliveryControl;
use crate::parity::RepairedStream;
use crate::pin::SpkiPin;
use crate::quic::{Datagrams, End, as_io, transport_config};

/// Addresses of one name that are tried, all at once.
const ADDRESSES_MAX: usize = 4;
/// 2 MiB: the kernel's buffer for packets that this process has not read yet; it may give less.
const SOCKET_BUFFER_BYTES: usize = 2 * 1024 * 1024;
/// Chunks, of a packet each, that are taken together before bytes are passed on.
const CHUNKS_AT_ONCE: usize = 32;
/// 300 ms: longest wait for the delivery of the last bytes, and 20 ms for that of the close.
const CLOSE_FLUSH_TIMEOUT: Duration = Duration::from_millis(300);
const CLOSE_TIMEOUT: Duration = Duration::from_millis(20);

/// A connection whose handshake is complete, before authentication.
#[derive(Debug)]
pub(super) struct SecureConnection {
    runtime: Handle,
    endpoint: Endpoint,
    connection: quinn::Connection,
    streams: (SendStream, RecvStream),
    pin: SpkiPin,
    /// Bytes of the session's stream that were read.
    received: u64,
}

/// The half that reads; blocks until bytes come.
#[derive(Debug)]
pub(super) struct Reader {
    runtime: Handle,
    receive: RecvStream,
    datagrams: Datagrams,
    /// Position in the stream behind the last byte that was read in order.
    received: u64,
    /// Position where the session's counting begins: behind its answer to the credential.
    origin: u64,
    /// Repairs the stream from the session's first parities on. Until then QUIC puts it in order.
    repaired: Option<Box<RepairedStream>>,
    /// How the stream ended, behind bytes that are still to be read.
    failed: Option<io::Error>,
}

/// The half that writes; blocks while the send window is full.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    runtime: Handle,
    endpoint: Endpoint,
    connection: quinn::Connection,
    send: Mutex<SendStream>,
}

/// Completes the handshake with the address that answers first, passes the connection to `report`
/// and serves it until it ends; runs on a thread of its own. Ends without a report if the other end
/// of `cancelled` is dropped before that.
pub(super) fn run(
    addresses: &[SocketAddr],
    trust: &Trust,
    deadline: Instant,
    cancelled: oneshot::Receiver<()>,
    report: impl FnOnce(Result<SecureConnection, ConnectError>),
) {
    let failed = |error| ConnectError::Connect(trust.authority.clone(), error);
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(Err(failed(error))),
    };
    runtime.block_on(async {
        let mut attempts = JoinSet::new();
        for &address in addresses.iter().take(ADDRESSES_MAX) {
            let trust = trust.clone();
            attempts.spawn(async move { handshake(address, &trust).await });
        }
        let mut last = failed(io::ErrorKind::AddrNotAvailable.into());
        let first = async {
            while let Some(result) = attempts.join_next().await {
                match result {
                    Ok(Ok(connection)) => return Ok(connection),
                    Ok(Err(error)) => last = error,
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                }
            }
            Err(last)
        };
        let unanswered =
            || failed(io::Error::new(io::ErrorKind::TimedOut, "there was no answer over UDP"));
        let first = timeout_at(deadline.into(), first);
        let first = tokio::select! {
            first = first => first.unwrap_or_else(|_| Err(unanswered())),
            _ = cancelled => return,
        };
        drop(attempts);
        let endpoint = first.as_ref().map(|connection| connection.endpoint.clone()).ok();
        report(first);
        // This thread holds no handle of the connection: it ends when its last half is dropped, and
        // this thread with it.
        if let Some(endpoint) = endpoint {
            endpoint.wait_idle().await;
        }
    });
}

async fn handshake(address: SocketAddr, trust: &Trust) -> Result<SecureConnection, ConnectError> {
    let failed = |error| ConnectError::Connect(trust.authority.clone(), error);
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    // Bound to no local address: the kernel uses that of the current network, and the connection
    // migrates with it.
    let socket = UdpSocket::bind(any).map_err(failed)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES)
        .map_err(|error| failed(error.into()))?;
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))
        .map_err(failed)?;

    let (tls, verifier) = trust.tls();
    let crypto = QuicClientConfig::try_from(tls).expect("TLS 1.3 has QUIC's first suite");
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport_config(End::Viewer, DeliveryControl::default()));
    let name =
        ServerName::try_from(trust.host.as_str()).map_or(super::PLACEHOLDER_NAME, |_| &trust.host);
    let connecting = endpoint
        .connect_with(config, address, name)
        .map_err(|error| failed(io::Error::other(error)))?;
    let connection = connecting.await.map_err(|error| {
        let alert = match &error {
            quinn::ConnectionError::TransportError(error) => u64::from(error.code),
            quinn::ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
            _ => 0,
        };
        let no_protocol =
            0x100 + u64::from(u8::from(rustls::AlertDescription::NoApplicationProtocol));
        match trust.wrong_key(verifier.seen()) {
            Some(wrong) => wrong,
            None if alert == no_protocol => ConnectError::NotThinc(trust.authority.clone()),
            None => failed(as_io(error)),
        }
    })?;
    let streams = connection.open_bi().await.map_err(|error| failed(as_io(error)))?;
    let pin = verifier.seen().expect("the handshake shows a certificate");
    let runtime = Handle::current();
    Ok(SecureConnection { runtime, endpoint, connection, streams, pin, received: 0 })
}

/// Waits, on any thread, for work of the connection's thread.
fn wait<T>(
    runtime: &Handle,
    deadline: Instant,
    what: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let timed_out =
        || io::Error::new(io::ErrorKind::TimedOut, "the time-out of the attempt has passed");
    runtime.block_on(async {
        timeout_at(deadline.into(), what).await.unwrap_or_else(|_| Err(timed_out()))
    })
}

impl SecureTransport for SecureConnection {
    fn pin(&self) -> SpkiPin {
        self.pin
    }

    fn peer(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    fn supports_datagrams(&self) -> bool {
        self.connection.max_datagram_size().is_some()
    }

    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        wait(&self.runtime, deadline, async { Ok(self.streams.0.write_all(bytes).await?) })
    }

    fn receive(&mut self, into: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let count = wait(&self.runtime, deadline, async {
            read_some(&mut self.streams.1, &mut buffer).await
        })?;
        into.extend_from_slice(&buffer[..count]);
        self.received += count as u64;
        Ok(count)
    }

    fn split(self: Box<Self>, leftover: u64) -> io::Result<(super::ReadHalf, super::WriteHalf)> {
        let SecureConnection { runtime, endpoint, connection, streams, pin: _, received } = *self;
        let (send, receive) = streams;
        let datagrams = Datagrams::of(&connection, None);
        let reader = Reader {
            runtime: runtime.clone(),
            receive,
            datagrams,
            received,
            origin: received - leftover,
            repaired: None,
            failed: None,
        };
        let shared = Arc::new(Shared { runtime, endpoint, connection, send: Mutex::new(send) });
        Ok((super::ReadHalf::Quic(reader), super::WriteHalf::Quic(Writer { shared })))
    }
}

/// Bytes of the stream; 0 at its end.
async fn read_some(receive: &mut RecvStream, into: &mut [u8]) -> io::Result<usize> {
    match receive.read(into).await {
        Ok(count) => Ok(count.unwrap_or(0)),
        Err(quinn::ReadError::ConnectionLost(error)) => Err(as_io(error)),
        Err(error) => Err(error.into()),
    }
}

/// The next bytes of the stream in any order; None at its end.
async fn read_any(receive: &mut RecvStream) -> io::Result<Option<quinn::Chunk>> {
    match receive.read_chunk(usize::MAX, false).await {
        Err(quinn::ReadError::ConnectionLost(error)) => Err(as_io(error)),
        result => Ok(result?),
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut send = self.shared.send.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.shared.runtime.block_on(send.write(bytes))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn read_next(receive: &mut RecvStream, into: &mut [u8], in_order: bool) -> io::Result<Next> {
    if in_order {
        read_some(receive, into).await.map(Next::Bytes)
    } else {
        read_any(receive).await.map(Next::Chunk)
    }
}

/// The result of `future` if it has one by now.
async fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn too_far_ahead() -> io::Error {
    let error = "the session sends ever more behind bytes that it never sends again";
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// What comes next, before parities are used.
enum Next {
    Datagram(Vec<u8>),
    /// So many bytes in order; 0 at the end.
    Bytes(usize),
    /// Bytes in any order; None at the end.
    Chunk(Option<quinn::Chunk>),
}

impl Reader {
    /// Waits for stream bytes or a datagram. Datagrams take precedence: they are few, and stream
    /// bytes are read by the next call.
    pub(super) fn receive(&mut self, into: &mut [u8]) -> io::Result<Received> {
        loop {
            let Reader { runtime, receive, datagrams, repaired, .. } = self;
            if let Some(repaired) = repaired.as_mut().filter(|repaired| repaired.is_readable()) {
                return Ok(Received::Bytes(repaired.read(into)));
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let in_order = repaired.is_none();
            let next = runtime.block_on(async {
                tokio::select! {
                    biased;
                    // If the connection is over, reading the stream returns how it ended.
                    Ok(datagram) = datagrams.receive() => Ok(Next::Datagram(datagram)),
                    next = read_next(receive, into, in_order) => next,
                }
            })?;
            match next {
                Next::Datagram(datagram) if datagram.first() == Some(&parity::KIND) => {
                    self.take_parity(&datagram)?;
                }
                Next::Datagram(datagram) => return Ok(Received::Datagram(datagram)),
                Next::Bytes(count) => {
                    self.received += count as u64;
                    return Ok(Received::Bytes(count));
                }
                Next::Chunk(None) => return Ok(Received::Bytes(0)),
                Next::Chunk(Some(chunk)) => self.take_chunks(chunk)?,
            }
        }
    }

    fn take_parity(&mut self, datagram: &[u8]) -> io::Result<()> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let parity = MessageFrame::from_datagram(datagram)
            .and_then(|frame| Parity::decode(&frame))
            .map_err(invalid)?;
        let next = self.received - self.origin;
        let repaired = self.repaired.get_or_insert_with(|| RepairedStream::new(next).into());
        if repaired.parity(&parity) { Ok(()) } else { Err(too_far_ahead()) }
    }

    /// Takes this chunk, and those that are there already.
    fn take_chunks(&mut self, first: quinn::Chunk) -> io::Result<()> {
        let Reader { runtime, receive, repaired: Some(repaired), origin, failed, .. } = self else {
            return Ok(());
        };
        let mut chunk = first;
        for taken in 1.. {
            // A retransmission may begin before that, with bytes that were read.
            let read = origin.saturating_sub(chunk.offset).min(chunk.bytes.len() as u64);
            chunk.bytes.advance(read as usize);
            let at = (chunk.offset + read).saturating_sub(*origin);
            if !repaired.arrived(at, chunk.bytes) {
                return Err(too_far_ahead());
            }
            if taken == CHUNKS_AT_ONCE {
                break;
            }
            chunk = match runtime.block_on(now_or_never(read_any(receive))) {
                Some(Ok(Some(next))) => next,
                Some(Err(error)) => {
                    *failed = Some(error);
                    break;
                }
                // The next read returns the end again.
                Some(Ok(None)) | None => break,
            };
        }
        Ok(())
    }

    /// Bytes of the stream that parities have made up for since the last call.
    pub(super) fn take_repaired(&mut self) -> u64 {
        self.repaired.as_mut().map_or(0, |repaired| repaired.take_repaired())
    }
}

impl Writer {
    /// Sends a datagram if the send buffer has room for it.
    pub(super) fn send_datagram(&self, bytes: &[u8]) {
        let datagrams = Datagrams::of(&self.shared.connection, None);
        if bytes.len() <= datagrams.max_len() {
            datagrams.send(bytes);
        }
    }

    #[cfg(test)]
    pub(super) fn rebind(&self) {
        let _entered = self.shared.runtime.enter();
        self.shared.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    }

    /// Closes both directions; nothing more is sent.
    pub(super) fn abort(&mut self) {
        self.shared.connection.close(VarInt::from_u32(0), b"");
    }

    /// Closes both directions, once the written bytes were delivered or CLOSE_FLUSH_TIMEOUT has
    /// passed.
    pub(super) fn close(&mut self) {
        let Shared { runtime, endpoint, connection, send } = &*self.shared;
        if connection.close_reason().is_some() {
            return;
        }
        // If another thread waits in `write`, the path is full, and there is nothing to wait for.
        let delivered = send.try_lock().ok().map(|mut send| {
            let _ = send.finish();
            send.stopped()
        });
        runtime.block_on(async {
            if let Some(delivered) = delivered {
                let _ = timeout(CLOSE_FLUSH_TIMEOUT, delivered).await;
            }
            connection.close(VarInt::from_u32(0), b"");
            let _ = timeout(CLOSE_TIMEOUT, endpoint.wait_idle()).await;
        });
    }
}
