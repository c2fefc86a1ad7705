//! An sshd for one measurement: at the server's end, with keys and a configuration of its own. For
//! peers that are reached through ssh. Knows sshd's and ssh's configuration.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::programs;
use crate::Error;
use crate::net::testbed::Side;
use crate::observe::account::Group;
use crate::process::{Running, wait_for};
use crate::stage::Site;

/// Free, because the namespace is private.
const PORT: u16 = 2222;

/// Starts it, and returns the configuration with which `ssh there` connects to it.
pub(super) fn start(site: &Site) -> Result<(Running, PathBuf), Error> {
    let sshd =
        programs::find("/usr/sbin/sshd").ok_or("there is no sshd: install openssh-server")?;
    let folder = site.folder.path();
    for key in ["host-key", "user-key"] {
        let mut keygen = Command::new("ssh-keygen");
        let made =
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key)).status()?;
        if !made.success() {
            return Err("ssh-keygen makes no key".into());
        }
    }
    // The privilege separation directory of an sshd that runs as root.
    let _ = fs::create_dir_all("/run/sshd");
    let (here, address) = (folder.display(), site.bed.address(Side::Server));
    let config = folder.join("sshd-config");
    fs::write(
        &config,
        format!(
            "Port {PORT}\nListenAddress {address}\nHostKey {here}/host-key\nAuthorizedKeysFile \
                {here}/user-key.pub\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nSetEnv \
             XDG_RUNTIME_DIR={here}/server-home/run\n"
        ),
    )?;
    let mut command = programs::command(site, Group::Server, sshd)?;
    let mut running =
        programs::start(site, "sshd", command.arg("-D").arg("-e").arg("-f").arg(&config))?;
    let config = folder.join("ssh-config");
    fs::write(
        &config,
        format!(
            "Host there\nHostName {address}\nPort {PORT}\nIdentityFile \
                {here}/user-key\nIdentitiesOnly yes\n\
             IdentityAgent none\nUserKnownHostsFile {here}/known-hosts\nStrictHostKeyChecking \
             accept-new\nLogLevel ERROR\n"
        ),
    )?;
    wait_for("sshd answers", Duration::from_secs(20), || {
        let mut asked = programs::command(site, Group::Client, "ssh").ok()?;
        let asked = asked.arg("-F").arg(&config).args(["-T", "there", "true"]);
        (running.check().is_err() || asked.status().ok()?.success()).then_some(())
    })?;
    running.check()?;
    Ok((running, config))
}
