//! Path 8/13: between session-server's framebuffer and its snapshot, for a viewer with a scaled
//! view.
//! Computes the pixels of any rectangle of the scaled view from those of the screen. Each depends
//! only on its position, so rectangles have no seams, and reading again yields the same pixels.
//! Knows weights and pixels; `Scale` maps positions.
//!
//! Downscaled pixels are means of the screen pixels that they cover, weighted by coverage; upscaled
//! ones interpolate between two. All arithmetic is in integers, and the weights of an axis add up
//! to 256, so a single colour stays unchanged. Rows are summed first, in 16 bits per channel, which
//! the compiler vectorises; then columns, in 32 bits.

use thinc_region::{Rect, Scale};

/// Sum of a pixel's weights on one axis.
const ONE: u32 = 256;
/// Screen pixels read at once: 128 KiB, which stay in a core's cache until they are summed.
const BAND_PIXELS: usize = 32 * 1024;

/// Resamples; it reuses its memory.
#[derive(Debug, Default)]
pub struct Resampler {
    /// Screen pixels of some rows of the view, and their channels as bytes, on which the compiler
    /// vectorises.
    band: Vec<u32>,
    channels: Vec<u8>,
    /// Weighted sums of rows: four channels per screen column, times 256.
    sums: Vec<u16>,
    columns: Taps,
    rows: Taps,
}

/// Source pixels and weights for a range of pixels on one axis.
#[derive(Debug, Default)]
struct Taps {
    /// For each pixel its first screen pixel and the index of its first weight; a final entry has
    /// the end of the weights.
    firsts: Vec<(usize, usize)>,
    weights: Vec<u16>,
}

impl Taps {
    /// Computes the taps of the pixels `from .. to`, relative to their first screen pixel.
    fn fill(&mut self, scale: &Scale, from: i32, to: i32) {
        self.firsts.clear();
        self.weights.clear();
        let origin = scale.support(from).0;
        for pixel in from..to {
            let (first, end) = scale.support(pixel);
            self.firsts.push(((first - origin) as usize, self.weights.len()));
            weigh(scale, pixel, (end - first) as usize, &mut self.weights);
        }
        self.firsts.push((0, self.weights.len()));
    }

    fn len(&self) -> usize {
        self.firsts.len() - 1
    }

    /// The first screen pixel and the weights of pixel `at`.
    fn of(&self, at: usize) -> (usize, &[u16]) {
        let (first, begin) = self.firsts[at];
        (first, &self.weights[begin..self.firsts[at + 1].1])
    }

    /// The screen pixel after the last one of pixel `at`.
    fn end(&self, at: usize) -> usize {
        let (first, weights) = self.of(at);
        first + weights.len()
    }
}

/// Appends the weights of a pixel's `len` screen pixels.
fn weigh(scale: &Scale, pixel: i32, len: usize, weights: &mut Vec<u16>) {
    if len == 1 {
        return weights.push(ONE as u16);
    }
    if scale.magnifies() {
        let (_, more) = scale.centre(pixel);
        let second = (more * 2 * i64::from(ONE) / (2 * i64::from(scale.target())) + 1) / 2;
        return weights.extend([ONE as u16 - second as u16, second as u16]);
    }
    // In units of 1/`target` screen pixel: the pixel begins `phase` units into its first screen
    // pixel and is `source` units long. Cumulative coverage is rounded rather than each weight, so
    // that the weights add up to ONE.
    let (n, t) = (i64::from(scale.source()), i64::from(scale.target()));
    let phase = i64::from(pixel) * n % t;
    let mut before = 0;
    for at in 1..=len as i64 {
        let covered = (at * t - phase).min(n);
        let up_to = ((2 * covered * i64::from(ONE) + n) / (2 * n)) as u16;
        weights.push(up_to - before);
        before = up_to;
    }
}

impl Resampler {
    /// Allocates nothing yet.
    pub fn new() -> Resampler {
        Resampler::default()
    }

    /// Writes the pixels of `rect` of the view to `to`, rows `stride` apart. `read(rect, to,
    /// stride)` writes those of a rectangle of the screen; it is called for every needed pixel, for
    /// a few of them twice.
    ///
    /// # Panics
    /// If `rect` is not inside the view, or its rows do not fit into `to`.
    pub fn resample(
        &mut self,
        (x, y): (&Scale, &Scale),
        rect: Rect,
        to: &mut [u32],
        stride: usize,
        mut read: impl FnMut(Rect, &mut [u32], usize),
    ) {
        if rect.is_empty() {
            return;
        }
        let view = Rect::new(0, 0, x.target() as i32, y.target() as i32);
        assert!(view.contains(&rect), "{rect:?} must lie inside the view {view:?}");
        if x.is_whole() && y.is_whole() {
            return read(rect.translate(x.start(), y.start()), to, stride);
        }
        self.columns.fill(x, rect.x1, rect.x2);
        self.rows.fill(y, rect.y1, rect.y2);
        let (left, right) = (x.support(rect.x1).0, x.support(rect.x2 - 1).1);
        let (top, width) = (y.support(rect.y1).0, (right - left) as usize);
        let mut at = 0;
        while at < self.rows.len() {
            let first = self.rows.of(at).0;
            let fits = |end: usize| (end - first) * width <= BAND_PIXELS;
            let more =
                (at + 1..self.rows.len()).take_while(|&next| fits(self.rows.end(next))).count();
            let end = at + 1 + more;
            let height = self.rows.end(end - 1) - first;
            self.band.resize(width * height, 0);
            let y1 = top + first as i32;
            read(Rect { x1: left, y1, x2: right, y2: y1 + height as i32 }, &mut self.band, width);
            self.channels.resize(self.band.len() * 4, 0);
            for (channels, pixel) in self.channels.as_chunks_mut().0.iter_mut().zip(&self.band) {
                *channels = pixel.to_le_bytes();
            }
            for row in at..end {
                self.row(row, first, width, &mut to[row * stride..][..rect.width() as usize]);
            }
            at = end;
        }
    }

    /// Computes one row of the view from a band of screen rows that begins at `band_first`.
    fn row(&mut self, row: usize, band_first: usize, width: usize, to: &mut [u32]) {
        let (first, weights) = self.rows.of(row);
        let band = &self.channels[(first - band_first) * width * 4..];
        self.sums.clear();
        self.sums.resize(width * 4, 0);
        for (line, &weight) in band.chunks_exact(width * 4).zip(weights) {
            add(&mut self.sums, line, weight);
        }
        let sums = self.sums.as_chunks::<4>().0;
        for (at, pixel) in to.iter_mut().enumerate() {
            let (first, weights) = self.columns.of(at);
            let mut channels = [1 << 15; 4];
            for (sum, &weight) in sums[first..].iter().zip(weights) {
                for (channel, &sum) in channels.iter_mut().zip(sum) {
                    *channel += u32::from(sum) * u32::from(weight);
                }
            }
            *pixel = u32::from_le_bytes(channels.map(|channel| (channel >> 16) as u8));
        }
    }
}

/// Adds a weighted row of the screen, channel by channel. No sum exceeds 255 · 256.
fn add(sums: &mut [u16], line: &[u8], weight: u16) {
    for (sum, &channel) in sums.iter_mut().zip(line) {
        *sum += u16::from(channel) * weight;
    }
}
