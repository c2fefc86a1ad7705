//! The fast pipeline of the simulator: pixels are numbers, sent plain; a viewer in a hundred lines.
//! From world.rs, to world.rs: both ends of one connection, sharing nothing but bytes.
//! Knows the protocol; never how real pixels are encoded.

use thinc_pixels::Verdict;
use thinc_protocol::command::{Command, CommandReader, Encoding};
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::SESSION_FRAME_BYTES_MAX;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::viewer::{Ack, Input, InputEvent, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_protocol::{Micros, VERSION};
use thinc_region::{Rect, Region, Size};
use thinc_session_core::{CopyCommand, Job};

use crate::pipeline::{Heard, Pipeline};
use crate::surface::pixels;

/// Both ends of a connection whose pixels are numbers.
#[derive(Debug)]
pub struct Ids {
    shadow: Shadow,
    view: View,
}

/// What the session believes the viewer shows.
#[derive(Debug, Default)]
struct Shadow {
    size: Size,
    /// None where it is not known.
    pixels: Vec<Option<u32>>,
}

#[derive(Debug)]
struct View {
    deframer: Deframer,
    size: Size,
    epoch: u32,
    pixels: Vec<u32>,
    newest: u64,
    acked: u64,
    out: Vec<u8>,
    heard: Vec<Heard>,
    inputs: u32,
    barriers: u32,
    barriers_waiting: u32,
}

fn copy_pixels<T: Copy>(pixels_of: &mut [T], width: usize, copy: (&Region, i32, i32)) {
    let (region, dx, dy) = copy;
    // All read before any is written, said the plain way.
    let at = |x: i32, y: i32| y as usize * width + x as usize;
    let read: Vec<(usize, T)> =
        region.rects().iter().flat_map(pixels).map(|(x, y)| (at(x, y), pixels_of[at(x - dx, y - dy)])).collect();
    for (at, pixel) in read {
        pixels_of[at] = pixel;
    }
}

impl Pipeline for Ids {
    fn new() -> Ids {
        Ids {
            shadow: Shadow::default(),
            view: View {
                deframer: Deframer::new(SESSION_FRAME_BYTES_MAX),
                size: Size::default(),
                epoch: 0,
                pixels: Vec::new(),
                newest: 0,
                acked: 0,
                out: Vec::new(),
                heard: Vec::new(),
                inputs: 0,
                barriers: 0,
                barriers_waiting: 0,
            },
        }
    }

    fn hello(&self) -> ViewerHello {
        ViewerHello {
            version: VERSION,
            caps: ViewerCaps::LOCAL_CURSOR,
            size: Size::default(),
            frame_bytes_max: SESSION_FRAME_BYTES_MAX as u32,
            name: "ids".into(),
        }
    }

    fn reset_shadow(&mut self, size: Size) {
        self.shadow.size = size;
        self.shadow.pixels.clear();
        self.shadow.pixels.resize(size.area() as usize, None);
    }

    fn copy_shadow(&mut self, copy: &CopyCommand) {
        let width = self.shadow.size.width as usize;
        copy_pixels(&mut self.shadow.pixels, width, (&copy.region, copy.dx, copy.dy));
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
        for rect in job.region.rects() {
            for y in rect.y1..rect.y2 {
                let row = y as usize * width + rect.x1 as usize..y as usize * width + rect.x2 as usize;
                let shadow = &mut self.shadow.pixels[row.clone()];
                let read = &screen[row];
                if shadow.iter().zip(read).all(|(known, pixel)| *known == Some(*pixel)) {
                    continue;
                }
                shadow.iter_mut().zip(read).for_each(|(known, pixel)| *known = Some(*pixel));
                let data: Vec<u8> = read.iter().flat_map(|pixel| pixel.to_le_bytes()[..3].to_vec()).collect();
                let rect = Rect::new(rect.x1, y, rect.x2, y + 1);
                Command::Raw { rect, encoding: Encoding::Plain, data: &data }.encode(out);
            }
        }
        met
    }

    fn encode_all(&mut self, job: &Job, screen: &[u32], out: &mut Vec<u8>) {
        let known = std::mem::take(&mut self.shadow.pixels);
        self.shadow.pixels = vec![None; known.len()];
        self.encode(job, screen, out);
        self.shadow.pixels = known;
    }

    fn handle_bytes(&mut self, bytes: &[u8], _now: Micros) -> Result<(), String> {
        let view = &mut self.view;
        view.deframer.push(bytes);
        loop {
            let frame = view.deframer.next().map_err(|error| error.to_string())?;
            let Some(frame) = frame else { break };
            match SessionMessage::decode(&frame).map_err(|error| error.to_string())? {
                SessionMessage::Geometry(geometry) => {
                    if geometry.epoch <= view.epoch {
                        return Err(format!("epoch {} after {}", geometry.epoch, view.epoch));
                    }
                    view.epoch = geometry.epoch;
                    view.size = geometry.size;
                    view.pixels.clear();
                    view.pixels.resize(geometry.size.area() as usize, 0);
                }
                SessionMessage::Update(update) => {
                    if update.seq != view.newest + 1 || update.after >= update.seq {
                        return Err(format!("update {} after {} ({})", update.seq, view.newest, update.after));
                    }
                    view.newest = update.seq;
                    view.heard.push(Heard::Update { end_of_frame: update.end_of_frame });
                    if let Some(echo) = update.echo {
                        if echo == 0 || echo > view.inputs {
                            return Err(format!("echo of input {echo}, which was not sent"));
                        }
                        view.heard.push(Heard::Echo(echo));
                    }
                    if update.epoch != view.epoch {
                        continue;
                    }
                    let width = view.size.width as usize;
                    for command in CommandReader::new(update.commands, view.size) {
                        match command.map_err(|error| error.to_string())? {
                            Command::Copy { region, dx, dy } => {
                                copy_pixels(&mut view.pixels, width, (&region, dx, dy));
                            }
                            Command::Raw { rect, encoding: Encoding::Plain, data } => {
                                let mut data = data.chunks_exact(3);
                                for (x, y) in pixels(&rect) {
                                    let Some(&[b, g, r]) = data.next() else { return Err("short RAW".into()) };
                                    view.pixels[y as usize * width + x as usize] = u32::from_le_bytes([b, g, r, 0]);
                                }
                            }
                            other => return Err(format!("the ids pipeline never sends {other:?}")),
                        }
                    }
                }
                SessionMessage::Barrier(number) => {
                    view.barriers_waiting -= 1;
                    view.heard.push(Heard::Barrier(number));
                }
                SessionMessage::Close(close) => return Err(format!("closed: {}", close.reason)),
                SessionMessage::Hello(_)
                | SessionMessage::Cursor(_)
                | SessionMessage::CursorBits(_)
                | SessionMessage::CursorColor(_)
                | SessionMessage::CursorMove { .. }
                | SessionMessage::CursorShow(_)
                | SessionMessage::Pong(_) => {}
            }
        }
        Ok(())
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

    fn request_refresh(&mut self) {
        ViewerMessage::Refresh.encode(&mut self.view.out);
    }

    fn lose(&mut self, rect: &Rect) -> Option<u64> {
        let mut rect = *rect;
        rect = rect.intersect(&self.view.size.rect());
        let width = self.view.size.width as usize;
        for (x, y) in pixels(&rect) {
            self.view.pixels[y as usize * width + x as usize] = 0x00dead;
        }
        Some(self.view.newest)
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) {
        let view = &mut self.view;
        if view.acked != view.newest {
            view.acked = view.newest;
            ViewerMessage::Ack(Ack { update: view.newest, presented: None }).encode(&mut view.out);
        }
        out.append(&mut view.out);
    }

    fn poll_heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.view.heard)
    }

    fn shown(&self) -> (Size, &[u32]) {
        (self.view.size, &self.view.pixels)
    }
}
