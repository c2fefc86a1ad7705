//! No core dump of a process that holds tokens, credentials or keys. Beside the path: called first
//! by every program that does. Knows one setting of the kernel.

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Set by a person who looks for a fault: then core dumps are possible, and a debugger or profiler
/// of the same user may attach.
pub const ALLOWED: &str = "THINC_CORE_DUMPS";

/// The kernel writes no core dump of this process, and lets no other process of the same user read
/// its memory. A program that it starts is not affected.
pub fn forbid() -> io::Result<()> {
    if std::env::var_os(ALLOWED).is_none() {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn no_core_is_dumped_of_a_process_that_forbids_it() {
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
        forbid().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
