//! The bar codes of a frame as rectangles to clear: black over both edges, then the white bars. In
//! the encoding of thinc-bench's observers. Knows rectangles in OpenGL's direction, from the lower
//! edge up; never a context.

use thinc_bench::observe::barcode::{HEIGHT, WIDTH_MIN, white_bars};

/// A rectangle of the window: left, bottom, width and height, pixels.
pub(crate) type Area = [i32; 4];

/// Smallest window: its codes do not touch, and most of it is the scene.
pub(crate) const SIZE_MIN: (u32, u32) = (WIDTH_MIN, 4 * HEIGHT);

/// What to clear, in this order, and whether to white.
pub(crate) fn areas(number: u32, width: u32, height: u32) -> Vec<(Area, bool)> {
    // White bars that touch are one clear.
    let mut bars: Vec<(u32, u32)> = Vec::new();
    for (from, to) in white_bars(number, width) {
        match bars.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => bars.push((from, to)),
        }
    }
    let bars = &bars;
    let code = |bottom: u32| {
        let area =
            move |from: u32, to: u32| [from, bottom, to - from, HEIGHT].map(u32::cast_signed);
        let white = bars.iter().map(move |&(from, to)| (area(from, to), true));
        std::iter::once((area(0, width), false)).chain(white)
    };
    code(height - HEIGHT).chain(code(0)).collect()
}

#[cfg(test)]
mod tests {
    use thinc_bench::observe::barcode;
    use thinc_bench::observe::picture::{Picture, Rect};

    use super::*;

    #[test]
    fn the_observers_read_the_number_at_both_edges() {
        for (width, height) in [(1240, 900), (1024, 768), SIZE_MIN] {
            for number in [0, 1, 4711, u32::MAX] {
                let mut picture =
                    Picture { width, height, pixels: vec![0x26_2640; (width * height) as usize] };
                for (area, is_white) in areas(number, width, height) {
                    let [left, bottom, across, up] = area.map(i32::cast_unsigned);
                    for row in bottom..bottom + up {
                        let from = ((height - 1 - row) * width + left) as usize;
                        picture.pixels[from..from + across as usize].fill(if is_white {
                            0xff_ffff
                        } else {
                            0
                        });
                    }
                }
                let frame = Rect::new(0, 0, width, height);
                assert_eq!(barcode::read(&picture, barcode::top(frame)), Some(number));
                assert_eq!(barcode::read(&picture, barcode::bottom(frame)), Some(number));
                // The scene between them stays.
                let middle = (height / 2 * width) as usize;
                assert_eq!(picture.pixels[middle], 0x26_2640);
            }
        }
    }
}
