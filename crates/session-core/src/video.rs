//! Path 5/13 to 7/13: beside command_queue.rs, whose items it tags, and viewer.rs, which asks what may go.
//! Which videos one viewer is shown as streams of pictures (THINC §2.5), and how each of their frames is to be coded.
//! Knows rectangles, sizes, times and rates; never samples, pixels or how anything is encoded.

mod areas;
mod pace;
mod scaled;
mod stream;

use thinc_protocol::Micros;
use thinc_protocol::command::{Command, CommandReader};
use thinc_protocol::limits::VIDEO_STREAMS_MAX;
use thinc_protocol::video::{Codec, Picture, Readiness, Source, VideoCommand, VideoState};
use thinc_protocol::viewer::ViewerCaps;
use thinc_region::{Rect, Region, Size};

use crate::command_queue::CommandQueue;
use crate::effects::Arrival;
use crate::mutation::{Broken, Mutation};
use crate::quality::{Rate, VideoPolicy};
use crate::update::{Before, JobId};

use areas::{CANDIDATES_MAX, Candidate, REDRAWN_MAX, Redrawn};
use pace::Pace;
pub(crate) use stream::{CODED_MAX, PortFrame};
use stream::{Committed, Number, OP_UNKNOWN, Refusal, State, Stream, is_codable};

/// A frame of a stream, which the shell makes the NEXT of, with as much of the job's region for its clip as it shows as video. It may
/// add other commands for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoFrame {
    /// Which stream, on the wire.
    pub stream: u16,
    /// Where its pictures come from.
    pub origin: VideoOrigin,
    /// What the viewer takes pictures to be: one of another size cannot be this frame.
    pub source: Source,
    /// Where all of the picture's crop would be seen.
    pub place: Rect,
    /// When it was drawn.
    pub time: Micros,
    /// How it is to be coded.
    pub coding: Coding,
}

/// Where a stream's pictures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoOrigin {
    /// The newest frame of this port of XVideo.
    Port(u16),
    /// The screen's own pixels in the frame's place.
    Area,
}

/// How a picture is to be coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Its samples as they are: exact. Never of an area, whose samples are made of pixels.
    Plain,
    /// H.264.
    H264 {
        /// Bits that a second of the stream may take.
        bits_per_second: u64,
        /// Pictures that a second of it has, about.
        frames_per_second: u32,
        /// It leans on none before it.
        key: bool,
    },
}

/// Streams of a viewer at a time.
const STREAMS_MAX: usize = VIDEO_STREAMS_MAX as usize;
/// Most rectangles of a frame's clip; what is seen through more is pixels.
pub(crate) const CLIP_RECTS_MAX: usize = 64;
/// Least time between two pictures that lean on none before them: a viewer may say that it is lost as often as it likes.
const KEY_PAUSE: Micros = 200_000;
/// Plain pictures are sent where the path carries so many times what they take, and until it carries no more than the second.
const PLAIN_FROM: f64 = 2.0;
const PLAIN_UNTIL: f64 = 1.6;
/// Where there is nothing but plain pictures, they are sent as long as the path carries this, and pixels below it.
const PLAIN_ALONE: f64 = 1.2;
/// Share of its interval that a frame may be late for the path before less is coded, and how many times its usual bytes a picture has
/// that is why.
const LATE: f64 = 0.75;
const LARGE: f64 = 2.0;
/// Longest that the one plain picture which makes a port exact may keep the path: nothing overtakes it.
const MEND_TIME: Micros = 100_000;

/// What is said of videos, since the viewer came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoStats {
    /// Streams that began, and those that the session ended.
    pub begun: u64,
    /// Ended before the geometry did.
    pub ended: u64,
    /// Pictures that left for the encoders as samples.
    pub plain: u64,
    /// And those to be coded.
    pub coded: u64,
    /// Those of them that lean on none.
    pub keys: u64,
    /// Frames that were drawn, and the next before they could go.
    pub dropped: u64,
    /// Bits a second that all streams may take now.
    pub bits_per_second: u64,
}

/// What a frame that waits is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is pixels like any other.
    Pixels,
    /// It may go, in about so many bytes.
    Frame(u64),
    /// It may, if that many would not stand in queues for long.
    Ahead(u64),
    /// Not yet: one before it is on its way.
    NotNow,
}

/// What a viewer's path carries, in bytes a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carries {
    /// At best, lately.
    pub(crate) rate: u64,
    /// With the transport's window as it is now.
    pub(crate) window: u64,
}

/// One viewer's videos.
#[derive(Debug)]
pub(crate) struct Videos {
    policy: VideoPolicy,
    /// The viewer takes streams, and coded ones.
    takes: bool,
    takes_coded: bool,
    /// Most bytes of a picture.
    picture_bytes_max: u64,
    streams: Vec<Stream>,
    numbers: [Number; STREAMS_MAX],
    /// Their ENDs are still to be said.
    ending: Vec<u16>,
    candidates: Vec<Candidate>,
    redrawn: Vec<Redrawn>,
    port_refusals: [Refusal; STREAMS_MAX],
    area_refusal: Refusal,
    pace: Pace,
    stats: VideoStats,
    broken: Broken,
}

impl Videos {
    pub(crate) fn new(caps: u32, policy: VideoPolicy, picture_bytes_max: u64, broken: Broken) -> Videos {
        let takes = caps & ViewerCaps::VIDEO != 0 && policy != VideoPolicy::Off;
        Videos {
            policy,
            takes,
            takes_coded: takes && caps & ViewerCaps::H264 != 0 && policy != VideoPolicy::Plain,
            picture_bytes_max,
            streams: Vec::new(),
            numbers: [Number::Free; STREAMS_MAX],
            ending: Vec::new(),
            candidates: Vec::new(),
            redrawn: Vec::new(),
            port_refusals: [Refusal::default(); STREAMS_MAX],
            area_refusal: Refusal::default(),
            pace: Pace::default(),
            stats: VideoStats::default(),
            broken,
        }
    }

    /// What is lost or late cannot be leant on.
    pub(crate) fn set_arrival(&mut self, arrival: Arrival) {
        if arrival == Arrival::Unordered {
            self.takes = false;
            self.takes_coded = false;
        }
    }

    pub(crate) fn stats(&self) -> VideoStats {
        VideoStats { bits_per_second: self.pace.bits(), ..self.stats }
    }

    /// Rule 9. Another geometry ends all streams, once the viewer has heard of it; `newest_seq` has left before.
    pub(crate) fn reset(&mut self, newest_seq: u64) {
        if self.broken.is(Mutation::GeometryKeepsStreams) {
            return;
        }
        for stream in self.streams.drain(..) {
            let heard = stream.state != State::New;
            self.numbers[usize::from(stream.id)] = if heard { Number::FreeAfter(newest_seq + 1) } else { Number::Free };
        }
        for id in self.ending.drain(..) {
            self.numbers[usize::from(id)] = Number::FreeAfter(newest_seq + 1);
        }
        for number in &mut self.numbers {
            if *number == Number::Ending {
                *number = Number::FreeAfter(newest_seq + 1);
            }
        }
        self.candidates.clear();
        self.redrawn.clear();
    }

    fn position(&self, id: u16) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// Begins a stream; None where no number is free.
    fn begin(&mut self, origin: VideoOrigin, source: Source, place: Rect, now: Micros) -> Option<&mut Stream> {
        let id = self.numbers.iter().position(|&number| number == Number::Free)?;
        self.numbers[id] = Number::Taken;
        self.streams.push(Stream::new(id as u16, origin, source, place, now));
        self.streams.last_mut()
    }

    /// Ends the stream at `at`; what waits of it is pixels from now on.
    fn end(&mut self, at: usize, queue: &mut CommandQueue) {
        let stream = self.streams.swap_remove(at);
        queue.end_stream(stream.id);
        // What may be another frame's is read as pixels: no later frame will tell.
        queue.stale_video(&stream.late, stream.drawn_at);
        if stream.state == State::New {
            self.numbers[usize::from(stream.id)] = Number::Free;
            return;
        }
        self.stats.ended += 1;
        self.numbers[usize::from(stream.id)] = Number::Ending;
        self.ending.push(stream.id);
    }

    /// This frame was drawn, and is seen in `region`. The stream that shows it, where one does already.
    pub(crate) fn frame(
        &mut self,
        frame: &PortFrame,
        region: &Region,
        queue: &mut CommandQueue,
        now: Micros,
    ) -> Option<u16> {
        if !self.takes || usize::from(frame.port) >= STREAMS_MAX {
            return None;
        }
        let origin = VideoOrigin::Port(frame.port);
        let at = self.streams.iter().position(|stream| stream.origin == origin);
        let inside = frame.place.contains(&region.extents());
        let coded = self.takes_coded && is_codable(frame.source.size);
        // One that is made smaller has no plain samples.
        let fits = coded || (1..=self.picture_bytes_max).contains(&frame.bytes);
        if !frame.is_sayable() || !fits || !inside || region.rect_count() > CLIP_RECTS_MAX {
            // Shown as pixels; the stream is there for the next one.
            if let Some(stream) = at.map(|at| &mut self.streams[at]) {
                stream.shown.clear();
                stream.op = frame.op;
                queue.end_stream(stream.id);
            }
            return None;
        }
        let at = match at {
            Some(at) => at,
            None if region.is_empty() || now < self.port_refusals[usize::from(frame.port)].until => return None,
            None => {
                self.begin(origin, frame.source, frame.place, now)?;
                self.streams.len() - 1
            }
        };
        let broken = self.broken;
        let stream = &mut self.streams[at];
        stream.drawn(now);
        if queue.waits(stream.id) {
            self.stats.dropped += 1;
            if stream.held_since.is_some() {
                self.pace.held(now);
            }
        }
        // As SRCSIZE has it, for a part of a picture too.
        stream.key_wanted |= stream.source != frame.source;
        (stream.source, stream.place) = (frame.source, frame.place);
        stream.plain_bytes = frame.bytes;
        stream.op = frame.op;
        stream.shown.clone_from(region);
        let ready = stream.state == State::Ready || broken.is(Mutation::PicturesDoNotWait);
        ready.then_some(stream.id)
    }

    /// What may show this frame although it is not seen there: it was there already when the one before was read.
    pub(crate) fn shown_early(&self, frame: &PortFrame, region: &Region) -> Region {
        let origin = VideoOrigin::Port(frame.port);
        let stream = self.streams.iter().find(|stream| stream.origin == origin && frame.op <= stream.late_tag);
        let stream = stream.filter(|_| !self.broken.is(Mutation::LateFramesAreBelieved));
        stream.map_or_else(Region::new, |stream| stream.late.difference(region))
    }

    /// Some of what is shown may be a frame that is not known of yet.
    pub(crate) fn is_early(&self) -> bool {
        self.streams.iter().any(|stream| !stream.late.is_empty())
    }

    /// Rule 9. Records are missing, and frames may be among them: what waits is of which frame nobody knows, and so is what was read of one
    /// that is not known of, which comes back.
    pub(crate) fn overflowed(&mut self, queue: &mut CommandQueue) -> Region {
        let mut early = Region::new();
        for stream in self.streams.iter_mut().filter(|stream| !stream.is_area()) {
            early.add(&stream.late.take());
            stream.shown.clear();
            stream.op = OP_UNKNOWN;
            queue.end_stream(stream.id);
        }
        early
    }

    /// Ops up to this one are known: what was read with no later one in it is of its clip.
    pub(crate) fn passed(&mut self, op: u64) {
        for stream in &mut self.streams {
            if stream.late_tag <= op {
                stream.late.clear();
            }
        }
    }

    /// Nothing is shown at this port any more.
    pub(crate) fn stopped(&mut self, port: u16, queue: &mut CommandQueue) {
        if let Some(at) = self.streams.iter().position(|stream| stream.origin == VideoOrigin::Port(port)) {
            self.end(at, queue);
        }
    }

    /// Something else was drawn there.
    #[inline]
    pub(crate) fn drawn(&mut self, region: &Region) {
        if self.broken.is(Mutation::MendedIsWhatWasCovered) {
            return;
        }
        for stream in &mut self.streams {
            if !stream.shown.is_empty() {
                stream.shown.subtract(region);
            }
        }
    }

    /// A stream's own frame was, over all others.
    pub(crate) fn drawn_over(&mut self, region: &Region, by: u16) {
        for stream in self.streams.iter_mut().filter(|stream| stream.id != by && !stream.shown.is_empty()) {
            stream.shown.subtract(region);
        }
    }

    /// What time alone brings: areas that have come to rest end.
    pub(crate) fn look(&mut self, rate: Rate, queue: &mut CommandQueue, now: Micros) {
        if self.streams.is_empty() {
            return;
        }
        while let Some(at) = self.streams.iter().position(|stream| stream.is_area() && now >= stream.rests_at()) {
            self.end(at, queue);
        }
        let wanted = |stream: &Stream| if now < stream.rests_at() { stream.bits_wanted() } else { 0.0 };
        let wanted = self.streams.iter().map(wanted).sum();
        self.pace.look(rate, wanted, now);
    }

    /// What the viewer says of a stream. One that is not there, or no more, is no error.
    pub(crate) fn said(&mut self, state: VideoState, queue: &mut CommandQueue, now: Micros) {
        let Some(at) = self.position(state.id) else { return };
        let stream = &mut self.streams[at];
        match state.readiness {
            // Nothing was offered yet.
            _ if stream.state == State::New => {}
            Readiness::Ready => stream.state = State::Ready,
            Readiness::Refused => self.failed(at, queue, now),
            Readiness::Lost => {
                if !self.broken.is(Mutation::LostIsNotHeard) {
                    stream.key_wanted = true;
                }
            }
        }
    }

    fn failed(&mut self, at: usize, queue: &mut CommandQueue, now: Micros) {
        let stream = &self.streams[at];
        let refusal = match stream.origin {
            VideoOrigin::Port(port) => &mut self.port_refusals[usize::from(port)],
            VideoOrigin::Area => &mut self.area_refusal,
        };
        refusal.again(stream, now);
        self.end(at, queue);
    }

    /// The shell cannot go on with a stream; its newest job, and what that was to show, may lack a picture.
    pub(crate) fn stream_failed(&mut self, id: u16, queue: &mut CommandQueue, now: Micros) -> Option<(JobId, Region)> {
        let at = self.position(id)?;
        let newest = self.streams[at].committed.take().map(|frame| (frame.job, frame.region));
        self.failed(at, queue, now);
        newest
    }

    /// The stream lives.
    pub(crate) fn has(&self, id: u16) -> bool {
        self.position(id).is_some()
    }

    /// INITs and ENDs wait to be said.
    pub(crate) fn has_news(&self) -> bool {
        !self.ending.is_empty() || self.streams.iter().any(|stream| stream.state == State::New)
    }

    /// Appends what is to be said before a job's commands, which may have a frame of stream `frame`; gives the streams it is about, a
    /// bit each.
    pub(crate) fn say(&mut self, frame: Option<u16>, out: &mut Vec<u8>) -> u16 {
        let mut about = 0;
        let mut put = |command: VideoCommand<'_>| {
            about |= 1 << command.id();
            Command::Video(command).encode(out);
        };
        for id in self.ending.drain(..) {
            put(VideoCommand::End { id });
        }
        for stream in &mut self.streams {
            let id = stream.id;
            if stream.state == State::New {
                stream.codable = self.takes_coded && is_codable(stream.source.size);
                let codec = if stream.codable { Codec::H264 } else { Codec::None };
                put(VideoCommand::Init { id, codec, source: stream.source, place: stream.place });
                stream.state = State::Offered;
                stream.told = (stream.source, stream.place);
                self.stats.begun += 1;
            } else if frame == Some(id) {
                let (source, place) = std::mem::replace(&mut stream.told, (stream.source, stream.place));
                if source != stream.source {
                    put(VideoCommand::SourceSize { id, source: stream.source });
                    stream.key_wanted = true;
                }
                let Rect { x1: x, y1: y, .. } = stream.place;
                if (place.x1, place.y1) != (x, y) {
                    put(VideoCommand::Move { id, x, y });
                }
                let size = |rect: Rect| Size { width: rect.width() as u32, height: rect.height() as u32 };
                if size(place) != size(stream.place) {
                    put(VideoCommand::PlaceSize { id, size: size(stream.place) });
                }
            }
        }
        about | frame.map_or(0, |id| 1 << id)
    }

    /// Whether a frame of this stream may go. One that is coded may wait for the path behind another.
    pub(crate) fn turn(&self, id: u16, before: impl Fn(JobId) -> Before, carries: Carries, now: Micros) -> Turn {
        let Some(at) = self.position(id) else { return Turn::Pixels };
        let stream = &self.streams[at];
        let newest = stream.committed.as_ref().map_or(Before::Gone, |frame| before(frame.job));
        let waits = newest != Before::Gone;
        if newest == Before::Encoding || waits && stream.behind.is_some_and(|job| before(job) != Before::Gone) {
            return Turn::NotNow;
        }
        match self.coding(stream, carries) {
            None if waits => Turn::NotNow,
            None => Turn::Pixels,
            Some(Coding::Plain) if waits => Turn::NotNow,
            Some(Coding::Plain) => Turn::Frame(stream.plain_bytes),
            Some(Coding::H264 { .. }) if stream.key_wanted && now < stream.key_from => Turn::NotNow,
            Some(Coding::H264 { bits_per_second, .. }) => {
                Turn::Ahead((bits_per_second as f64 / 8.0 / stream.rate()) as u64)
            }
        }
    }

    /// How the next picture is coded; None where it had better be pixels.
    fn coding(&self, stream: &Stream, carries: Carries) -> Option<Coding> {
        let fits = stream.plain_bytes > 0 && stream.plain_bytes <= self.picture_bytes_max;
        let carried = carries.rate as f64 / stream.plain_rate().max(1.0);
        let enough = if stream.is_plain { PLAIN_UNTIL } else { PLAIN_FROM };
        let coded = self.takes_coded && stream.codable && is_codable(stream.source.size);
        let plain = match self.policy {
            VideoPolicy::H264 => !coded && fits && carried >= PLAIN_ALONE,
            VideoPolicy::Plain => fits,
            _ if !coded => fits && carried >= PLAIN_ALONE,
            _ => fits && carried >= enough,
        };
        if plain {
            return Some(Coding::Plain);
        }
        coded.then(|| Coding::H264 {
            bits_per_second: self.pace.share(stream.bits_wanted(), carries.window, stream.key_wanted),
            frames_per_second: (stream.rate().round() as u32).max(1),
            key: stream.key_wanted,
        })
    }

    /// A frame of the stream is committed as this job, and will stand in queues for so long; `exact` where it is to be plain whatever
    /// the path.
    pub(crate) fn commit(
        &mut self,
        id: u16,
        (job, region): (JobId, &Region),
        exact: bool,
        carries: Carries,
        stands: Micros,
        now: Micros,
    ) -> Option<VideoFrame> {
        let at = self.position(id)?;
        let coding = if exact { Coding::Plain } else { self.coding(&self.streams[at], carries)? };
        let stream = &mut self.streams[at];
        if !exact {
            stream.is_plain = coding == Coding::Plain;
        }
        let held = stream.held_since.take().map_or(0, |since| now.saturating_sub(since)) + stands;
        let late = held as f64 > stream.interval * LATE;
        match coding {
            Coding::Plain => self.stats.plain += 1,
            Coding::H264 { key, .. } => {
                self.stats.coded += 1;
                self.stats.keys += u64::from(key);
                if key {
                    stream.key_wanted = false;
                    stream.key_from = now + KEY_PAUSE;
                    self.pace.large(now);
                }
            }
        }
        self.pace.went();
        if late && !exact {
            self.pace.held(now);
        }
        stream.behind = stream.committed.as_ref().map(|frame| frame.job);
        stream.looked_at(now);
        stream.committed = Some(Committed { job, coding, region: region.clone(), op: stream.op, came: false });
        Some(VideoFrame {
            stream: id,
            origin: stream.origin,
            source: stream.source,
            place: stream.place,
            time: stream.drawn_at,
            coding,
        })
    }

    /// A frame could go but for the path, which is full, or for the one before it, which `waits` for the path.
    pub(crate) fn waits_for_path(&self, id: u16, waits: impl Fn(JobId) -> bool, full: bool) -> bool {
        let Some(at) = self.position(id) else { return false };
        match &self.streams[at].committed {
            Some(frame) if waits(frame.job) => true,
            _ => full,
        }
    }

    /// It does.
    pub(crate) fn held(&mut self, id: u16, now: Micros) {
        if let Some(at) = self.position(id) {
            self.streams[at].held_since.get_or_insert(now);
        }
    }

    fn of_job(&mut self, job: JobId) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.committed.as_ref().is_some_and(|frame| frame.job == job))
    }

    /// The samples of a job, seen in `region`, were read when an op up to `tag` may have been in them; `passed` are known of. Gives
    /// what shows a later frame than is seen there: one came since the job was committed.
    pub(crate) fn read(&mut self, job: JobId, region: &Region, tag: u64, passed: u64) -> Region {
        let broken = self.broken;
        let stream = self.of_job(job).filter(|stream| !stream.is_area());
        let Some(stream) = stream.filter(|_| !broken.is(Mutation::LateFramesAreBelieved)) else { return Region::new() };
        if tag > passed {
            stream.late.add(region);
            if stream.late.rect_count() > CLIP_RECTS_MAX {
                stream.late = stream.late.extents().into();
            }
            stream.late_tag = stream.late_tag.max(tag);
        }
        let newer = stream.committed.as_ref().is_some_and(|frame| frame.op != stream.op);
        if newer { region.difference(&stream.shown) } else { Region::new() }
    }

    /// Commands of this job came from the encoder.
    pub(crate) fn came(&mut self, job: JobId, commands: &[u8], screen: Size, now: Micros) {
        let Some(stream) = self.of_job(job) else { return };
        let interval = stream.interval;
        let Some(frame) = &mut stream.committed else { return };
        let Coding::H264 { bits_per_second, .. } = frame.coding else { return };
        let coded = |command: Result<Command<'_>, _>| match command {
            Ok(Command::Video(VideoCommand::Next { picture: Picture::Coded { data, .. }, .. })) => Some(data.len()),
            _ => None,
        };
        let Some(bytes) = CommandReader::new(commands, screen).find_map(coded) else { return };
        frame.came = true;
        if bytes as f64 * 8e6 > bits_per_second as f64 * interval * LARGE {
            self.pace.large(now);
        }
    }

    /// All of its commands have. A picture that was to lean on none and did not come is still wanted.
    pub(crate) fn encoded(&mut self, job: JobId) {
        if let Some(stream) = self.of_job(job)
            && let Some(Committed { coding: Coding::H264 { key: true, .. }, came: false, .. }) = stream.committed
        {
            stream.key_wanted = true;
        }
    }

    /// A picture of this job is longer than the viewer takes: the next would be as well.
    pub(crate) fn too_long(&mut self, job: JobId, queue: &mut CommandQueue, now: Micros) {
        if let Some(id) = self.of_job(job).map(|stream| stream.id)
            && let Some(at) = self.position(id)
        {
            self.failed(at, queue, now);
        }
    }

    /// When a frame that waits may go as a picture that leans on none.
    pub(crate) fn key_due(&self, queue: &CommandQueue, now: Micros) -> Option<Micros> {
        let waits = |stream: &&Stream| stream.key_wanted && stream.key_from > now && queue.waits(stream.id);
        self.streams.iter().filter(waits).map(|stream| stream.key_from).min()
    }

    /// The job was given up: nobody knows what its encoder leans on now.
    pub(crate) fn cancelled(&mut self, job: JobId) {
        let broken = self.broken;
        if let Some(stream) = self.of_job(job)
            && let Some(Committed { coding: Coding::H264 { .. }, .. }) = stream.committed
            && !broken.is(Mutation::NextLeansOnWhatWasGivenUp)
        {
            stream.key_wanted = true;
            stream.key_from = 0;
        }
    }

    /// ENDs left with this update, a bit for each stream.
    pub(crate) fn ended(&mut self, ends: u16, seq: u64) {
        for (id, number) in self.numbers.iter_mut().enumerate() {
            if ends & 1 << id != 0 && *number == Number::Ending {
                *number = Number::FreeAfter(seq);
            }
        }
    }

    /// The viewer has applied all up to this update.
    pub(crate) fn acked(&mut self, seq: u64) {
        for number in &mut self.numbers {
            if matches!(number, Number::FreeAfter(last) if *last <= seq) {
                *number = Number::Free;
            }
        }
    }

    /// Where a stream is active: what it shows nearly is not made exact yet.
    pub(crate) fn active(&self, now: Micros) -> Region {
        let mut active = Region::new();
        for stream in self.streams.iter().filter(|stream| stream.state == State::Ready && now < stream.rests_at()) {
            active.add_rect(stream.place);
        }
        active
    }

    /// When the first of them will have rested.
    pub(crate) fn rests_at(&self, now: Micros) -> Option<Micros> {
        self.streams.iter().map(Stream::rests_at).filter(|&at| at > now).min()
    }

    /// One plain picture that makes exact some of `inexact`, in fewer bytes than its pixels take; and their number.
    pub(crate) fn mend(
        &self,
        inexact: &Region,
        bytes_per_pixel: f64,
        rate: u64,
        before: impl Fn(JobId) -> Before,
        now: Micros,
    ) -> Option<(u16, Region, u64)> {
        let at_once = rate * MEND_TIME / 1_000_000;
        self.streams.iter().find_map(|stream| {
            let plain = stream.plain_bytes;
            let left = stream.committed.as_ref().is_none_or(|frame| before(frame.job) == Before::Gone);
            let may =
                left && self.policy != VideoPolicy::H264 && plain > 0 && plain <= self.picture_bytes_max.min(at_once);
            let known = stream.state == State::Ready && now >= stream.rests_at() && !stream.shown.is_empty();
            let region = if may && known { inexact.intersection(&stream.shown) } else { Region::new() };
            let fewer = (plain as f64) < region.area() as f64 * bytes_per_pixel;
            let clip = !region.is_empty() && region.rect_count() <= CLIP_RECTS_MAX;
            (fewer && clip).then_some((stream.id, region, plain))
        })
    }

    /// # Panics
    /// When a promise of this file is broken, with the promise in words.
    pub(crate) fn check_invariants(&self, queue: &CommandQueue) {
        assert!(self.streams.len() <= STREAMS_MAX, "at most {STREAMS_MAX} streams");
        assert!(self.candidates.len() <= CANDIDATES_MAX, "at most {CANDIDATES_MAX} areas may become streams");
        assert!(
            self.redrawn.len() <= REDRAWN_MAX,
            "at most {REDRAWN_MAX} parts are followed that are drawn over and over"
        );
        assert!(self.ending.len() <= STREAMS_MAX, "an END is said once");
        for (i, stream) in self.streams.iter().enumerate() {
            let taken = self.numbers[usize::from(stream.id)];
            assert!(taken == Number::Taken, "a stream has its number");
            let same = |other: &Stream| other.id == stream.id;
            assert!(!self.streams[i + 1..].iter().any(same), "and no other has it");
            assert!(
                stream.shown.is_empty() || stream.place.contains(&stream.shown.extents()),
                "a frame is in its place"
            );
        }
        for item in queue.items() {
            let Some(id) = item.stream else { continue };
            assert!(self.position(id).is_some(), "what waits for a stream waits for one that lives");
        }
    }
}
