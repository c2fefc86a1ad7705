//! A key at 20 Hz into a terminal beside CPU hogs (Wong and Seltzer 2000, section 4.2): of the same
//! person, in the background of their session; of other people, outside of any session; and, for
//! thinc, in other people's desktops. thinc with and without priority, xrdp and TigerVNC. The
//! session starts all of it itself, on request, as a person's programs are. Knows sessions and
//! hogs; never how a server schedules.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use x11rb::connection::Connection as _;

use super::{PASSWORD, SHOWN_MAX, link, processes_of};
use crate::Error;
use crate::apps;
use crate::display::DisplayNumber;
use crate::net::testbed::Testbed;
use crate::observe::account::{Accounts as CpuAccounts, Group, Kind, cpu_ms_of};
use crate::observe::connect;
use crate::peers::accounts::Accounts;
use crate::peers::{Desk, Peer, broker, failure, thinc, tigervnc, xrdp};
use crate::process::{Headless, Running, wait_for};
use crate::questions::{pause, print_table};
use crate::results::{Measure, PeerRecord};
use crate::stage::{Site, Stage};
use crate::workloads::processors::{self, Division};
use crate::workloads::typing::Terminal;

/// Options of `hosting stalls`.
#[derive(clap::Args)]
pub struct Options {
    /// Numbers of hogs.
    #[arg(long, value_delimiter = ',', default_value = "0,2,10,50,100")]
    hogs: Vec<u32>,
    /// Keys beside each number of hogs.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(20..=1000))]
    keys: u32,
    /// Servers: thinc, thinc-off (priority = false), xrdp, tigervnc.
    #[arg(long, value_delimiter = ',', default_value = "thinc,thinc-off,xrdp,tigervnc")]
    servers: Vec<String>,
}

const SIZE: (u32, u32) = (1024, 768);
/// The paper's 20 Hz.
const PERIOD: Duration = Duration::from_millis(50);
/// What computes is found after 5 s; the same for all servers.
const SETTLES: Duration = Duration::from_secs(10);
/// Keys that are typed meanwhile: a person is there.
const KEYS_BEFORE: usize = 200;
/// Other people's desktops, which share the hogs.
const DESKTOPS: u32 = 4;
/// User ID of the first person outside of any session.
const OUTSIDERS: u32 = 62_000;

/// Whose the hogs are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Own,
    Others,
    OthersDesktops,
}

impl Whose {
    fn words(self) -> &'static str {
        match self {
            Whose::Own => "own",
            Whose::Others => "others'",
            Whose::OthersDesktops => "others', in their desktops",
        }
    }
}

/// A server whose session does what is written into a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Thinc { priority: bool },
    Xrdp,
    TigerVnc,
}

impl Server {
    fn named(name: &str) -> Result<Server, Error> {
        Ok(match name {
            "thinc" => Server::Thinc { priority: true },
            "thinc-off" => Server::Thinc { priority: false },
            "xrdp" => Server::Xrdp,
            "tigervnc" => Server::TigerVnc,
            other => {
                let known = "thinc, thinc-off, xrdp, tigervnc";
                return Err(format!("there is no server {other:?}; there are {known}").into());
            }
        })
    }

    /// All people but the first are others.
    fn people() -> Accounts {
        Accounts::with_password(1 + DESKTOPS, PASSWORD)
    }
}

/// A server on processors of its own, as if the client were another machine.
struct Host {
    server: Server,
    division: Option<Division>,
}

impl Host {
    fn on_server(&self) -> Result<(), Error> {
        self.division.as_ref().map_or(Ok(()), Division::start_on_server)
    }

    fn on_client(&self) -> Result<(), Error> {
        self.division.as_ref().map_or(Ok(()), Division::start_on_client)
    }
}

impl Peer for Host {
    fn name(&self) -> &'static str {
        match self.server {
            Server::Thinc { priority: true } => "thinc",
            Server::Thinc { priority: false } => "thinc-off",
            Server::Xrdp => "xrdp",
            Server::TigerVnc => "tigervnc",
        }
    }

    fn record(&self) -> PeerRecord {
        let (viewer, setting) = (thinc::Viewer::Native, thinc::Setting::Default);
        match self.server {
            Server::Thinc { .. } => thinc::Thinc { viewer, setting }.record(),
            Server::Xrdp => xrdp::Xrdp { remotefx: false }.record(),
            Server::TigerVnc => tigervnc::TigerVnc { lossless: false }.record(),
        }
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let folder = site.folder.path();
        let session = Session::of(folder, &Accounts::name(0))?;
        let (script, people) = (Session::script(folder), Server::people());
        self.on_server()?;
        match self.server {
            Server::Thinc { priority } => {
                let config = format!("priority = {priority}\n");
                let server = broker::start_configured(site, &script, &people, &config)?;
                self.on_client()?;
                let viewer = broker::view(site, &Accounts::name(0), PASSWORD)?;
                let (display, xauthority) = session.ready(site)?;
                wait_for("the session has the viewer's size", SHOWN_MAX, || {
                    let x = connect(&display, Some(&xauthority)).ok()?;
                    let root = &x.setup().roots[0];
                    let size = (root.width_in_pixels.into(), root.height_in_pixels.into());
                    (size == site.size).then_some(())
                })?;
                let xauthority = Some(xauthority);
                Ok(Desk { display, xauthority, held: vec![viewer, server], ..Desk::default() })
            }
            Server::Xrdp => {
                let number = DisplayNumber::reserve()?;
                let server = xrdp::start_server(site, &number, &script, &people)?;
                self.on_client()?;
                let viewer =
                    xrdp::Xrdp { remotefx: false }.view(site, &Accounts::name(0), PASSWORD)?;
                let (display, xauthority) = session.ready(site)?;
                Ok(Desk {
                    display,
                    xauthority: Some(xauthority),
                    held: vec![viewer, server],
                    displays: vec![number],
                    ..Desk::default()
                })
            }
            Server::TigerVnc => {
                let mut desk = tigervnc::TigerVnc { lossless: false }.start(site)?;
                processors::divide(&site.accounts)?;
                let file = site.folder.path().join("session.sh");
                fs::write(&file, script)?;
                let mut command = site.command(Group::Apps, "setsid");
                command.arg("sh").arg(&file).env("DISPLAY", &desk.display);
                command.env("USER", Accounts::name(0)).stdin(Stdio::null());
                // Ended before the server.
                desk.held.insert(0, Running::start("the session", &mut command)?);
                self.on_client()?;
                session.ready(site)?;
                Ok(desk)
            }
        }
    }
}

/// What a person's session is told to start.
struct Session {
    folder: PathBuf,
}

impl Session {
    /// Of the user of this name, in the folder of a site: before the session begins.
    fn of(site: &Path, user: &str) -> Result<Session, Error> {
        let folder = site.join(format!("session-{user}"));
        fs::create_dir_all(&folder)?;
        let pipe = folder.join("lines");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR)?;
        // It runs as that user.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        fs::set_permissions(&pipe, fs::Permissions::from_mode(0o666))?;
        Ok(Session { folder })
    }

    /// What each session runs: every line of its pipe is a job of its own.
    fn script(site: &Path) -> String {
        let folder = site.display();
        format!(
            "#!/bin/sh\ncd '{folder}'/session-$USER || exit\n\
             cp \"${{XAUTHORITY:-$HOME/.Xauthority}}\" cookie && chmod 644 cookie\n\
             echo \"$DISPLAY\" > ready.new\nmv ready.new ready\n\
             exec 3<> lines\nwhile read -r line <&3; do setsid sh -c \"$line\" 3<&- & done\n"
        )
    }

    /// Its display and a copy of its cookie file, which lies where nobody outside of the server's
    /// namespace finds it; once it has begun.
    fn ready(&self, site: &Site) -> Result<(String, PathBuf), Error> {
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

    fn run(&self, line: &str) -> Result<(), Error> {
        let mut pipe = OpenOptions::new().write(true).open(self.folder.join("lines"))?;
        Ok(writeln!(pipe, "{line}")?)
    }

    /// Starts so many hogs; each ends by itself too.
    fn start_hogs(&self, program: &Path, count: u32) -> Result<(), Error> {
        let hog = format!("{} app hog --seconds 300 & ", program.display());
        let many = hog.repeat(count as usize);
        self.run(&format!("echo $$ > hogs.new; mv hogs.new hogs; {many} wait"))?;
        wait_for("the hogs begin", SHOWN_MAX, || self.leader()).map(drop)
    }

    /// The process group of the hogs, in the session's own numbers.
    fn leader(&self) -> Option<u32> {
        fs::read_to_string(self.folder.join("hogs")).ok()?.trim().parse().ok()
    }

    fn end_hogs(&self) -> Result<(), Error> {
        if let Some(leader) = self.leader() {
            fs::remove_file(self.folder.join("hogs"))?;
            self.run(&format!("kill -s KILL -- -{leader}; touch ended"))?;
            let ended = self.folder.join("ended");
            wait_for("the hogs end", SHOWN_MAX, || ended.exists().then_some(()))?;
            fs::remove_file(ended)?;
        }
        Ok(())
    }
}

/// Measures and prints.
pub(super) fn run(options: &Options) -> Result<(), Error> {
    let bed = Arc::new(Testbed::start(&link("rtt=0ms")?, None)?);
    let mut columns = Vec::new();
    for name in &options.servers {
        let server = Server::named(name)?;
        let host = Host { server, division: Division::find()? };
        if let Some(why) = host.record().missing {
            eprintln!("{name} is left out: {why}");
            continue;
        }
        // Its thread alone is confined to the client's processors.
        let measures = std::thread::scope(|scope| {
            let measuring = scope.spawn(|| measure(&host, &bed, options));
            measuring.join().unwrap_or_else(|_| Err("the thread that measures panicked".into()))
        });
        let measures = measures.map_err(|error| format!("{}: {error}", host.name()))?;
        columns.push((host.name().to_owned(), measures));
    }
    println!("hosting: a key at 20 Hz beside hogs, {} keys each", options.keys);
    print_table(&columns);
    Ok(())
}

fn measure(host: &Host, bed: &Arc<Testbed>, options: &Options) -> Result<Vec<Measure>, Error> {
    host.on_client()?;
    // Without control groups: they would divide the processors between the parts of this harness.
    let cpu = Arc::new(CpuAccounts::of_kind("stalls", Kind::Proc)?);
    let stage = Stage::start(host, bed, &cpu, SIZE)?;
    let session = Session { folder: stage.site.folder.path().join("session-bench") };
    // Other users cannot look into the folder of a build.
    let program = stage.site.folder.path().join("thinc-bench");
    fs::copy(&apps::words(&[])?[0], &program)?;
    let kinds: &[Whose] = match host.server {
        Server::Thinc { .. } => &[Whose::Own, Whose::Others, Whose::OthersDesktops],
        _ => &[Whose::Own, Whose::Others],
    };
    let mut found = Vec::new();
    for &whose in kinds {
        for &hogs in options.hogs.iter().filter(|&&hogs| hogs > 0 || whose == Whose::Own) {
            let _hogs = Hogs::start(host, &stage, &session, &program, whose, hogs)?;
            let part = match hogs {
                0 => "0 hogs".to_owned(),
                _ => format!("{hogs} hogs, {}", whose.words()),
            };
            found.extend(type_beside(&stage, &session, options.keys as usize, &part)?);
        }
    }
    Ok(found)
}

/// Types until what computes was found, and then what counts.
fn type_beside(
    stage: &Stage,
    session: &Session,
    keys: usize,
    part: &str,
) -> Result<Vec<Measure>, Error> {
    let terminal = Terminal::open_within(stage, |arguments| {
        let quoted: Vec<String> =
            arguments.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        session.run(&format!("echo $$ > xterm.pid; exec xterm {}", quoted.join(" ")))
    })?;
    let before = KEYS_BEFORE.min(terminal.room() - keys);
    terminal.type_keys(stage, 1, before, SETTLES / before as u32, || true)?;
    let echoes = terminal.type_keys(stage, 1 + before, keys, PERIOD, || true)?;
    session.run("kill $(cat xterm.pid)")?;
    stage.settle()?;
    Ok(echoes.measures(part, PERIOD))
}

/// Hogs, which end with this.
struct Hogs<'a> {
    own: Option<&'a Session>,
    outside: Vec<Outside>,
    desktops: Vec<(Session, Headless)>,
}

impl<'a> Hogs<'a> {
    fn start(
        host: &Host,
        stage: &Stage,
        session: &'a Session,
        program: &Path,
        whose: Whose,
        count: u32,
    ) -> Result<Hogs<'a>, Error> {
        let mut hogs = Hogs { own: None, outside: Vec::new(), desktops: Vec::new() };
        match whose {
            _ if count == 0 => {}
            Whose::Own => {
                hogs.own = Some(session);
                session.start_hogs(program, count)?;
            }
            Whose::Others => {
                host.on_server()?;
                for index in 0..count {
                    hogs.outside.push(Outside::start(program, OUTSIDERS + index)?);
                }
                host.on_client()?;
                wait_for("the hogs compute", SHOWN_MAX, || {
                    let pids = hogs.outside.iter().filter_map(Outside::hog);
                    let used: f64 = pids.filter_map(|pid| cpu_ms_of(pid).ok()).sum();
                    (used > 20.0 * f64::from(count)).then_some(())
                })?;
            }
            Whose::OthersDesktops => {
                for index in 1..=DESKTOPS {
                    let name = Accounts::name(index);
                    let theirs = Session::of(stage.site.folder.path(), &name)?;
                    let mut viewer = broker::view_headless(&stage.site, &name, PASSWORD, &[])?;
                    theirs.ready(&stage.site)?;
                    viewer.say("wait-quiet")?;
                    theirs.start_hogs(program, count.div_ceil(DESKTOPS))?;
                    hogs.desktops.push((theirs, viewer));
                }
            }
        }
        pause(Duration::from_secs(1))?;
        Ok(hogs)
    }
}

impl Drop for Hogs<'_> {
    fn drop(&mut self) {
        // All of them end by themselves as well.
        if let Some(session) = self.own {
            let _ = session.end_hogs();
        }
        for (index, (session, _)) in (1..).zip(&self.desktops) {
            let _ = session.end_hogs();
            // The desktop ends with what it runs.
            let _ = session.run("kill -TERM $PPID");
            let _ = wait_for("a desktop ends", SHOWN_MAX, || {
                let left = processes_of(Accounts::uid(index)).ok()?;
                (!left.iter().any(|(_, name)| name == "Xorg")).then_some(())
            });
            let _ = fs::remove_dir_all(&session.folder);
        }
    }
}

/// A hog of somebody who has logged in without a desktop: in a session of processes of its own, as
/// each login has one. The process that waits for it is held.
struct Outside(Running);

impl Outside {
    fn start(program: &Path, uid: u32) -> Result<Outside, Error> {
        let mut hog = Command::new("setsid");
        hog.arg("--wait").arg(program).args(["app", "hog", "--seconds", "300"]);
        hog.uid(uid).gid(uid).stdin(Stdio::null()).stdout(Stdio::null());
        Running::start("hog", &mut hog).map(Outside)
    }

    fn hog(&self) -> Option<u32> {
        let waits = self.0.pid();
        let children = fs::read_to_string(format!("/proc/{waits}/task/{waits}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let hog = self.hog().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(hog) = hog {
            let _ = kill_process(hog, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Folder;

    #[test]
    fn a_session_begins_and_starts_and_ends_hogs() {
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
        session.start_hogs(&hog, 3).unwrap();
        let leader = session.leader().unwrap().to_string();
        let all = wait_for("three hogs", SHOWN_MAX, || {
            let text = fs::read_to_string(session.folder.join("begun")).ok()?;
            (text.lines().count() == 3).then_some(text)
        });
        assert!(all.unwrap().lines().all(|group| group == leader), "they are one job");
        session.end_hogs().unwrap();
        wait_for("they have ended", SHOWN_MAX, || {
            // The session's shell reaps it with its next job.
            let stat = fs::read_to_string(format!("/proc/{leader}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        })
        .unwrap();
        assert_eq!(session.leader(), None);
    }

    #[test]
    fn servers_have_names_and_others_are_named_in_the_error() {
        for name in ["thinc", "thinc-off", "xrdp", "tigervnc"] {
            assert!(Server::named(name).is_ok());
        }
        let error = Server::named("vnc").err().unwrap().to_string();
        assert!(error.contains("\"vnc\"") && error.contains("thinc-off"), "{error}");
    }
}
