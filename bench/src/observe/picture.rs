//! A picture of a screen, and the similarity of two pictures. From a screen's pixels to shares and
//! decibels; also written as PNG for people. Knows pixels; never the time of a picture.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use x11rb::connection::Connection;
use x11rb::cookie::Cookie;
use x11rb::protocol::xproto::{
    ConnectionExt as _, GetImageReply, ImageFormat, ImageOrder, VisualClass,
};
use x11rb::rust_connection::RustConnection;

use crate::Error;

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rect {
    /// Left edge.
    pub x: i32,
    /// Top edge.
    pub y: i32,
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

impl Rect {
    /// A rectangle with its upper left corner at `x`, `y`.
    pub const fn new(x: i32, y: i32, width: u32, height: u32) -> Rect {
        Rect { x, y, width, height }
    }

    /// Right edge, exclusive.
    pub fn right(&self) -> i32 {
        self.x.saturating_add_unsigned(self.width)
    }

    /// Bottom edge, exclusive.
    pub fn bottom(&self) -> i32 {
        self.y.saturating_add_unsigned(self.height)
    }

    /// Pixels in it.
    pub fn area(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// The part that both cover.
    pub fn intersect(&self, other: &Rect) -> Option<Rect> {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let (right, bottom) = (self.right().min(other.right()), self.bottom().min(other.bottom()));
        (right > x && bottom > y).then(|| Rect::new(x, y, (right - x) as u32, (bottom - y) as u32))
    }
}

impl fmt::Display for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}{:+}{:+}", self.width, self.height, self.x, self.y)
    }
}

impl FromStr for Rect {
    type Err = String;

    /// As X programs write it: `WIDTHxHEIGHT`, or `WIDTHxHEIGHT+X+Y`.
    fn from_str(text: &str) -> Result<Rect, String> {
        let wrong =
            || format!("`{text}` is no rectangle: write WIDTHxHEIGHT+X+Y, such as 640x480+10+20");
        let (width, rest) = text.split_once('x').ok_or_else(wrong)?;
        let at = rest.find(['+', '-']).unwrap_or(rest.len());
        let (height, corner) = rest.split_at(at);
        let (x, y) = match corner.get(1..) {
            None | Some("") if corner.is_empty() => ("0", "0"),
            Some(tail) => corner.split_at(1 + tail.find(['+', '-']).ok_or_else(wrong)?),
            None => return Err(wrong()),
        };
        let rect = Rect {
            x: x.parse().map_err(|_| wrong())?,
            y: y.parse().map_err(|_| wrong())?,
            width: width.parse().map_err(|_| wrong())?,
            height: height.parse().map_err(|_| wrong())?,
        };
        if rect.width == 0 || rect.height == 0 { Err(wrong()) } else { Ok(rect) }
    }
}

/// Pixels of a screen or of a part of it, row by row, each `0x00RRGGBB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
    /// `width * height` of them.
    pub pixels: Vec<u32>,
}

impl Picture {
    /// A picture of a single colour.
    pub fn new(width: u32, height: u32, pixel: u32) -> Picture {
        Picture { width, height, pixels: vec![pixel; width as usize * height as usize] }
    }

    /// The root window of `display`, as its X server has it (GetImage).
    pub fn of_display(display: &str, xauthority: Option<&Path>) -> Result<Picture, Error> {
        let (x, screen) = super::connect_screen(display, xauthority)?;
        let root = &x.setup().roots[screen];
        let whole =
            Rect::new(0, 0, u32::from(root.width_in_pixels), u32::from(root.height_in_pixels));
        let picture = Picture::of_drawable(&x, root.root, root.root_visual, whole);
        picture.map_err(|error| format!("no picture of the X display {display}: {error}").into())
    }

    /// A part of a drawable that is drawn with `visual`. It must lie within the drawable and, for a
    /// window, on the screen.
    pub(crate) fn of_drawable(
        x: &RustConnection,
        drawable: u32,
        visual: u32,
        rect: Rect,
    ) -> Result<Picture, Error> {
        let layout = Layout::of(x, visual)?;
        let image = request_image(x, drawable, rect)?.reply()?;
        layout.picture(&image, rect)
    }

    /// All of it.
    pub fn rect(&self) -> Rect {
        Rect::new(0, 0, self.width, self.height)
    }

    /// The part under `rect`; the part outside of the picture is left out.
    pub fn crop(&self, rect: Rect) -> Picture {
        let Some(rect) = rect.intersect(&self.rect()) else { return Picture::new(0, 0, 0) };
        let (from, to) = (rect.x as usize, rect.right() as usize);
        let rows = (rect.y as usize..rect.bottom() as usize).flat_map(|y| &self.row(y)[from..to]);
        Picture { width: rect.width, height: rect.height, pixels: rows.copied().collect() }
    }

    /// The pixels of one row.
    pub fn row(&self, y: usize) -> &[u32] {
        let width = self.width as usize;
        &self.pixels[y * width..(y + 1) * width]
    }

    /// Writes it as PNG.
    pub fn write_png(&self, file: &Path) -> Result<(), Error> {
        let cannot = |error: &dyn fmt::Display| {
            format!("cannot write the picture {}: {error}", file.display())
        };
        let output = std::io::BufWriter::new(std::fs::File::create(file).map_err(|e| cannot(&e))?);
        let mut encoder = png::Encoder::new(output, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let bytes: Vec<u8> = self.pixels.iter().flat_map(|&pixel| channels(pixel)).collect();
        let mut writer = encoder.write_header().map_err(|e| cannot(&e))?;
        writer.write_image_data(&bytes).map_err(|e| cannot(&e))?;
        Ok(writer.finish().map_err(|e| cannot(&e))?)
    }
}

/// Red, green and blue.
pub(crate) fn channels(pixel: u32) -> [u8; 3] {
    let [_, red, green, blue] = pixel.to_be_bytes();
    [red, green, blue]
}

/// Share of pixels that are the same in both, 0 to 1; a pixel that only one of them has is not the
/// same.
pub fn exact_share(a: &Picture, b: &Picture) -> f64 {
    let all = union_area(a, b);
    if all == 0.0 { 1.0 } else { pairs(a, b).filter(|(a, b)| a == b).count() as f64 / all }
}

/// Peak signal-to-noise ratio over the three channels, dB; 99 stands for identical. A pixel that
/// only one of them has is wrong by all 255 levels.
pub fn psnr_db(a: &Picture, b: &Picture) -> f64 {
    /// More than two different pictures can have: one level in one channel of 2^32 pixels is less.
    const IDENTICAL_DB: f64 = 99.0;
    let all = union_area(a, b);
    let square = |(a, b): (u32, u32)| -> u64 {
        channels(a).iter().zip(channels(b)).map(|(&a, b)| u64::from(a.abs_diff(b)).pow(2)).sum()
    };
    let shared: u64 = pairs(a, b).map(square).sum();
    let alone = all - pairs(a, b).count() as f64;
    let error = shared as f64 + alone * 3.0 * 255.0 * 255.0;
    if error == 0.0 {
        IDENTICAL_DB
    } else {
        (10.0 * (3.0 * all * 255.0 * 255.0 / error).log10()).min(IDENTICAL_DB)
    }
}

/// Pixels that at least one of two pictures has, aligned at their upper left corners.
fn union_area(a: &Picture, b: &Picture) -> f64 {
    let shared = u64::from(a.width.min(b.width)) * u64::from(a.height.min(b.height));
    (a.rect().area() + b.rect().area() - shared) as f64
}

/// Pixels that both have.
fn pairs<'a>(a: &'a Picture, b: &'a Picture) -> impl Iterator<Item = (u32, u32)> + 'a {
    let width = a.width.min(b.width) as usize;
    (0..a.height.min(b.height) as usize)
        .flat_map(move |y| a.row(y)[..width].iter().copied().zip(b.row(y)[..width].iter().copied()))
}

/// Requests a part of a drawable.
pub(crate) fn request_image(
    x: &RustConnection,
    drawable: u32,
    rect: Rect,
) -> Result<Cookie<'_, RustConnection, GetImageReply>, Error> {
    let wrong = |_| format!("{rect} exceeds the 16-bit coordinates of X");
    let corner = (i16::try_from(rect.x).map_err(wrong)?, i16::try_from(rect.y).map_err(wrong)?);
    let size =
        (u16::try_from(rect.width).map_err(wrong)?, u16::try_from(rect.height).map_err(wrong)?);
    Ok(x.get_image(ImageFormat::Z_PIXMAP, drawable, corner.0, corner.1, size.0, size.1, u32::MAX)?)
}

/// The pixel layout of a visual in an image.
pub(crate) struct Layout {
    masks: [u32; 3],
    order: ImageOrder,
    /// Bits of a pixel and of the unit that rows are filled up to, by depth.
    formats: Vec<(u8, u32, u32)>,
}

impl Layout {
    /// The layout of `visual`.
    pub(crate) fn of(x: &RustConnection, visual: u32) -> Result<Layout, Error> {
        let setup = x.setup();
        let mut visuals = setup
            .roots
            .iter()
            .flat_map(|screen| &screen.allowed_depths)
            .flat_map(|depth| &depth.visuals);
        let found = visuals.find(|candidate| candidate.visual_id == visual);
        let found = found.ok_or_else(|| format!("the X server has no visual {visual:#x}"))?;
        if !matches!(found.class, VisualClass::TRUE_COLOR | VisualClass::DIRECT_COLOR) {
            return Err(format!(
                "visual {visual:#x} has a palette; only screens of true colour can be read"
            )
            .into());
        }
        let formats = setup.pixmap_formats.iter();
        Ok(Layout {
            masks: [found.red_mask, found.green_mask, found.blue_mask],
            order: setup.image_byte_order,
            formats: formats
                .map(|f| (f.depth, u32::from(f.bits_per_pixel), u32::from(f.scanline_pad)))
                .collect(),
        })
    }

    /// The picture in an image of the size of `rect`.
    pub(crate) fn picture(&self, image: &GetImageReply, rect: Rect) -> Result<Picture, Error> {
        let format = self.formats.iter().find(|format| format.0 == image.depth);
        let &(depth, bits, pad) =
            format.ok_or_else(|| format!("no pixmap format of depth {}", image.depth))?;
        if !matches!(bits, 16 | 24 | 32) {
            return Err(format!(
                "a screen of depth {depth} with {bits} bits a pixel cannot be read"
            )
            .into());
        }
        let bytes = bits as usize / 8;
        let line = (rect.width as usize * bits as usize).div_ceil(pad as usize) * pad as usize / 8;
        if image.data.len() < line * rect.height as usize {
            return Err(
                format!("an image of {rect} has {} bytes, too few", image.data.len()).into()
            );
        }
        let native = self.masks == [0xff_0000, 0xff00, 0xff];
        let value = |pixel: &[u8]| {
            let fold = |value, &byte| value << 8 | u32::from(byte);
            let raw = if self.order == ImageOrder::LSB_FIRST {
                pixel.iter().rev().fold(0, fold)
            } else {
                pixel.iter().fold(0, fold)
            };
            if native {
                raw & 0xff_ffff
            } else {
                self.masks.iter().fold(0, |rgb, &mask| rgb << 8 | level(raw, mask))
            }
        };
        let rows = image.data.chunks_exact(line).take(rect.height as usize);
        let pixels =
            rows.flat_map(|row| row.chunks_exact(bytes).take(rect.width as usize).map(value));
        Ok(Picture { width: rect.width, height: rect.height, pixels: pixels.collect() })
    }
}

/// A channel scaled to 0 to 255.
fn level(raw: u32, mask: u32) -> u32 {
    if mask == 0 {
        return 0;
    }
    let most = u64::from(mask >> mask.trailing_zeros());
    ((u64::from((raw & mask) >> mask.trailing_zeros()) * 255 + most / 2) / most) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(width: u32, height: u32, mut seed: u32) -> Picture {
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        Picture { width, height, pixels: (0..width * height).map(|_| next()).collect() }
    }

    #[test]
    fn rectangles_are_read_as_x_programs_write_them() {
        assert_eq!("640x480+10-20".parse(), Ok(Rect::new(10, -20, 640, 480)));
        assert_eq!("640x480".parse(), Ok(Rect::new(0, 0, 640, 480)));
        for rect in [Rect::new(-5, 7, 1, 2), Rect::new(0, 0, 3, 3)] {
            assert_eq!(rect.to_string().parse(), Ok(rect));
        }
        for wrong in
            ["", "640", "640x", "x480", "640x480+", "640x480+1", "640x480+1+", "0x5+0+0", "axb"]
        {
            assert!(wrong.parse::<Rect>().is_err(), "{wrong:?} is no rectangle");
        }
    }

    #[test]
    fn a_crop_keeps_what_lies_within() {
        let picture = noise(7, 5, 1);
        let part = picture.crop(Rect::new(5, -1, 10, 3));
        assert_eq!((part.width, part.height), (2, 2));
        assert_eq!(part.row(1), &picture.row(1)[5..7]);
        assert!(picture.crop(Rect::new(7, 0, 1, 1)).pixels.is_empty());
    }

    #[test]
    fn similarity_follows_the_formulas() {
        let white = Picture::new(4, 4, 0xff_ffff);
        let mut other = white.clone();
        assert_eq!((exact_share(&white, &other), psnr_db(&white, &other)), (1.0, 99.0));
        other.pixels[3] = 0xff_fffe;
        assert_eq!(exact_share(&white, &other), 15.0 / 16.0);
        // One channel of 48 wrong by one level.
        assert!((psnr_db(&white, &other) - 10.0 * (48.0 * 255.0_f64.powi(2)).log10()).abs() < 1e-9);
        assert_eq!(psnr_db(&white, &Picture::new(4, 4, 0)), 0.0);
        // A row that one has and the other has not is wrong.
        assert_eq!(exact_share(&white, &Picture::new(4, 3, 0xff_ffff)), 12.0 / 16.0);
        assert!(
            (psnr_db(&white, &Picture::new(4, 3, 0xff_ffff)) - 10.0 * 4.0_f64.log10()).abs() < 1e-9
        );
    }

    #[test]
    fn a_png_holds_the_same_pixels() {
        let picture = noise(33, 9, 7);
        let file =
            std::env::temp_dir().join(format!("thinc-bench-picture-{}.png", std::process::id()));
        picture.write_png(&file).unwrap();
        let decoder =
            png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&file).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut bytes).unwrap();
        std::fs::remove_file(&file).unwrap();
        let pixels: Vec<u32> =
            bytes.chunks(3).map(|c| u32::from_be_bytes([0, c[0], c[1], c[2]])).collect();
        assert_eq!(pixels, picture.pixels);
    }

    #[test]
    fn images_of_every_layout_become_the_same_picture() {
        let image = |depth, data| GetImageReply { sequence: 0, depth, visual: 0, data };
        let rect = Rect::new(0, 0, 1, 2);
        let layout =
            |masks, order, depth, bits| Layout { masks, order, formats: vec![(depth, bits, 32)] };
        let wanted = Picture { width: 1, height: 2, pixels: vec![0xff_0000, 0x00_00ff] };
        let little = layout([0xff_0000, 0xff00, 0xff], ImageOrder::LSB_FIRST, 24, 32);
        assert_eq!(
            little.picture(&image(24, vec![0, 0, 255, 9, 255, 0, 0, 9]), rect).unwrap(),
            wanted
        );
        let big = layout([0xff_0000, 0xff00, 0xff], ImageOrder::MSB_FIRST, 24, 32);
        assert_eq!(
            big.picture(&image(24, vec![9, 255, 0, 0, 9, 0, 0, 255]), rect).unwrap(),
            wanted
        );
        let small = layout([0xf800, 0x7e0, 0x1f], ImageOrder::LSB_FIRST, 16, 16);
        assert_eq!(
            small.picture(&image(16, vec![0, 0xf8, 0, 0, 0x1f, 0, 0, 0]), rect).unwrap(),
            wanted
        );
        assert!(small.picture(&image(16, vec![0; 4]), rect).is_err(), "half an image is none");
        assert!(
            small.picture(&image(8, vec![0; 8]), rect).is_err(),
            "an unknown depth is an error"
        );
    }
}
