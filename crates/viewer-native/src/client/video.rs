//! Path 11/13: beside client.rs; from viewer-core's compressed frames, to video_decoding.rs, and
//! back.
//! A thread pulls one frame at a time; frames it has no time for stay in viewer-core, which bounds
//! them. Knows streams; never what a frame covers. It holds the lock to take and to paint a frame,
//! not to decode it.

use std::sync::Arc;
use std::time::Instant;

use thinc_protocol::video::Codec;
use thinc_video::Planes;
use thinc_viewer_core::VideoEvent;

use super::{Shared, State};
use crate::video_decoder::Decoded;
use crate::video_decoding::VideoDecoding;

/// Work of the decoder thread.
enum Work {
    Video(VideoEvent),
    /// Whether chroma of full resolution is wanted; also after a trial of it.
    FullColour(bool),
}

impl State {
    /// The connection whose session would send chroma of full resolution, as the person wants it.
    fn full_colour(&self) -> Option<u32> {
        self.viewers.shown.wants_full_colour().then(|| self.viewers.connections())
    }

    /// Wakes the decoder thread if it has work.
    pub(super) fn wake_decoding(&self) {
        if self.viewers.shown.has_video() || self.decoding.has_codec_news(self.full_colour()) {
            self.decoding.wake();
        }
    }
}

impl Shared {
    /// The decoder thread; runs until the viewer is closed.
    pub(super) fn decode_videos(self: &Arc<Self>) {
        let mut decoders = VideoDecoding::new(&self.config.decoder, self.config.decoding);
        let mut decoders_of = 0;
        let mut planes = Planes::new();
        while let Some((connection, work)) = self.next_video() {
            if connection != decoders_of {
                decoders.end_all();
                decoders_of = connection;
            }
            let event = match work {
                Work::Video(event) => event,
                Work::FullColour(wanted) => {
                    self.try_full_colour(&mut decoders, connection, wanted);
                    continue;
                }
            };
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
                VideoEvent::Ended { stream } => {
                    decoders.end(stream);
                    let codecs = decoders.codecs();
                    self.answer(connection, |state| {
                        state.viewers.shown.set_video_codecs(codecs);
                    });
                }
            }
        }
    }

    /// Chroma of full resolution is wanted or not, or it is known now whether it is decoded.
    fn try_full_colour(
        self: &Arc<Self>,
        decoders: &mut VideoDecoding,
        connection: u32,
        wanted: bool,
    ) {
        if wanted {
            let shared = Arc::downgrade(self);
            decoders.try_full_colour(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.lock().decoding.set_tried();
                }
            });
        } else {
            decoders.stop_full_colour();
        }
        let codecs = decoders.codecs();
        self.answer(connection, |state| state.viewers.shown.set_video_codecs(codecs));
    }

    /// What decodes is known before a frame of it is shown.
    fn tell_decoder(&self, decoders: &mut VideoDecoding) {
        if let Some(report) = decoders.take_report() {
            self.lock().decoding.set_decoder(report);
        }
    }

    /// Waits for work; returns it with its connection's number, None once the viewer is closed.
    fn next_video(&self) -> Option<(u32, Work)> {
        let mut state = self.lock();
        let due = state.decoding.waits_for();
        loop {
            if state.lifecycle.is_stopped() {
                return None;
            }
            let full_colour = state.full_colour();
            if state.decoding.has_codec_news(full_colour) {
                state.decoding.take_codec_news(full_colour);
                return Some((
                    state.viewers.connections(),
                    Work::FullColour(full_colour.is_some()),
                ));
            }
            if let Some(event) = state.viewers.shown.poll_video() {
                return Some((state.viewers.connections(), Work::Video(event)));
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
