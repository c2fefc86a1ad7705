//! Path 10/13: between update.rs, with commands in the order in which they leave, and transport.
//! How a shell packs a connection's commands, and sends some of them alone; session-core counts what comes out.
//! Knows bytes; never what they say.

use thinc_protocol::session::Packed;

/// Packs a connection's commands, each stretch leaning on all before it. One for each viewer, for as long as it is there.
pub trait Packer {
    /// Appends the commands of the next update as they go on the wire. None, with nothing appended: as they are.
    fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed>;

    /// Longest frame that the transport takes now as a datagram, 0 for none: it may be lost, and goes ahead of all that waits. Asked
    /// only of connections that are [`Arrival::Mixed`](crate::Arrival::Mixed).
    fn datagram_bytes(&self) -> usize {
        0
    }

    /// Takes a frame that is no longer than that, or [`ASK`](thinc_protocol::session::ASK).
    fn put_datagram(&mut self, _frame: &[u8]) {}
}

/// Leaves all commands as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unpacked;

impl Packer for Unpacked {
    fn pack(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<Packed> {
        None
    }
}
