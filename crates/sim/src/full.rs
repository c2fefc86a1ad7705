//! The real pipeline of the simulator: shadow, plan and encoders on one side, viewer-core on the
//! other. From world.rs, to world.rs: only bytes between them. Knows the crates' public interfaces
//! only.

use std::collections::VecDeque;

use thinc_codec_enc::{EncodeSettings, Encoder, StreamPacker};
use thinc_pixels::cache::Outcome;
use thinc_pixels::{
    Cache, Claim, Hint, HintStats, Hints, Lossy, PlanSettings, Planned, Shadow, Snapshot,
    confirm_retained, plan_with, split_pieces,
};
use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::{CACHE_TOKEN_BYTES, RETAINED_KEY_BYTES, VIEWER_MESSAGE_BYTES_MAX};
use thinc_protocol::session::{CacheGrant, Packed};
use thinc_protocol::viewer::{
    CacheOffer, InputEvent, View, ViewerCaps, ViewerHello, ViewerMessage,
};
use thinc_region::{Rect, Region, Size};
use thinc_session_core::{
    CopyCommand, DeliveryOrder, Entropy, Job, JobId, JobOutcome, JpegProfile, Packer, Proposal,
    Quality,
};
use thinc_viewer_core::{ClipboardPolicy, Viewer, ViewerConfig, ViewerEvent};

use crate::breakage::Breakage;
use crate::pipeline::{Notice, Pipeline};

/// Both ends of a connection with the real components.
#[derive(Debug)]
pub struct Full {
    shadow: Shadow,
    snapshot: Snapshot,
    planned: Vec<Planned>,
    encoder: Encoder,
    packing: Packing,
    /// The session's model of the viewer's cache; `left` is that of the last connection, until the
    /// viewer has sent its offer.
    cache: Option<Cache>,
    left: Option<Cache>,
    /// The viewer's saved cache, and how many chunks it has read.
    saved: Vec<u8>,
    chunks: u32,
    viewer: Viewer,
    hello: ViewerHello,
    /// Its requested view.
    view: Option<View>,
    /// Its first messages, until they are sent.
    first: Vec<u8>,
    breakage: Option<Breakage>,
    heard: Vec<Notice>,
    barriers_waiting: u32,
    /// Pixels of a job that were not sent because the viewer showed them already.
    shown: u64,
}

/// The packer of one connection.
#[derive(Debug)]
struct Packing {
    entropy: Entropy,
    stream: Option<StreamPacker>,
    packed: u64,
    /// Datagrams that were not taken yet.
    alone: VecDeque<Vec<u8>>,
    breakage: Option<Breakage>,
}

impl Packer for Packing {
    fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed> {
        let Entropy::Stream { level } = self.entropy else { return None };
        let stream = self.stream.get_or_insert_with(|| StreamPacker::new(level));
        stream.set_level(level);
        let before = out.len();
        let packed = stream.pack(commands, out)?;
        self.packed += 1;
        if self.breakage == Some(Breakage::PackedIsNotSent) && self.packed.is_multiple_of(8) {
            out.truncate(before);
            return None;
        }
        Some(packed)
    }

    fn datagram_bytes(&self) -> usize {
        DATAGRAM_BYTES
    }

    fn put_datagram(&mut self, frame: &[u8]) {
        assert!(
            frame.len() <= DATAGRAM_BYTES,
            "{} bytes are more than a datagram holds",
            frame.len()
        );
        self.alone.push_back(frame.to_vec());
    }
}

/// 700: limit of a datagram. Small, because small screens have small updates.
const DATAGRAM_BYTES: usize = 700;

/// Size of a viewer's cache: few tiles, so that it is often full.
const CACHE_BYTES: u64 = 96 * 1024;

/// A viewer saves its cache after so many chunks.
const SAVE_EVERY: u32 = 40;
/// Index of KEEP in the counters of `ViewerStats`.
const KEEP: usize = 5;

impl Full {
    /// The viewer's end.
    pub const fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    /// A viewer with the cache `kept`, of which the session knew `left` when the viewer
    /// disconnected; with its requested view, and what it showed on an `earlier` connection.
    fn with_cache(
        left: Option<Cache>,
        kept: thinc_viewer_core::Cache,
        (earlier, wish): (Option<&mut Viewer>, Option<View>),
        breakage: Option<Breakage>,
    ) -> Full {
        let caps = ViewerCaps::LOCAL_CURSOR | ViewerCaps::DATAGRAMS | ViewerCaps::RELATIVE;
        let mut viewer = Viewer::new(&ViewerConfig {
            name: "sim".into(),
            size: Size::default(),
            caps,
            clipboard: ClipboardPolicy::OFF,
        });
        earlier
            .into_iter()
            .for_each(|earlier| viewer.continue_from(earlier, [7; RETAINED_KEY_BYTES]));
        viewer.offer_cache(kept);
        wish.into_iter().for_each(|view| viewer.set_view(view));
        let (hello, first) = first_messages(&mut viewer);
        Full {
            shadow: Shadow::new(Size::default()),
            snapshot: Snapshot::new(),
            planned: Vec::new(),
            encoder: Encoder::new(),
            packing: Packing {
                entropy: Entropy::None,
                stream: None,
                packed: 0,
                alone: VecDeque::new(),
                breakage,
            },
            cache: None,
            left,
            saved: Vec::new(),
            chunks: 0,
            viewer,
            hello,
            view: wish,
            first,
            breakage,
            heard: Vec::new(),
            barriers_waiting: 0,
            shown: 0,
        }
    }

    /// Saves the cache at times, once something was kept on this connection.
    fn save(&mut self) {
        self.chunks += 1;
        let kept = self.viewer.stats().commands[KEEP].count > 0;
        if let Some(cache) =
            self.viewer.cache().filter(|_| kept && self.chunks.is_multiple_of(SAVE_EVERY))
        {
            self.saved.clear();
            cache.save(&mut self.saved);
        }
    }

    /// Processes the viewer's events.
    fn handle_events(&mut self, now: Micros) -> Result<(), String> {
        while let Some(event) = self.viewer.poll_event() {
            match event {
                ViewerEvent::Barrier(number) => {
                    self.barriers_waiting -= 1;
                    self.heard.push(Notice::Barrier(number));
                }
                ViewerEvent::Echo { seq, .. } => {
                    if seq == 0 || seq > self.viewer.newest_input() {
                        return Err(format!("echo of input {seq}, which was not sent"));
                    }
                    self.heard.push(Notice::Echo(seq));
                }
                ViewerEvent::FrameEnd => {
                    self.heard.push(Notice::Update { end_of_frame: true });
                    self.viewer.handle_presented(now);
                }
                ViewerEvent::Geometry { .. } => self.heard.push(Notice::Geometry),
                ViewerEvent::Closed { reason, .. } => return Err(format!("closed: {reason}")),
                _ => {}
            }
        }
        Ok(())
    }

    fn settle(&mut self, job: JobId, fate: Outcome) {
        if let Some(cache) = &mut self.cache {
            cache.end(job.0, fate);
        }
    }
}

impl Pipeline for Full {
    fn new(breakage: Option<Breakage>) -> Full {
        Full::with_cache(None, thinc_viewer_core::Cache::new(CACHE_BYTES), (None, None), breakage)
    }

    fn reconnected(mut self, breakage: Option<Breakage>) -> Full {
        let kept = self.viewer.take_cache().expect("every viewer here offers a cache");
        // At times the program has ended too, and starts again with an older saved cache.
        let restarts = !self.saved.is_empty() && self.chunks.is_multiple_of(2);
        let load = || {
            thinc_viewer_core::Cache::load(&self.saved, CACHE_BYTES)
                .expect("the saved cache is valid")
        };
        let kept = if restarts { load() } else { kept };
        // If the offer never arrived, both know what they knew before.
        let mut left = self.cache.take().or(self.left.take());
        left.iter_mut().for_each(Cache::disconnect);
        let earlier = (!restarts).then_some(&mut self.viewer);
        Full::with_cache(left, kept, (earlier, self.view), breakage)
    }

    fn packer(&mut self, entropy: Entropy) -> &mut dyn Packer {
        self.packing.entropy = entropy;
        &mut self.packing
    }

    fn grant_cache(&mut self, offer: &CacheOffer) -> Option<CacheGrant> {
        let update = if self.breakage == Some(Breakage::ReconnectedHoldsAll) {
            u64::MAX
        } else {
            offer.update
        };
        // Tokens are the shell's business; here each viewer gets its own cache again.
        let resumed = self
            .left
            .take()
            .and_then(|mut cache| cache.resume(update, offer.bytes).then_some(cache));
        let grant = CacheGrant { token: [1; CACHE_TOKEN_BYTES], resumed: resumed.is_some() };
        self.cache = Some(resumed.unwrap_or_else(|| Cache::new([7; 4], offer.bytes)));
        Some(grant)
    }

    fn handle_outcome(&mut self, job: JobId, fate: JobOutcome, acked: u64) {
        let void =
            fate == JobOutcome::Discarded && self.breakage != Some(Breakage::DiscardedJobIsApplied);
        self.settle(
            job,
            if void { Outcome::Discarded } else { Outcome::Applied { update: acked } },
        );
    }

    fn distrust_cache(&mut self) {
        if let Some(cache) = &mut self.cache {
            cache.invalidate();
        }
    }

    fn take_retained(&mut self) -> u64 {
        std::mem::take(&mut self.shown)
    }

    fn recalled(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.stats().recalled)
    }

    fn hello(&self) -> ViewerHello {
        self.hello.clone()
    }

    fn reset_shadow(&mut self, size: Size) {
        if self.shadow.size() == size {
            self.shadow.reset();
        } else {
            self.shadow = Shadow::new(size);
        }
    }

    fn copy_shadow(&mut self, copy: &CopyCommand) {
        self.shadow.copy(&copy.region, copy.dx, copy.dy);
    }

    fn mark_stale(&mut self, region: &Region) {
        self.shadow.mark_stale(region);
    }

    fn encode(&mut self, job: &Job, screen: &[u32], out: &mut Commands) -> HintStats {
        let width = self.shadow.size().width as usize;
        self.snapshot.fill(&job.region, |rect, to, stride| {
            for y in rect.y1..rect.y2 {
                let from = y as usize * width + rect.x1 as usize;
                let at = (y - rect.y1) as usize * stride;
                to[at..at + rect.width() as usize]
                    .copy_from_slice(&screen[from..from + rect.width() as usize]);
            }
        });
        self.planned.clear();
        if let Some(shown) = &job.retained {
            let region =
                confirm_retained(&self.snapshot, &mut self.shadow, &shown.key, &shown.tiles);
            self.shown += region.area();
            self.planned.extend((!region.is_empty()).then_some(Planned::Shift {
                region,
                dx: 0,
                dy: 0,
            }));
        }
        let parts: Vec<Hint> = job
            .parts
            .iter()
            .filter_map(|part| Some(Hint { rect: part.rect, claim: claim(part.what)? }))
            .collect();
        let hints = Hints { shown: &job.verify, parts: &parts };
        let lossy_frames = job.hints.frames.is_some();
        let lossy =
            if job.hints.quality.lossy.is_some() { Lossy::Photographs } else { Lossy::Never };
        let mut cache = self.cache.as_mut().filter(|_| !job.hints.video);
        if let Some(cache) = &mut cache {
            cache.begin(job.id.0);
        }
        let frames = &job.frames[..];
        let plan = PlanSettings { lossy, cache, frames, lossy_frames, ..PlanSettings::default() };
        let met = plan_with(&self.snapshot, &mut self.shadow, &hints, plan, &mut self.planned);
        if self.breakage == Some(Breakage::KeepIsUsedAtOnce) {
            self.settle(job.id, Outcome::Applied { update: 0 });
        }
        split_pieces(&mut self.planned, &self.snapshot, job.hints.piece_area);
        let settings = settings(job.hints.quality, job.hints.frames);
        self.encoder.write(&self.planned, &self.snapshot, &settings, &mut out.writer());
        met
    }

    fn encode_all(&mut self, job: &Job, screen: &[u32], out: &mut Commands) {
        let unknown = Shadow::new(self.shadow.size());
        let shadow = std::mem::replace(&mut self.shadow, unknown);
        self.encode(job, screen, out);
        self.shadow = shadow;
    }

    fn delivery_order(&self) -> DeliveryOrder {
        DeliveryOrder::Mixed
    }

    fn handle_datagram(&mut self, bytes: &[u8], now: Micros) -> Result<(), String> {
        self.viewer.handle_datagram(bytes, now).map_err(|error| error.to_string())?;
        self.handle_events(now)
    }

    fn poll_update_datagram(&mut self) -> Option<Vec<u8>> {
        self.packing.alone.pop_front()
    }

    fn poll_datagram(&mut self, out: &mut Vec<u8>) -> bool {
        self.viewer.poll_datagram(out)
    }

    fn handle_time(&mut self, now: Micros) {
        if self.viewer.poll_deadline().is_some_and(|at| at <= now) {
            self.viewer.handle_timeout(now);
        }
    }

    fn handle_bytes(&mut self, bytes: &[u8], now: Micros) -> Result<(), String> {
        self.save();
        self.viewer.handle_bytes(bytes, now).map_err(|error| error.to_string())?;
        self.handle_events(now)
    }

    fn handle_input(&mut self, event: InputEvent, now: Micros) {
        self.viewer.handle_input(event, now);
    }

    fn request_barrier(&mut self) -> Option<u32> {
        if self.barriers_waiting >= 4 {
            return None;
        }
        self.barriers_waiting += 1;
        Some(self.viewer.request_barrier())
    }

    fn request_view(&mut self, view: View) {
        self.view = Some(view);
        self.viewer.set_view(view);
    }

    fn request_refresh(&mut self) {
        self.viewer.request_refresh();
    }

    fn lose_pixels(&mut self, _rect: &Rect) -> Option<u64> {
        // viewer-core never loses pixels without telling the session.
        None
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.first);
        while self.viewer.poll_transmit(out) {}
    }

    fn poll_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.heard)
    }

    fn is_in_frame(&self) -> bool {
        self.viewer.is_in_frame()
    }

    fn lossy_pixels(&self) -> u64 {
        self.viewer.lossy().pixels()
    }

    fn is_lossy(&self, (x, y): (usize, usize)) -> bool {
        self.viewer.lossy().contains(x, y)
    }

    fn shown(&self) -> (Size, &[u32]) {
        let framebuffer = self.viewer.framebuffer();
        (framebuffer.size(), framebuffer.pixels())
    }
}

/// The viewer's hello, and its first messages.
fn first_messages(viewer: &mut Viewer) -> (ViewerHello, Vec<u8>) {
    let mut bytes = Vec::new();
    viewer.poll_transmit(&mut bytes);
    let mut deframer = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
    deframer.push(&bytes);
    let frame = deframer.next().expect("a viewer's own frames").expect("it sends a hello first");
    match ViewerMessage::decode(&frame) {
        Ok(ViewerMessage::Hello(hello)) => (hello, bytes),
        other => panic!("a viewer's first message must be its hello: {other:?}"),
    }
}

/// Encoder settings for the session's quality.
fn settings(quality: Quality, frames: Option<JpegProfile>) -> EncodeSettings {
    let entropy = match quality.entropy {
        Entropy::None => thinc_codec_enc::Entropy::None,
        Entropy::Stream { .. } => thinc_codec_enc::Entropy::Stream,
        Entropy::Block { level } => thinc_codec_enc::Entropy::Block { level },
    };
    let jpeg = |profile| match profile {
        JpegProfile::High => thinc_codec_enc::JpegProfile::High,
        JpegProfile::Medium => thinc_codec_enc::JpegProfile::Medium,
        JpegProfile::Low => thinc_codec_enc::JpegProfile::Low,
    };
    EncodeSettings { entropy, jpeg: quality.lossy.map(jpeg), frames: frames.map(jpeg) }
}

/// The planner's claim for a proposal.
fn claim(proposal: Proposal) -> Option<Claim> {
    match proposal {
        Proposal::Solid(color) => Some(Claim::Solid(color)),
        Proposal::Pattern => Some(Claim::Pattern),
        Proposal::Text(_) => Some(Claim::Text),
        Proposal::Image => Some(Claim::Image),
        Proposal::Video(_) => None,
    }
}
