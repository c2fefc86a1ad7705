//! Beside paint.rs: positions of a line's pixels between the samples of a plane, and horizontal
//! interpolation of a row of samples. The specification's arithmetic, cached while place and crop
//! stay the same. Knows one axis and one plane at a time; never colours.

use thinc_protocol::video::{SampleLayout, Source};
use thinc_region::{Rect, Size};

/// One axis of a place, its crop and a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Number of the place's pixels.
    pub(crate) target: i64,
    /// First luma sample of the crop, and their number.
    pub(crate) start: i64,
    pub(crate) count: i64,
    /// Luma samples that one sample of the plane covers.
    pub(crate) density: i64,
    /// Number of the plane's samples.
    pub(crate) samples: i64,
}

/// A position between two samples: the first one's index, and the weight, of 256, of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tap {
    pub(crate) first: u16,
    pub(crate) weight: u16,
}

impl Axis {
    /// Position of pixel `i` of the place (`doc/protocol.md`, section 9).
    pub(crate) fn tap(&self, i: i64) -> Tap {
        let &Axis { target, start, count, density, samples } = self;
        let at = (256 * (2 * start * target + (2 * i + 1) * count)) / (2 * target * density) - 128;
        let last = 256 * (samples - 1);
        let high = (256 * ((start + count + density - 1) / density - 1)).min(last);
        let low = (256 * (start / density)).min(last);
        let at = at.min(high).max(low);
        Tap { first: (at / 256) as u16, weight: (at % 256) as u16 }
    }
}

/// The horizontal and the vertical axes, each for luma and for chroma.
pub(crate) fn axes(layout: SampleLayout, source: &Source, place: &Rect) -> ([Axis; 2], [Axis; 2]) {
    let density = match layout {
        SampleLayout::Yuv420 => Size { width: 2, height: 2 },
        SampleLayout::Yuv422 => Size { width: 2, height: 1 },
        SampleLayout::Yuv444 => Size { width: 1, height: 1 },
    };
    // Only the source: the padding of a coded frame is not shown.
    let colour = layout.chroma(source.size);
    let axis = |target: i32, start: i32, count: i32, density: u32, samples: u32| Axis {
        target: i64::from(target),
        start: i64::from(start),
        count: i64::from(count),
        density: i64::from(density),
        samples: i64::from(samples),
    };
    let across = |density, samples| {
        axis(place.width(), source.crop.x1, source.crop.width(), density, samples)
    };
    let down = |density, samples| {
        axis(place.height(), source.crop.y1, source.crop.height(), density, samples)
    };
    (
        [across(1, source.size.width), across(density.width, colour.width)],
        [down(1, source.size.height), down(density.height, colour.height)],
    )
}

/// Regular patterns of positions: most videos are not scaled, and chroma is then upsampled by two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// One sample per pixel, from this one on.
    Same {
        first: usize,
    },
    /// From pixel `from` to `to`, two pixels lie between each two samples, at one quarter and three
    /// quarters.
    Twofold {
        from: usize,
        to: usize,
    },
    Any,
}

/// Positions of a span of the place's pixels between the samples of a plane.
#[derive(Debug)]
pub(crate) struct Columns {
    of: Option<(Axis, i64, usize)>,
    taps: Vec<Tap>,
    pattern: Pattern,
    /// Each sample with the next one, so that a pixel needs one read.
    pairs: Vec<[u8; 2]>,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns { of: None, taps: Vec::new(), pattern: Pattern::Any, pairs: Vec::new() }
    }
}

impl Columns {
    /// Sets the span to `len` pixels from `from` on.
    pub(crate) fn set(&mut self, axis: Axis, from: i64, len: usize) {
        if self.of == Some((axis, from, len)) {
            return;
        }
        self.of = Some((axis, from, len));
        self.taps.clear();
        self.taps.extend((from..from + len as i64).map(|i| axis.tap(i)));
        self.pattern = pattern(&self.taps);
    }

    /// True if each pixel is one sample.
    pub(crate) fn is_same(&self) -> bool {
        matches!(self.pattern, Pattern::Same { .. })
    }

    /// The samples themselves, if each pixel is one.
    pub(crate) fn same<'a>(&self, row: &'a [u8]) -> Option<&'a [u8]> {
        match self.pattern {
            Pattern::Same { first } => Some(&row[first..first + self.taps.len()]),
            Pattern::Twofold { .. } | Pattern::Any => None,
        }
    }

    /// Interpolates a row of samples, with 8 fractional bits.
    pub(crate) fn interpolate(&mut self, row: &[u8], out: &mut Vec<u16>) {
        out.resize(self.taps.len(), 0);
        match self.pattern {
            Pattern::Same { first } => {
                for (out, &sample) in out.iter_mut().zip(&row[first..]) {
                    *out = u16::from(sample) << 8;
                }
            }
            Pattern::Twofold { from, to } => {
                let one =
                    |tap: &Tap| between(row[usize::from(tap.first)], second(row, *tap), tap.weight);
                for i in (0..from).chain(to..out.len()) {
                    out[i] = one(&self.taps[i]);
                }
                let first = usize::from(self.taps[from].first);
                let (pixels, _) = out[from..to].as_chunks_mut::<2>();
                for ((pixels, &a), &b) in
                    pixels.iter_mut().zip(&row[first..]).zip(&row[first + 1..])
                {
                    let (a, b) = (u16::from(a), u16::from(b));
                    *pixels = [(3 * a + b) << 6, (a + 3 * b) << 6];
                }
            }
            Pattern::Any => {
                self.pairs.clear();
                self.pairs.extend(row.windows(2).map(|pair| [pair[0], pair[1]]));
                // After the last sample the weight is 0.
                self.pairs.extend(row.last().map(|&last| [last, last]));
                for (out, tap) in out.iter_mut().zip(&self.taps) {
                    let [a, b] = self.pairs[usize::from(tap.first)];
                    *out = between(a, b, tap.weight);
                }
            }
        }
    }
}

fn between(a: u8, b: u8, weight: u16) -> u16 {
    u16::from(a) * (256 - weight) + u16::from(b) * weight
}

fn second(row: &[u8], tap: Tap) -> u8 {
    row[usize::from(tap.first) + usize::from(tap.weight > 0)]
}

fn pattern(taps: &[Tap]) -> Pattern {
    let Some(&Tap { first, .. }) = taps.first() else {
        return Pattern::Any;
    };
    let first = usize::from(first);
    if taps
        .iter()
        .enumerate()
        .all(|(i, tap)| usize::from(tap.first) == first + i && tap.weight == 0)
    {
        return Pattern::Same { first };
    }
    // Except at the edges of the crop, which have no second sample.
    let Some(from) = taps.iter().position(|tap| tap.weight == 64) else {
        return Pattern::Any;
    };
    let base = usize::from(taps[from].first);
    let is_twofold = |(i, tap): (usize, &Tap)| {
        usize::from(tap.first) == base + i / 2 && tap.weight == [64, 192][i % 2]
    };
    let len = taps[from..].iter().enumerate().take_while(|&pixel| is_twofold(pixel)).count() & !1;
    if len + 4 < taps.len() { Pattern::Any } else { Pattern::Twofold { from, to: from + len } }
}
