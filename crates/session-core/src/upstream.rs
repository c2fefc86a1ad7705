//! Path back: from transport, to session.rs's messages; what a viewer's stream brings, and a datagram beside it may bring before.
//! Knows where in the stream bytes lie; never what they say.

/// How far a viewer's stream is known, some of which comes beside it, too, and at times before it.
#[derive(Debug, Default)]
pub struct Upstream {
    /// Bytes that the stream has brought.
    streamed: u64,
    /// Bytes that were taken of it, whichever way they came.
    taken: u64,
}

impl Upstream {
    /// What is new of what the stream brings next.
    pub fn by_stream<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let known = (self.taken - self.streamed).min(bytes.len() as u64);
        self.streamed += bytes.len() as u64;
        self.taken = self.taken.max(self.streamed);
        &bytes[known as usize..]
    }

    /// What is new of what came beside it. Behind a gap nothing is: the stream brings it.
    pub fn beside<'a>(&mut self, offset: u64, bytes: &'a [u8]) -> &'a [u8] {
        let known = self.taken.checked_sub(offset).and_then(|known| usize::try_from(known).ok());
        let fresh = known.and_then(|known| bytes.get(known..)).unwrap_or_default();
        self.taken += fresh.len() as u64;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_the_stream_is_taken_once_and_in_order() {
        let stream: Vec<u8> = (0..200).collect();
        // What comes beside it begins and ends anywhere, comes twice, late, or behind a gap.
        for width in 1..40 {
            let (mut upstream, mut got, mut read) = (Upstream::default(), Vec::new(), 0);
            for step in 0_usize.. {
                let from = (step * 37 % 220).min(stream.len());
                let to = (from + width).min(stream.len());
                got.extend_from_slice(upstream.beside(from as u64, &stream[from..to]));
                if step % 3 == 0 {
                    let next = (read + step % 11).min(stream.len());
                    got.extend_from_slice(upstream.by_stream(&stream[read..next]));
                    read = next;
                }
                if read == stream.len() {
                    break;
                }
            }
            assert_eq!(got, stream, "in pieces of {width}");
        }
        assert!(Upstream::default().beside(u64::MAX, &[1]).is_empty());
    }

    #[test]
    fn what_came_beside_it_need_not_wait_for_the_stream() {
        let mut upstream = Upstream::default();
        assert_eq!(upstream.by_stream(b"hello "), b"hello ");
        assert_eq!(upstream.beside(3, b"lo a key"), b"a key");
        assert_eq!(upstream.by_stream(b"a key up"), b" up");
        assert_eq!(upstream.beside(20, b"more"), b"");
    }
}
