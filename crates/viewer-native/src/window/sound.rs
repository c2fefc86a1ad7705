//! Path 13/13, beside the pixels: from client/sound.rs's player, to the desktop's audio.
//! SDL's audio thread pulls samples when it needs them; nothing is pushed, and in silence the
//! device is closed. Knows SDL; decides nothing about what is played.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sdl3::audio::{
    AudioCallback, AudioDevice, AudioFormat, AudioSpec, AudioStream, AudioStreamWithCallback,
};
use thinc_sound::{CHANNELS, RATE};

use crate::client::{Client, SharedPlayer};
use crate::clock::Clock;

/// 240 samples, 5 ms: what SDL asks for at a time, if the desktop's audio takes it.
const DEVICE_SAMPLES: &str = "240";
/// 2 s: silence after which the device is closed, in samples. A device that is only paused goes on:
/// SDL feeds it zeros.
const SILENCE_MAX: u64 = 2 * RATE as u64;

/// Hints that SDL reads when it opens the device.
pub(super) const HINTS: [(&str, &str); 2] =
    [("SDL_AUDIO_DEVICE_SAMPLE_FRAMES", DEVICE_SAMPLES), ("SDL_AUDIO_DEVICE_STREAM_NAME", "thinc")];

/// What SDL's audio thread pulls.
struct Pull {
    player: SharedPlayer,
    clock: Clock,
    samples: Vec<f32>,
    /// It was silent for [`SILENCE_MAX`].
    idle: Arc<AtomicBool>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl AudioCallback<f32> for Pull {
    fn callback(&mut self, stream: &mut AudioStream, requested: i32) {
        let wanted = usize::try_from(requested).unwrap_or(0) / CHANNELS * CHANNELS;
        if wanted == 0 {
            return;
        }
        self.samples.resize(wanted, 0.0);
        let silence = {
            let mut player = self.player.lock().expect("no holder of this lock can panic");
            player.pull(&mut self.samples, self.clock.now());
            player.silence()
        };
        let _ = stream.put_data_f32(&self.samples);
        let idle = silence >= SILENCE_MAX;
        if idle && !self.idle.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
    }
}

/// The audio device, once there was sound.
pub(super) struct WindowSound {
    sdl: sdl3::Sdl,
    /// Paused before it is dropped: the binding frees the callback before the stream, which SDL's
    /// thread may call until then. A pause waits for it.
    stream: Option<ManuallyDrop<AudioStreamWithCallback<Pull>>>,
    runs: bool,
    has_failed: bool,
    /// Sound has arrived since the device was last looked after.
    has_arrived: bool,
    idle: Arc<AtomicBool>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl WindowSound {
    pub(super) fn new(sdl: &sdl3::Sdl, wake: Arc<dyn Fn() + Send + Sync>) -> WindowSound {
        WindowSound {
            sdl: sdl.clone(),
            stream: None,
            runs: false,
            has_failed: false,
            has_arrived: false,
            idle: Arc::default(),
            wake,
        }
    }

    /// Sound has arrived, and no device plays; or not.
    pub(super) fn handle_news(&mut self, arrived: bool) {
        self.has_arrived |= arrived;
    }

    /// Starts the device if sound has arrived, and stops it if there was none for a while. Words
    /// for the user if there is no device.
    pub(super) fn follow(&mut self, client: &Client) -> Option<String> {
        if std::mem::take(&mut self.has_arrived) && !self.runs && !self.has_failed {
            if let Err(error) = self.start(client) {
                self.has_failed = true;
                client.lock().give_up_sound(error.to_string());
                return Some(format!("No sound: {error}"));
            }
            self.idle.store(false, Ordering::Release);
            self.runs = true;
            client.lock().sound.set_device_runs(true);
        } else if self.runs && self.idle.swap(false, Ordering::AcqRel) {
            // From here on a packet is news; one that came in between is seen here.
            let (player, ..) = {
                let mut state = client.lock();
                state.sound.set_device_runs(false);
                state.sound.device()
            };
            let is_silent = player.lock().is_ok_and(|player| player.silence() >= SILENCE_MAX);
            self.runs = !is_silent;
            if is_silent {
                if let Some(stream) = self.stream.take()
                    && stream.pause().is_ok()
                {
                    drop(ManuallyDrop::into_inner(stream));
                }
            } else {
                client.lock().sound.set_device_runs(true);
            }
        }
        None
    }

    fn start(&mut self, client: &Client) -> Result<(), sdl3::Error> {
        if self.stream.is_none() {
            let (player, clock, device_us) = client.lock().sound.device();
            let pull = Pull {
                player,
                clock,
                samples: Vec::new(),
                idle: self.idle.clone(),
                wake: self.wake.clone(),
            };
            let audio = self.sdl.audio()?;
            let spec = AudioSpec::new(
                Some(RATE as i32),
                Some(CHANNELS as i32),
                Some(AudioFormat::f32_sys()),
            );
            let stream = audio.open_playback_stream(&spec, pull)?;
            tell_latency(&audio, &stream, &device_us);
            // The subsystem lives as long as the stream.
            self.stream = Some(ManuallyDrop::new(stream));
        }
        self.stream.as_ref().map_or(Ok(()), |stream| stream.resume())
    }
}

/// Two of the device's buffers: one is played, and one waits. What the sound server adds is not
/// known.
fn tell_latency(audio: &sdl3::AudioSubsystem, stream: &AudioStream, device_us: &Arc<AtomicU32>) {
    let Some(id) = stream.device_id() else { return };
    // Dropping it would close the device.
    let device = ManuallyDrop::new(AudioDevice::new(id, audio.clone()));
    if let Ok((spec, Some(samples))) = device.format()
        && let Some(rate) = spec.freq.filter(|&rate| rate > 0)
    {
        let us = i64::from(samples) * 2_000_000 / i64::from(rate);
        device_us.store(u32::try_from(us).unwrap_or(0), Ordering::Relaxed);
    }
}
