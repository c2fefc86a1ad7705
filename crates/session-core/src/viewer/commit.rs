//! Path 6/13 and 7/13: under viewer.rs, from its queue to the next job.
//! What a viewer is sent next, and what of the last is taken back: asks scheduler.rs, flow.rs, quality.rs and refresh.rs.
//! Knows one viewer; never pixels, bytes or sockets.

use thinc_protocol::Micros;
use thinc_region::Region;

use super::{BarrierState, Screen, Viewer};
use crate::command_queue::{Kinds, Lane};
use crate::copies::Taken;
use crate::quality::{ENCODE_TIME_MAX, Quality};
use crate::scheduler::{self, JOB_AREA_MAX, Picked, Rank, Room, SMALL_BYTES};
use crate::update::{
    Commit, FRAME_AGE_MAX, Job, JobHints, JobId, RECORD_AGE_MAX, TakenBack, UNSENT_MAX, UNSENT_REAL_TIME,
};
use crate::video::Coding;

/// Fewest pixels that a job is cut down to for the encoders' sake: 16 ms of one that takes twenty times what is usual.
const WORK_AREA_MIN: u64 = 1 << 16;

/// Work that is done at once, whatever its bytes: to hand it to another thread and back costs an update that is waited
/// for more, where threads are scarce.
const INLINE_TIME: Micros = 1_500;

/// A plain picture of so many bytes is copied at once: that takes less than to hand it over and back.
const PLAIN_INLINE_BYTES: u64 = 512 * 1024;

/// What is committed next.
struct Next {
    picked: Picked,
    /// The part of it that is only compared.
    verify: Region,
    /// It makes exact what the viewer shows nearly.
    mends: bool,
}

impl Next {
    fn pixels(picked: Picked) -> Next {
        Next { picked, verify: Region::new(), mends: false }
    }
}

impl Viewer {
    fn draining(&self) -> bool {
        self.barriers.iter().any(|barrier| matches!(barrier.state, BarrierState::Draining { .. }))
    }

    /// Something waits that is ripe: X sleeps, it is old, or a barrier asks for it.
    fn is_ripe(&self, idle: bool, now: Micros) -> bool {
        let Some(oldest) = self.queue.oldest() else { return false };
        idle || now >= oldest + RECORD_AGE_MAX || self.draining()
    }

    fn room(&mut self, encode_work: Micros, now: Micros) -> Room {
        // The last places are kept for answers to a hand, and so is their room: they overtake what is unsent.
        let crowded = self.updates.unsent_len() >= UNSENT_MAX - UNSENT_REAL_TIME || encode_work >= ENCODE_TIME_MAX;
        let late = self.stands_since.is_some() && !self.flow.may_send(u64::MAX, now);
        let read_in_time = self.picture.transform.map_or(u64::MAX, |by| by.picture_area(JOB_AREA_MAX));
        let encoded_in_time = self.quality.work_area(ENCODE_TIME_MAX.saturating_sub(encode_work));
        Room {
            whole_bytes: self.flow.rate() * (FRAME_AGE_MAX / 2) / 1_000_000,
            bytes: if crowded || late { 0 } else { self.flow.commit_room(now) },
            real_time_bytes: self.flow.real_time_room(now),
            area_max: self.area_max.min(encoded_in_time.max(WORK_AREA_MIN)).min(read_in_time),
            frames: !crowded && !late,
        }
    }

    /// When what waits becomes ripe, if nothing else happens; None when only an event can help.
    pub(crate) fn deadline(&self, idle: bool, now: Micros) -> Option<Micros> {
        if self.waits_for_name() {
            return None;
        }
        if let Some(until) = self.held.awaited() {
            return Some(until);
        }
        let refresh = self.refresh_waits.then_some(self.refresh_from).into_iter().chain(self.picture.due());
        let inexact = self.refresh.due().filter(|_| self.updates.unsent_len() < UNSENT_MAX);
        let doubt = scheduler::doubt_due(&self.queue, idle).filter(|_| self.updates.unsent_len() < UNSENT_MAX);
        let blocked = self.updates.unsent_len() >= UNSENT_MAX
            || self.flow.commit_room(now) == 0 && !self.flow.may_send_real_time();
        let oldest = self.queue.oldest().filter(|_| !blocked && !self.is_ripe(idle, now));
        let rest = self.videos.rests_at(now).filter(|_| !self.refresh.is_empty());
        let doubt = doubt.filter(|&due| due > now);
        let waits = self.updates.unsent_len() > 0
            || !self.queue.is_empty() && self.is_ripe(idle, now)
            || inexact.is_some_and(|due| due <= now);
        let inexact = inexact.filter(|&due| due > now);
        let paced = self.flow.room_at(now).filter(|_| waits);
        refresh
            .chain(oldest.map(|oldest| oldest + RECORD_AGE_MAX))
            .chain(self.losses.deadline())
            .chain(self.losses.repeats.deadline())
            .chain(self.ask_due())
            .chain(doubt)
            .chain(inexact)
            .chain(rest)
            .chain(self.videos.key_due(&self.queue, now))
            .chain(self.frames_due(now))
            .chain(paced)
            .chain(self.clip_deadline(now))
            .min()
    }

    /// What goes next: pending pixels, or COPYs alone, or, where neither may, pixels to be compared or made exact.
    fn pick(&mut self, screen: &Screen<'_>, now: Micros) -> Option<Next> {
        if self.is_ripe(screen.idle, now) {
            let hand = self.queue.items().iter().any(|item| item.origin.lane == Lane::RealTime);
            if !hand
                && self.refresh.is_overdue(now)
                && let Some(next) = self.pick_inexact(screen, now)
            {
                return Some(next);
            }
            let room = self.room(screen.encode_work, now);
            let before = |rank| self.updates.bytes_before(rank, now);
            let turn = |stream| self.turn(stream, now);
            let picked = scheduler::pick(&self.queue, &self.estimate, room, before, turn, self.scheduling, now);
            // Only COPYs wait: they are a few bytes, and everything drawn later stands behind them.
            let since = self.queue.oldest().filter(|_| self.queue.items().is_empty());
            let copies_alone = since.filter(|&since| room.bytes > before(Rank::new(Lane::Normal, 0, since, now)));
            if let Some(picked) = picked.or_else(|| copies_alone.map(Picked::nothing)) {
                return Some(Next::pixels(picked));
            }
            self.hold_frames(now);
        }
        if self.videos.has_news() && self.room(screen.encode_work, now).bytes > 0 {
            return Some(Next::pixels(Picked::nothing(now)));
        }
        self.pick_doubt(screen, now).or_else(|| self.pick_inexact(screen, now))
    }

    fn pick_doubt(&mut self, screen: &Screen<'_>, now: Micros) -> Option<Next> {
        let due = scheduler::doubt_due(&self.queue, screen.idle)?;
        let crowded = self.updates.unsent_len() >= UNSENT_MAX - UNSENT_REAL_TIME;
        if now < due && !self.draining() || crowded || self.flow.room(now) == 0 {
            return None;
        }
        let verify = scheduler::pick_doubt(&mut self.queue, self.area_max)?;
        Some(Next { picked: Picked { region: verify.clone(), ..Picked::nothing(now) }, verify, mends: false })
    }

    /// What the viewer shows only nearly, and has rested.
    fn pick_inexact(&mut self, screen: &Screen<'_>, now: Micros) -> Option<Next> {
        let room = self.room(screen.encode_work, now);
        let bytes = room.bytes.saturating_sub(self.updates.bytes_left()).min(self.flow.update_bytes());
        if bytes == 0 {
            return None;
        }
        let Viewer { refresh, updates, queue, videos, flow, .. } = self;
        let settle = |region: &mut Region| {
            updates.settle(region);
            // A commit takes them along.
            queue.copies().for_each(|copy| *region = copy.follow(region));
            region.subtract(&queue.pending());
            // What still moves would be exact for no longer than a frame.
            region.subtract(&videos.active(now));
        };
        let unsent = |job| updates.unsent().any(|update| update.id == job);
        let wanted = refresh.wanted(settle, unsent, now)?;
        let once = videos.mend(&wanted, refresh.bytes_per_pixel(), flow.rate(), |job| updates.before(job), now);
        let (stream, (region, bytes)) = match once {
            Some((stream, region, bytes)) => (Some(stream), (region, bytes)),
            None => (None, refresh.pick(&wanted, bytes, room.area_max)),
        };
        let picked = Picked { region, lane: Lane::Normal, bytes, since: now, kinds: Kinds::STALE, stream };
        Some(Next { picked, verify: Region::new(), mends: true })
    }

    /// A frame is what waited when its first update was committed. What is drawn meanwhile is the next one's, or an
    /// application that draws faster than the path carries would never be shown at all. One that takes long is shown in
    /// parts, and so is one that was overtaken by the next: to hold its parts back would only make them older.
    fn ends_frame(&mut self, committed: &Region, now: Micros) -> bool {
        if self.frame_lacks.is_empty() {
            self.frame_lacks = self.queue.pending_pixels();
            self.frame_since = now;
            self.frame_is_mixed = false;
        } else {
            self.frame_lacks.subtract(committed);
            // A COPY may have taken some of it elsewhere.
            self.frame_lacks.intersect(&self.queue.pending_pixels());
        }
        if now.saturating_sub(self.frame_since) >= FRAME_AGE_MAX {
            self.frame_lacks.clear();
        }
        self.frame_lacks.is_empty() || self.frame_is_mixed
    }

    /// Rule 4. What is late and was drawn anew is not sent: it was worth waiting for as long as it was one picture.
    fn take_back(&mut self, now: Micros) {
        let Some(before) = now.checked_sub(FRAME_AGE_MAX).filter(|&before| self.updates.is_late(before)) else {
            return;
        };
        let drawn = self.queue.pending();
        if let Some(taken) = self.updates.take_back(&drawn, before) {
            self.stands_since.get_or_insert(now);
            self.taken_back(&taken, now);
        }
    }

    fn taken_back(&mut self, taken: &TakenBack, now: Micros) {
        self.stats.taken_back += 1;
        self.lacks(&taken.lacking, now);
        self.queue.take_back(&taken.region, taken.since, taken.echo);
    }

    /// The answer to a hand is small and looked at: exact. So is what is small beside what the path carries. To compare
    /// is not to mend: what is inexact there has its own time.
    fn job_quality(&self, lane: Lane, region: &Region, verify: &Region, now: Micros) -> Quality {
        let waiting = region.area() + self.queue.items().iter().map(|item| item.area).sum::<u64>();
        let waiting = if self.frame_is_lossy || !verify.is_empty() { u64::MAX } else { waiting };
        let hurries = self.videos.hurries(region, now);
        let lossy = if hurries { self.quality.hurried(waiting) } else { self.quality.lossy(waiting) };
        let lossy = lossy.filter(|_| lane == Lane::Normal);
        Quality { entropy: self.quality.entropy(), lossy }
    }

    /// Commits what goes next.
    pub(crate) fn poll_job(&mut self, screen: &Screen<'_>, now: Micros) -> Option<Job> {
        self.take_view(screen.size, now);
        self.take_refresh(now);
        self.take_lost(now);
        self.take_back(now);
        if self.says_nothing_yet(now) || self.control.close.is_some() || self.updates.unsent_len() >= UNSENT_MAX {
            return None;
        }
        self.quality.look(self.flow.measured_rate(), now);
        self.videos.look(self.flow.measured_rate(), &mut self.queue, now);
        let Next { picked, verify, mends } = self.pick(screen, now)?;
        let Picked { mut region, lane, bytes, since, kinds, stream } = picked;
        if lane == Lane::Normal && stream.is_none() {
            region = self.whole_tiles(region);
        }
        if lane == Lane::RealTime {
            self.flow.spend_real_time(bytes);
            if let Some(taken) = self.updates.make_way(&region) {
                self.taken_back(&taken, now);
            }
        }
        let id = self.updates.next_job();
        let (Taken { copies, derived }, echo) = self.queue.commit(id.0, &region, &verify);
        let carries = self.carries();
        // Before the frame is looked at: another source is one more reason for a picture that leans on none.
        let mut said = Vec::new();
        let streams = self.videos.say(stream, &mut said);
        let stands = self.flow.stands(self.updates.bytes_left());
        let video = stream.and_then(|stream| self.videos.commit(stream, (id, &region), mends, carries, stands, now));
        if video.is_none() && !mends {
            self.videos.looked_at(&region);
        }
        if region.is_empty() && copies.is_empty() && said.is_empty() {
            // Every COPY was covered by what is still pending: nothing to say.
            if let Some(echo) = echo {
                self.arm(echo);
            }
            return None;
        }
        for barrier in &mut self.barriers {
            if let BarrierState::Draining { region: wanted, copies, job_end } = &mut barrier.state {
                // Whatever was committed may be what the barrier waits for: a job too many costs its sending time.
                if *copies || wanted.overlaps(&region) {
                    *job_end = JobId(id.0 + 1);
                    *copies = false;
                    wanted.subtract(&region);
                }
            }
        }
        let mut quality = self.job_quality(lane, &region, &verify, now);
        if mends {
            quality.lossy = None;
            let takes = bytes * 1_000_000 / self.flow.rate().max(1);
            self.refresh.committed(id, &region, takes, now);
        }
        if quality.lossy.is_some() || video.is_some() {
            self.refresh.lossy_committed(id);
        }
        let work = self.quality.work_time(region.area());
        let inline = match video.map(|frame| frame.coding) {
            None => lane == Lane::RealTime || bytes <= SMALL_BYTES || work <= INLINE_TIME,
            Some(Coding::Plain) => bytes <= PLAIN_INLINE_BYTES,
            Some(Coding::H264 { .. }) => false,
        };
        // A stream has one job at a time: more would not wait for the workers.
        if !inline && video.is_none() {
            self.quality.work_begins(id, region.area());
        }
        let end_of_frame = video.is_some() || self.ends_frame(&region, now);
        self.frame_is_lossy = !end_of_frame && (self.frame_is_lossy || quality.lossy.is_some());
        // What is compared or made exact tells nothing of what its kind takes.
        let area = if mends || video.is_some() { 0 } else { region.area() - verify.area() };
        self.stats.pixels += if mends { 0 } else { region.area() - verify.area() };
        self.stats.copies += copies.len() as u64;
        self.stats.derived_copies += derived;
        let commit = Commit {
            region: region.clone(),
            copies: copies.clone(),
            said,
            streams,
            video: video.is_some(),
            area,
            lane,
            inline,
            echo,
            end_of_frame,
            since,
            bytes_estimate: bytes,
            packed: self.estimate.packed(kinds.dearest()),
            kind: kinds.dearest(),
        };
        let committed = self.updates.commit(commit, self.queue.size(), now);
        assert_eq!(committed, id, "a commit takes the number it was told");
        let picture = self.geometry(screen);
        let part = picture.shows.map_or(picture.size.rect(), |shows| shows.part);
        let shown = self.take_held(&region, &copies, (picture.size, part)).filter(|_| video.is_none());
        let mut parts = Vec::new();
        match &self.picture.transform {
            None => screen.drawables.parts(&region.extents(), &mut parts),
            Some(by) => {
                let extents = region.extents();
                screen.drawables.parts(&by.source(&extents), &mut parts);
                by.map_parts(&mut parts, &extents);
            }
        }
        Some(Job {
            id,
            epoch: self.picture.epoch,
            view: self.picture.transform,
            forget: self.forget.take(),
            copies,
            region,
            verify,
            shown,
            parts,
            video,
            translated: self.queue.passed_op(),
            bytes_estimate: bytes,
            hints: JobHints {
                inline,
                video: kinds == Kinds::VIDEO,
                path_bytes_per_second: self.flow.rate(),
                piece_area: self.estimate.piece_area(kinds, self.flow.update_bytes()),
                quality,
            },
        })
    }
}
