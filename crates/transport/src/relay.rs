//! Path 10/13 through the broker: a QUIC connection that ends in the broker's front, as the session
//! process sees it. From the front's quic/listener.rs, to session-server's local.rs: the stream
//! over a Unix socket, datagrams over another, and what the front knows of the path in a file in
//! memory that the session reads whenever it decides how much to write. Knows numbers and lengths;
//! never what the bytes mean.
//!
//! What the session has written and the front has not taken yet counts as unacknowledged, so the
//! sockets between both never hold more than the path's window allows. Neither end trusts the
//! other's numbers: they only decide how much is sent to one viewer.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

use crate::congestion::Meter;
use crate::path::{Path, PathInfo, QuicShare, ShareTeller};
use crate::quic::Datagrams;

/// "thinc/r1": another layout has another first word. Front and session may be of two versions
/// while an upgrade is installed.
const MAGIC: u64 = u64::from_be_bytes(*b"thinc/r1");
/// Words of the file: the magic number, the figures, their checksum.
const WORDS: usize = 2 + Figures::COUNT;
/// Words behind them, which a session of an older version does not read: the connection's share of
/// the uplink, and that number mixed with the magic number, by which a reader knows both.
const SHARE_WORDS: usize = 2;
/// Bytes of the file.
const FILE_BYTES: usize = 8 * (WORDS + SHARE_WORDS);
/// A reader that meets a write repeats; a write takes less than a microsecond.
const READ_TRIES: usize = 16;
/// 1 TiB, a day of round trip: larger numbers of another process count as this, so that sums fit.
const NUMBER_MAX: u64 = 1 << 40;
/// The first byte of a packet: a datagram, or one that may leave although the window is full.
const DATAGRAM: u8 = 0;
const PROBE: u8 = 1;
/// Longest datagram of either end; QUIC's packets here have at most 1,452 bytes.
const DATAGRAM_BYTES_MAX: usize = 2048;

/// What the session is told, in bytes and microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    /// As in [`PathInfo`], of the front's end.
    unacknowledged: u64,
    delivered: u64,
    window: u64,
    rate: u64,
    rtt: u64,
    rtt_min: u64,
    /// Bytes of the stream that QUIC has accepted.
    taken: u64,
    /// Longest datagram.
    datagram_len_max: u64,
    /// Bytes of datagrams that wait to be sent, and that were taken from the session so far.
    datagrams_waiting: u64,
    datagrams_taken: u64,
    /// Packets sent, and lost.
    packets: u64,
    lost: u64,
}

impl Figures {
    const COUNT: usize = 12;

    fn words(&self) -> [u64; Figures::COUNT] {
        [
            self.unacknowledged,
            self.delivered,
            self.window,
            self.rate,
            self.rtt,
            self.rtt_min,
            self.taken,
            self.datagram_len_max,
            self.datagrams_waiting,
            self.datagrams_taken,
            self.packets,
            self.lost,
        ]
    }

    fn of(words: [u64; Figures::COUNT]) -> Figures {
        let [
            unacknowledged,
            delivered,
            window,
            rate,
            rtt,
            rtt_min,
            taken,
            datagram_len_max,
            datagrams_waiting,
            datagrams_taken,
            packets,
            lost,
        ] = words;
        Figures {
            unacknowledged: unacknowledged.min(NUMBER_MAX),
            delivered,
            window: window.min(NUMBER_MAX),
            rate: rate.min(NUMBER_MAX),
            rtt: rtt.min(NUMBER_MAX),
            rtt_min: rtt_min.min(NUMBER_MAX),
            taken,
            datagram_len_max: datagram_len_max.min(DATAGRAM_BYTES_MAX as u64),
            datagrams_waiting: datagrams_waiting.min(NUMBER_MAX),
            datagrams_taken,
            packets,
            lost: lost.min(packets),
        }
    }

    fn encode(&self) -> [u8; 8 * WORDS] {
        let mut bytes = [0; 8 * WORDS];
        let words = self.words();
        let all = std::iter::once(MAGIC).chain(words).chain([checksum(&words)]);
        for (to, word) in bytes.chunks_exact_mut(8).zip(all) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// `None`: a write was in progress, or this is another layout.
    fn decode(bytes: &[u8; 8 * WORDS]) -> Option<Figures> {
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(from.try_into().expect("it is a chunk of eight"));
        }
        let (head, rest) = words.split_first()?;
        let (sum, words) = rest.split_last()?;
        let words: [u64; Figures::COUNT] = words.try_into().ok()?;
        (*head == MAGIC && *sum == checksum(&words)).then(|| Figures::of(words))
    }
}

/// The share at the end of the file, if one was written; `None`: a write was in progress.
fn decode_share(bytes: &[u8; FILE_BYTES]) -> Option<Option<u64>> {
    let word = |at: usize| {
        let bytes = bytes[8 * at..8 * at + 8].try_into().expect("it is as long as a word");
        u64::from_ne_bytes(bytes)
    };
    let (share, check) = (word(WORDS), word(WORDS + 1));
    match (share, check) {
        (0, 0) => Some(None),
        (share, check) => {
            (share > 0 && check == checksum(&[share])).then(|| Some(share.min(NUMBER_MAX)))
        }
    }
}

/// Tells a block that was read while it was written; it protects against nothing else.
fn checksum(words: &[u64]) -> u64 {
    // The multiplier is that of Fibonacci hashing: 2^64 divided by the golden ratio.
    words
        .iter()
        .fold(MAGIC, |sum, word| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The front's end: what the session reads, kept beside the connection's meter.
#[derive(Debug)]
pub(crate) struct Publication {
    file: File,
    taken: AtomicU64,
    datagrams_waiting: AtomicU64,
    datagrams_taken: AtomicU64,
    datagram_len_max: AtomicU64,
    packets: AtomicU64,
    lost: AtomicU64,
    /// Bytes a second; 0 if there is no limit.
    share: AtomicU64,
}

impl Publication {
    fn new() -> io::Result<Publication> {
        let file = memfd_create("thinc-path", MemfdFlags::CLOEXEC)?;
        Ok(Publication {
            file: file.into(),
            taken: AtomicU64::new(0),
            datagrams_waiting: AtomicU64::new(0),
            datagrams_taken: AtomicU64::new(0),
            datagram_len_max: AtomicU64::new(0),
            packets: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            share: AtomicU64::new(0),
        })
    }

    /// QUIC has accepted so many bytes of the stream.
    pub(crate) fn add_taken(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A packet with so many bytes of content was sent: datagrams go first. True if any waited.
    pub(crate) fn handle_sent(&self, bytes: u64) -> bool {
        let waiting = self.datagrams_waiting.load(Ordering::Relaxed);
        self.datagrams_waiting.store(waiting.saturating_sub(bytes), Ordering::Relaxed);
        waiting > 0
    }

    /// Sets what only the connection itself tells.
    pub(crate) fn update(&self, datagrams: &Datagrams) {
        let (len_max, waiting) = datagrams.send_buffer();
        let (packets, lost) = datagrams.packets();
        self.datagram_len_max.store(len_max as u64, Ordering::Relaxed);
        self.datagrams_waiting.store(waiting as u64, Ordering::Relaxed);
        self.packets.store(packets, Ordering::Relaxed);
        self.lost.store(lost, Ordering::Relaxed);
    }

    /// Sets what the connection may send, in bytes a second.
    pub(crate) fn set_share(&self, share: u64) {
        self.share.store(share.max(1), Ordering::Relaxed);
    }

    /// Writes what the session reads; `path`: nothing before a round trip was measured.
    pub(crate) fn publish(&self, path: Option<PathInfo>) {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let mut figures = Figures {
            taken: read(&self.taken),
            datagram_len_max: read(&self.datagram_len_max),
            datagrams_waiting: read(&self.datagrams_waiting),
            datagrams_taken: read(&self.datagrams_taken),
            packets: read(&self.packets),
            lost: read(&self.lost),
            ..Figures::default()
        };
        if let Some(path) = path {
            figures.unacknowledged = path.unacknowledged;
            figures.delivered = path.delivered;
            figures.window = path.window;
            figures.rate = path.rate;
            figures.rtt = path.rtt;
            figures.rtt_min = path.rtt_min;
        }
        let mut bytes = [0; FILE_BYTES];
        let (block, behind) = bytes.split_at_mut(8 * WORDS);
        block.copy_from_slice(&figures.encode());
        let share = read(&self.share);
        if share > 0 {
            behind[..8].copy_from_slice(&share.to_ne_bytes());
            behind[8..].copy_from_slice(&checksum(&[share]).to_ne_bytes());
        }
        // A session that has forbidden it reads the last ones; it decides for one viewer only.
        let _ = self.file.write_all_at(&bytes, 0);
    }
}

/// The front's end of a relayed connection: its datagrams in both directions.
#[derive(Debug)]
pub struct Relay {
    datagrams: Datagrams,
    meter: Arc<Meter>,
    socket: UnixStream,
}

impl Relay {
    /// Begins to publish; the descriptors are for the session, with the first bytes of the stream.
    pub(crate) fn new(
        datagrams: Datagrams,
        meter: Arc<Meter>,
    ) -> io::Result<(Relay, [OwnedFd; 2])> {
        let publication = Publication::new()?;
        let figures = publication.file.as_fd().try_clone_to_owned()?;
        publication.update(&datagrams);
        meter.set_publication(publication);
        meter.publish();
        let (near, far) = packet_sockets()?;
        let socket = UnixStream::from_std(near.into())?;
        Ok((Relay { datagrams, meter, socket }, [figures, far]))
    }

    /// Where the session is told its share of the uplink.
    pub fn share_teller(&self) -> ShareTeller {
        ShareTeller::Quic(QuicShare(self.meter.clone()))
    }

    /// Forwards datagrams until the session has closed its end, or the connection has ended.
    /// `admits`: of so many bytes to the viewer, false if they are lost, as a path may lose any.
    ///
    /// # Errors
    /// Either of them broke, or the peer has sent what is no datagram of its session.
    pub async fn run(&self, admits: impl Fn(u64) -> bool) -> io::Result<()> {
        let to_viewer = async {
            while let Some(packet) = receive_packet(&self.socket).await? {
                let (kind, bytes) = (packet[0], &packet[1..]);
                let count = bytes.len() as u64;
                match kind {
                    _ if !admits(count) => {}
                    PROBE => self.datagrams.send_probe(bytes),
                    _ => self.datagrams.send(bytes),
                }
                let Some(publication) = self.meter.publication() else { continue };
                publication.datagrams_taken.fetch_add(count, Ordering::Relaxed);
                publication.update(&self.datagrams);
                self.meter.publish();
            }
            Ok(())
        };
        let to_session = async {
            loop {
                let datagram = self.datagrams.receive().await?;
                send_packet(&self.socket, DATAGRAM, &datagram)?;
            }
        };
        tokio::select! {
            result = to_viewer => result,
            result = to_session => result,
        }
    }
}

/// A socket pair whose packets stay apart. In an event loop only its type is that of a stream.
fn packet_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends a packet, or loses it if there is no room, as a path may lose any datagram.
fn send_packet(socket: &UnixStream, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut packet = [0; 1 + DATAGRAM_BYTES_MAX];
    let Some(rest) = packet.get_mut(1..=bytes.len()) else { return Ok(()) };
    rest.copy_from_slice(bytes);
    packet[0] = kind;
    match send(socket, &packet[..=bytes.len()], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The next packet, which is not empty; `None` once the other end is closed. Longer ones than any
/// datagram are lost.
async fn receive_packet(socket: &UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut packet = vec![0; 2 + DATAGRAM_BYTES_MAX];
    loop {
        let count = socket
            .async_io(Interest::READABLE, || {
                let (count, _) = recv(socket, &mut packet[..], RecvFlags::DONTWAIT)?;
                Ok(count)
            })
            .await?;
        match count {
            0 => return Ok(None),
            count if count < packet.len() => {
                packet.truncate(count);
                return Ok(Some(packet));
            }
            _ => {}
        }
    }
}

/// The session's end: what the front publishes.
#[derive(Debug)]
pub struct RelayedPath {
    file: File,
    /// Bytes of the stream that were handed to the kernel.
    written: AtomicU64,
}

impl RelayedPath {
    fn figures(&self) -> Option<Figures> {
        self.read().map(|(figures, _)| figures)
    }

    /// The figures, and the share of the uplink if the front sets one.
    fn read(&self) -> Option<(Figures, Option<u64>)> {
        (0..READ_TRIES).find_map(|_| {
            // A front of an older version writes no share.
            let mut bytes = [0; FILE_BYTES];
            let mut read = 0;
            while read < FILE_BYTES {
                match self.file.read_at(&mut bytes[read..], read as u64) {
                    Ok(0) => break,
                    Ok(count) => read += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return None,
                }
            }
            let block = bytes.first_chunk().expect("the file is longer");
            Some((Figures::decode(block)?, decode_share(&bytes)?))
        })
    }

    /// The statistics now; `None` before a round trip was measured.
    pub fn info(&self) -> Option<PathInfo> {
        let (figures, share) = self.read().filter(|(figures, _)| figures.rtt > 0)?;
        let not_taken = self.written.load(Ordering::Relaxed).saturating_sub(figures.taken);
        Some(PathInfo {
            unacknowledged: figures.unacknowledged + not_taken,
            delivered: figures.delivered,
            window: figures.window,
            rate: figures.rate,
            rtt: figures.rtt,
            rtt_min: figures.rtt_min,
            share,
        })
    }
}

/// The session's end of the datagrams.
#[derive(Debug)]
pub(crate) struct RelayedDatagrams {
    socket: UnixStream,
    path: Arc<RelayedPath>,
    /// Bytes of all that were sent.
    sent: AtomicU64,
}

impl RelayedDatagrams {
    /// Longest datagram, and bytes of those that wait.
    pub(crate) fn send_buffer(&self) -> (usize, usize) {
        let Some(figures) = self.path.figures() else { return (0, 0) };
        let not_taken = self.sent.load(Ordering::Relaxed).saturating_sub(figures.datagrams_taken);
        let waiting = figures.datagrams_waiting.saturating_add(not_taken);
        (figures.datagram_len_max as usize, waiting as usize)
    }

    pub(crate) fn packets(&self) -> (u64, u64) {
        self.path.figures().map_or((0, 0), |figures| (figures.packets, figures.lost))
    }

    pub(crate) fn send(&self, bytes: &[u8], is_probe: bool) {
        let kind = if is_probe { PROBE } else { DATAGRAM };
        // One that cannot be sent is lost; the end of a connection is reported on its stream.
        if send_packet(&self.socket, kind, bytes).is_ok() {
            self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }

    pub(crate) async fn receive(&self) -> io::Result<Vec<u8>> {
        let mut packet = receive_packet(&self.socket).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        packet.remove(0);
        Ok(packet)
    }
}

/// The stream, the statistics of its path, and the connection's datagrams.
pub type RelayedParts = (RelayedStream, Path, Datagrams);

/// The session's end of the stream. It counts what the kernel has accepted.
#[derive(Debug)]
pub struct RelayedStream {
    stream: UnixStream,
    path: Arc<RelayedPath>,
}

impl RelayedStream {
    /// Of a stream with whose first bytes these descriptors have come.
    pub fn new(stream: UnixStream, [figures, socket]: [OwnedFd; 2]) -> io::Result<RelayedParts> {
        let path = Arc::new(RelayedPath { file: figures.into(), written: AtomicU64::new(0) });
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        let datagrams = RelayedDatagrams { socket, path: path.clone(), sent: AtomicU64::new(0) };
        let datagrams = Datagrams::relayed(datagrams);
        Ok((RelayedStream { stream, path: path.clone() }, Path::Relayed(path), datagrams))
    }
}

impl AsyncRead for RelayedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl AsyncWrite for RelayedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        let count = ready!(Pin::new(&mut stream.stream).poll_write(context, bytes))?;
        stream.path.written.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        Figures::of(std::array::from_fn(|at| at as u64 + 1))
    }

    fn socket_pair() -> (UnixStream, UnixStream) {
        let (near, far) = packet_sockets().unwrap();
        let socket = |socket: OwnedFd| UnixStream::from_std(socket.into()).unwrap();
        (socket(near), socket(far))
    }

    fn path() -> (Publication, RelayedPath) {
        let publication = Publication::new().unwrap();
        let file = publication.file.try_clone().unwrap();
        (publication, RelayedPath { file, written: AtomicU64::new(0) })
    }

    #[test]
    fn a_block_that_is_half_written_or_of_another_version_is_not_read() {
        let bytes = figures().encode();
        assert_eq!(Figures::decode(&bytes), Some(figures()));
        let other = Figures { rtt: 77, taken: 1, ..figures() }.encode();
        for at in 1..bytes.len() {
            let mut torn = bytes;
            torn[at..].copy_from_slice(&other[at..]);
            if torn != bytes && torn != other {
                assert_eq!(Figures::decode(&torn), None, "torn at {at}");
            }
        }
        let mut next_version = bytes;
        next_version[0] ^= 1;
        assert_eq!(Figures::decode(&next_version), None);
    }

    #[test]
    fn numbers_of_the_other_process_cannot_overflow() {
        let (publication, path) = path();
        let absurd = Figures::of([u64::MAX; Figures::COUNT]);
        publication.file.write_all_at(&absurd.encode(), 0).unwrap();
        path.written.store(u64::MAX, Ordering::Relaxed);
        let info = path.info().unwrap();
        assert_eq!((info.window, info.rtt), (NUMBER_MAX, NUMBER_MAX));
        publication.file.set_len(0).unwrap();
        assert_eq!(path.info(), None, "and without a file nothing is known");
    }

    #[test]
    fn what_the_front_has_not_taken_is_unacknowledged() {
        let (publication, path) = path();
        assert_eq!(path.info(), None);
        publication.publish(None);
        assert_eq!(path.info(), None, "no round trip was measured");
        let measured = PathInfo {
            unacknowledged: 500,
            delivered: 10,
            window: 3000,
            rate: 40,
            rtt: 50,
            rtt_min: 45,
            share: None,
        };
        publication.add_taken(600);
        publication.publish(Some(measured));
        path.written.store(1000, Ordering::Relaxed);
        assert_eq!(path.info(), Some(PathInfo { unacknowledged: 900, ..measured }));
    }

    #[test]
    fn a_share_is_read_once_the_front_sets_one_and_no_half_of_it() {
        let (publication, path) = path();
        let measured = PathInfo {
            unacknowledged: 500,
            delivered: 10,
            window: 3000,
            rate: 40,
            rtt: 50,
            rtt_min: 45,
            share: None,
        };
        publication.publish(Some(measured));
        assert_eq!(path.info(), Some(measured));
        publication.set_share(2_500_000);
        publication.publish(Some(measured));
        assert_eq!(path.info(), Some(PathInfo { share: Some(2_500_000), ..measured }));
        publication.file.write_all_at(&[7], 8 * WORDS as u64).unwrap();
        assert_eq!(path.info(), None, "a write is in progress");
        // As a front of an older version leaves it.
        publication.file.set_len(8 * WORDS as u64).unwrap();
        assert_eq!(path.info(), Some(measured));
    }

    #[tokio::test]
    async fn datagrams_that_wait_in_either_process_are_counted() {
        let (publication, path) = path();
        let (near, far) = socket_pair();
        let session =
            RelayedDatagrams { socket: far, path: Arc::new(path), sent: AtomicU64::new(0) };
        assert_eq!(session.send_buffer(), (0, 0), "nothing is known yet");
        publication.datagram_len_max.store(1200, Ordering::Relaxed);
        publication.publish(None);
        session.send(&[7; 100], false);
        session.send(&[8; 50], true);
        assert_eq!(session.send_buffer(), (1200, 150));
        let first = receive_packet(&near).await.unwrap().unwrap();
        assert_eq!((first[0], first.len()), (DATAGRAM, 101));
        publication.datagrams_taken.store(100, Ordering::Relaxed);
        publication.datagrams_waiting.store(100, Ordering::Relaxed);
        publication.publish(None);
        assert_eq!(session.send_buffer(), (1200, 150), "it waits elsewhere now");
        assert!(publication.handle_sent(60));
        publication.publish(None);
        assert_eq!(session.send_buffer(), (1200, 90));
        assert!(publication.handle_sent(60) && !publication.handle_sent(60));
        let probe = receive_packet(&near).await.unwrap().unwrap();
        assert_eq!((probe[0], probe.len()), (PROBE, 51));
    }

    #[tokio::test]
    async fn packets_that_are_too_long_or_too_many_are_lost() {
        let (near, far) = socket_pair();
        send_packet(&near, DATAGRAM, &[0; DATAGRAM_BYTES_MAX + 1]).unwrap();
        send(&near, &[0; DATAGRAM_BYTES_MAX + 2], SendFlags::NOSIGNAL).unwrap();
        send_packet(&near, DATAGRAM, &[3; DATAGRAM_BYTES_MAX]).unwrap();
        let packet = receive_packet(&far).await.unwrap().unwrap();
        assert_eq!(packet.len(), 1 + DATAGRAM_BYTES_MAX);
        for _ in 0..10_000 {
            send_packet(&near, DATAGRAM, &[0; DATAGRAM_BYTES_MAX]).unwrap();
        }
        drop(near);
        while receive_packet(&far).await.unwrap().is_some() {}
    }
}
