//! Reading arbitrary bytes yields a message or an error: never a panic, and never an allocation
//! beyond the limits.

use proptest::prelude::*;
use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::command::CommandReader;
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::VideoCommand;
use thinc_protocol::viewer::{KeyboardLayout, ViewerMessage};
use thinc_region::{Rect, Region, Size};

fn read_all(bytes: &[u8], chunk: usize) {
    let mut deframer = Deframer::new(4096);
    for chunk in bytes.chunks(chunk) {
        deframer.push(chunk);
        while let Ok(Some(frame)) = deframer.next() {
            if let Ok(message) = ViewerMessage::decode(&frame) {
                // A decoded message encodes to bytes that decode to the same message.
                let mut out = Vec::new();
                message.encode(&mut out);
                let mut again = Deframer::new(8192);
                again.push(&out);
                assert_eq!(ViewerMessage::decode(&again.next().unwrap().unwrap()), Ok(message));
            }
            if let Ok(message) = SessionMessage::decode(&frame) {
                let mut out = Vec::new();
                message.encode(&mut out);
                let mut again = Deframer::new(8192);
                again.push(&out);
                assert_eq!(SessionMessage::decode(&again.next().unwrap().unwrap()), Ok(message));
            }
            let _ = (Auth::decode(&frame), AuthOk::decode(&frame));
        }
        assert!(deframer.buffered_len() <= 4096 + 16 + chunk.len());
    }
}

#[test]
fn a_layout_that_brings_more_than_a_layout_is_unknown() {
    let read = |layout: &KeyboardLayout| {
        let mut out = Vec::new();
        ViewerMessage::KeyboardLayout(layout.clone()).encode(&mut out);
        let mut frames = Deframer::new(4096);
        frames.push(&out);
        match ViewerMessage::decode(&frames.next().unwrap().unwrap()) {
            Ok(ViewerMessage::KeyboardLayout(layout)) => layout,
            other => panic!("{other:?}"),
        }
    };
    let named = |layout: &str, variant: &str| KeyboardLayout {
        model: "pc105".into(),
        layout: layout.into(),
        variant: variant.into(),
        options: "compose:caps,lv3:ralt_switch".into(),
    };
    for layout in [named("de,us", "neo,"), named("jp", "OADG109A"), named("us", "dvorak-intl")] {
        assert_eq!(read(&layout), layout);
    }
    for (layout, variant) in [
        ("us+terminate(ctrl_alt_bksp)", ""),
        ("terminate(ctrl_alt_bksp)", ""),
        ("us,terminate", ""),
        ("srvr_ctrl", ""),
        ("us:2", ""),
        ("us", "basic)+terminate(ctrl_alt_bksp"),
    ] {
        assert_eq!(read(&named(layout, variant)), named("", ""), "{layout} {variant}");
    }
    let expression = "pc105+terminate(ctrl_alt_bksp)";
    let model = KeyboardLayout { model: expression.into(), ..named("de", "") };
    assert_eq!(read(&model), KeyboardLayout { model: String::new(), ..named("de", "") });
    let options = KeyboardLayout { options: expression.into(), ..named("de", "") };
    assert_eq!(read(&options), KeyboardLayout { options: String::new(), ..named("de", "") });
}

fn commands(bytes: &[u8]) {
    let screen = Size { width: 300, height: 200 };
    let inside = |region: &Region| assert!(screen.rect().contains(&region.extents()));
    for command in CommandReader::new(bytes, screen) {
        use thinc_protocol::command::Command;
        let Ok(command) = command else { return };
        match &command {
            Command::Copy { region, dx, dy } => {
                region.check_invariants();
                inside(region);
                inside(&region.translated(-dx, -dy));
            }
            Command::Sfill { region, .. } => {
                region.check_invariants();
                inside(region);
            }
            Command::Pfill { rect, .. }
            | Command::Bitmap { rect, .. }
            | Command::Raw { rect, .. }
            | Command::Keep { rect, .. }
            | Command::Recall { rect, .. } => {
                assert!(!rect.is_empty() && screen.rect().contains(rect));
            }
            Command::Video(VideoCommand::Next { clip, .. }) => {
                clip.check_invariants();
                inside(clip);
            }
            Command::Video(VideoCommand::Init { source, place, .. }) => {
                assert!(
                    !place.is_empty()
                        && source.size.rect().contains(&source.crop)
                        && !source.crop.is_empty()
                );
            }
            Command::Video(_) => {}
        }
        let mut out = Vec::new();
        command.encode(&mut out);
        assert_eq!(CommandReader::new(&out, screen).next(), Some(Ok(command)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn garbage_streams_are_read_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        chunk in 1usize..50,
    ) {
        read_all(&bytes, chunk);
    }

    #[test]
    fn garbage_bodies_are_read_without_panic(
        kind in 0u8..14,
        body in proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..60),
    ) {
        let frame = MessageFrame { kind, body: &body };
        if let Ok(message) = ViewerMessage::decode(&frame) {
            let mut out = Vec::new();
            message.encode(&mut out);
            read_all(&out, 7);
        }
        let _ = SessionMessage::decode(&frame);
    }

    #[test]
    fn garbage_commands_are_read_without_panic(
        bytes in proptest::collection::vec(prop_oneof![0u8..4, 0u8..48, any::<u8>()], 0..200),
    ) {
        commands(&bytes);
    }

    #[test]
    fn regions_round_trip(
        rects in proptest::collection::vec((0i32..280, 0i32..180, 1i32..20, 1i32..20), 1..40),
    ) {
        use thinc_protocol::command::Command;
        let region: Region = rects.into_iter().map(|(x, y, w, h)| Rect::at(x, y, w, h)).collect();
        let command = Command::Sfill { region, color: 0x00ab_cdef };
        let mut out = Vec::new();
        command.encode(&mut out);
        commands(&out);
        for cut in 0..out.len() {
            let first = CommandReader::new(&out[..cut], Size { width: 300, height: 200 }).next();
            prop_assert!(first.is_none_or(|command| command.is_err()), "cut to {cut}");
        }
    }
}

#[test]
fn too_many_retained_tiles_are_refused_before_memory_is_allocated() {
    let size = thinc_region::Size { width: 16_384, height: 4_096 };
    let body = |edge_log: u8, tail: usize| {
        let mut body = Vec::new();
        for edge in [size.width, size.height, 0, 0, size.width, size.height] {
            thinc_protocol::wire::put_varint(&mut body, u64::from(edge));
        }
        body.push(edge_log);
        body.resize(body.len() + 32 + tail, 1);
        body
    };
    let read = |edge_log, tail| {
        ViewerMessage::decode(&MessageFrame { kind: 0x16, body: &body(edge_log, tail) })
    };
    assert!(read(7, 4096 * 8).is_ok());
    assert!(read(7, 4096 * 8 - 1).is_err() && read(7, 4096 * 8 + 1).is_err(), "one hash per tile");
    assert!([0, 2, 6, 11, 255].into_iter().all(|edge_log| read(edge_log, 16384 * 8).is_err()));
}
