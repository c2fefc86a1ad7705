//! The session: records from a driver that may be broken, and messages from untrusted viewers.
//! Beside the path. Whatever the input, session-core keeps its invariants and limits, and its jobs
//! lie on the screen. Knows the public interfaces only.

use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::command::Encoding;
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::{SESSION_MESSAGE_BYTES_MAX, VIEWER_MESSAGE_BYTES_MAX};
use thinc_protocol::session::SessionMessage;
use thinc_protocol::video::{FrameData, SampleLayout, VideoCommand};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind, VideoLayout};
use thinc_session_core::{
    Capture, ClipRequest, ClipboardPolicy, Coding, Config, CopyCommand, Job, JobResult,
    LossyPolicy, Plan, PlannedJob, Render, Scheduling, Session, Unavailable, Unpacked, VideoFrame,
    VideoPolicy, VideoStats, ViewerId,
};

use crate::parsers::{SCREEN, each_frame};

const RECORD_BYTES: usize = 64;
/// 64 KiB: longest clipboard content, so that the limit is reached.
const CLIP_BYTES_MAX: usize = 64 * 1024;
/// First byte 8 that is no kind of `DrawRecord`: such bytes choose an action of the shell.
const SHELL_KINDS: u8 = 12;

/// A session with one viewer, and the shell around it.
struct Shell {
    session: Session,
    viewer: ViewerId,
    now: u64,
    newest_op: u64,
    jobs: Vec<Job>,
    deframer: Deframer,
    newest_update: u64,
    tickets: u32,
}

/// Pixels that were read at `tag`, or, if that is None, that cannot be read.
struct Pixels {
    tag: Option<u64>,
    reads: u32,
}

impl Render for Pixels {
    fn reset(&mut self, _size: Size) {}
    fn forget(&mut self, _region: &Region) {}
    fn copy(&mut self, _copy: &CopyCommand) {}
    fn read(&mut self, _job: &Job) -> Result<Capture, Unavailable> {
        self.reads += 1;
        let tag = self.tag.ok_or(Unavailable)?;
        Ok(Capture { begin_before: None, tag })
    }
    fn plan(&mut self, _job: &Job) -> Plan<'_> {
        Plan::default()
    }
}

impl Shell {
    fn new() -> Shell {
        let scheduling = Scheduling::ShortestFirst;
        let mut session = Session::new(Config {
            name: "fuzz".to_owned(),
            size: SCREEN,
            scheduling,
            offscreen: true,
            lossy: LossyPolicy::Always,
            video: VideoPolicy::H264,
            max_rate: None,
        });
        session.set_clipboard(ClipboardPolicy {
            bytes_max: CLIP_BYTES_MAX as u64,
            ..ClipboardPolicy::default()
        });
        session.handle_attach(SCREEN);
        let hello = ViewerHello {
            version: thinc_protocol::VERSION,
            caps: ViewerCaps::LOCAL_CURSOR
                | ViewerCaps::PACKED
                | ViewerCaps::LOSSY
                | ViewerCaps::CLIPBOARD
                | ViewerCaps::VIDEO
                | ViewerCaps::H264,
            size: Size::default(),
            message_bytes_max: SESSION_MESSAGE_BYTES_MAX as u32,
            name: "fuzz".to_owned(),
        };
        let viewer = session.add_viewer(&hello, 1);
        Shell {
            session,
            viewer,
            now: 1,
            newest_op: 0,
            jobs: Vec::new(),
            deframer: Deframer::new(SESSION_MESSAGE_BYTES_MAX),
            newest_update: 0,
            tickets: 0,
        }
    }

    fn record(&mut self, record: &DrawRecord) {
        self.newest_op = self.newest_op.max(record.op);
        self.session.handle_record(record, self.now);
        match record.kind {
            RecordKind::Overflow => {
                self.session.handle_overflow(&Region::from(Rect::new(0, 0, 128, 64)))
            }
            RecordKind::Geometry { generation } => {
                let edge = 64 + generation % 2000;
                self.session.handle_geometry(Size { width: edge, height: 2064 - edge });
                self.jobs.clear();
            }
            _ => {}
        }
    }

    /// The input also chooses the shell's actions; otherwise only the usual order would be tested.
    fn act(&mut self, bytes: &[u8; RECORD_BYTES]) {
        let many = usize::from(bytes[9]);
        match bytes[8] % 8 {
            0 => self.now += many as u64 * 200,
            1 => self.commit(),
            2 => self.finish_jobs(many),
            3 => {
                if !self.jobs.is_empty() {
                    let job = self.jobs.remove(0);
                    self.cancel(job, many);
                }
            }
            4 => self.transmit(),
            5 => self.acknowledge(),
            6 => self.session.handle_attach(self.session.size()),
            _ => {
                let size = self.session.size().rect();
                let corner = |at: usize| i32::from(bytes[at]) * 8;
                let rect = Rect { x1: corner(16), y1: corner(17), x2: corner(18), y2: corner(19) }
                    .intersect(&size);
                let lost = if rect.is_empty() { Region::new() } else { Region::from(rect) };
                self.session.handle_stale(
                    self.viewer,
                    &lost,
                    u64::from(bytes[20]).min(self.newest_update),
                );
            }
        }
    }

    fn commit(&mut self) {
        while let Some(job) = self.session.poll_job(self.viewer, self.now) {
            // A viewer with a view has coordinates of its own.
            let screen = job.view.map_or(self.session.size(), |view| view.size()).rect();
            let on_screen =
                |region: &Region| region.is_empty() || screen.contains(&region.extents());
            assert!(on_screen(&job.region), "a job reads outside the screen");
            assert!(
                job.verify.difference(&job.region).is_empty(),
                "a job verifies pixels that it does not read"
            );
            assert!(job.parts.len() <= thinc_session_core::PARTS_MAX, "a job has too many parts");
            for copy in &job.copies {
                assert!(
                    on_screen(&copy.region) && on_screen(&copy.source()),
                    "a COPY leaves the screen"
                );
            }
            self.jobs.push(job);
        }
    }

    fn finish_jobs(&mut self, many: usize) {
        for _ in 0..many.min(self.jobs.len()) {
            let job = self.jobs.remove(0);
            let mut pixels = Pixels { tag: Some(self.newest_op), reads: 0 };
            if let Some(planned) = self.session.render(job, &mut pixels) {
                assert_eq!(pixels.reads, 1, "a second read is requested though it was not offered");
                self.finish(planned);
            }
        }
    }

    /// The job's pixels are unavailable, or cannot be encoded.
    fn cancel(&mut self, job: Job, which: usize) {
        let tag = [None, Some(self.newest_op)][which % 2];
        let planned = self.session.render(job, &mut Pixels { tag, reads: 0 });
        assert!(planned.is_none() || tag.is_some(), "pixels that nobody could read are planned");
        if let Some(planned) = planned {
            let failed = planned.job().video.is_some() && which % 4 == 1;
            let result = if failed { JobResult::VideoFailed } else { JobResult::Cancelled };
            self.session.complete(planned, result);
        }
    }

    /// Delivers the commands in several parts. Nobody decodes them, but lossy ones are refreshed
    /// later.
    fn finish(&mut self, planned: PlannedJob) {
        let job = planned.job();
        if let Some(VideoFrame { stream: id, time, coding, .. }) = job.video {
            let data = &[0x55; 9];
            let picture = match coding {
                Coding::Plain => FrameData::Plain { layout: SampleLayout::Yuv420, data },
                Coding::H264 { keyframe, .. } => FrameData::h264(keyframe, data),
            };
            let mut commands = Commands::default();
            let next = VideoCommand::Next { id, time, clip: job.region.clone(), frame: picture };
            commands.writer().video(&next);
            self.session.complete(planned, JobResult::encoded(&commands));
            return;
        }
        let encoding =
            if job.hints.quality.lossy.is_some() { Encoding::Jpeg } else { Encoding::Predicted };
        let mut parts = job.region.rects().chunks(3).map(|rects| {
            let mut commands = Commands::default();
            let mut writer = commands.writer();
            rects.iter().for_each(|rect| writer.raw(*rect, encoding, &[0x55; 9]));
            commands
        });
        let last = parts.next_back().unwrap_or_default();
        if parts.all(|commands| self.session.handle_part(&planned, &commands)) {
            self.session.complete(planned, JobResult::encoded(&last));
        }
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        self.session.poll_transmit(self.viewer, self.now, &mut Unpacked, &mut out);
        self.deframer.push(&out);
        while let Some(frame) = self.deframer.next().expect("a session's frames are well-formed") {
            if let SessionMessage::Update(update) =
                SessionMessage::decode(&frame).expect("a session's messages decode")
            {
                self.newest_update = self.newest_update.max(update.seq);
            }
        }
        assert_eq!(self.deframer.buffered_len(), 0, "a session's last message is incomplete");
    }

    /// Applications paste everything that a viewer offers, in every format, and provide 40 KiB when
    /// it pastes.
    fn serve_clipboard(&mut self) {
        while let Some(request) = self.session.poll_clip(self.now) {
            match request {
                ClipRequest::Own { selection, formats } => {
                    for format in formats.iter() {
                        self.tickets += 1;
                        self.session.handle_clip_wanted(self.tickets, selection, format, self.now);
                    }
                }
                ClipRequest::Fetch { id, format, .. } => {
                    let content = if format == ClipFormat::Text {
                        Ok(vec![b'x'; 40_000])
                    } else {
                        Err(ClipEnd::Unavailable)
                    };
                    self.session.handle_clip_content(id, content, self.now);
                }
                ClipRequest::CancelFetch { .. } => {}
                ClipRequest::Provide { content, .. } => {
                    let bytes = content.map_or(0, |content| content.len());
                    assert!(bytes <= CLIP_BYTES_MAX, "an application pastes more than the limit");
                }
            }
        }
    }

    /// Ports show a frame and a stereo frame, and an area changes, so that video streams exist.
    fn play(&mut self) {
        self.newest_op += 1;
        let (place, size) = (Rect::at(20, 20, 160, 120), Size { width: 160, height: 120 });
        let hint = DrawHint::Video {
            port: 1,
            layout: VideoLayout::Yuv420,
            size,
            crop: size.rect(),
            place,
        };
        self.draw_frame(place, hint);
        self.newest_op += 1;
        let place = place.translate(170, 10);
        self.draw_frame(place, DrawHint::Stereo { port: 2, size, crop: size.rect(), place });
        let kind = RecordKind::Idle;
        self.record(&DrawRecord { op: self.newest_op, more: false, window: 0, kind });
        self.session.handle_video_areas(self.viewer, &[Rect::at(0, 200, 400, 300)], self.now);
    }

    fn draw_frame(&mut self, place: Rect, hint: DrawHint) {
        let rect = place.intersect(&self.session.size().rect());
        if !rect.is_empty() {
            let (dst, alpha) = (DrawableId::SCREEN, Alpha::Opaque);
            let kind = RecordKind::Draw { dst, rect, hint, alpha };
            self.record(&DrawRecord { op: self.newest_op, more: false, window: 1, kind });
        }
    }

    /// As `acknowledge`, but the viewer may have been removed.
    fn acknowledge_sent(&mut self) {
        if self.session.viewers().next().is_some() {
            self.acknowledge();
        }
    }

    fn acknowledge(&mut self) {
        let ack = ViewerMessage::Ack(Ack { update: self.newest_update, presented: None });
        self.session
            .handle_message(self.viewer, &ack, self.now)
            .expect("a sent update may be acknowledged");
    }
}

/// Records, and actions of the shell between them: whatever the driver sends, the session keeps its
/// invariants.
pub fn records(input: &[u8]) {
    let mut shell = Shell::new();
    for bytes in input.chunks_exact(RECORD_BYTES) {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().expect("chunks have this length");
        match DrawRecord::parse(bytes) {
            Ok(record) => shell.record(&record),
            Err(_) if bytes[8] >= SHELL_KINDS => shell.act(bytes),
            Err(_) => continue,
        }
        shell.session.check_invariants();
    }
    // All queues drain: everything pending can be sent.
    for _ in 0..64 {
        shell.now += 300_000;
        shell.commit();
        shell.finish_jobs(usize::MAX);
        shell.transmit();
        shell.acknowledge();
        while shell.session.poll_request(shell.now).is_some() {}
    }
    shell.session.check_invariants();
}

/// Builds a record, with the offsets of `DrawRecord::parse`.
fn seed_record(
    op: u64,
    head: [u8; 4],
    (dst, src): (u32, u32),
    rect: [i32; 4],
    vector: [i32; 2],
    arg: [u32; 2],
) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&op.to_ne_bytes());
    bytes[8..12].copy_from_slice(&head);
    bytes[16..20].copy_from_slice(&dst.to_ne_bytes());
    bytes[20..24].copy_from_slice(&src.to_ne_bytes());
    for (i, value) in rect.into_iter().chain(vector).enumerate() {
        bytes[24 + 4 * i..28 + 4 * i].copy_from_slice(&value.to_ne_bytes());
    }
    for (i, value) in arg.into_iter().enumerate() {
        bytes[48 + 4 * i..52 + 4 * i].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

/// A back buffer that scrolls and is shown, a window moved on the screen, very many pixmaps, an
/// overflow.
pub fn records_seeds() -> Vec<Vec<u8>> {
    let (draw, copy, create_kind, destroy) = (1, 2, 3, 4);
    let page = [0, 0, 300, 200];
    let act =
        |hint: u8, many: u8| seed_record(0, [16 + hint, many, 0, 0], (0, 0), page, [0, 0], [0, 0]);
    let shell = || [act(0, 255), act(1, 0), act(2, 9), act(4, 0), act(5, 0)].concat();
    let scroll = |op: u64| {
        let up = seed_record(op, [copy, 0, 0, 0], (5, 5), [0, 0, 300, 190], [0, -10], [0, 0]);
        let line = seed_record(
            op + 1,
            [draw, 4, 1, 0],
            (5, 0),
            [0, 190, 300, 200],
            [0, 0],
            [0xff_ffff, 0],
        );
        let text = seed_record(op + 2, [draw, 8, 3, 0], (5, 0), [4, 191, 200, 199], [0, 0], [0, 0]);
        let show =
            seed_record(op + 3, [copy, 2, 0, 0], (0, 5), [40, 30, 340, 230], [40, 30], [0, 0]);
        [up, line, text, show, shell()].concat()
    };
    let create = |op: u64, id: u32| {
        seed_record(op, [create_kind, 4, 0, 0], (id, 0), page, [0, 0], [300, 200])
    };
    let buffer = [
        create(0, 5),
        seed_record(1, [draw, 4, 1, 0], (5, 0), page, [0, 0], [7, 0]),
        scroll(2),
        scroll(6),
    ];
    let moved = seed_record(1, [copy, 1, 0, 0], (0, 0), [50, 60, 350, 200], [10, -20], [0, 0]);
    let rest = seed_record(1, [copy, 0, 0, 0], (0, 0), [50, 200, 350, 260], [10, -20], [0, 0]);
    let pixmaps: Vec<u8> = (1..200)
        .flat_map(|id| {
            [
                create(0, id),
                seed_record(
                    u64::from(id),
                    [draw, 0, 4, 0],
                    (id, 0),
                    [1, 1, 299, 199],
                    [0, 0],
                    [0, 0],
                ),
            ]
            .concat()
        })
        .collect();
    let overflow = seed_record(3, [9, 0, 0, 0], (0, 0), page, [0, 0], [0, 0]);
    // Port 1, 4:2:0, a whole image of 160 by 120 in a place of the same size; the crop starts at
    // (0, 0).
    let size = 160 | 120 << 16;
    let mut video =
        seed_record(1, [draw, 4, 6, 0], (5, 0), [20, 20, 180, 140], [20, 20], [1, size]);
    video[56..60].copy_from_slice(&size.to_ne_bytes());
    video[60..64].copy_from_slice(&size.to_ne_bytes());
    let show = seed_record(2, [copy, 0, 0, 0], (0, 5), [40, 30, 340, 230], [40, 30], [0, 0]);
    vec![
        buffer.concat(),
        [moved, rest, shell()].concat(),
        [pixmaps, shell()].concat(),
        [buffer.concat(), overflow, scroll(20), shell()].concat(),
        [
            create(0, 5),
            video,
            show,
            seed_record(3, [destroy, 0, 0, 0], (5, 0), page, [0, 0], [0, 0]),
            shell(),
        ]
        .concat(),
    ]
}

/// Messages of a viewer after a valid hello, to a session that answers: a violation removes the
/// viewer and has no other effect.
pub fn viewer_to_session(input: &[u8]) {
    converse(input);
}

/// Returns the video statistics, if the viewer is still connected.
fn converse(input: &[u8]) -> Option<VideoStats> {
    let mut shell = Shell::new();
    shell.session.handle_clip_owned(Selection::Clipboard, ClipFormats::NONE.with(ClipFormat::Text));
    shell.transmit();
    each_frame(input, VIEWER_MESSAGE_BYTES_MAX, |frame| {
        let Ok(message) = ViewerMessage::decode(frame) else { return };
        shell.now += 20_000;
        if matches!(message, ViewerMessage::Video(_)) {
            shell.play();
        }
        if shell.session.handle_message(shell.viewer, &message, shell.now).is_err() {
            shell.session.remove_viewer(shell.viewer);
            let viewer = shell.session.viewers().next();
            assert_eq!(viewer, None, "a removed viewer is still listed");
        }
        while shell.session.poll_request(shell.now).is_some() {}
        shell.serve_clipboard();
        shell.commit();
        shell.finish_jobs(usize::MAX);
        shell.transmit();
        shell.acknowledge_sent();
        shell.session.check_invariants();
    });
    shell.session.stats(shell.viewer).map(|stats| stats.video)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_video_conversation_starts_streams() {
        let stats = converse(&crate::parsers::video_conversation())
            .expect("the conversation has no violation");
        assert!(
            stats.begun >= 2 && stats.ended > 0 && stats.coded > 8 && stats.keyframes > 1,
            "{stats:?}"
        );
    }

    /// A seed that is refused at once is a useless start for mutations.
    #[test]
    fn the_seeds_are_well_formed() {
        for (index, seed) in records_seeds().iter().enumerate() {
            for (at, bytes) in seed.chunks_exact(RECORD_BYTES).enumerate() {
                let bytes: &[u8; RECORD_BYTES] = bytes.try_into().unwrap();
                let parsed = DrawRecord::parse(bytes);
                assert!(
                    parsed.is_ok() || bytes[8] >= SHELL_KINDS,
                    "seed {index}, record {at}: {parsed:?}"
                );
            }
        }
    }
}
