//! Beside process.rs: what the decoder process gives up before it reads a session's bytes.
//! Afterwards it can compute, allocate memory, and use two descriptors that it has: the socket and
//! the memory. Each layer suffices against most of what code that was taken over could try; the
//! system calls' filter against all of it. Knows system calls; never decoders.

use std::io;

use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, Scope};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::message::MEMORY_BYTES;

/// 2 GiB: address space. The program takes 0.2 GiB of it, decoders of the most samples allowed
/// 0.3 GiB.
const ADDRESSES_MAX: u64 = 2 << 30;

/// Closes the sandbox round this process, for good. An error means that there may be none.
pub(super) fn close() -> io::Result<()> {
    // A viewer that is killed takes along a process that computes without end.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    thinc_transport::core_dumps::forbid()?;
    confine_files()?;
    limit()?;
    filter()
}

/// Limits that hold even for a system call that the filter overlooks: no further descriptor,
/// process or core dump.
fn limit() -> io::Result<()> {
    let limits = [
        (Resource::Nofile, 0),
        (Resource::Nproc, 0),
        (Resource::Core, 0),
        (Resource::Fsize, MEMORY_BYTES),
        (Resource::As, ADDRESSES_MAX),
    ];
    for (resource, most) in limits {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// No file, and no TCP port, on kernels with Landlock (5.13); others leave it to the filter.
fn confine_files() -> io::Result<()> {
    let abi = ABI::V6;
    let ruled = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    ruled.map(drop).map_err(io::Error::other)
}

/// Every system call fails (EPERM) but these. That a library gets an error for something that it
/// can do without, which differs from one libc to the next, is better than no video.
fn filter() -> io::Result<()> {
    let rules = allowed().map_err(io::Error::other)?;
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let here = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter =
        SeccompFilter::new(rules.into_iter().collect(), denied, SeccompAction::Allow, here)
            .and_then(seccompiler::BpfProgram::try_from)
            .map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

type Rules = Vec<(i64, Vec<SeccompRule>)>;

fn allowed() -> Result<Rules, seccompiler::BackendError> {
    let socket = libc::STDIN_FILENO as u64;
    let memory = libc::STDOUT_FILENO as u64;
    let is = |argument, op, value| SeccompCondition::new(argument, Width::Dword, op, value);
    let only = |conditions: Vec<_>| Ok(vec![SeccompRule::new(conditions)?]);
    let not_executable = |argument| is(argument, Is::MaskedEq(libc::PROT_EXEC as u64), 0);
    let anonymous = libc::MAP_ANONYMOUS as u64;
    Ok(vec![
        // Its work. A descriptor that a library of the viewer has let it inherit is of no use.
        (libc::SYS_recvfrom, only(vec![is(0, Is::Eq, socket)?])?),
        (libc::SYS_sendto, only(vec![is(0, Is::Eq, socket)?, is(4, Is::Eq, 0)?])?),
        (libc::SYS_pread64, only(vec![is(0, Is::Eq, memory)?])?),
        (libc::SYS_pwritev, only(vec![is(0, Is::Eq, memory)?])?),
        // Memory for its work, never to be executed, never a file.
        (
            libc::SYS_mmap,
            only(vec![not_executable(2)?, is(3, Is::MaskedEq(anonymous), anonymous)?])?,
        ),
        (libc::SYS_mprotect, only(vec![not_executable(2)?])?),
        (libc::SYS_munmap, Vec::new()),
        (libc::SYS_mremap, Vec::new()),
        (libc::SYS_madvise, Vec::new()),
        (libc::SYS_brk, Vec::new()),
        // Locks of libraries, the clock where it is a system call.
        (libc::SYS_futex, Vec::new()),
        (libc::SYS_clock_gettime, Vec::new()),
        // Its end. A fault is handled by Rust's runtime, which restores the system's handler.
        (libc::SYS_rt_sigaction, Vec::new()),
        (libc::SYS_rt_sigreturn, Vec::new()),
        (libc::SYS_exit, Vec::new()),
        (libc::SYS_exit_group, Vec::new()),
    ])
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::process::{Command, Stdio};

    use rustix::fs::MemfdFlags;
    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags};
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};
    use rustix::stdio::{stderr, stdin, stdout};

    use super::*;

    /// Set in the process that tries; its descriptors are those of a decoder process, and a socket
    /// as standard error.
    const TRIES: &str = "THINC_TEST_TRIES";

    #[test]
    fn a_decoder_process_reaches_no_file_socket_or_process() {
        if std::env::var_os(TRIES).is_some() {
            let failed = attempts();
            let told = rustix::net::send(stdin(), failed.as_bytes(), SendFlags::empty());
            std::process::exit(i32::from(told.is_err()));
        }
        let (socket, theirs) = UnixDatagram::pair().unwrap();
        let (_other, inherited) = UnixDatagram::pair().unwrap();
        let memory = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, MEMORY_BYTES).unwrap();
        let name =
            "video_decoder::sandbox::tests::a_decoder_process_reaches_no_file_socket_or_process";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(TRIES, "1")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(Stdio::from(memory))
            .stderr(Stdio::from(std::os::fd::OwnedFd::from(inherited)))
            .spawn()
            .unwrap();
        assert!(child.wait().unwrap().success());
        let mut message = [0; 4096];
        let length = socket.recv(&mut message).unwrap();
        assert_eq!(String::from_utf8_lossy(&message[..length]), "closed\n");
    }

    /// Tries what is forbidden, and says what was not refused by the filter, and what is allowed
    /// and failed.
    fn attempts() -> String {
        let mut said = String::new();
        let buffer = &mut [0; 16];
        // SAFETY: a new mapping that nothing refers to; its address is not used.
        #[allow(unsafe_code, reason = "no safe call maps executable memory")]
        let executable = |protection| unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), 4096, protection, MapFlags::PRIVATE)
        };
        let before = executable(ProtFlags::READ | ProtFlags::EXEC);
        if before.is_err() {
            said += "executable memory cannot be mapped without the sandbox either\n";
        }
        match close() {
            Ok(()) => said += "closed\n",
            Err(error) => return format!("not closed: {error}"),
        }
        let parent = rustix::process::getpid();
        let refused = |error: io::Error| error.raw_os_error() == Some(libc::EPERM);
        let by = |result: Result<(), Errno>| result.is_err_and(|error| error == Errno::PERM);
        let tries = [
            ("open", std::fs::File::open("/proc/self/status").is_err_and(refused)),
            ("create", std::fs::File::create("/tmp/thinc-test-created").is_err_and(refused)),
            ("list", std::fs::read_dir("/").is_err_and(refused)),
            ("connect", UnixStream::connect("/tmp/.X11-unix/X0").is_err_and(refused)),
            (
                "socket",
                by(rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).map(drop)),
            ),
            ("memfd", by(rustix::fs::memfd_create("more", MemfdFlags::empty()).map(drop))),
            ("duplicate", by(rustix::io::dup(stdin()).map(drop))),
            ("thread", std::thread::Builder::new().spawn(|| ()).is_err_and(refused)),
            ("program", Command::new("/bin/true").spawn().is_err_and(refused)),
            ("signal", by(rustix::process::test_kill_process(parent))),
            ("write", by(rustix::io::write(stderr(), b"x").map(drop))),
            ("send elsewhere", by(rustix::net::send(stderr(), b"x", SendFlags::empty()).map(drop))),
            (
                "receive elsewhere",
                by(rustix::net::recv(stderr(), &mut *buffer, RecvFlags::DONTWAIT).map(drop)),
            ),
            ("read elsewhere", by(rustix::io::pread(stdin(), &mut *buffer, 0).map(drop))),
            ("executable memory", by(executable(ProtFlags::READ | ProtFlags::EXEC).map(drop))),
        ];
        for (name, _) in tries.iter().filter(|(_, refused)| !refused) {
            said += &format!("{name}: not refused\n");
        }
        if executable(ProtFlags::READ | ProtFlags::WRITE).is_err() {
            said += "memory: refused\n";
        }
        if rustix::io::pread(stdout(), &mut *buffer, 0) != Ok(buffer.len()) {
            said += "reading the shared memory: refused\n";
        }
        said
    }
}
