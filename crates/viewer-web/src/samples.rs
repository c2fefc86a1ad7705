//! Path 11/13: from web/video.ts, which has the browser's decoder write a picture here, to viewer-core.
//! A decoded picture's samples, as browsers hand them over and as viewer-core takes them: in three planes.
//! Knows how samples lie; never streams, or who decoded them.

use thinc_protocol::limits::VIDEO_EDGE_MAX;
use thinc_protocol::video::Layout;
use thinc_region::Size;
use thinc_video::{Planes, PlanesRef};

/// How a browser's 4:2:0 picture lies, rows without gaps; web/video.ts has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Luma, blue, red: as decoders in software have it.
    Planar = 0,
    /// Luma, then blue and red in turn: as those in hardware have it.
    Paired = 1,
}

impl Form {
    pub(crate) const fn of_number(number: u32) -> Option<Form> {
        match number {
            0 => Some(Form::Planar),
            1 => Some(Form::Paired),
            _ => None,
        }
    }
}

/// Room for one picture at a time, as large as the largest was.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// What the browser wrote.
    bytes: Vec<u8>,
    /// The same with blue and red apart, where they were not.
    apart: Option<Planes>,
}

impl Samples {
    pub(crate) const fn new() -> Samples {
        Samples { bytes: Vec::new(), apart: None }
    }

    /// Room for a picture of this size, which is written before `picture`; null where no picture is so large.
    pub(crate) fn room(&mut self, size: Size) -> *mut u8 {
        if size.width > VIDEO_EDGE_MAX || size.height > VIDEO_EDGE_MAX {
            return std::ptr::null_mut();
        }
        let needed = Layout::Yuv420.bytes(size) as usize;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        self.bytes.as_mut_ptr()
    }

    /// What was written; nothing where that is less than a picture of this size.
    pub(crate) fn picture(&mut self, form: Form, size: Size) -> Option<PlanesRef<'_>> {
        let needed = usize::try_from(Layout::Yuv420.bytes(size)).ok()?;
        let bytes = self.bytes.get(..needed)?;
        match form {
            Form::Planar => PlanesRef::packed(size, Layout::Yuv420, bytes),
            Form::Paired => {
                let apart = self.apart.get_or_insert_default();
                apart.reset(size, Layout::Yuv420);
                let [luma, blue, red] = apart.planes_mut();
                let (lumas, pairs) = bytes.split_at(luma.len());
                luma.copy_from_slice(lumas);
                for (pair, (blue, red)) in pairs.as_chunks::<2>().0.iter().zip(blue.iter_mut().zip(red)) {
                    [*blue, *red] = *pair;
                }
                Some(apart.as_ref())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(samples: &mut Samples, size: Size, bytes: &[u8]) {
        assert!(!samples.room(size).is_null());
        samples.bytes[..bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn both_forms_of_one_picture_are_the_same_planes_edges_that_are_odd_too() {
        let size = Size { width: 5, height: 3 };
        let luma: Vec<u8> = (0..15).collect();
        let (blue, red): (Vec<u8>, Vec<u8>) = ((100..106).collect(), (200..206).collect());
        let planar = [luma.clone(), blue.clone(), red.clone()].concat();
        let pairs: Vec<u8> = blue.iter().zip(&red).flat_map(|(&blue, &red)| [blue, red]).collect();
        let paired = [luma, pairs].concat();
        for (form, bytes) in [(Form::Planar, &planar), (Form::Paired, &paired)] {
            let mut samples = Samples::new();
            written(&mut samples, size, bytes);
            let mut packed = Vec::new();
            samples.picture(form, size).unwrap().write_packed(&mut packed);
            assert_eq!(packed, planar, "{form:?}");
        }
    }

    #[test]
    fn room_stays_for_smaller_pictures_and_what_was_not_written_is_none() {
        let mut samples = Samples::new();
        let (small, large) = (Size { width: 2, height: 2 }, Size { width: 64, height: 64 });
        assert!(samples.picture(Form::Planar, small).is_none(), "there was no room yet");
        let at = samples.room(large);
        assert_eq!(samples.room(small), at, "which a browser may still be writing to");
        assert!(samples.picture(Form::Planar, Size { width: 66, height: 64 }).is_none());
        assert!(samples.room(Size { width: VIDEO_EDGE_MAX + 1, height: 2 }).is_null());
    }
}
