//! What the broker's parts that are root may do: each gives up the capabilities that it has no use
//! for. Beside the path: used by helper.rs and login.rs. The bounding set stays as it is:
//! people's desktops inherit it, and with it sudo in them, which would be weaker for good. Knows
//! capabilities; never people.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::BrokerError;

/// The helper's, once it has the port: it starts fronts as their user, ends them, and reads a
/// renewed certificate and its key, which may be another user's.
pub(crate) const HELPER: CapabilitySet = CapabilitySet::DAC_READ_SEARCH
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// A login process's, for the modules of PAM that run in it. Programs that modules start, as
/// mkhomedir_helper and mount, are root's and have all.
pub(crate) const LOGIN: CapabilitySet =
    // pam_unix: a new password, in a file that another user or nobody may read. pam_env, and
    // modules that keep tickets or keys in a person's files: owner and mode of these.
    CapabilitySet::CHOWN
        .union(CapabilitySet::DAC_OVERRIDE)
        .union(CapabilitySet::DAC_READ_SEARCH)
        .union(CapabilitySet::FOWNER)
        .union(CapabilitySet::FSETID)
        // User, groups and processes of a person; pam_cap.
        .union(CapabilitySet::KILL)
        .union(CapabilitySet::SETGID)
        .union(CapabilitySet::SETPCAP)
        .union(CapabilitySet::SETUID)
        // pam_loginuid, pam_tty_audit; the audit log of the kernel.
        .union(CapabilitySet::AUDIT_CONTROL)
        .union(CapabilitySet::AUDIT_WRITE)
        // pam_limits.
        .union(CapabilitySet::SYS_NICE)
        .union(CapabilitySet::SYS_RESOURCE)
        // pam_systemd: logind opens and closes sessions for nobody without it. pam_namespace.
        .union(CapabilitySet::SYS_ADMIN);

/// The soft limit of open files with which the kernel and systemd start programs. More breaks those
/// that use select(2).
const DESCRIPTORS_USUAL: u64 = 1024;

/// Gives up all other capabilities, in this thread and in those that it starts.
pub(crate) fn keep_only(needed: CapabilitySet) -> Result<(), BrokerError> {
    let failed = |error| BrokerError::System("give up capabilities", io::Error::from(error));
    // A container may have taken some of them already.
    let kept = capabilities(None).map_err(failed)?.permitted & needed;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed)
}

/// Undoes what the helper has allowed itself: a login's processes inherit it.
pub(crate) fn lower_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let usual = DESCRIPTORS_USUAL.min(limit.maximum.unwrap_or(u64::MAX));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(usual), ..limit });
}
