//! The process that decodes videos: its frames are those that are decoded without it, it is
//! confined, and when it dies or stands still the streams go on, up to a limit. Over the viewer's
//! own interface to it, without a session.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use thinc_h264::{Decoder, Encoder, EncoderSettings, coded_size};
use thinc_protocol::video::SampleLayout;
use thinc_region::Size;
use thinc_video::Planes;
use thinc_viewer_native::video_decoder::{Decoded, Decoders};

const SMALL: Size = Size { width: 64, height: 48 };

fn decoders() -> Decoders {
    Decoders::new(Path::new(env!("CARGO_BIN_EXE_thinc-view")))
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

fn process(decoders: &Decoders) -> Pid {
    Pid::from_raw(decoders.process_id().expect("a process runs").cast_signed()).unwrap()
}

#[test]
fn frames_of_the_decoder_process_equal_those_decoded_here() {
    let sizes = [SMALL, Size { width: 333, height: 77 }, Size { width: 1920, height: 1080 }];
    let mut decoders = decoders();
    let mut streams: Vec<_> = (0..)
        .zip(sizes)
        .map(|(stream, size)| (stream, Source::new(size), Decoder::new(size).unwrap()))
        .collect();
    for (stream, source, _) in &streams {
        assert!(decoders.start(*stream, source.size));
    }
    let (mut here, mut there) = (Planes::new(), Planes::new());
    for frame in 0..12 {
        for (stream, source, decoder) in &mut streams {
            let unit = source.next(frame % 5 == 0);
            decoder.decode(&unit, &mut here).unwrap();
            assert_eq!(
                decoders.decode(*stream, source.size, &unit, &mut there),
                Decoded::Frame,
                "frame {frame} of {:?}",
                source.size
            );
            assert!(there.size() == coded_size(source.size), "{:?}", there.size());
            assert!(there == here, "frame {frame} of {:?}", source.size);
        }
    }
}

/// Each byte of a small stream is damaged in turn: the process says what is said here, and lives.
#[test]
fn damaged_units_are_the_same_errors_and_end_no_process() {
    let mut source = Source::new(SMALL);
    let (key, delta) = (source.next(true), source.next(false));
    let mut decoders = decoders();
    assert!(decoders.start(1, SMALL));
    let first = process(&decoders);
    let (mut here, mut there) = (Planes::new(), Planes::new());
    let mut failed = 0;
    for (number, unit) in [&key, &delta].into_iter().enumerate() {
        for at in (0..unit.len()).step_by(unit.len() / 150 + 1) {
            let mut damaged = unit.clone();
            damaged[at] ^= 0x55;
            let mut decoder = Decoder::new(SMALL).unwrap();
            let mut expected = Decoded::Failed;
            for (last, unit) in [(number == 0, &damaged), (true, &damaged)] {
                let unit = if last { unit } else { &key };
                let decoded = decoder.decode(unit, &mut here);
                expected = if decoded.is_ok() { Decoded::Frame } else { Decoded::Failed };
                // A new decoder for each, as here.
                if !last || number == 0 {
                    assert!(decoders.start(1, SMALL));
                }
                assert_eq!(
                    decoders.decode(1, SMALL, unit, &mut there),
                    expected,
                    "unit {number} with byte {at} damaged"
                );
                if expected == Decoded::Frame {
                    assert!(there == here, "unit {number} with byte {at} damaged");
                }
                if number == 0 {
                    break;
                }
            }
            failed += u32::from(expected == Decoded::Failed);
        }
    }
    assert!(failed > 100, "{failed} of about 300 were errors");
    assert_eq!(process(&decoders), first);
    // What is too long is not even sent.
    assert_eq!(decoders.decode(1, SMALL, &vec![0; (8 << 20) + 1], &mut there), Decoded::Failed);
    assert_eq!(process(&decoders), first);
}

#[test]
fn streams_of_other_sizes_and_too_many_are_refused() {
    let mut decoders = decoders();
    assert!(!decoders.start(0, Size { width: 8192, height: 8192 }));
    let large = Size { width: 1920, height: 1080 };
    let started = (1..16).filter(|stream| decoders.start(*stream, large)).count();
    assert_eq!(started, 8);
    decoders.end(3);
    assert!(decoders.start(20, large));
    assert!(!decoders.start(21, large));
}

#[test]
fn the_decoder_process_is_confined() {
    let mut decoders = decoders();
    assert!(decoders.start(1, SMALL));
    let folder = format!("/proc/{}", decoders.process_id().unwrap());
    let status = std::fs::read_to_string(format!("{folder}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("{name} in {status}")).trim().to_owned()
    };
    // 2: a filter.
    assert_eq!([field("Seccomp"), field("NoNewPrivs"), field("Threads")], ["2", "1", "1"]);
    let limits = std::fs::read_to_string(format!("{folder}/limits")).unwrap();
    for limit in ["Max open files", "Max processes", "Max core file size"] {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit)).unwrap();
        let numbers: Vec<_> = line.split_whitespace().take(2).collect();
        assert_eq!(numbers, ["0", "0"], "{limit}");
    }
    // Only root may read it: the process is not dumpable.
    if let Ok(environment) = std::fs::read(format!("{folder}/environ")) {
        for variable in String::from_utf8_lossy(&environment).split_terminator('\0') {
            let (name, _) = variable.split_once('=').unwrap();
            assert!(["LD_LIBRARY_PATH", "THINC_CORE_DUMPS"].contains(&name), "{name}");
        }
    }
}

#[test]
fn a_decoder_process_that_dies_or_stands_still_is_replaced_up_to_a_limit() {
    let mut decoders = decoders();
    let mut source = Source::new(SMALL);
    let mut out = Planes::new();
    assert!(decoders.start(1, SMALL));
    for (signal, lost) in [(Signal::KILL, 1), (Signal::STOP, 2), (Signal::KILL, 3)] {
        assert_eq!(decoders.decode(1, SMALL, &source.next(true), &mut out), Decoded::Frame);
        assert_eq!(decoders.decode(1, SMALL, &source.next(false), &mut out), Decoded::Frame);
        let pid = process(&decoders);
        kill_process(pid, signal).unwrap();
        let began = Instant::now();
        assert_eq!(decoders.decode(1, SMALL, &source.next(false), &mut out), Decoded::Failed);
        assert!(began.elapsed() < Duration::from_secs(60));
        assert!(test_kill_process(pid).is_err(), "it is gone, and no zombie");
        // Its frames refer to those of the process that is gone.
        let next = decoders.decode(1, SMALL, &source.next(false), &mut out);
        assert_eq!(next, if lost < 3 { Decoded::Failed } else { Decoded::Refused });
    }
    assert_eq!(decoders.decode(1, SMALL, &source.next(true), &mut out), Decoded::Refused);
    assert!(!decoders.start(2, SMALL));
    assert_eq!(decoders.process_id(), None);
}

#[test]
fn what_is_no_decoder_is_refused_and_waited_for_by_nobody() {
    let mut source = Source::new(SMALL);
    let mut out = Planes::new();
    for program in ["/nonexistent/thinc-view", "/bin/true", "/bin/cat"] {
        let mut decoders = Decoders::new(Path::new(program));
        let mut refused = 0;
        for stream in 0..5 {
            assert!(!decoders.start(stream, SMALL), "{program}");
            let decoded = decoders.decode(stream, SMALL, &source.next(true), &mut out);
            assert_ne!(decoded, Decoded::Frame, "{program}");
            refused += u32::from(decoded == Decoded::Refused);
        }
        assert!(refused >= 3, "{program}: {refused}");
    }
}
