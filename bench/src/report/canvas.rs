//! Where the drawing calls of plotters become SVG that takes its colours from the page.
//! Below plots.rs; the page's style sheet says which colour each class has in light, in dark and on paper.
//! Knows lines, boxes and text; never what they show.

use std::convert::Infallible;
use std::fmt::Write as _;

use plotters::prelude::{DrawingBackend, RGBColor};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind};

/// Canvas units in one CSS pixel. plotters counts in whole units, and curves need finer ones than pixels.
pub(super) const UNIT: i32 = 10;

/// What a thing is drawn in: a meaning, of which the style sheet makes a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    /// Words.
    Text,
    /// Words that matter less.
    Dim,
    /// Lines behind the data.
    Grid,
    /// The reference that no peer can beat.
    Reference,
    /// A peer, by its place in the palette.
    Peer(u8),
    /// The same, pale: for spreads.
    Pale(u8),
}

impl Ink {
    /// As plotters carries it: a code, never shown as a colour.
    pub(super) fn code(self) -> RGBColor {
        match self {
            Ink::Text => RGBColor(0, 0, 0),
            Ink::Dim => RGBColor(0, 1, 0),
            Ink::Grid => RGBColor(0, 2, 0),
            Ink::Reference => RGBColor(0, 3, 0),
            Ink::Peer(place) => RGBColor(1, place, 0),
            Ink::Pale(place) => RGBColor(2, place, 0),
        }
    }

    fn of(color: BackendColor) -> Ink {
        match color.rgb {
            (0, 1, _) => Ink::Dim,
            (0, 2, _) => Ink::Grid,
            (0, 3, _) => Ink::Reference,
            (1, place, _) => Ink::Peer(place),
            (2, place, _) => Ink::Pale(place),
            _ => Ink::Text,
        }
    }

    /// The class that the style sheet knows; strokes and fills are told apart by the letter before it.
    fn class(self, letter: char) -> String {
        match self {
            Ink::Text => format!("{letter}t"),
            Ink::Dim => format!("{letter}d"),
            Ink::Grid => format!("{letter}g"),
            Ink::Reference => format!("{letter}r"),
            Ink::Peer(place) => format!("{letter}{place}"),
            Ink::Pale(place) => format!("{letter}{place} pale"),
        }
    }
}

/// A picture under way.
pub(super) struct Canvas<'a> {
    out: &'a mut String,
    size: (u32, u32),
}

impl<'a> Canvas<'a> {
    /// A canvas of so many CSS pixels, whose elements are appended to `out`.
    pub(super) fn new(out: &'a mut String, width: u32, height: u32) -> Canvas<'a> {
        Canvas { out, size: (width * UNIT as u32, height * UNIT as u32) }
    }
}

/// Text as it may stand in HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // A log's escape sequences are no text.
            letter if letter.is_control() && letter != '\n' => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl DrawingBackend for Canvas<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn {
        self.draw_rect(point, (point.0 + 1, point.1 + 1), &color, true)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Drawn {
        if style.color().alpha > 0.0 {
            let letter = if fill { 'f' } else { 's' };
            let (x, y) = (from.0.min(to.0), from.1.min(to.1));
            // A value of nothing is still a value: its bar is a hair wide.
            let (width, height) = ((to.0 - from.0).abs().max(UNIT), (to.1 - from.1).abs().max(UNIT));
            let class = Ink::of(style.color()).class(letter);
            // Two thirds of the bytes of a <rect>, and a page has thousands.
            let _ = write!(self.out, "<path class=\"{class}\" d=\"M{x} {y}h{width}v{height}h-{width}z\"/>");
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        let mut points = path.into_iter();
        let Some(first) = points.next().filter(|_| style.color().alpha > 0.0) else { return Ok(()) };
        let before = self.out.len();
        let weight = if style.stroke_width() > UNIT as u32 { " w" } else { "" };
        let class = Ink::of(style.color()).class('s');
        let _ = write!(self.out, "<path class=\"{class}{weight}\" d=\"M{} {}", first.0, first.1);
        let (mut last, mut moved) = (first, false);
        for point in points {
            moved |= point != last;
            // Relative, and along one axis where it is: half the bytes.
            let _ = match (point.0 - last.0, point.1 - last.1) {
                (0, 0) => Ok(()),
                (x, 0) => write!(self.out, "h{x}"),
                (0, y) => write!(self.out, "v{y}"),
                (x, y) => write!(self.out, "l{x} {y}"),
            };
            last = point;
        }
        self.out.push_str("\"/>");
        // plotters draws tick marks of no length where none are wanted.
        if !moved {
            self.out.truncate(before);
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn {
        if style.color().alpha > 0.0 {
            let class = Ink::of(style.color()).class(if fill { 'f' } else { 's' });
            let (x, y) = center;
            let _ = write!(self.out, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, vertices: I, style: &S) -> Drawn {
        let class = Ink::of(style.color()).class('f');
        let _ = write!(self.out, "<polygon class=\"{class}\" points=\"");
        for (x, y) in vertices {
            let _ = write!(self.out, "{x},{y} ");
        }
        self.out.push_str("\"/>");
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, pos: BackendCoord) -> Drawn {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "",
            HPos::Center => " m",
            HPos::Right => " e",
        };
        // Browsers differ in what they make of `dominant-baseline`; a part of the size is the same everywhere.
        let size = style.size();
        let down = match style.anchor().v_pos {
            VPos::Top => size * 0.8,
            VPos::Center => size * 0.35,
            VPos::Bottom => -size * 0.2,
        };
        let class = Ink::of(style.color()).class('f');
        let bold = if matches!(style.style(), plotters_backend::FontStyle::Bold) { " b" } else { "" };
        let (x, y) = (pos.0, pos.1 + down.round() as i32);
        let _ = write!(self.out, "<text class=\"{class}{anchor}{bold}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(text));
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        // The reader's fonts are not known here: 0.55 of the size is a wide letter of a sans-serif face.
        Ok(((text.chars().count() as f64 * style.size() * 0.55) as u32, style.size() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inks_survive_the_way_through_plotters() {
        for ink in [Ink::Text, Ink::Dim, Ink::Grid, Ink::Reference, Ink::Peer(0), Ink::Peer(11), Ink::Pale(3)] {
            let RGBColor(r, g, b) = ink.code();
            assert_eq!(Ink::of(BackendColor { alpha: 1.0, rgb: (r, g, b) }), ink);
        }
    }

    #[test]
    fn markup_in_text_stays_text() {
        assert_eq!(escape("a<b & \"c'\u{1b}[0m"), "a&lt;b &amp; &quot;c&#39;\u{fffd}[0m");
    }

    #[test]
    fn paths_are_relative_and_nothing_wide_is_a_hair_wide() {
        let mut out = String::new();
        let mut canvas = Canvas::new(&mut out, 10, 10);
        let ink = BackendColor { alpha: 1.0, rgb: (1, 4, 0) };
        canvas.draw_path([(1, 2), (5, 2), (5, 9), (6, 8), (6, 8)], &ink).unwrap();
        canvas.draw_rect((3, 3), (3, 30), &ink, true).unwrap();
        assert_eq!(out, "<path class=\"s4\" d=\"M1 2h4v7l1 -1\"/><path class=\"f4\" d=\"M3 3h10v27h-10z\"/>");
    }
}
