//! Is a scaled view correct, for any rectangle of it? Random screens and scales, compared with
//! means computed in floating point.
//! Uses the crate's public interface.

use proptest::prelude::*;
use thinc_pixels::{RGB, Resampler};
use thinc_region::{Rect, Scale, Size};

/// A random screen, a part of it, and the size of a view.
#[derive(Clone, Debug)]
struct Case {
    screen: Size,
    pixels: Vec<u32>,
    x: Scale,
    y: Scale,
}

impl Case {
    fn view(&self) -> Rect {
        Rect::new(0, 0, self.x.target() as i32, self.y.target() as i32)
    }

    fn resample(&self, resampler: &mut Resampler, rect: Rect) -> Vec<u32> {
        let mut to = vec![0xdead; rect.area() as usize];
        resampler.resample(
            (&self.x, &self.y),
            rect,
            &mut to,
            rect.width() as usize,
            |rect, to, stride| {
                for (y, line) in (rect.y1..rect.y2).zip(to.chunks_mut(stride)) {
                    let from = y as usize * self.screen.width as usize + rect.x1 as usize;
                    line[..rect.width() as usize]
                        .copy_from_slice(&self.pixels[from..][..rect.width() as usize]);
                }
            },
        );
        to
    }

    /// A channel of a pixel of the view, by the definition of `Scale`.
    fn ideal(&self, (px, py): (i32, i32), shift: u32) -> f64 {
        let weights = |scale: &Scale, pixel: i32| {
            let (n, t) = (f64::from(scale.source()), f64::from(scale.target()));
            let weigh = |s: f64| {
                if t > n {
                    let at = ((f64::from(pixel) + 0.5) * n / t - 0.5).clamp(0.0, n - 1.0);
                    (1.0 - (s - at).abs()).max(0.0)
                } else {
                    let (from, to) = (f64::from(pixel) * n / t, f64::from(pixel + 1) * n / t);
                    ((s + 1.0).min(to) - s.max(from)).max(0.0) * t / n
                }
            };
            (0..scale.source() as i32)
                .map(|s| (scale.start() + s, weigh(f64::from(s))))
                .collect::<Vec<_>>()
        };
        let (columns, rows) = (weights(&self.x, px), weights(&self.y, py));
        let mut sum = 0.0;
        for &(y, wy) in rows.iter().filter(|(_, weight)| *weight > 0.0) {
            for &(x, wx) in columns.iter().filter(|(_, weight)| *weight > 0.0) {
                let pixel = self.pixels[y as usize * self.screen.width as usize + x as usize];
                sum += f64::from(pixel >> shift & 255) * wx * wy;
            }
        }
        sum
    }
}

fn axis() -> impl Strategy<Value = (u32, i32, u32, u32)> {
    (1u32..80)
        .prop_flat_map(|edge| {
            (0..edge as i32).prop_flat_map(move |start| {
                (1..=edge - start as u32).prop_map(move |n| (edge, start, n))
            })
        })
        .prop_flat_map(|(edge, start, n)| {
            (Just(edge), Just(start), Just(n), prop_oneof![1u32..100, Just(n)])
        })
}

fn case() -> impl Strategy<Value = Case> {
    (axis(), axis(), any::<u32>()).prop_map(|(x, y, seed)| {
        let screen = Size { width: x.0, height: y.0 };
        let pixel = |i: u64| {
            (i as u32 ^ seed).wrapping_mul(0x9e37_79b9).rotate_right(7).wrapping_mul(0x85eb_ca6b)
                & RGB
        };
        let pixels = (0..screen.area()).map(pixel).collect();
        Case { screen, pixels, x: Scale::new(x.1, x.2, x.3), y: Scale::new(y.1, y.2, y.3) }
    })
}

fn within(view: Rect, (a, b, c, d): (u32, u32, u32, u32)) -> Rect {
    let cut = |a: u32, b: u32, edge: i32| {
        let (a, b) = ((a % edge as u32) as i32, (b % edge as u32) as i32);
        (a.min(b), a.max(b) + 1)
    };
    let ((x1, x2), (y1, y2)) = (cut(a, b, view.x2), cut(c, d, view.y2));
    Rect { x1, y1, x2, y2 }
}

proptest! {
    #[test]
    fn any_rectangle_equals_its_part_of_the_view(
        case in case(),
        edges in any::<[(u32, u32, u32, u32); 4]>(),
    ) {
        let mut resampler = Resampler::new();
        let (view, whole) = (case.view(), case.resample(&mut resampler, case.view()));
        for edges in edges {
            let rect = within(view, edges);
            let part = case.resample(&mut resampler, rect);
            for (at, &pixel) in part.iter().enumerate() {
                let x = rect.x1 + at as i32 % rect.width();
                let y = rect.y1 + at as i32 / rect.width();
                let expected = whole[(y * view.x2 + x) as usize];
                prop_assert_eq!(pixel, expected, "({}, {}) of {:?}", x, y, rect);
            }
        }
    }

    #[test]
    fn a_pixel_is_the_weighted_mean_of_its_support(case in case()) {
        let view = case.view();
        let whole = case.resample(&mut Resampler::new(), view);
        for (at, &pixel) in whole.iter().enumerate() {
            let place = (at as i32 % view.x2, at as i32 / view.x2);
            for shift in [0, 8, 16] {
                let (shown, ideal) = (f64::from(pixel >> shift & 255), case.ideal(place, shift));
                // Each weight is rounded to 256ths, with an error of at most a half of one.
                let weights = |scale: &Scale| scale.source().div_ceil(scale.target());
                let tolerance = 1.0 + f64::from(weights(&case.x) + weights(&case.y)) * 0.5;
                let error = (shown - ideal).abs();
                prop_assert!(error <= tolerance, "{} for {} at {:?}", shown, ideal, place);
            }
        }
    }

    #[test]
    fn one_colour_stays_that_colour(case in case(), color in 0..=RGB) {
        let case = Case { pixels: vec![color; case.pixels.len()], ..case };
        let whole = case.resample(&mut Resampler::new(), case.view());
        prop_assert!(whole.iter().all(|&pixel| pixel == color));
    }

    #[test]
    fn pixels_outside_the_support_have_no_influence(
        case in case(),
        rect in any::<(u32, u32, u32, u32)>(),
    ) {
        let mut resampler = Resampler::new();
        let before = case.resample(&mut resampler, case.view());
        let rect = within(case.screen.rect(), rect);
        let mut changed = case.clone();
        for y in rect.y1..rect.y2 {
            for x in rect.x1..rect.x2 {
                changed.pixels[(y * case.screen.width as i32 + x) as usize] ^= RGB;
            }
        }
        let after = changed.resample(&mut resampler, case.view());
        let (x1, x2) = case.x.touched(rect.x1, rect.x2);
        let (y1, y2) = case.y.touched(rect.y1, rect.y2);
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            let (x, y) = (at as i32 % case.view().x2, at as i32 / case.view().x2);
            let touched = (x1..x2).contains(&x) && (y1..y2).contains(&y);
            prop_assert!(before == after || touched, "({}, {})", x, y);
        }
    }
}

#[test]
fn bands_cover_every_pixel_of_a_large_screen() {
    let screen = Size { width: 3000, height: 40 };
    let pixels = (0..screen.area() as u32).map(|i| i.wrapping_mul(0x9e37_79b9) >> 8).collect();
    let case = Case { screen, pixels, x: Scale::new(0, 3000, 1000), y: Scale::new(0, 40, 25) };
    let mut resampler = Resampler::new();
    let whole = case.resample(&mut resampler, case.view());
    for y in 0..25 {
        let row = case.resample(&mut resampler, Rect::new(0, y, 1000, y + 1));
        assert!(row == whole[y as usize * 1000..][..1000], "row {y}");
    }
}
