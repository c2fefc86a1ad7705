//! Path 11/13: from viewer-native's decoder thread, back to viewer-core/video.rs.
//! One stream's decoder: one access unit in, its picture out. The library inside is C++ and reads what a session, or who poses as one, sends:
//! heads and parameter sets are read in Rust before it (syntax.rs). Knows one stream; never its place.

use openh264::OpenH264API;
use openh264::decoder::{DecodeOptions, Decoder as OpenH264, DecoderConfig, Flush};
use openh264::formats::YUVSource;
use thinc_region::Size;
use thinc_video::{Layout, Planes, PlanesRef};

use crate::{coded_size, fits, syntax};

/// 8 MiB: what a picture may have. A quarter of the largest one's samples; sessions send less than a tenth.
const PICTURE_BYTES_MAX: usize = 8 << 20;

/// Why a picture cannot be shown. The stream can go on from its next key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Too small or too large for the library; said of the stream before any picture.
    #[error("pictures of {} by {} cannot be decoded", .0.width, .0.height)]
    Size(Size),
    /// A picture of another size than the stream's.
    #[error("a picture of {width} by {height} in a stream of another size")]
    OtherSize {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// Not an access unit of H.264.
    #[error("{0}: no access unit of H.264")]
    Malformed(&'static str),
    /// H.264 of other profiles than the protocol's.
    #[error("{0} that constrained baseline has not")]
    Unsupported(&'static str),
    /// Longer than any picture is.
    #[error("a picture of {0} bytes")]
    TooLong(usize),
    /// It leans on one that was not decoded.
    #[error("no key yet")]
    NoKey,
    /// OpenH264 says so.
    #[error("OpenH264: {0}")]
    Library(String),
    /// There was a slice and no whole picture came of it.
    #[error("no whole picture")]
    NoPicture,
}

/// Decodes the pictures of one stream.
pub struct Decoder {
    size: Size,
    /// None until a key came, and again after an error: what the library then holds is not believed.
    library: Option<OpenH264>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Decoder {
    /// For pictures of a source of this size, and no others.
    pub fn new(source: Size) -> Result<Decoder, DecodeError> {
        if !fits(source) {
            return Err(DecodeError::Size(source));
        }
        Ok(Decoder { size: coded_size(source), library: None })
    }

    /// `out` becomes the picture of an access unit, edges rounded up to even. After an error it is what it was, and nothing but a key decodes.
    pub fn decode(&mut self, data: &[u8], out: &mut Planes) -> Result<(), DecodeError> {
        let decoded = self.try_decode(data, out);
        if decoded.is_err() {
            self.library = None;
        }
        decoded
    }

    fn try_decode(&mut self, data: &[u8], out: &mut Planes) -> Result<(), DecodeError> {
        if data.len() > PICTURE_BYTES_MAX {
            return Err(DecodeError::TooLong(data.len()));
        }
        let unit = syntax::check(data, self.size)?;
        let library = match &mut self.library {
            Some(library) => library,
            None if unit.is_key => self.library.insert(open()?),
            None => return Err(DecodeError::NoKey),
        };
        let options = DecodeOptions::new().flush_after_decode(Flush::NoFlush);
        let decoded = library.decode_with_options(data, options).map_err(refused)?.ok_or(DecodeError::NoPicture)?;
        let (width, height) = decoded.dimensions();
        if (width, height) != (self.size.width as usize, self.size.height as usize) {
            return Err(DecodeError::OtherSize { width: width as u32, height: height as u32 });
        }
        let (luma, blue, red) = decoded.strides();
        let planes = [decoded.y(), decoded.u(), decoded.v()];
        let picture = PlanesRef::new(self.size, Layout::Yuv420, planes, [luma, blue, red]);
        out.copy_from(&picture.ok_or(DecodeError::NoPicture)?);
        Ok(())
    }
}

fn open() -> Result<OpenH264, DecodeError> {
    OpenH264::with_api_config(OpenH264API::from_source(), DecoderConfig::new()).map_err(refused)
}

fn refused(error: openh264::Error) -> DecodeError {
    DecodeError::Library(error.to_string())
}
