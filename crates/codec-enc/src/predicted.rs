//! Path 9/13: from encoder.rs, for RAW and PFILL; the twin of codec-dec/predicted.rs, where the operations are pictured.
//! Pixels in reading order to byte operations: the longest run, then the cache, then the smallest difference.
//! Knows 24-bit pixels without a stride; never rectangles.

use thinc_codec_dec::predicted::{CACHE_LEN, PIXEL_BYTES_MAX, channels, hash, op, predict};

/// Replaces `out` with the operations for `pixels`, rows of `width`; the pixels' top bytes are 0.
pub fn encode(pixels: &[u32], width: usize, out: &mut Vec<u8>) {
    // Room for the worst case first, so that no operation asks for memory; the rest is given back by truncating.
    out.clear();
    out.resize(pixels.len() * PIXEL_BYTES_MAX, 0);
    let mut writer = Writer { bytes: out, at: 0 };
    let mut cache = [0u32; CACHE_LEN];
    let mut before = 0u32;
    let mut i = 0;
    while i < pixels.len() {
        let pixel = pixels[i];
        if pixel == before {
            let len = pixels[i..].iter().take_while(|&&p| p == pixel).count();
            writer.run(len, op::RUN_MAX, op::RUN, op::RUN_LONG);
            i += len;
            continue;
        }
        if i >= width && pixel == pixels[i - width] {
            let above = &pixels[i - width..];
            let len = pixels[i..].iter().zip(above).take_while(|(p, above)| p == above).count();
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
    let len = writer.at;
    out.truncate(len);
}

struct Writer<'o> {
    bytes: &'o mut [u8],
    at: usize,
}

impl Writer<'_> {
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
