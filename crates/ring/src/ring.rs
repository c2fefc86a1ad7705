//! Path 3/13: from driver/src/ring.c, to record.rs and the session's loop.
//! The reader's side of the record ring and of the versioned blocks in its header. Single consumer;
//! never blocks. Knows positions and words; never what a record is for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use rustix::net::SendFlags;
use thinc_region::Rect;

use crate::abi;
use crate::gamma::{self, OutputGamma};
use crate::mapping::{Access, Mapping, MappingError};
use crate::record::{DrawRecord, RecordError};
use crate::video::{self, VideoInfo, VideoMemory};

/// Records read before the shared `tail` is updated: a store to a shared cache line costs more than
/// a record.
const TAIL_BATCH: u64 = 256;

/// The record ring of one attachment.
#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    video: VideoMemory,
    wake: OwnedFd,
    /// To send RESUME when an overflowed ring has room again.
    control: Arc<OwnedFd>,
    /// The next record to read. Private: the shared `tail` follows in batches.
    position: u64,
    /// `position` as last stored in `tail`.
    released: u64,
    /// The driver's `head` as last loaded.
    head: u64,
}

/// What X clients do with the pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointerUse {
    /// The cursor is hidden, or all of its image is transparent.
    pub hidden: bool,
    /// An X client grabs it, and not by a button that is pressed.
    pub grabbed: bool,
    /// That grab confines it to a window other than the root.
    pub confined: bool,
    /// That X client has selected raw motion.
    pub raw: bool,
}

impl PointerUse {
    /// `enum thinc_pointer_use`.
    fn from_word(word: u32) -> PointerUse {
        PointerUse {
            hidden: word & 1 != 0,
            grabbed: word & 2 != 0,
            confined: word & 4 != 0,
            raw: word & 8 != 0,
        }
    }
}

/// The cursor shown by X.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorState {
    /// Counts images: an equal serial means an equal image. 0: there is none yet.
    pub serial: u32,
    /// False while an application hides it.
    pub visible: bool,
    /// Position of the hot spot when X wrote this. If `warps` has grown, an application set this
    /// position.
    pub x: i32,
    /// As `x`.
    pub y: i32,
    /// Counts positions set by a program or a resize. While it stays, only the user moves the
    /// pointer.
    pub warps: u32,
    /// What X clients do with the pointer.
    pub pointer_use: PointerUse,
    /// Hot spot inside the image.
    pub hot_x: u16,
    /// Hot spot inside the image.
    pub hot_y: u16,
    /// Of the image, at most 256.
    pub width: u16,
    /// Of the image, at most 256.
    pub height: u16,
    /// `width * height` pixels.
    pub image: CursorImage,
}

/// A cursor's pixels, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorImage {
    /// Premultiplied 0xAARRGGBB.
    Argb(Vec<u32>),
    /// An X core cursor. Its colours may change while its serial, and so its pixels, stay.
    TwoColors {
        /// 0x00RRGGBB.
        fore: u32,
        /// 0x00RRGGBB.
        back: u32,
        /// Which of them each pixel has.
        pixels: Vec<CursorPixel>,
    },
}

/// A pixel of a cursor of two colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorPixel {
    /// Transparent.
    Outside,
    /// The background colour.
    Back,
    /// The foreground colour.
    Fore,
}

impl CursorPixel {
    /// An unknown word means outside.
    fn from_word(word: u32) -> CursorPixel {
        match word {
            1 => CursorPixel::Back,
            2 => CursorPixel::Fore,
            _ => CursorPixel::Outside,
        }
    }
}

/// The screen's size and its outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Generation of the current framebuffer: read pixels only from the [`crate::Framebuffer`] with
    /// this generation.
    pub generation: u32,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// The enabled ones, in the driver's order.
    pub outputs: Vec<Output>,
}

/// One monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Left edge in the screen.
    pub x: i32,
    /// Top edge in the screen.
    pub y: i32,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
}

/// Counters since attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Records published.
    pub records: u64,
    /// Times that the ring was full.
    pub overflows: u64,
    /// Records replaced by dirty tiles.
    pub dropped: u64,
    /// With [`crate::XorgConf::oracle`]: sum of areas that miext/damage reported up to the last
    /// barrier.
    pub oracle_area: u64,
    /// With [`crate::XorgConf::oracle`]: area of their union.
    pub oracle_union: u64,
    /// Times that an X client was held to the clock of frames.
    pub holds: u64,
}

impl Output {
    /// From four words of a block. None: it is empty, or not in the largest screen.
    pub(crate) fn from_words(word: &dyn Fn(usize) -> u32, at: usize) -> Option<Output> {
        let [x, y, width, height] = [0, 1, 2, 3].map(|index| word(at + index));
        let is_valid = |at: u32, length: u32| {
            at <= abi::SCREEN_MAX && (1..=abi::SCREEN_MAX - at).contains(&length)
        };
        (is_valid(x, width) && is_valid(y, height)).then(|| Output {
            x: x.cast_signed(),
            y: y.cast_signed(),
            width,
            height,
        })
    }
}

impl Ring {
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        video: OwnedFd,
        wake: OwnedFd,
        control: Arc<OwnedFd>,
    ) -> Result<Ring, MappingError> {
        let mapping = Mapping::new(fd, abi::RING_BYTES, Access::ReadWrite)?;
        // A fresh ring starts at 0; `poll` clamps any other value.
        Ok(Ring {
            mapping,
            video: VideoMemory::new(video),
            wake,
            control,
            position: 0,
            released: 0,
            head: 0,
        })
    }

    /// True if the header has the version and size that this crate was built for.
    pub(crate) fn header_matches(&self) -> bool {
        let word = |at| self.mapping.word(at).load(Ordering::Relaxed);
        word(abi::HEADER_MAGIC) == abi::MAGIC
            && word(abi::HEADER_ABI_VERSION) == abi::ABI_VERSION
            && word(abi::HEADER_RING_BYTES) as usize == abi::RING_BYTES
    }

    /// The next record, or None if all published records have been read.
    pub fn poll(&mut self) -> Option<Result<DrawRecord, RecordError>> {
        self.poll_bytes().map(|bytes| DrawRecord::parse(&bytes))
    }

    /// As [`Ring::poll`], but the bytes as published, for a caller that stores them.
    pub fn poll_bytes(&mut self) -> Option<[u8; abi::RECORD_BYTES]> {
        if self.position == self.head {
            self.head = self.mapping.long(abi::HEADER_HEAD).load(Ordering::Acquire);
            if self.position == self.head {
                self.release_tail();
                return None;
            }
            let ahead = self.head.wrapping_sub(self.position);
            if ahead > abi::RECORDS {
                // An impossible head: the memory is corrupt. Read what a full ring would hold.
                self.position = self.head.wrapping_sub(abi::RECORDS);
            }
        }
        let at = abi::RECORDS_AT + (self.position % abi::RECORDS) as usize * abi::RECORD_BYTES;
        let mut bytes = [0; abi::RECORD_BYTES];
        for (slot, long) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.mapping.longs(at, 8)) {
            *slot = long.load(Ordering::Relaxed).to_ne_bytes();
        }
        self.position = self.position.wrapping_add(1);
        if self.position.wrapping_sub(self.released) >= TAIL_BATCH {
            self.release_tail();
        }
        Some(bytes)
    }

    fn release_tail(&mut self) {
        if self.released == self.position {
            return;
        }
        self.released = self.position;
        self.mapping.long(abi::HEADER_TAIL).store(self.position, Ordering::Release);
        // The driver sets overflow_pending, fences, and loads tail again: one side sees the other's
        // store.
        fence(Ordering::SeqCst);
        let pending = self.mapping.word(abi::HEADER_OVERFLOW_PENDING).load(Ordering::Relaxed) != 0;
        let left =
            self.mapping.long(abi::HEADER_HEAD).load(Ordering::Relaxed).wrapping_sub(self.position);
        // Only once the ring is empty: after OVERFLOW the driver can then go on for long.
        if pending && left == 0 {
            let resume = [abi::MESSAGE_RESUME.to_le_bytes(), [0; 4]].concat();
            // A full control socket holds other messages; the driver tries to resume after those
            // too.
            let _ = rustix::net::send(
                &*self.control,
                &resume,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            );
        }
    }

    /// The newest op that may have changed pixels. Load it after reading pixels: they may contain
    /// ops up to this one.
    pub fn begin(&self) -> u64 {
        fence(Ordering::Acquire);
        self.mapping.long(abi::HEADER_BEGIN).load(Ordering::Acquire)
    }

    /// The newest op whose records are all published, and which is therefore drawn: less than
    /// [`Ring::begin`] while X draws. None if records may be missing, or none is published yet.
    pub fn published_op(&self) -> Option<u64> {
        if self.mapping.word(abi::HEADER_OVERFLOW_PENDING).load(Ordering::Relaxed) != 0 {
            return None;
        }
        let newest = self.mapping.long(abi::HEADER_HEAD).load(Ordering::Acquire).checked_sub(1)?;
        let at = abi::RECORDS_AT + (newest % abi::RECORDS) as usize * abi::RECORD_BYTES;
        // If the driver overwrites this record meanwhile, the value belongs to a later op.
        Some(self.mapping.long(at).load(Ordering::Relaxed))
    }

    /// Readable once the driver has woken this reader.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Requests a wake-up. True: no record is pending, and the caller may wait for
    /// [`Ring::wake_fd`]. False: poll again.
    pub fn prepare_sleep(&self) -> bool {
        let sleeping = self.mapping.word(abi::HEADER_READER_SLEEPING);
        sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.mapping.long(abi::HEADER_HEAD).load(Ordering::Acquire) == self.position {
            return true;
        }
        sleeping.store(0, Ordering::Relaxed);
        false
    }

    /// Resets [`Ring::wake_fd`] after a wait.
    pub fn clear_wake(&self) {
        let mut counter = [0; 8];
        // EAGAIN: there was no wake-up, which is harmless.
        let _ = rustix::io::read(&self.wake, &mut counter);
        self.mapping.word(abi::HEADER_READER_SLEEPING).store(0, Ordering::Relaxed);
    }

    /// The cursor. None: X was writing it all the while, and says so afterwards.
    pub fn cursor(&self) -> Option<CursorState> {
        self.mapping.block(abi::CURSOR, |word| {
            let width = word(7).min(abi::CURSOR_MAX);
            let height = word(8).min(abi::CURSOR_MAX);
            let pixels = (0..(width * height) as usize).map(|i| word(abi::CURSOR_WORDS + i));
            let image = if word(10) == 0 {
                CursorImage::Argb(pixels.collect())
            } else {
                let (fore, back) = (word(11) & 0x00ff_ffff, word(12) & 0x00ff_ffff);
                CursorImage::TwoColors {
                    fore,
                    back,
                    pixels: pixels.map(CursorPixel::from_word).collect(),
                }
            };
            CursorState {
                serial: word(1),
                visible: word(2) != 0,
                x: word(3).cast_signed(),
                y: word(4).cast_signed(),
                hot_x: word(5).min(abi::CURSOR_MAX) as u16,
                hot_y: word(6).min(abi::CURSOR_MAX) as u16,
                width: width as u16,
                height: height as u16,
                warps: word(9),
                pointer_use: PointerUse::from_word(word(13)),
                image,
            }
        })
    }

    /// The screen's present size and outputs.
    pub fn geometry(&self) -> Geometry {
        let geometry = self.mapping.block(abi::GEOMETRY, |word| {
            let count = (word(5) as usize).min(abi::OUTPUTS_MAX);
            let outputs = (0..count).filter_map(|i| {
                Output::from_words(word, abi::GEOMETRY_OUTPUTS_WORD + i * abi::OUTPUT_WORDS)
            });
            Geometry {
                generation: word(1),
                width: word(2).min(abi::SCREEN_MAX),
                height: word(3).min(abi::SCREEN_MAX),
                outputs: outputs.collect(),
            }
        });
        geometry.unwrap_or_default()
    }

    /// What X clients have set for the outputs: a table for each, or none if no output changes a
    /// colour. None: X was writing it all the while, and says so afterwards.
    pub fn gamma(&self) -> Option<Vec<OutputGamma>> {
        gamma::read(&self.mapping)
    }

    /// Lock keys of the X keyboard: bit 0 caps, 1 num, 2 scroll.
    pub fn leds(&self) -> u32 {
        self.mapping.block(abi::GEOMETRY, |word| word(6)).unwrap_or_default()
    }

    /// To be called after OVERFLOW: takes all dirty tiles of the screen, as rectangles that may
    /// extend beyond its right and bottom edges.
    pub fn take_dirty_tiles(&mut self, mut found: impl FnMut(Rect)) {
        if self.mapping.word(abi::HEADER_DIRTY_ANY).swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        let words_across = abi::TILES_ACROSS / 64;
        for (index, word) in self.mapping.longs(abi::DIRTY, abi::DIRTY_WORDS).iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::AcqRel);
            let y1 = (index / words_across) as i32 * abi::TILE;
            let left = (index % words_across) as i32 * 64 * abi::TILE;
            while bits != 0 {
                // One rectangle per run of tiles.
                let start = bits.trailing_zeros();
                let run = (bits >> start).trailing_ones();
                let mask = if run == 64 { u64::MAX } else { ((1 << run) - 1) << start };
                bits &= !mask;
                let x1 = left + start.cast_signed() * abi::TILE;
                found(Rect { x1, y1, x2: x1 + run.cast_signed() * abi::TILE, y2: y1 + abi::TILE });
            }
        }
    }

    /// Enables records of ops on pixmaps. Off after attach.
    pub fn set_want_offscreen(&self, wanted: bool) {
        self.mapping.word(abi::HEADER_WANT_OFFSCREEN).store(u32::from(wanted), Ordering::Relaxed);
    }

    /// Enables copies of XVideo frames in their original format, for [`Ring::video_frame`]. Off
    /// after attach.
    pub fn set_want_video(&self, wanted: bool) {
        self.mapping.word(abi::HEADER_WANT_VIDEO).store(u32::from(wanted), Ordering::Relaxed);
    }

    /// Sets the clock of frames to so many ticks a second, [`abi::FRAME_RATE_MIN`] to
    /// [`abi::FRAME_RATE_MAX`]: X clients that put whole images in a row are held to it. The
    /// most after attach.
    pub fn set_frame_rate(&self, rate: u32) {
        self.mapping.word(abi::HEADER_FRAME_RATE).store(rate, Ordering::Relaxed);
    }

    /// Copies the newest complete frame of a port, all [`VideoLayout::bytes`] of it, into `data`,
    /// whose allocation is reused. Like pixels, it may be newer than the records read so far: load
    /// [`Ring::begin`] afterwards. None if there is no frame, the port was stopped, or there is no
    /// memory for it: the framebuffer has its pixels.
    ///
    /// [`VideoLayout::bytes`]: crate::VideoLayout::bytes
    pub fn video_frame(&self, port: u16, data: &mut Vec<u8>) -> Option<VideoInfo> {
        self.video.frame(&self.mapping, port, data)
    }

    /// True from a port's first frame until it stops. It agrees with the records of frames and
    /// VIDEO_STOPPED, and is valid after an overflow too.
    pub fn video_playing(&self, port: u16) -> bool {
        video::playing(&self.mapping, port)
    }

    /// Counters since attach.
    pub fn stats(&self) -> RingStats {
        let long = |at| self.mapping.long(at).load(Ordering::Relaxed);
        RingStats {
            records: long(abi::HEADER_HEAD),
            overflows: long(abi::HEADER_OVERFLOWS),
            dropped: long(abi::HEADER_DROPPED),
            oracle_area: long(abi::HEADER_ORACLE_AREA),
            oracle_union: long(abi::HEADER_ORACLE_UNION),
            holds: long(abi::HEADER_HOLDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    fn ring() -> Ring {
        let memory = memfd_create("ring", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&memory, abi::RING_BYTES as u64).unwrap();
        fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
        let event = || eventfd(0, EventfdFlags::empty()).unwrap();
        Ring::map(memory.as_fd(), event(), event(), Arc::new(event())).unwrap()
    }

    #[test]
    fn the_newest_published_op_never_passes_the_newest_begun_op() {
        let ring = ring();
        let put = |at, value| ring.mapping.long(at).store(value, Ordering::Relaxed);
        assert_eq!(ring.published_op(), None, "no record is published yet");
        put(abi::HEADER_BEGIN, 7);
        put(abi::RECORDS_AT, 6);
        put(abi::HEADER_HEAD, 1);
        assert_eq!((ring.published_op(), ring.begin()), (Some(6), 7), "op 7 is still being drawn");
        put(abi::RECORDS_AT + (abi::RECORDS as usize - 1) * abi::RECORD_BYTES, 9);
        put(abi::HEADER_HEAD, 3 * abi::RECORDS);
        assert_eq!(ring.published_op(), Some(9), "the newest record is in the last slot");
        ring.mapping.word(abi::HEADER_OVERFLOW_PENDING).store(1, Ordering::Relaxed);
        assert_eq!(ring.published_op(), None, "records may be missing");
    }
    /// Places of outputs as any process that has the memory may write them, and whether each is
    /// read.
    const PLACES: [([u32; 4], bool); 9] = [
        ([0, 0, 640, 480], true),
        ([16383, 0, 1, 16384], true),
        ([100, 16000, 200, 384], true),
        ([0, 0, 0, 480], false),
        ([0, 0, 640, 0], false),
        ([i32::MAX as u32, 0, 640, 480], false),
        ([0, (-1_i32) as u32, 640, 480], false),
        ([16384, 0, u32::MAX, 480], false),
        ([100, 0, 640, 16385], false),
    ];

    /// Writes the places to a block from this word, which repeats at this distance.
    fn put_places(ring: &Ring, block: usize, first: usize, words: usize) {
        for (index, (place, _)) in PLACES.iter().enumerate() {
            for (number, value) in place.iter().enumerate() {
                let at = block + (first + index * words + number) * 4;
                ring.mapping.word(at).store(*value, Ordering::Relaxed);
            }
        }
    }

    fn valid() -> Vec<[u32; 4]> {
        PLACES.iter().filter(|(_, is_valid)| *is_valid).map(|(place, _)| *place).collect()
    }

    fn words(output: &Output) -> [u32; 4] {
        [output.x.cast_unsigned(), output.y.cast_unsigned(), output.width, output.height]
    }

    #[test]
    fn outputs_that_are_in_no_screen_are_left_out() {
        let ring = ring();
        put_places(&ring, abi::GEOMETRY, abi::GEOMETRY_OUTPUTS_WORD, abi::OUTPUT_WORDS);
        ring.mapping.word(abi::GEOMETRY + 5 * 4).store(99, Ordering::Relaxed);
        let found: Vec<_> = ring.geometry().outputs.iter().map(words).collect();
        assert_eq!(found, valid());
    }

    #[test]
    fn tables_of_such_outputs_are_left_out_too() {
        let ring = ring();
        put_places(&ring, abi::GAMMA, abi::GAMMA_TABLES_WORD, abi::GAMMA_TABLE_WORDS);
        let put =
            |at, value| ring.mapping.word(abi::GAMMA + at * 4).store(value, Ordering::Relaxed);
        // The second has other colours.
        put(abi::GAMMA_TABLES_WORD + abi::GAMMA_TABLE_WORDS + 4, 0x0403_0201);
        let tables = || {
            let tables = ring.gamma()?;
            Some(tables.iter().map(|table| words(&table.output)).collect::<Vec<_>>())
        };
        assert_eq!(tables(), Some(Vec::new()), "a count of 0");
        put(2, 99);
        assert_eq!(tables(), Some(valid()), "no more than there is room for");
        let first = |index: usize| ring.gamma().unwrap()[index].channels[0][..5].to_vec();
        assert_eq!((first(0), first(1)), (vec![0; 5], vec![1, 2, 3, 4, 0]), "with its own colours");
        put(0, 7);
        assert_eq!(tables(), None, "it is being written");
        put(0, 8);
        assert_eq!(tables(), Some(valid()));
    }
}
