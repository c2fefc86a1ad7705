//! Memory and processors of a desktop, by control groups of the kernel. Beside the path: from
//! limits.rs, to the files of cgroups(7): version 2 or 1, for each controller the one that has it.
//! session_groups.rs has the groups by which processor time follows the person; a limit of the same
//! hierarchy is set there, and so is each where systemd owns version 2, as it undoes what others
//! write. Knows paths and numbers; never who a person is.

use std::fs;
use std::path::{Path, PathBuf};

use tracing::info;

use crate::admission::Whose;
use crate::limits::{Limits, at};
use crate::session_groups::{SessionGroups, Tree};

/// The folder of all desktops in the group that the broker was started in.
pub(crate) const GROUP: &str = "thinc";
/// Microseconds in which a group may use its time of processors: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// systemd runs where this exists: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// Where a desktop's limits are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    groups: Vec<Group>,
    /// By which processor time follows the person, or systemd sets the limits; or why there are
    /// none. `None` where the administrator wants none.
    tree: Option<Result<Tree, String>>,
    /// Threads of desktops in these groups may be real-time.
    real_time: bool,
}

/// Of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) home: Home,
    pub(crate) controller: &'static str,
    /// Files of a desktop's group, and what is written to them, in this order.
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// The group of this process in the hierarchy that has a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) folder: PathBuf,
    pub(crate) version: Version,
    /// Where the hierarchy is mounted, and which of its groups is there.
    mount: PathBuf,
    root: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// Which desktops' groups are removed if they are empty.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended<'a> {
    /// Of this login all but these, by name, and those of logins that have ended.
    Except(&'a [&'a str]),
    /// Of this login all, and those of logins that have ended.
    All,
}

impl Places {
    /// For these limits, on this system, from the group of this process.
    pub(crate) fn find(limits: &Limits) -> Result<Places, String> {
        let has_limits = limits.memory.is_some() || limits.processor_percent.is_some();
        if !has_limits && !limits.priority {
            return Ok(Places::default());
        }
        let read = |path: &str| fs::read_to_string(path).map_err(at(Path::new(path)));
        let texts = read("/proc/self/mountinfo").and_then(|mounts| {
            let own = read("/proc/self/cgroup")?;
            Ok((mounts, own))
        });
        match texts {
            // A kernel without control groups.
            Err(why) if !has_limits => Ok(Places { tree: Some(Err(why)), ..Places::default() }),
            Err(why) => Err(why),
            Ok((mounts, own)) => Places::from(limits, &mounts, &own, Path::new(SYSTEMD).exists()),
        }
    }

    /// `mounts` and `own` are the texts of the files above.
    fn from(limits: &Limits, mounts: &str, own: &str, by_systemd: bool) -> Result<Places, String> {
        let mut places = Places { real_time: limits.real_time, ..Places::default() };
        // For systemd.
        let mut properties = Vec::new();
        let mut add = |key, controller, property: String, v1, v2| {
            let home = Home::find(mounts, own, controller, by_systemd).ok_or_else(|| {
                format!(
                    "{key} cannot be enforced: no control group of this system has the controller \
                     \"{controller}\" (cgroups(7)). Mount or enable it, or remove the key"
                )
            })?;
            match home.version {
                Version::V2 if by_systemd => properties.push(property),
                Version::V2 => {
                    home.check_divisible(controller)
                        .map_err(|why| format!("{key} cannot be enforced: {why}"))?;
                    places.groups.push(Group { home, controller, settings: v2 });
                }
                Version::V1 => places.groups.push(Group { home, controller, settings: v1 }),
            }
            Ok::<(), String>(())
        };
        if let Some(bytes) = limits.memory {
            let text = bytes.to_string();
            add(
                "session-memory",
                "memory",
                format!("MemoryMax={bytes}"),
                vec![("memory.limit_in_bytes", text.clone())],
                vec![("memory.max", text)],
            )?;
        }
        if let Some(percent) = limits.processor_percent {
            let quota = u64::from(percent) * PERIOD_US / 100;
            add(
                "session-processors",
                "cpu",
                format!("CPUQuota={percent}%"),
                vec![
                    ("cpu.cfs_period_us", PERIOD_US.to_string()),
                    ("cpu.cfs_quota_us", quota.to_string()),
                ],
                vec![("cpu.max", format!("{quota} {PERIOD_US}"))],
            )?;
        }
        if !properties.is_empty() {
            let tree = Tree::of_systemd(mounts, own, properties, limits.priority)?;
            places.tree = Some(Ok(tree));
        } else if limits.priority {
            places.tree = Some(Tree::find(mounts, own, by_systemd, &mut places.groups));
        }
        Ok(places)
    }

    /// The file in which the kernel says how much desktops in use wait for processors; where they
    /// have no groups, `of_machine`, which says it of all that runs. `None`: they go before
    /// background jobs, and only the figures of both together are known.
    pub(crate) fn processor_pressure(&self, of_machine: &Path) -> Option<(Whose, PathBuf)> {
        match &self.tree {
            Some(Ok(tree)) => tree.pressure().map(|path| (Whose::Foreground, path)),
            _ => Some((Whose::Machine, of_machine.to_owned())),
        }
    }

    /// Logs why processor time does not follow the person, if it should.
    pub(crate) fn tell_without_tree(&self, uid: u32) {
        if let Some(Err(why)) = &self.tree {
            info!(uid, "processor time does not follow what user {uid} does: {why}");
        }
        let tree = self.tree.iter().flatten();
        for why in tree.filter_map(Tree::without_memory) {
            info!(uid, "no memory is kept for what answers user {uid}: {why}");
        }
    }

    /// Moves this process to a new group with the limits.
    pub(crate) fn enter(&self, name: &str, process: u32) -> Result<(), String> {
        self.groups.iter().try_for_each(|group| group.enter(name, process))
    }

    /// Moves it to new groups by which processor time follows the person; `None` where there are
    /// none. Without limits in them a desktop starts all the same where they cannot be made, and
    /// this login does not try again.
    pub(crate) fn enter_tree(
        &mut self,
        name: &str,
        uid: u32,
        process: u32,
    ) -> Result<Option<SessionGroups>, String> {
        let Some(Ok(tree)) = &self.tree else { return Ok(None) };
        match tree.enter(name, uid, process) {
            Err(error) if !tree.has_limits() => {
                self.tree = Some(Err(error));
                self.tell_without_tree(uid);
                Ok(None)
            }
            entered => {
                let mut groups = entered?;
                if self.real_time {
                    groups.allow_real_time();
                }
                Ok(tree.moves().then_some(groups))
            }
        }
    }

    /// The group to which a process goes back from those of a desktop.
    pub(crate) fn origin_of(&self, process: u32) -> Option<PathBuf> {
        self.tree.iter().flatten().next()?.origin_of(process)
    }

    /// Moves it back.
    pub(crate) fn leave(&self, process: u32, origin: Option<&Path>) -> Result<(), String> {
        let homes = self.groups.iter().map(|group| group.home.folder.as_path());
        let tree = self.tree.iter().flatten().flat_map(|tree| tree.leave_for(origin));
        homes.chain(tree).try_for_each(|folder| enter(folder, process))
    }

    /// Removes the groups of desktops that have ended.
    pub(crate) fn remove_empty(&self, ended: Ended<'_>) {
        self.groups.iter().for_each(|group| group.remove_empty(ended));
        self.tree.iter().flatten().for_each(|tree| tree.remove_empty(ended));
    }
}

impl Group {
    fn enter(&self, name: &str, process: u32) -> Result<(), String> {
        let parent = self.home.folder.join(GROUP);
        self.home.divide(&self.home.folder, &[self.controller])?;
        make(&parent)?;
        self.home.divide(&parent, &[self.controller])?;
        let group = parent.join(name);
        make(&group)?;
        for (file, value) in &self.settings {
            write(&group.join(file), value)?;
        }
        enter(&group, process)
    }

    fn remove_empty(&self, ended: Ended<'_>) {
        for group in ended.among(&self.home.folder.join(GROUP)) {
            // The kernel refuses it while a process is there.
            let _ = fs::remove_dir(group);
        }
    }
}

impl Ended<'_> {
    /// Folders of desktops in this one. Those of other logins that live may be about to be entered.
    pub(crate) fn among(self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        let own = std::process::id().to_string();
        fs::read_dir(folder).into_iter().flatten().flatten().filter_map(move |entry| {
            let name = entry.file_name();
            let name = name.to_str()?;
            let login = name.split('-').nth(1)?;
            let has_ended = match self {
                _ if login != own => !Path::new("/proc").join(login).exists(),
                Ended::Except(living) => !living.contains(&name),
                Ended::All => true,
            };
            has_ended.then(|| entry.path())
        })
    }
}

impl Home {
    /// `mounts` and `own` are the texts of mountinfo and cgroup in /proc/self.
    pub(crate) fn find(
        mounts: &str,
        own: &str,
        controller: &str,
        by_systemd: bool,
    ) -> Option<Home> {
        mounts.lines().find_map(|line| {
            let (fields, source) = line.split_once(" - ")?;
            let (mut fields, mut source) = (fields.split(' ').skip(3), source.split(' '));
            let (root, mount) = (Path::new(fields.next()?), Path::new(fields.next()?));
            let kind = source.next()?;
            let options = source.nth(1)?;
            let version = match kind {
                "cgroup" if options.split(',').any(|name| name == controller) => Version::V1,
                "cgroup2" => Version::V2,
                _ => return None,
            };
            let path = path_of(own, controller, version)?;
            // A container sees its own group as the root of the mount.
            let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
            let folder = mount.join(below);
            if version == Version::V2 {
                // systemd enables a controller in the groups that need it, when they do.
                let lists = if by_systemd { mount } else { &folder };
                let controllers = fs::read_to_string(lists.join("cgroup.controllers")).ok()?;
                controllers.split_whitespace().find(|name| *name == controller)?;
            }
            Some(Home { folder, version, mount: mount.to_owned(), root: root.to_owned() })
        })
    }

    /// The kernel divides a group of version 2 only if no process is in it, the root's apart.
    pub(crate) fn check_divisible(&self, controller: &str) -> Result<(), String> {
        let divided = self.folder.join("cgroup.subtree_control");
        let has = fs::read_to_string(&divided).map_err(at(&divided))?;
        let is_root = !self.folder.join("cgroup.type").exists();
        if is_root || has.split_whitespace().any(|name| name == controller) {
            return Ok(());
        }
        Err(format!(
            "the broker's control group {} holds processes, and the kernel does not divide such a \
             one. Start the broker in the root group, or below a group that has +{controller} in \
             its cgroup.subtree_control",
            self.folder.display(),
        ))
    }

    /// Version 2: groups below this folder have these controllers. In version 1 they always have.
    pub(crate) fn divide(&self, folder: &Path, controllers: &[&str]) -> Result<(), String> {
        if self.version == Version::V1 {
            return Ok(());
        }
        let enabled: Vec<String> = controllers.iter().map(|name| format!("+{name}")).collect();
        write(&folder.join("cgroup.subtree_control"), &enabled.join(" "))
    }

    /// The folder of the group that a process is in now, from its file "cgroup" in /proc.
    pub(crate) fn folder_of(&self, cgroup: &str, controller: &str) -> Option<PathBuf> {
        let path = Path::new(path_of(cgroup, controller, self.version)?);
        path.strip_prefix(&self.root).ok().map(|below| self.mount.join(below))
    }
}

/// The path of a group in the hierarchy of a controller, from a file "cgroup" in /proc.
fn path_of<'a>(cgroup: &'a str, controller: &str, version: Version) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_meant = match version {
            Version::V1 => controllers.split(',').any(|name| name == controller),
            Version::V2 => number == "0",
        };
        is_meant.then_some(path)
    })
}

pub(crate) fn make(path: &Path) -> Result<(), String> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(at(path)),
    }
}

/// Moves a process to the group of this folder.
pub(crate) fn enter(group: &Path, process: u32) -> Result<(), String> {
    write(&group.join("cgroup.procs"), &process.to_string())
}

/// Of what exists: nothing is created in a file system of the kernel.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), String> {
    let mut file = fs::OpenOptions::new().write(true).open(path).map_err(at(path))?;
    std::io::Write::write_all(&mut file, value.as_bytes()).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Admission, Policy};

    const BOTH: Limits = Limits {
        sessions: None,
        sessions_per_user: None,
        memory: Some(4 << 30),
        processor_percent: Some(150),
        priority: false,
        real_time: false,
        admission: Admission { policy: Policy::Off, memory: None },
    };

    /// A folder that looks like version 2, until it is dropped.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str, controllers: &str) -> Fake {
            let folder =
                std::env::temp_dir().join(format!("thinc-cgroup-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("own")).unwrap();
            fs::write(folder.join("cgroup.controllers"), "cpu memory\n").unwrap();
            fs::write(folder.join("own/cgroup.controllers"), controllers).unwrap();
            fs::write(folder.join("own/cgroup.subtree_control"), "").unwrap();
            Fake(folder)
        }

        fn places(&self, limits: &Limits, by_systemd: bool) -> Result<Places, String> {
            let mount = format!("30 1 0:1 / {} rw - cgroup2 cgroup rw\n", self.0.display());
            Places::from(limits, &mount, "0::/own\n", by_systemd)
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_controller_that_is_missing_is_named_with_its_key() {
        assert_eq!(Places::from(&Limits::default(), "", "", false), Ok(Places::default()));
        let fake = Fake::new("missing", "memory pids\n");
        let error = fake.places(&BOTH, false).unwrap_err();
        assert!(error.contains("session-processors") && error.contains("\"cpu\""), "{error}");
    }

    #[test]
    fn pressure_is_that_of_desktops_in_use_where_the_kernel_tells_it() {
        let machine = Path::new("/proc/pressure/cpu");
        let of = |places: Places| places.processor_pressure(machine);
        let alone = Some((Whose::Machine, machine.to_owned()));
        assert_eq!(of(Places::default()), alone, "nobody wants groups");
        let priority = Limits { priority: true, ..Limits::default() };
        let fake = Fake::new("pressure", "cpu memory\n");
        let foreground = fake.0.join("own/thinc/fg/cpu.pressure");
        let places = fake.places(&priority, false).unwrap();
        assert_eq!(of(places), Some((Whose::Foreground, foreground)));
        assert_eq!(of(fake.places(&priority, true).unwrap()), None, "each desktop has a scope");
        let mount = "30 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let places = Places::from(&priority, mount, "2:cpu:/a\n", false).unwrap();
        assert_eq!(of(places), None, "background jobs are part of the machine's");
    }

    #[test]
    fn version_2_is_divided_only_where_the_kernel_does_it_and_systemd_is_asked() {
        let fake = Fake::new("v2", "cpu memory\n");
        let places = fake.places(&BOTH, false).unwrap();
        assert_eq!(places.groups.len(), 2);
        assert_eq!(places.groups[0].settings, [("memory.max", "4294967296".to_owned())]);
        assert_eq!(places.groups[1].settings, [("cpu.max", "150000 100000".to_owned())]);
        fs::write(fake.0.join("own/cgroup.type"), "domain\n").unwrap();
        let error = fake.places(&BOTH, false).unwrap_err();
        assert!(error.contains("holds processes"), "{error}");
        fs::write(fake.0.join("own/cgroup.subtree_control"), "cpu memory\n").unwrap();
        assert!(fake.places(&BOTH, false).is_ok());

        // Not even where the broker's own group has no controller yet.
        fs::write(fake.0.join("own/cgroup.controllers"), "").unwrap();
        let places = fake.places(&BOTH, true).unwrap();
        let tree = places.tree.unwrap().unwrap();
        assert_eq!(tree.properties().unwrap(), ["MemoryMax=4294967296", "CPUQuota=150%"]);
        assert!(places.groups.is_empty() && tree.has_limits());
    }

    #[test]
    fn version_1_has_a_group_for_each_controller_and_a_container_its_own_root() {
        let mounts = "30 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      31 1 0:2 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "2:cpu,cpuacct:/a\n1:memory:/box/b\n0::/\n";
        let found = Home::find(mounts, own, "memory", false).unwrap();
        assert_eq!(found.folder, Path::new("/sys/fs/cgroup/memory/b"));
        assert_eq!(found.version, Version::V1);
        let other = found.folder_of("1:memory:/box/c/d\n2:cpu:/box/e\n0::/f\n", "memory");
        assert_eq!(other, Some("/sys/fs/cgroup/memory/c/d".into()));
        let outside = found.folder_of("1:memory:/boxes\n", "memory");
        assert_eq!(outside, None, "what is not mounted here has no folder");
        let found = Home::find(mounts, own, "cpu", false).unwrap();
        assert_eq!(found.folder, Path::new("/sys/fs/cgroup/cpu/a"));
        assert_eq!(found.version, Version::V1);
        assert_eq!(Home::find(mounts, own, "pids", false), None);
    }
}
