//! Path 11/13: from transport, to decode.rs; and the path back, from the window to outbox.rs.
//! The one type a shell holds: bytes, input and presents go in, bytes, events and pixels come out.
//! Knows what comes in and in which order; what a frame means is decode.rs.

use thinc_clipboard::{ClipError, ClipboardPolicy};
use thinc_codec_dec::DecodeError;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::limits::{HELD_KEY_BYTES, INSTANCE_BYTES, PINGS_MAX, SESSION_FRAME_BYTES_MAX};
use thinc_protocol::viewer::{
    Displays, Input, InputEvent, Layout, Presented, TouchPhase, View, ViewerCaps, ViewerHello, ViewerMessage,
};
use thinc_protocol::wire::WireError;
use thinc_protocol::{Micros, VERSION, frame::Deframer};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Planes, PlanesRef};

use crate::cache::{Cache, CacheError};
use crate::decode::{BARRIERS_LEN_MAX, State};
use crate::event::ViewerEvent;
use crate::framebuffer::Framebuffer;
use crate::held;
use crate::inexact::Inexact;
use crate::layers::{Samples, VideoLayer};
use crate::order::Order;
use crate::stats::ViewerStats;
use crate::typed::Typed;
use crate::video::{VideoError, VideoEvent};

/// 1 s: a ping is sent with whatever happens, at most this often; nothing is sent where nothing happens.
const PING_INTERVAL_US: Micros = 1_000_000;
/// 0.1 s beyond a round trip: what a person does has been answered by then, or the session is asked for a sign of life.
const ECHO_PATIENCE_US: Micros = 100_000;
/// 0.5 s: while a key is held something is said this often, as the protocol wants it (section 4.1): a session that hears
/// nothing lets it go.
const HELD_INTERVAL_US: Micros = 500_000;
/// Keys that count as held; no hand holds more.
const HELD_MAX: usize = 64;

/// What a viewer says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerConfig {
    /// Program and version, for the session's log; cut at 64 bytes.
    pub name: String,
    /// The window in pixels; 0 × 0 keeps the session's size.
    pub size: Size,
    /// Bits of `thinc_protocol::viewer::ViewerCaps` that the shell decides: `RESIZE`, `LOCAL_CURSOR`, `VIDEO`, and `H264` where
    /// it decodes that. What this crate can do is always said.
    pub caps: u32,
    /// How the viewer takes part in the clipboard.
    pub clipboard: ClipboardPolicy,
}

/// Why a viewer gives up a connection: the session broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewerError {
    /// A message's bytes.
    #[error("the session's message is wrong: {0}")]
    Wire(#[from] WireError),
    /// A command's pixels.
    #[error("the session's pixels are wrong: {0}")]
    Decode(#[from] DecodeError),
    /// A slot.
    #[error("the session's use of the cache is wrong: {0}")]
    Cache(#[from] CacheError),
    /// The clipboard's messages.
    #[error("the session's use of the clipboard is wrong: {0}")]
    Clipboard(#[from] ClipError),
    /// A video.
    #[error("the session's video is wrong: {0}")]
    Video(#[from] VideoError),
    /// A message that may not come here.
    #[error("the session's messages are out of order: {0}")]
    Order(&'static str),
    /// A version this viewer does not speak.
    #[error("the session speaks protocol version {theirs}, this viewer speaks {ours}")]
    Version {
        /// The session's.
        theirs: u16,
        /// This viewer's.
        ours: u16,
    },
    /// Bytes after the end.
    #[error("the connection has ended")]
    Ended,
}

/// One connection to one session, from the hello on.
///
/// `handle_*` takes what happened, `poll_*` gives what is to be done; after each `handle_*` poll both until they are dry.
/// Updates are applied, and acknowledged, as soon as they come; what is shown and when is the shell's business, which it
/// reports with [`handle_presented`](Viewer::handle_presented).
#[derive(Debug)]
pub struct Viewer {
    deframer: Deframer,
    state: State,
    last_barrier: u32,
    last_ping: u32,
    next_ping_at: Micros,
    /// When the session last said anything.
    heard_at: Micros,
    /// When a person first did something of which nothing has come.
    acted_at: Option<Micros>,
    /// Input that no ping has followed: nobody would notice that it went nowhere.
    unpinged: bool,
    /// Keys that are down: code and, where that is not known, keysym.
    held: Vec<(u16, u32)>,
    /// When something is to be said because one is.
    alive_at: Micros,
}

impl Viewer {
    /// A viewer whose hello waits to be sent.
    pub fn new(config: &ViewerConfig) -> Viewer {
        let clipboard = if config.clipboard.take { ViewerCaps::CLIPBOARD } else { 0 };
        let hello = ViewerHello {
            version: VERSION,
            caps: config.caps | ViewerCaps::PACKED | ViewerCaps::LOSSY | clipboard,
            size: config.size,
            frame_bytes_max: SESSION_FRAME_BYTES_MAX as u32,
            name: config.name.clone(),
        };
        Viewer {
            deframer: Deframer::new(SESSION_FRAME_BYTES_MAX),
            state: State::new(config.clipboard, hello),
            last_barrier: 0,
            last_ping: 0,
            next_ping_at: 0,
            heard_at: 0,
            acted_at: None,
            unpinged: false,
            held: Vec::new(),
            alive_at: 0,
        }
    }

    /// A viewer that has a picture and never has a connection; the next lies over it.
    pub(crate) fn of_picture(framebuffer: Framebuffer) -> Viewer {
        let config =
            ViewerConfig { name: String::new(), size: Size::default(), caps: 0, clipboard: ClipboardPolicy::OFF };
        let mut viewer = Viewer::new(&config);
        viewer.state.framebuffer = framebuffer;
        viewer.state.closed = true;
        viewer
    }

    /// A part of that picture: blue, green and red of each pixel.
    pub(crate) fn restore(&mut self, rect: &Rect, pixels: &[[u8; 3]]) {
        let pixels: Vec<u32> = pixels.iter().map(|&[b, g, r]| u32::from_le_bytes([b, g, r, 0xff])).collect();
        self.state.framebuffer.write(rect, &pixels, true);
    }

    /// This is the first connection of a viewer whose number ([`Viewer::set_instance`]) may be older than itself: a page that was loaded
    /// again. It counts its input on from what the session says it has seen. After [`Viewer::lie_over`], if at all.
    pub fn begin_anew(&mut self) {
        self.state.typed.begin_anew();
    }

    /// Offers to keep pixels that are to be shown again, in this cache, which may hold some from an earlier connection.
    ///
    /// # Panics
    /// After anything else but [`Viewer::new`]: the offer follows the hello.
    pub fn offer_cache(&mut self, cache: Cache) {
        assert!(self.state.cache.get().is_none() && !self.state.greeted, "a cache is offered once, after the hello");
        let offer = self.state.cache.offer(cache);
        self.state.outbox.push(&ViewerMessage::Cache(offer));
    }

    /// Until the session has drawn it, the picture is the one of an earlier connection, as far as that showed the same part of the screen.
    /// The session is told what that is, and sends what differs. `key` is random: with it nobody can draw what only looks the same.
    /// What was typed there and has not arrived is typed here.
    ///
    /// # Panics
    /// Once anything was said.
    pub fn lie_over(&mut self, earlier: &mut Viewer, key: [u8; HELD_KEY_BYTES]) {
        assert!(self.state.epoch.is_none(), "a picture lies over an earlier one from its beginning on");
        self.take_typed(earlier);
        earlier.paint_videos();
        let lower = earlier.state.framebuffer.newest();
        held::held(lower, key).into_iter().for_each(|held| self.state.outbox.hold(held));
        self.state.framebuffer.lie_over(lower);
    }

    /// What was typed on another connection and may not have arrived is this one's from now on: of one that has ended, for the
    /// next, or back to the picture that stays where that ended before it had one.
    pub fn take_typed(&mut self, from: &mut Viewer) {
        self.state.typed = from.state.typed.take_over();
        self.state.last_input = from.state.last_input;
    }

    /// The cache as it is now, to be saved.
    pub fn cache(&self) -> Option<&Cache> {
        self.state.cache.get()
    }

    /// Takes the cache out of a connection that has ended, for the next.
    pub fn take_cache(&mut self) -> Option<Cache> {
        self.state.closed = true;
        self.state.cache.take()
    }

    /// The next bytes from the session, in chunks of any size.
    ///
    /// # Errors
    /// What the session did wrong; a `Close` that says so waits in `poll_transmit`, and nothing more is taken.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Micros) -> Result<(), ViewerError> {
        let mut more = self.handle_picture(bytes, now)?;
        while more {
            more = self.handle_picture(&[], now)?;
        }
        Ok(())
    }

    /// As [`handle_bytes`](Viewer::handle_bytes), but nothing is applied over a picture that is whole just now. True: it is, and there may
    /// be more, which the next call applies, with further bytes or none.
    ///
    /// # Errors
    /// The same.
    pub fn handle_picture(&mut self, bytes: &[u8], now: Micros) -> Result<bool, ViewerError> {
        if self.state.closed {
            return Err(ViewerError::Ended);
        }
        self.state.stats.bytes_in += bytes.len() as u64;
        self.handle_heard(now);
        self.deframer.push(bytes);
        let result = self.handle_messages(now);
        self.type_due(now);
        self.give_up(&result);
        self.ping(now);
        result
    }

    /// A datagram of the session's: an update that came alone. It may come at any time, again, or never.
    ///
    /// # Errors
    /// As for [`handle_bytes`](Viewer::handle_bytes).
    pub fn handle_datagram(&mut self, bytes: &[u8], now: Micros) -> Result<(), ViewerError> {
        if self.state.closed {
            return Err(ViewerError::Ended);
        }
        self.state.stats.bytes_in += bytes.len() as u64;
        self.handle_heard(now);
        let result = self.state.handle_alone(bytes, now);
        self.give_up(&result);
        self.ping(now);
        result
    }

    /// Appends what is to be sent as a datagram, one at most; false when there is nothing. It costs nothing if it is lost.
    pub fn poll_datagram(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        if let Some(arrived) = self.state.order.poll_news().filter(|_| !self.state.closed) {
            ViewerMessage::Arrived(arrived.clone()).encode(out);
        } else if let Some(early) = self.state.repeats.poll().filter(|_| !self.state.closed) {
            ViewerMessage::Early(early).encode(out);
        }
        self.state.stats.bytes_out += (out.len() - before) as u64;
        out.len() > before
    }

    fn handle_heard(&mut self, now: Micros) {
        self.heard_at = now;
        self.acted_at = None;
    }

    /// When the session is asked, if nothing comes of what a person did.
    fn echo_due(&self) -> Option<Micros> {
        let acted = self.acted_at.filter(|_| self.state.greeted && self.state.pings.is_empty())?;
        Some(acted + self.state.stats.rtt_min_us.unwrap_or(0) + ECHO_PATIENCE_US)
    }

    /// Says what the session did wrong, if it did.
    fn give_up<T>(&mut self, result: &Result<T, ViewerError>) {
        if let Err(error) = result {
            self.state.closed = true;
            self.state.outbox.push(&ViewerMessage::Close(error.to_string()));
        }
    }

    /// Up to the next that ends a picture; true when there was one, and the connection goes on.
    fn handle_messages(&mut self, now: Micros) -> Result<bool, ViewerError> {
        let before = self.state.stats.frames;
        while !self.state.closed && self.state.stats.frames == before {
            let Some(frame) = self.deframer.next()? else { return Ok(false) };
            self.state.handle_frame(&frame, now)?;
        }
        Ok(!self.state.closed)
    }

    /// Something a person did; gives its number, which the echo brings back. Only what waits for the session to say what it took on the
    /// connection before goes under another.
    pub fn handle_input(&mut self, event: InputEvent, now: Micros) -> u32 {
        if !self.state.typed.waits() {
            return self.send_input(event, now, now);
        }
        let seq = self.next_input();
        self.state.typed.handle_live(seq);
        self.state.typed.push(seq, event, now, now);
        seq
    }

    /// The same while nobody sees a connection: the shell has lost it, and the next shows nothing yet. What is typed is kept, and is sent,
    /// all of it or nothing, once a session says what it took before. None: this is not kept. A click into a picture that
    /// is old decides where the rest would go, so what is typed is not sent then.
    pub fn keep_input(&mut self, event: InputEvent, now: Micros) -> Option<u32> {
        match event {
            InputEvent::Key { .. } | InputEvent::Char(_) | InputEvent::Locks { .. } | InputEvent::ReleaseAll => {}
            InputEvent::Button { down: true, .. } | InputEvent::Touch { phase: TouchPhase::Begin, .. } => {
                let seq = self.next_input();
                self.state.typed.spoil(seq);
                return None;
            }
            InputEvent::Button { down: false, .. } | InputEvent::Touch { phase: TouchPhase::End, .. }
                if self.state.typed.is_pressed(&event) => {}
            _ => return None,
        }
        if !self.state.typed.waits() {
            return Some(self.send_input(event, now, now));
        }
        let seq = self.next_input();
        self.state.typed.push(seq, event, now, now);
        Some(seq)
    }

    /// What is typed without a connection now would be sent by the next.
    pub fn keeps_input(&self, now: Micros) -> bool {
        self.state.typed.keeps(now)
    }

    /// What was kept, as soon as it is known what is to be sent of it.
    fn type_due(&mut self, now: Micros) {
        for (event, made) in self.state.typed.take_due() {
            self.send_input(event, made, now);
        }
    }

    /// Number of the newest input that was said or kept.
    pub fn newest_input(&self) -> u32 {
        self.state.last_input
    }

    fn next_input(&mut self) -> u32 {
        self.state.last_input = self.state.last_input.wrapping_add(1);
        self.state.last_input
    }

    /// Says it, and remembers when it was `made` until it has arrived.
    fn send_input(&mut self, event: InputEvent, made: Micros, now: Micros) -> u32 {
        let seq = self.next_input();
        self.state.stats.inputs += 1;
        // Only what is pressed is echoed, so only that is remembered.
        if matches!(event, InputEvent::Key { .. } | InputEvent::Button { .. } | InputEvent::Char(_)) {
            self.state.stats.input_made(seq, now);
        }
        match event {
            InputEvent::Key { code, keysym, down } => {
                let same = |&(of, was): &(u16, u32)| if code != 0 { of == code } else { was == keysym };
                // One that went down on an earlier connection went up with that.
                if !down && self.held.len() < HELD_MAX && !self.held.iter().any(same) {
                    return seq;
                }
                self.held.retain(|held| !same(held));
                if down && self.held.len() < HELD_MAX {
                    self.held.push((code, keysym));
                }
            }
            InputEvent::ReleaseAll => self.held.clear(),
            _ => {}
        }
        self.alive_at = now + HELD_INTERVAL_US;
        if matches!(event, InputEvent::Key { .. } | InputEvent::Button { .. } | InputEvent::Char(_)) {
            // A person waits for what this does.
            self.acted_at.get_or_insert(now);
            self.state.repeats.want(self.state.stats.rtt_us, now);
        }
        self.state.outbox.push_input(Input { seq, event });
        self.state.typed.push(seq, event, made, now);
        self.state.stats.inputs_dropped = self.state.outbox.dropped();
        self.unpinged = true;
        self.ping(now);
        seq
    }

    /// This is the viewer of that number, whatever connection it comes on: the session ends an older connection of it, so
    /// that what was still on its way there comes too late, and says what it took.
    ///
    /// # Panics
    /// Once anything was said.
    pub fn set_instance(&mut self, number: [u8; INSTANCE_BYTES]) {
        self.state.outbox.name(number);
    }

    /// The keyboard is laid out like this, as far as is known.
    pub fn set_layout(&mut self, layout: Layout) {
        self.state.outbox.push(&ViewerMessage::Layout(layout));
    }

    /// The window has this size now.
    pub fn handle_resize(&mut self, size: Size) {
        self.state.outbox.push(&ViewerMessage::Resize(size));
    }

    /// What is to be shown, and how large; the session answers with a geometry. Only the newest is said.
    pub fn set_view(&mut self, view: View) {
        self.state.outbox.set_view(view);
    }

    /// The displays here, for the session to take their form, where this viewer controls its size. Only the newest is said.
    pub fn set_displays(&mut self, displays: Displays) {
        self.state.outbox.set_displays(displays);
    }

    /// Asks to be told, by a `ViewerEvent::Barrier`, when everything drawn until now has been applied, pictures of videos decoded too;
    /// gives its number.
    ///
    /// # Panics
    /// With 8 of them unanswered: a shell waits for one.
    pub fn request_barrier(&mut self) -> u32 {
        let unanswered = self.state.barriers.len() + self.state.videos.barriers_len();
        assert!(unanswered < BARRIERS_LEN_MAX, "at most {BARRIERS_LEN_MAX} barriers wait for their answer");
        self.last_barrier = self.last_barrier.wrapping_add(1);
        self.state.barriers.push(self.last_barrier);
        self.state.outbox.push(&ViewerMessage::Barrier(self.last_barrier));
        self.last_barrier
    }

    /// Asks for everything anew.
    pub fn request_refresh(&mut self) {
        self.state.outbox.push(&ViewerMessage::Refresh);
    }

    /// Something was applied that is to be shown with what is still to come.
    pub fn is_in_frame(&self) -> bool {
        self.state.in_frame && self.state.unpresented.is_some()
    }

    /// The shell has shown everything applied until now; the moment is the best the shell knows.
    pub fn handle_presented(&mut self, now: Micros) {
        let Some((update, since)) = self.state.unpresented.take() else { return };
        let delay_us = now.saturating_sub(since);
        self.state.stats.presented(now);
        self.state.stats.present_delay_us = Some(delay_us);
        let delay_us = u32::try_from(delay_us).unwrap_or(u32::MAX);
        // Where some updates go alone, what has arrived is said otherwise.
        let applied = if self.state.order.is_on { 0 } else { self.state.last_seq };
        self.state.outbox.presented(applied, Presented { update, delay_us });
    }

    /// Something on the viewer's side owns the selection now, or nothing does. Its content is asked for when it is pasted.
    pub fn offer_clipboard(&mut self, selection: Selection, formats: ClipFormats) {
        self.state.clipboard.end.offer(selection, formats);
    }

    /// Asks for what the session owns: `ClipReceived` or `ClipEnded` answers to this number. None where it offers no such
    /// thing, or where eight contents are on their way.
    pub fn request_clipboard(&mut self, selection: Selection, format: ClipFormat, now: Micros) -> Option<u32> {
        self.state.clipboard.end.request(selection, format, now)
    }

    /// The content is no longer wanted.
    pub fn cancel_clipboard(&mut self, id: u32) {
        self.state.clipboard.end.cancel(id);
    }

    /// Answers `ClipWanted`; a number that is over is nothing. A content that is too long, or not of its format, is not
    /// sent, and `ClipEnded` says so.
    pub fn provide_clipboard(&mut self, id: u32, content: Result<Vec<u8>, ClipEnd>, now: Micros) {
        self.state.clipboard.provide(id, content, now);
    }

    /// Since when the session owes an answer and has said nothing at all; a session that lives answers in a round trip.
    pub fn unanswered_since(&self) -> Option<Micros> {
        let &(_, asked) = self.state.pings.front().filter(|_| !self.state.closed)?;
        Some(self.acted_at.map_or(asked, |acted| acted.min(asked)).max(self.heard_at))
    }

    /// Asks whether the session is still there; [`Viewer::unanswered_since`] says how that goes.
    pub fn handle_doubt(&mut self, now: Micros) {
        if self.state.greeted && !self.state.closed && self.state.pings.is_empty() {
            self.send_ping(now);
        }
    }

    /// Asks once more: an answer is due, and what was asked before may be lost. Where the path carries again, a new question is what
    /// finds out soonest.
    pub fn handle_quiet(&mut self, now: Micros) {
        if self.state.greeted && !self.state.closed && self.state.pings.len() < PINGS_MAX {
            self.send_ping(now);
        }
    }

    /// When [`Viewer::handle_timeout`] is to be called if nothing else is.
    pub fn poll_deadline(&self) -> Option<Micros> {
        let alive = (self.state.greeted && !self.held.is_empty()).then_some(self.alive_at);
        let ping = (self.state.greeted && self.unpinged && self.state.pings.is_empty()).then_some(self.next_ping_at);
        self.state
            .clipboard
            .end
            .poll_deadline()
            .into_iter()
            .chain(alive)
            .chain(ping)
            .chain(self.echo_due())
            .chain(self.state.videos.deadline())
            .chain(self.state.repeats.deadline())
            .chain(self.state.order.deadline(self.state.epoch, Order::window(self.state.stats.rtt_us)))
            .min()
            .filter(|_| !self.state.closed)
    }

    /// So late it is: what has been waited for too long is given up, and of a key that is still held the session is told
    /// that it is.
    pub fn handle_timeout(&mut self, now: Micros) {
        if !self.state.closed {
            let result = self.state.settle_alone(now);
            self.give_up(&result);
        }
        if let Some(arrived) = self.state.order.poll_repeat(now) {
            self.state.outbox.push(&ViewerMessage::Arrived(arrived.clone()));
        }
        self.state.repeats.handle_timeout(now);
        self.state.clipboard.timeout(now);
        self.state.videos.timeout(now);
        self.state.settle_videos();
        if self.unpinged {
            self.ping(now);
        }
        if self.echo_due().is_some_and(|at| at <= now) {
            self.send_ping(now);
        }
        if !self.held.is_empty() && self.alive_at <= now {
            self.alive_at = now + HELD_INTERVAL_US;
            if self.state.greeted && !self.state.closed && self.state.pings.len() < PINGS_MAX {
                self.send_ping(now);
            }
        }
    }

    /// Says goodbye; `poll_transmit` gives the last bytes. What was typed goes with them or nowhere.
    pub fn handle_close(&mut self, reason: &str) {
        self.state.typed = Typed::default();
        if !self.state.closed {
            self.state.closed = true;
            self.state.outbox.push(&ViewerMessage::Close(reason.to_owned()));
        }
    }

    /// Appends what is to be sent; false when there is nothing.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let State { outbox, clipboard, videos, stats, greeted, closed, repeats, .. } = &mut self.state;
        if *greeted && !*closed {
            clipboard.poll_control(outbox, stats);
        }
        let mut any = outbox.poll(out);
        if *greeted && !*closed {
            any |= videos.poll_answers(out);
            // Behind everything else, which has left or leaves before it.
            any |= clipboard.poll_pieces(out, stats);
        }
        stats.bytes_out += (out.len() - before) as u64;
        repeats.written(&out[before..]);
        any
    }

    /// The next thing the shell must know.
    pub fn poll_event(&mut self) -> Option<ViewerEvent> {
        self.state.events.poll().or_else(|| self.state.clipboard.end.poll_event().map(ViewerEvent::from))
    }

    /// The next thing for the shell's decoders to do, if it has said that it has any.
    pub fn poll_video(&mut self) -> Option<VideoEvent> {
        self.state.videos.poll()
    }

    /// There is something for the decoders.
    pub fn has_video(&self) -> bool {
        self.state.videos.has_task()
    }

    /// A decoder stands ready for the stream. Numbers of streams and pictures that are over are ignored, here and below.
    pub fn handle_video_ready(&mut self, stream: u64) {
        self.state.videos.handle_ready(stream);
    }

    /// The stream cannot be shown, now or any more: it comes as pixels.
    pub fn handle_video_refused(&mut self, stream: u64) {
        self.state.videos.handle_refused(stream);
        self.state.settle_videos();
    }

    /// A picture was decoded: samples of the size it was given out with, or more. It is painted where nothing was written since it
    /// came; `FrameEnd` follows where that is to be presented.
    pub fn handle_video_picture(&mut self, serial: u64, planes: &PlanesRef<'_>, now: Micros) {
        self.state.handle_video_picture(serial, Samples::Lent(planes), now);
    }

    /// The same for a decoder that gives its samples away where they are kept, and gets others to write the next to.
    pub fn handle_video_planes(&mut self, serial: u64, planes: &mut Planes, now: Micros) {
        self.state.handle_video_picture(serial, Samples::Given(planes), now);
    }

    /// From here on the shell paints videos itself ([`Viewer::video_layers`]), or does not any more, and all are painted here.
    pub fn set_video_layers(&mut self, on: bool) {
        self.state.videos.set_layers(on, &mut self.state.framebuffer);
    }

    /// The pictures of videos that are seen over the framebuffer, where the shell paints them. What is seen of one has been damage
    /// when it came; the framebuffer's own pixels there are older, until somebody needs them.
    pub fn video_layers(&self) -> impl Iterator<Item = &VideoLayer> {
        self.state.videos.layers()
    }

    /// The framebuffer is to hold all that is seen, as if no shell painted.
    pub fn paint_videos(&mut self) {
        self.state.videos.paint_all(&mut self.state.framebuffer);
    }

    /// A picture could not be decoded. What leans on it is given up too, and the session hears that it is lost.
    pub fn handle_video_failed(&mut self, serial: u64) {
        self.state.videos.handle_failed(serial);
        self.state.settle_videos();
    }

    /// Some of this picture would still be seen. Where not, it is to be decoded all the same, because others lean on it, and then
    /// [`Viewer::handle_video_skipped`] is enough.
    pub fn is_video_wanted(&self, serial: u64) -> bool {
        self.state.videos.is_wanted(serial)
    }

    /// A picture was decoded which nobody would see any more.
    pub fn handle_video_skipped(&mut self, serial: u64) {
        self.state.videos.handle_skipped(serial);
        self.state.settle_videos();
    }

    /// The bytes of a picture are not needed any more; the next one may have their memory.
    pub fn reuse_video_buffer(&mut self, data: Vec<u8>) {
        self.state.videos.reuse(data);
    }

    /// Pictures that have come and not been decoded yet.
    pub fn videos_waiting(&self) -> usize {
        self.state.videos.waiting_len()
    }

    /// Streams of video that are under way.
    pub fn videos_active(&self) -> usize {
        self.state.videos.active_len()
    }

    /// A video has its place here.
    pub(crate) fn plays_in(&self, rect: &Rect) -> bool {
        self.state.videos.plays_in(rect)
    }

    /// What is to be shown.
    pub fn framebuffer(&self) -> &Framebuffer {
        &self.state.framebuffer
    }

    /// Which pixels of it are only nearly what the session's screen shows; empty as soon as all is exact.
    pub const fn inexact(&self) -> &Inexact {
        self.state.framebuffer.inexact()
    }

    /// What is to be shown anew since this was last called.
    pub fn take_damage(&mut self) -> Region {
        self.state.framebuffer.take_damage()
    }

    /// Something is to be shown anew.
    pub fn has_damage(&self) -> bool {
        !self.state.framebuffer.damage().is_empty()
    }

    /// Counts and measurements.
    pub fn stats(&self) -> &ViewerStats {
        &self.state.stats
    }

    /// The connection has ended, by either side.
    pub fn is_closed(&self) -> bool {
        self.state.closed
    }

    fn ping(&mut self, now: Micros) {
        if self.state.closed || !self.state.greeted || now < self.next_ping_at || !self.state.pings.is_empty() {
            return;
        }
        self.send_ping(now);
    }

    fn send_ping(&mut self, now: Micros) {
        self.next_ping_at = now + PING_INTERVAL_US;
        self.unpinged = false;
        self.last_ping = self.last_ping.wrapping_add(1);
        self.state.pings.push_back((self.last_ping, now));
        self.state.typed.pinged(self.last_ping, self.state.last_input);
        self.state.outbox.push(&ViewerMessage::Ping(self.last_ping));
    }
}
