//! Path 11/13: beside client.rs; from viewer-core's coded pictures, to a decoder of each stream, and back.
//! A thread that pulls one picture at a time: what it has no time for stays with viewer-core, which has the bounds.
//! Knows streams and decoders; never what a picture covers. It holds the lock to take a picture and to paint it, not to decode.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use thinc_h264::Decoder;
use thinc_protocol::video::Codec;
use thinc_region::Size;
use thinc_video::Planes;
use thinc_viewer_core::VideoEvent;

use super::{DecodeTimes, Shared, State};

/// 16 Mi: samples of all streams that are decoded at a time, eight of 1920 × 1080; a decoder holds several pictures.
const SAMPLES_MAX: u64 = 16 * 1024 * 1024;

/// One for each stream.
#[derive(Default)]
struct Decoders {
    streams: HashMap<u64, (Size, Decoder)>,
}

impl Decoders {
    /// A decoder for pictures of this size; nothing where there can be none.
    fn make(&mut self, stream: u64, size: Size) -> Option<&mut Decoder> {
        self.streams.remove(&stream);
        let others: u64 = self.streams.values().map(|(size, _)| size.area()).sum();
        if others + size.area() > SAMPLES_MAX {
            return None;
        }
        let decoder = Decoder::new(size).ok()?;
        Some(&mut self.streams.entry(stream).insert_entry((size, decoder)).into_mut().1)
    }

    /// The stream's, or another where its pictures have another size now.
    fn of(&mut self, stream: u64, size: Size) -> Option<&mut Decoder> {
        if self.streams.get(&stream).is_some_and(|(made_for, _)| *made_for == size) {
            return self.streams.get_mut(&stream).map(|(_, decoder)| decoder);
        }
        self.make(stream, size)
    }
}

impl Shared {
    /// The decoders' thread, until the viewer is closed.
    pub(super) fn decode_videos(&self) {
        let mut decoders = Decoders::default();
        let mut decoders_of = 0;
        let mut planes = Planes::new();
        while let Some((connection, event)) = self.next_video() {
            if connection != decoders_of {
                (decoders, decoders_of) = (Decoders::default(), connection);
            }
            match event {
                VideoEvent::Began { stream, codec: Codec::H264, size } => {
                    let ready = decoders.make(stream, size).is_some();
                    self.answer(connection, |state| {
                        if ready {
                            state.viewer.handle_video_ready(stream);
                        } else {
                            state.viewer.handle_video_refused(stream);
                        }
                    });
                }
                VideoEvent::Began { stream, codec: Codec::None, .. } => {
                    unreachable!("stream {stream} is said to be coded, and is not")
                }
                VideoEvent::Picture { stream, serial, size, data, .. } => {
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
                                if state.viewer.is_video_wanted(serial) {
                                    state.viewer.handle_video_planes(serial, &mut planes, now);
                                } else {
                                    state.viewer.handle_video_skipped(serial);
                                }
                            }
                            Err(_) => state.viewer.handle_video_failed(serial),
                        }
                    });
                }
                VideoEvent::Ended { stream } => drop(decoders.streams.remove(&stream)),
            }
        }
    }

    /// Waits for something to do, and of which connection; none when the viewer is closed.
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

    /// Tells the viewer of that connection, if it is still the one that is shown, and whoever waits for what comes of it. What is shown
    /// whole is not painted over before it was.
    fn answer(&self, connection: u32, tell: impl FnOnce(&mut State)) {
        let mut state = self.lock_for_next();
        if state.connections != connection || state.stop {
            return;
        }
        tell(&mut state);
        // Frames and barriers; after a loss there is nobody to tell.
        let _ = if state.is_connected() { state.absorb() } else { None };
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
        self.pictures += 1;
        self.total += took;
        self.longest = self.longest.max(took);
    }
}
