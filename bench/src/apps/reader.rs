//! A document that a person pages through: `thinc-bench app reader` shows a page of text, every
//! third with a photograph, and the next page at a key. Knows drawing; never who reads.

use super::latency::text;
use super::photo::photo;
use super::text::Pen;
use super::window::{Window, WindowEvent};
use crate::Error;
use crate::observe::input;

/// Options of `thinc-bench app reader`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Width of the screen, pixels.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u16).range(640..=4096))]
    width: u16,
    /// Height of the screen, pixels.
    #[arg(long, default_value_t = 768, value_parser = clap::value_parser!(u16).range(480..=4096))]
    height: u16,
}

/// The key that shows the next page.
pub const KEY_NEXT: &str = "Next";
const PAPER: u32 = 0xff_fffc;
/// Pixels from one line of text to the next, and around the page.
const LINE: i16 = 20;
const MARGIN: i16 = 24;
/// Every so many pages one has a photograph.
const PICTURE_EVERY: u64 = 3;
/// Photographs, in turn: each is generated before the first page is shown.
const PHOTOS: u64 = 4;
const PHOTO: (u16, u16) = (360, 240);
const SEED: u64 = 3100;

/// Shows page after page.
pub fn run(options: &Options) -> Result<(), Error> {
    let (width, height) = (options.width, options.height);
    let photos: Vec<Vec<u32>> =
        (0..PHOTOS).map(|place| photo(SEED + place, PHOTO.0.into(), PHOTO.1.into())).collect();
    let mut window = Window::open("reader", (width, height), PAPER)?;
    let mut pen = Pen::new(&window, 14.0)?;
    let lines = (i16::try_from(height)? - 2 * MARGIN) / LINE;
    let next = input::named_keysym(KEY_NEXT)?;
    for page in 0_u64.. {
        window.fill(0, 0, width, height, PAPER)?;
        for line in 0..lines {
            let number = page * u64::from(lines.unsigned_abs()) + u64::from(line.unsigned_abs());
            pen.write(&window, MARGIN, MARGIN + line * LINE, &text(number))?;
        }
        if page % PICTURE_EVERY == 0 {
            let picture = &photos[(page / PICTURE_EVERY % PHOTOS) as usize];
            let left = i16::try_from(width - PHOTO.0)? - MARGIN;
            window.put_whole(left, MARGIN, PHOTO.0, picture)?;
        }
        while window.wait()? != WindowEvent::Key(next) {}
    }
    Ok(())
}
