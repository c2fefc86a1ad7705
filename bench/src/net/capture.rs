//! What each end sent and received, as pcap files that Wireshark and tcpdump read. Beside the path,
//! from wire.rs: its threads pass copies on and never wait for the disk. Knows times and bytes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::Error;
use crate::net::testbed::Side;

/// Packets that may wait for the disk: 0.1 s of full packets at 1 Gbit/s. A packet that does not
/// fit is counted and missing in the file; the link is never slowed.
const WAITING_MAX: usize = 16384;

/// Bytes of a file's head and of a packet's.
const FILE_HEAD_BYTES: usize = 24;
const PACKET_HEAD_BYTES: usize = 16;

/// The link type of a file whose packets begin with their IP header (LINKTYPE_RAW).
const LINKTYPE_RAW: u32 = 101;

struct Record {
    side: Side,
    at: Instant,
    packet: Vec<u8>,
}

/// A running capture.
pub(crate) struct Capture {
    sender: SyncSender<Record>,
    missed: AtomicU64,
}

/// The result of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Packets in both files.
    pub packets: u64,
    /// Packets that the disk was too slow for.
    pub missed: u64,
}

/// The writing thread; it ends when every [`Capture`] of it was dropped.
pub(crate) type Writer = JoinHandle<std::io::Result<u64>>;

impl Capture {
    /// Begins `server.pcap` and `client.pcap` in `folder`.
    pub(crate) fn start(folder: &Path) -> Result<(Capture, Writer), Error> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let open = |name: &str| {
            let path = folder.join(name);
            let mut file = BufWriter::with_capacity(
                1 << 20,
                File::create(&path).map_err(|e| (path.clone(), e))?,
            );
            file.write_all(&file_head()).map_err(|e| (path, e))?;
            Ok(file)
        };
        let words =
            |(path, e): (std::path::PathBuf, std::io::Error)| format!("{}: {e}", path.display());
        let (server, client) =
            (open("server.pcap").map_err(words)?, open("client.pcap").map_err(words)?);
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let writer = std::thread::Builder::new()
            .name("capture".into())
            .spawn(|| write(receiver, server, client))?;
        Ok((Capture { sender, missed: AtomicU64::new(0) }, writer))
    }

    /// Copies a packet that `side` sent or received.
    pub(crate) fn handle_packet(&self, side: Side, at: Instant, packet: &[u8]) {
        match self.sender.try_send(Record { side, at, packet: packet.to_vec() }) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.missed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Packets that the disk was too slow for.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }
}

fn write(
    receiver: Receiver<Record>,
    mut server: BufWriter<File>,
    mut client: BufWriter<File>,
) -> std::io::Result<u64> {
    // Steps of the system's clock during a capture do not reach the files.
    let begun = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let mut packets = 0;
    for record in receiver {
        let since_epoch = match record.at.checked_duration_since(begun.0) {
            Some(after) => begun.1 + after,
            None => begun.1.saturating_sub(begun.0 - record.at),
        };
        let file = match record.side {
            Side::Server => &mut server,
            Side::Client => &mut client,
        };
        let len = record.packet.len() as u32;
        file.write_all(&packet_head(since_epoch, len))?;
        file.write_all(&record.packet)?;
        packets += 1;
    }
    server.flush()?;
    client.flush()?;
    Ok(packets)
}

/// ```text
/// 0: magic a1b23c4d (times in nanoseconds)   4: version 2.4   8: zone, 0
/// 12: accuracy, 0   16: longest packet   20: link type
/// ```
/// in the machine's byte order, which the magic tells.
fn file_head() -> [u8; FILE_HEAD_BYTES] {
    let mut head = [0; FILE_HEAD_BYTES];
    head[0..4].copy_from_slice(&0xa1b2_3c4d_u32.to_ne_bytes());
    head[4..6].copy_from_slice(&2u16.to_ne_bytes());
    head[6..8].copy_from_slice(&4u16.to_ne_bytes());
    head[16..20].copy_from_slice(&65535u32.to_ne_bytes());
    head[20..24].copy_from_slice(&LINKTYPE_RAW.to_ne_bytes());
    head
}

/// ```text
/// 0: seconds   4: nanoseconds   8: bytes that follow   12: bytes of the packet
/// ```
fn packet_head(since_epoch: std::time::Duration, len: u32) -> [u8; PACKET_HEAD_BYTES] {
    let mut head = [0; PACKET_HEAD_BYTES];
    // Valid until 2106, like the format.
    head[0..4].copy_from_slice(&(since_epoch.as_secs() as u32).to_ne_bytes());
    head[4..8].copy_from_slice(&since_epoch.subsec_nanos().to_ne_bytes());
    head[8..12].copy_from_slice(&len.to_ne_bytes());
    head[12..16].copy_from_slice(&len.to_ne_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Folder;

    #[test]
    fn files_hold_what_each_end_saw() {
        let folder = Folder::new("capture-test").unwrap();
        let (capture, writer) = Capture::start(folder.path()).unwrap();
        let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
        let begun = seconds();
        capture.handle_packet(Side::Server, Instant::now(), &[0x45; 60]);
        capture.handle_packet(Side::Client, Instant::now(), &[0x45; 40]);
        capture.handle_packet(Side::Client, Instant::now(), &[0x45; 41]);
        assert_eq!(capture.missed(), 0);
        drop(capture);
        assert_eq!(writer.join().unwrap().unwrap(), 3);
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert_eq!(read("server.pcap").len(), FILE_HEAD_BYTES + PACKET_HEAD_BYTES + 60);
        let client = read("client.pcap");
        assert_eq!(client.len(), FILE_HEAD_BYTES + PACKET_HEAD_BYTES + 40 + PACKET_HEAD_BYTES + 41);
        let word = |at: usize| u32::from_ne_bytes(client[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(20), word(24 + 8)), (0xa1b2_3c4d, 101, 40));
        let ended = seconds();
        assert!((begun - 60..=ended + 60).contains(&word(24)), "{} s", word(24));
        assert!(word(28) < 1_000_000_000, "{}", word(28));
    }
}
