//! Under player.rs: coded frames to samples.
//! Plain samples here, and Opus by `ropus`, a port of libopus in Rust: the bytes come from a
//! network. Knows one frame; never when it is played.

use thinc_protocol::sound::{SoundCodec, SoundFormat};

use crate::CHANNELS;

/// Decodes Opus packets of one stream, in two channels at 48 kHz.
pub trait OpusDecoder {
    /// Decodes a packet into `out`, interleaved; returns the samples of each channel. None: it is
    /// no valid packet, or longer than `out`.
    fn decode(&mut self, packet: &[u8], out: &mut [f32]) -> Option<usize>;

    /// Fills `out` with what may have followed.
    fn conceal(&mut self, out: &mut [f32]);
}

/// Decodes frames of any format.
#[derive(Debug)]
pub(crate) struct Decoder<O> {
    opus: O,
    /// The last plain sample of each channel, which fades if a frame is lost.
    last: [f32; CHANNELS],
}

impl<O: OpusDecoder> Decoder<O> {
    pub(crate) fn new(opus: O) -> Decoder<O> {
        Decoder { opus, last: [0.0; CHANNELS] }
    }

    /// Writes a frame's samples over `out`; false if they are not what the format says.
    pub(crate) fn decode(
        &mut self,
        format: &SoundFormat,
        bytes: &[u8],
        out: &mut Vec<f32>,
    ) -> bool {
        let samples = usize::from(format.frame);
        out.clear();
        out.resize(samples * CHANNELS, 0.0);
        match format.codec {
            SoundCodec::Opus => self.opus.decode(bytes, out) == Some(samples),
            SoundCodec::S16 => {
                if bytes.len() != format.pcm_bytes() {
                    return false;
                }
                let values = bytes
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|&bytes| f32::from(i16::from_le_bytes(bytes)) / 32_768.0);
                if format.channels == 2 {
                    out.iter_mut().zip(values).for_each(|(out, value)| *out = value);
                } else {
                    let frames = out.as_chunks_mut::<CHANNELS>().0;
                    frames.iter_mut().zip(values).for_each(|(out, value)| *out = [value; CHANNELS]);
                }
                if let Some(&last) = out.as_chunks::<CHANNELS>().0.last() {
                    self.last = last;
                }
                true
            }
        }
    }

    /// Writes what may have followed the last frame over `out`, for so many samples, a multiple of
    /// 2.5 ms.
    pub(crate) fn conceal(&mut self, format: &SoundFormat, samples: usize, out: &mut Vec<f32>) {
        out.clear();
        out.resize(samples * CHANNELS, 0.0);
        match format.codec {
            SoundCodec::Opus => self.opus.conceal(out),
            SoundCodec::S16 => {
                for frame in out.as_chunks_mut::<CHANNELS>().0 {
                    // To a hundredth within 5 ms: no click, and no invention either.
                    self.last = self.last.map(|value| value * 0.98);
                    *frame = self.last;
                }
            }
        }
    }
}

#[cfg(feature = "opus")]
pub use opus::RustOpus;

#[cfg(feature = "opus")]
mod opus {
    use super::OpusDecoder;
    use crate::{CHANNELS, RATE};

    /// Longest concealment at once: a frame of 20 ms.
    const CONCEAL_SAMPLES_MAX: usize = 960;

    /// Opus in Rust.
    pub struct RustOpus {
        decoder: ropus::Decoder,
    }

    impl std::fmt::Debug for RustOpus {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("RustOpus").finish_non_exhaustive()
        }
    }

    impl Default for RustOpus {
        fn default() -> RustOpus {
            let decoder = ropus::Decoder::new(RATE, ropus::Channels::Stereo)
                .expect("48 kHz and two channels are what Opus has");
            RustOpus { decoder }
        }
    }

    impl OpusDecoder for RustOpus {
        fn decode(&mut self, packet: &[u8], out: &mut [f32]) -> Option<usize> {
            if packet.is_empty() {
                return None;
            }
            self.decoder.decode_float(packet, out, ropus::DecodeMode::Normal).ok()
        }

        fn conceal(&mut self, out: &mut [f32]) {
            for out in out.chunks_mut(CONCEAL_SAMPLES_MAX * CHANNELS) {
                if self.decoder.decode_float(&[], out, ropus::DecodeMode::Normal).is_err() {
                    out.fill(0.0);
                }
            }
        }
    }
}
