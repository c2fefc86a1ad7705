//! The viewer's microphone in the sound server, on virtual time: who records it, when the session
//! process is asked for it, and what programs get. Beside crates/desk/src/microphone.rs. Knows the
//! public interface, and PulseAudio's protocol as programs speak it.

mod program;

use program::{Desk, Program, S16_STEREO, recording};
use pulseaudio::protocol::stream::StreamFlags;
use pulseaudio::protocol::{
    Command, CorkStreamParams, CreateRecordStreamReply, LatencyParams, RecordLatency, ServerInfo,
    SetDeviceMuteParams, SetStreamMuteParams, SourceInfo,
};

/// 1 ms of `S16_STEREO`.
const MS: usize = 192;
/// Samples of a block that the session process brings.
const BLOCK: usize = 240;

/// Answers the sound server as the session process does, for so many milliseconds; returns the
/// blocks that it was asked for, and how often it was told that nobody records.
fn answer(desk: &mut Desk, ms: u64, sample: f32) -> (usize, usize) {
    let (mut blocks, mut ends) = (0, 0);
    for _ in 0..ms {
        match desk.server.take_microphone_request() {
            Some(0) => ends += 1,
            Some(asked) => {
                blocks += usize::from(asked);
                let block = || Box::new([sample; BLOCK]);
                (0..asked).for_each(|_| desk.server.handle_microphone(block()));
            }
            None => {}
        }
        desk.run_for(1_000);
    }
    (blocks, ends)
}

/// The samples of the left that a program has recorded with this stream since the last call.
fn recorded(desk: &mut Desk, program: &Program, channel: u32) -> Vec<i16> {
    let pieces = desk.events(program).recorded;
    let bytes: Vec<u8> = pieces
        .iter()
        .filter(|(of, _)| *of == channel)
        .flat_map(|(_, piece)| piece.clone())
        .collect();
    bytes.as_chunks::<4>().0.iter().map(|s| i16::from_le_bytes([s[0], s[1]])).collect()
}

#[test]
fn it_is_asked_for_only_while_a_program_records_it() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    desk.record(&mut program, Some(c"@DEFAULT_MONITOR@"), 10 * MS);
    assert_eq!(answer(&mut desk, 100, 0.5), (0, 0), "the monitor is another source");
    let flags = StreamFlags { peak_detect: true, ..Default::default() };
    let meter = pulseaudio::protocol::RecordStreamParams { flags, ..recording(None, 4) };
    let _: CreateRecordStreamReply = desk.ask(&mut program, &Command::CreateRecordStream(meter));
    assert_eq!(answer(&mut desk, 100, 0.5), (0, 0), "a mixer shows how loud it is");
    let stream = desk.record(&mut program, None, 10 * MS);
    let (blocks, ends) = answer(&mut desk, 1000, 0.5);
    assert!((200..=206).contains(&blocks) && ends == 0, "{blocks} blocks in a second");
    let cork = |cork| Command::CorkRecordStream(CorkStreamParams { channel: stream.channel, cork });
    desk.acknowledged(&mut program, &cork(true));
    assert_eq!(answer(&mut desk, 100, 0.5), (0, 1));
    desk.acknowledged(&mut program, &cork(false));
    let (blocks, ends) = answer(&mut desk, 100, 0.5);
    assert!((20..=26).contains(&blocks) && ends == 0, "{blocks} blocks in 100 ms");
    desk.acknowledged(&mut program, &Command::DeleteRecordStream(stream.channel));
    assert_eq!(answer(&mut desk, 100, 0.5), (0, 1));
    desk.disconnect(&program);
    assert_eq!(desk.server.next_tick(), None, "nothing wakes it");
}

#[test]
fn a_program_gets_what_is_brought_and_silence_at_the_same_pace_without_it() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let stream = desk.record(&mut program, None, 10 * MS);
    // No session process answers.
    desk.run_for(500_000);
    let silent = recorded(&mut desk, &program, stream.channel);
    assert_eq!(silent.len(), 24_000);
    assert!(silent.iter().all(|&sample| sample == 0));
    answer(&mut desk, 500, 0.5);
    let heard = recorded(&mut desk, &program, stream.channel);
    assert_eq!(heard.len(), 24_000);
    assert!(heard[2000..].iter().all(|&sample| sample == 0x4000), "without a gap");
    let params = LatencyParams { channel: stream.channel, now: std::time::UNIX_EPOCH };
    let latency: RecordLatency = desk.ask(&mut program, &Command::GetRecordLatency(params));
    assert!((5_000..=30_000).contains(&latency.source_usec), "{}", latency.source_usec);
    // The session process ends, and another one goes on.
    desk.run_for(500_000);
    let gone = recorded(&mut desk, &program, stream.channel);
    assert_eq!(gone.len(), 24_000);
    assert!(gone[2000..].iter().all(|&sample| sample == 0));
    desk.server.handle_link();
    answer(&mut desk, 200, 0.25);
    let back = recorded(&mut desk, &program, stream.channel);
    assert!(back.len() == 9600 && back[2000..].iter().all(|&sample| sample == 0x2000));
}

#[test]
fn it_is_the_default_source_and_can_be_muted() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let info: ServerInfo = desk.ask(&mut program, &Command::GetServerInfo);
    assert_eq!(info.default_source_name.as_deref(), Some(c"thinc.microphone"));
    let sources: Vec<SourceInfo> = desk.ask(&mut program, &Command::GetSourceInfoList);
    let monitors: Vec<_> =
        sources.iter().map(|source| source.monitor_of_sink_index.is_some()).collect();
    assert_eq!(monitors, [true, false]);
    assert_eq!(sources[1].sample_spec.sample_rate, S16_STEREO.sample_rate);
    let stream = desk.record(&mut program, None, 5 * MS);
    let newest = |desk: &mut Desk, program: &Program| {
        answer(desk, 100, 0.5);
        recorded(desk, program, stream.channel).last().copied()
    };
    assert_eq!(newest(&mut desk, &program), Some(0x4000));
    let mute = |mute| SetStreamMuteParams { index: stream.channel, mute };
    desk.acknowledged(&mut program, &Command::SetSourceOutputMute(mute(true)));
    assert_eq!(newest(&mut desk, &program), Some(0));
    desk.acknowledged(&mut program, &Command::SetSourceOutputMute(mute(false)));
    let name = Some(c"thinc.microphone".into());
    let device = SetDeviceMuteParams { device_index: None, device_name: name, mute: true };
    desk.acknowledged(&mut program, &Command::SetSourceMute(device));
    assert_eq!(newest(&mut desk, &program), Some(0));
}
