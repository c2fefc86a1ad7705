//! Videos at the headless viewer, from a fake session with a real encoder: what its decoder thread
//! shows, and what it reports of streams that cannot be shown. Over real TLS; which frames are
//! visible in what order is tested in viewer-core.

mod fake;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command as Program;
use std::time::Instant;

use fake::{Fake, LONG};
use rustix::process::{Pid, Signal, kill_process};
use thinc_h264::{Decoder, Encoder, EncoderSettings};
use thinc_protocol::command::Command;
use thinc_protocol::video::{
    Codec, DecoderState, Eye, FrameData, SampleLayout, Source, VideoCommand, VideoStatus,
};
use thinc_protocol::viewer::{ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, Planes};
use thinc_viewer_native::client::Reconnect;
use thinc_viewer_native::headless::{Headless, HeadlessOptions};

const SCREEN: Size = Size { width: 200, height: 120 };
const PLACE: Rect = Rect::at(20, 10, 160, 96);

fn source(width: u32, height: u32) -> Source {
    let size = Size { width, height };
    Source { size, crop: size.rect() }
}

fn open(fake: &Fake, reconnect: Reconnect) -> Headless {
    let decoder = env!("CARGO_BIN_EXE_thinc-view").into();
    let options =
        HeadlessOptions { timeout: LONG, reconnect, decoder, ..HeadlessOptions::default() };
    Headless::open(fake.link(), options).unwrap()
}

/// A stream at the session: its encoder, and a decoder that shows what the viewer should.
struct TestVideo {
    source: Source,
    encoder: Encoder,
    decoder: Decoder,
    painter: Painter,
    time: u64,
}

impl TestVideo {
    fn new(source: Source) -> TestVideo {
        let settings = EncoderSettings {
            size: source.size,
            bits_per_second: 2_000_000,
            frames_per_second: 30,
        };
        let (encoder, decoder) =
            (Encoder::new(settings).unwrap(), Decoder::new(source.size).unwrap());
        TestVideo { source, encoder, decoder, painter: Painter::new(), time: 0 }
    }

    /// The next frame, a moving bar: its bytes, and whether it is a keyframe.
    fn next(&mut self, key: bool) -> (Vec<u8>, bool) {
        self.time += 1;
        let mut planes = Planes::new();
        planes.reset(self.source.size, SampleLayout::Yuv420);
        let width = self.source.size.width as usize;
        let [luma, blue, red] = planes.planes_mut();
        for (at, sample) in luma.iter_mut().enumerate() {
            let x = (at + 5 * self.time as usize) % width;
            *sample = if x < width / 3 { 200 } else { 40 + (x % 64) as u8 };
        }
        blue.fill(100);
        red.fill(150);
        let mut data = Vec::new();
        let encoded = self.encoder.encode(&planes.as_ref(), key, &mut data).unwrap();
        (data, encoded.keyframe)
    }

    /// Draws this frame into the expected screen.
    fn show(&mut self, data: &[u8], clip: &Region, pixels: &mut [u32]) {
        let mut planes = Planes::new();
        self.decoder.decode(data, &mut planes).unwrap();
        let stride = SCREEN.width as usize;
        self.painter.paint(&planes.as_ref(), &self.source, PLACE, clip, pixels, stride);
        pixels.iter_mut().for_each(|pixel| *pixel &= 0x00ff_ffff);
    }
}

fn init(id: u16, codec: Codec, source: Source) -> Command<'static> {
    Command::Video(VideoCommand::Init { id, codec, eye: Eye::Left, source, place: PLACE })
}

fn coded<'a>(id: u16, clip: &Region, (data, key): &'a (Vec<u8>, bool)) -> Command<'a> {
    let frame = FrameData::h264(*key, data);
    Command::Video(VideoCommand::Next { id, time: 0, clip: clip.clone(), frame })
}

fn end(id: u16) -> Command<'static> {
    Command::Video(VideoCommand::End { id })
}

fn status(id: u16, decoder: DecoderState) -> VideoStatus {
    VideoStatus { id, decoder }
}

#[test]
fn frames_are_decoded_and_shown_under_newer_drawing() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Never);
    let caps = fake.wait_for("its hello", |message| match message {
        ViewerMessage::Hello(hello) => Some(hello.caps),
        _ => None,
    });
    assert_eq!(caps & (ViewerCaps::VIDEO | ViewerCaps::H264), ViewerCaps::VIDEO | ViewerCaps::H264);
    let (clip, mut video) = (Region::from(PLACE), TestVideo::new(source(64, 48)));
    fake.commands(&[init(1, Codec::H264, video.source)]);
    assert_eq!(fake.video_state(), status(1, DecoderState::Ready));
    let mut expected = fake.screen();
    for at in 0..12 {
        let frame = video.next(at == 0);
        fake.commands(&[coded(1, &clip, &frame)]);
        video.show(&frame.0, &clip, &mut expected);
        if at % 3 == 2 {
            viewer.barrier().unwrap();
            assert_eq!(viewer.screen().pixels, expected, "after frame {at}");
        }
    }
    // A menu is drawn directly after a frame that is still to be decoded.
    let (frame, menu) = (video.next(false), Rect::at(60, 40, 50, 70));
    fake.commands(&[
        coded(1, &clip, &frame),
        Command::Sfill { region: menu.into(), color: 0x44_5566 },
    ]);
    video.show(&frame.0, &clip, &mut expected);
    for y in menu.y1..menu.y2 {
        expected[y as usize * SCREEN.width as usize..][menu.x1 as usize..menu.x2 as usize]
            .fill(0x44_5566);
    }
    fake.commands(&[end(1)]);
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixels, expected);
    let video = viewer.report().video;
    assert_eq!((video.streams, video.active, video.coded, video.keys), (1, 0, 13, 1));
    assert_eq!((video.shown, video.late, video.dropped, video.waiting), (13, 0, 0, 0));
    assert_eq!(video.decoded, 13);
    assert!(video.decode_us > 0 && video.delay_us.unwrap() <= video.delay_max_us.unwrap());
    let mut clip = clip;
    clip.subtract_rect(&menu);
    assert_eq!(viewer.report().lossy_pixels, clip.area());
}

#[test]
fn a_new_size_and_a_new_connection_have_their_own_decoders() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Always);
    let clip = Region::from(PLACE);
    for connection in 1..3 {
        let mut video = TestVideo::new(source(64 * connection, 48));
        fake.commands(&[init(0, Codec::H264, video.source)]);
        assert_eq!(fake.video_state(), status(0, DecoderState::Ready));
        let mut expected = fake.screen();
        let frames = [video.next(true), video.next(false)];
        fake.commands(&[coded(0, &clip, &frames[0]), coded(0, &clip, &frames[1])]);
        video.show(&frames[0].0, &clip, &mut expected);
        video.show(&frames[1].0, &clip, &mut expected);
        viewer.wait_quiet().unwrap();
        assert_eq!(viewer.screen().pixels, expected);
        let mut video = TestVideo::new(source(32, 90));
        let sized = Command::Video(VideoCommand::SourceSize { id: 0, source: video.source });
        let frame = video.next(true);
        fake.commands(&[sized, coded(0, &clip, &frame)]);
        video.show(&frame.0, &clip, &mut expected);
        viewer.wait_quiet().unwrap();
        assert_eq!(viewer.screen().pixels, expected);
        fake.cut();
        viewer.wait_connection(connection + 1).unwrap();
    }
}

#[test]
fn an_undecodable_stream_is_refused_and_nothing_else() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Never);
    let clip = Region::from(PLACE);
    fake.commands(&[init(2, Codec::H264, source(64, 48))]);
    assert_eq!(fake.video_state(), status(2, DecoderState::Ready));
    let other_size = TestVideo::new(source(128, 96)).next(true).0;
    let cut_short = {
        let whole = TestVideo::new(source(64, 48)).next(true).0;
        whole[..whole.len() / 2].to_vec()
    };
    for (data, expected) in [
        (vec![0x5a; 900], DecoderState::NeedsKeyframe),
        (other_size, DecoderState::NeedsKeyframe),
        (cut_short, DecoderState::Refused),
    ] {
        fake.commands(&[coded(2, &clip, &(data, true))]);
        assert_eq!(fake.video_state(), status(2, expected));
    }
    // Larger than any decoder here accepts.
    fake.commands(&[end(2), init(2, Codec::H264, source(8192, 8192))]);
    assert_eq!(fake.video_state(), status(2, DecoderState::Refused));
    let planes = {
        let mut planes = Planes::new();
        planes.reset(Size { width: 8, height: 8 }, SampleLayout::Yuv420);
        planes.data_mut().fill(128);
        planes
    };
    let frame = FrameData::Plain { layout: SampleLayout::Yuv420, data: planes.data() };
    let plain = Command::Video(VideoCommand::Next { id: 2, time: 0, clip, frame });
    fake.commands(&[end(2), init(2, Codec::None, source(8, 8)), plain]);
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixel(100, 50), Some(0x82_8282));
    let video = viewer.report().video;
    assert_eq!((video.refused, video.lost, video.plain, video.decoded), (2, 2, 1, 0));
}

/// All in one update: the decoder starts when all have arrived.
#[test]
fn a_burst_of_frames_is_dropped_up_to_the_next_keyframe() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Never);
    let (clip, mut video) = (Region::from(PLACE), TestVideo::new(source(64, 48)));
    fake.commands(&[init(0, Codec::H264, video.source)]);
    assert_eq!(fake.video_state(), status(0, DecoderState::Ready));
    // More would be more than an update may write.
    let frames: Vec<_> = (0..20).map(|at| video.next(at == 0)).collect();
    fake.commands(&frames.iter().map(|frame| coded(0, &clip, frame)).collect::<Vec<_>>());
    assert_eq!(fake.video_state(), status(0, DecoderState::NeedsKeyframe));
    let key = video.next(true);
    fake.commands(&[coded(0, &clip, &key)]);
    viewer.wait_quiet().unwrap();
    let mut expected = fake.screen();
    video.show(&key.0, &clip, &mut expected);
    assert_eq!(viewer.screen().pixels, expected);
    let video = viewer.report().video;
    assert_eq!((video.coded, video.decoded, video.dropped), (21, 5, 16));
}

#[test]
fn a_thousand_started_streams_make_one_decoder() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Never);
    let mut commands = Vec::new();
    for round in 0..1_000 {
        let id = round % 16;
        commands.extend([init(id, Codec::H264, source(1920, 1080)), end(id)]);
    }
    commands.push(init(9, Codec::H264, source(64, 48)));
    fake.commands(&commands);
    viewer.wait_quiet().unwrap();
    assert_eq!(fake.video_state(), status(9, DecoderState::Ready));
    // As many at once as possible: those beyond the bound are refused.
    let all: Vec<_> =
        (0..16).filter(|id| *id != 9).map(|id| init(id, Codec::H264, source(1920, 1080))).collect();
    fake.commands(&all);
    let answers: Vec<_> = all.iter().map(|_| fake.video_state().decoder).collect();
    let ready = answers.iter().filter(|answer| **answer == DecoderState::Ready).count();
    assert_eq!((ready, answers.len()), (8, 15));
}

/// The program with its script: its output at the end.
#[test]
fn the_script_waits_for_frames_and_the_statistics_count_them() {
    let fake = Fake::start(SCREEN);
    let figures = fake.folder.join("stats.json");
    let mut program = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
        .args(["--headless", "--script", "-", "--stats-json"])
        .arg(&figures)
        .arg(fake.link().to_string())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (clip, mut video) = (Region::from(PLACE), TestVideo::new(source(64, 48)));
    fake.wait_for("its hello", |message| matches!(message, ViewerMessage::Hello(_)).then_some(()));
    fake.commands(&[init(0, Codec::H264, video.source)]);
    assert_eq!(fake.video_state(), status(0, DecoderState::Ready));
    let frame = video.next(true);
    fake.commands(&[coded(0, &clip, &frame)]);
    let mut expected = fake.screen();
    video.show(&frame.0, &clip, &mut expected);
    std::io::Write::write_all(&mut program.stdin.take().unwrap(), b"wait-quiet\npixel 100 50\n")
        .unwrap();
    let output = program.wait_with_output().unwrap();
    let color = expected[50 * SCREEN.width as usize + 100];
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("ok\nok {color:06x}\n"));
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&figures).unwrap()).unwrap();
    assert_eq!((&report["video"]["shown"], &report["video"]["keys"]), (&1.into(), &1.into()));
    assert_eq!(report["commands"]["video"]["count"], 2);
}

/// The child processes of a process.
fn children(parent: u32) -> Vec<Pid> {
    let of = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        (fields.split_whitespace().nth(1)?.parse::<u32>().ok()? == parent)
            .then(|| Pid::from_raw(pid.parse().ok()?))?
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| of(entry.file_name().to_str()?)).collect()
}

/// The program, whose decoder process is killed in mid-video: the video goes on with the next
/// keyframe, and the program with its own end takes the other one along.
#[test]
fn a_video_continues_after_its_decoder_process_was_killed() {
    let fake = Fake::start(SCREEN);
    let mut program = Program::new(env!("CARGO_BIN_EXE_thinc-view"))
        .args(["--headless", "--timeout", "120", "--script", "-"])
        .arg(fake.link().to_string())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut script = program.stdin.take().unwrap();
    let mut answers = BufReader::new(program.stdout.take().unwrap()).lines();
    let mut say = |line: &str| {
        script.write_all(format!("{line}\n").as_bytes()).unwrap();
        answers.next().unwrap().unwrap()
    };
    let (clip, mut video) = (Region::from(PLACE), TestVideo::new(source(64, 48)));
    fake.wait_for("its hello", |message| matches!(message, ViewerMessage::Hello(_)).then_some(()));
    assert_eq!(children(program.id()), [], "no video, no decoder");
    fake.commands(&[init(0, Codec::H264, video.source)]);
    assert_eq!(fake.video_state(), status(0, DecoderState::Ready));
    let mut expected = fake.screen();
    let mut decoders = Vec::new();
    for round in 0..2 {
        let frames = [video.next(true), video.next(false)];
        for frame in &frames {
            fake.commands(&[coded(0, &clip, frame)]);
            video.show(&frame.0, &clip, &mut expected);
        }
        assert_eq!(say("wait-quiet"), "ok");
        let color = expected[50 * SCREEN.width as usize + 100];
        assert_eq!(say("pixel 100 50"), format!("ok {color:06x}"), "round {round}");
        let [decoder] = children(program.id())[..] else {
            panic!("one decoder process: {:?}", children(program.id()))
        };
        decoders.push(decoder);
        if round == 0 {
            kill_process(decoder, Signal::KILL).unwrap();
            fake.commands(&[coded(0, &clip, &video.next(false))]);
            assert_eq!(fake.video_state(), status(0, DecoderState::NeedsKeyframe));
        }
    }
    assert_ne!(decoders[0], decoders[1]);
    program.kill().unwrap();
    program.wait().unwrap();
    let until = Instant::now() + LONG;
    let folder = format!("/proc/{}/stat", decoders[1].as_raw_nonzero());
    // A zombie waits for init, which is not ours.
    let runs = || std::fs::read_to_string(&folder).is_ok_and(|stat| !stat.contains(") Z "));
    while runs() {
        assert!(Instant::now() < until, "the decoder process outlives its viewer");
        std::thread::yield_now();
    }
}
