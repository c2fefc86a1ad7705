//! Path back, beside the pixels: from the audio device, which records, to client/microphone.rs.
//! Codes what the microphone hears by libopus, in frames of the length that the session wants.
//! Knows samples and their times; never SDL, nor whether anybody may hear.

use opus::{Application, Bitrate, Channels, Encoder};
use thinc_protocol::Micros;
use thinc_protocol::microphone::MicrophoneWant;
use thinc_sound::RATE;
use thinc_viewer_core::MICROPHONE_BITRATE;

/// Longest Opus packet: 20 ms at 32 kbit/s have 80 bytes in the mean.
const PACKET_BYTES_MAX: usize = 500;
/// Samples that come more than this after the last ones begin again: the device has paused.
const PAUSE_US: Micros = 200_000;

/// Codes one recording.
pub(crate) struct MicrophoneEncoder {
    encoder: Encoder,
    /// Samples of a frame, of all channels.
    length: usize,
    frame_us: Micros,
    samples: Vec<f32>,
    /// When the first of `samples` was heard; None before the first.
    time: Option<Micros>,
}

impl MicrophoneEncoder {
    /// For what the session wants.
    pub(crate) fn new(want: MicrophoneWant) -> Result<MicrophoneEncoder, opus::Error> {
        let channels = if want.channels == 1 { Channels::Mono } else { Channels::Stereo };
        // "Voip" would choose the speech codec, with frames of 10 ms at its worst.
        let mut encoder = Encoder::new(RATE, channels, Application::LowDelay)?;
        encoder.set_bitrate(Bitrate::Bits(MICROPHONE_BITRATE as i32))?;
        Ok(MicrophoneEncoder {
            encoder,
            length: usize::from(want.frame) * usize::from(want.channels),
            frame_us: want.format().frame_us(),
            samples: Vec::new(),
            time: None,
        })
    }

    /// Takes samples, of which the last was heard at `now`; passes on each frame, with its time.
    pub(crate) fn push(
        &mut self,
        samples: &[f32],
        now: Micros,
        mut coded: impl FnMut(&[u8], Micros),
    ) {
        let per_frame = self.length as u64;
        let us = |samples: usize| samples as u64 * self.frame_us / per_frame;
        let waiting = us(self.samples.len());
        if self.time.is_none_or(|time| now > time + waiting + us(samples.len()) + PAUSE_US) {
            self.samples.clear();
            self.time = Some(now.saturating_sub(us(samples.len())));
        }
        self.samples.extend_from_slice(samples);
        let mut packet = [0; PACKET_BYTES_MAX];
        let whole = self.samples.len() / self.length * self.length;
        for frame in self.samples[..whole].chunks(self.length) {
            let time = self.time.unwrap_or(now);
            self.time = Some(time + self.frame_us);
            if let Ok(bytes) = self.encoder.encode_float(frame, &mut packet) {
                coded(&packet[..bytes], time);
            }
        }
        self.samples.drain(..whole);
    }
}

#[cfg(test)]
mod tests {
    use thinc_sound::decode::{OpusDecoder as _, RustOpus};

    use super::*;

    #[test]
    fn frames_have_the_wanted_length_and_follow_each_other() {
        let want = MicrophoneWant { generation: 0, wanted: true, channels: 1, frame: 480 };
        let mut encoder = MicrophoneEncoder::new(want).unwrap();
        let tone = |n: usize| (n as f32 * std::f32::consts::TAU / 48.0).sin() * 0.5;
        let samples: Vec<f32> = (0..48_000).map(tone).collect();
        let (mut times, mut bytes, mut heard) = (Vec::new(), 0, Vec::new());
        let mut decoder = RustOpus::default();
        // As a device brings them: 5 ms each, and once late.
        for (n, piece) in samples.chunks(240).enumerate() {
            let now = 1_005_000 + n as u64 * 5000 + if n == 50 { 80_000 } else { 0 };
            encoder.push(piece, now, |frame, time| {
                times.push(time);
                bytes += frame.len();
                let mut out = [0.0; 960];
                assert_eq!(decoder.decode(frame, &mut out), Some(480));
                heard.extend(out.iter().step_by(2));
            });
        }
        assert_eq!((times.len(), times[0]), (100, 1_000_000));
        assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 10_000));
        assert!((2_000..8_000).contains(&bytes), "{bytes} bytes in a second");
        let ups = heard.windows(2).filter(|pair: &&[f32]| pair[0] < 0.0 && pair[1] >= 0.0).count();
        assert!((995..=1001).contains(&ups), "{ups} periods in a second");
        // After a pause of the device the times begin again.
        encoder.push(&[0.0; 480], 5_010_000, |_, time| assert_eq!(time, 5_000_000));
    }
}
