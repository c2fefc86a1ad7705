//! Video streams at a viewer: protocol violations, which frames are visible in which order, and the
//! viewer's reports. From a session's commands and a decoder's answers, both made by the test, to
//! pixels and messages. The model is tests/video_model.rs. Knows viewer-core's public interface.

mod videos;

use thinc_protocol::command::Command;
use thinc_protocol::session::{ScreenPart, SessionMessage};
use thinc_protocol::video::{
    Codec, DecoderState, Eye, FrameData, SampleLayout, Source, VideoCommand, VideoStatus,
};
use thinc_protocol::viewer::{Displays, View, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, Planes};
use thinc_viewer_core::{VideoError, VideoEvent, ViewerError, ViewerEvent};

use videos::{SIZE, SOURCE, Shown, grey, next, shade};

const PLACE: Rect = Rect::at(4, 4, 32, 16);
/// 5 s, in microseconds: time-out of a decoder.
const STALL_US: u64 = 5_000_000;

fn status(id: u16, decoder: DecoderState) -> VideoStatus {
    VideoStatus { id, decoder }
}

fn events(shown: &mut Shown) -> Vec<ViewerEvent> {
    std::iter::from_fn(|| shown.viewer.poll_event()).collect()
}

#[test]
fn uncompressed_frames_are_shown_at_once_and_lossless() {
    let mut shown = Shown::with(ViewerCaps::VIDEO);
    shown.begin(3, Codec::None, PLACE);
    assert_eq!(shown.answers(), [status(3, DecoderState::Ready)], "no decoder is needed");
    assert!(!shown.viewer.has_video(), "uncompressed frames need no decoder");
    let clip = Region::from_iter([Rect::at(4, 4, 10, 3), Rect::at(6, 9, 8, 11)]);
    shown.plain(3, clip.clone(), 90);
    for y in 0..SIZE.height as usize {
        for x in 0..SIZE.width as usize {
            let expected = if clip.contains_point(x as i32, y as i32) { shade(90) } else { 0 };
            assert_eq!(shown.at(x, y), expected, "{x}, {y}");
        }
    }
    assert!(shown.viewer.lossy().is_empty());
    assert_eq!(shown.viewer.stats().commands[7].pixels, clip.area());
    assert_eq!((shown.viewer.stats().video.plain, shown.viewer.stats().video.shown), (1, 1));
}

#[test]
fn frames_of_a_scaled_screen_are_lossy() {
    let mut shown = Shown::with(ViewerCaps::VIDEO);
    let (screen, whole) = (Size { width: 96, height: 64 }, Rect::at(0, 0, 96, 64));
    for (part, lossy) in [(whole, true), (Rect::at(5, 6, 48, 32), false)] {
        shown.set_shown(SIZE, ScreenPart { screen, part });
        shown.fill(SIZE.rect(), 0);
        shown.begin(0, Codec::None, PLACE);
        shown.plain(0, PLACE, 100);
        let expected = if lossy { Region::from(PLACE) } else { Region::new() };
        assert_eq!(
            shown.viewer.lossy().region(),
            expected,
            "resampled pixels are not scaled samples"
        );
    }
}

/// Noise as samples, in a video area that reaches beyond the screen, showing a part of the frame.
#[test]
fn a_frame_is_scaled_into_the_video_area_it_arrived_with() {
    let source = Source { size: Size { width: 15, height: 9 }, crop: Rect::at(3, 1, 11, 7) };
    let (place, elsewhere) = (Rect::at(-10, 5, 50, 40), Rect::at(20, -6, 9, 70));
    let mut planes = Planes::new();
    planes.reset(Size { width: 16, height: 10 }, SampleLayout::Yuv420);
    let noise = (0u32..).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8);
    planes.data_mut().iter_mut().zip(noise).for_each(|(sample, noise)| *sample = noise);
    let clip = Region::from_iter([Rect::at(0, 5, 7, 27), Rect::at(9, 5, 31, 27)]);

    let mut expected = vec![0xff00_0000; SIZE.area() as usize];
    Painter::new().paint(
        &planes.as_ref(),
        &source,
        place,
        &clip,
        &mut expected,
        SIZE.width as usize,
    );
    let mut shown = Shown::new();
    shown.begin_coded(0, place);
    shown.video(VideoCommand::SourceSize { id: 0, source }).unwrap();
    shown.coded(0, clip, true, b"all");
    // Later commands do not affect it.
    shown.video(VideoCommand::Move { id: 0, x: elsewhere.x1, y: elsewhere.y1 }).unwrap();
    shown.video(VideoCommand::PlaceSize { id: 0, size: Size { width: 9, height: 70 } }).unwrap();
    shown.video(VideoCommand::SourceSize { id: 0, source: SOURCE }).unwrap();
    let Some(VideoEvent::Frame { serial, keyframe: true, size, data, .. }) =
        shown.viewer.poll_video()
    else {
        panic!()
    };
    assert_eq!(
        (size, &data[..]),
        (planes.size(), &b"all"[..]),
        "compressed frames have even edges"
    );
    shown.viewer.handle_video_frame(serial, &planes.as_ref(), 0);
    assert!(shown.viewer.framebuffer().pixels() == expected);

    shown.plain(0, Rect::at(20, 3, 9, 2), 200);
    assert_eq!(
        (shown.at(20, 3), shown.at(28, 4)),
        (shade(200), shade(200)),
        "the next frame is in the new video area"
    );
}

#[test]
fn protocol_violations_are_reported() {
    let init =
        |id, codec| VideoCommand::Init { id, codec, eye: Eye::Left, source: SOURCE, place: PLACE };
    let picture = grey(SOURCE.size, 50);
    let plain = |layout| FrameData::Plain { layout, data: picture.data() };
    let (end, place) = (VideoCommand::End { id: 1 }, Region::from(PLACE));
    let size = Size { width: 5, height: 5 };
    let not_started = VideoError::NotStarted(1);
    let needed = SampleLayout::Yuv422.bytes(SOURCE.size);
    let cases: Vec<(Vec<VideoCommand<'_>>, VideoError)> = vec![
        (vec![init(1, Codec::None), init(1, Codec::None)], VideoError::AlreadyStarted(1)),
        (vec![init(1, Codec::None), init(1, Codec::H264)], VideoError::AlreadyStarted(1)),
        (vec![end.clone()], not_started),
        (vec![init(1, Codec::H264), end.clone(), end.clone()], not_started),
        (vec![init(2, Codec::None), next(1, PLACE, plain(SampleLayout::Yuv420))], not_started),
        (vec![next(1, PLACE, FrameData::h264(true, b"x"))], not_started),
        (vec![VideoCommand::Move { id: 1, x: 0, y: 0 }], not_started),
        (vec![VideoCommand::SourceSize { id: 1, source: SOURCE }], not_started),
        (vec![VideoCommand::PlaceSize { id: 1, size }], not_started),
        (
            vec![init(1, Codec::None), next(1, Rect::at(3, 4, 4, 4), plain(SampleLayout::Yuv420))],
            VideoError::OutsidePlace(1),
        ),
        (
            vec![init(1, Codec::H264), next(1, Rect::at(4, 19, 4, 2), FrameData::h264(true, b"x"))],
            VideoError::OutsidePlace(1),
        ),
        (
            vec![
                init(1, Codec::None),
                VideoCommand::Move { id: 1, x: 5, y: 4 },
                next(1, place, plain(SampleLayout::Yuv420)),
            ],
            VideoError::OutsidePlace(1),
        ),
        (
            vec![init(1, Codec::None), next(1, PLACE, plain(SampleLayout::Yuv422))],
            VideoError::Length { id: 1, len: picture.data().len(), needed },
        ),
        (
            vec![init(1, Codec::None), next(1, PLACE, FrameData::h264(true, b"x"))],
            VideoError::NotCoded(1),
        ),
    ];
    for (commands, expected) in cases {
        let mut shown = Shown::new();
        let (last, before) = commands.split_last().unwrap();
        before.iter().for_each(|command| shown.video(command.clone()).unwrap());
        shown.messages();
        assert_eq!(shown.video(last.clone()), Err(ViewerError::Video(expected)), "{commands:?}");
        let words = expected.to_string();
        let closed = |message: &ViewerMessage| {
            let ViewerMessage::Close(why) = message else { return false };
            why.contains(&words)
        };
        assert!(shown.messages().iter().any(closed), "{words}");
    }
}

#[test]
fn video_without_the_capability_is_refused() {
    let init =
        |codec| VideoCommand::Init { id: 9, codec, eye: Eye::Left, source: SOURCE, place: PLACE };
    for (caps, codec) in [
        (0, Codec::None),
        (0, Codec::H264),
        (ViewerCaps::VIDEO, Codec::H264),
        (ViewerCaps::H264, Codec::H264),
    ] {
        let refused = Shown::with(caps).video(init(codec));
        assert_eq!(
            refused,
            Err(ViewerError::Video(VideoError::NotSupported(9))),
            "{caps:b} {codec:?}"
        );
    }
}

#[test]
fn a_late_frame_is_painted_only_where_nothing_was_drawn_since() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.coded(0, PLACE, true, b"1");
    assert_eq!(
        shown.viewer.lossy().region(),
        PLACE.into(),
        "the session's screen has changed there"
    );
    let (serial, _) = shown.take();
    let menu = Rect::at(0, 0, 10, 10);
    shown.fill(menu, 0x12_3456);
    // What a COPY takes from the frame's clip is lossy too; what it writes there stays.
    let copied = Rect::at(40, 4, 8, 8);
    shown.command(Command::Copy { region: copied.into(), dx: 20, dy: 0 }).unwrap();
    shown.command(Command::Copy { region: Rect::at(20, 16, 4, 4).into(), dx: 20, dy: 16 }).unwrap();
    shown.now += 7_000;
    shown.decoded(serial, 120);
    for y in 0..SIZE.height as usize {
        for x in 0..SIZE.width as usize {
            let is = |rect: &Rect| rect.contains_point(x as i32, y as i32);
            let expected = match () {
                () if is(&menu) => 0x12_3456,
                () if is(&Rect::at(20, 16, 4, 4)) => 0x12_3456,
                () if is(&PLACE) => shade(120),
                () => 0,
            };
            assert_eq!(shown.at(x, y), expected, "{x}, {y}");
        }
    }
    let mut lossy = Region::from(PLACE);
    lossy.subtract_rect(&menu);
    lossy.subtract_rect(&Rect::at(20, 16, 4, 4));
    lossy.add_rect(copied);
    assert_eq!(shown.viewer.lossy().region(), lossy);
    assert_eq!(shown.viewer.stats().video.delay_us, Some(7_000));
}

#[test]
fn only_the_newest_frame_is_visible_in_any_order_of_decoding() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.begin_coded(1, PLACE);
    shown.coded(0, PLACE, true, b"1");
    shown.coded(1, Rect::at(10, 10, 8, 8), true, b"2");
    shown.coded(0, Rect::at(4, 4, 8, 8), false, b"3");
    let [one, two, three] = [(); 3].map(|()| shown.take());
    assert_eq!((&one.1[..], &two.1[..], &three.1[..]), (&b"1"[..], &b"2"[..], &b"3"[..]));
    shown.decoded(three.0, 30);
    shown.decoded(two.0, 60);
    assert!(shown.viewer.is_video_frame_visible(one.0), "part of it is visible beside the others");
    shown.decoded(one.0, 90);
    assert_eq!(
        [shown.at(4, 4), shown.at(11, 11), shown.at(12, 12), shown.at(30, 18)],
        [30, 30, 60, 90].map(shade)
    );
    shown.coded(0, PLACE, false, b"4");
    let (four, _) = shown.take();
    shown.plain(0, PLACE, 150);
    assert!(!shown.viewer.is_video_frame_visible(four), "it is covered");
    shown.viewer.handle_video_frame_skipped(four);
    assert_eq!(shown.at(4, 4), shade(150));
    shown.decoded(four, 30);
    assert_eq!(shown.at(4, 4), shade(150), "returned twice");
    assert!(shown.viewer.lossy().is_empty());
    let stats = shown.viewer.stats().video;
    assert_eq!((stats.shown, stats.late, stats.dropped), (4, 1, 0));
}

#[test]
fn an_ended_streams_frames_are_shown_until_the_geometry_changes() {
    let mut shown = Shown::new();
    let stream = shown.begin_coded(0, PLACE);
    shown.coded(0, PLACE, true, b"1");
    let (serial, _) = shown.take();
    shown.video(VideoCommand::End { id: 0 }).unwrap();
    assert_eq!(shown.viewer.poll_video(), Some(VideoEvent::Ended { stream }));
    shown.decoded(serial, 70);
    assert_eq!(shown.at(10, 10), shade(70), "the last frame is shown all the same");
    // The number is free: reports on the previous stream do not concern the new one.
    let again = shown.begin_coded(0, PLACE);
    shown.answers();
    shown.viewer.handle_video_refused(stream);
    assert_eq!(shown.answers(), []);
    shown.coded(0, PLACE, true, b"2");
    let (serial, _) = shown.take();
    shown.geometry(SIZE);
    assert_eq!(shown.viewer.poll_video(), Some(VideoEvent::Ended { stream: again }));
    assert_eq!(shown.viewer.poll_video(), None);
    shown.decoded(serial, 200);
    assert_eq!(shown.at(10, 10), shade(70), "it was for the previous geometry");
    assert_eq!(shown.video(VideoCommand::End { id: 0 }), Err(VideoError::NotStarted(0).into()));
    assert_eq!(shown.viewer.video_streams_active(), 0);
}

#[test]
fn a_decoder_that_falls_behind_gets_no_frames_until_a_keyframe() {
    let mut shown = Shown::new();
    shown.begin_coded(5, PLACE);
    assert_eq!(shown.answers(), [status(5, DecoderState::Ready)]);
    for at in 0..8u8 {
        shown.coded(5, PLACE, at == 0, &[at]);
    }
    assert_eq!(shown.viewer.video_frames_waiting(), 4);
    assert_eq!(shown.answers(), [], "a keyframe requested now would have to wait as well");
    for at in 0..4u8 {
        let (serial, data) = shown.take();
        assert_eq!(data, [at]);
        shown.decoded(serial, 50 + at);
    }
    assert_eq!(shown.at(10, 10), shade(53));
    assert_eq!(shown.answers(), [status(5, DecoderState::NeedsKeyframe)]);
    // A frame still in flight refers to one that was dropped.
    shown.coded(5, PLACE, false, b"late");
    assert_eq!(shown.viewer.poll_video(), None);
    assert_eq!(shown.answers(), [], "it was requested already");
    shown.coded(5, PLACE, true, b"key");
    assert_eq!(shown.take().1, b"key");
    let stats = shown.viewer.stats().video;
    assert_eq!(
        (stats.coded, stats.keyframes, stats.dropped, stats.keyframe_requests),
        (10, 2, 5, 1)
    );
}

#[test]
fn frames_that_refer_to_an_undecodable_one_are_dropped() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.answers();
    for (key, data) in [(true, b"1"), (false, b"2"), (false, b"3")] {
        shown.coded(0, PLACE, key, data);
    }
    let [one, two, three] = [(); 3].map(|()| shown.take().0);
    shown.decoded(one, 40);
    shown.viewer.handle_video_frame_failed(two);
    assert_eq!(shown.answers(), [status(0, DecoderState::NeedsKeyframe)]);
    shown.decoded(three, 90);
    assert_eq!(shown.at(10, 10), shade(40), "its decoded pixels would be wrong");
    // If a keyframe waits already, none is requested.
    for (key, data) in [(true, b"4"), (false, b"5"), (true, b"6")] {
        shown.coded(0, PLACE, key, data);
    }
    let [four, _five, six] = [(); 3].map(|()| shown.take().0);
    shown.viewer.handle_video_frame_failed(four);
    assert_eq!((shown.answers(), shown.viewer.video_frames_waiting()), (vec![], 1));
    shown.decoded(six, 110);
    assert_eq!(shown.at(10, 10), shade(110));
    // A frame smaller than announced cannot be shown either.
    shown.coded(0, PLACE, false, b"7");
    let (seven, _) = shown.take();
    let small = grey(Size { width: 14, height: 8 }, 200);
    shown.viewer.handle_video_frame(seven, &small.as_ref(), 0);
    assert_eq!(shown.answers(), [status(0, DecoderState::NeedsKeyframe)]);
    assert_eq!(shown.at(10, 10), shade(110));
}

#[test]
fn three_undecodable_keyframes_end_the_stream() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.answers();
    for expected in
        [DecoderState::NeedsKeyframe, DecoderState::NeedsKeyframe, DecoderState::Refused]
    {
        shown.coded(0, PLACE, true, b"garbage");
        let (serial, _) = shown.take();
        shown.viewer.handle_video_frame_failed(serial);
        assert_eq!(shown.answers(), [status(0, expected)]);
    }
    shown.coded(0, PLACE, true, b"more");
    assert_eq!((shown.viewer.poll_video(), shown.answers()), (None, vec![]));
    shown.plain(0, PLACE, 77);
    assert_eq!(shown.at(10, 10), shade(77), "uncompressed frames need no decoder");
}

#[test]
fn a_stalled_decoder_times_out() {
    let mut shown = Shown::new();
    shown.begin_coded(2, PLACE);
    shown.answers();
    shown.coded(2, PLACE, true, b"1");
    let (serial, _) = shown.take();
    let deadline = shown.viewer.poll_deadline().expect("a waiting frame has a deadline");
    assert_eq!(deadline, shown.now + STALL_US);
    shown.viewer.handle_timeout(deadline - 1);
    assert_eq!(shown.answers(), []);
    shown.viewer.handle_timeout(deadline);
    assert_eq!(shown.answers(), [status(2, DecoderState::Refused)]);
    assert_eq!(shown.viewer.video_frames_waiting(), 0);
    assert_eq!(shown.viewer.poll_deadline(), shown.viewer.liveness_deadline(), "no frame waits");
    shown.decoded(serial, 99);
    assert_eq!(shown.at(10, 10), 0, "its area may have been sent as pixels");
}

#[test]
fn frames_that_refer_to_missing_ones_are_dropped() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.answers();
    for _ in 0..3 {
        shown.coded(0, PLACE, false, b"x");
    }
    assert_eq!(
        (shown.viewer.poll_video(), shown.answers()),
        (None, vec![status(0, DecoderState::NeedsKeyframe)])
    );
    shown.coded(0, PLACE, true, b"y");
    shown.take();
    let source = Source { size: SIZE, crop: SIZE.rect() };
    shown.video(VideoCommand::SourceSize { id: 0, source }).unwrap();
    shown.coded(0, PLACE, false, b"z");
    assert_eq!(
        (shown.viewer.poll_video(), shown.answers()),
        (None, vec![status(0, DecoderState::NeedsKeyframe)])
    );
}

#[test]
fn thousands_of_started_streams_are_not_kept() {
    let mut shown = Shown::new();
    let first = shown.begin_coded(7, PLACE);
    shown.coded(7, PLACE, true, b"taken");
    shown.take();
    shown.video(VideoCommand::End { id: 7 }).unwrap();
    for round in 0..5_000u32 {
        let id = (round % 16) as u16;
        shown.begin(id, Codec::H264, PLACE);
        for at in 0..round % 7 {
            shown.coded(id, PLACE, at == 0, b"a frame");
        }
        shown.video(VideoCommand::End { id }).unwrap();
    }
    assert_eq!(
        shown.viewer.poll_video(),
        Some(VideoEvent::Ended { stream: first }),
        "the shell had started only this one"
    );
    assert_eq!((shown.viewer.poll_video(), shown.answers()), (None, vec![]));
    assert_eq!(shown.viewer.video_frames_waiting(), 1, "the one that is being decoded");
    assert_eq!(shown.viewer.stats().video.streams, 5_001);
}

/// Streams that end while their frames are decoded make room for others, whose frames wait too: the
/// bound is common.
#[test]
fn frames_of_ended_streams_count() {
    let mut shown = Shown::new();
    for round in 0..100u16 {
        let id = round % 16;
        shown.begin_coded(id, PLACE);
        for at in 0..4 {
            shown.coded(id, PLACE, at == 0, b"a frame");
        }
        while shown.viewer.poll_video().is_some() {}
        shown.video(VideoCommand::End { id }).unwrap();
        shown.viewer.poll_video();
    }
    assert_eq!(shown.viewer.video_frames_waiting(), 64);
    // A stream without waiting frames is not asked for a keyframe before there is room.
    shown.begin_coded(0, PLACE);
    shown.answers();
    shown.coded(0, PLACE, true, b"one more");
    assert_eq!((shown.viewer.poll_video(), shown.answers()), (None, vec![]));
    shown.viewer.handle_timeout(shown.now + STALL_US);
    assert_eq!(
        (shown.viewer.video_frames_waiting(), shown.answers()),
        (0, vec![status(0, DecoderState::NeedsKeyframe)])
    );
}

#[test]
fn large_frames_are_bounded_by_their_bytes() {
    let mut shown = Shown::new();
    let long = vec![9; 10 << 20];
    for id in 0..4 {
        shown.begin_coded(id, PLACE);
    }
    (0..4).for_each(|id| shown.coded(id, PLACE, true, &long));
    assert_eq!(shown.viewer.video_frames_waiting(), 3);
    shown.answers();
    let (first, second) = (shown.take().0, shown.take().0);
    shown.decoded(first, 20);
    assert_eq!(shown.answers(), [], "there is no room for another one");
    shown.decoded(second, 20);
    assert_eq!(shown.answers(), [status(3, DecoderState::NeedsKeyframe)]);
}

#[test]
fn a_barrier_waits_for_the_frames_before_it_and_no_others() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    events(&mut shown);
    shown.coded(0, PLACE, true, b"1");
    let barrier = shown.viewer.request_barrier();
    shown.say(&SessionMessage::Barrier(barrier)).unwrap();
    shown.coded(0, PLACE, false, b"2");
    let [one, two] = [(); 2].map(|()| shown.take().0);
    let heard = |shown: &mut Shown| events(shown).contains(&ViewerEvent::Barrier(barrier));
    assert!(!heard(&mut shown));
    shown.decoded(one, 50);
    assert!(heard(&mut shown));
    let barrier = shown.viewer.request_barrier();
    shown.say(&SessionMessage::Barrier(barrier)).unwrap();
    shown.viewer.handle_video_frame_failed(two);
    assert!(
        events(&mut shown).contains(&ViewerEvent::Barrier(barrier)),
        "the failed frame is done"
    );
}

#[test]
fn a_frame_is_presented_when_painted_but_not_within_a_drawing_burst() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.coded(0, PLACE, true, b"1");
    shown.coded(0, PLACE, false, b"2");
    let [one, two] = [(); 2].map(|()| shown.take().0);
    events(&mut shown);
    shown.viewer.handle_presented(shown.now);
    shown.viewer.take_damage();
    shown.messages();
    shown.now += 4_000;
    shown.decoded(one, 50);
    assert_eq!(events(&mut shown), [ViewerEvent::FrameEnd]);
    assert_eq!(shown.viewer.take_damage(), PLACE.into());
    shown.now += 1_000;
    shown.viewer.handle_presented(shown.now);
    let presented = shown.messages().into_iter().find_map(|message| match message {
        ViewerMessage::Ack(ack) => ack.presented,
        _ => None,
    });
    assert_eq!(presented.expect("it was presented").delay_us, 5_000, "from its receipt");

    let half = Command::Sfill { region: Rect::at(0, 0, 2, 2).into(), color: 1 };
    shown.update(std::slice::from_ref(&half), false).unwrap();
    shown.decoded(two, 60);
    assert_eq!(events(&mut shown), [], "half of a burst would be shown with it");
    shown.update(&[half], true).unwrap();
    assert_eq!(events(&mut shown), [ViewerEvent::FrameEnd]);
}

#[test]
fn buffers_are_reused() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.coded(0, PLACE, true, &[1; 5_000]);
    let (serial, data) = shown.take();
    let memory = data.as_ptr();
    shown.viewer.reuse_video_buffer(data);
    shown.decoded(serial, 50);
    shown.coded(0, PLACE, false, &[2; 3_000]);
    let (_, data) = shown.take();
    assert_eq!((data.as_ptr(), &data[..]), (memory, &[2; 3_000][..]));
}

#[test]
fn only_the_newest_view_and_displays_are_sent() {
    let mut shown = Shown::new();
    shown.messages();
    let view = |width| View { size: Size { width, height: 240 }, part: Rect::at(1, 2, 30, 20) };
    (300..320).for_each(|width| shown.viewer.set_view(view(width)));
    let displays = |scale_percent| Displays { scale_percent, displays: Vec::new() };
    (100..150).for_each(|scale| shown.viewer.set_displays(displays(scale)));
    let status = shown.messages();
    assert_eq!(status, [ViewerMessage::Displays(displays(149)), ViewerMessage::View(view(319))]);
    assert_eq!(shown.messages(), []);
    shown.say(&SessionMessage::Displays(vec![Rect::at(0, 0, 9, 9)])).unwrap();
    assert!(events(&mut shown).contains(&ViewerEvent::Displays(vec![Rect::at(0, 0, 9, 9)])));
}
