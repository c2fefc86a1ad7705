//! Path back: from framebuffer.rs, at the beginning of a connection that is not the first, to outbox.rs.
//! What the viewer still shows, by hashes of its tiles, so that the session sends what differs and no more.
//! Knows pixels, and which of them are exact; never what the session shows by now.

use highway::{HighwayHash as _, HighwayHasher, Key};
use thinc_protocol::held::Held;
use thinc_protocol::limits::HELD_KEY_BYTES;
use thinc_region::Rect;

use crate::framebuffer::Framebuffer;

/// Hashes of all tiles that show exactly what the session's screen showed; None where there is none.
pub(crate) fn held(framebuffer: &Framebuffer, key: [u8; HELD_KEY_BYTES]) -> Option<Held> {
    let size = framebuffer.size();
    let edge_log = Held::edge_log_of(size);
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut row = Vec::new();
    let tiles: Vec<u64> = Held::rects(size, edge_log)
        .map(|tile| if framebuffer.inexact().overlaps(&tile) { 0 } else { hash(framebuffer, &tile, words, &mut row) })
        .collect();
    let any = tiles.iter().any(|&hash| hash != 0);
    any.then(|| Held { size, part: framebuffer.part(), edge_log, key, tiles })
}

/// Of the tile's pixels, four bytes each: blue, green, red and 255.
fn hash(framebuffer: &Framebuffer, tile: &Rect, key: [u64; 4], row: &mut Vec<u8>) -> u64 {
    let mut hasher = HighwayHasher::new(Key(key));
    for y in tile.y1..tile.y2 {
        let pixels = &framebuffer.row(y as usize)[tile.x1 as usize..tile.x2 as usize];
        row.clear();
        row.extend(pixels.iter().flat_map(|pixel| pixel.to_le_bytes()));
        hasher.append(row);
    }
    hasher.finalize64()
}
