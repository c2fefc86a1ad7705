//! Beside the path: under actor.rs, reuse of memory.
//! Limits what stays allocated for the next bytes and the next jobs. Knows capacities; never
//! contents.

use thinc_protocol::commands::Commands;

use crate::worker::EncodeJob;

/// 1 MiB: most memory that an empty buffer keeps. A single screen of photographs must not cost
/// every viewer that memory from then on.
const BUFFER_BYTES_KEPT: usize = 1024 * 1024;
/// Jobs whose memory is kept for the next ones.
const SPARE_JOBS_MAX: usize = 4;

/// The buffer, empty, with its memory unless that is more than BUFFER_BYTES_KEPT.
pub(crate) fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    if buffer.capacity() <= BUFFER_BYTES_KEPT { buffer } else { Vec::new() }
}

/// The same for commands.
pub(crate) fn emptied_commands(mut commands: Commands) -> Commands {
    commands.clear();
    if commands.capacity() <= BUFFER_BYTES_KEPT { commands } else { Commands::default() }
}

pub(crate) fn recycle(spare: &mut Vec<EncodeJob>, mut job: EncodeJob) {
    if spare.len() < SPARE_JOBS_MAX {
        // A plain frame is as long as its video is large.
        job.plain = emptied_commands(std::mem::take(&mut job.plain));
        spare.push(job);
    }
}

#[cfg(test)]
mod tests {
    use thinc_protocol::command::Encoding;
    use thinc_region::Rect;

    use super::*;

    #[test]
    fn spare_buffers_keep_limited_memory() {
        for (bytes, left) in [(1000, 1000), (BUFFER_BYTES_KEPT + 1, 0), (BUFFER_BYTES_KEPT * 8, 0)]
        {
            let buffer = emptied(vec![7; bytes]);
            assert_eq!((buffer.len(), buffer.capacity()), (0, left));
        }
        let mut spare = Vec::new();
        (0..2 * SPARE_JOBS_MAX).for_each(|_| recycle(&mut spare, EncodeJob::new()));
        assert_eq!(spare.len(), SPARE_JOBS_MAX);
        spare.clear();
        let mut job = EncodeJob::new();
        let (rect, data) = (Rect::at(0, 0, 8, 8), vec![7; 4 * BUFFER_BYTES_KEPT]);
        job.plain.writer().raw(rect, Encoding::Predicted, &data);
        recycle(&mut spare, job);
        assert_eq!(spare[0].plain.capacity(), 0);
    }
}
