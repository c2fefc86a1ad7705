//! The scheduling policy of one thread (sched(7)). Beside the path: from thinc-broker's login
//! process, which makes threads of a desktop real-time and takes that back, from a supervisor and a
//! session process, which only take it back, to the kernel. Knows numbers of threads; never whose
//! they are, nor who may have it.
#![deny(unsafe_code)]
#![expect(
    unsafe_code,
    reason = "sched_setscheduler has no safe form, for other threads than our \
                                 own"
)]

use std::fs;
use std::io;

use rustix::thread::Pid;

/// A policy. What a thread starts is always ordinary (SCHED_RESET_ON_FORK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER: by weight.
    Ordinary,
    /// SCHED_RR with this priority, of 1 to 99: before everything ordinary, and in turn with others
    /// of this priority.
    RealTime(u8),
}

/// Sets the policy of a thread, by its number; of the calling one without. Everybody may make
/// threads of their own ordinary; real-time needs CAP_SYS_NICE, and where the kernel schedules
/// real-time threads by groups (CONFIG_RT_GROUP_SCHED), time for the thread's control group.
pub fn set_policy(thread: Option<Pid>, policy: Policy) -> io::Result<()> {
    let (number, priority) = match policy {
        Policy::Ordinary => (libc::SCHED_OTHER, 0),
        Policy::RealTime(priority) => (libc::SCHED_RR, priority),
    };
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    let thread = thread.map_or(0, |thread| thread.as_raw_nonzero().get());
    // SAFETY: the kernel reads the structure, which lives until the call returns, and keeps no
    // reference to it. A number that is no thread's is an error.
    let result = unsafe {
        libc::sched_setscheduler(thread, number | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The policy of a thread of a process; `None` if it has ended, or has another one than these.
pub fn policy_of(process: u32, thread: u32) -> Option<Policy> {
    let stat = fs::read(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    parse(&String::from_utf8_lossy(&stat))
}

/// By a file "stat" in /proc (proc(5)).
fn parse(stat: &str) -> Option<Policy> {
    // The name may contain anything, parentheses and spaces too. The field after it is the third.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(40 - 3);
    let priority: u8 = fields.next()?.parse().ok()?;
    match fields.next()?.parse::<i32>().ok()? {
        libc::SCHED_OTHER => Some(Policy::Ordinary),
        libc::SCHED_RR => Some(Policy::RealTime(priority)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn a_policy_is_read_whatever_the_threads_name() {
        let stat = |name: &str, priority, policy| {
            format!("7 ({name}) S {} {priority} {policy} 0 0\n", "0 ".repeat(36).trim_end())
        };
        assert_eq!(parse(&stat("x", 0, 0)), Some(Policy::Ordinary));
        assert_eq!(parse(&stat("a) R 1 (b", 3, 2)), Some(Policy::RealTime(3)));
        assert_eq!(parse(&stat("x", 3, 1)), None, "SCHED_FIFO");
        assert_eq!((parse("7 (x) S 0 0"), parse("")), (None, None));
    }

    #[test]
    fn a_thread_becomes_real_time_where_that_is_allowed_and_ordinary_everywhere() {
        std::thread::spawn(|| {
            let (process, thread) = (std::process::id(), gettid().as_raw_nonzero().get());
            let policy = || policy_of(process, thread.cast_unsigned());
            assert_eq!(policy(), Some(Policy::Ordinary));
            match set_policy(None, Policy::RealTime(1)) {
                Ok(()) => {
                    assert_eq!(policy(), Some(Policy::RealTime(1)));
                    // What it starts is ordinary.
                    let child = || gettid().as_raw_nonzero().get().cast_unsigned();
                    let started = std::thread::spawn(move || policy_of(process, child()));
                    assert_eq!(started.join().unwrap(), Some(Policy::Ordinary));
                }
                Err(error) => {
                    eprintln!("skipped: real-time is refused: {error}");
                    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
                }
            }
            set_policy(Some(gettid()), Policy::Ordinary).unwrap();
            assert_eq!(policy(), Some(Policy::Ordinary));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_number_of_no_thread_is_an_error() {
        let error = set_policy(Pid::from_raw(i32::MAX), Policy::Ordinary).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
