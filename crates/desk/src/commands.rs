//! What programs ask for. From server.rs, which reads commands, to the streams and the answers.
//! Knows PulseAudio's commands; what is not offered here is refused with the error that programs
//! expect.

use std::ffi::{CStr, CString};

use pulseaudio::protocol::props::PropsUpdateMode;
use pulseaudio::protocol::stream::{BufferAttr, StreamFlags};
use pulseaudio::protocol::{
    AuthReply, CardInfo, ChannelMap, ChannelVolume, Command, CreatePlaybackStreamReply,
    CreateRecordStreamReply, FormatInfo, LatencyParams, LookupReply, MAX_VERSION, MIN_VERSION,
    ModuleInfo, PlaybackLatency, PlaybackStreamParams, Prop, Props, PulseError, RecordLatency,
    RecordStreamParams, SampleInfo, SampleSpec, SetClientNameReply,
    SetPlaybackStreamBufferAttrParams, SetPlaybackStreamBufferAttrReply,
    SetRecordStreamBufferAttrParams, SetRecordStreamBufferAttrReply, StatInfo,
    SubscriptionEventFacility as Facility, SubscriptionEventType as EventType,
};

use crate::devices::{self, MONITOR, SINK, is_sink, source};
use crate::format;
use crate::link::Micros;
use crate::playback::{Described, Playback, block_bytes};
use crate::queue::{Queue, Sizes};
use crate::record::{self, Record, Source};
use crate::server::{BLOCK_TIME, ClientId, STREAMS_MAX, Server};

/// A command was carried out and answered, or is refused; then the caller answers.
type Outcome = Result<(), PulseError>;

impl Server {
    pub(crate) fn execute(
        &mut self,
        id: ClientId,
        number: u32,
        command: Command,
        now: Micros,
    ) -> Outcome {
        use Command as C;
        if self.clients[&id].version == 0 && !matches!(command, C::Auth(_)) {
            return Err(PulseError::AccessDenied);
        }
        match command {
            C::Auth(params) => return self.authenticate(id, number, params.version),
            C::SetClientName(props) => {
                self.set_client_props(id, PropsUpdateMode::Replace, &props);
                self.reply(id, number, &SetClientNameReply { client_id: id.0 });
                return Ok(());
            }
            C::CreatePlaybackStream(params) => return self.create_playback(id, number, params),
            C::CreateRecordStream(params) => return self.create_record(id, number, params),
            C::GetPlaybackLatency(params) => {
                return self.playback_latency(id, number, params, now);
            }
            C::GetRecordLatency(params) => return self.record_latency(id, number, params),
            C::SetPlaybackStreamBufferAttr(params) => {
                return self.set_playback_sizes(id, number, &params);
            }
            C::SetRecordStreamBufferAttr(params) => {
                return self.set_record_sizes(id, number, &params);
            }
            C::DrainPlaybackStream(index) => {
                // Answered once all was played.
                if !self.playback(id, index)?.drain(number) {
                    return Ok(());
                }
            }
            C::DeletePlaybackStream(index) => {
                self.playback(id, index)?;
                self.remove_playback(index);
            }
            C::DeleteRecordStream(index) => {
                self.record(id, index)?;
                self.remove_record(index);
            }
            C::CorkPlaybackStream(params) => {
                self.playback(id, params.channel)?.set_corked(params.cork);
                self.announce(Facility::SinkInput, EventType::Changed, params.channel);
            }
            C::CorkRecordStream(params) => {
                self.record(id, params.channel)?.set_corked(params.cork);
                self.announce(Facility::SourceOutput, EventType::Changed, params.channel);
            }
            C::FlushPlaybackStream(index) => self.playback(id, index)?.flush(),
            C::FlushRecordStream(index) => self.record(id, index)?.flush(),
            C::PrebufPlaybackStream(index) => self.playback(id, index)?.queue.prebuffer(),
            C::TriggerPlaybackStream(index) => self.playback(id, index)?.queue.trigger(),
            C::SetPlaybackStreamName(params) => {
                let name = devices::limit_name(params.name);
                self.playback(id, params.index)?.described.name = name;
                self.announce(Facility::SinkInput, EventType::Changed, params.index);
            }
            C::SetRecordStreamName(params) => {
                let name = devices::limit_name(params.name);
                self.record(id, params.index)?.described.name = name;
                self.announce(Facility::SourceOutput, EventType::Changed, params.index);
            }
            C::UpdatePlaybackStreamProplist(params) => {
                let described = &mut self.playback(id, params.index)?.described;
                update(&mut described.props, params.mode, &params.props);
                self.announce(Facility::SinkInput, EventType::Changed, params.index);
            }
            C::UpdateRecordStreamProplist(params) => {
                let described = &mut self.record(id, params.index)?.described;
                update(&mut described.props, params.mode, &params.props);
                self.announce(Facility::SourceOutput, EventType::Changed, params.index);
            }
            C::UpdateClientProplist(params) => {
                self.set_client_props(id, params.mode, &params.props);
            }
            // The crate does not read which; what stays hurts nobody.
            C::RemovePlaybackStreamProplist(_)
            | C::RemoveRecordStreamProplist(_)
            | C::RemoveClientProplist => {}
            C::UpdatePlaybackStreamSampleRate(params) => {
                check_rate(params.sample_rate)?;
                self.playback(id, params.index)?.set_rate(params.sample_rate);
            }
            C::UpdateRecordStreamSampleRate(params) => {
                check_rate(params.sample_rate)?;
                self.record(id, params.index)?.set_rate(params.sample_rate);
            }
            C::Subscribe(mask) => {
                self.clients.entry(id).and_modify(|client| client.subscribed = mask);
            }
            C::KillClient(_)
            | C::KillSinkInput(_)
            | C::KillSourceOutput(_)
            | C::MoveSinkInput(_)
            | C::MoveSourceOutput(_) => self.execute_on_streams(&command)?,
            C::SetSinkVolume(_)
            | C::SetSinkMute(_)
            | C::SetSourceVolume(_)
            | C::SetSourceMute(_)
            | C::SetSinkInputVolume(_)
            | C::SetSinkInputMute(_)
            | C::SetSourceOutputVolume(_)
            | C::SetSourceOutputMute(_) => self.set_volume(&command)?,
            C::SetDefaultSink(name) if is_sink(None, Some(&name)) => {}
            C::SetDefaultSource(name) if source(None, Some(&name)).is_some() => {}
            C::SetDefaultSink(_)
            | C::SetDefaultSource(_)
            | C::SetSinkPort(_)
            | C::SetSourcePort(_)
            | C::SetPortLatencyOffset(_)
            | C::SetCardProfile(_)
            | C::PlaySample(_)
            | C::RemoveSample(_) => return Err(PulseError::NoEntity),
            // The devices sleep by themselves when nobody uses them.
            C::SuspendSink(_) | C::SuspendSource(_) => {}
            C::Extension(_) => return Err(PulseError::NoExtension),
            C::CreateUploadStream(_) | C::DeleteUploadStream(_) | C::FinishUploadStream(_) => {
                return Err(PulseError::NotSupported);
            }
            C::LoadModule(_) | C::UnloadModule(_) | C::Exit => {
                return Err(PulseError::AccessDenied);
            }
            command => return self.answer(id, number, &command, now),
        }
        self.acknowledge(id, number);
        Ok(())
    }

    /// Questions.
    fn answer(&mut self, id: ClientId, number: u32, command: &Command, now: Micros) -> Outcome {
        use Command as C;
        let missing = PulseError::NoEntity;
        match command {
            C::GetServerInfo => self.reply(id, number, &self.server_info()),
            C::Stat => self.reply(id, number, &StatInfo::default()),
            C::GetSinkInfo(wanted) => {
                if !is_sink(wanted.index, wanted.name.as_deref()) {
                    return Err(missing);
                }
                self.reply(id, number, &self.sink_info(now));
            }
            C::GetSinkInfoList => self.reply(id, number, &vec![self.sink_info(now)]),
            C::GetSourceInfo(wanted) => {
                let source = source(wanted.index, wanted.name.as_deref()).ok_or(missing)?;
                self.reply(id, number, &self.source_info(source));
            }
            C::GetSourceInfoList => {
                let sources = [Source::Monitor, Source::Microphone];
                let infos: Vec<_> =
                    sources.iter().map(|&source| self.source_info(source)).collect();
                self.reply(id, number, &infos);
            }
            C::LookupSink(name) => match is_sink(None, Some(name)) {
                true => self.reply(id, number, &LookupReply(SINK)),
                false => return Err(missing),
            },
            C::LookupSource(name) => {
                let source = source(None, Some(name)).ok_or(missing)?;
                self.reply(id, number, &LookupReply(source.index()));
            }
            C::GetSinkInputInfo(index) => {
                let info = self.sink_input_info(*index, now).ok_or(missing)?;
                self.reply(id, number, &info);
            }
            C::GetSinkInputInfoList => {
                let indices = self.playbacks.keys();
                let infos: Vec<_> =
                    indices.filter_map(|&index| self.sink_input_info(index, now)).collect();
                self.reply(id, number, &infos);
            }
            C::GetSourceOutputInfo(index) => {
                let info = self.source_output_info(*index).ok_or(missing)?;
                self.reply(id, number, &info);
            }
            C::GetSourceOutputInfoList => {
                let indices = self.records.keys();
                let infos: Vec<_> =
                    indices.filter_map(|&index| self.source_output_info(index)).collect();
                self.reply(id, number, &infos);
            }
            C::GetClientInfo(index) => {
                let info = self.client_info(ClientId(*index)).ok_or(missing)?;
                self.reply(id, number, &info);
            }
            C::GetClientInfoList => {
                let clients = self.clients.keys();
                let infos: Vec<_> =
                    clients.filter_map(|&client| self.client_info(client)).collect();
                self.reply(id, number, &infos);
            }
            C::GetCardInfo(_) | C::GetModuleInfo(_) | C::GetSampleInfo(_) => return Err(missing),
            C::GetCardInfoList => self.reply(id, number, &Vec::<CardInfo>::new()),
            C::GetModuleInfoList => self.reply(id, number, &Vec::<ModuleInfo>::new()),
            C::GetSampleInfoList => self.reply(id, number, &Vec::<SampleInfo>::new()),
            // Answers and events, which a server does not get.
            _ => return Err(PulseError::Command),
        }
        Ok(())
    }

    /// Who connects is known by the socket's credentials (process.rs); the cookie is not read.
    fn authenticate(&mut self, id: ClientId, number: u32, version: u16) -> Outcome {
        if version < MIN_VERSION {
            return Err(PulseError::Version);
        }
        let version = version.min(MAX_VERSION);
        let client = self.clients.get_mut(&id).expect("it is connected");
        let is_new = std::mem::replace(&mut client.version, version) == 0;
        self.reply(id, number, &AuthReply { version, use_memfd: false, use_shm: false });
        if is_new {
            self.announce(Facility::Client, EventType::New, id.0);
        }
        Ok(())
    }

    fn set_client_props(&mut self, id: ClientId, mode: PropsUpdateMode, props: &Props) {
        self.clients.entry(id).and_modify(|client| update(&mut client.props, mode, props));
        self.announce(Facility::Client, EventType::Changed, id.0);
    }

    /// A stream of this program.
    fn playback(&mut self, id: ClientId, index: u32) -> Result<&mut Playback, PulseError> {
        match self.playbacks.get_mut(&index) {
            Some((owner, playback)) if *owner == id => Ok(playback),
            _ => Err(PulseError::NoEntity),
        }
    }

    fn record(&mut self, id: ClientId, index: u32) -> Result<&mut Record, PulseError> {
        match self.records.get_mut(&index) {
            Some((owner, record)) if *owner == id => Ok(record),
            _ => Err(PulseError::NoEntity),
        }
    }

    fn check_room(&self) -> Outcome {
        let streams = self.playbacks.len() + self.records.len();
        if streams < STREAMS_MAX { Ok(()) } else { Err(PulseError::TooLarge) }
    }

    fn create_playback(
        &mut self,
        id: ClientId,
        number: u32,
        params: PlaybackStreamParams,
    ) -> Outcome {
        self.check_room()?;
        if !is_sink(params.sink_index, params.sink_name.as_deref()) {
            return Err(PulseError::NoEntity);
        }
        let format = (params.sample_spec, params.channel_map);
        let described =
            describe(&params.formats, format, params.cvolume, &params.flags, &params.props)?;
        let (spec, channel_map) = (described.spec, described.map);
        check_rate(spec.sample_rate)?;
        let sizes = sizes(&params.buffer_attr, &spec);
        let queue =
            Queue::new(sizes, format::frame_bytes(&spec), format::silence_byte(spec.format));
        let index = self.take_index();
        let mut playback = Playback::new(described, queue);
        let requested_bytes = playback.queue.take_request().unwrap_or(0);
        self.playbacks.insert(index, (id, playback));
        let reply = CreatePlaybackStreamReply {
            channel: index,
            stream_index: index,
            requested_bytes,
            buffer_attr: sizes.attributes(),
            sample_spec: spec,
            channel_map,
            stream_latency: self.wish.latency + BLOCK_TIME,
            sink_index: SINK,
            sink_name: Some(devices::sink_name()),
            suspended: false,
            format: format::to_info(&spec),
        };
        self.reply(id, number, &reply);
        self.announce(Facility::SinkInput, EventType::New, index);
        Ok(())
    }

    fn create_record(&mut self, id: ClientId, number: u32, params: RecordStreamParams) -> Outcome {
        self.check_room()?;
        let only = params.direct_on_input_index;
        let source = source(params.source_index, params.source_name.as_deref())
            .ok_or(PulseError::NoEntity)?;
        if only.is_some_and(|index| !self.playbacks.contains_key(&index)) {
            return Err(PulseError::NoEntity);
        }
        let format = (params.sample_spec, params.channel_map);
        let described =
            describe(&params.formats, format, params.cvolume, &params.flags, &params.props)?;
        let (spec, channel_map) = (described.spec, described.map);
        let peaks =
            params.flags.peak_detect && (1..=format::MIX.sample_rate).contains(&spec.sample_rate);
        if !peaks {
            check_rate(spec.sample_rate)?;
        }
        if !record::is_recordable(spec.format) {
            return Err(PulseError::NotSupported);
        }
        let fragment = fragment(&params.buffer_attr, &spec);
        let index = self.take_index();
        let record = Record::new(described, source, only, fragment, peaks);
        self.records.insert(index, (id, record));
        let reply = CreateRecordStreamReply {
            channel: index,
            stream_index: index,
            buffer_attr: record_attributes(fragment),
            sample_spec: spec,
            channel_map,
            stream_latency: BLOCK_TIME,
            sink_index: source.index(),
            sink_name: Some(source.name().into()),
            suspended: false,
            format: format::to_info(&spec),
        };
        self.reply(id, number, &reply);
        self.announce(Facility::SourceOutput, EventType::New, index);
        Ok(())
    }

    fn set_playback_sizes(
        &mut self,
        id: ClientId,
        number: u32,
        params: &SetPlaybackStreamBufferAttrParams,
    ) -> Outcome {
        let playback = self.playback(id, params.index)?;
        let sizes = sizes(&params.buffer_attr, &playback.described.spec);
        playback.queue.set_sizes(sizes);
        let reply = SetPlaybackStreamBufferAttrReply {
            buffer_attr: sizes.attributes(),
            configured_sink_latency: self.wish.latency + BLOCK_TIME,
        };
        self.reply(id, number, &reply);
        Ok(())
    }

    fn set_record_sizes(
        &mut self,
        id: ClientId,
        number: u32,
        params: &SetRecordStreamBufferAttrParams,
    ) -> Outcome {
        let record = self.record(id, params.index)?;
        let fragment = fragment(&params.buffer_attr, &record.described.spec);
        record.set_fragment(fragment);
        let reply = SetRecordStreamBufferAttrReply {
            buffer_attr: record_attributes(fragment),
            configured_source_latency: BLOCK_TIME,
        };
        self.reply(id, number, &reply);
        Ok(())
    }

    /// The offsets and the latency of one moment: programs extrapolate from it. They compare both
    /// times with their own clock, which is the same: the question's stands for the answer's.
    fn playback_latency(
        &mut self,
        id: ClientId,
        number: u32,
        params: LatencyParams,
        now: Micros,
    ) -> Outcome {
        let sink_usec = self.latency_for(id, now);
        let playback = self.playback(id, params.channel)?;
        let playing = playback.is_playing();
        let reply = PlaybackLatency {
            sink_usec,
            source_usec: 0,
            playing,
            local_time: params.now,
            remote_time: params.now,
            write_offset: playback.queue.write_offset(),
            read_offset: playback.queue.read_offset(),
            underrun_for: 0,
            playing_for: if playing { playback.played() } else { 0 },
        };
        self.reply(id, number, &reply);
        Ok(())
    }

    fn record_latency(&mut self, id: ClientId, number: u32, params: LatencyParams) -> Outcome {
        let waiting = self.microphone.delay();
        let record = self.record(id, params.channel)?;
        let waiting = if record.source == Source::Microphone { waiting } else { 0 };
        let reply = RecordLatency {
            sink_usec: 0,
            source_usec: record.duration(record.pending()) + waiting,
            playing: !record.described.corked,
            local_time: params.now,
            remote_time: params.now,
            write_offset: record.sent(),
            read_offset: record.sent(),
        };
        self.reply(id, number, &reply);
        Ok(())
    }

    /// What a mixer does with any program's streams.
    fn execute_on_streams(&mut self, command: &Command) -> Outcome {
        let missing = PulseError::NoEntity;
        match command {
            Command::KillClient(index) => {
                if !self.clients.contains_key(&ClientId(*index)) {
                    return Err(missing);
                }
                self.end(ClientId(*index), "another program has ended its connection".into());
            }
            Command::KillSinkInput(index) => {
                let (owner, _) = self.playbacks.get(index).ok_or(missing)?;
                let owner = *owner;
                self.remove_playback(*index);
                self.tell(owner, &Command::PlaybackStreamKilled(*index));
            }
            Command::KillSourceOutput(index) => {
                let (owner, _) = self.records.get(index).ok_or(missing)?;
                let owner = *owner;
                self.remove_record(*index);
                self.tell(owner, &Command::RecordStreamKilled(*index));
            }
            // There is one device that plays: a stream is there already.
            Command::MoveSinkInput(params) => {
                let stream = params.index.filter(|index| self.playbacks.contains_key(index));
                if stream.is_none() || !is_sink(params.device_index, params.device_name.as_deref())
                {
                    return Err(missing);
                }
            }
            Command::MoveSourceOutput(params) => {
                let wanted = source(params.device_index, params.device_name.as_deref());
                let stream = params.index.and_then(|index| self.records.get_mut(&index));
                let (Some(source), Some((_, record))) = (wanted, stream) else {
                    return Err(missing);
                };
                record.source = source;
                let index = params.index.unwrap_or_default();
                self.announce(Facility::SourceOutput, EventType::Changed, index);
            }
            _ => return Err(PulseError::Command),
        }
        Ok(())
    }

    fn set_volume(&mut self, command: &Command) -> Outcome {
        use Command as C;
        let missing = PulseError::NoEntity;
        let sink =
            |index: Option<u32>, name: &Option<CString>| match is_sink(index, name.as_deref()) {
                true => Ok((Facility::Sink, SINK)),
                false => Err(missing),
            };
        let (facility, index) = match command {
            C::SetSinkVolume(params) => {
                let changed = sink(params.device_index, &params.device_name)?;
                self.output.set_volume(format::fit(&params.volume, format::MIX.channels));
                changed
            }
            C::SetSinkMute(params) => {
                let changed = sink(params.device_index, &params.device_name)?;
                self.output.set_muted(params.mute);
                changed
            }
            C::SetSourceVolume(params) => {
                let source = source(params.device_index, params.device_name.as_deref());
                let source = source.ok_or(missing)?;
                let volume = format::fit(&params.volume, format::MIX.channels);
                self.device(source).set_volume(volume);
                (Facility::Source, source.index())
            }
            C::SetSourceMute(params) => {
                let source = source(params.device_index, params.device_name.as_deref());
                let source = source.ok_or(missing)?;
                self.device(source).set_muted(params.mute);
                (Facility::Source, source.index())
            }
            C::SetSinkInputVolume(params) => {
                let (_, playback) = self.playbacks.get_mut(&params.index).ok_or(missing)?;
                let channels = playback.described.spec.channels;
                playback.set_volume(format::fit(&params.volume, channels));
                (Facility::SinkInput, params.index)
            }
            C::SetSinkInputMute(params) => {
                let (_, playback) = self.playbacks.get_mut(&params.index).ok_or(missing)?;
                playback.described.muted = params.mute;
                (Facility::SinkInput, params.index)
            }
            C::SetSourceOutputVolume(params) => {
                let (_, record) = self.records.get_mut(&params.index).ok_or(missing)?;
                let channels = record.described.spec.channels;
                record.set_volume(format::fit(&params.volume, channels));
                (Facility::SourceOutput, params.index)
            }
            C::SetSourceOutputMute(params) => {
                let (_, record) = self.records.get_mut(&params.index).ok_or(missing)?;
                record.set_muted(params.mute);
                (Facility::SourceOutput, params.index)
            }
            _ => return Err(PulseError::Command),
        };
        self.announce(facility, EventType::Changed, index);
        // They share one volume.
        match (facility, index) {
            (Facility::Sink, _) => self.announce(Facility::Source, EventType::Changed, MONITOR),
            (Facility::Source, MONITOR) => {
                self.announce(Facility::Sink, EventType::Changed, SINK);
            }
            _ => {}
        }
        Ok(())
    }

    /// The volume that a source has. The monitor has that of what is played.
    fn device(&mut self, source: Source) -> &mut crate::mixer::Output {
        match source {
            Source::Monitor => &mut self.output,
            Source::Microphone => &mut self.input,
        }
    }
}

fn check_rate(rate: u32) -> Outcome {
    if format::RATES.contains(&rate) { Ok(()) } else { Err(PulseError::Invalid) }
}

/// What a new stream is, in the format that it gets; its rate is not checked.
fn describe(
    offers: &[FormatInfo],
    (spec, map): (SampleSpec, ChannelMap),
    volume: Option<ChannelVolume>,
    flags: &StreamFlags,
    props: &Props,
) -> Result<Described, PulseError> {
    let (spec, map) = format_of(offers, spec, map)?;
    let (spec, map) = fix(spec, map, flags);
    format::check(&spec, &map).map_err(|_| PulseError::Invalid)?;
    if flags.passthrough {
        return Err(PulseError::NotSupported);
    }
    let volume = volume.unwrap_or(ChannelVolume::norm(spec.channels));
    Ok(Described {
        name: stream_name(props),
        props: devices::limit(props),
        spec,
        map,
        volume: format::fit(&volume, spec.channels),
        muted: flags.start_muted == Some(true),
        corked: flags.start_corked,
    })
}

/// The format that a stream gets: as its specification says, or the first that it offers.
fn format_of(
    offers: &[FormatInfo],
    spec: SampleSpec,
    map: ChannelMap,
) -> Result<(SampleSpec, ChannelMap), PulseError> {
    if offers.is_empty() {
        return Ok((spec, map));
    }
    let (offered, usual) = format::from_offer(offers).ok_or(PulseError::NotSupported)?;
    let map = if map.num_channels() == offered.channels { map } else { usual };
    Ok((offered, map))
}

/// Parts of the format may be left to the device.
fn fix(mut spec: SampleSpec, mut map: ChannelMap, flags: &StreamFlags) -> (SampleSpec, ChannelMap) {
    if flags.fix_format {
        spec.format = format::MIX.format;
    }
    if flags.fix_rate {
        spec.sample_rate = format::MIX.sample_rate;
    }
    if flags.fix_channels {
        spec.channels = format::MIX.channels;
        map = ChannelMap::stereo();
    }
    (spec, map)
}

fn sizes(wish: &BufferAttr, spec: &SampleSpec) -> Sizes {
    Sizes::new(wish, format::frame_bytes(spec), format::bytes_per_s(spec), block_bytes(spec, 1))
}

fn fragment(wish: &BufferAttr, spec: &SampleSpec) -> usize {
    record::fragment(wish, format::frame_bytes(spec), format::bytes_per_s(spec))
}

fn record_attributes(fragment: usize) -> BufferAttr {
    BufferAttr {
        max_length: crate::queue::QUEUE_BYTES_MAX as u32,
        fragment_size: fragment as u32,
        target_length: 0,
        pre_buffering: 0,
        minimum_request_length: 0,
    }
}

fn stream_name(props: &Props) -> CString {
    let name = devices::limit_name(devices::text(props.get(Prop::MediaName)));
    if name.is_empty() { CStr::to_owned(c"sound") } else { name }
}

fn update(props: &mut Props, mode: PropsUpdateMode, new: &Props) {
    match mode {
        PropsUpdateMode::Set => *props = new.clone(),
        PropsUpdateMode::Merge => devices::merge(props, new, false),
        PropsUpdateMode::Replace => devices::merge(props, new, true),
    }
    *props = devices::limit(props);
}
