//! Writes web/test/tone.opus: 20 frames of a tone of 440 Hz in Opus, each packet after its length
//! in two bytes, for the page's tests. Beside the path.
//! `cargo run -p thinc-sound --features opus --example tone > web/test/tone.opus`

use std::io::{Write as _, stdout};

use thinc_sound::{CHANNELS, RATE};

const FRAMES: usize = 20;
const SAMPLES: usize = 480;

fn main() -> std::io::Result<()> {
    let mut encoder = ropus::Encoder::builder(
        RATE,
        ropus::Channels::Stereo,
        ropus::Application::RestrictedLowDelay,
    )
    .build()
    .expect("48 kHz and two channels are what Opus has");
    let mut packet = [0; 500];
    for n in 0..FRAMES {
        let samples: Vec<i16> = (0..SAMPLES * CHANNELS)
            .map(|at| {
                let time = (n * SAMPLES + at / CHANNELS) as f32 / RATE as f32;
                ((time * 440.0 * std::f32::consts::TAU).sin() * 12_000.0) as i16
            })
            .collect();
        let length = encoder.encode(&samples, &mut packet).expect("a frame of 10 ms");
        stdout().write_all(&(length as u16).to_le_bytes())?;
        stdout().write_all(&packet[..length])?;
    }
    Ok(())
}
