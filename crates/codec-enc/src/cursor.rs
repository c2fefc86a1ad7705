//! Path 9/13: from encoder.rs, for CURSOR BITS.
//! The two planes of a cursor of two colours, not yet packed.
//! Knows which pixels have which colour; never the colours.

/// Replaces `out` with two planes of a bit a pixel, rows padded to bytes, the first pixel highest: `fore`, then `inside`.
/// What is not inside has no foreground either, so that equal pictures are equal bytes.
pub(crate) fn planes(width: usize, fore: &[bool], inside: &[bool], out: &mut Vec<u8>) {
    assert_eq!(fore.len(), inside.len(), "both planes are of one cursor");
    out.clear();
    for (fore, inside) in fore.chunks(width.max(1)).zip(inside.chunks(width.max(1))) {
        let seen: Vec<bool> = fore.iter().zip(inside).map(|(&fore, &inside)| fore && inside).collect();
        row(&seen, out);
    }
    inside.chunks(width.max(1)).for_each(|inside| row(inside, out));
}

fn row(pixels: &[bool], out: &mut Vec<u8>) {
    out.extend(
        pixels.chunks(8).map(|eight| eight.iter().enumerate().fold(0, |byte, (i, &on)| byte | u8::from(on) << (7 - i))),
    );
}
