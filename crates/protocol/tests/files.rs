//! Golden bytes of the messages about files, the same in both directions, and bytes that are none.
//! Beside the path; `doc/protocol.md` section 5.4 is the specification. Knows bytes only.

use thinc_protocol::file::{FileAnswer, FileEnd, FileEntry, FileKind, FileMessage, FileOffer};
use thinc_protocol::file::{FilePurpose, PathError};
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::limits::VIEWER_MESSAGE_BYTES_MAX;
use thinc_protocol::print::{PrintSides, PrintTicket};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::ViewerMessage;
use thinc_protocol::wire::WireError;

fn entry(kind: FileKind, size: u64, path: &str) -> FileEntry {
    FileEntry { kind, size, modified_ms: 5, path: path.to_owned() }
}

fn cases() -> Vec<(FileMessage, Vec<u8>)> {
    let answer = |answer| FileMessage::Answer { id: 3, answer };
    let end = |by_receiver, why| FileMessage::End { id: 3, by_receiver, why };
    let hash = Some([7; 32]);
    let data = |hash, bytes: &[u8]| FileMessage::Data {
        id: 3,
        entry: 1,
        offset: 300,
        hash,
        bytes: bytes.to_vec(),
    };
    vec![
        (
            FileMessage::Offer(FileOffer {
                id: 3,
                first: 0,
                count: 300,
                total: 130,
                purpose: FilePurpose::Sent,
                entries: vec![entry(FileKind::Folder, 0, "d"), entry(FileKind::File, 130, "d/f")],
            }),
            vec![
                0x28, 21, 3, 0, 0xac, 2, 0x82, 1, 0, 2, 1, 0, 5, 1, b'd', 0, 0x82, 1, 5, 3, b'd',
                b'/', b'f',
            ],
        ),
        (
            FileMessage::Offer(FileOffer {
                id: 3,
                first: 2,
                count: 3,
                total: 0,
                purpose: FilePurpose::Dropped { x: 300, y: 7 },
                entries: vec![entry(FileKind::File, 0, "f")],
            }),
            vec![0x28, 14, 3, 2, 3, 0, 1, 0xac, 2, 7, 1, 0, 0, 5, 1, b'f'],
        ),
        (
            FileMessage::Offer(FileOffer {
                id: 3,
                first: 0,
                count: 1,
                total: 9,
                purpose: FilePurpose::Printed(Box::new(PrintTicket {
                    title: "R".to_owned(),
                    copies: 300,
                    sides: PrintSides::ShortEdge,
                    colour: true,
                    media: "a4".to_owned(),
                })),
                entries: vec![entry(FileKind::File, 9, "f")],
            }),
            vec![
                0x28, 20, 3, 0, 1, 9, 3, 1, b'R', 0xac, 2, 2, 1, 2, b'a', b'4', 1, 0, 9, 5, 1, b'f',
            ],
        ),
        (answer(FileAnswer::No), vec![0x29, 2, 3, 0]),
        (answer(FileAnswer::Yes { entry: 2, offset: 300 }), vec![0x29, 5, 3, 1, 2, 0xac, 2]),
        (answer(FileAnswer::Asking), vec![0x29, 2, 3, 2]),
        (answer(FileAnswer::Policy), vec![0x29, 2, 3, 3]),
        (answer(FileAnswer::Space { free: 9 }), vec![0x29, 3, 3, 4, 9]),
        (answer(FileAnswer::TooLarge { limit: 9 }), vec![0x29, 3, 3, 5, 9]),
        (answer(FileAnswer::Busy), vec![0x29, 2, 3, 6]),
        (data(None, b"hello"), vec![0x2a, 10, 3, 1, 0xac, 2, 0, b'h', b'e', b'l', b'l', b'o']),
        (data(hash, b"h"), [vec![0x2a, 38, 3, 1, 0xac, 2, 1], vec![7; 32], vec![b'h']].concat()),
        (FileMessage::Taken { id: 3, bytes: 16_384 }, vec![0x2b, 4, 3, 0x80, 0x80, 1]),
        (end(true, FileEnd::Done), vec![0x2c, 3, 3, 1, 0]),
        (end(false, FileEnd::Cancelled), vec![0x2c, 3, 3, 0, 1]),
        (end(false, FileEnd::Changed), vec![0x2c, 3, 3, 0, 2]),
        (end(true, FileEnd::Space), vec![0x2c, 3, 3, 1, 3]),
        (end(true, FileEnd::Failed), vec![0x2c, 3, 3, 1, 4]),
        (end(true, FileEnd::Policy), vec![0x2c, 3, 3, 1, 5]),
        (end(true, FileEnd::Mismatch), vec![0x2c, 3, 3, 1, 6]),
    ]
}

#[test]
fn file_messages_have_these_bytes_in_both_directions() {
    for (message, bytes) in cases() {
        let (up, down) =
            (ViewerMessage::File(message.clone()), SessionMessage::File(message.clone()));
        let (mut written_up, mut written_down) = (Vec::new(), Vec::new());
        up.encode(&mut written_up);
        down.encode(&mut written_down);
        assert_eq!(written_up, bytes, "{message:?}");
        assert_eq!(written_down, bytes, "{message:?}");
        let mut deframer = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
        deframer.push(&bytes);
        let frame = deframer.next().unwrap().unwrap();
        assert_eq!(ViewerMessage::decode(&frame), Ok(up));
        assert_eq!(SessionMessage::decode(&frame), Ok(down));
    }
}

#[test]
fn truncated_file_messages_are_refused() {
    for (message, bytes) in cases() {
        let body = &bytes[2..];
        // Whatever follows the fixed fields of a chunk is its content.
        let most = if bytes[0] == 0x2a { 4 } else { body.len() };
        for length in 0..most {
            let frame = MessageFrame { kind: bytes[0], body: &body[..length] };
            assert!(ViewerMessage::decode(&frame).is_err(), "{length} bytes of {message:?}");
        }
    }
}

#[test]
fn invalid_file_messages_are_refused() {
    let path = |path: &str| {
        let mut body = vec![3, 0, 1, 0, 0, 1, 0, 0, 5, path.len() as u8];
        body.extend(path.bytes());
        (0x28, body)
    };
    for (kind, body) in [
        // No entries; more than the offer has; more than any may have; an unknown purpose or kind.
        (0x28, vec![3, 0, 1, 0, 0, 0]),
        (0x28, vec![3, 1, 1, 0, 0, 1, 0, 0, 5, 1, b'f']),
        (0x28, vec![3, 0, 0x91, 0x4e, 0, 0, 1, 0, 0, 5, 1, b'f']),
        (0x28, vec![3, 0, 1, 0, 2, 1, 0, 0, 5, 1, b'f']),
        (0x28, vec![3, 0, 1, 0, 0, 1, 2, 0, 5, 1, b'f']),
        // Printed: no copies, or too many; other sides and colours; an option as a paper.
        (0x28, vec![3, 0, 1, 9, 3, 1, b'R', 0, 2, 1, 0, 1, 0, 9, 5, 1, b'f']),
        (0x28, vec![3, 0, 1, 9, 3, 1, b'R', 0xe8, 7, 2, 1, 0, 1, 0, 9, 5, 1, b'f']),
        (0x28, vec![3, 0, 1, 9, 3, 1, b'R', 1, 3, 1, 0, 1, 0, 9, 5, 1, b'f']),
        (0x28, vec![3, 0, 1, 9, 3, 1, b'R', 1, 2, 2, 0, 1, 0, 9, 5, 1, b'f']),
        (0x28, vec![3, 0, 1, 9, 3, 1, b'R', 1, 2, 1, 2, b'-', b'o', 1, 0, 9, 5, 1, b'f']),
        // A folder with a size; more bytes than any offer may have.
        (0x28, vec![3, 0, 1, 1, 0, 1, 1, 1, 5, 1, b'f']),
        (0x28, vec![3, 0, 1, 0x81, 0x80, 0x80, 0x80, 0x80, 2, 0, 1, 0, 0, 5, 1, b'f']),
        path(""),
        path("/f"),
        path("../f"),
        path("d/../f"),
        path(".f"),
        path("-f"),
        path("d//f"),
        path("a\nb"),
        path("a\u{202e}b"),
        (0x29, vec![3, 7]),
        (0x29, vec![3, 0, 0]),
        (0x2a, vec![3, 1, 0, 2]),
        (0x2a, [vec![3, 1, 0, 0], vec![0; 16 * 1024 + 1]].concat()),
        (0x2b, vec![3, 1, 1]),
        (0x2c, vec![3, 2, 0]),
        (0x2c, vec![3, 1, 7]),
    ] {
        let frame = MessageFrame { kind, body: &body };
        assert!(ViewerMessage::decode(&frame).is_err(), "{kind:#x} {body:?}");
        assert!(SessionMessage::decode(&frame).is_err(), "{kind:#x} {body:?}");
    }
}

#[test]
fn a_refused_path_says_why() {
    let body = [3, 0, 1, 0, 0, 1, 0, 0, 5, 2, b'.', b'.'];
    let refused = ViewerMessage::decode(&MessageFrame { kind: 0x28, body: &body });
    assert_eq!(refused, Err(WireError::FilePath(PathError::Dots)));
    let words = WireError::FilePath(PathError::Hidden).to_string();
    assert_eq!(words, "a file's path begins with a dot, so that it would be hidden");
}
