//! Path 10/13: between ledger.rs, with commands in the order in which they are sent, and transport.
//! How a shell packs a connection's commands and sends some as datagrams; session-core counts the
//! resulting bytes. Knows bytes; never what they mean.

use thinc_protocol::session::Packed;

/// Packs a connection's commands, each update using all before it as history. One for each viewer,
/// for the life of its connection.
pub trait Packer {
    /// Appends the commands of the next update in the form for the wire. None, with nothing
    /// appended: they are sent as they are.
    fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed>;

    /// Longest message that the transport takes now as a datagram, 0 for none: it may be lost, and
    /// overtakes everything that waits. Only called for connections that are
    /// [`DeliveryOrder::Mixed`](crate::DeliveryOrder::Mixed).
    fn datagram_bytes(&self) -> usize {
        0
    }

    /// Sends a message of at most that length, or [`PROBE`](thinc_protocol::session::PROBE), as a
    /// datagram.
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
