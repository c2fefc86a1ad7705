//! Sound in the viewer's window, from a fake session's packets to the samples that SDL's audio
//! device gets: its driver "disk" writes them to a file. Skipped, with a message, without Xvfb.
#![cfg(feature = "window")]

mod desk;
mod fake;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use desk::{Desk, until, xvfb};
use thinc_protocol::command::Command;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::sound::{SoundCodec, SoundFormat, SoundFrame, SoundPacket, SoundWant};
use thinc_protocol::video::{Codec, Eye, FrameData, SampleLayout, Source, VideoCommand};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Size};

const KEY_LEFTCTRL: u16 = 29;
const KEY_LEFTALT: u16 = 56;
const KEY_V: u16 = 47;
/// Plain samples of 5 ms, as no encoder is at hand.
const FRAME: u16 = 240;
const FRAME_TIME: Duration = Duration::from_millis(5);
const LEFT: i16 = 0x3000;
const RIGHT: i16 = -0x1000;

/// Where a video is shown, and its samples, which are black.
const PLACE: Rect = Rect::at(8, 8, 16, 16);
const SAMPLES: [u8; 16 * 16 * 3 / 2] = [16; 16 * 16 * 3 / 2];
/// Packets of sound for a frame of it: 25 a second.
const PACKETS_PER_PICTURE: u32 = 8;

/// A viewer with an audio device that is this file.
struct Listener {
    desk: Desk,
    file: PathBuf,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Listener {
    fn start(name: &str, arguments: &[&str]) -> Option<Listener> {
        let (server, display) = xvfb()?;
        let name = format!("thinc-sound-{name}-{}.raw", std::process::id());
        let file = std::env::temp_dir().join(name);
        let variables =
            [("SDL_AUDIO_DRIVER", "disk"), ("SDL_AUDIO_DISK_OUTPUT_FILE", file.to_str().unwrap())];
        let desk = Desk::start_in(server, &display, desk::size(400, 300), arguments, &variables);
        desk.wait_exact();
        Some(Listener { desk, file })
    }

    fn want(&self, what: &str, matches: impl Fn(&SoundWant) -> bool) {
        self.desk.fake.wait_for(what, |message| match message {
            ViewerMessage::SoundWant(want) => matches(want).then_some(()),
            _ => None,
        });
    }

    fn start_video(&self) {
        let size = Size { width: 16, height: 16 };
        let source = Source { size, crop: size.rect() };
        let init =
            VideoCommand::Init { id: 0, codec: Codec::None, eye: Eye::Left, source, place: PLACE };
        self.desk.fake.commands(&[Command::Video(init)]);
    }

    /// A frame that was drawn now, on the clock of the sound.
    fn show(&self, time: Duration) {
        let frame = FrameData::Plain { layout: SampleLayout::Yuv420, data: &SAMPLES };
        let (time, clip) = (time.as_micros() as u64, PLACE.into());
        self.desk.fake.commands(&[Command::Video(VideoCommand::Next { id: 0, time, clip, frame })]);
    }

    /// Plays a constant for this time, as fast as it goes by.
    fn play(&self, number: &mut u32, time: Duration, has_video: bool) {
        let frame: Vec<u8> =
            (0..FRAME).flat_map(|_| [LEFT.to_le_bytes(), RIGHT.to_le_bytes()].concat()).collect();
        let began = Instant::now();
        for n in 1.. {
            let due = FRAME_TIME * n;
            if due > time {
                return;
            }
            std::thread::sleep(due.saturating_sub(began.elapsed()));
            self.desk.fake.send(&SessionMessage::Sound(SoundPacket {
                generation: 0,
                number: *number,
                time: u64::from(*number) * FRAME_TIME.as_micros() as u64,
                silence_follows: due + FRAME_TIME > time,
                discontinuity: false,
                frames: vec![SoundFrame { back: 0, bytes: &frame }],
            }));
            *number += 1;
            if has_video && number.is_multiple_of(PACKETS_PER_PICTURE) {
                self.show(FRAME_TIME * *number);
            }
        }
    }
}

/// How many of a file's samples are those that were played, and how many there are.
fn heard(file: &Path) -> (usize, usize) {
    let bytes = std::fs::read(file).unwrap_or_default();
    let samples: Vec<f32> =
        bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let is_played = |frame: &&[f32; 2]| {
        let near = |sample: f32, value: i16| (sample - f32::from(value) / 32_768.0).abs() < 0.01;
        near(frame[0], LEFT) && near(frame[1], RIGHT)
    };
    let frames = samples.as_chunks::<2>().0;
    (frames.iter().filter(is_played).count(), frames.len())
}

#[test]
fn packets_reach_the_audio_device_which_is_closed_in_silence() {
    let Some(listener) = Listener::start("device", &["--sound", "lossless"]) else { return };
    listener.want("the wish for sound", |want| want.codecs == 3 && !want.muted);
    assert!(!listener.file.exists(), "no device is opened before there is sound");
    listener.desk.fake.send(&SessionMessage::SoundFormat(SoundFormat {
        generation: 0,
        codec: SoundCodec::S16,
        channels: 2,
        frame: FRAME,
    }));
    let mut number = 0;
    listener.start_video();
    listener.play(&mut number, Duration::from_secs(3), true);
    let state = listener.desk.fake.wait_for("a report", |message| match message {
        ViewerMessage::SoundState(state) => {
            (state.received > 200 && state.lag_us.is_some()).then_some(*state)
        }
        _ => None,
    });
    assert_eq!(state.lost, 0);
    assert!(state.heard > 0, "the time of what is heard is reported");
    let lag = state.lag_us.expect("a video was shown while sound was heard");
    // At least a frame of the jitter buffer and a device's buffer; Xvfb shows pixels at once.
    assert!((10_000..200_000).contains(&lag), "sound is {lag} us later than the picture");
    until("half of it in the device's file", || {
        (heard(&listener.file).0 > 48_000 * 3 / 2).then_some(())
    });
    let mut stood = (heard(&listener.file).1, Instant::now());
    until("the device to be closed", || {
        let now = heard(&listener.file).1;
        if now != stood.0 {
            stood = (now, Instant::now());
        }
        (stood.1.elapsed() > Duration::from_secs(1)).then_some(())
    });
    // The device is opened again, and with it a new file.
    std::fs::remove_file(&listener.file).unwrap();
    listener.play(&mut number, Duration::from_secs(1), false);
    until("sound after silence", || (heard(&listener.file).0 > 48_000 / 4).then_some(()));
}

#[test]
fn a_key_mutes_and_sound_may_be_off() {
    let Some(listener) = Listener::start("mute", &[]) else { return };
    listener.want("the wish for Opus", |want| want.codecs == 2 && !want.muted);
    let mute = || {
        for (key, down) in [
            (KEY_LEFTCTRL, true),
            (KEY_LEFTALT, true),
            (KEY_V, true),
            (KEY_V, false),
            (KEY_LEFTALT, false),
            (KEY_LEFTCTRL, false),
        ] {
            listener.desk.key(key, down);
        }
    };
    mute();
    listener.want("that nothing is to be sent", |want| want.muted);
    mute();
    listener.want("that sound is to be sent", |want| !want.muted);
    drop(listener);

    let Some(listener) = Listener::start("off", &["--sound", "off"]) else { return };
    listener.desk.key(KEY_V, true);
    listener.desk.key(KEY_V, false);
    listener.desk.fake.wait_for("a key", |message| match message {
        ViewerMessage::SoundWant(want) => panic!("it has asked for sound: {want:?}"),
        ViewerMessage::Input(_) => Some(()),
        _ => None,
    });
}
