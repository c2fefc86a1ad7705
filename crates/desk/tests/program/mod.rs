//! A program as the tests of the sound server play it: commands, and what it reads of answers.
//! Beside server.rs. Knows PulseAudio's protocol from a program's side.

// Not every test uses everything.
#![allow(dead_code, unreachable_pub)]

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::Cursor;

use pulseaudio::protocol::stream::BufferAttr;
use pulseaudio::protocol::{
    self, AuthParams, AuthReply, ChannelMap, Command, CommandReply, CreatePlaybackStreamReply,
    CreateRecordStreamReply, DESCRIPTOR_SIZE, MAX_VERSION, PlaybackStreamParams, ProtocolError,
    PulseError, RecordStreamParams, SampleFormat, SampleSpec, SubscriptionEvent,
};
use thinc_desk::link::{Frame, Micros, Wish};
use thinc_desk::{ClientId, Server};

pub const S16_STEREO: SampleSpec =
    SampleSpec { format: SampleFormat::S16Le, channels: 2, sample_rate: 48_000 };
/// Bytes of a sample of left and right.
pub const FRAME: usize = 4;

pub fn spec(format: SampleFormat, channels: u8, sample_rate: u32) -> SampleSpec {
    SampleSpec { format, channels, sample_rate }
}

/// A stream with a queue of this many bytes.
pub fn playback(target: usize) -> PlaybackStreamParams {
    PlaybackStreamParams {
        sample_spec: S16_STEREO,
        channel_map: ChannelMap::stereo(),
        buffer_attr: BufferAttr { target_length: target as u32, ..Default::default() },
        ..Default::default()
    }
}

/// A recording in pieces of this many bytes.
pub fn recording(source: Option<&CStr>, fragment: usize) -> RecordStreamParams {
    RecordStreamParams {
        sample_spec: S16_STEREO,
        channel_map: ChannelMap::stereo(),
        source_name: source.map(Into::into),
        buffer_attr: BufferAttr { fragment_size: fragment as u32, ..Default::default() },
        ..Default::default()
    }
}

/// Half of full scale in both channels; gives so many samples with each call.
pub fn sine(hz: f64, rate: u32) -> impl FnMut(usize) -> Vec<u8> {
    let mut n = 0u64;
    move |frames| {
        let mut bytes = Vec::with_capacity(frames * FRAME);
        for _ in 0..frames {
            let phase = std::f64::consts::TAU * hz * n as f64 / f64::from(rate);
            let sample = (phase.sin() * 16_384.0).round() as i16;
            bytes.extend(sample.to_le_bytes());
            bytes.extend(sample.to_le_bytes());
            n += 1;
        }
        bytes
    }
}

pub struct Program {
    pub id: ClientId,
    pub number: u32,
}

#[derive(Debug, PartialEq)]
pub struct Stream {
    pub channel: u32,
    pub requested: u32,
    pub device: u32,
}

/// What a program has read besides answers.
#[derive(Debug, Default)]
pub struct Events {
    pub started: usize,
    pub underflows: usize,
    pub overflows: usize,
    /// Bytes that were asked for.
    pub requested: u32,
    pub requests: Vec<(u32, u32)>,
    pub killed: Vec<u32>,
    pub changes: Vec<SubscriptionEvent>,
    pub recorded: Vec<(u32, Vec<u8>)>,
    pub acknowledged: Vec<u32>,
    replies: HashMap<u32, Vec<u8>>,
    errors: HashMap<u32, PulseError>,
}

pub struct Desk {
    pub server: Server,
    pub now: Micros,
    frames: Vec<Frame>,
    events: std::cell::RefCell<HashMap<ClientId, Events>>,
}

impl Desk {
    pub const START: Micros = 1_000_000;

    /// A sound server with a viewer that listens.
    pub fn listening() -> Desk {
        let mut server = Server::new(c"user".into(), c"host".into());
        server.set_wish(Wish { listening: true, latency: 0 }, Desk::START);
        Desk { server, now: Desk::START, frames: Vec::new(), events: Default::default() }
    }

    pub fn connect(&mut self) -> Program {
        let id = self.server.connect().expect("there is room");
        let mut program = Program { id, number: 0 };
        let auth = AuthParams { version: MAX_VERSION, ..Default::default() };
        let reply: AuthReply = self.ask(&mut program, &Command::Auth(auth));
        assert!(!reply.use_shm && !reply.use_memfd);
        program
    }

    pub fn disconnect(&mut self, program: &Program) {
        self.server.disconnect(program.id, self.now);
    }

    /// Lets time pass, with each tick when it is due.
    pub fn run_for(&mut self, micros: Micros) {
        let end = self.now + micros;
        while let Some(next) = self.server.next_tick().filter(|&next| next <= end) {
            self.now = self.now.max(next);
            self.server.tick(self.now, &mut self.frames);
        }
        self.now = end;
    }

    /// The frames since the last call.
    pub fn frames(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.frames)
    }

    pub fn send(&mut self, program: &mut Program, command: &Command) -> u32 {
        program.number += 1;
        let mut bytes = Vec::new();
        protocol::write_command_message(&mut bytes, program.number, command, MAX_VERSION).unwrap();
        self.server.handle_bytes(program.id, &bytes, self.now);
        program.number
    }

    pub fn write(&mut self, program: &Program, channel: u32, sound: &[u8]) {
        let mut bytes = Vec::new();
        protocol::write_memblock(&mut bytes, channel, sound, 0).unwrap();
        self.server.handle_bytes(program.id, &bytes, self.now);
    }

    /// Writes exactly what is asked for, for so many milliseconds.
    pub fn answer_requests(
        &mut self,
        ms: u64,
        program: &Program,
        channel: u32,
        source: &mut dyn FnMut(usize) -> Vec<u8>,
    ) {
        for _ in 0..ms {
            self.run_for(1_000);
            self.read(program.id);
            let requests =
                std::mem::take(&mut self.events.get_mut().entry(program.id).or_default().requests);
            for (wanted, bytes) in requests {
                if wanted == channel {
                    let sound = source(bytes as usize / FRAME);
                    self.write(program, channel, &sound);
                }
            }
        }
    }

    /// What the program has to read, as events and answers.
    fn read(&mut self, id: ClientId) {
        let mut cursor = Cursor::new(self.server.unread(id).to_vec());
        let length = cursor.get_ref().len();
        let events = self.events.get_mut().entry(id).or_default();
        while (cursor.position() as usize) < length {
            let head = protocol::read_descriptor(&mut cursor).unwrap();
            let start = cursor.position() as usize;
            let end = start + head.length as usize;
            let bytes = cursor.get_ref()[start..end].to_vec();
            cursor.set_position(end as u64);
            if head.channel != u32::MAX {
                events.recorded.push((head.channel, bytes));
                continue;
            }
            let mut message = Cursor::new(bytes);
            let (number, command) = Command::read_tag_prefixed(&mut message, MAX_VERSION).unwrap();
            match command {
                Command::Reply if message.get_ref().len() == 10 => events.acknowledged.push(number),
                Command::Reply => {
                    let mut whole = cursor.get_ref()[start - DESCRIPTOR_SIZE..end].to_vec();
                    whole.shrink_to_fit();
                    events.replies.insert(number, whole);
                }
                Command::Error(error) => drop(events.errors.insert(number, error)),
                Command::Started(_) => events.started += 1,
                Command::Underflow(_) => events.underflows += 1,
                Command::Overflow(_) => events.overflows += 1,
                Command::Request(request) => {
                    events.requested += request.length;
                    events.requests.push((request.channel, request.length));
                }
                Command::PlaybackStreamKilled(index) | Command::RecordStreamKilled(index) => {
                    events.killed.push(index);
                }
                Command::SubscribeEvent(event) => events.changes.push(event),
                other => panic!("unexpected {other:?}"),
            }
        }
        self.server.was_read(id, length);
    }

    /// Reads what there is for a program, to be returned by `events` later.
    pub fn collect(&mut self, program: &Program) {
        self.read(program.id);
    }

    /// What the program has read since the last call.
    pub fn events(&mut self, program: &Program) -> Events {
        self.read(program.id);
        self.events.get_mut().remove(&program.id).unwrap_or_default()
    }

    fn answer<R: CommandReply>(&mut self, id: ClientId, number: u32) -> Result<R, PulseError> {
        self.read(id);
        let events = self.events.get_mut().entry(id).or_default();
        if let Some(error) = events.errors.remove(&number) {
            return Err(error);
        }
        // A list without entries has no bytes, like an acknowledgement.
        let empty = || {
            let mut bytes = Vec::new();
            protocol::write_ack_message(&mut bytes, number).unwrap();
            bytes
        };
        let is_acknowledged = events.acknowledged.contains(&number);
        let bytes = events.replies.remove(&number).or(is_acknowledged.then(empty));
        let bytes = bytes.expect("it is answered at once");
        match protocol::read_reply_message(&mut Cursor::new(bytes), MAX_VERSION) {
            Ok((_, reply)) => Ok(reply),
            Err(ProtocolError::ServerError(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    pub fn ask<R: CommandReply>(&mut self, program: &mut Program, command: &Command) -> R {
        let number = self.send(program, command);
        self.answer(program.id, number).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    pub fn acknowledged(&mut self, program: &mut Program, command: &Command) {
        let number = self.send(program, command);
        self.read(program.id);
        let events = self.events.get_mut().entry(program.id).or_default();
        assert!(events.acknowledged.contains(&number), "{command:?}: {:?}", events.errors);
    }

    pub fn refused(&mut self, program: &mut Program, command: &Command) -> PulseError {
        let number = self.send(program, command);
        self.read(program.id);
        let events = self.events.get_mut().entry(program.id).or_default();
        events.errors.remove(&number).unwrap_or_else(|| panic!("{command:?} was not refused"))
    }

    pub fn create(
        &mut self,
        program: &mut Program,
        params: &PlaybackStreamParams,
    ) -> Result<Stream, PulseError> {
        let number = self.send(program, &Command::CreatePlaybackStream(params.clone()));
        let reply: CreatePlaybackStreamReply = self.answer(program.id, number)?;
        assert_eq!(reply.sample_spec, params.sample_spec);
        Ok(Stream {
            channel: reply.channel,
            requested: reply.requested_bytes,
            device: reply.sink_index,
        })
    }

    pub fn play(&mut self, program: &mut Program, target: usize) -> Stream {
        self.create(program, &playback(target)).unwrap()
    }

    pub fn record(
        &mut self,
        program: &mut Program,
        source: Option<&CStr>,
        fragment: usize,
    ) -> Stream {
        let command = Command::CreateRecordStream(recording(source, fragment));
        let reply: CreateRecordStreamReply = self.ask(program, &command);
        Stream { channel: reply.channel, requested: 0, device: reply.sink_index }
    }
}
