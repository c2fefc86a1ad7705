//! What a program asks of the ear, and what it is told: PulseAudio's protocol, as far as players
//! use it. From a program's socket, to stream.rs. Knows commands; no clock.

use std::ffi::CStr;
use std::io::{BufReader, Cursor, Read as _};
use std::os::unix::net::UnixStream;

use pulseaudio::protocol::{
    self, AuthReply, CardInfo, ChannelMap, ChannelVolume, ClientInfo, Command, CommandReply,
    CreatePlaybackStreamReply, DEFAULT_SINK, DESCRIPTOR_SIZE, FormatEncoding, FormatInfo,
    LookupReply, MAX_VERSION, ModuleInfo, PlaybackLatency, PlaybackStreamParams, ProtocolError,
    PulseError, SampleFormat, SampleSpec, ServerInfo, SetClientNameReply,
    SetPlaybackStreamBufferAttrReply, SinkFlags, SinkInfo, SinkInputInfo, SinkState, SourceInfo,
    SourceOutputInfo, StatInfo, Volume,
};

use super::stream::{self, Stream};
use super::{DELAY_NS, PERIOD_NS, Program, Shared, State, lock};
use crate::observe::clock::now_ns;

const SINK: u32 = 0;
const SINK_NAME: &CStr = c"ear";
const CARD: SampleSpec =
    SampleSpec { format: SampleFormat::Float32Le, channels: 2, sample_rate: 48_000 };
/// Longest message: libpulse writes 64 KiB of sound at a time.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Set in a message's flags where sound lies in shared memory, which was refused.
const SHARED_MEMORY: u32 = 0xe000_0000;

/// Reads a program's messages until it ends, or says what no program says.
pub(super) fn serve(shared: &Shared, program: &Program, stream: UnixStream) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    loop {
        let mut head = [0; DESCRIPTOR_SIZE];
        if reader.read_exact(&mut head).is_err() {
            return;
        }
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, channel, flags) = (word(0) as usize, word(4), word(16));
        let offset = (u64::from(word(8)) << 32 | u64::from(word(12))).cast_signed();
        if length > MESSAGE_BYTES_MAX || flags & SHARED_MEMORY != 0 {
            return;
        }
        bytes.resize(length, 0);
        if reader.read_exact(&mut bytes).is_err() {
            return;
        }
        if channel == u32::MAX {
            if !handle_command(shared, program, &bytes) {
                return;
            }
        } else {
            let mut state = shared.state();
            if let Some(stream) = state.streams.get_mut(&channel) {
                // Players write at the end; a negative offset from there replaces the last sound.
                let back = if flags == 0 { offset.min(0).unsigned_abs() as usize } else { 0 };
                stream.write(&bytes, back);
            }
        }
        shared.wake.notify_all();
    }
}

/// Carries out a command, or refuses it; false if it is none.
fn handle_command(shared: &Shared, program: &Program, bytes: &[u8]) -> bool {
    let (number, command) =
        match Command::read_tag_prefixed(&mut Cursor::new(bytes), program.version()) {
            Ok(found) => found,
            Err(ProtocolError::Unimplemented(number, _)) => {
                refuse(program, number, PulseError::NotImplemented);
                return true;
            }
            Err(_) => return false,
        };
    let mut state = shared.state();
    if let Err(error) = execute(&mut state, program, number, command) {
        refuse(program, number, error);
    }
    state.ask(program);
    true
}

fn refuse(program: &Program, number: u32, error: PulseError) {
    program.write(|bytes, _| protocol::write_error(bytes, number, &error));
}

fn reply<R: CommandReply>(program: &Program, number: u32, reply: &R) {
    program.write(|bytes, version| protocol::write_reply_message(bytes, number, reply, version));
}

fn execute(
    state: &mut State,
    program: &Program,
    number: u32,
    command: Command,
) -> Result<(), PulseError> {
    use Command as C;
    let missing = PulseError::NoEntity;
    let stream = |state: &mut State, channel: u32, act: &mut dyn FnMut(&mut Stream)| {
        let found = state.streams.get_mut(&channel).filter(|s| s.owner == program.index);
        found.map(act).ok_or(missing)
    };
    match command {
        C::Auth(params) => {
            let version = params.version.min(MAX_VERSION);
            *lock(&program.version) = version;
            let answer = AuthReply { version, use_memfd: false, use_shm: false };
            reply(program, number, &answer);
            return Ok(());
        }
        C::SetClientName(_) => {
            reply(program, number, &SetClientNameReply { client_id: program.index });
            return Ok(());
        }
        C::CreatePlaybackStream(params) => return create(state, program, number, &params),
        C::SetPlaybackStreamBufferAttr(params) => {
            let mut buffer_attr = None;
            stream(state, params.index, &mut |stream| {
                stream.set_attributes(&params.buffer_attr);
                buffer_attr = Some(stream.attributes());
            })?;
            let buffer_attr = buffer_attr.unwrap_or_default();
            let configured_sink_latency = DELAY_NS / 1000;
            let answer = SetPlaybackStreamBufferAttrReply { buffer_attr, configured_sink_latency };
            reply(program, number, &answer);
            return Ok(());
        }
        C::GetPlaybackLatency(params) => {
            // What was fetched last is heard until two periods after its fetch.
            let fetched = state
                .clock
                .map_or(0, |(started, periods)| started + periods * PERIOD_NS + DELAY_NS);
            let sink_usec = fetched.saturating_sub(now_ns()) / 1000;
            let mut answer = None;
            stream(state, params.channel, &mut |stream| {
                answer = Some(PlaybackLatency {
                    sink_usec,
                    source_usec: 0,
                    playing: stream.is_playing(),
                    local_time: params.now,
                    remote_time: params.now,
                    write_offset: stream.write_offset(),
                    read_offset: stream.read_offset(),
                    underrun_for: 0,
                    playing_for: stream.read_offset().unsigned_abs(),
                });
            })?;
            if let Some(answer) = answer {
                reply(program, number, &answer);
            }
            return Ok(());
        }
        C::DrainPlaybackStream(channel) => {
            let mut is_done = false;
            stream(state, channel, &mut |stream| is_done = stream.drain(number))?;
            if !is_done {
                // Answered once all was fetched.
                return Ok(());
            }
        }
        C::DeletePlaybackStream(channel) => {
            stream(state, channel, &mut |_| {})?;
            state.end_stream(channel);
        }
        C::CorkPlaybackStream(params) => {
            stream(state, params.channel, &mut |stream| stream.cork(params.cork))?;
        }
        C::FlushPlaybackStream(channel) => stream(state, channel, &mut Stream::flush)?,
        C::PrebufPlaybackStream(channel) => stream(state, channel, &mut Stream::prebuffer)?,
        C::TriggerPlaybackStream(channel) => stream(state, channel, &mut Stream::trigger)?,
        // Names, events and volumes are not the ear's business.
        C::SetPlaybackStreamName(_)
        | C::UpdatePlaybackStreamProplist(_)
        | C::UpdateClientProplist(_)
        | C::RemovePlaybackStreamProplist(_)
        | C::RemoveClientProplist
        | C::Subscribe(_)
        | C::SetSinkVolume(_)
        | C::SetSinkMute(_)
        | C::SetSinkInputVolume(_)
        | C::SetSinkInputMute(_)
        | C::SuspendSink(_) => {}
        command => return answer(state, program, number, &command),
    }
    program.write(|bytes, _| protocol::write_ack_message(bytes, number));
    Ok(())
}

/// Questions.
fn answer(
    state: &State,
    program: &Program,
    number: u32,
    command: &Command,
) -> Result<(), PulseError> {
    use Command as C;
    let is_sink = |name: &CStr| name == SINK_NAME || name == DEFAULT_SINK || name.is_empty();
    match command {
        C::GetServerInfo => reply(program, number, &server_info()),
        C::Stat => reply(program, number, &StatInfo::default()),
        C::GetSinkInfo(wanted) => {
            let is_ours = match (wanted.index, &wanted.name) {
                (Some(index), _) => index == SINK,
                (None, Some(name)) => is_sink(name),
                (None, None) => true,
            };
            if !is_ours {
                return Err(PulseError::NoEntity);
            }
            reply(program, number, &sink_info());
        }
        C::GetSinkInfoList => reply(program, number, &vec![sink_info()]),
        C::LookupSink(name) if is_sink(name) => reply(program, number, &LookupReply(SINK)),
        C::GetSinkInputInfo(index) => {
            let stream = state.streams.get(index).ok_or(PulseError::NoEntity)?;
            reply(program, number, &input_info(*index, stream));
        }
        C::GetSinkInputInfoList => {
            let streams = state.streams.iter();
            let infos: Vec<_> = streams.map(|(&index, stream)| input_info(index, stream)).collect();
            reply(program, number, &infos);
        }
        C::GetClientInfo(index) if state.programs.contains_key(index) => {
            reply(program, number, &ClientInfo { index: *index, ..ClientInfo::default() });
        }
        C::GetSourceInfoList => reply(program, number, &Vec::<SourceInfo>::new()),
        C::GetSourceOutputInfoList => reply(program, number, &Vec::<SourceOutputInfo>::new()),
        C::GetCardInfoList => reply(program, number, &Vec::<CardInfo>::new()),
        C::GetModuleInfoList => reply(program, number, &Vec::<ModuleInfo>::new()),
        C::CreateRecordStream(_) => return Err(PulseError::NotSupported),
        C::Extension(_) => return Err(PulseError::NoExtension),
        _ => return Err(PulseError::NoEntity),
    }
    Ok(())
}

fn create(
    state: &mut State,
    program: &Program,
    number: u32,
    params: &PlaybackStreamParams,
) -> Result<(), PulseError> {
    let offered = if params.formats.is_empty() {
        params.sample_spec
    } else {
        stream::from_offer(&params.formats).ok_or(PulseError::NotSupported)?
    };
    let flags = &params.flags;
    let spec = SampleSpec {
        format: if flags.fix_format { CARD.format } else { offered.format },
        channels: if flags.fix_channels { CARD.channels } else { offered.channels },
        sample_rate: if flags.fix_rate { CARD.sample_rate } else { offered.sample_rate },
    };
    let stream = Stream::new(program.index, spec, &params.buffer_attr, flags.start_corked);
    let mut stream = stream.ok_or(PulseError::NotSupported)?;
    let channel_map = match spec.channels {
        channels if params.channel_map.num_channels() == channels => params.channel_map,
        1 => ChannelMap::mono(),
        _ => ChannelMap::stereo(),
    };
    let channel = state.take_index();
    let answer = CreatePlaybackStreamReply {
        channel,
        stream_index: channel,
        requested_bytes: stream.take_request().unwrap_or(0),
        buffer_attr: stream.attributes(),
        sample_spec: spec,
        channel_map,
        stream_latency: DELAY_NS / 1000,
        sink_index: SINK,
        sink_name: Some(SINK_NAME.into()),
        suspended: false,
        format: stream::to_info(&spec),
    };
    state.streams.insert(channel, stream);
    reply(program, number, &answer);
    Ok(())
}

fn server_info() -> ServerInfo {
    ServerInfo {
        // Programs look for the first word, and compare the version.
        server_name: Some(c"PulseAudio (the ear of thinc-bench)".into()),
        server_version: Some(c"15.0.0".into()),
        user_name: Some(c"listener".into()),
        host_name: Some(c"client".into()),
        sample_spec: CARD,
        cookie: std::process::id(),
        default_sink_name: Some(SINK_NAME.into()),
        // There is none. SDL reads a name without asking whether there is one.
        default_source_name: Some(c"".into()),
        channel_map: ChannelMap::stereo(),
    }
}

fn sink_info() -> SinkInfo {
    SinkInfo {
        index: SINK,
        name: SINK_NAME.into(),
        description: Some(c"Ear".into()),
        state: SinkState::Running,
        sample_spec: CARD,
        channel_map: ChannelMap::stereo(),
        cvolume: ChannelVolume::norm(CARD.channels),
        flags: SinkFlags::LATENCY | SinkFlags::DECIBEL_VOLUME,
        actual_latency: DELAY_NS / 1000,
        configured_latency: DELAY_NS / 1000,
        driver: Some(SINK_NAME.into()),
        base_volume: Volume::NORM,
        volume_steps: Some(Volume::NORM.as_u32() + 1),
        monitor_source_name: Some(c"ear.monitor".into()),
        formats: vec![FormatInfo::new(FormatEncoding::Pcm)],
        ..SinkInfo::default()
    }
}

fn input_info(index: u32, stream: &Stream) -> SinkInputInfo {
    let queued = (stream.write_offset() - stream.read_offset()).unsigned_abs() as usize;
    SinkInputInfo {
        index,
        name: SINK_NAME.into(),
        client_index: Some(stream.owner),
        sink_index: SINK,
        sample_spec: stream.spec,
        channel_map: match stream.spec.channels {
            1 => ChannelMap::mono(),
            _ => ChannelMap::stereo(),
        },
        cvolume: ChannelVolume::norm(stream.spec.channels),
        buffer_latency: stream.duration_us(queued),
        sink_latency: DELAY_NS / 1000,
        corked: stream.is_corked(),
        has_volume: true,
        volume_writable: true,
        format: stream::to_info(&stream.spec),
        ..SinkInputInfo::default()
    }
}
