//! Path 10/13: from session-core/viewer.rs with an update about to be sent, to its message.
//! Packs the commands of a connection's updates with one zstd context, whose window has the updates
//! sent before. codec-dec/stream.rs is the inverse.
//! Knows bytes and their order, and which encodings are compressed already.

use thinc_protocol::command::{Command, CommandReader, Compression, Encoding};
use thinc_protocol::limits::{PACKED_WINDOW_LOG_MAX, SCREEN_EDGE_MAX, UNPACKED_BYTES_MAX};
use thinc_protocol::session::Packed;
use thinc_region::Size;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

/// 24 bytes: for fewer, a block's header and codes outweigh what repeats.
const PACKED_MIN: usize = 24;
/// 16: an update is packed only if more than a 16th of it is not compressed yet. At the fastest
/// levels, for paths where time counts more than bytes, a quarter: zstd takes as long for what it
/// cannot compress.
const PACKED_PART_MAX: usize = 16;
const PACKED_PART_MAX_FAST: usize = 4;
const LEVEL_FAST: i32 = 1;
/// 2 MiB of window, some twenty pages of text as operations: text takes 1 (screens) to 9 % (300 x
/// 200) fewer bytes than with 1 MiB, for 1 MiB more memory at either end. 4 MiB save a further 0 to
/// 2 %.
const WINDOW_LOG: u32 = 21;
/// 512 KiB of hash table: level 1's default of 64 KiB forgets a glyph before it repeats (10 to 15 %
/// more bytes for text).
const HASH_LOG: u32 = 17;
const _: () = assert!(WINDOW_LOG <= PACKED_WINDOW_LOG_MAX);

/// One connection's compression context.
pub struct StreamPacker {
    zstd: CCtx<'static>,
    level: i32,
    /// The next packed update resets the context.
    reset_next: bool,
}

impl std::fmt::Debug for StreamPacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamPacker(level {}, {} bytes)", self.level, self.zstd.sizeof())
    }
}

impl StreamPacker {
    /// An empty context at zstd's `level`.
    pub fn new(level: i32) -> StreamPacker {
        StreamPacker { zstd: CCtx::create(), level, reset_next: true }
    }

    /// Changes the level from the next update on, which resets the context.
    pub fn set_level(&mut self, level: i32) {
        self.reset_next |= self.level != level;
        self.level = level;
    }

    /// Resets the context with the next packed update. Needed if a packed update was not sent.
    pub fn restart(&mut self) {
        self.reset_next = true;
    }

    /// Memory of the context in bytes, including its window.
    pub fn memory_bytes(&self) -> usize {
        self.zstd.sizeof()
    }

    /// Appends the packed commands of one update and returns their description; or appends nothing
    /// and returns `None`, if they are too few or almost all compressed already.
    ///
    /// Packed updates must be sent, in the order of packing.
    pub fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed> {
        if !(PACKED_MIN..=UNPACKED_BYTES_MAX).contains(&commands.len())
            || !is_worth_packing(commands, self.level)
        {
            return None;
        }
        let packed =
            Packed { len: commands.len() as u32, reset: std::mem::take(&mut self.reset_next) };
        if packed.reset {
            self.begin();
        }
        let mut input = InBuffer::around(commands);
        loop {
            let at = out.len();
            // Text shrinks to less than a quarter; otherwise the loop continues.
            out.resize(at + commands.len() / 4 + 64, 0);
            let mut output = OutBuffer::around_pos(&mut out[..], at);
            let left = self
                .zstd
                .compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush)
                .expect("compression into a large enough buffer must not fail");
            let end = output.pos();
            out.truncate(end);
            if left == 0 && input.pos() == commands.len() {
                return Some(packed);
            }
        }
    }

    fn begin(&mut self) {
        let parameters = [
            CParameter::CompressionLevel(self.level),
            CParameter::WindowLog(WINDOW_LOG),
            CParameter::HashLog(HASH_LOG),
            CParameter::ContentSizeFlag(false),
        ];
        self.zstd
            .reset(ResetDirective::SessionAndParameters)
            .expect("a context can always be reset");
        for parameter in parameters {
            self.zstd.set_parameter(parameter).expect("zstd must accept these parameters");
        }
    }
}

/// True if enough of the commands is not compressed yet; compressed data would only displace text
/// from the window.
fn is_worth_packing(commands: &[u8], level: i32) -> bool {
    // The framebuffer's size is unknown here; none is larger than this.
    let any = Size { width: SCREEN_EDGE_MAX, height: SCREEN_EDGE_MAX };
    let packed_len = |command: &Command<'_>| match command {
        Command::Raw {
            encoding: Encoding::PredictedZstd | Encoding::Residuals | Encoding::Jpeg,
            data,
            ..
        }
        | Command::Bitmap { compression: Compression::Zstd, data, .. } => data.len(),
        _ => 0,
    };
    let packed: usize =
        CommandReader::new(commands, any).flatten().map(|command| packed_len(&command)).sum();
    let part = if level <= LEVEL_FAST { PACKED_PART_MAX_FAST } else { PACKED_PART_MAX };
    (commands.len() - packed) * part > commands.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thinc_codec_dec::DecodeError;
    use thinc_codec_dec::stream::StreamUnpacker;

    use super::*;

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
    fn repeated_updates_are_cheap() {
        let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
        let glyph = noise(7, 400);
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        let mut lens = Vec::new();
        for _ in 0..3 {
            packed.clear();
            let how = packer.pack(&glyph, &mut packed).expect("it must be packed");
            unpacker.unpack(how, &packed, &mut unpacked).unwrap();
            assert_eq!(unpacked, glyph);
            lens.push(packed.len());
        }
        assert!(lens[0] > 400 && lens[0] < 420, "noise does not shrink: {lens:?}");
        assert!(lens[1] < 20 && lens[2] < 20, "{lens:?}");
    }

    #[test]
    fn a_restart_resets_both_contexts() {
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
            let how = packer.pack(&glyph, &mut packed).expect("it must be packed");
            assert_eq!(how.reset, matches!(round, 0 | 2 | 4), "round {round}");
            assert_eq!(packed.len() > 400, how.reset, "round {round}: {} bytes", packed.len());
            unpacker.unpack(how, &packed, &mut unpacked).unwrap();
            assert_eq!(unpacked, glyph);
        }
    }

    #[test]
    fn compressed_data_is_not_packed_again() {
        let (photograph, text) = (noise(1, 9000), noise(2, 400));
        let rect = thinc_region::Rect::at(16000, 9, 300, 200);
        for (encoding, level, text_times, packs) in [
            (Encoding::Residuals, 3, 1, false),
            (Encoding::Jpeg, 3, 1, false),
            (Encoding::PredictedZstd, 3, 1, false),
            (Encoding::Predicted, 3, 1, true),
            (Encoding::Residuals, 3, 2, true),
            (Encoding::Jpeg, 1, 2, false),
            (Encoding::Jpeg, 1, 6, false),
            (Encoding::Jpeg, 1, 8, true),
        ] {
            let mut packer = StreamPacker::new(level);
            let (mut commands, mut out) = (Vec::new(), Vec::new());
            let mut writer = thinc_protocol::command::CommandWriter::new(&mut commands);
            writer.raw(rect, encoding, &photograph);
            (0..text_times).for_each(|_| writer.raw(rect, Encoding::Predicted, &text));
            assert_eq!(
                packer.pack(&commands, &mut out).is_some(),
                packs,
                "{encoding:?}, {text_times} times text at level {level}"
            );
        }
    }

    #[test]
    fn few_bytes_are_not_packed() {
        let mut packer = StreamPacker::new(1);
        let mut out = vec![1, 2];
        assert_eq!(packer.pack(&[0; PACKED_MIN - 1], &mut out), None);
        assert_eq!(out, [1, 2]);
    }

    #[test]
    fn repetition_beyond_the_window_round_trips() {
        let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        let updates: Vec<Vec<u8>> = (0..5).map(|seed| noise(seed + 1, 700_000)).collect();
        for update in updates.iter().cycle().take(12) {
            packed.clear();
            let how = packer.pack(update, &mut packed).expect("it must be packed");
            assert!(
                packed.len() <= update.len() + update.len() / 1000 + 64,
                "{} bytes",
                packed.len()
            );
            unpacker.unpack(how, &packed, &mut unpacked).unwrap();
            assert!(unpacked == *update);
        }
    }

    #[test]
    fn memory_is_bounded_by_the_window() {
        let (mut packer, mut unpacker) = (StreamPacker::new(3), StreamUnpacker::new());
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        for seed in 0..20 {
            packed.clear();
            let how =
                packer.pack(&noise(seed + 1, 500_000), &mut packed).expect("it must be packed");
            unpacker.unpack(how, &packed, &mut unpacked).unwrap();
        }
        let window = 1 << WINDOW_LOG;
        assert!(packer.memory_bytes() < window + (2 << 20), "{} bytes", packer.memory_bytes());
        assert!(unpacker.memory_bytes() < window + (1 << 20), "{} bytes", unpacker.memory_bytes());
    }

    #[test]
    fn a_missing_update_breaks_the_stream() {
        let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
        let mut unpacked = Vec::new();
        let mut updates = Vec::new();
        for seed in [1, 1, 2] {
            let mut packed = Vec::new();
            updates.push((
                packer.pack(&noise(seed, 400), &mut packed).expect("it must be packed"),
                packed,
            ));
        }
        // The second refers to the first, which this unpacker has not seen.
        for (how, packed) in &updates[1..] {
            assert_eq!(unpacker.unpack(*how, packed, &mut unpacked), Err(DecodeError::Stream));
        }
        // Only an update with a reset can follow an error.
        unpacker.unpack(updates[0].0, &updates[0].1, &mut unpacked).unwrap();
        assert_eq!(unpacked, noise(1, 400));
    }

    #[test]
    fn a_wrong_unpacked_length_is_an_error() {
        let update = noise(1, 400_000);
        let mut unpacked = Vec::new();
        for (len, expected) in [
            (400_000, Ok(())),
            (399_999, Err(DecodeError::Stream)),
            (400_001, Err(DecodeError::Stream)),
            (1, Err(DecodeError::Stream)),
            (0, Err(DecodeError::StreamSize(0))),
            (UNPACKED_BYTES_MAX as u32, Err(DecodeError::Stream)),
            (
                UNPACKED_BYTES_MAX as u32 + 1,
                Err(DecodeError::StreamSize(UNPACKED_BYTES_MAX as u64 + 1)),
            ),
        ] {
            let (mut packer, mut packed) = (StreamPacker::new(1), Vec::new());
            let how = packer.pack(&update, &mut packed).expect("it must be packed");
            let mut unpacker = StreamUnpacker::new();
            assert_eq!(
                unpacker.unpack(Packed { len, ..how }, &packed, &mut unpacked),
                expected,
                "{len}"
            );
            let whole = unpacker.unpack(how, &packed, &mut unpacked);
            assert_eq!(whole, Ok(()), "an update with a reset can be read after any error");
            assert_eq!(
                unpacker.unpack(how, &packed[..packed.len() - 1], &mut unpacked),
                Err(DecodeError::Stream)
            );
        }
    }

    #[test]
    fn a_decompression_bomb_takes_bounded_memory() {
        let (mut packer, mut packed, mut unpacked) = (StreamPacker::new(1), Vec::new(), Vec::new());
        let how = packer.pack(&vec![0; 10 << 20], &mut packed).expect("it must be packed");
        assert!(packed.len() < 4096);
        let small = Packed { len: 5000, ..how };
        assert_eq!(
            StreamUnpacker::new().unpack(small, &packed, &mut unpacked),
            Err(DecodeError::Stream)
        );
        assert!(unpacked.capacity() <= 2 * 5001, "{} bytes", unpacked.capacity());
        // Nor does a short update with a large declared length.
        let long = Packed { len: UNPACKED_BYTES_MAX as u32, ..how };
        assert!(StreamUnpacker::new().unpack(long, &packed[..20], &mut unpacked).is_err());
        assert!(unpacked.capacity() <= 1 << 20, "{} bytes", unpacked.capacity());
    }

    #[test]
    fn a_frame_with_a_larger_window_is_refused() {
        let mut zstd = CCtx::create();
        zstd.set_parameter(CParameter::WindowLog(PACKED_WINDOW_LOG_MAX + 1)).unwrap();
        let mut packed = vec![0; 1000];
        let mut output = OutBuffer::around(&mut packed[..]);
        let mut input = InBuffer::around(&[7; 300]);
        zstd.compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush).unwrap();
        let end = output.pos();
        let how = Packed { len: 300, reset: true };
        let unpacked = StreamUnpacker::new().unpack(how, &packed[..end], &mut Vec::new());
        assert_eq!(unpacked, Err(DecodeError::Stream));
    }

    proptest! {
        #[test]
        fn updates_round_trip_in_order(
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
                if let Some(how) = packer.pack(&update, &mut packed) {
                    prop_assert_eq!(unpacker.unpack(how, &packed, &mut unpacked), Ok(()));
                    prop_assert!(unpacked == update);
                } else {
                    prop_assert!(packed.is_empty());
                }
            }
        }

        #[test]
        fn damaged_bytes_yield_an_error_or_the_declared_length(
            len in 24usize..4000,
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let (mut packer, mut unpacker) = (StreamPacker::new(1), StreamUnpacker::new());
            let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                packed.clear();
                let how = packer.pack(&noise(3, len).repeat(3), &mut packed).expect("packed");
                for (index, value) in &flips {
                    let at = index.index(packed.len());
                    packed[at] = *value;
                }
                if unpacker.unpack(how, &packed, &mut unpacked).is_ok() {
                    prop_assert_eq!(unpacked.len(), len * 3);
                }
            }
        }
    }
}
