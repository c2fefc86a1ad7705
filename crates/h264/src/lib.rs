//! Path 9/13 and 11/13: encodes frames as H.264 for session-server, and decodes them for native
//! viewers.
//! Browsers decode with WebCodecs.
//! Uses OpenH264, or for encoding x264 if the build enables it, or what the caller has (`Codes`),
//! and only what the protocol allows:
//! constrained baseline, one access unit per frame, keyframes on request. What others encode as
//! 4:4:4 is checked here too.
//! Knows frames and bytes; never streams, viewers or time.
#![deny(unsafe_code)]

#[cfg(feature = "decoder")]
mod decoder;
#[cfg(any(feature = "openh264", feature = "x264"))]
mod encoder;
#[cfg(feature = "decoder")]
mod syntax;

#[cfg(feature = "decoder")]
pub use decoder::{DecodeError, Decoder};
#[cfg(any(feature = "openh264", feature = "x264"))]
pub use encoder::{Codes, EncodeError, Encoded, Encoder, EncoderSettings, Library, NoSuchLibrary};
#[cfg(feature = "decoder")]
pub use syntax::{AccessUnit, check, check_yuv444};

use thinc_region::Size;

/// Longest and shorter edge that OpenH264 supports (its README).
const EDGES_MAX: (u32, u32) = (3840, 2160);
/// 16: a macroblock, the smallest edge that OpenH264 supports.
const EDGE_MIN: u32 = 16;

/// True if frames of this size can be coded.
pub fn fits(size: Size) -> bool {
    let (shorter, longer) = (size.width.min(size.height), size.width.max(size.height));
    shorter >= EDGE_MIN && longer <= EDGES_MAX.0 && shorter <= EDGES_MAX.1
}

/// Size of a coded frame: the source's edges rounded up to even numbers.
pub fn coded_size(source: Size) -> Size {
    Size { width: source.width.next_multiple_of(2), height: source.height.next_multiple_of(2) }
}
