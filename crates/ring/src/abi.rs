//! Path 3/13: beside record.rs and ring.rs, the numbers of driver/include/ring_abi.h.
//! Both files have the same numbers: the driver asserts its offsets at compile time, and the test
//! here reads the header. Knows offsets only.

pub(crate) const MAGIC: u32 = 0x434e_4854;
/// Version of everything that driver and session share. A trace names it too, because it holds
/// records.
pub const ABI_VERSION: u32 = 8;

pub(crate) const RECORDS: u64 = 32768;
/// Bytes of one record.
pub const RECORD_BYTES: usize = 64;
/// Side of a dirty tile in pixels.
pub(crate) const TILE: i32 = 64;
pub(crate) const TILES_ACROSS: usize = 256;
/// Largest width and height of the screen in pixels.
pub(crate) const SCREEN_MAX: u32 = 16384;
/// Outputs (monitors) in the driver's pool.
pub(crate) const OUTPUTS_MAX: usize = 16;
/// Largest width and height of a cursor image in pixels.
pub(crate) const CURSOR_MAX: u32 = 256;
/// Fewest ticks a second of the clock of frames.
pub const FRAME_RATE_MIN: u32 = 10;
/// Most ticks a second of the clock of frames.
pub const FRAME_RATE_MAX: u32 = 60;

pub(crate) const HEADER_MAGIC: usize = 0;
pub(crate) const HEADER_ABI_VERSION: usize = 4;
pub(crate) const HEADER_RING_BYTES: usize = 8;
pub(crate) const HEADER_HEAD: usize = 64;
pub(crate) const HEADER_TAIL: usize = 128;
pub(crate) const HEADER_BEGIN: usize = 192;
pub(crate) const HEADER_READER_SLEEPING: usize = 256;
pub(crate) const HEADER_WANT_OFFSCREEN: usize = 260;
pub(crate) const HEADER_WANT_VIDEO: usize = 264;
pub(crate) const HEADER_FRAME_RATE: usize = 268;
pub(crate) const HEADER_OVERFLOWS: usize = 320;
pub(crate) const HEADER_DROPPED: usize = 328;
pub(crate) const HEADER_OVERFLOW_PENDING: usize = 336;
pub(crate) const HEADER_DIRTY_ANY: usize = 340;
pub(crate) const HEADER_ORACLE_AREA: usize = 344;
pub(crate) const HEADER_ORACLE_UNION: usize = 352;
pub(crate) const HEADER_HOLDS: usize = 360;

/// The geometry block: 4-byte words from here. The first one is its version.
pub(crate) const GEOMETRY: usize = 384;
pub(crate) const GEOMETRY_WORDS: usize = 104;
pub(crate) const GEOMETRY_OUTPUTS_WORD: usize = 8;
pub(crate) const OUTPUT_WORDS: usize = 6;

/// The blocks of the video ports: 16 words each. The first one is its version.
pub(crate) const VIDEO: usize = 1024;
pub(crate) const VIDEO_BLOCK_WORDS: usize = 16;
pub(crate) const VIDEO_WRITING_WORD: usize = 12;
/// Ports of XVideo.
pub(crate) const VIDEO_PORTS: u32 = 16;
/// Largest width and height of a frame of XVideo.
pub const VIDEO_EDGE_MAX: u32 = 8192;
pub(crate) const VIDEO_BUFFERS: u32 = 2;
pub(crate) const VIDEO_BUFFER_BYTES: usize = 134_217_728;

/// The cursor block: 16 words, then the image.
pub(crate) const CURSOR: usize = 4096;
pub(crate) const CURSOR_WORDS: usize = 16;

/// The gamma block: 4 words, then the tables, each of 4 words and 3 times [`GAMMA_ENTRIES`] bytes.
pub(crate) const GAMMA: usize = 270_336;
pub(crate) const GAMMA_TABLES_WORD: usize = 4;
pub(crate) const GAMMA_TABLE_WORDS: usize = 4 + 3 * GAMMA_ENTRIES / 4;
/// Entries of one channel of a gamma table.
pub const GAMMA_ENTRIES: usize = 256;

pub(crate) const DIRTY: usize = 286_720;
pub(crate) const DIRTY_WORDS: usize = TILES_ACROSS * TILES_ACROSS / 64;
pub(crate) const RECORDS_AT: usize = 294_912;
pub(crate) const RING_BYTES: usize = 2_392_064;

const _: () = assert!(GEOMETRY + GEOMETRY_WORDS * 4 <= VIDEO);
const _: () = assert!(VIDEO + VIDEO_PORTS as usize * VIDEO_BLOCK_WORDS * 4 <= CURSOR);
const _: () = assert!(GEOMETRY_OUTPUTS_WORD + OUTPUTS_MAX * OUTPUT_WORDS == GEOMETRY_WORDS);
const _: () = assert!(CURSOR + CURSOR_WORDS * 4 + (CURSOR_MAX * CURSOR_MAX * 4) as usize <= GAMMA);
const _: () = assert!(GAMMA + (GAMMA_TABLES_WORD + OUTPUTS_MAX * GAMMA_TABLE_WORDS) * 4 <= DIRTY);
const _: () = assert!(DIRTY + DIRTY_WORDS * 8 == RECORDS_AT);
const _: () = assert!(RECORDS_AT + RECORDS as usize * RECORD_BYTES == RING_BYTES);
const _: () = assert!(TILES_ACROSS * TILE as usize == SCREEN_MAX as usize);

pub(crate) const MESSAGE_ATTACH: u32 = 1;
pub(crate) const MESSAGE_SET_OUTPUTS: u32 = 2;
pub(crate) const MESSAGE_BARRIER: u32 = 3;
pub(crate) const MESSAGE_RESUME: u32 = 4;
pub(crate) const MESSAGE_HELLO: u32 = 16;
pub(crate) const MESSAGE_FRAMEBUFFER: u32 = 17;
pub(crate) const MESSAGE_OUTPUTS_APPLIED: u32 = 18;
pub(crate) const MESSAGE_ERROR: u32 = 19;
pub(crate) const HELLO_BYTES: usize = 48;
pub(crate) const HELLO_FRAMEBUFFER: usize = 16;
pub(crate) const FRAMEBUFFER_BYTES: usize = 32;
pub(crate) const WORD_BYTES: usize = 8;
pub(crate) const ERROR_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    /// The header is the other half of the contract: its definitions must equal those here.
    #[test]
    fn the_constants_equal_those_of_the_c_header() {
        let header = include_str!("../../../driver/include/ring_abi.h");
        let defined = |name: &str| -> u64 {
            let line = header
                .lines()
                .find(|line| {
                    line.strip_prefix("#define ")
                        .is_some_and(|rest| rest.starts_with(&format!("{name} ")))
                })
                .unwrap_or_else(|| panic!("{name} is not defined in ring_abi.h"));
            let word = line.split_whitespace().nth(2).unwrap().trim_end_matches('u');
            word.strip_prefix("0x")
                .map_or_else(|| word.parse().unwrap(), |hex| u64::from_str_radix(hex, 16).unwrap())
        };
        assert_eq!(defined("THINC_ABI_MAGIC"), u64::from(super::MAGIC));
        assert_eq!(defined("THINC_ABI_VERSION"), u64::from(super::ABI_VERSION));
        assert_eq!(defined("THINC_RECORDS"), super::RECORDS);
        assert_eq!(defined("THINC_RECORD_BYTES"), super::RECORD_BYTES as u64);
        assert_eq!(defined("THINC_TILE"), super::TILE as u64);
        assert_eq!(defined("THINC_TILES_ACROSS"), super::TILES_ACROSS as u64);
        assert_eq!(defined("THINC_SCREEN_MAX"), u64::from(super::SCREEN_MAX));
        assert_eq!(defined("THINC_OUTPUTS"), super::OUTPUTS_MAX as u64);
        assert_eq!(defined("THINC_CURSOR_MAX"), u64::from(super::CURSOR_MAX));
        assert_eq!(defined("THINC_VIDEO_PORTS"), u64::from(super::VIDEO_PORTS));
        assert_eq!(defined("THINC_VIDEO_EDGE_MAX"), u64::from(super::VIDEO_EDGE_MAX));
        assert_eq!(defined("THINC_VIDEO_BUFFERS"), u64::from(super::VIDEO_BUFFERS));
        assert_eq!(defined("THINC_VIDEO_BUFFER_BYTES"), super::VIDEO_BUFFER_BYTES as u64);
        assert_eq!(defined("THINC_PEN_FRACTION"), u64::from(crate::PEN_FRACTION));
        assert_eq!(defined("THINC_FRAME_RATE_MIN"), u64::from(super::FRAME_RATE_MIN));
        assert_eq!(defined("THINC_FRAME_RATE_MAX"), u64::from(super::FRAME_RATE_MAX));
        assert_eq!(defined("THINC_CURSOR_OFFSET"), super::CURSOR as u64);
        assert_eq!(defined("THINC_GAMMA_ENTRIES"), super::GAMMA_ENTRIES as u64);
        assert_eq!(defined("THINC_GAMMA_OFFSET"), super::GAMMA as u64);
        assert_eq!(defined("THINC_DIRTY_OFFSET"), super::DIRTY as u64);
        assert_eq!(defined("THINC_RECORDS_OFFSET"), super::RECORDS_AT as u64);
        assert_eq!(defined("THINC_RING_BYTES"), super::RING_BYTES as u64);
        for (field, at) in [
            ("head", super::HEADER_HEAD),
            ("tail", super::HEADER_TAIL),
            ("begin", super::HEADER_BEGIN),
            ("reader_sleeping", super::HEADER_READER_SLEEPING),
            ("want_offscreen", super::HEADER_WANT_OFFSCREEN),
            ("want_video", super::HEADER_WANT_VIDEO),
            ("frame_rate", super::HEADER_FRAME_RATE),
            ("video", super::VIDEO),
            ("overflows", super::HEADER_OVERFLOWS),
            ("overflow_pending", super::HEADER_OVERFLOW_PENDING),
            ("dirty_any", super::HEADER_DIRTY_ANY),
            ("oracle_area", super::HEADER_ORACLE_AREA),
            ("holds", super::HEADER_HOLDS),
            ("geometry", super::GEOMETRY),
        ] {
            let assertion = format!("THINC_AT(thinc_header, {field}, {at});");
            assert!(header.contains(&assertion), "ring_abi.h lacks {assertion}");
        }
    }
}
