//! Path 3/13: under actor.rs, from the driver's ring and socket, to session-core and the recorder.
//! Handles as many records as a turn has time for: a flood of expensive records must not starve the
//! viewers. Knows what each record refers to in shared memory; never what follows from it.

use std::io;
use std::time::Instant;

use thinc_codec_enc::Encoder;
use thinc_protocol::Micros;
use thinc_protocol::gamma::{GammaArea, GammaTable};
use thinc_region::{Rect, Region};
use thinc_ring::{ControlEvent, DrawRecord, Output, OutputGamma, RecordKind};
use thinc_session_core::Session;
use tracing::{debug, info, warn};

use super::driver::Driver;
use super::since;
use crate::SessionError;
use crate::recorder::{self, Recorder};

/// After this long no further records are read before viewers and connections get their turn.
const RECORD_TIME_PER_TURN: Micros = 2_000;

/// Records between two reads of the clock: 20 us of a flood, and still no longer than a turn if
/// each record costs fifty times as much.
const RECORDS_PER_CLOCK_READ: usize = 64;

impl Driver {
    /// Handles the records in the ring for at most RECORD_TIME_PER_TURN; true if there are more.
    pub(super) fn drain_ring(
        &mut self,
        core: &mut Session,
        encoder: &mut Encoder,
        zero: Instant,
    ) -> Result<bool, SessionError> {
        let started = since(zero);
        let mut now = started;
        let (mut cursor, mut gamma) = (false, false);
        let mut behind = true;
        for count in 1_usize.. {
            let Some(bytes) = self.ring.poll_bytes() else {
                behind = false;
                break;
            };
            let invalid =
                |error| SessionError::Driver(io::Error::new(io::ErrorKind::InvalidData, error));
            let record = DrawRecord::parse(&bytes).map_err(invalid)?;
            if let Some(recorder) = &mut self.recorder {
                recorder.record(&bytes, &record);
            }
            core.handle_record(&record, now);
            match record.kind {
                RecordKind::Geometry { generation } => self.handle_geometry(generation, core)?,
                RecordKind::Cursor => cursor = true,
                RecordKind::Gamma => gamma = true,
                RecordKind::Overflow => {
                    // Records of the blocks may be missing too.
                    (cursor, gamma) = (true, true);
                    self.handle_geometry(self.ring.geometry().generation, core)?;
                    let mut dirty = Region::new();
                    self.ring.take_dirty_tiles(|tile| dirty.add_rect(tile));
                    dirty.intersect_rect(&core.size().rect());
                    debug!("the ring overflowed: reading {} pixels again", dirty.area());
                    if let Some(recorder) = &mut self.recorder {
                        recorder.dirty(&dirty);
                    }
                    core.handle_overflow(&dirty);
                }
                _ => {}
            }
            if count.is_multiple_of(RECORDS_PER_CLOCK_READ) {
                now = since(zero);
                if now >= started + RECORD_TIME_PER_TURN {
                    break;
                }
            }
        }
        // Once for all of them: the block holds the newest image, and compressing one takes time.
        if cursor {
            self.handle_cursor(core, encoder);
        }
        if gamma {
            self.handle_gamma(core);
        }
        if let Some(recorder) = &mut self.recorder
            && !recorder.end_turn(now, &self.ring, &self.framebuffer)
        {
            self.recorder = None;
        }
        Ok(behind)
    }

    /// The trace begins with the whole state: this framebuffer, all its pixels, and the cursor.
    pub(super) fn start_recording(&mut self, mut recorder: Recorder) {
        recorder.geometry(&self.framebuffer);
        if let Some(cursor) = self.ring.cursor() {
            recorder.cursor(&cursor);
        }
        self.recorder = Some(recorder);
    }

    pub(super) fn start_trace(&mut self, stream: std::os::unix::net::UnixStream, now: Micros) {
        if self.recorder.as_ref().is_some_and(|recorder| !recorder.is_over()) {
            return recorder::refuse(&stream, "the session is being traced already");
        }
        match Recorder::to_stream(stream, now) {
            Ok(recorder) => {
                info!("recording a trace");
                self.start_recording(recorder);
            }
            Err(error) => warn!("cannot record a trace: {error}"),
        }
    }

    /// From here on records refer to the framebuffer of this generation.
    fn handle_geometry(&mut self, generation: u32, core: &mut Session) -> Result<(), SessionError> {
        core.handle_leds(self.leds());
        if self.framebuffer.generation() == generation {
            self.read_outputs(core);
            return Ok(());
        }
        // The driver sends the descriptor before the record.
        self.drain_control()?;
        let Some(framebuffer) = self.next_framebuffers.take(generation) else {
            // Replaced while the record waited: the record of the newer one follows.
            return Ok(());
        };
        self.framebuffer = framebuffer;
        let size = self.size();
        info!("the screen is now {} × {}", size.width, size.height);
        if let Some(recorder) = &mut self.recorder {
            recorder.geometry(&self.framebuffer);
        }
        core.handle_geometry(size);
        self.read_outputs(core);
        Ok(())
    }

    /// Reads the outputs from the geometry block.
    fn read_outputs(&self, core: &mut Session) {
        let geometry = self.ring.geometry();
        let outputs: Vec<Rect> = geometry.outputs.iter().map(rect_of).collect();
        core.handle_outputs(&outputs);
    }

    pub(super) fn drain_control(&mut self) -> Result<(), SessionError> {
        while let Some(event) = self.control.poll_event().map_err(SessionError::Driver)? {
            match event {
                ControlEvent::Framebuffer(framebuffer) => {
                    self.next_framebuffers.push(framebuffer.generation(), framebuffer);
                }
                ControlEvent::OutputsApplied { .. } => {}
                ControlEvent::Error(text) => warn!("the driver reports: {text}"),
            }
        }
        Ok(())
    }

    /// Passes the monitors' tables to session-core.
    pub(super) fn handle_gamma(&self, core: &mut Session) {
        let Some(tables) = self.ring.gamma() else { return };
        let areas = tables.into_iter().map(|OutputGamma { output, channels }| GammaArea {
            rect: rect_of(&output),
            table: GammaTable { channels },
        });
        core.handle_gamma(areas.collect());
    }

    /// Passes what has changed of the cursor to session-core.
    pub(super) fn handle_cursor(&mut self, core: &mut Session, encoder: &mut Encoder) {
        let Some(cursor) = self.ring.cursor() else { return };
        if let Some(recorder) = &mut self.recorder {
            recorder.cursor(&cursor);
        }
        self.cursor.publish(&cursor, encoder, core);
    }
}

/// Where an output is.
fn rect_of(output: &Output) -> Rect {
    let Output { x, y, width, height } = *output;
    Rect::at(x, y, width.cast_signed(), height.cast_signed())
}
