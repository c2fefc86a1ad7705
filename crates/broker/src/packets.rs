//! Packets with descriptors over a socket pair. Beside the path: used by every process of the
//! broker, between each two. Knows sockets; never what a packet means.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Most descriptors of one packet: those that a front is started with.
pub(crate) const DESCRIPTORS_MAX: usize = 1 + 2 * crate::port::LISTEN_MAX;

/// Both ends of a new socket pair. One packet is one message; the kernel keeps them apart.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// What was received; no bytes mean that the other end is closed.
#[derive(Debug)]
pub(crate) struct Packet {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// The descriptors that came along.
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Sends a packet, which must not be empty.
pub(crate) fn send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send_with(socket, bytes, descriptors, SendFlags::NOSIGNAL)
}

/// As [`send`]; an error if that would wait, whatever other processes do with the socket.
pub(crate) fn try_send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send_with(socket, bytes, descriptors, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    assert!(!bytes.is_empty(), "an empty packet would look like the end");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "there is room for {DESCRIPTORS_MAX}");
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
    Ok(())
}

/// Receives a packet of at most `max` bytes; a longer one is an error.
pub(crate) fn receive(socket: impl AsFd, max: usize) -> io::Result<Packet> {
    let mut bytes = vec![0; max + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let received = loop {
        match recvmsg(&socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let descriptors = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes > max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is too long"));
    }
    bytes.truncate(received.bytes);
    Ok(Packet { bytes, descriptors })
}

/// One end of a socket pair in an event loop. Only the type is that of a stream: the socket keeps
/// packets apart all the same.
#[derive(Debug)]
pub(crate) struct Channel(UnixStream);

impl Channel {
    /// Makes the socket nonblocking, for all who share it.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Channel> {
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Channel(UnixStream::from_std(socket)?))
    }

    /// As [`send`]; waits while the other end is full.
    pub(crate) async fn send(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, || send(&self.0, bytes, descriptors)).await
    }

    /// As [`send`], and an error if the other end is full.
    pub(crate) fn try_send(&self, bytes: &[u8]) -> io::Result<()> {
        send(&self.0, bytes, &[])
    }

    /// As [`receive`].
    pub(crate) async fn receive(&self, max: usize) -> io::Result<Packet> {
        self.0.async_io(Interest::READABLE, || receive(&self.0, max)).await
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[tokio::test]
    async fn packets_stay_apart_and_carry_descriptors() {
        let (near, far) = pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&near, b"first", &[writer.as_fd()]).unwrap();
        send(&near, b"second", &[]).unwrap();
        let far = Channel::new(far).unwrap();
        let first = far.receive(16).await.unwrap();
        drop(writer);
        assert_eq!(first.bytes, b"first");
        std::fs::File::from(first.descriptors.into_iter().next().unwrap()).write_all(b"x").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert_eq!(far.receive(6).await.unwrap().bytes, b"second");
        send(&near, b"seventh", &[]).unwrap();
        assert!(far.receive(6).await.is_err(), "it has 7 bytes");
        drop(near);
        assert_eq!(far.receive(6).await.unwrap().bytes, b"");
    }
}
