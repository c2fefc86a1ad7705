//! Path 8/13, as session-server's render.rs: the screen's pixels, made to what a viewer shows of them.
//! Under world.rs, for the pixels of a job and for what a viewer must show in the end.
//! Knows pixels and where they come from; never what becomes of them.

use thinc_pixels::Resampler;
use thinc_region::{Rect, Size};
use thinc_session_core::{Job, Part, Proposal, Transform};

use super::Divergence;
use crate::oracle;
use crate::oracle::Tally;
use crate::surface::{RGB, Surface, pixels};

/// Pixels of a whole screen or picture, row by row.
#[derive(Clone, Copy)]
pub(super) struct Plane<'a> {
    pub(super) pixels: &'a [u32],
    pub(super) width: usize,
}

impl Plane<'_> {
    fn read(&self, rect: Rect, to: &mut [u32], stride: usize) {
        for (y, line) in (rect.y1..rect.y2).zip(to.chunks_mut(stride)) {
            let from = y as usize * self.width + rect.x1 as usize;
            line[..rect.width() as usize].copy_from_slice(&self.pixels[from..][..rect.width() as usize]);
        }
    }
}

/// Puts what a rectangle of a picture is made of into its place in `picture`.
pub(super) fn resample(by: &Transform, screen: Plane<'_>, rect: Rect, picture: &mut [u32]) {
    let width = by.size().width as usize;
    let at = rect.y1 as usize * width + rect.x1 as usize;
    let read = |rect, to: &mut [u32], stride| screen.read(rect, to, stride);
    Resampler::new().resample((&by.x, &by.y), rect, &mut picture[at..], width, read);
}

/// What a viewer must show of this screen.
pub(super) fn expected(by: Option<&Transform>, size: Size, screen: &[u32]) -> (Size, Vec<u32>) {
    let Some(by) = by else { return (size, screen.to_vec()) };
    let mut picture = vec![0; by.size().area() as usize];
    resample(by, Plane { pixels: screen, width: size.width as usize }, by.size().rect(), &mut picture);
    (by.size(), picture)
}

/// What a job says of its pixels, where they hold nothing that it does not know of. What a part of a scaled picture was drawn as is seen in its pixels where it is
/// one colour; text is said to be wherever there is some.
pub(super) fn check_parts(job: &Job, screen: &Surface, tally: &mut Tally) -> Result<(), Divergence> {
    let Some(by) = &job.view else { return oracle::check_parts(job, screen, tally) };
    let (size, picture) = expected(Some(by), screen.size, &screen.pixels);
    let wrong = |part: &Part| Divergence(format!("a part is not what it is said to be: {part:?} of {job:?}"));
    for part in &job.parts {
        if let Proposal::Solid(color) = part.what {
            let is_color = |(x, y): (i32, i32)| picture[y as usize * size.width as usize + x as usize] & RGB == color;
            if !pixels(&part.rect).all(is_color) {
                return Err(wrong(part));
            }
            tally.scaled_parts += part.rect.area();
        }
    }
    Ok(())
}
