//! Path back: beside viewer.rs, from a viewer that comes back, to session-core, which sends what differs.
//! What a viewer still shows of an earlier connection, tile by tile, and its bytes.
//! Knows tiles and their hashes; never the pixels, which both sides hash by the same function.

use thinc_region::{Rect, Size};

use crate::limits::{HELD_EDGE_LOG_MAX, HELD_EDGE_LOG_MIN, HELD_KEY_BYTES, HELD_TILES_MAX};
use crate::viewer::{put_part, put_size, read_part, read_size};
use crate::wire::{Reader, WireError};

/// What a viewer still shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The picture that it shows.
    pub size: Size,
    /// The part of the session's screen in it.
    pub part: Rect,
    /// Edge of a tile as a power of two of pixels; those at the right and at the bottom may be smaller.
    pub edge_log: u8,
    /// What the hashes are keyed with: random, so that nobody can make pixels to fit.
    pub key: [u8; HELD_KEY_BYTES],
    /// A hash for each tile, row by row; 0 where nothing is said.
    pub tiles: Vec<u64>,
}

impl Held {
    /// The least edge, as a power of two, of the tiles that a picture is taken apart into. Small ones differ in fewer pixels where little
    /// differs, and there are more of them to tell of.
    pub fn edge_log_of(size: Size) -> u8 {
        let fits = |log: &u8| tiles_of(size, *log) <= if *log < USUAL_EDGE_LOG { FEW_TILES } else { HELD_TILES_MAX };
        (MIN_EDGE_LOG..HELD_EDGE_LOG_MAX).find(fits).unwrap_or(HELD_EDGE_LOG_MAX)
    }

    /// The tiles of such a picture, row by row.
    pub fn rects(size: Size, edge_log: u8) -> impl Iterator<Item = Rect> {
        let edge = 1_usize << edge_log;
        let (width, height) = (size.width as i32, size.height as i32);
        let tops = (0..height).step_by(edge);
        tops.flat_map(move |y| (0..width).step_by(edge).map(move |x| Rect::at(x, y, edge as i32, edge as i32)))
            .map(move |tile| tile.intersect(&size.rect()))
    }

    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        assert_eq!(self.tiles.len() as u64, tiles_of(self.size, self.edge_log), "a hash for each tile");
        put_size(out, self.size);
        put_part(out, &self.part);
        out.push(self.edge_log);
        out.extend_from_slice(&self.key);
        out.extend(self.tiles.iter().flat_map(|hash| hash.to_le_bytes()));
    }

    pub(crate) fn decode_body(reader: &mut Reader<'_>) -> Result<Held, WireError> {
        let (size, part) = (read_size(reader)?, read_part(reader)?);
        let edge_log = reader.u8("a tile's edge")?;
        if !(HELD_EDGE_LOG_MIN..=HELD_EDGE_LOG_MAX).contains(&edge_log) {
            return Err(WireError::Outside("a tile's edge"));
        }
        let count = tiles_of(size, edge_log);
        if count > HELD_TILES_MAX {
            return Err(WireError::TooMuch { what: "tiles", value: count, limit: HELD_TILES_MAX });
        }
        let key = reader.take("a key of hashes", HELD_KEY_BYTES)?;
        let hashes = reader.take("hashes of tiles", count as usize * HASH_BYTES)?;
        let (hashes, _) = hashes.as_chunks::<HASH_BYTES>();
        Ok(Held {
            size,
            part,
            edge_log,
            key: key.try_into().expect("it has this length"),
            tiles: hashes.iter().map(|hash| u64::from_le_bytes(*hash)).collect(),
        })
    }
}

const HASH_BYTES: usize = 8;
/// 16 pixels, for pictures of which that makes no more tiles than a telephone's screen has of 64.
const MIN_EDGE_LOG: u8 = 4;
const FEW_TILES: u64 = 256;
/// 64 pixels: a tile is then worth a hundred times its hash where it is text, and a letter that changed costs no more than its tile.
const USUAL_EDGE_LOG: u8 = 6;

fn tiles_of(size: Size, edge_log: u8) -> u64 {
    let along = |edge: u32| u64::from(edge).div_ceil(1 << edge_log);
    along(size.width) * along(size.height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_all_of_a_picture_and_few_enough() {
        for (width, height) in
            [(1, 1), (160, 100), (1280, 720), (3840, 2160), (16_384, 4_096), (4_096, 16_384), (8_192, 8_192)]
        {
            let size = Size { width, height };
            let log = Held::edge_log_of(size);
            let tiles: Vec<Rect> = Held::rects(size, log).collect();
            assert_eq!(tiles.len() as u64, tiles_of(size, log));
            assert!(tiles.len() as u64 <= HELD_TILES_MAX, "{size:?}: {}", tiles.len());
            assert_eq!(tiles.iter().map(Rect::area).sum::<u64>(), size.area());
            assert!(tiles.iter().all(|tile| !tile.is_empty() && size.rect().contains(tile)));
        }
        assert_eq!(
            [(160, 100), (1280, 720), (8_192, 8_192)].map(|(width, height)| Held::edge_log_of(Size { width, height })),
            [4, 6, 7]
        );
    }
}
