//! Pictures made from seeds: photographs (fractal landscapes and faces of rock, with the grain of a
//! sensor), logos, charts and textures, in the sizes that pages want, as JPEG and PNG.
//! Knows pixels; never which page shows them.

use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use super::{Noise, Random};
use crate::Error;

/// Rows of pixels, three bytes each: red, green, blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `width * height * 3` bytes.
    pub rgb: Vec<u8>,
}

/// A colour, each part from 0 to 255; more or less is cut when it is drawn.
type Colour = [f32; 3];

impl Bitmap {
    /// One colour.
    pub fn new(width: usize, height: usize, colour: [u8; 3]) -> Bitmap {
        Bitmap { width, height, rgb: colour.repeat(width * height) }
    }

    /// From pixels as X has them, `0x00RRGGBB`.
    pub fn of_pixels(width: usize, height: usize, pixels: &[u32]) -> Bitmap {
        let rgb = pixels
            .iter()
            .flat_map(|pixel| [(pixel >> 16) as u8, (pixel >> 8) as u8, *pixel as u8])
            .collect();
        Bitmap { width, height, rgb }
    }

    /// A picture whose every pixel is asked for.
    fn of(width: usize, height: usize, mut colour: impl FnMut(usize, usize) -> Colour) -> Bitmap {
        let mut rgb = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                rgb.extend(colour(x, y).map(|part| part.round().clamp(0.0, 255.0) as u8));
            }
        }
        Bitmap { width, height, rgb }
    }

    fn fill(&mut self, left: usize, top: usize, width: usize, height: usize, colour: [u8; 3]) {
        for y in top..(top + height).min(self.height) {
            for x in left..(left + width).min(self.width) {
                let at = (y * self.width + x) * 3;
                self.rgb[at..at + 3].copy_from_slice(&colour);
            }
        }
    }

    /// Lays `colour` over the picture where `cover` says so (0 to 1), as smooth edges want it.
    fn blend(&mut self, colour: Colour, cover: impl Fn(f32, f32) -> f32) {
        for y in 0..self.height {
            for x in 0..self.width {
                let share = cover(x as f32 + 0.5, y as f32 + 0.5).clamp(0.0, 1.0);
                let at = (y * self.width + x) * 3;
                for (part, new) in self.rgb[at..at + 3].iter_mut().zip(colour) {
                    *part = (f32::from(*part) + (new - f32::from(*part)) * share)
                        .round()
                        .clamp(0.0, 255.0) as u8;
                }
            }
        }
    }

    /// As a JPEG file of this quality (1 to 100).
    pub fn jpeg(&self, quality: u8) -> Result<Vec<u8>, Error> {
        let (width, height, pixels) = (self.width, self.height, self.rgb.as_slice());
        let mut jpeg = Compressor::new()?;
        jpeg.set_quality(quality.into())?;
        jpeg.set_subsamp(Subsamp::Sub2x2)?;
        let format = PixelFormat::RGB;
        Ok(jpeg.compress_to_vec(Image { pixels, width, pitch: width * 3, height, format })?)
    }

    /// As a PNG file.
    pub fn png(&self) -> Result<Vec<u8>, Error> {
        let mut file = Vec::new();
        let mut encoder =
            png::Encoder::new(&mut file, u32::try_from(self.width)?, u32::try_from(self.height)?);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.rgb)?;
        writer.finish()?;
        Ok(file)
    }

    /// How many colours it has: a photograph has thousands, a logo tens to hundreds.
    pub fn colours(&self) -> usize {
        self.rgb.chunks_exact(3).collect::<std::collections::HashSet<_>>().len()
    }
}

fn between(from: Colour, to: Colour, share: f32) -> Colour {
    let share = share.clamp(0.0, 1.0);
    [0, 1, 2].map(|i| from[i] + (to[i] - from[i]) * share)
}

/// A colour of this hue (0 to 1), saturation and lightness.
fn hue(hue: f32, saturation: f32, lightness: f32) -> Colour {
    [0.0, 2.0 / 3.0, 1.0 / 3.0].map(|shift| {
        // Red is full around 0, green around a third, blue around two thirds of the circle.
        let wave = (((hue + shift).fract() * 6.0 - 3.0).abs() - 1.0).clamp(0.0, 1.0);
        255.0 * (lightness + saturation * (wave - 0.5) * (1.0 - (2.0 * lightness - 1.0).abs()))
    })
}

fn bytes(colour: Colour) -> [u8; 3] {
    colour.map(|part| part.round().clamp(0.0, 255.0) as u8)
}

/// What a photograph shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Sky with clouds, hills behind each other, a meadow or the sea before them.
    Landscape,
    /// A round thing in light from one side before a blurred ground: fruit, a ball, a face.
    Thing,
    /// Bark, rock, cloth, water from near.
    Surface,
}

/// A photograph: smooth light, detail at every scale and the grain of a sensor, so that it is as
/// hard to compress as one.
pub fn photo(seed: u64, width: usize, height: usize, scene: Scene) -> Bitmap {
    let mut random = Random::new(seed);
    let noise = Noise::new(seed);
    let detail = Noise::new(seed ^ 0xd7);
    let (w, h) = (width as f32, height as f32);
    let base = random.unit();
    let grain_size = random.between(4.0, 9.0);
    let mut grain = Random::new(seed ^ 0x6121);
    let mut grained = |colour: Colour| {
        let speck = (grain.unit() + grain.unit() - 1.0) * grain_size;
        colour.map(|part| part + speck)
    };
    match scene {
        Scene::Landscape => {
            let horizon = random.between(0.35, 0.6);
            let (zenith, haze) =
                (hue(0.55 + base * 0.1, 0.7, 0.45), hue(0.5 + base * 0.15, 0.4, 0.85));
            let ground = hue(random.between(0.08, 0.4), 0.55, 0.32);
            let light = random.between(0.15, 0.35);
            Bitmap::of(width, height, |x, y| {
                let (u, v) = (x as f32 / h, y as f32 / h);
                let mut colour = between(zenith, haze, v / horizon);
                let cloud = noise.fractal(u * 3.0, v * 7.0 + 9.0, 6);
                colour = between(colour, [250.0, 250.0, 252.0], (cloud - 0.5) * 4.0);
                // Four ranges of hills, the nearer the darker and the more detailed.
                for range in 0..4_u8 {
                    let near = f32::from(range) / 3.0;
                    let ridge = horizon - 0.13 + near * 0.3
                        - (noise.fractal(u * (2.0 + near * 3.0) + f32::from(range) * 17.0, 0.5, 5)
                            - 0.5)
                            * (0.4 - near * 0.15);
                    if v > ridge {
                        let rough =
                            detail.fractal(u * 14.0 * (1.0 + near), v * 20.0 * (1.0 + near), 5);
                        let slope = rough
                            - detail.fractal(
                                u * 14.0 * (1.0 + near) + 0.3,
                                v * 20.0 * (1.0 + near) - 0.3,
                                5,
                            );
                        let hill = between(haze, ground, 0.25 + near * 0.75);
                        let shade = 0.6 + rough * 0.5 + slope * (1.0 + light) + (v - ridge) * 0.3;
                        colour = hill.map(|part| part * shade);
                    }
                }
                grained(colour)
            })
        }
        Scene::Thing => {
            let (cx, cy) = (w * random.between(0.35, 0.65), h * random.between(0.45, 0.6));
            let radius = w.min(h) * random.between(0.28, 0.4);
            let (skin, spot) =
                (hue(base, 0.75, 0.5), hue(base + random.between(0.05, 0.2), 0.6, 0.4));
            let (back, table) =
                (hue(base + 0.5, 0.25, random.between(0.3, 0.8)), hue(0.09, 0.4, 0.35));
            Bitmap::of(width, height, |x, y| {
                let (dx, dy) = ((x as f32 - cx) / radius, (y as f32 - cy) / radius);
                let far = dx * dx + dy * dy;
                let mut colour = if y as f32 > h * 0.72 {
                    let wood = noise.fractal(x as f32 / h * 2.0, y as f32 / h * 22.0, 5);
                    let shadow = 1.0
                        - 0.6
                            * (1.0 - (dx * dx * 0.6 + (dy - 1.0) * (dy - 1.0) * 9.0))
                                .clamp(0.0, 1.0);
                    table.map(|part| part * (0.5 + wood) * shadow)
                } else {
                    between(
                        back,
                        [235.0, 232.0, 225.0],
                        noise.fractal(x as f32 / h * 1.7, y as f32 / h * 1.7, 3) * 0.9,
                    )
                };
                if far < 1.02 {
                    let dz = (1.0 - far).max(0.0).sqrt();
                    let marks = detail.fractal(dx * 4.0 + 7.0, dy * 4.0 / (dz + 0.4), 6);
                    let lit = (0.35 + 0.75 * (-0.5 * dx - 0.6 * dy + 0.62 * dz)).clamp(0.12, 1.3);
                    let shine = (-0.45 * dx - 0.55 * dy + 0.7 * dz).max(0.0).powi(24) * 200.0;
                    let body =
                        between(skin, spot, (marks - 0.4) * 3.0).map(|part| part * lit + shine);
                    // The edge of the lens is not sharp: two pixels of blend.
                    colour = between(body, colour, (far - 1.0) * radius * 0.25 + 0.5);
                }
                grained(colour)
            })
        }
        Scene::Surface => {
            let (dark, bright) = (hue(base, 0.5, 0.22), hue(base + 0.08, 0.45, 0.7));
            let (sx, sy) = (random.between(3.0, 9.0), random.between(3.0, 9.0));
            let bend = random.between(0.5, 3.0);
            Bitmap::of(width, height, |x, y| {
                let (u, v) = (x as f32 / h, y as f32 / h);
                let warp = noise.fractal(u * sx, v * sy, 4) * bend;
                let rock = detail.fractal(u * sx + warp, v * sy - warp, 7);
                let lit = rock - detail.fractal(u * sx + warp + 0.06, v * sy - warp + 0.06, 7);
                grained(
                    between(dark, bright, (rock - 0.2) * 1.6).map(|part| part * (1.0 + lit * 5.0)),
                )
            })
        }
    }
}

/// A logo: flat shapes with smooth edges on one ground.
pub fn logo(seed: u64, width: usize, height: usize, ground: [u8; 3]) -> Bitmap {
    let mut random = Random::new(seed);
    let mut picture = Bitmap::new(width, height, ground);
    let (w, h) = (width as f32, height as f32);
    let base = random.unit();
    let radius = h * 0.42;
    let (cx, cy) = (h * 0.55, h * 0.5);
    let disc =
        move |r: f32| move |x: f32, y: f32| r - ((x - cx).powi(2) + (y - cy).powi(2)).sqrt() + 0.5;
    picture.blend(hue(base, 0.9, 0.4), disc(radius));
    picture.blend(ground.map(f32::from), disc(radius * 0.62));
    picture.blend(hue(base + 0.3, 0.9, 0.5), disc(radius * 0.4));
    // Bars and rings for the glyphs of a name.
    let mut left = h * 1.25;
    while left + h * 0.5 < w {
        let colour = hue(base + 0.02, 0.85, 0.3);
        let (kind, wide) = (random.below(4), h * random.between(0.3, 0.45));
        let (top, bottom, stroke) = (h * 0.28, h * 0.75, h * 0.09);
        let bar = move |x0: f32, x1: f32, y0: f32, y1: f32| {
            move |x: f32, y: f32| {
                (x - x0 + 0.5).min(x1 - x + 0.5).min(y - y0 + 0.5).min(y1 - y + 0.5)
            }
        };
        picture.blend(colour, bar(left, left + stroke, top, bottom));
        match kind {
            0 => picture.blend(colour, bar(left, left + wide, bottom - stroke, bottom)),
            1 => {
                picture.blend(colour, bar(left, left + wide, top, top + stroke));
                picture.blend(
                    colour,
                    bar(left, left + wide, (top + bottom) / 2.0, (top + bottom) / 2.0 + stroke),
                );
            }
            2 => {
                let (mx, my, r) = (left + wide * 0.5, (top + bottom) / 2.0, wide * 0.5);
                picture.blend(colour, move |x, y| {
                    let d = ((x - mx).powi(2) + (y - my).powi(2)).sqrt();
                    (r - d + 0.5).min(d - r + stroke + 0.5)
                });
            }
            _ => picture.blend(colour, bar(left + wide - stroke, left + wide, top, bottom)),
        }
        left += wide + h * 0.18;
    }
    picture
}

/// A chart: columns, or two lines with an area, over a grid.
pub fn chart(seed: u64, width: usize, height: usize) -> Bitmap {
    let mut random = Random::new(seed);
    let mut picture = Bitmap::new(width, height, [255; 3]);
    let (left, bottom) = (34, height.saturating_sub(22));
    for line in 0..6 {
        picture.fill(left, 10 + line * (bottom - 10) / 6, width - left - 8, 1, [221; 3]);
        // A label: a few short strokes, as small digits look from afar.
        for digit in 0..3 {
            picture.fill(8 + digit * 7, 7 + line * (bottom - 10) / 6, 5, 7, [120; 3]);
            picture.fill(10 + digit * 7, 9 + line * (bottom - 10) / 6, 1, 3, [255; 3]);
        }
    }
    picture.fill(left, 8, 1, bottom - 8, [60; 3]);
    picture.fill(left, bottom, width - left - 8, 1, [60; 3]);
    let base = random.unit();
    let span = (bottom - 20) as f32;
    if random.below(2) == 0 {
        let columns = 6 + random.below(7);
        let step = (width - left - 16) / columns;
        for column in 0..columns {
            for (part, shade) in [(0, 0.45), (1, 0.65)] {
                let tall = (span * random.between(0.15, 0.95)) as usize;
                let colour = bytes(hue(base + part as f32 * 0.12, 0.75, shade));
                picture.fill(
                    left + 8 + column * step + part * step * 2 / 5,
                    bottom - tall,
                    step * 2 / 5,
                    tall,
                    colour,
                );
            }
            picture.fill(left + 8 + column * step + step / 4, bottom + 6, step / 3, 7, [120; 3]);
        }
    } else {
        for series in 0..2_u8 {
            let noise = Noise::new(seed.wrapping_add(u64::from(series)));
            let colour = hue(base + f32::from(series) * 0.4, 0.8, 0.42);
            let line = |x: f32| {
                bottom as f32 - span * (0.1 + 0.8 * noise.fractal(x / width as f32 * 8.0, 0.0, 4))
            };
            if series == 0 {
                picture.blend(colour, |x, y| {
                    let inside = x > left as f32 && x < width as f32 - 8.0 && y < bottom as f32;
                    if inside { (y - line(x)).clamp(0.0, 0.25) } else { 0.0 }
                });
            }
            picture.blend(colour, |x, y| {
                let inside = x > left as f32 && x < width as f32 - 8.0;
                if inside { 1.8 - (y - line(x)).abs() } else { 0.0 }
            });
        }
    }
    picture
}

/// A small tile for the ground of a page: paper, cloth, stripes.
pub fn tile(seed: u64, size: usize) -> Bitmap {
    let mut random = Random::new(seed);
    let paper = hue(random.unit(), 0.5, random.between(0.9, 0.95));
    let stripes = random.below(3);
    Bitmap::of(size, size, |x, y| {
        let mark = match stripes {
            0 => f32::from(u8::from((x + y) % 8 < 2)) * 6.0,
            1 => f32::from(u8::from(x % 4 == 0 || y % 4 == 0)) * 5.0,
            _ => random.unit() * 9.0,
        };
        paper.map(|part| part - mark)
    })
}

/// A sign of 16 colours or so at most: an arrow, a star of bars, a folder.
pub fn icon(seed: u64, size: usize, ground: [u8; 3]) -> Bitmap {
    let mut random = Random::new(seed);
    let mut picture = Bitmap::new(size, size, ground);
    let colour = hue(random.unit(), 0.85, 0.45);
    let (s, kind) = (size as f32, random.below(3));
    picture.blend(colour, move |x, y| {
        let (u, v) = (x / s - 0.5, y / s - 0.5);
        s * match kind {
            0 => 0.42 - (u.abs() + v.abs()),
            1 => (0.36 - u.abs()).min(0.26 - (v - 0.05).abs()),
            _ => (0.4 - (u * u + v * v).sqrt()).min((u * u + v * v).sqrt() - 0.16),
        }
    });
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_the_same_for_a_seed_and_another_for_another() {
        for scene in [Scene::Landscape, Scene::Thing, Scene::Surface] {
            assert_eq!(photo(3, 64, 48, scene), photo(3, 64, 48, scene));
            assert_ne!(photo(3, 64, 48, scene), photo(4, 64, 48, scene));
        }
        assert_eq!(chart(9, 200, 120), chart(9, 200, 120));
        assert_eq!(logo(9, 200, 40, [255; 3]), logo(9, 200, 40, [255; 3]));
    }

    /// Bits a pixel as JPEG at quality 85: photographs of cameras lie between 1 and 4, drawings far
    /// below as PNG.
    #[test]
    fn photographs_are_as_hard_to_compress_as_photographs_and_drawings_as_easy_as_drawings() {
        for scene in [Scene::Landscape, Scene::Thing, Scene::Surface] {
            for seed in 0..4 {
                let picture = photo(seed, 320, 240, scene);
                let bits = picture.jpeg(85).unwrap().len() as f64 * 8.0 / (320.0 * 240.0);
                assert!((0.8..4.5).contains(&bits), "{scene:?} {seed}: {bits} bits a pixel");
                assert!(
                    picture.colours() > 5_000,
                    "{scene:?} {seed}: {} colours",
                    picture.colours()
                );
                let exact = picture.png().unwrap().len() as f64 * 8.0 / (320.0 * 240.0);
                assert!(exact > 8.0, "{scene:?} {seed}: {exact} bits a pixel without loss");
            }
        }
        for seed in 0..4 {
            let drawings =
                [chart(seed, 320, 240), logo(seed, 320, 60, [255; 3]), icon(seed, 64, [255; 3])];
            for picture in drawings {
                let pixels = (picture.width * picture.height) as f64;
                let bits = picture.png().unwrap().len() as f64 * 8.0 / pixels;
                assert!(bits < 4.0, "{} x {}: {bits} bits a pixel", picture.width, picture.height);
                assert!(picture.colours() < 1_200, "{} colours", picture.colours());
                assert!(picture.colours() > 2, "nothing is drawn");
            }
        }
    }
}
