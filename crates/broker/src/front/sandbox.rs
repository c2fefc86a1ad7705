//! The front's sandbox: code that takes over this process can open no file, start no program,
//! connect to nothing and see no other process. Beside the path: entered by mod.rs before the first
//! byte from the network. Knows system calls; every call that is not listed fails with EPERM.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetStatus, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::BrokerError;

/// What an event loop with sockets needs, and an allocator, and a panic that ends the process.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_socketpair,
    // What a session reads of a QUIC connection's path.
    libc::SYS_memfd_create,
    libc::SYS_pwrite64,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_sched_yield,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
];

/// Enters it for good.
pub(crate) fn enter() -> Result<(), BrokerError> {
    let failed = |error: &dyn std::fmt::Display| BrokerError::Sandbox(error.to_string());
    if rustix::process::getuid().is_root() || !no_privileges() {
        return Err(BrokerError::Sandbox("it has privileges to lose".to_owned()));
    }
    // No rule allows anything. Where the kernel is older than what is asked for, it does what it
    // can: the filter below forbids the same.
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(ABI::V5)))
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(|rules| rules.create())
        .and_then(|rules| rules.restrict_self())
        .map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        tracing::warn!("this kernel has no landlock; the front's system calls are limited only");
    }
    let program = filter().map_err(|error| failed(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| failed(&error))
}

fn no_privileges() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.is_empty() && sets.permitted.is_empty())
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
    // Memory, but none that can be executed.
    let not_executable = SeccompRule::new(vec![SeccompCondition::new(
        2,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64),
        0,
    )?])?;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![not_executable.clone()]);
    }
    SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::ErrorKind;
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use rustix::process::{Gid, Uid, geteuid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

    use super::*;

    /// User and group that nothing belongs to.
    const NOBODY: u32 = 65534;

    #[test]
    fn no_file_no_program_and_no_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        // The sandbox is that of one thread, and so are these IDs.
        std::thread::spawn(move || {
            if geteuid().is_root() {
                assert!(enter().is_err(), "root is refused");
                let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
                set_thread_groups(&[]).unwrap();
                set_thread_res_gid(group, group, group).unwrap();
                set_thread_res_uid(user, user, user).unwrap();
            }
            assert!(File::open("/etc/passwd").is_ok(), "so far it may");
            enter().unwrap();
            let denied = |error: std::io::Error| error.kind() == ErrorKind::PermissionDenied;
            assert!(File::open("/etc/passwd").is_err_and(denied));
            assert!(File::create("/tmp/thinc-sandbox").is_err_and(denied));
            assert!(std::fs::read_dir("/proc").is_err_and(denied));
            assert!(Command::new("/bin/true").spawn().is_err_and(denied));
            assert!(TcpStream::connect(address).is_err_and(denied));
            assert!(UdpSocket::bind("127.0.0.1:0").is_err_and(denied));
            assert!(UnixStream::connect("/run/x").is_err_and(denied));
            assert!(
                rustix::process::test_kill_process(rustix::process::getppid().unwrap()).is_err()
            );
            // What it lives from still works.
            std::io::Write::write_all(&mut &near, b"alive").unwrap();
            assert_eq!(thinc_transport::token::random::<32>().len(), 32);
        })
        .join()
        .unwrap();
        let mut text = [0; 5];
        std::io::Read::read_exact(&mut far, &mut text).unwrap();
        assert_eq!(&text, b"alive");
    }
}
