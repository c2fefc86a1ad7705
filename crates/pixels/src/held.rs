//! Path 8/13: before plan.rs, for a viewer that has come back.
//! What of a snapshot the viewer shows already, by hashes of what it showed when it came: entered into its shadow, so that no plan sends it.
//! Knows pixels and hashes; never since when they are shown.

use highway::{HighwayHash as _, HighwayHasher, Key};
use thinc_region::{Rect, Region};

use crate::{RGB, Shadow, Snapshot};

/// What of these tiles the viewer shows as the snapshot does. From here on the shadow knows it, and the viewer is to be told that it is exact:
/// by a COPY of no distance.
pub fn shown_already(snapshot: &Snapshot, shadow: &mut Shadow, key: &[u8; 32], tiles: &[(Rect, u64)]) -> Region {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut row = Vec::new();
    let mut shown = Region::new();
    for &(tile, hash) in tiles {
        if !snapshot.holds(&tile) || hash_of(snapshot, &tile, words, &mut row) != hash {
            continue;
        }
        for (y, new) in (tile.y1..).zip(snapshot.rows(&tile)) {
            for (old, new) in shadow.row_mut(tile.x1, tile.x2, y).iter_mut().zip(new) {
                *old = new & RGB;
            }
        }
        shown.add_rect(tile);
    }
    shadow.known.add(&shown);
    shadow.inexact.subtract(&shown);
    shown
}

/// Of four bytes a pixel: blue, green, red and 255.
fn hash_of(snapshot: &Snapshot, tile: &Rect, key: [u64; 4], row: &mut Vec<u8>) -> u64 {
    let mut hasher = HighwayHasher::new(Key(key));
    for pixels in snapshot.rows(tile) {
        row.clear();
        row.extend(pixels.iter().flat_map(|pixel| (pixel | !RGB).to_le_bytes()));
        hasher.append(row);
    }
    hasher.finalize64()
}
