//! Tests of session_groups.rs: with folders that look like those of the kernel, and with the
//! kernel's own where it lets us.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use thinc_realtime::Policy;

use super::*;
use crate::limits::Limits;
use crate::priority_groups::ask;
use crate::realtime::tests::{Imitation, Programs};

/// No account has them: of a desktop's user, and of somebody else.
const UID: u32 = 61_234;
const OTHER_UID: u32 = 61_235;

/// A folder in which the kernel seems to have made files, until it is dropped.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str) -> Fake {
        let folder =
            std::env::temp_dir().join(format!("thinc-groups-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Fake(folder)
    }

    fn group(&self, group: &str, files: &[&str]) {
        let folder = self.0.join(group);
        fs::create_dir_all(&folder).unwrap();
        for file in ["cgroup.procs"].iter().chain(files) {
            fs::write(folder.join(file), "").unwrap();
        }
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }

    fn v1(&self) -> String {
        format!("30 1 0:1 / {} rw - cgroup cgroup rw,cpu,cpuacct\n", self.0.display())
    }

    fn v2(&self) -> String {
        format!("30 1 0:1 / {} rw - cgroup2 cgroup rw\n", self.0.display())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn each_desktop_has_groups_in_the_foreground_and_one_in_the_background() {
    let fake = Fake::new("v1");
    fake.group("", &[]);
    for group in ["", "fg", "bg", "bg/n", "fg/n/answers", "fg/n/rest"] {
        fake.group(&format!("thinc/{group}"), &["cpu.shares"]);
    }
    let tree = Tree::find(&fake.v1(), "3:cpu,cpuacct:/\n", true, &mut Vec::new()).unwrap();
    let mut groups = tree.enter("n", UID, 7).unwrap();
    assert_eq!(groups.computes, fake.0.join("thinc/bg/n"));
    for (group, shares) in
        [("fg", "20480"), ("bg", "1024"), ("fg/n/answers", "10240"), ("fg/n/rest", "1024")]
    {
        assert_eq!(fake.text(&format!("thinc/{group}/cpu.shares")), shares);
    }
    assert_eq!(fake.text("thinc/cpu.shares"), of_all(processors()).shares.to_string());
    assert_eq!(fake.text("thinc/fg/n/answers/cgroup.procs"), "7", "where the X server is born");
    let refused = groups.handle(&GroupRequest::Memory).unwrap_err();
    assert!(refused.contains("has the controller \"memory\""), "{refused}");

    assert_eq!(groups.handle(&GroupRequest::Background), Ok(()));
    assert!(groups.handle(&request(PriorityGroup::Computes, 0)).is_err());
    assert!(groups.is_background, "who computes is not in use");
    // The folders around are read, whatever becomes of the process that is named.
    assert!(groups.handle(&request(PriorityGroup::Answers, 0)).is_err());
    assert!(!groups.is_background);
}

#[test]
fn all_desktops_weigh_as_four_processes_on_each_processor() {
    for (processors, shares, weight) in
        [(1, 4096, 400), (8, 32_768, 3200), (64, 262_144, 10_000), (u32::MAX, 262_144, 10_000)]
    {
        let all = of_all(processors);
        assert_eq!((all.shares, all.weight), (shares, weight), "{processors}");
    }
}

#[test]
fn a_desktop_with_a_limit_is_in_one_group_and_that_gets_light_in_the_background() {
    let fake = Fake::new("v2");
    let divided = "cgroup.subtree_control";
    fake.group("", &[divided]);
    fake.group("thinc", &[divided, "cpu.weight"]);
    fs::write(fake.0.join("cgroup.controllers"), "cpu memory\n").unwrap();
    fake.group("thinc/fg", &[divided, "cpu.weight"]);
    fake.group("thinc/fg/n", &[divided, "cpu.weight", "cpu.max", "memory.max"]);
    for group in ["answers", "rest"] {
        fake.group(&format!("thinc/fg/n/{group}"), &["cpu.weight"]);
    }
    fake.group("thinc/fg/n/computes", &["cpu.weight", "cpu.idle"]);
    let home = Home::find(&fake.v2(), "0::/\n", "cpu", false).unwrap();
    let limit = |controller, file, value: &str| Group {
        home: home.clone(),
        controller,
        settings: vec![(file, value.to_owned())],
    };
    let elsewhere = Home::find(&fake.v1(), "3:cpu:/\n", "cpu", false).unwrap();
    let mut limits = vec![
        limit("memory", "memory.max", "5"),
        Group { home: elsewhere, ..limit("cpu", "x", "y") },
        limit("cpu", "cpu.max", "6 7"),
    ];
    let tree = Tree::find(&fake.v2(), "0::/\n", false, &mut limits).unwrap();
    assert_eq!(limits.len(), 1, "a limit of another hierarchy stays where it is");
    let mut groups = tree.enter("n", UID, 7).unwrap();
    assert_eq!(fake.text("thinc/fg/n/memory.max"), "5");
    assert_eq!(fake.text("thinc/fg/n/cpu.max"), "6 7");
    assert_eq!(fake.text("thinc/cpu.weight"), of_all(processors()).weight.to_string());
    assert_eq!(fake.text("thinc/fg/cpu.weight"), "1000");
    assert_eq!(fake.text("thinc/fg/n/answers/cpu.weight"), "1000");
    assert_eq!(fake.text("thinc/fg/n/rest/cpu.weight"), "100");
    assert_eq!(fake.text("thinc/fg/n/answers/cgroup.procs"), "7");
    assert_eq!(fake.text("thinc/fg/n/computes/cpu.idle"), "1");
    assert_eq!(fake.text("thinc/fg/cgroup.subtree_control"), "+cpu +memory");
    assert_eq!(fake.text("thinc/fg/n/cgroup.subtree_control"), "+cpu +memory");
    assert!(!fake.0.join("thinc/bg").exists());

    assert_eq!(groups.handle(&GroupRequest::Background), Ok(()));
    assert_eq!(fake.text("thinc/fg/n/cpu.weight"), "5");
    assert!(groups.is_background);
}

#[test]
fn why_there_are_no_groups_is_said_in_words() {
    let fake = Fake::new("none");
    fake.group("", &["cgroup.subtree_control"]);
    let find = |mounts: &str, by_systemd| {
        Tree::find(mounts, "0::/\n", by_systemd, &mut Vec::new()).err().unwrap_or_default()
    };
    assert!(find(&fake.v2(), false).contains("has the controller \"cpu\""));
    fs::write(fake.0.join("cgroup.controllers"), "cpu\n").unwrap();
    assert_eq!(find(&fake.v2(), false), "");
    assert_eq!(find(&fake.v2(), true), "", "systemd starts a scope");
    fs::write(fake.0.join("cgroup.type"), "domain\n").unwrap();
    assert!(find(&fake.v2(), false).contains("holds processes"));
    let hidden = fake.v2() + "22 1 0:5 / /proc rw,nosuid - proc proc rw,hidepid=2\n";
    assert!(find(&hidden, false).contains("hidepid"));
}

#[test]
fn a_process_is_a_users_if_all_of_its_ids_are() {
    assert!(is_of(7, "Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t1\t1\t1\t1\n"));
    for bad in ["7\t0\t0\t0", "0\t7\t7\t7", "7\t7\t0\t7", "7\t7\t7", "77\t77\t77\t77", ""] {
        assert!(!is_of(7, &format!("Name:\tx\nUid:\t{bad}\n")), "{bad:?}");
    }
    assert!(!is_of(0, ""));
}

#[test]
fn empty_groups_are_removed_unless_their_login_may_still_need_them() {
    let fake = Fake::new("removed");
    let tree = Tree::find(&fake.v1(), "3:cpu:/\n", false, &mut Vec::new()).unwrap();
    let me = std::process::id();
    let names = ["7-1-1", "7-4294967295-1", &format!("7-{me}-1"), &format!("7-{me}-2")];
    let all: Vec<PathBuf> = names
        .iter()
        .flat_map(|name| [format!("fg/{name}/answers"), format!("fg/{name}/rest")])
        .chain(names.iter().map(|name| format!("bg/{name}")))
        .map(|group| fake.0.join(GROUP).join(group))
        .collect();
    let left = || -> Vec<bool> {
        all.iter().for_each(|group| fs::create_dir_all(group).unwrap());
        let left = |name: &&str| {
            let of_name: Vec<&PathBuf> =
                all.iter().filter(|group| group.iter().any(|part| part == *name)).collect();
            assert_eq!(of_name.len(), 3);
            let count = of_name.iter().filter(|group| group.exists()).count();
            assert!(count % 3 == 0, "{name}: all or none");
            count > 0
        };
        tree.remove_empty(Ended::Except(&[names[2]]));
        let first = names.iter().map(left).collect();
        tree.remove_empty(Ended::All);
        assert_eq!(names.iter().map(left).collect::<Vec<_>>(), [true, false, false, false]);
        first
    };
    assert_eq!(left(), [true, false, true, false]);
    assert!(!fake.0.join("thinc/fg").join(names[3]).exists(), "with the folder around them");
    assert!(fake.0.join("thinc/fg").exists());
}

/// Tests with the kernel's groups: each removes those of this process.
pub(crate) static KERNEL: Mutex<()> = Mutex::new(());

/// A desktop's groups, made by the kernel; `None`, after saying so, where it makes none.
fn real(limits: &Limits, number: u32, process: u32) -> Option<(Places, SessionGroups)> {
    let made = || {
        if !rustix::process::geteuid().is_root() {
            return Err("control groups need root".to_owned());
        }
        let mut places = Places::find(&Limits { priority: true, ..limits.clone() })?;
        let name = format!("{UID}-{}-{number}", std::process::id());
        let groups = places.enter_tree(&name, UID, process)?;
        let why = || format!("there are no groups: {places:?}");
        groups.ok_or_else(why).map(|groups| (places.clone(), groups))
    };
    made().map_err(|why| eprintln!("skipped: {why}")).ok()
}

/// A process of this user that does nothing, until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new(uid: u32) -> Sleeper {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").uid(uid).gid(uid).stdin(Stdio::null());
        Sleeper(sleep.spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The kernel has no event for it: a process that was waited for may be listed a moment longer.
fn wait_until_gone(places: &Places, groups: &[PathBuf]) {
    let until = Instant::now() + Duration::from_secs(10);
    while groups.iter().any(|group| group.exists()) {
        assert!(Instant::now() < until, "{groups:?} are left");
        thread::yield_now();
        places.remove_empty(Ended::All);
    }
}

/// systemd answers before the kernel knows it, and has no event for that.
fn wait_for_text(file: &Path, text: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let found = fs::read_to_string(file).unwrap_or_default();
        if found == text {
            return;
        }
        assert!(Instant::now() < until, "{}: {found:?}, not {text:?}", file.display());
        thread::yield_now();
    }
}

fn request(group: PriorityGroup, pid: u32) -> GroupRequest {
    GroupRequest::Move { group, pid }
}

#[test]
fn the_kernel_moves_a_desktops_processes_and_no_others() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let first = Sleeper::new(UID);
    let Some((places, groups)) = real(&Limits::default(), 1, first.pid()) else { return };
    let home = groups.home.clone();
    let where_is = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        home.folder_of(&text, CONTROLLER).unwrap()
    };
    let SessionGroups { desktop, answers, rest, computes, .. } = &groups;
    let [desktop, answers, rest, computes] = [desktop, answers, rest, computes].map(Clone::clone);
    let beside = Sleeper::new(OTHER_UID);
    enter(&rest, beside.pid()).unwrap();
    let (outside, other) = (Sleeper::new(UID), Sleeper::new(UID));
    // Of another desktop of the same user.
    let (_, others) = real(&Limits::default(), 2, other.pid()).unwrap();
    let ended = Sleeper::new(UID).pid();

    let is_whole = groups.is_whole;
    // Where the controller of memory has a hierarchy of its own, processes move there too.
    let in_memory = [PriorityGroup::Answers, PriorityGroup::Computes, PriorityGroup::Rest]
        .map(|group| groups.memory.as_ref().ok()?.group(group).map(Path::to_owned));
    let memory = groups.memory.as_ref().ok().map(|memory| memory.home().clone());
    let memory_of =
        |pid: u32| memory.as_ref()?.folder_of(&groups_of(pid).unwrap(), session_memory::CONTROLLER);

    let (near, far) = packets::pair().unwrap();
    let server = thread::spawn(move || groups.serve(&near));
    let asked = |request: &GroupRequest| ask(&far, request).unwrap();
    assert_eq!(where_is(first.pid()), answers, "it has been entered");
    for ((group, folder), memory) in [
        (PriorityGroup::Answers, &answers),
        (PriorityGroup::Computes, &computes),
        (PriorityGroup::Rest, &rest),
    ]
    .into_iter()
    .zip(&in_memory)
    {
        assert_eq!(asked(&request(group, first.pid())), Ok(()));
        assert_eq!(where_is(first.pid()), *folder);
        if memory.is_some() {
            assert_eq!(memory_of(first.pid()), *memory);
        }
    }
    if in_memory[0].is_some() {
        assert_eq!(asked(&GroupRequest::Memory), Ok(()));
    }
    let own = where_is(std::process::id());
    for (pid, why) in [
        (beside.pid(), "another user's"),
        (1, "another user's"),
        (std::process::id(), "another user's"),
        (outside.pid(), "in no group of this desktop"),
        (other.pid(), "in no group of this desktop"),
        (ended, "No such process"),
        (0, "is no number"),
        (u32::MAX, "is no number"),
    ] {
        let refused = asked(&request(PriorityGroup::Answers, pid)).unwrap_err();
        assert!(refused.contains(why), "{pid}: {refused}");
    }
    assert_eq!((where_is(beside.pid()), where_is(outside.pid())), (rest.clone(), own.clone()));
    assert_eq!(
        (where_is(other.pid()), where_is(std::process::id())),
        (others.answers.clone(), own)
    );
    for odd in [&[9][..], &[1, 3, 0, 0, 0, 0], &[2, 2], &[1; 6000]] {
        packets::send(&far, odd, &[]).unwrap();
        assert_eq!(packets::receive(&far, 201).unwrap().bytes[0], 1, "refused, and ignored");
    }

    assert_eq!(asked(&request(PriorityGroup::Answers, first.pid())), Ok(()));
    assert_eq!(asked(&GroupRequest::Background), Ok(()));
    // A scope of systemd gets another weight instead.
    if !is_whole {
        assert!(members(&answers).unwrap().is_empty() && members(&rest).unwrap().is_empty());
        assert_eq!(
            (where_is(first.pid()), where_is(beside.pid())),
            (computes.clone(), computes.clone())
        );
    }
    assert_eq!(asked(&request(PriorityGroup::Answers, first.pid())), Ok(()), "and back");
    assert_eq!((where_is(first.pid()), where_is(beside.pid())), (answers, rest.clone()));
    assert_eq!(asked(&request(PriorityGroup::Computes, first.pid())), Ok(()));
    assert!(asked(&request(PriorityGroup::Rest, beside.pid())).is_err());
    assert_eq!(where_is(first.pid()), computes, "only the first move brings all back");
    drop(far);
    server.join().unwrap();

    drop((first, beside, outside, other));
    places.remove_empty(Ended::All);
    wait_until_gone(&places, &[desktop, others.desktop, others.computes]);
}

#[test]
fn the_kernel_weighs_a_desktop_with_a_limit_as_a_whole() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let first = Sleeper::new(UID);
    let limits = Limits { processor_percent: Some(150), ..Limits::default() };
    let Some((places, mut groups)) = real(&limits, 3, first.pid()) else { return };
    let (file, usual, unused) = match groups.home.version {
        Version::V1 => ("cpu.shares", "1024\n", "51\n"),
        Version::V2 => ("cpu.weight", "100\n", "5\n"),
    };
    let weighs = |groups: &SessionGroups, text| wait_for_text(&groups.desktop.join(file), text);
    if groups.home.version == Version::V1 {
        let quota = fs::read_to_string(groups.desktop.join("cpu.cfs_quota_us")).unwrap();
        assert_eq!(quota, "150000\n");
    }
    assert!(groups.computes.starts_with(&groups.desktop), "the limit holds for these too");
    weighs(&groups, usual);
    assert_eq!(groups.handle(&GroupRequest::Background), Ok(()));
    weighs(&groups, unused);
    let computes = request(PriorityGroup::Computes, first.pid());
    assert_eq!(groups.handle(&computes), Ok(()));
    assert_eq!(members(&groups.computes).unwrap(), [first.pid()]);
    // Who computes is not in use.
    weighs(&groups, unused);
    assert_eq!(groups.handle(&request(PriorityGroup::Rest, first.pid())), Ok(()));
    weighs(&groups, usual);
    drop(first);
    wait_until_gone(&places, &[groups.desktop]);
}

#[test]
fn a_process_is_moved_whatever_its_name() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let mut shell = Command::new("sh");
    // It says that it has its name, and then waits for its standard input.
    shell.args(["-c", r#"printf '\377x' > /proc/$$/comm; echo; read line"#]).uid(UID).gid(UID);
    let mut named = Sleeper(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    named.0.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let status = fs::read(format!("/proc/{}/status", named.pid())).unwrap();
    assert!(status.starts_with(b"Name:\t\xffx\n"), "no UTF-8");
    let Some((places, mut groups)) = real(&Limits::default(), 6, named.pid()) else { return };
    assert_eq!(groups.handle(&request(PriorityGroup::Answers, named.pid())), Ok(()));
    assert_eq!(members(&groups.answers).unwrap(), [named.pid()]);
    drop(named);
    wait_until_gone(&places, &[groups.desktop, groups.computes]);
}

fn cpu_group(groups: &SessionGroups, pid: u32) -> PathBuf {
    groups.home.folder_of(&groups_of(pid).unwrap(), CONTROLLER).unwrap()
}

#[test]
fn a_process_that_got_the_number_of_another_goes_back() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let (first, victim) = (Sleeper::new(UID), Sleeper::new(OTHER_UID));
    let Some((places, groups)) = real(&Limits::default(), 4, first.pid()) else { return };
    let before = cpu_group(&groups, victim.pid());
    enter(&groups.answers, victim.pid()).unwrap();
    groups.put_back(victim.pid(), &groups.rest);
    assert_eq!(cpu_group(&groups, victim.pid()), groups.answers, "it was not moved there");
    groups.put_back(victim.pid(), &groups.answers);
    assert_eq!(cpu_group(&groups, victim.pid()), before);
    drop((first, victim));
    wait_until_gone(&places, &[groups.desktop, groups.computes]);
}

#[test]
fn a_login_makes_groups_for_each_desktop_and_keeps_those_that_are_served() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = Sleeper::new(UID);
    // Says why there are none.
    let Some((places, groups)) = real(&Limits::default(), 5, agent.pid()) else { return };
    if groups.scope.is_some() {
        eprintln!("skipped: systemd removes the groups");
        return;
    }
    let parent = groups.desktop.parent().unwrap().to_owned();
    let mut desktops = Desktops::new(places.clone(), UID);
    let first = desktops.begin(agent.pid()).unwrap().unwrap();
    assert_eq!(ask(&first, &request(PriorityGroup::Answers, agent.pid())).unwrap(), Ok(()));
    desktops.leave(agent.pid()).unwrap();
    let folder = |number| parent.join(format!("{UID}-{}-{number}", std::process::id()));
    let second = desktops.begin(agent.pid()).unwrap().unwrap();
    assert!(folder(1).join(ANSWERS).exists(), "empty, and served");
    assert!(folder(2).exists() && !folder(5).exists(), "5 has ended");
    drop((first, second));
    while desktops.served.iter().any(|(_, thread)| !thread.is_finished()) {
        thread::yield_now();
    }
    let mut all = Vec::new();
    for number in 3..3 + SERVED_MAX {
        all.push(desktops.begin(agent.pid()).unwrap().unwrap());
        assert!(!folder(1).exists() && folder(number).exists());
    }
    assert!(desktops.begin(agent.pid()).unwrap().is_none(), "one more is not served");
    drop((all, agent));
    wait_until_gone(&places, &[folder(1), folder(2), folder(3)]);
}

#[test]
fn systemd_starts_a_scope_for_each_desktop_in_the_slice_of_its_user() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let agent = Sleeper::new(UID);
    let limits =
        Limits { memory: Some(1 << 30), processor_percent: Some(150), ..Limits::default() };
    let Some((places, mut groups)) = real(&limits, 7, agent.pid()) else { return };
    if groups.scope.is_none() {
        eprintln!("skipped: systemd does not own the control groups");
        return;
    }
    let slice = groups.desktop.parent().unwrap().to_owned();
    assert_eq!(slice.file_name().unwrap(), format!("user-{UID}.slice").as_str());
    assert_eq!(fs::read_to_string(groups.desktop.join("memory.max")).unwrap(), "1073741824\n");
    assert_eq!(fs::read_to_string(groups.desktop.join("cpu.max")).unwrap(), "150000 100000\n");
    assert!(members(&groups.answers).unwrap().contains(&agent.pid()));
    assert_eq!(fs::read_to_string(groups.answers.join("cpu.weight")).unwrap(), "1000\n");
    let weight = slice.join("cpu.weight");
    // Something else of the person, so that the slice outlives their desktops.
    let mut stays = Command::new("systemd-run");
    stays.args(["--scope", "--quiet", "--slice", &format!("user-{UID}.slice"), "sleep", "1000"]);
    let stays = Sleeper(stays.stdin(Stdio::null()).spawn().unwrap());
    groups.begin();
    wait_for_text(&weight, "1000\n");

    // Another login of the same user, whose desktop goes on while the first is not in use.
    let other = Sleeper::new(UID);
    let (_, mut others) = real(&limits, 8, other.pid()).unwrap();
    assert_eq!(groups.handle(&GroupRequest::Background), Ok(()));
    wait_for_text(&groups.desktop.join("cpu.weight"), "5\n");
    wait_for_text(&weight, "1000\n");
    assert_eq!(others.handle(&GroupRequest::Background), Ok(()));
    wait_for_text(&weight, "50\n");
    let reload = Command::new("systemctl").arg("daemon-reload").status().unwrap();
    assert!(reload.success());
    assert_eq!(fs::read_to_string(groups.answers.join("cpu.weight")).unwrap(), "1000\n");
    assert_eq!(others.handle(&request(PriorityGroup::Answers, other.pid())), Ok(()));
    wait_for_text(&weight, "1000\n");

    others.end();
    assert_eq!(groups.handle(&request(PriorityGroup::Computes, agent.pid())), Ok(()));
    wait_for_text(&weight, "50\n");
    drop(other);
    wait_until_gone(&places, &[others.desktop]);
    groups.end();
    wait_for_text(&weight, "100\n");

    let origin = places.origin_of(std::process::id()).unwrap();
    places.leave(agent.pid(), Some(&origin)).unwrap();
    assert_eq!(cpu_group(&groups, agent.pid()), origin);
    wait_until_gone(&places, &[groups.desktop]);
    drop(stays);
}

/// Where the kernel schedules real-time threads by groups of version 1, a desktop's have no time,
/// and get some, until this is dropped: of what the root group has, from the outermost.
struct Runtime(Vec<PathBuf>);

impl Runtime {
    /// `None` where no group needs any.
    fn give(groups: &SessionGroups) -> Option<Runtime> {
        let file = |folder: &Path| folder.join("cpu.rt_runtime_us");
        let folders: Vec<PathBuf> = groups
            .answers
            .ancestors()
            .take_while(|folder| **folder != groups.home.folder)
            .map(file)
            .collect();
        folders[0].exists().then(|| {
            folders.iter().rev().for_each(|file| write(file, "500000").unwrap());
            Runtime(folders)
        })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = write(file, "0");
        }
    }
}

/// The groups of a desktop with an X server and a session process in them, and a request for both.
type Desktop = (Places, SessionGroups, Imitation, Imitation, GroupRequest);

fn desktop_with_real_time(programs: &Programs, number: u32) -> Option<Desktop> {
    let (server, session) = (programs.server(UID), programs.session(UID));
    let (places, mut groups) = real(&Limits::default(), number, server.pid())?;
    enter(&groups.answers, session.pid()).unwrap();
    let request = GroupRequest::RealTime { server: server.pid(), session: session.pid() };
    let off = groups.handle(&request).unwrap_err();
    assert!(off.contains("no real-time = true"), "{off}");
    let rules = Rules::new(UID, &groups.answers);
    groups.real_time = Ok(RealTime::new(rules));
    Some((places, groups, server, session, request))
}

const REAL_TIME: Option<Policy> = Some(Policy::RealTime(1));
const ORDINARY: Option<Policy> = Some(Policy::Ordinary);

#[test]
fn what_passes_input_on_is_real_time_while_the_desktop_is_used() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(programs) = Programs::new("used") else { return };
    let Some(desktop) = desktop_with_real_time(&programs, 9) else { return };
    let (places, mut groups, server, session, request) = desktop;
    let policies = || (server.policy(), session.policy());
    if groups.answers.join("cpu.rt_runtime_us").exists() {
        let refused = groups.handle(&request).unwrap_err();
        assert!(refused.contains("(EPERM)"), "{refused}");
        assert_eq!(policies(), (ORDINARY, ORDINARY));
        groups.real_time.as_mut().unwrap().take_back();
    }
    let runtime = Runtime::give(&groups);
    match groups.handle(&request) {
        Err(why) if why.contains("(EPERM)") => eprintln!("skipped: real-time is {why}"),
        answer => {
            assert_eq!(answer, Ok(()));
            assert_eq!(policies(), (REAL_TIME, REAL_TIME));
            assert_eq!(groups.handle(&GroupRequest::Background), Ok(()));
            assert_eq!(policies(), (ORDINARY, ORDINARY), "nobody uses it");
            let unused = groups.handle(&request).unwrap_err();
            assert!(unused.contains("nobody uses"), "{unused}");
            for pid in [server.pid(), session.pid()] {
                groups.handle(&self::request(PriorityGroup::Answers, pid)).unwrap();
            }
            assert_eq!(groups.handle(&request), Ok(()));
            assert_eq!(policies(), (REAL_TIME, REAL_TIME), "somebody is back");
            groups.handle(&self::request(PriorityGroup::Rest, session.pid())).unwrap();
            assert_eq!(policies(), (ORDINARY, ORDINARY), "before it moves");
            let elsewhere = groups.handle(&request).unwrap_err();
            assert!(elsewhere.contains("is not in the group of what answers"), "{elsewhere}");
            groups.handle(&self::request(PriorityGroup::Answers, session.pid())).unwrap();
            // A second ago it was refused.
            groups.real_time.as_mut().unwrap().take_back();
            assert_eq!(groups.handle(&request), Ok(()));
            assert_eq!(policies(), (REAL_TIME, REAL_TIME));
            groups.real_time = Err(String::new());
            assert_eq!(policies(), (ORDINARY, ORDINARY), "the desktop has ended");
        }
    }
    drop((server, session, runtime));
    wait_until_gone(&places, &[groups.desktop, groups.computes]);
}

#[test]
fn what_computes_as_a_real_time_thread_in_its_group_is_ordinary_soon_and_lives() {
    let _alone = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(programs) = Programs::new("computes") else { return };
    let Some(desktop) = desktop_with_real_time(&programs, 10) else { return };
    let (places, mut groups, mut server, session, request) = desktop;
    let runtime = Runtime::give(&groups);
    match groups.handle(&request) {
        Err(why) if why.contains("(EPERM)") => eprintln!("skipped: real-time is {why}"),
        answer => {
            assert_eq!(answer, Ok(()));
            server.compute();
            let until = Instant::now() + Duration::from_secs(60);
            while server.policy() != ORDINARY {
                assert!(Instant::now() < until, "it is real-time still");
                thread::yield_now();
            }
            assert!(server.is_running(), "it goes on as others do");
            groups.real_time.as_mut().unwrap().forget_answer();
            let why = groups.handle(&request).unwrap_err();
            assert!(why.starts_with("the X server's input thread used"), "{why}");
            assert_eq!(server.policy(), ORDINARY);
            groups.real_time = Err(String::new());
            assert_eq!(session.policy(), ORDINARY);
        }
    }
    drop((server, session, runtime));
    wait_until_gone(&places, &[groups.desktop, groups.computes]);
}
