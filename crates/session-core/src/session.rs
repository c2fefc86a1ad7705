//! Path 4/13 to 10/13 and back: the one object a shell drives; events in by `handle_*`, work out by `poll_*`.
//! Spreads the screen's drawings over the viewers' queues, and the viewers' wishes over the driver.
//! Knows all viewers and the records' order; never pixels, sockets or clocks.
//!
//! The shell's loop: drain the ring into [`Session::handle_record`]; carry out [`Session::poll_request`]; for each viewer,
//! while [`Session::poll_job`] gives one: let the shadow forget, apply its COPYs to it, read the pixels, *then* load `begin`,
//! [`Session::handle_snapshot`], plan, encode, [`Session::handle_encoded`]; write what [`Session::poll_transmit`] gives;
//! wait until something happens or [`Session::poll_deadline`] passes.

mod arrivals;
mod clipboard;
mod displays;
mod input;

use std::collections::VecDeque;

use thinc_clipboard::ClipboardPolicy;
use thinc_protocol::Micros;
use thinc_protocol::session::{CacheGrant, CloseCode, CursorColors};
use thinc_protocol::viewer::{Layout, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{DrawRecord, InputMessage, RecordKind};

use crate::clipboard::Hub;
use crate::command_queue::{Echo, Kinds, Lane, Origin};
use crate::displays::Arrangement;
use crate::fates::Fate;
use crate::flow::PathFigures;
use crate::hand::Hand;
use crate::input::{Binding, KeyAction, Keyboard, Keymap};
use crate::mutation::Broken;
#[cfg(feature = "mutations")]
use crate::mutation::Mutation;
use crate::packer::Packer;
use crate::pointer::{CursorImageOwned, Pointer};
use crate::quality::{Entropy, LossyPolicy, VideoPolicy};
use crate::scheduler::Scheduling;
use crate::translate::{Drawing, Translator};
use crate::update::{Job, JobId, SnapshotVerdict};
use crate::video::PortFrame;
use crate::view::Transform;
use crate::viewer::{Proposals, Screen, Viewer, ViewerId, ViewerStats, Violation};

use displays::Outputs;
use input::Wish;

/// Most requests that wait for the driver; motion is dropped past it, and a viewer that sends keys past it goes.
const REQUESTS_MAX: usize = 4096;
/// Most inputs whose delivery the driver has not told; past it the oldest is forgotten and echoes nothing.
const DELIVERIES_MAX: usize = 256;
/// Most rectangles a run of drawings collects before the queues take it.
const FRESH_RECTS_MAX: usize = 64;

/// What a session is made with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name, as viewers see it.
    pub name: String,
    /// The screen's size until the driver is attached.
    pub size: Size,
    /// In which order pixels leave.
    pub scheduling: Scheduling,
    /// Follow what is drawn into pixmaps (THINC §2.4). Without it, what is copied from one is new pixels.
    pub offscreen: bool,
    /// Whether photographs may be sent lossy, to be exact when they rest.
    pub lossy: LossyPolicy,
    /// Whether videos travel as streams.
    pub video: VideoPolicy,
}

impl Config {
    /// A session of this name, as it is where nobody has asked for anything else.
    pub fn new(name: &str, size: Size) -> Config {
        Config {
            name: name.to_owned(),
            size,
            scheduling: Scheduling::ShortestFirst,
            offscreen: true,
            lossy: LossyPolicy::Auto,
            video: VideoPolicy::Auto,
        }
    }
}

/// What the shell shall carry to the driver, or to X.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Send this on the input socket.
    Input(InputMessage),
    /// Make spare keycodes give these keysyms (ChangeKeyboardMapping), and only then go on with requests.
    Bind(Vec<Binding>),
    /// Lay the X keyboard out like this and, where that went well, tell `handle_keymap`; only then go on with requests.
    SetLayout(Layout),
    /// Lock or unlock the lock keys of the X keyboard, and only then go on with requests.
    SetLocks {
        /// Caps Lock is on.
        caps: bool,
        /// Num Lock is on.
        num: bool,
    },
    /// Give the screen these outputs, and tell the desktop how large things are.
    Resize(Arrangement),
    /// Send the driver a barrier of this number; its record comes back through `handle_record`.
    Barrier(u32),
}

/// A run of drawings in one window that no queue has taken yet.
#[derive(Debug)]
struct Fresh {
    region: Region,
    kinds: Kinds,
    window: u32,
    since: Micros,
    /// All of it is this one of XVideo.
    frame: Option<PortFrame>,
}

/// An input on its way to the X server.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    seq: u32,
    viewer: ViewerId,
    viewer_seq: u32,
}

/// One session: a screen and its viewers.
#[derive(Debug)]
pub struct Session {
    name: String,
    size: Size,
    viewers: Vec<Viewer>,
    next_viewer: u32,
    translator: Translator,
    fresh: Option<Fresh>,
    /// Drawn as it was already, if the drawable maps are right; no queue has taken it yet.
    same: Region,
    /// A region of one rectangle at a time, so that no record allocates.
    scratch: Region,
    /// X sleeps, and nothing was drawn since.
    idle: bool,
    pointer: Pointer,
    hand: Hand,
    keyboard: Keyboard,
    key_actions: Vec<KeyAction>,
    clipboard: Hub,
    requests: VecDeque<Wish>,
    /// What became of the first of them, and is being carried out.
    ready: VecDeque<Request>,
    /// Until when the next of these has to wait.
    keys_from: Option<Micros>,
    outputs: Outputs,
    deliveries: VecDeque<Delivery>,
    next_input: u32,
    next_barrier: u32,
    /// The newest moment any call named; for calls that name none.
    now: Micros,
    scheduling: Scheduling,
    lossy: LossyPolicy,
    video: VideoPolicy,
    broken: Broken,
}

impl Session {
    /// A session that breaks a rule of its queues.
    #[cfg(feature = "mutations")]
    pub fn with_broken_rule(config: Config, mutation: Option<Mutation>) -> Session {
        Session::new_with(config, Broken::rule(mutation))
    }

    /// A session whose driver is not attached yet.
    pub fn new(config: Config) -> Session {
        Session::new_with(config, Broken::default())
    }

    fn new_with(config: Config, broken: Broken) -> Session {
        Session {
            name: config.name,
            size: config.size,
            viewers: Vec::new(),
            next_viewer: 1,
            translator: Translator::new(config.size, config.offscreen, broken),
            fresh: None,
            same: Region::new(),
            scratch: Region::new(),
            idle: false,
            pointer: Pointer { shown: true, ..Pointer::default() },
            hand: Hand::default(),
            keyboard: Keyboard::default(),
            key_actions: Vec::new(),
            clipboard: Hub::new(ClipboardPolicy::OFF),
            requests: VecDeque::new(),
            ready: VecDeque::new(),
            keys_from: None,
            outputs: Outputs::new(config.size),
            deliveries: VecDeque::new(),
            next_input: 1,
            next_barrier: 1,
            now: 0,
            scheduling: config.scheduling,
            lossy: config.lossy,
            video: config.video,
            broken,
        }
    }

    /// The screen's size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The number of a viewer's picture: jobs of another are void. 0 where there is no such viewer.
    pub fn epoch(&self, id: ViewerId) -> u32 {
        self.viewer(id).map_or(0, Viewer::epoch)
    }

    /// What makes a viewer's picture of the screen; None where it is the screen.
    pub fn view(&self, id: ViewerId) -> Option<Transform> {
        self.viewer(id).and_then(Viewer::transform).copied()
    }

    /// The viewers, oldest first.
    pub fn viewers(&self) -> impl Iterator<Item = ViewerId> {
        self.viewers.iter().map(|viewer| viewer.id)
    }

    // ---- the front end -------------------------------------------------------------------------------------------

    /// A driver with a fresh ring: nothing is known of what it did before.
    pub fn handle_attach(&mut self, size: Size) {
        self.idle = true;
        self.deliveries.clear();
        self.outputs = Outputs::new(size);
        self.handle_geometry(size);
        // The driver that was asked is gone.
        let asked: Vec<u32> = self.viewers.iter().flat_map(Viewer::barriers_asked).collect();
        self.requests.retain(|wish| !matches!(wish, Wish::Ready(Request::Barrier(_))));
        self.requests.extend(asked.into_iter().map(|number| Wish::Ready(Request::Barrier(number))));
    }

    /// The screen has this size now, in a framebuffer that the shell reads from here on.
    pub fn handle_geometry(&mut self, size: Size) {
        self.translator.reset(size);
        self.fresh = None;
        self.same.clear();
        self.size = size;
        self.outputs_of_size(size);
        for viewer in &mut self.viewers {
            viewer.reset(size, self.now);
        }
    }

    /// One record of the ring. `Overflow`, `Geometry` and `Cursor` records are told by their own calls as well, which the
    /// shell makes when it meets them.
    pub fn handle_record(&mut self, record: &DrawRecord, now: Micros) {
        self.now = self.now.max(now);
        self.idle = false;
        let drawn = self.translator.record(record);
        self.take_drawings();
        if let Some((rect, kinds)) = drawn {
            let frame = match record.kind {
                RecordKind::Draw { what, .. } if kinds == Kinds::VIDEO => PortFrame::of(what, record.op),
                _ => None,
            };
            self.draw(rect, kinds, record.window, frame);
            if frame.is_some() && !record.more {
                // Before its op has passed: what was read too late is looked for until then.
                self.take_fresh();
            }
        }
        if !record.more {
            // X writes no record of an op behind one of a later op, whatever that says.
            self.viewers.iter_mut().for_each(|viewer| viewer.videos.passed(record.op));
        }
        match record.kind {
            RecordKind::Draw { .. } | RecordKind::Copy { .. } => {
                if !record.more {
                    // Until the queues are asked, one number stands for all of them.
                    for viewer in &mut self.viewers {
                        viewer.queue.passed(record.op);
                    }
                }
            }
            RecordKind::Idle => self.idle = true,
            RecordKind::VideoStopped { port } => {
                self.take_fresh();
                for viewer in &mut self.viewers {
                    viewer.video_stopped(port);
                }
            }
            RecordKind::Barrier { id } => {
                self.take_fresh();
                for viewer in &mut self.viewers {
                    viewer.driver_barrier(id);
                }
            }
            RecordKind::InputDelivered { seq, window } => self.input_delivered(seq, window),
            RecordKind::PixmapCreate { .. }
            | RecordKind::PixmapDestroy { .. }
            | RecordKind::Cursor
            | RecordKind::Geometry { .. }
            | RecordKind::Yield
            | RecordKind::Overflow => {}
        }
    }

    /// At an `Overflow` record: what changed on the screen while no records were written.
    pub fn handle_overflow(&mut self, dirty: &Region) {
        self.translator.overflow();
        self.take_drawings();
        self.take_fresh();
        for viewer in &mut self.viewers {
            viewer.overflow(dirty, self.now);
        }
    }

    /// The cursor has another image; one of size 0 × 0 hides it.
    pub fn handle_cursor(&mut self, image: CursorImageOwned) {
        self.pointer.image = Some(image);
        self.viewers.iter_mut().for_each(|viewer| viewer.cursor_news().image = true);
    }

    /// The cursor's image of two colours has these now; told before the image, where both change.
    pub fn handle_cursor_colors(&mut self, colors: CursorColors) {
        if self.pointer.colors != colors {
            self.pointer.colors = colors;
            self.viewers.iter_mut().for_each(|viewer| viewer.cursor_news().colors = true);
        }
    }

    /// An application moved the pointer.
    pub fn handle_cursor_move(&mut self, x: u16, y: u16) {
        self.pointer.at = Some((x, y));
        self.hand.point(i32::from(x), i32::from(y));
        self.viewers.iter_mut().for_each(|viewer| viewer.cursor_news().at = true);
    }

    /// The cursor is shown or hidden.
    pub fn handle_cursor_show(&mut self, shown: bool) {
        if self.pointer.shown != shown {
            self.pointer.shown = shown;
            self.viewers.iter_mut().for_each(|viewer| viewer.cursor_news().show = true);
        }
    }

    /// The X server's keymap, at the start and whenever it changes.
    pub fn handle_keymap(&mut self, keymap: Keymap) {
        self.keyboard.set_keymap(keymap);
    }

    /// Lock keys as X's keyboard shows them (geometry block, `leds`).
    pub fn handle_leds(&mut self, leds: u32) {
        self.keyboard.set_leds(leds);
    }

    #[inline]
    fn take_drawings(&mut self) {
        while let Some((drawing, window)) = self.translator.poll_drawing() {
            match drawing {
                Drawing::Draw { rect, kinds } => self.draw(rect, kinds, window, None),
                Drawing::Same(rect) => self.same(rect),
                Drawing::Many(region) => {
                    self.take_fresh();
                    self.fresh = Some(Fresh { region, kinds: Kinds::OTHER, window, since: self.now, frame: None });
                    self.take_fresh();
                }
                Drawing::Copy { op, copy, proof } => {
                    self.take_fresh();
                    let origin =
                        Origin { window, kinds: Kinds::OTHER, since: self.now, lane: Lane::Normal, echo: None };
                    for viewer in &mut self.viewers {
                        viewer.copy(&copy, op, proof, origin);
                    }
                }
            }
        }
    }

    fn same(&mut self, rect: Rect) {
        self.same.add_rect(rect);
        if self.same.rect_count() > FRESH_RECTS_MAX {
            self.take_fresh();
        }
    }

    fn draw(&mut self, rect: Rect, kinds: Kinds, window: u32, frame: Option<PortFrame>) {
        if let Some(fresh) = &mut self.fresh
            && (fresh.window, fresh.frame) == (window, frame)
        {
            fresh.region.add_rect(rect);
            fresh.kinds = fresh.kinds.with(kinds);
            if fresh.region.rect_count() > FRESH_RECTS_MAX {
                self.take_fresh();
            }
            return;
        }
        self.take_fresh();
        let mut region = self.scratch.take();
        region.add_rect(rect);
        self.fresh = Some(Fresh { region, kinds, window, since: self.now, frame });
    }

    /// Gives the run of drawings to every queue.
    fn take_fresh(&mut self) {
        if !self.same.is_empty() {
            for viewer in &mut self.viewers {
                viewer.doubt(&self.same, self.now);
            }
            self.same.clear();
        }
        let Some(mut fresh) = self.fresh.take() else { return };
        let bounds = fresh.region.extents();
        let hand = self.hand.is_answered_by(fresh.window, &bounds, fresh.since);
        let origin =
            Origin { window: fresh.window, kinds: fresh.kinds, since: fresh.since, lane: Lane::Normal, echo: None };
        for viewer in &mut self.viewers {
            match &fresh.frame {
                Some(frame) => viewer.frame(frame, &fresh.region, origin),
                None => viewer.draw(&fresh.region, origin, hand),
            }
        }
        fresh.region.clear();
        self.scratch = fresh.region;
    }

    fn input_delivered(&mut self, seq: u32, window: u32) {
        // What was drawn before the delivery is no answer to it.
        self.take_fresh();
        if window != 0 {
            self.hand.delivered(window, self.now);
        }
        let Some(at) = self.deliveries.iter().position(|delivery| delivery.seq == seq) else { return };
        let delivery = self.deliveries[at];
        // Inputs are delivered in order: those before it never will be.
        self.deliveries.drain(..=at);
        let echo = Echo { seq: delivery.viewer_seq, window, delivered: self.now };
        if let Some(viewer) = self.viewer_mut(delivery.viewer) {
            viewer.arm(echo);
        }
    }

    // ---- viewers -------------------------------------------------------------------------------------------------

    fn viewer(&self, id: ViewerId) -> Option<&Viewer> {
        self.viewers.iter().find(|viewer| viewer.id == id)
    }

    fn viewer_mut(&mut self, id: ViewerId) -> Option<&mut Viewer> {
        self.viewers.iter_mut().find(|viewer| viewer.id == id)
    }

    /// The viewer and what it may know of the session, borrowed apart.
    fn with_viewer<T>(&mut self, id: ViewerId, work: impl FnOnce(&mut Viewer, &Screen<'_>) -> T) -> Option<T> {
        let screen = Screen {
            name: &self.name,
            size: self.size,
            idle: self.idle,
            pointer: &self.pointer,
            drawables: self.translator.drawables(),
            scheduling: self.scheduling,
            lossy: self.lossy,
            video: self.video,
            encode_work: self.viewers.iter().map(|viewer| viewer.quality.work()).sum(),
            clipboard: self.clipboard.policy,
            broken: self.broken,
        };
        let viewer = self.viewers.iter_mut().find(|viewer| viewer.id == id)?;
        Some(work(viewer, &screen))
    }

    /// A viewer that has proved who it is. It is told everything, and the newest that can controls the size.
    pub fn add_viewer(&mut self, hello: &ViewerHello, now: Micros) -> ViewerId {
        self.now = self.now.max(now);
        self.take_fresh();
        let id = ViewerId(self.next_viewer);
        self.next_viewer += 1;
        let screen = Screen {
            name: &self.name,
            size: self.size,
            idle: self.idle,
            pointer: &self.pointer,
            drawables: self.translator.drawables(),
            scheduling: self.scheduling,
            lossy: self.lossy,
            video: self.video,
            encode_work: self.viewers.iter().map(|viewer| viewer.quality.work()).sum(),
            clipboard: self.clipboard.policy,
            broken: self.broken,
        };
        let mut viewer = Viewer::new(id, hello, &screen, now);
        self.clipboard.greet(&mut viewer.clipboard);
        let resizes = viewer.resizes;
        self.viewers.push(viewer);
        if resizes {
            self.request_size();
        }
        id
    }

    /// The viewer's connection ended: what it held is let go.
    pub fn remove_viewer(&mut self, id: ViewerId) {
        let Some(at) = self.viewers.iter().position(|viewer| viewer.id == id) else { return };
        self.release_all(at);
        let controlled = self.controller() == Some(id);
        // Nobody waits for them any more, and an X server that takes nothing must not leave them here.
        let asked: Vec<u32> = self.viewers[at].barriers_asked().collect();
        self.requests.retain(|wish| !matches!(wish, Wish::Ready(Request::Barrier(number)) if asked.contains(number)));
        self.keyboard.remove_viewer(id);
        self.viewers.remove(at);
        self.clipboard.left(id, &mut self.viewers, self.now);
        self.deliveries.retain(|delivery| delivery.viewer != id);
        if controlled {
            self.request_size();
        }
    }

    /// Ends a viewer's connection, and says why; `is_closed` once that has gone out.
    pub fn close_viewer(&mut self, id: ViewerId, code: CloseCode, reason: &str) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.close(code, reason);
        }
    }

    /// What becomes of the cache that a viewer offered: said before the next update. From now on the fates of its jobs
    /// are told.
    pub fn grant_cache(&mut self, id: ViewerId, grant: CacheGrant) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.grant_cache(grant);
        }
    }

    /// Which viewer this is, is known now: of its input so much was taken on earlier connections, None where there was none. A viewer
    /// that asked is told; nothing but the hello is sent before.
    pub fn set_seen(&mut self, id: ViewerId, seen: Option<u32>) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.set_seen(seen);
        }
    }

    /// The newest input of the viewer that was taken, and all before it; 0 for none.
    pub fn seen(&self, id: ViewerId) -> u32 {
        self.viewer(id).map_or(0, Viewer::seen)
    }

    /// What became of the viewer's jobs, in the order in which it became known; for viewers that were granted a cache, and
    /// whose updates arrive in their order. To be asked until it is dry after each acknowledgement and before each job is
    /// planned.
    pub fn poll_fate(&mut self, id: ViewerId) -> Option<(JobId, Fate)> {
        self.viewer_mut(id)?.updates.fates.poll()
    }

    /// True when the viewer's last message was given to transport.
    pub fn is_closed(&self, id: ViewerId) -> bool {
        self.viewer(id).is_none_or(Viewer::is_closed)
    }

    /// A message of a viewer. A violation ends that viewer's connection and nothing else.
    pub fn handle_message(&mut self, id: ViewerId, message: &ViewerMessage, now: Micros) -> Result<(), Violation> {
        self.now = self.now.max(now);
        let Some(at) = self.viewers.iter().position(|viewer| viewer.id == id) else {
            return Err(Violation::Unknown(id.0));
        };
        self.viewers[at].heard = self.now;
        match message {
            ViewerMessage::Hello(_) | ViewerMessage::Early(_) => Err(Violation::OutOfPlace),
            ViewerMessage::Ack(ack) => self.viewers[at].acked(ack.update, ack.presented, now),
            ViewerMessage::Arrived(arrived) => {
                self.take_fresh();
                self.viewers[at].arrived(arrived, false, now)
            }
            ViewerMessage::Input(input) => {
                self.handle_input(at, *input, now)?;
                self.viewers[at].saw(input.seq);
                Ok(())
            }
            ViewerMessage::Ping(number) => {
                self.viewers[at].pong(*number);
                Ok(())
            }
            ViewerMessage::Resize(size) => {
                self.handle_displays(at, Arrangement::one(*size), false);
                Ok(())
            }
            ViewerMessage::Barrier(number) => {
                let driver_number = self.next_barrier;
                self.viewers[at].barrier(*number, driver_number)?;
                self.next_barrier = self.next_barrier.wrapping_add(1).max(1);
                self.ask(Request::Barrier(driver_number));
                Ok(())
            }
            ViewerMessage::Refresh => {
                self.viewers[at].refresh();
                Ok(())
            }
            ViewerMessage::Layout(layout) => self.handle_layout(at, layout),
            // What is kept, the shell's plans know; and who is who, the shell.
            ViewerMessage::Cache(_) | ViewerMessage::Instance(_) => Ok(()),
            ViewerMessage::View(view) => {
                let before = self.controller();
                self.take_fresh();
                self.viewers[at].want_view(*view, self.size, self.now);
                if self.controller() != before {
                    self.request_size();
                }
                Ok(())
            }
            ViewerMessage::Video(state) => {
                self.viewers[at].video_said(*state, now);
                Ok(())
            }
            ViewerMessage::Displays(displays) => {
                self.handle_displays(at, Arrangement::of(displays), true);
                Ok(())
            }
            ViewerMessage::Held(held) => {
                self.viewers[at].holds(held);
                Ok(())
            }
            ViewerMessage::Clip(message) => self.handle_clip(at, message, now),
            // The shell reads the reason, and the end of the stream follows.
            ViewerMessage::Close(_) => Ok(()),
        }
    }

    /// What the shell shall carry out next, in this order.
    pub fn poll_request(&mut self, now: Micros) -> Option<Request> {
        self.now = self.now.max(now);
        self.ask_for_size();
        self.next_request(now)
    }

    /// Commits an update. None: nothing is ripe, or there is no room.
    pub fn poll_job(&mut self, id: ViewerId, now: Micros) -> Option<Job> {
        self.now = self.now.max(now);
        self.take_fresh();
        self.with_viewer(id, |viewer, screen| viewer.poll_job(screen, now))?
    }

    /// The job's pixels were copied out. `tag` is `begin`, loaded *after* that; `begin_before` the newest op that was drawn
    /// before it, or `begin` as it was then, where the shell is ready to read again.
    pub fn handle_snapshot(
        &mut self,
        id: ViewerId,
        job: JobId,
        begin_before: Option<u64>,
        tag: u64,
    ) -> SnapshotVerdict {
        let now = self.now;
        self.viewer_mut(id).map_or(SnapshotVerdict::Keep, |viewer| viewer.snapshot(job, begin_before, tag, now))
    }

    /// So many of the job's pixels were what the viewer had `shown`: told after the plan, where there were any.
    pub fn handle_shown(&mut self, id: ViewerId, job: JobId, pixels: u64) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.showed(job, pixels);
        }
    }

    /// What became of the job's `verify` and `parts`.
    pub fn handle_proposals(&mut self, id: ViewerId, proposals: Proposals) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.proposals(proposals);
        }
    }

    /// A stretch of the job's pixels, encoded; more follow in their order, and `handle_encoded` brings the last. What is
    /// here may leave. False: as there.
    pub fn handle_encoding(&mut self, id: ViewerId, job: JobId, commands: &[u8]) -> bool {
        let now = self.now;
        self.viewer_mut(id).is_none_or(|viewer| viewer.encoding(job, commands, now))
    }

    /// The job's pixels, encoded, or the last stretch of them; empty when all were equal to what the viewer shows. Jobs of a
    /// geometry that has gone, or of a viewer that has, are ignored. False: one command is longer than the viewer takes, and
    /// the job is given up; its pixels come again in smaller jobs.
    pub fn handle_encoded(&mut self, id: ViewerId, job: JobId, commands: &[u8]) -> bool {
        let now = self.now;
        self.viewer_mut(id).is_none_or(|viewer| viewer.encoded(job, commands, now))
    }

    /// The job's pixels could not be read or encoded: they will be asked for again.
    pub fn handle_cancelled(&mut self, id: ViewerId, job: JobId) {
        let now = self.now;
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.cancelled(job, now);
        }
    }

    /// After a plan: these parts of the job's region, at most four and disjoint, change like a video. What is told again and again
    /// becomes a stream, and what is told no longer ends.
    pub fn handle_moving(&mut self, id: ViewerId, areas: &[Rect], now: Micros) {
        self.now = self.now.max(now);
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.moving(areas, now);
        }
    }

    /// Nearly all of this part of the screen was new to the viewer when its pixels were planned.
    pub fn handle_new_at_once(&mut self, id: ViewerId, rect: &Rect, now: Micros) {
        self.now = self.now.max(now);
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.new_at_once(rect, now);
        }
    }

    /// A stream cannot go on: its encoder failed, or its samples cannot be had. It ends, and is not begun again for a while.
    pub fn handle_video_failed(&mut self, id: ViewerId, stream: u16) {
        let now = self.now;
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.video_failed(stream, now);
        }
    }

    /// True while this stream of the viewer lives; where it does not, its encoder is needed no more.
    pub fn has_video(&self, id: ViewerId, stream: u16) -> bool {
        self.viewer(id).is_some_and(|viewer| viewer.videos.has(stream))
    }

    /// The viewer is known to lack `region` of what it showed after update `since`: it is sent again, wherever COPYs have
    /// taken it since.
    pub fn handle_stale(&mut self, id: ViewerId, region: &Region, since: u64) {
        let now = self.now;
        self.take_fresh();
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.stale(region, since, now);
        }
    }

    /// Appends whole frames for a viewer, in order and within its budget; true when there were any. `packer` is the one of
    /// this viewer's connection, asked once for each update with commands.
    pub fn poll_transmit(&mut self, id: ViewerId, now: Micros, packer: &mut dyn Packer, out: &mut Vec<u8>) -> bool {
        self.now = self.now.max(now);
        self.take_fresh();
        self.with_viewer(id, |viewer, screen| viewer.poll_transmit(screen, now, packer, out)).unwrap_or(false)
    }

    /// Where a viewer's connection packs bytes now; asked before `poll_transmit`. Another level of a stream begins it anew.
    pub fn entropy(&self, id: ViewerId) -> Entropy {
        self.viewer(id).map_or(Entropy::None, |viewer| viewer.quality.entropy())
    }

    /// Encoding a job took so long, and so many of its pixels were no plain colour or equal. Told before `handle_encoded`.
    pub fn handle_encode_time(&mut self, id: ViewerId, job: JobId, pixels: u64, took: Micros) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.encode_took(job, pixels, took);
        }
    }

    /// Packing what left for a viewer took so long.
    pub fn handle_pack_time(&mut self, id: ViewerId, took: Micros) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.quality.encode_took(0, took);
        }
    }

    /// True while a viewer has something to send or to be acknowledged, so that [`Session::handle_path`] is worth a call.
    pub fn is_busy(&self, id: ViewerId) -> bool {
        self.viewer(id).is_some_and(Viewer::is_busy)
    }

    /// What a viewer's transport knows of its path, everything that came from `poll_transmit` counted; None where it
    /// knows nothing. Told before the viewer's acknowledgements, and before `poll_job` and `poll_transmit`.
    pub fn handle_path(&mut self, id: ViewerId, figures: Option<PathFigures>) {
        if let Some(viewer) = self.viewer_mut(id) {
            viewer.flow.handle_path(figures);
        }
    }

    /// The next moment at which `poll_job` or `poll_request` may have something although nothing happened.
    pub fn poll_deadline(&self, now: Micros) -> Option<Micros> {
        let fresh = self.fresh.as_ref().filter(|_| !self.viewers.is_empty());
        let fresh = fresh.map(|fresh| fresh.since + crate::update::RECORD_AGE_MAX);
        let resize = self.outputs.deadline();
        let viewers = self.viewers.iter().filter_map(|viewer| viewer.deadline(self.idle, now));
        viewers.chain(fresh).chain(resize).chain(self.keys_deadline()).min()
    }

    /// Figures of a viewer.
    pub fn stats(&self, id: ViewerId) -> Option<ViewerStats> {
        self.viewer(id).map(Viewer::stats)
    }

    /// True when every viewer was sent, and has acknowledged, all there is.
    pub fn is_drained(&self) -> bool {
        self.viewers.is_empty() || self.fresh.is_none() && self.viewers.iter().all(Viewer::is_drained)
    }

    /// Checks what session-core promises; for tests.
    ///
    /// # Panics
    /// When a promise is broken, with the promise in words.
    pub fn check_invariants(&self) {
        assert!(self.deliveries.len() <= DELIVERIES_MAX, "at most {DELIVERIES_MAX} inputs are under way");
        self.hand.check_invariants();
        self.clipboard.check_invariants(&self.viewers);
        self.translator.drawables().check_invariants();
        for viewer in &self.viewers {
            viewer.check_invariants();
        }
    }
}
