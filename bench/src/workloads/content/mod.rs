//! What workloads show, made from seeds when a run begins: pictures, pages and a video, with no
//! file of them in the tree. The same on every machine and in every year, so that two runs can be
//! compared. Knows pixels and HTML; never who shows them or what they cost.

pub mod clip;
pub mod code;
pub mod pages;
pub mod pictures;
pub mod sites;

/// A small generator of numbers that look random: SplitMix64 (Steele, Lea and Flood, 2014), the
/// same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A whole number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // The bias of a remainder is below 2^-32 for the small limits that content has.
        (self.bits() % limit as u64) as usize
    }

    /// A number from 0 to 1, 1 left out.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// A number from `from` to `to`, `to` left out.
    pub fn between(&mut self, from: f32, to: f32) -> f32 {
        from + (to - from) * self.unit()
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// The last step of SplitMix64: bits that lie near each other become bits that do not.
pub(crate) fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A landscape of heights between 0 and 1 over the plane: value noise, smooth between whole
/// coordinates.
#[derive(Clone, Copy, Debug)]
pub struct Noise(u64);

impl Noise {
    /// The landscape of this seed.
    pub fn new(seed: u64) -> Noise {
        Noise(mix(seed ^ 0x51_7c_c1_b7_27_22_0a_95))
    }

    fn corner(self, x: i32, y: i32) -> f32 {
        let place = (u64::from(x.cast_unsigned()) << 32) | u64::from(y.cast_unsigned());
        (mix(self.0 ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 40) as f32
            / (1_u64 << 24) as f32
    }

    /// Height at one place.
    pub fn at(self, x: f32, y: f32) -> f32 {
        let (left, top) = (x.floor(), y.floor());
        let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
        let (fx, fy) = (smooth(x - left), smooth(y - top));
        let (ix, iy) = (left as i32, top as i32);
        let upper = self.corner(ix, iy) + (self.corner(ix + 1, iy) - self.corner(ix, iy)) * fx;
        let lower =
            self.corner(ix, iy + 1) + (self.corner(ix + 1, iy + 1) - self.corner(ix, iy + 1)) * fx;
        upper + (lower - upper) * fy
    }

    /// Sum of `octaves` landscapes, each twice as fine and half as high as the one before: clouds,
    /// rock, skin.
    pub fn fractal(self, x: f32, y: f32, octaves: u32) -> f32 {
        let (mut sum, mut height, mut total, mut scale) = (0.0, 1.0, 0.0, 1.0);
        for octave in 0..octaves {
            sum += Noise(self.0.wrapping_add(u64::from(octave))).at(x * scale, y * scale) * height;
            total += height;
            height *= 0.5;
            scale *= 2.0;
        }
        sum / total
    }
}
