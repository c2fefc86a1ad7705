//! Path back: beside viewer.rs, from a viewer that reconnects, to session-core, which sends only
//! the tiles that differ. The message with the hashes of the tiles that a viewer still shows from
//! an earlier connection, and its bytes. Knows tiles and their hashes; never the pixels, which both
//! ends hash with the same function.

use thinc_region::{Rect, Size};

use crate::limits::{
    RETAINED_EDGE_LOG_MAX, RETAINED_EDGE_LOG_MIN, RETAINED_KEY_BYTES, RETAINED_TILES_MAX,
};
use crate::viewer::{put_part, put_size, read_part, read_size};
use crate::wire::{Reader, WireError};

/// Hashes of the tiles that a reconnecting viewer still shows from its last connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedTiles {
    /// Size of the viewer's framebuffer.
    pub size: Size,
    /// The part of the session's screen that the framebuffer shows.
    pub part: Rect,
    /// Base-2 logarithm of a tile's edge in pixels. Tiles at the right and bottom edges may be
    /// smaller.
    pub edge_log: u8,
    /// Random key of the hashes, so that no application can draw pixels that collide.
    pub key: [u8; RETAINED_KEY_BYTES],
    /// One hash per tile, row by row; 0 for a tile whose pixels the viewer does not vouch for.
    pub tiles: Vec<u64>,
}

impl RetainedTiles {
    /// Base-2 logarithm of the tile edge to use for a framebuffer of this size. Smaller tiles
    /// resend fewer pixels after a small change, but need more hashes.
    pub fn edge_log_of(size: Size) -> u8 {
        let fits = |log: &u8| {
            tiles_of(size, *log)
                <= if *log < USUAL_EDGE_LOG { FEW_TILES } else { RETAINED_TILES_MAX }
        };
        (MIN_EDGE_LOG..RETAINED_EDGE_LOG_MAX).find(fits).unwrap_or(RETAINED_EDGE_LOG_MAX)
    }

    /// The tiles of a framebuffer of this size, row by row.
    pub fn rects(size: Size, edge_log: u8) -> impl Iterator<Item = Rect> {
        let edge = 1_usize << edge_log;
        let (width, height) = (size.width as i32, size.height as i32);
        let tops = (0..height).step_by(edge);
        tops.flat_map(move |y| {
            (0..width).step_by(edge).map(move |x| Rect::at(x, y, edge as i32, edge as i32))
        })
        .map(move |tile| tile.intersect(&size.rect()))
    }

    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        assert_eq!(
            self.tiles.len() as u64,
            tiles_of(self.size, self.edge_log),
            "there must be one hash per tile"
        );
        put_size(out, self.size);
        put_part(out, &self.part);
        out.push(self.edge_log);
        out.extend_from_slice(&self.key);
        out.extend(self.tiles.iter().flat_map(|hash| hash.to_le_bytes()));
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<RetainedTiles, WireError> {
        let (size, part) = (read_size(reader)?, read_part(reader)?);
        let edge_log = reader.u8("a tile's edge")?;
        if !(RETAINED_EDGE_LOG_MIN..=RETAINED_EDGE_LOG_MAX).contains(&edge_log) {
            return Err(WireError::Outside("a tile's edge"));
        }
        let count = tiles_of(size, edge_log);
        if count > RETAINED_TILES_MAX {
            return Err(WireError::OverLimit {
                what: "tiles",
                value: count,
                limit: RETAINED_TILES_MAX,
            });
        }
        let key = reader.take("a key of hashes", RETAINED_KEY_BYTES)?;
        let hashes = reader.take("hashes of tiles", count as usize * HASH_BYTES)?;
        let (hashes, _) = hashes.as_chunks::<HASH_BYTES>();
        Ok(RetainedTiles {
            size,
            part,
            edge_log,
            key: key.try_into().expect("it has this length"),
            tiles: hashes.iter().map(|hash| u64::from_le_bytes(*hash)).collect(),
        })
    }
}

const HASH_BYTES: usize = 8;
/// 16 pixels: the smallest tile that is used, for framebuffers that have at most FEW_TILES of them.
const MIN_EDGE_LOG: u8 = 4;
/// 256: as many tiles of 64 pixels as a phone's screen has.
const FEW_TILES: u64 = 256;
/// 64 pixels: an encoded tile of text then takes about a hundred times the bytes of its hash, and a
/// changed character resends a single tile.
const USUAL_EDGE_LOG: u8 = 6;

fn tiles_of(size: Size, edge_log: u8) -> u64 {
    let along = |edge: u32| u64::from(edge).div_ceil(1 << edge_log);
    along(size.width) * along(size.height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_framebuffer_and_stay_within_the_limit() {
        for (width, height) in [
            (1, 1),
            (160, 100),
            (1280, 720),
            (3840, 2160),
            (16_384, 4_096),
            (4_096, 16_384),
            (8_192, 8_192),
        ] {
            let size = Size { width, height };
            let log = RetainedTiles::edge_log_of(size);
            let tiles: Vec<Rect> = RetainedTiles::rects(size, log).collect();
            assert_eq!(tiles.len() as u64, tiles_of(size, log));
            assert!(tiles.len() as u64 <= RETAINED_TILES_MAX, "{size:?}: {}", tiles.len());
            assert_eq!(tiles.iter().map(Rect::area).sum::<u64>(), size.area());
            assert!(tiles.iter().all(|tile| !tile.is_empty() && size.rect().contains(tile)));
        }
        assert_eq!(
            [(160, 100), (1280, 720), (8_192, 8_192)]
                .map(|(width, height)| RetainedTiles::edge_log_of(Size { width, height })),
            [4, 6, 7]
        );
    }
}
