//! Beside supervisor.rs: the processes of a session that it starts itself, and how they end.
//! Knows processes and signals; never why a session ends.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::descendants;
use crate::graphics::Graphics;
use crate::pipewire::PipeWire;
use crate::priority::{Priority, Servers};
use crate::terminal::print_error;
use crate::xauthority::Xauthority;

/// Time between SIGTERM and SIGKILL.
pub(crate) const TERMINATE_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for the end of what was killed: the kernel may hold a process.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for the last output of a program that has ended.
const LOG_DRAIN_TIMEOUT: Duration = Duration::from_millis(300);

/// A process, and the task that copies its output to a log.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) log: JoinHandle<()>,
}

/// The processes of the session. `end` is always called on them before the supervisor ends.
#[derive(Default)]
pub(crate) struct Processes {
    pub(crate) xorg: Option<Process>,
    pub(crate) session: Option<Process>,
    pub(crate) desk: Option<Process>,
    pub(crate) pipewire: PipeWire,
    pub(crate) priority: Priority,
    pub(crate) window_manager: Option<Process>,
    pub(crate) command: Option<Process>,
    pub(crate) graphics: Graphics,
    pub(crate) xauthority: Option<Xauthority>,
    pub(crate) display: String,
    /// What the session's person calls it.
    pub(crate) title: Option<String>,
    pub(crate) restarts: u32,
    /// Of the sound server and printer.
    pub(crate) desk_restarts: u32,
    /// The session process was ended because something was revoked.
    pub(crate) revoked: bool,
}

/// Waits for the end of a process and for its last output in the log; never returns without a
/// process.
pub(crate) async fn wait(process: &mut Option<Process>) -> ExitStatus {
    let Some(Process { child, log }) = process else { return std::future::pending().await };
    // The process is our child and waited for here only, so waiting cannot fail.
    let status = child.wait().await.expect("a child can be waited for");
    if !log.is_finished() {
        // A grandchild may keep the pipe open; its output is not waited for.
        let _ = timeout(LOG_DRAIN_TIMEOUT, log).await;
    }
    status
}

impl Processes {
    /// Those that answer everybody, whatever program is used: this one, what serves the screen and
    /// the sound, and what gives windows the focus.
    pub(crate) fn servers(&self) -> Servers {
        let id = |process: &Option<Process>| process.as_ref()?.child.id();
        let Processes { xorg, session, desk, window_manager, pipewire, .. } = self;
        let own = [xorg, session, desk, window_manager].map(id);
        let all = own.into_iter().chain([pipewire.id(), Some(std::process::id())]).flatten();
        Servers { all: all.collect(), xorg: id(xorg), session: id(session) }
    }

    /// Ends all processes: the session process, which tells the viewers, and the applications, then
    /// the X server and the desk.
    pub(crate) async fn end(&mut self) {
        let id = |process: &Option<Process>| process.as_ref()?.child.id();
        let servers = [id(&self.xorg), id(&self.desk)];
        let session = end(&mut self.session, "session", Signal::TERM);
        let applications = end(&mut self.command, "command", Signal::TERM);
        tokio::join!(session, applications);
        // A shell's jobs, daemons, and the window manager.
        descendants::signal(Signal::TERM, &servers);
        let xorg = end(&mut self.xorg, "xorg", Signal::TERM);
        tokio::join!(xorg, end(&mut self.desk, "the sound server", Signal::TERM));
        let _ = timeout(KILL_TIMEOUT, kill_descendants()).await;
    }
}

/// Kills what is left of a session. Each end of a process is followed by another pass: the kernel
/// gives what that process has just started to the supervisor.
async fn kill_descendants() {
    // Watched before anything is killed, so that no end is missed.
    let Ok(mut child_ended) = signal(SignalKind::child()) else { return };
    loop {
        descendants::reap(&[]);
        if descendants::signal(Signal::KILL, &[]) == 0 {
            return;
        }
        child_ended.recv().await;
    }
}

/// Terminates a process and its group, and kills them after a time-out.
async fn end(process: &mut Option<Process>, name: &str, signal: Signal) {
    let Some(Process { mut child, log: _ }) = process.take() else { return };
    let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) else { return };
    // Each process leads a group of its own.
    let send = |signal| kill_process_group(pid, signal);
    // A program that has not created its group yet gets the signal alone.
    if send(signal).is_err() {
        let _ = kill_process(pid, signal);
    }
    if timeout(TERMINATE_TIMEOUT, child.wait()).await.is_err() {
        print_error(&format!(
            "thinc: {name} (process {pid}) did not end within {TERMINATE_TIMEOUT:?}; killing it"
        ));
        let _ = send(Signal::KILL);
        let _ = kill_process(pid, Signal::KILL);
        let _ = child.wait().await;
    }
    // Kill the rest of its group: the leader's ID cannot be reused while the group has members.
    let _ = send(Signal::KILL);
}
