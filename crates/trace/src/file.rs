//! The file: a head, then chunks, each with its lengths and a checksum before one zstd frame of
//! whole events. From event.rs, to a stream of bytes; and back. doc/trace.md has the byte layout.
//! Knows lengths and limits; never what an event means.

use std::io::{self, Read, Write};

use thinc_ring::ABI_VERSION;
use xxhash_rust::xxh3::xxh3_64;
use zstd_safe::{CCtx, CParameter, DCtx};

use crate::event::{BODY_BYTES_MAX, EVENT_HEAD_BYTES, Event, EventError, EventReader};

/// The first bytes of every trace.
pub const MAGIC: &[u8; 8] = b"THINCTRC";
const VERSION: u32 = 1;
/// Version of the records before those of XVideo frames named their place; all others are the same.
const ABI_BEFORE_VIDEO: u32 = 2;
/// Version of the same records, before the cursor block said what X clients do with the pointer.
const ABI_BEFORE_POINTER_USE: u32 = 4;
/// Version of the same records, before the session said at which rate frames are taken.
const ABI_BEFORE_FRAME_RATE: u32 = 5;
/// Version of the same records, before there were gamma tables and pens.
const ABI_BEFORE_GAMMA_AND_PENS: u32 = 6;
/// Version of the same records, before there were stereo frames.
const ABI_BEFORE_STEREO: u32 = 7;
const HEAD_BYTES: usize = 24;
const CHUNK_HEAD_BYTES: usize = 16;
const FLAG_REDACTED: u32 = 1;
const FLAG_COLORS_KEPT: u32 = 2;

/// 1 MiB: uncompressed size at which events are written as a chunk.
const CHUNK_BYTES: usize = 1024 * 1024;
/// Longest uncompressed chunk: the waiting events and the one that exceeds CHUNK_BYTES.
const CHUNK_BYTES_MAX: usize = CHUNK_BYTES + EVENT_HEAD_BYTES + BODY_BYTES_MAX;
/// The library's default: 200 MB/s and more on one core, and pixels shrink to a tenth.
const ZSTD_LEVEL: i32 = 3;

/// The flags of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// It contains no screen content, see [`crate::Redactor`].
    pub redacted: bool,
    /// It does contain the colours of plain areas.
    pub colors_kept: bool,
}

/// Where a file cannot be read, and why. Everything before is valid.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}: {why}")]
pub struct TraceError {
    /// Offset in the file.
    pub offset: u64,
    /// Why.
    pub why: Unreadable,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Another kind of file.
    #[error("this is not a trace of thinc")]
    NotATrace,
    /// Written by a newer or older thinc.
    #[error("the trace has format {0}; this thinc reads format {VERSION}")]
    Version(u32),
    /// Its records have another version of the ABI.
    #[error(
        "its records have version {0} of the driver's ABI; this thinc reads {ABI_BEFORE_VIDEO}, \
            {ABI_BEFORE_POINTER_USE} to {ABI_VERSION}"
    )]
    Abi(u32),
    /// The file ends too early.
    #[error("the file ends in the middle of {0}")]
    Cut(&'static str),
    /// The file ends after a chunk, but without an end event.
    #[error("the recording is incomplete: it has no end")]
    NoEnd,
    /// A chunk has a length that no writer produces.
    #[error("a chunk has invalid lengths: {packed} bytes packed, {unpacked} unpacked")]
    Lengths {
        /// Its value.
        packed: u32,
        /// Its value.
        unpacked: u32,
    },
    /// Bytes have changed since they were written.
    #[error("a chunk is damaged: its checksum differs")]
    Damaged,
    /// The checksum is right, but the contents cannot be unpacked.
    #[error("a chunk cannot be unpacked")]
    Packing,
    /// Bytes are not an event.
    #[error("{error} (at byte {at} of the unpacked chunk)")]
    Event {
        /// Offset in the unpacked chunk.
        at: usize,
        /// Why.
        error: EventError,
    },
    /// Data follows the end.
    #[error("data follows the end")]
    AfterEnd,
    /// Reading failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Writes a trace.
pub struct Writer<W> {
    out: W,
    waiting: Vec<u8>,
    packed: Vec<u8>,
    zstd: CCtx<'static>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors Of the stream, as for all other functions.
    pub fn new(mut out: W, head: &Head) -> io::Result<Writer<W>> {
        let flags = [(head.redacted, FLAG_REDACTED), (head.colors_kept, FLAG_COLORS_KEPT)];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag);
        let mut bytes = MAGIC.to_vec();
        [VERSION, ABI_VERSION, flags, 0]
            .iter()
            .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        out.write_all(&bytes)?;
        let mut zstd = CCtx::create();
        let set = zstd.set_parameter(CParameter::CompressionLevel(ZSTD_LEVEL));
        assert!(set.is_ok(), "zstd supports level {ZSTD_LEVEL}");
        Ok(Writer { out, waiting: Vec::new(), packed: Vec::new(), zstd })
    }

    /// Adds an event; it may be written later.
    ///
    /// # Errors Of the stream.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        event.encode(&mut self.waiting);
        if self.waiting.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes all waiting events.
    ///
    /// # Errors Of the stream.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.packed.resize(CHUNK_HEAD_BYTES + zstd_safe::compress_bound(self.waiting.len()), 0);
        let packed = self
            .zstd
            .compress2(&mut self.packed[CHUNK_HEAD_BYTES..], &self.waiting)
            .expect("the buffer has room for the worst case, and nothing else can fail");
        self.packed.truncate(CHUNK_HEAD_BYTES + packed);
        let checksum = xxh3_64(&self.packed[CHUNK_HEAD_BYTES..]);
        self.packed[..4].copy_from_slice(&(packed as u32).to_le_bytes());
        self.packed[4..8].copy_from_slice(&(self.waiting.len() as u32).to_le_bytes());
        self.packed[8..CHUNK_HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
        self.waiting.clear();
        self.out.write_all(&self.packed)?;
        self.out.flush()
    }

    /// Writes all waiting events and returns the stream. The caller must have added the end event.
    ///
    /// # Errors Of the stream.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }
}

/// Reads a trace, one chunk in memory at a time.
pub struct Reader<R> {
    input: R,
    head: Head,
    /// Bytes read so far.
    offset: u64,
    /// Where the chunk in memory began.
    chunk_offset: u64,
    packed: Vec<u8>,
    chunk: Vec<u8>,
    at: usize,
    events: EventReader,
    zstd: DCtx<'static>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the head.
    ///
    /// # Errors If this is not a trace that can be read.
    pub fn new(input: R) -> Result<Reader<R>, TraceError> {
        let mut reader = Reader {
            input,
            head: Head::default(),
            offset: 0,
            chunk_offset: 0,
            packed: Vec::new(),
            chunk: Vec::new(),
            at: 0,
            events: EventReader::default(),
            zstd: DCtx::create(),
            ended: false,
        };
        let mut head = [0; HEAD_BYTES];
        let wrong = |offset, why| TraceError { offset, why };
        let read = reader.read(&mut head)?;
        if head[..MAGIC.len().min(read)] != MAGIC[..MAGIC.len().min(read)] || read == 0 {
            return Err(wrong(0, Unreadable::NotATrace));
        }
        if read < HEAD_BYTES {
            return Err(wrong(read as u64, Unreadable::Cut("its head")));
        }
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if word(8) != VERSION {
            return Err(wrong(8, Unreadable::Version(word(8))));
        }
        match word(12) {
            ABI_VERSION
            | ABI_BEFORE_STEREO
            | ABI_BEFORE_GAMMA_AND_PENS
            | ABI_BEFORE_FRAME_RATE
            | ABI_BEFORE_POINTER_USE => {}
            ABI_BEFORE_VIDEO => reader.events.frames_are_pixels = true,
            other => return Err(wrong(12, Unreadable::Abi(other))),
        }
        reader.head = Head {
            redacted: word(16) & FLAG_REDACTED != 0,
            colors_kept: word(16) & FLAG_COLORS_KEPT != 0,
        };
        Ok(reader)
    }

    /// The flags of the trace.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Bytes of the file that were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next event; None after the last.
    ///
    /// # Errors If the file is damaged or truncated; do not call again then.
    pub fn event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            let next = self.events.next(&self.chunk[self.at..]).map_err(|error| {
                let why = Unreadable::Event { at: self.at, error };
                TraceError { offset: self.chunk_offset, why }
            })?;
            if let Some((event, bytes)) = next {
                self.at += bytes;
                self.ended = matches!(event, Event::End(_));
                return Ok(Some(event));
            }
            if !self.next_chunk()? {
                return Ok(None);
            }
        }
    }

    /// False at the end of the file.
    fn next_chunk(&mut self) -> Result<bool, TraceError> {
        self.chunk_offset = self.offset;
        let mut head = [0; CHUNK_HEAD_BYTES];
        let read = self.read(&mut head)?;
        let wrong = |why| TraceError { offset: self.chunk_offset, why };
        match read {
            0 if self.ended => return Ok(false),
            0 => return Err(wrong(Unreadable::NoEnd)),
            _ if self.ended => return Err(wrong(Unreadable::AfterEnd)),
            CHUNK_HEAD_BYTES => {}
            _ => return Err(wrong(Unreadable::Cut("a chunk's head"))),
        }
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (packed, unpacked) = (word(0), word(4));
        let most = zstd_safe::compress_bound(CHUNK_BYTES_MAX);
        if packed == 0
            || packed as usize > most
            || unpacked == 0
            || unpacked as usize > CHUNK_BYTES_MAX
        {
            return Err(wrong(Unreadable::Lengths { packed, unpacked }));
        }
        // Grows with the data: a length alone must not allocate memory.
        let mut bytes = std::mem::take(&mut self.packed);
        bytes.clear();
        let result = (&mut self.input).take(u64::from(packed)).read_to_end(&mut bytes);
        self.offset += bytes.len() as u64;
        self.packed = bytes;
        let wrong = |why| TraceError { offset: self.chunk_offset, why };
        result.map_err(|error| wrong(error.into()))?;
        if self.packed.len() < packed as usize {
            return Err(wrong(Unreadable::Cut("a chunk")));
        }
        let checksum = u64::from_le_bytes(head[8..].try_into().expect("the head has 16 bytes"));
        if checksum != xxh3_64(&self.packed) {
            return Err(wrong(Unreadable::Damaged));
        }
        self.chunk.resize(unpacked as usize, 0);
        self.at = 0;
        if self.zstd.decompress(&mut self.chunk[..], &self.packed) != Ok(unpacked as usize) {
            self.chunk.clear();
            return Err(wrong(Unreadable::Packing));
        }
        Ok(true)
    }

    /// Fills the buffer, or reads up to the end of the file.
    fn read(&mut self, into: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < into.len() {
            match self.input.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError { offset: self.offset, why: error.into() }),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }
}
