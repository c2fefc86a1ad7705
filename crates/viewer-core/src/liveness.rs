//! Path back: beside viewer.rs; whether the session answers, and what is done about a connection on
//! which it does not. From what was sent and received, to the probes that viewer.rs sends, and to
//! the shell, which tells the person, opens other connections, or closes this one. Knows times;
//! never transports, nor a clock.

use thinc_protocol::Micros;

/// 0.1 s: if nothing arrives within a round trip and this after an input, a probe is sent.
const ECHO_TIMEOUT: Micros = 100_000;
/// 0.17 s beyond two round trips after an input: by then a retransmitted answer has arrived on a
/// lossy path; a person learns of an outage after about 0.2 s.
const ANSWER_TIMEOUT: Micros = 170_000;
/// 1.5 s where no input waits for an answer: a queue that somebody else has filled answers by then,
/// and nobody is told of it (doc/experiments/056).
const UNAWAITED_TIMEOUT: Micros = 1_500_000;
/// 1 s: assumed before a round trip is measured, and the maximum: one measured across an outage is
/// meaningless, and a satellite's takes 0.6 s.
const ROUND_TRIP_MAX: Micros = 1_000_000;
/// 0.2 s: interval of probes to an unresponsive session: when the path works again, a new probe
/// finds out soonest.
const PROBE_INTERVAL: Micros = 200_000;
/// 5 s: if pixels have arrived and then nothing for so long, the session is probed once: a person
/// may be watching a picture that stands still because the path is gone.
const WATCH_INTERVAL: Micros = 5_000_000;
/// 20 s: the same where nothing was to arrive, and the transport has no keepalive.
const IDLE_INTERVAL: Micros = 20_000_000;
/// 0.5 s: where a lost packet delays the probes behind it, as over TCP, other connections are tried
/// beside an unresponsive one after this time.
const REPLACE_AFTER_ORDERED: Micros = 500_000;
/// 2 s: where each probe is a packet of its own, as over QUIC, the old connection recovers as soon
/// as a new one would, and only a path that is gone is worth another.
const REPLACE_AFTER: Micros = 2_000_000;
/// 5 s without an answer: the connection is closed. Longer than a change of networks and than
/// outages that a path recovers from, short enough that nobody types a sentence into it.
const UNRESPONSIVE_MAX: Micros = 5_000_000;
/// 2 s: the same after the machine has slept or changed its network; the connection is most likely
/// lost, and the person waits.
const UNRESPONSIVE_MAX_AFTER_WAKE: Micros = 2_000_000;
/// 10 s: an open connection on which no session answers the hello for this time leads to none.
const HELLO_MAX: Micros = 10_000_000;
/// 5 s: the same for one that took the place of another, which worked. As long as for any
/// connection that does not answer.
pub const REPLACED_HELLO_MAX: Micros = UNRESPONSIVE_MAX;
/// 1 s: a deadline that is noticed so late was not waited for: this program did not run, and what
/// has arrived meanwhile was not read.
const LATE_MAX: Micros = 1_000_000;

/// Whether the session answers, and what a shell does about it. Each includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Liveness {
    /// It answers, or owes no answer.
    #[default]
    Responsive,
    /// It owes an answer, and the path may be gone: the person is told.
    Unresponsive,
    /// Other connections are tried beside this one; the first that opens takes its place.
    Replaceable,
    /// The connection is closed.
    Dead,
}

/// What is outstanding on the connection, as the viewer knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outstanding {
    /// The session has answered the hello.
    pub(crate) greeted: bool,
    /// When the oldest and the newest unanswered ping were sent.
    pub(crate) pings: Option<(Micros, Micros)>,
    /// Another ping may be sent.
    pub(crate) may_ping: bool,
    /// The shortest of the last round trips, which excludes queueing delay.
    pub(crate) round_trip: Option<Micros>,
}

/// Watches one connection.
#[derive(Debug, Default)]
pub(crate) struct LivenessWatch {
    liveness: Liveness,
    /// Nothing that was due before this counts: something arrived then, or the machine woke up.
    since: Micros,
    /// When the first input was made since anything last arrived.
    input_at: Option<Micros>,
    /// The picture has changed, and no probe was sent because it changes no more.
    is_watched: bool,
    /// The machine has slept since anything arrived.
    woke: bool,
    /// A lost packet delays those behind it.
    is_ordered: bool,
    /// The transport has no keepalive, and the person sees the picture.
    probes_idle: bool,
    /// By when the session has to answer the hello.
    hello_until: Option<Micros>,
}

impl LivenessWatch {
    pub(crate) fn new(is_ordered: bool) -> LivenessWatch {
        LivenessWatch { is_ordered, ..LivenessWatch::default() }
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// The connection is open, and the hello is sent; `replaces`: another one worked until then.
    pub(crate) fn handle_opened(&mut self, replaces: bool, now: Micros) {
        self.since = now;
        self.hello_until = Some(now + if replaces { REPLACED_HELLO_MAX } else { HELLO_MAX });
    }

    /// Whether an idle connection is probed.
    pub(crate) fn set_idle_probes(&mut self, on: bool) {
        self.probes_idle = on;
    }

    /// Something arrived.
    pub(crate) fn handle_received(&mut self, now: Micros) {
        self.liveness = Liveness::Responsive;
        self.since = now;
        self.input_at = None;
        self.woke = false;
    }

    /// What arrived changed the picture.
    pub(crate) fn handle_update(&mut self) {
        self.is_watched = true;
    }

    /// An input was sent that the person expects to see the effect of.
    pub(crate) fn handle_input(&mut self, now: Micros) {
        self.input_at.get_or_insert(now);
    }

    /// The machine has slept, or has another network: a probe is due, and is waited for less long.
    pub(crate) fn handle_wake(&mut self, now: Micros) {
        self.since = now;
        self.woke = true;
    }

    /// Since when an answer is due and nothing has arrived; a live session answers within a round
    /// trip.
    pub(crate) fn unanswered_since(&self, outstanding: &Outstanding) -> Option<Micros> {
        let (asked, _) = outstanding.pings?;
        Some(self.input_at.map_or(asked, |input_at| input_at.min(asked)).max(self.since))
    }

    /// When the session is unresponsive, when other connections are tried, and when this one ends.
    fn stages(&self, outstanding: &Outstanding) -> Option<[(Micros, Liveness); 3]> {
        let since = self.unanswered_since(outstanding)?;
        let round_trip = outstanding.round_trip.unwrap_or(ROUND_TRIP_MAX).min(ROUND_TRIP_MAX);
        let answer = 2 * round_trip + ANSWER_TIMEOUT;
        let (asked, _) = outstanding.pings?;
        let unawaited = if self.woke { answer } else { answer.max(UNAWAITED_TIMEOUT) };
        let awaited = self.input_at.map(|input_at| input_at.max(self.since) + answer);
        let begins = awaited.into_iter().fold(asked.max(self.since) + unawaited, Micros::min);
        let replace_after = if self.is_ordered { REPLACE_AFTER_ORDERED } else { REPLACE_AFTER };
        let longest = if self.woke { UNRESPONSIVE_MAX_AFTER_WAKE } else { UNRESPONSIVE_MAX };
        Some([
            (begins, Liveness::Unresponsive),
            (begins + replace_after, Liveness::Replaceable),
            (since + longest, Liveness::Dead),
        ])
    }

    /// When a probe is due.
    fn probe_at(&self, outstanding: &Outstanding) -> Option<Micros> {
        if !outstanding.greeted || !outstanding.may_ping || self.liveness == Liveness::Dead {
            return None;
        }
        let Some((_, newest)) = outstanding.pings else {
            let round_trip = outstanding.round_trip.unwrap_or(0);
            let echo = self.input_at.map(|input_at| input_at + round_trip + ECHO_TIMEOUT);
            let watched = self.is_watched.then_some(self.since + WATCH_INTERVAL);
            let idle = self.probes_idle.then_some(self.since + IDLE_INTERVAL);
            return echo.into_iter().chain(watched).chain(idle).min();
        };
        let [(begins, _), ..] = self.stages(outstanding)?;
        Some(if newest < begins { begins } else { newest + PROBE_INTERVAL })
    }

    /// When [`LivenessWatch::handle_timeout`] is due.
    pub(crate) fn deadline(&self, outstanding: &Outstanding) -> Option<Micros> {
        let hello = self.hello_until.filter(|_| !outstanding.greeted);
        let hello = hello.map(|until| (until, Liveness::Dead));
        let stages = self.stages(outstanding).into_iter().flatten().chain(hello);
        stages
            .filter(|&(_, liveness)| liveness > self.liveness)
            .map(|(at, _)| at)
            .chain(self.probe_at(outstanding))
            .min()
    }

    /// A deadline may have passed. True if a probe is due.
    pub(crate) fn handle_timeout(&mut self, outstanding: &Outstanding, now: Micros) -> bool {
        if self.deadline(outstanding).is_some_and(|at| at + LATE_MAX < now) {
            // Counted from now on, and asked again.
            self.since = now;
            self.hello_until = self.hello_until.map(|until| until.max(now + LATE_MAX));
            return outstanding.greeted && outstanding.may_ping;
        }
        let is_probe_due = self.probe_at(outstanding).is_some_and(|at| at <= now);
        self.is_watched &= !is_probe_due || outstanding.pings.is_some();
        if self.hello_until.is_some_and(|until| until <= now) && !outstanding.greeted {
            self.liveness = Liveness::Dead;
        }
        for (at, liveness) in self.stages(outstanding).into_iter().flatten() {
            if at <= now {
                self.liveness = self.liveness.max(liveness);
            }
        }
        is_probe_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;
    const ROUND_TRIP: Micros = 66_000;

    /// A greeted connection on which nothing is unanswered.
    const ANSWERED: Outstanding =
        Outstanding { greeted: true, pings: None, may_ping: true, round_trip: Some(ROUND_TRIP) };

    fn asked(at: Micros) -> Outstanding {
        Outstanding { pings: Some((at, at)), ..ANSWERED }
    }

    fn watch() -> LivenessWatch {
        let mut watch = LivenessWatch::new(true);
        watch.handle_received(SECOND);
        watch
    }

    /// Lets time pass as viewer.rs does, up to `end`: when probes were sent, and when the liveness
    /// changed to what.
    fn run(
        watch: &mut LivenessWatch,
        outstanding: &mut Outstanding,
        end: Micros,
    ) -> (Vec<Micros>, Vec<(Micros, Liveness)>) {
        let (mut probes, mut changes) = (Vec::new(), Vec::new());
        while let Some(at) = watch.deadline(outstanding).filter(|&at| at <= end) {
            let before = watch.liveness();
            if watch.handle_timeout(outstanding, at) {
                probes.push(at);
                let oldest = outstanding.pings.map_or(at, |(oldest, _)| oldest);
                outstanding.pings = Some((oldest, at));
            }
            if watch.liveness() != before {
                changes.push((at, watch.liveness()));
            }
            assert!(watch.deadline(outstanding).is_none_or(|next| next > at), "time goes on");
        }
        (probes, changes)
    }

    #[test]
    fn an_input_without_an_answer_is_probed_reported_and_then_ends_the_connection() {
        let (mut watch, mut outstanding) = (watch(), ANSWERED);
        watch.handle_input(2 * SECOND);
        watch.handle_input(2 * SECOND + 50_000);
        let (probes, changes) = run(&mut watch, &mut outstanding, 9 * SECOND);
        assert_eq!(
            changes,
            [
                (2_302_000, Liveness::Unresponsive),
                (2_802_000, Liveness::Replaceable),
                (7_000_000, Liveness::Dead),
            ]
        );
        assert_eq!(probes[..4], [2_166_000, 2_302_000, 2_502_000, 2_702_000]);
        assert_eq!(probes.last(), Some(&6_902_000), "until it ends");
        watch.handle_received(9 * SECOND);
        assert_eq!(watch.liveness(), Liveness::Responsive);
        assert_eq!(watch.deadline(&ANSWERED), None);
    }

    #[test]
    fn other_connections_are_tried_later_where_no_packet_waits_for_another() {
        let (mut watch, mut outstanding) = (LivenessWatch::new(false), asked(0));
        let (_, changes) = run(&mut watch, &mut outstanding, 9 * SECOND);
        assert_eq!(changes[1], (UNAWAITED_TIMEOUT + REPLACE_AFTER, Liveness::Replaceable));
    }

    #[test]
    fn what_nobody_waits_for_is_waited_for_longer() {
        let (mut watch, mut outstanding) = (watch(), asked(2 * SECOND));
        let (_, changes) = run(&mut watch, &mut outstanding, 3_600_000);
        assert_eq!(changes, [(3_500_000, Liveness::Unresponsive)]);
        // Whatever arrives moves the deadline: the answer is behind it.
        watch.handle_received(4 * SECOND);
        // A person waits for the input only, not since the ping.
        watch.handle_input(4_200_000);
        let (_, changes) = run(&mut watch, &mut outstanding, 4_600_000);
        assert_eq!(changes, [(4_502_000, Liveness::Unresponsive)]);
    }

    #[test]
    fn a_round_trip_that_is_unknown_or_was_an_outage_counts_as_a_second() {
        for round_trip in [None, Some(30 * SECOND)] {
            let (mut watch, mut outstanding) =
                (watch(), Outstanding { round_trip, ..asked(2 * SECOND) });
            let (_, changes) = run(&mut watch, &mut outstanding, 9 * SECOND);
            assert_eq!(changes[0], (2 * SECOND + 2_170_000, Liveness::Unresponsive));
        }
    }

    #[test]
    fn a_picture_that_stands_still_is_probed_once() {
        let (mut watch, mut outstanding) = (watch(), ANSWERED);
        assert_eq!(run(&mut watch, &mut outstanding, 90 * SECOND).0, [], "nothing was to arrive");
        watch.handle_received(100 * SECOND);
        watch.handle_update();
        // A pong or a path probe behind it.
        watch.handle_received(100 * SECOND);
        let (probes, changes) = run(&mut watch, &mut outstanding, 106_600_000);
        assert_eq!(probes[0], 105_000_000);
        assert_eq!(changes, [(106_500_000, Liveness::Unresponsive)]);
        watch.handle_received(107 * SECOND);
        assert_eq!(watch.deadline(&ANSWERED), None, "the answer changes no picture");
    }

    #[test]
    fn an_idle_connection_is_probed_where_its_transport_does_not() {
        let mut watch = watch();
        watch.set_idle_probes(true);
        assert_eq!(watch.deadline(&ANSWERED), Some(21 * SECOND));
        watch.set_idle_probes(false);
        assert_eq!(watch.deadline(&ANSWERED), None);
    }

    #[test]
    fn after_a_sleep_the_connection_ends_sooner_and_counts_from_the_awakening() {
        let (mut watch, mut outstanding) = (watch(), asked(SECOND));
        watch.handle_wake(500 * SECOND);
        let (_, changes) = run(&mut watch, &mut outstanding, 509 * SECOND);
        assert_eq!(changes[0], (500_302_000, Liveness::Unresponsive));
        assert_eq!(changes.last(), Some(&(502_000_000, Liveness::Dead)));
        watch.handle_received(510 * SECOND);
        let mut outstanding = asked(511 * SECOND);
        let (_, changes) = run(&mut watch, &mut outstanding, 519 * SECOND);
        assert_eq!(changes.last(), Some(&(516_000_000, Liveness::Dead)));
    }

    #[test]
    fn a_program_that_did_not_run_asks_again_before_it_decides() {
        let (mut watch, outstanding) = (watch(), asked(2 * SECOND));
        assert!(watch.handle_timeout(&outstanding, 60 * SECOND), "a probe is due");
        assert_eq!(watch.liveness(), Liveness::Responsive);
        let mut outstanding = Outstanding { pings: Some((2 * SECOND, 60 * SECOND)), ..outstanding };
        let (_, changes) = run(&mut watch, &mut outstanding, 69 * SECOND);
        assert_eq!(changes[0], (61_500_000, Liveness::Unresponsive));
        assert_eq!(changes.last(), Some(&(65 * SECOND, Liveness::Dead)));
    }

    #[test]
    fn a_hello_has_to_be_answered() {
        for (replaces, limit) in [(false, 10), (true, 5)] {
            let mut watch = LivenessWatch::new(true);
            watch.handle_opened(replaces, SECOND);
            let waiting = Outstanding::default();
            assert_eq!(watch.deadline(&waiting), Some((1 + limit) * SECOND));
            assert!(!watch.handle_timeout(&waiting, (1 + limit) * SECOND), "nothing to ask yet");
            assert_eq!(watch.liveness(), Liveness::Dead);
            assert_eq!(watch.deadline(&ANSWERED), None, "it was answered");
        }
    }

    #[test]
    fn without_room_for_a_ping_time_goes_on() {
        let (mut watch, mut outstanding) =
            (watch(), Outstanding { may_ping: false, ..asked(2 * SECOND) });
        let (probes, changes) = run(&mut watch, &mut outstanding, 9 * SECOND);
        assert_eq!((probes.len(), changes.len()), (0, 3));
    }
}
