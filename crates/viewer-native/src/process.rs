//! A child process (ssh): its exit, and its standard error, whose last line explains the exit. From
//! ssh.rs. Its messages are shown on the terminal after a short delay, and not at all if the
//! process exits at once: then they are part of the viewer's own error. Knows processes and lines.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use thinc_protocol::wire::is_deceptive;

/// 0.3 s: how long messages are held back; an exit follows its own messages at once.
const HOLD_BACK_TIME: Duration = Duration::from_millis(300);
/// 0.2 s: from the exit to the last output; another process may hold the pipe open (ssh's
/// ControlPersist).
const LAST_OUTPUT_TIME: Duration = Duration::from_millis(200);
/// 1 s: from SIGTERM to SIGKILL.
const KILL_TIME: Duration = Duration::from_secs(1);
/// 8 KiB: the newest output that is remembered.
const OUTPUT_BYTES_MAX: usize = 8 * 1024;

/// A running child process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Identifies this process even after its exit, unlike its id.
    pidfd: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    status: Option<ExitStatus>,
    /// The newest output on standard error.
    output: Vec<u8>,
    closed: bool,
}

impl Process {
    /// Starts the process; `shown`: its messages are shown on the terminal.
    pub(crate) fn start(command: &mut Command, shown: bool) -> io::Result<Arc<Process>> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let words = child.stderr.take().expect("standard error is piped");
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

    /// Its exit status; `None` if it has not exited within this time.
    pub(crate) fn wait_for(&self, limit: Duration) -> Option<ExitStatus> {
        self.wait_until(limit, |state| state.status.is_some());
        self.lock().status
    }

    fn wait_until(&self, limit: Duration, done: impl Fn(&State) -> bool) -> bool {
        let state = self.lock();
        let result = self.changed.wait_timeout_while(state, limit, |state| !done(state));
        !result.expect("no holder of this lock can panic").1.timed_out()
    }

    /// Terminates the process, with SIGKILL if necessary; returns at once.
    pub(crate) fn end(self: &Arc<Self>) {
        if pidfd_send_signal(&self.pidfd, Signal::TERM).is_err() {
            return;
        }
        let process = self.clone();
        // Without the thread it is only asked to end.
        let _ = std::thread::Builder::new().name("thinc-end".into()).spawn(move || {
            if !process.wait_until(KILL_TIME, |state| state.status.is_some()) {
                let _ = pidfd_send_signal(&process.pidfd, Signal::KILL);
            }
        });
    }

    /// After its exit: the line that explains it best, without control characters: thinc's own if
    /// there is one, otherwise the last.
    pub(crate) fn last_message(&self) -> Option<String> {
        self.wait_until(LAST_OUTPUT_TIME, |state| state.closed);
        let state = self.lock();
        let text = String::from_utf8_lossy(&state.output);
        let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
        let own =
            text.lines().find(|line| line.starts_with("thinc: ") || line.starts_with("error: "));
        let line = own.or_else(|| lines.next_back())?;
        Some(line.chars().filter(|c| !is_deceptive(*c)).take(300).collect())
    }

    /// Reads its standard error until the end.
    fn listen(&self, mut words: ChildStderr, shown: bool) {
        let mut held = Vec::new();
        let mut held_since = Instant::now();
        let mut buffer = [0; 1024];
        loop {
            let left = HOLD_BACK_TIME.saturating_sub(held_since.elapsed());
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
            let ready = poll(
                &mut [PollFd::new(&words, PollFlags::IN)],
                (!held.is_empty()).then_some(&timeout),
            );
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
            state.output.extend_from_slice(&buffer[..count]);
            let surplus = state.output.len().saturating_sub(OUTPUT_BYTES_MAX);
            state.output.drain(..surplus);
            if shown {
                if held.is_empty() {
                    held_since = Instant::now();
                }
                held.extend_from_slice(&buffer[..count]);
            }
            drop(state);
            // Continuous output is not held back.
            if held.len() > OUTPUT_BYTES_MAX {
                show(&std::mem::take(&mut held));
            }
        }
        let mut state = self.lock();
        state.closed = true;
        drop(state);
        self.changed.notify_all();
    }
}

/// Prints to our standard error, without control sequences.
fn show(bytes: &[u8]) {
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if is_deceptive(c) && !matches!(c, '\n' | '\t') { ' ' } else { c })
        .collect();
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_output_of_a_verbose_process_is_kept() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "head -c 100000 /dev/zero | tr '\\0' x >&2; printf '\\nthe end\\n' >&2"]);
        let process = Process::start(&mut command, false).unwrap();
        assert!(process.wait_until(Duration::from_secs(120), |state| state.closed));
        assert_eq!(process.last_message().as_deref(), Some("the end"));
        assert_eq!(process.lock().output.len(), OUTPUT_BYTES_MAX);
    }
}
