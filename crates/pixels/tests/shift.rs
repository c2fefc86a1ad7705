//! What moved on a screen is moved in the view: by which vector, in one piece, and exactly. What only looks like it costs bytes.

mod model;

use model::{Screen, noise, rect_of, step};
use proptest::prelude::*;
use thinc_pixels::{Planned, RGB, Shadow};
use thinc_region::{Rect, Region, Size};

const SIZE: Size = Size { width: 640, height: 480 };
const WHITE: u32 = 0x00ff_ffff;

/// A picture larger than any screen, to look at through windows: text of words and lines that all differ.
fn text(x: i32, y: i32) -> u32 {
    let (line, word) = (y.div_euclid(17), (x + y.div_euclid(17) * 29).div_euclid(47));
    let ink = y.rem_euclid(17) > 4
        && !noise(word as u32, line, 3).is_multiple_of(5)
        && noise(77, x.div_euclid(2), y) & 3 == 0;
    if ink { noise(78, word, line) & 0x003f_3f3f } else { WHITE }
}

/// A desktop behind windows: everywhere different, and nowhere twice.
fn wallpaper(x: i32, y: i32) -> u32 {
    noise(5, x, y) & RGB
}

/// Screen, shadow and view, with everything that a plan promises checked at each change.
struct Session {
    screen: Screen,
    shadow: Shadow,
    viewer: Screen,
}

/// A plan, by what matters here.
struct Sent {
    /// Where to, and how far.
    moves: Vec<(Region, (i32, i32))>,
    /// Pixels sent besides.
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

    /// Pixels by their place on the screen.
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
fn a_scroll_up_down_left_and_right_is_one_move_to_the_pixel() {
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
        // Blank margins may stay where they are; what is sent is no more than what was uncovered, and the odd line beside it.
        assert!(target.contains(&region.extents()), "{region:?} lies in {target:?}");
        let uncovered = view.area() - target.area();
        assert!(sent.rest <= uncovered + uncovered / 4 + 600, "({dx}, {dy}): {} of {uncovered} uncovered", sent.rest);
    }
}

#[test]
fn a_pane_scrolls_beside_a_sidebar_under_a_header_over_a_footer() {
    let pane = Rect::new(203, 61, 640, 447);
    let mut session = Session::new(|x, y| if x < 203 { text(x + 5000, y) } else { wallpaper(x, y) });
    session.draw(&pane, text);
    session.send();
    session.draw(&pane, |x, y| text(x, y + 90));
    let sent = session.send();
    let [(region, (0, -90))] = &sent.moves[..] else { panic!("{:?}", sent.moves) };
    assert_eq!(region.rect_count(), 1);
    assert!(Rect { y2: pane.y2 - 90, ..pane }.contains(&region.extents()), "{region:?}");
    assert!(sent.rest <= pane.width() as u64 * 100, "{} pixels besides", sent.rest);
}

#[test]
fn two_panes_scroll_by_their_own_vectors() {
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
        assert!(pane.contains(&region.extents()), "{region:?} stays in {pane:?}");
    }
    assert!(sent.rest <= 317 * (64 + 23 + 20), "{} pixels besides", sent.rest);
}

#[test]
fn a_window_is_moved_by_hand() {
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
        // What is uncovered has the shape of an L, for which a rectangle is not the best.
        assert!(sent.rest <= uncovered * 3 / 2 + 3000, "{} of {uncovered} uncovered", sent.rest);
    }
}

#[test]
fn a_cursor_that_blinks_in_scrolled_text_is_sent_by_itself() {
    let mut session = Session::new(text);
    let cursor = Rect::at(300, 200, 2, 15);
    session.draw(&cursor, |_, _| 0);
    session.send();
    session.draw(&SIZE.rect(), |x, y| text(x, y + 34));
    session.draw(&Rect::at(340, 251, 2, 15), |_, _| 0);
    let sent = session.send();
    assert_eq!(sent.vectors(), [(0, -34)]);
    let uncovered = 640 * 34;
    assert!(sent.rest <= uncovered * 5 / 4 + 2 * 16 * 32, "{} pixels besides", sent.rest);
}

#[test]
fn where_many_vectors_fit_the_move_is_a_right_one_or_none() {
    // A pattern of 24 x 24 scrolled by 10: what tells where it came from are its edges, and it need not be found.
    let view = Rect::new(40, 40, 600, 440);
    let tile = |x: i32, y: i32| noise(9, x.rem_euclid(24), y.rem_euclid(24)) & RGB;
    let mut session = Session::new(wallpaper);
    session.draw(&view, tile);
    session.send();
    session.draw(&view, |x, y| tile(x, y + 10));
    let sent = session.send();
    for (_, (dx, dy)) in &sent.moves {
        assert_eq!((dx % 24, (dy + 10) % 24), (0, 0), "only a vector that fits the pattern is taken");
    }
    // A table of equal cells, and a few words in it: they say which of the vectors it was.
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
    assert!(sent.rest <= 560 * 80, "{} pixels besides", sent.rest);
}

#[test]
fn what_is_lost_or_inexact_is_not_moved_and_the_rest_is() {
    let (unsure, pixel) = (Rect::at(200, 150, 160, 80), Rect::at(500, 300, 1, 1));
    for lost in [false, true] {
        let mut session = Session::new(text);
        for rect in [unsure, pixel] {
            // The viewer shows something else there, and `step` would see it moved.
            session.viewer.draw(&rect, |x, y| noise(8, x, y) & RGB);
            match lost {
                true => session.shadow.mark_stale(&rect.into()),
                false => session.shadow.mark_inexact(&rect.into()),
            }
        }
        session.draw(&SIZE.rect(), |x, y| text(x, y + 51));
        let sent = session.send();
        assert_eq!(sent.vectors(), [(0, -51)]);
        let most = 640 * 70 + 2 * unsure.area() * 3 / 2;
        assert!(sent.rest <= most, "{} pixels besides", sent.rest);
    }
    let mut session = Session::new(text);
    session.shadow.reset();
    session.viewer.draw(&SIZE.rect(), |x, y| noise(8, x, y) & RGB);
    session.draw(&SIZE.rect(), |x, y| text(x, y + 51));
    assert!(session.send().moves.is_empty(), "where nothing is sure nothing is moved");
}

#[test]
fn only_what_the_snapshot_holds_is_read() {
    // The left half is in the snapshot, in three rectangles; the move that it shows comes from the right half.
    let mut session = Session::new(text);
    session.draw(&Rect::new(0, 0, 320, 480), |x, y| text(x + 320, y));
    let left: Region =
        [Rect::new(0, 0, 320, 200), Rect::new(10, 200, 320, 300), Rect::new(0, 320, 300, 480)].into_iter().collect();
    assert!(session.send_region(&left).moves.is_empty());
    // A scroll within them is found; `step` sees that nothing beside them is read or written.
    session.draw(&Rect::new(0, 0, 320, 480), |x, y| text(x + 320, y + 40));
    assert_eq!(session.send_region(&left).vectors(), [(0, -40)]);
}

#[test]
fn a_move_may_meet_several_planes_of_a_snapshot() {
    // Found at random: so far apart that each has a plane of its own, and cells of the move reach over two of them.
    let apart = [Rect::new(342, 278, 515, 470), Rect::new(294, 317, 342, 444), Rect::new(0, 0, 1, 1)];
    let mut session = Session::new(text);
    session.draw(&SIZE.rect(), |x, y| text(x, y - 65));
    assert_eq!(session.send_region(&apart.into_iter().collect()).vectors(), [(0, 65)]);
}

#[test]
fn other_pixels_are_no_move() {
    let mut session = Session::new(text);
    session.draw(&SIZE.rect(), |x, y| text(x + 9000, y + 9000));
    assert!(session.send().moves.is_empty(), "another text");
    session.draw(&SIZE.rect(), wallpaper);
    assert!(session.send().moves.is_empty(), "a picture");
    session.draw(&SIZE.rect(), |x, y| wallpaper(y + 700, x));
    assert!(session.send().moves.is_empty(), "another picture");
    session.draw(&SIZE.rect(), |x, y| (!wallpaper(y + 700, x + 19)) & RGB);
    assert!(session.send().moves.is_empty(), "the same shapes, scrolled, in other colours");
}

#[test]
fn a_vector_that_worked_is_tried_where_nothing_tells_it() {
    // Rows that differ from each other and not along themselves: no stretch of a row is of more than one colour.
    let rows = |y: i32| noise(4, 0, y) & RGB;
    let mut session = Session::new(|_, y| rows(y));
    session.draw(&SIZE.rect(), |_, y| rows(y + 30));
    assert!(session.send().moves.is_empty());
    // Text is scrolled in their place by as much, and then they.
    session.draw(&SIZE.rect(), text);
    session.send();
    session.draw(&SIZE.rect(), |x, y| text(x, y + 30));
    assert_eq!(session.send().vectors(), [(0, -30)]);
    session.draw(&SIZE.rect(), |_, y| rows(y));
    session.send();
    session.draw(&SIZE.rect(), |_, y| rows(y + 30));
    assert_eq!(session.send().vectors(), [(0, -30)]);
}

/// One thing that happens to the screen.
#[derive(Clone, Debug)]
enum Op {
    /// A pane scrolls over its text, wherever that is by now.
    Scroll(usize, i32, i32),
    /// Pixels go from one place to another, and what they leave is drawn anew.
    Carry(Rect, i32, i32),
    Write(Rect, u32),
    Photo(Rect, u32),
    Tile(Rect, u32),
    Stale(Rect),
    Inexact(Rect),
    Send(Vec<Rect>),
}

fn rect() -> impl Strategy<Value = Rect> {
    (0i32..640, 0i32..480, 1i32..400, 1i32..300).prop_map(|(x, y, w, h)| Rect::at(x, y, w, h).intersect(&SIZE.rect()))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0usize..3, -90i32..90, -90i32..90).prop_map(|(pane, dx, dy)| Op::Scroll(pane, dx, dy)),
        4 => (0usize..3, -200i32..200).prop_map(|(pane, dy)| Op::Scroll(pane, 0, dy)),
        3 => (rect(), -90i32..90, -90i32..90).prop_map(|(rect, dx, dy)| Op::Carry(rect, dx, dy)),
        1 => (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Write(rect, seed)),
        1 => (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Photo(rect, seed)),
        1 => (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Tile(rect, seed)),
        1 => rect().prop_map(Op::Stale),
        1 => rect().prop_map(Op::Inexact),
        6 => Just(Op::Send(vec![SIZE.rect()])),
        2 => proptest::collection::vec(rect(), 1..5).prop_map(Op::Send),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_moves_the_viewer_shows_it(ops in proptest::collection::vec(op(), 1..16)) {
        let panes = [Rect::new(0, 30, 190, 480), Rect::new(197, 30, 640, 290), Rect::new(197, 301, 601, 480)];
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
                Op::Write(rect, seed) => session.draw(&rect, |x, y| text(x + (seed % 999) as i32, y + (seed % 997) as i32)),
                Op::Photo(rect, seed) => session.draw(&rect, |x, y| noise(seed, x, y)),
                Op::Tile(rect, seed) => session.draw(&rect, |x, y| noise(seed, x % 13, y % 11)),
                Op::Stale(rect) => {
                    session.shadow.mark_stale(&rect.into());
                    session.viewer.draw(&rect, |x, y| noise(9, x, y) & RGB);
                }
                Op::Inexact(rect) => {
                    session.shadow.mark_inexact(&rect.into());
                    session.viewer.draw(&rect, |x, y| noise(8, x, y) & RGB);
                }
                Op::Send(rects) => {
                    session.send_region(&rects.into_iter().collect());
                }
            }
        }
        session.send();
        let shown = session.viewer.pixels.iter().zip(&session.screen.pixels).all(|(a, b)| (a ^ b) & RGB == 0);
        prop_assert!(shown, "the view is the screen");
    }
}
