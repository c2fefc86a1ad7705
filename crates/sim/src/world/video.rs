//! Under world.rs: invariants of every frame. Called by world.rs, for jobs that are frames. Knows
//! what X has drawn; never what a viewer makes of it.

use thinc_region::Rect;
use thinc_session_core::{Coding, Job, VideoFrame, VideoOrigin};

use super::{Connection, Divergence, World};
use crate::pipeline::Pipeline;
use crate::surface::{Made, pixels};

impl<P: Pipeline> World<P> {
    /// Every pixel in the clip of a port's frame was drawn by that port, unless the pixels contain
    /// a later op.
    pub(super) fn check_made(&mut self, job: &Job) -> Result<(), Divergence> {
        let Some(VideoFrame { origin: VideoOrigin::Port(port), .. }) = job.video else {
            return Ok(());
        };
        let screen = self.x.framebuffer();
        for (x, y) in job.region.rects().iter().flat_map(pixels) {
            let at = Rect::at(x, y, 1, 1);
            let of = job.view.map_or(at, |by| by.source(&at));
            if pixels(&of).any(|(x, y)| screen.made[screen.at(x, y)] != Made::video(port)) {
                return Err(Divergence(format!(
                    "({x}, {y}) of {job:?} is not port {port}'s alone"
                )));
            }
        }
        self.tally.scaled_frames += u64::from(job.view.is_some_and(|by| !by.is_whole()));
        Ok(())
    }
}

impl<P> Connection<P> {
    /// Nothing lossy is committed for a viewer whose person wants that.
    pub(super) fn check_exact(&self, job: &Job) -> Result<(), Divergence> {
        let is_coded = matches!(job.video, Some(VideoFrame { coding: Coding::H264 { .. }, .. }));
        let is_lossy = job.hints.quality.lossy.is_some() || job.hints.frames.is_some();
        if self.is_exact && (is_coded || is_lossy) {
            return Err(Divergence(format!("a viewer wants all exact, and gets {:?}", job.hints)));
        }
        Ok(())
    }

    /// A frame that was just committed.
    pub(super) fn check_frame(&mut self, job: &Job) -> Result<(), Divergence> {
        let Some(frame) = job.video else { return Ok(()) };
        let VideoFrame { stream, origin, coding, .. } = frame;
        if origin == VideoOrigin::Area && coding == Coding::Plain {
            return Err(Divergence(format!(
                "{frame:?}: samples converted from pixels are lossy and must not be sent as plain"
            )));
        }
        let others =
            self.jobs.iter().chain(self.encodings.iter().map(|encoding| encoding.planned.job()));
        let others = others.filter(|other| other.epoch == job.epoch).filter_map(|job| job.video);
        if others.into_iter().any(|other| other.stream == stream && other.origin == origin) {
            return Err(Divergence(format!(
                "{frame:?} is committed while another frame of its stream is at the encoder"
            )));
        }
        if let Coding::H264 { keyframe, .. } = coding {
            if self.lost_streams & 1 << stream != 0 && !keyframe {
                return Err(Divergence(format!(
                    "the viewer needs a keyframe of stream {stream} and gets another frame"
                )));
            }
            self.lost_streams &= !(1 << stream);
        }
        Ok(())
    }
}
