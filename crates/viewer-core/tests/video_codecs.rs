//! Codecs beside H.264: the session is told what the shell decodes, and its keyframes say which
//! codec they and the frames after them are of. Knows viewer-core's public interface.

mod videos;

use thinc_protocol::session::SessionCaps;
use thinc_protocol::video::FrameCodec::{Av1, H264};
use thinc_protocol::video::{DecoderState, FrameCodec, FrameData, VideoStatus};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::Rect;
use thinc_viewer_core::{VideoError, VideoEvent, ViewerError};

use videos::{Shown, next};

const PLACE: Rect = Rect::at(8, 4, 16, 8);

/// What the session was told since the last call.
fn told(shown: &mut Shown) -> Vec<u32> {
    let codecs = |message| match message {
        ViewerMessage::VideoCodecs(codecs) => Some(codecs),
        _ => None,
    };
    shown.messages().into_iter().filter_map(codecs).collect()
}

/// A frame arrives; whether it is a keyframe, and the codec, that the shell is given.
fn take(
    shown: &mut Shown,
    id: u16,
    keyframe: Option<FrameCodec>,
) -> Result<(bool, FrameCodec), ViewerError> {
    shown.video(next(id, PLACE, FrameData::Coded { keyframe, data: b"unit" }))?;
    let Some(VideoEvent::Frame { serial, keyframe, codec, .. }) = shown.viewer.poll_video() else {
        panic!("the shell gets the frame")
    };
    shown.viewer.handle_video_frame_skipped(serial);
    Ok((keyframe, codec))
}

#[test]
fn a_session_that_takes_it_is_told_what_is_decoded_now() {
    let mut shown = Shown::with_codecs(0, SessionCaps::VIDEO_CODECS);
    assert_eq!(told(&mut shown), [], "nothing else is decoded");
    shown.viewer.set_video_codecs(Av1.bit());
    shown.viewer.set_video_codecs(Av1.bit());
    assert_eq!(told(&mut shown), [Av1.bit()]);
    shown.viewer.set_video_codecs(0);
    assert_eq!(told(&mut shown), [0]);
    // What was known before the hello is told after it.
    let mut shown = Shown::with_codecs(Av1.bit(), SessionCaps::VIDEO_CODECS);
    assert_eq!(told(&mut shown), [Av1.bit()]);
    // A session of an earlier version.
    let mut shown = Shown::with_codecs(Av1.bit(), 0);
    shown.viewer.set_video_codecs(0);
    shown.viewer.set_video_codecs(Av1.bit());
    assert_eq!(told(&mut shown), []);
}

#[test]
fn frames_have_the_codec_of_their_keyframe() {
    let mut shown = Shown::with_codecs(Av1.bit(), SessionCaps::VIDEO_CODECS);
    shown.begin_coded(0, PLACE);
    shown.begin_coded(1, PLACE);
    for (id, keyframe, expected) in [
        (0, Some(H264), H264),
        (0, None, H264),
        (0, Some(Av1), Av1),
        (1, Some(H264), H264),
        (0, None, Av1),
        (1, None, H264),
        (0, Some(H264), H264),
        (0, None, H264),
    ] {
        assert_eq!(take(&mut shown, id, keyframe), Ok((keyframe.is_some(), expected)));
    }
    // What was decoded may still come after it was taken back; the shell says that it fails.
    shown.viewer.set_video_codecs(0);
    assert_eq!(take(&mut shown, 0, Some(Av1)), Ok((true, Av1)));
    shown.messages();
    shown.video(next(0, PLACE, FrameData::Coded { keyframe: None, data: b"unit" })).unwrap();
    let Some(VideoEvent::Frame { serial, .. }) = shown.viewer.poll_video() else { panic!() };
    shown.viewer.handle_video_frame_failed(serial);
    let needs = VideoStatus { id: 0, decoder: DecoderState::NeedsKeyframe };
    assert!(shown.messages().contains(&ViewerMessage::Video(needs)));
}

#[test]
fn a_codec_that_was_never_announced_is_an_error() {
    let refused = Err(ViewerError::from(VideoError::NotSupported(3)));
    for caps in [0, SessionCaps::VIDEO_CODECS] {
        let codecs = if caps == 0 { Av1.bit() } else { 0 };
        let mut shown = Shown::with_codecs(codecs, caps);
        shown.begin_coded(3, PLACE);
        assert_eq!(take(&mut shown, 3, Some(Av1)), refused);
    }
}

#[test]
fn keyframes_of_a_codec_that_is_taken_back_refuse_no_stream() {
    let mut shown = Shown::with_codecs(Av1.bit(), SessionCaps::VIDEO_CODECS);
    shown.begin_coded(0, PLACE);
    shown.viewer.set_video_codecs(0);
    let fail = |shown: &mut Shown, codec| {
        let frame = FrameData::Coded { keyframe: Some(codec), data: b"unit" };
        shown.video(next(0, PLACE, frame)).unwrap();
        let Some(VideoEvent::Frame { serial, .. }) = shown.viewer.poll_video() else { panic!() };
        shown.viewer.handle_video_frame_failed(serial);
        let state = |message| match message {
            ViewerMessage::Video(status) => Some(status.decoder),
            _ => None,
        };
        shown.messages().into_iter().find_map(state)
    };
    for _ in 0..4 {
        assert_eq!(fail(&mut shown, Av1), Some(DecoderState::NeedsKeyframe));
    }
    assert_eq!(fail(&mut shown, H264), Some(DecoderState::NeedsKeyframe));
    assert_eq!(fail(&mut shown, H264), Some(DecoderState::NeedsKeyframe));
    assert_eq!(fail(&mut shown, H264), Some(DecoderState::Refused), "three that it decodes");
}
