//! Path 10/13 over UDP: what both ends of a QUIC connection agree on, and what a connection knows of its path.
//! From session-server's streams and client/quic.rs, to quinn. The protocol travels in order on one stream, as over TCP; what may be lost, in datagrams beside it.
//! Knows packets' sizes and limits; never what the bytes mean.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use quinn::{AckFrequencyConfig, TransportConfig, VarInt};

use crate::congestion::Delivery;

mod datagrams;
#[cfg(feature = "server")]
mod door;
pub use datagrams::Datagrams;
#[cfg(feature = "server")]
pub use door::{Door, Knock, QuicPath, QuicStream, Visit};
#[cfg(feature = "server")]
mod web;
#[cfg(feature = "server")]
pub use web::{Asked, Browser, Connect, PageRequest};
#[cfg(all(test, feature = "server"))]
mod tests;

/// 30 s: a connection on which nothing comes ends, as one does whose chunk does not leave for so long.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// 1 s: a viewer says so often that it is there, so that the address translators on its way remember it, and that a session
/// process which was started again can say that it knows nothing of it.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// 20 ms, taken for the round trip before one is measured: what of the handshake is lost is sent again after three of them. On a
/// longer path that is a packet or two too much; on one that loses packets it is what gets a viewer its QUIC before TCP stops waiting.
const RTT_INITIAL: Duration = Duration::from_millis(20);
/// 5 ms: longest time an acknowledgement may wait for another packet. It is part of every timer that notices loss at the end
/// of what was sent, where the letter stands that somebody has just typed.
const ACK_DELAY_MAX: Duration = Duration::from_millis(5);
/// 8 MiB: bytes of a session that a viewer has room for and has not read; more than any path here holds.
const VIEWER_ROOM_BYTES: u32 = 8 * 1024 * 1024;
/// 256 KiB: bytes of a viewer's that wait to leave or to be acknowledged.
const VIEWER_UNACKNOWLEDGED_BYTES: u64 = 256 * 1024;
/// Bytes of a stranger that are kept: two of the largest frames that one may say. What a viewer may have under way once it is let in.
#[cfg(feature = "server")]
const STRANGER_ROOM_BYTES: u32 = 8 * 1024;
#[cfg(feature = "server")]
const SESSION_ROOM_BYTES: u32 = 512 * 1024;
/// Streams that a browser opens: the request for its session of WebTransport and the one stream behind it, and, one way, those
/// of HTTP/3 itself, with room for such as it makes up to keep others awake (RFC 9114, 6.2 and 7.2.8). A native viewer opens one.
#[cfg(feature = "server")]
const BROWSER_STREAMS: u32 = 2;
#[cfg(feature = "server")]
const BROWSER_WAYS: u32 = 8;
/// 10 s: a page that rests says nothing for longer than some address translators on its way remember it; native viewers speak sooner.
#[cfg(feature = "server")]
const SESSION_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Viewer,
    #[cfg(feature = "server")]
    Session,
}

/// 16 KiB: datagrams that wait to leave. They are small and urgent, and what does not fit goes by the stream.
const DATAGRAMS_UNSENT_BYTES: usize = 16 * 1024;
/// Those that have come and were not read yet; past it the oldest is dropped, as the path does with others. A stranger's are not read.
const VIEWER_DATAGRAMS_BYTES: usize = 256 * 1024;
#[cfg(feature = "server")]
const SESSION_DATAGRAMS_BYTES: usize = 16 * 1024;

/// What an end wants of its connection. One stream, which the viewer opens, and datagrams beside it.
pub(crate) fn transport(end: End, delivery: Delivery) -> Arc<TransportConfig> {
    let mut acks = AckFrequencyConfig::default();
    // One that is missing is said at once: it is at the end of what was sent that a person waits for it.
    acks.max_ack_delay(Some(ACK_DELAY_MAX)).reordering_threshold(VarInt::from_u32(1));
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(Some(IDLE_MAX.try_into().expect("half a minute fits")))
        .initial_rtt(RTT_INITIAL)
        .ack_frequency_config(Some(acks))
        .datagram_send_buffer_size(DATAGRAMS_UNSENT_BYTES)
        .congestion_controller_factory(Arc::new(delivery));
    match end {
        End::Viewer => {
            config
                .max_concurrent_bidi_streams(VarInt::from_u32(0))
                .max_concurrent_uni_streams(VarInt::from_u32(0))
                .keep_alive_interval(Some(KEEP_ALIVE))
                .datagram_receive_buffer_size(Some(VIEWER_DATAGRAMS_BYTES))
                .stream_receive_window(VarInt::from_u32(VIEWER_ROOM_BYTES))
                .receive_window(VarInt::from_u32(VIEWER_ROOM_BYTES))
                .send_window(VIEWER_UNACKNOWLEDGED_BYTES);
        }
        #[cfg(feature = "server")]
        End::Session => {
            config
                .max_concurrent_bidi_streams(VarInt::from_u32(BROWSER_STREAMS))
                .max_concurrent_uni_streams(VarInt::from_u32(BROWSER_WAYS))
                .datagram_receive_buffer_size(Some(SESSION_DATAGRAMS_BYTES))
                .keep_alive_interval(Some(SESSION_KEEP_ALIVE))
                .stream_receive_window(VarInt::from_u32(SESSION_ROOM_BYTES))
                .receive_window(VarInt::from_u32(STRANGER_ROOM_BYTES));
        }
    }
    Arc::new(config)
}

/// Why a connection ended, as TCP would say it.
pub(crate) fn as_io(error: quinn::ConnectionError) -> io::Error {
    use quinn::ConnectionError::{ApplicationClosed, ConnectionClosed, LocallyClosed, Reset, TimedOut};
    let kind = match &error {
        // The other end's process closed it without ending its stream: for us it broke.
        ApplicationClosed(_) => return io::ErrorKind::UnexpectedEof.into(),
        ConnectionClosed(_) => io::ErrorKind::ConnectionAborted,
        Reset => io::ErrorKind::ConnectionReset,
        TimedOut => io::ErrorKind::TimedOut,
        LocallyClosed => io::ErrorKind::NotConnected,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}
