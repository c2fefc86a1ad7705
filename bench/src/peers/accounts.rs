//! Accounts for private copies of /etc/passwd and /etc/shadow, mounted over the machine's in the
//! namespace of one server: logins by real passwords, without a change of the machine. Knows the
//! files of accounts and rules for PAM; never who reads them.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::process::{getgid, getuid};

use super::programs::output_of;
use crate::Error;

/// The first account's name.
pub(crate) const USER: &str = "bench";
/// Above those that Debian gives to people, below those of containers.
const UID_FIRST: u32 = 61_000;

/// Accounts of one server.
pub(crate) struct Accounts {
    /// How many; 0: one with the IDs of this process, which any password opens.
    count: u32,
    password: &'static str,
}

impl Accounts {
    /// One with the IDs of this process, which any password opens.
    pub(crate) fn anybody() -> Accounts {
        Accounts { count: 0, password: "" }
    }

    /// So many with IDs of their own, and this password.
    pub(crate) fn with_password(count: u32, password: &'static str) -> Accounts {
        Accounts { count, password }
    }

    /// Name of one of them, from 0.
    pub(crate) fn name(index: u32) -> String {
        if index == 0 { USER.to_owned() } else { format!("{USER}{index}") }
    }

    /// User ID of one of them.
    pub(crate) fn uid(index: u32) -> u32 {
        UID_FIRST + index
    }

    /// Writes `passwd`, `shadow` and a home folder for each.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        self.write_files(folder).map_err(|error| {
            format!("cannot write accounts into {}: {error}", folder.display()).into()
        })
    }

    fn write_files(&self, folder: &Path) -> Result<(), Error> {
        let mut people = fs::read_to_string("/etc/passwd")?;
        // The machine's own people cannot log in.
        let names = people.lines().filter_map(|line| line.split(':').next());
        let mut secrets: String = names.map(|name| format!("{name}:*:20000::::::\n")).collect();
        let mut add = |name: &str, (uid, gid): (u32, u32), secret: &str| -> Result<(), Error> {
            let home = folder.join(format!("home-{name}"));
            fs::create_dir_all(&home)?;
            fs::set_permissions(&home, fs::Permissions::from_mode(0o700))?;
            chown(&home, Some(uid), Some(gid))?;
            people += &format!("{name}:x:{uid}:{gid}::{}:/bin/sh\n", home.display());
            secrets += &format!("{name}:{secret}:20000::::::\n");
            Ok(())
        };
        if self.count == 0 {
            add(USER, (getuid().as_raw(), getgid().as_raw()), "*")?;
        } else {
            let mut hash = Command::new("openssl");
            let hash = output_of(hash.args(["passwd", "-6", self.password]))
                .ok_or("openssl makes no hash of a password: install openssl")?;
            for index in 0..self.count {
                let uid = Self::uid(index);
                // Nobody else is in that group, although it has no name.
                add(&Self::name(index), (uid, uid), &hash)?;
            }
        }
        fs::write(folder.join("passwd"), people)?;
        let mut shadow = fs::OpenOptions::new();
        let shadow = shadow.write(true).create(true).truncate(true).mode(0o600);
        std::io::Write::write_all(&mut shadow.open(folder.join("shadow"))?, secrets.as_bytes())?;
        Ok(())
    }

    /// Rules for PAM.
    pub(super) fn pam(&self) -> String {
        let auth = if self.count == 0 { "pam_permit.so" } else { "pam_unix.so" };
        format!(
            "auth required {auth}\naccount required {auth}\nsession required pam_permit.so\n\
             password required pam_permit.so\n"
        )
    }
}
