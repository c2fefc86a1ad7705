//! Beside video.rs, from its frames to the h264 crate and to gpu_encoder.rs: which encoder a stream
//! has. The GPU's 4:4:4 where a frame is to have it, else its AV1 where the viewer decodes that,
//! else its H.264, else the library's; and the library's at once whenever a GPU fails. A stream
//! changes its encoder with a keyframe. Knows codecs and what encodes them; never what a frame
//! shows.

use std::time::{Duration, Instant};

use thinc_h264::{EncodeError, Encoder, EncoderSettings, Library};
use thinc_protocol::video::FrameCodec;
use thinc_region::Size;
use thinc_video::PlanesRef;
use tracing::{info, warn};

use crate::SessionConfig;
use crate::connection::{Event, Events};
use crate::gpu_encoder::{GpuEncoders, Opened};

/// 60 s: how long a stream does without an encoder that has failed it. A process that was lost is
/// replaced after a shorter time.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// The first frame of a new scene is a keyframe encoded at half the rate: it is two to three times
/// as large as other frames, instead of seven times, and the next few frames refine it.
const SCENE_CUT_RATE_DIVISOR: u64 = 2;

/// What encodes videos.
#[derive(Clone, Debug, Default)]
pub(crate) struct VideoEncoders {
    /// Always there; H.264.
    library: Library,
    /// Those of a GPU, the best first.
    pub(super) gpus: [Option<GpuEncoders>; 3],
}

/// A stream's encoder, once it has encoded a frame.
#[derive(Debug, Default)]
pub(super) struct StreamEncoder {
    has: Option<Open>,
    /// Codecs that no GPU encodes in frames of this size, or has failed to, and until when.
    refused: Vec<(FrameCodec, Instant)>,
    refused_size: Size,
}

#[derive(Debug)]
struct Open {
    encoder: Encoder,
    size: Size,
    by: By,
}

/// What a stream's encoder is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A GPU, which encodes this.
    Gpu(FrameCodec),
    /// The library.
    Library,
}

/// A frame to be encoded.
pub(super) struct Due<'a> {
    pub(super) planes: PlanesRef<'a>,
    pub(super) bits_per_second: u64,
    pub(super) frames_per_second: u32,
    pub(super) keyframe: bool,
    /// It is the first of a new scene.
    pub(super) is_scene_cut: bool,
    /// Codecs beside H.264 that it may have: bits of `FrameCodec`.
    pub(super) codecs: u32,
}

impl VideoEncoders {
    /// Those of the configuration. `events` are told what GPU encodes.
    pub(crate) fn new(config: &SessionConfig, events: &Events) -> VideoEncoders {
        let library = library(&config.video_encoder);
        let codecs = [FrameCodec::H264Yuv444, FrameCodec::Av1, FrameCodec::H264];
        let gpus = codecs.map(|codec| {
            let gpu = config.gpu_encoding.as_ref()?;
            let events = events.clone();
            let report = move |encoder: Result<&str, &str>| {
                let name = encoder.ok().map(str::to_owned);
                let _ = events.blocking_send(Event::VideoEncoder(codec, name));
            };
            Some(GpuEncoders::new(codec, gpu, Box::new(report)))
        });
        VideoEncoders { library, gpus }
    }

    /// Starts the GPU's encoder of chroma of full resolution, so that it is known whether there is
    /// one.
    pub(crate) fn start_full_colour(&self) {
        let is_it = |gpu: &&GpuEncoders| gpu.codec() == FrameCodec::H264Yuv444;
        self.gpus.iter().flatten().filter(is_it).for_each(GpuEncoders::start);
    }

    /// GPUs' encoders of what a frame may have, the best first.
    fn of_gpus(&self, codecs: u32) -> impl Iterator<Item = &GpuEncoders> {
        self.gpus.iter().flatten().filter(move |gpu| may_have(codecs, gpu.codec()))
    }

    fn by_library(&self, settings: EncoderSettings) -> Result<Open, EncodeError> {
        let encoder = Encoder::with(self.library, settings)?;
        Ok(Open { encoder, size: settings.size, by: By::Library })
    }
}

/// Whether a frame may be of this codec.
fn may_have(codecs: u32, codec: FrameCodec) -> bool {
    codec == FrameCodec::H264 || codecs & codec.bit() != 0
}

/// The encoder library of this name, or the default if this build does not have it: another build
/// may have written the configuration.
fn library(name: &str) -> Library {
    let library = name.parse().unwrap_or_else(|error| {
        warn!("{error}");
        Library::default()
    });
    info!("video encoder: {}", library.name());
    library
}

impl Open {
    fn codec(&self) -> FrameCodec {
        match self.by {
            By::Gpu(codec) => codec,
            By::Library => FrameCodec::H264,
        }
    }
}

impl StreamEncoder {
    /// What has encoded the last frame.
    #[cfg(test)]
    pub(super) fn by(&self) -> Option<By> {
        self.has.as_ref().map(|has| has.by)
    }

    /// Appends a frame's access unit to `out`; returns its codec if it is a keyframe. After an
    /// error nothing was appended, and the stream cannot go on.
    pub(super) fn encode(
        &mut self,
        encoders: &VideoEncoders,
        due: &Due<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<FrameCodec>, EncodeError> {
        let (size, keyframe) = (due.planes.size(), due.keyframe || due.is_scene_cut);
        let (bits_per_second, frames_per_second) = (due.bits_per_second, due.frames_per_second);
        let settings = EncoderSettings { size, bits_per_second, frames_per_second };
        if let Some(better) = self.better(encoders, settings, due.codecs)? {
            self.has = Some(better);
        }
        let has = self.has.as_mut().ok_or(EncodeError::NoFrame)?;
        // Some encoders of GPUs would make the frame after it a keyframe too, for the new rate.
        let divisor = match (due.is_scene_cut && !due.keyframe, has.by) {
            (true, By::Library) => SCENE_CUT_RATE_DIVISOR,
            _ => 1,
        };
        has.encoder.set_rate(bits_per_second / divisor, frames_per_second);
        let encoded = match (has.encoder.encode(&due.planes, keyframe, out), has.by) {
            (Err(error), By::Gpu(codec)) => {
                info!("{error}: a video continues in software");
                self.refused.push((codec, Instant::now() + REFUSED_PAUSE));
                *has = encoders.by_library(settings)?;
                has.encoder.encode(&due.planes, true, out)
            }
            (encoded, _) => encoded,
        };
        Ok(encoded?.keyframe.then(|| has.codec()))
    }

    /// An encoder for the next frame, which will be a keyframe, in the place of the one that the
    /// stream has. None: it keeps that.
    fn better(
        &mut self,
        encoders: &VideoEncoders,
        settings: EncoderSettings,
        codecs: u32,
    ) -> Result<Option<Open>, EncodeError> {
        let size = settings.size;
        if self.refused_size != size {
            self.refused.clear();
            self.refused_size = size;
        }
        let has = self.has.as_ref().filter(|has| has.size == size);
        let now = Instant::now();
        self.refused.retain(|&(_, until)| until > now);
        let mut may_start = true;
        for gpu in encoders.of_gpus(codecs) {
            let codec = gpu.codec();
            if has.is_some_and(|has| has.by == By::Gpu(codec)) {
                return Ok(None);
            }
            if self.refused.iter().any(|&(refused, _)| refused == codec) {
                continue;
            }
            match gpu.open(&settings, may_start) {
                Opened::Stream(stream) => {
                    let encoder = Encoder::by(Box::new(stream), settings, codec.layout())?;
                    return Ok(Some(Open { encoder, size, by: By::Gpu(codec) }));
                }
                // It may be the better one in a moment.
                Opened::Starting => may_start = false,
                Opened::Paused => {}
                Opened::Refused => self.refused.push((codec, now + REFUSED_PAUSE)),
            }
        }
        match has {
            Some(has) if may_have(codecs, has.codec()) => Ok(None),
            _ => encoders.by_library(settings).map(Some),
        }
    }
}
