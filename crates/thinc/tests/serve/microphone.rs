//! The microphone of a viewer, as programs of the session record it: only while one does, from whom
//! it belongs to, and again after the session process was restarted. Knows programs by their
//! command lines, and a viewer's messages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use opus::{Application, Bitrate, Channels, Encoder};
use thinc_protocol::microphone::{MicrophonePacket, MicrophoneState, MicrophoneWant};
use thinc_protocol::session::CloseCode;
use thinc_protocol::sound::{SoundFrame, SoundPacket};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_transport::connect;

use crate::harness::{Message, Session, TIMEOUT, Viewer, connect_options, wait_until};
use crate::sharing::{as_guest, invite, send_all};
use crate::sound::{kill, program, session};

/// A program that records the default source, as 16-bit samples of one channel at 48 kHz.
struct Recorder {
    child: Child,
    file: PathBuf,
}

impl Recorder {
    fn start(session: &Session) -> Recorder {
        let file = session.environment.folder.join("microphone");
        let arguments =
            ["--raw", "--format=s16le", "--rate=48000", "--channels=1", "--latency-msec=10"];
        let mut command = program(session, "parec", &arguments);
        let child = command.stdout(fs::File::create(&file).unwrap()).spawn().unwrap();
        Recorder { child, file }
    }

    fn samples(&self) -> Vec<f32> {
        samples(&self.file)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn samples(file: &Path) -> Vec<f32> {
    let bytes = fs::read(file).unwrap();
    let samples = bytes.as_chunks::<2>().0.iter();
    samples.map(|&sample| f32::from(i16::from_le_bytes(sample)) / 32_768.0).collect()
}

/// A viewer that gives its microphone, in which somebody whistles 1 kHz.
struct Talker {
    viewer: Viewer,
    encoder: Encoder,
    /// Samples whistled so far.
    at: u32,
}

impl Talker {
    fn connect(session: &Session) -> Talker {
        let connection = connect(&session.link(), &connect_options()).unwrap();
        let mut viewer = Viewer::with_caps(connection, ViewerCaps::MICROPHONE);
        viewer.until(|message| matches!(message, Message::Hello(_)));
        let mut encoder = Encoder::new(48_000, Channels::Mono, Application::LowDelay).unwrap();
        encoder.set_bitrate(Bitrate::Bits(32_000)).unwrap();
        Talker { viewer, encoder, at: 0 }
    }

    /// The next thing that it is told of its microphone.
    fn told(&mut self) -> MicrophoneWant {
        match self.viewer.until(|message| matches!(message, Message::Microphone(_))) {
            Message::Microphone(want) => want,
            _ => unreachable!(),
        }
    }

    /// Gives the microphone, and whistles, each frame when it is due, until this program has
    /// recorded 200 ms of it without a gap. On a busy machine frames are late, and are silence
    /// then; session-server's tests, which have a clock of their own, allow none.
    fn whistle_until_heard(&mut self, want: MicrophoneWant, recorder: &Recorder) {
        let MicrophoneWant { generation, frame, .. } = want;
        let state = MicrophoneState { generation, given: true };
        self.viewer.send(&ViewerMessage::MicrophoneState(state));
        let (began, length) = (Instant::now(), u32::from(frame));
        let mut heard_to = recorder.samples().len();
        for number in 0.. {
            let phase = |at: u32| f64::from(at % 48) / 48.0 * std::f64::consts::TAU;
            let tone: Vec<f32> =
                (0..length).map(|n| phase(self.at + n).sin() as f32 * 0.5).collect();
            self.at += length;
            let bytes = self.encoder.encode_vec_float(&tone, 1000).unwrap();
            let time = u64::from(number * length) * 1000 / 48;
            self.viewer.send(&ViewerMessage::Microphone(MicrophonePacket::new(&SoundPacket {
                generation,
                number,
                time,
                silence_follows: false,
                discontinuity: number == 0,
                frames: vec![SoundFrame { back: 0, bytes: &bytes }],
            })));
            // A microphone has the pace of the clock.
            let due = began + Duration::from_micros(time);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if number % 10 != 9 {
                continue;
            }
            let samples = recorder.samples();
            while let Some(part) = samples.get(heard_to..heard_to + TONE_SAMPLES) {
                if is_tone(part) {
                    return;
                }
                heard_to += 48;
            }
            assert!(began.elapsed() < TIMEOUT, "nothing is heard of {number} frames");
        }
    }
}

/// 200 ms.
const TONE_SAMPLES: usize = 9600;

/// Whether this is 1 kHz throughout.
fn is_tone(samples: &[f32]) -> bool {
    let ups = samples.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
    let is_loud = |ms: &[f32]| ms.iter().any(|sample| sample.abs() > 0.2);
    (198..=202).contains(&ups) && samples.chunks(48).all(is_loud)
}

#[test]
fn a_program_hears_the_viewers_microphone_while_it_records_and_after_a_restart() {
    let session = session(&[]);
    let mut talker = Talker::connect(&session);
    let recorder = Recorder::start(&session);
    let want = talker.told();
    assert!(want.wanted && want.channels == 1, "{want:?}");
    wait_until("silence is recorded", || (recorder.samples().len() > 9600).then_some(()));
    assert!(recorder.samples().iter().all(|&sample| sample == 0.0), "nobody has said yes");
    talker.whistle_until_heard(want, &recorder);
    // The session process dies: the program records silence, and then sound again.
    let before = recorder.samples().len();
    kill(session.pid("session"));
    session.errors_with("the session process ended");
    let mut talker = Talker::connect(&session);
    let want = talker.told();
    assert!(want.wanted, "{want:?}");
    wait_until("silence is recorded", || {
        let samples = recorder.samples();
        let newest = &samples[samples.len() - 4800..];
        (samples.len() > before + 9600 && newest.iter().all(|&s| s == 0.0)).then_some(())
    });
    talker.whistle_until_heard(want, &recorder);
    drop(recorder);
    let over = talker.told();
    assert!(!over.wanted && over.generation != want.generation, "{over:?}");
    // A program that records what is played does not ask for it.
    let mut monitor = program(&session, "parec", &["--device=thinc.speakers.monitor", "--raw"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it records", || {
        let list = ["list", "short", "source-outputs"];
        let output = program(&session, "pactl", &list).output().unwrap();
        (!output.stdout.is_empty()).then_some(())
    });
    talker.viewer.send(&ViewerMessage::Ping(1));
    let until = |message: &Message| matches!(message, Message::Microphone(_) | Message::Pong);
    assert_eq!(talker.viewer.until(until), Message::Pong);
    monitor.kill().unwrap();
    monitor.wait().unwrap();
}

#[test]
fn nobody_is_asked_by_a_session_without_microphones_and_no_guest() {
    let packet = ViewerMessage::Microphone(MicrophonePacket::new(&SoundPacket {
        generation: 1,
        number: 0,
        time: 0,
        silence_follows: false,
        discontinuity: false,
        frames: vec![SoundFrame { back: 0, bytes: &[0] }],
    }));
    let refused = |viewer: &mut Viewer| {
        viewer.send(&ViewerMessage::Ping(1));
        let until = |message: &Message| matches!(message, Message::Microphone(_) | Message::Pong);
        assert_eq!(viewer.until(until), Message::Pong, "it is not asked");
        viewer.send(&packet);
        let (code, reason) = viewer.closed();
        assert_eq!(code, CloseCode::Protocol);
        assert_eq!(reason, "a message of a microphone, which is not wanted");
    };
    let off = session(&["--microphone", "off"]);
    let mut talker = Talker::connect(&off);
    let recorder = Recorder::start(&off);
    wait_until("silence is recorded", || (recorder.samples().len() > 24_000).then_some(()));
    assert!(recorder.samples().iter().all(|&sample| sample == 0.0));
    refused(&mut talker.viewer);
    let on = session(&[]);
    let recorder = Recorder::start(&on);
    wait_until("silence is recorded", || (recorder.samples().len() > 24_000).then_some(()));
    let link = invite(&on, &["--control"]);
    let connection = as_guest(&link, "Ada", "").unwrap();
    let mut guest = Viewer::with_caps(connection, ViewerCaps::MICROPHONE);
    send_all(&mut guest, &[]);
    refused(&mut guest);
}
