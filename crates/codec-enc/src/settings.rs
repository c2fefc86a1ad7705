//! Path 9/13: from session-server/worker.rs, to encoder.rs.
//! What an encoder may spend for the link at hand; said anew with every job.
//! Knows ways to encode; never links or budgets, from which the session chooses.

/// Where bytes are packed after the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// Nowhere: the link is faster than a packer (about 300 Mbit/s and more).
    None,
    /// By the connection's [`crate::StreamPacker`] when the update is sent. What its context cannot help, photographs, is
    /// packed here all the same, on the worker's time.
    Stream,
    /// Here, each rectangle by itself: for viewers whose updates may be lost or come out of order.
    Block {
        /// zstd's.
        level: i32,
    },
}

/// How nearly a photograph is sent; the three profiles that TurboVNC has made known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JpegProfile {
    /// 4:4:4, quality 95: nobody sees the difference.
    High,
    /// 4:2:2, quality 80.
    Medium,
    /// 4:2:0, quality 30.
    Low,
}

/// What an encoder may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeSettings {
    /// Where bytes are packed.
    pub entropy: Entropy,
    /// How photographs are sent where they need not be exact; `None`: exactly.
    pub jpeg: Option<JpegProfile>,
}

/// The fastest level that is not negative; 3 wins a few percent for half the speed.
pub(crate) const BLOCK_LEVEL: i32 = 1;

impl Default for EncodeSettings {
    /// What every viewer can decode, whatever it has got before.
    fn default() -> EncodeSettings {
        EncodeSettings { entropy: Entropy::Block { level: BLOCK_LEVEL }, jpeg: None }
    }
}
