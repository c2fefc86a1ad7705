//! Path 8/13, beside render.rs: the directories of viewers' caches, from one connection to the
//! next. From actor.rs with a viewer's offer, to its plans; kept for a while after a viewer
//! disconnects. Knows directories and the tokens that name them; never pixels.

use std::collections::BTreeMap;
use std::time::Duration;

use thinc_pixels::Cache;
use thinc_pixels::cache::Outcome;
use thinc_protocol::Micros;
use thinc_protocol::limits::CACHE_TOKEN_BYTES;
use thinc_protocol::session::CacheGrant;
use thinc_protocol::viewer::CacheOffer;
use thinc_session_core::{self as core, Session, ViewerId};

use crate::connection::ConnectionId;

/// Directories kept of disconnected viewers; one takes about 1 MB if 64 MiB were offered, and 13 MB
/// at most.
const DISCONNECTED_MAX: usize = 8;
/// How long they are kept: over lunch.
const DISCONNECTED_LIFETIME: Duration = Duration::from_secs(2 * 60 * 60);
/// 1 MiB: a smaller cache is not worth a directory.
const BYTES_MIN: u64 = 1024 * 1024;

/// Names a directory; a secret between the session and its viewer, valid once.
type Token = [u8; CACHE_TOKEN_BYTES];

struct ViewerCache {
    token: Token,
    cache: Cache,
    /// The newest update that the viewer has acknowledged.
    acked: u64,
}

impl ViewerCache {
    fn new(token: Token, cache: Cache) -> ViewerCache {
        ViewerCache { token, cache, acked: 0 }
    }
}

/// The directories of all connected viewers, and of those that may reconnect.
#[derive(Default)]
pub(crate) struct Caches {
    connected: BTreeMap<ConnectionId, ViewerCache>,
    /// Longest disconnected first.
    disconnected: Vec<(Micros, Token, Cache)>,
}

impl Caches {
    /// Answers an offer; `None` if it is too small. `random` fills in unpredictable bytes.
    ///
    /// # Errors
    /// It is the viewer's second offer.
    pub(crate) fn offer(
        &mut self,
        id: ConnectionId,
        offer: &CacheOffer,
        now: Micros,
        mut random: impl FnMut(&mut [u8]),
    ) -> Result<Option<CacheGrant>, &'static str> {
        if self.connected.contains_key(&id) {
            return Err("a second cache offer");
        }
        if offer.bytes < BYTES_MIN {
            return Ok(None);
        }
        let before = self.take(&offer.token, now);
        let resumed =
            before.and_then(|mut cache| cache.resume(offer.update, offer.bytes).then_some(cache));
        let mut token = Token::default();
        random(&mut token);
        let grant = CacheGrant { token, resumed: resumed.is_some() };
        let cache = resumed.unwrap_or_else(|| {
            let mut key = [[0; 8]; 4];
            key.iter_mut().for_each(|word| random(word));
            Cache::new(key.map(u64::from_le_bytes), offer.bytes)
        });
        self.connected.insert(id, ViewerCache::new(token, cache));
        Ok(Some(grant))
    }

    /// The directory of this token, which becomes invalid.
    fn take(&mut self, token: &Token, now: Micros) -> Option<Cache> {
        self.remove_expired(now);
        // A token of a connected viewer: the same viewer, whose old connection has not been
        // detected as broken yet.
        let connected =
            self.connected.iter().find(|(_, entry)| entry.token == *token).map(|(&id, _)| id);
        if let Some(id) = connected {
            self.handle_disconnect(id, now);
        }
        let at = self.disconnected.iter().position(|(_, disconnected, _)| disconnected == token)?;
        Some(self.disconnected.remove(at).2)
    }

    /// The viewer has disconnected.
    pub(crate) fn handle_disconnect(&mut self, id: ConnectionId, now: Micros) {
        let Some(ViewerCache { token, mut cache, .. }) = self.connected.remove(&id) else { return };
        cache.disconnect();
        self.remove_expired(now);
        if self.disconnected.len() == DISCONNECTED_MAX {
            self.disconnected.remove(0);
        }
        self.disconnected.push((now, token, cache));
    }

    fn remove_expired(&mut self, now: Micros) {
        self.disconnected
            .retain(|(since, ..)| now < since + DISCONNECTED_LIFETIME.as_micros() as Micros);
    }

    /// The directory of a connected viewer, after applying the outcomes of its jobs.
    pub(crate) fn get(
        &mut self,
        id: ConnectionId,
        viewer: ViewerId,
        session: &mut Session,
    ) -> Option<&mut Cache> {
        let mut entry = self.connected.get_mut(&id);
        while let Some((job, fate)) = session.poll_outcome(viewer) {
            if let Some(entry) = &mut entry {
                let fate = match fate {
                    core::JobOutcome::Applied => Outcome::Applied { update: entry.acked },
                    core::JobOutcome::Discarded => Outcome::Discarded,
                };
                entry.cache.end(job.0, fate);
            }
        }
        entry.map(|entry| &mut entry.cache)
    }

    /// A viewer has applied updates up to this one.
    pub(crate) fn acked(
        &mut self,
        id: ConnectionId,
        viewer: ViewerId,
        update: u64,
        session: &mut Session,
    ) {
        if let Some(entry) = self.connected.get_mut(&id) {
            entry.acked = entry.acked.max(update);
        }
        self.get(id, viewer, session);
    }

    /// The viewer does not know what it shows: nothing in its cache can be relied on.
    pub(crate) fn invalidate(&mut self, id: ConnectionId) {
        if let Some(entry) = self.connected.get_mut(&id) {
            entry.cache.invalidate();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: CacheOffer = CacheOffer { bytes: 4 << 20, token: [0; 16], update: 0 };

    /// Caches, with counters for connections and random bytes.
    #[derive(Default)]
    struct TestCaches {
        caches: Caches,
        next: u8,
        connections: u64,
    }

    impl TestCaches {
        fn connect(&mut self, offer: CacheOffer, now: Micros) -> (ConnectionId, CacheGrant) {
            self.connections += 1;
            let id = ConnectionId(self.connections);
            let next = &mut self.next;
            let random = |bytes: &mut [u8]| {
                *next += 1;
                bytes.fill(*next);
            };
            (
                id,
                self.caches
                    .offer(id, &offer, now, random)
                    .unwrap()
                    .expect("the offer is large enough"),
            )
        }
    }

    fn resume(grant: CacheGrant) -> CacheOffer {
        CacheOffer { token: grant.token, ..OFFER }
    }

    #[test]
    fn a_token_is_valid_once_and_until_it_expires() {
        let mut test = TestCaches::default();
        let (id, grant) = test.connect(OFFER, 0);
        assert!(!grant.resumed, "a token of zeros names no directory");
        test.caches.handle_disconnect(id, 0);
        let (id, again) = test.connect(resume(grant), 1);
        assert!(again.resumed && again.token != grant.token);
        assert!(!test.connect(resume(grant), 1).1.resumed, "the old token is invalid");
        test.caches.handle_disconnect(id, 1);
        assert!(
            !test.connect(resume(again), DISCONNECTED_LIFETIME.as_micros() as Micros + 1).1.resumed,
            "the directory has expired"
        );
    }

    #[test]
    fn a_limited_number_of_directories_is_remembered() {
        let mut test = TestCaches::default();
        let grants: Vec<CacheGrant> = (0..=DISCONNECTED_MAX as u64)
            .map(|now| {
                let (id, grant) = test.connect(OFFER, now);
                test.caches.handle_disconnect(id, now);
                grant
            })
            .collect();
        assert!(
            !test.connect(resume(grants[0]), 100).1.resumed,
            "the longest disconnected was forgotten"
        );
        assert!(test.connect(resume(grants[1]), 100).1.resumed);
    }

    #[test]
    fn small_and_second_offers_are_refused() {
        let mut caches = Caches::default();
        let id = ConnectionId(1);
        let small = CacheOffer { bytes: BYTES_MIN - 1, ..OFFER };
        assert_eq!(caches.offer(id, &small, 0, |_| ()), Ok(None));
        assert!(
            caches.offer(id, &OFFER, 0, |bytes| bytes.fill(1)).is_ok_and(|grant| grant.is_some())
        );
        assert!(caches.offer(id, &OFFER, 0, |bytes| bytes.fill(2)).is_err());
    }

    #[test]
    fn a_viewer_that_reconnects_before_its_old_connection_breaks_keeps_its_directory() {
        let mut test = TestCaches::default();
        let (old, grant) = test.connect(OFFER, 0);
        let (_, again) = test.connect(resume(grant), 1);
        assert!(again.resumed);
        assert!(!test.caches.connected.contains_key(&old), "the old connection has no directory");
    }
}
