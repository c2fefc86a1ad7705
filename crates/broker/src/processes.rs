//! The processes of this machine, as the kernel tells them to everybody (proc(5)). Beside the path:
//! for limits.rs, memory.rs and realtime.rs. Knows what a process says that it is; never whether
//! that is true.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Of a process's arguments.
const COMMAND_LINE_BYTES_MAX: u64 = 64 << 10;

/// A process that ran a moment ago.
pub(crate) struct Process {
    pub(crate) pid: u32,
    folder: PathBuf,
    /// Each with a zero byte after it; threads of the kernel have none.
    pub(crate) arguments: Vec<u8>,
}

/// All of them.
pub(crate) fn all() -> impl Iterator<Item = Process> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path();
        let arguments = command_line(&folder);
        Some(Process { pid, folder, arguments })
    })
}

/// The arguments of the process with this folder in /proc, each with a zero byte after it, or as
/// many of them as tell which program it is: a process can make them as long as its memory.
pub(crate) fn command_line(folder: &Path) -> Vec<u8> {
    let mut arguments = Vec::new();
    if let Ok(file) = File::open(folder.join("cmdline")) {
        let _ = file.take(COMMAND_LINE_BYTES_MAX).read_to_end(&mut arguments);
    }
    arguments
}

impl Process {
    /// The user ID that it runs as.
    pub(crate) fn owner(&self) -> Option<u32> {
        fs::metadata(&self.folder).ok().map(|metadata| metadata.uid())
    }

    pub(crate) fn status(&self) -> Option<String> {
        fs::read_to_string(self.folder.join("status")).ok()
    }

    /// Whether it is `thinc serve`, which keeps a desktop.
    pub(crate) fn is_supervisor(&self) -> bool {
        let mut arguments = self.arguments.split(|&byte| byte == 0);
        let program = arguments.next().and_then(|path| path.rsplit(|&byte| byte == b'/').next());
        // /proc/self/exe is how a program starts itself that an upgrade has replaced.
        matches!(program, Some(b"thinc" | b"exe")) && arguments.next() == Some(b"serve")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_is_known_by_its_program_and_first_argument() {
        let is_supervisor = |arguments: &[u8]| {
            let (folder, arguments) = (PathBuf::new(), arguments.to_vec());
            Process { pid: 1, folder, arguments }.is_supervisor()
        };
        assert!(is_supervisor(b"/usr/bin/thinc\0serve\0--supervise\0"));
        assert!(is_supervisor(b"/proc/self/exe\0serve\0"));
        let others = ["/usr/bin/thinc\0session\0", "thinc\0", "", "hugo\0serve\0"];
        assert!(!others.iter().any(|arguments| is_supervisor(arguments.as_bytes())));
    }

    #[test]
    fn this_process_is_among_them() {
        let own = all().find(|process| process.pid == std::process::id()).unwrap();
        assert_eq!(own.owner(), Some(rustix::process::geteuid().as_raw()));
        assert!(own.status().unwrap().contains("PPid:"));
    }
}
