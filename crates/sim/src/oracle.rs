//! Beside the path: checks a job's claims about its pixels against what X has drawn, and counts all
//! checks. From world.rs with a job whose pixels contain no op unknown to the session, to a
//! divergence or a tally. Knows jobs and the X server's surfaces; never how a claim came about.

use thinc_region::{Rect, Size};
use thinc_session_core::{Job, PARTS_MAX, Part, Proposal, ProposalStats, ViewerStats};

use crate::history::History;
use crate::surface::{LOST, Made, RGB, Surface, pixels};
use crate::world::Divergence;

/// Counts of what a run has checked: a test without any case of a thing shows nothing about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Barriers answered correctly.
    pub barriers: u64,
    /// COPYs sent to viewers.
    pub copies: u64,
    /// Of these, COPYs that no X client requested.
    pub derived_copies: u64,
    /// Updates that were lost, or discarded because they were late.
    pub lost: u64,
    /// Pixels shown lossy, and marked so.
    pub lossy: u64,
    /// Tiles recalled from viewers' caches.
    pub recalled: u64,
    /// Pixels that reconnected viewers showed already.
    pub retained: u64,
    /// Checked proposals.
    pub proposals: ProposalStats,
    /// Pixels of parts claimed to be solid, pattern, text, image or video, and verified.
    pub parts: Parts,
    /// Pixels in which text was drawn.
    pub text_drawn: u64,
    /// Pixels of scaled views claimed to be of one colour, and verified.
    pub scaled_parts: u64,
    /// Frames of XVideo in scaled views whose clip only the port had drawn.
    pub scaled_frames: u64,
    /// Views checked when the queues had drained.
    pub views: u64,
}

/// Pixels by claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// One colour.
    pub solid: u64,
    /// A tile or stipple.
    pub pattern: u64,
    /// Text.
    pub text: u64,
    /// Pixels sent by an X client.
    pub image: u64,
    /// A frame of XVideo.
    pub video: u64,
}

impl Tally {
    pub(crate) fn add_proposals(&mut self, more: &ProposalStats) {
        self.proposals.confirmed += more.confirmed;
        self.proposals.refuted += more.refuted;
        self.proposals.late += more.late;
    }

    pub(crate) fn add_viewer(&mut self, stats: &ViewerStats) {
        self.copies += stats.copies;
        self.retained += stats.retained_pixels;
        self.derived_copies += stats.derived_copies;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Tally) {
        self.barriers += other.barriers;
        self.copies += other.copies;
        self.lost += other.lost;
        self.lossy += other.lossy;
        self.recalled += other.recalled;
        self.retained += other.retained;
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

/// The pixels that a viewer showed when last checked.
#[derive(Debug, Default)]
pub(crate) struct LastShown {
    size: Size,
    pixels: Vec<u32>,
}

impl LastShown {
    /// Checks a viewer's pixels: each value was on the X screen at some time, except lossy pixels
    /// and those the viewer lost.
    pub(crate) fn check(
        &mut self,
        (size, shown): (Size, &[u32]),
        history: &History,
        lossy: impl Fn((usize, usize)) -> bool,
        tally: &mut Tally,
    ) -> Result<(), Divergence> {
        if self.size != size {
            (self.size, self.pixels) = (size, vec![0; shown.len()]);
        }
        let width = (size.width as usize).max(1);
        let rows = self.pixels.chunks_exact_mut(width).zip(shown.chunks_exact(width));
        for (y, (before, now)) in rows.enumerate() {
            // Without a branch for each pixel: this is asked after every step of the simulator, and
            // most rows are as they were.
            let pairs = before.iter().zip(now);
            if pairs.fold(0, |change, (before, now)| change | (before ^ (now & RGB))) == 0 {
                continue;
            }
            for (x, (before, now)) in before.iter_mut().zip(now).enumerate() {
                let (place, now) = ((x, y), now & RGB);
                if *before == now {
                    continue;
                }
                *before = now;
                if lossy(place) {
                    tally.lossy += 1;
                } else if now != LOST && !history.has(now) {
                    return Err(Divergence(format!(
                        "shows {now:06x} at {place:?}, which was never on the X screen"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn wrong(what: &str, job: &Job, part: &Part) -> Divergence {
    Divergence(format!("{what}: {part:?} of {:?}, after op {}", job.region, job.translated))
}

/// Checks the form of a job's claims, which does not depend on the pixels.
pub(crate) fn check_shape(job: &Job, screen: Size) -> Result<(), Divergence> {
    let extents = job.region.extents();
    if job.parts.len() > PARTS_MAX {
        return Err(Divergence(format!("{} parts of one job", job.parts.len())));
    }
    if !job.verify.difference(&job.region).is_empty() {
        return Err(Divergence(format!(
            "{:?} is to be verified, but only {:?} is read",
            job.verify, job.region
        )));
    }
    if !screen.rect().contains(&extents) && !job.region.is_empty() {
        return Err(Divergence(format!("{:?} lies outside the screen", job.region)));
    }
    for (i, part) in job.parts.iter().enumerate() {
        if part.rect.is_empty() || !extents.contains(&part.rect) {
            return Err(wrong("a part lies outside the job's region", job, part));
        }
        if job.parts[..i].iter().any(|other| other.rect.overlaps(&part.rect)) {
            return Err(wrong("two parts overlap", job, part));
        }
    }
    Ok(())
}

/// Checks a job's claims. The drawable maps have seen exactly the ops that are on the screen, so
/// every claim must hold.
pub(crate) fn check_parts(
    job: &Job,
    screen: &Surface,
    tally: &mut Tally,
) -> Result<(), Divergence> {
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
            // Claimed by tiles: there is some text nearby.
            Proposal::Text(_) => (0, &mut tally.parts.text, true),
        };
        if !holds {
            return Err(wrong("a part differs from its claim", job, part));
        }
        *counter += count as u64;
    }
    for at in
        job.region.rects().iter().flat_map(each).filter(|&at| screen.made[at].has(Made::GLYPHS))
    {
        let (x, y) = (at as i32 % screen.size.width as i32, at as i32 / screen.size.width as i32);
        let is_text = |part: &Part| {
            part.rect.contains(&Rect::at(x, y, 1, 1)) && matches!(part.what, Proposal::Text(_))
        };
        tally.text_drawn += 1;
        tally.parts.text += u64::from(job.parts.iter().any(is_text));
    }
    Ok(())
}
