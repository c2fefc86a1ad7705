//! A program beside the viewer (ssh): its end, and what it says on standard error, of which the last line explains the end.
//! From ssh.rs. What is said is shown to the person at the terminal, a moment later, and not at all where the program ends
//! at once: then it is part of the viewer's own last words. Knows processes and lines.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long words are held back: those of an end are followed by it at once.
const HELD_TIME: Duration = Duration::from_millis(300);
/// From the program's end to the last of what it said; somebody else may hold the pipe open (ssh's ControlPersist).
const LAST_WORDS_TIME: Duration = Duration::from_millis(200);
/// From being asked to end to being killed.
const KILL_TIME: Duration = Duration::from_secs(1);
/// 8 KiB of what was said are remembered.
const SAID_BYTES_MAX: usize = 8 * 1024;

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    /// Means this process for ever, unlike its number.
    pidfd: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    status: Option<ExitStatus>,
    /// The newest of what was said.
    said: Vec<u8>,
    silent: bool,
}

impl Process {
    /// Starts it; `shown`: what it says is for the person at the terminal.
    pub(crate) fn start(command: &mut Command, shown: bool) -> io::Result<Arc<Process>> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let words = child.stderr.take().expect("it is piped");
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let process = Arc::new(Process { pidfd, state: Mutex::default(), changed: Condvar::new() });
        std::thread::Builder::new().name("thinc-words".into()).spawn({
            let process = process.clone();
            move || process.listen(words, shown)
        })?;
        std::thread::Builder::new().name("thinc-ssh".into()).spawn({
            let process = process.clone();
            move || {
                let status = child.wait();
                process.lock().status = status.ok();
                process.changed.notify_all();
            }
        })?;
        Ok(process)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock can panic")
    }

    /// How it ended; `None` when it has not within this time.
    pub(crate) fn wait_for(&self, limit: Duration) -> Option<ExitStatus> {
        self.wait_until(limit, |state| state.status.is_some());
        self.lock().status
    }

    fn wait_until(&self, limit: Duration, done: impl Fn(&State) -> bool) -> bool {
        let state = self.lock();
        let result = self.changed.wait_timeout_while(state, limit, |state| !done(state));
        !result.expect("no holder of this lock can panic").1.timed_out()
    }

    /// Asks it to end, and sees to it; returns at once.
    pub(crate) fn end(self: &Arc<Self>) {
        if pidfd_send_signal(&self.pidfd, Signal::TERM).is_err() {
            return;
        }
        let process = self.clone();
        // Without a thread it keeps its chance to end by itself.
        let _ = std::thread::Builder::new().name("thinc-end".into()).spawn(move || {
            if !process.wait_until(KILL_TIME, |state| state.status.is_some()) {
                let _ = pidfd_send_signal(&process.pidfd, Signal::KILL);
            }
        });
    }

    /// After its end: the line that explains it best, fit for any terminal. That of thinc itself, where there is one; the
    /// last, where not.
    pub(crate) fn last_words(&self) -> Option<String> {
        self.wait_until(LAST_WORDS_TIME, |state| state.silent);
        let state = self.lock();
        let text = String::from_utf8_lossy(&state.said);
        let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let own = text.lines().find(|line| line.starts_with("thinc: ") || line.starts_with("error: "));
        let line = own.or_else(|| lines.next_back())?;
        Some(line.chars().filter(|c| !c.is_control()).take(300).collect())
    }

    /// Takes what it says until it says no more.
    fn listen(&self, mut words: ChildStderr, shown: bool) {
        let mut held = Vec::new();
        let mut held_since = Instant::now();
        let mut buffer = [0; 1024];
        loop {
            let left = HELD_TIME.saturating_sub(held_since.elapsed());
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
            let ready = poll(&mut [PollFd::new(&words, PollFlags::IN)], (!held.is_empty()).then_some(&timeout));
            if ready == Ok(0) {
                show(&std::mem::take(&mut held));
                continue;
            }
            let count = match words.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let mut state = self.lock();
            state.said.extend_from_slice(&buffer[..count]);
            let surplus = state.said.len().saturating_sub(SAID_BYTES_MAX);
            state.said.drain(..surplus);
            if shown {
                if held.is_empty() {
                    held_since = Instant::now();
                }
                held.extend_from_slice(&buffer[..count]);
            }
            drop(state);
            // Somebody who never pauses is not waited for.
            if held.len() > SAID_BYTES_MAX {
                show(&std::mem::take(&mut held));
            }
        }
        let mut state = self.lock();
        state.silent = true;
        drop(state);
        self.changed.notify_all();
    }
}

/// To our own standard error, without what a terminal would obey.
fn show(bytes: &[u8]) {
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c })
        .collect();
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_program_that_says_much_the_newest_words_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 100000 /dev/zero | tr '\\0' x >&2; printf '\\nthe end\\n' >&2"]);
        let process = Process::start(&mut command, false).unwrap();
        assert!(process.wait_until(Duration::from_secs(30), |state| state.silent));
        assert_eq!(process.last_words().as_deref(), Some("the end"));
        assert_eq!(process.lock().said.len(), SAID_BYTES_MAX);
    }
}
