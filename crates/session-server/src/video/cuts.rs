//! Path 9/13: under video.rs, which asks of each picture before it is coded.
//! Whether a picture is the first of another scene, by the means of its blocks.
//! Knows luma; never what is made of it.
//!
//! A picture that leans on one of another scene takes what one takes that leans on none, and more: its quantizer is bound to that of
//! the picture before.

use thinc_video::PlanesRef;

/// Edge of a block, in samples: what moves by less than that leaves its mean nearly as it was.
const BLOCK: usize = 16;
/// Every so many rows of a block are read.
const ROWS: usize = 4;
/// Levels by which the means differ at least, and how many times more than those of the picture before did: what pans fast, flickers or
/// fades does so for some pictures.
const LEVELS_MIN: u32 = 14;
const TIMES_MORE: u32 = 3;

/// Remembers one stream's last picture.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    means: Vec<u8>,
    last: Vec<u8>,
    /// By how many levels the last two differed.
    differed: u32,
}

impl Cuts {
    /// True where this picture has little in common with the one that was asked of before. The first has none before it.
    pub(super) fn begins_scene(&mut self, picture: &PlanesRef<'_>) -> bool {
        std::mem::swap(&mut self.means, &mut self.last);
        self.means.clear();
        let (width, height) = (picture.size().width as usize, picture.size().height as usize);
        for y in (0..height).step_by(BLOCK) {
            let rows = (y..height.min(y + BLOCK)).step_by(ROWS).map(|y| picture.row(0, y));
            for x in (0..width).step_by(BLOCK) {
                let end = width.min(x + BLOCK);
                let block = rows.clone().map(|row| row[x..end].iter().map(|&level| u32::from(level)).sum::<u32>());
                let count = rows.len() * (end - x);
                self.means.push((block.sum::<u32>() / count as u32) as u8);
            }
        }
        if self.last.len() != self.means.len() {
            self.differed = 0;
            return false;
        }
        let pairs = self.means.iter().zip(&self.last);
        let differ = pairs.map(|(a, b)| u32::from(a.abs_diff(*b))).sum::<u32>() / self.means.len().max(1) as u32;
        let before = std::mem::replace(&mut self.differed, differ);
        differ >= LEVELS_MIN && differ >= before * TIMES_MORE
    }
}

#[cfg(test)]
mod tests {
    use thinc_region::Size;
    use thinc_video::{Layout, Planes};

    use super::*;

    const SIZE: Size = Size { width: 200, height: 120 };

    fn picture(level: impl Fn(i32, i32) -> i32) -> Planes {
        let mut planes = Planes::new();
        planes.reset(SIZE, Layout::Yuv420);
        let [luma, ..] = planes.planes_mut();
        for (i, sample) in luma.iter_mut().enumerate() {
            let (x, y) = (i as i32 % SIZE.width as i32, i as i32 / SIZE.width as i32);
            *sample = level(x, y).rem_euclid(256) as u8;
        }
        planes
    }

    /// Hills, and grain that changes all the time.
    fn scene(seed: i32, x: i32, y: i32) -> i32 {
        let hills = ((x * (seed + 1)) as f32 / 60.0).sin() * 60.0 + ((y * (seed + 2)) as f32 / 45.0).cos() * 50.0;
        128 + hills as i32 + (x * 31 + y * 17 + seed * 7) % 8
    }

    #[test]
    fn another_scene_begins_where_a_film_cuts_and_nowhere_else() {
        let mut cuts = Cuts::default();
        let found: Vec<usize> = (0..60)
            .filter(|&number| {
                let (shot, moved) = (number as i32 / 20, number as i32 * 4);
                cuts.begins_scene(&picture(|x, y| scene(shot, x + moved, y)).as_ref())
            })
            .collect();
        assert_eq!(found, [20, 40], "it pans by four samples a picture, and cuts twice");
    }

    #[test]
    fn what_fades_flickers_or_becomes_another_size_begins_none() {
        let mut cuts = Cuts::default();
        for light in 0..24 {
            let fades = picture(|x, y| scene(1, x, y) * (24 - light) / 24);
            assert!(!cuts.begins_scene(&fades.as_ref()), "{light}");
        }
        let found = (0..20).filter(|number| cuts.begins_scene(&picture(|_, _| number % 2 * 90).as_ref())).count();
        assert!(found <= 1, "what flickers is the same scene: {found}");
        let mut other = Planes::new();
        other.reset(Size { width: 64, height: 64 }, Layout::Yuv420);
        assert!(!cuts.begins_scene(&other.as_ref()));
    }
}
