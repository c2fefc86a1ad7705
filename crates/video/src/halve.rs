//! Path 9/13: from session-server/video.rs, to an encoder, which accepts chroma only at half the
//! width and height.
//! Averages two rows of chroma to one, and two columns where there are as many as of luma; the last
//! one of an odd number stays as it is.
//! Knows planes; never where they are from.

use thinc_protocol::video::SampleLayout;
use thinc_region::Size;

use crate::planes::{Planes, PlanesRef};

/// Sets `out` to the frame with chroma at half the width and height.
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
    let across = SampleLayout::Yuv420.chroma(frame.size()).width as usize;
    for (plane, colour) in (1..).zip(colours) {
        let Size { height, .. } = frame.plane_size(plane);
        for (y, out) in colour.chunks_exact_mut(across.max(1)).enumerate() {
            let below = (2 * y + 1).min(height as usize - 1);
            let (above, below) = (frame.row(plane, 2 * y), frame.row(plane, below));
            if frame.layout() == SampleLayout::Yuv444 {
                quarter(above, below, out);
                continue;
            }
            for ((out, &above), &below) in out.iter_mut().zip(above).zip(below) {
                *out = (u16::from(above) + u16::from(below)).div_ceil(2) as u8;
            }
        }
    }
}

/// The means of two rows' pairs.
fn quarter(above: &[u8], below: &[u8], out: &mut [u8]) {
    let sum = |pair: &[u8; 2]| u16::from(pair[0]) + u16::from(pair[1]);
    let ((above, above_rest), (below, below_rest)) = (above.as_chunks(), below.as_chunks());
    for ((out, above), below) in out.iter_mut().zip(above).zip(below) {
        *out = ((sum(above) + sum(below) + 2) >> 2) as u8;
    }
    if let ([above], [below], Some(out)) = (above_rest, below_rest, out.last_mut()) {
        *out = (u16::from(*above) + u16::from(*below)).div_ceil(2) as u8;
    }
}
