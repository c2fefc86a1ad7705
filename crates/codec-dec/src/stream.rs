//! Path 11/13: from viewer-core/decode.rs with a packed update, back to it with the update's
//! commands.
//! The inverse of codec-enc/stream.rs: one zstd context per connection, flushed after each update.
//! Knows bytes and their order; its memory is bounded by the window and the caller's limit.
//!
//! The bytes of an update continue a zstd frame (RFC 8878) that never ends, up to the end of a
//! block; its window is at most 2^`PACKED_WINDOW_LOG_MAX` bytes. An update with a reset begins with
//! the header of a new frame.

use thinc_protocol::limits::{PACKED_WINDOW_LOG_MAX, UNPACKED_BYTES_MAX};
use thinc_protocol::session::Packed;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use crate::DecodeError;

/// 128 KiB: the output buffer grows by one block, so that a short update with a large declared
/// length cannot reserve much memory.
const GROWTH: usize = 128 * 1024;

/// One connection's decompression context.
pub struct StreamUnpacker {
    zstd: DCtx<'static>,
    /// A frame was started, and none of it was damaged.
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
    /// An empty context.
    pub fn new() -> StreamUnpacker {
        let mut zstd = DCtx::create();
        zstd.set_parameter(DParameter::WindowLogMax(PACKED_WINDOW_LOG_MAX))
            .expect("zstd must accept this window size");
        StreamUnpacker { zstd, whole: false }
    }

    /// Memory of the context in bytes, including its window.
    pub fn memory_bytes(&self) -> usize {
        self.zstd.sizeof()
    }

    /// Replaces `out` with the commands of one update, packed in `data`.
    ///
    /// # Errors
    /// If it is not exactly the next update of the context. After an error only an update with a
    /// reset can be read.
    pub fn unpack(
        &mut self,
        packed: Packed,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        out.clear();
        let len = packed.len as usize;
        if !(1..=UNPACKED_BYTES_MAX).contains(&len) {
            return Err(DecodeError::StreamSize(packed.len.into()));
        }
        if packed.reset {
            self.zstd.reset(ResetDirective::SessionOnly).map_err(|_| DecodeError::Stream)?;
        } else if !self.whole {
            return Err(DecodeError::Stream);
        }
        self.whole = false;
        self.next_bytes(data, len, out)?;
        self.whole = true;
        Ok(())
    }

    fn next_bytes(
        &mut self,
        data: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let mut input = InBuffer::around(data);
        loop {
            let before = (input.pos(), out.len());
            // One byte more than declared, so that surplus bytes are detected.
            let room = (len + 1 - before.1).min(GROWTH);
            out.resize(before.1 + room, 0);
            let mut output = OutBuffer::around_pos(&mut out[..], before.1);
            let hint = self.zstd.decompress_stream(&mut output, &mut input);
            let end = output.pos();
            out.truncate(end);
            // 0: the frame has ended, which a connection's frame never does.
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
