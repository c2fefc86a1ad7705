//! The sound server without its sockets: programs, their streams, and when sound is due. From
//! process.rs, which brings programs' bytes and the time, to link.rs. Knows no sockets and no
//! clock: `now` is an argument, so that conversations of real programs can be replayed.
//!
//! What programs write is read in blocks of 5 ms, when they are due. Nothing is due while nobody
//! plays or records: then there is no clock, and nothing wakes the process.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

use pulseaudio::protocol::{
    self, Command, CommandReply, Prop, Props, PulseError, Request, SubscriptionEvent,
    SubscriptionEventFacility, SubscriptionEventType, SubscriptionMask, Underflow,
};

use crate::devices;
use crate::link::{CHANNELS, Frame, MicrophoneBlock, Micros, PLAYERS_MAX, Wish};
use crate::message::{self, Deframer, Message, Seek};
use crate::microphone::Microphone;
use crate::mixer::{Frames, Output};
use crate::playback::Playback;
use crate::record::{Record, Source};
use crate::resample::{BLOCK, Block};

/// What a program is called that does not say its name.
const UNNAMED: &str = "A program";
/// Programs at a time.
const CLIENTS_MAX: usize = 64;
/// Streams at a time, of all programs together.
pub(crate) const STREAMS_MAX: usize = 64;
/// What all queues together may hold; a program that writes more is told of an overflow.
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// What a program has not read of answers and events; with more it is disconnected. The longest
/// answer, a list of all streams with the longest properties, has 1.2 MiB.
const UNREAD_BYTES_MAX: usize = 2 << 20;
/// What it has not read when recorded sound is dropped instead.
const UNREAD_RECORDED_MAX: usize = 256 << 10;
/// Duration of a block.
pub(crate) const BLOCK_TIME: Micros = 5_000;
/// PipeWire's tunnel keeps the latency that it is told of at a fixed value, by playing faster or
/// slower: it is told what it can change.
const TUNNEL: &CStr = c"org.pipewire.PipeWire";
/// A process that was stopped for longer than this leaves time out, instead of playing faster.
const LATE_BLOCKS_MAX: u64 = 40;

/// A program's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(crate) u32);

/// A program.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Of the protocol; 0 until it has authenticated.
    pub(crate) version: u16,
    pub(crate) props: Props,
    pub(crate) subscribed: SubscriptionMask,
    deframer: Deframer,
    unread: Vec<u8>,
    /// Why it is disconnected.
    ended: Option<String>,
}

/// When blocks are due.
#[derive(Clone, Copy, Debug)]
struct Clock {
    started: Micros,
    /// Blocks that were made.
    blocks: u64,
}

impl Clock {
    /// The end of the last block.
    fn time(self) -> Micros {
        self.started + self.blocks * BLOCK_TIME
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Server {
    pub(crate) user: CString,
    pub(crate) host: CString,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    pub(crate) playbacks: BTreeMap<u32, (ClientId, Playback)>,
    pub(crate) records: BTreeMap<u32, (ClientId, Record)>,
    pub(crate) output: Output,
    /// The volume of the microphone.
    pub(crate) input: Output,
    pub(crate) microphone: Microphone,
    pub(crate) wish: Wish,
    next_index: u32,
    clock: Option<Clock>,
    /// Blocks between two ticks.
    step: u64,
    frames: Frames,
    /// Programs with something to read, or whose connection ends.
    ready: Vec<ClientId>,
    /// The streams that are heard, and whether the session process was told of them.
    heard: Vec<u32>,
    is_heard_told: bool,
}

impl Server {
    /// Without programs. The names are what programs are told.
    pub fn new(user: CString, host: CString) -> Server {
        Server {
            user,
            host,
            clients: BTreeMap::new(),
            playbacks: BTreeMap::new(),
            records: BTreeMap::new(),
            output: Output::new(),
            input: Output::new(),
            microphone: Microphone::default(),
            wish: Wish::default(),
            next_index: 0,
            clock: None,
            step: 1,
            frames: Frames::default(),
            ready: Vec::new(),
            heard: Vec::new(),
            is_heard_told: true,
        }
    }

    /// A program has connected; `None` if there are too many.
    pub fn connect(&mut self) -> Option<ClientId> {
        if self.clients.len() >= CLIENTS_MAX {
            return None;
        }
        let id = ClientId(self.take_index());
        self.clients.insert(id, Client::default());
        Some(id)
    }

    /// A program is gone.
    pub fn disconnect(&mut self, id: ClientId, now: Micros) {
        let Some(client) = self.clients.remove(&id) else { return };
        let playbacks: Vec<u32> = self
            .playbacks
            .iter()
            .filter_map(|(&index, &(owner, _))| (owner == id).then_some(index))
            .collect();
        playbacks.into_iter().for_each(|index| self.remove_playback(index));
        let records: Vec<u32> = self
            .records
            .iter()
            .filter_map(|(&index, &(owner, _))| (owner == id).then_some(index))
            .collect();
        records.into_iter().for_each(|index| self.remove_record(index));
        if client.version > 0 {
            self.announce(SubscriptionEventFacility::Client, SubscriptionEventType::Removed, id.0);
        }
        self.update(now);
    }

    /// What a program has to read.
    pub fn unread(&self, id: ClientId) -> &[u8] {
        self.clients.get(&id).map_or(&[], |client| &client.unread)
    }

    /// It has read so much of it.
    pub fn was_read(&mut self, id: ClientId, bytes: usize) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.unread.drain(..bytes);
            if client.unread.is_empty() && client.unread.capacity() > UNREAD_RECORDED_MAX {
                client.unread = Vec::new();
            }
        }
    }

    /// Why its connection is to end.
    pub fn ended(&self, id: ClientId) -> Option<&str> {
        self.clients.get(&id)?.ended.as_deref()
    }

    /// Programs for which `unread` or `ended` has news.
    pub fn take_ready(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.ready)
    }

    /// Names of the programs that play now, each once; those that began first come first.
    pub fn players(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for index in &self.heard {
            let Some((client, playback)) = self.playbacks.get(index) else { continue };
            let own = playback.described.props.get(Prop::ApplicationName);
            let of_client = || self.clients.get(client)?.props.get(Prop::ApplicationName);
            let name = devices::text(own.or_else(of_client)).to_string_lossy().into_owned();
            let name = if name.is_empty() { UNNAMED.to_owned() } else { name };
            if names.len() < PLAYERS_MAX && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The same, if it has changed since this was asked last.
    pub fn take_players(&mut self) -> Option<Vec<String>> {
        let is_told = std::mem::replace(&mut self.is_heard_told, true);
        (!is_told).then(|| self.players())
    }

    /// What the session process wants.
    pub fn set_wish(&mut self, wish: Wish, now: Micros) {
        if !wish.listening {
            self.frames.stop();
        }
        self.wish = wish;
        self.update(now);
    }

    /// What it wanted last.
    pub fn wish(&self) -> Wish {
        self.wish
    }

    /// The session process has connected; what its predecessor was asked for does not come.
    pub fn handle_link(&mut self) {
        self.microphone.handle_link();
    }

    /// What the viewer's microphone hears, or silence.
    pub fn handle_microphone(&mut self, block: MicrophoneBlock) {
        self.microphone.push(block);
    }

    /// For how many blocks of the microphone the session process is to be asked; 0: nobody records
    /// any more. None: there is nothing to say.
    pub fn take_microphone_request(&mut self) -> Option<u8> {
        self.microphone.take_request(self.step as usize)
    }

    /// Bytes of a program.
    pub fn handle_bytes(&mut self, id: ClientId, bytes: &[u8], now: Micros) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let mut deframer = std::mem::take(&mut client.deframer);
        deframer.push(bytes);
        while self.ended(id).is_none() {
            match deframer.next() {
                Ok(Some(Message::Command(bytes))) => self.handle_command(id, bytes, now),
                Ok(Some(Message::Data { channel, seek, offset, bytes })) => {
                    self.handle_data(id, channel, seek, offset, bytes);
                }
                Ok(None) => break,
                Err(error) => self.end(id, error.to_string()),
            }
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.deframer = deframer;
        }
        self.update(now);
    }

    fn handle_command(&mut self, id: ClientId, bytes: &[u8], now: Micros) {
        let version = self.clients[&id].version.max(protocol::MIN_VERSION);
        let (number, command) = match message::read_command(bytes, version) {
            Ok(command) => command,
            Err(error) => return self.end(id, error.to_string()),
        };
        let result = match command {
            Some(command) => self.execute(id, number, command, now),
            None => Err(PulseError::NotImplemented),
        };
        if let Err(error) = result {
            self.write(id, |unread, _| protocol::write_error(unread, number, &error));
        }
    }

    fn handle_data(&mut self, id: ClientId, index: u32, seek: Seek, offset: i64, bytes: &[u8]) {
        let queued: usize =
            self.playbacks.values().map(|(_, playback)| playback.queue.capacity()).sum();
        // Sound for a stream that was removed meanwhile.
        let Some((owner, playback)) = self.playbacks.get_mut(&index) else { return };
        if *owner != id {
            return;
        }
        let is_stored = queued + bytes.len() <= QUEUED_BYTES_MAX
            && playback.queue.write(seek, offset, bytes).is_ok();
        if !is_stored {
            self.tell(id, &Command::Overflow(index));
        }
    }

    /// When `tick` has to be called next.
    pub fn next_tick(&self) -> Option<Micros> {
        let clock = self.clock?;
        let next = (clock.blocks / self.step + 1) * self.step;
        Some(clock.started + next * BLOCK_TIME)
    }

    /// Reads from the streams what is due, and adds frames for the session process.
    pub fn tick(&mut self, now: Micros, frames: &mut Vec<Frame>) {
        let Some(mut clock) = self.clock else { return };
        let due = now.saturating_sub(clock.started) / BLOCK_TIME;
        if due > clock.blocks + LATE_BLOCKS_MAX {
            clock.started += (due - clock.blocks - 1) * BLOCK_TIME;
            self.frames.skip();
        }
        while clock.time() + BLOCK_TIME <= now {
            self.render(clock.time(), frames);
            clock.blocks += 1;
        }
        self.clock = Some(clock);
        self.send_recorded();
        self.update(now);
    }

    /// Makes one block.
    fn render(&mut self, time: Micros, frames: &mut Vec<Frame>) {
        let (mut mix, mut block): (Block, Block) =
            ([0.0; BLOCK * CHANNELS], [0.0; BLOCK * CHANNELS]);
        let mut news = Vec::new();
        for (&index, (client, playback)) in &mut self.playbacks {
            let rendered = playback.render(&mut block);
            if rendered.is_filled {
                mix.iter_mut().zip(&block).for_each(|(sum, sample)| *sum += sample);
            } else {
                block.fill(0.0);
            }
            for (_, record) in self.records.values_mut() {
                if record.only == Some(index) {
                    record.push(&block);
                }
            }
            if rendered.has_started {
                news.push((*client, Command::Started(index)));
            }
            if rendered.has_underrun {
                let offset = playback.queue.read_offset();
                news.push((*client, Command::Underflow(Underflow { channel: index, offset })));
            }
            for number in rendered.drained {
                write(self.clients.get_mut(client), &mut self.ready, *client, |unread, _| {
                    protocol::write_ack_message(unread, number)
                });
            }
        }
        self.output.finish(&mut mix);
        self.microphone.read(&mut block);
        self.input.finish(&mut block);
        for (_, record) in self.records.values_mut() {
            match record.source {
                _ if record.only.is_some() => {}
                Source::Monitor => record.push(&mix),
                Source::Microphone => record.push(&block),
            }
        }
        if self.wish.listening {
            self.frames.push(&mix, time, frames);
        }
        for (client, command) in news {
            self.tell(client, &command);
        }
    }

    fn send_recorded(&mut self) {
        for (&index, (id, record)) in &mut self.records {
            let mut client = self.clients.get_mut(id);
            let ready = &mut self.ready;
            record.take_fragments(|piece| {
                let client = client.as_deref_mut();
                if client.as_ref().is_some_and(|c| c.unread.len() < UNREAD_RECORDED_MAX) {
                    write(client, ready, *id, |unread, _| {
                        protocol::write_memblock(unread, index, piece, 0)
                    });
                }
            });
        }
    }

    /// Asks programs for sound, and starts or stops the clock.
    fn update(&mut self, now: Micros) {
        let mut requests = Vec::new();
        let mut needs_tick = self.frames.is_sending();
        // The time within which a stream has to be served.
        let mut shortest = Micros::MAX;
        for (&index, (client, playback)) in &mut self.playbacks {
            if let Some(length) = playback.queue.take_request() {
                requests.push((*client, Request { channel: index, length }));
            }
            if playback.needs_tick() {
                needs_tick = true;
                shortest = shortest.min(playback.duration(playback.queue.sizes().target) / 4);
            }
        }
        for (client, request) in requests {
            self.tell(client, &Command::Request(request));
        }
        for (_, record) in self.records.values().filter(|(_, record)| record.needs_tick()) {
            needs_tick = true;
            shortest = shortest.min(record.duration(record.fragment()));
        }
        let heard = || {
            let heard = self.playbacks.iter().filter(|(_, (_, playback))| playback.is_heard());
            heard.map(|(&index, _)| index)
        };
        if !heard().eq(self.heard.iter().copied()) {
            (self.heard, self.is_heard_told) = (heard().collect(), false);
        }
        let is_recorded = self.records.values().any(|(_, record)| record.needs_microphone());
        self.microphone.set_recorded(is_recorded);
        self.step = blocks_per_tick(shortest, self.wish.listening);
        match self.clock {
            None if needs_tick => self.clock = Some(Clock { started: now, blocks: 0 }),
            Some(_) if !needs_tick => {
                self.clock = None;
                self.frames.stop();
            }
            _ => {}
        }
    }

    /// How long what was read last takes to be heard, and is not yet; as programs are told.
    pub(crate) fn latency(&self, now: Micros) -> Micros {
        self.latency_before(self.wish.latency, now)
    }

    /// The same, as this one is told.
    pub(crate) fn latency_for(&self, id: ClientId, now: Micros) -> Micros {
        let after = if self.is_tunnel(id) { 0 } else { self.wish.latency };
        self.latency_before(after, now)
    }

    /// The same with so much after this process.
    fn latency_before(&self, after: Micros, now: Micros) -> Micros {
        // Between two ticks it falls, as the offset of what was read does not rise.
        let since = self.clock.map_or(0, |clock| now.saturating_sub(clock.time()));
        (after + self.step * BLOCK_TIME).saturating_sub(since)
    }

    fn is_tunnel(&self, id: ClientId) -> bool {
        let application = |client: &Client| devices::text(client.props.get(Prop::ApplicationId));
        self.clients.get(&id).is_some_and(|client| application(client).as_c_str() == TUNNEL)
    }

    pub(crate) fn take_index(&mut self) -> u32 {
        let index = self.next_index;
        // After four billion streams an index may be in use: it is skipped.
        loop {
            self.next_index = (self.next_index + 1) % (u32::MAX - 1);
            let next = self.next_index;
            if !self.clients.contains_key(&ClientId(next))
                && !self.playbacks.contains_key(&next)
                && !self.records.contains_key(&next)
            {
                return index;
            }
        }
    }

    pub(crate) fn remove_playback(&mut self, index: u32) {
        if self.playbacks.remove(&index).is_none() {
            return;
        }
        self.announce(SubscriptionEventFacility::SinkInput, SubscriptionEventType::Removed, index);
        let orphans: Vec<u32> = self
            .records
            .iter()
            .filter(|(_, (_, record))| record.only == Some(index))
            .map(|(&index, _)| index)
            .collect();
        for index in orphans {
            let (client, _) = self.records[&index];
            self.remove_record(index);
            self.tell(client, &Command::RecordStreamKilled(index));
        }
    }

    pub(crate) fn remove_record(&mut self, index: u32) {
        if self.records.remove(&index).is_some() {
            let facility = SubscriptionEventFacility::SourceOutput;
            self.announce(facility, SubscriptionEventType::Removed, index);
        }
    }

    /// Ends a program's connection.
    pub(crate) fn end(&mut self, id: ClientId, reason: String) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.ended.get_or_insert(reason);
            self.ready.push(id);
        }
    }

    /// Tells who has subscribed to it.
    pub(crate) fn announce(
        &mut self,
        event_facility: SubscriptionEventFacility,
        event_type: SubscriptionEventType,
        index: u32,
    ) {
        let bit = SubscriptionMask::from_bits_truncate(1 << event_facility as u32);
        let event = SubscriptionEvent { event_facility, event_type, index: Some(index) };
        let event = Command::SubscribeEvent(event);
        for (&id, client) in &mut self.clients {
            if client.subscribed.contains(bit) {
                tell(Some(client), &mut self.ready, id, &event);
            }
        }
    }

    pub(crate) fn tell(&mut self, id: ClientId, command: &Command) {
        tell(self.clients.get_mut(&id), &mut self.ready, id, command);
    }

    pub(crate) fn reply<R: CommandReply>(&mut self, id: ClientId, number: u32, reply: &R) {
        self.write(id, |unread, version| {
            protocol::write_reply_message(unread, number, reply, version)
        });
    }

    pub(crate) fn acknowledge(&mut self, id: ClientId, number: u32) {
        self.write(id, |unread, _| protocol::write_ack_message(unread, number));
    }

    fn write(
        &mut self,
        id: ClientId,
        message: impl FnOnce(&mut Vec<u8>, u16) -> Result<(), protocol::ProtocolError>,
    ) {
        write(self.clients.get_mut(&id), &mut self.ready, id, message);
    }
}

/// Blocks between two ticks: one for streams with short queues, else as many as save wake-ups. A
/// frame for viewers has two.
fn blocks_per_tick(shortest: Micros, listening: bool) -> u64 {
    let most = if listening { 2 } else { 4 };
    match shortest / BLOCK_TIME {
        0 | 1 => 1,
        2 | 3 => 2,
        _ => most,
    }
}

/// A message without a question.
fn tell(client: Option<&mut Client>, ready: &mut Vec<ClientId>, id: ClientId, command: &Command) {
    write(client, ready, id, |unread, version| {
        protocol::write_command_message(unread, u32::MAX, command, version)
    });
}

fn write(
    client: Option<&mut Client>,
    ready: &mut Vec<ClientId>,
    id: ClientId,
    message: impl FnOnce(&mut Vec<u8>, u16) -> Result<(), protocol::ProtocolError>,
) {
    let Some(client) = client else { return };
    if client.unread.is_empty() {
        ready.push(id);
    }
    message(&mut client.unread, client.version).expect("memory can be written to");
    if client.unread.len() > UNREAD_BYTES_MAX && client.ended.is_none() {
        client.ended = Some(format!("it has not read {} bytes", client.unread.len()));
        ready.push(id);
    }
}
