//! Tiles that a reconnecting viewer still shows are not planned again; tiles that differ in one
//! pixel are.

use highway::{HighwayHash as _, HighwayHasher, Key};
use thinc_pixels::{Planned, Shadow, Snapshot, confirm_retained, plan};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 200, height: 100 };
const TILE: Rect = Rect::new(64, 0, 128, 64);
const EDGE: Rect = Rect::new(192, 64, 200, 100);

/// All tiles differ.
fn pixel(x: i32, y: i32) -> u32 {
    let n = (x as u32 / 3).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca6b);
    (n ^ (n >> 15)).wrapping_mul(0x2c1b_3c6d) & 0x00ff_ffff
}

fn hash(key: &[u8; 32], tile: &Rect, pixel: impl Fn(i32, i32) -> u32) -> u64 {
    let words: Vec<u64> =
        key.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let mut hasher = HighwayHasher::new(Key(words.try_into().unwrap()));
    for y in tile.y1..tile.y2 {
        let row: Vec<u8> =
            (tile.x1..tile.x2).flat_map(|x| (pixel(x, y) | 0xff00_0000).to_le_bytes()).collect();
        hasher.append(&row);
    }
    hasher.finalize64()
}

fn snapshot(region: &Region) -> Snapshot {
    let mut snapshot = Snapshot::new();
    snapshot.fill(region, |rect, dst, stride| {
        for (row, y) in dst.chunks_mut(stride).zip(rect.y1..rect.y2) {
            // The top byte of X's pixels is undefined.
            row.iter_mut()
                .zip(rect.x1..rect.x2)
                .for_each(|(dst, x)| *dst = pixel(x, y) | 0xab00_0000);
        }
    });
    snapshot
}

#[test]
fn a_retained_tile_is_not_sent() {
    let key = std::array::from_fn(|at| at as u8);
    let all = snapshot(&SIZE.rect().into());
    let mut shadow = Shadow::new(SIZE);
    let other = Rect::new(0, 0, 64, 64);
    let one_off = |x, y| pixel(x, y) ^ u32::from((x, y) == (63, 63));
    let tiles = [
        (TILE, hash(&key, &TILE, pixel)),
        (EDGE, hash(&key, &EDGE, pixel)),
        (other, hash(&key, &other, one_off)),
    ];
    let shown = confirm_retained(&all, &mut shadow, &key, &tiles);
    assert_eq!(shown, [TILE, EDGE].into_iter().collect());
    assert_eq!(*shadow.known(), shown);
    let mut planned = Vec::new();
    plan(&all, &mut shadow, &mut planned);
    let mut sent = Region::new();
    for planned in &planned {
        match planned {
            Planned::Solid { region, .. } | Planned::Shift { region, .. } => sent.add(region),
            Planned::Pattern { rect, .. }
            | Planned::TwoColor { rect, .. }
            | Planned::Coverage { rect, .. }
            | Planned::Pixels { rect, .. } => sent.add_rect(*rect),
            other => panic!("nothing may be kept or lossy here: {other:?}"),
        }
    }
    assert_eq!(sent, Region::from(SIZE.rect()).difference(&shown));
    let pixels = |&at: &usize| shadow.pixels()[at] == pixel(at as i32 % 200, at as i32 / 200);
    assert_eq!((0..SIZE.area() as usize).find(|at| !pixels(at)), None);
}

#[test]
fn another_key_or_half_a_tile_confirms_nothing() {
    let key = [9; 32];
    let tiles = [(TILE, hash(&[8; 32], &TILE, pixel))];
    let mut shadow = Shadow::new(SIZE);
    assert!(confirm_retained(&snapshot(&SIZE.rect().into()), &mut shadow, &key, &tiles).is_empty());
    let half = snapshot(&Rect { x1: 65, ..SIZE.rect() }.into());
    assert!(
        confirm_retained(&half, &mut shadow, &key, &[(TILE, hash(&key, &TILE, pixel))]).is_empty()
    );
    assert!(shadow.known().is_empty());
}
