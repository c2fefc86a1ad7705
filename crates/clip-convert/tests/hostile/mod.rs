//! Images that cost more to decode than to send, for the tests of this crate and of its users.

/// A segment of a JPEG, with its length.
fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16 + 2).to_be_bytes();
    [&[0xff, marker], &length[..], content].concat()
}

/// A progressive JPEG of one component with this many scans of almost no bytes.
pub(crate) fn progressive(width: u16, height: u16, scans: usize) -> Vec<u8> {
    let mut jpeg = vec![0xff, 0xd8];
    jpeg.extend(segment(0xdb, &[&[0][..], &[1; 64]].concat()));
    let ([w1, w2], [h1, h2]) = (width.to_be_bytes(), height.to_be_bytes());
    jpeg.extend(segment(0xc2, &[8, h1, h2, w1, w2, 1, 1, 0x11, 0]));
    // One code of one bit: no difference, and the end of a block.
    let mut lengths = [0; 16];
    lengths[0] = 1;
    for class in [0x00, 0x10] {
        jpeg.extend(segment(0xc4, &[&[class][..], &lengths, &[0]].concat()));
    }
    for scan in 0..scans {
        // The first is of DC, the others of AC.
        let spectrum = if scan == 0 { [0, 0, 0] } else { [1, 63, 0] };
        jpeg.extend(segment(0xda, &[&[1, 1, 0][..], &spectrum].concat()));
        jpeg.extend([0; 16]);
    }
    jpeg.extend([0xff, 0xd9]);
    jpeg
}
