//! What a program has written to a stream and nobody has read yet, in the program's own format.
//! From server.rs, to playback.rs. The rules are those of PulseAudio's queues, which programs rely
//! on: they seek, rewrite what was not read, and are asked for exactly what was read. Knows bytes;
//! no samples and no clock.

use std::collections::VecDeque;

use pulseaudio::protocol::stream::BufferAttr;

use crate::message::Seek;

/// Longest queue of a stream; PulseAudio's own limit, which programs expect.
pub(crate) const QUEUE_BYTES_MAX: usize = 4 << 20;
/// What PulseAudio takes where a program leaves it to the server: 2 s in the queue, and requests of
/// 20 ms.
const TARGET_DEFAULT_MS: usize = 2000;
const REQUEST_DEFAULT_MS: usize = 20;

/// Sizes of a queue, in bytes; multiples of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// More is thrown away.
    pub(crate) most: usize,
    /// The program is asked to keep so much in the queue.
    pub(crate) target: usize,
    /// Playing begins with so much, and again after an underrun. 0: with anything.
    pub(crate) prebuffer: usize,
    /// The program is asked for so much at least.
    pub(crate) request: usize,
}

impl Sizes {
    /// What a program wishes, within limits. `tick` is the time between two reads, in bytes.
    pub(crate) fn new(wish: &BufferAttr, frame: usize, bytes_per_s: usize, tick: usize) -> Sizes {
        let whole = |bytes: usize| bytes - bytes % frame;
        let wanted = |bytes: u32| (bytes != u32::MAX).then_some(bytes as usize);
        let most = whole(wanted(wish.max_length).unwrap_or(usize::MAX).min(QUEUE_BYTES_MAX));
        let ms = |ms: usize| whole(bytes_per_s * ms / 1000);
        let target = wanted(wish.target_length).unwrap_or(ms(TARGET_DEFAULT_MS));
        let request = wanted(wish.minimum_request_length)
            .unwrap_or(ms(REQUEST_DEFAULT_MS).min(target / 4))
            .clamp(frame, QUEUE_BYTES_MAX / 4);
        let request = whole(request);
        // With less the queue would be empty before what was asked for can be there.
        let least = (2 * tick).max(request + tick).next_multiple_of(frame);
        let target = whole(whole(target).max(least).min(QUEUE_BYTES_MAX / 2));
        let prebuffer_max = target + frame - request;
        let prebuffer = wanted(wish.pre_buffering).map_or(prebuffer_max, whole).min(prebuffer_max);
        Sizes { most: most.max(target), target, prebuffer, request }
    }

    /// As the program is told.
    pub(crate) fn attributes(self) -> BufferAttr {
        BufferAttr {
            max_length: self.most as u32,
            target_length: self.target as u32,
            pre_buffering: self.prebuffer as u32,
            minimum_request_length: self.request as u32,
            fragment_size: 0,
        }
    }
}

/// How much of a write did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct Queue {
    sizes: Sizes,
    frame: usize,
    silence: u8,
    /// From `read` on, without a hole.
    bytes: VecDeque<u8>,
    /// Offset in the stream of what is read next.
    read: i64,
    /// Offset in the stream where the program writes next; may be within `bytes`, or before.
    write: i64,
    prebuffering: bool,
    /// What the program is to be asked for: what was read or thrown away, minus what it has
    /// written elsewhere by seeking. Credit: never the level of the queue, because programs write
    /// whole buffers whatever they were asked for.
    owed: i64,
}

impl Queue {
    /// Of an empty stream; `frame` is the bytes of a sample of all channels.
    pub(crate) fn new(sizes: Sizes, frame: usize, silence: u8) -> Queue {
        Queue {
            sizes,
            frame,
            silence,
            bytes: VecDeque::new(),
            read: 0,
            write: 0,
            prebuffering: sizes.prebuffer > 0,
            owed: sizes.target as i64,
        }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        self.sizes
    }

    pub(crate) fn set_sizes(&mut self, sizes: Sizes) {
        self.owed += sizes.target as i64 - self.sizes.target as i64;
        self.sizes = sizes;
        self.prebuffering &= sizes.prebuffer > 0;
    }

    pub(crate) fn read_offset(&self) -> i64 {
        self.read
    }

    pub(crate) fn write_offset(&self) -> i64 {
        self.write
    }

    /// Memory that it uses.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes that can be read now: whole frames, none while it prebuffers.
    pub(crate) fn readable(&mut self) -> usize {
        if self.prebuffering {
            if self.length() < self.sizes.prebuffer {
                return 0;
            }
            self.prebuffering = false;
        }
        self.length() - self.length() % self.frame
    }

    /// Of what was written, what comes before the place where the program writes next.
    fn length(&self) -> usize {
        (self.write - self.read).clamp(0, self.bytes.len() as i64) as usize
    }

    #[cfg(test)]
    pub(crate) fn is_prebuffering(&self) -> bool {
        self.prebuffering
    }

    /// Moves up to `wanted` bytes to `out`, whole frames. With the last of them prebuffering begins
    /// again.
    pub(crate) fn read(&mut self, wanted: usize, out: &mut Vec<u8>) {
        let bytes = self.readable().min(wanted - wanted % self.frame);
        out.extend(self.bytes.drain(..bytes));
        self.read += bytes as i64;
        self.owed += bytes as i64;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(self.sizes.target);
        }
    }

    /// Plays on past the end, if the program prebuffers nothing, as PulseAudio does: the offset is
    /// such a program's clock. What it writes there later is too late, and it is asked for that.
    pub(crate) fn play_on(&mut self, bytes: usize) -> bool {
        if self.sizes.prebuffer > 0 {
            return false;
        }
        self.bytes.drain(..bytes.min(self.bytes.len()));
        self.read += bytes as i64;
        self.owed += bytes as i64;
        true
    }

    /// After an underrun playing begins again when there is enough.
    pub(crate) fn underrun(&mut self) {
        self.prebuffer();
    }

    /// Prebuffers, as after the start.
    pub(crate) fn prebuffer(&mut self) {
        self.prebuffering = self.sizes.prebuffer > 0;
    }

    /// Plays what there is, however little.
    pub(crate) fn trigger(&mut self) {
        self.prebuffering = false;
    }

    /// Moves the place of the next write. Only a seek from where was written last leaves what is
    /// owed as it is, as if silence had been written.
    fn seek(&mut self, seek: Seek, offset: i64) {
        let from = match seek {
            Seek::Relative => self.write,
            Seek::Absolute => 0,
            Seek::FromRead => self.read,
            Seek::FromEnd => self.read + self.bytes.len() as i64,
        };
        // A place outside of the queue is as good as its edge: nothing is stored there.
        let reach = QUEUE_BYTES_MAX as i64;
        let to = from.saturating_add(offset).clamp(self.read - reach, self.read + reach);
        if seek != Seek::Relative {
            self.owed = self.owed.saturating_sub(to - self.write);
        }
        self.write = to;
    }

    /// Writes. What was read before is too late and dropped, a gap becomes silence.
    pub(crate) fn write(&mut self, seek: Seek, offset: i64, bytes: &[u8]) -> Result<(), Overflow> {
        if seek != Seek::Relative || offset != 0 {
            self.seek(seek, offset);
        }
        let late = (self.read - self.write).clamp(0, bytes.len() as i64) as usize;
        let at = (self.write + late as i64 - self.read).max(0) as usize;
        let fresh = &bytes[late..];
        let room = self.sizes.most.saturating_sub(at);
        let (stored, over) = fresh.split_at(fresh.len().min(room));
        if !stored.is_empty() {
            if at > self.bytes.len() {
                self.bytes.resize(at, self.silence);
            }
            let replaced = stored.len().min(self.bytes.len() - at);
            for (old, new) in self.bytes.range_mut(at..at + replaced).zip(stored) {
                *old = *new;
            }
            self.bytes.extend(&stored[replaced..]);
        }
        self.write += (late + stored.len()) as i64;
        if over.is_empty() { Ok(()) } else { Err(Overflow(over.len())) }
    }

    /// Throws away all that was not read; the program is asked for it again.
    pub(crate) fn flush(&mut self) {
        self.owed = self.owed.saturating_add(self.write - self.read);
        self.write = self.read;
        self.bytes = VecDeque::new();
        self.prebuffer();
    }

    /// How much to ask the program for, if it is enough to ask at all.
    pub(crate) fn take_request(&mut self) -> Option<u32> {
        let least = if self.prebuffering { 1 } else { self.sizes.request as i64 };
        if self.owed < least {
            return None;
        }
        let bytes = self.owed.min(QUEUE_BYTES_MAX as i64);
        self.owed -= bytes;
        Some(bytes as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 4;

    fn sizes(target: usize, prebuffer: usize, request: usize) -> Sizes {
        Sizes { most: 1000, target, prebuffer, request }
    }

    fn read(queue: &mut Queue, wanted: usize) -> Vec<u8> {
        let mut out = Vec::new();
        queue.read(wanted, &mut out);
        out
    }

    fn write(queue: &mut Queue, bytes: &[u8]) {
        queue.write(Seek::Relative, 0, bytes).unwrap();
    }

    #[test]
    fn the_program_is_asked_for_what_was_read_and_never_by_the_level() {
        let mut queue = Queue::new(sizes(100, 0, 20), FRAME, 0);
        assert_eq!(queue.take_request(), Some(100));
        // It writes whole buffers, more than it was asked for.
        write(&mut queue, &[1; 160]);
        assert_eq!(queue.take_request(), None);
        assert_eq!(read(&mut queue, 16).len(), 16);
        assert_eq!(queue.take_request(), None, "less than the least request");
        assert_eq!(read(&mut queue, 18).len(), 16, "whole frames");
        assert_eq!(queue.take_request(), Some(32));
        assert_eq!(queue.take_request(), None);
    }

    #[test]
    fn playing_begins_with_enough_and_again_after_an_underrun() {
        let mut queue = Queue::new(sizes(40, 24, 8), FRAME, 0);
        write(&mut queue, &[1; 20]);
        assert_eq!(queue.readable(), 0);
        assert_eq!(queue.take_request(), Some(40));
        write(&mut queue, &[1; 4]);
        assert_eq!(queue.readable(), 24);
        assert_eq!(read(&mut queue, 100).len(), 24);
        queue.underrun();
        // While it prebuffers, all that lacks is asked for.
        assert_eq!(queue.take_request(), Some(24));
        write(&mut queue, &[1; 20]);
        assert_eq!(queue.readable(), 0);
        queue.trigger();
        assert_eq!(queue.readable(), 20);
    }

    #[test]
    fn without_prebuffering_the_offset_moves_on_and_what_is_late_is_dropped() {
        let mut queue = Queue::new(sizes(40, 0, 8), FRAME, 0);
        assert_eq!(queue.take_request(), Some(40));
        write(&mut queue, &[1; 40]);
        assert_eq!(read(&mut queue, 48).len(), 40);
        assert!(queue.play_on(8));
        assert_eq!((queue.read_offset(), queue.take_request()), (48, Some(48)));
        write(&mut queue, &[2; 48]);
        assert_eq!(read(&mut queue, 100), [2; 40]);
        let mut queue = Queue::new(sizes(40, 4, 8), FRAME, 0);
        assert!(!queue.play_on(8));
        assert_eq!(queue.read_offset(), 0);
    }

    #[test]
    fn what_was_not_read_can_be_rewritten_and_what_was_read_cannot() {
        let mut queue = Queue::new(sizes(100, 0, 4), FRAME, 0x80);
        write(&mut queue, &[1; 16]);
        assert_eq!(read(&mut queue, 4), [1; 4]);
        queue.write(Seek::Relative, -8, &[2; 4]).unwrap();
        // What follows is kept until it is written again, but not played before.
        assert_eq!(queue.readable(), 8);
        queue.write(Seek::Absolute, 0, &[3; 8]).unwrap();
        assert_eq!(queue.write_offset(), 8);
        queue.write(Seek::FromEnd, 4, &[4; 4]).unwrap();
        let mut all = [3; 4].to_vec();
        all.extend([2, 2, 2, 2, 1, 1, 1, 1, 0x80, 0x80, 0x80, 0x80, 4, 4, 4, 4]);
        assert_eq!(read(&mut queue, 100), all);
        assert_eq!(queue.read_offset(), queue.write_offset());
        queue.write(Seek::FromRead, 0, &[5; 4]).unwrap();
        assert_eq!(read(&mut queue, 100), [5; 4]);
    }

    #[test]
    fn a_queue_is_bounded_wherever_a_program_seeks() {
        let mut queue = Queue::new(sizes(100, 0, 4), FRAME, 0);
        assert_eq!(queue.write(Seek::Relative, 0, &[1; 1004]), Err(Overflow(4)));
        for (seek, offset) in [
            (Seek::Relative, i64::MAX),
            (Seek::Absolute, i64::MIN),
            (Seek::FromEnd, i64::MAX),
            (Seek::FromRead, i64::MIN),
            (Seek::FromRead, 990),
        ] {
            let _ = queue.write(seek, offset, &[2; 100]);
            assert!(queue.bytes.len() <= 1000, "{seek:?} {offset}");
            let _ = queue.take_request();
        }
        assert!(read(&mut queue, 2000).len() <= 1000);
    }

    #[test]
    fn what_a_flush_throws_away_is_asked_for_again() {
        let mut queue = Queue::new(sizes(100, 40, 20), FRAME, 0);
        let _ = queue.take_request();
        write(&mut queue, &[1; 100]);
        assert_eq!(read(&mut queue, 40).len(), 40);
        queue.flush();
        assert_eq!(queue.take_request(), Some(100));
        assert_eq!((queue.read_offset(), queue.write_offset()), (40, 40));
        assert!(queue.is_prebuffering());
    }

    #[test]
    fn sizes_are_those_of_pulseaudio_within_limits() {
        // 48 kHz stereo s16; a tick of 5 ms is 960 bytes.
        let new = |max, target, prebuffer, request| {
            let wish = BufferAttr {
                max_length: max,
                target_length: target,
                pre_buffering: prebuffer,
                minimum_request_length: request,
                fragment_size: u32::MAX,
            };
            Sizes::new(&wish, FRAME, 192_000, 960)
        };
        let none = u32::MAX;
        let expected = Sizes { most: 4 << 20, target: 384_000, prebuffer: 380_164, request: 3840 };
        assert_eq!(new(none, none, none, none), expected);
        // mpv and Chromium: as they wish.
        let mpv = new(none, 19_200, none, 4800);
        assert_eq!((mpv.target, mpv.request, mpv.prebuffer), (19_200, 4800, 14_404));
        assert_eq!(new(none, 8192, 0, 2048).prebuffer, 0);
        // Too little to survive two ticks.
        let small = new(none, 16, none, 4);
        assert_eq!((small.target, small.request), (1920, 4));
        // Hostile: nothing, or too much.
        let zero = new(0, 0, 0, 0);
        assert_eq!((zero.most, zero.target, zero.request), (1920, 1920, 4));
        let much = new(none - 1, none - 1, none - 1, none - 1);
        assert!(much.most <= QUEUE_BYTES_MAX && much.target <= QUEUE_BYTES_MAX / 2);
        assert!(much.prebuffer <= much.target + FRAME && much.request < much.target);
    }
}
