//! Path beside the pixels, in both directions: under files.rs, the thread that waits for the disk
//! of the home, so that no viewer does. From tasks, in order, to answers in the actor's queue.
//! Knows where received files belong; thinc-files-disk knows how they are written.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::SystemTime;

use thinc_files::{Offer, Start};
use thinc_files_disk::{DiskError, Inbox, InboxLimits, Source, Writer, downloads_folder};
use thinc_protocol::file::{FileAnswer, FileEnd, FilePurpose};

use super::{FilesEvent, Key};
use crate::connection::{Event, Events};

/// What the thread shall do. Tasks of one transfer are done in order; how many wait is limited by
/// what its end lets be untaken.
#[derive(Debug)]
pub(crate) enum DiskTask {
    /// List files that a program sends.
    List { key: Key, paths: Vec<PathBuf> },
    /// Read these bytes of them.
    Read { key: Key, entry: u32, offset: u64, bytes: u64 },
    /// They are not read any more.
    Close { key: Key },
    /// Prepare to write files of a viewer.
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
pub(crate) enum DiskAnswer {
    /// To `List`.
    Listed { key: Key, listed: Result<Offer, String> },
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
pub(crate) struct Disk {
    tasks: Sender<DiskTask>,
}

impl Disk {
    pub(crate) fn start(events: Events) -> io::Result<Disk> {
        let (tasks, received) = channel();
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let home = home.ok_or_else(|| io::Error::other("HOME names no folder"))?;
        std::thread::Builder::new().name("files".to_owned()).spawn(move || {
            let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
            let config = config.filter(|path| path.is_absolute());
            let config = config.unwrap_or_else(|| home.join(".config"));
            Worker { home, config, sources: HashMap::new(), writers: HashMap::new() }
                .run(&received, &events);
        })?;
        Ok(Disk { tasks })
    }

    pub(crate) fn tell(&self, task: DiskTask) {
        // The thread ends only after a panic, and that ends the process.
        let _ = self.tasks.send(task);
    }
}

struct Worker {
    home: PathBuf,
    config: PathBuf,
    sources: HashMap<Key, Source>,
    writers: HashMap<Key, Writer>,
}

fn ended(error: DiskError) -> (FileEnd, String) {
    (error.end(), error.to_string())
}

impl Worker {
    fn run(mut self, tasks: &Receiver<DiskTask>, events: &Events) {
        while let Ok(task) = tasks.recv() {
            let Some(answer) = self.carry_out(task) else { continue };
            if events.blocking_send(Event::Files(FilesEvent::Disk(answer))).is_err() {
                // The session ends.
                return;
            }
        }
    }

    fn carry_out(&mut self, task: DiskTask) -> Option<DiskAnswer> {
        Some(match task {
            DiskTask::List { key, paths } => {
                let listed = Source::list(&paths, FilePurpose::Sent);
                let listed = listed.map_err(|error| error.to_string()).map(|source| {
                    let offer = source.offer().clone();
                    self.sources.insert(key, source);
                    offer
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
                let start = self.receive(key, offer);
                let start = start.map_err(|error| (error.answer(), error.to_string()));
                DiskAnswer::Ready { key, start }
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

    fn receive(&mut self, key: Key, offer: Arc<Offer>) -> Result<Start, DiskError> {
        let inbox = open_inbox(&self.home, &self.config)?;
        inbox.sweep(SystemTime::now());
        let mut writer = inbox.receive(offer)?;
        let start = writer.start()?;
        self.writers.insert(key, writer);
        Ok(start)
    }
}

/// Opened for each transfer: a person may have moved their folder meanwhile.
fn open_inbox(home: &Path, config: &Path) -> Result<Inbox, DiskError> {
    Inbox::open(&downloads_folder(home, config), home, InboxLimits::default())
}
