//! Real programs, playing to the sound server in this process over real sockets: pactl, paplay,
//! parec, aplay by ALSA's plugin, and mpv. Each test has its own sockets, and waits for events or
//! for as long as its sound lasts. Knows programs by their command lines.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use thinc_desk::link::{Frame, LINK_VERSION, MESSAGE_BYTES_MAX, Message, RATE, Wish};
use thinc_desk::{ServiceSockets, Sockets, run};

/// No step takes this long, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A sound server, and the session process that hears it.
struct Desk {
    folder: PathBuf,
    heard: Arc<Mutex<Vec<Frame>>>,
    link: UnixStream,
}

impl Desk {
    fn start() -> Desk {
        // The server and the programs of this test get the processor before compilers and other
        // tests, as sound does where people listen. Only root may ask for it.
        let _ = rustix::process::setpriority_process(None, -10);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("thinc-d{}-{count}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let listen = |name: &str| UnixListener::bind(folder.join(name)).unwrap();
        let sound = ServiceSockets { programs: listen("native"), link: listen("link") };
        let sockets = Sockets { sound: Some(sound), printing: None };
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(run(sockets, None))
        });
        let mut link = UnixStream::connect(folder.join("link")).unwrap();
        link.write_all(&[LINK_VERSION]).unwrap();
        let mut version = [0];
        link.read_exact(&mut version).unwrap();
        assert_eq!(version, [LINK_VERSION]);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (mut ear, frames) = (link.try_clone().unwrap(), heard.clone());
        std::thread::spawn(move || {
            let (mut bytes, mut piece) = (Vec::new(), [0; MESSAGE_BYTES_MAX]);
            while let Ok(read @ 1..) = ear.read(&mut piece) {
                bytes.extend(&piece[..read]);
                while let Some((message, length)) = Message::decode(&bytes).unwrap() {
                    bytes.drain(..length);
                    if let Message::Frame(frame) = message {
                        frames.lock().unwrap().push(frame);
                    }
                }
            }
        });
        let mut desk = Desk { folder, heard, link };
        desk.wish(Wish { listening: true, latency: 0 });
        desk
    }

    fn wish(&mut self, wish: Wish) {
        self.link.write_all(&wish.encode()).unwrap();
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let alsa = self.folder.join("alsa.conf");
        fs::write(&alsa, "pcm.!default { type pulse }\nctl.!default { type pulse }\n").unwrap();
        command
            .args(arguments)
            .env("PULSE_SERVER", format!("unix:{}", self.folder.join("native").display()))
            .env("ALSA_CONFIG_PATH", format!("/usr/share/alsa/alsa.conf:{}", alsa.display()))
            .env("HOME", &self.folder)
            .env("XDG_RUNTIME_DIR", &self.folder)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output: Output = self
            .command(program, arguments)
            .output()
            .unwrap_or_else(|error| panic!("{program} is not installed: {error}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {errors}{text}");
        text
    }

    /// The samples of the left, from the first frame to the one that announces silence; how many
    /// frames had a mark of missing samples.
    fn heard_until_silence(&self) -> (Vec<f32>, usize) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            assert!(Instant::now() < deadline, "no silence");
            std::thread::sleep(Duration::from_millis(10));
            let mut heard = self.heard.lock().unwrap();
            if heard.last().is_none_or(|frame| !frame.silence_follows) {
                continue;
            }
            let frames = std::mem::take(&mut *heard);
            assert!(
                frames.windows(2).all(|f| f[1].discontinuity || f[1].time == f[0].time + 10_000)
            );
            let left = |frame: &Frame| frame.samples.iter().step_by(2).copied().collect::<Vec<_>>();
            let gaps = frames.iter().filter(|frame| frame.discontinuity).count();
            return (frames.iter().flat_map(left).collect(), gaps);
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Writes a sine of 440 Hz at half of full scale, stereo.
fn wav(folder: &Path, rate: u32, seconds: f64) -> String {
    let frames = (f64::from(rate) * seconds) as u32;
    let mut bytes = Vec::new();
    let size = frames * 4;
    bytes.extend(b"RIFF");
    bytes.extend((36 + size).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16u32.to_le_bytes());
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(2u16.to_le_bytes());
    bytes.extend(rate.to_le_bytes());
    bytes.extend((rate * 4).to_le_bytes());
    bytes.extend(4u16.to_le_bytes());
    bytes.extend(16u16.to_le_bytes());
    bytes.extend(b"data");
    bytes.extend(size.to_le_bytes());
    for n in 0..frames {
        let phase = std::f64::consts::TAU * 440.0 * f64::from(n) / f64::from(rate);
        let sample = ((phase.sin() * 16_384.0) as i16).to_le_bytes();
        bytes.extend(sample);
        bytes.extend(sample);
    }
    let path = folder.join(format!("{rate}.wav"));
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Of what was heard: the part that is not silent, without 20 ms at its ends; its length and
/// whether it is the sine without any gap.
fn inspect(samples: &[f32]) -> (f64, f32) {
    let first = samples.iter().position(|&sample| sample != 0.0).expect("something was heard");
    let last = samples.iter().rposition(|&sample| sample != 0.0).unwrap_or(first);
    let seconds = (last - first) as f64 / f64::from(RATE);
    let inner = &samples[first + 960..last - 960];
    let factor = 2.0 * (std::f64::consts::TAU * 440.0 / f64::from(RATE)).cos();
    let rough = inner
        .windows(3)
        .map(|x| (f64::from(x[2]) - factor * f64::from(x[1]) + f64::from(x[0])).abs() as f32)
        .fold(0.0, f32::max);
    (seconds, rough)
}

fn assert_whole(desk: &Desk, seconds: f64, program: &str) {
    let (samples, gaps) = desk.heard_until_silence();
    let (heard, rough) = inspect(&samples);
    assert!((heard - seconds).abs() < 0.05, "{program}: {heard} s of {seconds}");
    assert!(rough < 0.01, "{program}: a gap ({rough})");
    assert_eq!(gaps, 0, "{program}");
}

#[test]
fn ten_seconds_of_paplay_are_heard_without_a_gap() {
    let desk = Desk::start();
    desk.run("paplay", &[&wav(&desk.folder, 48_000, 10.0)]);
    assert_whole(&desk, 10.0, "paplay");
}

#[test]
fn each_kind_of_program_is_heard_at_the_right_pitch() {
    let desk = Desk::start();
    let (high, low) = (wav(&desk.folder, 48_000, 1.5), wav(&desk.folder, 44_100, 1.5));
    desk.run("paplay", &[&low]);
    assert_whole(&desk, 1.5, "paplay at 44.1 kHz");
    desk.run("aplay", &["-q", &high]);
    assert_whole(&desk, 1.5, "aplay");
    desk.run("aplay", &["-q", &low]);
    assert_whole(&desk, 1.5, "aplay at 44.1 kHz");
    desk.run("pacat", &["--latency-msec=30", "--file-format=wav", &high]);
    assert_whole(&desk, 1.5, "pacat with a short queue");
    let quiet = ["--no-config", "--no-terminal", "--no-video", "--ao=pulse", "--gapless-audio=no"];
    desk.run("mpv", &[&quiet[..], &[low.as_str()]].concat());
    assert_whole(&desk, 1.5, "mpv");
}

#[test]
fn a_mixer_sees_who_plays_and_changes_it() {
    let desk = Desk::start();
    let info = desk.run("pactl", &["info"]);
    for line in ["Server Name: PulseAudio (on thinc)", "Default Sink: thinc.speakers"] {
        assert!(info.contains(line), "{line} is not in {info}");
    }
    let lists = desk.run("pactl", &["list"]);
    for name in ["Name: thinc.speakers", "Name: thinc.speakers.monitor", "Name: thinc.microphone"] {
        assert!(lists.contains(name), "{name} is not in {lists}");
    }
    let mut subscription =
        desk.command("pactl", &["subscribe"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut player = desk.command("paplay", &[&wav(&desk.folder, 48_000, 20.0)]).spawn().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let inputs = loop {
        let inputs = desk.run("pactl", &["list", "sink-inputs"]);
        if inputs.contains("application.name") {
            break inputs;
        }
        assert!(Instant::now() < deadline, "paplay does not play");
    };
    assert!(inputs.contains("application.name = \"paplay\""), "{inputs}");
    let index = inputs.split('#').nth(1).and_then(|rest| rest.lines().next()).unwrap();
    desk.run("pactl", &["set-sink-input-volume", index, "50%"]);
    desk.run("pactl", &["set-sink-input-mute", index, "1"]);
    desk.run("pactl", &["set-sink-volume", "@DEFAULT_SINK@", "25%"]);
    let inputs = desk.run("pactl", &["list", "sink-inputs"]);
    assert!(inputs.contains("50%") && inputs.contains("Mute: yes"), "{inputs}");
    let sinks = desk.run("pactl", &["list", "sinks"]);
    assert!(sinks.contains("25%") && sinks.contains("State: RUNNING"), "{sinks}");
    player.kill().unwrap();
    player.wait().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while !desk.run("pactl", &["list", "short", "sink-inputs"]).is_empty() {
        assert!(Instant::now() < deadline, "its stream is still there");
    }
    subscription.kill().unwrap();
    let mut told = String::new();
    subscription.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    subscription.wait().unwrap();
    for event in ["Event 'new' on sink-input", "Event 'change' on sink-input"] {
        assert!(told.contains(event), "{event} is not in {told}");
    }
}

#[test]
fn what_is_played_can_be_recorded_and_the_microphone_is_silent() {
    let desk = Desk::start();
    let record = |source: &str, file: &str| {
        let file = desk.folder.join(file);
        let device = format!("--device={source}");
        let arguments = [device.as_str(), "--raw", "--latency-msec=20", "--format=s16le"];
        let mut command = desk.command("parec", &arguments);
        let child = command.stdout(fs::File::create(&file).unwrap()).spawn().unwrap();
        (child, file)
    };
    let (mut monitor, monitored) = record("@DEFAULT_MONITOR@", "monitor");
    let (mut microphone, silent) = record("thinc.microphone", "microphone");
    let deadline = Instant::now() + TIMEOUT;
    while [&monitored, &silent].iter().any(|file| fs::metadata(file).unwrap().len() == 0) {
        assert!(Instant::now() < deadline, "nothing is recorded");
        std::thread::sleep(Duration::from_millis(5));
    }
    desk.run("paplay", &[&wav(&desk.folder, 48_000, 2.0)]);
    desk.heard_until_silence();
    for child in [&mut monitor, &mut microphone] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // 44.1 kHz, as parec wishes if nothing else is said.
    let samples: Vec<f32> = fs::read(&monitored)
        .unwrap()
        .as_chunks::<4>()
        .0
        .iter()
        .map(|frame| f32::from(i16::from_le_bytes([frame[0], frame[1]])) / 32_768.0)
        .collect();
    let loud = samples.iter().filter(|sample| sample.abs() > 0.01).count();
    let seconds = loud as f64 / 44_100.0;
    assert!((1.9..2.1).contains(&seconds), "{seconds} s were recorded");
    assert!(fs::read(&silent).unwrap().iter().all(|&byte| byte == 0));
}
