//! The fast pipeline of the simulator: pixels are numbers, sent plain, to the viewer of
//! model_viewer.rs. From world.rs, to world.rs: both ends of one connection, sharing nothing but
//! bytes. Knows the protocol; never how real pixels are encoded.

use thinc_pixels::HintStats;
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::limits::SESSION_MESSAGE_BYTES_MAX;
use thinc_protocol::session::Packed;
use thinc_protocol::video::{DecoderState, FrameData, SampleLayout, VideoCommand, VideoStatus};
use thinc_protocol::viewer::{Input, InputEvent, View, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_protocol::{Micros, VERSION};
use thinc_region::{Rect, Region, Size};
use thinc_session_core::{
    Coding, CopyCommand, DeliveryOrder, Entropy, Job, Packer, Proposal, VideoFrame, VideoOrigin,
};

use crate::breakage::Breakage;
use crate::model_viewer::{ModelViewer, copy_pixels};
use crate::pipeline::{Fate, Notice, Pipeline};
use crate::surface::{LOST, pixels};

/// The lossy encoding of a number: one that X rarely draws.
pub(crate) const fn lossy_value(pixel: u32) -> u32 {
    0x00e0_0000 | (pixel >> 1 & 0x001f_ffff)
}

/// Both ends of a connection whose pixels are numbers.
#[derive(Debug)]
pub struct Ids {
    shadow: Shadow,
    viewer: ModelViewer,
    packer: ChainPacker,
    /// The newest coded frame of each stream, which the next one refers to.
    encoders: [u64; 16],
    frames: u64,
    breakage: Option<Breakage>,
}

/// Smallest size of a coded frame: the number of its reference frame, 0 for none, and its own
/// number.
const CODED_BYTES_MIN: usize = 16;

/// A packer with the history of a real one: it sends commands behind a hash of all commands packed
/// before.
#[derive(Debug, Default)]
struct ChainPacker {
    enabled: bool,
    hash: Option<u64>,
    breakage: Option<Breakage>,
}

/// The hash of a chain of commands with these at its end.
pub(crate) fn chain_hash(before: u64, commands: &[u8]) -> u64 {
    // FNV-1a.
    commands
        .iter()
        .fold(before, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Packer for ChainPacker {
    fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed> {
        // Not all updates are packed: plain ones in between leave the chain as it is.
        if !self.enabled || commands.len().is_multiple_of(7) {
            return None;
        }
        let (reset, before) = (self.hash.is_none(), self.hash.unwrap_or(0));
        self.hash = Some(chain_hash(before, commands));
        if self.breakage == Some(Breakage::PackedIsNotSent) && commands.len().is_multiple_of(5) {
            return None;
        }
        out.extend_from_slice(&before.to_le_bytes());
        out.extend_from_slice(commands);
        Some(Packed { len: commands.len() as u32, reset })
    }
}

/// What the session believes the viewer shows.
#[derive(Debug, Default)]
struct Shadow {
    size: Size,
    /// None if unknown.
    pixels: Vec<Option<u32>>,
    /// True if the viewer's pixel is lossy.
    lossy: Vec<bool>,
}

impl Ids {
    /// Encodes the pixels that the viewer does not show yet. In a `lossy` job, unchanged lossy
    /// pixels stay lossy.
    fn encode_rows(
        &mut self,
        rect: &Rect,
        screen: &[u32],
        (lossy, encoding): (bool, Encoding),
        out: &mut Commands,
    ) {
        let width = self.shadow.size.width as usize;
        for y in rect.y1..rect.y2 {
            let row = y as usize * width + rect.x1 as usize..y as usize * width + rect.x2 as usize;
            let (shadow, read) = (&mut self.shadow.pixels[row.clone()], &screen[row.clone()]);
            let shown_lossy = &mut self.shadow.lossy[row];
            let unchanged = shadow.iter().zip(read).all(|(known, pixel)| *known == Some(*pixel));
            if unchanged && (lossy || !shown_lossy.contains(&true)) {
                continue;
            }
            shadow.iter_mut().zip(read).for_each(|(known, pixel)| *known = Some(*pixel));
            shown_lossy.fill(encoding == Encoding::Jpeg);
            let sent =
                |pixel: &u32| if encoding == Encoding::Jpeg { lossy_value(*pixel) } else { *pixel };
            let data: Vec<u8> =
                read.iter().flat_map(|pixel| sent(pixel).to_le_bytes()[..3].to_vec()).collect();
            let rect = Rect::new(rect.x1, y, rect.x2, y + 1);
            Command::Raw { rect, encoding, data: &data }.append_to(out);
        }
    }
}

impl Pipeline for Ids {
    fn new(breakage: Option<Breakage>) -> Ids {
        let packer = ChainPacker { breakage, ..ChainPacker::default() };
        let (shadow, viewer) = (Shadow::default(), ModelViewer::new(breakage));
        Ids { shadow, viewer, packer, encoders: [0; 16], frames: 0, breakage }
    }

    fn packer(&mut self, entropy: Entropy) -> &mut dyn Packer {
        self.packer.enabled = matches!(entropy, Entropy::Stream { .. });
        &mut self.packer
    }

    fn reconnected(self, breakage: Option<Breakage>) -> Ids {
        Ids::new(breakage)
    }

    fn hello(&self) -> ViewerHello {
        ViewerHello {
            version: VERSION,
            caps: ViewerCaps::LOCAL_CURSOR
                | ViewerCaps::LOSSY
                | ViewerCaps::PACKED
                | ViewerCaps::VIDEO
                | ViewerCaps::H264
                | ViewerCaps::SOUND,
            size: Size::default(),
            message_bytes_max: SESSION_MESSAGE_BYTES_MAX as u32,
            name: "ids".into(),
        }
    }

    fn reset_shadow(&mut self, size: Size) {
        self.shadow.size = size;
        self.shadow.pixels.clear();
        self.shadow.pixels.resize(size.area() as usize, None);
        self.shadow.lossy.clear();
        self.shadow.lossy.resize(size.area() as usize, false);
    }

    fn copy_shadow(&mut self, copy: &CopyCommand) {
        let width = self.shadow.size.width as usize;
        copy_pixels(&mut self.shadow.pixels, width, (&copy.region, copy.dx, copy.dy));
        if self.breakage != Some(Breakage::ShadowCopyIsLossless) {
            copy_pixels(&mut self.shadow.lossy, width, (&copy.region, copy.dx, copy.dy));
        }
    }

    fn encode(&mut self, job: &Job, screen: &[u32], out: &mut Commands) -> HintStats {
        let width = self.shadow.size.width as usize;
        let mut met = HintStats::default();
        for (x, y) in job.verify.rects().iter().flat_map(pixels) {
            let at = y as usize * width + x as usize;
            match self.shadow.pixels[at] {
                Some(shown) if shown == screen[at] => met.confirmed += 1,
                Some(_) => met.refuted += 1,
                None => {}
            }
        }
        let lossy = job.hints.quality.lossy.is_some();
        let photographs: Region = job
            .parts
            .iter()
            .filter(|part| lossy && part.what == Proposal::Image)
            .map(|part| part.rect)
            .collect();
        for rect in job.region.difference(&photographs).rects() {
            self.encode_rows(rect, screen, (lossy, Encoding::Plain), out);
        }
        for rect in job.region.intersection(&photographs).rects() {
            self.encode_rows(rect, screen, (lossy, Encoding::Jpeg), out);
        }
        met
    }

    /// For a port everything belongs to the frame; for an area text stays lossless.
    fn encode_frame(
        &mut self,
        job: &Job,
        frame: &VideoFrame,
        frame_pixels: &[u32],
        screen: &[u32],
        out: &mut Commands,
    ) {
        let mut clip = job.region.clone();
        if frame.origin == VideoOrigin::Area {
            let images = job.parts.iter().filter(|part| part.what == Proposal::Image);
            clip.intersect(&images.map(|part| part.rect).collect());
            for rect in job.region.difference(&clip).rects() {
                self.encode_rows(rect, screen, (true, Encoding::Plain), out);
            }
        }
        if clip.is_empty() {
            return;
        }
        let (width, place) = (self.shadow.size.width as usize, frame.place);
        for (x, y) in clip.rects().iter().flat_map(pixels) {
            let at = y as usize * width + x as usize;
            let shown = frame_pixels[((y - place.y1) * place.width() + x - place.x1) as usize];
            self.shadow.pixels[at] = (frame.coding == Coding::Plain).then_some(shown);
            self.shadow.lossy[at] = frame.coding != Coding::Plain;
        }
        let (id, time) = (frame.stream, frame.time);
        let data;
        let encoded = match frame.coding {
            Coding::Plain => {
                data = frame_pixels
                    .iter()
                    .flat_map(|pixel| pixel.to_le_bytes()[..3].to_vec())
                    .collect::<Vec<u8>>();
                FrameData::Plain { layout: SampleLayout::Yuv420, data: &data }
            }
            Coding::H264 { bits_per_second, frames_per_second, keyframe } => {
                let encoder = &mut self.encoders[usize::from(id)];
                let reference = if keyframe { 0 } else { *encoder };
                self.frames += 1;
                *encoder = self.frames;
                let usual = (bits_per_second / 8 / u64::from(frames_per_second)) as usize;
                let mut coded = [reference.to_le_bytes(), self.frames.to_le_bytes()].concat();
                coded.resize(CODED_BYTES_MIN.max(if keyframe { 4 * usual } else { usual }), 0);
                data = coded;
                FrameData::h264(keyframe, &data)
            }
        };
        Command::Video(VideoCommand::Next { id, time, clip, frame: encoded }).append_to(out);
    }

    fn set_decoder_state(&mut self, decoder: DecoderState) {
        if let Some(id) = self.viewer.set_decoder_state(decoder) {
            ViewerMessage::Video(VideoStatus { id, decoder }).encode(&mut self.viewer.out);
        }
    }

    fn encode_all(&mut self, job: &Job, screen: &[u32], out: &mut Commands) {
        let unknown = Shadow { size: self.shadow.size, ..Shadow::default() };
        let known = std::mem::replace(&mut self.shadow, unknown);
        self.reset_shadow(known.size);
        self.encode(job, screen, out);
        self.shadow = known;
    }

    fn handle_bytes(&mut self, bytes: &[u8], _now: Micros) -> Result<(), String> {
        self.viewer.handle_bytes(bytes)
    }

    fn delivery_order(&self) -> DeliveryOrder {
        DeliveryOrder::Unordered
    }

    fn handle_datagram(&mut self, bytes: &[u8], now: Micros) -> Result<(), String> {
        self.viewer.handle_datagram(bytes, now);
        Ok(())
    }

    fn poll_fates(&mut self, now: Micros, apply_late: bool) -> Result<Vec<(u64, Fate)>, String> {
        self.viewer.poll_fates(now, apply_late)
    }

    fn mark_stale(&mut self, region: &Region) {
        let width = self.shadow.size.width as usize;
        for (x, y) in region.rects().iter().flat_map(pixels) {
            self.shadow.pixels[y as usize * width + x as usize] = None;
        }
    }

    fn handle_input(&mut self, event: InputEvent, _now: Micros) {
        self.viewer.inputs += 1;
        let input = Input { seq: self.viewer.inputs, event };
        ViewerMessage::Input(input).encode(&mut self.viewer.out);
    }

    fn request_barrier(&mut self) -> Option<u32> {
        if self.viewer.barriers_waiting >= 8 {
            return None;
        }
        self.viewer.barriers_waiting += 1;
        self.viewer.barriers += 1;
        ViewerMessage::Barrier(self.viewer.barriers).encode(&mut self.viewer.out);
        Some(self.viewer.barriers)
    }

    fn request_view(&mut self, view: View) {
        ViewerMessage::View(view).encode(&mut self.viewer.out);
    }

    fn request_refresh(&mut self) {
        ViewerMessage::Resync.encode(&mut self.viewer.out);
    }

    fn lose_pixels(&mut self, rect: &Rect) -> Option<u64> {
        let mut rect = *rect;
        rect = rect.intersect(&self.viewer.size.rect());
        let width = self.viewer.size.width as usize;
        for (x, y) in pixels(&rect) {
            self.viewer.pixels[y as usize * width + x as usize] = LOST;
        }
        Some(self.viewer.newest)
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) {
        let viewer = &mut self.viewer;
        viewer.report_decoders();
        viewer.acknowledge();
        out.append(&mut viewer.out);
    }

    fn poll_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.viewer.notices)
    }

    fn lossy_pixels(&self) -> u64 {
        self.viewer.lossy.iter().filter(|&&lossy| lossy).count() as u64
    }

    fn is_lossy(&self, (x, y): (usize, usize)) -> bool {
        self.viewer.lossy[y * self.viewer.size.width as usize + x]
    }

    fn shown(&self) -> (Size, &[u32]) {
        (self.viewer.size, &self.viewer.pixels)
    }
}
