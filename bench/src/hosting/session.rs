//! Beside the servers: what a person's desktop runs. The session reads lines from a pipe and starts
//! each as a job of its own, as a person's programs are. Between servers.rs and each question;
//! knows a pipe, jobs and files; never which server shows them.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};

use super::SHOWN_MAX;
use crate::peers::failure;
use crate::process::wait_for;
use crate::stage::Site;
use crate::{Error, apps};

/// What a person's session is told to start.
pub(super) struct Session {
    pub(super) folder: PathBuf,
}

impl Session {
    /// Of the user of this name, in the folder of a site: before the session begins.
    pub(super) fn of(site: &Path, user: &str) -> Result<Session, Error> {
        let session = Session::at(site, user);
        let folder = &session.folder;
        fs::create_dir_all(folder)?;
        let pipe = folder.join("lines");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR)?;
        // It runs as that user.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
        fs::set_permissions(&pipe, fs::Permissions::from_mode(0o666))?;
        Ok(session)
    }

    /// That of this user, whose desktop has begun already.
    pub(super) fn at(site: &Path, user: &str) -> Session {
        Session { folder: site.join(format!("session-{user}")) }
    }

    /// What each session runs: every line of its pipe is a job of its own, and finds `thinc-bench`.
    pub(super) fn script(site: &Path) -> String {
        let folder = site.display();
        format!(
            "#!/bin/sh\ncd '{folder}'/session-$USER || exit\n\
             PATH='{folder}':$PATH && export PATH\n\
             cp \"${{XAUTHORITY:-$HOME/.Xauthority}}\" cookie && chmod 644 cookie\n\
             echo \"$DISPLAY\" > ready.new\nmv ready.new ready\n\
             exec 3<> lines\nwhile read -r line <&3; do setsid sh -c \"$line\" 3<&- & done\n"
        )
    }

    /// Its display and a copy of its cookie file, which lies where nobody outside of the server's
    /// namespace finds it; once it has begun.
    pub(super) fn ready(&self, site: &Site) -> Result<(String, PathBuf), Error> {
        self.begun().map_err(|error| failure(site, &error.to_string()))
    }

    fn begun(&self) -> Result<(String, PathBuf), Error> {
        let text = wait_for("the session begins", SHOWN_MAX, || {
            fs::read_to_string(self.folder.join("ready")).ok()
        })?;
        // xrdp says ":77.0".
        let display = text.trim().split('.').next().unwrap_or_default();
        Ok((display.to_owned(), self.folder.join("cookie")))
    }

    /// Keeps the pipe open, so that what is written before the session begins waits for it.
    pub(super) fn hold(&self) -> Result<fs::File, Error> {
        Ok(OpenOptions::new().read(true).write(true).open(self.folder.join("lines"))?)
    }

    /// Starts a job.
    pub(super) fn run(&self, line: &str) -> Result<(), Error> {
        let mut pipe = OpenOptions::new().write(true).open(self.folder.join("lines"))?;
        Ok(writeln!(pipe, "{line}")?)
    }

    /// Starts a job that can be signalled by its name; returns once it runs.
    pub(super) fn start_job(&self, name: &str, line: &str) -> Result<(), Error> {
        self.run(&format!("echo $$ > {name}.new; mv {name}.new {name}; {line}"))?;
        wait_for("a job begins", SHOWN_MAX, || self.leader(name)).map(drop)
    }

    /// The process group of a job, in the session's own numbers.
    pub(super) fn leader(&self, name: &str) -> Option<u32> {
        fs::read_to_string(self.folder.join(name)).ok()?.trim().parse().ok()
    }

    /// Signals all processes of a job, and returns once that is done; nothing without such a job.
    pub(super) fn signal_job(&self, name: &str, signal: &str) -> Result<(), Error> {
        let Some(leader) = self.leader(name) else { return Ok(()) };
        self.run(&format!("kill -s {signal} -- -{leader}; touch signalled"))?;
        let signalled = self.folder.join("signalled");
        wait_for("a job is signalled", SHOWN_MAX, || signalled.exists().then_some(()))?;
        Ok(fs::remove_file(signalled)?)
    }

    /// Ends a job, if there is one of this name.
    pub(super) fn end_job(&self, name: &str) -> Result<(), Error> {
        self.signal_job(name, "KILL")?;
        match fs::remove_file(self.folder.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Other users cannot look into the folder of a build: all sessions of this site find a copy.
pub(super) fn share_program(site: &Path) -> Result<PathBuf, Error> {
    let program = site.join("thinc-bench");
    fs::copy(&apps::words(&[])?[0], &program)?;
    Ok(program)
}

/// A word for a shell, whatever it holds.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::process::{Folder, Running};

    #[test]
    fn a_session_begins_and_starts_and_ends_jobs() {
        let folder = Folder::new("stalls").unwrap();
        let session = Session::of(folder.path(), "anna").unwrap();
        let hog = folder.path().join("hog");
        // Says its process group when it begins.
        let words = "#!/bin/sh\nset -- $(cat /proc/$$/stat)\necho $5 >> begun\nexec sleep 300\n";
        fs::write(&hog, words).unwrap();
        fs::set_permissions(&hog, fs::Permissions::from_mode(0o755)).unwrap();
        let script = folder.path().join("script");
        fs::write(&script, Session::script(folder.path())).unwrap();
        fs::write(folder.path().join(".Xauthority"), "cookie").unwrap();
        let mut command = Command::new("sh");
        command.arg(&script).env("USER", "anna").env("HOME", folder.path());
        command.env("DISPLAY", ":7.0").env_remove("XAUTHORITY").stdin(Stdio::null());
        let _running = Running::start("the session", &mut command).unwrap();
        let (display, cookie) = session.begun().unwrap();
        assert_eq!(
            (display.as_str(), fs::read_to_string(cookie).unwrap().as_str()),
            (":7", "cookie")
        );
        let hog = hog.display();
        session.start_job("hogs", &format!("{hog} & {hog} & {hog} & wait")).unwrap();
        let leader = session.leader("hogs").unwrap().to_string();
        let all = wait_for("three hogs", SHOWN_MAX, || {
            let text = fs::read_to_string(session.folder.join("begun")).ok()?;
            (text.lines().count() == 3).then_some(text)
        });
        assert!(all.unwrap().lines().all(|group| group == leader), "they are one job");
        session.end_job("hogs").unwrap();
        wait_for("they have ended", SHOWN_MAX, || {
            // The session's shell reaps it with its next job.
            let stat = fs::read_to_string(format!("/proc/{leader}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        })
        .unwrap();
        assert_eq!(session.leader("hogs"), None);
        session.end_job("hogs").unwrap();
    }

    #[test]
    fn a_word_reaches_a_shell_as_it_is() {
        let word = "it's $HOME; \"x\"";
        let mut echoed = Command::new("sh");
        echoed.arg("-c").arg(format!("printf %s {}", quoted(word)));
        let echoed = echoed.output().unwrap();
        assert_eq!(String::from_utf8(echoed.stdout).unwrap(), word);
    }
}
