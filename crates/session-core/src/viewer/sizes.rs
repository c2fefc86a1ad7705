//! Path 6/13: under viewer.rs, from a viewer's hello, to commit.rs.
//! The largest messages that a viewer takes, and so the largest updates and jobs. Knows bytes and
//! areas; never what is in them.

use thinc_protocol::limits::{RECTS_MAX, SESSION_MESSAGE_BYTES_MAX};

use super::UPDATE_HEAD_BYTES;
use crate::queue::scheduler::JOB_AREA_MAX;

/// Least limit that is accepted; with less, a viewer could not take a COPY.
const MESSAGE_BYTES_MIN: usize = 16 * 1024;
/// 64 pixels: a job of so few fits any message.
const AREA_MIN: u64 = 64;
/// Most bytes of a frame's command before its data: mostly of a clip of 64 rectangles, in 4 numbers
/// of at most 5 bytes each.
const NEXT_HEAD_BYTES_MAX: u64 = 64 * 4 * 5 + 64;

/// One viewer's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    message_bytes: usize,
    /// Most pixels of a job.
    area: u64,
}

impl Sizes {
    /// Of a viewer that takes messages of so many bytes.
    pub(super) fn new(message_bytes_max: u32) -> Sizes {
        let message_bytes =
            (message_bytes_max as usize).clamp(MESSAGE_BYTES_MIN, SESSION_MESSAGE_BYTES_MAX);
        // A quarter of a message for COPYs, the rest for pixels at 4 bytes each.
        let pixels = (message_bytes - message_bytes / 4) as u64 / 4;
        Sizes { message_bytes, area: JOB_AREA_MAX.min(pixels) }
    }

    /// Most rectangles of the COPYs of one update: a quarter of a message at 16 bytes each.
    pub(super) fn copies_rects_max(&self) -> usize {
        (self.message_bytes / 64).min(RECTS_MAX)
    }

    /// Most bytes of the data of a video's frame, which is a part of an update of its own.
    pub(super) fn frame_bytes_max(&self) -> u64 {
        self.commands_bytes_max() - NEXT_HEAD_BYTES_MAX
    }

    /// Most bytes of an update's commands: data that does not compress becomes a little longer
    /// (zstd: a 256th).
    pub(super) fn commands_bytes_max(&self) -> u64 {
        (self.message_bytes - self.message_bytes / 128 - UPDATE_HEAD_BYTES) as u64
    }

    /// Most pixels of a job.
    pub(super) fn area_max(&self) -> u64 {
        self.area
    }

    /// A command of a job was too long: the same pixels are sent again in smaller jobs.
    pub(super) fn halve_area(&mut self) {
        self.area = (self.area / 2).max(AREA_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_pixels_and_copies_of_a_job_fit_a_message() {
        for bytes in [0, 100_000, 10_000_000, u32::MAX] {
            let sizes = Sizes::new(bytes);
            let copies = 16 * sizes.copies_rects_max() as u64;
            let all = copies + 4 * sizes.area_max();
            assert!(all <= sizes.message_bytes as u64, "{bytes}: {all}");
            assert!(sizes.commands_bytes_max() < sizes.message_bytes as u64);
        }
    }

    #[test]
    fn jobs_do_not_become_smaller_without_limit() {
        let mut sizes = Sizes::new(0);
        (0..64).for_each(|_| sizes.halve_area());
        assert_eq!(sizes.area_max(), AREA_MIN);
    }
}
