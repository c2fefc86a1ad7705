//! Path back: from the command line and the window's zoom, to viewer-core.
//! Which part of the session's screen is shown, and how large, for the session to scale it
//! (`VIEW`). Knows sizes and places; never pixels, SDL or the connection.

use thinc_protocol::limits::SCREEN_EDGE_MAX;
use thinc_protocol::viewer::View;
use thinc_region::{Rect, Size};

use crate::script;

/// The value of `--view`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewChoice {
    /// The whole screen, scaled to the window; the session keeps its size.
    Fit,
    /// This view, whatever the window's size.
    Fixed(View),
}

impl ViewChoice {
    /// The initial view, if it does not depend on the window.
    pub fn view(self) -> Option<View> {
        match self {
            ViewChoice::Fit => None,
            ViewChoice::Fixed(view) => Some(view),
        }
    }
}

/// Parses `fit`, `WxH` (the whole screen at this size), `WxH+X+Y` (this part at its own size) or
/// `WxH=PWxPH+X+Y` (that part at this size).
pub(crate) fn parse_view(text: &str) -> Result<ViewChoice, String> {
    let invalid = || {
        format!("{text:?} is not a view: fit, 320x240, 320x240+100+50 or 320x240=640x480+100+50")
    };
    if text == "fit" {
        return Ok(ViewChoice::Fit);
    }
    let part = |text: &str| -> Option<(Size, Rect)> {
        let mut words = text.splitn(3, '+');
        let size = script::parse_size(words.next()?).ok()?;
        let edge = |word: Option<&str>| word?.parse().ok().filter(|at: &u32| *at < SCREEN_EDGE_MAX);
        let (x, y) = (edge(words.next())?, edge(words.next())?);
        let fits = size.width <= SCREEN_EDGE_MAX - x && size.height <= SCREEN_EDGE_MAX - y;
        fits.then(|| (size, Rect::at(x as i32, y as i32, size.width as i32, size.height as i32)))
    };
    let view = if let Some((size, of)) = text.split_once('=') {
        let size = script::parse_size(size).map_err(|_| invalid())?;
        View { size, part: part(of).ok_or_else(invalid)?.1 }
    } else if text.contains('+') {
        let (size, part) = part(text).ok_or_else(invalid)?;
        View { size, part }
    } else {
        View { size: script::parse_size(text).map_err(|_| invalid())?, part: Rect::default() }
    };
    Ok(ViewChoice::Fixed(view))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_parsed() {
        let size = Size { width: 320, height: 240 };
        let fixed = |part| Ok(ViewChoice::Fixed(View { size, part }));
        assert_eq!(parse_view("fit"), Ok(ViewChoice::Fit));
        assert_eq!(parse_view("320x240"), fixed(Rect::default()));
        assert_eq!(parse_view("320x240+10+20"), fixed(Rect::at(10, 20, 320, 240)));
        assert_eq!(parse_view("320x240=640x480+10+0"), fixed(Rect::at(10, 0, 640, 480)));
        for invalid in [
            "",
            "fits",
            "320",
            "320x240+1",
            "320x240+1+2+3",
            "320x240=5",
            "0x5",
            "9x9+20000+0",
            "=",
            "9x9+-1+0",
        ] {
            assert!(parse_view(invalid).is_err(), "{invalid:?}");
        }
    }
}
