//! A loop of distinct pictures, as an animated GIF in a page (Wong and Seltzer 2000, section
//! 6.1.3). Key n plays the loop once: all its frames on time, and the last one stays. Each picture
//! has bar codes with its index in the loop above and below, the same in every round, so that a
//! cache can help.

use std::time::{Duration, Instant};

use super::photo::photo;
use super::window::{Window, WindowEvent};
use crate::Error;
use crate::observe::barcode;
use crate::observe::picture::Rect;

/// Options of `thinc-bench app animation`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Frames of the loop.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    frames: u32,
    /// Milliseconds between frames.
    #[arg(long, default_value_t = 50)]
    period_ms: u64,
    /// Width of the picture, pixels.
    #[arg(long, default_value_t = 468)]
    width: u16,
    /// Height of the picture, without its bar codes, pixels.
    #[arg(long, default_value_t = 60)]
    height: u16,
}

/// The key that plays the loop once.
pub const KEY_PLAY: &str = "n";
/// Most memory for the pictures, bytes.
const MEMORY_MAX: usize = 256 << 20;

/// Shows the window and plays.
pub fn run(options: &Options) -> Result<(), Error> {
    let (width, height) = (options.width, options.height + 2 * barcode::HEIGHT as u16);
    if u32::from(width) < barcode::WIDTH_MIN {
        return Err(format!(
            "{width} pixels have no room for a bar code: at least {}",
            barcode::WIDTH_MIN
        )
        .into());
    }
    let bytes = usize::from(width) * usize::from(height) * 4 * options.frames as usize;
    if bytes > MEMORY_MAX {
        return Err(format!(
            "{} frames take {bytes} bytes, more than {MEMORY_MAX}",
            options.frames
        )
        .into());
    }
    let frames: Vec<Vec<u32>> =
        (0..options.frames).map(|place| frame(place, width.into(), height.into())).collect();
    let mut window = Window::open("animation", (width, height), 0x80_8080)?;
    let period = Duration::from_millis(options.period_ms);
    loop {
        if window.wait()? != WindowEvent::Key(u32::from(KEY_PLAY.as_bytes()[0])) {
            continue;
        }
        let began = Instant::now();
        for (place, frame) in (0_u32..).zip(&frames) {
            std::thread::sleep((began + period * place).saturating_duration_since(Instant::now()));
            window.put_whole(0, 0, width, frame)?;
        }
    }
}

/// Frame `place` of the loop: a photograph of its own between its bar codes, numbered from 1.
fn frame(place: u32, width: u32, height: u32) -> Vec<u32> {
    let mut pixels = photo(1000 + u64::from(place), width, height);
    let whole = Rect { x: 0, y: 0, width, height };
    for edge in [barcode::top(whole), barcode::bottom(whole)] {
        barcode::draw(place + 1, &mut pixels, width as usize, edge);
    }
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_has_as_many_pictures_as_frames() {
        let mut frames: Vec<Vec<u32>> = (0..20).map(|place| frame(place, 468, 92)).collect();
        assert_eq!(frames[3], frame(3, 468, 92));
        for (place, pixels) in frames.iter().enumerate() {
            let next = &frames[(place + 1) % 20];
            let inner = 468 * 16..468 * 76;
            let same =
                pixels[inner.clone()].iter().zip(&next[inner]).filter(|(a, b)| a == b).count();
            assert!(same * 20 < 468 * 60, "frames {place} and the next share {same} pixels");
        }
        frames.sort_unstable();
        frames.dedup();
        assert_eq!(frames.len(), 20);
    }
}
