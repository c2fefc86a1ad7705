//! Streams of video at a viewer: what is wrong, which pictures are seen in which order they come, and what is said when they cannot be.
//! From a session's commands and a decoder's answers, both made by hand, to pixels and messages. The model is tests/video_model.rs.
//! Knows viewer-core's public face.

mod videos;

use thinc_protocol::command::Command;
use thinc_protocol::session::{SessionMessage, Shows};
use thinc_protocol::video::{Codec, Layout, Picture, Readiness, Source, VideoCommand, VideoState};
use thinc_protocol::viewer::{Displays, View, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Painter, Planes};
use thinc_viewer_core::{VideoError, VideoEvent, ViewerError, ViewerEvent};

use videos::{SIZE, SOURCE, Shown, grey, next, shade};

const PLACE: Rect = Rect::at(4, 4, 32, 16);
/// 5 s, in microseconds: how long a decoder may take.
const STALL_US: u64 = 5_000_000;

fn said(id: u16, readiness: Readiness) -> VideoState {
    VideoState { id, readiness }
}

fn events(shown: &mut Shown) -> Vec<ViewerEvent> {
    std::iter::from_fn(|| shown.viewer.poll_event()).collect()
}

#[test]
fn plain_pictures_are_shown_at_once_and_exact() {
    let mut shown = Shown::with(ViewerCaps::VIDEO);
    shown.begin(3, Codec::None, PLACE);
    assert_eq!(shown.answers(), [said(3, Readiness::Ready)], "nobody else has to get ready");
    assert!(!shown.viewer.has_video(), "plain pictures are nothing for a decoder");
    let clip = Region::from_iter([Rect::at(4, 4, 10, 3), Rect::at(6, 9, 8, 11)]);
    shown.plain(3, clip.clone(), 90);
    for y in 0..SIZE.height as usize {
        for x in 0..SIZE.width as usize {
            let expected = if clip.contains_point(x as i32, y as i32) { shade(90) } else { 0 };
            assert_eq!(shown.at(x, y), expected, "{x}, {y}");
        }
    }
    assert!(shown.viewer.inexact().is_empty());
    assert_eq!(shown.viewer.stats().commands[7].pixels, clip.area());
    assert_eq!((shown.viewer.stats().video.plain, shown.viewer.stats().video.shown), (1, 1));
}

#[test]
fn no_picture_is_exact_where_the_screen_is_scaled() {
    let mut shown = Shown::with(ViewerCaps::VIDEO);
    let (screen, whole) = (Size { width: 96, height: 64 }, Rect::at(0, 0, 96, 64));
    for (part, inexact) in [(whole, true), (Rect::at(5, 6, 48, 32), false)] {
        shown.shows(SIZE, Shows { screen, part });
        shown.fill(SIZE.rect(), 0);
        shown.begin(0, Codec::None, PLACE);
        shown.plain(0, PLACE, 100);
        let expected = if inexact { Region::from(PLACE) } else { Region::new() };
        assert_eq!(shown.viewer.inexact().region(), expected, "resampled pixels are not scaled samples");
    }
}

/// Samples that differ everywhere, in a place that reaches out of the screen, of a part of the picture.
#[test]
fn a_picture_is_scaled_into_the_place_it_came_with() {
    let source = Source { size: Size { width: 15, height: 9 }, crop: Rect::at(3, 1, 11, 7) };
    let (place, elsewhere) = (Rect::at(-10, 5, 50, 40), Rect::at(20, -6, 9, 70));
    let mut planes = Planes::new();
    planes.reset(Size { width: 16, height: 10 }, Layout::Yuv420);
    let noise = (0u32..).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8);
    planes.data_mut().iter_mut().zip(noise).for_each(|(sample, noise)| *sample = noise);
    let clip = Region::from_iter([Rect::at(0, 5, 7, 27), Rect::at(9, 5, 31, 27)]);

    let mut expected = vec![0xff00_0000; SIZE.area() as usize];
    Painter::new().paint(&planes.as_ref(), &source, place, &clip, &mut expected, SIZE.width as usize);
    let mut shown = Shown::new();
    shown.begin_coded(0, place);
    shown.video(VideoCommand::SourceSize { id: 0, source }).unwrap();
    shown.coded(0, clip, true, b"all");
    // What comes behind it is none of its business.
    shown.video(VideoCommand::Move { id: 0, x: elsewhere.x1, y: elsewhere.y1 }).unwrap();
    shown.video(VideoCommand::PlaceSize { id: 0, size: Size { width: 9, height: 70 } }).unwrap();
    shown.video(VideoCommand::SourceSize { id: 0, source: SOURCE }).unwrap();
    let Some(VideoEvent::Picture { serial, key: true, size, data, .. }) = shown.viewer.poll_video() else { panic!() };
    assert_eq!((size, &data[..]), (planes.size(), &b"all"[..]), "coded pictures have even edges");
    shown.viewer.handle_video_picture(serial, &planes.as_ref(), 0);
    assert!(shown.viewer.framebuffer().pixels() == expected);

    shown.plain(0, Rect::at(20, 3, 9, 2), 200);
    assert_eq!((shown.at(20, 3), shown.at(28, 4)), (shade(200), shade(200)), "and the next is where the place is then");
}

#[test]
fn whatever_a_session_does_wrong_is_said_in_words() {
    let init = |id, codec| VideoCommand::Init { id, codec, source: SOURCE, place: PLACE };
    let picture = grey(SOURCE.size, 50);
    let plain = |layout| Picture::Plain { layout, data: picture.data() };
    let (end, place) = (VideoCommand::End { id: 1 }, Region::from(PLACE));
    let size = Size { width: 5, height: 5 };
    let not_begun = VideoError::NotBegun(1);
    let needed = Layout::Yuv422.bytes(SOURCE.size);
    let cases: Vec<(Vec<VideoCommand<'_>>, VideoError)> = vec![
        (vec![init(1, Codec::None), init(1, Codec::None)], VideoError::Begun(1)),
        (vec![init(1, Codec::None), init(1, Codec::H264)], VideoError::Begun(1)),
        (vec![end.clone()], not_begun),
        (vec![init(1, Codec::H264), end.clone(), end.clone()], not_begun),
        (vec![init(2, Codec::None), next(1, PLACE, plain(Layout::Yuv420))], not_begun),
        (vec![next(1, PLACE, Picture::Coded { key: true, data: b"x" })], not_begun),
        (vec![VideoCommand::Move { id: 1, x: 0, y: 0 }], not_begun),
        (vec![VideoCommand::SourceSize { id: 1, source: SOURCE }], not_begun),
        (vec![VideoCommand::PlaceSize { id: 1, size }], not_begun),
        (vec![init(1, Codec::None), next(1, Rect::at(3, 4, 4, 4), plain(Layout::Yuv420))], VideoError::OutsidePlace(1)),
        (
            vec![init(1, Codec::H264), next(1, Rect::at(4, 19, 4, 2), Picture::Coded { key: true, data: b"x" })],
            VideoError::OutsidePlace(1),
        ),
        (
            vec![init(1, Codec::None), VideoCommand::Move { id: 1, x: 5, y: 4 }, next(1, place, plain(Layout::Yuv420))],
            VideoError::OutsidePlace(1),
        ),
        (
            vec![init(1, Codec::None), next(1, PLACE, plain(Layout::Yuv422))],
            VideoError::Length { id: 1, len: picture.data().len(), needed },
        ),
        (vec![init(1, Codec::None), next(1, PLACE, Picture::Coded { key: true, data: b"x" })], VideoError::NotCoded(1)),
    ];
    for (commands, expected) in cases {
        let mut shown = Shown::new();
        let (last, before) = commands.split_last().unwrap();
        before.iter().for_each(|command| shown.video(command.clone()).unwrap());
        shown.messages();
        assert_eq!(shown.video(last.clone()), Err(ViewerError::Video(expected)), "{commands:?}");
        let words = expected.to_string();
        let closed = |message: &ViewerMessage| matches!(message, ViewerMessage::Close(why) if why.contains(&words));
        assert!(shown.messages().iter().any(closed), "{words}");
    }
}

#[test]
fn what_the_hello_did_not_promise_is_refused() {
    let init = |codec| VideoCommand::Init { id: 9, codec, source: SOURCE, place: PLACE };
    for (caps, codec) in
        [(0, Codec::None), (0, Codec::H264), (ViewerCaps::VIDEO, Codec::H264), (ViewerCaps::H264, Codec::H264)]
    {
        let refused = Shown::with(caps).video(init(codec));
        assert_eq!(refused, Err(ViewerError::Video(VideoError::NotTaken(9))), "{caps:b} {codec:?}");
    }
}

#[test]
fn a_late_picture_shows_only_what_nothing_was_written_over_since() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.coded(0, PLACE, true, b"1");
    assert_eq!(shown.viewer.inexact().region(), PLACE.into(), "the session shows something else there by now");
    let (serial, _) = shown.take();
    let menu = Rect::at(0, 0, 10, 10);
    shown.fill(menu, 0x12_3456);
    // What a COPY takes from where the picture will be is not exact either; what it brings there stays.
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
    let mut inexact = Region::from(PLACE);
    inexact.subtract_rect(&menu);
    inexact.subtract_rect(&Rect::at(20, 16, 4, 4));
    inexact.add_rect(copied);
    assert_eq!(shown.viewer.inexact().region(), inexact);
    assert_eq!(shown.viewer.stats().video.delay_us, Some(7_000));
}

#[test]
fn of_several_pictures_only_the_newest_is_seen_whatever_order_they_come_in() {
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
    assert!(shown.viewer.is_video_wanted(one.0), "some of it is seen beside the others");
    shown.decoded(one.0, 90);
    assert_eq!([shown.at(4, 4), shown.at(11, 11), shown.at(12, 12), shown.at(30, 18)], [30, 30, 60, 90].map(shade));
    shown.coded(0, PLACE, false, b"4");
    let (four, _) = shown.take();
    shown.plain(0, PLACE, 150);
    assert!(!shown.viewer.is_video_wanted(four), "nobody would see it");
    shown.viewer.handle_video_skipped(four);
    assert_eq!(shown.at(4, 4), shade(150));
    shown.decoded(four, 30);
    assert_eq!(shown.at(4, 4), shade(150), "given back twice");
    assert!(shown.viewer.inexact().is_empty());
    let stats = shown.viewer.stats().video;
    assert_eq!((stats.shown, stats.late, stats.dropped), (4, 1, 0));
}

#[test]
fn the_end_leaves_what_was_sent_and_another_geometry_nothing() {
    let mut shown = Shown::new();
    let stream = shown.begin_coded(0, PLACE);
    shown.coded(0, PLACE, true, b"1");
    let (serial, _) = shown.take();
    shown.video(VideoCommand::End { id: 0 }).unwrap();
    assert_eq!(shown.viewer.poll_video(), Some(VideoEvent::Ended { stream }));
    shown.decoded(serial, 70);
    assert_eq!(shown.at(10, 10), shade(70), "the last picture is seen all the same");
    // The number is free: what is said of the stream before is not said of this one.
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
    assert_eq!(shown.at(10, 10), shade(70), "it was for the screen before");
    assert_eq!(shown.video(VideoCommand::End { id: 0 }), Err(VideoError::NotBegun(0).into()));
    assert_eq!(shown.viewer.videos_active(), 0);
}

#[test]
fn a_decoder_that_is_behind_is_left_behind_until_a_key() {
    let mut shown = Shown::new();
    shown.begin_coded(5, PLACE);
    assert_eq!(shown.answers(), [said(5, Readiness::Ready)]);
    for at in 0..8u8 {
        shown.coded(5, PLACE, at == 0, &[at]);
    }
    assert_eq!(shown.viewer.videos_waiting(), 4);
    assert_eq!(shown.answers(), [], "one that is asked for now would have to wait as well");
    for at in 0..4u8 {
        let (serial, data) = shown.take();
        assert_eq!(data, [at]);
        shown.decoded(serial, 50 + at);
    }
    assert_eq!(shown.at(10, 10), shade(53));
    assert_eq!(shown.answers(), [said(5, Readiness::Lost)]);
    // What was on its way leans on what was dropped.
    shown.coded(5, PLACE, false, b"late");
    assert_eq!(shown.viewer.poll_video(), None);
    assert_eq!(shown.answers(), [], "it was said");
    shown.coded(5, PLACE, true, b"key");
    assert_eq!(shown.take().1, b"key");
    let stats = shown.viewer.stats().video;
    assert_eq!((stats.coded, stats.keys, stats.dropped, stats.lost), (10, 2, 5, 1));
}

#[test]
fn a_picture_that_cannot_be_decoded_takes_along_what_leans_on_it() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.answers();
    for (key, data) in [(true, b"1"), (false, b"2"), (false, b"3")] {
        shown.coded(0, PLACE, key, data);
    }
    let [one, two, three] = [(); 3].map(|()| shown.take().0);
    shown.decoded(one, 40);
    shown.viewer.handle_video_failed(two);
    assert_eq!(shown.answers(), [said(0, Readiness::Lost)]);
    shown.decoded(three, 90);
    assert_eq!(shown.at(10, 10), shade(40), "what a decoder makes of it is not believed");
    // Where a key waits already nothing has to be said.
    for (key, data) in [(true, b"4"), (false, b"5"), (true, b"6")] {
        shown.coded(0, PLACE, key, data);
    }
    let [four, _five, six] = [(); 3].map(|()| shown.take().0);
    shown.viewer.handle_video_failed(four);
    assert_eq!((shown.answers(), shown.viewer.videos_waiting()), (vec![], 1));
    shown.decoded(six, 110);
    assert_eq!(shown.at(10, 10), shade(110));
    // A picture smaller than it was said to be cannot be shown either.
    shown.coded(0, PLACE, false, b"7");
    let (seven, _) = shown.take();
    let small = grey(Size { width: 14, height: 8 }, 200);
    shown.viewer.handle_video_picture(seven, &small.as_ref(), 0);
    assert_eq!(shown.answers(), [said(0, Readiness::Lost)]);
    assert_eq!(shown.at(10, 10), shade(110));
}

#[test]
fn three_keys_that_cannot_be_decoded_are_enough() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.answers();
    for expected in [Readiness::Lost, Readiness::Lost, Readiness::Refused] {
        shown.coded(0, PLACE, true, b"garbage");
        let (serial, _) = shown.take();
        shown.viewer.handle_video_failed(serial);
        assert_eq!(shown.answers(), [said(0, expected)]);
    }
    shown.coded(0, PLACE, true, b"more");
    assert_eq!((shown.viewer.poll_video(), shown.answers()), (None, vec![]));
    shown.plain(0, PLACE, 77);
    assert_eq!(shown.at(10, 10), shade(77), "plain pictures need no decoder");
}

#[test]
fn a_decoder_that_stands_still_is_given_up() {
    let mut shown = Shown::new();
    shown.begin_coded(2, PLACE);
    shown.answers();
    shown.coded(2, PLACE, true, b"1");
    let (serial, _) = shown.take();
    let deadline = shown.viewer.poll_deadline().expect("somebody has to look");
    assert_eq!(deadline, shown.now + STALL_US);
    shown.viewer.handle_timeout(deadline - 1);
    assert_eq!(shown.answers(), []);
    shown.viewer.handle_timeout(deadline);
    assert_eq!(shown.answers(), [said(2, Readiness::Refused)]);
    assert_eq!((shown.viewer.videos_waiting(), shown.viewer.poll_deadline()), (0, None));
    shown.decoded(serial, 99);
    assert_eq!(shown.at(10, 10), 0, "its pixels may have come by now");
}

#[test]
fn pictures_that_lean_on_what_never_came_are_lost() {
    let mut shown = Shown::new();
    shown.begin_coded(0, PLACE);
    shown.answers();
    for _ in 0..3 {
        shown.coded(0, PLACE, false, b"x");
    }
    assert_eq!((shown.viewer.poll_video(), shown.answers()), (None, vec![said(0, Readiness::Lost)]));
    shown.coded(0, PLACE, true, b"y");
    shown.take();
    let source = Source { size: SIZE, crop: SIZE.rect() };
    shown.video(VideoCommand::SourceSize { id: 0, source }).unwrap();
    shown.coded(0, PLACE, false, b"z");
    assert_eq!((shown.viewer.poll_video(), shown.answers()), (None, vec![said(0, Readiness::Lost)]));
}

#[test]
fn thousands_of_beginnings_are_not_kept() {
    let mut shown = Shown::new();
    let first = shown.begin_coded(7, PLACE);
    shown.coded(7, PLACE, true, b"taken");
    shown.take();
    shown.video(VideoCommand::End { id: 7 }).unwrap();
    for round in 0..5_000u32 {
        let id = (round % 16) as u16;
        shown.begin(id, Codec::H264, PLACE);
        for at in 0..round % 7 {
            shown.coded(id, PLACE, at == 0, b"picture");
        }
        shown.video(VideoCommand::End { id }).unwrap();
    }
    assert_eq!(shown.viewer.poll_video(), Some(VideoEvent::Ended { stream: first }), "it alone was begun by the shell");
    assert_eq!((shown.viewer.poll_video(), shown.answers()), (None, vec![]));
    assert_eq!(shown.viewer.videos_waiting(), 1, "the one that is being decoded");
    assert_eq!(shown.viewer.stats().video.streams, 5_001);
}

/// Streams that end while their pictures are decoded make room for others, which wait too: there is a bound for all.
#[test]
fn pictures_of_ended_streams_count() {
    let mut shown = Shown::new();
    for round in 0..100u16 {
        let id = round % 16;
        shown.begin_coded(id, PLACE);
        for at in 0..4 {
            shown.coded(id, PLACE, at == 0, b"picture");
        }
        while shown.viewer.poll_video().is_some() {}
        shown.video(VideoCommand::End { id }).unwrap();
        shown.viewer.poll_video();
    }
    assert_eq!(shown.viewer.videos_waiting(), 64);
    // With nothing of its own that waits a stream is not told to begin again before there is room.
    shown.begin_coded(0, PLACE);
    shown.answers();
    shown.coded(0, PLACE, true, b"one more");
    assert_eq!((shown.viewer.poll_video(), shown.answers()), (None, vec![]));
    shown.viewer.handle_timeout(shown.now + STALL_US);
    assert_eq!((shown.viewer.videos_waiting(), shown.answers()), (0, vec![said(0, Readiness::Lost)]));
}

#[test]
fn long_pictures_are_bounded_by_their_bytes() {
    let mut shown = Shown::new();
    let long = vec![9; 10 << 20];
    for id in 0..4 {
        shown.begin_coded(id, PLACE);
    }
    (0..4).for_each(|id| shown.coded(id, PLACE, true, &long));
    assert_eq!(shown.viewer.videos_waiting(), 3);
    shown.answers();
    let (first, second) = (shown.take().0, shown.take().0);
    shown.decoded(first, 20);
    assert_eq!(shown.answers(), [], "there is no room for another like it");
    shown.decoded(second, 20);
    assert_eq!(shown.answers(), [said(3, Readiness::Lost)]);
}

#[test]
fn a_barrier_waits_for_the_pictures_before_it_and_for_no_others() {
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
    shown.viewer.handle_video_failed(two);
    assert!(events(&mut shown).contains(&ViewerEvent::Barrier(barrier)), "nothing more comes of it");
}

#[test]
fn a_picture_is_presented_when_it_is_painted_but_not_amid_another_frame() {
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
    assert_eq!(presented.expect("it was shown").delay_us, 5_000, "from when it came");

    let half = Command::Sfill { region: Rect::at(0, 0, 2, 2).into(), color: 1 };
    shown.update(std::slice::from_ref(&half), false).unwrap();
    shown.decoded(two, 60);
    assert_eq!(events(&mut shown), [], "half of another frame would be seen with it");
    shown.update(&[half], true).unwrap();
    assert_eq!(events(&mut shown), [ViewerEvent::FrameEnd]);
}

#[test]
fn memory_is_used_again() {
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
fn only_the_newest_view_and_displays_are_said() {
    let mut shown = Shown::new();
    shown.messages();
    let view = |width| View { size: Size { width, height: 240 }, part: Rect::at(1, 2, 30, 20) };
    (300..320).for_each(|width| shown.viewer.set_view(view(width)));
    let displays = |scale_percent| Displays { scale_percent, displays: Vec::new() };
    (100..150).for_each(|scale| shown.viewer.set_displays(displays(scale)));
    let said = shown.messages();
    assert_eq!(said, [ViewerMessage::Displays(displays(149)), ViewerMessage::View(view(319))]);
    assert_eq!(shown.messages(), []);
    shown.say(&SessionMessage::Displays(vec![Rect::at(0, 0, 9, 9)])).unwrap();
    assert!(events(&mut shown).contains(&ViewerEvent::Displays(vec![Rect::at(0, 0, 9, 9)])));
}
