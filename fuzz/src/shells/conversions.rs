//! What applications copied, converted for the other side. Beside the path. A result is within its
//! limit and of its format. Knows the public interface only; limits pixels, so that a run is short.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};
use thinc_clip_convert::{Conversion, ImageKind, convert_within};

const BYTES_MAX: usize = 64 * 1024;
const PIXELS_MAX: u64 = 64 * 1024;

const ALL: [Conversion; 4] = [
    Conversion::TextOfHtml,
    Conversion::PngOf(ImageKind::Jpeg),
    Conversion::PngOf(ImageKind::Bmp),
    Conversion::PngOf(ImageKind::Tiff),
];

/// First byte: the conversion, modulo 4. Then the content.
pub fn conversion(input: &[u8]) {
    converts(input);
}

/// True if the content is valid.
fn converts(input: &[u8]) -> bool {
    let [kind, content @ ..] = input else { return false };
    let conversion = ALL[usize::from(*kind) % ALL.len()];
    let Ok(result) = convert_within(conversion, content, BYTES_MAX, PIXELS_MAX) else {
        return false;
    };
    assert!(result.len() <= BYTES_MAX, "a result exceeds its limit");
    match conversion {
        Conversion::TextOfHtml => {
            let text = std::str::from_utf8(&result).expect("a text is UTF-8");
            let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            assert!(!text.contains(control), "a text has control characters");
        }
        Conversion::PngOf(_) => {
            let png = image::load_from_memory_with_format(&result, ImageFormat::Png)
                .expect("a PNG can be read");
            assert!(u64::from(png.width()) * u64::from(png.height()) <= PIXELS_MAX);
        }
    }
    true
}

/// A page with a table, and a small image of every kind.
pub fn conversion_seeds() -> Vec<Vec<u8>> {
    let html =
        b"<!DOCTYPE html><title>t</title><p class=a>one &amp; two<br><b>x</p><pre> y\n</pre>\
        <table><tr><td>1<td>2</table><script>if (a < b) {}</script><!-- c -->";
    let mut seeds = vec![[&[0][..], html].concat()];
    let image = RgbImage::from_fn(20, 10, |x, y| Rgb([(x * 12) as u8, (y * 25) as u8, 90]));
    for (kind, format) in
        [ImageFormat::Jpeg, ImageFormat::Bmp, ImageFormat::Tiff].iter().enumerate()
    {
        let mut bytes = Vec::new();
        image.write_to(&mut Cursor::new(&mut bytes), *format).expect("an image can be written");
        seeds.push([&[kind as u8 + 1][..], &bytes].concat());
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_converted() {
        let seeds = conversion_seeds();
        assert_eq!(seeds.len(), ALL.len());
        assert!(seeds.iter().all(|seed| converts(seed)));
    }
}
