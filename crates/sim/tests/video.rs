//! One scenario for each rule of videos (doc/scheduling.md): it ends with equal framebuffers, and without the rule it does not; and
//! what videos take of a path that changes.
//! Knows the simulator's public face.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thinc_protocol::Micros;
use thinc_protocol::video::Readiness;
use thinc_protocol::viewer::View;
use thinc_region::{Rect, Region, Size};
use thinc_ring::Drawn;
use thinc_session_core::mutation::Mutation;
use thinc_session_core::{Coding, VideoStats};
use thinc_sim::{Breakage, Divergence, Fill, Ids, Op, Path, World};

const SIZE: Size = Size { width: 160, height: 100 };
const FAST: Path = Path { bytes_per_second: 10_000_000, delay: 1_000, jitter: 0 };
const SLOW: Path = Path { bytes_per_second: 125_000, delay: 1_000, jitter: 0 };
/// Seeds by whose policy videos are plain or coded as the path has it, and always coded.
const AUTO: u64 = 1;
const CODED: u64 = 3;
const PORT: u16 = 3;
/// A video, and a place that does not meet it.
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

fn draw(rect: Rect, what: Drawn) -> Vec<Op> {
    vec![Op::Draw { region: rect.into(), fill: Fill::Distinct, what, window: 1 }, Op::Finish]
}

fn shell() -> Vec<Op> {
    vec![Op::Idle, Op::Shell, Op::Wait(20_000), Op::Shell]
}

/// The stream begins, and is ready.
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

fn run(place: Place, steps: &[Vec<Op>], breakage: Option<Breakage>) -> Result<VideoStats, Divergence> {
    let mut world = world(place, breakage);
    for op in steps.iter().flatten() {
        world.apply(op)?;
    }
    world.drain()?;
    Ok(world.session.stats(world.viewer_id(0)).unwrap().video)
}

/// The scenario holds, with pictures in it, and does not with the rule broken.
fn needs(place: Place, mutation: Mutation, steps: &[Vec<Op>]) {
    match run(place, steps, None) {
        Ok(stats) => assert!(stats.plain + stats.coded > 0, "no picture was sent: {stats:?}"),
        Err(divergence) => panic!("with every rule: {}", divergence.0),
    }
    let broken = catch_unwind(AssertUnwindSafe(|| run(place, steps, Some(Breakage::Core(mutation)))));
    assert!(!matches!(broken, Ok(Ok(_))), "without the rule the scenario holds as well: {mutation:?} shows nothing");
}

const AUTO_FAST: Place = Place { seed: AUTO, path: FAST };
const CODED_FAST: Place = Place { seed: CODED, path: FAST };

#[test]
fn a_frame_joins_nothing_that_is_drawn_beside_it() {
    let beside = frame_of(5, B, B);
    let both = [frame(A), beside.clone(), shell()].concat();
    let again: Vec<Vec<Op>> = (0..4).map(|_| both.clone()).collect();
    let neighbours = [frame_of(5, Rect::at(110, 10, 40, 70), Rect::at(110, 10, 40, 70)), frame(A), shell()].concat();
    needs(AUTO_FAST, Mutation::FramesJoin, &[again.concat(), neighbours]);
}

#[test]
fn what_is_seen_of_a_frame_no_more_is_not_shown_by_the_next() {
    // Nothing is drawn there: it goes on to show the frame before.
    let half = Rect { x2: 60, ..A };
    let steps = [play(), frame(A), read(), frame(half), read(), commit(), send()];
    needs(AUTO_FAST, Mutation::OldFramesAreShown, &steps);
}

#[test]
fn a_frame_that_waits_is_pixels_where_a_copy_takes_it() {
    // Half of its source is the frame.
    let to = Rect::at(90, 55, 60, 40);
    let copy = vec![Op::Copy { region: to.into(), dx: 10, dy: 35, window: 1 }, Op::Finish];
    needs(AUTO_FAST, Mutation::FramesAreCarriedAlong, &[play(), frame(A), read(), copy, read(), commit(), send()]);
}

#[test]
fn a_picture_read_late_is_not_believed_to_be_the_frame_before() {
    let half = Rect { x2: 60, ..A };
    // It is drawn before the older one is read, and known of after that or before.
    let after = [play(), frame(A), read(), commit(), frame(half), send(), read()];
    needs(AUTO_FAST, Mutation::LateFramesAreBelieved, &after);
    let before = [play(), frame(A), read(), commit(), frame(half), read(), send()];
    needs(AUTO_FAST, Mutation::LateFramesAreBelieved, &before);
}

#[test]
fn a_viewer_is_ready_before_pictures_come() {
    needs(AUTO_FAST, Mutation::PicturesDoNotWait, &[play()]);
}

#[test]
fn rule_9_streams_end_with_their_geometry() {
    let resize = vec![Op::Resize(Size { width: 150, height: 90 }), Op::Read(ALL)];
    needs(AUTO_FAST, Mutation::GeometryKeepsStreams, &[play(), resize, play()]);
}

#[test]
fn what_is_said_of_a_stream_keeps_its_order() {
    // It ends while its last picture is at the encoder.
    let ends = vec![Op::StopPort(PORT), Op::Read(ALL), Op::Wait(4_000), Op::Commit(0), Op::Transmit(0)];
    let late = vec![Op::Encode(0, 0), Op::Transmit(0), Op::Wait(10_000)];
    let steps = [play(), frame(A), read(), commit(), vec![Op::Snapshot(0, 0, None)], ends, late];
    needs(AUTO_FAST, Mutation::StreamsHaveNoOrder, &steps);
}

#[test]
fn a_picture_that_was_encoded_leaves_however_late_it_is() {
    let place = Place { seed: CODED, path: Path { bytes_per_second: 2 * SLOW.bytes_per_second, ..SLOW } };
    // It stands behind pixels that fill the path, and the next one is drawn meanwhile.
    let full = [draw(Rect::at(0, 82, 160, 18), Drawn::Image), vec![Op::Idle, Op::Shell]].concat();
    let late = vec![Op::Snapshot(0, 0, None), Op::Encode(0, 0), Op::Wait(150_000)];
    let steps = [play(), full, frame(A), read(), commit(), late, frame(A), read(), commit(), play()];
    needs(place, Mutation::PicturesAreTakenBack, &steps);
}

#[test]
fn after_a_picture_that_was_given_up_the_next_leans_on_none() {
    let given_up = vec![Op::Snapshot(0, 0, None), Op::Cancel(0)];
    let steps = [play(), frame(A), read(), commit(), given_up, play()];
    needs(CODED_FAST, Mutation::NextLeansOnWhatWasGivenUp, &steps);
}

#[test]
fn a_viewer_that_is_lost_gets_a_picture_that_leans_on_none() {
    let lost = vec![Op::Say(0, Readiness::Lost), Op::Wait(300_000)];
    needs(CODED_FAST, Mutation::LostIsNotHeard, &[play(), lost.clone(), play()]);
    // However often it says so, it is not all it gets.
    let again: Vec<Vec<Op>> = (0..20).flat_map(|_| [vec![Op::Say(0, Readiness::Lost)], frame(A), shell()]).collect();
    let stats =
        run(CODED_FAST, &[play(), again.concat()], None).unwrap_or_else(|divergence| panic!("{}", divergence.0));
    assert!((2..=5).contains(&stats.keys), "20 of 24 frames at 40 ms, and at most five keys a second: {stats:?}");
}

#[test]
fn one_picture_makes_exact_what_is_seen_of_the_video_and_nothing_that_covers_it() {
    // The photograph is shown nearly, as the video is.
    let place = Place { seed: 10, path: SLOW };
    let photo = [vec![Op::Wait(200_000)], draw(Rect::at(20, 15, 90, 65), Drawn::Image)].concat();
    // All of it rests before anything is asked for.
    let leaves = (0..60).flat_map(|_| [Op::Transmit(0), Op::Wait(5_000)]).collect();
    let steps = [play(), photo, vec![Op::Idle], read(), commit(), send(), leaves, vec![Op::Wait(200_000)]];
    needs(place, Mutation::MendedIsWhatWasCovered, &steps);
}

#[test]
fn what_was_coded_becomes_exact() {
    needs(CODED_FAST, Mutation::CodedIsExact, &[play()]);
}

/// It shows this from now on.
fn view(width: u32, height: u32, part: Rect) -> Vec<Op> {
    [vec![Op::View(0, View { size: Size { width, height }, part })], shell(), shell()].concat()
}

/// No edge of the video is one of a pixel.
fn third() -> Vec<Op> {
    view(53, 33, Rect::default())
}

fn stats_of(place: Place, steps: &[Vec<Op>]) -> VideoStats {
    run(place, steps, None).unwrap_or_else(|divergence| panic!("{}", divergence.0))
}

#[test]
fn what_is_shown_smaller_comes_as_smaller_pictures_that_are_its_own_alone() {
    needs(AUTO_FAST, Mutation::ScaledIsPlain, &[third(), play()]);
    needs(AUTO_FAST, Mutation::ScaledReachesOver, &[third(), play()]);
    needs(AUTO_FAST, Mutation::ScaledForgetsEdges, &[third(), play(), frame(A)]);
    let stats = stats_of(AUTO_FAST, &[third(), play()]);
    assert!(stats.coded > 0 && stats.plain == 0, "{stats:?}");
    let large = stats_of(AUTO_FAST, &[view(320, 200, Rect::default()), play()]);
    assert!(large.coded > 0 && large.plain == 0, "{large:?}");
    let own = stats_of(AUTO_FAST, &[view(0, 0, Rect::at(20, 15, 120, 80)), play()]);
    assert!(own.coded == 0 && own.plain > 0, "a part at its own size is exact: {own:?}");
}

#[test]
fn a_frame_that_is_beside_the_view_is_not_shown_in_the_one_before() {
    // The next frame comes before the last that is seen in the part is read.
    let part = Rect::at(60, 0, 60, 60);
    let (inside, beside) = (Rect::at(70, 10, 40, 40), Rect::at(0, 10, 40, 40));
    let seen = |place| [frame_of(PORT, place, place), shell()].concat();
    for place in [AUTO_FAST, CODED_FAST] {
        let playing: Vec<Vec<Op>> = (0..4).map(|_| seen(inside)).collect();
        let late = [read(), commit(), frame_of(PORT, beside, beside), read(), send()].concat();
        let stats =
            stats_of(place, &[view(0, 0, part), playing.concat(), frame_of(PORT, inside, inside), late, seen(beside)]);
        assert!(stats.plain + stats.coded > 0, "{stats:?}");
    }
}

#[test]
fn a_view_that_changes_shows_nothing_of_the_one_before() {
    let wishes = [third(), view(80, 50, Rect::at(0, 0, 80, 50)), view(0, 0, Rect::at(5, 5, 90, 60)), third()];
    for place in [AUTO_FAST, CODED_FAST] {
        let steps: Vec<Op> =
            wishes.iter().flat_map(|wish| [play(), frame(A), read(), commit(), wish.clone()]).flatten().collect();
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
fn rate_follows_the_path_within_a_second_both_ways() {
    let (slow, fast) = (60_000, 600_000);
    let path = |bytes_per_second| Path { bytes_per_second, delay: 10_000, jitter: 1_000 };
    let mut run = Run::new(CODED, path(slow));
    run.play(4_000_000);
    let at_first = run.stats();
    let bits = |bytes: u64| bytes * 8;
    assert!((bits(slow) / 2..bits(slow) * 5 / 4).contains(&at_first.bits_per_second), "{at_first:?}");
    run.world.set_path(0, path(fast));
    run.play(1_500_000);
    let risen = run.stats();
    assert!(risen.bits_per_second > bits(slow) * 3 / 2, "{risen:?}");
    run.world.set_path(0, path(slow));
    run.play(1_000_000);
    let fallen = run.stats();
    assert!(fallen.bits_per_second < bits(slow) * 5 / 4, "{fallen:?}");
    // And it stays there with no queue to speak of, and hardly a frame lost.
    run.world.take_queued_max(0);
    run.play(6_000_000);
    let last = run.stats();
    let (frames, dropped) = (last.coded - fallen.coded, last.dropped - fallen.dropped);
    assert!(dropped * 20 <= frames + dropped, "{dropped} of {} frames were dropped", frames + dropped);
    let queued = run.world.take_queued_max(0);
    assert!(queued < 100_000, "bytes stood in the link's queue for {queued} us");
    run.world.drain().unwrap();
}

#[test]
fn pictures_are_plain_where_the_path_carries_them_twice_over() {
    let mut fast = Run::new(AUTO, FAST);
    fast.play(1_000_000);
    let stats = fast.stats();
    assert!(stats.plain > 20 && stats.coded == 0, "{stats:?}");
    let mut slow = Run::new(AUTO, SLOW);
    slow.play(2_000_000);
    let stats = slow.stats();
    assert!(stats.coded > 40 && stats.plain == 0, "{stats:?}");
    slow.world.drain().unwrap();
    assert_eq!(slow.stats().plain, 1, "at rest one plain picture takes less than the exact pixels of its place");
}

#[test]
fn a_window_that_is_moved_in_a_scaled_picture_goes_on_with_its_stream() {
    let mut run = Run::new(CODED, FAST);
    let mut apply = |ops: Vec<Op>| ops.iter().for_each(|op| run.world.apply(op).unwrap());
    apply(view(53, 33, Rect::default()));
    run.play(500_000);
    let before = run.stats();
    for _ in 0..20 {
        // 33 or 34 pixels wide, as it comes.
        run.place = run.place.translate(1, 0);
        run.play(66_000);
    }
    let stats = run.stats();
    assert!(stats.coded > before.coded + 20, "{stats:?}");
    assert_eq!((stats.keys, stats.begun), (before.keys, before.begun), "none of them begins anew");
    run.world.drain().unwrap();
}

#[test]
fn a_key_is_answered_while_a_video_fills_its_share() {
    let mut run = Run::new(CODED, SLOW);
    run.play(2_000_000);
    let text = draw(B, Drawn::Glyphs);
    for op in text.into_iter().chain([Op::Idle]) {
        run.world.apply(&op).unwrap();
    }
    let drawn_at = run.world.now;
    let at = |x: i32, y: i32| (y * SIZE.width as i32 + x) as usize;
    while run.world.shown(0).1[at(B.x1, B.y1)] != run.world.x.framebuffer().pixels[at(B.x1, B.y1)] {
        run.play(1);
        assert!(run.world.now < drawn_at + 300_000, "2.7 kB of text wait for {} us", run.world.now - drawn_at);
    }
}

#[test]
fn only_one_frame_of_a_stream_is_between_commit_and_sending() {
    let mut world = world(CODED_FAST, None);
    for op in play().iter().chain(&frame(A)).chain(&read()) {
        world.apply(op).unwrap();
    }
    let (id, now) = (world.viewer_id(0), world.now);
    let job = world.session.poll_job(id, now).expect("the frame goes");
    let frame_of_job = job.video.expect("it is one");
    assert!(matches!(frame_of_job.coding, Coding::H264 { key: false, .. }), "{frame_of_job:?}");
    assert_eq!((job.region, frame_of_job.place), (Region::from(A), A));
    for op in frame(A).iter().chain(&read()) {
        world.apply(op).unwrap();
    }
    assert_eq!(world.session.poll_job(id, now + 10_000), None, "the one before is at the encoder");
}
