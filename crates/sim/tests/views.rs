//! Viewers that show a part of the screen, scaled: they show the screen resampled, whatever is
//! drawn, copied, lost or resized. From seeds with views of all kinds, through the whole path, to
//! equal pixels; and the smallest example for each rule. Knows the simulator's public interface.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thinc_protocol::viewer::View;
use thinc_region::{Rect, Size};
use thinc_ring::DrawHint;
use thinc_session_core::mutation::Mutation;
use thinc_sim::{
    Breakage, Divergence, Fill, Full, Ids, Op, Path, Pipeline, Random, Tally, Workload, World,
};

const SIZE: Size = Size { width: 64, height: 48 };
const PATH: Path = Path { bytes_per_second: 10_000_000, delay: 1_000, jitter: 0 };
const ALL: usize = 1 << 20;
/// Operations of a run; one in VIEW_EVERY is preceded by a new view.
const OPERATIONS: usize = 600;
const VIEW_EVERY: u64 = 40;

fn view(width: u32, height: u32, part: Rect) -> View {
    View { size: Size { width, height }, part }
}

/// Any view: empty, outside the screen, much too large or much too small ones too.
fn any_view(random: &mut Random) -> View {
    let mut edge = |most: i32| random.between(0, most);
    let (width, height) = (edge(120) as u32, edge(120) as u32);
    let part = Rect::at(edge(60), edge(40), edge(60), edge(40));
    match random.below(6) {
        0 => View::default(),
        1 => view(0, 0, part),
        2 => view(part.width() as u32 / 2, part.height() as u32 / 2, part),
        3 => view(28, 20, Rect::default()),
        4 => view(1, 1, Rect::default()),
        _ => view(width, height, if random.one_in(2) { Rect::default() } else { part }),
    }
}

fn run<P: Pipeline>(seed: u64) -> Result<Tally, Divergence> {
    let mut workload = Workload::new(seed);
    let mut random = Random::new(seed);
    let mut world = World::<P>::new(seed, workload.size, workload.ring_max, None);
    for op in workload.operations(OPERATIONS) {
        if random.one_in(VIEW_EVERY) {
            let view = any_view(&mut random);
            world.apply(&Op::View(random.below(3) as usize, view))?;
        }
        world.apply(&op)?;
    }
    Ok(world.tally())
}

fn hold<P: Pipeline>(seeds: u64) -> Tally {
    let mut all = Tally::default();
    let mut failed = Vec::new();
    for seed in 0..seeds {
        match run::<P>(seed) {
            Ok(tally) => all.add(&tally),
            Err(Divergence(message)) => failed.push((seed, message)),
        }
    }
    println!("{seeds} seeds: {all:?}");
    assert!(
        failed.is_empty(),
        "{} of {seeds} seeds fail: {:?}",
        failed.len(),
        &failed[..failed.len().min(5)]
    );
    all
}

#[test]
fn views_show_the_resampled_screen_for_every_seed() {
    let tally = hold::<Ids>(1_500);
    assert!(tally.views > 4_000, "too few views were checked: {tally:?}");
    assert!(
        tally.copies > 8_000 && tally.barriers > 300 && tally.lost > 500,
        "too few copies, barriers or losses: {tally:?}"
    );
    assert!(tally.scaled_parts > 10_000, "too few claims about scaled pixels: {tally:?}");
    assert!(tally.scaled_frames > 150, "too few videos in scaled views: {tally:?}");
}

#[test]
fn views_show_the_resampled_screen_with_the_real_encoders_and_viewer_core() {
    let tally = hold::<Full>(150);
    assert!(tally.views > 400, "too few views were checked: {tally:?}");
}

/// A viewer with this view, which must show everything drawn afterwards.
fn scenario(
    wanted: View,
    steps: &[Op],
    broken: Option<Mutation>,
) -> Result<World<Ids>, Divergence> {
    let mut world = World::<Ids>::new(1, SIZE, 4096, broken.map(Breakage::Core));
    world.apply(&Op::Join(PATH))?;
    world.apply(&Op::View(0, wanted))?;
    let screen = Op::Draw {
        region: SIZE.rect().into(),
        fill: Fill::Distinct,
        hint: DrawHint::Image,
        window: 1,
    };
    world.apply(&screen)?;
    world.drain()?;
    for op in steps {
        world.apply(op)?;
    }
    world.drain()?;
    Ok(world)
}

fn needs(mutation: Mutation, wanted: View, steps: &[Op]) {
    if let Err(Divergence(message)) = scenario(wanted, steps, None) {
        panic!("with all rules: {message}");
    }
    let broken =
        catch_unwind(AssertUnwindSafe(|| scenario(wanted, steps, Some(mutation)).map(drop)));
    assert!(
        !matches!(broken, Ok(Ok(()))),
        "the scenario passes without the rule too: {mutation:?} shows nothing"
    );
}

fn draw(rect: Rect) -> [Op; 3] {
    let draw = Op::Draw {
        region: rect.into(),
        fill: Fill::Solid(0xff_ffff),
        hint: DrawHint::Image,
        window: 1,
    };
    [draw, Op::Finish, Op::Read(ALL)]
}

fn copy(rect: Rect, dx: i32, dy: i32) -> [Op; 3] {
    [Op::Copy { region: rect.into(), dx, dy, window: 1 }, Op::Finish, Op::Read(ALL)]
}

const HALF: (u32, u32) = (SIZE.width / 2, SIZE.height / 2);

fn half() -> View {
    view(HALF.0, HALF.1, Rect::default())
}

fn copies(world: &World<Ids>) -> u64 {
    world.session.stats(world.viewer_id(0)).expect("the viewer is connected").copies
}

#[test]
fn drawing_changes_every_view_pixel_that_it_touches() {
    // A line of one pixel that nearest-neighbour sampling would miss.
    needs(
        Mutation::ViewIgnoresSupport,
        view(20, 15, Rect::default()),
        &draw(Rect::at(8, 8, 20, 1)),
    );
    needs(
        Mutation::ViewIgnoresSupport,
        view(200, 150, Rect::default()),
        &draw(Rect::at(9, 9, 5, 5)),
    );
}

#[test]
fn only_a_copy_by_whole_view_pixels_is_sent_as_a_copy() {
    let area = Rect::at(10, 10, 30, 20);
    let moved =
        scenario(half(), &copy(area, 4, -6), None).unwrap_or_else(|error| panic!("{}", error.0));
    assert_eq!(copies(&moved), 1);
    let drawn =
        scenario(half(), &copy(area, 4, -5), None).unwrap_or_else(|error| panic!("{}", error.0));
    assert_eq!(copies(&drawn), 0);
    needs(Mutation::ViewIgnoresPhase, half(), &copy(area, 4, -5));
    // 16 pixels of the screen are 5 of the view: a move by 16 is a whole number of pixels, by 8 it
    // is not.
    let part = Rect::at(0, 0, 64, 48);
    let fifth = scenario(view(20, 15, part), &copy(Rect::at(3, 20, 50, 20), 0, -16), None);
    assert_eq!(copies(&fifth.unwrap_or_else(|error| panic!("{}", error.0))), 1);
    needs(Mutation::ViewIgnoresPhase, view(20, 15, part), &copy(Rect::at(3, 20, 50, 20), 0, -8));
}

#[test]
fn the_edges_of_a_copy_are_drawn() {
    // It begins and ends in the middle of view pixels.
    let area = Rect::at(11, 11, 21, 15);
    needs(Mutation::ViewCopiesEdges, half(), &copy(area, 4, -6));
    needs(Mutation::ViewIgnoresCopyEdges, half(), &copy(area, 4, -6));
    // Magnified, its edge is blended with neighbouring pixels.
    let large = view(128, 96, Rect::default());
    needs(Mutation::ViewCopiesEdges, large, &copy(area, 4, -6));
}

#[test]
fn pixels_copied_from_outside_the_view_are_drawn() {
    let part = Rect::at(20, 10, 30, 30);
    let world = scenario(view(30, 30, part), &copy(Rect::at(10, 12, 40, 20), 6, 0), None);
    assert_eq!(
        copies(&world.unwrap_or_else(|error| panic!("{}", error.0))),
        1,
        "pixels from inside are copied"
    );
}

#[test]
fn viewers_of_several_sizes_show_the_same_screen() {
    let mut world = World::<Full>::new(3, SIZE, 4096, None);
    let views = [
        View::default(),
        half(),
        view(20, 15, Rect::default()),
        view(64, 48, Rect::at(8, 8, 16, 12)),
    ];
    for (at, wanted) in views.into_iter().enumerate() {
        world.apply(&Op::Join(PATH)).unwrap();
        world.apply(&Op::View(at, wanted)).unwrap();
    }
    let steps =
        [draw(SIZE.rect()), draw(Rect::at(5, 7, 20, 9)), copy(Rect::at(4, 4, 40, 30), 6, 8)];
    for op in steps.iter().flatten() {
        world.apply(op).unwrap();
    }
    world.drain().unwrap_or_else(|error| panic!("{}", error.0));
    let sizes: Vec<Size> = (0..4).map(|at| world.shown(at).0).collect();
    let size = |width, height| Size { width, height };
    assert_eq!(sizes, [SIZE, size(32, 24), size(20, 15), size(64, 48)]);
}
