//! Path 12/13: from session-server or a viewer's decoder, into a framebuffer.
//! Scales a frame to its place and converts it to pixels within its clip, bit-exact to
//! `doc/protocol.md`, section 9.
//! Knows samples, places and clips; never streams, codecs or time.

use std::ops::Range;

use thinc_protocol::video::Source;
use thinc_region::{Rect, Region};

use crate::colour;
use crate::planes::PlanesRef;
use crate::taps::{self, Columns, Tap};

/// Paints frames. It reuses its memory, and the positions of samples while source and place stay
/// the same.
///
/// The specification interpolates rows and then columns, and rounds once after both, so
/// interpolating each row of samples horizontally first gives the same result; in an enlarged
/// video, one interpolated row serves several lines.
#[derive(Debug, Default)]
pub struct Painter {
    /// For luma and for chroma.
    columns: [Columns; 2],
    rows: [InterpolatedRows; 3],
    lines: [Vec<u8>; 3],
}

/// The two horizontally interpolated rows of a plane around the current line.
#[derive(Debug, Default)]
struct InterpolatedRows([(Option<usize>, Vec<u16>); 2]);

impl Painter {
    /// Allocates nothing yet.
    pub fn new() -> Painter {
        Painter::default()
    }

    /// Paints the part of `place` that lies in `clip` and in `pixels`, 0xFFRRGGBB, rows `stride`
    /// apart.
    ///
    /// `planes` may be larger than the source, as coded frames are. Smaller ones, a crop outside
    /// the source and an empty place are bugs of the caller: messages with those are refused when
    /// they are decoded.
    pub fn paint(
        &mut self,
        planes: &PlanesRef<'_>,
        source: &Source,
        place: Rect,
        clip: &Region,
        pixels: &mut [u32],
        stride: usize,
    ) {
        check(planes, source, &place);
        let rows = pixels.len().checked_div(stride).unwrap_or(0);
        let area =
            Rect::at(0, 0, stride as i32, rows as i32).intersect(&place).intersect(&clip.extents());
        if area.is_empty() {
            return;
        }
        let (across, down) = taps::axes(planes.layout(), source, &place);
        let (from, len) = (i64::from(area.x1 - place.x1), area.width() as usize);
        for (columns, axis) in self.columns.iter_mut().zip(across) {
            columns.set(axis, from, len);
        }
        for InterpolatedRows(rows) in &mut self.rows {
            rows.iter_mut().for_each(|(of, _)| *of = None);
        }
        for band in clip.rects().chunk_by(|a, b| a.y1 == b.y1) {
            let (y1, y2) = (band[0].y1.max(area.y1), band[0].y2.min(area.y2));
            for y in y1..y2 {
                let [luma, colour] = down.map(|axis| axis.tap(i64::from(y - place.y1)));
                let taps = [luma, colour, colour];
                for (plane, rows) in self.rows.iter_mut().enumerate() {
                    rows.prepare(planes, plane, taps[plane], &mut self.columns[plane.min(1)]);
                }
                let line = &mut pixels[y as usize * stride..][..stride];
                for rect in band {
                    let (x1, x2) = (rect.x1.max(area.x1), rect.x2.min(area.x2));
                    if x1 >= x2 {
                        continue;
                    }
                    let span = (x1 - area.x1) as usize..(x2 - area.x1) as usize;
                    let [luma, blue, red] = &mut self.lines;
                    let samples = |plane: usize, line| {
                        self.rows[plane].line(
                            planes,
                            plane,
                            taps[plane],
                            &self.columns[plane.min(1)],
                            &span,
                            line,
                        )
                    };
                    colour::to_pixels(
                        samples(0, luma),
                        samples(1, blue),
                        samples(2, red),
                        &mut line[x1 as usize..x2 as usize],
                    );
                }
            }
        }
    }
}

impl InterpolatedRows {
    /// Interpolates the rows that a line needs, unless the previous line needed them too.
    fn prepare(&mut self, planes: &PlanesRef<'_>, plane: usize, tap: Tap, columns: &mut Columns) {
        if tap.weight == 0 && columns.is_same() {
            return;
        }
        let first = usize::from(tap.first);
        let last = first + usize::from(tap.weight > 0);
        for row in first..=last {
            if self.0.iter().any(|(of, _)| *of == Some(row)) {
                continue;
            }
            let stale = self
                .0
                .iter_mut()
                .find(|(of, _)| !of.is_some_and(|of| (first..=last).contains(&of)));
            let (of, pixels) = stale.expect("a line needs two rows");
            columns.interpolate(planes.row(plane, row), pixels);
            *of = Some(row);
        }
    }

    fn row(&self, row: usize) -> &[u16] {
        let found = self.0.iter().find(|(of, _)| *of == Some(row));
        &found.expect("the rows of a line must be prepared").1
    }

    /// The samples of a span of a line's pixels; borrowed from the frame if it is not scaled,
    /// otherwise computed into `line`.
    fn line<'a>(
        &self,
        planes: &PlanesRef<'a>,
        plane: usize,
        tap: Tap,
        columns: &Columns,
        span: &Range<usize>,
        line: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let first = usize::from(tap.first);
        if tap.weight == 0 {
            if let Some(samples) = columns.same(planes.row(plane, first)) {
                return &samples[span.clone()];
            }
            line.clear();
            // At most 255 * 256 + 128.
            line.extend(
                self.row(first)[span.clone()].iter().map(|&sample| ((sample + 128) >> 8) as u8),
            );
            return line;
        }
        let (above, below) = (&self.row(first)[span.clone()], &self.row(first + 1)[span.clone()]);
        line.clear();
        line.extend(above.iter().zip(below).map(|(&above, &below)| {
            let sum = u32::from(above) * u32::from(256 - tap.weight)
                + u32::from(below) * u32::from(tap.weight);
            ((sum + 32768) >> 16) as u8
        }));
        line
    }
}

fn check(planes: &PlanesRef<'_>, source: &Source, place: &Rect) {
    let Source { size, crop } = source;
    assert!(!place.is_empty(), "a place must not be empty: {place:?}");
    assert!(
        !crop.is_empty() && size.rect().contains(crop),
        "{crop:?} is a part of a frame of {size:?}"
    );
    let is_whole = planes.size().width >= size.width && planes.size().height >= size.height;
    assert!(is_whole, "a frame of {:?} must contain {size:?}", planes.size());
}
