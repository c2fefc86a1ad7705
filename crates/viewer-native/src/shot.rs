//! Path 13/13: from the viewer's framebuffer, to a PNG file and to a hash.
//! Both ignore the X byte of a pixel. Knows pixels; never where they came from.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use thinc_region::Size;
use xxhash_rust::xxh3::Xxh3;

/// Writes pixels 0x??RRGGBB as an RGB PNG.
///
/// The file is written under another name and then renamed, so that a script that waits for it
/// never reads half.
pub fn write_png(path: &Path, size: Size, pixels: &[u32]) -> io::Result<()> {
    assert_eq!(pixels.len() as u64, size.area(), "one pixel per place");
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = (|| {
        let mut file = BufWriter::new(File::create(&part)?);
        encode_png(&mut file, size, pixels)?;
        file.flush()?;
        std::fs::rename(&part, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn encode_png(out: &mut impl Write, size: Size, pixels: &[u32]) -> io::Result<()> {
    let mut encoder = png::Encoder::new(out, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut bytes = Vec::with_capacity(pixels.len() * 3);
    for pixel in pixels {
        bytes.extend_from_slice(&[(pixel >> 16) as u8, (pixel >> 8) as u8, *pixel as u8]);
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&bytes)?;
    writer.finish()?;
    Ok(())
}

/// xxh3 (64 bits) of the pixels as little-endian 0x00RRGGBB, row after row.
pub fn hash(pixels: &[u32]) -> u64 {
    let mut hash = Xxh3::new();
    let mut block = [0u8; 4096];
    for chunk in pixels.chunks(block.len() / 4) {
        for (bytes, pixel) in block.chunks_exact_mut(4).zip(chunk) {
            bytes.copy_from_slice(&(pixel & 0x00ff_ffff).to_le_bytes());
        }
        hash.update(&block[..chunk.len() * 4]);
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_xxh3_of_the_bytes_and_blind_to_the_x_byte() {
        let pixels: Vec<u32> = (0..5000u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let bytes: Vec<u8> = pixels.iter().flat_map(|p| (p & 0xff_ffff).to_le_bytes()).collect();
        assert_eq!(hash(&pixels), xxhash_rust::xxh3::xxh3_64(&bytes));
        let opaque: Vec<u32> = pixels.iter().map(|p| p | 0xff00_0000).collect();
        assert_eq!(hash(&opaque), hash(&pixels));
        let mut other = pixels.clone();
        other[4999] ^= 1;
        assert_ne!(hash(&other), hash(&pixels));
    }

    #[test]
    fn a_png_reads_back_as_the_pixels_written() {
        let size = Size { width: 7, height: 5 };
        let pixels: Vec<u32> = (0..35u32).map(|i| 0xff00_0000 | (i * 0x01_02_03)).collect();
        let folder = std::env::temp_dir().join(format!("thinc-shot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("screen.png");
        write_png(&path, size, &pixels).unwrap();
        let mut reader =
            png::Decoder::new(io::BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.width, info.height), (7, 5));
        let back: Vec<u32> =
            bytes.chunks_exact(3).map(|c| u32::from_be_bytes([0xff, c[0], c[1], c[2]])).collect();
        assert_eq!(back, pixels);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no part of a file is left");
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(write_png(&path, size, &pixels).is_err(), "a folder that is not there");
    }
}
