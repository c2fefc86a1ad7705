//! Path 9/13: from session-server/video.rs, to an encoder, which takes colour at half the height alone.
//! Two rows of colour become one, and a place that is not even stays one row for itself.
//! Knows planes; never what made them.

use thinc_protocol::video::Layout;
use thinc_region::Size;

use crate::planes::{Planes, PlanesRef};

/// `out` becomes the picture with colour at half the height.
pub fn to_420(picture: &PlanesRef<'_>, out: &mut Planes) {
    if picture.layout() == Layout::Yuv420 {
        out.copy_from(picture);
        return;
    }
    out.reset(picture.size(), Layout::Yuv420);
    let [luma, colours @ ..] = out.planes_mut();
    for (out, row) in luma.chunks_exact_mut((picture.size().width as usize).max(1)).zip(picture.rows(0)) {
        out.copy_from_slice(row);
    }
    for (plane, colour) in (1..).zip(colours) {
        let Size { width, height } = picture.plane_size(plane);
        for (y, out) in colour.chunks_exact_mut((width as usize).max(1)).enumerate() {
            let below = (2 * y + 1).min(height as usize - 1);
            for ((out, &above), &below) in out.iter_mut().zip(picture.row(plane, 2 * y)).zip(picture.row(plane, below))
            {
                *out = (u16::from(above) + u16::from(below)).div_ceil(2) as u8;
            }
        }
    }
}
