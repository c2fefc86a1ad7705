//! Path 9/13: from session-server/video.rs, for viewers whose view is smaller than a frame, to an
//! encoder.
//! Downscales planes; each sample is the weighted mean of those that it covers, so nothing aliases.
//! Knows planes; never viewers.

use std::fmt;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use thinc_region::{Rect, Size};

use crate::planes::{Planes, PlanesRef};

/// Downscales frames; it reuses its memory.
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
    /// Allocates nothing yet.
    pub fn new() -> Shrinker {
        Shrinker::default()
    }

    /// Sets `out` to `crop` of the frame at another size, in the same layout. The frame's rows must
    /// have no padding, and neither size may be empty.
    pub fn shrink(&mut self, frame: &PlanesRef<'_>, crop: &Rect, size: Size, out: &mut Planes) {
        assert!(size.area() > 0 && !crop.is_empty(), "neither {crop:?} nor {size:?} may be empty");
        assert!(
            frame.size().rect().contains(crop),
            "{crop:?} is a part of a frame of {:?}",
            frame.size()
        );
        out.reset(size, frame.layout());
        let from = [0, 1, 2].map(|plane| {
            let (samples, stride) = frame.plane(plane);
            assert_eq!(
                stride,
                frame.plane_size(plane).width as usize,
                "rows of plane {plane} have no gaps"
            );
            samples
        });
        let to = out.planes_mut();
        for (plane, (from, to)) in from.into_iter().zip(to).enumerate() {
            let part = |whole: Size| if plane == 0 { whole } else { frame.layout().chroma(whole) };
            let (whole, part) = (part(frame.size()), part(size));
            // Samples of the plane per luma sample: with odd sizes the last column of chroma covers
            // one, not two.
            let across = if plane == 0 { 1.0 } else { 0.5 };
            let down = if part.height == size.height && whole.height == frame.size().height {
                1.0
            } else {
                across
            };
            let edge = |start: i32, len: i32, scale: f64, whole: u32| {
                let start = f64::from(start) * scale;
                (start, (f64::from(len) * scale).min(f64::from(whole) - start))
            };
            let (left, width) = edge(crop.x1, crop.width(), across, whole.width);
            let (top, height) = edge(crop.y1, crop.height(), down, whole.height);
            let image = TypedImageRef::<U8>::from_buffer(whole.width, whole.height, from)
                .expect("a plane must have all samples");
            let mut shrunk = TypedImage::<U8>::from_buffer(part.width, part.height, to)
                .expect("a plane must have all samples");
            let options = ResizeOptions::new()
                .resize_alg(ResizeAlg::Convolution(FilterType::Hamming))
                .crop(left, top, width, height);
            // The typed function: the generic one would compile the library for all sample types,
            // which takes a minute.
            self.resizer
                .resize_typed(&image, &mut shrunk, &options)
                .expect("the crop must lie inside");
        }
    }
}
