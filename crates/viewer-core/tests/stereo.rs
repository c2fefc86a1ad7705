//! Stereo: the right eye's streams paint beside the framebuffer and are valid within their newest
//! clip; what is shown of both eyes is composed exactly; a session that misuses it is refused.
//! Knows viewer-core's public interface.

mod videos;

use thinc_protocol::command::Command;
use thinc_protocol::session::SessionCaps;
use thinc_protocol::video::{Codec, DecoderState, Eye, FrameData, Source, VideoCommand};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{StereoMode, VideoError, VideoEvent, ViewerError};

use videos::{SIZE, SOURCE, Shown, next, shade};

/// Of the size of `SOURCE`.
const PLACE: Rect = Rect::at(8, 4, 16, 8);

fn stereo(mode: StereoMode) -> Shown {
    let mut shown = Shown::with_stereo(mode, SessionCaps::STEREO);
    assert_eq!(wishes(&mut shown), [true]);
    shown.viewer.take_damage();
    shown
}

/// Whether the viewer has asked for the right eye since the last call.
fn wishes(shown: &mut Shown) -> Vec<bool> {
    let wish = |message| match message {
        ViewerMessage::Stereo(wanted) => Some(wanted),
        _ => None,
    };
    shown.messages().into_iter().filter_map(wish).collect()
}

fn init(id: u16, codec: Codec, place: Rect) -> VideoCommand<'static> {
    VideoCommand::Init { id, codec, eye: Eye::Right, source: SOURCE, place }
}

/// Starts a coded stream of the right eye; returns its number.
fn begin_coded(shown: &mut Shown, id: u16) -> u64 {
    shown.video(init(id, Codec::H264, PLACE)).unwrap();
    let Some(VideoEvent::Started { stream, .. }) = shown.viewer.poll_video() else {
        panic!("the shell is told of the stream")
    };
    shown.viewer.handle_video_ready(stream);
    stream
}

/// A frame of one colour.
fn pixels(color: u32) -> Vec<u8> {
    color.to_le_bytes().repeat(SOURCE.size.area() as usize)
}

fn show(shown: &mut Shown, id: u16, clip: impl Into<Region>, color: u32) {
    shown.video(next(id, clip, FrameData::Pixels { data: &pixels(color) })).unwrap();
}

/// What the right eye sees at a pixel.
fn right_at(shown: &Shown, x: i32, y: i32) -> u32 {
    let mut pixel = [shown.viewer.framebuffer().row(y as usize)[x as usize]];
    shown.viewer.right_eye().overlay(x, y, &mut pixel);
    pixel[0] & 0x00ff_ffff
}

/// Where it sees this colour.
fn right_region(shown: &Shown, color: u32) -> Region {
    let points = (0..SIZE.height as i32).flat_map(|y| (0..SIZE.width as i32).map(move |x| (x, y)));
    let matching = points.filter(|&(x, y)| right_at(shown, x, y) == color);
    matching.map(|(x, y)| Rect::at(x, y, 1, 1)).collect()
}

#[test]
fn the_right_eye_is_asked_for_where_the_session_takes_it_and_the_user_wants_it() {
    let mut shown = Shown::with_stereo(StereoMode::Anaglyph, 0);
    assert!(!shown.viewer.takes_stereo() && wishes(&mut shown).is_empty());
    let mut shown = Shown::with_stereo(StereoMode::Off, SessionCaps::STEREO);
    assert!(shown.viewer.takes_stereo() && wishes(&mut shown).is_empty());
    shown.viewer.choose_stereo(StereoMode::SideBySide);
    shown.viewer.choose_stereo(StereoMode::Interleaved);
    assert_eq!(wishes(&mut shown), [true], "modes differ only in what is shown");
    shown.viewer.choose_stereo(StereoMode::Off);
    assert_eq!(wishes(&mut shown), [false]);
    assert!(!shown.viewer.has_seen_stereo());
    let mut early = stereo(StereoMode::Quad);
    early.video(init(0, Codec::None, PLACE)).unwrap();
    assert!(early.viewer.has_seen_stereo());
}

#[test]
fn a_frame_of_the_right_eye_touches_neither_the_framebuffer_nor_what_is_lossy() {
    let mut shown = stereo(StereoMode::Anaglyph);
    shown.fill(PLACE, 0x80_4020);
    let before = shown.viewer.framebuffer().pixels().to_vec();
    shown.video(init(0, Codec::None, PLACE)).unwrap();
    assert_eq!(shown.answers(), [videos_ready(0)]);
    shown.viewer.take_damage();
    let clip = Rect::at(10, 5, 6, 3);
    show(&mut shown, 0, clip, 0x11_2233);
    assert_eq!(shown.viewer.framebuffer().pixels(), before);
    assert!(shown.viewer.lossy().is_empty());
    assert_eq!(right_region(&shown, 0x11_2233), clip.into());
    assert_eq!(shown.viewer.take_damage(), clip.into());
    let of = |shown: &Shown, x: usize, y: usize| {
        shown.viewer.picture()[y * SIZE.width as usize + x] & 0xff_ffff
    };
    assert_eq!((of(&shown, 10, 5), of(&shown, 9, 5)), (0x80_2233, 0x80_4020));
    // Nothing that reads the framebuffer finds it.
    shown.command(Command::Copy { region: Rect::at(10, 15, 6, 3).into(), dx: 0, dy: 10 }).unwrap();
    assert_eq!(shown.at(10, 15), 0x80_4020);
    assert!(shown.viewer.lossy().is_empty());
    shown.viewer.take_damage();
    assert_eq!(of(&shown, 10, 15), 0x80_4020);
}

fn videos_ready(id: u16) -> thinc_protocol::video::VideoStatus {
    thinc_protocol::video::VideoStatus { id, decoder: DecoderState::Ready }
}

#[test]
fn only_the_newest_clip_is_valid_and_moves_with_its_stream() {
    let mut shown = stereo(StereoMode::Anaglyph);
    shown.video(init(0, Codec::None, PLACE)).unwrap();
    show(&mut shown, 0, PLACE, 1);
    let clip = Rect::at(8, 4, 5, 8);
    show(&mut shown, 0, clip, 2);
    assert_eq!((right_region(&shown, 1), right_region(&shown, 2)), (Region::new(), clip.into()));
    shown.viewer.take_damage();
    shown.video(VideoCommand::Move { id: 0, x: 10, y: 0 }).unwrap();
    assert_eq!(right_region(&shown, 2), Rect::at(10, 0, 5, 8).into());
    let both: Region = [clip, Rect::at(10, 0, 5, 8)].into_iter().collect();
    assert_eq!(shown.viewer.take_damage(), both);
    // Partly outside, and what was there is not known any more once it is back.
    shown.video(VideoCommand::Move { id: 0, x: -3, y: 0 }).unwrap();
    assert_eq!(right_region(&shown, 2), Rect::at(0, 0, 2, 8).into());
    shown.video(VideoCommand::Move { id: 0, x: 8, y: 4 }).unwrap();
    assert_eq!(right_region(&shown, 2), Rect::at(11, 4, 2, 8).into());
    shown.video(VideoCommand::PlaceSize { id: 0, size: Size { width: 4, height: 3 } }).unwrap();
    assert_eq!(right_region(&shown, 2), Rect::at(11, 4, 1, 3).into());
    // Another frame: its source is scaled now, by the nearest pixel.
    show(&mut shown, 0, Rect::at(8, 4, 4, 3), 3);
    assert_eq!(right_region(&shown, 3), Rect::at(8, 4, 4, 3).into());
    let source = Source { size: Size { width: 4, height: 3 }, crop: Rect::at(0, 0, 4, 3) };
    shown.video(VideoCommand::SourceSize { id: 0, source }).unwrap();
    assert_eq!(right_region(&shown, 3), Rect::at(8, 4, 4, 3).into(), "it changes no pixels");
    shown.viewer.take_damage();
    shown.video(VideoCommand::End { id: 0 }).unwrap();
    assert!(shown.viewer.right_eye().is_empty());
    assert_eq!(shown.viewer.take_damage(), Rect::at(8, 4, 4, 3).into());
}

#[test]
fn the_nearest_pixel_of_the_crop_is_shown() {
    let mut shown = stereo(StereoMode::Anaglyph);
    let source = Source { size: Size { width: 6, height: 4 }, crop: Rect::at(1, 1, 4, 2) };
    let frame: Vec<u8> = (0..24u32).flat_map(|at| (at | 0xff00_0000).to_le_bytes()).collect();
    let of = |shown: &Shown, place: Rect| -> Vec<u32> {
        let row = |y| (place.x1..place.x2).map(move |x| (x, y));
        (place.y1..place.y2).flat_map(row).map(|(x, y)| right_at(shown, x, y)).collect()
    };
    for (id, place, expected) in [
        (0, Rect::at(2, 2, 4, 2), vec![7, 8, 9, 10, 13, 14, 15, 16]),
        (1, Rect::at(10, 2, 2, 1), vec![14, 16]),
        (2, Rect::at(20, 2, 3, 1), vec![13, 15, 16]),
        (3, Rect::at(20, 9, 6, 2), vec![7, 8, 8, 9, 10, 10, 13, 14, 14, 15, 16, 16]),
    ] {
        let (codec, eye) = (Codec::None, Eye::Right);
        shown.video(VideoCommand::Init { id, codec, eye, source, place }).unwrap();
        shown.video(next(id, place, FrameData::Pixels { data: &frame })).unwrap();
        assert_eq!(of(&shown, place), expected, "{place:?}");
    }
}

#[test]
fn a_frame_that_is_decoded_late_is_shown_within_the_newest_clip() {
    let mut shown = stereo(StereoMode::Anaglyph);
    begin_coded(&mut shown, 0);
    shown.coded(0, PLACE, true, b"1");
    shown.coded(0, PLACE, false, b"2");
    let (first, _) = shown.take();
    let (second, _) = shown.take();
    shown.decoded(first, 120);
    assert_eq!(right_region(&shown, shade(120)), PLACE.into());
    assert!(shown.viewer.lossy().is_empty());
    // What is drawn on the screen meanwhile does not cover it; a clip that shrinks does, at once.
    shown.fill(SIZE.rect(), 0x12_3456);
    let upper = Rect::at(8, 4, 16, 4);
    shown.coded(0, upper, false, b"3");
    let (third, _) = shown.take();
    assert_eq!(right_region(&shown, shade(120)), upper.into());
    // The stream moves before the second frame is decoded.
    shown.video(VideoCommand::Move { id: 0, x: 0, y: 0 }).unwrap();
    assert!(shown.viewer.is_video_frame_visible(second));
    shown.decoded(second, 130);
    assert_eq!(right_region(&shown, shade(130)), Rect::at(0, 0, 16, 4).into());
    assert_eq!(right_region(&shown, shade(120)), Region::new());
    // A plain frame replaces what is still to be decoded there.
    shown.video(next(0, Rect::at(0, 0, 16, 8), FrameData::Pixels { data: &pixels(5) })).unwrap();
    assert!(!shown.viewer.is_video_frame_visible(third));
    shown.decoded(third, 140);
    assert_eq!(right_region(&shown, 5), Rect::at(0, 0, 16, 8).into());
    assert_eq!(shown.viewer.framebuffer().row(0)[0] & 0xff_ffff, 0x12_3456);
}

#[test]
fn a_geometry_and_a_user_who_wants_one_picture_drop_the_right_eye() {
    let mut shown = stereo(StereoMode::Interleaved);
    begin_coded(&mut shown, 0);
    shown.coded(0, PLACE, true, b"1");
    let (serial, _) = shown.take();
    shown.decoded(serial, 120);
    shown.viewer.take_damage();
    assert_ne!(shown.viewer.picture(), shown.viewer.framebuffer().pixels());
    shown.viewer.choose_stereo(StereoMode::Off);
    assert_eq!(wishes(&mut shown), [false]);
    assert!(shown.viewer.right_eye().is_empty());
    assert_eq!(shown.viewer.take_damage(), PLACE.into());
    assert_eq!(shown.viewer.picture(), shown.viewer.framebuffer().pixels());
    // The session did not know yet: its frames are decoded, and shown to nobody.
    shown.coded(0, PLACE, false, b"2");
    let (serial, _) = shown.take();
    assert!(!shown.viewer.is_video_frame_visible(serial));
    shown.viewer.handle_video_frame_skipped(serial);
    shown.video(next(0, PLACE, FrameData::Pixels { data: &pixels(5) })).unwrap();
    shown.video(VideoCommand::End { id: 0 }).unwrap();
    shown.video(init(0, Codec::None, PLACE)).unwrap();
    show(&mut shown, 0, PLACE, 6);
    assert!(shown.viewer.right_eye().is_empty() && !shown.viewer.has_damage());
    shown.viewer.choose_stereo(StereoMode::Anaglyph);
    show(&mut shown, 0, PLACE, 7);
    assert_eq!(right_region(&shown, 7), PLACE.into());
    shown.geometry(SIZE);
    assert!(shown.viewer.right_eye().is_empty());
    assert_eq!(shown.video(VideoCommand::End { id: 0 }), Err(VideoError::NotStarted(0).into()));
}

#[test]
fn a_session_that_misuses_the_right_eye_is_refused() {
    let refused = |shown: &mut Shown, command, error: VideoError| {
        assert_eq!(shown.video(command), Err(ViewerError::Video(error)));
    };
    // Nobody has asked.
    for mode in [StereoMode::Off, StereoMode::Anaglyph] {
        let caps = if mode.is_on() { 0 } else { SessionCaps::STEREO };
        let mut shown = Shown::with_stereo(mode, caps);
        refused(&mut shown, init(3, Codec::None, PLACE), VideoError::NotAsked(3));
    }
    let frame = pixels(1);
    let mut shown = stereo(StereoMode::Anaglyph);
    shown.begin(3, Codec::None, PLACE);
    let data = FrameData::Pixels { data: &frame };
    refused(&mut shown, next(3, PLACE, data), VideoError::NotRightEye(3));
    let longer = [&frame[..], &[0]].concat();
    for data in [&frame[4..], &frame[1..], &[], &longer] {
        let mut shown = stereo(StereoMode::Anaglyph);
        shown.video(init(3, Codec::None, PLACE)).unwrap();
        let error = VideoError::Length { id: 3, len: data.len(), needed: 16 * 8 * 4 };
        refused(&mut shown, next(3, PLACE, FrameData::Pixels { data }), error);
    }
    let mut shown = stereo(StereoMode::Anaglyph);
    shown.video(init(3, Codec::None, PLACE)).unwrap();
    let outside = next(3, Rect::at(7, 4, 2, 2), FrameData::Pixels { data: &frame });
    refused(&mut shown, outside, VideoError::OutsidePlace(3));
    let mut shown = stereo(StereoMode::Anaglyph);
    shown.video(init(3, Codec::None, PLACE)).unwrap();
    let coded = next(3, PLACE, FrameData::h264(true, b"1"));
    refused(&mut shown, coded, VideoError::NotCoded(3));
}

#[test]
fn an_update_that_moves_the_right_eyes_pixels_again_and_again_ends_the_connection() {
    let upper = Rect::at(0, 0, SIZE.width as i32, SIZE.height as i32 / 2);
    // Each copies half a screen and is 64 pixels more for a rectangle; 16 screens are allowed.
    let moves = |count: usize| -> Vec<Command<'static>> {
        let to = |at: usize| VideoCommand::Move { id: 0, x: 0, y: [upper.y2, 0][at % 2] };
        (0..count).map(|at| Command::Video(to(at))).collect()
    };
    for (count, expected) in [(29, Ok(())), (30, Err(ViewerError::Work))] {
        let mut shown = stereo(StereoMode::Anaglyph);
        shown.video(init(0, Codec::None, upper)).unwrap();
        show(&mut shown, 0, upper, 7);
        assert_eq!(shown.update(&moves(count), true), expected, "{count}");
        if expected.is_ok() {
            assert_eq!(right_region(&shown, 7), upper.translate(0, upper.y2).into());
        }
    }
    // Many small rectangles cost as much as a screen, and never more.
    let dots: Region = (0..24).map(|at| Rect::at(2 * at, 0, 1, 1)).collect();
    let size = VideoCommand::PlaceSize { id: 0, size: Size { width: SIZE.width, height: 16 } };
    let sizes = |count| vec![Command::Video(size.clone()); count];
    for (commands, expected) in [
        (moves(15), Ok(())),
        (moves(16), Err(ViewerError::Work)),
        (sizes(16), Ok(())),
        (sizes(17), Err(ViewerError::Work)),
    ] {
        let mut shown = stereo(StereoMode::Anaglyph);
        shown.video(init(0, Codec::None, upper)).unwrap();
        show(&mut shown, 0, dots.clone(), 7);
        assert_eq!(shown.update(&commands, true), expected, "{}", commands.len());
    }
    // What shows nothing copies nothing, nor does a stream of both eyes.
    let mut shown = stereo(StereoMode::Anaglyph);
    shown.video(init(0, Codec::None, upper)).unwrap();
    assert_eq!(shown.update(&moves(500), true), Ok(()));
    shown.video(VideoCommand::End { id: 0 }).unwrap();
    shown.begin(0, Codec::None, upper);
    shown.plain(0, upper, 120);
    assert_eq!(shown.update(&moves(500), true), Ok(()));
}

#[test]
fn the_right_eyes_pixels_are_work_of_an_update_once() {
    fn with<'a>(screens: usize, videos: Vec<VideoCommand<'a>>) -> Vec<Command<'a>> {
        let fill = Command::Sfill { region: SIZE.rect().into(), color: 9 };
        let fills = std::iter::repeat_n(fill, screens);
        fills.chain(videos.into_iter().map(Command::Video)).collect()
    }
    let first = Rect::at(PLACE.x1, PLACE.y1, 1, 1);
    let frame = pixels(7);
    let begin = || init(0, Codec::None, PLACE);
    let show = || next(0, first, FrameData::Pixels { data: &frame });
    let mut shown = stereo(StereoMode::Anaglyph);
    assert_eq!(shown.update(&with(15, vec![begin(), show()]), true), Err(ViewerError::Work));
    let mut shown = stereo(StereoMode::Anaglyph);
    assert_eq!(shown.update(&with(14, vec![begin(), show()]), true), Ok(()));
    // Streams that end and start use them again.
    let restart = || [VideoCommand::End { id: 0 }, begin(), show()];
    let restarts = (0..100).flat_map(|_| restart()).collect();
    assert_eq!(shown.update(&with(15, restarts), true), Ok(()));
    assert_eq!(right_region(&shown, 7), first.into());
    // A user who wants one picture is shown no other, and frees them; so does a geometry.
    shown.viewer.choose_stereo(StereoMode::Off);
    assert_eq!(shown.update(&with(15, vec![show()]), true), Ok(()));
    shown.viewer.choose_stereo(StereoMode::Anaglyph);
    assert_eq!(shown.update(&with(15, vec![show()]), true), Err(ViewerError::Work));
    let mut shown = stereo(StereoMode::Anaglyph);
    assert_eq!(shown.update(&with(14, vec![begin(), show()]), true), Ok(()));
    shown.geometry(SIZE);
    assert_eq!(shown.update(&with(15, vec![begin(), show()]), true), Err(ViewerError::Work));
    // Frames that are decoded later write nothing yet, of however many streams.
    let mut shown = stereo(StereoMode::Anaglyph);
    let coded = FrameData::h264(true, b"1");
    let all = (0..16).flat_map(|id| [init(id, Codec::H264, PLACE), next(id, first, coded)]);
    assert_eq!(shown.update(&with(15, all.collect()), true), Ok(()));
}

#[test]
fn while_both_eyes_are_shown_no_frame_is_left_to_the_shell() {
    let mut shown = stereo(StereoMode::Anaglyph);
    shown.viewer.set_video_layers(true);
    let left = Rect::at(0, 0, 16, 8);
    shown.begin(1, Codec::None, left);
    shown.plain(1, left, 120);
    assert_eq!(shown.viewer.video_layers().count(), 1);
    shown.viewer.take_damage();
    assert_eq!(shown.viewer.video_layers().count(), 1, "there is no second picture yet");
    shown.video(init(0, Codec::None, PLACE)).unwrap();
    show(&mut shown, 0, PLACE, 0x0000_00ff);
    shown.viewer.take_damage();
    assert_eq!(shown.viewer.video_layers().count(), 0);
    let at = |x: usize, y: usize| shown.viewer.picture()[y * SIZE.width as usize + x] & 0xff_ffff;
    assert_eq!(at(0, 0), shade(120));
    assert_eq!(at(8, 4), shade(120) & 0xff_0000 | 0x00_00ff);
}
