//! One scenario for each rule of doc/scheduling.md: it ends with equal framebuffers, and without
//! the rule it does not. For a person who asks what a rule is for: the smallest example. Knows the
//! simulator's public interface.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Region, Size};
use thinc_ring::DrawHint;
use thinc_session_core::ViewerStats;
use thinc_session_core::mutation::Mutation;
use thinc_sim::{Breakage, Divergence, Fill, Full, Ids, Op, Path, World};

const SIZE: Size = Size { width: 48, height: 32 };
const PATH: Path = Path { bytes_per_second: 10_000_000, delay: 1_000, jitter: 0 };

/// Rectangles that do not overlap.
const A: Rect = Rect::at(2, 2, 8, 6);
const B: Rect = Rect::at(20, 2, 8, 6);
const C: Rect = Rect::at(34, 20, 8, 6);
/// X writes all pixels of its op.
const ALL: usize = 1 << 20;

fn draw(rect: Rect) -> Vec<Op> {
    fill(rect, Fill::Distinct)
}

fn fill(rect: Rect, fill: Fill) -> Vec<Op> {
    vec![Op::Draw { region: rect.into(), fill, hint: DrawHint::Image, window: 1 }, Op::Finish]
}

fn copy(from: Rect, to: Rect) -> Vec<Op> {
    vec![
        Op::Copy { region: to.into(), dx: to.x1 - from.x1, dy: to.y1 - from.y1, window: 1 },
        Op::Finish,
    ]
}

/// The session reads all records, and they become old enough to be sent.
fn read() -> Vec<Op> {
    vec![Op::Read(ALL), Op::Wait(4_000)]
}

fn commit() -> Vec<Op> {
    vec![Op::Commit(0)]
}

fn snapshot() -> Vec<Op> {
    vec![Op::Snapshot(0, 0, None)]
}

/// The oldest job is read, encoded and sent.
fn send() -> Vec<Op> {
    vec![Op::Snapshot(0, 0, None), Op::Encode(0, 0), Op::Transmit(0)]
}

/// The setting of a scenario.
#[derive(Clone, Copy)]
struct Place {
    size: Size,
    path: Path,
    ring_max: usize,
}

const PLACE: Place = Place { size: SIZE, path: PATH, ring_max: 4096 };

fn run(place: Place, steps: &[Vec<Op>], breakage: Option<Breakage>) -> Result<(), Divergence> {
    let Place { size, path, ring_max } = place;
    let mut world = World::<Ids>::new(1, size, ring_max, breakage);
    world.apply(&Op::Join(path))?;
    // All pixels differ, and the viewer shows them all.
    let screen = Op::Draw {
        region: size.rect().into(),
        fill: Fill::Distinct,
        hint: DrawHint::Image,
        window: 1,
    };
    world.apply(&screen)?;
    world.drain()?;
    for op in steps.iter().flatten() {
        world.apply(op)?;
    }
    world.drain()
}

/// The viewer's counters after the scenario has drained.
fn stats(steps: &[Vec<Op>]) -> ViewerStats {
    stats_at(PLACE, steps)
}

fn stats_at(place: Place, steps: &[Vec<Op>]) -> ViewerStats {
    let mut world = after(place, steps);
    world.drain().unwrap();
    world.session.stats(world.viewer_id(0)).unwrap()
}

/// The world right after the last step.
fn after(place: Place, steps: &[Vec<Op>]) -> World<Ids> {
    let mut world = World::<Ids>::new(1, place.size, place.ring_max, None);
    world.apply(&Op::Join(place.path)).unwrap();
    world.drain().unwrap();
    for op in steps.iter().flatten() {
        world.apply(op).unwrap();
    }
    world
}

/// The scenario passes, and fails with the rule broken.
fn needs(breakage: Breakage, steps: &[Vec<Op>]) {
    needs_at(PLACE, breakage, steps);
}

fn needs_with_ring(ring_max: usize, breakage: Breakage, steps: &[Vec<Op>]) {
    needs_at(Place { ring_max, ..PLACE }, breakage, steps);
}

fn needs_at(place: Place, breakage: Breakage, steps: &[Vec<Op>]) {
    if let Err(divergence) = run(place, steps, None) {
        panic!("with all rules: {}", divergence.0);
    }
    let broken = catch_unwind(AssertUnwindSafe(|| run(place, steps, Some(breakage))));
    assert!(
        !matches!(broken, Ok(Ok(()))),
        "the scenario passes without the rule too: {breakage:?} shows nothing"
    );
}

// The five scenarios that decided the design.

#[test]
fn a_scroll_that_moved_pixels_before_its_record_is_published() {
    // A is pending when X scrolls it: its pixels are read already scrolled, and the record, when it
    // arrives, must not scroll them again.
    let scrolled = Rect { y2: A.y2 - 1, ..A };
    let scroll =
        vec![Op::Copy { region: scrolled.into(), dx: 0, dy: -1, window: 1 }, Op::Step(ALL)];
    let steps = [draw(A), read(), scroll, commit(), send(), vec![Op::Finish], read()];
    needs(Breakage::Core(Mutation::TagsAreIgnored), &steps);
}

#[test]
fn a_copy_followed_by_a_fill_of_its_source_before_the_session_catches_up() {
    let white = Fill::Solid(0x00ff_ffff);
    // The viewer has the source: the COPY must be sent before the fill.
    needs(Breakage::Core(Mutation::CopiesSentAfterPixels), &[copy(A, B), fill(A, white), read()]);
    // The source was drawn, is pending, and is read when it is already filled.
    let steps = [draw(A), read(), copy(A, B), fill(A, white), commit(), send(), read()];
    needs(Breakage::Core(Mutation::TagsAreIgnored), &steps);
}

#[test]
fn a_chain_of_copies_whose_middle_is_filled() {
    let steps = [copy(A, B), copy(B, C), fill(B, Fill::Solid(0x00ff_ffff)), read()];
    // E still consists of the pixels that the fill covers.
    needs(Breakage::Core(Mutation::CopyIsClipped), &steps);
    // No viewer has to see the pixels of D in between: the two become one COPY from S to E.
    assert_eq!(stats(&steps).copies, 1);
}

#[test]
fn a_copy_whose_source_is_being_encoded() {
    let ends = vec![Op::Transmit(0), Op::Encode(0, 0), Op::Transmit(0)];
    // It was read, so the COPY may use it, and must be sent after it.
    let steps =
        [draw(A), read(), commit(), snapshot(), copy(A, B), read(), commit(), snapshot(), ends];
    needs(Breakage::Core(Mutation::OverlappingUpdatesOvertake), &steps);
    assert_eq!(stats(&steps).copies, 1, "the viewer has the source by then");
    // It was committed and not read: the pixels read later may be newer than the COPY.
    let steps = [draw(A), read(), commit(), copy(A, B), vec![Op::Read(1)], draw(A), send()];
    needs(Breakage::Core(Mutation::CopyIgnoresCommitted), &steps);
}

#[test]
fn a_small_update_overtaking_a_large_one() {
    let large = Rect::new(0, 0, 40, 20);
    let small = Rect::at(10, 10, 2, 2);
    needs(Breakage::Core(Mutation::OverlappingUpdatesOvertake), &two_updates(large, small));
    assert_eq!(
        stats(&two_updates(large, small)).overtakes,
        0,
        "the small one overlaps the large one"
    );
    assert_eq!(
        stats(&two_updates(large, small.translate(34, 12))).overtakes,
        1,
        "without overlap it may overtake"
    );
}

#[test]
fn rule_1_a_pixel_is_pending_once() {
    needs(
        Breakage::Core(Mutation::DrawingsOverlap),
        &[draw(A), draw(A), vec![Op::Read(ALL), Op::Shell]],
    );
}

#[test]
fn rule_2_a_copy_of_pending_pixels_is_pending() {
    // Only half of A: otherwise all of B would be drawn without a COPY.
    let half = Rect { y2: A.y2 - 3, ..A };
    needs(Breakage::Core(Mutation::CopyIgnoresPending), &[draw(half), copy(A, B), read()]);
}

#[test]
fn rule_2_copies_leave_before_pending_pixels() {
    needs(Breakage::Core(Mutation::CopiesSentAfterPixels), &[copy(A, B), draw(A), read()]);
}

#[test]
fn rule_2_a_copy_is_not_clipped_by_later_drawing() {
    // The second COPY reads all pixels written by the first, even those that are drawn over.
    needs(Breakage::Core(Mutation::CopyIsClipped), &[copy(A, B), copy(B, C), draw(B), read()]);
}

#[test]
fn rule_2_a_copy_is_not_split() {
    // The lower rectangle reads what the upper one writes.
    let region: Region = [Rect::new(0, 4, 10, 8), Rect::new(0, 8, 6, 12)].into_iter().collect();
    let scroll = vec![Op::Copy { region, dx: 0, dy: 4, window: 1 }, Op::Finish];
    needs(Breakage::Core(Mutation::CopyIsSplit), &[scroll, read()]);
}

#[test]
fn rule_2_copies_by_one_vector_merge_unless_one_reads_what_another_writes() {
    // The second COPY moves the pixels written by the first.
    let (one, two) = (A.translate(0, 6), A.translate(0, 12));
    needs(Breakage::Core(Mutation::MergeIgnoresOverlap), &[copy(A, one), copy(one, two), read()]);
}

#[test]
fn rule_2_chained_copies_merge_only_if_the_middle_is_not_needed() {
    // B must be shown as well as C.
    needs(Breakage::Core(Mutation::ChainForgetsItsMiddle), &[copy(A, B), copy(B, C), read()]);
}

#[test]
fn rule_2_copies_past_the_limit_become_pixels() {
    let tile = |i: i32| Rect::at(i % 12 * 4, i / 12 * 4, 4, 4);
    let mut steps: Vec<Vec<Op>> = (0..70).map(|i| copy(tile(95), tile(i))).collect();
    steps.push(read());
    needs(Breakage::Core(Mutation::CopiesPastTheBoundAreForgotten), &steps);
}

#[test]
fn rule_3_a_copy_does_not_include_later_drawing() {
    // Op 2 copies A, and op 3 draws it again; both are finished before the session has read either
    // record, and A is sent.
    let steps = [draw(A), read(), copy(A, B), draw(A), commit(), send()];
    needs(Breakage::Core(Mutation::TagsAreIgnored), &steps);
}

#[test]
fn rule_3_a_tag_lasts_until_translation_has_passed_it() {
    let steps =
        [draw(A), read(), draw(C), copy(A, B), draw(A), commit(), send(), vec![Op::Read(1)]];
    needs(Breakage::Core(Mutation::TagsAreForgottenEarly), &steps);
}

#[test]
fn rule_3_a_tag_is_loaded_after_the_pixels() {
    // X scrolls A while it is read: its lower half is read scrolled, and a COPY would scroll it
    // again.
    let scrolled = Rect { y2: A.y2 - 1, ..A };
    let scroll = Op::Copy { region: scrolled.into(), dx: 0, dy: -1, window: 1 };
    let steps = [
        draw(A),
        read(),
        commit(),
        vec![Op::Snapshot(0, ALL, Some(Box::new(scroll)))],
        vec![Op::Encode(0, 0)],
    ];
    needs(Breakage::TagIsLoadedFirst, &steps);
}

#[test]
fn rule_4_committed_pixels_that_are_not_read_are_no_source() {
    let steps = [draw(A), read(), commit(), copy(A, B), vec![Op::Read(1)], draw(A), send()];
    needs(Breakage::Core(Mutation::CopyIgnoresCommitted), &steps);
}

/// Two updates, the later encoded first.
fn two_updates(one: Rect, two: Rect) -> [Vec<Op>; 10] {
    let ends = vec![Op::Encode(0, 1), Op::Transmit(0), Op::Encode(0, 0), Op::Transmit(0)];
    [draw(one), read(), commit(), snapshot(), draw(two), read(), commit(), snapshot(), ends, vec![]]
}

#[test]
fn rule_4_overlapping_updates_keep_their_order() {
    needs(Breakage::Core(Mutation::OverlappingUpdatesOvertake), &two_updates(A, A.translate(2, 2)));
}

#[test]
fn rule_4_other_updates_overtake() {
    assert_eq!(stats(&two_updates(A, B)).overtakes, 1);
}

/// A screen that takes 0.4 s to send.
const SLOW: Place = Place {
    size: Size { width: 160, height: 100 },
    path: Path { bytes_per_second: 125_000, ..PATH },
    ring_max: 4096,
};

/// One update covers the slow screen, and a part of it has been sent when it is late.
fn late(fill_of: Fill) -> Vec<Vec<Op>> {
    let wait = vec![Op::Wait(150_000)];
    vec![fill(SLOW.size.rect(), fill_of), read(), commit(), send(), wait]
}

#[test]
fn rule_4_late_pixels_that_are_redrawn_are_withdrawn_and_stale_in_the_shadow() {
    // Grey was sent in part. White is drawn, and the rest of grey is withdrawn. The pixels read
    // next are grey again, and seem to be shown already.
    let (grey, white) = (Fill::Solid(0x0080_8080), Fill::Solid(0x00ff_ffff));
    let all = SLOW.size.rect();
    let mut steps = late(grey);
    steps.extend([fill(all, white), read(), commit(), fill(all, grey), send(), read()]);
    needs_at(SLOW, Breakage::ShadowIgnoresLoss, &steps);
    assert!(stats_at(SLOW, &steps).withdrawn > 0);
}

#[test]
fn rule_4_copies_of_withdrawn_pixels_are_drawn() {
    let (from, to) = (Rect::new(0, 50, 80, 100), Rect::new(80, 50, 160, 100));
    let mut steps = late(Fill::Distinct);
    // The COPY is pending when its source is withdrawn.
    steps.extend([
        copy(from, to),
        vec![Op::Read(ALL)],
        draw(Rect { x2: 160, ..from }),
        read(),
        commit(),
        send(),
    ]);
    let copied =
        [late(Fill::Distinct), vec![copy(from, to), draw(from), read(), commit(), send()]].concat();
    for steps in [steps, copied] {
        run(SLOW, &steps, None).unwrap_or_else(|divergence| panic!("{}", divergence.0));
    }
}

/// The pixels that are sent first after an outage of this length, when part of an image was sent
/// before and the image was redrawn.
fn first_after_an_outage(outage: u64, breakage: Option<Breakage>) -> u64 {
    let all = SLOW.size.rect();
    let mut world = World::<Ids>::new(1, SLOW.size, SLOW.ring_max, breakage);
    world.apply(&Op::Join(SLOW.path)).unwrap();
    world.drain().unwrap();
    // The viewer has stopped reading. Part of the second image has been sent when the path is full;
    // then the third is drawn, and the rest of the second is withdrawn.
    let leaves = || (0..40).flat_map(|_| [Op::Transmit(0), Op::Wait(10_000)]).collect::<Vec<_>>();
    let picture = || [draw(all), read(), commit(), send(), leaves()].concat();
    let third =
        [draw(all), vec![Op::Idle, Op::Read(ALL), Op::Commit(0), Op::Wait(outage), Op::Resume(0)]]
            .concat();
    let steps = [vec![Op::Stall(0)], picture(), picture(), third];
    for op in steps.iter().flatten() {
        world.apply(op).unwrap();
    }
    let id = world.viewer_id(0);
    assert!(world.session.stats(id).unwrap().withdrawn > 0, "nothing was withdrawn");
    for _ in 0..1_000 {
        world.apply(&Op::Wait(1_000)).unwrap();
        if let Some(job) = world.session.poll_job(id, world.now) {
            return job.region.area();
        }
        world.apply(&Op::Transmit(0)).unwrap();
    }
    panic!("nothing is sent after the outage");
}

#[test]
fn rule_4_after_a_long_outage_the_next_image_is_sent_whole() {
    let all = SLOW.size.area();
    let rest = first_after_an_outage(40_000, None);
    assert!(
        rest < all,
        "after a short one the rest of the old image is sent first, so that one is complete: {rest}"
    );
    assert_eq!(
        first_after_an_outage(400_000, None),
        all,
        "after a long one the old image no longer matters"
    );
    assert_eq!(
        first_after_an_outage(400_000, Some(Breakage::Core(Mutation::WithdrawnStaysFirst))),
        rest,
        "without the rule it is sent first"
    );
}

#[test]
fn rule_4_an_input_response_does_not_wait_for_rows_that_it_overlaps() {
    let key = |down| Op::Input(0, InputEvent::Key { code: 30, keysym: 0, down });
    let glyph = Rect::at(100, 80, 8, 12);
    let mut steps = late(Fill::Distinct);
    steps.extend([
        vec![key(true), Op::Wait(3_000), Op::Wait(3_000), Op::Deliver(1)],
        vec![
            Op::Draw {
                region: glyph.into(),
                fill: Fill::Distinct,
                hint: DrawHint::Glyphs,
                window: 1,
            },
            Op::Finish,
        ],
        vec![Op::Idle, Op::Read(ALL), Op::Commit(0)],
        send(),
    ]);
    run(SLOW, &steps, None).unwrap_or_else(|divergence| panic!("{}", divergence.0));
    let world = after(SLOW, &steps);
    let stats = world.session.stats(world.viewer_id(0)).unwrap();
    assert_eq!((stats.withdrawn, stats.echoes, stats.overtakes), (1, 1, 1), "{stats:?}");
}

#[test]
fn rule_5_stale_pixels_are_followed_through_copies_sent_since() {
    // The COPY is in flight when the viewer loses its source.
    let steps = [copy(A, B), read(), commit(), vec![Op::Transmit(0)], vec![Op::LosePixels(0, A)]];
    needs(Breakage::Core(Mutation::StaleDoesNotFollowCopies), &steps);
}

#[test]
fn rule_5_stale_pixels_are_followed_through_queued_copies() {
    let steps = [copy(A, B), read(), vec![Op::LosePixels(0, A)]];
    needs(Breakage::Core(Mutation::StaleDoesNotFollowCopies), &steps);
}

#[test]
fn rule_5_pixels_of_a_cancelled_job_are_followed_through_copies() {
    // B is copied from A by an update after the cancelled one.
    let cancelled = vec![Op::Cancel(0)];
    let steps = [
        draw(A),
        read(),
        commit(),
        snapshot(),
        copy(A, B),
        read(),
        commit(),
        snapshot(),
        cancelled,
    ];
    needs(Breakage::Core(Mutation::StaleDoesNotFollowCopies), &steps);
}

#[test]
fn rule_6_pixels_are_read_once() {
    // The pixels are grey when compared and white when read again. Next they are grey, and seem to
    // be shown already.
    let grey = Fill::Solid(0x0080_8080);
    let white = Op::Draw {
        region: A.into(),
        fill: Fill::Solid(0x00ff_ffff),
        hint: DrawHint::Image,
        window: 1,
    };
    let steps = [fill(A, grey), read(), commit(), vec![white], send(), fill(A, grey)];
    needs(Breakage::PixelsAreReadTwice, &steps);
}

#[test]
fn rule_7_the_shadow_follows_copies() {
    let (grey, white) = (Fill::Solid(0x0080_8080), Fill::Solid(0x00ff_ffff));
    let shown = || vec![Op::Read(ALL), Op::Idle, Op::Shell];
    let steps =
        [fill(A, grey), fill(B, white), shown(), copy(A, B), shown(), fill(B, white), shown()];
    needs(Breakage::ShadowIgnoresCopies, &steps);
}

#[test]
fn rule_7_lost_pixels_are_stale_in_the_shadow() {
    needs(Breakage::ShadowIgnoresLoss, &[vec![Op::LosePixels(0, A)]]);
}

#[test]
fn rule_9_updates_of_another_geometry_are_discarded() {
    let resize = vec![Op::Resize(Size { width: 30, height: 16 }), Op::Read(ALL), Op::Transmit(0)];
    let steps = [draw(C), read(), commit(), snapshot(), vec![Op::Encode(0, 0)], resize];
    needs(Breakage::Core(Mutation::EpochsAreIgnored), &steps);
}

#[test]
fn rule_9_an_overflow_s_tiles_are_pending() {
    let steps: Vec<Vec<Op>> = (0..12).map(|i| draw(Rect::at(i * 4, 10, 4, 4))).collect();
    needs_with_ring(4, Breakage::Core(Mutation::OverflowIsIgnored), &steps);
}

#[test]
fn rule_9_an_overflow_s_tiles_outlive_earlier_copies() {
    // Four drawings fit and one is lost. The session reads two, so that OVERFLOW and the COPY fit;
    // then a drawing into the COPY's destination is lost too. Its tile is taken at the first
    // OVERFLOW, before the COPY is read.
    let steps = [
        draw(Rect::at(0, 24, 4, 4)),
        draw(Rect::at(4, 24, 4, 4)),
        draw(Rect::at(8, 24, 4, 4)),
        draw(Rect::at(12, 24, 4, 4)),
        draw(Rect::at(40, 8, 4, 4)),
        vec![Op::Read(2)],
        copy(A, B),
        draw(B.intersect(&B.translate(2, 2))),
        vec![Op::Read(ALL)],
    ];
    needs_with_ring(4, Breakage::Core(Mutation::OverflowHasNoTag), &steps);
}

#[test]
fn a_barrier_s_answer_is_right_if_one_chunk_also_brings_another_geometry() {
    // The answer is queued behind much data, and behind it the first update of a new attachment,
    // which is black.
    let size = Size { width: 56, height: 27 };
    let path = Path { bytes_per_second: 20_000, delay: 13_438, jitter: 2_270 };
    let draw = |rect: Rect| Op::Draw {
        region: rect.into(),
        fill: Fill::Distinct,
        hint: DrawHint::Image,
        window: 1,
    };
    let steps = [
        vec![Op::Join(path), Op::Shell, Op::Attach, Op::Shell, Op::Barrier(0), Op::Wait(1_879)],
        vec![
            draw(Rect::new(4, 4, 27, 17)),
            Op::Finish,
            Op::Wait(4_734),
            Op::Read(ALL),
            Op::Wait(4_247),
            Op::Commit(0),
        ],
        vec![draw(size.rect()), Op::Wait(5_561), Op::Shell, Op::Attach],
    ];
    // Chunk boundaries are random.
    for seed in 0..20 {
        let mut world = World::<Ids>::new(seed, size, 4096, None);
        let result =
            steps.iter().flatten().try_for_each(|op| world.apply(op)).and_then(|()| world.drain());
        result.unwrap_or_else(|divergence| panic!("seed {seed}: {}", divergence.0));
    }
}

/// A white screen is shown lossless; its viewer reconnects, and reports it before anything else
/// happens.
fn come_back(steps: &[Vec<Op>], breakage: Option<Breakage>) -> Result<(), Divergence> {
    let size = Size { width: 256, height: 256 };
    let mut world = World::<Full>::new(1, size, 4096, breakage);
    world.apply(&Op::Join(PATH))?;
    fill(size.rect(), Fill::Solid(0x00ff_ffff)).iter().try_for_each(|op| world.apply(op))?;
    world.drain()?;
    for op in [Op::Reconnect(0), Op::Wait(1), Op::Wait(10_000)].iter().chain(steps.iter().flatten())
    {
        world.apply(op)?;
    }
    world.drain()?;
    let held = world.tally().retained;
    assert!(held > 50_000, "almost all of it was shown already: {held}");
    Ok(())
}

#[test]
fn retained_tiles_are_trusted_until_they_are_written() {
    // A glyph is sent into a tile, and then everything is drawn as before.
    let white = fill(Rect::new(0, 0, 256, 256), Fill::Solid(0x00ff_ffff));
    let steps = [draw(A), read(), commit(), send(), white, read()];
    if let Err(divergence) = come_back(&steps, None) {
        panic!("with all rules: {}", divergence.0);
    }
    let broken = Some(Breakage::Core(Mutation::RetainedTilesOutliveWrites));
    assert!(!matches!(catch_unwind(AssertUnwindSafe(|| come_back(&steps, broken))), Ok(Ok(()))));
}
