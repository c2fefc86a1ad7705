//! One scenario for each rule of videos (doc/scheduling.md): it ends with equal framebuffers, and
//! without the rule it does not; and how videos share a changing path. Knows the simulator's public
//! interface.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thinc_protocol::Micros;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::video::DecoderState;
use thinc_protocol::viewer::View;
use thinc_region::{Rect, Region, Size};
use thinc_ring::DrawHint;
use thinc_session_core::mutation::Mutation;
use thinc_session_core::{Coding, VideoStats};
use thinc_sim::{Breakage, Divergence, Fill, Ids, Op, Path, World};

const SIZE: Size = Size { width: 160, height: 100 };
const FAST: Path = Path { bytes_per_second: 10_000_000, delay: 1_000, jitter: 0 };
const SLOW: Path = Path { bytes_per_second: 125_000, delay: 1_000, jitter: 0 };
/// Seeds whose policy is: plain or coded, depending on the path; always coded.
const AUTO: u64 = 1;
const CODED: u64 = 3;
const PORT: u16 = 3;
/// A video, and a rectangle that does not overlap it.
const A: Rect = Rect::at(10, 10, 100, 70);
const B: Rect = Rect::at(120, 40, 30, 30);
const SOURCE: Size = Size { width: 80, height: 60 };
const ALL: usize = usize::MAX;

fn frame_of(port: u16, place: Rect, seen: Rect) -> Vec<Op> {
    vec![Op::Frame { port, source: SOURCE, place, region: seen.into(), window: 1 }, Op::Finish]
}

fn frame(seen: Rect) -> Vec<Op> {
    frame_of(PORT, A, seen)
}

fn draw(rect: Rect, hint: DrawHint) -> Vec<Op> {
    vec![Op::Draw { region: rect.into(), fill: Fill::Distinct, hint, window: 1 }, Op::Finish]
}

fn shell() -> Vec<Op> {
    vec![Op::Idle, Op::Shell, Op::Wait(20_000), Op::Shell]
}

/// The stream begins and becomes ready.
fn play() -> Vec<Op> {
    (0..4).flat_map(|_| [frame(A), shell()].concat()).collect()
}

fn read() -> Vec<Op> {
    vec![Op::Read(ALL), Op::Wait(4_000)]
}

fn commit() -> Vec<Op> {
    vec![Op::Commit(0)]
}

fn send() -> Vec<Op> {
    vec![Op::Snapshot(0, 0, None), Op::Encode(0, 0), Op::Transmit(0)]
}

#[derive(Clone, Copy)]
struct Place {
    seed: u64,
    path: Path,
}

fn world(place: Place, breakage: Option<Breakage>) -> World<Ids> {
    let mut world = World::<Ids>::new(place.seed, SIZE, 4096, breakage);
    world.apply(&Op::Join(place.path)).unwrap();
    world.drain().unwrap();
    world
}

fn run(
    place: Place,
    steps: &[Vec<Op>],
    breakage: Option<Breakage>,
) -> Result<VideoStats, Divergence> {
    let mut world = world(place, breakage);
    for op in steps.iter().flatten() {
        world.apply(op)?;
    }
    world.drain()?;
    Ok(world.session.stats(world.viewer_id(0)).unwrap().video)
}

/// The scenario passes, with frames in it, and fails with the rule broken.
fn needs(place: Place, mutation: Mutation, steps: &[Vec<Op>]) {
    match run(place, steps, None) {
        Ok(stats) => assert!(stats.plain + stats.coded > 0, "no frame was sent: {stats:?}"),
        Err(divergence) => panic!("with all rules: {}", divergence.0),
    }
    let broken =
        catch_unwind(AssertUnwindSafe(|| run(place, steps, Some(Breakage::Core(mutation)))));
    assert!(
        !matches!(broken, Ok(Ok(_))),
        "the scenario passes without the rule too: {mutation:?} shows nothing"
    );
}

const AUTO_FAST: Place = Place { seed: AUTO, path: FAST };
const CODED_FAST: Place = Place { seed: CODED, path: FAST };

#[test]
fn a_frame_shares_no_update_with_other_drawing() {
    let beside = frame_of(5, B, B);
    let both = [frame(A), beside.clone(), shell()].concat();
    let again: Vec<Vec<Op>> = (0..4).map(|_| both.clone()).collect();
    let neighbours =
        [frame_of(5, Rect::at(110, 10, 40, 70), Rect::at(110, 10, 40, 70)), frame(A), shell()]
            .concat();
    needs(AUTO_FAST, Mutation::FramesJoin, &[again.concat(), neighbours]);
}

#[test]
fn a_part_that_is_no_longer_visible_is_not_in_the_next_frame() {
    // Nothing is drawn there: it still shows the last frame.
    let half = Rect { x2: 60, ..A };
    let steps = [play(), frame(A), read(), frame(half), read(), commit(), send()];
    needs(AUTO_FAST, Mutation::OldFramesAreShown, &steps);
}

#[test]
fn a_pending_frame_that_is_copied_becomes_pixels_at_the_destination() {
    // The frame covers half of the COPY's source.
    let to = Rect::at(90, 55, 60, 40);
    let copy = vec![Op::Copy { region: to.into(), dx: 10, dy: 35, window: 1 }, Op::Finish];
    needs(
        AUTO_FAST,
        Mutation::FramesFollowCopies,
        &[play(), frame(A), read(), copy, read(), commit(), send()],
    );
}

#[test]
fn samples_read_late_do_not_count_as_the_frame_before() {
    let half = Rect { x2: 60, ..A };
    // The next frame is drawn before the older one is read; its record is read after that, or
    // before.
    let after = [play(), frame(A), read(), commit(), frame(half), send(), read()];
    needs(AUTO_FAST, Mutation::LateFramesAreAccepted, &after);
    let before = [play(), frame(A), read(), commit(), frame(half), read(), send()];
    needs(AUTO_FAST, Mutation::LateFramesAreAccepted, &before);
}

#[test]
fn no_frame_is_sent_before_the_viewer_is_ready() {
    needs(AUTO_FAST, Mutation::FramesDoNotWaitForDecoder, &[play()]);
}

#[test]
fn rule_9_streams_end_with_their_geometry() {
    let resize = vec![Op::Resize(Size { width: 150, height: 90 }), Op::Read(ALL)];
    needs(AUTO_FAST, Mutation::GeometryKeepsStreams, &[play(), resize, play()]);
}

#[test]
fn commands_of_a_stream_keep_their_order() {
    // It ends while its last frame is at the encoder.
    let ends =
        vec![Op::StopPort(PORT), Op::Read(ALL), Op::Wait(4_000), Op::Commit(0), Op::Transmit(0)];
    let late = vec![Op::Encode(0, 0), Op::Transmit(0), Op::Wait(10_000)];
    let steps = [play(), frame(A), read(), commit(), vec![Op::Snapshot(0, 0, None)], ends, late];
    needs(AUTO_FAST, Mutation::StreamsHaveNoOrder, &steps);
}

#[test]
fn an_encoded_frame_is_sent_however_late_it_is() {
    let place =
        Place { seed: CODED, path: Path { bytes_per_second: 2 * SLOW.bytes_per_second, ..SLOW } };
    // It waits behind pixels that fill the path, and the next one is drawn meanwhile.
    let full =
        [draw(Rect::at(0, 82, 160, 18), DrawHint::Image), vec![Op::Idle, Op::Shell]].concat();
    let late = vec![Op::Snapshot(0, 0, None), Op::Encode(0, 0), Op::Wait(150_000)];
    let steps =
        [play(), full, frame(A), read(), commit(), late, frame(A), read(), commit(), play()];
    needs(place, Mutation::FramesAreWithdrawn, &steps);
}

#[test]
fn the_frame_after_a_cancelled_one_is_a_keyframe() {
    let cancelled = vec![Op::Snapshot(0, 0, None), Op::Cancel(0)];
    let steps = [play(), frame(A), read(), commit(), cancelled, play()];
    needs(CODED_FAST, Mutation::FrameRefersToCancelledFrame, &steps);
}

#[test]
fn a_viewer_that_needs_a_keyframe_gets_one() {
    let lost = vec![Op::Decoder(0, DecoderState::NeedsKeyframe), Op::Wait(300_000)];
    needs(CODED_FAST, Mutation::KeyframeRequestIsIgnored, &[play(), lost.clone(), play()]);
    // However often it requests keyframes, it also gets other frames.
    let again: Vec<Vec<Op>> = (0..20)
        .flat_map(|_| [vec![Op::Decoder(0, DecoderState::NeedsKeyframe)], frame(A), shell()])
        .collect();
    let stats = run(CODED_FAST, &[play(), again.concat()], None)
        .unwrap_or_else(|divergence| panic!("{}", divergence.0));
    assert!(
        (2..=5).contains(&stats.keyframes),
        "20 of 24 frames at 40 ms, and at most five keys a second: {stats:?}"
    );
}

#[test]
fn a_refresh_frame_covers_the_visible_video_and_nothing_above_it() {
    // The photograph is lossy, like the video.
    let place = Place { seed: 10, path: SLOW };
    let photo = [vec![Op::Wait(200_000)], draw(Rect::at(20, 15, 90, 65), DrawHint::Image)].concat();
    // Everything is at rest before the refresh.
    let leaves = (0..60).flat_map(|_| [Op::Transmit(0), Op::Wait(5_000)]).collect();
    let steps =
        [play(), photo, vec![Op::Idle], read(), commit(), send(), leaves, vec![Op::Wait(200_000)]];
    needs(place, Mutation::RefreshFrameIncludesCovered, &steps);
}

#[test]
fn coded_frames_are_refreshed() {
    needs(CODED_FAST, Mutation::CodedIsLossless, &[play()]);
}

fn quality(choice: PictureQuality) -> Vec<Op> {
    vec![Op::Quality(0, choice)]
}

#[test]
fn an_exact_viewer_gets_plain_frames_or_pixels_and_coded_ones_again_once_it_chooses_so() {
    let steps = [quality(PictureQuality::Exact), play(), play()];
    let exact = stats_of(CODED_FAST, &steps);
    assert!(exact.coded == 0 && exact.plain > 0, "{exact:?}");
    let coded = stats_of(CODED_FAST, &[play(), play()]);
    assert!(coded.coded > 0 && coded.plain == 0, "{coded:?}");
    let until_seen = vec![Op::Wait(1_000_000)];
    let (exact, auto) = (quality(PictureQuality::Exact), quality(PictureQuality::Auto));
    let steps = [play(), exact, play(), until_seen, auto, play()];
    let both = stats_of(CODED_FAST, &steps);
    assert!(both.plain > 0 && both.coded > coded.coded / 2, "{both:?}");
    assert!(both.begun >= 3, "a stream's codec is announced when it begins: {both:?}");
}

#[test]
fn a_viewer_that_chooses_few_bytes_gets_coded_frames_on_a_fast_path() {
    let plain = stats_of(AUTO_FAST, &[play(), play()]);
    assert!(plain.plain > 0 && plain.coded == 0, "{plain:?}");
    let low = stats_of(AUTO_FAST, &[quality(PictureQuality::Low), play(), play()]);
    assert!(low.plain <= 1 && low.coded > 4, "but for the one that refreshes it: {low:?}");
}

#[test]
fn an_exact_frame_of_a_video_is_followed_by_coded_ones() {
    let wish = vec![Op::ExactFrame(0)];
    let exact = (0..10).flat_map(|_| [frame(A), shell()].concat()).collect();
    let stats = stats_of(CODED_FAST, &[play(), wish.clone(), exact]);
    assert!(stats.plain > 0, "{stats:?}");
    let until_over = vec![Op::Wait(5_000_000)];
    let later = stats_of(CODED_FAST, &[play(), wish, play(), until_over, play(), play()]);
    let before = stats_of(CODED_FAST, &[play()]);
    assert!(later.coded > before.coded, "{later:?}");
}

/// Requests this view.
fn view(width: u32, height: u32, part: Rect) -> Vec<Op> {
    [vec![Op::View(0, View { size: Size { width, height }, part })], shell(), shell()].concat()
}

/// No edge of the video falls on a pixel's edge.
fn third() -> Vec<Op> {
    view(53, 33, Rect::default())
}

fn stats_of(place: Place, steps: &[Vec<Op>]) -> VideoStats {
    run(place, steps, None).unwrap_or_else(|divergence| panic!("{}", divergence.0))
}

#[test]
fn a_scaled_view_gets_scaled_frames_clipped_to_the_video() {
    needs(AUTO_FAST, Mutation::ScaledFrameIsPlain, &[third(), play()]);
    needs(AUTO_FAST, Mutation::ScaledFrameExceedsClip, &[third(), play()]);
    needs(AUTO_FAST, Mutation::ScaledFrameIgnoresEdges, &[third(), play(), frame(A)]);
    let stats = stats_of(AUTO_FAST, &[third(), play()]);
    assert!(stats.coded > 0 && stats.plain == 0, "{stats:?}");
    let large = stats_of(AUTO_FAST, &[view(320, 200, Rect::default()), play()]);
    assert!(large.coded > 0 && large.plain == 0, "{large:?}");
    let own = stats_of(AUTO_FAST, &[view(0, 0, Rect::at(20, 15, 120, 80)), play()]);
    assert!(own.coded == 0 && own.plain > 0, "a part at its own size gets plain frames: {own:?}");
}

#[test]
fn a_frame_outside_the_view_does_not_replace_the_one_before() {
    // The next frame is drawn before the last one that is visible in the view is read.
    let part = Rect::at(60, 0, 60, 60);
    let (inside, beside) = (Rect::at(70, 10, 40, 40), Rect::at(0, 10, 40, 40));
    let seen = |place| [frame_of(PORT, place, place), shell()].concat();
    for place in [AUTO_FAST, CODED_FAST] {
        let playing: Vec<Vec<Op>> = (0..4).map(|_| seen(inside)).collect();
        let late = [read(), commit(), frame_of(PORT, beside, beside), read(), send()].concat();
        let stats = stats_of(
            place,
            &[
                view(0, 0, part),
                playing.concat(),
                frame_of(PORT, inside, inside),
                late,
                seen(beside),
            ],
        );
        assert!(stats.plain + stats.coded > 0, "{stats:?}");
    }
}

#[test]
fn a_changed_view_shows_nothing_of_the_one_before() {
    let wishes = [
        third(),
        view(80, 50, Rect::at(0, 0, 80, 50)),
        view(0, 0, Rect::at(5, 5, 90, 60)),
        third(),
    ];
    for place in [AUTO_FAST, CODED_FAST] {
        let steps: Vec<Op> = wishes
            .iter()
            .flat_map(|wish| [play(), frame(A), read(), commit(), wish.clone()])
            .flatten()
            .collect();
        stats_of(place, &[steps, play()]);
    }
}

/// A video of 30 frames a second.
struct Run {
    world: World<Ids>,
    place: Rect,
}

impl Run {
    fn new(seed: u64, path: Path) -> Run {
        Run { world: world(Place { seed, path }, None), place: A }
    }

    fn wait(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            for op in [Op::Shell, Op::Wait(1_000), Op::Shell] {
                self.world.apply(&op).unwrap();
            }
        }
    }

    fn play(&mut self, time: Micros) {
        let end = self.world.now + time;
        while self.world.now < end {
            for op in frame_of(PORT, self.place, self.place).into_iter().chain([Op::Idle]) {
                self.world.apply(&op).unwrap();
            }
            self.wait(33_000);
        }
    }

    fn stats(&self) -> VideoStats {
        self.world.session.stats(self.world.viewer_id(0)).unwrap().video
    }
}

#[test]
fn rate_follows_the_path_within_a_second_in_both_directions() {
    let (slow, fast) = (60_000, 600_000);
    let path = |bytes_per_second| Path { bytes_per_second, delay: 10_000, jitter: 1_000 };
    let mut run = Run::new(CODED, path(slow));
    run.play(4_000_000);
    let at_first = run.stats();
    let bits = |bytes: u64| bytes * 8;
    assert!(
        (bits(slow) / 2..bits(slow) * 5 / 4).contains(&at_first.bits_per_second),
        "{at_first:?}"
    );
    run.world.set_path(0, path(fast));
    run.play(1_500_000);
    let risen = run.stats();
    assert!(risen.bits_per_second > bits(slow) * 3 / 2, "{risen:?}");
    run.world.set_path(0, path(slow));
    run.play(1_000_000);
    let fallen = run.stats();
    assert!(fallen.bits_per_second < bits(slow) * 5 / 4, "{fallen:?}");
    // It stays there with almost no queue, and few dropped frames.
    run.world.take_queued_max(0);
    run.play(6_000_000);
    let last = run.stats();
    let (frames, dropped) = (last.coded - fallen.coded, last.dropped - fallen.dropped);
    assert!(
        dropped * 20 <= frames + dropped,
        "{dropped} of {} frames were dropped",
        frames + dropped
    );
    let queued = run.world.take_queued_max(0);
    assert!(queued < 100_000, "bytes waited in the link's queue for {queued} us");
    run.world.drain().unwrap();
}

#[test]
fn frames_are_plain_if_the_path_has_twice_their_rate() {
    let mut fast = Run::new(AUTO, FAST);
    fast.play(1_000_000);
    let stats = fast.stats();
    assert!(stats.plain > 20 && stats.coded == 0, "{stats:?}");
    let mut slow = Run::new(AUTO, SLOW);
    slow.play(2_000_000);
    let stats = slow.stats();
    assert!(stats.coded > 40 && stats.plain == 0, "{stats:?}");
    slow.world.drain().unwrap();
    assert_eq!(
        slow.stats().plain,
        1,
        "at rest one plain frame is smaller than the lossless pixels of its place"
    );
}

#[test]
fn a_window_that_moves_in_a_scaled_view_keeps_its_stream() {
    let mut run = Run::new(CODED, FAST);
    let mut apply = |ops: Vec<Op>| ops.iter().for_each(|op| run.world.apply(op).unwrap());
    apply(view(53, 33, Rect::default()));
    run.play(500_000);
    let before = run.stats();
    for _ in 0..20 {
        // It is 33 or 34 pixels wide, depending on its position.
        run.place = run.place.translate(1, 0);
        run.play(66_000);
    }
    let stats = run.stats();
    assert!(stats.coded > before.coded + 20, "{stats:?}");
    assert_eq!(
        (stats.keyframes, stats.begun),
        (before.keyframes, before.begun),
        "no stream begins again"
    );
    run.world.drain().unwrap();
}

#[test]
fn a_key_is_answered_while_a_video_fills_its_share() {
    let mut run = Run::new(CODED, SLOW);
    run.play(2_000_000);
    let text = draw(B, DrawHint::Glyphs);
    for op in text.into_iter().chain([Op::Idle]) {
        run.world.apply(&op).unwrap();
    }
    let drawn_at = run.world.now;
    let at = |x: i32, y: i32| (y * SIZE.width as i32 + x) as usize;
    while run.world.shown(0).1[at(B.x1, B.y1)] != run.world.x.framebuffer().pixels[at(B.x1, B.y1)] {
        run.play(1);
        assert!(
            run.world.now < drawn_at + 300_000,
            "2.7 kB of text wait for {} us",
            run.world.now - drawn_at
        );
    }
}

#[test]
fn only_one_frame_of_a_stream_is_between_commit_and_sending() {
    let mut world = world(CODED_FAST, None);
    for op in play().iter().chain(&frame(A)).chain(&read()) {
        world.apply(op).unwrap();
    }
    let (id, now) = (world.viewer_id(0), world.now);
    let job = world.session.poll_job(id, now).expect("the frame is committed");
    let frame_of_job = job.video.expect("the job is a frame");
    assert!(
        matches!(frame_of_job.coding, Coding::H264 { keyframe: false, .. }),
        "{frame_of_job:?}"
    );
    assert_eq!((job.region, frame_of_job.place), (Region::from(A), A));
    for op in frame(A).iter().chain(&read()) {
        world.apply(op).unwrap();
    }
    assert_eq!(
        world.session.poll_job(id, now + 10_000),
        None,
        "the last frame is still at the encoder"
    );
}
