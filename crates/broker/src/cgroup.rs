//! Memory and processors of a desktop, by control groups of the kernel. Beside the path: from
//! limits.rs, to the files of cgroups(7): version 2 or 1, for each controller the one that has it.
//! Where systemd owns version 2, it is asked, as it undoes what others write. Knows paths and
//! numbers; never who a person is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::limits::{Limits, at};

/// The folder of all desktops in the group that the broker was started in.
const GROUP: &str = "thinc";
/// Microseconds in which a group may use its time of processors: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// systemd runs where this exists: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// Where a desktop's limits are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    groups: Vec<Group>,
    /// For systemd instead: the properties of the login's scope.
    properties: Vec<String>,
}

/// Of one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// The one of this process.
    home: PathBuf,
    version: Version,
    controller: &'static str,
    /// Files of a desktop's group, and what is written to them, in this order.
    settings: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Places {
    /// For these limits, on this system, from the group of this process.
    pub(crate) fn find(limits: &Limits) -> Result<Places, String> {
        if limits.memory.is_none() && limits.processor_percent.is_none() {
            return Ok(Places::default());
        }
        let read = |path: &str| fs::read_to_string(path).map_err(at(Path::new(path)));
        let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
        Places::from(limits, &mounts, &own, Path::new(SYSTEMD).exists())
    }

    /// `mounts` and `own` are the texts of the files above.
    fn from(limits: &Limits, mounts: &str, own: &str, by_systemd: bool) -> Result<Places, String> {
        let mut places = Places::default();
        let mut add = |key, controller, property: String, v1, v2| {
            let (home, version) = home(mounts, own, controller, by_systemd).ok_or_else(|| {
                format!(
                    "{key} cannot be enforced: no control group of this system has the controller \
                     \"{controller}\" (cgroups(7)). Mount or enable it, or remove the key"
                )
            })?;
            match version {
                Version::V2 if by_systemd => places.properties.push(property),
                Version::V2 => {
                    let group = Group { home, version, controller, settings: v2 };
                    group.check_v2(key)?;
                    places.groups.push(group);
                }
                Version::V1 => {
                    places.groups.push(Group { home, version, controller, settings: v1 });
                }
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
        Ok(places)
    }

    /// Lets systemd limit all that this login starts, once PAM has opened its session. In the main
    /// thread of a login process, before it waits for all children.
    pub(crate) fn limit_scope(&self) -> Result<(), String> {
        if self.properties.is_empty() {
            return Ok(());
        }
        let path = Path::new("/proc/self/cgroup");
        let own = fs::read_to_string(path).map_err(at(path))?;
        let scope = scope_of(&own).ok_or(
            "PAM has opened no session of logind, which limits by systemd need: pam_systemd.so is \
             missing in the rules",
        )?;
        let mut systemctl = Command::new("systemctl");
        systemctl.args(["set-property", "--runtime", scope]).args(&self.properties);
        let output = systemctl.stdin(Stdio::null()).output().map_err(at(Path::new("systemctl")))?;
        if output.status.success() {
            return Ok(());
        }
        let error = String::from_utf8_lossy(&output.stderr);
        Err(format!("systemctl set-property {scope}: {}", error.trim()))
    }

    /// Moves this process to a new group with the limits.
    pub(crate) fn enter(&self, uid: u32, number: u32, process: u32) -> Result<(), String> {
        let name = format!("{uid}-{}-{number}", std::process::id());
        self.groups.iter().try_for_each(|group| {
            group.remove_empty();
            group.enter(&name, process)
        })
    }

    /// Moves it back.
    pub(crate) fn leave(&self, process: u32) -> Result<(), String> {
        self.groups
            .iter()
            .try_for_each(|group| write(&group.home.join("cgroup.procs"), &process.to_string()))
    }

    /// Removes the groups of desktops that have ended.
    pub(crate) fn remove_empty(&self) {
        self.groups.iter().for_each(Group::remove_empty);
    }
}

impl Group {
    /// The kernel divides a group of version 2 only if no process is in it, the root's apart.
    fn check_v2(&self, key: &str) -> Result<(), String> {
        let divided = self.home.join("cgroup.subtree_control");
        let has = fs::read_to_string(&divided).map_err(at(&divided))?;
        let is_root = !self.home.join("cgroup.type").exists();
        if is_root || has.split_whitespace().any(|name| name == self.controller) {
            return Ok(());
        }
        Err(format!(
            "{key} cannot be enforced: the broker's control group {} holds processes, and the \
             kernel does not divide such a one. Start the broker in the root group, or below a \
             group that has +{} in its cgroup.subtree_control",
            self.home.display(),
            self.controller
        ))
    }

    fn enter(&self, name: &str, process: u32) -> Result<(), String> {
        let parent = self.home.join(GROUP);
        if self.version == Version::V2 {
            let enable = format!("+{}", self.controller);
            write(&self.home.join("cgroup.subtree_control"), &enable)?;
            make(&parent)?;
            write(&parent.join("cgroup.subtree_control"), &enable)?;
        }
        make(&parent)?;
        let group = parent.join(name);
        make(&group)?;
        for (file, value) in &self.settings {
            write(&group.join(file), value)?;
        }
        write(&group.join("cgroup.procs"), &process.to_string())
    }

    /// Those of this login, and of logins that have ended; others may be about to be entered.
    fn remove_empty(&self) {
        let own = std::process::id().to_string();
        for entry in fs::read_dir(self.home.join(GROUP)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let login = name.to_str().and_then(|name| name.split('-').nth(1));
            if login.is_some_and(|pid| pid == own || !Path::new("/proc").join(pid).exists()) {
                // The kernel refuses it while a process is there.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

fn make(path: &Path) -> Result<(), String> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(at(path)),
    }
}

/// Of what exists: nothing is created in a file system of the kernel.
fn write(path: &Path, value: &str) -> Result<(), String> {
    let mut file = fs::OpenOptions::new().write(true).open(path).map_err(at(path))?;
    std::io::Write::write_all(&mut file, value.as_bytes()).map_err(at(path))
}

/// The folder of this process's group for a controller.
fn home(mounts: &str, own: &str, controller: &str, by_systemd: bool) -> Option<(PathBuf, Version)> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let path_of = |is_meant: &dyn Fn(&str, &str) -> bool| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers) = (fields.next()?, fields.next()?);
            is_meant(number, controllers).then(|| fields.next())?
        })
    };
    mounts.lines().find_map(|line| {
        let (fields, source) = line.split_once(" - ")?;
        let (mut fields, mut source) = (fields.split(' ').skip(3), source.split(' '));
        let (root, mount) = (fields.next()?, Path::new(fields.next()?));
        let kind = source.next()?;
        let options = source.nth(1)?;
        let (path, version) = match kind {
            "cgroup" if has(options) => (path_of(&|_, list| has(list))?, Version::V1),
            "cgroup2" => (path_of(&|number, _| number == "0")?, Version::V2),
            _ => return None,
        };
        // A container sees its own group as the root of the mount.
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let home = mount.join(below);
        if version == Version::V2 {
            // systemd enables a controller in the groups that need it, when they do.
            let lists = if by_systemd { mount } else { &home };
            let controllers = fs::read_to_string(lists.join("cgroup.controllers")).ok()?;
            controllers.split_whitespace().find(|name| *name == controller)?;
        }
        Some((home, version))
    })
}

/// The scope that logind has made for a login, from /proc/self/cgroup.
fn scope_of(own: &str) -> Option<&str> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    path.rsplit('/').find(|part| part.ends_with(".scope"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Limits = Limits {
        sessions: None,
        sessions_per_user: None,
        memory: Some(4 << 30),
        processor_percent: Some(150),
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
        assert_eq!(places.properties, ["MemoryMax=4294967296", "CPUQuota=150%"]);
        assert!(places.groups.is_empty());
        let own = "0::/user.slice/user-7.slice/session-3.scope\n";
        assert_eq!(scope_of(own), Some("session-3.scope"));
        assert_eq!(scope_of("0::/system.slice/thinc-broker.service\n"), None);
    }

    #[test]
    fn version_1_has_a_group_for_each_controller_and_a_container_its_own_root() {
        let mounts = "30 1 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      31 1 0:2 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "2:cpu,cpuacct:/a\n1:memory:/box/b\n0::/\n";
        let found = home(mounts, own, "memory", false).unwrap();
        assert_eq!(found, ("/sys/fs/cgroup/memory/b".into(), Version::V1));
        let found = home(mounts, own, "cpu", false).unwrap();
        assert_eq!(found, ("/sys/fs/cgroup/cpu/a".into(), Version::V1));
        assert_eq!(home(mounts, own, "pids", false), None);
    }
}
