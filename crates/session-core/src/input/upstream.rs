//! Path back: from transport, to session.rs's messages; merges what a viewer's stream delivers with
//! copies of it in datagrams, which may arrive earlier. Knows offsets in the stream; never what the
//! bytes mean.

/// How much of a viewer's stream was taken. Datagrams may carry parts of it ahead of the stream.
#[derive(Debug, Default)]
pub struct Upstream {
    /// Bytes that the stream has delivered.
    streamed: u64,
    /// Bytes that were taken, from the stream or from datagrams.
    taken: u64,
}

impl Upstream {
    /// The new part of the bytes that the stream delivers next.
    pub fn from_stream<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let known = (self.taken - self.streamed).min(bytes.len() as u64);
        self.streamed += bytes.len() as u64;
        self.taken = self.taken.max(self.streamed);
        &bytes[known as usize..]
    }

    /// The new part of a datagram with the stream's bytes from `offset` on. Behind a gap there is
    /// none: the stream will deliver them.
    pub fn from_datagram<'a>(&mut self, offset: u64, bytes: &'a [u8]) -> &'a [u8] {
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
        // Datagrams begin and end anywhere, and arrive twice, late, or behind a gap.
        for width in 1..40 {
            let (mut upstream, mut got, mut read) = (Upstream::default(), Vec::new(), 0);
            for step in 0_usize.. {
                let from = (step * 37 % 220).min(stream.len());
                let to = (from + width).min(stream.len());
                got.extend_from_slice(upstream.from_datagram(from as u64, &stream[from..to]));
                if step % 3 == 0 {
                    let next = (read + step % 11).min(stream.len());
                    got.extend_from_slice(upstream.from_stream(&stream[read..next]));
                    read = next;
                }
                if read == stream.len() {
                    break;
                }
            }
            assert_eq!(got, stream, "in pieces of {width}");
        }
        assert!(Upstream::default().from_datagram(u64::MAX, &[1]).is_empty());
    }

    #[test]
    fn a_datagram_need_not_wait_for_the_stream() {
        let mut upstream = Upstream::default();
        assert_eq!(upstream.from_stream(b"hello "), b"hello ");
        assert_eq!(upstream.from_datagram(3, b"lo a key"), b"a key");
        assert_eq!(upstream.from_stream(b"a key up"), b" up");
        assert_eq!(upstream.from_datagram(20, b"more"), b"");
    }
}
