//! Path 11/13: beside client.rs; from viewer-core's compressed frames, to video_decoding.rs, and
//! back.
//! A thread pulls one frame at a time; frames it has no time for stay in viewer-core, which bounds
//! them. Knows streams; never what a frame covers. It holds the lock to take and to paint a frame,
//! not to decode it.

use std::time::Instant;

use thinc_protocol::video::Codec;
use thinc_video::Planes;
use thinc_viewer_core::VideoEvent;

use super::{Shared, State};
use crate::video_decoder::Decoded;
use crate::video_decoding::VideoDecoding;

impl Shared {
    /// The decoder thread; runs until the viewer is closed.
    pub(super) fn decode_videos(&self) {
        let mut decoders = VideoDecoding::new(&self.config.decoder, self.config.decoding);
        let mut decoders_of = 0;
        let mut planes = Planes::new();
        while let Some((connection, event)) = self.next_video() {
            if connection != decoders_of {
                decoders.end_all();
                decoders_of = connection;
            }
            match event {
                VideoEvent::Started { stream, codec: Codec::H264, size } => {
                    let ready = decoders.start(stream, size);
                    if self.lock().viewers.shown.takes_video_codecs() {
                        decoders.try_av1();
                    }
                    self.tell_decoder(&mut decoders);
                    let codecs = decoders.codecs();
                    self.answer(connection, |state| {
                        state.viewers.shown.set_video_codecs(codecs);
                        if ready {
                            state.viewers.shown.handle_video_ready(stream);
                        } else {
                            state.viewers.shown.handle_video_refused(stream);
                        }
                    });
                }
                VideoEvent::Started { stream, codec: Codec::None, .. } => {
                    unreachable!("stream {stream} has no compressed frames")
                }
                VideoEvent::Frame { stream, serial, codec, size, data, .. } => {
                    let began = Instant::now();
                    let decoded = decoders.decode((stream, codec), size, &data, &mut planes);
                    let took = began.elapsed();
                    self.tell_decoder(&mut decoders);
                    let codecs = decoders.codecs();
                    self.answer(connection, |state| {
                        // Before a keyframe is requested: it is to be of what is decoded now.
                        state.viewers.shown.set_video_codecs(codecs);
                        state.viewers.shown.reuse_video_buffer(data);
                        match decoded {
                            Decoded::Frame => {
                                state.decoding.count(took);
                                let now = state.clock.now();
                                if state.viewers.shown.is_video_frame_visible(serial) {
                                    state.viewers.shown.handle_video_planes(
                                        serial,
                                        &mut planes,
                                        now,
                                    );
                                } else {
                                    state.viewers.shown.handle_video_frame_skipped(serial);
                                }
                            }
                            Decoded::Failed => {
                                state.viewers.shown.handle_video_frame_failed(serial)
                            }
                            Decoded::Refused => state.viewers.shown.handle_video_refused(stream),
                        }
                    });
                }
                VideoEvent::Ended { stream } => decoders.end(stream),
            }
        }
    }

    /// What decodes is known before a frame of it is shown.
    fn tell_decoder(&self, decoders: &mut VideoDecoding) {
        if let Some(report) = decoders.take_report() {
            self.lock().decoding.set_decoder(report);
        }
    }

    /// Waits for work; returns it with its connection's number, None once the viewer is closed.
    fn next_video(&self) -> Option<(u32, VideoEvent)> {
        let mut state = self.lock();
        let due = state.decoding.waits_for();
        loop {
            if state.lifecycle.is_stopped() {
                return None;
            }
            if let Some(event) = state.viewers.shown.poll_video() {
                return Some((state.viewers.connections(), event));
            }
            state = due.wait(state).expect("no holder of this lock can panic");
        }
    }

    /// Reports to that connection's viewer, if it is still the current one, and wakes the window if
    /// needed. A whole drawing burst is presented first.
    fn answer(&self, connection: u32, tell: impl FnOnce(&mut State)) {
        let mut state = self.lock_for_next();
        if state.viewers.connections() != connection || state.lifecycle.is_stopped() {
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
