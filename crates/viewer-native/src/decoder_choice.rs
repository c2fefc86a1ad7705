//! Path 11/13: what decodes videos, as a person has chosen. From the command line, to
//! video_decoding.rs. Knows no decoder.

/// What decodes videos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecoderChoice {
    /// The graphics processor where it is exact and faster.
    #[default]
    Auto,
    /// The processor.
    Software,
    /// The graphics processor where it is exact.
    Hardware,
}
