//! Path back: from framebuffer.rs, at the start of each connection after the first, to outbox.rs.
//! Hashes of the tiles that the viewer still shows, so that the session sends only tiles that
//! differ. Knows pixels and which of them are lossless; never what the session's screen shows now.

use highway::{HighwayHash as _, HighwayHasher, Key};
use thinc_protocol::limits::RETAINED_KEY_BYTES;
use thinc_protocol::retained::RetainedTiles;
use thinc_region::Rect;

use crate::framebuffer::Framebuffer;

/// Hashes of all lossless tiles of a framebuffer; 0 for the others. None if no tile is lossless.
pub(crate) fn retained_tiles(
    framebuffer: &Framebuffer,
    key: [u8; RETAINED_KEY_BYTES],
) -> Option<RetainedTiles> {
    let size = framebuffer.size();
    let edge_log = RetainedTiles::edge_log_of(size);
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut row = Vec::new();
    let tiles: Vec<u64> = RetainedTiles::rects(size, edge_log)
        .map(|tile| {
            if framebuffer.lossy().overlaps(&tile) {
                0
            } else {
                hash(framebuffer, &tile, words, &mut row)
            }
        })
        .collect();
    let has_lossless = tiles.iter().any(|&hash| hash != 0);
    has_lossless.then(|| RetainedTiles { size, part: framebuffer.part(), edge_log, key, tiles })
}

/// HighwayHash of the tile's pixels, 4 bytes each: blue, green, red, 255.
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
