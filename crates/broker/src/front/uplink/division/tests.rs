//! Inside division.rs: viewers on virtual time, of which every byte is known.

use super::*;

/// 20 Mbit/s.
const UPLINK: u64 = 2_500_000;
/// What is sent of it.
const LINK: u64 = UPLINK / 100 * LINK_PERCENT;
const SECOND: u64 = 1_000_000;
/// Between two looks at the time: less than any packet takes.
const STEP: u64 = 100;

/// What a viewer has to send.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    Nothing,
    /// All that it may, as a session does that ignores what it is told.
    All,
    /// As much as it is told.
    ItsShare,
    /// So many bytes each time, so many microseconds apart.
    Every(u64, u64),
}

struct Host {
    division: Division,
    now: u64,
    viewers: Vec<(u64, Sends, Source)>,
    /// When, of which viewer, and how many bytes of packets.
    sent: Vec<(u64, u64, u64)>,
}

/// What a viewer's session does.
#[derive(Clone, Copy, Default)]
struct Source {
    /// Since when bytes wait.
    waits_since: Option<u64>,
    waits: u64,
    next_at: u64,
    /// The longest that any waited.
    waited_max: u64,
}

impl Host {
    fn new(rates: Rates) -> Host {
        let division = Division::new(rates, 0);
        Host { division, now: 0, viewers: Vec::new(), sent: Vec::new() }
    }

    fn with_uplink() -> Host {
        Host::new(Rates { uplink: Some(UPLINK), session: None })
    }

    fn enter(&mut self, viewer: u64, desktop: &str, sends: Sends) {
        self.division.enter(viewer, "anna", desktop, self.now);
        self.viewers.push((viewer, sends, Source::default()));
    }

    fn set(&mut self, viewer: u64, sends: Sends) {
        let one = self.viewers.iter_mut().find(|one| one.0 == viewer).unwrap();
        (one.1, one.2.next_at) = (sends, self.now);
    }

    fn run(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            let Host { division, now, viewers, sent } = self;
            while let Some(next) = division.poll(*now) {
                let (_, _, source) = viewers.iter_mut().find(|one| one.0 == next).unwrap();
                let since = source.waits_since.take().expect("only who waits is named");
                source.waited_max = source.waited_max.max(*now - since);
                sent.push((*now, next, wire_bytes(source.waits)));
            }
            if let Some(deadline) = division.deadline() {
                assert!(deadline > *now, "who can go was named");
            }
            for (viewer, sends, source) in viewers.iter_mut() {
                if source.waits_since.is_some() || *now < source.next_at {
                    continue;
                }
                let read = division.read_bytes() as u64;
                let bytes = match *sends {
                    Sends::Nothing => continue,
                    Sends::All => read,
                    Sends::ItsShare => {
                        let bytes = read.min(4_000);
                        let share = division.share(*viewer);
                        source.next_at =
                            source.next_at.max(*now) + wire_bytes(bytes) * SECOND / share;
                        bytes
                    }
                    Sends::Every(bytes, interval) => {
                        source.next_at += interval;
                        bytes
                    }
                };
                if division.ask(*viewer, bytes, *now) {
                    sent.push((*now, *viewer, wire_bytes(bytes)));
                } else {
                    (source.waits_since, source.waits) = (Some(*now), bytes);
                }
            }
        }
    }

    /// Bytes of packets of a viewer from this moment on.
    fn bytes(&self, viewer: u64, from: u64) -> u64 {
        self.sent.iter().filter(|one| one.0 > from && one.1 == viewer).map(|one| one.2).sum()
    }

    fn waited_max(&self, viewer: u64) -> u64 {
        self.viewers.iter().find(|one| one.0 == viewer).unwrap().2.waited_max
    }

    /// The most that was sent within any so long time.
    fn most_within(&self, time: u64) -> u64 {
        let (mut first, mut within, mut most) = (0, 0, 0);
        for &(at, _, bytes) in &self.sent {
            within += bytes;
            while self.sent[first].0 + time <= at {
                within -= self.sent[first].2;
                first += 1;
            }
            most = most.max(within);
        }
        most
    }
}

fn is_near(bytes: u64, expected: u64) -> bool {
    bytes.abs_diff(expected) <= expected / 20
}

#[test]
fn an_echo_is_sent_at_once_while_others_fill_the_link() {
    for greed in [Sends::All, Sends::ItsShare] {
        let mut host = Host::with_uplink();
        for viewer in 1..=19 {
            host.enter(viewer, &format!("desk{viewer}"), greed);
        }
        host.enter(20, "typed into", Sends::Every(300, 50_000));
        host.run(2 * SECOND);
        assert_eq!(host.waited_max(20), 0);
        assert!(host.bytes(20, 0) > 30 * 300);
        let others: u64 = (1..=19).map(|viewer| host.bytes(viewer, SECOND)).sum();
        assert!(others > LINK / 100 * 90, "{others} bytes a second: the link was full");
    }
}

#[test]
fn a_screen_that_is_drawn_again_waits_for_no_more_than_its_fair_part() {
    let mut host = Host::with_uplink();
    (1..=4).for_each(|viewer| host.enter(viewer, &format!("desk{viewer}"), Sends::All));
    host.enter(5, "idle", Sends::Nothing);
    host.run(SECOND);
    let began = host.now;
    host.set(5, Sends::All);
    host.run(SECOND / 2);
    let bytes = host.bytes(5, began);
    assert!(is_near(bytes, LINK / 10), "{bytes} of {LINK} bytes in half a second");
}

#[test]
fn greedy_desktops_get_the_same_whether_they_do_as_they_are_told_or_not() {
    let mut host = Host::with_uplink();
    (1..=3).for_each(|viewer| host.enter(viewer, &format!("desk{viewer}"), Sends::ItsShare));
    (4..=6).for_each(|viewer| host.enter(viewer, &format!("desk{viewer}"), Sends::All));
    host.run(SECOND);
    host.run(2 * SECOND);
    for viewer in 1..=6 {
        let bytes = host.bytes(viewer, SECOND);
        assert!(is_near(bytes, LINK / 3), "viewer {viewer}: {bytes} bytes in two seconds");
    }
}

#[test]
fn what_one_does_not_use_is_for_the_others() {
    let mut host = Host::with_uplink();
    host.enter(1, "half a share", Sends::Every(5_000, 12_000));
    host.enter(2, "desk2", Sends::ItsShare);
    host.enter(3, "desk3", Sends::ItsShare);
    host.run(SECOND);
    host.run(2 * SECOND);
    let used = host.bytes(1, SECOND);
    assert!(is_near(used, 2 * wire_bytes(5_000) * SECOND / 12_000), "{used}");
    for viewer in [2, 3] {
        let bytes = host.bytes(viewer, SECOND);
        let rest = (2 * LINK - used) / 2;
        assert!(bytes > rest / 100 * 85 && bytes <= rest, "viewer {viewer}: {bytes} of {rest}");
    }
}

#[test]
fn a_desktop_with_two_viewers_gets_one_share_and_each_of_them_half_of_it() {
    for greed in [Sends::All, Sends::ItsShare] {
        let mut host = Host::with_uplink();
        host.enter(1, "shared", greed);
        host.enter(2, "shared", greed);
        host.enter(3, "own", greed);
        host.run(SECOND);
        host.run(2 * SECOND);
        for (viewer, part) in [(1, 4), (2, 4), (3, 2)] {
            let bytes = host.bytes(viewer, SECOND);
            assert!(is_near(bytes, 2 * LINK / part), "viewer {viewer}: {bytes} bytes");
        }
    }
}

#[test]
fn never_is_more_sent_within_100_ms_than_the_uplink_carries() {
    for greed in [Sends::All, Sends::ItsShare] {
        let mut host = Host::with_uplink();
        (1..=10).for_each(|viewer| host.enter(viewer, &format!("desk{viewer}"), greed));
        for viewer in 11..=30 {
            let sends = Sends::Every(400, 20_000 + 1_000 * viewer);
            host.enter(viewer, &format!("desk{viewer}"), sends);
        }
        for round in 0..10 {
            host.run(SECOND / 5);
            // Half of them stop, and begin again at once.
            let sends = if round % 2 == 0 { Sends::Nothing } else { greed };
            (1..=5).for_each(|viewer| host.set(viewer, sends));
        }
        let most = host.most_within(SECOND / 10);
        assert!(most <= UPLINK / 10, "{most} bytes in 100 ms");
    }
}

#[test]
fn a_demand_that_ends_or_begins_is_followed_within_a_quarter_of_a_second() {
    let mut host = Host::with_uplink();
    host.enter(1, "desk1", Sends::ItsShare);
    host.enter(2, "desk2", Sends::ItsShare);
    host.run(SECOND);
    assert!(is_near(host.division.share(1), LINK / 2), "{}", host.division.share(1));
    host.set(2, Sends::Nothing);
    host.run(SECOND / 4);
    assert!(is_near(host.division.share(1), LINK), "{}", host.division.share(1));
    host.set(2, Sends::ItsShare);
    host.run(SECOND / 4);
    for viewer in [1, 2] {
        assert!(is_near(host.division.share(viewer), LINK / 2), "{}", host.division.share(viewer));
    }
    host.division.leave(2);
    assert!(is_near(host.division.share(1), LINK) && host.division.take_changed());
}

#[test]
fn a_desktop_has_no_more_than_each_may_have() {
    for uplink in [None, Some(UPLINK)] {
        let mut host = Host::new(Rates { uplink, session: Some(UPLINK / 10) });
        host.enter(1, "desk1", Sends::All);
        host.enter(2, "desk2", Sends::All);
        host.enter(3, "desk2", Sends::All);
        host.run(2 * SECOND);
        let of_two = host.bytes(2, 0) + host.bytes(3, 0);
        for bytes in [host.bytes(1, 0), of_two] {
            assert!(is_near(bytes, UPLINK / 5), "{bytes} bytes in two seconds");
        }
    }
}

#[test]
fn without_bytes_that_wait_there_is_no_deadline() {
    let mut host = Host::with_uplink();
    host.enter(1, "desk1", Sends::All);
    host.run(SECOND / 10);
    assert!(host.division.deadline().is_some(), "its next bytes wait");
    host.division.leave(1);
    assert_eq!((host.division.deadline(), host.division.poll(host.now + SECOND)), (None, None));
    assert!(host.division.ask(1, 1 << 30, host.now), "who has left is not held");
}

#[test]
fn a_datagram_is_lost_only_of_a_desktop_that_has_sent_far_too_many() {
    let mut host = Host::with_uplink();
    host.enter(1, "floods", Sends::Nothing);
    host.enter(2, "plays sound", Sends::Nothing);
    host.run(1_000);
    let now = host.now;
    let admitted = (0..1_000).filter(|_| host.division.admits_datagram(1, 1_200, now)).count();
    let bytes = admitted as u64 * wire_bytes(1_200);
    let most = LINK * DATAGRAM_AHEAD_MAX / SECOND + 2 * wire_bytes(1_200);
    assert!(bytes > DATAGRAM_BYTES_MAX && bytes <= most, "{bytes} bytes at once");
    assert!(host.division.admits_datagram(2, 1_200, now));
    // Once the link is idle, what was sent on it before counts no more.
    let now = now + SECOND;
    assert!((0..10).all(|_| host.division.admits_datagram(1, 1_200, now)));
}

#[test]
fn a_flood_of_datagrams_holds_up_nobody_else() {
    let mut host = Host::with_uplink();
    host.enter(1, "flood", Sends::Nothing);
    host.enter(2, "shown", Sends::All);
    let (mut lost, mut went) = (0, 0);
    for _ in 0..SECOND / STEP {
        host.run(STEP);
        // Ten times what the link carries, the half of it empty.
        for bytes in [1_200, 1_200, 0, 0] {
            match host.division.admits_datagram(1, bytes, host.now) {
                true => went += wire_bytes(bytes.max(1)),
                false => lost += 1,
            }
        }
    }
    assert!(lost > 0);
    let shown = host.bytes(2, SECOND / 2);
    assert!(shown > LINK / 2 / 100 * 45, "{shown} bytes of half a second, and {went} of the flood");
}

#[test]
fn a_slow_desktop_loses_no_input_response() {
    // 500 kbit/s.
    let mut host = Host::new(Rates { uplink: None, session: Some(62_500) });
    host.enter(1, "desk", Sends::ItsShare);
    for _ in 0..20 {
        host.run(SECOND / 10);
        assert!((0..4).all(|_| host.division.admits_datagram(1, 1_200, host.now)));
    }
}
