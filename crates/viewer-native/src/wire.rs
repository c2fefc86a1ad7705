//! Path 10/13: from client.rs, to transport or ssh.rs.
//! A connection's two halves for two threads, over a link (QUIC or TLS) or through ssh. Knows how
//! to end a connection; bytes pass through unread.

use std::io::{self, Read as _, Write};
use std::net::IpAddr;

use thinc_transport::Received;

use crate::ssh;

/// The reading half; blocks until bytes arrive.
#[derive(Debug)]
pub(crate) enum Reader {
    Link(Box<thinc_transport::Reader>),
    Ssh(ssh::Reader),
}

/// The writing half; blocks while the socket or pipe is full.
#[derive(Clone, Debug)]
pub(crate) enum Writer {
    Link(thinc_transport::Writer),
    Ssh(ssh::Writer),
}

impl Reader {
    /// Blocks until bytes or a datagram arrive.
    pub(crate) fn next(&mut self, into: &mut [u8]) -> io::Result<Received> {
        match self {
            Reader::Link(reader) => reader.receive(into),
            Reader::Ssh(reader) => reader.read(into).map(Received::Bytes),
        }
    }

    /// Bytes lost on the path since the last call that needed no retransmission.
    pub(crate) fn take_repaired(&mut self) -> u64 {
        match self {
            Reader::Link(reader) => reader.take_repaired(),
            Reader::Ssh(_) => 0,
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Writer::Link(writer) => writer.write(bytes),
            Writer::Ssh(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer {
    /// Sends a datagram, if the transport has datagrams and room for one.
    pub(crate) fn send_datagram(&self, bytes: &[u8]) {
        if let Writer::Link(writer) = self {
            writer.send_datagram(bytes);
        }
    }

    /// Over TCP: the address of this end. Of ssh's connection nothing is known.
    pub(crate) fn local_address(&self) -> Option<IpAddr> {
        match self {
            Writer::Link(writer) => writer.local_address(),
            Writer::Ssh(_) => None,
        }
    }

    /// Over TCP: segments of this end that the path has lost.
    pub(crate) fn lost_segments(&self) -> Option<u64> {
        match self {
            Writer::Link(writer) => writer.lost_segments(),
            Writer::Ssh(_) => None,
        }
    }

    /// Closes the connection in both directions; written bytes still arrive, and a `read` that
    /// blocks in another thread returns.
    pub(crate) fn close(&mut self) {
        match self {
            Writer::Link(writer) => writer.close(),
            Writer::Ssh(writer) => writer.close(),
        }
    }

    /// Closes an unresponsive connection: written bytes that have not arrived are dropped, so that
    /// no keystroke is delivered minutes later.
    pub(crate) fn abort(&mut self) {
        match self {
            Writer::Link(writer) => writer.abort(),
            Writer::Ssh(writer) => writer.abort(),
        }
    }
}
