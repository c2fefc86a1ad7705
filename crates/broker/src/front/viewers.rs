//! Which viewers show which desktop through this front, for the list of its owner and for figures;
//! and for the audit log, that each has come and left. Beside the path: from everything that
//! connects a viewer with a session (http.rs, native.rs, webtransport.rs, guests.rs), to logins.rs
//! and figures.rs. Knows names and addresses; never what a viewer shows.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::Serialize;

use super::logins::{Login, Logins};
use super::uplink::Place;
use crate::message::{Deed, Request};
use crate::monitor::{TRANSPORTS, TransportKind};

/// A viewer that shows a desktop.
struct Shown {
    user: String,
    session: String,
    from: IpAddr,
    since: Instant,
    is_guest: bool,
    transport: TransportKind,
}

/// The same for the list of its owner.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ShownAt {
    from: IpAddr,
    /// Seconds.
    since_s: u64,
    is_guest: bool,
}

/// All of them, by the viewer's number.
#[derive(Default)]
pub(super) struct Viewers(Mutex<HashMap<u64, Shown>>);

impl Viewers {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Shown>> {
        self.0.lock().expect("no holder of this lock can panic")
    }

    /// How many there are of each transport.
    pub(super) fn count(&self) -> [u64; TRANSPORTS.len()] {
        let mut counts = [0; TRANSPORTS.len()];
        self.lock().values().for_each(|one| counts[one.transport as usize] += 1);
        counts
    }

    /// Where a desktop of this user is shown now, the longest first.
    pub(super) fn of(&self, user: &str, session: &str) -> Vec<ShownAt> {
        let viewers = self.lock();
        let is_it = |one: &&Shown| one.user == user && one.session == session;
        let mut shown: Vec<&Shown> = viewers.values().filter(is_it).collect();
        shown.sort_by_key(|one| one.since);
        let told = |one: &Shown| ShownAt {
            from: one.from,
            since_s: one.since.elapsed().as_secs(),
            is_guest: one.is_guest,
        };
        shown.into_iter().map(told).collect()
    }
}

/// A viewer's entry, which ends with this value: also if the viewer's task is aborted.
pub(crate) struct Showing {
    logins: Arc<Logins>,
    viewer: u64,
    left: Request,
    place: Option<Place>,
}

impl Showing {
    /// Its place at the uplink, if that has a limit.
    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }
}

impl Logins {
    /// A viewer is connected with a session of this person, until what this returns is dropped.
    pub(crate) async fn show(
        self: &Arc<Self>,
        login: &Login,
        source: IpAddr,
        viewer: u64,
        deed: Deed,
        session: &str,
        transport: TransportKind,
    ) -> Showing {
        let shown = Shown {
            user: login.user.clone(),
            session: session.to_owned(),
            from: source,
            since: Instant::now(),
            is_guest: deed == Deed::Visited,
            transport,
        };
        self.viewers.lock().insert(viewer, shown);
        let left = login.note(source, viewer, Deed::Left, session);
        // Before the first wait, at which the task may be aborted.
        let place = self.uplink.as_ref().map(|uplink| uplink.enter(viewer, &login.user, session));
        let showing = Showing { logins: self.clone(), viewer, left, place };
        self.tell(&login.note(source, viewer, deed, session)).await;
        showing
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        self.logins.viewers.lock().remove(&self.viewer);
        if self.logins.try_tell(&self.left) {
            return;
        }
        // The helper is busy. Without an event loop this front is ending, and the helper knows.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (logins, left) = (self.logins.clone(), self.left.clone());
            runtime.spawn(async move { logins.tell(&left).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::message::{MESSAGE_BYTES_MAX, Reply};
    use crate::packets::{self, Channel};

    fn logins() -> (Arc<Logins>, OwnedFd) {
        let (near, far) = packets::pair().unwrap();
        (Arc::new(Logins::new(Channel::new(near).unwrap(), None)), far)
    }

    fn login(logins: &Logins) -> Arc<Login> {
        let (agent, _) = packets::pair().unwrap();
        let (cookie, origin_secret) = ([1; 32], [2; 32]);
        let user = "anna".to_owned();
        let admitted = Reply::Admitted { attempt: 1, cookie, origin_secret, user };
        logins.admit(admitted, Some(agent)).unwrap()
    }

    fn next(helper: &OwnedFd) -> (u64, Deed) {
        let packet = packets::receive(helper, MESSAGE_BYTES_MAX).unwrap();
        match Request::decode(&packet.bytes).unwrap() {
            Request::Note { viewer, deed, .. } => (viewer, deed),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_entry_ends_when_the_task_of_its_viewer_is_aborted() {
        let (logins, helper) = logins();
        let login = login(&logins);
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (shown, is_shown) = tokio::sync::oneshot::channel();
        let (of_task, login_of_task) = (logins.clone(), login.clone());
        let task = tokio::spawn(async move {
            let (deed, transport) = (Deed::Opened, TransportKind::Quic);
            let _showing = of_task.show(&login_of_task, from, 7, deed, "desk", transport).await;
            shown.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        is_shown.await.unwrap();
        assert_eq!(logins.viewers.of("anna", "desk").len(), 1);
        assert_eq!(logins.viewers.count(), [0, 1, 0, 0]);
        assert_eq!(logins.viewers.of("anna", "other"), []);
        assert_eq!(logins.viewers.of("otto", "desk"), []);
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(logins.viewers.count(), [0; 4]);
        assert_eq!(logins.viewers.of("anna", "desk"), []);
        assert_eq!([next(&helper), next(&helper)], [(7, Deed::Opened), (7, Deed::Left)]);
    }

    #[tokio::test]
    async fn the_end_is_told_too_while_the_helper_does_not_read() {
        let (logins, helper) = logins();
        let login = login(&logins);
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (deed, transport) = (Deed::Opened, TransportKind::Tcp);
        let showing = logins.show(&login, from, 7, deed, "desk", transport).await;
        let filler = login.note(from, 8, Deed::Started, "desk");
        let filled = (0..100_000).take_while(|_| logins.try_tell(&filler)).count();
        assert!(filled > 0 && filled < 100_000, "the socket has a limit");
        drop(showing);
        assert_eq!(logins.viewers.of("anna", "desk"), []);
        let told = tokio::task::spawn_blocking(move || {
            for _ in 0..=filled {
                next(&helper);
            }
            next(&helper)
        });
        assert_eq!(told.await.unwrap(), (7, Deed::Left));
    }
}
