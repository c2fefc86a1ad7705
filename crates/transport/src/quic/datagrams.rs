//! Path 10/13 over UDP: beside the stream, what goes alone. It may be lost, and goes ahead of all that waits.
//! From either end's shell, to quinn, which drops what it has no room for without a word: so nobody hands it more.
//! Knows lengths, and in HTTP/3 whose they are; never what the bytes mean.

use std::io;
use std::sync::Arc;

use quinn::VarInt;
use quinn_proto::StreamId;
use quinn_proto::coding::Codec as _;

use super::as_io;
use crate::congestion::Meter;

/// RFC 9297, 5.2: a datagram of HTTP/3 does not say whose it is.
const H3_DATAGRAM_ERROR: VarInt = VarInt::from_u32(0x33);
/// Session numbers are below it (2.1): a quarter of those that streams have.
const SESSIONS_MAX: u64 = 1 << 60;

/// The datagrams of one connection.
#[derive(Clone, Debug)]
pub struct Datagrams {
    connection: quinn::Connection,
    /// Counts what was handed over.
    meter: Option<Arc<Meter>>,
    /// Of HTTP/3, whose session they are of stands before each.
    session: Option<VarInt>,
    head: Vec<u8>,
}

impl Datagrams {
    pub(crate) fn of(connection: &quinn::Connection, meter: Option<Arc<Meter>>) -> Datagrams {
        Datagrams { connection: connection.clone(), meter, session: None, head: Vec::new() }
    }

    /// Of the session that was asked for by this stream (RFC 9297, 2.1).
    pub(super) fn of_session(self, asked_by: StreamId) -> Datagrams {
        // A quarter, as a browser opens every fourth of all streams: those that it may send on and be answered.
        let session = VarInt::from_u64(asked_by.index()).expect("streams have no larger numbers");
        let mut head = Vec::new();
        session.encode(&mut head);
        Datagrams { session: Some(session), head, ..self }
    }

    /// The other end takes them.
    pub fn are_taken(&self) -> bool {
        self.connection.max_datagram_size().is_some()
    }

    /// Longest that may be handed over now; 0 while as many wait as may.
    pub fn room(&self) -> usize {
        let longest = self.connection.max_datagram_size().unwrap_or(0);
        let has_space = self.connection.datagram_send_buffer_space() >= longest;
        if has_space { longest.saturating_sub(self.head.len()) } else { 0 }
    }

    /// Hands one over that is no longer than [`Datagrams::room`]. Whether it arrives, only the other end can say.
    pub fn send(&self, bytes: &[u8]) {
        // The path may have become narrower just now: that is a loss like any other.
        let datagram = [&self.head, bytes].concat();
        let count = datagram.len() as u64;
        if self.connection.send_datagram(datagram.into()).is_ok()
            && let Some(meter) = &self.meter
        {
            meter.written(count);
        }
    }

    /// The same with one that asks whether the path carries: it goes though as much is under way as may be.
    pub fn ask(&self, bytes: &[u8]) {
        if let Some(meter) = &self.meter {
            meter.ask();
        }
        self.send(bytes);
    }

    /// Waits for the next.
    ///
    /// # Errors
    /// How the connection ended, which it does with one that says of no session whether it is its.
    pub async fn receive(&self) -> io::Result<Vec<u8>> {
        loop {
            let mut datagram = self.connection.read_datagram().await.map_err(as_io)?;
            let Some(session) = self.session else { return Ok(datagram.into()) };
            match VarInt::decode(&mut datagram).map(VarInt::into_inner) {
                Ok(number) if number == session.into_inner() => return Ok(datagram.into()),
                // Of one that is over, or was never asked for.
                Ok(..SESSIONS_MAX) => {}
                _ => {
                    let words = "a datagram of no session";
                    self.connection.close(H3_DATAGRAM_ERROR, words.as_bytes());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, words));
                }
            }
        }
    }
}
