//! The sound server on virtual time: programs' commands in, answers and frames out. Beside
//! crates/desk/src/server.rs. Knows the public interface, and PulseAudio's protocol as programs
//! speak it.

mod program;

use program::{Desk, FRAME, Program, S16_STEREO, sine, spec};
use pulseaudio::protocol::{
    self, ChannelVolume, Command, CorkStreamParams, LatencyParams, PlaybackLatency,
    PlaybackStreamParams, Prop, Props, PulseError, RecordStreamParams, ServerInfo,
    SetDeviceMuteParams, SetDeviceVolumeParams, SetStreamMuteParams, SetStreamVolumeParams,
    SinkInfo, SinkInputInfo, SourceInfo, SubscriptionMask, Volume,
};
use thinc_desk::link::{Frame, LATENCY_MAX, Wish};

/// 1 ms of `S16_STEREO`.
const MS: usize = 192;

#[test]
fn what_is_written_is_captured_after_the_queue_without_gaps() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let stream = desk.play(&mut program, 40 * MS);
    assert_eq!(stream.requested, 40 * MS as u32);
    let mut source = sine(440.0, 48_000);
    desk.write(&program, stream.channel, &source(40 * MS / FRAME));
    desk.answer_requests(10_000, &program, stream.channel, &mut source);
    let (frames, starts) = (desk.frames(), desk.events(&program).started);
    assert_eq!(starts, 1);
    assert!(frames.len() >= 995, "{} frames in 10 s", frames.len());
    assert!(frames.windows(2).all(|pair| pair[1].time == pair[0].time + 10_000));
    assert!(frames.iter().all(|frame| !frame.discontinuity && !frame.silence_follows));
    let samples: Vec<f32> =
        frames.iter().flat_map(|f| f.samples.iter().step_by(2)).copied().collect();
    assert!(roughness(&samples, 440.0) < 0.001, "a gap");
}

fn roughness(samples: &[f32], hz: f64) -> f32 {
    let factor = 2.0 * (std::f64::consts::TAU * hz / 48_000.0).cos() as f32;
    samples.windows(3).map(|x| (x[2] - factor * x[1] + x[0]).abs()).fold(0.0, f32::max)
}

#[test]
fn a_click_is_in_the_frame_of_the_moment_it_was_read_at() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let stream = desk.play(&mut program, 10 * MS);
    desk.write(&program, stream.channel, &[0, 0x40].repeat(10 * MS / 2));
    desk.run_for(50_000);
    let frames = desk.frames();
    // Read by the ticks of 5 and 10 ms, and part of the frame that ends then.
    assert_eq!(frames[0].time, Desk::START);
    assert!(frames[0].samples.iter().all(|&sample| sample == 0.5));
    assert!(frames[1].samples.iter().all(|&sample| sample == 0.0));
}

#[test]
fn nothing_wakes_the_server_while_nobody_plays() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    assert_eq!(desk.server.next_tick(), None);
    let stream = desk.play(&mut program, 20 * MS);
    assert_eq!(desk.server.next_tick(), None, "an empty stream plays nothing");
    desk.write(&program, stream.channel, &[1; 20 * MS]);
    assert_eq!(desk.server.next_tick(), Some(Desk::START + 5_000));
    desk.run_for(1_000_000);
    let frames = desk.frames();
    // 20 ms of sound and 100 ms of silence, of which the last frame tells.
    assert_eq!(frames.len(), 12);
    let tells: Vec<usize> = (0..12).filter(|&n| frames[n].silence_follows).collect();
    assert_eq!(tells, [11]);
    assert_eq!(desk.server.next_tick(), None);
    assert_eq!(desk.events(&program).underflows, 1);
    // Without a viewer there are no frames, and the timer is slower.
    desk.server.set_wish(Wish { listening: false, latency: 0 }, desk.now);
    let long = desk.play(&mut program, 400 * MS);
    desk.write(&program, long.channel, &[1; 400 * MS]);
    assert_eq!(desk.server.next_tick(), Some(desk.now + 20_000));
    desk.run_for(1_000_000);
    assert!(desk.frames().is_empty());
    assert_eq!(desk.server.next_tick(), None);
}

#[test]
fn silence_that_a_program_plays_is_not_sent() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let stream = desk.play(&mut program, 100 * MS);
    desk.write(&program, stream.channel, &[0; 100 * MS]);
    desk.answer_requests(1000, &program, stream.channel, &mut |frames| vec![0; frames * FRAME]);
    assert!(desk.frames().is_empty());
    assert!(desk.server.next_tick().is_some(), "it goes on playing");
}

#[test]
fn a_corked_stream_waits_and_a_flushed_one_asks_again() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let stream = desk.play(&mut program, 40 * MS);
    let cork =
        |cork| Command::CorkPlaybackStream(CorkStreamParams { channel: stream.channel, cork });
    desk.acknowledged(&mut program, &cork(true));
    desk.write(&program, stream.channel, &[1; 40 * MS]);
    assert_eq!(desk.server.next_tick(), None);
    desk.acknowledged(&mut program, &Command::FlushPlaybackStream(stream.channel));
    assert_eq!(desk.events(&program).requested, 40 * MS as u32);
    desk.write(&program, stream.channel, &[2; 40 * MS]);
    desk.acknowledged(&mut program, &cork(false));
    desk.run_for(200_000);
    let first = desk.frames()[0].samples[0];
    assert_eq!(first, f32::from(0x0202i16) / 32_768.0, "what was flushed is not played");
}

#[test]
fn a_drain_is_answered_when_all_was_played() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let stream = desk.play(&mut program, 100 * MS);
    // Less than it prebuffers: nothing plays until it is asked to drain.
    desk.write(&program, stream.channel, &[1; 30 * MS]);
    desk.run_for(50_000);
    assert!(desk.frames().is_empty());
    let number = desk.send(&mut program, &Command::DrainPlaybackStream(stream.channel));
    desk.run_for(30_000);
    assert!(!desk.events(&program).acknowledged.contains(&number));
    desk.run_for(20_000);
    let events = desk.events(&program);
    assert!(events.acknowledged.contains(&number));
    assert_eq!(events.underflows, 0, "it is no underrun");
    assert_eq!(desk.frames()[..3].iter().filter(|frame| frame.samples[0] != 0.0).count(), 3);
    desk.acknowledged(&mut program, &Command::DrainPlaybackStream(stream.channel));
}

#[test]
fn two_programs_are_mixed_and_too_loud_ones_do_not_wrap() {
    let mut desk = Desk::listening();
    let (mut one, mut other) = (desk.connect(), desk.connect());
    let streams = [desk.play(&mut one, 40 * MS), desk.play(&mut other, 40 * MS)];
    desk.write(&one, streams[0].channel, &[0, 0x20].repeat(20 * MS));
    desk.write(&other, streams[1].channel, &[0, 0x10].repeat(20 * MS));
    desk.run_for(60_000);
    let (first, frames) = (0.25 + 0.125, desk.frames());
    assert_eq!(frames[1].samples[0], first);
    for (program, stream) in [(&one, &streams[0]), (&other, &streams[1])] {
        desk.write(program, stream.channel, &[0xff, 0x7f].repeat(20 * MS));
    }
    desk.run_for(60_000);
    let loudest = desk.frames().iter().flat_map(|f| f.samples.to_vec()).fold(0.0, f32::max);
    assert!((0.99..=1.0).contains(&loudest), "{loudest}");
}

#[test]
fn volumes_and_mutes_are_applied_and_mixers_hear_of_them() {
    let mut desk = Desk::listening();
    let (mut program, mut mixer) = (desk.connect(), desk.connect());
    desk.acknowledged(&mut mixer, &Command::Subscribe(SubscriptionMask::ALL));
    let stream = desk.play(&mut program, 40 * MS);
    let half = || {
        let mut volume = ChannelVolume::empty();
        (0..2).for_each(|_| volume.push(Volume::from_u32_clamped(0x8000)));
        volume
    };
    let index = stream.channel;
    let heard = |desk: &mut Desk, program: &Program| {
        desk.frames();
        desk.write(program, index, &[0, 0x40].repeat(20 * MS));
        desk.run_for(300_000);
        desk.frames().iter().flat_map(|frame| frame.samples.to_vec()).fold(0.0, f32::max)
    };
    assert_eq!(heard(&mut desk, &program), 0.5);
    let set = SetStreamVolumeParams { index, volume: half() };
    desk.acknowledged(&mut mixer, &Command::SetSinkInputVolume(set));
    assert_eq!(heard(&mut desk, &program), 0.0625);
    let set = SetDeviceVolumeParams { device_index: Some(0), device_name: None, volume: half() };
    desk.acknowledged(&mut mixer, &Command::SetSinkVolume(set));
    assert_eq!(heard(&mut desk, &program), 0.0078125);
    let device = SetDeviceMuteParams { device_index: None, device_name: None, mute: true };
    desk.acknowledged(&mut mixer, &Command::SetSinkMute(device));
    assert_eq!(heard(&mut desk, &program), 0.0);
    let mute = SetStreamMuteParams { index, mute: true };
    desk.acknowledged(&mut mixer, &Command::SetSinkInputMute(mute));
    let info: SinkInputInfo = desk.ask(&mut mixer, &Command::GetSinkInputInfo(index));
    assert!(info.muted && info.cvolume == half());
    let sink: Vec<SinkInfo> = desk.ask(&mut mixer, &Command::GetSinkInfoList);
    assert!(sink.len() == 1 && sink[0].muted && sink[0].cvolume == half());
    let events = desk.events(&mixer).changes;
    // New stream; its volume; volume and mute of the device, which its monitor shares; its mute.
    let sink_input = protocol::SubscriptionEventFacility::SinkInput;
    let of_stream = events.iter().filter(|event| event.event_facility == sink_input).count();
    let of_devices = events.len() - of_stream;
    assert_eq!((of_stream, of_devices), (3, 4), "{events:?}");
}

#[test]
fn a_program_can_record_what_is_played_and_the_silent_microphone() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let play = desk.play(&mut program, 100 * MS);
    let monitor = desk.record(&mut program, Some(c"@DEFAULT_MONITOR@"), 10 * MS);
    let microphone = desk.record(&mut program, None, 10 * MS);
    assert_eq!((monitor.device, microphone.device), (0, 1));
    desk.write(&program, play.channel, &[0, 0x40].repeat(50 * MS));
    desk.run_for(60_000);
    let recorded = desk.events(&program).recorded;
    let of = |channel| -> Vec<u8> {
        recorded
            .iter()
            .filter(|(c, _)| *c == channel)
            .flat_map(|(_, bytes)| bytes.clone())
            .collect()
    };
    assert_eq!(of(monitor.channel).len(), 60 * MS);
    assert!(of(monitor.channel) == [0, 0x40].repeat(30 * MS));
    assert!(of(microphone.channel) == vec![0; 60 * MS]);
    let infos: Vec<SourceInfo> = desk.ask(&mut program, &Command::GetSourceInfoList);
    let names: Vec<_> = infos.iter().map(|info| info.name.as_c_str()).collect();
    assert_eq!(names, [c"thinc.speakers.monitor", c"thinc.microphone"]);
    let server: ServerInfo = desk.ask(&mut program, &Command::GetServerInfo);
    assert_eq!(server.default_source_name.as_deref(), Some(c"thinc.microphone"));
}

#[test]
fn the_latency_is_the_reported_one_and_falls_between_ticks() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let stream = desk.play(&mut program, 100 * MS);
    desk.write(&program, stream.channel, &[1; 100 * MS]);
    desk.server.set_wish(Wish { listening: true, latency: 150_000 }, desk.now);
    desk.run_for(20_000);
    let latency = |desk: &mut Desk, program: &mut Program| -> PlaybackLatency {
        let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(7);
        let params = LatencyParams { channel: stream.channel, now };
        desk.ask(program, &Command::GetPlaybackLatency(params))
    };
    let before = latency(&mut desk, &mut program);
    assert!(before.playing && before.local_time == before.remote_time);
    assert_eq!(before.write_offset, 100 * MS as i64);
    // What is heard now, by the program's reckoning, moves with the time.
    let heard = |l: &PlaybackLatency| l.read_offset * 1000 / MS as i64 - l.sink_usec as i64;
    for _ in 0..30 {
        desk.run_for(1_000);
        let after = latency(&mut desk, &mut program);
        let moved = heard(&after) - heard(&before);
        let passed = (desk.now - Desk::START - 20_000) as i64;
        assert!((moved - passed).abs() <= 5_000, "{moved} after {passed}");
    }
    // PipeWire's tunnel is told of what comes before the session process.
    let mut props = Props::new();
    props.set(Prop::ApplicationId, c"org.pipewire.PipeWire");
    let _: protocol::SetClientNameReply = desk.ask(&mut program, &Command::SetClientName(props));
    assert!(latency(&mut desk, &mut program).sink_usec <= 20_000);
    let wish = Wish { listening: true, latency: u64::MAX };
    assert_eq!(Wish::decode(wish.encode()).latency, LATENCY_MAX);
}

#[test]
fn a_process_that_was_stopped_leaves_time_out() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let stream = desk.play(&mut program, 1000 * MS);
    desk.write(&program, stream.channel, &[0, 0x40].repeat(500 * MS));
    desk.run_for(100_000);
    desk.now += 3_000_000;
    desk.run_for(0);
    desk.run_for(100_000);
    let frames = desk.frames();
    let gaps: Vec<&Frame> = frames.iter().filter(|frame| frame.discontinuity).collect();
    assert_eq!(gaps.len(), 1);
    assert!(gaps[0].time >= Desk::START + 3_080_000, "{}", gaps[0].time);
    assert!(frames.len() < 30, "it does not play faster to catch up");
}

#[test]
fn programs_cannot_take_more_than_their_share() {
    let mut desk = Desk::listening();
    let mut programs: Vec<Program> = (0..64).map(|_| desk.connect()).collect();
    assert!(desk.server.connect().is_none(), "too many programs");
    let [first, second] = &mut programs[..2] else { unreachable!() };
    let mut streams = Vec::new();
    let params = || PlaybackStreamParams { sample_spec: S16_STEREO, ..program::playback(4 << 20) };
    for _ in 0..64 {
        streams.push(desk.create(first, &params()).unwrap().channel);
    }
    assert_eq!(desk.create(first, &params()), Err(PulseError::TooLarge));
    // Queues of 4 MiB each, 64 MiB together.
    for &channel in &streams {
        for _ in 0..5 {
            desk.write(first, channel, &vec![1; 1 << 20]);
        }
    }
    assert!(desk.events(first).overflows >= 64 * 5 - 64);
    // Nobody touches the streams of others.
    desk.write(second, streams[0], &[1; 1000]);
    let error = desk.refused(second, &Command::DeletePlaybackStream(streams[0]));
    assert_eq!(error, PulseError::NoEntity);
    // A mixer may end any, as with PulseAudio.
    desk.acknowledged(second, &Command::KillSinkInput(streams[0]));
    assert_eq!(desk.events(first).killed, [streams[0]]);
    desk.disconnect(&programs[0]);
    assert_eq!(desk.server.next_tick(), None);
    let left: Vec<SinkInputInfo> = desk.ask(&mut programs[1], &Command::GetSinkInputInfoList);
    assert!(left.is_empty());
}

#[test]
fn a_program_that_does_not_read_is_disconnected() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let mut props = Props::new();
    for n in 0..4 {
        props.set_bytes(std::ffi::CString::new(format!("key{n}")).unwrap(), vec![b'x'; 2000]);
    }
    desk.send(&mut program, &Command::SetClientName(props));
    desk.events(&program);
    for _ in 0..1000 {
        desk.send(&mut program, &Command::GetClientInfoList);
    }
    let reason = desk.server.ended(program.id).expect("it ends").to_owned();
    assert!(reason.contains("has not read"), "{reason}");
    // Recorded sound is dropped instead.
    let mut program = desk.connect();
    desk.record(&mut program, None, 10 * MS);
    desk.run_for(60_000_000);
    assert!(desk.server.ended(program.id).is_none());
    assert!(desk.server.unread(program.id).len() < 300 << 10);
}

#[test]
fn what_makes_no_sense_is_refused_and_the_rest_goes_on() {
    let mut desk = Desk::listening();
    let stranger = desk.server.connect().unwrap();
    let mut stranger = Program { id: stranger, number: 0 };
    let error = desk.refused(&mut stranger, &Command::GetServerInfo);
    assert_eq!(error, PulseError::AccessDenied, "it has not authenticated");
    let mut program = desk.connect();
    for spec in [
        spec(protocol::SampleFormat::S16Le, 2, 0),
        spec(protocol::SampleFormat::S16Le, 2, 768_000),
        spec(protocol::SampleFormat::S16Le, 0, 48_000),
        spec(protocol::SampleFormat::S16Le, 33, 48_000),
        spec(protocol::SampleFormat::S16Le, 3, 48_000),
        spec(protocol::SampleFormat::Invalid, 2, 48_000),
    ] {
        let cvolume = Some(ChannelVolume::norm(2));
        let (sample_spec, playback) = (spec, program::playback(1000));
        let params = PlaybackStreamParams { sample_spec, cvolume, ..playback };
        assert_eq!(desk.create(&mut program, &params), Err(PulseError::Invalid), "{spec:?}");
        let recording = program::recording(None, 1000);
        let params = RecordStreamParams { sample_spec, cvolume, ..recording };
        let error = desk.refused(&mut program, &Command::CreateRecordStream(params));
        assert_eq!(error, PulseError::Invalid, "{spec:?}");
    }
    for command in [
        Command::LookupSink(c"other".into()),
        Command::GetSinkInputInfo(99),
        Command::FlushPlaybackStream(99),
        Command::KillClient(99),
        Command::GetCardInfo(protocol::GetCardInfo { index: Some(0), name: None }),
    ] {
        assert_eq!(desk.refused(&mut program, &command), PulseError::NoEntity, "{command:?}");
    }
    let load = protocol::LoadModuleParams { name: c"module-pipe-sink".into(), arguments: None };
    assert_eq!(desk.refused(&mut program, &Command::LoadModule(load)), PulseError::AccessDenied);
    // Bytes that are no command end the connection of the program that sent them alone.
    let mut bytes = Vec::new();
    protocol::write_descriptor(
        &mut bytes,
        &protocol::Descriptor {
            length: 4,
            channel: u32::MAX,
            offset: 0,
            flags: protocol::DescriptorFlags::empty(),
        },
    )
    .unwrap();
    bytes.extend(b"what");
    let other = desk.connect();
    desk.server.handle_bytes(other.id, &bytes, desk.now);
    assert!(desk.server.ended(other.id).is_some() && desk.server.ended(program.id).is_none());
}

#[test]
fn a_program_is_known_by_its_name() {
    let mut desk = Desk::listening();
    let mut program = desk.connect();
    let mut props = Props::new();
    props.set(Prop::ApplicationName, c"Player");
    let reply: protocol::SetClientNameReply =
        desk.ask(&mut program, &Command::SetClientName(props));
    let info: protocol::ClientInfo =
        desk.ask(&mut program, &Command::GetClientInfo(reply.client_id));
    assert_eq!(info.name.as_c_str(), c"Player");
    let mut params = program::playback(1000);
    params.props.set(Prop::MediaName, c"Song");
    let stream = desk.create(&mut program, &params).unwrap();
    let info: SinkInputInfo = desk.ask(&mut program, &Command::GetSinkInputInfo(stream.channel));
    assert_eq!((info.name.as_c_str(), info.client_index), (c"Song", Some(reply.client_id)));
    assert_eq!(info.props.get(Prop::ApplicationName), Some(&b"Player\0"[..]));
}
