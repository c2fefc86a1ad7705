//! Path 10/13, the viewer's end over QUIC: the connection lives on a thread of its own, two halves of its stream on two others.
//! From client.rs, to the session's UDP socket. Knows bytes; never what they say.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, EndpointConfig, RecvStream, SendStream, TokioRuntime, VarInt};
use rustls::pki_types::ServerName;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use super::{Came, ConnectError, Opening, Trust};
use crate::congestion::Delivery;
use crate::pin::SpkiPin;
use crate::quic::{Datagrams, End, as_io, transport};

/// Addresses of one name that are tried, all at once.
const ADDRESSES_MAX: usize = 4;
/// 2 MiB: what the kernel keeps of packets until this process gets to them; it may give less.
const SOCKET_BYTES: usize = 2 * 1024 * 1024;
/// 300 ms: longest time that last words may take to arrive, and 20 ms for the end to be said.
const LAST_WORDS_TIME: Duration = Duration::from_millis(300);
const GOODBYE_TIME: Duration = Duration::from_millis(20);

/// Shaken hands, and not yet let in.
#[derive(Debug)]
pub(super) struct Handshaken {
    runtime: Handle,
    endpoint: Endpoint,
    connection: quinn::Connection,
    streams: (SendStream, RecvStream),
    pin: SpkiPin,
}

/// The half that reads; blocks until bytes come.
#[derive(Debug)]
pub(super) struct Reader {
    runtime: Handle,
    receive: RecvStream,
    datagrams: Datagrams,
}

/// The half that writes; blocks while as much waits as may.
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

/// Shakes hands with whichever address answers first and hands the result to `report`; serves the connection until it ends.
/// For a thread of its own. Ends without a word when nobody holds `wanted`'s other end any more before that.
pub(super) fn run(
    addresses: &[SocketAddr],
    trust: &Trust,
    deadline: Instant,
    wanted: oneshot::Receiver<()>,
    report: impl FnOnce(Result<Handshaken, ConnectError>),
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
            attempts.spawn(async move { shake_hands(address, &trust).await });
        }
        let mut last = failed(io::ErrorKind::AddrNotAvailable.into());
        let first = async {
            while let Some(result) = attempts.join_next().await {
                match result {
                    Ok(Ok(handshaken)) => return Ok(handshaken),
                    Ok(Err(error)) => last = error,
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                }
            }
            Err(last)
        };
        let nothing = || failed(io::Error::new(io::ErrorKind::TimedOut, "nothing comes back by UDP"));
        let first = timeout_at(deadline.into(), first);
        let first = tokio::select! {
            first = first => first.unwrap_or_else(|_| Err(nothing())),
            _ = wanted => return,
        };
        drop(attempts);
        let endpoint = first.as_ref().map(|handshaken| handshaken.endpoint.clone()).ok();
        report(first);
        // Nothing here holds the connection: it ends when its last half has gone, and this with it.
        if let Some(endpoint) = endpoint {
            endpoint.wait_idle().await;
        }
    });
}

async fn shake_hands(address: SocketAddr, trust: &Trust) -> Result<Handshaken, ConnectError> {
    let failed = |error| ConnectError::Connect(trust.authority.clone(), error);
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    // Not bound to an address of ours: the kernel takes the one of the network there is, and the connection moves with it.
    let socket = UdpSocket::bind(any).map_err(failed)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BYTES).map_err(|error| failed(error.into()))?;
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)).map_err(failed)?;

    let (tls, verifier) = trust.tls();
    let crypto = QuicClientConfig::try_from(tls).expect("TLS 1.3 has QUIC's first suite");
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport(End::Viewer, Delivery::default()));
    let name = ServerName::try_from(trust.host.as_str()).map_or(super::NO_NAME, |_| &trust.host);
    let connecting = endpoint.connect_with(config, address, name).map_err(|error| failed(io::Error::other(error)))?;
    let connection = connecting.await.map_err(|error| {
        let alert = match &error {
            quinn::ConnectionError::TransportError(error) => u64::from(error.code),
            quinn::ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
            _ => 0,
        };
        let no_protocol = 0x100 + u64::from(u8::from(rustls::AlertDescription::NoApplicationProtocol));
        match trust.wrong_key(verifier.seen()) {
            Some(wrong) => wrong,
            None if alert == no_protocol => ConnectError::NotThinc(trust.authority.clone()),
            None => failed(as_io(error)),
        }
    })?;
    let streams = connection.open_bi().await.map_err(|error| failed(as_io(error)))?;
    let pin = verifier.seen().expect("the handshake shows a certificate");
    Ok(Handshaken { runtime: Handle::current(), endpoint, connection, streams, pin })
}

/// Waits for something of the connection's thread, from any other.
fn wait<T>(runtime: &Handle, deadline: Instant, what: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "it took too long");
    runtime.block_on(async { timeout_at(deadline.into(), what).await.unwrap_or_else(|_| Err(late())) })
}

impl Opening for Handshaken {
    fn pin(&self) -> SpkiPin {
        self.pin
    }

    fn peer(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    fn takes_datagrams(&self) -> bool {
        self.connection.max_datagram_size().is_some()
    }

    fn say(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<()> {
        wait(&self.runtime, deadline, async { Ok(self.streams.0.write_all(bytes).await?) })
    }

    fn hear(&mut self, into: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        let count = wait(&self.runtime, deadline, async { read_some(&mut self.streams.1, &mut buffer).await })?;
        into.extend_from_slice(&buffer[..count]);
        Ok(count)
    }

    fn split(self: Box<Self>) -> io::Result<(super::ReadHalf, super::WriteHalf)> {
        let Handshaken { runtime, endpoint, connection, streams: (send, receive), pin: _ } = *self;
        let datagrams = Datagrams::of(&connection, None);
        let reader = Reader { runtime: runtime.clone(), receive, datagrams };
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

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.runtime.block_on(read_some(&mut self.receive, into))
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

impl Reader {
    /// Waits for either. Datagrams go first: they are few, and what the stream holds is there in the next moment.
    pub(super) fn next(&mut self, into: &mut [u8]) -> io::Result<Came> {
        let Reader { runtime, receive, datagrams } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                // Where the connection is over, the stream says how it ended.
                Ok(datagram) = datagrams.receive() => Ok(Came::Datagram(datagram)),
                read = read_some(receive, into) => read.map(Came::Bytes),
            }
        })
    }
}

impl Writer {
    /// Hands one over where there is room for it.
    pub(super) fn send_datagram(&self, bytes: &[u8]) {
        let datagrams = Datagrams::of(&self.shared.connection, None);
        if bytes.len() <= datagrams.room() {
            datagrams.send(bytes);
        }
    }

    #[cfg(test)]
    pub(super) fn rebind(&self) {
        let _entered = self.shared.runtime.enter();
        self.shared.endpoint.rebind(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    }

    /// Ends the connection both ways; nothing more of it leaves.
    pub(super) fn abort(&mut self) {
        self.shared.connection.close(VarInt::from_u32(0), b"");
    }

    /// Ends the connection both ways, when what was written has arrived or had the time to.
    pub(super) fn close(&mut self) {
        let Shared { runtime, endpoint, connection, send } = &*self.shared;
        if connection.close_reason().is_some() {
            return;
        }
        // Where somebody waits in `write`, the path is full, and there is nothing to wait for.
        let arriving = send.try_lock().ok().map(|mut send| {
            let _ = send.finish();
            send.stopped()
        });
        runtime.block_on(async {
            if let Some(arriving) = arriving {
                let _ = timeout(LAST_WORDS_TIME, arriving).await;
            }
            connection.close(VarInt::from_u32(0), b"");
            let _ = timeout(GOODBYE_TIME, endpoint.wait_idle()).await;
        });
    }
}
