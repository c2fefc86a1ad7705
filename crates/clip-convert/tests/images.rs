//! Images of every convertible kind become PNGs with the same pixels, and hostile ones are refused
//! within bounded time.

mod hostile;

use std::io::Cursor;
use std::time::{Duration, Instant};

use hostile::progressive;
use image::codecs::jpeg::JpegEncoder;
use image::{
    DynamicImage, GenericImageView as _, ImageDecoder as _, ImageEncoder as _, ImageFormat,
};
use image::{Rgb, RgbImage, Rgba, RgbaImage};
use thinc_clip_convert::{Conversion, ImageKind, convert};
use thinc_protocol::clip::ClipEnd;

const LIMIT: usize = 16 << 20;
/// Longer than any conversion takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn picture(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([(x * 5) as u8, (y * 3) as u8, (x ^ y) as u8]))
}

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

fn png(kind: ImageKind, content: &[u8]) -> Result<Vec<u8>, ClipEnd> {
    convert(Conversion::PngOf(kind), content, LIMIT)
}

fn decoded(png: &[u8]) -> DynamicImage {
    image::load_from_memory_with_format(png, ImageFormat::Png).unwrap()
}

#[test]
fn lossless_images_keep_every_pixel() {
    let opaque = DynamicImage::from(picture(61, 33));
    let transparent = DynamicImage::from(RgbaImage::from_fn(40, 30, |x, y| {
        Rgba([x as u8 * 6, y as u8 * 8, 200, (x * y) as u8])
    }));
    let (grey, deep) =
        (DynamicImage::from(opaque.to_luma8()), DynamicImage::from(opaque.to_rgb16()));
    for (kind, format) in [(ImageKind::Bmp, ImageFormat::Bmp), (ImageKind::Tiff, ImageFormat::Tiff)]
    {
        for image in [&opaque, &transparent, &grey] {
            let png = png(kind, &encoded(image, format)).unwrap();
            assert_eq!(decoded(&png).to_rgba8(), image.to_rgba8(), "{kind:?} {:?}", image.color());
        }
    }
    let png16 = png(ImageKind::Tiff, &encoded(&deep, ImageFormat::Tiff)).unwrap();
    assert_eq!(decoded(&png16), deep, "16 bits for each component stay");
    let float = DynamicImage::from(opaque.to_rgb32f());
    let png = png(ImageKind::Tiff, &encoded(&float, ImageFormat::Tiff)).unwrap();
    assert_eq!(decoded(&png).to_rgb8(), opaque.to_rgb8(), "PNG has no floating point");
}

#[test]
fn a_jpeg_keeps_its_pixels_its_profile_and_is_turned() {
    let image = picture(64, 32);
    let mut jpeg = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut jpeg, 95);
    // A profile's header: bytes 16 to 19 name the colour space.
    let mut profile = vec![0; 128];
    profile[16..20].copy_from_slice(b"RGB ");
    encoder.set_icc_profile(profile.clone()).unwrap();
    encoder.encode_image(&image).unwrap();
    let expected = image::load_from_memory_with_format(&jpeg, ImageFormat::Jpeg).unwrap();
    let converted = png(ImageKind::Jpeg, &jpeg).unwrap();
    assert_eq!(decoded(&converted), expected);
    let mut decoder = image::codecs::png::PngDecoder::new(Cursor::new(&converted)).unwrap();
    assert_eq!(decoder.icc_profile().unwrap(), Some(profile));

    // Exif, after the start of the image: one entry, orientation 6, a camera turned to the right.
    let exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let length = (exif.len() as u16 + 2).to_be_bytes();
    let turned = [&jpeg[..2], &[0xff, 0xe1], &length, exif, &jpeg[2..]].concat();
    let turned = decoded(&png(ImageKind::Jpeg, &turned).unwrap());
    assert_eq!(turned.dimensions(), (32, 64));
    assert_eq!(turned, expected.rotate90());
}

#[test]
fn what_is_no_such_image_fails() {
    let bmp = encoded(&picture(20, 20).into(), ImageFormat::Bmp);
    for (kind, bytes) in [
        (ImageKind::Jpeg, &bmp[..]),
        (ImageKind::Tiff, &bmp[..]),
        (ImageKind::Bmp, b"BM"),
        (ImageKind::Bmp, &bmp[..bmp.len() / 2]),
        (ImageKind::Jpeg, b""),
    ] {
        assert_eq!(png(kind, bytes), Err(ClipEnd::Failed), "{kind:?}, {} bytes", bytes.len());
    }
}

#[test]
fn a_png_over_the_limit_is_refused() {
    let mut state = 1u32;
    let noise = RgbImage::from_fn(200, 200, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Rgb([(state >> 8) as u8, (state >> 16) as u8, (state >> 24) as u8])
    });
    let bmp = encoded(&noise.into(), ImageFormat::Bmp);
    let bytes = convert(Conversion::PngOf(ImageKind::Bmp), &bmp, LIMIT).unwrap().len();
    assert!(convert(Conversion::PngOf(ImageKind::Bmp), &bmp, bytes).is_ok());
    for less in [1, bytes / 2, bytes] {
        let result = convert(Conversion::PngOf(ImageKind::Bmp), &bmp, bytes - less);
        assert_eq!(
            result.map(|png| png.len()),
            Err(ClipEnd::TooLarge { bytes: 0, limit: (bytes - less) as u64 })
        );
    }
}

fn tiff_with(width: u32, height: u32) -> Vec<u8> {
    let mut tiff = encoded(&picture(16, 16).into(), ImageFormat::Tiff);
    // Entries 256 and 257 of the directory hold the size; each has 12 bytes.
    let directory = u32::from_le_bytes(tiff[4..8].try_into().unwrap()) as usize;
    let entries = u16::from_le_bytes(tiff[directory..directory + 2].try_into().unwrap());
    for entry in 0..usize::from(entries) {
        let at = directory + 2 + 12 * entry;
        let size = match u16::from_le_bytes(tiff[at..at + 2].try_into().unwrap()) {
            256 => width,
            257 => height,
            _ => continue,
        };
        tiff[at + 2..at + 4].copy_from_slice(&4u16.to_le_bytes());
        tiff[at + 8..at + 12].copy_from_slice(&size.to_le_bytes());
    }
    tiff
}

#[test]
fn hostile_images_are_refused_or_converted_in_bounded_time() {
    let mut bmp = encoded(&picture(16, 16).into(), ImageFormat::Bmp);
    bmp[18..22].copy_from_slice(&60_000u32.to_le_bytes());
    bmp[22..26].copy_from_slice(&60_000u32.to_le_bytes());
    for (what, kind, bytes, refused) in [
        ("a BMP of 3.6 Gpixel", ImageKind::Bmp, bmp, true),
        ("a TIFF of 4 Gpixel", ImageKind::Tiff, tiff_with(65_535, 65_535), true),
        ("a TIFF with one long side", ImageKind::Tiff, tiff_with(4_000_000_000, 1), true),
        ("a JPEG of 4 Gpixel", ImageKind::Jpeg, progressive(65_535, 65_535, 1), true),
        ("a JPEG just over the limit", ImageKind::Jpeg, progressive(8192, 4097, 1), true),
        ("1 MB of scans", ImageKind::Jpeg, progressive(8192, 4096, 40_000), false),
        ("a JPEG at the limit", ImageKind::Jpeg, progressive(8192, 4096, 99), false),
    ] {
        let started = Instant::now();
        let result = png(kind, &bytes);
        eprintln!("{what}: {} bytes, {:?}, {}", bytes.len(), started.elapsed(), result.is_ok());
        assert!(started.elapsed() < LONG, "{what}: {:?}", started.elapsed());
        assert!(!refused || result == Err(ClipEnd::Failed), "{what} is converted");
    }
}

#[test]
fn an_image_with_as_many_pixels_as_allowed_is_converted() {
    let bmp = encoded(&picture(8192, 4096).into(), ImageFormat::Bmp);
    let png = convert(Conversion::PngOf(ImageKind::Bmp), &bmp, 200 << 20).unwrap();
    assert_eq!(decoded(&png).dimensions(), (8192, 4096));
}
