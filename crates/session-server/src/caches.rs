//! Path 8/13, beside render.rs: what viewers keep of what they were shown, from one connection to the next.
//! From actor.rs with a viewer's offer, to its plans; remembered for a while when it leaves.
//! Knows directories and the tokens that name them; never pixels.

use std::collections::BTreeMap;
use std::time::Duration;

use thinc_pixels::Cache;
use thinc_pixels::cache::Fate;
use thinc_protocol::Micros;
use thinc_protocol::limits::CACHE_TOKEN_BYTES;
use thinc_protocol::session::CacheGrant;
use thinc_protocol::viewer::CacheOffer;
use thinc_session_core::{self as core, Session, ViewerId};

use crate::connection::ConnectionId;

/// Directories remembered of viewers that have left; one takes about 1 MB where 64 MiB were offered, and 13 MB at most.
const LEFT_MAX: usize = 8;
/// How long: over lunch.
const LEFT_TIME: Duration = Duration::from_secs(2 * 60 * 60);
/// 1 MiB: a smaller offer is worth no directory.
const BYTES_MIN: u64 = 1024 * 1024;

/// Names a directory. Whoever says it was told it; it is good once.
type Token = [u8; CACHE_TOKEN_BYTES];

struct Kept {
    token: Token,
    cache: Cache,
    /// The newest update that the viewer said it has applied.
    acked: u64,
}

impl Kept {
    fn new(token: Token, cache: Cache) -> Kept {
        Kept { token, cache, acked: 0 }
    }
}

/// The directories of all viewers, those that are there and those that may come back.
#[derive(Default)]
pub(crate) struct Caches {
    connected: BTreeMap<ConnectionId, Kept>,
    /// The longest gone first.
    left: Vec<(Micros, Token, Cache)>,
}

impl Caches {
    /// Answers an offer; nothing where it is too small. `random` fills bytes that nobody can guess.
    ///
    /// # Errors
    /// It is the second.
    pub(crate) fn offer(
        &mut self,
        id: ConnectionId,
        offer: &CacheOffer,
        now: Micros,
        mut random: impl FnMut(&mut [u8]),
    ) -> Result<Option<CacheGrant>, &'static str> {
        if self.connected.contains_key(&id) {
            return Err("a second offer of a cache");
        }
        if offer.bytes < BYTES_MIN {
            return Ok(None);
        }
        let before = self.take(&offer.token, now);
        let resumed = before.and_then(|mut cache| cache.resume(offer.update, offer.bytes).then_some(cache));
        let mut token = Token::default();
        random(&mut token);
        let grant = CacheGrant { token, resumed: resumed.is_some() };
        let cache = resumed.unwrap_or_else(|| {
            let mut key = [[0; 8]; 4];
            key.iter_mut().for_each(|word| random(word));
            Cache::new(key.map(u64::from_le_bytes), offer.bytes)
        });
        self.connected.insert(id, Kept::new(token, cache));
        Ok(Some(grant))
    }

    /// The directory of this token, which is void from now on.
    fn take(&mut self, token: &Token, now: Micros) -> Option<Cache> {
        self.forget(now);
        // One that is still taken for connected is the same viewer, whose old connection nobody has missed yet.
        let connected = self.connected.iter().find(|(_, kept)| kept.token == *token).map(|(&id, _)| id);
        if let Some(id) = connected {
            self.leave(id, now);
        }
        let at = self.left.iter().position(|(_, left, _)| left == token)?;
        Some(self.left.remove(at).2)
    }

    /// The viewer has left.
    pub(crate) fn leave(&mut self, id: ConnectionId, now: Micros) {
        let Some(Kept { token, mut cache, .. }) = self.connected.remove(&id) else { return };
        cache.disconnect();
        self.forget(now);
        if self.left.len() == LEFT_MAX {
            self.left.remove(0);
        }
        self.left.push((now, token, cache));
    }

    fn forget(&mut self, now: Micros) {
        self.left.retain(|(since, ..)| now < since + LEFT_TIME.as_micros() as Micros);
    }

    /// What a connected viewer keeps, with all that is known of it.
    pub(crate) fn get(&mut self, id: ConnectionId, viewer: ViewerId, session: &mut Session) -> Option<&mut Cache> {
        let mut kept = self.connected.get_mut(&id);
        while let Some((job, fate)) = session.poll_fate(viewer) {
            if let Some(kept) = &mut kept {
                let fate = match fate {
                    core::Fate::Applied => Fate::Applied { update: kept.acked },
                    core::Fate::Void => Fate::Void,
                };
                kept.cache.settle(job.0, fate);
            }
        }
        kept.map(|kept| &mut kept.cache)
    }

    /// A viewer has applied updates up to this one.
    pub(crate) fn acked(&mut self, id: ConnectionId, viewer: ViewerId, update: u64, session: &mut Session) {
        if let Some(kept) = self.connected.get_mut(&id) {
            kept.acked = kept.acked.max(update);
        }
        self.get(id, viewer, session);
    }

    /// The viewer has lost track of what it shows: nothing that it kept can be relied on.
    pub(crate) fn distrust(&mut self, id: ConnectionId) {
        if let Some(kept) = self.connected.get_mut(&id) {
            kept.cache.distrust();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: CacheOffer = CacheOffer { bytes: 4 << 20, token: [0; 16], update: 0 };

    /// Caches, and connections that are counted as random numbers are.
    #[derive(Default)]
    struct World {
        caches: Caches,
        next: u8,
        connections: u64,
    }

    impl World {
        fn come(&mut self, offer: CacheOffer, now: Micros) -> (ConnectionId, CacheGrant) {
            self.connections += 1;
            let id = ConnectionId(self.connections);
            let next = &mut self.next;
            let random = |bytes: &mut [u8]| {
                *next += 1;
                bytes.fill(*next);
            };
            (id, self.caches.offer(id, &offer, now, random).unwrap().expect("it is large enough"))
        }
    }

    fn back(grant: CacheGrant) -> CacheOffer {
        CacheOffer { token: grant.token, ..OFFER }
    }

    #[test]
    fn a_token_is_good_once_and_for_its_time() {
        let mut world = World::default();
        let (id, grant) = world.come(OFFER, 0);
        assert!(!grant.resumed, "zeros name nothing");
        world.caches.leave(id, 0);
        let (id, again) = world.come(back(grant), 1);
        assert!(again.resumed && again.token != grant.token);
        assert!(!world.come(back(grant), 1).1.resumed, "the old token is void");
        world.caches.leave(id, 1);
        assert!(!world.come(back(again), LEFT_TIME.as_micros() as Micros + 1).1.resumed, "that was long ago");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut world = World::default();
        let grants: Vec<CacheGrant> = (0..=LEFT_MAX as u64)
            .map(|now| {
                let (id, grant) = world.come(OFFER, now);
                world.caches.leave(id, now);
                grant
            })
            .collect();
        assert!(!world.come(back(grants[0]), 100).1.resumed, "the longest gone was forgotten");
        assert!(world.come(back(grants[1]), 100).1.resumed);
    }

    #[test]
    fn offers_that_are_small_or_second_get_nothing() {
        let mut caches = Caches::default();
        let id = ConnectionId(1);
        let small = CacheOffer { bytes: BYTES_MIN - 1, ..OFFER };
        assert_eq!(caches.offer(id, &small, 0, |_| ()), Ok(None));
        assert!(caches.offer(id, &OFFER, 0, |bytes| bytes.fill(1)).is_ok_and(|grant| grant.is_some()));
        assert!(caches.offer(id, &OFFER, 0, |bytes| bytes.fill(2)).is_err());
    }

    #[test]
    fn a_viewer_whose_old_connection_nobody_has_missed_takes_its_directory_along() {
        let mut world = World::default();
        let (old, grant) = world.come(OFFER, 0);
        let (_, again) = world.come(back(grant), 1);
        assert!(again.resumed);
        assert!(!world.caches.connected.contains_key(&old), "the old connection has none");
    }
}
