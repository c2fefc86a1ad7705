//! Where the session's screen lies in the window, and back from a point of the window to a point of the screen.
//! Path 13/13 and back: used by window/present.rs and by the pointer. Screens that fit are shown 1:1 in the middle.
//! Knows sizes and rectangles; never pixels or SDL.

use thinc_region::{Rect, Size};

/// Where a screen is shown in a window; both in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Of the session.
    pub(crate) screen: Size,
    /// Of the window.
    pub(crate) window: Size,
    /// What of the window shows the screen; the rest is border.
    pub(crate) shown: Rect,
}

impl Placement {
    /// 1:1 and centred where the screen fits; else scaled down, whole, at its own proportions.
    pub(crate) fn new(screen: Size, window: Size) -> Placement {
        let (sw, sh) = (u64::from(screen.width), u64::from(screen.height));
        let (ww, wh) = (u64::from(window.width), u64::from(window.height));
        let (width, height) = if sw == 0 || sh == 0 {
            (0, 0)
        } else if sw <= ww && sh <= wh {
            (sw, sh)
        } else if ww * sh <= wh * sw {
            (ww, (sh * ww / sw).max(1).min(wh))
        } else {
            ((sw * wh / sh).max(1).min(ww), wh)
        };
        let (x, y) = ((ww - width) / 2, (wh - height) / 2);
        Placement { screen, window, shown: Rect::at(x as i32, y as i32, width as i32, height as i32) }
    }

    /// True when a pixel of the screen is a pixel of the window.
    pub(crate) fn is_exact(&self) -> bool {
        self.shown.width() as u32 == self.screen.width && self.shown.height() as u32 == self.screen.height
    }

    /// The screen's pixel under a point of the window (pixels, fractions allowed); points of the border are taken to
    /// the nearest edge. None while there is no screen.
    pub(crate) fn to_screen(self, x: f32, y: f32) -> Option<(u16, u16)> {
        if self.shown.is_empty() {
            return None;
        }
        let axis = |at: f32, start: i32, shown: i32, screen: u32| {
            let scaled = (f64::from(at) - f64::from(start)) * f64::from(screen) / f64::from(shown);
            scaled.floor().clamp(0.0, f64::from(screen.min(1 << 16) - 1)) as u16
        };
        Some((
            axis(x, self.shown.x1, self.shown.width(), self.screen.width),
            axis(y, self.shown.y1, self.shown.height(), self.screen.height),
        ))
    }

    /// The middle of a screen's pixel, in the window.
    pub(crate) fn to_window(self, x: u16, y: u16) -> (f32, f32) {
        let axis = |at: u16, start: i32, shown: i32, screen: u32| {
            start as f32 + (f32::from(at) + 0.5) * shown as f32 / screen.max(1) as f32
        };
        (
            axis(x, self.shown.x1, self.shown.width(), self.screen.width),
            axis(y, self.shown.y1, self.shown.height(), self.screen.height),
        )
    }

    /// The window's pixels that show some of this part of the screen.
    pub(crate) fn cover(&self, part: &Rect) -> Rect {
        let part = part.intersect(&self.screen.rect());
        if part.is_empty() || self.shown.is_empty() {
            return Rect::default();
        }
        let low = |at: i32, shown: i32, screen: u32| (i64::from(at) * i64::from(shown) / i64::from(screen)) as i32;
        let high = |at: i32, shown: i32, screen: u32| {
            ((i64::from(at) * i64::from(shown) + i64::from(screen) - 1) / i64::from(screen)) as i32
        };
        let (sw, sh) = (self.screen.width, self.screen.height);
        let (w, h) = (self.shown.width(), self.shown.height());
        Rect::new(low(part.x1, w, sw), low(part.y1, h, sh), high(part.x2, w, sw), high(part.y2, h, sh))
            .translate(self.shown.x1, self.shown.y1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn equal_sizes_are_the_identity() {
        let p = Placement::new(size(800, 600), size(800, 600));
        assert!(p.is_exact());
        assert_eq!(p.shown, Rect::new(0, 0, 800, 600));
        for (x, y) in [(0u16, 0u16), (799, 599), (17, 333)] {
            assert_eq!(p.to_screen(f32::from(x), f32::from(y)), Some((x, y)));
            let (wx, wy) = p.to_window(x, y);
            assert_eq!(p.to_screen(wx, wy), Some((x, y)));
        }
    }

    #[test]
    fn a_smaller_screen_is_centred_and_not_scaled() {
        let p = Placement::new(size(640, 480), size(1000, 500));
        assert!(p.is_exact());
        assert_eq!(p.shown, Rect::at(180, 10, 640, 480));
        assert_eq!(p.to_screen(180.0, 10.0), Some((0, 0)));
        assert_eq!(p.to_screen(0.0, 0.0), Some((0, 0)), "the border is the nearest edge");
        assert_eq!(p.to_screen(999.0, 499.0), Some((639, 479)));
    }

    #[test]
    fn a_larger_screen_keeps_its_proportions_and_is_whole() {
        for (screen, window) in [
            (size(1920, 1080), size(800, 600)),
            (size(1080, 1920), size(800, 600)),
            (size(801, 600), size(800, 600)),
            (size(16384, 1), size(100, 100)),
        ] {
            let p = Placement::new(screen, window);
            assert!(!p.is_exact());
            assert!(window.rect().contains(&p.shown), "{p:?}");
            assert!(p.shown.width() as u32 == window.width || p.shown.height() as u32 == window.height, "{p:?}");
            assert_eq!(p.cover(&screen.rect()), p.shown);
            let (right, bottom) = ((p.shown.x2 - 1) as f32 + 0.9, (p.shown.y2 - 1) as f32 + 0.9);
            let (x, y) = p.to_screen(right, bottom).expect("a screen");
            assert!(u32::from(x) < screen.width && u32::from(y) < screen.height);
            assert!(u32::from(x) + screen.width / window.width + 1 >= screen.width - 1, "{p:?} {x}");
        }
    }

    #[test]
    fn every_pixel_of_the_screen_is_inside_its_cover() {
        let p = Placement::new(size(1000, 700), size(333, 333));
        for x in (0..1000).step_by(37) {
            let c = p.cover(&Rect::at(x, 5, 1, 1));
            assert!(!c.is_empty());
            let (wx, _) = p.to_window(x as u16, 5);
            assert!(c.x1 <= wx as i32 && (wx as i32) < c.x2, "{x} {c:?} {wx}");
        }
    }

    #[test]
    fn nothing_is_nowhere() {
        assert_eq!(Placement::new(size(0, 0), size(100, 100)).to_screen(5.0, 5.0), None);
        assert_eq!(Placement::new(size(100, 100), size(0, 0)).to_screen(5.0, 5.0), None);
        assert!(Placement::new(size(100, 100), size(0, 0)).cover(&Rect::at(0, 0, 5, 5)).is_empty());
    }
}
