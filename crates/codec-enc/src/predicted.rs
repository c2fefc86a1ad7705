//! Path 9/13: from encoder.rs, for RAW and PFILL; the twin of codec-dec/predicted.rs, where the operations are pictured.
//! Pixels in reading order to byte operations: the longest run, then the cache, then the smallest difference.
//! Knows 24-bit pixels without a stride; never rectangles.

use thinc_codec_dec::predicted::{CACHE_LEN, channels, hash, op, predict};

/// Replaces `out` with the operations for `pixels`, rows of `width`; the pixels' top bytes are 0.
pub fn encode(pixels: &[u32], width: usize, out: &mut Vec<u8>) {
    // By value, so that the buffer's place and length stay in registers.
    let mut writer = Writer { bytes: std::mem::take(out), at: 0 };
    let mut cache = [0u32; CACHE_LEN];
    let mut before = 0u32;
    let mut i = 0;
    while i < pixels.len() {
        writer.make_room();
        let pixel = pixels[i];
        if pixel == before {
            let rest = &pixels[i..];
            // Each pixel like the one before it, from the second on.
            let len = 1 + equal_len(&rest[1..], rest);
            writer.run(len, op::RUN_MAX, op::RUN, op::RUN_LONG);
            i += len;
            continue;
        }
        if i >= width && pixel == pixels[i - width] {
            let above = &pixels[i - width..];
            let len = equal_len(&pixels[i..], above);
            writer.run(len, op::ABOVE_MAX, op::ABOVE, op::ABOVE_LONG);
            i += len;
            before = pixels[i - 1];
            continue;
        }
        let slot = hash(pixel);
        if cache[slot] == pixel {
            writer.byte(slot as u8);
        } else {
            cache[slot] = pixel;
            writer.difference(channels(pixel), predict(pixels, i, width, before));
        }
        before = pixel;
        i += 1;
    }
    *out = writer.bytes;
    out.truncate(writer.at);
}

/// How many pixels of `a` are those of `b`, from their starts on.
#[inline(always)]
fn equal_len(a: &[u32], b: &[u32]) -> usize {
    // Text has short runs, which are over before a comparison of sixteen would pay.
    const NEAR: usize = 16;
    let near = a.iter().zip(b).take(NEAR).take_while(|(a, b)| a == b).count();
    if near < NEAR {
        return near;
    }
    let (a_blocks, b_blocks) = (a[NEAR..].as_chunks::<16>().0, b[NEAR..].as_chunks::<16>().0);
    let same = |(a, b): &(&[u32; 16], &[u32; 16])| a.iter().zip(*b).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
    let far = NEAR + a_blocks.iter().zip(b_blocks).take_while(same).count() * 16;
    far + a[far..].iter().zip(&b[far..]).take_while(|(a, b)| a == b).count()
}

/// Most bytes of an operation: a long run's code and the four groups of its length, of 2^28 pixels at most.
const OPERATION_BYTES_MAX: usize = 5;

struct Writer {
    bytes: Vec<u8>,
    at: usize,
}

impl Writer {
    /// Bytes have to be there, zeroed, before they are written; a page of text needs a fortieth of the worst case.
    #[inline(always)]
    fn make_room(&mut self) {
        if self.bytes.len() < self.at + OPERATION_BYTES_MAX {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.bytes.resize(self.at * 2 + 4096, 0);
    }

    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    fn run(&mut self, len: usize, short_max: usize, short: u8, long: u8) {
        if len <= short_max {
            return self.byte(short | (len - 1) as u8);
        }
        self.byte(long);
        let mut value = len - short_max - 1;
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline(always)]
    fn difference(&mut self, pixel: [u8; 3], predicted: [u8; 3]) {
        let [blue, green, red] = [0, 1, 2].map(|i| pixel[i].wrapping_sub(predicted[i]) as i8);
        let (red_more, blue_more) = (red.wrapping_sub(green), blue.wrapping_sub(green));
        let small = |d: i8| (-2..2).contains(&d);
        let near = |d: i8| (-8..8).contains(&d);
        if small(red) && small(green) && small(blue) {
            self.byte(op::SMALL | ((red + 2) << 4 | (green + 2) << 2 | (blue + 2)) as u8);
        } else if (-32..32).contains(&green) && near(red_more) && near(blue_more) {
            self.byte(op::MIDDLE | (green + 32) as u8);
            self.byte(((red_more + 8) as u8) << 4 | (blue_more + 8) as u8);
        } else {
            self.byte(op::WHOLE);
            self.byte(green as u8);
            self.byte(red_more as u8);
            self.byte(blue_more as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pixels_are_counted_to_the_first_that_differs() {
        let a: Vec<u32> = (0..100).collect();
        for len in 0..a.len() {
            for at in 0..len {
                let mut b = a[..len].to_vec();
                b[at] ^= 1;
                assert_eq!(equal_len(&a, &b), at);
                assert_eq!(equal_len(&b, &a[..len]), at);
            }
            assert_eq!(equal_len(&a[..len], &a), len);
        }
    }
}
