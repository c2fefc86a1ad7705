//! Desktops that are allowed and do not run yet. Beside the path: used by limits.rs, in each login
//! process; they count desktops one after the other, and each sees what the others have allowed.
//! What the kernel says counts: a reservation is a lock that ends with its process. Knows user IDs
//! and numbers; never what a desktop is.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};

/// In the state folder: a file for each reservation, and the lock of who counts.
const FOLDER: &str = "starts";
/// Held while somebody counts, which takes milliseconds, and never while a desktop starts: a person
/// decides how long that takes.
const LOCK: &str = "lock";
/// Bytes of a reservation: two numbers.
const TEXT_BYTES_MAX: u64 = 32;

/// Where login processes of one broker tell each other what they have allowed.
#[derive(Clone, Debug)]
pub(crate) struct Reservations {
    folder: PathBuf,
}

/// Counts as a desktop of its user until it is dropped or its process ends.
#[derive(Debug)]
pub(crate) struct Reservation {
    path: PathBuf,
    /// Locked.
    _file: File,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Reservations {
    pub(crate) fn of(state: &Path) -> Reservations {
        Reservations { folder: state.join(FOLDER) }
    }

    /// Reserves a desktop for a user, unless `refuse` says why not. `count` gives the desktops that
    /// run, by user; `refuse` gets these together with those that are about to.
    pub(crate) fn reserve<Reason>(
        &self,
        uid: u32,
        count: impl FnOnce() -> HashMap<u32, u32>,
        refuse: impl FnOnce(&HashMap<u32, u32>) -> Option<Reason>,
    ) -> io::Result<Result<Reservation, Reason>> {
        match fs::DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let lock = create(&self.folder.join(LOCK))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        // Reservations first: a desktop that comes to run meanwhile is in the count.
        let planned = self.planned()?;
        let mut owners = count();
        for (owner, number) in planned {
            // A reservation whose desktop runs already is not a second one.
            let counted = owners.entry(owner).or_default();
            *counted = number.max(*counted);
        }
        if let Some(reason) = refuse(&owners) {
            return Ok(Err(reason));
        }
        let number = owners.get(&uid).map_or(1, |count| count.saturating_add(1));
        Ok(Ok(self.add(uid, number)?))
    }

    /// Of each user with a reservation the number of desktops that there will be.
    fn planned(&self) -> io::Result<HashMap<u32, u32>> {
        let mut planned = HashMap::<u32, u32>::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.ends_with(LOCK) {
                continue;
            }
            let file = match File::open(&path) {
                // It has just been given up.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            match flock(&file, FlockOperation::NonBlockingLockShared) {
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                // Its process has ended.
                Ok(()) => {
                    let _ = fs::remove_file(&path);
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            let mut text = String::new();
            (&file).take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
            let (uid, number) = parse(&text).ok_or(io::ErrorKind::InvalidData)?;
            let counted = planned.entry(uid).or_default();
            *counted = number.max(*counted);
        }
        Ok(planned)
    }

    /// While the lock is held.
    fn add(&self, uid: u32, number: u32) -> io::Result<Reservation> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{}-{count}", std::process::id()));
        let mut file = create(&path)?;
        // A file of the same name is that of a process that has ended: nobody else has it locked.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.set_len(0)?;
        let reservation = Reservation { path, _file: file.try_clone()? };
        write!(file, "{uid} {number}")?;
        Ok(reservation)
    }
}

fn parse(text: &str) -> Option<(u32, u32)> {
    let (uid, number) = text.split_once(' ')?;
    Some((uid.parse().ok()?, number.parse().ok()?))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// A state folder, until it is dropped.
    struct State(PathBuf);

    impl State {
        fn new(name: &str) -> State {
            let folder =
                std::env::temp_dir().join(format!("thinc-starts-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            State(folder)
        }
    }

    impl Drop for State {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn at_most(max: u32) -> impl Fn(&HashMap<u32, u32>) -> Option<String> {
        move |owners| (owners.values().sum::<u32>() >= max).then(|| "full".to_owned())
    }

    #[test]
    fn people_who_start_in_the_same_instant_get_no_more_than_there_may_be() {
        let state = State::new("race");
        let running = Mutex::new(HashMap::<u32, u32>::new());
        let all_have_asked = Barrier::new(8);
        let allowed: u32 = std::thread::scope(|scope| {
            let start = |uid: u32| {
                let (state, running, all_have_asked) = (&state, &running, &all_have_asked);
                scope.spawn(move || {
                    let reservations = Reservations::of(&state.0);
                    let count = || running.lock().unwrap().clone();
                    let reserved = reservations.reserve(uid, count, at_most(3)).unwrap();
                    // No desktop runs before the last one has asked.
                    all_have_asked.wait();
                    let Ok(_reserved) = reserved else { return 0 };
                    *running.lock().unwrap().entry(uid).or_default() += 1;
                    1
                })
            };
            // Two of each person.
            let starts: Vec<_> = (0..8).map(|number| start(number / 2)).collect();
            starts.into_iter().map(|start| start.join().unwrap()).sum()
        });
        assert_eq!(allowed, 3);
        let reservations = Reservations::of(&state.0);
        assert!(reservations.planned().unwrap().is_empty(), "they run: nothing is reserved");
    }

    #[test]
    fn a_reservation_counts_once_and_ends_with_its_process() {
        let state = State::new("once");
        let reservations = Reservations::of(&state.0);
        let one = |uid| HashMap::from([(uid, 1)]);
        let held = reservations.reserve(7, HashMap::new, at_most(2)).unwrap().unwrap();
        // Its desktop runs by now.
        let other = reservations.reserve(8, || one(7), at_most(2)).unwrap();
        assert!(other.is_ok(), "there is one desktop, and one more may be");
        assert_eq!(reservations.planned().unwrap(), HashMap::from([(7, 1), (8, 1)]));
        let third = reservations.reserve(9, || one(7), at_most(2)).unwrap();
        assert_eq!(third.unwrap_err(), "full");
        drop((held, other));

        // As a process leaves it that was killed.
        fs::write(state.0.join(FOLDER).join("1-0"), "7 1").unwrap();
        assert!(reservations.planned().unwrap().is_empty());
        assert!(!state.0.join(FOLDER).join("1-0").exists());
    }
}
