//! Real-time threads of a desktop behind `thinc broker`, with a real X server, a real account and
//! the kernel's own account of it: while somebody uses it, and where the kernel lets root. Needs
//! root as broker.rs does. Knows processes, threads and control groups.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::broker::{Account, Broker, is_skipped, logged_in, start};
use crate::broker_admin::viewer_of;
use crate::broker_limits::{group, process_of};
use crate::harness::wait_until;
use crate::priority::press;

/// Where the kernel schedules real-time threads by groups: those of a desktop, and the ones around
/// it, from the innermost.
fn runtimes(answers: &Path) -> Vec<PathBuf> {
    let of_thinc = |folder: &&Path| folder.iter().any(|part| part == "thinc");
    let files = answers.ancestors().take_while(of_thinc).map(|one| one.join("cpu.rt_runtime_us"));
    files.filter(|file| file.exists()).collect()
}

fn top(broker: &Broker, account: &Account) -> serde_json::Value {
    let mut top = Command::new(broker.folder.join("bin/thinc"));
    top.args(["top", "desk", "--json"]).uid(account.uid).gid(account.uid).env_clear();
    let output = top.current_dir("/").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Priority and policy of a thread (proc(5)).
fn policy(pid: u32, thread: u32) -> (u32, u32) {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[37].parse().unwrap(), fields[38].parse().unwrap())
}

/// Its threads that are not ordinary, by name.
fn real_time(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let found = tasks.filter_map(|task| {
        let thread = task.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        (policy(pid, thread) != (0, 0)).then(|| name.trim_end().to_owned())
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
    let answers = group(session, "cpu").unwrap().0.join("answers");
    assert!(answers.exists(), "{answers:?}");
    let files = runtimes(&answers);
    let said = || top(&broker, &anna)["real_time"].as_str().map(str::to_owned);
    if !files.is_empty() {
        wait_until("it is said why not", || said()?.contains("(EPERM)").then_some(()));
        assert_eq!((real_time(server), real_time(session)), (vec![], vec![]));
        files.iter().rev().for_each(|file| fs::write(file, "100000").unwrap());
    }
    let of_session = fs::read_to_string(format!("/proc/{session}/comm")).unwrap();
    let both = (vec!["thinc-input".to_owned()], vec![of_session.trim_end().to_owned()]);
    let allowed = wait_until("it is real-time, or refused", || {
        let said = said()?;
        // The last answer may be of the time before the groups got theirs.
        let refused = files.is_empty() && said.contains("(EPERM)");
        let granted = said == "Real-time: the X server's input thread and the session's thread";
        (refused || granted).then_some(granted)
    });
    if allowed {
        assert_eq!((real_time(server), real_time(session)), both);
        assert_eq!(policy(session, session), (1, 2), "SCHED_RR, the lowest priority");
        drop(viewer);
        wait_until("they have left", || {
            (real_time(server).is_empty() && real_time(session).is_empty()).then_some(())
        });
    } else {
        eprintln!("not tested: {:?}", said());
    }
    drop(anna);
    for file in files {
        // Of this desktop there are none any more.
        let _ = fs::write(file, "0");
    }
}
