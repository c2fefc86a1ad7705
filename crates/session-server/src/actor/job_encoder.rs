//! Path 7/13 to 9/13: under actor.rs, from a viewer's job, to its encoded commands: small jobs on
//! this thread, others on workers. Knows jobs and their memory; never connections.

use std::sync::Arc;

use thinc_codec_enc::Encoder;
use thinc_pixels::Cache;
use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_ring::{Framebuffer, Ring};
use thinc_session_core::{Job, Session, VideoPolicy};

use crate::SessionConfig;
use crate::connection::Events;
use crate::memory::{emptied_commands, recycle};
use crate::render::{self, Renderer};
use crate::video::VideoEncoders;
use crate::worker::{EncodeJob, Workers};

/// 60 s between trials of a GPU's encoder of 4:4:4.
const FULL_COLOUR_INTERVAL: Micros = 60_000_000;

/// Encodes the jobs of all viewers, and keeps the memory of a few.
#[derive(Debug)]
pub(super) struct JobEncoder {
    /// This thread's.
    encoder: Encoder,
    workers: Workers,
    /// Memory for the next jobs.
    spare: Vec<EncodeJob>,
    /// Commands of a job that is encoded on this thread.
    commands: Commands,
    /// Whether videos are sent as streams at all.
    video: VideoPolicy,
    /// What encodes video frames.
    encoders: VideoEncoders,
    /// A GPU's encoder of 4:4:4 is not tried before this time.
    full_colour_from: Micros,
}

impl JobEncoder {
    pub(super) fn new(config: &SessionConfig, events: Events) -> JobEncoder {
        let encoders = VideoEncoders::new(config, &events);
        JobEncoder::with(config.video.policy(config.lossless), encoders, events)
    }

    fn with(video: VideoPolicy, encoders: VideoEncoders, events: Events) -> JobEncoder {
        JobEncoder {
            encoder: Encoder::new(),
            workers: Workers::new(events),
            spare: Vec::new(),
            commands: Commands::default(),
            video,
            encoders,
            full_colour_from: 0,
        }
    }

    /// For what is encoded beside jobs.
    pub(super) fn encoder(&mut self) -> &mut Encoder {
        &mut self.encoder
    }

    /// Videos may be sent as streams.
    pub(super) fn sends_videos(&self) -> bool {
        self.video != VideoPolicy::Off
    }

    /// Someone's videos would have chroma of full resolution: it is found out whether a GPU encodes
    /// it, unless that was tried of late.
    pub(super) fn try_full_colour(&mut self, now: Micros) {
        if now >= self.full_colour_from {
            self.full_colour_from = now + FULL_COLOUR_INTERVAL;
            self.encoders.start_full_colour();
        }
    }

    /// Reads and plans the jobs of a new viewer.
    pub(super) fn renderer(&self) -> Renderer {
        Renderer::new(self.encoders.clone())
    }

    /// Reads, plans and encodes a job, or submits it to the workers: its slices return as events.
    pub(super) fn run(
        &mut self,
        core: &mut Session,
        renderer: &mut Renderer,
        job: Job,
        screen: (&Ring, &Framebuffer),
        cache: Option<&mut Cache>,
        now: Micros,
    ) {
        let mut encode_job = self.spare.pop().unwrap_or_else(EncodeJob::new);
        match renderer.render(core, job, screen, cache, &mut encode_job, now) {
            None => recycle(&mut self.spare, encode_job),
            Some(planned) if encode_job.is_inline(planned.job()) => {
                self.commands = emptied_commands(std::mem::take(&mut self.commands));
                let took = encode_job.encode(&mut self.encoder, &mut self.commands);
                render::finish(core, planned, &encode_job, 0, &self.commands, took);
                recycle(&mut self.spare, encode_job);
            }
            Some(planned) => renderer.submitted(planned, self.workers.submit(encode_job)),
        }
    }

    /// A slice of a job was handled; with the last one the job returns its memory.
    pub(super) fn take_back(&mut self, job: Arc<EncodeJob>) {
        if let Some(job) = Arc::into_inner(job) {
            recycle(&mut self.spare, job);
        }
    }

    /// No viewer waits for the next job.
    pub(super) fn release_memory(&mut self) {
        self.spare = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection;

    fn encoder(video: VideoPolicy) -> JobEncoder {
        let (events, _inbox) = connection::channel();
        JobEncoder::with(video, VideoEncoders::default(), events)
    }

    #[test]
    fn a_job_returns_its_memory_with_its_last_slice() {
        let mut encoder = encoder(VideoPolicy::Off);
        let slices = [(); 3].map({
            let job = Arc::new(EncodeJob::new());
            move |()| job.clone()
        });
        for (returned, slice) in slices.into_iter().enumerate() {
            assert!(encoder.spare.is_empty(), "{returned} of three have returned");
            encoder.take_back(slice);
        }
        assert_eq!(encoder.spare.len(), 1);
        encoder.release_memory();
        assert_eq!(encoder.spare.capacity(), 0);
    }

    #[test]
    fn without_videos_the_driver_need_not_keep_their_samples() {
        assert!(!encoder(VideoPolicy::Off).sends_videos());
        assert!(encoder(VideoPolicy::Auto).sends_videos());
    }
}
