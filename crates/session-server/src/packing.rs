//! Path 9/13 and 10/13: session-core's choices for one viewer, as codec-enc takes them, and the stream of its connection.
//! From render.rs with a job's quality, to worker.rs with what its encoder may spend; from actor.rs with what leaves, to its frame or a datagram.
//! Knows both vocabularies; chooses nothing.

use std::time::{Duration, Instant};

use thinc_codec_enc::{EncodeSettings, Entropy, JpegProfile, StreamPacker};
use thinc_protocol::session::{ASK, Packed};
use thinc_session_core::{self as core, Packer, Quality};
use thinc_transport::quic::Datagrams;

/// What an encoder may spend on a job of this quality.
pub(crate) fn settings(quality: Quality) -> EncodeSettings {
    EncodeSettings {
        entropy: match quality.entropy {
            core::Entropy::None => Entropy::None,
            core::Entropy::Stream { .. } => Entropy::Stream,
            core::Entropy::Block { level } => Entropy::Block { level },
        },
        jpeg: quality.lossy.map(|profile| match profile {
            core::JpegProfile::High => JpegProfile::High,
            core::JpegProfile::Medium => JpegProfile::Medium,
            core::JpegProfile::Low => JpegProfile::Low,
        }),
    }
}

/// Packs what leaves on one connection, while session-core wants a stream there.
#[derive(Debug)]
pub(crate) struct Packing {
    entropy: core::Entropy,
    /// From the first that is packed: a viewer that reads no stream has none.
    stream: Option<StreamPacker>,
    took: Duration,
    /// A way beside the stream.
    datagrams: Option<Datagrams>,
}

impl Packing {
    pub(crate) fn new(datagrams: Option<Datagrams>) -> Packing {
        Packing { entropy: core::Entropy::None, stream: None, took: Duration::ZERO, datagrams }
    }

    /// Some of what leaves may go beside the stream.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.datagrams.is_some()
    }

    /// What is packed from here on. Plain updates between leave the stream as it is.
    pub(crate) fn choose(&mut self, entropy: core::Entropy) {
        self.entropy = entropy;
    }

    /// Time spent since this was asked last.
    pub(crate) fn take_time(&mut self) -> Duration {
        std::mem::take(&mut self.took)
    }
}

impl Packer for Packing {
    fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed> {
        let core::Entropy::Stream { level } = self.entropy else { return None };
        let begun = Instant::now();
        let stream = self.stream.get_or_insert_with(|| StreamPacker::new(level));
        stream.set_level(level);
        let packed = stream.pack(commands, out);
        self.took += begun.elapsed();
        packed
    }

    fn datagram_bytes(&self) -> usize {
        self.datagrams.as_ref().map_or(0, Datagrams::room)
    }

    fn put_datagram(&mut self, frame: &[u8]) {
        self.datagrams
            .iter()
            .for_each(|datagrams| if *frame == ASK { datagrams.ask(frame) } else { datagrams.send(frame) });
    }
}
