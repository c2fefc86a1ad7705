//! Path 12/13 to 13/13: from viewer-core's framebuffer, to the pixels of one rectangle of the
//! window.
//! The framebuffer 1:1 or scaled down, a border around it, dimmed while stale, text panels on top.
//! Knows pixels and places; never SDL. Copies only the requested rectangle.

use thinc_region::{Rect, Size};
use thinc_viewer_core::LossyMask;

use crate::overlay::{Panel, dim};
use crate::place::Placement;
use crate::shown_by::ShownBy;

/// Colour around a framebuffer smaller than the window.
pub(crate) const BORDER: u32 = 0xff10_1010;
/// Colour and distance of the lines that mark lossy pixels: bright and thin, so that the pixels
/// stay readable.
pub(crate) const LOSSY_MARK: u32 = 0xffff_00a0;
pub(crate) const LOSSY_MARK_STEP: i32 = 8;

/// Everything that is visible in the window.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    /// Place of the framebuffer in the window.
    pub(crate) placement: Placement,
    /// The screen's pixels, row after row, `placement.screen` of them.
    pub(crate) screen: &'a [u32],
    /// Parts of the window whose colours are shown as others, disjoint.
    pub(crate) gamma: &'a [ShownBy<'a>],
    /// The framebuffer is stale and shown darker.
    pub(crate) dimmed: bool,
    /// The lossy pixels to mark, if they are to be shown.
    pub(crate) marked: Option<&'a LossyMask>,
    /// Text panels and their positions in the window; later ones are on top.
    pub(crate) panels: &'a [(Panel, i32, i32)],
}

/// Order of the bytes of a pixel in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// 0xXXRRGGBB.
    Rgb,
    /// 0xXXBBGGRR.
    Bgr,
}

impl Scene<'_> {
    /// Writes the pixels of `rect` (inside the window) to `target`, whose first byte is the
    /// rectangle's corner and whose rows are `pitch` bytes apart.
    pub(crate) fn write(
        &self,
        rect: &Rect,
        target: &mut [u8],
        pitch: usize,
        order: Order,
        row: &mut Vec<u32>,
    ) {
        debug_assert!(self.placement.window.rect().contains(rect));
        let width = rect.width() as usize;
        row.resize(width, 0);
        for (index, y) in (rect.y1..rect.y2).enumerate() {
            self.write_row(rect.x1, y, row);
            let bytes = &mut target[index * pitch..index * pitch + width * 4];
            match order {
                Order::Rgb => {
                    for (out, pixel) in bytes.chunks_exact_mut(4).zip(row.iter()) {
                        out.copy_from_slice(&pixel.to_ne_bytes());
                    }
                }
                Order::Bgr => {
                    for (out, pixel) in bytes.chunks_exact_mut(4).zip(row.iter()) {
                        let [b, g, r, _] = pixel.to_le_bytes();
                        out.copy_from_slice(&u32::from_le_bytes([r, g, b, 0xff]).to_ne_bytes());
                    }
                }
            }
        }
    }

    /// The window's pixels from `x1` on in row `y`.
    fn write_row(&self, x1: i32, y: i32, row: &mut [u32]) {
        let (shown, visible) = (self.placement.shown, self.placement.visible);
        let x2 = x1 + row.len() as i32;
        let (start, end) = (visible.x1.clamp(x1, x2), visible.x2.clamp(x1, x2));
        if y < visible.y1 || y >= visible.y2 || start >= end {
            row.fill(BORDER);
        } else {
            row[..(start - x1) as usize].fill(BORDER);
            row[(end - x1) as usize..].fill(BORDER);
            let pixels = &mut row[(start - x1) as usize..(end - x1) as usize];
            let width = self.placement.screen.width as usize;
            if self.placement.is_unscaled() {
                let from = (y - shown.y1) as usize * width + (start - shown.x1) as usize;
                for (out, pixel) in pixels.iter_mut().zip(&self.screen[from..]) {
                    *out = pixel | 0xff00_0000;
                }
            } else {
                for (out, x) in pixels.iter_mut().zip(start - shown.x1..) {
                    *out = self.average(x, y - shown.y1);
                }
            }
            for (rect, table) in self.gamma {
                let columns = (rect.x1.clamp(start, end), rect.x2.clamp(start, end));
                if (rect.y1..rect.y2).contains(&y) {
                    let inside = (columns.0 - start) as usize..(columns.1 - start) as usize;
                    pixels[inside].iter_mut().for_each(|pixel| *pixel = table.apply(*pixel));
                }
            }
            if let Some(lossy) = self.marked.filter(|lossy| !lossy.is_empty()) {
                for (out, x) in pixels.iter_mut().zip(start - shown.x1..) {
                    let (x, y) = (x, y - shown.y1);
                    let (column, line) = self.screen_pixel(x, y);
                    if (x + y) % LOSSY_MARK_STEP == 0 && lossy.contains(column, line) {
                        *out = LOSSY_MARK;
                    }
                }
            }
            if self.dimmed {
                for pixel in pixels {
                    *pixel = dim(*pixel);
                }
            }
        }
        for (panel, left, top) in self.panels {
            let line = y - top;
            let (start, end) =
                ((*left).clamp(x1, x2), (left + panel.size.width as i32).clamp(x1, x2));
            if line >= 0 && line < panel.size.height as i32 && start < end {
                let source =
                    &panel.row(line as usize)[(start - left) as usize..(end - left) as usize];
                row[(start - x1) as usize..(end - x1) as usize].copy_from_slice(source);
            }
        }
    }

    /// The screen's pixel in the centre of those that pixel (x, y) of the scaled framebuffer stands
    /// for.
    fn screen_pixel(&self, x: i32, y: i32) -> (usize, usize) {
        let (screen, shown) = (self.placement.screen, self.placement.shown);
        let middle = |at: i32, shown: i32, whole: u32| {
            ((2 * at as u64 + 1) * u64::from(whole) / (2 * shown as u64)) as usize
        };
        (middle(x, shown.width(), screen.width), middle(y, shown.height(), screen.height))
    }

    /// Mean of the screen's pixels that pixel (x, y) of the scaled framebuffer stands for.
    fn average(&self, x: i32, y: i32) -> u32 {
        let Size { width, height } = self.placement.screen;
        let span = |at: i32, shown: i32, whole: u32| {
            let low = at as u64 * u64::from(whole) / shown as u64;
            let high = ((at as u64 + 1) * u64::from(whole)).div_ceil(shown as u64);
            (low as usize, (high as usize).min(whole as usize))
        };
        let (x1, x2) = span(x, self.placement.shown.width(), width);
        let (y1, y2) = span(y, self.placement.shown.height(), height);
        let (mut red, mut green, mut blue) = (0u64, 0u64, 0u64);
        for line in y1..y2 {
            for pixel in &self.screen[line * width as usize + x1..line * width as usize + x2] {
                red += u64::from(pixel >> 16 & 0xff);
                green += u64::from(pixel >> 8 & 0xff);
                blue += u64::from(pixel & 0xff);
            }
        }
        let count = ((x2 - x1) * (y2 - y1)) as u64;
        let mean = |sum: u64| ((sum + count / 2) / count) as u32;
        0xff00_0000 | mean(red) << 16 | mean(green) << 8 | mean(blue)
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::gamma::GammaTable;

    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    fn shot(scene: &Scene<'_>, rect: Rect, order: Order) -> Vec<u32> {
        let pitch = rect.width() as usize * 4 + 12;
        let mut bytes = vec![0; pitch * rect.height() as usize];
        scene.write(&rect, &mut bytes, pitch, order, &mut Vec::new());
        bytes
            .chunks_exact(pitch)
            .flat_map(|row| {
                row[..pitch - 12].chunks_exact(4).map(|p| u32::from_ne_bytes(p.try_into().unwrap()))
            })
            .collect()
    }

    fn ramp(of: Size) -> Vec<u32> {
        (0..of.area() as u32).map(|i| i.wrapping_mul(0x0001_0305) & 0xff_ffff).collect()
    }

    #[test]
    fn unscaled_pixels_are_copied_with_a_border() {
        let screen = size(5, 4);
        let pixels = ramp(screen);
        let scene = Scene {
            placement: Placement::new(screen, size(9, 8)),
            screen: &pixels,
            gamma: &[],
            dimmed: false,
            marked: None,
            panels: &[],
        };
        let out = shot(&scene, size(9, 8).rect(), Order::Rgb);
        for y in 0..8 {
            for x in 0..9 {
                let inside = (2..7).contains(&x) && (2..6).contains(&y);
                let expected =
                    if inside { pixels[(y - 2) * 5 + x - 2] | 0xff00_0000 } else { BORDER };
                assert_eq!(out[y * 9 + x], expected, "{x},{y}");
            }
        }
    }

    #[test]
    fn any_rectangle_equals_that_part_of_the_window() {
        let screen = size(40, 30);
        let pixels = ramp(screen);
        let panels = [(Panel::draw("ab", 1), 3, 2)];
        for (window, dimmed) in [(size(40, 30), false), (size(50, 44), true), (size(17, 23), false)]
        {
            let scene = Scene {
                placement: Placement::new(screen, window),
                screen: &pixels,
                gamma: &[],
                dimmed,
                marked: None,
                panels: &panels,
            };
            let whole = shot(&scene, window.rect(), Order::Rgb);
            for (x, y, w, h) in [(0, 0, 1, 1), (3, 2, 9, 9), (10, 5, 7, 18), (16, 22, 1, 1)] {
                let rect = Rect::at(x, y, w, h);
                let part = shot(&scene, rect, Order::Rgb);
                for row in 0..h {
                    for column in 0..w {
                        assert_eq!(
                            part[(row * w + column) as usize],
                            whole[((y + row) * window.width as i32 + x + column) as usize]
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_window_shows_the_colours_of_its_tables_and_the_screen_keeps_its_own() {
        let screen = size(12, 10);
        let pixels = ramp(screen);
        let inverted = GammaTable { channels: [std::array::from_fn(|value| 255 - value as u8); 3] };
        let black = GammaTable { channels: [[0; 256]; 3] };
        // Beyond the framebuffer too, where there is a border.
        let gamma = [(Rect::at(0, 0, 8, 14), &inverted), (Rect::at(8, 0, 3, 9), &black)];
        let panels = [(Panel::draw("a", 1), 3, 2)];
        let placement = Placement::new(screen, size(16, 14));
        let plain = Scene {
            placement,
            screen: &pixels,
            gamma: &[],
            dimmed: false,
            marked: None,
            panels: &panels,
        };
        for (dimmed, order) in [(false, Order::Rgb), (true, Order::Rgb), (false, Order::Bgr)] {
            let plain = Scene { dimmed, ..plain };
            let before = shot(&plain, size(16, 14).rect(), order);
            let after = shot(&Scene { gamma: &gamma, ..plain }, size(16, 14).rect(), order);
            let panel = panels[0].0.size.rect().translate(3, 2);
            for (at, (before, after)) in before.iter().zip(&after).enumerate() {
                let (x, y) = (at as i32 % 16, at as i32 / 16);
                let is_screen = placement.visible.contains_point(x, y);
                let own = pixels[((y - 2).max(0) * 12 + x - 2).clamp(0, 119) as usize];
                let shown = |pixel: u32| {
                    let pixel = if dimmed { dim(pixel | 0xff00_0000) } else { pixel | 0xff00_0000 };
                    let [b, g, r, a] = pixel.to_le_bytes();
                    if order == Order::Rgb { pixel } else { u32::from_le_bytes([r, g, b, a]) }
                };
                let expected = match x {
                    _ if !is_screen || panel.contains_point(x, y) => *before,
                    ..8 => shown(!own),
                    8..11 if y < 9 => shown(0),
                    _ => shown(own),
                };
                assert_eq!(*after, expected, "{x},{y}, dimmed {dimmed}, {order:?}");
            }
        }
    }

    #[test]
    fn only_lossy_pixels_are_marked() {
        let screen = size(64, 48);
        let pixels = vec![0x0020_4060; 64 * 48];
        let mut lossy = LossyMask::new(screen);
        let photograph = Rect::at(10, 20, 30, 9);
        lossy.add(&photograph);
        for window in [size(64, 48), size(80, 60), size(32, 24)] {
            let placement = Placement::new(screen, window);
            let plain = Scene {
                placement,
                screen: &pixels,
                gamma: &[],
                dimmed: false,
                marked: None,
                panels: &[],
            };
            let marked = Scene { marked: Some(&lossy), ..plain };
            let of = |scene: &Scene<'_>| shot(scene, window.rect(), Order::Rgb);
            let (before, after) = (of(&plain), of(&marked));
            let mut lines = 0;
            for (i, (before, after)) in before.iter().zip(&after).enumerate() {
                let at =
                    Rect::at(i as i32 % window.width as i32, i as i32 / window.width as i32, 1, 1);
                if before != after {
                    assert!(
                        placement.cover(&photograph).contains(&at) && *after == LOSSY_MARK,
                        "{at:?} in {window:?}"
                    );
                    lines += 1;
                }
            }
            let covered = placement.cover(&photograph).area();
            assert!(
                (covered / 10..covered / 6).contains(&lines),
                "{lines} of {covered} pixels in {window:?}"
            );
            let exact = LossyMask::new(screen);
            assert_eq!(of(&Scene { marked: Some(&exact), ..plain }), before);
        }
    }

    #[test]
    fn scaling_down_averages_what_each_pixel_stands_for() {
        let screen = size(4, 2);
        let pixels =
            [0x000000, 0xffffff, 0x100000, 0x300000, 0x000000, 0xffffff, 0x100000, 0x300000];
        let scene = Scene {
            placement: Placement::new(screen, size(2, 1)),
            screen: &pixels,
            gamma: &[],
            dimmed: false,
            marked: None,
            panels: &[],
        };
        assert_eq!(shot(&scene, size(2, 1).rect(), Order::Rgb), [0xff80_8080, 0xff20_0000]);
        assert_eq!(shot(&scene, size(2, 1).rect(), Order::Bgr), [0xff80_8080, 0xff00_0020]);
    }
}
