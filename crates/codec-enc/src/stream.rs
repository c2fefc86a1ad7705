//! Path 10/13: from session-core/viewer.rs with an update about to be sent, to its frame.
//! Packs the commands of one connection's updates with one zstd context: what was sent before is the dictionary.
//! Knows bytes and their order; never commands. codec-dec/stream.rs is its twin and pictures the bytes.

use thinc_codec_dec::stream::WINDOW_LOG;
use thinc_protocol::wire::put_varint;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

/// 24 bytes: below it a block's header and codes outweigh what repeats.
const PACKED_MIN: usize = 24;

/// One connection's context.
pub struct StreamPacker {
    zstd: CCtx<'static>,
    level: i32,
    /// The next packed update begins a context.
    fresh: bool,
}

impl std::fmt::Debug for StreamPacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamPacker(level {}, {} bytes)", self.level, self.zstd.sizeof())
    }
}

impl StreamPacker {
    /// A context that knows nothing yet, at zstd's `level`.
    pub fn new(level: i32) -> StreamPacker {
        StreamPacker { zstd: CCtx::create(), level, fresh: true }
    }

    /// Packs at another level from the next update on, which begins a new context.
    pub fn set_level(&mut self, level: i32) {
        self.fresh |= self.level != level;
        self.level = level;
    }

    /// Forgets what was sent: the next packed update begins a new context. Needed where something packed was not sent.
    pub fn restart(&mut self) {
        self.fresh = true;
    }

    /// Bytes the context holds, its window included.
    pub fn memory_bytes(&self) -> usize {
        self.zstd.sizeof()
    }

    /// Appends the packed commands of one update, or says false, with nothing appended, where they are too few to gain.
    ///
    /// What was packed must be sent, after what was packed before it and before what is packed next.
    pub fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> bool {
        if commands.len() < PACKED_MIN {
            return false;
        }
        put_varint(out, (commands.len() as u64) << 1 | u64::from(self.fresh));
        if std::mem::take(&mut self.fresh) {
            self.begin();
        }
        // A block may grow by its header of 3 bytes, once in 128 KiB, and a frame has a header; the loop takes the rest.
        out.reserve(commands.len() / 4 + 64);
        let mut input = InBuffer::around(commands);
        loop {
            let at = out.len();
            let mut output = OutBuffer::around_pos(out, at);
            let left = self
                .zstd
                .compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush)
                .expect("a context of ours packs any bytes");
            if left == 0 && input.pos() == commands.len() {
                return true;
            }
            out.reserve(left.max(64));
        }
    }

    fn begin(&mut self) {
        let parameters = [
            CParameter::CompressionLevel(self.level),
            CParameter::WindowLog(WINDOW_LOG),
            CParameter::ContentSizeFlag(false),
        ];
        self.zstd.reset(ResetDirective::SessionAndParameters).expect("a context can always be reset");
        for parameter in parameters {
            self.zstd.set_parameter(parameter).expect("zstd knows these parameters");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thinc_codec_dec::DecodeError;
    use thinc_codec_dec::stream::StreamUnpacker;

    use super::*;

    const LIMIT: usize = 1 << 20;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn what_was_sent_before_is_cheap() {
        let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
        let glyph = noise(7, 400);
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        let mut lens = Vec::new();
        for _ in 0..3 {
            packed.clear();
            assert!(packer.pack(&glyph, &mut packed));
            unpacker.unpack(&packed, LIMIT, &mut unpacked).unwrap();
            assert_eq!(unpacked, glyph);
            lens.push(packed.len());
        }
        assert!(lens[0] > 400 && lens[0] < 420, "noise stays as long as it is: {lens:?}");
        assert!(lens[1] < 20 && lens[2] < 20, "{lens:?}");
    }

    #[test]
    fn a_restart_forgets_and_the_other_side_follows() {
        let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        let glyph = noise(7, 400);
        for round in 0..6 {
            match round {
                2 => packer.restart(),
                3 => packer.set_level(1),
                4 => packer.set_level(3),
                _ => {}
            }
            packed.clear();
            packer.pack(&glyph, &mut packed);
            assert_eq!(packed.len() > 400, matches!(round, 0 | 2 | 4), "round {round}: {} bytes", packed.len());
            unpacker.unpack(&packed, LIMIT, &mut unpacked).unwrap();
            assert_eq!(unpacked, glyph);
        }
    }

    #[test]
    fn few_bytes_are_left_alone() {
        let mut packer = StreamPacker::new(1);
        let mut out = vec![1, 2];
        assert!(!packer.pack(&[0; PACKED_MIN - 1], &mut out));
        assert_eq!(out, [1, 2]);
    }

    #[test]
    fn repetition_beyond_the_window_comes_back_too() {
        let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        let updates: Vec<Vec<u8>> = (0..5).map(|seed| noise(seed + 1, 700_000)).collect();
        for update in updates.iter().cycle().take(12) {
            packed.clear();
            assert!(packer.pack(update, &mut packed));
            assert!(packed.len() <= update.len() + update.len() / 1000 + 64, "{} bytes", packed.len());
            unpacker.unpack(&packed, LIMIT, &mut unpacked).unwrap();
            assert!(unpacked == *update);
        }
    }

    #[test]
    fn memory_is_bounded_by_the_window() {
        let (mut packer, mut unpacker) = (StreamPacker::new(3), StreamUnpacker::new());
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        for seed in 0..20 {
            packed.clear();
            packer.pack(&noise(seed + 1, 500_000), &mut packed);
            unpacker.unpack(&packed, LIMIT, &mut unpacked).unwrap();
        }
        let window = 1 << WINDOW_LOG;
        assert!(packer.memory_bytes() < window + (2 << 20), "{} bytes", packer.memory_bytes());
        assert!(unpacker.memory_bytes() < window + (1 << 20), "{} bytes", unpacker.memory_bytes());
    }

    #[test]
    fn an_update_that_is_left_out_breaks_the_stream() {
        let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
        let mut unpacked = Vec::new();
        let mut packed = [Vec::new(), Vec::new(), Vec::new()];
        for (i, packed) in packed.iter_mut().enumerate() {
            packer.pack(&noise(i as u64 / 2 + 1, 400), packed);
        }
        // The second repeats the first, of which a viewer that began later knows nothing.
        assert_eq!(unpacker.unpack(&packed[1], LIMIT, &mut unpacked), Err(DecodeError::Stream));
        assert_eq!(unpacker.unpack(&packed[2], LIMIT, &mut unpacked), Err(DecodeError::Stream));
    }

    proptest! {
        #[test]
        fn updates_come_back_in_order(
            updates in proptest::collection::vec((0u8..4, any::<u64>(), 0usize..3000), 1..20),
            restarts in proptest::collection::vec(any::<bool>(), 20),
        ) {
            let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
            let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
            for ((kind, seed, len), restart) in updates.into_iter().zip(restarts) {
                let update = match kind {
                    0 => noise(seed, len),
                    1 => vec![seed as u8; len * 20],
                    2 => noise(seed, 40).repeat(len / 40),
                    _ => noise(seed % 3, len),
                };
                if restart && seed % 4 == 0 {
                    packer.restart();
                }
                packed.clear();
                if packer.pack(&update, &mut packed) {
                    prop_assert_eq!(unpacker.unpack(&packed, update.len(), &mut unpacked), Ok(()));
                    prop_assert!(unpacked == update);
                } else {
                    prop_assert!(packed.is_empty());
                }
            }
        }

        #[test]
        fn damage_is_an_error_or_other_bytes_but_never_more_than_allowed(
            len in 24usize..4000,
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
            let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                packed.clear();
                packer.pack(&noise(3, len).repeat(3), &mut packed);
                for (index, value) in &flips {
                    let at = index.index(packed.len());
                    packed[at] = *value;
                }
                if unpacker.unpack(&packed, 4096, &mut unpacked).is_ok() {
                    prop_assert!(unpacked.len() <= 4096);
                }
                prop_assert!(unpacked.capacity() <= 4096 + 256 * 1024);
            }
        }
    }
}
