//! The video of the video workload: 34.75 s, 834 frames of 352x240 at 24 a second, as in Lai and
//! Nieh §2.3.3 and THINC §6, with a bar code at the top and the bottom of each frame; encoded as
//! MPEG-1 once in a process. The same in the sizes of today. Knows frames; never the player.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::pictures::{Bitmap, Scene, photo};
use super::{Noise, Random, mix};
use crate::Error;
use crate::observe::barcode;
use crate::observe::picture::Rect;

/// Frames of the whole video.
pub const FRAMES: u32 = 834;
/// Frames a second.
pub const RATE: f64 = 24.0;
/// Columns.
pub const WIDTH: usize = 352;
/// Rows.
pub const HEIGHT: usize = 240;
/// Bits a second: the papers' file has 5.11 MB for 34.75 s.
const BIT_RATE: u32 = 1_176_000;
/// Frames of one shot, before the cut to the next: the news of that time cut every three seconds or
/// so.
const SHOT: u32 = 70;
/// Frames in one stretch of the reference: within one shot.
const STRETCH: u32 = 10;

/// Width from which what is shown is painted at half its size: lenses draw softer than pixels lie.
const SOFT_WIDTH_MIN: usize = 1000;

/// Makes frames by their numbers.
pub struct TestVideo {
    size: (usize, usize),
    /// Painted when their first frame is asked for.
    shots: Vec<OnceLock<Shot>>,
}

/// What one shot shows.
struct Shot {
    seed: u64,
    size: (usize, usize),
    /// Pixels of the video that one of the ground's or a thing's becomes.
    soft: f32,
    /// Larger than a frame, so that the camera can move over it.
    ground: Bitmap,
    motion: Motion,
    /// Balls, heads and cars that move before the ground.
    things: Vec<Thing>,
    /// A title and a running text under the picture, as news have.
    news: bool,
}

/// How the camera moves.
enum Motion {
    /// Over the ground, pixels a frame.
    Pan(f32, f32),
    /// Into it, share of the picture a frame.
    Zoom(f32),
    /// Held by hand.
    Hand,
}

struct Thing {
    picture: Bitmap,
    at: (f32, f32),
    speed: (f32, f32),
    radius: f32,
}

impl TestVideo {
    /// The video of the papers.
    pub fn new() -> TestVideo {
        TestVideo::sized(WIDTH, HEIGHT)
    }

    /// The same shots in frames of another size.
    pub fn sized(width: usize, height: usize) -> TestVideo {
        let shots = (0..FRAMES.div_ceil(SHOT)).map(|_| OnceLock::new()).collect();
        TestVideo { size: (width, height), shots }
    }

    /// Columns and rows of a frame.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// The pixels of frame `number`, rows of red, green, blue.
    ///
    /// # Panics
    /// Past the last frame.
    pub fn frame(&self, number: u32) -> Bitmap {
        assert!(number < FRAMES, "the video has {FRAMES} frames and no frame {number}");
        let (width, height) = self.size;
        let at = number / SHOT;
        let shot = self.shots[at as usize]
            .get_or_init(|| Shot::new(0xf11a_0000 + u64::from(at), self.size));
        let mut picture = shot.frame(number % SHOT, number);
        let mut bars = vec![0; width * height];
        for place in self.codes() {
            barcode::draw(number, &mut bars, width, place);
            let from = place.y as usize * width;
            let pixels = &bars[from..from + place.height as usize * width];
            picture.rgb[from * 3..(from + pixels.len()) * 3]
                .copy_from_slice(&Bitmap::of_pixels(width, place.height as usize, pixels).rgb);
        }
        picture
    }

    /// Where a frame has its codes: as much of it as of the papers' video.
    pub fn codes(&self) -> [Rect; 2] {
        let (width, height) = self.size;
        let code = barcode::HEIGHT as usize * height / HEIGHT;
        [0, height - code].map(|y| Rect::new(0, y as i32, width as u32, code as u32))
    }
}

impl Default for TestVideo {
    fn default() -> TestVideo {
        TestVideo::new()
    }
}

impl Shot {
    fn new(seed: u64, size: (usize, usize)) -> Shot {
        let (width, height) = size;
        let soft = if width < SOFT_WIDTH_MIN { 1 } else { 2 };
        // All that is measured in pixels of the papers' video.
        let larger = width as f32 / WIDTH as f32;
        let mut random = Random::new(seed);
        let scene =
            *random.pick(&[Scene::Landscape, Scene::Surface, Scene::Landscape, Scene::Thing]);
        let ground = photo(random.bits(), width * 3 / 2 / soft, height * 3 / 2 / soft, scene);
        let motion = match random.below(4) {
            0 => Motion::Zoom(random.between(0.002, 0.006)),
            1 => Motion::Hand,
            _ => {
                Motion::Pan(random.between(-2.2, 2.2) * larger, random.between(-1.2, 1.2) * larger)
            }
        };
        let things = (0..random.below(4))
            .map(|_| {
                let radius = random.between(18.0, 46.0) * larger;
                let side = (radius * 2.0) as usize / soft + 2;
                Thing {
                    picture: photo(random.bits(), side, side, Scene::Surface),
                    at: (
                        random.between(0.0, WIDTH as f32) * larger,
                        random.between(40.0, HEIGHT as f32 - 40.0)
                            * (height as f32 / HEIGHT as f32),
                    ),
                    speed: (random.between(-5.0, 5.0) * larger, random.between(-2.5, 2.5) * larger),
                    radius,
                }
            })
            .collect();
        Shot { seed, size, soft: soft as f32, ground, motion, things, news: random.below(3) == 0 }
    }

    /// Frame `time` of this shot; `number` seeds the grain, which is new in every frame.
    fn frame(&self, time: u32, number: u32) -> Bitmap {
        let ((width, height), soft) = (self.size, self.soft);
        let mut picture = Bitmap::new(width, height, [0; 3]);
        let t = time as f32;
        let spare = (
            self.ground.width as f32 * soft - width as f32,
            self.ground.height as f32 * soft - height as f32,
        );
        let sway = Noise::new(self.seed);
        let (x0, y0, scale) = match self.motion {
            Motion::Pan(x, y) => (
                bounce(spare.0 / 2.0 + x * t, spare.0),
                bounce(spare.1 / 2.0 + y * t, spare.1),
                1.0,
            ),
            Motion::Zoom(share) => {
                let scale = 1.4 * (1.0 - share * t);
                let rest = (width as f32 * (1.5 - scale), height as f32 * (1.5 - scale));
                (rest.0 / 2.0, rest.1 / 2.0, scale)
            }
            Motion::Hand => (
                spare.0 * sway.fractal(t * 0.07, 0.0, 3),
                spare.1 * sway.fractal(0.0, t * 0.07, 3),
                1.0,
            ),
        };
        for y in 0..height {
            for x in 0..width {
                let (left, top) = (x0 + x as f32 * scale, y0 + y as f32 * scale);
                let colour = sample(&self.ground, left / soft, top / soft);
                picture.rgb[(y * width + x) * 3..][..3].copy_from_slice(&colour);
            }
        }
        for thing in &self.things {
            let (cx, cy) = (
                bounce(thing.at.0 + thing.speed.0 * t, width as f32),
                bounce(thing.at.1 + thing.speed.1 * t, height as f32),
            );
            let r = thing.radius;
            for y in (cy - r).max(0.0) as usize..((cy + r) as usize).min(height) {
                for x in (cx - r).max(0.0) as usize..((cx + r) as usize).min(width) {
                    let (dx, dy) = (x as f32 - cx, y as f32 - cy);
                    if dx * dx + dy * dy < r * r {
                        let colour = sample(&thing.picture, (dx + r) / soft, (dy + r) / soft);
                        picture.rgb[(y * width + x) * 3..][..3].copy_from_slice(&colour);
                    }
                }
            }
        }
        if self.news {
            title(&mut picture, self.seed, time);
        }
        // Two levels of grain: what a camera of that time left in its pictures after MPEG-1.
        let mut grain = mix(u64::from(number) + 1);
        for eight in picture.rgb.chunks_mut(8) {
            grain = mix(grain.wrapping_add(0x9e37_79b9_7f4a_7c15));
            for (part, speck) in eight.iter_mut().zip(grain.to_le_bytes()) {
                *part = part.saturating_add(speck & 3).saturating_sub(2);
            }
        }
        picture
    }
}

/// A dark band with a title in light strokes, and a lighter band in which a text runs.
fn title(picture: &mut Bitmap, seed: u64, time: u32) {
    let (width, height) = (picture.width, picture.height);
    for at in 0..width * height {
        // In pixels of the papers' video.
        let (x, y) = (at % width * WIDTH / width, at / width * HEIGHT / height);
        if !(HEIGHT - 56..HEIGHT - 20).contains(&y) || !(16..WIDTH - 16).contains(&x) {
            continue;
        }
        let (running, row) = (y >= HEIGHT - 36, (y - (HEIGHT - 56)) % 20);
        // Glyphs are columns of 6 with strokes chosen by a seed; the lower line moves by 2 pixels
        // a frame.
        let column = if running { x + 2 * time as usize } else { x };
        let glyph = mix(seed ^ ((column / 6) as u64) << 1 ^ u64::from(running));
        let (u, v) = (column % 6, row.wrapping_sub(5));
        let stroke = u < 5
            && v < 9
            && !glyph.is_multiple_of(6)
            && (glyph >> (8 + u / 2 * 5 + v / 2)) & 1 == 1;
        let (ink, ground) =
            if running { ([20, 20, 40], [220, 220, 210]) } else { ([250; 3], [30, 40, 110]) };
        picture.rgb[at * 3..][..3].copy_from_slice(if stroke { &ink } else { &ground });
    }
}

/// A place that goes back and forth between 0 and `limit`.
fn bounce(place: f32, limit: f32) -> f32 {
    let around = place.rem_euclid(limit * 2.0);
    if around > limit { limit * 2.0 - around } else { around }
}

/// The colour between four pixels.
fn sample(picture: &Bitmap, x: f32, y: f32) -> [u8; 3] {
    let (x, y) =
        (x.clamp(0.0, picture.width as f32 - 1.001), y.clamp(0.0, picture.height as f32 - 1.001));
    let (fx, fy) = ((x.fract() * 256.0) as u32, (y.fract() * 256.0) as u32);
    let at = (y as usize * picture.width + x as usize) * 3;
    let below = at + picture.width * 3;
    let rgb = &picture.rgb;
    [0, 1, 2].map(|part| {
        let [a, b, c, d] = [at, at + 3, below, below + 3].map(|at| u32::from(rgb[at + part]));
        (((a * (256 - fx) + b * fx) * (256 - fy) + (c * (256 - fx) + d * fx) * fy) >> 16) as u8
    })
}

/// The frames of a reference of `count` frames: stretches of ten from all over the video, so that
/// few frames stand for all.
pub fn reference_frames(count: u32) -> Vec<u32> {
    if count >= FRAMES {
        return (0..FRAMES).collect();
    }
    let stretches = count.div_ceil(STRETCH);
    let stretch = |at: u32| {
        // The middle of the shot in which this part of the video begins: no cut lies within ten
        // frames of it.
        let shot = at * FRAMES.div_ceil(SHOT) / stretches;
        let from = (shot * SHOT + SHOT / 3).min(FRAMES - STRETCH);
        from..from + STRETCH
    };
    (0..stretches).flat_map(stretch).take(count as usize).collect()
}

/// These frames as an MPEG-1 file.
pub fn encode(numbers: &[u32]) -> Result<Vec<u8>, Error> {
    static VIDEO: OnceLock<TestVideo> = OnceLock::new();
    let video = VIDEO.get_or_init(TestVideo::new);
    let mut ffmpeg = Command::new("ffmpeg");
    let size = format!("{WIDTH}x{HEIGHT}");
    let (rate, bits) = (RATE.to_string(), BIT_RATE.to_string());
    ffmpeg.args([
        "-nostdin",
        "-loglevel",
        "error",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        &size,
        "-r",
        &rate,
        "-i",
        "-",
    ]);
    ffmpeg.args([
        "-c:v",
        "mpeg1video",
        "-b:v",
        &bits,
        "-maxrate",
        &bits,
        "-bufsize",
        "600k",
        "-g",
        "12",
        "-bf",
        "2",
    ]);
    // Bit-exact, and one thread: the same file on every machine with this ffmpeg.
    ffmpeg.args([
        "-threads",
        "1",
        "-fflags",
        "+bitexact",
        "-flags:v",
        "+bitexact",
        "-aspect",
        "4:3",
        "-f",
        "mpeg",
        "-",
    ]);
    let mut running = ffmpeg
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start ffmpeg: {error}"))?;
    let (mut frames, mut file) = match (running.stdin.take(), running.stdout.take()) {
        (Some(frames), Some(file)) => (frames, file),
        _ => return Err("ffmpeg has no pipes".into()),
    };
    // It writes while it reads: both ends at once, or both wait forever.
    let (written, encoded) = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut encoded = Vec::new();
            file.read_to_end(&mut encoded).map(|_| encoded)
        });
        let written =
            numbers.iter().try_for_each(|&number| frames.write_all(&video.frame(number).rgb));
        drop(frames);
        (written, reader.join())
    });
    let end = running.wait_with_output()?;
    if !end.status.success() {
        return Err(format!(
            "ffmpeg: {}: {}",
            end.status,
            String::from_utf8_lossy(&end.stderr).trim()
        )
        .into());
    }
    written.map_err(|error| format!("ffmpeg took not all frames: {error}"))?;
    Ok(encoded.map_err(|_| "the reader of ffmpeg's output failed")??)
}

/// x264's quality at which a video becomes a file: 10, about 50 dB. At 16, about 46 dB, x264 finds
/// its own blocks and quantizers again when it is asked to make the reference of such a file, and
/// was 0.8 dB nearer to it than to the video as it was painted, where other encoders were not; at
/// 10 it is 0.1 dB.
const H264_CRF: &str = "10";

/// The first frames of a video as an H.264 file that is near to them: what players and browsers
/// play today.
pub fn write_h264(video: &TestVideo, frames: u32, rate: f64, file: &Path) -> Result<(), Error> {
    let (width, height) = video.size();
    let (size, rate) = (format!("{width}x{height}"), rate.to_string());
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args([
        "-nostdin",
        "-loglevel",
        "error",
        "-y",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        &size,
    ]);
    ffmpeg.args([
        "-r",
        &rate,
        "-i",
        "-",
        "-c:v",
        "libx264",
        "-preset",
        "superfast",
        "-tune",
        "fastdecode",
        "-crf",
        H264_CRF,
    ]);
    // Players that are not told take another matrix for larger pictures.
    ffmpeg.args([
        "-pix_fmt",
        "yuv420p",
        "-bf",
        "0",
        "-color_primaries",
        "smpte170m",
        "-color_trc",
        "smpte170m",
    ]);
    ffmpeg
        .args([
            "-colorspace",
            "smpte170m",
            "-color_range",
            "tv",
            "-movflags",
            "+faststart",
            "-f",
            "mp4",
        ])
        .arg(file);
    let mut running = ffmpeg
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start ffmpeg: {error}"))?;
    let mut input = running.stdin.take().ok_or("ffmpeg has no pipe")?;
    let written = (0..frames).try_for_each(|number| input.write_all(&video.frame(number).rgb));
    drop(input);
    let end = running.wait_with_output()?;
    if !end.status.success() {
        return Err(format!(
            "ffmpeg: {}: {}",
            end.status,
            String::from_utf8_lossy(&end.stderr).trim()
        )
        .into());
    }
    Ok(written.map_err(|error| format!("ffmpeg took not all frames: {error}"))?)
}

/// The whole video, encoded once in this process.
pub fn papers_video() -> Result<&'static [u8], Error> {
    static FILE: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let file =
        FILE.get_or_init(|| encode(&reference_frames(FRAMES)).map_err(|error| error.to_string()));
    file.as_deref().map_err(|error| error.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::picture::Picture;

    #[test]
    fn a_frame_is_the_same_again_and_moves_against_the_one_before() {
        let (first, second) = (TestVideo::new(), TestVideo::new());
        for number in [0, 1, 69, 70, 400, FRAMES - 1] {
            assert_eq!(first.frame(number), second.frame(number), "frame {number}");
        }
        for number in [5, 100, 180, 250, 333, 500, 700, 800] {
            let (a, b) = (first.frame(number), first.frame(number + 1));
            let rows = 20 * WIDTH * 3..(HEIGHT - 20) * WIDTH * 3;
            let differs = a.rgb[rows.clone()]
                .iter()
                .zip(&b.rgb[rows.clone()])
                .filter(|(a, b)| a != b)
                .count();
            assert!(
                differs * 2 > rows.len(),
                "frame {number}: {differs} of {} bytes differ",
                rows.len()
            );
        }
    }

    #[test]
    fn a_reference_is_as_long_as_asked_and_never_repeats() {
        for count in [10, 12, 30, 60, 120, FRAMES] {
            let frames = reference_frames(count);
            assert_eq!(frames.len() as u32, count);
            assert!(frames.windows(2).all(|pair| pair[0] < pair[1]), "{count}: {frames:?}");
            assert!(frames.iter().all(|&frame| frame < FRAMES));
        }
        let shots: std::collections::HashSet<_> =
            reference_frames(60).iter().map(|frame| frame / SHOT).collect();
        assert_eq!(shots.len(), 6, "a reference of 60 frames comes from 6 shots");
    }

    /// As a player shows it: decoded and scaled to the whole screen.
    #[test]
    fn every_frame_of_the_encoded_video_can_be_read_on_a_screen_of_1024x768() {
        let file = papers_video().unwrap();
        assert!(
            (4_000_000..6_000_000).contains(&file.len()),
            "{} bytes; the papers' video has 5.11 MB",
            file.len()
        );
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args([
            "-nostdin",
            "-loglevel",
            "error",
            "-f",
            "mpeg",
            "-i",
            "-",
            "-vf",
            "scale=1024:768",
        ]);
        ffmpeg.args(["-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "bgra", "-"]);
        let mut running = ffmpeg.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = running.stdin.take().unwrap();
        let mut output = running.stdout.take().unwrap();
        let writer = std::thread::spawn(move || input.write_all(file).unwrap());
        let screen = Rect::new(0, 0, 1024, 768);
        let mut bytes = vec![0; 1024 * 768 * 4];
        let mut count = 0;
        while output.read_exact(&mut bytes).is_ok() {
            let pixels =
                bytes.chunks_exact(4).map(|p| u32::from_le_bytes([p[0], p[1], p[2], 0])).collect();
            let picture = Picture { width: 1024, height: 768, pixels };
            for place in [barcode::top(screen), barcode::bottom(screen)] {
                assert_eq!(barcode::read(&picture, place), Some(count), "frame {count} at {place}");
            }
            count += 1;
        }
        writer.join().unwrap();
        assert!(running.wait().unwrap().success());
        assert_eq!(count, FRAMES);
    }
}
