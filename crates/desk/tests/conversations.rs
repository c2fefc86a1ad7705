//! What real programs said, replayed on virtual time: they were recorded with
//! examples/record_conversation.rs, and the server must still play them as it did. Sound is a
//! constant here. Knows the files' format, which is in the example.

mod program;

use std::fs;
use std::path::Path;

use program::Desk;
use pulseaudio::protocol::DESCRIPTOR_SIZE;
use thinc_desk::link::Micros;

/// How many seconds each program wrote. It was a tone of one second; Chromium goes on with silence,
/// for which the constant stands too, until it stops its stream.
const CONVERSATIONS: [(&str, f64); 5] =
    [("paplay", 1.0), ("aplay", 1.0), ("mpv", 1.0), ("chromium", 9.8), ("firefox", 1.0)];

/// The channel of the first sound.
fn first_stream(mut bytes: &[u8]) -> u32 {
    loop {
        let length = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let channel = u32::from_be_bytes(bytes[12..16].try_into().unwrap());
        if channel != u32::MAX {
            return channel;
        }
        bytes = &bytes[8 + length..];
    }
}

fn replay(name: &str) -> (Desk, program::Events) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversations").join(name);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut rest = bytes.as_slice();
    let mut desk = Desk::listening();
    // Programs and streams are numbered together: this one's first stream gets its number again.
    for _ in 1..first_stream(&bytes) {
        let other = desk.server.connect().unwrap();
        desk.server.disconnect(other, desk.now);
    }
    let program = program::Program { id: desk.server.connect().unwrap(), number: 0 };
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let (message, after) = after.split_at(word(4) as usize);
        rest = after;
        let due = Desk::START + Micros::from(word(0));
        desk.run_for(due.saturating_sub(desk.now));
        let length = u32::from_be_bytes(message[..4].try_into().unwrap()) as usize;
        let mut message = message.to_vec();
        // Sound that was left out: 0x10101010 is 0.126 as s32, 0x1010 as s16, and as f32 almost 0.
        message.resize(DESCRIPTOR_SIZE + length, 0x10);
        desk.server.handle_bytes(program.id, &message, desk.now);
        assert_eq!(desk.server.ended(program.id), None, "{name}");
        desk.collect(&program);
    }
    desk.run_for(2_000_000);
    let events = desk.events(&program);
    (desk, events)
}

#[test]
fn recorded_programs_are_heard_as_when_they_were_recorded() {
    for (name, seconds) in CONVERSATIONS {
        let (mut desk, events) = replay(name);
        let frames = desk.frames();
        let loud = frames.iter().filter(|frame| frame.samples.iter().any(|&s| s != 0.0)).count();
        let heard = loud as f64 / 100.0;
        assert!((heard - seconds).abs() < 0.2, "{name}: {heard} s of {seconds}");
        let gaps = frames
            .windows(2)
            .filter(|pair| pair[1].discontinuity || pair[1].time != pair[0].time + 10_000)
            .count();
        assert_eq!(gaps, 0, "{name}");
        assert!(events.started >= 1, "{name} started {} times", events.started);
        assert_eq!(events.overflows, 0, "{name}");
        assert_eq!(desk.server.next_tick(), None, "{name}: it does not sleep");
    }
}
