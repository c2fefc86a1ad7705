//! Under update.rs: which part of which update leaves next, where a frame ends, and what is taken back.
//! From hand-made commits, to what is sent.
//! Knows one viewer's updates and nothing around them.

use thinc_protocol::command::{Command, Encoding};
use thinc_region::Rect;

use super::*;

const SCREEN: Size = Size { width: 100, height: 100 };
const BYTES: PartBytes = PartBytes { wanted: 20, most: 1000 };

/// An update of these pixels and COPYs, neither of a video nor an answer.
fn commit_of(region: Region, copies: Vec<CopyCommand>, lane: Lane, end_of_frame: bool) -> Commit {
    Commit {
        area: region.area(),
        region,
        copies,
        said: Vec::new(),
        streams: 0,
        video: false,
        lane,
        inline: true,
        echo: None,
        end_of_frame,
        since: 0,
        bytes_estimate: 10,
        packed: 1.0,
        kind: 0,
    }
}

/// Commits an update of one rectangle.
fn commit(updates: &mut Updates, x: i32, lane: Lane, end_of_frame: bool) -> JobId {
    let region = Region::from(Rect::new(x, 0, x + 10, 10));
    updates.commit(commit_of(region, vec![], lane, end_of_frame), SCREEN, 0)
}

/// One command for each of `rows` at `x`, which are a part each.
fn encode(updates: &mut Updates, job: JobId, x: i32, rows: i32) {
    for y in 0..rows {
        let rect = Rect::at(x, y, 5, 1);
        let mut commands = Vec::new();
        Command::Raw { rect, encoding: Encoding::Plain, data: &[7; 15] }.encode(&mut commands);
        assert!(updates.encoding(job, &commands, SCREEN, BYTES));
    }
    updates.encoded(job).unwrap();
}

/// Sends what leaves next, if anything may: its length, and what it said of its frame.
fn send(updates: &mut Updates, now: Micros) -> Option<(usize, bool)> {
    let at = updates.next(now)?;
    let mut said = None;
    updates.send(at, now, false, |leaving| {
        said = Some((leaving.commands.len(), leaving.end_of_frame));
        leaving.commands.len() as u64
    });
    said
}

/// Sends what may go, and says what each said of its frame.
fn sent(updates: &mut Updates) -> Vec<bool> {
    std::iter::from_fn(|| send(updates, 0)).map(|(_, end_of_frame)| end_of_frame).collect()
}

#[test]
fn a_frame_ends_with_the_update_that_is_sent_last() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    let large = commit(&mut updates, 0, Lane::Normal, false);
    let middle = commit(&mut updates, 20, Lane::Normal, false);
    let small = commit(&mut updates, 40, Lane::Normal, true);
    encode(&mut updates, small, 40, 1);
    assert_eq!(sent(&mut updates), [false], "the small one overtakes what its frame lacks");
    encode(&mut updates, large, 0, 1);
    assert_eq!(sent(&mut updates), [false]);
    encode(&mut updates, middle, 20, 1);
    assert_eq!(sent(&mut updates), [true]);
    assert!(!updates.frame_open, "the viewer shows what it has");
}

#[test]
fn an_answer_to_a_hand_is_shown_at_once_and_leaves_the_frames_end_to_the_frame() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    let large = commit(&mut updates, 0, Lane::Normal, false);
    let echo = commit(&mut updates, 20, Lane::RealTime, true);
    encode(&mut updates, echo, 20, 1);
    assert_eq!(sent(&mut updates), [true]);
    encode(&mut updates, large, 0, 1);
    assert_eq!(sent(&mut updates), [true]);
}

#[test]
fn an_answer_to_a_hand_goes_between_two_parts_of_one_update() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    let large = commit(&mut updates, 0, Lane::Normal, true);
    encode(&mut updates, large, 0, 4);
    assert_eq!(send(&mut updates, 0).map(|said| said.1), Some(false), "a part that ends no frame");
    let beside = commit(&mut updates, 20, Lane::RealTime, true);
    encode(&mut updates, beside, 20, 1);
    assert_eq!(send(&mut updates, 0).map(|said| said.1), Some(true), "the answer is shown");
    assert_eq!(sent(&mut updates), [false, false, true], "and the frame ends with its last part");
}

#[test]
fn what_was_drawn_over_a_part_goes_as_soon_as_that_part_has() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    let large = commit(&mut updates, 0, Lane::Normal, true);
    encode(&mut updates, large, 0, 4);
    let over = commit(&mut updates, 0, Lane::RealTime, true);
    // The first row alone.
    encode(&mut updates, over, 0, 1);
    assert_eq!(updates.next(0), Some(0), "it lies over a part that has not left");
    assert_eq!(send(&mut updates, 0).map(|said| said.1), Some(false));
    assert_eq!(updates.next(0), Some(1), "and over none of the rest");
}

#[test]
fn a_frame_that_takes_long_is_shown_in_parts() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    let large = commit(&mut updates, 0, Lane::Normal, true);
    encode(&mut updates, large, 0, 6);
    let ends: Vec<_> = (0..).map_while(|i| send(&mut updates, i * FRAME_AGE_MAX / 2)).map(|said| said.1).collect();
    assert_eq!(ends, [false, false, true, false, false, true]);
}

#[test]
fn what_is_short_goes_before_the_rest_of_what_is_long_until_that_is_old() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    let large = commit(&mut updates, 0, Lane::Normal, true);
    encode(&mut updates, large, 0, 40);
    send(&mut updates, 0);
    let small = commit(&mut updates, 20, Lane::Normal, true);
    encode(&mut updates, small, 20, 1);
    assert_eq!(updates.next(0), Some(1));
    let old = crate::scheduler::ITEM_AGE_MAX + 1;
    assert_eq!(updates.next(old), Some(0));
}

#[test]
fn what_is_late_and_drawn_anew_is_taken_back_and_what_was_made_of_it_lacks() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    let large = commit(&mut updates, 0, Lane::Normal, true);
    encode(&mut updates, large, 0, 4);
    send(&mut updates, 0);
    // A COPY of two rows of it, of which one has left.
    let copy = CopyCommand { region: Rect::at(40, 0, 5, 2).into(), dx: 40, dy: 0 };
    let commit = commit_of(Region::new(), vec![copy], Lane::Normal, true);
    updates.commit(commit, SCREEN, 50);
    assert!(updates.is_late(0) && updates.take_back(&Region::from(Rect::at(0, 0, 4, 10)), 0).is_none());
    let taken = updates.take_back(&Region::from(Rect::at(0, 0, 5, 3)), 0).expect("two rows are drawn anew");
    assert_eq!(taken.region, Region::from(Rect::at(0, 1, 5, 2)));
    assert_eq!(taken.lacking, [Rect::at(0, 1, 5, 2), Rect::at(40, 1, 5, 1)].into_iter().collect());
    assert_eq!(sent(&mut updates).len(), 2, "the last row, and the COPY");
    assert_eq!(updates.unsent_len(), 0);
}

#[test]
fn a_job_is_applied_with_its_last_part_and_void_as_soon_as_one_is_taken_back() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    updates.fates.want();
    let fates = |updates: &mut Updates| std::iter::from_fn(|| updates.fates.poll()).collect::<Vec<_>>();
    let (whole, cut, equal) = (
        commit(&mut updates, 0, Lane::Normal, false),
        commit(&mut updates, 20, Lane::Normal, false),
        commit(&mut updates, 40, Lane::Normal, false),
    );
    encode(&mut updates, whole, 0, 3);
    encode(&mut updates, cut, 20, 3);
    assert!(updates.encoded(equal).is_err());
    assert_eq!(fates(&mut updates), [(equal, Fate::Applied)], "nothing had to be sent");
    while updates.unsent.iter().any(|update| update.id == whole) {
        send(&mut updates, 0).expect("it may leave");
    }
    updates.applied(&(1..=2), |_| {});
    assert_eq!(fates(&mut updates), [], "its last part is under way");
    // One part of the other has left when the rest is drawn anew.
    send(&mut updates, 0).expect("it may leave");
    updates.take_back(&Region::from(SCREEN.rect()), Micros::MAX).expect("two parts wait");
    assert_eq!(fates(&mut updates), [(cut, Fate::Void)]);
    let newest = updates.newest_seq;
    updates.applied(&(3..=newest), |_| {});
    assert_eq!(fates(&mut updates), [(whole, Fate::Applied)], "what is void is told once");
    let reset = commit(&mut updates, 60, Lane::Normal, false);
    updates.reset();
    assert_eq!(fates(&mut updates), [(reset, Fate::Void)]);
}

#[test]
fn what_is_left_is_told_by_what_has_left_of_it() {
    let mut updates = Updates::new(Scheduling::default(), Broken::default());
    let region = Region::from(Rect::new(0, 0, 100, 10));
    // Others of its kind packed into a fifth, and this one into a half.
    let commit = Commit { packed: 0.2, ..commit_of(region, vec![], Lane::Normal, true) };
    let job = updates.commit(commit, SCREEN, 0);
    let mut commands = Vec::new();
    for y in 0..8 {
        let rect = Rect::at(0, y, 100, 1);
        Command::Raw { rect, encoding: Encoding::Plain, data: &[7; 300] }.encode(&mut commands);
    }
    let bytes = PartBytes { wanted: 80, most: 1000 };
    assert!(updates.encoding(job, &commands, SCREEN, bytes));
    updates.encoded(job).unwrap();
    let all = commands.len() as u64;
    assert_eq!(updates.bytes_left(), all.div_ceil(5));
    let mut left = 0;
    for _ in 0..4 {
        let at = updates.next(0).unwrap();
        updates.send(at, 0, false, |leaving| {
            left += leaving.commands.len() as u64;
            leaving.commands.len() as u64 / 2
        });
    }
    let half = (all - left) as f64 / 2.0;
    let off = updates.bytes_left() as f64 / half;
    assert!((0.9..=1.1).contains(&off), "{} of {half}", updates.bytes_left());
}
