//! Path 8/13: between session-server's framebuffer and its snapshot, for a viewer whose picture is not the screen pixel by pixel.
//! The pixels of any rectangle of a scaled picture, made of those of the screen: each by its own place alone, so that two rectangles
//! have no seam between them, and what is read again comes out the same.
//! Knows weights and pixels; where a pixel of the picture comes from, `Scale` says.
//!
//! Shrunk, a pixel is the mean of all that it covers, each pixel by how much of it is covered; magnified, it lies between two. All in whole
//! numbers: weights of one axis add up to 256, so one colour stays that colour. Rows are added up first, in 16 bits a channel, which the
//! compiler vectorises; then their columns, in 32.

use thinc_region::{Rect, Scale};

/// What the weights of a pixel on one axis add up to.
const ONE: u32 = 256;
/// Screen pixels read at once: 128 KiB, which stay in a core's cache until they are added up.
const BAND_PIXELS: usize = 32 * 1024;

/// Resamples; its memory is used again.
#[derive(Debug, Default)]
pub struct Resampler {
    /// Screen pixels of some rows of the picture, and their channels: on bytes in a row the compiler uses vectors.
    band: Vec<u32>,
    channels: Vec<u8>,
    /// Rows added up: four channels of each screen column, times 256.
    sums: Vec<u16>,
    columns: Taps,
    rows: Taps,
}

/// What the pixels of a stretch of one axis are made of.
#[derive(Debug, Default)]
struct Taps {
    /// Of each, the first screen pixel, and where its weights begin; the last one's end stands behind.
    firsts: Vec<(usize, usize)>,
    weights: Vec<u16>,
}

impl Taps {
    /// Of the pixels from `from` to before `to`, counted from the first screen pixel that any of them is made of.
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

    /// The first screen pixel, and the weights from there on.
    fn of(&self, at: usize) -> (usize, &[u16]) {
        let (first, begin) = self.firsts[at];
        (first, &self.weights[begin..self.firsts[at + 1].1])
    }

    /// The screen pixel behind the last.
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
    // In parts of a screen pixel, `target` each: the pixel begins `phase` of them into its first, and is `source` of them long. What is
    // covered up to each screen pixel's end is rounded, and not each weight, so that they add up.
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
    /// With no memory yet.
    pub fn new() -> Resampler {
        Resampler::default()
    }

    /// Puts the pixels of `rect` of the picture into `to`, rows `stride` apart. `read(rect, to, stride)` writes those of a rectangle of the
    /// screen; it is asked for each pixel that is needed, for few of them twice.
    ///
    /// # Panics
    /// Where `rect` is not inside the picture, or its rows do not fit into `to`.
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
        let picture = Rect::new(0, 0, x.target() as i32, y.target() as i32);
        assert!(picture.contains(&rect), "{rect:?} is outside a picture of {picture:?}");
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
            let more = (at + 1..self.rows.len()).take_while(|&next| fits(self.rows.end(next))).count();
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

    /// One row of the picture, from a band that begins at this row of the screen.
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

/// Adds a row of the screen, channel by channel. No sum is more than 255 · 256.
fn add(sums: &mut [u16], line: &[u8], weight: u16) {
    for (sum, &channel) in sums.iter_mut().zip(line) {
        *sum += u16::from(channel) * weight;
    }
}
