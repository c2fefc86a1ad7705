//! Path 9/13 and 10/13: session-core's encoding choices in codec-enc's types, and the entropy coder
//! of a connection. From render.rs with a job's quality, to worker.rs with the encoder's settings;
//! from actor.rs with outgoing commands, to their message or a datagram. Converts types; makes no
//! decision.

use std::time::{Duration, Instant};

use thinc_codec_enc::{EncodeSettings, Entropy, JpegProfile, StreamPacker};
use thinc_protocol::session::{PROBE, Packed};
use thinc_session_core::{self as core, Packer, Quality};
use thinc_transport::parity::{ParityEncoder, TailPath};
use thinc_transport::path::PathInfo;
use thinc_transport::quic::Datagrams;

/// The encoder settings for a job of this quality, in which frames have this profile.
pub(crate) fn settings(quality: Quality, frames: Option<core::JpegProfile>) -> EncodeSettings {
    EncodeSettings {
        entropy: match quality.entropy {
            core::Entropy::None => Entropy::None,
            core::Entropy::Stream { .. } => Entropy::Stream,
            core::Entropy::Block { level } => Entropy::Block { level },
        },
        jpeg: quality.lossy.map(jpeg),
        frames: frames.map(jpeg),
    }
}

fn jpeg(profile: core::JpegProfile) -> JpegProfile {
    match profile {
        core::JpegProfile::High => JpegProfile::High,
        core::JpegProfile::Medium => JpegProfile::Medium,
        core::JpegProfile::Low => JpegProfile::Low,
    }
}

/// Packs a connection's outgoing updates while session-core chooses a stream coder, and sends its
/// datagrams.
#[derive(Debug)]
pub(crate) struct ConnectionPacker {
    entropy: core::Entropy,
    /// Created for the first packed update: a viewer without stream decoding needs none.
    stream: Option<StreamPacker>,
    took: Duration,
    /// The connection's datagrams, if its transport has them.
    datagrams: Option<Datagrams>,
    /// Redundancy for the end of a burst; `None` if the viewer does not accept it.
    parity: Option<ParityEncoder>,
}

impl ConnectionPacker {
    pub(crate) fn new(datagrams: Option<Datagrams>) -> ConnectionPacker {
        ConnectionPacker {
            entropy: core::Entropy::None,
            stream: None,
            took: Duration::ZERO,
            datagrams,
            parity: None,
        }
    }

    /// The viewer accepts parities.
    pub(crate) fn enable_parity(&mut self) {
        self.parity = self.datagrams.is_some().then(ParityEncoder::default);
    }

    /// These bytes are written to the stream.
    pub(crate) fn written(&mut self, chunk: &[u8]) {
        self.parity.iter_mut().for_each(|parity| parity.written(chunk));
    }

    /// Nothing more waits to be sent: protects the last bytes against loss.
    pub(crate) fn protect_tail(&mut self, path: Option<PathInfo>) {
        let (Some(parity), Some(datagrams), Some(path)) = (&mut self.parity, &self.datagrams, path)
        else {
            return;
        };
        if !parity.has_new_bytes() {
            return;
        }
        let PathInfo { unacknowledged, window, rtt, .. } = path;
        let (packets, lost) = datagrams.packets();
        let tail = TailPath { unacknowledged, window, rtt, packets, lost };
        parity.protect_tail(tail, datagrams.parity_max_len(), |message| {
            if datagrams.parity_max_len() >= message.len() {
                datagrams.send(message);
            }
        });
    }

    /// Some updates may be sent as datagrams.
    pub(crate) fn has_datagrams(&self) -> bool {
        self.datagrams.is_some()
    }

    /// Sets how updates are packed from here on. Unpacked updates leave the state of the stream as
    /// it is.
    pub(crate) fn set_entropy(&mut self, entropy: core::Entropy) {
        self.entropy = entropy;
    }

    /// Time spent since the last call.
    pub(crate) fn take_pack_time(&mut self) -> Duration {
        std::mem::take(&mut self.took)
    }
}

impl Packer for ConnectionPacker {
    fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed> {
        let core::Entropy::Stream { level } = self.entropy else { return None };
        let started = Instant::now();
        let stream = self.stream.get_or_insert_with(|| StreamPacker::new(level));
        stream.set_level(level);
        let packed = stream.pack(commands, out);
        self.took += started.elapsed();
        packed
    }

    fn datagram_bytes(&self) -> usize {
        self.datagrams.as_ref().map_or(0, Datagrams::max_len)
    }

    fn put_datagram(&mut self, frame: &[u8]) {
        self.datagrams.iter().for_each(|datagrams| {
            if *frame == PROBE { datagrams.send_probe(frame) } else { datagrams.send(frame) }
        });
    }
}
