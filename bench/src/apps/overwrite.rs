//! `thinc-bench app overwrite` redraws the whole screen 200 times a second with about 20 KB of new
//! information in each picture: random bits in two colours, which no lossless encoding makes
//! shorter, and an encoding of two colours barely longer. Bar codes across the screen hold the time
//! of the drawing. A back buffer is drawn, then copied in one request, as toolkits do.

use std::time::{Duration, Instant};

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ChangeGCAux, ConnectionExt as _, ImageFormat, Rectangle};

use super::photo::mix;
use super::window::{Window, WindowEvent};
use crate::Error;
use crate::observe::picture::Rect;
use crate::observe::{barcode, clock};

/// Options of `thinc-bench app overwrite`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Width of the screen, pixels.
    #[arg(long, default_value_t = 1024)]
    width: u16,
    /// Height of the screen, pixels.
    #[arg(long, default_value_t = 768)]
    height: u16,
    /// Pictures a second.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Random bytes in each picture: with the bar codes and the edges of areas, thinc encodes it in
    /// 20 KB.
    #[arg(long, default_value_t = 17_500)]
    noise_bytes: u32,
}

/// The key that draws one picture.
pub const KEY_ONE: &str = "n";
/// The key that starts and stops drawing at the rate.
pub const KEY_START: &str = "g";
/// Stripes of the screen, each with a bar code, an area of noise and a plain rest.
pub const STRIPES: u32 = 12;
/// Colour of set bits and of bars; the other is the colour of the picture, so that all of it has
/// two colours.
const INK: u32 = 0x10_1010;

/// Positions of the bar codes in a picture of this size.
pub fn codes(width: u32, height: u32) -> Vec<Rect> {
    let stripe = height / STRIPES;
    (0..STRIPES)
        .map(|place| {
            Rect::new(0, (place * stripe) as i32, barcode::WIDTH_MIN.min(width), barcode::HEIGHT)
        })
        .collect()
}

/// Draws on keys.
pub fn run(options: &Options) -> Result<(), Error> {
    let mut painter = Painter::new(options)?;
    let period = Duration::from_secs(1) / options.rate;
    painter.draw()?;
    let mut due = None;
    loop {
        let happening = match due {
            None => Some(painter.window.wait()?),
            Some(_) => painter.window.poll()?,
        };
        match happening {
            Some(WindowEvent::Key(key)) if key == keysym(KEY_ONE) => painter.draw()?,
            Some(WindowEvent::Key(key)) if key == keysym(KEY_START) => {
                due = if due.is_some() { None } else { Some(Instant::now()) };
            }
            _ => {}
        }
        if let Some(at) = due {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            painter.draw()?;
            // After a delay of the server, missed pictures are not drawn.
            due = Some((at + period).max(Instant::now()));
        }
    }
}

fn keysym(key: &str) -> u32 {
    u32::from(key.as_bytes()[0])
}

struct Painter {
    window: Window,
    back: u32,
    size: (u16, u16),
    /// Rows of noise in each stripe, and the bytes of each row.
    noise_rows: u16,
    row_bytes: usize,
    count: u64,
}

impl Painter {
    fn new(options: &Options) -> Result<Painter, Error> {
        let (width, height) = (options.width, options.height);
        let stripe = u32::from(height) / STRIPES;
        // A row is padded to 32 bits, as X servers on such machines require.
        let row_bytes = usize::from(width).div_ceil(32) * 4;
        let noise_rows = (options.noise_bytes * 8).div_ceil(STRIPES * u32::from(width));
        if u32::from(width) < barcode::WIDTH_MIN || barcode::HEIGHT + noise_rows > stripe {
            let bytes = options.noise_bytes;
            return Err(format!(
                "{bytes} bytes of noise do not fit into {STRIPES} stripes of {width}x{stripe}"
            )
            .into());
        }
        let window = Window::open("overwrite", (width, height), 0x80_8080)?;
        if window.x.setup().bitmap_format_scanline_pad != 32 {
            return Err("the X server's bitmaps are not filled up to 32 bits".into());
        }
        let back = window.x.generate_id()?;
        window.x.create_pixmap(24, back, window.id, width, height)?.check()?;
        let noise_rows = u16::try_from(noise_rows)?;
        Ok(Painter { window, back, size: (width, height), noise_rows, row_bytes, count: 0 })
    }

    /// Draws one picture and waits until the server has drawn it: with a queue in the socket every
    /// stamp would be too early.
    fn draw(&mut self) -> Result<(), Error> {
        let stamp = clock::stamp_of(clock::now_ns());
        let (x, back, gc) = (&self.window.x, self.back, self.window.gc);
        let (width, height) = self.size;
        self.count += 1;
        let mut seed = mix(self.count ^ u64::from(stamp) << 32);
        // A bright colour, another for each picture.
        let colour = 0xb0_b0b0 + (seed as u32 & 0x3f_3f3f);
        let paint = |colour: u32, areas: &[Rectangle]| -> Result<(), Error> {
            x.change_gc(gc, &ChangeGCAux::new().foreground(colour))?;
            x.poly_fill_rectangle(back, gc, areas)?;
            Ok(())
        };
        paint(colour, &[Rectangle { x: 0, y: 0, width, height }])?;
        let codes = codes(width.into(), height.into());
        let dark: Vec<Rectangle> = codes.iter().map(rectangle).collect();
        paint(INK, &dark)?;
        let bars = barcode::white_bars(stamp, codes[0].width);
        let light: Vec<Rectangle> = codes
            .iter()
            .flat_map(|code| {
                bars.iter().map(|&(from, to)| Rect {
                    x: code.x + from as i32,
                    width: to - from,
                    ..*code
                })
            })
            .map(|bar| rectangle(&bar))
            .collect();
        paint(colour, &light)?;
        x.change_gc(gc, &ChangeGCAux::new().foreground(INK).background(colour))?;
        for code in &codes {
            let words = self.row_bytes * usize::from(self.noise_rows) / 4;
            let noise: Vec<u8> = (0..words)
                .flat_map(|_| {
                    seed = mix(seed);
                    (seed as u32).to_le_bytes()
                })
                .collect();
            let y = i16::try_from(code.bottom())?;
            x.put_image(
                ImageFormat::XY_BITMAP,
                back,
                gc,
                width,
                self.noise_rows,
                0,
                y,
                0,
                1,
                &noise,
            )?;
        }
        x.copy_area(back, self.window.id, gc, 0, 0, 0, 0, width, height)?;
        x.get_input_focus()?.reply()?;
        Ok(())
    }
}

fn rectangle(rect: &Rect) -> Rectangle {
    Rectangle {
        x: rect.x as i16,
        y: rect.y as i16,
        width: rect.width as u16,
        height: rect.height as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stripe_has_its_code() {
        let codes = codes(1024, 768);
        assert_eq!(codes.len(), 12);
        assert_eq!((codes[0], codes[11]), (Rect::new(0, 0, 320, 16), Rect::new(0, 704, 320, 16)));
        assert!(codes.windows(2).all(|pair| pair[0].bottom() <= pair[1].y));
    }
}
