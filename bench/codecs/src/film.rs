//! How good is what thinc's encoders, each that was built in, make of a film, beside x264 superfast (without latency, one thread) at the bits that ours
//! took? Both are decoded and held against the film by the same sums: PSNR of luma and colour, without the bar codes.
//! Knows encoders and clocks; the x264 that they are held against is run as a program, by ffmpeg, and may do all that it can.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::time::{ClockId, clock_gettime};
use thinc_bench::Error;
use thinc_bench::workloads::content::clip::Film;
use thinc_h264::{Decoder, Encoder, EncoderSettings, Library};
use thinc_region::Size;
use thinc_video::{Planes, PlanesRef, to_yuv420};

/// What pictures, how many a second, at how many bits.
struct Case {
    size: Size,
    rate: u32,
    bits: u64,
}

const CASES: [Case; 3] = [
    Case { size: Size { width: 352, height: 240 }, rate: 24, bits: 800_000 },
    Case { size: Size { width: 1280, height: 720 }, rate: 30, bits: 2_000_000 },
    Case { size: Size { width: 1920, height: 1080 }, rate: 30, bits: 6_000_000 },
];
/// How far ours may be below x264's.
const LOSS_MAX_DB: f64 = 1.5;
/// Shots of the film whose beginnings are taken, of which each frame is one that a camera made.
const SHOTS: u32 = 3;
const SHOT: u32 = 70;
/// How far the bits that are compared may be apart, and how often x264 is told others.
const BITS_SLACK: f64 = 0.02;
const TRIES_MAX: usize = 4;

/// What one encoder did.
struct Made {
    bits_per_second: f64,
    psnr_db: f64,
    encode_ms: f64,
    decode_ms: f64,
}

/// Measures and prints; an error where a case is further off than it may be. `clip`: a film of somebody's own in place of ours.
pub(crate) fn run(clip: Option<&Path>, frames: u32) -> Result<(), Error> {
    println!(
        "case | encoder | kbit/s | PSNR dB, ours | x264 superfast | difference | kbit/s of x264 | encode, ms a frame | decode"
    );
    let mut far = Vec::new();
    for case in &CASES {
        let name = format!("{}x{}@{}", case.size.width, case.size.height, case.rate);
        let film = match clip {
            Some(clip) => read(clip, case, frames)?,
            None => paint(case, frames)?,
        };
        for &library in Library::ALL {
            let ours = encode_ours(case, library, &film)?;
            let theirs = at_same_bits(case, &film, ours.bits_per_second)?;
            let loss = theirs.psnr_db - ours.psnr_db;
            println!(
                "{name} | {} | {:.0} | {:.2} | {:.2} | {:+.2} | {:.0} | {:.2} | {:.2}",
                library.name(),
                ours.bits_per_second / 1e3,
                ours.psnr_db,
                theirs.psnr_db,
                -loss,
                theirs.bits_per_second / 1e3,
                ours.encode_ms,
                ours.decode_ms
            );
            if loss > LOSS_MAX_DB {
                let name = format!("{name} by {}", library.name());
                far.push(format!("{name}: {loss:.2} dB below x264 superfast, at most {LOSS_MAX_DB} wanted"));
            }
        }
    }
    if far.is_empty() { Ok(()) } else { Err(far.join("; ").into()) }
}

/// The film's shots, one after another, as samples.
fn paint(case: &Case, frames: u32) -> Result<Vec<Planes>, Error> {
    let film = Film::sized(case.size.width as usize, case.size.height as usize);
    let each = frames.div_ceil(SHOTS).min(SHOT);
    let numbers = (0..SHOTS).flat_map(|shot| (0..each).map(move |frame| shot * 2 * SHOT + frame));
    let to_samples = |number| {
        let pixels: Vec<u32> = film
            .frame(number)
            .rgb
            .as_chunks::<3>()
            .0
            .iter()
            .map(|&[r, g, b]| u32::from_be_bytes([0, r, g, b]))
            .collect();
        let mut planes = Planes::new();
        to_yuv420(&pixels, case.size.width as usize, case.size, &mut planes);
        planes
    };
    Ok(numbers.take(frames as usize).map(to_samples).collect())
}

/// The first frames of a file, in the case's size.
fn read(clip: &Path, case: &Case, frames: u32) -> Result<Vec<Planes>, Error> {
    let (scale, frames) = (format!("scale={}:{}", case.size.width, case.size.height), frames.to_string());
    let mut ffmpeg = ffmpeg();
    ffmpeg.arg("-i").arg(clip).args([
        "-vf",
        &scale,
        "-frames:v",
        &frames,
        "-f",
        "rawvideo",
        "-pix_fmt",
        "yuv420p",
        "-",
    ]);
    let output = ffmpeg.output()?;
    if !output.status.success() {
        return Err(format!("ffmpeg: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(pictures(&output.stdout, case.size).collect())
}

fn ffmpeg() -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-y"]).stdin(Stdio::null());
    ffmpeg
}

fn pictures(samples: &[u8], size: Size) -> impl Iterator<Item = Planes> + '_ {
    let bytes = thinc_video::Layout::Yuv420.bytes(size) as usize;
    samples.chunks_exact(bytes).map(move |samples| {
        let mut planes = Planes::new();
        planes.reset(size, thinc_video::Layout::Yuv420);
        planes.data_mut().copy_from_slice(samples);
        planes
    })
}

fn cpu_ms() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

fn encode_ours(case: &Case, library: Library, film: &[Planes]) -> Result<Made, Error> {
    let settings = EncoderSettings { size: case.size, bits_per_second: case.bits, frames_per_second: case.rate };
    let (mut encoder, mut decoder) = (Encoder::with(library, settings)?, Decoder::new(case.size)?);
    let (mut shown, mut error) = (Planes::new(), Squares::default());
    let (mut bytes, mut encode_ms, mut decode_ms) = (0, 0.0, 0.0);
    for picture in film {
        let mut unit = Vec::new();
        let begun = cpu_ms();
        encoder.encode(&picture.as_ref(), false, &mut unit)?;
        let encoded = cpu_ms();
        decoder.decode(&unit, &mut shown)?;
        (encode_ms, decode_ms) = (encode_ms + encoded - begun, decode_ms + cpu_ms() - encoded);
        bytes += unit.len();
        error.add(&picture.as_ref(), &shown.as_ref());
    }
    let frames = film.len() as f64;
    Ok(Made {
        bits_per_second: bytes as f64 * 8.0 * f64::from(case.rate) / frames,
        psnr_db: error.psnr_db(),
        encode_ms: encode_ms / frames,
        decode_ms: decode_ms / frames,
    })
}

/// x264 takes other bits than it is told to, some percent more or less: it is told others until it takes ours.
fn at_same_bits(case: &Case, film: &[Planes], bits_per_second: f64) -> Result<Made, Error> {
    let mut told = bits_per_second;
    let mut made = encode_x264(case, film, told)?;
    for _ in 0..TRIES_MAX {
        let off = made.bits_per_second / bits_per_second;
        if (off - 1.0).abs() <= BITS_SLACK {
            break;
        }
        told /= off;
        made = encode_x264(case, film, told)?;
    }
    Ok(made)
}

fn encode_x264(case: &Case, film: &[Planes], bits_per_second: f64) -> Result<Made, Error> {
    let folder = thinc_bench::process::Folder::new("film")?;
    let (raw, coded) = (folder.path().join("film.yuv"), folder.path().join("film.h264"));
    let decoded: PathBuf = folder.path().join("decoded.yuv");
    let samples: Vec<u8> = film.iter().flat_map(|picture| picture.data()).copied().collect();
    fs::write(&raw, samples)?;
    let (size, rate) = (format!("{}x{}", case.size.width, case.size.height), case.rate.to_string());
    let bits = format!("{bits_per_second:.0}");
    let mut command = ffmpeg();
    command.args(["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", &size, "-r", &rate, "-i"]).arg(&raw);
    command.args(["-c:v", "libx264", "-preset", "superfast", "-tune", "zerolatency", "-threads", "1"]);
    command.args(["-b:v", &bits, "-maxrate", &bits, "-bufsize", &bits, "-g", "100000", "-f", "h264"]).arg(&coded);
    done(&mut command)?;
    let mut command = ffmpeg();
    command.arg("-i").arg(&coded).args(["-vsync", "0", "-f", "rawvideo", "-pix_fmt", "yuv420p"]).arg(&decoded);
    done(&mut command)?;
    let (bytes, samples) = (fs::metadata(&coded)?.len(), fs::read(&decoded)?);
    let mut error = Squares::default();
    let shown: Vec<Planes> = pictures(&samples, case.size).collect();
    if shown.len() != film.len() {
        return Err(format!("x264 made {} pictures of {}", shown.len(), film.len()).into());
    }
    film.iter().zip(&shown).for_each(|(was, is)| error.add(&was.as_ref(), &is.as_ref()));
    let bits_per_second = bytes as f64 * 8.0 * f64::from(case.rate) / film.len() as f64;
    Ok(Made { bits_per_second, psnr_db: error.psnr_db(), encode_ms: 0.0, decode_ms: 0.0 })
}

fn done(command: &mut Command) -> Result<(), Error> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ffmpeg: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

/// Squares of differences, of all planes together, and how many.
#[derive(Default)]
struct Squares {
    sum: f64,
    count: f64,
}

impl Squares {
    fn add(&mut self, was: &PlanesRef<'_>, is: &PlanesRef<'_>) {
        for plane in 0..3 {
            let height = was.plane_size(plane).height as usize;
            // What the codes of the film take: a fifteenth at either edge.
            let code = height / 15;
            for y in code..height - code {
                let width = was.plane_size(plane).width as usize;
                let pairs = was.row(plane, y).iter().zip(&is.row(plane, y)[..width]);
                let squares: u32 = pairs.map(|(&a, &b)| (i32::from(a) - i32::from(b)).pow(2) as u32).sum();
                self.sum += f64::from(squares);
                self.count += width as f64;
            }
        }
    }

    fn psnr_db(&self) -> f64 {
        10.0 * (255.0_f64.powi(2) * self.count / self.sum.max(1.0)).log10()
    }
}
