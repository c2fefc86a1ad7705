//! Path 11/13: from viewer-native/video_decoder/process.rs, and back there.
//! One stream's decoder: one access unit in, its frame out. The library is C++ and reads what a
//! session, or an impostor, sends: headers and parameter sets are checked in Rust first
//! (syntax.rs). Knows one stream; never its place.

use openh264::OpenH264API;
use openh264::decoder::{DecodeOptions, Decoder as OpenH264, DecoderConfig, Flush};
use openh264::formats::YUVSource;
use thinc_region::Size;
use thinc_video::{Planes, PlanesRef, SampleLayout};

use crate::{coded_size, fits, syntax};

/// 8 MiB: longest access unit, a quarter of the largest frame's samples; sessions send less than a
/// tenth.
const FRAME_BYTES_MAX: usize = 8 << 20;

/// Why a frame cannot be decoded. The stream can continue with its next keyframe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The stream's frames are too small or too large for the library.
    #[error("frames of {} by {} cannot be decoded", .0.width, .0.height)]
    Size(Size),
    /// A frame has another size than the stream.
    #[error("a frame of {width} by {height} in a stream of another size")]
    OtherSize {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// Not an access unit of H.264.
    #[error("{0}: not an access unit of H.264")]
    Malformed(&'static str),
    /// A feature of H.264 outside the protocol's profile.
    #[error("{0}: not part of constrained baseline")]
    Unsupported(&'static str),
    /// The access unit is longer than the limit.
    #[error("an access unit of {0} bytes; the limit is {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// It refers to a frame that was not decoded.
    #[error("no keyframe yet")]
    NoKeyframe,
    /// OpenH264 reports an error.
    #[error("OpenH264: {0}")]
    Library(String),
    /// The slices do not make a complete frame.
    #[error("incomplete frame")]
    IncompleteFrame,
}

/// Decodes the frames of one stream.
pub struct Decoder {
    size: Size,
    /// None before a keyframe, and again after an error, because the library's state is then not
    /// trusted.
    library: Option<OpenH264>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Decoder {
    /// For frames of a source of this size only.
    pub fn new(source: Size) -> Result<Decoder, DecodeError> {
        if !fits(source) {
            return Err(DecodeError::Size(source));
        }
        Ok(Decoder { size: coded_size(source), library: None })
    }

    /// Sets `out` to the frame of an access unit, with edges rounded up to even numbers. After an
    /// error it is unchanged, and only a keyframe decodes.
    pub fn decode(&mut self, data: &[u8], out: &mut Planes) -> Result<(), DecodeError> {
        self.decode_with(data, |frame| out.copy_from(frame))
    }

    /// The same, and `take` gets the frame where the library has it.
    pub fn decode_with<T>(
        &mut self,
        data: &[u8],
        take: impl FnOnce(&PlanesRef<'_>) -> T,
    ) -> Result<T, DecodeError> {
        let decoded = self.try_decode(data, take);
        if decoded.is_err() {
            self.library = None;
        }
        decoded
    }

    fn try_decode<T>(
        &mut self,
        data: &[u8],
        take: impl FnOnce(&PlanesRef<'_>) -> T,
    ) -> Result<T, DecodeError> {
        if data.len() > FRAME_BYTES_MAX {
            return Err(DecodeError::TooLong(data.len()));
        }
        let unit = syntax::check(data, self.size)?;
        let library = match &mut self.library {
            Some(library) => library,
            None if unit.is_keyframe => self.library.insert(open()?),
            None => return Err(DecodeError::NoKeyframe),
        };
        let options = DecodeOptions::new().flush_after_decode(Flush::NoFlush);
        let decoded = library
            .decode_with_options(data, options)
            .map_err(refused)?
            .ok_or(DecodeError::IncompleteFrame)?;
        let (width, height) = decoded.dimensions();
        if (width, height) != (self.size.width as usize, self.size.height as usize) {
            return Err(DecodeError::OtherSize { width: width as u32, height: height as u32 });
        }
        let (luma, blue, red) = decoded.strides();
        let planes = [decoded.y(), decoded.u(), decoded.v()];
        let frame = PlanesRef::new(self.size, SampleLayout::Yuv420, planes, [luma, blue, red]);
        Ok(take(&frame.ok_or(DecodeError::IncompleteFrame)?))
    }
}

fn open() -> Result<OpenH264, DecodeError> {
    OpenH264::with_api_config(OpenH264API::from_source(), DecoderConfig::new()).map_err(refused)
}

fn refused(error: openh264::Error) -> DecodeError {
    DecodeError::Library(error.to_string())
}
