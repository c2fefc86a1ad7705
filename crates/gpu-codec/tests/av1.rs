//! AV1, with libaom by GStreamer in the place of a graphics processor: what the program encodes is
//! what the protocol allows, and it decodes that to what was drawn. Over the interface that
//! sessions and viewers have.

mod pictures;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;

use thinc_gpu_video::av1::{Malformed, check, obus};
use thinc_gpu_video::{Coded, NotStarted, Process, Purpose, Rates, Settings};
use thinc_protocol::video::FrameCodec;
use thinc_region::Size;
use thinc_video::Planes;

use pictures::{difference, draw};

/// libaom's encoder, with keyframes on request (examples/gststub.rs).
const STUB: &str = "stub/goodav1enc";
const SIZE: Size = Size { width: 320, height: 180 };
const RATES: Rates = Rates { bits_per_second: 2_000_000, frames_per_second: 30 };
const DONE: Coded = Coded::Done { keyframe: false };

/// The program with these elements.
fn start(purpose: Purpose, elements: &str) -> Result<Process, NotStarted> {
    // One after the other: a script that is still open for writing in the child of another test
    // cannot be executed.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap();
    let name = format!("thinc-gpu-codec-av1-{}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let program = env!("CARGO_BIN_EXE_thinc-gpu-codec");
    let stubs = std::env::current_exe().unwrap().parent().unwrap().join("../examples");
    // The first loads the plugin that the stub needs.
    let text = format!(
        "#!/bin/sh\nGST_PLUGIN_PATH={} THINC_VIDEO_ELEMENTS=aom/none,{elements} \
         exec '{program}' \"$@\"\n",
        stubs.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let started = Process::start(&path, &Settings::new(purpose, FrameCodec::Av1));
    std::fs::remove_file(path).unwrap();
    started
}

/// Units of a stream; keyframes where they are requested.
fn encode(process: &mut Process, size: Size, keyframes: &[bool]) -> Vec<Vec<u8>> {
    let units = keyframes.iter().enumerate().map(|(number, &keyframe)| {
        let (frame, mut unit) = (draw(size, number), Vec::new());
        let coded = process.encode(1, &frame.as_ref(), RATES, keyframe, &mut unit).unwrap();
        assert_eq!(coded, Coded::Done { keyframe }, "{number}");
        unit
    });
    units.collect()
}

#[test]
fn what_is_encoded_is_allowed_and_decoded_as_it_was_drawn() {
    let mut encoder = start(Purpose::Encode, STUB).unwrap();
    let mut decoder = start(Purpose::Decode, "aom/av1dec").unwrap();
    assert!(encoder.name().starts_with("goodav1enc: ") && decoder.name().starts_with("av1dec: "));
    let sizes = [SIZE, Size { width: 98, height: 130 }, Size { width: 640, height: 480 }];
    for (stream, size) in (0..).zip(sizes) {
        assert_eq!(encoder.begin(stream, size, RATES).unwrap(), DONE);
        assert_eq!(decoder.begin(stream, size, RATES).unwrap(), DONE);
    }
    let mut shown = Planes::new();
    for number in 0..10 {
        for (stream, size) in (0..).zip(sizes) {
            let keyframe = number == 0 || (stream, number) == (1, 6);
            let (frame, mut unit) = (draw(size, number), Vec::new());
            let coded = encoder.encode(stream, &frame.as_ref(), RATES, keyframe, &mut unit);
            assert_eq!(coded.unwrap(), Coded::Done { keyframe }, "{number}");
            assert_eq!(check(&unit, size).unwrap().is_keyframe, keyframe);
            assert_eq!(decoder.decode(stream, size, &unit, &mut shown).unwrap(), DONE);
            let difference = difference(&frame, &shown);
            assert!(difference < 6.0, "stream {stream}, frame {number}: {difference}");
        }
    }
}

#[test]
fn a_stream_follows_its_rate() {
    let mut process = start(Purpose::Encode, "aom/av1enc").unwrap();
    let mut bytes = |bits_per_second: u64| {
        let mut units = Vec::new();
        for number in 0..40 {
            // Noise: no encoder takes less than its rate for it.
            let mut frame = draw(SIZE, number);
            let mut state = number as u32;
            for sample in frame.data_mut() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *sample = sample.wrapping_add((state >> 28) as u8);
            }
            let rates = Rates { bits_per_second, ..RATES };
            process.encode(1, &frame.as_ref(), rates, false, &mut units).unwrap();
        }
        units.len()
    };
    let (high, low) = (bytes(6_000_000), bytes(600_000));
    assert!(low * 2 < high, "{high} and {low} bytes");
}

/// Whatever is damaged is found, or does no harm: the process lives, and the next keyframe is
/// right.
#[test]
fn after_a_damaged_unit_a_keyframe_is_right() {
    let mut encoder = start(Purpose::Encode, STUB).unwrap();
    let mut decoder = start(Purpose::Decode, "aom/av1dec").unwrap();
    let id = decoder.id();
    let units = encode(&mut encoder, SIZE, &[true, false, true]);
    let [key, delta, next] = &units[..] else { panic!("three units") };
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
        let decoded = decoder.decode(2, SIZE, &damaged, &mut shown).unwrap();
        if decoded == Coded::Refused {
            decoder.end(2).unwrap();
        }
        assert_eq!(decoder.decode(2, SIZE, next, &mut shown).unwrap(), DONE, "{damage}");
        assert!(shown == expected, "{damage}");
        decoder.end(2).unwrap();
    }
    // A unit of another size than it was said to have.
    let other = Size { width: 96, height: 48 };
    assert_ne!(decoder.decode(3, other, key, &mut shown).unwrap(), DONE);
    assert_eq!(decoder.id(), id);
}

#[test]
fn what_the_protocol_does_not_allow_is_found() {
    let mut encoder = start(Purpose::Encode, STUB).unwrap();
    let units = encode(&mut encoder, SIZE, &[true, false]);
    let [key, delta] = &units[..] else { panic!("two units") };
    assert!(check(key, SIZE).unwrap().is_keyframe && !check(delta, SIZE).unwrap().is_keyframe);
    let parts: Vec<&[u8]> = obus(key).map(|obu| obu.unwrap().bytes()).collect();
    assert_eq!(parts.concat(), *key);
    let [delimiter, sequence, frame] = parts[..] else { panic!("{} units", parts.len()) };
    let of = |parts: &[&[u8]]| check(&parts.concat(), SIZE).map(|unit| unit.is_keyframe);
    assert_eq!(of(&[sequence, frame]), Ok(true), "it needs no delimiter");
    assert_eq!(of(&[delimiter, frame]), Err(Malformed::SequenceHeader));
    assert_eq!(of(&[delimiter, sequence]), Err(Malformed::Frames));
    assert_eq!(of(&[sequence, delta]), Err(Malformed::Order), "a delimiter in between");
    assert_eq!(of(&[frame, sequence]), Err(Malformed::Order));
    assert_eq!(of(&[sequence, sequence, frame]), Err(Malformed::Order));
    assert_eq!(of(&[key, frame]), Err(Malformed::Frames), "two frames");
    assert_eq!(of(&[key, &[0x82, 0]]), Err(Malformed::Unit), "a forbidden bit");
    assert_eq!(of(&[key, &[0x3c, 0]]), Err(Malformed::Unit), "no size");
    assert_eq!(of(&[key, &[0x7a, 0]]), Ok(true), "padding");
    assert_eq!(of(&[]), Err(Malformed::Frames));
    let other = Size { width: 322, height: 180 };
    assert_eq!(check(key, other), Err(Malformed::Size(SIZE)));
    // A header that shows an earlier frame, and a frame that is not shown.
    assert_eq!(of(&[delimiter, &[0x1a, 1, 0x80]]), Err(Malformed::Frames));
    assert_eq!(of(&[delimiter, &[0x32, 1, 0x20]]), Err(Malformed::Frames));
    for cut in 0..key.len() {
        assert!(check(&key[..cut], SIZE).is_err(), "cut to {cut}");
    }
    // Whatever one wrong bit makes of it, all of it is read, or nothing.
    for at in 0..key.len().min(40) {
        for bit in 0..8 {
            let mut damaged = key.clone();
            damaged[at] ^= 1 << bit;
            let passes = check(&damaged, SIZE).is_ok();
            let all = obus(&damaged).flatten().map(|obu| obu.bytes().len()).sum::<usize>();
            assert!(!passes || all == damaged.len(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn without_an_element_the_program_says_why() {
    for (purpose, element, why) in [
        (Purpose::Encode, "openh264/openh264enc", "GStreamer has no encoder of AV1"),
        (Purpose::Decode, "aom/av1enc", "GStreamer has no decoder of AV1"),
    ] {
        let said = start(purpose, element).unwrap_err().to_string();
        assert!(said.starts_with(why), "{said}");
    }
}
