//! H.264 with chroma of full resolution, with x264 and FFmpeg by GStreamer in the place of graphics
//! processors: what the program encodes is what the protocol allows, and it decodes that to what
//! was drawn. Over the interface that sessions and viewers have.

mod pictures;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;

use thinc_gpu_video::{Coded, NotStarted, Process, Purpose, Rates, Settings};
use thinc_h264::{check, check_yuv444};
use thinc_protocol::video::{FrameCodec, SampleLayout};
use thinc_region::Size;
use thinc_video::{Planes, to_420};

use pictures::{difference, draw, draw_as};

const ENCODER: &str = "x264/x264enc";
const DECODER: &str = "libav/avdec_h264";
const SIZE: Size = Size { width: 320, height: 180 };
const RATES: Rates = Rates { bits_per_second: 4_000_000, frames_per_second: 30 };
const DONE: Coded = Coded::Done { keyframe: false };

/// The program with these elements, or with what it finds by itself.
fn start(purpose: Purpose, elements: Option<&str>) -> Result<Process, NotStarted> {
    // One after the other: a script that is still open for writing in the child of another test
    // cannot be executed.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    let name = format!("thinc-gpu-codec-444-{}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let program = env!("CARGO_BIN_EXE_thinc-gpu-codec");
    let named = elements.map(|elements| format!("THINC_VIDEO_ELEMENTS={elements}"));
    let text = format!("#!/bin/sh\n{} exec '{program}' \"$@\"\n", named.unwrap_or_default());
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let started = Process::start(&path, &Settings::new(purpose, FrameCodec::H264Yuv444));
    std::fs::remove_file(path).unwrap();
    started
}

#[test]
fn what_is_encoded_is_allowed_and_decoded_as_4_4_4() {
    let mut encoder = start(Purpose::Encode, Some(ENCODER)).unwrap();
    // Without a name it is found too: few graphics processors decode it.
    for decoder in [Some(DECODER), None] {
        let mut decoder = start(Purpose::Decode, decoder).unwrap();
        assert!(encoder.name().starts_with("x264enc: "));
        assert!(decoder.name().starts_with("avdec_h264: "), "{}", decoder.name());
        let sizes = [SIZE, Size { width: 98, height: 130 }, Size { width: 640, height: 480 }];
        for (stream, size) in (0..).zip(sizes) {
            assert_eq!(encoder.begin(stream, size, RATES).unwrap(), DONE);
            assert_eq!(decoder.begin(stream, size, RATES).unwrap(), DONE);
        }
        let mut shown = Planes::new();
        for number in 0..10 {
            for (stream, size) in (0..).zip(sizes) {
                let keyframe = number == 0 || (stream, number) == (1, 6);
                let (frame, mut unit) = (draw_as(SampleLayout::Yuv444, size, number), Vec::new());
                let coded = encoder.encode(stream, &frame.as_ref(), RATES, keyframe, &mut unit);
                assert_eq!(coded.unwrap(), Coded::Done { keyframe }, "{number}");
                assert_eq!(check_yuv444(&unit, size).unwrap().is_keyframe, keyframe);
                assert!(!keyframe || check(&unit, size).is_err(), "it is of another profile");
                assert_eq!(decoder.decode(stream, size, &unit, &mut shown).unwrap(), DONE);
                assert_eq!(shown.layout(), SampleLayout::Yuv444);
                let difference = difference(&frame, &shown);
                assert!(difference < 6.0, "stream {stream}, frame {number}: {difference}");
            }
        }
    }
}

/// Chroma at half the width and height could not show what was drawn.
#[test]
fn the_colours_of_neighbours_differ() {
    let frame = draw_as(SampleLayout::Yuv444, SIZE, 0);
    let mut half = Planes::new();
    to_420(&frame.as_ref(), &mut half);
    let (full, half) = (frame.as_ref(), half.as_ref());
    let (mut sum, mut count) = (0, 0);
    for (y, row) in full.rows(1).enumerate() {
        for (x, &sample) in row.iter().enumerate() {
            sum += u64::from(sample.abs_diff(half.row(1, y / 2)[x / 2]));
            count += 1;
        }
    }
    assert!(sum > 15 * count, "{sum} in {count} samples");
}

#[test]
fn a_frame_of_another_layout_is_refused_and_a_damaged_unit_does_no_harm() {
    let mut encoder = start(Purpose::Encode, Some(ENCODER)).unwrap();
    let mut unit = Vec::new();
    let coded = encoder.encode(1, &draw(SIZE, 0).as_ref(), RATES, true, &mut unit);
    assert_eq!((coded.unwrap(), unit.len()), (Coded::Refused, 0));
    let units: Vec<Vec<u8>> = (0..3)
        .map(|number| {
            let (frame, mut unit) = (draw_as(SampleLayout::Yuv444, SIZE, number), Vec::new());
            encoder.encode(1, &frame.as_ref(), RATES, number != 1, &mut unit).unwrap();
            unit
        })
        .collect();
    let [key, delta, next] = &units[..] else { panic!("three units") };
    let mut decoder = start(Purpose::Decode, Some(DECODER)).unwrap();
    let id = decoder.id();
    let (mut shown, mut expected) = (Planes::new(), Planes::new());
    assert_eq!(decoder.decode(1, SIZE, next, &mut expected).unwrap(), DONE);
    for damage in 0..8 {
        let mut damaged = delta.clone();
        if damage == 0 {
            damaged.truncate(delta.len() / 2);
        } else {
            damaged[damage * (delta.len() - 1) / 7] ^= 0x55;
        }
        assert_eq!(decoder.decode(2, SIZE, key, &mut shown).unwrap(), DONE);
        // FFmpeg guesses what is missing, and says nothing of it.
        decoder.decode(2, SIZE, &damaged, &mut shown).unwrap();
        decoder.end(2).unwrap();
        assert_eq!(decoder.decode(2, SIZE, next, &mut shown).unwrap(), DONE, "{damage}");
        assert!(shown == expected, "{damage}");
        decoder.end(2).unwrap();
    }
    assert_eq!(decoder.id(), id);
}

#[test]
fn without_an_element_the_program_says_why() {
    for (purpose, element, why) in [
        (Purpose::Encode, "openh264/openh264enc", "GStreamer has no encoder of H.264 4:4:4"),
        (Purpose::Decode, "openh264/openh264dec", "GStreamer has no decoder of H.264 4:4:4"),
    ] {
        let said = start(purpose, Some(element)).unwrap_err().to_string();
        assert!(said.starts_with(why), "{said}");
    }
}
