//! Beside main.rs: what a process that decodes gives up before it gets a unit, which comes from a
//! session, or from who impersonates one. A GPU's driver opens files, makes threads and speaks with
//! the kernel by calls that differ from one to the next. So, unlike the software decoder's
//! (viewer-native/src/video_decoder/sandbox.rs), this filter names what is denied: no program, no
//! other process, no network, no other file than those that libraries and drivers read. Its surface
//! is the kernel's part of the GPU's driver, and what else the filter does not name. Knows system
//! calls; never decoders.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is,
    SeccompCondition, SeccompFilter, SeccompRule, sock_filter,
};

/// 4 GiB: memory of its own that can be written, without what is reserved only or shared with a
/// GPU: CUDA reserves addresses by the hundred GiB. The most streams that are decoded at a time
/// take 1 GiB without a GPU.
const DATA_MAX: u64 = 4 << 30;

/// What libraries and drivers read: programs' folders, the system's settings, and what the kernel
/// says of itself and its devices. Nobody's home is among them.
const READ: [&str; 13] = [
    "/usr",
    "/lib",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/opengl-driver",
    "/run/udev/data",
    "/etc",
    "/sys",
    "/proc",
    "/dev/urandom",
    "/dev/random",
];
/// Lists of folders that a person has set for the same.
const READ_AS_SET: [&str; 3] = ["LD_LIBRARY_PATH", "LIBVA_DRIVERS_PATH", "GST_PLUGIN_PATH"];
/// Devices that are written too: those of GPUs, and those that are nothing.
const DEVICES: [&str; 4] = ["/dev/dri", "/dev/nvidia-caps", "/dev/null", "/dev/zero"];
/// How the names of others in /dev begin.
const DEVICES_BEGIN: &str = "nvidia";

/// Why the sandbox cannot be closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotClosed {
    #[error("the sandbox cannot be closed: {0}")]
    System(#[from] io::Error),
    #[error("the sandbox cannot be closed: {0}")]
    Files(#[from] RulesetError),
    #[error("the sandbox cannot be closed: this kernel has no Landlock")]
    NoLandlock,
    #[error("the sandbox cannot be closed: {0}")]
    Filter(#[from] BackendError),
    #[error("the sandbox cannot be closed: {0}")]
    NotFiltered(#[from] seccompiler::Error),
}

/// Gives up other files, sockets of TCP and core dumps, for this thread and those that it makes: to
/// be called by the first one, before the libraries are loaded.
pub(crate) fn confine() -> Result<(), NotClosed> {
    prepare_nvidia();
    // A viewer that is killed takes along a process that computes without end.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)?;
    rustix::thread::set_no_new_privs(true).map_err(io::Error::from)?;
    // Root's: one of them reads other processes' memory past Landlock.
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none).map_err(io::Error::from)?;
    for (resource, most) in [(Resource::Core, 0), (Resource::Data, DATA_MAX)] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(io::Error::from)?;
    }
    confine_files()
}

/// NVIDIA's kernel module for CUDA is loaded, and its device made, by a program of the driver's
/// that has root's rights: the library would start it, which it may not later.
fn prepare_nvidia() {
    let program = "/usr/bin/nvidia-modprobe";
    let is_missing = |path: &str| !Path::new(path).exists();
    if is_missing("/dev/nvidiactl") || !is_missing("/dev/nvidia-uvm") || is_missing(program) {
        return;
    }
    let mut command = Command::new(program);
    command.args(["-c", "0", "-u"]).stdin(Stdio::null()).stdout(Stdio::null());
    // Where it fails, the GPU does not open, and that is said.
    let _ = command.status();
}

fn confine_files() -> Result<(), NotClosed> {
    let abi = ABI::V6;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let set = READ_AS_SET.iter().filter_map(std::env::var_os);
    let set: Vec<PathBuf> = set
        .flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>())
        .filter(|path| path.is_absolute() && path.parent().is_some())
        .collect();
    let nodes = std::fs::read_dir("/dev")?.flatten();
    let nodes = nodes
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(DEVICES_BEGIN.as_bytes()));
    let nodes = nodes.map(|entry| entry.path());
    let devices = DEVICES.iter().map(PathBuf::from).chain(nodes);
    // What does not exist is left out.
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(READ, read))?
        .add_rules(path_beneath_rules(set, read))?
        .add_rules(path_beneath_rules(["/dev"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(devices, read | AccessFs::WriteFile | AccessFs::IoctlDev))?
        .restrict_self()?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(NotClosed::NoLandlock),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// Gives up what a codec never needs of the kernel, for all threads: to be called once the GPU is
/// open, since that may take some of it. What decodes in the processor needs no file either.
pub(crate) fn filter(has_gpu: bool) -> Result<(), NotClosed> {
    let own = u64::from(std::process::id());
    let filter = denied(own)?;
    apply(filter, libc::EPERM)?;
    if !has_gpu {
        apply(WITHOUT_GPU.iter().map(|&call| (call, Vec::new())).collect(), libc::EACCES)?;
    }
    seccompiler::apply_filter_all_threads(OTHER_NUMBERS)?;
    // Its flags are in memory, where no filter sees them: libraries make threads by clone then.
    apply(vec![(libc::SYS_clone3, Vec::new())], libc::ENOSYS)
}

/// The same system calls have other numbers for programs of x86-64 with short pointers (x32), where
/// the kernel has those; seccomp(2) says that a list of what is denied must exclude them.
const OTHER_NUMBERS: &[sock_filter] = &[
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
    instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0x4000_0000),
    instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
];

/// `otherwise`: how many instructions are left out where a comparison is false.
const fn instruction(code: u32, otherwise: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: otherwise, k }
}

type Rules = Vec<(i64, Vec<SeccompRule>)>;

fn apply(rules: Rules, error: i32) -> Result<(), NotClosed> {
    let denied = SeccompAction::Errno(error.cast_unsigned());
    let here = std::env::consts::ARCH.try_into()?;
    let filter =
        SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, denied, here)?;
    let program = BpfProgram::try_from(filter)?;
    Ok(seccompiler::apply_filter_all_threads(&program)?)
}

/// Denied where no GPU is used: files and devices.
const WITHOUT_GPU: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_ioctl,
];

/// Denied whatever their arguments are.
const DENIED: &[i64] = &[
    // Programs and processes; a thread is made by clone, below.
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    // Sockets: it has the one to the viewer.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // What other programs share.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Keys, and large or seldom tested parts of the kernel.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_setup,
    libc::SYS_fanotify_init,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_personality,
    libc::SYS_syslog,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    // Namespaces, mounts and the system as a whole.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    // Of files what Landlock leaves, or older kinds of it.
    libc::SYS_truncate,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    libc::SYS_utimensat,
];

fn denied(own: u64) -> Result<Rules, BackendError> {
    let rule = |argument, width, op, value| {
        SeccompRule::new(vec![SeccompCondition::new(argument, width, op, value)?])
    };
    let thread = libc::CLONE_THREAD as u64;
    let mut rules: Rules = DENIED.iter().map(|&call| (call, Vec::new())).collect();
    rules.extend([
        (libc::SYS_clone, vec![rule(0, Width::Qword, Is::MaskedEq(thread), 0)?]),
        // A library may end its own process, or look at its own limits.
        (libc::SYS_kill, vec![rule(0, Width::Dword, Is::Ne, own)?]),
        (libc::SYS_tgkill, vec![rule(0, Width::Dword, Is::Ne, own)?]),
        (
            libc::SYS_prlimit64,
            vec![SeccompRule::new(vec![
                SeccompCondition::new(0, Width::Dword, Is::Ne, own)?,
                SeccompCondition::new(0, Width::Dword, Is::Ne, 0)?,
            ])?],
        ),
        // What is typed into the viewer's terminal.
        (
            libc::SYS_ioctl,
            vec![
                rule(1, Width::Dword, Is::Eq, libc::TIOCSTI)?,
                rule(1, Width::Dword, Is::Eq, libc::TIOCLINUX)?,
            ],
        ),
    ]);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use rustix::fs::MemfdFlags;
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SendFlags, SocketType};
    use rustix::process::{PidfdFlags, getpid, getppid, pidfd_open, test_kill_process};
    use rustix::stdio::{stdin, stdout};

    use super::*;

    /// Set in the process that tries: its folder.
    const TRIES: &str = "THINC_TEST_TRIES";
    /// Set there if a GPU is used.
    const HAS_GPU: &str = "THINC_TEST_HAS_GPU";

    #[test]
    fn a_process_that_decodes_reaches_no_file_socket_or_process() {
        for has_gpu in [true, false] {
            try_all(has_gpu);
        }
    }

    fn try_all(has_gpu: bool) {
        if let Some(folder) = std::env::var_os(TRIES) {
            let has_gpu = std::env::var_os(HAS_GPU).is_some();
            let failed = attempts(Path::new(&folder), has_gpu);
            let told = rustix::net::send(stdin(), failed.as_bytes(), SendFlags::empty());
            std::process::exit(i32::from(told.is_err()));
        }
        let folder = std::env::temp_dir().join(format!("thinc-gpu-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("secret"), "not for a decoder").unwrap();
        let (socket, theirs) = UnixDatagram::pair().unwrap();
        let memory = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, 16).unwrap();
        let name = "sandbox::tests::a_process_that_decodes_reaches_no_file_socket_or_process";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(TRIES, &folder)
            .envs(has_gpu.then_some((HAS_GPU, "1")))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(memory))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let status = child.wait().unwrap();
        let secret = std::fs::read_to_string(folder.join("secret"));
        let left = std::fs::read_dir(&folder).unwrap().count();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(status.success(), "{status}");
        let mut message = [0; 4096];
        let length = socket.recv(&mut message).unwrap();
        assert_eq!(String::from_utf8_lossy(&message[..length]), "closed\n");
        assert_eq!((secret.unwrap().as_str(), left), ("not for a decoder", 1));
    }

    /// Tries what is forbidden, and says what was not refused, and what is allowed and failed.
    fn attempts(folder: &Path, has_gpu: bool) -> String {
        let mut said = String::new();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Another thread is there already when the filter is closed.
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let older = std::thread::spawn(move || {
            let _ = asked.recv();
            Command::new("/bin/true").status().is_err_and(refused)
        });
        match confine().and_then(|()| filter(has_gpu)) {
            Ok(()) => said += "closed\n",
            Err(error) => return error.to_string(),
        }
        let secret = folder.join("secret");
        let by = |result: Result<(), Errno>| result.is_err_and(|error| error == Errno::PERM);
        let parent = getppid().unwrap();
        drop(ask);
        let tries = [
            ("read", std::fs::read(&secret).is_err_and(refused)),
            ("write", File::options().write(true).open(&secret).is_err_and(refused)),
            ("create", File::create(folder.join("created")).is_err_and(refused)),
            ("remove", std::fs::remove_file(&secret).is_err_and(refused)),
            ("rename", std::fs::rename(&secret, folder.join("renamed")).is_err_and(refused)),
            ("list", std::fs::read_dir(folder).is_err_and(refused)),
            (
                "write settings",
                File::options().append(true).open("/etc/passwd").is_err_and(refused),
            ),
            ("a terminal", File::open("/dev/ptmx").is_err_and(refused)),
            (
                "permissions",
                std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o777))
                    .is_err_and(refused),
            ),
            ("connect", UnixStream::connect("/tmp/.X11-unix/X0").is_err_and(refused)),
            ("connect by TCP", TcpStream::connect(("127.0.0.1", port)).is_err_and(refused)),
            ("accept", listener.accept().is_err_and(refused)),
            (
                "socket",
                by(rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).map(drop)),
            ),
            ("program", Command::new("/bin/true").status().is_err_and(refused)),
            ("program of an older thread", older.join().unwrap_or(false)),
            ("signal", by(test_kill_process(parent))),
            ("process", by(pidfd_open(parent, PidfdFlags::empty()).map(drop))),
            (
                "secrets of a process",
                std::fs::read(format!("/proc/{parent}/environ")).is_err_and(refused),
            ),
            ("root", by(rustix::process::chroot("/usr"))),
            ("priority", by(rustix::process::setpriority_process(Some(parent), 19))),
            (
                "limit of another",
                by(rustix::process::prlimit(
                    Some(parent),
                    Resource::Core,
                    Rlimit { current: Some(0), maximum: Some(0) },
                )
                .map(drop)),
            ),
            ("core dumps", rustix::process::getrlimit(Resource::Core).maximum == Some(0)),
        ];
        for (name, _) in tries.iter().filter(|(_, refused)| !refused) {
            said += &format!("{name}: not refused\n");
        }
        let of_gpu = [
            ("a library", File::open("/etc/ld.so.cache").map(drop)),
            ("what the kernel says", std::fs::read("/proc/self/maps").map(drop)),
            ("a device", File::options().write(true).open("/dev/null").map(drop)),
            ("the list of devices", std::fs::read_dir("/dev").map(drop)),
        ];
        for (name, result) in of_gpu {
            if result.is_ok() != has_gpu {
                said += &format!("{name}: {result:?}\n");
            }
        }
        let needed = [
            (
                "a thread",
                std::thread::Builder::new().spawn(|| ()).is_ok_and(|it| it.join().is_ok()),
            ),
            ("its own signal", test_kill_process(getpid()).is_ok()),
            ("the memory", rustix::io::pwrite(stdout(), b"x", 3) == Ok(1)),
            ("more memory", rustix::fs::memfd_create("more", MemfdFlags::empty()).is_ok()),
        ];
        for (name, _) in needed.iter().filter(|(_, works)| !works) {
            said += &format!("{name}: refused\n");
        }
        said
    }

    /// By the filter, or by Landlock.
    fn refused(error: io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
    }
}
