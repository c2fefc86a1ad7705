//! Path 10/13 through the broker: under uplink.rs, how what the host may send to all viewers is
//! divided: which viewer's next bytes go when, and how much each session is told to send.
//! Start-time fair queueing (Goyal, Vin and Cheng 1996): of the desktops that wait, the one that
//! has had least goes first, and of its viewers the one that has had least. So a desktop that is
//! only typed into is before all that show videos. What sessions are told (`Shares`) keeps them
//! from sending what would have to wait here.
//! Knows names, bytes and microseconds; never what the bytes mean, nor a clock.

use std::collections::{BTreeMap, BTreeSet};

use thinc_path_model::{Shares, VirtualQueue, wire_bytes};

use crate::limits::Rates;

/// Of the uplink, in hundredths: so much is sent. The rest keeps the queue of the device at its
/// end empty, where nothing goes before anything else.
const LINK_PERCENT: u64 = 95;
/// Of that, and of a desktop's limit: so much is given to sessions. At the same rate, what waits
/// here would never drain.
const SHARED_PERCENT: u64 = 98;
/// How far ahead of the link bytes are sent: a timer fires up to a millisecond late. In
/// microseconds, as all times here.
const AHEAD_MAX: u64 = 2_000;
/// Bytes of packets that go at once if their desktop has had less than others: input responses,
/// sound. They may go when others have just sent as much as they may, and so twice what is taken at
/// once further ahead.
const SMALL_BYTES: u64 = 2 * 1024;
const SMALL_READS: u64 = 2;
/// How far ahead of its own limit a desktop may be, or by so many bytes if they take longer: more
/// than its session, which limits itself (`session-core/src/delivery/rate_limit.rs`).
const DESKTOP_AHEAD_MAX: u64 = 10_000;
const DESKTOP_AHEAD_BYTES: u64 = 8 * 1024;
/// And with datagrams, which never wait: sound and input responses have a reserve.
const DATAGRAM_AHEAD_MAX: u64 = 20_000;
const DATAGRAM_AHEAD_BYTES: u64 = 20 * 1024;
/// A datagram is lost if others wait, or the link is ahead by [`DATAGRAM_AHEAD_MAX`], and its
/// desktop has had so many bytes more than others: a session that does as it is told is never
/// there.
const DATAGRAM_BYTES_MAX: u64 = 32 * 1024;
/// The most that is taken from a session at once takes this long on the link; at least a packet is.
const READ_TIME: u64 = 1_000;
const READ_BYTES_MIN: u64 = 1_300;

/// Who shares the uplink, and what each has had.
pub(super) struct Division {
    link: Option<u64>,
    of_desktop: Option<u64>,
    queue: VirtualQueue,
    /// Bytes that the desktop whose turn it was last had had before; while the link is idle, the
    /// most that any has had.
    virtual_time: u64,
    had_max: u64,
    desktops: BTreeMap<u64, Desktop>,
    viewers: BTreeMap<u64, Viewer>,
    waiting: BTreeSet<u64>,
    shares: Shares<u64>,
    next_desktop: u64,
    has_changed: bool,
}

struct Desktop {
    user: String,
    name: String,
    /// Bytes that it has had, in the terms of `virtual_time`.
    had: u64,
    /// Its own limit.
    queue: VirtualQueue,
    /// As [`Division::virtual_time`], among its viewers.
    virtual_time: u64,
    shares: Shares<u64>,
}

struct Viewer {
    desktop: u64,
    /// In the terms of its desktop's `virtual_time`.
    had: u64,
    /// Bytes that wait.
    waits: u64,
}

/// Whether bytes went when it was their desktop's turn; datagrams do not wait for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    InTurn,
    OutOfTurn,
}

/// What bytes take at a rate.
fn time_of(bytes: u64, rate: u64) -> u64 {
    bytes.saturating_mul(1_000_000) / rate
}

fn percent(rate: u64, percent: u64) -> u64 {
    (u128::from(rate) * u128::from(percent) / 100) as u64
}

impl Division {
    /// Nobody is there.
    pub(super) fn new(rates: Rates, now: u64) -> Division {
        let link = rates.uplink.map(|rate| percent(rate, LINK_PERCENT).max(1));
        let given = |rate: Option<u64>| rate.map(|rate| percent(rate, SHARED_PERCENT).max(1));
        Division {
            link,
            of_desktop: rates.session,
            queue: VirtualQueue::default(),
            virtual_time: 0,
            had_max: 0,
            desktops: BTreeMap::new(),
            viewers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            shares: Shares::new(given(link), given(rates.session), now),
            next_desktop: 0,
            has_changed: false,
        }
    }

    /// A viewer shows a desktop of this user.
    pub(super) fn enter(&mut self, viewer: u64, user: &str, name: &str, now: u64) {
        let known = self.desktops.iter().find(|(_, one)| one.user == user && one.name == name);
        let desktop = known.map(|(&number, _)| number).unwrap_or_else(|| {
            self.next_desktop += 1;
            self.shares.add(self.next_desktop);
            let share = self.shares.share(self.next_desktop);
            let (user, name) = (user.to_owned(), name.to_owned());
            let shares = Shares::new(Some(share), None, now);
            let queue = VirtualQueue::default();
            let new = Desktop { user, name, had: 0, queue, virtual_time: 0, shares };
            self.desktops.insert(self.next_desktop, new);
            self.next_desktop
        });
        self.viewers.insert(viewer, Viewer { desktop, had: 0, waits: 0 });
        self.desktops.get_mut(&desktop).expect("it is there").shares.add(viewer);
        self.has_changed = true;
    }

    /// It has left.
    pub(super) fn leave(&mut self, viewer: u64) {
        self.waiting.remove(&viewer);
        let Some(Viewer { desktop, .. }) = self.viewers.remove(&viewer) else { return };
        if self.viewers.values().any(|other| other.desktop == desktop) {
            self.desktops.get_mut(&desktop).expect("it is there").shares.remove(viewer);
        } else {
            self.desktops.remove(&desktop);
            self.shares.remove(desktop);
            self.give_shares();
        }
        self.has_changed = true;
    }

    /// Bytes a second that a viewer's session may send it now, headers included.
    pub(super) fn share(&self, viewer: u64) -> u64 {
        let desktop = self.viewers.get(&viewer).and_then(|it| self.desktops.get(&it.desktop));
        desktop.map_or(1, |desktop| desktop.shares.share(viewer))
    }

    /// Shares may have changed since this was asked last.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Most bytes to be taken from a session at once: more would be sent before what others wait
    /// for.
    pub(super) fn read_bytes(&self) -> usize {
        let rate = self.link.into_iter().chain(self.of_desktop).min().unwrap_or(u64::MAX);
        let bytes = u128::from(rate) * u128::from(READ_TIME) / 1_000_000;
        usize::try_from(bytes).unwrap_or(usize::MAX).max(READ_BYTES_MIN as usize)
    }

    /// How far ahead of the link small ones may go.
    fn small_ahead_max(&self) -> u64 {
        let bytes = SMALL_READS * wire_bytes(self.read_bytes() as u64);
        AHEAD_MAX + self.link.map_or(0, |rate| time_of(bytes, rate))
    }

    /// How far ahead of its own limit a desktop may be.
    fn desktop_ahead_max(&self) -> u64 {
        let bytes = self.of_desktop.map_or(0, |rate| time_of(DESKTOP_AHEAD_BYTES, rate));
        bytes.max(DESKTOP_AHEAD_MAX)
    }

    /// The same with datagrams.
    fn datagram_ahead_max(&self) -> u64 {
        let bytes = self.of_desktop.map_or(0, |rate| time_of(DATAGRAM_AHEAD_BYTES, rate));
        self.desktop_ahead_max() + bytes.max(DATAGRAM_AHEAD_MAX)
    }

    /// So many bytes are there for a viewer. True: they go now. Otherwise it waits until
    /// [`Division::poll`] names it.
    pub(super) fn ask(&mut self, viewer: u64, bytes: u64, now: u64) -> bool {
        let Some(it) = self.viewers.get_mut(&viewer) else { return true };
        it.waits = wire_bytes(bytes);
        let desktop = &self.desktops[&it.desktop];
        let is_small = it.waits <= SMALL_BYTES && desktop.had <= self.virtual_time;
        let others = || self.waiting.iter().any(|&other| self.is_within_limit(other, now));
        let goes = self.is_within_limit(viewer, now)
            && (is_small && self.queue.delay(now) <= self.small_ahead_max()
                || self.queue.delay(now) <= AHEAD_MAX && !others());
        if goes {
            self.spend(viewer, now);
        } else {
            self.waiting.insert(viewer);
        }
        goes
    }

    /// The next viewer whose bytes go now.
    pub(super) fn poll(&mut self, now: u64) -> Option<u64> {
        if self.queue.delay(now) > AHEAD_MAX {
            return None;
        }
        let may = self.waiting.iter().copied().filter(|&viewer| self.is_within_limit(viewer, now));
        let next = may.min_by_key(|viewer| self.starts_at(*viewer))?;
        self.waiting.remove(&next);
        self.spend(next, now);
        Some(next)
    }

    /// When [`Division::poll`] may name somebody; `None` if nobody waits.
    pub(super) fn deadline(&self) -> Option<u64> {
        let link = self.link.map_or(0, |rate| self.queue.room_at(0, AHEAD_MAX, rate));
        let of = |viewer: &u64| {
            let desktop = &self.desktops[&self.viewers[viewer].desktop];
            let limit = self
                .of_desktop
                .map_or(0, |rate| desktop.queue.room_at(0, self.desktop_ahead_max(), rate));
            limit.max(link)
        };
        self.waiting.iter().map(of).min()
    }

    /// A datagram of so many bytes is there for a viewer. False: it is lost.
    pub(super) fn admits_datagram(&mut self, viewer: u64, bytes: u64, now: u64) -> bool {
        let Some(it) = self.viewers.get(&viewer) else { return true };
        let desktop = &self.desktops[&it.desktop];
        // On a fast link one turn is as much already.
        let more = DATAGRAM_BYTES_MAX.max(SMALL_READS * wire_bytes(self.read_bytes() as u64));
        let has_more = desktop.had > self.virtual_time.saturating_add(more);
        let others_wait = !self.waiting.is_empty() || self.queue.delay(now) > DATAGRAM_AHEAD_MAX;
        if has_more && others_wait || desktop.queue.delay(now) > self.datagram_ahead_max() {
            return false;
        }
        // An empty one is a packet too.
        self.count(viewer, wire_bytes(bytes.max(1)), Sent::OutOfTurn, now);
        true
    }

    /// What its desktop, and then it, had had when its next bytes go.
    fn starts_at(&self, viewer: u64) -> (u64, u64) {
        let it = &self.viewers[&viewer];
        let desktop = &self.desktops[&it.desktop];
        (desktop.had.max(self.virtual_time), it.had.max(desktop.virtual_time))
    }

    /// The desktop's own limit lets its viewers' bytes go.
    fn is_within_limit(&self, viewer: u64, now: u64) -> bool {
        let desktop = &self.desktops[&self.viewers[&viewer].desktop];
        desktop.queue.delay(now) <= self.desktop_ahead_max()
    }

    fn spend(&mut self, viewer: u64, now: u64) {
        let bytes = self.viewers.get_mut(&viewer).map_or(0, |it| std::mem::take(&mut it.waits));
        self.count(viewer, bytes, Sent::InTurn, now);
    }

    /// So many bytes of packets go.
    fn count(&mut self, viewer: u64, bytes: u64, sent: Sent, now: u64) {
        if self.queue.delay(now) == 0 {
            // Nobody has had to wait for what others have had so far.
            self.virtual_time = self.had_max;
        }
        let (of_all, of_viewers) = self.starts_at(viewer);
        let it = self.viewers.get_mut(&viewer).expect("who sends is there");
        let number = it.desktop;
        let desktop = self.desktops.get_mut(&number).expect("a viewer's desktop is there");
        desktop.had = of_all + bytes;
        it.had = of_viewers + bytes;
        self.had_max = self.had_max.max(desktop.had);
        if sent == Sent::InTurn {
            (self.virtual_time, desktop.virtual_time) = (of_all, of_viewers);
        }
        if let Some(rate) = self.link {
            self.queue.send(bytes, rate, now);
        }
        if let Some(rate) = self.of_desktop {
            desktop.queue.send(bytes, rate, now);
        }
        self.has_changed |= desktop.shares.sent(viewer, bytes, now);
        if self.shares.sent(number, bytes, now) {
            self.give_shares();
        }
    }

    fn give_shares(&mut self) {
        for (number, desktop) in &mut self.desktops {
            desktop.shares.set_rate(Some(self.shares.share(*number)));
        }
        self.has_changed = true;
    }
}

#[cfg(test)]
mod tests;
