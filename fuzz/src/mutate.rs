//! Seeded mutations of well-formed inputs: tests without coverage, the same on every machine.
//! Beside the path. `./dev fuzz` does not use it: libFuzzer mutates better. Knows bytes only.

/// 64 KiB: longest input, as long as the longest frame of a viewer.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Bytes at which parsers branch: ends of varints, signs, powers of two.
const EDGE_BYTES: [u8; 8] = [0x00, 0x01, 0x3f, 0x40, 0x7f, 0x80, 0xfe, 0xff];

/// A small random number generator (xorshift64*): a failing seed fails on every machine.
pub struct Random(u64);

impl Random {
    /// The same seed always gives the same numbers.
    pub fn new(seed: u64) -> Random {
        // Zero is the only state that the generator never leaves.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() >> 16) as usize % limit
    }
}

/// Changes `input` in one to four places: bits, bytes, lengths, order, or a piece of another seed.
pub fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(8) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = random.number() as u8,
            2 if at < input.len() => input[at] = EDGE_BYTES[random.below(EDGE_BYTES.len())],
            3 => input.truncate(at),
            4 => {
                let end = at + random.below(16).min(input.len() - at);
                input.drain(at..end);
            }
            5 => {
                let byte = EDGE_BYTES[random.below(EDGE_BYTES.len())];
                let count = 1 + random.below(16);
                input.splice(at..at, std::iter::repeat_n(byte, count));
            }
            6 => {
                let end = at + random.below(64).min(input.len() - at);
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                let begin = random.below(other.len() + 1);
                let end = begin + random.below(other.len() - begin + 1);
                input.splice(at..at, other[begin..end].iter().copied());
            }
        }
        input.truncate(INPUT_BYTES_MAX);
    }
}
