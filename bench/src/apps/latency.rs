//! The five operations of Lai and Nieh's latency benchmark (2002, section 2.3.1), at their sizes,
//! one for each of the keys l, s, f, b and i. Each key draws one operation with the requests that
//! applications use; between keys nothing changes. Each operation draws new content, so that no
//! cache or comparison avoids sending it.

use super::photo::{mix, photo};
use super::text::Pen;
use super::window::{Window, WindowEvent};
use crate::Error;

/// One of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A 12-point capital A, sans serif, at the next position of its line. The glyph is uploaded
    /// once, as toolkits do.
    Letter,
    /// 14 lines of 12-point text move up by one (CopyArea) and a new line is written below.
    Scroll,
    /// An area is filled with one colour (PolyFillRectangle): red first, then others.
    Fill,
    /// A picture in one shade of red is drawn (PutImage): another shade each time, at least 40
    /// levels from the last.
    RedBitmap,
    /// A picture like a photograph is drawn: another each time.
    Image,
}

impl Operation {
    /// In the papers' order.
    pub const ALL: [Operation; 5] = [
        Operation::Letter,
        Operation::Scroll,
        Operation::Fill,
        Operation::RedBitmap,
        Operation::Image,
    ];

    /// Its name in the papers' figures.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Letter => "letter",
            Operation::Scroll => "scroll",
            Operation::Fill => "fill",
            Operation::RedBitmap => "red bitmap",
            Operation::Image => "image",
        }
    }

    /// The key that draws it.
    pub fn key(self) -> &'static str {
        match self {
            Operation::Letter => "l",
            Operation::Scroll => "s",
            Operation::Fill => "f",
            Operation::RedBitmap => "b",
            Operation::Image => "i",
        }
    }

    /// Upper left corner of its area, pixels. Each area is [`AREA`].
    pub fn place(self) -> (i16, i16) {
        match self {
            Operation::Letter => (8, 8),
            Operation::Scroll => (336, 8),
            Operation::Fill => (664, 8),
            Operation::RedBitmap => (8, 256),
            Operation::Image => (336, 256),
        }
    }
}

/// The window: room for five areas with a margin of 8 pixels.
pub const SIZE: (u16, u16) = (992, 504);
/// The paper's 320x240 pixels.
pub const AREA: (u16, u16) = (320, 240);
/// 14 pixels: the paper's 12 points, so that a line with its descenders fits.
const TEXT: f32 = 14.0;
/// 14 lines in 240 pixels.
const LINE: i16 = 17;
const LINES: i16 = 14;
/// Images before the first one repeats: more than a full run shows; 15 MB.
const IMAGES: u64 = 48;
const BACKGROUND: u32 = 0xc0_c0c0;
const PAPER: u32 = 0xff_ffff;

/// Shows the window and draws on keys until the window is destroyed.
pub fn run() -> Result<(), Error> {
    let mut window = Window::open("latency", SIZE, BACKGROUND)?;
    let mut state = State {
        pen: Pen::new(&window, TEXT)?,
        column: 0,
        row: 0,
        done: [0; 5],
        images: (1..=IMAGES).map(image).collect(),
    };
    for operation in Operation::ALL {
        let (x, y) = operation.place();
        window.fill(x, y, AREA.0, AREA.1, PAPER)?;
    }
    let (x, y) = Operation::Scroll.place();
    for line in 0..LINES {
        state.pen.write(&window, x + 4, y + line * LINE, &text(line as u64))?;
    }
    loop {
        if let WindowEvent::Key(key) = window.wait()? {
            let pressed = Operation::ALL
                .iter()
                .find(|operation| key == u32::from(operation.key().as_bytes()[0]));
            if let Some(&operation) = pressed {
                state.draw(&mut window, operation)?;
            }
        }
    }
}

struct State {
    pen: Pen,
    /// Position of the next letter.
    column: i16,
    row: i16,
    /// Number of times each was drawn.
    done: [u64; 5],
    /// The images, generated in advance, so that they take no CPU time from the system that shows
    /// the one before.
    images: Vec<Vec<u32>>,
}

fn image(count: u64) -> Vec<u32> {
    photo(count, AREA.0.into(), AREA.1.into())
}

impl State {
    fn draw(&mut self, window: &mut Window, operation: Operation) -> Result<(), Error> {
        let (x, y) = operation.place();
        let count = &mut self.done[operation as usize];
        *count += 1;
        let count = *count;
        match operation {
            Operation::Letter => {
                if self.row == LINES {
                    return Err(
                        format!("{count} letters do not fit; the benchmark types fewer").into()
                    );
                }
                let advance =
                    self.pen.write(window, x + 4 + self.column, y + self.row * LINE, "A")?;
                self.column += advance;
                if self.column + advance > AREA.0 as i16 - 8 {
                    (self.column, self.row) = (0, self.row + 1);
                }
            }
            Operation::Scroll => {
                let (width, kept) = (AREA.0, (LINE * (LINES - 1)) as u16);
                use x11rb::protocol::xproto::ConnectionExt as _;
                window.x.copy_area(
                    window.id,
                    window.id,
                    window.gc,
                    x,
                    y + LINE,
                    x,
                    y,
                    width,
                    kept,
                )?;
                window.fill(x, y + kept as i16, width, AREA.1 - kept, PAPER)?;
                self.pen.write(window, x + 4, y + kept as i16, &text(count + LINES as u64 - 1))?;
            }
            Operation::Fill => window.fill(x, y, AREA.0, AREA.1, colour(count - 1))?,
            Operation::RedBitmap => {
                let pixels = vec![red(count - 1); usize::from(AREA.0) * usize::from(AREA.1)];
                window.put_whole(x, y, AREA.0, &pixels)?;
            }
            Operation::Image => {
                let images = self.images.len() as u64;
                window.put_whole(x, y, AREA.0, &self.images[((count - 1) % images) as usize])?;
            }
        }
        Ok(())
    }
}

/// Line `number` of an endless text: 450 words in 58 lines are about eight a line.
pub(super) fn text(number: u64) -> String {
    const WORDS: [&str; 24] = [
        "the", "page", "of", "a", "screen", "moves", "and", "every", "line", "is", "new", "to",
        "all", "who", "read", "it", "from", "far", "away", "with", "small", "delay", "or", "none",
    ];
    let mut line = format!("{number}");
    for word in 0..7 {
        line.push(' ');
        line.push_str(WORDS[(mix(number * 8 + word) % WORDS.len() as u64) as usize]);
    }
    line
}

/// Colour of fill `count`: red, as the paper's, then seeded ones that differ from the last by a
/// half in every channel.
fn colour(count: u64) -> u32 {
    if count == 0 {
        return 0xff_0000;
    }
    // The upper bit of each channel alternates, the others are random.
    let turn = if count.is_multiple_of(2) { 0x80_0000 } else { 0x00_8080 };
    (mix(count) as u32 & 0x3f_3f3f) | turn
}

/// Shade of red bitmap `count`: its red alternates between two ranges 64 levels apart; with the
/// blue channel there are 512 shades.
fn red(count: u64) -> u32 {
    let step = (count / 2) as u32;
    let top = if count.is_multiple_of(2) { 255 } else { 160 };
    ((top - step % 32) << 16) | (step / 32 % 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: u32, b: u32) -> u32 {
        a.to_be_bytes()
            .iter()
            .zip(b.to_be_bytes())
            .map(|(&a, b)| u32::from(a.abs_diff(b)))
            .max()
            .unwrap_or_default()
    }

    #[test]
    fn every_fill_and_every_red_differs_visibly_from_the_last_and_reds_from_all() {
        assert_eq!(colour(0), 0xff_0000);
        assert_eq!(red(0), 0xff_0000);
        for count in 0..500 {
            assert!(distance(colour(count), colour(count + 1)) > 32, "fill {count}");
            let (now, next) = (red(count), red(count + 1));
            assert!(distance(now, next) > 32, "red {count}: {now:06x} {next:06x}");
            assert!(now >> 16 >= 128 && now & 0xffff < 16, "red {count} is {now:06x}");
        }
        let mut reds: Vec<u32> = (0..200).map(red).collect();
        reds.sort_unstable();
        reds.dedup();
        assert_eq!(reds.len(), 200);
    }

    #[test]
    fn lines_are_new_and_fit() {
        for number in 0..200 {
            assert_eq!(text(number), text(number));
            assert_ne!(text(number), text(number + 1));
            assert!(text(number).len() < 60);
        }
    }

    #[test]
    fn areas_lie_apart_within_the_window() {
        for (i, a) in Operation::ALL.iter().enumerate() {
            let (ax, ay) = a.place();
            assert!(ax as u16 + AREA.0 <= SIZE.0 && ay as u16 + AREA.1 <= SIZE.1);
            for b in &Operation::ALL[..i] {
                let (bx, by) = b.place();
                let apart = ax.abs_diff(bx) >= AREA.0 || ay.abs_diff(by) >= AREA.1;
                assert!(apart, "{a:?} lies on {b:?}");
            }
        }
    }
}
