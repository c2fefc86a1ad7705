//! Path 12/13, beside the pixels: the words in which the page is told what the screen's colours are
//! shown as. From page.rs, to web/engine/events.ts, which takes them apart. Knows tables and their
//! order; never how a page shows them.

use thinc_protocol::gamma::GammaArea;

/// Of each area: x, y, width and height, then the bytes of its red, green and blue entries, four
/// in a word.
pub(crate) fn words(areas: &[GammaArea]) -> Vec<u32> {
    let mut words = Vec::new();
    for GammaArea { rect, table } in areas {
        let place = [rect.x1, rect.y1, rect.width(), rect.height()];
        words.extend(place.map(i32::cast_unsigned));
        let entries = table.channels.as_flattened().as_chunks().0;
        words.extend(entries.iter().map(|&four| u32::from_le_bytes(four)));
    }
    words
}
