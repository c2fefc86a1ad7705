//! What a person sees first after a login: a photograph and a page of text before it. Everything is
//! drawn at once, and again when the screen's size has changed. Knows drawing; never who has
//! logged in.

use super::photo::photo;
use super::text::Pen;
use super::window::Window;
use crate::Error;

/// Options of `thinc-bench app desktop`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Width of the screen, pixels.
    #[arg(long, default_value_t = 1024)]
    width: u16,
    /// Height of the screen, pixels.
    #[arg(long, default_value_t = 768)]
    height: u16,
}

const SEED: u64 = 28;
const PAPER: u32 = 0xf4_f4_f4;
/// Pixels from one line of text to the next, and around the page.
const LINE: i16 = 20;
const MARGIN: i16 = 12;
const WORDS: &str = "The quick brown fox jumps over the lazy dog, and 1234567890 pages follow it.";

/// Draws, and waits.
pub fn run(options: &Options) -> Result<(), Error> {
    let (width, height) = (options.width, options.height);
    let mut window = Window::open("desktop", (width, height), 0)?;
    let mut pen = Pen::new(&window, 14.0)?;
    let picture = photo(SEED, width.into(), height.into());
    let (page_width, page_height) = (width * 5 / 8, height * 3 / 4);
    let (left, top) = (i16::try_from(width / 16)?, i16::try_from(height / 8)?);
    loop {
        window.put_whole(0, 0, width, &picture)?;
        window.fill(left, top, page_width, page_height, PAPER)?;
        for line in 0..(i16::try_from(page_height)? - 2 * MARGIN) / LINE {
            let text = format!("{:3}  {WORDS}", line + 1);
            pen.write(&window, left + MARGIN, top + MARGIN + line * LINE, &text)?;
        }
        window.wait_exposed()?;
    }
}
