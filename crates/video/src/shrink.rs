//! Path 9/13: from session-server/video.rs, for viewers whose screen is smaller than a picture, to an encoder.
//! Planes become smaller, each sample the weighted mean of those it stands for: nothing flickers, nothing is skipped.
//! Knows planes; never viewers.

use std::fmt;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use thinc_region::{Rect, Size};

use crate::planes::{Planes, PlanesRef};

/// Makes pictures smaller; keeps the memory it works with.
#[derive(Default)]
pub struct Shrinker {
    resizer: Resizer,
}

impl fmt::Debug for Shrinker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shrinker").finish_non_exhaustive()
    }
}

impl Shrinker {
    /// No memory is taken yet.
    pub fn new() -> Shrinker {
        Shrinker::default()
    }

    /// `out` becomes `crop` of the picture, whose rows lie without gaps, at another size and of the same layout. Neither may be empty.
    pub fn shrink(&mut self, picture: &PlanesRef<'_>, crop: &Rect, size: Size, out: &mut Planes) {
        assert!(size.area() > 0 && !crop.is_empty(), "{crop:?} becomes {size:?}");
        assert!(picture.size().rect().contains(crop), "{crop:?} is a part of a picture of {:?}", picture.size());
        out.reset(size, picture.layout());
        let from = [0, 1, 2].map(|plane| {
            let (samples, stride) = picture.plane(plane);
            assert_eq!(stride, picture.plane_size(plane).width as usize, "rows of plane {plane} have no gaps");
            samples
        });
        let to = out.planes_mut();
        for (plane, (from, to)) in from.into_iter().zip(to).enumerate() {
            let part = |whole: Size| if plane == 0 { whole } else { picture.layout().chroma(whole) };
            let (whole, part) = (part(picture.size()), part(size));
            // How much of the plane stands for a sample of luma: of odd sizes the last column of colour stands for one, not two.
            let across = if plane == 0 { 1.0 } else { 0.5 };
            let down = if part.height == size.height && whole.height == picture.size().height { 1.0 } else { across };
            let edge = |start: i32, len: i32, scale: f64, whole: u32| {
                let start = f64::from(start) * scale;
                (start, (f64::from(len) * scale).min(f64::from(whole) - start))
            };
            let (left, width) = edge(crop.x1, crop.width(), across, whole.width);
            let (top, height) = edge(crop.y1, crop.height(), down, whole.height);
            let image = TypedImageRef::<U8>::from_buffer(whole.width, whole.height, from).expect("a plane is whole");
            let mut shrunk = TypedImage::<U8>::from_buffer(part.width, part.height, to).expect("a plane is whole");
            let options = ResizeOptions::new()
                .resize_alg(ResizeAlg::Convolution(FilterType::Hamming))
                .crop(left, top, width, height);
            // By the one type of sample: by any, the library would be compiled here for all of them, a minute long.
            self.resizer.resize_typed(&image, &mut shrunk, &options).expect("the crop lies inside");
        }
    }
}
