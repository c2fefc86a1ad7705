//! Who waits for a desktop, in the order in which they came, and the decision for each who asks.
//! Beside the path: from system.rs, which keeps the text of it in a file for all login processes,
//! with what admission.rs says of pressure. `now` is an argument: milliseconds since the machine
//! was started. Knows user IDs and times; never a file or a clock.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::{Policy, Shortage};

/// How long somebody waits at most. Who has waited so long reads it, and decides again.
pub(crate) const WAIT_MS_MAX: u64 = 300_000;
/// Who has not asked for so long has gone: closed the page, or ended the viewer. Those who are
/// there ask every [`ASK_MS`]; a slow network and a machine under pressure take some seconds.
const GONE_MS: u64 = 20_000;
/// The kernel computes its averages every 2 s: who asks more often learns nothing.
pub(crate) const ASK_MS: u64 = 2000;
/// Between two who have waited: the averages of 10 s then have the first one's desktop in them.
const SETTLE_MS: u64 = 10_000;
/// What was decided holds for so long where nobody has asked since; then it is judged again.
const REMEMBERED_MS: u64 = 60_000;
/// Most who wait: as many as there are logins.
const WAITING_MAX: usize = 512;
/// Longest text of the file, in bytes: a line of at most 96 for each, and two more.
pub(crate) const TEXT_BYTES_MAX: usize = 96 * (WAITING_MAX + 2);

/// Somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// How many are before them.
    pub ahead: u32,
    /// Why; `None` if nothing is short any more, and they wait for their turn alone.
    pub short_of: Option<Shortage>,
}

/// For the person.
impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.short_of {
            Some(short_of) => write!(f, "This server {short_of}, ")?,
            None => f.write_str("This server starts one desktop after the other, ")?,
        }
        match self.ahead {
            0 => f.write_str("and yours is the next to start."),
            1 => f.write_str("and one person is before you."),
            ahead => write!(f, "and {ahead} people are before you."),
        }
    }
}

/// The answer for who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Admit,
    /// In words for the person.
    Refuse(String),
    Wait(Waiting),
}

/// A place in the line, known to who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    ticket: u64,
    uid: u32,
    since: u64,
    asked: u64,
}

/// What was decided last, for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Door {
    /// It is closed for this.
    short_of: Option<Shortage>,
    /// When somebody asked last.
    asked: u64,
    /// When somebody who had waited was admitted last; zero: nobody was.
    admitted: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitingLine {
    door: Door,
    /// The first comes first.
    places: Vec<Place>,
    /// Of the last one.
    ticket: u64,
    /// Since the file was made: who was refused, and who was admitted after a wait.
    pub(crate) refused: u64,
    pub(crate) waited: u64,
}

impl WaitingLine {
    /// For who waits behind others. They need no figures yet.
    pub(crate) fn behind(&mut self, ticket: Ticket, now: u64) -> Option<Waiting> {
        self.drop_gone(now);
        let at = self.places.iter().position(|place| place.ticket == ticket.0)?;
        let place = &mut self.places[at];
        if at == 0 || now - place.since >= WAIT_MS_MAX {
            return None;
        }
        place.asked = now;
        Some(Waiting { ahead: at as u32, short_of: self.door.short_of })
    }

    /// Decides for who asks now, who may have a ticket, or gets one. `shortage` says what is short;
    /// its argument is what was before.
    pub(crate) fn ask(
        &mut self,
        policy: Policy,
        ticket: &mut Option<Ticket>,
        uid: u32,
        shortage: impl FnOnce(Option<Shortage>) -> Option<Shortage>,
        now: u64,
    ) -> Decision {
        self.drop_gone(now);
        let short_of = self.judge(shortage, now);
        match (policy, short_of) {
            (Policy::Off, _) | (Policy::Refuse, None) => Decision::Admit,
            (Policy::Refuse, Some(short_of)) => self.refuse(format!(
                "This server {short_of}, and another desktop would slow down those that run. Try \
                 again in a few minutes, or end one that you do not need."
            )),
            (Policy::Queue, _) => self.queue(ticket, uid, short_of, now),
        }
    }

    fn queue(
        &mut self,
        ticket: &mut Option<Ticket>,
        uid: u32,
        short_of: Option<Shortage>,
        now: u64,
    ) -> Decision {
        // A person has one place, whichever of their logins asks. One that has gone is new again.
        let at = self.places.iter().position(|place| place.uid == uid);
        *ticket = at.map(|at| Ticket(self.places[at].ticket));
        let waited = at.map(|at| now - self.places[at].since);
        // The next in line, and what was started last has shown what it takes.
        let is_due = at.unwrap_or(self.places.len()) == 0
            && short_of.is_none()
            && (self.door.admitted == 0 || now - self.door.admitted >= SETTLE_MS);
        if is_due {
            if at.is_some() {
                self.places.remove(0);
                *ticket = None;
                self.door.admitted = now;
                self.waited += 1;
            }
            return Decision::Admit;
        }
        // Where nothing is short, it goes on one after the other.
        let is_over = waited.is_some_and(|waited| waited >= WAIT_MS_MAX);
        if let (Some(at), Some(short_of), true) = (at, short_of, is_over) {
            self.places.remove(at);
            *ticket = None;
            return self.refuse(format!(
                "You have waited for {} minutes, and this server still {short_of}. Try again \
                 later, or ask its administrator.",
                WAIT_MS_MAX / 60_000
            ));
        }
        let at = match at {
            Some(at) => {
                self.places[at].asked = now;
                at
            }
            None if self.places.len() >= WAITING_MAX => {
                return self.refuse(format!(
                    "{WAITING_MAX} people wait for a desktop on this server already. Try again \
                     later, or ask its administrator."
                ));
            }
            None => {
                self.ticket += 1;
                *ticket = Some(Ticket(self.ticket));
                self.places.push(Place { ticket: self.ticket, uid, since: now, asked: now });
                self.places.len() - 1
            }
        };
        Decision::Wait(Waiting { ahead: at as u32, short_of })
    }

    fn refuse(&mut self, text: String) -> Decision {
        self.refused += 1;
        Decision::Refuse(text)
    }

    fn judge(
        &mut self,
        shortage: impl FnOnce(Option<Shortage>) -> Option<Shortage>,
        now: u64,
    ) -> Option<Shortage> {
        let is_remembered = now - self.door.asked < REMEMBERED_MS;
        let short_of = shortage(self.door.short_of.filter(|_| is_remembered));
        self.door = Door { short_of, asked: now, ..self.door };
        short_of
    }

    /// Those who have gone, and all that is of a time that has not come: the file is older than the
    /// last start of the machine.
    fn drop_gone(&mut self, now: u64) {
        if self.door.asked > now || self.door.admitted > now {
            self.door = Door::default();
        }
        self.places.retain(|place| {
            place.since <= place.asked && place.asked <= now && now - place.asked < GONE_MS
        });
    }

    /// How many wait.
    pub(crate) fn count(&mut self, now: u64) -> u64 {
        self.drop_gone(now);
        self.places.len() as u64
    }

    /// Reads what `to_string` writes; `None` if it is anything else.
    pub(crate) fn parse(text: &str) -> Option<WaitingLine> {
        let mut lines = text.lines();
        let [why, asked, admitted] = numbers(lines.next()?, "door ")?;
        let [ticket, refused, waited] = numbers(lines.next()?, "count ")?;
        let short_of = match why {
            0 => None,
            1 => Some(Shortage::Memory),
            2 => Some(Shortage::Processors),
            3 => Some(Shortage::Disks),
            _ => return None,
        };
        let place = |line: &str| {
            let [ticket, uid, since, asked] = numbers(line, "place ")?;
            Some(Place { ticket, uid: u32::try_from(uid).ok()?, since, asked })
        };
        let places: Vec<Place> = lines.map(place).collect::<Option<_>>()?;
        let is_ordered = places.is_sorted_by(|one, next| one.ticket < next.ticket);
        let is_counted = places.last().is_none_or(|last| last.ticket <= ticket);
        if places.len() > WAITING_MAX || !is_ordered || !is_counted {
            return None;
        }
        let door = Door { short_of, asked, admitted };
        Some(WaitingLine { door, places, ticket, refused, waited })
    }
}

impl fmt::Display for WaitingLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Door { short_of, asked, admitted } = self.door;
        let why = match short_of {
            None => 0,
            Some(Shortage::Memory) => 1,
            Some(Shortage::Processors) => 2,
            Some(Shortage::Disks) => 3,
        };
        let mut text = format!("door {why} {asked} {admitted}\n");
        writeln!(text, "count {} {} {}", self.ticket, self.refused, self.waited)?;
        for Place { ticket, uid, since, asked } in &self.places {
            writeln!(text, "place {ticket} {uid} {since} {asked}")?;
        }
        f.write_str(&text)
    }
}

fn numbers<const N: usize>(line: &str, name: &str) -> Option<[u64; N]> {
    let mut words = line.strip_prefix(name)?.split(' ');
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    words.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Memory is short, or is not.
    fn short(is_short: bool) -> impl FnOnce(Option<Shortage>) -> Option<Shortage> {
        move |_| is_short.then_some(Shortage::Memory)
    }

    /// Somebody who asks.
    #[derive(Default)]
    struct Person {
        uid: u32,
        ticket: Option<Ticket>,
    }

    impl Person {
        fn ask(&mut self, line: &mut WaitingLine, is_short: bool, now: u64) -> Decision {
            line.ask(Policy::Queue, &mut self.ticket, self.uid, short(is_short), now)
        }

        fn waits(&mut self, line: &mut WaitingLine, is_short: bool, now: u64) -> u32 {
            match self.ask(line, is_short, now) {
                Decision::Wait(waiting) => waiting.ahead,
                other => panic!("at {now}: {other:?}"),
            }
        }
    }

    /// A machine that runs for a while.
    const START: u64 = 1_000_000;

    #[test]
    fn who_is_refused_reads_what_is_short_and_what_to_do() {
        let mut line = WaitingLine::default();
        let mut ask = |policy, is_short| line.ask(policy, &mut None, 7, short(is_short), START);
        assert_eq!(ask(Policy::Refuse, false), Decision::Admit);
        assert_eq!(ask(Policy::Off, true), Decision::Admit);
        let Decision::Refuse(text) = ask(Policy::Refuse, true) else { panic!("it is admitted") };
        assert!(text.starts_with("This server is short of memory, and another desktop"), "{text}");
        assert_eq!((line.refused, line.count(START)), (1, 0));
    }

    #[test]
    fn a_decision_holds_until_the_figure_is_low_or_nobody_has_asked_for_a_minute() {
        let mut line = WaitingLine::default();
        let mut was_closed = |is_short: bool, now| {
            let mut before = false;
            let shortage = |short_of: Option<Shortage>| {
                before = short_of.is_some();
                is_short.then_some(Shortage::Memory)
            };
            line.ask(Policy::Refuse, &mut None, 7, shortage, now);
            before
        };
        assert!(!was_closed(true, START));
        assert!(was_closed(true, START + 1));
        assert!(was_closed(false, START + 2));
        assert!(!was_closed(true, START + 3));
        assert!(was_closed(true, START + 3 + REMEMBERED_MS - 1));
        assert!(!was_closed(true, START + 2 + 2 * REMEMBERED_MS));
        assert!(!was_closed(true, 5), "the machine was started again");
    }

    #[test]
    fn who_waits_starts_in_the_order_in_which_they_came_and_one_after_the_other() {
        let mut line = WaitingLine::default();
        let [mut anna, mut otto, mut vera] = [1, 2, 3].map(|uid| Person { uid, ticket: None });
        assert_eq!(anna.waits(&mut line, true, START), 0);
        assert_eq!(otto.waits(&mut line, true, START), 1);
        // Who asks first is not the first for that.
        assert_eq!(otto.waits(&mut line, false, START + 2000), 1);
        assert_eq!(vera.waits(&mut line, false, START + 2000), 2, "nobody comes before them");
        assert_eq!(anna.ask(&mut line, false, START + 2100), Decision::Admit);
        assert_eq!(anna.ticket, None);
        // What Anna has started shows in the figures first.
        let settled = START + 2100 + SETTLE_MS;
        assert_eq!(otto.waits(&mut line, false, settled - 1), 0);
        assert_eq!(vera.waits(&mut line, false, settled - 1), 1);
        assert_eq!(otto.ask(&mut line, false, settled), Decision::Admit);
        assert_eq!(vera.waits(&mut line, true, settled + SETTLE_MS), 0, "it is short again");
        assert_eq!((line.waited, line.refused, line.count(settled + SETTLE_MS)), (2, 0, 1));
    }

    #[test]
    fn who_has_gone_leaves_the_line_and_who_comes_back_is_the_last() {
        let mut line = WaitingLine::default();
        let [mut anna, mut otto] = [1, 2].map(|uid| Person { uid, ticket: None });
        assert_eq!(anna.waits(&mut line, true, START), 0);
        assert_eq!(otto.waits(&mut line, true, START), 1);
        let later = START + GONE_MS - 1;
        let waiting = Waiting { ahead: 1, short_of: Some(Shortage::Memory) };
        assert_eq!(line.behind(otto.ticket.unwrap(), later), Some(waiting));
        assert_eq!(line.behind(otto.ticket.unwrap(), later + 1), None, "Anna has gone");
        assert_eq!(otto.waits(&mut line, true, later + 1), 0);
        assert_eq!(anna.waits(&mut line, true, later + 2), 1);
        // Nobody is left.
        assert_eq!(line.count(later + 2 + GONE_MS), 0);
    }

    #[test]
    fn nobody_waits_for_longer_than_five_minutes() {
        let mut line = WaitingLine::default();
        let [mut anna, mut otto] = [1, 2].map(|uid| Person { uid, ticket: None });
        let mut now = START;
        while now - START < WAIT_MS_MAX {
            assert_eq!(anna.waits(&mut line, true, now), 0);
            assert_eq!(otto.waits(&mut line, true, now), 1);
            now += ASK_MS;
        }
        // Who is behind others is not kept for longer either.
        assert_eq!(line.behind(otto.ticket.unwrap(), now), None);
        for person in [&mut otto, &mut anna] {
            let Decision::Refuse(text) = person.ask(&mut line, true, now) else { panic!("{now}") };
            assert!(text.starts_with("You have waited for 5 minutes, and this server"), "{text}");
            assert_eq!(person.ticket, None);
        }
        assert_eq!((line.refused, line.waited, line.count(now)), (2, 0, 0));
    }

    #[test]
    fn who_is_far_behind_waits_on_while_nothing_is_short() {
        let mut line = WaitingLine::default();
        let mut people: Vec<Person> = (0..40).map(|uid| Person { uid, ticket: None }).collect();
        people.iter_mut().for_each(|person| _ = person.ask(&mut line, true, START));
        let (mut now, mut admitted) = (START, 0);
        while admitted < 40 {
            now += ASK_MS;
            assert!(now - START < 41 * SETTLE_MS, "{admitted} were admitted");
            let asks = people.iter_mut().filter(|person| person.ticket.is_some());
            for person in asks {
                match person.ask(&mut line, false, now) {
                    Decision::Admit => admitted += 1,
                    Decision::Wait(_) => {}
                    Decision::Refuse(text) => panic!("{text}"),
                }
            }
        }
    }

    #[test]
    fn a_person_has_one_place_however_often_they_have_logged_in() {
        let mut line = WaitingLine::default();
        let [mut here, mut there] = [7, 7].map(|uid| Person { uid, ticket: None });
        let mut otto = Person { uid: 8, ticket: None };
        assert_eq!(here.waits(&mut line, true, START), 0);
        assert_eq!(there.waits(&mut line, true, START), 0);
        assert_eq!(otto.waits(&mut line, true, START), 1);
        assert_eq!((line.count(START), here.ticket), (2, there.ticket));
        assert_eq!(there.ask(&mut line, false, START + 1), Decision::Admit);
        assert_eq!(here.waits(&mut line, false, START + 1), 1, "the next desktop is behind Otto");
    }

    #[test]
    fn a_line_has_an_end() {
        let mut line = WaitingLine::default();
        let mut last = Decision::Admit;
        for uid in 0..=WAITING_MAX as u32 {
            last = Person { uid, ticket: None }.ask(&mut line, true, START);
        }
        assert!(matches!(last, Decision::Refuse(_)), "{last:?}");
        assert_eq!(line.count(START), WAITING_MAX as u64);
        assert!(line.to_string().len() <= TEXT_BYTES_MAX);
    }

    #[test]
    fn a_machine_that_was_started_again_has_no_line() {
        let mut line = WaitingLine::default();
        let mut anna = Person::default();
        assert_eq!(anna.waits(&mut line, true, START), 0);
        assert_eq!(line.count(1000), 0);
        assert_eq!(anna.ask(&mut line, false, 1000), Decision::Admit);
    }

    #[test]
    fn the_person_reads_their_place() {
        let text = |ahead, short_of| Waiting { ahead, short_of }.to_string();
        assert_eq!(
            text(0, Some(Shortage::Memory)),
            "This server is short of memory, and yours is the next to start."
        );
        assert!(text(1, Some(Shortage::Disks)).ends_with("disks, and one person is before you."));
        assert!(text(2, None).ends_with("after the other, and 2 people are before you."));
    }

    #[test]
    fn a_line_survives_its_file_and_nothing_else_is_read_from_there() {
        let mut line = WaitingLine::default();
        for uid in [u32::MAX, 7] {
            assert!(matches!(
                Person { uid, ticket: None }.ask(&mut line, true, START),
                Decision::Wait(_)
            ));
        }
        line.refused = u64::MAX;
        let text = line.to_string();
        assert_eq!(WaitingLine::parse(&text), Some(line));
        let bad = [
            "",
            "door 4 0 0\ncount 0 0 0\n",
            "door 0 0\ncount 0 0 0\n",
            "door 0 0 0 0\ncount 0 0 0\n",
            "door 0 0 0\n",
            "door 0 0 0\ncount 0 0 0\nplace 1 7 5 5\n",
            "door 0 0 0\ncount 2 0 0\nplace 2 7 5 5\nplace 1 7 5 5\n",
            "door 0 0 0\ncount 1 0 0\nplace 1 4294967296 5 5\n",
            "door 0 0 0\ncount 1 0 0\nplace 1 7 5\n",
        ];
        for bad in bad {
            assert_eq!(WaitingLine::parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        /// People come, ask, go and come back in any order, while memory is short or is not.
        #[test]
        fn nobody_is_admitted_before_who_came_earlier_and_still_waits(
            steps in proptest::collection::vec((0..6usize, any::<bool>(), 0..4000u64), 1..200)
        ) {
            let (mut line, mut now) = (WaitingLine::default(), START);
            let mut people: Vec<Person> =
                (0..6).map(|uid| Person { uid, ticket: None }).collect();
            for (who, is_short, time) in steps {
                now += time;
                let before = line.clone();
                let ticket = people[who].ticket;
                let decision = people[who].ask(&mut line, is_short, now);
                prop_assert_eq!(WaitingLine::parse(&line.to_string()), Some(line.clone()));
                prop_assert!(line.places.iter().all(|place| now - place.asked < GONE_MS));
                if decision == Decision::Admit {
                    prop_assert!(!is_short);
                    let waits = |place: &&Place| now - place.asked < GONE_MS;
                    let first = before.places.iter().find(waits).map(|place| Ticket(place.ticket));
                    prop_assert!(first.is_none() || first == ticket);
                }
            }
        }
    }
}
