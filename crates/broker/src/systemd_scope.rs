//! A desktop's control group where systemd owns version 2 of them: a scope (systemd.scope(5)) in
//! the slice of its user, delegated, so that systemd leaves what is below it to session_groups.rs.
//! Beside the path: from there, to systemd by its own commands. Knows units and weights; never a
//! process of the desktop.
//!
//! Desktops stay in the slices of their users, not in one of thinc's: logind and polkit tell by the
//! slice whose a process is. So the user's slice is what goes before or behind those of others.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::cgroup::Home;
use crate::limits::at;

/// Before a name of a desktop, in that of its scope.
const PREFIX: &str = "thinc-";
/// Longest text of an error of systemd's commands, in bytes.
const ERROR_BYTES_MAX: u64 = 512;

/// The kernel ends a process that finds no memory, not systemd the desktop. Versions before 253 do
/// not know the property, and do so.
const OOM_POLICY: &str = "OOMPolicy=continue";

/// What siblings weigh (`CPUWeight`), of a desktop in its user's slice, and of that slice.
#[derive(Clone, Copy)]
pub(crate) struct Weights {
    pub(crate) scope: u32,
    pub(crate) slice: u32,
}

/// The scope of one desktop.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    unit: String,
    slice: String,
    pub(crate) folder: PathBuf,
}

/// A process in a new scope, which ends with this: a scope without processes ends.
pub(crate) struct Holder {
    pub(crate) process: u32,
    // Closed when it is dropped, upon which the process ends.
    _input: ChildStdin,
}

impl Scope {
    /// Starts the scope of a desktop of this user, with properties as systemd-run(1) takes them.
    /// `home` is any group of the hierarchy.
    pub(crate) fn start(
        home: &Home,
        name: &str,
        uid: u32,
        properties: &[String],
    ) -> Result<(Scope, Holder), String> {
        let (unit, slice) = (format!("{PREFIX}{name}.scope"), slice_of(uid));
        let with = [properties, &[OOM_POLICY.to_owned()]].concat();
        let holder = match Holder::start(&unit, &slice, &with) {
            Err(error) if error.contains("OOMPolicy") => Holder::start(&unit, &slice, properties),
            started => started,
        }?;
        let path = PathBuf::from(format!("/proc/{}/cgroup", holder.process));
        let own = fs::read_to_string(&path).map_err(at(&path))?;
        let folder = home
            .folder_of(&own, "")
            .filter(|folder| folder.file_name().is_some_and(|found| found == unit.as_str()))
            .ok_or_else(|| {
                format!("systemd has not put {unit} into a group of its own: {own:?}")
            })?;
        Ok((Scope { unit, slice, folder }, holder))
    }

    /// Its user's slice gets the weight of the user's heaviest desktop. A new scope has the usual
    /// one.
    pub(crate) fn weigh_slice(&self, all: &[Weights]) -> Result<(), String> {
        let Some(folder) = self.folder.parent() else { return Ok(()) };
        let _lock = lock(folder)?;
        weigh_slice(folder, &self.slice, all, None)
    }

    /// This desktop gets a weight, and its user's slice that of the user's heaviest desktop.
    pub(crate) fn weigh(&self, weight: u32, all: &[Weights]) -> Result<(), String> {
        let Some(folder) = self.folder.parent() else { return Ok(()) };
        // Each login of a user has a process of its own, which changes the same slice.
        let _lock = lock(folder)?;
        set_weight(&self.unit, Some(weight))?;
        // systemd answers before the kernel knows it.
        weigh_slice(folder, &self.slice, all, Some((&self.folder, weight)))
    }
}

impl Holder {
    fn start(unit: &str, slice: &str, properties: &[String]) -> Result<Holder, String> {
        let mut command = Command::new("systemd-run");
        command.args(["--scope", "--quiet", "--collect", "--unit", unit, "--slice", slice]).args([
            "--description",
            "A desktop of thinc",
            "--property",
            "Delegate=yes",
        ]);
        for property in properties {
            command.args(["--property", property]);
        }
        // It answers once systemd has put it into the scope.
        command.args(["--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = start(&mut command)?;
        let process = child.id();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(mut input), Some(mut output)) = (input, output) else {
            return Err("systemd-run has no standard input".to_owned());
        };
        let mut answer = [0];
        if input.write_all(b"\n").and_then(|()| output.read_exact(&mut answer)).is_err() {
            drop(input);
            return Err(format!("systemd-run {unit}: {}", error_of(&mut child)));
        }
        Ok(Holder { process, _input: input })
    }
}

/// Gives the slice of a user the weight of their heaviest desktop, or the usual one if none is
/// left. `home` is any group of the hierarchy.
pub(crate) fn weigh_slice_of(home: &Home, uid: u32, all: &[Weights]) -> Result<(), String> {
    let slice = slice_of(uid);
    let path = format!("0::/user.slice/{slice}");
    let Some(folder) = home.folder_of(&path, "").filter(|folder| folder.is_dir()) else {
        return Ok(());
    };
    let _lock = lock(&folder)?;
    weigh_slice(&folder, &slice, all, None)
}

/// `changed`: a scope whose weight will be this one.
fn weigh_slice(
    folder: &Path,
    slice: &str,
    all: &[Weights],
    changed: Option<(&Path, u32)>,
) -> Result<(), String> {
    let heaviest = fs::read_dir(folder)
        .map_err(at(folder))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|scope| is_populated(scope))
        .filter_map(|scope| match changed {
            Some((changed, weight)) if changed == scope => Some(weight),
            _ => weight_of(&scope),
        })
        .max();
    let weight = heaviest.and_then(|heaviest| {
        all.iter().filter(|weights| weights.scope <= heaviest).map(|weights| weights.slice).max()
    });
    if weight.is_some() && weight == weight_of(folder) {
        return Ok(());
    }
    set_weight(slice, weight)
}

fn slice_of(uid: u32) -> String {
    format!("user-{uid}.slice")
}

/// Whether this is the scope of a desktop, with processes.
fn is_populated(scope: &Path) -> bool {
    let name = scope.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let events = || fs::read_to_string(scope.join("cgroup.events")).unwrap_or_default();
    name.starts_with(PREFIX) && name.ends_with(".scope") && events().contains("populated 1")
}

fn weight_of(group: &Path) -> Option<u32> {
    fs::read_to_string(group.join("cpu.weight")).ok()?.trim().parse().ok()
}

fn lock(folder: &Path) -> Result<File, String> {
    let file = File::open(folder).map_err(at(folder))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| at(folder)(error.into()))?;
    Ok(file)
}

/// `None` is the usual weight.
fn set_weight(unit: &str, weight: Option<u32>) -> Result<(), String> {
    let weight = weight.map(|weight| weight.to_string()).unwrap_or_default();
    let mut command = Command::new("systemctl");
    command.args(["--quiet", "set-property", "--runtime", unit, &format!("CPUWeight={weight}")]);
    let mut child = start(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
    match error_of(&mut child) {
        error if error.is_empty() => Ok(()),
        error => Err(format!("systemctl set-property {unit}: {error}")),
    }
}

fn start(command: &mut Command) -> Result<Child, String> {
    let program = PathBuf::from(command.get_program());
    command.stderr(Stdio::piped()).spawn().map_err(at(&program))
}

/// Waits until a program has ended, and returns what it had to say about an error. Another thread
/// of a login process waits for all its children, and may have got the status.
fn error_of(child: &mut Child) -> String {
    let mut text = Vec::new();
    if let Some(errors) = child.stderr.take() {
        let _ = errors.take(ERROR_BYTES_MAX).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    match child.wait() {
        Ok(status) if !status.success() && text.is_empty() => status.to_string(),
        Ok(status) if status.success() => String::new(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Version;

    #[test]
    fn only_scopes_of_desktops_with_processes_count() {
        let folder = std::env::temp_dir().join(format!("thinc-scopes-{}", std::process::id()));
        let scope = |name: &str, events: &str, weight: &str| {
            let scope = folder.join(name);
            fs::create_dir_all(&scope).unwrap();
            fs::write(scope.join("cgroup.events"), events).unwrap();
            fs::write(scope.join("cpu.weight"), weight).unwrap();
            (is_populated(&scope), weight_of(&scope))
        };
        assert_eq!(scope("thinc-7-1-1.scope", "populated 1\n", "5\n"), (true, Some(5)));
        assert_eq!(scope("thinc-7-1-2.scope", "populated 0\n", "100\n"), (false, Some(100)));
        assert_eq!(scope("session-1.scope", "populated 1\n", "100\n"), (false, Some(100)));
        assert_eq!(scope("thinc-x.slice", "populated 1\n", "max\n"), (false, None));
        let home = Home::find(
            &format!("30 1 0:1 / {} rw - cgroup2 cgroup rw\n", folder.display()),
            "0::/\n",
            "cpu",
            false,
        );
        assert_eq!(home.map(|home| home.version), None::<Version>, "no list of controllers");
        let _ = fs::remove_dir_all(&folder);
    }
}
