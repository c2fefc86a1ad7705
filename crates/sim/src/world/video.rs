//! Path 8/13, as session-server's video.rs: what the samples of a frame show, and what must be so of every frame.
//! Under world.rs, for the jobs that are frames.
//! Knows what X has drawn; never what a viewer makes of it.

use thinc_region::{Rect, Size};
use thinc_session_core::{Coding, Job, VideoFrame, VideoOrigin};

use super::{Connection, Divergence, World};
use crate::pipeline::Pipeline;
use crate::surface::{Made, pixels};

impl<P: Pipeline> World<P> {
    /// What the samples of a frame show in its place, read now; those of an area are pixels, as far as the job has read them. None where
    /// the port has another picture by now.
    pub(super) fn samples(&self, job: &Job, frame: &VideoFrame) -> Option<Vec<u32>> {
        match frame.origin {
            VideoOrigin::Port(port) => {
                let (size, is_whole) = (frame.source.size, job.view.is_none_or(|by| by.is_whole()));
                let fits = |of: Size| size == of || !is_whole && size.width <= of.width && size.height <= of.height;
                let slot = self.x.slot(port).filter(|slot| fits(slot.source))?;
                // Whatever scaling makes of it where the place is another by now, it is not what that place will show.
                Some(slot.picture.iter().copied().cycle().take(frame.place.area() as usize).collect())
            }
            VideoOrigin::Area => {
                let (read, width) = match &job.view {
                    None => (&self.scratch, self.session.size().width),
                    Some(by) => (&self.resampled, by.size().width),
                };
                Some(pixels(&frame.place).map(|(x, y)| read[y as usize * width as usize + x as usize]).collect())
            }
        }
    }

    /// All that a port's picture is shown over was made by the port and nothing else, where nothing later is in the pixels.
    pub(super) fn check_made(&mut self, job: &Job) -> Result<(), Divergence> {
        let Some(VideoFrame { origin: VideoOrigin::Port(port), .. }) = job.video else { return Ok(()) };
        let screen = self.x.framebuffer();
        for (x, y) in job.region.rects().iter().flat_map(pixels) {
            let at = Rect::at(x, y, 1, 1);
            let of = job.view.map_or(at, |by| by.source(&at));
            if pixels(&of).any(|(x, y)| screen.made[screen.at(x, y)] != Made::video(port)) {
                return Err(Divergence(format!("({x}, {y}) of {job:?} is not port {port}'s alone")));
            }
        }
        self.tally.scaled_frames += u64::from(job.view.is_some_and(|by| !by.is_whole()));
        Ok(())
    }
}

impl<P> Connection<P> {
    /// A frame that was just committed.
    pub(super) fn check_frame(&mut self, job: &Job) -> Result<(), Divergence> {
        let Some(frame) = job.video else { return Ok(()) };
        let VideoFrame { stream, origin, coding, .. } = frame;
        if origin == VideoOrigin::Area && coding == Coding::Plain {
            return Err(Divergence(format!("{frame:?}: samples made of pixels are not exact")));
        }
        let others = self.jobs.iter().chain(self.encodings.iter().map(|encoding| &encoding.job));
        let others = others.filter(|other| other.epoch == job.epoch).filter_map(|job| job.video);
        if others.into_iter().any(|other| other.stream == stream && other.origin == origin) {
            return Err(Divergence(format!("{frame:?} and one before it are at the encoder")));
        }
        if let Coding::H264 { key, .. } = coding {
            if self.lost_streams & 1 << stream != 0 && !key {
                return Err(Divergence(format!("the viewer is lost, and stream {stream} goes on")));
            }
            self.lost_streams &= !(1 << stream);
        }
        Ok(())
    }
}
