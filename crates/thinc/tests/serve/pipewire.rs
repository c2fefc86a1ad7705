//! Programs of the session that know PipeWire alone: they are heard, by a daemon that is started
//! for the first of them, ends with the session, and is given up where it only dies. Knows programs
//! by their command lines.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;
use thinc_protocol::sound::{SoundCodec, SoundWant};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_transport::connect;

use crate::harness::{
    Message, Session, TestEnvironment, Viewer, connect_options, is_running, wait_for_end,
    wait_until,
};
use crate::sound::{kill, program, session};

const SOCKET: &str = "run/thinc/t/xdg/pipewire-0";

/// Without these programs thinc opens no socket, and there is nothing to test.
fn is_skipped() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    let has_all = ["pipewire", "wireplumber", "pw-play"].into_iter().all(is_there);
    if !has_all {
        eprintln!("skipped: apt-get install pipewire pipewire-bin wireplumber");
    }
    !has_all
}

/// The daemon and its session manager, if they run.
fn daemons(session: &Session) -> Vec<u32> {
    let runtime = session.environment.folder.join("run/thinc/t/xdg");
    let variable = format!("XDG_RUNTIME_DIR={}", runtime.display());
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |&pid: &u32| {
        let read = |file| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_named = ["pipewire\n", "wireplumber\n"].map(str::as_bytes).contains(&&*read("comm"));
        let environment = read("environ");
        let mut variables = environment.split(|&byte| byte == 0);
        is_named && variables.any(|found| found == variable.as_bytes()) && is_running(pid)
    };
    pids.filter(is_one).collect()
}

/// A file of 440 Hz, stereo, 48 kHz, with the head that players want.
fn tone(session: &Session, seconds: u32) -> String {
    let mut samples = Vec::new();
    for n in 0..48_000 * seconds {
        let phase = std::f64::consts::TAU * 440.0 * f64::from(n) / 48_000.0;
        let sample = ((phase.sin() * 16_384.0) as i16).to_le_bytes();
        samples.extend([sample, sample].concat());
    }
    let bytes = samples.len() as u32;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x02\0\x80\xbb\0\0\0\xee\x02\0\x04\0\x10\0data");
    file.extend(bytes.to_le_bytes());
    file.extend(samples);
    let path = session.environment.folder.join("tone.wav");
    fs::write(&path, file).unwrap();
    path.to_str().unwrap().to_owned()
}

fn listener(session: &Session) -> Viewer {
    let connection = connect(&session.link(), &connect_options()).unwrap();
    let mut viewer = Viewer::with_caps(connection, ViewerCaps::SOUND);
    let codecs = SoundCodec::S16.bit();
    viewer.send(&ViewerMessage::SoundWant(SoundWant { codecs, ..SoundWant::default() }));
    viewer.wait_complete();
    viewer
}

/// Plays until a second of the tone was heard. The daemon has no priority, so that a busy machine
/// may leave gaps: what is heard is compared piece by piece.
fn is_heard(session: &Session) {
    // A new one, which has heard nothing before.
    let mut viewer = listener(session);
    let mut player: Child = program(session, "pw-play", &[&tone(session, 20)]).spawn().unwrap();
    let mut heard = 0;
    while heard < 100 {
        let Message::Sound(bytes) = viewer.next().expect("the session goes on") else { continue };
        let left: Vec<f64> = (bytes.as_chunks::<4>().0.iter())
            .map(|s| f64::from(i16::from_le_bytes([s[0], s[1]])) / 32_768.0)
            .collect();
        // Of a sine, each sample is a fixed combination of the two before; the daemon plays a
        // little faster or slower.
        let factor = 2.0 * (std::f64::consts::TAU * 440.0 / 48_000.0).cos();
        let rough =
            left.windows(3).map(|x| (x[2] - factor * x[1] + x[0]).abs()).fold(0.0, f64::max);
        let loud = left.iter().fold(0.0, |most: f64, &sample| most.max(sample.abs()));
        heard += u32::from(loud > 0.4 && rough < 0.01);
    }
    kill(player.id());
    player.wait().unwrap();
}

#[test]
fn a_program_that_knows_pipewire_alone_is_heard_by_a_daemon_that_starts_with_it() {
    if is_skipped() {
        return;
    }
    let session = session(&[]);
    assert!(session.environment.folder.join(SOCKET).exists());
    assert!(daemons(&session).is_empty(), "nobody needs it yet");
    is_heard(&session);
    let first = daemons(&session);
    assert_eq!(first.len(), 2, "the daemon and its session manager");
    // A program that knows both finds no sink in PipeWire, and is told by the sound server how
    // late it is heard.
    let tone = tone(&session, 1);
    let output = program(&session, "mpv", &["--no-config", "--no-video", &tone]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("AO: [pulse]"), "{text}");
    // It sleeps while nobody plays.
    let wakeups = || -> Vec<String> {
        let status = first.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/status")));
        status
            .map(|text| text.unwrap().lines().rfind(|l| l.starts_with("voluntary")).unwrap().into())
            .collect()
    };
    wait_until("it sleeps", || {
        let before = wakeups();
        std::thread::sleep(Duration::from_secs(1));
        (wakeups() == before).then_some(())
    });
    // It does not survive the sound server that it plays to, and is started again.
    kill(session.pid("desk"));
    first.iter().for_each(|&pid| wait_for_end(pid));
    session.errors_with("the sound server and printer ended");
    is_heard(&session);
    let second = daemons(&session);
    assert_eq!(second.len(), 2);
    session.signal(Signal::TERM);
    second.iter().for_each(|&pid| wait_for_end(pid));
}

#[test]
fn without_sound_there_is_no_pipewire() {
    let session = session(&["--sound", "off"]);
    assert!(!session.environment.folder.join(SOCKET).exists());
}

/// An environment whose PipeWire is a script.
fn with_pipewire(script: &str) -> TestEnvironment {
    let mut environment = TestEnvironment::new();
    let programs = environment.folder.join("bin");
    fs::create_dir(&programs).unwrap();
    for name in ["pipewire", "wireplumber"] {
        let path = programs.join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    environment.variables.push(("PATH".to_owned(), path));
    environment
}

#[test]
fn a_daemon_that_only_dies_is_given_up() {
    let environment = with_pipewire("#!/bin/sh\nexit 3\n");
    let session = Session::start_with(environment, &[], &["sleep", "1000"]);
    let socket = session.environment.folder.join(SOCKET);
    let mut waits = UnixStream::connect(&socket).unwrap();
    let errors = session.errors_with("there is none from now on");
    assert_eq!(errors.matches("PipeWire ended").count(), 5, "{errors}");
    wait_until("the socket is closed", || (!socket.exists()).then_some(()));
    // Who waited is refused, instead of waiting without end.
    assert!(matches!(std::io::Read::read(&mut waits, &mut [0]), Ok(0) | Err(_)));
}

#[test]
fn the_daemon_gets_the_socket_and_nothing_of_the_users_environment() {
    let out = std::env::temp_dir().join(format!("thinc-pipewire-{}", std::process::id()));
    let script = format!(
        "#!/bin/sh\n{{ env; echo pid=$$; ls -l /proc/$$/fd; }} > {0}.new; mv {0}.new {0}\n\
         exec sleep 1000\n",
        out.display()
    );
    let mut environment = with_pipewire(&script);
    environment.variables.push(("PIPEWIRE_REMOTE".to_owned(), "mine".to_owned()));
    environment.variables.push(("DBUS_SESSION_BUS_ADDRESS".to_owned(), "unix:mine".to_owned()));
    let session = Session::start_with(environment, &[], &["sleep", "1000"]);
    let _waits = UnixStream::connect(session.environment.folder.join(SOCKET)).unwrap();
    let text = wait_until("it is started", || fs::read_to_string(&out).ok());
    fs::remove_file(&out).unwrap();
    assert!(!text.contains("mine"), "{text}");
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    assert_eq!(line("LISTEN_FDS="), Some("1"));
    assert_eq!(line("LISTEN_PID="), line("pid="));
    let descriptors: Vec<&str> = text.lines().filter(|line| line.contains(" -> ")).collect();
    let is_third = |line: &&&str| line.contains(" 3 -> socket:");
    assert_eq!(descriptors.iter().filter(is_third).count(), 1, "{text}");
    let folder = session.environment.folder.join("run/thinc/t/pipewire");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("pipewire.conf"))), (0o700, 0o600));
}
