//! Path 9/13: from encoder.rs, for BITMAP.
//! Encodes two colours with one bit per pixel, blends of two colours with eight; not compressed
//! yet. Knows rows of a snapshot and two colours.

use thinc_codec_dec::RGB;
use thinc_pixels::Snapshot;
use thinc_pixels::coverage::Line;
use thinc_region::Rect;

/// Replaces `out` with one bit per pixel, 1 for `fg`, rows padded to bytes, the first pixel in the
/// highest bit.
pub(crate) fn bits(snapshot: &Snapshot, rect: &Rect, fg: u32, out: &mut Vec<u8>) {
    out.clear();
    for row in snapshot.rows(rect) {
        let (eights, rest) = row.as_chunks::<8>();
        // Independent bits let the compiler compare eight pixels at once.
        let bit = |(i, pixel): (usize, &u32)| if pixel & RGB == fg { 0x80 >> i } else { 0 };
        out.extend(eights.iter().map(|pixels| {
            pixels.iter().enumerate().map(bit).fold(0u32, |all, bit| all | bit) as u8
        }));
        if !rest.is_empty() {
            out.push(rest.iter().enumerate().map(bit).fold(0u32, |all, bit| all | bit) as u8);
        }
    }
}

/// Replaces `out` with one byte of coverage per pixel.
pub(crate) fn coverage(snapshot: &Snapshot, rect: &Rect, fg: u32, bg: u32, out: &mut Vec<u8>) {
    out.clear();
    let line = Line::new(fg, bg);
    let (mut before, mut value) = (bg, 0);
    for row in snapshot.rows(rect) {
        out.extend(row.iter().map(|pixel| {
            if pixel & RGB != before {
                before = pixel & RGB;
                value = line
                    .coverage(before)
                    .expect("every pixel of a planned Coverage must have a coverage");
            }
            value
        }));
    }
}
