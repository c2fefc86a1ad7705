//! Whatever the other side sends, reading it gives a message or an error: never a panic, never memory beyond the limits.

use proptest::prelude::*;
use thinc_protocol::auth::{Auth, AuthOk};
use thinc_protocol::command::CommandReader;
use thinc_protocol::frame::{Deframer, Frame};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::{Rect, Region, Size};

fn read_all(bytes: &[u8], chunk: usize) {
    let mut deframer = Deframer::new(4096);
    for chunk in bytes.chunks(chunk) {
        deframer.push(chunk);
        while let Ok(Some(frame)) = deframer.next() {
            if let Ok(message) = ViewerMessage::decode(&frame) {
                // What was understood can be said again, and is understood the same.
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
        }
        let mut out = Vec::new();
        command.encode(&mut out);
        assert_eq!(CommandReader::new(&out, screen).next(), Some(Ok(command)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn garbage_streams(bytes in proptest::collection::vec(any::<u8>(), 0..400), chunk in 1usize..50) {
        read_all(&bytes, chunk);
    }

    #[test]
    fn garbage_bodies(kind in 0u8..14, body in proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..60)) {
        let frame = Frame { kind, body: &body };
        if let Ok(message) = ViewerMessage::decode(&frame) {
            let mut out = Vec::new();
            message.encode(&mut out);
            read_all(&out, 7);
        }
        let _ = SessionMessage::decode(&frame);
    }

    #[test]
    fn garbage_commands(bytes in proptest::collection::vec(prop_oneof![0u8..4, 0u8..48, any::<u8>()], 0..200)) {
        commands(&bytes);
    }

    #[test]
    fn regions_come_back(rects in proptest::collection::vec((0i32..280, 0i32..180, 1i32..20, 1i32..20), 1..40)) {
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
