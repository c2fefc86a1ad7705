//! The sound server: whatever one program sends, the others keep their sound, and mixers can read
//! what they are told of it. Beside the path. Knows the public interface of the server, and
//! PulseAudio's commands.

use std::io::Cursor;

use pulseaudio::protocol::stream::BufferAttr;
use pulseaudio::protocol::{
    self, AuthParams, ChannelMap, ChannelVolume, ClientInfo, Command, CommandReply,
    CorkStreamParams, DESCRIPTOR_SIZE, MAX_VERSION, PlaybackStreamParams, Prop, Props,
    RecordStreamParams, SampleFormat, SampleSpec, SetDeviceMuteParams, SetStreamNameParams,
    SetStreamVolumeParams, SinkInfo, SinkInputInfo, SourceOutputInfo, SubscriptionMask,
};
use thinc_desk::link::{Micros, Wish};
use thinc_desk::{ClientId, Server};

/// Time between two pieces of input.
const STEP: Micros = 7_000;

fn command(number: u32, command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    protocol::write_command_message(&mut bytes, number, command, MAX_VERSION)
        .expect("memory can be written to");
    bytes
}

fn auth() -> Vec<u8> {
    command(1, &Command::Auth(AuthParams { version: MAX_VERSION, ..Default::default() }))
}

/// Asks for a list and reads the answer.
fn list<R: CommandReply>(server: &mut Server, mixer: ClientId, question: &Command) -> R {
    let number = 77;
    server.handle_bytes(mixer, &command(number, question), 0);
    let mut unread = Cursor::new(server.unread(mixer).to_vec());
    let length = unread.get_ref().len();
    server.was_read(mixer, length);
    loop {
        let start = unread.position();
        let head = protocol::read_descriptor(&mut unread).expect("the question is answered");
        let end = start + DESCRIPTOR_SIZE as u64 + u64::from(head.length);
        let (answered, command) =
            Command::read_tag_prefixed(&mut unread, MAX_VERSION).expect("events can be read");
        if (answered, command) == (number, Command::Reply) {
            unread.set_position(start);
            let (_, list) = protocol::read_reply_message(&mut unread, MAX_VERSION)
                .expect("the list can be read");
            return list;
        }
        unread.set_position(end);
    }
}

/// What a program sends, in two pieces with a tick between them.
pub fn program(input: &[u8]) {
    let mut server = Server::new(c"user".into(), c"host".into());
    server.set_wish(Wish { listening: true, latency: 0 }, 0);
    let mixer = server.connect().expect("there is room");
    server.handle_bytes(mixer, &auth(), 0);
    let program = server.connect().expect("there is room");
    server.handle_bytes(program, &auth(), 0);
    let subscribe = Command::Subscribe(SubscriptionMask::ALL);
    server.handle_bytes(mixer, &command(2, &subscribe), 0);
    let (mut now, mut frames) = (0, Vec::new());
    let (first, second) = input.split_at(input.len() / 2);
    for piece in [first, second] {
        server.handle_bytes(program, piece, now);
        now += STEP;
        if server.next_tick().is_some_and(|next| next <= now) {
            server.tick(now, &mut frames);
        }
        assert!(server.next_tick().is_none_or(|next| next > now), "a tick that is overdue");
    }
    assert!(frames.iter().flat_map(|frame| frame.samples.iter()).all(|s| (-1.0..=1.0).contains(s)));
    if let Some(why) = server.ended(mixer) {
        // By the command for it, as any mixer can, and in no other way.
        assert!(why.contains("another program"), "{why}");
        return;
    }
    let _: Vec<SinkInfo> = list(&mut server, mixer, &Command::GetSinkInfoList);
    let _: Vec<SinkInputInfo> = list(&mut server, mixer, &Command::GetSinkInputInfoList);
    let _: Vec<SourceOutputInfo> = list(&mut server, mixer, &Command::GetSourceOutputInfoList);
    let clients: Vec<ClientInfo> = list(&mut server, mixer, &Command::GetClientInfoList);
    assert!(clients.len() <= 2);
    server.disconnect(program, now);
    let streams: Vec<SinkInputInfo> = list(&mut server, mixer, &Command::GetSinkInputInfoList);
    assert!(streams.is_empty());
}

/// Streams that play and record, and what is done with them.
pub fn program_seeds() -> Vec<Vec<u8>> {
    let sample_spec = SampleSpec { format: SampleFormat::S16Le, channels: 2, sample_rate: 48_000 };
    let mut props = Props::new();
    props.set(Prop::MediaName, c"Song");
    let play = Command::CreatePlaybackStream(PlaybackStreamParams {
        sample_spec,
        channel_map: ChannelMap::stereo(),
        buffer_attr: BufferAttr { target_length: 1920, ..Default::default() },
        cvolume: Some(ChannelVolume::norm(2)),
        props: props.clone(),
        ..Default::default()
    });
    let record = Command::CreateRecordStream(RecordStreamParams {
        sample_spec,
        channel_map: ChannelMap::stereo(),
        source_index: Some(0),
        buffer_attr: BufferAttr { fragment_size: 960, ..Default::default() },
        ..Default::default()
    });
    // Programs and streams are numbered together: the mixer is 0, the program 1.
    let index = 2;
    let sound = |offset: u64| {
        let mut bytes = Vec::new();
        protocol::write_memblock(&mut bytes, index, &[7; 3000], offset)
            .expect("memory can be written to");
        bytes
    };
    let with_stream = |commands: &[Command]| {
        let mut bytes = command(1, &play);
        bytes.extend(sound(0));
        for (number, next) in commands.iter().enumerate() {
            bytes.extend(command(2 + number as u32, next));
        }
        bytes.extend(sound(4));
        bytes
    };
    let volume = ChannelVolume::norm(2);
    vec![
        command(1, &Command::SetClientName(props.clone())),
        with_stream(&[Command::DrainPlaybackStream(index)]),
        with_stream(&[
            Command::CorkPlaybackStream(CorkStreamParams { channel: index, cork: true }),
            Command::FlushPlaybackStream(index),
            Command::TriggerPlaybackStream(index),
        ]),
        with_stream(&[
            Command::SetSinkInputVolume(SetStreamVolumeParams { index, volume }),
            Command::SetSinkMute(SetDeviceMuteParams {
                device_index: Some(0),
                device_name: None,
                mute: true,
            }),
            Command::SetPlaybackStreamName(SetStreamNameParams { index, name: c"x".into() }),
        ]),
        with_stream(&[record, Command::GetServerInfo, Command::KillSinkInput(index)]),
        with_stream(&[Command::DeletePlaybackStream(index), Command::KillClient(0)]),
    ]
}
