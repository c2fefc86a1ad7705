//! Path 3/13: from the driver's framebuffer memfd, to session-server's snapshots.
//! The screen as X draws it, one memfd per generation. Pixels are copied out in a race with X, by
//! design: the reader loads `Ring::begin` afterwards to learn which ops the copy may contain. Knows
//! no records.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use thinc_region::Rect;

use crate::abi::SCREEN_MAX;
use crate::mapping::{Access, Mapping, MappingError};

/// One framebuffer: 32 bits per pixel, 0x00RRGGBB in a little-endian word, the top byte undefined.
#[derive(Debug)]
pub struct Framebuffer {
    mapping: Mapping,
    generation: u32,
    width: u32,
    height: u32,
    stride_bytes: usize,
}

impl Framebuffer {
    /// `layout` is generation, width, height, stride in bytes, as in `struct thinc_framebuffer`.
    pub(crate) fn map(fd: BorrowedFd<'_>, layout: [u32; 4]) -> Result<Framebuffer, MappingError> {
        let [generation, width, height, stride_bytes] = layout;
        let needed = u64::from(stride_bytes) * u64::from(height);
        let valid = (1..=SCREEN_MAX).contains(&width)
            && (1..=SCREEN_MAX).contains(&height)
            && stride_bytes.is_multiple_of(8)
            && u64::from(stride_bytes) >= u64::from(width) * 4;
        let bytes = usize::try_from(needed).unwrap_or(0);
        if !valid || bytes == 0 {
            return Err(MappingError::TooSmall { has: 0, needed });
        }
        let mapping = Mapping::new(fd, bytes, Access::Read)?;
        Ok(Framebuffer { mapping, generation, width, height, stride_bytes: stride_bytes as usize })
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Identifies this framebuffer; [`crate::Geometry::generation`] is that of the current one.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Copies `rect` into `dst`, with rows `dst_stride_px` apart, and clears the top bytes. Load
    /// `Ring::begin` afterwards.
    ///
    /// # Panics If `rect` is not inside the framebuffer, or its rows do not fit into `dst`.
    pub fn read_rect(&self, rect: Rect, dst: &mut [u32], dst_stride_px: usize) {
        if rect.is_empty() {
            return;
        }
        assert!(
            rect.x1 >= 0
                && rect.y1 >= 0
                && rect.x2 <= self.width.cast_signed()
                && rect.y2 <= self.height.cast_signed(),
            "{rect:?} is outside a framebuffer of {}x{}",
            self.width,
            self.height
        );
        let width = (rect.x2 - rect.x1) as usize;
        let height = (rect.y2 - rect.y1) as usize;
        assert!(
            width <= dst_stride_px && (height - 1) * dst_stride_px + width <= dst.len(),
            "{rect:?} overflows dst"
        );
        for (row, line) in dst.chunks_mut(dst_stride_px).take(height).enumerate() {
            let at = (rect.y1 as usize + row) * self.stride_bytes + rect.x1 as usize * 4;
            self.read_row(at, &mut line[..width]);
        }
        // Orders the copy before the caller's load of `begin`.
        std::sync::atomic::fence(Ordering::Acquire);
    }

    /// Loads two pixels at a time: as fast as memory, where the compiler may not use wider loads
    /// for atomics.
    fn read_row(&self, at: usize, line: &mut [u32]) {
        let odd = usize::from(!at.is_multiple_of(8));
        let (first, line) = line.split_at_mut(odd);
        if let Some(first) = first.first_mut() {
            *first = self.mapping.word(at).load(Ordering::Relaxed) & 0x00ff_ffff;
        }
        let at = at + odd * 4;
        let (pairs, last) = line.as_chunks_mut::<2>();
        let longs = self.mapping.longs(at, pairs.len());
        for (pair, long) in pairs.iter_mut().zip(longs) {
            let both = long.load(Ordering::Relaxed) & 0x00ff_ffff_00ff_ffff;
            // The lower address is the low half: thinc runs on little-endian machines only
            // (asserted below).
            *pair = [both as u32, (both >> 32) as u32];
        }
        if let Some(last) = last.first_mut() {
            *last = self.mapping.word(at + pairs.len() * 8).load(Ordering::Relaxed) & 0x00ff_ffff;
        }
    }
}

const _: () =
    assert!(cfg!(target_endian = "little"), "records and pixels are shared in little-endian order");
