//! Path 10/13, both kinds of it: two halves for two threads, a link's (QUIC or TLS) or through ssh.
//! From client.rs, to transport or ssh.rs. Knows how to end a connection; every byte passes through unread.

use std::io::{self, Read as _, Write};

use thinc_transport::Came;

use crate::ssh;

/// The half that reads; blocks until bytes come.
#[derive(Debug)]
pub(crate) enum Reader {
    Link(Box<thinc_transport::Reader>),
    Ssh(ssh::Reader),
}

/// The half that writes; blocks while what carries it on is full.
#[derive(Clone, Debug)]
pub(crate) enum Writer {
    Link(thinc_transport::Writer),
    Ssh(ssh::Writer),
}

impl Reader {
    /// Blocks until bytes come, or a datagram.
    pub(crate) fn next(&mut self, into: &mut [u8]) -> io::Result<Came> {
        match self {
            Reader::Link(reader) => reader.next(into),
            Reader::Ssh(reader) => reader.read(into).map(Came::Bytes),
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
    /// Sends something beside the stream, where there is such a way and room on it.
    pub(crate) fn send_datagram(&self, bytes: &[u8]) {
        if let Writer::Link(writer) = self {
            writer.send_datagram(bytes);
        }
    }

    /// Ends the connection both ways; what was written still arrives, and a `read` that waits in another thread returns.
    pub(crate) fn close(&mut self) {
        match self {
            Writer::Link(writer) => writer.close(),
            Writer::Ssh(writer) => writer.close(),
        }
    }

    /// The same over a path that has died: what was written and has not arrived is dropped, so that no key that was typed
    /// into the silence comes out of it minutes later.
    pub(crate) fn abort(&mut self) {
        match self {
            Writer::Link(writer) => writer.abort(),
            Writer::Ssh(writer) => writer.abort(),
        }
    }
}
