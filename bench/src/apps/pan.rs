//! A video that never ends: `thinc-bench app pan` pans over a scene, as a camera does, at a rate of
//! its own. Each frame has a grain of its own, so that no part of it equals what was shown before.
//! Bar codes at both edges hold the number of each frame, so that frames can be counted at the
//! viewer. A key stops it and lets it go on. Knows frames and their times; never who watches.

use std::time::{Duration, Instant};

use super::photo::{mix, photo};
use super::window::{Window, WindowEvent};
use crate::Error;
use crate::observe::barcode;
use crate::observe::picture::Rect;

/// Options of `thinc-bench app pan`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Width of a frame, pixels.
    #[arg(long, default_value_t = 480, value_parser = clap::value_parser!(u16).range(320..=4096))]
    width: u16,
    /// Height of a frame with its bar codes, pixels.
    #[arg(long, default_value_t = 320, value_parser = clap::value_parser!(u16).range(64..=4096))]
    height: u16,
    /// Frames a second.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=120))]
    rate: u32,
    /// Most that the grain of each frame changes a channel, levels of 255: 3 is a camera's, and of
    /// 40 no encoding makes little.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=127))]
    grain: u8,
}

/// The key that stops the video and lets it go on.
pub const KEY_PAUSE: &str = "g";
/// How far the camera goes in each direction, and from frame to frame, pixels.
const WAY: (u32, u32) = (256, 128);
const STEP: (u32, u32) = (4, 2);
const SEED: u64 = 31;
/// Values of grain, in an order that begins elsewhere for each frame; a prime, so that rows differ.
const GRAINS: u64 = 65_521;

/// Plays.
pub fn run(options: &Options) -> Result<(), Error> {
    let (width, height) = (options.width, options.height);
    let pan = Pan::new((width.into(), height.into()), options.grain);
    let mut window = Window::open("pan", (width, height), 0)?;
    let period = Duration::from_secs(1) / options.rate;
    let (mut number, mut due, mut is_playing) = (0, Instant::now(), true);
    loop {
        let happening = if is_playing { window.poll()? } else { Some(window.wait()?) };
        if happening == Some(WindowEvent::Key(u32::from(KEY_PAUSE.as_bytes()[0]))) {
            (is_playing, due) = (!is_playing, Instant::now());
        }
        if is_playing {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            window.put_whole(0, 0, width, &pan.frame(number))?;
            number += 1;
            // After a delay of the server, missed frames are not drawn.
            due = (due + period).max(Instant::now());
        }
    }
}

struct Pan {
    size: (u32, u32),
    scene: Vec<u32>,
    grains: Vec<i16>,
}

impl Pan {
    fn new(size: (u32, u32), grain_max: u8) -> Pan {
        let (width, height) = size;
        let scene = photo(SEED, width + WAY.0, height + WAY.1);
        let levels = 2 * u64::from(grain_max) + 1;
        let grain = |place| (mix(SEED ^ place) % levels) as i16 - i16::from(grain_max);
        Pan { size, scene, grains: (0..GRAINS).map(grain).collect() }
    }

    /// Frame `number`, from 0; its code is one more.
    fn frame(&self, number: u32) -> Vec<u32> {
        let (width, height) = self.size;
        let left = there_and_back(number.wrapping_mul(STEP.0), WAY.0);
        let top = there_and_back(number.wrapping_mul(STEP.1), WAY.1);
        let stride = (width + WAY.0) as usize;
        let rows = self.scene.chunks_exact(stride).skip(top as usize).take(height as usize);
        let part = left as usize..(left + width) as usize;
        let first = mix(u64::from(number)) % GRAINS;
        let grains = self.grains.iter().cycle().skip(first as usize);
        let clean = rows.flat_map(|row| &row[part.clone()]);
        let mut pixels: Vec<u32> = clean.zip(grains).map(with_grain).collect();
        let whole = Rect { x: 0, y: 0, width, height };
        for edge in [barcode::top(whole), barcode::bottom(whole)] {
            barcode::draw(number.wrapping_add(1), &mut pixels, width as usize, edge);
        }
        pixels
    }
}

/// Lighter or darker in all three channels.
fn with_grain((pixel, grain): (&u32, &i16)) -> u32 {
    let channel = |shift: u32| {
        let level = (pixel >> shift & 0xff) as i16 + grain;
        u32::from(level.clamp(0, 0xff).unsigned_abs()) << shift
    };
    channel(16) | channel(8) | channel(0)
}

/// From 0 to `most` and back again, and so on.
fn there_and_back(way: u32, most: u32) -> u32 {
    let within = way % (2 * most);
    within.min(2 * most - within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::picture::Picture;

    #[test]
    fn frames_carry_their_numbers_and_move_by_a_step() {
        let pan = Pan::new((320, 96), 3);
        let picture = |number| Picture { width: 320, height: 96, pixels: pan.frame(number) };
        let whole = Rect { x: 0, y: 0, width: 320, height: 96 };
        for number in [0, 1, 64, 1000] {
            let picture = picture(number);
            assert_eq!(barcode::read(&picture, barcode::top(whole)), Some(number + 1));
            assert_eq!(barcode::read(&picture, barcode::bottom(whole)), Some(number + 1));
        }
        let (first, second) = (picture(3), picture(4));
        let mut same = 0;
        for (x, y) in (16..70).flat_map(|y| (0..300).map(move |x| (x, y))) {
            let at = |picture: &Picture, x: usize, y: usize| picture.pixels[y * 320 + x];
            let (moved, now) = (at(&first, x + 4, y + 2), at(&second, x, y));
            same += usize::from(moved == now);
            let far = moved.to_be_bytes().into_iter().zip(now.to_be_bytes());
            assert!(far.into_iter().all(|(a, b)| a.abs_diff(b) <= 2 * 3), "{x},{y}");
        }
        // One grain in seven is as the one before.
        assert!(same < 54 * 300 / 4, "{same} pixels only moved");
    }

    #[test]
    fn grain_stays_within_a_channel() {
        assert_eq!(with_grain((&0x00_fe80, &3)), 0x03_ff83);
        assert_eq!(with_grain((&0x01_fe80, &-3)), 0x00_fb7d);
    }

    #[test]
    fn the_camera_turns_at_both_ends() {
        let ways: Vec<u32> = (0..9).map(|step| there_and_back(step, 4)).collect();
        assert_eq!(ways, [0, 1, 2, 3, 4, 3, 2, 1, 0]);
    }
}
