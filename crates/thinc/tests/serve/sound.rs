//! The sound server of a session: programs find it, it sleeps while nobody plays, and it goes on
//! while the session process is restarted. Knows programs by their command lines.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::sound::{SoundCodec, SoundState, SoundWant};
use thinc_protocol::viewer::{Input, InputEvent, ViewerCaps, ViewerMessage};
use thinc_transport::connect;

use crate::harness::{
    Message, Session, TestEnvironment, Viewer, connect_options, is_running, wait_for_end,
    wait_until,
};

/// A session whose command writes its environment to a file.
pub(crate) fn session(options: &[&str]) -> Session {
    let environment = TestEnvironment::new();
    let file = environment.folder.join("environment");
    let script = format!("env > {0}.new; mv {0}.new {0}; sleep 1000", file.display());
    let command = ["sh", "-c", script.as_str()];
    let session = Session::start_with(environment, options, &command);
    wait_until("the command runs", || file.exists().then_some(()));
    session
}

fn variable(session: &Session, name: &str) -> Option<String> {
    let text = fs::read_to_string(session.environment.folder.join("environment")).unwrap();
    let start = format!("{name}=");
    text.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
}

/// A program with the environment of the session's command.
pub(crate) fn program(session: &Session, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).env("HOME", &session.environment.folder);
    for name in ["PULSE_SERVER", "ALSA_CONFIG_PATH", "XDG_RUNTIME_DIR"] {
        command.env(name, variable(session, name).unwrap());
    }
    command
}

pub(crate) fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

/// Records what is played, as samples of one channel at 48 kHz.
fn record(session: &Session) -> (Child, PathBuf) {
    let file = session.environment.folder.join("recorded");
    let arguments = [
        "--device=thinc.speakers.monitor",
        "--raw",
        "--format=s16le",
        "--rate=48000",
        "--channels=1",
        "--latency-msec=20",
    ];
    let mut command = program(session, "parec", &arguments);
    let child = command.stdout(fs::File::create(&file).unwrap()).spawn().unwrap();
    (child, file)
}

/// Seconds of a tone in what was recorded so far.
fn heard(file: &PathBuf) -> Vec<f32> {
    let bytes = fs::read(file).unwrap();
    let samples = bytes.as_chunks::<2>().0.iter();
    let samples: Vec<f32> =
        samples.map(|&sample| f32::from(i16::from_le_bytes(sample)) / 32_768.0).collect();
    let first = samples.iter().position(|&sample| sample != 0.0).unwrap_or(samples.len());
    samples[first..].to_vec()
}

/// Raw samples of 440 Hz, stereo, 48 kHz.
fn tone(session: &Session, seconds: u32) -> String {
    let mut bytes = Vec::new();
    for n in 0..48_000 * seconds {
        let phase = std::f64::consts::TAU * 440.0 * f64::from(n) / 48_000.0;
        let sample = ((phase.sin() * 16_384.0) as i16).to_le_bytes();
        bytes.extend([sample, sample].concat());
    }
    let file = session.environment.folder.join("tone");
    fs::write(&file, bytes).unwrap();
    file.to_str().unwrap().to_owned()
}

fn play(session: &Session, file: &str) -> Child {
    let arguments = ["--playback", "--raw", "--rate=48000", "--latency-msec=100", file];
    program(session, "pacat", &arguments).spawn().unwrap()
}

#[test]
fn sound_goes_on_while_the_session_process_is_restarted() {
    let session = session(&[]);
    let (mut recorder, file) = record(&session);
    let mut player = play(&session, &tone(&session, 6));
    let second = 48_000;
    wait_until("a second was played", || (heard(&file).len() > second).then_some(()));
    kill(session.pid("session"));
    session.errors_with("the session process ended");
    player.wait().unwrap();
    wait_until("all was played", || {
        let heard = heard(&file);
        (heard.len() > 6 * second && heard[6 * second..].iter().all(|&s| s == 0.0)).then_some(())
    });
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let heard = heard(&file);
    let factor = 2.0 * (std::f64::consts::TAU * 440.0 / 48_000.0).cos();
    let rough = heard[100..6 * second - 1000]
        .windows(3)
        .map(|x| (f64::from(x[2]) - factor * f64::from(x[1]) + f64::from(x[0])).abs())
        .fold(0.0, f64::max);
    assert!(rough < 0.01, "a gap ({rough})");
    let status = session.status();
    assert_eq!(status["pids"]["desk"], session.pid("desk"), "the sound server is the same");
    assert_ne!(status["pids"]["session"], session.pid("session"));
}

#[test]
fn what_a_program_plays_reaches_viewers_but_those_that_are_muted() {
    let session = session(&[]);
    let viewer = |muted| {
        let connection = connect(&session.link(), &connect_options()).unwrap();
        let mut viewer = Viewer::with_caps(connection, ViewerCaps::SOUND);
        let codecs = SoundCodec::S16.bit();
        let want = SoundWant { codecs, muted, ..SoundWant::default() };
        viewer.send(&ViewerMessage::SoundWant(want));
        viewer.wait_complete();
        viewer
    };
    let (mut muted, mut listener) = (viewer(true), viewer(false));
    let mut player = play(&session, &tone(&session, 3));
    let mut left: Vec<i16> = Vec::new();
    while left.len() < 48_000 {
        let Message::Sound(bytes) = listener.next().expect("the session goes on") else {
            continue;
        };
        left.extend(bytes.as_chunks::<4>().0.iter().map(|s| i16::from_le_bytes([s[0], s[1]])));
        // Before the tone begins.
        if left.iter().all(|&sample| sample == 0) {
            left.clear();
        }
    }
    let ups = left.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
    assert!((420..=450).contains(&ups), "{ups} periods in a second");
    assert!(left.iter().any(|&sample| sample > 15_000), "it is as loud as it was played");
    muted.send(&ViewerMessage::Ping(1));
    let until = |message: &Message| matches!(message, Message::Sound(_) | Message::Pong);
    assert_eq!(muted.until(until), Message::Pong);
    player.wait().unwrap();
}

#[test]
fn viewers_are_told_who_plays() {
    let session = session(&[]);
    let mut viewer = listener(&session);
    let mut told = || {
        let message = viewer.until(|message| matches!(message, Message::Players(_)));
        let Message::Players(players) = message else { unreachable!() };
        players
    };
    assert!(told().is_empty());
    let tone = tone(&session, 1);
    let arguments = ["--playback", "--raw", "--rate=48000", "--client-name=Radio", tone.as_str()];
    let mut player = program(&session, "pacat", &arguments).spawn().unwrap();
    assert_eq!(told(), ["Radio"]);
    assert!(told().is_empty(), "it has played all");
    player.wait().unwrap();
}

/// A viewer that plays sound.
fn listener(session: &Session) -> Viewer {
    let connection = connect(&session.link(), &connect_options()).unwrap();
    let mut viewer = Viewer::with_caps(connection, ViewerCaps::SOUND);
    let codecs = SoundCodec::Opus.bit();
    viewer.send(&ViewerMessage::SoundWant(SoundWant { codecs, ..SoundWant::default() }));
    viewer
}

/// How late programs are told to be heard, in microseconds.
fn told_latency(session: &Session) -> u64 {
    let mut pactl = program(session, "pactl", &["list", "sinks"]);
    let output = pactl.env("LC_ALL", "C").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Latency: "));
    line.and_then(|line| line.split_whitespace().next()).unwrap().parse().unwrap()
}

#[test]
fn programs_are_told_how_late_the_viewer_that_types_hears_them() {
    let session = session(&[]);
    let report = |viewer: &mut Viewer, lag_us| {
        let state = SoundState { heard: 1, lag_us: Some(lag_us), ..SoundState::default() };
        viewer.send(&ViewerMessage::SoundState(state));
    };
    // The server adds what it reads at a time.
    let is_near = |wanted: u64| (wanted..wanted + 25_000).contains(&told_latency(&session));
    assert!(is_near(0));
    let (mut typist, mut other) = (listener(&session), listener(&session));
    report(&mut other, 180_000);
    wait_until("programs are told of the newest viewer", || is_near(180_000).then_some(()));
    typist.send(&ViewerMessage::Input(Input { seq: 1, event: InputEvent::Char('x') }));
    wait_until("they are told of the one that types", || {
        report(&mut typist, 400_000);
        report(&mut other, 180_000);
        is_near(400_000).then_some(())
    });
}

#[test]
fn programs_find_the_sound_server_and_it_sleeps_while_nobody_plays() {
    let session = session(&[]);
    let runtime = variable(&session, "XDG_RUNTIME_DIR").unwrap();
    let socket = format!("{runtime}/pulse/native");
    assert_eq!(variable(&session, "PULSE_SERVER"), Some(format!("unix:{socket}")));
    let alsa = variable(&session, "ALSA_CONFIG_PATH").expect("libasound2-plugins is installed");
    assert!(alsa.starts_with("/usr/share/alsa/alsa.conf:"), "{alsa}");
    // Also without the variable.
    let mut pactl = program(&session, "pactl", &["info"]);
    let output = pactl.env_remove("PULSE_SERVER").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("PulseAudio (on thinc)"), "{text}");
    let tone = tone(&session, 1);
    let arguments = ["-q", "-t", "raw", "-f", "S16_LE", "-c", "2", "-r", "48000", tone.as_str()];
    let played = program(&session, "aplay", &arguments).status().unwrap();
    assert!(played.success());
    let desk = session.pid("desk");
    let wakeups = || -> u64 {
        let status = fs::read_to_string(format!("/proc/{desk}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
        line.unwrap().split_whitespace().last().unwrap().parse().unwrap()
    };
    // A connected program that plays nothing.
    let mut mixer =
        program(&session, "pactl", &["subscribe"]).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the mixer is connected", || {
        let clients = program(&session, "pactl", &["list", "short", "clients"]).output().unwrap();
        (clients.stdout.iter().filter(|&&byte| byte == b'\n').count() >= 2).then_some(())
    });
    // No event tells that nothing happens: a second without a wake-up does.
    wait_until("it sleeps", || {
        let before = wakeups();
        std::thread::sleep(Duration::from_secs(1));
        (wakeups() == before).then_some(())
    });
    mixer.kill().unwrap();
    mixer.wait().unwrap();
}

#[test]
fn a_killed_sound_server_is_restarted_for_programs_that_start_then() {
    let session = session(&[]);
    let desk = session.pid("desk");
    kill(desk);
    session.errors_with("the sound server and printer ended");
    // It waits in the socket, which stays open.
    let output = program(&session, "pactl", &["info"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let new = wait_until("it is restarted", || {
        let pid = session.status()["pids"]["desk"].as_u64().unwrap();
        (pid != 0 && pid != u64::from(desk)).then_some(pid as u32)
    });
    session.signal(Signal::TERM);
    wait_for_end(new);
    assert!(!is_running(new));
}

#[test]
fn without_sound_programs_find_none() {
    let session = session(&["--sound", "off", "--printing", "off"]);
    assert_eq!(variable(&session, "PULSE_SERVER"), None);
    assert_eq!(variable(&session, "ALSA_CONFIG_PATH"), None);
    let runtime = variable(&session, "XDG_RUNTIME_DIR").unwrap();
    assert!(!PathBuf::from(runtime).join("pulse").exists());
    assert_eq!(session.pid("desk"), 0);
}
