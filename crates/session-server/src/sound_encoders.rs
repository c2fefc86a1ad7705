//! Path 9/13, beside the pixels: from the sound server's frames, to session-core's lanes of sound.
//! Codes each frame once for all viewers of one quality, by libopus. Knows samples; session-core
//! decides who is sent which quality, and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use opus::{Application, Bitrate, Channels, Encoder};
use thinc_protocol::Micros;
use thinc_session_core::{Session, ViewerId};
use thinc_sound::sender::CodedFrame;
use thinc_sound::{CHANNELS, Quality, RATE};
use tracing::warn;

use crate::sound::SoundFrame;

/// Longest Opus packet: with a repeat as long, it fits a message. Frames of 20 ms at 128 kbit/s
/// have at most 441 bytes.
const PACKET_BYTES_MAX: usize = 570;
/// libopus' best: 0.5 % of a core for a stream.
const COMPLEXITY: i32 = 10;

/// Codes one quality.
#[derive(Debug)]
struct QualityEncoder {
    quality: Quality,
    /// None: plain samples, or libopus refused.
    opus: Option<Encoder>,
    /// What does not fill a frame yet, of `quality.channels`, and the time of its first sample.
    samples: Vec<f32>,
    time: Micros,
    /// The next frame does not continue the last one.
    is_broken: bool,
    /// Viewers of this quality, collected again for each frame.
    viewers: Vec<ViewerId>,
}

impl QualityEncoder {
    fn new(quality: Quality) -> QualityEncoder {
        let opus = (!quality.plain)
            .then(|| opus_encoder(quality))
            .and_then(|encoder| encoder.map_err(|error| warn!("no Opus encoder: {error}")).ok());
        QualityEncoder {
            quality,
            opus,
            samples: Vec::new(),
            time: 0,
            is_broken: true,
            viewers: Vec::new(),
        }
    }

    fn handle_frame(&mut self, frame: &SoundFrame, mut coded: impl FnMut(CodedFrame)) {
        if frame.discontinuity {
            self.samples.clear();
            self.is_broken = true;
        }
        if self.samples.is_empty() {
            self.time = frame.time;
        }
        if self.quality.channels == 1 {
            let mono = frame.samples.as_chunks::<CHANNELS>().0.iter();
            self.samples.extend(mono.map(|[left, right]| (left + right) / 2.0));
        } else {
            self.samples.extend_from_slice(&*frame.samples);
        }
        let length = usize::from(self.quality.frame) * usize::from(self.quality.channels);
        if frame.silence_follows {
            // Silence fills the last frame up.
            self.samples.resize(self.samples.len().next_multiple_of(length), 0.0);
        }
        let whole = self.samples.len() / length;
        for n in 0..whole {
            let samples = &self.samples[n * length..][..length];
            let bytes = code(&mut self.opus, self.quality, samples);
            let time = self.time;
            self.time += Micros::from(self.quality.frame) * 1_000_000 / Micros::from(RATE);
            let Some(bytes) = bytes else {
                self.is_broken = true;
                continue;
            };
            coded(CodedFrame {
                quality: self.quality,
                time,
                bytes,
                last: frame.silence_follows && n + 1 == whole,
                discontinuity: std::mem::take(&mut self.is_broken),
            });
        }
        self.samples.drain(..whole * length);
        self.is_broken |= frame.silence_follows;
    }
}

fn opus_encoder(quality: Quality) -> opus::Result<Encoder> {
    let channels = if quality.channels == 1 { Channels::Mono } else { Channels::Stereo };
    // Only its transform, without the speech codec: 2.5 ms of look-ahead instead of 6.5.
    let mut encoder = Encoder::new(RATE, channels, Application::LowDelay)?;
    encoder.set_bitrate(Bitrate::Bits(quality.bitrate as i32))?;
    encoder.set_vbr(true)?;
    encoder.set_complexity(COMPLEXITY)?;
    Ok(encoder)
}

fn code(opus: &mut Option<Encoder>, quality: Quality, samples: &[f32]) -> Option<Arc<[u8]>> {
    if quality.plain {
        let value = |&sample: &f32| (sample.clamp(-1.0, 1.0) * f32::from(i16::MAX)) as i16;
        return Some(samples.iter().flat_map(|sample| value(sample).to_le_bytes()).collect());
    }
    let mut packet = [0; PACKET_BYTES_MAX];
    let bytes = opus.as_mut()?.encode_float(samples, &mut packet).ok()?;
    Some(packet[..bytes].into())
}

/// The encoders in use.
#[derive(Debug, Default)]
pub(crate) struct SoundEncoders {
    encoders: BTreeMap<Quality, QualityEncoder>,
    /// All viewers, collected again for each frame.
    viewers: Vec<ViewerId>,
}

impl SoundEncoders {
    /// Programs play this: it is coded for all viewers that hear it.
    pub(crate) fn handle_frame(&mut self, frame: &SoundFrame, core: &mut Session, now: Micros) {
        self.viewers.extend(core.viewers());
        for viewer in self.viewers.drain(..) {
            if let Some(quality) = core.sound_quality(viewer, now) {
                let encoder =
                    self.encoders.entry(quality).or_insert_with(|| QualityEncoder::new(quality));
                encoder.viewers.push(viewer);
            }
        }
        self.encoders.retain(|_, encoder| !encoder.viewers.is_empty());
        for encoder in self.encoders.values_mut() {
            let mut viewers = std::mem::take(&mut encoder.viewers);
            encoder.handle_frame(frame, |coded| {
                viewers.iter().for_each(|&viewer| core.handle_sound(viewer, coded.clone(), now));
            });
            viewers.clear();
            encoder.viewers = viewers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sound::FRAME_SAMPLES;
    use thinc_protocol::framing::{Deframer, MessageFrame};
    use thinc_protocol::session::SessionMessage;
    use thinc_protocol::sound::{SoundCodec, SoundWant};
    use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
    use thinc_region::Size;
    use thinc_session_core::{ClipboardPolicy, Config, DeliveryOrder, Packer};
    use thinc_sound::Player;
    use thinc_sound::decode::RustOpus;
    use thinc_viewer_core::{SoundEvent, Viewer, ViewerConfig};

    const FRAME_TIME: Micros = 10_000;
    const SIZE: Size = Size { width: 64, height: 64 };

    /// A transport that takes datagrams or not.
    #[derive(Default)]
    struct Transport {
        takes_datagrams: bool,
        datagrams: Vec<Vec<u8>>,
    }

    impl Packer for Transport {
        fn pack(&mut self, _: &[u8], _: &mut Vec<u8>) -> Option<thinc_protocol::session::Packed> {
            None
        }

        fn datagram_bytes(&self) -> usize {
            if self.takes_datagrams { 1200 } else { 0 }
        }

        fn put_datagram(&mut self, frame: &[u8]) {
            self.datagrams.push(frame.to_vec());
        }
    }

    struct World {
        core: Session,
        viewer: Viewer,
        id: ViewerId,
        encoders: SoundEncoders,
        transport: Transport,
        deframer: Deframer,
        player: Player<RustOpus>,
        now: Micros,
        packets: usize,
        bytes: usize,
        heard: Vec<f32>,
    }

    impl World {
        fn new(datagrams: bool, codecs: u32) -> World {
            let mut core = Session::new(Config::new("sound", SIZE));
            core.handle_attach(SIZE);
            core.set_sound(true);
            let datagram_caps = if datagrams { ViewerCaps::DATAGRAMS } else { 0 };
            let mut viewer = Viewer::new(&ViewerConfig {
                name: "test".to_owned(),
                size: Size::default(),
                caps: ViewerCaps::SOUND | datagram_caps,
                clipboard: ClipboardPolicy::OFF,
            });
            viewer.want_sound(SoundWant { codecs, ..SoundWant::default() });
            let mut bytes = Vec::new();
            viewer.poll_transmit(&mut bytes);
            let mut deframer = Deframer::new(100_000);
            deframer.push(&bytes);
            let hello = ViewerMessage::decode(&deframer.next().unwrap().unwrap()).unwrap();
            let ViewerMessage::Hello(hello) = hello else { panic!("{hello:?}") };
            let id = core.add_viewer(&hello, 0);
            if datagrams {
                core.set_delivery_order(id, DeliveryOrder::Mixed);
            }
            World {
                core,
                viewer,
                id,
                encoders: SoundEncoders::default(),
                transport: Transport { takes_datagrams: datagrams, datagrams: Vec::new() },
                deframer,
                player: Player::new(RustOpus::default()),
                now: 0,
                packets: 0,
                bytes: 0,
                heard: Vec::new(),
            }
        }

        fn exchange(&mut self) {
            self.core.poll_sound(self.id, self.now, &mut self.transport);
            let mut out = Vec::new();
            self.core.poll_transmit(self.id, self.now, &mut self.transport, &mut out);
            self.viewer.handle_bytes(&out, self.now).unwrap();
            for datagram in std::mem::take(&mut self.transport.datagrams) {
                self.viewer.handle_datagram(&datagram, self.now).unwrap();
            }
            while let Some(event) = self.viewer.poll_sound() {
                match event {
                    SoundEvent::Format(format) => self.player.handle_format(format),
                    SoundEvent::Packet { message, arrived } => {
                        let frame = MessageFrame::from_datagram(&message).unwrap();
                        let Ok(SessionMessage::Sound(packet)) = SessionMessage::decode(&frame)
                        else {
                            panic!("only sound is here")
                        };
                        self.packets += 1;
                        self.bytes += message.len();
                        self.player.handle_packet(&packet, arrived);
                    }
                }
            }
            let mut answer = Vec::new();
            self.viewer.poll_transmit(&mut answer);
            while self.viewer.poll_datagram(&mut answer) {}
            self.deframer.push(&answer);
            while let Some(frame) = self.deframer.next().unwrap() {
                let message = ViewerMessage::decode(&frame).unwrap();
                self.core.handle_message(self.id, &message, self.now).unwrap();
            }
        }

        /// 10 ms pass, in which programs play this, or nothing.
        fn step(&mut self, samples: Option<[f32; FRAME_SAMPLES * CHANNELS]>, ends: bool) {
            self.now += FRAME_TIME;
            if let Some(samples) = samples {
                let frame = SoundFrame {
                    time: self.now - FRAME_TIME,
                    silence_follows: ends,
                    discontinuity: false,
                    samples: Box::new(samples),
                };
                self.encoders.handle_frame(&frame, &mut self.core, self.now);
            }
            self.exchange();
            let mut out = [0.0; FRAME_SAMPLES * CHANNELS];
            self.player.pull(&mut out, self.now);
            self.heard.extend_from_slice(&out);
        }

        /// A tone of 440 Hz for so many frames, left loud and right soft.
        fn tone(&mut self, frames: usize) {
            for n in 0..frames {
                let mut samples = [0.0; FRAME_SAMPLES * CHANNELS];
                for (at, frame) in samples.as_chunks_mut::<CHANNELS>().0.iter_mut().enumerate() {
                    let time = (n * FRAME_SAMPLES + at) as f32 / RATE as f32;
                    let value = (time * 440.0 * std::f32::consts::TAU).sin();
                    *frame = [0.5 * value, 0.1 * value];
                }
                self.step(Some(samples), false);
            }
        }

        /// How far the newest samples are from a tone of 440 Hz, in the worst place of the left
        /// channel, and the loudest sample of each.
        fn judge(&self, frames: usize) -> (f32, [f32; CHANNELS]) {
            let newest = &self.heard[self.heard.len() - frames * FRAME_SAMPLES * CHANNELS..];
            let newest = newest.as_chunks::<CHANNELS>().0;
            let turn = 2.0 * (440.0 * std::f32::consts::TAU / RATE as f32).cos();
            let off = newest.windows(3).map(|of| (of[2][0] - turn * of[1][0] + of[0][0]).abs());
            let loudest = [0, 1]
                .map(|channel| newest.iter().map(|frame| frame[channel].abs()).fold(0.0, f32::max));
            (off.fold(0.0, f32::max), loudest)
        }
    }

    #[test]
    fn what_programs_play_is_heard() {
        for (datagrams, codecs) in [(true, 2), (false, 2), (true, 3), (false, 3)] {
            let mut world = World::new(datagrams, codecs);
            (0..10).for_each(|_| world.step(None, false));
            assert_eq!(world.packets, 0, "silence sends nothing");
            world.tone(200);
            let (off, loudest) = world.judge(100);
            let counts = world.player.report(world.now, 0).counts;
            println!(
                "datagrams {datagrams}, codecs {codecs}: {} packets, {} bytes, {off} off, \
                 {loudest:?}, {counts:?}",
                world.packets, world.bytes
            );
            assert!((0.45..0.55).contains(&loudest[0]) && (0.08..0.12).contains(&loudest[1]));
            assert!(off < 0.01, "a gap or a click of {off}");
            assert_eq!((counts.concealed, counts.lost), (0, 0));
            let plain = codecs & SoundCodec::S16.bit() != 0;
            let frames = if plain {
                400
            } else if datagrams {
                200
            } else {
                100
            };
            assert_eq!(world.packets, frames);
            // 128 kbit/s in the mean of music, and twice that for a pure tone; or 1536.
            let most = if plain { 400_000 } else { 80_000 };
            assert!(world.bytes < most, "{} bytes in 2 s", world.bytes);
        }
    }

    #[test]
    fn silence_ends_the_packets_and_the_sound() {
        let mut world = World::new(true, 2);
        world.tone(100);
        world.step(Some([0.0; FRAME_SAMPLES * CHANNELS]), true);
        let packets = world.packets;
        (0..50).for_each(|_| world.step(None, false));
        assert_eq!(world.packets, packets);
        let (_, loudest) = world.judge(20);
        assert_eq!(loudest, [0.0; CHANNELS]);
        world.tone(100);
        let (off, loudest) = world.judge(50);
        assert!(off < 0.01 && loudest[0] > 0.45, "{off}, {loudest:?}");
        assert_eq!(world.player.report(world.now, 0).counts.concealed, 0);
    }

    #[test]
    fn nobody_who_is_muted_costs_an_encoder() {
        let mut world = World::new(true, 2);
        world.tone(10);
        assert_eq!(world.encoders.encoders.len(), 1);
        world.viewer.want_sound(SoundWant { codecs: 2, muted: true, ..SoundWant::default() });
        world.exchange();
        let packets = world.packets;
        world.tone(10);
        assert_eq!((world.encoders.encoders.len(), world.packets), (0, packets));
        world.viewer.want_sound(SoundWant { codecs: 2, ..SoundWant::default() });
        world.tone(100);
        assert!(world.packets > packets + 90);
    }
}
