//! Accounts in control groups: one for each group of processes, and one with a high weight for the
//! harness itself. From the mounted hierarchies (version 2, or cpuacct and memory of version 1) to
//! milliseconds and bytes. Knows control groups; never processes by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::{Group, Kind, prefixed, tree};
use crate::Error;
use crate::process::wait_for;

/// Of `cpu.weight`, whose default is 100: a hundred times everybody else, the most that the kernel
/// takes.
const WEIGHT: u32 = 10_000;
/// Of `cpu.shares`, whose default is 1024: the same hundred times.
const SHARES: u32 = 102_400;
const PREFIX: &str = "thinc-bench-";

/// The accounts of one stage.
pub(super) struct Cgroups {
    groups: [Place; 3],
    /// Folders that are this stage's alone, innermost first.
    folders: Vec<PathBuf>,
    /// Where wrapped processes go in the `cpu` hierarchy of version 1, so that they have not the
    /// harness's weight.
    plain: Option<PathBuf>,
    /// There until this is dropped.
    harness: Option<Arc<Harness>>,
}

/// Where one group is counted.
struct Place {
    cpu: PathBuf,
    memory: Option<PathBuf>,
}

/// This process's own place, shared by all accounts that it has open.
struct Harness {
    kind: Kind,
    base: Bases,
    /// Counts the harness and what it starts without an account.
    own: PathBuf,
    /// Folders of the harness, innermost first.
    folders: Vec<PathBuf>,
    /// Where this process was, to go back to.
    home: Vec<PathBuf>,
    /// Controllers that were turned on for children, to be turned off again, in this order.
    controllers: Vec<(PathBuf, &'static str)>,
    has_memory: bool,
    has_weight: bool,
}

/// Folders of the hierarchies in which this process was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bases {
    unified: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
    cpu: Option<PathBuf>,
    memory: Option<PathBuf>,
}

static HARNESS: Mutex<Weak<Harness>> = Mutex::new(Weak::new());

impl Cgroups {
    /// Groups of this name below a folder of this process.
    pub(super) fn open(name: &str, kind: Kind) -> Result<Cgroups, Error> {
        let harness = Harness::shared(kind)?;
        let mut folders = Vec::new();
        let opened = harness.groups(name, &mut folders);
        let plain =
            harness.base.cpu.clone().filter(|_| kind == Kind::CgroupV1 && harness.has_weight);
        match opened {
            Ok(groups) => Ok(Cgroups { groups, folders, plain, harness: Some(harness) }),
            Err(error) => {
                remove(&folders);
                release(harness);
                Err(error)
            }
        }
    }

    fn harness(&self) -> &Harness {
        self.harness.as_ref().expect("accounts have a harness until they are dropped")
    }

    pub(super) fn counts_memory(&self) -> bool {
        self.harness().has_memory
    }

    /// A shell joins the groups before it becomes the command: whatever the command starts is in
    /// them from the beginning.
    pub(super) fn wrap(&self, group: Group, command: &Command) -> Command {
        const JOIN: &str = r#"
            while [ "$1" != -- ]; do
                echo $$ > "$1/cgroup.procs" || exit 126
                shift
            done
            shift
            exec "$@""#;
        let place = &self.groups[group as usize];
        let joined =
            [Some(&place.cpu), place.memory.as_ref(), self.plain.as_ref()].into_iter().flatten();
        let words = ["-c".as_ref(), JOIN.as_ref(), "sh".as_ref()].into_iter();
        prefixed(
            "sh",
            words.chain(joined.map(|folder| folder.as_os_str())).chain(["--".as_ref()]),
            command,
        )
    }

    pub(super) fn cpu_ms(&self, group: Group) -> Result<f64, Error> {
        usage_of(&self.groups[group as usize].cpu)
    }

    pub(super) fn memory_bytes(&self, group: Group) -> Result<u64, Error> {
        let place = &self.groups[group as usize];
        let Some(folder) =
            &place.memory.as_ref().or(Some(&place.cpu).filter(|_| self.harness().has_memory))
        else {
            return Ok(tree::memory_bytes(&self.pids(group)?));
        };
        let file = folder.join("memory.stat");
        let text = read(&file)?;
        // Version 1 counts shared memory apart from resident, and children only under "total".
        let names = if self.harness().kind == Kind::CgroupV2 {
            ["anon", "shmem"]
        } else {
            ["total_rss", "total_shmem"]
        };
        let value =
            |name| value_of(&text, name).ok_or_else(|| format!("{} has no {name}", file.display()));
        Ok(value(names[0])? + value(names[1])?)
    }

    pub(super) fn pids(&self, group: Group) -> Result<Vec<u32>, Error> {
        let text = read(&self.groups[group as usize].cpu.join("cgroup.procs"))?;
        // A process of another process namespace reads as 0.
        Ok(text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| pid != 0).collect())
    }

    pub(super) fn own_ms(&self) -> f64 {
        let groups: f64 = self.groups.iter().filter_map(|place| usage_of(&place.cpu).ok()).sum();
        groups + usage_of(&self.harness().own).unwrap_or_default()
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // The owner has ended what was in them.
        remove(&self.folders);
        if let Some(harness) = self.harness.take() {
            release(harness);
        }
    }
}

/// The last one goes under the lock: accounts that are opened meanwhile must find this process
/// where it was before.
fn release(harness: Arc<Harness>) {
    let _current = HARNESS.lock().unwrap_or_else(PoisonError::into_inner);
    drop(harness);
}

impl Harness {
    /// That of this process, made where there is none.
    fn shared(kind: Kind) -> Result<Arc<Harness>, Error> {
        let mut current = HARNESS.lock().unwrap_or_else(PoisonError::into_inner);
        match current.upgrade() {
            Some(harness) if harness.kind == kind => Ok(harness),
            Some(harness) => {
                Err(format!("this process keeps its accounts in {:?} already", harness.kind).into())
            }
            None => {
                let harness = Arc::new(Harness::open(kind)?);
                *current = Arc::downgrade(&harness);
                Ok(harness)
            }
        }
    }

    fn open(kind: Kind) -> Result<Harness, Error> {
        let base = Bases::of(
            &read(Path::new("/proc/self/mountinfo"))?,
            &read(Path::new("/proc/self/cgroup"))?,
        );
        let own_name = format!("{PREFIX}{}", std::process::id());
        let top = match kind {
            Kind::CgroupV2 => base.unified.as_ref().ok_or("cgroup v2 is not mounted")?,
            _ => base.cpuacct.as_ref().ok_or("cgroup v1 has no cpuacct")?,
        };
        if kind == Kind::CgroupV1 && base.memory.is_none() {
            return Err("cgroup v1 has no memory".into());
        }
        remove_stale(top);
        let top = top.join(&own_name);
        let own = top.join("harness");
        let mut harness = Harness {
            kind,
            base,
            own,
            folders: Vec::new(),
            home: Vec::new(),
            controllers: Vec::new(),
            has_memory: kind == Kind::CgroupV1,
            has_weight: false,
        };
        for folder in [top, harness.own.clone()] {
            harness.make(folder)?;
        }
        let own = harness.own.clone();
        match kind {
            Kind::CgroupV2 => harness.enter_unified(&own)?,
            _ => harness.enter_split(&own, &own_name)?,
        }
        Ok(harness)
    }

    /// Version 2: a group has either processes or controllers for its children, so this process
    /// moves into a leaf first.
    fn enter_unified(&mut self, own: &Path) -> Result<(), Error> {
        let base = self.base.unified.clone().ok_or("cgroup v2 is not mounted")?;
        self.enter(own, &base)?;
        let top = own.parent().ok_or("a control group has a parent")?.to_owned();
        self.has_memory = self.turn_on(&base, "memory") && self.turn_on(&top, "memory");
        // Hundred times only against the stage's processes together: within the stage each competes
        // with each, as without any groups, for which the stage's groups get no CPU controller.
        let weighs = self.turn_on(&base, "cpu") && self.turn_on(&top, "cpu");
        self.has_weight = weighs && fs::write(own.join("cpu.weight"), WEIGHT.to_string()).is_ok();
        Ok(())
    }

    /// Gives a controller to the children of a group. Not every group can: the one that this
    /// process comes from may have other processes, and then keeps its controllers to itself.
    fn turn_on(&mut self, folder: &Path, controller: &'static str) -> bool {
        let file = folder.join("cgroup.subtree_control");
        let has =
            || read(&file).is_ok_and(|text| text.split_whitespace().any(|name| name == controller));
        if has() {
            return true;
        }
        if fs::write(&file, format!("+{controller}")).is_err() || !has() {
            return false;
        }
        self.controllers.insert(0, (file, controller));
        true
    }

    /// Version 1: the weight is in a hierarchy of its own, where nothing but this process moves.
    fn enter_split(&mut self, own: &Path, own_name: &str) -> Result<(), Error> {
        let cpuacct = self.base.cpuacct.clone().ok_or("cgroup v1 has no cpuacct")?;
        self.enter(own, &cpuacct)?;
        match self.base.cpu.clone() {
            // Mounted together, groups for accounts are groups for the scheduler.
            Some(cpu) if cpu == cpuacct => {
                self.base.cpu = None;
                self.has_weight = fs::write(own.join("cpu.shares"), SHARES.to_string()).is_ok();
            }
            Some(cpu) => {
                remove_stale(&cpu);
                let folder = cpu.join(own_name);
                let weighs = self.make(folder.clone()).is_ok()
                    && fs::write(folder.join("cpu.shares"), SHARES.to_string()).is_ok();
                self.has_weight = weighs && self.enter(&folder, &cpu).is_ok();
            }
            None => {}
        }
        Ok(())
    }

    fn make(&mut self, folder: PathBuf) -> Result<(), Error> {
        fs::create_dir(&folder)
            .map_err(|error| format!("no control group {}: {error}", folder.display()))?;
        self.folders.insert(0, folder);
        Ok(())
    }

    /// Moves this process.
    fn enter(&mut self, folder: &Path, home: &Path) -> Result<(), Error> {
        fs::write(folder.join("cgroup.procs"), std::process::id().to_string()).map_err(
            |error| format!("cannot move into the control group {}: {error}", folder.display()),
        )?;
        self.home.push(home.to_owned());
        Ok(())
    }

    /// Folders for the groups of one stage; what is made is noted in `folders`, innermost first.
    fn groups(&self, name: &str, folders: &mut Vec<PathBuf>) -> Result<[Place; 3], Error> {
        let mut make = |folder: PathBuf| -> Result<PathBuf, Error> {
            match fs::create_dir(&folder) {
                Ok(()) => folders.insert(0, folder.clone()),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(format!("no control group {}: {error}", folder.display()).into());
                }
            }
            Ok(folder)
        };
        let top = self.own.parent().ok_or("a control group has a parent")?;
        let stage = make(top.join(name))?;
        let memory = match (self.kind, &self.base.memory) {
            (Kind::CgroupV1, Some(memory)) => {
                remove_stale(memory);
                Some(make(memory.join(format!("{PREFIX}{}-{name}", std::process::id())))?)
            }
            _ => None,
        };
        if self.kind == Kind::CgroupV2 && self.has_memory {
            let file = stage.join("cgroup.subtree_control");
            fs::write(&file, "+memory").map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let mut place = |group: Group| -> Result<Place, Error> {
            let memory =
                memory.as_ref().map(|memory| make(memory.join(group.name()))).transpose()?;
            Ok(Place { cpu: make(stage.join(group.name()))?, memory })
        };
        Ok([place(Group::Server)?, place(Group::Apps)?, place(Group::Client)?])
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // A group whose children have controllers takes no process back.
        for (file, controller) in &self.controllers {
            let _ = fs::write(file, format!("-{controller}"));
        }
        for home in &self.home {
            let _ = fs::write(home.join("cgroup.procs"), std::process::id().to_string());
        }
        // What this process started without an account is in its group, and goes back with it.
        for folder in &self.folders {
            for pid in read(&folder.join("cgroup.procs")).unwrap_or_default().lines() {
                let home = self.home.iter().find(|home| folder.starts_with(home));
                let _ = home.map(|home| fs::write(home.join("cgroup.procs"), pid));
            }
        }
        remove(&self.folders);
    }
}

impl Bases {
    /// From what the kernel says is mounted, and where it says this process is.
    fn of(mounts: &str, groups: &str) -> Bases {
        let mut bases = Bases::default();
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (&[_, _, _, root, point, ..], &[kind, _, options, ..]) =
                (left.as_slice(), right.as_slice())
            else {
                continue;
            };
            let place = |belongs: &dyn Fn(&str) -> bool| {
                let path = groups.lines().find_map(|line| {
                    let (_, line) = line.split_once(':')?;
                    let (controllers, path) = line.split_once(':')?;
                    belongs(controllers).then_some(path)
                })?;
                // In a container the mount shows a part of the tree; a path beside that part is not
                // to be reached.
                let below = if root == "/" { Some(path) } else { path.strip_prefix(root) };
                Some(Path::new(point).join(below.unwrap_or_default().trim_start_matches('/')))
            };
            if kind == "cgroup2" {
                bases.unified =
                    bases.unified.or_else(|| place(&|controllers| controllers.is_empty()));
            } else if kind == "cgroup" {
                for (name, base) in [
                    ("cpuacct", &mut bases.cpuacct),
                    ("cpu", &mut bases.cpu),
                    ("memory", &mut bases.memory),
                ] {
                    if base.is_none() && options.split(',').any(|option| option == name) {
                        *base = place(&|controllers| {
                            controllers.split(',').any(|controller| controller == name)
                        });
                    }
                }
            }
        }
        bases
    }
}

/// CPU time that a control group of either version has had, milliseconds.
fn usage_of(folder: &Path) -> Result<f64, Error> {
    if let Ok(text) = fs::read_to_string(folder.join("cpuacct.usage")) {
        let nanoseconds: f64 =
            text.trim().parse().map_err(|_| format!("{}: no number", folder.display()))?;
        return Ok(nanoseconds / 1e6);
    }
    let file = folder.join("cpu.stat");
    let microseconds = value_of(&read(&file)?, "usage_usec");
    Ok(microseconds
        .ok_or_else(|| format!("{} has no usage_usec: is it of cgroup v2?", file.display()))?
        as f64
        / 1e3)
}

fn value_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn read(file: &Path) -> Result<String, Error> {
    Ok(fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?)
}

/// Removes folders whose processes have just ended: the kernel may still be at it.
fn remove(folders: &[PathBuf]) {
    for folder in folders {
        let gone = || (fs::remove_dir(folder).is_ok() || !folder.exists()).then_some(());
        if let Err(error) = wait_for("the control group is empty", Duration::from_secs(1), gone) {
            eprintln!("thinc-bench: {} stays: {error}", folder.display());
        }
    }
}

/// Removes what a run that was killed has left, as far as nothing runs in it.
fn remove_stale(base: &Path) {
    let stale = |name: &str| {
        let pid = name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok()?;
        (!Path::new(&format!("/proc/{pid}")).exists()).then_some(())
    };
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_name().to_str().and_then(stale).is_some() {
            remove_empty(&entry.path());
        }
    }
}

fn remove_empty(folder: &Path) {
    let inner = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_empty(&entry.path());
    }
    let _ = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_where_they_are_mounted() {
        let path = |path: &str| Some(PathBuf::from(path));
        let unified = Bases::of(
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            "0::/user.slice/user-1000.slice/session-2.scope\n",
        );
        let folder = path("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope");
        assert_eq!(unified, Bases { unified: folder, ..Bases::default() });
        let split = Bases::of(
            "31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 24 0:28 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "4:memory:/docker/1/inner\n3:cpu,cpuacct:/\n0::/\n",
        );
        let both = path("/sys/fs/cgroup/cpu,cpuacct/");
        let memory = path("/sys/fs/cgroup/memory/inner");
        assert_eq!(split, Bases { cpuacct: both.clone(), cpu: both, memory, unified: None });
        assert_eq!(Bases::of("", ""), Bases::default());
    }

    #[test]
    fn values_are_taken_by_their_whole_name() {
        let text = "cache 1\ntotal_rss_huge 7\ntotal_rss 4096\n";
        assert_eq!((value_of(text, "total_rss"), value_of(text, "rss")), (Some(4096), None));
    }
}
