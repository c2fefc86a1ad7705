//! What a session's sound may do to a viewer: packets in any order, with any times and any bytes,
//! become samples in range. Beside the path. Knows thinc-sound's public interface, which runs the
//! Opus decoder.

use std::cell::RefCell;

use thinc_protocol::framing::Deframer;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::sound::{SoundCodec, SoundFormat, SoundFrame, SoundPacket};
use thinc_sound::decode::RustOpus;
use thinc_sound::{CHANNELS, Player, RATE};

/// Time between two messages, and the samples that are pulled in it: 10 ms.
const STEP: u64 = 10_000;
const PULLED: usize = 480;

/// Messages of sound, one each 10 ms, while a device pulls.
pub fn player(input: &[u8]) {
    play(input);
}

/// The greatest sample that was heard.
fn play(input: &[u8]) -> f32 {
    let mut player = Player::new(RustOpus::default());
    let mut deframer = Deframer::new(2000);
    deframer.push(input);
    let (mut now, mut out, mut loudest) = (0, vec![0.0; PULLED * CHANNELS], 0.0_f32);
    let mut pull = |player: &mut Player<RustOpus>, now: u64| {
        player.pull(&mut out, now);
        for &sample in &out {
            // A filter may exceed full scale a little.
            assert!(sample.is_finite() && sample.abs() < 4.0, "a sample of {sample}");
            loudest = loudest.max(sample.abs());
        }
        let report = player.report(now, 5000);
        assert!(report.counts.lost < u32::MAX / 2, "{report:?}");
    };
    while let Ok(Some(frame)) = deframer.next() {
        match SessionMessage::decode(&frame) {
            Ok(SessionMessage::SoundFormat(format)) => player.handle_format(format),
            Ok(SessionMessage::Sound(packet)) => player.handle_packet(&packet, now),
            _ => {}
        }
        now += STEP;
        pull(&mut player, now);
    }
    for _ in 0..10 {
        now += STEP;
        pull(&mut player, now);
    }
    loudest
}

/// Opus packets of a tone.
fn opus_packets(count: usize) -> Vec<Vec<u8>> {
    let mut encoder = ropus::Encoder::builder(
        RATE,
        ropus::Channels::Stereo,
        ropus::Application::RestrictedLowDelay,
    )
    .build()
    .expect("48 kHz and two channels are what Opus has");
    let mut packet = [0; 500];
    (0..count)
        .map(|n| {
            let samples: Vec<i16> = (0..PULLED * CHANNELS)
                .map(|at| {
                    let time = (n * PULLED + at / CHANNELS) as f32 / RATE as f32;
                    ((time * 440.0 * std::f32::consts::TAU).sin() * 12_000.0) as i16
                })
                .collect();
            let length =
                encoder.encode(&samples, &mut packet).expect("it has the length of a frame");
            packet[..length].to_vec()
        })
        .collect()
}

/// A tone in Opus, with a repeat, a gap, silence and another format; and plain samples.
pub fn player_seeds() -> Vec<Vec<u8>> {
    thread_local! {
        static SEEDS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    }
    SEEDS.with_borrow_mut(|seeds| {
        if seeds.is_empty() {
            *seeds = make_seeds();
        }
        seeds.clone()
    })
}

fn make_seeds() -> Vec<Vec<u8>> {
    let packets = opus_packets(24);
    let format = |generation, codec, frame| {
        SessionMessage::SoundFormat(SoundFormat { generation, codec, channels: 2, frame })
    };
    let packet = |generation, number: u32, frames, silence_follows| {
        SessionMessage::Sound(SoundPacket {
            generation,
            number,
            time: u64::from(number) * STEP,
            silence_follows,
            discontinuity: false,
            frames,
        })
    };
    let mut tone = Vec::new();
    format(0, SoundCodec::Opus, 480).encode(&mut tone);
    for (n, bytes) in packets.iter().enumerate().filter(|&(n, _)| n % 7 != 5) {
        let mut frames = vec![SoundFrame { back: 0, bytes }];
        if n > 0 {
            frames.push(SoundFrame { back: 1, bytes: &packets[n - 1] });
        }
        packet(0, n as u32, frames, n == 20).encode(&mut tone);
    }
    let mut plain = Vec::new();
    format(3, SoundCodec::S16, 120).encode(&mut plain);
    let samples: Vec<Vec<u8>> =
        (0..8).map(|n| (0..480).map(|at| (at * 37 + n) as u8).collect()).collect();
    for (n, bytes) in (0..).zip(&samples) {
        packet(3, n, vec![SoundFrame { back: 0, bytes }], false).encode(&mut plain);
    }
    let seeds = vec![tone, plain];
    for seed in &seeds {
        assert!(play(seed) > 0.1, "the seeds must be heard");
    }
    seeds
}
