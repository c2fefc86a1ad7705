//! The fast pipeline of the simulator: pixels are numbers, sent plain, to the viewer of view.rs.
//! From world.rs, to world.rs: both ends of one connection, sharing nothing but bytes.
//! Knows the protocol; never how real pixels are encoded.

use thinc_pixels::Verdict;
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::limits::SESSION_FRAME_BYTES_MAX;
use thinc_protocol::session::Packed;
use thinc_protocol::video::{Layout, Picture, Readiness, VideoCommand, VideoState};
use thinc_protocol::viewer::{Input, InputEvent, View as Wish, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_protocol::{Micros, VERSION};
use thinc_region::{Rect, Region, Size};
use thinc_session_core::{Arrival, Coding, CopyCommand, Entropy, Job, Packer, Proposal, VideoFrame, VideoOrigin};

use crate::breakage::Breakage;
use crate::pipeline::{Fate, Heard, Pipeline};
use crate::surface::{LOST, pixels};
use crate::view::{View, copy_pixels};

/// What a lossy encoder makes of a number: one that X rarely draws.
pub(crate) const fn nearly(pixel: u32) -> u32 {
    0x00e0_0000 | (pixel >> 1 & 0x001f_ffff)
}

/// Both ends of a connection whose pixels are numbers.
#[derive(Debug)]
pub struct Ids {
    shadow: Shadow,
    view: View,
    chain: Chain,
    /// By streams: the newest coded picture, on which the next leans.
    encoders: [u64; 16],
    pictures: u64,
    breakage: Option<Breakage>,
}

/// Least bytes of a coded picture: the number of the one it leans on, 0 for none, and its own.
const CODED_BYTES: usize = 16;

/// A packer as it leans on all before: the commands behind a number that all commands packed before give.
#[derive(Debug, Default)]
struct Chain {
    packs: bool,
    link: Option<u64>,
    breakage: Option<Breakage>,
}

/// The number that a chain of commands gives with these at its end.
pub(crate) fn link_of(before: u64, commands: &[u8]) -> u64 {
    // FNV-1a.
    commands.iter().fold(before, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Packer for Chain {
    fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed> {
        // Seldom everything: plain updates between leave the chain as it is.
        if !self.packs || commands.len().is_multiple_of(7) {
            return None;
        }
        let (anew, before) = (self.link.is_none(), self.link.unwrap_or(0));
        self.link = Some(link_of(before, commands));
        if self.breakage == Some(Breakage::PackedIsNotSent) && commands.len().is_multiple_of(5) {
            return None;
        }
        out.extend_from_slice(&before.to_le_bytes());
        out.extend_from_slice(commands);
        Some(Packed { len: commands.len() as u32, anew })
    }
}

/// What the session believes the viewer shows.
#[derive(Debug, Default)]
struct Shadow {
    size: Size,
    /// None where it is not known.
    pixels: Vec<Option<u32>>,
    /// Where the viewer shows that only nearly.
    inexact: Vec<bool>,
}

impl Ids {
    /// What the viewer does not show yet; in a `lossy` job what it shows nearly and has not changed stays so.
    fn encode_rows(&mut self, rect: &Rect, screen: &[u32], (lossy, encoding): (bool, Encoding), out: &mut Vec<u8>) {
        let width = self.shadow.size.width as usize;
        for y in rect.y1..rect.y2 {
            let row = y as usize * width + rect.x1 as usize..y as usize * width + rect.x2 as usize;
            let (shadow, read) = (&mut self.shadow.pixels[row.clone()], &screen[row.clone()]);
            let inexact = &mut self.shadow.inexact[row];
            let unchanged = shadow.iter().zip(read).all(|(known, pixel)| *known == Some(*pixel));
            if unchanged && (lossy || !inexact.contains(&true)) {
                continue;
            }
            shadow.iter_mut().zip(read).for_each(|(known, pixel)| *known = Some(*pixel));
            inexact.fill(encoding == Encoding::Jpeg);
            let sent = |pixel: &u32| if encoding == Encoding::Jpeg { nearly(*pixel) } else { *pixel };
            let data: Vec<u8> = read.iter().flat_map(|pixel| sent(pixel).to_le_bytes()[..3].to_vec()).collect();
            let rect = Rect::new(rect.x1, y, rect.x2, y + 1);
            Command::Raw { rect, encoding, data: &data }.encode(out);
        }
    }
}

impl Pipeline for Ids {
    fn new(breakage: Option<Breakage>) -> Ids {
        let chain = Chain { breakage, ..Chain::default() };
        let (shadow, view) = (Shadow::default(), View::new(breakage));
        Ids { shadow, view, chain, encoders: [0; 16], pictures: 0, breakage }
    }

    fn packer(&mut self, entropy: Entropy) -> &mut dyn Packer {
        self.chain.packs = matches!(entropy, Entropy::Stream { .. });
        &mut self.chain
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
                | ViewerCaps::H264,
            size: Size::default(),
            frame_bytes_max: SESSION_FRAME_BYTES_MAX as u32,
            name: "ids".into(),
        }
    }

    fn reset_shadow(&mut self, size: Size) {
        self.shadow.size = size;
        self.shadow.pixels.clear();
        self.shadow.pixels.resize(size.area() as usize, None);
        self.shadow.inexact.clear();
        self.shadow.inexact.resize(size.area() as usize, false);
    }

    fn copy_shadow(&mut self, copy: &CopyCommand) {
        let width = self.shadow.size.width as usize;
        copy_pixels(&mut self.shadow.pixels, width, (&copy.region, copy.dx, copy.dy));
        if self.breakage != Some(Breakage::ShadowMovesExactPixels) {
            copy_pixels(&mut self.shadow.inexact, width, (&copy.region, copy.dx, copy.dy));
        }
    }

    fn encode(&mut self, job: &Job, screen: &[u32], out: &mut Vec<u8>) -> Verdict {
        let width = self.shadow.size.width as usize;
        let mut met = Verdict::default();
        for (x, y) in job.verify.rects().iter().flat_map(pixels) {
            let at = y as usize * width + x as usize;
            match self.shadow.pixels[at] {
                Some(shown) if shown == screen[at] => met.held += 1,
                Some(_) => met.refused += 1,
                None => {}
            }
        }
        let lossy = job.hints.quality.lossy.is_some();
        let photographs: Region =
            job.parts.iter().filter(|part| lossy && part.what == Proposal::Image).map(|part| part.rect).collect();
        for rect in job.region.difference(&photographs).rects() {
            self.encode_rows(rect, screen, (lossy, Encoding::Plain), out);
        }
        for rect in job.region.intersection(&photographs).rects() {
            self.encode_rows(rect, screen, (lossy, Encoding::Jpeg), out);
        }
        met
    }

    /// Of a port all is of the picture; of an area what is text stays exact.
    fn encode_frame(&mut self, job: &Job, frame: &VideoFrame, picture: &[u32], screen: &[u32], out: &mut Vec<u8>) {
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
            let shown = picture[((y - place.y1) * place.width() + x - place.x1) as usize];
            self.shadow.pixels[at] = (frame.coding == Coding::Plain).then_some(shown);
            self.shadow.inexact[at] = frame.coding != Coding::Plain;
        }
        let (id, time) = (frame.stream, frame.time);
        let (key, data);
        let picture = match frame.coding {
            Coding::Plain => {
                data = picture.iter().flat_map(|pixel| pixel.to_le_bytes()[..3].to_vec()).collect::<Vec<u8>>();
                Picture::Plain { layout: Layout::Yuv420, data: &data }
            }
            Coding::H264 { bits_per_second, frames_per_second, key: leans_on_none } => {
                key = leans_on_none;
                let encoder = &mut self.encoders[usize::from(id)];
                let leans_on = if key { 0 } else { *encoder };
                self.pictures += 1;
                *encoder = self.pictures;
                let usual = (bits_per_second / 8 / u64::from(frames_per_second)) as usize;
                let mut coded = [leans_on.to_le_bytes(), self.pictures.to_le_bytes()].concat();
                coded.resize(CODED_BYTES.max(if key { 4 * usual } else { usual }), 0);
                data = coded;
                Picture::Coded { key, data: &data }
            }
        };
        Command::Video(VideoCommand::Next { id, time, clip, picture }).encode(out);
    }

    fn say(&mut self, readiness: Readiness) {
        if let Some(id) = self.view.say(readiness) {
            ViewerMessage::Video(VideoState { id, readiness }).encode(&mut self.view.out);
        }
    }

    fn encode_all(&mut self, job: &Job, screen: &[u32], out: &mut Vec<u8>) {
        let unknown = Shadow { size: self.shadow.size, ..Shadow::default() };
        let known = std::mem::replace(&mut self.shadow, unknown);
        self.reset_shadow(known.size);
        self.encode(job, screen, out);
        self.shadow = known;
    }

    fn handle_bytes(&mut self, bytes: &[u8], _now: Micros) -> Result<(), String> {
        self.view.handle_bytes(bytes)
    }

    fn arrival(&self) -> Arrival {
        Arrival::Unordered
    }

    fn handle_datagram(&mut self, bytes: &[u8], now: Micros) -> Result<(), String> {
        self.view.hold(bytes, now);
        Ok(())
    }

    fn settle(&mut self, now: Micros, late_are_applied: bool) -> Result<Vec<(u64, Fate)>, String> {
        self.view.settle(now, late_are_applied)
    }

    fn forget(&mut self, region: &Region) {
        let width = self.shadow.size.width as usize;
        for (x, y) in region.rects().iter().flat_map(pixels) {
            self.shadow.pixels[y as usize * width + x as usize] = None;
        }
    }

    fn handle_input(&mut self, event: InputEvent, _now: Micros) {
        self.view.inputs += 1;
        let input = Input { seq: self.view.inputs, event };
        ViewerMessage::Input(input).encode(&mut self.view.out);
    }

    fn request_barrier(&mut self) -> Option<u32> {
        if self.view.barriers_waiting >= 8 {
            return None;
        }
        self.view.barriers_waiting += 1;
        self.view.barriers += 1;
        ViewerMessage::Barrier(self.view.barriers).encode(&mut self.view.out);
        Some(self.view.barriers)
    }

    fn request_view(&mut self, view: Wish) {
        ViewerMessage::View(view).encode(&mut self.view.out);
    }

    fn request_refresh(&mut self) {
        ViewerMessage::Refresh.encode(&mut self.view.out);
    }

    fn lose(&mut self, rect: &Rect) -> Option<u64> {
        let mut rect = *rect;
        rect = rect.intersect(&self.view.size.rect());
        let width = self.view.size.width as usize;
        for (x, y) in pixels(&rect) {
            self.view.pixels[y as usize * width + x as usize] = LOST;
        }
        Some(self.view.newest)
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) {
        let view = &mut self.view;
        view.answer();
        view.acknowledge();
        out.append(&mut view.out);
    }

    fn poll_heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.view.heard)
    }

    fn inexact_len(&self) -> u64 {
        self.view.inexact.iter().filter(|&&inexact| inexact).count() as u64
    }

    fn is_inexact(&self, (x, y): (usize, usize)) -> bool {
        self.view.inexact[y * self.view.size.width as usize + x]
    }

    fn shown(&self) -> (Size, &[u32]) {
        (self.view.size, &self.view.pixels)
    }
}
