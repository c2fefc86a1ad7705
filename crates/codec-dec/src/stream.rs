//! Path 11/13: from viewer-core/decode.rs with a packed update, back to it with the update's commands.
//! The other end of codec-enc/stream.rs: one zstd context a connection, in which each update ends with a flush.
//! Knows bytes and their order; takes no more memory than its window and what the caller allows.
//!
//! ```text
//! packed   length × 2 + restart varint | zstd
//!
//! length   bytes of commands that come out, at least 1
//! restart  1: zstd begins a new frame here (the first packed update of a connection always does)
//! zstd     the frame's next bytes (RFC 8878), ending with a whole block, without which none of `length` lacks;
//!          the frame has a window of at most 2^WINDOW_LOG bytes, no dictionary, and never ends
//! ```

use thinc_protocol::wire::Reader;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use crate::DecodeError;

/// 1 MiB of what was sent before can be repeated: about ten pages of text as operations.
pub const WINDOW_LOG: u32 = 20;

/// 128 KiB: memory for what comes out grows by a block, so that a short update cannot ask for much by saying so.
const GROWTH: usize = 128 * 1024;

/// One connection's context.
pub struct StreamUnpacker {
    zstd: DCtx<'static>,
    /// A frame was begun, and nothing of it was damaged.
    whole: bool,
}

impl std::fmt::Debug for StreamUnpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamUnpacker({} bytes)", self.zstd.sizeof())
    }
}

impl Default for StreamUnpacker {
    fn default() -> StreamUnpacker {
        StreamUnpacker::new()
    }
}

impl StreamUnpacker {
    /// A context that knows nothing yet.
    pub fn new() -> StreamUnpacker {
        let mut zstd = DCtx::create();
        zstd.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).expect("zstd allows windows of this size");
        StreamUnpacker { zstd, whole: false }
    }

    /// Bytes the context holds, its window included.
    pub fn memory_bytes(&self) -> usize {
        self.zstd.sizeof()
    }

    /// Replaces `out` with the commands of one update, of at most `limit` bytes.
    ///
    /// # Errors
    /// Anything that is not exactly the context's next update. After it only an update that restarts can be read.
    pub fn unpack(&mut self, packed: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        out.clear();
        let mut reader = Reader::new(packed);
        let head = reader.varint("a packed update's length").map_err(|_| DecodeError::Stream)?;
        let (value, restart) = (head >> 1, head & 1 == 1);
        let len = usize::try_from(value).ok().filter(|len| (1..=limit).contains(len));
        let len = len.ok_or(DecodeError::StreamSize { value, limit: limit as u64 })?;
        let data = &packed[packed.len() - reader.rest_len()..];
        if restart {
            self.zstd.reset(ResetDirective::SessionOnly).map_err(|_| DecodeError::Stream)?;
        } else if !self.whole {
            return Err(DecodeError::Stream);
        }
        self.whole = false;
        self.next_bytes(data, len, out)?;
        self.whole = true;
        Ok(())
    }

    fn next_bytes(&mut self, data: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut input = InBuffer::around(data);
        loop {
            let before = (input.pos(), out.len());
            // Room for one byte more than there may be: whatever is left over then shows itself.
            let room = (len + 1 - before.1).min(GROWTH);
            out.resize(before.1 + room, 0);
            let mut output = OutBuffer::around_pos(&mut out[..], before.1);
            let hint = self.zstd.decompress_stream(&mut output, &mut input);
            let end = output.pos();
            out.truncate(end);
            // 0: the frame has ended, and a connection's never does.
            if !matches!(hint, Ok(1..)) || end > len {
                return Err(DecodeError::Stream);
            }
            if (input.pos(), end) == before {
                break;
            }
        }
        if input.pos() < data.len() || out.len() < len {
            return Err(DecodeError::Stream);
        }
        Ok(())
    }
}
