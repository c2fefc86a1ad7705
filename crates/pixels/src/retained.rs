//! Path 8/13: before plan.rs, for a viewer that has reconnected.
//! Compares a snapshot with the hashes of the tiles that the viewer still shows, and copies
//! matching tiles into its shadow, so that no plan sends them.
//! Knows pixels and hashes; never how long the viewer has retained them.

use highway::{HighwayHash as _, HighwayHasher, Key};
use thinc_region::{Rect, Region};

use crate::{RGB, Shadow, Snapshot};

/// Returns those of the viewer's tiles that equal the snapshot, and marks them as known in the
/// shadow. They must be acknowledged by a no-op COPY, one by the vector (0, 0), from which the
/// viewer learns that they are lossless.
pub fn confirm_retained(
    snapshot: &Snapshot,
    shadow: &mut Shadow,
    key: &[u8; 32],
    tiles: &[(Rect, u64)],
) -> Region {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut row = Vec::new();
    let mut retained = Region::new();
    for &(tile, hash) in tiles {
        if !snapshot.contains(&tile) || hash_of(snapshot, &tile, words, &mut row) != hash {
            continue;
        }
        for (y, new) in (tile.y1..).zip(snapshot.rows(&tile)) {
            for (old, new) in shadow.row_mut(tile.x1, tile.x2, y).iter_mut().zip(new) {
                *old = new & RGB;
            }
        }
        retained.add_rect(tile);
    }
    shadow.known.add(&retained);
    shadow.lossy_region.subtract(&retained);
    retained
}

/// Hash of a tile at four bytes per pixel: blue, green, red and 255.
fn hash_of(snapshot: &Snapshot, tile: &Rect, key: [u64; 4], row: &mut Vec<u8>) -> u64 {
    let mut hasher = HighwayHasher::new(Key(key));
    for pixels in snapshot.rows(tile) {
        row.clear();
        row.extend(pixels.iter().flat_map(|pixel| (pixel | !RGB).to_le_bytes()));
        hasher.append(row);
    }
    hasher.finalize64()
}
