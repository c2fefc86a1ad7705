//! Path 8/13, as session-server's render.rs: resamples the screen's pixels to a viewer's view.
//! Called by world.rs, for the pixels of a job and for the expected pixels of a viewer. Knows
//! pixels and where they come from; never what becomes of them.

use thinc_pixels::Resampler;
use thinc_region::{Rect, Size};
use thinc_session_core::{Job, Part, Proposal, Transform};

use super::Divergence;
use crate::oracle;
use crate::oracle::Tally;
use crate::surface::{RGB, Surface, pixels};

/// Pixels of a whole screen or view, row by row.
#[derive(Clone, Copy)]
pub(super) struct Plane<'a> {
    pub(super) pixels: &'a [u32],
    pub(super) width: usize,
}

impl Plane<'_> {
    fn read(&self, rect: Rect, to: &mut [u32], stride: usize) {
        for (y, line) in (rect.y1..rect.y2).zip(to.chunks_mut(stride)) {
            let from = y as usize * self.width + rect.x1 as usize;
            line[..rect.width() as usize]
                .copy_from_slice(&self.pixels[from..][..rect.width() as usize]);
        }
    }
}

/// Resamples a rectangle of the view into its position in `picture`.
pub(super) fn resample(by: &Transform, screen: Plane<'_>, rect: Rect, picture: &mut [u32]) {
    let width = by.size().width as usize;
    let at = rect.y1 as usize * width + rect.x1 as usize;
    let read = |rect, to: &mut [u32], stride| screen.read(rect, to, stride);
    Resampler::new().resample((&by.x, &by.y), rect, &mut picture[at..], width, read);
}

/// The expected pixels of a viewer.
pub(super) fn expected(by: Option<&Transform>, size: Size, screen: &[u32]) -> (Size, Vec<u32>) {
    let Some(by) = by else { return (size, screen.to_vec()) };
    let mut picture = vec![0; by.size().area() as usize];
    resample(
        by,
        Plane { pixels: screen, width: size.width as usize },
        by.size().rect(),
        &mut picture,
    );
    (by.size(), picture)
}

/// Checks a job's parts if its pixels contain no op unknown to it. In a scaled view a part of one
/// colour is checked in the pixels; parts of text must cover all text.
pub(super) fn check_parts(
    job: &Job,
    screen: &Surface,
    tally: &mut Tally,
) -> Result<(), Divergence> {
    let Some(by) = &job.view else { return oracle::check_parts(job, screen, tally) };
    let (size, picture) = expected(Some(by), screen.size, &screen.pixels);
    let wrong =
        |part: &Part| Divergence(format!("a part differs from its claim: {part:?} of {job:?}"));
    for part in &job.parts {
        if let Proposal::Solid(color) = part.what {
            let is_color = |(x, y): (i32, i32)| {
                picture[y as usize * size.width as usize + x as usize] & RGB == color
            };
            if !pixels(&part.rect).all(is_color) {
                return Err(wrong(part));
            }
            tally.scaled_parts += part.rect.area();
        }
    }
    Ok(())
}
