//! Path 12/13: from decode.rs, beside framebuffer.rs.
//! A passive store of numbered slots that outlives connections: KEEP stores pixels into it, RECALL
//! draws from it. Knows slots and pixels; the session decides what is kept. A violation by the
//! session is an error.

use std::collections::BTreeMap;

use thinc_codec_dec::OPAQUE;
use thinc_protocol::limits::{
    CACHE_BYTES_MAX, CACHE_SLOTS_MAX, CACHE_TOKEN_BYTES, SCREEN_EDGE_MAX,
};
use thinc_protocol::session::CacheGrant;
use thinc_protocol::viewer::CacheOffer;
use thinc_region::{Rect, Size};
use xxhash_rust::xxh3::xxh3_64;

use crate::framebuffer::Framebuffer;

/// 64 MiB: the default offer; about eight screens of 1920 × 1080.
pub const CACHE_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// Bytes that a pixel counts for, by the protocol.
const PIXEL_BYTES: u64 = 4;
/// The first bytes of a saved cache; the digit is its version.
const MAGIC: &[u8; 14] = b"thinc cache 1\n";
/// Slot, width, height, 4 bytes each, and 1 byte that says whether the pixels are lossless.
const PIECE_HEAD_BYTES: usize = 13;
/// Bytes of a saved cache beside its pieces: magic, token, update, and the hash at its end.
const HEAD_BYTES: usize = MAGIC.len() + CACHE_TOKEN_BYTES + 8;
const HASH_BYTES: usize = 8;

/// A violation of the cache protocol by the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// A grant without an offer, or a second one.
    #[error("a cache grant without an offer, or a second grant")]
    Grant,
    /// KEEP or RECALL before the grant.
    #[error("KEEP or RECALL before the cache was granted")]
    NotGranted,
    /// RECALL of an empty slot.
    #[error("slot {0} is empty")]
    Empty(u32),
    /// RECALL with a size other than the slot's.
    #[error("slot {slot} holds {held:?}, but {wanted:?} was recalled")]
    Size {
        /// The slot.
        slot: u32,
        /// Size of the pixels in the slot.
        held: Size,
        /// Size that was recalled.
        wanted: Size,
    },
    /// KEEP beyond the offered size.
    #[error("the cache would hold {held} bytes, but {offered} were offered")]
    Full {
        /// Bytes with the new piece.
        held: u64,
        /// Bytes offered.
        offered: u64,
    },
}

/// Why saved bytes cannot be restored as a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SavedCacheError {
    /// Not written by this program, or written by another version of it.
    #[error("it is not a saved cache of this version")]
    Foreign,
    /// Truncated or changed.
    #[error("it is damaged")]
    Damaged,
    /// Larger than the present offer.
    #[error("it is larger than the cache may be")]
    TooLarge,
}

/// The pixels of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    size: Size,
    pixels: Box<[u32]>,
    /// All pixels are lossless.
    lossless: bool,
}

impl Piece {
    fn bytes(&self) -> u64 {
        self.pixels.len() as u64 * PIXEL_BYTES
    }
}

/// The pixels that a viewer keeps for one session, and the token by which the session recognises
/// them.
///
/// It is consistent between any two messages: it holds the state after update [`Cache::update`] of
/// the connection that its token is from, so a copy may be saved at any time.
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
        // The token is secret: with it one could reconnect as this viewer.
        write!(
            f,
            "Cache({} pieces in {} of {} bytes)",
            self.pieces.len(),
            self.bytes,
            self.bytes_max
        )
    }
}

impl Cache {
    /// An empty cache of at most `bytes_max` bytes, or the protocol's maximum if that is less.
    pub fn new(bytes_max: u64) -> Cache {
        let bytes_max = bytes_max.min(CACHE_BYTES_MAX);
        Cache {
            bytes_max,
            token: [0; CACHE_TOKEN_BYTES],
            update: 0,
            pieces: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Bytes of the kept pixels, 4 a pixel.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Count of kept pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The newest update applied to it.
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

    fn keep(
        &mut self,
        rect: &Rect,
        slot: u32,
        framebuffer: &Framebuffer,
    ) -> Result<(), CacheError> {
        let before = self.pieces.get(&slot).map_or(0, Piece::bytes);
        let held = self.bytes - before + rect.area() * PIXEL_BYTES;
        if held > self.bytes_max {
            return Err(CacheError::Full { held, offered: self.bytes_max });
        }
        let piece = Piece {
            size: size_of(rect),
            pixels: framebuffer.read(rect),
            lossless: !framebuffer.lossy().overlaps(rect),
        };
        self.pieces.insert(slot, piece);
        self.bytes = held;
        Ok(())
    }

    fn recall(
        &self,
        rect: &Rect,
        slot: u32,
        framebuffer: &mut Framebuffer,
    ) -> Result<(), CacheError> {
        let piece = self.pieces.get(&slot).ok_or(CacheError::Empty(slot))?;
        if piece.size != size_of(rect) {
            return Err(CacheError::Size { slot, held: piece.size, wanted: size_of(rect) });
        }
        framebuffer.write(rect, &piece.pixels, piece.lossless);
        Ok(())
    }

    /// Appends the whole cache as bytes for a file, 3 a pixel.
    pub fn save(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(
            HEAD_BYTES
                + HASH_BYTES
                + self.pieces.len() * PIECE_HEAD_BYTES
                + self.bytes as usize / 4 * 3,
        );
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.token);
        out.extend_from_slice(&self.update.to_le_bytes());
        for (slot, piece) in &self.pieces {
            for number in [*slot, piece.size.width, piece.size.height] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.push(u8::from(piece.lossless));
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
        let (body, hash) =
            saved.split_last_chunk::<HASH_BYTES>().ok_or(SavedCacheError::Damaged)?;
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
            let [lossless] = *take(&mut rest)?;
            let edges = 1..=SCREEN_EDGE_MAX;
            if slot >= CACHE_SLOTS_MAX
                || !edges.contains(&size.width)
                || !edges.contains(&size.height)
            {
                return Err(SavedCacheError::Damaged);
            }
            let bytes =
                rest.split_off(..size.area() as usize * 3).ok_or(SavedCacheError::Damaged)?;
            let pixels = bytes
                .as_chunks()
                .0
                .iter()
                .map(|&[b, g, r]| OPAQUE | u32::from_le_bytes([b, g, r, 0]))
                .collect();
            let piece = Piece { size, pixels, lossless: lossless == 1 };
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
pub(crate) struct GrantedCache {
    cache: Option<Cache>,
    granted: bool,
}

impl GrantedCache {
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

    /// An update was applied or dropped.
    pub(crate) fn applied(&mut self, update: u64) {
        if let Some(cache) = self.cache.as_mut().filter(|_| self.granted) {
            cache.update = update;
        }
    }

    pub(crate) fn keep(
        &mut self,
        rect: &Rect,
        slot: u32,
        framebuffer: &Framebuffer,
    ) -> Result<(), CacheError> {
        self.cache.as_mut().filter(|_| self.granted).ok_or(CacheError::NotGranted)?.keep(
            rect,
            slot,
            framebuffer,
        )
    }

    pub(crate) fn recall(
        &self,
        rect: &Rect,
        slot: u32,
        framebuffer: &mut Framebuffer,
    ) -> Result<(), CacheError> {
        self.cache.as_ref().filter(|_| self.granted).ok_or(CacheError::NotGranted)?.recall(
            rect,
            slot,
            framebuffer,
        )
    }
}
