//! The program, asked by gpu-video: what encodes right, and each way in which a GPU's encoder may
//! fail. GStreamer's openh264enc stands for a GPU's; examples/gststub.rs adds the faults.

mod pictures;

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thinc_gpu_video::{Coded, NotStarted, Process, Purpose, Rates, Settings};
use thinc_h264::Decoder;
use thinc_protocol::video::FrameCodec::H264;
use thinc_region::Size;
use thinc_video::Planes;

use pictures::{difference, draw};

const PROGRAM: &str = env!("CARGO_BIN_EXE_thinc-gpu-codec");
const RATES: Rates = Rates { bits_per_second: 4_000_000, frames_per_second: 30 };

/// A folder of its own, with a program that sets the variables and is `PROGRAM` then.
struct Wrapper(PathBuf);

impl Wrapper {
    fn new(name: &str, elements: &str) -> Wrapper {
        let folder = std::env::temp_dir().join(format!("thinc-gpu-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let stubs = std::env::current_exe().unwrap().parent().unwrap().join("../examples");
        let text = format!(
            "#!/bin/sh\nGST_PLUGIN_PATH={} THINC_VIDEO_ELEMENTS={elements} exec {PROGRAM} \"$@\"\n",
            stubs.display()
        );
        let program = folder.join("program");
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        Wrapper(folder)
    }

    fn start(&self) -> Result<Process, NotStarted> {
        let settings = Settings::new(Purpose::Encode, H264);
        Process::start(&self.0.join("program"), &settings)
    }
}

impl Drop for Wrapper {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stub(name: &str) -> Result<Process, NotStarted> {
    // The first loads the plugin that all stubs need.
    Wrapper::new(name, &format!("openh264/none,stub/{name}enc")).start()
}

#[test]
fn streams_of_several_sizes_are_decoded_as_they_were_drawn() {
    let mut process = Wrapper::new("sizes", "openh264/openh264enc").start().unwrap();
    assert_eq!(process.name().split(':').next(), Some("openh264enc"));
    let sizes = [(640, 480), (322, 182), (64, 48)];
    let sizes = sizes.map(|(width, height)| Size { width, height });
    let mut decoders = sizes.map(|size| Decoder::new(size).unwrap());
    for (stream, size) in sizes.into_iter().enumerate() {
        let begun = process.begin(stream as u64, size, RATES).unwrap();
        assert_eq!(begun, Coded::Done { keyframe: false });
    }
    // Streams take turns; the second is requested to have a keyframe in between.
    for number in 0..12 {
        for (stream, size) in sizes.into_iter().enumerate() {
            let wants_keyframe = number == 0 || (stream, number) == (1, 7);
            let (frame, mut unit) = (draw(size, number), vec![7]);
            let coded =
                process.encode(stream as u64, &frame.as_ref(), RATES, wants_keyframe, &mut unit);
            assert_eq!(coded.unwrap(), Coded::Done { keyframe: wants_keyframe }, "{number}");
            assert_eq!(unit.remove(0), 7, "a unit is appended");
            let mut shown = Planes::new();
            decoders[stream].decode(&unit, &mut shown).unwrap();
            let difference = difference(&frame, &shown);
            assert!(difference < 6.0, "stream {stream}, frame {number}: {difference}");
        }
    }
    process.end(0).unwrap();
    // A stream that has ended begins again with its next frame.
    let (frame, mut unit) = (draw(sizes[0], 0), Vec::new());
    let coded = process.encode(0, &frame.as_ref(), RATES, false, &mut unit).unwrap();
    assert_eq!(coded, Coded::Done { keyframe: true });
}

#[test]
fn a_stream_follows_its_rate() {
    let mut process = Wrapper::new("rate", "openh264/openh264enc").start().unwrap();
    let size = Size { width: 640, height: 480 };
    let mut bytes = |rates: Rates| {
        let mut units = Vec::new();
        for number in 0..60 {
            // Noise: no encoder takes less than its rate for it.
            let mut frame = draw(size, number);
            let mut state = number as u32;
            for sample in frame.data_mut() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *sample = sample.wrapping_add((state >> 28) as u8);
            }
            process.encode(1, &frame.as_ref(), rates, false, &mut units).unwrap();
        }
        units.len()
    };
    let high = bytes(Rates { bits_per_second: 8_000_000, frames_per_second: 30 });
    let low = bytes(Rates { bits_per_second: 1_000_000, frames_per_second: 30 });
    assert!(low * 3 < high, "{high} and {low} bytes");
    // Half as many frames a second, each of as many bits.
    let slow = bytes(Rates { bits_per_second: 4_000_000, frames_per_second: 15 });
    assert!(slow > high / 2, "{high} and {slow} bytes");
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let mut process = Wrapper::new("fit", "openh264/openh264enc").start().unwrap();
    for (width, height) in [(0, 0), (641, 480), (3842, 16), (3840, 2162)] {
        let begun = process.begin(1, Size { width, height }, RATES).unwrap();
        assert_eq!(begun, Coded::Refused, "{width} x {height}");
    }
}

#[test]
fn without_an_encoder_the_program_says_why() {
    let said = |started: Result<Process, NotStarted>| started.unwrap_err().to_string();
    assert_eq!(said(stub("closed")), "closedenc: its GPU does not open");
    let none = "GStreamer has no encoder of H.264 for a GPU here (plugins va and nvcodec)";
    assert_eq!(said(Wrapper::new("none", "nothing/nothing").start()), none);
    let settings = Settings::new(Purpose::Encode, H264);
    let nowhere = Process::start(Path::new("/nonexistent/thinc-gpu-codec"), &settings);
    assert_eq!(said(nowhere), "/nonexistent/thinc-gpu-codec is not installed");
    let other = Process::start(Path::new("/bin/true"), &settings);
    assert!(said(other).contains("ended: exit status: 0"));
}

#[test]
fn an_element_that_has_failed_is_left_out() {
    let wrapper = Wrapper::new("without", "openh264/none,stub/blackenc,stub/goodenc");
    let settings =
        Settings { without: vec!["blackenc".to_owned()], ..Settings::new(Purpose::Encode, H264) };
    let process = Process::start(&wrapper.0.join("program"), &settings).unwrap();
    assert!(process.name().starts_with("goodenc: "));
}

/// Frames until the first that is not encoded.
fn encode_until(process: &mut Process, most: usize) -> (usize, Result<Coded, String>) {
    let size = Size { width: 64, height: 64 };
    for number in 0..most {
        let (frame, mut unit) = (draw(size, number), Vec::new());
        let coded = process.encode(1, &frame.as_ref(), RATES, false, &mut unit);
        if !matches!(coded, Ok(Coded::Done { .. })) {
            assert!(unit.is_empty());
            return (number, coded.map_err(|lost| lost.to_string()));
        }
    }
    panic!("{most} frames are encoded");
}

#[test]
fn each_fault_of_an_encoder_is_told() {
    let (number, coded) = encode_until(&mut stub("silent").unwrap(), 1);
    assert_eq!((number, coded), (0, Ok(Coded::Failed)));
    let (number, coded) = encode_until(&mut stub("silentlater").unwrap(), 20);
    assert_eq!((number, coded), (8, Ok(Coded::Failed)));
    let (number, coded) = encode_until(&mut stub("abortlater").unwrap(), 20);
    let error = coded.unwrap_err();
    assert!(number == 8 && error.contains("ended: signal: 6"), "{number}: {error}");
    let (number, coded) = encode_until(&mut stub("hanglater").unwrap(), 20);
    let error = coded.unwrap_err();
    assert!(number == 8 && error.contains("no answer for 1 s"), "{number}: {error}");
}

#[test]
fn the_program_ends_with_its_socket() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["encode", "h264"])
        .env("THINC_VIDEO_ELEMENTS", "openh264/openh264enc")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut answer = [0; 1];
    ours.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [4], "it is ready");
    drop(ours);
    child.wait().unwrap();
}
