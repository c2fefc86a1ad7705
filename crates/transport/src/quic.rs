//! Path 10/13 over UDP: the QUIC settings of both ends, and the statistics of a connection's path.
//! From session-server's streams and client/quic.rs, to quinn. The protocol travels in order on one
//! stream, as over TCP; datagrams carry what may be lost or reordered. Knows sizes and limits of
//! packets; never what the bytes mean.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use quinn::{AckFrequencyConfig, TransportConfig, VarInt};

use crate::congestion::DeliveryControl;

mod datagrams;
#[cfg(feature = "server")]
mod listener;
pub use datagrams::Datagrams;
#[cfg(feature = "server")]
pub(crate) use listener::path_info;
#[cfg(feature = "server")]
pub use listener::{Accepted, IncomingConnection, QuicListener, QuicPath, QuicStream};
#[cfg(feature = "server")]
mod web;
#[cfg(feature = "server")]
pub use web::{Browser, Connect, PageRequest, RequestHead};
#[cfg(all(test, feature = "server"))]
mod tests;

/// 30 s: a connection that receives nothing for so long ends, like one whose chunk is not sent for
/// so long (STALL_TIME in session-server).
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// 1 s: interval of a viewer's keepalives. They keep the bindings of address translators on the
/// path alive, and they elicit a stateless reset from a session process that has restarted.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// 20 ms: assumed round trip before the first measurement. Lost packets of the handshake are sent
/// again after three of them. On a longer path that costs a packet or two; on one that loses
/// packets it lets QUIC complete its handshake before TCP stops waiting for it.
const INITIAL_RTT: Duration = Duration::from_millis(20);
/// 5 ms: longest delay of an acknowledgement (max_ack_delay). It is part of the probe timeout,
/// which detects losses at the end of a flight: there the glyph is that somebody has just typed.
const ACK_DELAY_MAX: Duration = Duration::from_millis(5);
/// 8 MiB: bytes from a session that a viewer buffers unread; more than any supported path holds.
const VIEWER_RECEIVE_WINDOW: u32 = 8 * 1024 * 1024;
/// 2 MiB: bytes of a viewer that wait to be sent or acknowledged, as many as thinc-clipboard has of
/// files in flight: 160 ms of 100 Mbit/s. Its window and not this one keeps the queue short.
const VIEWER_SEND_WINDOW: u64 = 2 * 1024 * 1024;
/// Bytes buffered for an unauthenticated peer: two of the largest frames that it may send. After
/// authentication: bytes that a viewer may have in flight, its send window.
#[cfg(feature = "server")]
const UNAUTHENTICATED_RECEIVE_WINDOW: u32 = 8 * 1024;
#[cfg(feature = "server")]
const SESSION_RECEIVE_WINDOW: u32 = 2 * 1024 * 1024;
/// Streams that a browser may open: the request for its WebTransport session and the session's one
/// stream; unidirectional ones are those of HTTP/3 itself, with room for streams of reserved types
/// (RFC 9114, 6.2 and 7.2.8). A native viewer opens one stream.
#[cfg(feature = "server")]
const BROWSER_BIDI_STREAMS_MAX: u32 = 2;
#[cfg(feature = "server")]
const BROWSER_UNI_STREAMS_MAX: u32 = 8;
/// 10 s: interval of the session's keepalives. An idle page sends nothing for longer than some
/// address translators keep a binding; native viewers send their own, more often.
#[cfg(feature = "server")]
const SESSION_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Viewer,
    #[cfg(feature = "server")]
    Session,
}

/// 16 KiB: datagrams that wait to be sent. They are small and urgent; what does not fit is sent on
/// the stream.
const DATAGRAM_QUEUE_BYTES: usize = 16 * 1024;
/// 64 KiB: parities may wait beyond that, since nothing else is sent then.
const DATAGRAM_SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Datagrams received and not yet read; past the limit quinn drops the oldest, as a path may do
/// with any. Those of an unauthenticated peer are not read.
const VIEWER_DATAGRAM_BUFFER_BYTES: usize = 256 * 1024;
#[cfg(feature = "server")]
const SESSION_DATAGRAM_BUFFER_BYTES: usize = 16 * 1024;

/// quinn's settings for one end: one stream, which the viewer opens, and datagrams.
pub(crate) fn transport_config(end: End, control: DeliveryControl) -> Arc<TransportConfig> {
    let mut acks = AckFrequencyConfig::default();
    // A gap is reported at once (reordering threshold 1): at the end of a flight a person waits for
    // the missing packet.
    acks.max_ack_delay(Some(ACK_DELAY_MAX)).reordering_threshold(VarInt::from_u32(1));
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(Some(IDLE_TIMEOUT.try_into().expect("half a minute fits")))
        .initial_rtt(INITIAL_RTT)
        .ack_frequency_config(Some(acks))
        .datagram_send_buffer_size(DATAGRAM_SEND_BUFFER_BYTES)
        .congestion_controller_factory(Arc::new(control));
    match end {
        End::Viewer => {
            config
                .max_concurrent_bidi_streams(VarInt::from_u32(0))
                .max_concurrent_uni_streams(VarInt::from_u32(0))
                .keep_alive_interval(Some(KEEPALIVE_INTERVAL))
                .datagram_receive_buffer_size(Some(VIEWER_DATAGRAM_BUFFER_BYTES))
                .stream_receive_window(VarInt::from_u32(VIEWER_RECEIVE_WINDOW))
                .receive_window(VarInt::from_u32(VIEWER_RECEIVE_WINDOW))
                .send_window(VIEWER_SEND_WINDOW);
        }
        #[cfg(feature = "server")]
        End::Session => {
            config
                .max_concurrent_bidi_streams(VarInt::from_u32(BROWSER_BIDI_STREAMS_MAX))
                .max_concurrent_uni_streams(VarInt::from_u32(BROWSER_UNI_STREAMS_MAX))
                .datagram_receive_buffer_size(Some(SESSION_DATAGRAM_BUFFER_BYTES))
                .keep_alive_interval(Some(SESSION_KEEPALIVE_INTERVAL))
                .stream_receive_window(VarInt::from_u32(SESSION_RECEIVE_WINDOW))
                .receive_window(VarInt::from_u32(UNAUTHENTICATED_RECEIVE_WINDOW));
        }
    }
    Arc::new(config)
}

/// Maps the reason why a connection ended to the error that TCP would give.
pub(crate) fn as_io(error: quinn::ConnectionError) -> io::Error {
    use quinn::ConnectionError::{
        ApplicationClosed, ConnectionClosed, LocallyClosed, Reset, TimedOut,
    };
    let kind = match &error {
        // The peer's process closed the connection without finishing its stream.
        ApplicationClosed(_) => return io::ErrorKind::UnexpectedEof.into(),
        ConnectionClosed(_) => io::ErrorKind::ConnectionAborted,
        Reset => io::ErrorKind::ConnectionReset,
        TimedOut => io::ErrorKind::TimedOut,
        LocallyClosed => io::ErrorKind::NotConnected,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}
