//! Path 9/13: from session-server/video.rs, to a NEXT.
//! One stream's encoder: each picture leans on the one before it, and on nothing after a key. Which library makes it is said at the beginning,
//! one of those that were built in; what it makes is of one kind whichever it is (tests/stream.rs).
//! Knows one stream's pictures and its rate; whether a picture is worth sending was decided before.

#[cfg(feature = "openh264")]
mod openh264;
#[cfg(feature = "x264")]
mod x264;

use std::str::FromStr;

use thinc_region::Size;
use thinc_video::{Layout, Planes, PlanesRef, to_420};

use crate::{coded_size, fits};

/// 288 Mbit/s: level 5.2's, above which OpenH264 takes no rate.
const BITS_PER_SECOND_MAX: u64 = 288_000_000;
/// 16 kbit/s: below, not even its heads fit.
const BITS_PER_SECOND_MIN: u64 = 16_000;
/// 60: what its rate control reckons with at most.
const FRAMES_PER_SECOND_MAX: u32 = 60;

/// What a stream's encoder begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderSettings {
    /// Of every picture, in samples of luma.
    pub size: Size,
    /// What its pictures take together.
    pub bits_per_second: u64,
    /// How many pictures a second share them.
    pub frames_per_second: u32,
}

/// Whose encoder makes the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Cisco's, BSD-2.
    #[cfg(feature = "openh264")]
    OpenH264,
    /// VideoLAN's, GPL-2 or later: a program that has it in it is under that licence as a whole.
    #[cfg(feature = "x264")]
    X264,
}

impl Library {
    /// Those that were built in; the first is taken where nobody chooses.
    pub const ALL: &[Library] = &[
        #[cfg(feature = "openh264")]
        Library::OpenH264,
        #[cfg(feature = "x264")]
        Library::X264,
    ];

    /// As people write it.
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

/// An encoder that was not built in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no encoder {0} in this program")]
pub struct NoSuchLibrary(pub String);

/// What became of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// It leans on none before it: the stream's first, and those that were asked for.
    pub key: bool,
}

/// Why a picture was not encoded. The stream cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Too small or too large.
    #[error("pictures of {} by {} cannot be coded", .0.width, .0.height)]
    Size(Size),
    /// A picture of another size than the stream's.
    #[error("a picture of {} by {} in a stream of {} by {}", .0.width, .0.height, .1.width, .1.height)]
    OtherSize(Size, Size),
    /// The library says so.
    #[error("{0}")]
    Library(String),
    /// It gave nothing, or no picture.
    #[error("the encoder made no picture")]
    NoPicture,
}

/// Encodes the pictures of one stream.
pub struct Encoder {
    library: Box<dyn Codes>,
    settings: EncoderSettings,
    /// Colour at half the height, and edges that are even.
    whole: Planes,
    halved: Planes,
}

/// What a library does for a stream. `picture` has colour at half the width and height, and edges that are even.
trait Codes: Send + Sync {
    /// Appends one access unit, whose parameter sets come with keys and only with them. The first is a key; later ones are where
    /// `key` says so, and nowhere else.
    fn encode(
        &mut self,
        picture: &PlanesRef<'_>,
        settings: &EncoderSettings,
        key: bool,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, EncodeError>;
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Encoder {
    /// The first picture will be a key.
    pub fn new(settings: EncoderSettings) -> Result<Encoder, EncodeError> {
        Encoder::with(Library::default(), settings)
    }

    /// The same by a library that is named.
    pub fn with(library: Library, settings: EncoderSettings) -> Result<Encoder, EncodeError> {
        if !fits(settings.size) {
            return Err(EncodeError::Size(settings.size));
        }
        let settings = within(settings);
        let library: Box<dyn Codes> = match library {
            #[cfg(feature = "openh264")]
            Library::OpenH264 => Box::new(openh264::OpenH264::new(&settings)?),
            #[cfg(feature = "x264")]
            Library::X264 => Box::new(x264::X264::new(&settings)?),
        };
        Ok(Encoder { library, settings, whole: Planes::new(), halved: Planes::new() })
    }

    /// What the stream takes from its next picture on. No key comes of it.
    pub fn set_rate(&mut self, bits_per_second: u64, frames_per_second: u32) {
        self.settings = within(EncoderSettings { bits_per_second, frames_per_second, ..self.settings });
    }

    /// Appends a picture as one access unit; `key`: it shall lean on none before it.
    pub fn encode(&mut self, picture: &PlanesRef<'_>, key: bool, out: &mut Vec<u8>) -> Result<Encoded, EncodeError> {
        let size = self.settings.size;
        if picture.size() != size {
            return Err(EncodeError::OtherSize(picture.size(), size));
        }
        let halved = match picture.layout() {
            Layout::Yuv420 => *picture,
            Layout::Yuv422 => {
                to_420(picture, &mut self.halved);
                self.halved.as_ref()
            }
        };
        let coded = coded_size(size);
        let whole = if coded == size {
            halved
        } else {
            pad(&halved, coded, &mut self.whole);
            self.whole.as_ref()
        };
        self.library.encode(&whole, &self.settings, key, out)
    }
}

fn within(settings: EncoderSettings) -> EncoderSettings {
    EncoderSettings {
        bits_per_second: settings.bits_per_second.clamp(BITS_PER_SECOND_MIN, BITS_PER_SECOND_MAX),
        frames_per_second: settings.frames_per_second.clamp(1, FRAMES_PER_SECOND_MAX),
        ..settings
    }
}

/// Repeats the last column and row.
fn pad(picture: &PlanesRef<'_>, size: Size, out: &mut Planes) {
    out.reset(size, Layout::Yuv420);
    let strides = [size.width, size.width / 2, size.width / 2].map(|width| width as usize);
    for ((plane, stride), out) in strides.into_iter().enumerate().zip(out.planes_mut()) {
        let last = picture.plane_size(plane).height as usize - 1;
        for (y, out) in out.chunks_exact_mut(stride).enumerate() {
            let row = picture.row(plane, y.min(last));
            out[..row.len()].copy_from_slice(row);
            out[row.len()..].fill(row[row.len() - 1]);
        }
    }
}
