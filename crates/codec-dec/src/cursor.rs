//! Path 11/13: from lib.rs, for CURSOR BITS.
//! Paints a two-colour cursor from its source and mask planes.
//! Knows planes and colours, which are separate because colours may change without the planes.

use crate::OPAQUE;

/// Length of both planes in bytes.
pub(crate) const fn planes_len((width, height): (usize, usize)) -> usize {
    2 * width.div_ceil(8) * height
}

/// Replaces `out` with premultiplied 0xAARRGGBB, rows without padding; `colors` are foreground and
/// background.
///
/// # Panics
/// If `planes` do not have this size.
pub fn paint(
    planes: &[u8],
    (width, height): (usize, usize),
    colors: (u32, u32),
    out: &mut Vec<u32>,
) {
    assert_eq!(
        planes.len(),
        planes_len((width, height)),
        "there must be two planes of {width}x{height} pixels"
    );
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
