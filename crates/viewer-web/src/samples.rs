//! Path 11/13: from web/engine/video.ts, which has the browser's decoder write a frame here, to
//! viewer-core.
//! A decoded frame's samples, from a browser's layout to the three planes that viewer-core takes.
//! Knows the layout of samples; never streams, or who decoded them.

use thinc_protocol::limits::VIDEO_EDGE_MAX;
use thinc_protocol::video::SampleLayout;
use thinc_region::Size;
use thinc_video::{Planes, PlanesRef};

/// Layout of a browser's frame, rows without gaps; web/engine/decoder.ts has the same
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChromaLayout {
    /// Planes Y, Cb, Cr (I420), from software decoders.
    Planar = 0,
    /// Plane Y, then Cb and Cr interleaved (NV12), from hardware decoders.
    Interleaved = 1,
    /// Planes Y, Cb, Cr with chroma of full resolution (I444).
    Full = 2,
}

impl ChromaLayout {
    pub(crate) const fn from_number(number: u32) -> Option<ChromaLayout> {
        match number {
            0 => Some(ChromaLayout::Planar),
            1 => Some(ChromaLayout::Interleaved),
            2 => Some(ChromaLayout::Full),
            _ => None,
        }
    }

    const fn layout(self) -> SampleLayout {
        match self {
            ChromaLayout::Planar | ChromaLayout::Interleaved => SampleLayout::Yuv420,
            ChromaLayout::Full => SampleLayout::Yuv444,
        }
    }
}

/// Memory for one frame at a time, as large as the largest was.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// What the browser wrote.
    bytes: Vec<u8>,
    /// The planes of an interleaved frame.
    deinterleaved: Option<Planes>,
}

impl Samples {
    pub(crate) const fn new() -> Samples {
        Samples { bytes: Vec::new(), deinterleaved: None }
    }

    /// A buffer for a frame of this size, to be written before `frame`; null if the size is over
    /// the limit.
    pub(crate) fn buffer(&mut self, chroma: ChromaLayout, size: Size) -> *mut u8 {
        if size.width > VIDEO_EDGE_MAX || size.height > VIDEO_EDGE_MAX {
            return std::ptr::null_mut();
        }
        let needed = chroma.layout().bytes(size) as usize;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        self.bytes.as_mut_ptr()
    }

    /// The written frame; none if the buffer is smaller than a frame of this size.
    pub(crate) fn frame(&mut self, chroma: ChromaLayout, size: Size) -> Option<PlanesRef<'_>> {
        let needed = usize::try_from(chroma.layout().bytes(size)).ok()?;
        let bytes = self.bytes.get(..needed)?;
        match chroma {
            ChromaLayout::Planar | ChromaLayout::Full => {
                PlanesRef::packed(size, chroma.layout(), bytes)
            }
            ChromaLayout::Interleaved => {
                let deinterleaved = self.deinterleaved.get_or_insert_default();
                deinterleaved.reset(size, SampleLayout::Yuv420);
                let [luma, blue, red] = deinterleaved.planes_mut();
                let (lumas, pairs) = bytes.split_at(luma.len());
                luma.copy_from_slice(lumas);
                for (pair, (blue, red)) in
                    pairs.as_chunks::<2>().0.iter().zip(blue.iter_mut().zip(red))
                {
                    [*blue, *red] = *pair;
                }
                Some(deinterleaved.as_ref())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(samples: &mut Samples, chroma: ChromaLayout, size: Size, bytes: &[u8]) {
        assert!(!samples.buffer(chroma, size).is_null());
        samples.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn both_layouts_of_a_frame_with_odd_edges_become_the_same_planes() {
        let size = Size { width: 5, height: 3 };
        let luma: Vec<u8> = (0..15).collect();
        let (blue, red): (Vec<u8>, Vec<u8>) = ((100..106).collect(), (200..206).collect());
        let planar = [luma.clone(), blue.clone(), red.clone()].concat();
        let pairs: Vec<u8> = blue.iter().zip(&red).flat_map(|(&blue, &red)| [blue, red]).collect();
        let interleaved = [luma, pairs].concat();
        for (chroma, bytes) in
            [(ChromaLayout::Planar, &planar), (ChromaLayout::Interleaved, &interleaved)]
        {
            let mut samples = Samples::new();
            write(&mut samples, chroma, size, bytes);
            let mut packed = Vec::new();
            samples.frame(chroma, size).unwrap().write_packed(&mut packed);
            assert_eq!(packed, planar, "{chroma:?}");
        }
    }

    #[test]
    fn chroma_of_full_resolution_stays_as_it_is() {
        let size = Size { width: 5, height: 3 };
        let bytes: Vec<u8> = (0..45).collect();
        let mut samples = Samples::new();
        write(&mut samples, ChromaLayout::Full, size, &bytes);
        let frame = samples.frame(ChromaLayout::Full, size).unwrap();
        assert_eq!(frame.layout(), SampleLayout::Yuv444);
        let mut packed = Vec::new();
        frame.write_packed(&mut packed);
        assert_eq!(packed, bytes);
        let mut half = Samples::new();
        assert!(!half.buffer(ChromaLayout::Planar, size).is_null());
        assert!(half.frame(ChromaLayout::Full, size).is_none(), "the buffer is for less");
    }

    #[test]
    fn the_buffer_stays_for_smaller_frames_and_an_unwritten_frame_is_none() {
        let mut samples = Samples::new();
        let (small, large) = (Size { width: 2, height: 2 }, Size { width: 64, height: 64 });
        assert!(samples.frame(ChromaLayout::Planar, small).is_none(), "there was no buffer yet");
        let planar = ChromaLayout::Planar;
        let at = samples.buffer(planar, large);
        assert_eq!(samples.buffer(planar, small), at, "which a browser may still be writing to");
        assert!(samples.frame(ChromaLayout::Planar, Size { width: 66, height: 64 }).is_none());
        let too_wide = Size { width: VIDEO_EDGE_MAX + 1, height: 2 };
        assert!(samples.buffer(planar, too_wide).is_null());
    }
}
