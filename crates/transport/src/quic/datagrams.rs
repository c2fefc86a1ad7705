//! Path 10/13 over UDP: datagrams, beside the stream. They may be lost, and are sent ahead of all
//! stream data that waits.
//! From either end's shell, to quinn, which silently drops what its buffer has no room for: callers
//! check [`Datagrams::max_len`] first. Knows lengths, and in HTTP/3 the session ID; never what the
//! bytes mean.

use std::io;
use std::sync::Arc;

use quinn::VarInt;
#[cfg(feature = "server")]
use quinn_proto::StreamId;
use quinn_proto::coding::Codec as _;

use super::{DATAGRAM_QUEUE_BYTES, DATAGRAM_SEND_BUFFER_BYTES, as_io};
use crate::congestion::Meter;
#[cfg(feature = "server")]
use crate::relay::RelayedDatagrams;

/// RFC 9297, 5.2: an HTTP/3 datagram has no valid session ID.
const H3_DATAGRAM_ERROR: VarInt = VarInt::from_u32(0x33);
/// Quarter stream IDs are below it (RFC 9297, 2.1).
const SESSION_IDS_MAX: u64 = 1 << 60;
/// Longest variable-length integer (RFC 9000, 16).
const SESSION_PREFIX_BYTES_MAX: usize = 8;

/// The datagrams of one connection.
#[derive(Clone, Debug)]
pub struct Datagrams(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Of a connection of this process.
    Own(Own),
    /// Of a connection that the broker's front forwards.
    #[cfg(feature = "server")]
    Relayed(Arc<RelayedDatagrams>),
}

#[derive(Clone, Debug)]
struct Own {
    connection: quinn::Connection,
    /// Counts the bytes that were handed to quinn.
    meter: Option<Arc<Meter>>,
    /// In HTTP/3 the session ID stands before each datagram's content.
    session: Option<VarInt>,
    session_prefix: Vec<u8>,
}

impl Own {
    /// Longest datagram; `None` if the peer accepts none.
    fn len_max(&self) -> Option<usize> {
        let longest = self.connection.max_datagram_size()?;
        Some(longest.saturating_sub(self.session_prefix.len()))
    }

    fn waiting(&self) -> usize {
        DATAGRAM_SEND_BUFFER_BYTES.saturating_sub(self.connection.datagram_send_buffer_space())
    }

    fn send(&self, bytes: &[u8]) {
        // A path whose MTU has just shrunk makes this fail, which is a loss like any other.
        let datagram = [&self.session_prefix, bytes].concat();
        let count = datagram.len() as u64;
        if self.connection.send_datagram(datagram.into()).is_ok()
            && let Some(meter) = &self.meter
        {
            meter.add_unsent(count);
        }
    }

    async fn receive(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut datagram = self.connection.read_datagram().await.map_err(as_io)?;
            let Some(session) = self.session else { return Ok(datagram.into()) };
            match VarInt::decode(&mut datagram).map(VarInt::into_inner) {
                Ok(number) if number == session.into_inner() => return Ok(datagram.into()),
                // Of a session that is over or was never requested.
                Ok(..SESSION_IDS_MAX) => {}
                _ => {
                    let reason = "a datagram without a session ID";
                    self.connection.close(H3_DATAGRAM_ERROR, reason.as_bytes());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
            }
        }
    }
}

impl Datagrams {
    pub(crate) fn of(connection: &quinn::Connection, meter: Option<Arc<Meter>>) -> Datagrams {
        let connection = connection.clone();
        Datagrams(Kind::Own(Own { connection, meter, session: None, session_prefix: Vec::new() }))
    }

    /// Datagrams of the WebTransport session that was requested on this stream (RFC 9297, 2.1).
    #[cfg(feature = "server")]
    pub(super) fn of_session(
        connection: &quinn::Connection,
        meter: Arc<Meter>,
        request_stream: StreamId,
    ) -> Datagrams {
        // The quarter stream ID: a client's bidirectional streams have every fourth ID.
        let session =
            VarInt::from_u64(request_stream.index()).expect("streams have no larger numbers");
        let mut session_prefix = Vec::new();
        session.encode(&mut session_prefix);
        let (connection, meter) = (connection.clone(), Some(meter));
        Datagrams(Kind::Own(Own { connection, meter, session: Some(session), session_prefix }))
    }

    #[cfg(feature = "server")]
    pub(crate) fn relayed(datagrams: RelayedDatagrams) -> Datagrams {
        Datagrams(Kind::Relayed(Arc::new(datagrams)))
    }

    /// The peer accepts datagrams.
    pub fn are_supported(&self) -> bool {
        match &self.0 {
            Kind::Own(own) => own.len_max().is_some(),
            #[cfg(feature = "server")]
            Kind::Relayed(relayed) => relayed.send_buffer().0 > 0,
        }
    }

    /// Longest datagram, 0 if the peer accepts none; and bytes of datagrams that wait to be sent.
    pub(crate) fn send_buffer(&self) -> (usize, usize) {
        match &self.0 {
            Kind::Own(own) => (own.len_max().unwrap_or(0), own.waiting()),
            #[cfg(feature = "server")]
            Kind::Relayed(relayed) => relayed.send_buffer(),
        }
    }

    /// Longest datagram that can be sent now; 0 while so many wait that an update had better be
    /// sent on the stream.
    pub fn max_len(&self) -> usize {
        self.max_len_beside(DATAGRAM_QUEUE_BYTES)
    }

    /// The same for parities, which may fill the whole send buffer.
    pub fn parity_max_len(&self) -> usize {
        self.max_len_beside(DATAGRAM_SEND_BUFFER_BYTES)
    }

    /// Longest datagram that can be sent if at most so many bytes may wait.
    fn max_len_beside(&self, queue: usize) -> usize {
        let (longest, waiting) = self.send_buffer();
        if waiting + longest + SESSION_PREFIX_BYTES_MAX <= queue { longest } else { 0 }
    }

    /// Packets that were sent, and that were lost, since the connection began.
    pub fn packets(&self) -> (u64, u64) {
        match &self.0 {
            Kind::Own(own) => {
                let path = own.connection.stats().path;
                (path.sent_packets, path.lost_packets)
            }
            #[cfg(feature = "server")]
            Kind::Relayed(relayed) => relayed.packets(),
        }
    }

    /// Sends a datagram of at most [`Datagrams::max_len`] bytes. Only the peer can tell whether it
    /// arrives.
    pub fn send(&self, bytes: &[u8]) {
        match &self.0 {
            Kind::Own(own) => own.send(bytes),
            #[cfg(feature = "server")]
            Kind::Relayed(relayed) => relayed.send(bytes, false),
        }
    }

    /// Sends a probe: a datagram that may leave although the congestion window is full.
    pub fn send_probe(&self, bytes: &[u8]) {
        match &self.0 {
            Kind::Own(own) => {
                own.meter.iter().for_each(|meter| meter.allow_probe());
                own.send(bytes);
            }
            #[cfg(feature = "server")]
            Kind::Relayed(relayed) => relayed.send(bytes, true),
        }
    }

    /// Waits for the next datagram.
    ///
    /// # Errors
    /// How the connection ended. A datagram without a valid session ID ends it.
    pub async fn receive(&self) -> io::Result<Vec<u8>> {
        match &self.0 {
            Kind::Own(own) => own.receive().await,
            #[cfg(feature = "server")]
            Kind::Relayed(relayed) => relayed.receive().await,
        }
    }
}
