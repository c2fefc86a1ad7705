//! Path 6/13 and 7/13: under viewer.rs, from its queue to the next job.
//! Commits what a viewer is sent next, and withdraws what is late: asks scheduler.rs, flow.rs,
//! quality.rs and refresh.rs. Knows one viewer; never pixels, bytes or sockets.

use thinc_protocol::Micros;
use thinc_protocol::commands::Commands;
use thinc_region::Region;

use super::pending::Pending;
use super::{SessionContext, Viewer};
use crate::delivery::Delivery;
use crate::delivery::ledger::{
    Commit, FRAME_AGE_MAX, Job, JobHints, JobId, RECORD_AGE_MAX, UNSENT_MAX, UNSENT_REAL_TIME_MAX,
    Withdrawn,
};
use crate::delivery::parts::FramesOf;
use crate::quality::{Adaptation, ENCODE_TIME_MAX, Quality};
use crate::queue::command_queue::{Kinds, Lane};
use crate::queue::copies::TakenCopies;
use crate::queue::scheduler::{self, JOB_AREA_MAX, Picked, Rank, Room, SMALL_BYTES};
use crate::screen::drawable::Part;
use crate::video::{Coding, PickedRightEye, VideoFrame};

/// Fewest pixels of a job that is limited by encoding time: 16 ms for content that takes twenty
/// times the usual.
const WORK_AREA_MIN: u64 = 1 << 16;

/// Work that is done at once, whatever its bytes: if threads are scarce, handing it to a worker and
/// back delays the update more.
const INLINE_TIME: Micros = 1_500;

/// A plain frame of so many bytes is copied at once: that takes less than handing it to a worker.
const PLAIN_INLINE_BYTES: u64 = 512 * 1024;

/// What is committed next.
pub(super) struct NextCommit {
    picked: Picked,
    /// The part of it that is only compared.
    verify: Region,
    /// It refreshes lossy pixels.
    is_refresh: bool,
    /// It has no pixels: it is what the right eye sees.
    right_eye: Option<PickedRightEye>,
}

impl NextCommit {
    /// Its pixels that were drawn: what is compared or refreshed tells nothing about the cost of
    /// its kind.
    pub(super) fn drawn_area(&self) -> u64 {
        if self.is_refresh { 0 } else { self.picked.region.area() - self.verify.area() }
    }

    fn right_eye(next: PickedRightEye, now: Micros) -> NextCommit {
        let picked = Picked { bytes: next.bytes, kinds: Kinds::VIDEO, ..Picked::nothing(now) };
        NextCommit { right_eye: Some(next), ..NextCommit::pixels(picked) }
    }

    fn pixels(picked: Picked) -> NextCommit {
        NextCommit { picked, verify: Region::new(), is_refresh: false, right_eye: None }
    }
}

impl Viewer {
    /// Pending pixels are due: X sleeps, they are old, or a barrier waits for them.
    fn is_due(&self, idle: bool, now: Micros) -> bool {
        let Some(oldest) = self.pending.queue.oldest() else { return false };
        idle || now >= oldest + RECORD_AGE_MAX || self.pending.barriers.is_draining()
    }

    fn room(&mut self, encode_work: Micros, now: Micros) -> Room {
        // The last places and their room are kept for input responses, which overtake unsent
        // updates.
        let crowded = self.delivery.ledger.unsent_len() >= UNSENT_MAX - UNSENT_REAL_TIME_MAX
            || encode_work >= ENCODE_TIME_MAX;
        let late = self.delivery.is_stalled() && !self.delivery.flow.may_send(u64::MAX, now);
        let read_in_time =
            self.pending.transform().map_or(u64::MAX, |by| by.view_area(JOB_AREA_MAX));
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
        let refresh = self.pending.resync.due().into_iter().chain(self.pending.view.due());
        let lossy =
            self.quality.refresh.due().filter(|_| self.delivery.ledger.unsent_len() < UNSENT_MAX);
        let doubt = scheduler::doubt_due(&self.pending.queue, idle)
            .filter(|_| self.delivery.ledger.unsent_len() < UNSENT_MAX);
        let blocked = self.delivery.ledger.unsent_len() >= UNSENT_MAX
            || self.delivery.flow.commit_room(now) == 0
                && !self.delivery.flow.may_send_real_time(now);
        let oldest = self.pending.queue.oldest().filter(|_| !blocked && !self.is_due(idle, now));
        let rest = self.pending.videos.rests_at(now).filter(|_| !self.quality.refresh.is_empty());
        // Under a limit there may be no room although everything was acknowledged.
        let doubts = doubt.is_some_and(|due| due <= now || self.pending.barriers.is_draining());
        let doubt = doubt.filter(|&due| due > now);
        let waits = doubts
            || self.pending.videos.right_eye_waits()
            || self.delivery.ledger.unsent_len() > 0
            || !self.pending.queue.is_empty() && self.is_due(idle, now)
            || lossy.is_some_and(|due| due <= now);
        let lossy = lossy.filter(|&due| due > now);
        let paced = self.delivery.flow.room_at(now).filter(|_| waits);
        refresh
            .chain(oldest.map(|oldest| oldest + RECORD_AGE_MAX))
            .chain(self.delivery.deadline())
            .chain(doubt)
            .chain(lossy)
            .chain(rest)
            .chain(self.pending.videos.right_eyes_due(self.path_rates(), now))
            .chain(self.pending.videos.keyframe_due(&self.pending.queue, now))
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
                self.pending.queue.items().iter().any(|item| item.origin.lane == Lane::RealTime);
            if !input_response
                && self.quality.refresh.is_overdue(now)
                && let Some(next) = self.pick_refresh(screen, now)
            {
                return Some(next);
            }
            let room = self.room(screen.encode_work, now);
            if !input_response
                && room.frames
                && room.bytes > 0
                && let Some(next) = self.pick_right_eye(now)
            {
                return Some(NextCommit::right_eye(next, now));
            }
            let before = |rank| self.delivery.ledger.bytes_before(rank, now);
            let frame_decision = |stream| self.frame_decision(stream, now);
            let picked = scheduler::pick(
                &self.pending.queue,
                &self.pending.estimate,
                room,
                before,
                frame_decision,
                self.delivery.scheduling(),
                now,
            );
            // Only COPYs are queued: they take a few bytes, and all later drawings wait behind
            // them.
            let since =
                self.pending.queue.oldest().filter(|_| self.pending.queue.items().is_empty());
            let only_copies =
                since.filter(|&since| room.bytes > before(Rank::new(Lane::Normal, 0, since, now)));
            if let Some(picked) = picked.or_else(|| only_copies.map(Picked::nothing)) {
                return Some(NextCommit::pixels(picked));
            }
            self.delay_frames(now);
        }
        if self.pending.videos.has_pending_commands()
            && self.room(screen.encode_work, now).bytes > 0
        {
            return Some(NextCommit::pixels(Picked::nothing(now)));
        }
        if let Room { frames: true, bytes: 1.., .. } = self.room(screen.encode_work, now)
            && let Some(next) = self.pick_right_eye(now)
        {
            return Some(NextCommit::right_eye(next, now));
        }
        self.pick_doubt(screen, now).or_else(|| self.pick_refresh(screen, now))
    }

    fn pick_doubt(&mut self, screen: &SessionContext<'_>, now: Micros) -> Option<NextCommit> {
        let due = scheduler::doubt_due(&self.pending.queue, screen.idle)?;
        let crowded = self.delivery.ledger.unsent_len() >= UNSENT_MAX - UNSENT_REAL_TIME_MAX;
        if now < due && !self.pending.barriers.is_draining()
            || crowded
            || self.delivery.flow.room(now) == 0
        {
            return None;
        }
        let verify = scheduler::pick_doubt(&mut self.pending.queue, self.sizes.area_max())?;
        Some(NextCommit {
            picked: Picked { region: verify.clone(), ..Picked::nothing(now) },
            verify,
            is_refresh: false,
            right_eye: None,
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
        let Viewer { quality, delivery: Delivery { ledger, flow, .. }, pending, .. } = self;
        let Pending { queue, videos, .. } = pending;
        let refresh = &mut quality.refresh;
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
        Some(NextCommit { is_refresh: true, ..NextCommit::pixels(picked) })
    }

    /// Rule 4. Updates that are late and redrawn are not sent: waiting was worth it only while all
    /// of it was one state of the screen.
    fn withdraw(&mut self, now: Micros) {
        let Some(before) =
            now.checked_sub(FRAME_AGE_MAX).filter(|&before| self.delivery.ledger.is_late(before))
        else {
            return;
        };
        let drawn = self.pending.queue.pending();
        if let Some(taken) = self.delivery.ledger.withdraw(&drawn, before) {
            self.delivery.stalls(now);
            self.withdrawn(&taken, now);
        }
    }

    fn withdrawn(&mut self, taken: &Withdrawn, now: Micros) {
        self.counts.stats.withdrawn += 1;
        self.quality.choice.not_sent(&taken.region);
        self.pending.mark_stale(&taken.stale, now);
        self.pending.queue.withdraw(&taken.region, taken.since, taken.echo);
    }

    /// An input response is small and looked at, so it is lossless; so is what is small for this
    /// path. A comparison is no refresh: lossy pixels in it have their own time.
    fn job_quality(&self, lane: Lane, region: &Region, verify: &Region, now: Micros) -> Quality {
        let waiting =
            region.area() + self.pending.queue.items().iter().map(|item| item.area).sum::<u64>();
        let waiting =
            if self.pending.frames.is_lossy() || !verify.is_empty() { u64::MAX } else { waiting };
        let outpaces_path = self.pending.videos.outpaces_path(region, now);
        let lossy = if outpaces_path {
            self.quality.lossy_reduced(waiting)
        } else {
            self.quality.lossy(waiting)
        };
        let lossy = lossy.filter(|_| lane == Lane::Normal);
        Quality { entropy: self.quality.entropy(), lossy }
    }

    /// Commits the frame of a stream whose pixels these are.
    fn commit_frame(
        &mut self,
        stream: u16,
        id: JobId,
        next: &NextCommit,
        now: Micros,
    ) -> Option<VideoFrame> {
        let queueing_delay =
            self.delivery.flow.queueing_delay(self.delivery.ledger.bytes_left(), now);
        let (job, rates) = ((id, &next.picked.region), self.path_rates());
        let lossless = next.right_eye.map_or(next.is_refresh, |next| next.is_exact);
        self.pending.videos.commit(stream, job, lossless, rates, queueing_delay, now)
    }

    /// The quality of a job's pixels, which the refresh of lossy pixels takes note of.
    fn decide_quality(
        &mut self,
        id: JobId,
        next: &NextCommit,
        is_frame: bool,
        now: Micros,
    ) -> Quality {
        let Picked { region, lane, bytes, .. } = &next.picked;
        let mut quality = self.job_quality(*lane, region, &next.verify, now);
        if next.is_refresh {
            quality.lossy = None;
            let takes = bytes * 1_000_000 / self.delivery.flow.rate().max(1);
            self.quality.refresh.committed(id, region, takes, now);
        }
        if quality.lossy.is_some() || is_frame {
            self.quality.refresh.lossy_committed(id);
        }
        quality
    }

    /// True if a job is encoded at once, and not by a worker, whose work is counted.
    fn decide_place(&mut self, id: JobId, next: &NextCommit, coding: Option<Coding>) -> bool {
        let Picked { region, lane, bytes, .. } = &next.picked;
        let inline = match coding {
            None => {
                let work = self.quality.work_time(region.area());
                *lane == Lane::RealTime || *bytes <= SMALL_BYTES || work <= INLINE_TIME
            }
            Some(Coding::Plain) => *bytes <= PLAIN_INLINE_BYTES,
            Some(Coding::H264 { .. }) => false,
        };
        // A stream has one job at a time, so workers are never short of room for it.
        if !inline && coding.is_none() {
            self.quality.work_begins(id, region.area());
        }
        inline
    }

    /// What is known of the pixels that a job reads.
    fn parts(&self, region: &Region, screen: &SessionContext<'_>) -> Vec<Part> {
        let (extents, mut parts) = (region.extents(), Vec::new());
        match self.pending.transform() {
            None => screen.drawables.parts(&extents, &mut parts),
            Some(by) => {
                screen.drawables.parts(&by.source(&extents), &mut parts);
                by.map_parts(&mut parts, &extents);
            }
        }
        parts
    }

    /// Commits what is sent next.
    pub(crate) fn poll_job(&mut self, screen: &SessionContext<'_>, now: Micros) -> Option<Job> {
        self.take_view(screen.size, now);
        self.take_resync(now);
        self.take_lost(now);
        self.withdraw(now);
        if self.awaits_resumption(now)
            || self.control.is_closing()
            || self.delivery.ledger.unsent_len() >= UNSENT_MAX
        {
            return None;
        }
        let Adaptation { choice, refresh, .. } = &mut self.quality;
        choice.begin_exact_frame(|| refresh.lossy(), now);
        self.quality.update(self.delivery.flow.measured_rate(), now);
        let (chosen, pictures) = (self.quality.chosen(), self.quality.pictures());
        self.pending.videos.set_quality(chosen, pictures, &mut self.pending.queue);
        self.pending.videos.set_full_colour(screen.encodes_full_colour, now);
        self.pending.videos.update(
            self.delivery.flow.measured_rate(),
            &mut self.pending.queue,
            now,
        );
        let path = self.path_rates();
        self.pending.update_right_eyes(screen.right_eyes, path, now);
        let mut next = self.pick(screen, now)?;
        let is_pixels = next.picked.stream.is_none() && next.right_eye.is_none();
        if next.picked.lane == Lane::Normal && is_pixels {
            next.picked.region = self.whole_tiles(next.picked.region);
        }
        self.commit(next, screen, now)
    }

    /// Commits this; None if there is nothing to send.
    fn commit(
        &mut self,
        next: NextCommit,
        screen: &SessionContext<'_>,
        now: Micros,
    ) -> Option<Job> {
        let NextCommit { picked: Picked { region, lane, bytes, since, kinds, .. }, .. } = &next;
        let (lane, bytes, since, kinds) = (*lane, *bytes, *since, *kinds);
        let stream = next.right_eye.map(|next| next.stream).or(next.picked.stream);
        if lane == Lane::RealTime {
            self.delivery.flow.spend_real_time(bytes);
            if let Some(taken) = self.delivery.ledger.withdraw_overlapping(region) {
                self.withdrawn(&taken, now);
            }
        }
        let id = self.delivery.ledger.next_job();
        let (TakenCopies { copies, derived }, echo) =
            self.pending.queue.commit(id.0, region, &next.verify);
        // Before the frame is committed: a new source requires a keyframe.
        let mut video_commands = Commands::default();
        let streams = self.pending.videos.write_commands(stream, &mut video_commands);
        let video = stream.and_then(|stream| self.commit_frame(stream, id, &next, now));
        let coding = video.map(|frame| frame.coding);
        let right_eye = match (next.right_eye, coding) {
            (Some(next), Some(coding)) => self.pending.videos.commit_right_eye(next.stream, coding),
            _ => None,
        };
        if video.is_none() && !next.is_refresh {
            self.pending.videos.planned(region);
        }
        let is_nothing = region.is_empty() && right_eye.is_none();
        if is_nothing && copies.is_empty() && video_commands.is_empty() {
            // Every COPY is covered by pending pixels: there is nothing to send.
            if let Some(echo) = echo {
                self.pending.await_echo(echo);
            }
            return None;
        }
        self.pending.barriers.committed(id, region);
        let frames = match (coding, lane, next.is_refresh) {
            (None, Lane::Normal, false) => self.pending.videos.known_frames(region, now),
            _ => Vec::new(),
        };
        let pictures = self.pending.videos.pictures_of(&frames);
        let is_lossy = coding.is_some() && right_eye.is_none() || pictures.is_some();
        let quality = self.decide_quality(id, &next, is_lossy, now);
        let is_coded = matches!(coding, Some(Coding::H264 { .. }));
        if quality.lossy.is_none() && pictures.is_none() && !is_coded {
            self.quality.choice.exact_committed(region);
        }
        let inline = self.decide_place(id, &next, coding);
        let end_of_frame = video.is_some() && right_eye.is_none()
            || self.pending.frames.ends(region, self.pending.queue.pending_pixels(), now);
        self.pending.frames.committed(end_of_frame, quality.lossy.is_some());
        let area = self.counts.committed(&next, copies.len() as u64, derived);
        let commit = Commit {
            region: region.clone(),
            copies: copies.clone(),
            video_commands,
            streams,
            video: video.is_some(),
            frames: match next.right_eye.filter(|_| right_eye.is_some()) {
                None => FramesOf::Framebuffer,
                Some(PickedRightEye { is_exact: false, .. }) => FramesOf::RightEye,
                Some(PickedRightEye { is_exact: true, .. }) => FramesOf::RestingRightEye,
            },
            area: if video.is_some() { 0 } else { area },
            lane,
            inline,
            echo,
            end_of_frame,
            since,
            bytes_estimate: bytes,
            packed: self.pending.estimate.packed(kinds.most_expensive()),
            kind: kinds.most_expensive(),
        };
        let committed = self.delivery.ledger.commit(commit, now);
        assert_eq!(committed, id, "a commit takes the number that was predicted");
        self.take_frame();
        let retained = self.take_retained(region, &copies, screen).filter(|_| video.is_none());
        let NextCommit { picked: Picked { region, .. }, verify, .. } = next;
        let parts = self.parts(&region, screen);
        Some(Job {
            viewer: self.id,
            id,
            epoch: self.pending.epoch(),
            view: self.pending.transform().copied(),
            forget: self.pending.forget.take(),
            copies,
            region,
            verify,
            retained,
            parts,
            video,
            right_eye,
            frames,
            translated: self.pending.queue.passed_op(),
            bytes_estimate: bytes,
            hints: JobHints {
                inline,
                video: kinds == Kinds::VIDEO,
                path_bytes_per_second: self.delivery.flow.rate(),
                piece_area: self
                    .pending
                    .estimate
                    .piece_area(kinds, self.delivery.flow.update_bytes()),
                quality,
                frames: pictures,
            },
        })
    }
}
