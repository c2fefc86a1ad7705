//! thinc's codec as a session and a viewer use it: a RAW command for the picture, packed by a stream's context or by itself.
//! The heads of the command and of its packing are counted with it. Knows codec-enc and codec-dec; never planning, which would find more than pixels.

use thinc_bench::Error;
use thinc_codec_dec::{Decoder, StreamUnpacker};
use thinc_codec_enc::{EncodeSettings, Encoder, Entropy, StreamPacker};
use thinc_pixels::{Content, Planned};
use thinc_protocol::command::{Command, CommandReader};
use thinc_protocol::session::Packed;
use thinc_region::Size;

use crate::codec::Codec;
use crate::samples::Sample;

/// Both ends.
pub(crate) struct Thinc {
    encoder: Encoder,
    settings: EncodeSettings,
    packer: Option<StreamPacker>,
    commands: Vec<u8>,
    packed: Vec<u8>,
    decoder: Decoder,
    unpacker: StreamUnpacker,
    unpacked: Vec<u8>,
}

/// Appends how the commands that follow are packed, as short as an update's head says it: 0 for not at all, else twice the length
/// that they have unpacked, and one more where a context begins; seven bits a byte, the lowest first.
fn write_head(packed: Option<Packed>, out: &mut Vec<u8>) {
    let mut left = packed.map_or(0, |packed| u64::from(packed.len) << 1 | u64::from(packed.anew));
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// The other end of [`write_head`], and what follows it.
fn read_head(bytes: &[u8]) -> Result<(Option<Packed>, &[u8]), Error> {
    let end = bytes.iter().take(5).position(|&byte| byte < 0x80).ok_or("an update without a head")? + 1;
    let value = bytes[..end].iter().rev().fold(0_u64, |value, &byte| value << 7 | u64::from(byte & 0x7f));
    let packed = (value > 0).then_some(Packed { len: (value >> 1) as u32, anew: value & 1 == 1 });
    Ok((packed, &bytes[end..]))
}

impl Thinc {
    pub(crate) fn plain() -> Thinc {
        Thinc::new(Entropy::None, None)
    }

    pub(crate) fn block(level: i32) -> Thinc {
        Thinc::new(Entropy::Block { level }, None)
    }

    pub(crate) fn stream(level: i32) -> Thinc {
        Thinc::new(Entropy::Stream, Some(StreamPacker::new(level)))
    }

    fn new(entropy: Entropy, packer: Option<StreamPacker>) -> Thinc {
        Thinc {
            encoder: Encoder::new(),
            settings: EncodeSettings { entropy, jpeg: None },
            packer,
            commands: Vec::new(),
            packed: Vec::new(),
            decoder: Decoder::new(),
            unpacker: StreamUnpacker::new(),
            unpacked: Vec::new(),
        }
    }
}

impl Codec for Thinc {
    fn encode(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), Error> {
        self.commands.clear();
        let planned = [Planned::Pixels { rect: sample.rect(), content: Content::Unknown }];
        self.encoder.encode_with(&planned, &sample.snapshot, &self.settings, &mut self.commands);
        self.packed.clear();
        let packed = self.packer.as_mut().and_then(|packer| packer.pack(&self.commands, &mut self.packed));
        out.clear();
        write_head(packed, out);
        out.extend_from_slice(if packed.is_some() { &self.packed } else { &self.commands });
        Ok(())
    }

    fn decode(&mut self, bytes: &[u8], width: usize, height: usize, pixels: &mut [u32]) -> Result<(), Error> {
        let (packed, data) = read_head(bytes)?;
        let commands = match packed {
            None => data,
            Some(packed) => {
                self.unpacker.unpack(packed, data, &mut self.unpacked)?;
                &self.unpacked
            }
        };
        let size = Size { width: width as u32, height: height as u32 };
        for command in CommandReader::new(commands, size) {
            let Command::Raw { rect, encoding, data } = command? else { return Err("pixels become RAWs alone".into()) };
            let extent = (rect.width() as usize, rect.height() as usize);
            let dst = &mut pixels[rect.y1 as usize * width + rect.x1 as usize..];
            self.decoder.raw(encoding, data, extent, dst, width)?;
        }
        Ok(())
    }
}
