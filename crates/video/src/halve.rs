//! Path 9/13: from session-server/video.rs, to an encoder, which accepts chroma only at half the
//! height.
//! Averages two rows of chroma to one; the last row of an odd number stays as it is.
//! Knows planes; never where they are from.

use thinc_protocol::video::SampleLayout;
use thinc_region::Size;

use crate::planes::{Planes, PlanesRef};

/// Sets `out` to the frame with chroma at half the height.
pub fn to_420(frame: &PlanesRef<'_>, out: &mut Planes) {
    if frame.layout() == SampleLayout::Yuv420 {
        out.copy_from(frame);
        return;
    }
    out.reset(frame.size(), SampleLayout::Yuv420);
    let [luma, colours @ ..] = out.planes_mut();
    for (out, row) in luma.chunks_exact_mut((frame.size().width as usize).max(1)).zip(frame.rows(0))
    {
        out.copy_from_slice(row);
    }
    for (plane, colour) in (1..).zip(colours) {
        let Size { width, height } = frame.plane_size(plane);
        for (y, out) in colour.chunks_exact_mut((width as usize).max(1)).enumerate() {
            let below = (2 * y + 1).min(height as usize - 1);
            for ((out, &above), &below) in
                out.iter_mut().zip(frame.row(plane, 2 * y)).zip(frame.row(plane, below))
            {
                *out = (u16::from(above) + u16::from(below)).div_ceil(2) as u8;
            }
        }
    }
}
