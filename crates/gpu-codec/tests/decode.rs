//! Decoding, with a decoder of GStreamer's in software in the place of a graphics processor's: the
//! program's frames are those that OpenH264 decodes here, bit for bit, and what is damaged ends
//! nothing but its stream. Over the viewer's interface to the program.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use thinc_gpu_video::{Coded, NotStarted, Process, Purpose, Rates, Settings};
use thinc_h264::{Decoder, Encoder, EncoderSettings, coded_size};
use thinc_protocol::video::{FrameCodec, SampleLayout};
use thinc_region::Size;
use thinc_video::Planes;

const SMALL: Size = Size { width: 64, height: 48 };
const DONE: Coded = Coded::Done { keyframe: false };

/// The program with this decoder, in a script, since tests share one environment.
fn program(element: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("thinc-gpu-codec-test-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let program = env!("CARGO_BIN_EXE_thinc-gpu-codec");
    let text = format!("#!/bin/sh\nTHINC_VIDEO_ELEMENTS={element} exec '{program}' \"$@\"\n");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn start(element: &str) -> Result<Process, NotStarted> {
    let path = program(element);
    let settings = Settings::new(Purpose::Decode, FrameCodec::H264);
    let started = loop {
        match Process::start(&path, &settings) {
            // The script is still open for writing in the child of another test, until it executes
            // its program.
            Err(NotStarted::System(error))
                if error.kind() == std::io::ErrorKind::ExecutableFileBusy =>
            {
                std::thread::yield_now();
            }
            started => break started,
        }
    };
    std::fs::remove_file(path).unwrap();
    started
}

fn stand_in() -> Process {
    let process = start("openh264/openh264dec").unwrap();
    assert!(process.name().starts_with("openh264dec: "), "{}", process.name());
    process
}

/// An encoder and what it encodes: a pattern that moves.
struct Source {
    size: Size,
    encoder: Encoder,
    time: usize,
}

impl Source {
    fn new(size: Size) -> Source {
        let settings = EncoderSettings { size, bits_per_second: 4_000_000, frames_per_second: 30 };
        Source { size, encoder: Encoder::new(settings).unwrap(), time: 0 }
    }

    fn next(&mut self, keyframe: bool) -> Vec<u8> {
        self.time += 1;
        let mut planes = Planes::new();
        planes.reset(self.size, SampleLayout::Yuv420);
        let (width, time) = (self.size.width as usize, self.time);
        for (plane, samples) in planes.planes_mut().into_iter().enumerate() {
            for (at, sample) in samples.iter_mut().enumerate() {
                *sample = ((at % width + 3 * time) ^ (at / width + 7 * plane)) as u8;
            }
        }
        let mut unit = Vec::new();
        self.encoder.encode(&planes.as_ref(), keyframe, &mut unit).unwrap();
        unit
    }
}

#[test]
fn frames_equal_those_decoded_here() {
    let sizes = [
        (64, 48),
        (333, 77),
        (16, 16),
        (98, 130),
        (1280, 720),
        // More rows than one system call writes.
        (34, 2100),
        (1920, 1080),
    ];
    let mut process = stand_in();
    let mut streams: Vec<_> = (0..)
        .zip(sizes.map(|(width, height)| Size { width, height }))
        .map(|(stream, size)| (stream, Source::new(size), Decoder::new(size).unwrap()))
        .collect();
    for (stream, source, _) in &streams {
        let started = process.begin(*stream, coded_size(source.size), Rates::default()).unwrap();
        assert_eq!(started, DONE);
    }
    let (mut here, mut there) = (Planes::new(), Planes::new());
    for frame in 0..12 {
        for (stream, source, decoder) in &mut streams {
            let unit = source.next(frame % 5 == 0);
            let size = coded_size(source.size);
            decoder.decode(&unit, &mut here).unwrap();
            let decoded = process.decode(*stream, size, &unit, &mut there).unwrap();
            assert_eq!(decoded, DONE, "frame {frame} of {size:?}");
            assert!(there == here, "frame {frame} of {size:?}");
        }
    }
    // Another size in the same stream, without a word.
    let mut source = Source::new(Size { width: 160, height: 90 });
    let mut decoder = Decoder::new(source.size).unwrap();
    for frame in 0..3 {
        let unit = source.next(frame == 0);
        decoder.decode(&unit, &mut here).unwrap();
        assert_eq!(process.decode(0, source.size, &unit, &mut there).unwrap(), DONE);
        assert!(there == here, "frame {frame}");
    }
}

/// What passes the viewer's check and is damaged all the same: whatever becomes of it, the process
/// lives, and the next keyframe is right.
#[test]
fn after_a_damaged_unit_a_keyframe_is_right() {
    let mut process = stand_in();
    let id = process.id();
    let (mut here, mut there) = (Planes::new(), Planes::new());
    let mut failed = 0;
    for damage in 0..6 {
        let mut source = Source::new(SMALL);
        let mut decoder = Decoder::new(SMALL).unwrap();
        let (key, mut delta) = (source.next(true), source.next(false));
        let at = 6 + damage * (delta.len() - 7) / 6;
        if damage == 0 {
            delta.truncate(6);
        } else {
            delta[at] ^= 0x55;
        }
        assert_eq!(process.decode(1, SMALL, &key, &mut there).unwrap(), DONE);
        let before = there.clone();
        let decoded = process.decode(1, SMALL, &delta, &mut there).unwrap();
        if decoded != DONE {
            failed += 1;
            assert!(there == before, "a frame that failed leaves the last one alone");
        }
        let next = source.next(true);
        decoder.decode(&next, &mut here).unwrap();
        // A stream that was refused is not continued.
        if decoded == Coded::Refused {
            process.end(1).unwrap();
        }
        assert_eq!(process.decode(1, SMALL, &next, &mut there).unwrap(), DONE, "{damage}");
        assert!(there == here, "{damage}");
        process.end(1).unwrap();
    }
    assert!(failed > 0, "nothing was damaged");
    assert_eq!(process.id(), id);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut process = stand_in();
    let mut out = Planes::new();
    for (width, height) in [(8192, 64), (333, 78), (0, 2)] {
        let size = Size { width, height };
        assert_eq!(process.begin(1, size, Rates::default()).unwrap(), Coded::Refused);
    }
    // A frame of another size than it was said to have.
    let unit = Source::new(SMALL).next(true);
    let other = Size { width: 96, height: 48 };
    assert_ne!(process.decode(1, other, &unit, &mut out).unwrap(), DONE);
    assert!(out == Planes::new());
    // Without a keyframe.
    let mut source = Source::new(SMALL);
    let (_, delta) = (source.next(true), source.next(false));
    assert_ne!(process.decode(2, SMALL, &delta, &mut out).unwrap(), DONE);
    let too_long = vec![0; (8 << 20) + 1];
    assert_eq!(process.decode(1, SMALL, &too_long, &mut out).unwrap(), Coded::Failed);
    // More at a time than there is room for.
    let large = Size { width: 1920, height: 1080 };
    let started = (10..40)
        .filter(|&stream| process.begin(stream, large, Rates::default()).unwrap() == DONE)
        .count();
    assert_eq!(started, 16);
}

#[test]
fn the_process_is_confined_and_says_why_nothing_decodes() {
    let mut process = stand_in();
    let unit = Source::new(SMALL).next(true);
    assert_eq!(process.decode(1, SMALL, &unit, &mut Planes::new()).unwrap(), DONE);
    let folder = format!("/proc/{}", process.id());
    let mut threads = 0;
    for task in std::fs::read_dir(format!("{folder}/task")).unwrap().flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_else(|| panic!("{name} in {status}")).trim().to_owned()
        };
        // 2: a filter.
        assert_eq!([field("Seccomp"), field("NoNewPrivs")], ["2", "1"], "{}", field("Name"));
        threads += 1;
    }
    assert!(threads > 1, "the filter is for all threads");
    let limits = std::fs::read_to_string(format!("{folder}/limits")).unwrap();
    for (limit, most) in [("Max core file size", "0"), ("Max data size", "4294967296")] {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit)).unwrap();
        let numbers: Vec<_> = line.split_whitespace().take(2).collect();
        assert_eq!(numbers, [most, most], "{limit}");
    }
    for element in ["openh264/openh264enc", "openh264/absent", "absent/openh264dec"] {
        match start(element) {
            Err(NotStarted::Nothing(why)) => assert!(why.contains("no decoder"), "{why}"),
            other => panic!("{element}: {other:?}"),
        }
    }
}
