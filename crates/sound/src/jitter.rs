//! From the network, to player.rs: packets in, "play this frame, conceal one, or stay silent, at
//! this rate" out.
//! Keeps the delay from a sample's time to the ear at a target, by resampling a little: changes of
//! the target and clocks that drift are one error. Knows coded frames and their times; never
//! samples.
//!
//! Frames are ordered by number and scheduled by time: a frame of time `t` is played at `t + least
//! delay + target` of the viewer's clock. The delay is never given up to fill a buffer again, and
//! it never grows without shrinking again.

use std::collections::{BTreeMap, VecDeque};

use thinc_protocol::Micros;
use thinc_protocol::sound::{SoundFormat, SoundPacket};

use crate::delays::Delays;
use crate::us_samples;

/// Least target: a frame of 10 ms.
const TARGET_MIN: Micros = 10_000;
/// Least target before so many frames have arrived: nothing is known of the path.
const TARGET_UNKNOWN: Micros = 20_000;
const KNOWN_FRAMES: usize = 100;
/// Most that jitter may add. Later frames are concealed: nobody waits longer for speech.
const TARGET_MAX: Micros = 80_000;
/// Most that the shell may raise the delay to.
const DELAY_MAX: Micros = 150_000;
/// Share of frames that may be late, in parts of 1000.
const LATE_SHARE: usize = 5;
/// The same where the path stalls often: stalls are heard.
const LATE_SHARE_STALLS: usize = 1;
/// More stalls in a minute are often.
const STALLS_PER_MINUTE: usize = 2;
const MINUTE: Micros = 60_000_000;
/// How long lost frames are concealed; then the sound fades (RFC 6716 leaves it open; beyond it
/// concealment is heard as a tone).
const CONCEAL_MAX: Micros = 60_000;
/// A frame that should have been played so long ago is skipped when sound starts again after a
/// stall, if a newer one is there.
const LATE_START: Micros = 20_000;
/// An error beyond this is corrected by 5 % or 2 %, until it is less than the other.
const CATCH_UP_FROM: i64 = 20_000;
const CATCH_UP_TO: i64 = 5_000;
/// A lower rate stretches the sound so that the delay grows: at once, or frames are lost.
const STRETCH: f64 = 0.95;
/// The same if sound only waits for pictures that are seen later: not urgent.
const STRETCH_EXTRA: f64 = 0.98;
/// A higher one shortens the delay: not urgent.
const SHRINK: f64 = 1.02;
/// Otherwise at most so much, which nobody hears (a tenth of a semitone).
const FINE: f64 = 0.005;
/// In this time a small error is corrected.
const FINE_TIME: f64 = 4_000_000.0;
/// An error beyond this is corrected by a jump.
const JUMP: i64 = 150_000;
/// Frames kept; past the limit the oldest go. 1.28 s of 10 ms.
const FRAMES_MAX: usize = 128;
/// Packets kept until their format arrives: it is on the stream, which they may overtake.
const EARLY_MAX: usize = 8;
/// Concealed frames whose arrival is still of interest.
const MISSED_MAX: usize = 32;
/// A number that differs by more is no reordering: the session has started again.
const NUMBER_JUMP: u32 = 1000;
/// Longest silence that is given out at once, in samples: then packets are looked at again.
const SILENCE_STEP: u64 = 120;

#[derive(Debug)]
struct Frame {
    time: Micros,
    format: SoundFormat,
    bytes: Vec<u8>,
    /// Nothing follows it for now.
    last: bool,
}

/// What the next samples are.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// This frame.
    Play {
        /// What the codec made of it.
        bytes: Vec<u8>,
        /// How it is coded.
        format: SoundFormat,
        /// How it joins what was played before.
        join: Join,
    },
    /// A frame that is lost or late; `fade` in the last one before silence.
    Conceal {
        /// As the frames before it.
        format: SoundFormat,
        /// The sound ends here.
        fade: bool,
    },
    /// At most so many samples of silence; then it is to be asked again.
    Silence(u64),
}

/// How a frame joins what was played before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// It continues it.
    Continues,
    /// It follows silence.
    Starts,
    /// It follows sound that stopped in the middle: fade in.
    Resumes,
    /// Sound between them was left out: crossfade.
    Jumps,
}

/// What has been received and played, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that arrived, each counted once.
    pub received: u32,
    /// Packets that did not.
    pub lost: u32,
    /// Frames concealed.
    pub concealed: u32,
    /// Times that two or more packets in a row were lost.
    pub runs: u32,
    /// Frames that arrived after they were due.
    pub late: u32,
    /// Frames played.
    pub played: u32,
    /// Jumps: sound was left out to shorten the delay.
    pub jumps: u32,
    /// Times that sound stopped because nothing arrived.
    pub starved: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is to be heard; the next frame starts by its schedule.
    Silent,
    Playing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CatchUp {
    None,
    Stretch,
    Shrink,
}

/// The packets of one connection, in the order in which they are played.
#[derive(Debug)]
pub struct JitterBuffer {
    formats: VecDeque<SoundFormat>,
    early: VecDeque<(Vec<u8>, Micros)>,
    frames: BTreeMap<u32, Frame>,
    delays: Delays,
    state: State,
    catch_up: CatchUp,
    /// Number of the next frame to play.
    next: u32,
    /// Its time, while playing.
    time: Micros,
    /// How the frame before it was coded.
    format: Option<SoundFormat>,
    /// Microseconds concealed in a row.
    concealed_us: Micros,
    /// The newest frames that were concealed and have not arrived, with the times that they would
    /// have had.
    missed: VecDeque<(u32, Micros)>,
    /// Sound stopped because nothing arrived.
    is_starved: bool,
    rate: f64,
    /// Raised by the shell, for pictures that are seen later.
    extra: Micros,
    /// Newest packet, and which of those before it have arrived, one bit each.
    newest: Option<u32>,
    arrived: u64,
    /// The first packet of the numbers in use, and how many of earlier numbers were lost.
    first: u32,
    received_since: u32,
    lost_before: u32,
    /// When stalls happened.
    stalls: VecDeque<Micros>,
    /// The last frame was late, and before it another.
    late_run: bool,
    counts: Counts,
}

impl Default for JitterBuffer {
    fn default() -> JitterBuffer {
        JitterBuffer::new()
    }
}

impl JitterBuffer {
    /// Nothing has arrived.
    pub fn new() -> JitterBuffer {
        JitterBuffer {
            formats: VecDeque::new(),
            early: VecDeque::new(),
            frames: BTreeMap::new(),
            delays: Delays::new(),
            state: State::Silent,
            catch_up: CatchUp::None,
            next: 0,
            time: 0,
            format: None,
            concealed_us: 0,
            missed: VecDeque::new(),
            is_starved: false,
            rate: 1.0,
            extra: 0,
            newest: None,
            arrived: 0,
            first: 0,
            received_since: 0,
            lost_before: 0,
            stalls: VecDeque::new(),
            late_run: false,
            counts: Counts::default(),
        }
    }

    /// The format of a generation, from the stream.
    pub fn handle_format(&mut self, format: SoundFormat) {
        self.formats.retain(|old| old.generation != format.generation);
        // Of the formats before it, packets may still be on their way.
        if self.formats.len() == 2 {
            self.formats.pop_front();
        }
        self.formats.push_back(format);
        for (bytes, arrived) in std::mem::take(&mut self.early) {
            if let Ok(packet) = decode(&bytes) {
                self.handle_packet(&packet, arrived);
            }
        }
    }

    /// A packet arrived at `now`; also more than once, and in any order.
    pub fn handle_packet(&mut self, packet: &SoundPacket<'_>, now: Micros) {
        let format = self.formats.iter().find(|format| format.generation == packet.generation);
        let Some(&format) = format else {
            if self.early.len() == EARLY_MAX {
                self.early.pop_front();
            }
            let mut bytes = Vec::new();
            thinc_protocol::session::SessionMessage::Sound(packet.clone()).encode(&mut bytes);
            self.early.push_back((bytes, now));
            return;
        };
        if self.newest.is_some_and(|newest| newest.abs_diff(packet.number) > NUMBER_JUMP) {
            self.restart();
        }
        self.count_packet(packet.number);
        let frame_us = format.frame_us();
        for frame in &packet.frames {
            let number = packet.number - u32::from(frame.back);
            let own = frame.back == 0;
            // A discontinuity lies between the packet's frame and its repeats.
            let time = if own || !packet.discontinuity {
                packet.time.saturating_sub(u64::from(frame.back) * frame_us)
            } else {
                continue;
            };
            if self.frames.contains_key(&number) {
                continue;
            }
            if number < self.next && self.has_begun() {
                let Some(at) = self.missed.iter().position(|&(missed, _)| missed == number) else {
                    continue;
                };
                if time <= self.missed[at].1.saturating_add(frame_us / 2) {
                    self.missed.remove(at);
                    self.handle_late(time, now);
                    continue;
                }
                // The end of a sound was lost, and what was concealed after it took the numbers of
                // the next one.
                self.missed.truncate(at);
                self.next = number;
                self.is_starved = false;
            }
            self.delays.add(time, now);
            if own {
                self.late_run = false;
            }
            let last = own && packet.silence_follows;
            self.frames.insert(number, Frame { time, format, bytes: frame.bytes.to_vec(), last });
        }
        while self.frames.len() > FRAMES_MAX {
            self.frames.pop_first();
        }
        if !self.has_begun()
            && let Some((&first, _)) = self.frames.first_key_value()
        {
            self.next = first;
        }
    }

    /// Something was given out.
    fn has_begun(&self) -> bool {
        self.format.is_some()
    }

    /// The session counts from the beginning again.
    fn restart(&mut self) {
        self.frames.clear();
        self.delays.clear();
        self.state = State::Silent;
        self.format = None;
        self.missed.clear();
        self.is_starved = false;
        self.lost_before = self.counts.lost;
        (self.newest, self.arrived, self.received_since) = (None, 0, 0);
    }

    /// A frame arrived after it was concealed: it shows how late frames may be.
    fn handle_late(&mut self, time: Micros, now: Micros) {
        self.counts.late = self.counts.late.saturating_add(1);
        self.delays.add(time, now);
        // Two in a row: a stall, and no single packet that was overtaken.
        if self.late_run {
            while self.stalls.front().is_some_and(|&at| at + MINUTE < now) {
                self.stalls.pop_front();
            }
            let same = self.stalls.back().is_some_and(|&at| now < at + 500_000);
            if !same {
                if self.stalls.len() > STALLS_PER_MINUTE {
                    self.stalls.pop_front();
                }
                self.stalls.push_back(now);
            }
        }
        self.late_run = true;
    }

    fn count_packet(&mut self, number: u32) {
        let Some(newest) = self.newest else {
            (self.newest, self.first) = (Some(number), number);
            (self.arrived, self.received_since) = (1, 1);
            self.counts.received = self.counts.received.saturating_add(1);
            return;
        };
        if number > newest {
            let by = number - newest;
            if by > 2 {
                self.counts.runs = self.counts.runs.saturating_add(1);
            }
            self.arrived = self.arrived.checked_shl(by).unwrap_or(0) | 1;
            self.newest = Some(number);
        } else {
            let back = newest - number;
            let bit = 1_u64.checked_shl(back).unwrap_or(0);
            if number < self.first || bit == 0 || self.arrived & bit != 0 {
                return;
            }
            self.arrived |= bit;
        }
        self.counts.received = self.counts.received.saturating_add(1);
        self.received_since = self.received_since.saturating_add(1);
        let newest = self.newest.unwrap_or(number);
        let sent = (newest - self.first).saturating_add(1);
        self.counts.lost =
            self.lost_before.saturating_add(sent.saturating_sub(self.received_since));
    }

    /// The viewer's clock stood still until `now`: how late frames arrive by it is no longer known.
    /// What waits has come meanwhile, and is played from its beginning.
    pub fn handle_clock_stopped(&mut self, now: Micros) {
        self.delays.clear();
        if let Some((_, frame)) = self.frames.first_key_value() {
            self.delays.add(frame.time, now);
        }
    }

    /// Makes sound so much later than jitter asks for, for pictures that are seen later; at most
    /// 150 ms in all.
    pub fn set_extra(&mut self, extra: Micros) {
        self.extra = extra.min(DELAY_MAX);
    }

    /// How long after the quickest frame's arrival frames are played. `lead`: how long before its
    /// sample is due the device asks for it.
    pub fn target(&self, now: Micros, lead: Micros) -> Micros {
        let recent = self.stalls.iter().filter(|&&at| at + MINUTE >= now).count();
        let share = if recent > STALLS_PER_MINUTE { LATE_SHARE_STALLS } else { LATE_SHARE };
        let least = if self.delays.len() < KNOWN_FRAMES { TARGET_UNKNOWN } else { TARGET_MIN };
        let jitter = self.delays.beyond_least(share).min(TARGET_MAX);
        (jitter + lead).max(least).saturating_add(self.extra).min(DELAY_MAX)
    }

    /// When a frame of this time is due.
    fn due(&self, time: Micros, target: Micros) -> i64 {
        let least = self.delays.least().unwrap_or(0);
        (time as i64).saturating_add(least).saturating_add(target as i64)
    }

    /// What is played from `at` on, of which the device has asked `lead` earlier.
    pub fn next(&mut self, at: Micros, lead: Micros) -> Step {
        let target = self.target(at, lead);
        match self.state {
            State::Silent => self.start(at, target),
            State::Playing => self.go_on(at, target),
        }
    }

    /// The rate at which samples are played: 1.01 shortens the delay by 10 ms a second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The time of what [`JitterBuffer::next`] gives out next, while sound plays.
    pub fn time(&self) -> Option<Micros> {
        (self.state == State::Playing).then_some(self.time)
    }

    /// The delay of the quickest frame by both clocks.
    pub fn least_delay(&self) -> Option<i64> {
        self.delays.least()
    }

    /// Nothing is to be heard, and nothing waits.
    pub fn is_silent(&self) -> bool {
        self.state == State::Silent && self.frames.is_empty()
    }

    /// What has been received and played.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn start(&mut self, at: Micros, target: Micros) -> Step {
        self.rate = 1.0;
        self.catch_up = CatchUp::None;
        // After a stall a burst arrives, of which the first frames are over. After silence nobody
        // has missed them yet.
        let late = if self.is_starved { LATE_START as i64 } else { JUMP };
        while self.frames.len() > 1
            && let Some((&number, frame)) = self.frames.first_key_value()
            && self.due(frame.time, target).saturating_add(late) < at as i64
        {
            self.frames.remove(&number);
        }
        let Some((&number, frame)) = self.frames.first_key_value() else {
            return Step::Silence(SILENCE_STEP);
        };
        let (time, mut due) = (frame.time, self.due(frame.time, target));
        if self.is_starved && due.saturating_add(late) < at as i64 {
            // The path has become slower: what was known of it would make every frame late.
            self.delays.clear();
            self.delays.add(time, at);
            self.is_starved = false;
            due = self.due(time, TARGET_MIN);
        }
        let wait = due.saturating_sub(at as i64);
        if wait > 0 {
            return Step::Silence(us_samples(wait as u64).clamp(1, SILENCE_STEP));
        }
        let join = if self.is_starved || !self.has_begun() { Join::Resumes } else { Join::Starts };
        self.is_starved = false;
        (self.next, self.time) = (number, time);
        self.state = State::Playing;
        self.play(join)
    }

    fn go_on(&mut self, at: Micros, target: Micros) -> Step {
        let error = (at as i64).saturating_sub(self.due(self.time, target));
        if error > JUMP && self.jump(at, target) {
            return self.play(Join::Jumps);
        }
        self.correct(error);
        match self.frames.first_key_value() {
            Some((&number, _)) if number < self.next => {
                unreachable!("frames before the next are removed as it passes")
            }
            Some((&number, frame)) if number == self.next => {
                let frame_us = frame.format.frame_us();
                if frame.time > self.time.saturating_add(frame_us / 2) || error < -JUMP {
                    // The session played nothing in between.
                    self.state = State::Silent;
                    return self.start(at, target);
                }
                self.play(Join::Continues)
            }
            _ => self.conceal(),
        }
    }

    /// Leaves frames out until the next one is due; false if none is there.
    fn jump(&mut self, at: Micros, target: Micros) -> bool {
        let due = |frame: &Frame| self.due(frame.time, target);
        let newest_due = self
            .frames
            .iter()
            .take_while(|(_, frame)| due(frame) <= at as i64)
            .map(|(&number, frame)| (number, frame.time))
            .last();
        let Some((number, time)) = newest_due.filter(|&(number, _)| number > self.next) else {
            return false;
        };
        self.frames = self.frames.split_off(&number);
        (self.next, self.time) = (number, time);
        self.counts.jumps = self.counts.jumps.saturating_add(1);
        (self.rate, self.catch_up) = (1.0, CatchUp::None);
        true
    }

    /// Sets the rate by how much later than due the next sample is played, in microseconds.
    fn correct(&mut self, error: i64) {
        let near = error.abs() < CATCH_UP_TO;
        self.catch_up = match self.catch_up {
            CatchUp::Stretch if !near && error < 0 => CatchUp::Stretch,
            CatchUp::Shrink if !near && error > 0 => CatchUp::Shrink,
            _ if error <= -CATCH_UP_FROM => CatchUp::Stretch,
            _ if error >= CATCH_UP_FROM => CatchUp::Shrink,
            _ => CatchUp::None,
        };
        self.rate = match self.catch_up {
            CatchUp::Stretch if error.saturating_add(self.extra as i64) > -CATCH_UP_FROM => {
                STRETCH_EXTRA
            }
            CatchUp::Stretch => STRETCH,
            CatchUp::Shrink => SHRINK,
            CatchUp::None => 1.0 + (error as f64 / FINE_TIME).clamp(-FINE, FINE),
        };
    }

    /// Gives out the first frame, which is the next.
    fn play(&mut self, join: Join) -> Step {
        let (_, frame) = self.frames.pop_first().expect("the caller has seen it");
        self.next = self.next.saturating_add(1);
        self.time = frame.time.saturating_add(frame.format.frame_us());
        self.format = Some(frame.format);
        self.concealed_us = 0;
        self.counts.played = self.counts.played.saturating_add(1);
        if frame.last {
            self.state = State::Silent;
        }
        Step::Play { bytes: frame.bytes, format: frame.format, join }
    }

    fn conceal(&mut self) -> Step {
        let format = self.format.expect("sound plays, so a frame was played");
        let frame_us = format.frame_us();
        let missed = (self.next, self.time);
        self.next = self.next.saturating_add(1);
        self.time = self.time.saturating_add(frame_us);
        self.concealed_us += frame_us;
        self.counts.concealed = self.counts.concealed.saturating_add(1);
        if self.missed.len() == MISSED_MAX {
            self.missed.pop_front();
        }
        self.missed.push_back(missed);
        let fade = self.concealed_us + frame_us > CONCEAL_MAX;
        if fade {
            self.concealed_us = 0;
            self.counts.starved = self.counts.starved.saturating_add(1);
            self.is_starved = true;
            self.state = State::Silent;
        }
        Step::Conceal { format, fade }
    }
}

/// Reads a packet that was kept.
fn decode(bytes: &[u8]) -> Result<SoundPacket<'_>, ()> {
    use thinc_protocol::{framing::MessageFrame, session::SessionMessage};
    let frame = MessageFrame::from_datagram(bytes).map_err(drop)?;
    match SessionMessage::decode(&frame) {
        Ok(SessionMessage::Sound(packet)) => Ok(packet),
        _ => Err(()),
    }
}
