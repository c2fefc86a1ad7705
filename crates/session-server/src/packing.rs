//! Path 9/13 and 10/13: session-core's choices for one viewer, as codec-enc takes them.
//! From render.rs with a job's quality, to worker.rs with what its encoder may spend.
//! Knows both vocabularies; chooses nothing.

use thinc_codec_enc::{EncodeSettings, Entropy, JpegProfile};
use thinc_session_core::{self as core, Quality};

/// What an encoder may spend on a job of this quality.
pub(crate) fn settings(quality: Quality) -> EncodeSettings {
    EncodeSettings {
        entropy: match quality.entropy {
            core::Entropy::None => Entropy::None,
            core::Entropy::Stream { level } | core::Entropy::Block { level } => Entropy::Block { level },
        },
        jpeg: quality.lossy.map(|profile| match profile {
            core::JpegProfile::High => JpegProfile::High,
            core::JpegProfile::Medium => JpegProfile::Medium,
            core::JpegProfile::Low => JpegProfile::Low,
        }),
    }
}
