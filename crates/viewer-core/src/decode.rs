//! Path 11/13: from viewer.rs, to framebuffer.rs.
//! One frame's meaning: commands are applied in order, what belongs to another size of the screen is dropped and said.
//! Knows messages and the framebuffer; never sockets. What breaks the protocol ends the connection, nothing panics.

use thinc_codec_dec::{DecodeError, Decoder, StreamUnpacker, cursor};
use thinc_protocol::command::{Command, CommandReader};
use thinc_protocol::frame::Frame;
use thinc_protocol::session::{CursorBits, CursorColors, CursorImage, SessionMessage, Update};
use thinc_protocol::{Micros, VERSION};

use crate::cache::Granted;
use crate::event::{CursorPixels, Events, ViewerEvent};
use crate::framebuffer::Framebuffer;
use crate::outbox::Outbox;
use crate::stats::ViewerStats;
use crate::viewer::ViewerError;

/// 8: barriers a viewer may have asked for at once; more answers than questions break the protocol.
pub(crate) const BARRIERS_LEN_MAX: usize = 8;
/// 4 MiB: most scratch kept for the commands of a packed update; ours are rarely a tenth of it.
const UNPACKED_BYTES_KEPT: usize = 4 * 1024 * 1024;

/// What frames change.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) framebuffer: Framebuffer,
    pub(crate) events: Events,
    pub(crate) outbox: Outbox,
    pub(crate) stats: ViewerStats,
    pub(crate) decoder: Decoder,
    pub(crate) cache: Granted,
    unpacker: StreamUnpacker,
    /// The commands of a packed update.
    unpacked: Vec<u8>,
    pub(crate) greeted: bool,
    pub(crate) closed: bool,
    /// Epoch of the framebuffer, none before the first geometry.
    pub(crate) epoch: Option<u32>,
    /// Newest update received, applied or dropped.
    pub(crate) last_seq: u64,
    /// Newest update applied and when it came, until it is presented.
    pub(crate) unpresented: Option<(u64, Micros)>,
    /// The ping on its way and when it left.
    pub(crate) ping: Option<(u32, Micros)>,
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
    /// Acts on one frame.
    pub(crate) fn handle_frame(&mut self, frame: &Frame<'_>, now: Micros) -> Result<(), ViewerError> {
        let message = SessionMessage::decode(frame)?;
        if !self.greeted && !matches!(message, SessionMessage::Hello(_) | SessionMessage::Close(_)) {
            return Err(ViewerError::Order("a session's first message is its hello"));
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
                self.events.push(ViewerEvent::Connected { name: hello.name });
            }
            SessionMessage::Geometry(geometry) => {
                self.epoch = Some(geometry.epoch);
                self.framebuffer.reset(geometry.size);
                self.stats.geometries += 1;
                self.events.push(ViewerEvent::Geometry(geometry.size));
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
            SessionMessage::Pong(number) => match self.ping.take() {
                Some((asked, sent)) if asked == number => self.stats.pong(now.saturating_sub(sent)),
                _ => return Err(ViewerError::Order("a pong answers the ping on its way")),
            },
            SessionMessage::Barrier(id) => {
                let Some(at) = self.barriers.iter().position(|&asked| asked == id) else {
                    return Err(ViewerError::Order("a barrier answers one that was asked for"));
                };
                self.barriers.remove(at);
                self.events.push(ViewerEvent::Barrier(id));
            }
            SessionMessage::Cache(grant) => self.cache.grant(&grant)?,
            SessionMessage::Close(close) => {
                self.closed = true;
                self.events.push(ViewerEvent::Closed { code: close.code, reason: close.reason.to_owned() });
            }
        }
        self.stats.other_bytes += frame.body.len() as u64 - command_bytes;
        Ok(())
    }

    fn update(&mut self, update: &Update<'_>, now: Micros) -> Result<(), ViewerError> {
        if update.seq <= self.last_seq {
            return Err(ViewerError::Order("updates are numbered upwards"));
        }
        if update.after > self.last_seq {
            return Err(ViewerError::Order("an update comes after the one it names"));
        }
        self.last_seq = update.seq;
        // Acknowledged even when dropped: the session's budget counts what has arrived.
        self.outbox.ack(update.seq);
        let unpacked = self.unpack(update)?;
        if self.epoch != Some(update.epoch) {
            self.stats.updates_dropped += 1;
            self.cache.applied(update.seq);
            return Ok(());
        }
        if unpacked {
            let commands = std::mem::take(&mut self.unpacked);
            let applied = self.apply(&commands);
            if commands.capacity() <= UNPACKED_BYTES_KEPT {
                self.unpacked = commands;
            }
            applied?;
        } else {
            self.apply(update.commands)?;
        }
        self.cache.applied(update.seq);
        self.stats.updates += 1;
        self.stats.last_update = update.seq;
        let since = self.unpresented.map_or(now, |(_, since)| since);
        self.unpresented = Some((update.seq, since));
        if let Some(seq) = update.echo
            && let Some(latency_us) = self.stats.echo_applied(seq, now)
        {
            self.events.push(ViewerEvent::Echo { seq, latency_us });
        }
        if update.end_of_frame {
            self.stats.frames += 1;
            self.events.push(ViewerEvent::FrameEnd);
        }
        Ok(())
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

    fn apply(&mut self, commands: &[u8]) -> Result<(), ViewerError> {
        let mut reader = CommandReader::new(commands, self.framebuffer.size());
        let mut rest = reader.rest_len();
        while let Some(command) = reader.next() {
            let command = command?;
            let pixels = match &command {
                Command::Keep { rect, slot } => {
                    self.cache.keep(rect, *slot, &self.framebuffer)?;
                    0
                }
                Command::Recall { rect, slot } => {
                    self.cache.recall(rect, *slot, &mut self.framebuffer)?;
                    rect.area()
                }
                command => self.framebuffer.apply(command, &mut self.decoder)?,
            };
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
