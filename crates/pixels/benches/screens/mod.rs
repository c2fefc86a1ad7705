//! The screens of the function benches, drawn in every run: a terminal, a page, a photograph.
//! Included by the benches of pixels, codec-enc and viewer-core. The text is a licence, which never
//! changes. Knows pixels and a font; never what is measured.

#[allow(
    dead_code,
    unused_imports,
    reason = "the viewer's overlay uses more of its font than a bench does"
)]
#[path = "../../../viewer-native/src/font.rs"]
mod font;

use thinc_pixels::coverage::Line;
use thinc_pixels::{RGB, Snapshot};
use thinc_region::{Rect, Region, Size};

pub(crate) const SIZE: Size = Size { width: 1024, height: 768 };
const TEXT: &str = include_str!("../../../../LICENSE-APACHE");
const WHITE: u32 = 0x00ff_ffff;
const INK: u32 = 0x0020_2124;

/// A screen full of pixels, 0x00RRGGBB.
#[derive(Clone)]
pub(crate) struct Screen(pub(crate) Vec<u32>);

impl Screen {
    /// A snapshot of the whole screen.
    #[allow(dead_code, reason = "not every bench uses whole screens")]
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&SIZE.rect())
    }

    /// A snapshot of a part.
    pub(crate) fn snapshot_of(&self, rect: &Rect) -> Snapshot {
        let mut snapshot = Snapshot::new();
        snapshot.fill(&Region::from(*rect), |rect, dst, stride| {
            for (row, dst) in self.rows(&rect).zip(dst.chunks_mut(stride)) {
                dst[..row.len()].copy_from_slice(row);
            }
        });
        snapshot
    }

    /// The input of zstd-1 in the simplest design: three bytes per pixel.
    #[allow(dead_code, reason = "only the codec bench has this reference")]
    pub(crate) fn packed(&self) -> Vec<u8> {
        self.0.iter().flat_map(|pixel| pixel.to_le_bytes().into_iter().take(3)).collect()
    }

    fn rows(&self, rect: &Rect) -> impl Iterator<Item = &[u32]> {
        let (x1, x2) = (rect.x1 as usize, rect.x2 as usize);
        self.0
            .chunks_exact(SIZE.width as usize)
            .skip(rect.y1 as usize)
            .take(rect.height() as usize)
            .map(move |r| &r[x1..x2])
    }

    fn draw(&mut self, rect: Rect, pixel: impl Fn(i32, i32) -> Option<u32>) {
        let rect = rect.intersect(&SIZE.rect());
        for y in rect.y1..rect.y2 {
            for x in rect.x1..rect.x2 {
                if let Some(color) = pixel(x - rect.x1, y) {
                    self.0[y as usize * SIZE.width as usize + x as usize] = color & RGB;
                }
            }
        }
    }

    fn fill(&mut self, rect: Rect, color: u32) {
        self.draw(rect, |_, _| Some(color));
    }

    /// Text without antialiasing, 6 x 10 pixels per character.
    fn dots(&mut self, x: i32, y: i32, text: &str, color: u32) {
        for (i, character) in text.chars().enumerate() {
            let rows = font::glyph(character);
            self.draw(
                Rect::at(x + i as i32 * font::ADVANCE, y, font::GLYPH_WIDTH, font::GLYPH_HEIGHT),
                |dx, at| {
                    (rows[(at - y) as usize] >> (font::GLYPH_WIDTH - 1 - dx) & 1 == 1)
                        .then_some(color)
                },
            );
        }
    }

    /// Antialiased text: dots `quarters`/4 pixels wide at multiples of a quarter pixel, with
    /// sixteen samples per pixel.
    fn smooth(
        &mut self,
        x: i32,
        y: i32,
        quarters: i32,
        text: &str,
        color: u32,
        above: Option<i32>,
    ) {
        for (i, character) in text.chars().enumerate() {
            let rows = font::glyph(character);
            let start = i as i32 * font::ADVANCE * quarters;
            let left = x + start / 4;
            let samples = |at: i32, dx: i32| {
                let lit = |sample: i32| {
                    let (sx, sy) = (dx * 4 + sample % 4 - start % 4, (at - y) * 4 + sample / 4);
                    let (column, row) = (sx.div_euclid(quarters), sy.div_euclid(quarters));
                    (0..font::GLYPH_WIDTH).contains(&column)
                        && rows
                            .get(row as usize)
                            .is_some_and(|row| row >> (font::GLYPH_WIDTH - 1 - column) & 1 == 1)
                };
                (0..16).filter(|&sample| lit(sample)).count() as u32
            };
            let rect = Rect::at(
                left,
                y,
                font::ADVANCE * quarters / 4 + 1,
                font::GLYPH_HEIGHT * quarters / 4 + 1,
            );
            let line = Line::new(color, WHITE);
            self.draw(rect, |dx, at| {
                let lit = samples(at, dx);
                (lit > 0 && above.is_none_or(|top| at >= top))
                    .then(|| line.pixel((lit * 255 / 16) as u8))
            });
        }
    }
}

/// A terminal, black on white, `first` lines further down in its text.
pub(crate) fn terminal(first: usize) -> Screen {
    let mut screen = Screen(vec![WHITE; SIZE.area() as usize]);
    for (i, line) in TEXT
        .lines()
        .cycle()
        .skip(first)
        .take(SIZE.height as usize / font::LINE_HEIGHT as usize)
        .enumerate()
    {
        screen.dots(2, i as i32 * font::LINE_HEIGHT + 1, line, 0);
    }
    screen
}

/// A page in a browser: a bar with a gradient, a side panel, antialiased text with headings and
/// links, an image; scrolled down by `top` pixels, except for the bar and the panel.
pub(crate) fn page(top: i32) -> Screen {
    let mut screen = Screen(vec![WHITE; SIZE.area() as usize]);
    let (bar, panel) = (80, 180);
    let mut y = bar + 12 - top;
    for (i, line) in TEXT.lines().cycle().take(300).enumerate() {
        let line = line.trim();
        let (quarters, color) = match i % 17 {
            0 => (12, 0x0010_3060),
            5 => (7, 0x001a_0dab),
            _ => (7, INK),
        };
        if i % 23 == 11 {
            let image = Rect::at(panel + 40, y.max(bar), 320, 180 - (bar - y).max(0));
            if !image.is_empty() && y < SIZE.height as i32 {
                screen.draw(image, |dx, at| Some(light(dx as u32, (at - y) as u32)));
            }
            y += 190;
        }
        if y > bar - 40 && y < SIZE.height as i32 {
            screen.smooth(panel + 24, y, quarters, line, color, Some(bar));
        }
        y += quarters * 3;
    }
    screen.draw(Rect::new(0, 0, SIZE.width as i32, bar), |_, y| {
        Some((0xf4 - y as u32 / 4) * 0x0001_0101)
    });
    screen.smooth(90, 50, 7, "https://www.example.org/licenses/apache-2.0", INK, None);
    screen.fill(Rect::new(0, bar, panel, SIZE.height as i32), 0x00f0_f0f4);
    for i in 0..24 {
        screen.dots(
            16,
            bar + 14 + i * 24,
            &TEXT.lines().nth(i as usize * 5 + 7).unwrap_or_default().trim()[..]
                .chars()
                .take(24)
                .collect::<String>(),
            0x0050_5058,
        );
    }
    screen
}

/// The page with one more character.
#[allow(dead_code, reason = "only the plan bench uses it")]
pub(crate) fn page_with_glyph() -> Screen {
    let mut screen = page(0);
    screen.smooth(700, 300, 7, "e", INK, None);
    screen
}

/// A photograph: smooth gradients with a sensor's noise.
pub(crate) fn photograph() -> Screen {
    let width = SIZE.width;
    Screen((0..SIZE.area() as u32).map(|i| light(i % width, i / width)).collect())
}

fn light(x: u32, y: u32) -> u32 {
    let grain = noise(3, x, y) & 3;
    let wave =
        |f: f64| ((f64::from(x) / f).sin() * (f64::from(y) / 90.0).cos() * 100.0 + 128.0) as u32;
    (wave(70.0) + grain) << 16 | (wave(110.0) + grain) << 8 | (wave(160.0) + grain)
}

fn noise(seed: u32, x: u32, y: u32) -> u32 {
    let mut n = seed ^ x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca6b);
    n = (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d);
    n ^ (n >> 12)
}
