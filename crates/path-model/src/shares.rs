//! Path 6/13 and 10/13: under lib.rs; how several that send share one rate: the viewers of a
//! session with `--max-rate` (session-core/session/max_rate.rs), the desktops of a host with
//! `uplink`, and the viewers of each (broker/front/uplink/division.rs).
//! Max-min fair (Bertsekas and Gallager 1992, 6.5.2): who wants little gets it, and what is left is
//! divided equally among those that want more. What each wants is known by what it sends.
//! Knows bytes and microseconds; never what was sent, nor a clock.

use std::collections::BTreeMap;

/// For how long bytes are counted before what each wants is judged again: the longest that a share
/// follows a demand that has fallen. Shorter ones would take a video's frames for pauses.
const INTERVAL: u64 = 100_000;
/// Who sends more in an interval than was expected of it, and longer than this at its share, wants
/// more from now on. Shorter: an input response, a packet of sound.
const BURST: u64 = 10_000;
/// Wants more than its share.
const GREEDY: u64 = u64::MAX;

/// Who shares a rate, by a key.
#[derive(Clone, Debug)]
pub struct Shares<K> {
    /// Bytes a second of all, and of each.
    rate: u64,
    each_max: u64,
    users: BTreeMap<K, User>,
    interval_began: u64,
    /// Bytes a second that each gets that wants more.
    level: u64,
    /// The same if one more wanted more: what others may begin with.
    entrant_level: u64,
}

#[derive(Clone, Copy, Debug)]
struct User {
    /// Sent in this interval.
    bytes: u64,
    /// Expected bytes a second, or [`GREEDY`].
    demand: u64,
    /// It wanted more when this interval began: what it sent in it tells whether it still does.
    is_whole: bool,
    /// Its least share in this interval.
    share_min: u64,
}

impl<K: Ord + Copy> Shares<K> {
    /// Nobody shares it yet. `rate`: bytes a second of all together, `each_max`: of each; `None`:
    /// no limit.
    pub fn new(rate: Option<u64>, each_max: Option<u64>, now: u64) -> Shares<K> {
        let rate = rate.unwrap_or(u64::MAX);
        let each_max = each_max.unwrap_or(u64::MAX);
        let (users, level) = (BTreeMap::new(), rate);
        Shares { rate, each_max, users, interval_began: now, level, entrant_level: rate }
    }

    /// One more may send.
    pub fn add(&mut self, key: K) {
        let share_min = self.entrant_level.min(self.each_max);
        self.users.insert(key, User { bytes: 0, demand: 0, is_whole: false, share_min });
    }

    /// It has left.
    pub fn remove(&mut self, key: K) {
        if self.users.remove(&key).is_some() {
            self.divide();
        }
    }

    /// The rate of all was changed; `None`: no limit.
    pub fn set_rate(&mut self, rate: Option<u64>) {
        let rate = rate.unwrap_or(u64::MAX);
        if rate != self.rate {
            self.rate = rate;
            self.divide();
        }
    }

    /// Bytes a second that it may send now; `u64::MAX` without a limit. The shares of those that
    /// want more, and what all others send, are never more than the rate.
    pub fn share(&self, key: K) -> u64 {
        self.users.get(&key).map_or(self.entrant_level, |user| self.share_of(user))
    }

    fn share_of(&self, user: &User) -> u64 {
        let share = match user.demand {
            GREEDY => self.level,
            demand => self.entrant_level.max(demand.min(self.level)),
        };
        share.min(self.each_max).max(1)
    }

    /// It has sent so many bytes. True if shares have changed.
    pub fn sent(&mut self, key: K, bytes: u64, now: u64) -> bool {
        let mut changed = self.end_interval(now);
        let Some(&user) = self.users.get(&key) else { return changed };
        let sent = user.bytes.saturating_add(bytes);
        let wants_more = user.demand != GREEDY
            && sent > in_time(user.demand, INTERVAL).max(in_time(self.share_of(&user), BURST));
        let demand = if wants_more { GREEDY } else { user.demand };
        self.users.insert(key, User { bytes: sent, demand, ..user });
        changed |= wants_more;
        if changed {
            self.divide();
        }
        changed
    }

    /// Judges what each wants, if the interval is over.
    fn end_interval(&mut self, now: u64) -> bool {
        let took = now.saturating_sub(self.interval_began);
        if took < INTERVAL {
            return false;
        }
        self.interval_began = now;
        for user in self.users.values_mut() {
            let began_in_it = user.demand == GREEDY && !user.is_whole && took < 2 * INTERVAL;
            if !began_in_it {
                let rate = u128::from(user.bytes) * 1_000_000 / u128::from(took);
                let rate = u64::try_from(rate).unwrap_or(u64::MAX);
                // An eighth less than the share: between two updates the sender does nothing.
                let wants_more = rate >= user.share_min - user.share_min / 8 && rate > 0;
                user.demand = if wants_more { GREEDY } else { rate.saturating_add(rate / 4) };
            }
            user.is_whole = user.demand == GREEDY;
            (user.bytes, user.share_min) = (0, u64::MAX);
        }
        true
    }

    fn divide(&mut self) {
        let demands = self.users.values().map(|user| user.demand.min(self.each_max));
        let mut demands: Vec<u64> = demands.filter(|&demand| demand > 0).collect();
        demands.sort_unstable();
        self.level = level(&demands, self.rate);
        demands.push(GREEDY);
        self.entrant_level = level(&demands, self.rate);
        let shares: Vec<u64> = self.users.values().map(|user| self.share_of(user)).collect();
        for (user, share) in self.users.values_mut().zip(shares) {
            user.share_min = user.share_min.min(share);
        }
    }
}

/// Bytes in so many microseconds.
fn in_time(rate: u64, time: u64) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(time) / 1_000_000).unwrap_or(u64::MAX)
}

/// The most that each gets so that all fits; the demands rise.
fn level(demands: &[u64], rate: u64) -> u64 {
    let mut left = rate;
    for (at, &demand) in demands.iter().enumerate() {
        let equal = left / (demands.len() - at) as u64;
        if demand >= equal {
            return equal;
        }
        left -= demand;
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;
    const STEP: u64 = 1_000;

    /// Who sends all it may, or so many bytes a second.
    #[derive(Clone, Copy)]
    enum Sends {
        All,
        Rate(u64),
    }

    /// Lets each send for so long, in steps of a millisecond. Returns what each has sent.
    fn run<const N: usize>(
        shares: &mut Shares<usize>,
        now: &mut u64,
        time: u64,
        senders: [Sends; N],
    ) -> [u64; N] {
        let mut sent = [0; N];
        for _ in 0..time / STEP {
            *now += STEP;
            for (key, sender) in senders.iter().enumerate() {
                let share = shares.share(key);
                let rate = match *sender {
                    Sends::All => share,
                    Sends::Rate(rate) => rate.min(share),
                };
                let bytes = rate * STEP / 1_000_000;
                if bytes > 0 {
                    shares.sent(key, bytes, *now);
                    sent[key] += bytes;
                }
            }
        }
        sent
    }

    fn among(count: usize) -> Shares<usize> {
        let mut shares = Shares::new(Some(RATE), None, 0);
        (0..count).for_each(|key| shares.add(key));
        shares
    }

    #[test]
    fn one_alone_may_send_all() {
        let shares = among(5);
        assert_eq!(shares.share(3), RATE);
        assert_eq!(Shares::<u8>::new(None, None, 0).share(0), u64::MAX);
    }

    #[test]
    fn those_that_want_more_get_the_same() {
        let (mut shares, mut now) = (among(4), 0);
        run(&mut shares, &mut now, 3 * INTERVAL, [Sends::All; 4]);
        let sent = run(&mut shares, &mut now, 1_000_000, [Sends::All; 4]);
        let equal = |bytes: &u64| bytes.abs_diff(RATE / 4) < RATE / 100;
        assert!(sent.iter().all(equal), "{sent:?}");
    }

    #[test]
    fn what_one_leaves_is_for_the_others() {
        let (mut shares, mut now) = (among(3), 0);
        let senders = [Sends::Rate(100_000), Sends::All, Sends::All];
        run(&mut shares, &mut now, 3 * INTERVAL, senders);
        let sent = run(&mut shares, &mut now, 1_000_000, senders);
        assert_eq!(sent[0], 100_000, "who wants little gets it");
        // A quarter more than it sends stays free for it.
        let equal = |&bytes: &u64| (425_000..=450_000).contains(&bytes);
        assert!(sent[1..].iter().all(equal), "{sent:?}");
    }

    #[test]
    fn a_new_demand_has_its_share_at_once_and_a_demand_that_ends_is_divided_within_two_intervals() {
        let (mut shares, mut now) = (among(2), 0);
        run(&mut shares, &mut now, 10 * INTERVAL, [Sends::All, Sends::Rate(0)]);
        assert!(shares.share(1) >= RATE / 2, "{}", shares.share(1));
        assert!(shares.share(0) > RATE - RATE / 100, "{}", shares.share(0));
        run(&mut shares, &mut now, 3 * BURST, [Sends::All; 2]);
        assert_eq!([shares.share(0), shares.share(1)], [RATE / 2; 2]);
        run(&mut shares, &mut now, 10 * INTERVAL, [Sends::All; 2]);
        assert_eq!([shares.share(0), shares.share(1)], [RATE / 2; 2], "and it stays so");
        run(&mut shares, &mut now, 2 * INTERVAL + STEP, [Sends::All, Sends::Rate(0)]);
        assert!(shares.share(0) > RATE - RATE / 4, "{}", shares.share(0));
    }

    #[test]
    fn an_input_response_takes_nothing_from_others() {
        let (mut shares, mut now) = (among(2), 0);
        run(&mut shares, &mut now, 5 * INTERVAL, [Sends::All, Sends::Rate(0)]);
        assert!(!shares.sent(1, 2_000, now), "2 ms of its share");
        assert_eq!(shares.share(0), RATE);
    }

    #[test]
    fn nobody_gets_more_than_each_may() {
        let mut shares = Shares::new(Some(RATE), Some(RATE / 10), 0);
        let mut now = 0;
        (0..3).for_each(|key| shares.add(key));
        let sent = run(&mut shares, &mut now, 1_000_000, [Sends::All; 3]);
        assert_eq!(sent, [RATE / 10; 3]);
        let mut shares = Shares::new(None, Some(RATE), 0);
        shares.add(1);
        assert!(!shares.sent(1, RATE / 1000, 1_000));
        assert_eq!((shares.share(1), shares.share(2)), (RATE, u64::MAX));
    }

    #[test]
    fn who_leaves_leaves_its_share() {
        let (mut shares, mut now) = (among(2), 0);
        run(&mut shares, &mut now, 5 * INTERVAL, [Sends::All; 2]);
        shares.remove(1);
        assert_eq!(shares.share(0), RATE);
        shares.set_rate(Some(RATE / 2));
        assert_eq!(shares.share(0), RATE / 2);
    }

    #[test]
    fn after_a_pause_nothing_is_wanted() {
        let (mut shares, mut now) = (among(2), 0);
        run(&mut shares, &mut now, 5 * INTERVAL, [Sends::All; 2]);
        now += 100 * INTERVAL;
        shares.sent(0, 100, now);
        assert!(shares.share(0) > RATE - RATE / 20, "{}", shares.share(0));
        assert!(shares.share(1) > RATE / 2, "{}", shares.share(1));
    }
}
