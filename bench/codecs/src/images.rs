//! Formats of image files, each picture a file of its own: QOI, PNG, WebP and JPEG XL, without loss and at their fastest.
//! Knows their libraries; never who chose the settings but what is said here.

use std::io::Cursor;

use jxl_oxide::JxlImage;
use thinc_bench::Error;
use zune_core::bit_depth::BitDepth;
use zune_core::colorspace::ColorSpace;
use zune_core::options::EncoderOptions;
use zune_jpegxl::JxlSimpleEncoder;

use crate::codec::Codec;
use crate::samples::{Sample, pixels_of_rgb};

/// Quite OK Image, by the crate `qoi`.
#[derive(Default)]
pub(crate) struct Qoi {
    rgb: Vec<u8>,
}

impl Codec for Qoi {
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error> {
        sample.rgb(&mut self.rgb);
        out.resize(qoi::encode_max_len(sample.width as u32, sample.height as u32, qoi::Channels::Rgb), 0);
        let len = qoi::encode_to_buf(&mut out[..], &self.rgb, sample.width as u32, sample.height as u32)?;
        out.truncate(len);
        Ok(())
    }

    fn decode(&mut self, bytes: &[u8], width: usize, height: usize, pixels: &mut [u32]) -> Result<(), Error> {
        self.rgb.resize(width * height * 3, 0);
        qoi::decode_to_buf(&mut self.rgb, bytes)?;
        pixels_of_rgb(&self.rgb, pixels);
        Ok(())
    }
}

/// PNG, by the crate `png`: its fast compression chooses a filter for each row and deflates with fdeflate.
#[derive(Default)]
pub(crate) struct Png {
    rgb: Vec<u8>,
}

impl Codec for Png {
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error> {
        sample.rgb(&mut self.rgb);
        out.clear();
        let mut encoder = png::Encoder::new(out, sample.width as u32, sample.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.rgb)?;
        writer.finish()?;
        Ok(())
    }

    fn decode(&mut self, bytes: &[u8], width: usize, height: usize, pixels: &mut [u32]) -> Result<(), Error> {
        let mut reader = png::Decoder::new(Cursor::new(bytes)).read_info()?;
        self.rgb.resize(width * height * 3, 0);
        reader.next_frame(&mut self.rgb)?;
        pixels_of_rgb(&self.rgb, pixels);
        Ok(())
    }
}

/// WebP, by libwebp.
#[derive(Default)]
pub(crate) struct WebP {
    rgb: Vec<u8>,
}

impl Codec for WebP {
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error> {
        sample.rgb(&mut self.rgb);
        let mut config = webp::WebPConfig::new().map_err(|()| "libwebp has no settings")?;
        // Of a lossless picture, quality is effort.
        (config.lossless, config.method, config.quality) = (1, 0, 0.0);
        let encoder = webp::Encoder::from_rgb(&self.rgb, sample.width as u32, sample.height as u32);
        let encoded = encoder.encode_advanced(&config).map_err(|error| format!("libwebp: {error:?}"))?;
        out.clear();
        out.extend_from_slice(&encoded);
        Ok(())
    }

    fn decode(&mut self, bytes: &[u8], _width: usize, _height: usize, pixels: &mut [u32]) -> Result<(), Error> {
        let image = webp::Decoder::new(bytes).decode().ok_or("libwebp reads no picture")?;
        if image.len() != pixels.len() * image.layout().bytes_per_pixel() as usize || image.is_alpha() {
            return Err("libwebp reads another picture".into());
        }
        pixels_of_rgb(&image, pixels);
        Ok(())
    }
}

/// JPEG XL: written by zune-jpegxl, which is libjxl's fast lossless encoder in Rust, and read by jxl-oxide.
#[derive(Default)]
pub(crate) struct Jxl {
    rgb: Vec<u8>,
}

impl Codec for Jxl {
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error> {
        sample.rgb(&mut self.rgb);
        let options = EncoderOptions::new(sample.width, sample.height, ColorSpace::RGB, BitDepth::Eight);
        let options = options.set_num_threads(1).set_effort(1);
        out.clear();
        let encoder = JxlSimpleEncoder::new(&self.rgb, options);
        encoder.encode(&mut *out).map_err(|error| format!("zune-jpegxl: {error:?}"))?;
        Ok(())
    }

    fn decode(&mut self, bytes: &[u8], width: usize, height: usize, pixels: &mut [u32]) -> Result<(), Error> {
        let image = JxlImage::builder().read(bytes)?;
        let frame = image.render_frame(0)?;
        self.rgb.resize(width * height * 3, 0);
        if frame.stream().write_to_buffer(&mut self.rgb) != self.rgb.len() {
            return Err("jxl-oxide reads another picture".into());
        }
        pixels_of_rgb(&self.rgb, pixels);
        Ok(())
    }
}
