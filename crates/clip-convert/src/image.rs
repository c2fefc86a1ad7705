//! Path beside the pixels: under lib.rs, from JPEG, BMP and TIFF to PNG.
//! The image as a viewer of images would show it: turned as its Exif data says, with its colour
//! profile. Knows limits; the decoders are the image crate's, without unsafe code of ours.

use std::io::{self, Cursor, Write};

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::metadata::Orientation;
use image::{
    DynamicImage, ImageDecoder, ImageEncoder as _, ImageError, ImageFormat, ImageReader, Limits,
};
use thinc_protocol::clip::ClipEnd;

use crate::ImageKind;

/// 160 MiB: most memory for decoded pixels: four bytes for each of `PIXELS_MAX`, and a quarter for
/// decoding. Images with 16 bits for each component may have half as many.
const DECODED_BYTES_MAX: u64 = 160 << 20;
/// 1 MiB: a longer colour profile is left out; that of a printer may have a few hundred KiB.
const PROFILE_BYTES_MAX: usize = 1 << 20;

/// PNG of an image, or `TooLarge` if it is longer than `bytes_max`.
pub(crate) fn png(
    kind: ImageKind,
    content: &[u8],
    bytes_max: usize,
    pixels_max: u64,
) -> Result<Vec<u8>, ClipEnd> {
    let too_large = ClipEnd::TooLarge { bytes: 0, limit: bytes_max as u64 };
    let (image, profile) = decode(kind, content, pixels_max).map_err(|_| ClipEnd::Failed)?;
    let mut output = Bounded { bytes: Vec::new(), bytes_max, exceeded: false };
    // The encoder's fast level takes as long (0.8 s for 2²³ pixels with all filters tried), and on
    // drawn images a hundred times the bytes.
    let (level, filter) = (CompressionType::Default, FilterType::Adaptive);
    let mut encoder = PngEncoder::new_with_quality(&mut output, level, filter);
    if let Some(profile) = profile {
        // A colour profile is an ancillary chunk: without it the image is still the image.
        let _ = encoder.set_icc_profile(profile);
    }
    let encoded =
        encoder.write_image(image.as_bytes(), image.width(), image.height(), image.color().into());
    match encoded {
        // The encoder ignores an error at its last bytes.
        _ if output.exceeded => Err(too_large),
        Ok(()) => Ok(output.bytes),
        Err(_) => Err(ClipEnd::Failed),
    }
}

/// Decodes an image, and returns the colour profile that its pixels have.
fn decode(
    kind: ImageKind,
    content: &[u8],
    pixels_max: u64,
) -> Result<(DynamicImage, Option<Vec<u8>>), ImageError> {
    let format = match kind {
        ImageKind::Jpeg => ImageFormat::Jpeg,
        ImageKind::Bmp => ImageFormat::Bmp,
        ImageKind::Tiff => ImageFormat::Tiff,
    };
    let mut limits = Limits::no_limits();
    // One side alone cannot be longer than a JPEG's.
    limits.max_image_width = Some(u16::MAX.into());
    limits.max_image_height = Some(u16::MAX.into());
    limits.max_alloc = Some(DECODED_BYTES_MAX);
    let mut reader = ImageReader::with_format(Cursor::new(content), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > pixels_max
        || decoder.total_bytes() > DECODED_BYTES_MAX
    {
        return Err(ImageError::Limits(image::error::LimitError::from_kind(
            image::error::LimitErrorKind::DimensionError,
        )));
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let profile = decoder.icc_profile().ok().flatten();
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    // PNG has no floating point.
    if matches!(image, DynamicImage::ImageRgb32F(_) | DynamicImage::ImageRgba32F(_)) {
        image = DynamicImage::ImageRgba8(image.into_rgba8());
    }
    let is_grey = !image.color().has_color();
    let profile = profile.filter(|profile| describes(profile, is_grey));
    Ok((image, profile))
}

/// Whether a colour profile is for pixels of this kind: those of CMYK have become RGB (ICC.1:2022,
/// §7.2.8: the colour space is in bytes 16 to 19).
fn describes(profile: &[u8], is_grey: bool) -> bool {
    let space: &[u8] = if is_grey { b"GRAY" } else { b"RGB " };
    profile.len() <= PROFILE_BYTES_MAX && profile.get(16..20) == Some(space)
}

/// Output of limited length.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
    exceeded: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            self.exceeded = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
