//! Tests of session_memory.rs: with folders that look like those of the kernel, and with the
//! kernel's own of version 1 where it lets us.

use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;

use super::*;
use crate::session_groups::tests::KERNEL;

const MACHINE: Machine =
    Machine { total: 8 << 30, available: 4 << 30, swap_total: 1 << 30, swap_free: 1 << 29 };

/// A folder in which the kernel seems to have made files, until it is dropped.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str) -> Fake {
        let folder =
            std::env::temp_dir().join(format!("thinc-memory-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Fake(folder)
    }

    fn set(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What was written last. The file is then empty: one of this file system keeps what a shorter
    /// text does not cover.
    fn take(&self, file: &str) -> String {
        let text = fs::read_to_string(self.0.join(file)).unwrap();
        self.set(file, "");
        text
    }

    /// As /proc/self has it.
    fn mounts(&self, version: Version) -> String {
        match version {
            Version::V1 => {
                format!("30 1 0:1 / {} rw - cgroup cgroup rw,memory\n", self.0.display())
            }
            Version::V2 => format!("30 1 0:1 / {} rw - cgroup2 cgroup rw\n", self.0.display()),
        }
    }

    fn tree(&self, version: Version) -> MemoryTree {
        let mounts = self.mounts(version);
        let own = "1:memory:/\n0::/\n";
        let home = Home::find(&mounts, own, CONTROLLER, false).unwrap();
        MemoryTree::find(&mounts, own, false, &home).unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_answers_keeps_what_it_has_and_a_program_what_it_needs_within_a_bound() {
    const MIB: u64 = 1 << 20;
    for (of_answers, needed, answers, rest) in [
        (100, 180, 100, 80),
        (100, 90, 100, 0),
        (500, 900, 500, 12),
        (600, 900, 512, 0),
        (0, u64::MAX / MIB, 0, 512),
        (0, 0, 0, 0),
    ] {
        let found = kept(of_answers * MIB, needed * MIB);
        assert_eq!(found, Kept { answers: answers * MIB, rest: rest * MIB }, "{of_answers}");
    }
}

#[test]
fn what_a_process_needs_is_in_memory_or_in_swap() {
    let status = "Name:\tRssAnon: 9 kB\nVmRSS:\t    17000 kB\nRssAnon:\t    1000 kB\n\
                  RssFile:\t    5000 kB\nRssShmem:\t     200 kB\nVmSwap:\t      30 kB\n";
    assert_eq!(needs(status), (1230 << 10, 5000 << 10));
    assert_eq!(needs("RssAnon:\tx kB\nRssAnon: 18446744073709551615 kB\n"), (0, 0));
}

#[test]
fn what_computes_is_held_while_memory_is_short_and_gives_back_where_there_is_swap() {
    const GIB: u64 = 1 << 30;
    let with = |available| Machine { available, ..MACHINE };
    let (short, enough) = (MACHINE.total / 10, MACHINE.total / 5 + 1);
    assert_eq!(held(4 * GIB, &with(short + 1), None), None);
    assert_eq!(held(4 * GIB, &with(short), None), Some(4 * GIB - GIB / 2));
    let without = Machine { swap_free: 0, ..with(short) };
    assert_eq!(held(4 * GIB, &without, None), Some(4 * GIB), "it grows no more");
    assert_eq!(held(5 * GIB, &without, Some(4 * GIB)), Some(4 * GIB), "nor later");
    assert_eq!(held(4 * GIB, &with(enough - 1), Some(4 * GIB)), Some(4 * GIB - GIB / 2));
    assert_eq!(held(GIB, &with(short), Some(2 * GIB)), Some(GIB), "an eighth of all is left");
    assert_eq!(held(4 * GIB, &with(enough), Some(4 * GIB)), None);
    assert_eq!(held(GIB, &Machine::default(), None), None, "nothing is known");
}

#[test]
fn the_kernels_numbers_are_read() {
    let text = "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable: 60 kB\nSwapTotal: 9 kB\n\
                SwapFree: 8 kB\n";
    let machine = Machine { total: 100, available: 60, swap_total: 9, swap_free: 8 };
    let Machine { total, available, swap_total, swap_free } = Machine::parse(text);
    let bytes = [machine.total, machine.available, machine.swap_total, machine.swap_free];
    assert_eq!([total, available, swap_total, swap_free], bytes.map(|kilobytes| kilobytes << 10));
    assert_eq!(Machine::parse("MemTotal: -1 kB\nSwapFree: 9\n"), Machine::default());
}

#[test]
fn version_2_keeps_memory_by_groups_and_holds_what_computes() {
    let fake = Fake::new("v2");
    fake.set("cgroup.controllers", "cpu memory\n");
    fake.set("cgroup.subtree_control", "");
    for group in ["thinc", "thinc/fg", "d", "d/answers", "d/rest"] {
        fake.set(&format!("{group}/memory.low"), "");
    }
    let tree = fake.tree(Version::V2);
    assert!(tree.is_shared());
    let all = fake.0.join("thinc");
    tree.bound(&[&all, &all.join("fg")], &MACHINE).unwrap();
    let half = (MACHINE.total / 2).to_string();
    assert_eq!([fake.take("thinc/memory.low"), fake.take("thinc/fg/memory.low")], [&*half, &*half]);

    let [answers, rest] = ["d/answers", "d/rest"].map(|group| fake.0.join(group));
    let (home, computes) = (tree.home().clone(), fake.0.join("c"));
    let mut memory = DesktopMemory::new(home, fake.0.join("d"), answers, rest, computes);
    assert_eq!(memory.group(PriorityGroup::Computes), None, "it is that of processor time");
    fake.set("d/answers/memory.current", "70000000\n");
    fake.set("d/answers/memory.swap.current", "30000000\n");
    for (file, text) in
        [("c/memory.current", "4294967296"), ("c/memory.high", ""), ("c/memory.swap.max", "")]
    {
        fake.set(file, text);
    }
    assert!(memory.is_due());
    memory.measure(150_000_000, &MACHINE).unwrap();
    assert!(!memory.is_due());
    assert_eq!(fake.take("d/answers/memory.low"), "100000000", "what is in swap is needed too");
    assert_eq!(fake.take("d/rest/memory.low"), "50000000");
    assert_eq!(fake.take("d/memory.low"), "150000000");
    assert_eq!(fake.take("c/memory.high"), "", "it has no limit as it is");

    memory.measure(150_000_000, &Machine { available: 1, ..MACHINE }).unwrap();
    for group in ["d/answers", "d/rest", "d"] {
        assert_ne!(fake.take(&format!("{group}/memory.low")), "0", "{group}");
    }
    assert_eq!(fake.take("c/memory.high"), (7_u64 << 29).to_string());
    assert_eq!(fake.take("c/memory.swap.max"), (1 << 29).to_string());
    memory.give_up().unwrap();
    for group in ["d/answers", "d/rest", "d"] {
        assert_eq!(fake.take(&format!("{group}/memory.low")), "0", "{group}");
    }
    for file in ["c/memory.high", "c/memory.swap.max"] {
        assert_eq!(fake.take(file), "max", "{file}");
    }
    assert!(memory.is_due(), "as soon as somebody is back");
}

#[test]
fn version_1_keeps_groups_out_of_swap_that_are_small_enough() {
    let fake = Fake::new("v1");
    fake.set("thinc/memory.swappiness", "60\n");
    fake.set("thinc/memory.use_hierarchy", "0");
    for group in ["n/answers", "n/rest", "n/computes", "other/answers", "other/rest"] {
        for file in ["cgroup.procs", "memory.swappiness", "memory.soft_limit_in_bytes"] {
            fake.set(&format!("thinc/{group}/{file}"), "");
        }
    }
    let stat = |group: &str, mib: u64| {
        let text = format!("cache 7\nrss {}\nshmem {}\nswap 0\ntotal_rss 9\n", mib << 20, 1 << 20);
        fake.set(&format!("thinc/{group}/memory.stat"), &text);
    };
    let tree = fake.tree(Version::V1);
    let mut memory = tree.enter("n", 7).unwrap();
    assert_eq!(fake.take("thinc/n/answers/cgroup.procs"), "7");
    assert_eq!(fake.take("thinc/memory.use_hierarchy"), "1", "a limit holds within");
    assert_eq!(fake.take("thinc/n/computes/memory.soft_limit_in_bytes"), "0");
    assert_eq!(memory.group(PriorityGroup::Rest), Some(&*fake.0.join("thinc/n/rest")));
    assert!(memory.contains("1:memory:/thinc/n/computes\n"));
    assert!(!memory.contains("1:memory:/thinc/nn\n") && !memory.contains("1:cpu:/thinc/n\n"));

    let swappiness = || {
        ["n/answers", "n/rest"]
            .map(|group| fake.take(&format!("thinc/{group}/memory.swappiness")).trim().to_owned())
    };
    for (of_answers, of_rest, needed, expected) in [
        (100, 200, 250, ["0", "0"]),
        (100, 200, 50, ["0", "60"]),
        (100, 411, 250, ["0", "60"]),
        (600, 200, 700, ["60", "0"]),
    ] {
        stat("n/answers", of_answers);
        stat("n/rest", of_rest);
        memory.measure(needed << 20, &MACHINE).unwrap();
        assert_eq!(swappiness(), expected, "{of_answers} {of_rest} {needed}");
    }
    stat("n/answers", 100);
    for (others, expected) in [(3984, "0"), (3999, "60")] {
        // Of a machine with 8 GiB half may be kept.
        stat("other/answers", others);
        fake.set("thinc/other/answers/memory.swappiness", "0\n");
        memory.measure(50 << 20, &MACHINE).unwrap();
        assert_eq!(swappiness()[0], expected, "{others}");
    }
    memory.give_up().unwrap();
    assert_eq!(swappiness(), ["60", "60"]);
}

#[test]
fn why_no_memory_is_kept_is_said_in_words() {
    let fake = Fake::new("none");
    fake.set("cgroup.controllers", "cpu\n");
    let mounts = fake.mounts(Version::V2);
    let groups = Home::find(&mounts, "0::/\n", "cpu", false).unwrap();
    let find = |mounts: &str, groups: &Home| {
        MemoryTree::find(mounts, "1:cpu:/\n0::/\n", false, groups).err().unwrap_or_default()
    };
    assert!(find(&mounts, &groups).contains("has the controller \"memory\""));
    fake.set("cgroup.controllers", "cpu memory\n");
    fake.set("cgroup.subtree_control", "");
    assert_eq!(find(&mounts, &groups), "");
    let mixed = format!("29 1 0:2 / /x rw - cgroup cgroup rw,cpu\n{mounts}");
    let of_cpu = Home::find(&mixed, "1:cpu:/\n0::/\n", "cpu", false).unwrap();
    assert!(find(&mixed, &of_cpu).contains("\"cpu\" in version 1"));
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_kernel_has_the_groups_of_version_1_and_takes_what_is_written() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
    let home = Home::find(&mounts, &own, CONTROLLER, false);
    let Some(home) = home.filter(|home| home.version == Version::V1) else {
        return eprintln!("skipped: the controller \"memory\" is not in version 1");
    };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: control groups need root");
    }
    let tree = MemoryTree::find(&mounts, &own, false, &home).unwrap();
    let mut sleep = Command::new("sleep");
    let sleeper = Sleeper(sleep.arg("1000").stdin(Stdio::null()).spawn().unwrap());
    let name = format!("61234-{}-9", std::process::id());
    let mut memory = tree.enter(&name, sleeper.0.id()).unwrap();
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", sleeper.0.id())).unwrap();
    assert!(memory.contains(&groups) && !memory.contains(&own));
    let usual = number(&swappiness(&memory.answers)).unwrap();
    let machine = Machine::read().unwrap();
    memory.measure(1 << 30, &machine).unwrap();
    // Unless others have more than may be kept.
    assert_eq!(number(&swappiness(&memory.answers)), Ok(0));
    memory.give_up().unwrap();
    assert_eq!(number(&swappiness(&memory.answers)), Ok(usual));
    let desktop = memory.desktop.clone();
    drop(sleeper);
    let until = Instant::now() + Duration::from_secs(10);
    while desktop.exists() {
        assert!(Instant::now() < until, "{} is left", desktop.display());
        std::thread::yield_now();
        tree.remove_empty(Ended::All);
    }
}
