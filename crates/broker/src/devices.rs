//! The devices that people have asked to be remembered: a file for each account, and what of it is
//! valid. Beside the path: used by helper.rs and attempt.rs; `thinc admin` reads the files. Runs as
//! root; knows public keys, hashes and times, which are arguments; never a secret that signs
//! anybody in.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use nix::unistd::User;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thinc_transport::base64url;
use thinc_transport::device::{DeviceId, PublicKey};
use thiserror::Error;
use tokio::sync::oneshot;
use tracing::warn;

use crate::keep;
use crate::message::{
    DEVICES_PER_USER_MAX, Known, ListedDevice, Secret, is_device_name, is_user_name,
};

/// In the state folder: one file for each account, named by its user ID.
const FOLDER: &str = "devices";
/// Longest file; one with all devices of an account has less than 10 KiB.
pub const FILE_BYTES_MAX: usize = 32 * 1024;
/// Devices of all accounts together. Past it no further one is remembered: nobody displaces those
/// of others.
const DEVICES_MAX: usize = 16_384;
/// Accounts with devices.
const ACCOUNTS_MAX: usize = 8192;
/// The format of a file.
const VERSION: u32 = 1;
/// By how much a clock may have been set back since a device was remembered.
const CLOCK_STEP_MAX_S: u64 = 3600;

/// The devices of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountDevices {
    /// The account's name when the last device was remembered.
    pub user: String,
    /// Its number, which is the file's name.
    pub uid: u32,
    /// The last used first.
    pub devices: Vec<Device>,
}

/// A device that signs its person in.
#[derive(Clone, PartialEq, Eq)]
pub struct Device {
    /// Of the key.
    pub id: DeviceId,
    /// The public half.
    pub key: PublicKey,
    /// For the person.
    pub name: String,
    /// Seconds since 1970, as are the others.
    pub made_s: u64,
    /// When it last signed in, or was remembered.
    pub used_s: u64,
    /// From then on it is not valid.
    pub until_s: u64,
    /// Hash of what shadow(5) had when it was remembered; `None` where that has no entry.
    password: Option<Secret>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({}, {:?})", self.id, self.name)
    }
}

impl Device {
    /// One that is remembered from now on, with the hash of what shadow(5) has.
    pub fn new(
        key: PublicKey,
        name: String,
        password: Option<Secret>,
        now_s: u64,
        life: Duration,
    ) -> Device {
        let until_s = now_s + life.as_secs();
        let (made_s, used_s, id) = (now_s, now_s, DeviceId::of(&key));
        Device { id, key, name, made_s, used_s, until_s, password }
    }

    fn has_expired(&self, now_s: u64) -> bool {
        now_s >= self.until_s
    }

    /// A device from the future is none: its end is not to be believed either.
    fn is_valid(&self, now_s: u64) -> bool {
        !self.has_expired(now_s) && self.made_s <= now_s + CLOCK_STEP_MAX_S
    }
}

/// Why a file is not used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DevicesError {
    /// Too long.
    #[error("it is longer than {FILE_BYTES_MAX} bytes")]
    TooLong,
    /// Torn, or changed by somebody.
    #[error("it is not what thinc wrote: {0}")]
    Content(String),
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    user: String,
    uid: u32,
    devices: Vec<StoredDevice>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDevice {
    name: String,
    /// base64url, as are the hashes.
    key: String,
    made: u64,
    used: u64,
    until: u64,
    password: Option<String>,
    /// Written by earlier versions, whose login processes did not know the device.
    #[serde(default, skip_serializing, rename = "login")]
    _login: IgnoredAny,
}

impl AccountDevices {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// They are none that [`AccountDevices::encode`] has made.
    pub fn parse(bytes: &[u8]) -> Result<AccountDevices, DevicesError> {
        if bytes.len() > FILE_BYTES_MAX {
            return Err(DevicesError::TooLong);
        }
        let wrong = |what: &str| DevicesError::Content(what.to_owned());
        let stored: Stored = serde_json::from_slice(bytes)
            .map_err(|error| DevicesError::Content(error.to_string()))?;
        if stored.version != VERSION {
            return Err(wrong("it is of another version"));
        }
        if !is_user_name(&stored.user) {
            return Err(wrong("no account has such a name"));
        }
        if stored.devices.len() > DEVICES_PER_USER_MAX {
            return Err(wrong("there are too many devices"));
        }
        let hash = |text: Option<String>| match text {
            None => Ok(None),
            Some(text) => base64url::decode(&text)
                .and_then(|bytes| bytes.try_into().ok())
                .map(Some)
                .ok_or_else(|| wrong("a hash has another length")),
        };
        let mut devices: Vec<Device> = Vec::with_capacity(stored.devices.len());
        for StoredDevice { name, key, made, used, until, password, .. } in stored.devices {
            let key: Option<PublicKey> =
                base64url::decode(&key).and_then(|bytes| bytes.try_into().ok());
            let key = key.ok_or_else(|| wrong("a key has another length"))?;
            let id = DeviceId::of(&key);
            if !is_device_name(&name) || devices.iter().any(|other| other.id == id) {
                return Err(wrong("a device has no name, or is there twice"));
            }
            let password = hash(password)?;
            let (made_s, used_s, until_s) = (made, used, until);
            devices.push(Device { id, key, name, made_s, used_s, until_s, password });
        }
        Ok(AccountDevices { user: stored.user, uid: stored.uid, devices })
    }

    /// A file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let text = |hash: &Option<Secret>| hash.map(|hash| base64url::encode(&hash));
        let devices = self.devices.iter().map(|device| StoredDevice {
            name: device.name.clone(),
            key: base64url::encode(&device.key),
            made: device.made_s,
            used: device.used_s,
            until: device.until_s,
            password: text(&device.password),
            _login: IgnoredAny,
        });
        let (user, uid) = (self.user.clone(), self.uid);
        let stored = Stored { version: VERSION, user, uid, devices: devices.collect() };
        let mut bytes = serde_json::to_vec_pretty(&stored).expect("texts and numbers are JSON");
        bytes.push(b'\n');
        bytes
    }
}

/// Reads every file of this state folder. One that cannot be used is told with its path.
///
/// # Errors
/// The folder cannot be read.
pub fn read_all(
    state: &Path,
    mut unusable: impl FnMut(&Path, &str),
) -> io::Result<Vec<AccountDevices>> {
    let folder = state.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries.take(ACCOUNTS_MAX) {
        let path = entry?.path();
        // A file that was being written when the machine lost power has another name.
        let uid = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        let Some(uid) = uid else { continue };
        let read = read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
            let account = AccountDevices::parse(&bytes).map_err(|error| error.to_string())?;
            let of_other = || "it belongs to another user ID".to_owned();
            if account.uid == uid { Ok(account) } else { Err(of_other()) }
        });
        match read {
            Ok(account) => found.push(account),
            Err(reason) => unusable(&path, &reason),
        }
    }
    found.sort_by(|a, b| a.user.cmp(&b.user));
    Ok(found)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        // A link would lead elsewhere, and to open a pipe would wait for its writer.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whole or not at all, and on the disk when this returns.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_folder(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.and_then(|()| sync_folder(path)),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path.parent().expect("the folder was joined"))?.sync_all()
}

/// A change of one file.
pub(crate) struct Change {
    path: PathBuf,
    /// `None`: the account has no device any more.
    bytes: Option<Vec<u8>>,
    /// A device that was forgotten must not come back: better no file than the old one.
    forgets: bool,
    pub(crate) done: oneshot::Sender<io::Result<()>>,
}

/// In the order of the changes, on a thread of its own: a disk takes its time, and people who log
/// in do not wait for it.
fn write_changes(changes: &mpsc::Receiver<Change>) {
    while let Ok(Change { path, bytes, forgets, done }) = changes.recv() {
        let written = match bytes {
            Some(bytes) => write(&path, &bytes),
            None => remove(&path),
        };
        if let Err(error) = &written {
            warn!("cannot write {}: {error}", path.display());
        }
        let result = match written {
            Err(_) if forgets => remove(&path),
            other => other,
        };
        // Nobody may wait for it.
        let _ = done.send(result);
    }
}

/// Ends once the change is on the disk.
pub(crate) type Saved = oneshot::Receiver<io::Result<()>>;

/// Why a device is not remembered.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum NotRemembered {
    #[error("remembering is off, or its folder cannot be used")]
    Off,
    #[error("{DEVICES_MAX} devices are remembered, which is the limit")]
    Full,
    #[error("its key is known already")]
    KnownKey,
}

/// Every device that is remembered. The default remembers none.
#[derive(Default)]
pub(crate) struct Devices {
    folder: PathBuf,
    /// How long; zero: none is.
    life: Duration,
    /// By user ID.
    accounts: BTreeMap<u32, AccountDevices>,
    writer: Option<mpsc::Sender<Change>>,
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl Devices {
    /// Those of this state folder, each for at most `life` since it was remembered. Where that
    /// cannot be used, none is remembered, and the log says why.
    pub(crate) fn open(state: &Path, life: Duration) -> Devices {
        let folder = state.join(FOLDER);
        let opened = keep::prepare(&folder).and_then(|()| {
            read_all(state, |path, reason| {
                warn!(
                    "{}: {reason}. The devices in it are not remembered: their people log \
                     in with their passwords. Remove the file",
                    path.display()
                );
            })
        });
        let found = match opened {
            Ok(found) => found,
            Err(error) => {
                warn!("{}: {error}; no device is remembered", folder.display());
                return Devices::default();
            }
        };
        let (writer, changes) = mpsc::channel();
        let thread = std::thread::Builder::new().name("devices".to_owned());
        if let Err(error) = thread.spawn(move || write_changes(&changes)) {
            warn!("cannot start a thread: {error}; no device is remembered");
            return Devices::default();
        }
        let mut accounts: BTreeMap<u32, AccountDevices> =
            found.into_iter().map(|account| (account.uid, account)).collect();
        for device in accounts.values_mut().flat_map(|account| &mut account.devices) {
            // The administrator may have shortened it.
            device.until_s = device.until_s.min(device.made_s.saturating_add(life.as_secs()));
        }
        Devices { folder, life, accounts, writer: Some(writer) }
    }

    /// None so far, for tests that write the changes themselves.
    #[cfg(test)]
    pub(crate) fn with_disk(life: Duration) -> (Devices, mpsc::Receiver<Change>) {
        let (writer, changes) = mpsc::channel();
        (Devices { life, writer: Some(writer), ..Devices::default() }, changes)
    }

    /// How long devices are remembered; zero: none is.
    pub(crate) fn life(&self) -> Duration {
        self.life
    }

    /// Writes what is known of an account.
    fn save(&self, uid: u32, forgets: bool) -> Saved {
        let (done, saved) = oneshot::channel();
        let bytes = self.accounts.get(&uid).map(AccountDevices::encode);
        let path = self.folder.join(uid.to_string());
        if let Some(writer) = &self.writer {
            // Without its thread `saved` ends with an error.
            let _ = writer.send(Change { path, bytes, forgets, done });
        }
        saved
    }

    fn count(&self) -> usize {
        self.accounts.values().map(|account| account.devices.len()).sum()
    }

    fn find(&self, id: DeviceId) -> Option<(&AccountDevices, &Device)> {
        self.accounts.values().find_map(|account| {
            Some((account, account.devices.iter().find(|device| device.id == id)?))
        })
    }

    /// Whom this device signs in now.
    pub(crate) fn known(&self, id: DeviceId, now_s: u64) -> Option<Known> {
        let (account, device) = self.find(id)?;
        device.is_valid(now_s).then(|| Known {
            user: account.user.clone(),
            uid: account.uid,
            key: device.key,
            password: device.password,
        })
    }

    /// Remembers a device of an account; also returns the one that had to make room, which was not
    /// used for longest.
    pub(crate) fn remember(
        &mut self,
        user: &str,
        uid: u32,
        device: Device,
    ) -> Result<(Saved, Option<Device>), NotRemembered> {
        if self.life.is_zero() || self.writer.is_none() {
            return Err(NotRemembered::Off);
        }
        // Two accounts with one key would be one device.
        if self.find(device.id).is_some() {
            return Err(NotRemembered::KnownKey);
        }
        let is_new = !self.accounts.contains_key(&uid);
        if self.count() >= DEVICES_MAX || (is_new && self.accounts.len() >= ACCOUNTS_MAX) {
            return Err(NotRemembered::Full);
        }
        let account = self.accounts.entry(uid).or_insert_with(|| AccountDevices {
            user: user.to_owned(),
            uid,
            devices: Vec::new(),
        });
        if account.user != user {
            // The number belonged to somebody else.
            account.devices.clear();
            user.clone_into(&mut account.user);
        }
        account.devices.insert(0, device);
        let displaced =
            if account.devices.len() > DEVICES_PER_USER_MAX { account.devices.pop() } else { None };
        Ok((self.save(uid, displaced.is_some()), displaced))
    }

    /// Forgets a device; returns whose it was.
    pub(crate) fn forget(&mut self, id: DeviceId) -> Option<(Saved, String, Device)> {
        let uid = self.find(id)?.0.uid;
        let account = self.accounts.get_mut(&uid)?;
        let user = account.user.clone();
        let at = account.devices.iter().position(|device| device.id == id)?;
        let device = account.devices.remove(at);
        if account.devices.is_empty() {
            self.accounts.remove(&uid);
        }
        Some((self.save(uid, true), user, device))
    }

    /// A device has opened a login; `None` if it is not remembered. Nobody has to wait for the
    /// disk.
    pub(crate) fn set_used(&mut self, id: DeviceId, now_s: u64) -> Option<Saved> {
        let uid = self.find(id)?.0.uid;
        let account = self.accounts.get_mut(&uid)?;
        for device in account.devices.iter_mut().filter(|device| device.id == id) {
            device.used_s = now_s;
        }
        account.devices.sort_by_key(|device| std::cmp::Reverse(device.used_s));
        Some(self.save(uid, false))
    }

    /// Those that are not valid any more.
    pub(crate) fn expired(&self, now_s: u64) -> Vec<DeviceId> {
        let all = self.accounts.values().flat_map(|account| &account.devices);
        all.filter(|device| device.has_expired(now_s)).map(|device| device.id).collect()
    }

    /// For the account of this name; `own` is that of the login that asks.
    pub(crate) fn list(&self, user: &str, own: Option<DeviceId>, now_s: u64) -> Vec<ListedDevice> {
        let of_user = self.accounts.values().filter(|account| account.user == user);
        of_user
            .flat_map(|account| &account.devices)
            .filter(|device| device.is_valid(now_s))
            .map(|device| ListedDevice {
                device: device.id,
                name: device.name.clone(),
                made_s: device.made_s,
                used_s: device.used_s,
                until_s: device.until_s,
                is_own: own == Some(device.id),
            })
            .take(DEVICES_PER_USER_MAX)
            .collect()
    }

    /// Every device of the account of this name.
    pub(crate) fn of_user(&self, user: &str) -> Vec<DeviceId> {
        let of_user = self.accounts.values().filter(|account| account.user == user);
        of_user.flat_map(|account| &account.devices).map(|device| device.id).collect()
    }
}

/// See [`account_of`].
pub(crate) type Account = (u32, Option<Secret>);

/// What identifies an account beside its name, for one device: its number, and a hash of its entry
/// in shadow(5). That contains a random salt, so that without it the hash tells nothing of the
/// password; with a lock, a new password or a new account of the same name it is another one.
/// `None`: there is no such account. May wait for a directory.
pub(crate) fn account_of(user: &str, device: DeviceId) -> io::Result<Option<Account>> {
    let Some(account) = User::from_name(user)? else { return Ok(None) };
    let password = thinc_pam::shadow_password(user)?.map(|entry| {
        Sha256::new_with_prefix(b"thinc remembered password")
            .chain_update(device.0)
            .chain_update(entry)
            .finalize()
            .into()
    });
    Ok(Some((account.uid.as_raw(), password)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(1000);

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("thinc-devices-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder
    }

    fn device(number: u8, now_s: u64) -> Device {
        let mut key = [4; 65];
        key[1] = number;
        Device::new(key, format!("laptop {number}"), Some([number; 32]), now_s, LIFE)
    }

    #[tokio::test]
    async fn devices_are_found_again_until_they_expire_or_are_forgotten() {
        let folder = folder("found");
        let mut devices = Devices::open(&folder, LIFE);
        let (one, two) = (device(1, 100), device(2, 100));
        let (saved, displaced) = devices.remember("anna", 1000, one.clone()).unwrap();
        saved.await.unwrap().unwrap();
        assert!(displaced.is_none());
        let (saved, _) = devices.remember("otto", 1001, two.clone()).unwrap();
        saved.await.unwrap().unwrap();
        assert_eq!(
            devices.remember("otto", 1001, one.clone()).unwrap_err(),
            NotRemembered::KnownKey
        );
        devices.set_used(one.id, 200).unwrap().await.unwrap().unwrap();
        let (saved, user, _) = devices.forget(two.id).unwrap();
        saved.await.unwrap().unwrap();
        assert_eq!(user, "otto");
        assert!(devices.forget(two.id).is_none());

        let again = Devices::open(&folder, LIFE);
        assert_eq!(again.known(one.id, 300), devices.known(one.id, 300));
        assert_eq!(again.known(one.id, 300).unwrap().user, "anna");
        assert_eq!(again.list("anna", Some(one.id), 300)[0].used_s, 200);
        assert!(again.known(two.id, 300).is_none());
        assert!(again.known(one.id, 1100).is_none(), "it has expired");
        assert_eq!(again.expired(1100), [one.id]);
        // From before 1970 for a clock that was never set, and not to be believed either way.
        assert!(again.known(one.id, 0).is_some());
        let mut future = Devices::open(&folder, LIFE);
        let (saved, _) = future.remember("anna", 1000, device(3, 90_000)).unwrap();
        saved.await.unwrap().unwrap();
        assert!(future.known(device(3, 0).id, 300).is_none());
        assert!(future.expired(300).is_empty(), "the clock may be set right later");
        let shorter = Devices::open(&folder, Duration::from_secs(50));
        assert!(shorter.known(one.id, 300).is_none(), "the administrator has shortened it");
        fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn an_account_keeps_its_newest_and_a_number_that_is_given_again_has_none() {
        let folder = folder("limits");
        let mut devices = Devices::open(&folder, LIFE);
        for number in 0..=DEVICES_PER_USER_MAX as u8 {
            let (saved, displaced) = devices.remember("anna", 1000, device(number, 1)).unwrap();
            saved.await.unwrap().unwrap();
            assert_eq!(displaced.is_some(), usize::from(number) == DEVICES_PER_USER_MAX);
        }
        assert!(devices.known(device(0, 1).id, 2).is_none());
        assert_eq!(devices.of_user("anna").len(), DEVICES_PER_USER_MAX);
        let (saved, _) = devices.remember("otto", 1000, device(99, 1)).unwrap();
        saved.await.unwrap().unwrap();
        assert_eq!((devices.of_user("anna").len(), devices.of_user("otto").len()), (0, 1));
        let mut none = Devices::default();
        assert_eq!(none.remember("anna", 1, device(1, 1)).unwrap_err(), NotRemembered::Off);
        fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn a_damaged_file_is_told_and_the_others_are_used() {
        let folder = folder("damaged");
        let mut devices = Devices::open(&folder, LIFE);
        for uid in 1000..1003 {
            let (saved, _) =
                devices.remember(&format!("u{uid}"), uid, device(uid as u8, 1)).unwrap();
            saved.await.unwrap().unwrap();
        }
        let path = |uid: u32| folder.join(FOLDER).join(uid.to_string());
        let whole = fs::read(path(1000)).unwrap();
        fs::write(path(1000), &whole[..whole.len() / 2]).unwrap();
        fs::copy(path(1001), path(1003)).unwrap();
        fs::remove_file(path(1001)).unwrap();
        std::os::unix::fs::symlink(path(1002), path(1001)).unwrap();
        fs::write(folder.join(FOLDER).join("1002.new"), b"torn").unwrap();
        let mut told = Vec::new();
        let found = read_all(&folder, |path, _| told.push(path.to_owned())).unwrap();
        told.sort();
        assert_eq!(told, [path(1000), path(1001), path(1003)]);
        assert_eq!(found.iter().map(|account| account.uid).collect::<Vec<_>>(), [1002]);
        for cut in 0..whole.len() - 1 {
            assert!(AccountDevices::parse(&whole[..cut]).is_err(), "{cut}");
        }
        // As an earlier version wrote it.
        let text = String::from_utf8(whole.clone()).unwrap();
        let earlier = text.replacen("\"password\"", "\"login\": \"AAAA\", \"password\"", 1);
        assert_ne!(earlier, text);
        assert_eq!(
            AccountDevices::parse(earlier.as_bytes()).unwrap(),
            AccountDevices::parse(&whole).unwrap()
        );
        let other = text.replacen("\"password\"", "\"else\": 1, \"password\"", 1);
        assert!(AccountDevices::parse(other.as_bytes()).is_err());
        let long = [&whole[..], &vec![b' '; FILE_BYTES_MAX]].concat();
        assert_eq!(AccountDevices::parse(&long), Err(DevicesError::TooLong));
        fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn a_device_that_was_forgotten_on_a_full_disk_does_not_come_back() {
        let folder = folder("full");
        let mut devices = Devices::open(&folder, LIFE);
        for number in 1..=2 {
            let (saved, _) = devices.remember("anna", 1000, device(number, 1)).unwrap();
            saved.await.unwrap().unwrap();
        }
        // Nothing can be written in place of the file.
        fs::create_dir(folder.join(FOLDER).join("1000.new")).unwrap();
        let (saved, _, _) = devices.forget(device(1, 1).id).unwrap();
        saved.await.unwrap().unwrap();
        assert!(Devices::open(&folder, LIFE).of_user("anna").is_empty());
        assert_eq!(devices.of_user("anna"), [device(2, 1).id]);
        fs::remove_dir_all(folder).unwrap();
    }
}
