//! Path 11/13: from lib.rs, for CURSOR BITS.
//! A cursor of two colours from its two planes: where the foreground is, and where the image is at all.
//! Knows planes and colours; they are kept apart, because colours may change without them.

use crate::OPAQUE;

/// Bytes of both planes.
pub const fn planes_len((width, height): (usize, usize)) -> usize {
    2 * width.div_ceil(8) * height
}

/// Replaces `out` with premultiplied 0xAARRGGBB, rows without gaps; `colors` are foreground and background.
///
/// # Panics
/// When `planes` are not those of this size.
pub fn paint(planes: &[u8], (width, height): (usize, usize), colors: (u32, u32), out: &mut Vec<u32>) {
    assert_eq!(planes.len(), planes_len((width, height)), "two planes of {width}x{height} pixels");
    let (fore, back) = (colors.0 | OPAQUE, colors.1 | OPAQUE);
    let row_len = width.div_ceil(8).max(1);
    let (sources, masks) = planes.split_at(planes.len() / 2);
    out.clear();
    for (source, mask) in sources.chunks_exact(row_len).zip(masks.chunks_exact(row_len)) {
        let bit = |bits: &[u8], x: usize| bits[x / 8] & (0x80 >> (x % 8)) != 0;
        out.extend((0..width).map(|x| match (bit(mask, x), bit(source, x)) {
            (false, _) => 0,
            (true, true) => fore,
            (true, false) => back,
        }));
    }
}
