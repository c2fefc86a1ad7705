//! Path 11/13: from viewer.rs, to framebuffer.rs.
//! One frame's meaning: commands are applied in order, what belongs to another size of the screen is dropped and said.
//! Knows messages and the framebuffer; never sockets. What breaks the protocol ends the connection, nothing panics.

use std::collections::VecDeque;

use thinc_clipboard::ClipboardPolicy;
use thinc_codec_dec::{DecodeError, Decoder, StreamUnpacker, cursor};
use thinc_protocol::command::{Command, CommandReader};
use thinc_protocol::frame::Frame;
use thinc_protocol::session::{ASK, CursorBits, CursorColors, CursorImage, SessionCaps, SessionMessage, Update};
use thinc_protocol::viewer::{ViewerCaps, ViewerHello};
use thinc_protocol::{Micros, VERSION};

use crate::cache::Granted;
use crate::clipboard::Clipboard;
use crate::early::Repeats;
use crate::event::{CursorPixels, Events, ViewerEvent};
use crate::framebuffer::Framebuffer;
use crate::layers::Samples;
use crate::order::{Held, Order, Turn};
use crate::outbox::Outbox;
use crate::stats::ViewerStats;
use crate::typed::Typed;
use crate::video::Videos;
use crate::viewer::ViewerError;

/// 8: barriers a viewer may have asked for at once; more answers than questions break the protocol.
pub(crate) const BARRIERS_LEN_MAX: usize = 8;
/// 4 MiB: most scratch kept for the commands of a packed update; ours are rarely a tenth of it.
const UNPACKED_BYTES_KEPT: usize = 4 * 1024 * 1024;

/// What frames change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) framebuffer: Framebuffer,
    pub(crate) events: Events,
    pub(crate) outbox: Outbox,
    pub(crate) stats: ViewerStats,
    pub(crate) decoder: Decoder,
    pub(crate) cache: Granted,
    pub(crate) clipboard: Clipboard,
    pub(crate) videos: Videos,
    /// Updates that come alone, where this viewer takes them.
    pub(crate) order: Order,
    pub(crate) repeats: Repeats,
    takes_alone: bool,
    unpacker: StreamUnpacker,
    /// The commands of a packed update.
    unpacked: Vec<u8>,
    pub(crate) greeted: bool,
    pub(crate) closed: bool,
    /// Epoch of the framebuffer, none before the first geometry.
    pub(crate) epoch: Option<u32>,
    /// Newest update received on the stream, applied or dropped.
    pub(crate) last_seq: u64,
    /// Newest update applied and when it came, until it is presented.
    pub(crate) unpresented: Option<(u64, Micros)>,
    /// What was drawn together has come in part: no moment to present.
    pub(crate) in_frame: bool,
    /// Newest update that ended a frame. It may have come alone, and before others of its frame, which then end it.
    ended_seq: u64,
    /// What was typed and may not have arrived.
    pub(crate) typed: Typed,
    /// Number of the newest input.
    pub(crate) last_input: u32,
    /// The pings on their way and when they left, oldest first.
    pub(crate) pings: VecDeque<(u32, Micros)>,
    pub(crate) barriers: Vec<u32>,
    cursor_bytes: Vec<u8>,
    cursor_bits: Option<TwoColorCursor>,
}

/// The newest cursor, where it is of two colours: other colours may come for it.
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

impl State {
    /// Before anything was said or heard.
    pub(crate) fn new(clipboard: ClipboardPolicy, hello: ViewerHello) -> State {
        let caps = hello.caps;
        State {
            framebuffer: Framebuffer::default(),
            events: Events::default(),
            outbox: Outbox::new(hello),
            stats: ViewerStats::default(),
            decoder: Decoder::default(),
            cache: Granted::default(),
            clipboard: Clipboard::new(clipboard),
            videos: Videos::new(caps),
            order: Order::default(),
            repeats: Repeats::default(),
            takes_alone: caps & ViewerCaps::ALONE != 0,
            unpacker: StreamUnpacker::default(),
            unpacked: Vec::new(),
            greeted: false,
            closed: false,
            epoch: None,
            last_seq: 0,
            unpresented: None,
            in_frame: false,
            ended_seq: 0,
            typed: Typed::default(),
            last_input: 0,
            pings: VecDeque::new(),
            barriers: Vec::new(),
            cursor_bytes: Vec::new(),
            cursor_bits: None,
        }
    }

    /// Acts on one frame.
    pub(crate) fn handle_frame(&mut self, frame: &Frame<'_>, now: Micros) -> Result<(), ViewerError> {
        let message = SessionMessage::decode(frame)?;
        if !self.greeted && !matches!(message, SessionMessage::Hello(_) | SessionMessage::Close(_)) {
            return Err(ViewerError::Order("a session's first message is its hello"));
        }
        // What was taken is said directly behind the hello, or not at all.
        if !matches!(message, SessionMessage::Hello(_) | SessionMessage::Seen(_) | SessionMessage::Close(_)) {
            self.typed.unseen();
        }
        let mut command_bytes = 0;
        match message {
            SessionMessage::Hello(hello) => {
                if self.greeted {
                    return Err(ViewerError::Order("a session says hello once"));
                }
                if hello.version == 0 || hello.version > VERSION {
                    return Err(ViewerError::Version { theirs: hello.version, ours: VERSION });
                }
                self.greeted = true;
                self.order.is_on = self.takes_alone && hello.caps & SessionCaps::ALONE != 0;
                self.repeats.is_on = self.order.is_on && hello.caps & SessionCaps::EARLY != 0;
                self.clipboard.greeted(&hello);
                self.events.push(ViewerEvent::Connected { name: hello.name });
            }
            SessionMessage::Geometry(geometry) => {
                self.epoch = Some(geometry.epoch);
                let (size, shows) = (geometry.size, geometry.shows);
                self.videos.paint_all(&mut self.framebuffer);
                self.framebuffer.reset(size, shows.map_or(size.rect(), |shows| shows.part));
                self.videos.reset();
                self.order.reset();
                self.in_frame = false;
                self.stats.geometries += 1;
                self.events.push(ViewerEvent::Geometry { size, shows });
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
            SessionMessage::Pong(number) => {
                // Those before it stay without an answer: a session may answer only the newest of many.
                let Some(at) = self.pings.iter().position(|&(asked, _)| asked == number) else {
                    return Err(ViewerError::Order("a pong answers a ping on its way"));
                };
                let sent = self.pings.drain(..=at).next_back().expect("at least the one that was found").1;
                self.stats.pong(now.saturating_sub(sent));
                self.typed.ponged(number);
            }
            SessionMessage::Barrier(id) => {
                let Some(at) = self.barriers.iter().position(|&asked| asked == id) else {
                    return Err(ViewerError::Order("a barrier answers one that was asked for"));
                };
                self.barriers.remove(at);
                self.videos.hold_barrier(id);
            }
            SessionMessage::Cache(grant) => self.cache.grant(&grant)?,
            SessionMessage::Displays(displays) => self.events.push(ViewerEvent::Displays(displays)),
            SessionMessage::Seen(input) => {
                if self.typed.begins_anew() {
                    self.last_input = input;
                }
                if !self.typed.seen(input, self.last_input, now) {
                    return Err(ViewerError::Order("what was seen follows the hello, and is no more than was said"));
                }
            }
            SessionMessage::Clip(message) => self.clipboard.handle(&message, &mut self.stats, now)?,
            SessionMessage::Close(close) => {
                self.closed = true;
                self.events.push(ViewerEvent::Closed { code: close.code, reason: close.reason.to_owned() });
            }
        }
        self.stats.other_bytes += frame.body.len() as u64 - command_bytes;
        self.settle_videos();
        self.settle_alone(now)
    }

    /// An update has come by itself; it is applied when its turn comes.
    pub(crate) fn handle_alone(&mut self, bytes: &[u8], now: Micros) -> Result<(), ViewerError> {
        if !self.takes_alone || self.greeted && !self.order.is_on {
            return Err(ViewerError::Order("nothing comes alone that is not wanted so"));
        }
        if bytes == ASK {
            return Ok(()); // the session asks whether the path carries, and has its answer
        }
        let SessionMessage::Update(Update { seq, after, epoch, packed: None, .. }) =
            SessionMessage::decode(&Frame::whole(bytes)?)?
        else {
            return Err(ViewerError::Order("only updates come alone, and as they are"));
        };
        self.order.hold(seq, after, epoch, bytes, now);
        self.settle_alone(now)
    }

    /// Those whose turn has come.
    pub(crate) fn settle_alone(&mut self, now: Micros) -> Result<(), ViewerError> {
        let window = Order::window(self.stats.rtt_us);
        while let Some(held) = self.order.poll(self.epoch, window, now) {
            self.take_alone(&held, now)?;
        }
        Ok(())
    }

    fn take_alone(&mut self, held: &Held, now: Micros) -> Result<(), ViewerError> {
        let SessionMessage::Update(update) = SessionMessage::decode(&Frame::whole(&held.frame)?)? else {
            unreachable!("it was an update when it came");
        };
        let mut commands = CommandReader::new(update.commands, self.framebuffer.size());
        let of_stream =
            |command| matches!(command, Ok(Command::Keep { .. } | Command::Recall { .. } | Command::Video(_)));
        if self.epoch == Some(held.epoch) && commands.any(of_stream) {
            return Err(ViewerError::Order("caches and streams of video want their order"));
        }
        let commands = CommandReader::new(update.commands, self.framebuffer.size()).map_while(Result::ok);
        match self.order.turn(held, self.epoch.unwrap_or_default(), commands) {
            Turn::Apply => {
                self.apply(update.commands, now)?;
                // Beside a frame that is coming it is seen at once, too.
                let ends = self.ends_frame(&update);
                let in_frame = self.in_frame && !ends;
                self.applied(&update, ends || !in_frame, now);
                self.in_frame = in_frame;
                self.stats.updates_alone += 1;
            }
            Turn::Drop => self.stats.updates_dropped += 1,
            Turn::Discard => {
                self.stats.updates_late += 1;
                self.order.discarded(held.seq, now);
                return Ok(());
            }
        }
        self.order.applied(held.seq, now);
        self.settle_videos();
        Ok(())
    }

    /// A picture came back from the shell's decoder: it is shown where it is still to be seen.
    pub(crate) fn handle_video_picture(&mut self, serial: u64, samples: Samples<'_>, now: Micros) {
        if let Some((received, pixels)) = self.videos.handle_picture(serial, samples, &mut self.framebuffer, now) {
            self.videos.paint_shattered(&mut self.framebuffer);
            self.stats.picture_painted(pixels);
            let since = self.unpresented.map_or(received, |(_, since)| since.min(received));
            self.unpresented = Some((self.stats.last_update, since));
            // Else the end of what is coming presents both, and neither is shown in halves.
            if !self.in_frame {
                self.events.push(ViewerEvent::FrameEnd);
            }
        }
        self.settle_videos();
    }

    /// After whatever may have changed which pictures wait: barriers that waited for them are passed on.
    pub(crate) fn settle_videos(&mut self) {
        while let Some(barrier) = self.videos.poll_barrier() {
            self.events.push(ViewerEvent::Barrier(barrier));
        }
        self.stats.video = self.videos.stats;
    }

    fn update(&mut self, update: &Update<'_>, now: Micros) -> Result<(), ViewerError> {
        if update.seq <= self.last_seq {
            return Err(ViewerError::Order("updates are numbered upwards"));
        }
        if update.after > self.last_seq && !self.order.is_on {
            return Err(ViewerError::Order("an update comes after the one it names"));
        }
        self.last_seq = update.seq;
        // Acknowledged even when dropped: the session's budget counts what has arrived.
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

    /// The frame that this update is of is whole with it, or as much as will come of it.
    fn ends_frame(&mut self, update: &Update<'_>) -> bool {
        let ends = update.end_of_frame;
        if ends {
            self.ended_seq = self.ended_seq.max(update.seq);
        }
        ends || update.seq < self.ended_seq && self.order.have_come(update.seq + 1..=self.ended_seq)
    }

    /// What follows from an update that was applied.
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
            self.events.push(ViewerEvent::FrameEnd);
        }
    }

    /// The stream that updates are packed in goes on whatever becomes of this one: the next leans on it. True when
    /// `unpacked` holds the commands.
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
        while let Some(command) = reader.next() {
            let command = command?;
            self.order.note(&command);
            match &command {
                Command::Keep { rect, .. } => self.videos.before_read(&(*rect).into(), &mut self.framebuffer),
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
                Command::Video(command) => self.videos.apply(command, &mut self.framebuffer, now)?,
                command => self.framebuffer.apply(command, &mut self.decoder)?,
            };
            match &command {
                Command::Copy { region, .. } | Command::Sfill { region, .. } => self.videos.written(region),
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
        let pixels = self.cursor_bytes.as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect();
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
        self.decoder.cursor_planes(cursor.packing, cursor.planes, bits.size(), &mut bits.planes)?;
        self.events.push(ViewerEvent::Cursor(bits.paint(cursor.colors)));
        self.cursor_bits = Some(bits);
        Ok(())
    }

    fn cursor_color(&mut self, colors: CursorColors) -> Result<(), ViewerError> {
        self.stats.cursor_colors += 1;
        let Some(bits) = &mut self.cursor_bits else {
            return Err(ViewerError::Order("colours are for a cursor of two"));
        };
        self.events.push(ViewerEvent::Cursor(bits.paint(colors)));
        Ok(())
    }
}
