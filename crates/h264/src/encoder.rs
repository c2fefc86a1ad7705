//! Path 9/13: from session-server/video.rs, to the VIDEO command NEXT (one frame).
//! One stream's encoder: each frame refers to the previous one, except keyframes. The caller
//! chooses one of the libraries in the build; their output has the same form (tests/stream.rs).
//! Knows one stream's frames and its rate; never whether a frame is worth sending.

#[cfg(feature = "openh264")]
mod openh264;
#[cfg(feature = "x264")]
mod x264;

use std::str::FromStr;

use thinc_region::Size;
use thinc_video::{Planes, PlanesRef, SampleLayout, to_420};

use crate::{coded_size, fits};

/// 288 Mbit/s: the limit of level 5.2, the highest rate that OpenH264 accepts.
const BITS_PER_SECOND_MAX: u64 = 288_000_000;
/// 16 kbit/s: below it not even the headers fit.
const BITS_PER_SECOND_MIN: u64 = 16_000;
/// 60: the highest frame rate of its rate control.
const FRAMES_PER_SECOND_MAX: u32 = 60;

/// Initial settings of a stream's encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderSettings {
    /// Size of every frame in luma samples.
    pub size: Size,
    /// Bit rate of the stream.
    pub bits_per_second: u64,
    /// Frame rate, for the rate control.
    pub frames_per_second: u32,
}

/// The encoder's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Cisco's, BSD-2.
    #[cfg(feature = "openh264")]
    OpenH264,
    /// VideoLAN's, GPL-2 or later: a program that contains it is under that licence as a whole.
    #[cfg(feature = "x264")]
    X264,
}

impl Library {
    /// The libraries in this build; the first is the default.
    pub const ALL: &[Library] = &[
        #[cfg(feature = "openh264")]
        Library::OpenH264,
        #[cfg(feature = "x264")]
        Library::X264,
    ];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "openh264")]
            Library::OpenH264 => "openh264",
            #[cfg(feature = "x264")]
            Library::X264 => "x264",
        }
    }
}

impl Default for Library {
    fn default() -> Library {
        Library::ALL[0]
    }
}

impl FromStr for Library {
    type Err = NoSuchLibrary;

    fn from_str(name: &str) -> Result<Library, NoSuchLibrary> {
        let found = Library::ALL.iter().find(|library| library.name() == name);
        found.copied().ok_or_else(|| NoSuchLibrary(name.to_owned()))
    }
}

/// A library that is not in this build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this program has no encoder {0}")]
pub struct NoSuchLibrary(pub String);

/// Describes an encoded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// It is a keyframe: the stream's first frame, and those that were requested.
    pub keyframe: bool,
}

/// Why a frame was not encoded. The stream cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The frames are too small or too large.
    #[error("frames of {} by {} cannot be coded", .0.width, .0.height)]
    Size(Size),
    /// A frame has another size than the stream.
    #[error(
        "a frame of {} by {} in a stream of {} by {}",
        .0.width, .0.height, .1.width, .1.height
    )]
    OtherSize(Size, Size),
    /// A frame has less chroma than the stream.
    #[error("a frame without chroma of full resolution in a stream that has it")]
    OtherLayout,
    /// The library reports an error.
    #[error("{0}")]
    Library(String),
    /// It returned no frame.
    #[error("the encoder returned no frame")]
    NoFrame,
}

/// Encodes the frames of one stream.
pub struct Encoder {
    codes: Box<dyn Codes>,
    settings: EncoderSettings,
    /// What the encoder takes, and the frame in that layout and with even edges.
    layout: SampleLayout,
    whole: Planes,
    halved: Planes,
}

/// An encoder of one stream: a library's, or hardware's. `frame` has the encoder's layout, a
/// library's chroma at half the width and height, and even edges.
pub trait Codes: Send + Sync {
    /// Appends one access unit. Keyframes have parameter sets, and only they. The first frame is a
    /// keyframe; later ones are if `keyframe` is true, and with a library only then. After an error
    /// nothing was appended.
    fn encode(
        &mut self,
        frame: &PlanesRef<'_>,
        settings: &EncoderSettings,
        keyframe: bool,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, EncodeError>;
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Encoder {
    /// With the default library. The first frame will be a keyframe.
    pub fn new(settings: EncoderSettings) -> Result<Encoder, EncodeError> {
        Encoder::with(Library::default(), settings)
    }

    /// The same with this library.
    pub fn with(library: Library, settings: EncoderSettings) -> Result<Encoder, EncodeError> {
        let settings = checked(settings)?;
        let codes: Box<dyn Codes> = match library {
            #[cfg(feature = "openh264")]
            Library::OpenH264 => Box::new(openh264::OpenH264::new(&settings)?),
            #[cfg(feature = "x264")]
            Library::X264 => Box::new(x264::X264::new(&settings)?),
        };
        Encoder::by(codes, settings, SampleLayout::Yuv420)
    }

    /// By another encoder of frames of this layout, 4:2:0 or 4:4:4, which has encoded nothing yet.
    pub fn by(
        codes: Box<dyn Codes>,
        settings: EncoderSettings,
        layout: SampleLayout,
    ) -> Result<Encoder, EncodeError> {
        let settings = checked(settings)?;
        Ok(Encoder { codes, settings, layout, whole: Planes::new(), halved: Planes::new() })
    }

    /// Changes the rates from the next frame on, without a keyframe.
    pub fn set_rate(&mut self, bits_per_second: u64, frames_per_second: u32) {
        self.settings =
            within(EncoderSettings { bits_per_second, frames_per_second, ..self.settings });
    }

    /// Appends a frame as one access unit, as a keyframe if `keyframe` is true. Chroma of more
    /// resolution than the encoder takes is averaged; of less, it is an error.
    pub fn encode(
        &mut self,
        frame: &PlanesRef<'_>,
        keyframe: bool,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, EncodeError> {
        let size = self.settings.size;
        if frame.size() != size {
            return Err(EncodeError::OtherSize(frame.size(), size));
        }
        let halved = match (frame.layout(), self.layout) {
            (has, takes) if has == takes => *frame,
            (_, SampleLayout::Yuv420) => {
                to_420(frame, &mut self.halved);
                self.halved.as_ref()
            }
            _ => return Err(EncodeError::OtherLayout),
        };
        let coded = coded_size(size);
        let whole = if coded == size {
            halved
        } else {
            pad(&halved, coded, &mut self.whole);
            self.whole.as_ref()
        };
        self.codes.encode(&whole, &self.settings, keyframe, out)
    }
}

fn checked(settings: EncoderSettings) -> Result<EncoderSettings, EncodeError> {
    if fits(settings.size) { Ok(within(settings)) } else { Err(EncodeError::Size(settings.size)) }
}

fn within(settings: EncoderSettings) -> EncoderSettings {
    EncoderSettings {
        bits_per_second: settings.bits_per_second.clamp(BITS_PER_SECOND_MIN, BITS_PER_SECOND_MAX),
        frames_per_second: settings.frames_per_second.clamp(1, FRAMES_PER_SECOND_MAX),
        ..settings
    }
}

/// Repeats the last column and row.
fn pad(frame: &PlanesRef<'_>, size: Size, out: &mut Planes) {
    out.reset(size, frame.layout());
    let strides = [0, 1, 2].map(|plane| out.as_ref().plane_size(plane).width as usize);
    for ((plane, stride), out) in strides.into_iter().enumerate().zip(out.planes_mut()) {
        let last = frame.plane_size(plane).height as usize - 1;
        for (y, out) in out.chunks_exact_mut(stride).enumerate() {
            let row = frame.row(plane, y.min(last));
            out[..row.len()].copy_from_slice(row);
            out[row.len()..].fill(row[row.len() - 1]);
        }
    }
}
