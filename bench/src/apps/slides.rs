//! A slide show below all other windows: `thinc-bench app slides` shows one photograph after
//! another over the whole screen. It reads a line `FIRST COUNT PERIOD_MS` for each series of slides
//! and reports when each slide was drawn. It makes many slides from few photographs by mirroring
//! them and exchanging their colour channels: they are as hard to encode, and all differ.

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{ConfigureWindowAux, ConnectionExt as _, StackMode};

use super::photo::photo;
use super::window::Window;
use crate::Error;
use crate::observe::clock;

/// Options of `thinc-bench app slides`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Width of the screen, pixels.
    #[arg(long, default_value_t = 1024)]
    width: u16,
    /// Height of the screen, pixels.
    #[arg(long, default_value_t = 768)]
    height: u16,
}

/// Generated photographs. Each takes half a second to generate, and both the application and the
/// process that watches it generate them.
const PHOTOS: u32 = 4;
/// As it is, mirrored, upside down, both.
const ORIENTATIONS: u32 = 4;
/// Orders of three channels.
const ORDERS: [[u32; 3]; 6] =
    [[16, 8, 0], [8, 16, 0], [16, 0, 8], [0, 8, 16], [8, 0, 16], [0, 16, 8]];
/// Slides that differ.
pub const SLIDES: u32 = PHOTOS * ORIENTATIONS * ORDERS.len() as u32;
/// Two slides whose numbers differ by this show the same photograph, mirrored or not: their
/// encoding costs the same.
pub const VARIANT_STRIDE: u32 = PHOTOS;

/// The photographs, from which every slide is made.
pub struct Slides {
    width: u32,
    height: u32,
    photos: Vec<Vec<u32>>,
}

impl Slides {
    /// For a screen of this size.
    pub fn new(width: u32, height: u32) -> Slides {
        let photos = (0..PHOTOS).map(|seed| photo(4000 + u64::from(seed), width, height)).collect();
        Slides { width, height, photos }
    }

    /// One pixel of slide `number`.
    pub fn pixel(&self, number: u32, x: u32, y: u32) -> u32 {
        let orientation = number / PHOTOS % ORIENTATIONS;
        let x = if orientation & 1 == 0 { x } else { self.width - 1 - x };
        let y = if orientation & 2 == 0 { y } else { self.height - 1 - y };
        let pixel = self.photos[(number % PHOTOS) as usize][(y * self.width + x) as usize];
        let order = ORDERS[(number / (PHOTOS * ORIENTATIONS)) as usize % ORDERS.len()];
        ORDERS[0].iter().zip(order).fold(0, |new, (to, from)| new | (pixel >> from & 0xff) << to)
    }

    /// All of slide `number`.
    fn whole(&self, number: u32) -> Vec<u32> {
        (0..self.height)
            .flat_map(|y| (0..self.width).map(move |x| self.pixel(number, x, y)))
            .collect()
    }
}

/// Shows slide 0, then the requested series until its input ends. Prints `done` after slide 0 and
/// after each series.
pub fn run(options: &Options) -> Result<(), Error> {
    let slides = Slides::new(options.width.into(), options.height.into());
    let first = slides.whole(0);
    let mut window = Window::open("slides", (options.width, options.height), 0x30_3030)?;
    let below = ConfigureWindowAux::new().stack_mode(StackMode::BELOW);
    window.x.configure_window(window.id, &below)?.check()?;
    window.put_whole(0, 0, options.width, &first)?;
    let mut report = std::io::stdout();
    writeln!(report, "done")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let wrong = || format!("`{line}` is not FIRST COUNT PERIOD_MS");
        let numbers: Vec<u32> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let &[first, count, period_ms] = numbers.as_slice() else { return Err(wrong().into()) };
        let period = Duration::from_millis(period_ms.into());
        let began = Instant::now();
        for place in 0..count {
            // Generated ahead of time, and drawn on time.
            let slide = slides.whole(first + place);
            std::thread::sleep((began + period * place).saturating_duration_since(Instant::now()));
            window.put_whole(0, 0, options.width, &slide)?;
            writeln!(report, "{} {}", first + place, clock::now_ns())?;
        }
        writeln!(report, "done")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slides_differ_in_nearly_every_pixel_and_those_alike_are_mirrored() {
        let slides = Slides::new(64, 48);
        let first = slides.whole(0);
        for number in 1..SLIDES {
            let other = slides.whole(number);
            let same = first.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert!(same * 20 < first.len(), "slides 0 and {number} share {same} pixels");
        }
        assert_eq!(first, slides.whole(SLIDES), "after the last slide the first follows");
        let mirrored: Vec<u32> =
            first.chunks(64).flat_map(|row| row.iter().rev().copied()).collect();
        assert_eq!(slides.whole(VARIANT_STRIDE), mirrored);
    }

    #[test]
    fn colours_are_exchanged_and_none_is_lost() {
        let slides = Slides::new(16, 16);
        let level = |pixel: u32| {
            let mut levels = [pixel >> 16 & 0xff, pixel >> 8 & 0xff, pixel & 0xff];
            levels.sort_unstable();
            levels
        };
        for order in 0..ORDERS.len() as u32 {
            let number = order * PHOTOS * ORIENTATIONS;
            assert_eq!(level(slides.pixel(number, 3, 5)), level(slides.pixel(0, 3, 5)));
        }
    }
}
