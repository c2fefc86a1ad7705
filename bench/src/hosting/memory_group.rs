//! One control group with a limit of memory, in which a server, its desktops and a memory hog
//! compete. From the mounted hierarchies (version 1, or 2 at its root) to a folder that goes with
//! its owner. Knows control groups; never the programs in one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::process::wait_for;

/// Longest until a group whose processes have ended is empty.
const EMPTY_MAX: Duration = Duration::from_secs(5);

/// A group; removed with this, which must be after its processes have ended.
pub(super) struct MemoryGroup {
    folder: PathBuf,
    /// Where this process was.
    home: PathBuf,
}

/// Where memory is controlled.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    mount: PathBuf,
    /// The group of this process in it, from the mount on.
    own: PathBuf,
    is_v2: bool,
}

impl Hierarchy {
    /// From what the kernel says is mounted, and where it says this process is.
    fn find(mounts: &str, groups: &str) -> Option<Hierarchy> {
        let found = mounts.lines().filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut left = left.split(' ').skip(3);
            let (root, mount) = (left.next()?, left.next()?);
            let mut right = right.split(' ');
            let (kind, options) = (right.next()?, right.nth(1)?);
            let is_v2 = kind == "cgroup2";
            let is_memory = kind == "cgroup" && options.split(',').any(|option| option == "memory");
            if !is_v2 && !is_memory {
                return None;
            }
            let path = groups.lines().find_map(|line| {
                let (_, line) = line.split_once(':')?;
                let (controllers, path) = line.split_once(':')?;
                let is_it = if is_v2 {
                    controllers.is_empty()
                } else {
                    controllers.split(',').any(|controller| controller == "memory")
                };
                is_it.then_some(path)
            })?;
            // In a container the mount shows a part of the tree.
            let own = if root == "/" { path } else { path.strip_prefix(root)? };
            let own = PathBuf::from(own.trim_start_matches('/'));
            Some(Hierarchy { mount: PathBuf::from(mount), own, is_v2 })
        });
        // Where version 1 has the controller, version 2 has it not.
        found.min_by_key(|hierarchy| hierarchy.is_v2)
    }
}

impl MemoryGroup {
    /// A group of at most so many megabytes (10^6 bytes) of memory, beside which its processes may
    /// use swap.
    pub(super) fn new(limit_mb: u32) -> Result<MemoryGroup, Error> {
        let read = |path: &str| {
            fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
        };
        let found = Hierarchy::find(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?);
        let hierarchy = found.ok_or("no control groups are mounted: memory cannot be limited")?;
        let Hierarchy { mount, own, is_v2 } = hierarchy;
        if is_v2 {
            give_memory(&mount)?;
        }
        let folder = mount.join(format!("thinc-bench-memory-{}", std::process::id()));
        fs::create_dir(&folder)
            .map_err(|error| format!("no control group {}: {error}", folder.display()))?;
        let group = MemoryGroup { folder, home: mount.join(own) };
        let file = if is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let file = group.folder.join(file);
        let bytes = u64::from(limit_mb) * 1_000_000;
        fs::write(&file, bytes.to_string())
            .map_err(|error| format!("cannot limit memory by {}: {error}", file.display()))?;
        Ok(group)
    }

    /// What this process starts from now on is in the group.
    pub(super) fn enter(&self) -> Result<(), Error> {
        self.go(&self.folder)
    }

    /// What this process starts from now on is outside of it.
    pub(super) fn leave(&self) -> Result<(), Error> {
        self.go(&self.home)
    }

    fn go(&self, folder: &Path) -> Result<(), Error> {
        let file = folder.join("cgroup.procs");
        Ok(fs::write(&file, std::process::id().to_string())
            .map_err(|error| format!("cannot move by {}: {error}", file.display()))?)
    }
}

/// At the root of version 2, the only group that may have processes beside controllers.
fn give_memory(mount: &Path) -> Result<(), Error> {
    let file = mount.join("cgroup.subtree_control");
    let has = || {
        let given = fs::read_to_string(&file).unwrap_or_default();
        given.split_whitespace().any(|name| name == "memory")
    };
    if !has() {
        // Whether that was allowed is read back.
        let _ = fs::write(&file, "+memory");
    }
    if has() {
        return Ok(());
    }
    let mount = mount.display();
    Err(format!("the control groups at {mount} have no controller for memory").into())
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = self.leave();
        let gone = || (remove(&self.folder).is_ok() || !self.folder.exists()).then_some(());
        if let Err(error) = wait_for("the control group is empty", EMPTY_MAX, gone) {
            eprintln!("thinc-bench: {} stays: {error}", self.folder.display());
        }
    }
}

/// With the groups that a server has made in it.
fn remove(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_has_memory_where_both_are_mounted() {
        let mounts = "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             32 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
             30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let groups = "4:memory:/a/b\n3:cpu:/c\n0::/d\n";
        let found = Hierarchy::find(mounts, groups).unwrap();
        assert_eq!(
            (found.mount.to_str(), found.own.to_str()),
            (Some("/sys/fs/cgroup/memory"), Some("a/b"))
        );
        assert!(!found.is_v2);
    }

    #[test]
    fn version_2_alone_is_found_and_nothing_is_no_group() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchy::find(mounts, "0::/user.slice\n").unwrap();
        assert!(found.is_v2 && found.own == Path::new("user.slice"));
        assert_eq!(Hierarchy::find("", ""), None);
        let part = "30 24 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = Hierarchy::find(part, "0::/docker/1/in\n").unwrap();
        assert_eq!(found.own, Path::new("in"));
    }
}
