//! How much processor time the real-time threads of a desktop may use before they are ordinary
//! again. From realtime.rs, which measures and acts, to it. Pure: times are arguments, and nothing
//! is read. Knows roles and nanoseconds; never whose they are.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Of one processor, over [`WINDOW`], all real-time threads of a desktop together.
pub(crate) const PERCENT_MAX: u32 = 10;
/// See [`PERCENT_MAX`].
pub(crate) const WINDOW: Duration = Duration::from_secs(2);
/// Most that one thread may use between two measurements: who uses that much works for long, and
/// answers nobody. The kernel ends an uninterrupted run of this length itself (RLIMIT_RTTIME).
pub(crate) const RUN_MAX: Duration = Duration::from_millis(100);
/// Between two measurements while a thread is real-time: of those 2.5 are as long as a run.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);
/// For so long a thread that has used more is ordinary. What it can use as a real-time one by
/// starting again is then an [`INTERVAL`] in each, less than 1 %.
pub(crate) const PAUSE: Duration = Duration::from_secs(30);

/// What a thread is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// Of the X server: it reads input.
    Input,
    /// Of the session process: it has the viewers, the input and the screen.
    Session,
}

impl Role {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Role::Input => "the X server's input thread",
            Role::Session => "the session's thread",
        }
    }
}

/// Why a thread is ordinary again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// It has used so many milliseconds between two measurements, or the kernel has ended its run.
    Run(u64),
    /// It has used so many percent of a processor over the window, more than other threads of its
    /// desktop, which together have used too much.
    Share(u32),
}

/// That of one role. It outlives threads: a new one begins with what the last one has used.
#[derive(Debug, Default)]
struct Account {
    /// The thread, and what it had used when it was measured last.
    last: Option<(u32, u64)>,
    /// When it was measured, and nanoseconds that were used since the time before.
    used: VecDeque<(Duration, u64)>,
    paused: Option<(Duration, Over)>,
}

impl Account {
    fn window_ns(&self) -> u64 {
        self.used.iter().fold(0, |sum, (_, used)| sum.saturating_add(*used))
    }
}

/// That of one desktop.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    accounts: HashMap<Role, Account>,
    measured_at: Option<Duration>,
}

impl Budget {
    /// Whether a thread of this role may become real-time now; else why it became ordinary, and
    /// for how much longer it is.
    pub(crate) fn check(&self, role: Role, now: Duration) -> Result<(), (Over, Duration)> {
        match self.accounts.get(&role).and_then(|account| account.paused) {
            Some((until, over)) if until > now => Err((over, until - now)),
            _ => Ok(()),
        }
    }

    /// A thread becomes real-time, with so much processor time used before, which does not count.
    pub(crate) fn begin(&mut self, role: Role, thread: u32, total_ns: u64, now: Duration) {
        let account = self.accounts.entry(role).or_default();
        account.last = Some((thread, total_ns));
        account.paused = None;
        self.measured_at.get_or_insert(now);
    }

    /// It is ordinary, for whatever reason: what it uses does not count.
    pub(crate) fn end(&mut self, role: Role) {
        if let Some(account) = self.accounts.get_mut(&role) {
            account.last = None;
        }
        if self.accounts.values().all(|account| account.last.is_none()) {
            self.measured_at = None;
        }
    }

    /// It is ordinary for a while.
    pub(crate) fn pause(&mut self, role: Role, over: Over, now: Duration) {
        self.accounts.entry(role).or_default().paused = Some((now + PAUSE, over));
        self.end(role);
    }

    /// By the processor time that each real-time thread has used in all, those that have to be
    /// ordinary from now on: they are paused.
    pub(crate) fn measure(
        &mut self,
        totals_ns: &[(Role, u64)],
        now: Duration,
    ) -> Vec<(Role, Over)> {
        let since = self.measured_at.replace(now).map_or(Duration::ZERO, |at| now - at);
        // A measurement that comes late finds more, and that is no longer run.
        let run_max = nanos(RUN_MAX).max(nanos(since) / nanos(INTERVAL).max(1) * nanos(RUN_MAX));
        let mut over = Vec::new();
        for &(role, total) in totals_ns {
            let Some(account) = self.accounts.get_mut(&role) else { continue };
            let Some((thread, before)) = account.last else { continue };
            let used = total.saturating_sub(before);
            account.last = Some((thread, total));
            account.used.push_back((now, used));
            if used > run_max {
                over.push((role, Over::Run(used / 1_000_000)));
            }
        }
        for account in self.accounts.values_mut() {
            account.used.retain(|(at, _)| *at + WINDOW > now);
        }
        // The window is as long as its samples, of which the first may have come late.
        let window = WINDOW.max(since);
        let most = nanos(window) / 100 * u64::from(PERCENT_MAX);
        let mut by_use: Vec<(u64, Role)> = self
            .accounts
            .iter()
            .filter(|(_, account)| account.last.is_some())
            .map(|(role, account)| (account.window_ns(), *role))
            .collect();
        by_use.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
        // Those that were ordinary again meanwhile count too: they have had their part.
        let mut sum = self.accounts.values().map(Account::window_ns).fold(0, u64::saturating_add);
        for (used, role) in by_use {
            if sum <= most {
                break;
            }
            sum = sum.saturating_sub(used);
            if !over.iter().any(|(found, _)| *found == role) {
                let percent = u128::from(used) * 100 / window.as_nanos();
                over.push((role, Over::Share(u32::try_from(percent).unwrap_or(u32::MAX))));
            }
        }
        for (role, why) in &over {
            self.pause(*role, *why, now);
        }
        over
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A budget with both threads, at time zero.
    fn both() -> Budget {
        let mut budget = Budget::default();
        budget.begin(Role::Input, 7, 5000 * MS, at(0));
        budget.begin(Role::Session, 8, 0, at(0));
        budget
    }

    #[test]
    fn what_was_used_before_does_not_count() {
        let mut budget = both();
        let over = budget.measure(&[(Role::Input, 5001 * MS), (Role::Session, MS)], at(250));
        assert_eq!(over, []);
        assert_eq!(budget.check(Role::Input, at(250)), Ok(()));
    }

    #[test]
    fn a_thread_that_works_for_long_is_ordinary_for_a_while() {
        let mut budget = both();
        let over = budget.measure(&[(Role::Session, 101 * MS), (Role::Input, 5000 * MS)], at(250));
        assert_eq!(over, [(Role::Session, Over::Run(101))]);
        let left = budget.check(Role::Session, at(1250)).unwrap_err();
        assert_eq!(left, (Over::Run(101), PAUSE - at(1000)));
        assert_eq!(budget.check(Role::Input, at(1250)), Ok(()));
        assert_eq!(budget.check(Role::Session, at(250) + PAUSE), Ok(()));
        // What an ordinary thread uses is nobody's business.
        assert_eq!(budget.measure(&[(Role::Session, 9000 * MS)], at(500)), []);
    }

    #[test]
    fn a_measurement_that_comes_late_finds_no_longer_run() {
        let mut budget = both();
        assert_eq!(budget.measure(&[(Role::Session, 190 * MS)], at(500)), []);
        let over = budget.measure(&[(Role::Session, 190 * MS + 101 * MS)], at(750));
        assert_eq!(over, [(Role::Session, Over::Run(101))]);
    }

    #[test]
    fn a_tenth_of_a_processor_over_two_seconds_is_the_most() {
        let mut budget = both();
        // 24 ms of each 250: 9.6 %, for long.
        for step in 1..=40 {
            assert_eq!(budget.measure(&[(Role::Session, step * 24 * MS)], at(step * 250)), []);
        }
        // 28 ms: it takes a while until eight of them make more than 200 ms.
        let mut found = Vec::new();
        for step in 1..=8 {
            let total = 40 * 24 * MS + step * 28 * MS;
            found = budget.measure(&[(Role::Session, total)], at((40 + step) * 250));
            if !found.is_empty() {
                break;
            }
        }
        assert_eq!(found, [(Role::Session, Over::Share(10))]);
    }

    #[test]
    fn both_threads_have_one_budget_and_the_one_that_uses_more_pays() {
        let mut budget = both();
        let mut over = Vec::new();
        for step in 1..=8 {
            let totals = [(Role::Input, (5000 + step * 10) * MS), (Role::Session, step * 20 * MS)];
            over = budget.measure(&totals, at(step * 250));
            if !over.is_empty() {
                break;
            }
        }
        assert_eq!(over, [(Role::Session, Over::Share(7))]);
        assert_eq!(budget.check(Role::Input, at(2000)), Ok(()), "that was enough");
    }

    #[test]
    fn a_new_thread_begins_with_what_the_last_one_has_used() {
        let mut budget = both();
        let mut now = 0;
        let mut over = Vec::new();
        // A process that is started again every 250 ms, and uses 40 of them.
        for thread in 0..8 {
            budget.begin(Role::Session, 100 + thread, 0, at(now));
            now += 250;
            over = budget.measure(&[(Role::Session, 40 * MS)], at(now));
            if !over.is_empty() {
                break;
            }
        }
        assert_eq!(over, [(Role::Session, Over::Share(12))]);
        assert!(budget.check(Role::Session, at(now)).is_err());
    }

    #[test]
    fn however_it_works_its_real_time_use_stays_near_its_budget() {
        // A thread that takes all it gets, at any phase, for ten minutes.
        for work_ms in [20, 60, 99, 150, 250] {
            let mut budget = Budget::default();
            let (mut total, mut counted, mut is_real_time) = (0, 0, false);
            for step in 0..2400_u64 {
                let now = at(step * 250);
                if !is_real_time && budget.check(Role::Session, now).is_ok() {
                    budget.begin(Role::Session, 1, total, now);
                    is_real_time = true;
                }
                total += work_ms * MS;
                counted += if is_real_time { work_ms } else { 0 };
                if is_real_time
                    && !budget.measure(&[(Role::Session, total)], at(step * 250 + 250)).is_empty()
                {
                    is_real_time = false;
                }
            }
            assert!(counted <= 600_000 / 10, "{work_ms}: {counted} ms of 600 s");
        }
    }
}
