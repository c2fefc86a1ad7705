//! Beside the path: under actor.rs, memory that is used again.
//! What may stay allocated for the next bytes and the next jobs, and no more.
//! Knows capacities; never what was in them.

use crate::worker::Work;

/// 1 MiB: most memory that an empty buffer keeps. A screen of photographs once must not stay with every viewer for ever.
const BUFFER_BYTES_KEPT: usize = 1024 * 1024;
/// Work buffers kept for the next jobs.
const SPARE_WORK_MAX: usize = 4;

/// An empty buffer for the next bytes, with the memory of the last where that is no more than usual.
pub(crate) fn kept(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    if buffer.capacity() <= BUFFER_BYTES_KEPT { buffer } else { Vec::new() }
}

pub(crate) fn recycle(spare: &mut Vec<Work>, mut work: Work) {
    if spare.len() < SPARE_WORK_MAX {
        // A plain picture is as long as its video is large.
        work.plain = kept(std::mem::take(&mut work.plain));
        spare.push(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_next_bytes_keeps_no_more_memory_than_usual() {
        for (bytes, left) in [(1000, 1000), (BUFFER_BYTES_KEPT + 1, 0), (BUFFER_BYTES_KEPT * 8, 0)] {
            let buffer = kept(vec![7; bytes]);
            assert_eq!((buffer.len(), buffer.capacity()), (0, left));
        }
        let mut spare = Vec::new();
        (0..2 * SPARE_WORK_MAX).for_each(|_| recycle(&mut spare, Work::new()));
        assert_eq!(spare.len(), SPARE_WORK_MAX);
        spare.clear();
        recycle(&mut spare, Work { plain: vec![7; 4 * BUFFER_BYTES_KEPT], ..Work::new() });
        assert_eq!(spare[0].plain.capacity(), 0);
    }
}
