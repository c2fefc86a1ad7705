//! How near a shown frame is to the file that was played, and what x264 makes of the same file at
//! the same bits. Under video_rate.rs. Knows samples and ffmpeg; never how a frame was shown.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Error;
use crate::observe::barcode;
use crate::observe::picture::Picture;
use crate::workloads::content::clip;

/// How far the bits that are compared may differ, how often x264 is given another rate, and the
/// lowest rate at which it encodes.
const BITS_SLACK: f64 = 0.02;
const TRIES_MAX: usize = 4;
const BITS_MIN: f64 = 50e3;
/// x264 takes no higher rate; a video that is sent as plain samples is given this one.
const BITS_MAX: f64 = 2e9;

/// Luma of a picture, 0 to 255, row by row. Colour is not compared: players interpolate its samples
/// in different ways.
pub(super) struct Luma {
    size: (usize, usize),
    levels: Vec<f64>,
}

impl Luma {
    pub(super) fn of_screen(picture: &Picture) -> Luma {
        let levels = picture.pixels.iter().map(|&pixel| {
            let [_, red, green, blue] = pixel.to_be_bytes().map(f64::from);
            luma_of([red, green, blue])
        });
        Luma { size: (picture.width as usize, picture.height as usize), levels: levels.collect() }
    }

    /// Of the rows between the bar codes, which are as large as in the video, with a margin for the
    /// blur of scaling.
    pub(super) fn psnr_db(&self, of: &Luma) -> f64 {
        assert_eq!(self.size, of.size, "pictures of one size are compared");
        let (width, height) = self.size;
        let code = height * (barcode::HEIGHT as usize + 2) / clip::HEIGHT;
        let rows = code * width..(height - code) * width;
        let pairs = self.levels[rows.clone()].iter().zip(&of.levels[rows.clone()]);
        let error: f64 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
        (10.0 * (255.0_f64.powi(2) * rows.len() as f64 / error.max(1e-9)).log10()).min(99.0)
    }
}

fn luma_of([red, green, blue]: [f64; 3]) -> f64 {
    0.299 * red + 0.587 * green + 0.114 * blue
}

/// A frame of a video: luma, blue and red difference, of limited range.
pub(super) struct Frame {
    planes: [Plane; 3],
}

struct Plane {
    size: (usize, usize),
    samples: Vec<f64>,
}

impl Plane {
    /// In another size, interpolated bilinearly, as every player scales.
    fn scaled(&self, size: (usize, usize)) -> Vec<f64> {
        let place = |at: usize, of: usize, from: usize| {
            let at =
                ((at as f64 + 0.5) * from as f64 / of as f64 - 0.5).clamp(0.0, from as f64 - 1.0);
            (at as usize, (at as usize + 1).min(from - 1), at.fract())
        };
        let sample = |x: usize, y: usize| self.samples[y * self.size.0 + x];
        let mut samples = Vec::with_capacity(size.0 * size.1);
        for y in 0..size.1 {
            let (above, below, down) = place(y, size.1, self.size.1);
            samples.extend((0..size.0).map(|x| {
                let (left, right, across) = place(x, size.0, self.size.0);
                let row = |y: usize| sample(left, y) * (1.0 - across) + sample(right, y) * across;
                row(above) * (1.0 - down) + row(below) * down
            }));
        }
        samples
    }
}

impl Frame {
    /// The frame in a window of this size without any rounding: the reference.
    pub(super) fn meant(&self, size: (usize, usize)) -> Luma {
        let level = |sample: f64| ((sample - 16.0) * 255.0 / 219.0).clamp(0.0, 255.0);
        Luma { size, levels: self.planes[0].scaled(size).into_iter().map(level).collect() }
    }

    /// The frame as a screen of 8 bits shows it: samples are rounded after scaling, and colours
    /// after conversion. Frames that were never on a screen are rounded as well, or else coded
    /// frames would seem better than exact ones.
    pub(super) fn shown(&self, size: (usize, usize)) -> Luma {
        let [luma, blue, red] = [0, 1, 2].map(|plane| self.planes[plane].scaled(size));
        let levels = luma.iter().zip(&blue).zip(&red).map(|((&luma, &blue), &red)| {
            let [y, u, v] = [luma.round() - 16.0, blue.round() - 128.0, red.round() - 128.0]
                .map(|part| part * 255.0);
            let [y, u, v] = [y / 219.0, u / 224.0, v / 224.0];
            let colour = [y + 1.402 * v, y - 0.344_136 * u - 0.714_136 * v, y + 1.772 * u];
            luma_of(colour.map(|part| part.round().clamp(0.0, 255.0)))
        });
        Luma { size, levels: levels.collect() }
    }
}

fn ffmpeg() -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-y"]).stdin(Stdio::null());
    ffmpeg
}

/// Frames of a file as it is played.
pub(super) fn frames_of(
    file: &Path,
    numbers: &[u32],
    (width, height): (u32, u32),
) -> Result<Vec<Frame>, Error> {
    let chosen: Vec<String> = numbers.iter().map(|number| format!("eq(n\\,{number})")).collect();
    let filter = format!("select={}", chosen.join("+"));
    let mut command = ffmpeg();
    command
        .arg("-i")
        .arg(file)
        .args(["-vf", &filter, "-vsync", "0", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"]);
    let samples = done(&mut command)?;
    let sizes = [(width, height), (width / 2, height / 2), (width / 2, height / 2)];
    let sizes = sizes.map(|(width, height)| (width as usize, height as usize));
    let bytes: usize = sizes.iter().map(|(width, height)| width * height).sum();
    let frame = |mut rest: &[u8]| {
        let planes = sizes.map(|size| {
            let samples;
            (samples, rest) = rest.split_at(size.0 * size.1);
            Plane { size, samples: samples.iter().map(|&sample| f64::from(sample)).collect() }
        });
        Frame { planes }
    };
    let found: Vec<Frame> = samples.chunks_exact(bytes).map(frame).collect();
    if found.len() == numbers.len() {
        return Ok(found);
    }
    Err(format!("ffmpeg gave {} of the frames {numbers:?}", found.len()).into())
}

/// The file encoded by x264 superfast without latency at these bits a second. x264 takes up to a
/// tenth more than its rate, which is worth 0.4 dB: its rate is lowered until it takes no more than
/// crossed the link, packet headers included.
pub(super) fn recode(
    file: &Path,
    bits_per_second: f64,
    frames: u32,
    rate: f64,
    to: &Path,
) -> Result<(), Error> {
    let mut told = bits_per_second.clamp(BITS_MIN, BITS_MAX);
    let wanted = told;
    for _ in 0..TRIES_MAX {
        let bits = format!("{told:.0}");
        let mut command = ffmpeg();
        command.arg("-i").arg(file).args([
            "-c:v",
            "libx264",
            "-preset",
            "superfast",
            "-tune",
            "zerolatency",
        ]);
        command.args([
            "-threads", "1", "-b:v", &bits, "-maxrate", &bits, "-bufsize", &bits, "-g", "100000",
        ]);
        command.args(["-f", "h264"]).arg(to);
        done(&mut command)?;
        let taken = fs::metadata(to)?.len() as f64 * 8.0 * rate / f64::from(frames);
        let off = taken / wanted;
        // Fewer bits are right if the content needs no more.
        if (1.0 - BITS_SLACK..=1.0 + BITS_SLACK).contains(&off) || off < 1.0 && told >= 2.0 * wanted
        {
            break;
        }
        told = (told / off).min(BITS_MAX);
    }
    Ok(())
}

fn done(command: &mut Command) -> Result<Vec<u8>, Error> {
    let output = command.output().map_err(|error| format!("cannot start ffmpeg: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("ffmpeg: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gradient of luma and two of colour.
    fn gradient((width, height): (usize, usize)) -> Frame {
        let plane = |size: (usize, usize), over: f64, from: f64| Plane {
            size,
            samples: (0..size.0 * size.1)
                .map(|at| (at % size.0) as f64 * over / size.0 as f64 + from)
                .collect(),
        };
        let half = (width / 2, height / 2);
        Frame {
            planes: [
                plane((width, height), 160.0, 40.0),
                plane(half, 20.0, 118.0),
                plane(half, -20.0, 138.0),
            ],
        }
    }

    #[test]
    fn a_picture_is_itself_in_every_size_and_differs_by_what_was_done_to_it() {
        let (small, large) = (gradient((352, 240)), gradient((1024, 768)));
        let view = (1024, 768);
        assert!(small.meant(view).psnr_db(&small.meant(view)) == 99.0);
        assert!(small.meant(view).psnr_db(&large.meant(view)) > 60.0);
        let meant = small.meant((352, 240));
        let mut off = small.meant((352, 240));
        off.levels.iter_mut().for_each(|level| *level += 255.0 / 100.0);
        assert!((off.psnr_db(&meant) - 40.0).abs() < 1e-6);
        // What covers the codes does not count.
        off = small.meant((352, 240));
        off.levels[..352 * 16].fill(0.0);
        assert_eq!(off.psnr_db(&meant), 99.0);
    }

    /// Rounding to 8 bits alone takes an exact frame to about 56 dB; a coded frame is below that.
    #[test]
    fn no_picture_on_a_screen_is_better_than_the_video_itself() {
        let (video, view) = (gradient((352, 240)), (1024, 768));
        let exact = video.shown(view).psnr_db(&video.meant(view));
        assert!((55.5..57.5).contains(&exact), "{exact}");
        let mut coded = gradient((352, 240));
        coded.planes[0]
            .samples
            .iter_mut()
            .enumerate()
            .for_each(|(at, sample)| *sample += (at % 3) as f64 * 0.3);
        let near = coded.shown(view).psnr_db(&video.meant(view));
        assert!(near < exact, "{near} and {exact}");
    }
}
