//! Under ledger.rs: which part of which update is sent next, where a frame ends, and what is
//! withdrawn. From constructed commits, to what is sent. Knows one viewer's updates and nothing
//! around them.

use thinc_protocol::command::{Command, Encoding};
use thinc_region::Rect;

use super::*;
use crate::delivery::Delivery;

const SCREEN: Rect = Rect::new(0, 0, 100, 100);
const BYTES: PartBytes = PartBytes { wanted: 20, most: 1000 };

/// An update of these pixels and COPYs, neither a video nor an echo.
fn commit_of(region: Region, copies: Vec<CopyCommand>, lane: Lane, end_of_frame: bool) -> Commit {
    Commit {
        area: region.area(),
        region,
        copies,
        video_commands: Commands::default(),
        streams: 0,
        video: false,
        frames: FramesOf::Framebuffer,
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
fn commit(delivery: &mut Delivery, x: i32, lane: Lane, end_of_frame: bool) -> JobId {
    let region = Region::from(Rect::new(x, 0, x + 10, 10));
    delivery.ledger.commit(commit_of(region, vec![], lane, end_of_frame), 0)
}

/// One command for each of `rows` at `x`; each becomes a part.
fn encode(delivery: &mut Delivery, job: JobId, x: i32, rows: i32) {
    for y in 0..rows {
        let rect = Rect::at(x, y, 5, 1);
        let mut commands = Commands::default();
        Command::Raw { rect, encoding: Encoding::Plain, data: &[7; 15] }.append_to(&mut commands);
        assert!(delivery.ledger.encoding(job, &commands, BYTES));
    }
    delivery.ledger.encoded(job).unwrap();
}

/// Sends the next part, if one may be sent: returns its length and whether it ended a frame.
fn send(delivery: &mut Delivery, now: Micros) -> Option<(usize, bool)> {
    let at = delivery.ledger.next(now)?;
    let mut sent_part = None;
    delivery.send(at, false, false, now, |outgoing, _| {
        sent_part = Some((outgoing.commands.len(), outgoing.end_of_frame));
        let commands = outgoing.commands.len() as u64;
        Written { commands, message: commands }
    });
    sent_part
}

/// Sends everything that may be sent, and returns whether each part ended a frame.
fn sent(delivery: &mut Delivery) -> Vec<bool> {
    std::iter::from_fn(|| send(delivery, 0)).map(|(_, end_of_frame)| end_of_frame).collect()
}

#[test]
fn a_frame_ends_with_the_update_that_is_sent_last() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    let large = commit(&mut delivery, 0, Lane::Normal, false);
    let middle = commit(&mut delivery, 20, Lane::Normal, false);
    let small = commit(&mut delivery, 40, Lane::Normal, true);
    encode(&mut delivery, small, 40, 1);
    assert_eq!(sent(&mut delivery), [false], "the small one overtakes the rest of its frame");
    encode(&mut delivery, large, 0, 1);
    assert_eq!(sent(&mut delivery), [false]);
    encode(&mut delivery, middle, 20, 1);
    assert_eq!(sent(&mut delivery), [true]);
    assert!(!delivery.ledger.frame_open, "the viewer shows the whole frame");
}

#[test]
fn an_input_response_is_shown_at_once_and_leaves_the_frame_open() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    let large = commit(&mut delivery, 0, Lane::Normal, false);
    let echo = commit(&mut delivery, 20, Lane::RealTime, true);
    encode(&mut delivery, echo, 20, 1);
    assert_eq!(sent(&mut delivery), [true]);
    encode(&mut delivery, large, 0, 1);
    assert_eq!(sent(&mut delivery), [true]);
}

#[test]
fn an_input_response_is_sent_between_two_parts_of_one_update() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    let large = commit(&mut delivery, 0, Lane::Normal, true);
    encode(&mut delivery, large, 0, 4);
    assert_eq!(
        send(&mut delivery, 0).map(|sent_part| sent_part.1),
        Some(false),
        "a part that ends no frame"
    );
    let beside = commit(&mut delivery, 20, Lane::RealTime, true);
    encode(&mut delivery, beside, 20, 1);
    assert_eq!(
        send(&mut delivery, 0).map(|sent_part| sent_part.1),
        Some(true),
        "the input response is shown at once"
    );
    assert_eq!(sent(&mut delivery), [false, false, true], "and the frame ends with its last part");
}

#[test]
fn an_update_over_a_part_is_sent_as_soon_as_that_part_was() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    let large = commit(&mut delivery, 0, Lane::Normal, true);
    encode(&mut delivery, large, 0, 4);
    let over = commit(&mut delivery, 0, Lane::RealTime, true);
    // Only the first row.
    encode(&mut delivery, over, 0, 1);
    assert_eq!(delivery.ledger.next(0), Some(0), "it lies over a part that was not sent");
    assert_eq!(send(&mut delivery, 0).map(|sent_part| sent_part.1), Some(false));
    assert_eq!(delivery.ledger.next(0), Some(1), "and over none of the rest");
}

#[test]
fn a_frame_that_takes_long_is_shown_in_parts() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    let large = commit(&mut delivery, 0, Lane::Normal, true);
    encode(&mut delivery, large, 0, 6);
    let ends: Vec<_> = (0..)
        .map_while(|i| send(&mut delivery, i * FRAME_AGE_MAX / 2))
        .map(|sent_part| sent_part.1)
        .collect();
    assert_eq!(ends, [false, false, true, false, false, true]);
}

#[test]
fn a_short_update_goes_before_the_rest_of_a_long_one_until_that_is_old() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    let large = commit(&mut delivery, 0, Lane::Normal, true);
    encode(&mut delivery, large, 0, 40);
    send(&mut delivery, 0);
    let small = commit(&mut delivery, 20, Lane::Normal, true);
    encode(&mut delivery, small, 20, 1);
    assert_eq!(delivery.ledger.next(0), Some(1));
    let old = crate::queue::scheduler::ITEM_AGE_MAX + 1;
    assert_eq!(delivery.ledger.next(old), Some(0));
}

#[test]
fn a_late_and_redrawn_update_is_withdrawn_and_its_copies_are_stale() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    let large = commit(&mut delivery, 0, Lane::Normal, true);
    encode(&mut delivery, large, 0, 4);
    send(&mut delivery, 0);
    // A COPY of two of its rows, of which one was sent.
    let copy = CopyCommand { region: Rect::at(40, 0, 5, 2).into(), dx: 40, dy: 0 };
    let commit = commit_of(Region::new(), vec![copy], Lane::Normal, true);
    delivery.ledger.commit(commit, 50);
    assert!(
        delivery.ledger.is_late(0)
            && delivery.ledger.withdraw(&Region::from(Rect::at(0, 0, 4, 10)), 0).is_none()
    );
    let taken = delivery
        .ledger
        .withdraw(&Region::from(Rect::at(0, 0, 5, 3)), 0)
        .expect("two rows are redrawn");
    assert_eq!(taken.region, Region::from(Rect::at(0, 1, 5, 2)));
    assert_eq!(taken.stale, [Rect::at(0, 1, 5, 2), Rect::at(40, 1, 5, 1)].into_iter().collect());
    assert_eq!(sent(&mut delivery).len(), 2, "the last row, and the COPY");
    assert_eq!(delivery.ledger.unsent_len(), 0);
}

#[test]
fn a_job_is_applied_with_its_last_part_and_discarded_once_a_part_is_withdrawn() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    delivery.ledger.outcomes.want();
    let outcomes = |delivery: &mut Delivery| {
        std::iter::from_fn(|| delivery.ledger.outcomes.poll()).collect::<Vec<_>>()
    };
    let (whole, cut, equal) = (
        commit(&mut delivery, 0, Lane::Normal, false),
        commit(&mut delivery, 20, Lane::Normal, false),
        commit(&mut delivery, 40, Lane::Normal, false),
    );
    encode(&mut delivery, whole, 0, 3);
    encode(&mut delivery, cut, 20, 3);
    assert!(delivery.ledger.encoded(equal).is_err());
    assert_eq!(outcomes(&mut delivery), [(equal, JobOutcome::Applied)], "nothing had to be sent");
    while delivery.ledger.unsent.iter().any(|update| update.id == whole) {
        send(&mut delivery, 0).expect("it may be sent");
    }
    delivery.applied(&(1..=2), true, 0);
    assert_eq!(outcomes(&mut delivery), [], "its last part is in flight");
    // One part of the other was sent when the rest is redrawn.
    send(&mut delivery, 0).expect("it may be sent");
    delivery.ledger.withdraw(&Region::from(SCREEN), Micros::MAX).expect("two parts wait");
    assert_eq!(outcomes(&mut delivery), [(cut, JobOutcome::Discarded)]);
    let newest = delivery.ledger.newest_seq;
    delivery.applied(&(3..=newest), true, 0);
    assert_eq!(
        outcomes(&mut delivery),
        [(whole, JobOutcome::Applied)],
        "a discarded job is reported once"
    );
    let reset = commit(&mut delivery, 60, Lane::Normal, false);
    delivery.ledger.reset();
    assert_eq!(outcomes(&mut delivery), [(reset, JobOutcome::Discarded)]);
}

#[test]
fn the_estimate_of_the_unsent_bytes_follows_the_packed_parts() {
    let mut delivery = Delivery::new(Scheduling::default(), 0);
    let region = Region::from(Rect::new(0, 0, 100, 10));
    // The average of its kind packs into a fifth, and this one into a half.
    let commit = Commit { packed: 0.2, ..commit_of(region, vec![], Lane::Normal, true) };
    let job = delivery.ledger.commit(commit, 0);
    let mut commands = Commands::default();
    for y in 0..8 {
        let rect = Rect::at(0, y, 100, 1);
        Command::Raw { rect, encoding: Encoding::Plain, data: &[7; 300] }.append_to(&mut commands);
    }
    let bytes = PartBytes { wanted: 80, most: 1000 };
    assert!(delivery.ledger.encoding(job, &commands, bytes));
    delivery.ledger.encoded(job).unwrap();
    let all = commands.as_bytes().len() as u64;
    assert_eq!(delivery.ledger.bytes_left(), all.div_ceil(5));
    let mut left = 0;
    for _ in 0..4 {
        let at = delivery.ledger.next(0).unwrap();
        delivery.send(at, false, false, 0, |outgoing, _| {
            left += outgoing.commands.len() as u64;
            let commands = outgoing.commands.len() as u64 / 2;
            Written { commands, message: commands }
        });
    }
    let half = (all - left) as f64 / 2.0;
    let off = delivery.ledger.bytes_left() as f64 / half;
    assert!((0.9..=1.1).contains(&off), "{} of {half}", delivery.ledger.bytes_left());
}
