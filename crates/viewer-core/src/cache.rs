//! Path 12/13: from decode.rs, beside framebuffer.rs.
//! Pixels that a session has a viewer keep, to be shown again: a store of numbered slots, which outlives connections.
//! Knows slots and pixels; which are worth keeping, the session decides. What it may not do is an error.

use std::collections::BTreeMap;

use thinc_codec_dec::OPAQUE;
use thinc_protocol::limits::{CACHE_BYTES_MAX, CACHE_SLOTS_MAX, CACHE_TOKEN_BYTES, SCREEN_EDGE_MAX};
use thinc_protocol::session::CacheGrant;
use thinc_protocol::viewer::CacheOffer;
use thinc_region::{Rect, Size};
use xxhash_rust::xxh3::xxh3_64;

use crate::framebuffer::Framebuffer;

/// 64 MiB: what a viewer offers unless told otherwise; about eight screens of 1920 × 1080.
pub const CACHE_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// What a pixel counts, as the protocol has it.
const PIXEL_BYTES: u64 = 4;
/// The first bytes of a saved cache; the digit is its version.
const MAGIC: &[u8; 14] = b"thinc cache 1\n";
/// Slot, width, height, 4 bytes each, and whether the pixels are exact.
const PIECE_HEAD_BYTES: usize = 13;
/// Bytes of a saved cache beside its pieces: magic, token, update, and the hash at its end.
const HEAD_BYTES: usize = MAGIC.len() + CACHE_TOKEN_BYTES + 8;
const HASH_BYTES: usize = 8;

/// What a session did wrong with a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// A grant without an offer, or a second one.
    #[error("a cache is granted once, to a viewer that offered one")]
    Grant,
    /// Pixels are kept or shown before the grant.
    #[error("nothing is kept before a cache was granted")]
    NotGranted,
    /// Nothing was kept there.
    #[error("slot {0} is empty")]
    Empty(u32),
    /// What was kept there has another size.
    #[error("slot {slot} holds {held:?}, not {wanted:?}")]
    Size {
        /// Which.
        slot: u32,
        /// What it holds.
        held: Size,
        /// What was to be shown.
        wanted: Size,
    },
    /// More is kept than was offered.
    #[error("{held} bytes are to be kept, and {offered} were offered")]
    Full {
        /// With what was to be kept.
        held: u64,
        /// The offer.
        offered: u64,
    },
}

/// Why saved bytes are no cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedCacheError {
    /// Not written by this program, or by another version of it.
    #[error("it is no saved cache of this version")]
    Foreign,
    /// Cut off or changed.
    #[error("it is damaged")]
    Damaged,
    /// More than is offered now.
    #[error("it holds more than may be kept")]
    TooLarge,
}

/// The pixels of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    size: Size,
    pixels: Box<[u32]>,
    /// None of them was shown lossy.
    exact: bool,
}

impl Piece {
    fn bytes(&self) -> u64 {
        self.pixels.len() as u64 * PIXEL_BYTES
    }
}

/// What a viewer keeps for one session, and how that session names it.
///
/// It is the same whenever it is looked at between two messages: what it holds is what it held after [`Cache::update`] of
/// the connection its token is from, so a copy may be saved at any time.
#[derive(Clone, PartialEq, Eq)]
pub struct Cache {
    bytes_max: u64,
    token: [u8; CACHE_TOKEN_BYTES],
    update: u64,
    pieces: BTreeMap<u32, Piece>,
    bytes: u64,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whoever has the token could come back as this viewer.
        write!(f, "Cache({} pieces in {} of {} bytes)", self.pieces.len(), self.bytes, self.bytes_max)
    }
}

impl Cache {
    /// An empty one that may hold so many bytes; as many as the protocol allows where that is less.
    pub fn new(bytes_max: u64) -> Cache {
        let bytes_max = bytes_max.min(CACHE_BYTES_MAX);
        Cache { bytes_max, token: [0; CACHE_TOKEN_BYTES], update: 0, pieces: BTreeMap::new(), bytes: 0 }
    }

    /// Bytes of pixels that it holds, 4 a pixel.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Pieces that it holds.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The newest update that has been applied to it.
    pub fn update(&self) -> u64 {
        self.update
    }

    pub(crate) fn offer(&self) -> CacheOffer {
        CacheOffer { bytes: self.bytes_max, token: self.token, update: self.update }
    }

    fn granted(&mut self, grant: &CacheGrant) {
        self.token = grant.token;
        self.update = 0;
        if !grant.resumed {
            self.pieces.clear();
            self.bytes = 0;
        }
    }

    fn keep(&mut self, rect: &Rect, slot: u32, framebuffer: &Framebuffer) -> Result<(), CacheError> {
        let before = self.pieces.get(&slot).map_or(0, Piece::bytes);
        let held = self.bytes - before + rect.area() * PIXEL_BYTES;
        if held > self.bytes_max {
            return Err(CacheError::Full { held, offered: self.bytes_max });
        }
        let piece =
            Piece { size: size_of(rect), pixels: framebuffer.read(rect), exact: !framebuffer.inexact().overlaps(rect) };
        self.pieces.insert(slot, piece);
        self.bytes = held;
        Ok(())
    }

    fn recall(&self, rect: &Rect, slot: u32, framebuffer: &mut Framebuffer) -> Result<(), CacheError> {
        let piece = self.pieces.get(&slot).ok_or(CacheError::Empty(slot))?;
        if piece.size != size_of(rect) {
            return Err(CacheError::Size { slot, held: piece.size, wanted: size_of(rect) });
        }
        framebuffer.write(rect, &piece.pixels, piece.exact);
        Ok(())
    }

    /// Appends all of it as bytes for a file; three a pixel.
    pub fn save(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(HEAD_BYTES + HASH_BYTES + self.pieces.len() * PIECE_HEAD_BYTES + self.bytes as usize / 4 * 3);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.token);
        out.extend_from_slice(&self.update.to_le_bytes());
        for (slot, piece) in &self.pieces {
            for number in [*slot, piece.size.width, piece.size.height] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.push(u8::from(piece.exact));
            for pixel in &piece.pixels {
                out.extend_from_slice(&pixel.to_le_bytes()[..3]);
            }
        }
        let hash = xxh3_64(&out[start..]);
        out.extend_from_slice(&hash.to_le_bytes());
    }

    /// What [`Cache::save`] wrote, to be offered with at most so many bytes.
    ///
    /// # Errors
    /// It did not write that, or it is more than may be offered.
    pub fn load(saved: &[u8], bytes_max: u64) -> Result<Cache, SavedCacheError> {
        if !saved.starts_with(MAGIC) {
            return Err(SavedCacheError::Foreign);
        }
        let (body, hash) = saved.split_last_chunk::<HASH_BYTES>().ok_or(SavedCacheError::Damaged)?;
        if body.len() < HEAD_BYTES || xxh3_64(body) != u64::from_le_bytes(*hash) {
            return Err(SavedCacheError::Damaged);
        }
        let mut cache = Cache::new(bytes_max);
        let mut rest = &body[MAGIC.len()..];
        cache.token = *take(&mut rest)?;
        cache.update = u64::from_le_bytes(*take(&mut rest)?);
        while !rest.is_empty() {
            let mut number = || take(&mut rest).map(|bytes| u32::from_le_bytes(*bytes));
            let (slot, size) = (number()?, Size { width: number()?, height: number()? });
            let [exact] = *take(&mut rest)?;
            let edges = 1..=SCREEN_EDGE_MAX;
            if slot >= CACHE_SLOTS_MAX || !edges.contains(&size.width) || !edges.contains(&size.height) {
                return Err(SavedCacheError::Damaged);
            }
            let bytes = rest.split_off(..size.area() as usize * 3).ok_or(SavedCacheError::Damaged)?;
            let pixels =
                bytes.as_chunks().0.iter().map(|&[b, g, r]| OPAQUE | u32::from_le_bytes([b, g, r, 0])).collect();
            let piece = Piece { size, pixels, exact: exact == 1 };
            cache.bytes += piece.bytes();
            if cache.bytes > cache.bytes_max {
                return Err(SavedCacheError::TooLarge);
            }
            if cache.pieces.insert(slot, piece).is_some() {
                return Err(SavedCacheError::Damaged);
            }
        }
        Ok(cache)
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], SavedCacheError> {
    rest.split_off(..N).and_then(|bytes| bytes.first_chunk()).ok_or(SavedCacheError::Damaged)
}

fn size_of(rect: &Rect) -> Size {
    Size { width: rect.width() as u32, height: rect.height() as u32 }
}

/// A connection's cache: none, offered, or granted.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    cache: Option<Cache>,
    granted: bool,
}

impl Granted {
    pub(crate) fn offer(&mut self, cache: Cache) -> CacheOffer {
        let offer = cache.offer();
        self.cache = Some(cache);
        offer
    }

    pub(crate) fn get(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    pub(crate) fn take(&mut self) -> Option<Cache> {
        self.granted = false;
        self.cache.take()
    }

    pub(crate) fn grant(&mut self, grant: &CacheGrant) -> Result<(), CacheError> {
        match &mut self.cache {
            Some(cache) if !self.granted => cache.granted(grant),
            _ => return Err(CacheError::Grant),
        }
        self.granted = true;
        Ok(())
    }

    /// An update has been applied, or dropped.
    pub(crate) fn applied(&mut self, update: u64) {
        if let Some(cache) = self.cache.as_mut().filter(|_| self.granted) {
            cache.update = update;
        }
    }

    pub(crate) fn keep(&mut self, rect: &Rect, slot: u32, framebuffer: &Framebuffer) -> Result<(), CacheError> {
        self.cache.as_mut().filter(|_| self.granted).ok_or(CacheError::NotGranted)?.keep(rect, slot, framebuffer)
    }

    pub(crate) fn recall(&self, rect: &Rect, slot: u32, framebuffer: &mut Framebuffer) -> Result<(), CacheError> {
        self.cache.as_ref().filter(|_| self.granted).ok_or(CacheError::NotGranted)?.recall(rect, slot, framebuffer)
    }
}
