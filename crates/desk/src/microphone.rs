//! What the viewer's microphone hears, between the session process and the programs that record
//! it. From link.rs, to server.rs, which reads a block whenever one is due. Knows samples and how
//! many of them wait; never who records, viewers or sockets.
//!
//! The session process is asked for as many blocks as are recorded, so that programs get them at
//! the pace of this clock. What it does not bring in time is silence.

use std::collections::VecDeque;

use crate::link::{CHANNELS, MicrophoneBlock};
use crate::resample::{BLOCK, Block};

/// 10 ms that wait beyond what is read at once: the session process may be that late.
const RESERVE: usize = 2;
/// Blocks of the longest tick, 20 ms, with the reserve.
const WAITING_MAX: usize = 4 + RESERVE;
/// 1 ms, in samples: sound after silence and before it is faded, which avoids a click.
const FADE: usize = 48;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Microphone {
    waiting: VecDeque<MicrophoneBlock>,
    /// Blocks that the session process was asked for, and has not brought.
    asked: usize,
    is_recorded: bool,
    /// The last block was one that was brought.
    is_heard: bool,
    /// The last sample of it.
    last: f32,
    /// The session process was not told that nobody records.
    is_end_untold: bool,
}

impl Microphone {
    /// Programs record from now on, or none does.
    pub(crate) fn set_recorded(&mut self, is_recorded: bool) {
        if self.is_recorded && !is_recorded {
            *self = Microphone { is_end_untold: true, ..Microphone::default() };
        }
        self.is_recorded = is_recorded;
    }

    /// The session process is another one, which was asked for nothing.
    pub(crate) fn handle_link(&mut self) {
        self.asked = 0;
        self.is_end_untold = !self.is_recorded;
    }

    /// The session process brings a block. One that it was not asked for is dropped.
    pub(crate) fn push(&mut self, block: MicrophoneBlock) {
        if self.asked > 0 {
            self.asked -= 1;
            self.waiting.push_back(block);
        }
    }

    /// For how many blocks the session process has to be asked, `step` of which are read at once;
    /// 0: nobody records any more. None: there is nothing to say.
    pub(crate) fn take_request(&mut self, step: usize) -> Option<u8> {
        if !self.is_recorded {
            return std::mem::take(&mut self.is_end_untold).then_some(0);
        }
        let wanted = (step + RESERVE).min(WAITING_MAX);
        let blocks = wanted.saturating_sub(self.waiting.len() + self.asked);
        self.asked += blocks;
        (blocks > 0).then_some(blocks as u8)
    }

    /// Microseconds of sound that wait.
    pub(crate) fn delay(&self) -> u64 {
        self.waiting.len() as u64 * crate::server::BLOCK_TIME
    }

    /// Reads the next block; silence if none has come in time.
    pub(crate) fn read(&mut self, out: &mut Block) {
        let next = self.waiting.pop_front();
        let was_heard = std::mem::replace(&mut self.is_heard, next.is_some());
        let frames = out.as_chunks_mut::<CHANNELS>().0;
        match next {
            Some(block) => {
                for (n, (frame, &sample)) in frames.iter_mut().zip(block.iter()).enumerate() {
                    let gain = if was_heard { 1.0 } else { (n as f32 / FADE as f32).min(1.0) };
                    *frame = [sample * gain; CHANNELS];
                }
                self.last = block[BLOCK - 1];
            }
            None => {
                for (n, frame) in frames.iter_mut().enumerate() {
                    let gain = if was_heard { 1.0 - n as f32 / FADE as f32 } else { 0.0 };
                    *frame = [self.last * gain.max(0.0); CHANNELS];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(microphone: &mut Microphone) -> Block {
        let mut block = [9.0; BLOCK * CHANNELS];
        microphone.read(&mut block);
        block
    }

    #[test]
    fn as_much_is_asked_for_as_is_recorded() {
        let mut microphone = Microphone::default();
        assert_eq!(microphone.take_request(1), None, "nobody records");
        microphone.set_recorded(true);
        assert_eq!(microphone.take_request(1), Some(3));
        assert_eq!(microphone.take_request(1), None, "it was asked already");
        (0..3).for_each(|_| microphone.push(Box::new([0.5; BLOCK])));
        assert_eq!(microphone.take_request(1), None);
        for _ in 0..100 {
            assert!(read(&mut microphone)[BLOCK..].iter().all(|&sample| sample == 0.5));
            assert_eq!(microphone.take_request(1), Some(1));
            microphone.push(Box::new([0.5; BLOCK]));
        }
        assert_eq!(microphone.delay(), 15_000);
        assert_eq!(microphone.take_request(4), Some(3), "a longer tick");
        microphone.set_recorded(false);
        assert_eq!(microphone.take_request(1), Some(0));
        assert_eq!(microphone.take_request(1), None);
    }

    #[test]
    fn what_is_late_is_silence_and_what_was_not_asked_for_is_dropped() {
        let mut microphone = Microphone::default();
        microphone.set_recorded(true);
        microphone.push(Box::new([0.5; BLOCK]));
        assert!(read(&mut microphone).iter().all(|&sample| sample == 0.0));
        let _ = microphone.take_request(1);
        microphone.push(Box::new([0.5; BLOCK]));
        let block = read(&mut microphone);
        assert!(block.is_sorted() && block[0] < 0.02 && block[2 * FADE] == 0.5, "it is faded in");
        let block = read(&mut microphone);
        assert!(block.iter().rev().is_sorted() && block[0] == 0.5 && block[2 * FADE] == 0.0);
        assert!(read(&mut microphone).iter().all(|&sample| sample == 0.0));
    }

    #[test]
    fn another_session_process_is_asked_again() {
        let mut microphone = Microphone::default();
        microphone.handle_link();
        assert_eq!(microphone.take_request(1), Some(0), "it may think that somebody records");
        microphone.set_recorded(true);
        assert_eq!(microphone.take_request(2), Some(4));
        microphone.handle_link();
        assert_eq!(microphone.take_request(2), Some(4));
        (0..9).for_each(|_| microphone.push(Box::new([0.5; BLOCK])));
        assert_eq!(microphone.delay(), 20_000, "no more than it was asked for");
    }
}
