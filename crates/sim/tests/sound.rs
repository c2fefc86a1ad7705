//! What sound costs an input response: it goes before pixels, on the same path. From keys that draw
//! a little, with and without sound beside them, to how soon they were answered. Knows the
//! simulator's public interface; the codec is none of its business.

use thinc_protocol::Micros;
use thinc_protocol::sound::{SoundCodec, SoundWant};
use thinc_protocol::viewer::ViewerMessage;
use thinc_region::Rect;
use thinc_sim::{Ids, Op, Path, PathReport, World};
use thinc_sound::sender::CodedFrame;

mod desktop;

use desktop::{Desktop, OTHER, SIZE};

const STEP: Micros = 250;
const FRAME_TIME: Micros = 10_000;
/// Frames of Opus at 128 kbit/s have 161 bytes in the mean, and 251 at most.
const FRAME_BYTES: [usize; 4] = [140, 161, 251, 150];

struct Run {
    world: World<Ids>,
    sounds: bool,
    next_sound: Micros,
    frames: u64,
    video_at: Option<Micros>,
}

impl Run {
    fn new(path: Path, sounds: bool, path_report: PathReport) -> Run {
        let mut world = World::<Ids>::new(7, SIZE, 4096, None);
        world.path_report = path_report;
        world.session.set_sound(true);
        world.apply(&Op::Join(path)).unwrap();
        world.drain().unwrap();
        let want = SoundWant { codecs: SoundCodec::Opus.bit(), ..SoundWant::default() };
        let (viewer, now) = (world.viewer_id(0), world.now);
        let want = ViewerMessage::SoundWant(want);
        world.session.handle_message(viewer, &want, now).unwrap();
        Run { world, sounds, next_sound: now, frames: 0, video_at: None }
    }

    /// The next frame of sound, if it is due.
    fn sound(&mut self) {
        let (viewer, now) = (self.world.viewer_id(0), self.world.now);
        if !self.sounds || now < self.next_sound {
            return;
        }
        self.next_sound += FRAME_TIME;
        self.frames += 1;
        let Some(quality) = self.world.session.sound_quality(viewer, now) else { return };
        // Frames of 20 ms come half as often.
        if quality.frame == 960 && self.frames.is_multiple_of(2) {
            return;
        }
        let bytes = FRAME_BYTES[self.frames as usize % FRAME_BYTES.len()];
        let bytes = bytes * quality.bitrate as usize / 128_000 * usize::from(quality.frame) / 480;
        let frame = CodedFrame {
            quality,
            time: now,
            bytes: vec![1; bytes].into(),
            last: false,
            discontinuity: false,
        };
        self.world.session.handle_sound(viewer, frame, now);
    }

    /// Times until keys at uneven intervals were answered, the shortest first.
    fn keys(&mut self, delay: Micros) -> Vec<Micros> {
        self.wait(2_000_000);
        let mut times: Vec<Micros> = (0..24)
            .map(|n| {
                self.wait(70_000 + n * 1_370 % 9_000);
                self.key(delay, Rect::at(8 * (n as i32 % 20), 8, 8, 12))
            })
            .collect();
        times.sort_unstable();
        times
    }
}

impl Desktop for Run {
    fn world(&mut self) -> &mut World<Ids> {
        &mut self.world
    }

    fn wait(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            self.sound();
            if self.video_at.is_some_and(|at| at <= self.world.now) {
                self.video_at = Some(self.world.now + 40_000);
                self.draw(Rect::at(0, 100, 160, 100), OTHER);
            }
            for op in [Op::Shell, Op::Wait(STEP), Op::Shell] {
                self.world.apply(&op).unwrap();
            }
        }
    }
}

/// Medians and the slowest of ten, without and with sound.
fn compare(bytes_per_second: u64, path_report: PathReport, video: bool) -> [(Micros, Micros); 2] {
    let delay = 10_000;
    let path = Path { bytes_per_second, delay, jitter: 0 };
    let figures = [false, true].map(|sounds| {
        let mut run = Run::new(path, sounds, path_report);
        run.video_at = video.then_some(run.world.now);
        let times = run.keys(delay);
        let sent = run.world.session.stats(run.world.viewer_id(0)).unwrap().sounds;
        assert_eq!(sent > 200, sounds, "{sent} packets of sound were sent");
        (times[times.len() / 2], times[times.len() * 9 / 10])
    });
    println!(
        "{} kbit/s, {path_report:?}, video {video}: without and with sound {figures:?}",
        bytes_per_second / 125
    );
    figures
}

#[test]
fn sound_delays_no_echo_at_10_mbit() {
    for (path_report, video) in
        [(PathReport::Path, false), (PathReport::Path, true), (PathReport::Nothing, false)]
    {
        let [without, with] = compare(1_250_000, path_report, video);
        assert!(with.0 <= without.0 + 1_000, "median {} instead of {}", with.0, without.0);
        assert!(with.1 <= without.1 + 1_000, "p90 {} instead of {}", with.1, without.1);
    }
}

#[test]
fn on_a_slow_path_sound_takes_its_share_and_no_more() {
    let [without, with] = compare(125_000, PathReport::Path, false);
    assert!(with.0 <= without.0 + 4_000, "median {} instead of {}", with.0, without.0);
}

#[test]
fn sound_waits_behind_a_full_path_for_60_ms_at_most() {
    let path = Path { bytes_per_second: 12_500, delay: 10_000, jitter: 0 };
    let mut run = Run::new(path, true, PathReport::Path);
    run.world.apply(&Op::Stall(0)).unwrap();
    for _ in 0..100 {
        run.draw(SIZE.rect(), OTHER);
        run.wait(50_000);
    }
    let sent = |run: &Run| run.world.session.stats(run.world.viewer_id(0)).unwrap().sounds;
    let before = sent(&run);
    run.world.apply(&Op::Resume(0)).unwrap();
    run.sounds = false;
    run.wait(2_000_000);
    run.world.drain().unwrap();
    // Of the 5 s that programs played meanwhile: six frames of 10 ms, or three of 20 ms.
    let waited = sent(&run) - before;
    assert!((1..=6).contains(&waited), "{waited} packets had waited");
}
