//! What each process of `thinc broker` may do, as the kernel says it: those that are root have
//! given up what they do not need, and people's desktops have nothing taken away. Makes accounts,
//! so it needs root; without, it says so and passes. Knows /proc.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::broker::{Account, Broker, is_skipped, logged_in, post, sessions, start, status};
use crate::harness::wait_until;

/// Bits of capabilities(7), from linux/capability.h.
const CHOWN: u64 = 1 << 0;
const DAC_OVERRIDE: u64 = 1 << 1;
const DAC_READ_SEARCH: u64 = 1 << 2;
const FOWNER: u64 = 1 << 3;
const FSETID: u64 = 1 << 4;
const KILL: u64 = 1 << 5;
const SETGID: u64 = 1 << 6;
const SETUID: u64 = 1 << 7;
const SETPCAP: u64 = 1 << 8;
const SYS_ADMIN: u64 = 1 << 21;
const SYS_NICE: u64 = 1 << 23;
const SYS_RESOURCE: u64 = 1 << 24;
const AUDIT_WRITE: u64 = 1 << 29;
const AUDIT_CONTROL: u64 = 1 << 30;

fn set(process: &str, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
}

/// The permitted capabilities of each thread, which are the effective ones too.
fn capabilities(pid: u32) -> Vec<u64> {
    let mut threads: Vec<u32> = fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .map(|thread| thread.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    threads.sort_unstable_by_key(|thread| (*thread != pid, *thread));
    let of_thread = |thread: u32| {
        let thread = format!("{pid}/task/{thread}");
        let permitted = set(&thread, "CapPrm");
        assert_eq!(set(&thread, "CapEff"), permitted);
        assert_eq!((set(&thread, "CapInh"), set(&thread, "CapAmb")), (0, 0));
        permitted
    };
    threads.into_iter().map(of_thread).collect()
}

fn login_process(broker: &Broker) -> u32 {
    let mut entries = fs::read_dir(broker.folder.join("state/logins")).unwrap();
    entries.next().unwrap().unwrap().file_name().to_str().unwrap().parse().unwrap()
}

/// All of them but the agent's may have been started by the desktop.
fn desktop_misses_nothing(account: &Account) {
    let processes = account.processes();
    assert!(processes.len() >= 4, "{processes:?}");
    for pid in processes {
        let name = status(pid, "Name");
        assert_eq!(capabilities(pid), vec![0; capabilities(pid).len()], "{name}");
        // sudo gets from these what it can do, and needs to get them at all.
        for field in ["CapBnd", "NoNewPrivs", "Seccomp"] {
            assert_eq!(status(pid, field), status(std::process::id(), field), "{name}: {field}");
        }
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        // Others allow themselves more.
        if name == "sleep" {
            assert_eq!(files.split_whitespace().nth(3), Some("1024"), "{name}: {files}");
        }
    }
}

#[test]
fn helper_and_login_process_keep_the_capabilities_they_need_and_desktops_miss_none() {
    if is_skipped() {
        return;
    }
    // A container may have taken some.
    let ours = set("self", "CapBnd");
    let helper = DAC_READ_SEARCH | KILL | SETGID | SETUID;
    let login = CHOWN
        | DAC_OVERRIDE
        | DAC_READ_SEARCH
        | FOWNER
        | FSETID
        | KILL
        | SETGID
        | SETUID
        | SETPCAP
        | SYS_ADMIN
        | SYS_NICE
        | SYS_RESOURCE
        | AUDIT_WRITE
        | AUDIT_CONTROL;
    let broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let hers = logged_in(&broker, &anna);
    start(&hers);
    let of_helper = capabilities(broker.process.id());
    assert!(of_helper.iter().all(|set| *set == helper & ours), "{of_helper:x?}");
    // Also the threads that wait for the next helper, that answer the agent, and, where there are
    // groups for it, the desktop's supervisor.
    let threads = || Some(capabilities(login_process(&broker))).filter(|sets| sets.len() >= 3);
    let of_login = wait_until("the login process's threads", threads);
    assert!(of_login.iter().all(|set| *set == login & ours), "{of_login:x?}");
    desktop_misses_nothing(&anna);

    // With these the helper still starts fronts and logins.
    kill_process(Pid::from_raw(broker.front() as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(sessions(&hers), ["desk"]);
    // And the login process closes its PAM session, with modules that change users.
    let process = login_process(&broker);
    assert_eq!(post(&hers, "/desk/desk/end").status, 204);
    assert_eq!(post(&hers, "/logout").status, 204);
    let has_ended = || (!Path::new(&format!("/proc/{process}")).exists()).then_some(());
    wait_until("the login process", has_ended);
    let left = fs::read_dir(broker.folder.join("state/logins")).unwrap().count();
    assert_eq!(left, 0, "it was not aborted");
    let his = logged_in(&broker, &otto);
    start(&his);
    desktop_misses_nothing(&otto);
}
