//! Path 6/13 and 7/13: under viewer.rs, from its queue to the next job.
//! Commits what a viewer is sent next, and withdraws what is late: asks scheduler.rs, flow.rs,
//! quality.rs and refresh.rs. Knows one viewer; never pixels, bytes or sockets.

use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_region::Region;

use super::{SessionContext, Viewer};
use crate::delivery::Delivery;
use crate::delivery::ledger::{
    Commit, FRAME_AGE_MAX, Job, JobHints, RECORD_AGE_MAX, UNSENT_MAX, UNSENT_REAL_TIME_MAX,
    Withdrawn,
};
use crate::quality::{ENCODE_TIME_MAX, Quality};
use crate::queue::command_queue::{Kinds, Lane};
use crate::queue::copies::TakenCopies;
use crate::queue::scheduler::{self, JOB_AREA_MAX, Picked, Rank, Room, SMALL_BYTES};
use crate::video::Coding;

/// Fewest pixels of a job that is limited by encoding time: 16 ms for content that takes twenty
/// times the usual.
const WORK_AREA_MIN: u64 = 1 << 16;

/// Work that is done at once, whatever its bytes: if threads are scarce, handing it to a worker and
/// back delays the update more.
const INLINE_TIME: Micros = 1_500;

/// A plain frame of so many bytes is copied at once: that takes less than handing it to a worker.
const PLAIN_INLINE_BYTES: u64 = 512 * 1024;

/// What is committed next.
struct NextCommit {
    picked: Picked,
    /// The part of it that is only compared.
    verify: Region,
    /// It refreshes lossy pixels.
    is_refresh: bool,
}

impl NextCommit {
    fn pixels(picked: Picked) -> NextCommit {
        NextCommit { picked, verify: Region::new(), is_refresh: false }
    }
}

impl Viewer {
    /// Pending pixels are due: X sleeps, they are old, or a barrier waits for them.
    fn is_due(&self, idle: bool, now: Micros) -> bool {
        let Some(oldest) = self.queue.oldest() else { return false };
        idle || now >= oldest + RECORD_AGE_MAX || self.barriers.is_draining()
    }

    fn room(&mut self, encode_work: Micros, now: Micros) -> Room {
        // The last places and their room are kept for input responses, which overtake unsent
        // updates.
        let crowded = self.delivery.ledger.unsent_len() >= UNSENT_MAX - UNSENT_REAL_TIME_MAX
            || encode_work >= ENCODE_TIME_MAX;
        let late = self.stalled_since.is_some() && !self.delivery.flow.may_send(u64::MAX, now);
        let read_in_time = self.view.transform.map_or(u64::MAX, |by| by.view_area(JOB_AREA_MAX));
        let encoded_in_time = self.quality.work_area(ENCODE_TIME_MAX.saturating_sub(encode_work));
        Room {
            whole_bytes: self.delivery.flow.rate() * (FRAME_AGE_MAX / 2) / 1_000_000,
            bytes: if crowded || late { 0 } else { self.delivery.flow.commit_room(now) },
            real_time_bytes: self.delivery.flow.real_time_room(now),
            area_max: self
                .sizes
                .area_max()
                .min(encoded_in_time.max(WORK_AREA_MIN))
                .min(read_in_time),
            frames: !crowded && !late,
        }
    }

    /// When pending pixels become due without an event; None if only an event can help.
    pub(crate) fn deadline(&self, idle: bool, now: Micros) -> Option<Micros> {
        if self.awaits_instance() {
            return None;
        }
        if let Some(until) = self.retained.awaited() {
            return Some(until);
        }
        let refresh = self.resync.due().into_iter().chain(self.view.due());
        let lossy = self.refresh.due().filter(|_| self.delivery.ledger.unsent_len() < UNSENT_MAX);
        let doubt = scheduler::doubt_due(&self.queue, idle)
            .filter(|_| self.delivery.ledger.unsent_len() < UNSENT_MAX);
        let blocked = self.delivery.ledger.unsent_len() >= UNSENT_MAX
            || self.delivery.flow.commit_room(now) == 0 && !self.delivery.flow.may_send_real_time();
        let oldest = self.queue.oldest().filter(|_| !blocked && !self.is_due(idle, now));
        let rest = self.videos.rests_at(now).filter(|_| !self.refresh.is_empty());
        let doubt = doubt.filter(|&due| due > now);
        let waits = self.delivery.ledger.unsent_len() > 0
            || !self.queue.is_empty() && self.is_due(idle, now)
            || lossy.is_some_and(|due| due <= now);
        let lossy = lossy.filter(|&due| due > now);
        let paced = self.delivery.flow.room_at(now).filter(|_| waits);
        refresh
            .chain(oldest.map(|oldest| oldest + RECORD_AGE_MAX))
            .chain(self.delivery.deadline())
            .chain(doubt)
            .chain(lossy)
            .chain(rest)
            .chain(self.videos.keyframe_due(&self.queue, now))
            .chain(self.frames_due(now))
            .chain(paced)
            .chain(self.background_deadline(now))
            .chain(self.sound_deadline())
            .min()
    }

    /// What is committed next: pending pixels, or only COPYs, or, if neither may be, pixels to
    /// compare or to refresh.
    fn pick(&mut self, screen: &SessionContext<'_>, now: Micros) -> Option<NextCommit> {
        if self.is_due(screen.idle, now) {
            let input_response =
                self.queue.items().iter().any(|item| item.origin.lane == Lane::RealTime);
            if !input_response
                && self.refresh.is_overdue(now)
                && let Some(next) = self.pick_refresh(screen, now)
            {
                return Some(next);
            }
            let room = self.room(screen.encode_work, now);
            let before = |rank| self.delivery.ledger.bytes_before(rank, now);
            let frame_decision = |stream| self.frame_decision(stream, now);
            let picked = scheduler::pick(
                &self.queue,
                &self.estimate,
                room,
                before,
                frame_decision,
                self.scheduling,
                now,
            );
            // Only COPYs are queued: they take a few bytes, and all later drawings wait behind
            // them.
            let since = self.queue.oldest().filter(|_| self.queue.items().is_empty());
            let only_copies =
                since.filter(|&since| room.bytes > before(Rank::new(Lane::Normal, 0, since, now)));
            if let Some(picked) = picked.or_else(|| only_copies.map(Picked::nothing)) {
                return Some(NextCommit::pixels(picked));
            }
            self.delay_frames(now);
        }
        if self.videos.has_pending_commands() && self.room(screen.encode_work, now).bytes > 0 {
            return Some(NextCommit::pixels(Picked::nothing(now)));
        }
        self.pick_doubt(screen, now).or_else(|| self.pick_refresh(screen, now))
    }

    fn pick_doubt(&mut self, screen: &SessionContext<'_>, now: Micros) -> Option<NextCommit> {
        let due = scheduler::doubt_due(&self.queue, screen.idle)?;
        let crowded = self.delivery.ledger.unsent_len() >= UNSENT_MAX - UNSENT_REAL_TIME_MAX;
        if now < due && !self.barriers.is_draining() || crowded || self.delivery.flow.room(now) == 0
        {
            return None;
        }
        let verify = scheduler::pick_doubt(&mut self.queue, self.sizes.area_max())?;
        Some(NextCommit {
            picked: Picked { region: verify.clone(), ..Picked::nothing(now) },
            verify,
            is_refresh: false,
        })
    }

    /// Lossy pixels that are at rest.
    fn pick_refresh(&mut self, screen: &SessionContext<'_>, now: Micros) -> Option<NextCommit> {
        let room = self.room(screen.encode_work, now);
        let bytes = room
            .bytes
            .saturating_sub(self.delivery.ledger.bytes_left())
            .min(self.delivery.flow.update_bytes());
        if bytes == 0 {
            return None;
        }
        let Viewer { refresh, delivery: Delivery { ledger, flow, .. }, queue, videos, .. } = self;
        let settle = |region: &mut Region| {
            ledger.settle(region);
            // A commit includes all queued COPYs.
            queue.copies().for_each(|copy| *region = copy.follow(region));
            region.subtract(&queue.pending());
            // A moving area would be lossless for no longer than a frame.
            region.subtract(&videos.active(now));
        };
        let unsent = |job| ledger.unsent().any(|update| update.id == job);
        let wanted = refresh.wanted(settle, unsent, now)?;
        let once = videos.pick_plain_frame(
            &wanted,
            refresh.bytes_per_pixel(),
            flow.rate(),
            |job| ledger.progress(job),
            now,
        );
        let (stream, (region, bytes)) = match once {
            Some((stream, region, bytes)) => (Some(stream), (region, bytes)),
            None => (None, refresh.pick(&wanted, bytes, room.area_max)),
        };
        let picked =
            Picked { region, lane: Lane::Normal, bytes, since: now, kinds: Kinds::STALE, stream };
        Some(NextCommit { picked, verify: Region::new(), is_refresh: true })
    }

    /// Rule 4. Updates that are late and redrawn are not sent: waiting was worth it only while all
    /// of it was one state of the screen.
    fn withdraw(&mut self, now: Micros) {
        let Some(before) =
            now.checked_sub(FRAME_AGE_MAX).filter(|&before| self.delivery.ledger.is_late(before))
        else {
            return;
        };
        let drawn = self.queue.pending();
        if let Some(taken) = self.delivery.ledger.withdraw(&drawn, before) {
            self.stalled_since.get_or_insert(now);
            self.withdrawn(&taken, now);
        }
    }

    fn withdrawn(&mut self, taken: &Withdrawn, now: Micros) {
        self.stats.withdrawn += 1;
        self.mark_stale(&taken.stale, now);
        self.queue.withdraw(&taken.region, taken.since, taken.echo);
    }

    /// An input response is small and looked at, so it is lossless; so is what is small for this
    /// path. A comparison is no refresh: lossy pixels in it have their own time.
    fn job_quality(&self, lane: Lane, region: &Region, verify: &Region, now: Micros) -> Quality {
        let waiting = region.area() + self.queue.items().iter().map(|item| item.area).sum::<u64>();
        let waiting = if self.frames.is_lossy() || !verify.is_empty() { u64::MAX } else { waiting };
        let outpaces_path = self.videos.outpaces_path(region, now);
        let lossy = if outpaces_path {
            self.quality.lossy_reduced(waiting)
        } else {
            self.quality.lossy(waiting)
        };
        let lossy = lossy.filter(|_| lane == Lane::Normal);
        Quality { entropy: self.quality.entropy(), lossy }
    }

    /// Commits what is sent next.
    pub(crate) fn poll_job(&mut self, screen: &SessionContext<'_>, now: Micros) -> Option<Job> {
        self.take_view(screen.size, now);
        self.take_resync(now);
        self.take_lost(now);
        self.withdraw(now);
        if self.awaits_resumption(now)
            || self.control.close.is_some()
            || self.delivery.ledger.unsent_len() >= UNSENT_MAX
        {
            return None;
        }
        self.quality.update(self.delivery.flow.measured_rate(), now);
        self.videos.update(self.delivery.flow.measured_rate(), &mut self.queue, now);
        let NextCommit { picked, verify, is_refresh } = self.pick(screen, now)?;
        let Picked { mut region, lane, bytes, since, kinds, stream } = picked;
        if lane == Lane::Normal && stream.is_none() {
            region = self.whole_tiles(region);
        }
        if lane == Lane::RealTime {
            self.delivery.flow.spend_real_time(bytes);
            if let Some(taken) = self.delivery.ledger.withdraw_overlapping(&region) {
                self.withdrawn(&taken, now);
            }
        }
        let id = self.delivery.ledger.next_job();
        let (TakenCopies { copies, derived }, echo) = self.queue.commit(id.0, &region, &verify);
        let path_rates = self.path_rates();
        // Before the frame is committed: a new source requires a keyframe.
        let mut video_commands = Commands::default();
        let streams = self.videos.write_commands(stream, &mut video_commands);
        let queueing_delay = self.delivery.flow.queueing_delay(self.delivery.ledger.bytes_left());
        let video = stream.and_then(|stream| {
            self.videos.commit(stream, (id, &region), is_refresh, path_rates, queueing_delay, now)
        });
        if video.is_none() && !is_refresh {
            self.videos.planned(&region);
        }
        if region.is_empty() && copies.is_empty() && video_commands.is_empty() {
            // Every COPY is covered by pending pixels: there is nothing to send.
            if let Some(echo) = echo {
                self.await_echo(echo);
            }
            return None;
        }
        self.barriers.committed(id, &region);
        let mut quality = self.job_quality(lane, &region, &verify, now);
        if is_refresh {
            quality.lossy = None;
            let takes = bytes * 1_000_000 / self.delivery.flow.rate().max(1);
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
        // A stream has one job at a time, so workers are never short of room for it.
        if !inline && video.is_none() {
            self.quality.work_begins(id, region.area());
        }
        let end_of_frame =
            video.is_some() || self.frames.ends(&region, self.queue.pending_pixels(), now);
        self.frames.committed(end_of_frame, quality.lossy.is_some());
        // Compared or refreshed pixels tell nothing about the cost of their kind.
        let area = if is_refresh || video.is_some() { 0 } else { region.area() - verify.area() };
        self.stats.pixels += if is_refresh { 0 } else { region.area() - verify.area() };
        self.stats.copies += copies.len() as u64;
        self.stats.derived_copies += derived;
        let commit = Commit {
            region: region.clone(),
            copies: copies.clone(),
            video_commands,
            streams,
            video: video.is_some(),
            area,
            lane,
            inline,
            echo,
            end_of_frame,
            since,
            bytes_estimate: bytes,
            packed: self.estimate.packed(kinds.most_expensive()),
            kind: kinds.most_expensive(),
        };
        let committed = self.delivery.ledger.commit(commit, now);
        assert_eq!(committed, id, "a commit takes the number that was predicted");
        let geometry = self.geometry(screen);
        let part = geometry.shown.map_or(geometry.size.rect(), |shown| shown.part);
        let shown =
            self.take_retained(&region, &copies, (geometry.size, part)).filter(|_| video.is_none());
        let mut parts = Vec::new();
        match &self.view.transform {
            None => screen.drawables.parts(&region.extents(), &mut parts),
            Some(by) => {
                let extents = region.extents();
                screen.drawables.parts(&by.source(&extents), &mut parts);
                by.map_parts(&mut parts, &extents);
            }
        }
        Some(Job {
            viewer: self.id,
            id,
            epoch: self.view.epoch,
            view: self.view.transform,
            forget: self.forget.take(),
            copies,
            region,
            verify,
            retained: shown,
            parts,
            video,
            translated: self.queue.passed_op(),
            bytes_estimate: bytes,
            hints: JobHints {
                inline,
                video: kinds == Kinds::VIDEO,
                path_bytes_per_second: self.delivery.flow.rate(),
                piece_area: self.estimate.piece_area(kinds, self.delivery.flow.update_bytes()),
                quality,
            },
        })
    }
}
