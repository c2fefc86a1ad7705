//! Text over the framebuffer: the statistics in a corner, and messages, for example after a loss.
//! Drawn into separate pixels, so that each presenter can overlay it. Knows dots and
//! colours; never figures, SDL or the connection.

use thinc_region::{Rect, Size};

use crate::font;

/// Margin in dots between the text and the panel's edge.
const MARGIN: i32 = 4;
/// Light grey on near black: readable over anything.
const INK: u32 = 0xff_e8_e8_e8;
pub(crate) const PAPER: u32 = 0xff_18_18_1c;
/// Most characters per line and lines per panel; the rest is cut off.
const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 40;

/// A panel of text, as opaque pixels 0xffRRGGBB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Panel {
    /// Size in pixels.
    pub(crate) size: Size,
    /// Row after row.
    pub(crate) pixels: Vec<u32>,
}

impl Panel {
    /// Draws lines of text; `dot` is the edge of a dot in pixels: 1, or more on high-density
    /// displays.
    pub(crate) fn draw(text: &str, dot: u32) -> Panel {
        let dot = dot.clamp(1, 4) as i32;
        let lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
        let columns =
            lines.iter().map(|line| line.chars().count().min(COLUMNS_MAX)).max().unwrap_or(0)
                as i32;
        if columns == 0 {
            return Panel::default();
        }
        let width =
            (columns * font::ADVANCE - (font::ADVANCE - font::GLYPH_WIDTH) + 2 * MARGIN) * dot;
        let height = (lines.len() as i32 * font::LINE_HEIGHT
            - (font::LINE_HEIGHT - font::GLYPH_HEIGHT)
            + 2 * MARGIN)
            * dot;
        let mut panel = Panel {
            size: Size { width: width as u32, height: height as u32 },
            pixels: vec![PAPER; width as usize * height as usize],
        };
        for (row, line) in lines.iter().enumerate() {
            for (column, character) in line.chars().take(COLUMNS_MAX).enumerate() {
                let x = MARGIN + column as i32 * font::ADVANCE;
                let y = MARGIN + row as i32 * font::LINE_HEIGHT;
                panel.put(character, x, y, dot);
            }
        }
        panel
    }

    /// As [`Panel::draw`], with lines broken between words so that the panel is at most `width`
    /// pixels wide.
    pub(crate) fn draw_within(text: &str, dot: u32, width: u32) -> Panel {
        Panel::draw(&wrap(text, Panel::columns(dot, width)), dot)
    }

    /// Characters of a line that fit in this many pixels.
    pub(crate) fn columns(dot: u32, width: u32) -> usize {
        let dots =
            (width / dot.clamp(1, 4)) as i32 - 2 * MARGIN + (font::ADVANCE - font::GLYPH_WIDTH);
        ((dots / font::ADVANCE).max(1) as usize).min(COLUMNS_MAX)
    }

    /// Lines that fit in this many pixels.
    pub(crate) fn lines(dot: u32, height: u32) -> usize {
        let dots = (height / dot.clamp(1, 4)) as i32 - 2 * MARGIN
            + (font::LINE_HEIGHT - font::GLYPH_HEIGHT);
        ((dots / font::LINE_HEIGHT).max(1) as usize).min(LINES_MAX)
    }

    /// The line at this distance from the panel's upper edge, in pixels.
    pub(crate) fn line_at(dot: u32, y: i32) -> Option<usize> {
        let dots = y.div_euclid(dot.clamp(1, 4) as i32) - MARGIN;
        usize::try_from(dots.div_euclid(font::LINE_HEIGHT)).ok()
    }

    fn put(&mut self, character: char, x: i32, y: i32, dot: i32) {
        for (row, bits) in font::glyph(character).iter().enumerate() {
            for column in (0..font::GLYPH_WIDTH)
                .filter(|column| bits >> (font::GLYPH_WIDTH - 1 - column) & 1 == 1)
            {
                self.fill(Rect::at((x + column) * dot, (y + row as i32) * dot, dot, dot));
            }
        }
    }

    fn fill(&mut self, rect: Rect) {
        let width = self.size.width as usize;
        for y in rect.y1 as usize..rect.y2 as usize {
            self.pixels[y * width + rect.x1 as usize..y * width + rect.x2 as usize].fill(INK);
        }
    }

    /// The panel's pixels of row `y`.
    pub(crate) fn row(&self, y: usize) -> &[u32] {
        let width = self.size.width as usize;
        &self.pixels[y * width..(y + 1) * width]
    }
}

/// Breaks lines between words; a word longer than a line is cut off when it is drawn.
fn wrap(text: &str, columns: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.lines() {
        let mut used = 0;
        for (index, word) in line.split(' ').enumerate() {
            let length = word.chars().count();
            if index > 0 {
                // What a line begins with is kept: it indents.
                let fits = used == 0 || used + 1 + length <= columns;
                wrapped.push(if fits { ' ' } else { '\n' });
                used = if fits { used + 1 } else { 0 };
            }
            wrapped.push_str(word);
            used += length;
        }
        wrapped.push('\n');
    }
    wrapped
}

/// Halves the brightness: the framebuffer is stale, but still readable.
pub(crate) fn dim(pixel: u32) -> u32 {
    0xff00_0000 | (pixel >> 1 & 0x007f_7f7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glyph_is_drawn_as_in_the_font() {
        let panel = Panel::draw("I", 1);
        assert_eq!(panel.size, Size { width: 5 + 8, height: 8 + 8 });
        let ink = |x: usize, y: usize| panel.row(y)[x] == INK;
        for y in 0..8 {
            for x in 0..5 {
                let expected = font::glyph('I')[y] >> (4 - x) & 1 == 1;
                assert_eq!(ink(x + 4, y + 4), expected, "{x},{y}");
            }
        }
        let inked = panel.pixels.iter().filter(|p| **p == INK).count();
        assert_eq!(inked, font::glyph('I').iter().map(|r| r.count_ones() as usize).sum::<usize>());
    }

    #[test]
    fn large_dots_are_squares_and_text_is_bounded() {
        let small = Panel::draw("thinc", 1);
        let large = Panel::draw("thinc", 3);
        assert_eq!(large.size, Size { width: small.size.width * 3, height: small.size.height * 3 });
        for y in 0..large.size.height as usize {
            for x in 0..large.size.width as usize {
                assert_eq!(large.row(y)[x], small.row(y / 3)[x / 3]);
            }
        }
        let endless = "x".repeat(10_000) + &"\n".repeat(10_000);
        let panel = Panel::draw(&endless, 1);
        assert!(panel.size.width < 700 && panel.size.height < 500, "{:?}", panel.size);
        assert_eq!(Panel::draw("", 1), Panel::default());
    }

    #[test]
    fn long_lines_are_broken_at_the_window_edge() {
        assert_eq!(wrap("one two three\n\nfour", 8), "one two\nthree\n\nfour\n");
        assert_eq!(wrap("a endless-word b", 5), "a\nendless-word\nb\n");
        assert_eq!(wrap(" 1  one two", 8), " 1  one\ntwo\n");
        let why = "10.77.0.1:8443 does not answer: No route to host; is the session running?";
        for width in [64, 320, 901] {
            for dot in 1..=4 {
                let panel = Panel::draw_within(why, dot, width);
                let longest = why.split(' ').map(|word| word.chars().count() as u32).max().unwrap();
                let word = (longest * font::ADVANCE as u32 + 2 * MARGIN as u32) * dot;
                assert!(panel.size.width <= width.max(word), "{width} {dot}: {:?}", panel.size);
            }
        }
    }

    #[test]
    fn what_fits_is_known_before_it_is_drawn() {
        for (size, dot) in [(360, 1), (360, 2), (768, 2), (100, 4)] {
            let (columns, lines) = (Panel::columns(dot, size), Panel::lines(dot, size));
            let drawn = |columns: usize, lines: usize| {
                Panel::draw(&format!("{}\n", "x".repeat(columns)).repeat(lines), dot).size
            };
            let Size { width, height } = drawn(columns, lines);
            assert!(width <= size && height <= size, "{size} {dot}: {width}x{height}");
            let Size { width, height } = drawn(columns + 1, lines + 1);
            assert!(width > size || columns == COLUMNS_MAX, "{size} {dot}: {width}");
            assert!(height > size || lines == LINES_MAX, "{size} {dot}: {height}");
            let line = MARGIN * dot as i32;
            assert_eq!(Panel::line_at(dot, line - 1), None);
            assert_eq!(Panel::line_at(dot, line), Some(0));
            assert_eq!(Panel::line_at(dot, line + 2 * font::LINE_HEIGHT * dot as i32), Some(2));
        }
    }

    #[test]
    fn dimmed_is_half_and_opaque() {
        assert_eq!(dim(0x00ff_8004), 0xff7f_4002);
    }
}
