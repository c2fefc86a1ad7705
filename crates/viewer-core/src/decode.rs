//! Path 11/13: from viewer.rs, to framebuffer.rs.
//! Acts on one message: applies an update's commands in order, and drops updates made for a
//! replaced geometry. Knows messages and the framebuffer; never sockets. A violation of the
//! protocol ends the connection; nothing panics.

use std::collections::VecDeque;

use thinc_clipboard::ClipboardPolicy;
use thinc_codec_dec::{DecodeError, Decoder, StreamUnpacker, cursor};
use thinc_protocol::command::{Command, CommandReader};
use thinc_protocol::framing::MessageFrame;
use thinc_protocol::limits::UPDATE_SCREENS_MAX;
use thinc_protocol::session::{
    CursorBits, CursorColors, CursorImage, PROBE, SessionCaps, SessionMessage, Update,
};
use thinc_protocol::viewer::{ViewerCaps, ViewerHello};
use thinc_protocol::{Micros, VERSION};
use thinc_region::Region;

use crate::cache::GrantedCache;
use crate::clipboard::Clipboard;
use crate::datagram_order::{DatagramOrder, Decision, QueuedUpdate};
use crate::event::{CursorPixels, EventQueue, ViewerEvent};
use crate::files::Files;
use crate::framebuffer::Framebuffer;
use crate::layers::Samples;
use crate::lip_sync::LipSync;
use crate::microphone::MicrophoneChannel;
use crate::outbox::Outbox;
use crate::path_watch::PathWatch;
use crate::picture_quality::QualityChoice;
use crate::sound::SoundChannel;
use crate::stats::ViewerStats;
use crate::stereo::Stereo;
use crate::stream_tail::StreamTail;
use crate::unacked_input::UnackedInput;
use crate::video::Videos;
use crate::video_codecs::VideoCodecs;
use crate::viewer::ViewerError;

/// 8: most unanswered barriers; an answer without a request violates the protocol.
pub(crate) const BARRIERS_LEN_MAX: usize = 8;
/// 4 MiB: largest scratch buffer kept for the commands of a packed update; ours are rarely a tenth
/// of it.
const UNPACKED_BYTES_KEPT: usize = 4 * 1024 * 1024;

/// The state that messages change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) framebuffer: Framebuffer,
    pub(crate) events: EventQueue,
    pub(crate) outbox: Outbox,
    pub(crate) stats: ViewerStats,
    pub(crate) decoder: Decoder,
    pub(crate) cache: GrantedCache,
    pub(crate) clipboard: Clipboard,
    pub(crate) files: Files,
    pub(crate) videos: Videos,
    pub(crate) sound: SoundChannel,
    pub(crate) microphone: MicrophoneChannel,
    pub(crate) quality: QualityChoice,
    pub(crate) stereo: Stereo,
    pub(crate) video_codecs: VideoCodecs,
    pub(crate) lip_sync: LipSync,
    /// Order of updates that arrive as datagrams, if this viewer takes them.
    pub(crate) order: DatagramOrder,
    pub(crate) stream_tail: StreamTail,
    pub(crate) path_watch: PathWatch,
    takes_datagrams: bool,
    unpacker: StreamUnpacker,
    /// The unpacked commands of a packed update.
    unpacked: Vec<u8>,
    pub(crate) greeted: bool,
    pub(crate) closed: bool,
    /// Epoch of the framebuffer; None before the first geometry.
    pub(crate) epoch: Option<u32>,
    /// Newest update received on the stream, applied or dropped.
    pub(crate) last_seq: u64,
    /// The newest update applied and when it arrived, until it is presented.
    pub(crate) unpresented: Option<(u64, Micros)>,
    /// A drawing burst is applied in part: not a moment to present.
    pub(crate) in_frame: bool,
    /// The newest update with `end_of_frame`. As a datagram it may arrive before other updates of
    /// its burst; the last of those then ends it.
    ended_seq: u64,
    /// Input that may not have reached the session.
    pub(crate) unacked_input: UnackedInput,
    /// Sequence number of the newest input.
    pub(crate) last_input: u32,
    /// The session accepts `InputEvent::MotionBy`.
    pub(crate) takes_relative: bool,
    /// It accepts samples of a pen.
    pub(crate) takes_pen: bool,
    /// An application wants it.
    pub(crate) relative_wanted: bool,
    /// The shell knows this connection's gamma tables, or shows none.
    is_gamma_told: bool,
    /// Pixels written since the shell last asked for a pause, roughly.
    pub(crate) work: u64,
    /// Pings in flight and when they were sent, oldest first.
    pub(crate) pings: VecDeque<(u32, Micros)>,
    pub(crate) barriers: Vec<u32>,
    /// Unanswered requests to share.
    pub(crate) share_requests: Vec<u32>,
    /// The viewers' numbers in the newest list of people.
    people: Vec<u32>,
    cursor_bytes: Vec<u8>,
    cursor_bits: Option<TwoColorCursor>,
}

/// The newest two-colour cursor, for which other colours may follow.
#[derive(Debug, Default)]
struct TwoColorCursor {
    image: CursorPixels,
    planes: Vec<u8>,
}

impl TwoColorCursor {
    fn size(&self) -> (usize, usize) {
        (self.image.size.width as usize, self.image.size.height as usize)
    }

    fn paint(&mut self, colors: CursorColors) -> CursorPixels {
        let size = self.size();
        cursor::paint(&self.planes, size, (colors.fore, colors.back), &mut self.image.pixels);
        self.image.clone()
    }
}

/// How many pixels a command writes, or keeps: what its execution costs, whatever its bytes are.
fn work_of(command: &Command<'_>, videos: &Videos) -> u64 {
    match command {
        Command::Copy { region, .. } | Command::Sfill { region, .. } => region.area(),
        Command::Pfill { rect, .. }
        | Command::Bitmap { rect, .. }
        | Command::Raw { rect, .. }
        | Command::Keep { rect, .. }
        | Command::Recall { rect, .. } => rect.area(),
        Command::Video(command) => videos.work_of(command),
    }
}

impl State {
    /// The state before anything was sent or received.
    pub(crate) fn new(clipboard: ClipboardPolicy, hello: ViewerHello) -> State {
        let caps = hello.caps;
        State {
            framebuffer: Framebuffer::default(),
            events: EventQueue::default(),
            outbox: Outbox::new(hello),
            stats: ViewerStats::default(),
            decoder: Decoder::default(),
            cache: GrantedCache::default(),
            clipboard: Clipboard::new(clipboard),
            files: Files::new(caps),
            videos: Videos::new(caps),
            sound: SoundChannel::new(caps),
            microphone: MicrophoneChannel::new(caps),
            quality: QualityChoice::default(),
            stereo: Stereo::default(),
            video_codecs: VideoCodecs::default(),
            lip_sync: LipSync::default(),
            order: DatagramOrder::default(),
            stream_tail: StreamTail::default(),
            path_watch: PathWatch::default(),
            takes_datagrams: caps & ViewerCaps::DATAGRAMS != 0,
            unpacker: StreamUnpacker::default(),
            unpacked: Vec::new(),
            greeted: false,
            closed: false,
            epoch: None,
            last_seq: 0,
            unpresented: None,
            in_frame: false,
            ended_seq: 0,
            unacked_input: UnackedInput::default(),
            last_input: 0,
            takes_relative: false,
            takes_pen: false,
            relative_wanted: false,
            is_gamma_told: caps & ViewerCaps::GAMMA == 0,
            work: 0,
            pings: VecDeque::new(),
            barriers: Vec::new(),
            share_requests: Vec::new(),
            people: Vec::new(),
            cursor_bytes: Vec::new(),
            cursor_bits: None,
        }
    }

    /// Acts on one message.
    pub(crate) fn handle_frame(
        &mut self,
        frame: &MessageFrame<'_>,
        now: Micros,
    ) -> Result<(), ViewerError> {
        let message = SessionMessage::decode(frame)?;
        if !self.greeted && !matches!(message, SessionMessage::Hello(_) | SessionMessage::Close(_))
        {
            return Err(ViewerError::Order("the session's first message is not its hello"));
        }
        // INPUT_RECEIVED directly follows the hello or is absent.
        if !matches!(
            message,
            SessionMessage::Hello(_) | SessionMessage::InputReceived(_) | SessionMessage::Close(_)
        ) {
            self.unacked_input.handle_no_report();
        }
        let mut command_bytes = 0;
        match message {
            SessionMessage::Hello(hello) => {
                if self.greeted {
                    return Err(ViewerError::Order("a second hello"));
                }
                if hello.version == 0 || hello.version > VERSION {
                    return Err(ViewerError::Version { theirs: hello.version, ours: VERSION });
                }
                self.greeted = true;
                self.order.is_on = self.takes_datagrams && hello.caps & SessionCaps::DATAGRAMS != 0;
                self.stream_tail.is_on = self.order.is_on && hello.caps & SessionCaps::EARLY != 0;
                self.takes_relative = hello.caps & SessionCaps::RELATIVE != 0;
                self.takes_pen = hello.caps & SessionCaps::PEN != 0;
                self.clipboard.handle_hello(&hello);
                self.files.handle_hello(&hello);
                self.sound.handle_hello(hello.caps, &mut self.outbox);
                self.microphone.handle_hello(hello.caps);
                self.quality.handle_hello(hello.caps, &mut self.outbox);
                let codecs = self.video_codecs.handle_hello(hello.caps, &mut self.outbox);
                self.videos.announce(codecs);
                if self.stereo.handle_hello(hello.caps, &mut self.outbox) {
                    self.videos.want_right_eye(true, &mut self.framebuffer);
                }
                self.events.push(ViewerEvent::Connected { name: hello.name });
            }
            SessionMessage::Geometry(geometry) => {
                self.epoch = Some(geometry.epoch);
                let (size, shown) = (geometry.size, geometry.shown);
                self.videos.paint_all(&mut self.framebuffer);
                self.framebuffer.reset(size, shown.map_or(size.rect(), |shown| shown.part));
                self.work += size.area();
                self.videos.reset();
                self.order.reset();
                self.in_frame = false;
                self.stats.geometries += 1;
                self.events.push(ViewerEvent::Geometry { size, shown });
            }
            SessionMessage::Update(update) => {
                command_bytes = update.commands.len() as u64;
                self.update(&update, now)?;
            }
            SessionMessage::Cursor(cursor) => self.cursor(&cursor)?,
            SessionMessage::CursorBits(cursor) => self.cursor_bits(&cursor)?,
            SessionMessage::CursorColor(colors) => self.cursor_color(colors)?,
            SessionMessage::CursorMove { x, y } => {
                self.stats.cursor_moves += 1;
                self.events.push(ViewerEvent::CursorMove { x, y });
            }
            SessionMessage::CursorShow(shown) => self.events.push(ViewerEvent::CursorShow(shown)),
            SessionMessage::RelativeWanted(wanted) => {
                self.relative_wanted = wanted;
                self.events.push(ViewerEvent::RelativeWanted(wanted));
            }
            SessionMessage::Gamma(areas) => {
                self.is_gamma_told = true;
                self.events.push(ViewerEvent::Gamma(areas));
            }
            SessionMessage::Pong(number) => {
                // Older pings stay unanswered: of several, a session may answer only the newest.
                let Some(at) = self.pings.iter().position(|&(asked, _)| asked == number) else {
                    return Err(ViewerError::Order("a pong without a ping in flight"));
                };
                let sent = self
                    .pings
                    .drain(..=at)
                    .next_back()
                    .expect("the range holds the ping that was found")
                    .1;
                let round_trip = now.saturating_sub(sent);
                self.stats.pong(round_trip, now);
                self.path_watch.handle_round_trip(round_trip, now);
                self.unacked_input.ponged(number);
            }
            SessionMessage::Barrier(id) => {
                let Some(at) = self.barriers.iter().position(|&asked| asked == id) else {
                    return Err(ViewerError::Order("a barrier that was not requested"));
                };
                self.barriers.remove(at);
                self.videos.hold_barrier(id);
            }
            SessionMessage::Cache(grant) => self.cache.grant(&grant)?,
            SessionMessage::Displays(displays) => self.events.push(ViewerEvent::Displays(displays)),
            SessionMessage::InputReceived(input) => {
                if self.unacked_input.adopts_numbering() {
                    self.last_input = input;
                }
                if !self.unacked_input.handle_received(input, self.last_input, now) {
                    return Err(ViewerError::Order(
                        "input received: it must follow the hello and name input that was sent",
                    ));
                }
            }
            SessionMessage::Clip(message) => {
                self.clipboard.handle(&message, &mut self.stats, now)?
            }
            SessionMessage::File(message) => self.files.handle(&message, now)?,
            SessionMessage::People(people) => {
                self.people = people.people.iter().map(|person| person.number).collect();
                self.events.push(ViewerEvent::People(people));
            }
            SessionMessage::Shared(answer) => {
                let Some(at) = self.share_requests.iter().position(|&id| id == answer.request)
                else {
                    return Err(ViewerError::Order("an answer to no request to share"));
                };
                self.share_requests.remove(at);
                self.events.push(ViewerEvent::Shared(answer));
            }
            SessionMessage::PersonPointer(pointer) => {
                if !self.people.contains(&pointer.number) {
                    return Err(ViewerError::Order("a pointer of nobody in the list of people"));
                }
                self.events.push(ViewerEvent::PersonPointer(pointer));
            }
            SessionMessage::Invitations(invitations) => {
                self.events.push(ViewerEvent::Invitations(invitations))
            }
            SessionMessage::SoundFormat(format) => self.sound.handle_format(format)?,
            SessionMessage::Sound(packet) => self.sound.handle_packet(packet, now)?,
            SessionMessage::SoundPlayers(players) => {
                self.sound.check()?;
                self.events.push(ViewerEvent::Players(players));
            }
            SessionMessage::MicrophoneWant(want) => {
                let event = self.microphone.handle_want(want)?;
                self.events.push(event);
            }
            SessionMessage::Notice(text) => self.events.push(ViewerEvent::Notice(text)),
            SessionMessage::BriefNotice(text) => self.events.push(ViewerEvent::BriefNotice(text)),
            SessionMessage::Graphics(line) => self.events.push(ViewerEvent::Graphics(line)),
            SessionMessage::Name(name) => self.events.push(ViewerEvent::Renamed(name)),
            SessionMessage::ClipPolicy(directions) => {
                self.events.push(ViewerEvent::ClipPolicy(directions))
            }
            SessionMessage::Close(close) => {
                self.closed = true;
                self.events.push(ViewerEvent::Closed {
                    code: close.code,
                    reason: close.reason.to_owned(),
                });
            }
        }
        self.stats.other_bytes += frame.body.len() as u64 - command_bytes;
        self.settle_videos();
        self.apply_ready_updates(now)
    }

    /// An update or sound arrived as a datagram; an update is applied when it is its turn.
    pub(crate) fn handle_datagram(&mut self, bytes: &[u8], now: Micros) -> Result<(), ViewerError> {
        if !self.takes_datagrams || self.greeted && !self.order.is_on {
            return Err(ViewerError::Order("a datagram without the datagram capability"));
        }
        if bytes == PROBE {
            return Ok(()); // a path probe; the transport's acknowledgement answers it
        }
        match SessionMessage::decode(&MessageFrame::from_datagram(bytes)?)? {
            SessionMessage::Update(Update { seq, after, epoch, packed: None, .. }) => {
                self.order.insert(seq, after, epoch, bytes, now);
                self.apply_ready_updates(now)
            }
            SessionMessage::Sound(packet) => self.sound.handle_packet(packet, now),
            _ => Err(ViewerError::Order("a datagram that is no unpacked update and no sound")),
        }
    }

    /// Applies the queued datagram updates that need not wait any longer.
    pub(crate) fn apply_ready_updates(&mut self, now: Micros) -> Result<(), ViewerError> {
        let window = DatagramOrder::window(self.stats.rtt_us);
        while let Some(queued) = self.order.poll(self.epoch, window, now) {
            self.apply_datagram_update(&queued, now)?;
        }
        Ok(())
    }

    fn apply_datagram_update(
        &mut self,
        queued: &QueuedUpdate,
        now: Micros,
    ) -> Result<(), ViewerError> {
        let SessionMessage::Update(update) =
            SessionMessage::decode(&MessageFrame::from_datagram(&queued.frame)?)?
        else {
            unreachable!("handle_datagram queues only updates");
        };
        let mut commands = CommandReader::new(update.commands, self.framebuffer.size());
        let needs_order = |command| {
            matches!(command, Ok(Command::Keep { .. } | Command::Recall { .. } | Command::Video(_)))
        };
        if self.epoch == Some(queued.epoch) && commands.any(needs_order) {
            return Err(ViewerError::Order("KEEP, RECALL or VIDEO in a datagram"));
        }
        let commands =
            CommandReader::new(update.commands, self.framebuffer.size()).map_while(Result::ok);
        match self.order.decide(queued, self.epoch.unwrap_or_default(), commands) {
            Decision::Apply => {
                self.apply(update.commands, now)?;
                // During a drawing burst of the stream, this update is presented at once, too.
                let ends = self.ends_frame(&update);
                let in_frame = self.in_frame && !ends;
                self.applied(&update, ends || !in_frame, now);
                self.in_frame = in_frame;
                self.stats.datagram_updates += 1;
            }
            Decision::Drop => self.stats.updates_dropped += 1,
            Decision::Discard => {
                self.stats.updates_late += 1;
                self.order.discarded(queued.seq, now);
                return Ok(());
            }
        }
        self.order.applied(queued.seq, now);
        self.settle_videos();
        Ok(())
    }

    /// The shell has decoded a frame: it is shown where it is still visible.
    pub(crate) fn handle_video_frame(&mut self, serial: u64, samples: Samples<'_>, now: Micros) {
        if let Some((received, pixels)) =
            self.videos.handle_frame(serial, samples, &mut self.framebuffer, now)
        {
            self.videos.paint_shattered(&mut self.framebuffer);
            self.stats.video_frame_painted(pixels);
            let since = self.unpresented.map_or(received, |(_, since)| since.min(received));
            self.unpresented = Some((self.stats.last_update, since));
            // Otherwise the end of the burst presents both, so that neither is shown in part.
            if !self.in_frame {
                self.events.push(ViewerEvent::FrameEnd);
            }
        }
        self.settle_videos();
    }

    /// Passes on barriers whose frames are all done; called after every change of the waiting
    /// frames.
    pub(crate) fn settle_videos(&mut self) {
        while let Some(barrier) = self.videos.poll_barrier() {
            self.events.push(ViewerEvent::Barrier(barrier));
        }
        self.stats.video = self.videos.stats;
    }

    /// Takes the damage, and brings what is shown of two eyes' pictures up to date there.
    pub(crate) fn take_damage(&mut self) -> Region {
        if self.stereo.composes(self.videos.right_eye()) {
            self.videos.paint_all(&mut self.framebuffer);
        }
        let damage = self.framebuffer.take_damage();
        self.stereo.compose(damage, &self.framebuffer, self.videos.right_eye())
    }

    fn update(&mut self, update: &Update<'_>, now: Micros) -> Result<(), ViewerError> {
        if update.seq <= self.last_seq {
            return Err(ViewerError::Order("update numbers that do not increase"));
        }
        if update.after > self.last_seq && !self.order.is_on {
            return Err(ViewerError::Order("an update before its predecessor"));
        }
        self.last_seq = update.seq;
        // Acknowledged even if dropped: the session's budget counts what has arrived.
        if !self.order.is_on {
            self.outbox.ack(update.seq);
        }
        let unpacked = self.unpack(update)?;
        if self.epoch != Some(update.epoch) {
            self.stats.updates_dropped += 1;
            self.cache.applied(update.seq);
            self.order.applied(update.seq, now);
            return Ok(());
        }
        if unpacked {
            let commands = std::mem::take(&mut self.unpacked);
            let applied = self.apply(&commands, now);
            if commands.capacity() <= UNPACKED_BYTES_KEPT {
                self.unpacked = commands;
            }
            applied?;
        } else {
            self.apply(update.commands, now)?;
        }
        self.cache.applied(update.seq);
        let ends_frame = self.ends_frame(update);
        self.applied(update, ends_frame, now);
        self.order.applied(update.seq, now);
        Ok(())
    }

    /// Whether this update completes its drawing burst, as far as it will arrive.
    fn ends_frame(&mut self, update: &Update<'_>) -> bool {
        let ends = update.end_of_frame;
        if ends {
            self.ended_seq = self.ended_seq.max(update.seq);
        }
        ends || update.seq < self.ended_seq
            && self.order.have_arrived(update.seq + 1..=self.ended_seq)
    }

    /// Accounts for an applied update and its events.
    fn applied(&mut self, update: &Update<'_>, ends_frame: bool, now: Micros) {
        self.stats.updates += 1;
        self.stats.last_update = self.stats.last_update.max(update.seq);
        let since = self.unpresented.map_or(now, |(_, since)| since);
        self.unpresented = Some((self.stats.last_update, since));
        if let Some(seq) = update.echo
            && let Some(latency_us) = self.stats.echo_applied(seq, now)
        {
            self.events.push(ViewerEvent::Echo { seq, latency_us });
        }
        self.in_frame = !ends_frame;
        if ends_frame {
            self.stats.frames += 1;
            // A session sends none that change nothing. What the shell still shows by those of the
            // last connection has been replaced now.
            if !std::mem::replace(&mut self.is_gamma_told, true) {
                self.events.push(ViewerEvent::Gamma(Vec::new()));
            }
            self.events.push(ViewerEvent::FrameEnd);
        }
    }

    /// Unpacks the update's commands even if it will be dropped: the packed stream's next update
    /// refers to this one. True if `unpacked` holds the commands.
    fn unpack(&mut self, update: &Update<'_>) -> Result<bool, DecodeError> {
        let Some(packed) = update.packed else { return Ok(false) };
        self.unpacker.unpack(packed, update.commands, &mut self.unpacked)?;
        self.stats.packed_updates += 1;
        self.stats.packed_bytes += update.commands.len() as u64;
        self.stats.unpacked_bytes += self.unpacked.len() as u64;
        Ok(true)
    }

    fn apply(&mut self, commands: &[u8], now: Micros) -> Result<(), ViewerError> {
        let mut reader = CommandReader::new(commands, self.framebuffer.size());
        let mut rest = reader.rest_len();
        let work_max = UPDATE_SCREENS_MAX * self.framebuffer.size().area();
        let mut work = 0;
        while let Some(command) = reader.next() {
            let command = command?;
            work += work_of(&command, &self.videos);
            if work > work_max {
                return Err(ViewerError::Work);
            }
            if !self.videos.is_beside_framebuffer(&command) {
                self.order.note(&command);
            }
            match &command {
                Command::Keep { rect, .. } => {
                    self.videos.before_read(&(*rect).into(), &mut self.framebuffer)
                }
                Command::Copy { region, dx, dy } => {
                    self.videos.before_read(&region.translated(-dx, -dy), &mut self.framebuffer);
                }
                _ => {}
            }
            let pixels = match &command {
                Command::Keep { rect, slot } => {
                    self.cache.keep(rect, *slot, &self.framebuffer)?;
                    0
                }
                Command::Recall { rect, slot } => {
                    self.cache.recall(rect, *slot, &mut self.framebuffer)?;
                    rect.area()
                }
                Command::Video(command) => {
                    self.videos.apply(command, &mut self.framebuffer, now)?
                }
                command => self.framebuffer.apply(command, &mut self.decoder)?,
            };
            match &command {
                Command::Copy { region, .. } | Command::Sfill { region, .. } => {
                    self.videos.written(region)
                }
                Command::Pfill { rect, .. }
                | Command::Bitmap { rect, .. }
                | Command::Raw { rect, .. }
                | Command::Recall { rect, .. } => self.videos.written_rect(rect),
                Command::Keep { .. } | Command::Video(_) => {}
            }
            self.videos.paint_shattered(&mut self.framebuffer);
            self.stats.count_command(&command, (rest - reader.rest_len()) as u64, pixels);
            rest = reader.rest_len();
        }
        self.work += work;
        Ok(())
    }

    fn cursor(&mut self, cursor: &CursorImage<'_>) -> Result<(), ViewerError> {
        self.stats.cursors += 1;
        self.cursor_bits = None;
        self.cursor_bytes.clear();
        if cursor.size.area() > 0 {
            let len = cursor.size.area() as usize * 4;
            self.decoder.unzstd(cursor.pixels, len, &mut self.cursor_bytes)?;
        }
        let pixels = self
            .cursor_bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&bytes| u32::from_le_bytes(bytes))
            .collect();
        self.events.push(ViewerEvent::Cursor(CursorPixels {
            size: cursor.size,
            hot_x: cursor.hot_x,
            hot_y: cursor.hot_y,
            pixels,
        }));
        Ok(())
    }

    fn cursor_bits(&mut self, cursor: &CursorBits<'_>) -> Result<(), ViewerError> {
        self.stats.cursors += 1;
        let (size, hot_x, hot_y) = (cursor.size, cursor.hot_x, cursor.hot_y);
        let image = CursorPixels { size, hot_x, hot_y, pixels: Vec::new() };
        let mut bits = TwoColorCursor { image, planes: Vec::new() };
        self.decoder.cursor_planes(
            cursor.compression,
            cursor.planes,
            bits.size(),
            &mut bits.planes,
        )?;
        self.events.push(ViewerEvent::Cursor(bits.paint(cursor.colors)));
        self.cursor_bits = Some(bits);
        Ok(())
    }

    fn cursor_color(&mut self, colors: CursorColors) -> Result<(), ViewerError> {
        self.stats.cursor_colors += 1;
        let Some(bits) = &mut self.cursor_bits else {
            return Err(ViewerError::Order("colours without a two-colour cursor"));
        };
        self.events.push(ViewerEvent::Cursor(bits.paint(colors)));
        Ok(())
    }
}
