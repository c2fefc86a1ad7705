//! Inside flow.rs: one path at a time, of which every byte is known.

use std::collections::VecDeque;
use std::iter;

use super::*;

/// 10 Mbit/s and 40 ms.
const RATE: u64 = 1_250_000;
const RTT: Micros = 40_000;

/// A path that carries data at its rate, and acknowledges an update once all of it has arrived.
struct TestPath {
    flow: Flow,
    now: Micros,
    free_at: Micros,
    /// In flight, and when each is acknowledged.
    queue: VecDeque<(Micros, Transmission)>,
    delivered: u64,
    reports: bool,
}

impl TestPath {
    fn new(reports: bool) -> TestPath {
        let queue = VecDeque::new();
        TestPath { flow: Flow::new(0), now: 0, free_at: 0, queue, delivered: 0, reports }
    }

    fn report(&mut self) {
        let unacknowledged = self.queue.iter().map(|(_, transmission)| transmission.bytes).sum();
        let rtt = RTT + self.free_at.saturating_sub(self.now);
        let stats = PathStats {
            unacknowledged,
            delivered: self.delivered,
            window: 200_000,
            rate: 0,
            rtt,
            rtt_min: RTT,
            share: None,
        };
        self.flow.handle_path(self.reports.then_some(stats));
    }

    fn send(&mut self, bytes: u64, more: bool) {
        let transmission = self.flow.sent(bytes, more, self.now);
        self.free_at = self.free_at.max(self.now) + bytes * 1_000_000 / RATE;
        self.queue.push_back((self.free_at + RTT, transmission));
    }

    /// Time passes until `end`; an update is sent whenever there is room.
    fn saturate(&mut self, end: Micros) {
        while self.now < end {
            self.report();
            while self.flow.may_send(self.flow.update_bytes(), self.now) {
                self.send(self.flow.update_bytes(), true);
            }
            self.now += 100;
            self.arrive();
        }
    }

    fn arrive(&mut self) {
        while let Some((at, transmission)) = self.queue.pop_front_if(|(at, _)| *at <= self.now) {
            self.delivered += transmission.bytes;
            self.now = at.max(self.now);
            self.report();
            self.flow.applied(iter::once(transmission), self.now);
            self.flow.check_invariants(self.queue.iter().map(|(_, transmission)| transmission));
        }
    }

    /// Until everything is acknowledged.
    fn rest(&mut self) {
        while !self.queue.is_empty() {
            self.now += 100;
            self.arrive();
        }
    }
}

#[test]
fn a_full_path_carries_its_delay_and_a_short_queue() {
    for reports in [true, false] {
        let mut path = TestPath::new(reports);
        path.saturate(2_000_000);
        let rate = path.flow.rate();
        assert!(rate.abs_diff(RATE) < RATE / 10, "{rate} B/s, path statistics {reports}");
        let most = rate * (RTT + 2 * QUEUE_TIME) / 1_000_000;
        assert!(
            path.flow.budget() <= most,
            "{} bytes in flight, path statistics {reports}",
            path.flow.budget()
        );
        let queue = path.free_at - path.now;
        assert!(queue <= QUEUE_TIME * 2, "a queue of {queue} us, path statistics {reports}");
    }
}

#[test]
fn keystrokes_do_not_lower_the_rate_estimate() {
    let mut path = TestPath::new(true);
    path.saturate(2_000_000);
    path.rest();
    for _ in 0..40 {
        path.report();
        path.send(300, false);
        path.rest();
    }
    let rate = path.flow.rate();
    assert!(rate > RATE * 9 / 10, "after 40 keys the path seems to carry {rate} B/s");
}

#[test]
fn after_a_pause_the_path_is_filled_no_faster_than_it_drains() {
    let mut path = TestPath::new(true);
    path.saturate(2_000_000);
    path.rest();
    path.now += 1_000_000;
    path.report();
    let mut burst = 0;
    while path.flow.may_send(path.flow.update_bytes(), path.now) {
        burst += path.flow.update_bytes();
        path.send(path.flow.update_bytes(), true);
    }
    assert!(burst > 0 && burst <= 2 * RATE * QUEUE_TIME / 1_000_000, "{burst} bytes at once");
    let next =
        path.flow.room_at(path.now).expect("the next update does not wait for an acknowledgement");
    assert!(next > path.now && next <= path.now + QUEUE_TIME, "{} us later", next - path.now);
    assert!(path.flow.room(next + 1) >= path.flow.update_bytes(), "then there is room for it");
}

#[test]
fn a_new_path_is_handed_one_congestion_window() {
    let mut flow = Flow::new(0);
    let stats = PathStats {
        unacknowledged: 0,
        delivered: 5_000,
        window: 600_000,
        rate: 0,
        rtt: 66_000,
        rtt_min: 66_000,
        share: None,
    };
    flow.handle_path(Some(stats));
    assert!(flow.room(0) >= 600_000);
    flow.handle_path(Some(PathStats { unacknowledged: 590_000, ..stats }));
    assert!(flow.room(0) <= 10_000 + UPDATE_BYTES_INITIAL);
}

#[test]
fn data_behind_a_lost_packet_does_not_lower_the_budget_if_packets_are_counted() {
    for counted in [true, false] {
        let mut path = TestPath::new(true);
        path.saturate(2_000_000);
        let now = path.now;
        let rate = if counted { RATE } else { 0 };
        // Ten round trips in which one update a round is applied, late, and as much again is
        // acknowledged packet by packet.
        for round in 1..=10 {
            let at = now + round * 3 * RTT;
            let unacknowledged = 10_000;
            let stats = PathStats {
                unacknowledged,
                delivered: path.delivered,
                window: 60_000,
                rate,
                rtt: RTT,
                rtt_min: RTT,
                share: None,
            };
            path.flow.handle_path(Some(stats));
            let transmission = path.flow.sent(10_000, true, at);
            path.delivered += 10_000;
            path.flow.handle_path(Some(PathStats { delivered: path.delivered, ..stats }));
            path.flow.applied(iter::once(transmission), at + 3 * RTT);
        }
        let room = path.flow.budget();
        assert_eq!(room >= 60_000, counted, "a budget of {room} bytes, packets counted: {counted}");
    }
}

#[test]
fn the_statistics_of_a_nearby_proxy_are_ignored() {
    let mut path = TestPath::new(false);
    path.saturate(2_000_000);
    let budget = path.flow.budget();
    let proxy = PathStats {
        unacknowledged: 0,
        delivered: 1 << 40,
        window: 10_000_000,
        rate: 0,
        rtt: 60,
        rtt_min: 40,
        share: None,
    };
    path.flow.handle_path(Some(proxy));
    assert_eq!(path.flow.budget(), budget);
}

#[test]
fn a_delay_that_grows_behind_a_proxy_begins_no_search() {
    let mut path = TestPath::new(false);
    path.saturate(2_000_000);
    path.rest();
    let proxy = PathStats {
        unacknowledged: 0,
        delivered: 1 << 40,
        window: 10_000_000,
        rate: 0,
        rtt: 60,
        rtt_min: 40,
        share: None,
    };
    for _ in 0..IDLE_SAMPLES {
        path.now += 1_000_000;
        path.flow.handle_path(Some(proxy));
        let transmission = path.flow.sent(300, false, path.now);
        path.now += 5 * RTT;
        path.flow.applied(iter::once(transmission), path.now);
    }
    assert!(path.flow.rtt() > 2 * RTT && path.flow.delay() > 2 * RTT, "{}", path.flow.delay());
    assert!(!path.flow.startup.is_open(), "the proxy's statistics say nothing about the path");
}

#[test]
fn a_viewer_that_never_acknowledges_fills_its_budget_once() {
    for (reports, rate, window) in [(true, 0, 200_000), (true, RATE, 60_000), (false, 0, 0)] {
        let mut path = TestPath::new(reports);
        path.saturate(2_000_000);
        let (mut sent, mut in_flight) = (0, Vec::new());
        // The kernel at its end takes everything, and the viewer acknowledges nothing.
        for step in 0..100_000 {
            let now = path.now + step * 100;
            let delivered = path.delivered + sent;
            let stats = PathStats {
                unacknowledged: 0,
                delivered,
                window,
                rate,
                rtt: RTT,
                rtt_min: RTT,
                share: None,
            };
            path.flow.handle_path(reports.then_some(stats));
            while path.flow.may_send(2_000, now) {
                in_flight.push(path.flow.sent(2_000, true, now));
                sent += 2_000;
            }
        }
        let in_flight = path.flow.in_flight();
        assert!(
            in_flight < 3 * RATE * (RTT + QUEUE_TIME) / 1_000_000,
            "path statistics {reports}, rate {rate}"
        );
        // A round trip's worth may wait for the retransmission of the one before.
        assert!(rate == 0 || in_flight >= 2 * window, "{in_flight} bytes");
    }
}

#[test]
fn under_a_limit_no_queue_is_built_and_its_rate_is_what_was_measured() {
    for reports in [true, false] {
        let mut path = TestPath::new(reports);
        path.flow.set_session_share(Some(RATE / 5));
        path.saturate(3_000_000);
        let sent = path.delivered + path.flow.in_flight();
        let most = RATE / 5 * 3 + RATE / 5 * 2 * QUEUE_TIME / 1_000_000 + BUDGET_INITIAL_BYTES;
        assert!(sent <= most, "{sent} bytes in 3 s, path statistics {reports}");
        // A twelfth or so is headers.
        assert!(sent > RATE / 5 * 5 / 2, "{sent} bytes in 3 s, path statistics {reports}");
        assert!(path.free_at <= path.now + QUEUE_TIME, "the path is idle most of the time");
        match path.flow.measured_rate() {
            RateEstimate::Measured(rate) => assert!(rate <= RATE / 5 && rate > RATE / 8, "{rate}"),
            other => panic!("{other:?}, path statistics {reports}"),
        }
        let update = path.flow.update_bytes();
        assert!(update <= (RATE / 5 * UPDATE_TIME / 1_000_000).max(UPDATE_BYTES_MIN), "{update}");
    }
}

#[test]
fn an_update_waits_for_the_limit_and_an_input_response_does_not() {
    let mut path = TestPath::new(true);
    path.saturate(1_000_000);
    path.rest();
    path.flow.set_session_share(Some(RATE / 10));
    path.report();
    while path.flow.may_send(path.flow.update_bytes(), path.now) {
        path.send(path.flow.update_bytes(), true);
    }
    path.rest();
    // All of it has arrived, and the limit would still send it.
    path.send(50_000, true);
    path.rest();
    path.report();
    assert!(!path.flow.may_send(2_000, path.now) && path.flow.may_send_real_time(path.now));
    assert!(path.flow.real_time_room(path.now) > 0);
    let at = path.flow.room_at(path.now).expect("time alone helps");
    assert!(at > path.now + 100_000, "{} us", at - path.now);
    assert!(path.flow.room(at) >= path.flow.update_bytes(), "then there is room for it");
    assert!(path.flow.queueing_delay(0, path.now) > 100_000);
}

#[test]
fn when_a_limit_rises_the_path_is_searched_again() {
    let mut path = TestPath::new(true);
    path.flow.set_session_share(Some(RATE / 10));
    path.saturate(3_000_000);
    path.flow.set_session_share(Some(2 * RATE));
    path.saturate(4_000_000);
    let rate = path.flow.rate();
    assert!(rate.abs_diff(RATE) < RATE / 10, "{rate} B/s a second later");
}

#[test]
fn a_limit_above_the_path_may_rise_without_a_search() {
    let mut path = TestPath::new(true);
    path.flow.set_session_share(Some(2 * RATE));
    path.saturate(3_000_000);
    assert!(!path.flow.startup.is_open());
    path.flow.set_session_share(Some(4 * RATE));
    assert!(!path.flow.startup.is_open(), "the path carries no more");
}

#[test]
fn a_hosts_share_is_a_limit_until_the_host_says_another() {
    let mut path = TestPath::new(true);
    let stats = PathStats {
        unacknowledged: 0,
        delivered: 0,
        window: 200_000,
        rate: 0,
        rtt: RTT,
        rtt_min: RTT,
        share: Some(RATE / 10),
    };
    path.flow.handle_path(Some(stats));
    assert_eq!(path.flow.limit.rate(), Some(RATE / 10));
    path.flow.handle_path(None);
    assert_eq!(path.flow.limit.rate(), Some(RATE / 10), "statistics that could not be read");
    path.flow.set_session_share(Some(RATE / 20));
    assert_eq!(path.flow.limit.rate(), Some(RATE / 20), "the lower one counts");
    path.flow.handle_path(Some(PathStats { share: None, ..stats }));
    path.flow.set_session_share(None);
    assert_eq!(path.flow.limit.rate(), None);
}
