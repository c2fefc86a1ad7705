//! Path 9/13: from session-server/worker.rs, to encoder.rs.
//! The settings of an encoder for one job.
//! Knows encodings; never the path or the budget, by which the session chooses.

/// Where entropy coding is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// Nowhere: the path is faster than entropy coding (about 300 Mbit/s and more).
    None,
    /// In the connection's [`crate::StreamPacker`], when the update is sent. Photographs, for which
    /// its window is useless, are compressed here, on the worker's thread.
    Stream,
    /// Here, each rectangle separately: for updates that may be lost or reordered.
    Block {
        /// zstd's compression level.
        level: i32,
    },
}

/// Quality of a lossy photograph: TurboVNC's three profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JpegProfile {
    /// 4:4:4, quality 95: visually lossless.
    High,
    /// 4:2:2, quality 80.
    Medium,
    /// 4:2:0, quality 30.
    Low,
}

/// Settings of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeSettings {
    /// Where entropy coding is done.
    pub entropy: Entropy,
    /// Quality of photographs that may be lossy; `None`: lossless.
    pub jpeg: Option<JpegProfile>,
    /// Quality of what moves in a program's frames; `None`: lossless.
    pub frames: Option<JpegProfile>,
}

/// zstd's fastest regular level; level 3 saves a few percent at half the speed.
pub(crate) const BLOCK_LEVEL: i32 = 1;

impl Default for EncodeSettings {
    /// Settings that every viewer can decode, independent of earlier updates.
    fn default() -> EncodeSettings {
        EncodeSettings { entropy: Entropy::Block { level: BLOCK_LEVEL }, jpeg: None, frames: None }
    }
}
