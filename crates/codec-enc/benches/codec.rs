//! How much time and how many bytes do encoding and decoding a screen take, compared with zstd-1 on
//! three bytes per pixel?
//!
//! `cargo bench -p thinc-codec-enc --bench codec`. Throughput counts four bytes per pixel, as in a
//! framebuffer. Screens are planned first, as in a session; "pixels alone" is one RAW of the whole
//! screen, the usual task of a codec; "for a stream" leaves entropy coding to the connection, so
//! that text is encoded by columns.

#[path = "../../pixels/benches/screens/mod.rs"]
mod screens;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use screens::{SIZE, Screen};
use thinc_codec_dec::Decoder;
use thinc_codec_enc::{EncodeSettings, Encoder, Entropy};
use thinc_pixels::{Content, Planned, Shadow, plan};
use thinc_protocol::command::{Command, CommandReader};

/// The simplest design.
struct Zstd {
    packed: Vec<u8>,
    compressed: Vec<u8>,
    unpacked: Vec<u8>,
}

impl Zstd {
    fn new(screen: &Screen) -> Zstd {
        let packed = screen.packed();
        let compressed = vec![0; zstd_safe::compress_bound(packed.len())];
        Zstd { unpacked: vec![0; packed.len()], packed, compressed }
    }

    fn compress(&mut self, context: &mut zstd_safe::CCtx<'_>, screen: &Screen) -> usize {
        for (packed, pixel) in self.packed.as_chunks_mut::<3>().0.iter_mut().zip(&screen.0) {
            *packed = [*pixel as u8, (*pixel >> 8) as u8, (*pixel >> 16) as u8];
        }
        context
            .compress2(&mut self.compressed[..], &self.packed)
            .expect("the bound must fit a frame")
    }

    fn decompress(&mut self, context: &mut zstd_safe::DCtx<'_>, len: usize, pixels: &mut [u32]) {
        context
            .decompress(&mut self.unpacked[..], &self.compressed[..len])
            .expect("a frame of ours");
        for (pixel, packed) in pixels.iter_mut().zip(self.unpacked.as_chunks::<3>().0) {
            *pixel = u32::from_le_bytes([packed[0], packed[1], packed[2], 0xff]);
        }
    }
}

/// The measured code: `./dev bench instructions` makes valgrind count only inside this function.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn benches(criterion: &mut Criterion) {
    for (name, screen) in [
        ("terminal", screens::terminal(0)),
        ("page", screens::page(0)),
        ("photograph", screens::photograph()),
    ] {
        let snapshot = screen.snapshot();
        let mut planned = Vec::new();
        plan(&snapshot, &mut Shadow::new(SIZE), &mut planned);
        let alone = [Planned::Pixels { rect: SIZE.rect(), content: Content::Unknown }];
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let mut zstd = Zstd::new(&screen);
        let mut context = zstd_safe::CCtx::create();
        context
            .set_parameter(zstd_safe::CParameter::CompressionLevel(1))
            .expect("zstd knows level 1");
        let mut pixels = vec![0u32; screen.0.len()];
        let block = EncodeSettings::default();
        let stream = EncodeSettings { entropy: Entropy::Stream, ..block };
        let bytes_of = |encoder: &mut Encoder, planned: &[Planned], settings: &EncodeSettings| {
            let mut out = Vec::new();
            encoder.encode_with(planned, &snapshot, settings, &mut out);
            out
        };
        let commands = bytes_of(&mut encoder, &planned, &block);
        let raw = bytes_of(&mut encoder, &alone, &block);
        let streamed = bytes_of(&mut encoder, &alone, &stream);
        let zstd_len = zstd.compress(&mut context, &screen);
        println!(
            "{name}: {} bytes as planned, {} as one RAW, {zstd_len} by zstd-1 on three bytes \
             per pixel ({:.2} and {:.2} of it); \
             {} for a stream to pack",
            commands.len(),
            raw.len(),
            commands.len() as f64 / zstd_len as f64,
            raw.len() as f64 / zstd_len as f64,
            streamed.len()
        );

        let mut group = criterion.benchmark_group(format!("encode {name}"));
        group.throughput(Throughput::Bytes(SIZE.area() * 4));
        let mut out = Vec::new();
        for (what, planned, settings) in [
            ("as planned", &planned[..], &block),
            ("pixels alone", &alone[..], &block),
            ("pixels for a stream", &alone[..], &stream),
        ] {
            group.bench_function(what, |b| {
                b.iter(|| {
                    out.clear();
                    measured(|| {
                        encoder.encode_with(
                            black_box(planned),
                            black_box(&snapshot),
                            settings,
                            &mut out,
                        )
                    });
                });
            });
        }
        group.bench_function("zstd-1 (reference)", |b| {
            b.iter(|| measured(|| zstd.compress(&mut context, black_box(&screen))))
        });
        group.bench_function("copy", |b| {
            b.iter(|| measured(|| black_box(&mut pixels).copy_from_slice(black_box(&screen.0))))
        });
        group.finish();

        let mut group = criterion.benchmark_group(format!("decode {name}"));
        group.throughput(Throughput::Bytes(SIZE.area() * 4));
        decode_raws(&mut decoder, &raw, &mut pixels);
        assert!(
            pixels.iter().zip(&screen.0).all(|(a, b)| (a ^ b) & 0x00ff_ffff == 0),
            "the decoded pixels must equal the encoded ones"
        );
        group.bench_function("pixels alone", |b| {
            b.iter(|| measured(|| decode_raws(&mut decoder, black_box(&raw), &mut pixels)))
        });
        let mut context = zstd_safe::DCtx::create();
        group.bench_function("zstd-1 (reference)", |b| {
            b.iter(|| measured(|| zstd.decompress(&mut context, zstd_len, &mut pixels)))
        });
        group.finish();
    }
}

/// Decodes commands that are all RAWs.
fn decode_raws(decoder: &mut Decoder, commands: &[u8], pixels: &mut [u32]) {
    let stride = SIZE.width as usize;
    for command in CommandReader::new(commands, SIZE) {
        let Ok(Command::Raw { rect, encoding, data }) = command else {
            panic!("every command must be a RAW")
        };
        let extent = (rect.width() as usize, rect.height() as usize);
        let dst = &mut pixels[rect.y1 as usize * stride + rect.x1 as usize..];
        decoder.raw(encoding, data, extent, dst, stride).expect("encoded data must decode");
    }
}

criterion_group!(codec, benches);
criterion_main!(codec);
