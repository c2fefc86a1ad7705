//! Videos decoded by a graphics processor, with a decoder of GStreamer's in software in its place:
//! when it takes a stream over, what is shown when it fails in all ways, and what the statistics
//! say of it. Each frame that is shown is compared with that of a decoder here.

mod fake;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fake::{Fake, LONG};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use thinc_gpu_video::{Coded, Process, Purpose, Rates, Settings};
use thinc_h264::{Decoder, Encoder, EncoderSettings, coded_size};
use thinc_protocol::command::Command;
use thinc_protocol::video::{
    Codec, DecoderState, Eye,
    FrameCodec::{self, Av1, H264, H264Yuv444},
    FrameData, SampleLayout, Source, VideoCommand, VideoStatus,
};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, Planes};
use thinc_viewer_native::decoder_choice::DecoderChoice;
use thinc_viewer_native::video_decoder::Decoded;
use thinc_viewer_native::video_decoding::VideoDecoding;

const SMALL: Size = Size { width: 64, height: 48 };
const VIEWER: &str = env!("CARGO_BIN_EXE_thinc-view");
/// The decoder that stands for a graphics processor's, and the name that it is reported by.
const ELEMENTS: &str = "openh264/openh264dec";
const ELEMENT: &str = "openh264dec:";
/// The same with AV1 and 4:4:4, and what encodes them.
const OTHER_ELEMENTS: &str =
    "openh264/openh264dec,aom/av1dec,stub/goodav1enc,libav/avdec_h264,x264/x264enc";
/// 8: frames that both decode before the graphics processor takes over.
const TRIED: usize = 8;

/// One test at a time: they start processes, and a program that is still open for writing in the
/// child of another thread cannot be executed.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program that codes on graphics processors, of the same build.
fn codec() -> PathBuf {
    let program = Path::new(VIEWER).with_file_name("thinc-gpu-codec");
    assert!(
        program.is_file(),
        "{} is missing: cargo build --release -p thinc-gpu-codec",
        program.display()
    );
    program
}

/// A folder of programs, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let folder = std::env::temp_dir().join(format!("thinc-hardware-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// A program for the shell.
    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// The codec program with the decoder that stands for a graphics processor's.
    fn stand_in(&self) -> PathBuf {
        self.stand_in_of(ELEMENTS)
    }

    fn stand_in_of(&self, elements: &str) -> PathBuf {
        let codec = codec();
        let text = format!(
            "GST_PLUGIN_PATH='{}' THINC_VIDEO_ELEMENTS={elements} exec '{}' \"$@\"",
            codec.with_file_name("examples").display(),
            codec.display()
        );
        self.program("stand-in", &text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A stream: what is encoded, the decoders under test, and one that says what they should show.
struct Stream {
    number: u64,
    size: Size,
    encoder: Encoder,
    expected: Decoder,
    needs_keyframe: bool,
    time: usize,
    shown: usize,
}

impl Stream {
    fn new(number: u64, size: Size) -> Stream {
        let settings = EncoderSettings { size, bits_per_second: 4_000_000, frames_per_second: 30 };
        Stream {
            number,
            size,
            encoder: Encoder::new(settings).unwrap(),
            expected: Decoder::new(size).unwrap(),
            needs_keyframe: true,
            time: 0,
            shown: 0,
        }
    }

    fn unit(&mut self, keyframe: bool) -> Vec<u8> {
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

    /// The next frame, as a viewer takes it: after an error a keyframe. What is shown is right.
    /// Frames come at their own rate, and the graphics processor keeps up.
    fn next(&mut self, decoding: &mut VideoDecoding) -> Decoded {
        let decoded = self.show(decoding);
        keep_up(decoding);
        decoded
    }

    /// The same, while the graphics processor may still be behind.
    fn show(&mut self, decoding: &mut VideoDecoding) -> Decoded {
        let keyframe = std::mem::take(&mut self.needs_keyframe);
        let unit = self.unit(keyframe);
        let (mut here, mut there) = (Planes::new(), Planes::new());
        self.expected.decode(&unit, &mut here).unwrap();
        let decoded = decoding.decode((self.number, H264), self.size, &unit, &mut there);
        match decoded {
            Decoded::Frame => {
                assert!(there.size() == coded_size(self.size), "{:?}", there.size());
                assert!(there == here, "frame {} of {:?} differs", self.time, self.size);
                self.shown += 1;
            }
            Decoded::Failed => {
                assert!(there == Planes::new(), "a frame that failed leaves nothing");
                self.needs_keyframe = true;
            }
            Decoded::Refused => panic!("frame {} of {:?} is refused", self.time, self.size),
        }
        decoded
    }

    /// Frames until the graphics processor has the stream; all are shown.
    fn until_taken_over(&mut self, decoding: &mut VideoDecoding) {
        let until = Instant::now() + LONG;
        let before = self.shown;
        loop {
            assert_eq!(self.next(decoding), Decoded::Frame);
            let report = decoding.report();
            if report.decoder.as_deref().is_some_and(|decoder| decoder.starts_with(ELEMENT)) {
                assert!(self.shown - before >= TRIED, "after {} frames", self.shown - before);
                assert_eq!(report.hardware_failure, None);
                return;
            }
            assert_eq!(report.decoder.as_deref(), Some("openh264"));
            assert_eq!(report.hardware_failure, None, "frame {}", self.time);
            assert!(Instant::now() < until, "it never takes over");
        }
    }
}

fn decoding(choice: DecoderChoice, hardware: &Path) -> VideoDecoding {
    VideoDecoding::with(Path::new(VIEWER), choice, Some(hardware.to_owned()))
}

/// Waits until the graphics processor has decoded all that it got.
fn keep_up(decoding: &VideoDecoding) {
    let until = Instant::now() + LONG;
    while decoding.is_hardware_behind() {
        assert!(Instant::now() < until, "the graphics processor does not keep up");
        std::thread::yield_now();
    }
}

fn process(decoding: &VideoDecoding) -> Pid {
    let id = decoding.hardware_process_id().expect("a process runs");
    Pid::from_raw(id.cast_signed()).unwrap()
}

/// Several streams with several sizes, odd edges too; one changes its size.
#[test]
fn it_takes_streams_over_once_their_frames_were_equal() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let mut decoding = decoding(DecoderChoice::Hardware, &folder.stand_in());
    let sizes = [SMALL, Size { width: 333, height: 77 }, Size { width: 1280, height: 720 }];
    let mut streams: Vec<_> =
        (1..).zip(sizes).map(|(number, size)| Stream::new(number, size)).collect();
    for stream in &mut streams {
        assert!(decoding.start(stream.number, stream.size));
    }
    streams[0].until_taken_over(&mut decoding);
    let first = process(&decoding);
    for frame in 0..3 * TRIED {
        for stream in &mut streams {
            stream.needs_keyframe |= frame % 5 == 4;
            assert_eq!(stream.next(&mut decoding), Decoded::Frame);
        }
    }
    let by = decoding.report().decoder.clone().unwrap();
    assert!(by.starts_with(ELEMENT), "the last stream is decoded by {by}");
    // Another size begins in the processor, and is taken over again.
    let mut other = Stream::new(1, Size { width: 98, height: 130 });
    assert_eq!(other.next(&mut decoding), Decoded::Frame);
    assert_eq!(decoding.report().decoder.as_deref(), Some("openh264"));
    other.until_taken_over(&mut decoding);
    assert_eq!(process(&decoding), first, "one process for all");
    decoding.end(1);
    assert_eq!(streams[1].next(&mut decoding), Decoded::Frame);
    decoding.end_all();
    // A new connection has streams of its own.
    let mut next = Stream::new(1, SMALL);
    assert!(decoding.start(1, SMALL));
    next.until_taken_over(&mut decoding);
    drop(decoding);
    let until = Instant::now() + LONG;
    while test_kill_process(first).is_ok() {
        assert!(Instant::now() < until, "the process outlives its viewer");
        std::thread::yield_now();
    }
}

/// Which of both is faster is not known here: but it is found out, and said.
#[test]
fn by_itself_it_takes_over_large_streams_only_if_it_is_faster() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let mut decoding = decoding(DecoderChoice::Auto, &folder.stand_in());
    let mut small = Stream::new(1, Size { width: 1280, height: 718 });
    for _ in 0..2 * TRIED {
        assert_eq!(small.next(&mut decoding), Decoded::Frame);
    }
    assert_eq!(decoding.hardware_process_id(), None, "a small stream starts no process");
    let why = decoding.report().hardware_failure.clone().unwrap();
    assert!(why.contains("1280 × 720"), "{why}");
    decoding.end(1);
    let mut large = Stream::new(2, Size { width: 1280, height: 720 });
    let until = Instant::now() + LONG;
    loop {
        assert_eq!(large.next(&mut decoding), Decoded::Frame);
        let report = decoding.report();
        if report.decoder.as_deref().is_some_and(|decoder| decoder.starts_with(ELEMENT)) {
            break;
        }
        if report.hardware_failure.as_deref().is_some_and(|why| why.contains(" ms a frame")) {
            assert_eq!(decoding.hardware_process_id(), None, "it is left");
            break;
        }
        assert!(Instant::now() < until, "no verdict: {report:?}");
    }
    for _ in 0..TRIED {
        assert_eq!(large.next(&mut decoding), Decoded::Frame);
    }
}

#[test]
fn a_stream_goes_on_when_its_process_dies_or_stands_still() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let mut decoding = decoding(DecoderChoice::Hardware, &folder.stand_in());
    let mut stream = Stream::new(1, SMALL);
    assert!(decoding.start(1, SMALL));
    for signal in [Signal::KILL, Signal::STOP] {
        stream.until_taken_over(&mut decoding);
        let pid = process(&decoding);
        kill_process(pid, signal).unwrap();
        assert_eq!(stream.next(&mut decoding), Decoded::Failed);
        assert!(test_kill_process(pid).is_err(), "it is gone, and no zombie");
        assert_eq!(stream.next(&mut decoding), Decoded::Frame, "the keyframe");
        assert_eq!(decoding.report().decoder.as_deref(), Some("openh264"));
    }
    let why = decoding.report().hardware_failure.clone().unwrap();
    assert!(why.contains("no answer for 1 s"), "{why}");
    for _ in 0..2 * TRIED {
        stream.needs_keyframe = true;
        assert_eq!(stream.next(&mut decoding), Decoded::Frame);
        assert_eq!(decoding.hardware_process_id(), None, "it is not tried a third time");
    }
}

/// The keyframe itself meets the process that has died: nothing is missing.
#[test]
fn a_keyframe_that_finds_no_process_is_shown_all_the_same() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let mut decoding = decoding(DecoderChoice::Hardware, &folder.stand_in());
    let mut stream = Stream::new(1, SMALL);
    stream.until_taken_over(&mut decoding);
    kill_process(process(&decoding), Signal::KILL).unwrap();
    stream.needs_keyframe = true;
    assert_eq!(stream.next(&mut decoding), Decoded::Frame);
    assert_eq!(decoding.report().decoder.as_deref(), Some("openh264"));
    stream.until_taken_over(&mut decoding);
}

#[test]
fn units_that_are_no_frames_do_not_reach_it_and_it_goes_on_with_a_keyframe() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let mut decoding = decoding(DecoderChoice::Hardware, &folder.stand_in());
    let mut stream = Stream::new(1, SMALL);
    stream.until_taken_over(&mut decoding);
    let first = process(&decoding);
    let mut out = Planes::new();
    let other_size = Stream::new(9, Size { width: 96, height: 48 }).unit(true);
    for unit in [&[][..], &[0x5a; 900], &other_size, &vec![0; (8 << 20) + 1]] {
        assert_eq!(decoding.decode((1, H264), SMALL, unit, &mut out), Decoded::Failed);
        // What refers to a frame that was not decoded is not decoded either.
        let delta = stream.unit(false);
        stream.expected.decode(&delta, &mut Planes::new()).unwrap();
        assert_eq!(decoding.decode((1, H264), SMALL, &delta, &mut out), Decoded::Failed);
        assert!(out == Planes::new());
        stream.needs_keyframe = true;
        for _ in 0..3 {
            assert_eq!(stream.next(&mut decoding), Decoded::Frame);
        }
        let report = decoding.report();
        assert!(report.decoder.as_deref().is_some_and(|decoder| decoder.starts_with(ELEMENT)));
    }
    assert_eq!(process(&decoding), first);
}

/// Programs that speak the messages of gpu-video by the shell: standard input is the socket, and
/// standard output the memory, which stays black.
#[test]
fn whatever_it_does_the_processor_shows_the_video() {
    const READY: &str = "printf '\\004stub: a test' >&0";
    const DONE: &str = "printf '\\001\\000\\000\\000\\000\\000' >&0";
    const REQUEST: &str = "dd bs=34 count=1 of=/dev/null 2>/dev/null";
    const FAILED: &str = "printf '\\002' >&0";
    const REFUSED: &str = "printf '\\003' >&0";
    // 0: a stream starts. 1: a unit. 2: the end of a stream, which has no answer.
    const KIND: &str = "kind=$(dd bs=34 count=1 2>/dev/null | od -An -tu1 -N1); [ \"$kind\" ]";
    let _one = one_at_a_time();
    let folder = Folder::new();
    let all = |start: &str, unit: &str| {
        let answer = format!("case $kind in *0) {start};; *1) {unit};; esac");
        format!("{READY}; while {KIND}; do {answer}; done")
    };
    let cases = [
        ("nothing", "printf '\\005no GPU of this test' >&0".to_owned(), "no GPU of this test"),
        ("no-greeting", "exit 3".to_owned(), "ended: exit status: 3"),
        ("silent", format!("{READY}; exec sleep 1000"), "no answer for 1 s"),
        ("dies", format!("{READY}; {REQUEST}; {DONE}; {REQUEST}"), "ended: exit status: 0"),
        ("wrong", all(DONE, DONE), "frames of stub are not exact"),
        ("fails", all(DONE, FAILED), "stub does not decode a frame"),
        ("refuses", all(REFUSED, FAILED), "64 × 48"),
        ("refuses-later", all(DONE, REFUSED), "does not decode frames of 64 × 48 here"),
        ("nonsense", all(DONE, "printf nonsense >&0"), "gave an answer that is none"),
    ];
    let mut programs: Vec<_> =
        cases.map(|(name, text, why)| (folder.program(name, &text), why)).into();
    programs.push((folder.0.join("absent"), "absent is not installed"));
    for (program, expected) in programs {
        let mut decoding = decoding(DecoderChoice::Hardware, &program);
        let mut stream = Stream::new(1, SMALL);
        assert!(decoding.start(1, SMALL));
        let until = Instant::now() + LONG;
        while decoding.report().hardware_failure.is_none() {
            stream.needs_keyframe |= stream.time.is_multiple_of(TRIED);
            assert_eq!(stream.next(&mut decoding), Decoded::Frame);
            assert!(Instant::now() < until, "{}: nothing is said", program.display());
        }
        let report = decoding.report().clone();
        let why = report.hardware_failure.unwrap();
        assert!(why.contains(expected), "{}: {why}", program.display());
        assert_eq!(report.decoder.as_deref(), Some("openh264"), "{}", program.display());
        for _ in 0..2 * TRIED {
            assert_eq!(stream.next(&mut decoding), Decoded::Frame);
        }
        assert_eq!(decoding.report().decoder.as_deref(), Some("openh264"));
    }
}

/// A program that has the right frames in files, but for one, of which a bit is wrong: the last one
/// that is compared, or one before.
#[test]
fn one_wrong_bit_in_the_trial_is_enough() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    // The first frame comes before the process is ready, and is not compared.
    let last = 1 + TRIED;
    let begun = folder.0.join("begun");
    let mut twin = Stream::new(1, SMALL);
    let mut frames: Vec<Planes> = Vec::new();
    for frame in 1..=last {
        let (unit, mut planes) = (twin.unit(frame == 1), Planes::new());
        twin.expected.decode(&unit, &mut planes).unwrap();
        frames.push(planes);
    }
    let program = folder.program(
        "from-files",
        &format!(
            "n=0; until [ -e '{}' ] || [ $((n += 1)) -gt 6000 ]; do sleep 0.01; done\n\
             printf '\\004stub: a test' >&0\nframe=0\n\
             while kind=$(dd bs=34 count=1 2>/dev/null | od -An -tu1 -N1); [ \"$kind\" ]; do\n\
             case $kind in *2) continue;; *1) frame=$((frame + 1))\n\
             dd if='{}'/$frame of=/dev/stdout conv=notrunc 2>/dev/null;; esac\n\
             printf '\\001\\000\\000\\000\\000\\000' >&0\ndone",
            begun.display(),
            folder.0.display()
        ),
    );
    for wrong in [None, Some(2), Some(5), Some(last)] {
        for (number, planes) in (1..).zip(&frames) {
            let mut data = planes.data().to_vec();
            if Some(number) == wrong {
                *data.last_mut().unwrap() ^= 1;
            }
            std::fs::write(folder.0.join(number.to_string()), data).unwrap();
        }
        let mut decoding = decoding(DecoderChoice::Hardware, &program);
        let mut stream = Stream::new(1, SMALL);
        let _ = std::fs::remove_file(&begun);
        assert_eq!(stream.show(&mut decoding), Decoded::Frame);
        std::fs::write(&begun, "").unwrap();
        keep_up(&decoding);
        for _ in 1..last {
            assert_eq!(stream.next(&mut decoding), Decoded::Frame);
            assert_eq!(decoding.report().decoder.as_deref(), Some("openh264"));
        }
        let Some(wrong) = wrong else {
            // It may take over, and has no further file.
            assert!(decoding.hardware_process_id().is_some());
            assert_eq!(decoding.report().hardware_failure, None);
            continue;
        };
        assert_eq!(stream.next(&mut decoding), Decoded::Frame);
        assert_eq!(decoding.report().decoder.as_deref(), Some("openh264"), "{wrong}");
        let why = decoding.report().hardware_failure.clone().unwrap();
        assert_eq!(why, "frames of stub are not exact", "{wrong}");
        assert_eq!(decoding.hardware_process_id(), None);
    }
}

/// More frames than may wait, and keyframes among them, while a process does not say that it is
/// ready: nothing of that is seen.
#[test]
fn no_frame_waits_for_a_process_that_starts() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    // It ends with its socket.
    let program = folder.program("starts", "exec cat >/dev/null");
    let mut decoding = decoding(DecoderChoice::Hardware, &program);
    let mut stream = Stream::new(1, SMALL);
    let (mut here, mut there) = (Planes::new(), Planes::new());
    for frame in 0..1500 {
        let unit = stream.unit(frame % 250 == 0);
        stream.expected.decode(&unit, &mut here).unwrap();
        assert_eq!(decoding.decode((1, H264), SMALL, &unit, &mut there), Decoded::Frame);
        assert!(there == here, "frame {frame}");
    }
    assert!(decoding.is_hardware_behind());
    assert_eq!(decoding.report().decoder.as_deref(), Some("openh264"));
    assert_eq!(decoding.report().hardware_failure, None);
}

#[test]
fn without_a_graphics_processor_or_by_choice_there_is_no_process() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let hardware = folder.stand_in();
    for (choice, program, why) in [
        (DecoderChoice::Software, Some(&hardware), "by --decoder software"),
        (DecoderChoice::Auto, None, "there is none here"),
        (DecoderChoice::Hardware, None, "there is none here"),
    ] {
        let mut decoding = VideoDecoding::with(Path::new(VIEWER), choice, program.cloned());
        let mut stream = Stream::new(1, SMALL);
        for _ in 0..2 * TRIED {
            assert_eq!(stream.next(&mut decoding), Decoded::Frame);
            assert_eq!(decoding.hardware_process_id(), None);
        }
        let report = decoding.take_report().unwrap();
        assert!(report.hardware_failure.is_some_and(|said| said.starts_with(why)));
        assert_eq!(report.decoder.as_deref(), Some("openh264"));
        assert_eq!(decoding.take_report(), None);
    }
}

/// A stream of another codec than H.264: what is encoded, and what it should show.
struct OtherStream {
    codec: FrameCodec,
    encoder: Process,
    expected: Process,
    time: usize,
}

impl OtherStream {
    fn new(codec: FrameCodec, program: &Path) -> OtherStream {
        let start = |purpose| Process::start(program, &Settings::new(purpose, codec)).unwrap();
        let (encoder, expected) = (start(Purpose::Encode), start(Purpose::Decode));
        OtherStream { codec, encoder, expected, time: 0 }
    }

    /// The next unit, and its frame.
    fn next(&mut self, keyframe: bool) -> (Vec<u8>, Planes) {
        const RATES: Rates = Rates { bits_per_second: 4_000_000, frames_per_second: 30 };
        self.time += 1;
        let (mut planes, mut unit) = (Planes::new(), Vec::new());
        planes.reset(SMALL, self.codec.layout());
        for (at, sample) in planes.data_mut().iter_mut().enumerate() {
            *sample = ((at % 64 + 3 * self.time) ^ (at / 64)) as u8;
        }
        let coded = self.encoder.encode(1, &planes.as_ref(), RATES, keyframe, &mut unit);
        assert_eq!(coded.unwrap(), Coded::Done { keyframe });
        let mut frame = Planes::new();
        let decoded = self.expected.decode(1, SMALL, &unit, &mut frame).unwrap();
        assert_eq!(decoded, Coded::Done { keyframe: false });
        (unit, frame)
    }

    /// The next frame, which must be right if it is shown.
    fn show(&mut self, decoding: &mut VideoDecoding, keyframe: bool) -> Decoded {
        let (unit, here) = self.next(keyframe);
        let mut there = Planes::new();
        let decoded = decoding.decode((1, self.codec), SMALL, &unit, &mut there);
        assert!(there == if decoded == Decoded::Frame { here } else { Planes::new() });
        decoded
    }
}

fn try_other(decoding: &mut VideoDecoding, codec: FrameCodec) {
    match codec {
        H264Yuv444 => decoding.try_full_colour(|| ()),
        _ => decoding.try_av1(),
    }
}

/// Waits until the trial says that the codec is decoded.
fn wait_for_other(decoding: &mut VideoDecoding, codec: FrameCodec) {
    wait_for(decoding, codec.bit());
}

fn wait_for(decoding: &mut VideoDecoding, codecs: u32) {
    let until = Instant::now() + LONG;
    while decoding.codecs() != codecs {
        assert!(Instant::now() < until, "{} is decoded, not {codecs}", decoding.codecs());
        std::thread::yield_now();
    }
}

#[test]
fn av1_is_decoded_until_it_has_failed_twice() {
    until_it_has_failed_twice(Av1, "av1dec:");
}

#[test]
fn yuv444_is_decoded_until_it_has_failed_twice() {
    until_it_has_failed_twice(H264Yuv444, "avdec_h264:");
}

fn until_it_has_failed_twice(codec: FrameCodec, element: &str) {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let program = folder.stand_in_of(OTHER_ELEMENTS);
    let mut source = OtherStream::new(codec, &program);
    let mut decoding = decoding(DecoderChoice::Auto, &program);
    assert_eq!(decoding.codecs(), 0, "nothing is tried before the first video");
    let mut stream = Stream::new(1, SMALL);
    assert!(decoding.start(1, SMALL));
    assert_eq!(stream.next(&mut decoding), Decoded::Frame);
    assert_eq!(decoding.codecs(), 0, "not every session has it");
    try_other(&mut decoding, codec);
    wait_for_other(&mut decoding, codec);
    let first = decoding.other_process_id(codec).expect("it has passed the trial");
    source.next(true);
    for frame in 0..20 {
        // What it refers to was not seen.
        let expected = if frame < 2 { Decoded::Failed } else { Decoded::Frame };
        assert_eq!(source.show(&mut decoding, frame % 7 == 2), expected, "{frame}");
    }
    assert!(decoding.report().decoder.as_deref().is_some_and(|by| by.starts_with(element)));
    // H.264 and this take turns by their keyframes.
    stream.needs_keyframe = true;
    assert_eq!(stream.next(&mut decoding), Decoded::Frame);
    assert_eq!(decoding.report().decoder.as_deref(), Some("openh264"));
    assert_eq!(source.show(&mut decoding, true), Decoded::Frame);
    // A new connection finds it there.
    decoding.end_all();
    assert_eq!(decoding.codecs(), codec.bit());
    assert_eq!(source.show(&mut decoding, true), Decoded::Frame);
    assert_eq!(decoding.other_process_id(codec), Some(first), "one process for all");
    for (is_last, signal) in [(false, Signal::KILL), (true, Signal::STOP)] {
        let id = decoding.other_process_id(codec).expect("a process runs");
        let pid = Pid::from_raw(id.cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(source.show(&mut decoding, false), Decoded::Failed);
        assert!(test_kill_process(pid).is_err(), "it is gone, and no zombie");
        if is_last {
            try_other(&mut decoding, codec);
            assert_eq!((decoding.codecs(), decoding.is_other_tried()), (0, false));
            assert_eq!(source.show(&mut decoding, true), Decoded::Failed);
        } else {
            // Another one is tried, for which nobody waits.
            wait_for_other(&mut decoding, codec);
            assert_eq!(source.show(&mut decoding, false), Decoded::Failed);
            assert_eq!(source.show(&mut decoding, true), Decoded::Frame, "the next keyframe");
        }
    }
    stream.needs_keyframe = true;
    assert_eq!(stream.next(&mut decoding), Decoded::Frame, "the session goes on with H.264");
    decoding.end(1);
}

/// Both codecs, of streams that take turns, and the one that nobody wants ends.
#[test]
fn av1_and_4_4_4_take_turns() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let program = folder.stand_in_of(OTHER_ELEMENTS);
    let mut sources = [Av1, H264Yuv444].map(|codec| OtherStream::new(codec, &program));
    let mut decoding = decoding(DecoderChoice::Auto, &program);
    for source in &sources {
        try_other(&mut decoding, source.codec);
    }
    wait_for(&mut decoding, Av1.bit() | H264Yuv444.bit());
    for turn in 0..4 {
        let source = &mut sources[turn % 2];
        assert_eq!(source.show(&mut decoding, true), Decoded::Frame);
        assert_eq!(source.show(&mut decoding, false), Decoded::Frame);
    }
    decoding.stop_full_colour();
    assert_eq!(decoding.other_process_id(H264Yuv444), None);
    assert_eq!(decoding.codecs(), Av1.bit());
    assert_eq!(sources[1].show(&mut decoding, true), Decoded::Failed);
    try_other(&mut decoding, H264Yuv444);
    wait_for(&mut decoding, Av1.bit() | H264Yuv444.bit());
    assert_eq!(sources[1].show(&mut decoding, true), Decoded::Frame, "and is there again");
}

/// They do not reach the process; but a session that sends them would send them again.
#[test]
fn av1_that_is_none_is_taken_back_too() {
    what_is_none_is_taken_back(Av1);
}

#[test]
fn what_is_no_4_4_4_is_taken_back_too() {
    what_is_none_is_taken_back(H264Yuv444);
}

fn what_is_none_is_taken_back(codec: FrameCodec) {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let program = folder.stand_in_of(OTHER_ELEMENTS);
    let mut source = OtherStream::new(codec, &program);
    let (key, _) = source.next(true);
    let too_long = vec![0; (8 << 20) + 1];
    let other = Size { width: 96, height: 48 };
    // Of H.264, slices are not read here: they may be of any length.
    let cut = if codec == Av1 { key.len() / 2 } else { 20 };
    for (size, unit) in [
        (SMALL, &[][..]),
        (SMALL, &[0x5a; 900]),
        (SMALL, &key[..cut]),
        (SMALL, &too_long),
        (other, &key),
    ] {
        let mut decoding = decoding(DecoderChoice::Auto, &program);
        let mut out = Planes::new();
        try_other(&mut decoding, codec);
        wait_for_other(&mut decoding, codec);
        let process = decoding.other_process_id(codec);
        for left in [codec.bit(), 0] {
            assert_eq!(source.show(&mut decoding, true), Decoded::Frame);
            assert_eq!(decoding.other_process_id(codec), process);
            assert_eq!(decoding.decode((1, codec), size, unit, &mut out), Decoded::Failed);
            assert_eq!(decoding.codecs(), left);
        }
        assert!(out == Planes::new());
    }
}

#[test]
fn what_is_not_decoded_to_the_bit_is_not_announced() {
    let _one = one_at_a_time();
    let folder = Folder::new();
    let black = "printf '\\004stub: a test' >&0; while dd bs=34 count=1 of=/dev/null 2>/dev/null; \
                 do printf '\\001\\000\\000\\000\\000\\000' >&0; done";
    for (name, text) in [("black", black), ("none", "printf '\\005none here' >&0"), ("dies", "")] {
        let program = folder.program(name, text);
        let mut decoding = decoding(DecoderChoice::Auto, &program);
        assert!(decoding.start(1, SMALL));
        try_other(&mut decoding, Av1);
        try_other(&mut decoding, H264Yuv444);
        let until = Instant::now() + LONG;
        while decoding.is_other_tried() {
            assert_eq!(decoding.codecs(), 0, "{name}");
            assert!(Instant::now() < until, "{name}: the trial does not end");
            std::thread::yield_now();
        }
        assert_eq!(decoding.codecs(), 0, "{name}");
        let mut stream = Stream::new(1, SMALL);
        assert_eq!(stream.next(&mut decoding), Decoded::Frame);
    }
}

/// The child processes of a process whose program has this name.
fn children(parent: u32, program: &str) -> Vec<Pid> {
    let of = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, fields) = stat.rsplit_once(')')?;
        let is_child = fields.split_whitespace().nth(1)?.parse::<u32>().ok()? == parent;
        // The kernel keeps 15 bytes of a name.
        (is_child && head.ends_with(&program[..program.len().min(15)]))
            .then(|| Pid::from_raw(pid.parse().ok()?))?
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| of(entry.file_name().to_str()?)).collect()
}

/// The program and a session: what is on the screen, and what `--stats-json` says.
#[test]
fn the_viewer_shows_the_same_and_says_what_decodes() {
    const SCREEN: Size = Size { width: 200, height: 120 };
    const PLACE: Rect = Rect::at(20, 10, 160, 96);
    let _one = one_at_a_time();
    let fake = Fake::start(SCREEN);
    let figures = fake.folder.join("stats.json");
    let mut program = Program::new(VIEWER)
        .args(["--headless", "--timeout", "120", "--decoder", "hardware", "--script", "-"])
        .arg(fake.link().to_string())
        .env("THINC_GPU_CODEC", codec())
        .env("THINC_VIDEO_ELEMENTS", ELEMENTS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut script = program.stdin.take().unwrap();
    let mut answers = BufReader::new(program.stdout.take().unwrap()).lines();
    let mut say = |line: &str| {
        script.write_all(format!("{line}\n").as_bytes()).unwrap();
        answers.next().unwrap().unwrap()
    };
    let statistics = |say: &mut dyn FnMut(&str) -> String| {
        assert_eq!(say(&format!("stats {}", figures.display())), "ok");
        let report: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&figures).unwrap()).unwrap();
        report["video"].clone()
    };
    fake.wait_for("its hello", |message| matches!(message, ViewerMessage::Hello(_)).then_some(()));
    let source = Source { size: SMALL, crop: SMALL.rect() };
    let init =
        VideoCommand::Init { id: 0, codec: Codec::H264, eye: Eye::Left, source, place: PLACE };
    fake.commands(&[Command::Video(init)]);
    let ready = VideoStatus { id: 0, decoder: DecoderState::Ready };
    assert_eq!(fake.video_state(), ready);
    let (mut stream, mut painter) = (Stream::new(0, SMALL), Painter::new());
    let (mut pixels, mut planes) = (fake.screen(), Planes::new());
    let stride = SCREEN.width as usize;
    let clip = Region::from(PLACE);
    // Shows the next frame, and checks three pixels of it.
    let mut show = |keyframe: bool, say: &mut dyn FnMut(&str) -> String| {
        let data = stream.unit(keyframe);
        let frame = FrameData::h264(keyframe, &data);
        let next = VideoCommand::Next { id: 0, time: 0, clip: clip.clone(), frame };
        fake.commands(&[Command::Video(next)]);
        stream.expected.decode(&data, &mut planes).unwrap();
        painter.paint(&planes.as_ref(), &source, PLACE, &clip, &mut pixels, stride);
        assert_eq!(say("barrier"), "ok");
        for (x, y) in [(20, 10), (100, 50), (179, 105)] {
            let color = pixels[y * stride + x] & 0xff_ffff;
            assert_eq!(say(&format!("pixel {x} {y}")), format!("ok {color:06x}"));
        }
    };
    let until = Instant::now() + LONG;
    // A keyframe now and then: more frames may come than wait until the process has started.
    for frame in 0.. {
        show(frame % 50 == 0, &mut say);
        let video = statistics(&mut say);
        if video["decoder"].as_str().is_some_and(|decoder| decoder.starts_with(ELEMENT)) {
            break;
        }
        assert_eq!(video["decoder"], "openh264");
        assert!(Instant::now() < until, "it never takes over: {video}");
    }
    let [process] = children(program.id(), "thinc-gpu-codec")[..] else {
        panic!("one process: {:?}", children(program.id(), "thinc-gpu-codec"))
    };
    kill_process(process, Signal::KILL).unwrap();
    let lost = send_a_frame_that_is_lost(&fake, &clip);
    assert_eq!(lost.decoder, DecoderState::NeedsKeyframe);
    show(true, &mut say);
    show(false, &mut say);
    let video = statistics(&mut say);
    assert_eq!((&video["decoder"], &video["lost"]), (&"openh264".into(), &1.into()));
    assert_eq!(video["dropped"], 1, "the frame that found no process");
    assert_eq!(video["hardware_failure"], serde_json::Value::Null, "it may try once more");
    program.kill().unwrap();
    program.wait().unwrap();
}

/// A frame that refers to another one, which is not shown.
fn send_a_frame_that_is_lost(fake: &Fake, clip: &Region) -> VideoStatus {
    let mut other = Stream::new(0, SMALL);
    other.unit(true);
    let data = other.unit(false);
    let frame = FrameData::h264(false, &data);
    let next = VideoCommand::Next { id: 0, time: 0, clip: clip.clone(), frame };
    fake.commands(&[Command::Video(next)]);
    fake.video_state()
}

/// The session is told that AV1 is decoded, and its keyframe is shown; when the process is gone it
/// is told so too, before it is asked for a keyframe of what is decoded then.
#[test]
fn the_viewer_says_that_it_decodes_av1() {
    const SCREEN: Size = Size { width: 200, height: 120 };
    const PLACE: Rect = Rect::at(20, 10, 64, 48);
    let _one = one_at_a_time();
    let folder = Folder::new();
    let fake = Fake::start(SCREEN);
    let mut program = Program::new(VIEWER)
        .args(["--headless", "--timeout", "120", "--script", "-"])
        .arg(fake.link().to_string())
        .env("THINC_GPU_CODEC", codec())
        .env("THINC_VIDEO_ELEMENTS", OTHER_ELEMENTS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut script = program.stdin.take().unwrap();
    let mut answers = BufReader::new(program.stdout.take().unwrap()).lines();
    let mut say = |line: &str| {
        script.write_all(format!("{line}\n").as_bytes()).unwrap();
        answers.next().unwrap().unwrap()
    };
    fake.wait_for("its hello", |message| matches!(message, ViewerMessage::Hello(_)).then_some(()));
    let source = Source { size: SMALL, crop: SMALL.rect() };
    let init =
        VideoCommand::Init { id: 0, codec: Codec::H264, eye: Eye::Left, source, place: PLACE };
    fake.commands(&[Command::Video(init)]);
    assert_eq!(fake.video_state(), VideoStatus { id: 0, decoder: DecoderState::Ready });
    let clip = Region::from(PLACE);
    let show = |keyframe: Option<FrameCodec>, data: &[u8]| {
        let frame = FrameData::Coded { keyframe, data };
        let next = VideoCommand::Next { id: 0, time: 0, clip: clip.clone(), frame };
        fake.commands(&[Command::Video(next)]);
    };
    let mut stream = Stream::new(0, SMALL);
    // The trial ends at some time, and is told with the next frame.
    let until_announced = |stream: &mut Stream, say: &mut dyn FnMut(&str) -> String| {
        let (mut frames, until) = (0, Instant::now() + LONG);
        loop {
            show((frames == 0).then_some(H264), &stream.unit(frames == 0));
            assert_eq!(say("barrier"), "ok");
            frames += 1;
            let codecs = fake.arrived(|message| match message {
                ViewerMessage::VideoCodecs(codecs) => Some(codecs),
                _ => None,
            });
            if let Some(codecs) = codecs {
                return assert_eq!(codecs, Av1.bit());
            }
            assert!(Instant::now() < until, "nothing is announced");
        }
    };
    until_announced(&mut stream, &mut say);
    let mut av1 = OtherStream::new(Av1, &folder.stand_in_of(OTHER_ELEMENTS));
    let (mut pixels, mut painter) = (fake.screen(), Painter::new());
    let stride = SCREEN.width as usize;
    for frame in 0..4 {
        let (unit, planes) = av1.next(frame == 0);
        show((frame == 0).then_some(Av1), &unit);
        painter.paint(&planes.as_ref(), &source, PLACE, &clip, &mut pixels, stride);
        assert_eq!(say("barrier"), "ok");
        for (x, y) in [(20, 10), (50, 30), (83, 57)] {
            let color = pixels[y * stride + x] & 0xff_ffff;
            assert_eq!(say(&format!("pixel {x} {y}")), format!("ok {color:06x}"), "{frame}");
        }
    }
    let process = children(program.id(), "thinc-gpu-codec");
    kill_process(process[0], Signal::KILL).unwrap();
    show(None, &av1.next(false).0);
    let taken_back = |message: &ViewerMessage| match message {
        ViewerMessage::VideoCodecs(codecs) => Some(*codecs),
        _ => None,
    };
    assert_eq!(fake.wait_for("that it is taken back", taken_back), 0);
    assert_eq!(fake.video_state().decoder, DecoderState::NeedsKeyframe);
    until_announced(&mut stream, &mut say);
    show(Some(Av1), &av1.next(true).0);
    assert_eq!(say("barrier"), "ok");
    program.kill().unwrap();
    program.wait().unwrap();
}

/// It is tried once the person has chosen the high quality, without a video, and told then; and
/// taken back with the choice.
#[test]
fn the_viewer_says_that_it_decodes_4_4_4_while_that_is_chosen() {
    let _one = one_at_a_time();
    let fake = Fake::start(Size { width: 200, height: 120 });
    let mut program = Program::new(VIEWER)
        .args(["--headless", "--timeout", "120", "--script", "-"])
        .arg(fake.link().to_string())
        .env("THINC_GPU_CODEC", codec())
        .env("THINC_VIDEO_ELEMENTS", OTHER_ELEMENTS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut script = program.stdin.take().unwrap();
    let mut answers = BufReader::new(program.stdout.take().unwrap()).lines();
    let mut say = |line: &str| {
        script.write_all(format!("{line}\n").as_bytes()).unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), "ok");
    };
    fake.wait_for("its hello", |message| matches!(message, ViewerMessage::Hello(_)).then_some(()));
    say("barrier");
    let codecs = |message: &ViewerMessage| match message {
        ViewerMessage::VideoCodecs(codecs) => Some(*codecs),
        _ => None,
    };
    for _ in 0..2 {
        assert_eq!(children(program.id(), "thinc-gpu-codec"), [], "nothing runs for others");
        say("quality high");
        assert_eq!(fake.wait_for("that it is decoded", codecs), H264Yuv444.bit());
        let [process] = children(program.id(), "thinc-gpu-codec")[..] else {
            panic!("one process")
        };
        say("quality auto");
        assert_eq!(fake.wait_for("that it is taken back", codecs), 0);
        assert!(test_kill_process(process).is_err(), "its process has ended");
    }
    program.kill().unwrap();
    program.wait().unwrap();
}
