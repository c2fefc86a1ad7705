//! Path 8/13, as session-server's video.rs: the samples of a frame, and invariants of every frame.
//! Called by world.rs, for jobs that are frames. Knows what X has drawn; never what a viewer makes
//! of it.

use thinc_region::{Rect, Size};
use thinc_session_core::{Coding, Job, VideoFrame, VideoOrigin};

use super::{Connection, Divergence, World};
use crate::pipeline::Pipeline;
use crate::surface::{Made, pixels};

impl<P: Pipeline> World<P> {
    /// The pixels shown by the samples of a frame in its place, read now. For an area they are the
    /// pixels read by the job. None if the port has another frame by now.
    pub(super) fn samples(&self, job: &Job, frame: &VideoFrame) -> Option<Vec<u32>> {
        match frame.origin {
            VideoOrigin::Port(port) => {
                let (size, is_whole) = (frame.source.size, job.view.is_none_or(|by| by.is_whole()));
                let fits = |of: Size| {
                    size == of || !is_whole && size.width <= of.width && size.height <= of.height
                };
                let slot = self.x.slot(port).filter(|slot| fits(slot.source))?;
                // If the place has changed since, these pixels are not what the place will show.
                Some(
                    slot.picture
                        .iter()
                        .copied()
                        .cycle()
                        .take(frame.place.area() as usize)
                        .collect(),
                )
            }
            VideoOrigin::Area => {
                let (read, width) = match &job.view {
                    None => (&self.scratch, self.session.size().width),
                    Some(by) => (&self.resampled, by.size().width),
                };
                Some(
                    pixels(&frame.place)
                        .map(|(x, y)| read[y as usize * width as usize + x as usize])
                        .collect(),
                )
            }
        }
    }

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
    /// A frame that was just committed.
    pub(super) fn check_frame(&mut self, job: &Job) -> Result<(), Divergence> {
        let Some(frame) = job.video else { return Ok(()) };
        let VideoFrame { stream, origin, coding, .. } = frame;
        if origin == VideoOrigin::Area && coding == Coding::Plain {
            return Err(Divergence(format!(
                "{frame:?}: samples converted from pixels are lossy and must not be sent as plain"
            )));
        }
        let others = self.jobs.iter().chain(self.encodings.iter().map(|encoding| &encoding.job));
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
