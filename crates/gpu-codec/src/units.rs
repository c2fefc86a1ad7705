//! Beside encode.rs: makes an encoder's access units what the protocol allows, where encoders
//! differ: parameter sets or sequence headers with every keyframe, and no filler. Knows the kinds
//! of units (ITU-T H.264, Annex B and 7.4.1; AV1's in gpu-video/src/av1.rs); never what they
//! contain.

use thinc_gpu_video::av1::{Obu, obus};
use thinc_protocol::video::FrameCodec;

/// Kinds of units.
mod kind {
    pub(super) const IDR_SLICE: u8 = 5;
    pub(super) const SEQUENCE_PARAMETERS: u8 = 7;
    pub(super) const PICTURE_PARAMETERS: u8 = 8;
    pub(super) const FILLER: u8 = 12;
}

/// What a stream's keyframes need to be decoded.
#[derive(Debug)]
pub(crate) enum Headers {
    H264(ParameterSets),
    Av1(SequenceHeader),
}

impl Headers {
    pub(crate) fn of(codec: FrameCodec) -> Headers {
        match codec {
            FrameCodec::H264 | FrameCodec::H264Yuv444 => Headers::H264(ParameterSets::default()),
            FrameCodec::Av1 => Headers::Av1(SequenceHeader::default()),
        }
    }

    /// The access unit with what is needed if it is a keyframe, and without filler.
    pub(crate) fn complete<'a>(&'a mut self, unit: &'a [u8]) -> &'a [u8] {
        match self {
            Headers::H264(sets) => sets.complete(unit),
            Headers::Av1(header) => header.complete(unit),
        }
    }
}

/// A stream's sequence header.
#[derive(Debug, Default)]
pub(crate) struct SequenceHeader {
    header: Vec<u8>,
    /// The last temporal unit, completed.
    unit: Vec<u8>,
}

impl SequenceHeader {
    /// The temporal unit with a sequence header if it is a keyframe, and only then; without padding
    /// and metadata.
    fn complete<'a>(&'a mut self, unit: &'a [u8]) -> &'a [u8] {
        let [mut keyframe, mut has_header, mut needless] = [false; 3];
        for obu in obus(unit) {
            // What is not understood is refused by who asked for it.
            let Ok(obu) = obu else { return unit };
            keyframe |= obu.begins_keyframe();
            needless |= obu.is_needless();
            if obu.is_sequence_header() {
                has_header = true;
                keep(&mut self.header, obu.bytes());
            }
        }
        if keyframe == has_header && !needless {
            return unit;
        }
        let is_kept = |obu: &Obu<'_>| {
            !obu.is_temporal_delimiter() && !obu.is_sequence_header() && !obu.is_needless()
        };
        self.unit.clear();
        for obu in obus(unit).flatten().filter(Obu::is_temporal_delimiter) {
            self.unit.extend(obu.bytes());
        }
        if keyframe {
            self.unit.extend(&self.header);
        }
        for obu in obus(unit).flatten().filter(is_kept) {
            self.unit.extend(obu.bytes());
        }
        &self.unit
    }
}

/// A stream's parameter sets: NVENC's older element writes them once.
#[derive(Debug, Default)]
pub(crate) struct ParameterSets {
    sequence: Vec<u8>,
    picture: Vec<u8>,
    /// The last access unit, completed.
    unit: Vec<u8>,
}

impl ParameterSets {
    /// The access unit with parameter sets if it is a keyframe, and without filler.
    fn complete<'a>(&'a mut self, unit: &'a [u8]) -> &'a [u8] {
        let (mut keyframe, mut has_sequence, mut has_picture, mut filler) = <_>::default();
        for nal in units(unit) {
            match kind_of(nal) {
                Some(kind::IDR_SLICE) => keyframe = true,
                Some(kind::FILLER) => filler = true,
                Some(kind::SEQUENCE_PARAMETERS) => {
                    has_sequence = true;
                    keep(&mut self.sequence, nal);
                }
                Some(kind::PICTURE_PARAMETERS) => {
                    has_picture = true;
                    keep(&mut self.picture, nal);
                }
                _ => {}
            }
        }
        let lacks = keyframe && !(has_sequence && has_picture);
        if !lacks && !filler {
            return unit;
        }
        self.unit.clear();
        if lacks {
            for nal in [&self.sequence, &self.picture] {
                self.unit.extend([0, 0, 0, 1]);
                self.unit.extend(nal);
            }
        }
        let is_kept = |kind| match kind {
            Some(kind::FILLER) => false,
            Some(kind::SEQUENCE_PARAMETERS | kind::PICTURE_PARAMETERS) => !lacks,
            _ => true,
        };
        for nal in units(unit).filter(|nal| is_kept(kind_of(nal))) {
            self.unit.extend([0, 0, 0, 1]);
            self.unit.extend(nal);
        }
        &self.unit
    }
}

fn keep(parameters: &mut Vec<u8>, nal: &[u8]) {
    parameters.clear();
    parameters.extend(nal);
}

fn kind_of(nal: &[u8]) -> Option<u8> {
    nal.first().map(|head| head & 0x1f)
}

/// The units of a byte stream, without start codes and the zeros between them.
fn units(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let code = |bytes: &[u8]| bytes.windows(3).position(|bytes| bytes == [0, 0, 1]);
    rest = code(rest).map_or(&[], |at| &rest[at + 3..]);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (nal, behind) = match code(rest) {
            Some(at) => (&rest[..at], &rest[at + 3..]),
            None => (rest, &[][..]),
        };
        rest = behind;
        let end = nal.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Some(&nal[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCE: &[u8] = &[0x67, 66, 0xc0, 30];
    const PICTURE: &[u8] = &[0x68, 0xce, 0x3c, 0x80];
    const KEY: &[u8] = &[0x65, 0x88, 1, 2];
    const NEXT: &[u8] = &[0x41, 0x9a, 3];
    const FILL: &[u8] = &[0x0c, 0xff, 0xff, 0x80];
    const DELIMITER: &[u8] = &[0x09, 0x10];

    fn unit(nals: &[&[u8]]) -> Vec<u8> {
        nals.iter().flat_map(|nal| [&[0, 0, 0, 1], *nal].concat()).collect()
    }

    #[test]
    fn keyframes_of_av1_have_their_sequence_header_and_no_unit_has_padding() {
        const DELIMITER: &[u8] = &[0x12, 0];
        const SEQUENCE: &[u8] = &[0x0a, 2, 7, 8];
        const OTHER: &[u8] = &[0x0a, 2, 7, 9];
        const KEY: &[u8] = &[0x32, 2, 0x10, 5];
        const NEXT: &[u8] = &[0x32, 2, 0x30, 6];
        const PADDING: &[u8] = &[0x7a, 3, 0, 0, 0x80];
        const METADATA: &[u8] = &[0x2a, 2, 1, 0x80];
        let mut header = SequenceHeader::default();
        let first = [DELIMITER, SEQUENCE, KEY].concat();
        assert_eq!(header.complete(&first), first, "nothing is missing");
        let next = [DELIMITER, NEXT].concat();
        assert_eq!(header.complete(&next), next);
        assert_eq!(header.complete(&[DELIMITER, KEY].concat()), first);
        assert_eq!(header.complete(KEY), [SEQUENCE, KEY].concat());
        assert_eq!(header.complete(&[DELIMITER, NEXT, PADDING].concat()), next);
        assert_eq!(header.complete(&[DELIMITER, METADATA, NEXT].concat()), next);
        // A sequence header is of use with a keyframe only; another one takes its place.
        assert_eq!(header.complete(&[DELIMITER, OTHER, NEXT].concat()), next);
        assert_eq!(header.complete(&[DELIMITER, KEY].concat()), [DELIMITER, OTHER, KEY].concat());
        for nothing in [&[][..], &[0x32, 9, 1], &[7; 9]] {
            assert_eq!(header.complete(nothing), nothing);
        }
    }

    #[test]
    fn keyframes_have_parameter_sets_and_no_unit_has_filler() {
        let mut sets = ParameterSets::default();
        let first = unit(&[SEQUENCE, PICTURE, KEY]);
        assert_eq!(sets.complete(&first), first, "nothing is missing");
        let next = unit(&[NEXT]);
        assert_eq!(sets.complete(&next), next);
        assert_eq!(sets.complete(&unit(&[KEY])), first);
        assert_eq!(sets.complete(&unit(&[PICTURE, KEY, FILL])), first);
        assert_eq!(sets.complete(&unit(&[DELIMITER, NEXT, FILL])), unit(&[DELIMITER, NEXT]));
        // Other sets take the place of the first ones, with short start codes too.
        let other: &[u8] = &[0x67, 66, 0xc0, 31];
        let short = [&[0, 0, 1], other, &[0, 0, 1], PICTURE, &[0, 0, 1], KEY].concat();
        assert_eq!(sets.complete(&short), short);
        assert_eq!(sets.complete(&unit(&[KEY])), unit(&[other, PICTURE, KEY]));
        for nothing in [&[][..], &[0, 0], &[7; 9]] {
            assert_eq!(sets.complete(nothing), nothing);
        }
    }
}
