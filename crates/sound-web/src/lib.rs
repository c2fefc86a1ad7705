//! Path 13/13, beside the pixels: from web/engine/sound.ts's messages, to a browser's speakers.
//! thinc-sound's player on the audio thread: a C interface over WASM, called only by
//! web/sound/worklet.ts, which pulls samples when they are due.
//! Decides nothing and knows no browser: numbers and addresses in, numbers and addresses out.
//!
//! One instance holds one player. The page writes a message into `player_buffer`, and reads results
//! at the addresses that are returned; both are valid until the next call. The only unsafe code is
//! the names that `no_mangle` claims; no export takes an address.

use std::cell::RefCell;

use thinc_protocol::framing::MessageFrame;
use thinc_protocol::session::SessionMessage;
use thinc_sound::decode::RustOpus;
use thinc_sound::{CHANNELS, Player};

/// Most samples of each channel that are pulled at once; browsers pull 128.
const PULL_MAX: usize = 4096;
/// Longest message.
const MESSAGE_BYTES_MAX: usize = thinc_protocol::limits::SOUND_BYTES_MAX;
/// Numbers of a report.
const REPORT: usize = 6;

struct Page {
    player: Player<RustOpus>,
    message: [u8; MESSAGE_BYTES_MAX],
    /// Interleaved, and by channel.
    samples: Vec<f32>,
    planes: Vec<f32>,
    report: [f64; REPORT],
}

impl Page {
    fn new() -> Page {
        Page {
            player: Player::new(RustOpus::default()),
            message: [0; MESSAGE_BYTES_MAX],
            samples: Vec::with_capacity(PULL_MAX * CHANNELS),
            planes: Vec::with_capacity(PULL_MAX * CHANNELS),
            report: [0.0; REPORT],
        }
    }

    fn handle_message(&mut self, bytes: usize, now: u64) -> bool {
        let Some(message) = self.message.get(..bytes) else { return false };
        let message =
            MessageFrame::from_datagram(message).and_then(|frame| SessionMessage::decode(&frame));
        match message {
            Ok(SessionMessage::SoundFormat(format)) => self.player.handle_format(format),
            Ok(SessionMessage::Sound(packet)) => self.player.handle_packet(&packet, now),
            // The engine has checked them.
            _ => return false,
        }
        true
    }

    fn pull(&mut self, samples: usize, now: u64) {
        let samples = samples.min(PULL_MAX);
        self.samples.resize(samples * CHANNELS, 0.0);
        self.player.pull(&mut self.samples, now);
        self.planes.clear();
        for channel in 0..CHANNELS {
            let plane = self.samples.as_chunks::<CHANNELS>().0.iter();
            self.planes.extend(plane.map(|frame| frame[channel]));
        }
    }

    fn report(&mut self, now: u64, device: u64) {
        let report = self.player.report(now, device);
        let counts = report.counts;
        self.report = [
            report.heard.unwrap_or(0) as f64,
            f64::from(report.delay_us),
            f64::from(counts.received),
            f64::from(counts.lost),
            f64::from(counts.concealed),
            f64::from(counts.runs),
        ];
    }
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::new(Page::new());
}

fn with<T>(call: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(call)
}

fn micros(us: f64) -> u64 {
    us as u64 // "as" converts a negative time to 0
}

/// Address of the buffer for a message, which has room for the longest.
#[unsafe(no_mangle)]
pub extern "C" fn player_buffer() -> *mut u8 {
    with(|page| page.message.as_mut_ptr())
}

/// Takes the SOUND FORMAT or SOUND in the buffer, which arrived now; 0 if it is neither.
#[unsafe(no_mangle)]
pub extern "C" fn player_message(bytes: u32, now_us: f64) -> u32 {
    with(|page| u32::from(page.handle_message(bytes as usize, micros(now_us))))
}

/// The next samples of each channel, at most 4096; the address of the left ones, which the right
/// ones follow.
#[unsafe(no_mangle)]
pub extern "C" fn player_pull(samples: u32, now_us: f64) -> *const f32 {
    with(|page| {
        page.pull(samples as usize, micros(now_us));
        page.planes.as_ptr()
    })
}

/// From 0 to 1.
#[unsafe(no_mangle)]
pub extern "C" fn player_volume(volume: f32) {
    with(|page| page.player.set_volume(volume));
}

/// Sound is to be so many microseconds later than jitter asks for.
#[unsafe(no_mangle)]
pub extern "C" fn player_extra(us: f64) {
    with(|page| page.player.set_extra(micros(us)));
}

/// Another connection begins: its packets are counted from 0 again.
#[unsafe(no_mangle)]
pub extern "C" fn player_reset() {
    with(|page| page.player = Player::new(RustOpus::default()));
}

/// The audio was suspended until now, and its clock with it.
#[unsafe(no_mangle)]
pub extern "C" fn player_clock_stopped(now_us: f64) {
    with(|page| page.player.handle_clock_stopped(micros(now_us)));
}

/// Samples of silence since the last sound, while nothing waits; 0 while there is sound.
#[unsafe(no_mangle)]
pub extern "C" fn player_silence() -> f64 {
    with(|page| page.player.silence() as f64)
}

/// Address of the numbers of a SOUND STATE: heard, delay, received, lost, concealed, runs. A sample
/// is heard so long after it was pulled.
#[unsafe(no_mangle)]
pub extern "C" fn player_report(now_us: f64, device_us: f64) -> *const f64 {
    with(|page| {
        page.report(micros(now_us), micros(device_us));
        page.report.as_ptr()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thinc_protocol::sound::{SoundCodec, SoundFormat, SoundFrame, SoundPacket};

    fn give(message: &SessionMessage<'_>, now_us: f64) -> u32 {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        with(|page| page.message[..bytes.len()].copy_from_slice(&bytes));
        player_message(bytes.len() as u32, now_us)
    }

    #[test]
    fn what_is_given_is_pulled_by_channel() {
        let format = SoundFormat { generation: 0, codec: SoundCodec::S16, channels: 2, frame: 240 };
        assert_eq!(give(&SessionMessage::SoundFormat(format), 0.0), 1);
        let frame: Vec<u8> = (0..240)
            .flat_map(|_| [0x4000_i16.to_le_bytes(), (-0x2000_i16).to_le_bytes()].concat())
            .collect();
        let mut heard = false;
        for number in 0..100_u32 {
            let now_us = f64::from(number) * 5000.0 + 7000.0;
            let packet = SoundPacket {
                generation: 0,
                number,
                time: u64::from(number) * 5000,
                silence_follows: false,
                discontinuity: false,
                frames: vec![SoundFrame { back: 0, bytes: &frame }],
            };
            assert_eq!(give(&SessionMessage::Sound(packet), now_us), 1);
            player_pull(240, now_us);
            with(|page| {
                assert_eq!(page.planes.len(), 480);
                heard |= page.planes[120] > 0.49 && page.planes[360] < -0.24;
                assert!(page.planes[..240].iter().all(|&left| (-0.1..0.6).contains(&left)));
            });
        }
        assert!(heard);
        player_report(500_000.0, 10_000.0);
        with(|page| assert_eq!(page.report[2..4], [100.0, 0.0]));
        player_reset();
        player_pull(128, 600_000.0);
        with(|page| assert!(page.planes.iter().all(|&sample| sample == 0.0)));
        with(|page| page.message.fill(0xff));
        assert_eq!(player_message(1200, 0.0), 0);
        assert_eq!(player_message(4000, 0.0), 0);
    }
}
