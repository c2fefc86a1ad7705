//! Path 9/13: under video.rs, for each frame before it is encoded.
//! Detects scene cuts from the mean luma of blocks. Knows luma; never how the frame is encoded.
//!
//! At a scene cut, a frame that refers to the previous one takes more bits than a keyframe: its
//! quantizer may not differ much from the previous one's.

use thinc_video::PlanesRef;

/// Edge of a block, in samples: motion by less than that barely changes the mean.
const BLOCK_SAMPLES: usize = 16;
/// Every so many rows of a block are read.
const ROW_STEP: usize = 4;
/// Smallest mean difference of the blocks at a cut, in levels, and by how many times it must exceed
/// the difference before: fast pans, flicker and fades differ as much for several frames.
const DIFFERENCE_MIN: u32 = 14;
const DIFFERENCE_GROWTH_MIN: u32 = 3;

/// The block means of one stream's last frame.
#[derive(Debug, Default)]
pub(super) struct SceneCuts {
    means: Vec<u8>,
    previous: Vec<u8>,
    /// Mean difference of the last two frames, in levels.
    difference: u32,
}

impl SceneCuts {
    /// True if this frame has little in common with the one of the last call; false for the first.
    pub(super) fn is_scene_cut(&mut self, picture: &PlanesRef<'_>) -> bool {
        std::mem::swap(&mut self.means, &mut self.previous);
        self.means.clear();
        let (width, height) = (picture.size().width as usize, picture.size().height as usize);
        for y in (0..height).step_by(BLOCK_SAMPLES) {
            let rows =
                (y..height.min(y + BLOCK_SAMPLES)).step_by(ROW_STEP).map(|y| picture.row(0, y));
            for x in (0..width).step_by(BLOCK_SAMPLES) {
                let end = width.min(x + BLOCK_SAMPLES);
                let block = rows
                    .clone()
                    .map(|row| row[x..end].iter().map(|&level| u32::from(level)).sum::<u32>());
                let count = rows.len() * (end - x);
                self.means.push((block.sum::<u32>() / count as u32) as u8);
            }
        }
        if self.previous.len() != self.means.len() {
            self.difference = 0;
            return false;
        }
        let pairs = self.means.iter().zip(&self.previous);
        let mean_difference = pairs.map(|(a, b)| u32::from(a.abs_diff(*b))).sum::<u32>()
            / self.means.len().max(1) as u32;
        let before = std::mem::replace(&mut self.difference, mean_difference);
        mean_difference >= DIFFERENCE_MIN && mean_difference >= before * DIFFERENCE_GROWTH_MIN
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Size;
    use thinc_video::{Planes, SampleLayout};

    use super::*;

    const SIZE: Size = Size { width: 200, height: 120 };

    fn picture(level: impl Fn(i32, i32) -> i32) -> Planes {
        let mut planes = Planes::new();
        planes.reset(SIZE, SampleLayout::Yuv420);
        let [luma, ..] = planes.planes_mut();
        for (i, sample) in luma.iter_mut().enumerate() {
            let (x, y) = (i as i32 % SIZE.width as i32, i as i32 / SIZE.width as i32);
            *sample = level(x, y).rem_euclid(256) as u8;
        }
        planes
    }

    /// Smooth hills, with grain that changes all the time.
    fn scene(seed: i32, x: i32, y: i32) -> i32 {
        let hills = ((x * (seed + 1)) as f32 / 60.0).sin() * 60.0
            + ((y * (seed + 2)) as f32 / 45.0).cos() * 50.0;
        128 + hills as i32 + (x * 31 + y * 17 + seed * 7) % 8
    }

    #[test]
    fn a_scene_starts_at_a_cut_and_nowhere_else() {
        let mut scene_cuts = SceneCuts::default();
        let found: Vec<usize> = (0..60)
            .filter(|&number| {
                let (shot, moved) = (number as i32 / 20, number as i32 * 4);
                scene_cuts.is_scene_cut(&picture(|x, y| scene(shot, x + moved, y)).as_ref())
            })
            .collect();
        assert_eq!(found, [20, 40], "it pans by four samples a frame, and cuts twice");
    }

    #[test]
    fn fades_flicker_and_new_sizes_are_not_cuts() {
        let mut scene_cuts = SceneCuts::default();
        for light in 0..24 {
            let fades = picture(|x, y| scene(1, x, y) * (24 - light) / 24);
            assert!(!scene_cuts.is_scene_cut(&fades.as_ref()), "{light}");
        }
        let found = (0..20)
            .filter(|number| scene_cuts.is_scene_cut(&picture(|_, _| number % 2 * 90).as_ref()))
            .count();
        assert!(found <= 1, "flicker is the same scene: {found}");
        let mut other = Planes::new();
        other.reset(Size { width: 64, height: 64 }, SampleLayout::Yuv420);
        assert!(!scene_cuts.is_scene_cut(&other.as_ref()));
    }
}
