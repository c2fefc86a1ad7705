//! Path 9/13 and 11/13: pictures to H.264 for session-server, and back for native viewers. Browsers decode by themselves (WebCodecs).
//! OpenH264, or x264 to encode where a build asks for it, and of them only what the protocol allows: constrained baseline, an access unit a picture,
//! keys when they are asked for.
//! Knows pictures and bytes; never streams, viewers or time.
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
pub use encoder::{EncodeError, Encoded, Encoder, EncoderSettings, Library, NoSuchLibrary};

use thinc_region::Size;

/// Longest and shorter edge of what OpenH264 takes (its README).
const EDGES_MAX: (u32, u32) = (3840, 2160);
/// 16: a macroblock, below which it takes nothing.
const EDGE_MIN: u32 = 16;

/// Pictures of this size can be coded.
pub fn fits(size: Size) -> bool {
    let (shorter, longer) = (size.width.min(size.height), size.width.max(size.height));
    shorter >= EDGE_MIN && longer <= EDGES_MAX.0 && shorter <= EDGES_MAX.1
}

/// What a coded picture's planes have: the source's edges rounded up to even.
pub fn coded_size(source: Size) -> Size {
    Size { width: source.width.next_multiple_of(2), height: source.height.next_multiple_of(2) }
}
