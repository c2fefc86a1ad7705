//! Path 6/13: under video.rs, from what a viewer decodes and a GPU encodes, to each frame.
//! Which codecs beside H.264 the frames of one viewer may have. AV1 takes fewer bytes. 4:4:4 is for
//! those who have chosen the high quality; a stream may get 4:2:0 all the same, where no encoder is
//! free or none takes frames of its size. Knows codecs, qualities and times; never encoders.

use thinc_protocol::Micros;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::video::FrameCodec;

use super::{VideoOrigin, Videos};

/// 5 s: AV1 that the viewer has taken back is not sent sooner. Each change costs an encoder and a
/// keyframe.
const AV1_PAUSE: Micros = 5_000_000;
/// 5 s, doubled up to 5 min: for so long frames are pictures where a stream was to be 4:4:4 and was
/// 4:2:0.
pub(super) const HALF_COLOUR_PAUSE: Micros = 5_000_000;
const HALF_COLOUR_DOUBLINGS_MAX: u32 = 6;

/// What one viewer decodes, and gets.
#[derive(Debug, Default)]
pub(super) struct ViewerCodecs {
    /// What it decodes beside H.264: bits of `FrameCodec`.
    decoded: u32,
    /// From when on it gets AV1.
    av1_from: Micros,
    /// A GPU encodes 4:4:4, the viewer decodes it and its person has chosen it.
    has_full_colour: bool,
    /// The same, and streams are taken to get it: not for some time after one did not.
    pub(super) streams_full_colour: bool,
    half_colour_until: Micros,
    half_colour_times: u32,
}

impl ViewerCodecs {
    /// Codecs beside H.264 that a frame may have now. What a program plays by XVideo is 4:2:0.
    pub(super) fn of(&self, origin: VideoOrigin, now: Micros) -> u32 {
        let av1 = now >= self.av1_from;
        let full_colour = self.has_full_colour && !matches!(origin, VideoOrigin::Port(_));
        let may = [(FrameCodec::Av1, av1), (FrameCodec::H264Yuv444, full_colour)];
        let may: u32 = may.iter().filter(|(_, may)| *may).map(|(codec, _)| codec.bit()).sum();
        self.decoded & may
    }

    /// The keyframe of a frame that might have one of these codecs has this one.
    pub(super) fn keyframe_encoded(&mut self, may_have: u32, codec: FrameCodec, now: Micros) {
        if codec == FrameCodec::H264Yuv444 {
            (self.half_colour_until, self.half_colour_times) = (0, 0);
        } else if may_have & FrameCodec::H264Yuv444.bit() != 0 && now >= self.half_colour_until {
            self.half_colour_until = now + (HALF_COLOUR_PAUSE << self.half_colour_times);
            self.half_colour_times = HALF_COLOUR_DOUBLINGS_MAX.min(self.half_colour_times + 1);
        }
    }
}

impl Videos {
    /// The viewer decodes these codecs from now on beside H.264.
    pub(crate) fn set_codecs(&mut self, decoded: u32, now: Micros) {
        let codecs = &mut self.codecs;
        if codecs.decoded & !decoded & FrameCodec::Av1.bit() != 0 {
            codecs.av1_from = now + AV1_PAUSE;
        }
        codecs.decoded = decoded;
    }

    /// The viewer decodes 4:4:4, and the person has chosen a quality that is worth it.
    pub(crate) fn wants_full_colour(&self) -> bool {
        let decodes = self.codecs.decoded & FrameCodec::H264Yuv444.bit() != 0;
        decodes && self.takes_coded && self.quality == PictureQuality::High
    }

    /// Whether a GPU encodes 4:4:4.
    pub(crate) fn set_full_colour(&mut self, is_encoded: bool, now: Micros) {
        let has = is_encoded && self.wants_full_colour();
        let codecs = &mut self.codecs;
        codecs.has_full_colour = has;
        codecs.streams_full_colour = has && now >= codecs.half_colour_until;
    }
}
