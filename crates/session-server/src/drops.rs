//! Path back, beside the pixels: under files.rs, files that a person has dropped on the screen, to
//! the window that was there. A thread of its own, because it waits for the X server and for
//! programs. Knows places and paths; thinc-x-selection plays the drag.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use thinc_files_disk::Key;
use thinc_x_selection::{DragError, Drags, DropTarget};
use tracing::warn;

/// What the thread shall do.
#[derive(Debug)]
enum Task {
    /// Remember the window at this place of the screen, in pixels.
    Find { key: Key, x: u16, y: u16 },
    /// Drop the files on it.
    Play { key: Key, paths: Vec<PathBuf> },
    /// They do not arrive.
    Forget { key: Key },
}

/// Files were dropped on their window, or not.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub(crate) paths: Vec<PathBuf>,
    /// Its program has taken them.
    pub(crate) taken: bool,
}

/// The thread; it ends with this.
#[derive(Debug)]
pub(crate) struct Drops {
    tasks: Sender<Task>,
}

impl Drops {
    /// Starts the thread; it passes its results to `done`, and ends once that returns false.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(
        display: &str,
        done: impl FnMut(Dropped) -> bool + Send + 'static,
    ) -> io::Result<Drops> {
        let (tasks, received) = channel();
        let display = display.to_owned();
        std::thread::Builder::new().name("drops".to_owned()).spawn(move || {
            Worker { display, drags: None, targets: HashMap::new() }.run(&received, done);
        })?;
        Ok(Drops { tasks })
    }

    pub(crate) fn find(&self, key: Key, x: u16, y: u16) {
        self.tell(Task::Find { key, x, y });
    }

    pub(crate) fn play(&self, key: Key, paths: Vec<PathBuf>) {
        self.tell(Task::Play { key, paths });
    }

    pub(crate) fn forget(&self, key: Key) {
        self.tell(Task::Forget { key });
    }

    fn tell(&self, task: Task) {
        // It fails only if the thread has ended, when nobody takes results any more.
        let _ = self.tasks.send(task);
    }
}

struct Worker {
    display: String,
    /// Connected while a window is remembered.
    drags: Option<Drags>,
    targets: HashMap<Key, DropTarget>,
}

impl Worker {
    fn run(mut self, tasks: &Receiver<Task>, mut done: impl FnMut(Dropped) -> bool) {
        while let Ok(task) = tasks.recv() {
            match task {
                Task::Find { key, x, y } => {
                    if let Err(error) = self.find(key, x, y) {
                        self.lose(&error);
                    }
                }
                Task::Play { key, paths } => {
                    let taken = self.play(key, &paths).unwrap_or_else(|error| {
                        self.lose(&error);
                        false
                    });
                    if !done(Dropped { paths, taken }) {
                        return;
                    }
                }
                Task::Forget { key } => {
                    self.targets.remove(&key);
                }
            }
            if self.targets.is_empty() {
                self.drags = None;
            }
        }
    }

    fn find(&mut self, key: Key, x: u16, y: u16) -> Result<(), DragError> {
        let drags = match &mut self.drags {
            Some(drags) => drags,
            none => none.insert(Drags::connect(Some(&self.display))?),
        };
        // Coordinates of X end there.
        let [x, y] = [x, y].map(|at| i16::try_from(at).unwrap_or(i16::MAX));
        if let Some(target) = drags.find(x, y)? {
            self.targets.insert(key, target);
        }
        Ok(())
    }

    fn play(&mut self, key: Key, paths: &[PathBuf]) -> Result<bool, DragError> {
        let (Some(target), Some(drags)) = (self.targets.remove(&key), &mut self.drags) else {
            return Ok(false);
        };
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        drags.play(target, &paths)
    }

    fn lose(&mut self, error: &DragError) {
        warn!("files cannot be dropped on windows: {error}");
        self.drags = None;
        self.targets.clear();
    }
}
