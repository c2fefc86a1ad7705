//! Path 10/13 over UDP: beside the stream, what goes alone. It may be lost, and goes ahead of all that waits.
//! From either end's shell, to quinn, which drops what it has no room for without a word: so nobody hands it more.
//! Knows lengths; never what the bytes mean.

use std::io;
use std::sync::Arc;

use super::as_io;
use crate::congestion::Meter;

/// The datagrams of one connection.
#[derive(Clone, Debug)]
pub struct Datagrams {
    connection: quinn::Connection,
    /// Counts what was handed over.
    meter: Option<Arc<Meter>>,
}

impl Datagrams {
    pub(crate) fn of(connection: &quinn::Connection, meter: Option<Arc<Meter>>) -> Datagrams {
        Datagrams { connection: connection.clone(), meter }
    }

    /// The other end takes them.
    pub fn are_taken(&self) -> bool {
        self.connection.max_datagram_size().is_some()
    }

    /// Longest that may be handed over now; 0 while as many wait as may.
    pub fn room(&self) -> usize {
        let longest = self.connection.max_datagram_size().unwrap_or(0);
        if self.connection.datagram_send_buffer_space() >= longest { longest } else { 0 }
    }

    /// Hands one over that is no longer than [`Datagrams::room`]. Whether it arrives, only the other end can say.
    pub fn send(&self, bytes: &[u8]) {
        // The path may have become narrower just now: that is a loss like any other.
        if self.connection.send_datagram(bytes.to_vec().into()).is_ok()
            && let Some(meter) = &self.meter
        {
            meter.written(bytes.len() as u64);
        }
    }

    /// Waits for the next.
    pub async fn receive(&self) -> io::Result<Vec<u8>> {
        self.connection.read_datagram().await.map(Vec::from).map_err(as_io)
    }
}
