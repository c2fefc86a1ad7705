//! Real-time threads of a desktop behind `thinc broker`, with a real X server, a real account and
//! the kernel's own account of it: while somebody uses it, and where the kernel lets root. Groups
//! that the kernel gives no time for it are left as they are; those with some are tested in
//! thinc-broker. Needs root as broker.rs does. Knows processes and threads.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::broker::{Account, Broker, is_skipped, logged_in, start};
use crate::broker_admin::viewer_of;
use crate::broker_limits::{group, process_of};
use crate::harness::wait_until;
use crate::priority::press;

fn top(broker: &Broker, account: &Account) -> serde_json::Value {
    let mut top = Command::new(broker.folder.join("bin/thinc"));
    top.args(["top", "desk", "--json"]).uid(account.uid).gid(account.uid).env_clear();
    let output = top.current_dir("/").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Priority and policy of a thread (proc(5)); none if it has ended.
fn policy(pid: u32, thread: u32) -> Option<(u32, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    Some((fields[37].parse().unwrap(), fields[38].parse().unwrap()))
}

/// Its threads that are not ordinary, by name.
fn real_time(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let found = tasks.filter_map(|task| {
        let thread = task.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        (policy(pid, thread)? != (0, 0)).then(|| name.trim_end().to_owned())
    });
    found.collect()
}

#[test]
fn what_passes_input_on_is_real_time_where_the_kernel_lets_it_and_else_it_is_said_why() {
    if is_skipped() {
        return;
    }
    let broker = Broker::with_config(|_| "real-time = true\n".to_owned());
    let anna = broker.account();
    assert_eq!(start(&logged_in(&broker, &anna)), "desk");
    if let Some(line) = broker.log().lines().find(|line| line.contains("does not follow")) {
        eprintln!("skipped: {line}");
        return;
    }
    let (server, session) =
        (process_of(&anna, "Xorg"), process_of(&anna, "thinc session --config"));
    let mut viewer = viewer_of(&broker, &anna);
    viewer.wait_complete();
    press(&mut viewer, 1);
    let by_groups = group(session, "cpu").unwrap().0.join("answers/cpu.rt_runtime_us").exists();
    let said = || top(&broker, &anna)["real_time"].as_str().map(str::to_owned);
    let allowed = wait_until("it is real-time, or refused by the kernel", || {
        let said = said()?;
        let allowed = said == "Real-time: the X server's input thread and the session's thread";
        (allowed || said.contains("(EPERM)")).then_some(allowed)
    });
    assert!(!(allowed && by_groups), "the kernel has no time for it");
    let both = || (real_time(server), real_time(session));
    if allowed {
        let of_session = fs::read_to_string(format!("/proc/{session}/comm")).unwrap();
        let wanted = (vec!["thinc-input".to_owned()], vec![of_session.trim_end().to_owned()]);
        wait_until("both threads are", || (both() == wanted).then_some(()));
        assert_eq!(policy(session, session), Some((1, 2)), "SCHED_RR, the lowest priority");
        drop(viewer);
        wait_until("they have left", || (both() == (vec![], vec![])).then_some(()));
    } else {
        assert_eq!(both(), (vec![], vec![]));
    }
}
