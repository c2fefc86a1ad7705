//! How many bytes do real screens take, and how fast, against what Tight and ZRLE do: zlib 1 with one context?
//!
//! `thinc-bench corpus --to FOLDER`, then `cargo run --release -p thinc-bench-codecs --example corpus -- FOLDER`. Whole screens,
//! and rectangles of three sizes at random places (a fixed seed) that are not of one colour. Every picture is decoded and
//! compared. Speeds are processor time of this thread, the best of three, and count four bytes a pixel.

use std::collections::BTreeMap;
use std::path::Path;

use flate2::{Compress, Compression, FlushCompress};
use thinc_codec_dec::{Decoder, StreamUnpacker};
use thinc_codec_enc::{EncodeSettings, Encoder, Entropy, StreamPacker};
use thinc_pixels::{Content, Planned, Shadow, Snapshot, plan};
use thinc_protocol::command::{Command, CommandReader};
use thinc_region::{Rect, Region, Size};

/// A part of a capture, and what is measured of it.
struct Picture {
    kind: String,
    size: Size,
    pixels: Vec<u32>,
    snapshot: Snapshot,
    planned: Vec<Planned>,
}

impl Picture {
    fn new(kind: &str, size: Size, pixels: Vec<u32>) -> Picture {
        let mut snapshot = Snapshot::new();
        snapshot.fill(&Region::from(size.rect()), |_, dst, stride| {
            for (dst, row) in dst.chunks_mut(stride).zip(pixels.chunks(size.width as usize)) {
                dst[..row.len()].copy_from_slice(row);
            }
        });
        let mut planned = Vec::new();
        plan(&snapshot, &mut Shadow::new(size), &mut planned);
        Picture { kind: kind.to_owned(), size, pixels, snapshot, planned }
    }

    fn part(&self, rect: &Rect) -> Picture {
        let rows = self.pixels.chunks(self.size.width as usize);
        let rows = rows.skip(rect.y1 as usize).take(rect.height() as usize);
        let pixels = rows.flat_map(|row| &row[rect.x1 as usize..rect.x2 as usize]).copied().collect();
        Picture::new(&self.kind, Size { width: rect.width() as u32, height: rect.height() as u32 }, pixels)
    }

    /// Three bytes a pixel, as Tight sends them.
    fn bytes(&self) -> Vec<u8> {
        self.pixels.iter().flat_map(|pixel| pixel.to_le_bytes().into_iter().take(3)).collect()
    }
}

/// Reads the captures of a folder in the order of its index.
fn load(folder: &Path) -> Vec<(String, Picture)> {
    let index = std::fs::read_to_string(folder.join("index.json")).expect("a folder that `thinc-bench corpus` wrote");
    let field = |capture: &str, name: &str| {
        let after = capture.split(&format!("\"{name}\": \"")).nth(1).expect("every capture has this field");
        after.split('"').next().unwrap_or_default().to_owned()
    };
    let captures = index.split('{').filter(|capture| capture.contains("\"file\""));
    captures
        .map(|capture| {
            let (name, kind) = (field(capture, "name"), field(capture, "kind"));
            let file =
                std::fs::read(folder.join(field(capture, "file"))).expect("the index names files that are there");
            let mut parts = file.splitn(4, |&byte| byte == b'\n');
            let head = parts.nth(1).and_then(|line| std::str::from_utf8(line).ok()).expect("a PPM file");
            let (width, height) = head.split_once(' ').expect("width and height");
            let size = Size { width: width.parse().expect("a number"), height: height.parse().expect("a number") };
            let data = parts.nth(1).expect("pixels");
            let pixel = |c: &[u8; 3]| u32::from(c[0]) << 16 | u32::from(c[1]) << 8 | u32::from(c[2]);
            (name, Picture::new(&kind, size, data.as_chunks().0.iter().map(pixel).collect()))
        })
        .collect()
}

/// Rectangles at random places of all captures.
fn parts(screens: &[(String, Picture)], width: i32, height: i32, count: usize) -> Vec<Picture> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |limit: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    };
    let mut found = Vec::new();
    while found.len() < count {
        let screen = &screens[next(screens.len())].1;
        let x = next(screen.size.width as usize - width as usize) as i32;
        let y = next(screen.size.height as usize - height as usize) as i32;
        let part = screen.part(&Rect::at(x, y, width, height));
        if part.pixels.iter().any(|&pixel| pixel != part.pixels[0]) {
            found.push(part);
        }
    }
    found
}

/// A way to send pictures one after the other.
trait Codec {
    /// Replaces `out` with what is sent.
    fn encode(&mut self, picture: &Picture, out: &mut Vec<u8>);
    /// Replaces `pixels` with what is shown; says false where this is not measured.
    fn decode(&mut self, sent: &[u8], picture: &Picture, pixels: &mut Vec<u32>) -> bool;
}

/// Makes one that has seen nothing.
type Make = Box<dyn Fn() -> Box<dyn Codec>>;

/// zlib 1 on three bytes a pixel, or on the indices of up to 96 colours, with a context for each kind.
struct Zlib {
    palettes: bool,
    /// Whether each picture stands alone.
    fresh: bool,
    streams: [Compress; 3],
    bytes: Vec<u8>,
}

impl Zlib {
    fn new(palettes: bool, fresh: bool) -> Zlib {
        Zlib {
            palettes,
            fresh,
            streams: std::array::from_fn(|_| Compress::new(Compression::new(1), true)),
            bytes: Vec::new(),
        }
    }

    /// Indices and the kind of stream they belong to; `None` where there are more colours.
    fn indices(&mut self, picture: &Picture, out: &mut Vec<u8>) -> Option<usize> {
        let mut colors = BTreeMap::new();
        for &pixel in &picture.pixels {
            let next = colors.len();
            colors.entry(pixel).or_insert(next as u8);
            if colors.len() > 96 {
                return None;
            }
        }
        out.extend(colors.keys().flat_map(|pixel| pixel.to_le_bytes().into_iter().take(3)));
        self.bytes.clear();
        if colors.len() > 2 {
            self.bytes.extend(picture.pixels.iter().map(|pixel| colors[pixel]));
            return Some(1);
        }
        for row in picture.pixels.chunks(picture.size.width as usize) {
            let bits = |eight: &[u32]| eight.iter().enumerate().fold(0, |all, (i, p)| all | colors[p] << (7 - i));
            self.bytes.extend(row.chunks(8).map(bits));
        }
        Some(2)
    }
}

impl Codec for Zlib {
    fn encode(&mut self, picture: &Picture, out: &mut Vec<u8>) {
        out.clear();
        let stream = self.palettes.then(|| self.indices(picture, out)).flatten().unwrap_or_else(|| {
            self.bytes = picture.bytes();
            0
        });
        let zlib = &mut self.streams[stream];
        if self.fresh {
            zlib.reset();
        }
        out.reserve(self.bytes.len() + self.bytes.len() / 100 + 64);
        let before = zlib.total_in();
        zlib.compress_vec(&self.bytes, out, FlushCompress::Sync).expect("zlib packs any bytes");
        assert_eq!(zlib.total_in() - before, self.bytes.len() as u64, "the buffer holds all");
    }

    fn decode(&mut self, _: &[u8], _: &Picture, _: &mut Vec<u32>) -> bool {
        false
    }
}

/// Ours.
struct Own {
    entropy: Entropy,
    planned: bool,
    encoder: Encoder,
    packer: Option<StreamPacker>,
    decoder: Decoder,
    unpacker: StreamUnpacker,
    commands: Vec<u8>,
    how: Option<thinc_protocol::session::Packed>,
}

impl Own {
    fn new(entropy: Entropy, packer: Option<StreamPacker>, planned: bool) -> Own {
        Own {
            entropy,
            planned,
            encoder: Encoder::new(),
            packer,
            decoder: Decoder::new(),
            unpacker: StreamUnpacker::new(),
            commands: Vec::new(),
            how: None,
        }
    }
}

impl Codec for Own {
    fn encode(&mut self, picture: &Picture, out: &mut Vec<u8>) {
        out.clear();
        self.commands.clear();
        let settings = EncodeSettings { entropy: self.entropy, ..EncodeSettings::default() };
        let alone = [Planned::Pixels { rect: picture.size.rect(), content: Content::Unknown }];
        let planned = if self.planned { &picture.planned[..] } else { &alone };
        self.encoder.encode_with(planned, &picture.snapshot, &settings, &mut self.commands);
        self.how = self.packer.as_mut().and_then(|packer| packer.pack(&self.commands, out));
        if self.how.is_none() {
            out.extend_from_slice(&self.commands);
        }
    }

    fn decode(&mut self, sent: &[u8], picture: &Picture, pixels: &mut Vec<u32>) -> bool {
        let mut commands = sent;
        if let Some(how) = self.how {
            self.unpacker.unpack(how, sent, &mut self.commands).expect("a packed update of ours");
            commands = &self.commands;
        }
        pixels.resize(picture.pixels.len(), 0);
        let stride = picture.size.width as usize;
        let mut tile = Vec::new();
        for command in CommandReader::new(commands, picture.size) {
            let command = command.expect("a command of ours");
            let (Command::Raw { rect, .. } | Command::Bitmap { rect, .. } | Command::Pfill { rect, .. }) = &command
            else {
                let Command::Sfill { region, color } = &command else { panic!("{command:?}") };
                for rect in region.rects() {
                    for row in pixels.chunks_mut(stride).skip(rect.y1 as usize).take(rect.height() as usize) {
                        row[rect.x1 as usize..rect.x2 as usize].fill(*color);
                    }
                }
                continue;
            };
            let dst = &mut pixels[rect.y1 as usize * stride + rect.x1 as usize..];
            let extent = (rect.width() as usize, rect.height() as usize);
            let result = match &command {
                Command::Raw { encoding, data, .. } => self.decoder.raw(*encoding, data, extent, dst, stride),
                Command::Bitmap { depth, packing, data, fg, bg, .. } => {
                    self.decoder.bitmap(*depth, *packing, data, (*fg, *bg), extent, dst, stride)
                }
                Command::Pfill { encoding, data, tile_width, tile_height, .. } => {
                    let size = (usize::from(*tile_width), usize::from(*tile_height));
                    self.decoder.tile(*encoding, data, size, &mut tile).inspect(|()| {
                        for (y, row) in dst.chunks_mut(stride).take(extent.1).enumerate() {
                            let from = &tile[y % size.1 * size.0..][..size.0];
                            row[..extent.0].iter_mut().zip(from.iter().cycle()).for_each(|(to, from)| *to = *from);
                        }
                    })
                }
                _ => unreachable!("the other commands were taken out"),
            };
            result.expect("data of ours");
        }
        true
    }
}

/// Bytes and seconds of one kind of pictures.
#[derive(Clone, Copy, Default)]
struct Sum {
    sent: usize,
    pixels: usize,
    encode_s: f64,
    decode_s: f64,
}

/// Processor time of this thread.
fn processor_s() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Sends all pictures through a new codec three times; sums by kind, and over all.
fn measure(pictures: &[&Picture], codec: &dyn Fn() -> Box<dyn Codec>) -> BTreeMap<String, Sum> {
    let mut best: Vec<Sum> = Vec::new();
    for round in 0..3 {
        let mut codec = codec();
        let (mut out, mut pixels) = (Vec::new(), Vec::new());
        for (i, picture) in pictures.iter().enumerate() {
            let start = processor_s();
            codec.encode(picture, &mut out);
            let encode_s = processor_s() - start;
            pixels.clear();
            let start = processor_s();
            let decoded = codec.decode(&out, picture, &mut pixels);
            let decode_s = if decoded { processor_s() - start } else { f64::INFINITY };
            let same = |(a, b): (&u32, &u32)| (a ^ b) & 0x00ff_ffff == 0;
            assert!(!decoded || pixels.iter().zip(&picture.pixels).all(same), "decoded is what was encoded");
            let sum = Sum { sent: out.len(), pixels: picture.pixels.len(), encode_s, decode_s };
            if round == 0 {
                best.push(sum);
            }
            let least = &mut best[i];
            least.encode_s = least.encode_s.min(encode_s);
            least.decode_s = least.decode_s.min(decode_s);
        }
    }
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for (picture, one) in pictures.iter().zip(best) {
        for kind in ["all", &picture.kind] {
            let sum = sums.entry(kind.to_owned()).or_default();
            sum.sent += one.sent;
            sum.pixels += one.pixels;
            sum.encode_s += one.encode_s;
            sum.decode_s += one.decode_s;
        }
    }
    sums
}

fn main() {
    let folder = std::env::args().nth(1).expect("usage: corpus FOLDER [each|screens]");
    let word = std::env::args().nth(2).unwrap_or_default();
    let screens = load(Path::new(&folder));
    let stream = |level| move || Own::new(Entropy::Stream, Some(StreamPacker::new(level)), false);
    let codecs: [(&str, Make); 10] = [
        ("zlib 1, one context", Box::new(|| Box::new(Zlib::new(false, false)))),
        ("Tight-like", Box::new(|| Box::new(Zlib::new(true, false)))),
        ("Tight-like, alone", Box::new(|| Box::new(Zlib::new(true, true)))),
        ("none", Box::new(|| Box::new(Own::new(Entropy::None, None, false)))),
        ("blocks of zstd 1", Box::new(|| Box::new(Own::new(Entropy::Block { level: 1 }, None, false)))),
        ("blocks of zstd 3", Box::new(|| Box::new(Own::new(Entropy::Block { level: 3 }, None, false)))),
        ("stream of zstd 1", Box::new(move || Box::new(stream(1)()))),
        ("stream of zstd 3", Box::new(move || Box::new(stream(3)()))),
        ("planned, blocks 1", Box::new(|| Box::new(Own::new(Entropy::Block { level: 1 }, None, true)))),
        ("planned, stream 1", Box::new(|| Box::new(Own::new(Entropy::Stream, Some(StreamPacker::new(1)), true)))),
    ];
    let mut classes = vec![("screens", screens.iter().map(|(_, screen)| screen.part(&screen.size.rect())).collect())];
    if word.is_empty() {
        classes.extend([
            ("300 x 200", parts(&screens, 300, 200, 300)),
            ("400 x 18", parts(&screens, 400, 18, 700)),
            ("16 x 20", parts(&screens, 16, 20, 3000)),
        ]);
    }
    for (class, pictures) in &classes {
        let pictures: Vec<&Picture> = pictures.iter().collect();
        let reference = measure(&pictures, &*codecs[0].1);
        println!("\n{class}: KB (of zlib 1), MB/s encoded / decoded");
        for (name, codec) in &codecs {
            print!("{name:20}");
            for (kind, sum) in measure(&pictures, &**codec) {
                let part = 100.0 * sum.sent as f64 / reference[&kind].sent as f64;
                let speed = |seconds: f64| sum.pixels as f64 * 4e-6 / seconds;
                let (encoded, decoded) = (speed(sum.encode_s), speed(sum.decode_s));
                print!(" | {kind} {:7.1} ({part:5.1} %) {encoded:4.0}/{decoded:4.0}", sum.sent as f64 / 1e3);
            }
            println!();
        }
    }
    if word == "each" {
        for (name, screen) in &screens {
            let whole = screen.part(&screen.size.rect());
            print!("{name:20}");
            for codec in [&codecs[0], &codecs[4], &codecs[6]] {
                let sum = measure(&[&whole], &*codec.1)["all"];
                let speed = |seconds: f64| sum.pixels as f64 * 4e-6 / seconds;
                let (encoded, decoded) = (speed(sum.encode_s), speed(sum.decode_s));
                print!(" | {} {:6.1} KB {encoded:4.0}/{decoded:4.0}", codec.0, sum.sent as f64 / 1e3);
            }
            println!();
        }
    }
}
