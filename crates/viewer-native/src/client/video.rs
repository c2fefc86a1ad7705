//! Path 11/13: beside client.rs; from viewer-core's compressed frames, to a decoder per stream, and
//! back.
//! A thread pulls one frame at a time; frames it has no time for stay in viewer-core, which bounds
//! them. Knows streams and decoders; never what a frame covers. It holds the lock to take and to
//! paint a frame, not to decode it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use thinc_h264::Decoder;
use thinc_protocol::video::Codec;
use thinc_region::Size;
use thinc_video::Planes;
use thinc_viewer_core::VideoEvent;

use super::{DecodeTimes, Shared, State};

/// 16 Mi: luma samples of all streams decoded at a time, eight of 1920 × 1080; a decoder holds
/// several frames.
const SAMPLES_MAX: u64 = 16 * 1024 * 1024;

/// A decoder per stream.
#[derive(Default)]
struct Decoders {
    streams: HashMap<u64, (Size, Decoder)>,
}

impl Decoders {
    /// Creates a decoder for frames of this size; None if the bound or the decoder does not allow
    /// it.
    fn make(&mut self, stream: u64, size: Size) -> Option<&mut Decoder> {
        self.streams.remove(&stream);
        let others: u64 = self.streams.values().map(|(size, _)| size.area()).sum();
        if others + size.area() > SAMPLES_MAX {
            return None;
        }
        let decoder = Decoder::new(size).ok()?;
        Some(&mut self.streams.entry(stream).insert_entry((size, decoder)).into_mut().1)
    }

    /// The stream's decoder, or a new one if the frames' size has changed.
    fn of(&mut self, stream: u64, size: Size) -> Option<&mut Decoder> {
        if self.streams.get(&stream).is_some_and(|(made_for, _)| *made_for == size) {
            return self.streams.get_mut(&stream).map(|(_, decoder)| decoder);
        }
        self.make(stream, size)
    }
}

impl Shared {
    /// The decoder thread; runs until the viewer is closed.
    pub(super) fn decode_videos(&self) {
        let mut decoders = Decoders::default();
        let mut decoders_of = 0;
        let mut planes = Planes::new();
        while let Some((connection, event)) = self.next_video() {
            if connection != decoders_of {
                (decoders, decoders_of) = (Decoders::default(), connection);
            }
            match event {
                VideoEvent::Started { stream, codec: Codec::H264, size } => {
                    let ready = decoders.make(stream, size).is_some();
                    self.answer(connection, |state| {
                        if ready {
                            state.viewer.handle_video_ready(stream);
                        } else {
                            state.viewer.handle_video_refused(stream);
                        }
                    });
                }
                VideoEvent::Started { stream, codec: Codec::None, .. } => {
                    unreachable!("stream {stream} has no compressed frames")
                }
                VideoEvent::Frame { stream, serial, size, data, .. } => {
                    let Some(decoder) = decoders.of(stream, size) else {
                        self.answer(connection, |state| state.viewer.handle_video_refused(stream));
                        continue;
                    };
                    let began = Instant::now();
                    let decoded = decoder.decode(&data, &mut planes);
                    let took = began.elapsed();
                    self.answer(connection, |state| {
                        state.viewer.reuse_video_buffer(data);
                        match decoded {
                            Ok(()) => {
                                state.decode_times.count(took);
                                let now = state.clock.now();
                                if state.viewer.is_video_frame_visible(serial) {
                                    state.viewer.handle_video_planes(serial, &mut planes, now);
                                } else {
                                    state.viewer.handle_video_frame_skipped(serial);
                                }
                            }
                            Err(_) => state.viewer.handle_video_frame_failed(serial),
                        }
                    });
                }
                VideoEvent::Ended { stream } => drop(decoders.streams.remove(&stream)),
            }
        }
    }

    /// Waits for work; returns it with its connection's number, None once the viewer is closed.
    fn next_video(&self) -> Option<(u32, VideoEvent)> {
        let mut state = self.lock();
        let due = state.video_due.clone();
        loop {
            if state.stop {
                return None;
            }
            if let Some(event) = state.viewer.poll_video() {
                return Some((state.connections, event));
            }
            state = due.wait(state).expect("no holder of this lock can panic");
        }
    }

    /// Reports to that connection's viewer, if it is still the current one, and wakes the window if
    /// needed. A whole drawing burst is presented first.
    fn answer(&self, connection: u32, tell: impl FnOnce(&mut State)) {
        let mut state = self.lock_for_next();
        if state.connections != connection || state.stop {
            return;
        }
        tell(&mut state);
        // Frame ends and barriers; after a loss nobody needs them.
        let _ = if state.is_connected() { state.take_events() } else { None };
        state.flush();
        let wake = state.news.is_worth_waking();
        drop(state);
        if wake {
            self.announce();
        }
    }
}

impl DecodeTimes {
    fn count(&mut self, took: Duration) {
        self.frames += 1;
        self.total += took;
        self.longest = self.longest.max(took);
    }
}
