//! Path 9/13: from encoder.rs, for CURSOR BITS.
//! Encodes the two planes of a two-colour cursor; not compressed yet.
//! Knows which pixels have which colour; never the colours.

/// Replaces `out` with two planes of one bit per pixel, rows padded to bytes, the first pixel in
/// the highest bit: `fore`, then `inside`. Pixels outside have no foreground, so that equal images
/// yield equal bytes.
pub(crate) fn planes(width: usize, fore: &[bool], inside: &[bool], out: &mut Vec<u8>) {
    assert_eq!(fore.len(), inside.len(), "both planes must have the same size");
    out.clear();
    for (fore, inside) in fore.chunks(width.max(1)).zip(inside.chunks(width.max(1))) {
        let seen: Vec<bool> =
            fore.iter().zip(inside).map(|(&fore, &inside)| fore && inside).collect();
        row(&seen, out);
    }
    inside.chunks(width.max(1)).for_each(|inside| row(inside, out));
}

fn row(pixels: &[bool], out: &mut Vec<u8>) {
    out.extend(pixels.chunks(8).map(|eight| {
        eight.iter().enumerate().fold(0, |byte, (i, &on)| byte | u8::from(on) << (7 - i))
    }));
}
