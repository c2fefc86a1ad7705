//! The bytes of GAMMA, as doc/protocol.md defines them: the specification and the implementation
//! agree on them. Beside golden.rs, which has those of all other messages.

use thinc_protocol::framing::MessageFrame;
use thinc_protocol::gamma::{GammaArea, GammaTable, WHOLE_SCREEN};
use thinc_protocol::session::SessionMessage;

const KIND: u8 = 28;

/// Red as it is, green dark up to 128 and then 100 more, blue all 255 but the last.
fn channels() -> [[u8; 256]; 3] {
    let mut channels = GammaTable::default().channels;
    channels[1] = std::array::from_fn(|value| if value < 128 { 7 } else { 107 });
    channels[2] = [255; 256];
    channels[2][255] = 1;
    channels
}

fn body() -> Vec<u8> {
    // The area: 16384 takes three bytes.
    let mut body = vec![1, 0, 0, 0x80, 0x80, 1, 0x80, 0x80, 1];
    // Red: 255 times one more.
    body.push(0);
    body.extend([0x55; 63]);
    body.push(0x15);
    // Green: the 128th increase, the last of its byte, is 100.
    body.push(7);
    body.extend([0; 31]);
    body.push(0xc0);
    body.extend([0; 32]);
    body.push(100);
    // Blue: the last increase is 2, modulo 256.
    body.push(255);
    body.extend([0; 63]);
    body.push(0x20);
    body
}

#[test]
fn the_message_has_these_bytes() {
    let area = GammaArea { rect: WHOLE_SCREEN, table: GammaTable { channels: channels() } };
    for (areas, head, body) in
        [(Vec::new(), vec![KIND, 1], vec![0]), (vec![area], vec![KIND, 0xcd, 1], body())]
    {
        let message = SessionMessage::Gamma(areas);
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(out, [&head[..], &body].concat());
        assert_eq!(SessionMessage::decode(&MessageFrame { kind: KIND, body: &body }), Ok(message));
    }
}

#[test]
fn a_message_out_of_bounds_is_refused() {
    let whole = body();
    for (body, why) in [
        (&[17][..], "too many tables"),
        (&[1, 0, 0, 0, 5], "a table of nothing"),
        (&[1, 0x80, 0x80, 1, 0, 1, 5], "an area outside of every screen"),
        (&[1, 0, 0, 5, 5, 0, 0x55], "a table cut off"),
        (&whole[..whole.len() - 1], "the last table cut off"),
        (&[&whole[..], &[0]].concat(), "a byte behind the tables"),
    ] {
        assert!(SessionMessage::decode(&MessageFrame { kind: KIND, body }).is_err(), "{why}");
    }
}
