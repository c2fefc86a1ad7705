//! Question: is every frame of a film shown on time in the viewer, how near to the film, and at what cost?
//! The papers' film (352x240, 24 a second, over 1024x768) and one of today (1280x720, 30 a second; or 1920x1080), in mpv and in Chromium, on
//! fast and slow links. Frames are read from the viewer's pixels by their bar codes; what they show is held against the file that
//! is played, beside what x264 superfast makes of it at the bits that crossed the link.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fmt, fs};

use clap::Args;

use super::trial::{Began, Claim, Notebook, measure, quantile, short, stage};
use crate::Error;
use crate::net::link::Link;
use crate::net::testbed::Direction;
use crate::observe::barcode;
use crate::observe::picture::Picture;
use crate::process::Folder;
use crate::results::{Better, Measure, quantity};
use crate::stage::Stage;
use crate::workloads::Effort;
use crate::workloads::content::clip::{self, Film};
use crate::workloads::film::{self, By, Quality, quality};

/// How `film` runs.
#[derive(Args)]
pub struct Options {
    /// The systems; `thinc-bench peers` lists them.
    #[arg(long, value_delimiter = ',', default_value = "thinc")]
    peers: Vec<String>,
    /// A link, as often as wanted: figures, or a preset with changes. Without it: lan, wan, 24 Mbit/s as of Wi-Fi, and 5 Mbit/s.
    #[arg(long = "link", value_parser = |text: &str| text.parse::<Link>())]
    links: Vec<Link>,
    /// Which films.
    #[arg(long = "film", value_enum, value_delimiter = ',', default_value = "papers,720p")]
    films: Vec<Clip>,
    /// Who plays them.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mpv")]
    by: Vec<By>,
    /// How much of each is played: 4 s, 10 s, or all of it (34.75 s, 27.8 s).
    #[arg(long, value_enum, default_value = "quick")]
    effort: Effort,
    /// TCP congestion control in both namespaces; the system's own without it.
    #[arg(long)]
    congestion: Option<String>,
    /// Where the samples go; nowhere without it.
    #[arg(long, short)]
    output: Option<PathBuf>,
}

/// Links that are asked about without others being named.
const LINKS: [&str; 4] = ["lan", "wan", "rate=24mbit,rtt=4ms", "rate=5mbit,rtt=20ms"];
/// Shares of frames on time that are wanted: below this many bits a second, and from there on.
const SLOW_BPS: u64 = 10_000_000;
const ON_TIME_SLOW: f64 = 0.95;
const ON_TIME: f64 = 1.0;
/// A browser paces frames by its own clock.
const ON_TIME_BROWSER: f64 = 0.99;
/// How far below x264's what is shown may be.
const LOSS_MAX_DB: f64 = 1.5;
/// How far the bits that are compared may be apart, how often x264 is told others, and below what it makes nothing.
const BITS_SLACK: f64 = 0.02;
const TRIES_MAX: usize = 4;
const BITS_MIN: f64 = 50e3;
/// More, x264 does not take for a number; a film that comes plain is told so much.
const BITS_MAX: f64 = 2e9;

/// A film and the screen on which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Clip {
    /// 352x240, 24 a second, on 1024x768.
    Papers,
    /// 1280x720, 30 a second, on a screen of that size.
    #[value(name = "720p")]
    Hd,
    /// 1920x1080, 30 a second, on a screen of that size.
    #[value(name = "1080p")]
    FullHd,
}

impl Clip {
    fn size(self) -> (u32, u32) {
        match self {
            Clip::Papers => (clip::WIDTH as u32, clip::HEIGHT as u32),
            Clip::Hd => (1280, 720),
            Clip::FullHd => (1920, 1080),
        }
    }

    fn screen(self) -> (u32, u32) {
        if self == Clip::Papers { (1024, 768) } else { self.size() }
    }

    fn rate(self) -> f64 {
        if self == Clip::Papers { clip::RATE } else { 30.0 }
    }

    fn frames(self, effort: Effort) -> u32 {
        match effort {
            Effort::Smoke => (4.0 * self.rate()) as u32,
            Effort::Quick => (10.0 * self.rate()) as u32,
            Effort::Full => clip::FRAMES,
        }
    }
}

impl fmt::Display for Clip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = self.size();
        write!(f, "{width}x{height}@{}", self.rate())
    }
}

/// What one film gave.
struct Found {
    quality: Quality,
    output: String,
    left_out: Option<f64>,
    torn: usize,
    /// Luma against the film, median of some frames; and x264's of the same.
    psnr_db: Option<f64>,
    x264_psnr_db: Option<f64>,
    mbit_s: f64,
    /// Seconds of CPU in a minute of film.
    cpu_server: f64,
    cpu_viewer: f64,
    cpu_player: f64,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    crate::net::as_user_namespace()?;
    let links = if options.links.is_empty() {
        LINKS.iter().map(|link| link.parse()).collect::<Result<Vec<Link>, Error>>()?
    } else {
        options.links.clone()
    };
    let first = options.films.first().ok_or("no film is named")?;
    let mut notebook = Notebook::new(options.effort, first.screen(), options.output.clone())?;
    let peers = notebook.peers(&options.peers)?;
    let folder = Folder::new("film")?;
    println!(
        "peer | film | by | link | on time % | shown % | longest gap ms | left out by player | PSNR dB | x264's | Mbit/s | \
         CPU s/min: server | viewer | player"
    );
    for &clip in &options.films {
        let (file, frames) = (folder.path().join(format!("{clip}.mp4")), clip.frames(options.effort));
        let (width, height) = clip.size();
        clip::write_h264(&Film::sized(width as usize, height as usize), frames, clip.rate(), &file)?;
        for (peer, link) in peers.iter().flat_map(|peer| links.iter().map(move |link| (peer, link))) {
            for &by in &options.by {
                let began = Began::now();
                let found = stage(peer.as_ref(), link, clip.screen(), options.congestion.as_deref())
                    .and_then(|stage| {
                        let found = ask(&stage, clip, by, frames, &file)?;
                        notebook.heard_of(&stage.site.bed);
                        Ok(found)
                    })
                    .map(|found| {
                        let measures = found.measures();
                        (found, measures)
                    });
                let workload = format!("film {clip}, {}", by.name());
                if let Some(found) = notebook.note(peer.name(), link, &workload, began, found)? {
                    println!("{} | {clip} | {} | {} | {found}", peer.name(), found.output, link.name);
                    notebook.judge(peer.name(), &found.claims(link, by))?;
                }
            }
        }
    }
    notebook.end()
}

fn ask(stage: &Stage, clip: Clip, by: By, frames: u32, file: &Path) -> Result<Found, Error> {
    let played = film::play(stage, by, &film::File { path: file, frames, rate: clip.rate() })?;
    let bits = played.spent.traffic.bytes(Direction::Down) as f64 * 8.0;
    let minutes = played.spent.seconds / 60.0;
    let numbers: Vec<u32> = played.pictures.iter().map(|(number, _)| *number).collect();
    let view = (stage.view.width as usize, stage.view.height as usize);
    let (mut own, mut theirs) = (None, None);
    if !numbers.is_empty() {
        let film: Vec<Grey> = frames_of(file, &numbers, clip.size())?.iter().map(|frame| frame.meant(view)).collect();
        let near = |shown: &[Grey]| {
            let each: Vec<f64> = shown.iter().zip(&film).map(|(shown, film)| shown.psnr_db(film)).collect();
            quantile(&each, 0.5)
        };
        let shown: Vec<Grey> = played.pictures.iter().map(|(_, picture)| Grey::of_screen(picture)).collect();
        own = near(&shown);
        let recoded = stage.site.folder.path().join("x264.h264");
        recode(file, bits / (f64::from(frames) / clip.rate()), frames, clip.rate(), &recoded)?;
        let recoded: Vec<Grey> =
            frames_of(&recoded, &numbers, clip.size())?.iter().map(|frame| frame.shown(view)).collect();
        theirs = near(&recoded);
    }
    Ok(Found {
        quality: quality(played.began, &played.seen.seen, frames, clip.rate()),
        output: played.output,
        left_out: played.left_out,
        torn: played.seen.torn,
        psnr_db: own,
        x264_psnr_db: theirs,
        mbit_s: bits / played.spent.seconds / 1e6,
        cpu_server: played.spent.cpu_server_ms / 1e3 / minutes,
        cpu_viewer: played.spent.cpu_client_ms / 1e3 / minutes,
        cpu_player: played.spent.cpu_apps_ms / 1e3 / minutes,
    })
}

/// Luma of a picture, 0 to 255, row by row: what players make of colour between samples is their own.
struct Grey {
    size: (usize, usize),
    levels: Vec<f64>,
}

impl Grey {
    fn of_screen(picture: &Picture) -> Grey {
        let levels = picture.pixels.iter().map(|&pixel| {
            let [_, red, green, blue] = pixel.to_be_bytes().map(f64::from);
            luma_of([red, green, blue])
        });
        Grey { size: (picture.width as usize, picture.height as usize), levels: levels.collect() }
    }

    /// Between the bar codes, which are as large as in the film, and a little more for what scaling smears.
    fn psnr_db(&self, of: &Grey) -> f64 {
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

/// A frame of a film: luma, blue and red difference, of limited range.
struct Frame {
    planes: [Plane; 3],
}

struct Plane {
    size: (usize, usize),
    samples: Vec<f64>,
}

impl Plane {
    /// In another size: each sample lies between four, as every player scales.
    fn scaled(&self, size: (usize, usize)) -> Vec<f64> {
        let place = |at: usize, of: usize, from: usize| {
            let at = ((at as f64 + 0.5) * from as f64 / of as f64 - 0.5).clamp(0.0, from as f64 - 1.0);
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
    /// What it is in a window of this size, nothing of it rounded: what every picture is held against.
    fn meant(&self, size: (usize, usize)) -> Grey {
        let level = |sample: f64| ((sample - 16.0) * 255.0 / 219.0).clamp(0.0, 255.0);
        Grey { size, levels: self.planes[0].scaled(size).into_iter().map(level).collect() }
    }

    /// What a screen shows of it: samples are rounded behind scaling, and colours behind conversion. No window of 8 bits is spared that,
    /// so a picture that was never seen in one is put through it as well: else exact frames would stand behind coded ones.
    fn shown(&self, size: (usize, usize)) -> Grey {
        let [luma, blue, red] = [0, 1, 2].map(|plane| self.planes[plane].scaled(size));
        let levels = luma.iter().zip(&blue).zip(&red).map(|((&luma, &blue), &red)| {
            let [y, u, v] = [luma.round() - 16.0, blue.round() - 128.0, red.round() - 128.0].map(|part| part * 255.0);
            let [y, u, v] = [y / 219.0, u / 224.0, v / 224.0];
            let colour = [y + 1.402 * v, y - 0.344_136 * u - 0.714_136 * v, y + 1.772 * u];
            luma_of(colour.map(|part| part.round().clamp(0.0, 255.0)))
        });
        Grey { size, levels: levels.collect() }
    }
}

fn ffmpeg() -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-loglevel", "error", "-y"]).stdin(Stdio::null());
    ffmpeg
}

/// Frames of a film as it is played.
fn frames_of(file: &Path, numbers: &[u32], (width, height): (u32, u32)) -> Result<Vec<Frame>, Error> {
    let chosen: Vec<String> = numbers.iter().map(|number| format!("eq(n\\,{number})")).collect();
    let filter = format!("select={}", chosen.join("+"));
    let mut command = ffmpeg();
    command.arg("-i").arg(file).args(["-vf", &filter, "-vsync", "0", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-"]);
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

/// A film at these bits a second, as a stream without latency would be. x264 takes up to a tenth more than it is told, which is worth 0.4 dB:
/// it is told less until it takes no more than crossed the link, headers of packets and all.
fn recode(file: &Path, bits_per_second: f64, frames: u32, rate: f64, to: &Path) -> Result<(), Error> {
    let mut told = bits_per_second.clamp(BITS_MIN, BITS_MAX);
    let wanted = told;
    for _ in 0..TRIES_MAX {
        let bits = format!("{told:.0}");
        let mut command = ffmpeg();
        command.arg("-i").arg(file).args(["-c:v", "libx264", "-preset", "superfast", "-tune", "zerolatency"]);
        command.args(["-threads", "1", "-b:v", &bits, "-maxrate", &bits, "-bufsize", &bits, "-g", "100000"]);
        command.args(["-f", "h264"]).arg(to);
        done(&mut command)?;
        let taken = fs::metadata(to)?.len() as f64 * 8.0 * rate / f64::from(frames);
        let off = taken / wanted;
        // Less is right where the film has no more to spend bits on.
        if (1.0 - BITS_SLACK..=1.0 + BITS_SLACK).contains(&off) || off < 1.0 && told >= 2.0 * wanted {
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

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.left_out.map_or_else(|| "-".into(), |count| format!("{count:.0}"));
        let db = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
        write!(
            f,
            "{:.1} | {:.1} | {:.0} | {count} | {} | {} | {} | {:.1} | {:.1} | {:.1}",
            self.quality.on_time * 100.0,
            self.quality.shown * 100.0,
            self.quality.longest_gap_ms,
            db(self.psnr_db),
            db(self.x264_psnr_db),
            short(self.mbit_s),
            self.cpu_server,
            self.cpu_viewer,
            self.cpu_player
        )
    }
}

impl Found {
    fn measures(&self) -> Vec<Measure> {
        let one = |name: &str, part: &str, unit: &str, better, value| measure(name, part, unit, better, vec![value]);
        let mut found = vec![
            one(quantity::VIDEO_QUALITY, "on time", "share", Better::Higher, self.quality.on_time),
            one("frames_shown", "", "share", Better::Higher, self.quality.shown),
            one("longest_gap_ms", "", "ms", Better::Lower, self.quality.longest_gap_ms),
            one("frames_torn", "", "frames", Better::Lower, self.torn as f64),
            one("mbit_s", "", "Mbit/s", Better::Lower, self.mbit_s),
            one("cpu_s_per_minute", "server", "s", Better::Lower, self.cpu_server),
            one("cpu_s_per_minute", "viewer", "s", Better::Lower, self.cpu_viewer),
            one("cpu_s_per_minute", "player", "s", Better::Neither, self.cpu_player),
        ];
        let psnr = |part: &str, better, value: Option<f64>| {
            value.map(|value| one(quantity::PSNR_DB, part, "dB", better, value))
        };
        let left_out = |count| one("frames_left_out_by_player", "", "frames", Better::Lower, count);
        found.extend(self.left_out.map(left_out));
        found.extend(psnr("shown", Better::Higher, self.psnr_db));
        found.extend(psnr("x264 superfast at the same bits", Better::Neither, self.x264_psnr_db));
        found
    }

    fn claims(&self, link: &Link, by: By) -> Vec<Claim> {
        let wanted = match link.rate_bps {
            Some(rate) if rate < SLOW_BPS => ON_TIME_SLOW,
            _ if by == By::Chromium => ON_TIME_BROWSER,
            _ => ON_TIME,
        };
        let mut claims = vec![Claim::at_least("frames on time", self.quality.on_time * 100.0, wanted * 100.0, "%")];
        claims.push(match (self.psnr_db, self.x264_psnr_db) {
            (Some(own), Some(theirs)) => Claim::at_least("PSNR", own, theirs - LOSS_MAX_DB, "dB"),
            _ => Claim::missed("PSNR", "no whole frame was seen when one was looked for"),
        });
        claims
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slope of luma and two of colour.
    fn slope((width, height): (usize, usize)) -> Frame {
        let plane = |size: (usize, usize), over: f64, from: f64| Plane {
            size,
            samples: (0..size.0 * size.1).map(|at| (at % size.0) as f64 * over / size.0 as f64 + from).collect(),
        };
        let half = (width / 2, height / 2);
        Frame { planes: [plane((width, height), 160.0, 40.0), plane(half, 20.0, 118.0), plane(half, -20.0, 138.0)] }
    }

    #[test]
    fn a_picture_is_itself_in_every_size_and_differs_by_what_was_done_to_it() {
        let (small, large) = (slope((352, 240)), slope((1024, 768)));
        let view = (1024, 768);
        assert!(small.meant(view).psnr_db(&small.meant(view)) == 99.0);
        assert!(small.meant(view).psnr_db(&large.meant(view)) > 60.0);
        let meant = small.meant((352, 240));
        let mut off = small.meant((352, 240));
        off.levels.iter_mut().for_each(|level| *level += 255.0 / 100.0);
        assert!((off.psnr_db(&meant) - 40.0).abs() < 1e-6);
        // What is written over the codes counts for nothing.
        off = small.meant((352, 240));
        off.levels[..352 * 16].fill(0.0);
        assert_eq!(off.psnr_db(&meant), 99.0);
    }

    /// A screen of 8 bits costs what rounding costs: a twelfth of a sample's step and less of each colour's, about 56 dB; and any other picture more.
    #[test]
    fn no_picture_on_a_screen_is_better_than_the_film_itself() {
        let (film, view) = (slope((352, 240)), (1024, 768));
        let exact = film.shown(view).psnr_db(&film.meant(view));
        assert!((55.5..57.5).contains(&exact), "{exact}");
        let mut coded = slope((352, 240));
        coded.planes[0].samples.iter_mut().enumerate().for_each(|(at, sample)| *sample += (at % 3) as f64 * 0.3);
        let near = coded.shown(view).psnr_db(&film.meant(view));
        assert!(near < exact, "{near} and {exact}");
    }
}
