//! Path beside the pixels, in both directions: under the shells of session and viewer, the thread
//! that waits for the disk of the home, so that no display does. From tasks, in order, to answers.
//! Knows where received files belong; inbox.rs and source.rs how they are written and read.

use std::collections::{HashMap, VecDeque};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use rustix::process::geteuid;
use thinc_files::{Offer, Start};
use thinc_protocol::file::{FileAnswer, FileEnd, FilePurpose};

use crate::{DiskError, Inbox, InboxLimits, LeftOut, Source, Writer, downloads_folder};

/// 4 MiB: read at a time, 10 to 20 ms, of what an earlier connection has brought; other tasks are
/// done in between.
const HASHED_BYTES: u64 = 4 << 20;
/// A week: for so long a printed document can be opened again.
const PRINTED_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Number that the owner of a transfer gives it, whatever its number on a connection.
pub type Key = u64;

/// A person's folders.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Their home.
    pub home: PathBuf,
    /// Their configuration, which may name the folder for downloads.
    pub config: PathBuf,
    /// For what may be removed at any time.
    pub cache: PathBuf,
}

impl Folders {
    /// As the environment names them.
    ///
    /// # Errors
    /// `HOME` names no folder.
    pub fn from_environment() -> io::Result<Folders> {
        let folder = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let home = folder("HOME").ok_or_else(|| io::Error::other("HOME names no folder"))?;
        let config = folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let cache = folder("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache"));
        Ok(Folders { home, config, cache })
    }

    /// Where files are that were copied at the other side and pasted at this one.
    pub fn pasted(&self) -> PathBuf {
        self.cache.join("thinc/pasted")
    }
}

/// What the thread shall do. Tasks of one transfer are done in order; how many wait is limited by
/// what its end lets be untaken.
#[derive(Debug)]
#[allow(missing_docs, reason = "thinc-files' events have these fields")]
pub enum DiskTask {
    /// List files that a person sends.
    List { key: Key, paths: Vec<PathBuf>, purpose: FilePurpose },
    /// Read these bytes of them.
    Read { key: Key, entry: u32, offset: u64, bytes: u64 },
    /// They are not read any more.
    Close { key: Key },
    /// Prepare to write files of the other side.
    Receive { key: Key, offer: Arc<Offer> },
    /// Write the next bytes of them.
    Write { key: Key, entry: u32, offset: u64, bytes: Vec<u8>, last: bool },
    /// Move them to their place.
    Finish { key: Key },
    /// Keep what has arrived; it may go on later.
    Keep { key: Key },
    /// Remove what has arrived.
    Discard { key: Key },
}

/// What the thread has done.
#[derive(Debug)]
#[allow(missing_docs, reason = "thinc-files' events have these fields")]
pub enum DiskAnswer {
    /// To `List`.
    Listed { key: Key, listed: Result<(Offer, LeftOut), String> },
    /// To `Read`.
    Read { key: Key, entry: u32, offset: u64, read: Result<Vec<u8>, (FileEnd, String)> },
    /// To `Receive`.
    Ready { key: Key, start: Result<Start, (FileAnswer, String)> },
    /// To `Write`.
    Written { key: Key, bytes: usize, last: bool, written: Result<(), (FileEnd, String)> },
    /// To `Finish`.
    Finished { key: Key, finished: Result<Vec<PathBuf>, (FileEnd, String)> },
}

/// The thread; it ends with the last sender.
#[derive(Debug)]
pub struct Disk {
    tasks: Sender<DiskTask>,
}

impl Disk {
    /// Starts the thread; it passes what it has done to `answer`, and ends once that returns false.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(
        folders: Folders,
        answer: impl FnMut(DiskAnswer) -> bool + Send + 'static,
    ) -> io::Result<Disk> {
        let (tasks, received) = channel();
        std::thread::Builder::new().name("files".to_owned()).spawn(move || {
            Worker::new(folders, InboxLimits::default()).run(&received, answer);
        })?;
        Ok(Disk { tasks })
    }

    /// Queues a task.
    pub fn tell(&self, task: DiskTask) {
        // It fails only if the thread has ended, when nobody takes answers any more.
        let _ = self.tasks.send(task);
    }
}

struct Worker {
    folders: Folders,
    limits: InboxLimits,
    sources: HashMap<Key, Source>,
    writers: HashMap<Key, Writer>,
    /// Those whose beginning is being read, which is the answer that they owe.
    starting: VecDeque<Key>,
}

fn refused(key: Key, error: &DiskError) -> DiskAnswer {
    DiskAnswer::Ready { key, start: Err((error.answer(), error.to_string())) }
}

fn ended(error: DiskError) -> (FileEnd, String) {
    (error.end(), error.to_string())
}

impl Worker {
    fn new(folders: Folders, limits: InboxLimits) -> Worker {
        let (sources, writers) = (HashMap::new(), HashMap::new());
        Worker { folders, limits, sources, writers, starting: VecDeque::new() }
    }

    fn run(mut self, tasks: &Receiver<DiskTask>, mut done: impl FnMut(DiskAnswer) -> bool) {
        loop {
            // What waits is done before more of an unfinished file is read.
            let task = if self.starting.is_empty() {
                tasks.recv().map_err(|_| TryRecvError::Disconnected)
            } else {
                tasks.try_recv()
            };
            let answer = match task {
                Ok(task) => self.carry_out(task),
                Err(TryRecvError::Empty) => self.read_on(),
                Err(TryRecvError::Disconnected) => return,
            };
            if answer.is_some_and(|answer| !done(answer)) {
                return;
            }
        }
    }

    /// Reads a part of what is there of an unfinished file; answers `Receive` at its end.
    fn read_on(&mut self) -> Option<DiskAnswer> {
        let key = self.starting.pop_front()?;
        // Without a writer the transfer has ended meanwhile.
        let start = self.writers.get_mut(&key)?.poll_start(HASHED_BYTES);
        match start {
            Ok(None) => {
                self.starting.push_back(key);
                None
            }
            Ok(Some(start)) => Some(DiskAnswer::Ready { key, start: Ok(start) }),
            Err(error) => {
                self.writers.remove(&key);
                Some(refused(key, &error))
            }
        }
    }

    fn carry_out(&mut self, task: DiskTask) -> Option<DiskAnswer> {
        Some(match task {
            DiskTask::List { key, paths, purpose } => {
                let listed = Source::list(&paths, purpose);
                let listed = listed.map_err(|error| error.to_string()).map(|source| {
                    let listed = (source.offer().clone(), source.left_out());
                    self.sources.insert(key, source);
                    listed
                });
                DiskAnswer::Listed { key, listed }
            }
            DiskTask::Read { key, entry, offset, bytes } => {
                let source = self.sources.get_mut(&key)?;
                let read = source.read(entry, offset, bytes).map_err(ended);
                DiskAnswer::Read { key, entry, offset, read }
            }
            DiskTask::Close { key } => {
                self.sources.remove(&key);
                return None;
            }
            DiskTask::Receive { key, offer } => {
                if let Err(error) = self.receive(key, offer) {
                    return Some(refused(key, &error));
                }
                return self.read_on();
            }
            DiskTask::Write { key, entry, offset, bytes, last } => {
                // After an error the rest of what was in flight is dropped.
                let writer = self.writers.get_mut(&key)?;
                let written = writer.write(entry, offset, &bytes, last).map_err(ended);
                if written.is_err() {
                    self.writers.remove(&key);
                }
                DiskAnswer::Written { key, bytes: bytes.len(), last, written }
            }
            DiskTask::Finish { key } => {
                let writer = self.writers.remove(&key)?;
                DiskAnswer::Finished { key, finished: writer.finish().map_err(ended) }
            }
            DiskTask::Keep { key } => {
                self.writers.remove(&key);
                return None;
            }
            DiskTask::Discard { key } => {
                if let Some(writer) = self.writers.remove(&key) {
                    writer.discard();
                }
                return None;
            }
        })
    }

    fn receive(&mut self, key: Key, offer: Arc<Offer>) -> Result<(), DiskError> {
        let inbox = open_inbox(&self.folders, offer.purpose(), self.limits)?;
        inbox.sweep(SystemTime::now());
        self.writers.insert(key, inbox.receive(offer)?);
        // Most have nothing to read, and are answered at once.
        self.starting.push_front(key);
        Ok(())
    }
}

/// Opened for each transfer: a person may have moved their folder meanwhile.
fn open_inbox(
    folders: &Folders,
    purpose: &FilePurpose,
    limits: InboxLimits,
) -> Result<Inbox, DiskError> {
    let Folders { home, config, cache } = folders;
    match purpose {
        FilePurpose::Sent | FilePurpose::Dropped { .. } => {
            Inbox::open(&downloads_folder(home, config), home, limits)
        }
        FilePurpose::Printed(_) => {
            let folder = printed_folder(cache)?;
            sweep_printed(&folder, SystemTime::now());
            Inbox::open(&folder, home, limits)
        }
    }
}

/// The folder of printed documents, which only this user may read.
fn printed_folder(cache: &Path) -> Result<PathBuf, DiskError> {
    let folder = cache.join("thinc/printed");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| {
        let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        DiskError::Io { what: "made", path: folder.clone(), error }
    })?;
    let metadata = std::fs::symlink_metadata(&folder);
    let is_private = metadata.is_ok_and(|found| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0
    });
    if is_private { Ok(folder) } else { Err(DiskError::NotPrivate(folder)) }
}

/// Removes documents that were printed long ago.
fn sweep_printed(folder: &Path, now: SystemTime) {
    let Ok(names) = std::fs::read_dir(folder) else { return };
    for entry in names.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata.created().or_else(|_| metadata.modified());
        let age = age.ok().and_then(|since| now.duration_since(since).ok()).unwrap_or_default();
        if metadata.is_file() && age > PRINTED_AGE_MAX {
            // What cannot be removed is found by the next sweep.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::test_folder::TestFolder;

    /// The thread, and its answers.
    fn start(home: &TestFolder) -> (Disk, mpsc::Receiver<DiskAnswer>) {
        let (send, answers) = mpsc::channel();
        let folders = Folders {
            home: home.path().to_owned(),
            config: home.path().join(".config"),
            cache: home.path().join(".cache"),
        };
        let disk = Disk::start(folders, move |answer| send.send(answer).is_ok()).unwrap();
        (disk, answers)
    }

    #[test]
    fn files_pass_from_a_folder_to_the_folder_for_downloads() {
        let home = TestFolder::new();
        let path = home.write("documents/report.txt", b"what it says");
        let (disk, answers) = start(&home);
        let purpose = FilePurpose::Sent;
        disk.tell(DiskTask::List { key: 1, paths: vec![path], purpose });
        let Ok(DiskAnswer::Listed { key: 1, listed: Ok((offer, LeftOut(0))) }) = answers.recv()
        else {
            panic!("it is listed")
        };
        disk.tell(DiskTask::Read { key: 1, entry: 0, offset: 0, bytes: 12 });
        let Ok(DiskAnswer::Read { read: Ok(bytes), .. }) = answers.recv() else {
            panic!("it is read")
        };
        disk.tell(DiskTask::Close { key: 1 });
        disk.tell(DiskTask::Receive { key: 2, offer: Arc::new(offer) });
        let ready = answers.recv();
        if let Ok(DiskAnswer::Ready { start: Err((FileAnswer::Space { .. }, _)), .. }) = ready {
            // A gigabyte stays free, which this machine has not.
            return;
        }
        assert!(matches!(ready, Ok(DiskAnswer::Ready { key: 2, start: Ok(_) })), "{ready:?}");
        disk.tell(DiskTask::Write { key: 2, entry: 0, offset: 0, bytes, last: true });
        let written = answers.recv();
        assert!(
            matches!(
                written,
                Ok(DiskAnswer::Written { bytes: 12, last: true, written: Ok(()), .. })
            ),
            "{written:?}"
        );
        disk.tell(DiskTask::Finish { key: 2 });
        let Ok(DiskAnswer::Finished { finished: Ok(paths), .. }) = answers.recv() else {
            panic!("it is moved to its place")
        };
        assert_eq!(paths, [home.path().join("Downloads/report.txt")]);
        assert_eq!(std::fs::read(&paths[0]).unwrap(), b"what it says");
    }

    #[test]
    fn reading_what_is_there_of_a_large_file_delays_no_other_task() {
        let home = TestFolder::new();
        let path = home.write("report.txt", b"what it says");
        let entry = |size| thinc_protocol::file::FileEntry {
            kind: thinc_protocol::file::FileKind::File,
            size,
            modified_ms: 1,
            path: "large".to_owned(),
        };
        let large = 4 * HASHED_BYTES;
        let offer = Arc::new(Offer::new(FilePurpose::Sent, vec![entry(large)]).unwrap());
        let folders = Folders {
            home: home.path().to_owned(),
            config: home.path().join(".config"),
            cache: home.path().join(".cache"),
        };
        // An earlier connection has brought all but a byte.
        let limits = InboxLimits { reserve: 0, ..InboxLimits::default() };
        let inbox = Inbox::open(&home.path().join("Downloads"), home.path(), limits).unwrap();
        let mut writer = inbox.receive(offer.clone()).unwrap();
        writer.write(0, 0, &vec![7; large as usize - 1], false).unwrap();
        drop(writer);
        // Both wait when the thread begins.
        let (tell, tasks) = mpsc::channel();
        tell.send(DiskTask::Receive { key: 1, offer }).unwrap();
        let purpose = FilePurpose::Sent;
        tell.send(DiskTask::List { key: 2, paths: vec![path], purpose }).unwrap();
        let mut answers = Vec::new();
        Worker::new(folders, limits).run(&tasks, |answer| {
            answers.push(answer);
            answers.len() < 2
        });
        let [DiskAnswer::Listed { key: 2, listed: Ok(_) }, DiskAnswer::Ready { key: 1, start }] =
            answers.as_slice()
        else {
            panic!("the short task is done first: {answers:?}")
        };
        assert_eq!(start.as_ref().map(|start| start.offset), Ok(large - 1));
    }

    #[test]
    fn tasks_of_an_unknown_transfer_are_ignored() {
        let home = TestFolder::new();
        let (disk, answers) = start(&home);
        for key in [1, 2] {
            disk.tell(DiskTask::Read { key, entry: 0, offset: 0, bytes: 1 });
            disk.tell(DiskTask::Write { key, entry: 0, offset: 0, bytes: vec![0], last: false });
            disk.tell(DiskTask::Finish { key });
            disk.tell(DiskTask::Keep { key });
            disk.tell(DiskTask::Discard { key });
        }
        let none = home.path().join("none");
        disk.tell(DiskTask::List { key: 3, paths: vec![none], purpose: FilePurpose::Sent });
        let first = answers.recv();
        assert!(
            matches!(first, Ok(DiskAnswer::Listed { key: 3, listed: Err(_) })),
            "only the last has an answer: {first:?}"
        );
    }
}
