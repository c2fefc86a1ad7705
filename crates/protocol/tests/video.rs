//! Beside golden.rs: the bytes of a video stream's commands, checked in both directions, and what a
//! viewer says of both eyes. A change here is a change of the protocol.

use thinc_protocol::command::{Command, CommandReader};
use thinc_protocol::framing::MessageFrame;
use thinc_protocol::video::{
    Codec, Eye, FrameCodec, FrameData, SampleLayout, Source, VideoCommand, pixel_bytes,
};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};

const SCREEN: Size = Size { width: 1024, height: 768 };

#[test]
fn video_commands_have_these_bytes() {
    let clip: Region = [Rect::at(10, 20, 30, 4), Rect::at(0, 30, 100, 1)].into_iter().collect();
    let source = Source { size: Size { width: 352, height: 240 }, crop: Rect::at(0, 2, 352, 236) };
    let cases: Vec<(VideoCommand<'_>, Vec<u8>)> = vec![
        (
            VideoCommand::Init {
                id: 3,
                codec: Codec::H264,
                eye: Eye::Left,
                source,
                place: Rect::at(-5, 7, 1024, 768),
            },
            vec![0x07, 3, 1, 0xe0, 2, 0xf0, 1, 0, 2, 0xe0, 2, 0xec, 1, 9, 14, 0x80, 8, 0x80, 6],
        ),
        (
            VideoCommand::Init {
                id: 4,
                codec: Codec::None,
                eye: Eye::Right,
                source,
                place: Rect::at(-5, 7, 352, 236),
            },
            vec![0x87, 4, 0, 0xe0, 2, 0xf0, 1, 0, 2, 0xe0, 2, 0xec, 1, 9, 14, 0xe0, 2, 0xec, 1],
        ),
        (
            VideoCommand::Next {
                id: 3,
                time: 300,
                clip: clip.clone(),
                frame: FrameData::Plain { layout: SampleLayout::Yuv422, data: &[1, 2] },
            },
            vec![0x17, 3, 0xac, 2, 2, 20, 40, 30, 4, 19, 20, 100, 1, 1, 2, 1, 2],
        ),
        (
            VideoCommand::Next {
                id: 4,
                time: 300,
                clip: clip.clone(),
                frame: FrameData::Pixels { data: &[30, 20, 10, 0] },
            },
            vec![0x17, 4, 0xac, 2, 2, 20, 40, 30, 4, 19, 20, 100, 1, 2, 4, 30, 20, 10, 0],
        ),
        (
            VideoCommand::Next {
                id: 3,
                time: 0,
                clip: clip.clone(),
                frame: FrameData::h264(false, &[9]),
            },
            vec![0x27, 3, 0, 2, 20, 40, 30, 4, 19, 20, 100, 1, 1, 9],
        ),
        (
            VideoCommand::Next {
                id: 3,
                time: 0,
                clip: clip.clone(),
                frame: FrameData::h264(true, &[]),
            },
            vec![0x77, 3, 0, 2, 20, 40, 30, 4, 19, 20, 100, 1, 0],
        ),
        (
            VideoCommand::Next {
                id: 3,
                time: 0,
                clip,
                frame: FrameData::Coded { keyframe: Some(FrameCodec::Av1), data: &[9] },
            },
            vec![0x97, 3, 0, 2, 20, 40, 30, 4, 19, 20, 100, 1, 2, 1, 9],
        ),
        (
            VideoCommand::Next {
                id: 3,
                time: 0,
                clip: Region::from(Rect::at(0, 0, 2, 2)),
                frame: FrameData::Coded { keyframe: Some(FrameCodec::H264Yuv444), data: &[9] },
            },
            vec![0x97, 3, 0, 1, 0, 0, 2, 2, 3, 1, 9],
        ),
        (VideoCommand::Move { id: 3, x: -1, y: 64 }, vec![0x37, 3, 1, 0x80, 1]),
        (
            VideoCommand::SourceSize { id: 3, source },
            vec![0x47, 3, 0xe0, 2, 0xf0, 1, 0, 2, 0xe0, 2, 0xec, 1],
        ),
        (
            VideoCommand::PlaceSize { id: 3, size: Size { width: 640, height: 480 } },
            vec![0x57, 3, 0x80, 5, 0xe0, 3],
        ),
        (VideoCommand::End { id: 15 }, vec![0x67, 15]),
    ];
    for (video, golden) in cases {
        let command = Command::Video(video);
        let mut out = Vec::new();
        command.encode(&mut out);
        assert_eq!(out, golden, "{command:?}");
        let read: Result<Vec<_>, _> = CommandReader::new(&golden, SCREEN).collect();
        assert_eq!(read, Ok(vec![command]));
        for cut in 1..golden.len() {
            let read: Vec<_> = CommandReader::new(&golden[..cut], SCREEN).collect();
            assert!(matches!(read.as_slice(), [Err(_)]), "cut to {cut}: {read:?}");
        }
    }
    let size = Size { width: 353, height: 241 };
    assert_eq!(SampleLayout::Yuv420.bytes(size), 353 * 241 + 2 * 177 * 121);
    assert_eq!(SampleLayout::Yuv422.bytes(size), 353 * 241 + 2 * 177 * 241);
    assert_eq!(SampleLayout::Yuv444.bytes(size), 3 * 353 * 241);
    assert_eq!(pixel_bytes(size), 4 * 353 * 241);
}

#[test]
fn stereo_is_wanted_or_not() {
    for body in [&[][..], &[2], &[0xff], &[1, 0]] {
        assert!(ViewerMessage::decode(&MessageFrame { kind: 0x1e, body }).is_err(), "{body:?}");
    }
}

#[test]
fn keyframes_of_another_codec_say_which() {
    // H.264 has an operation of its own; no other operation has bit 7 of the head.
    for (head, codec) in [(0x97, 0), (0x97, 1), (0x97, 4), (0xa7, 2), (0xf7, 2)] {
        let bytes = [head, 3, 0, 1, 20, 40, 30, 4, codec, 1, 9];
        let read: Vec<_> = CommandReader::new(&bytes, SCREEN).collect();
        assert!(matches!(read.as_slice(), [Err(_)]), "{head:#x} {codec}: {read:?}");
    }
    assert_eq!((FrameCodec::Av1.bit(), FrameCodec::H264Yuv444.bit()), (4, 8));
}
