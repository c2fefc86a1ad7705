//! How many desktops `thinc broker` lets people start, and what each may use, with real accounts
//! and the kernel's own account of it. Needs root as broker.rs does. Knows HTTP, processes and
//! control groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::broker::{Account, Broker, is_skipped, logged_in, post, start};
use crate::broker_admin::viewer_of;
use crate::broker_desktops::{start_chosen, started};
use crate::harness::{Browser, wait_until};

/// Starts a program as a further desktop.
fn run(browser: &Browser, line: &str, name: &str) -> crate::harness::Answer {
    start_chosen(browser, &json!({ "what": { "program": line }, "name": name }))
}

#[test]
fn a_person_has_no_more_desktops_than_one_person_may() {
    if is_skipped() {
        return;
    }
    let broker = Broker::with_config(|_| "sessions-per-user = 2\n".to_owned());
    let (anna, otto) = (broker.account(), broker.account());
    let browser = logged_in(&broker, &anna);
    assert_eq!(start(&browser), "desk");
    assert_eq!(start(&browser), "desk", "one that runs is opened, not started");
    assert_eq!(started(&run(&browser, "sleep 1000", "second")), "second");
    // Another login of the same person, to which another process belongs.
    let again = logged_in(&broker, &anna);
    for browser in [&browser, &again] {
        let refused = run(browser, "sleep 1000", "third");
        assert_eq!(refused.status, 409, "{}", refused.text());
        assert!(
            refused.text().contains("You have 2 desktops, and this server allows 2"),
            "{}",
            refused.text()
        );
    }
    assert_eq!(start(&logged_in(&broker, &otto)), "desk", "others have their own");
    assert_eq!(post(&browser, "/desk/second/end").status, 204);
    assert_eq!(started(&run(&browser, "sleep 1000", "third")), "third");
}

#[test]
fn a_machine_has_no_more_desktops_than_it_may() {
    if is_skipped() {
        return;
    }
    let unlimited = Broker::start();
    let anna = unlimited.account();
    assert_eq!(start(&logged_in(&unlimited, &anna)), "desk");
    // Every desktop counts, also those of another broker.
    let broker = Broker::with_config(|_| "sessions-max = 1\n".to_owned());
    let otto = broker.account();
    let refused = post(&logged_in(&broker, &otto), "/start");
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("This server has "), "{}", refused.text());
    assert!(refused.text().contains("and allows 1."), "{}", refused.text());
    assert!(otto.can("! pgrep -U $(id -u) sleep"));
    assert!(broker.log().contains("starts no desktop: This server has"));
}

#[test]
fn a_person_who_starts_several_in_the_same_instant_gets_as_many_as_one_may() {
    if is_skipped() {
        return;
    }
    let broker = Broker::with_config(|_| "sessions-per-user = 2\n".to_owned());
    let anna = broker.account();
    // Each login has a process of its own that counts.
    let browsers: Vec<Browser> = (0..4).map(|_| logged_in(&broker, &anna)).collect();
    let all = std::sync::Barrier::new(browsers.len());
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let starts = browsers.iter().enumerate().map(|(number, browser)| {
            let all = &all;
            scope.spawn(move || {
                all.wait();
                run(browser, "sleep 1000", &format!("desk{number}")).status
            })
        });
        let starts: Vec<_> = starts.collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 409, 409]);
    let left = broker.folder.join("state/starts");
    wait_until("no reservation", || (fs::read_dir(&left).unwrap().count() == 1).then_some(()));
}

/// The folder of a process's control group for a controller, and whether it is of version 2. Of the
/// groups within a desktop's: that one.
pub(crate) fn group(pid: u32, controller: &str) -> Option<(PathBuf, bool)> {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let path = |start: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let (list, path) = line.split_once(':')?.1.split_once(':')?;
            start(list).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let of_desktop = |path: PathBuf| match path.file_name().and_then(|name| name.to_str()) {
        Some("answers" | "rest" | "computes") => path.parent().unwrap().to_owned(),
        _ => path,
    };
    let v1 = Path::new("/sys/fs/cgroup").join(controller);
    if let Some(path) = path(&|list| list.split(',').any(|name| name == controller)) {
        return Some((of_desktop(v1.join(path)), false));
    }
    Some((of_desktop(Path::new("/sys/fs/cgroup").join(path(&str::is_empty)?)), true))
}

fn number(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    text.trim().parse().unwrap()
}

/// A line `NAME NUMBER` of a file.
fn counted(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

pub(crate) fn process_of(account: &Account, pattern: &str) -> u32 {
    wait_until(pattern, || {
        let mut pgrep = Command::new("pgrep");
        let output = pgrep.args(["-U", &account.name, "--full", pattern]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().next()?.parse().ok()
    })
}

const LIMITED: &str = "session-memory = '256M'\nsession-processors = 0.5\n";

/// `thinc broker --check` with this configuration, after this command of a shell with mounts of its
/// own.
fn check_after(broker: &Broker, lines: &str, command: &str) -> (bool, String) {
    let file = broker.folder.join("check.toml");
    fs::write(&file, lines).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c"]);
    unshare.arg(format!("{command} && exec \"$@\"")).arg("sh");
    unshare.arg(broker.folder.join("bin/thinc"));
    unshare.args(["broker", "--check", "--front-user", "nobody", "--pam-service"]);
    unshare.arg(broker.service()).arg("--config").arg(&file);
    let output = unshare.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_kernel_holds_each_desktop_to_its_memory_and_processors() {
    if is_skipped() {
        return;
    }
    let unlimited = Broker::start();
    let (usable, why) = check_after(&unlimited, LIMITED, "true");
    drop(unlimited);
    if !usable {
        eprintln!("skipped: {why}");
        return;
    }
    let broker = Broker::with_config(|_| LIMITED.to_owned());
    let anna = broker.account();
    let browser = logged_in(&broker, &anna);
    assert_eq!(start(&browser), "desk");
    // tail keeps all that it reads.
    let hog = "sh -c 'head -c 1G /dev/zero | tail -c 1G | sleep 1000'";
    assert_eq!(started(&run(&browser, hog, "hog")), "hog");
    let spin = "sh -c 'while :; do :; done'";
    assert_eq!(started(&run(&browser, spin, "spin")), "spin");

    let desk = process_of(&anna, "^sleep 100000$");
    let agent = process_of(&anna, "broker-part agent");
    let hog = process_of(&anna, "^sleep 1000$");
    let spin = process_of(&anna, "^[^ ]*sh -c while");
    for controller in ["memory", "cpu"] {
        let of = |pid| group(pid, controller).unwrap().0;
        let name = of(desk).file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.starts_with(&format!("{}-", anna.uid)), "{name}");
        assert!(of(desk) != of(hog) && of(hog) != of(spin), "each desktop has its own");
        let supervisor = process_of(&anna, "serve --supervise .*--name desk");
        assert_eq!(of(supervisor), of(desk), "with all that serves it");
        wait_until("the agent has left", || (of(agent) != of(spin)).then_some(()));
    }

    let (memory, is_v2) = group(hog, "memory").unwrap();
    let limit = if is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
    assert_eq!(number(&memory.join(limit)), 256 << 20);
    wait_until("the memory's limit", || {
        let reached = match is_v2 {
            true => counted(&memory.join("memory.events"), "max"),
            false => number(&memory.join("memory.failcnt")),
        };
        (reached > 0).then_some(())
    });
    let (cpu, is_v2) = group(spin, "cpu").unwrap();
    if is_v2 {
        assert_eq!(fs::read_to_string(cpu.join("cpu.max")).unwrap(), "50000 100000\n");
    } else {
        assert_eq!(number(&cpu.join("cpu.cfs_quota_us")), 50_000);
    }
    wait_until("the processors' limit", || {
        (counted(&cpu.join("cpu.stat"), "nr_throttled") > 3).then_some(())
    });
    // The next desktop removes what is left of one that has ended.
    assert_eq!(post(&browser, "/desk/spin/end").status, 204);
    assert_eq!(started(&run(&browser, "sleep 1000", "last")), "last");
    assert!(!cpu.exists(), "{} is left", cpu.display());
}

#[test]
fn a_desktop_has_groups_that_its_supervisor_can_ask_for_and_nobody_else() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let anna = broker.account();
    let browser = logged_in(&broker, &anna);
    assert_eq!(start(&browser), "desk");
    if let Some(line) = broker.log().lines().find(|line| line.contains("does not follow")) {
        eprintln!("skipped: {line}");
        return;
    }
    let supervisor = process_of(&anna, "serve --supervise .*--name desk");
    let has_socket = |pid: u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        arguments.split(|&byte| byte == 0).any(|word| word == b"--priority-socket")
    };
    assert!(has_socket(supervisor));
    let session = process_of(&anna, "thinc session --config");
    // Nothing that it starts inherits it.
    let standard_input = fs::read_link(format!("/proc/{supervisor}/fd/0")).unwrap();
    assert_eq!(standard_input.to_str(), Some("/dev/null"));
    let (foreground, _) = group(supervisor, "cpu").unwrap();
    let parent = foreground.parent().unwrap();
    let name = foreground.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with(&format!("{}-", anna.uid)), "{name}");
    assert!(parent.ends_with("thinc/fg"), "{parent:?}");
    let background = parent.with_file_name("bg").join(&name);
    assert!(background.exists(), "no limit is set");
    // Who opens the desktop brings what serves them before all others, for as long as they are
    // there, and again when they come back.
    let is_in = |group: &Path| {
        let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        processes.lines().any(|line| line == session.to_string())
    };
    let answers = foreground.join("answers");
    assert!(is_in(&answers), "memory stays where a process was born");
    // Nobody has opened the desktop yet: only the supervisor's first request moves anything.
    wait_until("the person's program is of the rest", || {
        let processes = fs::read_to_string(foreground.join("rest/cgroup.procs")).ok()?;
        (!processes.is_empty()).then_some(())
    });
    if let Some(line) = broker.log().lines().find(|line| line.contains("no memory is kept")) {
        eprintln!("not tested: {line}");
    } else {
        let (memory, _) = group(session, "memory").unwrap();
        assert!(memory.join("answers").exists() && memory.join("rest").exists(), "{memory:?}");
    }
    let viewer = viewer_of(&broker, &anna);
    wait_until("it answers", || is_in(&answers).then_some(()));
    drop(viewer);
    wait_until("they have left", || is_in(&background).then_some(()));
    let _viewer = viewer_of(&broker, &anna);
    wait_until("it answers again", || is_in(&answers).then_some(()));
    drop(anna);
    wait_until("nothing is left", || (!foreground.exists() && !background.exists()).then_some(()));

    let broker = Broker::with_config(|_| "priority = false\n".to_owned());
    let otto = broker.account();
    assert_eq!(start(&logged_in(&broker, &otto)), "desk");
    let supervisor = process_of(&otto, "serve --supervise .*--name desk");
    assert!(!has_socket(supervisor));
    let environment = fs::read(format!("/proc/{supervisor}/environ")).unwrap();
    assert!(environment.split(|&byte| byte == 0).any(|one| one == b"THINC_PRIORITY=off"));
    let (own, _) = group(supervisor, "cpu").unwrap();
    assert!(!own.to_str().unwrap().contains("/thinc/fg/"), "{own:?}");
}

#[test]
fn limits_that_the_system_cannot_enforce_are_told_by_the_check() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let none = "umount --recursive --lazy /sys/fs/cgroup";
    let (is_right, said) = check_after(&broker, LIMITED, none);
    assert!(!is_right && said.contains("session-memory cannot be enforced"), "{said}");
    assert!(said.contains("no control group of this system has the controller"), "{said}");
    let (is_right, said) = check_after(&broker, "", none);
    assert!(is_right, "nothing is limited: {said}");

    let hidden = "mount -t proc -o hidepid=2 proc /proc";
    let (is_right, said) = check_after(&broker, "sessions-max = 9\n", hidden);
    assert!(!is_right && said.contains("mounted with hidepid"), "{said}");
    let (is_right, said) = check_after(&broker, "sessions-max = 9\n", "true");
    assert!(is_right, "{said}");
}
