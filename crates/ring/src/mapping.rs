//! Path 3/13: used by ring.rs, framebuffer.rs and video.rs.
//! Memory that another process may write at any time: every access is an atomic load or store of a
//! whole word. It is therefore never a `&[u8]`, and only values of several words can be torn. All
//! `unsafe` code of this crate is in this file.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use rustix::fs::SealFlags;
use rustix::mm::{MapFlags, ProtFlags};

/// 1000: reads of a versioned block before giving up. Only a driver that died while writing makes
/// so many fail.
const BLOCK_TRIES: u32 = 1000;

/// A shared mapping of a sealed memfd, alive as long as the value.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory that stays at its address until drop, and it is only touched
// through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access through atomics is what atomics are for.
unsafe impl Sync for Mapping {}

/// Why a memfd cannot be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// The memfd could shrink under the mapping, which would kill this process with SIGBUS.
    #[error("the driver's memory is not sealed against shrinking")]
    NotSealed,
    /// The memfd is smaller than the driver's message claims.
    #[error("the driver's memory has {has} bytes; {needed} are needed")]
    TooSmall {
        /// Size of the memfd.
        has: u64,
        /// Size according to the message.
        needed: u64,
    },
    /// The system call failed.
    #[error("cannot map the driver's memory: {0}")]
    System(#[from] rustix::io::Errno),
}

impl Mapping {
    pub(crate) fn new(
        fd: BorrowedFd<'_>,
        bytes: usize,
        access: Access,
    ) -> Result<Mapping, MappingError> {
        Mapping::at(fd, 0, bytes, access)
    }

    /// A part of the memfd; `offset` is a multiple of the page size.
    pub(crate) fn at(
        fd: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
        access: Access,
    ) -> Result<Mapping, MappingError> {
        if !rustix::fs::fcntl_get_seals(fd)?.contains(SealFlags::SHRINK) {
            return Err(MappingError::NotSealed);
        }
        let has = rustix::fs::fstat(fd)?.st_size.cast_unsigned();
        let needed = offset.saturating_add(bytes as u64);
        if has < needed || bytes == 0 {
            return Err(MappingError::TooSmall { has, needed });
        }
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping at an address that the kernel chooses aliases nothing; the seal and
        // the size checked above keep every byte of it backed.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, fd, offset)?
        };
        let base = NonNull::new(base.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Mapping { base, bytes })
    }

    /// The 32-bit word at a byte offset.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(
            at.is_multiple_of(4) && at < self.bytes && self.bytes - at >= 4,
            "word {at} is outside the mapping"
        );
        // SAFETY: inside the mapping and aligned (asserted; the base is page-aligned), and alive as
        // long as `self`.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// The 64-bit word at a byte offset.
    #[inline]
    pub(crate) fn long(&self, at: usize) -> &AtomicU64 {
        assert!(
            at.is_multiple_of(8) && at < self.bytes && self.bytes - at >= 8,
            "long {at} is outside the mapping"
        );
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Reads a versioned block of words; None if its writer never finished.
    pub(crate) fn block<T>(
        &self,
        at: usize,
        mut read: impl FnMut(&dyn Fn(usize) -> u32) -> T,
    ) -> Option<T> {
        let word = |index: usize| self.word(at + index * 4).load(Ordering::Relaxed);
        for _ in 0..BLOCK_TRIES {
            let before = self.word(at).load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let value = read(&word);
                fence(Ordering::Acquire);
                if self.word(at).load(Ordering::Relaxed) == before {
                    return Some(value);
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// `count` 64-bit words from a byte offset, to copy rows.
    #[inline]
    pub(crate) fn longs(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8), "row at {at} is not aligned");
        assert!(
            count <= self.bytes / 8 && at <= self.bytes - count * 8,
            "row at {at} leaves the mapping"
        );
        // SAFETY: inside the mapping and aligned (asserted); atomics may be written by others while
        // borrowed.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at).cast(), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, and no reference into it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping failed");
    }
}

/// Access of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}
