//! Where the framebuffer is placed in the window, and which point of the screen is at a point of
//! the window.
//! Path 13/13, and path back: used by window/present.rs and by the pointer. A screen that fits is
//! shown 1:1 in the middle. Knows sizes and rectangles; never pixels or SDL.

#[cfg(feature = "window")]
use thinc_protocol::pen::PEN_FRACTION;
use thinc_region::{Rect, Size};

/// The place of the framebuffer in a window; both in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Size of the framebuffer: the session's screen, or a scaled part of it.
    pub(crate) screen: Size,
    /// Size of the window.
    pub(crate) window: Size,
    /// Rectangle of the framebuffer in the window; it may reach beyond the window.
    pub(crate) shown: Rect,
    /// Part of the window that shows the framebuffer; the rest is border.
    pub(crate) visible: Rect,
    /// Part of the session's screen that the framebuffer shows.
    pub(crate) part: Rect,
}

impl Placement {
    /// Shows the screen 1:1 and centred if it fits; otherwise scales it down as a whole, in its own
    /// proportions.
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
        let shown = Rect::at(x as i32, y as i32, width as i32, height as i32);
        Placement { screen, window, shown, visible: shown, part: screen.rect() }
    }

    /// Shows one monitor of a framebuffer with several, as [`Placement::new`] shows a screen, and
    /// nothing beside it.
    pub(crate) fn of_display(picture: Size, display: Rect, window: Size) -> Placement {
        let display = display.intersect(&picture.rect());
        let single = Placement::new(
            Size { width: display.width() as u32, height: display.height() as u32 },
            window,
        );
        if display.is_empty() || single.shown.is_empty() {
            return Placement { screen: picture, part: picture.rect(), ..single };
        }
        let shown = if single.is_unscaled() {
            picture.rect().translate(single.shown.x1 - display.x1, single.shown.y1 - display.y1)
        } else {
            Placement::zoomed(picture, picture.rect(), display, window).shown
        };
        Placement { screen: picture, window, shown, visible: single.shown, part: picture.rect() }
    }

    /// A framebuffer that shows `part`, in a window that is to show `wanted` as large as possible
    /// and centred. Until the session sends `wanted`, the pixels already have their final
    /// positions.
    pub(crate) fn zoomed(picture: Size, part: Rect, wanted: Rect, window: Size) -> Placement {
        let (width, height) = (f64::from(wanted.width().max(1)), f64::from(wanted.height().max(1)));
        let scale = (f64::from(window.width) / width).min(f64::from(window.height) / height);
        let axis = |window: u32, wanted: (i32, f64), at: i32| {
            let start = (f64::from(window) - wanted.1 * scale) / 2.0;
            (start + f64::from(at - wanted.0) * scale).round() as i32
        };
        let (x, y) = ((wanted.x1, width), (wanted.y1, height));
        let shown = Rect {
            x1: axis(window.width, x, part.x1),
            y1: axis(window.height, y, part.y1),
            x2: axis(window.width, x, part.x2),
            y2: axis(window.height, y, part.y2),
        };
        Placement { screen: picture, window, shown, visible: shown.intersect(&window.rect()), part }
    }

    /// The same placement, with this part of the session's screen.
    pub(crate) fn showing(self, part: Rect) -> Placement {
        Placement { part, ..self }
    }

    /// True if one pixel of the screen is one pixel of the window.
    pub(crate) fn is_unscaled(&self) -> bool {
        self.shown.width() as u32 == self.screen.width
            && self.shown.height() as u32 == self.screen.height
    }

    /// The screen's pixel under a point of the window (in pixels, with fractions). Points on the
    /// border map to the nearest edge of the visible part; points outside the window, where a drag
    /// may go, map to the nearest point of the screen. None if there is no screen.
    pub(crate) fn to_screen(self, x: f32, y: f32) -> Option<(u16, u16)> {
        let (x, y) = self.to_screen_fraction(x, y)?;
        let pixel = |at: f64| at.min(65535.0) as u16;
        Some((pixel(x), pixel(y)))
    }

    /// As [`Placement::to_screen`], in the parts of pixels that a pen's position has.
    #[cfg(feature = "window")]
    pub(crate) fn to_screen_parts(self, x: f32, y: f32) -> Option<(u32, u32)> {
        let (x, y) = self.to_screen_fraction(x, y)?;
        let parts = |at: f64| (at * f64::from(PEN_FRACTION)) as u32;
        Some((parts(x), parts(y)))
    }

    fn to_screen_fraction(self, x: f32, y: f32) -> Option<(f64, f64)> {
        if self.shown.is_empty() || self.visible.is_empty() {
            return None;
        }
        let inside = |at: f32, edge: u32| (0.0..edge as f32).contains(&at);
        let (x, y) = if inside(x, self.window.width) && inside(y, self.window.height) {
            let within =
                |at: f32, low: i32, high: i32| at.clamp(low as f32, (high as f32).next_down());
            (
                within(x, self.visible.x1, self.visible.x2),
                within(y, self.visible.y1, self.visible.y2),
            )
        } else {
            (x, y)
        };
        let axis = |at: f32, (start, shown): (i32, i32), (first, part): (i32, i32)| {
            let scaled = (f64::from(at) - f64::from(start)) * f64::from(part) / f64::from(shown);
            let end = f64::from(first) + f64::from(part.max(1));
            // What is just below the end of the part is not just below the end of the sum.
            (f64::from(first) + scaled.max(0.0)).min(end.next_down())
        };
        let Placement { shown, part, .. } = self;
        Some((
            axis(x, (shown.x1, shown.width()), (part.x1, part.width())),
            axis(y, (shown.y1, shown.height()), (part.y1, part.height())),
        ))
    }

    /// The centre of a screen's pixel, in the window.
    pub(crate) fn to_window(self, x: u16, y: u16) -> (f32, f32) {
        let axis = |at: u16, (start, shown): (i32, i32), (first, part): (i32, i32)| {
            start as f32 + (f32::from(at) - first as f32 + 0.5) * shown as f32 / part.max(1) as f32
        };
        let Placement { shown, part, .. } = self;
        (
            axis(x, (shown.x1, shown.width()), (part.x1, part.width())),
            axis(y, (shown.y1, shown.height()), (part.y1, part.height())),
        )
    }

    /// The window's pixels that show any of this part of the screen.
    pub(crate) fn cover(&self, part: &Rect) -> Rect {
        let part = part.intersect(&self.screen.rect());
        if part.is_empty() || self.shown.is_empty() {
            return Rect::default();
        }
        let low = |at: i32, shown: i32, screen: u32| {
            (i64::from(at) * i64::from(shown) / i64::from(screen)) as i32
        };
        let high = |at: i32, shown: i32, screen: u32| {
            ((i64::from(at) * i64::from(shown) + i64::from(screen) - 1) / i64::from(screen)) as i32
        };
        let (sw, sh) = (self.screen.width, self.screen.height);
        let (w, h) = (self.shown.width(), self.shown.height());
        Rect::new(
            low(part.x1, w, sw),
            low(part.y1, h, sh),
            high(part.x2, w, sw),
            high(part.y2, h, sh),
        )
        .translate(self.shown.x1, self.shown.y1)
        .intersect(&self.visible)
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
        assert!(p.is_unscaled());
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
        assert!(p.is_unscaled());
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
            assert!(!p.is_unscaled());
            assert!(window.rect().contains(&p.shown), "{p:?}");
            assert!(
                p.shown.width() as u32 == window.width || p.shown.height() as u32 == window.height,
                "{p:?}"
            );
            assert_eq!(p.cover(&screen.rect()), p.shown);
            let (right, bottom) = ((p.shown.x2 - 1) as f32 + 0.9, (p.shown.y2 - 1) as f32 + 0.9);
            let (x, y) = p.to_screen(right, bottom).expect("a screen");
            assert!(u32::from(x) < screen.width && u32::from(y) < screen.height);
            assert!(
                u32::from(x) + screen.width / window.width + 1 >= screen.width - 1,
                "{p:?} {x}"
            );
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
    fn one_monitor_is_visible_and_a_drag_continues_into_the_next() {
        let (picture, left, right) =
            (size(1800, 768), Rect::at(0, 0, 1024, 768), Rect::at(1024, 100, 776, 600));
        let first = Placement::of_display(picture, left, size(1024, 768));
        assert!(first.is_unscaled());
        assert_eq!(
            first.cover(&Rect::at(1000, 0, 100, 10)),
            Rect::at(1000, 0, 24, 10),
            "only its own part is drawn"
        );
        assert!(first.cover(&Rect::at(1100, 0, 100, 10)).is_empty());
        assert_eq!(first.to_screen(1023.5, 5.0), Some((1023, 5)));
        assert_eq!(first.to_screen(1100.0, 5.0), Some((1100, 5)), "dragged beyond the window");
        let second = Placement::of_display(picture, right, size(796, 640));
        assert_eq!(
            second.visible,
            Rect::at(10, 20, 776, 600),
            "a smaller one is centred and not scaled"
        );
        assert_eq!(second.to_screen(10.0, 20.0), Some((1024, 100)));
        assert_eq!(
            second.to_screen(3.0, 3.0),
            Some((1024, 100)),
            "the border is the display's edge, not what lies beside it"
        );
        assert_eq!(second.to_screen(-10.0, 20.0), Some((1004, 100)));
        for (x, y) in [(1024u16, 100u16), (1799, 699), (1500, 300)] {
            let (wx, wy) = second.to_window(x, y);
            assert_eq!(second.to_screen(wx, wy), Some((x, y)));
        }
        let small = Placement::of_display(picture, right, size(388, 300));
        assert_eq!(small.visible, Rect::at(0, 0, 388, 300), "a larger one is whole");
        assert_eq!(small.to_screen(387.9, 299.9), Some((1799, 699)));
        let none = Placement::of_display(picture, Rect::default(), size(388, 300));
        assert_eq!(
            (none.to_screen(5.0, 5.0), none.cover(&picture.rect())),
            (None, Rect::default())
        );
    }

    #[test]
    fn the_last_point_of_a_part_is_in_it() {
        let part = Rect::at(1000, 1000, 100, 100);
        let p = Placement {
            screen: size(4000, 4000),
            part,
            shown: Rect::at(0, 0, 300, 300),
            visible: Rect::at(0, 0, 300, 300),
            window: size(300, 300),
        };
        assert_eq!(p.to_screen(299.99997, 400.0), Some((1099, 1099)));
        assert_eq!(p.to_screen(-5.0, 0.0), Some((1000, 1000)));
        #[cfg(feature = "window")]
        assert_eq!(p.to_screen_parts(400.0, 0.0), Some((1100 * 64 - 1, 64_000)));
    }

    #[test]
    fn empty_sizes_have_no_place() {
        assert_eq!(Placement::new(size(0, 0), size(100, 100)).to_screen(5.0, 5.0), None);
        assert_eq!(Placement::new(size(100, 100), size(0, 0)).to_screen(5.0, 5.0), None);
        assert!(Placement::new(size(100, 100), size(0, 0)).cover(&Rect::at(0, 0, 5, 5)).is_empty());
    }
}
