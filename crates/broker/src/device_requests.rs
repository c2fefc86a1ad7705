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
use crate::devices::{Device, NotRemembered, Saved, account_of, now_s};
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

/// Remembers the device of a person who has just logged in with their password.
pub(crate) async fn remember(
    state: Rc<RefCell<State>>,
    attempt: u64,
    cookie: Secret,
    key: PublicKey,
    name: String,
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
    let account = tokio::task::spawn_blocking(move || account_of(&asked, id)).await;
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
        let life = state.devices.life();
        let hashes = (password, Some(cookie_hash));
        let device = Device::new(key, name, hashes, now_s(), life);
        match state.devices.remember(&user, uid, device) {
            Ok((saved, displaced)) => {
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
    if !matches!(saved.await, Ok(Ok(()))) {
        // It would be lost with this helper, and the person was told that it would not.
        drop(state.borrow_mut().devices.forget(id));
        return refused;
    }
    let mut state = state.borrow_mut();
    if let Some(login) = state.logins.iter_mut().find(|login| login.number == number) {
        login.device = Some(id);
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
