//! Path 11/13: from transport, to decode.rs; and the path back, from the window to outbox.rs.
//! The one type that a shell holds: bytes, input and presents go in; bytes, events and pixels come
//! out. Knows which messages may arrive and when; their meaning is decode.rs's.

use thinc_clipboard::{ClipError, ClipboardPolicy};
use thinc_codec_dec::DecodeError;
use thinc_files::{Endpoint, FileError, FileEvent};
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::limits::{
    INSTANCE_BYTES, PINGS_MAX, RETAINED_KEY_BYTES, SCREEN_AREA_MAX, SESSION_MESSAGE_BYTES_MAX,
    UPDATE_SCREENS_MAX,
};
use thinc_protocol::pen::PenSample;
use thinc_protocol::people::{Share, ShareAction};
use thinc_protocol::viewer::{
    Displays, Input, InputEvent, KeyboardLayout, Presented, TouchPhase, View, ViewerCaps,
    ViewerHello, ViewerMessage,
};
use thinc_protocol::wire::WireError;
use thinc_protocol::{Micros, VERSION, framing::Deframer};
use thinc_region::{Rect, Region, Size};
use thinc_video::{Planes, PlanesRef};

use crate::cache::{Cache, CacheError};
use crate::datagram_order::DatagramOrder;
use crate::decode::{BARRIERS_LEN_MAX, State};
use crate::event::ViewerEvent;
use crate::framebuffer::Framebuffer;
use crate::held_input::HeldInput;
use crate::layers::{Samples, VideoLayer};
use crate::liveness::{Liveness, LivenessWatch, Outstanding};
use crate::lossy_mask::LossyMask;
use crate::path_watch::PathChange;
use crate::retained_tiles;
use crate::stats::ViewerStats;
use crate::unacked_input::UnackedInput;
use crate::video::{VideoError, VideoEvent};

/// 1 s: shortest interval between pings that accompany other traffic; an idle connection sends
/// none, but those of liveness.rs.
const PING_INTERVAL_US: Micros = 1_000_000;
/// 0.1 s: while a key is down, the viewer sends something this often (protocol section 4.1); a
/// session that hears nothing stops repeating the keys, and then releases them.
const KEEPALIVE_INTERVAL_US: Micros = 100_000;

/// 8: most unanswered requests to share; a person makes one at a time.
const SHARE_REQUESTS_MAX: usize = 8;

/// What a viewer announces about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerConfig {
    /// Program and version, for the session's log; truncated to 64 bytes.
    pub name: String,
    /// The window in pixels; 0 × 0 keeps the session's size.
    pub size: Size,
    /// Bits of `thinc_protocol::viewer::ViewerCaps` that the shell decides: `RESIZE`,
    /// `LOCAL_CURSOR`, `VIDEO`, and `H264` if it decodes that. Other codecs:
    /// [`Viewer::set_video_codecs`]. The capabilities of this crate are
    /// always announced.
    pub caps: u32,
    /// How the viewer takes part in the clipboard.
    pub clipboard: ClipboardPolicy,
}

/// Why a viewer ends a connection: the session violated the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewerError {
    /// Malformed bytes of a message.
    #[error("malformed message from the session: {0}")]
    Wire(#[from] WireError),
    /// Malformed pixels of a command.
    #[error("malformed pixels from the session: {0}")]
    Decode(#[from] DecodeError),
    /// Wrong use of the cache.
    #[error("the session misused the cache: {0}")]
    Cache(#[from] CacheError),
    /// Wrong messages of the clipboard.
    #[error("the session misused the clipboard: {0}")]
    Clipboard(#[from] ClipError),
    /// Wrong messages about files.
    #[error("the session misused the transfer of files: {0}")]
    Files(#[from] FileError),
    /// Wrong use of a video stream.
    #[error("the session misused a video stream: {0}")]
    Video(#[from] VideoError),
    /// An update that writes every pixel more often than any session has reason to.
    #[error("an update of the session writes more than {UPDATE_SCREENS_MAX} times the screen")]
    Work,
    /// A message that is not allowed at this point.
    #[error("unexpected message from the session: {0}")]
    Order(&'static str),
    /// A protocol version that this viewer does not support.
    #[error("the session speaks protocol version {theirs}, this viewer speaks {ours}")]
    Version {
        /// The session's version.
        theirs: u16,
        /// This viewer's version.
        ours: u16,
    },
    /// Bytes after the end of the connection.
    #[error("the connection has ended")]
    Ended,
}

/// One connection to one session, from the hello on.
///
/// `handle_*` takes events in, `poll_*` gives work out; after each `handle_*`, call `poll_transmit`
/// and `poll_event` until they return nothing. Updates are applied and acknowledged on arrival; the
/// shell decides what is presented and when, and reports it with
/// [`handle_presented`](Viewer::handle_presented).
#[derive(Debug)]
pub struct Viewer {
    deframer: Deframer,
    pub(crate) state: State,
    last_barrier: u32,
    last_ping: u32,
    next_ping_at: Micros,
    /// Whether the session answers.
    liveness: LivenessWatch,
    /// Input was sent and no ping since: its loss would not be noticed.
    unprobed_input: bool,
    /// What is down on this connection.
    held: HeldInput,
    /// When a keepalive is due because a key or the pen is down.
    keepalive_at: Micros,
}

impl Viewer {
    /// A viewer whose hello is ready to be sent.
    pub fn new(config: &ViewerConfig) -> Viewer {
        let clipboard = if config.clipboard.take { ViewerCaps::CLIPBOARD } else { 0 };
        let hello = ViewerHello {
            version: VERSION,
            caps: config.caps | ViewerCaps::PACKED | ViewerCaps::LOSSY | clipboard,
            size: config.size,
            message_bytes_max: SESSION_MESSAGE_BYTES_MAX as u32,
            name: config.name.clone(),
        };
        Viewer {
            deframer: Deframer::new(SESSION_MESSAGE_BYTES_MAX),
            state: State::new(config.clipboard, hello),
            last_barrier: 0,
            last_ping: 0,
            next_ping_at: 0,
            // Datagrams come with streams in which no packet waits for one before it.
            liveness: LivenessWatch::new(config.caps & ViewerCaps::DATAGRAMS == 0),
            unprobed_input: false,
            held: HeldInput::default(),
            keepalive_at: 0,
        }
    }

    /// A viewer with a framebuffer and no connection, for the next one to continue from.
    pub(crate) fn without_connection(framebuffer: Framebuffer) -> Viewer {
        let config = ViewerConfig {
            name: String::new(),
            size: Size::default(),
            caps: 0,
            clipboard: ClipboardPolicy::OFF,
        };
        let mut viewer = Viewer::new(&config);
        viewer.state.framebuffer = framebuffer;
        viewer.state.closed = true;
        viewer
    }

    /// Writes a rectangle of that framebuffer: blue, green and red of each pixel.
    pub(crate) fn restore(&mut self, rect: &Rect, pixels: &[[u8; 3]]) {
        let pixels: Vec<u32> =
            pixels.iter().map(|&[b, g, r]| u32::from_le_bytes([b, g, r, 0xff])).collect();
        self.state.framebuffer.write(rect, &pixels, true);
    }

    /// Declares that a page was reloaded: earlier programs used this instance number
    /// ([`Viewer::set_instance`]). Input numbers continue from the session's report. Call it after
    /// [`Viewer::continue_from`], if at all.
    pub fn set_reloaded(&mut self) {
        self.state.unacked_input.set_reloaded();
    }

    /// Offers a cache to the session; it may hold pixels from an earlier connection.
    ///
    /// # Panics
    /// If it is not called directly after [`Viewer::new`]: the offer follows the hello.
    pub fn offer_cache(&mut self, cache: Cache) {
        assert!(
            self.state.cache.get().is_none() && !self.state.greeted,
            "a cache is offered once, after the hello"
        );
        let offer = self.state.cache.offer(cache);
        self.state.outbox.push(&ViewerMessage::Cache(offer));
    }

    /// Continues from an earlier connection: until the first update, the framebuffer shows the
    /// earlier one's pixels of the same part of the screen; the session is told which tiles those
    /// are, and sends only tiles that differ. Input that has not arrived there is sent here. `key`
    /// is random and keys the tile hashes, so that nobody can craft colliding tiles.
    ///
    /// # Panics
    /// After the first geometry.
    pub fn continue_from(&mut self, earlier: &mut Viewer, key: [u8; RETAINED_KEY_BYTES]) {
        assert!(
            self.state.epoch.is_none(),
            "a viewer continues from another before its first geometry"
        );
        self.take_unacked_input(earlier);
        earlier.paint_videos();
        let lower = earlier.state.framebuffer.newest();
        let tiles = retained_tiles::retained_tiles(lower, key);
        tiles.into_iter().for_each(|tiles| self.state.outbox.set_retained_tiles(tiles));
        self.state.framebuffer.set_earlier(lower);
    }

    /// Takes over the input that may not have arrived on another connection: from one that has
    /// ended, for the next; or back, if the next ended before its first geometry.
    pub fn take_unacked_input(&mut self, from: &mut Viewer) {
        self.state.unacked_input = from.state.unacked_input.take_over();
        self.state.last_input = from.state.last_input;
    }

    /// The cache in its present state, to be saved.
    pub fn cache(&self) -> Option<&Cache> {
        self.state.cache.get()
    }

    /// Takes the cache of a connection that has ended, for the next one.
    pub fn take_cache(&mut self) -> Option<Cache> {
        self.state.closed = true;
        self.state.cache.take()
    }

    /// Handles the next bytes from the session, in chunks of any size.
    ///
    /// # Errors
    /// The session's violation of the protocol; a `Close` with the reason waits in `poll_transmit`,
    /// and further bytes are refused.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Micros) -> Result<(), ViewerError> {
        let mut more = self.handle_bytes_until_frame_end(bytes, now)?;
        while more {
            more = self.handle_bytes_until_frame_end(&[], now)?;
        }
        Ok(())
    }

    /// As [`handle_bytes`](Viewer::handle_bytes), but stops after an update that ends a drawing
    /// burst, and after 64 Mi pixels, so that a shell's time-outs are noticed whatever a session
    /// sends. True: it stopped there, and the next call continues, with further bytes or none.
    ///
    /// # Errors
    /// As for [`handle_bytes`](Viewer::handle_bytes).
    pub fn handle_bytes_until_frame_end(
        &mut self,
        bytes: &[u8],
        now: Micros,
    ) -> Result<bool, ViewerError> {
        if self.state.closed {
            return Err(ViewerError::Ended);
        }
        if !bytes.is_empty() {
            self.liveness.handle_received(now);
        }
        let updates = self.state.stats.updates;
        self.state.stats.bytes_in += bytes.len() as u64;
        self.deframer.push(bytes);
        let result = self.handle_messages(now);
        if self.state.stats.updates != updates {
            self.liveness.handle_update();
        }
        self.send_due_input(now);
        self.close_on_error(&result);
        self.ping(now);
        result
    }

    /// Handles a datagram from the session: an update, which may arrive at any time, repeatedly, or
    /// never.
    ///
    /// # Errors
    /// As for [`handle_bytes`](Viewer::handle_bytes).
    pub fn handle_datagram(&mut self, bytes: &[u8], now: Micros) -> Result<(), ViewerError> {
        if self.state.closed {
            return Err(ViewerError::Ended);
        }
        self.liveness.handle_received(now);
        let updates = self.state.stats.updates;
        self.state.stats.bytes_in += bytes.len() as u64;
        let result = self.state.handle_datagram(bytes, now);
        if self.state.stats.updates != updates {
            self.liveness.handle_update();
        }
        self.close_on_error(&result);
        self.ping(now);
        result
    }

    /// Appends the next datagram to send; false if there is none. Its loss has no consequences.
    pub fn poll_datagram(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        if let Some(arrived) = self.state.order.poll_ack().filter(|_| !self.state.closed) {
            ViewerMessage::Arrived(arrived.clone()).encode(out);
        } else if !self.state.closed
            && self.state.order.is_on
            && self.state.microphone.poll_datagram(out)
        {
            // Its loss is what repeats are for.
        } else if let Some(early) = self.state.stream_tail.poll().filter(|_| !self.state.closed) {
            ViewerMessage::Early(early).encode(out);
        }
        self.state.stats.bytes_out += (out.len() - before) as u64;
        out.len() > before
    }

    /// Ends the connection after a violation of the protocol, with the reason.
    fn close_on_error<T>(&mut self, result: &Result<T, ViewerError>) {
        if let Err(error) = result {
            self.state.closed = true;
            self.state.outbox.push(&ViewerMessage::Close(error.to_string()));
        }
    }

    /// Handles messages until an update ends a drawing burst; true if one did, and the connection
    /// is still open.
    fn handle_messages(&mut self, now: Micros) -> Result<bool, ViewerError> {
        let before = self.state.stats.frames;
        self.state.work = 0;
        let goes_on = |state: &State| {
            !state.closed && state.stats.frames == before && state.work < SCREEN_AREA_MAX
        };
        while goes_on(&self.state) {
            let Some(frame) = self.deframer.next()? else { return Ok(false) };
            self.state.handle_frame(&frame, now)?;
        }
        Ok(!self.state.closed)
    }

    /// Takes a user input; returns its number, which its echo carries. Input queued behind an
    /// earlier connection's log is renumbered when it is sent.
    pub fn handle_input(&mut self, event: InputEvent, now: Micros) -> u32 {
        self.state.unacked_input.handle_made(&event);
        if !self.state.unacked_input.waits() {
            let event = self.state.unacked_input.without_released(event);
            return self.send_input(event, now, now);
        }
        let seq = self.next_input();
        self.state.unacked_input.handle_live(seq);
        self.state.unacked_input.push(seq, event, now, now);
        seq
    }

    /// As [`Viewer::handle_input`], for input made while the connection is lost and the next one
    /// shows nothing yet. Keystrokes are buffered, and all or none are sent once a session has
    /// reported the last input that it took. None: the event is not buffered. A click on an
    /// outdated screen could redirect the keystrokes, so it discards them.
    pub fn buffer_input(&mut self, event: InputEvent, now: Micros) -> Option<u32> {
        let is_pen_press = self.state.unacked_input.handle_made(&event);
        match event {
            InputEvent::Key { .. }
            | InputEvent::Char(_)
            | InputEvent::Locks { .. }
            | InputEvent::ReleaseAll => {}
            InputEvent::Button { down: true, .. }
            | InputEvent::Touch { phase: TouchPhase::Begin, .. } => {
                return self.discard_unacked_input();
            }
            InputEvent::Pen(_) if is_pen_press => return self.discard_unacked_input(),
            InputEvent::Button { down: false, .. }
            | InputEvent::Touch { phase: TouchPhase::End, .. }
            | InputEvent::Pen(PenSample { buttons: 0, .. })
                if self.state.unacked_input.is_pressed(&event) => {}
            _ => return None,
        }
        if !self.state.unacked_input.waits() {
            let event = self.state.unacked_input.without_released(event);
            return Some(self.send_input(event, now, now));
        }
        let seq = self.next_input();
        self.state.unacked_input.push(seq, event, now, now);
        Some(seq)
    }

    fn discard_unacked_input(&mut self) -> Option<u32> {
        let seq = self.next_input();
        self.state.unacked_input.discard(seq);
        None
    }

    /// True if input made now, without a connection, would be sent by the next one.
    pub fn can_buffer_input(&self, now: Micros) -> bool {
        self.state.unacked_input.can_resend(now)
    }

    /// Sends buffered input, once it is known which of it the session lacks.
    fn send_due_input(&mut self, now: Micros) {
        for (event, made) in self.state.unacked_input.take_due() {
            self.send_input(event, made, now);
        }
    }

    /// True if the session accepts `InputEvent::MotionBy`; otherwise it is ignored.
    pub fn takes_relative(&self) -> bool {
        self.state.takes_relative
    }

    /// True if the session accepts `InputEvent::Pen`; otherwise it is ignored, and the pen is a
    /// mouse.
    pub fn takes_pen(&self) -> bool {
        self.state.takes_pen
    }

    /// True if an application wants `InputEvent::MotionBy`; known by the end of a connection's
    /// first drawing burst.
    pub fn relative_wanted(&self) -> bool {
        self.state.relative_wanted
    }

    /// Number of the newest input that was sent or buffered.
    pub fn newest_input(&self) -> u32 {
        self.state.last_input
    }

    fn next_input(&mut self) -> u32 {
        self.state.last_input = self.state.last_input.wrapping_add(1);
        self.state.last_input
    }

    /// Sends an event and logs it with the time it was `made` until it has arrived.
    fn send_input(&mut self, event: InputEvent, made: Micros, now: Micros) -> u32 {
        let seq = self.next_input();
        self.state.stats.inputs += 1;
        let is_taken = match event {
            InputEvent::MotionBy { .. } => self.state.takes_relative,
            InputEvent::Pen(_) => self.state.takes_pen,
            _ => true,
        };
        let is_press = is_taken && self.held.is_press(event);
        if is_press {
            self.state.stats.input_made(seq, now);
        }
        if !is_taken || !self.held.handle(event) {
            return seq;
        }
        self.keepalive_at = now + KEEPALIVE_INTERVAL_US;
        if is_press {
            // The user expects a response to this input.
            self.liveness.handle_input(now);
            self.state.stream_tail.schedule(self.state.stats.rtt_us, now);
        }
        match self.state.outbox.push_input(Input { seq, event }) {
            Some(sum) => self.state.unacked_input.replace_motion(seq, sum, made),
            None => self.state.unacked_input.push(seq, event, made, now),
        }
        self.state.stats.inputs_dropped = self.state.outbox.dropped();
        self.unprobed_input = true;
        self.ping(now);
        seq
    }

    /// Sets the viewer's instance number, the same on each of its connections: the session ends an
    /// older connection with this number, so that input still in flight there is refused, and
    /// reports the last input that it took.
    ///
    /// # Panics
    /// After the hello was sent.
    pub fn set_instance(&mut self, number: [u8; INSTANCE_BYTES]) {
        self.state.outbox.set_instance(number);
    }

    /// Announces the keyboard's layout, as far as it is known.
    pub fn set_layout(&mut self, layout: KeyboardLayout) {
        self.state.outbox.push(&ViewerMessage::KeyboardLayout(layout));
    }

    /// Asks to share the session, or to change what a guest may do; `ViewerEvent::Shared` answers
    /// with this number. False if too many requests are unanswered: none is sent.
    pub fn share(&mut self, request: u32, action: ShareAction) -> bool {
        let requests = &mut self.state.share_requests;
        if requests.len() >= SHARE_REQUESTS_MAX || requests.contains(&request) {
            return false;
        }
        requests.push(request);
        self.state.outbox.push(&ViewerMessage::Share(Share { request, action }));
        true
    }

    /// The user wants the clipboard to be shared in these directions; only after a
    /// [`ViewerEvent::ClipPolicy`].
    pub fn set_clip_policy(&mut self, directions: ClipDirections) {
        self.state.outbox.push(&ViewerMessage::ClipPolicy(directions));
    }

    /// The window has a new size.
    pub fn handle_resize(&mut self, size: Size) {
        self.state.outbox.push(&ViewerMessage::Resize(size));
    }

    /// Requests which part of the screen is shown, and how large; the session answers with a
    /// geometry. Only the newest request is sent.
    pub fn set_view(&mut self, view: View) {
        self.state.outbox.set_view(view);
    }

    /// Announces the viewer's monitors; the session adopts their layout if this viewer controls its
    /// size. Only the newest is sent.
    pub fn set_displays(&mut self, displays: Displays) {
        self.state.outbox.set_displays(displays);
    }

    /// Requests a `ViewerEvent::Barrier` for when everything drawn until now has been applied,
    /// including decoded video frames; returns its number.
    ///
    /// # Panics
    /// If 8 barriers are unanswered: a shell waits for one at a time.
    pub fn request_barrier(&mut self) -> u32 {
        let unanswered = self.state.barriers.len() + self.state.videos.barriers_len();
        assert!(
            unanswered < BARRIERS_LEN_MAX,
            "at most {BARRIERS_LEN_MAX} barriers may be unanswered"
        );
        self.last_barrier = self.last_barrier.wrapping_add(1);
        self.state.barriers.push(self.last_barrier);
        self.state.outbox.push(&ViewerMessage::Barrier(self.last_barrier));
        self.last_barrier
    }

    /// Requests the whole screen again.
    pub fn request_refresh(&mut self) {
        self.state.outbox.push(&ViewerMessage::Resync);
    }

    /// True if part of a drawing burst is applied and the rest is still to come.
    pub fn is_in_frame(&self) -> bool {
        self.state.in_frame && self.state.unpresented.is_some()
    }

    /// The shell has presented everything applied until now; `now` is its best estimate of when.
    pub fn handle_presented(&mut self, now: Micros) {
        let Some((update, since)) = self.state.unpresented.take() else { return };
        let delay_us = now.saturating_sub(since);
        if let Some(time) = self.state.videos.take_painted() {
            self.state.lip_sync.handle_presented(time, now);
        }
        self.state.stats.presented(now);
        self.state.stats.present_delay_us = Some(delay_us);
        let delay_us = u32::try_from(delay_us).unwrap_or(u32::MAX);
        // If updates may be datagrams, ARRIVED messages acknowledge them instead.
        let applied = if self.state.order.is_on { 0 } else { self.state.last_seq };
        self.state.outbox.presented(applied, Presented { update, delay_us });
    }

    /// An application on the viewer's side owns the selection now, or none does. Its content is
    /// requested when it is pasted.
    pub fn offer_clipboard(&mut self, selection: Selection, formats: ClipFormats) {
        self.state.clipboard.end.offer(selection, formats);
    }

    /// Requests the content of the session's selection: `ClipReceived` or `ClipEnded` answers to
    /// this number. None if the session does not offer this format, or if eight transfers are in
    /// progress.
    pub fn request_clipboard(
        &mut self,
        selection: Selection,
        format: ClipFormat,
        now: Micros,
    ) -> Option<u32> {
        self.state.clipboard.end.request(selection, format, now)
    }

    /// Cancels a requested transfer.
    pub fn cancel_clipboard(&mut self, id: u32) {
        self.state.clipboard.end.cancel(id);
    }

    /// Answers `ClipWanted`; an unknown number is ignored. A content that is too long, or not of
    /// its format, is not sent, and `ClipEnded` reports it.
    pub fn provide_clipboard(&mut self, id: u32, content: Result<Vec<u8>, ClipEnd>, now: Micros) {
        self.state.clipboard.provide(id, content, now);
    }

    /// Whether the session answers, and what the shell does if it does not. It becomes worse in
    /// [`Viewer::handle_timeout`] only, and better when something arrives.
    pub fn liveness(&self) -> Liveness {
        self.liveness.liveness()
    }

    /// Since when an answer is due and nothing has arrived; a live session answers within a round
    /// trip.
    pub fn unanswered_since(&self) -> Option<Micros> {
        self.liveness.unanswered_since(&self.outstanding()).filter(|_| !self.state.closed)
    }

    /// The connection is open and the hello is sent: the session has to answer it. `replaces`: the
    /// connection took the place of another, which worked. A shell that waits for the session's
    /// answer itself does not call this.
    pub fn handle_opened(&mut self, replaces: bool, now: Micros) {
        self.liveness.handle_opened(replaces, now);
    }

    /// Whether an idle connection is probed: the transport has no keepalive, and the person sees
    /// the picture.
    pub fn set_idle_probes(&mut self, on: bool) {
        self.liveness.set_idle_probes(on);
    }

    /// The machine has slept, or has another network: the connection is most likely lost.
    pub fn handle_wake(&mut self, now: Micros) {
        self.liveness.handle_wake(now);
        self.probe_liveness(now);
    }

    /// Sends a liveness probe unless one is in flight.
    pub fn probe_liveness(&mut self, now: Micros) {
        if self.state.greeted && !self.state.closed && self.state.pings.is_empty() {
            self.send_ping(now);
        }
    }

    /// When [`Viewer::liveness`] may next become worse, or a probe is due: part of
    /// [`Viewer::poll_deadline`].
    pub fn liveness_deadline(&self) -> Option<Micros> {
        self.liveness.deadline(&self.outstanding()).filter(|_| !self.state.closed)
    }

    fn outstanding(&self) -> Outstanding {
        let pings = &self.state.pings;
        Outstanding {
            greeted: self.state.greeted,
            pings: pings
                .front()
                .zip(pings.back())
                .map(|(&(_, oldest), &(_, newest))| (oldest, newest)),
            may_ping: pings.len() < PINGS_MAX,
            round_trip: self.state.stats.rtt_min_us,
        }
    }

    /// When [`Viewer::handle_timeout`] is due, if nothing else happens.
    pub fn poll_deadline(&self) -> Option<Micros> {
        let alive = (self.state.greeted && self.held.is_kept_alive()).then_some(self.keepalive_at);
        let ping = (self.state.greeted && self.unprobed_input && self.state.pings.is_empty())
            .then_some(self.next_ping_at);
        self.state
            .clipboard
            .end
            .poll_deadline()
            .into_iter()
            .chain(self.state.files.end.poll_deadline())
            .chain(alive)
            .chain(ping)
            .chain(self.liveness_deadline())
            .chain(self.state.videos.deadline())
            .chain(self.state.stream_tail.deadline())
            .chain(
                self.state
                    .order
                    .deadline(self.state.epoch, DatagramOrder::window(self.state.stats.rtt_us)),
            )
            .min()
            .filter(|_| !self.state.closed)
    }

    /// Handles expired deadlines: transfers time out, delayed updates are applied, keepalives are
    /// sent while a key or the pen is down, probes while the session does not answer.
    pub fn handle_timeout(&mut self, now: Micros) {
        if !self.state.closed {
            let result = self.state.apply_ready_updates(now);
            self.close_on_error(&result);
        }
        if let Some(arrived) = self.state.order.poll_repeated_ack(now) {
            self.state.outbox.push(&ViewerMessage::Arrived(arrived.clone()));
        }
        self.state.stream_tail.handle_timeout(now);
        self.state.clipboard.timeout(now);
        self.state.files.timeout(now);
        self.state.videos.timeout(now);
        self.state.settle_videos();
        if self.unprobed_input {
            self.ping(now);
        }
        let outstanding = self.outstanding();
        if !self.state.closed && self.liveness.handle_timeout(&outstanding, now) {
            self.send_ping(now);
        }
        if self.held.is_kept_alive() && self.keepalive_at <= now {
            self.keepalive_at = now + KEEPALIVE_INTERVAL_US;
            if self.state.greeted && !self.state.closed && self.state.pings.len() < PINGS_MAX {
                self.send_ping(now);
            }
        }
    }

    /// Closes the connection; `poll_transmit` gives the last bytes. Buffered input is sent with
    /// them or not at all.
    pub fn handle_close(&mut self, reason: &str) {
        self.state.unacked_input = UnackedInput::default();
        if !self.state.closed {
            self.state.closed = true;
            self.state.outbox.push(&ViewerMessage::Close(reason.to_owned()));
        }
    }

    /// Appends bytes to send; false if there are none.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let is_open = self.state.greeted && !self.state.closed;
        let has_datagrams = self.state.order.is_on;
        let State { outbox, clipboard, files, videos, microphone, stats, stream_tail, .. } =
            &mut self.state;
        if is_open {
            clipboard.poll_control(outbox, stats);
            files.poll_control(outbox);
        }
        let mut any = outbox.poll(out);
        if is_open {
            any |= videos.poll_answers(out);
            // Behind input; as a datagram where there are any.
            any |= !has_datagrams && microphone.poll_stream(out);
            // Clipboard contents come behind everything that is shown, and files behind them.
            any |= clipboard.poll_pieces(out, stats);
            any |= files.poll_pieces(out);
        }
        stats.bytes_out += (out.len() - before) as u64;
        stream_tail.written(&out[before..]);
        any
    }

    /// The next event for the shell.
    pub fn poll_event(&mut self) -> Option<ViewerEvent> {
        self.state
            .events
            .poll()
            .or_else(|| self.state.clipboard.end.poll_event().map(ViewerEvent::from))
    }

    /// The viewer's end of the files channel, for offers, answers and content; what it says is sent
    /// by `poll_transmit`. It takes files if the viewer has announced that, and sends them once the
    /// session's hello has. A new connection has a new one.
    pub fn files(&mut self, now: Micros) -> &mut Endpoint {
        self.state.files.end(now)
    }

    /// True if the session takes files from this viewer.
    pub fn gives_files(&self) -> bool {
        self.state.files.gives()
    }

    /// True if the session may offer what its programs print.
    pub fn prints(&self) -> bool {
        self.state.files.prints()
    }

    /// What the shell shall do next with files.
    pub fn poll_file_event(&mut self) -> Option<FileEvent> {
        self.state.files.end.poll_event()
    }

    /// The next work for the shell's decoders, if it has announced any.
    pub fn poll_video(&mut self) -> Option<VideoEvent> {
        self.state.videos.poll()
    }

    /// True if there is work for the decoders.
    pub fn has_video(&self) -> bool {
        self.state.videos.has_task()
    }

    /// A decoder is ready for the stream. Unknown stream and frame numbers are ignored, here and
    /// below.
    pub fn handle_video_ready(&mut self, stream: u64) {
        self.state.videos.handle_ready(stream);
    }

    /// The stream cannot be decoded, now or later: the session sends its area as pixels.
    pub fn handle_video_refused(&mut self, stream: u64) {
        self.state.videos.handle_refused(stream);
        self.state.settle_videos();
    }

    /// A frame was decoded: samples of the announced size or larger. It is painted where nothing
    /// was drawn since it arrived; `FrameEnd` follows if that is to be presented.
    pub fn handle_video_frame(&mut self, serial: u64, planes: &PlanesRef<'_>, now: Micros) {
        self.state.handle_video_frame(serial, Samples::Borrowed(planes), now);
    }

    /// As [`Viewer::handle_video_frame`], for a decoder that gives its planes away and takes others
    /// in exchange.
    pub fn handle_video_planes(&mut self, serial: u64, planes: &mut Planes, now: Micros) {
        self.state.handle_video_frame(serial, Samples::Owned(planes), now);
    }

    /// Sets whether the shell paints videos itself ([`Viewer::video_layers`]); if not, all are
    /// painted into the framebuffer.
    pub fn set_video_layers(&mut self, on: bool) {
        self.state.videos.set_layers(on, &mut self.state.framebuffer);
    }

    /// The video frames visible over the framebuffer, if the shell paints them. A frame's region
    /// was damaged when it arrived; the framebuffer's own pixels there are older until somebody
    /// needs them.
    pub fn video_layers(&self) -> impl Iterator<Item = &VideoLayer> {
        self.state.videos.layers()
    }

    /// Paints all layers into the framebuffer, as if no shell painted.
    pub fn paint_videos(&mut self) {
        self.state.videos.paint_all(&mut self.state.framebuffer);
    }

    /// A frame could not be decoded. Frames that refer to it are dropped too, and the session is
    /// asked for a keyframe.
    pub fn handle_video_frame_failed(&mut self, serial: u64) {
        self.state.videos.handle_failed(serial);
        self.state.settle_videos();
    }

    /// True if some of this frame would still be visible. If not, it has to be decoded all the
    /// same, because other frames refer to it; [`Viewer::handle_video_frame_skipped`] then
    /// suffices.
    pub fn is_video_frame_visible(&self, serial: u64) -> bool {
        self.state.videos.is_visible(serial)
    }

    /// A frame was decoded that is no longer visible.
    pub fn handle_video_frame_skipped(&mut self, serial: u64) {
        self.state.videos.handle_skipped(serial);
        self.state.settle_videos();
    }

    /// Takes a frame's buffer back for reuse.
    pub fn reuse_video_buffer(&mut self, data: Vec<u8>) {
        self.state.videos.reuse(data);
    }

    /// Count of frames that wait for the decoder.
    pub fn video_frames_waiting(&self) -> usize {
        self.state.videos.waiting_len()
    }

    /// Count of active video streams.
    pub fn video_streams_active(&self) -> usize {
        self.state.videos.active_len()
    }

    /// True if an active video area overlaps `rect`.
    pub(crate) fn has_video_in(&self, rect: &Rect) -> bool {
        self.state.videos.has_video_in(rect)
    }

    /// The framebuffer.
    pub fn framebuffer(&self) -> &Framebuffer {
        &self.state.framebuffer
    }

    /// Which pixels of the framebuffer are lossy; empty when all are refreshed.
    pub const fn lossy(&self) -> &LossyMask {
        self.state.framebuffer.lossy()
    }

    /// Takes the damage since the last call: where [`Viewer::picture`] has other pixels. While two
    /// eyes' pictures are shown as one, no video frame is left to the shell.
    pub fn take_damage(&mut self) -> Region {
        self.state.take_damage()
    }

    /// True if there is damage.
    pub fn has_damage(&self) -> bool {
        !self.state.framebuffer.damage().is_empty()
    }

    /// Counts and measurements.
    pub fn stats(&self) -> &ViewerStats {
        &self.state.stats
    }

    /// True if either side has ended the connection.
    pub fn is_closed(&self) -> bool {
        self.state.closed
    }

    /// Watches the path from now on, for a shell that can connect over another transport.
    pub fn watch_path(&mut self) {
        self.state.path_watch.start();
    }

    /// True if a round trip was measured since [`Viewer::handle_losses`] was last called, and the
    /// path is watched.
    pub fn wants_losses(&self) -> bool {
        self.state.path_watch.wants_losses()
    }

    /// Count of the viewer's packets that the path has lost since the connection began.
    pub fn handle_losses(&mut self, lost: u64, now: Micros) {
        self.state.path_watch.handle_losses(lost, now);
    }

    /// Why another transport is to be tried now. None while anything is held down, which a change
    /// of connections would release.
    pub fn path_change(&self, now: Micros) -> Option<PathChange> {
        self.state.path_watch.due(now).filter(|_| self.state.greeted && !self.holds_input())
    }

    /// Another transport is tried; one of the next two methods reports if it is not taken.
    pub fn handle_transport_attempt(&mut self) {
        self.state.path_watch.handle_attempt();
    }

    /// The attempt led to nothing; the next follows later.
    pub fn handle_transport_failure(&mut self, now: Micros) {
        self.state.path_watch.handle_failure(now);
    }

    /// The transport could be used, but something is held down.
    pub fn handle_transport_postponed(&mut self) {
        self.state.path_watch.handle_postponed();
    }

    /// A key, a button or a finger is down.
    pub fn holds_input(&self) -> bool {
        self.held.is_any()
    }

    /// Another connection may take the place of this one now: nothing is held down, which that
    /// would release, and no drawing burst is on its way, which would be sent twice, whether or not
    /// its beginning was presented.
    pub fn may_be_replaced(&self) -> bool {
        !self.holds_input() && !self.state.in_frame
    }

    pub(crate) fn ping(&mut self, now: Micros) {
        let sooner = self.state.path_watch.ping_interval(now);
        let sooner = sooner.map_or(0, |interval| PING_INTERVAL_US - interval);
        if self.state.closed
            || !self.state.greeted
            || now + sooner < self.next_ping_at
            || !self.state.pings.is_empty()
        {
            return;
        }
        self.send_ping(now);
    }

    fn send_ping(&mut self, now: Micros) {
        self.next_ping_at = now + PING_INTERVAL_US;
        self.unprobed_input = false;
        self.last_ping = self.last_ping.wrapping_add(1);
        self.state.pings.push_back((self.last_ping, now));
        self.state.unacked_input.pinged(self.last_ping, self.state.last_input);
        self.state.outbox.push(&ViewerMessage::Ping(self.last_ping));
    }
}
