//! Videos at the headless viewer, from a fake session with a real encoder: what its decoders' thread shows, and what it says of streams
//! that cannot be shown. Over real TLS; which pictures are seen in what order is viewer-core's, and tested there.

mod fake;

use std::process::Command as Program;

use fake::{Fake, LONG};
use thinc_h264::{Decoder, Encoder, EncoderSettings};
use thinc_protocol::command::Command;
use thinc_protocol::video::{Codec, Layout, Picture, Readiness, Source, VideoCommand, VideoState};
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
    let options = HeadlessOptions { timeout: LONG, reconnect, ..HeadlessOptions::default() };
    Headless::open(fake.link(), options).unwrap()
}

/// What a session has of a stream: its encoder, and a decoder that sees what the viewer should.
struct Film {
    source: Source,
    encoder: Encoder,
    decoder: Decoder,
    painter: Painter,
    time: u64,
}

impl Film {
    fn new(source: Source) -> Film {
        let settings = EncoderSettings { size: source.size, bits_per_second: 2_000_000, frames_per_second: 30 };
        let (encoder, decoder) = (Encoder::new(settings).unwrap(), Decoder::new(source.size).unwrap());
        Film { source, encoder, decoder, painter: Painter::new(), time: 0 }
    }

    /// A bar that moves on; its bytes, and whether it is a key.
    fn next(&mut self, key: bool) -> (Vec<u8>, bool) {
        self.time += 1;
        let mut planes = Planes::new();
        planes.reset(self.source.size, Layout::Yuv420);
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
        (data, encoded.key)
    }

    /// The screen with this picture in it.
    fn show(&mut self, data: &[u8], clip: &Region, pixels: &mut [u32]) {
        let mut planes = Planes::new();
        self.decoder.decode(data, &mut planes).unwrap();
        let stride = SCREEN.width as usize;
        self.painter.paint(&planes.as_ref(), &self.source, PLACE, clip, pixels, stride);
        pixels.iter_mut().for_each(|pixel| *pixel &= 0x00ff_ffff);
    }
}

fn init(id: u16, codec: Codec, source: Source) -> Command<'static> {
    Command::Video(VideoCommand::Init { id, codec, source, place: PLACE })
}

fn coded<'a>(id: u16, clip: &Region, (data, key): &'a (Vec<u8>, bool)) -> Command<'a> {
    let picture = Picture::Coded { key: *key, data };
    Command::Video(VideoCommand::Next { id, time: 0, clip: clip.clone(), picture })
}

fn end(id: u16) -> Command<'static> {
    Command::Video(VideoCommand::End { id })
}

fn said(id: u16, readiness: Readiness) -> VideoState {
    VideoState { id, readiness }
}

#[test]
fn pictures_are_decoded_and_seen_under_what_was_drawn_since() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Never);
    let caps = fake.wait_for("its hello", |message| match message {
        ViewerMessage::Hello(hello) => Some(hello.caps),
        _ => None,
    });
    assert_eq!(caps & (ViewerCaps::VIDEO | ViewerCaps::H264), ViewerCaps::VIDEO | ViewerCaps::H264);
    let (clip, mut film) = (Region::from(PLACE), Film::new(source(64, 48)));
    fake.commands(&[init(1, Codec::H264, film.source)]);
    assert_eq!(fake.video_state(), said(1, Readiness::Ready));
    let mut expected = fake.screen();
    for at in 0..12 {
        let picture = film.next(at == 0);
        fake.commands(&[coded(1, &clip, &picture)]);
        film.show(&picture.0, &clip, &mut expected);
        if at % 3 == 2 {
            viewer.barrier().unwrap();
            assert_eq!(viewer.screen().pixels, expected, "after picture {at}");
        }
    }
    // A menu comes right behind a picture that is still to be decoded.
    let (picture, menu) = (film.next(false), Rect::at(60, 40, 50, 70));
    fake.commands(&[coded(1, &clip, &picture), Command::Sfill { region: menu.into(), color: 0x44_5566 }]);
    film.show(&picture.0, &clip, &mut expected);
    for y in menu.y1..menu.y2 {
        expected[y as usize * SCREEN.width as usize..][menu.x1 as usize..menu.x2 as usize].fill(0x44_5566);
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
    assert_eq!(viewer.report().inexact_pixels, clip.area());
}

#[test]
fn another_size_and_another_connection_have_decoders_of_their_own() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Always);
    let clip = Region::from(PLACE);
    for connection in 1..3 {
        let mut film = Film::new(source(64 * connection, 48));
        fake.commands(&[init(0, Codec::H264, film.source)]);
        assert_eq!(fake.video_state(), said(0, Readiness::Ready));
        let mut expected = fake.screen();
        let pictures = [film.next(true), film.next(false)];
        fake.commands(&[coded(0, &clip, &pictures[0]), coded(0, &clip, &pictures[1])]);
        film.show(&pictures[0].0, &clip, &mut expected);
        film.show(&pictures[1].0, &clip, &mut expected);
        viewer.wait_quiet().unwrap();
        assert_eq!(viewer.screen().pixels, expected);
        let mut film = Film::new(source(32, 90));
        let sized = Command::Video(VideoCommand::SourceSize { id: 0, source: film.source });
        let picture = film.next(true);
        fake.commands(&[sized, coded(0, &clip, &picture)]);
        film.show(&picture.0, &clip, &mut expected);
        viewer.wait_quiet().unwrap();
        assert_eq!(viewer.screen().pixels, expected);
        fake.cut();
        viewer.wait_connection(connection + 1).unwrap();
    }
}

#[test]
fn what_cannot_be_decoded_ends_the_stream_and_nothing_else() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Never);
    let clip = Region::from(PLACE);
    fake.commands(&[init(2, Codec::H264, source(64, 48))]);
    assert_eq!(fake.video_state(), said(2, Readiness::Ready));
    let other_size = Film::new(source(128, 96)).next(true).0;
    let cut_short = {
        let whole = Film::new(source(64, 48)).next(true).0;
        whole[..whole.len() / 2].to_vec()
    };
    for (data, expected) in
        [(vec![0x5a; 900], Readiness::Lost), (other_size, Readiness::Lost), (cut_short, Readiness::Refused)]
    {
        fake.commands(&[coded(2, &clip, &(data, true))]);
        assert_eq!(fake.video_state(), said(2, expected));
    }
    // Larger than any decoder here takes.
    fake.commands(&[end(2), init(2, Codec::H264, source(8192, 8192))]);
    assert_eq!(fake.video_state(), said(2, Readiness::Refused));
    let planes = {
        let mut planes = Planes::new();
        planes.reset(Size { width: 8, height: 8 }, Layout::Yuv420);
        planes.data_mut().fill(128);
        planes
    };
    let picture = Picture::Plain { layout: Layout::Yuv420, data: planes.data() };
    let plain = Command::Video(VideoCommand::Next { id: 2, time: 0, clip, picture });
    fake.commands(&[end(2), init(2, Codec::None, source(8, 8)), plain]);
    viewer.wait_quiet().unwrap();
    assert_eq!(viewer.screen().pixel(100, 50), Some(0x82_8282));
    let video = viewer.report().video;
    assert_eq!((video.refused, video.lost, video.plain, video.decoded), (2, 2, 1, 0));
}

/// All in one update: the decoder begins when they are all there.
#[test]
fn a_burst_is_cut_off_and_the_next_key_shown() {
    let fake = Fake::start(SCREEN);
    let mut viewer = open(&fake, Reconnect::Never);
    let (clip, mut film) = (Region::from(PLACE), Film::new(source(64, 48)));
    fake.commands(&[init(0, Codec::H264, film.source)]);
    assert_eq!(fake.video_state(), said(0, Readiness::Ready));
    let pictures: Vec<_> = (0..30).map(|at| film.next(at == 0)).collect();
    fake.commands(&pictures.iter().map(|picture| coded(0, &clip, picture)).collect::<Vec<_>>());
    assert_eq!(fake.video_state(), said(0, Readiness::Lost));
    let key = film.next(true);
    fake.commands(&[coded(0, &clip, &key)]);
    viewer.wait_quiet().unwrap();
    let mut expected = fake.screen();
    film.show(&key.0, &clip, &mut expected);
    assert_eq!(viewer.screen().pixels, expected);
    let video = viewer.report().video;
    assert_eq!((video.coded, video.decoded, video.dropped), (31, 5, 26));
}

#[test]
fn a_thousand_beginnings_make_one_decoder() {
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
    assert_eq!(fake.video_state(), said(9, Readiness::Ready));
    // As many at once as there can be: those that would hold too much are refused.
    let all: Vec<_> = (0..16).filter(|id| *id != 9).map(|id| init(id, Codec::H264, source(1920, 1080))).collect();
    fake.commands(&all);
    let answers: Vec<_> = all.iter().map(|_| fake.video_state().readiness).collect();
    let ready = answers.iter().filter(|answer| **answer == Readiness::Ready).count();
    assert_eq!((ready, answers.len()), (8, 15));
}

/// The program with its script: what it says at the end.
#[test]
fn the_script_waits_for_pictures_and_the_figures_tell_of_them() {
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
    let (clip, mut film) = (Region::from(PLACE), Film::new(source(64, 48)));
    fake.wait_for("its hello", |message| matches!(message, ViewerMessage::Hello(_)).then_some(()));
    fake.commands(&[init(0, Codec::H264, film.source)]);
    assert_eq!(fake.video_state(), said(0, Readiness::Ready));
    let picture = film.next(true);
    fake.commands(&[coded(0, &clip, &picture)]);
    let mut expected = fake.screen();
    film.show(&picture.0, &clip, &mut expected);
    std::io::Write::write_all(&mut program.stdin.take().unwrap(), b"wait-quiet\npixel 100 50\n").unwrap();
    let output = program.wait_with_output().unwrap();
    let color = expected[50 * SCREEN.width as usize + 100];
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("ok\nok {color:06x}\n"));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&figures).unwrap()).unwrap();
    assert_eq!((&report["video"]["shown"], &report["video"]["keys"]), (&1.into(), &1.into()));
    assert_eq!(report["commands"]["video"]["count"], 2);
}
