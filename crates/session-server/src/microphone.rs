//! Path back, beside the pixels: the packets of the viewer's microphone that session-core takes,
//! decoded for the sound server, which asks for a block whenever programs record one. From
//! actor/sound.rs, to sound.rs's connection. Packets come from a network: `ropus` decodes them.
//! Knows samples and when they are asked for; session-core decides whose microphone is heard.

use std::sync::{Arc, Mutex, MutexGuard};

use thinc_desk::link::MICROPHONE_SAMPLES;
use thinc_protocol::Micros;
use thinc_protocol::microphone::MicrophonePacket;
use thinc_protocol::sound::SoundFormat;
use thinc_session_core::ViewerId;
use thinc_sound::decode::RustOpus;
use thinc_sound::{CHANNELS, Player};

/// The microphone that is heard, shared by the actor and the connection to the sound server.
#[derive(Clone, Debug)]
pub(crate) struct Microphone(Arc<Mutex<Heard>>);

#[derive(Debug)]
struct Heard {
    player: Player<RustOpus>,
    /// Whose packets it plays.
    from: Option<(ViewerId, SoundFormat)>,
    samples: [f32; MICROPHONE_SAMPLES * CHANNELS],
}

impl Microphone {
    pub(crate) fn new() -> Microphone {
        Microphone(Arc::new(Mutex::new(Heard {
            player: Player::new(RustOpus::default()),
            from: None,
            samples: [0.0; MICROPHONE_SAMPLES * CHANNELS],
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().expect("no holder of this lock can panic")
    }

    /// A packet of this viewer's microphone, in this format, arrived at `now`.
    pub(crate) fn handle_packet(
        &self,
        from: (ViewerId, SoundFormat),
        packet: &MicrophonePacket,
        now: Micros,
    ) {
        let mut heard = self.lock();
        if heard.from != Some(from) {
            // Another microphone, or one that was closed meanwhile: numbers begin again.
            heard.player = Player::new(RustOpus::default());
            heard.player.handle_format(from.1);
            heard.from = Some(from);
        }
        heard.player.handle_packet(&packet.packet(), now);
    }

    /// No program records any more: what is left was not said to the next.
    pub(crate) fn forget(&self) {
        let mut heard = self.lock();
        heard.player = Player::new(RustOpus::default());
        heard.from = None;
    }

    /// The next block, of which the first sample is due at `now`; silence if nobody speaks.
    pub(crate) fn pull(&self, now: Micros) -> [f32; MICROPHONE_SAMPLES] {
        let mut heard = self.lock();
        let Heard { player, samples, .. } = &mut *heard;
        player.pull(samples, now);
        let mut block = [0.0; MICROPHONE_SAMPLES];
        for (sample, [left, right]) in block.iter_mut().zip(samples.as_chunks::<CHANNELS>().0) {
            *sample = (left + right) / 2.0;
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use opus::{Application, Bitrate, Channels, Encoder};
    use thinc_protocol::sound::{SoundCodec, SoundFrame, SoundPacket};

    use super::*;

    const FORMAT: SoundFormat =
        SoundFormat { generation: 3, codec: SoundCodec::Opus, channels: 1, frame: 480 };

    /// What programs hear of 2 s of 1 kHz, if packets are lost as `is_lost` says, and 20 ms late at
    /// times.
    fn heard(is_lost: impl Fn(u32) -> bool) -> (Vec<f32>, u32) {
        let mut encoder = Encoder::new(48_000, Channels::Mono, Application::Voip).unwrap();
        encoder.set_bitrate(Bitrate::Bits(32_000)).unwrap();
        let microphone = Microphone::new();
        let (mut out, mut before, mut late) = (Vec::new(), Vec::<u8>::new(), Vec::new());
        for n in 0..200u32 {
            let tone = |at: u32| (at as f32 * std::f32::consts::TAU / 48.0).sin() * 0.5;
            let samples: Vec<f32> = (0..480).map(|at| tone(n * 480 + at)).collect();
            let bytes = encoder.encode_vec_float(&samples, 1000).unwrap();
            let mut frames = vec![SoundFrame { back: 0, bytes: &bytes }];
            if n > 0 {
                frames.push(SoundFrame { back: 1, bytes: &before });
            }
            let packet = MicrophonePacket::new(&SoundPacket {
                generation: 3,
                number: n,
                time: 77_000_000 + u64::from(n) * 10_000,
                silence_follows: false,
                discontinuity: n == 0,
                frames,
            });
            before = bytes;
            let now = 1_000_000 + u64::from(n) * 10_000;
            if !is_lost(n) {
                late.push(packet);
            }
            if n % 7 > 1 {
                for packet in late.drain(..) {
                    microphone.handle_packet((ViewerId(1), FORMAT), &packet, now);
                }
            }
            out.extend(microphone.pull(now));
            out.extend(microphone.pull(now));
        }
        let concealed = microphone.lock().player.report(3_000_000, 0).counts.concealed;
        (out, concealed)
    }

    #[test]
    fn a_viewers_voice_arrives_without_gaps_though_every_fifth_packet_is_lost() {
        for is_lossy in [false, true] {
            let (out, concealed) = heard(|n| is_lossy && n % 5 == 3);
            let settled = &out[48_000..];
            let ups = settled.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
            assert!((985..=1015).contains(&ups), "{ups} periods in a second");
            let quiet = settled.chunks(48).filter(|ms| ms.iter().all(|s| s.abs() < 0.3)).count();
            assert_eq!(quiet, 0, "milliseconds of silence");
            // Until it has learnt how late packets may be.
            assert!(concealed < 10, "{concealed} frames concealed");
        }
    }

    #[test]
    fn another_viewer_is_heard_from_its_first_packet_and_nobody_is_silence() {
        let microphone = Microphone::new();
        assert!(microphone.pull(0).iter().all(|&sample| sample == 0.0));
        let mut encoder = Encoder::new(48_000, Channels::Mono, Application::Voip).unwrap();
        let mut packet = |n| {
            let bytes = encoder.encode_vec_float(&[0.5; 480], 1000).unwrap();
            MicrophonePacket::new(&SoundPacket {
                generation: 3,
                number: n,
                time: u64::from(n) * 10_000,
                silence_follows: false,
                discontinuity: false,
                frames: vec![SoundFrame { back: 0, bytes: &bytes }],
            })
        };
        microphone.handle_packet((ViewerId(1), FORMAT), &packet(40_000), 0);
        microphone.handle_packet((ViewerId(2), FORMAT), &packet(0), 10_000);
        assert_eq!(microphone.lock().player.report(10_000, 0).counts.received, 1);
    }
}
