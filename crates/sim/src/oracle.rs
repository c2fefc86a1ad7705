//! Beside the path: what a job says of its pixels, held against what X has drawn; and a count of all that was checked.
//! From world.rs with a job whose pixels hold nothing that the session has not read of, to a divergence or a tally.
//! Knows jobs and the X server's surfaces; never how anybody came to say so.

use thinc_region::{Rect, Size};
use thinc_session_core::drawable::PARTS_MAX;
use thinc_session_core::{Job, Part, Proposal, Proposals, ViewerStats};

use crate::history::History;
use crate::surface::{LOST, Made, RGB, Surface, pixels};
use crate::world::Divergence;

/// What a run has checked: a test that saw none of a thing has shown nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Barriers answered and found true.
    pub barriers: u64,
    /// COPYs that viewers were sent.
    pub copies: u64,
    /// Those among them that no client asked for.
    pub derived_copies: u64,
    /// Updates that were lost, or discarded for coming too late.
    pub lost: u64,
    /// Pixels that viewers showed only nearly, and said so.
    pub inexact: u64,
    /// Pieces that viewers showed again from what they keep.
    pub recalled: u64,
    /// Pixels that viewers who came back showed already.
    pub held: u64,
    /// Proposals that met their pixels.
    pub proposals: Proposals,
    /// Pixels of parts said to be solid, patterns, text, images or video, and found so.
    pub parts: Parts,
    /// Pixels that text was drawn in.
    pub text_drawn: u64,
    /// Pixels of scaled pictures said to be of one colour, and found so.
    pub scaled_parts: u64,
    /// Frames of XVideo shown in scaled pictures, over nothing but what the port drew.
    pub scaled_frames: u64,
    /// Pictures that viewers chose, and were found to show at a rest.
    pub views: u64,
}

/// Pixels by what was said of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// One colour.
    pub solid: u64,
    /// A tile or stipple.
    pub pattern: u64,
    /// Text.
    pub text: u64,
    /// A client's pixels.
    pub image: u64,
    /// A frame of XVideo.
    pub video: u64,
}

impl Tally {
    pub(crate) fn add_proposals(&mut self, more: &Proposals) {
        self.proposals.held += more.held;
        self.proposals.refused += more.refused;
        self.proposals.late += more.late;
    }

    pub(crate) fn add_viewer(&mut self, stats: &ViewerStats) {
        self.copies += stats.copies;
        self.held += stats.held_pixels;
        self.derived_copies += stats.derived_copies;
    }

    /// Another run's.
    pub fn add(&mut self, other: &Tally) {
        self.barriers += other.barriers;
        self.copies += other.copies;
        self.lost += other.lost;
        self.inexact += other.inexact;
        self.recalled += other.recalled;
        self.held += other.held;
        self.derived_copies += other.derived_copies;
        self.add_proposals(&other.proposals);
        self.text_drawn += other.text_drawn;
        self.scaled_parts += other.scaled_parts;
        self.scaled_frames += other.scaled_frames;
        self.views += other.views;
        let (parts, more) = (&mut self.parts, &other.parts);
        parts.solid += more.solid;
        parts.pattern += more.pattern;
        parts.text += more.text;
        parts.image += more.image;
        parts.video += more.video;
    }
}

/// What a viewer showed when it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    size: Size,
    pixels: Vec<u32>,
}

impl Seen {
    /// Looks at a viewer's screen: whatever it shows, X has shown at some moment, but for what is said to be `inexact`, and
    /// what a viewer lost.
    pub(crate) fn check(
        &mut self,
        (size, shown): (Size, &[u32]),
        history: &History,
        inexact: impl Fn((usize, usize)) -> bool,
        tally: &mut Tally,
    ) -> Result<(), Divergence> {
        if self.size != size {
            (self.size, self.pixels) = (size, vec![0; shown.len()]);
        }
        let width = size.width as usize;
        for (at, (before, now)) in self.pixels.iter_mut().zip(shown).enumerate() {
            let (place, now) = ((at % width, at / width), now & RGB);
            if *before == now {
                continue;
            }
            *before = now;
            if inexact(place) {
                tally.inexact += 1;
            } else if now != LOST && !history.has(now) {
                return Err(Divergence(format!("shows {now:06x} at {place:?}, which X never did")));
            }
        }
        Ok(())
    }
}

fn wrong(what: &str, job: &Job, part: &Part) -> Divergence {
    Divergence(format!("{what}: {part:?} of {:?}, after op {}", job.region, job.translated))
}

/// Whatever is in the pixels, a job's words have a form.
pub(crate) fn check_shape(job: &Job, screen: Size) -> Result<(), Divergence> {
    let extents = job.region.extents();
    if job.parts.len() > PARTS_MAX {
        return Err(Divergence(format!("{} parts of one job", job.parts.len())));
    }
    if !job.verify.difference(&job.region).is_empty() {
        return Err(Divergence(format!("{:?} is verified, and {:?} is read", job.verify, job.region)));
    }
    if !screen.rect().contains(&extents) && !job.region.is_empty() {
        return Err(Divergence(format!("{:?} is not on the screen", job.region)));
    }
    for (i, part) in job.parts.iter().enumerate() {
        if part.rect.is_empty() || !extents.contains(&part.rect) {
            return Err(wrong("a part is not in the job's region", job, part));
        }
        if job.parts[..i].iter().any(|other| other.rect.overlaps(&part.rect)) {
            return Err(wrong("two parts overlap", job, part));
        }
    }
    Ok(())
}

/// The screen is what the maps have been told of, and nothing later: what they say must be so.
pub(crate) fn check_parts(job: &Job, screen: &Surface, tally: &mut Tally) -> Result<(), Divergence> {
    let each = |rect: &Rect| pixels(rect).map(|(x, y)| screen.at(x, y)).collect::<Vec<_>>();
    for part in &job.parts {
        let all = each(&part.rect);
        let only = |made: Made| all.iter().all(|&at| screen.made[at] == made);
        let (count, counter, holds) = match part.what {
            Proposal::Solid(color) => {
                let holds = all.iter().all(|&at| screen.pixels[at] & RGB == color);
                (all.len(), &mut tally.parts.solid, holds)
            }
            Proposal::Pattern => (all.len(), &mut tally.parts.pattern, only(Made::PATTERN)),
            Proposal::Image => (all.len(), &mut tally.parts.image, only(Made::IMAGE)),
            Proposal::Video(port) => (all.len(), &mut tally.parts.video, only(Made::video(port))),
            // By tiles: some text is near.
            Proposal::Text(_) => (0, &mut tally.parts.text, true),
        };
        if !holds {
            return Err(wrong("a part is not what it is said to be", job, part));
        }
        *counter += count as u64;
    }
    for at in job.region.rects().iter().flat_map(each).filter(|&at| screen.made[at].has(Made::GLYPHS)) {
        let (x, y) = (at as i32 % screen.size.width as i32, at as i32 / screen.size.width as i32);
        let is_text = |part: &Part| part.rect.contains(&Rect::at(x, y, 1, 1)) && matches!(part.what, Proposal::Text(_));
        tally.text_drawn += 1;
        tally.parts.text += u64::from(job.parts.iter().any(is_text));
    }
    Ok(())
}
