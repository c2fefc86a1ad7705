//! Moves on a screen are found: the vector, the region, and without errors. A false match only
//! costs bytes.

mod model;

use model::{Screen, noise, rect_of, step};
use proptest::prelude::*;
use thinc_pixels::{Planned, RGB, Shadow};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 640, height: 480 };
const WHITE: u32 = 0x00ff_ffff;

/// A page larger than any screen, seen through windows: text with different words and lines.
fn text(x: i32, y: i32) -> u32 {
    let (line, word) = (y.div_euclid(17), (x + y.div_euclid(17) * 29).div_euclid(47));
    let ink = y.rem_euclid(17) > 4
        && !noise(word as u32, line, 3).is_multiple_of(5)
        && noise(77, x.div_euclid(2), y) & 3 == 0;
    if ink { noise(78, word, line) & 0x003f_3f3f } else { WHITE }
}

/// A desktop background without repetitions.
fn wallpaper(x: i32, y: i32) -> u32 {
    noise(5, x, y) & RGB
}

/// Screen, shadow and viewer; checks the invariants of each plan.
struct Session {
    screen: Screen,
    shadow: Shadow,
    viewer: Screen,
}

/// The moves and the rest of a plan.
struct Sent {
    /// Destinations and vectors.
    moves: Vec<(Region, (i32, i32))>,
    /// Number of pixels sent otherwise.
    rest: u64,
}

impl Sent {
    fn vectors(&self) -> Vec<(i32, i32)> {
        let mut vectors: Vec<(i32, i32)> = self.moves.iter().map(|&(_, vector)| vector).collect();
        vectors.sort_unstable();
        vectors
    }
}

impl Session {
    fn new(pixel: impl Fn(i32, i32) -> u32) -> Session {
        let (screen, shadow, viewer) = model::known_screen(SIZE, WHITE);
        let mut session = Session { screen, shadow, viewer };
        session.draw(&SIZE.rect(), pixel);
        session.send();
        session
    }

    /// Draws pixels by their position on the screen.
    fn draw(&mut self, rect: &Rect, pixel: impl Fn(i32, i32) -> u32) {
        self.screen.draw(rect, |x, y| pixel(rect.x1 + x, rect.y1 + y));
    }

    fn send(&mut self) -> Sent {
        self.send_region(&SIZE.rect().into())
    }

    fn send_region(&mut self, region: &Region) -> Sent {
        let planned = step(&self.screen, region, &mut self.shadow, &mut self.viewer);
        let mut sent = Sent { moves: Vec::new(), rest: 0 };
        for planned in planned {
            match planned {
                Planned::Shift { region, dx, dy } => sent.moves.push((region, (dx, dy))),
                Planned::Solid { region, .. } => sent.rest += region.area(),
                other => sent.rest += rect_of(&other).area(),
            }
        }
        sent
    }
}

#[test]
fn a_scroll_in_any_direction_is_one_exact_move() {
    let view = Rect::new(37, 53, 611, 449);
    for (dx, dy) in [(0, -17), (0, 1), (0, 119), (-31, 0), (3, 0), (23, -41), (-1, -1)] {
        let mut session = Session::new(|x, y| wallpaper(x, y) | 0x0080_0000);
        session.draw(&view, text);
        session.send();
        session.draw(&view, |x, y| text(x - dx, y - dy));
        let sent = session.send();
        let target = view.intersect(&view.translate(dx, dy));
        let [(region, vector)] = &sent.moves[..] else { panic!("({dx}, {dy}): {:?}", sent.moves) };
        assert_eq!(*vector, (dx, dy));
        // Blank margins need not move; only the uncovered pixels are sent, and a few lines beside
        // them.
        assert!(target.contains(&region.extents()), "{region:?} must lie in {target:?}");
        let uncovered = view.area() - target.area();
        assert!(
            sent.rest <= uncovered + uncovered / 4 + 600,
            "({dx}, {dy}): {} of {uncovered} uncovered",
            sent.rest
        );
    }
}

#[test]
fn a_pane_between_a_sidebar_a_header_and_a_footer_scrolls() {
    let pane = Rect::new(203, 61, 640, 447);
    let mut session =
        Session::new(|x, y| if x < 203 { text(x + 5000, y) } else { wallpaper(x, y) });
    session.draw(&pane, text);
    session.send();
    session.draw(&pane, |x, y| text(x, y + 90));
    let sent = session.send();
    let [(region, (0, -90))] = &sent.moves[..] else { panic!("{:?}", sent.moves) };
    assert_eq!(region.rect_count(), 1);
    assert!(Rect { y2: pane.y2 - 90, ..pane }.contains(&region.extents()), "{region:?}");
    assert!(sent.rest <= pane.width() as u64 * 100, "{} pixels sent otherwise", sent.rest);
}

#[test]
fn two_panes_scroll_by_different_vectors() {
    let (left, right) = (Rect::new(0, 0, 317, 480), Rect::new(323, 0, 640, 480));
    let mut session = Session::new(|_, _| 0x0080_8080);
    session.draw(&left, text);
    session.draw(&right, |x, y| text(x + 3000, y + 3000));
    session.send();
    session.draw(&left, |x, y| text(x, y + 64));
    session.draw(&right, |x, y| text(x + 3000, y + 3000 - 23));
    let sent = session.send();
    assert_eq!(sent.vectors(), [(0, -64), (0, 23)]);
    for (region, vector) in &sent.moves {
        let pane = if *vector == (0, -64) { left } else { right };
        assert!(pane.contains(&region.extents()), "{region:?} must stay in {pane:?}");
    }
    assert!(sent.rest <= 317 * (64 + 23 + 20), "{} pixels sent otherwise", sent.rest);
}

#[test]
fn a_dragged_window_is_moved() {
    let mut session = Session::new(wallpaper);
    let window = Rect::at(101, 83, 263, 187);
    session.draw(&window, text);
    session.send();
    let mut at = window;
    for (dx, dy) in [(57, 31), (-7, 3), (120, 90)] {
        session.draw(&at, wallpaper);
        at = at.translate(dx, dy);
        let (x0, y0) = (at.x1 - window.x1, at.y1 - window.y1);
        session.draw(&at, |x, y| text(x - x0, y - y0));
        let sent = session.send();
        let [(region, vector)] = &sent.moves[..] else { panic!("{:?}", sent.moves) };
        assert_eq!(*vector, (dx, dy));
        assert!(region.area() * 10 >= window.area() * 9, "{region:?} of {at:?}");
        let uncovered = window.area() - at.intersect(&at.translate(-dx, -dy)).area();
        // The uncovered area is L-shaped, so its rectangles are not optimal.
        assert!(sent.rest <= uncovered * 3 / 2 + 3000, "{} of {uncovered} uncovered", sent.rest);
    }
}

#[test]
fn a_blinking_cursor_in_scrolled_text_is_sent_separately() {
    let mut session = Session::new(text);
    let cursor = Rect::at(300, 200, 2, 15);
    session.draw(&cursor, |_, _| 0);
    session.send();
    session.draw(&SIZE.rect(), |x, y| text(x, y + 34));
    session.draw(&Rect::at(340, 251, 2, 15), |_, _| 0);
    let sent = session.send();
    assert_eq!(sent.vectors(), [(0, -34)]);
    let uncovered = 640 * 34;
    assert!(sent.rest <= uncovered * 5 / 4 + 2 * 16 * 32, "{} pixels sent otherwise", sent.rest);
}

#[test]
fn if_many_vectors_fit_the_move_is_a_correct_one_or_none() {
    // A pattern of 24 x 24 scrolled by 10: only its edges identify the vector, and it need not be
    // found.
    let view = Rect::new(40, 40, 600, 440);
    let tile = |x: i32, y: i32| noise(9, x.rem_euclid(24), y.rem_euclid(24)) & RGB;
    let mut session = Session::new(wallpaper);
    session.draw(&view, tile);
    session.send();
    session.draw(&view, |x, y| tile(x, y + 10));
    let sent = session.send();
    for (_, (dx, dy)) in &sent.moves {
        assert_eq!(
            (dx % 24, (dy + 10) % 24),
            (0, 0),
            "only vectors that fit the pattern may be chosen"
        );
    }
    // A table of equal cells with a few words, which identify the vector.
    let table = |x: i32, y: i32| {
        let (row, column) = (y.div_euclid(20), x.div_euclid(80));
        let rule = y.rem_euclid(20) == 0 || x.rem_euclid(80) == 0;
        match (rule, noise(3, row, column).is_multiple_of(4)) {
            (true, _) => 0x00cc_cccc,
            (false, true) => text(x, y),
            (false, false) => WHITE,
        }
    };
    session.draw(&view, table);
    session.send();
    session.draw(&view, |x, y| table(x, y + 60));
    let sent = session.send();
    assert_eq!(sent.vectors(), [(0, -60)]);
    assert!(sent.rest <= 560 * 80, "{} pixels sent otherwise", sent.rest);
}

#[test]
fn unknown_and_lossy_pixels_are_not_moved_and_the_rest_is() {
    let (unsure, pixel) = (Rect::at(200, 150, 160, 80), Rect::at(500, 300, 1, 1));
    for lost in [false, true] {
        let mut session = Session::new(text);
        for rect in [unsure, pixel] {
            // The viewer shows other pixels there; `step` would detect their move.
            session.viewer.draw(&rect, |x, y| noise(8, x, y) & RGB);
            match lost {
                true => session.shadow.mark_stale(&rect.into()),
                false => session.shadow.mark_lossy(&rect.into()),
            }
        }
        session.draw(&SIZE.rect(), |x, y| text(x, y + 51));
        let sent = session.send();
        assert_eq!(sent.vectors(), [(0, -51)]);
        let most = 640 * 70 + 2 * unsure.area() * 3 / 2;
        assert!(sent.rest <= most, "{} pixels sent otherwise", sent.rest);
    }
    let mut session = Session::new(text);
    session.shadow.reset();
    session.viewer.draw(&SIZE.rect(), |x, y| noise(8, x, y) & RGB);
    session.draw(&SIZE.rect(), |x, y| text(x, y + 51));
    assert!(session.send().moves.is_empty(), "unknown pixels must not be moved");
}

#[test]
fn only_pixels_of_the_snapshot_are_read() {
    // The left half is in the snapshot, in three rectangles; its pixels come from the right half.
    let mut session = Session::new(text);
    session.draw(&Rect::new(0, 0, 320, 480), |x, y| text(x + 320, y));
    let left: Region =
        [Rect::new(0, 0, 320, 200), Rect::new(10, 200, 320, 300), Rect::new(0, 320, 300, 480)]
            .into_iter()
            .collect();
    assert!(session.send_region(&left).moves.is_empty());
    // A scroll within them is found; `step` checks that nothing outside is read or written.
    session.draw(&Rect::new(0, 0, 320, 480), |x, y| text(x + 320, y + 40));
    assert_eq!(session.send_region(&left).vectors(), [(0, -40)]);
}

#[test]
fn a_move_may_overlap_several_planes_of_a_snapshot() {
    // Found at random: far enough apart for separate planes, with cells of the move across two of
    // them.
    let apart =
        [Rect::new(342, 278, 515, 470), Rect::new(294, 317, 342, 444), Rect::new(0, 0, 1, 1)];
    let mut session = Session::new(text);
    session.draw(&SIZE.rect(), |x, y| text(x, y - 65));
    assert_eq!(session.send_region(&apart.into_iter().collect()).vectors(), [(0, 65)]);
}

#[test]
fn different_content_is_no_move() {
    let mut session = Session::new(text);
    session.draw(&SIZE.rect(), |x, y| text(x + 9000, y + 9000));
    assert!(session.send().moves.is_empty(), "another text");
    session.draw(&SIZE.rect(), wallpaper);
    assert!(session.send().moves.is_empty(), "a image");
    session.draw(&SIZE.rect(), |x, y| wallpaper(y + 700, x));
    assert!(session.send().moves.is_empty(), "another image");
    session.draw(&SIZE.rect(), |x, y| (!wallpaper(y + 700, x + 19)) & RGB);
    assert!(session.send().moves.is_empty(), "the same shapes, scrolled, in other colours");
}

#[test]
fn a_recent_vector_is_tried_without_other_evidence() {
    // Rows of one colour each: no run of a row is sampled.
    let rows = |y: i32| noise(4, 0, y) & RGB;
    let mut session = Session::new(|_, y| rows(y));
    session.draw(&SIZE.rect(), |_, y| rows(y + 30));
    assert!(session.send().moves.is_empty());
    // Text is scrolled there by the same vector, and then they are.
    session.draw(&SIZE.rect(), text);
    session.send();
    session.draw(&SIZE.rect(), |x, y| text(x, y + 30));
    assert_eq!(session.send().vectors(), [(0, -30)]);
    session.draw(&SIZE.rect(), |_, y| rows(y));
    session.send();
    session.draw(&SIZE.rect(), |_, y| rows(y + 30));
    assert_eq!(session.send().vectors(), [(0, -30)]);
}

/// One change of the screen.
#[derive(Clone, Debug)]
enum Op {
    /// Scrolls the text of a pane.
    Scroll(usize, i32, i32),
    /// Moves pixels and redraws the uncovered area.
    Carry(Rect, i32, i32),
    Write(Rect, u32),
    Photo(Rect, u32),
    Tile(Rect, u32),
    Stale(Rect),
    Lossy(Rect),
    Send(Vec<Rect>),
}

fn rect() -> impl Strategy<Value = Rect> {
    (0i32..640, 0i32..480, 1i32..400, 1i32..300)
        .prop_map(|(x, y, w, h)| Rect::at(x, y, w, h).intersect(&SIZE.rect()))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0usize..3, -90i32..90, -90i32..90)
            .prop_map(|(pane, dx, dy)| Op::Scroll(pane, dx, dy)),
        4 => (0usize..3, -200i32..200).prop_map(|(pane, dy)| Op::Scroll(pane, 0, dy)),
        3 => (rect(), -90i32..90, -90i32..90).prop_map(|(rect, dx, dy)| Op::Carry(rect, dx, dy)),
        1 => (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Write(rect, seed)),
        1 => (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Photo(rect, seed)),
        1 => (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Tile(rect, seed)),
        1 => rect().prop_map(Op::Stale),
        1 => rect().prop_map(Op::Lossy),
        6 => Just(Op::Send(vec![SIZE.rect()])),
        2 => proptest::collection::vec(rect(), 1..5).prop_map(Op::Send),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_viewer_shows_any_moves(ops in proptest::collection::vec(op(), 1..16)) {
        let panes = [
            Rect::new(0, 30, 190, 480),
            Rect::new(197, 30, 640, 290),
            Rect::new(197, 301, 601, 480),
        ];
        let mut looking_at = [(0, 0), (2000, 0), (0, 4000)];
        let mut session = Session::new(wallpaper);
        for op in ops {
            match op {
                Op::Scroll(pane, dx, dy) => {
                    let (x0, y0) = &mut looking_at[pane];
                    (*x0, *y0) = (*x0 + dx, *y0 + dy);
                    let (x0, y0) = (*x0, *y0);
                    session.draw(&panes[pane], |x, y| text(x + x0, y + y0));
                }
                Op::Carry(from, dx, dy) => {
                    let before = session.screen.clone();
                    session.draw(&from, wallpaper);
                    let to = from.translate(dx, dy).intersect(&SIZE.rect());
                    if !to.is_empty() {
                        session.draw(&to, |x, y| before.at(x - dx, y - dy));
                    }
                }
                Op::Write(rect, seed) => session
                    .draw(&rect, |x, y| text(x + (seed % 999) as i32, y + (seed % 997) as i32)),
                Op::Photo(rect, seed) => session.draw(&rect, |x, y| noise(seed, x, y)),
                Op::Tile(rect, seed) => session.draw(&rect, |x, y| noise(seed, x % 13, y % 11)),
                Op::Stale(rect) => {
                    session.shadow.mark_stale(&rect.into());
                    session.viewer.draw(&rect, |x, y| noise(9, x, y) & RGB);
                }
                Op::Lossy(rect) => {
                    session.shadow.mark_lossy(&rect.into());
                    session.viewer.draw(&rect, |x, y| noise(8, x, y) & RGB);
                }
                Op::Send(rects) => {
                    session.send_region(&rects.into_iter().collect());
                }
            }
        }
        session.send();
        let mut pairs = session.viewer.pixels.iter().zip(&session.screen.pixels);
        prop_assert!(pairs.all(|(a, b)| (a ^ b) & RGB == 0), "the viewer must show the screen");
    }
}
