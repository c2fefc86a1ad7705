//! Samples of a pen have exactly these bytes on the wire, and no others are accepted. Knows the
//! messages; never what a session makes of them.

use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::pen::{PEN_FRACTION, PenSample};
use thinc_protocol::viewer::{Input, InputEvent, ViewerMessage};

const STROKE: PenSample = PenSample {
    x: 100 * PEN_FRACTION + 32,
    y: 200 * PEN_FRACTION,
    pressure: 40_000,
    tilt_x: -30,
    tilt_y: 45,
    buttons: 1,
    eraser: false,
    near: true,
};

#[test]
fn samples_have_these_bytes() {
    let last = 16384 * PEN_FRACTION;
    for (sample, bytes) in [
        (STROKE, vec![4, 13, 13, 0xac, 2, 9, 0xa0, 0x32, 0x80, 0x64, 0xc0, 0xb8, 2, 0xe2, 45]),
        (
            PenSample { buttons: 6, eraser: true, pressure: 0, ..STROKE },
            vec![4, 11, 13, 0xac, 2, 30, 0xa0, 0x32, 0x80, 0x64, 0, 0xe2, 45],
        ),
        (STROKE.leaving(), vec![4, 11, 13, 0xac, 2, 0, 0xa0, 0x32, 0x80, 0x64, 0, 0xe2, 45]),
        (
            PenSample {
                x: last,
                y: 0,
                tilt_x: 90,
                tilt_y: -90,
                near: true,
                ..PenSample::default()
            },
            vec![4, 11, 13, 0xac, 2, 8, 0x80, 0x80, 0x40, 0, 0, 90, 0xa6],
        ),
    ] {
        let message = ViewerMessage::Input(Input { seq: 300, event: InputEvent::Pen(sample) });
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(out, bytes, "{sample:?}");
        let mut deframer = Deframer::new(1024);
        deframer.push(&out);
        let frame = deframer.next().unwrap().expect("one whole frame");
        assert_eq!(ViewerMessage::decode(&frame), Ok(message));
    }
}

#[test]
fn invalid_samples_are_refused() {
    let body = [13, 1, 9, 1, 2, 3, 4, 5];
    let decode = |body: &[u8]| ViewerMessage::decode(&MessageFrame { kind: 4, body });
    assert!(decode(&body).is_ok());
    for length in 0..body.len() {
        assert!(decode(&body[..length]).is_err(), "{length} bytes of {}", body.len());
    }
    for (body, why) in [
        (&[13, 1, 9, 1, 2, 3, 4, 5, 6][..], "a byte too many"),
        (&[13, 1, 1, 1, 2, 3, 4, 5], "a tip that touches from afar"),
        (&[13, 1, 0x29, 1, 2, 3, 4, 5], "an unknown bit"),
        (&[13, 1, 9, 0x81, 0x80, 0x40, 2, 3, 4, 5], "beyond the largest screen"),
        (&[13, 1, 9, 1, 2, 0x80, 0x80, 4, 4, 5], "more pressure than there is"),
        (&[13, 1, 9, 1, 2, 3, 91, 5], "beyond flat"),
        (&[13, 1, 9, 1, 2, 3, 4, 0xa5], "beyond flat"),
    ] {
        assert!(decode(body).is_err(), "{why}: {body:?}");
    }
}
