//! Path 10/13 through the broker: what the host, and each desktop, may send to viewers. Between
//! relay.rs, which asks before it sends a session's bytes on, and division.rs, which decides.
//! There is a timer only while somebody waits. Knows viewers by number, and clocks; never bytes.

mod division;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thinc_transport::path::ShareTeller;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep_until;
use tracing::debug;

use crate::limits::Rates;
use division::Division;

/// A session is told a share that is more by this part of what it was told last, and any that is
/// less: all together must not send more than the link carries.
const TOLD_PART: u64 = 32;

/// The uplink of the host.
pub(crate) struct Uplink {
    state: Mutex<State>,
    /// Somebody waits.
    waits: Notify,
    began: Instant,
}

struct State {
    division: Division,
    /// Of viewers that wait, by number.
    turns: HashMap<u64, oneshot::Sender<()>>,
    tellers: HashMap<u64, Teller>,
}

struct Teller {
    to: ShareTeller,
    told: u64,
}

impl State {
    /// Tells sessions what they may send, if that has changed.
    fn tell(&mut self) {
        if !self.division.take_changed() {
            return;
        }
        for (&viewer, teller) in &mut self.tellers {
            let share = self.division.share(viewer);
            let told = teller.told;
            if share == told || share > told && share - told <= told / TOLD_PART {
                continue;
            }
            teller.told = share;
            if let Err(error) = teller.to.tell(share) {
                debug!("viewer {viewer}: its session is not told its share: {error}");
            }
        }
    }
}

impl Uplink {
    /// None without a limit.
    pub(super) fn new(rates: Rates) -> Option<Arc<Uplink>> {
        if rates == Rates::default() {
            return None;
        }
        let (turns, tellers) = (HashMap::new(), HashMap::new());
        let state = State { division: Division::new(rates, 0), turns, tellers };
        let (state, waits) = (Mutex::new(state), Notify::new());
        Some(Arc::new(Uplink { state, waits, began: Instant::now() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock can panic")
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// A viewer shows a desktop of this user, until what this returns is dropped.
    pub(super) fn enter(self: &Arc<Self>, viewer: u64, user: &str, session: &str) -> Place {
        let now = self.now();
        let mut state = self.lock();
        state.division.enter(viewer, user, session, now);
        state.tell();
        Place { uplink: self.clone(), viewer }
    }

    /// Lets those go that wait, without end.
    pub(super) async fn run(&self) {
        loop {
            self.waits.notified().await;
            while let Some(deadline) = self.let_go() {
                tokio::select! {
                    () = sleep_until(deadline.into()) => {}
                    // Who has just come may go earlier than all others.
                    () = self.waits.notified() => {}
                }
            }
        }
    }

    /// Lets those go whose turn it is. Returns when the next may go, if any waits.
    fn let_go(&self) -> Option<Instant> {
        let now = self.now();
        let mut state = self.lock();
        while let Some(viewer) = state.division.poll(now) {
            if let Some(turn) = state.turns.remove(&viewer) {
                // It may have ended meanwhile.
                let _ = turn.send(());
            }
        }
        state.tell();
        let deadline = state.division.deadline()?;
        Some(self.began + Duration::from_micros(deadline))
    }
}

/// A viewer's place at the uplink.
pub(crate) struct Place {
    uplink: Arc<Uplink>,
    viewer: u64,
}

impl Place {
    /// Where its session is told what it may send.
    pub(super) fn set_teller(&self, to: ShareTeller) {
        let mut state = self.uplink.lock();
        let told = state.division.share(self.viewer);
        if let Err(error) = to.tell(told) {
            debug!("viewer {}: its session is not told its share: {error}", self.viewer);
        }
        state.tellers.insert(self.viewer, Teller { to, told });
    }

    /// Most bytes to be taken from its session at once.
    pub(super) fn read_bytes(&self) -> usize {
        self.uplink.lock().division.read_bytes()
    }

    /// Waits until so many bytes may be sent.
    pub(super) async fn admit(&self, bytes: usize) {
        let turn = {
            let now = self.uplink.now();
            let mut state = self.uplink.lock();
            let goes = state.division.ask(self.viewer, bytes as u64, now);
            state.tell();
            if goes {
                return;
            }
            let (send, turn) = oneshot::channel();
            state.turns.insert(self.viewer, send);
            turn
        };
        self.uplink.waits.notify_one();
        // An error: its place was taken by nobody, and it has ended.
        let _ = turn.await;
    }

    /// False if a datagram of so many bytes is lost.
    pub(super) fn admits_datagram(&self, bytes: u64) -> bool {
        let now = self.uplink.now();
        let mut state = self.uplink.lock();
        let admits = state.division.admits_datagram(self.viewer, bytes, now);
        state.tell();
        admits
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.uplink.lock();
        state.division.leave(self.viewer);
        state.turns.remove(&self.viewer);
        state.tellers.remove(&self.viewer);
        state.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uplink(rate: u64) -> Arc<Uplink> {
        Uplink::new(Rates { uplink: Some(rate), session: None }).unwrap()
    }

    #[test]
    fn without_a_limit_there_is_no_uplink() {
        assert!(Uplink::new(Rates::default()).is_none());
        assert!(Uplink::new(Rates { uplink: None, session: Some(1) }).is_some());
    }

    #[tokio::test]
    async fn who_waits_gets_a_turn_and_a_desktop_that_types_does_not_wait() {
        let uplink = uplink(62_500);
        let (busy, typed) = (uplink.enter(1, "anna", "desk"), uplink.enter(2, "otto", "desk"));
        let runs = uplink.clone();
        let running = tokio::spawn(async move { runs.run().await });
        busy.admit(20_000).await;
        let busy = tokio::spawn(async move {
            busy.admit(2_000).await;
            busy
        });
        tokio::task::yield_now().await;
        assert!(uplink.lock().division.deadline().is_some(), "it waits for a third of a second");
        typed.admit(200).await;
        assert!(typed.admits_datagram(200));
        assert!(!busy.is_finished(), "who types has gone before");
        let busy = busy.await.unwrap();
        assert_eq!(uplink.lock().division.deadline(), None, "nobody waits, and no timer runs");
        drop((busy, typed));
        let state = uplink.lock();
        assert!(state.turns.is_empty() && state.tellers.is_empty());
        running.abort();
    }

    #[tokio::test]
    async fn a_session_is_told_its_share_and_what_becomes_of_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut &accepted, b"counted").unwrap();
        let path = thinc_transport::socket::TcpPath::of(&accepted).unwrap();
        let share = || path.info().unwrap().share;
        assert_eq!(share(), None);
        let uplink = uplink(2_500_000);
        let place = uplink.enter(1, "anna", "desk");
        place.set_teller(ShareTeller::Tcp(accepted.into()));
        let alone = share().unwrap();
        assert!(alone > 2_200_000 && alone < 2_500_000, "{alone}");
        // Another one wants all that it may have.
        let other = uplink.enter(2, "otto", "desk");
        assert!((0..40).all(|_| other.admits_datagram(1_000)));
        let beside_another = share().unwrap();
        assert!(beside_another < alone / 100 * 60, "{beside_another}");
        drop(other);
        assert_eq!(share(), Some(alone));
    }
}
