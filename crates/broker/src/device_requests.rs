//! What the helper does when a person has a device remembered, looks at their devices or has one
//! forgotten. Beside the path: from helper.rs, to devices.rs and the audit log. Knows logins by
//! their cookies; never a private key.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use thinc_transport::device::{DeviceId, PublicKey};
use tracing::warn;

use crate::audit::{Entry, Event};
use crate::devices::{Account, Device, NotRemembered, Saved, now_s};
use crate::helper::{State, hash};
use crate::message::{DeviceReply, Reason, Reply, Secret};

/// How long after a login with a password its device may be remembered: the page asks at once. Who
/// gets hold of an open login later cannot make it last for longer.
const REMEMBER_WITHIN: Duration = Duration::from_secs(120);

/// Who has a device forgotten, for the audit log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct By<'a> {
    pub(crate) reason: &'a str,
    pub(crate) from: Option<IpAddr>,
    /// The administrator's user ID.
    pub(crate) administrator: Option<u32>,
}

/// True once all of them are on the disk.
async fn all(saved: Vec<Saved>) -> bool {
    let mut is_saved = true;
    for one in saved {
        is_saved &= matches!(one.await, Ok(Ok(())));
    }
    is_saved
}

impl State {
    /// Forgets a device, and ends the logins that it has opened except that of `kept`.
    pub(crate) fn forget_device(
        &mut self,
        id: DeviceId,
        by: By<'_>,
        kept: Option<&Secret>,
    ) -> Option<Saved> {
        let (saved, user, device) = self.devices.forget(id)?;
        self.note_forgotten(&user, &device, by);
        self.end_logins_of(id, kept);
        Some(saved)
    }

    /// Which device a login belongs to, for the next helper too.
    fn set_device(&mut self, login: u64, device: Option<DeviceId>) {
        if let Some(login) = self.logins.iter_mut().find(|one| one.number == login) {
            login.device = device;
            login.keep();
        }
    }

    fn note_forgotten(&mut self, user: &str, device: &Device, by: By<'_>) {
        let id = device.id.to_string();
        self.audit.record(&Entry {
            user: Some(user),
            from: by.from,
            reason: Some(by.reason),
            by: by.administrator,
            device: Some(&id),
            ..Entry::new(Event::Forgotten)
        });
    }

    /// Those that are not valid any more. Nobody waits for the disk: they are not valid after a
    /// restart either.
    pub(crate) fn expire_devices(&mut self) {
        for id in self.devices.expired(now_s()) {
            self.forget_device(id, By { reason: "expired", ..By::default() }, None);
        }
    }
}

/// Remembers the device of a person who has just logged in with their password. `account` is
/// [`account_of`]; it may wait.
pub(crate) async fn remember(
    state: Rc<RefCell<State>>,
    attempt: u64,
    cookie: Secret,
    (key, name): (PublicKey, String),
    account: impl FnOnce(&str, DeviceId) -> io::Result<Option<Account>> + Send + 'static,
) -> Reply {
    let refused = Reply::Refused { attempt, reason: Reason::Refused };
    let cookie_hash = hash(&cookie);
    // Once for a login.
    let login = {
        let mut state = state.borrow_mut();
        state.expire_devices();
        let login = state.logins.iter_mut().find(|login| login.cookie_hash == cookie_hash);
        login.filter(|login| login.since.elapsed() < REMEMBER_WITHIN).and_then(|login| {
            std::mem::take(&mut login.may_remember).then(|| (login.number, login.user.clone()))
        })
    };
    let Some((number, user)) = login else { return refused };
    let id = DeviceId::of(&key);
    let asked = user.clone();
    let account = tokio::task::spawn_blocking(move || account(&asked, id)).await;
    let account = account.map_err(io::Error::other).and_then(|account| account);
    let (uid, password) = match account {
        Ok(Some(account)) => account,
        Ok(None) => return refused,
        Err(error) => {
            warn!(user, "a device of {user} is not remembered: {error}");
            return refused;
        }
    };
    let (saved, seconds) = {
        let mut state = state.borrow_mut();
        // Who has logged out meanwhile wants nothing to be remembered.
        if !state.logins.iter().any(|login| login.number == number) {
            return refused;
        }
        let life = state.devices.life();
        let device = Device::new(key, name, password, now_s(), life);
        match state.devices.remember(&user, uid, device) {
            Ok((saved, displaced)) => {
                // Before the disk has it: who logs out now has the device forgotten.
                state.set_device(number, Some(id));
                if let Some(displaced) = displaced {
                    let by = By { reason: "displaced by a newer device", ..By::default() };
                    state.note_forgotten(&user, &displaced, by);
                    state.end_logins_of(displaced.id, None);
                }
                (saved, life.as_secs())
            }
            Err(reason) => {
                if reason != NotRemembered::Off {
                    warn!(user, "a device of {user} is not remembered: {reason}");
                }
                return refused;
            }
        }
    };
    let is_saved = matches!(saved.await, Ok(Ok(())));
    let mut state = state.borrow_mut();
    if !is_saved {
        // It would be lost with this helper, and the person was told that it would not.
        drop(state.devices.forget(id));
        state.set_device(number, None);
        return refused;
    }
    // It was forgotten while it was written.
    if state.devices.known(id, now_s()).is_none() {
        return refused;
    }
    let shown = id.to_string();
    state.audit.record(&Entry {
        login: Some(number),
        user: Some(&user),
        device: Some(&shown),
        ..Entry::new(Event::Remembered)
    });
    Reply::Device(DeviceReply::Remembered { attempt, device: id, seconds })
}

/// The devices of the person whose login this is.
pub(crate) fn list(state: &RefCell<State>, attempt: u64, cookie: &Secret) -> Reply {
    let mut state = state.borrow_mut();
    state.expire_devices();
    let login = state.login_of(cookie).map(|login| (login.user.clone(), login.device));
    let Some((user, own)) = login else {
        return Reply::Refused { attempt, reason: Reason::Refused };
    };
    let devices = state.devices.list(&user, own, now_s());
    Reply::Device(DeviceReply::Devices { attempt, devices })
}

/// Forgets a device of the person whose login this is.
pub(crate) async fn forget(
    state: Rc<RefCell<State>>,
    attempt: u64,
    cookie: Secret,
    device: DeviceId,
) -> Reply {
    let refused = Reply::Refused { attempt, reason: Reason::Refused };
    let saved = {
        let mut state = state.borrow_mut();
        let user = state.login_of(&cookie).map(|login| login.user.clone());
        let is_own = user.is_some_and(|user| state.devices.of_user(&user).contains(&device));
        let by = By { reason: "by the person", ..By::default() };
        is_own.then(|| state.forget_device(device, by, Some(&hash(&cookie)))).flatten()
    };
    let is_forgotten = match saved {
        Some(saved) => all(vec![saved]).await,
        None => false,
    };
    if is_forgotten { Reply::Device(DeviceReply::Forgotten { attempt }) } else { refused }
}

/// Forgets a device of this account, or all of them, for the administrator.
pub(crate) async fn forget_for_administrator(
    state: &RefCell<State>,
    user: &str,
    device: Option<DeviceId>,
    administrator: Option<u32>,
) {
    let saved: Vec<Saved> = {
        let mut state = state.borrow_mut();
        let mut ids = state.devices.of_user(user);
        ids.retain(|id| device.is_none_or(|device| device == *id));
        let by = By { reason: "by the administrator", administrator, ..By::default() };
        ids.into_iter().filter_map(|id| state.forget_device(id, by, None)).collect()
    };
    // What could not be written is in the log.
    all(saved).await;
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};

    use super::*;
    use crate::devices::{Change, Devices};
    use crate::helper::{LOGIN_LIFE, Login};
    use crate::packets::{self, Channel};

    const COOKIE: Secret = [1; 32];

    /// What a test decides: when the account is found, and what the disk does.
    struct Remembering {
        state: Rc<RefCell<State>>,
        id: DeviceId,
        asked: JoinHandle<Reply>,
        found: Sender<Option<Account>>,
        disk: Receiver<Change>,
    }

    /// Anna has just logged in, and has a device remembered.
    async fn begun() -> Remembering {
        let (devices, disk) = Devices::with_disk(Duration::from_secs(1000));
        let mut state = State::default();
        state.devices = devices;
        state.add(Login {
            number: 7,
            since: Instant::now(),
            cookie_hash: hash(&COOKIE),
            origin_secret_hash: [2; 32],
            user: "anna".to_owned(),
            agent: Rc::new(std::fs::File::open("/dev/null").unwrap().into()),
            ends: Instant::now() + LOGIN_LIFE,
            process: Rc::new(Channel::new(packets::pair().unwrap().0).unwrap()),
            device: None,
            may_remember: true,
        });
        let state = Rc::new(RefCell::new(state));
        let key = [4; 65];
        let (found, account) = channel();
        let look_up = move |_: &str, _| account.recv().map_err(io::Error::other);
        let device = (key, "laptop".to_owned());
        let asked = spawn_local(remember(state.clone(), 1, COOKIE, device, look_up));
        while state.borrow().logins[0].may_remember {
            yield_now().await;
        }
        Remembering { state, id: DeviceId::of(&key), asked, found, disk }
    }

    impl Remembering {
        /// The account is found; the disk has to write the device.
        async fn change(&self) -> Change {
            self.found.send(Some((1000, None))).unwrap();
            loop {
                match self.disk.try_recv() {
                    Ok(change) => return change,
                    Err(_) => yield_now().await,
                }
            }
        }

        /// Nothing is remembered, and the person is told so; returns the device of their login.
        async fn refusal(self) -> Option<DeviceId> {
            let refused = Reply::Refused { attempt: 1, reason: Reason::Refused };
            assert_eq!(self.asked.await.unwrap(), refused);
            let state = self.state.borrow();
            assert_eq!(state.devices.known(self.id, now_s()), None);
            state.logins.first().and_then(|login| login.device)
        }
    }

    fn in_a_task(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn a_device_is_remembered_once_it_is_on_the_disk() {
        in_a_task(async {
            let begun = begun().await;
            let change = begun.change().await;
            yield_now().await;
            assert!(!begun.asked.is_finished());
            change.done.send(Ok(())).unwrap();
            let reply = begun.asked.await.unwrap();
            let remembered =
                DeviceReply::Remembered { attempt: 1, device: begun.id, seconds: 1000 };
            assert_eq!(reply, Reply::Device(remembered));
            assert_eq!(begun.state.borrow().logins[0].device, Some(begun.id));
        });
    }

    #[test]
    fn who_logs_out_while_their_device_is_being_remembered_is_not_remembered() {
        in_a_task(async {
            // While the disk writes it.
            let begun = begun().await;
            let change = begun.change().await;
            let forgotten = begun.state.borrow_mut().end(&COOKIE);
            assert!(forgotten.is_some(), "the device is forgotten with the login");
            change.done.send(Ok(())).unwrap();
            begun.refusal().await;
        });
        in_a_task(async {
            // While a directory looks for the account.
            let begun = begun().await;
            assert!(begun.state.borrow_mut().end(&COOKIE).is_none());
            begun.found.send(Some((1000, None))).unwrap();
            begun.refusal().await;
        });
    }

    #[test]
    fn a_device_that_cannot_be_written_is_not_that_of_its_login() {
        in_a_task(async {
            let begun = begun().await;
            let change = begun.change().await;
            change.done.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
            assert_eq!(begun.refusal().await, None);
        });
    }
}
